#include "gpu/cudnn.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/kernels/enqueued_work.h"
#include "gpu/cuda_stream.h"
#include "gpu/tf32.h"

namespace formwork {
namespace {

absl::Status CudnnStatus(cudnnStatus_t status, absl::string_view call) {
  std::array<char, 512> text{};
  Cudnn::Find()->last_error(text.data(), text.size());
  const std::string message =
      absl::StrCat("cuDNN: ", call, ": ", text.data(), " (", static_cast<int>(status), ")");
  if (status == CUDNN_STATUS_ALLOC_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED) {
    return absl::ResourceExhaustedError(message);
  }
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) {
    return absl::UnimplementedError(message);
  }
  return absl::InternalError(message);
}
#define FORMWORK_CUDNN_RETURN_IF_ERROR(call)                                                   \
  do {                                                                                         \
    if (const cudnnStatus_t formwork_error = (call); formwork_error != CUDNN_STATUS_SUCCESS) { \
      return CudnnStatus(formwork_error, #call);                                               \
    }                                                                                          \
  } while (false)

template <typename Function>
bool Load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

const Cudnn* Open() {
  const char* const wanted = std::getenv("FORMWORK_CUDNN");
  if (wanted != nullptr && absl::string_view(wanted) == "off") return nullptr;
  void* const library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);  // For good.
  if (library == nullptr) return nullptr;
  static Cudnn cudnn;
  const bool all = Load(library, "cudnnCreate", cudnn.create) &&
                   Load(library, "cudnnSetStream", cudnn.set_stream) &&
                   Load(library, "cudnnGetLastErrorString", cudnn.last_error) &&
                   Load(library, "cudnnBackendCreateDescriptor", cudnn.create_descriptor) &&
                   Load(library, "cudnnBackendDestroyDescriptor", cudnn.destroy_descriptor) &&
                   Load(library, "cudnnBackendSetAttribute", cudnn.set_attribute) &&
                   Load(library, "cudnnBackendGetAttribute", cudnn.get_attribute) &&
                   Load(library, "cudnnBackendFinalize", cudnn.finalize) &&
                   Load(library, "cudnnBackendExecute", cudnn.execute);
  return all ? &cudnn : nullptr;
}

// What cuDNN works with, of the first GPU: one thread uses it at a time, for the microseconds that
// it takes to enqueue. Never destroyed, as CUDA may end before.
class Handle {
 public:
  static Handle& Only() {
    static auto* const handle = new Handle;
    return *handle;
  }
  absl::Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  // Made when it is first wanted.
  absl::StatusOr<cudnnHandle_t> Get() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (raw_ == nullptr) FORMWORK_CUDNN_RETURN_IF_ERROR(Cudnn::Find()->create(&raw_));
    return raw_;
  }

 private:
  absl::Mutex mutex_;
  cudnnHandle_t raw_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// The engines that heuristics name for `graph`, the fastest first.
absl::StatusOr<std::vector<CudnnDescriptor>> EnginesFor(const CudnnDescriptor& graph,
                                                        const CudnnDescriptor* device) {
  const Cudnn& cudnn = *Cudnn::Find();
  FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor heuristics,
                            CudnnDescriptor::Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  FORMWORK_RETURN_IF_ERROR(heuristics.SetPart(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
  FORMWORK_RETURN_IF_ERROR(
      heuristics.SetOne(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A));
  if (device != nullptr) {
    FORMWORK_RETURN_IF_ERROR(heuristics.SetPart(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device));
  }
  FORMWORK_RETURN_IF_ERROR(heuristics.Finalize());
  int64_t count = 0;
  FORMWORK_CUDNN_RETURN_IF_ERROR(
      cudnn.get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<CudnnDescriptor> engines;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor engine,
                              CudnnDescriptor::Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(engine.get());
    engines.push_back(std::move(engine));
  }
  FORMWORK_CUDNN_RETURN_IF_ERROR(
      cudnn.get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()));
  engines.erase(engines.begin() + count, engines.end());
  return engines;
}

// Whether the engine rounds as our other kernels do, and in the same order each time.
absl::StatusOr<bool> IsExact(const CudnnDescriptor& configuration, DType dtype) {
  const Cudnn& cudnn = *Cudnn::Find();
  FORMWORK_ASSIGN_OR_RETURN(const CudnnDescriptor engine,
                            CudnnDescriptor::Make(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  FORMWORK_CUDNN_RETURN_IF_ERROR(
      cudnn.get_attribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  FORMWORK_CUDNN_RETURN_IF_ERROR(cudnn.get_attribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                     CUDNN_TYPE_NUMERICAL_NOTE, notes.size(),
                                                     &count, notes.data()));
  return std::none_of(notes.begin(), notes.begin() + count, [dtype](auto note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return dtype == DType::kFloat && !Tf32IsAllowed();
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return true;
      default:
        return false;
    }
  });
}

absl::StatusOr<cudnnDataType_t> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return CUDNN_DATA_FLOAT;
    case DType::kDouble:
      return CUDNN_DATA_DOUBLE;
    case DType::kHalf:
      return CUDNN_DATA_HALF;
    case DType::kBfloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return Unimplemented("cuDNN of ", DTypeName(dtype));
  }
}

}  // namespace

