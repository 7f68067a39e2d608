// FFT, RFFT and their inverses, over the last one to three dimensions, or as many as axes are
// listed.

#include <algorithm>
#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/fft/lines.h"
#include "core/kernels/fft/transform.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/fft.h"

namespace formwork {
namespace {

// Lines of `n` elements that are worth a task of their own.
int64_t LinesPerTask(int64_t n) { return std::max<int64_t>((1 << 13) / n, 1); }

// Transforms each line of a dimension of length n > 1; `inner` elements lie between the elements of
// one. `to` may be `from`.
template <typename R>
void TransformLines(int64_t outer, int64_t n, int64_t inner, bool inverse,
                    const std::complex<R>* from, std::complex<R>* to) {
  using C = std::complex<R>;
  constexpr int64_t kTogether = 8;  // Lines that are read together, for the sake of the cache.
  if (LinesTransform<R>::Takes(n, outer * inner)) {
    const LinesTransform<R> transform(n, inverse);
    const auto at = [=](int64_t l) { return l / inner * n * inner + l % inner; };
    ForLines(
        transform, outer * inner, [=](int64_t l) { return from + at(l); },
        [=](int64_t l) { return to + at(l); },
        [&](auto& begins, auto& results, auto& memory, int64_t /*first*/) {
          transform.Run(begins, inner, results, inner, memory);
        });
    return;
  }
  const int64_t blocks = (inner + kTogether - 1) / kTogether;
  const int64_t grain = std::max<int64_t>(LinesPerTask(n) / std::min(inner, kTogether), 1);
  ParallelFor(outer * blocks, grain, [&](int64_t begin, int64_t end) {
    FourierTransform<R> transform(n, inverse);
    std::vector<C> lines(static_cast<size_t>(n * std::min(inner, kTogether)));
    std::vector<C> result(static_cast<size_t>(n));
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b % blocks * kTogether, count = std::min(kTogether, inner - first);
      const int64_t at = b / blocks * n * inner + first;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < count; ++j) lines[j * n + i] = from[at + i * inner + j];
      }
      for (int64_t j = 0; j < count && !WorkIsCut(); ++j) {
        transform.Run(lines.data() + j * n, result.data());
        std::copy(result.begin(), result.end(), lines.begin() + j * n);
      }
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < count; ++j) to[at + i * inner + j] = lines[j * n + i];
      }
    }
  });
}

template <typename R>
void Copy(const std::complex<R>* from, int64_t n, std::complex<R>* to) {
  ParallelFor(n, 1 << 16,
              [&](int64_t begin, int64_t end) { std::copy(from + begin, from + end, to + begin); });
}

// The last `rank` dimensions of `dims`, but for the very last where that is done otherwise. `to`
// may be `from`.
template <typename R>
void TransformDims(absl::Span<const int64_t> dims, int rank, bool with_last, bool inverse,
                   const std::complex<R>* from, std::complex<R>* to) {
  int64_t elements = 1;
  for (int64_t dim : dims) elements *= dim;
  int64_t inner = 1;
  for (int i = 0; i < rank; ++i) {
    const int64_t n = dims[dims.size() - 1 - static_cast<size_t>(i)];
    if (n > 1 && (i > 0 || with_last)) {
      TransformLines(elements / (n * inner), n, inner, inverse, from, to);
      from = to;
    }
    inner *= n;
  }
  if (from != to) Copy(from, elements, to);
}

