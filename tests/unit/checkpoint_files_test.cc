// Checkpoint files as such: what TensorFlow makes of them is tested in
// tests/e2e/checkpoint_test.py.

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "core/device/host_allocator.h"
#include "core/storage/checkpoint.h"
#include "core/storage/file.h"
#include "core/storage/files_dir.h"
#include "core/storage/object_graph.h"
#include "core/storage/tensor_bundle.h"
#include "tests/support/temp_folder.h"

namespace formwork {
namespace {

namespace fs = std::filesystem;

class CheckpointFilesTest : public ::testing::Test {
 protected:
  std::string In(const std::string& name) const { return folder_.path() + "/" + name; }
  Tensor Floats(std::vector<float> values, const Shape& shape) {
    Tensor tensor = *Tensor::Allocate(allocator_, DType::kFloat, shape);
    std::copy(values.begin(), values.end(), tensor.mutable_data<float>());
    return tensor;
  }
  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }
  int FilesLeft() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }

  HostAllocator allocator_;
  const testing::TempFolder folder_;
};

TEST_F(CheckpointFilesTest, CrcIsCastagnolis) {
  EXPECT_EQ(ExtendCrc32c(0, "123456789"), 0xe3069283u);
  EXPECT_EQ(ExtendCrc32c(ExtendCrc32c(0, "1234"), "56789"), 0xe3069283u);
}

