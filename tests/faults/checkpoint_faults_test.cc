// Checkpoints on a disk that fails.

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/storage/checkpoint.h"
#include "tests/faults/faulty_files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using Call = FaultyFiles::Call;
using Kind = FaultyFiles::Kind;
using Outcome = FaultyFiles::Outcome;

constexpr int64_t kElements = 100'000;
constexpr int kMostCalls = 1000;

// Of both formats.
class CheckpointFaultsTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return folder_.path() + "/" + GetParam(); }
  absl::Status Write(float number) {
    std::map<std::string, Tensor> values;
    for (const char* name : {"a", "b"}) {
      Tensor value = *Tensor::Allocate(allocator_, DType::kFloat, Shape({kElements}));
      for (float& element : value.mutable_span<float>()) element = number;
      values.emplace(name, std::move(value));
    }
    return WriteCheckpoint(path(), std::move(values)).status();
  }
  // What all of it is; kDataLoss where it is not all one number.
  absl::StatusOr<float> Read() {
    FORMWORK_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(path(), allocator_));
    std::vector<float> elements;
    for (const auto& [name, variable] : reader->variables()) {
      FORMWORK_ASSIGN_OR_RETURN(const Tensor value, reader->Read(variable, allocator_));
      elements.insert(elements.end(), value.span<float>().begin(), value.span<float>().end());
    }
    if (elements != std::vector<float>(2 * kElements, elements.empty() ? 0 : elements[0])) {
      return absl::DataLossError("half of one and half of another");
    }
    return elements[0];
  }
  int FilesLeft() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }

  HostAllocator allocator_;
  const TempFolder folder_;
};

TEST_P(CheckpointFaultsTest, WritesAndReadsThatDoLessThanAskedGoOn) {
  const FaultyFiles faults(
      folder_.path(), [](const Call& call) -> Outcome { return {.bytes = call.bytes / 2 + 1}; });
  ASSERT_OK(Write(3));
  ASSERT_OK_AND_ASSIGN(const float number, Read());
  EXPECT_EQ(number, 3);
}

TEST_P(CheckpointFaultsTest, WhereverWritingFailsNoHalfIsThere) {
  for (const auto& [error, code] : {std::pair(ENOSPC, StatusCode::kResourceExhausted),
                                    std::pair(EIO, StatusCode::kUnavailable)}) {
    int64_t failing = 0;
    for (bool failed = true; failed;) {
      ASSERT_LT(++failing, kMostCalls);
      ASSERT_OK(Write(1));
      const int files = FilesLeft();
      failed = false;
      absl::Status written;
      {
        int64_t changes = 0;
        const FaultyFiles faults(folder_.path(), [&, error = error](const Call& call) -> Outcome {
          if (!call.changes() || ++changes != failing) return {};
          failed = true;
          return {.bytes = call.bytes / 2, .error = error};
        });
        written = Write(2);
      }
      SCOPED_TRACE(failing);
      const absl::StatusOr<float> read = Read();
      if (written.ok()) {  // Or what has failed was the removal of what is no longer there.
        EXPECT_EQ(read.value_or(0), 2);
        continue;
      }
      EXPECT_THAT(written, StatusIs(code, ::testing::HasSubstr(folder_.path())));
      EXPECT_TRUE(read.ok() ? *read == 1 || *read == 2 : absl::IsNotFound(read.status()))
          << read.status();
      EXPECT_LE(FilesLeft(), files);
    }
    EXPECT_GT(failing, 5);
  }
}

TEST_P(CheckpointFaultsTest, AReadThatFailsIsTold) {
  ASSERT_OK(Write(1));
  int64_t failing = 0;
  for (bool failed = true; failed;) {
    ASSERT_LT(++failing, kMostCalls);
    failed = false;
    int64_t reads = 0;
    const FaultyFiles faults(folder_.path(), [&](const Call& call) -> Outcome {
      if (call.kind != Kind::kRead || ++reads != failing) return {};
      failed = true;
      return {.bytes = call.bytes / 2, .error = EIO};
    });
    const absl::StatusOr<float> read = Read();
    if (failed) {
      EXPECT_THAT(read.status(),
                  StatusIs(StatusCode::kUnavailable, ::testing::HasSubstr(folder_.path())));
    } else {
      EXPECT_EQ(read.value_or(0), 1);
    }
  }
  EXPECT_GT(failing, 3);
}

TEST_P(CheckpointFaultsTest, WhatIsNotSyncedIsNotRelied) {
  ASSERT_OK(Write(1));
  FaultyFiles faults(folder_.path(), [](const Call&) -> Outcome { return {}; });
  ASSERT_OK(Write(2));
  faults.LoseWhatWasNotSynced();
  EXPECT_EQ(Read().value_or(0), 2);
}

INSTANTIATE_TEST_SUITE_P(Formats, CheckpointFaultsTest, ::testing::Values("c", "c.safetensors"));

}  // namespace
}  // namespace formwork::testing
