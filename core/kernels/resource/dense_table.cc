#include "core/kernels/resource/dense_table.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/device/host_allocator.h"

namespace formwork {
namespace {

// A tiny load factor must not take the doubling past what is a size.
constexpr int64_t kMostBuckets = int64_t{1} << 40;

// Whether row `i` of `keys` is `key`.
bool Equals(const Tensor& keys, int64_t i, const Tensor& key) {
  const int64_t n = key.num_elements();
  if (keys.dtype() == DType::kString) {
    const std::string* const texts = keys.data<std::string>() + i * n;
    return std::equal(texts, texts + n, key.data<std::string>());
  }
  return std::memcmp(static_cast<const char*>(keys.raw()) + static_cast<size_t>(i) * key.bytes(),
                     key.raw(), key.bytes()) == 0;
}

// Rows [begin, end) of `to` become `key`.
void FillKeys(Tensor& to, int64_t begin, int64_t end, const Tensor& key) {
  const int64_t n = key.num_elements();
  ForBlocks(end - begin, kCheapItems, [&](int64_t first, int64_t last) {
    for (int64_t i = begin + first; i < begin + last; ++i) {
      if (to.dtype() == DType::kString) {
        const std::string* const texts = key.data<std::string>();
        std::copy(texts, texts + n, to.mutable_data<std::string>() + i * n);
      } else {
        std::memcpy(to.mutable_data<char>() + static_cast<size_t>(i) * key.bytes(), key.raw(),
                    key.bytes());
      }
    }
  });
}

// Row `from` of plain data or strings becomes row `to`, which is not behind it.
void MoveRow(Tensor& rows, int64_t row_elements, int64_t from, int64_t to) {
  if (from == to) return;
  const size_t n = static_cast<size_t>(row_elements);
  if (rows.dtype() == DType::kString) {
    std::string* texts = rows.mutable_data<std::string>();
    std::move(texts + from * row_elements, texts + (from + 1) * row_elements,
              texts + to * row_elements);
    return;
  }
  const size_t bytes = n * DTypeSize(rows.dtype());
  char* data = rows.mutable_data<char>();
  std::memcpy(data + static_cast<size_t>(to) * bytes, data + static_cast<size_t>(from) * bytes,
              bytes);
}

class DenseTable final : public Table {
 public:
  struct Keys {
    Tensor empty, deleted;
  };

  DenseTable(std::shared_ptr<const Keys> keys, DenseTableAttrs array, int64_t removed,
             std::shared_ptr<const Table> entries)
      : keys_(std::move(keys)),
        array_(array),
        removed_(std::min(removed, array.num_buckets - entries->size())),
        entries_(std::move(entries)) {}

  const Keys& keys() const { return *keys_; }
  const DenseTableAttrs& array() const { return array_; }
  int64_t removed() const { return removed_; }
  const Table& entries() const { return *entries_; }

  int64_t size() const override { return entries_->size(); }
  size_t bytes() const override {
    return sizeof(*this) + keys_->empty.bytes() + keys_->deleted.bytes() + entries_->bytes();
  }
  const Shape& key_shape() const override { return entries_->key_shape(); }

