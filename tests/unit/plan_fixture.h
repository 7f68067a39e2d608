#pragma once

// A plan made from a text (graph_text.h) and run on one thread.

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/planner.h"
#include "core/runtime/call.h"
#include "core/runtime/executor.h"
#include "tests/support/graph_world.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {

using Feeds = std::vector<std::pair<std::string, DType>>;

class PlanFixture : public ::testing::Test {
 protected:
  /// `shape`: what is known of the shape of each of the feeds.
  void Make(absl::string_view text, Feeds feeds, std::vector<std::string> fetches,
            const PartialShape& shape = PartialShape()) {
    const std::vector<PartialShape> shapes(feeds.size(), shape);
    ASSERT_OK_AND_ASSIGN(ImportedGraph imported,
                         world_.Import(text, std::move(feeds), std::move(fetches)));
    PlannerContext context{world_.ops, world_.kernels, world_.allocator};
    context.lanes = lanes_;
    context.budget = budget_;
    ASSERT_OK_AND_ASSIGN(plan_, MakePlan(imported, shapes, context));
    frame_ = std::make_unique<PlanFrame>(*plan_);
    state_ = std::vector<std::atomic<uint64_t>>(plan_->num_state);
  }
  absl::StatusOr<std::vector<Tensor>> Run(std::vector<Tensor> inputs) {
    const std::vector<ResourceHandle> named;
    Call call(*allocator_, absl::MakeSpan(state_), &named, stop_);
    std::vector<Tensor> outputs(plan_->results.size());
    Execution execution(*plan_, *frame_, call, absl::MakeSpan(inputs), recorder_);
    slices_ = 0;
    absl::StatusOr<Execution::State> state = Execution::State::kSuspended;
    while (state.ok() && *state == Execution::State::kSuspended) {
      state =
          execution.Run(absl::MakeSpan(outputs), TimeSlice(others_wait_, absl::Microseconds(100)));
      ++slices_;
    }
    failed_ = execution.position();
    FORMWORK_RETURN_IF_ERROR(state.status());
    return outputs;
  }
  /// One float out.
  float RunFloat(std::vector<Tensor> inputs) {
    absl::StatusOr<std::vector<Tensor>> outputs = Run(std::move(inputs));
    EXPECT_OK(outputs.status());
    return outputs.ok() ? (*outputs)[0].scalar<float>() : NAN;
  }
  /// How many of the frame's slots hold memory.
  int Held() const {
    int held = 0;
    for (const Tensor& slot : frame_->slots) held += slot.buffer() ? 1 : 0;
    return held;
  }
  std::string Text() const { return PlanText(*plan_); }

  GraphWorld world_;
  bool lanes_ = false;  // Of the plans.
  PassBudget budget_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<PlanFrame> frame_;
  std::vector<std::atomic<uint64_t>> state_;  // Hidden, of all runs.
  StopFlag stop_;
  Allocator* allocator_ = &world_.allocator;  // Of the runs.
  std::atomic<bool> others_wait_{false};      // While it is true a run leaves its thread soon.
  TimelineRecorder* recorder_ = nullptr;      // Of the runs' steps.
  int slices_ = 0;                            // Of the latest run.
  int64_t failed_ = -1;                       // Where the latest run ended.
};

}  // namespace formwork::testing
