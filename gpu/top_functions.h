// What the threads of TopKV2 and InTopKV2 do: compiled for GPUs at run time, from this text behind
// those of item_functions.h and element_access.h, and by the host's compiler for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

template <int bytes>
struct KeyWord {
  typedef uint32_t type;
};
template <>
struct KeyWord<8> {
  typedef uint64_t type;
};

// A number as an unsigned one, the larger the earlier it comes: 0 and -0 are one, and NaN comes
// first, or last.
template <typename C>
FORMWORK_ELEMENT typename KeyWord<sizeof(C)>::type KeyOf(C x, bool nan_first) {
  typedef typename KeyWord<sizeof(C)>::type Key;
  constexpr Key kSign = Key(1) << (sizeof(Key) * 8 - 1);
  if constexpr (IsFloat<C>::value) {
    if (x != x) return nan_first ? ~Key(0) : Key(0);
    const Key bits = x == C(0) ? Key(0) : __builtin_bit_cast(Key, x);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (static_cast<C>(-1) < C(0)) {
    return static_cast<Key>(x) ^ kSign;
  } else {
    return static_cast<Key>(x);
  }
}

// An element of a row by its key and its place.
template <typename Key>
struct Candidate {
  Key key;
  uint32_t at;
};
// Of equal ones the first.
template <typename Key>
FORMWORK_ELEMENT bool ComesBefore(const Candidate<Key>& a, const Candidate<Key>& b) {
  return a.key > b.key || (a.key == b.key && a.at < b.at);
}
// Behind all that are.
template <typename Key>
FORMWORK_ELEMENT Candidate<Key> NoCandidate() {
  return {Key(0), ~uint32_t(0)};
}

// Rows [rows, n], of fewer than 2^32 - 1 elements, of which the first k are wanted.
template <typename T, typename Index>
struct TopRows {
  typedef decltype(KeyOf(Widen(T()), true)) Key;

  const T* x;
  T* values;  // [rows, k], as
  Index* indices;
  Candidate<Key>* picked;  // [rows, padded]: for what a block does not order by itself. Null: none.
  uint64_t rows, n, k;
  uint64_t padded;  // A power of 2, and k at least.
  bool nan_first;

  FORMWORK_ELEMENT Candidate<Key> At(uint64_t row, uint64_t i) const {
    return {KeyOf(Widen(x[row * n + i]), nan_first), static_cast<uint32_t>(i)};
  }
  FORMWORK_ELEMENT void Write(uint64_t row, uint64_t rank, uint32_t at) const {
    values[row * k + rank] = x[row * n + at];
    indices[row * k + rank] = static_cast<Index>(at);
  }
};

// Of short rows: an item is an element, which counts those before it.
template <typename T, typename Index>
struct RankItem {
  TopRows<T, Index> rows;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t row = DividedBy(i, rows.n), at = i - row * rows.n;
    const auto mine = rows.At(row, at);
    uint64_t rank = 0;
    for (uint64_t k = 0; k < rows.n; ++k) rank += ComesBefore(rows.At(row, k), mine);
    if (rank < rows.k) rows.Write(row, rank, mine.at);
  }
};

// The threads of a block: what each does, it has done before any goes on.
constexpr unsigned kTopThreads = 512;
#ifdef __CUDACC_RTC__
template <typename Do>
__device__ __forceinline__ void EachThread(Do does) {
  does(threadIdx.x);
  __syncthreads();
}
// Adds, and gives what was there.
template <typename T>
__device__ __forceinline__ T CountMore(T* count, T more) {
  return atomicAdd(count, more);
}
// Adds 1 to one of several counts, of which many threads mean the same.
__device__ __forceinline__ void CountIn(unsigned* counts, unsigned which) {
  const unsigned same = __match_any_sync(__activemask(), which);
  if (threadIdx.x % 32 + 1 == __ffs(same)) atomicAdd(counts + which, __popc(same));
}
#else
template <typename Do>
void EachThread(Do does) {
  for (unsigned lane = 0; lane < kTopThreads; ++lane) does(lane);
}
template <typename T>
T CountMore(T* count, T more) {
  const T before = *count;
  *count += more;
  return before;
}
inline void CountIn(unsigned* counts, unsigned which) { ++counts[which]; }
#endif

// What a block orders by itself.
constexpr uint64_t kTopSorted = 1024;

