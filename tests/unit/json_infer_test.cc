// JSON of the Open Inference Protocol: what is read, and what is written.

#include "server/serving/json_infer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/json_cases.h"

namespace formwork::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// All inputs; none of them is binary.
absl::StatusOr<std::vector<Tensor>> ReadInfer(absl::string_view body, JsonInfer* infer = nullptr) {
  // Without a byte behind it, so that AddressSanitizer sees what is read beyond.
  const std::vector<char> exact(body.begin(), body.end());
  FORMWORK_ASSIGN_OR_RETURN(JsonInfer read, ReadJsonInfer({exact.data(), exact.size()}));
  std::vector<Tensor> tensors;
  for (const JsonInferInput& input : read.inputs) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, ReadJsonInferInput(input, ProcessAllocator()));
    tensors.push_back(std::move(tensor));
  }
  if (infer != nullptr) *infer = std::move(read);
  return tensors;
}

// The body of one input "x".
std::string InputBody(absl::string_view datatype, absl::string_view shape, absl::string_view data) {
  return absl::StrCat("{\"inputs\": [{\"data\": ", data, ", \"name\": \"x\", \"shape\": ", shape,
                      ", \"datatype\": \"", datatype, "\"}]}");
}

Tensor InputOf(absl::string_view datatype, absl::string_view shape, absl::string_view data) {
  absl::StatusOr<std::vector<Tensor>> read = ReadInfer(InputBody(datatype, shape, data));
  EXPECT_OK(read.status());
  return read.ok() ? (*read)[0] : Tensor();
}

void ExpectRefused(absl::string_view body, const char* words,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const absl::Status status = ReadInfer(body).status();
  EXPECT_EQ(status.code(), code) << body << ": " << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words)) << body;
}

TEST(JsonInferTest, ARequestIsRead) {
  JsonInfer infer;
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> tensors,
                       ReadInfer(R"({"id": "\u00e4", "others": {"inputs": [{"name": 3}]},
                    "parameters": {"timeout": 7, "binary_data_output": true, "own": null},
                    "inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32",
                                "parameters": {"own": "text"}, "data": [1, 2, 3, 4]},
                               {"datatype": "BYTES", "data": [["a"], [""]], "shape": [2, 1],
                                "name": "s", "others": [{"data": [1]}, 2]}],
                    "outputs": [{"name": "y", "parameters": {"binary_data": false}},
                                {"name": "z", "shape": "any"}, {"name": "a"}]})",
                                 &infer));
  EXPECT_EQ(infer.request.id, "ä");
  EXPECT_EQ(infer.request.timeout, absl::Microseconds(7));
  EXPECT_THAT(infer.request.outputs, ElementsAre("y", "z", "a"));
  EXPECT_FALSE(infer.forms.IsBinary(0));
  EXPECT_TRUE(infer.forms.IsBinary(1));
  EXPECT_TRUE(infer.forms.AnyBinary(3));
  EXPECT_EQ(infer.inputs[1].name, "s");
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_THAT(tensors[0].span<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(tensors[0].shape(), Shape({2, 2}));
  EXPECT_THAT(tensors[1].span<std::string>(), ElementsAre("a", ""));
  EXPECT_EQ(tensors[1].shape(), Shape({2, 1}));
}

TEST(JsonInferTest, ElementsMayBeInOneListOrInTheirShape) {
  EXPECT_EQ(InputOf("INT32", "[]", "[5]").rank(), 0);
  EXPECT_THAT(InputOf("INT32", "[1,2,1]", "[5,6]").span<int32_t>(), ElementsAre(5, 6));
  EXPECT_THAT(InputOf("INT32", "[1,2,1]", "[[[5],[6]]]").span<int32_t>(), ElementsAre(5, 6));
  EXPECT_EQ(InputOf("FP16", "[2,0]", "[]").shape(), Shape({2, 0}));
  EXPECT_EQ(InputOf("FP16", "[2,0]", "[[],[]]").shape(), Shape({2, 0}));
  EXPECT_EQ(InputOf("BYTES", "[0]", "[]").shape(), Shape({0}));
  EXPECT_THAT(InputOf("BOOL", "[2]", "[true, false]").span<bool>(), ElementsAre(true, false));
  EXPECT_THAT(InputOf("UINT64", "[1]", "[18446744073709551615]").span<uint64_t>(),
              ElementsAre(std::numeric_limits<uint64_t>::max()));
  EXPECT_TRUE(std::isnan(InputOf("FP64", "[1]", "[NaN]").span<double>()[0]));
}

