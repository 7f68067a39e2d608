// What kernels do for one element, one channel or one part of a channel of normalised batches:
// compiled for GPUs at run time, from this text behind those of item_functions.h and
// element_access.h, and by the host's compiler for the op cases. Sums are the same in every run:
// each part of a channel is one item's, and the parts are added in their order.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

// Elements are [outer, channels, inner]; a channel is summed in `parts`.
struct NormSizes {
  int64_t outer, channels, inner, parts;

  FORMWORK_ELEMENT int64_t PerChannel() const { return outer * inner; }
  FORMWORK_ELEMENT int64_t ChannelOf(uint64_t i) const {
    const uint64_t line = DividedBy(i, static_cast<uint64_t>(inner));
    const uint64_t all = static_cast<uint64_t>(channels);
    return static_cast<int64_t>(line - DividedBy(line, all) * all);
  }
};

struct NormSums {
  double* first;  // [parts, channels]
  double* second;

  // Of a channel, of all parts.
  FORMWORK_ELEMENT double Of(const double* sums, const NormSizes& sizes, int64_t channel) const {
    double sum = 0;
    for (int64_t part = 0; part < sizes.parts; ++part) {
      sum += sums[part * sizes.channels + channel];
    }
    return sum;
  }
};

// An item is a part of a channel: every so-manieth element of it, so that neighbouring items read
// neighbouring memory. What: SumOf, SquaresOf or ProductsOf.
template <typename E, typename What>
struct NormSumsItem {
  const E* x;
  const E* dy;  // Of ProductsOf alone, here and in the sums.
  const float* mean;
  NormSums sums;
  NormSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t at = static_cast<int64_t>(i);
    const bool last = sizes.inner == 1;  // Channels, as a rule.
    const int64_t channel = last ? at % sizes.channels : at / sizes.parts;
    const int64_t part = last ? at / sizes.channels : at % sizes.parts;
    const int64_t all = sizes.PerChannel();
    double first = 0, second = 0;
    for (int64_t begin = part; begin < all; begin += kFloatRun * sizes.parts) {
      float a = 0, b = 0;
      const int64_t end = begin + kFloatRun * sizes.parts;
      for (int64_t e = begin; e < end && e < all; e += sizes.parts) {
        const int64_t outer = last ? e : e / sizes.inner;
        const int64_t inner = last ? 0 : e - outer * sizes.inner;
        const int64_t element = (outer * sizes.channels + channel) * sizes.inner + inner;
        What::Add(*this, element, channel, a, b);
      }
      first += static_cast<double>(a);
      second += static_cast<double>(b);
    }
    sums.first[part * sizes.channels + channel] = first;
    if (sums.second != nullptr) sums.second[part * sizes.channels + channel] = second;
  }
};
struct SumOf {
  template <typename Item>
  static FORMWORK_ELEMENT void Add(const Item& item, int64_t i, int64_t /*channel*/, float& a,
                                   float& /*b*/) {
    a += Widen(item.x[i]);
  }
};
struct SquaresOf {
  template <typename Item>
  static FORMWORK_ELEMENT void Add(const Item& item, int64_t i, int64_t channel, float& a,
                                   float& /*b*/) {
    const float x = Widen(item.x[i]) - item.mean[channel];
    a += x * x;
  }
};
struct ProductsOf {
  template <typename Item>
  static FORMWORK_ELEMENT void Add(const Item& item, int64_t i, int64_t channel, float& a,
                                   float& b) {
    const float dy = Widen(item.dy[i]);
    a += dy;
    b += dy * (Widen(item.x[i]) - item.mean[channel]);
  }
};

// Of each channel, as an item: its mean.
struct NormMeanItem {
  NormSums sums;
  float* mean;
  NormSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t c) const {
    const int64_t channel = static_cast<int64_t>(c);
    mean[c] = static_cast<float>(sums.Of(sums.first, sizes, channel) /
                                 static_cast<double>(sizes.PerChannel()));
  }
};

struct NormStatistics {
  const float* scale;
  const float* old_mean;
  const float* old_variance;
  float* batch_mean;
  float* batch_variance;
  float* mean;
  float* variance;
  float* factor;  // By which x - mean is multiplied.
  float epsilon;
  float of_new;  // The new statistics' part of the running ones.
  bool needs_old;

  FORMWORK_ELEMENT void SetFactor(uint64_t c) const {
    factor[c] = scale[c] / sqrt(variance[c] + epsilon);
  }
};

// Then its variance, and the running statistics, whose variance is the unbiased estimate.
struct NormStatisticsItem {
  NormSums sums;
  NormStatistics of;
  NormSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t c) const {
    const double squares = sums.Of(sums.first, sizes, static_cast<int64_t>(c));
    const double count = static_cast<double>(sizes.PerChannel());
    const float estimate = static_cast<float>(squares / (count > 2 ? count - 1 : 1));
    const float keep = 1.0f - of.of_new;
    of.variance[c] = static_cast<float>(squares / count);
    of.batch_mean[c] = of.needs_old ? keep * of.old_mean[c] + of.of_new * of.mean[c] : of.mean[c];
    of.batch_variance[c] =
        of.needs_old ? keep * of.old_variance[c] + of.of_new * estimate : estimate;
    of.SetFactor(c);
  }
};

// Instead of all that, where the statistics are given.
struct NormGivenItem {
  NormStatistics of;

  FORMWORK_ELEMENT void operator()(uint64_t c) const {
    of.batch_mean[c] = of.mean[c] = of.old_mean[c];
    of.batch_variance[c] = of.variance[c] = of.old_variance[c];
    of.SetFactor(c);
  }
};

// An item is an element.
template <typename E>
struct NormScaleItem {
  const E* x;
  E* y;
  const float* mean;
  const float* factor;
  const float* offset;
  NormSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t c = sizes.ChannelOf(i);
    y[i] = Narrow<E>::Of((Widen(x[i]) - mean[c]) * factor[c] + offset[c]);
  }
};

// Of each channel, as an item: the gradients of scale and offset, and what the elements need.
struct NormCoefficientsItem {
  NormSums sums;
  const float* scale;
  const float* variance;
  float* scale_gradient;
  float* offset_gradient;
  float* shift;
  float* slope;
  float* factor;
  NormSizes sizes;
  float epsilon;
  bool is_training;

  FORMWORK_ELEMENT void operator()(uint64_t c) const {
    const double sum = sums.Of(sums.first, sizes, static_cast<int64_t>(c));
    const double products = sums.Of(sums.second, sizes, static_cast<int64_t>(c));
    const double inverse =
        1.0 / sqrt(static_cast<double>(variance[c]) + static_cast<double>(epsilon));
    const double count = static_cast<double>(sizes.PerChannel());
    offset_gradient[c] = static_cast<float>(sum);
    scale_gradient[c] = static_cast<float>(products * inverse);
    factor[c] = static_cast<float>(static_cast<double>(scale[c]) * inverse);
    shift[c] = is_training ? static_cast<float>(sum / count) : 0;
    slope[c] = is_training ? static_cast<float>(products / count * inverse * inverse) : 0;
  }
};

// An item is an element.
template <typename E>
struct NormGradientItem {
  const E* dy;
  const E* x;
  E* dx;
  const float* mean;
  const float* shift;
  const float* slope;
  const float* factor;
  NormSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t c = sizes.ChannelOf(i);
    const float by_x = (Widen(x[i]) - mean[c]) * slope[c];
    dx[i] = Narrow<E>::Of((Widen(dy[i]) - shift[c] - by_x) * factor[c]);
  }
};

}  // namespace formwork_element
