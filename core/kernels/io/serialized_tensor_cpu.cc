// Values as bytes that TensorFlow reads, and back.

#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/io/io_cpu.h"
#include "core/kernels/serialized_tensor.h"
#include "core/ops/graph_dtype.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeSerializeTensor(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(std::string bytes,
                              SerializedTensor(ctx.input(0), StringsAs::kValues));
    ctx.SetOutput(0, Tensor::StringScalar(std::move(bytes)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeParseTensor(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& serialized = ctx.input(0);
    if (serialized.rank() != 0) {
      return InvalidArgument("Expected `serialized` to be a scalar, got shape: ",
                             serialized.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor tensor, ParseSerializedTensor(serialized.scalar<std::string>(), ctx.allocator()));
    if (tensor.dtype() != dtype) {
      return InvalidArgument("Type mismatch between parsed tensor (",
                             GraphDTypeName(tensor.dtype()), ") and dtype (", GraphDTypeName(dtype),
                             ")");
    }
    ctx.SetOutput(0, std::move(tensor));
    return absl::OkStatus();
  });
}

}  // namespace

void AddSerializedTensorCpuKernels(KernelRegistry& registry) {
  registry.Add("ParseTensor", MakeParseTensor);
  registry.Add("SerializeTensor", MakeSerializeTensor);
}

}  // namespace formwork
