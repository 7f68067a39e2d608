// An engine whose answered calls are on disk.

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/engine.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

class EngineCommitTest : public EngineTest {
 protected:
  void SetUp() override { Begin(); }
  void TearDown() override { engine_.reset(); }
  using EngineTest::Begin;
  EngineOptions Options(Durability durability = Durability::kSync) {
    EngineOptions options;
    options.data_dir = folder_.path();
    options.durability = durability;
    return options;
  }
  void Begin(Durability durability = Durability::kSync) { Start(Options(durability)); }
  // What has not been answered is lost.
  void Crash() { engine_.reset(); }
  void CrashAndBegin() {
    Crash();
    Begin();
  }
  void EndInPeace() {
    engine_->Drain(absl::InfiniteFuture(), absl::ZeroDuration());
    EXPECT_OK(engine_->TakeLastSnapshot(absl::InfiniteFuture()));
    engine_.reset();
  }
  // For what answers without waiting.
  absl::Status AwaitDisk() {
    absl::Notification told;
    absl::Status status;
    engine_->WhenDurable([&](const absl::Status& durable) {
      status = durable;
      told.Notify();
    });
    told.WaitForNotification();
    return status;
  }
  SnapshotInfo Snapshot() {
    absl::Notification done;
    absl::StatusOr<SnapshotInfo> taken;
    engine_->TakeSnapshot([&](absl::StatusOr<SnapshotInfo> made) {
      taken = std::move(made);
      done.Notify();
    });
    done.WaitForNotification();
    EXPECT_OK(taken);
    return taken.value_or(SnapshotInfo());
  }
  // v += x; y = v.
  uint64_t RegisterCount() {
    absl::StatusOr<Registered> made =
        Register("count",
                 "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                 "a = AssignAddVariableOp(v, x) dtype=float\n"
                 "y = ReadVariableOp(v, ^a) dtype=float",
                 {Spec("x:0")}, {"y:0"}, {{"v:0", "v"}}, {"a"});
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }

  const TempFolder folder_;
};

TEST_F(EngineCommitTest, WhatWasAnsweredIsThereAfterACrashAndClientsDoNotNotice) {
  NewVariable("v", 1);
  const uint64_t count = RegisterCount();
  EXPECT_EQ(Value(count, 2), 3);
  EXPECT_EQ(Value(count, 2), 5);
  const uint64_t epoch = engine_->epoch();
  const uint64_t id = IdOf("v");
  CrashAndBegin();
  EXPECT_EQ(engine_->epoch(), epoch);
  EXPECT_EQ(IdOf("v"), id);
  EXPECT_EQ(ValueOf("v"), 5);
  ASSERT_OK_AND_ASSIGN(const ResourceInfo info, engine_->GetResource("ns", {0, "v"}));
  EXPECT_EQ(info.version, 3u);
  EXPECT_EQ(Value(count, 1), 6);
  // Again, and with other ways to write.
  ASSERT_OK(Assign({{{id, ""}, Tensor::Scalar(10.0f)}}).status);
  ASSERT_OK(engine_->CreateVariable("ns", "later", DType::kString, Shape({}),
                                    Tensor::StringScalar("text")));
  ASSERT_OK(engine_->CreateVariable("ns", "empty", DType::kFloat, Shape({2}), std::nullopt));
  ASSERT_OK(AwaitDisk());
  CrashAndBegin();
  EXPECT_EQ(engine_->epoch(), epoch);
  EXPECT_EQ(Value(count, 1), 11);
  EXPECT_EQ(Read({{0, "later"}}).values[0].value.scalar<std::string>(), "text");
  EXPECT_NE(IdOf("empty"), 0u);
  EXPECT_EQ(engine_->Stats().snapshots.taken, 0u);
}

