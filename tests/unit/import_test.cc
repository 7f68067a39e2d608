// From a GraphDef to a Graph: what is refused and how it is told, the cut, the order of effects.

#include "core/graph/import.h"

#include "absl/strings/str_format.h"

#include "tests/support/graph_world.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class ImportTest : public ::testing::Test {
 protected:
  // The list of nodes that a graph becomes.
  std::string Imported(absl::string_view text, std::vector<std::pair<std::string, DType>> feeds,
                       std::vector<std::string> fetches, std::vector<std::string> targets = {}) {
    absl::StatusOr<ImportedGraph> imported =
        world_.Import(text, std::move(feeds), std::move(fetches), std::move(targets));
    return imported.ok() ? ToText(*imported->graph) : imported.status().ToString();
  }
  // Why a graph over x is refused; y is fetched.
  absl::Status Refused(absl::string_view text) {
    return world_
        .Import(absl::StrCat("x = Placeholder dtype=float\n", text), {{"x:0", DType::kFloat}},
                {"y:0"})
        .status();
  }
  GraphWorld world_;
};

// ------------------------------------------------------------------------------------------- cut

TEST_F(ImportTest, TheCutAloneIsLookedAt) {
  EXPECT_EQ(Imported(R"(
    x = Placeholder dtype=float
    bad = NoSuchOp(x) what=3
    worse = AddV2(x)
    c = Const float[] 2
    y = Mul(x, c) T=float
    z = Neg(y) T=float
  )",
                     {{"x:0", DType::kFloat}}, {"y:0"}),
            "x:0 = Arg float32\n"
            "c = Const float32[] 2\n"
            "y = Mul(x:0, c)\n"
            "-> y\n");
}

TEST_F(ImportTest, AnyTensorCanBeFedAndWhatIsBehindItIsCutOff) {
  EXPECT_EQ(Imported(R"(
    x = Placeholder dtype=float
    bad = NoSuchOp(x)
    s = Split(axis, bad) T=float num_split=2
    y = Sub(s:1, s:0) T=float
  )",
                     {{"s:0", DType::kFloat}, {"s:1", DType::kFloat}}, {"y:0", "s:1"}),
            "s:0 = Arg float32\n"
            "s:1 = Arg float32\n"
            "y = Sub(s:1, s:0)\n"
            "-> y, s:1\n");
}

TEST_F(ImportTest, AnAttrOfNoOpsSaysNothingWithoutAValue) {
  ASSERT_OK_AND_ASSIGN(tf::GraphDef graph,
                       ParseGraph("x = Placeholder dtype=float\ny = Neg(x) T=float"));
  (*graph.mutable_node(1)->mutable_attr())["seed"];
  const auto import = [&] {
    return ImportGraph(graph, {{{"x:0", DType::kFloat}}, {"y:0"}, {}}, world_.ops, world_.allocator,
                       &world_.culprits)
        .status();
  };
  EXPECT_OK(import());
  (*graph.mutable_node(1)->mutable_attr())["seed"].set_i(1);
  EXPECT_THAT(import(), StatusIs(StatusCode::kInvalidArgument,
                                 HasSubstr("attr 'seed' is not one of the op's")));
}

