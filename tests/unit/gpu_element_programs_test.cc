// The kernels of elementwise programs (gpu/element_source.h), whose texts the host's compiler
// builds into a library here: what all their threads do together, one after the other, against the
// CPU's own groups.

#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "core/base/status.h"
#include "core/device/failure_word.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "gpu/element_launch.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/host_text.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

// Behind kCudaOnHost.
constexpr char kHead[] = R"(
static bool FailedEarlier(FailureWord* word, unsigned long long step) {
  return word != nullptr && word->failed_step() != 0 && word->failed_step() != step;
}
)";
// $0: a number; $1: the program's text.
constexpr char kProgram[] = R"(
#define elements elements_$0
#define elements_one elements_one_$0
namespace program_$0 {
$1
extern "C" unsigned long long bytes_$0() { return sizeof(Elements); }
extern "C" void run_$0(bool wide, unsigned blocks, unsigned threads, const void* argument,
                       FailureWord* word, unsigned long long step) {
  gridDim = {blocks};
  blockDim = {threads};
  const Elements& at = *static_cast<const Elements*>(argument);
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
      (wide ? elements : elements_one)(at, word, step);
    }
  }
}
}
#undef elements
#undef elements_one
)";

// A group, made instruction by instruction.
struct Case {
  explicit Case(std::vector<DType> inputs) { group.inputs = std::move(inputs); }

  ElementGroup group = {};

  uint16_t Add(absl::string_view op, std::vector<uint16_t> operands, DType dtype) {
    const size_t place = group.inputs.size() + group.instructions.size();
    group.instructions.push_back(
        {absl::StrCat("n", place), std::string(op), dtype, {operands.begin(), operands.end()}});
    return static_cast<uint16_t>(place);
  }
};

// x, y, z are floats.
Case Chain() {
  Case c({DType::kFloat, DType::kFloat, DType::kFloat});
  const uint16_t sum = c.Add("AddV2", {0, 1}, DType::kFloat);
  const uint16_t product = c.Add("Mul", {sum, 2}, DType::kFloat);
  const uint16_t less = c.Add("Less", {product, 0}, DType::kBool);
  const uint16_t choice = c.Add("SelectV2", {less, sum, product}, DType::kFloat);
  c.Add("Neg", {choice}, DType::kFloat);
  c.group.outputs = {sum, less, static_cast<uint16_t>(choice + 1)};
  return c;
}

// Several widths in one kernel: 4 elements of 4 bytes, though there are some of 2 and of 1.
Case MixedPrecision() {
  Case c({DType::kFloat, DType::kHalf, DType::kFloat});
  const uint16_t narrow = c.Add("Cast", {0}, DType::kHalf);
  const uint16_t product = c.Add("Mul", {narrow, 1}, DType::kHalf);
  const uint16_t wide = c.Add("Cast", {product}, DType::kFloat);
  const uint16_t whole = c.Add("Cast", {2}, DType::kInt8);
  const uint16_t sum = c.Add("AddV2", {wide, 2}, DType::kFloat);
  c.group.outputs = {product, whole, sum};
  return c;
}

Case Integers() {
  Case c({DType::kInt64, DType::kInt64, DType::kInt64});
  const uint16_t product = c.Add("Mul", {0, 1}, DType::kInt64);
  const uint16_t most = c.Add("Maximum", {product, 2}, DType::kInt64);
  const uint16_t equal = c.Add("NotEqual", {most, product}, DType::kBool);
  const uint16_t both = c.Add("LogicalNot", {equal}, DType::kBool);
  c.group.outputs = {most, both};
  return c;
}

// A value of its own shape beside one of the common shape, where the inputs' differ.
Case Parts() {
  Case c({DType::kFloat, DType::kFloat, DType::kFloat});
  const uint16_t twice = c.Add("AddV2", {0, 0}, DType::kFloat);
  const uint16_t square = c.Add("Square", {1}, DType::kFloat);
  const uint16_t sum = c.Add("AddV2", {twice, square}, DType::kFloat);
  const uint16_t all = c.Add("Mul", {sum, 2}, DType::kFloat);
  c.group.outputs = {twice, square, sum, all};
  return c;
}

