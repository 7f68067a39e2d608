#pragma once

// A Plan: a Graph compiled for a device. Ordered steps over value slots; immutable; shared by
// every ConcreteFunction that asks for the same cut.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/kernels/kernel.h"
#include "core/resource/variable.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// A variable that a VarHandleOp of the graph names.
struct NamedVariable {
  std::string name;  ///< "container/shared_name", or the shared_name alone.
  DType dtype = DType::kInvalid;
  PartialShape shape;
  Access access = Access::kNone;
};

class Plan {
 public:
  /// Where a step or result finds a value.
  struct Ref {
    bool constant = false;
    bool owned = false;  ///< The slot's last use.
    uint32_t index = 0;  ///< Into the frame's slots, or into `constants`.
  };

  /// One kernel call.
  struct Step {
    KernelFn kernel;
    std::string name;                            ///< "'dense/MatMul'", as errors show it.
    uint32_t first_input = 0, num_inputs = 0;    ///< Range of `refs`.
    uint32_t first_output = 0, num_outputs = 0;  ///< Range of slots.
    uint32_t first_drop = 0, num_drops = 0;      ///< Range of `drops`: slots nobody needs after it.
    uint32_t first_release = 0, num_releases = 0;  ///< Range of `releases`.
    bool effect = false;
  };

  std::string name;
  std::vector<Step> steps;
  std::vector<Ref> refs;
  std::vector<uint32_t> drops;
  /// Slots with handles of variables that no later step touches. Of the root plan alone.
  std::vector<uint32_t> releases;
  std::vector<Tensor> constants;
  std::vector<Ref> results;
  uint32_t num_slots = 0;
  /// Parameter i is moved into slot i.
  std::vector<DType> arg_dtypes;
  std::vector<Access> arg_access;  ///< Of parameters of dtype resource.
  std::vector<DType> result_dtypes;
  std::vector<PartialShape> result_shapes;

  // Of the root plan alone, nested ones included.
  std::vector<NamedVariable> named_variables;
  int num_counters = 0;
  int last_effect_step = -1;  ///< After it a failing call has left all of its effects.
  bool has_loop = false;
  bool sized_by_value = false;  ///< Small inputs do not bound the work.
  size_t bytes = 0;             ///< About what the plan holds.
};

}  // namespace formwork
