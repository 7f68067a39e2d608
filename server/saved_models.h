#pragma once

// What --saved-model names: loaded before the server serves, and higher versions as they come.

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "server/flags.h"

namespace formwork::server {

/// The SavedModels of a server. Not thread-safe; its own thread aside.
class SavedModels {
 public:
  /// `options` says which, and how often to look for higher versions. `engine` is there
  /// until it is stopped.
  SavedModels(const ServerOptions& options, Engine& engine);
  SavedModels(const SavedModels&) = delete;
  SavedModels& operator=(const SavedModels&) = delete;
  ~SavedModels() { Stop(); }

  /// Loads those of which the engine has no function, in their order. Ends with kCancelled soon
  /// after `cancelled` says so. Errors: LoadSavedModel's, with the flag.
  absl::Status Load(absl::FunctionRef<bool()> cancelled);

  /// From now on, on a thread of its own: where a folder of versions has a higher one than it ever
  /// had, it takes the place of what is there under that name, without a pause for calls. One that
  /// cannot be loaded is logged, and tried again, ever less often, while it is the highest: it may
  /// not have been written to its end yet. Does nothing where the interval is 0. Once.
  void Follow();
  /// A load under way is cancelled.
  void Stop();

 private:
  struct Model {
    std::string flag;
    std::string name;
    std::string path;
    uint64_t version = 0;  // The highest so far,
    bool loaded = true;    // and whether it could be loaded; if not,
    absl::Time next_try;
    absl::Duration wait;  // and that after it.
    std::string problem;  // As it was logged last; empty: it has been solved.
  };

  absl::StatusOr<uint64_t> LoadFrom(const std::string& path, const Model& model, bool replace,
                                    absl::FunctionRef<bool()> cancelled);
  void LookAt(Model& model);
  void Log(Model& model, const absl::Status& status);
  void Run();
  bool stops() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration interval_;  // Zero: nothing is followed.
  const int64_t max_batch_rows_;
  Engine& engine_;
  std::vector<Model> models_;

  absl::Mutex mutex_;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace formwork::server
