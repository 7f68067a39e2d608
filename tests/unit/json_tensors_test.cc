// What requests in JSON give, and what is refused.

#include "server/serving/json_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/memory_budget.h"
#include "tests/unit/json_cases.h"

namespace formwork::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Error(absl::string_view body, std::vector<TensorSpec> inputs) {
  const absl::StatusOr<std::vector<Tensor>> tensors = Read(body, std::move(inputs));
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument) << body;
  return std::string(tensors.status().message());
}
std::string Error(absl::string_view body, DType dtype = DType::kFloat) {
  return Error(body, {Spec("x", dtype)});
}

// What one element of `dtype` gives.
template <typename T>
T Element(const std::string& text) {
  const Tensor tensor = Value("{\"inputs\": " + text + "}", DTypeOf<T>::value);
  EXPECT_EQ(tensor.shape(), Shape());
  return tensor.scalar<T>();
}
std::string ElementError(const std::string& text, DType dtype) {
  return Error("{\"inputs\": [1, " + text + "]}", dtype);
}

TEST(JsonHeadTest, TellsWhatIsAsked) {
  const JsonPredict rows =
      *ReadJsonPredictHead(R"( {"signature_name":"s\u00e9", "other": {"instances": [null]},
                               "instances" : [1, [2, "],"], {"a": "\\\"}"}] } )");
  EXPECT_EQ(rows.signature_name, "s\u00e9");
  EXPECT_TRUE(rows.row_format);
  EXPECT_EQ(rows.values, R"([1, [2, "],"], {"a": "\\\"}"}])");
  const JsonPredict columns = *ReadJsonPredictHead(R"({"inputs":-1})");
  EXPECT_EQ(columns.signature_name, "");
  EXPECT_FALSE(columns.row_format);
  EXPECT_EQ(columns.values, "-1");
}

TEST(JsonHeadTest, RefusesWhatIsNoRequest) {
  for (const char* body : {"",
                           " ",
                           "[]",
                           "1",
                           "{",
                           "{}",
                           "{\"inputs\"}",
                           "{\"inputs\":}",
                           "{\"inputs\":1",
                           "{\"inputs\":1,}",
                           "{\"inputs\":1}}",
                           "{\"inputs\":1} x",
                           "{'inputs':1}",
                           "{inputs:1}",
                           "{\"instances\":1}",
                           "{\"instances\":{}}",

                           "{\"instances\":[1 2",
                           "{\"inputs\":[1,2}",
                           "{\"inputs\":\"a}",
                           "{\"inputs\":\"a\\\"}",
                           "{\"inputs\":1,\"inputs\":2}",
                           "{\"inputs\":1,\"instances\":[1]}",
                           "{\"instances\":[1],\"instances\":[1]}",
                           "{\"signature_name\":1,\"inputs\":1}",
                           "{\"signature_name\":null,\"inputs\":1}",
                           "{\"signature_name\":\"a\"}",
                           "{\"signature_name\":\"a\",\"signature_name\":\"a\",\"inputs\":1}",
                           "{\"a\":tru,\"inputs\":1}",
                           "{\"a\":01,\"inputs\":1}",
                           "{\"a\":[1,],\"inputs\":1}",
                           "{\"a\":{\"b\":},\"inputs\":1}",
                           "{\"a\":[1}],\"inputs\":1}",
                           "\xef\xbb\xbf{\"inputs\":1}",
                           "{\"inp\xff\":1,\"inputs\":1}"}) {
    EXPECT_EQ(ReadJsonPredictHead(body).status().code(), absl::StatusCode::kInvalidArgument)
        << body;
  }
  EXPECT_THAT(Error("{}"), HasSubstr("\"instances\" or \"inputs\" is missing"));
  EXPECT_THAT(Error("{\"inputs\":1} x"),
              HasSubstr("at byte 13: The document root must not be followed by other values"));
}

TEST(JsonInputsTest, RowsAreStacked) {
  const Tensor plain = Value(R"({"instances": [[1, 2.5], [-3e0,4]]})", DType::kFloat);
  EXPECT_EQ(plain.shape(), Shape({2, 2}));
  EXPECT_THAT(plain.span<float>(), ElementsAre(1, 2.5, -3, 4));
  EXPECT_THAT(Value(R"({"instances":[1,2]})", DType::kInt8).span<int8_t>(), ElementsAre(1, 2));
  const Tensor named = Value(R"({"instances": [{"x": [[1]]}, {"x": [[2]]}]})", DType::kFloat);
  EXPECT_EQ(named.shape(), Shape({2, 1, 1}));
  const auto two = Read(R"({"instances": [{"x": 1, "y": ["a", "b"]}, {"y": ["c", ""], "x": 2}]})",
                        {Spec("y", DType::kString), Spec("x", DType::kInt64)});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ((*two)[0].shape(), Shape({2, 2}));
  EXPECT_THAT((*two)[0].span<std::string>(), ElementsAre("a", "b", "c", ""));
  EXPECT_EQ((*two)[1].shape(), Shape({2}));
  EXPECT_THAT((*two)[1].span<int64_t>(), ElementsAre(1, 2));
}

