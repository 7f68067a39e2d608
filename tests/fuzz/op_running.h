#pragma once

// Runs the calls that op_calls.h draws: the kernel, functions where it runs some, and the elements
// of the datasets that it makes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/ops/attr.h"
#include "tests/fuzz/op_world.h"
#include "tests/support/op_case_objects.h"
#include "tests/support/temp_folder.h"

namespace formwork {

/// One call of one op.
struct Call {
  FuzzedOp* of = nullptr;
  AttrMap attrs;
  std::vector<DType> inputs, outputs;
  std::vector<Tensor> values;
  std::vector<PartialShape> shapes;  ///< Of what is behind handles: its own.
  bool odd_functions = false;        ///< Their results are not what the op wants.

  const OpDef& op() const { return *of->op; }
  std::string ToString() const;
};

/// A folder with some files, of one input of the fuzzer; made once a graph names a file.
class FuzzFolder {
 public:
  const std::string& path();

 private:
  std::optional<testing::TempFolder> folder_;
};
/// The names of these files, and of others.
std::vector<std::string> FuzzFileNames();

/// What the calls of one input of the fuzzer have in common.
struct Surroundings {
  explicit Surroundings(OpWorld& fuzzed)
      : world(fuzzed), resources(fuzzed.ops, fuzzed.kernels, fuzzed.allocator) {}
  OpWorld& world;
  testing::CaseResources resources;
  FuzzFolder folder;
};

/// Runs the kernel, for a call that is late after a second. `owned`: it may take the inputs over.
absl::Status RunKernel(const Call& call, Surroundings& surroundings, bool owned,
                       std::vector<Tensor>& outputs);

/// Takes elements of `value`, if that is a dataset; then stores where its iterator is, edits that
/// by `seed`, and begins another one there. Errors: kInternal where an element is not of the
/// dataset's dtypes.
absl::Status TakeElements(const Tensor& value, uint64_t seed, Surroundings& surroundings);

}  // namespace formwork
