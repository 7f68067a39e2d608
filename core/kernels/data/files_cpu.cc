// Datasets of what files have: lines, TFRecords, records of one length. Files are those of the
// folder that the server has for them, each looked up when its turn comes.
//
// As in TensorFlow a file that ends within the header of a record ends before it; one whose
// compressed data is cut off, which ends it there, fails here, and what follows an empty member of
// a gzip file is read.

#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/files.h"
#include "core/storage/file.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// Elements that are a string each.
class TextReader : public FileReader {
 public:
  absl::StatusOr<bool> Next(Element& element) final {
    std::string text;
    FORMWORK_ASSIGN_OR_RETURN(const bool more, NextText(text));
    if (more) element.push_back(Tensor::StringScalar(std::move(text)));
    return more;
  }

 private:
  virtual absl::StatusOr<bool> NextText(std::string& text) = 0;
};

ElementSpec TextSpec() { return {{DType::kString}, {PartialShape(Shape())}}; }

// --- Lines --------------------------------------------------------------------------------------

class LineReader final : public TextReader {
 public:
  explicit LineReader(std::unique_ptr<InputStream> stream) : stream_(std::move(stream)) {}

  absl::StatusOr<bool> NextText(std::string& line) override {
    while (true) {
      FORMWORK_ASSIGN_OR_RETURN(const absl::string_view next, stream_->Peek());
      if (next.empty()) return !line.empty();
      const void* const end = std::memchr(next.data(), '\n', next.size());
      const size_t part = end == nullptr
                              ? next.size()
                              : static_cast<size_t>(static_cast<const char*>(end) - next.data());
      FORMWORK_RETURN_IF_ERROR(CheckText(line.size() + part));
      Append(next.substr(0, part), line);
      stream_->Advance(end == nullptr ? part : part + 1);
      if (end != nullptr) return true;
    }
  }

 private:
  // As TensorFlow has it, without carriage returns wherever they are.
  static void Append(absl::string_view text, std::string& line) {
    while (!text.empty()) {
      const void* const at = std::memchr(text.data(), '\r', text.size());
      const size_t part = at == nullptr
                              ? text.size()
                              : static_cast<size_t>(static_cast<const char*>(at) - text.data());
      line.append(text.data(), part);
      text.remove_prefix(at == nullptr ? part : part + 1);
    }
  }

  const std::unique_ptr<InputStream> stream_;
};

absl::StatusOr<KernelFn> MakeTextLine(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx) -> Made {
    Files files;
    FORMWORK_ASSIGN_OR_RETURN(files.names, FileNames(ctx));
    FORMWORK_ASSIGN_OR_RETURN(files.compression, CompressionFrom(ctx, 1));
    FORMWORK_RETURN_IF_ERROR(CheckBufferSize(ctx, 2, 0));
    files.open = [](std::unique_ptr<InputStream> stream, const std::string&,
                    size_t) -> absl::StatusOr<std::unique_ptr<FileReader>> {
      return std::make_unique<LineReader>(std::move(stream));
    };
    return FilesDataset(TextSpec(), std::move(files));
  });
}

// --- TFRecords ----------------------------------------------------------------------------------

// A length of 8 bytes and its checksum, as many bytes, and their checksum.
class RecordReader final : public TextReader {
 public:
  RecordReader(std::unique_ptr<InputStream> stream, uint64_t offset)
      : stream_(std::move(stream)), offset_(offset) {}

