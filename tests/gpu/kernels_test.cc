// The GPU's kernels: that their texts compile, which needs no GPU, and on a GPU the op cases.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "gpu/arrange_items.h"
#include "gpu/array_items.h"
#include "gpu/color_items.h"
#include "gpu/conv_items.h"
#include "gpu/crop_items.h"
#include "gpu/cuda_kernel.h"
#include "gpu/element_source.h"
#include "gpu/gpu.h"
#include "gpu/item_kernel.h"
#include "gpu/loss_rows.h"
#include "gpu/norm_items.h"
#include "gpu/pool_items.h"
#include "gpu/random_items.h"
#include "gpu/reduction_plan.h"
#include "gpu/resize_items.h"
#include "gpu/scan_items.h"
#include "gpu/segment_items.h"
#include "gpu/sparse_segment_items.h"
#include "gpu/top_items.h"
#include "gpu/transform_items.h"
#include "gpu/update_items.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/unit/engine_fixture.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

constexpr DType kDTypes[] = {DType::kFloat, DType::kDouble, DType::kHalf,   DType::kBfloat16,
                             DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64,
                             DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64,
                             DType::kBool};

// For the oldest and the newest GPU that there are texts for.
void ExpectCompiles(const std::string& text, const std::string& what) {
  for (const int major : {8, 9}) EXPECT_OK(CompileCuda(text, major, 0)) << what << " sm_" << major;
}

// Chooses, casts, and stores two of what it makes.
ElementGroup StepOf(DType dtype) {
  ElementGroup group;
  group.inputs = {dtype, dtype, dtype};
  group.instructions = {{"m", "Mul", dtype, {0, 2}},         {"l", "Less", DType::kBool, {3, 1}},
                        {"s", "SelectV2", dtype, {4, 3, 1}}, {"c", "Cast", DType::kFloat, {5}},
                        {"r", "Rsqrt", DType::kFloat, {6}},  {"t", "Tanh", dtype, {5}}};
  group.outputs = {3, 7, 8};
  group.stores = {{"a", 0}, {"b", 2}};
  return group;
}

TEST(ElementSourceTest, EveryTextCompiles) {
  int compiled = 0;
  for (const ElementOp& op : ElementOps()) {
    for (const DType dtype : kDTypes) {
      if (!op.Takes(dtype)) continue;
      const std::string text = ElementSource(ElementProgram::Of(op, dtype));
      EXPECT_OK(CompileCuda(text, 9, 0)) << op.name << " of " << DTypeName(dtype);
      ++compiled;
    }
  }
  for (const DType from : kDTypes) {
    for (const DType to :
         {DType::kFloat, DType::kHalf, DType::kInt32, DType::kUint64, DType::kBool}) {
      ExpectCompiles(ElementSource(ElementProgram::OfCast(from, to)),
                     absl::StrCat("Cast of ", DTypeName(from), " to ", DTypeName(to)));
      ++compiled;
    }
  }
  const BoundElementOp relu("LeakyRelu", *FindElementOp("_LeakyRelu"), 0.2);
  const BoundElementOp relu_grad("LeakyReluGrad", *FindElementOp("_LeakyReluGrad"), 1e300);
  for (const DType dtype : {DType::kFloat, DType::kHalf, DType::kDouble}) {
    ExpectCompiles(ElementSource(ElementProgram::Of(relu.op, dtype)), "LeakyRelu");
    ExpectCompiles(ElementSource(ElementProgram::Of(relu_grad.op, dtype)), "LeakyReluGrad");
    ExpectCompiles(ElementSource(ElementProgram::Of(StepOf(dtype))), "a step of training");
    compiled += 3;
  }
  std::cout << compiled << " texts\n";
}

