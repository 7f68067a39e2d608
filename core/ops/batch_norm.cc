#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

int RankOf(InferenceContext& c) {
  return c.attrs().GetOr<std::string>("data_format", "NHWC").size() == 5 ? 5 : 4;
}

/// The channels of x as far as they are known.
int64_t Channels(InferenceContext& c, const PartialShape& x) {
  const std::string format = c.attrs().GetOr<std::string>("data_format", "NHWC");
  return x.dim(static_cast<int>(format.find('C')));
}

absl::Status InferForward(InferenceContext& c) {
  const int rank = RankOf(c);
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape x, shapes::WithRank(c.input(0), rank, "input"));
  int64_t channels = Channels(c, x);
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape scale, shapes::WithRank(c.input(1), 1, "scale"));
  if (channels < 0) channels = scale.dim(0);
  c.set_output(0, x);
  for (int i = 1; i <= 4; ++i) c.set_output(i, PartialShape::Trusted({channels}));
  return absl::OkStatus();
}

absl::Status InferGradient(InferenceContext& c) {
  const int rank = RankOf(c);
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape x, shapes::WithRank(c.input(1), rank, "x"));
  int64_t channels = Channels(c, x);
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape scale, shapes::WithRank(c.input(2), 1, "scale"));
  if (channels < 0) channels = scale.dim(0);
  c.set_output(0, x);
  c.set_output(1, PartialShape::Trusted({channels}));
  c.set_output(2, PartialShape::Trusted({channels}));
  return absl::OkStatus();
}

}  // namespace

void RegisterBatchNormOps(OpRegistry& registry) {
  registry.Add(
      "FusedBatchNormV3(x: T, scale: U, offset: U, mean: U, variance: U) -> (y: T, "
      "batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, "
      "reserve_space_3: U); T: {half, bfloat16, float}; U: {bfloat16, float}; epsilon: "
      "float = 9.999999747378752e-05; exponential_avg_factor: float = 1.0; data_format: "
      "{\"NHWC\", \"NCHW\", \"NDHWC\", \"NCDHW\"} = \"NHWC\"; is_training: bool = true",
      {.shape_fn = InferForward});
  registry.Add(
      "FusedBatchNormGradV3(y_backprop: T, x: T, scale: float, reserve_space_1: U, "
      "reserve_space_2: U, reserve_space_3: U) -> (x_backprop: T, scale_backprop: U, "
      "offset_backprop: U, reserve_space_4: U, reserve_space_5: U); T: {half, bfloat16, "
      "float}; U: {float}; epsilon: float = 9.999999747378752e-05; data_format: {\"NHWC\", "
      "\"NCHW\", \"NDHWC\", \"NCDHW\"} = \"NHWC\"; is_training: bool = true",
      {.shape_fn = InferGradient});
}

}  // namespace formwork
