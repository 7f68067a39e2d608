#pragma once

// The object graph of a TensorFlow 2 checkpoint: what tf.train.Checkpoint restores by. A variable
// "dense/kernel" is the attribute `kernel` of the attribute `dense` of the root.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace formwork {

/// Under which the graph stands in a checkpoint, a scalar string.
inline constexpr char kObjectGraphKey[] = "_CHECKPOINTABLE_OBJECT_GRAPH";

/// The key that tf.train.Checkpoint gives the variable at `path`, names joined by slashes.
std::string VariableKey(absl::string_view path);
/// The path of that; empty where it is no variable's key.
std::string PathOfKey(absl::string_view key);

/// The graph of variables of these names, serialized.
std::string MakeObjectGraph(const std::vector<std::string>& names);
/// Key -> the variable's own name, as the program that wrote it had it; where it has none, or
/// shares it, it is left out. Errors: kDataLoss if it cannot be read.
absl::StatusOr<std::map<std::string, std::string>> VariableNames(absl::string_view graph);

}  // namespace formwork
