// What tickets and the store of resources hand to a log, and when.

#include <map>
#include <vector>

#include "core/device/host_allocator.h"
#include "core/resource/access_ticket.h"
#include "core/resource/commit_log.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using VariablePtr = std::shared_ptr<Resource>;

const ResourceType kType = ResourceType::Variable(DType::kFloat, PartialShape(Shape({})));

ResourceHandle HandleOf(const VariablePtr& variable) { return ResourceHandle{variable->id}; }

// Keeps what it is given, and looks at who waits meanwhile.
class RecordedLog final : public CommitLog {
 public:
  uint64_t Append(CommitRecord record) override {
    if (waits != nullptr) waited = !*waits;
    records.push_back(std::move(record));
    return records.size();
  }
  // Of the last record: its resources' names with their values, "-" where they are removed.
  std::map<std::string, std::string> last() const {
    std::map<std::string, std::string> found;
    for (const ResourceCommit& commit : records.back().resources) {
      found[commit.resource->name] = commit.removed ? "-"
                                     : !commit.value.has_value()
                                         ? "none"
                                         : absl::StrCat(commit.value.scalar<float>());
    }
    return found;
  }

  std::vector<CommitRecord> records;
  const bool* waits = nullptr;  // Set once somebody has been granted his place.
  bool waited = false;
};

class CommitLogTest : public ::testing::Test {
 protected:
  void SetUp() override { store_.set_log(&log_); }
  VariablePtr Make(const std::string& name, std::optional<Tensor> value = Tensor::Scalar(1.0f)) {
    bool existed;
    return *store_.Create("ns", name, kType, std::move(value), false, &existed);
  }
  std::unique_ptr<AccessTicket> Take(std::vector<AccessRequest> requests, bool* granted) {
    auto ticket = std::make_unique<AccessTicket>(store_, ProcessAllocator());
    *granted = false;
    if (ticket->Take(std::move(requests), [granted] { *granted = true; })) *granted = true;
    return ticket;
  }
  void Write(AccessTicket& ticket, const VariablePtr& variable, float value) {
    EXPECT_OK(ticket.Assign(HandleOf(variable), Tensor::Scalar(value)));
  }
  using Values = std::map<std::string, std::string>;

  RecordedLog log_;
  ResourceStore store_;
};

TEST_F(CommitLogTest, ACallsChangesAreOneRecordBeforeAnybodySeesThem) {
  const VariablePtr a = Make("a"), b = Make("b"), c = Make("c");
  EXPECT_EQ(log_.records.size(), 3u);
  EXPECT_EQ(log_.last(), (Values{{"c", "1"}}));
  bool granted, next_granted;
  auto ticket = Take({{a, Access::kWrite}, {b, Access::kWrite}, {c, Access::kRead}}, &granted);
  auto next = Take({{a, Access::kWrite}}, &next_granted);
  Write(*ticket, a, 2);
  Write(*ticket, b, 3);
  Write(*ticket, b, 4);
  log_.waits = &next_granted;
  ticket->ReleaseAll();
  EXPECT_TRUE(log_.waited);
  EXPECT_TRUE(next_granted);
  ASSERT_EQ(log_.records.size(), 4u);
  EXPECT_EQ(log_.last(), (Values{{"a", "2"}, {"b", "4"}}));
  EXPECT_EQ(log_.records.back().resources[0].version, 2u);
  EXPECT_EQ(ticket->log_position(), 4u);
  EXPECT_TRUE(ticket->has_logged());
}

TEST_F(CommitLogTest, WhoReadsComesBehindWhatHeHasReadAndNoFurther) {
  const VariablePtr a = Make("a"), b = Make("b");
  bool granted;
  auto reader = Take({{a, Access::kRead}}, &granted);
  auto writer = Take({{a, Access::kWrite}, {b, Access::kWrite}}, &granted);
  Write(*writer, a, 2);
  bool late_granted;
  auto late = Take({{a, Access::kRead}}, &late_granted);
  EXPECT_FALSE(late_granted);
  writer->ReleaseAll();
  EXPECT_TRUE(late_granted);
  reader->ReleaseAll();
  EXPECT_EQ(reader->log_position(), 1u);
  late->ReleaseAll();
  EXPECT_EQ(late->log_position(), 3u);
  EXPECT_FALSE(late->has_logged());
  // A writer that has written nothing has seen what was there.
  auto idle = Take({{a, Access::kWrite}, {b, Access::kWrite}}, &granted);
  idle->ReleaseAll();
  EXPECT_EQ(idle->log_position(), 3u);
  EXPECT_EQ(log_.records.size(), 3u);
}

TEST_F(CommitLogTest, WhatIsGivenBackEarlyIsGivenBackWithAllThatTheCallWrites) {
  const VariablePtr a = Make("a"), b = Make("b");
  bool granted, next_granted;
  auto ticket = Take({{a, Access::kWrite}, {b, Access::kWrite}}, &granted);
  auto next = Take({{a, Access::kRead}}, &next_granted);
  Write(*ticket, a, 2);
  ticket->Release(HandleOf(a));
  EXPECT_FALSE(next_granted);
  EXPECT_EQ(log_.records.size(), 2u);
  Write(*ticket, b, 3);
  ticket->Release(HandleOf(b));
  EXPECT_TRUE(next_granted);
  EXPECT_EQ(log_.last(), (Values{{"a", "2"}, {"b", "3"}}));
  ticket->ReleaseAll();
  EXPECT_EQ(log_.records.size(), 3u);
  EXPECT_EQ(ticket->log_position(), 3u);
}

