#include "server/variable_codec.h"

#include <algorithm>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "server/call_codec.h"
#include "server/request_scope.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

constexpr char kInstead[] = "keep it, and read it in ranges";

absl::Status NoTarget() { return InvalidArgument("VariableTarget: it names nothing"); }

bool ReadTarget(WireReader message, Target* target) {
  while (!message.done()) {
    uint32_t tag;
    if (!message.ReadTag(&tag)) return false;
    bool read = true;
    switch (tag) {
      case MakeTag(v1::VariableTarget::kIdFieldNumber,
                   WireType::kVarint):  // Of a oneof: the last one counts.
        read = message.ReadVarint(&target->id);
        target->name.clear();
        break;
      case MakeTag(v1::VariableTarget::kNameFieldNumber, WireType::kBytes):
        read = message.ReadString(&target->name);
        target->id = 0;
        break;
      default:
        read = message.SkipField(tag);
    }
    if (!read) return false;
  }
  return true;
}

absl::Status AddAssignment(WireReader message, Allocator& allocator, DecodedAssign* assign) {
  if (assign->values.size() >= kMaxInputs) {
    return InField(InvalidArgument("AssignVariables: too many assignments: limit=", kMaxInputs),
                   "assignments");
  }
  Target target;
  ValueParts value;
  while (!message.done()) {
    uint32_t tag;
    WireReader nested;
    if (!message.ReadTag(&tag)) return Malformed("AssignVariablesRequest");
    bool read = true;
    if (tag ==
        MakeTag(v1::AssignVariablesRequest::Assignment::kVariableFieldNumber, WireType::kBytes)) {
      read = message.ReadNested(&nested) && ReadTarget(nested, &target);
    } else if (tag == MakeTag(kValues, WireType::kBytes)) {
      read = message.ReadNested(&nested) && value.Parse(nested);
    } else {
      read = message.SkipField(tag);
    }
    if (!read) return Malformed("AssignVariablesRequest");
  }
  absl::StatusOr<Argument> built = value.Build(allocator);
  if (built.ok() && built->kind == Argument::Kind::kResource) {
    built = InvalidArgument("Value: a variable cannot be assigned a resource");
  }
  absl::Status status = InField(built.status(), "value");
  if (target.id == 0 && target.name.empty()) status = InField(NoTarget(), "variable");
  if (!status.ok()) {
    const size_t i = assign->values.size();
    return InField(Annotate(status, absl::StrCat("assignment ", i)),
                   absl::StrCat("assignments[", i, "]"));
  }
  assign->values.emplace_back(std::move(target), *std::move(built));
  return absl::OkStatus();
}

absl::Status CheckLeaves(const Tensor& tensor) {
  if (CanLeave(tensor)) return absl::OkStatus();
  return InvalidArgument("a value of this dtype cannot leave the server: ",
                         std::string(DTypeName(tensor.dtype())));
}

}  // namespace

bool DecodedAssign::names_by_id() const {
  return std::any_of(values.begin(), values.end(), [](const auto& assignment) {
    return assignment.first.id != 0 || assignment.second.kind != Argument::Kind::kTensor;
  });
}

absl::Status DecodeAssignRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                                 DecodedAssign* assign) {
  const ReceivedMessage received(message);
  WireReader reader(received.chunks(), received.size());
  while (!reader.done()) {
    uint32_t tag;
    WireReader nested;
    uint64_t age;
    if (!reader.ReadTag(&tag)) return Malformed("AssignVariablesRequest");
    bool read = true;
    switch (tag) {
      case MakeTag(v1::AssignVariablesRequest::kNamespaceFieldNumber, WireType::kBytes):
        read = reader.ReadString(&assign->name_space);
        break;
      case MakeTag(v1::AssignVariablesRequest::kClientIdFieldNumber, WireType::kBytes):
        read = reader.ReadString(&assign->request.client);
        break;
      case MakeTag(v1::AssignVariablesRequest::kSequenceFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&assign->request.sequence);
        break;
      case MakeTag(v1::AssignVariablesRequest::kExpectedEpochFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&assign->expected_epoch);
        break;
      case MakeTag(v1::AssignVariablesRequest::kAcknowledgedFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&assign->request.acknowledged);
        break;
      case MakeTag(v1::AssignVariablesRequest::kFirstSentMsAgoFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&age);
        assign->request.age = AgeFrom(age);
        break;
      case MakeTag(kValues, WireType::kBytes):
        read = reader.ReadNested(&nested);
        if (read) FORMWORK_RETURN_IF_ERROR(AddAssignment(nested, allocator, assign));
        break;
      default:
        read = reader.SkipField(tag);
    }
    if (!read) return Malformed("AssignVariablesRequest");
  }
  return absl::OkStatus();
}

