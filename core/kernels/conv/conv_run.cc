#include "core/kernels/conv/conv_run.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/conv/conv_gemm.h"
#include "core/kernels/conv/conv_panels.h"
#include "core/kernels/conv/conv_winograd.h"
#include "core/kernels/conv/in_float.h"
#include "core/kernels/elements.h"

namespace formwork {
namespace {

// Up to here a primitive's first compilation costs more than thousands of runs would win.
constexpr double kSmallWork = 1 << 14;
// Worth a task of its own: about 17 us. Two cost 3 us more than their halves.
constexpr double kTaskWork = 3 << 18;
// Between two looks at the StopFlag: about 20 ms.
constexpr double kLongWork = 1 << 30;
constexpr int64_t kAddGrain = 1 << 16;  // Elements worth a task when they are only added.

absl::StatusOr<Tensor> Scratch(Allocator& allocator, DType dtype, int64_t elements) {
  // At least as much as lies outside of the Tensor itself, aligned.
  return Tensor::Allocate(allocator, dtype, Shape({std::max<int64_t>(elements, 64)}));
}

// ---- Matrix products ----

template <typename T>
absl::Status GemmForward(const ConvShape& shape, const Tensor& input, const Tensor& filter,
                         Allocator& allocator, Tensor* output) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor scratch,
                            Scratch(allocator, output->dtype(), ConvGemmScratch(shape)));
  ConvGemmForward(shape, input.data<T>(), filter.data<T>(), output->mutable_data<T>(),
                  scratch.mutable_data<T>());
  return absl::OkStatus();
}

// In memory of its own before the epilogue, whose residual may be in the output's.
absl::Status GemmForwardWithEpilogue(const ConvShape& shape, const Tensor& input,
                                     const Tensor& filter, const EpilogueOperands& epilogue,
                                     Allocator& allocator, Tensor* output) {
  Tensor scaled = filter;
  if (epilogue.scale != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(scaled, ScaledFilter(filter, *epilogue.scale, allocator));
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor product,
                            Tensor::Allocate(allocator, DType::kFloat, output->shape()));
  FORMWORK_RETURN_IF_ERROR(GemmForward<float>(shape, input, scaled, allocator, &product));
  RunEpilogue(epilogue, shape.output_elements() / shape.out_channels, shape.out_channels,
              product.data<float>(), output->mutable_data<float>());
  return absl::OkStatus();
}

template <typename T>
absl::Status GemmInputGradient(const ConvShape& shape, const Tensor& filter,
                               const Tensor& out_backprop, Allocator& allocator,
                               Tensor* in_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor scratch,
                            Scratch(allocator, in_backprop->dtype(), ConvGemmScratch(shape)));
  ConvGemmInputGradient(shape, filter.data<T>(), out_backprop.data<T>(),
                        in_backprop->mutable_data<T>(), scratch.mutable_data<T>());
  return absl::OkStatus();
}

template <typename T>
absl::Status GemmFilterGradient(const ConvShape& shape, const Tensor& input,
                                const Tensor& out_backprop, Allocator& allocator,
                                Tensor* filter_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor scratch,
                            Scratch(allocator, filter_backprop->dtype(), ConvGemmScratch(shape)));
  ConvGemmFilterGradient(shape, input.data<T>(), out_backprop.data<T>(),
                         filter_backprop->mutable_data<T>(), scratch.mutable_data<T>());
  return absl::OkStatus();
}

// ---- oneDNN ----

/// A part of a problem that is a problem itself, over a part of the same tensors.
struct Piece {
  ConvShape shape;
  int64_t input_offset = 0;
  int64_t output_offset = 0;
};

int64_t PiecesWanted(const ConvShape& shape) {
  const auto tasks = static_cast<int64_t>(std::min(shape.work() / kTaskWork, double{1 << 20}));
  const auto stops = static_cast<int64_t>(std::min(shape.work() / kLongWork, double{1 << 20})) + 1;
  return std::max(std::clamp<int64_t>(tasks, 1, ParallelThreads()), stops);
}

