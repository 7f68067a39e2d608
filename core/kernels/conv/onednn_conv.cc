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

// As ConvShape's: an empty tensor's other dimensions may be too large to multiply.
int64_t Elements(int64_t batch, int64_t channels, absl::Span<const ConvAxis> axes,
                 int64_t ConvAxis::*size) {
  int64_t elements = ConvShape::Product(batch, channels, 1, 1);
  for (const ConvAxis& axis : axes) elements = ConvShape::Product(elements, axis.*size, 1, 1);
  return elements;
}

bool FitsInt32(const OnednnConvShape& s) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  // oneDNN's kernels compute with 32-bit offsets in places.
  for (int64_t n : {s.input_elements(), s.output_elements(), s.filter_elements()}) {
    if (n > kMax / 4) return false;
  }
  return std::all_of(s.axes().begin(), s.axes().end(), [](const ConvAxis& a) {
    return (a.taps - 1) * a.dilation + a.stride + a.pad_before + a.pad_after <= kMax / 4;
  });
}

memory::dims Each(const OnednnConvShape& s, int64_t ConvAxis::*member) {
  memory::dims dims;
  for (const ConvAxis& axis : s.axes()) dims.push_back(axis.*member);
  return dims;
}

// {outer, inner, spatial dimensions}, the order of oneDNN's dimensions whatever the layout.
memory::dims Dimensions(const OnednnConvShape& s, int64_t outer, int64_t inner,
                        int64_t ConvAxis::*size) {
  memory::dims dims = Each(s, size);
  dims.insert(dims.begin(), {outer, inner});
  return dims;
}

}  // namespace

OnednnConvShape::OnednnConvShape(const ConvShape& shape, DType dtype)
    : dtype(dtype),
      batch(shape.batch),
      in_channels(shape.in_channels),
      out_channels(shape.out_channels),
      groups(shape.groups),
      channels_first(shape.channels_first),
      spatial(2),
      all_axes{shape.rows, shape.cols, ConvAxis()} {}

OnednnConvShape::OnednnConvShape(const Conv3dShape& shape, DType dtype)
    : dtype(dtype),
      batch(shape.batch),
      in_channels(shape.in_channels),
      out_channels(shape.out_channels),
      spatial(3),
      all_axes(shape.axes) {}

int64_t OnednnConvShape::input_elements() const {
  return Elements(batch, in_channels, axes(), &ConvAxis::input);
}
int64_t OnednnConvShape::output_elements() const {
  return Elements(batch, out_channels, axes(), &ConvAxis::output);
}
int64_t OnednnConvShape::filter_elements() const {
  return Elements(in_channels / groups, out_channels, axes(), &ConvAxis::taps);
}
double OnednnConvShape::work() const {
  return static_cast<double>(output_elements()) / static_cast<double>(out_channels) *
         static_cast<double>(filter_elements());
}

