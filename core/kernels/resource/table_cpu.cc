// Hash tables.

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/io/whole_file.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/resource/dense_table.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/resource/stored_form.h"
#include "core/kernels/resource/table_state.h"
#include "core/kernels/resource/table_text.h"
#include "core/ops/table.h"

namespace formwork {
namespace {

// Nobody else makes values of tables.
std::shared_ptr<const Table> TableOfState(const Tensor& state) {
  return std::static_pointer_cast<const Table>(state.scalar<Variant>());
}

// --- On disk ------------------------------------------------------------------------------------

ResourceValue ValueOf(std::shared_ptr<Table> table) {
  const size_t bytes = table->bytes();
  return {Tensor::VariantScalar(std::move(table)), bytes};
}

absl::StatusOr<std::vector<Tensor>> StoredParts(const ResourceType& type, const Tensor& value,
                                                Allocator& allocator) {
  return PartsOfEntries(type, *TableOfState(value), allocator);
}

absl::StatusOr<std::vector<Tensor>> StoredDenseParts(const ResourceType& type, const Tensor& value,
                                                     Allocator& allocator) {
  return PartsOfDenseTable(type, *TableOfState(value), allocator);
}

absl::StatusOr<ResourceValue> DenseValueOfParts(const ResourceType& type,
                                                const std::vector<Tensor>& parts) {
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Table> table, DenseTableOfParts(type, parts));
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  return ValueOf(std::move(table));
}

absl::StatusOr<ResourceValue> ValueOfParts(const ResourceType& type,
                                           const std::vector<Tensor>& parts) {
  if (parts.size() != 2) return InvalidArgument("a table has two parts, not ", parts.size());
  FORMWORK_RETURN_IF_ERROR(CheckTableEntries(type, parts[0], parts[1]));
  std::shared_ptr<Table> table = EmptyTable(type)->WithEntries(parts[0], parts[1]);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  return ValueOf(std::move(table));
}

absl::StatusOr<std::vector<Tensor>> StoredChanges(const ResourceType& type, const Tensor& before,
                                                  const Tensor& after, Allocator& allocator) {
  return TableOfState(after)->ChangesSince(type, *TableOfState(before), allocator);
}

template <auto with>
absl::StatusOr<ResourceValue> ValueWithChanges(const ResourceType& type, const Tensor& before,
                                               const std::vector<Tensor>& changes) {
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Table> table,
                            with(type, *TableOfState(before), changes));
  return ValueOf(std::move(table));
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
  FORMWORK_ASSIGN_OR_RETURN(const OpenState open, OpenStateOf(ctx, IsTable, "a table"));
  if (!open.state.has_value()) {
    if (open.type.kind == &kDenseTableKind) return FailedPrecondition("Table not initialized.");
    return Opened{open.handle, open.type, EmptyTable(open.type), false};
  }
  return Opened{open.handle, open.type, TableOfState(open.state), true};
}

absl::Status Write(KernelContext& ctx, ResourceHandle handle, std::shared_ptr<Table> table) {
  ResourceValue value = ValueOf(std::move(table));
  return ctx.resources().WriteState(handle, std::move(value.value), value.bytes);
}

absl::StatusOr<KernelFn> MakeFind(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckTableKeyDType(init.input_dtypes()[1]));
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    if (opened.is_static() && !opened.initialized) {
      return FailedPrecondition("Table not initialized.");
    }
    const Tensor& default_value = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(
        const Shape shape,
        PrepareTableFind(opened.type, ctx.input(1), default_value, opened.table->key_shape()));
    FORMWORK_RETURN_IF_ERROR(opened.table->CheckKeys(ctx.input(1)));
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

absl::StatusOr<KernelFn> MakeInitialize(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckTableKeyDType(init.input_dtypes()[1]));
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

// Of scalars as a dense table exports them.
Tensor AsVector(const Tensor& rows) {
  return rows.rank() == 2 && rows.dim(1) == 1 ? rows.Reshaped(Shape({rows.dim(0)})) : rows;
}

