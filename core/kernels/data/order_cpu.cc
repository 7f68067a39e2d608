// Datasets of the elements of others: which of them, how often, and of which input.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// --- As many as asked for -----------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeTake(KernelInit&) {
  return DatasetKernel(MakeOnDataset([](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t count, ScalarInput<int64_t>(ctx, 1, "count"));
    int64_t cardinality = input->cardinality;
    if (cardinality == Dataset::kInfinite) {
      cardinality = count < 0 ? Dataset::kInfinite : count;
    } else if (cardinality >= 0 && count >= 0) {
      cardinality = std::min(cardinality, count);
    }
    return NewDataset(input->spec, cardinality, [input, count](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn([it = std::move(it), count, taken = int64_t{0}](
                        IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
        if (count < 0) return it.Next(ctx, element);
        if (taken == count) return false;
        ++taken;
        return it.Next(ctx, element);
      });
    });
  }));
}

// Passes `count` elements by, all where it is negative. False where there are not as many.
absl::StatusOr<bool> SkipElements(IterationContext& ctx, Iterator& it, int64_t count) {
  Element skipped;
  for (int64_t i = 0; count < 0 || i < count; ++i) {
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, skipped));
    if (!more) return false;
  }
  return true;
}

absl::StatusOr<KernelFn> MakeSkip(KernelInit&) {
  return DatasetKernel(MakeOnDataset([](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t count, ScalarInput<int64_t>(ctx, 1, "count"));
    int64_t cardinality = input->cardinality;
    if (cardinality >= 0) {
      cardinality = count < 0 ? 0 : std::max<int64_t>(0, cardinality - count);
    } else if (count < 0) {
      cardinality = 0;
    }
    return NewDataset(input->spec, cardinality, [input, count](IterationContext& ctx) -> Begun {
      if (count < 0) {
        return NextFn([](IterationContext&, Element&) -> absl::StatusOr<bool> { return false; });
      }
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn([it = std::move(it), left = count](
                        IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
        FORMWORK_ASSIGN_OR_RETURN(const bool more, SkipElements(ctx, it, std::exchange(left, 0)));
        return more ? it.Next(ctx, element) : absl::StatusOr<bool>(false);
      });
    });
  }));
}

int64_t RepeatedCardinality(int64_t once, int64_t count) {
  if (count == 0 || once == 0) return 0;
  if (count < 0) return Dataset::kInfinite;
  if (once < 0) return once;
  const int64_t most = std::numeric_limits<int64_t>::max();
  return once > most / count ? most : once * count;
}

absl::StatusOr<KernelFn> MakeRepeat(KernelInit&) {
  return DatasetKernel(MakeOnDataset([](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t count, ScalarInput<int64_t>(ctx, 1, "count"));
    const int64_t cardinality = RepeatedCardinality(input->cardinality, count);
    return NewDataset(input->spec, cardinality, [input, count](IterationContext&) -> Begun {
      // `fresh`: the input has given nothing yet since it was begun.
      return NextFn([input, count, it = Iterator(), begun = int64_t{0}, fresh = false](
                        IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
        while (true) {
          if (!it.at_end()) {
            FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
            if (more) {
              fresh = false;
              return true;
            }
            if (fresh && count < 0) return false;  // Nothing, for ever.
          }
          if (count >= 0 && begun == count) return false;
          FORMWORK_ASSIGN_OR_RETURN(it, input->Begin(ctx));
          ++begun;
          fresh = true;
        }
      });
    });
  }));
}

