// Elementwise groups that end in a reduction (gpu/element_reductions.h): the texts of their
// kernels, which the host's compiler builds into a library here, against the CPU's own groups.

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/widen.h"
#include "core/ops/register_ops.h"
#include "gpu/element_reductions.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/host_text.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

// What a GPU's blocks do, one after the other; behind kCudaOnHost.
constexpr char kHead[] = R"(
namespace formwork_element {
template <typename Reduction, bool kFirst, bool kLast, typename In, typename Out>
void ReduceAll(const In& in, Out* out, const ReduceSizes& sizes, const ReduceBlock& block) {
  typename Reduction::Partial shared[256];
  const uint64_t n = sizes.outer * sizes.parts * sizes.inner;
  for (uint64_t base = 0; base < n; base += block.outputs()) {
    for (unsigned thread = 0; thread < 256; ++thread) {
      const uint64_t output = base + block.OutputOf(thread);
      shared[thread] = output < n ? ReduceLane<Reduction, kFirst>(
                                        sizes, in, output, block.LaneOf(thread), block.lanes)
                                  : Reduction::First();
    }
    for (unsigned half = block.lanes / 2; half > 0; half /= 2) {
      for (unsigned thread = 0; thread < 256; ++thread) {
        const unsigned mine = block.OutputOf(thread), lane = block.LaneOf(thread);
        if (lane >= half) continue;
        shared[thread] = Reduction::Join(shared[thread], shared[block.ThreadOf(mine, lane + half)]);
      }
    }
    for (unsigned mine = 0; mine < block.outputs() && base + mine < n; ++mine) {
      if constexpr (kLast) {
        out[base + mine] =
            Narrow<Out>::Of(Reduction::Result(shared[block.ThreadOf(mine, 0)], sizes.count));
      } else {
        out[base + mine] = shared[block.ThreadOf(mine, 0)];
      }
    }
  }
}
}
)";
// $0: a number; $1: the program's text; $2: the reduction; $3: the type of elements.
constexpr char kProgram[] = R"(
#define reduce_elements reduce_elements_$0
#define reduce_elements_in_parts reduce_elements_in_parts_$0
namespace program_$0 {
$1
extern "C" unsigned long long bytes_$0() { return sizeof(Elements); }
extern "C" void whole_$0(const void* from, void* to, const ReduceSizes* sizes,
                         const ReduceBlock* block) {
  reduce_elements(*static_cast<const Elements*>(from), static_cast<$3*>(to), *sizes, *block);
}
extern "C" void in_parts_$0(const void* from, void* to, const ReduceSizes* sizes,
                            const ReduceBlock* block) {
  reduce_elements_in_parts(*static_cast<const Elements*>(from), static_cast<$2::Partial*>(to),
                           *sizes, *block);
}
extern "C" void join_$0(const void* from, void* to, const ReduceSizes* sizes,
                        const ReduceBlock* block) {
  ReduceAll<$2, false, true>(DenseEntries<$2::Partial>{static_cast<const $2::Partial*>(from)},
                             static_cast<$3*>(to), *sizes, *block);
}
}
#undef reduce_elements
#undef reduce_elements_in_parts
)";

// x, y and z, all of one dtype, as (x + y) * z, or whether that is less than x.
ElementGroup GroupOf(absl::string_view op, DType dtype, bool less = false) {
  ElementGroup group;
  group.inputs = {dtype, dtype, dtype};
  group.instructions = {{"sum", "AddV2", dtype, {0, 1}}, {"product", "Mul", dtype, {3, 2}}};
  if (less) group.instructions.push_back({"less", "Less", DType::kBool, {4, 0}});
  group.outputs = {static_cast<uint16_t>(less ? 5 : 4)};
  group.reduction = ElementGroup::Reduction{"reduced", std::string(op), {}, Tensor()};
  return group;
}

// Of floats whose elements are halves, rounded before they are reduced.
ElementGroup MixedGroup() {
  ElementGroup group;
  group.inputs = {DType::kFloat, DType::kHalf, DType::kFloat};
  group.instructions = {{"narrow", "Cast", DType::kHalf, {0}},
                        {"product", "Mul", DType::kHalf, {3, 1}},
                        {"wide", "Cast", DType::kFloat, {4}},
                        {"sum", "AddV2", DType::kFloat, {5, 2}}};
  group.outputs = {6};
  group.reduction = ElementGroup::Reduction{"reduced", "Sum", {}, Tensor()};
  return group;
}

