#pragma once

// Values that a C++ client sends and gets.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "formwork/tf/types.pb.h"
#include "grpcpp/support/slice.h"

namespace formwork::client {

using DataType = formwork::tf::DataType;

/// TensorFlow's name: "float32", "int64", "string", ...
std::string DataTypeName(DataType dtype);
/// The reverse; also takes graph names ("float", "half", "double"). DT_INVALID where unknown.
DataType DataTypeFromName(absl::string_view name);
/// Bytes of an element on the wire; 0 for strings and for what cannot travel.
size_t DataTypeSize(DataType dtype);

template <typename T>
struct DataTypeOf;
#define FORMWORK_CLIENT_DTYPE(cpp, dtype)                  \
  template <>                                              \
  struct DataTypeOf<cpp> {                                 \
    static constexpr DataType value = formwork::tf::dtype; \
  }
FORMWORK_CLIENT_DTYPE(float, DT_FLOAT);
FORMWORK_CLIENT_DTYPE(double, DT_DOUBLE);
FORMWORK_CLIENT_DTYPE(int8_t, DT_INT8);
FORMWORK_CLIENT_DTYPE(int16_t, DT_INT16);
FORMWORK_CLIENT_DTYPE(int32_t, DT_INT32);
FORMWORK_CLIENT_DTYPE(int64_t, DT_INT64);
FORMWORK_CLIENT_DTYPE(uint8_t, DT_UINT8);
FORMWORK_CLIENT_DTYPE(uint16_t, DT_UINT16);
FORMWORK_CLIENT_DTYPE(uint32_t, DT_UINT32);
FORMWORK_CLIENT_DTYPE(uint64_t, DT_UINT64);
FORMWORK_CLIENT_DTYPE(bool, DT_BOOL);
#undef FORMWORK_CLIENT_DTYPE

/// The bytes of a received message, shared by the tensors in it.
using MessageSlices = std::shared_ptr<const std::vector<grpc::Slice>>;

/// A dense value: dtype, dims and its bytes, row-major. Copies share the bytes. Const methods may
/// be called from several threads at once.
class Tensor {
 public:
  Tensor() = default;  ///< No value: dtype DT_INVALID.
  /// Takes over `content`: little-endian elements; for strings, each with its length before it.
  Tensor(DataType dtype, std::vector<int64_t> dims, std::string content);
  /// Copies `values`, as many as `dims` say.
  template <typename T>
  static Tensor Of(std::vector<int64_t> dims, const std::vector<T>& values) {
    return Tensor(
        DataTypeOf<T>::value, std::move(dims),
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }
  template <typename T>
  static Tensor Scalar(T value) {
    return Of<T>({}, {value});
  }
  static Tensor OfStrings(std::vector<int64_t> dims, const std::vector<std::string>& values);
  /// Borrows `bytes` bytes at `data`, which must stay until nothing uses this or a copy any more.
  static Tensor Borrowed(DataType dtype, std::vector<int64_t> dims, const void* data, size_t bytes);
  /// The bytes [offset, offset + bytes) of a message.
  static Tensor Received(DataType dtype, std::vector<int64_t> dims, MessageSlices message,
                         size_t offset, size_t bytes);

  bool has_value() const { return dtype_ != formwork::tf::DT_INVALID; }
  DataType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  size_t bytes() const { return bytes_; }
  /// 1 for a scalar; nullopt where the dims make no sense.
  std::optional<int64_t> num_elements() const;

  /// Copies all bytes() to `out`.
  void CopyTo(void* out) const;
  std::string Content() const;
  /// The pieces that the bytes lie in, shared, not copied.
  std::vector<grpc::Slice> Pieces() const;
  /// The elements of a string tensor; nullopt where the bytes are malformed.
  std::optional<std::vector<std::string>> Strings() const;

 private:
  DataType dtype_ = formwork::tf::DT_INVALID;
  std::vector<int64_t> dims_;
  MessageSlices slices_;
  size_t offset_ = 0;
  size_t bytes_ = 0;
};

}  // namespace formwork::client
