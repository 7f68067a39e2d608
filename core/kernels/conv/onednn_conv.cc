#include "core/kernels/conv/onednn_conv.h"

#include <algorithm>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <utility>

#include "core/base/heap_count.h"
#include "core/base/status.h"
#include "core/kernels/gemm/onednn_problem.h"
#include "core/kernels/gemm/onednn_setup.h"

namespace formwork {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

bool FitsInt32(const ConvShape& s) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  // oneDNN's kernels compute with 32-bit offsets in places.
  for (int64_t n : {s.input_elements(), s.output_elements(), s.filter_elements()}) {
    if (n > kMax / 4) return false;
  }
  for (const ConvAxis* a : {&s.rows, &s.cols}) {
    if ((a->taps - 1) * a->dilation + a->stride + a->pad_before + a->pad_after > kMax / 4) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct OnednnConv::Parts {
  memory::desc input;
  memory::desc output;
  memory::desc plain_filter;
  memory::desc packed_filter;
  memory::desc scratch;
  memory::desc bias;  // Empty where there is none.
  dnnl::primitive conv;
  dnnl::reorder pack;
  dnnl::reorder unpack;
};

namespace {

dnnl::post_ops PostOps(const Epilogue& epilogue) {
  dnnl::post_ops steps;
  if (epilogue.residual) steps.append_sum(1.0f);
  switch (epilogue.activation) {
    case Activation::kNone:
      break;
    case Activation::kRelu:
      steps.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
      break;
    case Activation::kRelu6:
      steps.append_eltwise(1.0f, dnnl::algorithm::eltwise_clip, 0.0f, 6.0f);
      break;
    case Activation::kGelu:
      steps.append_eltwise(1.0f, dnnl::algorithm::eltwise_gelu_erf, 0.0f, 0.0f);
      break;
  }
  return steps;
}

absl::StatusOr<std::shared_ptr<const OnednnConv>> Compile(const ConvShape& s,
                                                          ConvDirection direction,
                                                          const Epilogue& epilogue) {
  if (!FitsInt32(s)) return Unimplemented("oneDNN convolution: sizes are out of range");
  try {
    SetUpOnednn();
    const auto f32 = memory::data_type::f32;
    const Tag layout = s.channels_first ? Tag::nchw : Tag::nhwc;
    auto parts = std::make_unique<OnednnConv::Parts>();
    parts->input = {{s.batch, s.in_channels, s.rows.input, s.cols.input}, f32, layout};
    parts->output = {{s.batch, s.out_channels, s.rows.output, s.cols.output}, f32, layout};
    memory::dims filter = {s.out_group(), s.in_group(), s.rows.taps, s.cols.taps};
    if (s.groups > 1) filter.insert(filter.begin(), s.groups);
    parts->plain_filter = {filter, f32, s.groups > 1 ? Tag::hwigo : Tag::hwio};
    const memory::desc any_filter(filter, f32, Tag::any);
    const memory::dims strides = {s.rows.stride, s.cols.stride};
    const memory::dims dilations = {s.rows.dilation - 1, s.cols.dilation - 1};
    const memory::dims before = {s.rows.pad_before, s.cols.pad_before};
    const memory::dims after = {s.rows.pad_after, s.cols.pad_after};
    const auto direct = dnnl::algorithm::convolution_direct;
    // The caller brings the scratch: the library's own belongs to the thread that compiled.
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (epilogue.bias) parts->bias = {{s.out_channels}, f32, Tag::x};
    dnnl::primitive_attr forward_attr = attr;
    forward_attr.set_post_ops(PostOps(epilogue));

    const dnnl::convolution_forward::primitive_desc forward(
        {direction == ConvDirection::kForward ? dnnl::prop_kind::forward_inference
                                              : dnnl::prop_kind::forward_training,
         direct, parts->input, any_filter, parts->bias, parts->output, strides, dilations, before,
         after},
        forward_attr, OnednnEngine());
    if (direction == ConvDirection::kForward) {
      parts->packed_filter = forward.weights_desc();
      parts->scratch = forward.scratchpad_desc();
      parts->conv = dnnl::convolution_forward(forward);
    } else if (direction == ConvDirection::kInputGradient) {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {direct, parts->input, any_filter, parts->output, strides, dilations, before, after},
          attr, OnednnEngine(), forward);
      parts->packed_filter = backward.weights_desc();
      parts->scratch = backward.scratchpad_desc();
      parts->conv = dnnl::convolution_backward_data(backward);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc backward(
          {direct, parts->input, any_filter, parts->output, strides, dilations, before, after},
          attr, OnednnEngine(), forward);
      parts->packed_filter = backward.diff_weights_desc();
      parts->scratch = backward.scratchpad_desc();
      parts->conv = dnnl::convolution_backward_weights(backward);
    }
    if (direction == ConvDirection::kFilterGradient) {
      parts->unpack = dnnl::reorder(dnnl::reorder::primitive_desc(
          OnednnEngine(), parts->packed_filter, OnednnEngine(), parts->plain_filter));
    } else {
      parts->pack = dnnl::reorder(dnnl::reorder::primitive_desc(
          OnednnEngine(), parts->plain_filter, OnednnEngine(), parts->packed_filter));
    }
    return std::make_shared<const OnednnConv>(std::move(parts));
  } catch (const dnnl::error& error) {
    return Unimplemented("oneDNN convolution: ", error.what());
  }
}

using ProblemKey = std::tuple<ConvShape, ConvDirection, Epilogue>;
using ProblemCache = OnednnCache<ProblemKey, OnednnConv>;
ProblemCache& Problems() {
  static ProblemCache* const cache = new ProblemCache();
  return *cache;
}

}  // namespace

OnednnConv::OnednnConv(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
  CountHeap(kOnednnProblemBytes);
}
OnednnConv::~OnednnConv() { CountHeap(-kOnednnProblemBytes); }

void ForgetConvolutions() { Problems().Clear(); }

absl::StatusOr<std::shared_ptr<const OnednnConv>> OnednnConv::Get(const ConvShape& shape,
                                                                  ConvDirection direction,
                                                                  const Epilogue& epilogue) {
  const ProblemKey key(shape, direction, epilogue);
  if (ProblemCache::Value found = Problems().Find(key); found != nullptr) return found;
  absl::StatusOr<ProblemCache::Value> compiled = Compile(shape, direction, epilogue);
  if (compiled.ok()) Problems().Insert(key, *compiled);
  return compiled;
}

size_t OnednnConv::packed_filter_bytes() const { return parts_->packed_filter.get_size(); }
size_t OnednnConv::scratch_bytes() const { return parts_->scratch.get_size(); }
bool OnednnConv::SamePacking(const OnednnConv& other) const {
  return parts_->packed_filter == other.parts_->packed_filter;
}

constexpr char kConvolution[] = "convolution";

absl::Status OnednnConv::PackFilter(const float* filter, void* packed) const {
  return OnednnArguments()
      .Add(DNNL_ARG_FROM, parts_->plain_filter, filter)
      .Add(DNNL_ARG_TO, parts_->packed_filter, packed)
      .Execute(parts_->pack, kConvolution);
}

absl::Status OnednnConv::UnpackFilter(const void* packed, float* filter) const {
  return OnednnArguments()
      .Add(DNNL_ARG_FROM, parts_->packed_filter, packed)
      .Add(DNNL_ARG_TO, parts_->plain_filter, filter)
      .Execute(parts_->unpack, kConvolution);
}

absl::Status OnednnConv::Forward(const float* input, const void* packed, const float* bias,
                                 float* output, void* scratch) const {
  OnednnArguments arguments;
  arguments.Add(DNNL_ARG_SRC, parts_->input, input)
      .Add(DNNL_ARG_WEIGHTS, parts_->packed_filter, packed)
      .Add(DNNL_ARG_DST, parts_->output, output)
      .Add(DNNL_ARG_SCRATCHPAD, parts_->scratch, scratch);
  if (bias != nullptr) arguments.Add(DNNL_ARG_BIAS, parts_->bias, bias);
  return arguments.Execute(parts_->conv, kConvolution);
}

absl::Status OnednnConv::InputGradient(const void* packed, const float* out_backprop,
                                       float* in_backprop, void* scratch) const {
  return OnednnArguments()
      .Add(DNNL_ARG_DIFF_DST, parts_->output, out_backprop)
      .Add(DNNL_ARG_WEIGHTS, parts_->packed_filter, packed)
      .Add(DNNL_ARG_DIFF_SRC, parts_->input, in_backprop)
      .Add(DNNL_ARG_SCRATCHPAD, parts_->scratch, scratch)
      .Execute(parts_->conv, kConvolution);
}

absl::Status OnednnConv::FilterGradient(const float* input, const float* out_backprop, void* packed,
                                        void* scratch) const {
  return OnednnArguments()
      .Add(DNNL_ARG_SRC, parts_->input, input)
      .Add(DNNL_ARG_DIFF_DST, parts_->output, out_backprop)
      .Add(DNNL_ARG_DIFF_WEIGHTS, parts_->packed_filter, packed)
      .Add(DNNL_ARG_SCRATCHPAD, parts_->scratch, scratch)
      .Execute(parts_->conv, kConvolution);
}

}  // namespace formwork
