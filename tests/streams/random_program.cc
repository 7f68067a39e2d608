#include "tests/streams/random_program.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "core/base/status.h"
#include "tests/support/kernel_runner.h"

namespace formwork::testing {
namespace {

const Programs::Feeds kFeeds = {
    {"x:0", DType::kFloat}, {"n:0", DType::kInt32}, {"i:0", DType::kInt32}};

constexpr absl::string_view kHead = R"(
  x = Placeholder dtype=float
  n = Placeholder dtype=int32
  i = Placeholder dtype=int32
  a = VarHandleOp dtype=float shape=shape:[4,4] shared_name="a"
  b = VarHandleOp dtype=float shape=shape:[4,4] shared_name="b"
  c = VarHandleOp dtype=float shape=shape:[4,4] shared_name="c"
  s = VarHandleOp dtype=float shape=shape:[] shared_name="s"
  d = VarHandleOp dtype=float shape=shape:? shared_name="d"
  zero = Const int32[] 0
  first = Const int32[1] 0
  both = Const int32[2] 0 1
  flat = Const int32[1] 16
  square = Const int32[2] 4 4
  rate = Const float[] 0.125
  nought = Const float[] 0
)";

constexpr absl::string_view kFunctions = R"(
  function store(v: resource, t: float) -> (r: float = m:z:0) runs(w)
    o = ReadVariableOp(v) dtype=float
    m = Mul(o:value:0, t) T=float
    w = AssignVariableOp(v, t) dtype=float
  end
  function count(v: resource, t: float) -> (r: float = o:value:0) runs(w)
    w = AssignAddVariableOp(v, t) dtype=float
    o = ReadVariableOp(v, ^w) dtype=float
  end
  function step(v: resource, t: float, i: int32) -> (r: float = h:y:0) runs(w)
    nought = Const int32[] 0
    o = ReadVariableOp(v) dtype=float
    g = GatherV2(t, i, nought:output:0) Tparams=float Tindices=int32 Taxis=int32
    m = MatMul(o:value:0, g:output:0) T=float
    h = Tanh(m:product:0) T=float
    w = AssignAddVariableOp(v, h:y:0) dtype=float
  end
  function steps(v: resource, t: float, i: int32) -> (r: float = s:z:0) runs(a, b, c)
    a = StatefulPartitionedCall(v, t, i) Tin=[resource,float,int32] Tout=[float] f=@step
    both = Const int32[2] 0 1
    nought = Const float[] 0
    sum = Sum(a:output:0, both:output:0) T=float
    positive = Greater(sum:output:0, nought:output:0) T=float
    b = If(positive:z:0, v, t) Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@store else_branch=@count
    c = StatefulPartitionedCall(v, b:output:0, i) Tin=[resource,float,int32] Tout=[float] f=@step
    s = AddV2(a:output:0, c:output:0) T=float
  end
  function cond(k: int32, v: resource, t: float, n: int32) -> (go: bool = l:z:0)
    l = Less(k, n) T=int32
  end
  function body(k: int32, v: resource, t: float, n: int32) -> (j: int32 = next:z:0, u: resource = v, q: float = h:y:0, m: int32 = n) runs(w)
    one = Const int32[] 1
    next = AddV2(k, one:output:0) T=int32
    o = ReadVariableOp(v) dtype=float
    p = AddV2(o:value:0, t) T=float
    h = Tanh(p:z:0) T=float
    w = AssignSubVariableOp(v, h:y:0) dtype=float
  end
)";

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed), text_(kHead) {}

  absl::StatusOr<Program> Write(Programs& programs) {
    for (int statements = 4 + Random(8); statements > 0; --statements) Add();
    std::vector<std::string> fetches = {Value() + ":0", Value() + ":0"};
    for (const char* variable : {"a", "b"}) {
      if (Random(2) == 0)
        fetches.push_back(Line("ReadVariableOp($0) dtype=float", variable) + ":0");
    }
    // Calls are part of their callers, or are not, or some are.
    constexpr int64_t kInlined[] = {PassBudget().inlined, 0, 12};
    return programs.Make(absl::StrCat(text_, kFunctions), kFeeds, fetches, targets_,
                         kInlined[Random(3)]);
  }

 private:
  int Random(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  const std::string& Value() { return values_[Random(static_cast<int>(values_.size()))]; }
  std::string Variable() { return std::string(1, static_cast<char>('a' + Random(3))); }

  template <typename... Args>
  std::string Line(absl::string_view node, const Args&... args) {
    const std::string name = absl::StrCat("y", next_++);
    absl::StrAppend(&text_, "  ", name, " = ", absl::Substitute(node, args...), "\n");
    return name;
  }
  // Values stay small.
  void NewValue(const std::string& value) { values_.push_back(Line("Tanh($0) T=float", value)); }
  template <typename... Args>
  void Target(absl::string_view node, const Args&... args) {
    targets_.push_back(Line(node, args...));
  }

  void Call(absl::string_view node, const std::string& variable, const std::string& value) {
    const std::string call = Line(node, variable, value);
    targets_.push_back(call);
    NewValue(call);
  }

  // A variable's size becomes that of `indices`. The value of a step that needs all of it.
  std::string Resized(const std::string& indices) {
    Target("AssignVariableOp(d, $0) dtype=float", Line("Cast($0) SrcT=int64 DstT=float", indices));
    const std::string sum = Line("Sum($0, both) T=float", Line("ReadVariableOp(d) dtype=float"));
    return Line("Mul($0, $1) T=float", Value(), sum);
  }

  void Add() {
    switch (Random(21)) {
      case 0:
        return NewValue(Line("AddV2($0, $1) T=float", Value(), Value()));
      case 1:
        return NewValue(Line("Mul($0, $1) T=float", Value(), Value()));
      case 2:
        return NewValue(Line("MatMul($0, $1) T=float", Value(), Value()));
      case 3:
        return NewValue(Line("ReadVariableOp($0) dtype=float", Variable()));
      case 4:
        return Target("AssignVariableOp($0, $1) dtype=float", Variable(), Value());
      case 5:
        return Target("AssignAddVariableOp($0, $1) dtype=float", Variable(), Value());
      case 6: {
        const std::string sums = Line("Sum($0, first) T=float keep_dims=true", Value());
        return NewValue(Line("AddV2($0, $1) T=float", Value(), sums));
      }
      case 7: {
        const std::string sum = Line("Sum($0, both) T=float", Value());
        const std::string positive = Line("Greater($0, nought) T=float", sum);
        const std::string made = Line(
            "If($0, $1, $2) Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@store "
            "else_branch=@count",
            positive, Variable(), Value());
        targets_.push_back(made);
        return NewValue(made);
      }
      case 8: {
        const std::string loop =
            Line("While(zero, $0, $1, n) cond=@cond body=@body T=[int32,resource,float,int32]",
                 Variable(), Value());
        targets_.push_back(loop);
        return NewValue(loop + ":2");
      }
      case 9:
        return NewValue(
            Line("GatherV2($0, i, zero) Tparams=float Tindices=int32 Taxis=int32", Value()));
      case 10:
        return NewValue(Line("ResourceGather($0, i) dtype=float Tindices=int32", Variable()));
      case 11:
        return Target("ResourceScatterAdd($0, i, $1) dtype=float Tindices=int32", Variable(),
                      Value());
      case 12: {
        const int which = Random(3);
        const std::string names[] = {"a", "b", "c"};
        return Target("ResourceApplyMomentum($0, $1, rate, $2, rate) T=float", names[which],
                      names[(which + 1) % 3], Value());
      }
      case 13: {
        const std::string mean = Line("Mean($0, both) T=float", Value());
        Target("AssignAddVariableOp(s, $0) dtype=float", mean);
        // Used at once, where a group would wait: a missing wait could not be seen once the host
        // has waited meanwhile.
        const std::string scale = Line("BroadcastTo($0, square) T=float Tidx=int32",
                                       Line("ReadVariableOp(s) dtype=float"));
        return NewValue(Line("Mul($0, $1) T=float", Value(), scale));
      }
      case 14: {
        const std::string where = Line("Where($0) T=float", Value());
        if (Random(2) == 0) return NewValue(Resized(where));
        const std::string shape = Line("Shape($0) T=int64", where);
        const std::string count = Line("Prod($0, first) T=int32", shape);
        const std::string scale = Line("Cast($0) SrcT=int32 DstT=float", count);
        return NewValue(Line("RealDiv($0, $1) T=float", Value(), scale));
      }
      case 15: {  // One step, which changes both where they are.
        const std::string moment =
            Line("Mul($0, rate) T=float", Line("ReadVariableOp(a) dtype=float"));
        const std::string next = Line("AddV2($0, $1) T=float", moment, Value());
        const std::string by = Line("Mul($0, rate) T=float", next);
        const std::string less =
            Line("Sub($0, $1) T=float", Line("ReadVariableOp(b) dtype=float"), by);
        Target("AssignVariableOp(a, $0) dtype=float", next);
        return Target("AssignVariableOp(b, $0) dtype=float", less);
      }
      case 16:  // Its size is that of other values, too.
        return Target("AssignVariableOp(d, $0) dtype=float", Line("Neg($0) T=float", Value()));
      case 17:
        return Call(
            "StatefulPartitionedCall($0, $1, i) Tin=[resource,float,int32] Tout=[float] f=@step",
            Variable(), Value());
      case 18:
        return Call(
            "StatefulPartitionedCall($0, $1, i) Tin=[resource,float,int32] Tout=[float] "
            "f=@steps",
            Variable(), Value());
      case 19: {  // One whose branches become selects: its variable has a value, and shapes are
                  // known.
        const std::string variable = Variable();
        const std::string now = Line("ReadVariableOp($0) dtype=float", variable);
        const std::string value = Line("EnsureShape($0) T=float shape=shape:[4,4]",
                                       Line("Mul($0, $1) T=float", now, Value()));
        const std::string positive =
            Line("Greater($0, nought) T=float", Line("Sum($0, both) T=float", value));
        const std::string made = Line(
            "If($0, $1, $2) Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@store "
            "else_branch=@count",
            positive, variable, value);
        targets_.push_back(made);
        return NewValue(made);
      }
      default: {
        const std::string value = Value();
        const std::string shape = Line("Shape($0) T=float", value);
        const std::string vector = Line("Reshape($0, flat) T=float", value);
        return NewValue(Line("Reshape($0, $1) T=float", vector, shape));
      }
    }
  }

  std::mt19937_64 random_;
  std::string text_;
  std::vector<std::string> values_ = {"x"};
  std::vector<std::string> targets_;
  int next_ = 0;
};

}  // namespace

