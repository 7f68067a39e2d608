#pragma once

// The one place that says how oneDNN runs.

namespace formwork {

/// Makes oneDNN's calls from this thread run on this thread alone, and at the kernels' level of
/// vector instructions (isa.h). oneDNN splits work by libgomp, which would start threads of its own
/// beside ours: callers split large work themselves, by ParallelFor. Call before every call of
/// oneDNN; cheap after the first.
void SetUpOnednn();

}  // namespace formwork
