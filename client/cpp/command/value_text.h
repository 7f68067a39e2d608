#pragma once

// Values on the command line and on the screen.

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "formwork/client.h"

namespace formwork::command {

/// A value as people write it: a .npy file ("x.npy", "@x.npy"), JSON ("[[1, 2], [3, 4]]",
/// "\"text\""), either with a dtype before it ("float64:[1, 2]"), "var:NAME" or "kept:ID".
/// `dtype`: what JSON is taken for where it has none before it; DT_INVALID: int32 or float32 for
/// numbers. Errors: kInvalidArgument; also those of looking up the variable.
absl::StatusOr<client::Value> ParseValue(client::Client& client, const std::string& text,
                                         client::DataType dtype);

/// {"dtype": .., "shape": .., "value": ..}, or what stands for it.
nlohmann::ordered_json ValueJson(const client::Value& value);

/// For people: dtype, shape and the elements, cut where there are many.
std::string ToText(const client::Value& value);

std::string ShapeText(const v1::Shape& shape);
nlohmann::ordered_json ShapeJson(const v1::Shape& shape);

/// "float32[?,3]", "int64[]", "float32" (unknown rank).
absl::StatusOr<v1::TensorSpec> ParseSpec(const std::string& name, const std::string& text);

}  // namespace formwork::command
