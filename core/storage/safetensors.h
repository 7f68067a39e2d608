#pragma once

// The safetensors format: the size of a header, a header in JSON, and the elements. Follows
// https://github.com/huggingface/safetensors, "Format".

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/storage/file.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Lets go of each value when it is written, and counts it in `*written`, where that is given. The
/// bytes. Errors: NewFile's; kUnimplemented for
/// dtypes that the format has not (strings, the wide complex, quantized and 4-bit ones).
absl::StatusOr<uint64_t> WriteSafetensors(const FilePath& path,
                                          std::map<std::string, Tensor> values,
                                          std::atomic<uint64_t>* written = nullptr);

/// Reads one. Thread-safe.
class SafetensorsReader {
 public:
  struct Entry {
    DType dtype = DType::kInvalid;
    Shape shape;
    uint64_t offset = 0;  // In the file.
  };

  /// Errors: OldFile's; kDataLoss naming the tensor if the header is damaged, kUnimplemented for a
  /// dtype that is not known.
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(const FilePath& path);

  const std::map<std::string, Entry>& entries() const { return entries_; }
  /// `name` is among them. Errors: OldFile's; kResourceExhausted.
  absl::StatusOr<Tensor> Read(const std::string& name, Allocator& allocator) const;

 private:
  explicit SafetensorsReader(std::unique_ptr<OldFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<OldFile> file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace formwork