std::vector<ElementGroup> Groups() {
  return {GroupOf("Sum", DType::kFloat),
          GroupOf("Mean", DType::kFloat),
          GroupOf("Max", DType::kFloat),
          GroupOf("Min", DType::kDouble),
          GroupOf("Sum", DType::kHalf),
          GroupOf("Mean", DType::kBfloat16),
          GroupOf("Prod", DType::kInt64),
          GroupOf("Mean", DType::kInt64),
          GroupOf("Prod", DType::kDouble),
          GroupOf("Any", DType::kFloat, /*less=*/true),
          GroupOf("All", DType::kHalf, /*less=*/true),
          MixedGroup()};
}

class ElementReductionsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (library != nullptr) return;
    std::string text = absl::StrCat(
        "#include \"gpu/reduce_functions.h\"\n#include \"core/tensor/small_float.h\"\n",
        kCudaOnHost, kHead);
    int number = 0;
    for (const ElementGroup& group : Groups()) {
      const ReductionOp& op = *FindReductionOp(group.reduction->op);
      const DType dtype = group.dtype(group.outputs[0]);
      absl::StrAppend(
          &text, absl::Substitute(kProgram, number++,
                                  ElementReductionSourceOfProgram(ElementProgram::Of(group), op),
                                  ReductionType(op, dtype), ElementTypeName(dtype)));
    }
    library = LoadText(text);
    ASSERT_NE(library, nullptr);
  }

  using Pass = void(const void* from, void* to, const formwork_element::ReduceSizes* sizes,
                    const formwork_element::ReduceBlock* block);
  static void Run(absl::string_view name, int number, const ReducePass& pass, const void* from,
                  void* to) {
    FindInText<Pass>(library, absl::StrCat(name, number))(from, to, &pass.sizes, &pass.block);
  }

  absl::StatusOr<Tensor> RunAsGpu(int number, const ElementGroup& group,
                                  const std::vector<Tensor>& inputs) {
    std::vector<const Shape*> shapes;
    std::vector<ElementInput> from;
    for (const Tensor& input : inputs) {
      shapes.push_back(&input.shape());
      from.push_back({input.raw(), shapes.back()});
    }
    Shape elements, made;
    FORMWORK_RETURN_IF_ERROR(group.ElementShapes(shapes, absl::MakeSpan(&elements, 1)));
    FORMWORK_RETURN_IF_ERROR(group.OutputShapes(shapes, absl::MakeSpan(&made, 1)));
    const DType dtype = group.dtype(group.outputs[0]);
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(run_.allocator(), dtype, made));
    if (made.num_elements() == 0) return out;
    FORMWORK_ASSIGN_OR_RETURN(
        const ReductionGeometry geometry,
        PrepareReduction(group.reduction->attrs, elements.dims(), group.reduction->axes));
    FORMWORK_ASSIGN_OR_RETURN(const ElementReduction reduction,
                              ElementReduction::Make(from, elements, geometry.reduced));
    EXPECT_EQ(FindInText<uint64_t()>(library, absl::StrCat("bytes_", number))(),
              reduction.argument.size() * sizeof(uint64_t));
    const ReducePass& first = reduction.passes[0];
    EXPECT_EQ(first.outputs(), static_cast<uint64_t>(made.num_elements()) * first.sizes.parts);
    if (reduction.passes.size() == 1) {
      Run("whole_", number, first, reduction.argument.data(), out.mutable_raw());
      return out;
    }
    ++parted_;
    const ReductionOp& op = *FindReductionOp(group.reduction->op);
    std::vector<uint64_t> partial(first.outputs() * PartialBytes(op, dtype) / sizeof(uint64_t) + 1);
    Run("in_parts_", number, first, reduction.argument.data(), partial.data());
    Run("join_", number, reduction.passes[1], partial.data(), out.mutable_raw());
    return out;
  }

  // Quarters, of which sums and products are exact.
  Tensor Random(DType dtype, const Shape& shape) {
    Tensor value = Tensor::Allocate(run_.allocator(), dtype, shape).value();
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const int drawn = static_cast<int>(random_() % 17) - 8;
      if (dtype == DType::kInt64) {
        value.mutable_data<int64_t>()[i] = drawn;
      } else if (dtype == DType::kDouble) {
        value.mutable_data<double>()[i] = drawn / 4.0;
      } else {
        const float x = static_cast<float>(drawn) / 4;
        NarrowTo(dtype, &x, 1, static_cast<char*>(value.mutable_raw()) + i * DTypeSize(dtype));
      }
    }
    return value;
  }

  void Compare(int number, const std::vector<Shape>& shapes, const std::vector<int32_t>& axes,
               bool keep_dims = false) {
    ElementGroup group = Groups()[static_cast<size_t>(number)];
    group.reduction->axes = VectorOf<int32_t>(axes);
    group.reduction->attrs.keep_dims = keep_dims;
    std::string text =
        absl::StrCat("group ", number, " axes ", group.reduction->axes.DebugString());
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < group.inputs.size(); ++i) {
      inputs.push_back(Random(group.inputs[i], shapes[i]));
      absl::StrAppend(&text, " ", shapes[i].ToString());
    }
    SCOPED_TRACE(text);
    ASSERT_OK_AND_ASSIGN(const Tensor ours, RunAsGpu(number, group, inputs));
    ASSERT_OK_AND_ASSIGN(const KernelFn kernel, kernels_.groups()->make(group));
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> theirs, run_.Run(kernel, inputs, 1));
    ASSERT_EQ(ours.shape(), theirs[0].shape());
    // Products of doubles alone are rounded; the sign of a 0 of which nothing is summed is open.
    const bool rounds = group.reduction->op == "Prod" && ours.dtype() == DType::kDouble;
    for (int64_t i = 0; i < ours.num_elements(); ++i) {
      const double made = ElementOf(ours, i), expected = ElementOf(theirs[0], i);
      if (made == expected || (std::isnan(made) && std::isnan(expected))) continue;
      ASSERT_NEAR(made, expected, rounds ? 1e-9 * std::abs(expected) : 0) << i;
    }
  }

  static double ElementOf(const Tensor& tensor, int64_t i) {
    switch (tensor.dtype()) {
      case DType::kFloat:
        return tensor.data<float>()[i];
      case DType::kDouble:
        return tensor.data<double>()[i];
      case DType::kHalf:
        return static_cast<float>(tensor.data<half>()[i]);
      case DType::kBfloat16:
        return static_cast<float>(tensor.data<bfloat16>()[i]);
      case DType::kBool:
        return tensor.data<bool>()[i] ? 1 : 0;
      default:
        return static_cast<double>(tensor.data<int64_t>()[i]);
    }
  }

  static void* library;
  KernelRunner run_;
  OpRegistry ops_ = [] {
    OpRegistry ops;
    RegisterOps(ops);
    return ops;
  }();
  KernelRegistry kernels_{ops_};
  std::mt19937_64 random_{1};
  int parted_ = 0;

 public:
  ElementReductionsTest() { RegisterCpuKernels(kernels_); }
};

