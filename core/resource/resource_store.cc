#include "core/resource/resource_store.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "core/base/memory_budget.h"
#include "core/base/name.h"
#include "core/base/status.h"
#include "core/device/device.h"
#include "core/resource/access_ticket.h"

namespace formwork {
namespace {

absl::Status CheckVariable(absl::string_view name, const ResourceType& type) {
  const DType dtype = type.parts[0].dtype;
  if (IsPlainData(dtype) || dtype == DType::kString || dtype == DType::kVariant) {
    return absl::OkStatus();
  }
  return InvalidArgument("variable '", name, "': a variable cannot have dtype ", DTypeName(dtype));
}

}  // namespace

void Resource::NoteUses(const Tensor& state) {
  const Variant& next = state.scalar<Variant>();
  // One that moves on in place is set again each time.
  const bool has_state = value_.dtype() == DType::kVariant && value_.rank() == 0;
  if (has_state && value_.scalar<Variant>() == next) return;
  const auto* const user = dynamic_cast<const UsesResources*>(next.get());
  std::shared_ptr<const UsedResources> uses = user == nullptr ? nullptr : user->uses();
  if (uses == nullptr && !has_uses_.load(std::memory_order_relaxed)) return;
  const absl::MutexLock lock(&uses_mutex_);
  has_uses_.store(uses != nullptr, std::memory_order_release);
  uses_ = std::move(uses);
}

Resource::~Resource() {
  for (const std::shared_ptr<Event>& read : reads_) (void)read->Await(absl::InfiniteFuture());
  if (defined_ != nullptr) (void)defined_->Await(absl::InfiniteFuture());
}

std::string Described(const Resource& resource) {
  return absl::StrCat(std::string(resource.type.kind->name), " '", resource.name, "'");
}

absl::StatusOr<std::shared_ptr<Resource>> ResourceStore::Check(absl::string_view name_space,
                                                               const Declaration& declared,
                                                               bool exact_shape) const {
  const auto& [name, type] = declared;
  FORMWORK_RETURN_IF_ERROR(CheckName(type.kind->name, name));
  if (type.is_variable()) FORMWORK_RETURN_IF_ERROR(CheckVariable(name, type));
  auto names = namespaces_.find(name_space);
  if (names == namespaces_.end()) return nullptr;
  auto found = names->second.find(name);
  if (found == names->second.end()) return nullptr;
  const Resource& there = *found->second;
  if (exact_shape ? there.type == type : there.type.IsCompatibleWith(type)) return found->second;
  return InvalidArgument(Described(there),
                         " exists with another dtype or shape: there=", there.type.ToString(),
                         " asked=", type.ToString());
}

absl::StatusOr<std::shared_ptr<Resource>> ResourceStore::Add(uint64_t id,
                                                             absl::string_view name_space,
                                                             const Declaration& declared,
                                                             size_t bytes, bool anyway) {
  auto resource =
      std::make_shared<Resource>(id, std::string(name_space), declared.name, declared.type);
  resource->logged_ = log_ != nullptr;
  if (usages_ != nullptr) {
    const Held what = declared.type.is_variable() ? Held::kVariable : Held::kOtherResource;
    std::shared_ptr<NamespaceUsage> usage = usages_->Of(name_space);
    if (anyway) {
      resource->counted_.BeginAnyway(usage, what, bytes);
    } else {
      FORMWORK_RETURN_IF_ERROR(resource->counted_.Begin(usage, what, bytes));
    }
    // It does not change any more.
    resource->logged_ &= usage->durability() == Durability::kSync;
  }
  // Known by both or, where there is no memory, by neither.
  by_id_.emplace(resource->id, resource);
  absl::Cleanup undo = [&] {
    mutex_.AssertHeld();
    by_id_.erase(resource->id);
  };
  namespaces_[std::string(name_space)].insert_or_assign(declared.name, resource);
  std::move(undo).Cancel();
  return resource;
}

absl::StatusOr<std::shared_ptr<Resource>> ResourceStore::Create(absl::string_view name_space,
                                                                absl::string_view name,
                                                                ResourceType type,
                                                                std::optional<Tensor> value,
                                                                bool exact_shape, bool* existed) {
  const Declaration declared{std::string(name), std::move(type)};
  absl::MutexLock lock(&mutex_);
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Resource> there,
                            Check(name_space, declared, exact_shape));
  *existed = there != nullptr;
  if (there != nullptr) return there;
  const auto& [dtype, shape] = declared.type.parts[0];
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
  FORMWORK_ASSIGN_OR_RETURN(there, Add(NextId(), name_space, declared, value ? value->bytes() : 0));
  if (value) there->Set(*std::move(value));
  if (log_ != nullptr) LogAdded({there});
  return there;
}

absl::StatusOr<std::vector<std::shared_ptr<Resource>>> ResourceStore::FindOrCreateAll(
    absl::string_view name_space, absl::Span<const Declaration> declared) {
  std::vector<std::shared_ptr<Resource>> resources;
  resources.reserve(declared.size());
  absl::MutexLock lock(&mutex_);
  for (const Declaration& one : declared) {
    FORMWORK_ASSIGN_OR_RETURN(resources.emplace_back(),
                              Check(name_space, one, /*exact_shape=*/false));
  }
  std::vector<std::shared_ptr<Resource>> added;
  added.reserve(declared.size());
  absl::Cleanup take_back = [&] {
    mutex_.AssertHeld();
    for (const auto& resource : added) Erase(*resource);
  };
  for (size_t i = 0; i < declared.size(); ++i) {
    if (resources[i] != nullptr) continue;
    FORMWORK_ASSIGN_OR_RETURN(resources[i], Add(NextId(), name_space, declared[i], 0));
    added.push_back(resources[i]);
  }
  std::move(take_back).Cancel();
  if (log_ != nullptr && !added.empty()) LogAdded(added);
  return resources;
}

