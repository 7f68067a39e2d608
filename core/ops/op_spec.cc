// ParseOpSpec: reads the one-line declarations of core/ops (the grammar stands in op_def.h).

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/ops/op_def.h"

namespace formwork {
namespace {

// Sets of dtypes by name, members being dtypes and sets. TensorFlow's own specs have the names
// numbertype, realnumbertype and quantizedtype, with these members (op_def_builder.cc).
constexpr struct {
  absl::string_view name;
  absl::string_view members;
} kDTypeSets[] = {
    {"floattype", "half, bfloat16, float, double"},
    {"complextype", "complex64, complex128"},
    {"integertype", "int8, int16, int32, int64, uint8, uint16, uint32, uint64"},
    {"quantizedtype", "qint8, qint16, qint32, quint8, quint16"},
    {"realnumbertype", "floattype, integertype"},
    {"numbertype", "realnumbertype, complextype, quantizedtype"},
    {"indextype", "int32, int64"},
};

// False where `name` is no set.
bool AppendSet(absl::string_view name, std::vector<DType>& dtypes) {
  for (const auto& set : kDTypeSets) {
    if (set.name != name) continue;
    for (absl::string_view member : absl::StrSplit(set.members, ", ")) {
      if (!AppendSet(member, dtypes)) dtypes.push_back(DTypeFromName(member));
    }
    return true;
  }
  return false;
}

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '>';
}

class SpecParser {
 public:
  explicit SpecParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<OpDef> Parse();

