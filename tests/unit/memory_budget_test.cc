#include "core/base/memory_budget.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/reason.h"
#include "core/base/system_memory.h"
#include "core/base/thread_pool.h"
#include "core/device/host_allocator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace formwork {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr size_t kMiB = size_t{1} << 20;

// The process's resident memory.
size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  size_t resident = 0;
  file >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(MemoryBudgetTest, RefusesWithWhatIsWantedUsedAndTheLimit) {
  MemoryBudget budget(100 * kMiB);
  ASSERT_TRUE(budget.Reserve(60 * kMiB).ok());
  const absl::Status refused = budget.Reserve(50 * kMiB);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), Reason::kMemoryLimit);
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("wanted=52428800"), HasSubstr("used="), HasSubstr("limit=104857600")));
  EXPECT_EQ(budget.refusals(), 1u);
  budget.Release(60 * kMiB);
  EXPECT_TRUE(budget.Reserve(50 * kMiB).ok());
}

TEST(MemoryBudgetTest, BoundsWhatIsTakenAtOnce) {
  MemoryBudget budget(100 * kMiB, 10 * kMiB);
  EXPECT_TRUE(budget.TryReserve(10 * kMiB));
  EXPECT_THAT(std::string(budget.Reserve(11 * kMiB).message()), HasSubstr("at once"));
  EXPECT_FALSE(budget.Fits(~size_t{0}));
}

TEST(MemoryBudgetTest, SizesThatWouldOverflowAreRefused) {
  MemoryBudget budget(100 * kMiB);
  ASSERT_TRUE(budget.TryReserve(kMiB));
  EXPECT_FALSE(budget.TryReserve(~size_t{0}));
  EXPECT_FALSE(budget.TryReserve(~size_t{0} - kMiB / 2));
  EXPECT_LT(budget.used(), 50 * kMiB);
}

TEST(MemoryBudgetTest, AReservationGoesBackOnce) {
  MemoryBudget budget(100 * kMiB);
  const size_t before = budget.used();
  {
    absl::StatusOr<MemoryReservation> taken = MemoryReservation::Take(budget, 40 * kMiB);
    ASSERT_TRUE(taken.ok());
    MemoryReservation moved = *std::move(taken);
    EXPECT_EQ(moved.bytes(), 40 * kMiB);
    MemoryReservation other;
    other = std::move(moved);
    EXPECT_GE(budget.used(), before + 39 * kMiB);
    EXPECT_FALSE(MemoryReservation::Take(budget, 90 * kMiB).ok());
  }
  EXPECT_LT(budget.used(), before + kMiB);
}

TEST(MemoryBudgetTest, CountsTheHeapOfAllThreads) {
  MemoryBudget budget(0);
  const size_t before = budget.used();
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i) texts.emplace_back(10000, 'x');
  EXPECT_NEAR(static_cast<double>(budget.used() - before), 10e6, 1e6);
  // Given back by another thread, and by threads that end before they have given back much.
  for (int t = 0; t < 100; ++t) {
    std::thread([&] {
      for (int i = 0; i < 10; ++i) texts.pop_back();
    }).join();
  }
  EXPECT_NEAR(static_cast<double>(budget.used()), static_cast<double>(before), 5e5);
}

