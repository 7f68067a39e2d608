// Runs single ops on what the importer would let through: a case of tests/ops/*.optest, or a call
// of any op, with attrs, dtypes, shapes and values drawn anew. The shape function runs as a plan
// would run it, then the kernel, on memory whose ends are the blocks' own, for a call that is late
// after a second. Nothing may be read or written beyond a block; a result has the shape that was
// said; and a call ends.
//
//   FORMWORK_FUZZ_FAMILY=conv      only the ops of tests/ops/conv.optest
//   FORMWORK_FUZZ_OP=Conv2D        only this op
//   FORMWORK_FUZZ_PRINT=1          prints each call before it runs, to see what a crash was of

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"
#include "tests/fuzz/op_draws.h"
#include "tests/support/op_case_objects.h"

namespace formwork {
namespace {

using testing::CaseInit;
using testing::CaseResources;
using testing::CaseScope;
using testing::OpCase;
using testing::ValueText;

constexpr size_t kMostBytes = size_t{64} << 20;

// Gives blocks that end where they say, so that the sanitizer sees the first byte beyond.
class ExactAllocator final : public Allocator {
 public:
  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* /*stream*/) override {
    void* data = nullptr;
    if (bytes > kMostBytes || used_.fetch_add(bytes) + bytes > kMostBytes) {
      if (bytes <= kMostBytes) used_.fetch_sub(bytes);
      return ResourceExhausted("out of memory: bytes wanted=", bytes);
    }
    if (posix_memalign(&data, 64, std::max<size_t>(bytes, 1)) != 0) std::abort();
    auto* block = new BufferBlock;
    block->data = data;
    block->bytes = block->capacity = bytes;
    block->allocator = this;
    return block;
  }
  void Free(BufferBlock* block) override {
    used_.fetch_sub(block->bytes);
    std::free(block->data);
    delete block;
  }

 private:
  std::atomic<size_t> used_{0};
};

struct World {
  World() {
    RegisterOps(ops);
    RegisterCpuKernels(kernels);
    google::protobuf::SetLogHandler(nullptr);
    const char* const family = std::getenv("FORMWORK_FUZZ_FAMILY");
    const char* const only = std::getenv("FORMWORK_FUZZ_OP");
    print = std::getenv("FORMWORK_FUZZ_PRINT") != nullptr;
    std::map<std::string, std::vector<OpCase>> cases;
    for (const auto& entry : std::filesystem::directory_iterator(FORMWORK_OP_CASES)) {
      if (entry.path().extension() != ".optest") continue;
      if (family != nullptr && entry.path().stem() != family) continue;
      std::ifstream stream(entry.path());
      std::stringstream text;
      text << stream.rdbuf();
      auto parsed = testing::ParseOpCases(entry.path().string(), text.str());
      if (!parsed.ok()) {
        std::fprintf(stderr, "%s\n", parsed.status().ToString().c_str());
        std::exit(1);
      }
      for (OpCase& op_case : *parsed) {
        if (SizeOf(op_case) > 20000) continue;
        cases[op_case.op].push_back(std::move(op_case));
      }
    }
    for (const OpDef* op : ops.All()) {
      if (kernels.Find(op->name) == nullptr || op->control_flow != ControlFlow::kNone) continue;
      if (op->name == "Const") continue;  // The importer makes the value.
      if (only != nullptr && op->name != only) continue;
      if (family != nullptr && cases.count(op->name) == 0) continue;
      fuzzed.push_back({op, std::move(cases[op->name])});
    }
    if (fuzzed.empty()) {
      std::fprintf(stderr, "there is no such op or family\n");
      std::exit(1);
    }
  }
  static int64_t SizeOf(const OpCase& op_case) {
    int64_t size = 0;
    for (const ValueText& input : op_case.inputs) size += input.shape.num_elements();
    return size;
  }

  struct Fuzzed {
    const OpDef* op;
    std::vector<OpCase> cases;
  };

  MemoryBudget budget{size_t{512} << 20};
  ExactAllocator allocator;
  OpRegistry ops;
  KernelRegistry kernels{ops};
  std::vector<Fuzzed> fuzzed;
  bool print = false;
};

// One call of one op.
struct Call {
  const OpDef* op = nullptr;
  AttrMap attrs;
  std::vector<DType> inputs, outputs;
  std::vector<Tensor> values;
  std::vector<PartialShape> shapes;  // Of what is behind handles: its own.