TEST_F(EngineCommitTest, IdsAreNotGivenAgain) {
  NewVariable("v", 1);
  NewVariable("gone", 1);
  const uint64_t gone = IdOf("gone");
  ASSERT_OK(engine_->DeleteResource("ns", {gone, ""}));
  ASSERT_OK_AND_ASSIGN(const Registered f, RegisterAdd("f", 1));
  ASSERT_OK(engine_->Unregister("ns", {f.function.id, ""}));
  ASSERT_OK(AwaitDisk());
  CrashAndBegin();
  EXPECT_EQ(IdOf("gone"), 0u);
  EXPECT_THAT(engine_->ListFunctions("ns"), ::testing::IsEmpty());
  NewVariable("new", 1);
  EXPECT_NE(IdOf("new"), gone);
  ASSERT_OK_AND_ASSIGN(const Registered g, RegisterAdd("g", 1));
  EXPECT_NE(g.function.id, f.function.id);
}

TEST_F(EngineCommitTest, SnapshotAndLogAreOneState) {
  NewVariable("v", 1);
  NewVariable("w", 1);
  NewVariable("gone", 1);
  const uint64_t count = RegisterCount();
  ASSERT_OK(RegisterAdd("replaced", 1));
  ASSERT_OK(RegisterAdd("removed", 1));
  for (int i = 0; i < 3; ++i) Value(count, 1);
  EXPECT_GT(engine_->Stats().commits.log_bytes, 0u);
  Snapshot();
  EXPECT_EQ(engine_->Stats().commits.log_bytes, 0u);
  // On top of the snapshot: changed, removed, made, replaced.
  Value(count, 1);
  ASSERT_OK(engine_->DeleteResource("ns", {0, "gone"}));
  NewVariable("gone", 7);
  ASSERT_OK(engine_->Unregister("ns", {0, "removed"}));
  ASSERT_OK_AND_ASSIGN(const Registered replaced, RegisterAdd("replaced", 5, /*replace=*/true));
  for (int round = 0; round < 3; ++round) {
    CrashAndBegin();
    EXPECT_EQ(ValueOf("v"), 5 + static_cast<float>(round));
    EXPECT_EQ(ValueOf("w"), 1);
    EXPECT_EQ(ValueOf("gone"), 7);
    EXPECT_EQ(engine_->ListFunctions("ns").size(), 2u);
    EXPECT_EQ(Value(replaced.function.id, 1), 6);
    Value(count, 1);
    if (round == 1) Snapshot();
  }
  const uint64_t epoch = engine_->epoch();
  EndInPeace();
  Begin();
  EXPECT_EQ(engine_->epoch(), epoch);
  EXPECT_EQ(ValueOf("v"), 8);
  EXPECT_EQ(ValueOf("gone"), 7);
}

TEST_F(EngineCommitTest, WhatIsRemovedStaysRemovedWhoeverStillHoldsIt) {
  NewVariable("v", 1);
  const uint64_t holder = RegisterHolder("holder");
  ASSERT_OK(RegisterAdd("f", 1));
  const std::unique_ptr<Pending> spins = Begin(holder, Owned(Tensor::Scalar(0.0f)));
  while (engine_->Stats().calls_running == 0) absl::SleepFor(absl::Milliseconds(1));
  engine_->Clear("ns");
  NewVariable("v", 4);
  spins->handle->Cancel();
  spins->Wait();
  ASSERT_OK(AwaitDisk());
  CrashAndBegin();
  EXPECT_EQ(engine_->ListResources("ns").size(), 1u);
  EXPECT_EQ(ValueOf("v"), 4);
  EXPECT_THAT(engine_->ListFunctions("ns"), ::testing::IsEmpty());
}

