#include "core/runtime/call.h"

#include "core/runtime/function_run.h"

namespace formwork {
namespace {

// Of one call: a loop that prints must not fill the memory.
constexpr size_t kMostPrintedBytes = size_t{4} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<FunctionRun>> Call::NewRun(const BoundFunction& function) {
  return MakeFunctionRun(function);
}

void Call::Print(absl::string_view text) {
  if (stop_.cut()) return;
  if (print_ != nullptr) return (*print_)(text);
  if (printed_bytes_ > kMostPrintedBytes) return;
  printed_bytes_ += text.size();
  if (printed_bytes_ > kMostPrintedBytes) {
    printed_.emplace_back("[the call's further output was left out]\n");
    return;
  }
  printed_.emplace_back(text);
}

}  // namespace formwork
