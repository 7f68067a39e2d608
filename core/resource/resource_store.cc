#include "core/resource/resource_store.h"

#include "absl/cleanup/cleanup.h"
#include "core/base/name.h"
#include "core/base/status.h"

namespace formwork {
namespace {

std::string TypeText(DType dtype, const PartialShape& shape) {
  return absl::StrCat(DTypeName(dtype), shape.ToString());
}

}  // namespace

absl::StatusOr<std::shared_ptr<Variable>> ResourceStore::Check(absl::string_view name_space,
                                                               const Declaration& declared,
                                                               bool exact_shape) const {
  const auto& [name, dtype, shape] = declared;
  FORMWORK_RETURN_IF_ERROR(CheckName("variable", name));
  if (!IsPlainData(dtype) && dtype != DType::kString && dtype != DType::kVariant) {
    return InvalidArgument("variable '", name, "': a variable cannot have dtype ",
                           DTypeName(dtype));
  }
  auto names = namespaces_.find(name_space);
  if (names == namespaces_.end()) return nullptr;
  auto found = names->second.find(name);
  if (found == names->second.end()) return nullptr;
  const Variable& there = *found->second;
  const bool fits = exact_shape ? there.shape == shape : there.shape.IsCompatibleWith(shape);
  if (there.dtype == dtype && fits) return found->second;
  return InvalidArgument("variable '", name, "' exists with another dtype or shape: there=",
                         TypeText(there.dtype, there.shape), " asked=", TypeText(dtype, shape));
}

std::shared_ptr<Variable> ResourceStore::Add(absl::string_view name_space,
                                             const Declaration& declared) {
  auto variable = std::make_shared<Variable>(NextId(), std::string(name_space), declared.name,
                                             declared.dtype, declared.shape);
  // Known by both or, where there is no memory, by neither.
  by_id_.emplace(variable->id, variable);
  absl::Cleanup undo = [&] {
    mutex_.AssertHeld();
    by_id_.erase(variable->id);
  };
  namespaces_[std::string(name_space)].insert_or_assign(declared.name, variable);
  std::move(undo).Cancel();
  return variable;
}

absl::StatusOr<std::shared_ptr<Variable>> ResourceStore::Create(absl::string_view name_space,
                                                                absl::string_view name, DType dtype,
                                                                const PartialShape& shape,
                                                                std::optional<Tensor> value,
                                                                bool exact_shape, bool* existed) {
  const Declaration declared{std::string(name), dtype, shape};
  absl::MutexLock lock(&mutex_);
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Variable> there,
                            Check(name_space, declared, exact_shape));
  *existed = there != nullptr;
  if (there != nullptr) return there;
  if (value && value->dtype() != dtype) {
    return InvalidArgument("variable '", name,
                           "': the initial value has another dtype: declared=", DTypeName(dtype),
                           " value=", DTypeName(value->dtype()));
  }
  if (value && !shape.Accepts(value->shape())) {
    return InvalidArgument("variable '", name,
                           "': the initial value has another shape: declared=", shape.ToString(),
                           " value=", value->shape().ToString());
  }
  there = Add(name_space, declared);
  if (value) there->Set(*std::move(value));
  return there;
}

absl::StatusOr<std::vector<std::shared_ptr<Variable>>> ResourceStore::FindOrCreateAll(
    absl::string_view name_space, absl::Span<const Declaration> declared) {
  std::vector<std::shared_ptr<Variable>> variables;
  variables.reserve(declared.size());
  absl::MutexLock lock(&mutex_);
  for (const Declaration& one : declared) {
    FORMWORK_ASSIGN_OR_RETURN(variables.emplace_back(),
                              Check(name_space, one, /*exact_shape=*/false));
  }
  std::vector<const Variable*> added;
  added.reserve(declared.size());
  absl::Cleanup take_back = [&] {
    mutex_.AssertHeld();
    for (const Variable* variable : added) Erase(*variable);
  };
  for (size_t i = 0; i < declared.size(); ++i) {
    if (variables[i] != nullptr) continue;
    variables[i] = Add(name_space, declared[i]);
    added.push_back(variables[i].get());
  }
  std::move(take_back).Cancel();
  return variables;
}

std::shared_ptr<Variable> ResourceStore::Find(uint64_t id) const {
  absl::MutexLock lock(&mutex_);
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::shared_ptr<Variable> ResourceStore::FindByName(absl::string_view name_space,
                                                    absl::string_view name) const {
  absl::MutexLock lock(&mutex_);
  auto names = namespaces_.find(name_space);
  if (names == namespaces_.end()) return nullptr;
  auto found = names->second.find(name);
  return found == names->second.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Variable>> ResourceStore::List(absl::string_view name_space) const {
  std::vector<std::shared_ptr<Variable>> variables;
  absl::MutexLock lock(&mutex_);
  auto names = namespaces_.find(name_space);
  if (names == namespaces_.end()) return variables;
  for (const auto& [name, variable] : names->second) variables.push_back(variable);
  return variables;
}

bool ResourceStore::Remove(const Variable& variable) {
  std::shared_ptr<Variable> held;  // Freed outside the lock.
  absl::MutexLock lock(&mutex_);
  held = Erase(variable);
  return held != nullptr;
}

std::shared_ptr<Variable> ResourceStore::Erase(const Variable& variable) {
  auto found = by_id_.find(variable.id);
  if (found == by_id_.end()) return nullptr;
  std::shared_ptr<Variable> held = std::move(found->second);
  by_id_.erase(found);
  auto names = namespaces_.find(variable.name_space);
  if (names != namespaces_.end()) {
    names->second.erase(variable.name);
    if (names->second.empty()) namespaces_.erase(names);
  }
  held->destroyed_.store(true, std::memory_order_relaxed);
  return held;
}

void ResourceStore::Clear(absl::string_view name_space) {
  Names gone;
  absl::MutexLock lock(&mutex_);
  auto names = namespaces_.find(name_space);
  if (names == namespaces_.end()) return;
  gone = std::move(names->second);
  namespaces_.erase(names);
  for (const auto& [name, variable] : gone) {
    variable->destroyed_.store(true, std::memory_order_relaxed);
    by_id_.erase(variable->id);
  }
}

int64_t ResourceStore::count() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(by_id_.size());
}

uint64_t ResourceStore::bytes() const {
  absl::MutexLock lock(&mutex_);
  uint64_t total = 0;
  for (const auto& [id, variable] : by_id_) total += variable->bytes();
  return total;
}

}  // namespace formwork
