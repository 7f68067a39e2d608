// What outlives a call: variables and kept tensors, their IDs and their ends.

#include <set>
#include <thread>

#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EngineStateTest : public EngineTest {
 protected:
  // y = v + 1, with v captured.
  absl::StatusOr<Registered> RegisterRead(const std::string& name, const std::string& variable) {
    return Register(name,
                    "v = Placeholder dtype=resource\none = Const float[] 1\n"
                    "r = ReadVariableOp(v) dtype=float\ny = AddV2(r, one) T=float",
                    {}, {"y:0"}, {{"v:0", variable}});
  }
  // The same with v named by the graph.
  absl::StatusOr<Registered> RegisterNamed(const std::string& name, const std::string& variable) {
    return Register(
        name,
        absl::StrCat("v = VarHandleOp dtype=float shape=shape:[] shared_name=\"", variable,
                     "\"\none = Const float[] 1\n"
                     "r = ReadVariableOp(v) dtype=float\ny = AddV2(r, one) T=float"),
        {}, {"y:0"});
  }
  uint64_t Keep(uint64_t function, float x, absl::Duration ttl = absl::ZeroDuration()) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = function;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(x);
    spec.keep_outputs = true;
    spec.owner = "somebody";
    spec.kept_ttl = ttl;
    auto call = Begin(std::move(spec));
    EXPECT_OK(call->Wait().status);
    return call->result.status.ok() ? call->result.outputs[0].kept_id : 0;
  }
};

// --------------------------------------------------------------------------------- IDs and epochs

TEST_F(EngineStateTest, TwoLivesOfAServerShareNoId) {
  std::set<uint64_t> ids;
  std::set<uint64_t> epochs;
  for (int life = 0; life < 8; ++life) {
    Start({});
    EXPECT_TRUE(epochs.insert(engine_->epoch()).second);
    NewVariable("v", 1);
    ASSERT_OK_AND_ASSIGN(Registered read, RegisterRead("read", "v"));
    ASSERT_OK_AND_ASSIGN(Registered named, RegisterNamed("named", "w"));
    ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("add", 1));
    std::set<uint64_t> now = {IdOf("v"), IdOf("w"), Keep(add.function.id, 1)};
    now.insert({read.function.id, named.function.id, add.function.id});
    for (uint64_t id : now) {
      EXPECT_NE(id, 0u);
      EXPECT_LT(id, uint64_t{1} << 53);
      EXPECT_TRUE(ids.insert(id).second) << "life " << life << " id " << id;
    }
  }
}

TEST_F(EngineStateTest, AnotherEpochIsRefused) {
  ErrorDetails details;
  EXPECT_OK(engine_->CheckEpoch("", 0, &details));
  EXPECT_OK(engine_->CheckEpoch("", engine_->epoch(), &details));
  EXPECT_THAT(engine_->CheckEpoch("", engine_->epoch() + 2, &details),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("restarted")));
  EXPECT_EQ(details.effects, Effects::kNone);
  EXPECT_FALSE(engine_->CheckEpoch("", 7, nullptr).ok());
}

TEST_F(EngineStateTest, TheEmptyNamespaceIsDefault) {
  ASSERT_OK(engine_->CreateVariable("", "v", DType::kFloat, Shape({}), Tensor::Scalar(1.0f)));
  EXPECT_EQ(engine_->ListResources("default").size(), 1u);
  EXPECT_OK(engine_->GetResource("default", {0, "v"}));
  EXPECT_OK(engine_->DeleteResource("", {0, "v"}));
  EXPECT_THAT(engine_->ListResources("default"), IsEmpty());
}

