#include "core/runtime/device_watch.h"

#include <atomic>
#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/device/host_allocator.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kStall = absl::Milliseconds(300);
constexpr absl::Duration kPatience = absl::Seconds(10);

class Ailing final : public Device {
 public:
  absl::string_view name() const override { return "ailing:0"; }
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override {
    return absl::UnavailableError("it has none");
  }
  Allocator& allocator() override { return allocator_; }
  absl::Status Health() const override {
    looks.fetch_add(1);
    if (hangs) answers.WaitForNotification();
    return lost ? absl::UnavailableError("it burns") : absl::OkStatus();
  }

  mutable std::atomic<int> looks{0};
  std::atomic<bool> lost{false}, hangs{false};
  mutable absl::Notification answers;

 private:
  HostAllocator allocator_;
};

absl::Time Nobody() { return absl::InfiniteFuture(); }

TEST(DeviceWatchTest, TellsAllWhoAskOnceTheDeviceSaysThatItIsLost) {
  Ailing device;
  DeviceWatch watch(device, absl::ZeroDuration(), &Nobody);
  watch.Start();
  absl::Notification told;
  std::string text;
  watch.OnceLost([&](const absl::Status& lost) {
    text = std::string(lost.message());
    told.Notify();
  });
  while (device.looks < 2) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_OK(watch.status());
  device.lost = true;
  ASSERT_TRUE(told.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(text, "device ailing:0 is lost: it burns");
  EXPECT_THAT(watch.status(), StatusIs(absl::StatusCode::kUnavailable));
  const int looks = device.looks;
  bool at_once = false;
  watch.OnceLost([&](const absl::Status&) { at_once = true; });
  EXPECT_TRUE(at_once);
  EXPECT_EQ(device.looks, looks);  // It stays lost.
}

TEST(DeviceWatchTest, OneThatDoesNotAnswerIsLost) {
  Ailing device;
  device.hangs = true;
  {
    DeviceWatch watch(device, kStall, &Nobody);
    watch.Start();
    absl::Notification told;
    watch.OnceLost([&](const absl::Status&) { told.Notify(); });
    ASSERT_TRUE(told.WaitForNotificationWithTimeout(kPatience));
    EXPECT_THAT(watch.status().message(), HasSubstr("it has not answered for 300ms"));
    device.answers.Notify();
  }
  Ailing patient;
  patient.hangs = true;
  DeviceWatch watch(patient, absl::ZeroDuration(), &Nobody);
  watch.Start();
  absl::SleepFor(2 * DeviceWatch::kInterval);
  EXPECT_OK(watch.status());
  patient.answers.Notify();
}

TEST(DeviceWatchTest, OneOnWhichNothingGoesOnIsLost) {
  Ailing device;
  std::atomic<bool> goes_on{true};
  const absl::Time began = absl::Now();
  DeviceWatch watch(device, kStall, [&] { return goes_on ? absl::Now() : began; });
  watch.Start();
  absl::SleepFor(3 * kStall);
  EXPECT_OK(watch.status());
  absl::Notification told;
  watch.OnceLost([&](const absl::Status&) { told.Notify(); });
  goes_on = false;
  ASSERT_TRUE(told.WaitForNotificationWithTimeout(kPatience));
  EXPECT_THAT(watch.status().message(), HasSubstr("nothing has gone on there for 300ms"));
}

}  // namespace
}  // namespace formwork
