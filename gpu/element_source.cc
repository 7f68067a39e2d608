#include "gpu/element_source.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

absl::string_view ComputedType(DType dtype) {
  return IsSmallFloat(dtype) ? "float" : ElementTypeName(dtype);
}

// $0: the arguments' pointers; $1: inputs; $2: places in inputs; $3 and $4: how these go on, in one
// dimension and in the last of all; $5: loads of several elements; $6: results; $7: values of an
// element; $8: what becomes of them; $9: stores.
constexpr char kRun[] = R"(
struct Elements {
$0  unsigned long long n;
  unsigned rank;
  unsigned dims[kMostDims];  // The last one first; of it, groups.
  unsigned strides[$1][kMostDims];
};
template <int kWidth>
__device__ __forceinline__ void Run(const Elements& at, bool& bad) {
  const unsigned long long threads = 1ull * gridDim.x * blockDim.x;
  const unsigned long long first = 1ull * blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned long long groups = at.n / kWidth;
  for (unsigned long long g = first; g < groups; g += threads) {
    unsigned long long left = g;
    unsigned long long $2;
    for (unsigned d = 0; d + 1 < at.rank; ++d) {
      const unsigned here = static_cast<unsigned>(left);
      const unsigned rest = here / at.dims[d];
      const unsigned k = here - rest * at.dims[d];
      left = rest;
$3    }
    const unsigned d = at.rank - 1;
$4$5$6#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const Made made = Compute($7bad);
$8    }
$9  }
)";

// What is left behind the last group, of one dimension. $0: values; $1: stores.
constexpr char kRest[] = R"(  if constexpr (kWidth > 1) {
    for (unsigned long long i = groups * kWidth + first; i < at.n; i += threads) {
      const Made made = Compute($0bad);
$1    }
  }
}
)";

// $0: the name; $1: elements per thread; $2: what comes first, $3: last.
constexpr char kKernel[] = R"(
extern "C" __global__ void __launch_bounds__(256) $0(const __grid_constant__ Elements at,
    FailureWord* word, unsigned long long step) {
$2  bool bad = false;
  Run<$1>(at, bad);
$3}
)";

// $0: what becomes of an element.
constexpr char kKeep[] = R"(  if (FailedEarlier(word, step)) {
    const unsigned long long threads = 1ull * gridDim.x * blockDim.x;
    unsigned long long i = 1ull * blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < at.n; i += threads) {
$0    }
    return;
  }
)";

// The functions that the instructions call, one for each op and dtype, and the call of each.
class Functions {
 public:
  explicit Functions(const ElementProgram& program) : program_(program) {}

  std::string Call(const ElementProgram::Instruction& instruction) {
    const auto operand = [&](size_t k) { return absl::StrCat("v", instruction.operands[k]); };
    const absl::string_view type = ElementTypeName(instruction.dtype);
    if (instruction.op == nullptr) {
      return instruction.operands.size() == 1
                 ? absl::StrCat("CastTo<", type, ">(", operand(0), ")")
                 : absl::StrCat(operand(0), " ? ", operand(1), " : ", operand(2));
    }
    const DType dtype = program_.dtype(instruction.operands[0]);
    std::string call = absl::StrCat("Narrow<", type, ">::Of(", NameOf(*instruction.op, dtype), "(");
    for (size_t k = 0; k < instruction.operands.size(); ++k) {
      absl::StrAppend(&call, k > 0 ? ", " : "", "Widen(", operand(k), ")");
    }
    absl::StrAppend(&call, instruction.op->MayFail(dtype) ? ", bad))" : "))");
    return call;
  }
  const std::string& text() const { return text_; }

 private:
  const std::string& NameOf(const ElementOp& op, DType dtype) {
    std::string& name = names_[{op.name, dtype}];
    if (!name.empty()) return name;
    name = absl::StrCat(op.name, "_", ElementTypeName(dtype));
    absl::StrAppend(&text_, "__device__ __forceinline__ auto ", name, "(");
    for (int k = 0; k < op.arity; ++k) {
      absl::StrAppend(&text_, k > 0 ? ", " : "", ComputedType(dtype), " ", kOperands[k]);
    }
    if (op.MayFail(dtype)) absl::StrAppend(&text_, ", bool& bad");
    absl::StrAppend(&text_, ") {\n  using T = ", ComputedType(dtype), ";\n",
                    op.MayFail(dtype) ? "  bad = bad || b == T(0);\n" : "", "  return ",
                    op.expression, ";\n}\n");
    return name;
  }

