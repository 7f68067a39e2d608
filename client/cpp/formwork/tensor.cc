#include "formwork/tensor.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

namespace formwork::client {
namespace {

namespace tf = formwork::tf;

struct NamedType {
  const char* name;
  DataType dtype;
};

// Names that are not the lower case of the enum's.
constexpr NamedType kNames[] = {
    {"float32", tf::DT_FLOAT}, {"float64", tf::DT_DOUBLE}, {"float16", tf::DT_HALF},
    {"float", tf::DT_FLOAT},   {"double", tf::DT_DOUBLE},  {"half", tf::DT_HALF},
};

MessageSlices Hold(grpc::Slice slice) {
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  slices->push_back(std::move(slice));
  return slices;
}

}  // namespace

std::string DataTypeName(DataType dtype) {
  for (const NamedType& named : kNames) {
    if (named.dtype == dtype) return named.name;
  }
  std::string name = tf::DataType_Name(dtype);
  if (name.size() <= 3) return "unknown";
  name.erase(0, 3);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

DataType DataTypeFromName(absl::string_view name) {
  for (const NamedType& named : kNames) {
    if (name == named.name) return named.dtype;
  }
  std::string text = "DT_";
  for (char c : name) text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  DataType dtype;
  return tf::DataType_Parse(text, &dtype) ? dtype : tf::DT_INVALID;
}

size_t DataTypeSize(DataType dtype) {
  switch (dtype) {
    case tf::DT_INVALID:
    case tf::DT_STRING:
    case tf::DT_RESOURCE:
    case tf::DT_VARIANT:
      return 0;
    case tf::DT_COMPLEX128:
      return 16;
    case tf::DT_DOUBLE:
    case tf::DT_INT64:
    case tf::DT_UINT64:
    case tf::DT_COMPLEX64:
      return 8;
    case tf::DT_FLOAT:
    case tf::DT_INT32:
    case tf::DT_UINT32:
    case tf::DT_QINT32:
      return 4;
    case tf::DT_INT16:
    case tf::DT_UINT16:
    case tf::DT_QINT16:
    case tf::DT_QUINT16:
    case tf::DT_HALF:
    case tf::DT_BFLOAT16:
      return 2;
    default:
      return 1;  // 8 bits, and the sub-byte types, which travel as bytes.
  }
}

Tensor::Tensor(DataType dtype, std::vector<int64_t> dims, std::string content)
    : dtype_(dtype), dims_(std::move(dims)), bytes_(content.size()) {
  auto* held = new std::string(std::move(content));
  slices_ = Hold(grpc::Slice(
      held->data(), held->size(), [](void* text) { delete static_cast<std::string*>(text); },
      held));
}

Tensor Tensor::OfStrings(std::vector<int64_t> dims, const std::vector<std::string>& values) {
  std::string content;
  for (const std::string& value : values) {
    const uint32_t length = static_cast<uint32_t>(value.size());
    content.append(reinterpret_cast<const char*>(&length), sizeof(length));
    content += value;
  }
  return Tensor(tf::DT_STRING, std::move(dims), std::move(content));
}

Tensor Tensor::Borrowed(DataType dtype, std::vector<int64_t> dims, const void* data, size_t bytes) {
  return Received(dtype, std::move(dims), Hold(grpc::Slice(data, bytes, grpc::Slice::STATIC_SLICE)),
                  0, bytes);
}

Tensor Tensor::Received(DataType dtype, std::vector<int64_t> dims, MessageSlices message,
                        size_t offset, size_t bytes) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.dims_ = std::move(dims);
  tensor.slices_ = std::move(message);
  tensor.offset_ = offset;
  tensor.bytes_ = bytes;
  return tensor;
}

std::optional<int64_t> Tensor::num_elements() const {
  int64_t n = 1;
  for (int64_t dim : dims_) {
    if (dim < 0 || __builtin_mul_overflow(n, dim, &n)) return std::nullopt;
  }
  return n;
}

std::vector<grpc::Slice> Tensor::Pieces() const {
  std::vector<grpc::Slice> pieces;
  size_t skip = offset_;
  size_t left = bytes_;
  if (slices_ == nullptr) return pieces;
  for (const grpc::Slice& slice : *slices_) {
    if (left == 0) break;
    if (skip >= slice.size()) {
      skip -= slice.size();
      continue;
    }
    const size_t n = std::min(left, slice.size() - skip);
    pieces.push_back(slice.sub(skip, skip + n));
    left -= n;
    skip = 0;
  }
  return pieces;
}

void Tensor::CopyTo(void* out) const {
  char* to = static_cast<char*>(out);
  for (const grpc::Slice& piece : Pieces()) {
    std::memcpy(to, piece.begin(), piece.size());
    to += piece.size();
  }
}

std::string Tensor::Content() const {
  std::string content(bytes_, '\0');
  CopyTo(content.data());
  return content;
}

std::optional<std::vector<std::string>> Tensor::Strings() const {
  const std::string content = Content();
  std::vector<std::string> strings;
  size_t at = 0;
  while (at < content.size()) {
    uint32_t length;
    if (content.size() - at < sizeof(length)) return std::nullopt;
    std::memcpy(&length, content.data() + at, sizeof(length));
    at += sizeof(length);
    if (content.size() - at < length) return std::nullopt;
    strings.push_back(content.substr(at, length));
    at += length;
  }
  return strings;
}

}  // namespace formwork::client
