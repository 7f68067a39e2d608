// Parsing of serialized tf.train.SequenceExample: a map from names to lists (the context), and one
// from names to lists of such lists.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/io/example_features.h"
#include "core/kernels/io/io_cpu.h"
#include "core/kernels/kernel.h"
#include "core/kernels/shape_tensor.h"
#include "core/ops/dims.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/parse.h"

namespace formwork {
namespace {

// A list of features, not decoded yet.
struct FeatureList {
  bool is_there = false;
  absl::string_view features;
};

// Of a map: the place of each name that is asked for, and of each key.
struct Wanted {
  void Want(const Tensor& keys) {
    for (const std::string& key : keys.span<std::string>()) {
      columns.push_back(places.emplace(key, places.size()).first->second);
      names.push_back(key);
    }
  }
  HashMap<std::string, size_t> places;
  std::vector<std::string> names;
  std::vector<size_t> columns;
};

// The values of a column: where those of each feature end and, of lists, how many features the
// examples have up to each one.
template <typename T>
struct Column {
  std::vector<T> values;
  std::vector<int64_t> splits = {0};
  std::vector<int64_t> outer = {0};
};

class Sequences {
 public:
  Sequences(Tensor serialized, Tensor names)
      : serialized_(std::move(serialized)), names_(std::move(names)) {}

  bool batched() const { return serialized_.rank() == 1; }
  int64_t size() const { return serialized_.num_elements(); }

  void WantContext(const Tensor& keys) { context_.Want(keys); }
  void WantLists(const Tensor& keys) { lists_.Want(keys); }

  absl::Status Read() {
    features_.resize(static_cast<size_t>(size()) * context_.places.size());
    lists_found_.resize(static_cast<size_t>(size()) * lists_.places.size());
    for (int64_t i = 0; i < size(); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      const std::string& example = serialized_.data<std::string>()[i];
      Feature* const row = features_.data() + static_cast<size_t>(i) * context_.places.size();
      FeatureList* const of_lists =
          lists_found_.data() + static_cast<size_t>(i) * lists_.places.size();
      int64_t entries = 0;
      // Of two of the same name the last one counts.
      bool ok = ForFeatures(1, example, [&](absl::string_view name, absl::string_view value) {
        if (WorkIsCutAt(entries++)) return false;
        const auto place = context_.places.find(name);
        return place == context_.places.end() || ReadFeature(value, row[place->second]);
      });
      ok = ok && ForFeatures(2, example, [&](absl::string_view name, absl::string_view value) {
             if (WorkIsCutAt(entries++)) return false;
             const auto place = lists_.places.find(name);
             if (place != lists_.places.end()) of_lists[place->second] = {true, value};
             return true;
           });
      FORMWORK_RETURN_IF_ERROR(WorkStatus());
      if (!ok) return Malformed(i);
    }
    return absl::OkStatus();
  }

  const std::string& ContextKey(size_t column) const { return context_.names[column]; }
  const std::string& ListKey(size_t column) const { return lists_.names[column]; }
  std::string NameOf(int64_t example) const {
    if (names_.num_elements() == 0) return "<unknown>";
    return names_.data<std::string>()[example];
  }
  bool HasContext(int64_t example, size_t column) const {
    return ContextAt(example, column).dtype != DType::kInvalid;
  }
  bool HasList(int64_t example, size_t column) const { return ListAt(example, column).is_there; }

  // What the examples have in a column of the context.
  template <typename T>
  absl::Status ReadContext(size_t column, DType dtype, Column<T>& to) const {
    for (int64_t i = 0; i < size(); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      const Feature& feature = ContextAt(i, column);
      if (feature.dtype != DType::kInvalid) {
        if (feature.dtype != dtype) {
          return InvalidArgument(
              "Name: ", NameOf(i), ", Context feature: ", ContextKey(column),
              ".  Data types don't match. Expected type: ", GraphDTypeName(dtype));
        }
        if (!AppendValues<T>(feature.list, to.values)) return Malformed(i);
      }
      to.splits.push_back(static_cast<int64_t>(to.values.size()));
    }
    return absl::OkStatus();
  }

