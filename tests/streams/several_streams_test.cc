// Plans that use several streams of a device: what goes where, what waits for what, and that it is
// no more than that.

#include "core/plan/streams.h"
#include "tests/streams/stream_world.h"
#include "tests/support/kernel_runner.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SeveralStreamsTest : public ::testing::Test {
 protected:
  void SetUp() override { sim_.set_streams_per_call(3); }
  void Make(const std::string& text, const Programs::Feeds& feeds,
            const std::vector<std::string>& fetches, const std::vector<std::string>& targets = {}) {
    ASSERT_OK_AND_ASSIGN(program_, programs_.Make(text, feeds, fetches, targets));
  }
  std::string Text() { return PlanText(sim_.PlanOf(program_)); }
  // On the device under many schedules, and on the CPU, which have to give the same.
  void RunAsOnTheCpu(const std::vector<Tensor>& inputs, int calls = 1) {
    const std::vector<Request> requests(static_cast<size_t>(calls), Request{&program_, inputs});
    CpuWorld cpu(programs_.allocator());
    const std::vector<Outcome> expected = cpu.Run(requests);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      SimWorld sim(programs_, seed, 6);
      sim.set_streams_per_call(3);
      const std::vector<Outcome> outcomes = sim.Run(requests);
      for (size_t i = 0; i < outcomes.size(); ++i) {
        ASSERT_EQ(outcomes[i].status, expected[i].status) << seed;
        for (size_t k = 0; k < outcomes[i].results.size(); ++k) {
          EXPECT_EQ(ValuesOf<float>(outcomes[i].results[k]),
                    ValuesOf<float>(expected[i].results[k]))
              << seed;
        }
      }
      ASSERT_THAT(sim.Reports(), IsEmpty()) << seed;
    }
  }

  Programs programs_;
  SimWorld sim_{programs_, 1, 6};
  Program program_;
};

const std::vector<Tensor>& Matrix() {
  static const auto* const matrix = new std::vector<Tensor>(
      Owned(VectorOf<float>({0.1f, 0.2f, 0.3f, 0.4f}).Reshaped(Shape({2, 2}))));
  return *matrix;
}

TEST_F(SeveralStreamsTest, ABranchGoesToAStreamOfItsOwnAndComesBack) {
  Make(R"(
    x = Placeholder dtype=float
    h = Tanh(x) T=float
    a = MatMul(h, h) T=float
    b = MatMul(h, x) T=float
    c = MatMul(a, h) T=float
    d = MatMul(b, h) T=float
    e = Exp(c) T=float
    f = Exp(d) T=float
    y = AddV2(e, f) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0"});
  EXPECT_EQ(Text(), R"(0: %1@device = copy(%0!) drop %0
1: %2@device = Tanh(%1) 'h'
2: %3@device = MatMul(%2 %2) 'a'
3: %4@device = MatMul(%2 %1!) 'b' stream 1 wait 1 drop %1
4: %5@device = MatMul(%3! %2) 'c' drop %3
5: %6@device = MatMul(%4! %2!) 'd' stream 1 drop %4 %2
6: %7@device = fused(%5! %6!) 'y' wait 5 drop %5 %6
7: return %7!
)");
  RunAsOnTheCpu(Matrix());
}

TEST_F(SeveralStreamsTest, OneChainStaysOnOneStream) {
  Make(R"(
    x = Placeholder dtype=float
    a = MatMul(x, x) T=float
    b = MatMul(a, a) T=float
    c = MatMul(b, a) T=float
    d = MatMul(c, b) T=float
  )",
       {{"x:0", DType::kFloat}}, {"d:0"});
  EXPECT_THAT(Text(), Not(HasSubstr("stream")));
  EXPECT_EQ(sim_.PlanOf(program_).num_streams, 1);
}