// A step of training: the second and third outputs become variables.
Case Step() {
  Case c({DType::kFloat, DType::kFloat, DType::kFloat});
  const uint16_t moment = c.Add("AddV2", {0, 2}, DType::kFloat);
  const uint16_t by = c.Add("Mul", {moment, moment}, DType::kFloat);
  const uint16_t next = c.Add("Sub", {1, by}, DType::kFloat);
  c.group.outputs = {by, moment, next};
  c.group.stores = {{"m", 1}, {"v", 2}};
  return c;
}

std::vector<Case> Cases() { return {Chain(), MixedPrecision(), Integers(), Parts(), Step()}; }

class ElementProgramsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (library != nullptr) return;
    std::string text =
        absl::StrCat("#include \"gpu/element_access.h\"\n#include \"gpu/item_functions.h\"\n",
                     kCudaOnHost, kHead);
    int number = 0;
    for (const Case& each : Cases()) {
      absl::StrAppend(&text,
                      absl::Substitute(kProgram, number++,
                                       ElementSourceOfProgram(ElementProgram::Of(each.group))));
    }
    library = LoadText(text);
    ASSERT_NE(library, nullptr);
  }

  template <typename Function>
  static Function* Find(absl::string_view name, int number) {
    return FindInText<Function>(library, absl::StrCat(name, number));
  }

  // What the group's kernel makes of the inputs in `blocks` blocks of 3 threads.
  absl::StatusOr<std::vector<Tensor>> RunAsGpu(int number, const std::vector<Tensor>& inputs,
                                               const std::vector<Tensor>& befores = {},
                                               FailureWord* word = nullptr, unsigned blocks = 2) {
    const ElementGroup group = Cases()[static_cast<size_t>(number)].group;
    const ElementProgram program = ElementProgram::Of(group);
    std::vector<const Shape*> shapes;
    std::vector<ElementInput> from;
    for (const Tensor& input : inputs) {
      shapes.push_back(&input.shape());
      from.push_back({input.raw(), shapes.back()});
    }
    std::vector<Shape> made(group.outputs.size());
    FORMWORK_RETURN_IF_ERROR(group.OutputShapes(shapes, absl::MakeSpan(made)));
    std::vector<Tensor> outputs;
    for (size_t k = 0; k < made.size(); ++k) {
      FORMWORK_ASSIGN_OR_RETURN(
          outputs.emplace_back(),
          Tensor::Allocate(run_.allocator(), group.dtype(group.outputs[k]), made[k]));
      if (outputs[k].bytes() > 0) std::memset(outputs[k].mutable_raw(), 0x2a, outputs[k].bytes());
    }
    for (size_t first = 0; first < outputs.size(); ++first) {
      const auto has_shape = [&](size_t k) { return made[k] == made[first]; };
      bool done = made[first].num_elements() == 0;
      for (size_t k = 0; k < first; ++k) done = done || has_shape(k);
      if (done) continue;
      std::vector<ElementOutput> to;
      for (size_t k = 0; k < outputs.size(); ++k) {
        const bool keeps = k < befores.size() && befores[k].has_value();
        to.push_back({has_shape(k) ? outputs[k].mutable_raw() : nullptr,
                      keeps && has_shape(k) ? befores[k].raw() : nullptr});
      }
      FORMWORK_ASSIGN_OR_RETURN(ElementLaunch launch,
                                ElementLaunch::Make(program, from, to, made[first]));
      EXPECT_EQ(Find<uint64_t()>("bytes_", number)(), launch.argument.size() * sizeof(uint64_t));
      Find<void(bool, unsigned, unsigned, const void*, FailureWord*, uint64_t)>("run_", number)(
          launch.wide, blocks, 3, launch.argument.data(), word, 0);
      wide_ += launch.wide ? 1 : 0;
      single_ += launch.wide ? 0 : 1;
    }
    return outputs;
  }

  absl::StatusOr<std::vector<Tensor>> RunAsCpu(int number, std::vector<Tensor> inputs) {
    const ElementGroup group = Cases()[static_cast<size_t>(number)].group;
    FORMWORK_ASSIGN_OR_RETURN(const KernelFn kernel, kernels_.groups()->make(group));
    return run_.Run(kernel, std::move(inputs), static_cast<int>(group.outputs.size()));
  }

  Tensor Random(DType dtype, const Shape& shape) {
    Tensor value = Tensor::Allocate(run_.allocator(), dtype, shape).value();
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const int drawn = static_cast<int>(random_() % 200) - 100;
      const float x = static_cast<float>(drawn) / 16;
      switch (dtype) {
        case DType::kHalf:
          value.mutable_data<half>()[i] = half(x);
          break;
        case DType::kInt64:
          value.mutable_data<int64_t>()[i] = drawn;
          break;
        default:
          value.mutable_data<float>()[i] = x;
      }
    }
    return value;
  }

  void Compare(int number, const std::vector<Shape>& shapes) {
    const ElementGroup group = Cases()[static_cast<size_t>(number)].group;
    std::string text = absl::StrCat("program ", number);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < group.inputs.size(); ++i) {
      inputs.push_back(Random(group.inputs[i], shapes[i]));
      absl::StrAppend(&text, " ", shapes[i].ToString());
    }
    SCOPED_TRACE(text);
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> ours, RunAsGpu(number, inputs));
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> theirs, RunAsCpu(number, inputs));
    for (size_t k = 0; k < ours.size(); ++k) {
      ASSERT_EQ(ours[k].shape(), theirs[k].shape()) << k;
      // Nothing but sums, products and roundings: the same bits.
      EXPECT_EQ(std::memcmp(ours[k].raw(), theirs[k].raw(), ours[k].bytes()), 0)
          << k << ": " << ours[k].DebugString(20) << "\n"
          << theirs[k].DebugString(20);
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
  int wide_ = 0, single_ = 0;

 public:
  ElementProgramsTest() { RegisterCpuKernels(kernels_); }
};

