// Each input of a case that runs well, edited in each way that clients get wrong.

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "core/tensor/small_float.h"
#include "tests/fuzz/op_fuzzer.h"

namespace formwork {
namespace {

using testing::OpCase;
using testing::ValueText;

enum class Edit {
  kRankMore,
  kRankLess,
  kScalar,
  kEmpty,
  kLonger,
  kShorter,
  kZero,
  kMinus,
  kLeast,
  kMost,
  kNoNumber
};
constexpr int kEdits = static_cast<int>(Edit::kNoNumber) + 1;

// Nothing where the edit changes nothing.
std::optional<Shape> EditedShape(Edit edit, const Shape& shape) {
  Dims dims(shape.dims().begin(), shape.dims().end());
  switch (edit) {
    case Edit::kRankMore:
      dims.insert(dims.begin(), 1);
      break;
    case Edit::kRankLess:
      if (dims.empty()) return std::nullopt;
      dims.erase(dims.begin());
      break;
    case Edit::kScalar:
      if (dims.empty()) return std::nullopt;
      dims.clear();
      break;
    case Edit::kEmpty:
      if (dims.empty()) dims.push_back(0);
      dims.back() = 0;
      break;
    case Edit::kLonger:
    case Edit::kShorter:
      if (dims.empty() || dims.back() == 0) return std::nullopt;
      dims.back() += edit == Edit::kLonger ? 1 : -1;
      break;
    default:
      return shape;
  }
  return *Shape::Make(dims);
}

template <typename T>
T Number(Edit edit) {
  using Limits = std::numeric_limits<T>;
  switch (edit) {
    case Edit::kMinus:
      return static_cast<T>(-1);
    case Edit::kLeast:
      return Limits::lowest();
    case Edit::kMost:
      return Limits::max();
    case Edit::kNoNumber:
      return Limits::has_quiet_NaN ? Limits::quiet_NaN() : static_cast<T>(2);
    default:
      return T(0);
  }
}

void Fill(Tensor& tensor, Edit edit) {
  const auto fill = [&](auto number) {
    auto* const to = tensor.mutable_data<decltype(number)>();
    std::fill(to, to + tensor.num_elements(), number);
  };
  switch (tensor.dtype()) {
    case DType::kFloat:
      return fill(Number<float>(edit));
    case DType::kDouble:
      return fill(Number<double>(edit));
    case DType::kHalf:
      return fill(half(Number<float>(edit)));
    case DType::kBfloat16:
      return fill(bfloat16(Number<float>(edit)));
    case DType::kComplex64:
      return fill(std::complex<float>(Number<float>(edit), 1.0f));
    case DType::kComplex128:
      return fill(std::complex<double>(Number<double>(edit), 1.0));
    case DType::kInt8:
      return fill(Number<int8_t>(edit));
    case DType::kInt16:
      return fill(Number<int16_t>(edit));
    case DType::kInt32:
      return fill(Number<int32_t>(edit));
    case DType::kInt64:
      return fill(Number<int64_t>(edit));
    case DType::kUint8:
      return fill(Number<uint8_t>(edit));
    case DType::kUint16:
      return fill(Number<uint16_t>(edit));
    case DType::kUint32:
      return fill(Number<uint32_t>(edit));
    case DType::kUint64:
      return fill(Number<uint64_t>(edit));
    case DType::kBool:
      return fill(edit != Edit::kZero);
    case DType::kString:
      return fill(edit == Edit::kMost ? std::string(3000, '(')
                                      : std::string(edit == Edit::kZero ? "" : "\xff-1"));
    default:
      break;
  }
}

// `value`'s elements over and over, in another shape.
Tensor InShape(const Shape& shape, const Tensor& value, Allocator& allocator) {
  Tensor made = *Tensor::Allocate(allocator, value.dtype(), shape);
  const int64_t n = value.num_elements();
  if (value.dtype() == DType::kString) {
    for (int64_t i = 0; i < made.num_elements() && n > 0; ++i) {
      made.mutable_data<std::string>()[i] = value.data<std::string>()[i % n];
    }
    return made;
  }
  const size_t size = DTypeSize(value.dtype());
  auto* const to = static_cast<char*>(made.mutable_raw());
  const auto* const from = static_cast<const char*>(value.raw());
  std::memset(to, 0, made.bytes());
  for (int64_t i = 0; i < made.num_elements() && n > 0; ++i) {
    std::memcpy(to + static_cast<size_t>(i) * size, from + static_cast<size_t>(i % n) * size, size);
  }
  return made;
}

bool CanBeEdited(const Tensor& value) {
  return IsPlainData(value.dtype()) || value.dtype() == DType::kString;
}

std::optional<Tensor> Edited(Edit edit, const Tensor& value, Allocator& allocator) {
  if (!CanBeEdited(value)) return std::nullopt;
  const std::optional<Shape> shape = EditedShape(edit, value.shape());
  if (!shape) return std::nullopt;
  Tensor made = InShape(*shape, value, allocator);
  if (edit >= Edit::kZero) Fill(made, edit);
  return made;
}

template <typename T>
void Replace(Tensor& sizes, int64_t from, int64_t to) {
  T* const begin = sizes.mutable_data<T>();
  std::replace(begin, begin + sizes.num_elements(), static_cast<T>(from), static_cast<T>(to));
}

// `value` with dimensions of `to` where they are `from`; and its elements, if they may be sizes.
Tensor Resized(int64_t from, int64_t to, const Tensor& value, Allocator& allocator) {
  Dims dims(value.shape().dims().begin(), value.shape().dims().end());
  std::replace(dims.begin(), dims.end(), from, to);
  Tensor made = InShape(*Shape::Make(dims), value, allocator);
  if (made.rank() > 1 || made.num_elements() > 8) return made;
  if (made.dtype() == DType::kInt32) Replace<int32_t>(made, from, to);
  if (made.dtype() == DType::kInt64) Replace<int64_t>(made, from, to);
  return made;
}

using EditFn = absl::FunctionRef<std::optional<Tensor>(size_t i, const Tensor& value)>;

// The case as a call, its inputs edited. False where that is none.
bool MakeCall(FuzzedOp& op, const OpCase& op_case, EditFn edit, Surroundings& surroundings,
              Call& call) {
  const absl::StatusOr<AttrMap> attrs = testing::TypedAttrs(op_case, *op.op);
  if (!attrs.ok()) return false;
  call.of = &op;
  call.attrs = *attrs;
  const auto inputs = testing::ArgDTypes(op.op->inputs, call.attrs);
  const auto outputs = testing::ArgDTypes(op.op->outputs, call.attrs);
  if (!inputs.ok() || !outputs.ok() || inputs->size() != op_case.inputs.size()) return false;
  call.inputs = *inputs;
  call.outputs = *outputs;
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const ValueText& text = op_case.inputs[i];
    if (text.dtype != call.inputs[i]) return false;
    absl::StatusOr<Tensor> value = text.dtype == DType::kResource
                                       ? surroundings.resources.Add(text)
                                       : testing::MakeValue(text, surroundings.world.allocator);
    if (!value.ok()) return false;
    std::optional<Tensor> edited = edit(i, *value);
    if (!edited) return false;
    value = *std::move(edited);
    call.shapes.push_back(text.dtype == DType::kResource ? PartialShape()
                                                         : PartialShape(value->shape()));
    call.values.push_back(*std::move(value));
  }
  return true;
}

}  // namespace

