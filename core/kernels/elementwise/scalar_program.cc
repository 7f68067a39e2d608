#include "core/kernels/elementwise/scalar_program.h"

#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/kernels/arithmetic.h"

namespace formwork {
namespace {

// Some microseconds of most loops, some milliseconds of the longest.
constexpr uint32_t kMostIterations = 256;

// By width, because a copy of a length that is not known is a call.
void Copy(const void* from, size_t width, void* to) {
  switch (width) {
    case 1:
      std::memcpy(to, from, 1);
      break;
    case 2:
      std::memcpy(to, from, 2);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    default:
      std::memcpy(to, from, 8);
  }
}

using Code = ScalarProgram::Code;
using Register = ScalarProgram::Register;

// The ops of two operands that have instructions of their own.
enum class TypedOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual
};
constexpr int kTypes = 4;  // int32, int64, float, double.
constexpr int CodeOf(TypedOp op, int type) {
  return static_cast<int>(Code::kFirstTyped) + static_cast<int>(op) * kTypes + type;
}

struct NamedTypedOp {
  absl::string_view name;
  TypedOp op;
};
constexpr NamedTypedOp kTypedOps[] = {
    {"AddV2", TypedOp::kAdd},       {"Add", TypedOp::kAdd},
    {"Sub", TypedOp::kSub},         {"Mul", TypedOp::kMul},
    {"Less", TypedOp::kLess},       {"LessEqual", TypedOp::kLessEqual},
    {"Greater", TypedOp::kGreater}, {"GreaterEqual", TypedOp::kGreaterEqual},
    {"Equal", TypedOp::kEqual},     {"NotEqual", TypedOp::kNotEqual},
};

template <typename T>
T Load(const Register& from) {
  T value;
  std::memcpy(&value, from.bytes, sizeof value);
  return value;
}
template <typename T>
void Store(T value, Register& to) {
  std::memcpy(to.bytes, &value, sizeof value);
}

}  // namespace

ScalarProgram::Code ScalarProgram::OpCode(absl::string_view name, const BlockOp& op) {
  constexpr DType kDTypes[kTypes] = {DType::kInt32, DType::kInt64, DType::kFloat, DType::kDouble};
  const int type = static_cast<int>(absl::c_find(kDTypes, op.in) - kDTypes);
  if (type == kTypes) return Code::kOp;
  for (const NamedTypedOp& typed : kTypedOps) {
    if (typed.name == name) return static_cast<Code>(CodeOf(typed.op, type));
  }
  return Code::kOp;
}

size_t ScalarProgram::bytes() const {
  size_t bytes = sizeof(ScalarProgram) + code.size() * (sizeof(Instruction) + sizeof(Label)) +
                 (inputs.size() + outputs.size()) * sizeof(Port);
  for (const Label& label : labels) bytes += label.node.size();
  return bytes;
}

absl::Status ScalarProgram::Read(absl::Span<const InputRef> from, Register* registers) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = *from[i].tensor;
    if (input.dtype() != inputs[i].dtype || !input.shape().is_scalar()) {
      HeapScope unlimited(nullptr);  // To say what was refused must not be refused.
      return InvalidArgument("a value is not the scalar that the graph says it is: dtype=",
                             DTypeName(input.dtype()), " shape=", input.shape().ToString());
    }
    Copy(input.raw(), inputs[i].width, registers[inputs[i].at].bytes);
  }
  return absl::OkStatus();
}

// A case for each type: result = `...` of the operands a and b.
#define FORMWORK_SCALAR_CASE(Op, type, T, ...) \
  case CodeOf(TypedOp::k##Op, type): {         \
    const T a = Load<T>(first);                \
    const T b = Load<T>(second);               \
    Store(__VA_ARGS__, result);                \
    ++at;                                      \
    break;                                     \
  }
#define FORMWORK_SCALAR_CASES(Op, ...)              \
  FORMWORK_SCALAR_CASE(Op, 0, int32_t, __VA_ARGS__) \
  FORMWORK_SCALAR_CASE(Op, 1, int64_t, __VA_ARGS__) \
  FORMWORK_SCALAR_CASE(Op, 2, float, __VA_ARGS__)   \
  FORMWORK_SCALAR_CASE(Op, 3, double, __VA_ARGS__)

absl::Status ScalarProgram::Run(Register* registers, uint32_t& position) const {
  const Instruction* const begin = code.data();
  const Instruction* const end = begin + code.size();
  const Instruction* at = begin + position;
  uint32_t iterations = 0;
  while (at != end) {
    const Register& first = registers[at->operands[0]];
    const Register& second = registers[at->operands[1]];
    Register& result = registers[at->result];
    switch (static_cast<int>(at->code)) {
      case static_cast<int>(Code::kCheckedOp): {
        absl::Status status = CheckOperand(*at->op, second.bytes, 1);
        if (!status.ok()) {
          HeapScope unlimited(nullptr);
          return Annotate(status, absl::StrCat("node '", labels[at - begin].node, "'"));
        }
        [[fallthrough]];
      }
      case static_cast<int>(Code::kOp): {
        const void* const operands[] = {&first, &second, &registers[at->operands[2]]};
        at->op->fn(operands, &result, 1);
        ++at;
        break;
      }
      case static_cast<int>(Code::kMove):
        result = first;
        ++at;
        break;
      case static_cast<int>(Code::kJump):
        at = begin + at->target;
        break;
      case static_cast<int>(Code::kBranch):
        at = first.bytes[0] != 0 ? at + 1 : begin + at->target;
        break;
      case static_cast<int>(Code::kLoop):
        if (first.bytes[0] == 0) {
          ++at;
          break;
        }
        at = begin + at->target;
        if (++iterations == kMostIterations) {
          position = static_cast<uint32_t>(at - begin);
          return absl::OkStatus();
        }
        break;
        FORMWORK_SCALAR_CASES(Add, math::Add(a, b))
        FORMWORK_SCALAR_CASES(Sub, math::Sub(a, b))
        FORMWORK_SCALAR_CASES(Mul, math::Mul(a, b))
        FORMWORK_SCALAR_CASES(Less, a < b)
        FORMWORK_SCALAR_CASES(LessEqual, a <= b)
        FORMWORK_SCALAR_CASES(Greater, a > b)
        FORMWORK_SCALAR_CASES(GreaterEqual, a >= b)
        FORMWORK_SCALAR_CASES(Equal, a == b)
        FORMWORK_SCALAR_CASES(NotEqual, a != b)
      default:
        __builtin_unreachable();
    }
  }
  position = static_cast<uint32_t>(at - begin);
  return absl::OkStatus();
}
#undef FORMWORK_SCALAR_CASES
#undef FORMWORK_SCALAR_CASE

void ScalarProgram::Write(const Register* registers, absl::Span<Tensor> to) const {
  for (size_t k = 0; k < outputs.size(); ++k) {
    to[k].ResetInside(outputs[k].dtype, Shape());
    Copy(registers[outputs[k].at].bytes, outputs[k].width, to[k].mutable_raw());
  }
}

}  // namespace formwork