/// True where one image alone is to be split.
bool HasLongImages(const ConvShape& shape) {
  return shape.work() > kLongWork * static_cast<double>(shape.batch);
}

std::vector<Piece> SplitByBatch(const ConvShape& shape, int64_t pieces) {
  pieces = std::min(pieces, shape.batch);
  std::vector<Piece> split;
  int64_t begin = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t end = shape.batch * (i + 1) / pieces;
    Piece piece;
    piece.shape = shape;
    piece.shape.batch = end - begin;
    piece.input_offset = begin * (shape.input_elements() / shape.batch);
    piece.output_offset = begin * (shape.output_elements() / shape.batch);
    split.push_back(piece);
    begin = end;
  }
  return split;
}

/// Each image by rows of its output, channels last; empty where a piece would see nothing but
/// padding.
std::vector<Piece> SplitByRows(const ConvShape& shape, int64_t pieces) {
  const ConvAxis& rows = shape.rows;
  const int64_t effective = (rows.taps - 1) * rows.dilation + 1;
  pieces = std::min(pieces, rows.output);
  std::vector<Piece> split;
  for (int64_t n = 0; n < shape.batch; ++n) {
    int64_t begin = 0;
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t end = rows.output * (i + 1) / pieces;
      const int64_t first = begin * rows.stride - rows.pad_before;
      const int64_t last = (end - 1) * rows.stride - rows.pad_before + effective;
      const int64_t from = std::max<int64_t>(first, 0);
      const int64_t to = std::min(last, rows.input);
      if (to <= from) return {};
      Piece piece;
      piece.shape = shape;
      piece.shape.batch = 1;
      piece.shape.rows.input = to - from;
      piece.shape.rows.output = end - begin;
      piece.shape.rows.pad_before = from - first;
      piece.shape.rows.pad_after = last - to;
      piece.input_offset = (n * rows.input + from) * shape.cols.input * shape.in_channels;
      piece.output_offset = (n * rows.output + begin) * shape.cols.output * shape.out_channels;
      split.push_back(piece);
      begin = end;
    }
  }
  return split;
}

/// By rows where images are long, or where there is only one and `one_by_rows`.
std::vector<Piece> Split(const ConvShape& shape, bool one_by_rows) {
  const int64_t wanted = PiecesWanted(shape);
  const bool by_rows = HasLongImages(shape) || (one_by_rows && shape.batch == 1);
  if (by_rows && wanted > 1 && !shape.channels_first) {
    std::vector<Piece> rows = SplitByRows(shape, (wanted + shape.batch - 1) / shape.batch);
    if (!rows.empty()) return rows;
  }
  return SplitByBatch(shape, wanted);
}

/// Compiles all pieces. Not all the same size, but most.
absl::StatusOr<std::vector<std::shared_ptr<const OnednnConv>>> CompilePieces(
    const std::vector<Piece>& pieces, ConvDirection direction, const Epilogue& epilogue = {}) {
  std::vector<std::shared_ptr<const OnednnConv>> compiled;
  compiled.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    if (!compiled.empty() && piece.shape == pieces[compiled.size() - 1].shape) {
      compiled.push_back(compiled.back());
      continue;
    }
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<const OnednnConv> conv,
                              OnednnConv::Get(piece.shape, direction, epilogue));
    compiled.push_back(std::move(conv));
  }
  return compiled;
}

