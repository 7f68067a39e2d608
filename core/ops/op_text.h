#pragma once

// Ops as text, for people, and for tests that hold them against TensorFlow's.

#include <string>

#include "core/ops/op_def.h"

namespace formwork {

/// How a dtype is written: DTypeName, or another way.
using DTypeText = std::string (*)(DType dtype);

/// "values: N*T"
std::string ArgText(const ArgDef& arg, DTypeText dtype_text);
/// "type in bfloat16 float = float": its kind, what it may be, and its default; the last two where
/// there are such.
std::string AttrText(const AttrDef& attr, DTypeText dtype_text);

/// "Cumsum(x: T, axis: Tidx) -> (out: T); exclusive: bool = false; …; T: type in bfloat16 …"
std::string SignatureOf(const OpDef& op);

}  // namespace formwork