void* ElementReductionsTest::library = nullptr;

TEST_F(ElementReductionsTest, AllOfOneShape) {
  for (int number = 0; number < static_cast<int>(Groups().size()); ++number) {
    for (const int64_t n : {1, 2, 7, 255, 256, 1000}) {
      Compare(number, {Shape({n}), Shape({n}), Shape({n})}, {0});
      Compare(number, {Shape({n, 3}), Shape({n, 3}), Shape()}, {-1}, true);
    }
    const Shape rows({17, 40});
    for (const std::vector<int32_t>& axes : {std::vector<int32_t>{}, {0}, {1}, {0, 1}, {-1, 0}}) {
      Compare(number, {rows, rows, rows}, axes);
    }
  }
}

TEST_F(ElementReductionsTest, OfNothing) {
  for (int number = 0; number < static_cast<int>(Groups().size()); ++number) {
    Compare(number, {Shape(), Shape(), Shape()}, {});
    Compare(number, {Shape({0, 3}), Shape({0, 3}), Shape()}, {0});
    Compare(number, {Shape({0, 3}), Shape({3}), Shape()}, {1});
    Compare(number, {Shape({2, 0}), Shape({2, 1}), Shape()}, {1}, true);
  }
}

TEST_F(ElementReductionsTest, LargeOnesInParts) {
  for (int number = 0; number < static_cast<int>(Groups().size()); ++number) {
    Compare(number, {Shape({60000}), Shape(), Shape({60000})}, {0});
    Compare(number, {Shape({3, 20000}), Shape({20000}), Shape({3, 1})}, {1});
    Compare(number, {Shape({20000, 3}), Shape({3}), Shape({20000, 1})}, {0});
    Compare(number, {Shape({40, 30, 50}), Shape({30, 1}), Shape({50})}, {0, 2});
    Compare(number, {Shape({40, 30, 50}), Shape({30, 1}), Shape({50})}, {1});
    Compare(number, {Shape({20, 5, 20, 30}), Shape({30}), Shape({5, 1, 1})}, {0, 2}, true);
  }
  EXPECT_GT(parted_, 3 * static_cast<int>(Groups().size()));
}

