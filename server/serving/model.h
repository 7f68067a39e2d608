#pragma once

// Models as the APIs of other servers name them -> functions, and values by names.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/engine.h"

namespace formwork::server {

/// Which model a request is about.
struct ModelSpec {
  std::string name_space;
  std::string name;
  uint64_t version = 0;   ///< 0: the one that there is.
  std::string signature;  ///< Empty: "serving_default". Of TensorFlow Serving's APIs.
};

/// A version as requests spell it; empty: 0. Errors: kNotFound where it is no number of one.
absl::StatusOr<uint64_t> VersionFrom(absl::string_view text);

/// The functions of a model's signature that take values by names, the latest first; at least one.
/// Any function is a model, of version 0. Errors: kNotFound; kInvalidArgument where none takes
/// values by names.
absl::StatusOr<std::vector<NamedFunction>> FindModel(Engine& engine, const ModelSpec& model);

/// All of a model's signatures, of each the latest function. Errors: as FindModel.
absl::StatusOr<std::map<std::string, NamedFunction>> SignaturesOf(Engine& engine,
                                                                  const ModelSpec& model);

/// Where each of a request's names is among them.
using NamePlaces = absl::flat_hash_map<absl::string_view, size_t>;

/// `names` outlive it. Errors: kInvalidArgument naming one that is there twice.
absl::StatusOr<NamePlaces> PlacesOf(absl::Span<const std::string> names);

/// Whether the names are those of `inputs`, in any order. Errors: kInvalidArgument saying which are
/// missing or unknown.
absl::Status CheckInputNames(const NamePlaces& names, absl::Span<const TensorSpec> inputs);

/// Where in `outputs` the ones are that `wanted` names, in its order; all where it names none.
/// Errors: kInvalidArgument naming one that is not there, or is there twice.
absl::StatusOr<std::vector<size_t>> FindOutputs(absl::Span<const std::string> wanted,
                                                absl::Span<const TensorSpec> outputs);

/// Whether a call found its function replaced, or its resources gone with the model that it was of,
/// before it did anything: then there is another one, to be looked up and called.
bool WasReplaced(const CallResult& result);

}  // namespace formwork::server
