#pragma once

// The attrs of a node as a family's struct.

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ops/attr.h"

namespace formwork {

namespace read_attrs_internal {

template <typename Struct>
absl::Status ReadFields(const AttrMap&, Struct&) {
  return absl::OkStatus();
}

template <typename Struct, typename T, typename... Rest>
absl::Status ReadFields(const AttrMap& attrs, Struct& to, absl::string_view name, T Struct::*field,
                        Rest... rest) {
  absl::StatusOr<T> value = attrs.Get<T>(name);
  if (!value.ok()) return std::move(value).status();
  to.*field = *std::move(value);
  return ReadFields(attrs, to, rest...);
}

}  // namespace read_attrs_internal

/// A Struct that has attrs, given by name, in its fields:
///   ReadAttrs<ScanAttrs>(attrs, "exclusive", &ScanAttrs::exclusive, "reverse",
///   &ScanAttrs::reverse)
/// Types and defaults are those of the op's line: the importer has checked and filled them in.
/// Errors: kInvalidArgument if the node has no such attr, or one of another type.
template <typename Struct, typename... NamesAndFields>
absl::StatusOr<Struct> ReadAttrs(const AttrMap& attrs, NamesAndFields... names_and_fields) {
  Struct read;
  absl::Status status = read_attrs_internal::ReadFields(attrs, read, names_and_fields...);
  if (!status.ok()) return status;
  return read;
}

}  // namespace formwork
