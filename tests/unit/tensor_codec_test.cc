// The hand-written codec against protobuf's own: what one writes the other reads, and what one
// refuses the other does too.

#include "server/tensor_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "core/base/reason.h"
#include "core/device/host_allocator.h"
#include "formwork/rpc/status.pb.h"
#include "formwork/v1/errors.pb.h"
#include "formwork/v1/graph_service.pb.h"
#include "server/call_codec.h"
#include "server/client_answer.h"
#include "server/variable_codec.h"
#include "server/wire_format.h"
#include "tests/unit/wire_bytes.h"

namespace formwork::server {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<DecodedCall> Decode(const std::string& bytes, size_t piece = 1 << 30) {
  DecodedCall call;
  const absl::Status status = DecodeCallRequest(Cut(bytes, piece), ProcessAllocator(), &call);
  if (!status.ok()) return status;
  return call;
}

absl::StatusOr<Tensor> DecodeTensor(const std::string& bytes, size_t piece = 1 << 30) {
  const grpc::ByteBuffer message = Cut(bytes, piece);
  const ReceivedMessage received(message);
  TensorParts parts;
  if (!parts.Parse(WireReader(received.chunks(), received.size()))) {
    return absl::InvalidArgumentError("malformed");
  }
  return parts.Build(ProcessAllocator());
}

std::string Encode(const Tensor& tensor) {
  WireWriter writer;
  WriteTensor(tensor, &writer);
  const std::string bytes = Flatten(writer.Finish());
  EXPECT_EQ(bytes.size(), EncodedTensorSize(tensor));
  return bytes;
}

v1::Tensor Message(int dtype, std::vector<int64_t> dims, std::string content) {
  v1::Tensor message;
  message.set_dtype(static_cast<formwork::tf::DataType>(dtype));
  message.mutable_dims()->Add(dims.begin(), dims.end());
  message.set_content(std::move(content));
  return message;
}

std::string RandomBytes(size_t n, std::mt19937& random) {
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

constexpr int kSeed = 20240917;

TEST(TensorCodec, ReadsAndWritesEveryPlainDtypeAsProtobufDoes) {
  std::mt19937 random(kSeed);
  for (int number = 1; number <= 33; ++number) {
    const DType dtype = static_cast<DType>(number);
    if (!IsPlainData(dtype) || dtype == DType::kBool) continue;
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{}, {0}, {3}, {2, 0, 5}, {7, 11}, {130, 129}}) {
      int64_t n = 1;
      for (int64_t dim : dims) n *= dim;
      const v1::Tensor message =
          Message(number, dims, RandomBytes(static_cast<size_t>(n) * DTypeSize(dtype), random));
      const std::string bytes = message.SerializeAsString();
      for (size_t piece : {size_t{1}, size_t{3}, size_t{1000}, bytes.size() + 1}) {
        const absl::StatusOr<Tensor> tensor = DecodeTensor(bytes, piece);
        ASSERT_TRUE(tensor.ok()) << tensor.status() << " dtype=" << number;
        EXPECT_EQ(tensor->dtype(), dtype);
        EXPECT_EQ(tensor->shape(), *Shape::Make(dims));
        EXPECT_EQ(std::memcmp(tensor->raw(), message.content().data(), message.content().size()),
                  0);
        v1::Tensor back;
        ASSERT_TRUE(back.ParseFromString(Encode(*tensor)));
        EXPECT_EQ(back.SerializeAsString(), bytes);
      }
    }
  }
}

TEST(TensorCodec, ReadsBoolsAsZeroAndOne) {
  const absl::StatusOr<Tensor> tensor =
      DecodeTensor(Message(10, {4}, std::string("\0\1\2\xff", 4)).SerializeAsString());
  ASSERT_TRUE(tensor.ok());
  EXPECT_THAT(std::vector<uint8_t>(tensor->data<uint8_t>(), tensor->data<uint8_t>() + 4),
              ::testing::ElementsAre(0, 1, 1, 1));
}

TEST(TensorCodec, CarriesStringsWithAnyBytes) {
  const std::vector<std::string> values = {"", "a", std::string("\0\xff", 2),
                                           std::string(5000, 'x')};
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(ProcessAllocator(), DType::kString, {2, 2});
  ASSERT_TRUE(tensor.ok());
  std::copy(values.begin(), values.end(), tensor->mutable_data<std::string>());
  const std::string bytes = Encode(*tensor);
  for (size_t piece : {size_t{1}, size_t{7}, bytes.size()}) {
    const absl::StatusOr<Tensor> back = DecodeTensor(bytes, piece);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->shape(), Shape({2, 2}));
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(back->data<std::string>()[i], values[i]);
  }
}

