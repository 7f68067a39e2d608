#include "core/function/function_cache.h"

#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/stop_flag.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::StatusIs;
using Compiled = absl::StatusOr<std::shared_ptr<ConcreteFunction>>;

PartialShape S(std::vector<int64_t> dims) { return PartialShape::Trusted(dims); }

FunctionType TypeOf(std::vector<int64_t> dims) {
  return FunctionType({{"x", ParameterKind::kPositionalOrKeyword, false,
                        TypeNode::Tensor(DType::kFloat, S(dims))}});
}

FunctionIdentity Identity(std::string fingerprint, FunctionType type, uint64_t variable = 0) {
  FunctionIdentity identity{std::move(fingerprint), std::move(type), {}};
  if (variable != 0) identity.bindings.emplace_back().resource_id = variable;
  return identity;
}

class FunctionCacheTest : public ::testing::Test {
 protected:
  FunctionCacheTest() : cache_(100, 10000) {}

  // Registers under "f" and counts what is compiled.
  absl::StatusOr<FunctionCache::Registered> Register(FunctionIdentity identity,
                                                     bool replace = false) {
    std::vector<TensorSpec> inputs;
    for (const FlatInput& flat : identity.type.FlatInputs()) {
      inputs.push_back({"x:0", flat.dtype, flat.shape});
    }
    return cache_.Register("ns", name_, std::move(identity), replace, [&]() -> Compiled {
      ++compiled_;
      auto function = std::make_shared<ConcreteFunction>();
      function->inputs = inputs;
      function->bytes = bytes_;
      return function;
    });
  }
  FunctionPtr Made(std::vector<int64_t> dims) {
    return Register(Identity("g", TypeOf(dims)))->function;
  }
  uint64_t Dispatched(std::vector<int64_t> dims) {
    Dispatch dispatch = cache_.Find("ns", name_, TypeOf(dims));
    return dispatch.function == nullptr ? 0 : dispatch.function->id;
  }
  uint64_t DispatchedFlat(std::vector<int64_t> dims) {
    InputType input{DType::kFloat, DType::kInvalid, true, dims};
    Dispatch dispatch = cache_.Find("ns", name_, {input});
    return dispatch.function == nullptr ? 0 : dispatch.function->id;
  }

  FunctionCache cache_;
  std::string name_ = "f";
  size_t bytes_ = 100;
  int compiled_ = 0;
};

TEST_F(FunctionCacheTest, DispatchesToTheMostSpecificType) {
  const uint64_t any = Made({-1, -1})->id;
  const uint64_t two = Made({2, -1})->id;
  const uint64_t exact = Made({2, 3})->id;
  const uint64_t three = Made({-1, 3})->id;
  for (int repeat = 0; repeat < 2; ++repeat) {  // Then from memory.
    EXPECT_EQ(Dispatched({2, 3}), exact);
    EXPECT_EQ(DispatchedFlat({2, 3}), exact);
    EXPECT_EQ(Dispatched({2, 4}), two);
    EXPECT_EQ(DispatchedFlat({2, 4}), two);
    EXPECT_EQ(Dispatched({5, 3}), three);
    EXPECT_EQ(DispatchedFlat({5, 3}), three);
    EXPECT_EQ(Dispatched({5, 5}), any);
    EXPECT_EQ(Dispatched({5}), 0u);
    EXPECT_EQ(DispatchedFlat({5}), 0u);
  }
}

TEST_F(FunctionCacheTest, TiesGoToTheEarliest) {
  const uint64_t first = Made({2, -1})->id;
  Made({-1, 3});
  EXPECT_EQ(Dispatched({2, 3}), first);
  EXPECT_EQ(DispatchedFlat({2, 3}), first);
}

TEST_F(FunctionCacheTest, ARegistrationIsSeenByRequestsThatWentElsewhere) {
  const uint64_t any = Made({-1})->id;
  EXPECT_EQ(Dispatched({2}), any);
  EXPECT_EQ(DispatchedFlat({2}), any);
  const uint64_t exact = Made({2})->id;
  EXPECT_EQ(Dispatched({2}), exact);
  EXPECT_EQ(DispatchedFlat({2}), exact);
  EXPECT_EQ(cache_.Remove("ns", exact), 1);
  EXPECT_EQ(Dispatched({2}), any);
  EXPECT_EQ(DispatchedFlat({2}), any);
}

TEST_F(FunctionCacheTest, AMissSaysWhatToTraceNext) {
  Dispatch dispatch = cache_.Find("ns", "f", TypeOf({2}));
  EXPECT_TRUE(dispatch.unknown_name);
  Made({3});
  dispatch = cache_.Find("ns", "f", TypeOf({2}));
  EXPECT_FALSE(dispatch.unknown_name);
  ASSERT_EQ(dispatch.candidates.size(), 1u);
  EXPECT_EQ(dispatch.candidates[0], TypeOf({3}));
  EXPECT_EQ(*dispatch.suggested, TypeOf({-1}));
  // The flat request is put into the candidate's words.
  const std::vector<int64_t> dims = {2};
  dispatch = cache_.Find("ns", "f", {InputType{DType::kFloat, DType::kInvalid, true, dims}});
  EXPECT_EQ(*dispatch.suggested, TypeOf({-1}));
}

