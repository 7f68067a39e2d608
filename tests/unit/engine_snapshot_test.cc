// What outlives an engine with a data directory.

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/engine.h"
#include "core/storage/snapshot_store.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

class EngineSnapshotTest : public EngineTest {
 protected:
  void SetUp() override { Begin(); }
  void TearDown() override { engine_.reset(); }

  using EngineTest::Begin;
  void Begin() { Start(Options()); }
  // y = x + v.
  absl::StatusOr<Registered> RegisterAddToV() {
    return Register("add",
                    "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                    "r = ReadVariableOp(v) dtype=float\ny = AddV2(x, r) T=float",
                    {Spec("x:0")}, {"y:0"}, {{"v:0", "v"}});
  }
  EngineOptions Options() {
    EngineOptions options;
    options.data_dir = folder_.path();
    options.on_lost_function = [this](absl::string_view name, const absl::Status& status) {
      lost_[std::string(name)] = status;
    };
    return options;
  }
  // As on SIGTERM.
  void EndInPeace() {
    engine_->Drain(absl::InfiniteFuture(), absl::ZeroDuration());
    EXPECT_OK(engine_->TakeLastSnapshot(absl::InfiniteFuture()));
    engine_.reset();
  }
  // As kill -9, as far as what is on disk goes.
  void Crash() { engine_.reset(); }
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

  const TempFolder folder_;
  HostAllocator allocator_;
  std::map<std::string, absl::Status> lost_;
};

TEST_F(EngineSnapshotTest, AfterAPeacefulEndAllIsThereUnderItsId) {
  NewVariable("v", 3);
  ASSERT_OK(engine_->CreateVariable("ns", "empty", DType::kInt32, Shape({2}), std::nullopt));
  ASSERT_OK(engine_->CreateVariable("other", "text", DType::kString, Shape({}),
                                    Tensor::StringScalar(std::string("a\xff\0b", 4))));
  ASSERT_OK_AND_ASSIGN(const Registered add, RegisterAddToV());
  ASSERT_OK(Assign({{{0, "v"}, Tensor::Scalar(4.0f)}}).status);
  const uint64_t epoch = engine_->epoch();
  const std::vector<ResourceInfo> before = engine_->ListResources("ns");

  EndInPeace();
  Begin();
  EXPECT_EQ(engine_->epoch(), epoch);
  EXPECT_EQ(ValueOf("v"), 4);
  EXPECT_EQ(Value(add.function.id, 0.5f), 4.5f);
  const std::vector<ResourceInfo> after = engine_->ListResources("ns");
  ASSERT_EQ(after.size(), 2u);
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].id, before[i].id);
    EXPECT_EQ(after[i].name, before[i].name);
    EXPECT_EQ(after[i].version, before[i].version);
    EXPECT_EQ(after[i].initialized, before[i].initialized);
    EXPECT_EQ(after[i].bytes, before[i].bytes);
    EXPECT_TRUE(after[i].type == before[i].type);
  }
  ASSERT_OK_AND_ASSIGN(const ResourceInfo text, engine_->GetResource("other", {0, "text"}));
  PendingRead read;
  read.handle = engine_->ReadVariables({"other", {{text.id, ""}}}, read.Done());
  read.handle->Start();
  ASSERT_OK(read.Wait().status);
  EXPECT_EQ(read.result.values[0].value.scalar<std::string>(), std::string("a\xff\0b", 4));
  // And what is new has other IDs.
  NewVariable("new", 1);
  EXPECT_GT(IdOf("new"), text.id);
  ASSERT_OK_AND_ASSIGN(const Registered again, RegisterAddToV());
  EXPECT_TRUE(again.existed);
  EXPECT_EQ(again.function.id, add.function.id);
  EXPECT_THAT(lost_, ::testing::IsEmpty());
}

