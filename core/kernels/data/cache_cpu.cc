// Datasets that keep the elements of their inputs.

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/position.h"
#include "core/kernels/data/stages.h"

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

// Reads the cache, or its input, which it puts there. Elements that are held are stored: as in
// TensorFlow a cache goes with the iterators of it.
class CacheStage {
 public:
  CacheStage(DatasetPtr input, std::shared_ptr<Cache> cache)
      : input_(std::move(input)), cache_(std::move(cache)), elements_(cache_->Get()) {}

  absl::Status Begin(IterationContext& ctx) {
    if (elements_ != nullptr) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(it_, input_->Begin(ctx));
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    if (elements_ != nullptr) {
      if (at_ == elements_->size()) return false;
      element = (*elements_)[at_++];
      return true;
    }
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, element));
    if (more) {
      seen_.push_back(element);
    } else {
      cache_->Fill(std::move(seen_));
    }
    return more;
  }
  absl::Status Keep(Position& position) {
    bool cached = elements_ != nullptr;
    FORMWORK_RETURN_IF_ERROR(position.Keep(cached));
    if (!cached) {
      if (position.reads() && elements_ != nullptr) {  // Another one has been read before.
        elements_.reset();
        FORMWORK_RETURN_IF_ERROR(Begin(position.ctx()));
      }
      return position.Keep(it_, seen_);
    }
    std::vector<Element> elements;
    if (!position.reads()) elements = *elements_;
    FORMWORK_RETURN_IF_ERROR(position.Keep(elements));
    if (position.reads()) {
      cache_->Fill(std::move(elements));
      elements_ = cache_->Get();
    }
    return position.KeepUpTo(elements_->size(), at_);
  }

 private:
  DatasetPtr input_;
  std::shared_ptr<Cache> cache_;
  Elements elements_;
  size_t at_ = 0;  // In the cache.
  Iterator it_;
  std::vector<Element> seen_;
};

absl::StatusOr<KernelFn> MakeCache(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const std::string file, ScalarInput<std::string>(ctx, 1, "filename"));
    if (!file.empty()) return FileCachedDataset(std::move(input), file);
    auto cache = std::make_shared<Cache>();
    return NewDataset(input->spec, input->cardinality,
                      [input, cache](IterationContext& ctx) -> Begun {
                        CacheStage stage(input, cache);
                        FORMWORK_RETURN_IF_ERROR(stage.Begin(ctx));
                        return NextFn::Of<CacheStage>(std::move(stage));
                      });
  });
}

}  // namespace

void RegisterCacheDatasets(KernelRegistry& registry) {
  registry.Add("CacheDataset", MakeCache);
  registry.Add("CacheDatasetV2", MakeCache);
}

}  // namespace formwork
