// Runs every case of tests/ops/stopped/kernels.optest for a call that has been cancelled: work that
// takes some milliseconds must notice.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"

namespace formwork::testing {
namespace {

TEST(StoppedKernels, LeaveTheirWorkUndone) {
  OpRegistry ops;
  KernelRegistry kernels;
  RegisterOps(ops);
  RegisterCpuKernels(kernels);
  const std::string file = FORMWORK_OP_CASES "/stopped/kernels.optest";
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  absl::StatusOr<std::vector<OpCase>> cases = ParseOpCases(file, text.str());
  ASSERT_TRUE(cases.ok()) << cases.status();
  EXPECT_GT(cases->size(), 60u);
  for (const OpCase& op_case : *cases) {
    const absl::Status status = RunStoppedCase(op_case, ops, kernels);
    EXPECT_TRUE(status.ok()) << op_case.file << ":" << op_case.line << ": " << op_case.op << ": "
                             << status;
  }
}

}  // namespace
}  // namespace formwork::testing
