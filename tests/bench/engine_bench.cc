// engine_bench FOLDER CALLS [THREADS [FILES]]: runs a dumped function (tests/bench/traced.py) in an
// engine of this process, with one compute thread or THREADS, which may read the files of the
// folder FILES. For each line on stdin it prints microseconds per call of one round of CALLS calls:
// CPU time of this process's threads together, and wall time. --device, --tf32: as the server's.
// --callers: so many threads call side by side, each with a function and variables of its own; wall
// time is then of the round, by the calls of all of them.

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/engine.h"
#include "nlohmann/json.hpp"
#include "server/device.h"

namespace {

using formwork::Argument;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

[[noreturn]] void Fail(const absl::Status& status) {
  std::cerr << status.ToString() << "\n";
  std::exit(1);
}

formwork::Tensor ReadTensor(const std::string& folder, const nlohmann::json& entry,
                            formwork::Engine& engine) {
  const std::string bytes = ReadFile(folder + "/" + entry.at("file").get<std::string>());
  const auto dims = entry.at("shape").get<std::vector<int64_t>>();
  const auto dtype = formwork::DTypeFromName(entry.at("dtype").get<std::string>());
  auto tensor =
      formwork::Tensor::Allocate(engine.allocator(), dtype, formwork::Shape::Trusted(dims));
  if (!tensor.ok()) Fail(tensor.status());
  // Then the file is the value's beginning, of which it is made again and again.
  const bool repeats = entry.value("repeats", false);
  if (repeats ? bytes.empty() : bytes.size() != tensor->bytes()) {
    Fail(absl::InternalError("a dumped value has a wrong size"));
  }
  for (size_t at = 0; at < tensor->bytes(); at += bytes.size()) {
    std::memcpy(static_cast<char*>(tensor->mutable_raw()) + at, bytes.data(),
                std::min(bytes.size(), tensor->bytes() - at));
  }
  return *std::move(tensor);
}

double Microseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

// A dumped function under the name `name`, with variables of its own.
class Function {
 public:
  Function(const std::string& folder, const std::string& name, formwork::Engine& engine)
      : engine_(engine) {
    const auto cut = nlohmann::json::parse(ReadFile(folder + "/cut.json"));
    const std::string graph = ReadFile(folder + "/graph.pb");
    formwork::Registration registration;
    registration.name_space = "bench";
    registration.name = name;
    registration.graph_def = graph;
    for (const auto& entry : cut.at("inputs")) {
      Argument argument;
      argument.tensor = ReadTensor(folder, entry, engine);
      registration.inputs.push_back({entry.at("name").get<std::string>(), argument.tensor.dtype(),
                                     formwork::PartialShape(argument.tensor.shape())});
      inputs_.push_back(std::move(argument));
    }
    for (const auto& entry : cut.at("captures")) {
      const auto captured = entry.at("name").get<std::string>();
      Argument argument;
      formwork::Tensor value = ReadTensor(folder, entry, engine);
      if (entry.at("variable").get<bool>()) {
        auto variable = engine.CreateVariable("bench", absl::StrCat(name, "/", captured),
                                              value.dtype(), value.shape(), value);
        if (!variable.ok()) Fail(variable.status());
        argument.kind = Argument::Kind::kResource;
        argument.id = variable->variable.id;
      } else {
        argument.tensor = std::move(value);
      }
      registration.captures.emplace_back(captured, std::move(argument));
    }
    registration.outputs = cut.at("outputs").get<std::vector<std::string>>();
    registration.targets = cut.at("targets").get<std::vector<std::string>>();
    formwork::RegisterResult registered;
    absl::Notification compiled;
    engine
        .Register(std::move(registration),
                  [&](formwork::RegisterResult result) {
                    registered = std::move(result);
                    compiled.Notify();
                  })
        ->Start();
    compiled.WaitForNotification();
    if (!registered.status.ok()) Fail(registered.status);
    id_ = registered.registered.function.id;
  }

  void Call(int times) {
    for (int i = 0; i < times; ++i) {
      absl::Notification done;
      formwork::CallSpec spec;
      spec.name_space = "bench";
      spec.function.id = id_;
      spec.inputs = inputs_;
      spec.inline_below = absl::InfiniteDuration();  // This thread waits anyway.
      engine_
          .Call(std::move(spec),
                [&](formwork::CallResult result) {
                  if (!result.status.ok()) Fail(result.status);
                  done.Notify();
                })
          ->Start();
      done.WaitForNotification();
    }
  }

 private:
  formwork::Engine& engine_;
  std::vector<Argument> inputs_;
  decltype(formwork::CallSpec::function.id) id_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string folder, device_name = "cpu";
  int calls = 1;
  size_t callers = 1;
  bool tf32 = false;
  formwork::EngineOptions options;
  options.compute_threads = 1;
  CLI::App app("Times a dumped function");
  app.add_option("folder", folder)->required();
  app.add_option("calls", calls)->required();
  app.add_option("threads", options.compute_threads);
  app.add_option("files", options.files_dir);
  app.add_option("--device", device_name);
  app.add_option("--callers", callers);
  app.add_flag("--tf32", tf32);
  CLI11_PARSE(app, argc, argv);

  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // As the server does.
  const auto device = formwork::server::OpenDevice(device_name);
  if (!device.ok()) Fail(device.status());
  if (tf32) formwork::server::UseTf32();
  if (*device != nullptr) formwork::server::UseDevice(**device, &options);
  auto engine = formwork::Engine::Create(options);
  if (!engine.ok()) Fail(engine.status());
  std::vector<std::unique_ptr<Function>> functions;
  for (size_t k = 0; k < callers; ++k) {
    functions.push_back(std::make_unique<Function>(folder, absl::StrCat("f", k), **engine));
    functions.back()->Call(3);
  }
  for (std::string line; std::getline(std::cin, line);) {
    const double cpu = Microseconds(CLOCK_PROCESS_CPUTIME_ID);
    const double wall = Microseconds(CLOCK_MONOTONIC);
    std::vector<std::thread> others;
    for (size_t k = 1; k < callers; ++k) {
      others.emplace_back([&, k] { functions[k]->Call(calls); });
    }
    functions[0]->Call(calls);
    for (std::thread& other : others) other.join();
    const double all = static_cast<double>(calls) * static_cast<double>(callers);
    std::cout << (Microseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / all << " "
              << (Microseconds(CLOCK_MONOTONIC) - wall) / all << std::endl;
  }
  functions.clear();
  return 0;
}
