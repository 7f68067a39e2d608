// What the engine does where one allocation, or each from one on, is refused: every request is
// answered, all or none of it is done, and the next one is served.

#include "tests/allocation/refusing.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

constexpr int64_t kMostAllocations = 100'000;

// A request: `begin` makes its handle with the memory that there is.
template <typename Result>
struct Attempted : PendingRequest<Result> {
  // Who cannot make the handle is told so by what is thrown.
  template <typename Begin>
  void Start(Begin begin) {
    begun = CatchOutOfMemory([&] {
      this->handle = begin();
      return absl::OkStatus();
    });
    if (begun.ok()) this->handle->Start();
  }
  void Await() {
    answered = !begun.ok() || this->done.WaitForNotificationWithTimeout(absl::Seconds(30));
  }
  // Whether it was done. It must be answered, and no error be another than that of memory.
  bool Done() const {
    EXPECT_TRUE(answered);
    if (!begun.ok()) return false;
    const absl::Status& status = this->result.status;
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    return status.ok();
  }
  absl::Status begun;
  bool answered = false;
};
using Called = Attempted<CallResult>;

struct Adding {
  CallSpec spec;
  std::unique_ptr<Called> called = std::make_unique<Called>();
  std::unique_ptr<Pending> holding = nullptr;  // What it waits for.
};

class RefusedAllocationsTest : public EngineTest, public ::testing::WithParamInterface<int64_t> {
 protected:
  // Runs `prepare`, then `attempt` of what that gives with the first allocation refused, then with
  // the second, ..., until there are no more; and `check` of it after each.
  template <typename Prepare, typename Attempt, typename Check>
  void ForEachAllocation(Prepare prepare, Attempt attempt, Check check) {
    for (int64_t first = 1; first < kMostAllocations; ++first) {
      SCOPED_TRACE(absl::StrCat("allocation ", first));
      auto prepared = prepare();
      bool refused;
      {
        const Refusing refusing(first, GetParam());
        attempt(prepared);
        refused = refusing.refused();
      }
      check(prepared);
      const EngineStats stats = engine_->Stats();
      EXPECT_EQ(stats.calls_queued, 0);
      EXPECT_EQ(stats.calls_running, 0);
      if (HasFailure() || !refused) return;
    }
    FAIL() << "no end of allocations";
  }

  // Adds its input to variable v, and gives the sum.
  uint64_t RegisterAccumulate() {
    absl::StatusOr<Registered> made =
        Register("accumulate",
                 "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                 "a = AssignAddVariableOp(v, x) dtype=float\n"
                 "r = ReadVariableOp(v, ^a) dtype=float\n",
                 {Spec("x:0")}, {"r:0"}, {{"v:0", "v"}}, {"a"});
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  // Whether one has been added to variable v, by what the call says of its effects.
  bool HasAdded(const Called& called, float before) {
    if (called.Done()) return true;
    const Effects effects = called.begun.ok() ? called.result.details.effects : Effects::kNone;
    return effects == Effects::kAll || (effects == Effects::kSome && ValueOf("v") > before);
  }
  static CallSpec SpecOf(Target function, float x) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function = std::move(function);
    spec.deadline = absl::Now() + absl::Minutes(10);
    spec.inputs.emplace_back().tensor = Tensor::Scalar(x);
    return spec;
  }
  void Start(CallSpec spec, Called& called) {
    called.Start([&] { return engine_->Call(std::move(spec), called.PendingRequest::Done()); });
  }
};

INSTANTIATE_TEST_SUITE_P(, RefusedAllocationsTest, ::testing::Values(1, kMostAllocations),
                         [](const auto& info) { return info.param == 1 ? "One" : "AllFromOneOn"; });

TEST_P(RefusedAllocationsTest, ACallIsDoneAsAWholeOrNotAtAll) {
  NewVariable("v", 0);
  const uint64_t id = RegisterAccumulate();
  float sum = 0;
  for (const Target& target : {Target{id, ""}, Target{0, "accumulate"}}) {
    for (const bool keep : {false, true}) {
      ForEachAllocation(
          [&] {
            Adding adding{SpecOf(target, 1)};
            adding.spec.keep_outputs = keep;
            adding.spec.timeline = keep;
            return adding;
          },
          [&](Adding& adding) {
            Start(std::move(adding.spec), *adding.called);
            adding.called->Await();
          },
          [&](Adding& adding) {
            if (HasAdded(*adding.called, sum)) ++sum;
            EXPECT_EQ(ValueOf("v"), sum);
          });
    }
  }
  EXPECT_GT(sum, 3);
}