TEST_F(CheckpointFilesTest, AFileThatIsNotKeptLeavesNothing) {
  Write(In("f"), "old");
  {
    const auto file = NewFile::Create(In("f"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append(std::string(100'000, 'x')).ok());
    EXPECT_EQ(FilesLeft(), 2);
  }
  EXPECT_EQ(FilesLeft(), 1);
  EXPECT_EQ(Content(In("f")), "old");
  const auto file = NewFile::Create(In("f"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("ne").ok());
  ASSERT_TRUE((*file)->Append("w").ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Keep().ok());
  EXPECT_EQ(Content(In("f")), "new");
}

TEST_F(CheckpointFilesTest, AFullDiskIsSaidToBeFull) {
  const rlimit before = [] {
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    return limit;
  }();
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  setrlimit(RLIMIT_FSIZE, &small);
  std::map<std::string, Tensor> values;
  values.emplace("v", Floats(std::vector<float>(1 << 20), {1 << 20}));
  const absl::Status bundle = WriteCheckpoint(In("c"), values).status();
  const absl::Status safetensors = WriteCheckpoint(In("c.safetensors"), values).status();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsResourceExhausted(bundle)) << bundle;
  EXPECT_TRUE(absl::IsResourceExhausted(safetensors)) << safetensors;
  EXPECT_EQ(FilesLeft(), 0);
}

TEST_F(CheckpointFilesTest, SlicesAreParsedAsTensorFlowWritesThem) {
  const auto slice = TensorSlice::Parse("4 6 2,2:-");
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_EQ(slice->full, Shape({4, 6}));
  EXPECT_EQ(slice->shape(), Shape({2, 6}));
  EXPECT_EQ(TensorSlice::Parse("3 0,0")->shape(), Shape({0}));
  for (const char* wrong : {"", "4", "4 6 0,2", "4 0,5", "4 3,2", "4 -1,2", "4 0,-1", "4 x",
                            "x 0,1", "4 0", "4 0,1:0,1", "-4 0,1", "4 9223372036854775807,2"}) {
    EXPECT_FALSE(TensorSlice::Parse(wrong).ok()) << wrong;
  }
}

TEST_F(CheckpointFilesTest, SlicesComeTogetherAndAreCutAgain) {
  const auto writer = BundleWriter::Create(In("c"));
  ASSERT_TRUE(writer.ok());
  const TensorSlice left = *TensorSlice::Parse("2 3 -:0,1"),
                    right = *TensorSlice::Parse("2 3 -:1,2");
  ASSERT_TRUE((*writer)->AddSlice("w", left, Floats({1, 4}, {2, 1})).ok());
  EXPECT_FALSE((*writer)->AddSlice("w", left, Floats({1, 4}, {2, 1})).ok());   // Twice.
  EXPECT_FALSE((*writer)->AddSlice("w", right, Floats({1, 4}, {2, 1})).ok());  // Another shape.
  ASSERT_TRUE((*writer)->AddSlice("w", right, Floats({2, 3, 5, 6}, {2, 2})).ok());
  EXPECT_FALSE((*writer)->Add("w", Floats({1}, {1})).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto reader = BundleReader::Open(In("c"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto whole = (*reader)->Read("w", allocator_);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->span<float>(), absl::Span<const float>({1, 2, 3, 4, 5, 6}));
  const auto part = (*reader)->ReadSlice("w", *TensorSlice::Parse("2 3 1,1:1,2"), allocator_);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->shape(), Shape({1, 2}));
  EXPECT_EQ(part->span<float>(), absl::Span<const float>({5, 6}));
  EXPECT_FALSE((*reader)->ReadSlice("w", *TensorSlice::Parse("3 3 1,1:1,2"), allocator_).ok());
  EXPECT_TRUE(absl::IsNotFound((*reader)->Read("x", allocator_).status()));
}

TEST_F(CheckpointFilesTest, ASliceThatIsMissingIsDataLoss) {
  const auto writer = BundleWriter::Create(In("c"));
  ASSERT_TRUE((*writer)->AddSlice("w", *TensorSlice::Parse("4 0,2"), Floats({1, 2}, {2})).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto reader = BundleReader::Open(In("c"));
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(absl::IsDataLoss((*reader)->Read("w", allocator_).status()));
}

TEST_F(CheckpointFilesTest, SlicesThatOverlapAreDataLoss) {
  // As many elements as there are, and yet the last is in none.
  const auto writer = BundleWriter::Create(In("c"));
  ASSERT_TRUE((*writer)->AddSlice("w", *TensorSlice::Parse("4 0,2"), Floats({1, 2}, {2})).ok());
  ASSERT_TRUE((*writer)->AddSlice("w", *TensorSlice::Parse("4 1,2"), Floats({2, 3}, {2})).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const absl::Status read = (*BundleReader::Open(In("c")))->Read("w", allocator_).status();
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  EXPECT_NE(read.message().find("'w' has slices that overlap"), std::string::npos) << read;
}

TEST_F(CheckpointFilesTest, MergingKeepsEachTensorAndRefusesTwoOfAKey) {
  for (const char* name : {"a", "b"}) {
    const auto writer = BundleWriter::Create(In(name));
    ASSERT_TRUE((*writer)->Add(name, Floats({float(name[0])}, {1})).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  ASSERT_TRUE(absl::IsInvalidArgument(MergeBundles({In("a"), In("a")}, In("m"))));
  ASSERT_TRUE(absl::IsNotFound(MergeBundles({In("a"), In("z")}, In("m"))));
  ASSERT_TRUE(MergeBundles({In("a"), In("b")}, In("m")).ok());
  EXPECT_EQ(FilesLeft(), 3);
  const auto reader = BundleReader::Open(In("m"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->Read("b", allocator_)->scalar<float>(), float('b'));
}

// Before memory of its size is taken.
TEST_F(CheckpointFilesTest, ABlockThatIsNotThereIsDataLoss) {
  const auto writer = BundleWriter::Create(In("a"));
  ASSERT_TRUE((*writer)->Add("a", Floats({1}, {1})).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const std::string whole = Content(In("a.index"));
  const size_t footer = whole.size() - 48;
  const std::string huge = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
  // The handles of the meta index and the index: an offset and a size, each in a byte or two here.
  for (size_t at = 0; at < 4; ++at) {
    std::string damaged = whole;
    damaged.replace(footer + at, huge.size(), huge);
    Write(In("a.index"), damaged);
    const absl::Status status = BundleReader::Open(In("a")).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
    EXPECT_NE(status.message().find("a.index' names a block that it does not have"),
              absl::string_view::npos)
        << at << ": " << status;
  }
  Write(In("a.index"), whole);
  EXPECT_TRUE(BundleReader::Open(In("a")).ok());
}

TEST_F(CheckpointFilesTest, NamesOfObjectsThatShareOneAreLeftOut) {
  const auto names = VariableNames(MakeObjectGraph({"a/b", "a", "c.d"}));
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(names->size(), 3);
  EXPECT_EQ(names->at("c..d/.ATTRIBUTES/VARIABLE_VALUE"), "c.d");
  EXPECT_EQ(PathOfKey("c..d/.ATTRIBUTES/VARIABLE_VALUE"), "c.d");
  EXPECT_EQ(PathOfKey("c/.ATTRIBUTES/OBJECT_CONFIG_JSON"), "");
  EXPECT_TRUE(absl::IsDataLoss(VariableNames("\xff\xff").status()));
}

// Whatever stands in a safetensors header, it is read or refused.
TEST_F(CheckpointFilesTest, SafetensorsHeadersAreChecked) {
  const auto open = [&](std::string header, size_t data, int64_t declared = -1) {
    const uint64_t size = declared < 0 ? header.size() : static_cast<uint64_t>(declared);
    std::string content(reinterpret_cast<const char*>(&size), sizeof(size));
    content += header + std::string(data, '\0');
    Write(In("f.safetensors"), content);
    return SafetensorsReader::Open(In("f.safetensors")).status();
  };
  EXPECT_TRUE(open(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8).ok());
  for (const char* wrong :
       {"", "[]", "{", R"({"a":1})", R"({"a":{"dtype":"F32","shape":[2]}})",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
        R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})"}) {
    EXPECT_TRUE(absl::IsDataLoss(open(wrong, 8))) << wrong;
  }
  EXPECT_TRUE(
      absl::IsUnimplemented(open(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}})", 8)));
  EXPECT_TRUE(absl::IsDataLoss(open("{}", 0, 3)));
  EXPECT_TRUE(absl::IsDataLoss(open("{}", 0, INT64_MAX)));
  EXPECT_TRUE(absl::IsDataLoss(open(std::string(100'000, '['), 0)));
}

TEST_F(CheckpointFilesTest, PathsStayInTheFolder) {
  fs::create_directory(In("in"));
  fs::create_directory_symlink("/tmp", In("in/out"));
  EXPECT_EQ(PathInFolder(In("in"), "a/../b")->path, fs::canonical(In("in")).string() + "/b");
  for (const char* wrong : {"..", "../in2/x", "out/x", "/etc/passwd", ".", "a/.."}) {
    EXPECT_TRUE(absl::IsPermissionDenied(PathInFolder(In("in"), wrong).status())) << wrong;
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(PathInFolder("", "a").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(PathInFolder(In("nowhere"), "a").status()));
}

}  // namespace
}  // namespace formwork