template <typename R>
absl::Status Fft(KernelContext& ctx, int rank, bool inverse) {
  using C = std::complex<R>;
  const Tensor& input = ctx.input(0);
  FORMWORK_RETURN_IF_ERROR(CheckFft(rank, input.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output,
                            ctx.AllocateOutput(0, input.dtype(), input.shape()));
  if (input.num_elements() == 0) return absl::OkStatus();
  TransformDims(input.shape().dims(), rank, /*with_last=*/true, inverse, input.data<C>(),
                output->mutable_data<C>());
  return absl::OkStatus();
}

// n real numbers to n / 2 + 1. Two at a time are a complex number, where n is even.
template <typename R>
class RealTransform {
  using C = std::complex<R>;

 public:
  explicit RealTransform(int64_t n, bool inverse)
      : n_(n), half_(n / 2), even_(n % 2 == 0), transform_(even_ ? half_ : n, inverse) {
    from_.resize(static_cast<size_t>(even_ ? half_ : n));
    to_.resize(from_.size());
    for (int64_t k = 0; even_ && k <= half_; ++k) {
      roots_.push_back(static_cast<C>(UnitRoot(k, n)));
    }
  }

  void Forward(const R* in, C* out) {
    if (!even_) {
      for (int64_t i = 0; i < n_; ++i) from_[i] = in[i];
      transform_.Run(from_.data(), to_.data());
      std::copy(to_.begin(), to_.begin() + half_ + 1, out);
      return;
    }
    for (int64_t i = 0; i < half_; ++i) from_[i] = {in[2 * i], in[2 * i + 1]};
    transform_.Run(from_.data(), to_.data());
    for (int64_t k = 0; k <= half_; ++k) {
      const C a = to_[k == half_ ? 0 : k], b = std::conj(to_[k == 0 ? 0 : half_ - k]);
      const C sum = a + b, difference = a - b, root = roots_[k];
      // The even elements' transform, and -i times the root times the odd ones'.
      const R re = difference.real() * root.real() - difference.imag() * root.imag();
      const R im = difference.real() * root.imag() + difference.imag() * root.real();
      out[k] = {(sum.real() + im) / 2, (sum.imag() - re) / 2};
    }
  }

  void Inverse(const C* in, R* out) {
    if (!even_) {
      from_[0] = in[0].real();
      for (int64_t k = 1; k <= half_; ++k) {
        from_[k] = in[k];
        from_[n_ - k] = std::conj(in[k]);
      }
      transform_.Run(from_.data(), to_.data());
      for (int64_t i = 0; i < n_; ++i) out[i] = to_[i].real();
      return;
    }
    for (int64_t k = 0; k < half_; ++k) {
      const C a = k == 0 ? C(in[0].real()) : in[k];
      const C b = k == 0 ? C(in[half_].real()) : std::conj(in[half_ - k]);
      const C sum = a + b, difference = a - b, root = std::conj(roots_[k]);
      const R re = difference.real() * root.real() - difference.imag() * root.imag();
      const R im = difference.real() * root.imag() + difference.imag() * root.real();
      from_[k] = {(sum.real() - im) / 2, (sum.imag() + re) / 2};
    }
    transform_.Run(from_.data(), to_.data());
    for (int64_t i = 0; i < half_; ++i) {
      out[2 * i] = to_[i].real();
      out[2 * i + 1] = to_[i].imag();
    }
  }

 private:
  int64_t n_, half_;
  bool even_;
  FourierTransform<R> transform_;
  std::vector<C> from_, to_, roots_;
};

// Lines of 2 * transform.length() real numbers.
template <typename R>
std::vector<std::complex<R>> RealRoots(const LinesTransform<R>& transform) {
  std::vector<std::complex<R>> roots;
  for (int64_t k = 0; k <= transform.length(); ++k) {
    roots.push_back(static_cast<std::complex<R>>(UnitRoot(k, 2 * transform.length())));
  }
  return roots;
}
template <typename R>
bool TakesReal(int64_t n, int64_t lines) {
  return n % 2 == 0 && LinesTransform<R>::Takes(n / 2, lines);
}

// Where line `line` of `shape`'s last dimension begins within a value of dimensions `whole`, which
// are as long or longer in the last `rank` dimensions.
int64_t BeginOf(int64_t line, absl::Span<const int64_t> shape, absl::Span<const int64_t> whole) {
  int64_t begin = 0, stride = whole.back();
  for (size_t d = shape.size() - 1; d-- > 0;) {
    begin += line % shape[d] * stride;
    line /= shape[d];
    stride *= whole[d];
  }
  return begin;
}

absl::Status FillZeros(Tensor& output) {
  char* const to = static_cast<char*>(output.mutable_raw());
  const size_t size = DTypeSize(output.dtype());
  ParallelFor(output.num_elements(), 1 << 16, [&](int64_t begin, int64_t end) {
    std::fill(to + static_cast<size_t>(begin) * size, to + static_cast<size_t>(end) * size, 0);
  });
  return absl::OkStatus();
}

template <typename R>
absl::Status RealFft(KernelContext& ctx, int rank) {
  using C = std::complex<R>;
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(
      const RealFftGeometry geometry,
      PrepareRealFft(rank, /*forward=*/true, input.shape().dims(), ctx.input(1)));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, DTypeOf<C>::value, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  if (input.num_elements() == 0) return FillZeros(*output);
  const int64_t n = geometry.lengths.back(), out = geometry.output.back();
  const R* const from = input.data<R>();
  C* const to = output->mutable_data<C>();
  const int64_t lines = shape.num_elements() / out;
  const auto begin_of = [&](int64_t line) {
    return from + BeginOf(line, shape.dims(), input.shape().dims());
  };
  if (TakesReal<R>(n, lines)) {
    const LinesTransform<R> transform(n / 2, /*inverse=*/false);
    const std::vector<C> roots = RealRoots(transform);
    ForLines(
        transform, lines, begin_of, [=](int64_t line) { return to + line * out; },
        [&](auto& reals, auto& results, auto& memory, int64_t /*first*/) {
          transform.RunReal(reals, results, roots, memory);
        });
  } else {
    ParallelFor(lines, LinesPerTask(n), [&](int64_t begin, int64_t end) {
      RealTransform<R> transform(n, /*inverse=*/false);
      for (int64_t line = begin; line < end; ++line) {
        transform.Forward(begin_of(line), to + line * out);
      }
    });
  }
  TransformDims(shape.dims(), rank, /*with_last=*/false, /*inverse=*/false, to, to);
  return absl::OkStatus();
}

template <typename R>
absl::Status InverseRealFft(KernelContext& ctx, int rank) {
  using C = std::complex<R>;
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(
      const RealFftGeometry geometry,
      PrepareRealFft(rank, /*forward=*/false, input.shape().dims(), ctx.input(1)));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, DTypeOf<R>::value, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  if (input.num_elements() == 0) return FillZeros(*output);
  const int64_t n = geometry.lengths.back(), in = n / 2 + 1;
  Dims used = geometry.output;
  used.back() = in;
  FORMWORK_ASSIGN_OR_RETURN(const Shape used_shape, Shape::Make(used));
  FORMWORK_ASSIGN_OR_RETURN(Tensor middle,
                            Tensor::Allocate(ctx.allocator(), DTypeOf<C>::value, used_shape));
  const C* const from = input.data<C>();
  C* const half = middle.mutable_data<C>();
  R* const to = output->mutable_data<R>();
  const int64_t lines = shape.num_elements() / n;
  ParallelFor(lines, LinesPerTask(n), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const C* const at = from + BeginOf(line, used_shape.dims(), input.shape().dims());
      std::copy(at, at + in, half + line * in);
    }
  });
  TransformDims(used_shape.dims(), rank, /*with_last=*/false, /*inverse=*/true, half, half);
  if (TakesReal<R>(n, lines)) {
    const LinesTransform<R> transform(n / 2, /*inverse=*/true);
    const std::vector<C> roots = RealRoots(transform);
    ForLines(
        transform, lines, [=](int64_t line) { return static_cast<const C*>(half + line * in); },
        [=](int64_t line) { return to + line * n; },
        [&](auto& halves, auto& results, auto& memory, int64_t /*first*/) {
          transform.RunToReal(halves, results, roots, memory);
        });
    return absl::OkStatus();
  }
  ParallelFor(lines, LinesPerTask(n), [&](int64_t begin, int64_t end) {
    RealTransform<R> transform(n, /*inverse=*/true);
    for (int64_t line = begin; line < end; ++line) {
      transform.Inverse(half + line * in, to + line * n);
    }
  });
  return absl::OkStatus();
}

