#pragma once

// Functions that kernels run: as executions of their own within a step of the call.

#include <memory>

#include "core/kernels/kernel_function.h"

namespace formwork {

/// What CallScope::NewRun is for calls. Throws as operator new does.
std::unique_ptr<FunctionRun> MakeFunctionRun(const BoundFunction& function);

}  // namespace formwork
