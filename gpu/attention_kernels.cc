// Attention on a GPU: through cuDNN, or a query at a time.

#include <memory>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/status.h"
#include "gpu/attention_items.h"
#include "gpu/cuda_stream.h"
#include "gpu/cudnn_attention.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

namespace element = formwork_element;

struct AttentionKernels {
  explicit AttentionKernels(DType dtype)
      : cudnn(dtype), items(AttentionItemName(dtype), AttentionText()) {}

  const CudnnAttention cudnn;
  ItemKernel items;  // Compiled when it is first used: where cuDNN is, hardly ever.
};

absl::StatusOr<KernelFn> MakeAttention(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const AttentionAttrs attrs, AttentionAttrs::FromAttrs(init.attrs()));
  auto kernels = std::make_unique<AttentionKernels>(init.output_dtypes()[0]);
  return KernelFn([attrs, kernels = std::move(kernels)](KernelContext& ctx) -> absl::Status {
    absl::InlinedVector<absl::Span<const int64_t>, 3> shapes;
    for (int i = 0; i < ctx.num_inputs(); ++i) shapes.push_back(ctx.input(i).shape().dims());
    FORMWORK_ASSIGN_OR_RETURN(const AttentionGeometry g, PrepareAttention(attrs, shapes));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    const element::AttentionCall call = AttentionCallOf(attrs, g, shapes);
    const int64_t rows = out.num_elements() / g.width;
    const int64_t batch = rows / (call.heads * g.queries);
    const char *q = InputBytes(ctx, 0), *k = InputBytes(ctx, 1), *v = InputBytes(ctx, 2);
    if (g.keys > 0) {
      if (const auto description = AttentionDescription::Of(batch, call)) {
        FORMWORK_ASSIGN_OR_RETURN(
            const bool done,
            kernels->cudnn.TryEnqueue(ctx, *description, call.scale, q, k, v, OutputBytes(out)));
        if (done) return absl::OkStatus();
      }
    }
    return kernels->items.Enqueue(element::AttentionItem<char>{q, k, v, OutputBytes(out), call},
                                  static_cast<uint64_t>(rows), {}, CudaStreamOf(StreamOf(ctx)));
  });
}

}  // namespace

void RegisterGpuAttentionKernels(KernelRegistry& registry) {
  registry.Add("_Attention", &MakeAttention);
  registry.SetAttention([](const AttentionKind& kind) {
    return Cudnn::Find() != nullptr && GpuTakesAttention(kind);
  });
}

}  // namespace formwork