template <typename R>
absl::Status FftNd(KernelContext& ctx, bool inverse) {
  using C = std::complex<R>;
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const int rank, PrepareFftAxes(input.shape().dims(), ctx.input(2)));
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                            PrepareFftNd(rank, input.shape().dims(), ctx.input(1)));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, input.dtype(), shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const C* const from = input.data<C>();
  C* const to = output->mutable_data<C>();
  const int64_t n = dims.back();
  ParallelFor(shape.num_elements() / n, LinesPerTask(n), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const C* const at = from + BeginOf(line, shape.dims(), input.shape().dims());
      std::copy(at, at + n, to + line * n);
    }
  });
  TransformDims(shape.dims(), rank, /*with_last=*/true, inverse, to, to);
  return absl::OkStatus();
}

template <int kRank, bool kInverse>
absl::StatusOr<KernelFn> MakeFft(KernelInit& init) {
  const bool wide = init.input_dtypes()[0] == DType::kComplex128;
  return KernelFn([wide](KernelContext& ctx) {
    return wide ? Fft<double>(ctx, kRank, kInverse) : Fft<float>(ctx, kRank, kInverse);
  });
}

template <bool kInverse>
absl::StatusOr<KernelFn> MakeFftNd(KernelInit& init) {
  const bool wide = init.input_dtypes()[0] == DType::kComplex128;
  return KernelFn([wide](KernelContext& ctx) {
    return wide ? FftNd<double>(ctx, kInverse) : FftNd<float>(ctx, kInverse);
  });
}

