// Crosses of features: of each row every combination of one value of each column, as joined text or
// as hashes. Columns are sparse, dense or ragged, of strings or integers.

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/index_values.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/sparse/sparse_cpu.h"
#include "core/kernels/string/hashes.h"
#include "core/kernels/string/text.h"
#include "core/ops/read_attrs.h"
#include "core/ops/sparse.h"

namespace formwork {
namespace {

// How values of columns become numbers.
struct HashRule {
  enum Kind : uint8_t { kFingerprint, kSalted, kStrong } kind = kFingerprint;
  std::array<uint64_t, 2> salt = {};
};

// One column: where each row's values begin, and the last ends.
struct Column {
  Tensor values;
  std::vector<int64_t> begins;
  bool dense = false;

  int64_t count(int64_t row) const {
    return begins[static_cast<size_t>(row) + 1] - begins[static_cast<size_t>(row)];
  }
  int64_t rows() const { return static_cast<int64_t>(begins.size()) - 1; }
  int64_t PlaceOf(int64_t row, int64_t i) const { return begins[static_cast<size_t>(row)] + i; }

  void AppendText(int64_t row, int64_t i, std::string* text) const {
    const int64_t at = PlaceOf(row, i);
    if (values.dtype() == DType::kString) {
      *text += values.data<std::string>()[at];
    } else {
      absl::StrAppend(text, values.data<int64_t>()[at]);
    }
  }
  uint64_t HashOf(const HashRule& rule, int64_t row, int64_t i) const {
    const int64_t at = PlaceOf(row, i);
    if (values.dtype() == DType::kString) {
      const std::string& text = values.data<std::string>()[at];
      return rule.kind == HashRule::kStrong ? Sip(rule.salt)(text) : Farm()(text);
    }
    const int64_t* value = values.data<int64_t>() + at;
    // As TensorFlow: of integers only the lower four bytes are hashed.
    const absl::string_view bytes(reinterpret_cast<const char*>(value), 4);
    if (rule.kind == HashRule::kStrong) return Sip(rule.salt)(bytes);
    if (rule.kind == HashRule::kSalted && !dense) return Farm()(bytes);
    return static_cast<uint64_t>(*value);
  }
};
using Columns = std::vector<Column>;

absl::StatusOr<Column> SparseColumn(const Tensor& indices, const Tensor& values,
                                    const Tensor& shape) {
  FORMWORK_RETURN_IF_ERROR(
      CheckSparse({indices.shape().dims(), values.shape().dims(), shape.shape().dims()}));
  if (shape.num_elements() != 2) {
    return InvalidArgument("Expected D2 of index to be 2 got ", shape.num_elements());
  }
  const int64_t rows = shape.data<int64_t>()[0];
  const int64_t n = values.num_elements();
  if (rows < 0) return InvalidArgument("Sparse tensor has a negative size: ", rows);
  Column column;
  column.values = values;
  column.begins.assign(static_cast<size_t>(rows) + 1, 0);
  int64_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (WorkIsCutAt(row)) return WorkStatus();
    while (at < n && indices.data<int64_t>()[2 * at] <= row) {
      if (WorkIsCutAt(at)) return WorkStatus();
      ++at;
    }
    column.begins[static_cast<size_t>(row) + 1] = at;
  }
  return column;
}

absl::StatusOr<Column> DenseColumn(const Tensor& dense) {
  if (dense.rank() != 2) {
    return InvalidArgument("Dense inputs should be a matrix but received shape ",
                           dense.shape().ToString());
  }
  Column column;
  column.values = dense;
  column.dense = true;
  for (int64_t row = 0; row <= dense.dim(0); ++row) {
    if (WorkIsCutAt(row)) return WorkStatus();
    column.begins.push_back(row * dense.dim(1));
  }
  return column;
}

absl::StatusOr<Column> RaggedColumn(const Tensor& values, const Tensor& splits) {
  if (values.rank() != 1 || splits.rank() != 1) {
    return InvalidArgument("tf.ragged.cross only supports inputs with rank=2.");
  }
  const IndexValues begins(splits);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (begins.size() == 0) return InvalidArgument("Invalid ragged splits: empty");
  if (begins[0] != 0) return InvalidArgument("Invalid ragged splits: first element must be 0");
  for (int64_t i = 1; i < begins.size(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (begins[i] < begins[i - 1]) {
      return InvalidArgument("Invalid ragged splits: must be monotonically increasing");
    }
  }
  if (begins.back() != values.num_elements()) {
    return InvalidArgument("Invalid ragged splits: last element must be the number of values");
  }
  Column column;
  column.values = values;
  column.begins.assign(begins.span().begin(), begins.span().end());
  return column;
}

// How many rows there are. Errors: kInvalidArgument unless all columns have as many.
absl::StatusOr<int64_t> RowsOf(const Columns& columns) {
  if (columns.empty()) return InvalidArgument("At least one input is required");
  for (size_t i = 1; i < columns.size(); ++i) {
    if (columns[i].rows() == columns[0].rows()) continue;
    return InvalidArgument("Expected batch size ", columns[0].rows(), " got ", columns[i].rows(),
                           " at input ", i);
  }
  return columns[0].rows();
}

// Where the crosses of each row begin, and the last end.
absl::StatusOr<std::vector<int64_t>> CrossSplits(const Columns& columns, int64_t rows) {
  std::vector<int64_t> splits = {0};
  for (int64_t row = 0; row < rows; ++row) {
    if (WorkIsCutAt(row, kDearItems)) return WorkStatus();
    std::optional<int64_t> count = 1;
    for (const Column& column : columns) {
      if (count) count = CheckedMul(*count, column.count(row));
    }
    const std::optional<int64_t> end = count ? CheckedAdd(splits.back(), *count) : count;
    if (!end) return InvalidArgument("There are too many crosses");
    splits.push_back(*end);
  }
  return splits;
}

// Calls cross(combination) for each of a row's, the last column's values varying fastest.
template <typename Cross>
absl::Status ForCombinations(const Columns& columns, int64_t row, int64_t count,
                             const Cross& cross) {
  std::vector<int64_t> chosen(columns.size());
  for (int64_t i = 0; i < count; ++i) {
    FORMWORK_RETURN_IF_ERROR(cross(chosen));
    for (size_t c = columns.size(); c-- > 0;) {
      if (++chosen[c] < columns[c].count(row)) break;
      chosen[c] = 0;
    }
  }
  return absl::OkStatus();
}

// Crosses as text.
absl::StatusOr<Tensor> JoinTexts(Allocator& allocator, const Columns& columns,
                                 const std::vector<int64_t>& splits, const std::string& separator) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Allocate(allocator, DType::kString, Shape{splits.back()}));
  std::string* to = out.mutable_data<std::string>();
  TextLooks looks;
  int64_t total = 0;
  for (size_t row = 0; row + 1 < splits.size(); ++row) {
    FORMWORK_RETURN_IF_ERROR(
        ForCombinations(columns, static_cast<int64_t>(row), splits[row + 1] - splits[row],
                        [&](const std::vector<int64_t>& chosen) -> absl::Status {
                          std::string& text = *to++;
                          for (size_t c = 0; c < columns.size(); ++c) {
                            if (c > 0) text += separator;
                            columns[c].AppendText(static_cast<int64_t>(row), chosen[c], &text);
                          }
                          total += static_cast<int64_t>(text.size());
                          if (looks.CutBefore(text.size())) return WorkStatus();
                          return CheckTextSize(total);
                        }));
  }
  return out;
}

