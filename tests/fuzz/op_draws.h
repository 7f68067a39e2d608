#pragma once

// What op_fuzzer.cc draws: attrs that the importer would let through, shapes and values.

#include <algorithm>
#include <complex>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/device/host_allocator.h"
#include "core/ops/attr.h"
#include "core/ops/op_def.h"
#include "tests/fuzz/edits.h"
#include "tests/support/op_case.h"

namespace formwork {

/// Of at most some thousand elements; dimensions are small, often 0 or 1.
inline Shape DrawShape(FuzzBytes& bytes) {
  const uint8_t what = bytes.Byte();
  const int rank = what % 32 == 31 ? bytes.Byte() % 12 : what % 5;
  Dims dims;
  int64_t size = 1;
  for (int d = 0; d < rank; ++d) {
    constexpr int64_t kDims[] = {1, 2, 3, 4, 0, 5, 7, 16};
    const int64_t dim = kDims[bytes.Byte() % 8];
    dims.push_back(size * dim > 4096 ? 1 : dim);
    size *= dims.back();
  }
  return *Shape::Make(dims);
}

/// `shape`, or one that differs a little from it.
inline Shape EditedShape(FuzzBytes& bytes, const Shape& shape) {
  Dims dims(shape.dims().begin(), shape.dims().end());
  const uint8_t what = bytes.Byte();
  const size_t at = dims.empty() ? 0 : bytes.Byte() % dims.size();
  switch (what % 6) {
    case 0:
      if (!dims.empty()) dims[at] = bytes.Byte() % 5;
      break;
    case 1:
      dims.insert(dims.begin() + static_cast<int64_t>(at), bytes.Byte() % 3);
      break;
    case 2:
      if (!dims.empty()) dims.erase(dims.begin() + static_cast<int64_t>(at));
      break;
    case 3:
      if (!dims.empty()) std::swap(dims[at], dims[0]);
      break;
    default:
      break;
  }
  const absl::StatusOr<Shape> made = Shape::Make(dims);
  return made.ok() && made->num_elements() <= 1 << 16 ? *made : shape;
}

/// Any but resource: plans move no handles as elements.
inline DType DrawDType(FuzzBytes& bytes) {
  const auto dtype = static_cast<DType>(1 + bytes.Byte() % 30);
  return dtype == DType::kResource ? DType::kFloat : dtype;
}

/// A number of `dtype` at `to`: small, or one at which loops and conversions go wrong.
inline void DrawElement(FuzzBytes& bytes, DType dtype, void* to) {
  const size_t size = DTypeSize(dtype);
  const uint8_t what = bytes.Byte();
  if (dtype == DType::kBool) {
    *static_cast<bool*>(to) = what % 2 == 1;
    return;
  }
  auto store = [&](auto value) { std::memcpy(to, &value, size); };
  if (!IsFloating(dtype) && !IsComplex(dtype)) {
    const uint64_t value =
        what % 4 == 0 ? bytes.Wide() : static_cast<uint64_t>(int64_t{what % 7} - 1);
    std::memcpy(to, &value, size);
    // Sub-byte integers have a byte each, sign and all.
    if (dtype == DType::kInt4) store(static_cast<int8_t>(static_cast<int8_t>(value << 4) >> 4));
    if (dtype == DType::kUint4) store(static_cast<uint8_t>(value & 15));
    return;
  }
  constexpr double kNumbers[] = {0,     -0.0,  1,   -1,    0.5,   2.25, 3, 1e-3, 1e30,
                                 -1e30, 1e-40, 255, -1e10, 65504, 1e5,  7, 1e18, -1e19};
  double number = kNumbers[what % std::size(kNumbers)];
  if (what > 250) number = std::numeric_limits<double>::infinity();
  if (what > 252) number = -number;
  if (what > 253) number = std::numeric_limits<double>::quiet_NaN();
  switch (dtype) {
    case DType::kFloat:
      return store(static_cast<float>(number));
    case DType::kDouble:
      return store(number);
    case DType::kHalf:
      return store(half(static_cast<float>(number)));
    case DType::kBfloat16:
      return store(bfloat16(static_cast<float>(number)));
    case DType::kComplex64:
      return store(std::complex<float>(static_cast<float>(number), 1.0f));
    case DType::kComplex128:
      return store(std::complex<double>(number, -0.5));
    default:
      return store(what);
  }
}

/// Writes over a few elements, or all.
inline void EditElements(FuzzBytes& bytes, Tensor& tensor) {
  const int64_t n = tensor.num_elements();
  if (n == 0) return;
  const size_t size = DTypeSize(tensor.dtype());
  auto* const base = static_cast<char*>(tensor.mutable_raw());
  const uint8_t what = bytes.Byte();
  if (what % 4 == 0) {
    char element[16];
    DrawElement(bytes, tensor.dtype(), element);
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(base + static_cast<size_t>(i) * size, element, size);
  }
  for (int count = what / 4 % 8; count > 0; --count) {
    DrawElement(bytes, tensor.dtype(), base + static_cast<size_t>(bytes.Number() % n) * size);
  }
}

inline std::string DrawString(FuzzBytes& bytes) {
  constexpr const char* kWords[] = {"",       "1",     "-2.5", "a,b,c",        "\xff\xfe",
                                    "(a|b)*", "%s %d", "{}",   "\xe4\xb8\xad", "Zm9v",
                                    "nan",    "NHWC",  "a"};
  const uint8_t what = bytes.Byte();
  if (what % 4 == 0) return bytes.Bytes(bytes.Byte() % 40);
  return kWords[what / 4 % std::size(kWords)];
}

/// As an op case writes it: zeros of plain data, which EditElements changes.
inline testing::ValueText DrawValue(FuzzBytes& bytes, DType dtype, const Shape& shape) {
  testing::ValueText text;
  text.dtype = dtype;
  text.shape = shape;
  if (dtype == DType::kString) {
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      std::string quoted = "\"";
      for (unsigned char c : DrawString(bytes)) {
        absl::StrAppendFormat(&quoted, "\\x%02x", c);
      }
      text.tokens.push_back(quoted + "\"");
    }
    return text;
  }
  if (dtype == DType::kVariant) {
    constexpr const char* kVariants[] = {"(list float shape=[2] (float[2] 1 2) none)",
                                         "(list float (float 1) (float[2] 1 2))",
                                         "(list int32 shape=[?,2] max=3)",
                                         "(list string (string \"a\"))",
                                         "(optional)",
                                         "(optional (float[2] 1 2) (int32 3))"};
    const bool several = shape.rank() == 1 && shape.num_elements() < 4;
    text.shape = several ? shape : Shape();
    for (int64_t i = 0; i < text.shape.num_elements(); ++i) {
      text.tokens.push_back(kVariants[bytes.Byte() % std::size(kVariants)]);
    }
    return text;
  }
  if (dtype == DType::kResource) {
    constexpr const char* kResources[] = {"(variable float[2] 1 2)",
                                          "(variable float[2,3] 1 2 3 4 5 6)",
                                          "(variable shape=[?] float none)",
                                          "(variable int64 3)",
                                          "(variable int64[3] 1 2 3)",
                                          "(variable string[2] \"a\" \"b\")",
                                          "(table string[2] \"a\" \"b\" -> int64[2] 1 2)"};
    text.shape = Shape();
    text.tokens = {kResources[bytes.Byte() % std::size(kResources)]};
    return text;
  }
  text.tokens = {"zeros"};
  return text;
}

