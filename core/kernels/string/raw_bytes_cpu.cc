// Strings as the bytes of elements.

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/status.h"
#include "core/kernels/string/string_cpu.h"
#include "core/kernels/string/text.h"
#include "core/ops/raw_bytes.h"

namespace formwork {
namespace {

// Each `width` bytes the other way round.
void Reverse(char* bytes, size_t n, size_t width) {
  for (size_t i = 0; i < n; i += width) std::reverse(bytes + i, bytes + i + width);
}

// Output 0: each string as `elements` elements of `dtype`; what it is short of is zeros, and what
// it has more is left out.
absl::Status DecodeTo(KernelContext& ctx, DType dtype, int64_t elements, bool little_endian) {
  const Tensor texts = ctx.input(0);
  Dims dims(texts.shape().dims().begin(), texts.shape().dims().end());
  dims.push_back(elements);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, shape));
  // Of a complex number each part.
  const size_t width = DTypeSize(dtype) / (IsComplex(dtype) ? 2 : 1);
  const size_t row = static_cast<size_t>(elements) * DTypeSize(dtype);
  char* to = output->mutable_data<char>();
  TextLooks looks;
  for (int64_t i = 0; i < texts.num_elements(); ++i, to += row) {
    if (looks.CutBefore(row)) return WorkStatus();
    const std::string& text = texts.data<std::string>()[i];
    const size_t taken = std::min(text.size(), row);
    std::memcpy(to, text.data(), taken);
    std::memset(to + taken, 0, row - taken);
    if (!little_endian && width > 1) Reverse(to, row, width);
    if (dtype == DType::kBool) {
      std::transform(to, to + row, to, [](char byte) { return byte == 0 ? '\0' : '\1'; });
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeDecodeRaw(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const bool little_endian, init.attrs().Get<bool>("little_endian"));
  return KernelFn([dtype, little_endian](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t elements, PrepareDecodeRaw(ctx.input(0), dtype));
    return DecodeTo(ctx, dtype, elements, little_endian);
  });
}

absl::StatusOr<KernelFn> MakeDecodePaddedRaw(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const bool little_endian, init.attrs().Get<bool>("little_endian"));
  return KernelFn([dtype, little_endian](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t elements, PrepareDecodePaddedRaw(ctx.input(1), dtype));
    return DecodeTo(ctx, dtype, elements, little_endian);
  });
}

}  // namespace

void AddRawBytesCpuKernels(KernelRegistry& registry) {
  registry.Add("DecodeRaw", MakeDecodeRaw);
  registry.Add("DecodePaddedRaw", MakeDecodePaddedRaw);
}

}  // namespace formwork
