// The GPU's kernels, on a GPU: the op cases.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ops/register_ops.h"
#include "tests/gpu/cuda_engine.h"
#include "tests/support/op_case.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

class GpuOpCaseTest : public CudaEngineTest {
 protected:
  void SetUp() override { StartOnGpu(); }

  // The case as a function of its inputs: what it returned is compared with TensorFlow's results.
  absl::Status RunCase(const OpCase& op_case, const OpDef& op) {
    FORMWORK_ASSIGN_OR_RETURN(const AttrMap attrs, TypedAttrs(op_case, op));
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<DType> dtypes, ArgDTypes(op.inputs, attrs));
    std::string text;
    std::vector<std::string> names;
    std::vector<TensorSpec> specs;
    std::vector<Tensor> values;
    for (size_t i = 0; i < dtypes.size(); ++i) {
      names.push_back(absl::StrCat("x", i));
      absl::StrAppend(&text, names.back(), " = Placeholder dtype=", DTypeName(dtypes[i]), "\n");
      specs.push_back(Spec(absl::StrCat(names.back(), ":0"), dtypes[i]));
      FORMWORK_ASSIGN_OR_RETURN(values.emplace_back(),
                                MakeValue(op_case.inputs[i], engine_->allocator()));
    }
    absl::StrAppend(&text, "y = ", op_case.op, "(", absl::StrJoin(names, ", "), ")");
    for (const auto& [name, value] : op_case.attrs) absl::StrAppend(&text, " ", name, "=", value);
    std::vector<std::string> outputs;
    for (size_t i = 0; i < op_case.outputs.size(); ++i) outputs.push_back(absl::StrCat("y:", i));
    // Of a case that is to fail no outputs are written down, but what nobody wants is not run.
    if (outputs.empty() && !op.outputs.empty()) outputs.push_back("y:0");
    FORMWORK_ASSIGN_OR_RETURN(const Registered made, Register("f", text, specs, outputs, {}, {},
                                                              /*replace=*/true));
    const CallResult result = Run(made.function.id, std::move(values));
    FORMWORK_RETURN_IF_ERROR(result.status);
    for (size_t i = 0; i < op_case.outputs.size(); ++i) {
      FORMWORK_RETURN_IF_ERROR(
          CompareValue(op_case.outputs[i], result.outputs[i].tensor, op_case.tolerance));
    }
    return absl::OkStatus();
  }

  // RunCase feeds no variables.
  static bool OfResources(const OpCase& op_case) {
    return std::any_of(op_case.inputs.begin(), op_case.inputs.end(), [](const ValueText& input) {
      return input.dtype == DType::kResource || input.dtype == DType::kString;
    });
  }
};

TEST_F(GpuOpCaseTest, KernelsComputeWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  RegisterCudaKernels(kernels);
  int tried = 0, refused = 0;
  for (const std::string file :
       {"elementwise", "nn", "matmul", "array", "array_layout", "cast", "conv3d", "crop", "gather",
        "image", "image_color", "lrn", "random", "reduction", "segment"}) {
    std::ifstream stream(absl::StrCat("tests/ops/", file, ".optest"));
    std::stringstream text;
    text << stream.rdbuf();
    ASSERT_OK_AND_ASSIGN(const std::vector<OpCase> cases, ParseOpCases(file, text.str()));
    for (OpCase op_case : cases) {
      if (kernels.Find(op_case.op) == nullptr || OfResources(op_case)) continue;
      if (IsOrderOpen(op_case)) continue;
      // Its logarithms, sines and cosines are not the host's to the last bit.
      if (file == "random" && absl::StrContains(op_case.op, "Normal")) op_case.tolerance.reset();
      // Hundreds of numbers are added in an order that is open.
      if (op_case.op == "ResizeBilinearGrad" && op_case.inputs[0].dtype == DType::kFloat) {
        op_case.tolerance = {.rel = 1e-4, .abs = 1e-5};
      }
      const absl::Status status = RunCase(op_case, *ops.Find(op_case.op));
      if (op_case.error != absl::StatusCode::kOk) {
        // Of shapes, or of elements: then by the call's word.
        EXPECT_EQ(status.code(), op_case.error) << file << ":" << op_case.line << " " << status;
        ++refused;
        continue;
      }
      EXPECT_OK(status) << file << ":" << op_case.line << " " << op_case.op;
      ++tried;
    }
  }
  int64_t on_host = 0;
  for (const auto& [op, nodes] : engine_->Stats().fallbacks) on_host += static_cast<int64_t>(nodes);
  EXPECT_GT(tried, 1000);
  EXPECT_GT(refused, 20);
  EXPECT_LT(on_host, tried / 2);  // Complex numbers, among others.
  std::cout << tried << " cases, " << on_host << " of them on the host, and " << refused
            << " that fail\n";
}

