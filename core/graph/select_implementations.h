#pragma once

#include "absl/strings/string_view.h"
#include "core/graph/import_body.h"
#include "formwork/tf/function.pb.h"

namespace formwork {

/// Has the names of functions stand for those that do the same and are meant for devices of
/// `device_type` ("CPU", "GPU"), where the library has such, as TensorFlow's implementation
/// selector does: TensorFlow Probability's samplers and legacy Keras's recurrent layers come with
/// two. Those with gradients of their own stay, because what goes from one to the other differs.
void SelectImplementations(const tf::FunctionDefLibrary& library, absl::string_view device_type,
                           ImportScope& scope);

}  // namespace formwork