namespace draws {

inline PartialShape PartialShapeOf(FuzzBytes& bytes) {
  if (bytes.Byte() % 4 == 0) return PartialShape();
  PartialShape shape = DrawShape(bytes);
  for (int d = 0; d < shape.rank(); ++d) {
    const uint8_t what = bytes.Byte();
    if (what % 8 == 0) shape.set_dim(d, -1);
    if (what % 32 == 1) shape.set_dim(d, static_cast<int64_t>(bytes.Wide() >> 1));
  }
  return shape;
}

inline DType DTypeOfAttr(FuzzBytes& bytes, const AttrDef& attr) {
  if (attr.allowed_types.empty()) {
    constexpr DType kUsual[] = {DType::kFloat, DType::kInt64, DType::kString};
    const uint8_t what = bytes.Byte();
    return what % 2 == 0 ? kUsual[what / 2 % 3] : DrawDType(bytes);
  }
  return attr.allowed_types[bytes.Byte() % attr.allowed_types.size()];
}

inline std::string StringOfAttr(FuzzBytes& bytes, const AttrDef& attr) {
  // Of a composite tensor: a message whose first field is one, whose first is a number.
  if (attr.name == "metadata" && bytes.Byte() % 4 != 0) return "\x0a\x02\x08\x05";
  if (attr.allowed_strings.empty()) return DrawString(bytes);
  return attr.allowed_strings[bytes.Byte() % attr.allowed_strings.size()];
}

inline int64_t IntOf(FuzzBytes& bytes) {
  const uint8_t what = bytes.Byte();
  return what % 4 == 0 ? static_cast<int64_t>(bytes.Wide()) : int64_t{what % 11} - 2;
}

inline float FloatOf(FuzzBytes& bytes) {
  float value;
  DrawElement(bytes, DType::kFloat, &value);
  return value;
}

template <typename T, typename Make>
AttrValue ListOf(FuzzBytes& bytes, const AttrDef& attr, const AttrValue* old, Make make) {
  std::vector<T> values;
  if (old != nullptr && std::holds_alternative<std::vector<T>>(*old)) {
    values = std::get<std::vector<T>>(*old);
  }
  const uint8_t what = bytes.Byte();
  if (values.empty() || what % 3 == 0) {
    const size_t least = static_cast<size_t>(std::max<int64_t>(attr.minimum.value_or(0), 0));
    values.resize(std::max<size_t>(least, what / 4 % 6));
    for (size_t i = 0; i < values.size(); ++i) values[i] = make();
  } else {
    values[bytes.Byte() % values.size()] = make();
  }
  return values;
}

}  // namespace draws

