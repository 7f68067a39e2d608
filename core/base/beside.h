#pragma once

// Work that a compute thread (parallel.h) does beside the one that asks for it, which goes on.

#include "absl/functional/any_invocable.h"

namespace formwork {

/// Has a compute thread that has nothing else to do run `work`, which does not throw. When one is
/// free nobody knows: who cannot wait for it takes the work back by a flag of its own, which `work`
/// looks at first. False, and it is dropped, where there is no other thread, or no memory, or as
/// many wait already as there are threads. What `work` takes is held to no budget, and no StopFlag
/// reaches it, but for what it brings itself (HeapScope, StopScope).
bool TryRunBeside(absl::AnyInvocable<void() const> work);

}  // namespace formwork
