#pragma once

// Element types. The numbers are TensorFlow's (types.proto), so that they cross the wire as they
// are.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include "absl/strings/string_view.h"

#include "core/tensor/small_float.h"

namespace formwork {

enum class DType : uint8_t {
  kInvalid = 0,
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kQint8 = 11,
  kQuint8 = 12,
  kQint32 = 13,
  kBfloat16 = 14,
  kQint16 = 15,
  kQuint16 = 16,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kResource = 20,
  kVariant = 21,
  kUint32 = 22,
  kUint64 = 23,
  kFloat8E5m2 = 24,
  kFloat8E4m3fn = 25,
  kFloat8E4m3fnuz = 26,
  kFloat8E4m3b11fnuz = 27,
  kFloat8E5m2fnuz = 28,
  kInt4 = 29,
  kUint4 = 30,
  kInt2 = 31,
  kUint2 = 32,
  kFloat4E2m1fn = 33,
};

/// True for the types above but kInvalid (reference types, 100 + n, are not among them).
bool IsKnown(DType dtype);

/// TensorFlow's name: "float32" is "float" in graphs but DTypeName gives what users see:
/// "float32", "half" is "float16", "int32", "string", ...
absl::string_view DTypeName(DType dtype);

/// The reverse of DTypeName; also takes graph names ("float", "half", "double") and "DT_FLOAT"
/// forms. kInvalid where the name is unknown.
DType DTypeFromName(absl::string_view name);

/// Bytes of one element in a Buffer: plain data by width; kString, kVariant the size of the C++
/// object; sub-byte types take one byte each. 0 for kInvalid.
size_t DTypeSize(DType dtype);

/// True where elements are plain bytes that may be copied with memcpy and sent over the wire
/// (everything but string, variant and resource).
bool IsPlainData(DType dtype);

bool IsFloating(DType dtype);  ///< half, bfloat16, float, double, float8 kinds.
bool IsInteger(DType dtype);   ///< int8 ... uint64, int4 and uint4 kinds; not bool, not quantized.
bool IsUnsigned(DType dtype);
bool IsComplex(DType dtype);
bool IsQuantized(DType dtype);

/// Maps a C++ element type to its DType: DTypeOf<float>::value.
template <typename T>
struct DTypeOf;
#define FORMWORK_DTYPE_OF(cpp, dtype)     \
  template <>                             \
  struct DTypeOf<cpp> {                   \
    static constexpr DType value = dtype; \
  }
FORMWORK_DTYPE_OF(float, DType::kFloat);
FORMWORK_DTYPE_OF(double, DType::kDouble);
FORMWORK_DTYPE_OF(int8_t, DType::kInt8);
FORMWORK_DTYPE_OF(int16_t, DType::kInt16);
FORMWORK_DTYPE_OF(int32_t, DType::kInt32);
FORMWORK_DTYPE_OF(int64_t, DType::kInt64);
FORMWORK_DTYPE_OF(uint8_t, DType::kUint8);
FORMWORK_DTYPE_OF(uint16_t, DType::kUint16);
FORMWORK_DTYPE_OF(uint32_t, DType::kUint32);
FORMWORK_DTYPE_OF(uint64_t, DType::kUint64);
FORMWORK_DTYPE_OF(bool, DType::kBool);
FORMWORK_DTYPE_OF(half, DType::kHalf);
FORMWORK_DTYPE_OF(bfloat16, DType::kBfloat16);
FORMWORK_DTYPE_OF(std::complex<float>, DType::kComplex64);
FORMWORK_DTYPE_OF(std::complex<double>, DType::kComplex128);
FORMWORK_DTYPE_OF(std::string, DType::kString);
#undef FORMWORK_DTYPE_OF

}  // namespace formwork

// Runs `return expr;` with T bound to the C++ type of `dtype`, over the types that a group names;
// falls through where dtype is none of them. Use inside a function that returns.
#define FORMWORK_CASE(cpp, ...)           \
  case ::formwork::DTypeOf<cpp>::value: { \
    using T = cpp;                        \
    __VA_ARGS__;                          \
  } break;
#define FORMWORK_FLOAT_CASES(...)              \
  FORMWORK_CASE(float, __VA_ARGS__)            \
  FORMWORK_CASE(double, __VA_ARGS__)           \
  FORMWORK_CASE(::formwork::half, __VA_ARGS__) \
  FORMWORK_CASE(::formwork::bfloat16, __VA_ARGS__)
#define FORMWORK_INTEGER_CASES(...)    \
  FORMWORK_CASE(int8_t, __VA_ARGS__)   \
  FORMWORK_CASE(int16_t, __VA_ARGS__)  \
  FORMWORK_CASE(int32_t, __VA_ARGS__)  \
  FORMWORK_CASE(int64_t, __VA_ARGS__)  \
  FORMWORK_CASE(uint8_t, __VA_ARGS__)  \
  FORMWORK_CASE(uint16_t, __VA_ARGS__) \
  FORMWORK_CASE(uint32_t, __VA_ARGS__) \
  FORMWORK_CASE(uint64_t, __VA_ARGS__)
#define FORMWORK_COMPLEX_CASES(...)               \
  FORMWORK_CASE(std::complex<float>, __VA_ARGS__) \
  FORMWORK_CASE(std::complex<double>, __VA_ARGS__)
#define FORMWORK_REAL_CASES(...)    \
  FORMWORK_FLOAT_CASES(__VA_ARGS__) \
  FORMWORK_INTEGER_CASES(__VA_ARGS__)
#define FORMWORK_NUMBER_CASES(...) \
  FORMWORK_REAL_CASES(__VA_ARGS__) \
  FORMWORK_COMPLEX_CASES(__VA_ARGS__)
