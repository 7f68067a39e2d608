// formwork: asks a formwork-server from the shell.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "command/arguments.h"
#include "command/commands.h"
#include "command/table.h"
#include "formwork/client.h"

namespace {

using formwork::client::Client;
using formwork::command::Arguments;
using Body = absl::Status (*)(Client&, const Arguments&);

constexpr char kInputHelp[] =
    "An input, in order: a .npy file, JSON ('[[1, 2]]'), either with a dtype before it "
    "('float64:[1, 2]'), var:NAME or kept:ID";

// Adds a subcommand that sets `body` where it is chosen.
CLI::App* Add(CLI::App& app, const char* name, const char* help, Body command, Body* body) {
  CLI::App* sub = app.add_subcommand(name, help);
  sub->fallthrough();
  sub->callback([body, command] { *body = command; });
  return sub;
}

void AddSettings(CLI::App& app, Arguments& arguments) {
  app.add_option("--server", arguments.server, "host:port or unix:path")
      ->envname("FORMWORK_SERVER")
      ->capture_default_str();
  app.add_option("--namespace", arguments.name_space, "The namespace of all names")
      ->envname("FORMWORK_NAMESPACE")
      ->capture_default_str();
  app.add_option("--timeout", arguments.timeout_seconds, "Seconds for the connection and a request")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", arguments.json, "JSON for programs instead of text for people");
}

void AddFunctionCommands(CLI::App& app, Arguments& arguments, Body* body) {
  namespace command = formwork::command;
  Add(app, "functions", "Lists the functions", &command::ListFunctions, body);
  Add(app, "describe", "Shows a function's signatures", &command::DescribeFunction, body)
      ->add_option("NAME", arguments.name)
      ->required();
  CLI::App* reg =
      Add(app, "register", "Registers a function of a GraphDef", &command::Register, body);
  reg->add_option("NAME", arguments.name)->required();
  reg->add_option("--graph", arguments.graph, "A file with a serialized GraphDef")->required();
  reg->add_option("--input", arguments.specs, "TENSOR=DTYPE[SHAPE], as x:0=float32[?,3]")
      ->allow_extra_args(false);
  reg->add_option("--output", arguments.outputs, "TENSOR, as Identity:0")->allow_extra_args(false);
  reg->add_option("--capture", arguments.captures, "TENSOR=VALUE, as w:0=var:w or c:0=2.5")
      ->allow_extra_args(false);
  reg->add_option("--target", arguments.targets, "A node to run for its effect")
      ->allow_extra_args(false);
  reg->add_flag("--replace", arguments.replace, "In the place of one of that name and type");
  CLI::App* rm = Add(app, "rm", "Removes a function", &command::Remove, body);
  rm->add_option("NAME", arguments.name, "All of that name");
  rm->add_option("--id", arguments.id, "That one");
  CLI::App* status = Add(app, "status", "Shows the server: version, limits, what it holds",
                         &command::Status, body);
  status->add_flag("--watch", arguments.watch, "Again every second");
  CLI::App* clear = Add(app, "clear", "Removes everything in the namespace; asks on a terminal",
                        &command::Clear, body);
  clear->add_flag("--yes", arguments.yes, "Does not ask");
}

void AddValueCommands(CLI::App& app, Arguments& arguments, Body* body) {
  namespace command = formwork::command;
  Add(app, "variables", "Lists the variables", &command::ListVariables, body);
  CLI::App* read = Add(app, "read", "Prints a variable's value", &command::ReadVariable, body);
  read->add_option("NAME", arguments.name);
  read->add_option("--id", arguments.id, "By ID");
  read->add_option("--save", arguments.save, "Writes PATH.npy");
  CLI::App* assign = Add(app, "assign", "Sets a variable's value", &command::AssignVariable, body);
  assign->add_option("NAME", arguments.name);
  assign->add_option("--id", arguments.id, "By ID");
  assign->add_option("--value", arguments.value, "A .npy file or JSON, as --input of call")
      ->required()
      ->allow_extra_args(false);
  CLI::App* del = Add(app, "delete", "Deletes a variable", &command::DeleteVariable, body);
  del->add_option("NAME", arguments.name);
  del->add_option("--id", arguments.id, "By ID");
  Add(app, "release", "Lets the server forget kept tensors", &command::Release, body)
      ->add_option("ID", arguments.ids)
      ->required();
  CLI::App* call = Add(app, "call", "Calls a function", &command::Call, body);
  call->add_option("NAME", arguments.name);
  call->add_option("--id", arguments.id, "By ID");
  call->add_option("--input", arguments.inputs, kInputHelp)->allow_extra_args(false);
  call->add_option("--save", arguments.save, "Writes the outputs: PATH.npy, or PATH_0.npy, ...");
  CLI::App* bench = Add(app, "bench", "Measures calls of a function", &command::Bench, body);
  bench->add_option("--function", arguments.name, "The function");
  bench->add_option("--id", arguments.id, "By ID");
  bench->add_option("--input", arguments.inputs, kInputHelp)->allow_extra_args(false);
  bench->add_option("--in-flight", arguments.in_flight, "Calls under way at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  bench->add_option("--seconds", arguments.seconds, "How long")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
}

int Fail(const absl::Status& status, bool json) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string message(status.message());
  if (json) {
    const nlohmann::ordered_json error = {{"error", {{"code", code}, {"message", message}}}};
    std::printf(
        "%s\n",
        error.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  }
  std::fprintf(stderr, "formwork: %s: %s\n", code.c_str(),
               formwork::command::Printable(message, /*lines=*/true).c_str());
  return 1;
}

// CLI11 only says that a subcommand is required.
int UnknownCommand(const CLI::App& app, const std::string& given) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  std::fprintf(stderr, "formwork: there is no command '%s'; there are: %s\n",
               formwork::command::Printable(given).c_str(), absl::StrJoin(names, ", ").c_str());
  return 2;
}

// The arguments as CLI11 takes them: in reverse. It would split a value in brackets at its commas:
// a space before it hides the bracket and changes no JSON.
std::vector<std::string> ReversedArguments(int argc, char** argv) {
  std::vector<std::string> reversed;
  for (int i = argc - 1; i > 0; --i) {
    std::string text = argv[i];
    if (text.rfind('[', 0) == 0) text.insert(0, " ");
    const size_t value = text.find("=[");
    if (text.rfind("--", 0) == 0 && value != std::string::npos) text.insert(value + 1, " ");
    reversed.push_back(std::move(text));
  }
  return reversed;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  Body body = nullptr;
  CLI::App app("Asks a formwork-server: its functions, variables and calls.", "formwork");
  app.require_subcommand(1);
  app.set_version_flag("--version", "formwork " FORMWORK_VERSION);
  AddSettings(app, arguments);
  AddFunctionCommands(app, arguments, &body);
  AddValueCommands(app, arguments, &body);
  try {
    app.parse(ReversedArguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> unknown = app.remaining();
    if (app.get_subcommands().empty() && !unknown.empty() && unknown[0].rfind('-', 0) != 0) {
      return UnknownCommand(app, unknown[0]);
    }
    return app.exit(error);
  }
  formwork::client::ClientOptions options;
  options.name_space = arguments.name_space;
  options.timeout = absl::Seconds(arguments.timeout_seconds);
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(arguments.server, options);
  if (!client.ok()) return Fail(client.status(), arguments.json);
  const absl::Status status = body(**client, arguments);
  return status.ok() ? 0 : Fail(status, arguments.json);
}
