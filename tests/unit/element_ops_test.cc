// What GPUs compute of elements (gpu/element_ops.inc), compiled for the host, against the op cases.

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/dims.h"
#include "core/ops/elementwise.h"
#include "core/ops/register_ops.h"
#include "gpu/element_functions.h"
#include "gpu/element_source.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace expressions {
using namespace formwork_element;  // As in the kernels' text.
#define FORMWORK_ELEMENT_OP(op, arity, dtypes, result, expression)                     \
  struct op##Element {                                                                 \
    static constexpr bool kFails = absl::string_view(#dtypes) == "kDivided";           \
    template <typename T>                                                              \
    static auto Of([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) { \
      return expression;                                                               \
    }                                                                                  \
  };
#include "gpu/element_ops.inc"
#undef FORMWORK_ELEMENT_OP
}  // namespace expressions

template <typename T>
using Computes =
    std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float, T>;

// Whether an op of kDivided fails at b (ElementOp::MayFail).
template <typename Element, typename T>
bool Refuses(T b) {
  return Element::kFails && std::is_integral_v<T> && b == T(0);
}

// The element of `operand` that stands at place `i` of `shape`, to which it broadcasts.
int64_t PlaceIn(const Shape& operand, const Shape& shape, int64_t i) {
  if (operand.num_elements() == shape.num_elements()) return i;
  int64_t place = 0, step = 1;
  for (int d = 1; d <= shape.rank(); ++d) {
    const int64_t at = i % shape.dim(shape.rank() - d);
    i /= shape.dim(shape.rank() - d);
    if (d > operand.rank()) continue;
    const int64_t dim = operand.dim(operand.rank() - d);
    if (dim != 1) place += at * step;
    step *= dim;
  }
  return place;
}

template <typename Element, typename In>
absl::Status Run(KernelContext& ctx) {
  using T = Computes<In>;
  const absl::Span<const int64_t> first = ctx.input(0).shape().dims();
  Dims dims(first.begin(), first.end());
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    const Shape& shape = ctx.input(i).shape();
    const std::optional<Dims> both = BroadcastDims(dims, shape.dims());
    // Of gradients the elements are as many, whatever the shapes.
    if (!both && CountElements(dims) != shape.num_elements()) return InvalidArgument("shapes");
    if (both) dims = *both;
  }
  using Out = std::conditional_t<std::is_same_v<decltype(Element::Of(T(), T(), T())), bool> &&
                                     !std::is_same_v<In, bool>,
                                 bool, In>;
  const Shape shape = Shape::Trusted(dims);
  FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Allocate(ctx.allocator(), DTypeOf<Out>::value, shape));
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    T operands[3] = {};
    for (int k = 0; k < ctx.num_inputs(); ++k) {
      const Tensor& input = ctx.input(k);
      operands[k] = static_cast<T>(input.data<In>()[PlaceIn(input.shape(), shape, i)]);
    }
    if (Refuses<Element>(operands[1])) return InvalidArgument("Integer division by zero");
    out.mutable_data<Out>()[i] =
        static_cast<Out>(Element::Of(operands[0], operands[1], operands[2]));
  }
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

using Loop = absl::Status (*)(KernelContext&);
using Loops = std::map<DType, Loop>;

template <typename Element, typename... Ins>
Loops LoopsOf() {
  return {{DTypeOf<Ins>::value, &Run<Element, Ins>}...};
}
#define kFloats float, double, half, bfloat16
#define kIntegers int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
#define kNumbers kFloats, kIntegers
#define kDivided kNumbers
#define kBools bool

