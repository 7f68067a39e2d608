// Stack...V2. Errors are TensorFlow's, in its words (core/kernels/stack.cc there).

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/resource/state_change.h"
#include "core/ops/stack.h"

namespace formwork {
namespace {

struct Stack : VariantObject {
  absl::string_view type_name() const override { return "stack"; }

  static size_t BytesOf(const Tensor& element) { return sizeof(Tensor) + element.bytes(); }

  std::string name;
  int32_t max_size = -1;  // Negative: none.
  bool closed = false;
  std::vector<Tensor> elements;  // The last comes first.
  size_t bytes = sizeof(Stack);  // About what it takes.
};

const Stack& StackOf(const Tensor& state) {
  return static_cast<const Stack&>(*state.scalar<Variant>());
}

absl::StatusOr<OpenState> Open(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(OpenState open, OpenStateOf(ctx, IsOf<kStackKind>, "a stack"));
  if (!open.state.has_value()) return FailedPrecondition("the stack has not been begun");
  return open;
}

// One that has not been closed.
absl::StatusOr<OpenState> OpenToUse(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(OpenState open, Open(ctx));
  const Stack& stack = StackOf(open.state);
  if (stack.closed) return InvalidArgument("Stack[", stack.name, "] has already been closed.");
  return open;
}

absl::StatusOr<KernelFn> MakeBegin(KernelInit& init) {
  std::string name = init.attrs().GetOr<std::string>("stack_name", "");
  if (name.empty()) name = std::string(init.node_name());
  return KernelFn([name = std::move(name)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    const Tensor& max_size = ctx.input(1);
    if (max_size.rank() != 0) {
      return InvalidArgument("Stack size must be a scalar, but had shape: ",
                             max_size.shape().ToString());
    }
    auto stack = std::make_shared<Stack>();
    stack->name = name;
    stack->max_size = max_size.scalar<int32_t>();
    const size_t bytes = stack->bytes;
    return ctx.resources().WriteState(handle, Tensor::VariantScalar(std::move(stack)), bytes);
  });
}

absl::StatusOr<KernelFn> MakePush(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(OpenState open, OpenToUse(ctx));
    const Stack& stack = StackOf(open.state);
    const Tensor& element = ctx.input(1);
    if (element.dtype() != open.type.parts[0].dtype) {
      return InvalidArgument("Must have type ", DTypeName(open.type.parts[0].dtype), " but got ",
                             DTypeName(element.dtype()));
    }
    if (stack.max_size >= 0 && stack.elements.size() >= static_cast<size_t>(stack.max_size)) {
      return InvalidArgument("Stack[", stack.name, "] overflowed its max_size (", stack.max_size,
                             ")");
    }
    const size_t bytes = stack.bytes + Stack::BytesOf(element);
    FORMWORK_RETURN_IF_ERROR(ChangeState<Stack>(
        ctx, open.handle, std::move(open.state), bytes,
        [](Stack& changed) {
          std::vector<Tensor>& elements = changed.elements;
          if (elements.size() == elements.capacity()) elements.reserve(2 * elements.size() + 1);
        },
        [&element, bytes](Stack& changed) {
          changed.elements.push_back(element);
          changed.bytes = bytes;
        }));
    ctx.SetOutput(0, element);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakePop(KernelInit& init) {
  return KernelFn([dtype = init.output_dtypes()[0]](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(OpenState open, OpenToUse(ctx));
    const Stack& stack = StackOf(open.state);
    if (dtype != open.type.parts[0].dtype) {
      return InvalidArgument("Must have type ", DTypeName(open.type.parts[0].dtype), " but got ",
                             DTypeName(dtype));
    }
    if (stack.elements.empty()) {
      return InvalidArgument("Stack[", stack.name, "] is empty when calling Pop().");
    }
    Tensor element = stack.elements.back();
    const size_t bytes = stack.bytes - Stack::BytesOf(element);
    FORMWORK_RETURN_IF_ERROR(ChangeState<Stack>(
        ctx, open.handle, std::move(open.state), bytes, [](Stack&) {},
        [bytes](Stack& changed) {
          changed.elements.pop_back();
          changed.bytes = bytes;
        }));
    ctx.SetOutput(0, std::move(element));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeClose(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(OpenState open, Open(ctx));
    return ChangeState<Stack>(
        ctx, open.handle, std::move(open.state), sizeof(Stack), [](Stack&) {},
        [](Stack& changed) {
          changed.elements.clear();
          changed.bytes = sizeof(Stack);
          changed.closed = true;
        });
  });
}

}  // namespace

void RegisterStackCpuKernels(KernelRegistry& registry) {
  registry.Add("StackV2", MakeBegin);
  registry.Add("StackPushV2", MakePush);
  registry.Add("StackPopV2", MakePop);
  registry.Add("StackCloseV2", MakeClose);
}

}  // namespace formwork
