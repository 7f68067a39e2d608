#include "core/kernels/conv/conv_depthwise.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/first_error.h"
#include "core/base/memory_budget.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/conv/conv_packed_filter.h"
#include "core/kernels/conv/depthwise_cpu.h"
#include "core/kernels/conv/epilogue.h"
#include "core/ops/conv.h"

namespace formwork {
namespace {

// An image between the two of so many bytes does not stay in a core's second-level cache.
constexpr int64_t kLargeImage = 1 << 20;
// Of the rows between the two that are there at once: leaves room for what they are made of.
constexpr int64_t kBandBytes = 384 << 10;
// Worth a task of its own: about 40 us.
constexpr double kTaskWork = 2 << 20;

struct Rows {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};

// The inputs within the image that the outputs `rows` read.
Rows InputsOf(const ConvAxis& axis, Rows rows) {
  const int64_t first = rows.begin * axis.stride - axis.pad_before;
  const int64_t last =
      (rows.end - 1) * axis.stride - axis.pad_before + (axis.taps - 1) * axis.dilation + 1;
  return {std::max<int64_t>(first, 0), std::min(last, axis.input)};
}

// The problem that makes the outputs `rows` of inputs `from`, which are what InputsOf says.
ConvShape OfRows(const ConvShape& shape, Rows rows, Rows from) {
  ConvShape part = shape;
  part.batch = 1;
  part.rows.input = from.count();
  part.rows.output = rows.count();
  part.rows.pad_before = from.begin - (rows.begin * shape.rows.stride - shape.rows.pad_before);
  part.rows.pad_after = (rows.count() - 1) * shape.rows.stride - part.rows.pad_before +
                        (shape.rows.taps - 1) * shape.rows.dilation + 1 - from.count();
  return part;
}

// The outputs `rows` of the depthwise convolution, in order, and for each band which rows between
// are made, once.
struct Band {
  Rows outputs;   // Of the depthwise convolution.
  Rows between;   // What they read.
  Rows new_rows;  // Of `between`: those that the band before has not left.
  std::shared_ptr<const OnednnConv> conv;
};

class ConvDepthwise {
 public:
  ConvDepthwise(ConvNode conv, ConvNode depthwise, SlidingAttrs conv_attrs,
                SlidingAttrs depthwise_attrs, Epilogue conv_epilogue, Epilogue depthwise_epilogue)
      : conv_(std::move(conv)),
        depthwise_(std::move(depthwise)),
        conv_attrs_(conv_attrs),
        depthwise_attrs_(depthwise_attrs),
        conv_epilogue_(conv_epilogue),
        depthwise_epilogue_(depthwise_epilogue),
        memo_(/*calls_wanted=*/3) {}

  absl::Status Run(KernelContext& ctx) {
    std::vector<InputRef> conv_inputs, depthwise_inputs(1);
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const bool first = static_cast<size_t>(i) < conv_.num_inputs;
      (first ? conv_inputs : depthwise_inputs).push_back({&ctx.input(i), false});
    }
    Tensor between;
    depthwise_inputs[0] = {&between, true};
    Tensor result;
    KernelContext conv(ctx.call(), conv_inputs, absl::MakeSpan(&between, 1));
    KernelContext depthwise(ctx.call(), depthwise_inputs, absl::MakeSpan(&result, 1));
    const absl::StatusOr<bool> done = CatchOutOfMemory([&] { return RunInBands(conv, depthwise); });
    if (!done.ok()) return AtNode(depthwise_, done.status());
    if (!*done) {
      FORMWORK_RETURN_IF_ERROR(RunAlone(conv_, conv));
      FORMWORK_RETURN_IF_ERROR(WorkStatus());
      FORMWORK_RETURN_IF_ERROR(RunAlone(depthwise_, depthwise));
    }
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  }

 private:
  static absl::Status RunAlone(const ConvNode& node, KernelContext& ctx) {
    const absl::Status status = CatchOutOfMemory([&] { return node.alone(ctx); });
    return status.ok() ? status : AtNode(node, status);
  }
  static absl::Status AtNode(const ConvNode& node, const absl::Status& status) {
    HeapScope unlimited(nullptr);  // To say what was refused must not be refused.
    return Annotate(status, absl::StrCat("node '", node.name, "'"));
  }