  absl::Status CheckKeys(const Tensor& keys) const override {
    for (int64_t i = 0; i < keys.num_elements() / keys_->empty.num_elements(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      if (Equals(keys, i, keys_->empty)) {
        return InvalidArgument("Using the empty_key as a table key is not allowed");
      }
      if (Equals(keys, i, keys_->deleted)) {
        return InvalidArgument("Using the deleted_key as a table key is not allowed");
      }
    }
    return absl::OkStatus();
  }

  void Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const override {
    entries_->Find(keys, default_value, values);
  }

  // As if each key were a new one.
  std::shared_ptr<Table> WithEntries(const Tensor& keys, const Tensor& values) const override {
    DenseTableAttrs array = array_;
    const double given = static_cast<double>(keys.num_elements() / keys_->empty.num_elements());
    const double wanted = static_cast<double>(size()) + given;
    while (wanted > static_cast<double>(array.num_buckets) * array.max_load_factor &&
           array.num_buckets < kMostBuckets) {
      array.num_buckets *= 2;
    }
    const bool rebuilt = array.num_buckets != array_.num_buckets;
    return std::make_shared<DenseTable>(keys_, array, rebuilt ? 0 : removed_,
                                        entries_->WithEntries(keys, values));
  }

  std::shared_ptr<Table> WithoutKeys(const Tensor& keys) const override {
    std::shared_ptr<const Table> left = entries_->WithoutKeys(keys);
    const int64_t removed = removed_ + size() - left->size();
    return std::make_shared<DenseTable>(keys_, array_, removed, std::move(left));
  }

  // An array as it is exported.
  absl::StatusOr<std::shared_ptr<Table>> Imported(const Tensor& keys, const Tensor& values,
                                                  Allocator& allocator) const override {
    DenseTableAttrs array = array_;
    const Shape& key = key_shape();
    array.num_buckets = keys.rank() == 1 + key.rank() ? keys.dim(0) : 0;
    FORMWORK_RETURN_IF_ERROR(CheckNumBuckets(array.num_buckets));
    FORMWORK_ASSIGN_OR_RETURN(Tensor kept_keys, keys.Clone(allocator));
    FORMWORK_ASSIGN_OR_RETURN(Tensor kept_values, values.Clone(allocator));
    const int64_t row_elements = values.num_elements() / array.num_buckets;
    int64_t kept = 0;
    for (int64_t i = 0; i < array.num_buckets; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      if (Equals(keys, i, keys_->empty) || Equals(keys, i, keys_->deleted)) continue;
      MoveRow(kept_keys, key.num_elements(), i, kept);
      MoveRow(kept_values, row_elements, i, kept++);
    }
    // A shape of fewer rows: what is behind them is not looked at.
    Dims rows = {kept};
    rows.insert(rows.end(), key.dims().begin(), key.dims().end());
    FORMWORK_ASSIGN_OR_RETURN(
        std::shared_ptr<Table> entries,
        entries_->Imported(kept_keys.Reshaped(Shape::Trusted(rows)), kept_values, allocator));
    return std::make_shared<DenseTable>(keys_, array, 0, std::move(entries));
  }

  absl::StatusOr<std::vector<Tensor>> ChangesSince(const ResourceType& type, const Table& before,
                                                   Allocator& allocator) const override {
    const auto& old = static_cast<const DenseTable&>(before);
    if (old.keys_ != keys_) return std::vector<Tensor>();
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> changes,
                              entries_->ChangesSince(type, *old.entries_, allocator));
    if (changes.empty()) return changes;
    changes.push_back(Tensor::Scalar(array_.num_buckets));
    changes.push_back(Tensor::Scalar(removed_));
    return changes;
  }
  absl::StatusOr<std::shared_ptr<Table>> With(const ResourceType& type,
                                              std::vector<Tensor> changes) const {
    const auto is_count = [](const Tensor& part) {
      return part.dtype() == DType::kInt64 && part.rank() == 0 && part.scalar<int64_t>() >= 0;
    };
    if (changes.size() != 5 || !is_count(changes[3]) || !is_count(changes[4])) {
      return InvalidArgument("not what a dense table is changed by");
    }
    DenseTableAttrs array = array_;
    array.num_buckets = changes[3].scalar<int64_t>();
    const int64_t removed = changes[4].scalar<int64_t>();
    changes.resize(3);
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Table> entries,
                              WithChanges(type, *entries_, changes));
    if (array.num_buckets < entries->size()) {
      return InvalidArgument("not what a dense table is changed by");
    }
    return std::make_shared<DenseTable>(keys_, array, removed, std::move(entries));
  }

