// What outlives an engine by namespace, where these differ.

#include <map>

#include "core/storage/snapshot_store.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TextAnswer final : public MessageAnswer {
 public:
  size_t bytes() const override { return 1; }
  std::string Text() const override { return "c"; }
};

class EngineDurabilityTest : public EngineTest {
 protected:
  void SetUp() override { Begin(Durability::kSnapshot); }
  void TearDown() override { engine_.reset(); }
  using EngineTest::Begin;
  void Begin(Durability durability) {
    EngineOptions options;
    options.data_dir = folder_.path();
    options.durability = durability;
    Start(options);
  }
  void CrashAndBegin(Durability durability = Durability::kSnapshot) {
    engine_.reset();
    Begin(durability);
  }
  void EndInPeaceAndBegin(Durability durability = Durability::kSnapshot) {
    engine_->Drain(absl::InfiniteFuture(), absl::ZeroDuration());
    EXPECT_OK(engine_->TakeLastSnapshot(absl::InfiniteFuture()));
    CrashAndBegin(durability);
  }
  void Snapshot() {
    absl::Notification done;
    engine_->TakeSnapshot([&](const absl::StatusOr<SnapshotInfo>& taken) {
      EXPECT_OK(taken.status());
      done.Notify();
    });
    done.WaitForNotification();
  }
  void AwaitDisk() {
    absl::Notification told;
    engine_->WhenDurable([&](const absl::Status& durable) {
      EXPECT_OK(durable);
      told.Notify();
    });
    told.WaitForNotification();
  }
  void Make(const std::string& name_space, float value) {
    ASSERT_OK(
        engine_->CreateVariable(name_space, "v", DType::kFloat, Shape({}), Tensor::Scalar(value)));
  }
  absl::Status Write(const std::string& name_space, float value) {
    PendingAssign pending;
    pending.handle =
        engine_->AssignVariables({name_space, {{{0, "v"}, Tensor::Scalar(value)}}}, pending.Done());
    pending.handle->Start();
    return pending.Wait().status;
  }
  // NAN where it is not there.
  float ValueIn(const std::string& name_space) {
    PendingRead pending;
    pending.handle = engine_->ReadVariables({name_space, {{0, "v"}}}, pending.Done());
    pending.handle->Start();
    const ReadResult& result = pending.Wait();
    return result.status.ok() ? result.values[0].value.scalar<float>() : NAN;
  }
  // v += x; y = v, in a namespace.
  uint64_t RegisterAddIn(const std::string& name_space) {
    Registration registration;
    registration.name_space = name_space;
    registration.name = "add";
    registration.graph_def = ParseGraph(
                                 "v = Placeholder dtype=resource\n"
                                 "x = Placeholder dtype=float\n"
                                 "a = AssignAddVariableOp(v, x) dtype=float\n"
                                 "y = ReadVariableOp(v, ^a) dtype=float")
                                 ->SerializeAsString();
    registration.inputs = {Spec("x:0")};
    registration.outputs = {"y:0"};
    registration.targets = {"a"};
    Argument argument;
    argument.kind = Argument::Kind::kResource;
    argument.id = engine_->GetResource(name_space, {0, "v"})->id;
    registration.captures.emplace_back("v:0", std::move(argument));
    absl::StatusOr<Registered> made = Register(std::move(registration));
    EXPECT_OK(made.status());
    return made.ok() ? made->function.id : 0;
  }
  CallResult Add(const std::string& name_space, float x, uint64_t sequence, bool repeat = false) {
    CallSpec spec;
    spec.name_space = name_space;
    spec.function.name = "add";
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(x);
    spec.request = {"client", sequence, 0, repeat ? absl::Milliseconds(1) : absl::ZeroDuration()};
    return std::move(EngineTest::Begin(std::move(spec))->Wait());
  }
  // As the server's Clear. How often it has been done goes to cleared_.
  absl::Status Clear(const std::string& name_space, uint64_t sequence, uint64_t known_epoch,
                     absl::Duration age = absl::ZeroDuration()) {
    const RequestId request = {"client", sequence, 0, age};
    if (request.is_repeat()) {
      FORMWORK_RETURN_IF_ERROR(engine_->CheckRepeat(name_space, request, known_epoch, nullptr));
    }
    return engine_
        ->AnswerOnce(name_space, request, 1,
                     [&](bool* done) -> absl::StatusOr<std::shared_ptr<const MessageAnswer>> {
                       engine_->Clear(name_space);
                       ++cleared_;
                       *done = true;
                       return std::make_shared<const TextAnswer>();
                     })
        .status();
  }
  float Sum(const CallResult& result) {
    EXPECT_OK(result.status);
    return result.outputs.size() == 1 ? result.outputs[0].tensor.scalar<float>() : NAN;
  }
  std::map<std::string, Durability> Listed() {
    std::map<std::string, Durability> listed;
    for (const NamespaceHoldings& one : engine_->ListNamespaces()) {
      listed[one.name] = one.durability;
    }
    return listed;
  }
  std::map<std::string, uint64_t> Epochs() {
    return {{"m", engine_->epoch("m")}, {"d", engine_->epoch("d")}, {"s", engine_->epoch("s")}};
  }
  // "m", "s" and, by default, "d".
  void MakeThree() {
    ASSERT_OK(engine_->SetDurability("m", Durability::kMemory));
    ASSERT_OK(engine_->SetDurability("s", Durability::kSync));
    for (const char* name_space : {"m", "d", "s"}) Make(name_space, 1);
    AwaitDisk();
  }

