#include "server/answer_once.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/base/memory_budget.h"
#include "core/base/status.h"

namespace formwork::server {
namespace {

class RememberedMessage final : public MessageAnswer {
 public:
  explicit RememberedMessage(const grpc::ByteBuffer& message) : message(message) {}
  size_t bytes() const override { return sizeof(*this) + message.Length(); }
  std::string Text() const override {
    std::string text;
    std::vector<grpc::Slice> slices;
    if (!message.Dump(&slices).ok()) return text;
    for (const grpc::Slice& slice : slices) {
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return text;
  }
  const grpc::ByteBuffer message;
};

}  // namespace

absl::Status AnswerOnce(Engine& engine, absl::string_view name_space, const RequestId& request,
                        uint64_t content, grpc::ByteBuffer* response,
                        absl::FunctionRef<absl::Status(bool* done)> answer) {
  const auto do_it = [&](bool* done) -> absl::StatusOr<std::shared_ptr<const MessageAnswer>> {
    FORMWORK_RETURN_IF_ERROR(answer(done));
    const HeapScope unlimited(nullptr);
    std::shared_ptr<const MessageAnswer> remembered;  // Null where there is no memory for it.
    CatchOutOfMemory([&] {
      remembered = std::make_shared<const RememberedMessage>(*response);
      return absl::OkStatus();
    }).IgnoreError();
    return remembered;
  };
  FORMWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const MessageAnswer> answered,
                            engine.AnswerOnce(name_space, request, content, do_it));
  if (answered == nullptr) return absl::OkStatus();  // It has been done just now.
  if (const auto* const known = dynamic_cast<const RememberedMessage*>(answered.get())) {
    *response = known->message;
  } else {
    const grpc::Slice slice(answered->Text());
    *response = grpc::ByteBuffer(&slice, 1);
  }
  return absl::OkStatus();
}

}  // namespace formwork::server