  // The same of the lists, feature by feature.
  template <typename T>
  absl::Status ReadLists(size_t column, DType dtype, Column<T>& to) const {
    for (int64_t i = 0; i < size(); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      WireReader reader(ListAt(i, column).features);
      for (int64_t index = 0; !reader.done();) {
        if (WorkIsCutAt(index, kDearItems)) return WorkStatus();
        WireField field;
        Feature feature;
        if (!reader.Next(field)) return Malformed(i);
        if (field.number != 1 || field.type != kBytes) continue;
        if (!ReadFeature(field.bytes, feature)) return Malformed(i);
        if (feature.dtype != DType::kInvalid && feature.dtype != dtype) {
          return InvalidArgument(
              "Name: ", NameOf(i), ", Feature list: ", ListKey(column), ", Index: ", index,
              ".  Data types don't match. Expected type: ", GraphDTypeName(dtype));
        }
        if (feature.dtype != DType::kInvalid && !AppendValues<T>(feature.list, to.values)) {
          return Malformed(i);
        }
        to.splits.push_back(static_cast<int64_t>(to.values.size()));
        ++index;
      }
      to.outer.push_back(static_cast<int64_t>(to.splits.size()) - 1);
    }
    return absl::OkStatus();
  }

 private:
  const Feature& ContextAt(int64_t example, size_t column) const {
    return features_[static_cast<size_t>(example) * context_.places.size() +
                     context_.columns[column]];
  }
  const FeatureList& ListAt(int64_t example, size_t column) const {
    return lists_found_[static_cast<size_t>(example) * lists_.places.size() +
                        lists_.columns[column]];
  }
  absl::Status Malformed(int64_t example) const {
    return InvalidArgument("Invalid protocol message input, example id: ", NameOf(example));
  }

  Tensor serialized_;
  Tensor names_;
  Wanted context_, lists_;
  std::vector<Feature> features_;         // [examples, places]
  std::vector<FeatureList> lists_found_;  // [examples, places]
};

template <typename T>
absl::Status OutputVector(KernelContext& ctx, int at, DType dtype, std::vector<T>& values) {
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor * out, ctx.AllocateOutput(at, dtype, Shape{static_cast<int64_t>(values.size())}));
  T* to = out->mutable_data<T>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    to[i] = std::move(values[i]);
  }
  return absl::OkStatus();
}

// Row splits. Of one example there are none of examples: a scalar stands for them.
absl::Status OutputSplits(KernelContext& ctx, int at, DType dtype,
                          const std::vector<int64_t>& splits, bool there) {
  if (dtype == DType::kInt32 && splits.back() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("Too many values for row splits of int32: ", splits.back());
  }
  if (there) return OutputIntegers(ctx, at, dtype, splits);
  ctx.SetOutput(at,
                dtype == DType::kInt32 ? Tensor::Scalar(int32_t{0}) : Tensor::Scalar(int64_t{0}));
  return absl::OkStatus();
}

// --- The context ---------------------------------------------------------------------------------

// Outputs `at`, `at` + n and `at` + 2 n.
template <typename T>
absl::Status SparseContext(KernelContext& ctx, const Sequences& examples, size_t column,
                           DType dtype, int at, int n) {
  Column<T> read;
  FORMWORK_RETURN_IF_ERROR(examples.ReadContext(column, dtype, read));
  const auto total = static_cast<int64_t>(read.values.size());
  const int64_t rank = examples.batched() ? 2 : 1;
  FORMWORK_ASSIGN_OR_RETURN(Tensor * indices,
                            ctx.AllocateOutput(at, DType::kInt64, Shape{total, rank}));
  int64_t* index = indices->mutable_data<int64_t>();
  int64_t longest = 0;
  for (size_t i = 0; i + 1 < read.splits.size(); ++i) {
    const int64_t begin = read.splits[i], end = read.splits[i + 1];
    longest = std::max(longest, end - begin);
    for (int64_t k = begin; k < end; ++k) {
      if (WorkIsCutAt(k)) return WorkStatus();
      if (examples.batched()) *index++ = static_cast<int64_t>(i);
      *index++ = k - begin;
    }
  }
  FORMWORK_RETURN_IF_ERROR(OutputVector(ctx, at + n, dtype, read.values));
  if (!examples.batched()) return OutputIntegers(ctx, at + 2 * n, DType::kInt64, {total});
  return OutputIntegers(ctx, at + 2 * n, DType::kInt64, {examples.size(), longest});
}

