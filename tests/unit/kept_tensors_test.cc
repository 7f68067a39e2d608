// Tensors kept between calls: their ends, and many of them at once.

#include "core/resource/kept_tensors.h"

#include "absl/time/clock.h"
#include "core/device/host_allocator.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class KeptTensorsTest : public ::testing::Test {
 protected:
  uint64_t Put(absl::Duration ttl, absl::string_view name_space = "ns") {
    return *kept_.Put(name_space, "owner", "f", ttl, Tensor::Scalar(1.0f));
  }
  // How many calls of Expire it takes, and what goes.
  int ExpireAll(absl::Time now, std::vector<uint64_t>* gone) {
    for (int calls = 1;; ++calls) {
      std::vector<KeptTensors::Expired> expired;
      const absl::Time next = kept_.Expire(now, &expired);
      EXPECT_LE(expired.size(), 1000u);
      for (const auto& one : expired) gone->push_back(one.info.id);
      if (next > now) return calls;
    }
  }

  KeptTensors kept_{1, 0};
};

TEST_F(KeptTensorsTest, TheirTimeBeginsAnewWithEachUse) {
  const absl::Time start = absl::Now();
  const uint64_t idle = Put(absl::Minutes(1));
  const uint64_t used = Put(absl::Minutes(1));
  const uint64_t forever = Put(absl::InfiniteDuration());
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_OK(kept_.Use("ns", used));
  std::vector<uint64_t> gone;
  ExpireAll(start + absl::Seconds(59), &gone);
  EXPECT_THAT(gone, SizeIs(0));
  ExpireAll(start + absl::Minutes(1) + absl::Milliseconds(15), &gone);
  EXPECT_THAT(gone, ElementsAre(idle));
  gone.clear();
  ExpireAll(start + absl::Minutes(2), &gone);
  EXPECT_THAT(gone, ElementsAre(used));
  ExpireAll(start + absl::Hours(1000), &gone);
  EXPECT_OK(kept_.Use("ns", forever));
  EXPECT_EQ(kept_.count(), 1);
  EXPECT_EQ(kept_.evictions(), 2u);
}

TEST_F(KeptTensorsTest, ManyGoInPortions) {
  std::vector<uint64_t> ids;
  for (int i = 0; i < 3500; ++i) {
    ids.push_back(Put(absl::Minutes(1), i % 2 == 0 ? "even" : "odd"));
  }
  EXPECT_THAT(kept_.List("even"), SizeIs(1750));
  EXPECT_EQ(kept_.Release("even", ids), 1750);
  EXPECT_EQ(kept_.Release("even", ids), 0);
  std::vector<uint64_t> gone;
  EXPECT_EQ(ExpireAll(absl::Now() + absl::Hours(1), &gone), 2);
  EXPECT_THAT(gone, SizeIs(1750));
  EXPECT_EQ(kept_.count(), 0);
  EXPECT_EQ(kept_.bytes(), 0u);
}

TEST_F(KeptTensorsTest, WhatIsClearedHasNoEndAnyMore) {
  for (int i = 0; i < 2500; ++i) Put(absl::Minutes(1));
  const uint64_t other = Put(absl::Minutes(1), "other");
  kept_.Clear("ns");
  EXPECT_EQ(kept_.count(), 1);
  EXPECT_THAT(kept_.List("ns"), SizeIs(0));
  std::vector<uint64_t> gone;
  ExpireAll(absl::Now() + absl::Hours(1), &gone);
  EXPECT_THAT(gone, ElementsAre(other));
}

TEST_F(KeptTensorsTest, ARefusedOneLeavesNothing) {
  KeptTensors small(1, 1000);
  Tensor large = *Tensor::Allocate(ProcessAllocator(), DType::kFloat, Shape({1000}));
  EXPECT_THAT(small.Put("ns", "owner", "f", absl::Minutes(1), large),
              ::formwork::testing::StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(small.bytes(), 0u);
  std::vector<KeptTensors::Expired> expired;
  EXPECT_EQ(small.Expire(absl::Now() + absl::Hours(1), &expired), absl::InfiniteFuture());
  EXPECT_THAT(expired, SizeIs(0));
}

}  // namespace
}  // namespace formwork
