#include "gpu/item_kernel.h"

#include <utility>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/cuda_kernel.h"
#include "gpu/cuda_status.h"

namespace formwork {
namespace {

constexpr unsigned kBlock = 256;
std::string Named(absl::string_view before, size_t bytes, absl::string_view after) {
  const std::string unit = bytes == 16 ? "Bytes16" : absl::StrCat("uint", 8 * bytes, "_t");
  return absl::StrCat(before, unit, after);
}

}  // namespace

absl::StatusOr<cudaKernel_t> ItemKernel::Kernel() {
  const cudaKernel_t known = kernel_.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel,
                            CudaKernelOf(is_whole_ ? text_ : ItemSource(text_, more_), "items"));
  kernel_.store(kernel, std::memory_order_release);
  return kernel;
}

absl::Status ItemKernel::EnqueueItem(const void* item, uint64_t n, FailurePlace place,
                                     cudaStream_t stream) {
  if (n == 0) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel, Kernel());
  void* const arguments[] = {const_cast<void*>(item), &n, &place.word, &place.step};
  return LaunchOver(kernel, n, kBlock, arguments, stream);
}

UnitKernels::UnitKernels(absl::string_view before, absl::string_view after, absl::string_view more)
    : kernels_{ItemKernel(Named(before, 1, after), more), ItemKernel(Named(before, 2, after), more),
               ItemKernel(Named(before, 4, after), more), ItemKernel(Named(before, 8, after), more),
               ItemKernel(Named(before, 16, after), more)} {}

ItemKernel& UnitKernels::Of(size_t bytes) {
  return kernels_[static_cast<size_t>(absl::countr_zero(bytes))];
}

absl::Status EnqueueZeros(Tensor& out, cudaStream_t stream) {
  if (out.bytes() == 0) return absl::OkStatus();
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(out.mutable_raw(), 0, out.bytes(), stream));
  return absl::OkStatus();
}

absl::Status EnqueueUnitCopy(const UnitCopy& copy, const void* from, void* to, FailurePlace place,
                             cudaStream_t stream) {
  static auto* const kernels = new UnitKernels("CopyItem<", ">");
  return WithUnit(copy.unit, [&](auto unit) {
    return kernels->Of(copy.unit).Enqueue(CopyItemOf<decltype(unit)>(copy, from, to), copy.units,
                                          place, stream);
  });
}

}  // namespace formwork
