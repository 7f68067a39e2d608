// Gathers and scatters on a GPU. Indices are checked there: one that is out of range fails its step
// by the call's word, and what is written is none of a neighbour's.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/cuda_status.h"
#include "gpu/cuda_stream.h"
#include "gpu/determinism.h"
#include "gpu/index_items.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

using formwork_element::IndexRows;
using formwork_element::MayFailItem;

bool IsIndex(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }
absl::string_view IndexName(DType dtype) { return dtype == DType::kInt32 ? "int32_t" : "int64_t"; }

template <typename Call>
auto WithIndex(DType dtype, Call call) {
  return dtype == DType::kInt32 ? call(int32_t()) : call(int64_t());
}

absl::Status Refuse(const KernelInit& init, DType dtype) {
  return Unimplemented(init.op().name, " of ", DTypeName(dtype), " on a GPU");
}

// The plain data at input `i`, or behind the handle that is there.
absl::StatusOr<Tensor> ValueOf(KernelContext& ctx, int i) {
  if (ctx.input(i).dtype() != DType::kResource) return ctx.input(i);
  return ctx.resources().Read(ctx.input(i).scalar<ResourceHandle>());
}

Dims DimsOf(absl::Span<const int64_t> dims) { return Dims(dims.begin(), dims.end()); }
Dims RowsOf(const Tensor& indices) {
  return DimsOf(indices.shape().dims().first(static_cast<size_t>(indices.rank()) - 1));
}

// --- Gathers ------------------------------------------------------------------------------------

class GatherKernel {
 public:
  explicit GatherKernel(DType index)
      : index_(index), kernels_("GatherItem<", absl::StrCat(", ", IndexName(index), ">")) {}

  absl::Status Prepare() { return kernels_.Of(16).Prepare(); }
  absl::Status Run(KernelContext& ctx, const Tensor& params, const GatherGeometry& geometry) {
    const Tensor& indices = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const FailurePlace place,
        MayFail(ctx, [dims = DimsOf(indices.shape().dims()), dim = geometry.dim](uint64_t where) {
          return IndexOutOfRange(where, dims, dim);
        }));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) {
      // Nothing to write, but indices to check.
      return Check(ctx, indices, geometry.dim, place);
    }
    const size_t bytes = static_cast<size_t>(geometry.inner) * DTypeSize(params.dtype());
    const size_t unit = UnitOf(bytes);
    return WithUnit(unit, [&](auto e) {
      return WithIndex(index_, [&](auto index) {
        const auto item = GatherItemOf<decltype(e), decltype(index)>(
            geometry, bytes, params, indices, out, MayFailItem{place.word, place.step});
        return kernels_.Of(unit).Enqueue(item, out.bytes() / unit, place,
                                         CudaStreamOf(StreamOf(ctx)));
      });
    });
  }

 private:
  absl::Status Check(KernelContext& ctx, const Tensor& indices, int64_t dim, FailurePlace place) {
    IndexRows rows{};
    rows.depth = 1;
    rows.dims[0] = dim;
    rows.strides[0] = 1;
    return WithIndex(index_, [&](auto index) {
      using Index = decltype(index);
      static auto* const kernel = new ItemKernel(
          absl::StrCat("CheckIndicesItem<", sizeof(Index) == 4 ? "int32_t" : "int64_t", ">"));
      const formwork_element::CheckIndicesItem<Index> item{static_cast<const Index*>(indices.raw()),
                                                           rows, /*tells_index=*/true,
                                                           MayFailItem{place.word, place.step}};
      return kernel->Enqueue(item, static_cast<uint64_t>(indices.num_elements()), place,
                             CudaStreamOf(StreamOf(ctx)));
    });
  }

  const DType index_;
  UnitKernels kernels_;
};

enum class GatherBy { kAxis, kRow };

template <GatherBy by>
absl::StatusOr<KernelFn> MakeGather(KernelInit& init) {
  const DType index = init.input_dtypes()[1];
  if (!IsIndex(index)) return Refuse(init, index);
  GatherAttrs attrs;
  if (init.op().FindAttr("batch_dims") != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(attrs, GatherAttrs::FromAttrs(init.attrs()));
  }
  auto kernel = std::make_unique<GatherKernel>(index);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Tensor params, ValueOf(ctx, 0));
    const absl::Span<const int64_t> dims = params.shape().dims();
    const absl::Span<const int64_t> indices = ctx.input(1).shape().dims();
    FORMWORK_ASSIGN_OR_RETURN(const GatherGeometry geometry,
                              by == GatherBy::kAxis
                                  ? PrepareGather(attrs, dims, indices, ctx.input(2))
                                  : PrepareGatherRows(attrs, dims, indices));
    return kernel->Run(ctx, params, geometry);
  });
}

