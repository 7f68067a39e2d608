#include "core/storage/input_stream.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

// Large enough for a block to be worth opening the file, small enough for thousands of streams.
constexpr size_t kBlockBytes = size_t{128} << 10;

class PlainStream final : public InputStream {
 public:
  PlainStream(FilePath path, uint64_t bytes) : InputStream(bytes), path_(std::move(path)) {}

  absl::Status Fill(std::string& block) override {
    const uint64_t left = file_bytes() - offset_;
    block.resize(static_cast<size_t>(std::min<uint64_t>(left, kBlockBytes)));
    if (block.empty()) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<OldFile> file, OldFile::Open(path_));
    FORMWORK_RETURN_IF_ERROR(file->Read(offset_, block.size(), block.data()));
    offset_ += block.size();
    return absl::OkStatus();
  }
  uint64_t Jump(uint64_t bytes) override {
    const uint64_t jumped = std::min(bytes, file_bytes() - offset_);
    offset_ += jumped;
    return jumped;
  }

 private:
  const FilePath path_;
  uint64_t offset_ = 0;  // Of what has not been read.
};

class InflatedStream final : public InputStream {
 public:
  InflatedStream(FilePath path, uint64_t bytes, Compression compression)
      : InputStream(bytes),
        plain_(path, bytes),
        name_(std::move(path.name)),
        format_(compression == Compression::kGzip ? ISAL_GZIP : ISAL_ZLIB),
        state_(std::make_unique<inflate_state>()) {
    isal_inflate_init(state_.get());
    state_->crc_flag = format_;
  }

  absl::Status Fill(std::string& block) override {
    block.resize(kBlockBytes);
    size_t made = 0;
    while (made == 0) {
      if (WorkIsCut()) return WorkStatus();
      if (state_->block_state == ISAL_BLOCK_FINISH) {
        FORMWORK_ASSIGN_OR_RETURN(const bool more, NextMember());
        if (!more) break;
      }
      if (state_->avail_in == 0) {
        FORMWORK_RETURN_IF_ERROR(plain_.Fill(input_));
        state_->next_in = reinterpret_cast<uint8_t*>(input_.data());
        state_->avail_in = static_cast<uint32_t>(input_.size());
        if (input_.empty() && !begun_) break;  // As TensorFlow has it, nothing is nothing.
      }
      begun_ = true;
      const bool at_end = state_->avail_in == 0;
      state_->next_out = reinterpret_cast<uint8_t*>(block.data());
      state_->avail_out = static_cast<uint32_t>(block.size());
      const int result = isal_inflate(state_.get());
      if (result != ISAL_DECOMP_OK && result != ISAL_END_INPUT) return Damaged(result);
      made = block.size() - state_->avail_out;
      if (made == 0 && at_end && state_->block_state != ISAL_BLOCK_FINISH) {
        return absl::DataLossError(
            absl::StrCat("file '", name_, "' ends within what it compresses"));
      }
    }
    block.erase(made);
    return absl::OkStatus();
  }

 private:
  // A file of gzip's may have several, one behind the other.
  absl::StatusOr<bool> NextMember() {
    if (format_ != ISAL_GZIP) return false;
    if (state_->avail_in == 0) {
      FORMWORK_RETURN_IF_ERROR(plain_.Fill(input_));
      state_->next_in = reinterpret_cast<uint8_t*>(input_.data());
      state_->avail_in = static_cast<uint32_t>(input_.size());
      if (input_.empty()) return false;
    }
    isal_inflate_reset(state_.get());
    state_->crc_flag = format_;
    return true;
  }
  absl::Status Damaged(int result) const {
    const char* const what = result == ISAL_INCORRECT_CHECKSUM ? "has a wrong checksum"
                             : result == ISAL_INVALID_WRAPPER || result == ISAL_UNSUPPORTED_METHOD
                                 ? "is not compressed as it should be"
                                 : "is damaged within what it compresses";
    return absl::DataLossError(absl::StrCat("file '", name_, "' ", what));
  }

  PlainStream plain_;
  const std::string name_;
  const uint32_t format_;
  const std::unique_ptr<inflate_state> state_;
  std::string input_;
  bool begun_ = false;
};

}  // namespace

absl::StatusOr<Compression> CompressionFromName(absl::string_view name) {
  if (name.empty()) return Compression::kNone;
  if (name == "ZLIB") return Compression::kZlib;
  if (name == "GZIP") return Compression::kGzip;
  return InvalidArgument("Unsupported compression_type: ", name.substr(0, 100), ".");
}

absl::StatusOr<std::unique_ptr<InputStream>> InputStream::Open(const FilePath& path,
                                                               Compression compression) {
  FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<OldFile> file, OldFile::Open(path));
  std::unique_ptr<InputStream> stream;
  if (compression == Compression::kNone) {
    stream = std::make_unique<PlainStream>(path, file->size());
  } else {
    stream = std::make_unique<InflatedStream>(path, file->size(), compression);
  }
  return stream;
}

absl::StatusOr<absl::string_view> InputStream::Peek() {
  if (at_ >= block_.size()) {
    at_ = 0;
    const absl::Status filled = Fill(block_);
    if (!filled.ok()) {
      block_.clear();
      return filled;
    }
  }
  return absl::string_view(block_).substr(at_);
}

absl::StatusOr<bool> InputStream::Skip(uint64_t bytes) {
  const uint64_t held = std::min<uint64_t>(bytes, block_.size() - std::min(at_, block_.size()));
  at_ += static_cast<size_t>(held);
  bytes -= held;
  if (bytes > 0) bytes -= Jump(bytes);
  while (bytes > 0) {
    FORMWORK_ASSIGN_OR_RETURN(const absl::string_view next, Peek());
    if (next.empty()) return false;
    const size_t part = static_cast<size_t>(std::min<uint64_t>(bytes, next.size()));
    Advance(part);
    bytes -= part;
  }
  return true;
}

absl::StatusOr<size_t> InputStream::Read(size_t bytes, std::string& to) {
  size_t read = 0;
  while (read < bytes) {
    FORMWORK_ASSIGN_OR_RETURN(const absl::string_view next, Peek());
    if (next.empty()) break;
    const size_t part = std::min(bytes - read, next.size());
    to.append(next.data(), part);
    Advance(part);
    read += part;
  }
  return read;
}

}  // namespace formwork