TEST(ItemSourceTest, EveryTextCompiles) {
  const std::vector<std::string> units = {"uint8_t", "uint16_t", "uint32_t", "uint64_t", "Bytes16"};
  std::vector<std::string> items;
  for (const std::string& unit : units) {
    items.push_back(absl::StrCat("CopyItem<", unit, ">"));
    items.push_back(absl::StrCat("FillItem<", unit, ">"));
    items.push_back(absl::StrCat("SetItem<", unit, ">"));
  }
  for (const std::string index : {"int32_t", "int64_t"}) {
    items.push_back(absl::StrCat("CheckIndicesItem<", index, ">"));
    for (const std::string& unit : units) {
      items.push_back(absl::StrCat("GatherItem<", unit, ", ", index, ">"));
      items.push_back(absl::StrCat("GatherNdItem<", unit, ", ", index, ">"));
      items.push_back(absl::StrCat("ScatterItem<", unit, ", ", index, ", ScatterUpdate>"));
    }
    for (const std::string op : {"Add", "Sub", "Mul", "Min", "Max"}) {
      for (const std::string type :
           {"float", "double", "int32_t", "int64_t", "uint32_t", "uint64_t"}) {
        if ((op == "Sub" || op == "Mul") && type != "float") continue;  // As Add.
        items.push_back(absl::StrCat("ScatterItem<", type, ", ", index, ", Scatter", op, ">"));
      }
    }
  }
  for (const std::string& item : items) ExpectCompiles(ItemSource(item), item);
  std::cout << items.size() << " texts\n";
}

TEST(ArrangeSourceTest, EveryTextCompiles) {
  std::vector<std::string> items = {"CheckLengthsItem<int32_t>", "CheckLengthsItem<int64_t>"};
  for (const std::string unit : {"uint8_t", "uint16_t", "uint32_t", "uint64_t", "Bytes16"}) {
    for (const std::string item : {"ShiftItem", "BlocksItem", "DiagonalPartItem", "DiagonalItem"}) {
      items.push_back(absl::StrCat(item, "<", unit, ">"));
    }
    for (const std::string length : {"int32_t", "int64_t"}) {
      items.push_back(absl::StrCat("ReverseSequenceItem<", unit, ", ", length, ">"));
    }
  }
  for (const DType dtype : kDTypes) {
    const absl::StatusOr<std::string> item = FoldItemName(dtype);
    if (item.ok()) items.push_back(*item);
  }
  for (const std::string& item : items) ExpectCompiles(ItemSource(item, ArrangeText()), item);
  std::cout << items.size() << " texts\n";
}

TEST(ArraySourceTest, EveryTextCompiles) {
  std::vector<std::string> items;
  for (const std::string unit : {"uint8_t", "uint16_t", "uint32_t", "uint64_t", "Bytes16"}) {
    items.push_back(absl::StrCat("SelectItem<", unit, ">"));
    items.push_back(absl::StrCat("BandItem<", unit, ">"));
    for (const std::string index : {"uint8_t", "int8_t", "int32_t", "int64_t"}) {
      items.push_back(absl::StrCat("OneHotItem<", unit, ", ", index, ">"));
    }
  }
  for (const DType dtype : kDTypes) {
    if (dtype == DType::kBool) continue;
    items.push_back(absl::StrCat("RangeItem<", ElementTypeName(dtype), ">"));
    items.push_back(absl::StrCat("SumItem<", ElementTypeName(dtype), ">"));
  }
  for (const std::string& item : items) ExpectCompiles(ArraySource(item), item);
  std::cout << items.size() << " texts\n";
}

TEST(SegmentSourceTest, EveryTextCompiles) {
  int compiled = 0;
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    for (const DType dtype : kDTypes) {
      for (const SegmentOp& op : SegmentOps()) {
        const absl::StatusOr<std::string> item = SegmentItemName(op, dtype, index);
        if (!item.ok()) continue;
        ExpectCompiles(SegmentSource(*item), *item);
        ++compiled;
      }
    }
    for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kInt32, DType::kInt64}) {
      ASSERT_OK_AND_ASSIGN(const std::string item, CountItemName(dtype, index));
      ExpectCompiles(SegmentSource(item), item);
      ++compiled;
    }
  }
  std::cout << compiled << " texts\n";
}

TEST(SparseSegmentSourceTest, EveryTextCompiles) {
  std::set<std::string> items;  // Several ops have the same.
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    items.insert(CountIdsItemName(index));
    for (const DType ids : {DType::kInt32, DType::kInt64}) {
      items.insert(CheckRowsItemName(index, ids));
      for (const SparseSegmentOp& op : SparseSegmentOps()) {
        for (const DType dtype : kDTypes) {
          if (index != ids && dtype != DType::kFloat) continue;
          const absl::StatusOr<std::string> item = SparseSegmentItemName(op, dtype, index, ids);
          if (item.ok()) items.insert(*item);
        }
      }
    }
  }
  for (const std::string& item : items) {
    ExpectCompiles(ItemSource(item, SparseSegmentText()), item);
  }
  std::cout << items.size() << " texts\n";
}

