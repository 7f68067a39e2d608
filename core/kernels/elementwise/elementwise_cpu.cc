// The standalone kernels: an entry of the table, broadcast over its operands.

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elementwise/elementwise_blocks.h"
#include "core/kernels/elementwise/elementwise_cast.h"
#include "core/kernels/elementwise/elementwise_objects.h"
#include "core/kernels/elementwise/elementwise_operand.h"
#include "core/kernels/elementwise/elementwise_program.h"
#include "core/kernels/elementwise/special_functions.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/elementwise.h"

namespace formwork {
namespace {

constexpr int64_t kAddGrain = 32 * 1024;
// Results of so many elements are computed by one call of the loop.
constexpr int64_t kWholeElements = 16 * 1024;
// Room for an operand of one element that is repeated.
constexpr size_t kSplatBytes = 4096;

absl::flat_hash_map<std::string, const BlockOp*> MakeIndex() {
  absl::flat_hash_map<std::string, const BlockOp*> index;
  for (auto rows : {ArithmeticBlocks(), CompareBlocks(), FunctionBlocks(), SpecialBlocks(),
                    GradientBlocks(), CastBlocks()}) {
    for (const NamedBlockOp& row : rows) {
      index[absl::StrCat(row.name, "/", static_cast<int>(row.op.in), "/",
                         static_cast<int>(row.op.out))] = &row.op;
    }
  }
  return index;
}

// The elements that a kernel must refuse, looked for before anything is written.
template <typename T>
bool Has(const void* data, int64_t n, Refusal refusal) {
  const T* const elements = static_cast<const T*>(data);
  bool found = false;
  ForBlocks(n, kCheapItems, [&](int64_t begin, int64_t end) {
    found = found || std::any_of(elements + begin, elements + end, [refusal](T x) {
              return refusal == Refusal::kZero ? x == T(0) : x < T(0);
            });
  });
  return found;
}

// Where every operand has the result's shape or is one element, the loop runs over the whole at
// once. False, and nothing done, where that is not so or the result is large.
absl::StatusOr<bool> RunWhole(KernelContext& ctx, const BlockOp& op) {
  const Shape* shape = &ctx.input(0).shape();
  for (int i = 1; i < op.arity; ++i) {
    const Shape& other = ctx.input(i).shape();
    if (other.rank() > shape->rank() ||
        (other.rank() == shape->rank() && other.num_elements() > shape->num_elements())) {
      shape = &other;
    }
  }
  const int64_t n = shape->num_elements();
  if (n > kWholeElements) return false;
  alignas(64) char splats[3][kSplatBytes];
  const void* operands[3] = {nullptr, nullptr, nullptr};
  int whole[3];
  size_t num_whole = 0;
  for (int i = 0; i < op.arity; ++i) {
    const Tensor& input = ctx.input(i);
    operands[i] = input.raw();
    if (input.shape() == *shape) {
      if (DTypeSize(input.dtype()) == DTypeSize(op.out)) whole[num_whole++] = i;
      continue;
    }
    const size_t width = DTypeSize(input.dtype());
    if (input.num_elements() != 1 || static_cast<size_t>(n) * width > kSplatBytes) return false;
    Splat(input.raw(), width, n, splats[i]);
    operands[i] = splats[i];
  }
  const Shape result = *shape;  // The tensor that it is of may be taken over.
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor * out,
      ctx.ForwardOrAllocate(absl::MakeConstSpan(whole, num_whole), 0, op.out, result));
  op.fn(operands, out->mutable_raw(), n);
  return true;
}

// Scalars, which are most of what loops compute, and small values have a way of their own; the rest
// is a program of one instruction.
absl::StatusOr<KernelFn> MakeStandalone(absl::Span<const DType> inputs, const BlockOp* op) {
  std::vector<DType> dtypes(inputs.begin(), inputs.end());
  ElementwiseProgram::Instruction instruction{op, {0, 1, 2}};
  auto program = std::make_shared<const ElementwiseProgram>(
      dtypes, std::vector<ElementwiseProgram::Instruction>{instruction},
      std::vector<uint16_t>{static_cast<uint16_t>(dtypes.size())});
  return KernelFn([op, program](KernelContext& ctx) -> absl::Status {
    const void* operands[3] = {nullptr, nullptr, nullptr};
    bool scalars = true;
    for (int i = 0; i < op->arity; ++i) {
      scalars = scalars && ctx.input(i).shape().is_scalar();
      operands[i] = ctx.input(i).raw();
    }
    if (op->refuses != Refusal::kNone && ctx.input(0).num_elements() > 0) {
      FORMWORK_RETURN_IF_ERROR(CheckOperand(*op, operands[1], ctx.input(1).num_elements()));
    }
    if (scalars) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, op->out, Shape()));
      op->fn(operands, out->mutable_raw(), 1);
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(const bool done, RunWhole(ctx, *op));
    return done ? absl::OkStatus() : program->Run(ctx).status();
  });
}

