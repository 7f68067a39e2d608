#include "core/storage/checkpoint.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/storage/object_graph.h"

namespace formwork {
namespace {

// tf.train.Checkpoint counts its saves in a variable of its own, and wants to find it.
constexpr char kSaveCounter[] = "save_counter";

bool IsSafetensors(const FilePath& file) { return absl::EndsWith(file.path, ".safetensors"); }

}  // namespace

absl::StatusOr<uint64_t> WriteCheckpoint(const FilePath& path,
                                         std::map<std::string, Tensor> variables,
                                         std::atomic<uint64_t>* written) {
  if (IsSafetensors(path)) return WriteSafetensors(path, std::move(variables), written);
  FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer, BundleWriter::Create(path));
  std::vector<std::string> names;
  for (auto& [name, value] : variables) {
    FORMWORK_RETURN_IF_ERROR(Annotate(writer->Add(VariableKey(name), value), name));
    names.push_back(name);
    if (written != nullptr) *written += value.bytes();
    value = Tensor();
  }
  if (!variables.contains(kSaveCounter)) {
    FORMWORK_RETURN_IF_ERROR(writer->Add(VariableKey(kSaveCounter), Tensor::Scalar(int64_t{1})));
    names.push_back(kSaveCounter);
  }
  FORMWORK_RETURN_IF_ERROR(
      writer->Add(kObjectGraphKey, Tensor::StringScalar(MakeObjectGraph(names))));
  FORMWORK_RETURN_IF_ERROR(writer->Finish());
  return writer->bytes();
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(const FilePath& path,
                                                                         Allocator& allocator) {
  auto reader = std::make_unique<CheckpointReader>();
  if (IsSafetensors(path)) {
    FORMWORK_ASSIGN_OR_RETURN(reader->safetensors_, SafetensorsReader::Open(path));
    for (const auto& [name, entry] : reader->safetensors_->entries()) {
      reader->variables_.emplace(name, Variable{name, entry.dtype, entry.shape});
    }
    return reader;
  }
  FORMWORK_ASSIGN_OR_RETURN(reader->bundle_, BundleReader::Open(path));
  const auto& entries = reader->bundle_->entries();
  std::map<std::string, std::string> names;  // By key.
  const bool has_graph = entries.contains(kObjectGraphKey);
  if (has_graph) {
    FORMWORK_ASSIGN_OR_RETURN(const Tensor graph,
                              reader->bundle_->Read(kObjectGraphKey, allocator));
    if (graph.dtype() != DType::kString || graph.num_elements() != 1) {
      return absl::DataLossError("the checkpoint's object graph is no string");
    }
    FORMWORK_ASSIGN_OR_RETURN(names, VariableNames(graph.scalar<std::string>()));
  }
  for (const auto& [key, entry] : entries) {
    const bool is_slice = key[0] == '\0';
    const std::string path_of_key = PathOfKey(key);
    // Beside variables a TensorFlow 2 checkpoint has descriptions of objects.
    if (is_slice || (has_graph && path_of_key.empty())) continue;
    const auto found = names.find(key);
    std::string name = found != names.end() ? found->second : has_graph ? path_of_key : key;
    if (has_graph) reader->others_.emplace(path_of_key, name);
    reader->others_.emplace(key, name);
    reader->variables_.emplace(std::move(name), Variable{key, entry.dtype, entry.shape});
  }
  // TensorFlow's own, and not the user's.
  const auto counter = reader->variables_.find(kSaveCounter);
  if (has_graph && counter != reader->variables_.end() && counter->second.shape.is_scalar()) {
    reader->variables_.erase(counter);
  }
  return reader;
}

const CheckpointReader::Variable* CheckpointReader::Find(const std::string& name) const {
  auto found = variables_.find(name);
  if (found == variables_.end()) {
    const auto other = others_.find(name);
    if (other != others_.end()) found = variables_.find(other->second);
  }
  return found == variables_.end() ? nullptr : &found->second;
}

absl::StatusOr<Tensor> CheckpointReader::Read(const Variable& variable,
                                              Allocator& allocator) const {
  return bundle_ != nullptr ? bundle_->Read(variable.key, allocator)
                            : safetensors_->Read(variable.key, allocator);
}

}  // namespace formwork
