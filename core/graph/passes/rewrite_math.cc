#include "core/graph/passes/rewrite_math.h"

#include <complex>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/ops/default_attrs.h"

namespace formwork {
namespace {

// The scalar's value, where it is a real number.
std::optional<double> RealValue(const Tensor& scalar) {
  auto real = [](auto value) -> std::optional<double> {
    if (value.imag() != 0) return std::nullopt;
    return value.real();
  };
  switch (scalar.dtype()) {
    case DType::kHalf:
      return static_cast<float>(scalar.scalar<half>());
    case DType::kBfloat16:
      return static_cast<float>(scalar.scalar<bfloat16>());
    case DType::kFloat:
      return scalar.scalar<float>();
    case DType::kDouble:
      return scalar.scalar<double>();
    case DType::kInt32:
      return scalar.scalar<int32_t>();
    case DType::kInt64:
      return static_cast<double>(scalar.scalar<int64_t>());
    case DType::kComplex64:
      return real(scalar.scalar<std::complex<float>>());
    case DType::kComplex128:
      return real(scalar.scalar<std::complex<double>>());
    default:
      return std::nullopt;
  }
}

const char* OpOfPower(double exponent) {
  if (exponent == 1) return "Identity";
  if (exponent == 2) return "Square";
  if (exponent == 3) return "Mul";
  if (exponent == 0.5) return "Sqrt";
  if (exponent == -0.5) return "Rsqrt";
  if (exponent == -1) return "Reciprocal";
  return nullptr;
}

void Become(Node& node, const OpDef* op, DType dtype, std::vector<Edge> inputs) {
  node.op = op;
  auto attrs = std::make_shared<AttrMap>(DefaultAttrs(*op));
  attrs->Set("T", dtype);
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
}

// The value of a constant scalar.
std::optional<double> RealValue(const std::vector<Node>& nodes, Edge edge) {
  const Node& node = nodes[edge.node];
  if (node.kind != NodeKind::kConstant || node.constant.rank() != 0) return std::nullopt;
  return RealValue(node.constant);
}

bool Is(const Node& node, absl::string_view op) {
  return node.kind == NodeKind::kOp && node.op->name == op;
}

void RewritePow(Node& node, std::vector<Node>& nodes, const OpRegistry& ops) {
  const std::optional<double> exponent = RealValue(nodes, node.inputs[1]);
  const char* const name = exponent ? OpOfPower(*exponent) : nullptr;
  if (name == nullptr) return;
  const Edge x = node.inputs[0];
  const DType dtype = node.output_dtypes[0];
  // Integers have no roots; a quotient of theirs may fail.
  if (*exponent < 1 && !IsFloating(dtype) && !IsComplex(dtype)) return;
  if (*exponent != 3) return Become(node, ops.Find(name), dtype, {x});
  Node square = node;
  Become(square, ops.Find("Square"), dtype, {x});
  nodes.push_back(std::move(square));
  Become(node, ops.Find(name), dtype, {x, {static_cast<int32_t>(nodes.size()) - 1, 0}});
}

void RewriteLog(Node& node, bool is_sole_use, const std::vector<Node>& nodes,
                const OpRegistry& ops) {
  const Node& sum = nodes[node.inputs[0].node];
  if (Is(sum, "Softmax") && is_sole_use) {
    return Become(node, ops.Find("LogSoftmax"), node.output_dtypes[0], {sum.inputs[0]});
  }
  if (!Is(sum, "AddV2") && !Is(sum, "Add")) return;
  for (int k = 0; k < 2; ++k) {
    if (RealValue(nodes, sum.inputs[k]) != 1.0) continue;
    return Become(node, ops.Find("Log1p"), node.output_dtypes[0], {sum.inputs[1 - k]});
  }
}

void RewriteSub(Node& node, const std::vector<Node>& nodes, const OpRegistry& ops) {
  const Node& power = nodes[node.inputs[0].node];
  if (!Is(power, "Exp") || RealValue(nodes, node.inputs[1]) != 1.0) return;
  Become(node, ops.Find("Expm1"), node.output_dtypes[0], {power.inputs[0]});
}

}  // namespace

void RewriteMath(Node& node, bool is_sole_use, std::vector<Node>& nodes, const OpRegistry& ops) {
  const absl::string_view op = node.op->name;
  if (op == "Pow") return RewritePow(node, nodes, ops);
  if (op == "Log") return RewriteLog(node, is_sole_use, nodes, ops);
  if (op == "Sub") return RewriteSub(node, nodes, ops);
}

}  // namespace formwork