TEST_F(ImportTest, FeedsThatAreNotThereOrDoNotFitAreRefused) {
  const char* text = "x = Placeholder dtype=float\ny = Neg(x) T=float";
  auto import = [&](std::vector<std::pair<std::string, DType>> feeds) {
    return world_.Import(text, std::move(feeds), {"y:0"}).status();
  };
  EXPECT_OK(import({{"x", DType::kFloat}}));
  EXPECT_THAT(import({{"z:0", DType::kFloat}, {"x:0", DType::kFloat}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("'z:0' is not in the graph")));
  EXPECT_THAT(import({{"x:0", DType::kInt32}}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'x'"), HasSubstr("expected=float32 given=int32"))));
  EXPECT_THAT(import({{"x:1", DType::kFloat}, {"x:0", DType::kFloat}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("'x:1'")));
  EXPECT_THAT(import({{"x:0", DType::kFloat}, {"x", DType::kFloat}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("fed twice")));
  EXPECT_THAT(import({}), StatusIs(StatusCode::kInvalidArgument,
                                   HasSubstr("'x': Placeholder: it is neither an input")));
}

TEST_F(ImportTest, APlaceholderThatOnlyCarriesAnOrderNeedsNoValue) {
  EXPECT_EQ(Imported("p = Placeholder dtype=float\ny = Const float[] 1\nz = Neg(y, ^p) T=float", {},
                     {"z:0"}),
            "p = Placeholder\ny = Const float32[] 1\nz = Neg(y)\n-> z\n");
}

// ------------------------------------------------------------------------------------- the order

TEST_F(ImportTest, EffectsThatNoEdgeOrdersAreInOrderOfTheirIndex) {
  EXPECT_EQ(Imported(R"(
    h = Placeholder dtype=resource
    one = Const float[] 1
    c = AssignAddVariableOp(h, one) dtype=float
    a = AssignVariableOp(h, one) dtype=float
    b = AssignSubVariableOp(h, one) dtype=float
  )",
                     {{"h:0", DType::kResource}}, {}, {"a", "b", "c"}),
            "h:0 = Arg resource\n"
            "one = Const float32[] 1\n"
            "c = AssignAddVariableOp(h:0, one)\n"
            "a = AssignVariableOp(h:0, one)\n"
            "b = AssignSubVariableOp(h:0, one)\n"
            "-> \n");
}

TEST_F(ImportTest, ControlEdgesBecomeTheOrderOfEffects) {
  EXPECT_EQ(Imported(R"(
    h = Placeholder dtype=resource
    one = Const float[] 1
    c = AssignAddVariableOp(h, one, ^b) dtype=float
    a = AssignVariableOp(h, one) dtype=float
    b = AssignSubVariableOp(h, one, ^a) dtype=float
  )",
                     {{"h:0", DType::kResource}}, {}, {"c"}),
            "h:0 = Arg resource\n"
            "one = Const float32[] 1\n"
            "a = AssignVariableOp(h:0, one)\n"
            "b = AssignSubVariableOp(h:0, one)\n"
            "c = AssignAddVariableOp(h:0, one)\n"
            "-> \n");
}

TEST_F(ImportTest, PureNodesPassAnOrderOn) {
  // b runs after a although only a Const, a NoOp and an Identity are in between.
  EXPECT_EQ(Imported(R"(
    h = Placeholder dtype=resource
    b = AssignAddVariableOp(h, i) dtype=float
    i = Identity(k) T=float
    k = Const float[] 1
    n = NoOp(^a)
    i2 = Identity(one, ^n) T=float
    one = Const float[] 1
    b2 = AssignSubVariableOp(h, i2) dtype=float
    a = AssignVariableOp(h, one) dtype=float
  )",
                     {{"h:0", DType::kResource}}, {}, {"b2"}),
            "h:0 = Arg resource\n"
            "one = Const float32[] 1\n"
            "a = AssignVariableOp(h:0, one)\n"
            "n = NoOp\n"
            "i2 = Identity(one)\n"
            "b2 = AssignSubVariableOp(h:0, i2)\n"
            "-> \n");
}

TEST_F(ImportTest, AFunctionRunsAllOfItsEffectsAndWhatItsControlOutputsName) {
  ASSERT_OK_AND_ASSIGN(ImportedGraph imported, world_.Import(R"(
    h = Placeholder dtype=resource
    y = StatefulPartitionedCall(h) f=@f Tin=[resource] Tout=[float]
    function f(v: resource) -> (r: float = c:output:0) runs(asked)
      c = Const float[] 1
      write = AssignVariableOp(v, c:output:0) dtype=float
      read = ReadVariableOp(v) dtype=float
      asked = Identity(c:output:0) T=float
      dropped = Neg(c:output:0) T=float
    end
  )",
                                                             {{"h:0", DType::kResource}}, {"y:0"}));
  EXPECT_EQ(ToText(*imported.library.at("f")),
            "v = Arg resource\n"
            "c = Const float32[] 1\n"
            "write = AssignVariableOp(v, c)\n"
            "asked = Identity(c)\n"
            "-> c\n");
}

TEST_F(ImportTest, AControlEdgeFromAParameterOrdersNothing) {
  EXPECT_EQ(Imported(R"(
    x = Placeholder dtype=float
    y = PartitionedCall(x, x) f=@inner Tin=[float, float] Tout=[float]
    function inner(a: float, b: float) -> (r: float = m:y:0)
      m = Neg(a, ^b) T=float
    end
  )",
                     {{"x:0", DType::kFloat}}, {"y:0"}),
            "x:0 = Arg float32\n"
            "y = PartitionedCall(x:0, x:0) f=@inner\n"
            "-> y\n");
}