// The step of an ordering network in which candidates `stride` apart are compared: the pair `i` of
// them is put in order, or in its reverse, so that runs of 2 * size are ordered both ways. `first`:
// where among all of them these begin.
template <typename Key>
FORMWORK_ELEMENT void OrderPair(Candidate<Key>* of, uint64_t first, uint64_t i, uint64_t size,
                                uint64_t stride) {
  const uint64_t low = 2 * i - (i & (stride - 1));
  const Candidate<Key> a = of[low], b = of[low + stride];
  const bool forward = ((first + low) & size) == 0;
  if (forward ? ComesBefore(b, a) : ComesBefore(a, b)) {
    of[low] = b;
    of[low + stride] = a;
  }
}
// What of the network a block does: runs of `from` to `to` candidates become ordered, of which
// those of more than `count` have been so far that the pairs in them are less than `count` apart.
template <typename Key>
FORMWORK_ELEMENT void OrderRuns(Candidate<Key>* of, uint64_t first, uint64_t count, uint64_t from,
                                uint64_t to) {
  for (uint64_t size = from; size <= to; size *= 2) {
    for (uint64_t stride = (size < count ? size : count) / 2; stride > 0; stride /= 2) {
      EachThread([=](unsigned lane) {
        for (uint64_t i = lane; i < count / 2; i += kTopThreads) {
          OrderPair(of, first, i, size, stride);
        }
      });
    }
  }
}

// What candidates are picked by: digits of their keys, and then of their places, the largest first.
// All that begin with larger ones are, and of those that begin with the same ones the digits behind
// decide.
template <typename Key>
struct Threshold {
  Key key, of_key;     // The digits that are known, and which these are;
  uint32_t at, of_at;  // of ~at.

  static constexpr unsigned kDigits = sizeof(Key) + 4;

  FORMWORK_ELEMENT bool BeginsLike(const Candidate<Key>& c) const {
    return (c.key & of_key) == key && (~c.at & of_at) == at;
  }
  FORMWORK_ELEMENT bool Picks(const Candidate<Key>& c) const {
    const Key mine = c.key & of_key;
    return mine > key || (mine == key && (~c.at & of_at) >= at);
  }
  static FORMWORK_ELEMENT unsigned ShiftOf(unsigned digit) {
    return 8 * ((digit < sizeof(Key) ? sizeof(Key) : kDigits) - 1 - digit);
  }
  static FORMWORK_ELEMENT unsigned DigitOf(const Candidate<Key>& c, unsigned digit) {
    const unsigned shift = ShiftOf(digit);
    return static_cast<unsigned>(digit < sizeof(Key) ? c.key >> shift : Key(~c.at >> shift)) & 255;
  }
  FORMWORK_ELEMENT void Know(unsigned digit, unsigned value) {
    const unsigned shift = ShiftOf(digit);
    if (digit < sizeof(Key)) {
      key |= Key(value) << shift;
      of_key |= Key(255) << shift;
    } else {
      at |= static_cast<uint32_t>(value) << shift;
      of_at |= uint32_t(255) << shift;
    }
  }
};

// What a block's threads share.
template <typename Key>
struct TopShared {
  Candidate<Key> best[kTopSorted];
  unsigned counts[256], groups[16];  // Of candidates by a digit, and of 16 counts each.
  Threshold<Key> threshold;
  uint64_t wanted;  // Of those that begin like the threshold.
  unsigned picked;
  bool is_known;
};

// The digit at which those that are wanted end.
template <typename Key>
FORMWORK_ELEMENT void KnowDigit(TopShared<Key>& shared, unsigned digit) {
  EachThread([&](unsigned lane) {
    if (lane >= 16) return;
    unsigned sum = 0;
    for (unsigned i = 0; i < 16; ++i) sum += shared.counts[16 * lane + i];
    shared.groups[lane] = sum;
  });
  EachThread([&](unsigned lane) {
    if (lane != 0) return;
    uint64_t wanted = shared.wanted;
    unsigned group = 15;
    for (; group > 0 && shared.groups[group] < wanted; --group) wanted -= shared.groups[group];
    unsigned value = 16 * group + 15;
    for (; value > 16 * group && shared.counts[value] < wanted; --value) {
      wanted -= shared.counts[value];
    }
    shared.threshold.Know(digit, value);
    shared.wanted = wanted;
    shared.is_known = shared.counts[value] == wanted;
  });
}

