// Datasets of values: ranges, tensors, their slices.

#include <limits>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/position.h"
#include "core/ops/graph_dtype.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// The dtypes of the inputs that are components, with the shapes that the attrs tell.
ElementSpec SpecOfInputs(KernelContext& ctx, const ElementSpec& declared) {
  ElementSpec spec = declared;
  spec.dtypes.clear();
  for (int i = 0; i < ctx.num_inputs(); ++i) spec.dtypes.push_back(ctx.input(i).dtype());
  return spec;
}

// How many steps are from `start` to before `stop`. As unsigned numbers nothing overflows.
uint64_t StepsBetween(int64_t start, int64_t stop, int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const uint64_t from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(stop);
  const uint64_t way = step > 0 ? to - from : from - to;
  const uint64_t size = step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  return way / size + (way % size == 0 ? 0 : 1);
}

absl::StatusOr<Tensor> NumberAs(DType dtype, int64_t number) {
  switch (dtype) {
    FORMWORK_INTEGER_CASES(return Tensor::Scalar(static_cast<T>(number)))
    FORMWORK_FLOAT_CASES(return Tensor::Scalar(static_cast<T>(static_cast<double>(number))))
    default:
      return InvalidArgument("Unsupported data type: ", GraphDTypeName(dtype));
  }
}

struct RangeStage {
  int64_t start, step;
  uint64_t count;
  DType dtype;
  uint64_t at = 0;

  absl::StatusOr<bool> Next(IterationContext&, Element& element) {
    if (at == count) return false;
    const uint64_t number = static_cast<uint64_t>(start) + at++ * static_cast<uint64_t>(step);
    FORMWORK_ASSIGN_OR_RETURN(Tensor value, NumberAs(dtype, static_cast<int64_t>(number)));
    element.push_back(std::move(value));
    return true;
  }
  absl::Status Keep(Position& position) { return position.KeepUpTo(count, at); }
};

absl::StatusOr<KernelFn> MakeRange(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  if (spec.dtypes.size() != 1) {
    return InvalidArgument("RangeDataset has one component, not ", spec.dtypes.size());
  }
  FORMWORK_RETURN_IF_ERROR(NumberAs(spec.dtypes[0], 0).status());
  return DatasetKernel(init, [spec](KernelContext& ctx) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t start, ScalarInput<int64_t>(ctx, 0, "start"));
    FORMWORK_ASSIGN_OR_RETURN(const int64_t stop, ScalarInput<int64_t>(ctx, 1, "stop"));
    FORMWORK_ASSIGN_OR_RETURN(const int64_t step, ScalarInput<int64_t>(ctx, 2, "step"));
    if (step == 0) return InvalidArgument("step must be a non-zero integer.");
    const uint64_t count = StepsBetween(start, stop, step);
    const int64_t most = std::numeric_limits<int64_t>::max();
    const int64_t cardinality =
        count > static_cast<uint64_t>(most) ? most : static_cast<int64_t>(count);
    return NewDataset(spec, cardinality,
                      [start, step, count, dtype = spec.dtypes[0]](IterationContext&) -> Begun {
                        return NextFn::Of<RangeStage>(start, step, count, dtype);
                      });
  });
}

struct TensorStage {
  std::shared_ptr<const Element> components;
  bool done = false;

  absl::StatusOr<bool> Next(IterationContext&, Element& element) {
    if (std::exchange(done, true)) return false;
    element = *components;
    return true;
  }
  absl::Status Keep(Position& position) { return position.Keep(done); }
};

struct SliceStage {
  std::shared_ptr<const Element> components;
  std::vector<Shape> shapes;
  int64_t rows;
  int64_t at = 0;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    if (at == rows) return false;
    for (size_t c = 0; c < shapes.size(); ++c) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor row,
                                RowOf(ctx.allocator(), (*components)[c], shapes[c], at));
      element.push_back(std::move(row));
    }
    ++at;
    return true;
  }
  absl::Status Keep(Position& position) {
    return position.KeepUpTo(static_cast<uint64_t>(rows), at);
  }
};

