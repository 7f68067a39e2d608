#include "formwork/client.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/client_unary_call.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formwork/attempts.h"
#include "formwork/call_stream.h"
#include "formwork/channel.h"
#include "formwork/message_codec.h"
#include "formwork/status_from_grpc.h"

namespace formwork::client {
namespace {

using RawStub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;

constexpr char kCallMethod[] = "/formwork.v1.GraphService/Call";

grpc::internal::RpcMethod Method(const char* path, grpc::internal::RpcMethod::RpcType type) {
  return grpc::internal::RpcMethod(path, type);
}

grpc::Status BlockingCall(grpc::Channel* channel, const char* path, grpc::ClientContext* context,
                          const grpc::ByteBuffer& request, grpc::ByteBuffer* response) {
  return grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel, Method(path, grpc::internal::RpcMethod::NORMAL_RPC), context, request, response);
}

grpc::ByteBuffer BytesOf(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

void SetTarget(uint64_t id, const std::string& name, v1::VariableTarget* target) {
  if (id != 0) {
    target->set_id(id);
  } else {
    target->set_name(name);
  }
}

}  // namespace

Client::Client(std::shared_ptr<grpc::Channel> channel, ClientOptions options)
    : channel_(std::move(channel)),
      options_(std::move(options)),
      origin_(std::make_shared<Origin>()),
      stub_(v1::GraphService::NewStub(channel_)) {}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& target,
                                                        ClientOptions options) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = OpenChannel(target, options);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<Client>(new Client(*std::move(channel), std::move(options)));
}

template <typename Request, typename Response>
absl::StatusOr<Response> Client::Ask(
    grpc::Status (v1::GraphService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    Request request) {
  if constexpr (requires { request.set_namespace_(options_.name_space); }) {
    request.set_namespace_(options_.name_space);
  }
  std::optional<NumberedRequest> numbered;
  if constexpr (requires { request.set_first_sent_ms_ago(0); }) {
    numbered.emplace(*origin_);
    numbered->WriteTo(request);
  }
  Attempts attempts(origin_->epoch(), options_.retry_for, options_.timeout, numbered.has_value());
  while (true) {
    grpc::ClientContext context;
    context.AddMetadata("formwork-error-room", absl::StrCat(kErrorRoom - 2048));
    context.set_deadline(absl::ToChronoTime(attempts.deadline()));
    Response response;
    const grpc::Status asked = (stub_.get()->*method)(&context, request, &response);
    if (asked.ok()) {
      origin_->NoteEpoch(response.epoch());
      return response;
    }
    absl::Status status = StatusFrom(asked, context);
    origin_->NoteEpoch(status);
    const std::optional<absl::Duration> pause = attempts.Failed(status);
    if (!pause) return status;
    absl::SleepFor(*pause);
    if constexpr (requires { request.set_first_sent_ms_ago(0); }) attempts.Mark(request);
  }
}

absl::StatusOr<grpc::ByteBuffer> Client::AskOnce(const char* method,
                                                 const grpc::ByteBuffer& request,
                                                 absl::Time deadline) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(deadline));
  grpc::ByteBuffer response;
  const grpc::Status status = BlockingCall(channel_.get(), method, &context, request, &response);
  if (!status.ok()) return StatusFrom(status, context);
  return response;
}

absl::StatusOr<grpc::ByteBuffer> Client::AskRaw(const char* method, const grpc::ByteBuffer& request,
                                                absl::Duration timeout, bool numbered) {
  Attempts attempts(origin_->epoch(), options_.retry_for, TimeoutOf(timeout), numbered);
  absl::StatusOr<grpc::ByteBuffer> answer = AskOnce(method, request, attempts.deadline());
  while (!answer.ok()) {
    absl::Status status = answer.status();
    origin_->NoteEpoch(status);
    const std::optional<absl::Duration> pause = attempts.Failed(status);
    if (!pause) return status;
    absl::SleepFor(*pause);
    answer = AskOnce(method, Appended(request, attempts.Mark()), attempts.deadline());
  }
  return answer;
}

