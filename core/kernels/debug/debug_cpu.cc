// What the caller sees beside the outputs: assertions, printed text, checks of values.

#include <chrono>
#include <cmath>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/debug/debug_cpu.h"
#include "core/kernels/format_tensor.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/debug.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeAssert(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t summarize, init.attrs().Get<int64_t>("summarize"));
  return KernelFn([summarize](KernelContext& ctx) -> absl::Status {
    const Tensor& condition = ctx.input(0);
    if (condition.rank() != 0) {
      return InvalidArgument("In[0] should be a scalar: ", condition.shape().ToString());
    }
    if (condition.scalar<bool>()) return absl::OkStatus();
    std::string text = "assertion failed: ";
    for (int i = 1; i < ctx.num_inputs(); ++i) {
      FORMWORK_ASSIGN_OR_RETURN(std::string values,
                                FormatTensor(ctx.input(i), summarize, TensorTextStyle::kFirst));
      absl::StrAppend(&text, "[", values, "]");
      if (i < ctx.num_inputs() - 1) text += ' ';
    }
    return absl::InvalidArgumentError(text);
  });
}

// All text goes to the caller, whatever the stream is called: a client's request never writes to
// the server's files or logs.
absl::StatusOr<KernelFn> MakePrintV2(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(PrintV2Attrs attrs, PrintV2Attrs::FromAttrs(init.attrs()));
  return KernelFn([end = std::move(attrs.end)](KernelContext& ctx) -> absl::Status {
    const Tensor& text = ctx.input(0);
    if (text.rank() != 0) {
      return InvalidArgument("Input is expected to be scalar, but got ", text.shape().ToString());
    }
    if (end.empty()) {
      ctx.call().Print(text.scalar<std::string>());
    } else {
      ctx.call().Print(absl::StrCat(text.scalar<std::string>(), end));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakePrint(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(PrintAttrs attrs, PrintAttrs::FromAttrs(init.attrs()));
  const int printed = attrs.first_n >= 0 ? init.NewState(1) : -1;
  return KernelFn([attrs = std::move(attrs), printed](KernelContext& ctx) {
    const bool silent = printed >= 0 && ctx.call().state(printed).fetch_add(1) >=
                                            static_cast<uint64_t>(attrs.first_n);
    if (!silent) {
      std::string text = attrs.message;
      for (int i = 1; i < ctx.num_inputs(); ++i) {
        FORMWORK_ASSIGN_OR_RETURN(std::string values, FormatTensor(ctx.input(i), attrs.summarize,
                                                                   TensorTextStyle::kFirst));
        absl::StrAppend(&text, "[", values, "]");
      }
      text += '\n';
      ctx.call().Print(text);
    }
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

struct NonFinite {
  bool nan = false;
  bool positive_infinity = false;
  bool negative_infinity = false;
  bool any() const { return nan || positive_infinity || negative_infinity; }
};

// x * 0 is 0 for finite x and NaN for the rest: one vectorisable sum tells whether to look closer.
template <typename T, typename Compute>
NonFinite FindNonFinite(const Tensor& tensor) {
  const T* data = tensor.data<T>();
  std::atomic<bool> suspicious{false};
  ParallelFor(tensor.num_elements(), 1 << 17, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; block += 1024) {
      const int64_t stop = std::min(end, block + 1024);
      int bad = 0;
      for (int64_t i = block; i < stop; ++i) {
        bad |= !(std::abs(static_cast<Compute>(data[i])) <= std::numeric_limits<Compute>::max());
      }
      if (bad != 0) suspicious.store(true, std::memory_order_relaxed);
    }
  });
  NonFinite found;
  if (!suspicious.load()) return found;
  ForBlocks(tensor.num_elements(), kCheapItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Compute value = static_cast<Compute>(data[i]);
      if (std::isnan(value)) {
        found.nan = true;
      } else if (std::isinf(value)) {
        (value > 0 ? found.positive_infinity : found.negative_infinity) = true;
      }
    }
  });
  return found;
}

absl::StatusOr<NonFinite> FindNonFinite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return FindNonFinite<float, float>(tensor);
    case DType::kDouble:
      return FindNonFinite<double, double>(tensor);
    case DType::kHalf:
      return FindNonFinite<half, float>(tensor);
    case DType::kBfloat16:
      return FindNonFinite<bfloat16, float>(tensor);
    default:
      return Unimplemented("CheckNumerics: dtype ", DTypeName(tensor.dtype()), " is not supported");
  }
}

absl::StatusOr<KernelFn> MakeCheckNumerics(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(std::string message, init.attrs().Get<std::string>("message"));
  return KernelFn([message = std::move(message)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const NonFinite found, FindNonFinite(ctx.input(0)));
    if (found.any()) {
      const bool infinite = found.positive_infinity || found.negative_infinity;
      return InvalidArgument(message, " : Tensor had ",
                             infinite && found.nan ? "Inf and NaN" : (infinite ? "Inf" : "NaN"),
                             " values");
    }
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

// Tells the infinities apart.
absl::StatusOr<KernelFn> MakeCheckNumericsV2(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(std::string message, init.attrs().Get<std::string>("message"));
  return KernelFn([message = std::move(message)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const NonFinite found, FindNonFinite(ctx.input(0)));
    if (found.any()) {
      std::vector<absl::string_view> kinds;
      if (found.negative_infinity) kinds.push_back("-Inf");
      if (found.positive_infinity) kinds.push_back("+Inf");
      if (found.nan) kinds.push_back("NaN");
      std::string text(kinds[0]);
      for (size_t i = 1; i < kinds.size(); ++i) {
        const bool last = i + 1 == kinds.size();
        absl::StrAppend(&text, kinds.size() > 2 ? "," : "", last ? " and " : " ", kinds[i]);
      }
      return InvalidArgument(message, " : Tensor had ", text, " values");
    }
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

// Seconds since 1970, to the microsecond.
absl::StatusOr<KernelFn> MakeTimestamp(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
    ctx.SetOutput(0, Tensor::Scalar<double>(static_cast<double>(micros) / 1e6));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterDebugCpuKernels(KernelRegistry& registry) {
  registry.Add("Assert", MakeAssert);
  registry.Add("PrintV2", MakePrintV2);
  registry.Add("Print", MakePrint);
  registry.Add("CheckNumerics", MakeCheckNumerics);
  registry.Add("CheckNumericsV2", MakeCheckNumericsV2);
  registry.Add("Timestamp", MakeTimestamp);
  AddSummaryCpuKernels(registry);
}

}  // namespace formwork
