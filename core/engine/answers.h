#pragma once

// Answers to requests as the store keeps them, so that a request that is sent again after a restart
// is answered again and not done again. Included by core/engine*.cc alone.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/answer_window.h"
#include "core/engine.h"
#include "core/engine/group_commit.h"

namespace formwork {

class EngineImpl;

/// What is stored of `result`; its outputs' memory is shared. `answer` has who asked for what
/// already.
void ToStored(const CallResult& result, LoggedAnswer* answer);
void ToStored(const AssignResult& result, LoggedAnswer* answer);
void ToStored(const RegisterResult& result, LoggedAnswer* answer);
/// What is stored of any: who asked for what.
LoggedAnswer StoredAnswerOf(absl::string_view name_space, const RequestId& request,
                            uint64_t content);

/// As the window has it. `parts`: those of a stored value, the answer itself included. Its message
/// goes to `message`. Null where it is not known what was answered, such as where it was about a
/// function that is not there any more. Errors: kDataLoss if it is damaged.
absl::StatusOr<std::shared_ptr<const AnswerWindow::Answer>> FromStored(EngineImpl& engine,
                                                                       std::vector<Tensor> parts,
                                                                       state::Answer* message);
/// The other way; false for one that is not known.
bool ToStored(const AnswerWindow::Answer& answer, LoggedAnswer* to);

AnsweredClient FromStored(const state::Client& client);

}  // namespace formwork