void* ElementProgramsTest::library = nullptr;

TEST_F(ElementProgramsTest, OperandsOfOneShapeAndScalars) {
  const int programs = static_cast<int>(Cases().size());
  for (int number = 0; number < programs; ++number) {
    for (const int64_t n : {1, 2, 3, 4, 5, 16, 17, 31, 100, 1000}) {
      Compare(number, {Shape({n}), Shape({n}), Shape({n})});
      Compare(number, {Shape({n}), Shape(), Shape({n})});
      Compare(number, {Shape({1, n}), Shape({n}), Shape({1})});
    }
    Compare(number, {Shape(), Shape(), Shape()});
    Compare(number, {Shape({0, 3}), Shape({0, 3}), Shape()});
  }
  EXPECT_EQ(single_, 0);
}

TEST_F(ElementProgramsTest, OperandsThatBroadcast) {
  const int programs = static_cast<int>(Cases().size());
  for (int number = 0; number < programs; ++number) {
    Compare(number, {Shape({3, 8}), Shape({8}), Shape({3, 1})});
    Compare(number, {Shape({3, 7}), Shape({7}), Shape({3, 1})});
    Compare(number, {Shape({5, 1, 4}), Shape({3, 4}), Shape({1})});
    Compare(number, {Shape({2, 3, 16}), Shape({2, 1, 16}), Shape({3, 1})});
    Compare(number, {Shape({2, 1, 3, 1, 5}), Shape({4, 1, 6, 1}), Shape({2, 4, 3, 6, 5})});
    Compare(number, {Shape({1, 0}), Shape({5, 1}), Shape()});
    Compare(number, {Shape({8, 1, 3}), Shape({8, 4, 1}), Shape({4, 3})});
  }
  for (int i = 0; i < 300; ++i) {
    Dims dims;
    for (uint64_t rank = random_() % 6; rank > 0; --rank) {
      dims.push_back(static_cast<int64_t>(random_() % 3 == 0 ? 16 : 1 + random_() % 5));
    }
    std::vector<Shape> shapes;
    for (int k = 0; k < 3; ++k) {
      Dims some(dims.begin() + static_cast<ptrdiff_t>(random_() % (dims.size() + 1)), dims.end());
      for (int64_t& dim : some) dim = random_() % 3 == 0 ? 1 : dim;
      shapes.push_back(Shape::Trusted(some));
    }
    Compare(static_cast<int>(random_() % static_cast<uint64_t>(programs)), shapes);
  }
  EXPECT_GT(wide_, 300);
  EXPECT_GT(single_, 50);
}

