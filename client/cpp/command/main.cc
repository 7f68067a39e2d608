// formwork: asks a formwork-server from the shell.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "command/arguments.h"
#include "command/commands.h"
#include "command/table.h"
#include "formwork/client.h"

namespace {

using formwork::client::Client;
using formwork::command::Arguments;
using Body = absl::Status (*)(Client&, const Arguments&);

// What is to be done.
struct Chosen {
  Body body = nullptr;
  bool needs_target = false;  // A function or variable: by NAME or by --id.
};

constexpr int kBadArguments = 2;

// Whoever types a command does not wait longer for a server that is not there.
constexpr absl::Duration kConnectTimeout = absl::Seconds(10);

constexpr char kInputHelp[] =
    "An input, in order, or by its parameter's name ('x=[1, 2]'): a .npy file, JSON ('[[1, 2]]'), "
    "either with a dtype before it ('float64:[1, 2]'), var:NAME or kept:ID";

// These read the whole text: CLI11's own conversion would take -1 for the largest ID.

CLI::Validator Id() {
  return {[](std::string& text) -> std::string {
            uint64_t value;
            if (absl::SimpleAtoi(text, &value) && value > 0) return "";
            return "not an ID: " + text;
          },
          "ID"};
}

CLI::Validator Seconds() {
  return {[](std::string& text) -> std::string {
            double value;
            if (absl::SimpleAtod(text, &value) && value > 0 && std::isfinite(value)) return "";
            return "not a number of seconds above 0: " + text;
          },
          "SECONDS"};
}

// Adds a subcommand that sets `chosen` where it is the one.
CLI::App* Add(CLI::App& app, const char* name, const char* help, Body command, Chosen* chosen) {
  CLI::App* sub = app.add_subcommand(name, help);
  sub->fallthrough();
  sub->callback([chosen, command] { chosen->body = command; });
  return sub;
}

// The same for one that is about a function or a variable. `named`: what NAME is.
CLI::App* AddTargeted(CLI::App& app, const char* name, const char* help, Body command,
                      const char* named, Arguments& arguments, Chosen* chosen) {
  CLI::App* sub = Add(app, name, help, command, chosen);
  sub->preparse_callback([chosen](size_t) { chosen->needs_target = true; });
  sub->add_option(named, arguments.name, "By name");
  sub->add_option("--id", arguments.id, "By ID")->check(Id());
  return sub;
}

void AddSettings(CLI::App& app, Arguments& arguments) {
  app.add_option("--server", arguments.server, "host:port or unix:path")
      ->envname("FORMWORK_SERVER")
      ->capture_default_str();
  app.add_option("--namespace", arguments.name_space, "The namespace of all names")
      ->envname("FORMWORK_NAMESPACE")
      ->capture_default_str();
  app.add_flag("--tls", arguments.tls,
               "The connection is encrypted, and a CA of the system's has signed the server's "
               "certificate")
      ->envname("FORMWORK_TLS");
  app.add_option("--tls-ca", arguments.tls_ca,
                 "The same, with the CAs of a file (PEM) instead of the system's")
      ->envname("FORMWORK_TLS_CA");
  // FORMWORK_TLS_CERT and FORMWORK_TLS_KEY are the server's own.
  app.add_option("--tls-cert", arguments.tls_cert,
                 "File of the client's own certificate (PEM), where the server wants one")
      ->envname("FORMWORK_TLS_CLIENT_CERT");
  app.add_option("--tls-key", arguments.tls_key, "File of its private key (PEM)")
      ->envname("FORMWORK_TLS_CLIENT_KEY");
  app.add_option("--timeout", arguments.timeout_seconds,
                 "Seconds for a request, and at most 10 to connect")
      ->capture_default_str()
      ->check(Seconds());
  app.add_flag("--json", arguments.json, "JSON for programs instead of text for people");
}

void AddFunctionCommands(CLI::App& app, Arguments& arguments, Chosen* chosen) {
  namespace command = formwork::command;
  Add(app, "functions", "Lists the functions", &command::ListFunctions, chosen);
  CLI::App* describe =
      Add(app, "describe", "Shows a function's signatures", &command::DescribeFunction, chosen);
  describe->add_option("NAME", arguments.name)->required();
  describe->add_flag("--plan", arguments.plan, "With the programs that they became");
  CLI::App* reg =
      Add(app, "register", "Registers a function of a GraphDef", &command::Register, chosen);
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
  CLI::App* load = Add(app, "load", "Loads a SavedModel: a function for each of its signatures",
                       &command::LoadModel, chosen);
  load->add_option("NAME", arguments.name,
                   "The function of serving_default; any other is NAME/SIGNATURE")
      ->required();
  load->add_option("PATH", arguments.path,
                   "Its folder in the server's --files-dir; one of versions stands for the highest")
      ->required();
  load->add_option("--tag", arguments.tags, "Of the graph; else it is the only one, or 'serve'")
      ->allow_extra_args(false);
  load->add_flag("--replace", arguments.replace, "In the place of what was loaded as NAME");
  load->add_option("--max-batch-rows", arguments.max_batch_rows,
                   "Most rows of calls that are computed as one; 0: each alone")
      ->check(CLI::NonNegativeNumber);
  AddTargeted(app, "rm", "Removes a function by ID, or all of a name", &command::Remove, "NAME",
              arguments, chosen);
  CLI::App* status = Add(app, "status", "Shows the server: version, limits, what it holds",
                         &command::Status, chosen);
  status->add_flag("--watch", arguments.watch, "Again every second");
  CLI::App* ops = Add(app, "ops", "Lists the ops that functions may use, with their dtypes",
                      &command::ListOps, chosen);
  ops->add_option("NAME", arguments.filter, "Those of it alone; knows * and ?");
  Add(app, "snapshot", "Has the server write what there is to its data directory",
      &command::TakeSnapshot, chosen);
  const auto add_checkpoint = [&](const char* name, const char* help, auto* command) {
    CLI::App* checkpoint = Add(app, name, help, command, chosen);
    checkpoint
        ->add_option("PATH", arguments.path,
                     "In the server's --files-dir; PATH.safetensors for that format")
        ->required();
    checkpoint->add_option("--variable", arguments.names, "The name of one; else all")
        ->allow_extra_args(false);
  };
  add_checkpoint("export", "Has the server write variables to a TensorFlow checkpoint",
                 &command::Export);
  add_checkpoint("restore", "Has the server read variables from one", &command::Restore);
  CLI::App* durability =
      Add(app, "durability", "Says what of the namespace, in which nothing is, outlives the server",
          &command::SetDurability, chosen);
  durability->add_option("DURABILITY", arguments.durability)
      ->required()
      ->check(CLI::IsMember({"memory", "snapshot", "sync"}));
  Add(app, "namespaces", "Lists the namespaces and what they hold", &command::ListNamespaces,
      chosen);
  CLI::App* clear =
      Add(app, "clear", "Removes the namespace, all that is in it; asks on a terminal",
          &command::Clear, chosen);
  clear->alias("reset");
  clear->add_flag("--yes", arguments.yes, "Does not ask");
}

void AddValueCommands(CLI::App& app, Arguments& arguments, Chosen* chosen) {
  namespace command = formwork::command;
  Add(app, "variables", "Lists the variables and tables", &command::ListVariables, chosen);
  CLI::App* read = AddTargeted(app, "read", "Prints a variable's value", &command::ReadVariable,
                               "NAME", arguments, chosen);
  read->add_option("--save", arguments.save, "Writes PATH.npy");
  CLI::App* assign = AddTargeted(app, "assign", "Sets a variable's value", &command::AssignVariable,
                                 "NAME", arguments, chosen);
  assign->add_option("--value", arguments.value, "A .npy file or JSON, as --input of call")
      ->required()
      ->allow_extra_args(false);
  AddTargeted(app, "delete", "Deletes a variable", &command::DeleteVariable, "NAME", arguments,
              chosen);
  Add(app, "release", "Lets the server forget kept tensors", &command::Release, chosen)
      ->add_option("ID", arguments.ids)
      ->required()
      ->check(Id());
  CLI::App* call =
      AddTargeted(app, "call", "Calls a function", &command::Call, "NAME", arguments, chosen);
  call->add_option("--input", arguments.inputs, kInputHelp)->allow_extra_args(false);
  call->add_option("--save", arguments.save, "Writes the outputs: PATH.npy, or PATH_0.npy, ...");
  call->add_option("--trace", arguments.trace,
                   "Writes what the call did when, in Chrome's trace format, also where it failed");
  call->add_flag(
      "--atomic", arguments.atomic,
      "All that it changes of variables and tables changes, or, where it fails, nothing");
  call->add_flag("--relaxed", arguments.relaxed,
                 "Of workers that train side by side: forward and backward on a snapshot");
  CLI::App* bench = AddTargeted(app, "bench", "Measures calls of a function", &command::Bench,
                                "--function", arguments, chosen);
  bench->add_option("--input", arguments.inputs, kInputHelp)->allow_extra_args(false);
  bench->add_option("--in-flight", arguments.in_flight, "Calls under way at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  bench->add_option("--seconds", arguments.seconds, "How long")
      ->capture_default_str()
      ->check(Seconds());
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

int Refuse(const std::string& reason) {
  std::fprintf(stderr, "formwork: %s\n", formwork::command::Printable(reason).c_str());
  return kBadArguments;
}

int Refuse(const CLI::App& app, const CLI::ParseError& error) {
  if (!app.get_subcommands().empty()) return Refuse(error.what());
  // CLI11 only says that a subcommand is required.
  const std::vector<std::string> unknown = app.remaining();
  if (!unknown.empty() && absl::StartsWith(unknown[0], "-")) return Refuse(error.what());
  if (unknown.empty() && error.get_name() != "RequiredError") return Refuse(error.what());
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return Refuse(absl::StrCat(unknown.empty()
                                 ? std::string("no command was given")
                                 : absl::StrCat("there is no command '", unknown[0], "'"),
                             "; there are: ", absl::StrJoin(names, ", ")));
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
  Chosen chosen;
  CLI::App app("Asks a formwork-server: its functions, variables and calls.", "formwork");
  app.require_subcommand(1);
  app.set_version_flag("--version", "formwork " FORMWORK_VERSION);
  AddSettings(app, arguments);
  AddFunctionCommands(app, arguments, &chosen);
  AddValueCommands(app, arguments, &chosen);
  try {
    app.parse(ReversedArguments(argc, argv));
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return Refuse(app, error);
  }
  if (chosen.needs_target && arguments.name.empty() == (arguments.id == 0)) {
    return Refuse(arguments.id == 0 ? "a name or --id is needed" : "give a name or --id, not both");
  }
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // What matters is in the error.
  formwork::client::ClientOptions options;
  options.name_space = arguments.name_space;
  options.timeout = absl::Seconds(arguments.timeout_seconds);
  options.connect_timeout = std::min(options.timeout, kConnectTimeout);
  if (arguments.tls || !arguments.tls_ca.empty() || !arguments.tls_cert.empty() ||
      !arguments.tls_key.empty()) {
    options.tls = {arguments.tls_ca, arguments.tls_cert, arguments.tls_key};
  }
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(arguments.server, options);
  if (!client.ok()) return Fail(client.status(), arguments.json);
  const absl::Status status = chosen.body(**client, arguments);
  const int code = status.ok() ? 0 : Fail(status, arguments.json);
  // Threads of gRPC's run on while a process that returns destroys what they use.
  std::fflush(nullptr);
  std::_Exit(code);
}