TEST(TensorCodec, SendsLargeBuffersWithoutACopy) {
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(ProcessAllocator(), DType::kFloat, {1 << 20});
  ASSERT_TRUE(tensor.ok());
  std::memset(tensor->mutable_raw(), 1, tensor->bytes());
  std::vector<grpc::Slice> slices;
  {
    WireWriter writer;
    WriteTensor(*tensor, &writer);
    ASSERT_TRUE(writer.Finish().Dump(&slices).ok());
  }
  EXPECT_EQ(static_cast<const void*>(slices.back().begin()), tensor->raw());
  EXPECT_FALSE(tensor->unique());  // While it is on its way nobody writes in place.
  slices.clear();
  EXPECT_TRUE(tensor->unique());
}

struct BadTensor {
  const char* what;
  v1::Tensor message;
  const char* error;
};

TEST(TensorCodec, RefusesWhatDoesNotAddUp) {
  const int64_t huge = int64_t{1} << 62;
  const std::vector<BadTensor> cases = {
      {"no dtype", Message(0, {}, ""), "unknown dtype"},
      {"unknown dtype", Message(200, {}, ""), "unknown dtype"},
      {"dtype out of a byte", Message(257, {}, "1234"), "unknown dtype"},
      {"negative dtype", Message(-1, {}, "1234"), "unknown dtype"},
      {"reference dtype", Message(101, {}, "1234"), "unknown dtype"},
      {"resource", Message(20, {}, "12345678"), "cannot be sent: resource"},
      {"variant", Message(21, {}, "12345678"), "cannot be sent: variant"},
      {"short content", Message(1, {2}, "1234567"), "bytes=7 expected=8"},
      {"long content", Message(1, {2}, "123456789"), "bytes=9 expected=8"},
      {"scalar without content", Message(1, {}, ""), "bytes=0 expected=4"},
      {"negative dim", Message(1, {-1}, ""), "negative"},
      {"elements overflow", Message(1, {huge, 4}, ""), ""},
      {"bytes overflow", Message(2, {huge}, ""), "another size"},
      {"empty, but overflows", Message(1, {huge, huge, 0}, ""), ""},
      {"too many dims", Message(1, std::vector<int64_t>(300, 1), "1234"), ""},
      {"more strings than bytes", Message(7, {int64_t{1} << 40}, "1234"), "too short"},
      {"string beyond content", Message(7, {1}, std::string("\xff\0\0\0abc", 7)), "longer"},
      {"bytes behind strings", Message(7, {1}, std::string("\1\0\0\0abc", 7)), "behind"},
  };
  for (const BadTensor& bad : cases) {
    const absl::StatusOr<Tensor> tensor = DecodeTensor(bad.message.SerializeAsString());
    if (tensor.ok()) {
      EXPECT_STREQ(bad.what, "empty, but overflows") << "was accepted";
      continue;
    }
    EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument) << bad.what;
    EXPECT_THAT(std::string(tensor.status().message()), HasSubstr(bad.error)) << bad.what;
  }
}

v1::CallRequest SampleRequest() {
  v1::CallRequest request;
  request.set_namespace_("training");
  request.set_client_id("trainer-7");
  request.set_sequence(12);
  request.set_acknowledged(10);
  request.set_first_sent_ms_ago(250);
  request.set_expected_epoch(uint64_t{1} << 52);
  request.set_function_name("step-é");
  request.set_keep_outputs(true);
  request.set_keep_from(2);
  request.set_call_id(300);
  request.mutable_timeout()->set_seconds(2);
  request.mutable_timeout()->set_nanos(500000000);
  request.mutable_keep_for()->set_seconds(60);
  request.set_in_parts(true);
  *request.add_inputs()->mutable_tensor() = Message(1, {2, 1}, "abcdefgh");
  request.add_inputs()->set_resource_id(17);
  request.add_inputs()->set_kept_tensor_id(18);
  *request.add_inputs()->mutable_tensor() = Message(9, {300}, std::string(2400, 'z'));
  return request;
}

