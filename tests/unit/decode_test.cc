// TensorFlow's wire forms of tensors.

#include "core/graph/decode.h"

#include "core/device/host_allocator.h"
#include "core/kernels/variant/ragged_variant.h"
#include "core/kernels/variant/tensor_part.h"
#include "tests/support/graph_text.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

tf::TensorProto Proto(DType dtype, std::vector<int64_t> dims) {
  tf::TensorProto proto;
  proto.set_dtype(static_cast<tf::DataType>(dtype));
  for (int64_t dim : dims) proto.mutable_tensor_shape()->add_dim()->set_size(dim);
  return proto;
}

absl::StatusOr<Tensor> Decode(const tf::TensorProto& proto) {
  return DecodeTensor(proto, ProcessAllocator());
}

// The elements, as T of the same size.
template <typename T>
std::vector<T> Decoded(const tf::TensorProto& proto) {
  absl::StatusOr<Tensor> tensor = Decode(proto);
  EXPECT_OK(tensor);
  if (!tensor.ok()) return {};
  EXPECT_EQ(DTypeSize(tensor->dtype()), sizeof(T));
  const T* elements = static_cast<const T*>(tensor->raw());
  return std::vector<T>(elements, elements + tensor->num_elements());
}

TEST(DecodeTensorTest, TheLastValueStandsForTheRest) {
  tf::TensorProto proto = Proto(DType::kFloat, {2, 2});
  EXPECT_THAT(Decoded<float>(proto), ElementsAre(0, 0, 0, 0));
  proto.add_float_val(1);
  EXPECT_THAT(Decoded<float>(proto), ElementsAre(1, 1, 1, 1));
  proto.add_float_val(2);
  EXPECT_THAT(Decoded<float>(proto), ElementsAre(1, 2, 2, 2));
  proto.mutable_tensor_shape()->mutable_dim(0)->set_size(0);
  EXPECT_THAT(Decoded<float>(proto), ElementsAre());  // tf.zeros([0], tf.string) has one value.
  proto.mutable_tensor_shape()->mutable_dim(0)->set_size(1);
  proto.mutable_tensor_shape()->mutable_dim(1)->set_size(1);
  EXPECT_THAT(Decode(proto), StatusIs(StatusCode::kInvalidArgument, HasSubstr("values=2")));
}

TEST(DecodeTensorTest, EveryDtypeHasItsField) {
  tf::TensorProto proto = Proto(DType::kDouble, {3});
  proto.add_double_val(0.5);
  EXPECT_THAT(Decoded<double>(proto), ElementsAre(0.5, 0.5, 0.5));
  proto = Proto(DType::kInt64, {2});
  proto.add_int64_val(-1);
  EXPECT_THAT(Decoded<int64_t>(proto), ElementsAre(-1, -1));
  proto = Proto(DType::kUint64, {2});
  proto.add_uint64_val(~uint64_t{0});
  EXPECT_THAT(Decoded<uint64_t>(proto), ElementsAre(~uint64_t{0}, ~uint64_t{0}));
  proto = Proto(DType::kUint32, {1});
  proto.add_uint32_val(~0u);
  EXPECT_THAT(Decoded<uint32_t>(proto), ElementsAre(~0u));
  proto = Proto(DType::kBool, {2});
  proto.add_bool_val(true);
  proto.add_bool_val(false);
  EXPECT_THAT(Decoded<uint8_t>(proto), ElementsAre(1, 0));
  proto = Proto(DType::kHalf, {2});
  proto.add_half_val(0x3c00);
  EXPECT_THAT(Decoded<uint16_t>(proto), ElementsAre(0x3c00, 0x3c00));
  proto = Proto(DType::kBfloat16, {1});
  proto.add_half_val(0x3f80);
  EXPECT_THAT(Decoded<uint16_t>(proto), ElementsAre(0x3f80));
  proto = Proto(DType::kComplex64, {2});
  proto.add_scomplex_val(1);
  proto.add_scomplex_val(2);
  EXPECT_THAT(Decoded<std::complex<float>>(proto),
              ElementsAre(std::complex<float>(1, 2), std::complex<float>(1, 2)));
  proto.add_scomplex_val(3);
  EXPECT_THAT(Decode(proto), StatusIs(StatusCode::kInvalidArgument));
  proto = Proto(DType::kComplex128, {});
  proto.add_dcomplex_val(1);
  proto.add_dcomplex_val(-2);
  EXPECT_THAT(Decoded<std::complex<double>>(proto), ElementsAre(std::complex<double>(1, -2)));
  proto = Proto(DType::kString, {2});
  proto.add_string_val(std::string("a\0b", 3));
  EXPECT_THAT(Decoded<std::string>(proto),
              ElementsAre(std::string("a\0b", 3), std::string("a\0b", 3)));
}

