#pragma once

// Texts of kernels, which need no GPU to be compiled.

#include <string>

#include "absl/strings/str_cat.h"
#include "core/tensor/dtype.h"
#include "gpu/cuda_kernel.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {

inline constexpr DType kDTypes[] = {DType::kFloat, DType::kDouble, DType::kHalf,   DType::kBfloat16,
                                    DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64,
                                    DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64,
                                    DType::kBool};

/// For the oldest and the newest GPU that there are texts for.
inline void ExpectCompiles(const std::string& text, const std::string& what) {
  for (const int major : {8, 9}) EXPECT_OK(CompileCuda(text, major, 0)) << what << " sm_" << major;
}

}  // namespace formwork::testing
