#include "core/kernels/format_tensor.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

// The float8 kinds and the small integers have no C++ type of their own here.
float Float8Value(DType dtype, uint8_t bits) {
  const int sign = bits >> 7;
  const bool e5m2 = dtype == DType::kFloat8E5m2 || dtype == DType::kFloat8E5m2fnuz;
  const bool finite_zero =
      dtype == DType::kFloat8E4m3fnuz || dtype == DType::kFloat8E5m2fnuz ||
      dtype == DType::kFloat8E4m3b11fnuz;  // No negative zero: 0x80 is the only NaN.
  const int mantissa_bits = e5m2 ? 2 : 3;
  int bias = e5m2 ? 15 : 7;
  if (dtype == DType::kFloat8E4m3b11fnuz) {
    bias = 11;
  } else if (finite_zero) {
    ++bias;
  }
  const int exponent = (bits & 0x7f) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  if (finite_zero && bits == 0x80) return NAN;
  if (dtype == DType::kFloat8E5m2 && exponent == 31) {
    return mantissa != 0 ? NAN : (sign != 0 ? -INFINITY : INFINITY);
  }
  if (dtype == DType::kFloat8E4m3fn && (bits & 0x7f) == 0x7f) return NAN;
  const float fraction = std::ldexp(static_cast<float>(mantissa), -mantissa_bits);
  const float magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0f + fraction, exponent - bias);
  return sign != 0 ? -magnitude : magnitude;
}

// Appends one element. A function per dtype, so that the walk over the dimensions is one.
using AppendElement = void (*)(const Tensor& tensor, int64_t i, TensorTextStyle style,
                               std::string* out);

template <typename T>
void AppendInteger(const Tensor& tensor, int64_t i, TensorTextStyle, std::string* out) {
  absl::StrAppend(out, static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(
                           tensor.data<T>()[i]));
}

template <typename T>
void AppendFloating(const Tensor& tensor, int64_t i, TensorTextStyle, std::string* out) {
  absl::StrAppend(out, FormatFloat(static_cast<float>(tensor.data<T>()[i])));
}

void AppendDouble(const Tensor& tensor, int64_t i, TensorTextStyle, std::string* out) {
  absl::StrAppend(out, FormatDouble(tensor.data<double>()[i]));
}

void AppendFloat8(const Tensor& tensor, int64_t i, TensorTextStyle, std::string* out) {
  absl::StrAppend(out, FormatFloat(Float8Value(tensor.dtype(), tensor.data<uint8_t>()[i])));
}

void AppendString(const Tensor& tensor, int64_t i, TensorTextStyle style, std::string* out) {
  const std::string text = absl::Utf8SafeCEscape(tensor.data<std::string>()[i]);
  if (style == TensorTextStyle::kEnds) {
    absl::StrAppend(out, "\"", text, "\"");
  } else {
    absl::StrAppend(out, text);
  }
}

// Null for the dtypes that TensorFlow does not walk by dimension.
AppendElement ElementAppender(DType dtype) {
  switch (dtype) {
    FORMWORK_INTEGER_CASES(return &AppendInteger<T>)
    case DType::kQint8:
    case DType::kInt4:
    case DType::kInt2:
      return &AppendInteger<int8_t>;
    case DType::kQuint8:
    case DType::kUint4:
    case DType::kUint2:
      return &AppendInteger<uint8_t>;
    case DType::kQint16:
      return &AppendInteger<int16_t>;
    case DType::kQuint16:
      return &AppendInteger<uint16_t>;
    case DType::kBool:  // 1 and 0, as TensorFlow.
      return &AppendInteger<uint8_t>;
    case DType::kFloat:
      return &AppendFloating<float>;
    case DType::kHalf:
      return &AppendFloating<half>;
    case DType::kBfloat16:
      return &AppendFloating<bfloat16>;
    case DType::kDouble:
      return &AppendDouble;
    case DType::kFloat8E5m2:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E4m3b11fnuz:
    case DType::kFloat8E5m2fnuz:
      return &AppendFloat8;
    case DType::kString:
      return &AppendString;
    default:
      return nullptr;
  }
}

class Writer {
 public:
  Writer(const Tensor& tensor, AppendElement append, TensorTextStyle style)
      : tensor_(tensor), append_(append), style_(style) {}

  // The first `limit` entries, a bracket per inner dimension.
  void WriteFirst(int dim, int64_t limit) {
    if (next_ >= limit || full()) return;
    const int64_t count = tensor_.dim(dim);
    if (dim == tensor_.rank() - 1) {
      for (int64_t i = 0; i < count; ++i) {
        if (next_ >= limit) {
          if (dim != 0) text_ += "...";
          return;
        }
        if (full()) return;
        if (i > 0) text_ += ' ';
        append_(tensor_, next_++, style_, &text_);
      }
      return;
    }
    for (int64_t i = 0; i < count && next_ < limit && !full(); ++i) {
      text_ += '[';
      WriteFirst(dim + 1, limit);
      text_ += ']';
    }
  }

