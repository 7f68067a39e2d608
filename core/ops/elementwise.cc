#include "core/ops/elementwise.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

bool RefusesShapes(const AttrMap& attrs) { return attrs.GetOr("incompatible_shape_error", true); }

absl::StatusOr<CastAttrs> CastAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<CastAttrs>(attrs, "Truncate", &CastAttrs::truncate);
}

absl::StatusOr<Dims> PrepareAddN(int n, DimsOfValue dims) {
  const absl::Span<const int64_t> first = dims(0);
  Dims output(first.begin(), first.end());
  for (int i = 1; i < n; ++i) {
    const absl::Span<const int64_t> value = dims(i);
    if (!MayBeEqual(output, value)) {
      return InvalidArgument(
          "Inputs to operation AddN of type AddN must have the same size and shape.  Input 0: ",
          DimsText(first), " != input ", i, ": ", DimsText(value));
    }
    for (size_t d = 0; d < output.size(); ++d) {
      if (output[d] < 0) output[d] = value[d];
    }
  }
  return output;
}

absl::StatusOr<Dims> PrepareSelectV2(absl::Span<const int64_t> condition,
                                     absl::Span<const int64_t> then,
                                     absl::Span<const int64_t> otherwise) {
  const std::optional<Dims> values = BroadcastDims(then, otherwise);
  std::optional<Dims> all = values ? BroadcastDims(condition, *values) : std::nullopt;
  if (all) return *std::move(all);
  return InvalidArgument("condition ", DimsText(condition), ", then ", DimsText(then),
                         ", and else ", DimsText(otherwise), " must be broadcastable");
}

absl::StatusOr<Dims> PrepareSelect(absl::Span<const int64_t> condition,
                                   absl::Span<const int64_t> then,
                                   absl::Span<const int64_t> otherwise) {
  if (!MayBeEqual(then, otherwise)) {
    return InvalidArgument("'then' and 'else' must have the same size. but received: ",
                           DimsText(then), " vs. ", DimsText(otherwise));
  }
  if (!condition.empty() && !MayBeEqual(condition, then) &&
      (condition.size() != 1 || then.empty() || !MayBeEqual(condition[0], then[0]))) {
    return InvalidArgument("Select: the condition fits neither the shape nor the rows: condition=",
                           DimsText(condition), " then=", DimsText(then));
  }
  Dims output(then.begin(), then.end());
  for (size_t d = 0; d < output.size(); ++d) {
    if (output[d] < 0) output[d] = otherwise[d];
  }
  return output;
}

absl::StatusOr<Dims> PrepareBetainc(absl::Span<const int64_t> a, absl::Span<const int64_t> b,
                                    absl::Span<const int64_t> x) {
  const auto agree = [](absl::Span<const int64_t> one, absl::Span<const int64_t> other) {
    return one.empty() || other.empty() || (one.size() == other.size() && MayBeEqual(one, other));
  };
  const auto inconsistent = [](absl::string_view names, absl::Span<const int64_t> one,
                               absl::Span<const int64_t> other) {
    return InvalidArgument("Shapes of ", names, " are inconsistent: ", DimsText(one), " vs. ",
                           DimsText(other));
  };
  if (!agree(a, b)) return inconsistent("a and b", a, b);
  if (!agree(a, x)) return inconsistent("a and x", a, x);
  if (!agree(b, x)) return inconsistent("b and x", b, x);
  const absl::Span<const int64_t> shape = !a.empty() ? a : !b.empty() ? b : x;
  return Dims(shape.begin(), shape.end());
}

absl::Status CheckClip(absl::Span<const int64_t> t, absl::Span<const int64_t> low,
                       absl::Span<const int64_t> high) {
  for (const absl::Span<const int64_t> limit : {low, high}) {
    if (limit.empty() || MayBeEqual(limit, t)) continue;
    return InvalidArgument(
        "clip_value_min and clip_value_max must be either of the same shape as input, or a "
        "scalar. input=",
        DimsText(t), " limit=", DimsText(limit));
  }
  return absl::OkStatus();
}

absl::Status CheckApproximateEqual(absl::Span<const int64_t> x, absl::Span<const int64_t> y) {
  if (MayBeEqual(x, y)) return absl::OkStatus();
  return InvalidArgument("x and y must be of the same shape. x shape: ", DimsText(x),
                         ". y shape: ", DimsText(y));
}