struct HashedCross {
  HashRule rule;
  std::optional<uint64_t> key;  // What the first value is joined to.
  int64_t num_buckets = 0;      // 0: as many as there are positive numbers.
};

absl::StatusOr<Tensor> JoinHashes(Allocator& allocator, const Columns& columns,
                                  const std::vector<int64_t>& splits, const HashedCross& cross) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Allocate(allocator, DType::kInt64, Shape{splits.back()}));
  int64_t* to = out.mutable_data<int64_t>();
  const auto buckets = static_cast<uint64_t>(
      cross.num_buckets > 0 ? cross.num_buckets : std::numeric_limits<int64_t>::max());
  TextLooks looks;
  for (size_t row = 0; row + 1 < splits.size(); ++row) {
    FORMWORK_RETURN_IF_ERROR(
        ForCombinations(columns, static_cast<int64_t>(row), splits[row + 1] - splits[row],
                        [&](const std::vector<int64_t>& chosen) -> absl::Status {
                          if (looks.CutBefore(sizeof(int64_t))) return WorkStatus();
                          std::optional<uint64_t> joined = cross.key;
                          for (size_t c = 0; c < columns.size(); ++c) {
                            const uint64_t hash =
                                columns[c].HashOf(cross.rule, static_cast<int64_t>(row), chosen[c]);
                            joined = joined ? JoinFingerprints(*joined, hash) : hash;
                          }
                          *to++ = static_cast<int64_t>(*joined % buckets);
                          return absl::OkStatus();
                        }));
  }
  return out;
}