template <typename T>
absl::Status RaggedContext(KernelContext& ctx, const Sequences& examples, size_t column,
                           DType dtype, DType splits, int at, int n) {
  Column<T> read;
  FORMWORK_RETURN_IF_ERROR(examples.ReadContext(column, dtype, read));
  FORMWORK_RETURN_IF_ERROR(OutputVector(ctx, at, dtype, read.values));
  return OutputSplits(ctx, at + n, splits, read.splits, examples.batched());
}

template <typename T>
absl::Status DenseContext(KernelContext& ctx, const Sequences& examples, size_t column,
                          const DenseFeature& feature, const Tensor& fill, int at) {
  Column<T> read;
  FORMWORK_RETURN_IF_ERROR(examples.ReadContext(column, feature.dtype, read));
  const int64_t width = feature.row_elements;
  for (int64_t i = 0; i < examples.size(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (!examples.HasContext(i, column)) {
      if (fill.num_elements() > 0 || width == 0) continue;
      return InvalidArgument("Feature: ", examples.ContextKey(column),
                             " (data type: ", GraphDTypeName(feature.dtype),
                             ") is required but could not be found.");
    }
    const auto at_i = static_cast<size_t>(i);
    if (read.splits[at_i + 1] - read.splits[at_i] != width) {
      return InvalidArgument("Unexpected number of elements in example ", examples.NameOf(i));
    }
  }
  Dims dims = feature.row;
  if (examples.batched()) dims.insert(dims.begin(), examples.size());
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor dense, Tensor::Allocate(ctx.allocator(), feature.dtype, shape));
  T* to = dense.mutable_data<T>();
  for (int64_t i = 0; i < examples.size(); ++i, to += width) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    const bool there = examples.HasContext(i, column);
    CopyElements(there ? read.values.data() + read.splits[static_cast<size_t>(i)] : fill.data<T>(),
                 there || fill.num_elements() > 0 ? width : 0, to);
  }
  ctx.SetOutput(at, std::move(dense));
  return absl::OkStatus();
}

// --- The lists of features -----------------------------------------------------------------------

template <typename T>
absl::Status SparseLists(KernelContext& ctx, const Sequences& examples, size_t column, DType dtype,
                         int at, int n) {
  Column<T> read;
  FORMWORK_RETURN_IF_ERROR(examples.ReadLists(column, dtype, read));
  const auto total = static_cast<int64_t>(read.values.size());
  const int64_t rank = examples.batched() ? 3 : 2;
  FORMWORK_ASSIGN_OR_RETURN(Tensor * indices,
                            ctx.AllocateOutput(at, DType::kInt64, Shape{total, rank}));
  int64_t* index = indices->mutable_data<int64_t>();
  int64_t most = 0, longest = 0;
  for (size_t i = 0; i + 1 < read.outer.size(); ++i) {
    most = std::max(most, read.outer[i + 1] - read.outer[i]);
    for (int64_t step = read.outer[i]; step < read.outer[i + 1]; ++step) {
      if (WorkIsCutAt(step)) return WorkStatus();
      const int64_t begin = read.splits[static_cast<size_t>(step)];
      const int64_t end = read.splits[static_cast<size_t>(step) + 1];
      longest = std::max(longest, end - begin);
      for (int64_t k = begin; k < end; ++k) {
        if (WorkIsCutAt(k)) return WorkStatus();
        if (examples.batched()) *index++ = static_cast<int64_t>(i);
        *index++ = step - read.outer[i];
        *index++ = k - begin;
      }
    }
  }
  FORMWORK_RETURN_IF_ERROR(OutputVector(ctx, at + n, dtype, read.values));
  if (!examples.batched()) return OutputIntegers(ctx, at + 2 * n, DType::kInt64, {most, longest});
  return OutputIntegers(ctx, at + 2 * n, DType::kInt64, {examples.size(), most, longest});
}

