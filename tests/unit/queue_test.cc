// Queues: what calls hand to each other, and how they wait for it.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/device/host_allocator.h"
#include "core/kernels/resource/queue_state.h"
#include "core/kernels/resource/stored_form.h"
#include "core/ops/queue.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

class QueueTest : public EngineTest {
 protected:
  // A function of x behind a queue q; y is its output, and `targets` run.
  uint64_t Made(const std::string& name, absl::string_view steps,
                std::vector<std::pair<std::string, std::string>> variables = {},
                std::vector<std::string> targets = {},
                absl::string_view queue = "FIFOQueueV2 capacity=3 shapes=[shape:[]]") {
    const absl::StatusOr<Registered> made =
        Register(name,
                 absl::StrCat("x = Placeholder dtype=float\nq = ", queue,
                              " shared_name=\"q\" component_types=[float]\n", steps),
                 {Spec("x:0")}, {"y:0"}, std::move(variables), std::move(targets));
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  uint64_t MadeAdd() {
    return Made("add",
                "a = QueueEnqueueV2(q, x) Tcomponents=[float]\n"
                "y = QueueSizeV2(q, ^a)\n");
  }
  uint64_t MadeTake() { return Made("take", "y = QueueDequeueV2(q) component_types=[float]\n"); }
  uint64_t MadeTakeMany(int n) {
    return Made(absl::StrCat("take ", n),
                absl::StrCat("n = Const int32[] ", n,
                             "\ny = QueueDequeueManyV2(q, n) component_types=[float]\n"));
  }
  // Begins a call that adds 1 to variable v, and then does `step`; returns once it waits.
  std::unique_ptr<Pending> BeginToWait(absl::string_view step, float x = 0) {
    if (IdOf("v") == 0) NewVariable("v", 0);
    const float before = ValueOf("v");
    const uint64_t id = Made(absl::StrCat("wait ", ++waiters_),
                             absl::StrCat("v = Placeholder dtype=resource\n"
                                          "one = Const float[] 1\n"
                                          "n = Const int32[] 2\n"
                                          "c = AssignAddVariableOp(v, one) dtype=float\n",
                                          step, "\n"),
                             {{"v:0", "v"}});
    std::unique_ptr<Pending> pending = BeginOf(id, x);
    // It shows what it has done once it has given back its places.
    while (id != 0 && ValueOf("v") == before) absl::SleepFor(absl::Milliseconds(1));
    return pending;
  }
  std::unique_ptr<Pending> BeginToTake() {
    return BeginToWait("y = QueueDequeueV2(q, ^c) component_types=[float]");
  }
  std::unique_ptr<Pending> BeginToTakeTwo() {
    return BeginToWait("y = QueueDequeueManyV2(q, n, ^c) component_types=[float]");
  }
  std::unique_ptr<Pending> BeginToAdd(float x) {
    return BeginToWait("a = QueueEnqueueV2(q, x, ^c) Tcomponents=[float]\ny = QueueSizeV2(q, ^a)",
                       x);
  }
  uint64_t MadeClose(bool cancels) {
    return Made(absl::StrCat("close ", cancels),
                absl::StrCat("c = QueueCloseV2(q) cancel_pending_enqueues=",
                             cancels ? "true" : "false", "\ny = QueueSizeV2(q, ^c)\n"));
  }
  std::unique_ptr<Pending> BeginOf(uint64_t id, float x = 0,
                                   absl::Time deadline = absl::InfiniteFuture()) {
    return Begin(id, Owned(Tensor::Scalar(x)), false, deadline);
  }
  CallResult RunOf(uint64_t id, float x = 0) { return std::move(BeginOf(id, x)->Wait()); }
  int waiters_ = 0;

  static float Taken(const CallResult& result) {
    EXPECT_OK(result.status);
    return result.status.ok() ? result.outputs[0].tensor.scalar<float>() : -1;
  }
};

TEST_F(QueueTest, WhatOneCallAddsAnotherTakes) {
  const uint64_t add = MadeAdd(), take = MadeTake();
  for (float x : {1.0f, 2.0f, 3.0f}) ASSERT_OK(RunOf(add, x).status);
  for (float x : {1.0f, 2.0f, 3.0f}) EXPECT_EQ(Taken(RunOf(take)), x);
}

TEST_F(QueueTest, WhoFindsNothingWaitsForIt) {
  const uint64_t add = MadeAdd();
  auto first = BeginToTake();
  auto second = BeginToTake();
  ASSERT_OK(RunOf(add, 1).status);
  EXPECT_EQ(Taken(first->Wait()), 1);
  EXPECT_FALSE(second->done.HasBeenNotified());
  // It is counted once its thread has left it.
  while (engine_->Stats().calls_queued < 1) absl::SleepFor(absl::Milliseconds(1));
  ASSERT_OK(RunOf(add, 2).status);
  EXPECT_EQ(Taken(second->Wait()), 2);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

TEST_F(QueueTest, WhoFindsNoRoomWaitsForIt) {
  const uint64_t add = MadeAdd(), take = MadeTake();
  for (float x : {1.0f, 2.0f, 3.0f}) ASSERT_OK(RunOf(add, x).status);
  auto fourth = BeginToAdd(4);
  EXPECT_EQ(Taken(RunOf(take)), 1);
  EXPECT_OK(fourth->Wait().status);
  for (float x : {2.0f, 3.0f, 4.0f}) EXPECT_EQ(Taken(RunOf(take)), x);
}

// As a condition variable's wait: others see what it has done so far, and may change all of it.
TEST_F(QueueTest, WhoWaitsHasNoPlaceAtAnything) {
  const uint64_t add = MadeAdd();
  auto waits = BeginToWait(
      "t = QueueDequeueV2(q, ^c) component_types=[float]\n"
      "b = AssignAddVariableOp(v, t) dtype=float\n"
      "y = ReadVariableOp(v, ^b) dtype=float\n");
  EXPECT_EQ(ValueOf("v"), 1);
  ASSERT_OK(Assign({{{0, "v"}, Tensor::Scalar(100.0f)}}).status);
  ASSERT_OK(RunOf(add, 10).status);
  EXPECT_EQ(Taken(waits->Wait()), 110);
}

TEST_F(QueueTest, OneThatIsStoppedWhileItWaitsTakesNothing) {
  const uint64_t add = MadeAdd(), take = MadeTake();
  ASSERT_OK(RunOf(add).status);  // Who comes first begins the queue, which is an effect.
  ASSERT_OK(RunOf(take).status);
  auto late = BeginOf(take, 0, absl::Now() + absl::Milliseconds(20));
  EXPECT_THAT(late->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_EQ(late->result.details.effects, Effects::kNone);
  auto cancelled = BeginToTake();
  auto pair = BeginToTakeTwo();
  cancelled->handle->Cancel();
  EXPECT_THAT(cancelled->Wait().status, StatusIs(StatusCode::kCancelled));
  ASSERT_OK(RunOf(add, 1).status);
  ASSERT_OK(RunOf(add, 2).status);
  const CallResult& result = pair->Wait();
  ASSERT_OK(result.status);
  EXPECT_EQ(result.outputs[0].tensor.data<float>()[1], 2);
}

TEST_F(QueueTest, AClosedOneIsTakenFromUntilItIsEmpty) {
  const uint64_t add = MadeAdd(), take = MadeTake();
  ASSERT_OK(RunOf(add, 1).status);
  auto pair = BeginToTakeTwo();
  ASSERT_OK(RunOf(MadeClose(false)).status);
  EXPECT_THAT(pair->Wait().status,
              StatusIs(StatusCode::kOutOfRange,
                       HasSubstr("FIFOQueue 'q' is closed and has insufficient elements "
                                 "(requested 2, current size 1)")));
  EXPECT_THAT(RunOf(add, 2).status,
              StatusIs(StatusCode::kCancelled, HasSubstr("FIFOQueue 'q' is closed.")));
  EXPECT_EQ(Taken(RunOf(take)), 1);
  EXPECT_THAT(RunOf(take).status, StatusIs(StatusCode::kOutOfRange, HasSubstr("current size 0")));
  EXPECT_THAT(RunOf(MadeClose(false)).status,
              StatusIs(StatusCode::kCancelled, HasSubstr("Queue 'q' is already closed.")));
}

TEST_F(QueueTest, WhoWaitsForRoomMayStillAddToAClosedOne) {
  const uint64_t add = MadeAdd(), take = MadeTake();
  for (float x : {1.0f, 2.0f, 3.0f}) ASSERT_OK(RunOf(add, x).status);
  auto fourth = BeginToAdd(4);
  ASSERT_OK(RunOf(MadeClose(false)).status);
  EXPECT_EQ(Taken(RunOf(take)), 1);
  EXPECT_OK(fourth->Wait().status);
  auto fifth = BeginOf(add, 5);
  EXPECT_THAT(fifth->Wait().status, StatusIs(StatusCode::kCancelled));
}

TEST_F(QueueTest, UnlessThatCancelsIt) {
  const uint64_t add = MadeAdd();
  for (float x : {1.0f, 2.0f, 3.0f}) ASSERT_OK(RunOf(add, x).status);
  auto fourth = BeginToAdd(4);
  ASSERT_OK(RunOf(MadeClose(true)).status);
  EXPECT_THAT(fourth->Wait().status, StatusIs(StatusCode::kCancelled));
}

TEST_F(QueueTest, OneThatIsRemovedIsWaitedForNoMore) {
  auto first = BeginToTake();
  auto second = BeginToTake();
  ASSERT_OK(engine_->DeleteResource("ns", {0, "q"}, false));
  EXPECT_THAT(first->Wait().status, StatusIs(StatusCode::kNotFound, HasSubstr("destroyed")));
  EXPECT_THAT(second->Wait().status, StatusIs(StatusCode::kNotFound));
}

TEST_F(QueueTest, OneThatNobodyElseKnowsIsNotWaitedFor) {
  const uint64_t id = Made("take",
                           "y = QueueDequeueV2(r) component_types=[float]\n"
                           "r = FIFOQueueV2 component_types=[float] "
                           "shared_name=\"cd2c89b7-88b7-44c8-ad83-06c2a9158347\"\n");
  EXPECT_THAT(RunOf(id).status,
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("it would wait for ever")));
}

TEST_F(QueueTest, MoreThanItEverHoldsIsNotWaitedFor) {
  EXPECT_THAT(RunOf(MadeTakeMany(4)).status, StatusIs(StatusCode::kUnimplemented));
}

TEST_F(QueueTest, AnAtomicCallGivesBackWhatItTook) {
  const uint64_t add = MadeAdd();
  ASSERT_OK(RunOf(add).status);
  ASSERT_OK(RunOf(MadeTake()).status);
  const uint64_t id = Made("take or fail",
                           "zero = Const float[] 0\n"
                           "t = QueueDequeueV2(q) component_types=[float]\n"
                           "ok = Greater(x, zero) T=float\n"
                           "s = Assert(ok, t, ^t) T=[float]\n"
                           "y = Identity(t, ^s) T=float\n",
                           {}, {"s"});
  const auto begin = [&](float x) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = id;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(x);
    spec.atomic = true;
    return Begin(std::move(spec));
  };
  auto waits = begin(0);  // It has changed nothing yet.
  ASSERT_OK(RunOf(add, 5).status);
  EXPECT_THAT(waits->Wait().status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(waits->result.details.effects, Effects::kNone);
  EXPECT_EQ(Taken(begin(1)->Wait()), 5);
}

TEST_F(QueueTest, AnAtomicCallDoesNotWaitAfterAChange) {
  NewVariable("v", 1);
  const uint64_t id = Made("change and take",
                           "v = Placeholder dtype=resource\n"
                           "a = AssignAddVariableOp(v, x) dtype=float\n"
                           "y = QueueDequeueV2(q, ^a) component_types=[float]\n",
                           {{"v:0", "v"}});
  ASSERT_OK(RunOf(MadeAdd()).status);
  ASSERT_OK(RunOf(MadeTake()).status);
  CallSpec spec;
  spec.name_space = "ns";
  spec.function.id = id;
  spec.inputs.resize(1);
  spec.inputs[0].tensor = Tensor::Scalar(1.0f);
  spec.atomic = true;
  EXPECT_THAT(Begin(std::move(spec))->Wait().status,
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("an atomic call")));
  EXPECT_EQ(ValueOf("v"), 1);
}

TEST_F(QueueTest, ARelaxedCallRunsAsAnyOther) {
  const uint64_t add = MadeAdd(), take = MadeTake();
  CallSpec spec;
  spec.name_space = "ns";
  spec.function.id = take;
  spec.inputs.resize(1);
  spec.inputs[0].tensor = Tensor::Scalar(0.0f);
  spec.relaxed = true;
  auto waits = Begin(std::move(spec));
  ASSERT_OK(RunOf(add, 7).status);
  EXPECT_EQ(Taken(waits->Wait()), 7);
}

// Each element is taken once, whoever is stopped meanwhile, and nobody is forgotten.
TEST_F(QueueTest, ManyTakeWhatManyAdd) {
  constexpr int kThreads = 4, kEach = 200;
  const uint64_t add = MadeAdd(), take = MadeTake();
  // Whoever comes first begins the queue, which is an effect, whatever becomes of its step.
  ASSERT_OK(RunOf(add, 1).status);
  ASSERT_EQ(Taken(RunOf(take)), 1);
  std::atomic<int64_t> added{0}, taken{0}, count{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const float x = static_cast<float>(t * kEach + i);
        auto pending = BeginOf(add, x);
        if (i % 7 == 0) pending->handle->Cancel();
        const CallResult& result = pending->Wait();
        const bool is_in = result.status.ok() || result.details.effects != Effects::kNone;
        if (is_in) added += static_cast<int64_t>(x), ++count;
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        auto stopped = BeginOf(take, 0, absl::Now() + absl::Microseconds(50 * (i % 5)));
        const CallResult& result = stopped->Wait();
        if (!result.status.ok()) {
          EXPECT_EQ(result.details.effects, Effects::kNone) << result.status;
          continue;
        }
        taken += static_cast<int64_t>(result.outputs[0].tensor.scalar<float>()), --count;
      }
    });
  }
  std::atomic<bool> all_added{false};
  std::thread drain([&] {
    while (true) {
      const bool last = all_added;
      auto pending = BeginOf(take, 0, absl::Now() + absl::Milliseconds(20));
      const CallResult& result = pending->Wait();
      if (!result.status.ok() && last) return;
      if (!result.status.ok()) continue;
      taken += static_cast<int64_t>(result.outputs[0].tensor.scalar<float>()), --count;
    }
  });
  for (std::thread& thread : threads) thread.join();
  all_added = true;
  drain.join();
  EXPECT_EQ(count, 0);
  EXPECT_EQ(taken, added);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

