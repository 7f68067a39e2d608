// Code points of texts in any encoding, and texts of code points.

#include <unicode/ucnv.h>
#include <unicode/ucnv_cb.h>
#include <unicode/ucnv_err.h>
#include <unicode/uscript.h>
#include <unicode/utf8.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/index_values.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/string/string_cpu.h"
#include "core/kernels/string/text.h"
#include "core/ops/unicode.h"

namespace formwork {
namespace {

using Errors = UnicodeErrorAttrs::Errors;

// Reads texts of one encoding, character by character. Used by one thread.
class UnicodeReader {
 public:
  /// Errors: kInvalidArgument if ICU has no such encoding.
  static absl::StatusOr<std::unique_ptr<UnicodeReader>> Of(const std::string& encoding) {
    UErrorCode error = U_ZERO_ERROR;
    // By its list of names: of others it would look for a file.
    const bool known = ucnv_countAliases(encoding.c_str(), &error) > 0 && U_SUCCESS(error);
    std::unique_ptr<UnicodeReader> reader(new UnicodeReader);
    if (known) reader->converter_ = ucnv_open(encoding.c_str(), &error);
    if (!known || U_FAILURE(error)) {
      return InvalidArgument("Could not create converter for input encoding: ", encoding);
    }
    ucnv_setToUCallBack(reader->converter_, &NoteMalformed, reader.get(), nullptr, nullptr, &error);
    if (U_FAILURE(error)) return Internal("ICU: ", u_errorName(error));
    return reader;
  }
  ~UnicodeReader() { ucnv_close(converter_); }
  UnicodeReader(const UnicodeReader&) = delete;
  UnicodeReader& operator=(const UnicodeReader&) = delete;

  /// Calls `each(code_point, begin)` for each character, the byte where it begins with it, as
  /// `attrs` say. Errors: kInvalidArgument for what is malformed where that is not allowed.
  template <typename Each>
  absl::Status Read(const std::string& text, const UnicodeErrorAttrs& attrs, const Each& each) {
    ucnv_resetToUnicode(converter_);
    const char* at = text.data();
    const char* const end = at + text.size();
    for (int64_t i = 1; at < end; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const int64_t begin = at - text.data();
      UErrorCode error = U_ZERO_ERROR;
      malformed_ = false;
      const int32_t point = ucnv_getNextUChar(converter_, &at, end, &error);
      if (U_FAILURE(error))
        at = end;  // Nothing but escapes was left: TensorFlow takes it as it is.
      if (malformed_) {
        if (attrs.errors == Errors::kStrict) {
          return InvalidArgument("Invalid formatting on input string");
        }
        if (attrs.errors == Errors::kReplace) each(attrs.replacement, begin);
      } else if (attrs.replace_controls && point < 0x20) {
        if (attrs.errors != Errors::kIgnore) each(attrs.replacement, begin);
      } else {
        each(point, begin);
      }
    }
    return absl::OkStatus();
  }

 private:
  UnicodeReader() = default;

  // ICU's callback. One character in place of what is malformed ends the look for the next one.
  static void NoteMalformed(const void* context, UConverterToUnicodeArgs* args, const char*,
                            int32_t, UConverterCallbackReason reason, UErrorCode* error) {
    if (reason > UCNV_IRREGULAR) return;  // It is reset or closed.
    static_cast<UnicodeReader*>(const_cast<void*>(context))->malformed_ = true;
    *error = U_ZERO_ERROR;
    const UChar instead = 0xfffd;
    ucnv_cbToUWriteUChars(args, &instead, 1, 0, error);
  }