TEST(JsonInputsTest, ColumnsAreAsTheyAre) {
  EXPECT_EQ(Value(R"({"inputs": [[[1],[2]]]})", DType::kFloat).shape(), Shape({1, 2, 1}));
  EXPECT_EQ(Value(R"({"inputs": {"x": [1,2,3]}})", DType::kFloat).shape(), Shape({3}));
  EXPECT_EQ(Value(R"({"inputs": {"x": 7}})", DType::kInt32).scalar<int32_t>(), 7);
  const auto two = Read(R"({"inputs":{"b":[true,false],"a":{"b64":"AP8="}}})",
                        {Spec("a", DType::kString), Spec("b", DType::kBool)});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ((*two)[0].scalar<std::string>(), std::string("\0\xff", 2));
  EXPECT_THAT((*two)[1].span<bool>(), ElementsAre(true, false));
  EXPECT_THAT(*Read("{\"inputs\":{}}", {}), IsEmpty());
  EXPECT_THAT(*Read("{\"instances\":[{},{}]}", {}), IsEmpty());
}

TEST(JsonInputsTest, StringsAreTextOrBytes) {
  EXPECT_EQ(Element<std::string>(R"("a\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00\u0000b")"),
            std::string("a\"\\/\b\f\n\r\tA\u00e9\u20ac\U0001f600\0b", 21));
  EXPECT_EQ(Element<std::string>("\"\u20ac, [1]\""), "\u20ac, [1]");
  EXPECT_EQ(Element<std::string>(R"({"b64": "aGk="})"), "hi");
  EXPECT_EQ(Element<std::string>(R"({"b64": "\u0061Gk"})"), "hi");
  EXPECT_THAT(
      Value(R"({"instances":[{"b64":"aGk="},"a",{"x":"b"},{"x":{"b64":""}}]})", DType::kString)
          .span<std::string>(),
      ElementsAre("hi", "a", "b", ""));
  // What is named b64 is told from the bytes of a string by its value.
  const auto named =
      Read(R"({"instances":[{"b64":{"b64":"aGk="}}]})", {Spec("b64", DType::kString)});
  EXPECT_EQ((*named)[0].data<std::string>()[0], "hi");
  EXPECT_TRUE(Read(R"({"instances":[{"b64":[1]}]})", {Spec("b64", DType::kFloat)}).ok());
  // What is no JSON is refused with its place in the text, whatever is asked for.
  for (const char* text :
       {"\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83d\\u0041\"", "\"\\ud83dx\"", "\"\\x\"", "\"\\u12\"",
        "\"\\u12g4\"", "\"\\u+123\"", "\"\\u-123\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\"\n\""}) {
    EXPECT_THAT(Error(absl::StrCat("{\"inputs\": [\"ok\", ", text, "]}"), DType::kString),
                AllOf(HasSubstr("JSON: "), HasSubstr(" byte ")))
        << text;
  }
  for (const char* text :
       {"1", "null", "{}", "{\"b64\":1}", "{\"b64\":\"a\"}", "{\"b64\":\"!!!!\"}",
        "{\"b64\":\"aGk=\",\"a\":1}", "{\"b64\":\"aGk=\",\"b64\":\"aGk=\"}"}) {
    EXPECT_THAT(Error(absl::StrCat("{\"inputs\": [\"ok\", ", text, "]}"), DType::kString),
                HasSubstr("input 'x': at [1]: "))
        << text;
  }
  EXPECT_THAT(Error(std::string("{\"inputs\": \"a\0b\"}", 17), DType::kString),
              HasSubstr("at byte 13: Missing a closing quotation mark"));
  EXPECT_THAT(Error(std::string("{\"inputs\": \"a\"}\0", 16), DType::kString),
              HasSubstr("at byte 15: a zero byte"));
  EXPECT_THAT(Error(std::string("{\"inputs\": [1\0]}", 16)), HasSubstr("at byte 13: "));
}

