#include "server/saved_models.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "spdlog/spdlog.h"

namespace formwork::server {
namespace {

// How often a load looks whether it is cancelled.
constexpr absl::Duration kCancelledWithin = absl::Milliseconds(100);

// So many intervals at most are between two tries of what cannot be loaded.
constexpr int kMostIntervals = 64;

}  // namespace

SavedModels::SavedModels(const ServerOptions& options, Engine& engine)
    : interval_(absl::Seconds(options.saved_model_interval_seconds)),
      max_batch_rows_(options.max_batch_rows),
      engine_(engine) {
  for (const std::string& flag : options.saved_models) {
    Model& model = models_.emplace_back();
    model.flag = absl::StrCat("--saved-model=", flag);
    model.name = flag.substr(0, flag.find('='));
    model.path = flag.substr(model.name.size() + 1);
  }
}

absl::Status SavedModels::Load(absl::FunctionRef<bool()> cancelled) {
  for (Model& model : models_) {
    const std::vector<FunctionInfo> functions = engine_.ListFunctions("", /*signatures=*/false);
    const auto there = std::find_if(
        functions.begin(), functions.end(),
        [&model](const FunctionInfo& function) { return function.name == model.name; });
    if (there != functions.end()) {
      spdlog::info("SavedModel {}: is there already", model.name);
      model.version = there->model_version;
      continue;
    }
    const absl::StatusOr<uint64_t> version =
        LoadFrom(model.path, model, /*replace=*/false, cancelled);
    FORMWORK_RETURN_IF_ERROR(Annotate(version.status(), model.flag));
    model.version = *version;
  }
  return absl::OkStatus();
}

// Returns the version that was loaded.
absl::StatusOr<uint64_t> SavedModels::LoadFrom(const std::string& path, const Model& model,
                                               bool replace, absl::FunctionRef<bool()> cancelled) {
  SavedModelSpec spec;
  spec.name = model.name;
  spec.path = path;
  spec.replace = replace;
  spec.max_batch_rows = max_batch_rows_;
  absl::Notification done;
  SavedModelResult result;
  const std::shared_ptr<CallHandle> loading =
      engine_.LoadSavedModel(std::move(spec), [&](SavedModelResult loaded) {
        result = std::move(loaded);
        done.Notify();
      });
  loading->Start();
  while (!done.WaitForNotificationWithTimeout(kCancelledWithin)) {
    if (cancelled()) loading->Cancel();
  }
  FORMWORK_RETURN_IF_ERROR(result.status);
  spdlog::info("SavedModel {}: functions={} variables={} bytes={}", result.path,
               result.functions.size(), result.resources, result.bytes);
  return result.functions.front().model_version;
}

void SavedModels::Follow() {
  if (interval_ == absl::ZeroDuration() || models_.empty()) return;
  thread_ = std::thread([this] { Run(); });
}

void SavedModels::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stops_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

bool SavedModels::stops() {
  absl::MutexLock lock(&mutex_);
  return stops_;
}

void SavedModels::Run() {
  while (true) {
    for (Model& model : models_) {
      if (stops()) continue;
      CatchOutOfMemory([&] {
        LookAt(model);
        return absl::OkStatus();
      }).IgnoreError();
    }
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stops_), interval_)) return;
  }
}

void SavedModels::LookAt(Model& model) {
  const absl::StatusOr<uint64_t> highest = engine_.SavedModelVersion(model.path);
  if (!highest.ok()) return Log(model, highest.status());
  if (*highest > model.version) {
    model.version = *highest;
    model.loaded = false;
    model.next_try = absl::InfinitePast();
    model.wait = interval_;
  }
  if (*highest != model.version || model.loaded || absl::Now() < model.next_try) return;
  const absl::Status status = LoadFrom(absl::StrCat(model.path, "/", *highest), model,
                                       /*replace=*/true, [this] { return stops(); })
                                  .status();
  if (stops()) return;
  Log(model, status);
  model.loaded = status.ok();
  model.next_try = absl::Now() + model.wait;
  model.wait = std::min(2 * model.wait, kMostIntervals * interval_);
}

void SavedModels::Log(Model& model, const absl::Status& status) {
  std::string problem(status.message());
  if (!problem.empty() && problem != model.problem) {
    spdlog::warn("{}: {}; what is loaded goes on", model.flag, problem);
  }
  model.problem = std::move(problem);
}

}  // namespace formwork::server
