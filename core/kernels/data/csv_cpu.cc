// Datasets of the lines of files of comma-separated values.
//
// As in TensorFlow a line that fails is passed by, and the next element is the next line's; quotes
// that end in the middle of a field do not end it, so that such a line may reach to the file's end.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/files.h"
#include "core/kernels/io/csv_fields.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// Which fields of a line are components.
struct Columns {
  std::vector<int64_t> selected, excluded;  // One of both is empty; both: all are.

  bool Has(int64_t column) const {
    if (!selected.empty()) return std::binary_search(selected.begin(), selected.end(), column);
    return !std::binary_search(excluded.begin(), excluded.end(), column);
  }
};

struct Csv {
  CsvFields fields;
  Columns columns;
  bool header;
};

class CsvReader final : public FileReader {
 public:
  CsvReader(std::unique_ptr<InputStream> stream, std::shared_ptr<const Csv> csv)
      : stream_(std::move(stream)), csv_(std::move(csv)), header_(csv_->header) {}

  absl::StatusOr<bool> Next(Element& element) override {
    goes_on_ = false;
    if (std::exchange(header_, false)) {
      FORMWORK_ASSIGN_OR_RETURN(const bool has_header, ReadLine(nullptr));
      goes_on_ = has_header && !at_end_;
      if (!has_header || !wrong_.ok()) return InvalidArgument("Can't read header of file");
    }
    FORMWORK_ASSIGN_OR_RETURN(const bool more, ReadLine(&element));
    goes_on_ = more && !at_end_;
    if (!more) return false;
    if (wrong_.ok() && taken_ < csv_->fields.size()) {
      wrong_ = InvalidArgument("Expect ", csv_->fields.size(), " fields but have ", taken_,
                               " in record");
    }
    FORMWORK_RETURN_IF_ERROR(wrong_);
    return true;
  }
  bool goes_on() const override { return goes_on_; }

 private:
  enum class Ends : uint8_t { kField, kLine, kFile };

  // Reads a line; false where there is none. `element`: null where nobody asks for it.
  absl::StatusOr<bool> ReadLine(Element* element) {
    wrong_ = absl::OkStatus();
    taken_ = 0;
    FORMWORK_ASSIGN_OR_RETURN(const int first, Peek());
    if (first == kNone) return false;
    for (int64_t column = 0;; ++column) {
      FORMWORK_ASSIGN_OR_RETURN(const Ends ends, ReadField());
      if (element != nullptr && csv_->columns.Has(column)) {
        FORMWORK_RETURN_IF_ERROR(Take(*element));
      }
      if (ends == Ends::kField) continue;
      at_end_ = ends == Ends::kFile;
      return true;
    }
  }

  // The field that has been read, as the next component.
  absl::Status Take(Element& element) {
    const size_t i = taken_++;
    if (i >= csv_->fields.size()) {
      Fails(InvalidArgument("Expect ", csv_->fields.size(), " fields but have more in record"));
    }
    if (!wrong_.ok()) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(Tensor value,
                              Tensor::Allocate(ProcessAllocator(), csv_->fields.dtype(i), Shape()));
    Fails(csv_->fields.Write(i, field_, "", value, 0));
    element.push_back(std::move(value));
    return absl::OkStatus();
  }

  // The first thing that is wrong with a line is its error.
  void Fails(absl::Status status) {
    if (wrong_.ok()) wrong_ = std::move(status);
  }

  absl::StatusOr<Ends> ReadField() {
    field_.clear();
    FORMWORK_ASSIGN_OR_RETURN(const int first, Peek());
    if (csv_->fields.format().quotes && first == '"') {
      stream_->Advance(1);
      return ReadQuoted();
    }
    while (true) {
      FORMWORK_ASSIGN_OR_RETURN(const absl::string_view next, stream_->Peek());
      if (next.empty()) return Ends::kFile;
      const CsvFormat& format = csv_->fields.format();
      size_t part = 0;
      while (part < next.size() && next[part] != format.delimiter && next[part] != '\n' &&
             next[part] != '\r') {
        if (format.quotes && next[part] == '"') {
          Fails(absl::InvalidArgumentError("Unquoted fields cannot have quotes inside"));
        }
        ++part;
      }
      const bool ended = part < next.size();
      FORMWORK_RETURN_IF_ERROR(Append(next.substr(0, part)));
      if (ended) return PassEnd();
    }
  }

  // Behind the first quote.
  absl::StatusOr<Ends> ReadQuoted() {
    while (true) {
      FORMWORK_ASSIGN_OR_RETURN(const absl::string_view next, stream_->Peek());
      if (next.empty()) {
        wrong_ = absl::InvalidArgumentError(
            "Reached end of file without closing quoted field in record");
        return Ends::kFile;
      }
      const size_t part = std::min(next.find('"'), next.size());
      const bool quote = part < next.size();
      FORMWORK_RETURN_IF_ERROR(Append(next.substr(0, part)));
      if (!quote) continue;
      stream_->Advance(1);
      FORMWORK_ASSIGN_OR_RETURN(const int behind, Peek());
      if (behind == kNone) return Ends::kFile;
      if (behind == csv_->fields.format().delimiter || behind == '\n' || behind == '\r') {
        return PassEnd();
      }
      if (behind != '"') {
        Fails(
            absl::InvalidArgumentError("Quote inside a string has to be escaped by another quote"));
        continue;
      }
      field_ += '"';
      stream_->Advance(1);
    }
  }