/// A value that the importer would let through; near `old` where that is given.
inline AttrValue DrawAttr(FuzzBytes& bytes, const AttrDef& attr, const AttrValue* old) {
  auto tensor = [&] {
    const DType dtype = static_cast<DType>(1 + bytes.Byte() % 9);
    const auto text = DrawValue(bytes, dtype, DrawShape(bytes));
    return *testing::MakeValue(text, ProcessAllocator());
  };
  switch (attr.kind) {
    case AttrKind::kInt: {
      auto make = [&] { return draws::IntOf(bytes); };
      if (attr.is_list) return draws::ListOf<int64_t>(bytes, attr, old, make);
      return std::max(make(), attr.minimum.value_or(std::numeric_limits<int64_t>::min()));
    }
    case AttrKind::kFloat: {
      auto make = [&] { return draws::FloatOf(bytes); };
      if (attr.is_list) return draws::ListOf<float>(bytes, attr, old, make);
      return make();
    }
    case AttrKind::kBool: {
      auto make = [&] { return bytes.Byte() % 2 == 1; };
      if (attr.is_list) return std::vector<bool>(bytes.Byte() % 4, make());
      return make();
    }
    case AttrKind::kString: {
      auto make = [&] { return draws::StringOfAttr(bytes, attr); };
      if (attr.is_list) return draws::ListOf<std::string>(bytes, attr, old, make);
      return make();
    }
    case AttrKind::kType: {
      auto make = [&] { return draws::DTypeOfAttr(bytes, attr); };
      if (attr.is_list) return draws::ListOf<DType>(bytes, attr, old, make);
      return make();
    }
    case AttrKind::kShape: {
      auto make = [&] { return draws::PartialShapeOf(bytes); };
      if (attr.is_list) return draws::ListOf<PartialShape>(bytes, attr, old, make);
      return make();
    }
    case AttrKind::kTensor:
      if (attr.is_list) return draws::ListOf<Tensor>(bytes, attr, old, tensor);
      return tensor();
    case AttrKind::kFunc:
      break;
  }
  if (attr.is_list) return std::vector<FuncAttr>();
  return FuncAttr();
}

/// Fills in `attrs`: all of them where there are none yet, else draws some anew.
inline void DrawAttrs(FuzzBytes& bytes, const OpDef& op, bool all, AttrMap& attrs) {
  for (const AttrDef& attr : op.attrs) {
    const AttrValue* const old = attrs.Find(attr.name);
    const bool number = std::any_of(op.inputs.begin(), op.inputs.end(), [&](const ArgDef& arg) {
      return arg.number_attr == attr.name;
    });
    const uint8_t what = bytes.Byte();
    if (!all && (number || what % 6 != 0)) continue;
    if (all && attr.default_value && what % 3 != 0) {
      attrs.Set(attr.name, *attr.default_value);
      continue;
    }
    AttrValue value = DrawAttr(bytes, attr, old);
    const bool outputs = std::any_of(op.outputs.begin(), op.outputs.end(), [&](const ArgDef& arg) {
      return arg.number_attr == attr.name;
    });
    if (number || outputs) value = std::max<int64_t>(what % 5, attr.minimum.value_or(0));
    attrs.Set(attr.name, std::move(value));
  }
}

inline std::string AttrText(const AttrValue& value) {
  struct Texts {
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(int64_t x) const { return absl::StrCat(x); }
    std::string operator()(float x) const { return absl::StrCat(x); }
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(const std::string& x) const { return absl::StrCat("\"", x, "\""); }
    std::string operator()(DType x) const { return std::string(DTypeName(x)); }
    std::string operator()(const PartialShape& x) const { return x.ToString(); }
    std::string operator()(const Tensor& x) const { return x.DebugString(16); }
    std::string operator()(const FuncAttr& x) const { return absl::StrCat("@", x.name); }
  };
  return std::visit(
      [](const auto& x) -> std::string {
        if constexpr (requires { Texts()(x); }) {
          return Texts()(x);
        } else {
          std::string text = "[";
          for (size_t i = 0; i < x.size(); ++i) {
            absl::StrAppend(&text, i == 0 ? "" : ", ", Texts()(x[i]));
          }
          return text + "]";
        }
      },
      value);
}

}  // namespace formwork
