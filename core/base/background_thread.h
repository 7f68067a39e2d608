#pragma once

// Threads whose work others should not notice.

namespace formwork {

/// From now on the calling thread leaves its core at once to whoever wakes up: it has a `nice`
/// value and, where the system knows such (Linux from 6.12 on), long time slices, by which it is
/// told from those that are soon done. Its share of a core that others want, too, is that of its
/// nice value, so that it comes to its end whatever the load is, which it would not at an idle
/// priority.
void StayInBackground(int nice);

}  // namespace formwork
