#include "core/ops/index_shuffle.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<IndexShuffleAttrs> IndexShuffleAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const IndexShuffleAttrs read,
      ReadAttrs<IndexShuffleAttrs>(attrs, "rounds", &IndexShuffleAttrs::rounds));
  constexpr int64_t kMostRounds = 1024;
  if (read.rounds < 4 || read.rounds > kMostRounds || read.rounds % 2 != 0) {
    return InvalidArgument("rounds must be an even number from 4 to ", kMostRounds, ", got ",
                           read.rounds);
  }
  return read;
}

absl::StatusOr<Shape> PrepareIndexShuffle(const Shape& index, const Shape& seed,
                                          const Shape& max_index) {
  const int64_t n =
      std::max({index.num_elements(), max_index.num_elements(), seed.num_elements() / 3});
  if (index.rank() != 0 && (index.rank() != 1 || index.dim(0) != n)) {
    return InvalidArgument("Index bust be a scalar or vector.");
  }
  const bool one_seed = seed.rank() == 1 && seed.dim(0) == 3;
  if (!one_seed && (seed.rank() != 2 || seed.dim(0) != n || seed.dim(1) != 3)) {
    return InvalidArgument("Seed must be a vector of size [3] or a matrix of size [", n,
                           ", 3] but got ", seed.ToString());
  }
  if (max_index.rank() != 0 && (max_index.rank() != 1 || max_index.dim(0) != n)) {
    return InvalidArgument("Maxval must be a scalar or a vector of the same size as index but got ",
                           max_index.ToString());
  }
  if (index.rank() == 0 && one_seed && max_index.rank() == 0) return Shape();
  return Shape({n});
}

namespace {

absl::Status IndexShuffleShape(InferenceContext& c) {
  const PartialShape& index = c.input(0);
  const PartialShape& seed = c.input(1);
  const PartialShape& max_index = c.input(2);
  if (!index.known_rank() || !seed.known_rank() || !max_index.known_rank()) {
    return absl::OkStatus();
  }
  if (index.rank() == 0 && seed.rank() == 1 && max_index.rank() == 0) {
    c.set_output(0, Shape());
  } else if (index.rank() == 1 || max_index.rank() == 1) {
    c.set_output(0, index.rank() == 1 ? index : max_index);
  } else {
    c.set_output(0, PartialShape::OfRank(1));
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterIndexShuffleOps(OpRegistry& registry) {
  registry.Add(
      "RandomIndexShuffle(index: dtype, seed: Tseed, max_index: dtype) -> (output: dtype); rounds: "
      "int = 4; dtype: {int32, uint32, int64, uint64}; Tseed: {int32, uint32, int64, uint64}",
      {.shape_fn = IndexShuffleShape});
}

}  // namespace formwork
