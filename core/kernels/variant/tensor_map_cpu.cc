// Maps from tensors to tensors, as one element of dtype variant. Keys are kept in the order of
// their bytes, where TensorFlow's order is that of its hash table.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/format_tensor.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/variant/variant_nesting.h"

namespace formwork {
namespace {

struct Entry {
  std::string name;  // Dtype, shape and elements of the key: equal where the keys are.
  Tensor key;
  Tensor value;
};

class TensorMap final : public VariantObject {
 public:
  absl::string_view type_name() const override { return "tensorflow::TensorMap"; }
  std::vector<Entry> entries;  // By name.

  std::vector<Entry>::const_iterator LowerBound(const std::string& name) const {
    return std::lower_bound(
        entries.begin(), entries.end(), name,
        [](const Entry& entry, const std::string& other) { return entry.name < other; });
  }
  const Entry* Find(const std::string& name) const {
    const auto at = LowerBound(name);
    return at != entries.end() && at->name == name ? &*at : nullptr;
  }
};

absl::StatusOr<std::string> NameOf(const Tensor& key) {
  if (key.dtype() != DType::kString && !IsPlainData(key.dtype())) {
    return InvalidArgument("A key of a map cannot be of dtype ", DTypeName(key.dtype()));
  }
  std::string name = absl::StrCat(DTypeName(key.dtype()), key.shape().ToString());
  if (key.dtype() != DType::kString) {
    name.append(static_cast<const char*>(key.raw()), key.bytes());
    return name;
  }
  for (const std::string& text : key.span<std::string>()) {
    absl::StrAppend(&name, text.size(), ":", text);
  }
  return name;
}

absl::StatusOr<const TensorMap*> MapOf(const Tensor& handle) {
  if (handle.rank() != 0) {
    return InvalidArgument("Input map must be a scalar. Saw: ", handle.shape().ToString());
  }
  const Variant& variant = handle.scalar<Variant>();
  const auto* map = dynamic_cast<const TensorMap*>(variant.get());
  if (map != nullptr) return map;
  return InvalidArgument("Input handle is not a map. Saw: '",
                         variant == nullptr ? "INVALID" : variant->type_name(), "'");
}

// The map of `handle` to be changed: itself where nobody else holds it, else a copy that takes its
// place.
TensorMap& OwnMap(Tensor& handle) {
  Variant& variant = const_cast<Variant&>(handle.data<Variant>()[0]);
  if (handle.unique() && variant.use_count() == 1) return static_cast<TensorMap&>(*variant);
  auto copy = std::make_shared<TensorMap>(static_cast<const TensorMap&>(*variant));
  TensorMap& map = *copy;
  handle = Tensor::VariantScalar(std::move(copy));
  return map;
}

absl::StatusOr<KernelFn> MakeEmpty(KernelInit&) {
  return KernelFn([](KernelContext& ctx) {
    ctx.SetOutput(0, Tensor::VariantScalar(std::make_shared<TensorMap>()));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSize(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TensorMap* map, MapOf(ctx.input(0)));
    ctx.SetOutput(0, Tensor::Scalar(static_cast<int32_t>(map->entries.size())));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeInsert(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(MapOf(ctx.input(0)).status());
    FORMWORK_ASSIGN_OR_RETURN(std::string name, NameOf(ctx.input(1)));
    Entry entry = {std::move(name), ctx.TakeInput(1), ctx.TakeInput(2)};
    Tensor handle = ctx.TakeInput(0);
    TensorMap& map = OwnMap(handle);
    FORMWORK_RETURN_IF_ERROR(CountNesting(map, entry.value));
    const auto at = map.entries.begin() + (map.LowerBound(entry.name) - map.entries.begin());
    if (at != map.entries.end() && at->name == entry.name) {
      *at = std::move(entry);
    } else {
      map.entries.insert(at, std::move(entry));
    }
    ctx.SetOutput(0, std::move(handle));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> KeyText(const Tensor& key) {
  return FormatTensor(key, 100, TensorTextStyle::kFirst);
}

absl::StatusOr<KernelFn> MakeLookup(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TensorMap* map, MapOf(ctx.input(0)));
    FORMWORK_ASSIGN_OR_RETURN(const std::string name, NameOf(ctx.input(1)));
    const Entry* entry = map->Find(name);
    if (entry == nullptr) {
      FORMWORK_ASSIGN_OR_RETURN(const std::string text, KeyText(ctx.input(1)));
      return InvalidArgument("Trying to lookup non-existent key. Could not find key \"", text,
                             "\".");
    }
    if (entry->value.dtype() != dtype) {
      return InvalidArgument("Value of the map is of dtype ", DTypeName(entry->value.dtype()),
                             ", not ", DTypeName(dtype));
    }
    ctx.SetOutput(0, Tensor(entry->value));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeErase(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TensorMap* before, MapOf(ctx.input(0)));
    FORMWORK_ASSIGN_OR_RETURN(const std::string name, NameOf(ctx.input(1)));
    if (before->Find(name) == nullptr) {
      FORMWORK_ASSIGN_OR_RETURN(const std::string text, KeyText(ctx.input(1)));
      return InvalidArgument("Trying to erase non-existent item. Could not find key \"", text,
                             "\".");
    }
    Tensor handle = ctx.TakeInput(0);
    TensorMap& map = OwnMap(handle);
    map.entries.erase(map.LowerBound(name));
    ctx.SetOutput(0, std::move(handle));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeHasKey(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TensorMap* map, MapOf(ctx.input(0)));
    FORMWORK_ASSIGN_OR_RETURN(const std::string name, NameOf(ctx.input(1)));
    ctx.SetOutput(0, Tensor::Scalar(map->Find(name) != nullptr));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeStackKeys(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor handle = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const TensorMap* map, MapOf(handle));
    if (map->entries.empty()) {
      return InvalidArgument("TensorMapStackKeys cannot be called on empty map.");
    }
    const Shape& shape = map->entries[0].key.shape();
    Dims dims = {static_cast<int64_t>(map->entries.size())};
    dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
    for (const Entry& entry : map->entries) {
      if (entry.key.dtype() != dtype) return InvalidArgument("Key does not match requested dtype.");
      if (entry.key.shape() != shape) {
        return InvalidArgument("Keys must all have the same shape.");
      }
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape stacked, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, stacked));
    ByElement(dtype, [&](auto tag) {
      using E = typename decltype(tag)::type;
      E* to = static_cast<E*>(out->mutable_raw());
      for (const Entry& entry : map->entries) {
        CopyElements(static_cast<const E*>(entry.key.raw()), shape.num_elements(), to);
        to += shape.num_elements();
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterTensorMapCpuKernels(KernelRegistry& registry) {
  registry.Add("EmptyTensorMap", MakeEmpty);
  registry.Add("TensorMapSize", MakeSize);
  registry.Add("TensorMapInsert", MakeInsert);
  registry.Add("TensorMapLookup", MakeLookup);
  registry.Add("TensorMapErase", MakeErase);
  registry.Add("TensorMapHasKey", MakeHasKey);
  registry.Add("TensorMapStackKeys", MakeStackKeys);
}

}  // namespace formwork