absl::StatusOr<KernelFn> MakeGatherNd(KernelInit& init) {
  const DType index = init.input_dtypes()[1];
  if (!IsIndex(index)) return Refuse(init, index);
  BadIndices bad;
  if (init.op().FindAttr("bad_indices_policy") != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(bad, BadIndices::FromAttrs(init.attrs()));
  }
  auto kernels =
      std::make_unique<UnitKernels>("GatherNdItem<", absl::StrCat(", ", IndexName(index), ">"));
  FORMWORK_RETURN_IF_ERROR(kernels->Of(4).Prepare());
  return KernelFn([bad, index, kernels = std::move(kernels)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Tensor params, ValueOf(ctx, 0));
    const Tensor& indices = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const GatherNdGeometry geometry,
                              PrepareGatherNd(params.shape().dims(), indices.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const IndexRows rows, IndexRowsOf(params.shape(), geometry.depth));
    const std::string wanted = absl::StrCat("index into param shape ", params.shape().ToString());
    FORMWORK_ASSIGN_OR_RETURN(const FailurePlace place,
                              MayFail(ctx, [dims = RowsOf(indices), wanted](uint64_t where) {
                                return RowOutOfRange(where, dims, wanted);
                              }));
    Tensor out = OutputOf(ctx, 0);
    const size_t bytes = static_cast<size_t>(geometry.inner) * DTypeSize(params.dtype());
    if (out.num_elements() == 0) return absl::OkStatus();
    const size_t unit = UnitOf(bytes);
    return WithUnit(unit, [&](auto e) {
      return WithIndex(index, [&](auto i) {
        const auto item = GatherNdItemOf<decltype(e), decltype(i)>(
            rows, bytes, bad.ignored, params, indices, out, MayFailItem{place.word, place.step});
        return kernels->Of(unit).Enqueue(item, out.bytes() / unit, place,
                                         CudaStreamOf(StreamOf(ctx)));
      });
    });
  });
}

// --- Scatters -----------------------------------------------------------------------------------

enum class ScatterBy { kRow, kDepth };

// First all indices are checked; then, unless one was out of range or an earlier step has failed,
// each update goes where it belongs.
template <typename Op>
class ScatterKernel {
 public:
  ScatterKernel(absl::string_view op, DType dtype, DType index)
      : dtype_(dtype),
        index_(index),
        check_(absl::StrCat("CheckIndicesItem<", IndexName(index), ">")),
        units_("ScatterItem<", absl::StrCat(", ", IndexName(index), ", ", op, ">")),
        elements_(absl::StrCat("ScatterItem<", ElementName(dtype), ", ", IndexName(index), ", ", op,
                               ">")) {}

  // Null where it is not computed here.
  static absl::string_view ElementName(DType dtype) {
    switch (dtype) {
      case DType::kFloat:
        return "float";
      case DType::kDouble:
        return "double";
      case DType::kInt32:
        return "int32_t";
      case DType::kInt64:
        return "int64_t";
      case DType::kUint32:
        return "uint32_t";
      case DType::kUint64:
        return "uint64_t";
      default:
        return "";
    }
  }

  absl::Status Prepare() {
    FORMWORK_RETURN_IF_ERROR(check_.Prepare());
    return kMoves ? units_.Of(4).Prepare() : elements_.Prepare();
  }

