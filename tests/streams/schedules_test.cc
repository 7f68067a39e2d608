// Random functions, several calls of them at once, on the simulated device: whatever the schedule,
// each call gives what it gives on the CPU one after the other, and the device sees no race. With a
// wait left out it does: so the proof is tested, too.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

#include "tests/streams/random_program.h"

namespace formwork::testing {
namespace {

using ::testing::IsEmpty;

constexpr int kPrograms = 3;  // In one schedule.
constexpr int kCalls = 16;
constexpr int kCallsWithPlainOnes = 128;

// Calls have one stream, or several, of a device that computes or of one whose kernels are
// enqueued: by turns.
struct Streams {
  explicit Streams(int schedule)
      : of_call(schedule % 3 == 0 ? 1 : 1 + schedule / 2 % 4), enqueue(schedule % 2 == 1) {}
  int of_call;
  bool enqueue;
  int all() const { return 3 * of_call; }
};

constexpr int kSchedules = 500;
// FORMWORK_SCHEDULES: how many, for longer runs, and for shorter ones under sanitizers.
int Schedules() {
  const char* given = std::getenv("FORMWORK_SCHEDULES");
  return given == nullptr ? kSchedules : std::atoi(given);
}

bool Same(const Outcome& ours, const Outcome& theirs) {
  if (ours.status != theirs.status || ours.results.size() != theirs.results.size()) return false;
  for (size_t i = 0; i < ours.results.size(); ++i) {
    const Tensor& a = ours.results[i];
    const Tensor& b = theirs.results[i];
    if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
    if (std::memcmp(a.raw(), b.raw(), a.bytes()) != 0) return false;
  }
  return true;
}

std::string Text(const Outcome& outcome) {
  std::string text = outcome.status.ToString();
  for (const Tensor& result : outcome.results) absl::StrAppend(&text, "\n", result.DebugString(16));
  return text;
}

// The functions of some schedules, and calls of them.
class Case {
 public:
  /// `plain`: half of the calls are of functions for which the host never waits, and by that orders
  /// what others do.
  Case(Programs& programs, uint64_t seed, bool plain = false) : random_(seed) {
    initial_ = InitialProgram(programs).value();
    for (int i = 0; i < kPrograms; ++i) {
      absl::StatusOr<Program> program = RandomProgram(programs, seed * kPrograms + i);
      EXPECT_OK(program);
      programs_.push_back(*std::move(program));
    }
    for (int i = 0; plain && i < kPrograms; ++i) {
      absl::StatusOr<Program> program = PlainProgram(programs, static_cast<Plain>(i % 3));
      EXPECT_OK(program);
      programs_.push_back(*std::move(program));
    }
    const int calls = plain ? kCallsWithPlainOnes : kCalls;
    for (int i = 0; i < calls; ++i) {
      const Program& program = programs_[random_() % programs_.size()];
      const bool atomic = !plain && random_() % 4 == 0;
      requests_.push_back({&program, RandomInputs(random_(), random_() % 8 == 0), atomic});
    }
  }
  Case(const Case&) = delete;

  std::vector<Outcome> Run(World& world) const {
    world.Run({{&initial_, RandomInputs(1, false)}});
    return world.Run(requests_);
  }
  std::vector<Outcome> RunOnThreads(SimWorld& world) const {
    world.Run({{&initial_, RandomInputs(1, false)}});
    return world.RunOnThreads(requests_);
  }
  const Program& program(size_t call) const { return *requests_[call].program; }
  bool atomic(size_t call) const { return requests_[call].atomic; }

