#pragma once

// A client of formwork-server: functions, calls, streams of calls, variables.
//
//   absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect("127.0.0.1:8500");
//   CallRequest call{.name = "f", .inputs = {Tensor::Of<float>({2}, {1, 2})}};
//   absl::StatusOr<CallResponse> response = (*client)->Call(call);
//
// Failures are absl::Status with gRPC's codes; DetailsOf gives what else the server said.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "formwork/tensor.h"
#include "formwork/v1/errors.pb.h"
#include "formwork/v1/graph_service.grpc.pb.h"
#include "grpcpp/channel.h"

namespace formwork::client {

/// What the server said about an error beyond its text.
struct ErrorDetails {
  std::string reason;                 ///< One of v1::Reason's names without "REASON_", or empty.
  std::vector<std::string> culprits;  ///< All that is wrong with the request.
  v1::CallFailure failure;
};
/// nullopt where the error is not the server's.
std::optional<ErrorDetails> DetailsOf(const absl::Status& status);

/// A variable (or another resource) as an input.
struct ResourceId {
  uint64_t id = 0;
};
/// An output that a call left on the server.
struct KeptTensor {
  uint64_t id = 0;
};
/// An output that cannot leave the server.
struct Opaque {
  DataType dtype = formwork::tf::DT_INVALID;
};
using Value = std::variant<Tensor, ResourceId, KeptTensor, Opaque>;

struct CallRequest {
  uint64_t function_id = 0;  ///< Or, where 0, by name and the inputs' types.
  std::string name;
  std::vector<Value> inputs;
  bool keep_outputs = false;  ///< They stay on the server, as KeptTensors.
  uint32_t keep_from = 0;     ///< The first that is kept; those before it are sent.
  absl::Duration keep_for = absl::ZeroDuration();  ///< After the last use; 0: the server's.
  absl::Duration timeout = absl::ZeroDuration();   ///< 0: the client's.
  uint64_t call_id = 0;                            ///< In streams: returned as it came.
  bool timeline = false;                           ///< The response has one.
  /// All that it changes of resources changes, or, where it fails, nothing. Errors: kUnimplemented
  /// where that cannot be: of iterators, and on a device.
  bool atomic = false;
  /// Of workers that train side by side: what comes before its apply region is computed from a
  /// snapshot (core/resource/README.md). Errors: kInvalidArgument together with `atomic`.
  bool relaxed = false;
};

struct CallResponse {
  absl::Status status;  ///< In streams; else OK.
  uint64_t epoch = 0;
  uint64_t call_id = 0;
  uint64_t function_id = 0;
  std::vector<std::string> printed;
  std::vector<Value> outputs;
  /// Where it was asked for, and the server records them; of a failed call in streams alone.
  std::optional<v1::Timeline> timeline;
};

/// How a connection is encrypted: files in PEM, which Connect reads.
struct Tls {
  std::string ca;  ///< CAs, of which one has signed the server's certificate; empty: the system's.
  std::string cert;  ///< The client's own, where the server wants one; with `key`.
  std::string key;
};

struct ClientOptions {
  std::string name_space = "default";
  absl::Duration timeout = absl::Seconds(60);             ///< Of each request.
  absl::Duration connect_timeout = absl::ZeroDuration();  ///< Of Connect; 0: `timeout`.
  int max_message_bytes = 2147483647;
  /// In which a request is sent again that did not reach the server, or whose answer was lost with
  /// the connection, within its own timeout; the server does it once, however often it is sent. 0:
  /// it is never sent again.
  absl::Duration retry_for = absl::Seconds(5);
  std::optional<Tls> tls;  ///< Not encrypted where there is none.
};

/// Calls in the order sent on one stream. Write and Read may each be used by one thread at a time.
/// Where the connection breaks, Read opens another and sends again what is not answered
/// (ClientOptions::retry_for); where nothing is, once there is something to send.
class CallStream {
 public:
  virtual ~CallStream() = default;  ///< Cancels what is not answered.
  /// False where the stream has ended: Finish says why.
  virtual bool Write(const CallRequest& request) = 0;
  /// The next answer, in the order sent; nullopt at the end.
  virtual std::optional<CallResponse> Read() = 0;
  /// No more writes.
  virtual void WritesDone() = 0;
  /// The stream's own end. Call after Read gave nullopt.
  virtual absl::Status Finish() = 0;
};

class Origin;

/// A connection. Thread-safe. Unless said otherwise, a method blocks until the answer is there.
class Client {
 public:
  /// `target`: "host:port" or "unix:path". Waits until the server says that it serves.
  /// Errors: kUnavailable, saying why, if it does not within the timeout, or at once where TLS
  /// stands between them; kInvalidArgument if `target` is empty or a file of `tls` cannot be read.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& target,
                                                         ClientOptions options = {});

