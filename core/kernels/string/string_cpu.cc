// Strings: joining, formatting, cutting, case.

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/format_tensor.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/string/string_cpu.h"
#include "core/kernels/string/text.h"
#include "core/ops/string.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeStringJoin(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(std::string separator, init.attrs().Get<std::string>("separator"));
  return KernelFn([separator = std::move(separator)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareStringJoin(ctx.num_inputs(), [&](int i) {
                                return ctx.input(i).shape().dims();
                              }));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, DType::kString, shape));
    int64_t total = 0;
    TextLooks looks;
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      std::string& text = output->mutable_data<std::string>()[i];
      for (int k = 0; k < ctx.num_inputs(); ++k) {
        if (k > 0) text += separator;
        const Tensor& input = ctx.input(k);
        const std::string& part = input.data<std::string>()[input.rank() == 0 ? 0 : i];
        if (looks.CutBefore(part.size())) return WorkStatus();
        text += part;
        FORMWORK_RETURN_IF_ERROR(CheckTextSize(total + static_cast<int64_t>(text.size())));
      }
      total += static_cast<int64_t>(text.size());
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeStringFormat(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(StringFormatAttrs attrs,
                            StringFormatAttrs::FromAttrs(init.attrs(), init.input_dtypes().size()));
  return KernelFn([attrs = std::move(attrs)](KernelContext& ctx) -> absl::Status {
    std::string text = attrs.pieces[0];
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      FORMWORK_ASSIGN_OR_RETURN(
          std::string values, FormatTensor(ctx.input(i), attrs.summarize, TensorTextStyle::kEnds));
      absl::StrAppend(&text, values, attrs.pieces[i + 1]);
      FORMWORK_RETURN_IF_ERROR(CheckTextSize(static_cast<int64_t>(text.size())));
    }
    ctx.SetOutput(0, Tensor::StringScalar(std::move(text)));
    return absl::OkStatus();
  });
}

// printf with a format that AsString built from checked attrs.
__attribute__((format(printf, 2, 0))) void Print(std::string* out, const char* form, ...) {
  char small[128];
  va_list args;
  va_start(args, form);
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(small, sizeof(small), form, args);
  va_end(args);
  if (length >= 0 && static_cast<size_t>(length) < sizeof(small)) {
    out->assign(small, length);
  } else if (length >= 0) {
    out->resize(static_cast<size_t>(length) + 1);
    std::vsnprintf(out->data(), out->size(), form, again);
    out->resize(length);
  }
  va_end(again);
}

// Numbers' texts are short: they are written by all threads. `write(value, &text)`.
template <typename T, typename Write>
absl::Status WriteNumbers(KernelContext& ctx, Write write) {
  constexpr int64_t kTask = 512;
  const Tensor input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, DType::kString, input.shape()));
  std::string* const texts = output->mutable_data<std::string>();
  const T* const values = input.data<T>();
  ParallelFor(input.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) write(values[i], &texts[i]);
  });
  return absl::OkStatus();
}

// printf of numbers without a width, which std::to_chars does without reading a format: "%.*f" and
// its like.
struct PlainNumbers {
  std::chars_format format = std::chars_format::fixed;
  int precision = 6;

  // The longest are of all digits of the largest double.
  static constexpr int kMostPrecision = 64;
  static constexpr size_t kMostText = 310 + kMostPrecision + 2;

  void Write(double value, std::string* out) const {
    char text[kMostText];
    const auto end = std::to_chars(text, text + kMostText, value, format, precision);
    out->assign(text, end.ptr);
  }
  template <typename T>
  static void WriteInteger(T value, std::string* out) {
    char text[24];
    out->assign(text, std::to_chars(text, text + sizeof(text), value).ptr);
  }

  static std::optional<PlainNumbers> Of(const AsStringAttrs& attrs) {
    if (attrs.width > -1 || !attrs.fill.empty() || attrs.precision > kMostPrecision) {
      return std::nullopt;
    }
    PlainNumbers plain;
    plain.format = attrs.shortest     ? std::chars_format::general
                   : attrs.scientific ? std::chars_format::scientific
                                      : std::chars_format::fixed;
    if (attrs.precision > -1) plain.precision = static_cast<int>(attrs.precision);
    return plain;
  }
};

template <typename T, typename Write>
absl::Status WriteAll(KernelContext& ctx, Write write) {
  Tensor input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, DType::kString, input.shape()));
  std::string* texts = output->mutable_data<std::string>();
  const T* values = input.data<T>();
  TextLooks looks;
  for (int64_t i = 0; i < input.num_elements(); ++i) {
    size_t bytes = sizeof(T);
    if constexpr (std::is_same_v<T, std::string>) bytes = values[i].size();
    if (looks.CutBefore(bytes)) return WorkStatus();
    write(values[i], &texts[i]);
  }
  return absl::OkStatus();
}

