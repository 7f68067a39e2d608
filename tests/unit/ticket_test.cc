#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "absl/synchronization/notification.h"
#include "core/device/host_allocator.h"
#include "core/resource/access_ticket.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::StatusIs;
using ::testing::HasSubstr;
using VariablePtr = std::shared_ptr<Resource>;

// More elements than a Tensor holds inside itself, so that its buffer is shared by copies.
constexpr int64_t kElements = 16;

const ResourceType kType = ResourceType::Variable(DType::kInt64, PartialShape(Shape({kElements})));

Tensor Filled(int64_t value) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kInt64, Shape({kElements}));
  std::fill_n(tensor.mutable_data<int64_t>(), kElements, value);
  return tensor;
}

ResourceHandle HandleOf(const VariablePtr& variable) { return ResourceHandle{variable->id}; }

class AccessTicketTest : public ::testing::Test {
 protected:
  VariablePtr Make(const std::string& name, std::optional<Tensor> value = Filled(1)) {
    bool existed;
    return *store_.Create("ns", name, kType, std::move(value), false, &existed);
  }
  std::unique_ptr<AccessTicket> NewTicket() {
    return std::make_unique<AccessTicket>(store_, ProcessAllocator());
  }
  // Takes; `granted` is set when the places are granted.
  std::unique_ptr<AccessTicket> Take(std::vector<AccessRequest> requests, bool* granted) {
    std::unique_ptr<AccessTicket> ticket = NewTicket();
    *granted = false;
    const bool now = ticket->Take(std::move(requests), [granted] { *granted = true; });
    if (now) *granted = true;
    return ticket;
  }
  static int64_t ValueOf(AccessTicket& ticket, const VariablePtr& variable) {
    absl::StatusOr<Tensor> value = ticket.Read(HandleOf(variable));
    return value.ok() ? value->data<int64_t>()[kElements - 1] : -1;
  }

  ResourceStore store_;
};

TEST_F(AccessTicketTest, FreePlacesAreGrantedAtOnce) {
  VariablePtr a = Make("a"), b = Make("b");
  bool granted;
  auto ticket = Take({{a, Access::kRead}, {b, Access::kWrite}}, &granted);
  EXPECT_TRUE(granted);
  EXPECT_EQ(ValueOf(*ticket, a), 1);
  EXPECT_EQ(ValueOf(*ticket, b), 1);
}

TEST_F(AccessTicketTest, ReadersRunSideBySide) {
  VariablePtr a = Make("a");
  bool first, second;
  auto one = Take({{a, Access::kRead}}, &first);
  auto two = Take({{a, Access::kRead}}, &second);
  EXPECT_TRUE(first && second);
}

TEST_F(AccessTicketTest, AStateThatNobodyElseHasIsLeftToItsCaller) {
  static constexpr ResourceKind kKind{"thing"};
  bool existed;
  const VariablePtr thing = *store_.Create(
      "ns", "thing", {&kKind, {{DType::kVariant, PartialShape()}}}, std::nullopt, false, &existed);
  bool granted;
  {
    auto first = Take({{thing, Access::kWrite}}, &granted);
    ASSERT_OK(first->WriteState(HandleOf(thing), Tensor::VariantScalar(nullptr), 8));
  }
  const auto is_left = [&](AccessTicket& ticket) {
    Tensor state = *ticket.ReadState(HandleOf(thing));
    const bool left = ticket.LeaveValue(HandleOf(thing), state, 0);
    if (left) ticket.PutBack(HandleOf(thing), std::move(state));
    return left;
  };
  auto reader = Take({{thing, Access::kRead}}, &granted);
  auto writer = Take({{thing, Access::kWrite}}, &granted);
  EXPECT_FALSE(is_left(*writer));
  reader->ReleaseAll();
  EXPECT_TRUE(is_left(*writer));
  writer->ReleaseAll();
  auto atomic = NewTicket();
  atomic->SetAtomic();
  ASSERT_TRUE(atomic->Take({{thing, Access::kWrite}}, [] {}));
  EXPECT_FALSE(is_left(*atomic));
}

