#include "core/ops/matmul.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/einsum.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<ProductAttrs> ProductAttrs::OfMatMul(const AttrMap& attrs) {
  return ReadAttrs<ProductAttrs>(attrs, "transpose_a", &ProductAttrs::transpose_x, "transpose_b",
                                 &ProductAttrs::transpose_y);
}

absl::StatusOr<ProductAttrs> ProductAttrs::OfBatchMatMul(const AttrMap& attrs) {
  return ReadAttrs<ProductAttrs>(attrs, "adj_x", &ProductAttrs::transpose_x, "adj_y",
                                 &ProductAttrs::transpose_y);
}

absl::StatusOr<ProductGeometry> PrepareProduct(const ProductAttrs& attrs,
                                               absl::Span<const int64_t> x,
                                               absl::Span<const int64_t> y) {
  const size_t x_batch = x.size() - 2, y_batch = y.size() - 2;
  const int64_t x_inner = x[x_batch + (attrs.transpose_x ? 0 : 1)];
  const int64_t y_inner = y[y_batch + (attrs.transpose_y ? 1 : 0)];
  if (!MayBeEqual(x_inner, y_inner)) {
    return InvalidArgument("Matrix size-incompatible: In[0]: ", DimsText(x),
                           ", In[1]: ", DimsText(y));
  }
  ProductGeometry geometry = {.m = x[x_batch + (attrs.transpose_x ? 1 : 0)],
                              .n = y[y_batch + (attrs.transpose_y ? 0 : 1)],
                              .k = std::max(x_inner, y_inner),
                              .output = {}};
  if (x_batch + y_batch > 0) {
    std::optional<Dims> batch = BroadcastDims(x.first(x_batch), y.first(y_batch));
    if (!batch) {
      return InvalidArgument("In[0] and In[1] must have compatible batch dimensions: ", DimsText(x),
                             " vs. ", DimsText(y));
    }
    geometry.output = *std::move(batch);
  }
  geometry.output.push_back(geometry.m);
  geometry.output.push_back(geometry.n);
  return geometry;
}

absl::StatusOr<ProductGeometry> PrepareMatMul(const ProductAttrs& attrs,
                                              absl::Span<const int64_t> a,
                                              absl::Span<const int64_t> b) {
  if (a.size() != b.size()) {
    return InvalidArgument("In[0] and In[1] has different ndims: ", DimsText(a), " vs. ",
                           DimsText(b));
  }
  if (a.size() != 2) return InvalidArgument("In[0] and In[1] ndims must be == 2: ", a.size());
  return PrepareProduct(attrs, a, b);
}

absl::StatusOr<ProductGeometry> PrepareBatchMatMul(const ProductAttrs& attrs, bool broadcast,
                                                   absl::Span<const int64_t> x,
                                                   absl::Span<const int64_t> y) {
  if (!broadcast && x.size() != y.size()) {
    return InvalidArgument("In[0] and In[1] has different ndims: ", DimsText(x), " vs. ",
                           DimsText(y));
  }
  if (x.size() < 2) return InvalidArgument("In[0] ndims must be >= 2: ", x.size());
  if (y.size() < 2) return InvalidArgument("In[1] ndims must be >= 2: ", y.size());
  for (size_t d = 0; !broadcast && d < x.size() - 2; ++d) {
    if (MayBeEqual(x[d], y[d])) continue;
    return InvalidArgument("In[0].dim(", d, ") and In[1].dim(", d,
                           ") must be the same: ", DimsText(x), " vs ", DimsText(y));
  }
  return PrepareProduct(attrs, x, y);
}

absl::StatusOr<GateGeometry> PrepareGateMatMul(absl::Span<const absl::Span<const int64_t>> inputs,
                                               int num_parts) {
  const size_t products = inputs.size() / 2;
  const absl::Span<const int64_t> bias = inputs[2 * products];
  if (bias.size() != 1) {
    return InvalidArgument("_GateMatMul: the bias is no vector: bias=", DimsText(bias));
  }
  GateGeometry geometry = {.m = 1, .n = bias[0], .part = -1, .depths = {}};
  for (size_t i = 0; i < products; ++i) {
    FORMWORK_ASSIGN_OR_RETURN(const ProductGeometry product,
                              PrepareMatMul({}, inputs[i], inputs[products + i]));
    const std::optional<int64_t> m = BroadcastDim(product.m, geometry.m);
    if (!m || !MayBeEqual(product.n, geometry.n)) {
      return InvalidArgument(
          "_GateMatMul: a product does not fit the others and the bias: product=",
          DimsText(product.output), " bias=", DimsText(bias));
    }
    geometry.m = *m;
    geometry.n = std::max(geometry.n, product.n);
    geometry.depths.push_back(product.k);
  }
  if (geometry.n >= 0 && geometry.n % num_parts != 0) {
    return InvalidArgument("_GateMatMul: columns cannot be cut into equal parts: columns=",
                           geometry.n, " parts=", num_parts);
  }
  if (geometry.n >= 0) geometry.part = geometry.n / num_parts;
  return geometry;
}

