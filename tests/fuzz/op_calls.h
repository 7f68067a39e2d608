#pragma once

// Calls for op_fuzzer.cc: attrs, dtypes, shapes and values near those of a case, or any.

#include <optional>
#include <string>
#include <vector>

#include "core/ops/op_def.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/op_draws.h"
#include "tests/fuzz/op_running.h"

namespace formwork {

class CallDrawer {
 public:
  CallDrawer(FuzzBytes& bytes, Surroundings& surroundings)
      : bytes_(bytes), surroundings_(surroundings) {}

  /// False where what was drawn is no call. Runs other calls, for variants and resources.
  bool Draw(FuzzedOp& fuzzed, Call& call) { return Draw(fuzzed, /*depth=*/0, call); }

 private:
  bool Draw(FuzzedOp& fuzzed, int depth, Call& call);
  bool DrawDTypes(const testing::OpCase* op_case, Call& call);
  // Value `i`, with what the case has there; `name`: the arg's.
  bool DrawInput(size_t i, const std::string& name, const testing::ValueText* text, int depth,
                 Call& call);
  testing::ValueText DrawText(DType dtype, const std::string& name, const testing::ValueText* text);
  // What an op of the family makes; nothing where it fails.
  std::optional<Tensor> MakeVariant(const Call& call, int depth);
  bool AddResource(const Call& call, PartialShape& shape, Tensor& handle);
  void Begin(const ResourceType& type, const Tensor& handle, const Call& call);
  void Run(absl::string_view op, std::vector<Tensor> inputs, AttrMap attrs = {});
  // Lets attrs say of elements what is so.
  void FitToDataset(const Tensor& dataset, Call& call);
  bool Add(const testing::ValueText& text, Call& call);

  FuzzBytes& bytes_;
  Surroundings& surroundings_;
  uint8_t ranks_ = 0;  // What shapes are like.
  Shape usual_;
};

}  // namespace formwork
