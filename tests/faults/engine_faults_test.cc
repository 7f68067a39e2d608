// An engine whose data directory is on a disk that fails, loses its power, or is damaged.

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/engine.h"
#include "tests/faults/faulty_files.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using Call = FaultyFiles::Call;
using Outcome = FaultyFiles::Outcome;

// Elements of `large`: stored apart from the database's tree.
constexpr int64_t kLarge = 5000;
constexpr int kCalls = 6;
// Of the changes to files, so many at once: all would take a minute.
constexpr int64_t kStep = 5, kMostChanges = 1000;

class EngineFaultsTest : public EngineTest {
 protected:
  void SetUp() override {}
  void TearDown() override { engine_.reset(); }

  static EngineOptions Options(const std::string& folder, Durability durability) {
    EngineOptions options;
    options.data_dir = folder;
    options.durability = durability;
    options.snapshot_interval = absl::ZeroDuration();
    return options;
  }
  // Two variables, and a function that adds 1 to all of both, on the disk.
  void Begin(const std::string& folder, Durability durability) {
    engine_.reset();
    Start(Options(folder, durability));
    Tensor zeros = *Tensor::Allocate(allocator_, DType::kFloat, Shape({kLarge}));
    std::fill_n(zeros.mutable_data<float>(), kLarge, 0.0f);
    NewVariable("small", 0);
    NewVariable("other", 7);
    ASSERT_OK(engine_->CreateVariable("ns", "large", DType::kFloat, Shape({kLarge}), zeros));
    ASSERT_OK_AND_ASSIGN(const Registered count,
                         Register("count", R"(
      s = Placeholder dtype=resource
      l = Placeholder dtype=resource
      one = Const float[] 1
      a = AssignAddVariableOp(s, one) dtype=float
      x = ReadVariableOp(l, ^a) dtype=float
      m = AddV2(x, one) T=float
      b = AssignVariableOp(l, m) dtype=float)",
                                  {}, {}, {{"s:0", "small"}, {"l:0", "large"}}, {"a", "b"}));
    count_ = count.function.id;
    ASSERT_OK(Snapshot());
  }
  absl::Status Snapshot() {
    absl::Notification done;
    absl::Status status;
    engine_->TakeSnapshot([&](const absl::StatusOr<SnapshotInfo>& made) {
      status = made.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }
  absl::Status Count() { return Run(count_, {}).status; }
  // What all of both variables is.
  absl::StatusOr<float> Counted() {
    const ReadResult read = Read({{0, "small"}, {0, "large"}});
    if (!read.status.ok()) return read.status;
    const float small = read.values[0].value.scalar<float>();
    for (const float element : read.values[1].value.span<float>()) {
      if (element != small) return absl::InternalError("half of one state and half of another");
    }
    return small;
  }

  HostAllocator allocator_;
  uint64_t count_ = 0;
};

class EnginePowerTest : public EngineFaultsTest,
                        public ::testing::WithParamInterface<Durability> {};

TEST_P(EnginePowerTest, WhereverItGoesOffTheStateIsOneThatWasPromised) {
  const Durability durability = GetParam();
  int64_t last = 1;
  for (bool off = true; off; last += kStep) {
    ASSERT_LT(last, kMostChanges);
    SCOPED_TRACE(last);
    const TempFolder folder;
    ASSERT_NO_FATAL_FAILURE(Begin(folder.path(), durability));
    int answered = 0, promised = 0;
    off = false;
    {
      int64_t changes = 0;
      FaultyFiles faults(folder.path(), [&](const Call& call) -> Outcome {
        if (!call.changes()) return {};
        if (off) return {.bytes = 0, .error = EIO};
        off = ++changes == last;
        return off ? Outcome{.bytes = call.bytes / 2, .error = EIO} : Outcome{};
      });
      for (int i = 0; i < kCalls; ++i) {
        if (!Count().ok()) break;
        ++answered;
        const bool snapshot = i == kCalls / 2 && Snapshot().ok();
        if (snapshot || durability == Durability::kSync) promised = answered;
      }
      engine_.reset();
      if (last % 2 == 0) faults.LoseWhatWasNotSynced();  // Else half of a write stays.
    }
    Start(Options(folder.path(), durability));
    ASSERT_OK_AND_ASSIGN(const float counted, Counted());
    EXPECT_GE(counted, promised);
    EXPECT_LE(counted, answered + 1);
    ASSERT_OK(Count());
  }
  EXPECT_GT(last, 10);
}

INSTANTIATE_TEST_SUITE_P(Durabilities, EnginePowerTest,
                         ::testing::Values(Durability::kSync, Durability::kSnapshot));

TEST_F(EngineFaultsTest, OfADiskThatFailsThoseHearAloneThatWaitForIt) {
  const TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(Begin(folder.path(), Durability::kSync));
  ASSERT_OK(engine_->SetDurability("m", Durability::kMemory));
  ASSERT_OK(engine_->CreateVariable("m", "v", DType::kFloat, Shape({}), Tensor::Scalar(0.0f)));
  {
    const FaultyFiles faults(folder.path(), [](const Call& call) -> Outcome {
      return call.changes() ? Outcome{.bytes = 0, .error = EIO} : Outcome{};
    });
    EXPECT_FALSE(Count().ok());
    for (int i = 1; i <= 10; ++i) {
      PendingAssign assign;
      assign.handle = engine_->AssignVariables(
          {"m", {{{0, "v"}, Tensor::Scalar(static_cast<float>(i))}}}, assign.Done());
      assign.handle->Start();
      ASSERT_OK(assign.Wait().status);
    }
    // What is not on the disk has not been set.
    EXPECT_FALSE(engine_->SetDurability("n", Durability::kMemory).ok());
    EXPECT_EQ(engine_->DurabilityOf("n"), Durability::kSync);
  }
  PendingRead read;
  read.handle = engine_->ReadVariables({"m", {{0, "v"}}}, read.Done());
  read.handle->Start();
  ASSERT_OK(read.Wait().status);
  EXPECT_EQ(read.result.values[0].value.scalar<float>(), 10);
}

TEST_F(EngineFaultsTest, ADiskThatFillsUpRefusesWritesAndReadsGoOn) {
  const TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(Begin(folder.path(), Durability::kSync));
  ASSERT_OK(Count());
  {
    absl::Notification tried;  // To make a new file of the log, with which trying again begins.
    const FaultyFiles faults(folder.path(), [&](const Call& call) -> Outcome {
      if (!call.changes()) return {};
      if (call.kind == FaultyFiles::Kind::kCreate && !tried.HasBeenNotified()) tried.Notify();
      return {.bytes = call.bytes / 2, .error = ENOSPC};
    });
    EXPECT_THAT(Count(), StatusIs(StatusCode::kResourceExhausted));
    ASSERT_TRUE(tried.WaitForNotificationWithTimeout(absl::Seconds(30)));
    EXPECT_THAT(Snapshot(), StatusIs(StatusCode::kResourceExhausted));
    EXPECT_EQ(ValueOf("other"), 7);
    // What is not on the disk is not told.
    EXPECT_THAT(Counted().status(), StatusIs(StatusCode::kResourceExhausted));
  }
  // It is tried again by itself.
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!Count().ok()) ASSERT_LT(absl::Now(), deadline);
  ASSERT_OK_AND_ASSIGN(const float counted, Counted());
  engine_.reset();
  Start(Options(folder.path(), Durability::kSync));
  EXPECT_EQ(Counted().value_or(-1), counted);
}