 private:
  std::mt19937_64 random_;
  Program initial_;
  std::vector<Program> programs_;
  std::vector<Request> requests_;
};

TEST(Schedules, GiveWhatTheCpuGives) {
  constexpr int kSeedsOfACase = 5;
  Programs programs;
  int failed = 0, failed_by_word = 0, at_once = 0;
  int64_t calls = 0, host_waits = 0, on_several = 0, taken_back = 0;
  for (int schedule = 0; schedule < Schedules();) {
    const Case functions(programs, schedule);
    CpuWorld cpu(programs.allocator());
    const std::vector<Outcome> expected = functions.Run(cpu);
    for (int seed = 0; seed < kSeedsOfACase; ++seed, ++schedule) {
      const Streams streams(schedule);
      SimWorld sim(programs, schedule, streams.all(), streams.enqueue);
      sim.set_streams_per_call(streams.of_call);
      const std::vector<Outcome> outcomes = functions.Run(sim);
      for (size_t i = 0; i < outcomes.size(); ++i) {
        ASSERT_TRUE(Same(outcomes[i], expected[i]))
            << "schedule " << schedule << " call " << i << "\n"
            << functions.program(i).text << PlanText(sim.PlanOf(functions.program(i)))
            << "\non the device: " << Text(outcomes[i]) << "\non the CPU: " << Text(expected[i]);
        failed += !outcomes[i].status.ok();
        failed_by_word += !outcomes[i].status.ok() && streams.enqueue;
        taken_back += !outcomes[i].status.ok() && functions.atomic(i);
        on_several += sim.PlanOf(functions.program(i)).num_streams > 1;
      }
      ASSERT_THAT(sim.Reports(), IsEmpty()) << "schedule " << schedule;
      calls += static_cast<int64_t>(outcomes.size());
      at_once += sim.most_at_once();
      host_waits += sim.host_waits();
    }
  }
  RecordProperty("calls", std::to_string(calls));
  RecordProperty("failed", failed);
  RecordProperty("host_waits", std::to_string(host_waits));
  RecordProperty("on_several_streams", std::to_string(on_several));
  RecordProperty("failed_by_word", failed_by_word);
  RecordProperty("taken_back", std::to_string(taken_back));
  EXPECT_GT(taken_back, 0);
  EXPECT_GT(failed, failed_by_word);
  EXPECT_GT(failed_by_word, 0);
  EXPECT_GE(on_several, calls / 8) << "of " << calls << " calls, those that used several streams";
  EXPECT_GE(at_once, 3 * Schedules()) << "calls at once, summed over the schedules";
}

TEST(Schedules, ThreadsGiveWhatTheCpuGives) {
  const int schedules = Schedules() / 10;
  Programs programs;
  for (int schedule = 0; schedule < schedules; ++schedule) {
    const Case functions(programs, schedule);
    CpuWorld cpu(programs.allocator());
    const std::vector<Outcome> expected = functions.Run(cpu);
    const Streams streams(schedule);
    SimWorld sim(programs, schedule, streams.all(), streams.enqueue);
    sim.set_streams_per_call(streams.of_call);
    const std::vector<Outcome> outcomes = functions.RunOnThreads(sim);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      ASSERT_TRUE(Same(outcomes[i], expected[i]))
          << "schedule " << schedule << " call " << i << "\n"
          << functions.program(i).text << PlanText(sim.PlanOf(functions.program(i)))
          << "\non the device: " << Text(outcomes[i]) << "\non the CPU: " << Text(expected[i]);
    }
    ASSERT_THAT(sim.Reports(), IsEmpty()) << "schedule " << schedule;
  }
}

TEST(Schedules, CancelledCallsLeaveEverythingInOrder) {
  const int schedules = Schedules() / 5;
  Programs programs;
  int cancelled = 0;
  for (int schedule = 0; schedule < schedules; ++schedule) {
    const Case functions(programs, schedule);
    const Streams streams(schedule);
    SimWorld sim(programs, schedule, streams.all(), streams.enqueue);
    sim.set_streams_per_call(streams.of_call);
    sim.set_cancels();
    for (const Outcome& outcome : functions.Run(sim)) {
      const absl::StatusCode code = outcome.status.code();
      cancelled += code == absl::StatusCode::kCancelled;
      EXPECT_THAT(code, ::testing::AnyOf(absl::StatusCode::kOk, absl::StatusCode::kCancelled,
                                         absl::StatusCode::kInvalidArgument,
                                         // Where the first call was cancelled.
                                         absl::StatusCode::kFailedPrecondition))
          << outcome.status;
    }
    ASSERT_THAT(sim.Reports(), IsEmpty()) << "schedule " << schedule;
  }
  EXPECT_GT(cancelled, schedules);
}

// How many schedules, of a hundred that come to such waits, are reported where those are left out.
int Reported(const std::function<bool(const SimWait&)>& which) {
  Programs programs;
  int reported = 0, wrong = 0, tried = 0;
  for (int schedule = 0; schedule < 1000 && tried < 100; ++schedule) {
    const Case functions(programs, schedule, /*plain=*/true);
    CpuWorld cpu(programs.allocator());
    const std::vector<Outcome> expected = functions.Run(cpu);
    const Streams streams(schedule);
    SimWorld sim(programs, schedule, streams.all(), streams.enqueue);
    sim.set_streams_per_call(streams.of_call);
    bool left_out = false;
    sim.device().LeaveOutWaits([&](const SimWait& wait) {
      left_out |= which(wait);
      return which(wait);
    });
    const std::vector<Outcome> outcomes = functions.Run(sim);
    const bool differs = !std::equal(outcomes.begin(), outcomes.end(), expected.begin(), Same);
    const bool found = !sim.Reports().empty();
    EXPECT_TRUE(found || !differs) << "schedule " << schedule << ": wrong, and not reported";
    if (!left_out) continue;
    ++tried;
    reported += found;
    wrong += differs;
  }
  EXPECT_EQ(tried, 100);
  ::testing::Test::RecordProperty("wrong", wrong);
  return reported;
}

TEST(Schedules, ReportMissingWaits) {
  if (Schedules() < kSchedules) GTEST_SKIP() << "a short run";
  EXPECT_GE(Reported([](const SimWait&) { return true; }), 99);
}

TEST(Schedules, ReportThatEverySecondWaitIsMissing) {
  if (Schedules() < kSchedules) GTEST_SKIP() << "a short run";
  EXPECT_GE(Reported([](const SimWait& wait) { return wait.number % 2 == 0; }), 99);
}

// Each statement of the engine that makes a stream wait, alone.
TEST(Schedules, ReportThatOneWaitIsMissing) {
  if (Schedules() < kSchedules) GTEST_SKIP() << "a short run";
  Programs programs;
  std::map<const void*, int64_t> sites;
  for (int schedule = 0; schedule < 20; ++schedule) {
    const Case functions(programs, schedule, /*plain=*/true);
    const Streams streams(schedule);
    SimWorld sim(programs, schedule, streams.all(), streams.enqueue);
    sim.set_streams_per_call(streams.of_call);
    sim.device().LeaveOutWaits([&](const SimWait& wait) {
      ++sites[wait.site];
      return false;
    });
    functions.Run(sim);
    ASSERT_THAT(sim.Reports(), IsEmpty());
  }
  EXPECT_GE(sites.size(), 3u);
  for (const auto& [site, times] : sites) {
    const int reported = Reported([site = site](const SimWait& wait) { return wait.site == site; });
    RecordProperty(absl::StrCat("of_one_met_", times, "_times"), reported);
    EXPECT_GE(reported, 99) << "of " << sites.size() << " statements, one that is met " << times
                            << " times";
  }
}

}  // namespace
}  // namespace formwork::testing
