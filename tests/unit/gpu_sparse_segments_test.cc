// What GPUs do of segments of rows that indices choose (gpu/sparse_segment_functions.h), item by
// item, on the host against the op cases: results, and what a word says of bad indices and ids.

#include <map>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/sparse_segment_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

template <typename Call>
auto WithIndex(DType dtype, Call call) {
  return dtype == DType::kInt32 ? call(int32_t()) : call(int64_t());
}

template <typename Index, typename Id>
absl::Status Run(const SparseSegmentOp& op, KernelContext& ctx) {
  const DType dtype = ctx.input(0).dtype();
  FORMWORK_ASSIGN_OR_RETURN(const SegmentGeometry geometry, PrepareSparseSegmentCall(op, ctx));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, ZeroTensor(ctx.allocator(), dtype, shape));
  const auto n = static_cast<uint64_t>(ctx.input(1).num_elements());
  FailureWord word;
  const auto check = CheckRowsItemOf<Index, Id>(op, geometry, ctx, element::MayFailItem{&word, 5});
  RunItems(check, n);
  if (word.failed_step() != 0) return BadRow(op, check.rows, check.segments, word.where);
  if (op.is_gradient) {
    std::vector<uint64_t> counts(static_cast<size_t>(ctx.input(0).dim(0)) + 1);
    RunItems(element::CountIdsItem<Id>{ctx.input(2).data<Id>(), counts.data()}, n);
    const void* const of = op.scale == element::kSumOfRows ? nullptr : counts.data();
    const uint64_t elements = n * static_cast<uint64_t>(geometry.width);
    if (dtype == DType::kFloat) {
      RunItems(SparseSegmentGradItemOf<float, Index, Id>(op, geometry, ctx, of, out), elements);
    } else {
      RunItems(SparseSegmentGradItemOf<double, Index, Id>(op, geometry, ctx, of, out), elements);
    }
  } else if (out.num_elements() > 0) {
    const auto run = [&](auto t) {
      auto item = SparseSegmentItemOf<decltype(t), Index, Id>(op, geometry, ctx, out);
      item.width = static_cast<uint64_t>(out.num_elements() / out.dim(0));
      RunItems(item, static_cast<uint64_t>(out.num_elements()));
    };
    switch (dtype) {
      FORMWORK_REAL_CASES(run(T()); break)
      default:
        return Internal("no number");
    }
  }
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

const SparseSegmentOp* Find(absl::string_view name) {
  for (const SparseSegmentOp& op : SparseSegmentOps()) {
    if (op.op == name) return &op;
  }
  return nullptr;
}

absl::StatusOr<KernelFn> Make(KernelInit& init) {
  const SparseSegmentOp* const op = Find(init.op().name);
  const DType index = init.input_dtypes()[1], ids = init.input_dtypes()[2];
  if (!SparseSegmentItemName(*op, init.input_dtypes()[0], index, ids).ok()) {
    return Unimplemented("a dtype that a GPU leaves to the host");
  }
  return KernelFn([op, index, ids](KernelContext& ctx) -> absl::Status {
    return WithIndex(index, [&](auto i) {
      return WithIndex(ids, [&](auto id) { return Run<decltype(i), decltype(id)>(*op, ctx); });
    });
  });
}

TEST(GpuSparseSegmentsTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  for (const SparseSegmentOp& op : SparseSegmentOps()) kernels.Add(op.op, &Make);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"segment"}, .some_are_hosts = true}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 2) << op;
}

// Ids come first, whichever position is wrong; and of those the first.
TEST(GpuSparseSegmentsTest, TheWordTellsWhatIsWrong) {
  const SparseSegmentOp& sum = *Find("SparseSegmentSumWithNumSegments");
  const auto found = [&](std::vector<int32_t> indices, std::vector<int64_t> ids) {
    FailureWord word;
    RunItems(element::CheckRowsItem<int32_t, int64_t>{indices.data(), ids.data(), 3, 4, true,
                                                      element::MayFailItem{&word, 5}},
             ids.size());
    return word.failed_step() == 0 ? absl::OkStatus() : BadRow(sum, 3, 4, word.where);
  };
  EXPECT_OK(found({2, 0, 1}, {0, 0, 3}));
  EXPECT_EQ(found({2, 3, 1}, {0, 0, 3}).message(), "Bad: indices[1] == 3 out of range [0, 3)");
  EXPECT_EQ(found({3, 0, -1}, {0, 0, 4}).message(), "segment ids must be < num_segments");
  EXPECT_EQ(found({0, 0, 0}, {2, 1, 4}).message(), "segment ids are not increasing");
  EXPECT_EQ(found({0, 0, 0}, {-1, -2, 4}).message(), "segment ids must be >= 0");
}

}  // namespace
}  // namespace formwork::testing