TEST_F(EngineFaultsTest, ADiskThatFailsRefusesWritesAndReadsGoOn) {
  const TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(Begin(folder.path(), Durability::kSync));
  ASSERT_OK(Count());
  {
    const FaultyFiles faults(folder.path(), [](const Call& call) -> Outcome {
      return call.changes() ? Outcome{.bytes = call.bytes / 2, .error = EIO} : Outcome{};
    });
    EXPECT_THAT(Count(), StatusIs(StatusCode::kUnavailable));
    EXPECT_THAT(Count(), StatusIs(StatusCode::kUnavailable));  // It is refused beforehand.
    EXPECT_THAT(Snapshot(), StatusIs(StatusCode::kUnavailable));
    EXPECT_EQ(ValueOf("other"), 7);
    EXPECT_THAT(Counted().status(), StatusIs(StatusCode::kUnavailable));
  }
  engine_.reset();
  Start(Options(folder.path(), Durability::kSync));
  ASSERT_OK_AND_ASSIGN(const float counted, Counted());
  EXPECT_TRUE(counted == 1 || counted == 2) << counted;
  EXPECT_OK(Count());
}

TEST_F(EngineFaultsTest, WritesAndReadsThatDoLessThanAskedGoOn) {
  const TempFolder folder;
  {
    const FaultyFiles faults(folder.path(), [](const Call& call) -> Outcome {
      return {.bytes = call.changes() ? call.bytes / 2 + 1 : call.bytes};
    });
    ASSERT_NO_FATAL_FAILURE(Begin(folder.path(), Durability::kSync));
    ASSERT_OK(Count());
    ASSERT_OK(Snapshot());
    ASSERT_OK(Count());
    engine_.reset();
  }
  Start(Options(folder.path(), Durability::kSync));
  EXPECT_EQ(Counted().value_or(-1), 2);
}

TEST_F(EngineFaultsTest, DamageAnywhereIsNamedOrHarmless) {
  const TempFolder folder, crashed, copy;
  ASSERT_NO_FATAL_FAILURE(Begin(folder.path(), Durability::kSync));
  ASSERT_OK(Count());
  ASSERT_OK(Snapshot());
  for (int i = 1; i < kCalls; ++i) ASSERT_OK(Count());
  // As kill -9 leaves it.
  fs::remove_all(crashed.path());
  fs::copy(folder.path(), crashed.path());
  engine_.reset();
  int named = 0;
  for (const auto& file : fs::directory_iterator(crashed.path())) {
    const std::string name = file.path().filename().string();
    if (name.substr(0, 3) == "LOG" || file.file_size() == 0) continue;
    for (int i = 0; i < 8; ++i) {
      const auto at = static_cast<int64_t>(file.file_size() - 1) * i / 7;
      SCOPED_TRACE(absl::StrCat(name, " byte ", at));
      engine_.reset();
      fs::remove_all(copy.path());
      fs::copy(crashed.path(), copy.path());
      {
        std::fstream bytes(copy.path() + "/" + name,
                           std::ios::in | std::ios::out | std::ios::binary);
        bytes.seekg(at);
        const int was = bytes.get();
        bytes.seekp(at);
        bytes.put(static_cast<char>(was ^ 0x10));
      }
      absl::StatusOr<std::unique_ptr<Engine>> made =
          Engine::Create(Options(copy.path(), Durability::kSync));
      if (!made.ok()) {
        EXPECT_THAT(made.status(), StatusIs(StatusCode::kDataLoss));
        ++named;
        continue;
      }
      engine_ = *std::move(made);
      EXPECT_EQ(Counted().value_or(-1), kCalls);
    }
  }
  EXPECT_GT(named, 8);
}

}  // namespace
}  // namespace formwork::testing
