// formwork-server: reads its settings, serves until SIGTERM or SIGINT, drains, and exits.

#include <grpc/grpc.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "server/flags.h"
#include "server/logging.h"
#include "server/server.h"
#include "spdlog/spdlog.h"

namespace {

using formwork::server::Server;
using formwork::server::ServerOptions;

// What may take longer than the drain itself: closing connections, freeing memory.
constexpr absl::Duration kExitGrace = absl::Seconds(2);

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

// Ends the process at `bound`, or at a second signal, even where a call cannot be stopped.
void ExitAtTheLatest(absl::Time bound, sigset_t signals) {
  std::thread([bound, signals] {
    const timespec left = absl::ToTimespec(std::max(bound - absl::Now(), absl::ZeroDuration()));
    sigtimedwait(&signals, nullptr, &left);
    spdlog::warn("exits with work unfinished");
    std::_Exit(0);
  }).detach();
}

int Run(const ServerOptions& options, sigset_t signals) {
  absl::StatusOr<std::unique_ptr<formwork::Engine>> engine =
      formwork::Engine::Create(options.engine);
  if (!engine.ok()) {
    spdlog::error("cannot start: {}", Text(engine.status()));
    return 1;
  }
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options, *std::move(engine));
  if (!server.ok()) {
    spdlog::error("cannot start: {}", Text(server.status()));
    return 1;
  }
  std::printf("formwork-server ready %s\n", (*server)->Addresses().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("signal {}: drains", signal);
  const absl::Time deadline = absl::Now() + absl::Seconds(options.drain_timeout_seconds);
  ExitAtTheLatest(deadline + kExitGrace, signals);
  const absl::Status drained = (*server)->Shutdown(deadline);
  if (!drained.ok()) spdlog::warn("not all that was admitted could end: {}", Text(drained));
  spdlog::info("ends");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ServerOptions options;
  if (std::optional<int> code = formwork::server::ParseFlags(argc, argv, &options)) return *code;
  const sigset_t signals = BlockSignals();
  formwork::server::SetUpLogging(options.log_format, options.log_level);
  // Never undone: gRPC's own shutdown may wait ten seconds for a poller of its own.
  grpc_init();
  const int code = Run(options, signals);
  std::fflush(nullptr);
  return code;
}
