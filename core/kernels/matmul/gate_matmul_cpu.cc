// _GateMatMul: what the gates of a recurrent cell are made of.

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/base/status.h"
#include "core/kernels/conv/conv_packed_filter.h"
#include "core/kernels/conv/epilogue.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/gemm/panel_product.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/matmul.h"

namespace formwork {
namespace {

// Fewer rows are bound by reading the weights, which ordinary products do as well.
constexpr int64_t kFewRows = 4;

// `a`, or its one row so many times.
absl::StatusOr<Tensor> Rows(KernelContext& ctx, const Tensor& a, int64_t m) {
  if (a.shape().dim(0) == m) return a;
  const int64_t k = a.shape().dim(1);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({m, k}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor rows, Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
  CopyStrided(DType::kFloat, a.raw(), rows.mutable_raw(), {{m, 0, k}, {k, 1, 1}});
  return rows;
}

// Of one node, whose weights are expected to stay the same. Thread-safe.
class GateMatMul {
 public:
  explicit GateMatMul(size_t products) : memos_(products) {
    for (auto& memo : memos_) memo = std::make_unique<PackedFilterMemo>(/*calls_wanted=*/1);
  }

  absl::Status Run(KernelContext& ctx) {
    const size_t products = memos_.size();
    absl::InlinedVector<absl::Span<const int64_t>, 5> shapes;
    for (int i = 0; i < ctx.num_inputs(); ++i) shapes.push_back(ctx.input(i).shape().dims());
    FORMWORK_ASSIGN_OR_RETURN(const GateGeometry geometry,
                              PrepareGateMatMul(shapes, ctx.num_outputs()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape part, Shape::Make({geometry.m, geometry.part}));
    absl::InlinedVector<float*, 4> parts;
    for (int i = 0; i < ctx.num_outputs(); ++i) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(i, DType::kFloat, part));
      parts.push_back(output->mutable_data<float>());
    }
    if (part.num_elements() == 0) return absl::OkStatus();
    bool settled = geometry.m >= kFewRows;
    for (size_t i = 0; i < products && settled; ++i) settled = shapes[i][0] == geometry.m;
    for (size_t i = 0; i < products && geometry.m >= kFewRows; ++i) {
      settled = memos_[i]->Settled(ctx.input(static_cast<int>(products + i))) && settled;
    }
    if (settled && UsesOfPanels().gates && products <= 2 && geometry.part % kPanelColumns == 0) {
      const absl::Status status = RunPanels(ctx, geometry, parts);
      if (status.code() != absl::StatusCode::kResourceExhausted) return status;
      for (auto& memo : memos_) memo->Discourage();
    }
    return RunSum(ctx, geometry, parts);
  }

 private:
  absl::Status RunPanels(KernelContext& ctx, const GateGeometry& geometry,
                         absl::Span<float* const> parts) {
    const size_t products = memos_.size();
    absl::InlinedVector<Tensor, 2> panels;
    for (size_t i = 0; i < products; ++i) {
      FORMWORK_ASSIGN_OR_RETURN(
          Tensor packed,
          memos_[i]->Get(ctx.input(static_cast<int>(products + i)),
                         /*scale=*/nullptr, /*keep=*/true, FilterForm{}, ctx.allocator()));
      panels.push_back(std::move(packed));
    }
    auto floats = [&panels](size_t i) { return static_cast<const float*>(panels[i].raw()); };
    const float* const rows = ctx.input(0).data<float>();
    const int64_t depth = geometry.depths[0];
    PanelProduct product = {.m = geometry.m,
                            .n = geometry.n,
                            .taps = 1,
                            .depth = depth,
                            .panels = floats(0),
                            .bias = ctx.input(ctx.num_inputs() - 1).data<float>(),
                            .c = nullptr,
                            .ldc = geometry.part,
                            .parts = parts};
    if (products == 2) {
      product.plus = {geometry.depths[1], ctx.input(1).data<float>(), floats(1)};
    }
    RunPanelProduct(product, [&](int64_t first, int64_t count, const float** begins) {
      for (int64_t i = 0; i < count; ++i) begins[i] = rows + (first + i) * depth;
    });
    return absl::OkStatus();
  }

  // The sum as a whole, then its parts.
  absl::Status RunSum(KernelContext& ctx, const GateGeometry& geometry,
                      absl::Span<float* const> parts) {
    const int64_t m = geometry.m, n = geometry.n, part = geometry.part;
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({m, n}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor sum, Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
    float* const to = sum.mutable_data<float>();
    for (size_t i = 0; i < memos_.size(); ++i) {
      const int64_t k = geometry.depths[i];
      FORMWORK_ASSIGN_OR_RETURN(const Tensor rows, Rows(ctx, ctx.input(static_cast<int>(i)), m));
      Gemm(false, false, m, n, k, rows.data<float>(), k,
           ctx.input(static_cast<int>(memos_.size() + i)).data<float>(), n, i > 0 ? 1.0f : 0.0f, to,
           n);
    }
    EpilogueOperands bias;
    bias.steps.bias = true;
    bias.bias = &ctx.input(ctx.num_inputs() - 1);
    RunEpilogue(bias, m, n, to, to);
    for (size_t i = 0; i < parts.size(); ++i) {
      CopyStrided(DType::kFloat, to + static_cast<int64_t>(i) * part, parts[i],
                  {{m, n, part}, {part, 1, 1}});
    }
    return absl::OkStatus();
  }

  std::vector<std::unique_ptr<PackedFilterMemo>> memos_;
};

absl::StatusOr<KernelFn> MakeGateMatMul(KernelInit& init) {
  auto product = std::make_unique<GateMatMul>(init.input_dtypes().size() / 2);
  return KernelFn([product = std::move(product)](KernelContext& ctx) { return product->Run(ctx); });
}

}  // namespace

void RegisterGateMatMulKernel(KernelRegistry& registry) {
  registry.Add("_GateMatMul", MakeGateMatMul);
}

}  // namespace formwork
