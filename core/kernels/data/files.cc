#include "core/kernels/data/files.h"

#include <utility>

#include "core/base/status.h"
#include "core/kernels/data/position.h"
#include "core/kernels/format_tensor.h"
#include "core/storage/files_dir.h"

namespace formwork {
namespace {

class FilesReader {
 public:
  explicit FilesReader(std::shared_ptr<const Files> files) : files_(std::move(files)) {}

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    while (reader_ != nullptr || at_ < files_->names.size()) {
      absl::StatusOr<bool> more = NextOfFile(ctx, element);
      if (more.ok() && *more) {
        ++given_;
        return true;
      }
      const bool goes_on = !more.ok() && reader_ != nullptr && reader_->goes_on();
      if (!goes_on) reader_.reset();
      FORMWORK_RETURN_IF_ERROR(more.status());
      FORMWORK_RETURN_IF_ERROR(ctx.Look());
    }
    return false;
  }

  // A file is read again up to where it was: what it has before need not be at the same bytes.
  absl::Status Keep(Position& position) {
    bool open = reader_ != nullptr;
    FORMWORK_RETURN_IF_ERROR(position.KeepUpTo(files_->names.size(), at_));
    FORMWORK_RETURN_IF_ERROR(position.Keep(open, given_));
    if (!position.reads() || !open) return absl::OkStatus();
    if (at_ == 0) return position.Unfit();
    --at_;
    Element skipped;
    for (const int64_t given = std::exchange(given_, 0); given_ < given;) {
      skipped.clear();
      FORMWORK_RETURN_IF_ERROR(position.ctx().Look());
      absl::StatusOr<bool> more = NextOfFile(position.ctx(), skipped);
      if (!more.ok() && reader_ != nullptr && reader_->goes_on()) continue;  // As it was told then.
      FORMWORK_RETURN_IF_ERROR(more.status());
      if (!*more) return position.Unfit();
      ++given_;
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<bool> NextOfFile(IterationContext& ctx, Element& element) {
    if (reader_ == nullptr) {
      const size_t i = at_++;
      given_ = 0;
      const std::string& name = files_->names[i];
      FORMWORK_ASSIGN_OR_RETURN(const FilePath path, PathInFolder(ctx.call.files_dir(), name));
      FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<InputStream> stream,
                                InputStream::Open(path, files_->compression));
      FORMWORK_ASSIGN_OR_RETURN(reader_, files_->open(std::move(stream), name, i));
    }
    return reader_->Next(element);
  }

  const std::shared_ptr<const Files> files_;
  size_t at_ = 0;      // The next one.
  int64_t given_ = 0;  // Elements of the one that is open.
  std::unique_ptr<FileReader> reader_;
};

}  // namespace

std::shared_ptr<Dataset> FilesDataset(ElementSpec spec, Files files) {
  auto shared = std::make_shared<const Files>(std::move(files));
  return NewDataset(std::move(spec), Dataset::kUnknown, [shared](IterationContext&) -> Begun {
    return NextFn::Of<FilesReader>(shared);
  });
}

absl::StatusOr<std::vector<std::string>> FileNames(KernelContext& ctx) {
  const Tensor& names = ctx.input(0);
  if (names.rank() > 1) return InvalidArgument("`filenames` must be a scalar or a vector.");
  const absl::Span<const std::string> all = names.span<std::string>();
  return std::vector<std::string>(all.begin(), all.end());
}

absl::StatusOr<Compression> CompressionFrom(KernelContext& ctx, int i) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string name,
                            ScalarInput<std::string>(ctx, i, "`compression_type`"));
  return CompressionFromName(name);
}

absl::Status CheckBufferSize(KernelContext& ctx, int i, int64_t least) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t size, ScalarInput<int64_t>(ctx, i, "`buffer_size`"));
  if (size >= least) return absl::OkStatus();
  return InvalidArgument("`buffer_size` must be >= 0 (0 == ",
                         least < 0 ? "no buffering)" : "default)");
}

absl::Status CheckText(uint64_t bytes) {
  if (bytes <= static_cast<uint64_t>(kMaxTextBytes)) return absl::OkStatus();
  return ResourceExhausted("an element of a file is too large: bytes=", bytes,
                           " limit=", kMaxTextBytes);
}

}  // namespace formwork