TEST_F(EngineSnapshotTest, ACrashGoesBackToTheLastSnapshotAndIsAnotherEpoch) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(const Registered add, RegisterAddToV());
  const uint64_t epoch = engine_->epoch();
  Snapshot();
  ASSERT_OK(Assign({{{0, "v"}, Tensor::Scalar(2.0f)}}).status);
  NewVariable("late", 5);
  const uint64_t late = IdOf("late");
  ASSERT_OK_AND_ASSIGN(const Registered later, RegisterAdd("later", 1));

  Crash();
  Begin();
  EXPECT_NE(engine_->epoch(), epoch);
  EXPECT_THAT(engine_->CheckEpoch("", epoch, nullptr),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("was restarted")));
  EXPECT_EQ(ValueOf("v"), 1);
  EXPECT_EQ(IdOf("late"), 0u);
  EXPECT_EQ(Value(add.function.id, 1), 2);
  EXPECT_EQ(engine_->ListFunctions("ns").size(), 1u);
  // IDs that were lost are not given again.
  NewVariable("new", 1);
  EXPECT_NE(IdOf("new"), late);
  ASSERT_OK_AND_ASSIGN(const Registered other, RegisterAdd("other", 1));
  EXPECT_NE(other.function.id, later.function.id);
}

TEST_F(EngineSnapshotTest, OneIsTakenAfterSoManyChanges) {
  EngineOptions options = Options();
  options.snapshot_calls = 5;
  engine_.reset();
  Start(options);
  NewVariable("v", 0);
  ASSERT_OK_AND_ASSIGN(const Registered add, RegisterAddToV());
  ASSERT_OK_AND_ASSIGN(const Registered count,
                       Register("count",
                                "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                                "a = AssignAddVariableOp(v, x) dtype=float",
                                {Spec("x:0")}, {}, {{"v:0", "v"}}, {"a"}));
  ASSERT_OK(engine_->SetDurability("memory", Durability::kMemory));
  const auto change = [&](int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_OK(Run(count.function.id, Owned(Tensor::Scalar(1.0f))).status);
      Value(add.function.id, 1);  // Changes nothing.
      ASSERT_OK(engine_->CreateVariable("memory", absl::StrCat("v", i), DType::kFloat, Shape({}),
                                        Tensor::Scalar(1.0f)));
    }
  };
  const auto await = [&](uint64_t taken) {
    while (engine_->Stats().snapshots.taken < taken) absl::SleepFor(absl::Milliseconds(1));
  };
  change(4);
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(engine_->Stats().snapshots.taken, 0u);
  ASSERT_OK(Assign({{{0, "v"}, Tensor::Scalar(10.0f)}}).status);
  await(1);
  change(5);
  await(2);
  Crash();
  Start(options);
  EXPECT_EQ(ValueOf("v"), 15);
}

TEST_F(EngineSnapshotTest, WithoutASnapshotACrashLeavesNothing) {
  NewVariable("v", 1);
  ASSERT_OK(RegisterAddToV());
  Crash();
  Begin();
  EXPECT_THAT(engine_->ListResources("ns"), ::testing::IsEmpty());
  EXPECT_THAT(engine_->ListFunctions("ns"), ::testing::IsEmpty());
  EXPECT_EQ(engine_->Stats().snapshots.last.taken, absl::UnixEpoch());
}

TEST_F(EngineSnapshotTest, OnlyWhatHasChangedIsWritten) {
  const Tensor million = *Tensor::Allocate(allocator_, DType::kFloat, Shape({1000000}));
  ASSERT_OK(engine_->CreateVariable("ns", "large", DType::kFloat, Shape({1000000}), million));
  NewVariable("small", 1);
  EXPECT_EQ(Snapshot().bytes_written, 4000004u);
  EXPECT_EQ(Snapshot().bytes_written, 0u);
  ASSERT_OK(Assign({{{0, "small"}, Tensor::Scalar(2.0f)}}).status);
  const SnapshotInfo last = Snapshot();
  EXPECT_EQ(last.bytes_written, 4u);
  EXPECT_EQ(last.resources, 2);
  Crash();
  Begin();
  EXPECT_EQ(ValueOf("small"), 2);
  EXPECT_EQ(Snapshot().bytes_written, 0u);
  EXPECT_EQ(engine_->Stats().snapshots.taken, 1u);
}

