// Fractional pooling and its gradients.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/conv/pool_cpu.h"
#include "core/kernels/elements.h"
#include "core/kernels/random/sequence_position.h"
#include "core/kernels/random/unit_numbers.h"
#include "core/ops/fractional_pool.h"

namespace formwork {
namespace {

// The sizes of `output` regions of `input` rows: larger ones among smaller ones in an order that is
// drawn.
std::vector<int64_t> ShuffledSizes(int64_t input, int64_t output, const Philox& philox) {
  std::vector<int64_t> sizes(static_cast<size_t>(output), input / output);
  for (int64_t i = 0; i < input % output; ++i) ++sizes[i];
  PhiloxSequence sequence(philox);
  for (int64_t i = 0; i + 1 < output; ++i) {
    std::swap(sizes[i], sizes[i + sequence.Next() % static_cast<uint32_t>(output - i)]);
  }
  return sizes;
}

// Regions whose borders are as far apart as they can be, from a start that is drawn (Graham,
// "Fractional max-pooling"), so that their sizes differ by one at most.
std::vector<int64_t> EvenSizes(int64_t input, int64_t output, const Philox& philox) {
  const double alpha = static_cast<double>(input) / static_cast<double>(output);
  const auto least = static_cast<double>(input / output);
  const double first = (least + 2) / alpha - 1;
  const double last =
      (static_cast<double>(input) + 1 - least) / alpha - (static_cast<double>(output) - 1);
  PhiloxSequence sequence(philox);
  const uint32_t x0 = sequence.Next(), x1 = sequence.Next();
  const double start = UnitDouble(x0, x1) * std::min(first, last);
  std::vector<int64_t> sizes;
  int64_t before = 1;
  for (int64_t i = 1; i <= output; ++i) {
    const int64_t border =
        i == output ? input + 1
                    : static_cast<int64_t>(std::ceil(alpha * (static_cast<double>(i) + start)));
    sizes.push_back(border - before);
    before = border;
  }
  return sizes;
}

// Draws the borders of one dimension, a vector.
class BorderSource {
 public:
  static absl::StatusOr<BorderSource> Of(KernelInit& init, const FractionalPoolAttrs& attrs) {
    FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position, SequencePosition::Of(init));
    return BorderSource(attrs, position);
  }

  // What one call draws from, for dimensions of so many regions. One that is deterministic begins
  // at the same place in each.
  Philox Begin(KernelContext& ctx, int64_t rows, int64_t cols) const {
    return position_.Reserve(ctx, attrs_.deterministic ? 0 : Groups(rows) + Groups(cols));
  }

  absl::StatusOr<Tensor*> Draw(KernelContext& ctx, int output_index, int64_t input, int64_t output,
                               Philox& philox) const {
    FORMWORK_ASSIGN_OR_RETURN(Tensor* const borders,
                              ctx.AllocateOutput(output_index, DType::kInt64, Shape({output + 1})));
    int64_t* to = borders->mutable_data<int64_t>();
    *to = 0;
    if (output == 0) return borders;
    const std::vector<int64_t> sizes = attrs_.pseudo_random ? EvenSizes(input, output, philox)
                                                            : ShuffledSizes(input, output, philox);
    for (const int64_t size : sizes) {
      to[1] = to[0] + size;
      ++to;
    }
    philox.Skip(Groups(output));
    return borders;
  }

 private:
  BorderSource(const FractionalPoolAttrs& attrs, const SequencePosition& position)
      : attrs_(attrs), position_(position) {}

  // Four numbers each.
  uint64_t Groups(int64_t regions) const {
    return attrs_.pseudo_random ? 1 : (static_cast<uint64_t>(regions) + 3) / 4;
  }

  FractionalPoolAttrs attrs_;
  SequencePosition position_;
};

// The regions of an image of channels last.
struct Regions {
  const int64_t* rows;
  const int64_t* cols;
  Dims input, output;
  bool overlapping;

