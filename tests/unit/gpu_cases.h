#pragma once

// The cases of tests/ops on kernels that run a GPU's functions on the host.

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gpu/item_functions.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {

/// Memory as a GPU's is: it begins at a multiple of 16 bytes, and what the kernel must not touch
/// lies around it.
class Aligned {
 public:
  explicit Aligned(const Tensor& tensor)
      : bytes_(tensor.bytes()),
        blocks_(bytes_ / 16 + 3, formwork_element::Bytes16{{~0ull, ~0ull}}) {
    if (bytes_ > 0) std::memcpy(data(), tensor.raw(), bytes_);
  }
  char* data() { return reinterpret_cast<char*>(blocks_.data() + 1); }
  void CopyTo(Tensor& tensor) {
    if (bytes_ > 0) std::memcpy(tensor.mutable_raw(), data(), bytes_);
    EXPECT_EQ(blocks_[0].of[1], ~0ull);
    for (size_t i = bytes_; i < (blocks_.size() - 1) * 16; ++i) EXPECT_EQ(data()[i], '\xff');
  }

 private:
  const size_t bytes_;
  std::vector<formwork_element::Bytes16> blocks_;
};

/// Items of a kernel run in any order: here from the last to the first.
template <typename Item, typename Count>
void RunItems(const Item& item, Count n) {
  for (auto i = static_cast<uint64_t>(n); i-- > 0;) item(i);
}

/// Whether a GPU may give other elements than TensorFlow's CPU kernel, whose heap decides: of the
/// first k of more where no order is asked for, or one is NaN.
inline bool IsOrderOpen(const OpCase& op_case) {
  if (op_case.op != "TopKV2" || op_case.error != absl::StatusCode::kOk) return false;
  const ValueText& x = op_case.inputs[0];
  const std::string& k = op_case.inputs[1].tokens[0];
  if (k == "1" || k == absl::StrCat(x.shape.dims().back())) return false;
  const std::pair<std::string, std::string> unsorted("sorted", "false");
  return absl::c_linear_search(op_case.attrs, unsorted) || absl::c_linear_search(x.tokens, "nan");
}

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