TEST(ResizeSourceTest, EveryTextCompiles) {
  std::vector<std::string> items;
  for (const std::string unit : {"uint8_t", "uint16_t", "uint32_t", "uint64_t", "Bytes16"}) {
    items.push_back(absl::StrCat("NearestItem<", unit, ">"));
  }
  for (const std::string op :
       {"ResizeBilinear", "ResizeBilinearGrad", "ResizeNearestNeighborGrad"}) {
    for (const DType dtype : kDTypes) {
      const absl::StatusOr<std::string> item = ResizeItemName(op, dtype);
      if (item.ok()) items.push_back(*item);
    }
  }
  for (const std::string& item : items) ExpectCompiles(ItemSource(item, ResizeText()), item);
  std::cout << items.size() << " texts\n";
}

TEST(ColorSourceTest, EveryTextCompiles) {
  std::vector<std::string> items = {"ContrastSumItem", "ContrastMeanItem", "ContrastItem"};
  for (const DType dtype : kDTypes) {
    for (const ColorOp& op : ColorOps()) {
      const absl::StatusOr<std::string> item = ColorItemName(op, dtype);
      if (item.ok()) items.push_back(*item);
    }
  }
  for (const std::string& item : items) ExpectCompiles(ItemSource(item, ColorText()), item);
  std::cout << items.size() << " texts\n";
}

TEST(CropSourceTest, EveryTextCompiles) {
  std::vector<std::string> items = {"CheckBoxesItem"};
  for (const DType dtype : kDTypes) {
    for (const std::string op : {"", "GradBoxes", "GradImage"}) {
      const absl::StatusOr<std::string> item =
          CropItemName(absl::StrCat("CropAndResize", op), dtype);
      if (item.ok()) items.push_back(*item);
    }
  }
  for (const std::string& item : items) ExpectCompiles(ItemSource(item, CropText()), item);
  std::cout << items.size() << " texts\n";
}

TEST(TransformSourceTest, EveryTextCompiles) {
  for (const DType dtype : kDTypes) {
    const absl::StatusOr<std::string> item = TransformItemName(dtype);
    if (item.ok()) ExpectCompiles(ItemSource(*item, TransformText()), *item);
  }
}

TEST(ScanSourceTest, EveryTextCompiles) {
  int compiled = 0;
  for (const ScanOp& op : ScanOps()) {
    for (const DType dtype : kDTypes) {
      const absl::StatusOr<std::string> item = ScanItemName(op, dtype);
      if (!item.ok()) continue;
      ExpectCompiles(ScanSource(*item), *item);
      ++compiled;
    }
  }
  std::cout << compiled << " texts\n";
}

TEST(TopSourceTest, EveryTextCompiles) {
  int compiled = 0;
  for (const DType dtype : kDTypes) {
    if (dtype == DType::kBool) continue;
    for (const DType index : {DType::kInt16, DType::kInt32, DType::kInt64}) {
      if (index != DType::kInt32 && dtype != DType::kFloat) continue;
      ExpectCompiles(TopSource(dtype, index), absl::StrCat("first of ", DTypeName(dtype)));
      for (const std::string item : {"RankItem", "PickedItem"}) {
        const std::string name = TopItemName(item, dtype, index);
        ExpectCompiles(TopItemSource(name), name);
      }
      compiled += 3;
    }
  }
  for (const DType key : {DType::kFloat, DType::kDouble}) {
    ExpectCompiles(TopItemSource(OrderItemName(key)), OrderItemName(key));
  }
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    ExpectCompiles(InTopSource(index), "in top");
  }
  std::cout << compiled + 4 << " texts\n";
}

