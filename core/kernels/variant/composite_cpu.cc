// Composite tensors (extension types) as one element of dtype variant, and back.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/variant/variant_nesting.h"
#include "core/ops/graph_dtype.h"

namespace formwork {
namespace {

class Composite final : public VariantObject {
 public:
  absl::string_view type_name() const override { return "CompositeTensorVariant"; }
  uint64_t type_class = 0;
  std::vector<Tensor> components;
};

// --- The metadata's protobuf --------------------------------------------------------------------

std::optional<uint64_t> ReadVarint(absl::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

// The last field 1 of a message: a number, or the bytes of what is in it. Nothing where the message
// is broken.
struct FirstField {
  uint64_t number = 0;
  absl::string_view bytes;
};
std::optional<FirstField> ReadFirstField(absl::string_view message) {
  constexpr uint64_t kVarint = 0, kWord8 = 1, kBytes = 2, kWord4 = 5;
  FirstField first;
  while (!message.empty()) {
    const std::optional<uint64_t> key = ReadVarint(message);
    if (!key || *key >> 3 == 0) return std::nullopt;
    FirstField field;
    uint64_t size = 0;
    switch (*key & 7) {
      case kVarint: {
        const std::optional<uint64_t> number = ReadVarint(message);
        if (!number) return std::nullopt;
        field.number = *number;
        break;
      }
      case kBytes: {
        const std::optional<uint64_t> length = ReadVarint(message);
        if (!length) return std::nullopt;
        size = *length;
        break;
      }
      case kWord8:
        size = 8;
        break;
      case kWord4:
        size = 4;
        break;
      default:
        return std::nullopt;
    }
    if (size > message.size()) return std::nullopt;
    field.bytes = message.substr(0, size);
    message.remove_prefix(size);
    if (*key >> 3 == 1) first = field;
  }
  return first;
}

// CompositeTensorVariantMetadata: field 1 is a TypeSpecProto, whose field 1 is the class.
std::optional<uint64_t> TypeClassOf(absl::string_view metadata) {
  const std::optional<FirstField> spec = ReadFirstField(metadata);
  if (!spec) return std::nullopt;
  const std::optional<FirstField> type_class = ReadFirstField(spec->bytes);
  if (!type_class) return std::nullopt;
  return type_class->number;
}

absl::string_view TypeClassName(uint64_t type_class) {
  constexpr absl::string_view kNames[] = {"UNKNOWN",
                                          "SPARSE_TENSOR_SPEC",
                                          "INDEXED_SLICES_SPEC",
                                          "RAGGED_TENSOR_SPEC",
                                          "TENSOR_ARRAY_SPEC",
                                          "DATA_DATASET_SPEC",
                                          "DATA_ITERATOR_SPEC",
                                          "OPTIONAL_SPEC",
                                          "PER_REPLICA_SPEC",
                                          "VARIABLE_SPEC",
                                          "ROW_PARTITION_SPEC",
                                          "",
                                          "REGISTERED_TYPE_SPEC",
                                          "EXTENSION_TYPE_SPEC"};
  return type_class < std::size(kNames) ? kNames[type_class] : "";
}

// --- Kernels ------------------------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeFromComponents(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string metadata, init.attrs().Get<std::string>("metadata"));
  const std::optional<uint64_t> type_class = TypeClassOf(metadata);
  if (!type_class) return InvalidArgument("Error parsing metadata");
  return KernelFn([type_class = *type_class](KernelContext& ctx) -> absl::Status {
    auto composite = std::make_shared<Composite>();
    composite->type_class = type_class;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      FORMWORK_RETURN_IF_ERROR(CountNesting(*composite, ctx.input(i)));
      composite->components.push_back(ctx.TakeInput(i));
    }
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(composite)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeToComponents(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string metadata, init.attrs().Get<std::string>("metadata"));
  const std::optional<uint64_t> type_class = TypeClassOf(metadata);
  if (!type_class) return InvalidArgument("Error parsing `metadata`");
  std::vector<DType> dtypes(init.output_dtypes().begin(), init.output_dtypes().end());
  return KernelFn(
      [type_class = *type_class, dtypes = std::move(dtypes)](KernelContext& ctx) -> absl::Status {
        // A copy, which keeps the variant: outputs may take the input's place.
        const Tensor encoded = ctx.input(0);
        if (encoded.num_elements() == 0) {
          return InvalidArgument("Input `encoded` must not be an empty variant tensor, but got ",
                                 encoded.DebugString());
        }
        const auto* composite = dynamic_cast<const Composite*>(encoded.data<Variant>()[0].get());
        if (composite == nullptr) {
          return InvalidArgument(
              "The input `encoded` is not a valid CompositeTensorVariant tensor, got ",
              encoded.DebugString());
        }
        if (composite->type_class != type_class) {
          return InvalidArgument("Expected a ", TypeClassName(type_class),
                                 " (based on `type_spec`), but `encoded` contains a ",
                                 TypeClassName(composite->type_class));
        }
        const std::vector<Tensor>& components = composite->components;
        if (components.size() != dtypes.size()) {
          return InvalidArgument("Encoded value has ", components.size(),
                                 " tensor components; expected ", dtypes.size(),
                                 " components based on type_spec");
        }
        for (size_t i = 0; i < components.size(); ++i) {
          if (components[i].dtype() != dtypes[i]) {
            return InvalidArgument("Tensor component ", i, " had dtype DT_",
                                   absl::AsciiStrToUpper(GraphDTypeName(components[i].dtype())),
                                   "; expected dtype DT_",
                                   absl::AsciiStrToUpper(GraphDTypeName(dtypes[i])));
          }
          ctx.SetOutput(static_cast<int>(i), components[i]);
        }
        return absl::OkStatus();
      });
}

}  // namespace

void RegisterCompositeCpuKernels(KernelRegistry& registry) {
  registry.Add("CompositeTensorVariantFromComponents", MakeFromComponents);
  registry.Add("CompositeTensorVariantToComponents", MakeToComponents);
}

}  // namespace formwork
