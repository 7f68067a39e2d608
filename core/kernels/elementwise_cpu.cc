// The standalone kernels: an entry of the table, broadcast over its operands.

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/kernels/elementwise_blocks.h"
#include "core/kernels/elementwise_objects.h"
#include "core/kernels/elementwise_operand.h"
#include "core/kernels/elementwise_program.h"
#include "core/kernels/register_cpu_kernels.h"

namespace formwork {
namespace {

absl::flat_hash_map<std::string, const BlockOp*> MakeIndex() {
  absl::flat_hash_map<std::string, const BlockOp*> index;
  for (auto rows :
       {ArithmeticBlocks(), CompareBlocks(), FunctionBlocks(), GradientBlocks(), CastBlocks()}) {
    for (const NamedBlockOp& row : rows) {
      index[absl::StrCat(row.name, "/", static_cast<int>(row.op.in), "/",
                         static_cast<int>(row.op.out))] = &row.op;
    }
  }
  return index;
}

// The elements that a kernel must refuse, looked for before anything is written.
template <typename T>
bool Has(const Tensor& tensor, Refusal refusal) {
  const auto elements = tensor.span<T>();
  return std::any_of(elements.begin(), elements.end(),
                     [refusal](T x) { return refusal == Refusal::kZero ? x == T(0) : x < T(0); });
}

absl::Status CheckRefusal(Refusal refusal, const Tensor& tensor) {
  auto has = [&]() {
    switch (tensor.dtype()) {
      FORMWORK_INTEGER_CASES(return Has<T>(tensor, refusal))
      default:
        return false;
    }
    return false;
  };
  if (!has()) return absl::OkStatus();
  return refusal == Refusal::kZero
             ? InvalidArgument("Integer division by zero")
             : InvalidArgument("Integers to negative integer powers are not allowed");
}

// One instruction is a program too; only what must be refused and values of one element, which are
// most of what loops compute, have a way of their own.
absl::StatusOr<KernelFn> MakeStandalone(KernelInit& init, const BlockOp* op) {
  std::vector<DType> dtypes(init.input_dtypes().begin(), init.input_dtypes().end());
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
    if (op->refuses != Refusal::kNone) {
      FORMWORK_RETURN_IF_ERROR(CheckRefusal(op->refuses, ctx.input(1)));
    }
    if (scalars) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, op->out, Shape()));
      op->fn(operands, out->mutable_raw(), 1);
      return absl::OkStatus();
    }
    return program->Run(ctx).status();
  });
}

bool WantsShapeError(const KernelInit& init) {
  return init.attrs().GetOr<bool>("incompatible_shape_error", true);
}

// Equal and NotEqual of shapes that do not broadcast, where that is asked for, are one answer.
absl::StatusOr<KernelFn> TolerateShapes(KernelFn kernel, bool answer) {
  auto shared = std::make_shared<KernelFn>(std::move(kernel));
  return KernelFn([shared, answer](KernelContext& ctx) -> absl::Status {
    if (!BroadcastShape(ctx.input(0).shape(), ctx.input(1).shape()).ok()) {
      ctx.SetOutput(0, Tensor::Scalar(answer));
      return absl::OkStatus();
    }
    return (*shared)(ctx);
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
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeStandalone(init, op));
  if (!WantsShapeError(init)) return TolerateShapes(std::move(kernel), name == "NotEqual");
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
  if (op == nullptr) {
    return Unimplemented("Cast: ", DTypeName(init.input_dtypes()[0]), " to ",
                         DTypeName(init.output_dtypes()[0]), " is not supported");
  }
  return MakeStandalone(init, op);
}

// Select: a condition of rank 1 chooses rows, unlike SelectV2's.
absl::StatusOr<KernelFn> MakeSelect(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeElementwise(init));
  auto shared = std::make_shared<KernelFn>(std::move(kernel));
  return KernelFn([shared](KernelContext& ctx) -> absl::Status {
    const Tensor& condition = ctx.input(0);
    const Shape& shape = ctx.input(1).shape();
    if (shape != ctx.input(2).shape()) {
      return InvalidArgument("Select: 'then' and 'else' must have the same size. but received: ",
                             shape.ToString(), " vs. ", ctx.input(2).shape().ToString());
    }
    if (condition.shape() == shape || condition.rank() == 0) return (*shared)(ctx);
    if (condition.rank() != 1 || shape.rank() < 1 || condition.dim(0) != shape.dim(0)) {
      return InvalidArgument(
          "Select: the condition fits neither the shape nor the rows: condition=",
          condition.shape().ToString(), " then=", shape.ToString());
    }
    Dims dims(shape.rank(), 1);
    dims[0] = shape.dim(0);
    const Tensor rows = condition.Reshaped(Shape::Trusted(dims));
    const InputRef inputs[] = {{&rows, false}, {&ctx.input(1), false}, {&ctx.input(2), false}};
    Tensor output;
    KernelContext inner(ctx.call(), inputs, absl::MakeSpan(&output, 1));
    FORMWORK_RETURN_IF_ERROR((*shared)(inner));
    ctx.SetOutput(0, std::move(output));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeAddN(KernelInit& init) {
  if (init.input_dtypes()[0] == DType::kVariant) return MakeObjectElementwise(init);
  const DType dtype = init.input_dtypes()[0];
  const DType two[] = {dtype, dtype};
  const BlockOp* add = FindBlockOp("AddV2", two, dtype);
  if (add == nullptr) return Unimplemented("AddN: dtype ", DTypeName(dtype), " is not supported");
  return KernelFn([add](KernelContext& ctx) -> absl::Status {
    const Shape shape = ctx.input(0).shape();
    for (int i = 1; i < ctx.num_inputs(); ++i) {
      if (ctx.input(i).shape() != shape) {
        return InvalidArgument("AddN: inputs must have the same shape: first=", shape.ToString(),
                               " input ", i, "=", ctx.input(i).shape().ToString());
      }
    }
    if (ctx.num_inputs() == 1) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor sum, Tensor::Allocate(ctx.allocator(), add->out, shape));
    const size_t width = DTypeSize(add->out);
    const int64_t n = shape.num_elements();
    char* out = sum.mutable_data<char>();
    for (int64_t begin = 0; begin < n; begin += kBlockElements) {
      const int64_t count = std::min(kBlockElements, n - begin);
      const size_t offset = static_cast<size_t>(begin) * width;
      const void* operands[3] = {ctx.input(0).data<char>() + offset, nullptr, nullptr};
      for (int i = 1; i < ctx.num_inputs(); ++i) {
        operands[1] = ctx.input(i).data<char>() + offset;
        add->fn(operands, out + offset, count);
        operands[0] = out + offset;
      }
    }
    ctx.SetOutput(0, std::move(sum));
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

void RegisterElementwiseCpuKernels(KernelRegistry& registry) {
  for (auto rows : {ArithmeticBlocks(), CompareBlocks(), FunctionBlocks(), GradientBlocks()}) {
    for (const NamedBlockOp& row : rows) registry.Add(row.name, MakeElementwise);
  }
  registry.Add("Cast", MakeCast);
  registry.Add("Select", MakeSelect);
  registry.Add("AddN", MakeAddN);
}

}  // namespace formwork