// --- SparseCross, SparseCrossV2, SparseCrossHashed ----------------------------------------------

struct CrossInputs {
  int sparse = 0;
  int dense = 0;
};

absl::StatusOr<CrossInputs> CrossInputsOf(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t sparse, init.attrs().Get<int64_t>("N"));
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<DType> values,
                            init.attrs().Get<std::vector<DType>>("sparse_types"));
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<DType> dense,
                            init.attrs().Get<std::vector<DType>>("dense_types"));
  if (static_cast<int64_t>(values.size()) != sparse) {
    return InvalidArgument("Expected as many sparse_types as N: ", values.size(), " and ", sparse);
  }
  return CrossInputs{static_cast<int>(sparse), static_cast<int>(dense.size())};
}

absl::StatusOr<Columns> SparseCrossColumns(KernelContext& ctx, const CrossInputs& inputs) {
  Columns columns;
  for (int i = 0; i < inputs.sparse; ++i) {
    FORMWORK_ASSIGN_OR_RETURN(
        Column column,
        SparseColumn(ctx.input(i), ctx.input(inputs.sparse + i), ctx.input(2 * inputs.sparse + i)));
    columns.push_back(std::move(column));
  }
  for (int i = 0; i < inputs.dense; ++i) {
    FORMWORK_ASSIGN_OR_RETURN(Column column, DenseColumn(ctx.input(3 * inputs.sparse + i)));
    columns.push_back(std::move(column));
  }
  return columns;
}

// Outputs crosses that `join(columns, splits)` makes.
template <typename Join>
absl::Status OutputSparse(KernelContext& ctx, const CrossInputs& inputs, const Join& join) {
  FORMWORK_ASSIGN_OR_RETURN(const Columns columns, SparseCrossColumns(ctx, inputs));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(columns));
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> splits, CrossSplits(columns, rows));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({splits.back(), 2}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, shape));
  int64_t* to = indices.mutable_data<int64_t>();
  int64_t longest = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = splits[static_cast<size_t>(row)];
    const int64_t end = splits[static_cast<size_t>(row) + 1];
    longest = std::max(longest, end - begin);
    for (int64_t i = begin; i < end; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      to[2 * i] = row;
      to[2 * i + 1] = i - begin;
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor values, join(columns, splits));
  ctx.SetOutput(0, std::move(indices));
  ctx.SetOutput(1, std::move(values));
  return OutputIntegers(ctx, 2, DType::kInt64, {rows, longest});
}

struct HashAttrs {
  bool hashed_output = false;
  int64_t num_buckets = 0;
  int64_t hash_key = 0;