const Cudnn* Cudnn::Find() {
  static const Cudnn* const found = Open();
  return found;
}

absl::StatusOr<CudnnDescriptor> CudnnDescriptor::Make(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t raw = nullptr;
  FORMWORK_CUDNN_RETURN_IF_ERROR(Cudnn::Find()->create_descriptor(type, &raw));
  return CudnnDescriptor(raw);
}

CudnnDescriptor::~CudnnDescriptor() {
  if (raw_ != nullptr) Cudnn::Find()->destroy_descriptor(raw_);
}

absl::Status CudnnDescriptor::SetRaw(cudnnBackendAttributeName_t name,
                                     cudnnBackendAttributeType_t type, int64_t count,
                                     const void* values) {
  FORMWORK_CUDNN_RETURN_IF_ERROR(Cudnn::Find()->set_attribute(raw_, name, type, count, values));
  return absl::OkStatus();
}

absl::Status CudnnDescriptor::Finalize() {
  FORMWORK_CUDNN_RETURN_IF_ERROR(Cudnn::Find()->finalize(raw_));
  return absl::OkStatus();
}

absl::StatusOr<CudnnDescriptor> CudnnTensor(int64_t id, DType dtype, absl::Span<const int64_t> dims,
                                            absl::Span<const int64_t> strides) {
  FORMWORK_ASSIGN_OR_RETURN(const cudnnDataType_t type, TypeOf(dtype));
  FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor tensor,
                            CudnnDescriptor::Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  FORMWORK_RETURN_IF_ERROR(tensor.SetNumbers(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id}));
  FORMWORK_RETURN_IF_ERROR(tensor.SetOne(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type));
  FORMWORK_RETURN_IF_ERROR(tensor.SetNumbers(CUDNN_ATTR_TENSOR_DIMENSIONS, dims));
  FORMWORK_RETURN_IF_ERROR(tensor.SetNumbers(CUDNN_ATTR_TENSOR_STRIDES, strides));
  FORMWORK_RETURN_IF_ERROR(tensor.SetNumbers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {kCudnnAlignment}));
  FORMWORK_RETURN_IF_ERROR(tensor.Finalize());
  return tensor;
}

absl::StatusOr<CudnnDescriptor> CudnnScalar(int64_t id) {
  constexpr std::array<int64_t, 4> kOne = {1, 1, 1, 1};
  FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor tensor,
                            CudnnDescriptor::Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  FORMWORK_RETURN_IF_ERROR(tensor.SetNumbers(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id}));
  FORMWORK_RETURN_IF_ERROR(
      tensor.SetOne(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT));
  FORMWORK_RETURN_IF_ERROR(tensor.SetNumbers(CUDNN_ATTR_TENSOR_DIMENSIONS, kOne));
  FORMWORK_RETURN_IF_ERROR(tensor.SetNumbers(CUDNN_ATTR_TENSOR_STRIDES, kOne));
  FORMWORK_RETURN_IF_ERROR(tensor.SetNumbers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {kCudnnAlignment}));
  FORMWORK_RETURN_IF_ERROR(tensor.SetOne(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true));
  FORMWORK_RETURN_IF_ERROR(tensor.Finalize());
  return tensor;
}