TEST(JsonInferTest, WhatIsWrongIsNamed) {
  ExpectRefused("", "JSON");
  ExpectRefused("[]", "an object is expected");
  ExpectRefused("1", "an object is expected");
  ExpectRefused(R"({"id": 1})", "\"id\": a string");
  ExpectRefused(R"({"id": {}})", "\"id\": a string");
  ExpectRefused(absl::StrCat("{\"id\": \"", std::string(100000, 'a'), "\"}"), "id is too long");
  ExpectRefused(R"({"inputs": 1})", "\"inputs\": a list");
  ExpectRefused(R"({"inputs": {}})", "\"inputs\": a list");
  ExpectRefused(R"({"inputs": [1]})", "an object is expected");
  ExpectRefused(R"({"inputs": [[]]})", "an object is expected");
  ExpectRefused(R"({"outputs": "y"})", "\"outputs\": a list");
  ExpectRefused(R"({"outputs": [{"name": 1}]})", "\"name\": a string");
  ExpectRefused(R"({"outputs": [{"name": "y", "parameters": []}]})", "output 'y': \"parameters\"");
  ExpectRefused(R"({"parameters": []})", "\"parameters\": an object");
  ExpectRefused(R"({"parameters": 1})", "\"parameters\": an object");
  ExpectRefused(R"({"parameters": {"a": {}}})", "a parameter");
  ExpectRefused(R"({"inputs": [{"name": "x", "data": {}}]})", "input 'x': \"data\": a list");
  ExpectRefused(R"({"inputs": [{"name": "x", "data": 1}]})", "input 'x': \"data\": a list");
  ExpectRefused(R"({"inputs": [{"name": []}]})", "\"name\": a string");
  ExpectRefused(R"({"inputs": [{"datatype": 5}]})", "\"datatype\": a string");
  ExpectRefused(R"({"inputs": [{"name": "x", "name": "x"}]})", "\"name\" is there twice");
  ExpectRefused(R"({"id": "a", "id": "b"})", "\"id\" is there twice");
  ExpectRefused(R"({"inputs": [{"name": "x", "shape": [1]}]})", "are missing");
  ExpectRefused(R"({"inputs": [{"name": "x", "data": [1]}]})", "\"shape\" is missing");
  ExpectRefused(R"({"inputs": [{"name": "x", "shape": [1], "data": [1],
                                "parameters": {"binary_data_size": 4}}]})",
                "are both there");
  ExpectRefused(R"({"inputs": [{"parameters": {"binary_data_size": -1}}]})", "binary_data_size");
  ExpectRefused(R"({"inputs": [{"parameters": {"binary_data_size": "4"}}]})", "binary_data_size");
  ExpectRefused(R"({"parameters": {"binary_data_output": 1}})", "binary_data_output");
  ExpectRefused(R"({"outputs": [{"parameters": {"binary_data": "yes"}}]})", "binary_data");
  ExpectRefused("{\"others\": \"\xff\"}", "UTF-8");
  for (const char* shape :
       {"[-1]", "[1.5]", "[\"1\"]", "[[1]]", "3", "{}", "[9223372036854775808]"}) {
    ExpectRefused(InputBody("FP32", shape, "[1]"), "\"shape\"");
  }
  ExpectRefused(InputBody("FP32", "[4611686018427387904, 4]", "[1]"), "input 'x'");
  ExpectRefused(InputBody("FLOAT", "[1]", "[1]"), "input 'x': there is no datatype");
  ExpectRefused(InputBody("FP32", "[2]", "[1]"), "another shape");
  ExpectRefused(InputBody("FP32", "[2,2]", "[[1,2,3,4]]"), "another shape");
  ExpectRefused(InputBody("FP32", "[2,2]", "[[1,2],[3]]"), "input 'x': at [1]");
  ExpectRefused(InputBody("INT8", "[1]", "[128]"), "beyond the range of int8");
  ExpectRefused(InputBody("FP32", "[1]", "[\"1\"]"), "a number is expected");
  ExpectRefused(InputBody("FP32", "[1]", "[null]"), "a number is expected");
  ExpectRefused(InputBody("BYTES", "[1]", "[{\"b64\": \"AA==\"}]"), "not an object");
  const std::string deep(1000, '[');
  ExpectRefused(absl::StrCat("{\"inputs\": [{\"data\": ", deep), "nested too deep");
}

