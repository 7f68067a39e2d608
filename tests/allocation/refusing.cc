#include "tests/allocation/refusing.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations{0};
std::atomic<int64_t> first_refused{0};  // 0: none.
std::atomic<int64_t> last_refused{0};

bool Refused() {
  const int64_t n = allocations.fetch_add(1, std::memory_order_relaxed) + 1;
  const int64_t first = first_refused.load(std::memory_order_relaxed);
  return first != 0 && n >= first && n <= last_refused.load(std::memory_order_relaxed);
}

void* Take(size_t bytes, size_t alignment) noexcept {
  if (Refused()) return nullptr;
  bytes = bytes == 0 ? 1 : bytes;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* TakeOrThrow(size_t bytes, size_t alignment) {
  void* const data = Take(bytes, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

void* operator new(size_t bytes) { return TakeOrThrow(bytes, 0); }
void* operator new[](size_t bytes) { return TakeOrThrow(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t a) {
  return TakeOrThrow(bytes, static_cast<size_t>(a));
}
void* operator new[](size_t bytes, std::align_val_t a) {
  return TakeOrThrow(bytes, static_cast<size_t>(a));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Take(bytes, 0); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Take(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept {
  return Take(bytes, static_cast<size_t>(a));
}
void* operator new[](size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept {
  return Take(bytes, static_cast<size_t>(a));
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t, std::align_val_t) noexcept { std::free(data); }

namespace formwork::testing {

Refusing::Refusing(int64_t first, int64_t count) : first_(allocations.load() + first) {
  last_refused.store(first_ + count - 1);
  first_refused.store(first_);
}

Refusing::~Refusing() { first_refused.store(0); }

bool Refusing::refused() const { return allocations.load() >= first_; }

}  // namespace formwork::testing
