// Programs of elementwise instructions against their instructions' own loops, one after the other.

#include "core/kernels/elementwise/elementwise_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/base/status.h"
#include "core/kernels/isa.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using testing::KernelRunner;
using Instruction = ElementwiseProgram::Instruction;

const BlockOp* Op(absl::string_view name, DType dtype) {
  for (size_t arity : {1, 2}) {
    if (const BlockOp* op = FindBlockOp(name, std::vector<DType>(arity, dtype), dtype)) return op;
  }
  return nullptr;
}

// Normal numbers for the most part, and all that an op may treat in a way of its own.
template <typename T>
Tensor Values(const Shape& shape, std::mt19937& random) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const T special[] = {0,
                       -T(0),
                       1,
                       -1,
                       6,
                       kInf,
                       -kInf,
                       std::numeric_limits<T>::quiet_NaN(),
                       std::numeric_limits<T>::denorm_min()};
  std::normal_distribution<T> normal(0, 3);
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DTypeOf<T>::value, shape);
  for (T& value : tensor.template mutable_span<T>()) {
    value = random() % 4 == 0 ? special[random() % std::size(special)] : normal(random);
  }
  return tensor;
}

template <typename T>
void ExpectSame(const Tensor& got, const Tensor& want, absl::string_view what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const T a = got.data<T>()[i], b = want.data<T>()[i];
    if (std::isnan(a) && std::isnan(b)) continue;
    ASSERT_TRUE(a == b && std::signbit(a) == std::signbit(b))
        << what << " at " << i << ": " << a << " for " << b;
  }
}

// Runs it and gives its outputs, which the runner must outlive. The tensors may be taken over.
absl::StatusOr<std::vector<Tensor>> RunProgram(KernelRunner& runner,
                                               const ElementwiseProgram& program,
                                               std::vector<Tensor> inputs, size_t num_outputs) {
  return runner.Run(KernelFn([&program](KernelContext& ctx) -> absl::Status {
                      FORMWORK_ASSIGN_OR_RETURN(const bool done, program.Run(ctx));
                      return done ? absl::OkStatus() : absl::InternalError("did not run");
                    }),
                    std::move(inputs), static_cast<int>(num_outputs));
}

// The values of all instructions, each by its loop over whole tensors.
template <typename T>
std::vector<Tensor> OneByOne(const std::vector<Instruction>& instructions,
                             const std::vector<Tensor>& inputs, const Shape& shape) {
  std::vector<Tensor> values;
  for (const Tensor& input : inputs) {
    Tensor whole = *Tensor::Allocate(ProcessAllocator(), input.dtype(), shape);
    for (int64_t i = 0; i < whole.num_elements(); ++i) {
      whole.mutable_data<T>()[i] = input.data<T>()[i % input.num_elements()];
    }
    values.push_back(std::move(whole));
  }
  for (const Instruction& instruction : instructions) {
    const void* in[3] = {};
    for (int k = 0; k < instruction.op->arity; ++k) in[k] = values[instruction.operands[k]].raw();
    Tensor out = *Tensor::Allocate(ProcessAllocator(), instruction.op->out, shape);
    instruction.op->fn(in, out.mutable_raw(), shape.num_elements());
    values.push_back(std::move(out));
  }
  return values;
}