TEST_F(EngineStateTest, ANamespaceReachesNothingOfAnothers) {
  ASSERT_OK(engine_->CreateVariable("theirs", "v", DType::kFloat, Shape({}), Tensor::Scalar(1.0f)));
  const uint64_t id = engine_->ListResources("theirs")[0].id;
  EXPECT_THAT(Read({{id, ""}}).status, StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(Assign({{{id, ""}, Tensor::Scalar(2.0f)}}).status, StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(engine_->GetResource("ns", {id, ""}), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(engine_->DeleteResource("ns", {id, ""}), StatusIs(StatusCode::kNotFound));
  Registration captures;
  captures.name_space = "ns";
  captures.name = "captures";
  captures.graph_def = ParseGraph(
                           "v = Placeholder dtype=resource\n"
                           "y = ReadVariableOp(v) dtype=float")
                           ->SerializeAsString();
  captures.outputs = {"y:0"};
  captures.captures = {{"v:0", {Argument::Kind::kResource, Tensor(), id}}};
  EXPECT_THAT(Register(std::move(captures)), StatusIs(StatusCode::kNotFound));
  // A graph that takes handles is given none of them, and one that names a variable has its own.
  ASSERT_OK_AND_ASSIGN(
      const Registered takes,
      Register("takes", "v = Placeholder dtype=resource\ny = ReadVariableOp(v) dtype=float",
               {Spec("v:0", DType::kResource)}, {"y:0"}));
  CallSpec spec;
  spec.name_space = "ns";
  spec.function.id = takes.function.id;
  spec.inputs.push_back({Argument::Kind::kResource, Tensor(), id});
  EXPECT_THAT(Begin(std::move(spec))->Wait().status, StatusIs(StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const Registered names,
                       Register("names",
                                "v = VarHandleOp dtype=float shape=shape:[] shared_name=\"v\"\n"
                                "x = Placeholder dtype=float\n"
                                "a = AssignVariableOp(v, x) dtype=float",
                                {Spec("x:0")}, {}, {}, {"a"}));
  ASSERT_OK(Run(names.function.id, Owned(Tensor::Scalar(7.0f))).status);
  EXPECT_EQ(ValueOf("v"), 7);
  EXPECT_EQ(engine_->GetResource("theirs", {id, ""})->version, 1u);
}

TEST_F(EngineStateTest, AnonymousVariablesLiveInTheCall) {
  constexpr absl::string_view kAnonymous =
      " = VarHandleOp dtype=float shape=shape:[] "
      "shared_name=\"cd2c89b7-88b7-44c8-ad83-06c2a9158347\"\n";
  ASSERT_OK_AND_ASSIGN(
      Registered both,
      Register("both",
               absl::StrCat("x = Placeholder dtype=float\nc = Const float[] 2\n", "a", kAnonymous,
                            "b", kAnonymous, "s = AssignVariableOp(a, x) dtype=float\n",
                            "t = AssignVariableOp(b, c, ^s) dtype=float\n",
                            "y = ReadVariableOp(a, ^t) dtype=float\n",
                            "z = ReadVariableOp(b, ^t) dtype=float\n", "d = Sub(y, z) T=float"),
               {Spec("x:0")}, {"d:0"}));
  EXPECT_EQ(Value(both.function.id, 5), 3);
  EXPECT_THAT(engine_->ListResources("ns"), IsEmpty());
}

TEST_F(EngineStateTest, AStaticTableIsInitializedOnceAndThenOnlyRead) {
  constexpr absl::string_view kTable =
      "t = HashTableV2 shared_name=\"t\" key_dtype=int64 value_dtype=float\n"
      "x = Placeholder dtype=float\nd = Const float[] -1\n";
  const auto change = [&](const std::string& name, const std::string& keys,
                          const std::string& values, const std::string& op) {
    absl::StatusOr<Registered> made = Register(
        name, absl::StrCat(kTable, "k = Const int64", keys, "\nv = Const float", values, "\n", op),
        {Spec("x:0")}, {}, {}, {"i"});
    EXPECT_OK(made);
    return made.ok() ? Run(made->function.id, Owned(Tensor::Scalar(0.0f))).status : made.status();
  };
  const std::string initialize = "i = InitializeTableV2(t, k, v) Tkey=int64 Tval=float";
  ASSERT_OK_AND_ASSIGN(Registered find,
                       Register("find",
                                absl::StrCat(kTable,
                                             "k = Const int64[] 5\n"
                                             "y = LookupTableFindV2(t, k, d) Tin=int64 Tout=float\n"
                                             "z = AddV2(y, x) T=float"),
                                {Spec("x:0")}, {"z:0"}));
  EXPECT_THAT(Run(find.function.id, Owned(Tensor::Scalar(0.0f))).status,
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("Table not initialized")));
  EXPECT_THAT(change("twice", "[2] 5 5", "[2] 1 2", initialize),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("for same key. Key 5 has 1")));
  EXPECT_THAT(change("empty", "[0]", "[0]", initialize),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("cannot be empty")));
  EXPECT_THAT(change("rank", "[1,1] 5", "[1,1] 1", initialize),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("Keys must be a vector")));
  EXPECT_OK(change("init", "[2] 5 5", "[2] 3 3", initialize));
  EXPECT_EQ(Value(find.function.id, 0), 3);
  EXPECT_OK(change("again", "[1] 6", "[1] 1", initialize));  // As many: it stays as it is.
  EXPECT_EQ(Value(find.function.id, 0), 3);
  EXPECT_THAT(change("more", "[2] 5 6", "[2] 3 3", initialize),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("already initialized")));
  EXPECT_THAT(
      change("insert", "[1] 6", "[1] 1", "i = LookupTableInsertV2(t, k, v) Tin=int64 Tout=float"),
      StatusIs(StatusCode::kUnimplemented, HasSubstr("Insert not supported")));
  EXPECT_THAT(change("remove", "[1] 6", "[1] 1", "i = LookupTableRemoveV2(t, k) Tin=int64"),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("Remove not supported")));
}

