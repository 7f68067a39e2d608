#include "core/graph/passes/node_key.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace formwork {
namespace {

void AppendKey(std::string& key, const AttrValue& value) {
  absl::StrAppend(&key, value.index(), ":");
  auto scalar = [&key](const auto& x) {
    using X = std::decay_t<decltype(x)>;
    if constexpr (std::is_same_v<X, DType>) {
      absl::StrAppend(&key, static_cast<int>(x), ",");
    } else if constexpr (std::is_same_v<X, PartialShape>) {
      absl::StrAppend(&key, x.ToString(), ",");
    } else if constexpr (std::is_same_v<X, std::string>) {
      absl::StrAppend(&key, x.size(), "=", x, ",");
    } else if constexpr (std::is_same_v<X, float>) {
      key.append(reinterpret_cast<const char*>(&x), sizeof(x));
    } else if constexpr (std::is_arithmetic_v<X>) {
      absl::StrAppend(&key, x, ",");
    } else {
      // Tensors and functions: equal only to themselves.
      absl::StrAppend(&key, reinterpret_cast<uintptr_t>(&x), ",");
    }
  };
  std::visit(
      [&](const auto& x) {
        using X = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<X, std::monostate>) {
          key += "-";
        } else if constexpr (std::is_same_v<X, std::vector<bool>>) {
          for (bool b : x) key += b ? '1' : '0';
        } else if constexpr (requires { x.begin(); } && !std::is_same_v<X, std::string>) {
          for (const auto& element : x) scalar(element);
        } else {
          scalar(x);
        }
      },
      value);
}

}  // namespace

std::string NodeKey(const Node& node) {
  std::string key = absl::StrCat(node.op->name, "(");
  std::vector<Edge> inputs = node.inputs;
  if (node.op->commutative && inputs.size() == 2 &&
      std::make_pair(inputs[1].node, inputs[1].index) <
          std::make_pair(inputs[0].node, inputs[0].index)) {
    std::swap(inputs[0], inputs[1]);
  }
  for (const Edge& edge : inputs) absl::StrAppend(&key, edge.node, ".", edge.index, ",");
  for (const auto& [name, value] : node.attrs->entries()) {
    if (name[0] == '_') continue;
    absl::StrAppend(&key, name, "=");
    AppendKey(key, value);
  }
  return key;
}

std::optional<std::string> ConstantKey(const Tensor& value) {
  if (!IsPlainData(value.dtype()) || value.bytes() > 256) return std::nullopt;
  return absl::StrCat("const ", static_cast<int>(value.dtype()), value.shape().ToString(),
                      absl::string_view(static_cast<const char*>(value.raw()), value.bytes()));
}

}  // namespace formwork
