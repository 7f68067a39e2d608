#include "core/graph/parse_message.h"

#include <cstdint>
#include <limits>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace formwork {
namespace {

// Bytes in blocks, between which parsing can be stopped.
class BlockStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit BlockStream(absl::string_view bytes)
      : bytes_(bytes.data(), static_cast<int>(bytes.size()), kBlockBytes) {}
  bool Next(const void** data, int* size) override {
    return !WorkIsCut() && bytes_.Next(data, size);
  }
  void BackUp(int count) override { bytes_.BackUp(count); }
  bool Skip(int count) override { return bytes_.Skip(count); }
  int64_t ByteCount() const override { return bytes_.ByteCount(); }

 private:
  static constexpr int kBlockBytes = 1 << 20;
  google::protobuf::io::ArrayInputStream bytes_;
};

}  // namespace

absl::Status ParseMessage(absl::string_view bytes, absl::string_view what,
                          google::protobuf::MessageLite& message) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return InvalidArgument(what, " too large: bytes=", bytes.size());
  }
  BlockStream raw(bytes);
  google::protobuf::io::CodedInputStream input(&raw);
  input.SetRecursionLimit(200);
  if (!message.ParseFromCodedStream(&input) || !input.ConsumedEntireMessage()) {
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    return InvalidArgument("the bytes are not a ", what, ": bytes=", bytes.size());
  }
  return absl::OkStatus();
}

}  // namespace formwork
