#pragma once

// What memory the process may hope for.

#include <cstddef>

#include "absl/strings/string_view.h"

namespace formwork {

/// The least of the machine's memory, the limits of the process's cgroups (v2 and v1) up to the
/// root, and what its own limits of address space and data leave. Bytes; 0 where nothing can be
/// read. `root` stands before /proc and /sys, for tests.
size_t SystemMemoryBytes(absl::string_view root = "");

/// Bounds what the heap keeps at the end of each of its arenas, which TrimHeap does not reach and
/// which would else grow to 64 MB each. For a program's start, before its threads.
void BoundHeapArenas();

/// Gives the system the heap's pages on which nothing lives, of all arenas. As slow as the heap is
/// large and scattered (100 ms for some GB); who allocates meanwhile may wait.
void TrimHeap();

}  // namespace formwork