/// Runs body(piece index, scratch) for the pieces [first, last) side by side.
template <typename Body>
absl::Status RunPieces(const std::vector<std::shared_ptr<const OnednnConv>>& compiled, size_t first,
                       size_t last, Allocator& allocator, Body body) {
  FirstError error;
  ParallelFor(static_cast<int64_t>(last - first), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = static_cast<int64_t>(first) + begin; i < static_cast<int64_t>(first) + end;
         ++i) {
      if (WorkIsCut()) return;
      const int64_t bytes = static_cast<int64_t>(compiled[i]->scratch_bytes());
      Tensor scratch;
      if (bytes > 0) {
        absl::StatusOr<Tensor> allocated = Scratch(allocator, DType::kUint8, bytes);
        if (!allocated.ok()) {
          error.Note(allocated.status());
          continue;
        }
        scratch = *std::move(allocated);
      }
      error.Note(body(i, bytes > 0 ? scratch.mutable_raw() : nullptr));
    }
  });
  return error.Take();
}

/// total[0, elements) = the sum of what the pieces give. Each has a part of its own, `size(piece)`
/// elements that belong at `offset(piece)`, filled by run(piece index, part, scratch); as many as
/// there are threads run side by side, and are added in order, so that the result is the same in
/// every run.
template <typename Size, typename Offset, typename Run>
absl::Status AddPieces(const std::vector<Piece>& pieces,
                       const std::vector<std::shared_ptr<const OnednnConv>>& compiled,
                       Allocator& allocator, float* total, int64_t elements, Size size,
                       Offset offset, Run run) {
  // One that covers everything needs no part of its own, nor zeros below.
  const bool direct = size(pieces[0]) == elements;
  if (!direct) {
    ParallelFor(elements, kAddGrain,
                [&](int64_t begin, int64_t end) { std::fill(total + begin, total + end, 0.0f); });
  }
  const size_t wave = static_cast<size_t>(ParallelThreads());
  std::vector<Tensor> parts(std::min(wave, pieces.size()));
  int64_t largest = 0;
  for (const Piece& piece : pieces) largest = std::max(largest, size(piece));
  for (size_t i = direct && pieces.size() <= wave ? 1 : 0; i < parts.size(); ++i) {
    FORMWORK_ASSIGN_OR_RETURN(parts[i], Scratch(allocator, DType::kFloat, largest));
  }
  for (size_t first = 0; first < pieces.size(); first += wave) {
    const size_t end = std::min(first + wave, pieces.size());
    FORMWORK_RETURN_IF_ERROR(
        RunPieces(compiled, first, end, allocator, [&](int64_t i, void* scratch) {
          if (direct && i == 0) return run(i, total, scratch);
          return run(i, parts[i - first].template mutable_data<float>(), scratch);
        }));
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    for (size_t i = direct && first == 0 ? 1 : first; i < end; ++i) {
      const float* part = parts[i - first].template data<float>();
      float* to = total + offset(pieces[i]);
      ParallelFor(size(pieces[i]), kAddGrain, [&](int64_t b, int64_t e) {
        for (int64_t k = b; k < e; ++k) to[k] += part[k];
      });
    }
  }
  return absl::OkStatus();
}

// Where oneDNN adds to it.
void PutResidual(const Tensor& residual, float* output) {
  const float* from = residual.data<float>();
  if (from == output) return;
  ParallelFor(residual.num_elements(), kAddGrain, [&](int64_t begin, int64_t end) {
    std::copy(from + begin, from + end, output + begin);
  });
}

absl::Status OnednnForward(const ConvShape& shape, const Tensor& input, const Tensor& filter,
                           const EpilogueOperands& epilogue, PackedFilterMemo& memo, bool keep,
                           Allocator& allocator, Tensor* output) {
  const std::vector<Piece> pieces = Split(shape, /*one_by_rows=*/true);
  Epilogue steps = epilogue.steps;
  steps.scale = false;  // It is in the filter.
  FORMWORK_ASSIGN_OR_RETURN(const auto compiled,
                            CompilePieces(pieces, ConvDirection::kForward, steps));
  // Pieces of another size may want another form of the filter.
  std::vector<Tensor> packed(pieces.size());
  FORMWORK_ASSIGN_OR_RETURN(packed[0],
                            memo.Get(filter, epilogue.scale, keep, {compiled[0]}, allocator));
  for (size_t i = 1; i < pieces.size(); ++i) {
    if (compiled[i]->SamePacking(*compiled[0])) {
      packed[i] = packed[0];
    } else {
      FORMWORK_ASSIGN_OR_RETURN(packed[i],
                                PackFilter(filter, epilogue.scale, {compiled[i]}, allocator));
    }
  }
  const float* from = input.data<float>();
  float* to = output->mutable_data<float>();
  const float* bias = epilogue.bias == nullptr ? nullptr : epilogue.bias->data<float>();
  if (epilogue.residual != nullptr) PutResidual(*epilogue.residual, to);
  return RunPieces(compiled, 0, compiled.size(), allocator, [&](int64_t i, void* scratch) {
    return compiled[i]->Forward(from + pieces[i].input_offset, packed[i].raw(), bias,
                                to + pieces[i].output_offset, scratch);
  });
}