  const ElementProgram& program_;
  std::map<std::pair<absl::string_view, DType>, std::string> names_;
  std::string text_;
};

std::string RunText(const ElementProgram& program) {
  std::string pointers, places, strides, last, loads, results, values, made, stores, one_values,
      one_stores;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    absl::StrAppend(&pointers, "  const ", ElementTypeName(program.inputs[i]), "* in", i, ";\n");
    absl::StrAppend(&places, i > 0 ? ", " : "", "i", i, " = 0");
    absl::StrAppend(&strides, "      i", i, " += k * at.strides[", i, "][d];\n");
    absl::StrAppend(&last, "    i", i, " += left * at.strides[", i, "][d];\n");
    absl::StrAppend(&loads, "    const auto x", i, " = Load<kWidth>(at.in", i, " + i", i,
                    ", at.strides[", i, "][0] != 0);\n");
    absl::StrAppend(&values, "x", i, ".of[k], ");
    absl::StrAppend(&one_values, "Load<1>(at.in", i, " + (at.strides[", i,
                    "][0] != 0 ? i : 0), false).of[0], ");
  }
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    const absl::string_view type = ElementTypeName(program.dtype(program.outputs[k]));
    absl::StrAppend(&pointers, "  ", type, "* out", k, ";\n");
    absl::StrAppend(&results, "    Several<", type, ", kWidth> y", k, ";\n");
    absl::StrAppend(&made, "      y", k, ".of[k] = made.o", k, ";\n");
    absl::StrAppend(&stores, "    if (at.out", k, " != nullptr) ", "reinterpret_cast<Several<",
                    type, ", kWidth>*>(at.out", k, ")[g] = y", k, ";\n");
    absl::StrAppend(&one_stores, "      if (at.out", k, " != nullptr) at.out", k, "[i] = made.o", k,
                    ";\n");
  }
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    if (!program.keeps[k]) continue;
    absl::StrAppend(&pointers, "  const ", ElementTypeName(program.dtype(program.outputs[k])),
                    "* before", k, ";\n");
  }
  return absl::StrCat(absl::Substitute(kRun, pointers, program.inputs.size(), places, strides, last,
                                       loads, results, values, made, stores),
                      absl::Substitute(kRest, one_values, one_stores));
}

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

BoundElementOp::BoundElementOp(std::string name_of, const ElementOp& of, double value)
    : name(std::move(name_of)), op(of) {
  std::string parameters, arguments;
  for (int k = 0; k < of.arity; ++k) {
    absl::StrAppend(&parameters, k > 0 ? ", T " : "T ", kOperands[k]);
    if (k + 1 < of.arity) absl::StrAppend(&arguments, kOperands[k], ", ");
  }
  expression = absl::StrFormat("[](%s) { return %s; }(%sT(%.17g))", parameters, of.expression,
                               arguments, value);
  op.name = name;
  op.expression = expression;
  op.arity = of.arity - 1;
}

ElementProgram ElementProgram::Of(const ElementOp& op, DType dtype) {
  ElementProgram program;
  Instruction& instruction = program.instructions.emplace_back();
  instruction.op = &op;
  instruction.dtype = op.ResultOf(dtype);
  for (int k = 0; k < op.arity; ++k) {
    program.inputs.push_back(dtype);
    instruction.operands.push_back(static_cast<uint16_t>(k));
  }
  program.outputs = {static_cast<uint16_t>(op.arity)};
  program.keeps = {false};
  return program;
}

ElementProgram ElementProgram::OfCast(DType from, DType to) {
  return {{from}, {{nullptr, {0}, to}}, {1}, {false}};
}