TEST(JsonInputsTest, NumbersFitTheirDtype) {
  EXPECT_EQ(Element<uint64_t>("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Element<int64_t>("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Element<int64_t>("9007199254740993"), 9007199254740993);
  EXPECT_EQ(Element<int8_t>("-128"), -128);
  EXPECT_EQ(Element<uint8_t>("255"), 255);
  EXPECT_EQ(Element<uint8_t>("-0"), 0);
  EXPECT_EQ(Element<bool>("true"), true);
  for (const auto& [text, dtype] :
       std::vector<std::pair<const char*, DType>>{{"18446744073709551616", DType::kUint64},
                                                  {"9223372036854775808", DType::kInt64},
                                                  {"-9223372036854775809", DType::kInt64},
                                                  {"128", DType::kInt8},
                                                  {"-129", DType::kInt8},
                                                  {"256", DType::kUint8},
                                                  {"-1", DType::kUint32},
                                                  {"32768", DType::kInt16},
                                                  {"65536", DType::kUint16},
                                                  {"2147483648", DType::kInt32},
                                                  {"4294967296", DType::kUint32},
                                                  {"1.0", DType::kInt32},
                                                  {"1e3", DType::kInt32},
                                                  {"1E3", DType::kInt64},
                                                  {"true", DType::kInt32},
                                                  {"\"1\"", DType::kInt32},
                                                  {"NaN", DType::kInt32},
                                                  {"null", DType::kFloat},
                                                  {"true", DType::kFloat},
                                                  {"\"1\"", DType::kFloat},
                                                  {"1e39", DType::kFloat},
                                                  {"65520", DType::kHalf},
                                                  {"1e39", DType::kBfloat16},
                                                  {"-NaN", DType::kFloat},
                                                  {"NaNe1", DType::kFloat},
                                                  {"-Infinity.5e-3", DType::kDouble},
                                                  {"Infinity", DType::kUint8},
                                                  {"{}", DType::kFloat},
                                                  {"{\"b64\":\"aGk=\"}", DType::kFloat}}) {
    EXPECT_THAT(ElementError(text, dtype), HasSubstr("input 'x': at [1]: ")) << text;
  }
  for (const char* text :
       {"01",  "+1",   "-",   "0x1", "1e999", "-1e999",  "-01.5", "1.",  ".5", "1.e5", "1e",
        "1e+", "1e5.", "--1", "nan", "inf",   "Infinit", "NaNs",  "1 2", "1x", ""}) {
    for (DType dtype : {DType::kInt32, DType::kFloat, DType::kDouble}) {
      EXPECT_THAT(ElementError(text, dtype), HasSubstr("JSON: at byte ")) << text;
    }
  }
  EXPECT_THAT(ElementError("0", DType::kBool), HasSubstr("true or false"));
  EXPECT_THAT(ElementError("128", DType::kInt8),
              HasSubstr("input 'x': at [1]: 128 is beyond the range of int8"));
  EXPECT_THAT(ElementError("1.5", DType::kInt8),
              HasSubstr("at [1]: an integer, without point and exponent, is expected, not 1.5"));
}

TEST(JsonInputsTest, FloatsRoundToNearest) {
  EXPECT_TRUE(std::signbit(Element<float>("-0")));
  EXPECT_TRUE(std::signbit(Element<double>("-0.0e-5")));
  EXPECT_TRUE(std::isnan(Element<double>("NaN")));
  EXPECT_EQ(Element<float>("Infinity"), std::numeric_limits<float>::infinity());
  EXPECT_EQ(Element<half>("-Infinity").bits, 0xfc00);
  EXPECT_EQ(Element<half>("65519.9").bits, 0x7bff);
  EXPECT_EQ(Element<float>("3.4028235e38"), std::numeric_limits<float>::max());
  EXPECT_EQ(Element<bfloat16>("1.0").bits, 0x3f80);
  EXPECT_EQ(Element<double>("1e-400"), 0);
  EXPECT_EQ(Element<double>("0e-999999999999999999999"), 0);
  EXPECT_EQ(Element<double>("0." + std::string(400, '0') + "1e401"), 1);
  // RapidJSON refuses an exponent, and digits before the point, beyond those of a double, even
  // where the other would make up for it.
  EXPECT_THAT(ElementError("0e309", DType::kDouble), HasSubstr("at byte 15: Number too big"));
  EXPECT_THAT(ElementError("1" + std::string(400, '0') + "e-400", DType::kDouble),
              HasSubstr("at byte 15: Number too big"));
  EXPECT_EQ(Element<double>("1" + std::string(300, '0') + "e-300"), 1);
  EXPECT_EQ(Element<double>("5e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(Element<double>("1.7976931348623157e308"), std::numeric_limits<double>::max());
  // Halfway between two doubles, and a little more.
  EXPECT_EQ(Element<double>("9007199254740993.0"), 9007199254740992.0);
  EXPECT_EQ(Element<double>("9007199254740993.00000000000000000000000001"), 9007199254740994.0);
}

TEST(JsonInputsTest, NumbersAreThoseOfTheLibrary) {
  std::mt19937_64 random(1);
  const auto check = [](const std::string& text) {
    double want = 0;
    std::from_chars(text.data(), text.data() + text.size(), want);
    const double have = Element<double>(text);
    ASSERT_EQ(std::bit_cast<uint64_t>(have), std::bit_cast<uint64_t>(want)) << text;
  };
  for (int i = 0; i < 8000; ++i) {
    // A sum of digits with the point anywhere, and an exponent or none.
    std::string digits = std::to_string(random() >> random() % 64);
    const size_t point = random() % (digits.size() + 1);
    std::string text = (point == 0 ? "0" : digits.substr(0, point));
    if (point < digits.size()) text += "." + std::string(random() % 12, '0') + digits.substr(point);
    if (random() % 4 == 0) text += "e" + std::to_string(static_cast<int>(random() % 80) - 40);
    check((random() % 2 == 0 ? "-" : "") + text);
    // The shortest text of any double, and of one near 1.
    const double any = std::bit_cast<double>(random());
    char shortest[32];
    if (std::isfinite(any)) check({shortest, std::to_chars(shortest, shortest + 32, any).ptr});
    const double near = static_cast<double>(random()) * 0x1p-64;
    check({shortest, std::to_chars(shortest, shortest + 32, near).ptr});
  }
}

TEST(JsonInputsTest, ListsMustBeRectangular) {
  EXPECT_THAT(Error(R"({"inputs": [[1, 2], [3]]})"),
              HasSubstr("input 'x': at [1]: a list of fewer than the 2 elements"));
  EXPECT_THAT(Error(R"({"instances": [[[1], [2]], [[3], [4, 5]]]})"),
              HasSubstr("input 'x': at [1][1]: a list of more than the 1 elements"));
  EXPECT_THAT(Error(R"({"inputs": [[1, 2], 3]})"), HasSubstr("at [1]: a list of 2 is expected"));
  EXPECT_THAT(Error(R"({"inputs": [1, [3]]})"),
              HasSubstr("at [1]: an element of float32 is expected, not a list"));
  EXPECT_THAT(Error(R"({"inputs": [[], [3]]})"), HasSubstr("at [1]: a list of more than the 0"));
  EXPECT_THAT(Error(R"({"inputs": [[3], []]})"), HasSubstr("at [1]: a list of fewer than the 1"));
  EXPECT_THAT(Error(R"({"instances": [[3], 4]})"), HasSubstr("at [1]: "));
  EXPECT_THAT(Error(R"({"instances": [4, [3]]})"), HasSubstr("at [1]: "));
  for (const char* value : {"[1,]", "[,1]", "[1 2]", "[1,2", "[1]]", "[[1]", "[[1],]", "[1}", "{1]",
                            "[[1],[2}]", "]", "[1,,2]", "[[1,2],[3,4]}"}) {
    EXPECT_NE(Error(absl::StrCat("{\"inputs\":", value, "}")), "") << value;
    EXPECT_NE(Error(absl::StrCat("{\"instances\":[", value, "]}")), "") << value;
  }
}

TEST(JsonInputsTest, EmptyListsHaveTheDimensionsOfTheSpec) {
  const PartialShape image = PartialShape::Trusted({-1, 4, 3}),
                     open = PartialShape::Trusted({-1, -1});
  EXPECT_EQ(Value(R"({"instances": []})", DType::kFloat, image).shape(), Shape({0, 4, 3}));
  EXPECT_EQ(Value(R"({"inputs": [ ]})", DType::kString, image).shape(), Shape({0, 4, 3}));
  EXPECT_EQ(Value(R"({"inputs": []})", DType::kFloat, open).shape(), Shape({0}));
  EXPECT_EQ(Value(R"({"inputs": []})", DType::kFloat).shape(), Shape({0}));
  EXPECT_EQ(Value(R"({"inputs": [[],[]]})", DType::kFloat, image).shape(), Shape({2, 0, 3}));
  EXPECT_EQ(Value(R"({"inputs": {"x": [[],[]]}})", DType::kInt8, open).shape(), Shape({2, 0}));
  const PartialShape large = PartialShape::Trusted({-1, int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_EQ(Value(R"({"inputs": []})", DType::kFloat, large).num_elements(), 0);
}

TEST(JsonInputsTest, NamesMustBeThoseOfTheSignature) {
  const std::vector<TensorSpec> two = {Spec("a", DType::kFloat), Spec("b", DType::kFloat)};
  EXPECT_EQ(Error(R"({"inputs": {"a": 1}})", two),
            "inputs: missing inputs: 'b'; the signature takes 'a', 'b'");
  EXPECT_EQ(Error(R"({"instances": [{"a": 1, "b": 2}, {"c": [{"d": "}"}], "b": 2}]})", two),
            "instances[1]: missing inputs: 'a'; unknown inputs: 'c'; the signature takes 'a', 'b'");
  EXPECT_EQ(Error(R"({"instances": [{"a": 1, "b": 2, "a": 1}]})", two),
            "instances[0]: input 'a' is there twice");
  EXPECT_THAT(Error(R"({"instances": [1]})", two),
              AllOf(HasSubstr("an object is expected"), HasSubstr("takes 'a', 'b'")));
  EXPECT_THAT(Error(R"({"inputs": {"b64": "aGk="}})", two), HasSubstr("missing inputs: 'a', 'b'"));
  EXPECT_THAT(Error(R"({"inputs": {"y": 1}})"), HasSubstr("unknown inputs: 'y'"));
  EXPECT_THAT(Error(R"({"instances": [{}]})"), HasSubstr("missing inputs: 'x'"));
  EXPECT_LT(Error("{\"inputs\": {\"" + std::string(100000, 'n') + "\": 1}}").size(), 300);
  EXPECT_EQ(Read(R"({"inputs": 1})", {Spec("x", DType::kComplex64)}).status(),
            absl::UnimplementedError("input 'x': JSON has no form for dtype complex64"));
}

TEST(JsonInputsTest, WhatIsSentBoundsTheMemoryThatIsTaken) {
  MemoryBudget budget(64 << 20);
  HostAllocator allocator(&budget);
  const auto read = [&](const std::string& body,
                        std::vector<TensorSpec> specs = {Spec("x", DType::kDouble)}) {
    return HoldToBudget(budget, [&]() -> absl::StatusOr<std::vector<Tensor>> {
      const absl::StatusOr<JsonPredict> head = ReadJsonPredictHead(body);
      if (!head.ok()) return head.status();
      return ReadJsonInputs(*head, specs, allocator);
    });
  };
  // Many instances, of which the first is large: all of that size would be 2 TB.
  std::string body = "{\"instances\":[[0" + std::string(500000, ' ') + ",0";
  for (int i = 0; i < 500000; ++i) body += ",0";
  body += "]";
  for (int i = 0; i < 500000; ++i) body += ",[]";
  EXPECT_THAT(read(body + "]}").status().message(), HasSubstr("at [1]: a list of fewer"));
  // So many for each of many inputs.
  std::vector<TensorSpec> many;
  body = "{\"instances\":[{";
  for (int i = 0; i < 200; ++i) {
    many.push_back(Spec(absl::StrCat("x", i), DType::kDouble));
    absl::StrAppend(&body, i == 0 ? "" : ",", "\"x", i, "\":[0");
    for (int j = 0; j < 1000; ++j) body += ",0";
    body += "]";
  }
  body += "}";
  for (int i = 0; i < 1000000; ++i) body += ",{}";
  EXPECT_EQ(read(body + "]}", many).status().code(), absl::StatusCode::kInvalidArgument);
  // Empty lists, and nests.
  body = "{\"inputs\":[[]";
  for (int i = 0; i < 1000000; ++i) body += ",[]";
  EXPECT_EQ((*read(body + "]}"))[0].shape(), Shape({1000001, 0}));
  for (const char* open : {"[", "{\"x\":"}) {
    for (int depth : {255, 1000, 1000000}) {
      std::string deep = "{\"inputs\":";
      for (int i = 0; i < depth; ++i) deep += open;
      EXPECT_EQ(read(deep).status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(
          read(deep + "1" + std::string(depth, *open == '[' ? ']' : '}') + "}").status().code(),
          absl::StatusCode::kInvalidArgument);
      deep.replace(2, 6, "ignore");
      EXPECT_EQ(read(deep).status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  const std::string deepest =
      "{\"inputs\":" + std::string(254, '[') + "1" + std::string(254, ']') + "}";
  EXPECT_EQ((*read(deepest))[0].rank(), 254);
  // More than there is.
  body = "{\"inputs\":[0";
  for (int i = 0; i < 10000000; ++i) body += ",0";
  EXPECT_EQ(read(body + "]}").status().code(), absl::StatusCode::kResourceExhausted);
  body = "{\"ignored\":\"" + std::string(30 << 20, 'a') + "\",\"inputs\":0}";
  EXPECT_EQ(read(body).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace formwork::server
