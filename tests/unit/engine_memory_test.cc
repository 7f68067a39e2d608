// What requests take of the engine's memory, and that they give it back however they end.

#include "core/base/memory_budget.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;

constexpr size_t kMiB = size_t{1} << 20;

class EngineMemoryTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.memory_limit_bytes = 512 * kMiB;
    options.max_call_bytes = 8 * kMiB;
    options.max_queued_calls = 4;
    options.max_kept_bytes = kMiB;
    Start(options);
  }
  absl::StatusOr<Registered> RegisterSized(const std::string& name, absl::string_view text) {
    return Register(name, absl::StrCat("n = Placeholder dtype=int32\n", text),
                    {Spec("n:0", DType::kInt32)}, {"y:0"});
  }
  Tensor Dims(int32_t n) {
    Tensor dims = *Tensor::Allocate(engine_->allocator(), DType::kInt32, Shape({1}));
    dims.mutable_span<int32_t>()[0] = n;
    return dims;
  }
  CallResult RunKept(uint64_t id, Tensor input) {
    return std::move(Begin(id, Owned(std::move(input)), /*keep=*/true)->Wait());
  }
  size_t Used() {
    engine_->allocator().ReleaseCache();
    SettleThreadHeap();
    return engine_->memory().used();
  }
};

constexpr char kFill[] = "z = Const float[] 1\ny = Fill(n, z) T=float index_type=int32\n";

TEST_F(EngineMemoryTest, WhateverFailsGivesEverythingBack) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(Registered fill, RegisterSized("fill", kFill));
  ASSERT_OK_AND_ASSIGN(
      Registered breaks,
      RegisterSized("breaks", absl::StrCat("z = Const float[] 1\n"
                                           "a = Fill(n, z) T=float index_type=int32\n"
                                           "s = Const int32[1] 7\n"
                                           "y = Reshape(a, s) T=float Tshape=int32\n")));
  ASSERT_OK_AND_ASSIGN(
      Registered texts,
      RegisterSized("texts", absl::StrCat("z = Const float[] 1.2345\n"
                                          "a = Fill(n, z) T=float index_type=int32\n"
                                          "y = AsString(a) T=float width=40\n")));
  const uint64_t spin = RegisterSpin("spin");
  const uint64_t holder = RegisterHolder("holder");
  const auto soon = [] { return absl::Now() + absl::Milliseconds(2); };

  const auto round = [&] {
    // Of one call's share: by a block, and by many small objects.
    EXPECT_THAT(Run(fill.function.id, Owned(Dims(100'000'000))).status,
                StatusIs(StatusCode::kResourceExhausted));
    EXPECT_THAT(Run(texts.function.id, Owned(Dims(250'000))).status,
                StatusIs(StatusCode::kResourceExhausted));
    // By a kernel, with values on the way; by inputs that do not fit.
    EXPECT_THAT(Run(breaks.function.id, Owned(Dims(500'000))).status,
                StatusIs(StatusCode::kInvalidArgument));
    EXPECT_THAT(Run(fill.function.id, Owned(Tensor::Scalar(1.0f))).status,
                StatusIs(StatusCode::kInvalidArgument));
    // Of a namespace's quota.
    EXPECT_THAT(RunKept(fill.function.id, Dims(500'000)).status,
                StatusIs(StatusCode::kResourceExhausted));
    // Late and cancelled, while they run and while they wait, and those that find no place.
    auto writer = Begin(holder, Owned(Tensor::Scalar(0.0f)));
    std::vector<std::unique_ptr<PendingAssign>> assigns;
    for (int i = 0; i < 6; ++i) assigns.push_back(BeginAssign({{{0, "v"}, Dims(1)}}));
    for (int i = 0; i < 6; ++i) {
      assigns.push_back(BeginAssign({{{0, "v"}, Tensor::Scalar(42.0f)}}, soon()));
    }
    auto spinning = Begin(spin, Owned(Tensor::Scalar(0.0f)), false, soon());
    EXPECT_FALSE(spinning->Wait().status.ok());
    for (auto& assign : assigns) EXPECT_FALSE(assign->Wait().status.ok());
    writer->handle->Cancel();
    EXPECT_THAT(writer->Wait().status, StatusIs(StatusCode::kCancelled));
    // Registrations.
    EXPECT_FALSE(RegisterSized("bad", "y = AddV2(n) T=int32\n").ok());
    EXPECT_FALSE(RegisterSized("unknown", "y = NoSuchOp(n)\n").ok());
    EXPECT_FALSE(Register("missing", "v = Placeholder dtype=resource\n", {}, {"v:0"}).ok());
  };
  for (int i = 0; i < 5; ++i) round();  // Frames, queues and tables have their size.
  const size_t before = Used();
  const uint64_t tensors = engine_->Stats().tensor_bytes;
  for (int i = 0; i < 100; ++i) round();
  EXPECT_NEAR(static_cast<double>(Used()), static_cast<double>(before), 0.5 * kMiB);
  EXPECT_EQ(engine_->Stats().tensor_bytes, tensors);
  EXPECT_EQ(engine_->Stats().calls_running, 0);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

TEST_F(EngineMemoryTest, AFewBytesCannotAskForManyValues) {
  NewVariable("v", 1);
  const ReadResult read = Read(std::vector<Target>(3'000'000, Target{IdOf("v"), ""}));
  EXPECT_THAT(read.status, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(read.values.size(), 0u);
  EXPECT_EQ(ValueOf("v"), 1);
}

TEST_F(EngineMemoryTest, ARegistrationIsHeldToAShare) {
  std::string text;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&text, "c", i, " = Const float[1] 1\n");
  absl::StrAppend(&text, "y = AddN(c0, c1, c2, c3) T=float N=4\n");
  ASSERT_OK_AND_ASSIGN(tf::GraphDef graph, ParseGraph(text));
  for (auto& node : *graph.mutable_node()) {
    if (node.op() != "Const") continue;
    // A few bytes that stand for 16 MiB.
    tf::TensorProto& value = *(*node.mutable_attr())["value"].mutable_tensor();
    value.mutable_tensor_shape()->mutable_dim(0)->set_size(4 << 20);
    value.clear_tensor_content();
    value.clear_float_val();
    value.add_float_val(1);
  }
  Registration registration;
  registration.name_space = "ns";
  registration.name = "f";
  registration.graph_def = graph.SerializeAsString();
  ASSERT_LT(registration.graph_def.size(), 10'000u);
  registration.outputs = {"y:0"};
  EXPECT_THAT(Register(std::move(registration)), StatusIs(StatusCode::kResourceExhausted));
}

TEST_F(EngineMemoryTest, AHandleThatIsKeptHoldsNothing) {
  Tensor value = *Tensor::Allocate(engine_->allocator(), DType::kFloat, Shape({1'000'000}));
  for (float& element : value.mutable_span<float>()) element = 1;
  ASSERT_OK(
      engine_->CreateVariable("ns", "v", DType::kFloat, Shape({1'000'000}), std::move(value)));
  const uint64_t id = RegisterSpin("f");
  auto read = BeginRead({{0, "v"}});
  EXPECT_OK(read->Wait().status);
  read->result.values.clear();
  auto call = Begin(id, Owned(Tensor::Scalar(-1.0f)));
  EXPECT_OK(call->Wait().status);
  ASSERT_OK(engine_->DeleteResource("ns", {0, "v"}));
  EXPECT_LT(engine_->Stats().tensor_bytes, kMiB);
  // Not the engine either.
  call->result = {};
  engine_ = nullptr;
  call->handle->Cancel();
  read->handle->Cancel();
}

}  // namespace
}  // namespace formwork::testing
