// What namespaces hold, counted and limited.

#include "core/base/namespace_usage.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::StatusIs;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(NamespaceUsage, AreKnownWhileSomethingIsCounted) {
  NamespaceUsages usages({});
  {
    UsageItem item, moved;
    ASSERT_OK(item.Begin(usages.Of("a"), Held::kVariable, 7));
    EXPECT_EQ(usages.List()[0].of(Held::kVariable).bytes, 7u);
    UsageItem taken(std::move(item));
    EXPECT_EQ(usages.List()[0].bytes(), 7u);
    taken.End();
    taken.End();
    EXPECT_THAT(usages.List(), IsEmpty());
    EXPECT_NE(usages.Find("a"), nullptr);
    EXPECT_OK(taken.Resize(100));  // It is not counted any more.
    EXPECT_THAT(usages.List(), IsEmpty());
  }
  EXPECT_EQ(usages.Find("a"), nullptr);
  for (int i = 0; i < 1000; ++i) usages.Of(absl::StrCat("n", i));
  EXPECT_EQ(usages.Find("n0"), nullptr);
}

TEST(NamespaceUsage, DurabilityIsOfThoseInWhichNothingIsCounted) {
  NamespaceUsages usages({}, Durability::kSnapshot);
  EXPECT_EQ(usages.DurabilityOf("a"), Durability::kSnapshot);
  ASSERT_OK(usages.SetDurability("a", Durability::kSync));
  EXPECT_EQ(usages.DurabilityOf("a"), Durability::kSync);
  EXPECT_EQ(usages.DurabilityOf("b"), Durability::kSnapshot);
  ASSERT_THAT(usages.List(), SizeIs(1));
  EXPECT_EQ(usages.List()[0].durability, Durability::kSync);
  UsageItem item;
  ASSERT_OK(item.Begin(usages.Of("a"), Held::kVariable, 7));
  EXPECT_EQ(usages.Of("a")->durability(), Durability::kSync);
  EXPECT_OK(usages.SetDurability("a", Durability::kSync));
  for (const std::optional<Durability> other :
       {std::optional(Durability::kMemory), std::optional<Durability>()}) {
    EXPECT_THAT(usages.SetDurability("a", other), StatusIs(absl::StatusCode::kFailedPrecondition));
  }
  EXPECT_EQ(usages.DurabilityOf("a"), Durability::kSync);
  const std::shared_ptr<NamespaceUsage> held = usages.Of("a");
  item.End();
  ASSERT_OK(usages.SetDurability("a", std::nullopt));
  EXPECT_EQ(held->durability(), Durability::kSnapshot);
  EXPECT_THAT(usages.List(), IsEmpty());
  EXPECT_THAT(usages.durabilities(), IsEmpty());
}

TEST(NamespaceUsage, AChangeOfDurabilityIsSeenByAllThreadsAtOnce) {
  NamespaceUsages usages({}, Durability::kSnapshot), others({}, Durability::kSnapshot);
  const std::string long_name(100, 'n');
  ASSERT_OK(others.SetDurability("b", Durability::kMemory));
  ASSERT_OK(usages.SetDurability("b", Durability::kSync));
  std::atomic<int> turn{0}, seen{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 1; i <= 200; ++i) {
        while (turn.load() < i) std::this_thread::yield();
        for (const std::string& name : {std::string("a"), long_name}) {
          for (int twice = 0; twice < 2; ++twice) {
            EXPECT_EQ(usages.DurabilityOf(name), i % 3 == 0   ? Durability::kSnapshot
                                                 : i % 3 == 1 ? Durability::kSync
                                                              : Durability::kMemory);
          }
        }
        EXPECT_EQ(usages.DurabilityOf("b"), Durability::kSync);
        EXPECT_EQ(others.DurabilityOf("b"), Durability::kMemory);
        ++seen;
      }
    });
  }
  for (int i = 1; i <= 200; ++i) {
    const std::optional<Durability> own =
        i % 3 == 0 ? std::nullopt
                   : std::optional(i % 3 == 1 ? Durability::kSync : Durability::kMemory);
    ASSERT_OK(usages.SetDurability("a", own));
    ASSERT_OK(usages.SetDurability(long_name, own));
    turn = i;
    while (seen.load() < 2 * i) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NamespaceUsage, OneThatGoesForAnotherMakesRoom) {
  NamespaceUsages usages({.bytes = 10, .functions = 1});
  UsageItem first, second;
  ASSERT_OK(first.Begin(usages.Of("a"), Held::kFunction, 8));
  EXPECT_THAT(second.Begin(usages.Of("a"), Held::kFunction, 1),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(second.Begin(usages.Of("a"), Held::kFunction, 11, &first),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(usages.List()[0].bytes(), 8u);
  ASSERT_OK(second.Begin(usages.Of("a"), Held::kFunction, 10, &first));
  first.End();
  EXPECT_EQ(usages.List()[0].of(Held::kFunction).count, 1);
  EXPECT_EQ(usages.List()[0].bytes(), 10u);
}

TEST(NamespaceUsage, ManyThreadsStayWithinTheLimitAndLeaveNothing) {
  constexpr uint64_t kLimit = 1000;
  NamespaceUsages usages({.bytes = kLimit, .resources = 8});
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 2000; ++i) {
        std::vector<UsageItem> items(10);
        for (UsageItem& item : items) {
          if (!item.Begin(usages.Of("a"), Held::kVariable, (i + t) % 40).ok()) ++refused;
          if (!item.Resize((i * 7 + t) % 60).ok()) ++refused;
        }
        for (const NamespaceHoldings& held : usages.List()) {
          EXPECT_LE(held.bytes(), kLimit);
          EXPECT_LE(held.of(Held::kVariable).count, 8);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(refused.load(), 0);
  EXPECT_EQ(usages.Find("a"), nullptr);
}

}  // namespace
}  // namespace formwork