  absl::Status Run(KernelContext& ctx, ScatterBy by, const ScatterGeometry& geometry, bool ignores,
                   const Tensor& indices, const Tensor& updates, Tensor& target) {
    if (geometry.count == 0) return absl::OkStatus();
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    const int64_t depth = by == ScatterBy::kRow ? 1 : geometry.depth;
    FORMWORK_ASSIGN_OR_RETURN(const IndexRows rows, IndexRowsOf(target.shape(), depth));
    FailurePlace place{};
    if (ignores) {
      place.word = EarlierFailure(ctx);
    } else {
      const Dims dims = by == ScatterBy::kRow ? DimsOf(indices.shape().dims()) : RowsOf(indices);
      FORMWORK_ASSIGN_OR_RETURN(
          place, MayFail(ctx, [by, dims, shape = target.shape()](uint64_t where) {
            return by == ScatterBy::kRow
                       ? IndexOutOfRange(where, dims, shape.dim(0))
                       : RowOutOfRange(where, dims,
                                       absl::StrCat("index into shape ", shape.ToString()));
          }));
      FORMWORK_RETURN_IF_ERROR(WithIndex(index_, [&](auto index) {
        using Index = decltype(index);
        const formwork_element::CheckIndicesItem<Index> item{
            static_cast<const Index*>(indices.raw()), rows, by == ScatterBy::kRow,
            MayFailItem{place.word, place.step}};
        return check_.Enqueue(item, static_cast<uint64_t>(geometry.count), place, stream);
      }));
    }
    const FailurePlace any{place.word, 0};  // This step's failure counts, too.
    const auto count = static_cast<uint64_t>(geometry.count);
    return WithIndex(index_, [&](auto index) {
      using Index = decltype(index);
      if constexpr (kMoves) {
        const size_t size = DTypeSize(dtype_);
        const size_t bytes = static_cast<size_t>(geometry.inner) * size;
        const size_t unit = geometry.scalar_update ? size : UnitOf(bytes);
        return WithUnit(unit, [&](auto e) {
          const auto item = ScatterItemOf<decltype(e), Index, Op>(
              rows, bytes / unit, target, indices, updates, geometry.scalar_update);
          return units_.Of(unit).Enqueue(item, count * (bytes / unit), any, stream);
        });
      } else {
        return WithElement([&](auto e) {
          const auto item = ScatterItemOf<decltype(e), Index, Op>(
              rows, static_cast<size_t>(geometry.inner), target, indices, updates,
              geometry.scalar_update);
          return elements_.Enqueue(item, count * static_cast<uint64_t>(geometry.inner), any,
                                   stream);
        });
      }
    });
  }

 private:
  static constexpr bool kMoves = std::is_same_v<Op, formwork_element::ScatterUpdate>;

  template <typename Call>
  absl::Status WithElement(Call call) {
    switch (dtype_) {
      case DType::kFloat:
        return call(float());
      case DType::kDouble:
        return call(double());
      case DType::kInt32:
        return call(int32_t());
      case DType::kInt64:
        return call(int64_t());
      case DType::kUint32:
        return call(uint32_t());
      default:
        return call(uint64_t());
    }
  }

  const DType dtype_, index_;
  ItemKernel check_;
  UnitKernels units_;    // Of what only moves,
  ItemKernel elements_;  // and of what computes.
};

template <typename Op>
absl::StatusOr<std::unique_ptr<ScatterKernel<Op>>> MakeScatterKernel(KernelInit& init,
                                                                     absl::string_view name,
                                                                     DType dtype, DType index) {
  if (!IsIndex(index)) return Refuse(init, index);
  const bool moves = std::is_same_v<Op, formwork_element::ScatterUpdate>;
  if (moves ? !IsPlainData(dtype) : ScatterKernel<Op>::ElementName(dtype).empty()) {
    return Refuse(init, dtype);
  }
  auto kernel = std::make_unique<ScatterKernel<Op>>(name, dtype, index);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

absl::StatusOr<BadIndices> BadIndicesOf(const KernelInit& init) {
  if (init.op().FindAttr("bad_indices_policy") == nullptr) return BadIndices{};
  return BadIndices::FromAttrs(init.attrs());
}

#define FORMWORK_SCATTER_OPS(of) of(Update) of(Add) of(Sub) of(Mul) of(Min) of(Max)
template <typename Op>
constexpr absl::string_view kOpName;
#define FORMWORK_NAME(op) \
  template <>             \
  constexpr absl::string_view kOpName<formwork_element::Scatter##op> = "Scatter" #op;
FORMWORK_SCATTER_OPS(FORMWORK_NAME)
#undef FORMWORK_NAME

// ResourceScatter...(resource, indices, updates).
template <typename Op, ScatterBy by>
absl::StatusOr<KernelFn> MakeVariableScatter(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BadIndices bad, BadIndicesOf(init));
  FORMWORK_ASSIGN_OR_RETURN(
      auto kernel,
      MakeScatterKernel<Op>(init, kOpName<Op>, init.input_dtypes()[2], init.input_dtypes()[1]));
  return KernelFn([bad, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& indices = ctx.input(1);
    const Tensor& updates = ctx.input(2);
    const auto change = [&](Tensor& target) -> absl::Status {
      if (target.dtype() != updates.dtype()) {
        return InvalidArgument("scatter: dtypes differ: target=", DTypeName(target.dtype()),
                               " updates=", DTypeName(updates.dtype()));
      }
      const auto prepare = by == ScatterBy::kRow ? &PrepareScatterRows : &PrepareScatterNdUpdate;
      FORMWORK_ASSIGN_OR_RETURN(
          const ScatterGeometry geometry,
          prepare(target.shape().dims(), indices.shape().dims(), updates.shape().dims()));
      return kernel->Run(ctx, by, geometry, bad.ignored, indices, updates, target);
    };
    return ctx.resources().Update(ctx.input(0).scalar<ResourceHandle>(), updates.bytes(), change);
  });
}

