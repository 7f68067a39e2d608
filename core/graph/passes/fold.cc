#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/graph/passes/pipeline.h"

namespace formwork {
namespace {

// Of one node. What takes more is left to the calls, which have deadlines and limits of their own.
constexpr absl::Duration kLongestFold = absl::Milliseconds(50);
constexpr size_t kMostFoldMemory = size_t{64} << 20;
// A folded value is kept for good: larger ones are cheaper to compute again.
constexpr size_t kLargestFolded = size_t{1} << 20;
constexpr int64_t kLargestSizedByValue = 1 << 14;  // Elements.

// Counts what is asked for, given back or not.
class FoldAllocator final : public Allocator {
 public:
  explicit FoldAllocator(Allocator& allocator) : allocator_(allocator) {}
  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) override {
    if (bytes > left_) return ResourceExhausted("folding needs too much memory: bytes=", bytes);
    left_ -= bytes;
    return allocator_.Allocate(bytes, stream);
  }
  void Free(BufferBlock* block) override { allocator_.Free(block); }  // Unused: blocks know theirs.

 private:
  Allocator& allocator_;
  size_t left_ = kMostFoldMemory;
};

// A call without resources, hidden state or functions: all that a pure node may need.
class FoldScope final : public CallScope {
 public:
  FoldScope(Allocator& allocator, absl::Time deadline) : allocator_(allocator), stop_(deadline) {}
  Allocator& allocator() override { return allocator_; }
  ResourceAccess& resources() override { return none_; }
  void Print(absl::string_view) override {}
  StopFlag& stop() override { return stop_; }
  std::atomic<uint64_t>& state(int) override { return state_; }
  ResourceHandle named_resource(int) override { return {}; }

 private:
  class NoResources final : public ResourceAccess {
   public:
    absl::StatusOr<Tensor> Read(ResourceHandle) override { return None(); }
    absl::Status Assign(ResourceHandle, Tensor) override { return None(); }
    absl::Status Update(ResourceHandle, size_t, absl::FunctionRef<absl::Status(Tensor&)>) override {
      return None();
    }
    absl::StatusOr<Tensor> ReadState(ResourceHandle) override { return None(); }
    absl::Status WriteState(ResourceHandle, Tensor, size_t) override { return None(); }
    bool IsInitialized(ResourceHandle) override { return false; }
    absl::Status Destroy(ResourceHandle, bool) override { return None(); }
    absl::StatusOr<const ResourceType*> TypeOf(ResourceHandle) override { return None(); }
    ResourceHandle CreateForCall(const std::string&, ResourceType) override { return {}; }

   private:
    static absl::Status None() { return Internal("a pure op asked for a resource"); }
  };

  FoldAllocator allocator_;
  StopFlag stop_;
  NoResources none_;
  std::atomic<uint64_t> state_{0};
};

class FoldInit final : public KernelInit {
 public:
  FoldInit(const Node& node, std::vector<DType> input_dtypes)
      : node_(node), input_dtypes_(std::move(input_dtypes)) {}
  absl::string_view node_name() const override { return node_.name; }
  const OpDef& op() const override { return *node_.op; }
  const AttrMap& attrs() const override { return *node_.attrs; }
  absl::Span<const DType> input_dtypes() const override { return input_dtypes_; }
  absl::Span<const DType> output_dtypes() const override { return node_.output_dtypes; }
  int NewState(int) override { return 0; }

 private:
  const Node& node_;
  std::vector<DType> input_dtypes_;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node,
                                                 const std::vector<const Tensor*>& inputs,
                                                 const PassContext& context) {
  KernelFactory factory = context.kernels.Find(node.op->name);
  if (factory == nullptr) return Unimplemented(node.op->name);
  std::vector<DType> dtypes;
  std::vector<InputRef> refs;
  for (const Tensor* input : inputs) {
    dtypes.push_back(input->dtype());
    refs.push_back({input, false});
  }
  FoldInit init(node, std::move(dtypes));
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, factory(init));
  const absl::Time start = absl::Now();
  absl::Time end = start + std::min(kLongestFold, context.budget.folding);
  if (StopFlag* const registration = StopScope::current()) {
    end = std::min(end, registration->deadline());
  }
  FoldScope scope(context.allocator, end);
  std::vector<Tensor> outputs(node.output_dtypes.size());
  KernelContext ctx(scope, refs, absl::MakeSpan(outputs));
  absl::Status status;
  {
    const StopScope in_time(&scope.stop());
    status = kernel(ctx);
  }
  context.budget.folding -= absl::Now() - start;
  if (scope.stop().cut()) status = scope.stop().status();
  FORMWORK_RETURN_IF_ERROR(status);
  return outputs;
}

std::optional<std::vector<Tensor>> FoldedValues(const std::vector<Node>& nodes, const Node& node,
                                                const PassContext& context) {
  if (node.output_dtypes.empty()) return std::nullopt;
  std::vector<const Tensor*> inputs;
  std::vector<Tensor> stand_ins;
  stand_ins.reserve(node.inputs.size());
  size_t input_bytes = 0;
  for (const Edge& edge : node.inputs) {
    const Node& input = nodes[edge.node];
    const Tensor* constant = input.kind == NodeKind::kConstant ? &input.constant : nullptr;
    if (constant == nullptr) {
      if (!node.op->shape_only) return std::nullopt;
      const DType dtype = input.output_dtypes[edge.index];
      std::optional<Shape> shape = input.output_shapes[edge.index].ToShape();
      if (!shape || !IsPlainData(dtype)) return std::nullopt;
      stand_ins.push_back(Tensor::ShapeOnly(dtype, *shape));
      constant = &stand_ins.back();
    } else {
      input_bytes += constant->bytes();
    }
    inputs.push_back(constant);
  }
  size_t output_bytes = 0;
  for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
    if (node.output_dtypes[k] == DType::kVariant) return std::nullopt;
    std::optional<Shape> shape = node.output_shapes[k].ToShape();
    if (!shape) {
      if (node.op->sized_by_value) return std::nullopt;
      continue;
    }
    const int64_t elements = shape->num_elements();
    if (node.op->sized_by_value && elements > kLargestSizedByValue) return std::nullopt;
    output_bytes += static_cast<size_t>(elements) * DTypeSize(node.output_dtypes[k]);
  }
  if (output_bytes > kLargestFolded || input_bytes > kLargestFolded) return std::nullopt;
  PassBudget& budget = context.budget;
  if (budget.folding <= absl::ZeroDuration()) return std::nullopt;
  if (output_bytes > budget.folded_bytes) return std::nullopt;
  absl::StatusOr<std::vector<Tensor>> values = EvaluateNode(node, inputs, context);
  if (!values.ok()) return std::nullopt;
  size_t folded_bytes = 0;
  for (const Tensor& value : *values) {
    if (!value.has_value() || value.bytes() > kLargestFolded) return std::nullopt;
    folded_bytes += value.bytes();
  }
  if (folded_bytes > budget.folded_bytes) return std::nullopt;
  budget.folded_bytes -= folded_bytes;
  return *std::move(values);
}

}  // namespace formwork
