#include "core/function/concrete_function.h"

#include <algorithm>
#include <cstring>

#include "core/plan/plan.h"

namespace formwork {
namespace {

bool SameElements(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (!a.has_value() || a.num_elements() == 0 || a.raw() == b.raw()) return true;
  if (a.dtype() == DType::kString) return a.span<std::string>() == b.span<std::string>();
  if (a.dtype() == DType::kVariant) return a.span<Variant>() == b.span<Variant>();
  return std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace

bool ConcreteFunction::broken() const {
  return std::any_of(resources.begin(), resources.end(),
                     [](const BoundResource& resource) { return resource.deleted(); });
}

void ConcreteFunction::VisitState(
    absl::FunctionRef<bool(absl::string_view, absl::Span<std::atomic<uint64_t>>)> visit) const {
  formwork::VisitState(*plan, [&](absl::string_view name, Plan::Range numbers) {
    return visit(name, absl::MakeSpan(state).subspan(numbers.first, numbers.count));
  });
}

bool FunctionIdentity::operator==(const FunctionIdentity& other) const {
  if (fingerprint != other.fingerprint || bindings.size() != other.bindings.size() ||
      type != other.type) {
    return false;
  }
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (bindings[i].resource_id != other.bindings[i].resource_id ||
        !SameElements(bindings[i].value, other.bindings[i].value)) {
      return false;
    }
  }
  return true;
}

}  // namespace formwork