TEST_F(AccessTicketTest, WritersWaitInOrder) {
  VariablePtr a = Make("a");
  bool first, second, third;
  auto one = Take({{a, Access::kWrite}}, &first);
  auto two = Take({{a, Access::kWrite}}, &second);
  auto three = Take({{a, Access::kWrite}}, &third);
  EXPECT_TRUE(first && !second && !third);
  one->ReleaseAll();
  EXPECT_TRUE(second && !third);
  two->ReleaseAll();
  EXPECT_TRUE(third);
}

TEST_F(AccessTicketTest, AVariableMayBeGivenBackBeforeTheOthers) {
  VariablePtr a = Make("a"), b = Make("b");
  bool first, second, third;
  auto one = Take({{b, Access::kWrite}, {a, Access::kWrite}}, &first);
  auto two = Take({{a, Access::kWrite}}, &second);
  auto three = Take({{b, Access::kRead}}, &third);
  ASSERT_OK(one->Assign(HandleOf(a), Filled(2)));
  one->Release(HandleOf(a));
  EXPECT_TRUE(first && second && !third);
  EXPECT_EQ(ValueOf(*two, a), 2);
  // Whoever gave it back has no business with it any more.
  EXPECT_THAT(one->Assign(HandleOf(a), Filled(3)), StatusIs(absl::StatusCode::kInternal));
  EXPECT_FALSE(one->IsInitialized(HandleOf(a)));
  one->Release(HandleOf(a));
  EXPECT_EQ(ValueOf(*two, a), 2);
  one->ReleaseAll();
  EXPECT_TRUE(third);
}

TEST_F(AccessTicketTest, AVariableOfTwoNamesIsGivenBackWithTheLast) {
  VariablePtr a = Make("a");
  bool first, second;
  auto one = Take({{a, Access::kWrite}, {a, Access::kRead}}, &first);
  auto two = Take({{a, Access::kWrite}}, &second);
  one->Release(HandleOf(a));
  EXPECT_TRUE(first && !second);
  ASSERT_OK(one->Assign(HandleOf(a), Filled(2)));
  one->ReleaseAll();
  EXPECT_TRUE(second);
}

TEST_F(AccessTicketTest, AReaderKeepsTheValueItWasAdmittedTo) {
  VariablePtr a = Make("a");
  bool granted;
  auto reader = Take({{a, Access::kRead}}, &granted);
  auto writer = Take({{a, Access::kWrite}}, &granted);
  EXPECT_TRUE(granted);  // Readers hold nobody up.
  ASSERT_OK(writer->Update(HandleOf(a), 0, [](Tensor& value) {
    std::fill_n(value.mutable_data<int64_t>(), kElements, 2);
    return absl::OkStatus();
  }));
  EXPECT_EQ(ValueOf(*reader, a), 1);
  EXPECT_EQ(ValueOf(*writer, a), 2);
  bool late;
  auto later = Take({{a, Access::kRead}}, &late);
  auto last = Take({{a, Access::kWrite}}, &granted);
  EXPECT_FALSE(late);
  writer->ReleaseAll();
  EXPECT_TRUE(late);
  ASSERT_TRUE(granted);
  ASSERT_OK(last->Assign(HandleOf(a), Filled(3)));
  EXPECT_EQ(ValueOf(*later, a), 2);
  EXPECT_EQ(ValueOf(*reader, a), 1);
}

TEST_F(AccessTicketTest, TheOrderIsOneForAllVariables) {
  VariablePtr a = Make("a"), b = Make("b");
  bool first, second, third;
  auto one = Take({{a, Access::kWrite}}, &first);
  auto two = Take({{b, Access::kWrite}, {a, Access::kWrite}}, &second);
  auto three = Take({{a, Access::kWrite}, {b, Access::kWrite}}, &third);
  EXPECT_TRUE(first && !second && !third);
  one.reset();
  EXPECT_TRUE(second && !third);
  two.reset();
  EXPECT_TRUE(third);
}