TEST(MemoryBudgetTest, TheHeapIsRefusedBeforeItIsTaken) {
  MemoryBudget budget(100 * kMiB);
  const size_t resident = ResidentBytes();
  const absl::Status large = HoldToBudget(budget, []() -> absl::Status {
    std::string text(size_t{4} << 30, 'x');
    return text.empty() ? absl::OkStatus() : absl::UnknownError("it was there");
  });
  EXPECT_EQ(large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(large.message()), HasSubstr("limit=104857600"));
  const absl::Status many = HoldToBudget(budget, []() -> absl::Status {
    std::vector<std::unique_ptr<std::string>> texts;
    while (true) texts.push_back(std::make_unique<std::string>(100, 'x'));
  });
  EXPECT_EQ(many.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(ResidentBytes(), resident + 400 * kMiB);
  EXPECT_TRUE(budget.Reserve(50 * kMiB).ok()) << "what was thrown away is counted off";
}

TEST(MemoryBudgetTest, TasksOfAParallelForAreHeldToTheCallersBudget) {
  SetParallelThreads(2);
  MemoryBudget budget(100 * kMiB);
  const absl::Status status = HoldToBudget(budget, []() -> absl::Status {
    ParallelFor(64, 1, [](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::string(size_t{1} << 30, 'x').shrink_to_fit();
    });
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(HeapScope::current(), nullptr);
}

TEST(MemoryShareTest, ACallIsHeldToItsShareOfHeapAndBlocks) {
  MemoryBudget budget(1000 * kMiB);
  HostAllocator allocator(&budget);
  MemoryShare share(50 * kMiB);
  std::vector<Buffer> kept;
  const absl::Status blocks = HoldToBudget(budget, &share, [&]() -> absl::Status {
    { Buffer freed(*allocator.Allocate(32 * kMiB, nullptr)); }
    kept.emplace_back(*allocator.Allocate(32 * kMiB, nullptr));
    return allocator.Allocate(32 * kMiB, nullptr).status();
  });
  EXPECT_EQ(blocks.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(blocks), Reason::kMemoryLimit);
  EXPECT_THAT(std::string(blocks.message()),
              AllOf(HasSubstr("--max-call-bytes"), HasSubstr("limit=52428800")));
  const absl::Status heap = HoldToBudget(budget, &share, []() -> absl::Status {
    std::vector<std::unique_ptr<std::string>> texts;
    while (true) texts.push_back(std::make_unique<std::string>(1000, 'x'));
  });
  EXPECT_THAT(std::string(heap.message()), HasSubstr("limit=52428800"));
  EXPECT_NEAR(static_cast<double>(share.used()), 32.0 * kMiB, 1.0 * kMiB) << "all but what is kept";
  EXPECT_EQ(HeapScope::share(), nullptr);
  Buffer outside(*allocator.Allocate(100 * kMiB, nullptr));
  EXPECT_TRUE(outside);
}

TEST(MemoryBudgetTest, WhatTheLibraryThrowsBecomesAStatus) {
  EXPECT_EQ(CatchOutOfMemory([]() -> absl::Status {
              std::vector<int> v;
              v.reserve(~size_t{0} / 2);
              return absl::OkStatus();
            }).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CatchOutOfMemory([]() -> absl::StatusOr<int> {
              throw std::system_error(std::make_error_code(std::errc::no_such_process));
            })
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(HostAllocatorTest, KeptBlocksCountAndGoWhereOthersNeedThem) {
  MemoryBudget budget(100 * kMiB);
  HostAllocator allocator(&budget, 64 * kMiB);
  { Buffer block(*allocator.Allocate(40 * kMiB, nullptr)); }
  EXPECT_EQ(allocator.bytes_in_use(), 0u);
  EXPECT_GE(allocator.bytes_cached(), 40 * kMiB);
  EXPECT_GE(budget.used(), 40 * kMiB);
  EXPECT_TRUE(budget.Reserve(90 * kMiB).ok()) << "the cache is given back for it";
  EXPECT_EQ(allocator.bytes_cached(), 0u);
  EXPECT_EQ(allocator.Allocate(20 * kMiB, nullptr).status().code(),
            absl::StatusCode::kResourceExhausted);
  budget.Release(90 * kMiB);
  { Buffer block(*allocator.Allocate(40 * kMiB, nullptr)); }
  allocator.ReleaseCache();
  EXPECT_LT(budget.used(), 5 * kMiB);
}

TEST(HostAllocatorTest, SmallBlocksAreHeldToTheLimitOfAScope) {
  MemoryBudget budget(50 * kMiB);
  HostAllocator allocator(&budget);
  std::vector<Buffer> blocks;
  const absl::Status status = HoldToBudget(budget, [&]() -> absl::Status {
    while (true) {
      absl::StatusOr<BufferBlock*> block = allocator.Allocate(4 << 10, nullptr);
      if (!block.ok()) return block.status();
      blocks.emplace_back(*block);
    }
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NEAR(static_cast<double>(blocks.size()), 12'500, 1'000);
}

TEST(HostAllocatorTest, BlocksAboveFourKiBAreKeptForReuse) {
  HostAllocator allocator;
  for (size_t bytes = (4 << 10) + 1; bytes < 300'000; bytes += bytes / 3) {
    const void* data;
    {
      const Buffer block(*allocator.Allocate(bytes, nullptr));
      data = block.data();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    }
    const size_t cached = allocator.bytes_cached();
    EXPECT_GE(cached, bytes);
    EXPECT_LE(cached, bytes + bytes / 4);
    EXPECT_EQ(Buffer(*allocator.Allocate(bytes, nullptr)).data(), data);
    allocator.ReleaseCache();
  }
  { const Buffer small(*allocator.Allocate(4 << 10, nullptr)); }
  EXPECT_EQ(allocator.bytes_cached(), 0u);
}

class SystemMemoryTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  const TempFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(SystemMemoryTest, IsTheMachinesWithoutCgroups) {
  EXPECT_EQ(SystemMemoryBytes(root_), 0u);
  Write("/proc/meminfo", "MemTotal:       1000 kB\nMemFree:  7 kB\n");
  EXPECT_EQ(SystemMemoryBytes(root_), 1000u << 10);
  EXPECT_GT(SystemMemoryBytes(), 64 * kMiB);
}

TEST_F(SystemMemoryTest, IsTheLeastOfTheCgroupsAbove) {
  Write("/proc/meminfo", "MemTotal:       1000000 kB\n");
  Write("/proc/self/cgroup", "0::/system.slice/app.service\n");
  Write("/sys/fs/cgroup/system.slice/app.service/memory.max", "max\n");
  EXPECT_EQ(SystemMemoryBytes(root_), 1000000u << 10);
  Write("/sys/fs/cgroup/system.slice/memory.max", "5000000\n");
  EXPECT_EQ(SystemMemoryBytes(root_), 5000000u);
  Write("/sys/fs/cgroup/system.slice/app.service/memory.max", "4000000\n");
  EXPECT_EQ(SystemMemoryBytes(root_), 4000000u);
}

TEST_F(SystemMemoryTest, KnowsTheFirstVersionInAContainer) {
  Write("/proc/meminfo", "MemTotal:       1000000 kB\n");
  // The path is the host's: the mount shows the container's own cgroup as its root.
  Write("/proc/self/cgroup", "9:cpu,cpuacct:/docker/1f\n4:memory:/docker/1f\n1:name=systemd:/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000\n");
  EXPECT_EQ(SystemMemoryBytes(root_), 6000000u);
}

TEST(ThreadPoolTest, SaysHowManyThreadsItHas) {
  EXPECT_EQ(ThreadPool(3).threads(), 11) << "eight of them stand by";
  EXPECT_EQ(ThreadPool(20).threads(), 40);
}

}  // namespace
}  // namespace formwork
