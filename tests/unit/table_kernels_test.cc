// Mutable hash tables, kernel by kernel. tests/python/test_tables.py holds them against TensorFlow.

#include <algorithm>
#include <map>

#include "core/ops/table.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using absl::StatusCode;
using ::formwork::testing::KernelRunner;
using ::formwork::testing::StatusIs;
using ::formwork::testing::TensorOf;
using ::formwork::testing::ValuesOf;
using ::formwork::testing::VectorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Strings(const std::vector<std::string>& values) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kString,
                                    Shape({static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), tensor.mutable_data<std::string>());
  return tensor;
}

ResourceType TypeOf(DType key, DType value, const Shape& row = Shape()) {
  return {&kTableKind, {{key, Shape()}, {value, row}}};
}

KernelRunner::Attrs Types(DType key, DType value) { return {{"Tin", key}, {"Tout", value}}; }

class TableTest : public ::testing::Test {
 protected:
  Tensor Table(DType key, DType value, const Shape& row = Shape()) {
    return run_.NewResource(absl::StrCat("t", ++tables_), TypeOf(key, value, row));
  }
  absl::Status Change(absl::string_view op, const Tensor& table, Tensor keys, Tensor values) {
    auto attrs = Types(keys.dtype(), values.dtype());
    return run_.Op(op, attrs, {table, std::move(keys), std::move(values)}).status();
  }
  absl::StatusOr<Tensor> Find(const Tensor& table, Tensor keys, Tensor default_value) {
    auto attrs = Types(keys.dtype(), default_value.dtype());
    return run_.One("LookupTableFindV2", attrs, {table, std::move(keys), std::move(default_value)});
  }
  absl::Status Remove(const Tensor& table, Tensor keys) {
    KernelRunner::Attrs attrs = {{"Tin", keys.dtype()}};
    return run_.Op("LookupTableRemoveV2", attrs, {table, std::move(keys)}).status();
  }
  int64_t SizeOf(const Tensor& table) {
    return run_.One("LookupTableSizeV2", {}, {table})->scalar<int64_t>();
  }
  absl::StatusOr<std::vector<Tensor>> Export(const Tensor& table, DType key, DType value) {
    return run_.Op("LookupTableExportV2", {{"Tkeys", key}, {"Tvalues", value}}, {table});
  }

  KernelRunner run_;
  int tables_ = 0;
};

TEST_F(TableTest, FindsWhatWasInsertedAndElseTheDefault) {
  const Tensor table = Table(DType::kInt64, DType::kFloat);
  EXPECT_EQ(SizeOf(table), 0);
  ASSERT_OK(Change("LookupTableInsertV2", table, VectorOf<int64_t>({3, -1, 3}),
                   VectorOf<float>({1, 2, 5})));
  EXPECT_EQ(SizeOf(table), 2);
  ASSERT_OK_AND_ASSIGN(Tensor found, Find(table, TensorOf<int64_t>(Shape({2, 2}), {3, -1, 0, 3}),
                                          Tensor::Scalar(-7.0f)));
  EXPECT_EQ(found.shape(), Shape({2, 2}));
  EXPECT_THAT(ValuesOf<float>(found), ElementsAre(5, 2, -7, 5));
  ASSERT_OK_AND_ASSIGN(found,
                       Find(table, VectorOf<int64_t>({0, 3, 9}), VectorOf<float>({10, 20, 30})));
  EXPECT_THAT(ValuesOf<float>(found), ElementsAre(10, 5, 30));
  ASSERT_OK(Remove(table, VectorOf<int64_t>({3, 8})));
  EXPECT_EQ(SizeOf(table), 1);
}

TEST_F(TableTest, ImportLeavesNothingOfWhatWasThere) {
  const Tensor table = Table(DType::kString, DType::kString);
  ASSERT_OK(Change("LookupTableInsertV2", table, Strings({"a", ""}), Strings({"1", "2"})));
  ASSERT_OK(Change("LookupTableImportV2", table, Strings({"b", "a"}),
                   Strings({std::string("\0x", 2), std::string(100, 'y')})));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> all,
                       Export(table, DType::kString, DType::kString));
  std::map<std::string, std::string> content;
  for (int i = 0; i < 2; ++i) {
    content[all[0].data<std::string>()[i]] = all[1].data<std::string>()[i];
  }
  EXPECT_THAT(content, ElementsAre(std::pair("a", std::string(100, 'y')),
                                   std::pair("b", std::string("\0x", 2))));
}