TEST(UpdateSourceTest, EveryTextCompiles) {
  int compiled = 0;
  for (const OptimizerOp& op : OptimizerOps()) {
    for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
      for (const bool other : {false, true}) {
        if (other && op.chosen_by.empty()) continue;
        AttrMap attrs;
        if (other) attrs.Set(std::string(op.chosen_by), true);
        ASSERT_OK_AND_ASSIGN(const std::string item, OptimizerItemName(op, dtype, attrs));
        ExpectCompiles(UpdateSource(item), item);
        ++compiled;
      }
    }
  }
  for (const DType dtype : kDTypes) {
    if (dtype == DType::kBool) continue;
    ASSERT_OK_AND_ASSIGN(const std::string item, UpdateItemName(dtype, dtype == DType::kInt32));
    ExpectCompiles(UpdateSource(item), item);
    ++compiled;
  }
  std::cout << compiled << " texts\n";
}

TEST(NormSourceTest, EveryTextCompiles) {
  for (int stage = 0; stage < kNormStages; ++stage) {
    for (const DType dtype : {DType::kFloat, DType::kHalf, DType::kBfloat16}) {
      const std::string item = NormItemName(static_cast<NormStage>(stage), dtype);
      ExpectCompiles(ItemSource(item, NormText()), item);
    }
  }
}

TEST(PoolSourceTest, EveryTextCompiles) {
  for (const std::string op : {"AvgPool", "AvgPoolGrad", "MaxPool", "MaxPoolGrad"}) {
    for (const DType dtype : kDTypes) {
      const absl::StatusOr<std::string> item = PoolItemName(op, dtype);
      if (item.ok()) ExpectCompiles(ItemSource(*item, PoolText()), *item);
    }
  }
}

TEST(ConvSourceTest, EveryTextCompiles) {
  for (const std::string unit : {"uint8_t", "uint16_t", "uint32_t", "uint64_t", "Bytes16"}) {
    const std::string item = absl::StrCat("PatchItem<", unit, ">");
    ExpectCompiles(ItemSource(item, ConvText()), item);
  }
  for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
    for (const ConvStage stage : {ConvStage::kUnpatch, ConvStage::kForward, ConvStage::kInput,
                                  ConvStage::kFilter, ConvStage::kFilterSums}) {
      const std::string item = ConvItemName(stage, dtype);
      ExpectCompiles(ItemSource(item, ConvText()), item);
    }
  }
}

TEST(RandomSourceTest, EveryTextCompiles) {
  ExpectCompiles(RandomSource("SkipItem"), "SkipItem");
  std::set<std::string> items;  // Several ops have the same.
  for (const RandomOp& op : RandomOps()) {
    for (const DType dtype : kDTypes) {
      const absl::StatusOr<std::string> item = RandomItemName(op, dtype);
      if (item.ok()) items.insert(*item);
    }
  }
  for (const std::string& item : items) ExpectCompiles(RandomSource(item), item);
  EXPECT_EQ(items.size(), 20u);
  std::cout << items.size() << " texts\n";
}

TEST(LossSourceTest, EveryTextCompiles) {
  for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
    for (const DType labels : {DType::kInvalid, DType::kInt32, DType::kInt64}) {
      ExpectCompiles(LossSource(dtype, labels), absl::StrCat("loss of ", DTypeName(dtype)));
    }
  }
}

TEST(ReduceSourceTest, EveryTextCompiles) {
  int compiled = 0;
  for (const ReductionOp& op : ReductionOps()) {
    const bool places = op.op == "ArgMax" || op.op == "ArgMin";
    for (const DType dtype : kDTypes) {
      if (!op.Takes(dtype)) continue;
      const DType out = places ? DType::kInt64 : dtype;
      ExpectCompiles(ReduceSource(op, dtype, out, true, true),
                     absl::StrCat(op.op, " of ", DTypeName(dtype)));
      ++compiled;
    }
    const DType dtype = op.Takes(DType::kBool) && !places ? DType::kBool : DType::kHalf;
    const DType out = places ? DType::kInt32 : dtype;
    ExpectCompiles(ReduceSource(op, dtype, out, true, false), absl::StrCat(op.op, ", first"));
    ExpectCompiles(ReduceSource(op, dtype, out, false, true), absl::StrCat(op.op, ", last"));
    compiled += 2;
  }
  for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
    for (const bool log : {false, true}) {
      ExpectCompiles(SoftmaxSource(dtype, log), absl::StrCat("softmax of ", DTypeName(dtype)));
      ++compiled;
    }
  }
  for (const DType dtype : {DType::kFloat, DType::kHalf, DType::kBfloat16}) {
    ExpectCompiles(LayerNormSource(dtype), absl::StrCat("layer norm of ", DTypeName(dtype)));
    ++compiled;
  }
  std::cout << compiled << " texts\n";
}