absl::StatusOr<KernelFn> MakeShard(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool require_non_empty,
                            init.attrs().Get<bool>("require_non_empty"));
  return DatasetKernel(MakeOnDataset([=](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t shards, ScalarInput<int64_t>(ctx, 1, "num_shards"));
    FORMWORK_ASSIGN_OR_RETURN(const int64_t index, ScalarInput<int64_t>(ctx, 2, "index"));
    if (shards < 1) {
      return InvalidArgument(
          "Number of shards must be greater than zero (currently num_shards = ", shards, ").");
    }
    if (index < 0 || index >= shards) {
      return InvalidArgument("Index must be between 0 and ", shards - 1,
                             " (currently index = ", index, ", num_shards = ", shards, ").");
    }
    int64_t cardinality = input->cardinality;
    if (cardinality >= 0) {
      cardinality = cardinality / shards + (index < cardinality % shards ? 1 : 0);
    }
    return NewDataset(input->spec, cardinality, [=](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn([it = std::move(it), shards, index, require_non_empty, first = true](
                        IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
        // Of each round of the shards; the last round may end behind this one's element.
        const bool begins = std::exchange(first, false);
        FORMWORK_ASSIGN_OR_RETURN(const bool reached,
                                  SkipElements(ctx, it, begins ? index : shards - 1));
        bool more = false;
        if (reached) {
          FORMWORK_ASSIGN_OR_RETURN(more, it.Next(ctx, element));
        }
        if (!more && begins && require_non_empty) {
          return InvalidArgument(
              "Could not apply FILE based sharding: the dataset only has fewer elements than the ",
              shards, " shards it is required to have.");
        }
        return more;
      });
    });
  }));
}

// --- Of several inputs --------------------------------------------------------------------------

// Inputs `first` to `first + count - 1`.
absl::StatusOr<std::vector<DatasetPtr>> DatasetsFrom(KernelContext& ctx, int first, int count) {
  std::vector<DatasetPtr> datasets;
  for (int i = first; i < first + count; ++i) {
    FORMWORK_ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetFromTensor(ctx.input(i)));
    datasets.push_back(std::move(dataset));
  }
  return datasets;
}

absl::StatusOr<std::vector<Iterator>> BeginAll(IterationContext& ctx,
                                               const std::vector<DatasetPtr>& datasets) {
  std::vector<Iterator> iterators;
  for (const DatasetPtr& dataset : datasets) {
    FORMWORK_ASSIGN_OR_RETURN(Iterator it, dataset->Begin(ctx));
    iterators.push_back(std::move(it));
  }
  return iterators;
}

absl::StatusOr<KernelFn> MakeZip(KernelInit&) {
  return DatasetKernel(MakeDataset([](KernelContext& ctx) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(std::vector<DatasetPtr> inputs,
                              DatasetsFrom(ctx, 0, ctx.num_inputs()));
    ElementSpec spec;
    int64_t cardinality = Dataset::kInfinite;
    for (const DatasetPtr& input : inputs) {
      spec.dtypes.insert(spec.dtypes.end(), input->spec.dtypes.begin(), input->spec.dtypes.end());
      spec.shapes.insert(spec.shapes.end(), input->spec.shapes.begin(), input->spec.shapes.end());
      const int64_t own = input->cardinality;
      if (cardinality == Dataset::kUnknown || own == Dataset::kInfinite) continue;
      const bool less =
          own == Dataset::kUnknown || cardinality == Dataset::kInfinite || own < cardinality;
      if (less) cardinality = own;
    }
    return NewDataset(
        std::move(spec), cardinality, [inputs = std::move(inputs)](IterationContext& ctx) -> Begun {
          FORMWORK_ASSIGN_OR_RETURN(std::vector<Iterator> iterators, BeginAll(ctx, inputs));
          return NextFn(
              [iterators = std::move(iterators)](IterationContext& ctx,
                                                 Element& element) mutable -> absl::StatusOr<bool> {
                Element part;
                for (Iterator& it : iterators) {
                  FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, part));
                  if (!more) return false;
                  element.insert(element.end(), std::make_move_iterator(part.begin()),
                                 std::make_move_iterator(part.end()));
                }
                return true;
              });
        });
  }));
}

