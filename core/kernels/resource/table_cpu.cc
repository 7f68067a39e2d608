// Mutable hash tables.

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/persistent_map.h"
#include "core/base/status.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/table.h"

namespace formwork {
namespace {

// --- How keys and values stand in tensors and in maps -------------------------------------------

size_t HeapBytes(uint64_t) { return 0; }
size_t HeapBytes(int64_t) { return 0; }
size_t HeapBytes(const std::string& text) {
  return text.capacity() < sizeof(std::string) ? 0 : text.capacity();
}
size_t HeapBytes(const std::vector<std::string>& texts) {
  size_t bytes = texts.capacity() * sizeof(std::string);
  for (const std::string& text : texts) bytes += HeapBytes(text);
  return bytes;
}

// Each copies element or row `i` of a tensor; a row is of `n` elements.

struct IntegerKey {
  using Type = int64_t;
  static int64_t Load(const Tensor& keys, int64_t i) {
    return keys.dtype() == DType::kInt32 ? keys.data<int32_t>()[i] : keys.data<int64_t>()[i];
  }
  static void Store(int64_t key, Tensor& keys, int64_t i) {
    if (keys.dtype() == DType::kInt32) {
      keys.mutable_data<int32_t>()[i] = static_cast<int32_t>(key);
    } else {
      keys.mutable_data<int64_t>()[i] = key;
    }
  }
};

struct StringKey {
  using Type = std::string;
  static const std::string& Load(const Tensor& keys, int64_t i) {
    return keys.data<std::string>()[i];
  }
  static void Store(const std::string& key, Tensor& keys, int64_t i) {
    keys.mutable_data<std::string>()[i] = key;
  }
};

// A number of at most 8 bytes.
struct WordRow {
  using Type = uint64_t;
  static uint64_t Load(const Tensor& values, int64_t i, int64_t) {
    const size_t width = DTypeSize(values.dtype());
    uint64_t word = 0;
    std::memcpy(&word, values.data<char>() + static_cast<size_t>(i) * width, width);
    return word;
  }
  static void Store(uint64_t word, Tensor& values, int64_t i, int64_t) {
    const size_t width = DTypeSize(values.dtype());
    std::memcpy(values.mutable_data<char>() + static_cast<size_t>(i) * width, &word, width);
  }
};

// The bytes of other plain data.
struct BytesRow {
  using Type = std::string;
  static std::string Load(const Tensor& values, int64_t i, int64_t n) {
    const size_t bytes = static_cast<size_t>(n) * DTypeSize(values.dtype());
    return std::string(values.data<char>() + static_cast<size_t>(i) * bytes, bytes);
  }
  static void Store(const std::string& row, Tensor& values, int64_t i, int64_t) {
    std::memcpy(values.mutable_data<char>() + static_cast<size_t>(i) * row.size(), row.data(),
                row.size());
  }
};

struct StringRow {
  using Type = std::string;
  static std::string Load(const Tensor& values, int64_t i, int64_t) {
    return values.data<std::string>()[i];
  }
  static void Store(const std::string& text, Tensor& values, int64_t i, int64_t) {
    values.mutable_data<std::string>()[i] = text;
  }
};

struct StringsRow {
  using Type = std::vector<std::string>;
  static Type Load(const Tensor& values, int64_t i, int64_t n) {
    const std::string* row = values.data<std::string>() + i * n;
    return Type(row, row + n);
  }
  static void Store(const Type& texts, Tensor& values, int64_t i, int64_t n) {
    std::copy(texts.begin(), texts.end(), values.mutable_data<std::string>() + i * n);
  }
};

// --- Tables -------------------------------------------------------------------------------------

// The state of a table: never changed, a change makes another one that shares what stays. Tensors
// have been checked. Where work is cut, what it made is unfinished.
class Table : public VariantObject {
 public:
  absl::string_view type_name() const override { return "formwork::Table"; }
  virtual int64_t size() const = 0;
  virtual size_t bytes() const = 0;
  virtual void Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const = 0;
  virtual std::shared_ptr<Table> WithEntries(const Tensor& keys, const Tensor& values) const = 0;
  virtual std::shared_ptr<Table> WithoutKeys(const Tensor& keys) const = 0;
  virtual void Export(Tensor& keys, Tensor& values) const = 0;
};

template <typename Key, typename Row>
class TableOf final : public Table {
  using Map = PersistentMap<typename Key::Type, typename Row::Type>;

 public:
  explicit TableOf(int64_t row_elements) : row_elements_(row_elements) {}

  int64_t size() const override { return static_cast<int64_t>(map_.size()); }
  // A leaf that is half full takes as much again.
  size_t bytes() const override { return 2 * map_.size() * sizeof(typename Map::Entry) + heap_; }

  void Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const override {
    const bool one_default = default_value.num_elements() == row_elements_;
    ParallelFor(keys.num_elements(), 1 << 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (const auto* found = map_.Find(Key::Load(keys, i))) {
          Row::Store(*found, values, i, row_elements_);
        } else {
          Row::Store(Row::Load(default_value, one_default ? 0 : i, row_elements_), values, i,
                     row_elements_);
        }
      }
    });
  }

