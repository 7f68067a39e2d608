#include "core/ops/diagonal.h"

#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"

namespace formwork {
namespace {

absl::StatusOr<int64_t> ScalarOf(const Tensor& tensor, absl::string_view name) {
  if (!tensor.shape().is_scalar()) {
    return InvalidArgument(name, " must be scalar, got shape ", tensor.shape().ToString());
  }
  return IntegerFromTensor(tensor, name);
}

absl::Status CheckMatrix(absl::Span<const int64_t> input) {
  if (input.size() >= 2) return absl::OkStatus();
  return InvalidArgument("input must be at least 2-dim, received shape: ", DimsText(input));
}

absl::Status CheckPaddingValue(absl::Span<const int64_t> dims) {
  if (MayBeEqual(CountElements(dims), 1)) return absl::OkStatus();
  return InvalidArgument("padding_value must be a scalar, received shape: ", DimsText(dims));
}

absl::StatusOr<Band> ReadBand(const DiagonalAttrs& attrs, const Tensor& k) {
  if (k.rank() > 1) {
    return InvalidArgument("diag_index must be a scalar or vector, received shape: ",
                           k.shape().ToString());
  }
  if (k.num_elements() < 1 || k.num_elements() > 2) {
    return InvalidArgument("diag_index must have only one or two elements, received ",
                           k.num_elements(), " elements.");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims values, IntegersOf(k, "k"));
  Band band;
  static_cast<DiagonalAttrs&>(band) = attrs;
  band.lower = values.front();
  band.upper = values.back();
  if (band.lower > band.upper) {
    return InvalidArgument("lower_diag_index must not be larger than upper_diag_index: ",
                           band.lower, " > ", band.upper);
  }
  return band;
}

absl::Status CheckWithin(const Band& band, absl::string_view stop) {
  if (band.rows < 0 || band.cols < 0) return absl::OkStatus();
  const std::pair<absl::string_view, int64_t> ends[] = {{"lower_diag_index", band.lower},
                                                        {"upper_diag_index", band.upper}};
  for (const auto& [name, d] : ends) {
    if ((-band.rows < d && d < band.cols) || d == 0) continue;
    return InvalidArgument(name, " is out of bound: ", d, stop, " It must be between ", -band.rows,
                           " and ", band.cols);
  }
  return absl::OkStatus();
}

// The band within the matrices of `input`, and the dimensions of its diagonals.
absl::StatusOr<Dims> DiagonalsOf(absl::Span<const int64_t> input, absl::string_view stop,
                                 Band& band) {
  const size_t outer = input.size() - 2;
  band.rows = input[outer];
  band.cols = input[outer + 1];
  FORMWORK_RETURN_IF_ERROR(CheckWithin(band, stop));
  band.longest = band.rows < 0 || band.cols < 0
                     ? -1
                     : std::min(band.rows + std::min<int64_t>(band.upper, 0),
                                band.cols - std::max<int64_t>(band.lower, 0));
  Dims dims(input.begin(), input.begin() + static_cast<int64_t>(outer));
  if (band.count() > 1) dims.push_back(band.count());
  dims.push_back(band.longest);
  return dims;
}

}  // namespace

absl::StatusOr<DiagonalAttrs> DiagonalAttrs::FromAttrs(const AttrMap& attrs) {
  // The first and second version of these ops put what is short to the left.
  const std::string align = attrs.GetOr("align", std::string("LEFT_LEFT"));
  return DiagonalAttrs{.left_super = align == "LEFT_LEFT" || align == "LEFT_RIGHT",
                       .left_sub = align == "LEFT_LEFT" || align == "RIGHT_LEFT"};
}

absl::StatusOr<Band> PrepareMatrixDiagPart(const DiagonalAttrs& attrs,
                                           absl::Span<const int64_t> input, const Tensor& k,
                                           absl::Span<const int64_t> padding_value) {
  FORMWORK_RETURN_IF_ERROR(CheckMatrix(input));
  FORMWORK_ASSIGN_OR_RETURN(Band band, ReadBand(attrs, k));
  FORMWORK_RETURN_IF_ERROR(CheckPaddingValue(padding_value));
  FORMWORK_ASSIGN_OR_RETURN(band.output, DiagonalsOf(input, ".", band));
  return band;
}

absl::StatusOr<Band> PrepareMatrixDiag(const DiagonalAttrs& attrs,
                                       absl::Span<const int64_t> diagonal, const Tensor& k,
                                       const Tensor* num_rows, const Tensor* num_cols,
                                       absl::Span<const int64_t> padding_value) {
  FORMWORK_ASSIGN_OR_RETURN(Band band, ReadBand(attrs, k));
  int64_t rows = -1, cols = -1;
  if (num_rows != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(rows, ScalarOf(*num_rows, "num_rows"));
  }
  if (num_cols != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(cols, ScalarOf(*num_cols, "num_cols"));
  }
  FORMWORK_RETURN_IF_ERROR(CheckPaddingValue(padding_value));
  const size_t rank = diagonal.size();
  if (rank < 1) {
    return InvalidArgument("diagonal must be at least 1-dim, received shape: ", DimsText(diagonal));
  }
  const size_t extra = band.count() > 1 ? 2 : 1;
  if (extra == 2 && (rank < 2 || !MayBeEqual(diagonal[rank - 2], band.count()))) {
    return InvalidArgument(
        "The number of diagonals provided in the input does not match the "
        "lower_diag_index and upper_diag_index range.");
  }
  band.longest = diagonal.back();
  band.output.assign(diagonal.begin(), diagonal.end() - static_cast<int64_t>(extra));
  if (num_rows == nullptr || num_cols == nullptr || band.longest < 0) {
    band.rows = band.cols = -1;
  } else {
    const int64_t min_rows = band.longest - std::min<int64_t>(band.upper, 0);
    const int64_t min_cols = band.longest + std::max<int64_t>(band.lower, 0);
    if (rows != -1 && rows < min_rows) {
      return InvalidArgument("The number of rows is too small.");
    }
    if (cols != -1 && cols < min_cols) {
      return InvalidArgument("The number of columns is too small.");
    }
    if (rows == -1 && cols == -1) {
      rows = cols = std::max(min_rows, min_cols);
    } else if (rows == -1) {
      rows = min_rows;
    } else if (cols == -1) {
      cols = min_cols;
    }
    if (rows != min_rows && cols != min_cols) {
      return InvalidArgument(
          "The number of rows or columns is not consistent with the specified "
          "d_lower, d_upper, and diagonal.");
    }
    band.rows = rows;
    band.cols = cols;
    FORMWORK_RETURN_IF_ERROR(CheckWithin(band, "."));
  }
  band.output.push_back(band.rows);
  band.output.push_back(band.cols);
  return band;
}

absl::StatusOr<Band> PrepareMatrixSetDiag(const DiagonalAttrs& attrs,
                                          absl::Span<const int64_t> input,
                                          absl::Span<const int64_t> diagonal, const Tensor& k) {
  FORMWORK_RETURN_IF_ERROR(CheckMatrix(input));
  FORMWORK_ASSIGN_OR_RETURN(Band band, ReadBand(attrs, k));
  FORMWORK_ASSIGN_OR_RETURN(const Dims wanted, DiagonalsOf(input, "", band));
  if (!MayBeEqual(diagonal, wanted)) {
    return InvalidArgument(
        "Either first dimensions of diagonal don't match input.shape[:-2], or "
        "diagonal.shape[:-1] is not equal to the longests diagonal in range "
        "[lower_diag_index:upper_diag_index].\nInput shape: ",
        DimsText(input), "\nDiagonal shape: ", DimsText(diagonal));
  }
  return band;
}

absl::StatusOr<BandPart> PrepareMatrixBandPart(absl::Span<const int64_t> input,
                                               const Tensor& num_lower, const Tensor& num_upper) {
  FORMWORK_RETURN_IF_ERROR(CheckMatrix(input));
  const int64_t rows = input[input.size() - 2], cols = input[input.size() - 1];
  FORMWORK_ASSIGN_OR_RETURN(const int64_t lower, ScalarOf(num_lower, "num_lower"));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t upper, ScalarOf(num_upper, "num_upper"));
  if (rows >= 0 && lower > rows) {
    return InvalidArgument("num_lower must be negative or less or equal to number of rows (", rows,
                           ") got: ", lower);
  }
  if (cols >= 0 && upper > cols) {
    return InvalidArgument("num_upper must be negative or less or equal to number of columns (",
                           cols, ") got: ", upper);
  }
  return BandPart{lower, upper};
}

absl::StatusOr<Dims> PrepareDiag(absl::Span<const int64_t> diagonal) {
  if (diagonal.empty()) return InvalidArgument("Input must be at least rank 1, got 0");
  Dims output(diagonal.begin(), diagonal.end());
  output.insert(output.end(), diagonal.begin(), diagonal.end());
  return output;
}

absl::StatusOr<Dims> PrepareDiagPart(absl::Span<const int64_t> input) {
  const size_t half = input.size() / 2;
  if (input.size() % 2 != 0 || input.empty()) {
    return InvalidArgument("The rank of the tensor should be even and positive, got shape ",
                           DimsText(input));
  }
  Dims output;
  for (size_t d = 0; d < half; ++d) {
    if (!MayBeEqual(input[d], input[d + half])) {
      return InvalidArgument("Invalid shape ", DimsText(input), ": dimensions ", d, " and ",
                             d + half, " do not match.");
    }
    output.push_back(std::max(input[d], input[d + half]));
  }
  return output;
}

}  // namespace formwork