  static absl::StatusOr<HashAttrs> FromAttrs(const AttrMap& attrs) {
    return ReadAttrs<HashAttrs>(attrs, "hashed_output", &HashAttrs::hashed_output, "num_buckets",
                                &HashAttrs::num_buckets, "hash_key", &HashAttrs::hash_key);
  }
  HashedCross cross() const { return {HashRule(), static_cast<uint64_t>(hash_key), num_buckets}; }
};

constexpr char kSeparator[] = "_X_";

absl::StatusOr<KernelFn> MakeSparseCross(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CrossInputs inputs, CrossInputsOf(init));
  FORMWORK_ASSIGN_OR_RETURN(const HashAttrs attrs, HashAttrs::FromAttrs(init.attrs()));
  if (attrs.hashed_output != (init.output_dtypes()[1] == DType::kInt64)) {
    return InvalidArgument("SparseCross: hashes are integers, and crosses strings");
  }
  return KernelFn([inputs, attrs](KernelContext& ctx) {
    return OutputSparse(
        ctx, inputs, [&](const Columns& columns, const std::vector<int64_t>& splits) {
          return attrs.hashed_output ? JoinHashes(ctx.allocator(), columns, splits, attrs.cross())
                                     : JoinTexts(ctx.allocator(), columns, splits, kSeparator);
        });
  });
}

absl::StatusOr<KernelFn> MakeSparseCrossV2(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CrossInputs inputs, CrossInputsOf(init));
  return KernelFn([inputs](KernelContext& ctx) -> absl::Status {
    const Tensor& separator = ctx.input(ctx.num_inputs() - 1);
    if (separator.rank() != 0) {
      return InvalidArgument("Input separator should be a scalar. Received: ",
                             separator.shape().ToString());
    }
    const std::string between = separator.scalar<std::string>();
    return OutputSparse(ctx, inputs,
                        [&](const Columns& columns, const std::vector<int64_t>& splits) {
                          return JoinTexts(ctx.allocator(), columns, splits, between);
                        });
  });
}

absl::StatusOr<KernelFn> MakeSparseCrossHashed(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CrossInputs inputs, CrossInputsOf(init));
  return KernelFn([inputs](KernelContext& ctx) -> absl::Status {
    const int first = ctx.num_inputs() - 3;
    for (int i = 0; i < 2; ++i) {
      if (ctx.input(first + i).rank() == 0) continue;
      return InvalidArgument(
          "Input ", i == 0 ? "num_buckets" : "strong_hash",
          " should be a scalar. Received: ", ctx.input(first + i).shape().ToString());
    }
    const Tensor& salt = ctx.input(first + 2);
    if (salt.rank() != 1 || salt.num_elements() != 2) {
      return InvalidArgument("Input salt should be a vector of two. Received: ",
                             salt.shape().ToString());
    }
    HashedCross cross;
    cross.num_buckets = ctx.input(first).scalar<int64_t>();
    if (cross.num_buckets < 0) {
      return InvalidArgument("num_buckets must not be negative: ", cross.num_buckets);
    }
    cross.rule.kind = ctx.input(first + 1).scalar<bool>() ? HashRule::kStrong : HashRule::kSalted;
    for (size_t i = 0; i < 2; ++i) {
      cross.rule.salt[i] = static_cast<uint64_t>(salt.data<int64_t>()[i]);
    }
    return OutputSparse(ctx, inputs,
                        [&](const Columns& columns, const std::vector<int64_t>& splits) {
                          return JoinHashes(ctx.allocator(), columns, splits, cross);
                        });
  });
}

// --- RaggedCross --------------------------------------------------------------------------------

struct RaggedCrossAttrs {
  std::string input_order;  // 'R', 'S' or 'D' of each column, in order.
  int ragged = 0;
  int sparse = 0;
  int dense = 0;