TEST_F(EngineStateTest, AGraphMakesAndUsesATable) {
  constexpr absl::string_view kTable =
      "t = MutableHashTableV2 shared_name=\"t\" key_dtype=int64 value_dtype=float\n"
      "x = Placeholder dtype=float\nk = Const int64[] 5\nd = Const float[] -1\n";
  ASSERT_OK_AND_ASSIGN(
      Registered insert,
      Register("insert",
               absl::StrCat(kTable, "i = LookupTableInsertV2(t, k, x) Tin=int64 Tout=float"),
               {Spec("x:0")}, {}, {}, {"i"}));
  ASSERT_OK_AND_ASSIGN(Registered find,
                       Register("find",
                                absl::StrCat(kTable,
                                             "y = LookupTableFindV2(t, k, d) Tin=int64 Tout=float\n"
                                             "z = AddV2(y, x) T=float"),
                                {Spec("x:0")}, {"z:0"}));
  EXPECT_EQ(Value(find.function.id, 0), -1);
  ASSERT_OK(Run(insert.function.id, Owned(Tensor::Scalar(3.0f))).status);
  EXPECT_EQ(Value(find.function.id, 1), 4);
  const std::vector<ResourceInfo> listed = engine_->ListResources("ns");
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].type.ToString(), "table int64[] -> float32[]");
  EXPECT_EQ(listed[0].version, 1u);
  EXPECT_EQ(listed[0].last_writer, "insert");
  // What is for variables alone says so.
  EXPECT_THAT(Read({{0, "t"}}).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("table 't' is not a variable")));
  EXPECT_THAT(Assign({{{0, "t"}, Tensor::Scalar(1.0f)}}).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("table 't' is not a variable")));
  EXPECT_THAT(engine_->CreateVariable("ns", "t", DType::kFloat, Shape({}), std::nullopt),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("table int64[] -> float32[]")));
  EXPECT_THAT(RegisterNamed("other", "t"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("table 't'")));
  ASSERT_OK(engine_->DeleteResource("ns", {0, "t"}));
  EXPECT_THAT(Run(find.function.id, Owned(Tensor::Scalar(1.0f))).status,
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("t of function")));
}

