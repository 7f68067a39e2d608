#pragma once

// The one place that owns oneDNN's threads.

namespace formwork {

/// Makes oneDNN's calls from this thread run on this thread alone: it splits work by libgomp, which
/// would start threads of its own beside ours. Call before every call of oneDNN; cheap after the
/// first. Callers split large work themselves, by ParallelFor.
void UseOneThreadForOnednn();

}  // namespace formwork