TEST_F(EngineSnapshotTest, ItIsTheStateBetweenTwoCalls) {
  NewVariable("a", 0);
  NewVariable("b", 0);
  ASSERT_OK_AND_ASSIGN(const Registered both,
                       Register("both",
                                "a = Placeholder dtype=resource\nb = Placeholder dtype=resource\n"
                                "x = Placeholder dtype=float\n"
                                "s = AssignAddVariableOp(a, x) dtype=float\n"
                                "t = AssignAddVariableOp(b, x) dtype=float\n",
                                {Spec("x:0")}, {}, {{"a:0", "a"}, {"b:0", "b"}}, {"s", "t"}));
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) {
      callers.emplace_back([&] {
        while (!stop) EXPECT_OK(Run(both.function.id, Owned(Tensor::Scalar(1.0f))).status);
      });
    }
    float last = 0;
    for (int i = 0; i < 10; ++i) {
      const float before = ValueOf("a");
      Snapshot();
      last = before;
    }
    stop = true;
    for (std::thread& caller : callers) caller.join();
    Crash();
    Begin();
    EXPECT_EQ(ValueOf("a"), ValueOf("b"));
    EXPECT_GE(ValueOf("a"), last);  // All that had been answered before it began.
  }
}

TEST_F(EngineSnapshotTest, TablesAndHiddenStateGoOn) {
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
  ASSERT_OK_AND_ASSIGN(
      const Registered draw,
      Register("draw",
               "x = Placeholder dtype=float\ns = Const int32[0]\n"
               "r = RandomUniform(s) T=int32 dtype=float seed=1 seed2=2\ny = AddV2(r, x) T=float",
               {Spec("x:0")}, {"y:0"}));
  ASSERT_OK(Run(insert.function.id, Owned(Tensor::Scalar(3.0f))).status);
  constexpr absl::string_view kStatic =
      "t = HashTableV2 shared_name=\"s\" key_dtype=int64 value_dtype=float\n"
      "x = Placeholder dtype=float\nk = Const int64[1] 7\n";
  ASSERT_OK_AND_ASSIGN(
      const Registered initialize,
      Register("initialize",
               absl::StrCat(kStatic,
                            "v = Const float[1] 5\n"
                            "i = InitializeTableV2(t, k, v) Tkey=int64 Tval=float"),
               {Spec("x:0")}, {}, {}, {"i"}));
  ASSERT_OK_AND_ASSIGN(const Registered find_static,
                       Register("find_static",
                                absl::StrCat(kStatic,
                                             "y = LookupTableFindV2(t, k, x) Tin=int64 Tout=float\n"
                                             "s = Const int32[0]\nz = Reshape(y, s) T=float"),
                                {Spec("x:0")}, {"z:0"}));
  ASSERT_OK(Run(initialize.function.id, Owned(Tensor::Scalar(0.0f))).status);
  std::vector<float> drawn;
  for (int i = 0; i < 2; ++i) drawn.push_back(Value(draw.function.id, 0));
  Snapshot();
  for (int i = 0; i < 2; ++i) drawn.push_back(Value(draw.function.id, 0));
  Crash();
  Begin();
  EXPECT_EQ(Value(find.function.id, 0), 3);
  EXPECT_EQ(Value(find_static.function.id, 0), 5);
  for (int i = 2; i < 4; ++i) EXPECT_EQ(Value(draw.function.id, 0), drawn[static_cast<size_t>(i)]);
}