absl::Status OnednnInputGradient(const ConvShape& shape, const Tensor& filter,
                                 const Tensor& out_backprop, Allocator& allocator,
                                 Tensor* in_backprop) {
  const std::vector<Piece> pieces = Split(shape, /*one_by_rows=*/false);
  FORMWORK_ASSIGN_OR_RETURN(const auto compiled,
                            CompilePieces(pieces, ConvDirection::kInputGradient));
  std::vector<Tensor> packed(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && compiled[i]->SamePacking(*compiled[0])) {
      packed[i] = packed[0];
    } else {
      FORMWORK_ASSIGN_OR_RETURN(packed[i], PackFilter(filter, nullptr, {compiled[i]}, allocator));
    }
  }
  const float* from = out_backprop.data<float>();
  float* to = in_backprop->mutable_data<float>();
  const bool whole_images = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return piece.shape.rows == shape.rows;
  });
  if (whole_images) {
    return RunPieces(compiled, 0, compiled.size(), allocator, [&](int64_t i, void* scratch) {
      return compiled[i]->InputGradient(packed[i].raw(), from + pieces[i].output_offset,
                                        to + pieces[i].input_offset, scratch);
    });
  }
  // Rows of the input that two pieces look at get a share from each: images are added to in turn.
  return AddPieces(
      pieces, compiled, allocator, to, shape.input_elements(),
      [](const Piece& piece) { return piece.shape.input_elements(); },
      [](const Piece& piece) { return piece.input_offset; },
      [&](int64_t i, float* part, void* scratch) {
        return compiled[i]->InputGradient(packed[i].raw(), from + pieces[i].output_offset, part,
                                          scratch);
      });
}

absl::Status OnednnFilterGradient(const ConvShape& shape, const Tensor& input,
                                  const Tensor& out_backprop, Allocator& allocator,
                                  Tensor* filter_backprop) {
  const std::vector<Piece> pieces = Split(shape, /*one_by_rows=*/false);
  FORMWORK_ASSIGN_OR_RETURN(const auto compiled,
                            CompilePieces(pieces, ConvDirection::kFilterGradient));
  const int64_t elements = shape.filter_elements();
  return AddPieces(
      pieces, compiled, allocator, filter_backprop->mutable_data<float>(), elements,
      [elements](const Piece&) { return elements; }, [](const Piece&) { return int64_t{0}; },
      [&](int64_t i, float* part, void* scratch) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(
            Tensor packed, Scratch(allocator, DType::kUint8,
                                   static_cast<int64_t>(compiled[i]->packed_filter_bytes())));
        FORMWORK_RETURN_IF_ERROR(compiled[i]->FilterGradient(
            input.data<float>() + pieces[i].input_offset,
            out_backprop.data<float>() + pieces[i].output_offset, packed.mutable_raw(), scratch));
        return compiled[i]->UnpackFilter(packed.raw(), part);
      });
}

// ---- Panels ----

