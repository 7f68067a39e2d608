#include "server/process.h"

#include <grpc/grpc.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/system_memory.h"
#include "core/engine.h"
#include "server/device.h"
#include "server/event_log.h"
#include "server/flags.h"
#include "server/logging.h"
#include "server/saved_models.h"
#include "server/server.h"
#include "server/spare_threads.h"
#include "spdlog/spdlog.h"

namespace formwork::server {
namespace {

// What may take longer than the drain itself: closing connections, freeing memory.
constexpr absl::Duration kExitGrace = absl::Seconds(2);

// More than gRPC starts as requests come in: two for each core up to 8 cores.
constexpr int kSpareThreads = 16;

// Exit codes: 0 where all that was admitted has ended, kBadFlag (flags.h), and these.
constexpr int kCannotStart = 1;
constexpr int kWorkLeft = 3;
constexpr int kNotSaved = 4;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

// Blocked in every thread, so that main alone takes them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Each connection takes one, and 1024, the usual soft limit, is there for programs that use select.
void RaiseDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Waits for one of `signals`; 0 where none came until `deadline`.
int WaitForSignal(const sigset_t& signals, absl::Time deadline) {
  while (true) {
    const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
    const timespec time = absl::ToTimespec(std::min(left, absl::Hours(24)));
    const int signal = sigtimedwait(&signals, nullptr, &time);
    if (signal > 0) return signal;
    if (errno == EAGAIN && absl::Now() >= deadline) return 0;
  }
}

// What the process ends with where it ends now.
std::atomic<int> exit_code_now{kWorkLeft};

[[noreturn]] void ExitNow() {
  if (exit_code_now == kWorkLeft) spdlog::warn("exits with work unfinished");
  std::_Exit(exit_code_now);
}

// Ends the process at `bound`, or at a second signal, even where a call cannot be stopped.
void ExitAtTheLatest(absl::Time bound, sigset_t signals) {
  std::thread([bound, signals] {
    WaitForSignal(signals, bound);
    ExitNow();
  }).detach();
}

// Two stages, so that balancers notice before a call is refused. Returns the exit code.
int ShutDown(const ServerOptions& options, Server& server, SavedModels& models, sigset_t signals) {
  server.StopServing();
  if (WaitForSignal(signals, absl::Now() + absl::Seconds(options.lame_duck_seconds)) != 0) {
    ExitNow();
  }
  const absl::Time deadline = absl::Now() + absl::Seconds(options.drain_timeout_seconds);
  const absl::Duration snapshot = options.engine.data_dir.empty()
                                      ? absl::ZeroDuration()
                                      : absl::Seconds(options.snapshot_timeout_seconds);
  ExitAtTheLatest(deadline + kExitGrace + snapshot, signals);
  models.Stop();
  const absl::Status drained = server.Shutdown(deadline);
  const absl::Status saved = server.SaveState(absl::Now() + snapshot);
  if (!saved.ok()) {
    spdlog::error("the last snapshot could not be taken: the one before stands: {}", Text(saved));
    return exit_code_now = kNotSaved;
  }
  if (drained.ok()) return exit_code_now = 0;
  spdlog::warn("not all that was admitted could end: {}", Text(drained));
  return kWorkLeft;
}

bool IsToldToEnd() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1;
}

int Serve(const ServerOptions& options, sigset_t signals) {
  EngineOptions engine_options = options.engine;
  engine_options.on_eviction = &LogEviction;
  engine_options.on_missing_device = &LogMissingDevice;
  engine_options.on_snapshot = &LogSnapshot;
  engine_options.on_lost_function = &LogLostFunction;
  engine_options.on_lost_position = &LogLostPosition;
  std::unique_ptr<Device> device;  // Behind the engine, which ends first.
  if (engine_options.device == nullptr) {
    absl::StatusOr<std::unique_ptr<Device>> opened = OpenDevice(options.device);
    if (!opened.ok()) {
      spdlog::error("cannot start: {}", Text(opened.status()));
      return absl::IsInvalidArgument(opened.status()) ? kBadFlag : kCannotStart;
    }
    device = *std::move(opened);
    if (device != nullptr) UseDevice(*device, &engine_options);
    if (options.tf32) UseTf32();
    if (options.deterministic) UseDeterminism();
    if (!options.cuda_graphs) engine_options.max_captured_bytes = 0;
  }
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(engine_options);
  if (!engine.ok()) {
    spdlog::error("cannot start: {}", Text(engine.status()));
    return absl::IsInvalidArgument(engine.status()) ? kBadFlag : kCannotStart;
  }
  SavedModels models(options, **engine);
  if (const absl::Status loaded = models.Load(&IsToldToEnd); !loaded.ok()) {
    spdlog::error("cannot start: {}", Text(loaded));
    return kCannotStart;
  }
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options, *std::move(engine));
  if (!server.ok()) {
    spdlog::error("cannot start: {}", Text(server.status()));
    return kCannotStart;
  }
  std::printf("formwork-server ready %s\n", (*server)->Addresses().c_str());
  std::fflush(stdout);
  models.Follow();
  const int signal = WaitForSignal(signals, absl::InfiniteFuture());
  spdlog::info("signal {}: drains", signal);
  const int code = ShutDown(options, **server, models, signals);
  spdlog::info("ends");
  return code;
}

}  // namespace

int RunProcess(int argc, const char* const* argv, const EngineOptions& engine) {
  ServerOptions options;
  options.engine = engine;
  if (std::optional<int> code = ParseFlags(argc, argv, &options)) return *code;
#ifdef NDEBUG
  // Debian builds Abseil with assertions, so that each of its mutexes, gRPC's too, looks for cycles
  // of locks each time it is taken.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  BoundHeapArenas();
  const sigset_t signals = BlockSignals();
  formwork::server::KeepSpareThreads(kSpareThreads);
  RaiseDescriptorLimit();
  SetUpLogging(options.log_format, options.log_level);
  // Never undone: gRPC's own shutdown may wait ten seconds for a poller of its own.
  grpc_init();
  int code = kCannotStart;
  try {
    code = Serve(options, signals);
  } catch (const std::exception& error) {  // Of the library: no thread, no memory.
    spdlog::error("cannot start: {}", error.what());
  }
  std::fflush(nullptr);
  return code;
}

}  // namespace formwork::server
