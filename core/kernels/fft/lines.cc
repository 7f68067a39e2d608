// Stockham's algorithm: each pass reads elements that are far apart and writes those of a
// sub-transform next to each other, so that the last one's are in order. A vector has the same
// element of as many lines.

#include "core/kernels/fft/lines.h"

#include <algorithm>
#include <type_traits>

#include "core/kernels/fft/line_copy.h"
#include "core/kernels/fft/transform.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

// Two buffers of as many elements of all lines together: a second-level cache.
constexpr int64_t kMostBytes = 1 << 19;

// Fewer take less time one by one.
constexpr int64_t kLeastLines = 3;

int VectorBytes() { return HostIsa() == Isa::kAvx512 ? 64 : 32; }

template <typename R, int kBytes>
struct SideBySide {
  static constexpr int64_t kLines = kBytes / static_cast<int>(sizeof(R));
  typedef R Vector __attribute__((vector_size(kBytes)));
  struct Element {
    Vector re, im;
  };
  using Stage = typename LinesTransform<R>::Stage;

  FORMWORK_ISA_INLINE static Element Add(const Element& a, const Element& b) {
    return {a.re + b.re, a.im + b.im};
  }
  FORMWORK_ISA_INLINE static Element Sub(const Element& a, const Element& b) {
    return {a.re - b.re, a.im - b.im};
  }
  // a times -i.
  FORMWORK_ISA_INLINE static Element Turned(const Element& a) { return {a.im, -a.re}; }
  FORMWORK_ISA_INLINE static Element Times(const Element& a, R by) {
    return {a.re * by, a.im * by};
  }
  FORMWORK_ISA_INLINE static Element Times(const Element& a, const std::complex<R>& by) {
    return {a.re * by.real() - a.im * by.imag(), a.re * by.imag() + a.im * by.real()};
  }

  // In place, the results in order.
  FORMWORK_ISA_INLINE static void Transform2(Element* a) {
    const Element sum = Add(a[0], a[1]);
    a[1] = Sub(a[0], a[1]);
    a[0] = sum;
  }
  FORMWORK_ISA_INLINE static void Transform3(Element* a) {
    constexpr R kSine = R(0.86602540378443864676);
    const Element sum = Add(a[1], a[2]);
    const Element turned = Times(Turned(Sub(a[1], a[2])), kSine);
    const Element middle = Sub(a[0], Times(sum, R(0.5)));
    a[0] = Add(a[0], sum);
    a[1] = Add(middle, turned);
    a[2] = Sub(middle, turned);
  }
  FORMWORK_ISA_INLINE static void Transform4(Element* a) {
    const Element even = Add(a[0], a[2]), even_rest = Sub(a[0], a[2]);
    const Element odd = Add(a[1], a[3]), odd_rest = Turned(Sub(a[1], a[3]));
    a[0] = Add(even, odd);
    a[1] = Add(even_rest, odd_rest);
    a[2] = Sub(even, odd);
    a[3] = Sub(even_rest, odd_rest);
  }
  FORMWORK_ISA_INLINE static void Transform5(Element* a) {
    constexpr R kCosine1 = R(0.30901699437494742410), kSine1 = R(0.95105651629515357212);
    constexpr R kCosine2 = R(-0.80901699437494742410), kSine2 = R(0.58778525229247312917);
    const Element outer = Add(a[1], a[4]), outer_rest = Sub(a[1], a[4]);
    const Element inner = Add(a[2], a[3]), inner_rest = Sub(a[2], a[3]);
    const Element real1 = Add(a[0], Add(Times(outer, kCosine1), Times(inner, kCosine2)));
    const Element real2 = Add(a[0], Add(Times(outer, kCosine2), Times(inner, kCosine1)));
    const Element turned1 = Turned(Add(Times(outer_rest, kSine1), Times(inner_rest, kSine2)));
    const Element turned2 = Turned(Sub(Times(outer_rest, kSine2), Times(inner_rest, kSine1)));
    a[0] = Add(a[0], Add(outer, inner));
    a[1] = Add(real1, turned1);
    a[2] = Add(real2, turned2);
    a[3] = Sub(real2, turned2);
    a[4] = Sub(real1, turned1);
  }

