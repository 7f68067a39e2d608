#include "gpu/matrix_product.h"

#include <cublasLt.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "gpu/cuda_status.h"
#include "gpu/cuda_stream.h"
#include "gpu/determinism.h"
#include "gpu/tf32.h"

namespace formwork {
namespace {

// What cuBLASLt may use beside the operands; NVIDIA's advice for Hopper.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

absl::Status CublasStatus(cublasStatus_t status, absl::string_view call) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("cuBLASLt: no memory: ", call));
  }
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return Unimplemented("cuBLASLt: ", call);
  return Internal("cuBLASLt: ", cublasLtGetStatusString(status), ": ", call);
}
#define FORMWORK_CUBLAS_RETURN_IF_ERROR(call)                                                    \
  do {                                                                                           \
    if (const cublasStatus_t formwork_error = (call); formwork_error != CUBLAS_STATUS_SUCCESS) { \
      return CublasStatus(formwork_error, #call);                                                \
    }                                                                                            \
  } while (false)

struct Types {
  cudaDataType_t data;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};

// Of a dtype that MatrixProduct takes.
std::optional<Types> TypesOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return Types{CUDA_R_32F, Tf32IsAllowed() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                   CUDA_R_32F};
    case DType::kDouble:
      return Types{CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
    case DType::kHalf:
      return Types{CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::kBfloat16:
      return Types{CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    default:
      return std::nullopt;
  }
}

struct DestroyDescription {
  void operator()(cublasLtMatmulDesc_t desc) const { cublasLtMatmulDescDestroy(desc); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t p) const { cublasLtMatmulPreferenceDestroy(p); }
};
using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyDescription>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyDescription>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyDescription>;

absl::StatusOr<cublasLtHandle_t> Handle() {
  static const auto* const made = [] {
    auto* const handle = new std::pair<cublasStatus_t, cublasLtHandle_t>;
    handle->first = cublasLtCreate(&handle->second);
    return handle;
  }();
  FORMWORK_CUBLAS_RETURN_IF_ERROR(made->first);
  return made->second;
}

// `count` matrices of `rows` by `columns`, by columns, `stride` elements apart.
absl::StatusOr<Layout> MakeLayout(cudaDataType_t type, int64_t rows, int64_t columns, int32_t count,
                                  int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  FORMWORK_CUBLAS_RETURN_IF_ERROR(cublasLtMatrixLayoutCreate(
      &made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows));
  Layout layout(made);
  FORMWORK_CUBLAS_RETURN_IF_ERROR(cublasLtMatrixLayoutSetAttribute(
      made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
  FORMWORK_CUBLAS_RETURN_IF_ERROR(cublasLtMatrixLayoutSetAttribute(
      made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)));
  return layout;
}

// The largest power of 2, of at most 256, that all pointers are multiples of: algorithms read as
// much at a time.
uint32_t AlignmentOf(std::initializer_list<const void*> pointers) {
  uintptr_t all = 256;
  for (const void* pointer : pointers) all |= reinterpret_cast<uintptr_t>(pointer);
  return static_cast<uint32_t>(all & (~all + 1));
}

}  // namespace

// A product as cuBLASLt is told of it. It has matrices by columns: what we have by rows is, to it,
// transposed, and so it computes the transposed product, of y and x.
struct MatrixProduct::Plan {
  Description description;
  Layout y, x, out;
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;
};

MatrixProduct::MatrixProduct(ProductAttrs attrs, Epilogue epilogue, DType dtype)
    : attrs_(attrs), epilogue_(epilogue), dtype_(dtype) {
  const absl::string_view after = epilogue.activation == Activation::kGelu    ? "_Gelu"
                                  : epilogue.activation == Activation::kRelu6 ? "Relu6"
                                                                              : "";
  if (!after.empty()) activation_.emplace(ElementProgram::Of(*FindElementOp(after), dtype));
}

MatrixProduct::~MatrixProduct() = default;

bool MatrixProduct::Takes(DType dtype) { return TypesOf(dtype).has_value(); }

absl::Status MatrixProduct::Activate(KernelContext& ctx, Tensor& out) const {
  if (!activation_) return absl::OkStatus();
  const Tensor& product = out;
  const Tensor* const operands[] = {&product};
  return activation_->Enqueue(operands, out, CudaStreamOf(StreamOf(ctx)));
}

absl::Status MatrixProduct::Enqueue(KernelContext& ctx, const ProductSize& size,
                                    const ProductOperands& operands) const {
  FORMWORK_ASSIGN_OR_RETURN(const cublasLtHandle_t handle, Handle());
  const auto& [x, y, bias, residual, out] = operands;
  FORMWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan,
                            Find(size, AlignmentOf({x, y, residual, out})));
  // A bias is part of the description, which other threads use with theirs: so it is of a copy.
  cublasLtMatmulDescOpaque_t description = *plan->description;
  if (bias != nullptr) {
    FORMWORK_CUBLAS_RETURN_IF_ERROR(cublasLtMatmulDescSetAttribute(
        &description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
  }
  FORMWORK_ASSIGN_OR_RETURN(const Buffer workspace, ScratchOf(ctx, plan->workspace_bytes));
  const double one = 1, zero = 0;
  const float one_float = 1, zero_float = 0;
  const bool in_double = TypesOf(dtype_)->scale == CUDA_R_64F;
  const void* const alpha = in_double ? static_cast<const void*>(&one) : &one_float;
  const void* const beta =
      residual == nullptr ? (in_double ? static_cast<const void*>(&zero) : &zero_float) : alpha;
  FORMWORK_CUBLAS_RETURN_IF_ERROR(cublasLtMatmul(
      handle, &description, alpha, y, plan->y.get(), x, plan->x.get(), beta,
      residual == nullptr ? out : residual, plan->out.get(), out, plan->out.get(), &plan->algorithm,
      workspace ? workspace.data() : nullptr, plan->workspace_bytes, CudaStreamOf(StreamOf(ctx))));
  return absl::OkStatus();
}

// By batches, as long as each operand is one matrix or as many as the result; else one by one.
absl::Status MatrixProduct::EnqueueAll(KernelContext& ctx, const ProductGeometry& geometry,
                                       absl::Span<const int64_t> x, absl::Span<const int64_t> y,
                                       const ProductOperands& all) const {
  const int64_t x_elements = geometry.m * geometry.k, y_elements = geometry.k * geometry.n;
  const int64_t count = CountElements(geometry.batch());
  const int64_t x_count = CountElements(x) / x_elements, y_count = CountElements(y) / y_elements;
  ProductSize size{geometry.m, geometry.n, geometry.k};
  if ((x_count == 1 || x_count == count) && (y_count == 1 || y_count == count)) {
    // One matrix y for many of x is one product of more rows.
    if (y_count == 1 && x_count == count && !attrs_.transpose_x) {
      size.m *= count;
    } else {
      size.count = count;
      size.x_stride = x_count == 1 ? 0 : x_elements;
      size.y_stride = y_count == 1 ? 0 : y_elements;
    }
    return Enqueue(ctx, size, all);
  }
  // The matrix of an operand that one of the result is of.
  const auto matrix = [&](absl::Span<const int64_t> operand, int64_t of_result) {
    int64_t number = 0, step = 1;
    for (int d = 3; d <= static_cast<int>(geometry.output.size()); ++d) {
      const int64_t dim = geometry.output[geometry.output.size() - static_cast<size_t>(d)];
      const size_t rank = operand.size();
      const int64_t own = d <= static_cast<int>(rank) ? operand[rank - static_cast<size_t>(d)] : 1;
      if (own != 1) number += of_result % dim * step;
      of_result /= dim;
      step *= own;
    }
    return number;
  };
  const size_t bytes = DTypeSize(dtype_);
  const auto at = [bytes](const void* first, int64_t elements) -> const void* {
    return first == nullptr
               ? nullptr
               : static_cast<const char*>(first) + static_cast<size_t>(elements) * bytes;
  };
  for (int64_t b = 0; b < count; ++b) {
    const int64_t of_out = b * geometry.m * geometry.n;
    FORMWORK_RETURN_IF_ERROR(
        Enqueue(ctx, size,
                {at(all.x, matrix(x, b) * x_elements), at(all.y, matrix(y, b) * y_elements),
                 all.bias, at(all.residual, of_out),
                 static_cast<char*>(all.out) + static_cast<size_t>(of_out) * bytes}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const MatrixProduct::Plan>> MatrixProduct::Find(
    const ProductSize& size, uint32_t alignment) const {
  const Key key{size.m, size.n, size.k, size.count, size.x_stride, size.y_stride, alignment};
  {
    absl::MutexLock lock(&mutex_);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
  }
  FORMWORK_ASSIGN_OR_RETURN(Plan made, Make(size, alignment));
  auto shared = std::make_shared<const Plan>(std::move(made));
  // A function of many shapes must not keep one for each.
  constexpr size_t kMostPlans = 256;
  absl::MutexLock lock(&mutex_);
  if (plans_.size() >= kMostPlans) plans_.clear();
  return plans_.emplace(key, std::move(shared)).first->second;
}

// With the algorithm that cuBLASLt takes for the fastest.
absl::StatusOr<MatrixProduct::Plan> MatrixProduct::Make(const ProductSize& size,
                                                        uint32_t alignment) const {
  FORMWORK_ASSIGN_OR_RETURN(const cublasLtHandle_t handle, Handle());
  const Types types = *TypesOf(dtype_);
  Plan plan{};
  cublasLtMatmulDesc_t made = nullptr;
  FORMWORK_CUBLAS_RETURN_IF_ERROR(cublasLtMatmulDescCreate(&made, types.compute, types.scale));
  plan.description.reset(made);
  const auto set = [made](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return cublasLtMatmulDescSetAttribute(made, attribute, &value, sizeof(value));
  };
  const cublasOperation_t of_y = attrs_.transpose_y ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t of_x = attrs_.transpose_x ? CUBLAS_OP_T : CUBLAS_OP_N;
  FORMWORK_CUBLAS_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, of_y));
  FORMWORK_CUBLAS_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, of_x));
  const bool relu = epilogue_.activation == Activation::kRelu;
  const cublasLtEpilogue_t epilogue =
      epilogue_.bias ? (relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                     : (relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT);
  FORMWORK_CUBLAS_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
  const int32_t count = static_cast<int32_t>(size.count);
  const auto layout = [&](bool transposed, int64_t rows, int64_t columns, int64_t stride) {
    return MakeLayout(types.data, transposed ? columns : rows, transposed ? rows : columns, count,
                      stride);
  };
  FORMWORK_ASSIGN_OR_RETURN(plan.y, layout(attrs_.transpose_y, size.n, size.k, size.y_stride));
  FORMWORK_ASSIGN_OR_RETURN(plan.x, layout(attrs_.transpose_x, size.k, size.m, size.x_stride));
  FORMWORK_ASSIGN_OR_RETURN(plan.out, layout(false, size.n, size.m, size.m * size.n));

  cublasLtMatmulPreference_t given = nullptr;
  FORMWORK_CUBLAS_RETURN_IF_ERROR(cublasLtMatmulPreferenceCreate(&given));
  const Preference preference(given);
  const auto prefer = [given](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return cublasLtMatmulPreferenceSetAttribute(given, attribute, &value, sizeof(value));
  };
  FORMWORK_CUBLAS_RETURN_IF_ERROR(
      prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    FORMWORK_CUBLAS_RETURN_IF_ERROR(prefer(attribute, alignment));
  }
  if (DeterminismIsRequired()) {
    // Sums that are split are kept in parts, and added by a kernel of their own; not in the result,
    // where only turns are promised to each part.
    constexpr uint32_t kOrdered =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    FORMWORK_CUBLAS_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kOrdered));
  }
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  FORMWORK_CUBLAS_RETURN_IF_ERROR(
      cublasLtMatmulAlgoGetHeuristic(handle, made, plan.y.get(), plan.x.get(), plan.out.get(),
                                     plan.out.get(), given, 1, &best, &found));
  if (found == 0) return Unimplemented("cuBLASLt has no algorithm for the product");
  plan.algorithm = best.algo;
  plan.workspace_bytes = best.workspaceSize;
  return plan;
}

}  // namespace formwork
