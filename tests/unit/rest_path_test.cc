// Paths of the APIs over HTTP.

#include "server/serving/rest_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace formwork::server {
namespace {

using ::testing::HasSubstr;

TEST(RestPathTest, PathsOfPredictions) {
  using What = PredictPath::What;
  ASSERT_OK_AND_ASSIGN(PredictPath path, ParsePredictPath("m"));
  EXPECT_EQ(path.what, What::kStatus);
  EXPECT_EQ(path.model.name, "m");
  ASSERT_OK_AND_ASSIGN(path, ParsePredictPath("a/b/versions/7:predict"));
  EXPECT_EQ(path.what, What::kPredict);
  EXPECT_EQ(path.model.name, "a/b");
  EXPECT_EQ(path.model.version, 7u);
  ASSERT_OK_AND_ASSIGN(path, ParsePredictPath("m/metadata"));
  EXPECT_EQ(path.what, What::kMetadata);
  for (const char* wrong : {"", ":predict", "/versions/7", "m/versions/", "m/versions/0",
                            "m/versions/-1", "m/versions/9223372036854775808", "m:explain"}) {
    EXPECT_EQ(ParsePredictPath(wrong).status().code(), absl::StatusCode::kNotFound) << wrong;
  }
  for (const char* wrong : {"m:classify", "m/labels/stable:predict"}) {
    EXPECT_EQ(ParsePredictPath(wrong).status().code(), absl::StatusCode::kUnimplemented) << wrong;
  }
}

TEST(RestPathTest, PathsOfInferences) {
  using What = InferPath::What;
  const std::pair<const char*, What> kAll[] = {{"", What::kServer},
                                               {"/", What::kServer},
                                               {"/health/live", What::kLive},
                                               {"/health/ready", What::kReady},
                                               {"/repository/index", What::kIndex},
                                               {"/models/a/b", What::kModel},
                                               {"/models/a/b/ready", What::kModelReady},
                                               {"/models/a/b/versions/7/config", What::kConfig},
                                               {"/models/a/b/versions/7/infer", What::kInfer}};
  for (const auto& [text, what] : kAll) {
    ASSERT_OK_AND_ASSIGN(const InferPath path, ParseInferPath(text));
    EXPECT_EQ(path.what, what) << text;
    const bool is_model = std::string(text).find("/models/") == 0;
    EXPECT_EQ(path.model.name, is_model ? "a/b" : "") << text;
    EXPECT_EQ(path.model.version,
              std::string(text).find("/versions/") == std::string::npos ? 0u : 7u);
  }
  for (const char* wrong : {"/other", "/repository/other", "/models/", "/models", "/models//infer",
                            "/health", "/models/m/versions/x/infer", "/models/m/versions/"}) {
    EXPECT_EQ(ParseInferPath(wrong).status().code(), absl::StatusCode::kNotFound) << wrong;
  }
  for (const char* wrong :
       {"/models/stats", "/models/m/versions/7/stats", "/repository/models/m/load",
        "/repository/models/m/unload", "/systemsharedmemory/status", "/cudasharedmemory/status",
        "/trace/setting", "/models/m/trace/setting", "/logging", "/models/m/generate"}) {
    const absl::Status status = ParseInferPath(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("there is ")) << wrong;
  }
}

}  // namespace
}  // namespace formwork::server
