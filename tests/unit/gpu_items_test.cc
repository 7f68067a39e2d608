// What GPUs do of gathers, scatters and moves, item by item (gpu/item_functions.h), on the host
// against the op cases: results, and what a word says of indices that are out of range.

#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/index_items.h"
#include "gpu/moves.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;
using element::MayFailItem;

absl::StatusOr<KernelFn> MakeMoves(KernelInit& init) {
  absl::StatusOr<MovePlanner> made = MakeMovePlanner(init);
  if (absl::IsUnimplemented(made.status())) {
    return Unimplemented("a dtype that a GPU leaves to the host");
  }
  FORMWORK_RETURN_IF_ERROR(made.status());
  auto planner = std::make_shared<const MovePlanner>(*std::move(made));
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([planner, dtype, op = &init.op()](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const MovePlan plan, (*planner)(ctx));
    std::vector<Tensor> outputs;
    std::vector<Aligned> memory;
    for (const Shape& shape : plan.outputs) {
      FORMWORK_ASSIGN_OR_RETURN(outputs.emplace_back(),
                                Tensor::Allocate(ctx.allocator(), dtype, shape));
      memory.emplace_back(outputs.back());
    }
    const size_t size = DTypeSize(dtype);
    if (plan.fill != MovePlan::Fill::kNone) {
      WithUnit(size, [&](auto e) {
        using E = decltype(e);
        const auto n = static_cast<uint64_t>(outputs[0].num_elements());
        E* const to = reinterpret_cast<E*>(memory[0].data());
        E value{};
        if (plan.fill == MovePlan::Fill::kInput) {
          EXPECT_FALSE(op->inputs[static_cast<size_t>(plan.fill_input)].host) << op->name;
          std::memcpy(&value, ctx.input(plan.fill_input).raw(), sizeof(E));
          return RunItems(element::FillItem<E>{&value, to}, n);
        }
        // Zeros are set by CUDA.
        if (plan.fill == MovePlan::Fill::kValue) std::memcpy(&value, &plan.fill_value, sizeof(E));
        RunItems(element::SetItem<E>{value, to}, n);
      });
    }
    for (const Move& move : plan.moves) {
      Aligned from(ctx.input(move.input));
      FORMWORK_ASSIGN_OR_RETURN(const UnitCopy copy, UnitCopyOf(move, size));
      WithUnit(copy.unit, [&](auto e) {
        RunItems(CopyItemOf<decltype(e)>(copy, from.data(), memory[move.output].data()),
                 copy.units);
      });
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      memory[i].CopyTo(outputs[i]);
      ctx.SetOutput(static_cast<int>(i), std::move(outputs[i]));
    }
    return absl::OkStatus();
  });
}

template <typename Call>
auto WithIndex(DType dtype, Call call) {
  return dtype == DType::kInt32 ? call(int32_t()) : call(int64_t());
}

// A value whose memory is `memory`.
Tensor At(const Tensor& like, Aligned& memory, std::vector<std::unique_ptr<BufferBlock>>& blocks) {
  class Nobody final : public Allocator {
   public:
    absl::StatusOr<BufferBlock*> Allocate(size_t, Stream*) override { return Internal("nothing"); }
    void Free(BufferBlock*) override {}
  };
  static Nobody nobody;
  BufferBlock& block = *blocks.emplace_back(std::make_unique<BufferBlock>());
  block.data = memory.data();
  block.bytes = block.capacity = like.bytes();
  block.allocator = &nobody;
  return Tensor::OfBuffer(like.dtype(), like.shape(), Buffer(&block));
}

