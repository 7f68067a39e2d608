// Runs every case of tests/ops/*.optest on the CPU's kernels. Each case is a test of its own:
// OpCase.<family>/<line>_<op>. Where FORMWORK_ISA names a level of vector instructions that the
// machine does not have it runs none and exits with kNoSuchLevel.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "core/kernels/isa.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"

namespace formwork::testing {
namespace {

struct Registries {
  OpRegistry ops;
  KernelRegistry kernels{ops};
};

class OpCaseTest : public ::testing::Test {
 public:
  OpCaseTest(const Registries& registries, const OpCase& op_case)
      : registries_(registries), case_(op_case) {}

  void TestBody() override {
    absl::Status status = RunOpCase(case_, registries_.ops, registries_.kernels);
    EXPECT_TRUE(status.ok()) << case_.file << ":" << case_.line << ": " << case_.op << ": "
                             << status;
  }

 private:
  const Registries& registries_;
  const OpCase& case_;
};

// Registers a test per case. False where a file does not parse.
bool RegisterCases(const Registries& registries, std::vector<OpCase>& cases) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(FORMWORK_OP_CASES)) {
    if (entry.path().extension() == ".optest") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& path : files) {
    std::ifstream stream(path);
    std::stringstream text;
    text << stream.rdbuf();
    absl::StatusOr<std::vector<OpCase>> parsed = ParseOpCases(path.string(), text.str());
    if (!parsed.ok()) {
      std::cerr << parsed.status() << "\n";
      return false;
    }
    for (OpCase& op_case : *parsed) cases.push_back(std::move(op_case));
  }
  for (const OpCase& op_case : cases) {
    const std::string family = std::filesystem::path(op_case.file).stem().string();
    const std::string name = absl::StrCat(family, "/", op_case.line, "_", op_case.op);
    ::testing::RegisterTest("OpCase", name.c_str(), nullptr, nullptr, op_case.file.c_str(),
                            op_case.line, [&registries, &op_case]() -> ::testing::Test* {
                              return new OpCaseTest(registries, op_case);
                            });
  }
  return true;
}

}  // namespace
}  // namespace formwork::testing

int main(int argc, char** argv) {
  constexpr int kNoSuchLevel = 77;  // tests/CMakeLists.txt makes it "skipped".
  ::testing::InitGoogleTest(&argc, argv);
  const absl::StatusOr<std::optional<formwork::Isa>> level = formwork::IsaSetting();
  if (!level.ok()) {
    std::cerr << level.status() << "\n";
    return 1;
  }
  if (*level && **level > formwork::HostIsa()) {
    std::cerr << "this machine has no " << formwork::IsaName(**level) << "\n";
    return kNoSuchLevel;
  }
  formwork::testing::Registries registries;
  formwork::RegisterOps(registries.ops);
  formwork::RegisterCpuKernels(registries.kernels);
  std::vector<formwork::testing::OpCase> cases;
  if (!formwork::testing::RegisterCases(registries, cases)) return 1;
  return RUN_ALL_TESTS();
}
