#pragma once

// Reference-counted memory of a device, and where it comes from.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace formwork {

class Allocator;
class Device;
class Stream;

/// One block of memory. Made by an Allocator, shared by Buffers.
struct BufferBlock {
  std::atomic<int32_t> refs{1};
  void* data = nullptr;
  size_t bytes = 0;     ///< What was asked for.
  size_t capacity = 0;  ///< What was taken.
  Allocator* allocator = nullptr;
  const Device* device = nullptr;  ///< Whose memory it is; null: the host's.
  /// Destroys the elements before the memory goes (strings, variants); null for plain data.
  void (*destroy)(void* data, size_t bytes) = nullptr;
};

/// Where blocks come from: the memory of one device (Device::allocator), of which the host is one.
/// It goes in the order of streams. Thread-safe. Outlives its blocks.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Memory, aligned to 64 bytes, for what is enqueued on `stream`, of the same device, from now
  /// on; its contents are undefined until written. Another stream uses it after an event of
  /// `stream` recorded later. Null: for the calling thread; of the host's memory alone, which is
  /// there at once whatever the stream. Errors: kResourceExhausted if the limit is reached or there
  /// is none; kInvalidArgument for no stream of this device; kUnavailable if the device is lost.
  virtual absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) = 0;
  /// Of a block that nobody holds any more, as if that were enqueued on its stream now: work
  /// enqueued there before may still use it, and that stream must have been told to wait for what
  /// uses it elsewhere. That holds after the Stream object is gone, too.
  virtual void Free(BufferBlock* block) = 0;
};

/// A shared hold of a block. Copying counts a reference; as thread-safe as shared_ptr.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(BufferBlock* block) : block_(block) {}  ///< Takes over the one reference.
  Buffer(const Buffer& other) : block_(other.block_) {
    if (block_ != nullptr) block_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Buffer(Buffer&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Buffer& operator=(const Buffer& other) {
    if (block_ != other.block_) {
      Buffer copy(other);
      std::swap(block_, copy.block_);
    }
    return *this;
  }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Buffer() { Reset(); }

  void Reset() {
    BufferBlock* block = std::exchange(block_, nullptr);
    if (block == nullptr || block->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (block->destroy != nullptr) block->destroy(block->data, block->bytes);
    block->allocator->Free(block);
  }

  explicit operator bool() const { return block_ != nullptr; }
  void* data() const { return block_->data; }
  size_t bytes() const { return block_->bytes; }
  BufferBlock* block() const { return block_; }
  /// Whether it is there, and not the host's.
  bool on_device() const { return block_ != nullptr && block_->device != nullptr; }
  /// True where nobody else holds the block, so that its holder may write in place.
  bool unique() const { return HasHolders(1); }
  /// True where just so many hold the block, which is not empty.
  bool HasHolders(int32_t count) const {
    return block_->refs.load(std::memory_order_acquire) == count;
  }

 private:
  BufferBlock* block_ = nullptr;
};

}  // namespace formwork
