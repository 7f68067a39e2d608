#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"

namespace formwork::testing {
namespace {

// Splits at blanks outside of quotes, brackets and parentheses. Quotes stay in the tokens.
std::vector<std::string> Tokens(absl::string_view line) {
  std::vector<std::string> tokens;
  std::string token;
  bool quoted = false;
  int depth = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      token += c;
      if (c == '\\' && i + 1 < line.size()) token += line[++i];
      if (c == '"') quoted = false;
      continue;
    }
    if (depth == 0 && (c == ' ' || c == '\t')) {
      if (!token.empty()) tokens.push_back(std::move(token));
      token.clear();
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    token += c;
  }
  if (!token.empty()) tokens.push_back(std::move(token));
  return tokens;
}

// Undoes the quotes and escapes (\n, \t, \", \\, \xNN) of a string token.
absl::StatusOr<std::string> Unquote(absl::string_view token) {
  if (token.size() < 2 || token.front() != '"' || token.back() != '"') {
    return InvalidArgument("not a quoted string: ", token);
  }
  token = token.substr(1, token.size() - 2);
  std::string text;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '\\') {
      text += token[i];
      continue;
    }
    if (++i == token.size()) return InvalidArgument("a string ends in a backslash: ", token);
    switch (token[i]) {
      case 'n':
        text += '\n';
        break;
      case 't':
        text += '\t';
        break;
      case 'x': {
        if (i + 2 >= token.size()) return InvalidArgument("\\x needs two digits: ", token);
        text += static_cast<char>(
            std::strtol(std::string(token.substr(i + 1, 2)).c_str(), nullptr, 16));
        i += 2;
        break;
      }
      default:
        text += token[i];
    }
  }
  return text;
}

absl::StatusOr<int64_t> ParseInt(absl::string_view token) {
  int64_t value;
  if (!absl::SimpleAtoi(token, &value)) return InvalidArgument("not an integer: ", token);
  return value;
}

absl::StatusOr<double> ParseDouble(absl::string_view token) {
  double value;
  if (!absl::SimpleAtod(token, &value)) return InvalidArgument("not a number: ", token);
  return value;
}

absl::StatusOr<bool> ParseBool(absl::string_view token) {
  if (token == "true") return true;
  if (token == "false") return false;
  return InvalidArgument("not true or false: ", token);
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  const DType dtype = DTypeFromName(name);
  if (dtype == DType::kInvalid) return InvalidArgument("unknown dtype: ", name);
  return dtype;
}

// "[2,?]" or "?".
absl::StatusOr<PartialShape> ParsePartialShape(absl::string_view token) {
  if (token == "?") return PartialShape::Unknown();
  if (!absl::ConsumePrefix(&token, "[") || !absl::ConsumeSuffix(&token, "]")) {
    return InvalidArgument("not a shape: ", token);
  }
  Dims dims;
  for (absl::string_view dim : absl::StrSplit(token, ',', absl::SkipWhitespace())) {
    dim = absl::StripAsciiWhitespace(dim);
    if (dim == "?") {
      dims.push_back(-1);
    } else {
      FORMWORK_ASSIGN_OR_RETURN(int64_t value, ParseInt(dim));
      dims.push_back(value);
    }
  }
  return PartialShape::Make(dims);
}

// "float[2,3] 1 2 ..." after the keyword.
absl::StatusOr<ValueText> ParseValue(std::vector<std::string> tokens) {
  if (tokens.empty()) return InvalidArgument("dtype[shape] is missing");
  ValueText value;
  absl::string_view type = tokens[0];
  const size_t bracket = type.find('[');
  FORMWORK_ASSIGN_OR_RETURN(value.dtype, ParseDType(type.substr(0, bracket)));
  if (bracket != absl::string_view::npos) {
    FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ParsePartialShape(type.substr(bracket)));
    FORMWORK_ASSIGN_OR_RETURN(value.shape, Shape::Make(shape.dims()));
  }
  tokens.erase(tokens.begin());
  value.tokens = std::move(tokens);
  return value;
}

absl::StatusOr<absl::StatusCode> ParseCode(absl::string_view name) {
  for (int code = 1; code <= 16; ++code) {
    if (absl::StatusCodeToString(static_cast<absl::StatusCode>(code)) == name) {
      return static_cast<absl::StatusCode>(code);
    }
  }
  return InvalidArgument("unknown status code: ", name);
}