TEST(DecodeTensorTest, SmallIntegersShareAField) {
  for (DType dtype : {DType::kInt8, DType::kUint8, DType::kQint8, DType::kQuint8, DType::kInt4,
                      DType::kUint4, DType::kInt2, DType::kUint2}) {
    tf::TensorProto proto = Proto(dtype, {2});
    proto.add_int_val(1);
    ASSERT_OK_AND_ASSIGN(Tensor tensor, Decode(proto));
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(static_cast<const uint8_t*>(tensor.raw())[1], 1) << DTypeName(dtype);
  }
  for (DType dtype : {DType::kInt16, DType::kUint16, DType::kQint16, DType::kQuint16}) {
    tf::TensorProto proto = Proto(dtype, {2});
    proto.add_int_val(-2);
    ASSERT_OK_AND_ASSIGN(Tensor tensor, Decode(proto));
    EXPECT_EQ(static_cast<const uint16_t*>(tensor.raw())[1], 0xfffe) << DTypeName(dtype);
  }
  tf::TensorProto proto = Proto(DType::kInt32, {2});
  proto.add_int_val(-3);
  EXPECT_THAT(Decoded<int32_t>(proto), ElementsAre(-3, -3));
  proto = Proto(DType::kFloat8E5m2, {3});
  proto.set_float8_val("\x3c\x40");
  ASSERT_OK_AND_ASSIGN(Tensor tensor, Decode(proto));
  EXPECT_EQ(static_cast<const uint8_t*>(tensor.raw())[2], 0x40);
}

TEST(DecodeTensorTest, ContentHasToBeOfTheRightSize) {
  tf::TensorProto proto = ToProto(VectorOf<float>({1, 2, 3}));
  EXPECT_THAT(Decoded<float>(proto), ElementsAre(1, 2, 3));
  for (size_t bytes : {1, 11, 13, 24}) {
    proto.set_tensor_content(std::string(bytes, '\0'));
    EXPECT_THAT(Decode(proto), StatusIs(StatusCode::kInvalidArgument, HasSubstr("wrong size")));
  }
}

TEST(DecodeTensorTest, AnyByteMayComeForABool) {
  tf::TensorProto proto = Proto(DType::kBool, {3});
  proto.set_tensor_content(std::string("\x02\x00\xff", 3));
  EXPECT_THAT(Decoded<uint8_t>(proto), ElementsAre(1, 0, 1));
}

TEST(DecodeTensorTest, StringsMayComeAsContent) {
  tf::TensorProto proto = Proto(DType::kString, {2});
  proto.set_tensor_content(
      std::string("\x01\x02"
                  "abc",
                  5));
  EXPECT_THAT(Decoded<std::string>(proto), ElementsAre("a", "bc"));
  for (absl::string_view lie : {"\x05",
                                "\x01\x05"
                                "abc",
                                "\x01\x01"
                                "abc",
                                "\xff\xff\xff\xff\x0f"}) {
    proto.set_tensor_content(std::string(lie));
    EXPECT_THAT(Decode(proto), StatusIs(StatusCode::kInvalidArgument, HasSubstr("wrong size")));
  }
  proto.mutable_tensor_shape()->mutable_dim(0)->set_size(int64_t{1} << 22);
  EXPECT_THAT(Decode(proto), StatusIs(StatusCode::kInvalidArgument));
}

tf::VariantTensorDataProto VariantProto(absl::string_view type,
                                        std::vector<tf::TensorProto> tensors) {
  tf::VariantTensorDataProto proto;
  proto.set_type_name(std::string(type));
  for (tf::TensorProto& tensor : tensors) *proto.add_tensors() = std::move(tensor);
  return proto;
}

// As TensorFlow writes them: the sizes of all, then all.
std::string AsContent(const std::vector<tf::VariantTensorDataProto>& variants) {
  std::string sizes, texts;
  for (const tf::VariantTensorDataProto& variant : variants) {
    sizes += static_cast<char>(variant.ByteSizeLong());  // Less than 128.
    texts += variant.SerializeAsString();
  }
  return sizes + texts;
}

