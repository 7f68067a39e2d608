#pragma once

// What each file of this folder registers; RegisterDataCpuKernels is all of it.

#include "core/kernels/kernel.h"

namespace formwork {

void RegisterSourceDatasets(KernelRegistry& registry);  ///< Of values: range, tensors, slices.
void RegisterFileDatasets(KernelRegistry& registry);    ///< What files have.
void RegisterCsvDatasets(KernelRegistry& registry);
void RegisterGeneratorDatasets(KernelRegistry& registry);  ///< What functions give.
void RegisterMapDatasets(KernelRegistry& registry);        ///< An element of each element.
void RegisterFlatMapDatasets(KernelRegistry& registry);    ///< Datasets of elements, joined.
void RegisterOrderDatasets(KernelRegistry& registry);      ///< Which elements.
void RegisterPrefetchDatasets(KernelRegistry& registry);   ///< Elements before they are needed.
void RegisterCombineDatasets(KernelRegistry& registry);    ///< Of several inputs.
void RegisterBatchDatasets(KernelRegistry& registry);      ///< Several elements as one, and back.
void RegisterSparseBatchDatasets(KernelRegistry& registry);
void RegisterRebatchDatasets(KernelRegistry& registry);
void RegisterWindowDatasets(KernelRegistry& registry);   ///< Several elements as a dataset.
void RegisterReducerDatasets(KernelRegistry& registry);  ///< Of each key a reduction.
void RegisterParseExampleDatasets(KernelRegistry& registry);
void RegisterShuffleDatasets(KernelRegistry& registry);
void RegisterCacheDatasets(KernelRegistry& registry);
void RegisterFileCacheDatasets(KernelRegistry& registry);
void RegisterCompressedElements(KernelRegistry& registry);  ///< An element as one variant.
void RegisterMapDefun(KernelRegistry& registry);            ///< Of rows, without a dataset.
void RegisterDatasetReaders(KernelRegistry& registry);      ///< What a dataset comes to.
void RegisterIterators(KernelRegistry& registry);

}  // namespace formwork