std::shared_ptr<Resource> ResourceStore::Find(uint64_t id) const {
  absl::MutexLock lock(&mutex_);
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::shared_ptr<Resource> ResourceStore::FindByName(absl::string_view name_space,
                                                    absl::string_view name) const {
  absl::MutexLock lock(&mutex_);
  auto names = namespaces_.find(name_space);
  if (names == namespaces_.end()) return nullptr;
  auto found = names->second.find(name);
  return found == names->second.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Resource>> ResourceStore::List(absl::string_view name_space) const {
  std::vector<std::shared_ptr<Resource>> resources;
  absl::MutexLock lock(&mutex_);
  auto names = namespaces_.find(name_space);
  if (names == namespaces_.end()) return resources;
  for (const auto& [name, resource] : names->second) resources.push_back(resource);
  return resources;
}

std::vector<std::shared_ptr<Resource>> ResourceStore::ListAll() const {
  std::vector<std::shared_ptr<Resource>> resources;
  {
    absl::MutexLock lock(&mutex_);
    resources.reserve(by_id_.size());
    for (const auto& [id, resource] : by_id_) resources.push_back(resource);
  }
  std::sort(resources.begin(), resources.end(),
            [](const auto& a, const auto& b) { return a->id < b->id; });
  return resources;
}

void ResourceStore::Restore(uint64_t id, absl::string_view name_space, absl::string_view name,
                            ResourceType type, uint64_t version, Tensor value, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  const std::shared_ptr<Resource> resource =
      *Add(id, name_space, {std::string(name), std::move(type)}, bytes, /*anyway=*/true);
  resource->Set(std::move(value), bytes);
  resource->version_.store(version, std::memory_order_relaxed);
}

bool ResourceStore::Remove(const Resource& resource) {
  std::shared_ptr<Resource> held;
  {
    absl::MutexLock lock(&mutex_);
    held = Erase(resource);
    if (held != nullptr && log_ != nullptr) LogRemoved({held});
  }
  if (held == nullptr) return false;
  AccessTicket::NoteDestroyed(*this, *held);
  return true;
}

void ResourceStore::LogAdded(absl::Span<const std::shared_ptr<Resource>> added) {
  const HeapScope unlimited(nullptr);  // It has been done.
  CommitRecord record;
  for (const auto& resource : added) {
    if (!resource->logged()) continue;
    record.resources.push_back({resource, resource->version(), resource->value_});
  }
  Log(std::move(record));
}

void ResourceStore::LogRemoved(absl::Span<const std::shared_ptr<Resource>> removed) {
  const HeapScope unlimited(nullptr);
  CommitRecord record;
  for (const auto& resource : removed) {
    if (!resource->logged()) continue;
    record.resources.push_back({.resource = resource, .removed = true});
  }
  Log(std::move(record));
}

void ResourceStore::Log(CommitRecord record) {
  if (record.resources.empty()) return;
  std::vector<std::shared_ptr<Resource>> resources;
  for (const ResourceCommit& commit : record.resources) resources.push_back(commit.resource);
  const uint64_t position = log_->Append(std::move(record));
  for (const auto& resource : resources) {
    resource->log_position_.store(position, std::memory_order_relaxed);
  }
}

std::shared_ptr<Resource> ResourceStore::Erase(const Resource& resource) {
  auto found = by_id_.find(resource.id);
  if (found == by_id_.end()) return nullptr;
  std::shared_ptr<Resource> held = std::move(found->second);
  by_id_.erase(found);
  auto names = namespaces_.find(resource.name_space);
  if (names != namespaces_.end()) {
    names->second.erase(resource.name);
    if (names->second.empty()) namespaces_.erase(names);
  }
  held->destroyed_.store(true, std::memory_order_relaxed);
  held->counted_.End();
  return held;
}

void ResourceStore::Clear(absl::string_view name_space) {
  Names gone;
  {
    absl::MutexLock lock(&mutex_);
    auto names = namespaces_.find(name_space);
    if (names == namespaces_.end()) return;
    gone = std::move(names->second);
    namespaces_.erase(names);
    std::vector<std::shared_ptr<Resource>> removed;
    if (log_ != nullptr) removed.reserve(gone.size());
    for (const auto& [name, resource] : gone) {
      resource->destroyed_.store(true, std::memory_order_relaxed);
      resource->counted_.End();
      by_id_.erase(resource->id);
      if (log_ != nullptr) removed.push_back(resource);
    }
    if (!removed.empty()) LogRemoved(removed);
  }
  for (const auto& [name, resource] : gone) AccessTicket::NoteDestroyed(*this, *resource);
}

int64_t ResourceStore::count() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(by_id_.size());
}

uint64_t ResourceStore::bytes() const {
  absl::MutexLock lock(&mutex_);
  uint64_t total = 0;
  for (const auto& [id, resource] : by_id_) total += resource->bytes();
  return total;
}

}  // namespace formwork
