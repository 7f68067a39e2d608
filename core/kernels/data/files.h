#pragma once

// Datasets of what files have: those of the folder that the server has for them, each looked up
// when its turn comes.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/data/dataset.h"
#include "core/storage/input_stream.h"

namespace formwork {

/// Reads the elements of one file. Used by one thread at a time.
class FileReader {
 public:
  virtual ~FileReader() = default;
  /// Adds the components of the next element to `element`, which is empty; false at the end.
  virtual absl::StatusOr<bool> Next(Element& element) = 0;
  /// Whether more may follow what Next has just failed at; else the file is given up.
  virtual bool goes_on() const { return false; }
};

/// Begins to read the `i`-th file; `name` is what errors call it.
using OpenReader = absl::AnyInvocable<absl::StatusOr<std::unique_ptr<FileReader>>(
    std::unique_ptr<InputStream>, const std::string& name, size_t i) const>;

struct Files {
  std::vector<std::string> names;
  Compression compression = Compression::kNone;
  OpenReader open;
};

/// The elements of all files, one behind the other. Where one is given up, the next follows.
std::shared_ptr<Dataset> FilesDataset(ElementSpec spec, Files files);

// Inputs of ops that read files. Errors: kInvalidArgument, in TensorFlow's words.

/// Input 0.
absl::StatusOr<std::vector<std::string>> FileNames(KernelContext& ctx);
absl::StatusOr<Compression> CompressionFrom(KernelContext& ctx, int i);
/// What TensorFlow reads at once; here blocks have one size. `least`: -1 where that asks for the
/// default.
absl::Status CheckBufferSize(KernelContext& ctx, int i, int64_t least);

/// An element of so many bytes may be read. Errors: kResourceExhausted.
absl::Status CheckText(uint64_t bytes);

}  // namespace formwork
