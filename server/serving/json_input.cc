#include "server/serving/json_input.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/charconv.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/utf8.h"

namespace formwork::server {
namespace {

constexpr size_t kShownBytes = 100;

std::string ShownPart(absl::string_view text) {
  return absl::StrCat(absl::Utf8SafeCHexEscape(Utf8Prefix(text, kShownBytes)),
                      text.size() > kShownBytes ? "..." : "");
}

absl::Status ExpectedJson(absl::string_view wanted, JsonKind kind, absl::string_view text) {
  return InvalidArgument(wanted, " is expected, not ",
                         kind == JsonKind::kText    ? absl::StrCat("\"", ShownPart(text), "\"")
                         : kind == JsonKind::kBytes ? "{\"b64\": ...}"
                                                    : ShownPart(text));
}

// `text` is a number of JSON's grammar, NaN or an infinity.
template <typename T>
absl::Status ReadJsonNumber(absl::string_view text, T* element) {
  const char* const end = text.data() + text.size();
  const auto beyond = [&] {
    return InvalidArgument(ShownPart(text), " is beyond the range of ",
                           DTypeName(DTypeOf<T>::value));
  };
  if constexpr (std::is_integral_v<T>) {
    if (text == "-0") text.remove_prefix(1);  // Which from_chars does not take as unsigned.
    const auto [at, error] = std::from_chars(text.data(), end, *element);
    if (error == std::errc::result_out_of_range) return beyond();
    if (std::is_unsigned_v<T> && text[0] == '-' && text.find_first_of(".eEI") == text.npos) {
      return beyond();
    }
    if (error != std::errc() || at != end) {
      return ExpectedJson("an integer, without point and exponent,", JsonKind::kNumber, text);
    }
  } else {
    std::conditional_t<std::is_same_v<T, double>, double, float> value;
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::result_out_of_range) {
      // Too large or too small, which the other one tells.
      absl::from_chars(text.data(), end, value);
      if (std::abs(value) > 1) return beyond();
    } else if (at != end || (std::isnan(value) && text[0] == '-')) {
      // RapidJSON lets NaN have a sign, a fraction and an exponent.
      return ExpectedJson("a number", JsonKind::kNumber, text);
    }
    *element = T(value);
    if (std::isinf(static_cast<decltype(value)>(*element)) && !std::isinf(value)) return beyond();
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status ReadJsonElement(JsonKind kind, absl::string_view text, T* element) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (kind == JsonKind::kText) {
      element->assign(text.data(), text.size());
    } else if (kind != JsonKind::kBytes) {
      return ExpectedJson("a string or {\"b64\": \"...\"}", kind, text);
    } else if (!absl::Base64Unescape(text, element)) {
      return InvalidArgument("\"b64\" is not base64");
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    if (kind != JsonKind::kBool) return ExpectedJson("true or false", kind, text);
    *element = text == "true";
  } else {
    if (kind != JsonKind::kNumber) return ExpectedJson("a number", kind, text);
    return ReadJsonNumber(text, element);
  }
  return absl::OkStatus();
}

template <typename T>
class JsonInputOf final : public JsonInput {
 public:
  JsonInputOf(const TensorSpec& spec, bool rows) : JsonInput(spec, rows) {}

  absl::StatusOr<Tensor> Finish(Allocator& allocator) override {
    FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, Allocate(allocator, elements_.size()));
    std::move(elements_.begin(), elements_.end(), tensor.mutable_data<T>());
    return tensor;
  }

 private:
  absl::Status Append(JsonKind kind, absl::string_view text) override {
    T element;
    FORMWORK_RETURN_IF_ERROR(ReadJsonElement(kind, text, &element));
    elements_.push_back(std::move(element));
    return absl::OkStatus();
  }

  std::vector<T> elements_;
};

}  // namespace

std::string ShownJsonName(absl::string_view name) {
  return absl::StrCat("'", ShownPart(name), "'");
}