  // One behind the last of region i.
  static int64_t End(const int64_t* borders, int64_t i, int64_t size, bool overlapping) {
    return std::min(borders[i + 1] + (overlapping ? 1 : 0), size);
  }
  int64_t row_end(int64_t i) const { return End(rows, i, input[1], overlapping); }
  int64_t col_end(int64_t i) const { return End(cols, i, input[2], overlapping); }
};

int64_t PixelsOf(const Regions& r, int64_t row, int64_t col) {
  return (r.row_end(row) - r.rows[row]) * (r.col_end(col) - r.cols[col]);
}

// Calls f(pixel) for each pixel of a region; for less of them where the work is cut.
template <typename F>
void ForPixels(const Regions& r, int64_t batch, int64_t row, int64_t col, const F& f) {
  const int64_t left = r.cols[col], right = r.col_end(col);
  const int64_t rows_between_looks = std::max<int64_t>(1, 4096 / ((right - left) * r.input[3]));
  for (int64_t h = r.rows[row]; h < r.row_end(row); ++h) {
    if (WorkIsCutAt(h, rows_between_looks)) return;
    for (int64_t w = left; w < right; ++w) f((batch * r.input[1] + h) * r.input[2] + w);
  }
}

template <typename T, bool kMax>
void PoolRegion(const Regions& r, int64_t batch, int64_t row, int64_t col, const T* in, T* out) {
  const int64_t depth = r.input[3];
  std::fill(out, out + depth, kMax ? std::numeric_limits<T>::lowest() : T());
  ForPixels(r, batch, row, col, [&](int64_t pixel) {
    const T* const from = in + pixel * depth;
    for (int64_t c = 0; c < depth; ++c) {
      if constexpr (kMax) {
        out[c] = out[c] < from[c] ? from[c] : out[c];
      } else {
        out[c] = math::Add(out[c], from[c]);
      }
    }
  });
  if (kMax) return;
  const T pixels = static_cast<T>(PixelsOf(r, row, col));
  for (int64_t c = 0; c < depth; ++c) out[c] = out[c] / pixels;
}

template <typename T, bool kMax>
absl::Status Pool(KernelContext& ctx, const FractionalPoolAttrs& attrs,
                  const BorderSource& source) {
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareFractionalPool(attrs, input.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, DTypeOf<T>::value, shape));
  Philox philox = source.Begin(ctx, dims[1], dims[2]);
  FORMWORK_ASSIGN_OR_RETURN(const Tensor* const rows,
                            source.Draw(ctx, 1, input.dim(1), dims[1], philox));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor* const cols,
                            source.Draw(ctx, 2, input.dim(2), dims[2], philox));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const Regions regions{rows->data<int64_t>(), cols->data<int64_t>(),
                        Dims(input.shape().dims().begin(), input.shape().dims().end()), dims,
                        attrs.overlapping};
  const int64_t work = std::max<int64_t>(1, input.num_elements() / (dims[0] * dims[1]));
  T* const to = output->mutable_data<T>();
  ParallelFor(dims[0] * dims[1], std::max<int64_t>(1, 32768 / work),
              [&](int64_t begin, int64_t end) {
                for (int64_t line = begin; line < end && !WorkIsCut(); ++line) {
                  for (int64_t col = 0; col < dims[2] && !WorkIsCutAt(col, 1024); ++col) {
                    PoolRegion<T, kMax>(regions, line / dims[1], line % dims[1], col,
                                        input.data<T>(), to + (line * dims[2] + col) * dims[3]);
                  }
                }
              });
  return absl::OkStatus();
}

template <bool kMax>
absl::StatusOr<KernelFn> MakePool(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const FractionalPoolAttrs attrs,
                            FractionalPoolAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const BorderSource source, BorderSource::Of(init, attrs));
  const DType dtype = init.input_dtypes()[0];
  return KernelFn([attrs, source, dtype](KernelContext& ctx) {
    if (dtype == DType::kFloat) return Pool<float, kMax>(ctx, attrs, source);
    if (dtype == DType::kDouble) return Pool<double, kMax>(ctx, attrs, source);
    if (dtype == DType::kInt32) return Pool<int32_t, kMax>(ctx, attrs, source);
    return Pool<int64_t, kMax>(ctx, attrs, source);
  });
}

// What a gradient of `grad` pixels goes to, image by image.
template <typename F>
void ForRegions(const Regions& r, const F& f) {
  ParallelFor(r.output[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t row = 0; row < r.output[1] && !WorkIsCut(); ++row) {
        for (int64_t col = 0; col < r.output[2] && !WorkIsCutAt(col, 1024); ++col) f(b, row, col);
      }
    }
  });
}

absl::StatusOr<Regions> RegionsOf(const KernelContext& ctx, int first, const Shape& input,
                                  const Shape& output, bool overlapping) {
  const Tensor& rows = ctx.input(first);
  const Tensor& cols = ctx.input(first + 1);
  FORMWORK_RETURN_IF_ERROR(CheckPoolingSequence(rows, input.dim(1), output.dim(1), overlapping));
  FORMWORK_RETURN_IF_ERROR(CheckPoolingSequence(cols, input.dim(2), output.dim(2), overlapping));
  return Regions{rows.data<int64_t>(), cols.data<int64_t>(),
                 Dims(input.dims().begin(), input.dims().end()),
                 Dims(output.dims().begin(), output.dims().end()), overlapping};
}