struct OnednnConv::Parts {
  memory::desc packed_filter;
  memory::desc scratch;
  bool has_bias = false;
  OnednnPrimitive conv;
  OnednnPrimitive pack;  // Of a gradient of filters none, which unpacks.
  OnednnPrimitive unpack;
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

absl::StatusOr<std::shared_ptr<const OnednnConv>> Compile(const OnednnConvShape& s,
                                                          ConvDirection direction,
                                                          const Epilogue& epilogue) {
  if (!FitsInt32(s)) return Unimplemented("oneDNN convolution: sizes are out of range");
  try {
    SetUpOnednn();
    const auto f32 = memory::data_type::f32;
    const auto type = s.dtype == DType::kBfloat16 ? memory::data_type::bf16 : f32;
    const bool volumes = s.spatial == 3;
    const Tag layout =
        s.channels_first ? (volumes ? Tag::ncdhw : Tag::nchw) : (volumes ? Tag::ndhwc : Tag::nhwc);
    auto parts = std::make_unique<OnednnConv::Parts>();
    const memory::desc input = {Dimensions(s, s.batch, s.in_channels, &ConvAxis::input), type,
                                layout};
    const memory::desc output = {Dimensions(s, s.batch, s.out_channels, &ConvAxis::output), type,
                                 layout};
    memory::dims filter =
        Dimensions(s, s.out_channels / s.groups, s.in_channels / s.groups, &ConvAxis::taps);
    const bool grouped = s.groups > 1;
    if (grouped) filter.insert(filter.begin(), s.groups);
    // A gradient is added up in parts, as floats.
    const auto filter_type = direction == ConvDirection::kFilterGradient ? f32 : type;
    const memory::desc plain_filter = {
        filter, filter_type,
        volumes ? (grouped ? Tag::dhwigo : Tag::dhwio) : (grouped ? Tag::hwigo : Tag::hwio)};
    const memory::desc any_filter(filter, type, Tag::any);
    const memory::desc any_gradient(filter, f32, Tag::any);
    const memory::dims strides = Each(s, &ConvAxis::stride);
    memory::dims dilations = Each(s, &ConvAxis::dilation);
    for (auto& dilation : dilations) --dilation;  // oneDNN counts the gaps.
    const memory::dims before = Each(s, &ConvAxis::pad_before);
    const memory::dims after = Each(s, &ConvAxis::pad_after);
    const auto direct = dnnl::algorithm::convolution_direct;
    // The caller brings the scratch: the library's own belongs to the thread that compiled.
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    memory::desc bias;
    if (epilogue.bias) bias = {{s.out_channels}, f32, Tag::x};
    parts->has_bias = epilogue.bias;
    dnnl::primitive_attr forward_attr = attr;
    forward_attr.set_post_ops(PostOps(epilogue));

    const dnnl::convolution_forward::primitive_desc forward(
        {direction == ConvDirection::kForward ? dnnl::prop_kind::forward_inference
                                              : dnnl::prop_kind::forward_training,
         direct, input, any_filter, bias, output, strides, dilations, before, after},
        forward_attr, OnednnEngine());
    if (direction == ConvDirection::kForward) {
      parts->packed_filter = forward.weights_desc();
      parts->scratch = forward.scratchpad_desc();
      std::vector<OnednnPrimitive::Argument> arguments = {{DNNL_ARG_SRC, input},
                                                          {DNNL_ARG_WEIGHTS, parts->packed_filter},
                                                          {DNNL_ARG_DST, output},
                                                          {DNNL_ARG_SCRATCHPAD, parts->scratch}};
      if (epilogue.bias) arguments.push_back({DNNL_ARG_BIAS, bias});
      parts->conv = {dnnl::convolution_forward(forward), std::move(arguments)};
    } else if (direction == ConvDirection::kInputGradient) {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {direct, input, any_filter, output, strides, dilations, before, after}, attr,
          OnednnEngine(), forward);
      parts->packed_filter = backward.weights_desc();
      parts->scratch = backward.scratchpad_desc();
      parts->conv = {dnnl::convolution_backward_data(backward),
                     {{DNNL_ARG_DIFF_DST, output},
                      {DNNL_ARG_WEIGHTS, parts->packed_filter},
                      {DNNL_ARG_DIFF_SRC, input},
                      {DNNL_ARG_SCRATCHPAD, parts->scratch}}};
    } else {
      const dnnl::convolution_backward_weights::primitive_desc backward(
          {direct, input, any_gradient, output, strides, dilations, before, after}, attr,
          OnednnEngine(), forward);
      parts->packed_filter = backward.diff_weights_desc();
      parts->scratch = backward.scratchpad_desc();
      parts->conv = {dnnl::convolution_backward_weights(backward),
                     {{DNNL_ARG_SRC, input},
                      {DNNL_ARG_DIFF_DST, output},
                      {DNNL_ARG_DIFF_WEIGHTS, parts->packed_filter},
                      {DNNL_ARG_SCRATCHPAD, parts->scratch}}};
    }
    const auto reordered = [](const memory::desc& from, const memory::desc& to) {
      return OnednnPrimitive(
          dnnl::reorder(dnnl::reorder::primitive_desc(OnednnEngine(), from, OnednnEngine(), to)),
          {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    };
    if (direction == ConvDirection::kFilterGradient) {
      parts->unpack = reordered(parts->packed_filter, plain_filter);
    } else {
      parts->pack = reordered(plain_filter, parts->packed_filter);
    }
    return std::make_shared<const OnednnConv>(std::move(parts));
  } catch (const dnnl::error& error) {
    return Unimplemented("oneDNN convolution: ", error.what());
  }
}

using ProblemKey = std::tuple<OnednnConvShape, ConvDirection, Epilogue>;
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

absl::StatusOr<std::shared_ptr<const OnednnConv>> OnednnConv::Get(const OnednnConvShape& shape,
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

absl::Status OnednnConv::PackFilter(const void* filter, void* packed) const {
  return parts_->pack.Run({filter, packed}, kConvolution);
}

absl::Status OnednnConv::UnpackFilter(const void* packed, float* filter) const {
  return parts_->unpack.Run({packed, filter}, kConvolution);
}

absl::Status OnednnConv::Forward(const void* input, const void* packed, const float* bias,
                                 void* output, void* scratch) const {
  if (!parts_->has_bias) return parts_->conv.Run({input, packed, output, scratch}, kConvolution);
  return parts_->conv.Run({input, packed, output, scratch, bias}, kConvolution);
}

absl::Status OnednnConv::InputGradient(const void* packed, const void* out_backprop,
                                       void* in_backprop, void* scratch) const {
  return parts_->conv.Run({out_backprop, packed, in_backprop, scratch}, kConvolution);
}

absl::Status OnednnConv::FilterGradient(const void* input, const void* out_backprop, void* packed,
                                        void* scratch) const {
  return parts_->conv.Run({input, out_backprop, packed, scratch}, kConvolution);
}

}  // namespace formwork
