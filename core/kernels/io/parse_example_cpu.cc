// Parsing of serialized tf.train.Example: a map from names to lists of strings, floats or integers.
// The wire format is read by hand, in place: only what is asked for is copied. What is cut short
// fails; TensorFlow takes an example without its end for an empty one where that is all of it.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/io/example_features.h"
#include "core/kernels/io/io_cpu.h"
#include "core/kernels/io/parse_example.h"
#include "core/kernels/kernel.h"
#include "core/kernels/shape_tensor.h"
#include "core/ops/dims.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/parse.h"

namespace formwork {
namespace {

// The examples of a call, and where each feature that is asked for lies in them.
class Examples {
 public:
  Examples(Tensor serialized, Tensor names)
      : serialized_(std::move(serialized)), names_(std::move(names)) {}

  bool batched() const { return serialized_.rank() == 1; }
  int64_t size() const { return serialized_.num_elements(); }

  /// The columns of these keys follow those asked for before. One that is asked for twice has two,
  /// where TensorFlow fills only the last.
  void Want(const Tensor& keys) {
    for (const std::string& key : keys.span<std::string>()) {
      columns_.push_back(places_.emplace(key, places_.size()).first->second);
      keys_.push_back(key);
    }
  }

  absl::Status Read() {
    const size_t width = places_.size();
    features_.resize(static_cast<size_t>(size()) * width);
    for (int64_t i = 0; i < size(); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      const std::string& example = serialized_.data<std::string>()[i];
      Feature* const row = features_.data() + static_cast<size_t>(i) * width;
      int64_t entries = 0;
      const bool ok = ForFeatures(1, example, [&](absl::string_view name, absl::string_view value) {
        if (WorkIsCutAt(entries++)) return false;
        const auto place = places_.find(name);
        // Of two of the same name the last one counts.
        return place == places_.end() || ReadFeature(value, row[place->second]);
      });
      FORMWORK_RETURN_IF_ERROR(WorkStatus());
      if (!ok) {
        return InvalidArgument("Could not parse example input, value: '",
                               absl::CEscape(absl::string_view(example).substr(0, 256)), "'");
      }
    }
    return absl::OkStatus();
  }

  const Feature& At(int64_t example, size_t column) const {
    return features_[static_cast<size_t>(example) * places_.size() + columns_[column]];
  }
  std::string NameOf(int64_t example) const {
    if (names_.num_elements() == 0) return "<unknown>";
    return names_.data<std::string>()[example];
  }
  const std::string& Key(size_t column) const { return keys_[column]; }

  /// Appends what example `i` has in a column of that dtype.
  template <typename T>
  absl::Status Append(int64_t i, size_t column, DType dtype, std::vector<T>& to) const {
    const Feature& feature = At(i, column);
    if (feature.dtype == DType::kInvalid) return absl::OkStatus();
    if (feature.dtype != dtype) {
      return InvalidArgument("Name: ", NameOf(i), ", Key: ", Key(column), ", Index: ", i,
                             ".  Data types don't match. Expected type: ", GraphDTypeName(dtype),
                             ", Actual type: ", GraphDTypeName(feature.dtype));
    }
    if (AppendValues<T>(feature.list, to)) return absl::OkStatus();
    return InvalidArgument("Name: ", NameOf(i), ", Key: ", Key(column), ", Index: ", i,
                           ".  Can't parse serialized Example.");
  }