void ExpectSample(const DecodedCall& call) {
  EXPECT_EQ(call.spec.name_space, "training");
  EXPECT_EQ(call.spec.request.client, "trainer-7");
  EXPECT_EQ(call.spec.request.sequence, 12u);
  EXPECT_EQ(call.spec.request.acknowledged, 10u);
  EXPECT_EQ(call.spec.request.age, absl::Milliseconds(250));
  EXPECT_EQ(call.expected_epoch, uint64_t{1} << 52);
  EXPECT_EQ(call.spec.function.id, 0u);
  EXPECT_EQ(call.spec.function.name, "step-é");
  EXPECT_TRUE(call.spec.keep_outputs);
  EXPECT_EQ(call.spec.keep_from, 2u);
  EXPECT_EQ(call.call_id, 300u);
  EXPECT_EQ(call.timeout, absl::Milliseconds(2500));
  EXPECT_EQ(call.spec.kept_ttl, absl::Seconds(60));
  EXPECT_TRUE(call.in_parts);
  EXPECT_TRUE(call.names_by_id());
  ASSERT_EQ(call.spec.inputs.size(), 4u);
  EXPECT_EQ(call.spec.inputs[0].tensor.shape(), Shape({2, 1}));
  EXPECT_EQ(std::memcmp(call.spec.inputs[0].tensor.raw(), "abcdefgh", 8), 0);
  EXPECT_EQ(call.spec.inputs[1].kind, Argument::Kind::kResource);
  EXPECT_EQ(call.spec.inputs[1].id, 17u);
  EXPECT_EQ(call.spec.inputs[2].kind, Argument::Kind::kKeptTensor);
  EXPECT_EQ(call.spec.inputs[2].id, 18u);
  EXPECT_EQ(call.spec.inputs[3].tensor.bytes(), 2400u);
}

TEST(CallCodec, ReadsWhatProtobufWritesHoweverItIsCut) {
  const std::string bytes = SampleRequest().SerializeAsString();
  for (size_t piece = 1; piece < 40; ++piece) {
    const absl::StatusOr<DecodedCall> call = Decode(bytes, piece);
    ASSERT_TRUE(call.ok()) << call.status();
    ExpectSample(*call);
  }
  ASSERT_TRUE(Decode("").ok());
}

// A field of a message, as bytes.
std::string Field(uint32_t number, int wire_type, const std::string& payload) {
  std::string bytes;
  for (uint64_t tag = number << 3 | static_cast<uint32_t>(wire_type);; tag >>= 7) {
    bytes += static_cast<char>(tag >= 0x80 ? tag | 0x80 : tag);
    if (tag < 0x80) break;
  }
  if (wire_type == 2) {
    EXPECT_LT(payload.size(), 128u);
    bytes += static_cast<char>(payload.size());
  }
  return bytes + payload;
}

TEST(CallCodec, TakesFieldsInAnyOrderRepeatedAndUnknown) {
  const std::string content = Field(15, 2, "abcdefgh");
  const std::string unpacked = Field(2, 0, "\x02") + Field(2, 0, "\x01");
  const std::string unknown = Field(77, 2, "xyz") + Field(78, 5, "1234") +
                              Field(79, 1, "12345678") + Field(80, 0, "\xff\x01") +
                              Field(81, 3, Field(5, 0, "\x01") + Field(6, 3, Field(6, 4, ""))) +
                              Field(81, 4, "");
  // A known field of another wire type is unknown, too.
  const std::string other_type = Field(15, 0, "\x05") + Field(1, 5, "1234");
  const std::string tensor =
      content + unknown + unpacked + other_type + Field(1, 0, "\x02") + Field(1, 0, "\x01");
  ASSERT_LT(tensor.size(), 128u);
  const std::string value = Field(2, 0, "\x07") + Field(1, 2, tensor);
  std::string bytes;
  for (const std::string& input : {value}) {
    bytes += unknown;
    bytes += "\x7a";
    bytes += static_cast<char>(input.size() & 0x7f);
    if (input.size() >= 128) bytes.back() = static_cast<char>(input.size() | 0x80), bytes += '\1';
    bytes += input;
  }
  bytes += Field(6, 2, "first") + Field(5, 0, "\x07") + Field(6, 2, "last");
  v1::CallRequest oracle;
  ASSERT_TRUE(oracle.ParseFromString(bytes));
  for (size_t piece : {size_t{1}, size_t{5}, bytes.size()}) {
    const absl::StatusOr<DecodedCall> call = Decode(bytes, piece);
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_EQ(call->spec.function.name, oracle.function_name());
    EXPECT_EQ(call->spec.function.id, oracle.function_id());
    ASSERT_EQ(call->spec.inputs.size(), 1u);
    EXPECT_EQ(call->spec.inputs[0].tensor.dtype(), DType::kFloat);
    EXPECT_EQ(call->spec.inputs[0].tensor.shape(), Shape({2, 1}));
  }
}

