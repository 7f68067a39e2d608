// Products of matrices through cuBLASLt, with what an epilogue adds to them.

#include <cublasLt.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/kernels/enqueued_work.h"
#include "core/ops/dims.h"
#include "core/ops/epilogue.h"
#include "core/ops/matmul.h"
#include "gpu/cuda_status.h"
#include "gpu/cuda_stream.h"
#include "gpu/element_kernel.h"
#include "gpu/register_kernels.h"

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

std::optional<Types> TypesOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return Types{CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
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

// A product as cuBLASLt is told of it. It has matrices by columns: what we have by rows is, to it,
// transposed, and so it computes the transposed product, of y and x.
struct Product {
  Description description;
  Layout y, x, out;
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;
};

class ProductKernel {
 public:
  ProductKernel(ProductAttrs attrs, bool by_batch, bool broadcast, Epilogue epilogue, DType dtype)
      : attrs_(attrs),
        by_batch_(by_batch),
        broadcast_(broadcast),
        epilogue_(epilogue),
        dtype_(dtype),
        types_(*TypesOf(dtype)) {
    const absl::string_view after = epilogue.activation == Activation::kGelu    ? "_Gelu"
                                    : epilogue.activation == Activation::kRelu6 ? "Relu6"
                                                                                : "";
    if (!after.empty()) activation_.emplace(ElementProgram::Of(*FindElementOp(after), dtype));
  }

  absl::Status Prepare() { return activation_ ? activation_->Prepare() : absl::OkStatus(); }

  absl::Status Run(KernelContext& ctx) const {
    const Tensor& x = ctx.input(0);
    const Tensor& y = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const ProductGeometry geometry,
        by_batch_ ? PrepareBatchMatMul(attrs_, broadcast_, x.shape().dims(), y.shape().dims())
                  : PrepareMatMul(attrs_, x.shape().dims(), y.shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    if (out.num_elements() == 0) return absl::OkStatus();
    if (epilogue_.scale) return Unimplemented("a product with factors on a GPU");
    if (geometry.k == 0) {
      if (epilogue_.bias || epilogue_.residual) {
        return Unimplemented("a sum with a product over no elements on a GPU");
      }
      // Zeros, and so is what an activation makes of them.
      FORMWORK_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(out.mutable_raw(), 0, out.bytes(), stream));
      return absl::OkStatus();
    }
    int operand = 2;
    const void* const bias = epilogue_.bias ? ctx.input(operand++).raw() : nullptr;
    const void* const residual = epilogue_.residual ? ctx.input(operand++).raw() : nullptr;
    FORMWORK_RETURN_IF_ERROR(
        Multiply(ctx, geometry, x, y, bias, residual, out.mutable_raw(), stream));
    if (!activation_) return absl::OkStatus();
    const Tensor& product = out;
    const Tensor* const operands[] = {&product};
    return activation_->Enqueue(operands, out, stream);
  }

 private:
  // By batches, as long as each operand is one matrix or as many as the result; else one by one.
  absl::Status Multiply(KernelContext& ctx, const ProductGeometry& geometry, const Tensor& x,
                        const Tensor& y, const void* bias, const void* residual, void* out,
                        cudaStream_t stream) const {
    const int64_t x_elements = geometry.m * geometry.k, y_elements = geometry.k * geometry.n;
    const int64_t out_elements = geometry.m * geometry.n;
    const int64_t count = CountElements(geometry.batch());
    const int64_t x_count = x.num_elements() / x_elements, y_count = y.num_elements() / y_elements;
    const size_t size = DTypeSize(dtype_);
    const auto at = [size](const void* first, int64_t elements) {
      return first == nullptr
                 ? nullptr
                 : static_cast<const char*>(first) + static_cast<size_t>(elements) * size;
    };
    if ((x_count == 1 || x_count == count) && (y_count == 1 || y_count == count)) {
      // One matrix y for many of x is one product of more rows.
      if (y_count == 1 && x_count == count && !attrs_.transpose_x) {
        ProductGeometry flat = geometry;
        flat.m *= count;
        return Enqueue(ctx, flat, 1, 0, 0, x.raw(), y.raw(), bias, residual, out, stream);
      }
      return Enqueue(ctx, geometry, count, x_count == 1 ? 0 : x_elements,
                     y_count == 1 ? 0 : y_elements, x.raw(), y.raw(), bias, residual, out, stream);
    }
    // The matrix of an operand that one of the result is of.
    const auto matrix = [&](const Tensor& operand, int64_t of_result) {
      int64_t number = 0, step = 1;
      for (int d = 3; d <= static_cast<int>(geometry.output.size()); ++d) {
        const int64_t dim = geometry.output[geometry.output.size() - static_cast<size_t>(d)];
        const int64_t own = d <= operand.rank() ? operand.dim(operand.rank() - d) : 1;
        if (own != 1) number += of_result % dim * step;
        of_result /= dim;
        step *= own;
      }
      return number;
    };
    for (int64_t b = 0; b < count; ++b) {
      FORMWORK_RETURN_IF_ERROR(
          Enqueue(ctx, geometry, 1, 0, 0, at(x.raw(), matrix(x, b) * x_elements),
                  at(y.raw(), matrix(y, b) * y_elements), bias, at(residual, b * out_elements),
                  static_cast<char*>(out) + static_cast<size_t>(b * out_elements) * size, stream));
    }
    return absl::OkStatus();
  }

  absl::Status Enqueue(KernelContext& ctx, const ProductGeometry& geometry, int64_t count,
                       int64_t x_stride, int64_t y_stride, const void* x, const void* y,
                       const void* bias, const void* residual, void* out,
                       cudaStream_t stream) const {
    FORMWORK_ASSIGN_OR_RETURN(const cublasLtHandle_t handle, Handle());
    FORMWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product,
                              Find(handle, geometry, count, x_stride, y_stride));
    // A bias is part of the description, which other threads use with theirs: so it is of a copy.
    cublasLtMatmulDescOpaque_t description = *product->description;
    if (bias != nullptr) {
      FORMWORK_CUBLAS_RETURN_IF_ERROR(cublasLtMatmulDescSetAttribute(
          &description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
    }
    Buffer workspace;
    if (product->workspace_bytes > 0) {
      FORMWORK_ASSIGN_OR_RETURN(BufferBlock * block,
                                ctx.allocator().Allocate(product->workspace_bytes, &StreamOf(ctx)));
      workspace = Buffer(block);  // Freed behind the product.
    }
    const double one = 1, zero = 0;
    const float one_float = 1, zero_float = 0;
    const bool in_double = types_.scale == CUDA_R_64F;
    const void* const alpha = in_double ? static_cast<const void*>(&one) : &one_float;
    const void* const beta =
        residual == nullptr ? (in_double ? static_cast<const void*>(&zero) : &zero_float) : alpha;
    FORMWORK_CUBLAS_RETURN_IF_ERROR(
        cublasLtMatmul(handle, &description, alpha, y, product->y.get(), x, product->x.get(), beta,
                       residual == nullptr ? out : residual, product->out.get(), out,
                       product->out.get(), &product->algorithm,
                       workspace ? workspace.data() : nullptr, product->workspace_bytes, stream));
    return absl::OkStatus();
  }

  // With the algorithm that cuBLASLt takes for the fastest; once for each geometry.
  absl::StatusOr<std::shared_ptr<const Product>> Find(cublasLtHandle_t handle,
                                                      const ProductGeometry& geometry,
                                                      int64_t count, int64_t x_stride,
                                                      int64_t y_stride) const {
    const Key key{geometry.m, geometry.n, geometry.k, count, x_stride, y_stride};
    {
      absl::MutexLock lock(&mutex_);
      const auto found = products_.find(key);
      if (found != products_.end()) return found->second;
    }
    FORMWORK_ASSIGN_OR_RETURN(Product made, Make(geometry, count, x_stride, y_stride));
    cublasLtMatmulPreference_t given = nullptr;
    FORMWORK_CUBLAS_RETURN_IF_ERROR(cublasLtMatmulPreferenceCreate(&given));
    const Preference preference(given);
    FORMWORK_CUBLAS_RETURN_IF_ERROR(
        cublasLtMatmulPreferenceSetAttribute(given, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &kWorkspaceBytes, sizeof(kWorkspaceBytes)));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    FORMWORK_CUBLAS_RETURN_IF_ERROR(
        cublasLtMatmulAlgoGetHeuristic(handle, made.description.get(), made.y.get(), made.x.get(),
                                       made.out.get(), made.out.get(), given, 1, &best, &found));
    if (found == 0) return Unimplemented("cuBLASLt has no algorithm for the product");
    made.algorithm = best.algo;
    made.workspace_bytes = best.workspaceSize;
    auto shared = std::make_shared<const Product>(std::move(made));
    absl::MutexLock lock(&mutex_);
    // A function of many shapes must not keep one for each.
    if (products_.size() >= kMostProducts) products_.clear();
    return products_.emplace(key, std::move(shared)).first->second;
  }

  absl::StatusOr<Product> Make(const ProductGeometry& geometry, int64_t count, int64_t x_stride,
                               int64_t y_stride) const {
    Product product{};
    cublasLtMatmulDesc_t made = nullptr;
    FORMWORK_CUBLAS_RETURN_IF_ERROR(cublasLtMatmulDescCreate(&made, types_.compute, types_.scale));
    product.description.reset(made);
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
    const int32_t batch = static_cast<int32_t>(count);
    const auto layout = [&](bool transposed, int64_t rows, int64_t columns, int64_t stride) {
      return MakeLayout(types_.data, transposed ? columns : rows, transposed ? rows : columns,
                        batch, stride);
    };
    FORMWORK_ASSIGN_OR_RETURN(product.y,
                              layout(attrs_.transpose_y, geometry.n, geometry.k, y_stride));
    FORMWORK_ASSIGN_OR_RETURN(product.x,
                              layout(attrs_.transpose_x, geometry.k, geometry.m, x_stride));
    FORMWORK_ASSIGN_OR_RETURN(product.out,
                              layout(false, geometry.n, geometry.m, geometry.m * geometry.n));
    return product;
  }

  static constexpr size_t kMostProducts = 256;
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;

  const ProductAttrs attrs_;
  const bool by_batch_, broadcast_;
  const Epilogue epilogue_;
  const DType dtype_;
  const Types types_;
  std::optional<ElementKernel> activation_;  // Which cuBLASLt has not.
  mutable absl::Mutex mutex_;
  mutable std::map<Key, std::shared_ptr<const Product>> products_ ABSL_GUARDED_BY(mutex_);
};

template <bool kByBatch, bool kBroadcast>
absl::StatusOr<KernelFn> MakeProduct(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(
      const ProductAttrs attrs,
      kByBatch ? ProductAttrs::OfBatchMatMul(init.attrs()) : ProductAttrs::OfMatMul(init.attrs()));
  const DType dtype = init.input_dtypes()[0];
  for (const DType other : init.input_dtypes()) {
    if (!TypesOf(other) || other != dtype || init.output_dtypes()[0] != dtype) {
      return Unimplemented(init.op().name, " of ", DTypeName(other), " on a GPU");
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue epilogue,
                            Epilogue::FromAttrs(init.attrs(), init.input_dtypes().size()));
  auto kernel = std::make_unique<ProductKernel>(attrs, kByBatch, kBroadcast, epilogue, dtype);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) { return kernel->Run(ctx); });
}

}  // namespace

void RegisterProductKernels(KernelRegistry& registry) {
  registry.Add("MatMul", &MakeProduct<false, false>);
  registry.Add("BatchMatMul", &MakeProduct<true, false>);
  registry.Add("BatchMatMulV2", &MakeProduct<true, true>);
  registry.Add("BatchMatMulV3", &MakeProduct<true, true>);
}

}  // namespace formwork
