#include "formwork/status_from_grpc.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "formwork/client.h"

namespace formwork::client {
namespace {

constexpr char kDetailsKey[] = "formwork-error-bin";
constexpr char kPayload[] = "type.googleapis.com/formwork.v1.ErrorDetails";

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

absl::Status StatusFrom(const v1::Error& error) {
  absl::Status result(static_cast<absl::StatusCode>(error.code()), error.message());
  if (!result.ok()) result.SetPayload(kPayload, absl::Cord(error.details().SerializeAsString()));
  return result;
}

std::optional<v1::ErrorDetails> DetailsOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  v1::ErrorDetails details;
  if (!payload || !details.ParseFromString(std::string(*payload))) return std::nullopt;
  return details;
}

}  // namespace formwork::client