  static absl::StatusOr<RaggedCrossAttrs> FromAttrs(const AttrMap& attrs) {
    using Types = std::vector<DType>;
    RaggedCrossAttrs read;
    FORMWORK_ASSIGN_OR_RETURN(read.input_order, attrs.Get<std::string>("input_order"));
    FORMWORK_ASSIGN_OR_RETURN(const Types ragged, attrs.Get<Types>("ragged_values_types"));
    FORMWORK_ASSIGN_OR_RETURN(const Types splits, attrs.Get<Types>("ragged_splits_types"));
    FORMWORK_ASSIGN_OR_RETURN(const Types sparse, attrs.Get<Types>("sparse_values_types"));
    FORMWORK_ASSIGN_OR_RETURN(const int64_t count, attrs.Get<int64_t>("Nsparse"));
    FORMWORK_ASSIGN_OR_RETURN(const Types dense, attrs.Get<Types>("dense_types"));
    if (ragged.size() != splits.size()) {
      return InvalidArgument("ragged values and splits must have the same length");
    }
    if (static_cast<int64_t>(sparse.size()) != count) {
      return InvalidArgument("sparse indices and values must have the same length");
    }
    const auto of = [&](char kind) {
      return std::count(read.input_order.begin(), read.input_order.end(), kind);
    };
    if (ragged.size() + sparse.size() + dense.size() != read.input_order.size() ||
        of('R') != static_cast<int64_t>(ragged.size()) || of('S') != count ||
        of('D') != static_cast<int64_t>(dense.size())) {
      return InvalidArgument("Invalid length for input_order");
    }
    read.ragged = static_cast<int>(ragged.size());
    read.sparse = static_cast<int>(count);
    read.dense = static_cast<int>(dense.size());
    return read;
  }
};

absl::StatusOr<Columns> RaggedCrossColumns(KernelContext& ctx, const RaggedCrossAttrs& attrs) {
  Columns columns;
  int ragged = 0, sparse = 0, dense = 0;
  const int first_sparse = 2 * attrs.ragged;
  for (const char kind : attrs.input_order) {
    absl::StatusOr<Column> column;
    if (kind == 'R') {
      column = RaggedColumn(ctx.input(ragged), ctx.input(attrs.ragged + ragged));
      ++ragged;
    } else if (kind == 'S') {
      const int at = first_sparse + sparse++;
      column = SparseColumn(ctx.input(at), ctx.input(at + attrs.sparse),
                            ctx.input(at + 2 * attrs.sparse));
    } else {
      column = DenseColumn(ctx.input(first_sparse + 3 * attrs.sparse + dense++));
    }
    if (!column.ok()) return std::move(column).status();
    columns.push_back(*std::move(column));
  }
  return columns;
}

absl::StatusOr<KernelFn> MakeRaggedCross(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(RaggedCrossAttrs attrs, RaggedCrossAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const HashAttrs hash, HashAttrs::FromAttrs(init.attrs()));
  const bool hashed = init.output_dtypes()[0] == DType::kInt64;
  const DType splits_dtype = init.output_dtypes()[1];
  return KernelFn([attrs = std::move(attrs), hash, hashed,
                   splits_dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Columns columns, RaggedCrossColumns(ctx, attrs));
    FORMWORK_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(columns));
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> splits, CrossSplits(columns, rows));
    if (splits_dtype == DType::kInt32 && splits.back() > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("There are too many crosses for splits of int32: ", splits.back());
    }
    absl::StatusOr<Tensor> values = hashed
                                        ? JoinHashes(ctx.allocator(), columns, splits, hash.cross())
                                        : JoinTexts(ctx.allocator(), columns, splits, kSeparator);
    if (!values.ok()) return std::move(values).status();
    ctx.SetOutput(0, *std::move(values));
    return OutputIntegers(ctx, 1, splits_dtype, splits);
  });
}

}  // namespace

void AddCrossCpuKernels(KernelRegistry& registry) {
  registry.Add("SparseCross", MakeSparseCross);
  registry.Add("SparseCrossV2", MakeSparseCrossV2);
  registry.Add("SparseCrossHashed", MakeSparseCrossHashed);
  registry.Add("RaggedCross", MakeRaggedCross);
}

}  // namespace formwork
