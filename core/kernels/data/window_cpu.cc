// Datasets of datasets: windows over elements, and groups of them.

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset_function.h"
#include "core/kernels/data/position.h"
#include "core/kernels/data/stages.h"
#include "core/kernels/variant/variant_nesting.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

struct HeldStage {
  std::shared_ptr<const std::vector<Element>> held;
  size_t at = 0;

  absl::StatusOr<bool> Next(IterationContext&, Element& element) {
    if (at == held->size()) return false;
    element = (*held)[at++];
    return true;
  }
  absl::Status Keep(Position& position) { return position.KeepUpTo(held->size(), at); }
};

// --- Windows ------------------------------------------------------------------------------------

struct WindowSizes {
  int64_t size, shift, stride;
  bool drop_remainder;

  // How many elements a window reaches over; beyond all, where that is no number.
  uint64_t reach() const {
    uint64_t reach;
    const bool overflows = __builtin_mul_overflow(static_cast<uint64_t>(size - 1),
                                                  static_cast<uint64_t>(stride), &reach);
    return overflows ? std::numeric_limits<uint64_t>::max() : reach + 1;
  }
  int64_t Windows(int64_t elements) const {
    if (elements < 0) return elements;
    if (!drop_remainder) return elements / shift + (elements % shift == 0 ? 0 : 1);
    if (static_cast<uint64_t>(elements) < reach()) return 0;
    return (elements - static_cast<int64_t>(reach())) / shift + 1;
  }
};

// The elements that the next windows begin with.
class WindowBuffer {
 public:
  WindowBuffer(Iterator it, const WindowSizes& sizes) : it_(std::move(it)), sizes_(sizes) {}

  // The next window; empty: there is none.
  absl::StatusOr<std::vector<Element>> Next(IterationContext& ctx) {
    while (elements_.size() < sizes_.reach()) {
      Element element;
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, element));
      if (!more) break;
      elements_.push_back(std::move(element));
    }
    std::vector<Element> window;
    if (sizes_.drop_remainder && elements_.size() < sizes_.reach()) return window;
    for (size_t i = 0; i < elements_.size(); i += static_cast<size_t>(sizes_.stride)) {
      window.push_back(elements_[i]);
      if (static_cast<size_t>(sizes_.stride) > elements_.size() - i) break;
    }
    const size_t held = std::min(elements_.size(), static_cast<size_t>(sizes_.shift));
    elements_.erase(elements_.begin(), elements_.begin() + static_cast<int64_t>(held));
    Element skipped;
    for (size_t i = held; i < static_cast<size_t>(sizes_.shift); ++i) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, skipped));
      if (!more) break;
    }
    return window;
  }

  absl::Status Keep(Position& position) { return position.Keep(it_, elements_); }

 private:
  Iterator it_;
  const WindowSizes sizes_;
  std::deque<Element> elements_;
};

absl::StatusOr<WindowSizes> WindowSizesFrom(KernelContext& ctx) {
  WindowSizes sizes;
  FORMWORK_ASSIGN_OR_RETURN(sizes.size, ScalarInput<int64_t>(ctx, 1, "size"));
  if (sizes.size < 1) return InvalidArgument("Window size must be greater than zero.");
  FORMWORK_ASSIGN_OR_RETURN(sizes.shift, ScalarInput<int64_t>(ctx, 2, "shift"));
  if (sizes.shift < 1) return InvalidArgument("Window shift must be greater than zero.");
  FORMWORK_ASSIGN_OR_RETURN(sizes.stride, ScalarInput<int64_t>(ctx, 3, "stride"));
  if (sizes.stride < 1) return InvalidArgument("Window stride must be greater than zero.");
  FORMWORK_ASSIGN_OR_RETURN(sizes.drop_remainder, ScalarInput<bool>(ctx, 4, "drop_remainder"));
  return sizes;
}

struct WindowStage {
  DatasetPtr input;
  WindowBuffer buffer;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Element> window, buffer.Next(ctx));
    if (window.empty()) return false;
    for (size_t c = 0; c < input->spec.dtypes.size(); ++c) {
      std::vector<Element> of_component;
      for (const Element& each : window) of_component.push_back({each[c]});
      ElementSpec spec{{input->spec.dtypes[c]}, {input->spec.shapes[c]}};
      FORMWORK_ASSIGN_OR_RETURN(Tensor dataset,
                                HeldDataset(std::move(spec), std::move(of_component)));
      element.push_back(std::move(dataset));
    }
    return true;
  }
  absl::Status Keep(Position& position) { return position.Keep(buffer); }
};

absl::StatusOr<KernelFn> MakeWindow(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const WindowSizes sizes, WindowSizesFrom(ctx));
    const size_t components = input->spec.dtypes.size();
    ElementSpec spec;
    spec.dtypes.assign(components, DType::kVariant);
    spec.shapes.assign(components, Shape());
    return NewDataset(std::move(spec), sizes.Windows(input->cardinality),
                      [input, sizes](IterationContext& ctx) -> Begun {
                        FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
                        return NextFn::Of<WindowStage>(input, WindowBuffer(std::move(it), sizes));
                      });
  });
}

