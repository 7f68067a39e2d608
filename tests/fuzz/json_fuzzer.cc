// Bodies of predict requests, and of the Open Inference Protocol's: what is read is written as what
// reads as the same. The first bytes say which it is, and what the signature takes.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/device/host_allocator.h"
#include "server/serving/json_infer.h"
#include "server/serving/json_tensors.h"

namespace formwork::server {
namespace {

constexpr DType kDTypes[] = {DType::kFloat, DType::kString, DType::kDouble,   DType::kInt8,
                             DType::kBool,  DType::kUint64, DType::kBfloat16, DType::kInt64,
                             DType::kHalf,  DType::kInt32};

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

bool AreSame(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() == DType::kString) return a.span<std::string>() == b.span<std::string>();
  return a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

void ReadAndWrite(absl::string_view body, const std::vector<TensorSpec>& specs) {
  const absl::StatusOr<JsonPredict> head = ReadJsonPredictHead(body);
  if (!head.ok()) return;
  const absl::StatusOr<std::vector<Tensor>> tensors =
      ReadJsonInputs(*head, specs, ProcessAllocator());
  if (!tensors.ok()) return;
  std::vector<std::string> names;
  for (const TensorSpec& spec : specs) names.push_back(spec.name);
  absl::StatusOr<std::string> text = WriteJsonOutputs(head->row_format, names, *tensors);
  Check(text.ok(), "what was read is not written");
  if (head->row_format) {
    text->replace(2, 11, "instances");
  } else {
    text->replace(2, 7, "inputs");
  }
  const absl::StatusOr<JsonPredict> again = ReadJsonPredictHead(*text);
  Check(again.ok(), "what was written has no head");
  const absl::StatusOr<std::vector<Tensor>> same =
      ReadJsonInputs(*again, specs, ProcessAllocator());
  Check(same.ok(), "what was written is not read");
  for (size_t i = 0; i < specs.size(); ++i) {
    Check(AreSame((*tensors)[i], (*same)[i]), "what was written is read as something else");
  }
}

absl::StatusOr<std::vector<Tensor>> ReadInfer(absl::string_view body, JsonInfer* infer) {
  absl::StatusOr<JsonInfer> read = ReadJsonInfer(body);
  if (!read.ok()) return read.status();
  *infer = *std::move(read);
  std::vector<Tensor> tensors;
  for (const JsonInferInput& input : infer->inputs) {
    if (input.binary_bytes) return absl::UnimplementedError("not in JSON");
    absl::StatusOr<Tensor> tensor = ReadJsonInferInput(input, ProcessAllocator());
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

void ReadAndWriteInfer(absl::string_view body) {
  JsonInfer infer;
  absl::StatusOr<std::vector<Tensor>> tensors = ReadInfer(body, &infer);
  if (!tensors.ok()) return;
  Prediction prediction;
  prediction.request_id = infer.request.id;
  for (const JsonInferInput& input : infer.inputs) prediction.names.push_back(input.name);
  prediction.values = *tensors;
  size_t json = 0;
  absl::StatusOr<std::string> text = WriteJsonInfer(prediction, {}, &json);
  Check(text.ok() && json == text->size(), "what was read is not written");
  text->replace(text->find("\"outputs\":"), 10, "\"inputs\": ");
  JsonInfer again;
  const absl::StatusOr<std::vector<Tensor>> same = ReadInfer(*text, &again);
  Check(same.ok() && same->size() == tensors->size(), "what was written is not read");
  Check(again.request.id == infer.request.id, "the id is read as something else");
  for (size_t i = 0; i < same->size(); ++i) {
    Check(again.inputs[i].name == infer.inputs[i].name, "a name is read as something else");
    Check(AreSame((*tensors)[i], (*same)[i]), "what was written is read as something else");
  }
}

}  // namespace
}  // namespace formwork::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace formwork;  // NOLINT
  if (size < 2) return 0;
  const auto dtype = [](uint8_t byte) {
    return server::kDTypes[byte % std::size(server::kDTypes)];
  };
  std::vector<TensorSpec> specs = {{"x", dtype(data[0]), PartialShape::Trusted({-1, 3})}};
  if (data[1] % 2 == 1) specs.push_back({"y_bytes", dtype(data[1] / 2), PartialShape()});
  const absl::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (data[0] >= 128) {
    server::ReadAndWriteInfer(body);
  } else {
    server::ReadAndWrite(body, specs);
  }
  return 0;
}