// In `snapshot` after an end in peace, and in `sync` after a crash.
TEST_F(QueueTest, ItIsThereAfterARestart) {
  for (Durability durability : {Durability::kSnapshot, Durability::kSync}) {
    const TempFolder folder;
    EngineOptions options;
    options.data_dir = folder.path();
    options.durability = durability;
    engine_ = nullptr;
    Start(options);
    const uint64_t add = MadeAdd();
    for (float x : {1.0f, 2.0f, 3.0f}) ASSERT_OK(RunOf(add, x).status);
    EXPECT_EQ(Taken(RunOf(MadeTake())), 1);
    auto waits = BeginToWait(
        "m = Const int32[] 3\ny = QueueDequeueManyV2(q, m, ^c) component_types=[float]");
    if (durability == Durability::kSnapshot) {
      engine_->Drain(absl::Now(), absl::InfiniteDuration());
      EXPECT_THAT(waits->Wait().status, StatusIs(StatusCode::kAborted));
      EXPECT_OK(engine_->TakeLastSnapshot(absl::InfiniteFuture()));
    } else {
      waits->handle->Cancel();
      waits->Wait();
    }
    engine_ = nullptr;
    Start(options);
    const uint64_t take = MadeTake();
    for (float x : {2.0f, 3.0f}) EXPECT_EQ(Taken(RunOf(take)), x);
  }
}