TEST_F(EngineStateTest, AListSaysWhoWroteLast) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(Registered add,
                       Register("add",
                                "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                                "a = AssignAddVariableOp(v, x) dtype=float",
                                {Spec("x:0")}, {}, {{"v:0", "v"}}, {"a"}));
  EXPECT_EQ(engine_->ListResources("ns")[0].last_writer, "");
  ASSERT_OK(Run(add.function.id, Owned(Tensor::Scalar(1.0f))).status);
  EXPECT_EQ(engine_->ListResources("ns")[0].last_writer, "add");
  ASSERT_OK(Assign({{{0, "v"}, Tensor::Scalar(1.0f)}}).status);
  EXPECT_EQ(engine_->GetResource("ns", {0, "v"})->last_writer, "");
}

// ----------------------------------------------------------------------------- many at once

TEST_F(EngineStateTest, ManyAreReadAndWrittenAtOnce) {
  NewVariable("a", 1);
  NewVariable("b", 2);
  const ReadResult both = Read({{0, "b"}, {IdOf("a"), ""}, {0, "b"}});
  ASSERT_OK(both.status);
  ASSERT_EQ(both.values.size(), 3u);
  EXPECT_EQ(both.values[0].value.scalar<float>(), 2);
  EXPECT_EQ(both.values[1].variable.name, "a");
  EXPECT_EQ(both.values[2].variable.name, "b");
  const AssignResult written =
      Assign({{{0, "b"}, Tensor::Scalar(4.0f)}, {{IdOf("a"), ""}, Tensor::Scalar(3.0f)}});
  ASSERT_OK(written.status);
  EXPECT_EQ(written.variables[0].version, 2u);
  EXPECT_EQ(ValueOf("a"), 3);
  EXPECT_EQ(ValueOf("b"), 4);
}

TEST_F(EngineStateTest, AFailedAssignWritesNothing) {
  NewVariable("a", 1);
  NewVariable("b", 2);
  AssignResult failed =
      Assign({{{0, "a"}, Tensor::Scalar(5.0f)}, {{0, "b"}, Tensor::Scalar(int64_t{5})}});
  EXPECT_THAT(failed.status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("'b'")));
  EXPECT_EQ(failed.details.effects, Effects::kNone);
  failed = Assign({{{0, "a"}, Tensor::Scalar(5.0f)}, {{0, "c"}, Tensor::Scalar(5.0f)}});
  EXPECT_THAT(failed.status, StatusIs(StatusCode::kNotFound, HasSubstr("'c'")));
  failed = Assign({{{0, "a"}, Tensor::Scalar(5.0f)}, {{IdOf("a"), ""}, Tensor::Scalar(6.0f)}});
  EXPECT_THAT(failed.status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_EQ(ValueOf("a"), 1);
  EXPECT_EQ(ValueOf("b"), 2);
  EXPECT_THAT(Read({{0, "a"}, {0, "c"}}).status, StatusIs(StatusCode::kNotFound));
}