 private:
  // The type of an arg as it is written, before the attrs are known.
  struct ArgText {
    absl::string_view name, number, type;
    bool host = false;
  };

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  bool Take(absl::string_view token) {
    SkipSpace();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  absl::Status Expect(absl::string_view token) {
    if (Take(token)) return absl::OkStatus();
    return Error(absl::StrCat("expected ", std::string(token)));
  }
  absl::Status Error(absl::string_view what) const {
    return InvalidArgument("op spec: ", what, " at position ", at_, ": ", text_.substr(at_, 30));
  }

  absl::StatusOr<absl::string_view> Name();
  absl::StatusOr<std::vector<ArgText>> Args();
  absl::StatusOr<AttrDef> Attr();
  absl::Status Kind(AttrDef& attr);
  absl::Status AllowedValues(AttrDef& attr);
  absl::StatusOr<std::vector<ArgDef>> Resolve(const std::vector<ArgText>& args, const OpDef& op);

  absl::StatusOr<AttrValue> Default(const AttrDef& attr);
  template <typename T>
  absl::StatusOr<AttrValue> List(absl::StatusOr<T> (SpecParser::*element)());
  template <typename T>
  absl::StatusOr<AttrValue> OneOrList(bool is_list, absl::StatusOr<T> (SpecParser::*element)());

  absl::StatusOr<int64_t> Int();
  absl::StatusOr<float> Float();
  absl::StatusOr<bool> Bool();
  absl::StatusOr<std::string> String();
  absl::StatusOr<DType> Type();
  absl::StatusOr<DType> TypeOf(absl::string_view name);
  absl::StatusOr<PartialShape> ShapeValue();
  absl::StatusOr<Tensor> TensorValue();
  absl::StatusOr<Tensor> ByteVector();
  absl::StatusOr<FuncAttr> Func();
  absl::string_view NumberText();

  absl::string_view text_;
  size_t at_ = 0;
};

absl::StatusOr<absl::string_view> SpecParser::Name() {
  SkipSpace();
  const size_t begin = at_;
  while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
  if (at_ == begin) return Error("expected a name");
  return text_.substr(begin, at_ - begin);
}

absl::StatusOr<std::vector<SpecParser::ArgText>> SpecParser::Args() {
  std::vector<ArgText> args;
  FORMWORK_RETURN_IF_ERROR(Expect("("));
  if (Take(")")) return args;
  do {
    ArgText arg;
    FORMWORK_ASSIGN_OR_RETURN(arg.name, Name());
    FORMWORK_RETURN_IF_ERROR(Expect(":"));
    // A reference arg takes plain tensors as any other arg does.
    const bool reference = Take("Ref(");
    arg.host = Take("host ");
    FORMWORK_ASSIGN_OR_RETURN(arg.type, Name());
    if (Take("*")) {
      arg.number = arg.type;
      FORMWORK_ASSIGN_OR_RETURN(arg.type, Name());
    }
    if (reference) FORMWORK_RETURN_IF_ERROR(Expect(")"));
    args.push_back(arg);
  } while (Take(","));
  FORMWORK_RETURN_IF_ERROR(Expect(")"));
  return args;
}

absl::Status SpecParser::AllowedValues(AttrDef& attr) {
  attr.kind = AttrKind::kType;
  do {
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '"') {
      attr.kind = AttrKind::kString;
      FORMWORK_ASSIGN_OR_RETURN(std::string value, String());
      attr.allowed_strings.push_back(std::move(value));
    } else {
      FORMWORK_ASSIGN_OR_RETURN(absl::string_view name, Name());
      if (!AppendSet(name, attr.allowed_types)) {
        FORMWORK_ASSIGN_OR_RETURN(DType dtype, TypeOf(name));
        attr.allowed_types.push_back(dtype);
      }
    }
  } while (Take(","));
  if (!attr.allowed_strings.empty() && !attr.allowed_types.empty()) {
    return Error("types and strings among the allowed values");
  }
  return Expect("}");
}

absl::Status SpecParser::Kind(AttrDef& attr) {
  if (Take("{")) return AllowedValues(attr);
  static constexpr std::pair<absl::string_view, AttrKind> kKinds[] = {
      {"int", AttrKind::kInt},       {"float", AttrKind::kFloat}, {"bool", AttrKind::kBool},
      {"string", AttrKind::kString}, {"type", AttrKind::kType},   {"shape", AttrKind::kShape},
      {"tensor", AttrKind::kTensor}, {"func", AttrKind::kFunc}};
  FORMWORK_ASSIGN_OR_RETURN(absl::string_view name, Name());
  if (name == "list" && !attr.is_list) {
    attr.is_list = true;
    FORMWORK_RETURN_IF_ERROR(Expect("("));
    FORMWORK_RETURN_IF_ERROR(Kind(attr));
    return Expect(")");
  }
  for (const auto& [text, kind] : kKinds) {
    if (text == name) {
      attr.kind = kind;
      return absl::OkStatus();
    }
  }
  if (AppendSet(name, attr.allowed_types)) {
    attr.kind = AttrKind::kType;
    return absl::OkStatus();
  }
  return Error(absl::StrCat("unknown kind of attr: ", std::string(name)));
}

absl::StatusOr<AttrDef> SpecParser::Attr() {
  AttrDef attr;
  FORMWORK_ASSIGN_OR_RETURN(absl::string_view name, Name());
  attr.name = std::string(name);
  FORMWORK_RETURN_IF_ERROR(Expect(":"));
  FORMWORK_RETURN_IF_ERROR(Kind(attr));
  if (Take(">=")) {
    if (!attr.is_list && attr.kind != AttrKind::kInt) return Error("minimum of no int or list");
    FORMWORK_ASSIGN_OR_RETURN(attr.minimum, Int());
  }
  if (Take("=")) {
    FORMWORK_ASSIGN_OR_RETURN(attr.default_value, Default(attr));
  }
  return attr;
}

template <typename T>
absl::StatusOr<AttrValue> SpecParser::List(absl::StatusOr<T> (SpecParser::*element)()) {
  std::vector<T> values;
  FORMWORK_RETURN_IF_ERROR(Expect("["));
  if (Take("]")) return AttrValue(std::move(values));
  do {
    FORMWORK_ASSIGN_OR_RETURN(T value, (this->*element)());
    values.push_back(std::move(value));
  } while (Take(","));
  FORMWORK_RETURN_IF_ERROR(Expect("]"));
  return AttrValue(std::move(values));
}

template <typename T>
absl::StatusOr<AttrValue> SpecParser::OneOrList(bool is_list,
                                                absl::StatusOr<T> (SpecParser::*element)()) {
  if (is_list) return List(element);
  FORMWORK_ASSIGN_OR_RETURN(T value, (this->*element)());
  return AttrValue(std::move(value));
}

absl::StatusOr<AttrValue> SpecParser::Default(const AttrDef& attr) {
  switch (attr.kind) {
    case AttrKind::kInt:
      return OneOrList(attr.is_list, &SpecParser::Int);
    case AttrKind::kFloat:
      return OneOrList(attr.is_list, &SpecParser::Float);
    case AttrKind::kBool:
      return OneOrList(attr.is_list, &SpecParser::Bool);
    case AttrKind::kString:
      return OneOrList(attr.is_list, &SpecParser::String);
    case AttrKind::kType:
      return OneOrList(attr.is_list, &SpecParser::Type);
    case AttrKind::kShape:
      return OneOrList(attr.is_list, &SpecParser::ShapeValue);
    case AttrKind::kTensor:
      return OneOrList(attr.is_list, &SpecParser::TensorValue);
    case AttrKind::kFunc:
      return OneOrList(attr.is_list, &SpecParser::Func);
  }
  return Error("unknown kind of attr");
}

absl::string_view SpecParser::NumberText() {
  SkipSpace();
  const size_t begin = at_;
  while (at_ < text_.size() &&
         (IsNameChar(text_[at_]) || text_[at_] == '-' || text_[at_] == '+' || text_[at_] == '.')) {
    ++at_;
  }
  return text_.substr(begin, at_ - begin);
}

absl::StatusOr<int64_t> SpecParser::Int() {
  int64_t value;
  if (!absl::SimpleAtoi(NumberText(), &value)) return Error("expected an int");
  return value;
}

absl::StatusOr<float> SpecParser::Float() {
  float value;
  if (!absl::SimpleAtof(NumberText(), &value)) return Error("expected a float");
  return value;
}

absl::StatusOr<bool> SpecParser::Bool() {
  if (Take("true")) return true;
  if (Take("false")) return false;
  return Error("expected true or false");
}

absl::StatusOr<std::string> SpecParser::String() {
  FORMWORK_RETURN_IF_ERROR(Expect("\""));
  std::string value;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\\') {
      if (at_ == text_.size()) break;
      c = text_[at_++];
      if (c == 'n') c = '\n';
    }
    value.push_back(c);
  }
  if (at_ == text_.size()) return Error("string without end");
  ++at_;
  return value;
}