// kImport: what was there before goes.
template <bool kImport>
absl::StatusOr<KernelFn> MakeInsert(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckTableKeyDType(init.input_dtypes()[1]));
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    if (opened.is_static()) {
      return kImport ? Initialize(ctx, opened) : NotOfStaticTables("Insert");
    }
    const Shape& key = opened.table->key_shape();
    if (kImport) {
      const bool dense = opened.type.kind == &kDenseTableKind;
      const Tensor keys = dense && key.rank() == 0 ? AsVector(ctx.input(1)) : ctx.input(1);
      const Tensor values =
          dense && opened.type.parts[1].shape.rank() == 0 ? AsVector(ctx.input(2)) : ctx.input(2);
      FORMWORK_RETURN_IF_ERROR(CheckTableEntries(opened.type, keys, values, key));
      FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Table> imported,
                                opened.table->Imported(keys, values, ctx.allocator()));
      return Write(ctx, opened.handle, std::move(imported));
    }
    FORMWORK_RETURN_IF_ERROR(CheckTableEntries(opened.type, ctx.input(1), ctx.input(2), key));
    FORMWORK_RETURN_IF_ERROR(opened.table->CheckKeys(ctx.input(1)));
    return Write(ctx, opened.handle, opened.table->WithEntries(ctx.input(1), ctx.input(2)));
  });
}

absl::StatusOr<KernelFn> MakeRemove(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckTableKeyDType(init.input_dtypes()[1]));
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    if (opened.is_static()) return NotOfStaticTables("Remove");
    FORMWORK_RETURN_IF_ERROR(CheckTableKeys(opened.type, ctx.input(1), opened.table->key_shape()));
    FORMWORK_RETURN_IF_ERROR(opened.table->CheckKeys(ctx.input(1)));
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
  FORMWORK_RETURN_IF_ERROR(CheckTableKeyDType(key));
  return KernelFn([key, value](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    if (opened.is_static() && !opened.initialized) {
      return absl::AbortedError("HashTable is not initialized.");
    }
    const auto& parts = opened.type.parts;
    if (parts[0].dtype != key || parts[1].dtype != value) {
      return InvalidArgument("the table is of other dtypes: it is a ", opened.type.ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> exported,
                              PartsOfEntries(opened.type, *opened.table, ctx.allocator()));
    for (int i = 0; i < 2; ++i) {
      Tensor& rows = exported[static_cast<size_t>(i)];
      // As TensorFlow exports a dense table's scalars.
      if (opened.type.kind == &kDenseTableKind && rows.rank() == 1) {
        rows = std::move(rows).Reshaped(Shape({rows.dim(0), 1}));
      }
      ctx.SetOutput(i, std::move(rows));
    }
    return absl::OkStatus();
  });
}

// Behind the handle: begins the table, unless it is there.
absl::StatusOr<KernelFn> MakeBeginDense(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DenseTableAttrs attrs, DenseTableAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor state, ctx.resources().ReadState(handle));
    if (state.has_value()) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, ctx.resources().TypeOf(handle));
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Table> table,
                              EmptyDenseTable(*type, ctx.input(1), ctx.input(2), attrs));
    return Write(ctx, handle, std::move(table));
  });
}

}  // namespace

const StoredForm kStoredTable = {kTableKind, StoredParts,   ValueOfParts,
                                 2,          StoredChanges, ValueWithChanges<WithChanges>};
const StoredForm kStoredStaticTable = {kStaticTableKind, StoredParts, ValueOfParts, 2};
const StoredForm kStoredDenseTable = {kDenseTableKind,   StoredDenseParts,
                                      DenseValueOfParts, 2,
                                      StoredChanges,     ValueWithChanges<WithDenseChanges>};

void RegisterTableCpuKernels(KernelRegistry& registry) {
  registry.Add("MutableDenseHashTableV2", MakeBeginDense);
  registry.Add("AnonymousMutableDenseHashTable", MakeBeginDense);
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
