#pragma once

// RapidJSON, which is for few .cc files, and where it takes its memory.

// It adds to null pointers, which UndefinedBehaviorSanitizer refuses.
#ifdef __clang__
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <rapidjson/writer.h>
#ifdef __clang__
#pragma clang attribute pop
#endif

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

namespace formwork::server {

/// RapidJSON's Allocator, of operator new, which counts and refuses what is beyond a budget: malloc
/// does neither.
struct JsonMemory {
  static constexpr bool kNeedFree = true;

  void* Malloc(size_t bytes) { return bytes == 0 ? nullptr : ::operator new(bytes); }
  void* Realloc(void* old, size_t old_bytes, size_t bytes) {
    void* const now = Malloc(bytes);
    if (old != nullptr && now != nullptr) std::memcpy(now, old, std::min(old_bytes, bytes));
    Free(old);
    return now;
  }
  static void Free(void* memory) { ::operator delete(memory); }
};

}  // namespace formwork::server
