// _Attention: a block of queries against a block of keys at a time, whose scores stay in the cache
// (Dao et al., "FlashAttention", 2022), each operand read where it lies.

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/isa.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/nn/softmax_loops.h"
#include "core/kernels/widen.h"
#include "core/ops/attention.h"

namespace formwork {
namespace {

// Scores of one block: with the keys and values of it they fit the second level of cache.
constexpr int64_t kBlockScores = 32 * 1024;
constexpr int64_t kMostKeys = 256;  // Of a block. Measured: more or fewer are no faster.
constexpr int64_t kFewestQueries = 16;
// Multiplications that are worth a task of their own.
constexpr double kTask = 1 << 20;

struct Operands {
  AttentionGeometry g;
  float scale, hidden;
  const float *q, *k, *v;
  const float* mask;  // Null where there is none; so is that of bools.
  const bool* shown;
  float* output;
  AttentionStrides of_q, of_k, of_v, of_mask, of_output;
  bool keys_last;         // In k, in the place of depth.
  int64_t queries, keys;  // Of a block.
  int64_t blocks;         // Of queries.
};

// Rows of a matrix with one row, or rows of one element, may lie at any distance.
int64_t Leading(int64_t stride, int64_t columns) { return std::max(stride, columns); }

struct ScaleEachRow {
  FORMWORK_ISA_INLINE static void Run(int64_t rows, int64_t n, const float* by, float* x,
                                      int64_t ld) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < n; ++i) x[r * ld + i] *= by[r];
    }
  }
};

// The queries [first, first + rows) of one head; `scratch`: as ScratchSize says.
void RunBlock(const Operands& o, absl::Span<const int64_t> head, int64_t first, int64_t rows,
              float* scratch) {
  const AttentionGeometry& g = o.g;
  const float* const q = o.q + o.of_q.Offset(head) + first * o.of_q.row;
  const float* const k = o.k + o.of_k.Offset(head);
  const float* const v = o.v + o.of_v.Offset(head);
  float* const output = o.output + o.of_output.Offset(head) + first * o.of_output.row;
  const int64_t output_row = Leading(o.of_output.row, g.width);
  float* const sum = scratch;
  float* const largest = sum + rows;
  float* const by = largest + rows;
  float* const scores = by + rows;
  for (int64_t key = 0; key < g.keys && !WorkIsCut(); key += o.keys) {
    const int64_t n = std::min(o.keys, g.keys - key);
    const int64_t k_row = o.keys_last ? Leading(o.of_k.row, g.keys) : Leading(o.of_k.row, g.depth);
    Gemm(false, !o.keys_last, rows, n, g.depth, q, Leading(o.of_q.row, g.depth),
         k + key * (o.keys_last ? 1 : o.of_k.row), k_row, 0.0f, scores, n);
    SoftmaxPart part = {.rows = rows,
                        .n = n,
                        .scale = o.scale,
                        .mask = nullptr,
                        .shown = nullptr,
                        .hidden = o.hidden,
                        .mask_row = o.of_mask.row,
                        .mask_column = o.of_mask.column,
                        .x = scores,
                        .largest = largest,
                        .sum = sum,
                        .by = key == 0 ? nullptr : by};
    const int64_t masked = first * o.of_mask.row + key * o.of_mask.column;
    if (o.mask != nullptr) part.mask = o.mask + o.of_mask.Offset(head) + masked;
    if (o.shown != nullptr) part.shown = o.shown + o.of_mask.Offset(head) + masked;
    RunSoftmaxPart(part);
    if (key > 0) ForHostIsa<ScaleEachRow>(rows, g.width, by, output, output_row);
    Gemm(false, false, rows, g.width, n, scores, n, v + key * o.of_v.row,
         Leading(o.of_v.row, g.width), key == 0 ? 0.0f : 1.0f, output, output_row);
  }
  for (int64_t r = 0; r < rows; ++r) sum[r] = 1 / sum[r];
  ForHostIsa<ScaleEachRow>(rows, g.width, sum, output, output_row);
}

int64_t ScratchSize(const Operands& o) { return o.queries * (o.keys + 3); }

// Blocks [begin, end) of all heads'.
void RunBlocks(const Operands& o, int64_t begin, int64_t end, float* scratch) {
  Dims head(o.g.batch.size(), 0);
  for (int64_t i = begin; i < end && !WorkIsCut(); ++i) {
    int64_t rest = i / o.blocks;
    for (size_t b = head.size(); b-- > 0;) {
      head[b] = rest % o.g.batch[b];
      rest /= o.g.batch[b];
    }
    const int64_t first = i % o.blocks * o.queries;
    RunBlock(o, head, first, std::min(o.queries, o.g.queries - first), scratch);
  }
}