TEST_P(RefusedAllocationsTest, AnAtomicCallThatFailsHasChangedNothing) {
  NewVariable("v", 0);
  const uint64_t id = RegisterAccumulate();
  float sum = 0;
  for (const bool keep : {false, true}) {
    ForEachAllocation(
        [&] {
          Adding adding{SpecOf({id, ""}, 1)};
          adding.spec.atomic = true;
          adding.spec.keep_outputs = keep;
          return adding;
        },
        [&](Adding& adding) {
          Start(std::move(adding.spec), *adding.called);
          adding.called->Await();
        },
        [&](Adding& adding) {
          if (adding.called->Done()) ++sum;
          EXPECT_EQ(ValueOf("v"), sum);
        });
  }
  EXPECT_GT(sum, 0);
}

TEST_P(RefusedAllocationsTest, ACallOnAThreadOfTheEngineIsAnswered) {
  const uint64_t id = RegisterSpin("spin");  // Has a loop: never on the caller's thread.
  for (const bool timeline : {false, true}) {
    ForEachAllocation(
        [&] {
          Adding adding{SpecOf({id, ""}, -1)};
          adding.spec.timeline = timeline;
          return adding;
        },
        [&](Adding& adding) {
          Start(std::move(adding.spec), *adding.called);
          adding.called->Await();
        },
        [&](Adding& adding) { adding.called->Done(); });
  }
  EXPECT_EQ(Value(id, -1), -1);
}

TEST_P(RefusedAllocationsTest, ACallThatWaitsForAVariableLosesNoPlace) {
  NewVariable("v", 0);
  const uint64_t holder = RegisterHolder("holder");
  const uint64_t id = RegisterAccumulate();
  float sum = 0;
  ForEachAllocation(
      [&] {
        Adding waiting{SpecOf({id, ""}, 1)};
        waiting.spec.timeline = true;  // Says what it waits for.
        waiting.holding = Begin(holder, Owned(Tensor::Scalar(0.f)));
        while (engine_->Stats().calls_running == 0) absl::SleepFor(absl::Milliseconds(1));
        return waiting;
      },
      [&](Adding& waiting) {
        Start(std::move(waiting.spec), *waiting.called);
        waiting.holding->handle->Cancel();
        waiting.called->Await();
        waiting.holding->done.WaitForNotificationWithTimeout(absl::Seconds(30));
      },
      [&](Adding& waiting) {
        EXPECT_TRUE(waiting.holding->done.HasBeenNotified());
        if (HasAdded(*waiting.called, sum)) ++sum;
        EXPECT_EQ(ValueOf("v"), sum);
      });
  EXPECT_GT(sum, 0);
}

TEST_P(RefusedAllocationsTest, VariablesAreReadAndWritten) {
  NewVariable("v", 0);
  NewVariable("w", 0);
  float value = 0;
  struct Assigning {
    AssignSpec spec;
    std::unique_ptr<Attempted<AssignResult>> made = std::make_unique<Attempted<AssignResult>>();
  };
  ForEachAllocation(
      [&] {
        return Assigning{
            {"ns", {{{0, "v"}, Tensor::Scalar(value + 1)}, {{0, "w"}, Tensor::Scalar(value + 1)}}}};
      },
      [&](Assigning& assigning) {
        assigning.made->Start([&] {
          return engine_->AssignVariables(std::move(assigning.spec),
                                          assigning.made->PendingRequest::Done());
        });
        assigning.made->Await();
      },
      [&](Assigning& assigning) {
        if (assigning.made->Done()) ++value;
        EXPECT_EQ(ValueOf("v"), value);
        EXPECT_EQ(ValueOf("w"), value);
      });
  EXPECT_GT(value, 0);
  struct Reading {
    ReadSpec spec;
    std::unique_ptr<Attempted<ReadResult>> made = std::make_unique<Attempted<ReadResult>>();
  };
  ForEachAllocation(
      [&] {
        return Reading{{"ns", {{0, "v"}, {0, "w"}}}};
      },
      [&](Reading& reading) {
        reading.made->Start([&] {
          return engine_->ReadVariables(std::move(reading.spec),
                                        reading.made->PendingRequest::Done());
        });
        reading.made->Await();
      },
      [&](Reading& reading) {
        if (reading.made->Done()) {
          EXPECT_EQ(reading.made->result.values[1].value.scalar<float>(), value);
        }
      });
}