void CheckEditedInputs(FuzzedOp& op, const OpCase& op_case) {
  Allocator& allocator = FuzzedWorld().allocator;
  uint8_t known = 0;  // All sorts, one after the other.
  const auto check = [&](EditFn edit) {
    Surroundings surroundings(FuzzedWorld());
    Call call;
    if (!MakeCall(op, op_case, edit, surroundings, call)) return;
    ++known;
    CheckCall(call, known, /*owned=*/known % 2 == 0, /*seed=*/1, surroundings);
  };
  std::set<int64_t> sizes;
  for (size_t input = 0; input < op_case.inputs.size(); ++input) {
    for (int edit = 0; edit < kEdits; ++edit) {
      check([&](size_t i, const Tensor& value) -> std::optional<Tensor> {
        return i == input ? Edited(static_cast<Edit>(edit), value, allocator) : value;
      });
    }
    const absl::Span<const int64_t> dims = op_case.inputs[input].shape.dims();
    sizes.insert(dims.begin(), dims.end());
  }
  for (const int64_t from : sizes) {
    for (const int64_t to : {int64_t{0}, int64_t{1}, from + 1}) {
      if (from == to) continue;
      check([&](size_t, const Tensor& value) -> std::optional<Tensor> {
        return CanBeEdited(value) ? Resized(from, to, value, allocator) : value;
      });
    }
  }
}

}  // namespace formwork
