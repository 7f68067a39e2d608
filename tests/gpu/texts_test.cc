// The texts of the GPU's kernels: that they compile, which needs no GPU.

#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gpu/arrange_items.h"
#include "gpu/array_items.h"
#include "gpu/attention_items.h"
#include "gpu/element_reductions.h"
#include "gpu/element_source.h"
#include "gpu/item_kernel.h"
#include "gpu/loss_rows.h"
#include "gpu/random_items.h"
#include "gpu/reduction_plan.h"
#include "gpu/scan_items.h"
#include "gpu/search_items.h"
#include "gpu/segment_items.h"
#include "gpu/sparse_segment_items.h"
#include "gpu/top_items.h"
#include "gpu/update_items.h"
#include "tests/gpu/compiles.h"

namespace formwork::testing {
namespace {

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

TEST(ElementReductionSourceTest, EveryTextCompiles) {
  int compiled = 0;
  for (const ReductionOp& op : ReductionOps()) {
    for (const DType dtype : kDTypes) {
      if (!TakesReduction(op.op, dtype)) continue;
      ElementGroup group;
      group.inputs = {dtype, DType::kHalf, DType::kBool};
      group.instructions = {{"c", "Cast", dtype, {1}}, {"s", "SelectV2", dtype, {2, 0, 3}}};
      group.outputs = {4};
      ExpectCompiles(ElementReductionSource(ElementProgram::Of(group), op),
                     absl::StrCat(op.op, " of ", DTypeName(dtype)));
      ++compiled;
    }
  }
  EXPECT_GT(compiled, 50);
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

TEST(SearchSourceTest, EveryTextCompiles) {
  for (const DType dtype : kDTypes) {
    for (const std::string op : {"LowerBound", "Bucketize"}) {
      const DType index = op == "Bucketize" ? DType::kInt32 : DType::kInt64;
      ASSERT_OK_AND_ASSIGN(const std::string item, SearchItemName(op, dtype, index));
      ExpectCompiles(ItemSource(item, SearchText()), item);
    }
  }
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

TEST(AttentionSourceTest, EveryTextCompiles) {
  for (const DType dtype : {DType::kHalf, DType::kBfloat16}) {
    const std::string item = AttentionItemName(dtype);
    ExpectCompiles(ItemSource(item, AttentionText()), item);
  }
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

}  // namespace
}  // namespace formwork::testing
