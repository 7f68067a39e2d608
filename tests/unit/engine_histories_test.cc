// Histories of concurrent clients, drawn by seeds, held against one order of all their requests:
// each value that was read was the last one written, no request overtook one that had been answered
// before it began, and what one request read was there at once. Of ordered, atomic and relaxed
// calls, of calls that fail, of reads of many, and of variables that are deleted, beside a table.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;

constexpr int kVariables = 4;
constexpr int kDeleted =
    kVariables - 1;  // This one goes now and then, and another takes its place.
constexpr int kClients = 4;
constexpr int kRequests = 12;  // Of each.

int NumberOf(const char* name, int fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

// What happened at once: values by resource. Each value is the number of who wrote it; 0: of the
// beginning.
struct Step {
  int64_t number = 0;
  int64_t began = 0, ended = 0;  // In ticks of the history.
  int64_t after = 0;             // Another step of the same request, that comes before; 0: none.
  std::map<uint64_t, int64_t> saw;
  std::vector<uint64_t> wrote;
};

// Whether one order of all steps explains what each has seen, and when it began and ended.
bool Explained(const std::vector<Step>& steps) {
  int64_t ticks = 0;
  std::map<int64_t, size_t> by_number;
  for (size_t i = 0; i < steps.size(); ++i) {
    ticks = std::max(ticks, steps[i].ended);
    by_number[steps[i].number] = i;
  }
  // Nodes: the steps, then the ticks.
  const size_t size = steps.size() + static_cast<size_t>(ticks) + 1;
  const auto tick = [&](int64_t at) { return steps.size() + static_cast<size_t>(at); };
  std::vector<std::vector<size_t>> next(size);
  for (int64_t at = 0; at < ticks; ++at) next[tick(at)].push_back(tick(at + 1));
  // By resource, and the value before: who wrote the next one.
  std::map<std::pair<uint64_t, int64_t>, size_t> overwrote;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (uint64_t resource : steps[i].wrote) {
      const auto before = steps[i].saw.find(resource);
      if (before == steps[i].saw.end()) return false;
      if (!overwrote.try_emplace({resource, before->second}, i).second)
        return false;  // It is lost.
    }
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    next[tick(step.began)].push_back(i);
    next[i].push_back(tick(step.ended));
    if (step.after != 0) next[by_number.at(step.after)].push_back(i);
    for (const auto& [resource, value] : step.saw) {
      if (value != 0) {
        const auto writer = by_number.find(value);
        if (writer == by_number.end()) return false;  // It never happened.
        const auto& wrote = steps[writer->second].wrote;
        if (std::find(wrote.begin(), wrote.end(), resource) == wrote.end()) return false;
        next[writer->second].push_back(i);
      }
      const auto later = overwrote.find({resource, value});
      if (later != overwrote.end() && later->second != i) next[i].push_back(later->second);
    }
  }
  std::vector<int> waits_for(size);
  for (const auto& followers : next) {
    for (size_t follower : followers) ++waits_for[follower];
  }
  std::vector<size_t> ready;
  for (size_t i = 0; i < size; ++i) {
    if (waits_for[i] == 0) ready.push_back(i);
  }
  size_t placed = 0;
  for (; !ready.empty(); ++placed) {
    const size_t i = ready.back();
    ready.pop_back();
    for (size_t follower : next[i]) {
      if (--waits_for[follower] == 0) ready.push_back(follower);
    }
  }
  return placed == size;
}