TEST(JsonInferTest, ParametersThatWouldBeMissedAreRefused) {
  constexpr auto kUnanswered = absl::StatusCode::kUnimplemented;
  ExpectRefused(R"({"parameters": {"sequence_id": 3}})", "'sequence_id'", kUnanswered);
  ExpectRefused(R"({"outputs": [{"name": "y", "parameters": {"classification": 2}}]})",
                "output 'y': parameter 'classification'", kUnanswered);
  ExpectRefused(R"({"inputs": [{"name": "x", "parameters": {"shared_memory_region": "r"}}]})",
                "input 'x': parameter 'shared_memory_region'", kUnanswered);
  ExpectRefused(R"({"parameters": {"timeout": 1.5}})", "'timeout'");
  EXPECT_OK(ReadInfer(R"({"parameters": {"sequence_id": 0, "priority": 3}})").status());
}

Prediction Predicted(std::vector<std::string> names, std::vector<Tensor> values) {
  Prediction prediction;
  prediction.model.name = "m";
  prediction.model.version = 7;
  prediction.names = std::move(names);
  prediction.values = std::move(values);
  return prediction;
}

TEST(JsonInferTest, AnAnswerIsWritten) {
  Prediction prediction = Predicted(
      {"y", "s", "b"}, {Of<float>(Shape({2, 1}), {1, 2.5f}), Of<std::string>(Shape({1}), {"a\"ä"}),
                        Of<bool>(Shape(), {true})});
  size_t json = 0;
  ASSERT_OK_AND_ASSIGN(const std::string body, WriteJsonInfer(prediction, {}, &json));
  EXPECT_EQ(body, R"({"model_name":"m","model_version":"7","outputs":[)"
                  R"({"name":"y","datatype":"FP32","shape":[2,1],"data":[1.0,2.5]},)"
                  R"({"name":"s","datatype":"BYTES","shape":[1],"data":["a\"ä"]},)"
                  R"({"name":"b","datatype":"BOOL","shape":[],"data":[true]}]})");
  EXPECT_EQ(json, body.size());

  prediction.request_id = "one";
  JsonInferForms forms;
  forms.outputs = {std::nullopt, true, false};
  forms.others = true;
  ASSERT_OK_AND_ASSIGN(const std::string mixed, WriteJsonInfer(prediction, forms, &json));
  EXPECT_EQ(mixed.substr(0, json),
            R"({"model_name":"m","model_version":"7","id":"one","outputs":[)"
            R"({"name":"y","datatype":"FP32","shape":[2,1],"parameters":{"binary_data_size":8}},)"
            R"({"name":"s","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":8}},)"
            R"({"name":"b","datatype":"BOOL","shape":[],"data":[true]}]})");
  EXPECT_EQ(mixed.substr(json), std::string("\0\0\x80?\0\0 @\4\0\0\0a\"\xc3\xa4", 16));
}

TEST(JsonInferTest, WhatCannotBeWritten) {
  size_t json = 0;
  const Prediction bytes = Predicted({"s"}, {Of<std::string>(Shape({1}), {"\xff"})});
  EXPECT_THAT(std::string(WriteJsonInfer(bytes, {}, &json).status().message()),
              HasSubstr("binary_data"));
  JsonInferForms binary;
  binary.others = true;
  EXPECT_OK(WriteJsonInfer(bytes, binary, &json).status());
  ASSERT_OK_AND_ASSIGN(Tensor tensor,
                       Tensor::Allocate(ProcessAllocator(), DType::kComplex64, Shape({1})));
  EXPECT_THAT(
      std::string(WriteJsonInfer(Predicted({"z"}, {tensor}), binary, &json).status().message()),
      HasSubstr("output 'z'"));
}

}  // namespace
}  // namespace formwork::server
