#include "core/plan/stream_clocks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/kernels/enqueued_step.h"

namespace formwork {

void StreamClocks::SetMadeBy(uint32_t slot, int32_t step) {
  if (made_by_.size() <= slot) made_by_.resize(slot + 1, -1);
  made_by_[slot] = step;
}

int32_t StreamClocks::NewStep(uint32_t instruction, int stream) {
  steps_.push_back({instruction, stream, now_.behind[stream]});
  ++now_.behind[stream][stream];
  return static_cast<int32_t>(steps_.size()) - 1;
}

std::vector<int32_t> StreamClocks::Needed(int stream, Slots slots) const {
  std::array<int32_t, StreamGroup::kMost> last;
  last.fill(-1);
  for (uint32_t slot : slots) {
    int32_t made_by = MadeBy(slot);
    if (made_by < 0 || IsBehind(stream, steps_[made_by])) continue;
    if (steps_[made_by].instruction == kNone && now_.point >= 0 && now_.point > made_by) {
      made_by = now_.point;
      if (IsBehind(stream, steps_[made_by])) continue;
    }
    int32_t& of_stream = last[steps_[made_by].stream];
    if (of_stream < 0 || steps_[of_stream].behind[steps_[made_by].stream] <
                             steps_[made_by].behind[steps_[made_by].stream]) {
      of_stream = made_by;
    }
  }
  std::vector<int32_t> needed;
  for (int32_t step : last) {
    if (step < 0) continue;
    const int of = steps_[step].stream;
    const bool follows = std::any_of(last.begin(), last.end(), [&](int32_t other) {
      return other >= 0 && other != step && steps_[other].behind[of] >= steps_[step].behind[of];
    });
    if (!follows) needed.push_back(step);
  }
  return needed;
}

bool StreamClocks::HasToWait(int stream, Slots slots) const {
  return !Needed(stream, slots).empty();
}

bool StreamClocks::NeedsPoint(int stream, Slots slots) const {
  for (int32_t step : Needed(stream, slots)) {
    if (steps_[step].instruction == kNone) return true;
  }
  return false;
}

void StreamClocks::AddPoint(uint32_t instruction) {
  uses_.push_back({instruction, 0, {}});
  now_.point = NewStep(instruction, 0);
}

void StreamClocks::AddStep(uint32_t instruction, int stream, Slots reads, Plan::Range makes) {
  std::vector<int32_t> waits = Needed(stream, reads);
  for (int32_t step : waits) {
    for (int k = 0; k < StreamGroup::kMost; ++k) {
      if (k == stream) continue;
      now_.behind[stream][k] = std::max(now_.behind[stream][k], steps_[step].behind[k]);
    }
  }
  uses_.push_back({instruction, stream, std::move(waits)});
  const int32_t step = NewStep(instruction, stream);
  for (uint32_t k = 0; k < makes.count; ++k) SetMadeBy(makes.first + k, step);
}

void StreamClocks::NoteSame(uint32_t slot, Plan::Ref of) {
  SetMadeBy(slot, of.constant ? -1 : MadeBy(of.index));
}

void StreamClocks::NoteMade(Plan::Range slots) {
  if (!several() || slots.count == 0) return;
  const int32_t step = NewStep(kNone, 0);
  for (uint32_t k = 0; k < slots.count; ++k) SetMadeBy(slots.first + k, step);
}

void StreamClocks::Restore(const State& state) {
  StreamGroup::Times own;
  for (int k = 0; k < StreamGroup::kMost; ++k) own[k] = now_.behind[k][k];
  now_ = state;
  for (int k = 0; k < StreamGroup::kMost; ++k) now_.behind[k][k] = own[k];
}

void StreamClocks::Finish(Plan& plan) {
  int most = 0;
  for (const Use& use : uses_) most = std::max(most, use.stream);
  if (most == 0) return;
  plan.num_streams = most + 1;
  plan.on_streams.resize(plan.code.size());
  std::map<int32_t, uint32_t> points;  // Of the steps that are waited for.
  for (const Use& use : uses_) {
    Plan::OnStream& on = plan.on_streams[use.instruction];
    on.stream = use.stream;
    for (int32_t step : use.waits) {
      on.waits.push_back(steps_[step].instruction);
      points.try_emplace(step, static_cast<uint32_t>(points.size()));
    }
  }
  plan.num_points = static_cast<uint32_t>(points.size());
  std::map<uint32_t, uint32_t> recorded;  // By instruction.
  for (const auto& [step, point] : points) recorded[steps_[step].instruction] = point;
  for (const Use& use : uses_) {
    StepOnStream on{use.stream, {}, {}};
    for (int32_t step : use.waits) on.waits.push_back(points.at(step));
    const auto found = recorded.find(use.instruction);
    if (found != recorded.end()) on.records = found->second;
    if (on.stream == 0 && on.waits.empty() && !on.records) continue;
    KernelFn& kernel = plan.kernels[plan.code[use.instruction].target];
    kernel = MakeStepOnStream(std::move(kernel), std::move(on));
  }
}

}  // namespace formwork