absl::StatusOr<KernelFn> MakeConcatenate(KernelInit&) {
  return DatasetKernel(MakeOnDataset([](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(DatasetPtr other, DatasetFromTensor(ctx.input(1)));
    FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(input->spec.dtypes, other->spec.dtypes));
    ElementSpec spec = input->spec;
    for (size_t i = 0; i < spec.shapes.size() && i < other->spec.shapes.size(); ++i) {
      spec.shapes[i] = spec.shapes[i].CommonSupertype(other->spec.shapes[i]);
    }
    const int64_t a = input->cardinality, b = other->cardinality;
    int64_t cardinality = Dataset::kUnknown;
    if (a == Dataset::kInfinite || b == Dataset::kInfinite) {
      cardinality = Dataset::kInfinite;
    } else if (a >= 0 && b >= 0) {
      const int64_t most = std::numeric_limits<int64_t>::max();
      cardinality = a > most - b ? most : a + b;
    }
    return NewDataset(spec, cardinality, [input, other](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn([it = std::move(it), other](IterationContext& ctx,
                                                Element& element) mutable -> absl::StatusOr<bool> {
        FORMWORK_ASSIGN_OR_RETURN(bool more, it.Next(ctx, element));
        if (more || other == nullptr) return more;
        FORMWORK_ASSIGN_OR_RETURN(it, other->Begin(ctx));
        other = nullptr;
        return it.Next(ctx, element);
      });
    });
  }));
}

absl::StatusOr<KernelFn> MakeDirectedInterleave(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool stop_on_empty,
                            init.attrs().Get<bool>("stop_on_empty_dataset"));
  return DatasetKernel(MakeOnDataset([=](KernelContext& ctx, DatasetPtr selector) -> Made {
    if (selector->spec.dtypes != std::vector<DType>{DType::kInt64}) {
      return InvalidArgument("The selector dataset must have one component of dtype int64.");
    }
    FORMWORK_ASSIGN_OR_RETURN(std::vector<DatasetPtr> inputs,
                              DatasetsFrom(ctx, 1, ctx.num_inputs() - 1));
    if (inputs.empty()) return InvalidArgument("DirectedInterleaveDataset has no data inputs");
    ElementSpec spec = inputs[0]->spec;
    bool all_infinite = selector->cardinality == Dataset::kInfinite;
    for (const DatasetPtr& input : inputs) {
      FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(spec.dtypes, input->spec.dtypes));
      for (size_t i = 0; i < spec.shapes.size() && i < input->spec.shapes.size(); ++i) {
        spec.shapes[i] = spec.shapes[i].CommonSupertype(input->spec.shapes[i]);
      }
      all_infinite = all_infinite && input->cardinality == Dataset::kInfinite;
    }
    const int64_t cardinality = all_infinite ? Dataset::kInfinite : Dataset::kUnknown;
    return NewDataset(
        std::move(spec), cardinality,
        [selector, inputs = std::move(inputs), stop_on_empty](IterationContext& ctx) -> Begun {
          FORMWORK_ASSIGN_OR_RETURN(Iterator choices, selector->Begin(ctx));
          FORMWORK_ASSIGN_OR_RETURN(std::vector<Iterator> iterators, BeginAll(ctx, inputs));
          return NextFn(
              [choices = std::move(choices), iterators = std::move(iterators), stop_on_empty](
                  IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
                while (true) {
                  FORMWORK_ASSIGN_OR_RETURN(const bool chosen, choices.Next(ctx, element));
                  if (!chosen) return false;
                  if (element[0].rank() != 0) return InvalidArgument("Selector must be a scalar");
                  const int64_t selected = element[0].scalar<int64_t>();
                  const int64_t n = static_cast<int64_t>(iterators.size());
                  if (selected < 0 || selected >= n) {
                    return InvalidArgument("Selector index out of range: ", selected, " >= ", n);
                  }
                  Iterator& it = iterators[static_cast<size_t>(selected)];
                  if (it.at_end()) continue;
                  FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
                  if (more) return true;
                  const bool over = std::all_of(iterators.begin(), iterators.end(),
                                                [](const Iterator& each) { return each.at_end(); });
                  if (stop_on_empty || over) return false;
                }
              });
        });
  }));
}

// --- As they are --------------------------------------------------------------------------------

