// bench: how fast a function answers.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "command/commands.h"
#include "command/value_text.h"

namespace formwork::command {
namespace {

using Clock = std::chrono::steady_clock;

// Keeps a number of calls under way for a time: each answer starts the next call. Used once.
class Load {
 public:
  Load(client::Client& client, const client::CallRequest& request, const Arguments& arguments)
      : client_(client),
        request_(request),
        in_flight_(arguments.in_flight),
        left_(arguments.in_flight),
        start_(Clock::now()),
        end_(start_ + std::chrono::duration_cast<Clock::duration>(
                          std::chrono::duration<double>(arguments.seconds))) {}

  absl::Status Run() {
    for (int i = 0; i < in_flight_; ++i) Next();
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Load::Ended));
    return status_;
  }

  /// The calls' times in ascending order.
  std::vector<double> Microseconds() {
    absl::MutexLock lock(&mutex_);
    std::sort(times_.begin(), times_.end());
    return times_;
  }
  double Seconds() {
    absl::MutexLock lock(&mutex_);
    return std::chrono::duration<double>(last_ - start_).count();
  }

 private:
  void Next() {
    const Clock::time_point before = Clock::now();
    client_.CallAsync(request_, [this, before](absl::StatusOr<client::CallResponse> response) {
      const Clock::time_point after = Clock::now();
      {
        absl::MutexLock lock(&mutex_);
        times_.push_back(std::chrono::duration<double, std::micro>(after - before).count());
        last_ = std::max(last_, after);
        if (!response.ok()) status_ = response.status();
        if (after >= end_ || !response.ok()) {
          --left_;
          return;
        }
      }
      Next();
    });
  }
  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return left_ == 0; }

  client::Client& client_;
  const client::CallRequest& request_;
  const int in_flight_;
  absl::Mutex mutex_;
  int left_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> times_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  const Clock::time_point start_;
  const Clock::time_point end_;
  Clock::time_point last_ ABSL_GUARDED_BY(mutex_);
};

// Zeros of the input's dtype and shape, 1 for what is unknown.
absl::StatusOr<client::Value> Zeros(const v1::TensorSpec& spec) {
  const size_t size = client::DataTypeSize(spec.dtype());
  if (size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("give the inputs with --input: there is no default for ", spec.name(),
                     " of dtype ", client::DataTypeName(spec.dtype())));
  }
  std::vector<int64_t> dims;
  size_t elements = 1;
  for (int64_t dim : spec.shape().dims()) {
    dims.push_back(dim < 0 ? 1 : dim);
    elements *= static_cast<size_t>(dims.back());
  }
  return client::Tensor(spec.dtype(), std::move(dims), std::string(elements * size, '\0'));
}

absl::StatusOr<client::CallRequest> BenchRequest(client::Client& client,
                                                 const Arguments& arguments) {
  const int given = static_cast<int>(arguments.inputs.size());
  const auto function = FindFunction(client, arguments, given == 0 ? -1 : given);
  if (!function.ok()) return function.status();
  const auto inputs = InOrder(*function, arguments.inputs);
  if (!inputs.ok()) return inputs.status();
  client::CallRequest request;
  request.function_id = function->id();
  for (int i = 0; i < function->inputs_size(); ++i) {
    auto value = given == 0 ? Zeros(function->inputs(i))
                            : ParseValue(client, (*inputs)[static_cast<size_t>(i)],
                                         function->inputs(i).dtype());
    if (!value.ok()) return value.status();
    request.inputs.push_back(*std::move(value));
  }
  return request;
}

}  // namespace

absl::Status Bench(client::Client& client, const Arguments& arguments) {
  const auto request = BenchRequest(client, arguments);
  if (!request.ok()) return request.status();
  const auto first = client.Call(*request);  // Warms up, and says early what is wrong.
  if (!first.ok()) return first.status();
  Load load(client, *request, arguments);
  const absl::Status status = load.Run();
  if (!status.ok()) return status;
  const std::vector<double> times = load.Microseconds();
  const double p50 = times[times.size() / 2];
  const double p99 = times[times.size() * 99 / 100];
  const double rate = static_cast<double>(times.size()) / load.Seconds();
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"function", arguments.name},
                                         {"in_flight", arguments.in_flight},
                                         {"calls", times.size()},
                                         {"p50_us", p50},
                                         {"p99_us", p99},
                                         {"calls_per_second", rate}};
    std::printf("%s\n", json.dump().c_str());
  } else {
    std::printf("%s: %zu calls, %d in flight: p50 %.0f us, p99 %.0f us, %.0f calls/s\n",
                arguments.name.c_str(), times.size(), arguments.in_flight, p50, p99, rate);
  }
  return absl::OkStatus();
}

}  // namespace formwork::command
