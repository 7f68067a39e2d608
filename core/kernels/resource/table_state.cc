#include "core/kernels/resource/table_state.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/persistent_map.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

// --- How keys and values stand in tensors and in maps -------------------------------------------

// By sizes, so that what goes is as much as what came.
size_t HeapBytes(uint64_t) { return 0; }
size_t HeapBytes(int64_t) { return 0; }
size_t HeapBytes(const std::string& text) {
  return text.size() < sizeof(std::string) ? 0 : text.size();
}
size_t HeapBytes(const std::vector<std::string>& texts) {
  size_t bytes = texts.size() * sizeof(std::string);
  for (const std::string& text : texts) bytes += HeapBytes(text);
  return bytes;
}

// A Reader and a Writer of the elements, or rows of `n` elements, of a tensor.

struct IntegerKey {
  using Type = int64_t;
  class Reader {
   public:
    Reader(const Tensor& keys, int64_t)
        : narrow_(keys.dtype() == DType::kInt32), data_(static_cast<const char*>(keys.raw())) {}
    int64_t operator[](int64_t i) const {
      return narrow_ ? reinterpret_cast<const int32_t*>(data_)[i]
                     : reinterpret_cast<const int64_t*>(data_)[i];
    }

   private:
    const bool narrow_;
    const char* const data_;
  };
  class Writer {
   public:
    Writer(Tensor& keys, int64_t) : keys_(keys) {}
    void Put(int64_t i, int64_t key) {
      if (keys_.dtype() == DType::kInt32) {
        keys_.mutable_data<int32_t>()[i] = static_cast<int32_t>(key);
      } else {
        keys_.mutable_data<int64_t>()[i] = key;
      }
    }

   private:
    Tensor& keys_;
  };
};

struct StringKey {
  using Type = std::string;
  class Reader {
   public:
    Reader(const Tensor& keys, int64_t) : data_(keys.data<std::string>()) {}
    const std::string& operator[](int64_t i) const { return data_[i]; }

   private:
    const std::string* const data_;
  };
  class Writer {
   public:
    Writer(Tensor& keys, int64_t) : data_(keys.mutable_data<std::string>()) {}
    void Put(int64_t i, const std::string& key) { data_[i] = key; }

   private:
    std::string* const data_;
  };
};

// A number of at most 8 bytes.
struct WordRow {
  using Type = uint64_t;
  class Reader {
   public:
    Reader(const Tensor& values, int64_t)
        : width_(DTypeSize(values.dtype())), data_(static_cast<const char*>(values.raw())) {}
    uint64_t operator[](int64_t i) const {
      uint64_t word = 0;
      std::memcpy(&word, data_ + static_cast<size_t>(i) * width_, width_);
      return word;
    }

   private:
    const size_t width_;
    const char* const data_;
  };
  class Writer {
   public:
    Writer(Tensor& values, int64_t)
        : width_(DTypeSize(values.dtype())), data_(values.mutable_data<char>()) {}
    void Put(int64_t i, uint64_t word) {
      switch (width_) {
        case 8:
          return Put<uint64_t>(i, word);
        case 4:
          return Put<uint32_t>(i, word);
        case 2:
          return Put<uint16_t>(i, word);
        default:
          return Put<uint8_t>(i, word);
      }
    }

   private:
    template <typename T>
    void Put(int64_t i, uint64_t word) {
      reinterpret_cast<T*>(data_)[i] = static_cast<T>(word);
    }
    const size_t width_;
    char* const data_;
  };
};

// The bytes of other plain data.
struct BytesRow {
  using Type = std::string;
  class Reader {
   public:
    Reader(const Tensor& values, int64_t n)
        : bytes_(static_cast<size_t>(n) * DTypeSize(values.dtype())),
          data_(static_cast<const char*>(values.raw())) {}
    std::string operator[](int64_t i) const {
      return std::string(data_ + static_cast<size_t>(i) * bytes_, bytes_);
    }

   private:
    const size_t bytes_;
    const char* const data_;
  };
  class Writer {
   public:
    Writer(Tensor& values, int64_t) : data_(values.mutable_data<char>()) {}
    void Put(int64_t i, const std::string& row) {
      std::memcpy(data_ + static_cast<size_t>(i) * row.size(), row.data(), row.size());
    }

   private:
    char* const data_;
  };
};

// Keys that are vectors of integers.
using IntegersKey = BytesRow;
using StringRow = StringKey;

