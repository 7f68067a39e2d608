// What a kernel of attention does for one query: compiled for GPUs at run time, from this text
// behind those of item_functions.h and element_access.h, and by the host's compiler for tests. It
// is what stands in where cuDNN has no engine: each query goes over all keys by itself.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

constexpr int64_t kMostAttentionWidth = 128;  // Of v, which a thread adds up in registers.

// An operand of [batch, heads, rows, columns]: how many elements apart neighbours lie.
struct AttentionLayout {
  int64_t batch, head, row, column;
};

struct AttentionCall {
  int64_t heads, queries, keys, depth, width;
  float scale;
  AttentionLayout q, k, v, out;
};

// An item is a query. Where there are no keys it gives 0.
template <typename E>
struct AttentionItem {
  const E* q;
  const E* k;
  const E* v;
  E* out;
  AttentionCall call;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const auto query = static_cast<int64_t>(i % static_cast<uint64_t>(call.queries));
    const auto head = static_cast<int64_t>(i / static_cast<uint64_t>(call.queries));
    const auto offset = [&](const AttentionLayout& lies, int64_t row) {
      return head / call.heads * lies.batch + head % call.heads * lies.head + row * lies.row;
    };
    const E* const of_query = q + offset(call.q, query);
    float sums[kMostAttentionWidth] = {};
    float largest = 0, all = 0;
    for (int64_t key = 0; key < call.keys; ++key) {
      const E* const of_key = k + offset(call.k, key);
      float score = 0;
      for (int64_t d = 0; d < call.depth; ++d) {
        score += Widen(of_query[d * call.q.column]) * Widen(of_key[d * call.k.column]);
      }
      score *= call.scale;
      // What has been added up so far is of the largest score so far.
      const bool is_larger = key == 0 || score > largest;
      const float before = is_larger ? exp(largest - score) : 1.0f;
      const float weight = is_larger ? 1.0f : exp(score - largest);
      if (is_larger) largest = score;
      all = (key == 0 ? 0.0f : all * before) + weight;
      const E* const value = v + offset(call.v, key);
      for (int64_t w = 0; w < call.width; ++w) {
        sums[w] = (key == 0 ? 0.0f : sums[w] * before) + weight * Widen(value[w * call.v.column]);
      }
    }
    E* const to = out + offset(call.out, query);
    for (int64_t w = 0; w < call.width; ++w) {
      to[w * call.out.column] = Narrow<E>::Of(call.keys == 0 ? 0.0f : sums[w] / all);
    }
  }
};

}  // namespace formwork_element
