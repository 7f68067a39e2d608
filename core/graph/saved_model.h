#pragma once

// A SavedModel (what tf.saved_model.save and its forerunners of TensorFlow 1 write): a graph, what
// of it callers give and get, and how its variables and tables come to have their values.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/op_def.h"
#include "core/tensor/tensor_spec.h"

namespace formwork {

struct SavedModel {
  struct Argument {
    std::string name;  ///< As callers know it.
    TensorSpec tensor;
  };
  struct Signature {
    std::string name;
    std::vector<Argument> inputs, outputs;  ///< By name.
  };
  struct Asset {
    std::string tensor;  ///< Of the path of the file.
    std::string file;    ///< In the model's folder "assets".
  };

  std::string graph_def;
  std::vector<Signature> signatures;  ///< By name.
  /// The node that gives variables their values, from the checkpoint whose prefix is fed to the
  /// tensor; empty: there is none.
  std::string restore, restored_prefix;
  /// The node to be run next, which fills tables; empty: there is none.
  std::string initialize;
  std::vector<Asset> assets;  ///< To be fed to it.
};

/// `bytes`: of the file saved_model.pb. `tags`: exactly those of the graph that is wanted; none:
/// the only one, or that of "serve". `container`: that of all resources that the graph names, in
/// front of their own. Sparse and composite tensors are arguments for each of their parts, named as
/// tf.saved_model.load names them.
/// Errors: kInvalidArgument if it is no SavedModel, or says of a tensor what makes no sense;
/// kNotFound, with the tags that there are; those of the thread's StopFlag.
absl::StatusOr<SavedModel> ParseSavedModel(absl::string_view bytes,
                                           absl::Span<const std::string> tags,
                                           absl::string_view container, const OpRegistry& ops);

}  // namespace formwork