TEST_F(EngineSnapshotTest, ADenseTableGoesOn) {
  constexpr absl::string_view kTable =
      "x = Placeholder dtype=float\ne = Const int64[] 0\nd = Const int64[] 1\n"
      "t = MutableDenseHashTableV2(e, d) shared_name=\"t\" key_dtype=int64 value_dtype=float "
      "initial_num_buckets=4\nk = Const int64[1] 7\nv = Reshape(x, k1) T=float\n"
      "k1 = Const int32[1] 1\ns = Const int32[0]\n";
  ASSERT_OK_AND_ASSIGN(
      const Registered insert,
      Register("insert",
               absl::StrCat(kTable, "i = LookupTableInsertV2(t, k, v) Tin=int64 Tout=float"),
               {Spec("x:0")}, {}, {}, {"i"}));
  ASSERT_OK_AND_ASSIGN(const Registered find,
                       Register("find",
                                absl::StrCat(kTable,
                                             "y = LookupTableFindV2(t, k, x) Tin=int64 Tout=float\n"
                                             "z = Reshape(y, s) T=float"),
                                {Spec("x:0")}, {"z:0"}));
  ASSERT_OK_AND_ASSIGN(
      const Registered reserved,
      Register("reserved",
               absl::StrCat(kTable,
                            "k2 = ExpandDims(e, s2) T=int64\ns2 = Const int32[] 0\n"
                            "i = LookupTableInsertV2(t, k2, v) Tin=int64 Tout=float"),
               {Spec("x:0")}, {}, {}, {"i"}));
  ASSERT_OK(Run(insert.function.id, Owned(Tensor::Scalar(3.0f))).status);
  Snapshot();
  Crash();
  Begin();
  EXPECT_EQ(Value(find.function.id, -1), 3);
  EXPECT_THAT(Run(reserved.function.id, Owned(Tensor::Scalar(0.0f))).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("Using the empty_key")));
}

TEST_F(EngineSnapshotTest, ADenseTableOfVectorsGoesOn) {
  constexpr absl::string_view kTable =
      "x = Placeholder dtype=float\ne = Const string[2] \"\" \"\"\nd = Const string[2] \"-\" \"\"\n"
      "t = MutableDenseHashTableV2(e, d) shared_name=\"t\" key_dtype=string value_dtype=float "
      "initial_num_buckets=4\nk = Const string[1,2] \"a\" \"\"\n";
  ASSERT_OK_AND_ASSIGN(
      const Registered insert,
      Register("insert",
               absl::StrCat(kTable,
                            "v = Reshape(x, n) T=float\nn = Const int32[1] 1\n"
                            "i = LookupTableInsertV2(t, k, v) Tin=string Tout=float"),
               {Spec("x:0")}, {}, {}, {"i"}));
  ASSERT_OK_AND_ASSIGN(
      const Registered find,
      Register("find",
               absl::StrCat(kTable, "y = LookupTableFindV2(t, k, x) Tin=string Tout=float\n",
                            "s = Const int32[0]\nz = Reshape(y, s) T=float"),
               {Spec("x:0")}, {"z:0"}));
  ASSERT_OK(Run(insert.function.id, Owned(Tensor::Scalar(3.0f))).status);
  Snapshot();
  Crash();
  Begin();
  EXPECT_EQ(Value(find.function.id, -1), 3);
}

TEST_F(EngineSnapshotTest, WhatWasRemovedStaysRemoved) {
  NewVariable("v", 1);
  NewVariable("gone", 1);
  ASSERT_OK_AND_ASSIGN(const Registered first, RegisterAdd("f", 1));
  ASSERT_OK(RegisterAdd("removed", 1));
  ASSERT_OK(RegisterAddToV());
  Snapshot();
  ASSERT_OK_AND_ASSIGN(const Registered second, RegisterAdd("f", 2, /*replace=*/true));
  ASSERT_OK(engine_->Unregister("ns", {0, "removed"}));
  ASSERT_OK(engine_->DeleteResource("ns", {0, "gone"}));
  ASSERT_OK(engine_->DeleteResource("ns", {0, "v"}));  // And with it the function on it.
  Snapshot();
  Crash();
  Begin();
  EXPECT_THAT(engine_->ListResources("ns"), ::testing::IsEmpty());
  const std::vector<FunctionInfo> functions = engine_->ListFunctions("ns");
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0].id, second.function.id);
  EXPECT_EQ(Value(second.function.id, 0), 2);
  EXPECT_THAT(Run(first.function.id, Owned(Tensor::Scalar(0.0f))).status,
              StatusIs(StatusCode::kNotFound, HasSubstr("no function")));
}

