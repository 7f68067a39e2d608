// What a call does to the values of the resources that it has places at.

#include <optional>
#include <utility>

#include "core/base/memory_budget.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/resource/access_ticket.h"

namespace formwork {
namespace {

// What moves less is done within 50 ms.
constexpr size_t kLongUpdate = size_t{128} << 20;

// Whether a stop is near that would have to wait for a change in place.
bool IsInTheWay(size_t bytes_moved) {
  constexpr double kSlowestBytesPerSecond = 1e9;
  return bytes_moved >= kLongUpdate &&
         WorkStopsWithin(absl::Seconds(static_cast<double>(bytes_moved) / kSlowestBytesPerSecond));
}

// Whether `value`, which could be changed in place, is rather copied, so that a stop can cut the
// work.
bool IsWorthACopy(const Tensor& value, size_t bytes_moved) {
  return (bytes_moved >= kLongUpdate && value.bytes() <= bytes_moved / 4) ||
         IsInTheWay(bytes_moved);
}

}  // namespace

void AccessTicket::NoteWrite(Entry& entry, const RowIndices* rows) {
  Resource& resource = *entry.resource;
  if (rows == nullptr) {
    entry.changed.AddAll();
  } else {
    entry.changed.Add(*rows, resource.value_);
  }
  resource.last_writer_.store(writer_, std::memory_order_relaxed);
  const uint64_t version = resource.version();
  if (entry.to_version == entry.from_version) entry.from_version = version - 1;
  entry.to_version = version;
}

void AccessTicket::NoteBefore(Entry& entry) {
  if (!atomic_ || entry.before) return;
  const Resource& resource = *entry.resource;
  entry.before = {resource.value_, resource.bytes(), resource.version(), resource.last_writer()};
}

void AccessTicket::RollBack() {
  const HeapScope unlimited(nullptr);
  for (Entry& entry : entries_) {
    entry.destroyed = false;
    if (!entry.before) continue;
    Resource& resource = *entry.resource;
    resource.Set(std::move(entry.before->value), entry.before->bytes);
    resource.version_.store(entry.before->version, std::memory_order_relaxed);
    resource.last_writer_.store(entry.before->last_writer, std::memory_order_relaxed);
    entry.before.reset();
    entry.from_version = entry.to_version = 0;
  }
}

uint64_t AccessTicket::ReadVersion(ResourceHandle handle) {
  const Entry* entry = Find(handle);
  return entry == nullptr ? 0 : entry->to_version;
}

std::vector<ResourceChange> AccessTicket::Changes() const {
  std::vector<ResourceChange> changes;
  for (const Entry& entry : entries_) {
    if (entry.to_version == entry.from_version || entry.resource->name_space.empty()) continue;
    ResourceChange& change = changes.emplace_back();
    change.id = entry.resource->id;
    change.from_version = entry.from_version;
    change.to_version = entry.to_version;
    change.by_rows = entry.changed.known();
    if (change.by_rows) change.rows = entry.changed.Rows();
  }
  return changes;
}

absl::Status AccessTicket::Uninitialized(const Resource& variable) {
  return WithReason(FailedPrecondition("Error while reading resource variable ", variable.name,
                                       ": it is uninitialized"),
                    Reason::kVariableUninitialized, {{"variableName", variable.name}});
}

absl::Status AccessTicket::Destroyed(const Resource& resource) {
  return WithReason(NotFound(Described(resource), " has been destroyed"), Reason::kVariableDeleted,
                    {{"variableName", resource.name}});
}

absl::StatusOr<AccessTicket::Entry*> AccessTicket::Get(ResourceHandle handle) {
  Entry* entry = Find(handle);
  if (entry == nullptr) {
    return InvalidArgument("the handle is none of the call's resources: id=", handle.id);
  }
  if (entry->destroyed) return Destroyed(*entry->resource);
  if (entry->released) {
    return Internal(Described(*entry->resource), " was released before its last access");
  }
  return entry;
}

absl::StatusOr<AccessTicket::Entry*> AccessTicket::GetVariable(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, Get(handle));
  if (!entry->resource->type.is_variable()) {
    return InvalidArgument(Described(*entry->resource), " is not a variable");
  }
  return entry;
}

absl::Status AccessTicket::CheckWritten(const Entry& entry) {
  if (entry.write) return absl::OkStatus();
  return Internal(Described(*entry.resource), " was admitted for reading alone");
}

absl::StatusOr<Tensor> AccessTicket::Read(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(const Entry* entry, GetVariable(handle));
  const Tensor& value = ValueOf(*entry);
  if (!value.has_value()) return Uninitialized(*entry->resource);
  return value;
}

absl::StatusOr<Tensor> AccessTicket::ReadState(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(const Entry* entry, Get(handle));
  return ValueOf(*entry);
}

