#include "gpu/reduction_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "gpu/element_access_text.h"
#include "gpu/element_functions_text.h"
#include "gpu/element_source.h"
#include "gpu/layer_norm_functions_text.h"
#include "gpu/reduce_functions_text.h"

namespace formwork {
namespace {

using formwork_element::ReduceBlock;
using formwork_element::ReduceSizes;

constexpr ReductionOp kOps[] = {
    {"Sum", "SumReduction", ReductionOp::DTypes::kNumbers},
    {"Prod", "ProdReduction", ReductionOp::DTypes::kNumbers},
    {"Mean", "MeanReduction", ReductionOp::DTypes::kNumbers},
    {"Max", "MaxReduction", ReductionOp::DTypes::kNumbers},
    {"Min", "MinReduction", ReductionOp::DTypes::kNumbers},
    {"EuclideanNorm", "EuclideanNormReduction", ReductionOp::DTypes::kFloats},
    {"L2Loss", "L2LossReduction", ReductionOp::DTypes::kFloats},
    {"All", "AllReduction", ReductionOp::DTypes::kBools},
    {"Any", "AnyReduction", ReductionOp::DTypes::kBools},
    {"ArgMax", "ArgMaxReduction", ReductionOp::DTypes::kAny},
    {"ArgMin", "ArgMinReduction", ReductionOp::DTypes::kAny},
    {"BiasAddGrad", "SumReduction", ReductionOp::DTypes::kNumbers},
};

constexpr uint64_t kBlock = 256;
constexpr uint64_t kEntriesOfLane = 8;    // That a thread sums at least, where there are so many.
constexpr uint64_t kThreads = 1 << 17;    // Half of what an H100 has at once: each reads ahead.
constexpr uint64_t kSideBySide = 32;      // Threads that read one line of memory.
constexpr int64_t kLongestOfWarp = 2048;  // Of rows that are read more than once.

// Threads for each output, and in what order.
ReduceBlock BlockOf(uint64_t reduced, uint64_t inner) {
  const uint64_t wanted = absl::bit_ceil(std::max<uint64_t>(reduced / kEntriesOfLane, 1));
  uint64_t most = kBlock;
  if (inner > 1) most /= std::min(absl::bit_ceil(inner), kSideBySide);
  return {static_cast<unsigned>(std::min(wanted, most)), inner == 1};
}

ReducePass PassOf(const ReduceSizes& sizes) { return {sizes, BlockOf(sizes.part, sizes.inner)}; }

}  // namespace

bool ReductionOp::Takes(DType dtype) const {
  const bool real = IsInteger(dtype) || dtype == DType::kFloat || dtype == DType::kDouble ||
                    dtype == DType::kHalf || dtype == DType::kBfloat16;
  if (ElementTypeName(dtype).empty()) return false;
  switch (dtypes) {
    case DTypes::kFloats:
      return real && !IsInteger(dtype);
    case DTypes::kNumbers:
      return real;
    case DTypes::kBools:
      return dtype == DType::kBool;
    case DTypes::kAny:
      return real || dtype == DType::kBool;
  }
  return false;
}

absl::Span<const ReductionOp> ReductionOps() { return kOps; }

const ReductionOp* FindReductionOp(absl::string_view op) {
  const auto* const found = std::find_if(std::begin(kOps), std::end(kOps),
                                         [&](const ReductionOp& each) { return each.op == op; });
  return found == std::end(kOps) ? nullptr : found;
}

absl::InlinedVector<ReducePass, 2> ReducePasses(const ReduceExtent& extent, bool parts) {
  const auto reduced = static_cast<uint64_t>(extent.reduced);
  ReduceSizes sizes{static_cast<uint64_t>(extent.outer),
                    reduced,
                    static_cast<uint64_t>(extent.inner),
                    1,
                    reduced,
                    reduced};
  const uint64_t outputs = sizes.outer * sizes.inner;
  const uint64_t lanes = BlockOf(sizes.reduced, sizes.inner).lanes;
  const uint64_t wanted = std::min(kThreads / std::max<uint64_t>(outputs * lanes, 1),
                                   sizes.reduced / (lanes * kEntriesOfLane));
  if (!parts || wanted <= 1) return {PassOf(sizes)};
  sizes.part = (sizes.reduced + wanted - 1) / wanted;
  sizes.parts = (sizes.reduced + sizes.part - 1) / sizes.part;
  const ReduceSizes last{sizes.outer, sizes.parts, sizes.inner, 1, sizes.parts, sizes.count};
  return {PassOf(sizes), PassOf(last)};
}

ReductionPlan PlanReduction(absl::Span<const int64_t> dims, const ReducedMask& reduced,
                            bool parts) {
  ReductionPlan plan;
  ReduceExtent extent{1, 1, 1};
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) {
    // Nothing is read: each output is that of no entries.
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!reduced[d]) extent.outer *= dims[d];
    }
    extent.reduced = 0;
    plan.passes = ReducePasses(extent, parts);
    return plan;
  }
  const DimGroups groups = GroupDims(dims, reduced);
  const auto groups_reduced =
      std::count_if(groups.begin(), groups.end(), [](const DimGroup& g) { return g.reduced; });
  if (groups_reduced <= 1) {
    extent = ExtentOf(groups);
  } else {
    int64_t kept = 1, gone = 1;
    for (const DimGroup& group : groups) (group.reduced ? gone : kept) *= group.size;
    extent = {kept, gone, 1};
    // What stays comes first, and what is reduced behind it.
    int64_t from = kept * gone, to_kept = kept * gone, to_gone = gone;
    CopyDims copy;
    for (const DimGroup& group : groups) {
      from /= group.size;
      int64_t& to = group.reduced ? to_gone : to_kept;
      to /= group.size;
      copy.push_back({group.size, from, to});
    }
    plan.together = Move{0, 0, 0, 0, std::move(copy)};
  }
  plan.passes = ReducePasses(extent, parts);
  return plan;
}