// Random programs: every value may be read again later, some by nobody but the caller. `compiled`
// counts those that were.
template <typename T>
void TryPrograms(int programs, uint32_t seed, int& compiled) {
  const DType dtype = DTypeOf<T>::value;
  // Ops of tiles, and some between them that are not.
  const char* const kNames[] = {"AddV2",   "Sub",   "Mul",     "RealDiv", "Maximum",
                                "Minimum", "Neg",   "Abs",     "Square",  "Reciprocal",
                                "Relu",    "Relu6", "Maximum", "AddV2",   "SquaredDifference",
                                "Mul",     "Sqrt",  "Rsqrt",   "Floor",   "Sign"};
  const Shape kShapes[] = {{3}, {16}, {17}, {95}, {768}, {769}, {7, 200}, {3000}};
  std::mt19937 random(seed);
  KernelRunner runner;
  for (int round = 0; round < programs; ++round) {
    const Shape& shape = kShapes[random() % std::size(kShapes)];
    std::vector<Tensor> inputs = {Values<T>(shape, random)};
    for (uint32_t i = random() % 4; i > 0; --i) {
      // Scalars, rows that repeat, and whole tensors.
      const uint32_t kind = random() % 3;
      const Shape row({shape.dim(shape.rank() - 1)});
      inputs.push_back(Values<T>(kind == 0 ? Shape() : kind == 1 ? row : shape, random));
    }
    std::vector<Instruction> instructions;
    std::string text;
    // The first reads the whole input, and so does every other one through it: all results have
    // the whole shape.
    const size_t n = 1 + random() % 12;
    for (size_t i = 0; i < n; ++i) {
      const char* const name = kNames[random() % std::size(kNames)];
      Instruction instruction{Op(name, dtype), {}};
      ASSERT_NE(instruction.op, nullptr) << name;
      const uint32_t wide = i == 0 ? 0 : static_cast<uint32_t>(inputs.size() + random() % i);
      instruction.operands[0] =
          static_cast<uint16_t>(i > 0 && random() % 2 == 0 ? inputs.size() + i - 1 : wide);
      instruction.operands[1] = static_cast<uint16_t>(random() % (inputs.size() + i));
      if (instruction.op->arity == 2 && random() % 3 == 0) {
        std::swap(instruction.operands[0], instruction.operands[1]);
      }
      absl::StrAppend(&text, name, "(", instruction.operands[0], ",", instruction.operands[1],
                      ") ");
      instructions.push_back(instruction);
    }
    // What nobody reads is an output, and sometimes another one too.
    std::vector<bool> is_read(inputs.size() + n, false);
    for (const Instruction& instruction : instructions) {
      for (int k = 0; k < instruction.op->arity; ++k) is_read[instruction.operands[k]] = true;
    }
    std::vector<uint16_t> outputs;
    for (size_t value = inputs.size(); value < is_read.size(); ++value) {
      if (!is_read[value] || random() % 6 == 0) outputs.push_back(static_cast<uint16_t>(value));
    }
    const std::vector<Tensor> want = OneByOne<T>(instructions, inputs, shape);
    const ElementwiseProgram program(std::vector<DType>(inputs.size(), dtype), instructions,
                                     outputs);
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> got,
                         RunProgram(runner, program, std::move(inputs), outputs.size()));
    for (size_t k = 0; k < outputs.size(); ++k) {
      ExpectSame<T>(got[k], want[outputs[k]],
                    absl::StrCat(text, "-> ", outputs[k], ", shape ", shape.ToString()));
    }
    if (::testing::Test::HasFatalFailure()) return;
    if (program.is_compiled()) ++compiled;
  }
}

class ElementwiseProgramTest : public ::testing::Test {
 protected:
  void TearDown() override { ElementwiseProgram::CompileAfter(ElementwiseProgram::kCompileAfter); }
};

TEST_F(ElementwiseProgramTest, GivesWhatItsInstructionsGive) {
  int compiled = 0;
  TryPrograms<float>(300, 1, compiled);
  TryPrograms<double>(300, 2, compiled);
  EXPECT_EQ(compiled, 0);
}

TEST_F(ElementwiseProgramTest, GivesTheSameWhereItIsCompiled) {
  ElementwiseProgram::CompileAfter(0);
  int compiled = 0;
  TryPrograms<float>(600, 3, compiled);
  TryPrograms<double>(600, 4, compiled);
  // Others have no chain, or 16 elements at most.
  if (HostIsa() == Isa::kBaseline) {
    EXPECT_EQ(compiled, 0);
  } else {
    EXPECT_GT(compiled, 600);
  }
}

// What was compiled for calls with a scalar is not for those without, nor for a row that repeats.
TEST_F(ElementwiseProgramTest, TellsCallsOfOtherShapes) {
  ElementwiseProgram::CompileAfter(0);
  const Instruction instructions[] = {{Op("Mul", DType::kFloat), {0, 1}},
                                      {Op("Sub", DType::kFloat), {2, 0}},
                                      {Op("Sqrt", DType::kFloat), {3}}};
  const std::vector<Instruction> list(std::begin(instructions), std::end(instructions));
  const ElementwiseProgram program({DType::kFloat, DType::kFloat}, list, {3, 4});
  std::mt19937 random(5);
  KernelRunner runner;
  // Of many tasks, and with a rest that is no vector.
  const Shape large({513, 1003});
  for (const Shape& second : {Shape(), large, Shape({1003}), Shape()}) {
    const std::vector<Tensor> inputs = {Values<float>(large, random),
                                        Values<float>(second, random)};
    const std::vector<Tensor> want = OneByOne<float>(list, inputs, large);
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, RunProgram(runner, program, inputs, 2));
    EXPECT_EQ(program.is_compiled(), HostIsa() != Isa::kBaseline);
    for (size_t k = 0; k < 2; ++k) {
      ExpectSame<float>(got[k], want[3 + k], absl::StrCat("second ", second.ToString()));
    }
  }
}

}  // namespace
}  // namespace formwork
