#include "core/kernels/conv/conv_bands.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/base/first_error.h"
#include "core/base/memory_budget.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/conv/band_rows.h"
#include "core/kernels/conv/conv_packed_filter.h"
#include "core/kernels/conv/conv_panels.h"
#include "core/kernels/conv/depthwise_cpu.h"
#include "core/kernels/conv/epilogue.h"
#include "core/kernels/conv/scratch.h"
#include "core/ops/conv.h"

namespace formwork {
namespace {

// Images between the nodes of so many bytes do not stay in a core's second-level cache.
constexpr int64_t kLargeImages = 704 << 10;
// Of the rows between the nodes that are there at once: leaves room for what they are made of.
constexpr int64_t kBandBytes = 448 << 10;
// What a stripe takes at least, so that one step after the other gets the same memory, which is
// still in the cache.
constexpr int64_t kScratchFloats = (640 << 10) / sizeof(float);
// Worth a task of its own: about 40 us.
constexpr double kTaskWork = 2 << 20;

// The outputs `rows` of the depthwise convolution, in order, and for each band which rows between
// are made, once.
struct Band {
  RowRange outputs;                        // Of the depthwise convolution.
  RowRange between;                        // What they read.
  RowRange new_rows;                       // Of `between`: those that the band before has not left.
  std::shared_ptr<const OnednnConv> conv;  // Makes these; null where there are none.
  std::shared_ptr<const OnednnConv> last;  // Reads `outputs`; null: panels do, or nobody.
};

// What all bands of a task run.
using Stripe = std::vector<Band>;

// A call of one of the nodes.
struct Part {
  absl::InlinedVector<InputRef, 5> inputs;
  Tensor result;
};

// To whole cache lines.
int64_t Aligned(int64_t floats) { return (floats + 15) / 16 * 16; }

class ConvBands {
 public:
  ConvBands(std::vector<ConvNode> nodes, std::vector<SlidingAttrs> attrs,
            std::vector<Epilogue> epilogues)
      : nodes_(std::move(nodes)), attrs_(std::move(attrs)), epilogues_(std::move(epilogues)) {}

  absl::Status Run(KernelContext& ctx) {
    absl::InlinedVector<Part, 3> parts(nodes_.size());
    int at = 0;
    for (size_t k = 0; k < parts.size(); ++k) {
      if (k > 0) parts[k].inputs.push_back({&parts[k - 1].result, true});
      while (parts[k].inputs.size() < nodes_[k].num_inputs) {
        parts[k].inputs.push_back({&ctx.input(at++), false});
      }
    }
    absl::InlinedVector<KernelContext, 3> contexts;
    for (Part& part : parts) {
      contexts.emplace_back(ctx.call(), part.inputs, absl::MakeSpan(&part.result, 1));
    }
    const absl::StatusOr<size_t> done =
        CatchOutOfMemory([&] { return RunInBands(absl::MakeSpan(contexts)); });
    if (!done.ok()) return AtNode(nodes_.back(), done.status());
    for (size_t k = *done; k < nodes_.size(); ++k) {
      FORMWORK_RETURN_IF_ERROR(WorkStatus());
      const absl::Status status = CatchOutOfMemory([&] { return nodes_[k].alone(contexts[k]); });
      if (!status.ok()) return AtNode(nodes_[k], status);
    }
    ctx.SetOutput(0, std::move(parts.back().result));
    return absl::OkStatus();
  }

 private:
  // Those of the nodes that run in bands, of one call.
  struct Shapes {
    ConvShape conv, depthwise;
    std::optional<ConvShape> last;
    EpilogueOperands conv_operands, depthwise_operands, last_operands;
    Shape output;
    size_t nodes() const { return last ? 3 : 2; }
  };

  // What the bands read and write.
  struct Problem {
    const Shapes& shapes;
    const float* input;
    const void* conv_filter;  // Packed, as the last.
    const float* weights;     // Of the depthwise convolution.
    const void* last_filter;
    float* output;
    Allocator& allocator;
  };

  static absl::Status AtNode(const ConvNode& node, const absl::Status& status) {
    HeapScope unlimited(nullptr);  // To say what was refused must not be refused.
    return Annotate(status, absl::StrCat("node '", node.name, "'"));
  }