  // In a new directory all are the same.
  void LetEpochsDiffer() {
    CrashAndBegin();
    EndInPeaceAndBegin();
    const auto epochs = Epochs();
    ASSERT_NE(epochs.at("m"), epochs.at("d"));
    ASSERT_NE(epochs.at("s"), epochs.at("d"));
  }

  const TempFolder folder_;
  int cleared_ = 0;
};

TEST_F(EngineDurabilityTest, EachHasAfterACrashWhatItIsSetTo) {
  MakeThree();
  const std::map<std::string, Durability> listed = {
      {"m", Durability::kMemory}, {"d", Durability::kSnapshot}, {"s", Durability::kSync}};
  EXPECT_EQ(Listed(), listed);
  const auto before = Epochs();
  Snapshot();
  for (const char* name_space : {"m", "d", "s"}) ASSERT_OK(Write(name_space, 2));
  CrashAndBegin();
  EXPECT_TRUE(std::isnan(ValueIn("m")));
  EXPECT_EQ(ValueIn("d"), 1);
  EXPECT_EQ(ValueIn("s"), 2);
  EXPECT_EQ(Listed(), listed);
  const auto after = Epochs();
  EXPECT_NE(after.at("m"), before.at("m"));
  EXPECT_NE(after.at("d"), before.at("d"));
  EXPECT_EQ(after.at("s"), before.at("s"));
  EXPECT_THAT(engine_->CheckEpoch("d", before.at("d"), nullptr),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("restarted")));
  EXPECT_OK(engine_->CheckEpoch("s", before.at("s"), nullptr));
  // What is new is no ID of before.
  Make("m", 5);
  EXPECT_EQ(ValueIn("m"), 5);
}

TEST_F(EngineDurabilityTest, AfterAnEndInPeaceOnlyMemoryIsGone) {
  MakeThree();
  for (const char* name_space : {"m", "d", "s"}) {
    RegisterAddIn(name_space);
    EXPECT_EQ(Sum(Add(name_space, 2, 1)), 3);
    ASSERT_OK(engine_->GetResource(name_space, {0, "v"}).status());
  }
  const uint64_t id = engine_->GetResource("m", {0, "v"})->id;
  // What is kept is of its namespace alone.
  ASSERT_OK(engine_->KeepTensor("m", "me", absl::ZeroDuration(), Tensor::Scalar(1.0f)).status());
  const auto before = Epochs();
  EndInPeaceAndBegin();
  const auto after = Epochs();
  EXPECT_NE(after.at("m"), before.at("m"));
  EXPECT_EQ(after.at("d"), before.at("d"));
  EXPECT_EQ(after.at("s"), before.at("s"));
  EXPECT_THAT(engine_->ListResources("m"), IsEmpty());
  EXPECT_THAT(engine_->ListFunctions("m"), IsEmpty());
  EXPECT_EQ(engine_->Stats().answers, 2);
  for (const char* name_space : {"d", "s"}) {
    EXPECT_EQ(Sum(Add(name_space, 2, 1, /*repeat=*/true)), 3);
    EXPECT_EQ(ValueIn(name_space), 3);
    EXPECT_EQ(Sum(Add(name_space, 2, 2)), 5);
  }
  Make("m", 1);
  EXPECT_NE(engine_->GetResource("m", {0, "v"})->id, id);
  // Those of snapshots are stored once, and again at the next end.
  EndInPeaceAndBegin();
  EXPECT_EQ(engine_->Stats().answers, 4);
  EXPECT_EQ(Sum(Add("d", 2, 2, /*repeat=*/true)), 5);
  CrashAndBegin();
  EXPECT_EQ(engine_->Stats().answers, 2);  // Of "s".
  EXPECT_EQ(Sum(Add("s", 2, 2, /*repeat=*/true)), 5);
}

