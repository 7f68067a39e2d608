// Namespaces as a whole: what each holds, how much it may, and that it goes.

#include "core/base/reason.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTable[] =
    "t = MutableHashTableV2 key_dtype=int64 value_dtype=float shared_name=\"t\"\n"
    "k = Placeholder dtype=int64\nx = Placeholder dtype=float\n"
    "i = LookupTableInsertV2(t, k, x) Tin=int64 Tout=float\n";

class EngineNamespacesTest : public EngineTest {
 protected:
  // With such limits of each namespace.
  void Limit(const NamespaceLimits& limits) {
    EngineOptions options;
    options.namespace_limits = limits;
    Start(options);
  }
  absl::StatusOr<Engine::CreatedVariable> New(const std::string& name_space,
                                              const std::string& name, int64_t elements) {
    const Tensor value = *Tensor::Allocate(engine_->allocator(), DType::kFloat, Shape({elements}));
    return engine_->CreateVariable(name_space, name, DType::kFloat, PartialShape(), value);
  }
  Tensor Zeros(int64_t elements) {
    return *Tensor::Allocate(engine_->allocator(), DType::kFloat, Shape({elements}));
  }
  NamespaceHoldings Of(const std::string& name_space) {
    for (const NamespaceHoldings& one : engine_->ListNamespaces()) {
      if (one.name == name_space) return one;
    }
    return {name_space, {}};
  }
  int64_t Count(Held what) { return Of("ns").of(what).count; }
  // What is counted is what lists say.
  void ExpectCounted(const std::string& name_space) {
    const NamespaceHoldings held = Of(name_space);
    uint64_t variable_bytes = 0, other_bytes = 0, function_bytes = 0, kept_bytes = 0;
    int64_t variables = 0, others = 0;
    for (const ResourceInfo& resource : engine_->ListResources(name_space)) {
      (resource.type.is_variable() ? variables : others) += 1;
      (resource.type.is_variable() ? variable_bytes : other_bytes) += resource.bytes;
    }
    const auto functions = engine_->ListFunctions(name_space);
    for (const FunctionInfo& function : functions) function_bytes += function.bytes;
    const auto kept = engine_->ListTensors(name_space);
    for (const KeptTensorInfo& tensor : kept) kept_bytes += tensor.bytes;
    EXPECT_EQ(held.of(Held::kVariable).count, variables);
    EXPECT_EQ(held.of(Held::kVariable).bytes, variable_bytes);
    EXPECT_EQ(held.of(Held::kOtherResource).count, others);
    EXPECT_EQ(held.of(Held::kOtherResource).bytes, other_bytes);
    EXPECT_EQ(held.of(Held::kFunction).count, static_cast<int64_t>(functions.size()));
    EXPECT_EQ(held.of(Held::kFunction).bytes, function_bytes);
    EXPECT_EQ(held.of(Held::kKeptTensor).count, static_cast<int64_t>(kept.size()));
    EXPECT_EQ(held.of(Held::kKeptTensor).bytes, kept_bytes);
  }
  static void ExpectRefused(const absl::Status& status, const std::string& words) {
    EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted,
                                 AllOf(HasSubstr("namespace 'ns'"), HasSubstr(words))));
    EXPECT_EQ(ReasonOf(status), Reason::kQuota);
  }
  // v is assigned x.
  uint64_t RegisterStore(const std::string& name) {
    const absl::StatusOr<Registered> made =
        Register(name,
                 "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                 "a = AssignVariableOp(v, x) dtype=float",
                 {Spec("x:0")}, {}, {{"v:0", "v"}}, {"a"});
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
};

// ------------------------------------------------------------------------------------ what is
// there

