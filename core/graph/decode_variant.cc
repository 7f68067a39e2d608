#include "core/graph/decode_variant.h"

#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/graph/decode.h"
#include "core/kernels/variant/ragged_variant.h"
#include "core/kernels/variant/tensor_part.h"

namespace formwork {
namespace {

// Content that holds variants would be read by recursion as deep as it likes.
absl::StatusOr<std::vector<Tensor>> DecodeTensors(const tf::VariantTensorDataProto& proto,
                                                  Allocator& allocator) {
  std::vector<Tensor> tensors;
  for (const tf::TensorProto& part : proto.tensors()) {
    if (DTypeFromNumber(part.dtype()) == DType::kVariant) {
      return Unimplemented("a constant's variant that holds variants is not supported");
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(part, allocator));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

absl::StatusOr<Variant> DecodeVariant(const tf::VariantTensorDataProto& proto,
                                      Allocator& allocator) {
  if (proto.type_name().empty()) return Variant();
  auto part = std::make_shared<TensorPart>();
  auto ragged = std::make_shared<RaggedVariant>();
  const bool is_part = proto.type_name() == part->type_name();
  if (!is_part && proto.type_name() != ragged->type_name()) {
    return Unimplemented("a constant of dtype variant is not supported that holds a ",
                         proto.type_name().substr(0, 100));
  }
  FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, DecodeTensors(proto, allocator));
  if (tensors.empty() || (is_part && tensors.size() != 1)) {
    return InvalidArgument("a variant has a wrong number of tensors: ", proto.type_name(), " of ",
                           tensors.size());
  }
  Tensor last = std::move(tensors.back());
  tensors.pop_back();
  if (is_part) {
    part->tensor = std::move(last);
    return Variant(std::move(part));
  }
  ragged->values = std::move(last);
  ragged->splits = std::move(tensors);
  return Variant(std::move(ragged));
}

std::vector<const Tensor*> TensorsInside(const Variant& variant) {
  std::vector<const Tensor*> tensors;
  if (const auto* part = dynamic_cast<const TensorPart*>(variant.get())) {
    tensors.push_back(&part->tensor);
  } else if (const auto* ragged = dynamic_cast<const RaggedVariant*>(variant.get())) {
    for (const Tensor& splits : ragged->splits) tensors.push_back(&splits);
    tensors.push_back(&ragged->values);
  }
  return tensors;
}

}  // namespace formwork
