// What cuDNN has engines for, which needs no GPU: it is told the properties of one.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/cudnn_attention.h"
#include "gpu/cudnn_conv.h"
#include "gpu/gpu.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

// As cuDNN writes them, of an H100.
constexpr absl::string_view kH100 = R"({
  "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
  "maxThreadsPerSM": 2048, "maxBlockSize": [1024, 1024, 64],
  "maxGridSize": [2147483647, 65535, 65535], "smClockRateKHz": 1980000,
  "memClockRateKHz": 2619000, "l2CacheSize": 52428800, "totalGlobalMem": 85520809984,
  "pciDeviceId": 9008, "isTccDriver": 0, "supportCoopLaunch": 1
})";

absl::StatusOr<CudnnDescriptor> H100() {
  FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor device,
                            CudnnDescriptor::Make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
  FORMWORK_RETURN_IF_ERROR(device.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                      absl::MakeConstSpan(kH100.data(), kH100.size())));
  FORMWORK_RETURN_IF_ERROR(device.Finalize());
  return device;
}

ConvAxis Axis(int64_t input, int64_t taps, int64_t stride) {
  const int64_t output = (input + stride - 1) / stride;
  const int64_t pad = std::max<int64_t>((output - 1) * stride + taps - input, 0);
  return {input, output, taps, stride, 1, pad / 2, pad - pad / 2};
}

struct Case {
  const char* what;
  int64_t batch, size, in, out, taps, stride, groups;
};
// Of ResNet50 and its training, but for those of 1x1 that are products; of ResNeXt; of odd
// channels.
constexpr Case kCases[] = {{"the first of ResNet50", 64, 224, 3, 64, 7, 2, 1},
                           {"conv2", 64, 56, 64, 64, 3, 1, 1},
                           {"conv3, 1x1, stride", 64, 56, 256, 512, 1, 2, 1},
                           {"conv3", 64, 28, 128, 128, 3, 1, 1},
                           {"conv4", 64, 14, 256, 256, 3, 1, 1},
                           {"conv5", 64, 7, 512, 512, 3, 1, 1},
                           {"one image", 1, 56, 64, 64, 3, 1, 1},
                           {"groups", 8, 28, 128, 128, 3, 1, 32},
                           {"odd channels", 4, 17, 5, 7, 3, 2, 1}};

ConvShape ShapeOf(const Case& c, bool channels_first) {
  const ConvAxis axis = Axis(c.size, c.taps, c.stride);
  return {c.batch, c.in, c.out, c.groups, axis, axis, channels_first};
}

TEST(CudnnPlansTest, AnH100HasEnginesForConvolutions) {
  if (Cudnn::Find() == nullptr) GTEST_SKIP() << "cuDNN is not there";
  const absl::StatusOr<CudnnDescriptor> device = H100();
  ASSERT_OK(device);
  int of_floats = 0;
  for (const Case& c : kCases) {
    for (const bool channels_first : {false, true}) {
      for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
        for (const ConvPass pass :
             {ConvPass::kForward, ConvPass::kInputGradient, ConvPass::kFilterGradient}) {
          SCOPED_TRACE(absl::StrCat(c.what, channels_first ? ", NCHW, " : ", ", DTypeName(dtype),
                                    ", pass ", static_cast<int>(pass)));
          const auto plan = PlanConv(pass, dtype, ShapeOf(c, channels_first), &*device);
          if (DTypeSize(dtype) == 2) {
            ASSERT_OK(plan);
          } else if (!plan.ok()) {  // Without TF32, and within the memory.
            EXPECT_TRUE(absl::IsUnimplemented(plan.status())) << plan.status();
          } else {
            ++of_floats;
          }
          if (plan.ok()) {
            EXPECT_LE((*plan)->workspace_bytes(), CudnnPlan::kMostWorkspaceBytes);
          }
        }
      }
    }
  }
  EXPECT_GT(of_floats, 90);  // Of 108.
}

TEST(CudnnPlansTest, Tf32HasToBeAllowed) {
  if (Cudnn::Find() == nullptr) GTEST_SKIP() << "cuDNN is not there";
  const absl::StatusOr<CudnnDescriptor> device = H100();
  ASSERT_OK(device);
  // Without, images are copied to where channels are first.
  const auto workspace = [&] {
    const auto plan = PlanConv(ConvPass::kForward, DType::kFloat,
                               ShapeOf({"conv3", 64, 28, 128, 128, 3, 1, 1}, false), &*device);
    EXPECT_OK(plan);
    return (*plan)->workspace_bytes();
  };
  EXPECT_GT(workspace(), 10u << 20);
  AllowTf32(true);
  EXPECT_LT(workspace(), 1u << 20);
  AllowTf32(false);
  EXPECT_GT(workspace(), 10u << 20);
}

TEST(CudnnPlansTest, WhatOurKernelsDoIsNotAskedFor) {
  if (Cudnn::Find() == nullptr) GTEST_SKIP() << "cuDNN is not there";
  const absl::StatusOr<CudnnDescriptor> device = H100();
  ASSERT_OK(device);
  const auto plan = [&](const Case& c) {
    return PlanConv(ConvPass::kForward, DType::kHalf, ShapeOf(c, false), &*device).status().code();
  };
  EXPECT_EQ(plan({"depthwise", 8, 28, 128, 128, 3, 1, 128}), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(plan({"no images", 0, 28, 128, 128, 3, 1, 1}), absl::StatusCode::kUnimplemented);
}

// Its engines are compiled and loaded for the GPU at hand. Heads before and behind the rows, as
// clients write them; lengths that fill no block.
TEST(CudnnPlansTest, AGpuHasEnginesForAttention) {
  if (Cudnn::Find() == nullptr) GTEST_SKIP() << "cuDNN is not there";
  if (const auto gpu = NewCudaDevice(0); !gpu.ok()) GTEST_SKIP() << gpu.status();
  for (const DType dtype : {DType::kHalf, DType::kBfloat16}) {
    for (const int64_t size : {8, 64, 80, 128}) {
      for (const auto& [queries, keys] :
           {std::pair<int64_t, int64_t>{512, 512}, {500, 77}, {1, 1024}, {1, 1}}) {
        for (const bool heads_last : {false, true}) {
          constexpr int64_t kBatch = 8, kHeads = 16;
          const auto layout = [&](int64_t rows) -> formwork_element::AttentionLayout {
            return {kHeads * rows * size, heads_last ? size : rows * size,
                    heads_last ? kHeads * size : size, 1};
          };
          const formwork_element::AttentionCall call = {
              kHeads, queries,         keys,         size,         size,
              0.125f, layout(queries), layout(keys), layout(keys), layout(queries)};
          const auto description = AttentionDescription::Of(kBatch, call);
          ASSERT_TRUE(description.has_value());
          EXPECT_OK(PlanAttention(dtype, *description, /*device=*/nullptr))
              << DTypeName(dtype) << " " << size << " " << queries << "x" << keys
              << (heads_last ? ", heads last" : "");
        }
      }
    }
  }
}

}  // namespace
}  // namespace formwork::testing
