#include "core/kernels/conv/onednn_run.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/first_error.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/conv/scratch.h"
#include "core/kernels/gemm/bfloat_gemm.h"
#include "core/kernels/widen.h"

namespace formwork {
namespace {

// Up to here a primitive's first compilation costs more than thousands of runs would win; in
// bfloat16, which else goes through float, more than some hundred.
double SmallWork(DType dtype) { return dtype == DType::kBfloat16 ? 1 << 18 : 1 << 14; }
// Worth a task of its own: about 17 us. Two cost 3 us more than their halves.
double TaskWork(DType dtype) { return dtype == DType::kBfloat16 ? 1 << 22 : 3 << 18; }
// Between two looks at the StopFlag: about 20 ms.
double LongWork(DType dtype) { return dtype == DType::kBfloat16 ? 1LL << 32 : 1 << 30; }
constexpr int64_t kAddGrain = 1 << 16;  // Elements worth a task when they are only added.

/// A part of a problem that is a problem itself, over a part of the same tensors.
struct Piece {
  OnednnConvShape shape;
  int64_t input_offset = 0;
  int64_t output_offset = 0;
};

int64_t PiecesWanted(const OnednnConvShape& shape) {
  auto times = [&](double work) {
    return static_cast<int64_t>(std::min(shape.work() / work, double{1 << 20}));
  };
  const int64_t tasks = times(TaskWork(shape.dtype));
  const int64_t stops = times(LongWork(shape.dtype)) + 1;
  return std::max(std::clamp<int64_t>(tasks, 1, ParallelThreads()), stops);
}

std::vector<Piece> SplitByBatch(const OnednnConvShape& shape, int64_t pieces) {
  pieces = std::min(pieces, shape.batch);
  std::vector<Piece> split;
  int64_t begin = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t end = shape.batch * (i + 1) / pieces;
    Piece piece{shape};
    piece.shape.batch = end - begin;
    piece.input_offset = begin * (shape.input_elements() / shape.batch);
    piece.output_offset = begin * (shape.output_elements() / shape.batch);
    split.push_back(piece);
    begin = end;
  }
  return split;
}

/// Each image by rows of its output, each volume by planes, channels last; empty where a piece
/// would see nothing but padding.
std::vector<Piece> SplitByRows(const OnednnConvShape& shape, int64_t pieces) {
  const ConvAxis& rows = shape.axes()[0];
  const int64_t effective = (rows.taps - 1) * rows.dilation + 1;
  const int64_t input_row = shape.input_elements() / shape.batch / rows.input;
  const int64_t output_row = shape.output_elements() / shape.batch / rows.output;
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
      Piece piece{shape};
      piece.shape.batch = 1;
      ConvAxis& part = piece.shape.all_axes[0];
      part.input = to - from;
      part.output = end - begin;
      part.pad_before = from - first;
      part.pad_after = last - to;
      piece.input_offset = (n * rows.input + from) * input_row;
      piece.output_offset = (n * rows.output + begin) * output_row;
      split.push_back(piece);
      begin = end;
    }
  }
  return split;
}

/// By rows where images are long, or where there is only one and `one_by_rows`.
std::vector<Piece> Split(const OnednnConvShape& shape, bool one_by_rows) {
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

// The element at `offset` of a tensor of the shape's dtype.
const char* At(const Tensor& tensor, int64_t offset) {
  return static_cast<const char*>(tensor.raw()) +
         offset * static_cast<int64_t>(DTypeSize(tensor.dtype()));
}
char* MutableAt(Tensor* tensor, int64_t offset) {
  return static_cast<char*>(tensor->mutable_raw()) +
         offset * static_cast<int64_t>(DTypeSize(tensor->dtype()));
}

// Without a message, which would be allocated in each call: nobody reads it.
absl::Status NotForOnednn() { return {absl::StatusCode::kUnimplemented, ""}; }

}  // namespace

bool IsForOnednn(const OnednnConvShape& shape) {
  const bool has =
      shape.dtype == DType::kFloat || (shape.dtype == DType::kBfloat16 && HasBfloatProducts());
  return has && shape.work() > SmallWork(shape.dtype);
}

