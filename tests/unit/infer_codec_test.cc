// The codec of the Open Inference Protocol's messages against protobuf's own.

#include "server/serving/infer_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "formwork/serving/inference_service.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/wire_bytes.h"

namespace formwork::server {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kUnlimited = size_t{1} << 31;

absl::StatusOr<InferRequest> DecodeInfer(const std::string& bytes, size_t piece = 1 << 30) {
  InferRequest request;
  FORMWORK_RETURN_IF_ERROR(DecodeInferRequest(Cut(bytes, piece), ProcessAllocator(), &request));
  return request;
}
absl::StatusOr<InferRequest> DecodeInfer(const ModelInferRequest& request) {
  return DecodeInfer(request.SerializeAsString());
}

ModelInferRequest::InferInputTensor* AddInput(ModelInferRequest& request, const char* name,
                                              const char* datatype, std::vector<int64_t> shape) {
  auto* const input = request.add_inputs();
  input->set_name(name);
  input->set_datatype(datatype);
  for (const int64_t dim : shape) input->add_shape(dim);
  return input;
}

ModelInferRequest RawRequest() {
  ModelInferRequest request;
  request.set_model_name("m");
  request.set_model_version("300");
  request.set_id("one");
  (*request.mutable_parameters())["timeout"].set_int64_param(5000);
  (*request.mutable_parameters())["priority"].set_uint64_param(1);
  AddInput(request, "x", "FP32", {3});
  AddInput(request, "s", "BYTES", {2, 1});
  request.add_outputs()->set_name("y");
  request.add_raw_input_contents(std::string("\0\0\x80?\0\0\0@\0\0@@", 12));
  request.add_raw_input_contents(std::string("\2\0\0\0ab\0\0\0\0", 10));
  return request;
}

// With one input, and one element of it in each field.
ModelInferRequest TypedRequest(const char* datatype, std::vector<int64_t> shape = {1}) {
  ModelInferRequest request;
  request.set_model_name("m");
  AddInput(request, "x", datatype, std::move(shape));
  return request;
}
inference::InferTensorContents& ContentsOf(ModelInferRequest& request) {
  return *request.mutable_inputs(0)->mutable_contents();
}

void ExpectRefused(const ModelInferRequest& request, const char* words,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const absl::Status status = DecodeInfer(request).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

TEST(InferRequestTest, RawContentsAreReadHoweverTheyAreCut) {
  const std::string bytes = RawRequest().SerializeAsString();
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    ASSERT_OK_AND_ASSIGN(const InferRequest request, DecodeInfer(bytes, piece));
    EXPECT_EQ(request.model.name, "m");
    EXPECT_EQ(request.model.version, 300u);
    EXPECT_EQ(request.id, "one");
    EXPECT_EQ(request.timeout, absl::Milliseconds(5));
    EXPECT_THAT(request.names, ElementsAre("x", "s"));
    EXPECT_THAT(request.values[0].span<float>(), ElementsAre(1, 2, 3));
    EXPECT_THAT(request.values[1].span<std::string>(), ElementsAre("ab", ""));
    EXPECT_EQ(request.values[1].shape(), Shape({2, 1}));
    EXPECT_THAT(request.outputs, ElementsAre("y"));
  }
}

template <typename T, typename Wire>
void ExpectContents(const char* datatype, std::vector<T> values,
                    void (inference::InferTensorContents::*add)(Wire)) {
  ModelInferRequest request = TypedRequest(datatype, {static_cast<int64_t>(values.size())});
  for (const T value : values) (ContentsOf(request).*add)(static_cast<Wire>(value));
  absl::StatusOr<InferRequest> read = DecodeInfer(request);
  ASSERT_OK(read.status()) << datatype;
  EXPECT_EQ(read->values[0].span<T>(), absl::MakeConstSpan(values)) << datatype;
}

TEST(InferRequestTest, TypedContents) {
  using C = inference::InferTensorContents;
  const auto ends = []<typename T>(T) {
    return std::vector<T>{std::numeric_limits<T>::lowest(), 0, 7, std::numeric_limits<T>::max()};
  };
  ExpectContents("INT8", ends(int8_t{}), &C::add_int_contents);
  ExpectContents("INT16", ends(int16_t{}), &C::add_int_contents);
  ExpectContents("INT32", ends(int32_t{}), &C::add_int_contents);
  ExpectContents("INT64", ends(int64_t{}), &C::add_int64_contents);
  ExpectContents("UINT8", ends(uint8_t{}), &C::add_uint_contents);
  ExpectContents("UINT16", ends(uint16_t{}), &C::add_uint_contents);
  ExpectContents("UINT32", ends(uint32_t{}), &C::add_uint_contents);
  ExpectContents("UINT64", ends(uint64_t{}), &C::add_uint64_contents);
  ExpectContents("FP32", ends(float{}), &C::add_fp32_contents);
  ExpectContents("FP64", ends(double{}), &C::add_fp64_contents);

  ModelInferRequest bools = TypedRequest("BOOL", {3});
  for (const bool value : {true, false, true}) ContentsOf(bools).add_bool_contents(value);
  ASSERT_OK_AND_ASSIGN(const InferRequest read_bools, DecodeInfer(bools));
  EXPECT_THAT(read_bools.values[0].span<bool>(), ElementsAre(true, false, true));

  ModelInferRequest texts = TypedRequest("BYTES", {2, 1});
  ContentsOf(texts).add_bytes_contents(std::string("\xff\0", 2));
  ContentsOf(texts).add_bytes_contents("");
  ASSERT_OK_AND_ASSIGN(const InferRequest read_texts, DecodeInfer(texts));
  EXPECT_THAT(read_texts.values[0].span<std::string>(), ElementsAre(std::string("\xff\0", 2), ""));

  ASSERT_OK_AND_ASSIGN(const InferRequest nothing, DecodeInfer(TypedRequest("FP32", {0, 2})));
  EXPECT_EQ(nothing.values[0].shape(), Shape({0, 2}));
}

// As messages that protobuf would merge: packed and not, in two contents.
TEST(InferRequestTest, ContentsMayBeInPieces) {
  std::string input = TypedRequest("INT64", {5}).inputs(0).SerializeAsString();
  input += std::string("\x2a\x02\x18\x05", 4);          // contents { int64_contents: 5 }
  input += std::string("\x2a\x04\x1a\x02\x06\x07", 6);  // contents { int64_contents: [6, 7] }
  input += std::string("\x2a\x06\x18\x08\x1a\x02\x09\x00", 8);
  std::string bytes = "\x0a\x01m\x2a";
  bytes += static_cast<char>(input.size());
  bytes += input;
  ModelInferRequest oracle;
  ASSERT_TRUE(oracle.ParseFromString(bytes));
  ASSERT_EQ(oracle.inputs(0).contents().int64_contents_size(), 6);
  EXPECT_THAT(std::string(DecodeInfer(bytes).status().message()), HasSubstr("more elements"));
  oracle.mutable_inputs(0)->set_shape(0, 6);
  for (size_t piece = 1; piece < 12; ++piece) {
    ASSERT_OK_AND_ASSIGN(const InferRequest read, DecodeInfer(oracle.SerializeAsString(), piece));
    EXPECT_THAT(read.values[0].span<int64_t>(), ElementsAre(5, 6, 7, 8, 9, 0));
  }
}

TEST(InferRequestTest, WhatIsWrongIsNamed) {
  ModelInferRequest request = RawRequest();
  request.mutable_inputs(0)->set_shape(0, 4);
  ExpectRefused(request, "model 'm': input 'x'");
  request.mutable_inputs(0)->set_shape(0, -1);
  ExpectRefused(request, "input 'x'");
  request.mutable_inputs(0)->set_shape(0, int64_t{1} << 62);
  ExpectRefused(request, "input 'x'");
  request = RawRequest();
  request.mutable_inputs(1)->set_shape(0, 3);
  ExpectRefused(request, "input 's'");
  request = RawRequest();
  request.mutable_raw_input_contents(1)->at(0) = 9;
  ExpectRefused(request, "input 's'");
  request = RawRequest();
  request.mutable_inputs(0)->set_datatype("FLOAT");
  ExpectRefused(request, "no datatype 'FLOAT'");
  request = RawRequest();
  request.mutable_raw_input_contents()->RemoveLast();
  ExpectRefused(request, "contents=1 inputs=2");
  request = RawRequest();
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  ExpectRefused(request, "has contents");
  request = RawRequest();
  request.set_model_version("stable");
  ExpectRefused(request, "version 'stable'", absl::StatusCode::kNotFound);
  request = RawRequest();
  request.set_id(std::string(100000, 'a'));
  ExpectRefused(request, "id is too long");
}

TEST(InferRequestTest, ContentsAreHeldToShapeAndDatatype) {
  ModelInferRequest request = TypedRequest("INT8");
  ExpectRefused(request, "too short");
  ContentsOf(request).add_int_contents(128);
  ExpectRefused(request, "beyond the range of int8");
  ContentsOf(request).set_int_contents(0, -128);
  EXPECT_OK(DecodeInfer(request).status());
  ContentsOf(request).add_int_contents(1);
  ExpectRefused(request, "more elements");
  request.mutable_inputs(0)->set_shape(0, 3);
  ExpectRefused(request, "fewer elements");
  request.mutable_inputs(0)->set_shape(0, int64_t{1} << 40);
  ExpectRefused(request, "too short");
  request.mutable_inputs(0)->set_shape(0, 2);
  ContentsOf(request).add_fp32_contents(1);
  ExpectRefused(request, "in a field that is not of int8");
  request = TypedRequest("FP16");
  ContentsOf(request).add_fp32_contents(1);
  ExpectRefused(request, "raw_input_contents");
}

TEST(InferRequestTest, ParametersThatWouldBeMissedAreRefused) {
  const auto with = [](const char* name, const inference::InferParameter& value) {
    ModelInferRequest request = RawRequest();
    (*request.mutable_parameters())[name] = value;
    return request;
  };
  inference::InferParameter value;
  value.set_int64_param(7);
  constexpr auto kUnanswered = absl::StatusCode::kUnimplemented;
  ExpectRefused(with("sequence_id", value), "'sequence_id'", kUnanswered);
  EXPECT_OK(DecodeInfer(with("anything", value)).status());
  value.set_int64_param(0);
  EXPECT_OK(DecodeInfer(with("sequence_id", value)).status());
  ExpectRefused(with("sequence_id",
                     [] {
                       inference::InferParameter text;
                       text.set_string_param("a");
                       return text;
                     }()),
                "'sequence_id'", kUnanswered);
  value.set_string_param("soon");
  ExpectRefused(with("timeout", value), "'timeout'");
  value.set_uint64_param(std::numeric_limits<uint64_t>::max());
  ExpectRefused(with("timeout", value), "'timeout'");
  ModelInferRequest request = RawRequest();
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(3);
  ExpectRefused(request, "output 'y': parameter 'classification'", kUnanswered);
  request = RawRequest();
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  ExpectRefused(request, "input 'x': parameter 'shared_memory_region'", kUnanswered);
}

TEST(InferRequestTest, EditedBytesAreReadAsProtobufReadsThem) {
  const google::protobuf::LogSilencer quiet;
  std::mt19937 random(7);
  ModelInferRequest typed = TypedRequest("INT64", {2});
  ContentsOf(typed).add_int64_contents(300);
  ContentsOf(typed).add_int64_contents(-1);
  int accepted = 0;
  for (const std::string& base : {RawRequest().SerializeAsString(), typed.SerializeAsString()}) {
    for (int round = 0; round < 50000; ++round) {
      const std::string bytes = Edited(base, random);
      ModelInferRequest oracle;
      const bool valid = oracle.ParseFromString(bytes);
      const absl::StatusOr<InferRequest> request = DecodeInfer(bytes, 1 + random() % 8);
      if (!request.ok()) {
        if (absl::StrContains(request.status().message(), "malformed")) {
          ASSERT_FALSE(valid) << absl::CHexEscape(bytes);
        }
        continue;
      }
      ++accepted;
      ASSERT_TRUE(valid) << absl::CHexEscape(bytes);
      ASSERT_EQ(request->model.name, oracle.model_name());
      ASSERT_EQ(request->id, oracle.id());
      ASSERT_EQ(request->outputs.size(), static_cast<size_t>(oracle.outputs_size()));
      ASSERT_EQ(request->names.size(), static_cast<size_t>(oracle.inputs_size()));
      for (int i = 0; i < oracle.inputs_size(); ++i) {
        const Tensor& value = request->values[static_cast<size_t>(i)];
        ASSERT_EQ(value.rank(), oracle.inputs(i).shape_size());
        if (oracle.raw_input_contents_size() > 0 || value.dtype() != DType::kInt64) continue;
        const auto& elements = oracle.inputs(i).contents().int64_contents();
        ASSERT_TRUE(std::equal(elements.begin(), elements.end(), value.span<int64_t>().begin(),
                               value.span<int64_t>().end()));
      }
    }
  }
  EXPECT_GT(accepted, 2000);
}

Prediction PredictionOfOne(const Tensor& tensor) {
  Prediction prediction;
  prediction.model.name = "m";
  prediction.model.version = 7;
  prediction.request_id = "one";
  prediction.names = {"y"};
  prediction.values = {tensor};
  return prediction;
}

void ExpectWritten(const Tensor& tensor, const char* datatype, const std::string& raw) {
  grpc::ByteBuffer message;
  ASSERT_OK(EncodeInferResponse(PredictionOfOne(tensor), kUnlimited, &message));
  ModelInferResponse response;
  ASSERT_TRUE(response.ParseFromString(Flatten(message)));
  EXPECT_EQ(response.model_name(), "m");
  EXPECT_EQ(response.model_version(), "7");
  EXPECT_EQ(response.id(), "one");
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.outputs(0).name(), "y");
  EXPECT_EQ(response.outputs(0).datatype(), datatype);
  const auto& shape = response.outputs(0).shape();
  EXPECT_EQ(Shape::Trusted(Dims(shape.begin(), shape.end())), tensor.shape());
  ASSERT_EQ(response.raw_output_contents_size(), 1);
  EXPECT_EQ(response.raw_output_contents(0), raw);
  EXPECT_EQ(response.SerializeAsString().size(), message.Length());

