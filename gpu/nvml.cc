#include "gpu/nvml.h"

#include <dlfcn.h>

#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "gpu/nvml_types.h"

namespace formwork {
namespace {

// The functions that are used. Each returns 0 if all is well.
struct Nvml {
  using Gpu = nvmlDevice_st;
  using Utilization = nvmlUtilization_st;
  using Memory = nvmlMemory_st;
  static constexpr int kOfTheChip = 0;  // The one sensor of temperature that there is.

  int (*init)();
  const char* (*error_text)(int error);
  int (*find)(const char* pci_bus_id, Gpu** gpu);
  int (*utilization)(Gpu* gpu, Utilization* utilization);
  int (*memory)(Gpu* gpu, Memory* memory);
  int (*temperature)(Gpu* gpu, int sensor, unsigned* celsius);
  int (*power)(Gpu* gpu, unsigned* milliwatts);
};

template <typename Function>
bool LoadFunction(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

absl::Status NvmlStatus(const Nvml& nvml, int error) {
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("NVML: ", nvml.error_text(error), " (", error, ")"));
}

absl::StatusOr<Nvml> Open(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // For good.
  if (library == nullptr) return absl::UnavailableError(absl::StrCat("NVML: ", dlerror()));
  Nvml nvml{};
  const bool all = LoadFunction(library, "nvmlInit_v2", nvml.init) &&
                   LoadFunction(library, "nvmlErrorString", nvml.error_text) &&
                   LoadFunction(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.find) &&
                   LoadFunction(library, "nvmlDeviceGetUtilizationRates", nvml.utilization) &&
                   LoadFunction(library, "nvmlDeviceGetMemoryInfo", nvml.memory) &&
                   LoadFunction(library, "nvmlDeviceGetTemperature", nvml.temperature) &&
                   LoadFunction(library, "nvmlDeviceGetPowerUsage", nvml.power);
  if (!all) return absl::UnavailableError(absl::StrCat("NVML: ", name, " lacks functions"));
  FORMWORK_RETURN_IF_ERROR(NvmlStatus(nvml, nvml.init()));
  return nvml;
}

}  // namespace

class NvmlLoad::Reader {
 public:
  Reader(std::string pci_bus_id, std::string library)
      : pci_bus_id_(std::move(pci_bus_id)), library_(std::move(library)) {}

  // `self`: this one, for the thread to keep.
  absl::StatusOr<DeviceLoad> Get(const std::shared_ptr<Reader>& self) {
    absl::MutexLock lock(&mutex_);
    if (idle_ && absl::Now() - read_at_ < kFresh) return load_;
    if (idle_) {
      try {
        std::thread([self] { self->ReadOnce(); }).detach();
      } catch (const std::system_error&) {
        return absl::UnavailableError("NVML: there is no thread to ask it");
      }
      idle_ = false;
      began_ = absl::Now();
    }
    if (!mutex_.AwaitWithDeadline(absl::Condition(&idle_), began_ + kPatience)) {
      return absl::UnavailableError("NVML: it does not answer");
    }
    return load_;
  }

  void AwaitIdle() {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&idle_), kPatience);
  }

 private:
  void ReadOnce() {
    absl::StatusOr<DeviceLoad> load = Read();
    absl::MutexLock lock(&mutex_);
    load_ = std::move(load);
    read_at_ = absl::Now();
    idle_ = true;
  }

  // By one thread at a time. What one kind of GPU does not tell is left out.
  absl::StatusOr<DeviceLoad> Read() {
    if (!nvml_) nvml_ = Open(library_);
    FORMWORK_RETURN_IF_ERROR(nvml_->status());
    const Nvml& nvml = **nvml_;
    if (gpu_ == nullptr) {
      FORMWORK_RETURN_IF_ERROR(NvmlStatus(nvml, nvml.find(pci_bus_id_.c_str(), &gpu_)));
    }
    DeviceLoad load;
    Nvml::Utilization utilization{};
    const int error = nvml.utilization(gpu_, &utilization);
    if (error == 0) {
      load.utilization = utilization.gpu / 100.0;
      load.memory_utilization = utilization.memory / 100.0;
    }
    Nvml::Memory memory{};
    if (nvml.memory(gpu_, &memory) == 0) {
      load.memory_occupied_bytes = static_cast<double>(memory.used);
    }
    unsigned celsius = 0, milliwatts = 0;
    if (nvml.temperature(gpu_, Nvml::kOfTheChip, &celsius) == 0) load.celsius = celsius;
    if (nvml.power(gpu_, &milliwatts) == 0) load.watts = milliwatts / 1000.0;
    const bool any = load.utilization || load.memory_occupied_bytes || load.celsius || load.watts;
    if (!any) return NvmlStatus(nvml, error);
    return load;
  }

  const std::string pci_bus_id_, library_;
  // Of the thread that reads.
  std::optional<absl::StatusOr<Nvml>> nvml_;
  Nvml::Gpu* gpu_ = nullptr;

  absl::Mutex mutex_;
  bool idle_ ABSL_GUARDED_BY(mutex_) = true;  // No reading is under way.
  absl::Time began_ ABSL_GUARDED_BY(mutex_);
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::StatusOr<DeviceLoad> load_ ABSL_GUARDED_BY(mutex_);
};

NvmlLoad::NvmlLoad(std::string pci_bus_id, std::string library)
    : reader_(std::make_shared<Reader>(std::move(pci_bus_id), std::move(library))) {}

NvmlLoad::~NvmlLoad() { reader_->AwaitIdle(); }

absl::StatusOr<DeviceLoad> NvmlLoad::Get() { return reader_->Get(reader_); }

}  // namespace formwork