TEST_F(ImportTest, OnlyFunctionsThatAreReachedAreLookedAt) {
  ASSERT_OK_AND_ASSIGN(ImportedGraph imported, world_.Import(R"(
    x = Placeholder dtype=float
    y = PartitionedCall(x) f=@f Tin=[float] Tout=[float]
    function f(a: float) -> (r: float = d:output:0)
      d = PartitionedCall(a) f=@g Tin=[float] Tout=[float]
    end
    function g(a: float) -> (r: float = a)
    end
    function bad(a: float) -> (r: float = nowhere)
      n = NoSuchOp(a)
    end
  )",
                                                             {{"x:0", DType::kFloat}}, {"y:0"}));
  EXPECT_THAT(imported.library, SizeIs(2));
  EXPECT_EQ(ToText(*imported.library.at("g")), "a = Arg float32\n-> a\n");
}

TEST_F(ImportTest, OfFunctionsThatDoTheSameTheDevicesIsTaken) {
  ASSERT_OK_AND_ASSIGN(tf::GraphDef graph_def, ParseGraph(R"(
    x = Placeholder dtype=float
    y = PartitionedCall(x) f=@f Tin=[float] Tout=[float]
    function f(a: float) -> (r: float = n:y:0)
      n = Neg(a) T=float
    end
    function on_cpu(a: float) -> (r: float = n:y:0)
      n = Abs(a) T=float
    end
    function on_gpu(a: float) -> (r: float = n:y:0)
      n = Exp(a) T=float
    end
    function of_gradient(a: float) -> (r: float = n:y:0)
      n = Sin(a) T=float
    end
  )"));
  const auto set = [&](int function, const std::string& attr, const std::string& value) {
    auto& attrs = *graph_def.mutable_library()->mutable_function(function)->mutable_attr();
    attrs[attr].set_s(value);
  };
  const auto taken = [&](const std::string& device_type) {
    const Cut cut = {{{"x:0", DType::kFloat}}, {"y:0"}, {}, {}, device_type};
    absl::StatusOr<ImportedGraph> imported =
        ImportGraph(graph_def, cut, world_.ops, world_.allocator, nullptr);
    return imported.ok() ? imported->library.at("f")->nodes[1].op->name
                         : imported.status().ToString();
  };
  EXPECT_EQ(taken("CPU"), "Neg");
  for (const int function : {0, 1, 2, 3}) set(function, "api_implements", "sign");
  EXPECT_EQ(taken("CPU"), "Neg");
  set(3, "api_preferred_device", "CPU");
  set(3, "forward_function_name", "f");
  EXPECT_EQ(taken("CPU"), "Neg");
  set(1, "api_preferred_device", "CPU");
  set(2, "api_preferred_device", "GPU");
  EXPECT_EQ(taken("CPU"), "Abs");
  EXPECT_EQ(taken("GPU"), "Exp");
  EXPECT_EQ(taken("TPU"), "Neg");
  // Another's parameters cannot be its.
  auto& on_cpu = *graph_def.mutable_library()->mutable_function(1)->mutable_signature();
  on_cpu.mutable_output_arg(0)->set_type(tf::DT_DOUBLE);
  EXPECT_EQ(taken("CPU"), "Neg");
}

TEST_F(ImportTest, AFunctionUsedAsAnOpIsACallOfIt) {
  EXPECT_EQ(Imported(R"(
    x = Placeholder dtype=float
    d = twice(x)
    y = Sub(d:second:0, d:first) T=float
    function twice(a: float) -> (first: float = m:z:0, second: float = a)
      m = AddV2(a, a) T=float
    end
  )",
                     {{"x:0", DType::kFloat}}, {"y:0"}),
            "x:0 = Arg float32\n"
            "d = StatefulPartitionedCall(x:0) f=@twice\n"
            "y = Sub(d:1, d)\n"
            "-> y\n");
}

