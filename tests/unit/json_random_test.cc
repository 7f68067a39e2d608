// Any JSON, and what is nearly some, against another library: what is read is the same there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "server/serving/json_tensors.h"
#include "tests/unit/json_cases.h"

namespace formwork::server {
namespace {

// Any JSON, often nearly a request, with something damaged: what is read is what nlohmann's library
// reads; what is no JSON is refused.
class JsonSamples {
 public:
  explicit JsonSamples(uint64_t seed) : random_(seed) {}
  uint64_t Upto(uint64_t n) { return random_() % n; }

  std::string Value(int depth) {
    static constexpr const char* kScalars[] = {
        "0",     "-0",          "1",           "-12",
        "3.25",  "1e2",         "1E-3",        "12345678901234567890",
        "\"a\"", "\"],[\\\"\"", "\"\\u00e9\"", "true",
        "false", "null",        "NaN",         "{\"b64\":\"aGk=\"}",
        "01",    "\"\\ud800\""};
    if (depth == 0 || Upto(4) == 0) return kScalars[Upto(Upto(4) == 0 ? 18 : 5)];
    const uint64_t size = Upto(4);
    std::string text;
    const bool list = Upto(3) != 0;
    const std::string same = Value(depth - 1);
    for (uint64_t i = 0; i < size; ++i) {
      if (i > 0) text += Upto(5) == 0 ? " ,\n" : ",";
      if (!list) text += i == 0 && Upto(2) == 0 ? "\"x\":" : absl::StrCat("\"k", i, "\":");
      text += Upto(3) == 0 ? Value(depth - 1) : same;
    }
    return list ? "[" + text + "]" : "{" + text + "}";
  }

  std::string Body() {
    std::string body = absl::StrCat("{", Upto(4) == 0 ? "\"a\":" + Value(3) + "," : "",
                                    Upto(2) == 0 ? "\"instances\":" : "\"inputs\":", Value(4), "}");
    for (uint64_t damages = Upto(3) == 0 ? Upto(3) : 0; damages > 0; --damages) {
      const size_t at = Upto(body.size());
      if (Upto(2) == 0) body.erase(at, 1 + Upto(2));
      body.insert(std::min(at, body.size()), 1, "[]{},:\"\\01-.e \xff"[Upto(15)]);
    }
    return body;
  }

 private:
  std::mt19937_64 random_;
};

// The numbers of nested lists, in order; false where one is no number.
bool Flatten(const nlohmann::json& value, std::vector<double>* numbers) {
  if (value.is_number()) return numbers->push_back(value.get<double>()), true;
  if (value.is_object() && value.size() == 1 && value.contains("x"))
    return Flatten(value["x"], numbers);
  if (!value.is_array()) return false;
  for (const nlohmann::json& element : value) {
    if (!Flatten(element, numbers)) return false;
  }
  return true;
}

TEST(JsonInputsTest, WhateverIsSentIsReadOrRefused) {
  JsonSamples samples(3);
  int read = 0, refused = 0;
  for (int i = 0; i < 15000; ++i) {
    const std::string body = samples.Body();
    for (DType dtype : {DType::kDouble, DType::kInt16, DType::kString, DType::kBool}) {
      const auto tensors = Read(body, {Spec("x", dtype, PartialShape::Trusted({-1, 3}))});
      if (!tensors.ok()) {
        ASSERT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument) << body;
        ++refused;
        continue;
      }
      ++read;
      if (body.find("NaN") != body.npos) continue;
      const nlohmann::json parsed = nlohmann::json::parse(body, nullptr, false);
      ASSERT_FALSE(parsed.is_discarded()) << body;
      if (dtype != DType::kDouble) continue;
      std::vector<double> numbers;
      const bool rows = parsed.contains("instances");
      ASSERT_TRUE(Flatten(parsed[rows ? "instances" : "inputs"], &numbers)) << body;
      EXPECT_THAT((*tensors)[0].span<double>(), testing::ElementsAreArray(numbers)) << body;
    }
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace formwork::server
