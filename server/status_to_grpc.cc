#include "server/status_to_grpc.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/memory_budget.h"
#include "core/base/reason.h"
#include "core/base/utf8.h"
#include "core/function/type_messages.h"
#include "formwork/v1/errors.pb.h"
#include "google/protobuf/descriptor.h"
#include "server/parsed_message.h"

namespace formwork::server {
namespace {

static_assert(static_cast<int>(Reason::kAnswerForgotten) == v1::REASON_ANSWER_FORGOTTEN);
static_assert(static_cast<int>(Reason::kDeviceLost) == v1::REASON_DEVICE_LOST);
static_assert(v1::Reason_ARRAYSIZE == static_cast<int>(Reason::kDeviceLost) + 1);

// What text and details may take together in the trailers, as they are counted there: details in
// base64, text percent-encoded. The rest of the 8 KB is for other headers.
constexpr size_t kTrailerBytes = 7500;
constexpr size_t kMostTrailerBytes = size_t{1} << 20;  // Of a client that says that it takes more.
// Of those, what is left to details beside the text, which is in them once more.
constexpr size_t kDetailBytes = 2500;
// Of a fact: names may be longer.
constexpr size_t kMaxFact = 200;
// What the type URLs, the reason with its facts, and the delay take at most.
constexpr size_t kInfoBytes = 1200;

// Made before main, as kMessageName is.
const google::protobuf::EnumDescriptor& kReasons = *v1::Reason_descriptor();

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

// In the trailers: the text itself, and in the details.
size_t TextSize(absl::string_view text) { return PercentEncodedSize(text) + text.size() * 4 / 3; }

std::string ErrorText(const absl::Status& status, size_t room) {
  const std::string text =
      ToValidUtf8(absl::string_view(status.message().data(), status.message().size()));
  std::string cut(Utf8Prefix(text, kMaxErrorText - 32));
  while (TextSize(cut) + kDetailBytes > room) {
    cut.resize(Utf8Prefix(cut, cut.size() * 7 / 8).size());
  }
  if (cut.size() < text.size()) {
    absl::StrAppend(&cut, " ... (", text.size() - cut.size(), " bytes more)");
  }
  return cut;
}

// Of the text, in a violation beside it.
constexpr size_t kMaxViolationText = 512;

// How soon a request that was refused may be sent again; zero: it makes no sense. `facts`: of the
// status.
absl::Duration RetryDelay(Reason reason, Effects effects,
                          const google::protobuf::Map<std::string, std::string>& facts) {
  switch (reason) {
    case Reason::kQueueFull:
      return absl::Milliseconds(100);
    case Reason::kDraining:
      return absl::Seconds(1);
    case Reason::kMemoryLimit: {
      // Others may give back what is missing, unless it is more than there is.
      const auto number = [&](const char* key) {
        const auto found = facts.find(key);
        uint64_t value = 0;
        return found != facts.end() && absl::SimpleAtoi(found->second, &value) ? value : 0;
      };
      const uint64_t wanted = number("wantedBytes");
      const bool may_fit = wanted != 0 && wanted <= number("limitBytes");
      return may_fit && effects == Effects::kNone ? absl::Seconds(1) : absl::ZeroDuration();
    }
    default:
      return absl::ZeroDuration();
  }
}

// What can be left out where there is no room for it.
struct Parts {
  rpc::BadRequest culprits;
  ArenaMessage<v1::CallFailure> failure;

