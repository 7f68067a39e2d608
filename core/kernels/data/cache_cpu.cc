// Datasets that keep the elements of their inputs.

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;
using Elements = std::shared_ptr<const std::vector<Element>>;

// All elements, once an iterator has come to their end. Thread-safe.
class Cache {
 public:
  Elements Get() const {
    absl::MutexLock lock(&mutex_);
    return elements_;
  }
  void Fill(std::vector<Element> elements) {
    auto held = std::make_shared<const std::vector<Element>>(std::move(elements));
    absl::MutexLock lock(&mutex_);
    if (elements_ == nullptr) elements_ = std::move(held);
  }

 private:
  mutable absl::Mutex mutex_;
  Elements elements_ ABSL_GUARDED_BY(mutex_);
};

NextFn ReadCache(Elements elements) {
  return [elements = std::move(elements), at = size_t{0}](
             IterationContext&, Element& element) mutable -> absl::StatusOr<bool> {
    if (at == elements->size()) return false;
    element = (*elements)[at++];
    return true;
  };
}

NextFn WriteCache(Iterator it, std::shared_ptr<Cache> cache) {
  return [it = std::move(it), cache = std::move(cache), seen = std::vector<Element>()](
             IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
    if (more) {
      seen.push_back(element);
    } else {
      cache->Fill(std::move(seen));
    }
    return more;
  };
}

absl::StatusOr<KernelFn> MakeCache(KernelInit&) {
  return DatasetKernel(MakeOnDataset([](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const std::string file, ScalarInput<std::string>(ctx, 1, "filename"));
    if (!file.empty()) return Unimplemented("a dataset is not cached in a file: ", file);
    auto cache = std::make_shared<Cache>();
    return NewDataset(input->spec, input->cardinality,
                      [input, cache](IterationContext& ctx) -> Begun {
                        if (Elements elements = cache->Get()) return ReadCache(std::move(elements));
                        FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
                        return WriteCache(std::move(it), cache);
                      });
  }));
}

}  // namespace

void RegisterCacheDatasets(KernelRegistry& registry) {
  registry.Add("CacheDataset", MakeCache);
  registry.Add("CacheDatasetV2", MakeCache);
}

}  // namespace formwork
