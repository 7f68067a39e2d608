// Runs the cases of tests/ops/stopped for calls that are to stop: kernels.optest for one that has
// been cancelled before, long.optest for one whose deadline passes meanwhile.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "absl/base/config.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"

namespace formwork::testing {
namespace {

class StoppedKernels : public ::testing::Test {
 protected:
  StoppedKernels() {
    RegisterOps(ops_);
    RegisterCpuKernels(kernels_);
  }
  // Of a file of tests/ops/stopped; runs each.
  template <typename Run>
  void ForEachCase(const std::string& name, size_t at_least, Run run) {
    const std::string file = FORMWORK_OP_CASES "/stopped/" + name;
    std::ifstream stream(file);
    std::stringstream text;
    text << stream.rdbuf();
    absl::StatusOr<std::vector<OpCase>> cases = ParseOpCases(file, text.str());
    ASSERT_TRUE(cases.ok()) << cases.status();
    EXPECT_GE(cases->size(), at_least);
    for (const OpCase& op_case : *cases) {
      const absl::Status status = run(op_case);
      EXPECT_TRUE(status.ok()) << op_case.file << ":" << op_case.line << ": " << op_case.op << ": "
                               << status;
    }
  }

  OpRegistry ops_;
  KernelRegistry kernels_{ops_};
};

TEST_F(StoppedKernels, LeaveTheirWorkUndone) {
  ForEachCase("kernels.optest", 60,
              [this](const OpCase& op_case) { return RunStoppedCase(op_case, ops_, kernels_); });
}

TEST_F(StoppedKernels, EndSoonAfterADeadline) {
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  GTEST_SKIP() << "the proportions of an instrumented build say nothing";
#endif
  ForEachCase("long.optest", 10,
              [this](const OpCase& op_case) { return RunLateCase(op_case, ops_, kernels_); });
}

}  // namespace
}  // namespace formwork::testing
