// What GPUs do of segments and counts (gpu/segment_functions.h), item by item, on the host against
// the op cases: results, and what a word says of ids that are out of range.

#include <cstring>
#include <map>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/moves.h"
#include "gpu/segment_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;
using element::MayFailItem;

// In order: the cases of half precision are rounded in this one.
template <typename Item>
void RunItems(const Item& item, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) item(i);
}

absl::Status Refuse() { return Unimplemented("a dtype that a GPU leaves to the host"); }

template <typename Call>
auto WithIndex(DType dtype, Call call) {
  return dtype == DType::kInt32 ? call(int32_t()) : call(int64_t());
}

template <typename Op>
absl::StatusOr<KernelFn> MakeSegment(KernelInit& init) {
  const SegmentOp* op = nullptr;
  for (const SegmentOp& each : SegmentOps()) {
    if (each.op == init.op().name) op = &each;
  }
  const DType dtype = init.input_dtypes()[0];
  if (!SegmentItemName(*op, dtype, init.input_dtypes()[1]).ok()) return Refuse();
  return KernelFn([op, dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& data = ctx.input(0);
    const Tensor& ids = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const SegmentGeometry geometry,
        PrepareUnsortedSegment(data.shape().dims(), ids.shape().dims(), &ctx.input(2)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, shape));
    const element::Bytes16 first = FirstOfSegment(*op, dtype);
    WithUnit(DTypeSize(dtype), [&](auto e) {
      element::SetItem<decltype(e)> item{};
      std::memcpy(&item.value, &first, sizeof(e));
      item.to = static_cast<decltype(e)*>(out.mutable_raw());
      RunItems(item, static_cast<uint64_t>(out.num_elements()));
    });
    FailureWord word;
    const auto run = [&](auto t) {
      return WithIndex(ids.dtype(), [&](auto index) {
        RunItems(SegmentItemOf<decltype(t), decltype(index), Op>(geometry, data, ids, out,
                                                                 MayFailItem{&word, 5}),
                 SegmentItems(geometry, ids));
        return absl::OkStatus();
      });
    };
    switch (dtype) {
      FORMWORK_REAL_CASES(FORMWORK_RETURN_IF_ERROR(run(T())); break)
      default:
        return Refuse();
    }
    if (word.failed_step() != 0) return SegmentOutOfRange(word.where, geometry.output[0]);
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeBincount(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BincountAttrs attrs, BincountAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& values = ctx.input(0);
    const Tensor& weights = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                              PrepareCounts(values.shape(), ctx.input(1), weights.shape()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor bins,
                              Tensor::Allocate(ctx.allocator(), weights.dtype(), shape));
    if (bins.bytes() > 0) std::memset(bins.mutable_raw(), 0, bins.bytes());
    FailureWord word;
    const auto run = [&](auto t) {
      return WithIndex(values.dtype(), [&](auto index) {
        RunItems(CountItemOf<decltype(t), decltype(index)>(values, weights, attrs.binary_output,
                                                           bins, MayFailItem{&word, 5}),
                 static_cast<uint64_t>(values.num_elements()));
        return absl::OkStatus();
      });
    };
    switch (weights.dtype()) {
      FORMWORK_CASE(float, FORMWORK_RETURN_IF_ERROR(run(T())); break)
      FORMWORK_CASE(double, FORMWORK_RETURN_IF_ERROR(run(T())); break)
      FORMWORK_CASE(int32_t, FORMWORK_RETURN_IF_ERROR(run(T())); break)
      default:
        FORMWORK_RETURN_IF_ERROR(run(int64_t()));
    }
    if (word.failed_step() != 0) return NegativeCounted();
    ctx.SetOutput(0, std::move(bins));
    return absl::OkStatus();
  });
}

TEST(GpuSegmentsTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("UnsortedSegmentSum", &MakeSegment<element::SegmentSum>);
  kernels.Add("UnsortedSegmentProd", &MakeSegment<element::SegmentProd>);
  kernels.Add("UnsortedSegmentMax", &MakeSegment<element::SegmentMax>);
  kernels.Add("UnsortedSegmentMin", &MakeSegment<element::SegmentMin>);
  kernels.Add("DenseBincount", &MakeBincount);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"segment", "reduction"}, .some_are_hosts = true}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 10) << op;
}

TEST(GpuSegmentsTest, TheWordTellsTheId) {
  EXPECT_EQ(SegmentOutOfRange(element::WhereOf(4, 7), 5).message(),
            "segment_ids[4] = 7 is out of range [0, 5)");
  EXPECT_EQ(SegmentOutOfRange(element::WhereOf(4, 1ll << 40), 5).message(),
            "segment_ids[4] is out of range [0, 5)");
  EXPECT_EQ(SegmentOutOfRange(element::WhereOf(1ll << 32, 9), 5).message(),
            "segment_ids is out of range [0, 5)");
}

// What is left to the host, before anything is compiled.
TEST(GpuSegmentsTest, SomeDTypesAreTheHosts) {
  const SegmentOp& sum = SegmentOps()[0];
  EXPECT_OK(SegmentItemName(sum, DType::kBfloat16, DType::kInt32));
  for (const DType dtype : {DType::kInt8, DType::kUint8, DType::kComplex64}) {
    EXPECT_THAT(SegmentItemName(sum, dtype, DType::kInt32),
                StatusIs(absl::StatusCode::kUnimplemented));
  }
  EXPECT_THAT(SegmentItemName(sum, DType::kFloat, DType::kInt16),
              StatusIs(absl::StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace formwork::testing
