#include "tests/fake_nvml/fake_nvml.h"

#include <chrono>
#include <thread>

#include "gpu/nvml_types.h"

struct nvmlDevice_st {
  int number;
};

// As NVIDIA's documentation declares them.
extern "C" {

formwork::testing::FakeNvml fake_nvml;

int nvmlInit_v2() {
  ++fake_nvml.inits;
  return fake_nvml.init;
}
const char* nvmlErrorString(int /*error*/) { return "so it was told"; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_st** device) {
  static nvmlDevice_st only{};
  ++fake_nvml.finds;
  fake_nvml.bus_id = bus_id;
  *device = fake_nvml.find == 0 ? &only : nullptr;
  return fake_nvml.find;
}
int nvmlDeviceGetUtilizationRates(nvmlDevice_st* /*device*/, nvmlUtilization_st* utilization) {
  ++fake_nvml.readings;
  while (fake_nvml.hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  *utilization = {fake_nvml.percent, fake_nvml.percent - 1};
  return fake_nvml.utilization;
}
int nvmlDeviceGetMemoryInfo(nvmlDevice_st* /*device*/, nvmlMemory_st* memory) {
  *memory = {1000, 300, 700};
  return fake_nvml.memory;
}
int nvmlDeviceGetTemperature(nvmlDevice_st* /*device*/, int sensor, unsigned* celsius) {
  *celsius = sensor == 0 ? 45 : 999;
  return fake_nvml.temperature;
}
int nvmlDeviceGetPowerUsage(nvmlDevice_st* /*device*/, unsigned* milliwatts) {
  *milliwatts = 123'400;
  return fake_nvml.power;
}

}  // extern "C"