// --------------------------------------------------------------------------------------- problems

TEST_F(ImportTest, AllProblemsAreTold) {
  EXPECT_THAT(Refused(R"(
    unknown = NoSuchOp(x)
    attr = Identity(unknown) T=float other=3
    arity = AddV2(attr) T=float
    type = Identity(arity) T=int32
    source = Identity(nowhere) T=float
    output = Neg(x:1) T=float
    missing = PartitionedCall(x) f=@nothing Tin=[float] Tout=[float]
    misfit = PartitionedCall(x, x) f=@inner Tin=[float,float] Tout=[float]
    two = Identity(one) T=float
    one = Identity(two) T=float
    y = AddN(type, source, missing, misfit, one, output) N=6 T=float
    function inner(a: float) -> (r: float = deep:y:0)
      deep = AlsoUnknown(a)
      kind = AssignVariableOp(a, a) dtype=float
    end
  )"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("NoSuchOp (node 'unknown')"),
                             HasSubstr("AlsoUnknown (function 'inner': node 'deep')"))));
  const auto told = [](absl::string_view a, absl::string_view b) {
    return Contains(AllOf(HasSubstr(std::string(a)), HasSubstr(std::string(b))));
  };
  const std::vector<std::string>& culprits = world_.culprits;
  EXPECT_THAT(culprits, told("NoSuchOp", "'unknown'"));
  EXPECT_THAT(culprits, told("node 'attr': Identity", "attr 'other'"));
  EXPECT_THAT(culprits, told("node 'arity': AddV2", "expected=2 given=1"));
  EXPECT_THAT(culprits, told("node 'type': Identity", "expected=int32 given=float32"));
  EXPECT_THAT(culprits, told("node 'source'", "'nowhere'"));
  EXPECT_THAT(culprits, told("node 'output'", "has no output 1"));
  EXPECT_THAT(culprits, told("node 'missing'", "'nothing' is not in the library"));
  EXPECT_THAT(culprits, told("node 'misfit'", "'inner' has a wrong number of parameters"));
  EXPECT_THAT(culprits, told("node 'two'", "cycle"));
  EXPECT_THAT(culprits, told("function 'inner': node 'kind'", "expected=resource given=float32"));
  // What cannot be known is not guessed at: of y's inputs, those of one node alone.
  EXPECT_THAT(culprits, told("node 'y': AddN: input 0", "expected=float32 given=int32"));
  EXPECT_THAT(culprits, Not(told("node 'y'", "input 1")));
}

TEST_F(ImportTest, TheTextNamesTheFirst20AndCountsTheRest) {
  std::string text;
  std::vector<std::string> fetches;
  for (int i = 10; i < 95; ++i) {
    absl::StrAppend(&text, "n", i, " = NoSuchOp\n");
    fetches.push_back(absl::StrCat("n", i));
  }
  EXPECT_THAT(world_.Import(text, {}, fetches),
              StatusIs(StatusCode::kUnimplemented,
                       AllOf(HasSubstr("'n10'"), HasSubstr("'n29'"), Not(HasSubstr("'n30'")),
                             HasSubstr("and 65 more"))));
  EXPECT_THAT(world_.culprits, SizeIs(85));
}

TEST_F(ImportTest, LongNamesAreShownByTheirBeginnings) {
  const std::string name(1 << 20, 'n');
  const absl::Status status = Refused(absl::StrCat("y = AddV2(", name, ", ", name, ") T=float"));
  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("'nnnnnnn")));
  EXPECT_LT(status.message().size(), 4096u);
  for (const std::string& culprit : world_.culprits) EXPECT_LT(culprit.size(), 1000u);
}

