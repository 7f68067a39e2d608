// Data directories as programs before this one have left them: an engine starts from them, or says
// which format they have.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine.h"
#include "core/storage/snapshot_store.h"
#include "formwork/state/snapshot.pb.h"
#include "rocksdb/db.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

constexpr uint64_t kEpoch = 0x1234500000077;
constexpr uint64_t kFirstId = uint64_t{0x12345} << 32 | 1;
constexpr uint64_t kVariable = kFirstId, kTable = kFirstId + 1, kEmpty = kFirstId + 2;
constexpr uint64_t kRows = kFirstId + 3, kGone = kFirstId + 4;
constexpr uint64_t kAdd = kFirstId, kFind = kFirstId + 1, kLater = kFirstId + 2;

HostAllocator& Memory() {
  static HostAllocator allocator;
  return allocator;
}

void ShapeOf(const std::vector<int64_t>& dims, formwork::v1::Shape* to) {
  for (const int64_t dim : dims) to->add_dims(dim);
}

state::Resource ResourceOf(uint64_t id, const std::string& name, uint64_t version,
                           const std::vector<int64_t>& dims = {}) {
  state::Resource resource;
  resource.set_id(id);
  resource.set_namespace_("ns");
  resource.set_name(name);
  resource.set_kind("variable");
  state::Resource::Part* part = resource.add_parts();
  part->set_dtype(tf::DT_FLOAT);
  ShapeOf(dims, part->mutable_shape());
  resource.set_version(version);
  resource.set_initialized(true);
  return resource;
}

state::Resource TableOf(uint64_t version) {
  state::Resource table = ResourceOf(kTable, "t", version);
  table.set_kind("table");
  table.mutable_parts(0)->set_dtype(tf::DT_STRING);
  table.mutable_parts(0)->mutable_shape()->Clear();
  *table.add_parts() = table.parts(0);
  table.mutable_parts(1)->set_dtype(tf::DT_FLOAT);
  return table;
}

std::vector<Tensor> Entries(const std::vector<std::string>& keys,
                            const std::vector<float>& values) {
  const Shape shape({static_cast<int64_t>(keys.size())});
  Tensor made_keys = *Tensor::Allocate(Memory(), DType::kString, shape);
  Tensor made_values = *Tensor::Allocate(Memory(), DType::kFloat, shape);
  for (size_t i = 0; i < keys.size(); ++i) {
    made_keys.mutable_data<std::string>()[i] = keys[i];
    made_values.mutable_data<float>()[i] = values[i];
  }
  return {made_keys, made_values};
}

Tensor Floats(const std::vector<int64_t>& dims, const std::vector<float>& values) {
  Tensor made = *Tensor::Allocate(Memory(), DType::kFloat, *Shape::Make(dims));
  std::copy(values.begin(), values.end(), made.mutable_data<float>());
  return made;
}