TEST_F(EngineCommitTest, TablesAndLargeValues) {
  constexpr absl::string_view kTable =
      "t = MutableHashTableV2 shared_name=\"t\" key_dtype=string value_dtype=float\n"
      "x = Placeholder dtype=float\nk = Const string[] \"a\"\nd = Const float[] -1\n";
  ASSERT_OK_AND_ASSIGN(
      const Registered insert,
      Register("insert",
               absl::StrCat(kTable, "i = LookupTableInsertV2(t, k, x) Tin=string Tout=float"),
               {Spec("x:0")}, {}, {}, {"i"}));
  ASSERT_OK_AND_ASSIGN(
      const Registered find,
      Register("find",
               absl::StrCat(kTable,
                            "y = LookupTableFindV2(t, k, d) Tin=string Tout=float\n"
                            "z = AddV2(y, x) T=float"),
               {Spec("x:0")}, {"z:0"}));
  ASSERT_OK(Run(insert.function.id, Owned(Tensor::Scalar(3.0f))).status);
  // More than goes to the log at once, twice: the second time beside the first.
  HostAllocator allocator;
  constexpr int64_t kLarge = 6 << 20;
  ASSERT_OK(engine_->CreateVariable("ns", "large", DType::kFloat, Shape({kLarge}), std::nullopt));
  for (const float filler : {1.0f, 2.0f}) {
    Tensor value = *Tensor::Allocate(allocator, DType::kFloat, Shape({kLarge}));
    std::fill_n(value.mutable_data<float>(), kLarge, filler);
    ASSERT_OK(Assign({{{0, "large"}, value}}).status);
  }
  for (int round = 0; round < 2; ++round) {
    CrashAndBegin();
    EXPECT_EQ(Value(find.function.id, 0), 3);
    const ReadResult read = Read({{0, "large"}});
    ASSERT_OK(read.status);
    const Tensor& value = read.values[0].value;
    EXPECT_EQ(value.data<float>()[0], 2);
    EXPECT_EQ(value.data<float>()[kLarge - 1], 2);
  }
}

TEST_F(EngineCommitTest, OfAScatterItsRowsAreWritten) {
  HostAllocator allocator;
  constexpr int64_t kRows = 100000, kColumns = 8;
  Tensor zeros = *Tensor::Allocate(allocator, DType::kFloat, Shape({kRows, kColumns}));
  std::fill_n(zeros.mutable_data<float>(), kRows * kColumns, 0.0f);
  ASSERT_OK(engine_->CreateVariable("ns", "v", DType::kFloat, Shape({kRows, kColumns}), zeros));
  // Adds x to rows 7 and 99999, to the first of them twice.
  ASSERT_OK_AND_ASSIGN(
      const Registered scatter,
      Register("scatter",
               "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
               "i = Const int32[3] 7 99999 7\ns = Const int32[2] 3 8\nu = Fill(s, x) T=float\n"
               "a = ResourceScatterAdd(v, i, u) Tindices=int32 dtype=float",
               {Spec("x:0")}, {}, {{"v:0", "v"}}, {"a"}));
  const auto add = [&](float x) {
    ASSERT_OK(Run(scatter.function.id, Owned(Tensor::Scalar(x))).status);
  };
  const auto row = [&](int64_t index) {
    const ReadResult read = Read({{0, "v"}});
    return read.status.ok() ? read.values[0].value.data<float>()[index * kColumns + 3] : NAN;
  };
  ASSERT_OK(AwaitDisk());
  const uint64_t before = engine_->Stats().commits.bytes;
  add(1);
  add(2);
  EXPECT_LT(engine_->Stats().commits.bytes - before, 2000u);
  CrashAndBegin();
  EXPECT_EQ(row(7), 6);
  EXPECT_EQ(row(99999), 3);
  EXPECT_EQ(row(8), 0);
  ASSERT_OK_AND_ASSIGN(const ResourceInfo info, engine_->GetResource("ns", {0, "v"}));
  EXPECT_EQ(info.version, 3u);
  // Behind a snapshot, behind another value, and then no more.
  Snapshot();
  add(1);
  CrashAndBegin();
  EXPECT_EQ(row(7), 8);
  Tensor ones = *Tensor::Allocate(allocator, DType::kFloat, Shape({kRows, kColumns}));
  std::fill_n(ones.mutable_data<float>(), kRows * kColumns, 1.0f);
  ASSERT_OK(Assign({{{0, "v"}, ones}}).status);
  add(1);
  CrashAndBegin();
  EXPECT_EQ(row(7), 3);
  EXPECT_EQ(row(8), 1);
  ASSERT_OK(engine_->DeleteResource("ns", {0, "v"}));
  ASSERT_OK(AwaitDisk());
  CrashAndBegin();
  EXPECT_EQ(IdOf("v"), 0u);
}