TEST_F(AccessTicketTest, AVariableNamedTwiceIsOnePlaceWithTheStrongerMode) {
  for (bool write_first : {false, true}) {
    VariablePtr a = Make(write_first ? "x" : "y");
    bool granted, other;
    auto ticket = Take({{a, write_first ? Access::kWrite : Access::kRead},
                        {a, write_first ? Access::kRead : Access::kWrite}},
                       &granted);
    ASSERT_TRUE(granted);
    EXPECT_OK(ticket->Assign(HandleOf(a), Filled(5)));
    auto reader = Take({{a, Access::kRead}}, &other);
    EXPECT_FALSE(other);
    ticket.reset();
    EXPECT_TRUE(other);
    EXPECT_EQ(ValueOf(*reader, a), 5);
  }
}

TEST_F(AccessTicketTest, ManyVariablesAreFoundByTheirHandles) {
  std::vector<AccessRequest> requests;
  std::vector<VariablePtr> variables;
  for (int i = 0; i < 50; ++i) {
    variables.push_back(Make(absl::StrCat("v", i), Filled(i)));
    requests.push_back({variables.back(), i % 2 == 0 ? Access::kRead : Access::kWrite});
    requests.push_back({variables.back(), Access::kRead});
  }
  bool granted;
  auto ticket = Take(std::move(requests), &granted);
  ASSERT_TRUE(granted);
  const ResourceHandle own = ticket->CreateForCall("t", kType);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(ValueOf(*ticket, variables[i]), i);
  EXPECT_OK(ticket->Assign(own, Filled(7)));
  EXPECT_OK(ticket->Read(own));
  EXPECT_EQ(store_.Find(own.id), nullptr);
}

TEST_F(AccessTicketTest, WritesInPlaceOnlyWhereNobodyElseHoldsTheElements) {
  VariablePtr a = Make("a");
  bool granted;
  auto ticket = Take({{a, Access::kWrite}}, &granted);
  const void* before = ticket->Read(HandleOf(a))->raw();
  auto add = [](Tensor& value) {
    for (int64_t i = 0; i < kElements; ++i) ++value.mutable_data<int64_t>()[i];
    return absl::OkStatus();
  };
  ASSERT_OK(ticket->Update(HandleOf(a), 0, add));
  EXPECT_EQ(ticket->Read(HandleOf(a))->raw(), before);
  const Tensor held = *ticket->Read(HandleOf(a));
  ASSERT_OK(ticket->Update(HandleOf(a), 0, add));
  EXPECT_NE(ticket->Read(HandleOf(a))->raw(), before);
  EXPECT_EQ(held.data<int64_t>()[0], 2);
  EXPECT_EQ(ValueOf(*ticket, a), 3);
  EXPECT_EQ(a->version(), 3u);  // The first value and two updates.
}

