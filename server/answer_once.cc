#include "server/answer_once.h"

#include <memory>
#include <utility>

#include "core/base/answer_window.h"
#include "core/base/memory_budget.h"
#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork::server {
namespace {

class RememberedMessage final : public AnswerWindow::Answer {
 public:
  explicit RememberedMessage(const grpc::ByteBuffer& message) : message(message) {}
  size_t bytes() const override { return sizeof(*this) + message.Length(); }
  const grpc::ByteBuffer message;
};

}  // namespace

absl::Status AnswerOnce(Engine& engine, absl::string_view name_space, const RequestId& request,
                        uint64_t content, grpc::ByteBuffer* response,
                        absl::FunctionRef<absl::Status(bool* done)> answer) {
  AnswerWindow& answers = engine.answers();
  if (name_space.empty()) name_space = "default";
  FORMWORK_ASSIGN_OR_RETURN(const AnswerWindow::Begun begun,
                            answers.Begin(name_space, request, content));
  if (begun.place == AnswerWindow::Place::kRuns) {
    return absl::UnavailableError("the request is being done: send it again for its answer");
  }
  if (begun.place == AnswerWindow::Place::kAnswered) {
    const auto* const known = dynamic_cast<const RememberedMessage*>(begun.answer.get());
    if (known == nullptr) {
      return InField(InvalidArgument("request ", request.sequence, " was of another method"),
                     "sequence");
    }
    *response = known->message;
    return absl::OkStatus();
  }
  bool done = false;
  const absl::Status answered = CatchOutOfMemory([&] { return answer(&done); });
  std::shared_ptr<const AnswerWindow::Answer> remembered;
  if (answered.ok()) {
    const HeapScope unlimited(nullptr);
    CatchOutOfMemory([&] {
      remembered = std::make_shared<const RememberedMessage>(*response);
      return absl::OkStatus();
    }).IgnoreError();
  }
  answers.End(name_space, request, std::move(remembered), done);
  return answered;
}

}  // namespace formwork::server