absl::StatusOr<v1::RegisterResponse> Client::Register(v1::RegisterRequest request) {
  return Ask(&v1::GraphService::Stub::Register, std::move(request));
}

absl::StatusOr<CallResponse> Client::Call(const CallRequest& request) {
  const NumberedRequest number(*origin_);
  absl::StatusOr<grpc::ByteBuffer> answer =
      AskRaw(kCallMethod, EncodeCall(request, options_.name_space, number), request.timeout,
             /*numbered=*/true);
  if (!answer.ok()) return answer.status();
  absl::StatusOr<CallResponse> response = DecodeCall(*answer);
  if (response.ok()) origin_->NoteEpoch(response->epoch);
  return response;
}

// A call that nobody's thread waits for. It owns itself until it is done, and may outlive its
// client.
class Client::AsyncCall {
 public:
  using Done = std::function<void(absl::StatusOr<CallResponse>)>;

  AsyncCall(const Client& client, const CallRequest& request, Done done)
      : channel_(client.channel_),
        origin_(client.origin_),
        number_(*origin_),
        request_(EncodeCall(request, client.options_.name_space, number_)),
        attempts_(origin_->epoch(), client.options_.retry_for, client.TimeoutOf(request.timeout),
                  /*numbered=*/true),
        done_(std::move(done)) {}

  void Start() {
    context_.emplace();
    context_->set_deadline(absl::ToChronoTime(attempts_.deadline()));
    sent_ = Appended(request_, attempts_.Mark());
    RawStub(channel_).UnaryCall(&*context_, kCallMethod, grpc::StubOptions(), &sent_, &response_,
                                [this](grpc::Status status) { Answered(status); });
  }

