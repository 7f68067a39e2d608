#include <algorithm>

#include "core/base/status.h"
#include "core/ops/einsum.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

// The shape of a product of matrices in the last two dimensions; the dimensions before
// them broadcast.
absl::Status ProductShape(InferenceContext& c, bool transpose_x, bool transpose_y) {
  const PartialShape& x = c.input(0);
  const PartialShape& y = c.input(1);
  if (!x.known_rank() || !y.known_rank()) return absl::OkStatus();
  if (x.rank() < 2 || y.rank() < 2) {
    return InvalidArgument("Shape must be at least rank 2 but is rank ",
                           std::min(x.rank(), y.rank()));
  }
  const int64_t x_inner = x.dim(x.rank() - (transpose_x ? 2 : 1));
  const int64_t y_inner = y.dim(y.rank() - (transpose_y ? 1 : 2));
  if (x_inner >= 0 && y_inner >= 0 && x_inner != y_inner) {
    return InvalidArgument("Dimensions must be equal, but are ", x_inner, " and ", y_inner,
                           ": inputs=", x.ToString(), " and ", y.ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(
      PartialShape batch,
      shapes::BroadcastShapes(PartialShape::Trusted(x.dims().first(x.rank() - 2)),
                              PartialShape::Trusted(y.dims().first(y.rank() - 2))));
  Dims dims(batch.dims().begin(), batch.dims().end());
  dims.push_back(x.dim(x.rank() - (transpose_x ? 1 : 2)));
  dims.push_back(y.dim(y.rank() - (transpose_y ? 2 : 1)));
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

absl::Status MatMulShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(shapes::WithRank(c.input(0), 2, "a").status());
  FORMWORK_RETURN_IF_ERROR(shapes::WithRank(c.input(1), 2, "b").status());
  FORMWORK_RETURN_IF_ERROR(ProductShape(c, c.attrs().GetOr("transpose_a", false),
                                        c.attrs().GetOr("transpose_b", false)));
  if (!c.outputs()[0].known_rank()) c.set_output(0, PartialShape::OfRank(2));
  return absl::OkStatus();
}

absl::Status BatchMatMulShape(InferenceContext& c) {
  return ProductShape(c, c.attrs().GetOr("adj_x", false), c.attrs().GetOr("adj_y", false));
}

absl::Status EinsumShape(InferenceContext& c) {
  const std::string text = c.attrs().GetOr<std::string>("equation", "");
  FORMWORK_ASSIGN_OR_RETURN(EinsumEquation equation, ParseEinsum(text, c.num_inputs()));
  std::vector<int> ranks;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.input(i).known_rank()) return absl::OkStatus();
    ranks.push_back(c.input(i).rank());
  }
  FORMWORK_RETURN_IF_ERROR(ExpandEllipses(equation, ranks));
  Dims dims(equation.output.size(), -1);
  for (size_t at = 0; at < dims.size(); ++at) {
    for (size_t i = 0; i < equation.inputs.size(); ++i) {
      for (size_t d = 0; d < equation.inputs[i].size(); ++d) {
        const int64_t dim = c.input(static_cast<int>(i)).dim(static_cast<int>(d));
        // Where one broadcasts, the longer one counts; unknown ones may be longer still.
        if (equation.inputs[i][d] != equation.output[at] || dim < 0) continue;
        if (dim > 1 || dim == 0 || !IsBroadcastLabel(equation.output[at])) dims[at] = dim;
        if (dim == 1 && dims[at] == -1 && equation.inputs.size() == 1) dims[at] = 1;
      }
    }
  }
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

}  // namespace

void RegisterMatmulOps(OpRegistry& registry) {
  registry.Add(
      "MatMul(a: T, b: T) -> (product: T); transpose_a: bool = false; transpose_b: bool = false; "
      "T: {floattype, complextype, int32, int64, uint8, uint16, uint32, uint64}; grad_a: bool = "
      "false; grad_b: bool = false",
      {.shape_fn = MatMulShape});
  registry.Add(
      "BatchMatMulV2(x: T, y: T) -> (output: T); T: {floattype, complextype, int16, int32, int64, "
      "uint8, uint16, uint32, uint64}; adj_x: bool = false; adj_y: bool = false; grad_x: bool = "
      "false; grad_y: bool = false",
      {.shape_fn = BatchMatMulShape});
  registry.Add("Einsum(inputs: N*T) -> (output: T); equation: string; N: int >= 1; T: type",
               {.shape_fn = EinsumShape});
  registry.Add(
      "BatchMatMul(x: T, y: T) -> (output: T); T: {floattype, complextype, int32, int64}; adj_x: "
      "bool = false; adj_y: bool = false; grad_x: bool = false; grad_y: bool = false",
      {.shape_fn = BatchMatMulShape});
  registry.Add(
      "BatchMatMulV3(x: Ta, y: Tb) -> (output: Tout); Ta: {floattype, complextype, uint8, int8, "
      "int16, int32, int64}; Tb: {floattype, complextype, uint8, int8, int16, int32, int64}; Tout: "
      "{floattype, complextype, int16, int32, int64}; adj_x: bool = false; adj_y: bool = false; "
      "grad_x: bool = false; grad_y: bool = false",
      {.shape_fn = BatchMatMulShape});
}

}  // namespace formwork