// Equal and NotEqual of shapes that do not broadcast, where that is asked for, are one answer.
absl::StatusOr<KernelFn> TolerateShapes(KernelFn kernel, bool answer) {
  return KernelFn([kernel = std::move(kernel), answer](KernelContext& ctx) -> absl::Status {
    if (!BroadcastShape(ctx.input(0).shape(), ctx.input(1).shape()).ok()) {
      ctx.SetOutput(0, Tensor::Scalar(answer));
      return absl::OkStatus();
    }
    return kernel(ctx);
  });
}

absl::StatusOr<KernelFn> MakeElementwise(KernelInit& init) {
  const std::string& name = init.op().name;
  const absl::Span<const DType> in = init.input_dtypes();
  if (in.back() == DType::kString || in.back() == DType::kVariant ||
      in.back() == DType::kResource) {
    return MakeObjectElementwise(init);
  }
  const BlockOp* op = FindBlockOp(name, in, init.output_dtypes()[0]);
  if (op == nullptr) {
    return Unimplemented(name, ": dtype ", DTypeName(in.back()), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeStandalone(init.input_dtypes(), op));
  if (!RefusesShapes(init.attrs())) return TolerateShapes(std::move(kernel), name == "NotEqual");
  return kernel;
}

absl::StatusOr<KernelFn> MakeCast(KernelInit& init) {
  if (init.input_dtypes()[0] == init.output_dtypes()[0]) {
    return KernelFn([](KernelContext& ctx) -> absl::Status {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    });
  }
  const BlockOp* op = FindBlockOp("Cast", init.input_dtypes(), init.output_dtypes()[0]);
  FORMWORK_ASSIGN_OR_RETURN(const CastAttrs attrs, CastAttrs::FromAttrs(init.attrs()));
  if (op == nullptr || attrs.truncate) return MakeDetourCast(init);
  return MakeStandalone(init.input_dtypes(), op);
}

// Runs `kernel` on other inputs than the step's, into the step's output.
absl::Status RunOn(KernelContext& ctx, const KernelFn& kernel, absl::Span<const InputRef> inputs) {
  Tensor output;
  KernelContext inner(ctx.call(), inputs, absl::MakeSpan(&output, 1));
  FORMWORK_RETURN_IF_ERROR(kernel(inner));
  ctx.SetOutput(0, std::move(output));
  return absl::OkStatus();
}

// Gradients do not broadcast: both sides have as many elements, the result input 0's shape.
absl::StatusOr<KernelFn> MakeGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeElementwise(init));
  const std::string name = init.op().name;
  return KernelFn([kernel = std::move(kernel), name](KernelContext& ctx) -> absl::Status {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    if (a.shape() == b.shape()) return kernel(ctx);
    FORMWORK_RETURN_IF_ERROR(CheckGradient(name, a.shape().dims(), b.shape().dims()));
    const Tensor alike = b.Reshaped(a.shape());
    const InputRef inputs[] = {{&a, false}, {&alike, false}};
    return RunOn(ctx, kernel, inputs);
  });
}

absl::StatusOr<KernelFn> MakeClip(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeElementwise(init));
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckClip(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                                       ctx.input(2).shape().dims()));
    return kernel(ctx);
  });
}

