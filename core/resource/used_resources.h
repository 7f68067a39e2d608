#pragma once

// What a value uses besides: resources whose handles are inside it, as a dataset has those that its
// functions have captured.

#include <cstdint>
#include <memory>
#include <vector>

namespace formwork {

/// How a call uses a resource.
enum class Access : uint8_t { kNone, kRead, kWrite };

struct UsedResource {
  uint64_t id;
  Access access;
};
/// By ascending ID, each once.
using UsedResources = std::vector<UsedResource>;

/// A variant that has them. A call that is given one, or uses a resource whose state is one, takes
/// its places at them, too.
class UsesResources {
 public:
  virtual ~UsesResources() = default;
  /// Null: none.
  virtual std::shared_ptr<const UsedResources> uses() const = 0;
};

}  // namespace formwork
