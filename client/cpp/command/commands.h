#pragma once

// The subcommands of `formwork`. Each prints its answer, as a table for people or as JSON.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "command/arguments.h"
#include "formwork/client.h"

namespace formwork::command {

absl::Status ListFunctions(client::Client& client, const Arguments& arguments);
absl::Status DescribeFunction(client::Client& client, const Arguments& arguments);
absl::Status ListVariables(client::Client& client, const Arguments& arguments);
absl::Status ReadVariable(client::Client& client, const Arguments& arguments);
absl::Status Call(client::Client& client, const Arguments& arguments);
absl::Status Register(client::Client& client, const Arguments& arguments);
absl::Status LoadModel(client::Client& client, const Arguments& arguments);
absl::Status Remove(client::Client& client, const Arguments& arguments);
absl::Status Export(client::Client& client, const Arguments& arguments);
absl::Status Restore(client::Client& client, const Arguments& arguments);
absl::Status ListOps(client::Client& client, const Arguments& arguments);
absl::Status TakeSnapshot(client::Client& client, const Arguments& arguments);
absl::Status ListNamespaces(client::Client& client, const Arguments& arguments);
absl::Status SetDurability(client::Client& client, const Arguments& arguments);
absl::Status Clear(client::Client& client, const Arguments& arguments);
absl::Status AssignVariable(client::Client& client, const Arguments& arguments);
absl::Status DeleteVariable(client::Client& client, const Arguments& arguments);
absl::Status Release(client::Client& client, const Arguments& arguments);
absl::Status Status(client::Client& client, const Arguments& arguments);
absl::Status Bench(client::Client& client, const Arguments& arguments);

/// The function that `arguments` name by ID, or the first of that name that takes `inputs` values
/// (-1: any number). Errors: kNotFound.
absl::StatusOr<v1::FunctionInfo> FindFunction(client::Client& client, const Arguments& arguments,
                                              int inputs);

/// Inputs as they were given, in the function's order: where they have the names of its parameters
/// before them ("x=[1, 2]"), all do. Errors: kInvalidArgument naming the parameter.
absl::StatusOr<std::vector<std::string>> InOrder(const v1::FunctionInfo& function,
                                                 const std::vector<std::string>& inputs);

/// The names of the outputs of a function that returns a dict of tensors; of others none.
std::vector<std::string> OutputNames(const v1::FunctionInfo& function);

}  // namespace formwork::command
