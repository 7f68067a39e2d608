#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "tests/support/op_case.h"
#include "tests/support/op_case_text.h"

namespace formwork::testing {
namespace {

absl::StatusOr<AttrValue> TypedScalar(AttrKind kind, absl::string_view token) {
  switch (kind) {
    case AttrKind::kInt: {
      FORMWORK_ASSIGN_OR_RETURN(int64_t value, ParseInt(token));
      return AttrValue(value);
    }
    case AttrKind::kFloat: {
      FORMWORK_ASSIGN_OR_RETURN(double value, ParseDouble(token));
      return AttrValue(static_cast<float>(value));
    }
    case AttrKind::kBool: {
      FORMWORK_ASSIGN_OR_RETURN(bool value, ParseBool(token));
      return AttrValue(value);
    }
    case AttrKind::kString: {
      FORMWORK_ASSIGN_OR_RETURN(std::string value, Unquote(token));
      return AttrValue(std::move(value));
    }
    case AttrKind::kType: {
      FORMWORK_ASSIGN_OR_RETURN(DType value, ParseDType(token));
      return AttrValue(value);
    }
    case AttrKind::kShape: {
      FORMWORK_ASSIGN_OR_RETURN(PartialShape value, ParsePartialShape(token));
      return AttrValue(std::move(value));
    }
    case AttrKind::kTensor: {
      // As a value, within parentheses: value=(float[2] 1 2).
      if (!absl::ConsumePrefix(&token, "(") || !absl::ConsumeSuffix(&token, ")")) {
        return InvalidArgument("not a tensor (dtype[shape] values): ", token);
      }
      FORMWORK_ASSIGN_OR_RETURN(ValueText text, ParseValue(Tokens(token)));
      FORMWORK_ASSIGN_OR_RETURN(Tensor value, MakeValue(text, ProcessAllocator()));
      return AttrValue(std::move(value));
    }
    case AttrKind::kFunc:
      break;
  }
  return InvalidArgument("op cases have no functions");
}

template <typename T>
absl::StatusOr<AttrValue> TypedList(AttrKind kind, const std::vector<std::string>& tokens) {
  std::vector<T> values;
  for (const std::string& token : tokens) {
    FORMWORK_ASSIGN_OR_RETURN(AttrValue value, TypedScalar(kind, token));
    values.push_back(std::get<T>(std::move(value)));
  }
  return AttrValue(std::move(values));
}

// The items of "[a, b]": commas count outside of quotes and brackets alone.
std::vector<std::string> ListItems(absl::string_view inside) {
  std::string spaced;
  bool quoted = false;
  int depth = 0;
  for (size_t i = 0; i < inside.size(); ++i) {
    char c = inside[i];
    if (c == '\\' && quoted && i + 1 < inside.size()) {
      spaced += c;
      c = inside[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      if (c == '[' || c == '(') ++depth;
      if (c == ']' || c == ')') --depth;
      if (c == ',' && depth == 0) c = ' ';
    }
    spaced += c;
  }
  return Tokens(spaced);
}

absl::StatusOr<AttrValue> TypedAttr(const AttrDef& def, absl::string_view text) {
  if (!def.is_list) return TypedScalar(def.kind, text);
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) {
    return InvalidArgument("not a list: ", text);
  }
  const std::vector<std::string> items = ListItems(text);
  switch (def.kind) {
    case AttrKind::kInt:
      return TypedList<int64_t>(def.kind, items);
    case AttrKind::kFloat:
      return TypedList<float>(def.kind, items);
    case AttrKind::kBool:
      return TypedList<bool>(def.kind, items);
    case AttrKind::kString:
      return TypedList<std::string>(def.kind, items);
    case AttrKind::kType:
      return TypedList<DType>(def.kind, items);
    case AttrKind::kShape:
      return TypedList<PartialShape>(def.kind, items);
    case AttrKind::kTensor:
      return TypedList<Tensor>(def.kind, items);
    case AttrKind::kFunc:
      break;
  }
  return InvalidArgument("op cases have no functions");
}

// Fills in type and number attrs that the case leaves to its inputs.
void AttrsFromInputs(const OpCase& op_case, const OpDef& op, AttrMap& attrs) {
  size_t at = 0;
  const size_t given = op_case.inputs.size();
  for (const ArgDef& arg : op.inputs) {
    size_t count = 1;
    const AttrDef* type = arg.type_attr.empty() ? nullptr : op.FindAttr(arg.type_attr);
    const bool list = type != nullptr && type->is_list;
    if (!arg.number_attr.empty()) {
      if (attrs.Find(arg.number_attr) == nullptr) {
        const size_t others = op.inputs.size() - 1;
        attrs.Set(arg.number_attr, static_cast<int64_t>(given > others ? given - others : 0));
      }
      count = static_cast<size_t>(attrs.GetOr<int64_t>(arg.number_attr, 0));
    } else if (list) {
      if (attrs.Find(arg.type_attr) == nullptr) {
        const size_t others = op.inputs.size() - 1;
        std::vector<DType> dtypes;
        for (size_t i = at; i + others < given + at; ++i) {
          dtypes.push_back(op_case.inputs[i].dtype);
        }
        attrs.Set(arg.type_attr, dtypes);
      }
      count = attrs.GetOr<std::vector<DType>>(arg.type_attr, {}).size();
    }
    if (type != nullptr && !list && attrs.Find(arg.type_attr) == nullptr && at < given &&
        count > 0) {
      attrs.Set(arg.type_attr, op_case.inputs[at].dtype);
    }
    at += count;
  }
}

}  // namespace

absl::StatusOr<AttrMap> TypedAttrs(const OpCase& op_case, const OpDef& op) {
  AttrMap attrs;
  for (const auto& [name, text] : op_case.attrs) {
    const AttrDef* def = op.FindAttr(name);
    if (def == nullptr) return InvalidArgument(op.name, " has no attr ", name);
    absl::StatusOr<AttrValue> value = TypedAttr(*def, text);
    if (!value.ok()) return InvalidArgument("attr ", name, ": ", value.status().message());
    attrs.Set(name, *std::move(value));
  }
  AttrsFromInputs(op_case, op, attrs);
  for (const AttrDef& def : op.attrs) {
    if (attrs.Find(def.name) != nullptr) continue;
    if (!def.default_value) return InvalidArgument(op.name, " needs attr ", def.name);
    attrs.Set(def.name, *def.default_value);
  }
  return attrs;
}

absl::StatusOr<std::vector<DType>> ArgDTypes(const std::vector<ArgDef>& args,
                                             const AttrMap& attrs) {
  std::vector<DType> dtypes;
  for (const ArgDef& arg : args) {
    if (!arg.type_attr.empty() &&
        std::holds_alternative<std::vector<DType>>(*attrs.Find(arg.type_attr))) {
      for (DType dtype : std::get<std::vector<DType>>(*attrs.Find(arg.type_attr))) {
        dtypes.push_back(dtype);
      }
      continue;
    }
    DType dtype = arg.type;
    if (!arg.type_attr.empty()) {
      FORMWORK_ASSIGN_OR_RETURN(dtype, attrs.Get<DType>(arg.type_attr));
    }
    int64_t count = 1;
    if (!arg.number_attr.empty()) {
      FORMWORK_ASSIGN_OR_RETURN(count, attrs.Get<int64_t>(arg.number_attr));
    }
    dtypes.insert(dtypes.end(), static_cast<size_t>(count), dtype);
  }
  return dtypes;
}

}  // namespace formwork::testing