TEST_F(EngineSnapshotTest, AFunctionThatCannotBeRegisteredAnyMoreIsTold) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(const Registered add, RegisterAddToV());
  EndInPeace();
  EngineOptions small = Options();
  small.max_function_bytes = 16;
  Start(small);
  ASSERT_TRUE(lost_.contains("add"));
  EXPECT_THAT(lost_["add"],
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("larger than the cache")));
  EXPECT_THAT(engine_->ListFunctions("ns"), ::testing::IsEmpty());
  EXPECT_EQ(ValueOf("v"), 1);
  EXPECT_THAT(Run(add.function.id, Owned(Tensor::Scalar(0.0f))).status,
              StatusIs(StatusCode::kNotFound, HasSubstr("no function")));
}

TEST_F(EngineSnapshotTest, WhatCannotBeStoredMakesAnotherEpoch) {
  const uint64_t epoch = engine_->epoch();
  ASSERT_OK(engine_->KeepTensor("ns", "me", absl::ZeroDuration(), Tensor::Scalar(1.0f)));
  EndInPeace();
  Begin();
  EXPECT_NE(engine_->epoch(), epoch);
  EndInPeace();
  Begin();
  const uint64_t second = engine_->epoch();
  EndInPeace();
  Begin();
  EXPECT_EQ(engine_->epoch(), second);
}

TEST_F(EngineSnapshotTest, AValueThatCannotBeStoredIsLeftOut) {
  const uint64_t epoch = engine_->epoch();
  NewVariable("v", 1);
  ASSERT_OK(engine_->CreateVariable("ns", "list", DType::kVariant, Shape({}),
                                    Tensor::VariantScalar(nullptr)));
  const uint64_t list = IdOf("list");
  EXPECT_EQ(Snapshot().left_out, 1);
  EndInPeace();
  Begin();
  EXPECT_NE(engine_->epoch(), epoch);
  EXPECT_EQ(ValueOf("v"), 1);
  ASSERT_OK_AND_ASSIGN(const ResourceInfo info, engine_->GetResource("ns", {0, "list"}));
  EXPECT_EQ(info.id, list);
  EXPECT_FALSE(info.initialized);
}

TEST_F(EngineSnapshotTest, ACallThatDoesNotEndKeepsNobodyFromEnding) {
  NewVariable("v", 1);
  Snapshot();
  const uint64_t holder = RegisterHolder("holder");
  const std::unique_ptr<Pending> spins = Begin(holder, Owned(Tensor::Scalar(0.0f)));
  while (engine_->Stats().calls_running == 0) absl::SleepFor(absl::Milliseconds(1));
  absl::Notification done;
  absl::Status asked;
  engine_->TakeSnapshot([&](const absl::StatusOr<SnapshotInfo>& made) {
    asked = made.status();
    done.Notify();
  });
  EXPECT_THAT(engine_->TakeLastSnapshot(absl::Now() + absl::Milliseconds(100)),
              StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("calls that do not end")));
  done.WaitForNotification();
  // It waited for the call, or had not begun.
  EXPECT_TRUE(absl::IsDeadlineExceeded(asked) || absl::IsCancelled(asked)) << asked;
  EXPECT_GE(engine_->Stats().snapshots.failed, 1u);
  spins->handle->Cancel();
  spins->Wait();
  Crash();
  Begin();
  EXPECT_EQ(ValueOf("v"), 1);
}

TEST_F(EngineSnapshotTest, ADirectoryIsOfOneEngine) {
  EXPECT_THAT(Engine::Create(Options()).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("in use by another process")));
}

TEST_F(EngineSnapshotTest, DamageIsNamedAndNothingIsHalfLoaded) {
  std::string noise(100000, 'x');
  ASSERT_OK(
      engine_->CreateVariable("ns", "w", DType::kString, Shape({}), Tensor::StringScalar(noise)));
  EndInPeace();
  int damaged = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
    if (file.path().extension() != ".blob") continue;
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(50000);
    bytes.put('y');
    ++damaged;
  }
  ASSERT_GT(damaged, 0);
  EXPECT_THAT(Engine::Create(Options()).status(),
              StatusIs(StatusCode::kDataLoss, HasSubstr("variable 'w'")));
}

