#pragma once

// Which request of which client one is, so that one that is sent again is not done again.

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace formwork {

/// A client numbers its requests that change something; one that it sends again, because it has not
/// heard of its answer, has the same number and says when it was first sent.
struct RequestId {
  std::string client;     ///< As no other client of the namespace is called.
  uint64_t sequence = 0;  ///< From 1 on; requests may come in any order.
  /// The client will not send this request and those before it again.
  uint64_t acknowledged = 0;
  /// How long ago it was first sent; zero: it has not been sent before.
  absl::Duration age;

  /// Else nothing is remembered of it.
  bool given() const { return sequence != 0 && !client.empty(); }
  bool is_repeat() const { return given() && age > absl::ZeroDuration(); }
};

}  // namespace formwork
