// RaggedTensorToTensor: rows of values go to the places that their partitions give them.

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/index_values.h"
#include "core/kernels/ragged/ragged_cpu.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/dims.h"
#include "core/ops/ragged.h"

namespace formwork {
namespace {

constexpr int64_t kNowhere = -1;
// Rows of a ragged dimension, each with its place in the output, counted in rows of values. Those
// behind the places that are kept go nowhere.
struct Places {
  std::vector<int64_t> kept;
  int64_t count = 0;

  int64_t operator[](int64_t i) const {
    return i < static_cast<int64_t>(kept.size()) ? kept[static_cast<size_t>(i)] : kNowhere;
  }
};

int64_t LongestRun(const IndexValues& ids) {
  int64_t longest = 0;
  int64_t run = 0;
  for (int64_t i = 0; i < ids.size(); ++i) {
    if (WorkIsCutAt(i)) break;
    run = i > 0 && ids[i] == ids[i - 1] ? run + 1 : 1;
    longest = std::max(longest, run);
  }
  return longest;
}

int64_t LongestRow(const IndexValues& splits) {
  int64_t longest = 0;
  for (int64_t i = 1; i < splits.size(); ++i) {
    if (WorkIsCutAt(i)) break;
    longest = std::max(longest, splits[i] - splits[i - 1]);
  }
  return longest;
}

// The places of what `parents` hold: `step` rows apart, and nowhere behind the first `limit`.
absl::StatusOr<Places> PlaceBySplits(const IndexValues& splits, const Places& parents, int64_t step,
                                     int64_t limit, int64_t rows) {
  if (splits.size() - 1 > parents.count) {
    return InvalidArgument("Row partition size is greater than output size: ", splits.size() - 1,
                           " > ", parents.count);
  }
  Places places;
  for (int64_t i = 0; i + 1 < splits.size(); ++i) {
    const int64_t length = splits[i + 1] - splits[i];
    // So that values that are not there take no memory.
    if (length < 0 || splits[i + 1] > rows || splits[0] != 0) {
      return InvalidArgument("Invalid row split size.");
    }
    const int64_t parent = parents[i];
    for (int64_t k = 0; k < length; ++k) {
      if (WorkIsCutAt(splits[i] + k)) return WorkStatus();
      places.kept.push_back(parent == kNowhere || k >= limit ? kNowhere : parent + k * step);
    }
  }
  places.count = static_cast<int64_t>(places.kept.size());
  return places;
}

absl::StatusOr<Places> PlaceByIds(const IndexValues& ids, const Places& parents, int64_t step,
                                  int64_t limit) {
  Places places{std::vector<int64_t>(static_cast<size_t>(ids.size())), ids.size()};
  int64_t column = 0;
  for (int64_t i = 0; i < ids.size(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (ids[i] < 0 || ids[i] >= parents.count) {
      return InvalidArgument("Got ", i == 0 ? "current" : "next", "_value_rowid=", ids[i],
                             " which is not less than ", parents.count);
    }
    column = i > 0 && ids[i] == ids[i - 1] ? column + 1 : 0;
    const int64_t parent = parents[ids[i]];
    places.kept[static_cast<size_t>(i)] =
        parent == kNowhere || column >= limit ? kNowhere : parent + column * step;
  }
  return places;
}

// The default value for each of an element's components; itself where one serves all.
absl::StatusOr<Tensor> DefaultElement(Allocator& allocator, const Tensor& value,
                                      const Shape& element) {
  if (value.num_elements() == 1 || value.num_elements() == element.num_elements()) return value;
  FORMWORK_ASSIGN_OR_RETURN(Tensor spread, Tensor::Allocate(allocator, value.dtype(), element));
  CopyDims dims;
  const Dims from = RowMajorStrides(value.shape());
  const Dims to = RowMajorStrides(element);
  const int missing = element.rank() - value.rank();
  for (int d = 0; d < element.rank(); ++d) {
    const bool repeats = d < missing || value.dim(d - missing) == 1;
    dims.push_back({element.dim(d), repeats ? 0 : from[static_cast<size_t>(d - missing)],
                    to[static_cast<size_t>(d)]});
  }
  CopyStrided(value.dtype(), value.raw(), spread.mutable_raw(), dims);
  return spread;
}

template <typename E>
void FillRows(const Tensor& value, int64_t rows, int64_t width, Tensor& out) {
  if (value.num_elements() == 1) {
    return FillElements(out.dtype(), value.raw(), rows * width, out.mutable_raw());
  }
  const E* from = static_cast<const E*>(value.raw());
  E* to = static_cast<E*>(out.mutable_raw());
  ParallelFor(rows, std::max<int64_t>(MoveGrain<E>() / width, 1), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) CopyElements(from, width, to + r * width);
  });
}

template <typename E>
void PlaceRows(const Places& places, const Tensor& values, int64_t width, Tensor& out) {
  const E* from = static_cast<const E*>(values.raw());
  E* to = static_cast<E*>(out.mutable_raw());
  ForBlocks(static_cast<int64_t>(places.kept.size()), std::max<int64_t>(MoveGrain<E>() / width, 1),
            [&](int64_t begin, int64_t end) {
              for (int64_t r = begin; r < end; ++r) {
                const int64_t place = places[r];
                if (place != kNowhere) CopyElements(from + r * width, width, to + place * width);
              }
            });
}

constexpr int kFirstPartition = 3;

// What the output's dimensions are, the ragged ones included.
absl::Status MeasureRows(const RaggedToTensorAttrs& attrs, int64_t first, bool splits_first,
                         const std::vector<IndexValues>& partitions, Dims& dims) {
  if (dims[0] < 0) dims[0] = first;
  for (int d = 0; d < attrs.ragged_rank(); ++d) {
    int64_t& dim = dims[static_cast<size_t>(d) + 1];
    if (dim >= 0) continue;
    const size_t at = static_cast<size_t>(d) + (splits_first ? 0 : 1);
    dim = attrs.partitions[at] == RowPartition::kRowSplits ? LongestRow(partitions[at])
                                                           : LongestRun(partitions[at]);
  }
  return WorkStatus();
}

absl::Status RaggedToTensor(const RaggedToTensorAttrs& attrs, KernelContext& ctx) {
  const Tensor& values = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape asked, RaggedShapeFrom(ctx.input(0)));
  const int ragged_rank = attrs.ragged_rank();
  FORMWORK_ASSIGN_OR_RETURN(Dims dims,
                            PrepareRaggedToTensor(ragged_rank, asked, values.shape().dims(),
                                                  ctx.input(2).shape().dims()));
  std::vector<IndexValues> partitions;
  partitions.reserve(attrs.partitions.size());
  for (size_t i = 0; i < attrs.partitions.size(); ++i) {
    partitions.emplace_back(ctx.input(kFirstPartition + static_cast<int>(i)));
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
  }
  if (partitions[0].size() == 0) {
    return InvalidArgument("Invalid first partition input. Tensor requires at least one element.");
  }
  const bool splits_first = attrs.partitions[0] == RowPartition::kRowSplits;
  const int64_t first = splits_first ? partitions[0].size() - 1 : partitions[0][0];
  // Rows that nothing stands for are made of default values; memory bounds them.
  if (first < 0) return InvalidArgument("RaggedTensorToTensor: negative number of rows: ", first);
  FORMWORK_RETURN_IF_ERROR(MeasureRows(attrs, first, splits_first, partitions, dims));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, values.dtype(), shape));
  if (shape.num_elements() == 0) return absl::OkStatus();

  // Steps of each ragged dimension, in rows of values; their product fits, as the shape's does.
  Dims steps(static_cast<size_t>(ragged_rank) + 1, 1);
  for (size_t d = static_cast<size_t>(ragged_rank); d-- > 0;) steps[d] = steps[d + 1] * dims[d + 1];
  Places places{std::vector<int64_t>(static_cast<size_t>(std::min(first, dims[0]))), first};
  for (size_t i = 0; i < places.kept.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    places.kept[i] = static_cast<int64_t>(i) * steps[0];
  }
  const size_t first_partition = splits_first ? 0 : 1;
  for (size_t d = 0; d < static_cast<size_t>(ragged_rank); ++d) {
    const size_t at = d + first_partition;
    const bool last = d + 1 == static_cast<size_t>(ragged_rank);
    int64_t rows = values.dim(0);
    if (!last) {
      const IndexValues& next = partitions[at + 1];
      rows = attrs.partitions[at + 1] == RowPartition::kRowSplits
                 ? next.size() - 1
                 : std::numeric_limits<int32_t>::max();
    }
    FORMWORK_ASSIGN_OR_RETURN(
        places, attrs.partitions[at] == RowPartition::kRowSplits
                    ? PlaceBySplits(partitions[at], places, steps[d + 1], dims[d + 1], rows)
                    : PlaceByIds(partitions[at], places, steps[d + 1], dims[d + 1]));
  }
  if (static_cast<int64_t>(places.kept.size()) > values.dim(0)) {
    return InvalidArgument("Invalid row split size.");
  }
  const Shape element = Shape::Trusted(shape.dims().subspan(static_cast<size_t>(ragged_rank) + 1));
  const int64_t width = element.num_elements();
  FORMWORK_ASSIGN_OR_RETURN(const Tensor fill,
                            DefaultElement(ctx.allocator(), ctx.input(2), element));
  ByElement(values.dtype(), [&](auto tag) {
    using E = typename decltype(tag)::type;
    FillRows<E>(fill, shape.num_elements() / width, width, *out);
    PlaceRows<E>(places, values, width, *out);
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeRaggedToTensor(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(RaggedToTensorAttrs attrs,
                            RaggedToTensorAttrs::FromAttrs(init.attrs()));
  return KernelFn(
      [attrs = std::move(attrs)](KernelContext& ctx) { return RaggedToTensor(attrs, ctx); });
}

}  // namespace

void AddRaggedToTensorCpuKernel(KernelRegistry& registry) {
  registry.Add("RaggedTensorToTensor", MakeRaggedToTensor);
}

}  // namespace formwork
