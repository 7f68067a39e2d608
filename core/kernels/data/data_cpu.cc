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
  RegisterPrefetchDatasets(registry);
  RegisterCombineDatasets(registry);
  RegisterBatchDatasets(registry);
  RegisterSparseBatchDatasets(registry);
  RegisterRebatchDatasets(registry);
  RegisterWindowDatasets(registry);
  RegisterReducerDatasets(registry);
  RegisterParseExampleDatasets(registry);
  RegisterShuffleDatasets(registry);
  RegisterCacheDatasets(registry);
  RegisterFileCacheDatasets(registry);
  RegisterCompressedElements(registry);
  RegisterMapDefun(registry);
  RegisterDatasetReaders(registry);
  RegisterIterators(registry);
}

}  // namespace formwork