struct ListStage {
  std::shared_ptr<const Element> tensors;
  size_t width;
  size_t at = 0;

  absl::StatusOr<bool> Next(IterationContext&, Element& element) {
    if (at >= tensors->size()) return false;
    const auto first = tensors->begin() + static_cast<int64_t>(at);
    element.assign(first, first + static_cast<int64_t>(width));
    at += width;
    return true;
  }
  absl::Status Keep(Position& position) {
    FORMWORK_RETURN_IF_ERROR(position.KeepUpTo(tensors->size(), at));
    return at % width == 0 ? absl::OkStatus() : position.Unfit();
  }
};

absl::StatusOr<KernelFn> MakeTensor(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec declared,
                            ElementSpec::FromAttrs(init.attrs(), "Toutput_types"));
  return DatasetKernel(init, [declared](KernelContext& ctx) -> Made {
    auto components = std::make_shared<Element>();
    for (int i = 0; i < ctx.num_inputs(); ++i) components->push_back(ctx.input(i));
    return NewDataset(SpecOfInputs(ctx, declared), 1,
                      [components = std::move(components)](IterationContext&) -> Begun {
                        return NextFn::Of<TensorStage>(components);
                      });
  });
}

absl::StatusOr<KernelFn> MakeTensorSlice(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec declared,
                            ElementSpec::FromAttrs(init.attrs(), "Toutput_types"));
  return DatasetKernel(init, [declared](KernelContext& ctx) -> Made {
    auto components = std::make_shared<Element>();
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      if (ctx.input(i).rank() == 0) {
        return InvalidArgument("All components must be at least 1-dimensional");
      }
      if (ctx.input(i).dim(0) != ctx.input(0).dim(0)) {
        return InvalidArgument("All components must have the same size in the 0th dimension");
      }
      components->push_back(ctx.input(i));
    }
    if (components->empty()) return InvalidArgument("TensorSliceDataset has no components");
    const int64_t rows = components->front().dim(0);
    std::vector<Shape> shapes;
    for (const Tensor& component : *components) shapes.push_back(RowShape(component));
    return NewDataset(SpecOfInputs(ctx, declared), rows,
                      [components = std::move(components), shapes = std::move(shapes),
                       rows](IterationContext&) -> Begun {
                        return NextFn::Of<SliceStage>(components, shapes, rows);
                      });
  });
}

// Inputs: the components of one element after the other.
absl::StatusOr<KernelFn> MakeList(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  const absl::Span<const DType> inputs = init.input_dtypes();
  const size_t width = spec.dtypes.size();
  if (width == 0 || inputs.size() % width != 0) {
    return InvalidArgument("ListDataset needs as many tensors for each element: tensors=",
                           inputs.size(), " components=", width);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == spec.dtypes[i % width]) continue;
    return InvalidArgument("ListDataset: tensor ", i, " is no ", DTypeName(spec.dtypes[i % width]),
                           " but ", DTypeName(inputs[i]));
  }
  return DatasetKernel(init, [spec, width](KernelContext& ctx) -> Made {
    auto tensors = std::make_shared<Element>();
    for (int i = 0; i < ctx.num_inputs(); ++i) tensors->push_back(ctx.input(i));
    return NewDataset(
        spec, static_cast<int64_t>(tensors->size() / width),
        [=](IterationContext&) -> Begun { return NextFn::Of<ListStage>(tensors, width); });
  });
}

}  // namespace

void RegisterSourceDatasets(KernelRegistry& registry) {
  registry.Add("RangeDataset", MakeRange);
  registry.Add("TensorDataset", MakeTensor);
  registry.Add("TensorSliceDataset", MakeTensorSlice);
  registry.Add("ListDataset", MakeList);
}

}  // namespace formwork