TEST(CallCodec, MergesATensorThatComesInParts) {
  const std::string value = Field(1, 2, Field(1, 0, "\x04") + Field(2, 0, "\x02")) +
                            Field(1, 2, Field(2, 0, "\x01") + Field(15, 2, "ab"));
  v1::CallRequest oracle;
  const std::string bytes = Field(15, 2, value);
  ASSERT_TRUE(oracle.ParseFromString(bytes));
  ASSERT_EQ(oracle.inputs(0).tensor().dims_size(), 2);
  const absl::StatusOr<DecodedCall> call = Decode(bytes);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->spec.inputs[0].tensor.shape(), Shape({2, 1}));
}

TEST(CallCodec, NamesTheInputThatIsWrong) {
  v1::CallRequest request = SampleRequest();
  request.mutable_inputs(3)->mutable_tensor()->add_dims(2);
  EXPECT_THAT(std::string(Decode(request.SerializeAsString()).status().message()),
              HasSubstr("input 3: Tensor: content has another size"));
  request = SampleRequest();
  request.mutable_inputs(1)->clear_kind();
  EXPECT_THAT(std::string(Decode(request.SerializeAsString()).status().message()),
              HasSubstr("input 1: Value: it holds nothing"));
  request.mutable_inputs(1)->mutable_opaque();
  EXPECT_THAT(std::string(Decode(request.SerializeAsString()).status().message()),
              HasSubstr("input 1: Value: an opaque value"));
}

TEST(CallCodec, RefusesMoreInputsThanAnyoneNeeds) {
  v1::CallRequest request;
  for (size_t i = 0; i <= kMaxInputs; ++i) request.add_inputs()->set_resource_id(1);
  EXPECT_THAT(std::string(Decode(request.SerializeAsString()).status().message()),
              HasSubstr("too many inputs"));
}

// Every change of a valid message is read as protobuf reads it, or refused where protobuf refuses.
TEST(CallCodec, AgreesWithProtobufOnDamagedMessages) {
  const google::protobuf::LogSilencer silence;
  std::mt19937 random(kSeed);
  v1::CallRequest small;
  small.set_function_name("f");
  small.mutable_timeout()->set_seconds(3);
  *small.add_inputs()->mutable_tensor() = Message(4, {3}, "abc");
  small.add_inputs()->set_resource_id(17);
  const std::string base = small.SerializeAsString();
  int accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    const std::string bytes = Edited(base, random);
    v1::CallRequest oracle;
    const bool valid = oracle.ParseFromString(bytes);
    DecodedCall call;
    const absl::Status status =
        DecodeCallRequest(Cut(bytes, 1 + random() % 8), ProcessAllocator(), &call);
    if (status.ok()) {
      ++accepted;
      ASSERT_TRUE(valid) << absl::CHexEscape(bytes);
      ASSERT_EQ(call.spec.function.name, oracle.function_name()) << absl::CHexEscape(bytes);
      ASSERT_EQ(call.spec.inputs.size(), static_cast<size_t>(oracle.inputs_size()));
      ASSERT_EQ(call.spec.function.id, oracle.function_id());
      ASSERT_EQ(call.timeout.has_value(), oracle.has_timeout()) << absl::CHexEscape(bytes);
    } else if (absl::StrContains(status.message(), "malformed")) {
      ASSERT_FALSE(valid) << absl::CHexEscape(bytes);
    }
  }
  EXPECT_GT(accepted, 1000);
}

