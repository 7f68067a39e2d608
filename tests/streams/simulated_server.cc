// formwork-server on the simulated device, for tests. As the server itself but for
// --simulated-device=SEED (or FORMWORK_SIMULATED_DEVICE; 1), from which the order is drawn that the
// device runs things in, for --enqueues (or FORMWORK_ENQUEUES=1), by which its kernels enqueue as a
// GPU's do, and for --least-stream-work=NANOSECONDS (120), so that calls use several
// streams for little work. SIGUSR1 loses the device, SIGUSR2 stalls it. What the device finds wrong
// is told on stderr when the server has ended, and is its exit code.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/process.h"
#include "tests/support/enqueued_kernels.h"
#include "tests/support/sim_device.h"

namespace {

constexpr int kDeviceFoundErrors = 70;
// Of two small steps.
constexpr char kLeastStreamWork[] = "120";

}  // namespace

int main(int argc, char** argv) {
  const char* given = std::getenv("FORMWORK_SIMULATED_DEVICE");
  std::string seed_text = given == nullptr ? "1" : given;
  std::string work_text = kLeastStreamWork;
  bool enqueues = std::getenv("FORMWORK_ENQUEUES") != nullptr;
  std::vector<const char*> rest;
  for (int i = 0; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--simulated-device=")) {
      seed_text = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--least-stream-work=")) {
      work_text = std::string(argument);
    } else if (argument == "--enqueues") {
      enqueues = true;
    } else {
      rest.push_back(argv[i]);
    }
  }
  uint64_t seed = 0;
  formwork::EngineOptions engine;
  if (!absl::SimpleAtoi(seed_text, &seed) ||
      !absl::SimpleAtod(work_text, &engine.least_stream_work)) {
    std::fprintf(stderr, "--simulated-device, --least-stream-work: no number: %s, %s\n",
                 seed_text.c_str(), work_text.c_str());
    return 2;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGUSR2);
  // In every thread, the device's, too; the server waits for the last two itself.
  sigset_t blocked = signals;
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  formwork::testing::SimDevice device(seed, enqueues);
  if (enqueues) {
    engine.register_device_kernels = &formwork::testing::RegisterEnqueuedKernels;
    engine.max_captured_bytes = size_t{1} << 30;
  }
  device.RunByItself();
  engine.device = &device;
  std::thread([&device, signals] {
    int signal = 0;
    while (sigwait(&signals, &signal) == 0) signal == SIGUSR1 ? device.Lose() : device.Stall();
  }).detach();
  const int code = formwork::server::RunProcess(static_cast<int>(rest.size()), rest.data(), engine);
  device.RunAll();
  const std::vector<std::string> reports = device.Reports();
  for (const std::string& report : reports) {
    std::fprintf(stderr, "simulated device: %s\n", report.c_str());
  }
  return reports.empty() ? code : kDeviceFoundErrors;
}