absl::StatusOr<DType> SpecParser::Type() {
  FORMWORK_ASSIGN_OR_RETURN(absl::string_view name, Name());
  return TypeOf(name);
}

absl::StatusOr<DType> SpecParser::TypeOf(absl::string_view name) {
  const DType dtype = DTypeFromName(name);
  if (dtype == DType::kInvalid) return Error(absl::StrCat("unknown dtype: ", std::string(name)));
  return dtype;
}

absl::StatusOr<PartialShape> SpecParser::ShapeValue() {
  if (Take("?")) return PartialShape::Unknown();
  FORMWORK_ASSIGN_OR_RETURN(AttrValue dims, List(&SpecParser::Int));
  return PartialShape::Make(std::get<std::vector<int64_t>>(dims));
}

// The rest of `uint8[255, 0]`.
absl::StatusOr<Tensor> SpecParser::ByteVector() {
  std::vector<uint8_t> bytes;
  do {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t byte, Int());
    bytes.push_back(static_cast<uint8_t>(byte));
  } while (Take(","));
  FORMWORK_RETURN_IF_ERROR(Expect("]"));
  Tensor value;
  if (!value.ResetInside(DType::kUint8, Shape({static_cast<int64_t>(bytes.size())}))) {
    return Error("too long a default");
  }
  std::copy(bytes.begin(), bytes.end(), value.mutable_data<uint8_t>());
  return value;
}