TEST(ClientAnswers, AreReadAsProtobufReadsThem) {
  v1::CallRequest request;
  v1::ClientFunctionResponse& response = *request.mutable_client_function();
  response.set_id(300);
  *response.add_outputs()->mutable_tensor() = Message(4, {3}, "abc");
  const std::string base = request.SerializeAsString();
  EXPECT_TRUE(ReadCallHead(Cut(base, 1)).is_answer);
  EXPECT_THAT(std::string(Decode(base).status().message()), HasSubstr("no call"));
  const DecodedAnswer answer = DecodeClientAnswer(Cut(base, 3), ProcessAllocator());
  EXPECT_EQ(answer.id, 300u);
  ASSERT_TRUE(answer.results.ok()) << answer.results.status();
  ASSERT_EQ(answer.results->size(), 1u);
  EXPECT_EQ((*answer.results)[0].shape(), Shape({3}));

  response.mutable_error()->set_code(14);  // Without a text, which would be no error.
  const absl::Status error =
      DecodeClientAnswer(Cut(request.SerializeAsString(), 5), ProcessAllocator()).results.status();
  EXPECT_EQ(error.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(error.message().empty());

  const google::protobuf::LogSilencer silence;
  std::mt19937 random(kSeed);
  int accepted = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string bytes = base;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    v1::CallRequest oracle;
    const bool valid = oracle.ParseFromString(bytes) && oracle.has_client_function();
    const DecodedAnswer damaged = DecodeClientAnswer(Cut(bytes, 4), ProcessAllocator());
    if (!damaged.results.ok()) continue;
    ++accepted;
    ASSERT_TRUE(valid) << absl::CHexEscape(bytes);
    ASSERT_EQ(damaged.id, oracle.client_function().id());
    ASSERT_EQ(static_cast<int>(damaged.results->size()), oracle.client_function().outputs_size());
  }
  EXPECT_GT(accepted, 1000);
}

TEST(CallCodec, WritesResponsesThatProtobufReads) {
  CallResult result;
  result.function_id = 3;
  result.printed = {"text\n", "\xff\xfe"};
  result.outputs.resize(4);
  result.outputs[0].tensor = Tensor::Scalar<float>(1.5f);
  result.outputs[1].kept_id = 1000;
  result.outputs[2].opaque = DType::kVariant;
  result.outputs[3].tensor = *Tensor::Allocate(ProcessAllocator(), DType::kInt32, {100, 100});
  std::memset(result.outputs[3].tensor.mutable_raw(), 7, 40000);
  grpc::ByteBuffer message;
  ASSERT_TRUE(EncodeCallResponse(result, 99, 5, 1 << 30, &message).ok());
  v1::CallResponse response;
  ASSERT_TRUE(response.ParseFromString(Flatten(message)));
  EXPECT_EQ(response.epoch(), 99u);
  EXPECT_EQ(response.call_id(), 5u);
  EXPECT_EQ(response.function_id(), 3u);
  EXPECT_THAT(response.printed(), ::testing::ElementsAre("text\n", "\xef\xbf\xbd\xef\xbf\xbd"));
  ASSERT_EQ(response.outputs_size(), 4);
  EXPECT_EQ(response.outputs(0).tensor().content(), std::string("\0\0\xc0\x3f", 4));
  EXPECT_EQ(response.outputs(1).kept_tensor_id(), 1000u);
  EXPECT_EQ(response.outputs(2).opaque().dtype(), formwork::tf::DT_VARIANT);
  EXPECT_EQ(response.outputs(3).tensor().content(), std::string(40000, '\7'));
  EXPECT_FALSE(response.has_error());
}

TEST(CallCodec, PutsErrorsIntoTheResponseWhole) {
  CallResult result;
  result.status = WithReason(absl::NotFoundError("no function 'f'"), Reason::kFunctionNotFound);
  result.details.effects = Effects::kNone;
  result.details.culprits = std::vector<std::string>(1000, std::string(100, 'c'));
  grpc::ByteBuffer message;
  ASSERT_TRUE(EncodeCallResponse(result, 99, 5, 1 << 30, &message).ok());
  v1::CallResponse response;
  ASSERT_TRUE(response.ParseFromString(Flatten(message)));
  EXPECT_EQ(response.error().code(), 5);
  EXPECT_EQ(response.error().message(), "no function 'f'");
  ASSERT_EQ(response.error().details_size(), 3);
  rpc::ErrorInfo info;
  EXPECT_EQ(response.error().details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  ASSERT_TRUE(info.ParseFromString(response.error().details(0).value()));
  EXPECT_EQ(info.reason(), "FUNCTION_NOT_FOUND");
  EXPECT_EQ(info.domain(), "formwork");
  rpc::BadRequest culprits;
  ASSERT_TRUE(culprits.ParseFromString(response.error().details(1).value()));
  EXPECT_EQ(culprits.field_violations_size(), 1000);
  v1::CallFailure failure;
  ASSERT_TRUE(failure.ParseFromString(response.error().details(2).value()));
  EXPECT_EQ(failure.effects(), v1::EFFECTS_NONE);
  EXPECT_EQ(failure.epoch(), 99u);
}

TEST(CallCodec, SaysWhatToDoWhereAResponseIsTooLarge) {
  CallResult result;
  result.outputs.resize(1);
  result.outputs[0].tensor = *Tensor::Allocate(ProcessAllocator(), DType::kInt32, {1000});
  grpc::ByteBuffer message;
  const absl::Status status = EncodeCallResponse(result, 99, 5, 4000, &message);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("limit=4000; ask for it in parts"));
}

