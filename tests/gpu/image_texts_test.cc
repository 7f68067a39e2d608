// The same as texts_test.cc of what GPUs do of images and volumes.

#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gpu/color_items.h"
#include "gpu/conv3d_items.h"
#include "gpu/conv_items.h"
#include "gpu/crop_items.h"
#include "gpu/item_source.h"
#include "gpu/lrn_items.h"
#include "gpu/norm_items.h"
#include "gpu/pool3d_items.h"
#include "gpu/pool_items.h"
#include "gpu/resize_items.h"
#include "gpu/transform_items.h"
#include "tests/gpu/compiles.h"

namespace formwork::testing {
namespace {

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

TEST(NormSourceTest, EveryTextCompiles) {
  for (int stage = 0; stage < kNormStages; ++stage) {
    for (const DType dtype : {DType::kFloat, DType::kHalf, DType::kBfloat16}) {
      const std::string item = NormItemName(static_cast<NormStage>(stage), dtype);
      ExpectCompiles(ItemSource(item, NormText()), item);
    }
  }
}

TEST(LrnSourceTest, EveryTextCompiles) {
  for (const std::string item : {"LrnItem", "LrnNormItem", "LrnGradItem"}) {
    for (const DType dtype : {DType::kFloat, DType::kHalf}) {
      ASSERT_OK_AND_ASSIGN(const std::string name, LrnItemName(item, LrnAttrs(), dtype));
      ExpectCompiles(ItemSource(name, LrnText()), name);
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

TEST(Pool3dSourceTest, EveryTextCompiles) {
  for (const std::string op : {"AvgPool3D", "AvgPool3DGrad", "MaxPool3D", "MaxPool3DGrad"}) {
    for (const DType dtype : {DType::kFloat, DType::kBfloat16}) {
      ASSERT_OK_AND_ASSIGN(const std::string item, Pool3dItemName(op, dtype));
      ExpectCompiles(ItemSource(item, Pool3dText()), item);
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

TEST(Conv3dSourceTest, EveryTextCompiles) {
  std::vector<std::string> items;
  for (const std::string unit : {"uint8_t", "uint16_t", "uint32_t", "uint64_t", "Bytes16"}) {
    items.push_back(absl::StrCat("Patch3dItem<", unit, ">"));
  }
  for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
    items.push_back(Unpatch3dItemName(dtype));
  }
  for (const std::string& item : items) ExpectCompiles(ItemSource(item, Conv3dText()), item);
}

}  // namespace
}  // namespace formwork::testing
