#include "core/ops/op_text.h"

#include <algorithm>
#include <cstdio>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/tensor/dtype.h"

namespace formwork {
namespace {

// A default, which is of any kind.
struct DefaultText {
  DTypeText dtype_text;

  std::string operator()(const std::string& x) const {
    return absl::StrCat("\"", absl::CEscape(x), "\"");
  }
  std::string operator()(bool x) const { return x ? "true" : "false"; }
  std::string operator()(DType x) const { return dtype_text(x); }
  std::string operator()(int64_t x) const { return absl::StrCat(x); }
  std::string operator()(float x) const {
    char text[32];
    std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(x));
    return text;
  }
  std::string operator()(const PartialShape& x) const {
    return x.known_rank() ? x.ToString() : "?";
  }
  std::string operator()(const Tensor& x) const { return x.DebugString(); }
  std::string operator()(const FuncAttr& x) const { return absl::StrCat("@", x.name); }
  std::string operator()(std::monostate) const { return ""; }
  template <typename T>
  std::string operator()(const std::vector<T>& items) const {
    std::vector<std::string> texts;
    for (size_t i = 0; i < items.size(); ++i) texts.push_back((*this)(static_cast<T>(items[i])));
    return absl::StrCat("[", absl::StrJoin(texts, ", "), "]");
  }
};

std::string NameOf(DType dtype) { return std::string(DTypeName(dtype)); }

std::string ArgsText(const std::vector<ArgDef>& args) {
  std::vector<std::string> texts;
  for (const ArgDef& arg : args) texts.push_back(ArgText(arg, &NameOf));
  return absl::StrCat("(", absl::StrJoin(texts, ", "), ")");
}

}  // namespace

std::string ArgText(const ArgDef& arg, DTypeText dtype_text) {
  std::string type = arg.type_attr.empty() ? dtype_text(arg.type) : arg.type_attr;
  if (!arg.number_attr.empty()) type = absl::StrCat(arg.number_attr, "*", type);
  return absl::StrCat(arg.name, ": ", type);
}

std::string AttrText(const AttrDef& attr, DTypeText dtype_text) {
  constexpr const char* kKinds[] = {"int",  "float", "bool",   "string",
                                    "type", "shape", "tensor", "func"};
  const DefaultText text_of = {dtype_text};
  std::string text = kKinds[static_cast<int>(attr.kind)];
  if (attr.is_list) text = absl::StrCat("list(", text, ")");
  std::vector<std::string> allowed;
  for (DType dtype : attr.allowed_types) allowed.push_back(dtype_text(dtype));
  for (const std::string& value : attr.allowed_strings) allowed.push_back(text_of(value));
  std::sort(allowed.begin(), allowed.end());
  if (!allowed.empty()) absl::StrAppend(&text, " in ", absl::StrJoin(allowed, " "));
  if (attr.minimum) absl::StrAppend(&text, " >= ", *attr.minimum);
  if (attr.default_value) absl::StrAppend(&text, " = ", std::visit(text_of, *attr.default_value));
  return text;
}

std::string SignatureOf(const OpDef& op) {
  std::string text = absl::StrCat(op.name, ArgsText(op.inputs), " -> ", ArgsText(op.outputs));
  for (const AttrDef& attr : op.attrs) {
    absl::StrAppend(&text, "; ", attr.name, ": ", AttrText(attr, &NameOf));
  }
  return text;
}

}  // namespace formwork