template <bool kByAxis>
absl::StatusOr<KernelFn> MakeGather(KernelInit& init) {
  GatherAttrs attrs;
  if (init.op().FindAttr("batch_dims") != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(attrs, GatherAttrs::FromAttrs(init.attrs()));
  }
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    Tensor params = ctx.input(0);
    if (params.dtype() == DType::kResource) {
      FORMWORK_ASSIGN_OR_RETURN(params, ctx.resources().Read(params.scalar<ResourceHandle>()));
    }
    const absl::Span<const int64_t> dims = params.shape().dims();
    const Tensor& indices = ctx.input(1);
    absl::StatusOr<GatherGeometry> geometry =
        PrepareGatherRows(attrs, dims, indices.shape().dims());
    if constexpr (kByAxis) {
      geometry = PrepareGather(attrs, dims, indices.shape().dims(), ctx.input(2));
    }
    FORMWORK_RETURN_IF_ERROR(geometry.status());
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry->output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), params.dtype(), shape));
    FailureWord word;
    const MayFailItem may_fail{&word, 5};
    const size_t bytes = static_cast<size_t>(geometry->inner) * DTypeSize(params.dtype());
    Aligned from(params), to(out);
    std::vector<std::unique_ptr<BufferBlock>> blocks;
    const Tensor params_there = At(params, from, blocks);
    Tensor out_there = At(out, to, blocks);
    WithIndex(indices.dtype(), [&](auto index) {
      using Index = decltype(index);
      if (out.num_elements() == 0) {
        element::IndexRows rows{};
        rows.depth = 1;
        rows.dims[0] = geometry->dim;
        rows.strides[0] = 1;
        RunItems(element::CheckIndicesItem<Index>{static_cast<const Index*>(indices.raw()), rows,
                                                  true, may_fail},
                 static_cast<uint64_t>(indices.num_elements()));
        return;
      }
      const size_t unit = UnitOf(bytes);
      WithUnit(unit, [&](auto e) {
        RunItems(GatherItemOf<decltype(e), Index>(*geometry, bytes, params_there, indices,
                                                  out_there, may_fail),
                 out.bytes() / unit);
      });
    });
    if (word.failed_step() != 0) {
      return IndexOutOfRange(word.where, indices.shape().dims(), geometry->dim);
    }
    out_there = Tensor();
    to.CopyTo(out);
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeGatherNd(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BadIndices bad, BadIndices::FromAttrs(init.attrs()));
  return KernelFn([bad](KernelContext& ctx) -> absl::Status {
    const Tensor& params = ctx.input(0);
    const Tensor& indices = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const GatherNdGeometry geometry,
                              PrepareGatherNd(params.shape().dims(), indices.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(const element::IndexRows rows,
                              IndexRowsOf(params.shape(), geometry.depth));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), params.dtype(), shape));
    FailureWord word;
    const size_t bytes = static_cast<size_t>(geometry.inner) * DTypeSize(params.dtype());
    Aligned from(params), to(out);
    std::vector<std::unique_ptr<BufferBlock>> blocks;
    const Tensor params_there = At(params, from, blocks);
    Tensor out_there = At(out, to, blocks);
    if (out.num_elements() > 0) {
      const size_t unit = UnitOf(bytes);
      WithIndex(indices.dtype(), [&](auto index) {
        WithUnit(unit, [&](auto e) {
          RunItems(GatherNdItemOf<decltype(e), decltype(index)>(rows, bytes, bad.ignored,
                                                                params_there, indices, out_there,
                                                                MayFailItem{&word, 5}),
                   out.bytes() / unit);
        });
      });
    }
    if (word.failed_step() != 0) {
      const size_t outer = static_cast<size_t>(indices.rank()) - 1;
      return RowOutOfRange(word.where, indices.shape().dims().first(outer),
                           "index into param shape " + params.shape().ToString());
    }
    out_there = Tensor();
    to.CopyTo(out);
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

// The check, and then the updates unless that has failed.
template <typename Op, typename T>
absl::Status ScatterAs(const ScatterGeometry& geometry, bool by_row, bool ignores,
                       const Tensor& indices, const Tensor& updates, Tensor& target) {
  if (geometry.count == 0) return absl::OkStatus();
  const int64_t depth = by_row ? 1 : geometry.depth;
  FORMWORK_ASSIGN_OR_RETURN(const element::IndexRows rows, IndexRowsOf(target.shape(), depth));
  FailureWord word;
  return WithIndex(indices.dtype(), [&](auto index) -> absl::Status {
    using Index = decltype(index);
    if (!ignores) {
      RunItems(element::CheckIndicesItem<Index>{static_cast<const Index*>(indices.raw()), rows,
                                                by_row, MayFailItem{&word, 5}},
               static_cast<uint64_t>(geometry.count));
    }
    if (word.failed_step() != 0) {
      const absl::Span<const int64_t> dims = indices.shape().dims();
      return by_row ? IndexOutOfRange(word.where, dims, target.dim(0))
                    : RowOutOfRange(word.where, dims.first(dims.size() - 1),
                                    "index into shape " + target.shape().ToString());
    }
    Aligned memory(target);
    std::vector<std::unique_ptr<BufferBlock>> blocks;
    Tensor there = At(target, memory, blocks);
    // In order: of several updates of one the cases expect the last.
    const auto item = ScatterItemOf<T, Index, Op>(rows, static_cast<size_t>(geometry.inner), there,
                                                  indices, updates, geometry.scalar_update);
    const auto n = static_cast<uint64_t>(geometry.count * geometry.inner);
    for (uint64_t i = 0; i < n; ++i) item(i);
    there = Tensor();
    memory.CopyTo(target);
    return absl::OkStatus();
  });
}