// --- Groups -------------------------------------------------------------------------------------

// Elements of one key are gathered until there are as many as its window has, or nothing more
// comes; then what the reduce function makes of them is given.
class Groups {
 public:
  // The functions: key, reduce, window size.
  Groups(ElementSpec input, std::vector<DType> dtypes, Iterator it,
         std::vector<RunningFunction> functions)
      : input_(std::move(input)),
        dtypes_(std::move(dtypes)),
        it_(std::move(it)),
        key_(std::move(functions[0])),
        reduce_(std::move(functions[1])),
        size_(std::move(functions[2])) {}

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    while (true) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, reduced_.Next(ctx, element));
      if (more) return true;
      int64_t key;
      FORMWORK_ASSIGN_OR_RETURN(const bool full, Gather(ctx, key));
      if (!full) {
        if (groups_.empty()) return false;
        key = groups_.begin()->first;
      }
      FORMWORK_RETURN_IF_ERROR(Reduce(ctx, key));
    }
  }

  // What is being given is a function of a group that is no longer there.
  absl::Status Keep(Position& position) {
    if (!reduced_.at_end() && !position.reads()) {
      return Unimplemented("a group is being given out");
    }
    return position.Keep(it_, key_, reduce_, size_, sizes_, groups_);
  }

 private:
  // Whether a group has become full: that of `key`. Else there is nothing more.
  absl::StatusOr<bool> Gather(IterationContext& ctx, int64_t& key) {
    while (true) {
      Element element;
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, element));
      if (!more) return false;
      FORMWORK_ASSIGN_OR_RETURN(key, key_.RunForInteger(ctx, element, "key_func"));
      auto size = sizes_.find(key);
      if (size == sizes_.end()) {
        FORMWORK_ASSIGN_OR_RETURN(
            const int64_t asked,
            size_.RunForInteger(ctx, {Tensor::Scalar(key)}, "window_size_func"));
        if (asked <= 0) {
          return InvalidArgument("Window size must be greater than zero, but got ", asked, ".");
        }
        size = sizes_.emplace(key, asked).first;
      }
      std::vector<Element>& group = groups_[key];
      group.push_back(std::move(element));
      if (static_cast<int64_t>(group.size()) == size->second) return true;
    }
  }

  absl::Status Reduce(IterationContext& ctx, int64_t key) {
    auto group = groups_.find(key);
    FORMWORK_ASSIGN_OR_RETURN(Tensor elements, HeldDataset(input_, std::move(group->second)));
    groups_.erase(group);
    FORMWORK_ASSIGN_OR_RETURN(
        const DatasetPtr reduced,
        reduce_.RunForDataset(ctx, {Tensor::Scalar(key), std::move(elements)}, dtypes_));
    FORMWORK_ASSIGN_OR_RETURN(reduced_, reduced->Begin(ctx));
    return absl::OkStatus();
  }

  const ElementSpec input_;
  const std::vector<DType> dtypes_;
  Iterator it_;
  RunningFunction key_, reduce_, size_;
  std::map<int64_t, int64_t> sizes_;
  std::map<int64_t, std::vector<Element>> groups_;
  Iterator reduced_;
};

absl::StatusOr<KernelFn> MakeGroupByWindow(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(
      const NodeFunctions functions,
      NodeFunctions::Of(init, {"Tkey_func_other_arguments", "Treduce_func_other_arguments",
                               "Twindow_size_func_other_arguments"}));
  return DatasetKernel(init, [=](KernelContext& ctx, DatasetPtr input) -> Made {
    return NewDataset(
        spec, Dataset::kUnknown,
        [input, bound = functions.Bind(ctx, 1),
         dtypes = spec.dtypes](IterationContext& ctx) -> Begun {
          FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
          FORMWORK_ASSIGN_OR_RETURN(std::vector<RunningFunction> runs, NewRuns(bound, ctx));
          return NextFn::Of<Groups>(input->spec, dtypes, std::move(it), std::move(runs));
        });
  });
}

}  // namespace

absl::StatusOr<Tensor> HeldDataset(ElementSpec spec, std::vector<Element> elements) {
  auto held = std::make_shared<const std::vector<Element>>(std::move(elements));
  auto dataset =
      NewDataset(std::move(spec), static_cast<int64_t>(held->size()),
                 [held](IterationContext&) -> Begun { return NextFn::Of<HeldStage>(held); });
  dataset->quiet = true;
  for (const Element& element : *held) {
    for (const Tensor& component : element) {
      FORMWORK_RETURN_IF_ERROR(CountNesting(*dataset, component));
      dataset->quiet = dataset->quiet && IsQuiet(component);
    }
  }
  return Tensor::VariantScalar(std::move(dataset));
}

void RegisterWindowDatasets(KernelRegistry& registry) {
  registry.Add("WindowDataset", MakeWindow);
  registry.Add("GroupByWindowDataset", MakeGroupByWindow);
}

}  // namespace formwork
