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
#include "tests/support/op_case.h"
#include "tests/support/op_case_objects.h"
#include "tests/support/op_case_text.h"

namespace formwork::testing {
namespace {

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

absl::Status CompareVariants(const ValueText& expected, const Tensor& got) {
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    FORMWORK_RETURN_IF_ERROR(CompareVariant(expected.tokens[i], got.data<Variant>()[i]));
  }
  return absl::OkStatus();
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

}  // namespace

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
    if (text.dtype == DType::kVariant) {
      FORMWORK_ASSIGN_OR_RETURN(static_cast<Variant*>(base)[i],
                                MakeVariant(text.tokens[i], allocator));
    } else {
      FORMWORK_RETURN_IF_ERROR(StoreToken(text.dtype, text.tokens[i], i, base));
    }
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
  if (expected.dtype == DType::kVariant) return CompareVariants(expected, got);
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

}  // namespace formwork::testing
