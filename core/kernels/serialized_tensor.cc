#include "core/kernels/serialized_tensor.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/wire_format.h"
#include "core/ops/graph_dtype.h"

namespace formwork {
namespace {

// Fields of TensorProto.
constexpr uint32_t kDType = 1, kShape = 2, kContent = 4, kHalves = 13, kFloats = 5, kDoubles = 6,
                   kInts = 7, kStrings = 8, kComplex64s = 9, kInt64s = 10, kBools = 11,
                   kComplex128s = 12, kUint32s = 16, kUint64s = 17, kFloat8s = 18;

std::string ShapeProto(const Shape& shape) {
  std::string proto;
  for (int64_t dim : shape.dims()) {
    std::string size;
    if (dim != 0) {
      size += '\x08';
      AppendVarint(static_cast<uint64_t>(dim), size);
    }
    AppendBytes(2, size, proto);
  }
  return proto;
}

// The field that has elements of `dtype` one by one; 0 for none.
uint32_t ValuesField(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return kFloats;
    case DType::kDouble:
      return kDoubles;
    case DType::kInt64:
      return kInt64s;
    case DType::kUint64:
      return kUint64s;
    case DType::kUint32:
      return kUint32s;
    case DType::kBool:
      return kBools;
    case DType::kString:
      return kStrings;
    case DType::kHalf:
    case DType::kBfloat16:
      return kHalves;
    case DType::kComplex64:
      return kComplex64s;
    case DType::kComplex128:
      return kComplex128s;
    default:
      return IsFloating(dtype) ? kFloat8s : IsPlainData(dtype) ? kInts : 0;
  }
}

// A TensorProto, not decoded yet; its elements by one of three ways.
struct TensorFields {
  DType dtype = DType::kInvalid;
  Dims dims;
  absl::string_view content;
  std::string values;                      // Those of plain data that stand one by one, as bytes.
  std::vector<absl::string_view> strings;  // And strings.
};

bool ReadShape(absl::string_view message, Dims& dims) {
  WireReader reader(message);
  WireField field;
  while (!reader.done()) {
    if (!reader.Next(field)) return false;
    if (field.number == 3 && field.type == kVarint && field.varint != 0) return false;  // No rank.
    if (field.number != 2 || field.type != kBytes) continue;
    int64_t size = 0;
    WireReader dim(field.bytes);
    WireField part;
    while (!dim.done()) {
      if (!dim.Next(part)) return false;
      if (part.number == 1 && part.type == kVarint) size = static_cast<int64_t>(part.varint);
    }
    dims.push_back(size);
  }
  return true;
}

// Appends a field's elements of `width` bytes: fixed numbers, or varints, alone or packed.
bool AppendValues(const WireField& field, bool fixed, size_t width, std::string& values) {
  auto append = [&](uint64_t varint) {
    values.append(reinterpret_cast<const char*>(&varint), width);
  };
  if (fixed) {
    values.append(field.bytes.data(), field.bytes.size());
    return field.type != kVarint;
  }
  if (field.type == kVarint) {
    append(field.varint);
    return true;
  }
  if (field.type != kBytes) return false;
  WireReader packed(field.bytes);
  while (!packed.done()) {
    uint64_t value;
    if (!packed.Varint(value)) return false;
    append(value);
  }
  return true;
}

bool ReadFields(absl::string_view bytes, TensorFields& fields) {
  // The dtype comes first, but need not.
  WireField field;
  for (WireReader reader(bytes); !reader.done();) {
    if (!reader.Next(field)) return false;
    if (field.number == kDType && field.type == kVarint && field.varint < 100) {
      fields.dtype = static_cast<DType>(field.varint);
    }
  }
  if (!IsKnown(fields.dtype)) return false;
  const uint32_t values = ValuesField(fields.dtype);
  const bool fixed = values == kFloats || values == kDoubles || values == kComplex64s ||
                     values == kComplex128s || values == kFloat8s;
  for (WireReader reader(bytes); !reader.done();) {
    if (!reader.Next(field)) return false;
    if (field.number == kShape && field.type == kBytes) {
      if (!ReadShape(field.bytes, fields.dims)) return false;
    } else if (field.number == kContent && field.type == kBytes) {
      fields.content = field.bytes;
    } else if (field.number == values && values == kStrings) {
      if (field.type != kBytes) return false;
      fields.strings.push_back(field.bytes);
    } else if (field.number == values && values != 0) {
      if (!AppendValues(field, fixed, DTypeSize(fields.dtype), fields.values)) return false;
    }
  }
  return true;
}

// Lengths, then bytes. False where these are not the strings of `out`.
bool ReadStrings(absl::string_view content, Tensor& out) {
  std::vector<uint64_t> sizes(static_cast<size_t>(out.num_elements()));
  WireReader reader(content);
  for (uint64_t& size : sizes) {
    if (!reader.Varint(size)) return false;
  }
  std::string* to = out.mutable_data<std::string>();
  for (uint64_t size : sizes) {
    absl::string_view bytes;
    if (!reader.Take(size, bytes)) return false;
    *to++ = std::string(bytes);
  }
  return reader.done();
}

// Of fewer values than elements the last is that of all others.
template <typename E>
void Spread(const E* values, int64_t count, Tensor& out) {
  const int64_t n = out.num_elements();
  E* const to = static_cast<E*>(out.mutable_raw());
  std::copy_n(values, std::min(count, n), to);
  const E last = count > 0 ? values[count - 1] : E();
  ForBlocks(n - std::min(count, n), 1 << 16, [&](int64_t begin, int64_t end) {
    std::fill(to + std::min(count, n) + begin, to + std::min(count, n) + end, last);
  });
}

absl::Status NoTensor() { return InvalidArgument("Cannot parse tensor from proto"); }

}  // namespace

