#pragma once

// The features of serialized tf.train.Example and SequenceExample, read in place.

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/kernels/wire_format.h"
#include "core/tensor/dtype.h"

namespace formwork {

/// A list of an example, not decoded yet. kInvalid: it has none of that name, or one of no kind.
struct Feature {
  DType dtype = DType::kInvalid;
  absl::string_view list;
};

/// Of a Feature's fields the first list counts, as for TensorFlow.
inline bool ReadFeature(absl::string_view message, Feature& feature) {
  feature = {};
  WireReader reader(message);
  while (!reader.done()) {
    WireField field;
    if (!reader.Next(field)) return false;
    if (field.number < 1 || field.number > 3 || field.type != kBytes) continue;
    feature.dtype = field.number == 1   ? DType::kString
                    : field.number == 2 ? DType::kFloat
                                        : DType::kInt64;
    feature.list = field.bytes;
    return true;
  }
  return true;
}

/// Calls each(name, value's message) for the entries of the map in field `number` of a message: the
/// features of an example are in its field 1, so is a sequence's context, and its lists in field 2.
template <typename Each>
bool ForFeatures(uint32_t number, absl::string_view example, const Each& each) {
  WireReader fields(example);
  while (!fields.done()) {
    WireField features;
    if (!fields.Next(features)) return false;
    if (features.number != number || features.type != kBytes) continue;
    WireReader entries(features.bytes);
    while (!entries.done()) {
      WireField entry;
      if (!entries.Next(entry)) return false;
      if (entry.number != 1 || entry.type != kBytes) continue;
      WireReader pair(entry.bytes);
      absl::string_view name;
      absl::string_view value;
      while (!pair.done()) {
        WireField field;
        if (!pair.Next(field)) return false;
        if (field.type != kBytes) continue;
        if (field.number == 1) name = field.bytes;
        if (field.number == 2) value = field.bytes;
      }
      if (!each(name, value)) return false;
    }
  }
  return true;
}

inline float FloatOf(absl::string_view bytes) {
  float value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

/// Appends a list's values, packed or not. False where it is malformed.
template <typename T>
bool AppendValues(absl::string_view list, std::vector<T>& to) {
  WireReader reader(list);
  while (!reader.done()) {
    WireField field;
    if (!reader.Next(field)) return false;
    if (field.number != 1) continue;
    if constexpr (std::is_same_v<T, std::string>) {
      if (field.type == kBytes) to.emplace_back(field.bytes);
    } else if constexpr (std::is_same_v<T, float>) {
      if (field.type == kFixed32) to.push_back(FloatOf(field.bytes));
      if (field.type != kBytes) continue;
      if (field.bytes.size() % sizeof(float) != 0) return false;
      for (; !field.bytes.empty(); field.bytes.remove_prefix(sizeof(float))) {
        to.push_back(FloatOf(field.bytes));
      }
    } else {
      if (field.type == kVarint) to.push_back(static_cast<T>(field.varint));
      if (field.type != kBytes) continue;
      WireReader packed(field.bytes);
      while (!packed.done()) {
        uint64_t value;
        if (!packed.Varint(value)) return false;
        to.push_back(static_cast<T>(value));
      }
    }
  }
  return true;
}

}  // namespace formwork

/// The three dtypes that a feature may have.
#define FORMWORK_FEATURE_CASES(dtype, what, ...)                                     \
  switch (dtype) {                                                                   \
    case DType::kFloat: {                                                            \
      using T = float;                                                               \
      FORMWORK_RETURN_IF_ERROR(__VA_ARGS__);                                         \
      break;                                                                         \
    }                                                                                \
    case DType::kInt64: {                                                            \
      using T = int64_t;                                                             \
      FORMWORK_RETURN_IF_ERROR(__VA_ARGS__);                                         \
      break;                                                                         \
    }                                                                                \
    case DType::kString: {                                                           \
      using T = std::string;                                                         \
      FORMWORK_RETURN_IF_ERROR(__VA_ARGS__);                                         \
      break;                                                                         \
    }                                                                                \
    default:                                                                         \
      return Unimplemented(what, ": dtype ", DTypeName(dtype), " is not supported"); \
  }