struct Mistake {
  const char* text;
  const char* told;
};

class MistakeTest : public ImportTest, public ::testing::WithParamInterface<Mistake> {};

TEST_P(MistakeTest, IsNamed) {
  EXPECT_THAT(Refused(GetParam().text),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(GetParam().told)));
}

INSTANTIATE_TEST_SUITE_P(
    Nodes, MistakeTest,
    ::testing::Values(
        Mistake{"y = Neg(x) T=float\ny = Neg(x) T=float", "node 'y': there are two nodes"},
        Mistake{"y = Neg(x)", "node 'y': Neg: attr 'T' is missing"},
        Mistake{"y = Neg(x) T=string", "attr 'T' does not allow dtype string"},
        Mistake{"y = Neg(x) T=3", "attr 'T' has a value of another kind"},
        Mistake{"y = Neg(x) T=[float]", "attr 'T' has a value of another kind"},
        Mistake{"y = Neg(x:0:0:0) T=float", "malformed tensor name 'x:0:0:0'"},
        Mistake{"y = Neg(x:out:z) T=float", "malformed tensor name"},
        Mistake{"y = Neg(x:none:0) T=float", "node 'y': 'x' has no output 'none'"},
        Mistake{"y = Neg(x, ^gone) T=float", "node 'y': 'gone' is not in the graph"},
        Mistake{"y = Neg(x, x) T=float", "node 'y': Neg: wrong number of inputs: expected=1"},
        Mistake{"y = AddN(x) T=float N=0", "attr 'N' is too small"},
        Mistake{"y = AddN(x) T=float N=2", "expected=2 given=1"},
        Mistake{"y = AddN(x) T=float N=4000000000", "attr 'N' is out of range"},
        Mistake{"a = Const int32[] 0\ny = Split(a, x) T=float num_split=1000000",
                "attr 'num_split' is out of range"},
        Mistake{"y = Bitcast(x) T=float type=3", "attr 'type'"},
        Mistake{"y = Neg(y) T=float", "cycle through this node: nodes=1"},
        Mistake{"a = Neg(b) T=float\nb = Neg(c) T=float\nc = AddV2(a, x) T=float\ny = Neg(c) "
                "T=float",
                "node 'a': the graph has a cycle through this node: nodes=3"}));