TEST_F(EngineNamespacesTest, OneIsThereWhileSomethingIsInIt) {
  EXPECT_THAT(engine_->ListNamespaces(), IsEmpty());
  ASSERT_OK(New("other", "v", 10));
  NewVariable("v", 1);
  ASSERT_OK(engine_->CreateVariable("ns", "none", DType::kFloat, Shape({}), std::nullopt));
  ASSERT_OK(RegisterAdd("add", 1));
  ASSERT_OK(RegisterAdd("add", 2, /*replace=*/true));
  ASSERT_OK_AND_ASSIGN(
      const Registered insert,
      Register("insert", kTable, {Spec("k:0", DType::kInt64), Spec("x:0")}, {}, {}, {"i"}));
  for (int64_t key = 0; key < 10; ++key) {
    ASSERT_OK(Run(insert.function.id, Owned(Tensor::Scalar(key), Tensor::Scalar(1.0f))).status);
  }
  ASSERT_OK_AND_ASSIGN(const uint64_t kept,
                       engine_->KeepTensor("ns", "me", absl::ZeroDuration(), Zeros(100)));
  const auto list = engine_->ListNamespaces();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "ns");
  EXPECT_EQ(list[1].name, "other");
  EXPECT_EQ(Count(Held::kVariable), 2);
  EXPECT_EQ(Count(Held::kOtherResource), 1);
  EXPECT_EQ(Count(Held::kFunction), 2);
  EXPECT_EQ(Count(Held::kKeptTensor), 1);
  ExpectCounted("ns");
  ExpectCounted("other");
  // Of what goes one by one nothing is left, either.
  ASSERT_OK(engine_->DeleteResource("ns", {0, "none"}));
  ASSERT_OK(engine_->Unregister("ns", {0, "add"}));
  EXPECT_EQ(engine_->ReleaseTensors("ns", {kept}), 1);
  ExpectCounted("ns");
  ASSERT_OK(engine_->DeleteResource("ns", {0, "v"}));
  ASSERT_OK(engine_->Unregister("ns", {0, "insert"}));
  ASSERT_OK(engine_->DeleteResource("ns", {0, "t"}));
  ASSERT_EQ(engine_->ListNamespaces().size(), 1u);
}