  absl::StatusOr<bool> NextText(std::string& record) override {
    scratch_.clear();
    FORMWORK_ASSIGN_OR_RETURN(const size_t got, stream_->Read(kHeaderBytes, scratch_));
    if (got < kHeaderBytes) return false;
    uint64_t length;
    std::memcpy(&length, scratch_.data(), sizeof(length));
    if (!IsChecksumOf(absl::string_view(scratch_).substr(0, sizeof(length)),
                      scratch_.data() + sizeof(length))) {
      return absl::DataLossError(absl::StrCat(
          "corrupted record at ", offset_, offset_ == 0 ? " (Is this even a TFRecord file?)" : ""));
    }
    FORMWORK_RETURN_IF_ERROR(CheckText(length));
    record.reserve(static_cast<size_t>(std::min<uint64_t>(length, kMostReserved)));
    FORMWORK_RETURN_IF_ERROR(ReadAll(static_cast<size_t>(length), record));
    scratch_.clear();
    FORMWORK_RETURN_IF_ERROR(ReadAll(kFooterBytes, scratch_));
    if (!IsChecksumOf(record, scratch_.data())) {
      return absl::DataLossError(absl::StrCat("corrupted record at ", offset_ + kHeaderBytes));
    }
    offset_ += kHeaderBytes + length + kFooterBytes;
    return true;
  }

 private:
  static constexpr size_t kHeaderBytes = 12, kFooterBytes = 4;
  static constexpr size_t kMostReserved = size_t{1} << 20;  // A length may be a lie.

  static bool IsChecksumOf(absl::string_view bytes, const char* stored) {
    uint32_t masked;
    std::memcpy(&masked, stored, sizeof(masked));
    return masked == std::rotl(ExtendCrc32c(0, bytes), 17) + 0xa282ead8u;
  }
  absl::Status ReadAll(size_t bytes, std::string& to) {
    FORMWORK_ASSIGN_OR_RETURN(const size_t got, stream_->Read(bytes, to));
    if (got == bytes) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("truncated record at ", offset_,
                                            "' failed with Read less bytes than requested"));
  }

  const std::unique_ptr<InputStream> stream_;
  uint64_t offset_;
  std::string scratch_;
};

// Input 3, where it is there: where to begin in each file.
absl::StatusOr<std::vector<int64_t>> ByteOffsets(KernelContext& ctx, size_t files) {
  if (ctx.num_inputs() < 4) return std::vector<int64_t>();
  const Tensor& offsets = ctx.input(3);
  if (offsets.rank() > 1) return InvalidArgument("`byte_offsets` must be a scalar or a vector.");
  const absl::Span<const int64_t> all = offsets.span<int64_t>();
  if (!all.empty() && all.size() < files) {
    return InvalidArgument("`byte_offsets` must be as many as `filenames`: ", all.size(), " and ",
                           files);
  }
  return std::vector<int64_t>(all.begin(), all.end());
}

absl::StatusOr<KernelFn> MakeTFRecord(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx) -> Made {
    Files files;
    FORMWORK_ASSIGN_OR_RETURN(files.names, FileNames(ctx));
    FORMWORK_ASSIGN_OR_RETURN(files.compression, CompressionFrom(ctx, 1));
    FORMWORK_RETURN_IF_ERROR(CheckBufferSize(ctx, 2, -1));
    FORMWORK_ASSIGN_OR_RETURN(auto offsets, ByteOffsets(ctx, files.names.size()));
    files.open = [offsets = std::move(offsets)](
                     std::unique_ptr<InputStream> stream, const std::string&,
                     size_t i) -> absl::StatusOr<std::unique_ptr<FileReader>> {
      const int64_t offset = offsets.empty() ? 0 : offsets[i];
      if (offset < 0) return InvalidArgument("Can't skip a negative number of bytes");
      // One behind the end is the end.
      FORMWORK_RETURN_IF_ERROR(stream->Skip(static_cast<uint64_t>(offset)).status());
      return std::make_unique<RecordReader>(std::move(stream), static_cast<uint64_t>(offset));
    };
    return FilesDataset(TextSpec(), std::move(files));
  });
}

// --- Records of one length ----------------------------------------------------------------------

struct RecordLayout {
  int64_t header, record, footer;  // Bytes.

  // Errors: kInvalidArgument, or kDataLoss where the file had to be read to know.
  absl::Status Check(absl::string_view name, int64_t file_bytes, bool inflated) const {
    const int64_t body = file_bytes - header - footer;
    if (body >= 0 && body % record == 0) return absl::OkStatus();
    std::string text = absl::StrCat(
        "Excluding the header (", header, " bytes) and footer (", footer, " bytes), input file \"",
        name, "\" has body length ", body,
        " bytes, which is not an exact multiple of the record length (", record, " bytes).");
    return inflated ? absl::DataLossError(text) : absl::InvalidArgumentError(text);
  }
};