// Of a table of many entries.
class TableCommitTest : public EngineCommitTest, public ::testing::WithParamInterface<const char*> {
 protected:
  static constexpr int64_t kKeys = 20000;

 public:
  static std::string KindOf(const std::string& op) {
    if (!op.starts_with("MutableDense")) return "Mutable";
    return op.find("e1") != std::string::npos ? "DenseOfVectors" : "Dense";
  }

 protected:
  void SetUp() override {
    Begin();
    const std::string table = absl::StrCat(
        "e = Const int64[] -1\nd = Const int64[] -2\ne1 = Const int64[1] -1\n",
        "d1 = Const int64[1] -2\nt = ", GetParam(), " shared_name=\"t\" ",
        "key_dtype=int64 value_dtype=float\nk = Placeholder dtype=int64\n",
        "v = Placeholder dtype=float\nm = Const int32[] -1\n",
        "q = ", KindOf(GetParam()) == "DenseOfVectors" ? "ExpandDims(k, m)" : "Identity(k)",
        " T=int64\n");
    insert_ = Make("insert", table, "i = LookupTableInsertV2(t, q, v) Tin=int64 Tout=float");
    remove_ = Make("remove", table, "i = LookupTableRemoveV2(t, q) Tin=int64");
    find_ = Make("find", table,
                 "y = LookupTableFindV2(t, q, v) Tin=int64 Tout=float\n"
                 "n = LookupTableSizeV2(t)\ni = Identity(n) T=int64",
                 {"y:0", "n:0"});
  }
  uint64_t Make(const std::string& name, const std::string& table, const std::string& text,
                std::vector<std::string> outputs = {}) {
    const absl::StatusOr<Registered> made =
        Register(name, table + text, {Spec("k:0", DType::kInt64), Spec("v:0")}, outputs, {}, {"i"});
    EXPECT_OK(made.status());
    return made.ok() ? made->function.id : 0;
  }
  CallResult RunOf(uint64_t id, const std::vector<int64_t>& keys,
                   const std::vector<float>& values) {
    HostAllocator allocator;
    const auto n = static_cast<int64_t>(keys.size()), m = static_cast<int64_t>(values.size());
    Tensor k = *Tensor::Allocate(allocator, DType::kInt64, Shape({n}));
    std::copy(keys.begin(), keys.end(), k.mutable_data<int64_t>());
    Tensor v = *Tensor::Allocate(allocator, DType::kFloat, Shape({m}));
    std::copy(values.begin(), values.end(), v.mutable_data<float>());
    if (id == find_) v = Tensor::Scalar(values[0]);
    CallResult result = Run(id, Owned(std::move(k), std::move(v)));
    EXPECT_OK(result.status);
    return result;
  }
  void Insert(const std::vector<int64_t>& keys, float value) {
    RunOf(insert_, keys, std::vector<float>(keys.size(), value));
    for (const int64_t key : keys) model_[key] = value;
  }
  void Remove(const std::vector<int64_t>& keys) {
    RunOf(remove_, keys, {});
    for (const int64_t key : keys) model_.erase(key);
  }
  void Check() {
    std::vector<int64_t> keys(kKeys);
    std::iota(keys.begin(), keys.end(), 0);
    const CallResult found = RunOf(find_, keys, {-1});
    ASSERT_EQ(found.outputs.size(), 2u);
    EXPECT_EQ(found.outputs[1].tensor.scalar<int64_t>(), static_cast<int64_t>(model_.size()));
    const float* values = found.outputs[0].tensor.data<float>();
    for (const int64_t key : keys) {
      const auto there = model_.find(key);
      ASSERT_EQ(values[key], there == model_.end() ? -1 : there->second) << "key " << key;
    }
  }
  static std::vector<int64_t> Range(int64_t begin, int64_t end) {
    std::vector<int64_t> keys;
    for (int64_t key = begin; key < end; ++key) keys.push_back(key);
    return keys;
  }
  uint64_t BytesOf(const std::function<void()>& work) {
    const uint64_t before = engine_->Stats().commits.bytes;
    work();
    return engine_->Stats().commits.bytes - before;
  }