TEST_F(ElementProgramsTest, AnOutputMayLieWhereAnInputIs) {
  const ElementGroup group = Step().group;
  const ElementProgram program = ElementProgram::Of(group);
  const Shape shape({37});
  std::vector<Tensor> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(Random(DType::kFloat, shape));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> expected, RunAsCpu(4, inputs));
  Tensor by = Random(DType::kFloat, shape);
  ASSERT_OK_AND_ASSIGN(
      ElementLaunch launch,
      ElementLaunch::Make(
          program,
          {{inputs[0].raw(), &shape}, {inputs[1].raw(), &shape}, {inputs[2].raw(), &shape}},
          {{by.mutable_raw(), nullptr},
           {const_cast<void*>(inputs[0].raw()), nullptr},
           {const_cast<void*>(inputs[1].raw()), nullptr}},
          shape));
  Find<void(bool, unsigned, unsigned, const void*, FailureWord*, uint64_t)>("run_", 4)(
      launch.wide, 1, 2, launch.argument.data(), nullptr, 0);
  EXPECT_EQ(std::memcmp(by.raw(), expected[0].raw(), by.bytes()), 0);
  EXPECT_EQ(std::memcmp(inputs[0].raw(), expected[1].raw(), by.bytes()), 0);
  EXPECT_EQ(std::memcmp(inputs[1].raw(), expected[2].raw(), by.bytes()), 0);
}

TEST_F(ElementProgramsTest, WhatIsKeptAfterAFailureIsTheValueBefore) {
  const Shape shape({21});
  std::vector<Tensor> inputs, befores = {Tensor(), Random(DType::kFloat, shape), Tensor()};
  for (int i = 0; i < 3; ++i) inputs.push_back(Random(DType::kFloat, shape));
  FailureWord word;
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> fine, RunAsGpu(4, inputs, befores, &word));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> expected, RunAsCpu(4, inputs));
  EXPECT_EQ(std::memcmp(fine[1].raw(), expected[1].raw(), fine[1].bytes()), 0);
  word.Fail(7, 1);
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> failed, RunAsGpu(4, inputs, befores, &word));
  EXPECT_EQ(std::memcmp(failed[1].raw(), befores[1].raw(), failed[1].bytes()), 0);
  // The third was in its place.
  const std::vector<char> untouched(failed[2].bytes(), 0x2a);
  EXPECT_EQ(std::memcmp(failed[2].raw(), untouched.data(), failed[2].bytes()), 0);
}

TEST_F(ElementProgramsTest, TooManyDimensionsAreRefused) {
  const ElementProgram program = ElementProgram::Of(*FindElementOp("Add"), DType::kFloat);
  Dims many, ones;
  for (int d = 0; d < 10; ++d) {
    many.push_back(2);
    ones.push_back(d % 2 == 0 ? 1 : 2);
  }
  const Shape all = Shape::Trusted(many), some = Shape::Trusted(ones);
  EXPECT_THAT(
      ElementLaunch::Make(program, {{nullptr, &all}, {nullptr, &some}}, {{nullptr, nullptr}}, all)
          .status(),
      StatusIs(StatusCode::kUnimplemented, HasSubstr("dimensions")));
}

}  // namespace
}  // namespace formwork::testing
