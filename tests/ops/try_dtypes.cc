// Tells which dtypes the CPU's kernels refuse, for tests/python/test_op_dtypes.py. It reads lines
// of an op and some of its attrs of kind type,
//
//   MatMul T=half
//
// runs the op's smallest case of tests/ops/*.optest with its inputs as values of these dtypes, and
// prints each line with the verdict before it:
//
//   runs      the kernel ran, or found a value wrong
//   refused   it is UNIMPLEMENTED: when the kernel is made, or when it runs; of an op that names a
//             resource, when that is declared
//   untried   there is no case that could be told so; the kernel was made, or was not to be made

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/default_attrs.h"
#include "core/ops/register_ops.h"
#include "tests/support/op_case.h"
#include "tests/support/op_case_objects.h"
#include "tests/support/op_case_text.h"
#include "tests/support/run_op_case.h"

namespace formwork::testing {
namespace {

using TypeAttrs = std::vector<std::pair<std::string, DType>>;

bool IsMaker(const ValueText& text) {
  if (text.tokens.empty()) return false;
  for (absl::string_view maker : {"zeros", "ones", "range", "uniform("}) {
    if (absl::StartsWith(text.tokens[0], maker)) return true;
  }
  return false;
}

bool HasNoSign(DType dtype) {
  return IsUnsigned(dtype) || dtype == DType::kQuint8 || dtype == DType::kQuint16;
}

bool IsFloat8(DType dtype) { return IsFloating(dtype) && DTypeSize(dtype) == 1; }

// The number in an element's token; 1 in a string's.
double NumberIn(absl::string_view token, DType dtype) {
  if (dtype == DType::kBool) return token == "true";
  if (IsComplex(dtype)) token = token.substr(1, token.find(',') - 1);
  const absl::StatusOr<double> number = ParseDouble(token);
  return number.ok() && std::isfinite(*number) ? *number : 1;
}

std::string TokenOf(double number, DType dtype) {
  if (dtype == DType::kString) return absl::StrCat("\"", static_cast<int64_t>(number), "\"");
  if (dtype == DType::kBool) return number != 0 ? "true" : "false";
  if (IsFloat8(dtype)) return number != 0 ? "0x38" : "0x00";
  if (IsComplex(dtype)) return absl::StrCat("(", number, ",0)");
  if (IsFloating(dtype)) return absl::StrCat(number);
  // Small enough for any integer, and none below 0 for what has no sign.
  const double most = DTypeSize(dtype) < 2 ? 7.0 : 32767.0;
  return absl::StrCat(
      static_cast<int64_t>(std::clamp(std::trunc(number), HasNoSign(dtype) ? 0.0 : -most, most)));
}

// `text` with elements of `dtype`. Nothing for what has no numbers: variants and handles.
std::optional<ValueText> Retyped(ValueText text, DType dtype) {
  if (text.dtype == dtype) return text;
  if (text.dtype == DType::kVariant || dtype == DType::kVariant || dtype == DType::kResource ||
      text.dtype == DType::kResource) {
    return std::nullopt;
  }
  if (IsMaker(text)) {
    // What has no numbers below 0 has none of a range that begins there.
    if (dtype == DType::kString || dtype == DType::kBool || IsFloat8(dtype) || HasNoSign(dtype)) {
      if (text.shape.num_elements() > 4096) return std::nullopt;
      const bool zeros = text.tokens[0] == "zeros";
      text.tokens.assign(static_cast<size_t>(text.shape.num_elements()),
                         TokenOf(zeros ? 0 : 1, dtype));
    }
  } else {
    for (std::string& token : text.tokens) token = TokenOf(NumberIn(token, text.dtype), dtype);
  }
  text.dtype = dtype;
  return text;
}

// A variable with a value of `dtype`, as the case's one.
std::optional<ValueText> RetypedVariable(const ValueText& text, DType dtype) {
  const absl::StatusOr<ResourceText> resource = ParseResource(text);
  if (!resource.ok() || !resource->type.is_variable() || !resource->value) return std::nullopt;
  const std::optional<ValueText> value = Retyped(*resource->value, dtype);
  if (!value) return std::nullopt;
  ValueText made = text;
  made.tokens = {absl::StrCat("(variable shape=", resource->type.parts[0].shape.ToString(), " ",
                              DTypeName(dtype), value->shape.ToString(), " ",
                              absl::StrJoin(value->tokens, " "), ")")};
  return made;
}

// The case as one of `types`. Nothing where its inputs have no text in these dtypes.
std::optional<OpCase> WithTypes(OpCase op_case, const OpDef& op, const TypeAttrs& types) {
  const absl::StatusOr<AttrMap> before = TypedAttrs(op_case, op);
  if (!before.ok()) return std::nullopt;
  AttrMap attrs = *before;
  for (const auto& [name, dtype] : types) {
    attrs.Set(name, dtype);
    std::erase_if(op_case.attrs, [&name = name](const auto& attr) { return attr.first == name; });
    op_case.attrs.emplace_back(name, std::string(DTypeName(dtype)));
  }
  const absl::StatusOr<std::vector<DType>> dtypes = ArgDTypes(op.inputs, attrs);
  if (!dtypes.ok() || dtypes->size() != op_case.inputs.size()) return std::nullopt;
  for (size_t i = 0; i < dtypes->size(); ++i) {
    ValueText& input = op_case.inputs[i];
    std::optional<ValueText> made = Retyped(input, (*dtypes)[i]);
    if (input.dtype == DType::kResource) {
      for (const char* name : {"dtype", "T"}) {
        if (const AttrDef* attr = op.FindAttr(name); attr != nullptr && !attr->is_list) {
          made = RetypedVariable(input, *attrs.Get<DType>(name));
        }
      }
    }
    if (!made) return std::nullopt;
    input = *std::move(made);
  }
  return op_case;
}

class Tries {
 public:
  Tries() {
    RegisterOps(ops_);
    RegisterCpuKernels(kernels_);
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(FORMWORK_OP_CASES)) {
      if (entry.path().extension() == ".optest") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path& path : files) AddCases(path);
  }