Tensor Numbers(const std::vector<int64_t>& values) {
  Tensor made =
      *Tensor::Allocate(Memory(), DType::kInt64, Shape({static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), made.mutable_data<int64_t>());
  return made;
}

// y = what the graph makes of x; captures: of resources.
std::vector<Tensor> RegistrationOf(const std::string& name, const std::string& graph,
                                   const std::vector<std::pair<std::string, uint64_t>>& captures,
                                   const std::vector<std::string>& targets) {
  state::Registration registration;
  registration.set_namespace_("ns");
  registration.set_name(name);
  state::Registration::Spec* input = registration.add_inputs();
  input->set_name("x:0");
  input->set_dtype(tf::DT_FLOAT);
  input->mutable_shape()->set_unknown_rank(true);
  registration.add_outputs("y:0");
  for (const std::string& target : targets) registration.add_targets(target);
  for (const auto& [tensor, id] : captures) {
    state::Registration::Capture* capture = registration.add_captures();
    capture->set_tensor(tensor);
    capture->set_resource_id(id);
  }
  return {Tensor::StringScalar(registration.SerializeAsString()),
          Tensor::StringScalar(ParseGraph(graph)->SerializeAsString())};
}

LoggedValue Logged(StoredKey::Of of, uint64_t position, state::Resource resource,
                   std::vector<Tensor> parts = {}) {
  LoggedValue value;
  value.key = {of, resource.id(), position};
  value.logged.set_position(position);
  *value.logged.mutable_resource() = std::move(resource);
  value.parts = std::move(parts);
  return value;
}

class OldFormatsTest : public EngineTest {
 protected:
  void SetUp() override {}
  void TearDown() override { engine_.reset(); }

  void Begin(Durability durability) { Start(Options(durability)); }
  EngineOptions Options(Durability durability = Durability::kSnapshot) const {
    EngineOptions options;
    options.data_dir = folder_.path();
    options.durability = durability;
    return options;
  }
  void SetFormat(const std::string& format) { PutRecord("format", format); }
  void PutRecord(const std::string& key, const std::string& text) {
    rocksdb::DB* opened = nullptr;
    rocksdb::Options options;
    options.create_if_missing = true;
    ASSERT_TRUE(rocksdb::DB::Open(options, folder_.path(), &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    ASSERT_TRUE(db->Put({}, key, text).ok());
  }
  std::string Format() {
    rocksdb::DB* opened = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open({}, folder_.path(), &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    std::string format;
    EXPECT_TRUE(db->Get({}, "format", &format).ok());
    return format;
  }
  // What all formats have: a snapshot of v = 3, a table, one without a value and two functions, and
  // what is left of another that was not finished.
  void WriteSnapshot(SnapshotStore& store, bool complete, uint64_t log_position,
                     bool logged = false) {
    state::Life life;
    life.set_epoch(kEpoch);
    life.set_complete(complete);
    life.set_next_resource_id(kFirstId + 10);
    life.set_next_function_id(kFirstId + 20);
    life.set_next_kept_tensor_id(kFirstId + 30);
    life.add_first_ids(kFirstId);
    life.set_logged(logged);
    state::Snapshot snapshot;
    snapshot.set_unix_micros(1700000000000000);
    *snapshot.add_resources() = ResourceOf(kVariable, "v", 3);
    *snapshot.add_resources() = TableOf(2);
    *snapshot.add_resources() = ResourceOf(kEmpty, "empty", 0, {2});
    snapshot.mutable_resources(2)->set_initialized(false);
    *snapshot.add_resources() = ResourceOf(kRows, "rows", 1, {3, 2});
    *snapshot.add_resources() = ResourceOf(kGone, "gone", 1);
    state::Function* function = snapshot.add_functions();
    function->set_id(kAdd);
    function->set_registration(1);
    function = snapshot.add_functions();
    function->set_id(kFind);
    function->set_registration(2);
    snapshot.set_log_position(log_position);
    const auto put = [&](uint64_t id, uint64_t version, const std::vector<Tensor>& values,
                         StoredKey::Of of = StoredKey::Of::kResource) {
      ASSERT_OK(store.Put({of, id, version}, values));
    };
    put(kVariable, 3, {Tensor::Scalar(3.0f)});
    put(kVariable, 4, {Tensor::Scalar(99.0f)});  // Of no snapshot.
    put(kTable, 2, Entries({"a", "b"}, {1, 2}));
    put(kRows, 1, {Floats({3, 2}, {0, 1, 2, 3, 4, 5})});
    put(kGone, 1, {Tensor::Scalar(1.0f)});
    put(1, 0,
        RegistrationOf("add",
                       "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                       "a = AssignAddVariableOp(v, x) dtype=float\n"
                       "y = ReadVariableOp(v, ^a) dtype=float",
                       {{"v:0", kVariable}}, {"a"}),
        StoredKey::Of::kRegistration);
    put(2, 0,
        RegistrationOf(
            "find",
            "t = MutableHashTableV2 shared_name=\"t\" key_dtype=string value_dtype=float\n"
            "x = Placeholder dtype=float\nk = Const string[] \"b\"\n"
            "f = LookupTableFindV2(t, k, x) Tin=string Tout=float\n"
            "y = Identity(f) T=float",
            {}, {}),
        StoredKey::Of::kRegistration);
    ASSERT_OK(store.Commit(&life, &snapshot));
  }
  // Of formats with a log: what came after the snapshot, which was taken at position 10.
  void WriteLog(SnapshotStore& store) {
    ASSERT_OK(store.Put({StoredKey::Of::kRegistration, 3, 0},
                        RegistrationOf("later",
                                       "x = Placeholder dtype=float\nc = Const float[] 1\n"
                                       "y = AddV2(x, c) T=float",
                                       {}, {}),
                        /*logged=*/true));
    std::vector<LoggedValue> values;
    // The snapshot has this one.
    values.push_back(Logged(StoredKey::Of::kLoggedResource, 9, ResourceOf(kVariable, "v", 2),
                            {Tensor::Scalar(-1.0f)}));
    values.push_back(Logged(StoredKey::Of::kLoggedResource, 11, TableOf(3),
                            Entries({"a", "b", "c"}, {1, 20, 3})));
    values.push_back(Logged(StoredKey::Of::kLoggedRows, 12, ResourceOf(kRows, "rows", 2, {3, 2}),
                            {Numbers({2, 0}), Floats({2, 2}, {40, 50, 10, 11})}));
    values.push_back(Logged(StoredKey::Of::kLoggedResource, 13, ResourceOf(kVariable, "v", 5),
                            {Tensor::Scalar(5.0f)}));
    state::Resource gone;
    gone.set_id(kGone);
    values.push_back(Logged(StoredKey::Of::kLoggedResource, 14, gone));
    values.back().logged.set_removed(true);
    LoggedValue& later = values.emplace_back();
    later.key = {StoredKey::Of::kLoggedFunction, kLater, 15};
    later.logged.set_position(15);
    later.logged.mutable_function()->set_id(kLater);
    later.logged.mutable_function()->set_registration(3);
    ASSERT_OK(store.Log(values, {}));
  }
  void ExpectSnapshot() {
    EXPECT_EQ(IdOf("v"), kVariable);
    EXPECT_EQ(IdOf("empty"), kEmpty);
    EXPECT_EQ(ValueOf("v"), 3);
    EXPECT_EQ(ValueOf("gone"), 1);
    EXPECT_THAT(Read({{0, "empty"}}).status,
                StatusIs(StatusCode::kFailedPrecondition, HasSubstr("empty")));
    EXPECT_EQ(Value(kAdd, 4), 7);
    EXPECT_EQ(Value(kFind, -1), 2);
    EXPECT_EQ(engine_->ListFunctions("ns").size(), 2u);
    EXPECT_EQ(engine_->Stats().snapshots.last.taken, absl::FromUnixSeconds(1700000000));
  }
  void ExpectLog() {
    EXPECT_EQ(ValueOf("v"), 5);
    EXPECT_EQ(IdOf("gone"), 0u);
    const ReadResult rows = Read({{0, "rows"}});
    ASSERT_OK(rows.status);
    EXPECT_THAT(rows.values[0].value.span<float>(), ::testing::ElementsAre(10, 11, 2, 3, 40, 50));
    EXPECT_EQ(Value(kFind, -1), 20);
    EXPECT_EQ(Value(kLater, 1), 2);
    EXPECT_EQ(Value(kAdd, 1), 6);
  }
  CallSpec NumberedAdd(float x, uint64_t sequence, absl::Duration age) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.name = "add";
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(x);
    spec.request = {"client", sequence, 0, age};
    return spec;
  }

  const TempFolder folder_;
};

TEST_F(OldFormatsTest, OneThatEndedInPeaceGoesOn) {
  for (const char* format : {"formwork 1", "formwork 2", "formwork 3", "formwork 4"}) {
    SCOPED_TRACE(format);
    engine_.reset();
    std::filesystem::remove_all(folder_.path());
    WriteSnapshot(**SnapshotStore::Open(folder_.path()), /*complete=*/true, /*log_position=*/0);
    SetFormat(format);
    Begin(Durability::kSnapshot);
    EXPECT_EQ(engine_->epoch(), kEpoch);
    EXPECT_OK(engine_->CheckEpoch("ns", kEpoch, nullptr));
    ExpectSnapshot();
    // IDs go on where they were.
    NewVariable("new", 1);
    EXPECT_EQ(IdOf("new"), kFirstId + 10);
    engine_.reset();
    EXPECT_EQ(Format(), "formwork 5");
  }
}

TEST_F(OldFormatsTest, AfterACrashThereIsTheLastSnapshotUnderAnotherEpoch) {
  for (const char* format : {"formwork 1", "formwork 2", "formwork 3", "formwork 4"}) {
    SCOPED_TRACE(format);
    engine_.reset();
    std::filesystem::remove_all(folder_.path());
    WriteSnapshot(**SnapshotStore::Open(folder_.path()), /*complete=*/false, /*log_position=*/0);
    SetFormat(format);
    Begin(Durability::kSnapshot);
    EXPECT_NE(engine_->epoch(), kEpoch);
    EXPECT_THAT(engine_->CheckEpoch("ns", kEpoch, nullptr),
                StatusIs(StatusCode::kFailedPrecondition, HasSubstr("restarted")));
    ExpectSnapshot();
    // What was made after that snapshot, and is lost, has none of the new IDs.
    NewVariable("new", 1);
    EXPECT_NE(IdOf("new") >> 32, kFirstId >> 32);
  }
}

TEST_F(OldFormatsTest, WhatIsLoggedIsThereUnderTheSameEpoch) {
  for (const char* format : {"formwork 2", "formwork 3", "formwork 4"}) {
    SCOPED_TRACE(format);
    engine_.reset();
    std::filesystem::remove_all(folder_.path());
    {
      const auto store = *SnapshotStore::Open(folder_.path());
      WriteSnapshot(*store, /*complete=*/false, /*log_position=*/10, /*logged=*/true);
      WriteLog(*store);
    }
    SetFormat(format);
    Begin(Durability::kSync);
    EXPECT_EQ(engine_->epoch(), kEpoch);
    ExpectLog();
    // And goes on so.
    engine_.reset();
    Begin(Durability::kSync);
    EXPECT_EQ(engine_->epoch(), kEpoch);
    EXPECT_EQ(ValueOf("v"), 6);
    EXPECT_EQ(Value(kFind, -1), 20);
  }
}

TEST_F(OldFormatsTest, WhereThereWasMoreThanIsLoggedItIsAnotherEpoch) {
  {
    const auto store = *SnapshotStore::Open(folder_.path());
    WriteSnapshot(*store, /*complete=*/false, /*log_position=*/10, /*logged=*/true);
    WriteLog(*store);
    LoggedValue more;
    more.key = {StoredKey::Of::kLoggedMore, 0, 16};
    more.logged.set_position(16);
    more.logged.set_more(true);
    ASSERT_OK(store->Log({more}, {}));
  }
  SetFormat("formwork 2");
  Begin(Durability::kSync);
  EXPECT_NE(engine_->epoch(), kEpoch);
  ExpectLog();
}

TEST_F(OldFormatsTest, WhatFormat2DidNotKeepOfAnswersIsNotDoneAgain) {
  {
    const auto store = *SnapshotStore::Open(folder_.path());
    WriteSnapshot(*store, /*complete=*/false, /*log_position=*/10, /*logged=*/true);
    WriteLog(*store);
  }
  SetFormat("formwork 2");
  Begin(Durability::kSync);
  const CallResult repeated =
      std::move(EngineTest::Begin(NumberedAdd(1, 7, absl::Hours(1)))->Wait());
  EXPECT_THAT(repeated.status, StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_EQ(ValueOf("v"), 5);
  EXPECT_OK(EngineTest::Begin(NumberedAdd(1, 8, absl::ZeroDuration()))->Wait().status);
  EXPECT_EQ(ValueOf("v"), 6);
}

// As format 3, which has all but the durability of namespaces.
TEST_F(OldFormatsTest, TheAnswersOfFormat3AreKnown) {
  Begin(Durability::kSync);
  NewVariable("v", 1);
  ASSERT_OK(Register("add",
                     "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                     "a = AssignAddVariableOp(v, x) dtype=float\n"
                     "y = ReadVariableOp(v, ^a) dtype=float",
                     {Spec("x:0")}, {"y:0"}, {{"v:0", "v"}}, {"a"}));
  EXPECT_OK(EngineTest::Begin(NumberedAdd(2, 1, absl::ZeroDuration()))->Wait().status);
  const uint64_t epoch = engine_->epoch();
  engine_.reset();
  {
    const auto store = *SnapshotStore::Open(folder_.path());
    std::optional<state::Life> life = *store->ReadLife();
    ASSERT_TRUE(life.has_value());
    EXPECT_TRUE(life->answers_logged());
    life->clear_snapshot_epoch();
    life->clear_memory_epoch();
    life->clear_durability();
    ASSERT_OK(store->Commit(&*life, nullptr));
  }
  SetFormat("formwork 3");
  Begin(Durability::kSync);
  EXPECT_EQ(engine_->epoch(), epoch);
  const CallResult repeated =
      std::move(EngineTest::Begin(NumberedAdd(2, 1, absl::Milliseconds(1)))->Wait());
  ASSERT_OK(repeated.status);
  EXPECT_EQ(repeated.outputs[0].tensor.scalar<float>(), 3);
  EXPECT_EQ(ValueOf("v"), 3);
}

TEST_F(OldFormatsTest, OneThatIsNotKnownIsRefusedByName) {
  { ASSERT_OK(SnapshotStore::Open(folder_.path()).status()); }
  for (const char* format : {"formwork 6", "formwork 0", "", "\xff"}) {
    SetFormat(format);
    EXPECT_THAT(Engine::Create(Options()).status(),
                StatusIs(StatusCode::kFailedPrecondition,
                         ::testing::AllOf(HasSubstr(folder_.path()), HasSubstr("of another format"),
                                          HasSubstr("known=formwork 5"))));
    EXPECT_EQ(Format(), format);
  }
}

TEST_F(OldFormatsTest, AnotherProgramsDatabaseIsRefusedAndStaysAsItIs) {
  PutRecord("hello", "world");
  EXPECT_THAT(Engine::Create(Options()).status(),
              StatusIs(StatusCode::kFailedPrecondition,
                       ::testing::AllOf(HasSubstr(folder_.path()),
                                        HasSubstr("database of another program"))));
  // Twice: the first attempt has not made it one of ours.
  EXPECT_FALSE(Engine::Create(Options()).ok());
}

}  // namespace
}  // namespace formwork::testing
