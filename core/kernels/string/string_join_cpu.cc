// Strings joined along dimensions and by segments; strings as numbers, and in base 64.

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "core/base/status.h"
#include "core/kernels/parse_number.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/string/string_cpu.h"
#include "core/kernels/string/text.h"
#include "core/ops/dims.h"
#include "core/ops/segment.h"
#include "core/ops/string.h"

namespace formwork {
namespace {

// The element that `index` of the dimensions `axes`, the last of them fastest, stands for.
int64_t OffsetOf(int64_t index, const Dims& axes, const Shape& shape, const Dims& strides) {
  int64_t offset = 0;
  for (size_t i = axes.size(); i-- > 0;) {
    const int axis = static_cast<int>(axes[i]);
    offset += index % shape.dim(axis) * strides[static_cast<size_t>(axis)];
    index /= shape.dim(axis);
  }
  return offset;
}

absl::StatusOr<KernelFn> MakeReduceJoin(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool keep_dims, init.attrs().Get<bool>("keep_dims"));
  FORMWORK_ASSIGN_OR_RETURN(std::string separator, init.attrs().Get<std::string>("separator"));
  return KernelFn([keep_dims,
                   separator = std::move(separator)](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const ReduceJoinGeometry geometry,
                              PrepareReduceJoin(input.shape().dims(), &ctx.input(1), keep_dims));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kString, shape));
    const Dims strides = RowMajorStrides(input.shape());
    int64_t joined = 1;
    for (const int64_t axis : geometry.joined) joined *= input.dim(static_cast<int>(axis));
    TextLooks looks;
    int64_t total = 0;
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const int64_t base = OffsetOf(i, geometry.kept, input.shape(), strides);
      std::string text;
      for (int64_t k = 0; k < joined; ++k) {
        if (k > 0) text += separator;
        const std::string& part =
            input.data<std::string>()[base + OffsetOf(k, geometry.joined, input.shape(), strides)];
        if (looks.CutBefore(part.size())) return WorkStatus();
        text += part;
        FORMWORK_RETURN_IF_ERROR(CheckTextSize(total + static_cast<int64_t>(text.size())));
      }
      total += static_cast<int64_t>(text.size());
      out->mutable_data<std::string>()[i] = std::move(text);
    }
    return absl::OkStatus();
  });
}

int64_t SegmentOf(const Tensor& ids, int64_t i) {
  return ids.dtype() == DType::kInt64 ? ids.data<int64_t>()[i] : ids.data<int32_t>()[i];
}

absl::StatusOr<KernelFn> MakeSegmentJoin(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(std::string separator, init.attrs().Get<std::string>("separator"));
  return KernelFn([separator = std::move(separator)](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    const Tensor ids = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const SegmentGeometry geometry,
        PrepareSegmentJoin(input.shape().dims(), ids.shape().dims(), &ctx.input(2)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const int64_t id = SegmentOf(ids, i);
      if (id >= 0 && id < shape.dim(0)) continue;
      return InvalidArgument(
          "segment_ids are not allowed to exceed num_segments or to have negative values.");
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kString, shape));
    std::string* to = out->mutable_data<std::string>();
    const std::string* from = input.data<std::string>();
    TextLooks looks;
    int64_t total = 0;
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      const int64_t segment = SegmentOf(ids, i) * geometry.width;
      for (int64_t c = 0; c < geometry.width; ++c, ++from) {
        if (looks.CutBefore(from->size())) return WorkStatus();
        std::string& text = to[segment + c];
        // As TensorFlow: nothing is set apart from what is empty so far.
        if (!text.empty()) text += separator;
        text += *from;
        total += static_cast<int64_t>(from->size() + separator.size());
        FORMWORK_RETURN_IF_ERROR(CheckTextSize(total));
      }
    }
    return absl::OkStatus();
  });
}

// --- StringToNumber -----------------------------------------------------------------------------

template <typename T>
absl::Status StringToNumber(KernelContext& ctx) {
  const Tensor texts = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DTypeOf<T>::value, texts.shape()));
  TextLooks looks;
  for (int64_t i = 0; i < texts.num_elements(); ++i) {
    const std::string& text = texts.data<std::string>()[i];
    if (looks.CutBefore(text.size())) return WorkStatus();
    if (!ParseNumber(text, &out->mutable_data<T>()[i])) {
      return InvalidArgument("StringToNumberOp could not correctly convert string: ", text);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeStringToNumber(KernelInit& init) {
  switch (init.output_dtypes()[0]) {
    FORMWORK_CASE(float, return KernelFn(StringToNumber<T>))
    FORMWORK_CASE(double, return KernelFn(StringToNumber<T>))
    FORMWORK_CASE(int32_t, return KernelFn(StringToNumber<T>))
    FORMWORK_CASE(int64_t, return KernelFn(StringToNumber<T>))
    FORMWORK_CASE(uint32_t, return KernelFn(StringToNumber<T>))
    FORMWORK_CASE(uint64_t, return KernelFn(StringToNumber<T>))
    default:
      return Unimplemented("StringToNumber: dtype ", DTypeName(init.output_dtypes()[0]),
                           " is not supported");
  }
}

// --- Base 64, of the alphabet for web addresses
// ---------------------------------------------------

absl::StatusOr<KernelFn> MakeEncodeBase64(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool pad, init.attrs().Get<bool>("pad"));
  return KernelFn([pad](KernelContext& ctx) -> absl::Status {
    const Tensor texts = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kString, texts.shape()));
    TextLooks looks;
    for (int64_t i = 0; i < texts.num_elements(); ++i) {
      const std::string& text = texts.data<std::string>()[i];
      if (looks.CutBefore(text.size())) return WorkStatus();
      std::string encoded = absl::WebSafeBase64Escape(text);
      if (pad) encoded.append((4 - encoded.size() % 4) % 4, '=');
      out->mutable_data<std::string>()[i] = std::move(encoded);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeDecodeBase64(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor texts = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kString, texts.shape()));
    TextLooks looks;
    for (int64_t i = 0; i < texts.num_elements(); ++i) {
      const std::string& text = texts.data<std::string>()[i];
      if (looks.CutBefore(text.size())) return WorkStatus();
      // What Abseil lets pass: white space.
      const bool spaces = std::any_of(text.begin(), text.end(),
                                      [](unsigned char c) { return absl::ascii_isspace(c); });
      if (spaces || !absl::WebSafeBase64Unescape(text, &out->mutable_data<std::string>()[i])) {
        return InvalidArgument("Invalid character found in base64.");
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddStringJoinCpuKernels(KernelRegistry& registry) {
  registry.Add("ReduceJoin", MakeReduceJoin);
  registry.Add("UnsortedSegmentJoin", MakeSegmentJoin);
  registry.Add("StringToNumber", MakeStringToNumber);
  registry.Add("EncodeBase64", MakeEncodeBase64);
  registry.Add("DecodeBase64", MakeDecodeBase64);
}

}  // namespace formwork