  // The problem that oneDNN solves, whose filter has the scale in it.
  static absl::StatusOr<std::shared_ptr<const OnednnConv>> Compiled(const ConvShape& shape,
                                                                    Epilogue epilogue) {
    epilogue.scale = false;
    return OnednnConv::Get({shape, DType::kFloat}, ConvDirection::kForward, epilogue);
  }

  // Nullopt where they are better run one after the other, or are wrong.
  std::optional<Shapes> Prepare(absl::Span<KernelContext> contexts) const {
    Shapes shapes;
    const auto dims = [&contexts](size_t node, int input) {
      return contexts[node].input(input).shape().dims();
    };
    const auto conv = PrepareConv(attrs_[0], dims(0, 0), dims(0, 1));
    if (!conv.ok() || conv->groups != 1 || conv->in_channels == 0) return std::nullopt;
    shapes.conv = *conv;
    if (!SetOutput(contexts[0], epilogues_[0], *conv, &shapes.output, &shapes.conv_operands)) {
      return std::nullopt;
    }
    const auto weights = dims(1, 1);
    if (weights.size() != 4 || weights[3] != 1) return std::nullopt;
    const auto depthwise = PrepareDepthwise(attrs_[1], shapes.output.dims(), weights);
    if (!depthwise.ok()) return std::nullopt;
    shapes.depthwise = *depthwise;
    if (!SetOutput(contexts[1], epilogues_[1], *depthwise, &shapes.output,
                   &shapes.depthwise_operands)) {
      return std::nullopt;
    }
    if (nodes_.size() == 2) return shapes;
    const auto last = PrepareConv(attrs_[2], shapes.output.dims(), dims(2, 1));
    if (last.ok() && last->is_pointwise() &&
        SetOutput(contexts[2], epilogues_[2], *last, &shapes.output, &shapes.last_operands)) {
      shapes.last = *last;
    }
    return shapes;
  }
  // Where the node's output is not empty, and its operands fit it.
  static bool SetOutput(const KernelContext& ctx, const Epilogue& epilogue, const ConvShape& shape,
                        Shape* output, EpilogueOperands* operands) {
    if (shape.output_elements() == 0) return false;
    const absl::StatusOr<Shape> made = Shape::Make(shape.output_dims());
    if (!made.ok()) return false;
    const absl::StatusOr<EpilogueOperands> fit = EpilogueOperands::Of(ctx, epilogue, *made);
    if (!fit.ok()) return false;
    *output = *made;
    *operands = *fit;
    return true;
  }

  static absl::StatusOr<Tensor> Packed(PackedFilterMemo& memo, KernelContext& ctx,
                                       const EpilogueOperands& operands,
                                       const std::shared_ptr<const OnednnConv>& conv) {
    const Tensor& filter = ctx.input(1);
    return memo.Get(filter, operands.scale, memo.Settled(filter), {conv}, ctx.allocator());
  }

  // How many of the nodes have run: 0 where bands do not pay.
  absl::StatusOr<size_t> RunInBands(absl::Span<KernelContext> contexts) {
    const std::optional<Shapes> shapes = Prepare(contexts);
    if (!shapes) return 0;
    const std::vector<Stripe> stripes = Stripes(*shapes);
    if (stripes.empty()) return 0;
    const Band& any = stripes[0][0];
    Allocator& allocator = contexts[0].allocator();
    FORMWORK_ASSIGN_OR_RETURN(const Tensor conv_filter,
                              Packed(conv_memo_, contexts[0], shapes->conv_operands, any.conv));
    Tensor weights = contexts[1].input(1);
    if (const Tensor* const scale = shapes->depthwise_operands.scale) {
      FORMWORK_ASSIGN_OR_RETURN(weights, ScaledFilter(weights, *scale, allocator));
    }
    Tensor last_filter;
    if (shapes->last) {
      FORMWORK_ASSIGN_OR_RETURN(last_filter,
                                Packed(last_memo_, contexts[2], shapes->last_operands, any.last));
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, contexts[shapes->nodes() - 1].AllocateOutput(
                                                   0, DType::kFloat, shapes->output));
    const Problem problem = {*shapes,
                             contexts[0].input(0).data<float>(),
                             conv_filter.raw(),
                             weights.data<float>(),
                             shapes->last ? last_filter.raw() : nullptr,
                             output->mutable_data<float>(),
                             allocator};
    FirstError error;
    const auto count = static_cast<int64_t>(stripes.size());
    ParallelFor(shapes->conv.batch * count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !WorkIsCut(); ++i) {
        error.Note(RunStripe(problem, stripes[i % count], i / count));
      }
    });
    FORMWORK_RETURN_IF_ERROR(error.Take());
    return shapes->nodes();
  }

