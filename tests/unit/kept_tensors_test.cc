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

  KeptTensors kept_{1, {}};
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

TEST_F(KeptTensorsTest, TheyGoWithTheirClient) {
  bool busy = false;
  KeptTensors kept(1, {.client_ttl = absl::Minutes(1),
                       .is_busy = [&](absl::string_view name_space, absl::string_view owner) {
                         EXPECT_EQ(name_space, "ns");
                         return busy && owner == "works";
                       }});
  const auto put = [&](absl::string_view owner, absl::Duration ttl = absl::InfiniteDuration()) {
    return *kept.Put("ns", owner, "f", ttl, Tensor::Scalar(1.0f));
  };
  const auto gone_at = [&](absl::Time now) {
    std::vector<KeptTensors::Expired> expired;
    kept.Expire(now, &expired);
    std::vector<uint64_t> gone;
    for (const auto& one : expired) gone.push_back(one.info.id);
    return gone;
  };
  const absl::Time start = absl::Now();
  const uint64_t left = put("left"), lives = put("lives"), used = put("left"), works = put("works");
  const uint64_t shorter = put("lives", absl::Seconds(10));
  EXPECT_EQ(kept.leases(), 1);
  absl::SleepFor(absl::Milliseconds(20));
  kept.Seen("ns", "lives");
  kept.Seen("ns", "nobody");
  kept.Seen("nowhere", "lives");
  EXPECT_OK(kept.Use("ns", used));                                        // By whomever.
  EXPECT_THAT(gone_at(start + absl::Seconds(11)), ElementsAre(shorter));  // Its own time.
  EXPECT_EQ(kept.leases(), 0);
  busy = true;
  EXPECT_THAT(gone_at(start + absl::Minutes(1) + absl::Milliseconds(15)), ElementsAre(left));
  busy = false;
  EXPECT_THAT(gone_at(start + absl::Seconds(90)), ::testing::UnorderedElementsAre(lives, used));
  EXPECT_THAT(gone_at(start + absl::Minutes(3)), ElementsAre(works));
  EXPECT_EQ(kept.count(), 0);
}

TEST_F(KeptTensorsTest, AClientHasAQuota) {
  KeptTensors kept(1, {.max_client_bytes = 1000});
  const auto put = [&](absl::string_view name_space, absl::string_view owner) {
    return kept.Put(name_space, owner, "f", absl::InfiniteDuration(), Tensor::Scalar(1.0f));
  };
  absl::StatusOr<uint64_t> id = put("ns", "a");
  uint64_t last = 0;
  int count = 0;
  for (; id.ok() && count < 100; ++count) {
    last = *id;
    id = put("ns", "a");
  }
  EXPECT_THAT(id, ::formwork::testing::StatusIs(
                      absl::StatusCode::kResourceExhausted,
                      ::testing::AllOf(::testing::HasSubstr("client 'a' in namespace 'ns'"),
                                       ::testing::HasSubstr("limit=1000"))));
  EXPECT_LT(count, 20);
  EXPECT_EQ(kept.count(), count);
  EXPECT_OK(put("ns", "b"));
  EXPECT_OK(put("other", "a"));
  EXPECT_EQ(kept.Release("ns", {last}), 1);
  EXPECT_OK(put("ns", "a"));
}

TEST_F(KeptTensorsTest, ARefusedOneLeavesNothing) {
  KeptTensors small(1, {.max_bytes = 1000});
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
