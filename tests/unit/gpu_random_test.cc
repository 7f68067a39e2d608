// What GPUs draw (gpu/random_functions.h), group by group, on the host against the op cases, and
// against the CPU's own numbers.

#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/kernels/random/random_cpu.h"
#include "core/kernels/random/random_fill.h"
#include "core/ops/register_ops.h"
#include "gpu/random_items.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

// Groups of a call, in any order: here from the last one to the first. Into memory as a GPU's is:
// it begins at a multiple of 16 bytes, and what the kernel must not touch lies behind it.
template <typename E, typename Draw>
void Fill(const RandomCall& call, Tensor& out) {
  const size_t bytes = out.bytes();
  std::vector<element::Bytes16> memory(bytes / 16 + 2, element::Bytes16{{~0ull, ~0ull}});
  auto* const begin = reinterpret_cast<unsigned char*>(memory.data());
  element::RandomItem<E, Draw> item = RandomItemOf<E, Draw>(call, out);
  item.to = reinterpret_cast<E*>(begin);
  for (uint64_t group = RandomGroups(out); group-- > 0;) item(group);
  if (bytes > 0) std::memcpy(out.mutable_raw(), begin, bytes);
  for (size_t i = bytes; i < memory.size() * 16; ++i) EXPECT_EQ(begin[i], 0xff);
}

// By the items' names as the kernels' texts have them.
using Fills = std::map<std::string, void (*)(const RandomCall&, Tensor&)>;

template <typename Draw>
void AddFloats(Fills& fills, const std::string& draw) {
  fills["RandomItem<float, " + draw + ">"] = &Fill<float, Draw>;
  fills["RandomItem<double, " + draw + ">"] = &Fill<double, Draw>;
  fills["RandomItem<half, " + draw + ">"] = &Fill<half, Draw>;
  fills["RandomItem<bfloat16, " + draw + ">"] = &Fill<bfloat16, Draw>;
}
template <typename Draw>
void AddIntegers(Fills& fills, const std::string& draw) {
  fills["RandomItem<int32_t, " + draw + ">"] = &Fill<int32_t, Draw>;
  fills["RandomItem<int64_t, " + draw + ">"] = &Fill<int64_t, Draw>;
  fills["RandomItem<uint32_t, " + draw + ">"] = &Fill<uint32_t, Draw>;
  fills["RandomItem<uint64_t, " + draw + ">"] = &Fill<uint64_t, Draw>;
}

const Fills& AllFills() {
  static const auto* const fills = [] {
    auto* const made = new Fills;
    AddFloats<element::UniformDraw>(*made, "UniformDraw");
    AddFloats<element::NormalDraw>(*made, "NormalDraw");
    AddFloats<element::TruncatedNormalDraw>(*made, "TruncatedNormalDraw");
    AddIntegers<element::FullIntDraw>(*made, "FullIntDraw");
    AddIntegers<element::RangeDraw>(*made, "RangeDraw");
    return made;
  }();
  return *fills;
}