absl::Status PanelsForward(const ConvShape& shape, bool winograd, const Tensor& input,
                           const Tensor& filter, const EpilogueOperands& epilogue,
                           PackedFilterMemo& memo, bool keep, Allocator& allocator,
                           Tensor* output) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Tensor packed,
      memo.Get(filter, epilogue.scale, keep, {.conv = nullptr, .winograd = winograd}, allocator));
  auto data = [](const Tensor* t) { return t == nullptr ? nullptr : t->data<float>(); };
  const auto* panels = static_cast<const float*>(packed.raw());
  const float* bias = data(epilogue.bias);
  const float* residual = data(epilogue.residual);
  const Activation activation = epilogue.steps.activation;
  if (winograd) {
    return ConvWinogradForward(shape, input.data<float>(), panels, bias, residual, activation,
                               allocator, output->mutable_data<float>());
  }
  ConvPanelsForward(shape, input.data<float>(), panels, bias, residual, activation,
                    output->mutable_data<float>());
  return absl::OkStatus();
}

// The gradient of a convolution's input as a convolution of the output's gradient, by the filter
// turned round with its channels swapped. Of a stride of 1.
ConvShape InputGradientAsForward(const ConvShape& shape) {
  auto turned = [](ConvAxis axis) {
    std::swap(axis.input, axis.output);
    axis.pad_before = axis.taps - 1 - axis.pad_before;
    axis.pad_after = axis.taps - 1 - axis.pad_after;
    return axis;
  };
  ConvShape forward = shape;
  std::swap(forward.in_channels, forward.out_channels);
  forward.rows = turned(shape.rows);
  forward.cols = turned(shape.cols);
  return forward;
}

absl::Status WinogradInputGradient(const ConvShape& forward, const Tensor& filter,
                                   const Tensor& out_backprop, Allocator& allocator,
                                   Tensor* in_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor turned,
                            Tensor::Allocate(allocator, DType::kFloat, filter.shape()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor panels,
                            Scratch(allocator, DType::kFloat,
                                    WinogradElements(forward.in_channels, forward.out_channels)));
  const int64_t taps = forward.rows.taps * forward.cols.taps;
  const int64_t matrix = forward.in_channels * forward.out_channels;
  for (int64_t t = 0; t < taps; ++t) {
    SwapInnerAxes(1, forward.out_channels, forward.in_channels, sizeof(float),
                  filter.data<float>() + (taps - 1 - t) * matrix,
                  turned.mutable_data<float>() + t * matrix);
  }
  WinogradFilter(forward.in_channels, forward.out_channels, turned.data<float>(),
                 panels.mutable_data<float>());
  return ConvWinogradForward(forward, out_backprop.data<float>(), panels.data<float>(),
                             /*bias=*/nullptr, /*residual=*/nullptr, Activation::kNone, allocator,
                             in_backprop->mutable_data<float>());
}

// ---- The choice ----

/// Runs `gemm` on tensors with channels last, whatever the shape's layout. `first` and `second` are
/// images or filters; filters stay as they are.
template <typename Gemm>
absl::Status WithChannelsLast(const ConvShape& shape, const Tensor& first, bool first_is_image,
                              const Tensor& second, bool second_is_image, bool result_is_image,
                              Allocator& allocator, Tensor* result, Gemm gemm) {
  if (!shape.channels_first) return gemm(shape, first, second, result);
  ConvShape last = shape;
  last.channels_first = false;
  Tensor a = first;
  Tensor b = second;
  if (first_is_image) {
    FORMWORK_ASSIGN_OR_RETURN(a, ToChannelsLast(first, allocator));
  }
  if (second_is_image) {
    FORMWORK_ASSIGN_OR_RETURN(b, ToChannelsLast(second, allocator));
  }
  if (!result_is_image) return gemm(last, a, b, result);
  const Shape& r = result->shape();
  FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Allocate(allocator, result->dtype(),
                                             Shape({r.dim(0), r.dim(2), r.dim(3), r.dim(1)})));
  FORMWORK_RETURN_IF_ERROR(gemm(last, a, b, &out));
  ToChannelsFirst(out, result->mutable_raw());
  return absl::OkStatus();
}

