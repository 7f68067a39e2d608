#include "core/kernels/isa.h"

#include <oneapi/dnnl/dnnl.h>

#include <cstdio>
#include <cstdlib>

#include "core/kernels/gemm/onednn_setup.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

// The level is chosen once per process: each statement runs in one of its own, which begins anew
// with what the environment says then.
class IsaDeathTest : public ::testing::Test {
 protected:
  IsaDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~IsaDeathTest() override { unsetenv("FORMWORK_ISA"); }

  const Isa machine_ = HostIsa();  // Before the environment says otherwise.
};

[[noreturn]] void PrintLevels() {
  const absl::StatusOr<std::optional<Isa>> setting = IsaSetting();
  SetUpOnednn();
  std::fprintf(stderr, "level %s, oneDNN %x, %s\n", IsaName(HostIsa()),
               static_cast<unsigned>(dnnl_get_effective_cpu_isa()),
               setting.status().ToString().c_str());
  std::exit(0);
}

TEST_F(IsaDeathTest, TheEnvironmentLowersTheLevelOfKernelsAndOfOnednn) {
  setenv("FORMWORK_ISA", "baseline", 1);
  EXPECT_EXIT(PrintLevels(), ::testing::ExitedWithCode(0), "level baseline, oneDNN [01], OK");
  if (machine_ < Isa::kAvx2) GTEST_SKIP() << "no AVX2";
  setenv("FORMWORK_ISA", "avx2", 1);
  EXPECT_EXIT(PrintLevels(), ::testing::ExitedWithCode(0), "level avx2, oneDNN 7, OK");
}

TEST_F(IsaDeathTest, TheEnvironmentDoesNotRaiseTheLevel) {
  if (machine_ == Isa::kAvx512) GTEST_SKIP() << "this machine has the highest";
  setenv("FORMWORK_ISA", "avx512", 1);
  EXPECT_EXIT(PrintLevels(), ::testing::ExitedWithCode(0), "level (baseline|avx2), .*, OK");
}

TEST_F(IsaDeathTest, AnUnknownLevelIsAnErrorThatNamesTheOthers) {
  setenv("FORMWORK_ISA", "sse", 1);
  EXPECT_EXIT(PrintLevels(), ::testing::ExitedWithCode(0),
              "FORMWORK_ISA: not one of baseline, avx2, avx512: sse");
}

}  // namespace
}  // namespace formwork