// A row by a block: which k are the first; then, where they are few, their order.
template <typename T, typename Index>
FORMWORK_ELEMENT void TopOfRow(const TopRows<T, Index>& call, uint64_t row,
                               TopShared<typename TopRows<T, Index>::Key>& shared) {
  typedef typename TopRows<T, Index>::Key Key;
  Candidate<Key>* const best =
      call.picked == nullptr ? shared.best : call.picked + row * call.padded;
  const bool all = call.k == call.n;
  EachThread([&](unsigned lane) {
    for (uint64_t i = call.k + lane; i < call.padded; i += kTopThreads) {
      best[i] = NoCandidate<Key>();
    }
    if (lane != 0) return;
    shared.threshold = {};
    shared.wanted = call.k;
    shared.picked = 0;
    shared.is_known = all;
  });
  for (unsigned digit = 0; digit < Threshold<Key>::kDigits && !shared.is_known; ++digit) {
    // The upper digits of ~at are the same in a short row.
    if (digit >= sizeof(Key) && ((call.n - 1) >> Threshold<Key>::ShiftOf(digit)) == 0) continue;
    EachThread([&](unsigned lane) {
      for (unsigned i = lane; i < 256; i += kTopThreads) shared.counts[i] = 0;
    });
    EachThread([&](unsigned lane) {
      for (uint64_t i = lane; i < call.n; i += kTopThreads) {
        const Candidate<Key> c = call.At(row, i);
        if (shared.threshold.BeginsLike(c)) {
          CountIn(shared.counts, Threshold<Key>::DigitOf(c, digit));
        }
      }
    });
    KnowDigit(shared, digit);
  }
  EachThread([&](unsigned lane) {
    for (uint64_t i = lane; i < call.n; i += kTopThreads) {
      const Candidate<Key> c = call.At(row, i);
      if (all) {
        best[i] = c;
      } else if (shared.threshold.Picks(c)) {
        best[CountMore(&shared.picked, 1u)] = c;
      }
    }
  });
  if (call.picked != nullptr) return;
  OrderRuns(best, 0, call.padded, 2, call.padded);
  EachThread([&](unsigned lane) {
    for (uint64_t rank = lane; rank < call.k; rank += kTopThreads) {
      call.Write(row, rank, best[rank].at);
    }
  });
}

// Of rows that no block orders by itself: an item is a pair of candidates that are far apart.
template <typename Key>
struct OrderItem {
  Candidate<Key>* of;
  uint64_t padded, size, stride;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t pairs = padded / 2, row = i / pairs;
    OrderPair(of + row * padded, 0, i - row * pairs, size, stride);
  }
};
// The others, of kTopSorted candidates, by a block; `chunk`: of all rows.
template <typename Key>
FORMWORK_ELEMENT void OrderChunk(const OrderItem<Key>& call, uint64_t chunk, uint64_t from,
                                 Candidate<Key>* shared) {
  Candidate<Key>* const mine = call.of + chunk * kTopSorted;
  EachThread([=](unsigned lane) {
    for (uint64_t i = lane; i < kTopSorted; i += kTopThreads) shared[i] = mine[i];
  });
  OrderRuns(shared, (chunk * kTopSorted) & (call.padded - 1), kTopSorted, from, call.size);
  EachThread([=](unsigned lane) {
    for (uint64_t i = lane; i < kTopSorted; i += kTopThreads) mine[i] = shared[i];
  });
}
// And then: an item is an element of the output.
template <typename T, typename Index>
struct PickedItem {
  TopRows<T, Index> rows;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t row = i / rows.k, rank = i - row * rows.k;
    rows.Write(row, rank, rows.picked[row * rows.padded + rank].at);
  }
};

// InTopKV2: whether fewer than k predictions of a row are larger than the target's. Where one is
// not finite, or there is no such target, no.
template <typename Index>
struct InTopRows {
  const float* predictions;  // [rows, n]
  const Index* targets;
  const Index* k;
  bool* out;
  uint64_t rows, n;
};
struct InTopShared {
  uint64_t larger;
  bool is_none;
};
template <typename Index>
FORMWORK_ELEMENT void InTopOfRow(const InTopRows<Index>& call, uint64_t row, InTopShared& shared) {
  const uint64_t target = static_cast<uint64_t>(static_cast<int64_t>(call.targets[row]));
  const float* const of = call.predictions + row * call.n;
  EachThread([&](unsigned lane) {
    if (lane != 0) return;
    shared.larger = 0;
    shared.is_none = target >= call.n;
  });
  if (target < call.n) {
    const float mine = of[target];
    EachThread([&](unsigned lane) {
      uint64_t larger = 0;
      for (uint64_t i = lane; i < call.n; i += kTopThreads) {
        if (!isfinite(of[i])) shared.is_none = true;
        larger += of[i] > mine;
      }
      if (larger != 0) CountMore(&shared.larger, larger);
    });
  }
  EachThread([&](unsigned lane) {
    if (lane != 0) return;
    call.out[row] = !shared.is_none && static_cast<int64_t>(shared.larger) < int64_t(*call.k);
  });
}

}  // namespace formwork_element
