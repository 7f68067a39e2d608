#include "core/tensor/dtype.h"

#include <array>
#include <memory>
#include <utility>

#include "absl/strings/match.h"

namespace formwork {
namespace {

enum Kind : uint8_t {
  kNone,
  kFloatKind,
  kIntegerKind,
  kUnsignedKind,
  kComplexKind,
  kQuantKind,
  kOtherKind,
  kObjectKind
};

struct Row {
  absl::string_view name;        // What users see.
  absl::string_view graph_name;  // What op specs and TensorFlow's messages use.
  uint8_t size;
  Kind kind;
};

constexpr std::array<Row, 34> kRows = {{
    {"invalid", "invalid", 0, kNone},
    {"float32", "float", 4, kFloatKind},
    {"float64", "double", 8, kFloatKind},
    {"int32", "int32", 4, kIntegerKind},
    {"uint8", "uint8", 1, kUnsignedKind},
    {"int16", "int16", 2, kIntegerKind},
    {"int8", "int8", 1, kIntegerKind},
    {"string", "string", sizeof(std::string), kObjectKind},
    {"complex64", "complex64", 8, kComplexKind},
    {"int64", "int64", 8, kIntegerKind},
    {"bool", "bool", 1, kOtherKind},
    {"qint8", "qint8", 1, kQuantKind},
    {"quint8", "quint8", 1, kQuantKind},
    {"qint32", "qint32", 4, kQuantKind},
    {"bfloat16", "bfloat16", 2, kFloatKind},
    {"qint16", "qint16", 2, kQuantKind},
    {"quint16", "quint16", 2, kQuantKind},
    {"uint16", "uint16", 2, kUnsignedKind},
    {"complex128", "complex128", 16, kComplexKind},
    {"float16", "half", 2, kFloatKind},
    {"resource", "resource", 8, kObjectKind},
    {"variant", "variant", sizeof(std::shared_ptr<int>), kObjectKind},
    {"uint32", "uint32", 4, kUnsignedKind},
    {"uint64", "uint64", 8, kUnsignedKind},
    {"float8_e5m2", "float8_e5m2", 1, kFloatKind},
    {"float8_e4m3fn", "float8_e4m3fn", 1, kFloatKind},
    {"float8_e4m3fnuz", "float8_e4m3fnuz", 1, kFloatKind},
    {"float8_e4m3b11fnuz", "float8_e4m3b11fnuz", 1, kFloatKind},
    {"float8_e5m2fnuz", "float8_e5m2fnuz", 1, kFloatKind},
    {"int4", "int4", 1, kIntegerKind},
    {"uint4", "uint4", 1, kUnsignedKind},
    {"int2", "int2", 1, kIntegerKind},
    {"uint2", "uint2", 1, kUnsignedKind},
    {"float4_e2m1fn", "float4_e2m1fn", 1, kFloatKind},
}};

const Row& RowOf(DType dtype) {
  const size_t i = static_cast<size_t>(dtype);
  return kRows[i < kRows.size() ? i : 0];
}

}  // namespace

bool IsKnown(DType dtype) { return RowOf(dtype).kind != kNone; }
absl::string_view DTypeName(DType dtype) { return RowOf(dtype).name; }
size_t DTypeSize(DType dtype) { return RowOf(dtype).size; }

DType DTypeFromName(absl::string_view name) {
  if (absl::StartsWith(name, "DT_")) {
    std::string lower;
    const std::string rest(name.substr(3));
    for (char c : rest) lower.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
    return DTypeFromName(lower);
  }
  for (size_t i = 1; i < kRows.size(); ++i) {
    if (kRows[i].name == name || kRows[i].graph_name == name) return static_cast<DType>(i);
  }
  return DType::kInvalid;
}

bool IsPlainData(DType dtype) {
  return RowOf(dtype).kind != kObjectKind && RowOf(dtype).kind != kNone;
}
bool IsFloating(DType dtype) { return RowOf(dtype).kind == kFloatKind; }
bool IsInteger(DType dtype) {
  return RowOf(dtype).kind == kIntegerKind || RowOf(dtype).kind == kUnsignedKind;
}
bool IsUnsigned(DType dtype) { return RowOf(dtype).kind == kUnsignedKind; }
bool IsComplex(DType dtype) { return RowOf(dtype).kind == kComplexKind; }
bool IsQuantized(DType dtype) { return RowOf(dtype).kind == kQuantKind; }

}  // namespace formwork