TEST(ExplainedTest, FindsWhatNoOrderExplains) {
  const auto step = [](int64_t number, int64_t began, int64_t ended,
                       std::map<uint64_t, int64_t> saw, std::vector<uint64_t> wrote) {
    return Step{number, began, ended, 0, std::move(saw), std::move(wrote)};
  };
  EXPECT_TRUE(Explained({step(1, 0, 1, {{7, 0}}, {7}), step(2, 2, 3, {{7, 1}}, {})}));
  // It began when the write had been answered, and did not see it.
  EXPECT_FALSE(Explained({step(1, 0, 1, {{7, 0}}, {7}), step(2, 2, 3, {{7, 0}}, {})}));
  EXPECT_TRUE(Explained({step(1, 0, 2, {{7, 0}}, {7}), step(2, 1, 3, {{7, 0}}, {})}));
  // Lost; half of one and half of the other; of nobody.
  EXPECT_FALSE(Explained({step(1, 0, 3, {{7, 0}}, {7}), step(2, 0, 3, {{7, 0}}, {7})}));
  EXPECT_FALSE(
      Explained({step(1, 0, 3, {{7, 0}, {8, 0}}, {7, 8}), step(2, 0, 3, {{7, 1}, {8, 0}}, {})}));
  EXPECT_FALSE(Explained({step(1, 0, 3, {{7, 5}}, {})}));
}

// What a function does to each variable and to the table.
enum class Use { kNothing, kReads, kWrites };
struct Function {
  uint64_t id = 0;
  std::vector<Use> uses;
  bool relaxed = false;  // It reads before a product, and writes behind it.
};

class HistoriesTest : public EngineTest {
 protected:
  // It writes x where it writes, and fails at its end where `fails` is 1. Its results are the
  // values that it has seen, one for each use.
  Function NewFunction(const std::string& name, std::mt19937& random) {
    Function function;
    function.relaxed = random() % 3 == 0;
    for (int i = 0; i <= kVariables; ++i) {
      function.uses.push_back(static_cast<Use>(random() % 3));
    }
    if (function.relaxed) function.uses[kVariables] = Use::kNothing;
    std::string text =
        "x = Placeholder dtype=int64\nfails = Placeholder dtype=int64\n"
        "one = Const int64[] 1\nnone = Const int64[] 0\nkey = Const int64[] 3\n"
        "size = Const int32[2] 2 2\ntext = Const string[] \"no\"\n";
    std::vector<TensorSpec> inputs = {Spec("x:0", DType::kInt64), Spec("fails:0", DType::kInt64)};
    for (int i = 0; i < kVariables; ++i) {
      absl::StrAppend(&text, "v", i, " = Placeholder dtype=resource\n");
      inputs.push_back(Spec(absl::StrCat("v", i, ":0"), DType::kResource));
    }
    std::vector<std::string> outputs, targets;
    const auto add = [&](Use use) {
      for (int i = 0; i < kVariables; ++i) {
        if (function.uses[static_cast<size_t>(i)] != use) continue;
        absl::StrAppend(&text, "r", i, " = ReadVariableOp(v", i, ") dtype=int64\n");
        if (use != Use::kWrites) continue;
        absl::StrAppend(&text, "a", i, " = AssignVariableOp(v", i, ", x, ^r", i, ") dtype=int64\n");
        targets.push_back(absl::StrCat("a", i));
      }
    };
    add(Use::kReads);
    if (function.relaxed) {
      absl::StrAppend(&text, "f = Cast(x) SrcT=int64 DstT=float\nm = Fill(size, f) T=float\n",
                      "y = MatMul(m, m) T=float\n");
    }
    add(Use::kWrites);
    const Use table = function.uses[kVariables];
    if (table != Use::kNothing) {
      absl::StrAppend(&text,
                      "t = MutableHashTableV2 shared_name=\"t\" key_dtype=int64 value_dtype=int64\n"
                      "r4 = LookupTableFindV2(t, key, none) Tin=int64 Tout=int64\n");
    }
    if (table == Use::kWrites) {
      absl::StrAppend(&text, "a4 = LookupTableInsertV2(t, key, x, ^r4) Tin=int64 Tout=int64\n");
      targets.push_back("a4");
    }
    absl::StrAppend(&text, "ok = Less(fails, one) T=int64\ns = Assert(ok, text");
    for (const std::string& target : targets) absl::StrAppend(&text, ", ^", target);
    absl::StrAppend(&text, ")", " T=[string]\n");
    targets.push_back("s");
    for (int i = 0; i <= kVariables; ++i) {
      if (function.uses[static_cast<size_t>(i)] != Use::kNothing) {
        outputs.push_back(absl::StrCat("r", i, ":0"));
      }
    }
    if (function.relaxed) outputs.push_back("y:0");
    const absl::StatusOr<Registered> made =
        Register(name, text, std::move(inputs), std::move(outputs), {}, std::move(targets));
    EXPECT_OK(made);
    if (made.ok()) function.id = made->function.id;
    return function;
  }