absl::Status AccessTicket::WriteState(ResourceHandle handle, Tensor state, size_t bytes) {
  FORMWORK_RETURN_IF_ERROR(WorkStatus());  // The state may be unfinished.
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, Get(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  FORMWORK_RETURN_IF_ERROR(entry->resource->Resize(bytes));
  NoteBefore(*entry);
  entry->resource->Set(std::move(state), bytes);
  NoteWrite(*entry);
  return absl::OkStatus();
}

absl::Status AccessTicket::CheckFits(const Resource& variable, const Tensor& value) {
  if (value.dtype() != variable.dtype()) {
    return InvalidArgument("variable '", variable.name,
                           "': the value has another dtype: variable=", DTypeName(variable.dtype()),
                           " value=", DTypeName(value.dtype()));
  }
  if (!variable.shape().Accepts(value.shape())) {
    return InvalidArgument("variable '", variable.name,
                           "': the value has another shape: variable=", variable.shape().ToString(),
                           " value=", value.shape().ToString());
  }
  return absl::OkStatus();
}

absl::Status AccessTicket::Reserve(ResourceHandle handle, size_t bytes) {
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  return entry->resource->Resize(bytes);
}

absl::Status AccessTicket::Assign(ResourceHandle handle, Tensor value) {
  FORMWORK_RETURN_IF_ERROR(WorkStatus());  // The value may be unfinished.
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  FORMWORK_RETURN_IF_ERROR(CheckFits(*entry->resource, value));
  FORMWORK_RETURN_IF_ERROR(entry->resource->Resize(value.bytes()));
  NoteBefore(*entry);
  entry->resource->Set(std::move(value));
  NoteWrite(*entry);
  return absl::OkStatus();
}

absl::Status AccessTicket::Update(ResourceHandle handle, size_t bytes_moved,
                                  absl::FunctionRef<absl::Status(Tensor& value)> update) {
  return Change(handle, nullptr, bytes_moved, update);
}

bool AccessTicket::LeaveValue(ResourceHandle handle, const Tensor& value, size_t bytes_moved) {
  const Entry* entry = Find(handle);
  if (entry == nullptr || !entry->write || entry->destroyed || entry->released || atomic_ ||
      (streams_ != nullptr && entry->resource->type.is_variable())) {
    return false;
  }
  Tensor& own = entry->resource->value_;
  const BufferBlock* const block = value.buffer().block();
  if (block == nullptr || own.buffer().block() != block || !value.buffer().HasHolders(2) ||
      own.dtype() != value.dtype() || own.shape() != value.shape() || WorkIsCut() ||
      IsInTheWay(bytes_moved)) {
    return false;
  }
  own = Tensor();
  return true;
}

void AccessTicket::PutBack(ResourceHandle handle, Tensor value) {
  if (const Entry* const entry = Find(handle)) entry->resource->value_ = std::move(value);
}

absl::Status AccessTicket::UpdateRows(ResourceHandle handle, const RowIndices& rows,
                                      size_t bytes_moved,
                                      absl::FunctionRef<absl::Status(Tensor& value)> update) {
  return Change(handle, &rows, bytes_moved, update);
}

absl::Status AccessTicket::Change(ResourceHandle handle, const RowIndices* rows, size_t bytes_moved,
                                  absl::FunctionRef<absl::Status(Tensor& value)> update) {
  FORMWORK_RETURN_IF_ERROR(WorkStatus());  // What it is updated by may be unfinished.
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  Resource& variable = *entry->resource;
  if (!variable.value_.has_value()) return Uninitialized(variable);
  if (rows != nullptr) entry->changed.Reserve(variable.value_);
  NoteBefore(*entry);
  const bool in_place = variable.value_.unique();
  std::optional<Tensor> copy;
  if (!in_place || IsWorthACopy(variable.value_, bytes_moved)) {
    absl::StatusOr<Tensor> made =
        CatchOutOfMemory([&] { return variable.value_.Clone(allocator_); });
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    if (made.ok()) {
      copy = *std::move(made);
    } else if (!in_place) {
      return std::move(made).status();
    }
  }
  if (!copy) {
    const UncutScope uncut;
    Tensor value = std::move(variable.value_);
    absl::Status status = CatchOutOfMemory([&] { return update(value); });
    if (status.ok()) status = CheckFits(variable, value);
    if (!status.ok()) {
      variable.value_ = std::move(value);  // Unwritten, as `update` promises.
      return status;
    }
    variable.Set(std::move(value));
    NoteWrite(*entry, rows);
    return absl::OkStatus();
  }
  FORMWORK_RETURN_IF_ERROR(update(*copy));
  FORMWORK_RETURN_IF_ERROR(WorkStatus());  // The copy may be unfinished.
  FORMWORK_RETURN_IF_ERROR(CheckFits(variable, *copy));
  variable.Set(*std::move(copy));
  NoteWrite(*entry, rows);
  return absl::OkStatus();
}

bool AccessTicket::IsInitialized(ResourceHandle handle) {
  const Entry* entry = Find(handle);
  if (entry == nullptr || entry->destroyed || entry->released) return false;
  return ValueOf(*entry).has_value();
}

absl::Status AccessTicket::Destroy(ResourceHandle handle, bool ignore_missing) {
  Entry* entry = Find(handle);
  if (entry == nullptr || entry->destroyed) {
    if (ignore_missing) return absl::OkStatus();
    return NotFound("the resource to destroy is not there: id=", handle.id);
  }
  entry->destroyed = true;
  if (!atomic_) store_.Remove(*entry->resource);
  return absl::OkStatus();
}

absl::StatusOr<const ResourceType*> AccessTicket::TypeOf(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(const Entry* entry, Get(handle));
  return &entry->resource->type;
}

ResourceHandle AccessTicket::CreateForCall(const std::string& name, ResourceType type) {
  Entry& entry = entries_.emplace_back(  // Its ID is the highest.
      std::make_shared<Resource>(store_.NextId(), "", name, std::move(type)));
  entry.write = true;
  const ResourceHandle handle{entry.id};
  NoteAccess(handle, Tensor(), /*writes=*/true);
  return handle;
}

}  // namespace formwork