/// As it is, or with channels last where images are so long that they are to be split by rows.
template <typename Run>
absl::Status WithRowsToSplit(const ConvShape& shape, const Tensor& first, bool first_is_image,
                             const Tensor& second, bool second_is_image, bool result_is_image,
                             Allocator& allocator, Tensor* result, Run run) {
  if (!HasLongImages(shape)) return run(shape, first, second, result);
  return WithChannelsLast(shape, first, first_is_image, second, second_is_image, result_is_image,
                          allocator, result, run);
}

}  // namespace

absl::Status RunConvForward(const ConvShape& shape, const Tensor& input, const Tensor& filter,
                            const EpilogueOperands& epilogue, PackedFilterMemo& memo, bool keep,
                            Allocator& allocator, Tensor* output) {
  if (shape.output_elements() == 0) return absl::OkStatus();
  return InFloat(
      input, filter, allocator, output,
      [&](const Tensor& in, const Tensor& f, Tensor* out) -> absl::Status {
        const DType dtype = out->dtype();
        const bool large = dtype == DType::kFloat && shape.work() > kSmallWork;
        const Activation activation = epilogue.steps.activation;
        const bool winograd = large && ConvByWinograd(shape, activation);
        if (winograd || (large && ConvByPanels(shape, activation))) {
          return PanelsForward(shape, winograd, in, f, epilogue, memo, keep, allocator, out);
        }
        if (large) {
          const absl::Status status =
              WithRowsToSplit(shape, in, true, f, false, true, allocator, out,
                              [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) {
                                return OnednnForward(s, a, b, epilogue, memo, keep, allocator, r);
                              });
          if (status.code() != absl::StatusCode::kUnimplemented) return status;
        }
        if (!epilogue.steps.empty()) {
          return GemmForwardWithEpilogue(shape, in, f, epilogue, allocator, out);
        }
        return WithChannelsLast(
            shape, in, true, f, false, true, allocator, out,
            [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) -> absl::Status {
              if (dtype == DType::kDouble) return GemmForward<double>(s, a, b, allocator, r);
              if (dtype == DType::kInt32) return GemmForward<uint32_t>(s, a, b, allocator, r);
              return GemmForward<float>(s, a, b, allocator, r);
            });
      });
}

absl::Status RunConvInputGradient(const ConvShape& shape, const Tensor& filter,
                                  const Tensor& out_backprop, Allocator& allocator,
                                  Tensor* in_backprop) {
  if (shape.input_elements() == 0) return absl::OkStatus();
  return InFloat(
      filter, out_backprop, allocator, in_backprop,
      [&](const Tensor& f, const Tensor& dy, Tensor* dx) -> absl::Status {
        const DType dtype = dx->dtype();
        const ConvShape forward = InputGradientAsForward(shape);
        if (dtype == DType::kFloat && ConvByWinograd(forward, Activation::kNone)) {
          return WinogradInputGradient(forward, f, dy, allocator, dx);
        }
        if (dtype == DType::kFloat && shape.work() > kSmallWork) {
          const absl::Status status =
              WithRowsToSplit(shape, f, false, dy, true, true, allocator, dx,
                              [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) {
                                return OnednnInputGradient(s, a, b, allocator, r);
                              });
          if (status.code() != absl::StatusCode::kUnimplemented) return status;
        }
        return WithChannelsLast(
            shape, f, false, dy, true, true, allocator, dx,
            [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) -> absl::Status {
              if (dtype == DType::kDouble) return GemmInputGradient<double>(s, a, b, allocator, r);
              if (dtype == DType::kInt32) return GemmInputGradient<uint32_t>(s, a, b, allocator, r);
              return GemmInputGradient<float>(s, a, b, allocator, r);
            });
      });
}