// TensorScatter...(tensor, indices, updates).
template <typename Op>
absl::StatusOr<KernelFn> MakeTensorScatter(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BadIndices bad, BadIndicesOf(init));
  FORMWORK_ASSIGN_OR_RETURN(
      auto kernel,
      MakeScatterKernel<Op>(init, kOpName<Op>, init.input_dtypes()[0], init.input_dtypes()[1]));
  return KernelFn([bad, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ScatterGeometry geometry,
        PrepareTensorScatter(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                             ctx.input(2).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    if (out.bytes() > 0) {
      FORMWORK_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(out.mutable_raw(), ctx.input(0).raw(),
                                                    out.bytes(), cudaMemcpyDeviceToDevice,
                                                    CudaStreamOf(StreamOf(ctx))));
    }
    return kernel->Run(ctx, ScatterBy::kDepth, geometry, bad.ignored, ctx.input(1), ctx.input(2),
                       out);
  });
}

// ScatterNd(indices, updates, shape): into zeros.
absl::StatusOr<KernelFn> MakeScatterNd(KernelInit& init) {
  using Op = formwork_element::ScatterAdd;
  FORMWORK_ASSIGN_OR_RETURN(const BadIndices bad, BadIndicesOf(init));
  FORMWORK_ASSIGN_OR_RETURN(
      auto kernel,
      MakeScatterKernel<Op>(init, kOpName<Op>, init.input_dtypes()[1], init.input_dtypes()[0]));
  return KernelFn([bad, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const NewScatterGeometry geometry,
        PrepareScatterNd(ctx.input(2), ctx.input(0).shape().dims(), ctx.input(1).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    FORMWORK_RETURN_IF_ERROR(EnqueueZeros(out, CudaStreamOf(StreamOf(ctx))));
    return kernel->Run(ctx, ScatterBy::kDepth, geometry.scatter, bad.ignored, ctx.input(0),
                       ctx.input(1), out);
  });
}

}  // namespace

void RegisterIndexKernels(KernelRegistry& registry) {
  namespace element = formwork_element;
  registry.Add("Gather", &MakeGather<GatherBy::kRow>);
  registry.Add("GatherV2", &MakeGather<GatherBy::kAxis>);
  registry.Add("ResourceGather", &MakeGather<GatherBy::kRow>);
  registry.Add("GatherNd", &MakeGatherNd);
  AddOfOpenOrder(registry, "ScatterNd", &MakeScatterNd);
#define FORMWORK_ADD(op)                          \
  AddOfOpenOrder(registry, "ResourceScatter" #op, \
                 &MakeVariableScatter<element::Scatter##op, ScatterBy::kRow>);
  FORMWORK_SCATTER_OPS(FORMWORK_ADD)
#undef FORMWORK_ADD
#define FORMWORK_ADD(op)                                                                   \
  AddOfOpenOrder(registry, "TensorScatter" #op, &MakeTensorScatter<element::Scatter##op>); \
  AddOfOpenOrder(registry, "ResourceScatterNd" #op,                                        \
                 &MakeVariableScatter<element::Scatter##op, ScatterBy::kDepth>);
  FORMWORK_ADD(Update)
  FORMWORK_ADD(Add) FORMWORK_ADD(Sub) FORMWORK_ADD(Min) FORMWORK_ADD(Max)
#undef FORMWORK_ADD
}

}  // namespace formwork