absl::StatusOr<KernelFn> MakeRandom(KernelInit& init) {
  const RandomOp& op = *FindRandomOp(init.op().name);
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const std::string item, RandomItemName(op, dtype));
  FORMWORK_ASSIGN_OR_RETURN(RandomPlanner made, MakeRandomPlanner(op, init));
  const auto planner = std::make_shared<const RandomPlanner>(std::move(made));
  const auto fill = AllFills().at(item);
  return KernelFn([&op, dtype, planner, fill](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(RandomCall call, (*planner)(ctx));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, call.shape));
    if (op.from == RandomOp::From::kGenerator) {
      FORMWORK_RETURN_IF_ERROR(
          UpdateGenerator(ctx, ctx.input(1).scalar<int64_t>(), [&](Tensor& state) {
            call.source = SourceIn(state);
            fill(call, out);
            SkipItemOf(state, static_cast<uint64_t>(out.num_elements()))(0);
            return absl::OkStatus();
          }));
    } else {
      fill(call, out);
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

TEST(GpuRandomTest, DrawsWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  for (const RandomOp& op : RandomOps()) kernels.Add(op.op, &MakeRandom);
  std::map<std::string, int> tried = RunGpuCases({.files = {"random"}}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 2) << op;
}

TEST(GpuRandomTest, LeavesOtherDTypesToTheHost) {
  const RandomOp& uniform = *FindRandomOp("StatelessRandomUniformV2");
  const RandomOp& integers = *FindRandomOp("StatefulUniformInt");
  EXPECT_EQ(RandomItemName(uniform, DType::kInt32).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(RandomItemName(integers, DType::kInt8).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(FindRandomOp("RandomShuffle"), nullptr);
}

// Where a counter's words run over, and of sizes that end within a group.
const Philox kStarts[] = {
    Philox(),
    Philox(5, 7, 123456789012345),
    Philox(~uint64_t{2}, ~uint64_t{0}, ~uint64_t{0}),
    Philox(0xffffffff, 0, 1),
    Philox(0xffffffff00000000, 9, uint64_t{1} << 63),
};

// Of every dtype, bit for bit.
TEST(GpuRandomTest, UniformNumbersAndIntegersAreTheCpus) {
  for (const Philox& start : kStarts) {
    const element::PhiloxAt known{start.counter_lo(), start.counter_hi(), start.key()};
    for (const int64_t n : {1, 2, 3, 4, 5, 6, 1003, 70001}) {
      const auto expect_same = [&](const std::string& item, DType dtype, RandomFillFn cpus) {
        Tensor want = *Tensor::Allocate(ProcessAllocator(), dtype, Shape({n}));
        Tensor got = *Tensor::Allocate(ProcessAllocator(), dtype, Shape({n}));
        cpus(start, want);
        AllFills().at(item)({Shape({n}), {nullptr, nullptr, known}, {}}, got);
        EXPECT_EQ(std::memcmp(want.raw(), got.raw(), want.bytes()), 0) << item << " of " << n;
      };
      const RandomOp& uniform = *FindRandomOp("StatelessRandomUniformV2");
      for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
        ASSERT_OK_AND_ASSIGN(const std::string item, RandomItemName(uniform, dtype));
        expect_same(item, dtype, RandomFillFor(Distribution::kUniform, dtype));
      }
      const RandomOp& full = *FindRandomOp("StatelessRandomUniformFullIntV2");
      for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUint32, DType::kUint64}) {
        ASSERT_OK_AND_ASSIGN(const std::string item, RandomItemName(full, dtype));
        expect_same(item, dtype, RandomFillFor(Distribution::kFullInt, dtype));
      }
    }
  }
}

TEST(GpuRandomTest, GeneratorsMoveOnAsTheCpus) {
  for (const Philox& start : kStarts) {
    for (const uint64_t numbers :
         {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 60) + 3, ~uint64_t{1}}) {
      Philox after = start;
      after.Skip(numbers * kReservedGroups);
      Tensor state = VectorOf<int64_t>({static_cast<int64_t>(start.counter_lo()),
                                        static_cast<int64_t>(start.counter_hi()),
                                        static_cast<int64_t>(start.key()), 99});
      element::SkipItem item = SkipItemOf(state, numbers);
      uint64_t before[4] = {0, 0, 0, 99};
      item.before = before;
      item(0);
      EXPECT_THAT(before,
                  ::testing::ElementsAre(start.counter_lo(), start.counter_hi(), start.key(), 99));
      EXPECT_EQ(ValuesOf<int64_t>(state),
                (std::vector<int64_t>{static_cast<int64_t>(after.counter_lo()),
                                      static_cast<int64_t>(after.counter_hi()),
                                      static_cast<int64_t>(after.key()), 99}));
    }
  }
}

}  // namespace
}  // namespace formwork::testing