class GpuOpCaseTest : public EngineTest {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Device>> device = NewCudaDevice(0);
    if (!device.ok()) GTEST_SKIP() << device.status();
    device_ = *std::move(device);
    EngineOptions options;
    options.device = device_.get();
    options.register_device_kernels = &RegisterCudaKernels;
    Start(options);
  }
  void TearDown() override { engine_.reset(); }

  // The case as a function of its inputs: what it returned is compared with TensorFlow's results.
  absl::Status RunCase(const OpCase& op_case, const OpDef& op) {
    FORMWORK_ASSIGN_OR_RETURN(const AttrMap attrs, TypedAttrs(op_case, op));
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<DType> dtypes, ArgDTypes(op.inputs, attrs));
    std::string text;
    std::vector<std::string> names;
    std::vector<TensorSpec> specs;
    std::vector<Tensor> values;
    for (size_t i = 0; i < dtypes.size(); ++i) {
      names.push_back(absl::StrCat("x", i));
      absl::StrAppend(&text, names.back(), " = Placeholder dtype=", DTypeName(dtypes[i]), "\n");
      specs.push_back(Spec(absl::StrCat(names.back(), ":0"), dtypes[i]));
      FORMWORK_ASSIGN_OR_RETURN(values.emplace_back(),
                                MakeValue(op_case.inputs[i], engine_->allocator()));
    }
    absl::StrAppend(&text, "y = ", op_case.op, "(", absl::StrJoin(names, ", "), ")");
    for (const auto& [name, value] : op_case.attrs) absl::StrAppend(&text, " ", name, "=", value);
    std::vector<std::string> outputs;
    for (size_t i = 0; i < op_case.outputs.size(); ++i) outputs.push_back(absl::StrCat("y:", i));
    // Of a case that is to fail no outputs are written down, but what nobody wants is not run.
    if (outputs.empty() && !op.outputs.empty()) outputs.push_back("y:0");
    FORMWORK_ASSIGN_OR_RETURN(const Registered made, Register("f", text, specs, outputs, {}, {},
                                                              /*replace=*/true));
    const CallResult result = Run(made.function.id, std::move(values));
    FORMWORK_RETURN_IF_ERROR(result.status);
    for (size_t i = 0; i < op_case.outputs.size(); ++i) {
      FORMWORK_RETURN_IF_ERROR(
          CompareValue(op_case.outputs[i], result.outputs[i].tensor, op_case.tolerance));
    }
    return absl::OkStatus();
  }

  // RunCase feeds no variables.
  static bool OfResources(const OpCase& op_case) {
    return std::any_of(op_case.inputs.begin(), op_case.inputs.end(), [](const ValueText& input) {
      return input.dtype == DType::kResource || input.dtype == DType::kString;
    });
  }

  std::unique_ptr<Device> device_;
};

TEST_F(GpuOpCaseTest, KernelsComputeWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  RegisterCudaKernels(kernels);
  int tried = 0, refused = 0;
  for (const std::string file :
       {"elementwise", "nn", "matmul", "array", "array_layout", "cast", "crop", "gather", "image",
        "image_color", "random", "reduction", "segment"}) {
    std::ifstream stream(absl::StrCat("tests/ops/", file, ".optest"));
    std::stringstream text;
    text << stream.rdbuf();
    ASSERT_OK_AND_ASSIGN(const std::vector<OpCase> cases, ParseOpCases(file, text.str()));
    for (OpCase op_case : cases) {
      if (kernels.Find(op_case.op) == nullptr || OfResources(op_case)) continue;
      if (IsOrderOpen(op_case)) continue;
      // Its logarithms, sines and cosines are not the host's to the last bit.
      if (file == "random" && absl::StrContains(op_case.op, "Normal")) op_case.tolerance.reset();
      const absl::Status status = RunCase(op_case, *ops.Find(op_case.op));
      if (op_case.error != absl::StatusCode::kOk) {
        // Of shapes, or of elements: then by the call's word.
        EXPECT_EQ(status.code(), op_case.error) << file << ":" << op_case.line << " " << status;
        ++refused;
        continue;
      }
      EXPECT_OK(status) << file << ":" << op_case.line << " " << op_case.op;
      ++tried;
    }
  }
  int64_t on_host = 0;
  for (const auto& [op, nodes] : engine_->Stats().fallbacks) on_host += static_cast<int64_t>(nodes);
  EXPECT_GT(tried, 1000);
  EXPECT_GT(refused, 20);
  EXPECT_LT(on_host, tried / 2);  // Complex numbers, among others.
  std::cout << tried << " cases, " << on_host << " of them on the host, and " << refused
            << " that fail\n";
}

