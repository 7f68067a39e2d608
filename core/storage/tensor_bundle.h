#pragma once

// TensorFlow's checkpoint format, the tensor bundle (version 2): of a checkpoint PREFIX the files
// PREFIX.index, a sorted table of what is where, and PREFIX.data-00000-of-00001 and so on, the
// elements. Follows tensorflow/core/util/tensor_bundle.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/storage/file.h"
#include "core/storage/tensor_slice.h"
#include "core/tensor/tensor.h"
#include "formwork/tf/tensor_bundle.pb.h"

namespace formwork {

/// Writes one. For one thread. Errors: NewFile's; kInvalidArgument if a key comes twice;
/// kUnimplemented for dtypes that have no bytes.
class BundleWriter {
 public:
  static absl::StatusOr<std::unique_ptr<BundleWriter>> Create(const FilePath& prefix);

  absl::Status Add(absl::string_view key, const Tensor& value);
  /// A part of the tensor of that key. The parts must not overlap; whoever reads them wants all.
  absl::Status AddSlice(absl::string_view key, const TensorSlice& slice, const Tensor& value);
  /// The checkpoint is there, in place of one of that prefix.
  absl::Status Finish();
  uint64_t bytes() const { return data_->size(); }

 private:
  BundleWriter(FilePath prefix, std::unique_ptr<NewFile> data)
      : prefix_(std::move(prefix)), data_(std::move(data)) {}

  const FilePath prefix_;
  std::unique_ptr<NewFile> data_;
  std::map<std::string, tf::BundleEntryProto> entries_;
};

/// Reads one. Thread-safe. Errors of all methods: OldFile's; kDataLoss if the files are damaged.
class BundleReader {
 public:
  struct Entry {
    DType dtype = DType::kInvalid;
    Shape shape;
    uint32_t shard = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint32_t crc32c = 0;              // Masked.
    std::vector<TensorSlice> slices;  ///< Of a partitioned tensor, which has no bytes itself.
  };

  /// Errors: also kUnimplemented if another kind of machine has written it.
  static absl::StatusOr<std::unique_ptr<BundleReader>> Open(const FilePath& prefix);

  /// By key; those of slices, whose keys begin with a NUL, among them.
  const std::map<std::string, Entry>& entries() const { return entries_; }
  /// Errors: also kNotFound; kResourceExhausted if there is no memory for it.
  absl::StatusOr<Tensor> Read(absl::string_view key, Allocator& allocator) const;
  /// Errors: also kInvalidArgument if the tensor has another shape than `slice` says.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view key, const TensorSlice& slice,
                                   Allocator& allocator) const;

 private:
  explicit BundleReader(std::string name) : name_(std::move(name)) {}
  absl::StatusOr<Tensor> ReadWhole(absl::string_view key, const Entry& entry,
                                   Allocator& allocator) const;
  absl::StatusOr<const Entry*> Find(absl::string_view key) const;
  absl::Status Damaged(absl::string_view what) const;

  const std::string name_;  // Of the checkpoint, as errors have it.
  std::map<std::string, Entry> entries_;
  std::vector<std::unique_ptr<OldFile>> shards_;
};

/// Makes of the checkpoints `prefixes` one, `destination`: their data files are renamed, their
/// index files removed. Slices of one tensor that several of them have come together. Errors: also
/// kInvalidArgument if two have a tensor of the same key.
absl::Status MergeBundles(absl::Span<const FilePath> prefixes, const FilePath& destination);

/// "PREFIX.data-00000-of-00002".
FilePath BundleDataFile(const FilePath& prefix, int shard, int shards);

}  // namespace formwork