namespace {

bool IsArg(const ReductionOp& op) { return op.op == "ArgMax" || op.op == "ArgMin"; }
absl::string_view ComputingType(DType dtype) {
  return ElementTypeName(DTypeSize(dtype) == 2 && !IsInteger(dtype) ? DType::kFloat : dtype);
}

}  // namespace

std::string ReductionType(const ReductionOp& op, DType in) {
  return absl::StrCat(op.reduction, "<", ComputingType(in), ">");
}

std::string ReduceSource(const ReductionOp& op, DType in, DType out, bool first, bool last) {
  const std::string reduction = ReductionType(op, in);
  const std::string partial = absl::StrCat(reduction, "::Partial");
  const std::string from = first ? std::string(ElementTypeName(in)) : partial;
  return absl::StrCat(
      kElementFunctionsText, kElementAccessText, kReduceFunctionsText,
      "using namespace formwork_element;\nextern \"C\" __global__ void __launch_bounds__(256) "
      "reduce(const ",
      from, "* in, ", last ? std::string(ElementTypeName(out)) : partial,
      "* out, ReduceSizes sizes, ReduceBlock block) {\n  ReduceAll<", reduction, ", ",
      first ? "true" : "false", ", ", last ? "true" : "false", ">(DenseEntries<", from,
      ">{in}, out, sizes, block);\n}\n");
}

std::string SoftmaxSource(DType dtype, bool log) {
  const absl::string_view type = ElementTypeName(dtype);
  return absl::StrCat(
      kElementFunctionsText, kElementAccessText, kReduceFunctionsText,
      "using namespace formwork_element;\nextern \"C\" __global__ void __launch_bounds__(256) "
      "softmax(const ",
      type, "* in, ", type,
      "* out, unsigned long long rows, unsigned long long n, ReduceBlock block) {\n  SoftmaxAll<",
      ComputingType(dtype), ", ", log ? "true" : "false", ">(in, out, rows, n, block);\n}\n");
}

std::string LayerNormSource(DType dtype) {
  return absl::StrCat(
      kElementFunctionsText, kElementAccessText, kReduceFunctionsText, kLayerNormFunctionsText,
      "using namespace formwork_element;\nextern \"C\" __global__ void __launch_bounds__(256) "
      "layer_norm(LayerNormRows<",
      ElementTypeName(dtype), "> rows, ReduceBlock block) {\n  LayerNormAll(rows, block);\n}\n");
}

formwork_element::ReduceBlock SoftmaxBlock(int64_t n) {
  ReduceBlock block = BlockOf(static_cast<uint64_t>(n), 1);
  // A warp joins what its threads have without waiting for others.
  if (n <= kLongestOfWarp) block.lanes = std::min(block.lanes, 32u);
  return block;
}

size_t PartialBytes(const ReductionOp& op, DType in) {
  const size_t computes = DTypeSize(in) == 2 && !IsInteger(in) ? 4 : DTypeSize(in);
  if (IsArg(op)) return 16;  // The place is 8 bytes, and the value goes before it.
  return op.op == "Mean" && IsInteger(in) ? 8 : computes;
}

}  // namespace formwork