  // Passes what ends a field: a delimiter, or the end of a line.
  absl::StatusOr<Ends> PassEnd() {
    FORMWORK_ASSIGN_OR_RETURN(const int end, Peek());
    stream_->Advance(1);
    if (end == csv_->fields.format().delimiter) return Ends::kField;
    if (end == '\r') {
      FORMWORK_ASSIGN_OR_RETURN(const int behind, Peek());
      if (behind == '\n') stream_->Advance(1);
    }
    return Ends::kLine;
  }

  absl::Status Append(absl::string_view part) {
    FORMWORK_RETURN_IF_ERROR(CheckText(field_.size() + part.size()));
    field_.append(part.data(), part.size());
    stream_->Advance(part.size());
    return absl::OkStatus();
  }

  // The next byte; kNone at the end.
  absl::StatusOr<int> Peek() {
    FORMWORK_ASSIGN_OR_RETURN(const absl::string_view next, stream_->Peek());
    return next.empty() ? kNone : static_cast<int>(next[0]);
  }

  static constexpr int kNone = 1000;  // No char.

  const std::unique_ptr<InputStream> stream_;
  const std::shared_ptr<const Csv> csv_;
  bool header_;
  std::string field_;
  size_t taken_ = 0;     // Fields of the line that are components.
  absl::Status wrong_;   // With the line.
  bool at_end_ = false;  // The line was the file's last.
  bool goes_on_ = false;
};

// A vector; `i` may be behind the last input: none.
absl::StatusOr<std::vector<int64_t>> ColumnsFrom(KernelContext& ctx, int i,
                                                 absl::string_view name) {
  if (i >= ctx.num_inputs()) return std::vector<int64_t>();
  if (ctx.input(i).rank() != 1) return InvalidArgument("`", name, "` must be a vector.");
  const absl::Span<const int64_t> columns = ctx.input(i).span<int64_t>();
  FORMWORK_RETURN_IF_ERROR(CheckColumns(columns, name));
  return std::vector<int64_t>(columns.begin(), columns.end());
}

absl::StatusOr<CsvFormat> FormatFrom(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string delimiter,
                            ScalarInput<std::string>(ctx, 4, "`field_delim`"));
  FORMWORK_ASSIGN_OR_RETURN(const bool quotes, ScalarInput<bool>(ctx, 5, "`use_quote_delim`"));
  FORMWORK_ASSIGN_OR_RETURN(std::string na_value, ScalarInput<std::string>(ctx, 6, "`na_value`"));
  return CsvFormat::Make(delimiter, quotes, std::move(na_value));
}

// Inputs: filenames, compression_type, buffer_size, header, field_delim, use_quote_delim, na_value,
// select_cols, a default for each component, and of the second version exclude_cols.
absl::StatusOr<KernelFn> MakeCsv(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  return DatasetKernel(init, [spec](KernelContext& ctx) -> Made {
    const int components = static_cast<int>(spec.dtypes.size());
    Files files;
    FORMWORK_ASSIGN_OR_RETURN(files.names, FileNames(ctx));
    FORMWORK_ASSIGN_OR_RETURN(files.compression, CompressionFrom(ctx, 1));
    FORMWORK_RETURN_IF_ERROR(CheckBufferSize(ctx, 2, 0));
    FORMWORK_ASSIGN_OR_RETURN(const bool header, ScalarInput<bool>(ctx, 3, "`header`"));
    FORMWORK_ASSIGN_OR_RETURN(CsvFormat format, FormatFrom(ctx));
    Columns columns;
    FORMWORK_ASSIGN_OR_RETURN(columns.selected, ColumnsFrom(ctx, 7, "select_cols"));
    FORMWORK_ASSIGN_OR_RETURN(columns.excluded, ColumnsFrom(ctx, 8 + components, "exclude_cols"));
    if (!columns.selected.empty() && !columns.excluded.empty()) {
      return InvalidArgument("Either select_cols or exclude_cols should be empty");
    }
    if (!columns.selected.empty() && columns.selected.size() != spec.dtypes.size()) {
      return InvalidArgument("select_cols should match output size");
    }
    std::vector<Tensor> defaults;
    for (int i = 0; i < components; ++i) defaults.push_back(ctx.input(8 + i));
    FORMWORK_ASSIGN_OR_RETURN(CsvFields fields,
                              CsvFields::Make(std::move(format), std::move(defaults)));
    auto csv = std::make_shared<const Csv>(Csv{std::move(fields), std::move(columns), header});
    files.open = [csv](std::unique_ptr<InputStream> stream, const std::string&,
                       size_t) -> absl::StatusOr<std::unique_ptr<FileReader>> {
      return std::make_unique<CsvReader>(std::move(stream), csv);
    };
    return FilesDataset(spec, std::move(files));
  });
}

}  // namespace

void RegisterCsvDatasets(KernelRegistry& registry) {
  registry.Add("CSVDataset", MakeCsv);
  registry.Add("CSVDatasetV2", MakeCsv);
}

}  // namespace formwork
