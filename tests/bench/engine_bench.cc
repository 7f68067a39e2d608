// engine_bench FOLDER CALLS [THREADS [FILES]]: runs a dumped function (tests/bench/traced.py) in an
// engine of this process, with one compute thread or THREADS, which may read the files of the
// folder FILES. For each line on stdin it prints microseconds per call of one round of CALLS calls:
// CPU time of this process's threads together, and wall time.

#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/engine.h"
#include "nlohmann/json.hpp"

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
  if (bytes.size() != tensor->bytes()) Fail(absl::InternalError("a dumped value has a wrong size"));
  std::memcpy(tensor->mutable_raw(), bytes.data(), bytes.size());
  return *std::move(tensor);
}

double Microseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    std::cerr << "engine_bench FOLDER CALLS [THREADS [FILES]]\n";
    return 2;
  }
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // As the server does.
  const std::string folder = argv[1];
  const int calls = std::atoi(argv[2]);
  formwork::EngineOptions options;
  options.compute_threads = argc > 3 ? std::atoi(argv[3]) : 1;
  if (argc > 4) options.files_dir = argv[4];
  auto engine = formwork::Engine::Create(options);
  if (!engine.ok()) Fail(engine.status());
  const auto cut = nlohmann::json::parse(ReadFile(folder + "/cut.json"));
  const std::string graph = ReadFile(folder + "/graph.pb");

  formwork::Registration registration;
  registration.name_space = "bench";
  registration.name = "f";
  registration.graph_def = graph;
  std::vector<Argument> inputs;
  for (const auto& entry : cut.at("inputs")) {
    Argument argument;
    argument.tensor = ReadTensor(folder, entry, **engine);
    registration.inputs.push_back({entry.at("name").get<std::string>(), argument.tensor.dtype(),
                                   formwork::PartialShape(argument.tensor.shape())});
    inputs.push_back(std::move(argument));
  }
  for (const auto& entry : cut.at("captures")) {
    const auto name = entry.at("name").get<std::string>();
    Argument argument;
    formwork::Tensor value = ReadTensor(folder, entry, **engine);
    if (entry.at("variable").get<bool>()) {
      auto variable = (*engine)->CreateVariable("bench", name, value.dtype(), value.shape(), value);
      if (!variable.ok()) Fail(variable.status());
      argument.kind = Argument::Kind::kResource;
      argument.id = variable->variable.id;
    } else {
      argument.tensor = std::move(value);
    }
    registration.captures.emplace_back(name, std::move(argument));
  }
  registration.outputs = cut.at("outputs").get<std::vector<std::string>>();
  registration.targets = cut.at("targets").get<std::vector<std::string>>();
  formwork::RegisterResult registered;
  absl::Notification compiled;
  (*engine)
      ->Register(std::move(registration),
                 [&](formwork::RegisterResult result) {
                   registered = std::move(result);
                   compiled.Notify();
                 })
      ->Start();
  compiled.WaitForNotification();
  if (!registered.status.ok()) Fail(registered.status);

  auto call = [&] {
    absl::Notification done;
    formwork::CallSpec spec;
    spec.name_space = "bench";
    spec.function.id = registered.registered.function.id;
    spec.inputs = inputs;
    (*engine)
        ->Call(std::move(spec),
               [&](formwork::CallResult result) {
                 if (!result.status.ok()) Fail(result.status);
                 done.Notify();
               })
        ->Start();
    done.WaitForNotification();
  };
  for (int i = 0; i < 3; ++i) call();
  for (std::string line; std::getline(std::cin, line);) {
    const double cpu = Microseconds(CLOCK_PROCESS_CPUTIME_ID);
    const double wall = Microseconds(CLOCK_MONOTONIC);
    for (int i = 0; i < calls; ++i) call();
    std::cout << (Microseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / calls << " "
              << (Microseconds(CLOCK_MONOTONIC) - wall) / calls << std::endl;
  }
  return 0;
}