std::string VariantText(const Variant& variant) {
  if (variant == nullptr) return "Variant<type: INVALID>";
  absl::string_view name = variant->type_name();
  absl::string_view value = name;
  const size_t colon = value.rfind(':');
  if (colon != absl::string_view::npos) value.remove_prefix(colon + 1);
  return absl::StrCat("Variant<type: ", name, " value: ", value, ">");
}

absl::StatusOr<KernelFn> MakeAsString(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const AsStringAttrs attrs,
                            AsStringAttrs::FromAttrs(init.attrs(), dtype));
  std::string form = absl::StrCat("%", attrs.fill);
  if (attrs.width > -1) absl::StrAppend(&form, attrs.width);
  if (attrs.precision > -1) absl::StrAppend(&form, ".", attrs.precision);
  const int64_t width = attrs.width;
  const int64_t element_bytes = std::max(attrs.width, attrs.precision);
  const std::string number =
      absl::StrCat(form, attrs.shortest ? "g" : (attrs.scientific ? "e" : "f"));
  const std::string complex = absl::StrCat("(", number, ",", number, ")");
  const std::string integer = absl::StrCat(form, IsUnsigned(dtype) ? "llu" : "lld");
  const bool left = attrs.fill == "-";
  const std::optional<PlainNumbers> plain = PlainNumbers::Of(attrs);
  return KernelFn([=](KernelContext& ctx) -> absl::Status {
    if (element_bytes > 0) {
      FORMWORK_RETURN_IF_ERROR(
          CheckTextSize(std::min(ctx.input(0).num_elements(), kMaxTextBytes + 1) * element_bytes));
    }
    switch (dtype) {
      FORMWORK_FLOAT_CASES(return WriteNumbers<T>(ctx, [&](T value, std::string* out) {
        using Float = std::conditional_t<std::is_same_v<T, double>, double, float>;
        const double wide = static_cast<Float>(value);
        if (plain) {
          plain->Write(wide, out);
        } else {
          Print(out, number.c_str(), wide);
        }
      }))
      FORMWORK_COMPLEX_CASES(return WriteNumbers<T>(ctx, [&](const T& value, std::string* out) {
        Print(out, complex.c_str(), static_cast<double>(value.real()),
              static_cast<double>(value.imag()));
      }))
      FORMWORK_INTEGER_CASES(return WriteNumbers<T>(ctx, [&](T value, std::string* out) {
        using Wide =
            std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;  // NOLINT
        if (plain) {
          PlainNumbers::WriteInteger(static_cast<Wide>(value), out);
        } else {
          Print(out, integer.c_str(), static_cast<Wide>(value));
        }
      }))
      case DType::kBool:
        return WriteAll<bool>(
            ctx, [](bool value, std::string* out) { *out = value ? "true" : "false"; });
      case DType::kString:
        return WriteAll<std::string>(ctx, [&](const std::string& value, std::string* out) {
          // As TensorFlow, which cuts only what it pads.
          *out = width > -1 && attrs.precision > -1 ? value.substr(0, attrs.precision) : value;
          const int64_t padding = width - static_cast<int64_t>(out->size());
          if (padding > 0) out->insert(left ? out->size() : 0, padding, ' ');
        });
      case DType::kVariant:
        return WriteAll<Variant>(
            ctx, [](const Variant& value, std::string* out) { *out = VariantText(value); });
      default:
        return Unimplemented("AsString: dtype ", DTypeName(dtype), " is not supported");
    }
  });
}

// --- Characters ---------------------------------------------------------------------------------

// The length of the UTF-8 sequence that starts with `lead`, as TensorFlow counts: by the lead byte.
int64_t Utf8Length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if ((lead & 0xe0) == 0xc0) return 2;
  if ((lead & 0xf0) == 0xe0) return 3;
  if ((lead & 0xf8) == 0xf0) return 4;
  return 1;
}