absl::StatusOr<Tensor> SpecParser::TensorValue() {
  FORMWORK_ASSIGN_OR_RETURN(DType dtype, Type());
  if (dtype == DType::kUint8 && Take("[")) return ByteVector();
  FORMWORK_RETURN_IF_ERROR(Expect("("));
  Tensor value;
  if (dtype == DType::kBool) {
    if (Take("True")) {
      value = Tensor::Scalar(true);
    } else {
      FORMWORK_RETURN_IF_ERROR(Expect("False"));
      value = Tensor::Scalar(false);
    }
  } else {
    double number;
    if (!absl::SimpleAtod(NumberText(), &number)) return Error("expected a number");
    auto scalar = [&]() -> Tensor {
      switch (dtype) {
        FORMWORK_INTEGER_CASES(return Tensor::Scalar(static_cast<T>(number)))
        FORMWORK_FLOAT_CASES(return Tensor::Scalar(static_cast<T>(static_cast<float>(number))))
        default:
          return Tensor();
      }
    };
    // Through float is wrong for double alone.
    value = dtype == DType::kDouble ? Tensor::Scalar(number) : scalar();
  }
  if (!value.has_value()) return Error("no tensor defaults of this dtype");
  FORMWORK_RETURN_IF_ERROR(Expect(")"));
  return value;
}

absl::StatusOr<FuncAttr> SpecParser::Func() {
  FORMWORK_ASSIGN_OR_RETURN(std::string name, String());
  return FuncAttr{std::move(name), std::make_shared<const AttrMap>()};
}

absl::StatusOr<std::vector<ArgDef>> SpecParser::Resolve(const std::vector<ArgText>& args,
                                                        const OpDef& op) {
  std::vector<ArgDef> resolved;
  resolved.reserve(args.size());
  for (const ArgText& text : args) {
    ArgDef arg;
    arg.name = std::string(text.name);
    arg.host = text.host;
    const AttrDef* type = op.FindAttr(text.type);
    if (type != nullptr) {
      if (type->kind != AttrKind::kType) {
        return Error(absl::StrCat("arg whose type is no type attr: ", arg.name));
      }
      arg.type_attr = type->name;
    } else {
      arg.type = DTypeFromName(text.type);
      if (arg.type == DType::kInvalid) {
        return Error(absl::StrCat("arg of an unknown type: ", arg.name));
      }
    }
    if (!text.number.empty()) {
      const AttrDef* number = op.FindAttr(text.number);
      if (number == nullptr || number->kind != AttrKind::kInt || number->is_list) {
        return Error(absl::StrCat("arg whose number is no int attr: ", arg.name));
      }
      if (type != nullptr && type->is_list) {
        return Error(absl::StrCat("arg with a number and a list of types: ", arg.name));
      }
      arg.number_attr = number->name;
    }
    resolved.push_back(std::move(arg));
  }
  return resolved;
}

absl::StatusOr<OpDef> SpecParser::Parse() {
  OpDef op;
  FORMWORK_ASSIGN_OR_RETURN(absl::string_view name, Name());
  op.name = std::string(name);
  FORMWORK_ASSIGN_OR_RETURN(std::vector<ArgText> inputs, Args());
  FORMWORK_RETURN_IF_ERROR(Expect("->"));
  FORMWORK_ASSIGN_OR_RETURN(std::vector<ArgText> outputs, Args());
  while (!AtEnd()) {
    FORMWORK_RETURN_IF_ERROR(Expect(";"));
    FORMWORK_ASSIGN_OR_RETURN(AttrDef attr, Attr());
    if (op.FindAttr(attr.name) != nullptr) {
      return Error(absl::StrCat("attr declared twice: ", attr.name));
    }
    op.attrs.push_back(std::move(attr));
  }
  FORMWORK_ASSIGN_OR_RETURN(op.inputs, Resolve(inputs, op));
  FORMWORK_ASSIGN_OR_RETURN(op.outputs, Resolve(outputs, op));
  return op;
}

}  // namespace

absl::StatusOr<OpDef> ParseOpSpec(absl::string_view spec) { return SpecParser(spec).Parse(); }

}  // namespace formwork