absl::StatusOr<std::shared_ptr<const CudnnPlan>> CudnnPlan::Of(const CudnnDescriptor& operation,
                                                               DType dtype,
                                                               const CudnnDescriptor* device) {
  const Cudnn& cudnn = *Cudnn::Find();
  Handle& only = Handle::Only();
  absl::MutexLock lock(&only.mutex());
  cudnnHandle_t handle = nullptr;
  if (device == nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(handle, only.Get());
  }
  FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor graph,
                            CudnnDescriptor::Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  FORMWORK_RETURN_IF_ERROR(graph.SetPart(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation));
  if (handle != nullptr) {
    FORMWORK_RETURN_IF_ERROR(
        graph.SetOne(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle));
  }
  FORMWORK_RETURN_IF_ERROR(graph.Finalize());
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<CudnnDescriptor> engines, EnginesFor(graph, device));
  absl::Status refused;
  for (const CudnnDescriptor& engine : engines) {
    FORMWORK_ASSIGN_OR_RETURN(const bool exact, IsExact(engine, dtype));
    if (!exact) continue;
    FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor plan,
                              CudnnDescriptor::Make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    FORMWORK_RETURN_IF_ERROR(plan.SetPart(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine));
    FORMWORK_RETURN_IF_ERROR(
        device == nullptr ? plan.SetOne(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle)
                          : plan.SetPart(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *device));
    // Heuristics name some that are not there after all.
    if (refused = plan.Finalize(); !refused.ok()) continue;
    int64_t bytes = 0, count = 0;
    FORMWORK_CUDNN_RETURN_IF_ERROR(cudnn.get_attribute(
        plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes));
    if (bytes < 0 || static_cast<size_t>(bytes) > kMostWorkspaceBytes) continue;
    return std::shared_ptr<const CudnnPlan>(
        new CudnnPlan(std::move(plan), static_cast<size_t>(bytes)));
  }
  return Unimplemented("cuDNN has no engine for it", refused.ok() ? "" : ": ", refused.message());
}

absl::Status CudnnPlan::Enqueue(KernelContext& ctx,
                                absl::Span<const std::pair<int64_t, const void*>> tensors) const {
  FORMWORK_ASSIGN_OR_RETURN(const Buffer workspace, ScratchOf(ctx, workspace_bytes_));
  absl::InlinedVector<int64_t, 4> ids;
  absl::InlinedVector<const void*, 4> pointers;
  for (const auto& [id, pointer] : tensors) {
    ids.push_back(id);
    pointers.push_back(pointer);
  }
  const void* const memory = workspace ? workspace.data() : nullptr;
  FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor operands,
                            CudnnDescriptor::Make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  FORMWORK_RETURN_IF_ERROR(operands.SetNumbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids));
  FORMWORK_RETURN_IF_ERROR(operands.Set<const void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                                     CUDNN_TYPE_VOID_PTR, pointers));
  FORMWORK_RETURN_IF_ERROR(
      operands.SetOne(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, memory));
  FORMWORK_RETURN_IF_ERROR(operands.Finalize());

  Handle& only = Handle::Only();
  absl::MutexLock lock(&only.mutex());
  FORMWORK_ASSIGN_OR_RETURN(const cudnnHandle_t handle, only.Get());
  const Cudnn& cudnn = *Cudnn::Find();
  FORMWORK_CUDNN_RETURN_IF_ERROR(cudnn.set_stream(handle, CudaStreamOf(StreamOf(ctx))));
  FORMWORK_CUDNN_RETURN_IF_ERROR(cudnn.execute(handle, plan_.get(), operands.get()));
  return absl::OkStatus();
}

}  // namespace formwork