bool IsFloatOrBool(const Tensor& tensor) {
  return tensor.dtype() == DType::kFloat || tensor.dtype() == DType::kBool;
}

// Half and bfloat16 are widened, and rounded once.
absl::Status Attend(KernelContext& ctx, const AttentionAttrs& attrs) {
  absl::InlinedVector<absl::Span<const int64_t>, 4> shapes;
  std::array<Tensor, 4> widened;
  std::array<const Tensor*, 4> inputs{};
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    inputs[i] = &ctx.input(i);
    shapes.push_back(inputs[i]->shape().dims());
    if (IsFloatOrBool(*inputs[i])) continue;
    FORMWORK_ASSIGN_OR_RETURN(widened[i], Widened(ctx.allocator(), *inputs[i]));
    inputs[i] = &widened[i];
  }
  Operands o;
  FORMWORK_ASSIGN_OR_RETURN(o.g, PrepareAttention(attrs, shapes));
  const AttentionGeometry& g = o.g;
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(g.output));
  const DType dtype = ctx.input(0).dtype();
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  if (g.keys == 0) {  // Sums of nothing.
    ZeroElements(*output);
    return absl::OkStatus();
  }
  Tensor sums;
  const bool narrow = dtype != DType::kFloat;
  if (narrow) {
    FORMWORK_ASSIGN_OR_RETURN(sums, Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
  }
  o.output = narrow ? sums.mutable_data<float>() : output->mutable_data<float>();
  o.scale = attrs.scale;
  o.q = inputs[0]->data<float>();
  o.k = inputs[1]->data<float>();
  o.v = inputs[2]->data<float>();
  o.mask = nullptr;
  o.shown = nullptr;
  o.hidden = attrs.hidden;
  if (inputs[3] != nullptr) {
    const Tensor& mask = *inputs[3];
    if (mask.dtype() == DType::kBool) {
      o.shown = mask.data<bool>();
    } else {
      o.mask = mask.data<float>();
    }
    o.of_mask = StridesOf(shapes[3], attrs.scores, attrs.scores.queries, attrs.scores.keys);
  }
  o.keys_last = attrs.k.keys > attrs.k.depth;
  o.of_q = StridesOf(shapes[0], attrs.q, attrs.q.queries, attrs.q.depth);
  o.of_k = o.keys_last ? StridesOf(shapes[1], attrs.k, attrs.k.depth, attrs.k.keys)
                       : StridesOf(shapes[1], attrs.k, attrs.k.keys, attrs.k.depth);
  o.of_v = StridesOf(shapes[2], attrs.v, attrs.v.keys, attrs.v.width);
  o.of_output = StridesOf(shape.dims(), attrs.output, attrs.output.queries, attrs.output.width);
  o.keys = std::min(g.keys, kMostKeys);
  o.queries = std::min(g.queries, std::max(kBlockScores / o.keys, kFewestQueries));
  o.blocks = (g.queries + o.queries - 1) / o.queries;
  int64_t tasks = o.blocks;
  for (int64_t dim : g.batch) tasks *= dim;
  const double work = static_cast<double>(o.queries) * static_cast<double>(g.keys) *
                      static_cast<double>(g.depth + g.width) * static_cast<double>(tasks);
  const int64_t stripes = std::clamp<int64_t>(static_cast<int64_t>(std::min(work / kTask, 1e6)), 1,
                                              std::min<int64_t>(tasks, ParallelThreads()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape scratch_shape, Shape::Make({stripes, ScratchSize(o)}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor scratch,
                            Tensor::Allocate(ctx.allocator(), DType::kFloat, scratch_shape));
  float* const floats = scratch.mutable_data<float>();
  ParallelFor(stripes, 1, [&](int64_t begin, int64_t end) {
    RunBlocks(o, tasks * begin / stripes, tasks * end / stripes, floats + begin * ScratchSize(o));
  });
  if (narrow) NarrowTo(dtype, o.output, shape.num_elements(), output->mutable_raw());
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeAttention(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(AttentionAttrs attrs, AttentionAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs = std::move(attrs)](KernelContext& ctx) { return Attend(ctx, attrs); });
}

}  // namespace

void RegisterAttentionKernel(KernelRegistry& registry) {
  registry.Add("_Attention", MakeAttention);
  registry.SetAttention([](const AttentionKind& kind) { return kind.dtype == DType::kFloat; });
}

}  // namespace formwork
