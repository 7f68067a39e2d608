#pragma once

// Google Test macros and matchers over absl::Status, which Debian's Abseil lacks.
//
//   ASSERT_OK_AND_ASSIGN(Shape shape, Shape::Make({2, 3}));
//   EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such")));

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace formwork::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P(StatusIs, code, "has status code " + absl::StatusCodeToString(code)) {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code;
}

MATCHER_P2(StatusIs, code, message,
           "has status code " + absl::StatusCodeToString(code) + " and a message that matches") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         ::testing::ExplainMatchResult(message, StatusOf(arg).message(), result_listener);
}

}  // namespace formwork::testing

#define EXPECT_OK(expr) EXPECT_THAT((expr), ::formwork::testing::IsOk())
#define ASSERT_OK(expr) ASSERT_THAT((expr), ::formwork::testing::IsOk())

#define FORMWORK_TEST_CONCAT_INNER(a, b) a##b
#define FORMWORK_TEST_CONCAT(a, b) FORMWORK_TEST_CONCAT_INNER(a, b)
#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  ASSERT_OK_AND_ASSIGN_IMPL(FORMWORK_TEST_CONCAT(test_or_, __LINE__), lhs, expr)
#define ASSERT_OK_AND_ASSIGN_IMPL(result, lhs, expr) \
  auto result = (expr);                              \
  ASSERT_TRUE(result.ok()) << result.status();       \
  lhs = *std::move(result)