template <typename T>
absl::Status RaggedLists(KernelContext& ctx, const Sequences& examples, size_t column, DType dtype,
                         DType splits, int at, int n) {
  Column<T> read;
  FORMWORK_RETURN_IF_ERROR(examples.ReadLists(column, dtype, read));
  FORMWORK_RETURN_IF_ERROR(OutputVector(ctx, at, dtype, read.values));
  FORMWORK_RETURN_IF_ERROR(OutputSplits(ctx, at + n, splits, read.outer, examples.batched()));
  return OutputSplits(ctx, at + 2 * n, splits, read.splits, true);
}

// Lists that are shorter than the longest are filled up with zeros, or empty strings.
template <typename T>
absl::Status DenseLists(KernelContext& ctx, const Sequences& examples, size_t column,
                        const DenseFeature& feature, bool may_miss, int at, int n) {
  Column<T> read;
  FORMWORK_RETURN_IF_ERROR(examples.ReadLists(column, feature.dtype, read));
  const int64_t width = feature.row_elements;
  int64_t most = 0;
  for (int64_t i = 0; i < examples.size(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (!may_miss && !examples.HasList(i, column)) {
      return InvalidArgument("Name: ", examples.NameOf(i), ", Feature list '",
                             examples.ListKey(column),
                             "' is required but could not be found.  Did you mean to include it in "
                             "feature_list_dense_missing_assumed_empty or "
                             "feature_list_dense_defaults?");
    }
    const int64_t first = read.outer[static_cast<size_t>(i)];
    const int64_t last = read.outer[static_cast<size_t>(i) + 1];
    most = std::max(most, last - first);
    for (int64_t step = first; step < last; ++step) {
      if (WorkIsCutAt(step)) return WorkStatus();
      const int64_t size =
          read.splits[static_cast<size_t>(step) + 1] - read.splits[static_cast<size_t>(step)];
      if (size == width) continue;
      return InvalidArgument("Name: ", examples.NameOf(i), ", Key: ", examples.ListKey(column),
                             ", Index: ", step - first,
                             ".  Number of values != expected.  values size: ", size,
                             " but output shape: ", DimsText(feature.row));
    }
  }
  Dims dims = feature.row;
  dims.insert(dims.begin(), most);
  if (examples.batched()) dims.insert(dims.begin(), examples.size());
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor dense, Tensor::Allocate(ctx.allocator(), feature.dtype, shape));
  if (IsPlainData(feature.dtype)) ZeroElements(dense);
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor lengths, Tensor::Allocate(ctx.allocator(), DType::kInt64,
                                       examples.batched() ? Shape{examples.size()} : Shape()));
  T* to = dense.mutable_data<T>();
  for (int64_t i = 0; i < examples.size(); ++i, to += most * width) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    const int64_t first = read.outer[static_cast<size_t>(i)];
    const int64_t length = read.outer[static_cast<size_t>(i) + 1] - first;
    lengths.mutable_data<int64_t>()[i] = length;
    CopyElements(read.values.data() + first * width, length * width, to);
  }
  ctx.SetOutput(at, std::move(dense));
  ctx.SetOutput(at + n, std::move(lengths));
  return absl::OkStatus();
}

// --- ParseSequenceExampleV2 ----------------------------------------------------------------------