// ---------------------------------------------------------------------------------- what it holds

Queue::Element Prioritized(int64_t priority, float x) {
  return {Tensor::Scalar(priority), Tensor::Scalar(x)};
}

TEST(QueueStateTest, OfOnePriorityTheFirstComesFirst) {
  const ResourceType type{&kPriorityQueueKind,
                          {{DType::kInt64, Shape()}, {DType::kFloat, Shape()}}};
  QueueSettings settings;
  settings.capacity = 100;
  Queue queue(type, settings);
  queue.Reserve(6);
  for (int64_t i = 0; i < 6; ++i) queue.Add(Prioritized(i % 2, static_cast<float>(i)));
  const auto values = [](const std::vector<const Queue::Element*>& elements) {
    std::vector<float> all;
    for (const Queue::Element* element : elements) all.push_back((*element)[1].scalar<float>());
    return all;
  };
  EXPECT_EQ(values(queue.Next(4)), (std::vector<float>{0, 2, 4, 1}));
  queue.Remove(2);
  // Also after a restart.
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Queue> again, Queue::OfParts(type, queue.Parts()));
  EXPECT_EQ(again->bytes(), queue.bytes());
  for (float x : {4.0f, 1.0f, 3.0f, 5.0f}) {
    EXPECT_EQ(values(again->Next(1)), std::vector<float>{x});
    again->Remove(1);
  }
  EXPECT_EQ(again->size(), 0);
}

