// Hash tables.

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/persistent_map.h"
#include "core/base/status.h"
#include "core/kernels/io/whole_file.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/resource/stored_form.h"
#include "core/kernels/resource/table_text.h"
#include "core/ops/table.h"

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
    explicit Reader(const Tensor& keys)
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
    explicit Writer(Tensor& keys) : keys_(keys) {}
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
    explicit Reader(const Tensor& keys) : data_(keys.data<std::string>()) {}
    const std::string& operator[](int64_t i) const { return data_[i]; }

   private:
    const std::string* const data_;
  };
  class Writer {
   public:
    explicit Writer(Tensor& keys) : data_(keys.mutable_data<std::string>()) {}
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

struct StringRow {
  using Type = std::string;
  struct Reader : StringKey::Reader {
    Reader(const Tensor& values, int64_t) : StringKey::Reader(values) {}
  };
  struct Writer : StringKey::Writer {
    Writer(Tensor& values, int64_t) : StringKey::Writer(values) {}
  };
};

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
    const typename Key::Reader key(keys);
    const typename Row::Reader defaults(default_value, row_elements_);
    const bool one_default = default_value.num_elements() == row_elements_;
    typename Row::Writer writer(values, row_elements_);
    ParallelFor(keys.num_elements(), 1 << 10, [&](int64_t begin, int64_t end) {
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
    auto made = std::make_shared<TableOf>(row_elements_);
    typename Map::Editor editor(map_);
    const typename Key::Reader key(keys);
    const typename Row::Reader rows(values, row_elements_);
    size_t added = 0, gone = 0;
    ForBlocks(keys.num_elements(), kDearItems, [&](int64_t begin, int64_t end) {
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
    auto made = std::make_shared<TableOf>(row_elements_);
    typename Map::Editor editor(map_);
    const typename Key::Reader key(keys);
    size_t gone = 0;
    ForBlocks(keys.num_elements(), kDearItems, [&](int64_t begin, int64_t end) {
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

  void Export(Tensor& keys, Tensor& values) const override {
    typename Key::Writer key_writer(keys);
    typename Row::Writer row_writer(values, row_elements_);
    int64_t i = 0;
    map_.ForEach([&](const auto& key, const auto& row) {
      key_writer.Put(i, key);
      row_writer.Put(i, row);
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

// Nobody else makes values of tables.
std::shared_ptr<const Table> TableOfState(const Tensor& state) {
  return std::static_pointer_cast<const Table>(state.scalar<Variant>());
}

struct EntryShapes {
  Shape keys, values;
};

absl::StatusOr<EntryShapes> ShapesOf(const ResourceType& type, const Table& table) {
  Dims dims = {table.size()};
  EntryShapes shapes;
  FORMWORK_ASSIGN_OR_RETURN(shapes.keys, Shape::Make(dims));
  const auto& row = type.parts[1].shape.dims();
  dims.insert(dims.end(), row.begin(), row.end());
  FORMWORK_ASSIGN_OR_RETURN(shapes.values, Shape::Make(dims));
  return shapes;
}

// --- On disk ------------------------------------------------------------------------------------

absl::StatusOr<std::vector<Tensor>> StoredParts(const ResourceType& type, const Tensor& value,
                                                Allocator& allocator) {
  const std::shared_ptr<const Table> table = TableOfState(value);
  FORMWORK_ASSIGN_OR_RETURN(const EntryShapes shapes, ShapesOf(type, *table));
  std::vector<Tensor> parts(2);
  FORMWORK_ASSIGN_OR_RETURN(parts[0],
                            Tensor::Allocate(allocator, type.parts[0].dtype, shapes.keys));
  FORMWORK_ASSIGN_OR_RETURN(parts[1],
                            Tensor::Allocate(allocator, type.parts[1].dtype, shapes.values));
  table->Export(parts[0], parts[1]);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  return parts;
}

absl::StatusOr<ResourceValue> ValueOfParts(const ResourceType& type,
                                           const std::vector<Tensor>& parts) {
  if (parts.size() != 2) return InvalidArgument("a table has two parts, not ", parts.size());
  FORMWORK_RETURN_IF_ERROR(CheckTableEntries(type, parts[0], parts[1]));
  std::shared_ptr<Table> table = EmptyTable(type)->WithEntries(parts[0], parts[1]);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  const size_t bytes = table->bytes();
  return ResourceValue{Tensor::VariantScalar(std::move(table)), bytes};
}

// --- Kernels ------------------------------------------------------------------------------------

struct Opened {
  ResourceHandle handle;
  const ResourceType& type;
  std::shared_ptr<const Table> table;
  bool initialized;  // Of a static one: whether it has been.

  bool is_static() const { return type.kind == &kStaticTableKind; }
};

absl::StatusOr<Opened> Open(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
  FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, ctx.resources().TypeOf(handle));
  if (!IsTable(*type)) {
    return InvalidArgument("the handle is not a table's but a ", type->kind->name, "'s");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Tensor state, ctx.resources().ReadState(handle));
  if (!state.has_value()) return Opened{handle, *type, EmptyTable(*type), false};
  return Opened{handle, *type, TableOfState(state), true};
}

absl::Status Write(KernelContext& ctx, ResourceHandle handle, std::shared_ptr<Table> table) {
  const size_t bytes = table->bytes();
  return ctx.resources().WriteState(handle, Tensor::VariantScalar(std::move(table)), bytes);
}

absl::StatusOr<KernelFn> MakeFind(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    if (opened.is_static() && !opened.initialized) {
      return FailedPrecondition("Table not initialized.");
    }
    const Tensor& default_value = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape,
                              PrepareTableFind(opened.type, ctx.input(1), default_value));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * values, ctx.AllocateOutput(0, default_value.dtype(), shape));
    opened.table->Find(ctx.input(1), default_value, *values);
    return absl::OkStatus();
  });
}

// What is at [i], as TensorFlow's errors write it.
std::string EntryText(const Tensor& entries, int64_t i) {
  switch (entries.dtype()) {
    case DType::kString:
      return entries.data<std::string>()[i];
    case DType::kInt32:
      return absl::StrCat(entries.data<int32_t>()[i]);
    case DType::kInt64:
      return absl::StrCat(entries.data<int64_t>()[i]);
    case DType::kFloat:
      return absl::StrCat(entries.data<float>()[i]);
    case DType::kDouble:
      return absl::StrCat(entries.data<double>()[i]);
    case DType::kBool:
      return entries.data<bool>()[i] ? "1" : "0";
    default:
      return absl::StrCat("number ", i);
  }
}

// Whether all of them are in `table`, keys that are there twice with one value.
absl::Status CheckUnambiguous(KernelContext& ctx, const Table& table, const Tensor& keys,
                              const Tensor& values) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor found,
                            Tensor::Allocate(ctx.allocator(), values.dtype(), values.shape()));
  table.Find(keys, values, found);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  const size_t width = DTypeSize(values.dtype());
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    const size_t at = static_cast<size_t>(i);
    const bool same =
        values.dtype() == DType::kString
            ? found.data<std::string>()[i] == values.data<std::string>()[i]
            : std::memcmp(static_cast<const char*>(found.raw()) + at * width,
                          static_cast<const char*>(values.raw()) + at * width, width) == 0;
    if (!same) {
      return FailedPrecondition("HashTable has different value for same key. Key ",
                                EntryText(keys, i), " has ", EntryText(values, i),
                                " and trying to add value ", EntryText(found, i));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Table>> StaticTableOf(KernelContext& ctx, const ResourceType& type,
                                                     const Tensor& keys, const Tensor& values) {
  std::shared_ptr<Table> table = EmptyTable(type)->WithEntries(keys, values);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  FORMWORK_RETURN_IF_ERROR(CheckUnambiguous(ctx, *table, keys, values));
  return table;
}

// A second time it stays as it is; TensorFlow looks at the number of entries alone.
absl::Status Initialize(KernelContext& ctx, const Opened& opened) {
  const Tensor& keys = ctx.input(1);
  FORMWORK_RETURN_IF_ERROR(CheckInitialEntries(opened.type, keys, ctx.input(2)));
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Table> table,
                            StaticTableOf(ctx, opened.type, keys, ctx.input(2)));
  if (!opened.initialized) return Write(ctx, opened.handle, std::move(table));
  if (table->size() == opened.table->size()) return absl::OkStatus();
  return FailedPrecondition("Table was already initialized with different data.");
}

absl::StatusOr<KernelFn> MakeInitialize(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    return Initialize(ctx, opened);
  });
}

// A second time the file has to be there, but what it has is not looked at, as in TensorFlow.
absl::Status InitializeFromText(KernelContext& ctx, const TableTextAttrs& attrs) {
  const Tensor& name = ctx.input(1);
  if (name.num_elements() != 1) {
    return InvalidArgument("filename should be a single string, but got ", name.shape().ToString());
  }
  const std::string& file = *name.data<std::string>();
  if (file.empty()) return InvalidArgument("filename cannot be empty.");
  FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
  FORMWORK_RETURN_IF_ERROR(CheckTableText(opened.type, attrs));
  FORMWORK_ASSIGN_OR_RETURN(const std::string text, WholeFile(ctx.call(), file));
  if (opened.initialized) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const TableEntries entries,
                            TableEntriesOf(text, opened.type, attrs, file, ctx.allocator()));
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Table> table,
                            StaticTableOf(ctx, opened.type, entries.keys, entries.values));
  return Write(ctx, opened.handle, std::move(table));
}

