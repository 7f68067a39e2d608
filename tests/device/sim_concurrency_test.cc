// Calls on shared variables, ordered by events alone, on the simulated device under many seeds; and
// the same with a wait left out, which the device must report: so the detector is tested, too.

#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/device/host_allocator.h"
#include "tests/support/sim_device.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kSeeds = 200;
constexpr int kStreams = 4;
constexpr int kVariables = 2;
constexpr int kCalls = 16;

// What a variable's next user must wait for.
struct Variable {
  Buffer home;
  EventRef last_write;
  std::vector<EventRef> reads;  // Since the last write.
  uint64_t expected = 0;
};

struct Waits {
  bool for_last_write = true;   // Who reads or writes waits for the last write.
  bool for_reads_since = true;  // Who writes waits for the reads since.
};

struct Outcome {
  std::vector<std::string> reports;
  int wrong_values = 0;
};

class Calls {
 public:
  Calls(uint64_t seed, const Waits& waits) : device_(seed), waits_(waits), random_(seed) {
    for (int i = 0; i < kStreams; ++i) streams_.push_back(device_.NewStream().value());
    for (Variable& variable : variables_) {
      variable.home =
          Buffer(device_.allocator().Allocate(sizeof(uint64_t), streams_[0].get()).value());
      Launch(*streams_[0], variable, [](uint64_t& value) { value = 0; });
      variable.last_write = streams_[0]->Record();
    }
  }

  SimDevice& device() { return device_; }

  /// Admits one call: all that it does is enqueued, in the order of admission.
  void Admit() {
    absl::MutexLock lock(&mutex_);
    Stream& stream = *streams_[random_() % kStreams];
    Variable& variable = variables_[random_() % kVariables];
    if (waits_.for_last_write) stream.Wait(variable.last_write);
    if (random_() % 2 == 0) {
      if (waits_.for_reads_since) {
        for (const EventRef& read : variable.reads) stream.Wait(read);
      }
      Launch(stream, variable, [](uint64_t& value) { value = value * 3 + 1; });
      variable.expected = variable.expected * 3 + 1;
      variable.last_write = stream.Record();
      variable.reads.clear();
    } else {
      results_.push_back(Buffer(ProcessAllocator().Allocate(sizeof(uint64_t), nullptr).value()));
      expected_.push_back(variable.expected);
      stream.Copy(variable.home, results_.back());
      variable.reads.push_back(stream.Record());
      done_.push_back(variable.reads.back());
    }
  }

  Outcome Finish() {
    Outcome outcome;
    for (size_t i = 0; i < results_.size(); ++i) {
      EXPECT_OK(done_[i]->Await(absl::InfiniteFuture()));
      device_.HostReads(results_[i]);
      uint64_t value = 0;
      std::memcpy(&value, results_[i].data(), sizeof(value));
      outcome.wrong_values += value != expected_[i];
    }
    device_.RunAll();
    outcome.reports = device_.Reports();
    return outcome;
  }

  std::mt19937_64& random() { return random_; }

 private:
  template <typename F>
  void Launch(Stream& stream, Variable& variable, F change) {
    stream.Launch({.reads = {}, .writes = {&variable.home}}, [data = variable.home.data(), change] {
      uint64_t value = 0;
      std::memcpy(&value, data, sizeof(value));
      change(value);
      std::memcpy(data, &value, sizeof(value));
      return absl::OkStatus();
    });
  }

  SimDevice device_;
  const Waits waits_;
  absl::Mutex mutex_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Stream>> streams_;
  Variable variables_[kVariables];
  std::vector<Buffer> results_;
  std::vector<uint64_t> expected_;
  std::vector<EventRef> done_;
};

Outcome RunCalls(uint64_t seed, const Waits& waits) {
  Calls calls(seed, waits);
  for (int i = 0; i < kCalls; ++i) {
    calls.Admit();
    for (int steps = calls.random()() % 4; steps > 0; --steps) calls.device().Step();
  }
  return calls.Finish();
}

// How many of the seeds gave a report, and how many a wrong value.
struct Tally {
  int reported = 0;
  int wrong = 0;
};
Tally RunSeeds(const Waits& waits) {
  Tally tally;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Outcome outcome = RunCalls(seed, waits);
    tally.reported += !outcome.reports.empty();
    tally.wrong += outcome.wrong_values != 0;
    // Where a value is wrong, something must have been reported.
    EXPECT_TRUE(outcome.wrong_values == 0 || !outcome.reports.empty()) << "seed " << seed;
  }
  ::testing::Test::RecordProperty("reported", tally.reported);
  ::testing::Test::RecordProperty("wrong", tally.wrong);
  return tally;
}

TEST(SimConcurrency, CallsOnVariablesAreOrderedByEvents) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Outcome outcome = RunCalls(seed, {});
    EXPECT_THAT(outcome.reports, IsEmpty()) << "seed " << seed;
    EXPECT_EQ(outcome.wrong_values, 0) << "seed " << seed;
  }
}

TEST(SimConcurrency, ReportsAMissingWaitForTheLastWrite) {
  const Tally tally = RunSeeds({.for_last_write = false, .for_reads_since = true});
  EXPECT_GE(tally.reported, kSeeds * 95 / 100);
  EXPECT_GT(tally.wrong, 0);
}

