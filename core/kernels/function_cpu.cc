// Control flow over callees, and the ops that only pass values on.

#include <cmath>
#include <complex>

#include "absl/container/inlined_vector.h"
#include "core/base/status.h"
#include "core/kernels/format_tensor.h"
#include "core/kernels/register_cpu_kernels.h"

namespace formwork {
namespace {

// --- Passing values on --------------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeIdentity(KernelInit&) {
  return KernelFn([](KernelContext& ctx) {
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeIdentityN(KernelInit&) {
  return KernelFn([](KernelContext& ctx) {
    for (int i = 0; i < ctx.num_inputs(); ++i) ctx.SetOutput(i, ctx.TakeInput(i));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeNoOp(KernelInit&) {
  return KernelFn([](KernelContext&) { return absl::OkStatus(); });
}

// Runs only where nobody fed it.
absl::StatusOr<KernelFn> MakePlaceholder(KernelInit& init) {
  const PartialShape shape = init.attrs().GetOr<PartialShape>("shape", PartialShape());
  std::string text =
      absl::StrCat("You must feed a value for placeholder tensor '", init.node_name(),
                   "' with dtype ", GraphDTypeName(init.output_dtypes()[0]));
  if (shape.rank() > 0) absl::StrAppend(&text, " and shape ", shape.ToString());
  return KernelFn([text = std::move(text)](KernelContext&) { return InvalidArgument(text); });
}

absl::StatusOr<KernelFn> MakeConst(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor value, init.attrs().Get<Tensor>("value"));
  return KernelFn([value = std::move(value)](KernelContext& ctx) {
    ctx.SetOutput(0, value);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeEnsureShape(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, init.attrs().Get<PartialShape>("shape"));
  return KernelFn([shape = std::move(shape)](KernelContext& ctx) -> absl::Status {
    if (!shape.Accepts(ctx.input(0).shape())) {
      return InvalidArgument("Shape of tensor input ", ctx.input(0).shape().ToString(),
                             " is not compatible with expected shape ", shape.ToString(), ".");
    }
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

// --- Callees ------------------------------------------------------------------------------------

using Values = absl::InlinedVector<Tensor, 8>;
using CalleePtr = std::shared_ptr<const Callee>;

// The callee that `attr` names, checked to take `inputs` values and give `outputs`.
absl::StatusOr<CalleePtr> MakeChecked(KernelInit& init, const FuncAttr& attr, size_t inputs,
                                      absl::Span<const DType> outputs) {
  FORMWORK_ASSIGN_OR_RETURN(CalleePtr callee, init.MakeCallee(attr));
  if (callee->num_inputs() != static_cast<int>(inputs) ||
      callee->num_outputs() != static_cast<int>(outputs.size())) {
    return InvalidArgument(init.op().name, ": function '", attr.name, "' does not fit: it takes ",
                           callee->num_inputs(), " values and gives ", callee->num_outputs(),
                           "; the op has ", inputs, " and ", outputs.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (callee->output_dtype(static_cast<int>(i)) != outputs[i]) {
      return InvalidArgument(init.op().name, ": function '", attr.name, "' gives dtype ",
                             DTypeName(callee->output_dtype(static_cast<int>(i))), " at output ", i,
                             " where the op has ", DTypeName(outputs[i]));
    }
  }
  return callee;
}

// Runs `callee` on inputs first, first + 1, ... and hands its outputs on.
absl::Status RunOnce(KernelContext& ctx, const Callee& callee, int first) {
  Values arguments(static_cast<size_t>(callee.num_inputs()));
  Values results(static_cast<size_t>(callee.num_outputs()));
  for (size_t i = 0; i < arguments.size(); ++i) {
    arguments[i] = ctx.TakeInput(first + static_cast<int>(i));
  }
  std::unique_ptr<Callee::Frame> frame = callee.NewFrame();
  FORMWORK_RETURN_IF_ERROR(
      callee.Run(ctx.call(), *frame, absl::MakeSpan(arguments), absl::MakeSpan(results)));
  for (size_t i = 0; i < results.size(); ++i) {
    ctx.SetOutput(static_cast<int>(i), std::move(results[i]));
  }
  return absl::OkStatus();
}

// A condition as TensorFlow takes it: a scalar number that is not zero, a string that is not empty,
// another tensor that has elements.
absl::StatusOr<bool> IsTrue(const Tensor& condition) {
  if (condition.dtype() == DType::kBool && condition.rank() == 0) return condition.scalar<bool>();
  if (condition.rank() != 0) return condition.num_elements() > 0;
  switch (condition.dtype()) {
    FORMWORK_INTEGER_CASES(return condition.scalar<T>() != 0)
    FORMWORK_CASE(float, return condition.scalar<T>() != 0.0f)
    FORMWORK_CASE(double, return condition.scalar<T>() != 0.0)
    FORMWORK_CASE(half, return static_cast<float>(condition.scalar<T>()) != 0.0f)
    FORMWORK_CASE(bfloat16, return static_cast<float>(condition.scalar<T>()) != 0.0f)
    FORMWORK_COMPLEX_CASES(return condition.scalar<T>() != T(0))
    case DType::kString:
      return !condition.scalar<std::string>().empty();
    default:
      return InvalidArgument(DTypeName(condition.dtype()), " cannot be converted to a boolean");
  }
}

absl::StatusOr<KernelFn> MakeIf(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const FuncAttr then_attr, init.attrs().Get<FuncAttr>("then_branch"));
  FORMWORK_ASSIGN_OR_RETURN(const FuncAttr else_attr, init.attrs().Get<FuncAttr>("else_branch"));
  const size_t inputs = init.input_dtypes().size() - 1;
  FORMWORK_ASSIGN_OR_RETURN(CalleePtr then_branch,
                            MakeChecked(init, then_attr, inputs, init.output_dtypes()));
  FORMWORK_ASSIGN_OR_RETURN(CalleePtr else_branch,
                            MakeChecked(init, else_attr, inputs, init.output_dtypes()));
  return KernelFn([then_branch = std::move(then_branch),
                   else_branch = std::move(else_branch)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const bool condition, IsTrue(ctx.input(0)));
    return RunOnce(ctx, condition ? *then_branch : *else_branch, 1);
  });
}

absl::StatusOr<KernelFn> MakeCase(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<FuncAttr> attrs,
                            init.attrs().Get<std::vector<FuncAttr>>("branches"));
  if (attrs.empty()) return InvalidArgument(init.op().name, ": there are no branches");
  std::vector<CalleePtr> branches;
  for (const FuncAttr& attr : attrs) {
    FORMWORK_ASSIGN_OR_RETURN(
        CalleePtr branch,
        MakeChecked(init, attr, init.input_dtypes().size() - 1, init.output_dtypes()));
    branches.push_back(std::move(branch));
  }
  return KernelFn([branches = std::move(branches)](KernelContext& ctx) -> absl::Status {
    const Tensor& index = ctx.input(0);
    if (index.rank() != 0) {
      return InvalidArgument("branch_index must be a scalar: ", index.shape().ToString());
    }
    // An index out of range takes the last branch.
    size_t branch = branches.size() - 1;
    const int32_t wanted = index.scalar<int32_t>();
    if (wanted >= 0 && static_cast<size_t>(wanted) < branches.size()) branch = wanted;
    return RunOnce(ctx, *branches[branch], 1);
  });
}

absl::StatusOr<KernelFn> MakeCall(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const FuncAttr attr, init.attrs().Get<FuncAttr>("f"));
  FORMWORK_ASSIGN_OR_RETURN(
      CalleePtr callee, MakeChecked(init, attr, init.input_dtypes().size(), init.output_dtypes()));
  return KernelFn(
      [callee = std::move(callee)](KernelContext& ctx) { return RunOnce(ctx, *callee, 0); });
}

// Reading the clock costs as much as a trivial iteration.
constexpr uint32_t kIterationsBetweenPolls = 16;

absl::StatusOr<KernelFn> MakeWhile(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const FuncAttr cond_attr, init.attrs().Get<FuncAttr>("cond"));
  FORMWORK_ASSIGN_OR_RETURN(const FuncAttr body_attr, init.attrs().Get<FuncAttr>("body"));
  const size_t n = init.input_dtypes().size();
  FORMWORK_ASSIGN_OR_RETURN(CalleePtr body, MakeChecked(init, body_attr, n, init.output_dtypes()));
  FORMWORK_ASSIGN_OR_RETURN(CalleePtr cond, init.MakeCallee(cond_attr));
  if (cond->num_inputs() != static_cast<int>(n) || cond->num_outputs() != 1) {
    return InvalidArgument(init.op().name, ": cond '", cond_attr.name, "' must take ", n,
                           " values and give one: takes ", cond->num_inputs(), " gives ",
                           cond->num_outputs());
  }
  // cond sees copies, because the body is to be the only holder: only of what cond looks at.
  std::vector<size_t> looked_at;
  for (size_t i = 0; i < n; ++i) {
    if (cond->reads(static_cast<int>(i))) looked_at.push_back(i);
  }
  return KernelFn([cond = std::move(cond), body = std::move(body),
                   looked_at = std::move(looked_at)](KernelContext& ctx) -> absl::Status {
    const size_t n = static_cast<size_t>(ctx.num_inputs());
    CallScope& call = ctx.call();
    Values variables(n);
    for (size_t i = 0; i < n; ++i) variables[i] = ctx.TakeInput(static_cast<int>(i));
    Values seen(n);
    std::unique_ptr<Callee::Frame> cond_frame = cond->NewFrame();
    std::unique_ptr<Callee::Frame> body_frame = body->NewFrame();
    for (uint32_t iteration = 1;; ++iteration) {
      if (call.stop().requested() ||
          (iteration % kIterationsBetweenPolls == 0 && call.stop().Poll())) {
        return call.stop().status();
      }
      for (size_t i : looked_at) seen[i] = variables[i];
      Tensor decision;
      FORMWORK_RETURN_IF_ERROR(
          cond->Run(call, *cond_frame, absl::MakeSpan(seen), absl::MakeSpan(&decision, 1)));
      FORMWORK_ASSIGN_OR_RETURN(const bool go_on, IsTrue(decision));
      if (!go_on) break;
      // What cond did not move out would keep the body from updating in place.
      for (size_t i : looked_at) seen[i].Drop();
      FORMWORK_RETURN_IF_ERROR(
          body->Run(call, *body_frame, absl::MakeSpan(variables), absl::MakeSpan(variables)));
    }
    for (size_t i = 0; i < n; ++i) {
      ctx.SetOutput(static_cast<int>(i), std::move(variables[i]));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterFunctionCpuKernels(KernelRegistry& registry) {
  for (absl::string_view op :
       {"Identity", "StopGradient", "PreventGradient", "PlaceholderWithDefault", "Snapshot"}) {
    registry.Add(op, MakeIdentity);
  }
  registry.Add("IdentityN", MakeIdentityN);
  registry.Add("NoOp", MakeNoOp);
  registry.Add("Placeholder", MakePlaceholder);
  registry.Add("Const", MakeConst);
  registry.Add("EnsureShape", MakeEnsureShape);
  for (absl::string_view op : {"If", "StatelessIf"}) registry.Add(op, MakeIf);
  for (absl::string_view op : {"Case", "StatelessCase"}) registry.Add(op, MakeCase);
  for (absl::string_view op : {"While", "StatelessWhile"}) registry.Add(op, MakeWhile);
  for (absl::string_view op : {"PartitionedCall", "StatefulPartitionedCall"}) {
    registry.Add(op, MakeCall);
  }
}

}  // namespace formwork