TEST_F(SeveralStreamsTest, WhatMayFailByValueStaysOnStreamZero) {
  Make(R"(
    x = Placeholder dtype=float
    i = Placeholder dtype=float
    axis = Const int32[] 0
    f = Softmax(i) T=float
    j = Cast(f) SrcT=float DstT=int64
    a = MatMul(x, x) T=float
    b = MatMul(a, x) T=float
    g = GatherV2(x, j, axis) Tparams=float Tindices=int64 Taxis=int32
    h = GatherV2(g, j, axis) Tparams=float Tindices=int64 Taxis=int32
    k = GatherV2(h, j, axis) Tparams=float Tindices=int64 Taxis=int32
    y = AddV2(b, k) T=float
  )",
       {{"x:0", DType::kFloat}, {"i:0", DType::kFloat}}, {"y:0"});
  EXPECT_EQ(Text(), R"(#0 = int32[] 0
0: %2@device = copy(%1!) drop %1
1: %3@device = Softmax(%2!) 'f' drop %2
2: %4@device = copy(%0!) stream 1 drop %0
3: %5@device = MatMul(%4 %4) 'a' stream 1
4: %6@device = MatMul(%5! %4) 'b' stream 1 drop %5
5: %7@device = Cast(%3!) 'j' drop %3
6: %8@device = GatherV2(%4! %7 #0) 'g' wait 2 drop %4
7: %9@device = GatherV2(%8! %7 #0) 'h' drop %8
8: %10@device = GatherV2(%9! %7! #0) 'k' drop %9 %7
9: %11@device = AddV2(%6! %10!) 'y' wait 4 drop %6 %10
10: return %11!
)");
}

TEST_F(SeveralStreamsTest, ALoopsBodyForksFromStreamZeroAndJoinsIt) {
  Make(R"(
    x = Placeholder dtype=float
    zero = Const int32[] 0
    w = StatelessWhile(zero, x) cond=@cond body=@body T=[int32,float]
    function cond(k: int32, t: float) -> (go: bool = l:z:0)
      n = Const int32[] 3
      l = Less(k, n:output:0) T=int32
    end
    function body(k: int32, t: float) -> (j: int32 = next:z:0, q: float = y:z:0)
      one = Const int32[] 1
      next = AddV2(k, one:output:0) T=int32
      a = MatMul(t, t) T=float
      b = MatMul(t, t) T=float transpose_a=true
      c = Softmax(a:product:0) T=float
      d = Softmax(b:product:0) T=float
      y = AddV2(c:softmax:0, d:softmax:0) T=float
    end
  )",
       {{"x:0", DType::kFloat}}, {"w:1"});
  EXPECT_EQ(Text(), R"(#0 = int32[] 0
#1 = int32[] 1
#2 = int32[] 3
0: %1@device = copy(%0!) drop %0
1: %2@host %3@device = #0 %1!
2: jump 11
3: point
4: %4@host = AddV2(%2! #1) 'w/body/next' drop %2
5: %5@device = MatMul(%3 %3) 'w/body/a'
6: %6@device = MatMul(%3 %3) 'w/body/b' stream 1 wait 3 drop %3
7: %7@device = Softmax(%5!) 'w/body/c' drop %5
8: %8@device = Softmax(%6!) 'w/body/d' stream 1 drop %6
9: %9@device = AddV2(%7! %8!) 'w/body/y' wait 8 drop %7 %8
10: %2@host %3@device = %4! %9!
11: %10@host = Less(%2 #2) 'w/cond/l'
12: loop %10! -> 3, 13 drop %2 'w' drop %10
13: return %3!
)");
  RunAsOnTheCpu(Matrix());
}

TEST_F(SeveralStreamsTest, AVariableIsReadWhereItIsUsedAndWrittenOnStreamZero) {
  Make(R"(
    x = Placeholder dtype=float
    v = VarHandleOp dtype=float shape=shape:[2,2] shared_name="v"
    i = AssignVariableOp(v, x) dtype=float
    p = MatMul(x, x) T=float
    q = MatMul(p, x) T=float
    r = Tanh(q) T=float
    o = ReadVariableOp(v, ^i) dtype=float
    s = MatMul(o, x) T=float
    t = Tanh(s) T=float
    w = AssignAddVariableOp(v, r, ^s) dtype=float
    z = ReadVariableOp(v, ^w) dtype=float
  )",
       {{"x:0", DType::kFloat}}, {"t:0", "z:0"}, {"i", "w"});
  EXPECT_EQ(Text(), R"(0: %1@host = VarHandleOp() 'v'
1: %2@device = copy(%0!) drop %0
2: AssignVariableOp(%1 %2) 'i'
3: %3@device = MatMul(%2 %2) 'p' stream 1 wait 1
4: %4@device = MatMul(%3! %2) 'q' stream 1 drop %3
5: %5@device = ReadVariableOp(%1) 'o' stream 2
6: %6@device = MatMul(%5! %2!) 's' stream 2 wait 1 drop %5 %2
7: %7@device = Tanh(%4!) 'r' stream 1 drop %4
8: AssignAddVariableOp(%1 %7!) 'w' wait 7 drop %7
9: %8@device = ReadVariableOp(%1) 'z'
10: %9@device = Tanh(%6!) 't' stream 2 drop %6
11: point wait 10
12: return %9! %8!
)");
  RunAsOnTheCpu(Matrix(), 4);
}

// Who reads the value before, on another stream and after the store, has not waited for the store:
// the next call has to.
TEST_F(SeveralStreamsTest, AnOldValueIsReadBehindTheStoreOfTheNextOne) {
  Make(R"(
    x = Placeholder dtype=float
    v = VarHandleOp dtype=float shape=shape:[2,2] shared_name="v"
    i = AssignVariableOp(v, x) dtype=float
    o = ReadVariableOp(v, ^i) dtype=float
    p = MatMul(x, x) T=float
    q = MatMul(p, x) T=float
    w = AssignAddVariableOp(v, q, ^o) dtype=float
    s = MatMul(o, x, ^w) T=float
    z = ReadVariableOp(v, ^s) dtype=float
    t = MatMul(s, x, ^z) T=float
    r = MatMul(q, q, ^z) T=float
    y = MatMul(r, r) T=float
    u = AddV2(t, y) T=float
  )",
       {{"x:0", DType::kFloat}}, {"u:0", "z:0"}, {"i", "w"});
  const std::string text = Text();
  EXPECT_THAT(text.substr(text.find("AssignAddVariableOp")), HasSubstr("'s' stream")) << text;
  RunAsOnTheCpu(Matrix(), 4);
}

// What a group stores is the variable's memory: who reads it on another stream comes before the
// next change in place.
TEST_F(SeveralStreamsTest, WhatAGroupHasStoredIsReadBeforeItIsChanged) {
  Make(R"(
    x = Placeholder dtype=float
    two = Const float[] 2
    v = VarHandleOp dtype=float shape=shape:[2,2] shared_name="v"
    i = AssignVariableOp(v, x) dtype=float
    h = Mul(x, two) T=float
    n = AddV2(h, x) T=float
    a = AssignVariableOp(v, n, ^i) dtype=float
    p = MatMul(n, x, ^a) T=float
    s = MatMul(n, n, ^p) T=float
    q = MatMul(p, p, ^s) T=float
    t = MatMul(s, x) T=float
    w = AssignAddVariableOp(v, x, ^s) dtype=float
    u = AddV2(t, q) T=float
    z = ReadVariableOp(v, ^w) dtype=float
  )",
       {{"x:0", DType::kFloat}}, {"u:0", "z:0"}, {"i", "a", "w"});
  EXPECT_THAT(Text(), HasSubstr("fused_store"));
  RunAsOnTheCpu(Matrix(), 4);
}

}  // namespace
}  // namespace formwork::testing
