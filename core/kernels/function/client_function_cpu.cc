// Ops that run a function of the client's.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/client_functions.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/graph_dtype.h"

namespace formwork {
namespace {

absl::Status Ask(const std::string& token, KernelContext& ctx) {
  ClientFunctions* const client = ctx.call().client_functions();
  if (client == nullptr) {
    return FailedPrecondition("'", token,
                              "' is a function of the client that traced this one, and this call's "
                              "client does not answer for it");
  }
  std::vector<Tensor> inputs;
  inputs.reserve(ctx.num_inputs());
  for (int i = 0; i < ctx.num_inputs(); ++i) inputs.push_back(ctx.input(i));
  FORMWORK_ASSIGN_OR_RETURN(ctx.call().awaited(), client->Ask(token, inputs));
  return absl::OkStatus();
}

absl::Status SetOutputs(const std::string& token, const std::vector<DType>& dtypes,
                        std::vector<Tensor> results, KernelContext& ctx) {
  if (results.size() != dtypes.size()) {
    return InvalidArgument(token, " returns ", results.size(), " values, but expects to see ",
                           dtypes.size(), " values.");
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].dtype() != dtypes[i]) {
      return InvalidArgument(i, "-th value returned by ", token, " is ",
                             GraphDTypeName(results[i].dtype()), ", but expects ",
                             GraphDTypeName(dtypes[i]));
    }
    ctx.SetOutput(static_cast<int>(i), std::move(results[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeClientFunction(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(std::string token, init.attrs().Get<std::string>("token"));
  const absl::Span<const DType> dtypes = init.output_dtypes();
  return KernelFn(
      [token = std::move(token), dtypes = std::vector<DType>(dtypes.begin(), dtypes.end())](
          KernelContext& ctx) -> absl::Status {
        if (ctx.call().awaited() == nullptr) FORMWORK_RETURN_IF_ERROR(Ask(token, ctx));
        if (!ctx.call().awaited()->over()) {
          StopFlag& stop = ctx.call().stop();
          return stop.requested() ? stop.status() : Waiting();
        }
        const std::shared_ptr<Awaited> awaited = std::exchange(ctx.call().awaited(), nullptr);
        ClientAnswer::Results results = static_cast<ClientAnswer&>(*awaited).Take();
        if (!results.ok()) return results.status();
        return SetOutputs(token, dtypes, *std::move(results), ctx);
      });
}

}  // namespace

void RegisterClientFunctionCpuKernels(KernelRegistry& registry) {
  for (const char* op : {"PyFunc", "PyFuncStateless", "EagerPyFunc"}) {
    registry.Add(op, MakeClientFunction);
  }
}

}  // namespace formwork