absl::Status RunConvFilterGradient(const ConvShape& shape, const Tensor& input,
                                   const Tensor& out_backprop, Allocator& allocator,
                                   Tensor* filter_backprop) {
  if (shape.filter_elements() == 0) return absl::OkStatus();
  return InFloat(
      input, out_backprop, allocator, filter_backprop,
      [&](const Tensor& in, const Tensor& dy, Tensor* df) -> absl::Status {
        const DType dtype = df->dtype();
        if (dtype == DType::kFloat && FilterGradientByWinograd(shape)) {
          return WinogradFilterGradient(shape, in.data<float>(), dy.data<float>(), allocator,
                                        df->mutable_data<float>());
        }
        if (dtype == DType::kFloat && shape.work() > kSmallWork) {
          const absl::Status status =
              WithRowsToSplit(shape, in, true, dy, true, false, allocator, df,
                              [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) {
                                return OnednnFilterGradient(s, a, b, allocator, r);
                              });
          if (status.code() != absl::StatusCode::kUnimplemented) return status;
        }
        return WithChannelsLast(
            shape, in, true, dy, true, false, allocator, df,
            [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) -> absl::Status {
              if (dtype == DType::kDouble) return GemmFilterGradient<double>(s, a, b, allocator, r);
              return GemmFilterGradient<float>(s, a, b, allocator, r);
            });
      });
}

namespace {

template <typename E>
void SwapLoop(int64_t batch, int64_t a, int64_t b, const E* from, E* to) {
  constexpr int64_t kTile = 16;
  const int64_t stripes = (a + kTile - 1) / kTile;
  // Rows of tiles: a row of `a` read is a column written.
  ParallelFor(batch * stripes, std::max<int64_t>(1, 65536 / (kTile * std::max<int64_t>(b, 1))),
              [&](int64_t begin, int64_t end) {
                for (int64_t stripe = begin; stripe < end; ++stripe) {
                  const int64_t n = stripe / stripes;
                  const int64_t a0 = stripe % stripes * kTile;
                  const int64_t a1 = std::min(a0 + kTile, a);
                  const E* src = from + n * a * b;
                  E* dst = to + n * a * b;
                  for (int64_t b0 = 0; b0 < b; b0 += kTile) {
                    const int64_t b1 = std::min(b0 + kTile, b);
                    for (int64_t j = b0; j < b1; ++j) {
                      for (int64_t i = a0; i < a1; ++i) dst[j * a + i] = src[i * b + j];
                    }
                  }
                }
              });
}

}  // namespace

void SwapInnerAxes(int64_t batch, int64_t a, int64_t b, size_t element_bytes, const void* from,
                   void* to) {
  switch (element_bytes) {
    case 1:
      return SwapLoop(batch, a, b, static_cast<const Word1*>(from), static_cast<Word1*>(to));
    case 2:
      return SwapLoop(batch, a, b, static_cast<const Word2*>(from), static_cast<Word2*>(to));
    case 4:
      return SwapLoop(batch, a, b, static_cast<const Word4*>(from), static_cast<Word4*>(to));
    default:
      return SwapLoop(batch, a, b, static_cast<const Word8*>(from), static_cast<Word8*>(to));
  }
}

absl::StatusOr<Tensor> ToChannelsLast(const Tensor& image, Allocator& allocator) {
  const Shape& s = image.shape();
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor last,
      Tensor::Allocate(allocator, image.dtype(), Shape({s.dim(0), s.dim(2), s.dim(3), s.dim(1)})));
  if (image.num_elements() == 0) return last;
  SwapInnerAxes(s.dim(0), s.dim(1), s.dim(2) * s.dim(3), DTypeSize(image.dtype()), image.raw(),
                last.mutable_raw());
  return last;
}

void ToChannelsFirst(const Tensor& channels_last, void* to) {
  const Shape& s = channels_last.shape();
  if (s.num_elements() == 0) return;
  SwapInnerAxes(s.dim(0), s.dim(1) * s.dim(2), s.dim(3), DTypeSize(channels_last.dtype()),
                channels_last.raw(), to);
}

}  // namespace formwork
