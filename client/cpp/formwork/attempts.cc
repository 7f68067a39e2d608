#include "formwork/attempts.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "formwork/client.h"
#include "formwork/v1/calls.pb.h"

namespace formwork::client {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

std::string RandomName() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&name, absl::Hex(random(), absl::kZeroPad8));
  return name;
}

// What gRPC says where there was no connection to send a request on.
bool NeverSent(const absl::Status& status) {
  return absl::StartsWith(status.message(), "failed to connect to all addresses") ||
         absl::StartsWith(status.message(), "connections to all backends failing");
}

}  // namespace

Origin::Origin() : client_id_(RandomName()) {}

void Origin::NoteEpoch(const absl::Status& status) {
  if (const std::optional<ErrorDetails> details = DetailsOf(status)) {
    NoteEpoch(details->failure.epoch());
  }
}

Origin::Number Origin::Begin() {
  absl::MutexLock lock(&mutex_);
  open_.push_back(++last_);
  return {last_, open_.front() - 1};
}

void Origin::End(Number number) {
  absl::MutexLock lock(&mutex_);
  open_.erase(std::lower_bound(open_.begin(), open_.end(), number.sequence));
}

Attempts::Attempts(uint64_t epoch, absl::Duration retry_for, absl::Duration timeout, bool numbered)
    : epoch_(epoch),
      deadline_(absl::Now() + timeout),
      last_begin_(absl::Now() + std::min(retry_for, timeout)),
      numbered_(numbered),
      began_(absl::Now()),
      pause_(kFirstPause) {}

std::optional<absl::Duration> Attempts::Failed(absl::Status& status) {
  const std::optional<ErrorDetails> details = DetailsOf(status);
  const v1::Effects effects =
      details ? details->failure.effects() : v1::Effects::EFFECTS_UNSPECIFIED;
  if (lost_ && details && details->reason == "EPOCH_MISMATCH") {
    status = absl::Status(lost_status_.code(),
                          absl::StrCat(lost_status_.message(),
                                       "; the server was restarted before it was asked again, so "
                                       "that whether the request took effect is not known"));
    return std::nullopt;
  }
  if (!absl::IsUnavailable(status) || effects == v1::EFFECTS_SOME || effects == v1::EFFECTS_ALL) {
    return std::nullopt;
  }
  if (numbered_ && !lost_ && effects != v1::EFFECTS_NONE && !NeverSent(status)) {
    lost_ = began_;
    lost_status_ = status;
  }
  if (lost_ && epoch_ == 0) return std::nullopt;  // Whether it is the same server is not known.
  static thread_local std::minstd_rand random(std::random_device{}());
  const absl::Duration pause = pause_ * std::uniform_real_distribution<>(0.5, 1)(random);
  pause_ = std::min(2 * pause_, kLongestPause);
  began_ = absl::Now() + pause;
  if (began_ >= last_begin_) return std::nullopt;
  return pause;
}

uint64_t MillisecondsSince(absl::Time sent) {
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(absl::Now() - sent)) + 1;
}

std::string Attempts::Mark() const { return lost_ ? RepeatFields(epoch_, *lost_) : ""; }

std::string RepeatFields(uint64_t epoch, absl::Time sent) {
  v1::CallRequest fields;  // They are the same in all messages.
  fields.set_expected_epoch(epoch);
  fields.set_first_sent_ms_ago(MillisecondsSince(sent));
  return fields.SerializeAsString();
}

grpc::ByteBuffer Appended(const grpc::ByteBuffer& message, const std::string& fields) {
  if (fields.empty()) return message;
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return message;
  slices.emplace_back(fields);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace formwork::client