  std::shared_ptr<Table> WithEntries(const Tensor& keys, const Tensor& values) const override {
    auto made = std::make_shared<TableOf>(row_elements_);
    typename Map::Editor editor(map_);
    size_t added = 0, gone = 0;
    ForBlocks(keys.num_elements(), kDearItems, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto& key = Key::Load(keys, i);
        typename Row::Type row = Row::Load(values, i, row_elements_);
        added += HeapBytes(row);
        if (const auto* before = editor.Find(key)) {
          gone += HeapBytes(*before);
        } else {
          added += HeapBytes(key);
        }
        editor.Set(key, std::move(row));
      }
    });
    made->map_ = std::move(editor).Done();
    made->heap_ = heap_ + added - gone;
    return made;
  }

  std::shared_ptr<Table> WithoutKeys(const Tensor& keys) const override {
    auto made = std::make_shared<TableOf>(row_elements_);
    typename Map::Editor editor(map_);
    size_t gone = 0;
    ForBlocks(keys.num_elements(), kDearItems, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto& key = Key::Load(keys, i);
        const auto* before = editor.Find(key);
        if (before == nullptr) continue;
        gone += HeapBytes(key) + HeapBytes(*before);
        editor.Erase(key);
      }
    });
    made->map_ = std::move(editor).Done();
    made->heap_ = heap_ - gone;
    return made;
  }

  void Export(Tensor& keys, Tensor& values) const override {
    int64_t i = 0;
    map_.ForEach([&](const auto& key, const auto& row) {
      Key::Store(key, keys, i);
      Row::Store(row, values, i, row_elements_);
      return !WorkIsCutAt(i++, kDearItems);
    });
  }

 private:
  const int64_t row_elements_;
  Map map_;
  size_t heap_ = 0;  // Bytes that keys and values have beside the entries.
};

template <typename Key>
std::shared_ptr<Table> EmptyTableOf(DType value, const Shape& row) {
  const int64_t n = row.num_elements();
  if (value == DType::kString) {
    if (row.rank() > 0) return std::make_shared<TableOf<Key, StringsRow>>(n);
    return std::make_shared<TableOf<Key, StringRow>>(n);
  }
  if (row.rank() == 0 && DTypeSize(value) <= 8) return std::make_shared<TableOf<Key, WordRow>>(n);
  return std::make_shared<TableOf<Key, BytesRow>>(n);
}

std::shared_ptr<Table> EmptyTable(const ResourceType& type) {
  const auto& [value, row] = type.parts[1];
  if (type.parts[0].dtype == DType::kString) return EmptyTableOf<StringKey>(value, *row.ToShape());
  return EmptyTableOf<IntegerKey>(value, *row.ToShape());
}

// --- Kernels ------------------------------------------------------------------------------------

struct Opened {
  ResourceHandle handle;
  const ResourceType& type;
  std::shared_ptr<const Table> table;
};

absl::StatusOr<Opened> Open(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
  FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, ctx.resources().TypeOf(handle));
  if (type->kind != &kTableKind) {
    return InvalidArgument("the handle is not a table's but a ", type->kind->name, "'s");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Tensor state, ctx.resources().ReadState(handle));
  if (!state.has_value()) return Opened{handle, *type, EmptyTable(*type)};
  // Nobody else writes states of this kind.
  return Opened{handle, *type, std::static_pointer_cast<const Table>(state.scalar<Variant>())};
}

absl::Status Write(KernelContext& ctx, ResourceHandle handle, std::shared_ptr<Table> table) {
  const size_t bytes = table->bytes();
  return ctx.resources().WriteState(handle, Tensor::VariantScalar(std::move(table)), bytes);
}

absl::StatusOr<KernelFn> MakeFind(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    const Tensor& default_value = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape,
                              PrepareTableFind(opened.type, ctx.input(1), default_value));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * values, ctx.AllocateOutput(0, default_value.dtype(), shape));
    opened.table->Find(ctx.input(1), default_value, *values);
    return absl::OkStatus();
  });
}

// kImport: what was there before goes.
template <bool kImport>
absl::StatusOr<KernelFn> MakeInsert(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    FORMWORK_RETURN_IF_ERROR(CheckTableEntries(opened.type, ctx.input(1), ctx.input(2)));
    const std::shared_ptr<const Table> before = kImport ? EmptyTable(opened.type) : opened.table;
    return Write(ctx, opened.handle, before->WithEntries(ctx.input(1), ctx.input(2)));
  });
}

absl::StatusOr<KernelFn> MakeRemove(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    FORMWORK_RETURN_IF_ERROR(CheckTableKeys(opened.type, ctx.input(1)));
    return Write(ctx, opened.handle, opened.table->WithoutKeys(ctx.input(1)));
  });
}

absl::StatusOr<KernelFn> MakeSize(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    ctx.SetOutput(0, Tensor::Scalar(opened.table->size()));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeExport(KernelInit& init) {
  const DType key = init.output_dtypes()[0], value = init.output_dtypes()[1];
  return KernelFn([key, value](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    const auto& parts = opened.type.parts;
    if (parts[0].dtype != key || parts[1].dtype != value) {
      return InvalidArgument("the table is of other dtypes: it is a ", opened.type.ToString());
    }
    Dims dims = {opened.table->size()};
    FORMWORK_ASSIGN_OR_RETURN(Tensor * keys, ctx.AllocateOutput(0, key, *Shape::Make(dims)));
    dims.insert(dims.end(), parts[1].shape.dims().begin(), parts[1].shape.dims().end());
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * values, ctx.AllocateOutput(1, value, shape));
    opened.table->Export(*keys, *values);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterTableCpuKernels(KernelRegistry& registry) {
  registry.Add("LookupTableFindV2", MakeFind);
  registry.Add("LookupTableInsertV2", MakeInsert<false>);
  registry.Add("LookupTableImportV2", MakeInsert<true>);
  registry.Add("LookupTableRemoveV2", MakeRemove);
  registry.Add("LookupTableSizeV2", MakeSize);
  registry.Add("LookupTableExportV2", MakeExport);
}

}  // namespace formwork
