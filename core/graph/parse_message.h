#pragma once

// Messages that clients send, or files hold, from bytes.

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"

namespace formwork {

/// `message`, in an arena where exceptions may end this. `what`: as errors call it, "GraphDef".
/// Errors: kInvalidArgument if the bytes are no such message; those of the thread's StopFlag.
absl::Status ParseMessage(absl::string_view bytes, absl::string_view what,
                          google::protobuf::MessageLite& message);

}  // namespace formwork