TEST_F(EngineNamespacesTest, WhatIsClearedIsGoneAndOthersStay) {
  ASSERT_OK(New("other", "v", 10));
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(const Registered add, RegisterAdd("add", 1));
  ASSERT_OK_AND_ASSIGN(const uint64_t kept,
                       engine_->KeepTensor("ns", "me", absl::ZeroDuration(), Zeros(1)));
  engine_->Clear("ns");
  engine_->Clear("was never there");
  ASSERT_EQ(engine_->ListNamespaces().size(), 1u);
  EXPECT_THAT(Read({{0, "v"}}).status, StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(engine_->ReadTensor("ns", kept), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(Run(add.function.id, Owned(Tensor::Scalar(1.0f))).status,
              StatusIs(StatusCode::kNotFound));
  ExpectCounted("other");
  EXPECT_EQ(Of("other").of(Held::kVariable).bytes, 40u);
}

TEST_F(EngineNamespacesTest, CallsThatWereAdmittedGoOnWithWhatIsCleared) {
  NewVariable("v", 1);
  const auto holder = Begin(RegisterHolder("holder"), Owned(Tensor::Scalar(0.0f)));
  while (engine_->Stats().calls_running == 0) absl::SleepFor(absl::Milliseconds(1));
  engine_->Clear("ns");
  EXPECT_THAT(engine_->ListNamespaces(), IsEmpty());
  // Another of the name is another one.
  NewVariable("v", 5);
  EXPECT_EQ(ValueOf("v"), 5);
  EXPECT_EQ(Count(Held::kVariable), 1);
  holder->handle->Cancel();
  EXPECT_THAT(holder->Wait().status, StatusIs(StatusCode::kCancelled));
  ExpectCounted("ns");
  // One that ends well writes what is not counted any more.
  const uint64_t store = RegisterStore("store");
  ASSERT_OK(Run(store, Owned(Tensor::Scalar(2.0f))).status);
  engine_->Clear("ns");
  EXPECT_THAT(engine_->ListNamespaces(), IsEmpty());
}

TEST_F(EngineNamespacesTest, AKeptTensorOfAnotherIsNotThere) {
  ASSERT_OK_AND_ASSIGN(const uint64_t kept,
                       engine_->KeepTensor("other", "me", absl::ZeroDuration(), Zeros(1)));
  EXPECT_THAT(engine_->ReadTensor("ns", kept),
              StatusIs(StatusCode::kNotFound, HasSubstr("no kept tensor of id=")));
  EXPECT_EQ(engine_->ReleaseTensors("ns", {kept}), 0);
  ASSERT_OK_AND_ASSIGN(const Registered add, RegisterAdd("add", 1));
  CallSpec spec;
  spec.name_space = "ns";
  spec.function.id = add.function.id;
  spec.inputs.push_back({Argument::Kind::kKeptTensor, Tensor(), kept});
  const auto call = Begin(std::move(spec));
  EXPECT_THAT(call->Wait().status,
              StatusIs(StatusCode::kNotFound, HasSubstr("no kept tensor of id=")));
  EXPECT_EQ(ReasonOf(call->result.status), Reason::kTensorNotFound);
  EXPECT_OK(engine_->ReadTensor("other", kept));
}

// ------------------------------------------------------------------------------------------ limits

TEST_F(EngineNamespacesTest, VariablesAreCountedAgainstTheirLimit) {
  Limit({.resources = 2});
  NewVariable("a", 1);
  // What a graph names is made as a whole or not at all.
  constexpr char kNamed[] = " = VarHandleOp dtype=float shape=shape:[] shared_name=\"";
  const std::string two =
      absl::StrCat("b", kNamed, "b\"\nc", kNamed,
                   "c\"\nr = ReadVariableOp(b) dtype=float\n"
                   "s = ReadVariableOp(c) dtype=float\ny = AddV2(r, s) T=float");
  ExpectRefused(Register("two", two, {}, {"y:0"}).status(),
                "variables and other resources: wanted=1 used=2 limit=2");
  EXPECT_EQ(engine_->ListResources("ns").size(), 1u);
  EXPECT_THAT(engine_->ListFunctions("ns"), IsEmpty());
  ExpectCounted("ns");
  NewVariable("b", 1);
  ExpectRefused(New("ns", "c", 1).status(), "wanted=1 used=2 limit=2");
  EXPECT_TRUE(New("ns", "a", 1).status().code() == StatusCode::kInvalidArgument);  // It is there.
  EXPECT_OK(New("other", "c", 1));
  ASSERT_OK(engine_->DeleteResource("ns", {0, "a"}));
  EXPECT_OK(New("ns", "c", 1));
}

TEST_F(EngineNamespacesTest, FunctionsAreCountedAgainstTheirLimit) {
  Limit({.functions = 1});
  NewVariable("v", 1);
  ASSERT_OK(RegisterAdd("f", 1));
  ExpectRefused(RegisterAdd("g", 1).status(), "functions: wanted=1 used=1 limit=1");
  EXPECT_OK(RegisterAdd("f", 1));                    // It is there.
  EXPECT_OK(RegisterAdd("f", 2, /*replace=*/true));  // One goes for it.
  ExpectCounted("ns");
  ASSERT_OK(engine_->Unregister("ns", {0, "f"}));
  RegisterStore("store");
  // One that cannot be called any more gives way to another of its type.
  ASSERT_OK(engine_->DeleteResource("ns", {0, "v"}));
  NewVariable("v", 1);
  RegisterStore("store");
  EXPECT_EQ(Count(Held::kFunction), 1);
  ExpectCounted("ns");
}

TEST_F(EngineNamespacesTest, KeptTensorsAreCountedAgainstTheirLimit) {
  Limit({.kept_tensors = 1});
  ASSERT_OK(engine_->KeepTensor("ns", "me", absl::ZeroDuration(), Zeros(1)));
  ExpectRefused(engine_->KeepTensor("ns", "you", absl::ZeroDuration(), Zeros(1)).status(),
                "kept tensors: wanted=1 used=1 limit=1");
  ExpectCounted("ns");
}

TEST_F(EngineNamespacesTest, BytesAreThoseOfAllTogether) {
  Limit({.bytes = 10000});
  ASSERT_OK(New("ns", "v", 1000));
  ExpectRefused(New("ns", "w", 2000).status(), "bytes: wanted=8000 used=4000 limit=10000");
  EXPECT_EQ(engine_->ListResources("ns").size(), 1u);
  ASSERT_OK(engine_->KeepTensor("ns", "me", absl::ZeroDuration(), Zeros(1000)));
  ExpectRefused(engine_->KeepTensor("ns", "me", absl::ZeroDuration(), Zeros(1000)).status(),
                "limit=10000");
  ExpectRefused(New("ns", "w", 1000).status(), "limit=10000");
  EXPECT_OK(New("other", "w", 1000));
  ExpectCounted("ns");
}

TEST_F(EngineNamespacesTest, AVariableMayNotGrowBeyondThem) {
  Limit({.bytes = 100000});
  ASSERT_OK(New("ns", "v", 10));
  ASSERT_OK(New("ns", "w", 10));
  const uint64_t store = RegisterStore("store");
  ExpectCounted("ns");
  ExpectRefused(Run(store, Owned(Zeros(30000))).status, "bytes: wanted=120000");
  EXPECT_EQ(engine_->GetResource("ns", {0, "v"})->version, 1u);
  // A write of several writes none, and what was counted for it is given back.
  const AssignResult both = Assign({{{0, "v"}, Zeros(10000)}, {{0, "w"}, Zeros(20000)}});
  ExpectRefused(both.status, "bytes: wanted=80000");
  EXPECT_EQ(both.details.effects, Effects::kNone);
  EXPECT_EQ(FieldOf(both.status), "assignments[1].value");
  EXPECT_EQ(engine_->GetResource("ns", {0, "v"})->version, 1u);
  ExpectCounted("ns");
  ASSERT_OK(Run(store, Owned(Zeros(20000))).status);
  ExpectRefused(Assign({{{0, "w"}, Zeros(10000)}}).status, "bytes: wanted=40000");
  ASSERT_OK(Run(store, Owned(Zeros(1))).status);
  ASSERT_OK(Assign({{{0, "w"}, Zeros(10000)}}).status);
  ExpectCounted("ns");
}

TEST_F(EngineNamespacesTest, AnAtomicCallThatIsRefusedGivesBackWhatItHadGrown) {
  Limit({.bytes = 100000});
  ASSERT_OK(New("ns", "v", 10));
  ASSERT_OK(New("ns", "w", 10));
  ASSERT_OK_AND_ASSIGN(
      const Registered both,
      Register("both",
               "v = Placeholder dtype=resource\nw = Placeholder dtype=resource\n"
               "x = Placeholder dtype=float\nz = Placeholder dtype=float\n"
               "a = AssignVariableOp(v, x) dtype=float\n"
               "b = AssignVariableOp(w, z, ^a) dtype=float",
               {Spec("x:0"), Spec("z:0")}, {}, {{"v:0", "v"}, {"w:0", "w"}}, {"a", "b"}));
  CallSpec spec;
  spec.name_space = "ns";
  spec.function.id = both.function.id;
  spec.atomic = true;
  for (const int64_t elements : {10000, 20000}) {
    spec.inputs.emplace_back().tensor = Zeros(elements);
  }
  const auto call = Begin(std::move(spec));
  ExpectRefused(call->Wait().status, "bytes: wanted=80000");
  EXPECT_EQ(call->result.details.effects, Effects::kNone);
  EXPECT_EQ(engine_->GetResource("ns", {0, "v"})->bytes, 40u);
  ExpectCounted("ns");
}

TEST_F(EngineNamespacesTest, ATableMayNotGrowBeyondThem) {
  Limit({.bytes = 50000});
  ASSERT_OK_AND_ASSIGN(
      const Registered insert,
      Register("insert", kTable, {Spec("k:0", DType::kInt64), Spec("x:0")}, {}, {}, {"i"}));
  CallResult result;
  int64_t key = 0;
  for (; key < 10000; ++key) {
    result = Run(insert.function.id, Owned(Tensor::Scalar(key), Tensor::Scalar(1.0f)));
    if (!result.status.ok()) break;
  }
  ExpectRefused(result.status, "limit=50000");
  EXPECT_GT(key, 10);
  EXPECT_EQ(engine_->ListResources("ns")[0].version, static_cast<uint64_t>(key));
  ExpectCounted("ns");
}

// ---------------------------------------------------------------------------- after a restart

class StoredNamespacesTest : public EngineNamespacesTest {
 protected:
  void SetUp() override { Restart({}); }
  void TearDown() override { engine_.reset(); }
  // As after a crash: nothing is told that it is to end.
  void Restart(const NamespaceLimits& limits) {
    engine_.reset();
    EngineOptions options;
    options.data_dir = directory_.path();
    options.durability = Durability::kSync;
    options.namespace_limits = limits;
    Start(options);
  }
  void AwaitDisk() {
    absl::Notification durable;
    engine_->WhenDurable([&](const absl::Status& status) {
      EXPECT_OK(status);
      durable.Notify();
    });
    durable.WaitForNotification();
  }
  TempFolder directory_;
};

TEST_F(StoredNamespacesTest, WhatIsClearedIsGoneAfterACrash) {
  ASSERT_OK(New("other", "v", 10));
  NewVariable("v", 1);
  ASSERT_OK(RegisterAdd("add", 1));
  AwaitDisk();
  const NamespaceHoldings before = Of("ns");
  Restart({});
  // It is counted as it was.
  EXPECT_EQ(Of("ns").of(Held::kVariable).bytes, before.of(Held::kVariable).bytes);
  EXPECT_EQ(Count(Held::kFunction), 1);
  ExpectCounted("ns");
  engine_->Clear("ns");
  AwaitDisk();
  Restart({});
  ASSERT_EQ(engine_->ListNamespaces().size(), 1u);
  ExpectCounted("other");
  EXPECT_EQ(Of("other").of(Held::kVariable).count, 1);
}

TEST_F(StoredNamespacesTest, WhatWasThereIsThereUnderLowerLimitsToo) {
  ASSERT_OK(New("ns", "v", 1000));
  AwaitDisk();
  Restart({.bytes = 1000});
  EXPECT_OK(Read({{0, "v"}}).status);
  ExpectCounted("ns");
  // It may be written as it is, and shrink; nothing more may come.
  EXPECT_OK(Assign({{{0, "v"}, Zeros(1000)}}).status);
  ExpectRefused(New("ns", "w", 1).status(), "bytes: wanted=4 used=4000 limit=1000");
  ExpectRefused(Assign({{{0, "v"}, Zeros(1001)}}).status, "bytes");
  EXPECT_OK(Assign({{{0, "v"}, Zeros(1)}}).status);
  EXPECT_OK(New("ns", "w", 1));
}

TEST_F(StoredNamespacesTest, AListSaysWhatTheLastSnapshotHas) {
  NewVariable("v", 1);
  EXPECT_EQ(engine_->ListResources("ns")[0].snapshot_version, 0u);
  absl::Notification taken;
  engine_->TakeSnapshot([&](const absl::StatusOr<SnapshotInfo>& snapshot) {
    EXPECT_OK(snapshot);
    taken.Notify();
  });
  taken.WaitForNotification();
  EXPECT_EQ(engine_->ListResources("ns")[0].snapshot_version, 1u);
  ASSERT_OK(Assign({{{0, "v"}, Tensor::Scalar(2.0f)}}).status);
  EXPECT_EQ(engine_->ListResources("ns")[0].snapshot_version, 1u);
  EXPECT_EQ(engine_->GetResource("ns", {0, "v"})->version, 2u);
  AwaitDisk();
  Restart({});
  EXPECT_EQ(engine_->GetResource("ns", {0, "v"})->snapshot_version, 1u);
}

}  // namespace
}  // namespace formwork::testing
