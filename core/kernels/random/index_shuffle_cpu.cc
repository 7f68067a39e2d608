// RandomIndexShuffle: a permutation of 0 to max_index that is never laid out. A cipher over blocks
// that hold all indices permutes more numbers than these, and is applied until one of them comes
// (Black and Rogaway, "Ciphers with arbitrary finite domains"). It is Simon (Beaulieu et al.) with
// words of any size and few rounds, as TensorFlow has it.

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/random/random_cpu.h"
#include "core/ops/index_shuffle.h"

namespace formwork {
namespace {

using Seed = std::array<uint32_t, 3>;

class Cipher {
 public:
  /// Of blocks of two words of `bits` each, 8 to 32.
  Cipher(int bits, const Seed& seed, int64_t rounds)
      : bits_(bits), mask_((uint64_t{1} << bits) - 1) {
    for (const uint32_t key : seed) keys_.push_back(key & mask_);
    uint64_t z = 0x7369f885192c0ef5 & mask_;
    for (size_t i = 3; i < static_cast<size_t>(rounds); ++i) {
      keys_.push_back((0xfffffffc & mask_) ^ (z & 1) ^ keys_[i - 3] ^ Right(keys_[i - 1], 3) ^
                      Right(keys_[i - 1], 4));
      z >>= 1;
    }
  }

  uint64_t Encrypt(uint64_t value) const {
    uint64_t left = (value >> bits_) & mask_, right = value & mask_;
    for (size_t i = 0; i + 1 < keys_.size(); i += 2) {
      left ^= Mix(right) ^ keys_[i];
      right ^= Mix(left) ^ keys_[i + 1];
    }
    return (left << bits_) | right;
  }

 private:
  uint64_t Left(uint64_t x, int by) const { return ((x << by) | (x >> (bits_ - by))) & mask_; }
  uint64_t Right(uint64_t x, int by) const { return ((x >> by) | (x << (bits_ - by))) & mask_; }
  uint64_t Mix(uint64_t x) const { return (Left(x, 1) & Left(x, 8)) ^ Left(x, 2); }

  const int bits_;
  const uint64_t mask_;
  std::vector<uint64_t> keys_;
};

// Where `index` goes. Of an index that is not within the range, which is beyond TensorFlow, the
// work may never end: it is refused before. 0 where the work is cut.
uint64_t Shuffled(uint64_t index, const Seed& seed, uint64_t max_index, int64_t rounds) {
  if (max_index == 0) return 0;
  constexpr int kFewestBits = 16;
  int bits = static_cast<int>(std::ceil(std::log2(static_cast<double>(max_index))));
  bits = std::min(std::max(bits + bits % 2, kFewestBits), 64);
  const Cipher cipher(bits / 2, seed, rounds);
  for (int64_t i = 0;; ++i) {
    index = cipher.Encrypt(index);
    if (index <= max_index) return index;
    if (WorkIsCutAt(i, 1024)) return 0;
  }
}

template <typename T>
Seed SeedAt(const Tensor& seeds, int64_t row) {
  const T* const at = seeds.data<T>() + 3 * row;
  return {static_cast<uint32_t>(at[0]), static_cast<uint32_t>(at[1]), static_cast<uint32_t>(at[2])};
}

using SeedFn = Seed (*)(const Tensor& seeds, int64_t row);

SeedFn SeedFor(DType dtype) {
  switch (dtype) {
    FORMWORK_CASE(int32_t, return SeedAt<T>)
    FORMWORK_CASE(uint32_t, return SeedAt<T>)
    FORMWORK_CASE(int64_t, return SeedAt<T>)
    default:
      return SeedAt<uint64_t>;
  }
}

template <typename T>
absl::Status ShuffleIndices(KernelContext& ctx, SeedFn seed_at, int64_t rounds) {
  const Tensor index = ctx.input(0), seed = ctx.input(1), max_index = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape,
                            PrepareIndexShuffle(index.shape(), seed.shape(), max_index.shape()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, DTypeOf<T>::value, shape));
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    if (WorkIsCutAt(i, 64)) return WorkStatus();
    const auto at = static_cast<uint64_t>(index.data<T>()[index.rank() == 0 ? 0 : i]);
    const auto most = static_cast<uint64_t>(max_index.data<T>()[max_index.rank() == 0 ? 0 : i]);
    if (at > most) {
      return InvalidArgument("index must be within 0 to max_index: index=", at,
                             " max_index=", most);
    }
    output->mutable_data<T>()[i] =
        static_cast<T>(Shuffled(at, seed_at(seed, seed.rank() == 1 ? 0 : i), most, rounds));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeIndexShuffle(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const IndexShuffleAttrs attrs,
                            IndexShuffleAttrs::FromAttrs(init.attrs()));
  const SeedFn seed_at = SeedFor(init.input_dtypes()[1]);
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([rounds = attrs.rounds, seed_at, dtype](KernelContext& ctx) {
    switch (dtype) {
      FORMWORK_CASE(int32_t, return ShuffleIndices<T>(ctx, seed_at, rounds))
      FORMWORK_CASE(uint32_t, return ShuffleIndices<T>(ctx, seed_at, rounds))
      FORMWORK_CASE(int64_t, return ShuffleIndices<T>(ctx, seed_at, rounds))
      default:
        return ShuffleIndices<uint64_t>(ctx, seed_at, rounds);
    }
  });
}

}  // namespace

void AddIndexShuffleCpuKernels(KernelRegistry& registry) {
  registry.Add("RandomIndexShuffle", MakeIndexShuffle);
}

}  // namespace formwork
