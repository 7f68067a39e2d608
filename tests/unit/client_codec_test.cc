// The C++ client's codec against the server's: what one writes the other reads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "core/device/host_allocator.h"
#include "formwork/client.h"
#include "formwork/message_codec.h"
#include "server/call_codec.h"
#include "tests/support/status_matchers.h"

namespace formwork::client {
namespace {

TEST(ClientCodec, TheServerReadsACallAsItWasAsked) {
  CallRequest request;
  request.name = "step";
  request.inputs = {Tensor::Of<float>({2}, {1.5f, -2.0f}), ResourceId{17}, KeptTensor{18}};
  request.keep_outputs = true;
  request.keep_from = 2;
  request.keep_for = absl::Milliseconds(1500);
  request.timeout = absl::Milliseconds(2500);
  request.call_id = 300;
  server::DecodedCall call;
  ASSERT_OK(server::DecodeCallRequest(EncodeCall(request, "training"), ProcessAllocator(), &call));
  const CallSpec& spec = call.spec;
  EXPECT_EQ(spec.name_space, "training");
  EXPECT_EQ(spec.function.id, 0u);
  EXPECT_EQ(spec.function.name, "step");
  EXPECT_TRUE(spec.keep_outputs);
  EXPECT_EQ(spec.keep_from, 2u);
  EXPECT_EQ(spec.kept_ttl, absl::Milliseconds(1500));
  EXPECT_EQ(call.timeout, absl::Milliseconds(2500));
  EXPECT_EQ(call.call_id, 300u);
  ASSERT_EQ(spec.inputs.size(), 3u);
  EXPECT_EQ(spec.inputs[0].tensor.span<float>()[1], -2.0f);
  EXPECT_EQ(spec.inputs[1].kind, Argument::Kind::kResource);
  EXPECT_EQ(spec.inputs[1].id, 17u);
  EXPECT_EQ(spec.inputs[2].kind, Argument::Kind::kKeptTensor);
  EXPECT_EQ(spec.inputs[2].id, 18u);
}

TEST(ClientCodec, NothingIsKeptWhereNothingIsSaid) {
  CallRequest request;
  request.function_id = 7;
  server::DecodedCall call;
  ASSERT_OK(server::DecodeCallRequest(EncodeCall(request, "ns"), ProcessAllocator(), &call));
  EXPECT_EQ(call.spec.function.id, 7u);
  EXPECT_FALSE(call.spec.keep_outputs);
  EXPECT_EQ(call.spec.keep_from, 0u);
  EXPECT_EQ(call.spec.kept_ttl, absl::ZeroDuration());
  EXPECT_EQ(call.timeout, std::nullopt);
}

}  // namespace
}  // namespace formwork::client
