// What kernels do for one element of images that are normalised by their neighbours in depth, and
// of the gradient: compiled for GPUs at run time, from this text behind those of item_functions.h
// and element_access.h, and by the host's compiler for the op cases. All is computed in float.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

struct LrnSizes {
  int64_t depth, radius;
  float bias, alpha, beta;

  // The neighbours of channel c, itself among them.
  FORMWORK_ELEMENT int64_t Begin(int64_t c) const { return c < radius ? 0 : c - radius; }
  FORMWORK_ELEMENT int64_t End(int64_t c) const {
    return c + radius + 1 < depth ? c + radius + 1 : depth;
  }
  FORMWORK_ELEMENT int64_t ChannelOf(uint64_t i) const {
    return static_cast<int64_t>(i % static_cast<uint64_t>(depth));
  }
  // Of element i, which is of channel c.
  template <typename E>
  FORMWORK_ELEMENT float NormOf(const E* in, uint64_t i, int64_t c) const {
    const E* const pixel = in + i - static_cast<uint64_t>(c);
    float sum = 0;
    for (int64_t k = Begin(c); k < End(c); ++k) sum += Widen(pixel[k]) * Widen(pixel[k]);
    return bias + alpha * sum;
  }
};

// LRN. An item is an element, here and below.
template <typename E>
struct LrnItem {
  const E* in;
  E* out;
  LrnSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const float norm = sizes.NormOf(in, i, sizes.ChannelOf(i));
    out[i] = Narrow<E>::Of(Widen(in[i]) * pow(norm, -sizes.beta));
  }
};

// LRNGrad: first what each element was divided by, of which its neighbours are asked then.
template <typename E>
struct LrnNormItem {
  const E* in;
  float* norms;
  LrnSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    norms[i] = sizes.NormOf(in, i, sizes.ChannelOf(i));
  }
};
template <typename E>
struct LrnGradItem {
  const E* grads;
  const E* in;
  const E* made;
  const float* norms;
  E* out;
  LrnSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t channel = sizes.ChannelOf(i);
    const uint64_t pixel = i - static_cast<uint64_t>(channel);
    const float x = Widen(in[i]);
    float sum = 0;
    for (int64_t c = sizes.Begin(channel); c < sizes.End(channel); ++c) {
      const uint64_t at = pixel + static_cast<uint64_t>(c);
      const float scale = -2 * sizes.alpha * sizes.beta * Widen(made[at]) / norms[at];
      const float own = c == channel ? pow(norms[at], -sizes.beta) : 0.0f;
      sum += (scale * x + own) * Widen(grads[at]);
    }
    out[i] = Narrow<E>::Of(sum);
  }
};

}  // namespace formwork_element
