// Runs single ops on what the importer would let through: a case of tests/ops/*.optest, or a call
// of any op, with attrs, dtypes, shapes and values drawn anew; what is no plain data is made by
// calls that are drawn, too. The shape function runs as a plan would run it, then the kernel, on
// memory whose ends are the blocks' own, for a call that is late after a second; functions that it
// runs give anything, and of a dataset elements are taken. Nothing may be read or written beyond a
// block; a result has the shape that was said; an error is the caller's; and a call ends.
//
//   FORMWORK_FUZZ_FAMILY=conv      only the ops of core/ops/conv.cc (OpFamilies)
//   FORMWORK_FUZZ_OP=Conv2D        only this op
//   FORMWORK_FUZZ_PRINT=1          prints each call before it runs, to see what a crash was of

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ops/shape_inference.h"
#include "tests/fuzz/op_calls.h"
#include "tests/fuzz/op_fuzzer.h"

namespace formwork {
namespace {

// What begins a resource is given its handle, which the node is not.
bool HasShapes(const Call& call) {
  return call.op().shape_fn != nullptr && call.op().handle_of == nullptr;
}

// What a plan's shapes say of the outputs, with the inputs' shapes as far as `known` lets through.
// Nothing where they cannot work.
std::vector<PartialShape> ShapesOf(const Call& call, uint8_t known) {
  if (!HasShapes(call)) return std::vector<PartialShape>(call.outputs.size());
  std::vector<PartialShape> shapes = call.shapes;
  std::vector<const Tensor*> constants;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const bool plain = IsPlainData(call.inputs[i]) || call.inputs[i] == DType::kString;
    constants.push_back(plain && known % 3 != 0 ? &call.values[i] : nullptr);
    if (constants.back() != nullptr) continue;
    if (known % 4 == 1) shapes[i] = PartialShape();
    for (int d = 0; d < shapes[i].rank(); ++d) {
      if ((known >> (d % 4)) & 16) shapes[i].set_dim(d, -1);
    }
  }
  InferenceContext context(call.attrs, std::move(shapes), std::move(constants), call.inputs,
                           static_cast<int>(call.outputs.size()));
  if (!call.op().shape_fn(context).ok()) return {};
  return {context.outputs().begin(), context.outputs().end()};
}

// The same with shapes that no value has: what a graph may declare.
void InferHuge(FuzzBytes& bytes, const Call& call) {
  if (!HasShapes(call)) return;
  std::vector<PartialShape> shapes = call.shapes;
  for (PartialShape& shape : shapes) {
    for (int d = 0; d < shape.rank(); ++d) {
      if (bytes.Byte() % 2 == 0) continue;
      shape.set_dim(d, static_cast<int64_t>(bytes.Wide() & 0x7fffffffffffffff));
    }
  }
  InferenceContext context(call.attrs, std::move(shapes),
                           std::vector<const Tensor*>(call.inputs.size()), call.inputs,
                           static_cast<int>(call.outputs.size()));
  call.op().shape_fn(context).IgnoreError();
}

void Wrong(const Call& call, const std::string& what) {
  std::fprintf(stderr, "%s%s\n", call.ToString().c_str(), what.c_str());
  std::abort();
}

}  // namespace

OpWorld& FuzzedWorld() {
  static OpWorld* const world = new OpWorld;
  return *world;
}

void CheckCall(const Call& call, uint8_t known, bool owned, uint64_t seed,
               Surroundings& surroundings) {
  const bool print = surroundings.world.print;
  if (print) std::fprintf(stderr, "%s", call.ToString().c_str());
  const std::vector<PartialShape> shapes = ShapesOf(call, known);
  std::vector<Tensor> outputs(call.outputs.size());
  const absl::Status status = RunKernel(call, surroundings, owned, outputs);
  if (print) std::fprintf(stderr, "  %s\n", status.ToString().c_str());
  // The call is at fault, not the server.
  if (absl::IsInternal(status) || absl::IsUnknown(status)) Wrong(call, status.ToString());
  if (!status.ok()) return;
  ++call.of->done;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].has_value()) Wrong(call, absl::StrCat("output ", i, " is not there"));
    if (outputs[i].dtype() != call.outputs[i]) {
      Wrong(call, absl::StrCat("output ", i, " is of ", DTypeName(outputs[i].dtype())));
    }
    if (!shapes.empty() && !shapes[i].Accepts(outputs[i].shape())) {
      Wrong(call, absl::StrCat("output ", i, " has ", outputs[i].shape().ToString(), ", was said ",
                               shapes[i].ToString()));
    }
    const absl::Status taken = TakeElements(outputs[i], seed, surroundings);
    if (print) std::fprintf(stderr, "  elements: %s\n", taken.ToString().c_str());
    if (absl::IsInternal(taken)) Wrong(call, std::string(taken.message()));
  }
}

void FuzzOp(const uint8_t* data, size_t size) {
  OpWorld& world = FuzzedWorld();
  FuzzBytes bytes(data, size);
  const FuzzedFamily& family = *world.fuzzed()[bytes.Byte() % world.fuzzed().size()];
  FuzzedOp& fuzzed = *family.ops[bytes.Byte() % family.ops.size()];
  Surroundings surroundings(world);
  Call call;
  if (!CallDrawer(bytes, surroundings).Draw(fuzzed, call)) return;
  const uint8_t known = bytes.Byte();
  if (known % 8 == 0) InferHuge(bytes, call);
  const bool owned = bytes.Byte() % 2 == 0;
  CheckCall(call, known, owned, bytes.Wide(), surroundings);
}

}  // namespace formwork

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  formwork::FuzzOp(data, size);
  return 0;
}