struct StringsRow {
  using Type = std::vector<std::string>;
  class Reader {
   public:
    Reader(const Tensor& values, int64_t n) : n_(n), data_(values.data<std::string>()) {}
    Type operator[](int64_t i) const { return Type(data_ + i * n_, data_ + (i + 1) * n_); }

   private:
    const int64_t n_;
    const std::string* const data_;
  };
  class Writer {
   public:
    Writer(Tensor& values, int64_t n) : n_(n), data_(values.mutable_data<std::string>()) {}
    void Put(int64_t i, const Type& texts) {
      std::copy(texts.begin(), texts.end(), data_ + i * n_);
    }

   private:
    const int64_t n_;
    std::string* const data_;
  };
};

// --- Tables -------------------------------------------------------------------------------------

// So many rows of that shape.
absl::StatusOr<Tensor> NewRows(DType dtype, int64_t rows, absl::Span<const int64_t> row,
                               Allocator& allocator) {
  Dims dims = {rows};
  dims.insert(dims.end(), row.begin(), row.end());
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  return Tensor::Allocate(allocator, dtype, shape);
}

// Keys and values of so many entries.
absl::StatusOr<std::vector<Tensor>> NewEntries(const ResourceType& type, const Shape& key,
                                               int64_t entries, Allocator& allocator) {
  std::vector<Tensor> parts(2);
  FORMWORK_ASSIGN_OR_RETURN(parts[0], NewRows(type.parts[0].dtype, entries, key.dims(), allocator));
  FORMWORK_ASSIGN_OR_RETURN(parts[1], NewRows(type.parts[1].dtype, entries,
                                              type.parts[1].shape.ToShape()->dims(), allocator));
  return parts;
}

template <typename Key, typename Row>
class TableOf final : public Table {
  using Map = PersistentMap<typename Key::Type, typename Row::Type>;

 public:
  TableOf(const Shape& key, int64_t row_elements)
      : key_shape_(key), key_elements_(key.num_elements()), row_elements_(row_elements) {}

  int64_t size() const override { return static_cast<int64_t>(map_.size()); }
  const Shape& key_shape() const override { return key_shape_; }
  // A leaf that is half full takes as much again.
  size_t bytes() const override { return 2 * map_.size() * sizeof(typename Map::Entry) + heap_; }

  void Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const override {
    const typename Key::Reader key(keys, key_elements_);
    const typename Row::Reader defaults(default_value, row_elements_);
    const bool one_default = default_value.num_elements() == row_elements_;
    typename Row::Writer writer(values, row_elements_);
    ParallelFor(keys.num_elements() / key_elements_, 1 << 10, [&](int64_t begin, int64_t end) {
      typename Row::Writer rows = writer;
      map_.FindAll(
          begin, end, [&](int64_t i) -> decltype(auto) { return key[i]; },
          [&](int64_t i, const typename Row::Type* found) {
            if (found != nullptr) {
              rows.Put(i, *found);
            } else {
              rows.Put(i, defaults[one_default ? 0 : i]);
            }
          });
    });
  }

