#include "core/kernels/random/philox.h"

#include "core/kernels/isa.h"

namespace formwork {
namespace {

constexpr uint32_t kWeylA = 0x9E3779B9;
constexpr uint32_t kWeylB = 0xBB67AE85;
constexpr uint64_t kMultiplierA = 0xD2511F53;
constexpr uint64_t kMultiplierB = 0xCD9E8D57;
constexpr int kRounds = 10;

// Ten rounds over kLanes counters side by side; plain loops that the compiler vectorises.
constexpr int kLanes = 16;

inline __attribute__((always_inline)) void GenerateLanes(uint64_t counter_lo, uint64_t counter_hi,
                                                         uint64_t key, uint32_t* out) {
  // In 64 bits each, so that the products need no widening.
  uint64_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t lo = counter_lo + static_cast<uint64_t>(i);
    const uint64_t hi = counter_hi + (lo < counter_lo ? 1 : 0);
    c0[i] = lo & 0xffffffffu;
    c1[i] = lo >> 32;
    c2[i] = hi & 0xffffffffu;
    c3[i] = hi >> 32;
  }
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t a = (c0[i] & 0xffffffffu) * kMultiplierA;
      const uint64_t b = (c2[i] & 0xffffffffu) * kMultiplierB;
      c0[i] = (b >> 32) ^ c1[i] ^ k0;
      c2[i] = (a >> 32) ^ c3[i] ^ k1;
      c1[i] = b & 0xffffffffu;
      c3[i] = a & 0xffffffffu;
    }
    k0 += kWeylA;
    k1 += kWeylB;
  }
  for (int i = 0; i < kLanes; ++i) {
    out[4 * i] = static_cast<uint32_t>(c0[i]);
    out[4 * i + 1] = static_cast<uint32_t>(c1[i]);
    out[4 * i + 2] = static_cast<uint32_t>(c2[i]);
    out[4 * i + 3] = static_cast<uint32_t>(c3[i]);
  }
}

void GenerateBaseline(uint64_t counter_lo, uint64_t counter_hi, uint64_t key, uint32_t* out) {
  GenerateLanes(counter_lo, counter_hi, key, out);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void GenerateAvx2(uint64_t counter_lo, uint64_t counter_hi,
                                                  uint64_t key, uint32_t* out) {
  GenerateLanes(counter_lo, counter_hi, key, out);
}
#endif

using GenerateFn = void (*)(uint64_t counter_lo, uint64_t counter_hi, uint64_t key, uint32_t* out);

GenerateFn ChooseGenerate() {
#if defined(__x86_64__)
  if (HostIsa() != Isa::kBaseline) return &GenerateAvx2;
#endif
  return &GenerateBaseline;
}

}  // namespace

Philox::Group Philox::Peek() const {
  Group c = {static_cast<uint32_t>(counter_lo_), static_cast<uint32_t>(counter_lo_ >> 32),
             static_cast<uint32_t>(counter_hi_), static_cast<uint32_t>(counter_hi_ >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key_);
  uint32_t k1 = static_cast<uint32_t>(key_ >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t a = c[0] * kMultiplierA;
    const uint64_t b = c[2] * kMultiplierB;
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += kWeylA;
    k1 += kWeylB;
  }
  return c;
}

void Philox::Generate(int64_t n, uint32_t* out) const {
  static const GenerateFn generate = ChooseGenerate();
  Philox at = *this;
  for (; n >= kLanes; n -= kLanes, out += 4 * kLanes) {
    generate(at.counter_lo_, at.counter_hi_, at.key_, out);
    at.Skip(kLanes);
  }
  for (; n > 0; --n, out += 4) {
    const Group group = at.Next();
    for (int i = 0; i < 4; ++i) out[i] = group[i];
  }
}

}  // namespace formwork