absl::Status ParseLine(absl::string_view line, std::vector<OpCase>& cases) {
  std::vector<std::string> tokens = Tokens(line);
  const std::string keyword = tokens[0];
  tokens.erase(tokens.begin());
  if (keyword == "op") {
    if (tokens.empty()) return InvalidArgument("op needs a name");
    OpCase& added = cases.emplace_back();
    added.op = tokens[0];
    for (size_t i = 1; i < tokens.size(); ++i) {
      const size_t equals = tokens[i].find('=');
      if (equals == std::string::npos) return InvalidArgument("not attr=value: ", tokens[i]);
      added.attrs.emplace_back(tokens[i].substr(0, equals), tokens[i].substr(equals + 1));
    }
    return absl::OkStatus();
  }
  if (cases.empty()) return InvalidArgument("'", keyword, "' before the first 'op'");
  OpCase& current = cases.back();
  if (keyword == "in" || keyword == "out") {
    FORMWORK_ASSIGN_OR_RETURN(ValueText value, ParseValue(std::move(tokens)));
    (keyword == "in" ? current.inputs : current.outputs).push_back(std::move(value));
    return absl::OkStatus();
  }
  if (keyword == "tolerance") {
    Tolerance tolerance;
    if (tokens.size() % 2 != 0) return InvalidArgument("tolerance takes pairs: rel 1e-5");
    for (size_t i = 0; i < tokens.size(); i += 2) {
      FORMWORK_ASSIGN_OR_RETURN(double number, ParseDouble(tokens[i + 1]));
      if (tokens[i] == "rel") {
        tolerance.rel = number;
      } else if (tokens[i] == "abs") {
        tolerance.abs = number;
      } else if (tokens[i] == "nmse") {
        tolerance.nmse = number;
      } else {
        return InvalidArgument("unknown tolerance: ", tokens[i]);
      }
    }
    current.tolerance = tolerance;
    return absl::OkStatus();
  }
  if (keyword == "error") {
    if (tokens.size() != 2) return InvalidArgument("error takes a code and a text");
    FORMWORK_ASSIGN_OR_RETURN(current.error, ParseCode(tokens[0]));
    FORMWORK_ASSIGN_OR_RETURN(current.error_text, Unquote(tokens[1]));
    return absl::OkStatus();
  }
  return InvalidArgument("unknown keyword: ", keyword);
}

// The generator of uniform(): splitmix64, the same in tests/ops/generate.py.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

bool IsRawByte(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E5m2:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E4m3b11fnuz:
    case DType::kFloat8E5m2fnuz:
    case DType::kFloat4E2m1fn:
      return true;
    default:
      return false;
  }
}

// The integer that holds elements of an integer, quantized or raw dtype.
DType StorageDType(DType dtype) {
  switch (dtype) {
    case DType::kQint8:
    case DType::kInt4:
    case DType::kInt2:
      return DType::kInt8;
    case DType::kQuint8:
    case DType::kUint4:
    case DType::kUint2:
      return DType::kUint8;
    case DType::kQint16:
      return DType::kInt16;
    case DType::kQuint16:
      return DType::kUint16;
    case DType::kQint32:
      return DType::kInt32;
    default:
      return IsRawByte(dtype) ? DType::kUint8 : dtype;
  }
}

// Writes a number as element `i` of plain data.
void StoreNumber(DType dtype, double number, int64_t i, void* base) {
  switch (StorageDType(dtype)) {
    FORMWORK_CASE(float, static_cast<T*>(base)[i] = static_cast<T>(number); return )
    FORMWORK_CASE(double, static_cast<T*>(base)[i] = number; return )
    FORMWORK_CASE(half, static_cast<T*>(base)[i] = T(static_cast<float>(number)); return )
    FORMWORK_CASE(bfloat16, static_cast<T*>(base)[i] = T(static_cast<float>(number)); return )
    FORMWORK_CASE(bool, static_cast<T*>(base)[i] = number != 0; return )
    FORMWORK_INTEGER_CASES(static_cast<T*>(base)[i] = static_cast<T>(number); return )
    default:
      return;
  }
}