  std::shared_ptr<Table> WithEntries(const Tensor& keys, const Tensor& values) const override {
    auto made = std::make_shared<TableOf>(key_shape_, row_elements_);
    typename Map::Editor editor(map_);
    const typename Key::Reader key(keys, key_elements_);
    const typename Row::Reader rows(values, row_elements_);
    size_t added = 0, gone = 0;
    ForBlocks(keys.num_elements() / key_elements_, kDearItems, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        bool is_new;
        typename Row::Type& row = editor.At(key[i], &is_new);
        if (is_new) {
          added += HeapBytes(key[i]);
        } else {
          gone += HeapBytes(row);
        }
        row = rows[i];
        added += HeapBytes(row);
      }
    });
    made->map_ = std::move(editor).Done();
    made->heap_ = heap_ + added - gone;
    return made;
  }

  std::shared_ptr<Table> WithoutKeys(const Tensor& keys) const override {
    auto made = std::make_shared<TableOf>(key_shape_, row_elements_);
    typename Map::Editor editor(map_);
    const typename Key::Reader key(keys, key_elements_);
    size_t gone = 0;
    ForBlocks(keys.num_elements() / key_elements_, kDearItems, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        editor.Erase(key[i], [&gone](const auto& k, const auto& row) {
          gone += HeapBytes(k) + HeapBytes(row);
        });
      }
    });
    made->map_ = std::move(editor).Done();
    made->heap_ = heap_ - gone;
    return made;
  }

  absl::StatusOr<std::shared_ptr<Table>> Imported(const Tensor& keys, const Tensor& values,
                                                  Allocator&) const override {
    return TableOf(key_shape_, row_elements_).WithEntries(keys, values);
  }

  void Export(Tensor& keys, Tensor& values) const override {
    typename Key::Writer key_writer(keys, key_elements_);
    typename Row::Writer row_writer(values, row_elements_);
    int64_t i = 0;
    map_.ForEach([&](const auto& key, const auto& row) {
      key_writer.Put(i, key);
      row_writer.Put(i, row);
      return !WorkIsCutAt(i++, kDearItems);
    });
  }

  absl::StatusOr<std::vector<Tensor>> ChangesSince(const ResourceType& type, const Table& before,
                                                   Allocator& allocator) const override {
    const Map& old = static_cast<const TableOf&>(before).map_;
    const int64_t most = size() / 2;
    int64_t set = 0, gone = 0;
    const bool few = map_.VisitChanges(
        old, [&](const auto&, const auto&) { return ++set + gone <= most; },
        [&](const auto&) { return set + ++gone <= most; });
    if (!few) return std::vector<Tensor>();
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> changes,
                              NewEntries(type, key_shape_, set, allocator));
    FORMWORK_ASSIGN_OR_RETURN(changes.emplace_back(),
                              NewRows(type.parts[0].dtype, gone, key_shape_.dims(), allocator));
    typename Key::Writer keys(changes[0], key_elements_), gone_keys(changes[2], key_elements_);
    typename Row::Writer rows(changes[1], row_elements_);
    int64_t next = 0, next_gone = 0;
    map_.VisitChanges(
        old,
        [&](const auto& key, const auto& row) {
          keys.Put(next, key);
          rows.Put(next++, row);
          return true;
        },
        [&](const auto& key) {
          gone_keys.Put(next_gone++, key);
          return true;
        });
    return changes;
  }

 private:
  const Shape key_shape_;
  const int64_t key_elements_, row_elements_;
  Map map_;
  size_t heap_ = 0;  // Bytes that keys and values have beside the entries.
};

template <typename Key>
std::shared_ptr<Table> EmptyTableOf(const Shape& key, DType value, const Shape& row) {
  const int64_t n = row.num_elements();
  if (value == DType::kString) {
    if (row.rank() > 0) return std::make_shared<TableOf<Key, StringsRow>>(key, n);
    return std::make_shared<TableOf<Key, StringRow>>(key, n);
  }
  if (row.rank() == 0 && DTypeSize(value) <= 8) {
    return std::make_shared<TableOf<Key, WordRow>>(key, n);
  }
  return std::make_shared<TableOf<Key, BytesRow>>(key, n);
}

}  // namespace

absl::Status Table::CheckKeys(const Tensor&) const { return absl::OkStatus(); }

absl::StatusOr<std::vector<Tensor>> PartsOfEntries(const ResourceType& type, const Table& table,
                                                   Allocator& allocator) {
  FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> parts,
                            NewEntries(type, table.key_shape(), table.num_exported(), allocator));
  table.Export(parts[0], parts[1]);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  return parts;
}

absl::StatusOr<std::shared_ptr<Table>> WithChanges(const ResourceType& type, const Table& before,
                                                   const std::vector<Tensor>& changes) {
  if (changes.size() != 3) return InvalidArgument("not what a table is changed by");
  const Shape& key = before.key_shape();
  FORMWORK_RETURN_IF_ERROR(CheckTableEntries(type, changes[0], changes[1], key));
  FORMWORK_RETURN_IF_ERROR(CheckTableKeys(type, changes[2], key));
  return before.WithoutKeys(changes[2])->WithEntries(changes[0], changes[1]);
}

std::shared_ptr<Table> EmptyTable(const ResourceType& type, const Shape& key) {
  const DType value = type.parts[1].dtype;
  const Shape row = *type.parts[1].shape.ToShape();
  const bool texts = type.parts[0].dtype == DType::kString;
  if (key.rank() > 0) {
    return texts ? EmptyTableOf<StringsRow>(key, value, row)
                 : EmptyTableOf<IntegersKey>(key, value, row);
  }
  return texts ? EmptyTableOf<StringKey>(key, value, row)
               : EmptyTableOf<IntegerKey>(key, value, row);
}

}  // namespace formwork