absl::StatusOr<KernelFn> MakeInitializeFromText(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(TableTextAttrs attrs, TableTextAttrs::FromAttrs(init.attrs()));
  return KernelFn(
      [attrs = std::move(attrs)](KernelContext& ctx) { return InitializeFromText(ctx, attrs); });
}

absl::Status NotOfStaticTables(absl::string_view what) {
  return Unimplemented(what, " not supported by InitializableLookupTable implementations");
}

// kImport: what was there before goes.
template <bool kImport>
absl::StatusOr<KernelFn> MakeInsert(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    if (opened.is_static()) {
      return kImport ? Initialize(ctx, opened) : NotOfStaticTables("Insert");
    }
    FORMWORK_RETURN_IF_ERROR(CheckTableEntries(opened.type, ctx.input(1), ctx.input(2)));
    const std::shared_ptr<const Table> before = kImport ? EmptyTable(opened.type) : opened.table;
    return Write(ctx, opened.handle, before->WithEntries(ctx.input(1), ctx.input(2)));
  });
}

absl::StatusOr<KernelFn> MakeRemove(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    if (opened.is_static()) return NotOfStaticTables("Remove");
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
    if (opened.is_static() && !opened.initialized) {
      return absl::AbortedError("HashTable is not initialized.");
    }
    const auto& parts = opened.type.parts;
    if (parts[0].dtype != key || parts[1].dtype != value) {
      return InvalidArgument("the table is of other dtypes: it is a ", opened.type.ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(const EntryShapes shapes, ShapesOf(opened.type, *opened.table));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * keys, ctx.AllocateOutput(0, key, shapes.keys));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * values, ctx.AllocateOutput(1, value, shapes.values));
    opened.table->Export(*keys, *values);
    return absl::OkStatus();
  });
}

}  // namespace

const StoredForm kStoredTable = {kTableKind, StoredParts, ValueOfParts};
const StoredForm kStoredStaticTable = {kStaticTableKind, StoredParts, ValueOfParts};

void RegisterTableCpuKernels(KernelRegistry& registry) {
  registry.Add("LookupTableFindV2", MakeFind);
  registry.Add("InitializeTableV2", MakeInitialize);
  registry.Add("InitializeTableFromTextFileV2", MakeInitializeFromText);
  registry.Add("LookupTableInsertV2", MakeInsert<false>);
  registry.Add("LookupTableImportV2", MakeInsert<true>);
  registry.Add("LookupTableRemoveV2", MakeRemove);
  registry.Add("LookupTableSizeV2", MakeSize);
  registry.Add("LookupTableExportV2", MakeExport);
}

}  // namespace formwork