// Writers keep two variables equal: no reader sees them apart.
TEST_F(EngineStateTest, SnapshotsOfManyAreConsistent) {
  NewVariable("a", 0);
  NewVariable("b", 0);
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        if (t % 2 == 0) {
          const float value = static_cast<float>(t * 1000 + i);
          std::vector<std::pair<Target, Tensor>> values = {{{0, "a"}, Tensor::Scalar(value)},
                                                           {{0, "b"}, Tensor::Scalar(value)}};
          if (i % 2 == 0) std::swap(values[0], values[1]);
          torn += !Assign(std::move(values)).status.ok();
        } else {
          const ReadResult both = Read({{0, "b"}, {0, "a"}});
          torn += !both.status.ok() ||
                  both.values[0].value.scalar<float>() != both.values[1].value.scalar<float>();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
}

// --------------------------------------------------------------------------------------- deletion

TEST_F(EngineStateTest, AFunctionOfADeletedVariableFailsAndSaysSo) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(Registered read, RegisterRead("f", "v"));
  EXPECT_THAT(read.function.deleted_variables, IsEmpty());
  ASSERT_OK(engine_->DeleteResource("ns", {0, "v"}));
  NewVariable("v", 7);
  const CallResult result = Run(read.function.id, {});
  EXPECT_THAT(result.status, StatusIs(StatusCode::kFailedPrecondition, HasSubstr("variable v")));
  EXPECT_EQ(result.details.effects, Effects::kNone);
  EXPECT_THAT(engine_->ListFunctions("ns")[0].deleted_variables, ElementsAre("v"));
  EXPECT_THAT(engine_->ListFunctions("ns")[0].captured_variables, ElementsAre("v"));
  // Registered anew, with the new variable, it takes the old one's place.
  ASSERT_OK_AND_ASSIGN(Registered again, RegisterRead("f", "v"));
  EXPECT_FALSE(again.existed);
  EXPECT_EQ(Run(again.function.id, {}).outputs[0].tensor.scalar<float>(), 8);
  EXPECT_EQ(engine_->ListFunctions("ns").size(), 1u);
}

TEST_F(EngineStateTest, AFunctionThatNamesADeletedVariableIsMadeAnew) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(Registered named, RegisterNamed("f", "v"));
  EXPECT_EQ(Run(named.function.id, {}).outputs[0].tensor.scalar<float>(), 2);
  ASSERT_OK(engine_->DeleteResource("ns", {0, "v"}));
  EXPECT_THAT(Run(named.function.id, {}).status, StatusIs(StatusCode::kFailedPrecondition));
  NewVariable("v", 7);
  ASSERT_OK_AND_ASSIGN(Registered again, RegisterNamed("f", "v"));
  EXPECT_FALSE(again.existed);
  EXPECT_EQ(Run(again.function.id, {}).outputs[0].tensor.scalar<float>(), 8);
}

TEST_F(EngineStateTest, ADeletedVariablesValueIsFreedThoughAFunctionCapturedIt) {
  constexpr int64_t kElements = 1 << 20;
  ASSERT_OK_AND_ASSIGN(Tensor value,
                       Tensor::Allocate(engine_->allocator(), DType::kFloat, Shape({kElements})));
  std::fill_n(value.mutable_data<float>(), kElements, 1.0f);
  ASSERT_OK(
      engine_->CreateVariable("ns", "v", DType::kFloat, Shape({kElements}), std::move(value)));
  ASSERT_OK(Register("f", "v = Placeholder dtype=resource\ny = ReadVariableOp(v) dtype=float", {},
                     {"y:0"}, {{"v:0", "v"}}));
  EXPECT_GE(engine_->Stats().tensor_bytes, kElements * sizeof(float));
  ASSERT_OK(engine_->DeleteResource("ns", {0, "v"}));
  EXPECT_LT(engine_->Stats().tensor_bytes, kElements * sizeof(float));
}

