#pragma once

// Reading JSON by the events of RapidJSON. For few .cc files, as that is.

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/tensor/shape.h"
#include "server/serving/json_library.h"

namespace formwork::server {

/// The lists of a tensor, and the objects and lists around and in them.
inline constexpr int kMostJsonNested = kMaxRank + 4;

/// RapidJSON counts in 32 bits. Errors: kInvalidArgument where the text is longer.
inline absl::Status CheckJsonSize(absl::string_view text) {
  constexpr size_t kMost = std::numeric_limits<int32_t>::max();
  if (text.size() <= kMost) return absl::OkStatus();
  return InvalidArgument("JSON: ", text.size(), " bytes are more than the ", kMost,
                         " that are read");
}

/// Hands what the stream has to `handler`, whose status() says why it stopped where it did.
template <unsigned kNumbers, typename Handler>
absl::Status ParseJson(rapidjson::MemoryStream& stream, Handler& handler) {
  constexpr unsigned kFlags =
      kNumbers | rapidjson::kParseNanAndInfFlag | rapidjson::kParseIterativeFlag;  // No recursion.
  rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, JsonMemory> reader;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
  if (!handler.status().ok()) return handler.status();
  if (result.IsError()) {
    return InvalidArgument("JSON: at byte ", result.Offset(), ": ",
                           rapidjson::GetParseError_En(result.Code()));
  }
  // It takes a zero byte for the end.
  if (stream.Tell() != stream.size_) {
    return InvalidArgument("JSON: at byte ", stream.Tell(), ": a zero byte");
  }
  return absl::OkStatus();
}

}  // namespace formwork::server