// What says how TensorFlow is to run a dataset, or runs it ahead, changes no element.
absl::StatusOr<KernelFn> MakeForward(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(DatasetFromTensor(ctx.input(0)).status());
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeWrap(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeIgnoreErrors(KernelInit&) {
  return DatasetKernel(MakeOnDataset([](KernelContext&, DatasetPtr input) -> Made {
    const int64_t cardinality =
        input->cardinality == Dataset::kInfinite ? Dataset::kInfinite : Dataset::kUnknown;
    return NewDataset(input->spec, cardinality, [input](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn([it = std::move(it)](IterationContext& ctx,
                                         Element& element) mutable -> absl::StatusOr<bool> {
        while (true) {
          absl::StatusOr<bool> more = it.Next(ctx, element);
          if (more.ok()) return more;
          // That the call is to stop, or has no more memory, is no element's error.
          FORMWORK_RETURN_IF_ERROR(ctx.call.stop().status());
          if (absl::IsResourceExhausted(more.status())) return more;
        }
      });
    });
  }));
}

absl::StatusOr<KernelFn> MakeAssertCardinality(KernelInit&) {
  return DatasetKernel(MakeOnDataset([](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t expected, ScalarInput<int64_t>(ctx, 1, "cardinality"));
    return NewDataset(input->spec, expected, [input, expected](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn([it = std::move(it), expected, given = int64_t{0}](
                        IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
        FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
        if (more) ++given;
        const auto elements = [](int64_t n) {
          return absl::StrCat(n, n == 1 ? " element" : " elements");
        };
        if (!more && expected == Dataset::kInfinite) {
          return FailedPrecondition("Input dataset was expected to contain an infinite number of ",
                                    "elements but contained only ", elements(given), ".");
        }
        if (!more && given < expected) {
          return FailedPrecondition("Input dataset was expected to contain ", elements(expected),
                                    " but contained only ", elements(given), ".");
        }
        if (more && expected >= 0 && given > expected) {
          return FailedPrecondition("Input dataset was expected to contain ", elements(expected),
                                    " but contained at least ", elements(given), ".");
        }
        return more;
      });
    });
  }));
}

// What tells an element from others: its bytes.
std::string KeyOf(const Tensor& tensor) {
  if (tensor.dtype() == DType::kString) return tensor.scalar<std::string>();
  return std::string(static_cast<const char*>(tensor.raw()), tensor.bytes());
}

absl::StatusOr<KernelFn> MakeUnique(KernelInit&) {
  return DatasetKernel(MakeOnDataset([](KernelContext&, DatasetPtr input) -> Made {
    if (input->spec.dtypes.size() != 1) {
      return InvalidArgument("UniqueDataset only supports inputs with a single component.");
    }
    const DType dtype = input->spec.dtypes[0];
    if (dtype != DType::kInt32 && dtype != DType::kInt64 && dtype != DType::kString) {
      return InvalidArgument(
          "UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or "
          "`tf.string` component.");
    }
    return NewDataset(input->spec, Dataset::kUnknown, [input](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn([it = std::move(it), seen = HashSet<std::string>()](
                        IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
        while (true) {
          FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
          if (!more) return false;
          if (element[0].rank() != 0) {
            return InvalidArgument("UniqueDataset only supports scalar elements: ",
                                   element[0].shape().ToString());
          }
          if (seen.insert(KeyOf(element[0])).second) return true;
        }
      });
    });
  }));
}

}  // namespace

void RegisterOrderDatasets(KernelRegistry& registry) {
  registry.Add("TakeDataset", MakeTake);
  registry.Add("SkipDataset", MakeSkip);
  registry.Add("RepeatDataset", MakeRepeat);
  registry.Add("ShardDataset", MakeShard);
  registry.Add("ZipDataset", MakeZip);
  registry.Add("ConcatenateDataset", MakeConcatenate);
  registry.Add("DirectedInterleaveDataset", MakeDirectedInterleave);
  registry.Add("IgnoreErrorsDataset", MakeIgnoreErrors);
  registry.Add("AssertCardinalityDataset", MakeAssertCardinality);
  registry.Add("UniqueDataset", MakeUnique);
  for (absl::string_view op :
       {"OptionsDataset", "RewriteDataset", "PrefetchDataset", "ModelDataset", "OptimizeDatasetV2",
        "MaxIntraOpParallelismDataset", "PrivateThreadPoolDataset", "FinalizeDataset"}) {
    registry.Add(op, MakeForward);
  }
  registry.Add("WrapDatasetVariant", MakeWrap);
  registry.Add("UnwrapDatasetVariant", MakeWrap);
}

}  // namespace formwork