TEST_F(CommitLogTest, WhatIsAttachedGoesWithTheLastOfWhatIsWritten) {
  const VariablePtr a = Make("a"), b = Make("b");
  bool granted, next_granted;
  // Held to the end, so that it is one record.
  auto ticket = Take({{a, Access::kWrite}, {b, Access::kWrite}}, &granted);
  auto next = Take({{a, Access::kRead}}, &next_granted);
  ticket->HoldAll();
  Write(*ticket, a, 2);
  ticket->Release(HandleOf(a));
  Write(*ticket, b, 3);
  ticket->Release(HandleOf(b));
  EXPECT_FALSE(next_granted);
  ticket->Attach(std::make_unique<CommitAttachment>());
  ticket->ReleaseAll();
  EXPECT_TRUE(next_granted);
  ASSERT_EQ(log_.records.size(), 3u);
  EXPECT_EQ(log_.last(), (Values{{"a", "2"}, {"b", "3"}}));
  EXPECT_NE(log_.records.back().attachment, nullptr);
  EXPECT_EQ(ticket->log_position(), 3u);
  // Also where nothing is written, or nothing is even asked for.
  auto reader = Take({{a, Access::kRead}}, &granted);
  reader->Attach(std::make_unique<CommitAttachment>());
  reader->ReleaseAll();
  EXPECT_EQ(reader->log_position(), 4u);
  AccessTicket none(store_, ProcessAllocator());
  none.Attach(std::make_unique<CommitAttachment>());
  none.ReleaseAll();
  EXPECT_EQ(none.log_position(), 5u);
  EXPECT_TRUE(none.has_logged());
  EXPECT_THAT(log_.records.back().resources, ::testing::IsEmpty());
}

TEST_F(CommitLogTest, WhatIsTakenBackIsNotLogged) {
  const VariablePtr a = Make("a"), b = Make("b", std::nullopt);
  bool granted;
  auto ticket = Take({{a, Access::kWrite}, {b, Access::kWrite}}, &granted);
  ticket->SetAtomic();
  Write(*ticket, a, 2);
  Write(*ticket, a, 3);
  Write(*ticket, b, 4);
  EXPECT_OK(ticket->Destroy(HandleOf(a), false));
  ticket->RollBack();
  ticket->ReleaseAll();
  EXPECT_EQ(log_.records.size(), 2u);
  EXPECT_FALSE(b->initialized());
  EXPECT_EQ(b->version(), 0u);
  EXPECT_EQ(a->version(), 1u);
  EXPECT_FALSE(a->destroyed());
  auto again = Take({{a, Access::kWrite}}, &granted);
  EXPECT_EQ(again->Read(HandleOf(a))->scalar<float>(), 1);
  again->SetAtomic();
  EXPECT_OK(again->Destroy(HandleOf(a), false));
  EXPECT_FALSE(a->destroyed());
  again->ReleaseAll();
  EXPECT_TRUE(a->destroyed());
  EXPECT_EQ(log_.last(), (Values{{"a", "-"}}));
}

TEST_F(CommitLogTest, OnesThatAreMadeAndRemovedAreToldOf) {
  bool existed;
  const VariablePtr a = Make("a", std::nullopt);
  EXPECT_EQ(log_.last(), (Values{{"a", "none"}}));
  (void)store_.Create("ns", "a", kType, std::nullopt, false, &existed);
  EXPECT_TRUE(existed);
  EXPECT_EQ(log_.records.size(), 1u);
  ASSERT_OK(store_.FindOrCreateAll("ns", {{"a", kType}, {"b", kType}, {"c", kType}}));
  EXPECT_EQ(log_.last(), (Values{{"b", "none"}, {"c", "none"}}));
  EXPECT_TRUE(store_.Remove(*a));
  EXPECT_EQ(log_.last(), (Values{{"a", "-"}}));
  EXPECT_EQ(a->log_position(), 3u);
  EXPECT_FALSE(store_.Remove(*a));
  EXPECT_EQ(log_.records.size(), 3u);
  store_.Clear("ns");
  EXPECT_EQ(log_.last(), (Values{{"b", "-"}, {"c", "-"}}));
  bool granted;
  const VariablePtr d = Make("d");
  auto ticket = Take({{d, Access::kWrite}}, &granted);
  ASSERT_OK(ticket->Destroy(HandleOf(d), false));
  ticket->ReleaseAll();
  EXPECT_EQ(log_.last(), (Values{{"d", "-"}}));
  EXPECT_EQ(ticket->log_position(), log_.records.size());
}

TEST_F(CommitLogTest, WhatLivesAsLongAsTheCallIsNotLogged) {
  bool granted;
  const VariablePtr a = Make("a");
  auto ticket = Take({{a, Access::kWrite}}, &granted);
  const ResourceHandle own = ticket->CreateForCall("own", kType);
  ASSERT_OK(ticket->Assign(own, Tensor::Scalar(5.0f)));
  ticket->ReleaseAll();
  EXPECT_EQ(log_.records.size(), 1u);
  EXPECT_FALSE(ticket->has_logged());
}

}  // namespace
}  // namespace formwork