TEST(DecodeTensorTest, VariantsAreRaggedTensorsOrTensors) {
  const tf::VariantTensorDataProto ragged =
      VariantProto("RaggedTensorVariant",
                   {ToProto(VectorOf<int64_t>({0, 1, 3})), ToProto(VectorOf<float>({5, 6, 7}))});
  const tf::VariantTensorDataProto part =
      VariantProto("tensorflow::Tensor", {ToProto(VectorOf<int64_t>({4, 2}))});
  tf::TensorProto content = Proto(DType::kVariant, {3}), list = content;
  content.set_tensor_content(AsContent({ragged, part, VariantProto("", {})}));
  for (const auto& variant : {ragged, part, VariantProto("", {})})
    *list.add_variant_val() = variant;
  for (const tf::TensorProto& proto : {content, list}) {
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, Decode(proto));
    const absl::Span<const Variant> variants = tensor.span<Variant>();
    const auto* first = dynamic_cast<const RaggedVariant*>(variants[0].get());
    ASSERT_NE(first, nullptr);
    ASSERT_EQ(first->splits.size(), 1u);
    EXPECT_THAT(first->splits[0].span<int64_t>(), ElementsAre(0, 1, 3));
    EXPECT_THAT(first->values.span<float>(), ElementsAre(5, 6, 7));
    const auto* second = dynamic_cast<const TensorPart*>(variants[1].get());
    ASSERT_NE(second, nullptr);
    EXPECT_THAT(second->tensor.span<int64_t>(), ElementsAre(4, 2));
    EXPECT_EQ(variants[2], nullptr);
  }
}

TEST(DecodeTensorTest, VariantsThatCannotBeAreRefused) {
  const auto decode = [](const tf::VariantTensorDataProto& variant) {
    tf::TensorProto proto = Proto(DType::kVariant, {1});
    *proto.add_variant_val() = variant;
    return Decode(proto).status();
  };
  const tf::TensorProto vector = ToProto(VectorOf<int64_t>({0, 1}));
  EXPECT_THAT(decode(VariantProto("tensorflow::TensorList", {})),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("tensorflow::TensorList")));
  EXPECT_THAT(decode(VariantProto("tensorflow::Tensor", {Proto(DType::kVariant, {0})})),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("holds variants")));
  for (const auto& variant :
       {VariantProto("RaggedTensorVariant", {}), VariantProto("tensorflow::Tensor", {}),
        VariantProto("tensorflow::Tensor", {vector, vector})}) {
    EXPECT_THAT(decode(variant), StatusIs(StatusCode::kInvalidArgument, HasSubstr("number of")));
  }
  tf::TensorProto damaged = vector;
  damaged.set_tensor_content("odd");
  EXPECT_THAT(decode(VariantProto("tensorflow::Tensor", {damaged})),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("wrong size")));
  tf::TensorProto proto = Proto(DType::kVariant, {2});
  EXPECT_THAT(Decode(proto), StatusIs(StatusCode::kInvalidArgument, HasSubstr("variants=0")));
  proto.set_tensor_content(
      "\x01\x01"
      "ab");
  EXPECT_THAT(Decode(proto), StatusIs(StatusCode::kInvalidArgument, HasSubstr("element 0")));
  proto.set_tensor_content("\x01\x7f");
  EXPECT_THAT(Decode(proto), StatusIs(StatusCode::kInvalidArgument, HasSubstr("wrong size")));
}

TEST(DecodeTensorTest, SizesThatCannotBeAreRefused) {
  for (const auto& dims : std::vector<std::vector<int64_t>>{
           {-1}, {-5}, {int64_t{1} << 40, int64_t{1} << 40}, std::vector<int64_t>(300, 1)}) {
    tf::TensorProto proto = Proto(DType::kFloat, dims);
    EXPECT_THAT(Decode(proto), StatusIs(StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(Decode(Proto(DType::kFloat, {int64_t{1} << 40})),
              StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(Decode(Proto(DType::kResource, {})), StatusIs(StatusCode::kUnimplemented));
  for (int dtype : {0, -1, 34, 99, 101, 257}) {
    EXPECT_EQ(DTypeFromNumber(dtype), DType::kInvalid);
    tf::TensorProto proto;
    proto.set_dtype(static_cast<tf::DataType>(dtype));
    EXPECT_THAT(Decode(proto), StatusIs(StatusCode::kInvalidArgument, HasSubstr("dtype")));
  }
}

}  // namespace
}  // namespace formwork::testing