TEST_F(FunctionCacheTest, AMissDoesNotTellOfMoreTypesThanItIsWorth) {
  std::vector<int64_t> dims(100);
  for (int i = 0; i < 50; ++i) {
    dims[0] = i;
    std::vector<Parameter> parameters(1000);
    for (size_t k = 0; k < parameters.size(); ++k) {
      parameters[k] = {absl::StrCat("x", k), ParameterKind::kPositionalOrKeyword, false,
                       TypeNode::Tensor(DType::kFloat, S(dims))};
    }
    ASSERT_OK(Register(Identity("g", FunctionType(std::move(parameters)))));
  }
  const Dispatch dispatch = cache_.Find("ns", "f", TypeOf({2}));
  EXPECT_EQ(dispatch.function, nullptr);
  EXPECT_GE(dispatch.candidates.size(), 1u);
  EXPECT_LT(dispatch.candidates.size(), 20u);
}

TEST_F(FunctionCacheTest, FlatRequestsLookBehindHandles) {
  auto variable = [](DType dtype, std::vector<int64_t> dims) {
    return FunctionType({{"v", ParameterKind::kPositionalOrKeyword, false,
                          TypeNode::Variable(dtype, S(dims), true, 0)}});
  };
  const uint64_t two = Register(Identity("g", variable(DType::kFloat, {2})))->function->id;
  const uint64_t any = Register(Identity("g", variable(DType::kFloat, {-1})))->function->id;
  auto find = [&](DType dtype, std::vector<int64_t> dims) -> uint64_t {
    Dispatch d = cache_.Find("ns", "f", {InputType{DType::kResource, dtype, true, dims}});
    return d.function == nullptr ? 0 : d.function->id;
  };
  EXPECT_EQ(find(DType::kFloat, {2}), two);
  EXPECT_EQ(find(DType::kFloat, {3}), any);
  EXPECT_EQ(find(DType::kInt32, {3}), 0u);
}

TEST_F(FunctionCacheTest, TheSameIdentityIsTheSameFunction) {
  const FunctionPtr first = Made({2});
  ASSERT_OK_AND_ASSIGN(auto again, Register(Identity("g", TypeOf({2}))));
  EXPECT_TRUE(again.existed);
  EXPECT_EQ(again.function, first);
  EXPECT_EQ(compiled_, 1);
}