TEST_P(RefusedAllocationsTest, AVariableIsMadeOrNot) {
  ForEachAllocation(
      [&] { return absl::Status(); },
      [&](absl::Status& made) {
        made = CatchOutOfMemory([&] {
          return engine_
              ->CreateVariable("another namespace than the others", "a variable with a long name",
                               DType::kFloat, Shape({}), Tensor::Scalar(7.f))
              .status();
        });
      },
      [&](absl::Status& made) {
        EXPECT_TRUE(made.ok() || absl::IsResourceExhausted(made)) << made;
        const auto there = engine_->ListResources("another namespace than the others");
        EXPECT_EQ(there.size(), made.ok() ? 1u : 0u);
        if (there.empty()) return;
        EXPECT_OK(engine_->DeleteResource("another namespace than the others", {there[0].id, ""},
                                          /*allow_missing=*/false));
      });
}

TEST_P(RefusedAllocationsTest, ATableTakesAllThatIsInsertedOrNothing) {
  constexpr int64_t kKeys = 40;  // More than a leaf of it holds.
  const std::string table =
      "t = MutableHashTableV2 shared_name=\"t\" key_dtype=int64 value_dtype=int64\n"
      "k = Placeholder dtype=int64\n";
  ASSERT_OK_AND_ASSIGN(
      const Registered insert,
      Register("insert", table + "i = LookupTableInsertV2(t, k, k) Tin=int64 Tout=int64",
               {Spec("k:0", DType::kInt64)}, {}, {}, {"i"}));
  ASSERT_OK_AND_ASSIGN(const Registered size,
                       Register("size", table + "n = LookupTableSizeV2(t)", {}, {"n:0"}));
  int64_t keys = 0;
  ForEachAllocation(
      [&] {
        Adding adding{SpecOf({insert.function.id, ""}, 0)};
        Tensor given = *Tensor::Allocate(engine_->allocator(), DType::kInt64, Shape({kKeys}));
        for (int64_t i = 0; i < kKeys; ++i) given.mutable_data<int64_t>()[i] = keys + i;
        adding.spec.inputs[0].tensor = std::move(given);
        return adding;
      },
      [&](Adding& adding) {
        Start(std::move(adding.spec), *adding.called);
        adding.called->Await();
      },
      [&](Adding& adding) {
        const int64_t now = Run(size.function.id, {}).outputs[0].tensor.scalar<int64_t>();
        EXPECT_TRUE(now == keys + kKeys || (now == keys && !adding.called->Done())) << now;
        keys = now;
      });
  EXPECT_GT(keys, 0);
}

TEST_P(RefusedAllocationsTest, ThoseWhoRegisterTheSameAreAllAnswered) {
  absl::StatusOr<tf::GraphDef> graph_def =
      ParseGraph("x = Placeholder dtype=float\nc = Const float[] 3\ny = AddV2(x, c) T=float");
  ASSERT_OK(graph_def);
  int64_t number = 0;
  const auto registration = [&] {
    Registration made;
    made.name_space = "ns";
    made.name = absl::StrCat("a function with a long name ", number);
    made.graph_def = graph_def->SerializeAsString();
    made.inputs = {Spec("x:0")};
    made.outputs = {"y:0"};
    return made;
  };
  struct Both {
    std::vector<Registration> asked;
    std::vector<std::unique_ptr<Attempted<RegisterResult>>> made;
  };
  ForEachAllocation(
      [&] {
        ++number;
        Both both;
        for (int i = 0; i < 2; ++i) {
          both.asked.push_back(registration());
          both.made.push_back(std::make_unique<Attempted<RegisterResult>>());
        }
        return both;
      },
      [&](Both& both) {
        for (size_t i = 0; i < 2; ++i) {
          both.made[i]->Start([&] {
            return engine_->Register(std::move(both.asked[i]),
                                     both.made[i]->PendingRequest::Done());
          });
        }
        for (auto& made : both.made) made->Await();
      },
      [&](Both& both) {
        for (auto& made : both.made) made->Done();
        if (HasFailure()) return;
        absl::StatusOr<Registered> again = EngineTest::Register(registration());
        ASSERT_OK(again);
        EXPECT_EQ(Value(again->function.id, 4), 7);
        EXPECT_OK(engine_->Unregister("ns", {again->function.id, ""}, false));
        EXPECT_EQ(engine_->Stats().functions, 0);
      });
}

}  // namespace
}  // namespace formwork::testing
