// Iterators as resources: their positions outlive calls.

#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset_function.h"
#include "core/kernels/data/position.h"
#include "core/kernels/data/stored_iterator.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/resource/stored_form.h"
#include "core/kernels/variant/optional.h"
#include "core/kernels/variant/variant_nesting.h"
#include "core/ops/data.h"

namespace formwork {
namespace {

// The state of an iterator: unlike that of other resources it moves on in place. Who uses it
// writes, so that calls take turns; there is nothing to go back to if one fails, as in TensorFlow.
// One that comes from disk is where it was once a call has made its dataset again (Revive).
class IteratorState final : public VariantObject, public UsesResources {
 public:
  IteratorState(Iterator it, DatasetPtr dataset)
      : it_(std::move(it)), dataset_(std::move(dataset)) {}
  explicit IteratorState(StoredIterator stored) : stored_(std::move(stored)) {}
  absl::string_view type_name() const override { return "formwork::Iterator"; }
  // Those of its dataset; of one that is not whole those that it is to have.
  std::shared_ptr<const UsedResources> uses() const override {
    return whole() ? dataset_->used : stored_->dataset.ToUses();
  }

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    if (!whole()) {
      return FailedPrecondition(
          "where the iterator was before the server was restarted could not be restored: begin it "
          "anew");
    }
    if (busy_) return FailedPrecondition("the iterator is asked by one of its own functions");
    busy_ = true;
    auto done = absl::MakeCleanup([this] { busy_ = false; });
    return it_.Next(ctx, element);
  }

  bool whole() const { return dataset_ != nullptr; }
  // Of one that is not whole.
  const StoredIterator& stored() const { return *stored_; }

  // Goes on where it was, in a dataset that is as its own was.
  absl::Status Revive(IterationContext& ctx, DatasetPtr dataset) {
    FORMWORK_ASSIGN_OR_RETURN(Iterator it, dataset->Begin(ctx));
    Position position(stored_->numbers, stored_->tensors, ctx);
    FORMWORK_RETURN_IF_ERROR(position.Keep(it));
    if (!position.done()) return position.Unfit();
    it_ = std::move(it);
    dataset_ = std::move(dataset);
    stored_.reset();
    return absl::OkStatus();
  }

  absl::StatusOr<StoredIterator> Store() {
    if (!whole()) return *stored_;
    Position position;
    FORMWORK_RETURN_IF_ERROR(position.Keep(it_));
    if (!remade_) {
      FORMWORK_ASSIGN_OR_RETURN(remade_, StoredDataset::Of(*dataset_));
    }
    return StoredIterator{*remade_, position.numbers(), position.tensors()};
  }

 private:
  Iterator it_;
  DatasetPtr dataset_;
  std::optional<StoredIterator> stored_;  // Until it is whole.
  std::optional<StoredDataset> remade_;   // Of dataset_, once it has been asked for.
  bool busy_ = false;
};

absl::StatusOr<const ResourceType*> IteratorType(KernelContext& ctx, ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, ctx.resources().TypeOf(handle));
  if (type->kind == &kIteratorKind) return type;
  return InvalidArgument("the handle is not an iterator's but a ", type->kind->name, "'s");
}

// Begins the iterator anew, with `dataset`.
absl::Status BeginIterator(KernelContext& ctx, IterationContext& iteration, ResourceHandle handle,
                           DatasetPtr dataset) {
  FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, IteratorType(ctx, handle));
  FORMWORK_RETURN_IF_ERROR(CheckElementsFit(ElementSpec::OfIterator(*type), dataset->spec));
  FORMWORK_ASSIGN_OR_RETURN(Iterator it, dataset->Begin(iteration));
  return ctx.resources().WriteState(
      handle,
      Tensor::VariantScalar(std::make_shared<IteratorState>(std::move(it), std::move(dataset))),
      sizeof(IteratorState));
}

absl::StatusOr<KernelFn> MakeMakeIterator(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetFromTensor(ctx.input(0)));
    if (ctx.input(1).num_elements() != 1) {
      return InvalidArgument("iterator must be a single handle: shape=",
                             ctx.input(1).shape().ToString());
    }
    IterationContext iteration(ctx.call());
    return BeginIterator(ctx, iteration, ctx.input(1).scalar<ResourceHandle>(), dataset);
  });
}

// Behind the handle of a OneShotIterator, which begins once.
absl::StatusOr<KernelFn> MakeOneShot(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  return KernelFn([function](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor state, ctx.resources().ReadState(handle));
    if (state.has_value()) return absl::OkStatus();
    IterationContext iteration(ctx.call());
    FORMWORK_ASSIGN_OR_RETURN(RunningFunction factory,
                              DatasetFunction(ctx, function, 0, 0).NewRun(iteration));
    FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, IteratorType(ctx, handle));
    FORMWORK_ASSIGN_OR_RETURN(
        const DatasetPtr dataset,
        factory.RunForDataset(iteration, {}, ElementSpec::OfIterator(*type).dtypes));
    return BeginIterator(ctx, iteration, handle, dataset);
  });
}