class FixedReader final : public TextReader {
 public:
  FixedReader(std::unique_ptr<InputStream> stream, std::string name, RecordLayout layout)
      : stream_(std::move(stream)), name_(std::move(name)), layout_(layout) {}

  // Keeps as much ahead as the footer has: where no more follows, that is it.
  absl::StatusOr<bool> NextText(std::string& record) override {
    const size_t footer = static_cast<size_t>(layout_.footer);
    const size_t wanted = static_cast<size_t>(layout_.record) + footer - ahead_.size();
    FORMWORK_ASSIGN_OR_RETURN(const size_t got, stream_->Read(wanted, ahead_));
    if (got < wanted) {
      if (ahead_.size() == footer) return false;
      return layout_.Check(name_, layout_.header + given_ + static_cast<int64_t>(ahead_.size()),
                           /*inflated=*/true);
    }
    record = ahead_.substr(0, static_cast<size_t>(layout_.record));
    ahead_.erase(0, record.size());
    given_ += layout_.record;
    return true;
  }

 private:
  const std::unique_ptr<InputStream> stream_;
  const std::string name_;
  const RecordLayout layout_;
  std::string ahead_;
  int64_t given_ = 0;  // Bytes.
};

absl::StatusOr<KernelFn> MakeFixedLength(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx) -> Made {
    Files files;
    FORMWORK_ASSIGN_OR_RETURN(files.names, FileNames(ctx));
    RecordLayout layout;
    FORMWORK_ASSIGN_OR_RETURN(layout.header, ScalarInput<int64_t>(ctx, 1, "`header_bytes`"));
    FORMWORK_ASSIGN_OR_RETURN(layout.record, ScalarInput<int64_t>(ctx, 2, "`record_bytes`"));
    FORMWORK_ASSIGN_OR_RETURN(layout.footer, ScalarInput<int64_t>(ctx, 3, "`footer_bytes`"));
    if (layout.header < 0) return InvalidArgument("`header_bytes` must be >= 0");
    if (layout.record <= 0) return InvalidArgument("`record_bytes` must be > 0");
    if (layout.footer < 0) return InvalidArgument("`footer_bytes` must be >= 0");
    for (const int64_t bytes : {layout.header, layout.record, layout.footer}) {
      FORMWORK_RETURN_IF_ERROR(CheckText(static_cast<uint64_t>(bytes)));
    }
    FORMWORK_RETURN_IF_ERROR(CheckBufferSize(ctx, 4, 0));
    if (ctx.num_inputs() > 5) {
      FORMWORK_ASSIGN_OR_RETURN(files.compression, CompressionFrom(ctx, 5));
    }
    const bool plain = files.compression == Compression::kNone;
    files.open = [layout, plain](std::unique_ptr<InputStream> stream, const std::string& name,
                                 size_t) -> absl::StatusOr<std::unique_ptr<FileReader>> {
      if (plain) {
        FORMWORK_RETURN_IF_ERROR(layout.Check(name, static_cast<int64_t>(stream->file_bytes()),
                                              /*inflated=*/false));
      }
      FORMWORK_RETURN_IF_ERROR(stream->Skip(static_cast<uint64_t>(layout.header)).status());
      return std::make_unique<FixedReader>(std::move(stream), name, layout);
    };
    return FilesDataset(TextSpec(), std::move(files));
  });
}

}  // namespace

void RegisterFileDatasets(KernelRegistry& registry) {
  registry.Add("TextLineDataset", MakeTextLine);
  registry.Add("TFRecordDataset", MakeTFRecord);
  registry.Add("TFRecordDatasetV2", MakeTFRecord);
  registry.Add("FixedLengthRecordDataset", MakeFixedLength);
  registry.Add("FixedLengthRecordDatasetV2", MakeFixedLength);
}

}  // namespace formwork
