// How the graph of a relaxed call is divided.

#include "core/graph/passes/relaxed_regions.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/plan/planner.h"
#include "tests/support/graph_world.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

// Resources v, w and q; x, a matrix; a product that may stand anywhere.
constexpr absl::string_view kParameters = R"(
  v = Placeholder dtype=resource
  w = Placeholder dtype=resource
  q = Placeholder dtype=resource
  x = Placeholder dtype=float
  one = Const float[] 1
)";

class RelaxedRegionsTest : public ::testing::Test {
 protected:
  // The parts, in their order, each with the effects in it: "snapshot: r apply region: a b".
  absl::StatusOr<std::string> Divided(absl::string_view steps, std::vector<std::string> targets) {
    FORMWORK_ASSIGN_OR_RETURN(ImportedGraph imported,
                              world_.Import(absl::StrCat(kParameters, steps),
                                            {{"v:0", DType::kResource},
                                             {"w:0", DType::kResource},
                                             {"q:0", DType::kResource},
                                             {"x:0", DType::kFloat}},
                                            {}, std::move(targets)));
    PlannerContext context{world_.ops, world_.kernels, world_.allocator};
    context.relaxed = true;
    FORMWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan,
                              MakePlan(imported, std::vector<PartialShape>(4), context));
    std::vector<std::string> parts;
    for (size_t i = 0; i < plan->code.size(); ++i) {
      const Plan::Instruction& instruction = plan->code[i];
      const Plan::Label& label = plan->labels[i];
      if (instruction.code == Plan::Code::kRegion) {
        parts.push_back(absl::StrCat(plan->regions[instruction.target].name, ":"));
      } else if (label.op != nullptr &&
                 (label.op->effect == Effect::kWrite || label.op->effect == Effect::kRead)) {
        parts.push_back(label.node);
      }
    }
    return absl::StrJoin(parts, " ");
  }
  // The same, or the error.
  std::string Parts(absl::string_view steps, std::vector<std::string> targets) {
    const absl::StatusOr<std::string> divided = Divided(steps, std::move(targets));
    return divided.ok() ? *divided : divided.status().ToString();
  }
  GraphWorld world_;
};

// Of an optimizer's kind: w's gradient follows from w by products, q is its slot.
constexpr absl::string_view kTrain = R"(
  r = ReadVariableOp(w) dtype=float
  y = MatMul(r, x) T=float
  g = MatMul(y, x) T=float
  qr = ReadVariableOp(q) dtype=float
  q1 = AddV2(qr, g) T=float
  qa = AssignVariableOp(q, q1, ^qr) dtype=float
  wa = AssignSubVariableOp(w, q1, ^qa) dtype=float
)";

TEST_F(RelaxedRegionsTest, AnOptimizersStepIsOneApplyRegion) {
  EXPECT_THAT(Parts(kTrain, {"qa", "wa"}), "snapshot: r apply region: qr qa wa");
}

TEST_F(RelaxedRegionsTest, SmallWrites) {
  // What v is becomes more by one before the products: read and written in one.
  constexpr absl::string_view kCounts = R"(
    vr = ReadVariableOp(v) dtype=float
    v1 = AddV2(vr, one) T=float
    va = AssignVariableOp(v, v1, ^vr) dtype=float
  )";
  EXPECT_THAT(Parts(absl::StrCat(kCounts, kTrain), {"va", "qa", "wa"}),
              "snapshot: small write of v: vr va snapshot: r apply region: qr qa wa");
  // A step that both reads and writes, and one that stands where others read.
  constexpr absl::string_view kAdds = R"(
    r0 = ReadVariableOp(w) dtype=float
    va = AssignAddVariableOp(v, r0) dtype=float
  )";
  EXPECT_THAT(Parts(absl::StrCat(kAdds, kTrain), {"va", "qa", "wa"}),
              "snapshot: r0 small write of v: va snapshot: r apply region: qr qa wa");
  // Two that are read together are written together.
  constexpr absl::string_view kTwo = R"(
    vr = ReadVariableOp(v) dtype=float
    qr = ReadVariableOp(q) dtype=float
    v1 = AddV2(vr, x) T=float
    q1 = AddV2(qr, x) T=float
    va = AssignVariableOp(v, v1, ^vr) dtype=float
    qa = AssignVariableOp(q, q1, ^qr) dtype=float
    r = ReadVariableOp(w) dtype=float
    y = MatMul(r, x) T=float
    wa = AssignSubVariableOp(w, y) dtype=float
  )";
  EXPECT_THAT(Parts(kTwo, {"va", "qa", "wa"}),
              "snapshot: small write of v, q: vr qr va qa snapshot: r apply region: wa");
}

