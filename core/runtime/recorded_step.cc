#include "core/runtime/recorded_step.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/kernels/stream_scope.h"
#include "core/tensor/dtype.h"

namespace formwork {
namespace {

// A name that is made of many.
constexpr size_t kMostParts = 32;
constexpr size_t kMostOutputs = 8;

std::string PartsText(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < std::min(parts.size(), kMostParts); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", parts[i]);
  }
  if (parts.size() > kMostParts) absl::StrAppend(&text, ", ", parts.size() - kMostParts, " more");
  return text;
}

absl::string_view OpText(const Plan& plan, uint32_t at) {
  const Plan::Label& label = plan.labels[at];
  if (label.op != nullptr) return label.op->name;
  const Plan::Code code = plan.code[at].code;
  if (code == Plan::Code::kScalar) return "scalars";
  if (code == Plan::Code::kFork) return "lanes";
  if (!label.parts.empty()) return "fused";
  if (plan.code[at].inputs.count == 0 && !plan.memory.empty()) return "point";
  return label.node.empty() ? "copy" : "kept values";
}

TimelineRecorder::StepTexts TextsOf(TimelineRecorder& recorder, const Plan& plan, uint32_t at) {
  const Plan::Label& label = plan.labels[at];
  return recorder.TextsOf(&label, [&]() -> TimelineRecorder::StepTexts {
    return {label.parts.empty() ? recorder.TextOf(label.node)
                                : recorder.TextFrom([&] { return PartsText(label.parts); }),
            recorder.TextOf(OpText(plan, at))};
  });
}

std::string OutputsText(absl::Span<const Tensor> outputs) {
  std::string text;
  for (size_t k = 0; k < std::min(outputs.size(), kMostOutputs); ++k) {
    const Tensor& output = outputs[k];
    absl::StrAppend(&text, k == 0 ? "" : ", ", DTypeName(output.dtype()),
                    output.has_value() ? output.shape().ToString() : "");
  }
  if (outputs.size() > kMostOutputs) {
    absl::StrAppend(&text, ", ", outputs.size() - kMostOutputs, " more");
  }
  return text;
}

}  // namespace

RecordedStep::RecordedStep(TimelineRecorder& recorder, uint16_t track, const Plan& plan,
                           uint32_t at, absl::Span<const InputRef> inputs)
    : recorder_(recorder) {
  for (size_t i = 0; i < std::min(inputs.size(), given_.size()); ++i) {
    if (inputs[i].tensor->buffer()) given_[i] = inputs[i].tensor->raw();
  }
  const TimelineRecorder::StepTexts texts = TextsOf(recorder, plan, at);
  recorder.SetStep(texts.name, texts.op);
  const bool lanes = plan.code[at].code == Plan::Code::kFork;
  span_ = recorder.Open({.name = texts.name,
                         .op = texts.op,
                         .track = track,
                         .kind = lanes ? Timeline::Kind::kLanes : Timeline::Kind::kStep});
}

void RecordedStep::End(const absl::Status& status, absl::Span<const Tensor> outputs) {
  if (IsWaiting(status)) {
    return recorder_.Close(span_, recorder_.TextOf("waits"), 0);
  }
  if (!status.ok()) {
    return recorder_.Close(span_, recorder_.TextFrom([&] {
      return absl::StrCat("ended: ", absl::StatusCodeToString(status.code()));
    }),
                           0);
  }
  uint64_t bytes = 0;
  for (const Tensor& output : outputs) {
    // What others hold as well, and what was an input's, has been allocated before.
    const bool fresh = output.buffer() && output.unique() &&
                       std::find(given_.begin(), given_.end(), output.raw()) == given_.end();
    if (fresh) bytes += output.bytes();
  }
  recorder_.Close(span_, recorder_.TextFrom([&] { return OutputsText(outputs); }), bytes);
}

TimelineRecorder::SpanId OpenCall(TimelineRecorder& recorder, uint16_t track, const Plan& plan,
                                  uint32_t at, absl::string_view function) {
  const TimelineRecorder::StepTexts texts = TextsOf(recorder, plan, at);
  return recorder.Open({.name = texts.name,
                        .op = texts.op,
                        .detail = recorder.TextOf(function),
                        .track = track,
                        .kind = Timeline::Kind::kCall});
}

TimelineRecorder::SpanId OpenLane(TimelineRecorder& recorder, uint16_t track, const Plan& lane) {
  return recorder.Open(
      {.name = recorder.TextOf(lane.name), .track = track, .kind = Timeline::Kind::kLanes});
}

}  // namespace formwork
