#pragma once

// Values of variables in files that other programs read: of a path that ends in ".safetensors" that
// format, of any other a TensorFlow checkpoint, whose prefix it is.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/storage/safetensors.h"
#include "core/storage/tensor_bundle.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Writes variables, by name, as tf.train.Checkpoint does, and lets go of each when it is written.
/// `*written`, where it is given: the bytes of the variables that are by now. The bytes. Errors:
/// those of the format's writer.
absl::StatusOr<uint64_t> WriteCheckpoint(const FilePath& path,
                                         std::map<std::string, Tensor> variables,
                                         std::atomic<uint64_t>* written = nullptr);

/// Variables by name: in a TensorFlow 2 checkpoint the name that a variable had in its program, or,
/// where it has none of its own, the path of attributes that leads to it; in one by names those.
/// Thread-safe.
class CheckpointReader {
 public:
  struct Variable {
    std::string key;  ///< In the file.
    DType dtype = DType::kInvalid;
    Shape shape;
  };

  /// Errors: those of the format's reader.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const FilePath& path,
                                                                Allocator& allocator);

  const std::map<std::string, Variable>& variables() const { return variables_; }
  /// Of that name or, where there is none, of that path or key; null: none.
  const Variable* Find(const std::string& name) const;
  absl::StatusOr<Tensor> Read(const Variable& variable, Allocator& allocator) const;

 private:
  std::unique_ptr<BundleReader> bundle_;  // This or the other.
  std::unique_ptr<SafetensorsReader> safetensors_;
  std::map<std::string, Variable> variables_;
  std::map<std::string, std::string> others_;  // Path or key -> name.
};

}  // namespace formwork