TEST_F(FunctionCacheTest, AnotherIdentityOfNameAndTypeNeedsReplace) {
  const FunctionPtr first = Register(Identity("g", TypeOf({2}), 7))->function;
  EXPECT_THAT(Register(Identity("h", TypeOf({2}), 7)), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(Register(Identity("g", TypeOf({2}), 8)), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(compiled_, 1);
  ASSERT_OK_AND_ASSIGN(auto second, Register(Identity("g", TypeOf({2}), 8), true));
  EXPECT_NE(second.function->id, first->id);
  EXPECT_EQ(Dispatched({2}), second.function->id);
  EXPECT_EQ(cache_.Find("ns", first->id), nullptr);
  EXPECT_EQ(cache_.stats().entries, 1);
}

TEST_F(FunctionCacheTest, BoundValuesAreComparedByTheirElements) {
  auto identity = [](float value) {
    FunctionIdentity identity{"g", TypeOf({2}), {}};
    identity.bindings.push_back({0, Tensor::Scalar(value)});
    identity.bindings.push_back({0, Tensor::StringScalar("text")});
    return identity;
  };
  EXPECT_TRUE(identity(1) == identity(1));
  EXPECT_FALSE(identity(1) == identity(2));
}

TEST_F(FunctionCacheTest, AFailedCompilationIsNotKept) {
  auto fails = [] { return Compiled(absl::InvalidArgumentError("bad graph")); };
  EXPECT_THAT(cache_.Register("ns", "f", Identity("g", TypeOf({2})), false, fails),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_TRUE(cache_.Find("ns", "f", TypeOf({2})).unknown_name);
  EXPECT_NE(Made({2}), nullptr);
}

TEST_F(FunctionCacheTest, OneCompilesWhileOthersWait) {
  std::atomic<int> compiled{0};
  std::atomic<int> existed{0};
  std::vector<std::thread> threads;
  std::vector<FunctionPtr> got(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      auto registered =
          cache_.Register("ns", "f", Identity("g", TypeOf({2})), false, [&]() -> Compiled {
            compiled.fetch_add(1);
            absl::SleepFor(absl::Milliseconds(20));
            return std::make_shared<ConcreteFunction>();
          });
      got[i] = registered->function;
      existed.fetch_add(registered->existed);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled.load(), 1);
  EXPECT_EQ(existed.load(), 7);
  for (const FunctionPtr& function : got) EXPECT_EQ(function, got[0]);
}

TEST_F(FunctionCacheTest, WhoIsStoppedTakesNobodyElseAlong) {
  absl::Notification compiles, waits;
  StopFlag stop;
  std::thread first([&] {
    const StopScope scope(&stop);
    EXPECT_THAT(cache_.Register("ns", "f", Identity("g", TypeOf({2})), false,
                                [&]() -> Compiled {
                                  compiles.Notify();
                                  waits.WaitForNotification();
                                  stop.Cancel();
                                  EXPECT_TRUE(WorkIsCut());
                                  return WorkStatus();
                                }),
                StatusIs(absl::StatusCode::kCancelled));
  });
  compiles.WaitForNotification();
  std::thread late([&] {
    StopFlag passed(absl::Now() + absl::Milliseconds(20));
    const StopScope scope(&passed);
    EXPECT_THAT(cache_.Register("ns", "f", Identity("g", TypeOf({2})), false,
                                []() -> Compiled { return absl::InternalError("not its turn"); }),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  });
  late.join();
  FunctionPtr made;
  std::thread second([&] { made = Made({2}); });
  absl::SleepFor(absl::Milliseconds(20));
  waits.Notify();
  first.join();
  second.join();
  EXPECT_NE(made, nullptr);
}

TEST_F(FunctionCacheTest, TheLeastRecentlyUsedGoFirst) {
  FunctionCache small(2, 10000);
  auto make = [&](const std::string& name) {
    return small
        .Register("ns", name, Identity("g", TypeOf({2})), false,
                  []() -> Compiled { return std::make_shared<ConcreteFunction>(); })
        ->function->id;
  };
  const uint64_t a = make("a");
  const uint64_t b = make("b");
  EXPECT_NE(small.Find("ns", a), nullptr);  // Now b is the older.
  const uint64_t c = make("c");
  EXPECT_NE(small.Find("ns", a), nullptr);
  EXPECT_EQ(small.Find("ns", b), nullptr);
  EXPECT_NE(small.Find("ns", c), nullptr);
  EXPECT_EQ(small.stats().evictions, 1u);
  EXPECT_TRUE(small.Find("ns", "b", TypeOf({2})).unknown_name);
}

TEST_F(FunctionCacheTest, BytesAreBounded) {
  bytes_ = 6000;
  Made({1});
  Made({2});
  EXPECT_EQ(cache_.stats().bytes, 6000u);
  EXPECT_EQ(Dispatched({1}), 0u);
  bytes_ = 20000;
  EXPECT_THAT(Register(Identity("g", TypeOf({3}))), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(FunctionCacheTest, WhatACallHoldsStays) {
  bytes_ = 6000;
  FunctionPtr held = Made({1});
  Made({2});
  EXPECT_EQ(Dispatched({1}), held->id);
  const uint64_t id = held->id;
  held.reset();
  Made({3});
  EXPECT_EQ(Dispatched({1}), 0u);
  EXPECT_EQ(cache_.Find("ns", id), nullptr);
}

TEST_F(FunctionCacheTest, NamespacesAreApart) {
  const uint64_t id = Made({2})->id;
  EXPECT_EQ(cache_.Find("other", id), nullptr);
  EXPECT_TRUE(cache_.Find("other", "f", TypeOf({2})).unknown_name);
  EXPECT_EQ(cache_.Remove("other", id), 0);
  EXPECT_EQ(cache_.Clear("other"), 0);
  EXPECT_EQ(cache_.Remove("ns", "f"), 1);
  EXPECT_EQ(cache_.stats().entries, 0);
  EXPECT_EQ(cache_.stats().bytes, 0u);
}

TEST_F(FunctionCacheTest, ListsInOrderOfRegistration) {
  const FunctionPtr b = Made({2});
  const FunctionPtr b2 = Made({3});
  name_ = "a";
  const FunctionPtr a = Made({2});
  EXPECT_EQ(cache_.List("ns"), (std::vector<FunctionPtr>{a, b, b2}));
  EXPECT_EQ(cache_.List("ns", "f"), (std::vector<FunctionPtr>{b, b2}));
  EXPECT_EQ(cache_.Clear("ns"), 3);
  EXPECT_TRUE(cache_.List("ns").empty());
}

TEST_F(FunctionCacheTest, ManyThreadsRegisterFindAndRemove) {
  FunctionCache small(4, 10000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const std::vector<int64_t> dims = {(i * 7 + t) % 6};
        auto registered =
            small.Register("ns", "f", Identity("g", TypeOf(dims)), false,
                           []() -> Compiled { return std::make_shared<ConcreteFunction>(); });
        ASSERT_OK(registered);
        Dispatch dispatch =
            small.Find("ns", "f", {InputType{DType::kFloat, DType::kInvalid, true, dims}});
        if (dispatch.function != nullptr) {
          EXPECT_TRUE(TypeOf(dims).IsSubtypeOf(dispatch.function->type()));
        }
        if (i % 5 == 0) small.Remove("ns", registered->function->id);
        if (i % 50 == 0) small.Clear("ns");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(small.stats().entries, 4);
}

}  // namespace
}  // namespace formwork