TEST(CallCodec, ReadsItsHeadBeforeItIsDecoded) {
  v1::CallRequest request = SampleRequest();
  request.set_call_id(300);
  EXPECT_EQ(ReadCallHead(Cut(request.SerializeAsString(), 7)).call_id, 300);
  EXPECT_FALSE(ReadCallHead(Cut(request.SerializeAsString(), 7)).unordered);
  request.set_unordered(true);
  EXPECT_TRUE(ReadCallHead(Cut(request.SerializeAsString(), 7)).unordered);
  EXPECT_FALSE(ReadCallHead(Cut("\xff\xff", 1)).unordered);
}

TEST(VariableCodec, ReadsAssignmentsWhereverTheirValuesAre) {
  v1::AssignVariablesRequest request;
  request.set_namespace_("n");
  request.set_expected_epoch(8);
  auto* first = request.add_assignments();
  first->mutable_variable()->set_id(4);
  *first->mutable_value()->mutable_tensor() = Message(3, {2}, "12345678");
  auto* second = request.add_assignments();
  second->mutable_variable()->set_name("v");
  second->mutable_value()->set_kept_tensor_id(9);
  DecodedAssign assign;
  ASSERT_TRUE(
      DecodeAssignRequest(Cut(request.SerializeAsString(), 3), ProcessAllocator(), &assign).ok());
  EXPECT_EQ(assign.name_space, "n");
  EXPECT_EQ(assign.expected_epoch, 8u);
  ASSERT_EQ(assign.values.size(), 2u);
  EXPECT_EQ(assign.values[0].first.id, 4u);
  EXPECT_EQ(std::memcmp(assign.values[0].second.tensor.raw(), "12345678", 8), 0);
  EXPECT_EQ(assign.values[1].first.name, "v");
  EXPECT_EQ(assign.values[1].second.id, 9u);
  second->clear_value();
  const absl::Status status =
      DecodeAssignRequest(Cut(request.SerializeAsString(), 3), ProcessAllocator(), &assign);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("it holds nothing"));
}

TEST(VariableCodec, SendsARangeOfAValue) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kInt32, {2, 5000});
  for (int i = 0; i < 10000; ++i) tensor.mutable_data<int32_t>()[i] = i;
  v1::ElementRange range;
  range.set_begin(4990);
  range.set_count(20);
  grpc::ByteBuffer message;
  ASSERT_TRUE(EncodeReadTensor(7, tensor, &range, 1 << 20, &message).ok());
  v1::ReadTensorResponse response;
  ASSERT_TRUE(response.ParseFromString(Flatten(message)));
  EXPECT_THAT(response.whole_dims(), ::testing::ElementsAre(2, 5000));
  EXPECT_THAT(response.value().dims(), ::testing::ElementsAre(20));
  EXPECT_EQ(std::memcmp(response.value().content().data(), tensor.data<int32_t>() + 4990, 80), 0);
  range.set_begin(9990);
  EXPECT_EQ(EncodeReadTensor(7, tensor, &range, 1 << 20, &message).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(EncodeReadTensor(7, tensor, nullptr, 1 << 12, &message).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(TensorCodec, WritesContentInPiecesOfAnySize) {
  Tensor strings = *Tensor::Allocate(ProcessAllocator(), DType::kString, {3});
  strings.mutable_data<std::string>()[0] = "one";
  strings.mutable_data<std::string>()[2] = std::string(100, 'x');
  v1::Tensor whole;
  ASSERT_TRUE(whole.ParseFromString(Encode(strings)));
  for (size_t piece : {size_t{1}, size_t{5}, size_t{1000}}) {
    ContentPieces pieces(strings);
    WireWriter writer;
    while (pieces.written() < pieces.total()) pieces.Write(piece, &writer);
    EXPECT_EQ(Flatten(writer.Finish()), whole.content()) << piece;
  }
}

}  // namespace
}  // namespace formwork::server