namespace {

absl::Status SetProduct(InferenceContext& c, absl::StatusOr<ProductGeometry> geometry) {
  if (!geometry.ok()) return std::move(geometry).status();
  c.set_output(0, PartialShape::Trusted(geometry->output));
  return absl::OkStatus();
}

absl::Status MatMulShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const ProductAttrs attrs, ProductAttrs::OfMatMul(c.attrs()));
  const PartialShape a = shapes::OrOfRank(c.input(0), 2);
  const PartialShape b = shapes::OrOfRank(c.input(1), 2);
  return SetProduct(c, PrepareMatMul(attrs, a.dims(), b.dims()));
}

template <bool kBroadcast>
absl::Status BatchMatMulShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const ProductAttrs attrs, ProductAttrs::OfBatchMatMul(c.attrs()));
  return SetProduct(c, PrepareBatchMatMul(attrs, kBroadcast, c.input(0).dims(), c.input(1).dims()));
}

absl::Status GateMatMulShape(InferenceContext& c) {
  std::vector<PartialShape> shapes;
  std::vector<absl::Span<const int64_t>> inputs;
  shapes.reserve(static_cast<size_t>(c.num_inputs()));
  for (int i = 0; i < c.num_inputs(); ++i) {
    shapes.push_back(shapes::OrOfRank(c.input(i), i + 1 < c.num_inputs() ? 2 : 1));
    inputs.push_back(shapes.back().dims());
  }
  FORMWORK_ASSIGN_OR_RETURN(const GateGeometry geometry,
                            PrepareGateMatMul(inputs, c.num_outputs()));
  for (int i = 0; i < c.num_outputs(); ++i) {
    c.set_output(i, PartialShape::Trusted({geometry.m, geometry.part}));
  }
  return absl::OkStatus();
}

absl::Status EinsumShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(EinsumEquation equation,
                            EinsumEquation::FromAttrs(c.attrs(), c.num_inputs()));
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
  // Its attrs that name a side sparse change no result: the product is a dense one all the same.
  registry.Add(
      "SparseMatMul(a: Ta, b: Tb) -> (product: float); transpose_a: bool = false; transpose_b: "
      "bool "
      "= false; a_is_sparse: bool = false; b_is_sparse: bool = false; Ta: {float, bfloat16} = "
      "float; Tb: {float, bfloat16} = float",
      {.shape_fn = MatMulShape});
  registry.Add(
      "BatchMatMulV2(x: T, y: T) -> (output: T); T: {floattype, complextype, int16, int32, int64, "
      "uint8, uint16, uint32, uint64}; adj_x: bool = false; adj_y: bool = false; grad_x: bool = "
      "false; grad_y: bool = false",
      {.shape_fn = BatchMatMulShape<true>});
  registry.Add(
      "_GateMatMul(a: N*T, b: N*T, bias: T) -> (parts: num_parts*T); N: int >= 1; "
      "num_parts: int >= 1; T: {float}",
      {.shape_fn = GateMatMulShape});
  registry.Add("Einsum(inputs: N*T) -> (output: T); equation: string; N: int >= 1; T: type",
               {.shape_fn = EinsumShape});
  registry.Add(
      "BatchMatMul(x: T, y: T) -> (output: T); T: {floattype, complextype, int32, int64}; adj_x: "
      "bool = false; adj_y: bool = false; grad_x: bool = false; grad_y: bool = false",
      {.shape_fn = BatchMatMulShape<true>});
  registry.Add(
      "BatchMatMulV3(x: Ta, y: Tb) -> (output: Tout); Ta: {floattype, complextype, uint8, int8, "
      "int16, int32, int64}; Tb: {floattype, complextype, uint8, int8, int16, int32, int64}; Tout: "
      "{floattype, complextype, int16, int32, int64}; adj_x: bool = false; adj_y: bool = false; "
      "grad_x: bool = false; grad_y: bool = false",
      {.shape_fn = BatchMatMulShape<true>});
}

}  // namespace formwork