  std::string ToString() const {
    std::string text = absl::StrCat(op->name, "\n");
    for (const auto& [name, value] : attrs.entries()) {
      absl::StrAppend(&text, "  ", name, " = ", AttrText(value), "\n");
    }
    for (const Tensor& value : values) absl::StrAppend(&text, "  ", value.DebugString(64), "\n");
    return text;
  }
};

// `text` in memory, and the shape that a shape function sees.
bool Make(const ValueText& text, CaseResources& resources, Allocator& allocator, Call& call) {
  absl::StatusOr<Tensor> value =
      text.dtype == DType::kResource ? resources.Add(text) : testing::MakeValue(text, allocator);
  if (!value.ok()) return false;
  PartialShape shape = text.shape;
  if (text.dtype == DType::kResource) {
    const auto resource = testing::ParseResource(text);
    shape = resource.ok() && resource->type.is_variable() ? resource->type.parts[0].shape
                                                          : PartialShape();
  }
  call.values.push_back(*std::move(value));
  call.shapes.push_back(std::move(shape));
  return true;
}

// Attrs and inputs. False where what was drawn is no call.
bool Draw(FuzzBytes& bytes, const World::Fuzzed& fuzzed, CaseResources& resources,
          Allocator& allocator, Call& call) {
  const OpDef& op = *fuzzed.op;
  call.op = &op;
  const OpCase* op_case = nullptr;
  // Mostly near what is right, for little else gets past the checks of shapes.
  if (!fuzzed.cases.empty() && bytes.Byte() % 8 != 0) {
    op_case = &fuzzed.cases[bytes.Number() % fuzzed.cases.size()];
    const absl::StatusOr<AttrMap> attrs = testing::TypedAttrs(*op_case, op);
    if (!attrs.ok()) return false;
    call.attrs = *attrs;
  }
  DrawAttrs(bytes, op, op_case == nullptr, call.attrs);
  const auto inputs = testing::ArgDTypes(op.inputs, call.attrs);
  const auto outputs = testing::ArgDTypes(op.outputs, call.attrs);
  if (!inputs.ok() || !outputs.ok()) return false;
  call.inputs = *inputs;
  call.outputs = *outputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const ValueText* text =
        op_case != nullptr && i < op_case->inputs.size() ? &op_case->inputs[i] : nullptr;
    const uint8_t what = bytes.Byte();
    if (text != nullptr && text->dtype == call.inputs[i] && what % 4 != 0) {
      if (!Make(*text, resources, allocator, call)) return false;
      if (what % 4 == 1 && IsPlainData(call.inputs[i])) EditElements(bytes, call.values.back());
      continue;
    }
    // Of the shape that the case has there, or of any.
    const Shape shape =
        text != nullptr && what % 8 != 0 ? EditedShape(bytes, text->shape) : DrawShape(bytes);
    const ValueText drawn = DrawValue(bytes, call.inputs[i], shape);
    if (!Make(drawn, resources, allocator, call)) return false;
    if (IsPlainData(call.inputs[i])) EditElements(bytes, call.values.back());
  }
  return true;
}

// What a plan's shapes say of the outputs, with the inputs' shapes as far as `known` lets through.
// Nothing where they cannot work.
std::vector<PartialShape> ShapesOf(const Call& call, uint8_t known) {
  if (call.op->shape_fn == nullptr) return std::vector<PartialShape>(call.outputs.size());
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
  if (!call.op->shape_fn(context).ok()) return {};
  return {context.outputs().begin(), context.outputs().end()};
}

// The same with shapes that no value has: what a graph may declare.
void InferHuge(FuzzBytes& bytes, const Call& call) {
  if (call.op->shape_fn == nullptr) return;
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
  call.op->shape_fn(context).IgnoreError();
}

void Wrong(const Call& call, const std::string& what) {
  std::fprintf(stderr, "%s%s\n", call.ToString().c_str(), what.c_str());
  std::abort();
}

absl::Status RunKernel(const Call& call, World& world, CaseResources& resources, bool owned,
                       std::vector<Tensor>& outputs) {
  CaseInit init(*call.op, call.attrs, call.inputs, call.outputs);
  FORMWORK_ASSIGN_OR_RETURN(const KernelFn kernel, world.kernels.Find(call.op->name)(init));
  std::vector<InputRef> refs;
  for (const Tensor& value : call.values) refs.push_back({&value, owned});
  StopFlag stop(absl::Now() + absl::Seconds(1));
  CaseScope scope(world.allocator, resources.access(), stop);
  KernelContext context(scope, refs, absl::MakeSpan(outputs));
  const StopScope stopped(&stop);
  FORMWORK_RETURN_IF_ERROR(kernel(context));
  return stop.cut() ? absl::DeadlineExceededError("late") : absl::OkStatus();
}

void Fuzz(const uint8_t* data, size_t size) {
  static World* const world = new World;
  FuzzBytes bytes(data, size);
  const World::Fuzzed& fuzzed = world->fuzzed[bytes.Number() % world->fuzzed.size()];
  CaseResources resources(world->ops, world->kernels, world->allocator);
  Call call;
  if (!Draw(bytes, fuzzed, resources, world->allocator, call)) return;
  if (world->print) std::fprintf(stderr, "%s", call.ToString().c_str());
  const uint8_t known = bytes.Byte();
  const std::vector<PartialShape> shapes = ShapesOf(call, known);
  if (known % 8 == 0) InferHuge(bytes, call);
  std::vector<Tensor> outputs(call.outputs.size());
  const absl::Status status = HoldToBudget(world->budget, [&] {
    return RunKernel(call, *world, resources, bytes.Byte() % 2 == 0, outputs);
  });
  if (world->print) std::fprintf(stderr, "  %s\n", status.ToString().c_str());
  if (!status.ok()) return;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].has_value()) Wrong(call, absl::StrCat("output ", i, " is not there"));
    if (outputs[i].dtype() != call.outputs[i]) {
      Wrong(call, absl::StrCat("output ", i, " is of ", DTypeName(outputs[i].dtype())));
    }
    if (!shapes.empty() && !shapes[i].Accepts(outputs[i].shape())) {
      Wrong(call, absl::StrCat("output ", i, " has ", outputs[i].shape().ToString(), ", was said ",
                               shapes[i].ToString()));
    }
  }
}

}  // namespace
}  // namespace formwork

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  formwork::Fuzz(data, size);
  return 0;
}
