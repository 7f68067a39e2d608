#pragma once

// cuDNN's graph API: descriptions of what is to be computed, and plans of it. Private to gpu/.
//
// The library is opened when it is first wanted, and a server runs without it: then, and where it
// has no engine for something, kernels do it another way.

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/hash_map.h"
#include "core/kernels/kernel.h"
#include "core/tensor/dtype.h"

namespace formwork {

/// The functions of libcudnn.so.9 that are used.
struct Cudnn {
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetLastErrorString) last_error;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;

  /// Null where there is no library, or one without them, and with FORMWORK_CUDNN=off, for tests
  /// and measurements. Found once.
  static const Cudnn* Find();
};

/// What describes a thing to cuDNN. Only made where Cudnn::Find() is not null.
class CudnnDescriptor {
 public:
  static absl::StatusOr<CudnnDescriptor> Make(cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~CudnnDescriptor();

  /// `values`: of cuDNN's type `type`.
  template <typename T>
  absl::Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   absl::Span<const T> values) {
    return SetRaw(name, type, static_cast<int64_t>(values.size()), values.data());
  }
  template <typename T>
  absl::Status SetOne(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      const T& value) {
    return SetRaw(name, type, 1, &value);
  }
  absl::Status SetNumbers(cudnnBackendAttributeName_t name, absl::Span<const int64_t> values) {
    return Set(name, CUDNN_TYPE_INT64, values);
  }
  absl::Status SetPart(cudnnBackendAttributeName_t name, const CudnnDescriptor& part) {
    return SetOne(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, part.raw_);
  }
  /// After it is described.
  absl::Status Finalize();

  cudnnBackendDescriptor_t get() const { return raw_; }

 private:
  explicit CudnnDescriptor(cudnnBackendDescriptor_t raw) : raw_(raw) {}
  absl::Status SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, const void* values);

  cudnnBackendDescriptor_t raw_;
};

/// A tensor of a plan, known by `id` when the plan is enqueued; in memory at a multiple of
/// kCudnnAlignment bytes. Errors: kUnimplemented for other dtypes than cuDNN computes for us;
/// cuDNN's.
absl::StatusOr<CudnnDescriptor> CudnnTensor(int64_t id, DType dtype, absl::Span<const int64_t> dims,
                                            absl::Span<const int64_t> strides);
inline constexpr int64_t kCudnnAlignment = 16;
/// A float that is given by value, in the host's memory, when the plan is enqueued.
absl::StatusOr<CudnnDescriptor> CudnnScalar(int64_t id);

/// One computation, with the engine that cuDNN's heuristics take for the fastest of those that
/// round as our other kernels do (no operands in less precision, but for floats as TF32 where that
/// is allowed), and give the same bits each time.
class CudnnPlan {
 public:
  /// Of `operation`, finalized, whose elements are of `dtype`. `device`: finalized properties of
  /// another device than the first GPU, for which no plan can be enqueued; null: of that.
  /// Errors: kUnimplemented if no engine does it within kMostWorkspaceBytes; cuDNN's.
  static absl::StatusOr<std::shared_ptr<const CudnnPlan>> Of(const CudnnDescriptor& operation,
                                                             DType dtype,
                                                             const CudnnDescriptor* device);
  static constexpr size_t kMostWorkspaceBytes = size_t{256} << 20;

  size_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues it on the step's stream. `tensors`: their IDs, and where they are: on the GPU,
  /// scalars on the host. Thread-safe. Errors: the allocator's; cuDNN's.
  absl::Status Enqueue(KernelContext& ctx,
                       absl::Span<const std::pair<int64_t, const void*>> tensors) const;

 private:
  CudnnPlan(CudnnDescriptor plan, size_t workspace_bytes)
      : workspace_bytes_(workspace_bytes), plan_(std::move(plan)) {}

  const size_t workspace_bytes_;
  const CudnnDescriptor plan_;
};

/// Plans of one node, by what they were made for; those that it had last. Thread-safe.
template <typename Key>
class CudnnPlans {
 public:
  /// Null where cuDNN has no engine: `make` has said kUnimplemented. Errors: others of make's.
  template <typename Make>
  absl::StatusOr<std::shared_ptr<const CudnnPlan>> Find(const Key& key, Make make) const {
    {
      absl::MutexLock lock(&mutex_);
      const auto found = plans_.find(key);
      if (found != plans_.end()) return found->second;
    }
    absl::StatusOr<std::shared_ptr<const CudnnPlan>> made = make();
    if (!made.ok()) {
      if (!absl::IsUnimplemented(made.status())) return made;
      made = nullptr;
    }
    // A function of many shapes must not keep one for each.
    constexpr size_t kMostPlans = 256;
    absl::MutexLock lock(&mutex_);
    if (plans_.size() >= kMostPlans) plans_.clear();
    return plans_.emplace(key, *std::move(made)).first->second;
  }

 private:
  mutable absl::Mutex mutex_;
  mutable HashMap<Key, std::shared_ptr<const CudnnPlan>> plans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork
