#include "gpu/nvml.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/fake_nvml/fake_nvml.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::FakeNvml;
using ::formwork::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr char kBusId[] = "0000:3b:00.0";
constexpr char kFake[] = FORMWORK_FAKE_NVML;

class NvmlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(kFake, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    fake_ = static_cast<FakeNvml*>(dlsym(library_, "fake_nvml"));
    ASSERT_NE(fake_, nullptr);
    for (std::atomic<int>* number :
         {&fake_->init, &fake_->find, &fake_->utilization, &fake_->memory, &fake_->temperature,
          &fake_->power, &fake_->inits, &fake_->finds, &fake_->readings}) {
      number->store(0);
    }
    fake_->percent = 75;
  }
  void TearDown() override { dlclose(library_); }

  void* library_ = nullptr;
  FakeNvml* fake_ = nullptr;
};

TEST_F(NvmlTest, GivesWhatTheLibrarySaysOfTheGpuAtTheBusId) {
  NvmlLoad load(kBusId, kFake);
  EXPECT_EQ(fake_->inits, 0);  // Not before it is wanted.
  ASSERT_OK_AND_ASSIGN(const DeviceLoad got, load.Get());
  EXPECT_THAT(got.utilization, Optional(0.75));
  EXPECT_THAT(got.memory_utilization, Optional(0.74));
  EXPECT_THAT(got.memory_occupied_bytes, Optional(700.0));
  EXPECT_THAT(got.celsius, Optional(45.0));
  EXPECT_THAT(got.watts, Optional(123.4));
  EXPECT_EQ(fake_->bus_id, kBusId);
}

TEST_F(NvmlTest, GivesAReadingAgainForASecond) {
  NvmlLoad load(kBusId, kFake);
  ASSERT_OK(load.Get());
  const absl::Time read = absl::Now();
  fake_->percent = 20;
  ASSERT_OK_AND_ASSIGN(const DeviceLoad again, load.Get());
  if (absl::Now() - read < NvmlLoad::kFresh) {
    EXPECT_THAT(again.utilization, Optional(0.75));
    EXPECT_EQ(fake_->readings, 1);
  }
  absl::SleepFor(NvmlLoad::kFresh);
  ASSERT_OK_AND_ASSIGN(const DeviceLoad later, load.Get());
  EXPECT_THAT(later.utilization, Optional(0.2));
  EXPECT_EQ(fake_->inits, 1);
  EXPECT_EQ(fake_->finds, 1);
}

TEST_F(NvmlTest, LeavesOutWhatAGpuDoesNotTell) {
  constexpr int kNotSupported = 3;
  fake_->utilization = fake_->power = kNotSupported;
  NvmlLoad load(kBusId, kFake);
  ASSERT_OK_AND_ASSIGN(const DeviceLoad got, load.Get());
  EXPECT_EQ(got.utilization, std::nullopt);
  EXPECT_EQ(got.memory_utilization, std::nullopt);
  EXPECT_EQ(got.watts, std::nullopt);
  EXPECT_THAT(got.memory_occupied_bytes, Optional(700.0));
  EXPECT_THAT(got.celsius, Optional(45.0));
}

TEST_F(NvmlTest, SaysWhyNothingIsTold) {
  const auto unavailable = [](const char* text) {
    return StatusIs(absl::StatusCode::kUnavailable, HasSubstr(text));
  };
  {
    fake_->utilization = fake_->memory = fake_->temperature = fake_->power = 15;
    EXPECT_THAT(NvmlLoad(kBusId, kFake).Get(), unavailable("NVML: so it was told (15)"));
  }
  fake_->find = 6;
  EXPECT_THAT(NvmlLoad(kBusId, kFake).Get(), unavailable("NVML: so it was told (6)"));
  fake_->init = 9;
  EXPECT_THAT(NvmlLoad(kBusId, kFake).Get(), unavailable("NVML: so it was told (9)"));
  EXPECT_THAT(NvmlLoad(kBusId, "libnothing-of-the-kind.so.1").Get(),
              unavailable("libnothing-of-the-kind.so.1"));
  EXPECT_THAT(NvmlLoad(kBusId, "libc.so.6").Get(), unavailable("NVML: libc.so.6 lacks functions"));
}

TEST_F(NvmlTest, GoesOnWhereTheGpuTellsAgain) {
  fake_->find = 15;
  NvmlLoad load(kBusId, kFake);
  EXPECT_THAT(load.Get(), StatusIs(absl::StatusCode::kUnavailable));
  fake_->find = 0;
  absl::SleepFor(NvmlLoad::kFresh);
  EXPECT_OK(load.Get());
}

TEST_F(NvmlTest, ALibraryThatHangsHoldsNobodyUpTwice) {
  fake_->hangs = true;
  NvmlLoad load(kBusId, kFake);
  EXPECT_THAT(load.Get(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("it does not answer")));
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 10; ++i) EXPECT_THAT(load.Get(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_LT(absl::Now() - begin, NvmlLoad::kPatience);
  EXPECT_EQ(fake_->readings, 1);
  fake_->hangs = false;
  absl::Status told;
  for (int i = 0; i < 100 && !(told = load.Get().status()).ok(); ++i) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_OK(told);
}

}  // namespace
}  // namespace formwork