bool IsUtf8Lead(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

int64_t CountUtf8(const std::string& text) {
  int64_t count = 0;
  ForBlocks(static_cast<int64_t>(text.size()), kTextBlock, [&](int64_t begin, int64_t end) {
    count += std::count_if(text.begin() + begin, text.begin() + end, IsUtf8Lead);
  });
  return count;
}

absl::StatusOr<KernelFn> MakeStringLength(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CharacterAttrs attrs, CharacterAttrs::FromAttrs(init.attrs()));
  return KernelFn([utf8 = attrs.utf8](KernelContext& ctx) -> absl::Status {
    Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, DType::kInt32, input.shape()));
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      const std::string& text = input.data<std::string>()[i];
      const int64_t length = utf8 ? CountUtf8(text) : static_cast<int64_t>(text.size());
      output->mutable_data<int32_t>()[i] = static_cast<int32_t>(length);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeStringStrip(KernelInit&) {
  return KernelFn([](KernelContext& ctx) {
    return WriteAll<std::string>(ctx, [](const std::string& value, std::string* out) {
      *out = std::string(absl::StripAsciiWhitespace(value));
    });
  });
}

// Byte offset of character `index`, or npos where the text has fewer; text.size() for the end.
size_t Utf8Offset(const std::string& text, int64_t index) {
  size_t offset = 0;
  for (; index > 0; --index) {
    if (offset >= text.size() || WorkIsCutAt(index)) return std::string::npos;
    offset = std::min(text.size(), offset + Utf8Length(static_cast<unsigned char>(text[offset])));
  }
  return offset;
}

// False where pos is out of range.
bool Substring(const std::string& text, int64_t pos, int64_t length, bool utf8, std::string* out) {
  const int64_t size = utf8 ? CountUtf8(text) : static_cast<int64_t>(text.size());
  if (pos > size || pos < -size) return false;
  if (pos < 0) pos += size;
  // As TensorFlow: as an unsigned number of bytes, to the end; no characters.
  if (length < 0) length = utf8 ? 0 : size;
  length = std::min(length, size - pos);
  if (!utf8) {
    *out = text.substr(pos, length);
    return true;
  }
  const size_t begin = Utf8Offset(text, pos);
  const size_t end = Utf8Offset(text, pos + length);
  if (begin == std::string::npos) return false;
  *out = text.substr(begin, end == std::string::npos ? end : end - begin);
  return true;
}

// Of a value that broadcasts to `rank` dimensions: 0 where one element serves all.
Dims BroadcastStrides(const Shape& shape, int rank) {
  Dims strides(rank, 0);
  int64_t stride = 1;
  for (int d = 1; d <= shape.rank(); ++d) {
    const int64_t dim = shape.dim(shape.rank() - d);
    if (dim != 1) strides[rank - d] = stride;
    stride *= dim;
  }
  return strides;
}

absl::StatusOr<KernelFn> MakeSubstr(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CharacterAttrs attrs, CharacterAttrs::FromAttrs(init.attrs()));
  return KernelFn([utf8 = attrs.utf8](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& position = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const Dims dims,
        PrepareSubstr(input.shape().dims(), position.shape().dims(), ctx.input(2).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Dims positions, IntegersOf(position, "Substr: pos"));
    FORMWORK_ASSIGN_OR_RETURN(const Dims lengths, IntegersOf(ctx.input(2), "Substr: len"));
    const int rank = static_cast<int>(dims.size());
    const Dims input_strides = BroadcastStrides(input.shape(), rank);
    const Dims position_strides = BroadcastStrides(position.shape(), rank);
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, DType::kString, shape));
    int64_t total = 0;
    TextLooks looks;
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      int64_t rest = i;
      int64_t at = 0;
      int64_t where = 0;
      for (int d = rank - 1; d >= 0; --d) {
        const int64_t index = rest % dims[d];
        rest /= dims[d];
        at += index * input_strides[d];
        where += index * position_strides[d];
      }
      const std::string& text = input.data<std::string>()[at];
      if (looks.CutBefore(text.size())) return WorkStatus();
      std::string& piece = output->mutable_data<std::string>()[i];
      if (!Substring(text, positions[where], lengths[where], utf8, &piece)) {
        return InvalidArgument("pos ", positions[where], " out of range for string",
                               utf8 ? "" : absl::StrCat(" b'", absl::CEscape(text), "'"),
                               " at index ", i);
      }
      total += static_cast<int64_t>(piece.size());
      FORMWORK_RETURN_IF_ERROR(CheckTextSize(total));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterStringCpuKernels(KernelRegistry& registry) {
  registry.Add("StringJoin", MakeStringJoin);
  registry.Add("StringFormat", MakeStringFormat);
  registry.Add("AsString", MakeAsString);
  registry.Add("StringLength", MakeStringLength);
  registry.Add("StringStrip", MakeStringStrip);
  registry.Add("Substr", MakeSubstr);
  AddStringHashCpuKernels(registry);
  AddStringJoinCpuKernels(registry);
  AddStringRegexCpuKernels(registry);
  AddStringSplitCpuKernels(registry);
  AddStringCaseCpuKernels(registry);
  AddUnicodeCpuKernels(registry);
  AddRawBytesCpuKernels(registry);
  AddDecompressCpuKernels(registry);
}

}  // namespace formwork
