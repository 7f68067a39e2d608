#pragma once

// What libwebp will take to decode an image, known before it decodes.

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace formwork {

/// The most bytes that libwebp holds, besides the output, while it decodes one image of rows * cols
/// pixels. `image`: a file, or the chunks of an animation's frame. None where the image is not
/// there, not whole or damaged, or where work is cut.
std::optional<int64_t> WebpDecodingBytes(absl::string_view image, int64_t rows, int64_t cols);

}  // namespace formwork
