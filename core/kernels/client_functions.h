#pragma once

// Functions that the client keeps, as tf.py_function and tf.numpy_function make them: a node has
// their name alone, its token. A call asks its client to run one, and waits without a thread.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/awaited.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// What a client's function gives. Thread-safe.
class ClientAnswer final : public Awaited {
 public:
  using Results = absl::StatusOr<std::vector<Tensor>>;

  explicit ClientAnswer(absl::string_view token)
      : Awaited(absl::StrCat("the client's function '", token, "'")) {}

  /// The results, or the error that it raised, with a text. The first one counts.
  void Give(Results results) {
    End([this, &results] { results_ = std::move(results); });
  }
  /// Once, when it is over.
  Results Take() { return std::move(results_); }

 private:
  Results results_ = std::vector<Tensor>();
};

/// One call's client. Thread-safe.
class ClientFunctions {
 public:
  virtual ~ClientFunctions() = default;
  /// Has the client run its function `token` on `inputs`, which are shared. Waits for nothing; who
  /// lets go of the answer does not want it any more.
  /// Errors: kResourceExhausted: the inputs are larger than a message may be; kCancelled: the
  /// client is gone.
  virtual absl::StatusOr<std::shared_ptr<ClientAnswer>> Ask(absl::string_view token,
                                                            absl::Span<const Tensor> inputs) = 0;
};

}  // namespace formwork