  template <int kRadix>
  FORMWORK_ISA_INLINE static void RunStage(const Stage& stage, const Element* x, Element* y) {
    const int64_t apart = stage.stride * stage.count;
    for (int64_t p = 0; p < stage.count; ++p) {
      const std::complex<R>* const twiddles = stage.twiddles.data() + p * (kRadix - 1);
      for (int64_t q = 0; q < stage.stride; ++q) {
        Element a[kRadix];
        for (int k = 0; k < kRadix; ++k) a[k] = x[p * stage.stride + q + k * apart];
        if constexpr (kRadix == 2) Transform2(a);
        if constexpr (kRadix == 3) Transform3(a);
        if constexpr (kRadix == 4) Transform4(a);
        if constexpr (kRadix == 5) Transform5(a);
        Element* const to = y + p * stage.stride * kRadix + q;
        to[0] = a[0];
        if (p == 0) {  // The factors are 1.
          for (int k = 1; k < kRadix; ++k) to[k * stage.stride] = a[k];
        } else {
          for (int k = 1; k < kRadix; ++k) to[k * stage.stride] = Times(a[k], twiddles[k - 1]);
        }
      }
    }
  }

  // Of what is in x; the result is there, or in y, which is then returned.
  FORMWORK_ISA_INLINE static Element* RunStages(const std::vector<Stage>& stages, Element* x,
                                                Element* y) {
    for (const Stage& stage : stages) {
      switch (stage.radix) {
        case 2:
          RunStage<2>(stage, x, y);
          break;
        case 3:
          RunStage<3>(stage, x, y);
          break;
        case 4:
          RunStage<4>(stage, x, y);
          break;
        default:
          RunStage<5>(stage, x, y);
          break;
      }
      Element* const made = y;
      y = x;
      x = made;
    }
    return x;
  }

  // The first n elements of each line. An inverse transform is one with both parts exchanged, there
  // and back.
  FORMWORK_ISA_INLINE static LineCopy<R, kLines> CopyOf(R* const* line, int64_t lines, int64_t step,
                                                        bool exchange, Element* x) {
    R* const numbers = reinterpret_cast<R*>(x);
    return {line, lines, step, numbers + (exchange ? kLines : 0),
            numbers + (exchange ? 0 : kLines)};
  }

  FORMWORK_ISA_INLINE static void Scale(R by, int64_t n, Element* x) {
    for (int64_t i = 0; i < n; ++i) x[i] = Times(x[i], by);
  }

  // What splits the transform z of n numbers, of which each is two real ones, into that of 2n:
  // element k of n + 1.
  FORMWORK_ISA_INLINE static Element Split(const Element& a, const Element& b,
                                           const std::complex<R>& root) {
    const Element conjugate = {b.re, -b.im};
    const Element sum = Add(a, conjugate), rest = Times(Sub(a, conjugate), root);
    return {(sum.re + rest.im) * R(0.5), (sum.im - rest.re) * R(0.5)};
  }
};

// How lines are given to Run below.
enum class Form { kComplex, kFromReal, kToReal };

template <typename R>
struct Call {
  const LinesTransform<R>* transform;
  Form form;
  R* const* from;  // Is only read.
  int64_t from_step;
  R* const* to;
  int64_t to_step;
  int64_t lines;
  const std::complex<R>* roots;
  R* memory;
};

template <typename R, int kBytes>
struct RunLines : SideBySide<R, kBytes> {
  using Base = SideBySide<R, kBytes>;
  using typename Base::Element;

  FORMWORK_ISA_INLINE static void Run(const Call<R>* call) {
    const Call<R>& c = *call;
    const int64_t n = c.transform->length();
    const bool inverse = c.transform->inverse();
    Element* const x = reinterpret_cast<Element*>(c.memory);
    Element* const y = x + n + 1;
    if (c.form == Form::kToReal) {
      Base::CopyOf(c.from, c.lines, c.from_step, /*exchange=*/false, y)
          .template Elements<true>(n + 1);
      // The first and the last are real; and the parts are exchanged, as of any inverse.
      y[0].im = y[n].im = typename Base::Vector{};
      for (int64_t k = 0; k < n; ++k) {
        const std::complex<R> root(c.roots[k].real(), -c.roots[k].imag());
        const Element conjugate = {y[n - k].re, -y[n - k].im};
        const Element sum = Base::Add(y[k], conjugate);
        const Element rest = Base::Times(Base::Sub(y[k], conjugate), root);
        x[k] = {(sum.im + rest.re) * R(0.5), (sum.re - rest.im) * R(0.5)};
      }
    } else {
      Base::CopyOf(c.from, c.lines, c.from_step, inverse, x).template Elements<true>(n);
    }
    Element* const made = Base::RunStages(c.transform->stages(), x, y);
    if (inverse) Base::Scale(R(1) / static_cast<R>(n), n, made);
    if (c.form != Form::kFromReal) {
      Base::CopyOf(c.to, c.lines, c.to_step, inverse, made).template Elements<false>(n);
      return;
    }
    Element* const split = made == x ? y : x;
    for (int64_t k = 0; k <= n; ++k) {
      split[k] = Base::Split(made[k == n ? 0 : k], made[k == 0 ? 0 : n - k], c.roots[k]);
    }
    Base::CopyOf(c.to, c.lines, c.to_step, /*exchange=*/false, split)
        .template Elements<false>(n + 1);
  }
};