TEST(SimConcurrency, ReportsAMissingWaitForEarlierReads) {
  const Tally tally = RunSeeds({.for_last_write = true, .for_reads_since = false});
  EXPECT_GE(tally.reported, kSeeds * 90 / 100);
  // Values alone find fewer of them: that is why there are clocks.
  EXPECT_LT(tally.wrong, tally.reported);
}

TEST(SimConcurrency, TheSameSeedRunsTheSame) {
  const Waits broken = {.for_last_write = false, .for_reads_since = false};
  EXPECT_EQ(RunCalls(11, broken).reports, RunCalls(11, broken).reports);
}

TEST(SimConcurrency, ManyThreadsAdmitWhileTheDeviceRuns) {
  for (int seed = 0; seed < kSeeds / 10; ++seed) {
    Calls calls(seed, {});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&calls] {
        for (int i = 0; i < kCalls; ++i) {
          calls.Admit();
          calls.device().Step();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    const Outcome outcome = calls.Finish();
    EXPECT_THAT(outcome.reports, IsEmpty()) << "seed " << seed;
    EXPECT_EQ(outcome.wrong_values, 0) << "seed " << seed;
  }
}

// One program, two streams, one buffer of 8 bytes that `first_` has written.
class SimReports : public ::testing::Test {
 protected:
  void Write(Stream& stream) {
    stream.Launch({.reads = {}, .writes = {&value_}}, [data = value_.data()] {
      std::memset(data, 1, 8);
      return absl::OkStatus();
    });
  }
  std::vector<std::string> Reports() {
    device_.RunAll();
    return device_.Reports();
  }

  SimDevice device_{1};
  std::unique_ptr<Stream> first_ = device_.NewStream().value();
  std::unique_ptr<Stream> second_ = device_.NewStream().value();
  Buffer value_ = Buffer(device_.allocator().Allocate(8, first_.get()).value());
  Buffer host_{ProcessAllocator().Allocate(8, nullptr).value()};
};

TEST_F(SimReports, AHostReadBeforeItsCopyIsAwaited) {
  Write(*first_);
  first_->Copy(value_, host_);
  device_.RunAll();  // It has run, but nobody has told the host.
  device_.HostReads(host_);
  EXPECT_THAT(Reports(), Contains(HasSubstr("the host reads")));
}

TEST_F(SimReports, AHostWriteUnderACopy) {
  first_->Copy(host_, value_);
  device_.HostWrites(host_);
  EXPECT_THAT(Reports(), Contains(HasSubstr("race: ")));
}

TEST_F(SimReports, AFreeThatDoesNotWaitForAReadElsewhere) {
  Buffer copy = Buffer(device_.allocator().Allocate(8, second_.get()).value());
  Write(*first_);
  second_->Wait(first_->Record());
  second_->Copy(value_, copy);
  value_.Reset();
  EXPECT_THAT(Reports(), Contains(::testing::AnyOf(HasSubstr("frees"), HasSubstr("after free"))));
}

TEST_F(SimReports, AUseBeforeTheAllocationElsewhere) {
  Write(*second_);
  EXPECT_THAT(Reports(), Contains(HasSubstr("race: ")));
}

// Whichever of the two runs first.
TEST(SimConcurrency, ReportsAUseBeforeTheAllocationElsewhere) {
  for (uint64_t seed = 0; seed < 32; ++seed) {
    SimDevice device(seed);
    const std::unique_ptr<Stream> first = device.NewStream().value();
    const std::unique_ptr<Stream> second = device.NewStream().value();
    Buffer value(device.allocator().Allocate(8, first.get()).value());
    second->Launch({.reads = {}, .writes = {&value}}, [] { return absl::OkStatus(); });
    device.RunAll();
    EXPECT_THAT(device.Reports(), ::testing::ElementsAre(HasSubstr("race: ")));
  }
}

TEST_F(SimReports, AReadOfWhatWasNeverWritten) {
  first_->Copy(value_, host_);
  EXPECT_THAT(Reports(), Contains(HasSubstr("never written")));
}

TEST_F(SimReports, AWriteToABufferNamedAsRead) {
  Write(*first_);
  first_->Launch({.reads = {&value_}, .writes = {}}, [data = value_.data()] {
    std::memset(data, 2, 8);
    return absl::OkStatus();
  });
  EXPECT_THAT(Reports(), Contains(HasSubstr("named as read")));
}

TEST_F(SimReports, AWriteThatNothingAnnounced) {
  std::memset(value_.data(), 2, 8);
  Write(*first_);
  EXPECT_THAT(Reports(), Contains(HasSubstr("nothing announced")));
}

TEST_F(SimReports, AHostReadOfMemoryOfTheDeviceSeesPoison) {
  Write(*first_);
  EXPECT_THAT(Reports(), IsEmpty());
  EXPECT_EQ(static_cast<uint8_t*>(value_.data())[0], 0xA5);
  device_.HostReads(value_);
  EXPECT_THAT(Reports(), Contains(HasSubstr("which is of the device")));
}

TEST_F(SimReports, ALostDevice) {
  Write(*first_);
  const EventRef event = first_->Record();
  device_.Lose();
  EXPECT_THAT(event->Await(absl::InfiniteFuture()), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(device_.Health(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(device_.NewStream(), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace formwork::testing