TEST_F(RelaxedRegionsTest, WritesThatAreNotSmall) {
  constexpr absl::string_view kEnd = R"(
    z = MatMul(x, x) T=float
    wa = AssignSubVariableOp(w, z) dtype=float
  )";
  const auto divided = [&](absl::string_view before, std::vector<std::string> targets) {
    targets.insert(targets.end(), {"fa", "va", "wa"});
    return Parts(absl::StrCat("first = MatMul(x, x) T=float\n"
                              "fa = AssignAddVariableOp(q, first) dtype=float\n",
                              before, kEnd),
                 std::move(targets));
  };
  // Heavy work between the first touch and the write: it is a gradient's, perhaps.
  EXPECT_EQ(divided("vr = ReadVariableOp(v) dtype=float\nm = MatMul(vr, x) T=float\n"
                    "va = AssignSubVariableOp(v, m) dtype=float\n",
                    {}),
            "snapshot: small write of q: fa snapshot: vr apply region: va wa");
  // What is assigned is used for other writes: a slot.
  EXPECT_EQ(divided("s = AddV2(first, one) T=float\nva = AssignVariableOp(v, s) dtype=float\n"
                    "qa = AssignSubVariableOp(q, s) dtype=float\n",
                    {"qa"}),
            "snapshot: apply region: fa va qa wa");
  // It is read again before the apply region.
  EXPECT_EQ(divided("va = AssignAddVariableOp(v, one) dtype=float\n"
                    "vr = ReadVariableOp(v, ^va) dtype=float\nm = MatMul(vr, x) T=float\n"
                    "va2 = AssignVariableOp(v, m, ^va) dtype=float\n",
                    {"va2"}),
            "snapshot: apply region: fa va vr va2 wa");
}

TEST_F(RelaxedRegionsTest, TheApplyRegionBeginsBeforeWhatItAssignsIsRead) {
  // q's mean of products is read before one of them.
  EXPECT_THAT(Parts(R"(
    r = ReadVariableOp(w) dtype=float
    y = MatMul(r, x) T=float
    qr = ReadVariableOp(q) dtype=float
    yy = MatMul(y, y) T=float
    q1 = AddV2(qr, yy) T=float
    qa = AssignVariableOp(q, q1, ^qr) dtype=float
    wa = AssignSubVariableOp(w, q1, ^qa) dtype=float
  )",
                    {"qa", "wa"}),
              "snapshot: r apply region: qr qa wa");
}

TEST_F(RelaxedRegionsTest, WhyThereAreNone) {
  const auto why = [&](absl::string_view steps, std::vector<std::string> targets) {
    return Divided(steps, std::move(targets)).status();
  };
  EXPECT_THAT(why("va = AssignAddVariableOp(v, x) dtype=float\n", {"va"}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("comes before what it writes")));
  EXPECT_THAT(why("vr = ReadVariableOp(v) dtype=float\ny = MatMul(vr, vr) T=float\n", {"y"}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("it changes nothing")));
  // A loop that writes is the apply region's, whatever is in it.
  EXPECT_THAT(why(R"(
    loop = While(x, v) cond=@cond body=@body T=[float,resource]
    function cond(i: float, v: resource) -> (go: bool = l:z:0)
      n = Const float[] 10
      l = Less(i, n:output:0) T=float
    end
    function body(i: float, v: resource) -> (j: float = n:z:0, u: resource = h:output:0)
      one = Const float[] 1
      a = AssignAddVariableOp(v, one:output:0) dtype=float
      n = AddV2(i, one:output:0, ^a) T=float
      h = Identity(v) T=resource
    end
  )",
                  {"loop"}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("comes before what it writes")));
}

}  // namespace
}  // namespace formwork::testing
