#include "gpu/cuda_kernel.h"

#include <nvrtc.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <list>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "gpu/code_cache.h"
#include "gpu/cuda_status.h"
#include "gpu/gpu.h"

namespace formwork {
namespace {

// Blocks that the GPU is given for each of its processors: enough to hide latency, few enough that
// each does several rounds.
constexpr int kBlocksPerProcessor = 8;

// Each operation rounds, as where it is a kernel of its own, and on the CPU.
constexpr const char* kOptions[] = {"--std=c++17", "--fmad=false", "--extra-device-vectorization",
                                    "--device-as-default-execution-space"};

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

std::atomic<const CodeCache*> code_cache = nullptr;  // Lives on, once there is one.

// As CompileCuda; of the disk where it is there.
absl::StatusOr<std::string> CodeOf(const std::string& text, const Gpu& gpu) {
  const CodeCache* const cache = code_cache.load(std::memory_order_acquire);
  if (cache == nullptr) return CompileCuda(text, gpu.major, gpu.minor);
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  const std::string compiler = absl::StrCat("nvrtc ", major, ".", minor, " sm_", gpu.major,
                                            gpu.minor, " ", absl::StrJoin(kOptions, " "), "\n");
  std::string code = cache->Find(compiler, text);
  if (!code.empty()) return code;
  FORMWORK_ASSIGN_OR_RETURN(code, CompileCuda(text, gpu.major, gpu.minor));
  cache->Keep(compiler, text, code);
  return code;
}

absl::StatusOr<std::shared_ptr<const CudaLibrary>> Load(const std::string& text) {
  const absl::StatusOr<Gpu>& gpu = TheGpu();
  FORMWORK_RETURN_IF_ERROR(gpu.status());
  FORMWORK_ASSIGN_OR_RETURN(const std::string code, CodeOf(text, *gpu));
  cudaLibrary_t library = nullptr;
  FORMWORK_CUDA_RETURN_IF_ERROR(
      cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  return std::make_shared<const CudaLibrary>(library);
}

// Those that were asked for last. Clients' graphs make texts, so that all would be too many.
class Libraries {
 public:
  absl::StatusOr<std::shared_ptr<const CudaLibrary>> Find(const std::string& text) {
    {
      absl::MutexLock lock(&mutex_);
      const auto found = places_.find(text);
      if (found != places_.end()) {
        recent_.splice(recent_.begin(), recent_, found->second);
        return found->second->library;
      }
    }
    // Not under the lock: it takes a tenth of a second. Who comes second drops his.
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<const CudaLibrary> library, Load(text));
    absl::MutexLock lock(&mutex_);
    const auto found = places_.find(text);
    if (found != places_.end()) return found->second->library;
    recent_.push_front({text, std::move(library)});
    places_[recent_.front().text] = recent_.begin();
    if (recent_.size() > kMost) {
      places_.erase(recent_.back().text);
      recent_.pop_back();
    }
    return recent_.front().library;
  }

 private:
  static constexpr size_t kMost = 512;
  struct Recent {
    const std::string text;
    const std::shared_ptr<const CudaLibrary> library;
  };

  absl::Mutex mutex_;
  std::list<Recent> recent_ ABSL_GUARDED_BY(mutex_);  // The last one first.
  absl::flat_hash_map<absl::string_view, std::list<Recent>::iterator> places_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::string> CompileCuda(const std::string& text, int major, int minor) {
  nvrtcProgram program = nullptr;
  nvrtcResult result =
      nvrtcCreateProgram(&program, text.c_str(), "formwork.cu", 0, nullptr, nullptr);
  if (result != NVRTC_SUCCESS) return Internal("NVRTC: ", nvrtcGetErrorString(result));
  const std::string architecture = absl::StrCat("--gpu-architecture=sm_", major, minor);
  std::vector<const char*> options = {architecture.c_str()};
  options.insert(options.end(), std::begin(kOptions), std::end(kOptions));
  result = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
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

absl::StatusOr<std::shared_ptr<const CudaLibrary>> CudaLibrary::Of(const std::string& text) {
  static auto* const libraries = new Libraries;
  return libraries->Find(text);
}

void KeepCudaCode(const std::string& folder) {
  code_cache.store(new CodeCache(folder), std::memory_order_release);
}

// What goes wrong here is a lost device, of which whoever uses it next is told.
CudaLibrary::~CudaLibrary() { static_cast<void>(cudaLibraryUnload(library_)); }

absl::StatusOr<cudaKernel_t> CudaLibrary::Kernel(const char* name) const {
  cudaKernel_t kernel = nullptr;
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaLibraryGetKernel(&kernel, library_, name));
  return kernel;
}

absl::StatusOr<cudaKernel_t> CudaKernelOf(const std::string& text, const char* name) {
  static auto* const mutex = new absl::Mutex;
  static auto* const kept =
      new absl::flat_hash_map<std::string, std::shared_ptr<const CudaLibrary>>;
  {
    absl::MutexLock lock(mutex);
    const auto found = kept->find(text);
    if (found != kept->end()) return found->second->Kernel(name);
  }
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<const CudaLibrary> library, CudaLibrary::Of(text));
  absl::MutexLock lock(mutex);
  return kept->emplace(text, std::move(library)).first->second->Kernel(name);
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