const std::map<std::string, Loops>& ElementLoops() {
  static const auto* const loops = new std::map<std::string, Loops>{
#define FORMWORK_ELEMENT_OP(op, arity, dtypes, result, expression) \
  {#op, LoopsOf<expressions::op##Element, dtypes>()},
#include "gpu/element_ops.inc"
#undef FORMWORK_ELEMENT_OP
  };
  return *loops;
}

absl::StatusOr<KernelFn> MakeElement(KernelInit& init) {
  const Loop loop = ElementLoops().at(std::string(init.op().name)).at(init.input_dtypes()[0]);
  return KernelFn([loop](KernelContext& ctx) { return loop(ctx); });
}

// LeakyRelu and its gradient, with alpha for the last operand.
template <typename Element, typename In>
absl::Status RunBound(KernelContext& ctx, float given) {
  const Tensor alpha = Tensor::Scalar(static_cast<In>(given));
  std::vector<InputRef> inputs(ctx.inputs().begin(), ctx.inputs().end());
  inputs.push_back({&alpha, false});
  Tensor output;
  KernelContext with_alpha(ctx.call(), inputs, absl::MakeSpan(&output, 1));
  FORMWORK_RETURN_IF_ERROR((Run<Element, In>(with_alpha)));
  ctx.SetOutput(0, std::move(output));
  return absl::OkStatus();
}
template <typename Element>
absl::StatusOr<KernelFn> MakeLeakyRelu(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const float alpha, init.attrs().Get<float>("alpha"));
  const DType dtype = init.input_dtypes()[0];
  return KernelFn([alpha, dtype](KernelContext& ctx) -> absl::Status {
    if (ctx.num_inputs() == 2) {
      FORMWORK_RETURN_IF_ERROR(
          CheckGradient("LeakyReluGrad", ctx.input(0).shape().dims(), ctx.input(1).shape().dims()));
    }
    switch (dtype) {
      FORMWORK_FLOAT_CASES(return (RunBound<Element, T>(ctx, alpha)))
      default:
        return Internal("no float");
    }
  });
}

TEST(ElementOpsTest, OpsWithAnAttrComputeWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("LeakyRelu", &MakeLeakyRelu<expressions::_LeakyReluElement>);
  kernels.Add("LeakyReluGrad", &MakeLeakyRelu<expressions::_LeakyReluGradElement>);
  std::map<std::string, int> tried = RunGpuCases({.files = {"elementwise"}}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 4) << op;
}

TEST(ElementOpsTest, TheLastOperandMayBeANumber) {
  const BoundElementOp relu("LeakyRelu", *FindElementOp("_LeakyRelu"), 0.25);
  EXPECT_EQ(relu.op.name, "LeakyRelu");
  EXPECT_EQ(relu.op.arity, 1);
  EXPECT_EQ(relu.op.expression, "[](T a, T b) { return a > T(0) ? a : a * b; }(a, T(0.25))");
  const BoundElementOp gradient("LeakyReluGrad", *FindElementOp("_LeakyReluGrad"), -1e-300);
  EXPECT_EQ(gradient.op.arity, 2);
  EXPECT_TRUE(absl::EndsWith(gradient.op.expression, "}(a, b, T(-1e-300))"))
      << gradient.op.expression;
}

// Every op's at every dtype that TensorFlow has a case of.
TEST(ElementOpsTest, ComputeWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  for (const auto& [op, loops] : ElementLoops()) {
    if (op[0] != '_') kernels.Add(op, &MakeElement);
  }
  std::map<std::string, int> tried;
  int refused = 0;
  for (const std::string file : {"elementwise", "nn"}) {
    std::ifstream stream("tests/ops/" + file + ".optest");
    std::stringstream text;
    text << stream.rdbuf();
    ASSERT_OK_AND_ASSIGN(const std::vector<OpCase> cases, ParseOpCases(file, text.str()));
    for (const OpCase& op_case : cases) {
      const auto found = ElementLoops().find(op_case.op);
      const bool divides_by_zero = absl::StrContains(op_case.error_text, "division by zero");
      if (found == ElementLoops().end()) continue;
      if (op_case.error != absl::StatusCode::kOk && !divides_by_zero) continue;
      refused += divides_by_zero;
      ASSERT_OK_AND_ASSIGN(const AttrMap attrs, TypedAttrs(op_case, *ops.Find(op_case.op)));
      if (!found->second.contains(op_case.inputs[0].dtype) || !RefusesShapes(attrs)) continue;
      EXPECT_OK(RunOpCase(op_case, ops, kernels))
          << file << ":" << op_case.line << " " << op_case.op;
      ++tried[op_case.op];
    }
  }
  EXPECT_GT(refused, 0);
  for (const auto& [op, loops] : ElementLoops()) {
    if (op[0] == '_') continue;
    EXPECT_GT(tried[op], 0) << op;
  }
}

}  // namespace
}  // namespace formwork::testing
