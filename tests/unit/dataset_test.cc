// What datasets take and how they end. That elements are TensorFlow's:
// tests/python/programs_data.py.

#include <thread>

#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

class DatasetTest : public PlanFixture {
 protected:
  // Of a dataset `d` of one int64, made of `n`; `functions`: what its nodes name.
  void MakeSum(absl::string_view nodes, absl::string_view functions = "") {
    Make(absl::StrCat(std::string(R"(
    n = Placeholder dtype=int64
    zero = Const int64[] 0
    one = Const int64[] 1
    endless = Const int64[] -1
    range = RangeDataset(zero, n, one) output_types=[int64] output_shapes=[shape:?]
)"),
                      std::string(nodes), R"(
    sum = ReduceDataset(d, zero) f=@add Tstate=[int64] Targuments=[] output_types=[int64] output_shapes=[shape:?]
    function add(a: int64, b: int64) -> (r: int64 = s:z:0)
      flat = Reshape(b, k1:output:0) T=int64 Tshape=int32
      k1 = Const int32[1] -1
      axis = Const int32[] 0
      one = Sum(flat:output:0, axis:output:0) T=int64 Tidx=int32
      s = AddV2(a, one:output:0) T=int64
    end
)",
                      std::string(functions)),
         {{"n:0", DType::kInt64}}, {"sum:0"});
  }
  absl::StatusOr<int64_t> Sum(int64_t n) {
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, Run(Owned(Tensor::Scalar(n))));
    return outputs[0].scalar<int64_t>();
  }
};

constexpr char kNever[] = R"(
    function never(i: int64) -> (keep: bool = no:output:0)
      no = Const bool[] false
    end
)";

TEST_F(DatasetTest, AReductionRunsItsFunctionOnEachElement) {
  MakeSum("    d = TakeDataset(range, n) output_types=[int64] output_shapes=[shape:?]\n");
  for (int64_t n : {0, 1, 5}) {
    absl::StatusOr<int64_t> sum = Sum(n);
    ASSERT_OK(sum);
    EXPECT_EQ(*sum, n * (n - 1) / 2);
  }
  EXPECT_EQ(Held(), 0);
}

TEST_F(DatasetTest, AnEndlessFilterEndsWithItsCall) {
  MakeSum(R"(
    all = RepeatDataset(range, endless) output_types=[int64] output_shapes=[shape:?]
    d = FilterDataset(all) predicate=@never Targuments=[] output_types=[int64] output_shapes=[shape:?]
)",
          kNever);
  std::thread late([this] {
    absl::SleepFor(absl::Milliseconds(50));
    stop_.Expire();
  });
  EXPECT_THAT(Sum(3).status(), StatusIs(StatusCode::kDeadlineExceeded));
  late.join();
}

TEST_F(DatasetTest, AnEndlessRepeatOfNothingEnds) {
  MakeSum("    d = RepeatDataset(range, endless) output_types=[int64] output_shapes=[shape:?]\n");
  absl::StatusOr<int64_t> sum = Sum(0);
  ASSERT_OK(sum);
  EXPECT_EQ(*sum, 0);
}

TEST_F(DatasetTest, ABatchOrABufferWithoutEndIsRefused) {
  const std::string batch =
      "    d = BatchDatasetV2(all, most, no) output_types=[int64] output_shapes=[shape:?]\n";
  const std::string buffer =
      "    none = DummySeedGenerator()\n"
      "    d = ShuffleDatasetV3(all, most, zero, zero, none) output_types=[int64] "
      "output_shapes=[shape:?]\n";
  const std::string cached =
      "    file = Const string[] \"\"\n"
      "    cache = DummyMemoryCache()\n"
      "    d = CacheDatasetV2(all, file, cache) output_types=[int64] output_shapes=[shape:?]\n";
  for (const std::string& nodes : {batch, buffer, cached}) {
    MakeSum(R"(
    most = Const int64[] 1000000000000
    no = Const bool[] false
    all = RepeatDataset(range, endless) output_types=[int64] output_shapes=[shape:?]
)" + nodes);
    MemoryBudget budget(64 * kMiB);
    EXPECT_THAT(HoldToBudget(budget, [&] { return Sum(3).status(); }),
                StatusIs(StatusCode::kResourceExhausted, HasSubstr("node 'sum'")))
        << nodes;
  }
}

TEST_F(DatasetTest, ASnapshotOfElementsThatAreNotAsItSaysIsRefused) {
  MakeSum(R"(
    path = Const string[] "there"
    s = SnapshotDatasetV2(range, path) reader_func=@reader shard_func=@shard Treader_func_args=[] Tshard_func_args=[] output_types=[string] output_shapes=[shape:?]
    d = MapDataset(s) f=@length Targuments=[] output_types=[int64] output_shapes=[shape:?]
)",
          R"(
    function reader(d: variant) -> (all: variant = d)
    end
    function shard(s: string) -> (i: int64 = zero:output:0)
      zero = Const int64[] 0
    end
    function length(s: string) -> (n: int64 = zero:output:0)
      zero = Const int64[] 0
    end
)");
  EXPECT_THAT(Sum(3).status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 's'")));
}

TEST_F(DatasetTest, ErrorsNameTheNodeInsideAFunction) {
  MakeSum(R"(
    d = MapDataset(range) f=@refuse Targuments=[] output_types=[int64] output_shapes=[shape:?]
)",
          R"(
    function refuse(i: int64) -> (r: int64 = checked:output:0)
      two = Const int64[] 2
      checked = EnsureShape(q:z:0) T=int64 shape=shape:[1]
      q = FloorDiv(i, two:output:0) T=int64
    end
)");
  EXPECT_THAT(Sum(3).status(), StatusIs(StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("node 'sum'"), HasSubstr("checked"))));
  EXPECT_EQ(Held(), 0);
}

TEST_F(DatasetTest, WhatIsNoDatasetIsRefused) {
  Make(R"(
    n = Placeholder dtype=variant
    size = DatasetCardinality(n)
)",
       {{"n:0", DType::kVariant}}, {"size:0"});
  for (const Variant& variant : {Variant(), Variant(std::make_shared<TensorList>())}) {
    EXPECT_THAT(Run(Owned(Tensor::VariantScalar(variant))),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("must be a Dataset")));
  }
}

TEST_F(DatasetTest, FunctionsThatNestTooDeepAreRefused) {
  std::string functions = R"(
    function last(i: int64) -> (r: variant = t:handle:0)
      t = TensorDataset(i) Toutput_types=[int64] output_shapes=[shape:?]
    end
)";
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&functions, "    function f", i, R"((i: int64) -> (r: variant = d:handle:0)
      t = TensorDataset(i) Toutput_types=[int64] output_shapes=[shape:?]
      d = FlatMapDataset(t:handle:0) f=@)",
                    i == 0 ? "last" : absl::StrCat("f", i - 1),
                    " Targuments=[] output_types=[int64] output_shapes=[shape:?]\n    end\n");
  }
  ASSERT_OK_AND_ASSIGN(
      ImportedGraph imported,
      world_.Import("    n = Placeholder dtype=variant\n    d = FlatMapDataset(n) f=@f39 "
                    "Targuments=[] output_types=[int64] output_shapes=[shape:?]\n" +
                        functions,
                    {{"n:0", DType::kVariant}}, {"d:0"}));
  PlannerContext context{world_.ops, world_.kernels, world_.allocator};
  EXPECT_THAT(MakePlan(imported, {PartialShape()}, context).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("nested too deep")));
}

}  // namespace
}  // namespace formwork::testing
