#pragma once

// What a graph computes, as a digest.

#include <string>

#include "absl/strings/string_view.h"
#include "core/graph/import.h"

namespace formwork {

// Work that is cut (core/base/stop_flag.h) leaves a digest of no use: ask for WorkStatus() before
// it is used.

/// SHA-256 of bytes, as 64 hex digits.
std::string Sha256Hex(absl::string_view bytes);

/// A digest of the imported graph and of the functions it reaches, by what they do: names of nodes
/// and functions and the order of attrs do not count, so that two processes that trace the same
/// code get the same one. 64 hex digits.
std::string Fingerprint(const ImportedGraph& imported);

}  // namespace formwork