TEST_F(EngineSnapshotTest, WithoutADirectoryThereIsNone) {
  engine_.reset();
  Start({});
  absl::Status status;
  engine_->TakeSnapshot([&](const absl::StatusOr<SnapshotInfo>& made) { status = made.status(); });
  EXPECT_THAT(status, StatusIs(StatusCode::kFailedPrecondition, HasSubstr("no data directory")));
  EXPECT_OK(engine_->TakeLastSnapshot(absl::InfiniteFuture()));
}

// --- The store ----------------------------------------------------------------------------------

class SnapshotStoreTest : public ::testing::Test {
 protected:
  void Open() {
    store_.reset();
    store_ = *SnapshotStore::Open(folder_.path());
  }

  const TempFolder folder_;
  HostAllocator allocator_;
  std::unique_ptr<SnapshotStore> store_;
};

TEST_F(SnapshotStoreTest, ValuesOfAnySizeComeBackBitForBit) {
  Open();
  std::vector<Tensor> values;
  for (const int64_t elements : {0, 1, 3, 1 << 20, (1 << 20) + 1, (3 << 20) + 5}) {
    Tensor value = *Tensor::Allocate(allocator_, DType::kFloat, Shape({elements}));
    for (int64_t i = 0; i < elements; ++i) value.mutable_data<float>()[i] = static_cast<float>(i);
    values.push_back(std::move(value));
    Tensor texts = *Tensor::Allocate(allocator_, DType::kString, Shape({elements % 100}));
    for (std::string& text : texts.mutable_span<std::string>()) {
      text.assign(static_cast<size_t>(elements % 1000), static_cast<char>(elements));
    }
    values.push_back(std::move(texts));
  }
  const StoredKey key{StoredKey::Of::kResource, 7, 9};
  ASSERT_OK(store_->Put(key, values));
  ASSERT_OK(store_->Commit(nullptr, nullptr));
  Open();
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> back, store_->Get(key, allocator_));
  ASSERT_EQ(back.size(), values.size());
  for (size_t i = 0; i < back.size(); ++i) {
    ASSERT_EQ(back[i].shape(), values[i].shape());
    if (back[i].dtype() == DType::kString) {
      EXPECT_EQ(back[i].span<std::string>(), values[i].span<std::string>());
    } else {
      EXPECT_EQ(back[i].span<float>(), values[i].span<float>());
    }
  }
  EXPECT_THAT(store_->Get({StoredKey::Of::kResource, 7, 8}, allocator_).status(),
              StatusIs(StatusCode::kNotFound));
  ASSERT_OK(store_->Remove(key));
  EXPECT_THAT(store_->Get(key, allocator_).status(), StatusIs(StatusCode::kNotFound));
}

TEST_F(SnapshotStoreTest, WhatWasRemovedIsGivenBackToTheDisk) {
  Open();
  Tensor value = *Tensor::Allocate(allocator_, DType::kFloat, Shape({4 << 20}));
  std::memset(value.mutable_raw(), 1, value.bytes());
  const auto disk = [this] {
    uintmax_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      std::error_code gone;  // Files are removed meanwhile.
      const uintmax_t size = file.file_size(gone);
      if (!gone) bytes += size;
    }
    return bytes;
  };
  const StoredKey stays{StoredKey::Of::kResource, 100, 1};
  for (uint64_t version = 1; version <= 20; ++version) {
    if (version == 3) {
      ASSERT_OK(store_->Put(stays, {Tensor::StringScalar(std::string(100000, 's'))}));
    }
    ASSERT_OK(store_->Put({StoredKey::Of::kResource, 1, version}, {value}));
    ASSERT_OK(store_->Commit(nullptr, nullptr));
    ASSERT_OK(store_->Remove({StoredKey::Of::kResource, 1, version - 1}));
    ASSERT_OK(store_->Compact());
    EXPECT_LT(disk(), uintmax_t{160} << 20) << version;
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> back, store_->Get(stays, allocator_));
  EXPECT_EQ(back[0].scalar<std::string>(), std::string(100000, 's'));
}