INSTANTIATE_TEST_SUITE_P(
    Functions, MistakeTest,
    ::testing::Values(
        Mistake{"y = PartitionedCall(x) f=@f Tin=[float] Tout=[float]\n"
                "function f(a: float) -> (r: float = a)\nend\n"
                "function f(a: float) -> (r: float = a)\nend",
                "function 'f' is defined twice"},
        Mistake{"y = PartitionedCall(x) f=@f Tin=[float] Tout=[float]\n"
                "function f(a: float, a: float) -> (r: float = a)\nend",
                "two parameters of this name"},
        Mistake{"y = PartitionedCall(x) f=@f Tin=[float] Tout=[float]\n"
                "function f(a: int32) -> (r: float = c:output:0)\nc = Const float[] 1\nend",
                "has a parameter 0 of another dtype: expected=float32 given=int32"},
        Mistake{"y = PartitionedCall(x) f=@f Tin=[float] Tout=[float]\n"
                "function f(a: float) -> (r: int32 = c:output:0)\nc = Const int32[] 1\nend",
                "has a result 0 of another dtype: expected=float32 given=int32"},
        Mistake{"y = PartitionedCall(x) f=@f Tin=[float] Tout=[float]\n"
                "function f(a: float) -> (r: float = c:output:0)\nc = Const int32[] 1\nend",
                "function 'f': node 'r': the function's output has a wrong dtype: "
                "declared=float32 given=int32"},
        Mistake{"y = PartitionedCall(x) f=@f Tin=[float] Tout=[float]\n"
                "function f(a: float) -> ()\nend",
                "has a wrong number of results: expected=1 given=0"},
        Mistake{"y = PartitionedCall(x) f=@f Tin=[float] Tout=[float]\n"
                "function f(a: float) -> (r: float = a) runs(gone)\nend",
                "function 'f': node 'gone': 'gone' is not in the graph"},
        Mistake{"c = Const bool[] true\n"
                "y = If(c, x) then_branch=@f else_branch=@g Tcond=bool Tin=[float] Tout=[float]\n"
                "function f(a: float) -> (r: float = a)\nend",
                "node 'y': If: function 'g' is not in the library"},
        Mistake{"c = Const int32[] 0\n"
                "y = Case(c, x) branches=[@f,@g] Tin=[float] Tout=[float]\n"
                "function f(a: float) -> (r: float = a)\nend\n"
                "function g(a: float, b: float) -> (r: float = a)\nend",
                "node 'y': Case: function 'g' has a wrong number of parameters"},
        Mistake{"y = While(x) cond=@f body=@f T=[float]\n"
                "function f(a: float) -> (r: float = a, s: float = a)\nend",
                "function 'f' has a wrong number of results: expected=1 given=2"},
        Mistake{"y = PartitionedCall(x) f=@f Tin=[float] Tout=[float]\n"
                "function f(a: float) -> (r: float = c:output:0)\n"
                "c = PartitionedCall(a) f=@g Tin=[float] Tout=[float]\nend\n"
                "function g(a: float) -> (r: float = c:output:0)\n"
                "c = PartitionedCall(a) f=@f Tin=[float] Tout=[float]\nend",
                "function 'f' is recursive"}));

TEST_F(ImportTest, DeepNestsAreTaken) {
  auto nest = [&](int depth) {
    std::string text = "y = PartitionedCall(x) f=@f1 Tin=[float] Tout=[float]\n";
    for (int i = 1; i <= depth; ++i) {
      absl::StrAppend(&text, "function f", i, "(a: float) -> (r: float = c:output:0)\n",
                      i == depth ? "c = Const float[] 1\n"
                                 : absl::StrCat("c = PartitionedCall(a) f=@f", i + 1,
                                                " Tin=[float] Tout=[float]\n"),
                      "end\n");
    }
    return Refused(text);
  };
  EXPECT_OK(nest(100));
  EXPECT_OK(nest(20'000));
}

TEST_F(ImportTest, ConstantsMayNotStandForMoreMemoryThanThereIs) {
  ASSERT_OK_AND_ASSIGN(tf::GraphDef graph_def, ParseGraph("one = Const float[1] 1"));
  Cut cut;
  for (int i = 0; i < 100; ++i) {
    tf::NodeDef* node = graph_def.add_node();
    *node = graph_def.node(0);
    node->set_name(absl::StrCat("c", i));
    auto* value = (*node->mutable_attr())["value"].mutable_tensor();
    value->clear_tensor_content();
    value->mutable_tensor_shape()->mutable_dim(0)->set_size(60 << 20);
    cut.fetches.push_back(node->name());
  }
  EXPECT_THAT(ImportGraph(graph_def, cut, world_.ops, world_.allocator, nullptr),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("'c10'")));
  EXPECT_EQ(world_.allocator.bytes_in_use(), 0u);
}

TEST_F(ImportTest, BytesThatAreNoGraphAreRefused) {
  tf::GraphDef graph_def;
  EXPECT_OK(ParseGraphDef("", graph_def));
  for (absl::string_view bytes : {"\xff", "\x0a\x05", "nonsense"}) {
    EXPECT_THAT(ParseGraphDef(bytes, graph_def),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("GraphDef")));
  }
}

// ------------------------------------------------------------------------------------------ attrs

