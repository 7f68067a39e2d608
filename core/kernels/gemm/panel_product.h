#pragma once

// Products of rows of floats and a matrix that is packed in panels of columns, with an epilogue:
// the way of some products and convolutions by weights (README.md).

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "core/ops/epilogue.h"

namespace formwork {

/// What is faster by panels than by oneDNN at HostIsa()'s level, as measured (README.md).
struct PanelUses {
  bool gates = false;     ///< Products of recurrent cells.
  bool winograd = false;  ///< Convolutions by conv_winograd.h.
  // Other convolutions, as they are (conv_panels.h):
  bool few_pixels = false;  ///< by large filters,
  bool strided = false;     ///< of 1x1 and many channels, with a stride,
  bool narrow = false;      ///< to 24 channels,
  bool gelu = false;        ///< of 1x1 with a GELU, and so products by weights with one.
};
PanelUses UsesOfPanels();

/// Panels are kPanelColumns wide: element (p, j) of k rows is at
/// (j - j % kPanelColumns) * k + p * kPanelColumns + j % kPanelColumns. Columns that are missing
/// are 0.
constexpr int kPanelColumns = 16;

/// How many floats a matrix of k rows and n columns takes in panels.
int64_t PanelElements(int64_t k, int64_t n);
/// Element (p, j) of the matrix is b[p * row_stride + j * column_stride].
void PackPanels(int64_t k, int64_t n, const float* b, int64_t row_stride, int64_t column_stride,
                float* panels);

/// Another product of as many rows, which lie one after the other, and columns.
struct PanelTerm {
  int64_t depth = 0;
  const float* rows = nullptr;
  const float* panels = nullptr;  ///< Null: there is none.
};

/// c = the activation of (a b + another product + bias + residual). A row of a is `taps` pieces of
/// `depth` elements, each anywhere in memory, so that a window of an image is one.
struct PanelProduct {
  int64_t m, n;
  int64_t taps, depth;
  const float* panels;
  const float* bias = nullptr;      ///< n of them, or null.
  const float* residual = nullptr;  ///< As c, which it may be, or null.
  PanelTerm plus = {};
  Activation activation = Activation::kNone;
  float* c;
  int64_t ldc;
  /// Where it is not empty, c is cut into parts of as many columns each, a multiple of
  /// kPanelColumns; these are where they begin, ldc is of each, and there is no residual.
  absl::Span<float* const> parts = {};
};

/// Where `count` rows from `first` on begin: piece t of row first + i at rows[t * count + i].
using RowsOf = absl::FunctionRef<void(int64_t first, int64_t count, const float** rows)>;

/// Split over the compute threads; the bits do not depend on their number. `rows_of` is called on
/// any of them.
void RunPanelProduct(const PanelProduct& product, RowsOf rows_of);

}  // namespace formwork