TEST_F(EngineDurabilityTest, ACallOfMemoryWritesNothingToTheLog) {
  MakeThree();
  for (const char* name_space : {"m", "d", "s"}) RegisterAddIn(name_space);
  AwaitDisk();
  const uint64_t records = engine_->Stats().commits.records;
  for (uint64_t i = 1; i <= 10; ++i) {
    EXPECT_EQ(Sum(Add("m", 1, i)), static_cast<float>(i + 1));
    EXPECT_EQ(Sum(Add("d", 1, i)), static_cast<float>(i + 1));
  }
  ASSERT_OK(engine_->KeepTensor("m", "me", absl::ZeroDuration(), Tensor::Scalar(1.0f)).status());
  ASSERT_OK(engine_->DeleteResource("m", {0, "v"}));
  engine_->Clear("d");
  AwaitDisk();
  EXPECT_EQ(engine_->Stats().commits.records, records);
  EXPECT_EQ(Sum(Add("s", 1, 1)), 2);
  EXPECT_EQ(engine_->Stats().commits.records, records + 1);
  const uint64_t epoch = engine_->epoch("s");
  CrashAndBegin();
  EXPECT_EQ(engine_->epoch("s"), epoch);  // What was kept elsewhere is no loss of its.
  EXPECT_EQ(Sum(Add("s", 1, 1, /*repeat=*/true)), 2);
  EXPECT_EQ(ValueIn("s"), 2);
}

// What is removed goes with its durability, and so has another epoch from then on.
TEST_F(EngineDurabilityTest, ARemovalThatIsSentAgainIsDoneOnce) {
  MakeThree();
  LetEpochsDiffer();
  for (const char* name_space : {"m", "s"}) {
    const uint64_t known = engine_->epoch(name_space);
    ASSERT_OK(Clear(name_space, 1, known));
    EXPECT_NE(engine_->epoch(name_space), known);
    Make(name_space, 9);  // By another client.
    EXPECT_OK(Clear(name_space, 1, known, absl::Milliseconds(1)));
    EXPECT_EQ(ValueIn(name_space), 9);
  }
  EXPECT_EQ(cleared_, 2);
}

TEST_F(EngineDurabilityTest, SoIsOneOfSyncThatIsSentAgainAfterACrash) {
  MakeThree();
  const uint64_t known = engine_->epoch("s");
  RegisterAddIn("s");
  EXPECT_EQ(Sum(Add("s", 1, 1)), 2);
  ASSERT_OK(Clear("s", 2, known));
  AwaitDisk();
  for (int crashes = 0; crashes < 2; ++crashes) {
    CrashAndBegin();
    EXPECT_TRUE(std::isnan(ValueIn("s")));
    Make("s", 9);
    EXPECT_OK(Clear("s", 2, known, absl::Milliseconds(1)));
    EXPECT_EQ(ValueIn("s"), 9);
    EXPECT_EQ(Sum(Add("s", 1, 1, /*repeat=*/true)), 2);  // What was done before it, likewise.
  }
  EXPECT_EQ(cleared_, 1);
  // One that is not known, and may have been done under either durability, is not done.
  EXPECT_THAT(Clear("s", 3, known, absl::Hours(1)),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("restarted")));
  EXPECT_EQ(ValueIn("s"), 9);
  EndInPeaceAndBegin();
  EXPECT_OK(Clear("s", 2, known, absl::Milliseconds(1)));
  EXPECT_EQ(ValueIn("s"), 9);
}

TEST_F(EngineDurabilityTest, ARemovalThatWasNotDoneIsDoneWhenItIsSentAgain) {
  MakeThree();
  Snapshot();
  LetEpochsDiffer();
  // The client knows another namespace's epoch, or what was this one's when it was first sent.
  absl::SleepFor(absl::Seconds(2.1));  // What was on its way before may be an earlier life's.
  EXPECT_OK(Clear("s", 1, engine_->epoch("m"), absl::Milliseconds(1)));
  EXPECT_TRUE(std::isnan(ValueIn("s")));
  // Of an earlier life, or of another server, it may have been done.
  EXPECT_FALSE(Clear("d", 2, engine_->epoch("m"), absl::Hours(1)).ok());
  EXPECT_FALSE(Clear("d", 2, engine_->epoch("d") + 1, absl::Milliseconds(1)).ok());
  EXPECT_EQ(ValueIn("d"), 1);
  EXPECT_EQ(cleared_, 1);
}

