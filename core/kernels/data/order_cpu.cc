// Datasets of the elements of another: which of them, and how often.

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/position.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// --- As many as asked for -----------------------------------------------------------------------

struct TakeStage {
  Iterator it;
  int64_t count;
  int64_t taken = 0;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    if (count < 0) return it.Next(ctx, element);
    if (taken == count) return false;
    ++taken;
    return it.Next(ctx, element);
  }
  absl::Status Keep(Position& position) { return position.Keep(it, taken); }
};

absl::StatusOr<KernelFn> MakeTake(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t count, ScalarInput<int64_t>(ctx, 1, "count"));
    int64_t cardinality = input->cardinality;
    if (cardinality == Dataset::kInfinite) {
      cardinality = count < 0 ? Dataset::kInfinite : count;
    } else if (cardinality >= 0 && count >= 0) {
      cardinality = std::min(cardinality, count);
    }
    return NewDataset(input->spec, cardinality, [input, count](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn::Of<TakeStage>(std::move(it), count);
    });
  });
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

struct SkipStage {
  Iterator it;
  int64_t left;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    FORMWORK_ASSIGN_OR_RETURN(const bool more, SkipElements(ctx, it, std::exchange(left, 0)));
    return more ? it.Next(ctx, element) : absl::StatusOr<bool>(false);
  }
  absl::Status Keep(Position& position) { return position.Keep(it, left); }
};

struct NothingStage {
  absl::StatusOr<bool> Next(IterationContext&, Element&) { return false; }
  absl::Status Keep(Position&) { return absl::OkStatus(); }
};

absl::StatusOr<KernelFn> MakeSkip(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t count, ScalarInput<int64_t>(ctx, 1, "count"));
    int64_t cardinality = input->cardinality;
    if (cardinality >= 0) {
      cardinality = count < 0 ? 0 : std::max<int64_t>(0, cardinality - count);
    } else if (count < 0) {
      cardinality = 0;
    }
    return NewDataset(input->spec, cardinality, [input, count](IterationContext& ctx) -> Begun {
      if (count < 0) return NextFn::Of<NothingStage>();
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn::Of<SkipStage>(std::move(it), count);
    });
  });
}

struct RepeatStage {
  DatasetPtr input;
  int64_t count;
  Iterator it = {};
  int64_t begun = 0;
  bool fresh = false;  // The input has given nothing yet since it was begun.

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
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
  }
  absl::Status Keep(Position& position) {
    FORMWORK_RETURN_IF_ERROR(position.KeepBegun(it, input.get()));
    return position.Keep(begun, fresh);
  }
};

absl::StatusOr<KernelFn> MakeRepeat(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t count, ScalarInput<int64_t>(ctx, 1, "count"));
    const int64_t cardinality = RepeatedCardinality(input->cardinality, count);
    return NewDataset(input->spec, cardinality, [input, count](IterationContext&) -> Begun {
      return NextFn::Of<RepeatStage>(input, count);
    });
  });
}

struct ShardStage {
  Iterator it;
  int64_t shards, index;
  bool require_non_empty;
  bool first = true;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
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
  }
  absl::Status Keep(Position& position) { return position.Keep(it, first); }
};

absl::StatusOr<KernelFn> MakeShard(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool require_non_empty,
                            init.attrs().Get<bool>("require_non_empty"));
  return DatasetKernel(init, [=](KernelContext& ctx, DatasetPtr input) -> Made {
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
      return NextFn::Of<ShardStage>(std::move(it), shards, index, require_non_empty);
    });
  });
}

// --- As they are --------------------------------------------------------------------------------

