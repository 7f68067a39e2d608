#pragma once

// Tensor: the one thing that flows along an edge. Scalars and small vectors live inside it without
// any allocation; lists, optionals and datasets are elements of dtype variant; handles of resources
// are elements of dtype resource.

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include "absl/strings/string_view.h"

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace formwork {

/// An element of dtype variant. Shared; a kernel may change one in place only where it is the only
/// holder (use_count() == 1).
class VariantObject {
 public:
  virtual ~VariantObject() = default;
  virtual absl::string_view type_name() const = 0;
  int nesting = 0;  ///< How deep variants hold variants below this one; bounded by who makes them.
};
using Variant = std::shared_ptr<VariantObject>;

/// An element of dtype resource: the resource's stable ID. 0 is no resource.
struct ResourceHandle {
  uint64_t id = 0;
};

template <>
struct DTypeOf<ResourceHandle> {
  static constexpr DType value = DType::kResource;
};
template <>
struct DTypeOf<Variant> {
  static constexpr DType value = DType::kVariant;
};

/// A dense value: dtype, shape and elements, row-major. Copying shares the elements (small values
/// are copied); a Tensor that is shared is not written to. As thread-safe as shared_ptr.
class Tensor {
 public:
  /// Plain data of at most this many bytes is held inside the object.
  static constexpr size_t kInlineBytes = 32;

  Tensor() = default;  ///< No value: dtype kInvalid.

  /// Elements of plain data are uninitialised; strings are empty; variants are null; handles 0.
  /// `stream`: of the allocator's device, for plain data that work enqueued there writes, handles
  /// aside; always in a buffer.
  /// Errors: the allocator's; kResourceExhausted if the size overflows.
  static absl::StatusOr<Tensor> Allocate(Allocator& allocator, DType dtype, const Shape& shape,
                                         Stream* stream = nullptr);

  /// Plain data that `buffer`, of as many bytes, holds. The host reads no elements of what is of a
  /// device, only dtype and shape.
  static Tensor OfBuffer(DType dtype, const Shape& shape, Buffer buffer) {
    Tensor tensor;
    tensor.dtype_ = dtype;
    tensor.shape_ = shape;
    tensor.buffer_ = std::move(buffer);
    return tensor;
  }
  /// A shape without elements, for those who look at the shape alone. Not to be read or written.
  static Tensor ShapeOnly(DType dtype, const Shape& shape) {
    Tensor tensor;
    tensor.dtype_ = dtype;
    tensor.shape_ = shape;
    return tensor;
  }
  /// A scalar of plain data; no allocation.
  template <typename T>
  static Tensor Scalar(T value) {
    static_assert(sizeof(T) <= kInlineBytes);
    Tensor tensor;
    tensor.dtype_ = DTypeOf<T>::value;
    std::memcpy(tensor.inline_.bytes, &value, sizeof(T));
    return tensor;
  }
  /// A scalar string or variant of the process's allocator. Throws as operator new does.
  static Tensor StringScalar(std::string value);
  static Tensor VariantScalar(Variant value);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_.dim(i); }
  int64_t num_elements() const { return shape_.num_elements(); }
  bool has_value() const { return dtype_ != DType::kInvalid; }
  /// num_elements() times the element's size; strings count their object, not their text.
  size_t bytes() const { return static_cast<size_t>(num_elements()) * DTypeSize(dtype_); }

  const void* raw() const { return buffer_ ? buffer_.data() : inline_.bytes; }
  /// Only for the sole holder: a Tensor just allocated, or one for which unique() holds.
  void* mutable_raw() { return buffer_ ? buffer_.data() : inline_.bytes; }

  template <typename T>
  const T* data() const {
    return static_cast<const T*>(raw());
  }
  template <typename T>
  T* mutable_data() {
    return static_cast<T*>(mutable_raw());
  }
  template <typename T>
  absl::Span<const T> span() const {
    return absl::MakeConstSpan(data<T>(), static_cast<size_t>(num_elements()));
  }
  template <typename T>
  absl::Span<T> mutable_span() {
    return absl::MakeSpan(mutable_data<T>(), static_cast<size_t>(num_elements()));
  }
  /// The value of a one-element tensor of that type.
  template <typename T>
  const T& scalar() const {
    return *data<T>();
  }

  /// True where nobody else holds the elements, so that they may be written in place.
  bool unique() const { return !buffer_ || buffer_.unique(); }
  /// The same elements under another shape of as many elements.
  Tensor Reshaped(const Shape& shape) const& {
    Tensor copy = *this;
    copy.shape_ = shape;
    return copy;
  }
  Tensor Reshaped(const Shape& shape) && {
    shape_ = shape;
    return std::move(*this);
  }
  /// The same bits as another dtype of the same element size (plain data).
  Tensor Recast(DType dtype) && {
    dtype_ = dtype;
    return std::move(*this);
  }
  /// A copy that shares nothing at this level (variants are shared still).
  absl::StatusOr<Tensor> Clone(Allocator& allocator) const;

  /// Makes this tensor one of plain data held inside, elements uninitialised. False (and nothing
  /// done) where they do not fit inside.
  bool ResetInside(DType dtype, const Shape& shape) {
    if (!IsPlainData(dtype) || shape.num_elements() > static_cast<int64_t>(kInlineBytes) ||
        static_cast<size_t>(shape.num_elements()) * DTypeSize(dtype) > kInlineBytes) {
      return false;
    }
    buffer_.Reset();
    dtype_ = dtype;
    shape_ = shape;
    return true;
  }

  /// Lets go of the elements; what is left is not to be read.
  void Drop() { buffer_.Reset(); }

  bool on_device() const { return buffer_.on_device(); }  ///< And not in host memory.
  const Buffer& buffer() const { return buffer_; }        ///< Empty where the elements are inside.
  std::string DebugString(int max_elements = 8) const;

 private:
  // A struct, because gcc copies a bare array of bytes one by one.
  struct alignas(16) InlineBytes {
    unsigned char bytes[kInlineBytes];
  };

  DType dtype_ = DType::kInvalid;
  Shape shape_;
  Buffer buffer_;
  InlineBytes inline_;
};

/// Integers of an int32 or int64 tensor (a shape, axes, sizes) as int64.
/// Errors: kInvalidArgument if it has another dtype.
absl::StatusOr<Dims> IntegersOf(const Tensor& tensor, absl::string_view what);

/// A list of tensors as TensorFlow's TensorList: elements may be unset.
class TensorList final : public VariantObject {
 public:
  absl::string_view type_name() const override { return "tensorflow::TensorList"; }
  DType element_dtype = DType::kInvalid;
  PartialShape element_shape;
  int max_num_elements = -1;
  std::vector<Tensor> items;  ///< An unset item has no value.
};

}  // namespace formwork