TEST_F(ElementReductionsTest, OperandsThatBroadcast) {
  const auto groups = static_cast<uint64_t>(Groups().size());
  for (int i = 0; i < 600; ++i) {
    Dims dims;
    for (uint64_t rank = random_() % 6; rank > 0; --rank) {
      dims.push_back(static_cast<int64_t>(random_() % 4 == 0 ? 1 : 1 + random_() % 9));
    }
    std::vector<Shape> shapes = {Shape::Trusted(dims)};
    for (int k = 0; k < 2; ++k) {
      Dims some(dims.begin() + static_cast<ptrdiff_t>(random_() % (dims.size() + 1)), dims.end());
      for (int64_t& dim : some) dim = random_() % 3 == 0 ? 1 : dim;
      shapes.push_back(Shape::Trusted(some));
    }
    std::shuffle(shapes.begin(), shapes.end(), random_);
    std::vector<int32_t> axes;
    for (int32_t d = 0; d < static_cast<int32_t>(dims.size()); ++d) {
      if (random_() % 2 == 0) axes.push_back(d);
    }
    Compare(static_cast<int>(random_() % groups), shapes, axes, random_() % 2 == 0);
  }
}

// Of which no two go on alike.
TEST_F(ElementReductionsTest, EightDimensions) {
  const Shape x({2, 1, 2, 1, 2, 1, 2, 1}), y({1, 3, 1, 3, 1, 3, 1, 3});
  Compare(0, {x, y, Shape()}, {0, 1, 2, 3, 4, 5, 6, 7});
  Compare(0, {x, y, Shape()}, {0, 3, 4, 7});
  Compare(0, {x, y, Shape()}, {});
}

TEST_F(ElementReductionsTest, TooManyDimensionsAreRefused) {
  const Shape shape = Shape::Trusted(Dims(10, 2));
  ReducedMask reduced;
  for (int d = 0; d < 10; ++d) reduced.push_back(d % 2 == 0);
  EXPECT_THAT(ElementReduction::Make({{nullptr, &shape}}, shape, reduced).status(),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("dimensions")));
}

TEST_F(ElementReductionsTest, OpsAlongAxesAreTaken) {
  for (const absl::string_view op : {"Sum", "Prod", "Mean", "Max", "Min"}) {
    for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16,
                              DType::kInt8, DType::kInt32, DType::kInt64, DType::kUint16}) {
      EXPECT_TRUE(TakesReduction(op, dtype)) << op << DTypeName(dtype);
    }
    EXPECT_FALSE(TakesReduction(op, DType::kBool)) << op;
  }
  EXPECT_TRUE(TakesReduction("Any", DType::kBool));
  for (const absl::string_view op :
       {"EuclideanNorm", "L2Loss", "ArgMax", "BiasAddGrad", "Cumsum"}) {
    EXPECT_FALSE(TakesReduction(op, DType::kFloat)) << op;
  }
}

}  // namespace
}  // namespace formwork::testing
