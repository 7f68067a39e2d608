#pragma once

// What an op means, on any device: inputs, outputs, attrs with their defaults, effects, shapes.
//
// An op is declared by one line in TensorFlow's terms, for instance
//   "MatMul(a: T, b: T) -> (product: T); transpose_a: bool = false; transpose_b: bool = false;
//    T: {floattype, int32}"
// Grammar: Name '(' args ')' '->' '(' args ')' then '; ' attrs. An arg is `name: type`, where type
// is a dtype's graph name, an attr of type `type` (T), `N*T` or `N*float` (N an int attr), or an
// attr of type `list(type)`; `name: host type` is wanted in host memory. An attr is `name: kind`
// with kind one of int, float, bool, string, type, shape, tensor, func, list(kind), a named set of
// dtypes (type restricted to those), or
// `{a, b}` (type restricted to those dtypes and sets; string restricted where the members are
// quoted), then optionally ` >= 1` and ` = default`. The sets are TensorFlow's numbertype,
// realnumbertype and quantizedtype, and floattype, complextype, integertype and indextype;
// op_spec.cc has their members.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ops/attr.h"
#include "core/tensor/resource_type.h"

namespace formwork {

class InferenceContext;

/// Fills in what is known of the outputs' shapes. Errors: kInvalidArgument if the inputs' shapes or
/// attrs cannot work.
using ShapeFn = absl::Status (*)(InferenceContext&);

/// Errors: kInvalidArgument if there is no such type of resource.
using ResourceTypeFn = absl::StatusOr<ResourceType> (*)(const AttrMap& attrs);

enum class AttrKind : uint8_t { kInt, kFloat, kBool, kString, kType, kShape, kTensor, kFunc };

struct AttrDef {
  std::string name;
  AttrKind kind = AttrKind::kInt;
  bool is_list = false;
  std::optional<AttrValue> default_value;
  std::vector<DType> allowed_types;          ///< Empty: any.
  std::vector<std::string> allowed_strings;  ///< Empty: any.
  std::optional<int64_t> minimum;            ///< Of an int; of the length, for a list.
};

struct ArgDef {
  std::string name;
  DType type = DType::kInvalid;  ///< Fixed dtype, or kInvalid: see type_attr.
  std::string type_attr;         ///< An attr of kind type, or list(type).
  std::string number_attr;       ///< N of N*T; empty: one tensor.
  /// Read, or made, in host memory whatever the device, as TensorFlow's HostMemory says: sizes,
  /// axes, predicates. Strings, variants and handles are there anyhow.
  bool host = false;
};

/// What running an op does besides computing its outputs.
enum class Effect : uint8_t {
  kNone,     ///< Pure: may be dropped, merged, moved and folded.
  kRandom,   ///< Another result each time; may be dropped, never merged or folded.
  kRead,     ///< Reads the resource of an input: may be dropped where nobody needs it.
  kWrite,    ///< Reads and writes it.
  kExternal  ///< Print, Assert: seen by the caller, kept in order.
};

/// How an op runs the functions that its attrs name. In the order of the attrs:
enum class ControlFlow : uint8_t {
  kNone,   ///< It names none.
  kCall,   ///< Runs its one, on all inputs.
  kIf,     ///< Input 0 chooses: the first where it is true, else the second, on the other inputs.
  kCase,   ///< Input 0 is the index of the one to run on the other inputs.
  kWhile,  ///< While the first says so, its inputs become what the second makes of them.
  kKernel  ///< Its kernel runs them, then or later, on what it likes (kernels/kernel_function.h).
};

/// What a family says of an op beyond its line.
struct OpTraits {
  ShapeFn shape_fn = nullptr;  ///< Null: nothing is known of the outputs' shapes.
  Effect effect = Effect::kNone;
  bool commutative = false;
  /// The outputs' sizes may follow from the inputs' values (Fill, Range, Tile), so that small
  /// inputs do not bound the work.
  bool sized_by_value = false;
  /// Its step may wait, without a thread, for what others do (CallScope::awaited).
  bool waits = false;
  /// Needs its inputs' shapes alone, not their elements (Shape, Size, Rank).
  bool shape_only = false;
  ControlFlow control_flow = ControlFlow::kNone;
  /// Output i is input i (Identity, StopGradient).
  bool forwards_inputs = false;
  /// Set where output 0 is the handle of a resource that the op names by its attrs container and
  /// shared_name or, without these attrs, makes for the call: what that is (VarHandleOp). Such an
  /// op has no kernel, the planner binds it.
  ResourceTypeFn handle_of = nullptr;
  /// Output 0 is the value of the variable whose handle is input 0 (ReadVariableOp).
  bool loads_variable = false;
  /// Input 1 becomes the value of the variable whose handle is input 0 (AssignVariableOp).
  bool stores_variable = false;
};

struct OpDef : OpTraits {
  std::string name;
  std::vector<ArgDef> inputs;
  std::vector<ArgDef> outputs;
  std::vector<AttrDef> attrs;

  const AttrDef* FindAttr(absl::string_view attr) const;
  /// Whether plans, and no kernel, do what it does with its functions.
  bool is_control_flow() const {
    return control_flow != ControlFlow::kNone && control_flow != ControlFlow::kKernel;
  }
  /// How many of a node's inputs come before those of its functions.
  size_t inputs_before_functions() const {
    return control_flow == ControlFlow::kIf || control_flow == ControlFlow::kCase ? 1 : 0;
  }
};

/// The functions that a node's attrs name, in the order of the op's attrs. Lives as long as
/// `attrs`.
std::vector<const FuncAttr*> FunctionsOf(const OpDef& op, const AttrMap& attrs);

/// All ops that are known. Built once by RegisterOps, then read by many threads.
class OpRegistry {
 public:
  /// `spec` as described above. A spec that does not parse, or names functions without saying how
  /// they are run, or is of an op that is declared already, is a broken invariant of ours: it ends
  /// the process with a message that names the op.
  void Add(absl::string_view spec, OpTraits traits = {});
  /// Null where there is no such op. The OpDef lives as long as the registry.
  const OpDef* Find(absl::string_view name) const;
  std::vector<const OpDef*> All() const;  ///< Sorted by name.

 private:
  absl::flat_hash_map<std::string, std::unique_ptr<OpDef>> ops_;
};

absl::StatusOr<OpDef> ParseOpSpec(absl::string_view spec);

}  // namespace formwork