TEST_F(TableTest, ValuesMayBeVectors) {
  const Tensor table = Table(DType::kInt32, DType::kDouble, Shape({2}));
  ASSERT_OK(Change("LookupTableInsertV2", table, VectorOf<int32_t>({1, 2}),
                   TensorOf<double>(Shape({2, 2}), {1, 2, 3, 4})));
  ASSERT_OK_AND_ASSIGN(const Tensor found, Find(table, TensorOf<int32_t>(Shape({1, 2}), {2, 5}),
                                                VectorOf<double>({-1, -2})));
  EXPECT_EQ(found.shape(), Shape({1, 2, 2}));
  EXPECT_THAT(ValuesOf<double>(found), ElementsAre(3, 4, -1, -2));
  const Tensor texts = Table(DType::kInt64, DType::kString, Shape({1}));
  Tensor rows = Strings({"p", "q"}).Reshaped(Shape({2, 1}));
  ASSERT_OK(Change("LookupTableInsertV2", texts, VectorOf<int64_t>({1, 2}), rows));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> all, Export(texts, DType::kInt64, DType::kString));
  EXPECT_EQ(all[0].shape(), Shape({2}));
  EXPECT_EQ(all[1].shape(), Shape({2, 1}));
}

TEST_F(TableTest, BadInputIsNamedAndChangesNothing) {
  const Tensor table = Table(DType::kString, DType::kInt64);
  const Tensor one = Tensor::Scalar(int64_t{1});
  ASSERT_OK(Change("LookupTableInsertV2", table, Strings({"a"}), VectorOf<int64_t>({1})));
  EXPECT_THAT(Find(table, VectorOf<int64_t>({1}), one),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("Key must be type string")));
  EXPECT_THAT(Find(table, Strings({"a"}), VectorOf<int64_t>({1, 2, 3})),
              StatusIs(StatusCode::kInvalidArgument,
                       "Expected shape [] or [1] for default value, got [3]"));
  EXPECT_THAT(Change("LookupTableInsertV2", table, Strings({"b"}), VectorOf<int64_t>({1, 2})),
              StatusIs(StatusCode::kInvalidArgument, "Expected shape [1] for value, got [2]"));
  EXPECT_THAT(Change("LookupTableImportV2", table, Strings({"b"}), VectorOf<float>({1})),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("Value must be type int64")));
  EXPECT_THAT(Remove(table, VectorOf<int32_t>({1})), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Export(table, DType::kString, DType::kFloat),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("table string[] -> int64[]")));
  EXPECT_EQ(SizeOf(table), 1);
}

TEST_F(TableTest, AKindOfResourceIsNotTakenForAnother) {
  const Tensor table = Table(DType::kString, DType::kInt64);
  const Tensor variable = run_.NewVariable("v", DType::kInt64, Shape(), Tensor::Scalar(int64_t{1}));
  EXPECT_THAT(run_.One("LookupTableSizeV2", {}, {variable}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("variable")));
  EXPECT_THAT(run_.One("ReadVariableOp", {{"dtype", DType::kVariant}}, {table}),
              StatusIs(StatusCode::kInvalidArgument, "table 't1' is not a variable"));
  EXPECT_THAT(run_.Op("AssignVariableOp", {{"dtype", DType::kVariant}},
                      {table, Tensor::VariantScalar(std::make_shared<TensorList>())}),
              StatusIs(StatusCode::kInvalidArgument, "table 't1' is not a variable"));
  EXPECT_EQ(SizeOf(table), 0);
}

TEST_F(TableTest, WhatIsCutIsNotWritten) {
  const Tensor table = Table(DType::kInt64, DType::kInt64);
  ASSERT_OK(Change("LookupTableInsertV2", table, VectorOf<int64_t>({1}), VectorOf<int64_t>({1})));
  const Tensor many = VectorOf(std::vector<int64_t>(100000, 5));
  run_.stop().Cancel();
  const StopScope scope(&run_.stop());
  EXPECT_THAT(Change("LookupTableImportV2", table, many, many), StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(SizeOf(table), 1);
}

TEST_F(TableTest, MemoryThatATableTakesIsCounted) {
  const Tensor table = Table(DType::kString, DType::kInt64);
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back(std::string(100, 'k') + std::to_string(i));
  ASSERT_OK(
      Change("LookupTableInsertV2", table, Strings(keys), VectorOf(std::vector<int64_t>(1000, 1))));
  const size_t full = run_.BytesOf(table);
  EXPECT_GT(full, 1000u * (100 + sizeof(std::string)));
  EXPECT_LT(full, 1000u * 400);
  ASSERT_OK(
      Change("LookupTableInsertV2", table, Strings(keys), VectorOf(std::vector<int64_t>(1000, 2))));
  EXPECT_EQ(run_.BytesOf(table), full);
  ASSERT_OK(Remove(table, Strings(keys)));
  EXPECT_EQ(run_.BytesOf(table), 0u);
}

}  // namespace
}  // namespace formwork
