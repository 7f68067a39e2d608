// Compiled chains, at each level of vector instructions that this machine has, against the loops of
// their instructions.

#include "core/kernels/elementwise/compiled_chains.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/kernels/elementwise/elementwise_blocks.h"

namespace formwork {
namespace {

using Instruction = CompiledChains::Instruction;

// A chain of two inputs, of which the second is one element: each instruction reads the one before.
template <typename T>
void TryChain(Isa isa, DType dtype, int64_t n, std::mt19937& random) {
  const char* const kNames[] = {"AddV2",   "Sub",  "Mul",   "RealDiv",    "Maximum",
                                "Minimum", "Neg",  "Abs",   "Relu6",      "Relu",
                                "Square",  "Sqrt", "Rsqrt", "Reciprocal", "SquaredDifference"};
  std::normal_distribution<T> normal(0, 3);
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> x(static_cast<size_t>(n));
  const std::vector<T> splat(kTileScalarBytes / sizeof(T),
                             random() % 8 == 0 ? kNan : normal(random));
  for (T& value : x) value = random() % 16 == 0 ? kNan : normal(random);
  const std::vector<T> repeated(x.size(), splat[0]);
  std::vector<T> want = x;
  std::vector<Instruction> chain;
  const auto length = static_cast<uint16_t>(1 + random() % 20);
  for (uint16_t i = 0; i < length; ++i) {
    const char* const name = kNames[random() % std::size(kNames)];
    const std::vector<DType> one(1, dtype), two(2, dtype);
    const BlockOp* op = FindBlockOp(name, one, dtype);
    if (op == nullptr) op = FindBlockOp(name, two, dtype);
    ASSERT_NE(op, nullptr) << name;
    const bool swapped = random() % 2 == 0;
    const uint16_t last = i == 0 ? 0 : static_cast<uint16_t>(1 + i);
    chain.push_back({op->tile, op->arity == 1, false, {last, 1}, static_cast<uint16_t>(2 + i)});
    const void* in[2] = {want.data(), repeated.data()};
    if (op->arity == 2 && swapped) {
      std::swap(chain.back().operands[0], chain.back().operands[1]);
      std::swap(in[0], in[1]);
    }
    std::vector<T> made(x.size());
    op->fn(in, made.data(), n);
    want = std::move(made);
  }
  chain.back().is_stored = true;
  const bool is_splat[] = {false, true};
  const auto code = CompiledChains::Make(dtype, chain, is_splat, isa);
  ASSERT_NE(code, nullptr);
  // What lies behind stays as it was.
  constexpr T kUntouched = 12345;
  std::vector<T> got(x.size() + 32, kUntouched);
  std::vector<const void*> values(2 + chain.size());
  values[0] = x.data();
  values[1] = splat.data();
  values.back() = got.data();
  code->Run(values.data(), n);
  for (size_t i = 0; i < got.size(); ++i) {
    const T expected = i < want.size() ? want[i] : kUntouched;
    ASSERT_TRUE(got[i] == expected || (std::isnan(got[i]) && std::isnan(expected)))
        << IsaName(isa) << ", " << n << " elements, at " << i << ": " << got[i] << " for "
        << expected;
  }
}

TEST(CompiledChainsTest, GiveWhatTheirInstructionsGive) {
  std::mt19937 random(1);
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa > HostIsa()) continue;
    for (int64_t n : {1, 3, 8, 15, 16, 17, 64, 127, 128, 129, 1000}) {
      for (int round = 0; round < 40; ++round) {
        TryChain<float>(isa, DType::kFloat, n, random);
        TryChain<double>(isa, DType::kDouble, n, random);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(CompiledChainsTest, AreNotOfTheBaselineNorOfIntegers) {
  const Instruction add[] = {{TileOp::kAdd, false, true, {0, 0}, 1}};
  EXPECT_EQ(CompiledChains::Make(DType::kFloat, add, {}, Isa::kBaseline), nullptr);
  EXPECT_EQ(CompiledChains::Make(DType::kInt32, add, {}, Isa::kAvx2), nullptr);
}

}  // namespace
}  // namespace formwork