absl::StatusOr<Target> TargetFrom(const v1::VariableTarget& message) {
  if (message.id() != 0) return Target{message.id(), ""};
  if (!message.name().empty()) return Target{0, message.name()};
  return NoTarget();
}

absl::Status CheckRange(const v1::ElementRange& range, int64_t num_elements) {
  const uint64_t n = static_cast<uint64_t>(num_elements);
  if (range.begin() <= n && range.count() <= n - range.begin()) return absl::OkStatus();
  return InField(
      absl::OutOfRangeError(absl::StrCat("the range is beyond the value: begin=", range.begin(),
                                         " count=", range.count(), " elements=", n)),
      "range");
}

absl::Status EncodeReadVariables(uint64_t epoch, const std::vector<v1::VariableInfo>& variables,
                                 const std::vector<CallOutput>& values,
                                 const v1::ElementRange* range, size_t limit,
                                 grpc::ByteBuffer* message) {
  size_t total = 64;
  std::vector<std::string> infos;
  for (const v1::VariableInfo& variable : variables) {
    infos.push_back(variable.SerializeAsString());
    total += BytesFieldSize(infos.back().size());
  }
  std::optional<TensorRange> ranged;
  for (const CallOutput& value : values) {
    if (value.kept_id == 0) FORMWORK_RETURN_IF_ERROR(CheckLeaves(value.tensor));
    if (range != nullptr) {
      FORMWORK_RETURN_IF_ERROR(CheckRange(*range, value.tensor.num_elements()));
      ranged.emplace(TensorRange{value.tensor, static_cast<int64_t>(range->begin()),
                                 static_cast<int64_t>(range->count())});
      total += EncodedTensorSize(*ranged);
    } else {
      total += BytesFieldSize(EncodedValueSize(value));
    }
  }
  if (total > limit) return ResponseTooLarge(total, limit, kInstead);
  WireWriter writer;
  writer.VarintField(1, epoch);
  for (const std::string& info : infos) writer.StringField(2, info);
  for (const CallOutput& value : values) {
    if (!ranged) {
      WriteValue(value, &writer);
      continue;
    }
    const size_t bytes = EncodedTensorSize(*ranged);
    writer.BytesHeader(kValues, BytesFieldSize(bytes));
    writer.BytesHeader(1, bytes);
    WriteTensor(*ranged, &writer);
  }
  *message = writer.Finish();
  return absl::OkStatus();
}

absl::Status EncodeReadTensor(uint64_t epoch, const Tensor& tensor, const v1::ElementRange* range,
                              size_t limit, grpc::ByteBuffer* message) {
  FORMWORK_RETURN_IF_ERROR(CheckLeaves(tensor));
  TensorRange part{tensor, 0, tensor.num_elements()};
  if (range != nullptr) {
    FORMWORK_RETURN_IF_ERROR(CheckRange(*range, part.count));
    part.begin = static_cast<int64_t>(range->begin());
    part.count = static_cast<int64_t>(range->count());
  }
  const size_t bytes = range != nullptr ? EncodedTensorSize(part) : EncodedTensorSize(tensor);
  if (bytes + 4096 > limit) return ResponseTooLarge(bytes, limit, "read it in ranges");
  WireWriter writer;
  writer.VarintField(1, epoch);
  size_t dims_bytes = 0;
  for (int64_t dim : tensor.shape().dims()) dims_bytes += VarintSize(static_cast<uint64_t>(dim));
  writer.BytesHeader(2, dims_bytes);
  for (int64_t dim : tensor.shape().dims()) writer.Varint(static_cast<uint64_t>(dim));
  writer.BytesHeader(kValues, bytes);
  if (range != nullptr) {
    WriteTensor(part, &writer);
  } else {
    WriteTensor(tensor, &writer);
  }
  *message = writer.Finish();
  return absl::OkStatus();
}

}  // namespace formwork::server