  // False where the two are better run one after the other, or are wrong: nothing is done then.
  absl::StatusOr<bool> RunInBands(KernelContext& conv, KernelContext& depthwise) {
    const absl::StatusOr<ConvShape> first =
        PrepareConv(conv_attrs_, conv.input(0).shape().dims(), conv.input(1).shape().dims());
    if (!first.ok()) return false;
    const int64_t image_bytes =
        first->rows.output * first->cols.output * first->out_channels * int64_t{sizeof(float)};
    if (image_bytes < kLargeImage || first->batch == 0 || first->groups != 1 ||
        first->in_channels == 0) {
      return false;
    }
    const Tensor& weights = depthwise.input(1);
    const absl::StatusOr<Shape> between =
        Shape::Make({first->batch, first->rows.output, first->cols.output, first->out_channels});
    if (!between.ok() || weights.rank() != 4 || weights.dim(3) != 1) return false;
    const absl::StatusOr<ConvShape> second =
        PrepareDepthwise(depthwise_attrs_, between->dims(), weights.shape().dims());
    if (!second.ok() || second->output_elements() == 0) return false;
    absl::StatusOr<EpilogueOperands> conv_operands =
        EpilogueOperands::Of(conv, conv_epilogue_, *between);
    FORMWORK_ASSIGN_OR_RETURN(const Shape out_shape,
                              Shape::Make({second->batch, second->rows.output, second->cols.output,
                                           second->out_channels}));
    absl::StatusOr<EpilogueOperands> depthwise_operands =
        EpilogueOperands::Of(depthwise, depthwise_epilogue_, out_shape);
    if (!conv_operands.ok() || !depthwise_operands.ok()) return false;

    const std::vector<std::vector<Band>> stripes = Stripes(*first, *second);
    if (stripes.empty()) return false;
    FORMWORK_ASSIGN_OR_RETURN(
        const Tensor packed,
        memo_.Get(conv.input(1), conv_operands->scale, memo_.Settled(conv.input(1)),
                  {stripes[0][0].conv}, conv.allocator()));
    Tensor scaled = weights;
    if (depthwise_operands->scale != nullptr) {
      FORMWORK_ASSIGN_OR_RETURN(
          scaled, ScaledFilter(weights, *depthwise_operands->scale, depthwise.allocator()));
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              depthwise.AllocateOutput(0, DType::kFloat, out_shape));
    const Problem problem = {
        *first,
        *second,
        conv.input(0).data<float>(),
        packed.raw(),
        conv_operands->bias == nullptr ? nullptr : conv_operands->bias->data<float>(),
        scaled.data<float>(),
        DepthwiseEpilogueOf(*depthwise_operands),
        output->mutable_data<float>()};
    FirstError error;
    const auto count = static_cast<int64_t>(stripes.size());
    ParallelFor(first->batch * count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !WorkIsCut(); ++i) {
        error.Note(RunStripe(problem, stripes[i % count], i / count, conv.allocator()));
      }
    });
    FORMWORK_RETURN_IF_ERROR(error.Take());
    return true;
  }

  struct Problem {
    const ConvShape& conv;
    const ConvShape& depthwise;
    const float* input;
    const void* packed;
    const float* bias;
    const float* weights;
    DepthwiseEpilogue<float> epilogue;
    float* output;
  };

  // Of one image: the bands of each task. Empty where oneDNN cannot, or wants different filters.
  std::vector<std::vector<Band>> Stripes(const ConvShape& conv, const ConvShape& depthwise) const {
    const int64_t row_bytes = conv.cols.output * conv.out_channels * int64_t{sizeof(float)};
    const int64_t rows = std::max<int64_t>(1, kBandBytes / row_bytes / depthwise.rows.stride);
    const int64_t outputs = depthwise.rows.output;
    const double work = conv.work() / static_cast<double>(conv.batch);
    const int64_t tasks = std::clamp<int64_t>(
        static_cast<int64_t>(std::min(work / kTaskWork, 1024.0)), 1,
        std::min<int64_t>(ParallelThreads(), std::max<int64_t>(1, outputs / rows)));
    Epilogue steps = conv_epilogue_;
    steps.scale = false;  // It is in the filter.
    std::vector<std::vector<Band>> stripes(tasks);
    const OnednnConv* any = nullptr;
    for (int64_t t = 0; t < tasks; ++t) {
      int64_t made = 0;  // Rows between before this one are there, or not needed.
      const int64_t stripe_end = outputs * (t + 1) / tasks;
      for (int64_t begin = outputs * t / tasks; begin < stripe_end; begin += rows) {
        Band band;
        band.outputs = {begin, std::min(begin + rows, stripe_end)};
        band.between = InputsOf(depthwise.rows, band.outputs);
        if (band.between.count() <= 0) return {};  // Nothing but padding.
        band.new_rows = {std::max(made, band.between.begin), band.between.end};
        made = band.between.end;
        if (band.new_rows.count() > 0) {
          const Rows from = InputsOf(conv.rows, band.new_rows);
          if (from.count() <= 0) return {};
          absl::StatusOr<std::shared_ptr<const OnednnConv>> compiled = OnednnConv::Get(
              {OfRows(conv, band.new_rows, from), DType::kFloat}, ConvDirection::kForward, steps);
          if (!compiled.ok()) return {};
          band.conv = *std::move(compiled);
          if (any == nullptr) any = band.conv.get();
          if (!band.conv->SamePacking(*any)) return {};
        }
        stripes[t].push_back(std::move(band));
      }
      if (stripes[t].empty() || stripes[t][0].conv == nullptr) return {};
    }
    return stripes;
  }

  static absl::Status RunStripe(const Problem& p, const std::vector<Band>& bands, int64_t image,
                                Allocator& allocator) {
    const int64_t row = p.conv.cols.output * p.conv.out_channels;
    int64_t most_rows = 0, scratch_bytes = 0;
    for (const Band& band : bands) {
      most_rows = std::max(most_rows, band.between.count());
      if (band.conv == nullptr) continue;
      scratch_bytes = std::max(scratch_bytes, static_cast<int64_t>(band.conv->scratch_bytes()));
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor rows,
                              Tensor::Allocate(allocator, DType::kFloat, Shape({most_rows * row})));
    // At least as much as lies outside of the Tensor itself, aligned.
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor scratch,
        Tensor::Allocate(allocator, DType::kUint8, Shape({std::max<int64_t>(scratch_bytes, 64)})));
    const float* input =
        p.input + image * p.conv.rows.input * p.conv.cols.input * p.conv.in_channels;
    const int64_t output_row = p.depthwise.cols.output * p.depthwise.out_channels;
    float* output = p.output + image * p.depthwise.rows.output * output_row;
    float* const between = rows.mutable_data<float>();
    Rows there = {0, 0};
    for (const Band& band : bands) {
      if (WorkIsCut()) return absl::OkStatus();
      if (there.begin != band.between.begin) {
        const int64_t left = std::max<int64_t>(there.end - band.between.begin, 0);
        std::memmove(between, between + (band.between.begin - there.begin) * row,
                     left * row * sizeof(float));
      }
      there = band.between;
      if (band.conv != nullptr) {
        const Rows from = InputsOf(p.conv.rows, band.new_rows);
        FORMWORK_RETURN_IF_ERROR(band.conv->Forward(
            input + from.begin * p.conv.cols.input * p.conv.in_channels, p.packed, p.bias,
            between + (band.new_rows.begin - there.begin) * row, scratch.mutable_raw()));
      }
      ConvShape part = OfRows(p.depthwise, band.outputs, band.between);
      DepthwiseForward(part, between, p.weights, p.epilogue,
                       output + band.outputs.begin * output_row);
    }
    return absl::OkStatus();
  }

  const ConvNode conv_;
  const ConvNode depthwise_;
  const SlidingAttrs conv_attrs_;
  const SlidingAttrs depthwise_attrs_;
  const Epilogue conv_epilogue_;
  const Epilogue depthwise_epilogue_;
  PackedFilterMemo memo_;
};

}  // namespace

absl::StatusOr<KernelFn> MakeConvDepthwise(ConvNode conv, ConvNode depthwise) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs conv_attrs, SlidingAttrs::OfConv(*conv.attrs));
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs depthwise_attrs,
                            SlidingAttrs::OfConv(*depthwise.attrs));
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue conv_epilogue,
                            Epilogue::FromAttrs(*conv.attrs, conv.num_inputs));
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue depthwise_epilogue,
                            Epilogue::FromAttrs(*depthwise.attrs, depthwise.num_inputs));
  if (conv_epilogue.residual || conv_attrs.layout.channels_first ||
      depthwise_attrs.layout.channels_first) {
    return Unimplemented("bands of rows are of images with channels last and no residual");
  }
  auto both = std::make_unique<ConvDepthwise>(std::move(conv), std::move(depthwise), conv_attrs,
                                              depthwise_attrs, conv_epilogue, depthwise_epilogue);
  return KernelFn([both = std::move(both)](KernelContext& ctx) { return both->Run(ctx); });
}

}  // namespace formwork
