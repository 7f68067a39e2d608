// Messages of the Open Inference Protocol: what is read of one is what protobuf reads.

#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/device/host_allocator.h"
#include "formwork/serving/inference_service.pb.h"
#include "server/serving/infer_codec.h"

namespace formwork::server {
namespace {

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void ReadMessage(const std::string& bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += piece) slices.emplace_back(bytes.substr(at, piece));
  const grpc::ByteBuffer message(slices.data(), slices.size());
  InferRequest request;
  if (!DecodeInferRequest(message, ProcessAllocator(), &request).ok()) return;
  inference::ModelInferRequest oracle;
  Check(oracle.ParseFromString(bytes), "protobuf does not read it");
  Check(request.id == oracle.id(), "the id is read as something else");
  Check(request.model.name == oracle.model_name(), "the name is read as something else");
  Check(request.names.size() == static_cast<size_t>(oracle.inputs_size()), "inputs are missing");
  Check(request.values.size() == request.names.size(), "values are missing");
  for (size_t i = 0; i < request.names.size(); ++i) {
    const auto& input = oracle.inputs(static_cast<int>(i));
    Check(request.names[i] == input.name(), "a name is read as something else");
    Check(DatatypeOf(request.values[i].dtype()) == input.datatype(), "a datatype is another");
    Check(request.values[i].rank() == input.shape_size(), "a shape is another");
  }
}

}  // namespace
}  // namespace formwork::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer quiet;
  if (size < 1) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  formwork::server::ReadMessage(bytes, 1 + data[0]);
  return 0;
}