// What says how TensorFlow is to run a dataset changes no element.
absl::StatusOr<KernelFn> MakeForward(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(DatasetFromTensor(ctx.input(0)).status());
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

// What is measured of its elements nobody asks for.
absl::StatusOr<KernelFn> MakeStats(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(DatasetFromTensor(ctx.input(0)).status());
    FORMWORK_RETURN_IF_ERROR(ScalarInput<std::string>(ctx, 1, "tag").status());
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeWrap(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(DatasetFromTensor(ctx.input(0)).status());
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

struct IgnoreErrorsStage {
  Iterator it;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    while (true) {
      absl::StatusOr<bool> more = it.Next(ctx, element);
      if (more.ok()) return more;
      // That the call is to stop, or has no more memory, is no element's error.
      FORMWORK_RETURN_IF_ERROR(ctx.call.stop().status());
      if (absl::IsResourceExhausted(more.status())) return more;
    }
  }
  absl::Status Keep(Position& position) { return position.Keep(it); }
};

absl::StatusOr<KernelFn> MakeIgnoreErrors(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext&, DatasetPtr input) -> Made {
    const int64_t cardinality =
        input->cardinality == Dataset::kInfinite ? Dataset::kInfinite : Dataset::kUnknown;
    return NewDataset(input->spec, cardinality, [input](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn::Of<IgnoreErrorsStage>(std::move(it));
    });
  });
}

struct AssertCardinalityStage {
  Iterator it;
  int64_t expected;
  int64_t given = 0;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
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
  }
  absl::Status Keep(Position& position) { return position.Keep(it, given); }
};

absl::StatusOr<KernelFn> MakeAssertCardinality(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t expected, ScalarInput<int64_t>(ctx, 1, "cardinality"));
    return NewDataset(input->spec, expected, [input, expected](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn::Of<AssertCardinalityStage>(std::move(it), expected);
    });
  });
}

// What tells an element from others: its bytes.
std::string KeyOf(const Tensor& tensor) {
  if (tensor.dtype() == DType::kString) return tensor.scalar<std::string>();
  return std::string(static_cast<const char*>(tensor.raw()), tensor.bytes());
}

struct UniqueStage {
  Iterator it;
  HashSet<std::string> seen = {};

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    while (true) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
      if (!more) return false;
      if (element[0].rank() != 0) {
        return InvalidArgument("UniqueDataset only supports scalar elements: ",
                               element[0].shape().ToString());
      }
      if (seen.insert(KeyOf(element[0])).second) return true;
    }
  }
  absl::Status Keep(Position& position) {
    Element keys;
    for (const std::string& key : seen) keys.push_back(Tensor::StringScalar(key));
    FORMWORK_RETURN_IF_ERROR(position.Keep(it, keys));
    for (const Tensor& key : keys) {
      if (key.dtype() != DType::kString || key.rank() != 0) return position.Unfit();
      seen.insert(key.scalar<std::string>());
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<KernelFn> MakeUnique(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext&, DatasetPtr input) -> Made {
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
      return NextFn::Of<UniqueStage>(std::move(it));
    });
  });
}

}  // namespace

void RegisterOrderDatasets(KernelRegistry& registry) {
  registry.Add("TakeDataset", MakeTake);
  registry.Add("SkipDataset", MakeSkip);
  registry.Add("RepeatDataset", MakeRepeat);
  registry.Add("ShardDataset", MakeShard);
  registry.Add("IgnoreErrorsDataset", MakeIgnoreErrors);
  registry.Add("AssertCardinalityDataset", MakeAssertCardinality);
  registry.Add("UniqueDataset", MakeUnique);
  for (absl::string_view op :
       {"OptionsDataset", "RewriteDataset", "ModelDataset", "OptimizeDatasetV2",
        "MaxIntraOpParallelismDataset", "PrivateThreadPoolDataset", "FinalizeDataset",
        "NonSerializableDataset"}) {
    registry.Add(op, MakeForward);
  }
  registry.Add("BytesProducedStatsDataset", MakeStats);
  registry.Add("LatencyStatsDataset", MakeStats);
  registry.Add("WrapDatasetVariant", MakeWrap);
  registry.Add("UnwrapDatasetVariant", MakeWrap);
}

}  // namespace formwork
