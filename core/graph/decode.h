#pragma once

// TensorFlow's wire forms of values, decoded with every size checked.

#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/ops/attr.h"
#include "core/ops/op_def.h"
#include "formwork/tf/attr_value.pb.h"
#include "formwork/tf/tensor.pb.h"
#include "formwork/tf/tensor_shape.pb.h"

namespace formwork {

/// The dtype of a wire number; kInvalid where there is none, and for reference types (100 + n),
/// which have no place in a traced function.
DType DTypeFromNumber(int number);

/// Errors: kInvalidArgument if shape, dtype and content do not fit each other;
/// kResourceExhausted if a few bytes stand for more than 256 MiB.
absl::StatusOr<Tensor> DecodeTensor(const tf::TensorProto& proto, Allocator& allocator);

absl::StatusOr<PartialShape> DecodeShape(const tf::TensorShapeProto& proto);

/// The value of an attr that `def` declares. Errors: kInvalidArgument naming the attr if the value
/// is of another kind, not among the allowed ones, or below the minimum.
absl::StatusOr<AttrValue> DecodeAttr(const AttrDef& def, const tf::AttrValue& proto,
                                     Allocator& allocator);

/// The same for an attr that no OpDef declares; monostate for forms that are not understood.
AttrValue DecodeUndeclaredAttr(const tf::AttrValue& proto, Allocator& allocator);

}  // namespace formwork
