#include "core/kernels/elementwise/elementwise_cast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/elementwise/elementwise_blocks.h"
#include "core/ops/elementwise.h"

namespace formwork {
namespace {

constexpr int64_t kCastBlock = 512;
constexpr int64_t kCastGrain = 64 * 1024;

// How a float8 is laid out: IEEE-like with `kMantissa` bits of fraction. kMostCode is the largest
// finite value's; beyond it comes kBeyond (infinity, or NaN where there is none).
struct E5m2 {
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr uint8_t kMostCode = 0x7b, kBeyond = 0x7c, kNotANumber = 0x7e;
};
struct E4m3fn {
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr uint8_t kMostCode = 0x7e, kBeyond = 0x7f, kNotANumber = 0x7f;
};

template <typename Layout>
float DecodeFloat8(uint8_t code) {
  const uint8_t magnitude = code & 0x7f;
  const float sign = code & 0x80 ? -1.0f : 1.0f;
  if (magnitude > Layout::kMostCode) {
    return magnitude == Layout::kBeyond && Layout::kBeyond != Layout::kNotANumber
               ? sign * std::numeric_limits<float>::infinity()
               : std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  }
  const int exponent = magnitude >> Layout::kMantissa;
  const int fraction = magnitude & ((1 << Layout::kMantissa) - 1);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - Layout::kBias - Layout::kMantissa);
  return sign * std::ldexp(fraction + (1 << Layout::kMantissa),
                           exponent - Layout::kBias - Layout::kMantissa);
}

template <typename Layout>
uint8_t EncodeFloat8(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return sign | Layout::kNotANumber;
  float magnitude;
  std::memcpy(&magnitude, &bits, sizeof(bits));
  constexpr int kSmallestExponent = 1 - Layout::kBias;
  if (magnitude < std::ldexp(1.0f, kSmallestExponent)) {
    // Denormal: the code counts the smallest steps; adding 2^23 rounds to even.
    const float steps = magnitude * std::ldexp(1.0f, Layout::kMantissa - kSmallestExponent);
    return sign | static_cast<uint8_t>((steps + 8388608.0f) - 8388608.0f);
  }
  constexpr int kShift = 23 - Layout::kMantissa;
  bits += (1u << (kShift - 1)) - 1 + ((bits >> kShift) & 1);
  const uint32_t code =
      (bits >> kShift) - (static_cast<uint32_t>(127 - Layout::kBias) << Layout::kMantissa);
  return sign | static_cast<uint8_t>(code > Layout::kMostCode ? Layout::kBeyond : code);
}

template <typename Layout>
void DecodeBlock(const void* in, void* out, int64_t n) {
  static const auto* const kTable = [] {
    auto* table = new std::array<float, 256>();
    for (int i = 0; i < 256; ++i) (*table)[i] = DecodeFloat8<Layout>(static_cast<uint8_t>(i));
    return table;
  }();
  for (int64_t i = 0; i < n; ++i) {
    static_cast<float*>(out)[i] = (*kTable)[static_cast<const uint8_t*>(in)[i]];
  }
}
template <typename Layout>
void EncodeBlock(const void* in, void* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    static_cast<uint8_t*>(out)[i] = EncodeFloat8<Layout>(static_cast<const float*>(in)[i]);
  }
}

// Sub-byte integers have a byte each, of whose upper bits clients make what they like (NumPy has
// zeros there also of what is negative); what does not fit is cut off.
template <int kBits>
void CutSigned(const void* in, void* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t high = static_cast<uint8_t>(static_cast<const uint8_t*>(in)[i] << (8 - kBits));
    static_cast<int8_t*>(out)[i] = static_cast<int8_t>(static_cast<int8_t>(high) >> (8 - kBits));
  }
}
template <int kBits>
void CutUnsigned(const void* in, void* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    static_cast<uint8_t*>(out)[i] = static_cast<const uint8_t*>(in)[i] & ((1 << kBits) - 1);
  }
}

using ConvertFn = void (*)(const void* in, void* out, int64_t n);

// A type that the table has no entries for: the one that computes for it, and the ways there and
// back (null: the same bytes).
struct Detour {
  DType by = DType::kInvalid;
  ConvertFn decode = nullptr, encode = nullptr;
};

