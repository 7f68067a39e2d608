#pragma once

// What tests of JSON share: bodies of requests that are read, and tensors.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/device/host_allocator.h"
#include "server/serving/json_tensors.h"

namespace formwork::server {

inline TensorSpec Spec(std::string name, DType dtype, PartialShape shape = PartialShape()) {
  return {std::move(name), dtype, std::move(shape)};
}

inline absl::StatusOr<std::vector<Tensor>> Read(absl::string_view body,
                                                std::vector<TensorSpec> inputs) {
  // Without a byte behind it, so that AddressSanitizer sees what is read beyond.
  const std::vector<char> exact(body.begin(), body.end());
  const absl::StatusOr<JsonPredict> head = ReadJsonPredictHead({exact.data(), exact.size()});
  if (!head.ok()) return head.status();
  return ReadJsonInputs(*head, inputs, ProcessAllocator());
}

// The one input "x".
inline Tensor Value(absl::string_view body, DType dtype, PartialShape shape = PartialShape()) {
  absl::StatusOr<std::vector<Tensor>> tensors = Read(body, {Spec("x", dtype, shape)});
  EXPECT_TRUE(tensors.ok()) << body << ": " << tensors.status();
  if (!tensors.ok()) return Tensor();
  EXPECT_EQ((*tensors)[0].dtype(), dtype);
  return (*tensors)[0];
}

template <typename T>
Tensor Of(const Shape& shape, std::vector<T> values) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DTypeOf<T>::value, shape);
  std::copy(values.begin(), values.end(), tensor.mutable_data<T>());
  return tensor;
}

}  // namespace formwork::server
