#include "gpu/element_source.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "gpu/element_functions_text.h"

namespace formwork {
namespace {

constexpr ElementOp kOps[] = {
#define FORMWORK_ELEMENT_OP(op, arity, dtypes, result, expression) \
  {#op, arity, ElementOp::DTypes::dtypes, ElementOp::Result::result, #expression},
#include "gpu/element_ops.inc"
#undef FORMWORK_ELEMENT_OP
};

constexpr absl::string_view kOperands[] = {"a", "b", "c"};

absl::string_view TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return "float";
    case DType::kDouble:
      return "double";
    case DType::kHalf:
      return "half";
    case DType::kBfloat16:
      return "bfloat16";
    case DType::kInt8:
      return "int8_t";
    case DType::kInt16:
      return "int16_t";
    case DType::kInt32:
      return "int32_t";
    case DType::kInt64:
      return "int64_t";
    case DType::kUint8:
      return "uint8_t";
    case DType::kUint16:
      return "uint16_t";
    case DType::kUint32:
      return "uint32_t";
    case DType::kUint64:
      return "uint64_t";
    case DType::kBool:
      return "bool";
    default:
      return "";
  }
}

bool IsSmallFloat(DType dtype) { return dtype == DType::kHalf || dtype == DType::kBfloat16; }

// Behind the functions: how elements are read and written.
constexpr char kAccess[] = R"(
__device__ __forceinline__ float Widen(half x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
__device__ __forceinline__ float Widen(bfloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
template <typename T>
__device__ __forceinline__ T Widen(T x) {
  return x;
}
template <typename To>
struct Narrow {
  template <typename T>
  static __device__ __forceinline__ To Of(T x) {
    return static_cast<To>(x);
  }
};
template <>
struct Narrow<half> {
  static __device__ __forceinline__ half Of(float x) {
    half narrow;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
    return narrow;
  }
};
template <>
struct Narrow<bfloat16> {
  static __device__ __forceinline__ bfloat16 Of(float x) {
    bfloat16 narrow;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
    return narrow;
  }
};
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Several {
  T of[kWidth];
};
)";

// $0: the operands' declarations; $1: the output's type; $2: elements per thread; $3: loads of
// several elements; values of an element, $4: of one by one, $5: of several; $6: of scalars.
constexpr char kFlat[] = R"(
extern "C" __global__ void __launch_bounds__(256) element($0, $1* out,
                                                          unsigned long long n) {
  constexpr int kWidth = $2;
$6  const unsigned long long stride = 1ull * gridDim.x * blockDim.x;
  const unsigned long long first = 1ull * blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned long long groups = n / kWidth;
  for (unsigned long long g = first; g < groups; g += stride) {
$3    Several<$1, kWidth> result;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) result.of[k] = Narrow<$1>::Of(Compute($5));
    reinterpret_cast<Several<$1, kWidth>*>(out)[g] = result;
  }
  for (unsigned long long i = groups * kWidth + first; i < n; i += stride) {
    out[i] = Narrow<$1>::Of(Compute($4));
  }
}
)";

// $0 and $1 as above; $2: offsets' declarations; $3: their sums; $4: values.
constexpr char kStrided[] = R"(
struct ElementStrides {
  int rank;
  unsigned dims[8];
  unsigned strides[3][8];
};
extern "C" __global__ void __launch_bounds__(256) element($0, $1* out,
                                                          unsigned long long n,
                                                          ElementStrides at) {
  const unsigned stride = gridDim.x * blockDim.x;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    unsigned left = static_cast<unsigned>(i);
    unsigned $2;
    for (int d = 0; d < at.rank; ++d) {
      const unsigned rest = left / at.dims[d];
      const unsigned k = left - rest * at.dims[d];
      left = rest;
$3    }
    out[i] = Narrow<$1>::Of(Compute($4));
  }
}
)";

}  // namespace

bool ElementOp::Takes(DType dtype) const {
  const bool floating = dtype == DType::kFloat || dtype == DType::kDouble || IsSmallFloat(dtype);
  const bool integer = IsInteger(dtype) && !TypeOf(dtype).empty();
  switch (dtypes) {
    case DTypes::kFloats:
      return floating;
    case DTypes::kNumbers:
      return floating || integer;
    case DTypes::kIntegers:
      return integer;
    case DTypes::kBools:
      return dtype == DType::kBool;
  }
  return false;
}

absl::Span<const ElementOp> ElementOps() { return kOps; }

const ElementOp* FindElementOp(absl::string_view name) {
  static const auto* const by_name = [] {
    auto* const made = new absl::flat_hash_map<absl::string_view, const ElementOp*>;
    for (const ElementOp& op : kOps) made->emplace(op.name, &op);
    return made;
  }();
  const auto found = by_name->find(name);
  return found == by_name->end() ? nullptr : found->second;
}

int ElementsPerThread(const ElementOp& op, DType dtype) {
  const size_t out = op.result == ElementOp::Result::kBool ? 1 : DTypeSize(dtype);
  return static_cast<int>(16 / std::max(DTypeSize(dtype), out));
}

std::string ElementSource(const ElementOp& op, DType dtype, ElementOrder order, unsigned scalars) {
  const absl::string_view in = TypeOf(dtype);
  const absl::string_view out = op.result == ElementOp::Result::kBool ? "bool" : in;
  std::string text =
      absl::StrCat(kElementFunctionsText, kAccess, "using namespace formwork_element;\n",
                   "using T = ", IsSmallFloat(dtype) ? "float" : in, ";\n",
                   "__device__ __forceinline__ auto Compute(");
  for (int k = 0; k < op.arity; ++k) absl::StrAppend(&text, k > 0 ? ", " : "", "T ", kOperands[k]);
  absl::StrAppend(&text, ") { return ", op.expression, "; }\n");

  std::string declared, loads, of_scalars, of_one, of_several, offsets, sums, at_offsets;
  for (int k = 0; k < op.arity; ++k) {
    const absl::string_view name = kOperands[k];
    const absl::string_view comma = k > 0 ? ", " : "";
    const bool scalar = (scalars >> k & 1) != 0;
    absl::StrAppend(&declared, comma, "const ", in, "* ", name);
    if (scalar) {
      absl::StrAppend(&of_scalars, "  const T one_", name, " = Widen(", name, "[0]);\n");
    } else {
      absl::StrAppend(&loads, "    const auto many_", name, " = reinterpret_cast<const Several<",
                      in, ", kWidth>*>(", name, ")[g];\n");
    }
    const std::string one = absl::StrCat("one_", name);
    absl::StrAppend(&of_one, comma, scalar ? one : absl::StrCat("Widen(", name, "[i])"));
    absl::StrAppend(&of_several, comma,
                    scalar ? one : absl::StrCat("Widen(many_", name, ".of[k])"));
    absl::StrAppend(&offsets, comma, "at_", name, " = 0");
    absl::StrAppend(&sums, "      at_", name, " += k * at.strides[", k, "][d];\n");
    absl::StrAppend(&at_offsets, comma, "Widen(", name, "[at_", name, "])");
  }
  if (order == ElementOrder::kFlat) {
    absl::SubstituteAndAppend(&text, kFlat, declared, out, ElementsPerThread(op, dtype), loads,
                              of_one, of_several, of_scalars);
  } else {
    absl::SubstituteAndAppend(&text, kStrided, declared, out, offsets, sums, at_offsets);
  }
  return text;
}

}  // namespace formwork