TEST_F(SnapshotStoreTest, WhatIsNotWantedGoesAndRecordsStay) {
  Open();
  state::Life life;
  life.set_epoch(5);
  const StoredKey keys[] = {{StoredKey::Of::kResource, 1, 1},
                            {StoredKey::Of::kResource, 1, 2},
                            {StoredKey::Of::kRegistration, 1, 0}};
  for (const StoredKey& key : keys) ASSERT_OK(store_->Put(key, {Tensor::Scalar(1.0f)}));
  ASSERT_OK(store_->Commit(&life, nullptr));
  ASSERT_OK(store_->RemoveAllBut([&](const StoredKey& key) { return key == keys[1]; }));
  EXPECT_EQ(store_->Get(keys[0], allocator_).status().code(), StatusCode::kNotFound);
  EXPECT_OK(store_->Get(keys[1], allocator_));
  EXPECT_EQ(store_->Get(keys[2], allocator_).status().code(), StatusCode::kNotFound);
  Open();
  ASSERT_OK_AND_ASSIGN(const std::optional<state::Life> read, store_->ReadLife());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->epoch(), 5u);
  ASSERT_OK_AND_ASSIGN(const std::optional<state::Snapshot> none, store_->ReadSnapshot());
  EXPECT_FALSE(none.has_value());
}

TEST_F(SnapshotStoreTest, WhatIsLoggedIsThereWithAllThatItWasGivenWith) {
  Open();
  const auto entry = [](uint64_t id, uint64_t position, std::vector<Tensor> parts) {
    LoggedValue value{{StoredKey::Of::kLoggedResource, id, position}, {}, std::move(parts)};
    value.logged.set_position(position);
    value.logged.mutable_resource()->set_id(id);
    return value;
  };
  const auto logged = [this] {
    std::map<uint64_t, uint64_t> positions;
    EXPECT_OK(store_->VisitLog([&](const StoredKey& key, const state::Logged& logged) {
      EXPECT_EQ(logged.position(), key.version);
      EXPECT_TRUE(positions.emplace(key.id, key.version).second) << "twice: " << key.id;
    }));
    return positions;
  };
  Tensor large = *Tensor::Allocate(allocator_, DType::kFloat, Shape({5 << 20}));
  std::memset(large.mutable_raw(), 1, large.bytes());
  ASSERT_OK(store_->Log({entry(1, 1, {Tensor::Scalar(1.0f)}), entry(2, 1, {})}, {}).status());
  // More than goes at once, over what is there.
  ASSERT_OK(store_
                ->Log({entry(1, 2, {Tensor::Scalar(2.0f)}), entry(3, 2, {large})},
                      {{StoredKey::Of::kLoggedResource, 1, 1}})
                .status());
  // What a crash leaves of one that was not finished.
  ASSERT_OK(store_->Put({StoredKey::Of::kLoggedResource, 3, 3}, {large}));
  ASSERT_OK(store_->Commit(nullptr, nullptr));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(logged(), (std::map<uint64_t, uint64_t>{{1, 2}, {2, 1}, {3, 2}}));
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> one,
                         store_->Get({StoredKey::Of::kLoggedResource, 1, 2}, allocator_));
    EXPECT_EQ(one[0].scalar<float>(), 2);
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> three,
                         store_->Get({StoredKey::Of::kLoggedResource, 3, 2}, allocator_));
    EXPECT_EQ(three[0].span<float>(), large.span<float>());
    Open();
  }
  ASSERT_OK(store_
                ->Log({}, {{StoredKey::Of::kLoggedResource, 1, 2},
                           {StoredKey::Of::kLoggedResource, 3, 2}})
                .status());
  EXPECT_EQ(logged(), (std::map<uint64_t, uint64_t>{{2, 1}}));
  EXPECT_THAT(store_->Get({StoredKey::Of::kLoggedResource, 3, 2}, allocator_).status(),
              StatusIs(StatusCode::kNotFound));
}

}  // namespace
}  // namespace formwork::testing