TEST(QueueStateTest, WhatIsDrawnNextIsWhatIsTaken) {
  const ResourceType type{&kRandomShuffleQueueKind, {{DType::kFloat, Shape()}}};
  QueueSettings settings;
  settings.capacity = 1000;
  settings.seed = 7;
  Queue queue(type, settings);
  for (int i = 0; i < 50; ++i) {
    queue.Reserve(1);
    queue.Add({Tensor::Scalar(static_cast<float>(i))});
  }
  std::vector<float> seen;
  for (int64_t count : {1, 5, 20, 24}) {
    std::vector<float> next;
    for (const Queue::Element* element : queue.Next(count)) {
      next.push_back((*element)[0].scalar<float>());
    }
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Queue> same, Queue::OfParts(type, queue.Parts()));
    for (float x : next) {
      EXPECT_EQ((*same->Next(1)[0])[0].scalar<float>(), x);
      same->Remove(1);
    }
    seen.insert(seen.end(), next.begin(), next.end());
    queue.Remove(count);
  }
  EXPECT_EQ(queue.size(), 0);
  EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end()));
  std::sort(seen.begin(), seen.end());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], static_cast<float>(i));
}

TEST(QueueStateTest, WhatIsTakenTakesNoMemory) {
  const ResourceType type{&kFifoQueueKind, {{DType::kString, Shape()}}};
  QueueSettings settings;
  settings.capacity = 1 << 20;
  Queue queue(type, settings);
  const size_t empty = queue.bytes();
  for (int i = 0; i < 1000; ++i) {
    queue.Reserve(1);
    queue.Add({Tensor::StringScalar(std::string(100, 'a'))});
    if (i % 3 > 0) queue.Remove(1);
  }
  EXPECT_EQ(queue.size(), 334);
  EXPECT_GT(queue.bytes(), empty + 334 * 100);
  queue.Remove(334);
  EXPECT_EQ(queue.bytes(), empty);
}

TEST(QueueStateTest, WhatIsNoneIsRefused) {
  const ResourceType type{&kFifoQueueKind, {{DType::kFloat, Shape()}}};
  const StoredForm* const form = FindStoredForm("FIFOQueue");
  ASSERT_NE(form, nullptr);
  QueueSettings settings;
  settings.capacity = 2;
  const std::vector<Tensor> parts = Queue(type, settings).Parts();
  ASSERT_OK(form->value(type, parts));
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<Tensor> bad = parts;
    bad[i] = Tensor::Scalar(1.5f);
    EXPECT_FALSE(form->value(type, bad).ok()) << i;
  }
  std::vector<Tensor> more = parts;
  more.push_back(Tensor::Scalar(int32_t{1}));
  EXPECT_FALSE(form->value(type, more).ok());
  EXPECT_FALSE(form->value(type, {}).ok());
}

}  // namespace
}  // namespace formwork::testing