absl::Status StoreToken(DType dtype, absl::string_view token, int64_t i, void* base) {
  const DType storage = StorageDType(dtype);
  if (IsRawByte(dtype)) {
    static_cast<uint8_t*>(base)[i] =
        static_cast<uint8_t>(std::strtoul(std::string(token).c_str(), nullptr, 16));
    return absl::OkStatus();
  }
  if (storage == DType::kString) {
    FORMWORK_ASSIGN_OR_RETURN(static_cast<std::string*>(base)[i], Unquote(token));
    return absl::OkStatus();
  }
  if (IsComplex(storage)) {
    if (!absl::ConsumePrefix(&token, "(") || !absl::ConsumeSuffix(&token, ")")) {
      return InvalidArgument("not a complex number (re,im): ", token);
    }
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(token, ',');
    FORMWORK_ASSIGN_OR_RETURN(double re, ParseDouble(parts.first));
    FORMWORK_ASSIGN_OR_RETURN(double im, ParseDouble(parts.second));
    const DType part = storage == DType::kComplex64 ? DType::kFloat : DType::kDouble;
    StoreNumber(part, re, 2 * i, base);
    StoreNumber(part, im, 2 * i + 1, base);
    return absl::OkStatus();
  }
  if (storage == DType::kBool) {
    FORMWORK_ASSIGN_OR_RETURN(static_cast<bool*>(base)[i], ParseBool(token));
    return absl::OkStatus();
  }
  if (storage == DType::kUint64) {
    if (!absl::SimpleAtoi(token, static_cast<uint64_t*>(base) + i)) {
      return InvalidArgument("not a uint64: ", token);
    }
    return absl::OkStatus();
  }
  if (storage == DType::kInt64) {
    FORMWORK_ASSIGN_OR_RETURN(static_cast<int64_t*>(base)[i], ParseInt(token));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(double number, ParseDouble(token));
  StoreNumber(dtype, number, i, base);
  return absl::OkStatus();
}

void StoreUniform(DType dtype, double low, double high, uint64_t seed, int64_t n, void* base) {
  Draws draws(seed);
  DType part = dtype;
  if (dtype == DType::kComplex64 || dtype == DType::kComplex128) {
    part = dtype == DType::kComplex64 ? DType::kFloat : DType::kDouble;
    n *= 2;
  }
  const bool whole = !IsFloating(part);
  for (int64_t i = 0; i < n; ++i) {
    double number = low + (high - low) * draws.Unit();
    if (whole) number = std::floor(number);
    StoreNumber(part, number, i, base);
  }
}

// "uniform(-1,1)" and "seed=3".
absl::Status ParseUniform(const std::vector<std::string>& tokens, double* low, double* high,
                          uint64_t* seed) {
  absl::string_view range = tokens[0];
  absl::string_view seed_text = tokens.size() > 1 ? absl::string_view(tokens[1]) : "";
  if (!absl::ConsumePrefix(&range, "uniform(") || !absl::ConsumeSuffix(&range, ")") ||
      !absl::ConsumePrefix(&seed_text, "seed=") || !absl::SimpleAtoi(seed_text, seed)) {
    return InvalidArgument("not uniform(low,high) seed=n: ", tokens[0]);
  }
  const std::pair<absl::string_view, absl::string_view> bounds = absl::StrSplit(range, ',');
  FORMWORK_ASSIGN_OR_RETURN(*low, ParseDouble(bounds.first));
  FORMWORK_ASSIGN_OR_RETURN(*high, ParseDouble(bounds.second));
  return absl::OkStatus();
}

std::string ElementText(const Tensor& tensor, int64_t i) {
  switch (StorageDType(tensor.dtype())) {
    FORMWORK_CASE(float, return absl::StrCat(tensor.data<T>()[i]))
    FORMWORK_CASE(double, return absl::StrCat(tensor.data<T>()[i]))
    FORMWORK_CASE(half, return absl::StrCat(static_cast<float>(tensor.data<T>()[i])))
    FORMWORK_CASE(bfloat16, return absl::StrCat(static_cast<float>(tensor.data<T>()[i])))
    FORMWORK_CASE(bool, return tensor.data<T>()[i] ? "true" : "false")
    FORMWORK_CASE(int8_t, return absl::StrCat(static_cast<int>(tensor.data<T>()[i])))
    FORMWORK_CASE(uint8_t, return absl::StrCat(static_cast<int>(tensor.data<T>()[i])))
    FORMWORK_CASE(int16_t, return absl::StrCat(tensor.data<T>()[i]))
    FORMWORK_CASE(uint16_t, return absl::StrCat(tensor.data<T>()[i]))
    FORMWORK_CASE(int32_t, return absl::StrCat(tensor.data<T>()[i]))
    FORMWORK_CASE(uint32_t, return absl::StrCat(tensor.data<T>()[i]))
    FORMWORK_CASE(int64_t, return absl::StrCat(tensor.data<T>()[i]))
    FORMWORK_CASE(uint64_t, return absl::StrCat(tensor.data<T>()[i]))
    FORMWORK_COMPLEX_CASES(
        return absl::StrCat("(", tensor.data<T>()[i].real(), ",", tensor.data<T>()[i].imag(), ")"))
    FORMWORK_CASE(std::string, return absl::StrCat("\"", tensor.data<T>()[i], "\""))
    default:
      return "?";
  }
}

bool Close(double want, double got, const Tolerance& tolerance) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return want == got;
  return std::abs(want - got) <= tolerance.abs + tolerance.rel * std::abs(want);
}