  /// The request's namespace is set here. With a fingerprint the graph may be left out.
  absl::StatusOr<v1::RegisterResponse> Register(v1::RegisterRequest request);
  absl::StatusOr<CallResponse> Call(const CallRequest& request);
  /// Returns at once; `done` is called from a thread of gRPC's and must not block.
  void CallAsync(const CallRequest& request,
                 std::function<void(absl::StatusOr<CallResponse>)> done);
  /// `timeout`: of the stream as a whole.
  std::unique_ptr<CallStream> OpenStream(absl::Duration timeout = absl::InfiniteDuration());

  /// All of them, however many pages they take; so is ListVariables.
  absl::StatusOr<std::vector<v1::FunctionInfo>> ListFunctions();
  /// `plan`: with the programs that the functions became, as text.
  absl::StatusOr<v1::DescribeFunctionResponse> DescribeFunction(const std::string& name,
                                                                bool plan = false);
  /// By ID, or every function of `name` where it is 0; how many went.
  absl::StatusOr<int64_t> Unregister(uint64_t id, const std::string& name);

  absl::StatusOr<v1::CreateVariableResponse> CreateVariable(const std::string& name, DataType dtype,
                                                            const v1::Shape& shape,
                                                            const Tensor* initial_value);
  struct VariableValue {
    v1::VariableInfo variable;
    Tensor value;
  };
  /// By ID, or by name where it is 0; so are the next two.
  absl::StatusOr<VariableValue> ReadVariable(uint64_t id, const std::string& name);
  absl::StatusOr<v1::VariableInfo> AssignVariable(uint64_t id, const std::string& name,
                                                  const Tensor& value);
  absl::Status DeleteVariable(uint64_t id, const std::string& name);
  /// `all_kinds`: other resources, too (VariableInfo::kind). `snapshot_age`: where the time since
  /// the last snapshot goes, nullopt if there is none; may be null.
  absl::StatusOr<std::vector<v1::VariableInfo>> ListVariables(
      bool all_kinds = false, std::optional<absl::Duration>* snapshot_age = nullptr);

  absl::StatusOr<Tensor> ReadTensor(KeptTensor kept);
  absl::StatusOr<int64_t> ReleaseTensors(const std::vector<KeptTensor>& kept);
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo();
  /// Variables to and from files of the server's: `path` is relative to its folder for them, and
  /// says the format (variables.proto). `names`: of which; none: of all. Errors:
  /// kFailedPrecondition where it has no such folder.
  absl::StatusOr<v1::SaveCheckpointResponse> SaveCheckpoint(
      const std::string& path, const std::vector<std::string>& names = {});
  absl::StatusOr<v1::RestoreCheckpointResponse> RestoreCheckpoint(
      const std::string& path, const std::vector<std::string>& names = {});
  /// Functions of a SavedModel's signatures: `name`, and name/SIGNATURE. `path`: of its folder, in
  /// the server's for files. `replace`: in the place of what was loaded under the name. Errors: as
  /// those; kAlreadyExists without `replace`, kUnimplemented lists missing ops (functions.proto).
  /// `max_batch_rows`: of calls that are computed as one; 0: each alone.
  absl::StatusOr<v1::LoadSavedModelResponse> LoadSavedModel(
      const std::string& path, const std::string& name, const std::vector<std::string>& tags = {},
      bool replace = false, int64_t max_batch_rows = 0);
  /// Which ops functions may use, whose name fits `filter` (* and ?; empty: all), by name.
  absl::StatusOr<std::vector<v1::OpInfo>> ListOps(const std::string& filter = "");
  /// Of all namespaces. Errors: kFailedPrecondition where nothing outlives the server.
  absl::StatusOr<v1::TakeSnapshotResponse> TakeSnapshot();
  /// Those in which something is, or that have a durability of their own, by name, and what each
  /// holds.
  absl::StatusOr<std::vector<v1::NamespaceInfo>> ListNamespaces();
  /// Gives the namespace, in which nothing is, a durability of its own, which it has until it is
  /// removed. Errors: kFailedPrecondition if something is in it, or if nothing outlives the server.
  absl::Status SetDurability(v1::Durability durability);
  /// Removes the namespace: all that is in it.
  absl::Status Clear();

  const ClientOptions& options() const { return options_; }

 private:
  Client(std::shared_ptr<grpc::Channel> channel, ClientOptions options);

  class AsyncCall;

  // One unary request with messages of protobuf's.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Ask(grpc::Status (v1::GraphService::Stub::*method)(grpc::ClientContext*,
                                                                              const Request&,
                                                                              Response*),
                               Request request);
  // `numbered`: it changes something, and must not be done twice.
  absl::StatusOr<grpc::ByteBuffer> AskRaw(const char* method, const grpc::ByteBuffer& request,
                                          absl::Duration timeout, bool numbered = false);
  absl::StatusOr<grpc::ByteBuffer> AskOnce(const char* method, const grpc::ByteBuffer& request,
                                           absl::Time deadline);
  absl::Duration TimeoutOf(absl::Duration given) const {
    return given > absl::ZeroDuration() ? given : options_.timeout;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const ClientOptions options_;
  const std::shared_ptr<Origin> origin_;  // Calls that are under way may outlive this.
  const std::unique_ptr<v1::GraphService::Stub> stub_;
};

}  // namespace formwork::client