 private:
  void Answered(const grpc::Status& answered) {
    if (answered.ok()) {
      absl::StatusOr<CallResponse> response = DecodeCall(response_);
      if (response.ok()) origin_->NoteEpoch(response->epoch);
      return End(std::move(response));
    }
    absl::Status status = StatusFrom(answered, *context_);
    origin_->NoteEpoch(status);
    const std::optional<absl::Duration> pause = attempts_.Failed(status);
    if (!pause) return End(status);
    alarm_.Set(absl::ToChronoTime(absl::Now() + *pause), [this](bool) { Start(); });
  }
  void End(absl::StatusOr<CallResponse> response) {
    const Done done = std::move(done_);
    delete this;
    done(std::move(response));
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<Origin> origin_;
  const NumberedRequest number_;
  const grpc::ByteBuffer request_;
  Attempts attempts_;
  Done done_;
  std::optional<grpc::ClientContext> context_;
  grpc::ByteBuffer sent_, response_;
  grpc::Alarm alarm_;
};

void Client::CallAsync(const CallRequest& request,
                       std::function<void(absl::StatusOr<CallResponse>)> done) {
  (new AsyncCall(*this, request, std::move(done)))->Start();
}

std::unique_ptr<CallStream> Client::OpenStream(absl::Duration timeout) {
  return OpenCallStream(channel_, options_, origin_, timeout);
}

absl::StatusOr<std::vector<v1::FunctionInfo>> Client::ListFunctions() {
  std::vector<v1::FunctionInfo> functions;
  v1::ListFunctionsRequest request;
  do {
    auto page = Ask(&v1::GraphService::Stub::ListFunctions, request);
    if (!page.ok()) return page.status();
    for (v1::FunctionInfo& function : *page->mutable_functions()) {
      functions.push_back(std::move(function));
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return functions;
}

absl::StatusOr<v1::DescribeFunctionResponse> Client::DescribeFunction(const std::string& name,
                                                                      bool plan) {
  v1::DescribeFunctionRequest request;
  request.set_name(name);
  request.set_plan(plan);
  return Ask(&v1::GraphService::Stub::DescribeFunction, std::move(request));
}

absl::StatusOr<int64_t> Client::Unregister(uint64_t id, const std::string& name) {
  v1::UnregisterRequest request;
  if (id != 0) {
    request.set_function_id(id);
  } else {
    request.set_function_name(name);
  }
  auto response = Ask(&v1::GraphService::Stub::Unregister, std::move(request));
  if (!response.ok()) return response.status();
  return response->removed();
}

absl::StatusOr<v1::CreateVariableResponse> Client::CreateVariable(const std::string& name,
                                                                  DataType dtype,
                                                                  const v1::Shape& shape,
                                                                  const Tensor* initial_value) {
  v1::CreateVariableRequest request;
  request.set_name(name);
  request.set_dtype(dtype);
  *request.mutable_shape() = shape;
  if (initial_value != nullptr) {
    v1::Tensor* value = request.mutable_initial_value()->mutable_tensor();
    value->set_dtype(initial_value->dtype());
    value->mutable_dims()->Add(initial_value->dims().begin(), initial_value->dims().end());
    value->set_content(initial_value->Content());
  }
  return Ask(&v1::GraphService::Stub::CreateVariable, std::move(request));
}

absl::StatusOr<Client::VariableValue> Client::ReadVariable(uint64_t id, const std::string& name) {
  v1::ReadVariablesRequest request;
  request.set_namespace_(options_.name_space);
  SetTarget(id, name, request.add_variables());
  absl::StatusOr<grpc::ByteBuffer> answer =
      AskRaw("/formwork.v1.GraphService/ReadVariables", BytesOf(request), {});
  if (!answer.ok()) return answer.status();
  absl::StatusOr<WithValue> parts = SplitValue(*answer);
  if (!parts.ok()) return parts.status();
  v1::ReadVariablesResponse response;
  Tensor* value = std::get_if<Tensor>(&parts->value);
  if (!response.ParseFromString(parts->others) || response.variables_size() != 1 ||
      value == nullptr) {
    return absl::InternalError("malformed response");
  }
  return VariableValue{response.variables(0), std::move(*value)};
}

absl::StatusOr<v1::VariableInfo> Client::AssignVariable(uint64_t id, const std::string& name,
                                                        const Tensor& value) {
  const NumberedRequest number(*origin_);
  v1::AssignVariablesRequest request;
  request.set_namespace_(options_.name_space);
  number.WriteTo(request);
  v1::AssignVariablesRequest::Assignment assignment;
  SetTarget(id, name, assignment.mutable_variable());
  absl::StatusOr<grpc::ByteBuffer> answer = AskRaw(
      "/formwork.v1.GraphService/AssignVariables",
      AppendAssignment(request.SerializeAsString(), assignment.SerializeAsString(), value), {},
      /*numbered=*/true);
  if (!answer.ok()) return answer.status();
  v1::AssignVariablesResponse response;
  grpc::Slice bytes;
  if (!answer->DumpToSingleSlice(&bytes).ok() ||
      !response.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size())) ||
      response.variables_size() != 1) {
    return absl::InternalError("malformed response");
  }
  return response.variables(0);
}

absl::Status Client::DeleteVariable(uint64_t id, const std::string& name) {
  v1::DeleteVariableRequest request;
  SetTarget(id, name, request.mutable_variable());
  return Ask(&v1::GraphService::Stub::DeleteVariable, std::move(request)).status();
}

absl::StatusOr<std::vector<v1::VariableInfo>> Client::ListVariables(
    bool all_kinds, std::optional<absl::Duration>* snapshot_age) {
  std::vector<v1::VariableInfo> variables;
  v1::ListVariablesRequest request;
  request.set_all_kinds(all_kinds);
  do {
    auto page = Ask(&v1::GraphService::Stub::ListVariables, request);
    if (!page.ok()) return page.status();
    for (v1::VariableInfo& variable : *page->mutable_variables()) {
      variables.push_back(std::move(variable));
    }
    if (snapshot_age != nullptr) {
      const google::protobuf::Duration& age = page->snapshot_age();
      *snapshot_age = std::nullopt;
      if (page->has_snapshot_age()) {
        *snapshot_age = absl::Seconds(age.seconds()) + absl::Nanoseconds(age.nanos());
      }
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return variables;
}

absl::StatusOr<Tensor> Client::ReadTensor(KeptTensor kept) {
  v1::ReadTensorRequest request;
  request.set_namespace_(options_.name_space);
  request.set_id(kept.id);
  absl::StatusOr<grpc::ByteBuffer> answer =
      AskRaw("/formwork.v1.GraphService/ReadTensor", BytesOf(request), {});
  if (!answer.ok()) return answer.status();
  absl::StatusOr<WithTensor> parts = SplitTensor(*answer);
  if (!parts.ok()) return parts.status();
  return std::move(parts->value);
}

absl::StatusOr<int64_t> Client::ReleaseTensors(const std::vector<KeptTensor>& kept) {
  v1::ReleaseTensorsRequest request;
  for (const KeptTensor& one : kept) request.add_ids(one.id);
  auto response = Ask(&v1::GraphService::Stub::ReleaseTensors, std::move(request));
  if (!response.ok()) return response.status();
  return response->released();
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo() {
  return Ask(&v1::GraphService::Stub::GetServerInfo, v1::GetServerInfoRequest());
}

absl::StatusOr<v1::SaveCheckpointResponse> Client::SaveCheckpoint(
    const std::string& path, const std::vector<std::string>& names) {
  v1::SaveCheckpointRequest request;
  request.set_path(path);
  request.mutable_names()->Add(names.begin(), names.end());
  return Ask(&v1::GraphService::Stub::SaveCheckpoint, std::move(request));
}

absl::StatusOr<v1::RestoreCheckpointResponse> Client::RestoreCheckpoint(
    const std::string& path, const std::vector<std::string>& names) {
  v1::RestoreCheckpointRequest request;
  request.set_path(path);
  request.mutable_names()->Add(names.begin(), names.end());
  return Ask(&v1::GraphService::Stub::RestoreCheckpoint, std::move(request));
}

absl::StatusOr<v1::LoadSavedModelResponse> Client::LoadSavedModel(
    const std::string& path, const std::string& name, const std::vector<std::string>& tags,
    bool replace, int64_t max_batch_rows) {
  v1::LoadSavedModelRequest request;
  request.set_path(path);
  request.set_name(name);
  request.mutable_tags()->Add(tags.begin(), tags.end());
  request.set_replace(replace);
  request.set_max_batch_rows(max_batch_rows);
  return Ask(&v1::GraphService::Stub::LoadSavedModel, std::move(request));
}

absl::StatusOr<std::vector<v1::OpInfo>> Client::ListOps(const std::string& filter) {
  std::vector<v1::OpInfo> ops;
  v1::ListOpsRequest request;
  request.set_filter(filter);
  do {
    auto page = Ask(&v1::GraphService::Stub::ListOps, request);
    if (!page.ok()) return page.status();
    for (v1::OpInfo& op : *page->mutable_ops()) ops.push_back(std::move(op));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return ops;
}

absl::StatusOr<v1::TakeSnapshotResponse> Client::TakeSnapshot() {
  return Ask(&v1::GraphService::Stub::TakeSnapshot, v1::TakeSnapshotRequest());
}

absl::StatusOr<std::vector<v1::NamespaceInfo>> Client::ListNamespaces() {
  std::vector<v1::NamespaceInfo> namespaces;
  v1::ListNamespacesRequest request;
  do {
    auto page = Ask(&v1::GraphService::Stub::ListNamespaces, request);
    if (!page.ok()) return page.status();
    for (v1::NamespaceInfo& one : *page->mutable_namespaces()) {
      namespaces.push_back(std::move(one));
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return namespaces;
}

absl::Status Client::SetDurability(v1::Durability durability) {
  v1::SetDurabilityRequest request;
  request.set_durability(durability);
  return Ask(&v1::GraphService::Stub::SetDurability, std::move(request)).status();
}

absl::Status Client::Clear() {
  return Ask(&v1::GraphService::Stub::Clear, v1::ClearRequest()).status();
}

}  // namespace formwork::client