// Element i as one or two doubles where the dtype is floating or complex.
bool AsDoubles(const Tensor& tensor, int64_t i, double out[2]) {
  out[1] = 0;
  switch (tensor.dtype()) {
    FORMWORK_CASE(float, out[0] = tensor.data<T>()[i]; return true)
    FORMWORK_CASE(double, out[0] = tensor.data<T>()[i]; return true)
    FORMWORK_CASE(half, out[0] = static_cast<float>(tensor.data<T>()[i]); return true)
    FORMWORK_CASE(bfloat16, out[0] = static_cast<float>(tensor.data<T>()[i]); return true)
    FORMWORK_COMPLEX_CASES(out[0] = tensor.data<T>()[i].real(); out[1] = tensor.data<T>()[i].imag();
                           return true)
    default:
      return false;
  }
}

bool SameElement(const Tensor& want, int64_t w, const Tensor& got, int64_t g,
                 const Tolerance& tolerance) {
  double a[2], b[2];
  if (AsDoubles(want, w, a)) {
    AsDoubles(got, g, b);
    return Close(a[0], b[0], tolerance) && Close(a[1], b[1], tolerance);
  }
  if (want.dtype() == DType::kString) {
    return want.data<std::string>()[w] == got.data<std::string>()[g];
  }
  const size_t size = DTypeSize(want.dtype());
  return std::memcmp(want.data<char>() + w * size, got.data<char>() + g * size, size) == 0;
}

absl::Status Difference(int64_t i, const Tensor& want, int64_t w, const Tensor& got) {
  return FailedPrecondition("element ", i, " of ", got.num_elements(), ": expected ",
                            ElementText(want, w), ", got ", ElementText(got, i));
}

absl::Status CompareNmse(const Tensor& want, const Tensor& got, double limit) {
  double error = 0;
  double norm = 0;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    double a[2], b[2];
    if (!AsDoubles(want, i, a)) return InvalidArgument("nmse needs a floating dtype");
    AsDoubles(got, i, b);
    for (int part = 0; part < 2; ++part) {
      error += (a[part] - b[part]) * (a[part] - b[part]);
      norm += a[part] * a[part];
    }
  }
  if (!(error <= limit * std::max(norm, 1e-30))) {
    return FailedPrecondition("nmse ", error / norm, " is above ", limit);
  }
  return absl::OkStatus();
}

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

Tolerance DefaultTolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kComplex64:
      return {1e-5, 1e-6, std::nullopt};
    case DType::kDouble:
    case DType::kComplex128:
      return {1e-10, 1e-12, std::nullopt};
    case DType::kHalf:
      return {2e-3, 1e-4, std::nullopt};
    case DType::kBfloat16:
      return {1.6e-2, 1e-3, std::nullopt};
    default:
      return {};
  }
}