 private:
  Tensor serialized_;
  Tensor names_;
  HashMap<std::string, size_t> places_;
  std::vector<std::string> keys_;
  std::vector<size_t> columns_;    // The place of each key.
  std::vector<Feature> features_;  // [examples, places]
};

template <typename T>
absl::StatusOr<Tensor> VectorOf(KernelContext& ctx, DType dtype, std::vector<T>& values) {
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor tensor,
      Tensor::Allocate(ctx.allocator(), dtype, Shape{static_cast<int64_t>(values.size())}));
  std::move(values.begin(), values.end(), tensor.mutable_data<T>());
  return tensor;
}

// The values of one column, and where each example's end.
template <typename T>
absl::Status ReadColumn(const Examples& examples, size_t column, DType dtype,
                        std::vector<T>& values, std::vector<int64_t>& splits) {
  splits.assign(1, 0);
  for (int64_t i = 0; i < examples.size(); ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    FORMWORK_RETURN_IF_ERROR(examples.Append(i, column, dtype, values));
    splits.push_back(static_cast<int64_t>(values.size()));
  }
  return absl::OkStatus();
}

// Writes outputs `at`, `at + n` and `at + 2 n`.
template <typename T>
absl::Status OutputSparse(KernelContext& ctx, const Examples& examples, size_t column, DType dtype,
                          int at, int n) {
  std::vector<T> values;
  std::vector<int64_t> splits;
  FORMWORK_RETURN_IF_ERROR(ReadColumn(examples, column, dtype, values, splits));
  const auto total = static_cast<int64_t>(values.size());
  const int64_t rank = examples.batched() ? 2 : 1;
  FORMWORK_ASSIGN_OR_RETURN(Tensor * indices,
                            ctx.AllocateOutput(at, DType::kInt64, Shape{total, rank}));
  int64_t* index = indices->mutable_data<int64_t>();
  int64_t longest = 0;
  for (int64_t i = 0; i < examples.size(); ++i) {
    const int64_t begin = splits[static_cast<size_t>(i)];
    const int64_t end = splits[static_cast<size_t>(i) + 1];
    longest = std::max(longest, end - begin);
    for (int64_t k = begin; k < end; ++k) {
      if (WorkIsCutAt(k)) return WorkStatus();
      if (examples.batched()) *index++ = i;
      *index++ = k - begin;
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor vector, VectorOf(ctx, dtype, values));
  ctx.SetOutput(at + n, std::move(vector));
  if (!examples.batched()) return OutputIntegers(ctx, at + 2 * n, DType::kInt64, {total});
  return OutputIntegers(ctx, at + 2 * n, DType::kInt64, {examples.size(), longest});
}

// Writes outputs `at` and `at + n`.
template <typename T>
absl::Status OutputRagged(KernelContext& ctx, const Examples& examples, size_t column, DType dtype,
                          DType splits_dtype, int at, int n) {
  std::vector<T> values;
  std::vector<int64_t> splits;
  FORMWORK_RETURN_IF_ERROR(ReadColumn(examples, column, dtype, values, splits));
  if (splits_dtype == DType::kInt32 && splits.back() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("Key: ", examples.Key(column),
                           ".  Too many values for row splits of int32: ", splits.back());
  }
  if (!examples.batched()) splits.clear();
  FORMWORK_ASSIGN_OR_RETURN(Tensor vector, VectorOf(ctx, dtype, values));
  ctx.SetOutput(at, std::move(vector));
  return OutputIntegers(ctx, at + n, splits_dtype, splits);
}

template <typename T>
absl::Status OutputDense(KernelContext& ctx, const Examples& examples, size_t column,
                         const DenseFeature& feature, const Tensor& fill, int at) {
  std::vector<std::vector<T>> rows(static_cast<size_t>(examples.size()));
  int64_t longest = 0;
  for (int64_t i = 0; i < examples.size(); ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    std::vector<T>& row = rows[static_cast<size_t>(i)];
    const Feature& found = examples.At(i, column);
    if (found.dtype == DType::kInvalid) {
      if (feature.variable || fill.num_elements() > 0 || feature.row_elements == 0) continue;
      return InvalidArgument("Name: ", examples.NameOf(i), ", Feature: ", examples.Key(column),
                             " (data type: ", GraphDTypeName(feature.dtype),
                             ") is required but could not be found.");
    }
    if (found.dtype != feature.dtype) {
      return InvalidArgument("Name: ", examples.NameOf(i), ", Key: ", examples.Key(column),
                             ", Index: ", i,
                             ".  Data types don't match. Data type: ", GraphDTypeName(found.dtype),
                             " but expected type: ", GraphDTypeName(feature.dtype));
    }
    FORMWORK_RETURN_IF_ERROR(examples.Append(i, column, feature.dtype, row));
    const auto size = static_cast<int64_t>(row.size());
    if (feature.variable ? size % feature.row_elements != 0 : size != feature.row_elements) {
      return InvalidArgument(
          "Name: ", examples.NameOf(i), ", Key: ", examples.Key(column), ", Index: ", i,
          ".  Number of ", GraphDTypeName(feature.dtype), " values ",
          feature.variable ? "is not a multiple of stride length. Saw "
                           : "!= expected.  Values size: ",
          size, feature.variable ? " values but row shape is: " : " but output shape: ",
          DimsText(feature.row));
    }
    longest = std::max(longest, size);
  }
  Dims dims = feature.row;
  if (feature.variable) dims.insert(dims.begin(), longest / feature.row_elements);
  if (examples.batched()) dims.insert(dims.begin(), examples.size());
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(at, feature.dtype, shape));
  T* to = output->mutable_data<T>();
  const int64_t width = feature.variable ? longest : feature.row_elements;
  for (std::vector<T>& row : rows) {
    if (WorkIsCut()) return WorkStatus();
    const auto size = static_cast<int64_t>(row.size());
    std::move(row.begin(), row.end(), to);
    if (feature.variable) {
      std::fill(to + size, to + width, fill.data<T>()[0]);
    } else if (size < width) {
      std::copy_n(fill.data<T>(), width, to);
    }
    to += width;
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeParseExampleV2(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ParseExampleAttrs attrs, ParseExampleAttrs::FromAttrs(init.attrs()));
  return ParseExampleKernel(std::move(attrs));
}

}  // namespace

KernelFn ParseExampleKernel(ParseExampleAttrs attrs) {
  return KernelFn([attrs = std::move(attrs)](KernelContext& ctx) -> absl::Status {
    const Tensor& sparse_keys = ctx.input(2);
    const Tensor& dense_keys = ctx.input(3);
    const Tensor& ragged_keys = ctx.input(4);
    FORMWORK_RETURN_IF_ERROR(
        CheckParseExample(attrs, ctx.input(0), ctx.input(1), sparse_keys.num_elements(),
                          dense_keys.num_elements(), ragged_keys.num_elements()));
    for (size_t i = 0; i < attrs.dense.size(); ++i) {
      const int at = static_cast<int>(i);
      FORMWORK_RETURN_IF_ERROR(CheckDenseDefault(attrs.dense[i], at, ctx.input(5 + at).shape()));
    }
    Examples examples(ctx.input(0), ctx.input(1));
    examples.Want(sparse_keys);
    examples.Want(dense_keys);
    examples.Want(ragged_keys);
    FORMWORK_RETURN_IF_ERROR(examples.Read());
    size_t column = 0;
    const int sparse = static_cast<int>(attrs.sparse.size());
    for (int i = 0; i < sparse; ++i, ++column) {
      const DType dtype = attrs.sparse[static_cast<size_t>(i)];
      FORMWORK_FEATURE_CASES(dtype, "sparse feature",
                             OutputSparse<T>(ctx, examples, column, dtype, i, sparse))
    }
    const int dense = static_cast<int>(attrs.dense.size());
    for (int i = 0; i < dense; ++i, ++column) {
      const DenseFeature& feature = attrs.dense[static_cast<size_t>(i)];
      FORMWORK_FEATURE_CASES(
          feature.dtype, "dense feature",
          OutputDense<T>(ctx, examples, column, feature, ctx.input(5 + i), 3 * sparse + i))
    }
    const int ragged = static_cast<int>(attrs.ragged.size());
    for (int i = 0; i < ragged; ++i, ++column) {
      const DType dtype = attrs.ragged[static_cast<size_t>(i)];
      const DType splits = attrs.splits[static_cast<size_t>(i)];
      FORMWORK_FEATURE_CASES(
          dtype, "ragged feature",
          OutputRagged<T>(ctx, examples, column, dtype, splits, 3 * sparse + dense + i, ragged))
    }
    return absl::OkStatus();
  });
}

void AddParseExampleCpuKernels(KernelRegistry& registry) {
  registry.Add("ParseExampleV2", MakeParseExampleV2);
}

}  // namespace formwork