  // `ends` entries from each end of every dimension.
  void WriteEnds(int dim, int64_t ends, int64_t index) {
    if (full()) return;
    if (dim == tensor_.rank()) {
      append_(tensor_, index, style_, &text_);
      return;
    }
    text_ += '[';
    const int64_t count = tensor_.dim(dim);
    // With no entries to print (an empty tensor) the product may overflow: it is not used.
    int64_t stride = 1;
    for (int i = dim + 1; i < tensor_.rank() && ends > 0; ++i) stride *= tensor_.dim(i);
    for (int64_t i = 0; i < ends && i < count && !full(); ++i) {
      if (i > 0) WriteSpacing(dim);
      WriteEnds(dim + 1, ends, index + stride * i);
    }
    if (count > 2 * ends) {
      WriteSpacing(dim);
      text_ += "...";
    }
    for (int64_t i = std::max(ends, count - ends); i < count && !full(); ++i) {
      WriteSpacing(dim);
      WriteEnds(dim + 1, ends, index + stride * i);
    }
    text_ += ']';
  }

  void WriteScalar(bool cut) {
    if (cut) {
      text_ += "...";
    } else {
      append_(tensor_, 0, style_, &text_);
    }
  }

  /// Nothing is added any more: the text is too long, or nobody waits for it.
  bool full() {
    if (++looks_ % kDearItems == 0 && WorkIsCut()) cut_ = true;
    return cut_ || too_long();
  }
  bool too_long() const { return static_cast<int64_t>(text_.size()) > kMaxTextBytes; }
  std::string& text() { return text_; }

 private:
  void WriteSpacing(int dim) {
    if (dim == tensor_.rank() - 1) {
      text_ += ' ';
      return;
    }
    text_.append(tensor_.rank() - dim - 1, '\n');
    text_.append(dim + 1, ' ');
  }

  const Tensor& tensor_;
  const AppendElement append_;
  const TensorTextStyle style_;
  int64_t next_ = 0;
  int64_t looks_ = 0;
  bool cut_ = false;
  std::string text_;
};

// Variants, handles and what TensorFlow prints as "?".
std::string FormatOpaque(const Tensor& tensor, int64_t limit, TensorTextStyle style) {
  const bool brackets = style == TensorTextStyle::kEnds && tensor.rank() > 0;
  std::string text = brackets ? "[" : "";
  for (int64_t i = 0; i < limit && static_cast<int64_t>(text.size()) <= kMaxTextBytes; ++i) {
    if (WorkIsCutAt(i, kDearItems)) break;
    if (i > 0) text += ' ';
    if (tensor.dtype() == DType::kVariant) {
      const Variant& variant = tensor.data<Variant>()[i];
      absl::string_view name = variant == nullptr ? "INVALID" : variant->type_name();
      const size_t colon = name.rfind(':');
      if (colon != absl::string_view::npos) name.remove_prefix(colon + 1);
      absl::StrAppend(&text, "<", name, ">");
    } else if (tensor.dtype() == DType::kResource) {
      absl::StrAppend(&text, "<ResourceHandle(id=", tensor.data<ResourceHandle>()[i].id, ")>");
    } else {
      text += '?';
    }
  }
  if (limit < tensor.num_elements()) text += "...";
  if (brackets) text += ']';
  return text;
}

}  // namespace

absl::StatusOr<std::string> FormatTensor(const Tensor& tensor, int64_t max_entries,
                                         TensorTextStyle style) {
  const int64_t n = tensor.num_elements();
  const int64_t limit = max_entries < 0 ? n : std::min(max_entries, n);
  const AppendElement append = ElementAppender(tensor.dtype());
  if (append == nullptr) return FormatOpaque(tensor, limit, style);
  Writer writer(tensor, append, style);
  if (tensor.rank() == 0) {
    writer.WriteScalar(/*cut=*/limit == 0);
  } else if (style == TensorTextStyle::kEnds) {
    writer.WriteEnds(0, limit, 0);
  } else {
    writer.WriteFirst(0, limit);
    if (n > limit) writer.text() += "...";
  }
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (writer.too_long()) {
    return ResourceExhausted("text of a tensor is too long: shape=", tensor.shape().ToString(),
                             " limit=", kMaxTextBytes);
  }
  return std::move(writer.text());
}

std::string FormatFloat(float value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.*g", FLT_DIG, static_cast<double>(value));
  if (std::strtof(buffer, nullptr) != value) {
    std::snprintf(buffer, sizeof(buffer), "%.*g", FLT_DIG + 3, static_cast<double>(value));
  }
  return buffer;
}

std::string FormatDouble(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.*g", DBL_DIG, value);
  if (std::strtod(buffer, nullptr) != value) {
    std::snprintf(buffer, sizeof(buffer), "%.*g", DBL_DIG + 2, value);
  }
  return buffer;
}

}  // namespace formwork
