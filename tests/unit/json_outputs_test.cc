// What answers in JSON look like, and that they are read as what was written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "server/serving/json_tensors.h"
#include "tests/unit/json_cases.h"

namespace formwork::server {
namespace {

using ::testing::HasSubstr;

std::string Written(bool rows, std::vector<std::string> names, std::vector<Tensor> outputs) {
  const absl::StatusOr<std::string> text = WriteJsonOutputs(rows, names, outputs);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}
template <typename T>
std::string WrittenElement(T value, const std::string& name = "y") {
  const std::string text = Written(false, {name}, {Of<T>({}, {value})});
  EXPECT_EQ(text.substr(0, 11), "{\"outputs\":");
  return text.substr(11, text.size() - 12);
}

TEST(JsonOutputsTest, AreRowsOrColumns) {
  const Tensor matrix = Of<float>({2, 2}, {1, 2.5, -3, 1e10f});
  const Tensor names = Of<std::string>({2}, {"a", "b"});
  EXPECT_EQ(Written(true, {"y"}, {matrix}), R"({"predictions":[[1.0,2.5],[-3.0,1e+10]]})");
  EXPECT_EQ(Written(false, {"y"}, {matrix}), R"({"outputs":[[1.0,2.5],[-3.0,1e+10]]})");
  EXPECT_EQ(Written(true, {"y", "n"}, {matrix, names}),
            R"({"predictions":[{"y":[1.0,2.5],"n":"a"},{"y":[-3.0,1e+10],"n":"b"}]})");
  EXPECT_EQ(Written(false, {"y", "n\n"}, {matrix, names}),
            R"({"outputs":{"y":[[1.0,2.5],[-3.0,1e+10]],"n\n":["a","b"]}})");
  EXPECT_EQ(Written(true, {"y"}, {Of<int32_t>({0, 3}, {})}), R"({"predictions":[]})");
  EXPECT_EQ(Written(false, {"y"}, {Of<int32_t>({2, 0}, {})}), R"({"outputs":[[],[]]})");
  EXPECT_EQ(Written(false, {"y"}, {Of<bool>({2}, {true, false})}), R"({"outputs":[true,false]})");
  const std::vector<std::string> two = {"y", "n"};
  EXPECT_THAT(
      std::string(
          WriteJsonOutputs(true, two, {matrix, Of<int8_t>({3}, {1, 2, 3})}).status().message()),
      HasSubstr("output 'y' has 2, output 'n' has 3"));
  EXPECT_THAT(std::string(WriteJsonOutputs(true, {"y"}, {Of<float>({}, {1})}).status().message()),
              HasSubstr("output 'y' is a scalar"));
  EXPECT_EQ(WriteJsonOutputs(false, {"y"}, {Tensor::Scalar(std::complex<float>())}).status(),
            absl::UnimplementedError("output 'y': JSON has no form for dtype complex64"));
}

TEST(JsonOutputsTest, StringsAreTextOrBytes) {
  EXPECT_EQ(WrittenElement<std::string>(std::string("a\"\\/\b\f\n\r\t\0\x1f\x7f\u00e9", 14)),
            "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001F\x7f\u00e9\"");
  EXPECT_EQ(WrittenElement<std::string>("a\xff"), R"({"b64":"Yf8="})");
  EXPECT_EQ(WrittenElement<std::string>("a", "image_bytes"), R"({"b64":"YQ=="})");
  EXPECT_EQ(WrittenElement<std::string>(""), "\"\"");
}

TEST(JsonOutputsTest, NumbersAreShortAndExact) {
  EXPECT_EQ(WrittenElement(0.1f), "0.1");
  EXPECT_EQ(WrittenElement(0.1), "0.1");
  EXPECT_EQ(WrittenElement(-0.0f), "-0.0");
  EXPECT_EQ(WrittenElement(16777216.0f), "16777216.0");
  EXPECT_EQ(WrittenElement(1e-7), "1e-07");
  EXPECT_EQ(WrittenElement(std::nan("")), "NaN");
  EXPECT_EQ(WrittenElement(std::numeric_limits<float>::infinity()), "Infinity");
  EXPECT_EQ(WrittenElement(half(-std::numeric_limits<float>::infinity())), "-Infinity");
  EXPECT_EQ(WrittenElement(half(0.1f)), "0.1");
  EXPECT_EQ(WrittenElement(half(65504.0f)), "65500.0");
  EXPECT_EQ(WrittenElement(bfloat16(0.1f)), "0.1");
  EXPECT_EQ(WrittenElement(std::numeric_limits<uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(WrittenElement(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(WrittenElement(int8_t{-5}), "-5");
}

template <typename T>
void ExpectAllRoundTrip() {
  std::vector<T> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<uint16_t>(i);
  std::string text = Written(true, {"y"}, {Of<T>({65536}, all)});
  text.replace(2, 11, "instances");
  const Tensor read = Value(text, DTypeOf<T>::value);
  ASSERT_EQ(read.num_elements(), 65536);
  for (size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(static_cast<float>(all[i]))) continue;
    ASSERT_EQ(read.data<T>()[i].bits, i);
  }
}

TEST(JsonOutputsTest, WhatIsWrittenIsReadAsTheSame) {
  ExpectAllRoundTrip<half>();
  ExpectAllRoundTrip<bfloat16>();
  std::mt19937_64 random(2);
  std::vector<float> floats(50000);
  std::vector<double> doubles(50000);
  std::vector<std::string> strings(2000);
  for (float& value : floats) value = std::bit_cast<float>(static_cast<uint32_t>(random()));
  for (double& value : doubles) value = std::bit_cast<double>(random());
  for (std::string& value : strings) {
    value.resize(random() % 20);
    for (char& c : value) c = static_cast<char>(random() % (random() % 2 == 0 ? 128 : 256));
  }
  const std::vector<Tensor> all = {Of<float>({50000}, floats), Of<double>({50000}, doubles),
                                   Of<std::string>({20, 100}, strings)};
  std::string text = Written(false, {"f", "d", "s"}, all);
  text.replace(2, 7, "inputs");
  const auto read =
      Read(text, {Spec("f", DType::kFloat), Spec("d", DType::kDouble), Spec("s", DType::kString)});
  ASSERT_TRUE(read.ok()) << read.status();
  for (size_t i = 0; i < floats.size(); ++i) {
    const float have = (*read)[0].data<float>()[i];
    if (std::isnan(have) && std::isnan(floats[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(have), std::bit_cast<uint32_t>(floats[i]));
  }
  for (size_t i = 0; i < doubles.size(); ++i) {
    const double have = (*read)[1].data<double>()[i];
    if (std::isnan(have) && std::isnan(doubles[i])) continue;
    ASSERT_EQ(std::bit_cast<uint64_t>(have), std::bit_cast<uint64_t>(doubles[i]));
  }
  EXPECT_EQ((*read)[2].shape(), Shape({20, 100}));
  EXPECT_THAT((*read)[2].span<std::string>(), testing::ElementsAreArray(strings));
}

}  // namespace
}  // namespace formwork::server
