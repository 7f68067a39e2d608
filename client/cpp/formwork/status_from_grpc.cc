#include "formwork/status_from_grpc.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "formwork/client.h"

namespace formwork::client {
namespace {

constexpr char kDetailsKey[] = "grpc-status-details-bin";
constexpr char kPayload[] = "type.googleapis.com/google.rpc.Status";

// The detail of that type, where the status has one.
template <typename Message>
std::optional<Message> Detail(const rpc::Status& status, const char* type) {
  for (const google::protobuf::Any& detail : status.details()) {
    Message message;
    if (detail.type_url() == std::string("type.googleapis.com/") + type &&
        message.ParseFromString(detail.value())) {
      return message;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::Status StatusFrom(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(kDetailsKey);
  if (found != trailers.end()) {
    result.SetPayload(kPayload,
                      absl::Cord(absl::string_view(found->second.data(), found->second.size())));
  }
  return result;
}

absl::Status StatusFrom(const rpc::Status& error) {
  absl::Status result(static_cast<absl::StatusCode>(error.code()), error.message());
  if (!result.ok()) result.SetPayload(kPayload, absl::Cord(error.SerializeAsString()));
  return result;
}

std::optional<ErrorDetails> DetailsOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  rpc::Status message;
  if (!payload || !message.ParseFromString(std::string(*payload))) return std::nullopt;
  ErrorDetails details;
  if (const auto info = Detail<rpc::ErrorInfo>(message, "google.rpc.ErrorInfo")) {
    details.reason = info->reason();
  }
  if (const auto culprits = Detail<rpc::BadRequest>(message, "google.rpc.BadRequest")) {
    for (const auto& violation : culprits->field_violations()) {
      details.culprits.push_back(violation.description());
    }
  }
  if (auto failure = Detail<v1::CallFailure>(message, "formwork.v1.CallFailure")) {
    details.failure = *std::move(failure);
  }
  return details;
}

}  // namespace formwork::client
