// DecodeCSV: each string of a tensor is one line; what it has of each field is one tensor.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/format_tensor.h"
#include "core/kernels/io/csv_fields.h"
#include "core/kernels/io/io_cpu.h"

namespace formwork {
namespace {

// The fields of one line. Line breaks in front of a field are passed over, as TensorFlow does.
class Line {
 public:
  Line(absl::string_view text, const CsvFormat& format) : text_(text), format_(format) {}

  // The next field; false behind the last one.
  absl::StatusOr<bool> Next(std::string& field) {
    field.clear();
    while (at_ < text_.size() && IsBreak(text_[at_])) ++at_;
    if (at_ >= text_.size()) {
      // Behind a delimiter that ends the line is one more.
      if (ended_ || text_.empty() || text_.back() != format_.delimiter) return false;
      ended_ = true;
      return true;
    }
    if (format_.quotes && text_[at_] == '"') {
      FORMWORK_RETURN_IF_ERROR(Quoted(field));
    } else {
      FORMWORK_RETURN_IF_ERROR(Plain(field));
    }
    return true;
  }

 private:
  static bool IsBreak(char c) { return c == '\n' || c == '\r'; }

  absl::Status Plain(std::string& field) {
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] != format_.delimiter; ++at_) {
      if ((format_.quotes && text_[at_] == '"') || IsBreak(text_[at_])) {
        return InvalidArgument("Unquoted fields cannot have quotes/CRLFs inside");
      }
    }
    field.assign(text_.data() + begin, at_ - begin);
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Quoted(std::string& field) {
    ++at_;
    const size_t last = text_.size() - 1;
    while (at_ < last && (text_[at_] != '"' || text_[at_ + 1] != format_.delimiter)) {
      if (text_[at_] != '"') {
        field += text_[at_++];
        continue;
      }
      if (text_[at_ + 1] != '"') {
        return InvalidArgument("Quote inside a string has to be escaped by another quote");
      }
      field += '"';
      at_ += 2;
    }
    if (at_ > last || text_[at_] != '"') {
      return InvalidArgument("Quoted field has to end with quote followed by delim or end");
    }
    at_ += 2;
    return absl::OkStatus();
  }

  const absl::string_view text_;
  const CsvFormat& format_;
  size_t at_ = 0;
  bool ended_ = false;
};

// `columns`: which fields become outputs, one after the other; empty: all.
absl::Status DecodeLine(absl::string_view text, const CsvFields& fields,
                        absl::Span<const int64_t> columns, int64_t record,
                        absl::Span<Tensor* const> outputs, std::string& field) {
  Line line(text, fields.format());
  size_t taken = 0;
  for (int64_t column = 0; columns.empty() || taken < columns.size(); ++column) {
    if (WorkIsCutAt(column)) return WorkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const bool more, line.Next(field));
    if (!more) break;
    if (!columns.empty() && columns[taken] != column) continue;
    if (taken < fields.size()) {
      FORMWORK_RETURN_IF_ERROR(
          fields.Write(taken, field, absl::StrCat(" ", record), *outputs[taken], record));
    }
    ++taken;
  }
  if (taken == fields.size()) return absl::OkStatus();
  return InvalidArgument("Expect ", fields.size(), " fields but have ", taken, " in record ",
                         record);
}

absl::StatusOr<KernelFn> MakeDecodeCsv(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string delimiter,
                            init.attrs().Get<std::string>("field_delim"));
  FORMWORK_ASSIGN_OR_RETURN(const bool quotes, init.attrs().Get<bool>("use_quote_delim"));
  FORMWORK_ASSIGN_OR_RETURN(std::string na_value, init.attrs().Get<std::string>("na_value"));
  FORMWORK_ASSIGN_OR_RETURN(const CsvFormat format,
                            CsvFormat::Make(delimiter, quotes, std::move(na_value)));
  FORMWORK_ASSIGN_OR_RETURN(const auto columns,
                            init.attrs().Get<std::vector<int64_t>>("select_cols"));
  if (!columns.empty() && columns.size() != init.output_dtypes().size()) {
    return InvalidArgument("select_cols should match output size");
  }
  FORMWORK_RETURN_IF_ERROR(CheckColumns(columns, "select_cols"));
  return KernelFn([format, columns](KernelContext& ctx) -> absl::Status {
    const Tensor records = ctx.input(0);
    std::vector<Tensor> defaults;
    for (int i = 1; i < ctx.num_inputs(); ++i) defaults.push_back(ctx.input(i));
    FORMWORK_ASSIGN_OR_RETURN(const CsvFields fields, CsvFields::Make(format, std::move(defaults)));
    std::vector<Tensor*> outputs;
    for (size_t i = 0; i < fields.size(); ++i) {
      FORMWORK_ASSIGN_OR_RETURN(
          Tensor * out, ctx.AllocateOutput(static_cast<int>(i), fields.dtype(i), records.shape()));
      outputs.push_back(out);
    }
    std::string field;
    for (int64_t i = 0; i < records.num_elements(); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      FORMWORK_RETURN_IF_ERROR(
          DecodeLine(records.data<std::string>()[i], fields, columns, i, outputs, field));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddDecodeCsvCpuKernels(KernelRegistry& registry) { registry.Add("DecodeCSV", MakeDecodeCsv); }

}  // namespace formwork
