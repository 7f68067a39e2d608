// Prints what the registry knows of each op, one fact a line, for tests/python/test_op_specs.py:
//
//   MatMul  input   0             a: T
//   MatMul  attr    transpose_a   bool = false
//   MatMul  attr    T             type in 1 2 3
//   MatMul  effect  none
//   Reshape host                  shape
//
// Columns are apart by tabs. Dtypes are TensorFlow's numbers.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ops/register_ops.h"

namespace formwork {
namespace {

std::string ScalarText(const std::string& x) { return absl::StrCat("\"", absl::CEscape(x), "\""); }
std::string ScalarText(bool x) { return x ? "true" : "false"; }
std::string ScalarText(DType x) { return absl::StrCat(static_cast<int>(x)); }
std::string ScalarText(int64_t x) { return absl::StrCat(x); }
std::string ScalarText(float x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(x));
  return text;
}
std::string ScalarText(const PartialShape& x) { return x.known_rank() ? x.ToString() : "?"; }
std::string ScalarText(const Tensor& x) { return x.DebugString(); }
std::string ScalarText(const FuncAttr& x) { return absl::StrCat("@", x.name); }
std::string ScalarText(std::monostate) { return ""; }

template <typename T>
std::string ScalarText(const std::vector<T>& items) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < items.size(); ++i) texts.push_back(ScalarText(static_cast<T>(items[i])));
  return absl::StrCat("[", absl::StrJoin(texts, ", "), "]");
}

std::string ArgText(const ArgDef& arg) {
  std::string type = arg.type_attr.empty() ? ScalarText(arg.type) : arg.type_attr;
  if (!arg.number_attr.empty()) type = absl::StrCat(arg.number_attr, "*", type);
  return absl::StrCat(arg.name, ": ", type);
}

std::string AttrText(const AttrDef& attr) {
  constexpr const char* kKinds[] = {"int",  "float", "bool",   "string",
                                    "type", "shape", "tensor", "func"};
  std::string text = kKinds[static_cast<int>(attr.kind)];
  if (attr.is_list) text = absl::StrCat("list(", text, ")");
  std::vector<std::string> allowed;
  for (DType dtype : attr.allowed_types) allowed.push_back(ScalarText(dtype));
  for (const std::string& value : attr.allowed_strings) allowed.push_back(ScalarText(value));
  std::sort(allowed.begin(), allowed.end());
  if (!allowed.empty()) absl::StrAppend(&text, " in ", absl::StrJoin(allowed, " "));
  if (attr.minimum) absl::StrAppend(&text, " >= ", *attr.minimum);
  if (attr.default_value) {
    const std::string value =
        std::visit([](const auto& x) { return ScalarText(x); }, *attr.default_value);
    absl::StrAppend(&text, " = ", value);
  }
  return text;
}

void PrintAll() {
  constexpr const char* kEffects[] = {"none",  "random",   "read",
                                      "write", "external", "self ordered"};
  OpRegistry registry;
  RegisterOps(registry);
  for (const OpDef* op : registry.All()) {
    auto print = [&](const char* what, const std::string& which, const std::string& text) {
      std::printf("%s\t%s\t%s\t%s\n", op->name.c_str(), what, which.c_str(), text.c_str());
    };
    for (size_t i = 0; i < op->inputs.size(); ++i) {
      print("input", absl::StrCat(i), ArgText(op->inputs[i]));
    }
    for (size_t i = 0; i < op->outputs.size(); ++i) {
      print("output", absl::StrCat(i), ArgText(op->outputs[i]));
    }
    for (const std::vector<ArgDef>* args : {&op->inputs, &op->outputs}) {
      for (const ArgDef& arg : *args) {
        if (arg.host) print("host", "", arg.name);
      }
    }
    for (const AttrDef& attr : op->attrs) print("attr", attr.name, AttrText(attr));
    print("effect", "",
          op->handle_of != nullptr ? "names" : kEffects[static_cast<int>(op->effect)]);
  }
}

}  // namespace
}  // namespace formwork

int main() { formwork::PrintAll(); }