  int64_t num_exported() const override { return array_.num_buckets; }
  void Export(Tensor& keys, Tensor& values) const override {
    entries_->Export(keys, values);
    const int64_t n = size();
    FillKeys(keys, n, n + removed_, keys_->deleted);
    FillKeys(keys, n + removed_, array_.num_buckets, keys_->empty);
    if (values.dtype() == DType::kString) return;
    const size_t row = values.bytes() / static_cast<size_t>(array_.num_buckets);
    std::memset(values.mutable_data<char>() + static_cast<size_t>(n) * row, 0,
                static_cast<size_t>(array_.num_buckets - n) * row);
  }

 private:
  std::shared_ptr<const Keys> keys_;
  DenseTableAttrs array_;
  int64_t removed_;  // Since the array was made.
  std::shared_ptr<const Table> entries_;
};

absl::StatusOr<std::shared_ptr<const DenseTable::Keys>> KeysOf(const ResourceType& type,
                                                               const Tensor& empty_key,
                                                               const Tensor& deleted_key) {
  FORMWORK_RETURN_IF_ERROR(CheckTableKeys(type, empty_key));
  FORMWORK_RETURN_IF_ERROR(CheckTableKeys(type, deleted_key));
  FORMWORK_RETURN_IF_ERROR(CheckDenseTableKeys(empty_key, deleted_key));
  auto keys = std::make_shared<DenseTable::Keys>();
  // In no memory of the call's.
  FORMWORK_ASSIGN_OR_RETURN(keys->empty, empty_key.Clone(ProcessAllocator()));
  FORMWORK_ASSIGN_OR_RETURN(keys->deleted, deleted_key.Clone(ProcessAllocator()));
  return keys;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Table>> EmptyDenseTable(const ResourceType& type,
                                                       const Tensor& empty_key,
                                                       const Tensor& deleted_key,
                                                       const DenseTableAttrs& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(auto keys, KeysOf(type, empty_key, deleted_key));
  return std::make_shared<DenseTable>(keys, attrs, 0, EmptyTable(type, keys->empty.shape()));
}

absl::StatusOr<std::vector<Tensor>> PartsOfDenseTable(const ResourceType& type, const Table& table,
                                                      Allocator& allocator) {
  const auto& dense = static_cast<const DenseTable&>(table);
  FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> parts,
                            PartsOfEntries(type, dense.entries(), allocator));
  parts.push_back(dense.keys().empty);
  parts.push_back(dense.keys().deleted);
  parts.push_back(Tensor::Scalar(dense.array().num_buckets));
  parts.push_back(Tensor::Scalar(dense.array().max_load_factor));
  parts.push_back(Tensor::Scalar(dense.removed()));
  return parts;
}

absl::StatusOr<std::shared_ptr<Table>> WithDenseChanges(const ResourceType& type,
                                                        const Table& before,
                                                        const std::vector<Tensor>& changes) {
  return static_cast<const DenseTable&>(before).With(type, changes);
}

absl::StatusOr<std::shared_ptr<Table>> DenseTableOfParts(const ResourceType& type,
                                                         const std::vector<Tensor>& parts) {
  const bool fit = parts.size() == 7 && parts[4].dtype() == DType::kInt64 && parts[4].rank() == 0 &&
                   parts[5].dtype() == DType::kFloat && parts[5].rank() == 0 &&
                   parts[6].dtype() == DType::kInt64 && parts[6].rank() == 0;
  if (!fit) return InvalidArgument("not the parts of a dense table");
  FORMWORK_ASSIGN_OR_RETURN(auto keys, KeysOf(type, parts[2], parts[3]));
  const Shape& key = keys->empty.shape();
  FORMWORK_RETURN_IF_ERROR(CheckTableEntries(type, parts[0], parts[1], key));
  const DenseTableAttrs array = {parts[4].scalar<int64_t>(), parts[5].scalar<float>()};
  std::shared_ptr<Table> entries = EmptyTable(type, key)->WithEntries(parts[0], parts[1]);
  if (array.num_buckets < entries->size()) return InvalidArgument("not the parts of a dense table");
  return std::make_shared<DenseTable>(std::move(keys), array, parts[6].scalar<int64_t>(),
                                      std::move(entries));
}

}  // namespace formwork
