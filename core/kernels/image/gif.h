#pragma once

// GIF by giflib, a row at a time: what a file's frames claim to be is allocated for the result
// alone.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace formwork {

struct GifSizes {
  int64_t frames = 0;
  int64_t rows = 0;  ///< Of the largest frame; so is the next.
  int64_t cols = 0;
};

/// Of the frames that are whole: the first that is damaged ends the file. Errors: kInvalidArgument
/// in TensorFlow's words where there is none; those of work that is cut.
absl::StatusOr<GifSizes> MeasureGif(absl::string_view file);

/// Fills the first `frames` frames of [rows, cols, 3] bytes, each painted over the one before.
/// Errors: kInvalidArgument in TensorFlow's words for colours that are not there.
absl::Status DecodeGif(absl::string_view file, const GifSizes& sizes, int64_t frames, uint8_t* to);

}  // namespace formwork