TEST_F(AccessTicketTest, AReaderOfAStateKeepsTheOneItWasAdmittedTo) {
  static constexpr ResourceKind kCounterKind{"counter"};
  bool existed, granted;
  const VariablePtr counter = *store_.Create("ns", "n", {&kCounterKind, {{DType::kInt64, Shape()}}},
                                             std::nullopt, false, &existed);
  const auto state = [](const char* text) { return Tensor::StringScalar(text); };
  auto first = Take({{counter, Access::kWrite}}, &granted);
  EXPECT_FALSE(first->ReadState(HandleOf(counter))->has_value());
  ASSERT_OK(first->WriteState(HandleOf(counter), state("one"), 100));
  first->ReleaseAll();
  auto reader = Take({{counter, Access::kRead}}, &granted);
  auto writer = Take({{counter, Access::kWrite}}, &granted);
  ASSERT_TRUE(granted);
  ASSERT_OK(writer->WriteState(HandleOf(counter), state("two"), 200));
  EXPECT_EQ(reader->ReadState(HandleOf(counter))->scalar<std::string>(), "one");
  EXPECT_EQ(writer->ReadState(HandleOf(counter))->scalar<std::string>(), "two");
  EXPECT_EQ(counter->bytes(), 200u);
  EXPECT_EQ(counter->version(), 2u);
  EXPECT_THAT(reader->WriteState(HandleOf(counter), state("three"), 1),
              StatusIs(absl::StatusCode::kInternal));
  // It is no variable.
  EXPECT_THAT(writer->Read(HandleOf(counter)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("counter 'n'")));
  EXPECT_FALSE(writer->Assign(HandleOf(counter), Tensor::Scalar(int64_t{1})).ok());
  EXPECT_FALSE(writer->Update(HandleOf(counter), 0, [](Tensor&) { return absl::OkStatus(); }).ok());
}

TEST_F(AccessTicketTest, RemembersWhatWasWrittenAndByWhom) {
  VariablePtr a = Make("a"), b = Make("b"), c = Make("c", std::nullopt);
  bool granted;
  auto ticket = Take({{a, Access::kWrite}, {b, Access::kWrite}, {c, Access::kWrite}}, &granted);
  ticket->set_writer(7);
  const auto none = [](Tensor&) { return absl::OkStatus(); };
  ASSERT_OK(ticket->Assign(HandleOf(a), Filled(2)));
  ASSERT_OK(ticket->Update(HandleOf(a), 0, none));
  ASSERT_OK(ticket->Assign(HandleOf(c), Filled(2)));
  ASSERT_FALSE(ticket->Assign(HandleOf(b), Tensor::Scalar(1.0f)).ok());
  ticket->Release(HandleOf(a));
  auto next = Take({{a, Access::kWrite}}, &granted);
  ASSERT_OK(next->Assign(HandleOf(a), Filled(3)));
  const std::vector<ResourceChange> changes = ticket->Changes();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].id, a->id);
  EXPECT_EQ(changes[0].from_version, 1u);
  EXPECT_EQ(changes[0].to_version, 3u);
  EXPECT_EQ(changes[1].id, c->id);
  EXPECT_EQ(changes[1].from_version, 0u);
  EXPECT_EQ(changes[1].to_version, 1u);
  EXPECT_EQ(a->last_writer(), 0u);
  EXPECT_EQ(b->last_writer(), 0u);
  EXPECT_EQ(c->last_writer(), 7u);
}

TEST_F(AccessTicketTest, RemembersRowsUntilAnyMayHaveChanged) {
  const ResourceType type =
      ResourceType::Variable(DType::kInt64, PartialShape(Shape({100, kElements})));
  Tensor value = *Tensor::Allocate(ProcessAllocator(), DType::kInt64, Shape({100, kElements}));
  std::fill_n(value.mutable_data<int64_t>(), 100 * kElements, 0);
  bool existed;
  VariablePtr a = *store_.Create("ns", "a", type, value, false, &existed);
  bool granted;
  auto ticket = Take({{a, Access::kWrite}}, &granted);
  const auto none = [](Tensor&) { return absl::OkStatus(); };
  const auto fail = [](Tensor&) { return absl::InvalidArgumentError("bad indices"); };
  const auto row = [](int64_t index) { return RowIndices{Tensor::Scalar(index)}; };
  using Rows = std::vector<int64_t>;

  ASSERT_OK(ticket->UpdateRows(HandleOf(a), row(42), 0, none));
  ASSERT_FALSE(ticket->UpdateRows(HandleOf(a), row(8), 0, fail).ok());
  ASSERT_OK(ticket->UpdateRows(HandleOf(a), row(7), 0, none));
  ASSERT_OK(ticket->UpdateRows(HandleOf(a), row(42), 0, none));
  ticket->Release(HandleOf(a));
  std::vector<ResourceChange> changes = ticket->Changes();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].by_rows);
  EXPECT_EQ(changes[0].rows, (Rows{7, 42}));
  EXPECT_EQ(changes[0].to_version, 4u);

  // A loop's scatters do not pile up indices without end.
  ticket = Take({{a, Access::kWrite}}, &granted);
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK(ticket->UpdateRows(HandleOf(a), row(i % 2), 0, none));
  }
  EXPECT_FALSE(ticket->Changes()[0].by_rows);

  ticket = Take({{a, Access::kWrite}}, &granted);
  ASSERT_OK(ticket->UpdateRows(HandleOf(a), row(1), 0, none));
  ASSERT_OK(ticket->Assign(HandleOf(a), value));
  ASSERT_OK(ticket->UpdateRows(HandleOf(a), row(2), 0, none));
  EXPECT_FALSE(ticket->Changes()[0].by_rows);
  EXPECT_TRUE(ticket->Changes()[0].rows.empty());
}