TEST_F(EngineDurabilityTest, ItIsSetWhereNothingIsIn) {
  Make("a", 1);
  EXPECT_OK(engine_->SetDurability("a", Durability::kSnapshot));  // As it is.
  for (const Durability other : {Durability::kMemory, Durability::kSync}) {
    EXPECT_THAT(engine_->SetDurability("a", other),
                StatusIs(StatusCode::kFailedPrecondition, HasSubstr("namespace 'a' holds")));
  }
  ASSERT_OK(engine_->KeepTensor("b", "me", absl::ZeroDuration(), Tensor::Scalar(1.0f)).status());
  EXPECT_THAT(engine_->SetDurability("b", Durability::kSync),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("there=snapshot asked=sync")));
  EXPECT_THAT(engine_->SetDurability(std::string(5000, 'x'), Durability::kSync),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("namespace")));
  ASSERT_OK(engine_->DeleteResource("a", {0, "v"}));
  ASSERT_OK(engine_->SetDurability("a", Durability::kSync));
  EXPECT_EQ(Listed()["a"], Durability::kSync);  // It is there, with nothing in it.
  Make("a", 2);
  AwaitDisk();
  CrashAndBegin();
  EXPECT_EQ(ValueIn("a"), 2);
  // It goes with the namespace.
  engine_->Clear("a");
  EXPECT_EQ(Listed().count("a"), 0u);
  Make("a", 3);
  EXPECT_EQ(Listed()["a"], Durability::kSnapshot);
  AwaitDisk();
  CrashAndBegin();
  EXPECT_EQ(Listed().count("a"), 0u);
}

TEST_F(EngineDurabilityTest, WithoutADataDirectoryThereIsMemoryAlone) {
  Start({});
  EXPECT_OK(engine_->SetDurability("a", Durability::kMemory));
  EXPECT_THAT(engine_->SetDurability("a", Durability::kSync),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("data directory")));
  Make("a", 1);
  EXPECT_EQ(Listed()["a"], Durability::kMemory);
}

TEST_F(EngineDurabilityTest, TheDefaultIsOfThoseThatHaveNone) {
  CrashAndBegin(Durability::kMemory);
  ASSERT_OK(engine_->SetDurability("s", Durability::kSync));
  ASSERT_OK(engine_->SetDurability("kept", Durability::kSnapshot));
  for (const char* name_space : {"s", "kept", "m"}) Make(name_space, 1);
  Snapshot();
  CrashAndBegin(Durability::kMemory);
  EXPECT_EQ(ValueIn("s"), 1);
  EXPECT_EQ(ValueIn("kept"), 1);
  EXPECT_TRUE(std::isnan(ValueIn("m")));
  // What is on disk of one is not lost to another default.
  CrashAndBegin(Durability::kSnapshot);
  Make("m", 4);
  Snapshot();
  CrashAndBegin(Durability::kMemory);
  EXPECT_EQ(ValueIn("m"), 4);
  EXPECT_EQ(Listed()["m"], Durability::kSnapshot);
  Make("new", 1);
  EXPECT_EQ(Listed()["new"], Durability::kMemory);
  EndInPeaceAndBegin(Durability::kMemory);
  EXPECT_EQ(ValueIn("m"), 4);
}

TEST_F(EngineDurabilityTest, AnEpochIsNotWhatItWasBeforeSomethingWasLost) {
  CrashAndBegin(Durability::kSync);
  Make("d", 1);
  AwaitDisk();
  const uint64_t synced = engine_->epoch("d");
  EndInPeaceAndBegin(Durability::kSnapshot);
  ASSERT_OK(Write("d", 2));
  CrashAndBegin(Durability::kSnapshot);  // That is lost.
  EXPECT_EQ(ValueIn("d"), 1);
  EXPECT_NE(engine_->epoch("d"), synced);
  EndInPeaceAndBegin(Durability::kSync);
  EXPECT_NE(engine_->epoch("d"), synced);
  CrashAndBegin(Durability::kMemory);
  EXPECT_NE(engine_->epoch("d"), synced);
}

}  // namespace
}  // namespace formwork::testing
