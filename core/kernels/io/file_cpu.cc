// Files of the folder that the server has for them.

#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/io/io_cpu.h"
#include "core/kernels/io/whole_file.h"

namespace formwork {
namespace {

absl::Status ReadFile(KernelContext& ctx) {
  const Tensor name = ctx.input(0);
  if (name.rank() != 0) {
    return InvalidArgument("Input filename tensor must be scalar, but had shape: ",
                           name.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(std::string text, WholeFile(ctx.call(), name.scalar<std::string>()));
  ctx.SetOutput(0, Tensor::StringScalar(std::move(text)));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeReadFile(KernelInit&) { return KernelFn(&ReadFile); }

}  // namespace

void AddFileCpuKernels(KernelRegistry& registry) { registry.Add("ReadFile", MakeReadFile); }

}  // namespace formwork