absl::StatusOr<std::vector<OpCase>> ParseOpCases(absl::string_view file, absl::string_view text) {
  std::vector<OpCase> cases;
  std::string line;
  int line_number = 0;
  int first_line = 0;
  auto finish = [&]() -> absl::Status {
    if (line.empty()) return absl::OkStatus();
    const size_t before = cases.size();
    absl::Status status = ParseLine(line, cases);
    if (!status.ok()) return InvalidArgument(file, ":", first_line, ": ", status.message());
    if (cases.size() > before) {
      cases.back().file = std::string(file);
      cases.back().line = first_line;
    }
    line.clear();
    return absl::OkStatus();
  };
  for (absl::string_view next : absl::StrSplit(text, '\n')) {
    ++line_number;
    const bool continues = absl::StartsWith(next, " ") || absl::StartsWith(next, "\t");
    if (continues && !line.empty()) {
      absl::StrAppend(&line, next);
      continue;
    }
    FORMWORK_RETURN_IF_ERROR(finish());
    next = absl::StripAsciiWhitespace(next);
    if (next.empty() || next[0] == '#') continue;
    line = std::string(next);
    first_line = line_number;
  }
  FORMWORK_RETURN_IF_ERROR(finish());
  return cases;
}

absl::StatusOr<Tensor> MakeValue(const ValueText& text, Allocator& allocator) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(allocator, text.dtype, text.shape));
  const int64_t n = text.shape.num_elements();
  void* base = tensor.mutable_raw();
  const std::string maker = text.tokens.empty() ? "" : text.tokens[0];
  if (maker == "zeros" || maker == "ones" || maker == "range") {
    const bool complex = IsComplex(text.dtype);
    for (int64_t i = 0; i < n; ++i) {
      const double number = maker == "zeros" ? 0 : maker == "ones" ? 1 : static_cast<double>(i);
      if (complex) {
        FORMWORK_RETURN_IF_ERROR(StoreToken(text.dtype, absl::StrCat("(", number, ",0)"), i, base));
      } else {
        StoreNumber(text.dtype, number, i, base);
      }
    }
    return tensor;
  }
  if (absl::StartsWith(maker, "uniform(")) {
    double low, high;
    uint64_t seed;
    FORMWORK_RETURN_IF_ERROR(ParseUniform(text.tokens, &low, &high, &seed));
    StoreUniform(text.dtype, low, high, seed, n, base);
    return tensor;
  }
  if (static_cast<int64_t>(text.tokens.size()) != n) {
    return InvalidArgument("shape ", text.shape.ToString(), " needs ", n, " elements, got ",
                           text.tokens.size());
  }
  for (int64_t i = 0; i < n; ++i) {
    FORMWORK_RETURN_IF_ERROR(StoreToken(text.dtype, text.tokens[i], i, base));
  }
  return tensor;
}

absl::Status CompareValue(const ValueText& expected, const Tensor& got,
                          const std::optional<Tolerance>& tolerance) {
  if (!got.has_value()) return FailedPrecondition("there is no value");
  if (got.dtype() != expected.dtype) {
    return FailedPrecondition("expected dtype ", DTypeName(expected.dtype), ", got ",
                              DTypeName(got.dtype()));
  }
  if (got.shape() != expected.shape) {
    return FailedPrecondition("expected shape ", expected.shape.ToString(), ", got ",
                              got.shape().ToString());
  }
  const std::string maker = expected.tokens.empty() ? "" : expected.tokens[0];
  if (maker == "any") return absl::OkStatus();
  const Tolerance limits = tolerance.value_or(DefaultTolerance(expected.dtype));
  if (absl::StartsWith(maker, "sampled(")) {
    absl::string_view seed_text = maker;
    uint64_t seed;
    if (!absl::ConsumePrefix(&seed_text, "sampled(") || !absl::ConsumeSuffix(&seed_text, ")") ||
        !absl::SimpleAtoi(seed_text, &seed)) {
      return InvalidArgument("not sampled(seed): ", maker);
    }
    ValueText samples;
    samples.dtype = expected.dtype;
    samples.tokens.assign(expected.tokens.begin() + 1, expected.tokens.end());
    samples.shape = Shape({static_cast<int64_t>(samples.tokens.size())});
    FORMWORK_ASSIGN_OR_RETURN(Tensor want, MakeValue(samples, ProcessAllocator()));
    Draws draws(seed);
    for (int64_t s = 0; s < want.num_elements(); ++s) {
      const int64_t i =
          static_cast<int64_t>(draws.Next() % static_cast<uint64_t>(got.num_elements()));
      if (!SameElement(want, s, got, i, limits)) return Difference(i, want, s, got);
    }
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor want, MakeValue(expected, ProcessAllocator()));
  if (limits.nmse) return CompareNmse(want, got, *limits.nmse);
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    if (!SameElement(want, i, got, i, limits)) return Difference(i, want, i, got);
  }
  return absl::OkStatus();
}

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