TEST_F(AccessTicketTest, AFailedUpdateLeavesThePreviousValue) {
  VariablePtr a = Make("a");
  bool granted;
  auto ticket = Take({{a, Access::kWrite}}, &granted);
  for (bool shared : {false, true}) {
    Tensor held;
    if (shared) held = *ticket->Read(HandleOf(a));
    EXPECT_THAT(ticket->Update(HandleOf(a), 0,
                               [](Tensor&) { return absl::InvalidArgumentError("bad indices"); }),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bad indices")));
    EXPECT_EQ(ValueOf(*ticket, a), 1);
  }
  EXPECT_EQ(a->version(), 1u);
}

TEST_F(AccessTicketTest, ErrorsNameTheVariable) {
  VariablePtr a = Make("a"), empty = Make("empty", std::nullopt), other = Make("other");
  bool granted;
  auto ticket = Take({{a, Access::kRead}, {empty, Access::kWrite}}, &granted);
  EXPECT_THAT(ticket->Read(HandleOf(other)), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ticket->Read(ResourceHandle{0}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ticket->Read(HandleOf(empty)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("empty")));
  EXPECT_THAT(ticket->Update(HandleOf(empty), 0, [](Tensor&) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("empty")));
  EXPECT_FALSE(ticket->IsInitialized(HandleOf(empty)));
  EXPECT_TRUE(ticket->IsInitialized(HandleOf(a)));
  EXPECT_THAT(ticket->Assign(HandleOf(a), Filled(2)), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(ticket->Assign(HandleOf(empty), Tensor::Scalar(int64_t{2})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ticket->Assign(HandleOf(empty), Tensor::Scalar(2.0f)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(ticket->Assign(HandleOf(empty), Filled(2)));
  ASSERT_OK_AND_ASSIGN(const ResourceType* type, ticket->TypeOf(HandleOf(empty)));
  EXPECT_EQ(*type, kType);
}

TEST_F(AccessTicketTest, ADestroyedVariableIsGone) {
  VariablePtr a = Make("a");
  bool granted;
  auto ticket = Take({{a, Access::kWrite}}, &granted);
  ASSERT_OK(ticket->Destroy(HandleOf(a), false));
  EXPECT_THAT(ticket->Read(HandleOf(a)), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ticket->Destroy(HandleOf(a), false), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(ticket->Destroy(HandleOf(a), true));
  EXPECT_EQ(store_.FindByName("ns", "a"), nullptr);
}

TEST_F(AccessTicketTest, AWaitingTicketCanLeave) {
  VariablePtr a = Make("a"), b = Make("b");
  bool first, second, third, fourth;
  auto one = Take({{a, Access::kWrite}}, &first);
  auto two = Take({{a, Access::kWrite}, {b, Access::kWrite}}, &second);  // Has b, waits for a.
  auto three = Take({{b, Access::kWrite}}, &third);
  auto four = Take({{a, Access::kRead}, {b, Access::kRead}}, &fourth);
  EXPECT_TRUE(two->Abandon());
  EXPECT_TRUE(third);
  EXPECT_FALSE(second || fourth);
  EXPECT_FALSE(one->Abandon());  // Too late.
  three->ReleaseAll();
  EXPECT_FALSE(fourth);
  one->ReleaseAll();
  EXPECT_TRUE(fourth);
  EXPECT_FALSE(second);
  EXPECT_FALSE(two->Abandon());
}

TEST_F(AccessTicketTest, ATicketThatLeftHoldsItsCallbackNoLonger) {
  VariablePtr a = Make("a");
  bool granted;
  auto writer = Take({{a, Access::kWrite}}, &granted);
  auto call = std::make_shared<int>(0);
  auto waiting = NewTicket();
  ASSERT_FALSE(waiting->Take({{a, Access::kWrite}}, [call] { FAIL() << *call; }));
  EXPECT_EQ(call.use_count(), 2);
  EXPECT_TRUE(waiting->Abandon());
  EXPECT_EQ(call.use_count(), 1);
}

TEST_F(AccessTicketTest, ADroppedTicketLetsOthersGo) {
  VariablePtr a = Make("a");
  bool first, second, third;
  auto one = Take({{a, Access::kWrite}}, &first);
  auto two = Take({{a, Access::kWrite}}, &second);
  auto three = Take({{a, Access::kWrite}}, &third);
  two.reset();
  one.reset();
  EXPECT_TRUE(third);
  EXPECT_FALSE(second);
}

TEST_F(AccessTicketTest, WaitsAreCounted) {
  VariablePtr a = Make("a");
  bool granted;
  auto one = Take({{a, Access::kWrite}}, &granted);
  EXPECT_EQ(store_.waits(), 0u);
  auto two = Take({{a, Access::kWrite}}, &granted);
  one->ReleaseAll();
  EXPECT_EQ(store_.waits(), 1u);
}

// What one call of the model test saw and did.
struct Observed {
  std::map<int, int64_t> saw;  // Variable -> the call that wrote what was read.
  std::vector<int> wrote;
};

// True where one order of all calls explains what each of them saw: the writers of each variable
// one after the other, each reader between the writer it saw and the next, each thread's calls in
// its order.
bool Explainable(const std::map<int64_t, Observed>& calls, int64_t calls_per_thread) {
  std::map<int64_t, std::vector<int64_t>> after;
  std::map<int64_t, int> before;  // How many must come first.
  auto edge = [&](int64_t a, int64_t b) {
    after[a].push_back(b);
    ++before[b];
  };
  std::map<std::pair<int, int64_t>, int64_t> next;  // (Variable, writer) -> who overwrote it.
  for (const auto& [id, call] : calls) {
    before.try_emplace(id, 0);
    for (int variable : call.wrote) {
      // Two that overwrite the same value: a lost update.
      if (!next.emplace(std::make_pair(variable, call.saw.at(variable)), id).second) return false;
    }
  }
  for (const auto& [id, call] : calls) {
    for (const auto& [variable, writer] : call.saw) {
      if (writer != 0) edge(writer, id);
      auto overwritten = next.find({variable, writer});
      if (overwritten != next.end() && overwritten->second != id) edge(id, overwritten->second);
    }
    const bool first = (id - 1) % calls_per_thread == 0;
    for (int64_t earlier = id - 1; !first && earlier > 0; --earlier) {
      if (calls.count(earlier) != 0) {
        if ((earlier - 1) / calls_per_thread == (id - 1) / calls_per_thread) edge(earlier, id);
        break;
      }
    }
  }
  std::vector<int64_t> ready;
  for (const auto& [id, count] : before) {
    if (count == 0) ready.push_back(id);
  }
  size_t ordered = 0;
  while (!ready.empty()) {
    const int64_t id = ready.back();
    ready.pop_back();
    ++ordered;
    for (int64_t b : after[id]) {
      if (--before[b] == 0) ready.push_back(b);
    }
  }
  return ordered == before.size();
}

class SequentialModelTest : public ::testing::TestWithParam<int> {};

TEST_P(SequentialModelTest, EveryValueReadIsExplainedByOneOrder) {
  constexpr int kThreads = 6, kVariables = 5;
  constexpr int64_t kCalls = 300;
  ResourceStore store;
  std::vector<VariablePtr> variables;
  for (int i = 0; i < kVariables; ++i) {
    bool existed;
    variables.push_back(
        *store.Create("ns", absl::StrCat("v", i), kType, Filled(0), false, &existed));
  }
  std::vector<std::map<int64_t, Observed>> seen(kThreads);
  auto work = [&](int thread) {
    std::mt19937 random(GetParam() * 100 + thread);
    for (int64_t i = 0; i < kCalls; ++i) {
      const int64_t id = thread * kCalls + i + 1;
      std::vector<AccessRequest> requests;
      std::map<int, bool> writes;
      for (int n = 1 + static_cast<int>(random() % 4); n > 0; --n) {
        const int variable = static_cast<int>(random() % kVariables);
        const bool write = random() % 2 == 0;
        requests.push_back({variables[variable], write ? Access::kWrite : Access::kRead});
        writes[variable] = writes[variable] || write;
      }
      absl::Notification ready;
      AccessTicket ticket(store, ProcessAllocator());
      const bool now = ticket.Take(std::move(requests), [&ready] { ready.Notify(); });
      if (!now) {
        if (random() % 4 == 0 && ticket.Abandon()) continue;
        ready.WaitForNotification();
      }
      Observed& observed = seen[thread][id];
      for (const auto& [index, write] : writes) {
        const ResourceHandle handle = HandleOf(variables[index]);
        absl::StatusOr<Tensor> value = ticket.Read(handle);
        ASSERT_OK(value);
        observed.saw[index] = value->data<int64_t>()[0];
        if (!write) {
          std::this_thread::yield();
          // Pinned: another look sees the same, in every element.
          for (int64_t element : ticket.Read(handle)->span<int64_t>()) {
            ASSERT_EQ(element, observed.saw[index]);
          }
          continue;
        }
        observed.wrote.push_back(index);
        if (random() % 2 == 0) {
          ASSERT_OK(ticket.Assign(handle, Filled(id)));
        } else {
          value->Drop();
          ASSERT_OK(ticket.Update(handle, 0, [&](Tensor& elements) {
            std::fill_n(elements.mutable_data<int64_t>(), kElements, id);
            return absl::OkStatus();
          }));
        }
      }
      if (random() % 2 == 0) ticket.ReleaseAll();
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  std::map<int64_t, Observed> calls;
  for (const auto& of_thread : seen) calls.insert(of_thread.begin(), of_thread.end());
  EXPECT_TRUE(Explainable(calls, kCalls)) << "seed " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Seeds, SequentialModelTest, ::testing::Range(1, 6));

TEST(ExplainableTest, FindsWhatNoOrderExplains) {
  // Two calls that each saw the other's write, and a lost update.
  EXPECT_FALSE(Explainable({{1, {{{0, 0}, {1, 2}}, {0}}}, {2, {{{0, 1}, {1, 0}}, {1}}}}, 1));
  EXPECT_FALSE(Explainable({{1, {{{0, 0}}, {0}}}, {2, {{{0, 0}}, {0}}}}, 1));
  // A snapshot between two writes of one call.
  EXPECT_FALSE(Explainable({{1, {{{0, 0}, {1, 0}}, {0, 1}}}, {2, {{{0, 1}, {1, 0}}, {}}}}, 1));
  EXPECT_TRUE(Explainable({{1, {{{0, 0}, {1, 0}}, {0, 1}}}, {2, {{{0, 1}, {1, 1}}, {}}}}, 1));
}

}  // namespace
}  // namespace formwork
