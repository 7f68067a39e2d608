#include "core/kernels/reduction/reduced_program.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/parallel.h"
#include "core/base/status.h"

namespace formwork {
namespace {

// Elements that are made before they are reduced: whole blocks of both, and so few that they stay
// in the second-level cache, of several values too.
constexpr int64_t kPiece = 8 * kBlockElements;
static_assert(kPiece % RowReduction::kBlock == 0);

std::vector<uint16_t> WithReduced(std::vector<uint16_t> outputs,
                                  const std::vector<ReducedProgram::Item>& items) {
  for (const ReducedProgram::Item& item : items) {
    if (std::find(outputs.begin(), outputs.end(), item.value) == outputs.end()) {
      outputs.push_back(item.value);
    }
  }
  return outputs;
}

// How `dims` are reduced, where it is along trailing ones.
std::optional<ReduceExtent> RowsOf(absl::Span<const int64_t> dims,
                                   absl::Span<const ReductionGeometry> geometries) {
  std::optional<ReduceExtent> rows;
  for (const ReductionGeometry& geometry : geometries) {
    const DimGroups groups = GroupDims(dims, geometry.reduced);
    if (groups.empty() || groups.size() > 2 || !groups.back().reduced) return std::nullopt;
    const ReduceExtent extent = ExtentOf(groups);
    if (rows.has_value() && rows->reduced != extent.reduced) return std::nullopt;
    rows = extent;
  }
  return rows;
}

}  // namespace

ReducedProgram::ReducedProgram(std::vector<DType> input_dtypes,
                               std::vector<ElementwiseProgram::Instruction> instructions,
                               std::vector<uint16_t> outputs, std::vector<Item> items)
    : num_wanted_(outputs.size()),
      items_(std::move(items)),
      outputs_(WithReduced(std::move(outputs), items_)),
      program_(std::move(input_dtypes), std::move(instructions), outputs_) {
  for (const Item& item : items_) {
    const auto found = std::find(outputs_.begin(), outputs_.end(), item.value);
    output_of_.push_back(static_cast<size_t>(found - outputs_.begin()));
  }
}

// One run over rows. A piece is some rows or, of long rows, a part of one.
class ReducedProgram::Rows {
 public:
  Rows(const ReducedProgram& reduced, const KernelContext& ctx, const Shape& shape,
       const ReduceExtent& extent)
      : reduced_(reduced),
        extent_(extent),
        blocks_(RowReduction::BlocksOf(extent.reduced)),
        split_(extent.reduced > kPiece),
        rows_in_piece_(split_ ? 1 : std::min(extent.outer, kPiece / extent.reduced)),
        pieces_in_row_(split_ ? (extent.reduced + kPiece - 1) / kPiece : 1),
        call_(reduced.program_, ctx, shape) {}