bool HasLongImages(const OnednnConvShape& shape) {
  return IsForOnednn(shape) &&
         shape.work() > LongWork(shape.dtype) * static_cast<double>(shape.batch);
}

absl::Status OnednnForward(const OnednnConvShape& shape, const Tensor& input, const Tensor& filter,
                           const EpilogueOperands& epilogue, PackedFilterMemo& memo, bool keep,
                           Allocator& allocator, Tensor* output) {
  if (!IsForOnednn(shape)) return NotForOnednn();
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
  const float* bias = epilogue.bias_data();
  if (epilogue.residual != nullptr) PutResidual(*epilogue.residual, output->mutable_data<float>());
  return RunPieces(compiled, 0, compiled.size(), allocator, [&](int64_t i, void* scratch) {
    return compiled[i]->Forward(At(input, pieces[i].input_offset), packed[i].raw(), bias,
                                MutableAt(output, pieces[i].output_offset), scratch);
  });
}

absl::Status OnednnInputGradient(const OnednnConvShape& shape, const Tensor& filter,
                                 const Tensor& out_backprop, Allocator& allocator,
                                 Tensor* in_backprop) {
  if (!IsForOnednn(shape)) return NotForOnednn();
  const std::vector<Piece> pieces = Split(shape, /*one_by_rows=*/false);
  const bool whole_images = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return piece.shape.axes()[0] == shape.axes()[0];
  });
  // Shares are added as floats.
  if (!whole_images && shape.dtype != DType::kFloat) {
    return NotForOnednn();
  }
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
  if (whole_images) {
    return RunPieces(compiled, 0, compiled.size(), allocator, [&](int64_t i, void* scratch) {
      return compiled[i]->InputGradient(packed[i].raw(), At(out_backprop, pieces[i].output_offset),
                                        MutableAt(in_backprop, pieces[i].input_offset), scratch);
    });
  }
  // Rows of the input that two pieces look at get a share from each: images are added to in turn.
  return AddPieces(
      pieces, compiled, allocator, in_backprop->mutable_data<float>(), shape.input_elements(),
      [](const Piece& piece) { return piece.shape.input_elements(); },
      [](const Piece& piece) { return piece.input_offset; },
      [&](int64_t i, float* part, void* scratch) {
        return compiled[i]->InputGradient(packed[i].raw(),
                                          At(out_backprop, pieces[i].output_offset), part, scratch);
      });
}

absl::Status OnednnFilterGradient(const OnednnConvShape& shape, const Tensor& input,
                                  const Tensor& out_backprop, Allocator& allocator,
                                  Tensor* filter_backprop) {
  if (!IsForOnednn(shape)) return NotForOnednn();
  const std::vector<Piece> pieces = Split(shape, /*one_by_rows=*/false);
  FORMWORK_ASSIGN_OR_RETURN(const auto compiled,
                            CompilePieces(pieces, ConvDirection::kFilterGradient));
  const int64_t elements = shape.filter_elements();
  const bool wide = shape.dtype == DType::kFloat;
  Tensor sums;
  if (!wide) {
    FORMWORK_ASSIGN_OR_RETURN(sums, Scratch(allocator, DType::kFloat, elements));
  }
  float* sum = wide ? filter_backprop->mutable_data<float>() : sums.mutable_data<float>();
  FORMWORK_RETURN_IF_ERROR(AddPieces(
      pieces, compiled, allocator, sum, elements, [elements](const Piece&) { return elements; },
      [](const Piece&) { return int64_t{0}; },
      [&](int64_t i, float* part, void* scratch) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(
            Tensor packed, Scratch(allocator, DType::kUint8,
                                   static_cast<int64_t>(compiled[i]->packed_filter_bytes())));
        FORMWORK_RETURN_IF_ERROR(compiled[i]->FilterGradient(
            At(input, pieces[i].input_offset), At(out_backprop, pieces[i].output_offset),
            packed.mutable_raw(), scratch));
        return compiled[i]->UnpackFilter(packed.raw(), part);
      }));
  if (!wide) NarrowTo(shape.dtype, sum, elements, filter_backprop->mutable_raw());
  return absl::OkStatus();
}

}  // namespace formwork
