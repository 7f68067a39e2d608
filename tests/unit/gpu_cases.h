#pragma once

// The cases of tests/ops on kernels that run a GPU's functions on the host.

#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {

struct GpuCases {
  std::vector<std::string> files;  ///< Of tests/ops, without what they end with.
  bool some_are_hosts = false;     ///< A kernel may say that it leaves a dtype to the host.
  /// Makes a case what the kernels are to give; false: it is none of theirs. Null: all are.
  std::function<bool(OpCase& op_case)> edit = nullptr;
};

/// Runs those of ops that `kernels` has. How many of each op there were.
inline std::map<std::string, int> RunGpuCases(const GpuCases& of, const OpRegistry& ops,
                                              const KernelRegistry& kernels) {
  std::map<std::string, int> tried;
  for (const std::string& file : of.files) {
    std::ifstream stream("tests/ops/" + file + ".optest");
    std::stringstream text;
    text << stream.rdbuf();
    absl::StatusOr<std::vector<OpCase>> cases = ParseOpCases(file, text.str());
    EXPECT_OK(cases);
    if (!cases.ok()) continue;
    for (OpCase& op_case : *cases) {
      if (kernels.Find(op_case.op) == nullptr || (of.edit && !of.edit(op_case))) continue;
      const absl::Status status = RunOpCase(op_case, ops, kernels);
      if (of.some_are_hosts && absl::StrContains(status.ToString(), "leaves to the host")) continue;
      EXPECT_OK(status) << file << ":" << op_case.line << " " << op_case.op;
      ++tried[op_case.op];
    }
  }
  return tried;
}

}  // namespace formwork::testing
