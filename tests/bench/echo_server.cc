// The peer of grpc_bench: a bare gRPC C++ callback server whose Call answers with the bytes that it
// got. Prints "echo ready PORT" and runs until it is killed.

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstdio>
#include <memory>
#include <string>

#include "formwork/v1/graph_service.grpc.pb.h"

namespace {

using Service = formwork::v1::GraphService;

class Echo final : public Service::WithRawCallbackMethod_Call<Service::Service> {
 public:
  grpc::ServerUnaryReactor* Call(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override {
    *response = *request;
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::string port = argc > 1 ? argv[1] : "0";
  Echo echo;
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddListeningPort("127.0.0.1:" + port, grpc::InsecureServerCredentials(), &bound);
  builder.RegisterService(&echo);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("echo ready %d\n", bound);
  std::fflush(stdout);
  server->Wait();
  return 0;
}