// LeakyRelu and its gradient: alpha, an attr, is the table's last operand.
absl::StatusOr<KernelFn> MakeLeakyRelu(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  std::vector<DType> dtypes(init.input_dtypes().begin(), init.input_dtypes().end());
  dtypes.push_back(dtype);
  const std::string& name = init.op().name;
  const BlockOp* op = FindBlockOp(name, dtypes, dtype);
  if (op == nullptr) return Unimplemented(name, ": dtype ", DTypeName(dtype), " is not supported");
  FORMWORK_ASSIGN_OR_RETURN(const float given, init.attrs().Get<float>("alpha"));
  Tensor alpha;
  switch (dtype) {
    case DType::kFloat:
      alpha = Tensor::Scalar(given);
      break;
    case DType::kDouble:
      alpha = Tensor::Scalar(static_cast<double>(given));
      break;
    case DType::kHalf:
      alpha = Tensor::Scalar(half(given));
      break;
    default:
      alpha = Tensor::Scalar(bfloat16(given));
  }
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeStandalone(dtypes, op));
  const bool gradient = dtypes.size() == 3;
  return KernelFn([kernel = std::move(kernel), alpha,
                   gradient](KernelContext& ctx) -> absl::Status {
    if (!gradient) return RunOn(ctx, kernel, {{&ctx.input(0), false}, {&alpha, false}});
    FORMWORK_RETURN_IF_ERROR(
        CheckGradient("LeakyReluGrad", ctx.input(0).shape().dims(), ctx.input(1).shape().dims()));
    return RunOn(ctx, kernel, {{&ctx.input(0), false}, {&ctx.input(1), false}, {&alpha, false}});
  });
}

absl::StatusOr<KernelFn> MakeSelectV2(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeElementwise(init));
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Shape& condition = ctx.input(0).shape();
    const Shape& then = ctx.input(1).shape();
    const Shape& otherwise = ctx.input(2).shape();
    if (condition != then || then != otherwise) {
      FORMWORK_RETURN_IF_ERROR(
          PrepareSelectV2(condition.dims(), then.dims(), otherwise.dims()).status());
    }
    return kernel(ctx);
  });
}

// Select: a condition of rank 1 chooses rows, unlike SelectV2's.
absl::StatusOr<KernelFn> MakeSelect(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeElementwise(init));
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& condition = ctx.input(0);
    const Shape& shape = ctx.input(1).shape();
    FORMWORK_RETURN_IF_ERROR(
        PrepareSelect(condition.shape().dims(), shape.dims(), ctx.input(2).shape().dims())
            .status());
    if (condition.shape() == shape || condition.rank() == 0) return kernel(ctx);
    Dims dims(shape.rank(), 1);
    dims[0] = shape.dim(0);
    const Tensor rows = condition.Reshaped(Shape::Trusted(dims));
    return RunOn(ctx, kernel, {{&rows, false}, {&ctx.input(1), false}, {&ctx.input(2), false}});
  });
}

