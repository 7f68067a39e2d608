// The database below snapshots: how fast it is written.

#include "core/storage/snapshot_store.h"

#include <cstring>
#include <filesystem>

#include "absl/time/clock.h"
#include "core/device/host_allocator.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace formwork::testing {
namespace {

TEST(SnapshotStorePaceTest, IsWrittenAtThePaceThatItIsTold) {
  const TempFolder folder;
  auto store = *SnapshotStore::Open(folder.path());
  HostAllocator allocator;
  Tensor value = *Tensor::Allocate(allocator, DType::kUint8, Shape({64 << 20}));
  std::memset(value.mutable_raw(), 1, value.bytes());
  const auto write = [&](uint64_t version) {
    const absl::Time begun = absl::Now();
    EXPECT_OK(store->Put({StoredKey::Of::kResource, 1, version}, {value}).status());
    EXPECT_OK(store->Commit(nullptr, nullptr));
    return absl::Now() - begun;
  };
  store->SetPace(uint64_t{64} << 20);  // What is over of the pace before may be 20 MiB.
  EXPECT_GT(write(1), absl::Milliseconds(500));
  store->SetPace(0);
  write(2);
  // It is the same at any pace, and nothing is left of how the disk was tried.
  EXPECT_OK(store->Get({StoredKey::Of::kResource, 1, 1}, allocator).status());
  EXPECT_OK(store->Get({StoredKey::Of::kResource, 1, 2}, allocator).status());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/direct.probe"));
}

}  // namespace
}  // namespace formwork::testing
