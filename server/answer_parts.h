#pragma once

// The answer to a call in parts of about a megabyte: what is printed as it is printed, large
// outputs in chunks, then the result.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/tensor_codec.h"

namespace formwork::server {

/// A function of the client's that it is asked to run.
struct ClientFunctionQuestion {
  uint64_t id = 0;
  std::string token;
  std::vector<CallOutput> inputs;  ///< Tensors.

  size_t EncodedSize() const;
};

/// Not thread-safe.
class AnswerParts {
 public:
  /// `max_message_bytes`: a part is smaller.
  AnswerParts(uint64_t epoch, uint64_t call_id, size_t max_message_bytes)
      : epoch_(epoch),
        call_id_(call_id),
        chunk_bytes_(std::min(kMostChunkBytes, max_message_bytes / 8)) {}

  /// What was printed since. Of what nobody reads in time, that beyond some megabytes is left out.
  void AddPrinted(absl::string_view text);
  /// Goes behind what has been printed. The one before has been taken: it was answered.
  void SetQuestion(ClientFunctionQuestion question) { question_ = std::move(question); }
  /// The call has ended; what it printed has been added. Looks at every string of its outputs, and
  /// encodes its timeline.
  void SetResult(CallResult result);

  bool HasNext() const { return !printed_.empty() || question_ || (result_ && !done_); }
  /// The next part, where there is one. Holds the outputs that it shows until it is destroyed.
  grpc::ByteBuffer Next();
  /// The last part has been given.
  bool done() const { return done_; }
  /// Of the outputs that are not sent yet.
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kMostChunkBytes = size_t{1} << 20;

  struct Chunked {
    size_t output;
    ContentPieces pieces;
  };

  void WriteChunk(WireWriter* writer);
  void WriteQuestion(WireWriter* writer);

  const uint64_t epoch_;
  const uint64_t call_id_;
  const size_t chunk_bytes_;
  std::vector<std::string> printed_;
  size_t printed_bytes_ = 0;
  bool left_out_ = false;
  std::string timeline_;  // Encoded; goes with the last part.
  std::optional<ClientFunctionQuestion> question_;
  std::optional<CallResult> result_;
  std::vector<Chunked> chunked_;  // The first has the next chunk.
  size_t next_chunked_ = 0;
  size_t bytes_ = 0;
  bool done_ = false;
};

}  // namespace formwork::server
