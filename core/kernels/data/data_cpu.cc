#include "core/kernels/data/data_cpu.h"

#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterDataCpuKernels(KernelRegistry& registry) {
  RegisterSourceDatasets(registry);
  RegisterFileDatasets(registry);
  RegisterCsvDatasets(registry);
  RegisterGeneratorDatasets(registry);
  RegisterMapDatasets(registry);
  RegisterFlatMapDatasets(registry);
  RegisterOrderDatasets(registry);
  RegisterBatchDatasets(registry);
  RegisterSparseBatchDatasets(registry);
  RegisterRebatchDatasets(registry);
  RegisterWindowDatasets(registry);
  RegisterShuffleDatasets(registry);
  RegisterCacheDatasets(registry);
  RegisterDatasetReaders(registry);
  RegisterIterators(registry);
}

}  // namespace formwork