// The next element of the iterator that is input 0; false: there is none.
absl::StatusOr<bool> NextElement(KernelContext& ctx, absl::string_view op, Element& element) {
  FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
  FORMWORK_RETURN_IF_ERROR(IteratorType(ctx, handle).status());
  FORMWORK_ASSIGN_OR_RETURN(Tensor state, ctx.resources().ReadState(handle));
  if (!state.has_value()) {
    return FailedPrecondition(
        op,
        "() failed because the iterator has not been initialized. Ensure that you have run "
        "the initializer operation for this iterator before getting the next element.");
  }
  IterationContext iteration(ctx.call());
  // Nobody else makes states of iterators.
  auto& iterator = static_cast<IteratorState&>(*state.scalar<Variant>());
  absl::StatusOr<bool> more = iterator.Next(iteration, element);
  // It has moved on, whether it failed or not.
  FORMWORK_RETURN_IF_ERROR(
      ctx.resources().WriteState(handle, std::move(state), sizeof(IteratorState)));
  return more;
}

absl::StatusOr<KernelFn> MakeGetNext(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  return KernelFn([spec = std::move(spec)](KernelContext& ctx) -> absl::Status {
    Element element;
    FORMWORK_ASSIGN_OR_RETURN(const bool more, NextElement(ctx, "GetNext", element));
    if (!more) return absl::OutOfRangeError("End of sequence");
    FORMWORK_RETURN_IF_ERROR(CheckElement(spec, element));
    for (size_t i = 0; i < element.size(); ++i) {
      ctx.SetOutput(static_cast<int>(i), std::move(element[i]));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeGetNextAsOptional(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  return KernelFn([spec = std::move(spec)](KernelContext& ctx) -> absl::Status {
    auto optional = std::make_shared<Optional>();
    FORMWORK_ASSIGN_OR_RETURN(const bool more,
                              NextElement(ctx, "GetNextAsOptional", optional->components));
    if (more) FORMWORK_RETURN_IF_ERROR(CheckElement(spec, optional->components));
    for (const Tensor& component : optional->components) {
      FORMWORK_RETURN_IF_ERROR(CountNesting(*optional, component));
    }
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(optional)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeDelete(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_RETURN_IF_ERROR(IteratorType(ctx, handle).status());
    return ctx.resources().Destroy(handle, /*ignore_missing=*/true);
  });
}

// A name for the handle; it opens nothing.
absl::StatusOr<KernelFn> MakeToString(KernelInit&) {
  return KernelFn([name = std::string("iterator/")](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_RETURN_IF_ERROR(IteratorType(ctx, handle).status());
    ctx.SetOutput(0, Tensor::StringScalar(absl::StrCat(name, handle.id)));
    return absl::OkStatus();
  });
}

// --- On disk ------------------------------------------------------------------------------------

// Input 0 makes the dataset of the iterator that is input 1, which has been read, again. The state
// is the same as before: it is not written.
absl::StatusOr<KernelFn> MakeRevive(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetFromTensor(ctx.input(0)));
    if (ctx.input(1).num_elements() != 1)
      return InvalidArgument("iterator must be a single handle");
    const ResourceHandle handle = ctx.input(1).scalar<ResourceHandle>();
    FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, IteratorType(ctx, handle));
    FORMWORK_RETURN_IF_ERROR(CheckElementsFit(ElementSpec::OfIterator(*type), dataset->spec));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor state, ctx.resources().ReadState(handle));
    if (!state.has_value()) return absl::OkStatus();
    auto& iterator = static_cast<IteratorState&>(*state.scalar<Variant>());
    if (iterator.whole()) return absl::OkStatus();
    IterationContext iteration(ctx.call());
    return iterator.Revive(iteration, std::move(dataset));
  });
}

absl::StatusOr<std::vector<Tensor>> StoredParts(const ResourceType&, const Tensor& value,
                                                Allocator& allocator) {
  auto& state = static_cast<IteratorState&>(*value.scalar<Variant>());
  absl::StatusOr<StoredIterator> stored = state.Store();
  if (absl::IsUnimplemented(stored.status())) {
    return Annotate(stored.status(), "the position of an iterator cannot be stored");
  }
  FORMWORK_RETURN_IF_ERROR(stored.status());
  return stored->ToParts(allocator);
}

absl::StatusOr<ResourceValue> ValueOfParts(const ResourceType&, const std::vector<Tensor>& parts) {
  FORMWORK_ASSIGN_OR_RETURN(StoredIterator stored, StoredIterator::FromParts(parts));
  return ResourceValue{Tensor::VariantScalar(std::make_shared<IteratorState>(std::move(stored))),
                       sizeof(IteratorState)};
}

std::optional<Revival> RevivalOf(const Tensor& value) {
  const auto& state = static_cast<const IteratorState&>(*value.scalar<Variant>());
  if (state.whole()) return std::nullopt;
  return state.stored().dataset.ToRevival();
}

}  // namespace

const StoredForm kStoredIterator = {.kind = kIteratorKind,
                                    .parts = StoredParts,
                                    .value = ValueOfParts,
                                    .moves = true,
                                    .revival = RevivalOf};

void RegisterIterators(KernelRegistry& registry) {
  registry.Add("MakeIterator", MakeMakeIterator);
  registry.Add("_ReviveIterator", MakeRevive);
  registry.Add("OneShotIterator", MakeOneShot);
  registry.Add("IteratorGetNext", MakeGetNext);
  registry.Add("IteratorGetNextSync", MakeGetNext);
  registry.Add("IteratorGetNextAsOptional", MakeGetNextAsOptional);
  registry.Add("DeleteIterator", MakeDelete);
  registry.Add("IteratorToStringHandle", MakeToString);
}

}  // namespace formwork