Detour DetourOf(DType dtype) {
  switch (dtype) {
    case DType::kQint8:
      return {DType::kInt8, nullptr, nullptr};
    case DType::kQuint8:
      return {DType::kUint8, nullptr, nullptr};
    case DType::kQint16:
      return {DType::kInt16, nullptr, nullptr};
    case DType::kQuint16:
      return {DType::kUint16, nullptr, nullptr};
    case DType::kQint32:
      return {DType::kInt32, nullptr, nullptr};
    case DType::kFloat8E5m2:
      return {DType::kFloat, DecodeBlock<E5m2>, EncodeBlock<E5m2>};
    case DType::kFloat8E4m3fn:
      return {DType::kFloat, DecodeBlock<E4m3fn>, EncodeBlock<E4m3fn>};
    case DType::kInt4:
      return {DType::kInt8, CutSigned<4>, CutSigned<4>};
    case DType::kUint4:
      return {DType::kUint8, CutUnsigned<4>, CutUnsigned<4>};
    default:
      return {dtype, nullptr, nullptr};
  }
}

// Bits of precision of a floating type, the hidden one included; 0 for others.
int Digits(DType dtype) {
  switch (dtype) {
    case DType::kDouble:
      return 53;
    case DType::kFloat:
      return 24;
    case DType::kHalf:
      return 11;
    case DType::kBfloat16:
      return 8;
    case DType::kFloat8E4m3fn:
      return 4;
    case DType::kFloat8E5m2:
      return 3;
    default:
      return 0;
  }
}

template <typename T>
void ClearLowBits(const void* in, int bits, void* out, int64_t n) {
  const T mask = static_cast<T>(~((uint64_t{1} << bits) - 1));
  for (int64_t i = 0; i < n; ++i) {
    static_cast<T*>(out)[i] = static_cast<T>(static_cast<const T*>(in)[i] & mask);
  }
}

// One cast, block by block: bits dropped, decoded, cast by the table, encoded.
class CastRun {
 public:
  CastRun(DType from, DType to, const BlockOp* cast, int dropped_bits)
      : from_(from),
        to_(to),
        decode_(DetourOf(from).decode),
        encode_(DetourOf(to).encode),
        cast_(cast),
        dropped_bits_(dropped_bits) {}

  absl::Status operator()(KernelContext& ctx) const {
    const Tensor& input = ctx.input(0);
    const Shape shape = input.shape();
    const char* in = input.data<char>();
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, to_, shape));
    char* out = output->mutable_data<char>();
    ParallelFor(shape.num_elements(), kCastGrain, [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += kCastBlock) {
        Block(in + static_cast<size_t>(begin) * DTypeSize(from_),
              out + static_cast<size_t>(begin) * DTypeSize(to_), std::min(kCastBlock, end - begin));
      }
    });
    return absl::OkStatus();
  }

 private:
  void Block(const void* in, void* out, int64_t n) const {
    alignas(16) char cleared[kCastBlock * 8], decoded[kCastBlock * 4], cast[kCastBlock * 16];
    if (dropped_bits_ > 0) {
      switch (DTypeSize(from_)) {
        case 1:
          ClearLowBits<uint8_t>(in, dropped_bits_, cleared, n);
          break;
        case 2:
          ClearLowBits<uint16_t>(in, dropped_bits_, cleared, n);
          break;
        case 4:
          ClearLowBits<uint32_t>(in, dropped_bits_, cleared, n);
          break;
        default:
          ClearLowBits<uint64_t>(in, dropped_bits_, cleared, n);
      }
      in = cleared;
    }
    if (decode_ != nullptr) {
      decode_(in, decoded, n);
      in = decoded;
    }
    void* result = encode_ != nullptr ? cast : out;
    cast_->fn(&in, result, n);
    if (encode_ != nullptr) encode_(result, out, n);
  }

  DType from_, to_;
  ConvertFn decode_, encode_;
  const BlockOp* cast_;
  int dropped_bits_;
};

}  // namespace

absl::StatusOr<KernelFn> MakeDetourCast(KernelInit& init) {
  const DType from = init.input_dtypes()[0], to = init.output_dtypes()[0];
  const DType by[] = {DetourOf(from).by};
  const BlockOp* cast = FindBlockOp("Cast", by, DetourOf(to).by);
  if (cast == nullptr) {
    return Unimplemented("Cast ", DTypeName(from), " to ", DTypeName(to), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(const CastAttrs attrs, CastAttrs::FromAttrs(init.attrs()));
  const bool narrower = Digits(to) > 0 && Digits(from) > Digits(to);
  return KernelFn(
      CastRun(from, to, cast, attrs.truncate && narrower ? Digits(from) - Digits(to) : 0));
}

}  // namespace formwork
