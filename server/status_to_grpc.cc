#include "server/status_to_grpc.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/type_messages.h"
#include "server/utf8.h"

namespace formwork::server {
namespace {

// What text and details may take together in the trailers, as they are counted there: details in
// base64, text percent-encoded. The rest of the 8 KB is for other headers.
constexpr size_t kTrailerBytes = 7500;
constexpr size_t kMostTrailerBytes = size_t{1} << 20;  // Of a client that says that it takes more.

size_t RoomFor(const grpc::CallbackServerContext& context) {
  auto said = context.client_metadata().find(kErrorRoomKey);
  size_t room = 0;
  if (said == context.client_metadata().end() ||
      !absl::SimpleAtoi(absl::string_view(said->second.data(), said->second.size()), &room)) {
    return kTrailerBytes;
  }
  return std::clamp(room, kTrailerBytes, kMostTrailerBytes);
}

size_t PercentEncodedSize(absl::string_view text) {
  size_t bytes = 0;
  for (char c : text) bytes += c >= ' ' && c <= '~' && c != '%' ? 1 : 3;
  return bytes;
}

std::string ErrorText(const absl::Status& status) {
  const std::string text =
      ToValidUtf8(absl::string_view(status.message().data(), status.message().size()));
  std::string cut(Utf8Prefix(text, kMaxErrorText - 32));
  // Control and other characters take three bytes each in the trailers.
  while (PercentEncodedSize(cut) > kTrailerBytes - 1024)
    cut.resize(Utf8Prefix(cut, cut.size() * 3 / 4).size());
  if (cut.size() < text.size()) {
    absl::StrAppend(&cut, " ... (", text.size() - cut.size(), " bytes more)");
  }
  return cut;
}

bool Fits(const v1::ErrorDetails& details, size_t bytes) { return details.ByteSizeLong() <= bytes; }

// Leaves out half of a list at a time, from the end, until the details fit.
template <typename Repeated>
void TrimUntilFits(Repeated* list, const v1::ErrorDetails& details, size_t bytes) {
  while (!list->empty() && !Fits(details, bytes)) {
    const int keep = list->size() / 2;
    list->DeleteSubrange(keep, list->size() - keep);
  }
}

std::string TrimmedDetails(v1::ErrorDetails details, size_t bytes) {
  TrimUntilFits(details.mutable_printed(), details, bytes);
  TrimUntilFits(details.mutable_culprits(), details, bytes);
  TrimUntilFits(details.mutable_candidates(), details, bytes);
  if (!Fits(details, bytes)) details.clear_suggested();
  return details.SerializeAsString();
}

}  // namespace

v1::ErrorDetails ToMessage(const ErrorDetails& details, uint64_t epoch) {
  v1::ErrorDetails message;
  message.set_epoch(epoch);
  message.set_effects(static_cast<v1::ErrorDetails::Effects>(details.effects));
  for (const std::string& culprit : details.culprits) {
    message.add_culprits(ToValidUtf8(culprit));
  }
  for (const FunctionType& type : details.candidates) ToMessage(type, message.add_candidates());
  if (details.suggested) ToMessage(*details.suggested, message.mutable_suggested());
  message.set_no_matching_signature(details.no_matching_signature);
  message.set_unknown_function(details.unknown_function);
  return message;
}

grpc::Status ToGrpc(const absl::Status& status, const ErrorDetails& details, uint64_t epoch,
                    grpc::CallbackServerContext* context, absl::Span<const std::string> printed) {
  if (status.ok()) return grpc::Status::OK;
  const std::string text = ErrorText(status);
  const size_t left = (RoomFor(*context) - PercentEncodedSize(text)) * 3 / 4;
  v1::ErrorDetails message = ToMessage(details, epoch);
  for (const std::string& line : printed) message.add_printed(ToValidUtf8(line));
  context->AddTrailingMetadata(kErrorDetailsKey, TrimmedDetails(std::move(message), left));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), text);
}

v1::Error ToErrorMessage(const absl::Status& status, const ErrorDetails& details, uint64_t epoch) {
  v1::Error error;
  error.set_code(static_cast<int32_t>(status.code()));
  error.set_message(ErrorText(status));
  *error.mutable_details() = ToMessage(details, epoch);
  return error;
}

}  // namespace formwork::server