std::unique_ptr<JsonInput> JsonInput::Make(const TensorSpec& spec, bool rows) {
  switch (spec.dtype) {
    FORMWORK_REAL_CASES(return std::make_unique<JsonInputOf<T>>(spec, rows))
    FORMWORK_CASE(bool, return std::make_unique<JsonInputOf<T>>(spec, rows))
    FORMWORK_CASE(std::string, return std::make_unique<JsonInputOf<T>>(spec, rows))
    default:
      return nullptr;
  }
}

absl::Status JsonInput::Wrong(absl::string_view what) const {
  return InvalidArgument(
      "input ", ShownJsonName(name()), ": ",
      place_.empty() ? "" : absl::StrCat("at [", absl::StrJoin(place_, "]["), "]: "), what);
}

// Before an element or a list.
absl::Status JsonInput::Begin(bool list) {
  const size_t level = place_.size();
  if (level > 0 && place_.back() == dims_[level - 1]) {
    place_.pop_back();
    return Wrong(absl::StrCat("a list of more than the ", dims_[level - 1],
                              " elements of the first one there"));
  }
  if (rank_ < 0) {
    if (!list) rank_ = static_cast<int>(level);
  } else if (list && static_cast<int>(level) == rank_) {
    return Wrong(
        absl::StrCat("an element of ", DTypeName(spec_.dtype), " is expected, not a list"));
  } else if (!list && static_cast<int>(level) != rank_) {
    return Wrong(absl::StrCat("a list of ", dims_[level], " is expected"));
  }
  return absl::OkStatus();
}

// Behind one.
void JsonInput::End() {
  if (!place_.empty()) ++place_.back();
  if (!in_list()) ++values_;
}

absl::Status JsonInput::StartList() {
  FORMWORK_RETURN_IF_ERROR(Begin(true));
  if (place_.size() == kMaxRank) {
    return Wrong(absl::StrCat("lists are nested deeper than ", kMaxRank));
  }
  place_.push_back(0);
  if (dims_.size() < place_.size()) dims_.push_back(-1);
  return absl::OkStatus();
}

absl::Status JsonInput::EndList() {
  const int64_t count = place_.back();
  int64_t& first = dims_[place_.size() - 1];
  if (rank_ < 0) rank_ = static_cast<int>(place_.size());
  if (first < 0) first = count;
  place_.pop_back();
  if (count < first) {
    return Wrong(
        absl::StrCat("a list of fewer than the ", first, " elements of the first one there"));
  }
  End();
  return absl::OkStatus();
}

absl::Status JsonInput::Add(JsonKind kind, absl::string_view text) {
  FORMWORK_RETURN_IF_ERROR(Begin(false));
  if (const absl::Status added = Append(kind, text); !added.ok()) return Wrong(added.message());
  End();
  return absl::OkStatus();
}

absl::StatusOr<Shape> JsonInput::FinalShape() const {
  Dims dims = dims_;
  if (outer_ == 1) dims[0] = values_;
  // Inside a list without elements there is nothing to see.
  if (!dims.empty() && dims.back() == 0 && spec_.shape.rank() > static_cast<int>(dims.size())) {
    const absl::Span<const int64_t> rest = spec_.shape.dims().subspan(dims.size());
    if (!absl::c_linear_search(rest, -1)) dims.insert(dims.end(), rest.begin(), rest.end());
  }
  return Shape::Make(dims);
}

absl::StatusOr<Tensor> JsonInput::Allocate(Allocator& allocator, size_t elements) const {
  const absl::StatusOr<Shape> shape = FinalShape();
  const std::string input = absl::StrCat("input ", ShownJsonName(name()));
  if (!shape.ok()) return InvalidArgument(input, ": ", shape.status().message());
  if (shape->num_elements() != static_cast<int64_t>(elements)) {
    return Internal(input, ": ", elements, " elements are no ", shape->ToString());
  }
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(allocator, spec_.dtype, *shape);
  if (!tensor.ok()) return Annotate(tensor.status(), input);
  return tensor;
}

}  // namespace formwork::server
