// How a copy of elements becomes one of units.

#include "core/base/status.h"
#include "gpu/moves.h"

namespace formwork {

absl::StatusOr<UnitCopy> UnitCopyOf(const Move& move, size_t bytes) {
  CopyDims dims;  // Without those of one entry; the last one first.
  for (size_t d = move.dims.size(); d-- > 0;) {
    const CopyDim& dim = move.dims[d];
    if (dim.size == 0) return UnitCopy{bytes, 0, 0, 0, {}};
    if (dim.size == 1) continue;
    if (!dims.empty() && dim.src == dims.back().size * dims.back().src &&
        dim.dst == dims.back().size * dims.back().dst) {
      dims.back().size *= dim.size;
    } else {
      dims.push_back(dim);
    }
  }
  // As many elements at a time as lie side by side, on both sides, wherever a run begins.
  int64_t together = 1;
  if (!dims.empty() && dims[0].src == 1 && dims[0].dst == 1) {
    const auto begins_at = [&](int64_t n) {
      const auto multiple = [n](int64_t value) { return value % n == 0; };
      bool all = multiple(dims[0].size) && multiple(move.from) && multiple(move.to);
      for (size_t d = 1; d < dims.size(); ++d) {
        all = all && multiple(dims[d].src) && multiple(dims[d].dst);
      }
      return all;
    };
    while (bytes * static_cast<size_t>(together) < 16 && begins_at(2 * together)) together *= 2;
  }
  UnitCopy copy{
      bytes * static_cast<size_t>(together), 1, move.from / together, move.to / together, {}};
  for (size_t d = 0; d < dims.size(); ++d) {
    CopyDim dim = dims[d];
    if (together > 1 && d == 0) {
      dim.size /= together;
      if (dim.size == 1) continue;
    } else {
      dim.src /= together;
      dim.dst /= together;
    }
    const int rank = copy.dimensions.rank;
    if (rank == formwork_element::kMostCopyDims) {
      return Unimplemented("a copy of more than ", rank, " dimensions on a GPU");
    }
    copy.units *= static_cast<uint64_t>(dim.size);
    copy.dimensions.sizes[rank] = static_cast<uint64_t>(dim.size);
    copy.dimensions.from_strides[rank] = dim.src;
    copy.dimensions.to_strides[rank] = dim.dst;
    ++copy.dimensions.rank;
  }
  return copy;
}

}  // namespace formwork