TEST_F(EngineStateTest, CallsThatWereAdmittedGoOnWithADeletedVariable) {
  NewVariable("v", 1);
  const uint64_t holder = RegisterHolder("f");
  auto first = Begin(holder, Owned(Tensor::Scalar(0.0f)));
  auto second = Begin(holder, Owned(Tensor::Scalar(-7.0f)));
  ASSERT_OK(engine_->DeleteResource("ns", {0, "v"}));
  EXPECT_THAT(Run(holder, Owned(Tensor::Scalar(-7.0f))).status,
              StatusIs(StatusCode::kFailedPrecondition));
  first->handle->Cancel();
  EXPECT_THAT(first->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_OK(second->Wait().status);
}

TEST_F(EngineStateTest, DeletesMayAllowWhatIsMissing) {
  EXPECT_THAT(engine_->DeleteResource("ns", {0, "v"}), StatusIs(StatusCode::kNotFound));
  EXPECT_OK(engine_->DeleteResource("ns", {0, "v"}, /*allow_missing=*/true));
  EXPECT_THAT(engine_->Unregister("ns", {0, "f"}), StatusIs(StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const int64_t removed, engine_->Unregister("ns", {7, ""}, true));
  EXPECT_EQ(removed, 0);
}

// A call by name looks at the shapes of variables that another thread deletes meanwhile.
TEST_F(EngineStateTest, VariablesMayBeDeletedWhileACallLooksForItsFunction) {
  ASSERT_OK(Register("f", "v = Placeholder dtype=resource\nr = ReadVariableOp(v) dtype=float",
                     {Spec("v:0", DType::kResource)}, {"r:0"}));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> id{0};
  std::thread deletes([&] {
    for (int i = 0; i < 300; ++i) {
      auto made = engine_->CreateVariable("ns", "v", DType::kFloat, Shape({}),
                                          Tensor::Scalar(static_cast<float>(i)));
      if (made.ok()) id = made->variable.id;
      std::this_thread::yield();
      engine_->DeleteResource("ns", {0, "v"}).IgnoreError();
    }
    stop = true;
  });
  while (!stop) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.name = "f";
    spec.inputs.resize(1);
    spec.inputs[0].kind = Argument::Kind::kResource;
    spec.inputs[0].id = id;
    const absl::Status status = Begin(std::move(spec))->Wait().status;
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  }
  deletes.join();
}

// ----------------------------------------------------------------------------------- registration

TEST_F(EngineStateTest, AFailedRegistrationLeavesNoVariables) {
  NewVariable("b", 1);
  // The second handle does not fit what is there.
  EXPECT_THAT(Register("f",
                       "a = VarHandleOp dtype=float shape=shape:[] shared_name=\"a\"\n"
                       "b = VarHandleOp dtype=float shape=shape:[3] shared_name=\"b\"\n"
                       "x = ReadVariableOp(a) dtype=float\ny = ReadVariableOp(b) dtype=float",
                       {}, {"x:0", "y:0"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("'b'")));
  EXPECT_EQ(engine_->ListResources("ns").size(), 1u);
  EngineOptions options;
  options.max_function_bytes = 16;
  Start(options);
  EXPECT_THAT(RegisterNamed("f", "v"), StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(engine_->ListResources("ns"), IsEmpty());
}

TEST_F(EngineStateTest, AFunctionThatHasToGoIsTold) {
  EngineOptions options;
  options.max_functions = 1;
  std::vector<uint64_t> gone;
  options.on_eviction = [&](const Eviction& eviction) {
    EXPECT_EQ(eviction.kind, Eviction::Kind::kFunction);
    EXPECT_EQ(eviction.name, "first");
    EXPECT_GT(eviction.bytes, 0u);
    gone.push_back(eviction.id);
  };
  Start(options);
  ASSERT_OK_AND_ASSIGN(const Registered first, RegisterAdd("first", 1));
  EXPECT_THAT(gone, IsEmpty());
  ASSERT_OK(RegisterAdd("second", 2));
  EXPECT_THAT(gone, ElementsAre(first.function.id));
}

// ----------------------------------------------------------------------------------- kept tensors

TEST_F(EngineStateTest, KeptTensorsAreListed) {
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("f", 1));
  const absl::Time before = absl::Now();
  const uint64_t forever = Keep(add.function.id, 1);
  const uint64_t while_used = Keep(add.function.id, 2, absl::Hours(1));
  const std::vector<KeptTensorInfo> kept = engine_->ListTensors("ns");
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].id, forever);
  EXPECT_EQ(kept[0].dtype, DType::kFloat);
  EXPECT_EQ(kept[0].owner, "somebody");
  EXPECT_EQ(kept[0].function_name, "f");
  EXPECT_GE(kept[0].bytes, 4u);  // A scalar's elements are inside, and counted.
  EXPECT_GE(kept[0].created, before);
  EXPECT_EQ(kept[0].expires, absl::InfiniteFuture());
  EXPECT_EQ(kept[1].id, while_used);
  EXPECT_GT(kept[1].expires, absl::Now() + absl::Minutes(59));
  EXPECT_EQ(engine_->Stats().kept_bytes, kept[0].bytes + kept[1].bytes);
  EXPECT_THAT(engine_->ListTensors("other"), IsEmpty());
  engine_->Clear("ns");
  EXPECT_EQ(engine_->Stats().kept_bytes, 0u);
}