// Outputs follow each other from `at` on.
absl::Status OutputContext(KernelContext& ctx, const Sequences& examples,
                           const ParseSequenceAttrs::Parts& parts,
                           absl::Span<const Tensor> defaults, int& at) {
  size_t column = 0;
  const int sparse = static_cast<int>(parts.sparse.size());
  for (int i = 0; i < sparse; ++i, ++column) {
    const DType dtype = parts.sparse[static_cast<size_t>(i)];
    FORMWORK_FEATURE_CASES(dtype, "sparse feature",
                           SparseContext<T>(ctx, examples, column, dtype, at + i, sparse))
  }
  at += 3 * sparse;
  for (size_t i = 0; i < parts.dense.size(); ++i, ++column) {
    const DenseFeature& feature = parts.dense[i];
    FORMWORK_FEATURE_CASES(feature.dtype, "dense feature",
                           DenseContext<T>(ctx, examples, column, feature, defaults[i], at++))
  }
  const int ragged = static_cast<int>(parts.ragged.size());
  for (int i = 0; i < ragged; ++i, ++column) {
    const DType dtype = parts.ragged[static_cast<size_t>(i)];
    const DType splits = parts.splits[static_cast<size_t>(i)];
    FORMWORK_FEATURE_CASES(dtype, "ragged feature",
                           RaggedContext<T>(ctx, examples, column, dtype, splits, at + i, ragged))
  }
  at += 2 * ragged;
  return absl::OkStatus();
}

absl::Status OutputLists(KernelContext& ctx, const Sequences& examples,
                         const ParseSequenceAttrs::Parts& parts, const Tensor& may_miss, int at) {
  size_t column = 0;
  const int sparse = static_cast<int>(parts.sparse.size());
  for (int i = 0; i < sparse; ++i, ++column) {
    const DType dtype = parts.sparse[static_cast<size_t>(i)];
    FORMWORK_FEATURE_CASES(dtype, "sparse feature",
                           SparseLists<T>(ctx, examples, column, dtype, at + i, sparse))
  }
  at += 3 * sparse;
  const int dense = static_cast<int>(parts.dense.size());
  for (int i = 0; i < dense; ++i, ++column) {
    const DenseFeature& feature = parts.dense[static_cast<size_t>(i)];
    const bool missing = may_miss.data<bool>()[i];
    FORMWORK_FEATURE_CASES(feature.dtype, "dense feature",
                           DenseLists<T>(ctx, examples, column, feature, missing, at + i, dense))
  }
  at += 2 * dense;
  const int ragged = static_cast<int>(parts.ragged.size());
  for (int i = 0; i < ragged; ++i, ++column) {
    const DType dtype = parts.ragged[static_cast<size_t>(i)];
    const DType splits = parts.splits[static_cast<size_t>(i)];
    FORMWORK_FEATURE_CASES(dtype, "ragged feature",
                           RaggedLists<T>(ctx, examples, column, dtype, splits, at + i, ragged))
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeParseSequence(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ParseSequenceAttrs attrs, ParseSequenceAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs = std::move(attrs)](KernelContext& ctx) -> absl::Status {
    std::vector<const Tensor*> inputs;
    for (int i = 0; i < ctx.num_inputs(); ++i) inputs.push_back(&ctx.input(i));
    FORMWORK_RETURN_IF_ERROR(CheckParseSequence(attrs, inputs));
    Sequences examples(ctx.input(0), ctx.input(1));
    for (const int i : {2, 3, 4}) examples.WantContext(ctx.input(i));
    for (const int i : {5, 6, 7}) examples.WantLists(ctx.input(i));
    FORMWORK_RETURN_IF_ERROR(examples.Read());
    // Copies: outputs may take the inputs' place.
    const Tensor may_miss = ctx.input(8);
    std::vector<Tensor> defaults;
    for (int i = 9; i < ctx.num_inputs(); ++i) defaults.push_back(ctx.input(i));
    int at = 0;
    FORMWORK_RETURN_IF_ERROR(OutputContext(ctx, examples, attrs.context, defaults, at));
    return OutputLists(ctx, examples, attrs.lists, may_miss, at);
  });
}

}  // namespace

void AddParseSequenceCpuKernel(KernelRegistry& registry) {
  registry.Add("ParseSequenceExampleV2", MakeParseSequence);
}

}  // namespace formwork