  uint64_t NewResource(int64_t number) {
    const auto made = engine_->CreateVariable("ns", absl::StrCat("h", number), DType::kInt64,
                                              Shape({}), Tensor::Scalar(int64_t{0}));
    EXPECT_OK(made);
    return made.ok() ? made->variable.id : 0;
  }
};

// One history: its resources, and what its clients have seen.
struct History {
  absl::Mutex mutex;
  std::vector<uint64_t> resources ABSL_GUARDED_BY(mutex);
  std::vector<Step> steps ABSL_GUARDED_BY(mutex);
  std::map<uint64_t, std::pair<int64_t, int64_t>> deleted ABSL_GUARDED_BY(mutex);  // When.
  // Who was told that a resource had gone, until when.
  std::vector<std::pair<uint64_t, int64_t>> missed ABSL_GUARDED_BY(mutex);
  std::atomic<int64_t> ticks{0};
};

TEST_F(HistoriesTest, OneOrderExplainsThemAll) {
  const int histories = NumberOf("FORMWORK_HISTORIES", 1000);
  const int seed = NumberOf("FORMWORK_SEED", 1);
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<Function> functions;
  for (int i = 0; i < 24; ++i) functions.push_back(NewFunction(absl::StrCat("f", i), random));
  std::atomic<int64_t> numbers{0};
  int64_t counts[4] = {};  // Steps, failed calls, deleted variables, calls that missed one.
  for (int h = 0; h < histories; ++h) {
    History history;
    {
      absl::MutexLock lock(&history.mutex);
      for (int i = 0; i < kVariables; ++i) history.resources.push_back(NewResource(++numbers));
    }
    std::atomic<int64_t> failed{0};
    const uint64_t table = IdOf("t");
    std::vector<std::thread> threads;
    for (int c = 0; c < kClients; ++c) {
      threads.emplace_back([&, c, start = random()] {
        std::mt19937 draw(static_cast<unsigned>(start) + static_cast<unsigned>(c));
        for (int i = 0; i < kRequests; ++i) {
          std::vector<uint64_t> resources;
          {
            absl::MutexLock lock(&history.mutex);
            resources = history.resources;
          }
          Step step;
          step.number = ++numbers;
          if (draw() % 16 == 0) {
            const int64_t began = ++history.ticks;
            if (!engine_->DeleteResource("ns", {resources[kDeleted], ""}, false).ok()) continue;
            const int64_t ended = ++history.ticks;
            const uint64_t made = NewResource(++numbers);
            absl::MutexLock lock(&history.mutex);
            history.deleted[resources[kDeleted]] = {began, ended};
            history.resources[kDeleted] = made;
            continue;
          }
          if (draw() % 4 == 0) {
            step.began = ++history.ticks;
            const ReadResult read = Read({{resources[0], ""}, {resources[1], ""}});
            step.ended = ++history.ticks;
            ASSERT_OK(read.status);
            for (size_t k = 0; k < 2; ++k) {
              step.saw[resources[k]] = read.values[k].value.scalar<int64_t>();
            }
            absl::MutexLock lock(&history.mutex);
            history.steps.push_back(std::move(step));
            continue;
          }
          const Function& function = functions[draw() % functions.size()];
          const bool fails = draw() % 8 == 0;
          CallSpec spec;
          spec.name_space = "ns";
          spec.function.id = function.id;
          spec.relaxed = function.relaxed && draw() % 4 != 0;
          // What fails has done all before that; only of an atomic one nothing is to be seen.
          spec.atomic = !spec.relaxed && (fails || draw() % 2 == 0);
          spec.inputs.resize(2 + kVariables);
          spec.inputs[0].tensor = Tensor::Scalar(step.number);
          spec.inputs[1].tensor = Tensor::Scalar(int64_t{spec.atomic && fails});
          for (int k = 0; k < kVariables; ++k) {
            spec.inputs[static_cast<size_t>(2 + k)].kind = Argument::Kind::kResource;
            spec.inputs[static_cast<size_t>(2 + k)].id = resources[static_cast<size_t>(k)];
          }
          const bool was_to_fail = spec.atomic && fails;
          const bool relaxed = spec.relaxed;
          step.began = ++history.ticks;
          const auto call = Begin(std::move(spec));
          const CallResult& result = call->Wait();
          step.ended = ++history.ticks;
          if (absl::IsNotFound(result.status)) {
            absl::MutexLock lock(&history.mutex);
            history.missed.emplace_back(resources[kDeleted], step.ended);
            continue;
          }
          if (was_to_fail) {
            ASSERT_THAT(result.status, StatusIs(StatusCode::kInvalidArgument));
            ASSERT_EQ(result.details.effects, Effects::kNone);
            ++failed;
            continue;
          }
          ASSERT_OK(result.status);
          // Of a relaxed call what it has read before its product is a step for itself.
          Step snapshot = step;
          snapshot.number = ++numbers;
          step.after = snapshot.number;
          size_t output = 0;
          for (int k = 0; k <= kVariables; ++k) {
            const Use use = function.uses[static_cast<size_t>(k)];
            if (use == Use::kNothing) continue;
            const uint64_t resource = k == kVariables ? table : resources[static_cast<size_t>(k)];
            const int64_t saw = result.outputs[output++].tensor.scalar<int64_t>();
            (relaxed && use == Use::kReads ? snapshot : step).saw[resource] = saw;
            if (use == Use::kWrites) step.wrote.push_back(resource);
          }
          if (!relaxed) step.after = 0;
          absl::MutexLock lock(&history.mutex);
          if (relaxed) history.steps.push_back(std::move(snapshot));
          history.steps.push_back(std::move(step));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    absl::MutexLock lock(&history.mutex);
    // What is in the table when a history begins is of the one before.
    std::map<int64_t, bool> here;
    for (const Step& step : history.steps) here[step.number] = true;
    for (Step& step : history.steps) {
      const auto saw = step.saw.find(table);
      if (saw != step.saw.end() && !here.contains(saw->second)) saw->second = 0;
    }
    ASSERT_TRUE(Explained(history.steps)) << "seed " << seed << ", history " << h;
    for (const Step& step : history.steps) {
      for (const auto& [resource, value] : step.saw) {
        const auto deleted = history.deleted.find(resource);
        if (deleted != history.deleted.end()) {
          ASSERT_LT(step.began, deleted->second.second);  // It had not been answered.
        }
      }
    }
    for (const auto& [resource, ended] : history.missed) {
      ASSERT_TRUE(history.deleted.contains(resource));
      ASSERT_GT(ended, history.deleted[resource].first);
    }
    counts[0] += static_cast<int64_t>(history.steps.size());
    counts[1] += failed.load();
    counts[2] += static_cast<int64_t>(history.deleted.size());
    counts[3] += static_cast<int64_t>(history.missed.size());
    for (uint64_t resource : history.resources) {
      ASSERT_OK(engine_->DeleteResource("ns", {resource, ""}, false));
    }
  }
  const EngineStats stats = engine_->Stats();
  printf(
      "histories=%d seed=%d steps=%lld failed=%lld deleted=%lld missed=%lld relaxed=%llu "
      "waits=%llu\n",
      histories, seed, static_cast<long long>(counts[0]), static_cast<long long>(counts[1]),
      static_cast<long long>(counts[2]), static_cast<long long>(counts[3]),
      static_cast<unsigned long long>(stats.relaxed_calls),
      static_cast<unsigned long long>(stats.ticket_waits));
  EXPECT_GT(stats.relaxed_calls, 0u);
  EXPECT_GT(counts[1], 0);
  EXPECT_GT(counts[2], 0);
}

}  // namespace
}  // namespace formwork::testing
