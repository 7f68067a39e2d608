#include "gpu/cuda_kernel.h"

#include <nvrtc.h>

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "gpu/cuda_status.h"

namespace formwork {
namespace {

// Blocks that the GPU is given for each of its processors: enough to hide latency, few enough that
// each does several rounds.
constexpr int kBlocksPerProcessor = 8;

// What a kernel is compiled for, and spread over: of the first GPU, and all are taken to be alike.
struct Gpu {
  int major = 0, minor = 0, processors = 0;
};

absl::StatusOr<Gpu> FirstGpu() {
  Gpu gpu;
  FORMWORK_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&gpu.major, cudaDevAttrComputeCapabilityMajor, 0));
  FORMWORK_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&gpu.minor, cudaDevAttrComputeCapabilityMinor, 0));
  FORMWORK_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&gpu.processors, cudaDevAttrMultiProcessorCount, 0));
  return gpu;
}

const absl::StatusOr<Gpu>& TheGpu() {
  static const auto* const gpu = new absl::StatusOr<Gpu>(FirstGpu());
  return *gpu;
}

// Texts, compiled.
class Libraries {
 public:
  absl::StatusOr<cudaLibrary_t> Find(const std::string& text) {
    {
      absl::MutexLock lock(&mutex_);
      const auto found = libraries_.find(text);
      if (found != libraries_.end()) return found->second;
    }
    // Not under the lock: it takes a tenth of a second. Who comes second drops his.
    const absl::StatusOr<Gpu>& gpu = TheGpu();
    FORMWORK_RETURN_IF_ERROR(gpu.status());
    FORMWORK_ASSIGN_OR_RETURN(const std::string code, CompileCuda(text, gpu->major, gpu->minor));
    cudaLibrary_t library = nullptr;
    FORMWORK_CUDA_RETURN_IF_ERROR(
        cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    absl::MutexLock lock(&mutex_);
    return libraries_.emplace(text, library).first->second;
  }

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, cudaLibrary_t> libraries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::string> CompileCuda(const std::string& text, int major, int minor) {
  nvrtcProgram program = nullptr;
  nvrtcResult result =
      nvrtcCreateProgram(&program, text.c_str(), "formwork.cu", 0, nullptr, nullptr);
  if (result != NVRTC_SUCCESS) return Internal("NVRTC: ", nvrtcGetErrorString(result));
  const std::string architecture = absl::StrCat("--gpu-architecture=sm_", major, minor);
  // Each operation rounds, as where it is a kernel of its own, and on the CPU.
  const char* const options[] = {architecture.c_str(), "--std=c++17", "--fmad=false",
                                 "--extra-device-vectorization",
                                 "--device-as-default-execution-space"};
  result = nvrtcCompileProgram(program, std::size(options), options);
  std::string code;
  size_t bytes = 0;
  if (result != NVRTC_SUCCESS) {
    std::string log;
    if (nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS) {
      log.resize(bytes);
      nvrtcGetProgramLog(program, log.data());
    }
    nvrtcDestroyProgram(&program);
    return Internal("NVRTC: ", nvrtcGetErrorString(result), "\n", log.c_str());
  }
  result = nvrtcGetCUBINSize(program, &bytes);
  if (result == NVRTC_SUCCESS) {
    code.resize(bytes);
    result = nvrtcGetCUBIN(program, code.data());
  }
  nvrtcDestroyProgram(&program);
  if (result != NVRTC_SUCCESS) return Internal("NVRTC: ", nvrtcGetErrorString(result));
  return code;
}

absl::StatusOr<cudaKernel_t> CudaKernelOf(const std::string& text, const char* name) {
  static auto* const libraries = new Libraries;
  FORMWORK_ASSIGN_OR_RETURN(const cudaLibrary_t library, libraries->Find(text));
  cudaKernel_t kernel = nullptr;
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaLibraryGetKernel(&kernel, library, name));
  return kernel;
}

absl::Status LaunchOver(cudaKernel_t kernel, uint64_t items, unsigned block,
                        absl::Span<void* const> arguments, cudaStream_t stream) {
  const absl::StatusOr<Gpu>& gpu = TheGpu();
  FORMWORK_RETURN_IF_ERROR(gpu.status());
  const uint64_t most = static_cast<uint64_t>(gpu->processors) * kBlocksPerProcessor;
  const uint64_t blocks = std::clamp<uint64_t>((items + block - 1) / block, 1, most);
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                                                 dim3(static_cast<unsigned>(blocks)), dim3(block),
                                                 const_cast<void**>(arguments.data()), 0, stream));
  return absl::OkStatus();
}

}  // namespace formwork