absl::Status CheckGradient(absl::string_view op, absl::Span<const int64_t> a,
                           absl::Span<const int64_t> b) {
  if (MayBeEqual(a, b)) return absl::OkStatus();
  const bool activation = absl::StrContains(op, "lu") || absl::StartsWith(op, "Soft");
  if (!activation && MayBeEqual(CountElements(a), CountElements(b))) return absl::OkStatus();
  return InvalidArgument("Inputs to operation ", op,
                         " must have the same size and shape: ", DimsText(a), " vs. ", DimsText(b));
}

namespace {

// Equal and NotEqual may be asked to answer shapes that do not broadcast by one scalar.
absl::Status EqualityShape(InferenceContext& c) {
  absl::StatusOr<PartialShape> shape = shapes::BroadcastShapes(c.input(0), c.input(1));
  if (RefusesShapes(c.attrs())) {
    FORMWORK_RETURN_IF_ERROR(shape.status());
    c.set_output(0, *std::move(shape));
    return absl::OkStatus();
  }
  if (!shape.ok()) {
    c.set_output(0, PartialShape::OfRank(0));
  } else if ((c.input(0).fully_known() && c.input(1).fully_known()) || c.input(0).rank() == 0 ||
             c.input(1).rank() == 0) {
    c.set_output(0, *std::move(shape));
  }
  return absl::OkStatus();
}

absl::Status SelectV2Shape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i) {
    if (!c.input(i).known_rank()) return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(
      const Dims dims, PrepareSelectV2(c.input(0).dims(), c.input(1).dims(), c.input(2).dims()));
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

absl::Status SelectShape(InferenceContext& c) {
  // Whichever of both values has a rank that is known.
  const PartialShape& known = c.input(1).known_rank() ? c.input(1) : c.input(2);
  if (!known.known_rank()) return absl::OkStatus();
  const auto dims = [&](int i) { return shapes::OrOfRank(c.input(i), known.rank()); };
  FORMWORK_ASSIGN_OR_RETURN(const Dims output,
                            PrepareSelect(dims(0).dims(), dims(1).dims(), dims(2).dims()));
  c.set_output(0, PartialShape::Trusted(output));
  return absl::OkStatus();
}

absl::Status AddNShape(InferenceContext& c) {
  PartialShape known;
  for (int i = 0; i < c.num_inputs() && !known.known_rank(); ++i) known = c.input(i);
  if (!known.known_rank()) return absl::OkStatus();
  const PartialShape any = PartialShape::OfRank(known.rank());
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareAddN(c.num_inputs(), [&](int i) {
                              return (c.input(i).known_rank() ? c.input(i) : any).dims();
                            }));
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

absl::Status ClipShape(InferenceContext& c) {
  const int rank = c.input(0).rank();
  if (rank >= 0) {
    const auto dims = [&](int i) { return shapes::OrOfRank(c.input(i), rank); };
    FORMWORK_RETURN_IF_ERROR(CheckClip(c.input(0).dims(), dims(1).dims(), dims(2).dims()));
  }
  return shapes::SameAsFirstInput(c);
}

absl::Status BetaincShape(InferenceContext& c) {
  // What is unknown may be a scalar.
  for (int i = 0; i < 3; ++i) {
    if (!c.input(i).known_rank()) return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(
      const Dims dims, PrepareBetainc(c.input(0).dims(), c.input(1).dims(), c.input(2).dims()));
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

// That the sides do not go together is said where it runs.
absl::Status GradientShape(InferenceContext& c) {
  c.set_output(0, c.input(0).Merge(c.input(1)).value_or(c.input(0)));
  return absl::OkStatus();
}

absl::Status ApproximateEqualShape(InferenceContext& c) {
  if (c.input(0).known_rank() && c.input(1).known_rank()) {
    FORMWORK_RETURN_IF_ERROR(CheckApproximateEqual(c.input(0).dims(), c.input(1).dims()));
  }
  return GradientShape(c);
}

// A variant is a sparse matrix.
absl::Status ConjShape(InferenceContext& c) {
  if (c.input_dtype(0) == DType::kVariant) c.set_output_items(0, c.items(0));
  return shapes::SameAsFirstInput(c);
}

constexpr OpTraits kUnary{.shape_fn = shapes::SameAsFirstInput};
constexpr OpTraits kBroadcast{.shape_fn = shapes::Broadcast};
constexpr OpTraits kCommutative{.shape_fn = shapes::Broadcast, .commutative = true};
constexpr OpTraits kEquality{.shape_fn = EqualityShape, .commutative = true};
constexpr OpTraits kGradient{.shape_fn = GradientShape};
constexpr OpTraits kSelect{.shape_fn = SelectShape};
constexpr OpTraits kSelectV2{.shape_fn = SelectV2Shape};
constexpr OpTraits kSum{.shape_fn = AddNShape};
constexpr OpTraits kClip{.shape_fn = ClipShape};

}  // namespace

void RegisterElementwiseOps(OpRegistry& registry) {
  registry.Add("Mul(x: T, y: T) -> (z: T); T: {realnumbertype, complextype}", kCommutative);
  registry.Add("AddV2(x: T, y: T) -> (z: T); T: {realnumbertype, complextype}", kCommutative);
  registry.Add("Cast(x: SrcT) -> (y: DstT); SrcT: type; DstT: type; Truncate: bool = false",
               kUnary);
  registry.Add("Sub(x: T, y: T) -> (z: T); T: {realnumbertype, complextype}", kBroadcast);
  registry.Add("Neg(x: T) -> (y: T); T: {floattype, complextype, int8, int16, int32, int64}",
               kUnary);
  registry.Add("RealDiv(x: T, y: T) -> (z: T); T: {realnumbertype, complextype}", kBroadcast);
  registry.Add("Less(x: T, y: T) -> (z: bool); T: realnumbertype", kBroadcast);
  registry.Add("SelectV2(condition: bool, t: T, e: T) -> (output: T); T: type", kSelectV2);
  registry.Add("Maximum(x: T, y: T) -> (z: T); T: realnumbertype", kCommutative);
  registry.Add("DivNoNan(x: T, y: T) -> (z: T); T: {floattype, complextype}", kBroadcast);
  registry.Add("LogicalAnd(x: bool, y: bool) -> (z: bool)", kCommutative);
  registry.Add("FloorMod(x: T, y: T) -> (z: T); T: realnumbertype", kBroadcast);
  registry.Add("Equal(x: T, y: T) -> (z: bool); T: type; incompatible_shape_error: bool = true",
               kEquality);
  registry.Add("AddN(inputs: N*T) -> (sum: T); N: int >= 1; T: {numbertype, variant}", kSum);
  // Its attr may say another shape than values have, to which TensorFlow's kernels keep, too.
  registry.Add("AccumulateNV2(inputs: N*T) -> (sum: T); N: int >= 1; T: numbertype; shape: shape",
               kSum);
  registry.Add("Square(x: T) -> (y: T); T: {realnumbertype, complextype}", kUnary);
  registry.Add("Rsqrt(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("GreaterEqual(x: T, y: T) -> (z: bool); T: realnumbertype", kBroadcast);
  registry.Add("Pow(x: T, y: T) -> (z: T); T: {floattype, complextype, int8, int16, int32, int64}",
               kBroadcast);
  registry.Add("Tanh(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Sqrt(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Minimum(x: T, y: T) -> (z: T); T: realnumbertype", kCommutative);
  registry.Add("Sigmoid(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("SquaredDifference(x: T, y: T) -> (z: T); T: {floattype, complextype, int32, int64}",
               kCommutative);
  registry.Add("Greater(x: T, y: T) -> (z: bool); T: realnumbertype", kBroadcast);
  registry.Add("TanhGrad(y: T, dy: T) -> (z: T); T: {floattype, complextype}", kGradient);
  registry.Add("Select(condition: bool, t: T, e: T) -> (output: T); T: type", kSelect);
  registry.Add("NotEqual(x: T, y: T) -> (z: bool); T: type; incompatible_shape_error: bool = true",
               kEquality);
  registry.Add("Exp(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("LessEqual(x: T, y: T) -> (z: bool); T: realnumbertype", kBroadcast);
  registry.Add("RsqrtGrad(y: T, dy: T) -> (z: T); T: {floattype, complextype}", kGradient);
  registry.Add("Erfc(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("Log(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("BitwiseAnd(x: T, y: T) -> (z: T); T: integertype", kCommutative);
  registry.Add("FloorDiv(x: T, y: T) -> (z: T); T: {realnumbertype, complextype}", kBroadcast);
  registry.Add("SigmoidGrad(y: T, dy: T) -> (z: T); T: {floattype, complextype}", kGradient);
  registry.Add("Reciprocal(x: T) -> (y: T); T: {floattype, complextype, int8, int16, int32, int64}",
               kUnary);
  registry.Add("Cos(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Sin(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("LogicalNot(x: bool) -> (y: bool)", kUnary);
  registry.Add("Abs(x: T) -> (y: T); T: {floattype, int8, int16, int32, int64}", kUnary);
  registry.Add("LogicalOr(x: bool, y: bool) -> (z: bool)", kCommutative);
  registry.Add("Ceil(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("Floor(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("Sign(x: T) -> (y: T); T: {floattype, complextype, int8, int16, int32, int64}",
               kUnary);
  registry.Add("Log1p(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("IsFinite(x: T) -> (y: bool); T: floattype", kUnary);
  registry.Add("SqrtGrad(y: T, dy: T) -> (z: T); T: {floattype, complextype}", kGradient);
  registry.Add("Round(x: T) -> (y: T); T: {floattype, complextype, int8, int16, int32, int64}",
               kUnary);
  registry.Add(
      "ClipByValue(t: T, clip_value_min: T, clip_value_max: T) -> (output: T); T: numbertype",
      kClip);
  registry.Add("Atan(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Relu(features: T) -> (activations: T); T: {realnumbertype, qint8}", kUnary);
  registry.Add("ReluGrad(gradients: T, features: T) -> (backprops: T); T: realnumbertype",
               kGradient);
  registry.Add("Relu6(features: T) -> (activations: T); T: realnumbertype", kUnary);
  registry.Add("Relu6Grad(gradients: T, features: T) -> (backprops: T); T: realnumbertype",
               kGradient);
  registry.Add("Softplus(features: T) -> (activations: T); T: floattype", kUnary);
  registry.Add(
      "Add(x: T, y: T) -> (z: T); T: {floattype, complextype, uint8, int8, int16, int32, int64, "
      "string}",
      kBroadcast);
  registry.Add("SoftplusGrad(gradients: T, features: T) -> (backprops: T); T: floattype",
               kGradient);
  registry.Add("Elu(features: T) -> (activations: T); T: floattype", kUnary);
  registry.Add("EluGrad(gradients: T, outputs: T) -> (backprops: T); T: floattype", kGradient);
  registry.Add("Selu(features: T) -> (activations: T); T: floattype", kUnary);
  registry.Add("SeluGrad(gradients: T, outputs: T) -> (backprops: T); T: floattype", kGradient);
  registry.Add(
      "LeakyRelu(features: T) -> (activations: T); alpha: float = 0.20000000298023224; T: "
      "floattype = float",
      kUnary);
  registry.Add(
      "LeakyReluGrad(gradients: T, features: T) -> (backprops: T); alpha: float = "
      "0.20000000298023224; T: floattype = float",
      kGradient);
  registry.Add("Softsign(features: T) -> (activations: T); T: floattype", kUnary);
  registry.Add("SoftsignGrad(gradients: T, features: T) -> (backprops: T); T: floattype",
               kGradient);
  registry.Add("Erf(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("IsNan(x: T) -> (y: bool); T: floattype", kUnary);
  registry.Add("IsInf(x: T) -> (y: bool); T: floattype", kUnary);
  registry.Add("Expm1(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Tan(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("ReciprocalGrad(y: T, dy: T) -> (z: T); T: {floattype, complextype}", kGradient);
  registry.Add("Inv(x: T) -> (y: T); T: {floattype, complextype, int8, int16, int32, int64}",
               kUnary);
  registry.Add("InvGrad(y: T, dy: T) -> (z: T); T: {floattype, complextype}", kGradient);
  registry.Add("BitwiseOr(x: T, y: T) -> (z: T); T: integertype", kCommutative);
  registry.Add("BitwiseXor(x: T, y: T) -> (z: T); T: integertype", kCommutative);
  registry.Add("Xdivy(x: T, y: T) -> (z: T); T: {floattype, complextype}", kBroadcast);
  registry.Add("Xlogy(x: T, y: T) -> (z: T); T: {floattype, complextype}", kBroadcast);
  registry.Add("Xlog1py(x: T, y: T) -> (z: T); T: {floattype, complextype}", kBroadcast);
  registry.Add("MulNoNan(x: T, y: T) -> (z: T); T: {floattype, complextype}", kBroadcast);
  registry.Add("Sinh(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Cosh(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Asin(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Acos(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Atan2(y: T, x: T) -> (z: T); T: floattype", kBroadcast);
  registry.Add("BesselI0(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselI0e(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselI1(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselI1e(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselJ0(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselJ1(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselK0(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselK0e(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselK1(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselK1e(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselY0(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("BesselY1(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("Ndtri(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("Erfinv(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("Polygamma(a: T, x: T) -> (z: T); T: {float, double}", kBroadcast);
  registry.Add("Zeta(x: T, q: T) -> (z: T); T: {float, double}", kBroadcast);
  registry.Add("Igamma(a: T, x: T) -> (z: T); T: floattype", kBroadcast);
  registry.Add("Igammac(a: T, x: T) -> (z: T); T: floattype", kBroadcast);
  registry.Add("IgammaGradA(a: T, x: T) -> (z: T); T: {float, double}", kBroadcast);
  registry.Add("Betainc(a: T, b: T, x: T) -> (z: T); T: {float, double}",
               {.shape_fn = BetaincShape});
  registry.Add("RandomGammaGrad(alpha: T, sample: T) -> (output: T); T: {float, double}",
               kBroadcast);
  registry.Add("NextAfter(x1: T, x2: T) -> (output: T); T: {double, float} = float", kBroadcast);
  registry.Add("Asinh(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Acosh(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Atanh(x: T) -> (y: T); T: {floattype, complextype}", kUnary);
  registry.Add("Rint(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("Div(x: T, y: T) -> (z: T); T: {realnumbertype, complextype}", kBroadcast);
  registry.Add("TruncateDiv(x: T, y: T) -> (z: T); T: {realnumbertype, complextype}", kBroadcast);
  registry.Add("TruncateMod(x: T, y: T) -> (z: T); T: {floattype, int32, int64}", kBroadcast);
  registry.Add("Mod(x: T, y: T) -> (z: T); T: {floattype, int32, int64, half}", kBroadcast);
  registry.Add(
      "ApproximateEqual(x: T, y: T) -> (z: bool); T: numbertype; tolerance: float = "
      "9.999999747378752e-06",
      {.shape_fn = ApproximateEqualShape, .commutative = true});
  registry.Add("Invert(x: T) -> (y: T); T: integertype", kUnary);
  registry.Add("PopulationCount(x: T) -> (y: uint8); T: integertype", kUnary);
  for (const char* name : {"Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence"}) {
    registry.Add(absl::StrCat(name, "(x: T) -> (y: T); T: floattype"), kUnary);
  }
  registry.Add("LeftShift(x: T, y: T) -> (z: T); T: integertype", kBroadcast);
  registry.Add("RightShift(x: T, y: T) -> (z: T); T: integertype", kBroadcast);
  registry.Add("Lgamma(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add("Digamma(x: T) -> (y: T); T: floattype", kUnary);
  registry.Add(
      "Real(input: T) -> (output: Tout); T: complextype = complex64; Tout: {float, double} = float",
      kUnary);
  registry.Add(
      "Imag(input: T) -> (output: Tout); T: complextype = complex64; Tout: {float, double} = float",
      kUnary);
  registry.Add("Conj(input: T) -> (output: T); T: {complextype, variant} = complex64",
               {.shape_fn = ConjShape});
  registry.Add(
      "Complex(real: T, imag: T) -> (out: Tout); T: {float, double} = float; Tout: complextype = "
      "complex64",
      kBroadcast);
  registry.Add(
      "ComplexAbs(x: T) -> (y: Tout); T: complextype = complex64; Tout: {float, double} = float",
      kUnary);
  registry.Add(
      "Angle(input: T) -> (output: Tout); T: complextype = complex64; Tout: {float, double} = "
      "float",
      kUnary);
}

}  // namespace formwork
