#include "core/ops/default_attrs.h"

namespace formwork {

AttrMap DefaultAttrs(const OpDef& op) {
  AttrMap attrs;
  for (const AttrDef& attr : op.attrs) {
    if (attr.default_value) attrs.Set(attr.name, *attr.default_value);
  }
  return attrs;
}

}  // namespace formwork
