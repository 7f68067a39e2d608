#pragma once

// Writes a GraphDef, node by node: what is to be made again by running it.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace formwork {

class GraphWriter {
 public:
  GraphWriter();
  ~GraphWriter();

  /// `inputs`: names of nodes, "^node" of what runs before it.
  void AddNode(const std::string& name, absl::string_view op, absl::Span<const std::string> inputs);
  // Attrs of the last node.
  void Set(const std::string& attr, int64_t value);
  void Set(const std::string& attr, float value);
  void Set(const std::string& attr, bool value);
  void Set(const std::string& attr, const std::string& value);
  void Set(const std::string& attr, DType value);
  void Set(const std::string& attr, const PartialShape& value);
  void Set(const std::string& attr, const std::vector<int64_t>& values);
  void Set(const std::string& attr, const std::vector<float>& values);
  void Set(const std::string& attr, const std::vector<bool>& values);
  void Set(const std::string& attr, const std::vector<std::string>& values);
  void Set(const std::string& attr, const std::vector<DType>& values);
  void Set(const std::string& attr, const std::vector<PartialShape>& values);
  void SetFunction(const std::string& attr, const std::string& function);

  /// Adds a function of `definitions`, a serialized FunctionDefLibrary, with those that it reaches.
  /// Errors: kUnimplemented if another one of that name is there; kInternal if there is none.
  absl::Status AddFunction(const std::string& function, const std::string& definitions);

  std::string Finish() const;  ///< The serialized GraphDef.

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace formwork