// What normalises rows is one node; TensorFlow's op for it is in no op case.
TEST_F(GpuOpCaseTest, LayerNormsAreThoseOfTheirParts) {
  ASSERT_OK_AND_ASSIGN(const Registered norm,
                       Register("norm", R"(
    x = Placeholder dtype=float
    e = Const float[] 0.01
    l = Const int32[1] -1
    g = Const float[4] 1 2 3 4
    b = Const float[4] 0 -1 0 1
    m = Mean(x, l) T=float Tidx=int32 keep_dims=true
    d = SquaredDifference(x, m) T=float
    v = Mean(d, l) T=float Tidx=int32 keep_dims=true
    w = AddV2(v, e) T=float
    r = Rsqrt(w) T=float
    i = Mul(r, g) T=float
    p = Mul(x, i) T=float
    k = Mul(m, i) T=float
    q = Sub(b, k) T=float
    y = AddV2(p, q) T=float
  )",
                                {{"x:0", DType::kFloat, PartialShape(Shape({3, 4}))}}, {"y:0"}));
  const Tensor x = TensorOf<float>(Shape({3, 4}), {1, 2, 3, 4, 0, 0, 0, 0, -5, 5, -5, 5});
  const CallResult result = Run(norm.function.id, Owned(Tensor(x)));
  ASSERT_OK(result.status);
  const float one = 1 / std::sqrt(1.25f + 0.01f), five = 5 / std::sqrt(25.01f);
  const float expected[] = {-1.5f * one, -1.0f * one - 1, 1.5f * one, 6.0f * one + 1, 0, -1, 0, 1,
                            -five,       2 * five - 1,    -3 * five,  4 * five + 1};
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(result.outputs[0].tensor.data<float>()[i], expected[i], 1e-5) << i;
  }
}

// The calls of FailureWordTest (tests/streams), on the GPU.
TEST_F(GpuOpCaseTest, NothingAfterABadIndexHasAnEffect) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(const Registered step, Register("step", R"(
    x = Placeholder dtype=float
    i = Placeholder dtype=int64
    v = Placeholder dtype=resource
    nought = Const int64[] 0
    two = Const float[2] 10 20
    a = AssignVariableOp(v, x) dtype=float
    g = GatherV2(two, i, nought, ^a) Tparams=float Tindices=int64 Taxis=int64
    b = AssignAddVariableOp(v, g, ^a) dtype=float
    r = ReadVariableOp(v, ^b) dtype=float
    m = Mul(r, x) T=float
    c = AssignVariableOp(v, m) dtype=float
  )",
                                                       {Spec("x:0"), Spec("i:0", DType::kInt64)},
                                                       {"m:0"}, {{"v:0", "v"}}, {"a", "b", "c"}));
  for (int round = 0; round < 50; ++round) {
    const CallResult good =
        Run(step.function.id, Owned(Tensor::Scalar(2.0f), Tensor::Scalar(int64_t{1})));
    ASSERT_OK(good.status);
    EXPECT_EQ(good.outputs[0].tensor.scalar<float>(), 44);
    EXPECT_EQ(ValueOf("v"), 44);
    const CallResult bad =
        Run(step.function.id, Owned(Tensor::Scalar(3.0f), Tensor::Scalar(int64_t{7 + round})));
    EXPECT_THAT(bad.status, StatusIs(absl::StatusCode::kInvalidArgument,
                                     ::testing::HasSubstr(absl::StrCat(
                                         "node 'g': indices = ", 7 + round, " is not in [0, 2)"))));
    EXPECT_EQ(ValueOf("v"), 3);  // What came before stays.
  }
}

}  // namespace
}  // namespace formwork::testing
