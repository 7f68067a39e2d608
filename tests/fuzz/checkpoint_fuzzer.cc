// Feeds the readers of checkpoints and safetensors with what is nearly one: files that are edited,
// and of a checkpoint also its index, before its checksums are made.

#include <google/protobuf/stubs/logging.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/storage/checkpoint.h"
#include "core/storage/file.h"
#include "core/storage/object_graph.h"
#include "core/storage/sorted_table.h"
#include "formwork/tf/tensor_bundle.pb.h"
#include "tests/fuzz/edits.h"
#include "tests/support/temp_folder.h"

namespace formwork {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;  // Content by name.

constexpr char kCheckpoint[] = "c";
constexpr char kIndex[] = "c.index";
constexpr char kSafetensors[] = "s.safetensors";

std::string Content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct World {
  World() {
    google::protobuf::SetLogHandler(nullptr);
    std::map<std::string, Tensor> values;
    values["half"] = Zeros(DType::kHalf, Shape({3, 2}));
    values["scalar"] = Tensor::Scalar(7.0f);
    const Tensor texts = *Tensor::Allocate(allocator, DType::kString, Shape({3}));
    values["wide"] = Zeros(DType::kInt64, Shape({5}));
    for (const char* path : {kCheckpoint, kSafetensors}) {
      std::map<std::string, Tensor> of_format = values;
      if (std::string(path) == kCheckpoint) of_format["texts"] = texts;
      if (!WriteCheckpoint(In(path), std::move(of_format)).ok()) std::abort();
    }
    // One that is in parts.
    auto writer = BundleWriter::Create(In("p"));
    if (!writer.ok()) std::abort();
    for (int part = 0; part < 2; ++part) {
      TensorSlice slice;
      slice.full = Shape({4, 2});
      slice.ranges = {{part * 2, 2}, {0, -1}};
      const Tensor value = Zeros(DType::kFloat, Shape({2, 2}));
      if (!(*writer)->AddSlice("parts", slice, value).ok()) std::abort();
    }
    if (!(*writer)->Finish().ok()) std::abort();
    for (const auto& entry : fs::directory_iterator(folder)) {
      files[entry.path().filename().string()] = Content(entry.path());
    }
    for (const char* index : {kIndex, "p.index"}) {
      const auto file = OldFile::Open(In(index));
      if (!file.ok()) std::abort();
      const absl::Status read =
          ReadTable(**file, [&](absl::string_view key, absl::string_view value) {
            entries[index][std::string(key)] = std::string(value);
            return absl::OkStatus();
          });
      if (!read.ok()) std::abort();
    }
  }
  Tensor Zeros(DType dtype, const Shape& shape) {
    Tensor value = *Tensor::Allocate(allocator, dtype, shape);
    std::memset(value.mutable_raw(), 0, value.bytes());
    return value;
  }
  std::string In(const std::string& name) const { return folder + "/" + name; }

  MemoryBudget budget{size_t{256} << 20};
  HostAllocator allocator{&budget};
  const testing::TempFolder made;
  const std::string folder = made.path();
  Files files;
  std::map<std::string, std::map<std::string, std::string>> entries;  // Of the indices, by file.
};

void ReadAll(const World& world, const std::string& name, Allocator& allocator) {
  HoldToBudget(const_cast<MemoryBudget&>(world.budget), [&]() -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(world.In(name), allocator));
    for (const auto& [key, variable] : reader->variables()) {
      reader->Read(variable, allocator).status().IgnoreError();
    }
    return absl::OkStatus();
  }).IgnoreError();
}

void Run(const uint8_t* data, size_t size) {
  static World* const world = new World;
  FuzzBytes bytes(data, size);
  Files files = world->files;
  switch (bytes.Byte() % 4) {
    case 0:
      VariableNames(bytes.Bytes(size)).status().IgnoreError();
      return;
    case 1: {
      const bool in_parts = bytes.Byte() % 2 == 1;
      const char* const index = in_parts ? "p.index" : kIndex;
      std::map<std::string, std::string> entries = world->entries.at(index);
      while (!bytes.empty()) {
        const auto chosen = std::next(entries.begin(), bytes.Byte() % int64_t(entries.size()));
        if (chosen->first.empty()) {
          EditMessage<tf::BundleHeaderProto>(bytes, chosen->second);
        } else if (bytes.Byte() % 4 == 0) {
          Edit(bytes, entries);
        } else {
          EditMessage<tf::BundleEntryProto>(bytes, chosen->second);
        }
        if (entries.empty()) break;
      }
      const std::string made = world->In("made");
      fs::remove(made);
      auto file = NewFile::Create(made);
      if (!file.ok() || !WriteTable(entries, **file).ok() || !(*file)->Sync().ok() ||
          !(*file)->Keep().ok()) {
        return;
      }
      files[index] = Content(made);
      break;
    }
    case 2: {
      Files safetensors = {{kSafetensors, files[kSafetensors]}};
      while (!bytes.empty()) Edit(bytes, safetensors);
      files[kSafetensors] = safetensors[kSafetensors];
      break;
    }
    default:
      while (!bytes.empty()) Edit(bytes, files);
  }
  for (const auto& entry : fs::directory_iterator(world->folder)) fs::remove(entry.path());
  for (const auto& [name, content] : files) {
    std::ofstream(world->In(name), std::ios::binary) << content;
  }
  for (const char* name : {kCheckpoint, "p", kSafetensors}) {
    ReadAll(*world, name, world->allocator);
  }
}

}  // namespace
}  // namespace formwork

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  formwork::Run(data, size);
  return 0;
}