template <typename T>
absl::Status MaxGradient(KernelContext& ctx, bool overlapping) {
  const Tensor input = ctx.input(0), output_before = ctx.input(1), grad = ctx.input(2);
  FORMWORK_RETURN_IF_ERROR(CheckFractionalMaxPoolGrad(
      input.shape().dims(), output_before.shape().dims(), grad.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Regions regions,
                            RegionsOf(ctx, 3, input.shape(), grad.shape(), overlapping));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output,
                            ctx.AllocateOutput(0, DTypeOf<T>::value, input.shape()));
  ZeroElements(*output);
  if (input.num_elements() == 0) return absl::OkStatus();
  const int64_t depth = input.dim(3);
  const T* const in = input.data<T>();
  const T* const pooled = output_before.data<T>();
  const T* const from = grad.data<T>();
  T* const to = output->mutable_data<T>();
  std::atomic<bool> differs{false};
  ForRegions(regions, [&](int64_t b, int64_t row, int64_t col) {
    const int64_t at = ((b * regions.output[1] + row) * regions.output[2] + col) * depth;
    for (int64_t c = 0; c < depth; ++c) {
      int64_t largest = -1;  // The first one; of numbers that are none, the first of all.
      ForPixels(regions, b, row, col, [&](int64_t pixel) {
        if (largest < 0 || in[largest * depth + c] < in[pixel * depth + c]) largest = pixel;
      });
      if (largest < 0) return;  // The work is cut.
      if (!(in[largest * depth + c] == pooled[at + c])) differs.store(true);
      T& sum = to[largest * depth + c];
      sum = math::Add(sum, from[at + c]);
    }
  });
  if (differs.load()) return InvalidArgument("tensor_out_dup is not the same as tensor_out");
  return absl::OkStatus();
}

template <typename T>
absl::Status AvgGradient(KernelContext& ctx, bool overlapping) {
  const Tensor grad = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape,
                            PrepareFractionalAvgPoolGrad(ctx.input(0), grad.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Regions regions,
                            RegionsOf(ctx, 2, shape, grad.shape(), overlapping));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, DTypeOf<T>::value, shape));
  // Summed in double, whatever the result is.
  FORMWORK_ASSIGN_OR_RETURN(Tensor sums, Tensor::Allocate(ctx.allocator(), DType::kDouble, shape));
  ZeroElements(sums);
  if (shape.num_elements() == 0) return absl::OkStatus();
  const int64_t depth = shape.dim(3);
  const T* const from = grad.data<T>();
  double* const to = sums.mutable_data<double>();
  ForRegions(regions, [&](int64_t b, int64_t row, int64_t col) {
    const T* const at = from + ((b * regions.output[1] + row) * regions.output[2] + col) * depth;
    const auto count = static_cast<double>(PixelsOf(regions, row, col));
    ForPixels(regions, b, row, col, [&](int64_t pixel) {
      for (int64_t c = 0; c < depth; ++c) {
        to[pixel * depth + c] += static_cast<double>(at[c]) / count;
      }
    });
  });
  T* const result = output->mutable_data<T>();
  ForBlocks(shape.num_elements(), kCheapItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) result[i] = static_cast<T>(to[i]);
  });
  return absl::OkStatus();
}

template <bool kMax>
absl::StatusOr<KernelFn> MakeGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool overlapping, init.attrs().Get<bool>("overlapping"));
  const DType dtype = init.output_dtypes()[0];
  const auto run = [overlapping](auto max, auto avg) {
    return KernelFn([overlapping, max, avg](KernelContext& ctx) {
      return kMax ? max(ctx, overlapping) : avg(ctx, overlapping);
    });
  };
  if (dtype == DType::kFloat) return run(MaxGradient<float>, AvgGradient<float>);
  if (dtype == DType::kDouble) return run(MaxGradient<double>, AvgGradient<double>);
  if (dtype == DType::kInt32) return run(MaxGradient<int32_t>, AvgGradient<int32_t>);
  return run(MaxGradient<int64_t>, AvgGradient<int64_t>);
}

}  // namespace

void AddFractionalPoolCpuKernels(KernelRegistry& registry) {
  registry.Add("FractionalMaxPool", MakePool<true>);
  registry.Add("FractionalAvgPool", MakePool<false>);
  registry.Add("FractionalMaxPoolGrad", MakeGradient<true>);
  registry.Add("FractionalAvgPoolGrad", MakeGradient<false>);
}

}  // namespace formwork
