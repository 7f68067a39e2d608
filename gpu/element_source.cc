#include "gpu/element_source.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "gpu/element_access_text.h"
#include "gpu/element_functions_text.h"
#include "gpu/item_functions_text.h"

namespace formwork {
namespace {

constexpr ElementOp kOps[] = {
#define FORMWORK_ELEMENT_OP(op, arity, dtypes, result, expression) \
  {#op, arity, ElementOp::DTypes::dtypes, ElementOp::Result::result, #expression},
#include "gpu/element_ops.inc"
#undef FORMWORK_ELEMENT_OP
};

constexpr absl::string_view kOperands[] = {"a", "b", "c"};

bool IsSmallFloat(DType dtype) { return dtype == DType::kHalf || dtype == DType::kBfloat16; }

// $0: the operands' declarations; $1: the output's type; $2: elements per thread; $3: loads of
// several elements; values of an element, $4: of one by one, $5: of several; $6: of scalars. Of an
// op that may fail: $7: more parameters, $8: what comes first, $9: last.
constexpr char kFlat[] = R"(
extern "C" __global__ void __launch_bounds__(256) element($0, $1* out,
                                                          unsigned long long n$7) {
$8  constexpr int kWidth = $2;
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
$9}
)";

// $0 and $1 as above; $2: offsets' declarations; $3: their sums; $4: values; $5, $6 and $7 as $7,
// $8 and $9 above.
constexpr char kStrided[] = R"(
struct ElementStrides {
  int rank;
  unsigned dims[8];
  unsigned strides[3][8];
};
extern "C" __global__ void __launch_bounds__(256) element($0, $1* out,
                                                          unsigned long long n,
                                                          ElementStrides at$5) {
$6  const unsigned stride = gridDim.x * blockDim.x;
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
$7}
)";

constexpr char kMoreParameters[] = ", FailureWord* word, unsigned long long step";
constexpr char kFirst[] = R"(  if (FailedEarlier(word, step)) return;
  bool bad = false;
)";
constexpr char kLast[] = "  if (bad) Fail({word, step}, 0);\n";

}  // namespace

absl::string_view ElementTypeName(DType dtype) {
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

bool ElementOp::Takes(DType dtype) const {
  const bool floating = dtype == DType::kFloat || dtype == DType::kDouble || IsSmallFloat(dtype);
  const bool integer = IsInteger(dtype) && !ElementTypeName(dtype).empty();
  switch (dtypes) {
    case DTypes::kFloats:
      return floating;
    case DTypes::kNumbers:
    case DTypes::kDivided:
      return floating || integer;
    case DTypes::kIntegers:
      return integer;
    case DTypes::kBools:
      return dtype == DType::kBool;
  }
  return false;
}

bool ElementOp::MayFail(DType dtype) const {
  return dtypes == DTypes::kDivided && IsInteger(dtype);
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
  const absl::string_view in = ElementTypeName(dtype);
  const absl::string_view out = op.result == ElementOp::Result::kBool ? "bool" : in;
  const bool may_fail = op.MayFail(dtype);
  std::string text = absl::StrCat(
      kElementFunctionsText, kElementAccessText, may_fail ? kItemFunctionsText : "",
      "using namespace formwork_element;\n", "using T = ", IsSmallFloat(dtype) ? "float" : in,
      ";\n", "__device__ __forceinline__ auto Compute(");
  for (int k = 0; k < op.arity; ++k) absl::StrAppend(&text, k > 0 ? ", " : "", "T ", kOperands[k]);
  absl::StrAppend(&text,
                  may_fail ? ", bool& bad) { bad = bad || b == T(0); return " : ") { return ",
                  op.expression, "; }\n");

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
  if (may_fail) {
    for (std::string* values : {&of_one, &of_several, &at_offsets}) {
      absl::StrAppend(values, ", bad");
    }
  }
  const absl::string_view more = may_fail ? kMoreParameters : "", first = may_fail ? kFirst : "",
                          last = may_fail ? kLast : "";
  if (order == ElementOrder::kFlat) {
    absl::SubstituteAndAppend(&text, kFlat, declared, out, ElementsPerThread(op, dtype), loads,
                              of_one, of_several, of_scalars, more, first, last);
  } else {
    absl::SubstituteAndAppend(&text, kStrided, declared, out, offsets, sums, at_offsets, more,
                              first, last);
  }
  return text;
}

}  // namespace formwork
