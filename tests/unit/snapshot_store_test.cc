// The database below snapshots: how fast it is written, and in which pieces.

#include "core/storage/snapshot_store.h"

#include <cstring>
#include <filesystem>

#include "absl/time/clock.h"
#include "core/device/host_allocator.h"
#include "core/storage/stored_pieces.h"
#include "rocksdb/db.h"
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

TEST(SnapshotStorePiecesTest, LargerOnesAreReadAndRemoved) {
  const TempFolder folder;
  HostAllocator allocator;
  Tensor value = *Tensor::Allocate(allocator, DType::kUint8, Shape({5 * kPieceBytes / 2}));
  for (size_t i = 0; i < value.bytes(); ++i) value.mutable_data<uint8_t>()[i] = i * i / 256 % 256;
  const StoredKey key{StoredKey::Of::kResource, 1, 1};
  ASSERT_OK((*SnapshotStore::Open(folder.path()))->Put(key, {value}, /*logged=*/true).status());
  {  // As a format with pieces of twice as much would have it: two where there were three.
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), folder.path(), &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    std::string first, second, third;
    ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), PieceKey(key, 0), &first).ok());
    ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), PieceKey(key, 1), &second).ok());
    ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), PieceKey(key, 2), &third).ok());
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), PieceKey(key, 0), first + second).ok());
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), PieceKey(key, 1), third).ok());
    ASSERT_TRUE(db->Delete(rocksdb::WriteOptions(), PieceKey(key, 2)).ok());
  }
  auto store = *SnapshotStore::Open(folder.path());
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> read, store->Get(key, allocator));
  ASSERT_EQ(read.size(), 1u);
  ASSERT_EQ(read[0].bytes(), value.bytes());
  EXPECT_EQ(std::memcmp(read[0].raw(), value.raw(), value.bytes()), 0);
  ASSERT_OK(store->Remove(key));
  ASSERT_OK(store->Commit(nullptr, nullptr));
  store.reset();
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), folder.path(), &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::string left;
  for (const uint64_t piece : {0, 1, 2}) {
    EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), PieceKey(key, piece), &left).IsNotFound());
  }
}

}  // namespace
}  // namespace formwork::testing