// Betainc: an operand is a scalar or has the shape of the others.
template <typename T>
absl::Status Betainc(KernelContext& ctx) {
  constexpr int64_t kTask = 1024;  // Elements.
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  const Tensor& x = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                            PrepareBetainc(a.shape().dims(), b.shape().dims(), x.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const z,
                            ctx.AllocateOutput(0, DTypeOf<T>::value, Shape::Trusted(dims)));
  // A scalar stands where it is.
  const int64_t a_step = a.rank() > 0, b_step = b.rank() > 0, x_step = x.rank() > 0;
  ParallelFor(z->num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      z->mutable_data<T>()[i] =
          math::Betainc(a.data<T>()[a_step * i], b.data<T>()[b_step * i], x.data<T>()[x_step * i]);
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeBetainc(KernelInit& init) {
  if (init.input_dtypes()[0] == DType::kDouble) return KernelFn(Betainc<double>);
  return KernelFn(Betainc<float>);
}

template <typename T>
absl::Status ApproximateEqual(KernelContext& ctx, T tolerance) {
  const Tensor x = ctx.input(0), y = ctx.input(1);
  FORMWORK_RETURN_IF_ERROR(CheckApproximateEqual(x.shape().dims(), y.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const z, ctx.AllocateOutput(0, DType::kBool, x.shape()));
  const T* const a = x.data<T>();
  const T* const b = y.data<T>();
  bool* const to = z->mutable_data<bool>();
  ParallelFor(x.num_elements(), kAddGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = std::abs(a[i] - b[i]) <= tolerance;
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeApproximateEqual(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const float tolerance, init.attrs().Get<float>("tolerance"));
  const DType dtype = init.input_dtypes()[0];
  switch (dtype) {
    FORMWORK_CASE(float, return KernelFn([tolerance](KernelContext& ctx) {
                    return ApproximateEqual<T>(ctx, tolerance);
                  }))
    FORMWORK_CASE(double, return KernelFn([tolerance](KernelContext& ctx) {
                    return ApproximateEqual<T>(ctx, T{tolerance});
                  }))
    default:
      return Unimplemented("ApproximateEqual: dtype ", DTypeName(dtype), " is not supported");
  }
}

absl::StatusOr<KernelFn> MakeAddN(KernelInit& init) {
  if (init.input_dtypes()[0] == DType::kVariant) return MakeObjectElementwise(init);
  const DType dtype = init.input_dtypes()[0];
  const DType two[] = {dtype, dtype};
  const BlockOp* add = FindBlockOp("AddV2", two, dtype);
  if (add == nullptr) return Unimplemented("AddN: dtype ", DTypeName(dtype), " is not supported");
  return KernelFn([add](KernelContext& ctx) -> absl::Status {
    const Shape shape = ctx.input(0).shape();
    FORMWORK_RETURN_IF_ERROR(
        PrepareAddN(ctx.num_inputs(), [&](int i) { return ctx.input(i).shape().dims(); }).status());
    if (ctx.num_inputs() == 1) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    absl::InlinedVector<const char*, 8> terms(ctx.num_inputs());
    for (int i = 0; i < ctx.num_inputs(); ++i) terms[i] = ctx.input(i).data<char>();
    const size_t width = DTypeSize(add->out);
    // Into the first term where that is allowed and it is no other one too.
    const bool again = std::count(terms.begin(), terms.end(), terms[0]) > 1;
    const int first = 0;
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor * sum,
        ctx.ForwardOrAllocate(absl::MakeConstSpan(&first, again ? 0 : 1), 0, add->out, shape));
    char* out = sum->mutable_data<char>();
    ParallelFor(shape.num_elements(), kAddGrain, [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += kBlockElements) {
        const int64_t count = std::min(kBlockElements, end - begin);
        const size_t offset = static_cast<size_t>(begin) * width;
        const void* operands[3] = {terms[0] + offset, nullptr, nullptr};
        for (size_t i = 1; i < terms.size(); ++i) {
          operands[1] = terms[i] + offset;
          add->fn(operands, out + offset, count);
          operands[0] = out + offset;
        }
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

const BlockOp* FindBlockOp(absl::string_view op, absl::Span<const DType> in, DType out) {
  static const auto* const index =
      new absl::flat_hash_map<std::string, const BlockOp*>(MakeIndex());
  if (in.empty() || in.size() > 3) return nullptr;
  auto found =
      index->find(absl::StrCat(op, "/", static_cast<int>(in.back()), "/", static_cast<int>(out)));
  if (found == index->end() || found->second->arity != in.size()) return nullptr;
  return found->second;
}

absl::Status CheckOperand(const BlockOp& op, const void* elements, int64_t n) {
  auto has = [&]() {
    switch (op.in) {
      FORMWORK_INTEGER_CASES(return Has<T>(elements, n, op.refuses))
      default:
        return false;
    }
    return false;
  };
  if (op.refuses == Refusal::kNone || !has()) return absl::OkStatus();
  return op.refuses == Refusal::kZero
             ? InvalidArgument("Integer division by zero")
             : InvalidArgument("Integers to negative integer powers are not allowed");
}

void RegisterElementwiseCpuKernels(KernelRegistry& registry) {
  // The tables have a row for each dtype.
  absl::flat_hash_map<absl::string_view, KernelFactory> kernels;
  for (auto rows : {ArithmeticBlocks(), CompareBlocks(), FunctionBlocks(), SpecialBlocks()}) {
    for (const NamedBlockOp& row : rows) kernels[row.name] = MakeElementwise;
  }
  for (const NamedBlockOp& row : GradientBlocks()) kernels[row.name] = MakeGradient;
  // These need more than their rows.
  kernels["ClipByValue"] = MakeClip;
  kernels["Betainc"] = MakeBetainc;
  kernels["LeakyRelu"] = MakeLeakyRelu;
  kernels["LeakyReluGrad"] = MakeLeakyRelu;
  kernels["SelectV2"] = MakeSelectV2;
  kernels["Cast"] = MakeCast;
  kernels["Select"] = MakeSelect;
  kernels["AddN"] = MakeAddN;
  kernels["AccumulateNV2"] = MakeAddN;
  kernels["ApproximateEqual"] = MakeApproximateEqual;
  for (const auto& [name, factory] : kernels) registry.Add(name, factory);
}

}  // namespace formwork
