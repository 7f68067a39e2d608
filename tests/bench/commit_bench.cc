// Calls a function without inputs from so many clients, each with one call under way on a
// connection of its own, and prints one JSON object: calls, per_second, p50_ms, p99_ms.
//
//   commit_bench SERVER FUNCTION CLIENTS SECONDS    commit_bench 127.0.0.1:8500 count 64 3

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "formwork/client.h"

namespace {

using formwork::client::CallRequest;
using Clock = std::chrono::steady_clock;

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "commit_bench: %s\n", why.c_str());
  std::exit(1);
}

class Caller {
 public:
  Caller(const std::string& address, std::string function, Clock::time_point end) : end_(end) {
    auto connected = formwork::client::Client::Connect(address);
    if (!connected.ok()) Fail(connected.status().ToString());
    client_ = *std::move(connected);
    request_.name = std::move(function);
  }
  void Start() { Next(); }
  void Await() { done_.WaitForNotification(); }
  const std::vector<double>& times() const { return times_; }
  Clock::time_point last() const { return last_; }

 private:
  void Next() {
    const Clock::time_point before = Clock::now();
    client_->CallAsync(request_, [this, before](const auto& response) {
      if (!response.ok()) Fail(response.status().ToString());
      last_ = Clock::now();
      times_.push_back(std::chrono::duration<double, std::milli>(last_ - before).count());
      if (last_ < end_) return Next();
      done_.Notify();
    });
  }

  const Clock::time_point end_;
  std::unique_ptr<formwork::client::Client> client_;
  CallRequest request_;
  std::vector<double> times_;
  Clock::time_point last_;
  absl::Notification done_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) Fail("wants SERVER FUNCTION CLIENTS SECONDS");
  const int clients = std::atoi(argv[3]);
  const Clock::time_point start = Clock::now() + std::chrono::milliseconds(300);
  const auto end = start + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(std::atof(argv[4])));
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < clients; ++i) {
    callers.push_back(std::make_unique<Caller>(argv[1], argv[2], end));
  }
  const Clock::time_point began = Clock::now();
  for (const auto& caller : callers) caller->Start();
  std::vector<double> times;
  Clock::time_point last = began;
  for (const auto& caller : callers) {
    caller->Await();
    times.insert(times.end(), caller->times().begin(), caller->times().end());
    last = std::max(last, caller->last());
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "{\"clients\": %d, \"calls\": %zu, \"per_second\": %.1f, \"p50_ms\": %.4f, "
      "\"p99_ms\": %.4f}\n",
      clients, times.size(),
      static_cast<double>(times.size()) / std::chrono::duration<double>(last - began).count(),
      times[times.size() / 2], times[times.size() * 99 / 100]);
}