// kRank 0: as many as input 2 lists.
template <int kRank, bool kForward>
absl::StatusOr<KernelFn> MakeRealFft(KernelInit& init) {
  const DType in = init.input_dtypes()[0], out = init.output_dtypes()[0];
  const bool wide = in == DType::kDouble || in == DType::kComplex128;
  if (wide != (out == DType::kDouble || out == DType::kComplex128)) {
    return InvalidArgument("Wrong types for ", kForward ? "forward" : "backward",
                           " real FFT: in=", static_cast<int>(in), " out=", static_cast<int>(out));
  }
  return KernelFn([wide](KernelContext& ctx) -> absl::Status {
    int rank = kRank;
    if (kRank == 0) {
      FORMWORK_ASSIGN_OR_RETURN(rank, PrepareFftAxes(ctx.input(0).shape().dims(), ctx.input(2)));
    }
    if (kForward) return wide ? RealFft<double>(ctx, rank) : RealFft<float>(ctx, rank);
    return wide ? InverseRealFft<double>(ctx, rank) : InverseRealFft<float>(ctx, rank);
  });
}

}  // namespace

void RegisterFftCpuKernels(KernelRegistry& registry) {
  registry.Add("FFT", MakeFft<1, false>);
  registry.Add("FFT2D", MakeFft<2, false>);
  registry.Add("FFT3D", MakeFft<3, false>);
  registry.Add("IFFT", MakeFft<1, true>);
  registry.Add("IFFT2D", MakeFft<2, true>);
  registry.Add("IFFT3D", MakeFft<3, true>);
  registry.Add("RFFT", MakeRealFft<1, true>);
  registry.Add("RFFT2D", MakeRealFft<2, true>);
  registry.Add("RFFT3D", MakeRealFft<3, true>);
  registry.Add("IRFFT", MakeRealFft<1, false>);
  registry.Add("IRFFT2D", MakeRealFft<2, false>);
  registry.Add("IRFFT3D", MakeRealFft<3, false>);
  registry.Add("FFTND", MakeFftNd<false>);
  registry.Add("IFFTND", MakeFftNd<true>);
  registry.Add("RFFTND", MakeRealFft<0, true>);
  registry.Add("IRFFTND", MakeRealFft<0, false>);
}

}  // namespace formwork