TEST_F(ImportTest, AttrsThatAreNotSentHaveTheirDefaults) {
  ASSERT_OK_AND_ASSIGN(ImportedGraph imported,
                       world_.Import("x = Placeholder dtype=float\n"
                                     "y = MatMul(x, x) T=float transpose_b=true _hint=\"a\"\n"
                                     "z = Squeeze(y) T=float",
                                     {{"x:0", DType::kFloat}}, {"z:0"}));
  const AttrMap& product = *imported.graph->nodes[1].attrs;
  EXPECT_EQ(*product.Get<bool>("transpose_a"), false);
  EXPECT_EQ(*product.Get<bool>("transpose_b"), true);
  EXPECT_EQ(product.Find("_hint"), nullptr);
  EXPECT_TRUE(imported.graph->nodes[2].attrs->Get<std::vector<int64_t>>("squeeze_dims")->empty());
}

TEST_F(ImportTest, ListsOfEveryKindAreRead) {
  ASSERT_OK_AND_ASSIGN(
      ImportedGraph imported,
      world_.Import("x = Placeholder dtype=float\n"
                    "i = Squeeze(x) T=float squeeze_dims=[1, -1]\n"
                    "c = Const bool[] true\n"
                    "y = StatelessIf(c, i) then_branch=@f else_branch=@f Tcond=bool Tin=[float] "
                    "Tout=[float] output_shapes=[shape:[2,?]]\n"
                    "h = VarHandleOp dtype=float shape=shape:[3] shared_name=\"v\" "
                    "allowed_devices=[\"a\", \"b\"]\n"
                    "b = Const int32[] 0\n"
                    "z = StatelessCase(b, y) branches=[@f, @g] Tin=[float] Tout=[float]\n"
                    "function f(a: float) -> (r: float = a)\nend\n"
                    "function g(a: float) -> (r: float = a)\nend",
                    {{"x:0", DType::kFloat}}, {"z:0", "h:0"}));
  EXPECT_EQ(ToText(*imported.graph),
            "x:0 = Arg float32\n"
            "i = Squeeze(x:0) squeeze_dims=[1,-1]\n"
            "c = Const bool[] true\n"
            "y = StatelessIf(c, i) then_branch=@f else_branch=@f output_shapes=[[2,?]]\n"
            "h = VarHandleOp shared_name=\"v\" shape=[3] allowed_devices=[\"a\",\"b\"]\n"
            "b = Const int32[] 0\n"
            "z = StatelessCase(b, y) branches=[@f,@g]\n"
            "-> z, h\n");
}

TEST_F(ImportTest, OutputsOfWhatBecomesAnotherOpHaveTheirNames) {
  ASSERT_OK_AND_ASSIGN(
      const ImportedGraph imported,
      world_.Import("x = Placeholder dtype=float\n"
                    "y = f(x)\n"
                    "function f(a: float) -> (r: float = n:y:0)\n"
                    "  b = BatchFunction(a) f=@g num_batch_threads=1 max_batch_size=4 "
                    "batch_timeout_micros=1 Tin=[float] Tcaptured=[] Tout=[float, float]\n"
                    "  n = Neg(b:out_tensors:1) T=float\n"
                    "end\n"
                    "function g(a: float) -> (r: float = a, s: float = a)\nend",
                    {{"x:0", DType::kFloat}}, {"y:0"}));
  EXPECT_THAT(ToText(*imported.library.at("f")), HasSubstr("n = Neg(b:1)"));

  const absl::ParsedFormat<'s', 's'> kMap(
      "i = Placeholder dtype=int64\n"
      "v = Placeholder dtype=float\n"
      "y = f(i, v, s)\n"
      "s = Const int64[2] 3 3\n"
      "function f(i: int64, v: float, s: int64) -> (r: int64 = n:y:0)\n"
      "  a = %s(i, v, s) T=float\n"
      "  n = Neg(a:%s:0) T=int64\n"
      "end");
  for (const auto& [op, output] : {std::pair("AddSparseToTensorsMap", "sparse_handle"),
                                   std::pair("AddManySparseToTensorsMap", "sparse_handles")}) {
    EXPECT_OK(world_
                  .Import(absl::StrFormat(kMap, op, output),
                          {{"i:0", DType::kInt64}, {"v:0", DType::kFloat}}, {"y:0"})
                  .status());
  }
}

}  // namespace
}  // namespace formwork::testing