absl::StatusOr<Program> RandomProgram(Programs& programs, uint64_t seed) {
  return Writer(seed).Write(programs);
}

absl::StatusOr<Program> PlainProgram(Programs& programs, Plain kind) {
  switch (kind) {
    case Plain::kReads:
      return programs.Make(
          absl::StrCat(kHead, "  v = ReadVariableOp(a) dtype=float\n  y = Tanh(v) T=float\n"),
          kFeeds, {"y:0"}, {});
    case Plain::kAdds:
      return programs.Make(absl::StrCat(kHead, "  w = AssignAddVariableOp(a, x) dtype=float\n"),
                           kFeeds, {}, {"w"});
    case Plain::kReadsAndAdds:
      return programs.Make(absl::StrCat(kHead, R"(
        p = MatMul(x, x) T=float
        q = MatMul(p, x) T=float
        r = Tanh(q) T=float
        v = ReadVariableOp(a) dtype=float
        u = MatMul(v, x) T=float
        t = Tanh(u) T=float
        w = AssignAddVariableOp(a, x, ^u) dtype=float
      )"),
                           kFeeds, {"r:0", "t:0"}, {"w"});
  }
  return Internal("no such kind");
}

absl::StatusOr<Program> InitialProgram(Programs& programs) {
  return programs.Make(absl::StrCat(kHead, R"(
    wa = AssignVariableOp(a, x) dtype=float
    wb = AssignVariableOp(b, x) dtype=float
    wc = AssignVariableOp(c, x) dtype=float
    ws = AssignVariableOp(s, rate) dtype=float
    wd = AssignVariableOp(d, x) dtype=float
  )"),
                       kFeeds, {}, {"wa", "wb", "wc", "ws", "wd"});
}

std::vector<Tensor> RandomInputs(uint64_t seed, bool fails) {
  std::mt19937_64 random(seed);
  std::vector<float> x(16);
  for (float& value : x) value = static_cast<float>(random() % 2001) / 1000 - 1;
  std::vector<int32_t> rows(4);
  for (int32_t& row : rows) row = static_cast<int32_t>(random() % 4);
  if (fails) rows[random() % 4] = 4;
  return Owned(TensorOf<float>(Shape({4, 4}), x),
               Tensor::Scalar(static_cast<int32_t>(random() % 4)), VectorOf<int32_t>(rows));
}

}  // namespace formwork::testing