absl::StatusOr<std::string> SerializedTensor(const Tensor& tensor, StringsAs strings) {
  const bool plain = IsPlainData(tensor.dtype());
  if (!plain && tensor.dtype() != DType::kString) {
    return InvalidArgument("a tensor of dtype ", DTypeName(tensor.dtype()),
                           " has no serialized form");
  }
  std::string proto = "\x08";
  AppendVarint(static_cast<uint64_t>(tensor.dtype()), proto);
  AppendBytes(kShape, ShapeProto(tensor.shape()), proto);
  if (tensor.num_elements() == 0) return proto;
  if (plain) {
    AppendBytes(kContent, {static_cast<const char*>(tensor.raw()), tensor.bytes()}, proto);
    return proto;
  }
  if (strings == StringsAs::kValues) {
    for (const std::string& text : tensor.span<std::string>()) AppendBytes(kStrings, text, proto);
    return proto;
  }
  std::string content;
  for (const std::string& text : tensor.span<std::string>()) AppendVarint(text.size(), content);
  for (const std::string& text : tensor.span<std::string>()) content += text;
  AppendBytes(kContent, content, proto);
  return proto;
}

absl::StatusOr<Tensor> ParseSerializedTensor(absl::string_view bytes, Allocator& allocator) {
  TensorFields fields;
  if (!ReadFields(bytes, fields) || ValuesField(fields.dtype) == 0) return NoTensor();
  const absl::StatusOr<Shape> shape = Shape::Make(fields.dims);
  if (!shape.ok()) return NoTensor();
  const bool strings = fields.dtype == DType::kString;
  // Of strings each length takes a byte at least: no more memory is taken than was sent for.
  if (!fields.content.empty()) {
    const int64_t width = strings ? 1 : static_cast<int64_t>(DTypeSize(fields.dtype));
    const int64_t size = static_cast<int64_t>(fields.content.size());
    if (strings ? shape->num_elements() > size
                : size % width != 0 || shape->num_elements() != size / width) {
      return NoTensor();
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(allocator, fields.dtype, *shape));
  if (!fields.content.empty()) {
    if (!strings) {
      std::memcpy(out.mutable_raw(), fields.content.data(), fields.content.size());
    } else if (!ReadStrings(fields.content, out)) {
      return NoTensor();
    }
  } else if (strings) {
    std::vector<std::string> values(fields.strings.begin(), fields.strings.end());
    Spread(values.data(), static_cast<int64_t>(values.size()), out);
  } else {
    const size_t width = DTypeSize(fields.dtype);
    if (fields.values.size() % width != 0) return NoTensor();
    ByElement(fields.dtype, [&](auto tag) {
      using E = typename decltype(tag)::type;
      Spread(reinterpret_cast<const E*>(fields.values.data()),
             static_cast<int64_t>(fields.values.size() / width), out);
    });
  }
  if (fields.dtype == DType::kBool) {
    for (uint8_t& value : absl::MakeSpan(static_cast<uint8_t*>(out.mutable_raw()), out.bytes())) {
      value = value != 0;
    }
  }
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  return out;
}

}  // namespace formwork