template <typename Op>
absl::Status Scatter(const ScatterGeometry& geometry, bool by_row, bool ignores,
                     const Tensor& indices, const Tensor& updates, Tensor& target) {
  switch (target.dtype()) {
    case DType::kFloat:
      return ScatterAs<Op, float>(geometry, by_row, ignores, indices, updates, target);
    case DType::kDouble:
      return ScatterAs<Op, double>(geometry, by_row, ignores, indices, updates, target);
    case DType::kInt32:
      return ScatterAs<Op, int32_t>(geometry, by_row, ignores, indices, updates, target);
    case DType::kInt64:
      return ScatterAs<Op, int64_t>(geometry, by_row, ignores, indices, updates, target);
    case DType::kUint32:
      return ScatterAs<Op, uint32_t>(geometry, by_row, ignores, indices, updates, target);
    case DType::kUint64:
      return ScatterAs<Op, uint64_t>(geometry, by_row, ignores, indices, updates, target);
    default:
      return Unimplemented("a dtype that a GPU leaves to the host");
  }
}

absl::StatusOr<BadIndices> BadIndicesOf(const KernelInit& init) {
  if (init.op().FindAttr("bad_indices_policy") == nullptr) return BadIndices{};
  return BadIndices::FromAttrs(init.attrs());
}

template <typename Op, bool kByRow>
absl::StatusOr<KernelFn> MakeVariableScatter(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BadIndices bad, BadIndicesOf(init));
  return KernelFn([bad](KernelContext& ctx) -> absl::Status {
    const Tensor& indices = ctx.input(1);
    const Tensor& updates = ctx.input(2);
    return ctx.resources().Update(
        ctx.input(0).scalar<ResourceHandle>(), 0, [&](Tensor& target) -> absl::Status {
          const auto prepare = kByRow ? &PrepareScatterRows : &PrepareScatterNdUpdate;
          FORMWORK_ASSIGN_OR_RETURN(
              const ScatterGeometry geometry,
              prepare(target.shape().dims(), indices.shape().dims(), updates.shape().dims()));
          return Scatter<Op>(geometry, kByRow, bad.ignored, indices, updates, target);
        });
  });
}

