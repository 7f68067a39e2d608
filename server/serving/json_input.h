#pragma once

// One input of a predict request, as a reader of JSON meets its parts.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tensor_spec.h"

namespace formwork::server {

/// A name that a client may have made up, as a message shows it: quoted, cut off where it is long.
std::string ShownJsonName(absl::string_view name);

/// What an element may be in JSON; kBytes: base64, of {"b64": "..."}.
enum class JsonKind { kNumber, kText, kBytes, kBool, kNull };

/// Collects the elements of one input: those of one value, or of several (the rows) that are
/// stacked. Each list is as long as the first one was at its level. What fails is kInvalidArgument
/// that names the input and the place.
class JsonInput {
 public:
  /// `spec` outlives it, and has a dtype with a form in JSON.
  static std::unique_ptr<JsonInput> Make(const TensorSpec& spec, bool rows);
  virtual ~JsonInput() = default;

  const std::string& name() const { return spec_.name; }
  int64_t values() const { return values_; }               ///< That are complete.
  bool in_list() const { return place_.size() > outer_; }  ///< Of a value.

  absl::Status StartList();
  absl::Status EndList();
  /// `text`: what stands there; of a string what it means.
  absl::Status Add(JsonKind kind, absl::string_view text);
  absl::Status Wrong(absl::string_view what) const;

  /// The tensor of all values, which takes the elements away.
  virtual absl::StatusOr<Tensor> Finish(Allocator& allocator) = 0;

 protected:
  JsonInput(const TensorSpec& spec, bool rows)
      : spec_(spec), outer_(rows ? 1 : 0), dims_(outer_, -1), place_(outer_, 0) {}

  virtual absl::Status Append(JsonKind kind, absl::string_view text) = 0;
  absl::StatusOr<Shape> FinalShape() const;
  absl::StatusOr<Tensor> Allocate(Allocator& allocator, size_t elements) const;

 private:
  absl::Status Begin(bool list);
  void End();

  const TensorSpec& spec_;
  const size_t outer_;  // Lists around a value: that of the rows, or none.
  int rank_ = -1;       // Known from the first element on, or the first list without any.
  Dims dims_;           // How long lists are; -1: not known.
  Dims place_;          // Of each list that is open the element at which the reader is.
  int64_t values_ = 0;
};

}  // namespace formwork::server
