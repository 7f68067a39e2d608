// Mutexes: MutexV2, MutexLock, ConsumeMutexLock.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/device/host_allocator.h"
#include "core/kernels/resource/stored_form.h"
#include "core/ops/mutex.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

constexpr absl::string_view kMutex =
    "m = MutexV2 shared_name=\"m\"\nx = Placeholder dtype=float\nl = MutexLock(m)\n";

class MutexTest : public EngineTest {
 protected:
  // Of `text` behind a first lock, with `target` as its last op.
  absl::Status RunOf(absl::string_view text, const std::string& target) {
    FORMWORK_ASSIGN_OR_RETURN(
        const Registered made,
        Register(target, absl::StrCat(kMutex, text, "y = Identity(x) T=float"), {Spec("x:0")},
                 {"y:0"}, {}, {target}, /*replace=*/true));
    return Run(made.function.id, Owned(Tensor::Scalar(1.0f))).status;
  }
};

TEST_F(MutexTest, SectionsFollowEachOther) {
  for (int call = 0; call < 3; ++call) {
    ASSERT_OK(
        RunOf("c = ConsumeMutexLock(l)\nl2 = MutexLock(m, ^c)\nc2 = ConsumeMutexLock(l2)\n", "c2"));
  }
}

TEST_F(MutexTest, ALockThatNobodyHasIsGone) {
  ASSERT_OK(RunOf("l2 = MutexLock(m, ^l)\nc2 = ConsumeMutexLock(l2)\n", "c2"));
}

TEST_F(MutexTest, ACallThatWouldWaitForItselfIsTold) {
  constexpr absl::string_view kWithin =
      "l2 = MutexLock(m, ^l)\nc2 = ConsumeMutexLock(l2)\nc = ConsumeMutexLock(l, ^c2)\n";
  const absl::Status status = RunOf(kWithin, "c");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("holds the lock"));
  // It has not kept the lock.
  EXPECT_OK(RunOf("c3 = ConsumeMutexLock(l)\n", "c3"));
}

TEST_F(MutexTest, OtherThingsAreNoMutexesAndNoLocks) {
  const absl::Status status = RunOf(
      "v = MutableHashTableV2 shared_name=\"w\" key_dtype=string value_dtype=float\n"
      "n = MutexLock(v)\n",
      "n");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("not a mutex's"));
  const absl::Status consumed =
      RunOf("o = OptionalNone()\nd = ConsumeMutexLock(o)\ne = ConsumeMutexLock(l)\n", "d");
  EXPECT_EQ(consumed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(consumed.message()), ::testing::HasSubstr("SharedLockReleaser"));
}

TEST_F(MutexTest, IsUnlockedOnDisk) {
  const StoredForm* const form = FindStoredForm("mutex");
  ASSERT_NE(form, nullptr);
  const ResourceType type{&kMutexKind, {{DType::kBool, Shape()}}};
  HostAllocator allocator;
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> parts, form->parts(type, Tensor(), allocator));
  EXPECT_OK(form->value(type, parts));
  EXPECT_FALSE(form->value(type, {}).ok());
}

}  // namespace
}  // namespace formwork::testing
