#include "server/serving/infer.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace formwork::server {
namespace {

constexpr std::pair<DType, absl::string_view> kDatatypes[] = {
    {DType::kBool, "BOOL"},     {DType::kUint8, "UINT8"},   {DType::kUint16, "UINT16"},
    {DType::kUint32, "UINT32"}, {DType::kUint64, "UINT64"}, {DType::kInt8, "INT8"},
    {DType::kInt16, "INT16"},   {DType::kInt32, "INT32"},   {DType::kInt64, "INT64"},
    {DType::kHalf, "FP16"},     {DType::kBfloat16, "BF16"}, {DType::kFloat, "FP32"},
    {DType::kDouble, "FP64"},   {DType::kString, "BYTES"},
};

constexpr char kSharedMemory[] = "shared_memory_";

std::string OwnerText(ParameterOf of, absl::string_view owner) {
  if (of == ParameterOf::kRequest) return "";
  return absl::StrCat(of == ParameterOf::kInput ? "input '" : "output '", owner, "': ");
}

}  // namespace

absl::string_view DatatypeOf(DType dtype) {
  for (const auto& [known, name] : kDatatypes) {
    if (known == dtype) return name;
  }
  return "";
}

std::string ConfigTypeOf(DType dtype) {
  if (dtype == DType::kString) return "TYPE_STRING";
  const absl::string_view name = DatatypeOf(dtype);
  return absl::StrCat("TYPE_", name.empty() ? "INVALID" : name);
}

absl::StatusOr<DType> DTypeFromDatatype(absl::string_view datatype) {
  for (const auto& [dtype, known] : kDatatypes) {
    if (known == datatype) return dtype;
  }
  constexpr size_t kShown = 40;
  return InvalidArgument("there is no datatype '", datatype.substr(0, kShown),
                         datatype.size() > kShown ? "..." : "", "'");
}

std::string VersionTextOf(uint64_t version) { return version == 0 ? "" : absl::StrCat(version); }

absl::Status SetRequestId(std::string id, InferRequest* request) {
  constexpr size_t kMost = size_t{64} << 10;
  if (id.size() > kMost) {
    return InvalidArgument("the request's id is too long: bytes=", id.size(), " limit=", kMost);
  }
  request->id = std::move(id);
  return absl::OkStatus();
}

absl::Status TakeParameter(ParameterOf of, absl::string_view owner, absl::string_view name,
                           const ParameterValue& value, InferRequest* request) {
  const auto refused = [&](absl::string_view what) {
    return Unimplemented(OwnerText(of, owner), "parameter '", name, "': there is no ", what);
  };
  if (absl::StartsWith(name, kSharedMemory)) {
    return refused(absl::StrCat("shared memory, but ", kInsteadOfSharedMemory));
  }
  if (!value.is_set) return absl::OkStatus();
  if (of == ParameterOf::kOutput && name == "classification") {
    return refused("classification; the output itself can be asked for");
  }
  if (of != ParameterOf::kRequest) return absl::OkStatus();
  if (name == "sequence_id") {
    return refused("sequence of requests; state is in variables of the model");
  }
  if (name == "timeout") {
    if (value.number <= 0) {
      return InvalidArgument("parameter 'timeout' is no positive number of microseconds");
    }
    request->timeout = absl::Microseconds(value.number);
  }
  return absl::OkStatus();
}

absl::Status CheckDatatypes(const Prediction& prediction) {
  for (size_t i = 0; i < prediction.values.size(); ++i) {
    const DType dtype = prediction.values[i].dtype();
    if (!DatatypeOf(dtype).empty()) continue;
    return InvalidArgument("output '", prediction.names[i],
                           "' cannot be sent: the protocol has no datatype for ", DTypeName(dtype));
  }
  return absl::OkStatus();
}

}  // namespace formwork::server
