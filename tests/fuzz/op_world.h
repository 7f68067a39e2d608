#pragma once

// What op_fuzzer.cc draws from: every op that has a kernel, by family, with its cases of
// tests/ops/*.optest.

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/memory_budget.h"
#include "core/device/buffer.h"
#include "core/kernels/kernel.h"
#include "core/ops/op_def.h"
#include "tests/support/op_case.h"

namespace formwork {

/// Gives blocks that end where they say, so that the sanitizer sees the first byte beyond.
class ExactAllocator final : public Allocator {
 public:
  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) override;
  void Free(BufferBlock* block) override;

 private:
  std::atomic<size_t> used_{0};
};

struct FuzzedOp {
  const OpDef* op = nullptr;
  std::vector<testing::OpCase> cases;
  // How many calls have been drawn, and of how many the kernel ran well.
  int64_t drawn = 0, done = 0;
};

/// By OpFamilies().
struct FuzzedFamily {
  absl::string_view name;
  std::vector<FuzzedOp*> ops;
  std::vector<FuzzedOp*> makers;      ///< Those that make a variant.
  std::vector<FuzzedOp*> sources;     ///< And need none for it.
  std::vector<const OpDef*> handles;  ///< OpTraits::handle_of.
};

class OpWorld {
 public:
  /// Reads the settings that op_fuzzer.cc lists. Ends the process where they name nothing.
  OpWorld();
  /// What is to be drawn: families, or the one that is set.
  const std::vector<FuzzedFamily*>& fuzzed() const { return fuzzed_; }
  std::vector<FuzzedOp*> All();
  FuzzedFamily& FamilyOf(const OpDef& op) { return *family_of_.at(op.name); }

  MemoryBudget budget{size_t{512} << 20};
  ExactAllocator allocator;
  OpRegistry ops;
  KernelRegistry kernels{ops};
  bool print = false;

 private:
  void AddFamilies();
  void Choose(absl::string_view family, absl::string_view op);

  std::map<std::string, FuzzedOp> ops_;
  std::map<std::string, FuzzedFamily, std::less<>> families_;
  std::map<std::string, FuzzedFamily*> family_of_;  // By op.
  FuzzedFamily only_;
  std::vector<FuzzedFamily*> fuzzed_;
};

}  // namespace formwork
