#pragma once

// Runs one op case on the kernels of a registry.

#include "absl/status/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/op_def.h"
#include "tests/support/op_case.h"

namespace formwork::testing {

/// Runs the case twice, with inputs that others hold too and with inputs that the kernel may
/// overwrite, on guarded memory, and compares. Where the case expects outputs, the op's shape
/// function is held against them, with all, with half and with nothing known of the inputs' shapes,
/// and without their values.
/// Errors: kFailedPrecondition if the result is not the expected one; kInvalidArgument if the case
/// does not fit its op; kNotFound if the op or its kernel is missing.
absl::Status RunOpCase(const OpCase& op_case, const OpRegistry& ops, const KernelRegistry& kernels);

/// Runs the case's kernel for a call that has been cancelled, on guarded memory, and does not look
/// at what it gives. Errors: kFailedPrecondition if it does not notice; else as RunOpCase.
absl::Status RunStoppedCase(const OpCase& op_case, const OpRegistry& ops,
                            const KernelRegistry& kernels);

/// Measures the case's kernel, then runs it with deadlines within that time. Errors:
/// kFailedPrecondition if it runs on for 0.3 of that time and 200 ms; else as RunOpCase.
absl::Status RunLateCase(const OpCase& op_case, const OpRegistry& ops,
                         const KernelRegistry& kernels);

/// Runs the case's kernel once, compares nothing, and gives the status of the factory or the
/// kernel. Errors: also as RunOpCase, where there is nothing to run.
absl::Status RunForStatus(const OpCase& op_case, const OpRegistry& ops,
                          const KernelRegistry& kernels);

}  // namespace formwork::testing