  uint64_t insert_ = 0, remove_ = 0, find_ = 0;
  std::map<int64_t, float> model_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, TableCommitTest,
                         ::testing::Values("MutableHashTableV2", "MutableDenseHashTableV2(e, d)",
                                           "MutableDenseHashTableV2(e1, d1)"),
                         [](const auto& info) { return TableCommitTest::KindOf(info.param); });

TEST_P(TableCommitTest, OfATableItsChangesAreWritten) {
  EXPECT_GT(BytesOf([&] { Insert(Range(0, 10000), 1); }), 100'000u);
  EXPECT_LT(BytesOf([&] { Insert({3, 15000}, 2); }), 1000u);
  EXPECT_LT(BytesOf([&] { Remove({7, 8}); }), 1000u);
  for (int round = 0; round < 2; ++round) {
    CrashAndBegin();
    Check();
  }
  // As soon as it is there again, too: behind the log, and behind a snapshot.
  EXPECT_LT(BytesOf([&] { Insert({7}, 3); }), 1000u);
  Snapshot();
  EXPECT_LT(BytesOf([&] { Insert({9}, 4); }), 1000u);
  EndInPeace();
  Begin();
  Check();
  EXPECT_LT(BytesOf([&] { Remove({9}); }), 1000u);
  // More than half of it: as a whole.
  Remove(Range(0, 9000));
  CrashAndBegin();
  Check();
  ASSERT_OK(engine_->DeleteResource("ns", {0, "t"}));
  ASSERT_OK(AwaitDisk());
  CrashAndBegin();
  model_.clear();  // Its functions have made another one.
  Check();
}

TEST_P(TableCommitTest, ItIsThereWhateverWasDoneToIt) {
  std::mt19937 random(5);
  for (int step = 0; step < 120; ++step) {
    std::vector<int64_t> keys;
    const size_t count = size_t{1} << (random() % 11);
    for (size_t i = 0; i < count; ++i) keys.push_back(static_cast<int64_t>(random() % kKeys));
    if (random() % 3 == 0) {
      Remove(keys);
    } else {
      Insert(keys, static_cast<float>(step));
    }
    if (random() % 10 == 0) Snapshot();
    if (random() % 8 != 0) continue;
    CrashAndBegin();
    Check();
  }
}

TEST_F(EngineCommitTest, RandomNumbersGoOn) {
  ASSERT_OK_AND_ASSIGN(
      const Registered draw,
      Register("draw",
               "x = Placeholder dtype=float\ns = Const int32[0]\n"
               "r = RandomUniform(s) T=int32 dtype=float seed=1 seed2=2\ny = AddV2(r, x) T=float",
               {Spec("x:0")}, {"y:0"}));
  std::vector<float> drawn;
  for (int i = 0; i < 4; ++i) {
    drawn.push_back(Value(draw.function.id, 0));
    if (i % 2 == 1) CrashAndBegin();
    if (i == 2) Snapshot();
  }
  ASSERT_OK(engine_->Unregister("ns", {draw.function.id, ""}));
  ASSERT_OK(AwaitDisk());
  CrashAndBegin();
  EXPECT_THAT(engine_->ListFunctions("ns"), ::testing::IsEmpty());
  ASSERT_OK_AND_ASSIGN(
      const Registered again,
      Register("draw",
               "x = Placeholder dtype=float\ns = Const int32[0]\n"
               "r = RandomUniform(s) T=int32 dtype=float seed=1 seed2=2\ny = AddV2(r, x) T=float",
               {Spec("x:0")}, {"y:0"}));
  for (const float number : drawn) EXPECT_EQ(Value(again.function.id, 0), number);
}

TEST_F(EngineCommitTest, WhatCannotBeLoggedMakesAnotherEpoch) {
  NewVariable("v", 1);
  ASSERT_OK(AwaitDisk());
  const uint64_t epoch = engine_->epoch();
  ASSERT_OK(engine_->KeepTensor("ns", "me", absl::ZeroDuration(), Tensor::Scalar(1.0f)));
  ASSERT_OK(AwaitDisk());
  CrashAndBegin();
  const uint64_t second = engine_->epoch();
  EXPECT_NE(second, epoch);
  EXPECT_EQ(ValueOf("v"), 1);
  CrashAndBegin();
  EXPECT_EQ(engine_->epoch(), second);
  ASSERT_OK(engine_->CreateVariable("ns", "list", DType::kVariant, Shape({}),
                                    Tensor::VariantScalar(nullptr)));
  ASSERT_OK(AwaitDisk());
  CrashAndBegin();
  EXPECT_NE(engine_->epoch(), second);
  ASSERT_OK_AND_ASSIGN(const ResourceInfo list, engine_->GetResource("ns", {0, "list"}));
  EXPECT_FALSE(list.initialized);
}

TEST_F(EngineCommitTest, DurabilityMayChangeFromLifeToLife) {
  NewVariable("v", 1);
  const uint64_t count = RegisterCount();
  Value(count, 1);
  const uint64_t epoch = engine_->epoch();
  Crash();
  Begin(Durability::kSnapshot);
  EXPECT_NE(engine_->epoch(), epoch);  // It is not known whether another has been lost meanwhile.
  EXPECT_EQ(Value(count, 1), 3);
  Crash();  // Before any snapshot: the log still has it.
  Begin(Durability::kSnapshot);
  EXPECT_NE(engine_->epoch(), epoch);
  EXPECT_EQ(Value(count, 2), 4);
  Snapshot();
  Value(count, 100);
  CrashAndBegin();
  EXPECT_EQ(Value(count, 1), 5);
  EndInPeace();
  Begin(Durability::kMemory);  // What is on disk is not lost to that.
  EXPECT_NE(IdOf("v"), 0u);
  engine_.reset();
  Begin();
  EXPECT_EQ(Value(count, 1), 6);
}

TEST_F(EngineCommitTest, TheLogNeedsADirectoryAndHasABound) {
  EngineOptions options;
  options.durability = Durability::kSync;
  EXPECT_THAT(Engine::Create(options).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("data directory")));
  engine_.reset();
  options = Options();
  options.max_commit_bytes = 1000;
  Start(options);
  NewVariable("v", 1);
  const uint64_t count = RegisterCount();
  HostAllocator allocator;
  const Tensor large = *Tensor::Allocate(allocator, DType::kFloat, Shape({251}));
  EXPECT_THAT(engine_->CreateVariable("ns", "w", DType::kFloat, PartialShape(), large).status(),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("bytes=1004 limit=1000")));
  ASSERT_OK(
      engine_->CreateVariable("ns", "w", DType::kFloat, PartialShape(), Tensor::Scalar(1.0f)));
  const AssignResult refused = Assign({{{0, "v"}, Tensor::Scalar(7.0f)}, {{0, "w"}, large}});
  EXPECT_THAT(refused.status, StatusIs(StatusCode::kResourceExhausted, HasSubstr("limit=1000")));
  EXPECT_EQ(refused.details.effects, Effects::kNone);
  EXPECT_EQ(Value(count, 1), 2);
}

TEST_F(EngineCommitTest, CallsFromManyThreadsShareWrites) {
  NewVariable("v", 0);
  const uint64_t count = RegisterCount();
  constexpr int kThreads = 8, kCalls = 100;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < kCalls; ++call) {
        EXPECT_OK(Run(count, Owned(Tensor::Scalar(1.0f))).status);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const CommitStats stats = engine_->Stats().commits;
  EXPECT_EQ(stats.waiting, 0u);
  EXPECT_GE(stats.records, static_cast<uint64_t>(kThreads * kCalls));
  EXPECT_LE(stats.groups, stats.records);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
  CrashAndBegin();
  EXPECT_EQ(ValueOf("v"), kThreads * kCalls);
}

}  // namespace
}  // namespace formwork::testing