template <typename Op>
absl::StatusOr<KernelFn> MakeTensorScatter(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BadIndices bad, BadIndicesOf(init));
  return KernelFn([bad](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ScatterGeometry geometry,
        PrepareTensorScatter(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                             ctx.input(2).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, ctx.input(0).Clone(ctx.allocator()));
    FORMWORK_RETURN_IF_ERROR(
        Scatter<Op>(geometry, false, bad.ignored, ctx.input(1), ctx.input(2), out));
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

class GpuItemsTest : public ::testing::Test {
 protected:
  GpuItemsTest() { RegisterOps(ops_); }

  // Every case of the registry's ops in these files; how many of each op there were.
  std::map<std::string, int> RunCases(const std::vector<std::string>& files) {
    const auto as_a_word_tells = [](OpCase& op_case) {
      // Of rows of indices a word tells the position alone.
      const size_t row = op_case.error_text.find(" = ["), end = op_case.error_text.find("] does");
      if (row < end && end != std::string::npos) op_case.error_text.erase(row, end + 1 - row);
      return OnGpu(op_case);
    };
    return RunGpuCases({.files = files, .some_are_hosts = true, .edit = as_a_word_tells}, ops_,
                       kernels_);
  }

  OpRegistry ops_;
  KernelRegistry kernels_{ops_};

 private:
  static bool OnGpu(const OpCase& op_case) {
    for (const ValueText& input : op_case.inputs) {
      if (input.dtype == DType::kString || input.dtype == DType::kVariant ||
          input.dtype == DType::kInt16) {
        return false;  // An index of 16 bits, among them.
      }
    }
    return true;
  }
};

TEST_F(GpuItemsTest, MovesGiveWhatTensorFlowDoes) {
  for (const absl::string_view op : MovingOps()) kernels_.Add(op, &MakeMoves);
  std::map<std::string, int> tried = RunCases({"array", "array_layout"});
  for (const absl::string_view op : MovingOps()) EXPECT_GT(tried[std::string(op)], 0) << op;
}

TEST_F(GpuItemsTest, GathersGiveWhatTensorFlowDoes) {
  kernels_.Add("Gather", &MakeGather<false>);
  kernels_.Add("GatherV2", &MakeGather<true>);
  kernels_.Add("ResourceGather", &MakeGather<false>);
  kernels_.Add("GatherNd", &MakeGatherNd);
  RunCases({"gather", "variable"});
}

TEST_F(GpuItemsTest, ScattersGiveWhatTensorFlowDoes) {
#define FORMWORK_ADD(op) \
  kernels_.Add("ResourceScatter" #op, &MakeVariableScatter<element::Scatter##op, true>);
  FORMWORK_ADD(Update)
  FORMWORK_ADD(Add)
  FORMWORK_ADD(Sub)
  FORMWORK_ADD(Mul)
  FORMWORK_ADD(Min)
  FORMWORK_ADD(Max)
#undef FORMWORK_ADD
#define FORMWORK_ADD(op)                                                       \
  kernels_.Add("TensorScatter" #op, &MakeTensorScatter<element::Scatter##op>); \
  kernels_.Add("ResourceScatterNd" #op, &MakeVariableScatter<element::Scatter##op, false>);
  FORMWORK_ADD(Update)
  FORMWORK_ADD(Add)
  FORMWORK_ADD(Sub)
  FORMWORK_ADD(Min)
  FORMWORK_ADD(Max)
#undef FORMWORK_ADD
  RunCases({"gather", "variable"});
}

TEST(FailureWhere, TellsWhatFits) {
  const Dims indices = {2, 3};
  EXPECT_EQ(IndexOutOfRange(element::WhereOf(4, -7), indices, 5).message(),
            "indices[1,1] = -7 is not in [0, 5)");
  EXPECT_EQ(IndexOutOfRange(element::WhereOf(0, 1ll << 40), indices, 5).message(),
            "indices[0,0] is not in [0, 5)");
  EXPECT_EQ(IndexOutOfRange(element::WhereOf(1ll << 32, 9), indices, 5).message(),
            "indices is not in [0, 5)");
  EXPECT_EQ(IndexOutOfRange(element::WhereOf(0, 9), {}, 5).message(),
            "indices = 9 is not in [0, 5)");
  // The first position is the one that is kept, whatever stands there.
  EXPECT_LT(element::WhereOf(3, INT32_MAX), element::WhereOf(4, -5));
}

TEST(UnitCopies, TakeAsMuchAtATimeAsLiesTogether) {
  const auto units = [](const Move& move, size_t bytes) {
    const absl::StatusOr<UnitCopy> copy = UnitCopyOf(move, bytes);
    EXPECT_OK(copy);
    return std::pair<size_t, uint64_t>(copy->unit, copy->units);
  };
  using P = std::pair<size_t, uint64_t>;
  EXPECT_EQ(units({.dims = {{6, 8, 8}, {8, 1, 1}}}, 4), P(16, 12));   // One run of 48.
  EXPECT_EQ(units({.dims = {{6, 16, 8}, {8, 1, 1}}}, 4), P(16, 12));  // Rows of a larger value.
  EXPECT_EQ(units({.from = 2, .dims = {{6, 16, 8}, {8, 1, 1}}}, 4), P(8, 24));
  EXPECT_EQ(units({.dims = {{6, 7, 7}, {6, 1, 1}}}, 2), P(2, 36));
  EXPECT_EQ(units({.dims = {{4, 1, 3}, {3, 4, 1}}}, 4), P(4, 12));  // A transpose.
  EXPECT_EQ(units({.dims = {{4, -1, 1}}}, 4), P(4, 4));
  EXPECT_EQ(units({.dims = {{4, 1, 1}, {0, 1, 1}}}, 4).second, 0u);
}

}  // namespace
}  // namespace formwork::testing
