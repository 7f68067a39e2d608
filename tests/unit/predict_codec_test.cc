// The codec of TensorFlow Serving's messages against protobuf's own.

#include "server/serving/predict_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/graph/decode.h"
#include "formwork/serving/prediction_service.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/wire_bytes.h"

namespace formwork::server {
namespace {

using tensorflow::serving::PredictRequest;
using tensorflow::serving::PredictResponse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kNoLimit = size_t{1} << 31;

absl::StatusOr<DecodedPredict> DecodePredict(const std::string& bytes, size_t piece = 1 << 30) {
  DecodedPredict predict;
  FORMWORK_RETURN_IF_ERROR(DecodePredictRequest(Cut(bytes, piece), ProcessAllocator(), &predict));
  return predict;
}

PredictRequest Request() {
  PredictRequest request;
  request.mutable_model_spec()->set_name("m");
  request.mutable_model_spec()->set_signature_name("s");
  request.mutable_model_spec()->mutable_version()->set_value(300);
  tf::TensorProto& x = (*request.mutable_inputs())["x"];
  x.set_dtype(tf::DT_FLOAT);
  x.mutable_tensor_shape()->add_dim()->set_size(3);
  x.set_tensor_content(std::string("\0\0\x80?\0\0\0@\0\0@@", 12));
  request.add_output_filter("y");
  return request;
}

TEST(PredictRequestTest, IsReadHoweverItIsCut) {
  const std::string bytes = Request().SerializeAsString();
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    ASSERT_OK_AND_ASSIGN(const DecodedPredict predict, DecodePredict(bytes, piece));
    EXPECT_EQ(predict.model.name, "m");
    EXPECT_EQ(predict.model.signature, "s");
    EXPECT_EQ(predict.model.version, 300u);
    EXPECT_THAT(predict.names, ElementsAre("x"));
    EXPECT_THAT(predict.values[0].span<float>(), ElementsAre(1, 2, 3));
    EXPECT_THAT(predict.output_filter, ElementsAre("y"));
  }
}

TEST(PredictRequestTest, ElementsMayBeInTheFieldsOfTheirDtypes) {
  PredictRequest request;
  tf::TensorProto& x = (*request.mutable_inputs())["x"];
  x.set_dtype(tf::DT_INT64);
  x.mutable_tensor_shape()->add_dim()->set_size(3);
  x.add_int64_val(-5);
  x.add_int64_val(7);  // The last one stands for those that are not there.
  ASSERT_OK_AND_ASSIGN(const DecodedPredict predict, DecodePredict(request.SerializeAsString()));
  EXPECT_THAT(predict.values[0].span<int64_t>(), ElementsAre(-5, 7, 7));
}

TEST(PredictRequestTest, WhatIsWrongIsNamed) {
  PredictRequest request = Request();
  (*request.mutable_inputs())["x"].mutable_tensor_shape()->mutable_dim(0)->set_size(-1);
  EXPECT_THAT(std::string(DecodePredict(request.SerializeAsString()).status().message()),
              HasSubstr("input 'x'"));
  (*request.mutable_inputs())["x"].mutable_tensor_shape()->mutable_dim(0)->set_size(4);
  EXPECT_THAT(std::string(DecodePredict(request.SerializeAsString()).status().message()),
              HasSubstr("input 'x'"));
  request = Request();
  request.mutable_model_spec()->set_version_label("stable");
  EXPECT_EQ(DecodePredict(request.SerializeAsString()).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(PredictRequestTest, EditedBytesAreReadAsProtobufReadsThem) {
  const google::protobuf::LogSilencer quiet;
  std::mt19937 random(7);
  const std::string base = Request().SerializeAsString();
  int accepted = 0;
  for (int round = 0; round < 50000; ++round) {
    const std::string bytes = Edited(base, random);
    PredictRequest oracle;
    const bool valid = oracle.ParseFromString(bytes);
    const absl::StatusOr<DecodedPredict> predict = DecodePredict(bytes, 1 + random() % 8);
    if (!predict.ok()) {
      if (absl::StrContains(predict.status().message(), "malformed")) {
        ASSERT_FALSE(valid) << absl::CHexEscape(bytes);
      }
      continue;
    }
    ++accepted;
    ASSERT_TRUE(valid) << absl::CHexEscape(bytes);
    ASSERT_EQ(predict->model.name, oracle.model_spec().name());
    ASSERT_EQ(predict->model.signature, oracle.model_spec().signature_name());
    ASSERT_EQ(predict->output_filter.size(), static_cast<size_t>(oracle.output_filter_size()));
    for (const std::string& name : predict->names) ASSERT_TRUE(oracle.inputs().contains(name));
  }
  EXPECT_GT(accepted, 1000);
}

// What protobuf reads of the answer, as the importer understands it.
void ExpectReadBack(const Tensor& tensor) {
  ModelSpec model;
  model.name = "m";
  model.version = 7;
  grpc::ByteBuffer message;
  ASSERT_OK(EncodePredictResponse({model, {"y"}, {tensor}, ""}, kNoLimit, &message));
  PredictResponse response;
  ASSERT_TRUE(response.ParseFromString(Flatten(message)));
  EXPECT_EQ(response.model_spec().name(), "m");
  EXPECT_EQ(response.model_spec().version().value(), 7);
  EXPECT_EQ(response.SerializeAsString().size(), message.Length());
  ASSERT_OK_AND_ASSIGN(const Tensor read,
                       DecodeTensor(response.outputs().at("y"), ProcessAllocator()));
  ASSERT_EQ(read.dtype(), tensor.dtype());
  ASSERT_EQ(read.shape(), tensor.shape());
  if (tensor.dtype() == DType::kString) {
    EXPECT_EQ(read.span<std::string>(), tensor.span<std::string>());
  } else if (tensor.bytes() > 0) {
    EXPECT_EQ(memcmp(read.raw(), tensor.raw(), tensor.bytes()), 0);
  }
}

TEST(PredictResponseTest, ProtobufReadsWhatIsWritten) {
  std::mt19937 random(3);
  for (const DType dtype :
       {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16, DType::kInt8, DType::kInt16,
        DType::kInt32, DType::kInt64, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64,
        DType::kComplex64, DType::kComplex128, DType::kQint8}) {
    for (const Shape& shape : {Shape(), Shape({3}), Shape({2, 0}), Shape({50, 41})}) {
      ASSERT_OK_AND_ASSIGN(Tensor tensor, Tensor::Allocate(ProcessAllocator(), dtype, shape));
      char* const bytes = static_cast<char*>(tensor.mutable_raw());
      for (size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = static_cast<char>(random());
      SCOPED_TRACE(std::string(DTypeName(dtype)) + shape.ToString());
      ExpectReadBack(tensor);
    }
  }
}

TEST(PredictResponseTest, StringsAndBools) {
  ASSERT_OK_AND_ASSIGN(Tensor texts,
                       Tensor::Allocate(ProcessAllocator(), DType::kString, Shape({2, 2})));
  texts.mutable_span<std::string>()[1] = std::string("\xff\0", 2);
  texts.mutable_span<std::string>()[3] = std::string(300, 'x');
  ExpectReadBack(texts);
  ASSERT_OK_AND_ASSIGN(Tensor bools,
                       Tensor::Allocate(ProcessAllocator(), DType::kBool, Shape({3})));
  for (size_t i = 0; i < 3; ++i) bools.mutable_span<bool>()[i] = i != 1;
  ExpectReadBack(bools);
}

TEST(PredictResponseTest, IsHeldToTheLimit) {
  ASSERT_OK_AND_ASSIGN(Tensor tensor,
                       Tensor::Allocate(ProcessAllocator(), DType::kUint8, Shape({1000})));
  grpc::ByteBuffer message;
  const absl::Status status = EncodePredictResponse({{}, {"y"}, {tensor}, ""}, 100, &message);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("output_filter"));
}

}  // namespace
}  // namespace formwork::server
