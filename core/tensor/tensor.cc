#include "core/tensor/tensor.h"

#include <new>

#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/memory_budget.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/device/host_allocator.h"

namespace formwork {
namespace {

template <typename T>
void DestroyElements(void* data, size_t bytes) {
  T* elements = static_cast<T*>(data);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) elements[i].~T();
}

template <typename T>
void ConstructElements(BufferBlock* block, int64_t n) {
  T* elements = static_cast<T*>(block->data);
  for (int64_t i = 0; i < n; ++i) new (elements + i) T();
  block->destroy = &DestroyElements<T>;
}

// One element: not what a limit is reached by.
Tensor ObjectScalar(DType dtype) {
  HeapScope unlimited(nullptr);
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(ProcessAllocator(), dtype, Shape());
  if (!tensor.ok()) throw std::bad_alloc();
  return *std::move(tensor);
}

}  // namespace

absl::StatusOr<Tensor> Tensor::Allocate(Allocator& allocator, DType dtype, const Shape& shape,
                                        Stream* stream) {
  if (!IsKnown(dtype))
    return InvalidArgument("tensor of an unknown dtype: ", static_cast<int>(dtype));
  std::optional<int64_t> bytes =
      CheckedMul(shape.num_elements(), static_cast<int64_t>(DTypeSize(dtype)));
  if (!bytes) {
    return ResourceExhausted("out of memory: tensor too large: dtype=", DTypeName(dtype),
                             " shape=", shape.ToString());
  }
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  const bool objects = dtype == DType::kString || dtype == DType::kVariant;
  if (stream != nullptr && (objects || dtype == DType::kResource)) {
    return Internal("tensor of dtype ", DTypeName(dtype), " is in host memory alone");
  }
  if (!objects && stream == nullptr && *bytes <= static_cast<int64_t>(kInlineBytes)) {
    std::memset(tensor.inline_.bytes, 0, kInlineBytes);
    return tensor;
  }
  absl::StatusOr<BufferBlock*> block = allocator.Allocate(static_cast<size_t>(*bytes), stream);
  if (!block.ok()) {
    return Annotate(block.status(), absl::StrCat("tensor of dtype ", std::string(DTypeName(dtype)),
                                                 " and shape ", shape.ToString()));
  }
  if (dtype == DType::kString) ConstructElements<std::string>(*block, shape.num_elements());
  if (dtype == DType::kVariant) ConstructElements<Variant>(*block, shape.num_elements());
  if (dtype == DType::kResource) std::memset((*block)->data, 0, static_cast<size_t>(*bytes));
  tensor.buffer_ = Buffer(*block);
  return tensor;
}

Tensor Tensor::StringScalar(std::string value) {
  Tensor tensor = ObjectScalar(DType::kString);
  *tensor.mutable_data<std::string>() = std::move(value);
  return tensor;
}

Tensor Tensor::VariantScalar(Variant value) {
  Tensor tensor = ObjectScalar(DType::kVariant);
  *tensor.mutable_data<Variant>() = std::move(value);
  return tensor;
}

absl::StatusOr<Tensor> Tensor::Clone(Allocator& allocator) const {
  FORMWORK_ASSIGN_OR_RETURN(Tensor copy, Allocate(allocator, dtype_, shape_));
  if (dtype_ == DType::kString) {
    ForBlocks(num_elements(), kDearItems, [&](int64_t begin, int64_t end) {
      std::copy(data<std::string>() + begin, data<std::string>() + end,
                copy.mutable_data<std::string>() + begin);
    });
  } else if (dtype_ == DType::kVariant) {
    std::copy_n(data<Variant>(), num_elements(), copy.mutable_data<Variant>());
  } else if (bytes() > 0) {
    const char* from = static_cast<const char*>(raw());
    char* to = static_cast<char*>(copy.mutable_raw());
    ForBlocks(static_cast<int64_t>(bytes()), int64_t{1} << 18, [=](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
  }
  return copy;
}

std::string Tensor::DebugString(int max_elements) const {
  if (!has_value()) return "<no value>";
  std::string text = absl::StrCat(DTypeName(dtype_), shape_.ToString(), " ");
  const int64_t n = std::min<int64_t>(num_elements(), max_elements);
  auto append = [&](auto&& element) {
    for (int64_t i = 0; i < n; ++i) absl::StrAppend(&text, i == 0 ? "" : " ", element(i));
    if (n < num_elements()) absl::StrAppend(&text, " ...");
    return text;
  };
  switch (dtype_) {
    FORMWORK_INTEGER_CASES(return append([&](int64_t i) { return data<T>()[i]; }))
    FORMWORK_FLOAT_CASES(return append([&](int64_t i) { return static_cast<float>(data<T>()[i]); }))
    case DType::kBool:
      return append([&](int64_t i) { return data<bool>()[i] ? "true" : "false"; });
    case DType::kString:
      return append([&](int64_t i) { return data<std::string>()[i].substr(0, 60); });
    default:
      return text;
  }
}

absl::StatusOr<Dims> IntegersOf(const Tensor& tensor, absl::string_view what) {
  Dims values;
  if (tensor.dtype() == DType::kInt32) {
    for (int32_t value : tensor.span<int32_t>()) values.push_back(value);
    return values;
  }
  if (tensor.dtype() == DType::kInt64) {
    for (int64_t value : tensor.span<int64_t>()) values.push_back(value);
    return values;
  }
  if (tensor.dtype() == DType::kInt16) {
    for (int16_t value : tensor.span<int16_t>()) values.push_back(value);
    return values;
  }
  return InvalidArgument(what, " must be int32 or int64, not ", DTypeName(tensor.dtype()));
}

}  // namespace formwork