  UConverter* converter_ = nullptr;
  bool malformed_ = false;
};

// Appends a code point; UTF-8 has none for surrogates, and TensorFlow writes U+FFFD then.
void AppendPoint(UnicodeEncoding encoding, int32_t point, std::string& to) {
  const auto append16 = [&to](uint32_t unit) {
    to.push_back(static_cast<char>(unit >> 8));
    to.push_back(static_cast<char>(unit));
  };
  switch (encoding) {
    case UnicodeEncoding::kUtf8: {
      if (U_IS_SURROGATE(point)) point = 0xfffd;
      char bytes[U8_MAX_LENGTH];
      int32_t size = 0;
      U8_APPEND_UNSAFE(bytes, size, point);
      to.append(bytes, static_cast<size_t>(size));
      return;
    }
    case UnicodeEncoding::kUtf16:
      if (point <= 0xffff) return append16(static_cast<uint32_t>(point));
      append16(U16_LEAD(point));
      return append16(U16_TRAIL(point));
    case UnicodeEncoding::kUtf32:
      append16(static_cast<uint32_t>(point) >> 16);
      return append16(static_cast<uint32_t>(point));
  }
}

absl::StatusOr<KernelFn> MakeUnicodeDecode(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const UnicodeErrorAttrs attrs,
                            UnicodeErrorAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(std::string encoding, init.attrs().Get<std::string>("input_encoding"));
  FORMWORK_RETURN_IF_ERROR(UnicodeReader::Of(encoding).status());
  const DType splits_dtype = init.output_dtypes()[0];
  return KernelFn([=](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<UnicodeReader> reader,
                              UnicodeReader::Of(encoding));
    const Tensor texts = ctx.input(0);
    const bool with_offsets = ctx.num_outputs() == 3;
    std::vector<int64_t> splits = {0};
    std::vector<int32_t> points;
    std::vector<int64_t> begins;
    TextLooks looks;
    for (int64_t i = 0; i < texts.num_elements(); ++i) {
      const std::string& text = texts.data<std::string>()[i];
      if (looks.CutBefore(text.size())) return WorkStatus();
      FORMWORK_RETURN_IF_ERROR(reader->Read(text, attrs, [&](int32_t point, int64_t begin) {
        points.push_back(point);
        if (with_offsets) begins.push_back(begin);
      }));
      splits.push_back(static_cast<int64_t>(points.size()));
    }
    if (splits_dtype == DType::kInt32 && splits.back() > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("too many characters for Tsplits int32: ", splits.back());
    }
    FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, 0, splits_dtype, splits));
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor * values,
        ctx.AllocateOutput(1, DType::kInt32, Shape{static_cast<int64_t>(points.size())}));
    std::copy(points.begin(), points.end(), values->mutable_data<int32_t>());
    if (with_offsets) return OutputIntegers(ctx, 2, DType::kInt64, begins);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeUnicodeEncode(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const UnicodeErrorAttrs attrs,
                            UnicodeErrorAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const UnicodeEncoding encoding, OutputEncodingOf(init.attrs()));
  return KernelFn([=](KernelContext& ctx) -> absl::Status {
    const Tensor values = ctx.input(0);
    const Tensor splits_input = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(
        CheckUnicodeEncode(values.shape().dims(), splits_input.shape().dims()));
    const IndexValues splits(splits_input);
    const int64_t n = values.num_elements();
    if (splits.size() == 0) {
      return InvalidArgument("Input_splits should contain elements, but given input_values has 0 ",
                             "elements");
    }
    if (splits[0] != 0) return InvalidArgument("First value in input_splits must be zero.");
    if (splits.back() != n) {
      return InvalidArgument("Last value in input_splits must be equal to length of input_tensor.");
    }
    for (int64_t i = 1; i < splits.size(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      if (splits[i] < splits[i - 1]) {
        return InvalidArgument("Values in input_splits must be equal or in ascending order.");
      }
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              ctx.AllocateOutput(0, DType::kString, Shape{splits.size() - 1}));
    FORMWORK_RETURN_IF_ERROR(CheckTextSize(n));
    for (int64_t i = 0; i + 1 < splits.size(); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      std::string& text = output->mutable_data<std::string>()[i];
      for (int64_t k = splits[i]; k < splits[i + 1]; ++k) {
        if (WorkIsCutAt(k)) return WorkStatus();
        const int32_t point = values.data<int32_t>()[k];
        if (point >= 0 && point <= 0x10ffff && !U_IS_SURROGATE(point)) {
          AppendPoint(encoding, point, text);
        } else if (attrs.errors == Errors::kStrict) {
          return InvalidArgument("Code point is out of range for Unicode, or is a surrogate.");
        } else if (attrs.errors == Errors::kReplace) {
          AppendPoint(encoding, attrs.replacement, text);
        }
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeUnicodeTranscode(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const UnicodeErrorAttrs attrs,
                            UnicodeErrorAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const UnicodeEncoding to, OutputEncodingOf(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(std::string from, init.attrs().Get<std::string>("input_encoding"));
  FORMWORK_RETURN_IF_ERROR(UnicodeReader::Of(from).status());
  return KernelFn([=](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<UnicodeReader> reader, UnicodeReader::Of(from));
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              ctx.AllocateOutput(0, DType::kString, input.shape()));
    int64_t total = 0;
    TextLooks looks;
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& given = input.data<std::string>()[i];
      if (looks.CutBefore(given.size())) return WorkStatus();
      FORMWORK_RETURN_IF_ERROR(CheckTextSize(total + static_cast<int64_t>(given.size())));
      std::string& text = output->mutable_data<std::string>()[i];
      FORMWORK_RETURN_IF_ERROR(reader->Read(
          given, attrs, [&](int32_t point, int64_t) { AppendPoint(to, point, text); }));
      total += static_cast<int64_t>(text.size());
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeUnicodeScript(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, DType::kInt32, input.shape()));
    const int32_t* points = input.data<int32_t>();
    int32_t* scripts = output->mutable_data<int32_t>();
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      UErrorCode error = U_ZERO_ERROR;
      const UScriptCode script = uscript_getScript(points[i], &error);
      scripts[i] = U_SUCCESS(error) ? static_cast<int32_t>(script) : -1;
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddUnicodeCpuKernels(KernelRegistry& registry) {
  registry.Add("UnicodeDecode", MakeUnicodeDecode);
  registry.Add("UnicodeDecodeWithOffsets", MakeUnicodeDecode);
  registry.Add("UnicodeEncode", MakeUnicodeEncode);
  registry.Add("UnicodeTranscode", MakeUnicodeTranscode);
  registry.Add("UnicodeScript", MakeUnicodeScript);
}

}  // namespace formwork