  const char* Verdict(absl::string_view name, const TypeAttrs& types) {
    const OpDef* op = ops_.Find(name);
    if (op == nullptr) return "untried";
    if (op->handle_of != nullptr) return RefusedByDeclaration(*op, types) ? "refused" : "untried";
    if (kernels_.Find(name) == nullptr) return "untried";
    bool ran = false;
    for (const OpCase& op_case : cases_[std::string(name)]) {
      const std::optional<OpCase> typed = WithTypes(op_case, *op, types);
      if (!typed) continue;
      const absl::Status status = RunForStatus(*typed, ops_, kernels_);
      if (status.code() == absl::StatusCode::kUnimplemented) return "refused";
      ran = true;
      if (status.ok()) break;
    }
    if (ran) return "runs";
    return RefusedByFactory(*op, types) ? "refused" : "untried";
  }

 private:
  static size_t SizeOf(const OpCase& op_case) {
    size_t size = 0;
    for (const ValueText& input : op_case.inputs) {
      size += static_cast<size_t>(std::max<int64_t>(input.shape.num_elements(), 0));
    }
    return size;
  }

  void AddCases(const std::filesystem::path& path) {
    std::ifstream stream(path);
    std::stringstream text;
    text << stream.rdbuf();
    absl::StatusOr<std::vector<OpCase>> parsed = ParseOpCases(path.string(), text.str());
    if (!parsed.ok()) {
      std::cerr << parsed.status() << "\n";
      std::exit(1);
    }
    for (OpCase& op_case : *parsed) {
      if (op_case.error != absl::StatusCode::kOk) continue;
      std::vector<OpCase>& kept = cases_[op_case.op];
      kept.push_back(std::move(op_case));
      // The smallest ones that have elements at all.
      constexpr size_t kTried = 3;
      std::stable_sort(kept.begin(), kept.end(), [](const OpCase& a, const OpCase& b) {
        const size_t x = SizeOf(a), y = SizeOf(b);
        return (x == 0) != (y == 0) ? y == 0 : x < y;
      });
      if (kept.size() > kTried) kept.pop_back();
    }
  }

  static AttrMap AttrsWith(const OpDef& op, const TypeAttrs& types) {
    AttrMap attrs = DefaultAttrs(op);
    for (const auto& [name, dtype] : types) attrs.Set(name, dtype);
    return attrs;
  }

  static bool RefusedByDeclaration(const OpDef& op, const TypeAttrs& types) {
    const absl::StatusOr<ResourceType> declared = op.handle_of(AttrsWith(op, types));
    return declared.status().code() == absl::StatusCode::kUnimplemented;
  }

  bool RefusedByFactory(const OpDef& op, const TypeAttrs& types) {
    const AttrMap attrs = AttrsWith(op, types);
    for (const AttrDef& attr : op.attrs) {
      if (attrs.Find(attr.name) == nullptr) return false;
    }
    const absl::StatusOr<std::vector<DType>> inputs = ArgDTypes(op.inputs, attrs);
    const absl::StatusOr<std::vector<DType>> outputs = ArgDTypes(op.outputs, attrs);
    if (!inputs.ok() || !outputs.ok()) return false;
    CaseInit init(op, attrs, *inputs, *outputs);
    return kernels_.Find(op.name)(init).status().code() == absl::StatusCode::kUnimplemented;
  }

  OpRegistry ops_;
  KernelRegistry kernels_{ops_};
  std::map<std::string, std::vector<OpCase>> cases_;
};

int Main() {
  Tries tries;
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty()) continue;
    TypeAttrs types;
    for (size_t i = 1; i < words.size(); ++i) {
      const std::pair<std::string, std::string> parts = absl::StrSplit(words[i], '=');
      types.emplace_back(parts.first, DTypeFromName(parts.second));
      if (types.back().second == DType::kInvalid) {
        std::cerr << "no such dtype: " << words[i] << "\n";
        return 1;
      }
    }
    std::cout << tries.Verdict(words[0], types) << " " << line << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace formwork::testing

int main() { return formwork::testing::Main(); }
