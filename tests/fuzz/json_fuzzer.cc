// Bodies of predict requests: what is read is written as what reads as the same. The first bytes
// say what the signature takes.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/device/host_allocator.h"
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
  server::ReadAndWrite({reinterpret_cast<const char*>(data) + 2, size - 2}, specs);
  return 0;
}
