#include "core/kernels/resource/stored_form.h"

namespace formwork {

const StoredForm* FindStoredForm(absl::string_view kind) {
  for (const StoredForm* form :
       {&kStoredVariable, &kStoredTable, &kStoredStaticTable, &kStoredDenseTable, &kStoredMutex,
        &kStoredMeanAccumulator, &kStoredSumAccumulator, &kStoredFifoQueue,
        &kStoredPaddingFifoQueue, &kStoredPriorityQueue, &kStoredRandomShuffleQueue,
        &kStoredBarrier, &kStoredIterator}) {
    if (form->kind.name == kind) return form;
  }
  return nullptr;
}

}  // namespace formwork