template <typename R>
void RunCall(const Call<R>& call) {
  if (HostIsa() == Isa::kAvx512) return isa_internal::RunAvx512<RunLines<R, 64>>(&call);
  ForHostIsa<RunLines<R, 32>>(&call);
}

// Where lines begin, as numbers.
template <typename R, typename T>
R* const* Numbers(absl::Span<T* const> lines) {
  return reinterpret_cast<R* const*>(const_cast<std::remove_const_t<T>* const*>(lines.data()));
}

}  // namespace

template <typename R>
int64_t LinesTransform<R>::Lines() {
  return VectorBytes() / static_cast<int64_t>(sizeof(R));
}

template <typename R>
bool LinesTransform<R>::Takes(int64_t n, int64_t lines) {
  if (n < 2 || lines < kLeastLines || n * 4 * VectorBytes() > kMostBytes) return false;
  for (const int64_t p : {2, 3, 5}) {
    while (n % p == 0) n /= p;
  }
  return n == 1;
}

template <typename R>
LinesTransform<R>::LinesTransform(int64_t n, bool inverse) : n_(n), inverse_(inverse) {
  std::vector<std::complex<double>> roots(static_cast<size_t>(n));
  for (int64_t k = 0; k <= n / 2; ++k) {
    roots[k] = UnitRoot(k, n);
    if (k > 0) roots[n - k] = std::conj(roots[k]);
  }
  int64_t stride = 1;
  for (int64_t left = n; left > 1;) {
    Stage stage{};
    stage.radix = left % 4 == 0 ? 4 : left % 2 == 0 ? 2 : left % 3 == 0 ? 3 : 5;
    stage.count = left / stage.radix;
    stage.stride = stride;
    for (int64_t p = 0; p < stage.count; ++p) {
      for (int64_t k = 1; k < stage.radix; ++k) {
        stage.twiddles.push_back(static_cast<std::complex<R>>(roots[p * k * stride]));
      }
    }
    left = stage.count;
    stride *= stage.radix;
    stages_.push_back(std::move(stage));
  }
}

template <typename R>
LinesTransform<R>::Memory::Memory(const LinesTransform& of)
    : buffer_(static_cast<size_t>(4 * (of.n_ + 1) * Lines()) + 64 / sizeof(R)) {
  const auto begin = reinterpret_cast<uintptr_t>(buffer_.data());
  parts_ = buffer_.data() + (-begin % 64) / sizeof(R);
}

template <typename R>
void LinesTransform<R>::Run(absl::Span<const std::complex<R>* const> from, int64_t from_step,
                            absl::Span<std::complex<R>* const> to, int64_t to_step,
                            Memory& memory) const {
  RunCall<R>({this, Form::kComplex, Numbers<R>(from), from_step, Numbers<R>(to), to_step,
              static_cast<int64_t>(from.size()), nullptr, memory.parts_});
}

template <typename R>
void LinesTransform<R>::RunReal(absl::Span<const R* const> from,
                                absl::Span<std::complex<R>* const> to,
                                absl::Span<const std::complex<R>> roots, Memory& memory) const {
  RunCall<R>({this, Form::kFromReal, Numbers<R>(from), 1, Numbers<R>(to), 1,
              static_cast<int64_t>(from.size()), roots.data(), memory.parts_});
}

template <typename R>
void LinesTransform<R>::RunToReal(absl::Span<const std::complex<R>* const> from,
                                  absl::Span<R* const> to, absl::Span<const std::complex<R>> roots,
                                  Memory& memory) const {
  RunCall<R>({this, Form::kToReal, Numbers<R>(from), 1, Numbers<R>(to), 1,
              static_cast<int64_t>(from.size()), roots.data(), memory.parts_});
}

template class LinesTransform<float>;
template class LinesTransform<double>;

}  // namespace formwork