  absl::Status Run(KernelContext& ctx, absl::Span<const ReductionGeometry> geometries) {
    const size_t num_wanted = reduced_.num_wanted_;
    for (size_t k = 0; k < num_wanted; ++k) {
      FORMWORK_ASSIGN_OR_RETURN(char* const output, call_.MakeOutput(ctx, k));
      wanted_.push_back(output);
    }
    for (size_t j = 0; j < reduced_.items_.size(); ++j) {
      FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometries[j].output));
      FORMWORK_ASSIGN_OR_RETURN(
          Tensor * result,
          ctx.AllocateOutput(static_cast<int>(num_wanted + j),
                             reduced_.program_.dtype(reduced_.items_[j].value), shape));
      results_.push_back(result->mutable_data<char>());
      if (split_) {
        partials_.push_back(std::make_unique_for_overwrite<char[]>(
            static_cast<size_t>(extent_.outer * blocks_) * LoopsOf(j).partial_bytes));
      }
    }
    const int64_t pieces = (extent_.outer + rows_in_piece_ - 1) / rows_in_piece_ * pieces_in_row_;
    const int64_t elements = rows_in_piece_ * std::min(extent_.reduced, kPiece);
    ParallelFor(pieces, std::max<int64_t>(1, reduced_.program_.grain() / elements),
                [&](int64_t begin, int64_t end) { RunPieces(begin, end); });
    for (size_t j = 0; j < partials_.size(); ++j) {
      LoopsOf(j).finish(extent_, partials_[j].get(), results_[j]);
    }
    return absl::OkStatus();
  }

 private:
  const RowReduction& LoopsOf(size_t j) const { return reduced_.items_[j].loops->rows; }
  size_t WidthOf(size_t k) const {
    return DTypeSize(reduced_.program_.dtype(reduced_.outputs_[k]));
  }

  void RunPieces(int64_t begin, int64_t end) const {
    const size_t num_wanted = reduced_.num_wanted_;
    const std::vector<uint16_t>& outputs = reduced_.outputs_;
    const int64_t most = rows_in_piece_ * std::min(extent_.reduced, kPiece);
    ElementwiseProgram::Worker worker(call_);
    std::vector<std::unique_ptr<char[]>> scratch;
    for (size_t k = num_wanted; k < outputs.size(); ++k) {
      scratch.push_back(
          std::make_unique_for_overwrite<char[]>(static_cast<size_t>(most) * WidthOf(k)));
    }
    std::unique_ptr<char[]> partials;
    if (!split_) {
      size_t bytes = 0;
      for (size_t j = 0; j < reduced_.items_.size(); ++j) {
        bytes = std::max(bytes, LoopsOf(j).partial_bytes);
      }
      partials = std::make_unique_for_overwrite<char[]>(
          static_cast<size_t>(rows_in_piece_ * blocks_) * bytes);
    }
    absl::InlinedVector<char*, 8> to(outputs.size());
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t row = piece / pieces_in_row_ * rows_in_piece_;
      const int64_t rows = std::min(rows_in_piece_, extent_.outer - row);
      const int64_t at = piece % pieces_in_row_ * kPiece;
      const int64_t n = std::min(kPiece, extent_.reduced - at);
      const int64_t first = row * extent_.reduced + at;
      for (size_t k = 0; k < outputs.size(); ++k) {
        to[k] = k < num_wanted ? wanted_[k] + static_cast<size_t>(first) * WidthOf(k)
                               : scratch[k - num_wanted].get();
      }
      worker.Run(to, first, first + rows * n);
      for (size_t j = 0; j < reduced_.items_.size(); ++j) {
        const RowReduction& loops = LoopsOf(j);
        const char* const made = to[reduced_.output_of_[j]];
        if (split_) {
          const int64_t block = row * blocks_ + at / RowReduction::kBlock;
          loops.blocks(made, 1, n,
                       partials_[j].get() + static_cast<size_t>(block) * loops.partial_bytes);
          continue;
        }
        const size_t width = WidthOf(reduced_.output_of_[j]);
        loops.blocks(made, rows, n, partials.get());
        loops.finish({rows, n, 1}, partials.get(), results_[j] + static_cast<size_t>(row) * width);
      }
    }
  }

  const ReducedProgram& reduced_;
  const ReduceExtent extent_;
  const int64_t blocks_;  // Of a row.
  const bool split_;      // Whether a row is several pieces.
  const int64_t rows_in_piece_, pieces_in_row_;
  const ElementwiseProgram::Call call_;
  absl::InlinedVector<char*, 4> wanted_, results_;
  std::vector<std::unique_ptr<char[]>> partials_;  // By item, of rows that are several pieces.
};

absl::StatusOr<bool> ReducedProgram::Run(KernelContext& ctx) const {
  std::optional<Shape> shape;
  FORMWORK_ASSIGN_OR_RETURN(shape, program_.CommonShape(ctx));
  if (!shape.has_value()) return false;
  absl::InlinedVector<ReductionGeometry, 2> geometries;
  for (const Item& item : items_) {
    FORMWORK_ASSIGN_OR_RETURN(geometries.emplace_back(),
                              PrepareReduction(item.attrs, shape->dims(), ctx.input(item.axes)));
  }
  std::optional<ReduceExtent> extent;
  if (shape->num_elements() >= kFewElements) extent = RowsOf(shape->dims(), geometries);
  if (!extent.has_value() || extent->reduced < kFewInRow) return RunWhole(ctx, geometries);
  FORMWORK_RETURN_IF_ERROR(Rows(*this, ctx, *shape, *extent).Run(ctx, geometries));
  return true;
}

absl::StatusOr<bool> ReducedProgram::RunWhole(
    KernelContext& ctx, absl::Span<const ReductionGeometry> geometries) const {
  absl::InlinedVector<InputRef, 16> inputs;
  for (size_t i = 0; i < program_.num_inputs(); ++i) {
    const int k = static_cast<int>(i);
    inputs.push_back({&ctx.input(k), ctx.CanOverwrite(k)});
  }
  std::vector<Tensor> values(outputs_.size());
  KernelContext inner(ctx.call(), inputs, absl::MakeSpan(values));
  FORMWORK_ASSIGN_OR_RETURN(const bool done, program_.Run(inner));
  if (!done) return false;
  for (size_t j = 0; j < items_.size(); ++j) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor result, Reduce(ctx.allocator(), items_[j].loops->whole,
                                                    values[output_of_[j]], geometries[j]));
    ctx.SetOutput(static_cast<int>(num_wanted_ + j), std::move(result));
  }
  for (size_t k = 0; k < num_wanted_; ++k) {
    ctx.SetOutput(static_cast<int>(k), std::move(values[k]));
  }
  return true;
}

}  // namespace formwork