  ASSERT_OK(EncodeStreamInferResponse(PredictionOfOne(tensor), kUnlimited, &message));
  ModelStreamInferResponse streamed;
  ASSERT_TRUE(streamed.ParseFromString(Flatten(message)));
  EXPECT_EQ(streamed.error_message(), "");
  EXPECT_TRUE(streamed.infer_response().parameters().at("triton_final_response").bool_param());
  EXPECT_EQ(streamed.infer_response().raw_output_contents(0), raw);
  EXPECT_EQ(streamed.SerializeAsString().size(), message.Length());
}

TEST(InferResponseTest, ProtobufReadsWhatIsWritten) {
  const std::pair<DType, const char*> kAll[] = {
      {DType::kUint8, "UINT8"},   {DType::kUint16, "UINT16"}, {DType::kUint32, "UINT32"},
      {DType::kUint64, "UINT64"}, {DType::kInt8, "INT8"},     {DType::kInt16, "INT16"},
      {DType::kInt32, "INT32"},   {DType::kInt64, "INT64"},   {DType::kHalf, "FP16"},
      {DType::kBfloat16, "BF16"}, {DType::kFloat, "FP32"},    {DType::kDouble, "FP64"},
      {DType::kBool, "BOOL"}};
  std::mt19937 random(3);
  for (const auto& [dtype, datatype] : kAll) {
    for (const Shape& shape : {Shape(), Shape({3}), Shape({2, 0}), Shape({50, 401})}) {
      ASSERT_OK_AND_ASSIGN(Tensor tensor, Tensor::Allocate(ProcessAllocator(), dtype, shape));
      char* const bytes = static_cast<char*>(tensor.mutable_raw());
      for (size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = static_cast<char>(random() & 1);
      SCOPED_TRACE(std::string(datatype) + shape.ToString());
      ExpectWritten(tensor, datatype, std::string(bytes, tensor.bytes()));
    }
  }
  ASSERT_OK_AND_ASSIGN(Tensor texts,
                       Tensor::Allocate(ProcessAllocator(), DType::kString, Shape({3})));
  texts.mutable_span<std::string>()[1] = std::string("\xff\0", 2);
  texts.mutable_span<std::string>()[2] = std::string(300, 'x');
  ExpectWritten(texts, "BYTES",
                std::string("\0\0\0\0\2\0\0\0\xff\0\x2c\1\0\0", 14) + std::string(300, 'x'));
}

TEST(InferResponseTest, WhatCannotBeSent) {
  ASSERT_OK_AND_ASSIGN(Tensor tensor,
                       Tensor::Allocate(ProcessAllocator(), DType::kComplex64, Shape({2})));
  grpc::ByteBuffer message;
  absl::Status status = EncodeInferResponse(PredictionOfOne(tensor), kUnlimited, &message);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("output 'y'"));
  ASSERT_OK_AND_ASSIGN(Tensor large,
                       Tensor::Allocate(ProcessAllocator(), DType::kUint8, Shape({1000})));
  status = EncodeInferResponse(PredictionOfOne(large), 100, &message);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);

  ModelStreamInferResponse failed;
  ASSERT_TRUE(failed.ParseFromString(
      Flatten(EncodeStreamInferError("one", absl::InvalidArgumentError("bad \xff")))));
  EXPECT_THAT(failed.error_message(), HasSubstr("bad "));
  EXPECT_LT(EncodeStreamInferError("", absl::InternalError(std::string(100000, 'a'))).Length(),
            5000u);
  EXPECT_EQ(failed.infer_response().id(), "one");
}

}  // namespace
}  // namespace formwork::server