  size_t bytes() const { return culprits.ByteSizeLong() + failure->ByteSizeLong(); }
};

void Fill(const absl::Status& status, const ErrorDetails& details, uint64_t epoch, Parts* to) {
  Parts& parts = *to;
  const auto add_culprit = [&](const std::string& field, absl::string_view text) {
    auto* violation = parts.culprits.add_field_violations();
    violation->set_field(ToValidUtf8(field));
    violation->set_description(ToValidUtf8(text));
  };
  for (const std::string& culprit : details.culprits) add_culprit("graph_def", culprit);
  if (std::string field = FieldOf(status); !field.empty() && details.culprits.empty()) {
    const std::string text(status.message());
    add_culprit(field, Utf8Prefix(text, kMaxViolationText));
  }
  parts.failure->set_epoch(epoch);
  parts.failure->set_effects(static_cast<v1::Effects>(details.effects));
  for (const FunctionType& type : details.candidates) {
    ToMessage(type, parts.failure->add_candidates());
  }
  if (details.suggested) ToMessage(*details.suggested, parts.failure->mutable_suggested());
}

// Leaves out half of a list at a time, from the end, until the parts fit.
template <typename Repeated>
void TrimUntilFits(Repeated* list, const Parts& parts, size_t bytes) {
  while (!list->empty() && parts.bytes() > bytes) {
    const int keep = list->size() / 2;
    list->DeleteSubrange(keep, list->size() - keep);
  }
}

void Trim(Parts* parts, size_t bytes) {
  TrimUntilFits(parts->failure->mutable_printed(), *parts, bytes);
  TrimUntilFits(parts->culprits.mutable_field_violations(), *parts, bytes);
  TrimUntilFits(parts->failure->mutable_candidates(), *parts, bytes);
  if (parts->bytes() > bytes) parts->failure->clear_suggested();
}

void AddDetail(const char* type, const google::protobuf::Message& message, rpc::Status* status) {
  google::protobuf::Any* detail = status->add_details();
  detail->set_type_url(absl::StrCat("type.googleapis.com/", type));
  detail->set_value(message.SerializeAsString());
}

void ToMessage(const absl::Status& status, rpc::ErrorInfo* info) {
  // By its name, without "REASON_".
  const int number = static_cast<int>(ReasonOf(status));
  info->set_reason(kReasons.FindValueByNumber(number)->name().substr(7));
  info->set_domain("formwork");
  for (const auto& [key, value] : FactsOf(status)) {
    (*info->mutable_metadata())[key] = ToValidUtf8(Utf8Prefix(value, kMaxFact));
  }
}

rpc::Status Join(const absl::Status& status, Effects effects, std::string text,
                 const Parts& parts) {
  rpc::Status joined;
  joined.set_code(static_cast<int32_t>(status.code()));
  joined.set_message(std::move(text));
  const Reason reason = ReasonOf(status);
  ArenaMessage<rpc::ErrorInfo> info;
  if (reason != Reason::kNone) {
    ToMessage(status, &*info);
    AddDetail("google.rpc.ErrorInfo", *info, &joined);
  }
  if (const absl::Duration delay = RetryDelay(reason, effects, info->metadata());
      delay > absl::ZeroDuration()) {
    rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(absl::ToInt64Seconds(delay));
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(absl::ToInt64Nanoseconds(delay % absl::Seconds(1))));
    AddDetail("google.rpc.RetryInfo", retry, &joined);
  }
  if (!parts.culprits.field_violations().empty()) {
    AddDetail("google.rpc.BadRequest", parts.culprits, &joined);
  }
  AddDetail("formwork.v1.CallFailure", *parts.failure, &joined);
  return joined;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status, const ErrorDetails& details, uint64_t epoch,
                    grpc::CallbackServerContext* context, absl::Span<const std::string> printed) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  grpc::Status answer(code, "");
  CatchOutOfMemory([&] {
    const size_t room = RoomFor(*context);
    const std::string text = ErrorText(status, room);
    Parts parts;
    Fill(status, details, epoch, &parts);
    for (const std::string& line : printed) parts.failure->add_printed(ToValidUtf8(line));
    Trim(&parts, (room - TextSize(text)) * 3 / 4 - kInfoBytes);
    context->AddTrailingMetadata(kStatusDetailsKey,
                                 Join(status, details.effects, text, parts).SerializeAsString());
    answer = grpc::Status(code, text);
    return absl::OkStatus();
  }).IgnoreError();
  return answer;
}

rpc::Status ToErrorMessage(const absl::Status& status, const ErrorDetails& details,
                           uint64_t epoch) {
  Parts parts;
  Fill(status, details, epoch, &parts);
  return Join(status, details.effects, ErrorText(status, kMostTrailerBytes), parts);
}

}  // namespace formwork::server