// What normalises rows is one node; TensorFlow's op for it is in no op case.
TEST_F(GpuOpCaseTest, LayerNormsAreThoseOfTheirParts) {
  ASSERT_OK_AND_ASSIGN(const Registered norm,
                       Register("norm", R"(
    x = Placeholder dtype=float
    e = Const float[] 0.01
    l = Const int32[1] -1
    g = Const float[4] 1 2 3 4
    b = Const float[4] 0 -1 0 1
    m = Mean(x, l) T=float Tidx=int32 keep_dims=true
    d = SquaredDifference(x, m) T=float
    v = Mean(d, l) T=float Tidx=int32 keep_dims=true
    w = AddV2(v, e) T=float
    r = Rsqrt(w) T=float
    i = Mul(r, g) T=float
    p = Mul(x, i) T=float
    k = Mul(m, i) T=float
    q = Sub(b, k) T=float
    y = AddV2(p, q) T=float
  )",
                                {{"x:0", DType::kFloat, PartialShape(Shape({3, 4}))}}, {"y:0"}));
  const Tensor x = TensorOf<float>(Shape({3, 4}), {1, 2, 3, 4, 0, 0, 0, 0, -5, 5, -5, 5});
  const CallResult result = Run(norm.function.id, Owned(Tensor(x)));
  ASSERT_OK(result.status);
  const float one = 1 / std::sqrt(1.25f + 0.01f), five = 5 / std::sqrt(25.01f);
  const float expected[] = {-1.5f * one, -1.0f * one - 1, 1.5f * one, 6.0f * one + 1, 0, -1, 0, 1,
                            -five,       2 * five - 1,    -3 * five,  4 * five + 1};
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(result.outputs[0].tensor.data<float>()[i], expected[i], 1e-5) << i;
  }
}

// A CUDA graph has what its kernels had copied from memory of the host that has gone since.
TEST_F(GpuOpCaseTest, ACapturedCallCopiesWhatTheFirstOneDid) {
  ASSERT_OK_AND_ASSIGN(const Registered made, Register("f", R"(
    x = Placeholder dtype=float
    even = Const int32[2] 2 0
    odd = Const int32[2] 3 1
    n = Neg(x) T=float
    d = DynamicStitch(even, odd, x, n) N=2 T=float
    b = Bucketize(d) T=float boundaries=[0.5,2.5]
    c = Cast(b) SrcT=int32 DstT=float
    y = Sub(d, c) T=float
  )",
                                                       {Spec("x:0")}, {"y:0"}));
  for (int round = 0; round < 12; ++round) {
    const float x = static_cast<float>(round % 4);
    const CallResult result = Run(made.function.id, Owned(TensorOf<float>(Shape({2}), {x, x + 1})));
    ASSERT_OK(result.status);
    const float stitched[] = {x + 1, -x - 1, x, -x};
    for (int64_t i = 0; i < 4; ++i) {
      const float buckets =
          (stitched[i] >= 0.5f ? 1.0f : 0.0f) + (stitched[i] >= 2.5f ? 1.0f : 0.0f);
      EXPECT_EQ(result.outputs[0].tensor.data<float>()[i], stitched[i] - buckets) << i;
    }
  }
  EXPECT_GT(engine_->Stats().calls_repeated, 0);
}

// The calls of FailureWordTest (tests/streams), on the GPU.
TEST_F(GpuOpCaseTest, NothingAfterABadIndexHasAnEffect) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(const Registered step, Register("step", R"(
    x = Placeholder dtype=float
    i = Placeholder dtype=int64
    v = Placeholder dtype=resource
    nought = Const int64[] 0
    two = Const float[2] 10 20
    a = AssignVariableOp(v, x) dtype=float
    g = GatherV2(two, i, nought, ^a) Tparams=float Tindices=int64 Taxis=int64
    b = AssignAddVariableOp(v, g, ^a) dtype=float
    r = ReadVariableOp(v, ^b) dtype=float
    m = Mul(r, x) T=float
    c = AssignVariableOp(v, m) dtype=float
  )",
                                                       {Spec("x:0"), Spec("i:0", DType::kInt64)},
                                                       {"m:0"}, {{"v:0", "v"}}, {"a", "b", "c"}));
  for (int round = 0; round < 50; ++round) {
    const CallResult good =
        Run(step.function.id, Owned(Tensor::Scalar(2.0f), Tensor::Scalar(int64_t{1})));
    ASSERT_OK(good.status);
    EXPECT_EQ(good.outputs[0].tensor.scalar<float>(), 44);
    EXPECT_EQ(ValueOf("v"), 44);
    const CallResult bad =
        Run(step.function.id, Owned(Tensor::Scalar(3.0f), Tensor::Scalar(int64_t{7 + round})));
    EXPECT_THAT(bad.status, StatusIs(absl::StatusCode::kInvalidArgument,
                                     ::testing::HasSubstr(absl::StrCat(
                                         "node 'g': indices = ", 7 + round, " is not in [0, 2)"))));
    EXPECT_EQ(ValueOf("v"), 3);  // What came before stays.
  }
}

}  // namespace
}  // namespace formwork::testing