TEST_F(EngineStateTest, AKeptTensorThatNobodyUsesGoes) {
  EngineOptions options;
  options.kept_tensor_ttl = absl::Milliseconds(50);
  absl::Notification gone;
  uint64_t gone_id = 0;
  options.on_eviction = [&](const Eviction& eviction) {
    EXPECT_EQ(eviction.kind, Eviction::Kind::kKeptTensor);
    EXPECT_EQ(eviction.name_space, "ns");
    EXPECT_EQ(eviction.name, "somebody");
    gone_id = eviction.id;
    gone.Notify();
  };
  Start(options);
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("f", 1));
  const uint64_t kept = Keep(add.function.id, 1);
  const uint64_t longer = Keep(add.function.id, 1, absl::Hours(1));
  const absl::Time begin = absl::Now();
  while (engine_->Stats().kept_tensors == 2 && absl::Now() < begin + absl::Seconds(20)) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(engine_->Stats().kept_tensors, 1);
  EXPECT_EQ(engine_->Stats().kept_evictions, 1u);
  ASSERT_TRUE(gone.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_EQ(gone_id, kept);
  EXPECT_THAT(engine_->ReadTensor("ns", kept), StatusIs(StatusCode::kNotFound));
  EXPECT_OK(engine_->ReadTensor("ns", longer));
}

TEST_F(EngineStateTest, KeptTensorsOfANamespaceHaveAQuota) {
  EngineOptions options;
  options.max_kept_bytes = 1000;
  Start(options);
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("f", 1));
  CallResult refused;
  int kept = 0;
  for (; kept < 100; ++kept) {
    refused = std::move(Begin(add.function.id, Owned(Tensor::Scalar(1.0f)), /*keep=*/true)->Wait());
    if (!refused.status.ok()) break;
  }
  EXPECT_THAT(refused.status, StatusIs(StatusCode::kResourceExhausted, HasSubstr("limit=1000")));
  EXPECT_TRUE(refused.outputs.empty());
  EXPECT_GT(kept, 1);
  EXPECT_LT(kept, 20);
  EXPECT_EQ(engine_->Stats().kept_tensors, kept);
  EXPECT_EQ(engine_->ReleaseTensors("ns", {engine_->ListTensors("ns")[0].id}), 1);
  EXPECT_OK(Begin(add.function.id, Owned(Tensor::Scalar(1.0f)), /*keep=*/true)->Wait().status);
}

// ------------------------------------------------------------------------------------------- info

TEST_F(EngineStateTest, InfoSaysWhatTookEffect) {
  EngineOptions options;
  options.max_queued_calls = 77;
  Start(options);
  const EngineInfo info = engine_->Info();
  EXPECT_EQ(info.epoch, engine_->epoch());
  EXPECT_EQ(info.options.max_queued_calls, 77);
  EXPECT_GT(info.options.call_threads, 0);
  EXPECT_GT(info.options.compute_threads, 0);
  EXPECT_TRUE(std::binary_search(info.ops.begin(), info.ops.end(), "MatMul"));
  EXPECT_FALSE(info.instruction_set.empty());
}

}  // namespace
}  // namespace formwork::testing