ElementProgram ElementProgram::Of(const ElementGroup& group) {
  ElementProgram program;
  program.inputs = group.inputs;
  for (const ElementGroup::Instruction& from : group.instructions) {
    program.instructions.push_back({FindElementOp(from.op), from.operands, from.dtype});
  }
  program.outputs = group.outputs;
  program.keeps.resize(group.outputs.size());
  for (const ElementGroup::Store& store : group.stores) program.keeps[store.output] = true;
  return program;
}

bool ElementProgram::MayFail() const {
  return std::any_of(instructions.begin(), instructions.end(), [&](const Instruction& each) {
    return each.op != nullptr && each.op->MayFail(dtype(each.operands[0]));
  });
}

bool ElementProgram::Keeps() const {
  return std::find(keeps.begin(), keeps.end(), true) != keeps.end();
}

int ElementProgram::ElementsPerThread() const {
  size_t most = 1;
  for (const DType dtype : inputs) most = std::max(most, DTypeSize(dtype));
  for (const uint16_t output : outputs) most = std::max(most, DTypeSize(dtype(output)));
  return static_cast<int>(16 / most);
}

bool TakesInstruction(absl::string_view op, absl::Span<const DType> operands, DType result) {
  if (ElementTypeName(result).empty()) return false;
  if (op == "Cast") return operands.size() == 1 && !ElementTypeName(operands[0]).empty();
  if (op == "SelectV2") {
    return operands.size() == 3 && operands[0] == DType::kBool && operands[1] == result &&
           operands[2] == result;
  }
  const ElementOp* const found = FindElementOp(op);
  return found != nullptr && op[0] != '_' && static_cast<size_t>(found->arity) == operands.size() &&
         found->Takes(operands[0]) && !found->MayFail(operands[0]) &&
         found->ResultOf(operands[0]) == result &&
         std::count(operands.begin(), operands.end(), operands[0]) ==
             static_cast<ptrdiff_t>(operands.size());
}

std::string ComputeSource(const ElementProgram& program) {
  Functions functions(program);
  std::string parameters, values, results, made;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    absl::StrAppend(&parameters, ElementTypeName(program.inputs[i]), " v", i, ", ");
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const ElementProgram::Instruction& instruction = program.instructions[i];
    absl::StrAppend(&values, "  const ", ElementTypeName(instruction.dtype), " v",
                    program.inputs.size() + i, " = ", functions.Call(instruction), ";\n");
  }
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    const uint16_t value = program.outputs[k];
    absl::StrAppend(&results, "  ", ElementTypeName(program.dtype(value)), " o", k, ";\n");
    absl::StrAppend(&made, k > 0 ? ", " : "", "v", value);
  }
  return absl::StrCat(functions.text(), "struct Made {\n", results,
                      "};\n__device__ __forceinline__ Made Compute(", parameters, "bool& bad) {\n",
                      values, "  return {", made, "};\n}\n");
}

std::string ElementSourceOfProgram(const ElementProgram& program) {
  std::string keep;
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    if (!program.keeps[k]) continue;
    absl::StrAppend(&keep, "      if (at.before", k, " != nullptr) at.out", k, "[i] = at.before", k,
                    "[i];\n");
  }
  std::string first, last;
  if (program.MayFail()) {
    first = "  if (FailedEarlier(word, step)) return;\n";
    last = "  if (bad) Fail({word, step}, 0);\n";
  } else if (program.Keeps()) {
    first = absl::Substitute(kKeep, keep);
  }
  return absl::StrCat(
      "using namespace formwork_element;\n", ComputeSource(program),
      "constexpr int kMostDims = ", kMostElementDims, ";\n", RunText(program),
      absl::Substitute(kKernel, kElementsKernel, program.ElementsPerThread(), first, last),
      absl::Substitute(kKernel, kElementsOneKernel, 1, first, last));
}

std::string ElementSource(const ElementProgram& program) {
  const bool looks = program.MayFail() || program.Keeps();
  return absl::StrCat(kElementFunctionsText, kElementAccessText,
                      looks ? kItemFunctionsText : "struct FailureWord;\n",
                      ElementSourceOfProgram(program));
}

}  // namespace formwork