  // Of one image. Empty where bands do not pay, and where oneDNN cannot, or wants different filters
  // for them.
  std::vector<Stripe> Stripes(const Shapes& shapes) const {
    const ConvShape& conv = shapes.conv;
    const ConvShape& depthwise = shapes.depthwise;
    const ConvShape* const last = shapes.last ? &*shapes.last : nullptr;
    const int64_t channel_bytes = conv.out_channels * int64_t{sizeof(float)};
    // For each of the depthwise convolution's.
    int64_t row_bytes = depthwise.rows.stride * conv.cols.output * channel_bytes;
    int64_t image_bytes = conv.rows.output * conv.cols.output * channel_bytes;
    if (last != nullptr) {
      row_bytes += depthwise.cols.output * channel_bytes;
      image_bytes += depthwise.rows.output * depthwise.cols.output * channel_bytes;
    }
    if (image_bytes < kLargeImages) return {};
    const int64_t rows = std::max<int64_t>(1, kBandBytes / row_bytes);
    const int64_t outputs = depthwise.rows.output;
    double work = conv.work();
    if (last != nullptr) work += last->work();
    work /= static_cast<double>(conv.batch);
    const int64_t tasks = std::clamp<int64_t>(
        static_cast<int64_t>(std::min(work / kTaskWork, 1024.0)), 1,
        std::min<int64_t>(ParallelThreads(), std::max<int64_t>(1, outputs / rows)));
    const bool by_onednn = last != nullptr && !ConvByPanels(*last, epilogues_.back().activation);
    std::vector<Stripe> stripes(tasks);
    const OnednnConv *any_conv = nullptr, *any_last = nullptr;
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
          const RowRange from = InputsOf(conv.rows, band.new_rows);
          if (from.count() <= 0) return {};
          auto compiled = Compiled(OfRows(conv, band.new_rows, from), epilogues_[0]);
          if (!compiled.ok()) return {};
          band.conv = *std::move(compiled);
          if (any_conv == nullptr) any_conv = band.conv.get();
          if (!band.conv->SamePacking(*any_conv)) return {};
        }
        if (by_onednn) {
          auto compiled = Compiled(OfRows(*last, band.outputs, band.outputs), epilogues_[2]);
          if (!compiled.ok()) return {};
          band.last = *std::move(compiled);
          if (any_last == nullptr) any_last = band.last.get();
          if (!band.last->SamePacking(*any_last)) return {};
        }
        stripes[t].push_back(std::move(band));
      }
      if (stripes[t].empty() || stripes[t][0].conv == nullptr) return {};
    }
    return stripes;
  }

  static absl::Status RunStripe(const Problem& p, const Stripe& bands, int64_t image) {
    const ConvShape& conv = p.shapes.conv;
    const ConvShape& depthwise = p.shapes.depthwise;
    const int64_t row = conv.cols.output * conv.out_channels;
    const int64_t depthwise_row = depthwise.cols.output * depthwise.out_channels;
    int64_t most_rows = 0, most_outputs = 0;
    size_t scratch_bytes = 0;
    for (const Band& band : bands) {
      most_rows = std::max(most_rows, band.between.count());
      most_outputs = std::max(most_outputs, band.outputs.count());
      for (const OnednnConv* problem : {band.conv.get(), band.last.get()}) {
        if (problem == nullptr) continue;
        scratch_bytes = std::max(scratch_bytes, problem->scratch_bytes());
      }
    }
    const int64_t row_floats = Aligned(most_rows * row);
    const int64_t output_floats = p.shapes.last ? Aligned(most_outputs * depthwise_row) : 0;
    const auto scratch_floats = static_cast<int64_t>(scratch_bytes / sizeof(float)) + 1;
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor memory,
        Scratch(p.allocator, DType::kFloat,
                std::max(row_floats + output_floats + scratch_floats, kScratchFloats)));
    float* const between = memory.mutable_data<float>();
    float* const outputs = between + row_floats;  // Where they are not the step's.
    float* const scratch = outputs + output_floats;
    const float* input = p.input + image * conv.rows.input * conv.cols.input * conv.in_channels;
    const DepthwiseEpilogue<float> epilogue = DepthwiseEpilogueOf(p.shapes.depthwise_operands);
    RowRange there = {0, 0};
    for (const Band& band : bands) {
      if (WorkIsCut()) return absl::OkStatus();
      if (there.begin != band.between.begin) {
        const int64_t left = std::max<int64_t>(there.end - band.between.begin, 0);
        std::memmove(between, between + (band.between.begin - there.begin) * row,
                     left * row * sizeof(float));
      }
      there = band.between;
      if (band.conv != nullptr) {
        const RowRange from = InputsOf(conv.rows, band.new_rows);
        FORMWORK_RETURN_IF_ERROR(
            band.conv->Forward(input + from.begin * conv.cols.input * conv.in_channels,
                               p.conv_filter, p.shapes.conv_operands.bias_data(),
                               between + (band.new_rows.begin - there.begin) * row, scratch));
      }
      const int64_t first_row = image * depthwise.rows.output + band.outputs.begin;
      float* const made = p.shapes.last ? outputs : p.output + first_row * depthwise_row;
      DepthwiseForward(OfRows(depthwise, band.outputs, band.between), between, p.weights, epilogue,
                       made);
      if (p.shapes.last) {
        FORMWORK_RETURN_IF_ERROR(RunLast(p, band, first_row, made, scratch));
      }
    }
    return absl::OkStatus();
  }

  // Of a band whose rows `made` are the rows from `first_row` on of all images.
  static absl::Status RunLast(const Problem& p, const Band& band, int64_t first_row,
                              const float* made, void* scratch) {
    const ConvShape& last = *p.shapes.last;
    const EpilogueOperands& operands = p.shapes.last_operands;
    const float* const bias = operands.bias_data();
    const int64_t row = last.cols.output * last.out_channels;
    float* const output = p.output + first_row * row;
    const float* residual = operands.residual_data();
    if (residual != nullptr) residual += first_row * row;
    if (band.last == nullptr) {
      ConvPanelsForward(OfRows(last, band.outputs, band.outputs), made,
                        static_cast<const float*>(p.last_filter), bias, residual,
                        operands.steps.activation, output);
      return absl::OkStatus();
    }
    if (residual != nullptr) {
      std::memcpy(output, residual, band.outputs.count() * row * sizeof(float));
    }
    return band.last->Forward(made, p.last_filter, bias, output, scratch);
  }

  const std::vector<ConvNode> nodes_;
  const std::vector<SlidingAttrs> attrs_;
  const std::vector<Epilogue> epilogues_;
  PackedFilterMemo conv_memo_{/*calls_wanted=*/3};
  PackedFilterMemo last_memo_{/*calls_wanted=*/3};
};

}  // namespace

absl::StatusOr<KernelFn> MakeConvBands(std::vector<ConvNode> nodes) {
  std::vector<SlidingAttrs> attrs;
  std::vector<Epilogue> epilogues;
  for (const ConvNode& node : nodes) {
    FORMWORK_ASSIGN_OR_RETURN(attrs.emplace_back(), SlidingAttrs::OfConv(*node.attrs));
    FORMWORK_ASSIGN_OR_RETURN(epilogues.emplace_back(),
                              Epilogue::FromAttrs(*node.attrs, node.num_inputs));
    if (attrs.back().layout.channels_first) {
      return Unimplemented("bands of rows are of images with channels last");
    }
  }
  if (epilogues[0].residual) {
    return Unimplemented("the first convolution of bands has no residual");
  }
  auto bands =
      std::make_unique<ConvBands>(std::move(nodes), std::move(attrs), std::move(epilogues));
  return KernelFn([bands = std::move(bands)](KernelContext& ctx) { return bands->Run(ctx); });
}

}  // namespace formwork
