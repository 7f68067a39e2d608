#include "core/function/function_cache.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

// As many earlier requests as TensorFlow keeps for each function.
constexpr size_t kMaxRemembered = 1024;

// Of the types that a request which fits none is told of, the first one apart.
constexpr size_t kMostCandidateBytes = size_t{1} << 20;

// Of one that waits for another's compilation, at its own StopFlag.
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(10);

std::string TypeInUse(absl::string_view name) {
  return absl::StrCat(
      "a function of this name and type is registered with another graph or other captures: ",
      std::string(name));
}

}  // namespace

FunctionCache::FunctionCache(int64_t max_entries, size_t max_bytes, uint64_t first_id,
                             NamespaceUsages* usages)
    : max_entries_(max_entries), max_bytes_(max_bytes), usages_(usages), next_id_(first_id) {}

FunctionCache::Name* FunctionCache::FindName(absl::string_view name_space, absl::string_view name) {
  auto space = name_spaces_.find(name_space);
  if (space == name_spaces_.end()) return nullptr;
  auto it = space->second.find(name);
  return it == space->second.end() ? nullptr : &it->second;
}

Dispatch FunctionCache::Hit(Entry& entry) {
  ++stats_.hits;
  entry.last_used = ++clock_;
  Dispatch dispatch;
  dispatch.function = entry.function;
  return dispatch;
}

Dispatch FunctionCache::UnknownName() {
  ++stats_.misses;
  Dispatch dispatch;
  dispatch.unknown_name = true;
  return dispatch;
}

Dispatch FunctionCache::Miss(const Entries& entries, const FunctionType& request) {
  Dispatch dispatch;
  size_t bytes = 0;
  for (const auto& entry : entries) {
    const FunctionType& type = entry->function->type();
    bytes += type.bytes();
    if (bytes > kMostCandidateBytes && !dispatch.candidates.empty()) break;
    dispatch.candidates.push_back(type);
  }
  dispatch.suggested = Generalize(request, dispatch.candidates);
  absl::MutexLock lock(&mutex_);
  ++stats_.misses;
  return dispatch;
}

Dispatch FunctionCache::Find(absl::string_view name_space, absl::string_view name,
                             const FunctionType& request) {
  Entries entries;
  {
    absl::MutexLock lock(&mutex_);
    Name* found = FindName(name_space, name);
    if (found == nullptr || found->entries.empty()) return UnknownName();
    auto remembered = found->by_type.find(request.hash());
    if (remembered != found->by_type.end() && remembered->second.first == request) {
      return Hit(*remembered->second.second);
    }
    entries = found->entries;
  }
  Entry* best = nullptr;
  for (const auto& entry : entries) {
    const FunctionType& type = entry->function->type();
    if (request == type) {
      best = entry.get();
      break;
    }
    if (request.IsSubtypeOf(type) &&
        (best == nullptr || type.IsSubtypeOf(best->function->type()))) {
      best = entry.get();
    }
  }
  if (best == nullptr) return Miss(entries, request);
  absl::MutexLock lock(&mutex_);
  Name* found = FindName(name_space, name);
  if (found != nullptr && found->entries == entries) {
    if (found->by_type.size() >= kMaxRemembered) found->by_type.clear();
    found->by_type.insert_or_assign(request.hash(), std::make_pair(request, best));
  }
  return Hit(*best);
}

Dispatch FunctionCache::Find(absl::string_view name_space, absl::string_view name,
                             absl::Span<const InputType> inputs) {
  const InputsKey key = KeyOf(inputs);
  Entries entries;
  {
    absl::MutexLock lock(&mutex_);
    Name* found = FindName(name_space, name);
    if (found == nullptr || found->entries.empty()) return UnknownName();
    auto remembered = found->by_inputs.find(key);
    if (remembered != found->by_inputs.end()) return Hit(*remembered->second);
    entries = found->entries;
  }
  const std::vector<FlatInput> request = FlatInputsOf(inputs);
  Entry* best = nullptr;
  for (const auto& entry : entries) {
    if (!IsSubtype(request, entry->inputs)) continue;
    if (IsSubtype(entry->inputs, request)) {
      best = entry.get();
      break;
    }
    if (best == nullptr || IsSubtype(entry->inputs, best->inputs)) best = entry.get();
  }
  if (best == nullptr) {
    return Miss(entries, RequestType(request, entries[0]->function->type()));
  }
  absl::MutexLock lock(&mutex_);
  Name* found = FindName(name_space, name);
  if (found != nullptr && found->entries == entries) {
    if (found->by_inputs.size() >= kMaxRemembered) found->by_inputs.clear();
    found->by_inputs.emplace(key, best);
  }
  return Hit(*best);
}

FunctionPtr FunctionCache::Find(absl::string_view name_space, uint64_t id) {
  absl::MutexLock lock(&mutex_);
  auto it = by_id_.find(id);
  if (it == by_id_.end() || it->second->function->name_space != name_space) {
    ++stats_.misses;
    return nullptr;
  }
  ++stats_.hits;
  it->second->last_used = ++clock_;
  return it->second->function;
}

absl::StatusOr<FunctionCache::Registered> FunctionCache::Register(
    absl::string_view name_space, absl::string_view name, FunctionIdentity identity, bool replace,
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<ConcreteFunction>>()> compile) {
  Dropped dropped;
  std::shared_ptr<Flight> flight;
  while (true) {
    Rivals rivals;
    {
      absl::MutexLock lock(&mutex_);
      rivals = RivalsOf(name_space, name, identity.type);
    }
    // Captured values may be large: they are compared without the lock.
    const bool existed = rivals.function != nullptr && rivals.function->identity == identity;
    const auto same = std::find_if(rivals.flights.begin(), rivals.flights.end(),
                                   [&](const auto& f) { return f->identity == identity; });
    const bool first = same == rivals.flights.end();
    {
      absl::MutexLock lock(&mutex_);
      if (RivalsOf(name_space, name, identity.type) != rivals) continue;
      if (existed) {
        by_id_.find(rivals.function->id)->second->last_used = ++clock_;
        return Registered{std::move(rivals.function), true};
      }
      if (rivals.function != nullptr && !replace) return absl::AlreadyExistsError(TypeInUse(name));
      if (first) {
        // Before anything is compiled. What it takes is known, and looked at again, afterwards.
        if (usages_ != nullptr && !rivals.replaces) {
          FORMWORK_RETURN_IF_ERROR(usages_->Of(name_space)->CheckRoom(Held::kFunction, 1, 0));
        }
        absl::Cleanup forget = [&] {
          mutex_.AssertHeld();
          ForgetIfEmpty(name_space, name);
        };
        flight = std::make_shared<Flight>();
        flight->identity = std::move(identity);
        name_spaces_[std::string(name_space)][std::string(name)].flights.push_back(flight);
      } else {
        flight = *same;
      }
    }
    if (first) break;
    while (!flight->done.WaitForNotificationWithTimeout(kBetweenLooks)) {
      if (WorkIsCut()) return WorkStatus();
    }
    if (flight->stopped) continue;
    FORMWORK_ASSIGN_OR_RETURN(FunctionPtr function, flight->result);
    return Registered{std::move(function), true};
  }

  Dropped evicted;
  // Whatever happens, those who wait are told: nothing here throws.
  absl::StatusOr<std::shared_ptr<ConcreteFunction>> compiled = CatchOutOfMemory([&] {
    absl::StatusOr<std::shared_ptr<ConcreteFunction>> made = compile();
    if (made.ok()) {
      (*made)->name_space = std::string(name_space);
      (*made)->name = std::string(name);
      (*made)->identity = flight->identity;
    }
    return made;
  });
  {
    absl::MutexLock lock(&mutex_);
    flight->result = compiled.ok() ? CatchOutOfMemory([&] {
      mutex_.AssertHeld();
      return Insert(name_space, name, *std::move(compiled), replace, dropped, evicted);
    })
                                   : absl::StatusOr<FunctionPtr>(compiled.status());
    flight->stopped = !WorkStatus().ok();
    auto& flights = FindName(name_space, name)->flights;
    flights.erase(std::find(flights.begin(), flights.end(), flight));
    ForgetIfEmpty(name_space, name);
  }
  flight->done.Notify();
  FORMWORK_ASSIGN_OR_RETURN(FunctionPtr function, flight->result);
  return Registered{std::move(function), false, std::move(evicted)};
}

FunctionCache::Rivals FunctionCache::RivalsOf(absl::string_view name_space, absl::string_view name,
                                              const FunctionType& type) {
  Rivals rivals;
  const Name* known = FindName(name_space, name);
  if (known == nullptr) return rivals;
  for (const auto& entry : known->entries) {
    if (entry->function->type() != type) continue;
    rivals.replaces = true;
    if (!entry->function->broken()) rivals.function = entry->function;
  }
  rivals.flights = known->flights;
  return rivals;
}

absl::StatusOr<FunctionPtr> FunctionCache::Insert(absl::string_view name_space,
                                                  absl::string_view name,
                                                  std::shared_ptr<ConcreteFunction> function,
                                                  bool replace, Dropped& dropped,
                                                  Dropped& evicted) {
  if (function->bytes > max_bytes_) {
    return ResourceExhausted("function is larger than the cache: bytes=", function->bytes,
                             " limit=", max_bytes_);
  }
  Name& known = *FindName(name_space, name);
  size_t replaced = 0;
  for (; replaced < known.entries.size(); ++replaced) {
    const ConcreteFunction& there = *known.entries[replaced]->function;
    if (there.type() != function->type()) continue;
    // Somebody else was faster with this type; what cannot be called any more gives way.
    if (!replace && !there.broken()) return absl::AlreadyExistsError(TypeInUse(name));
    break;
  }
  const bool replaces = replaced < known.entries.size();
  auto entry = std::make_shared<Entry>();
  if (usages_ != nullptr) {
    FORMWORK_RETURN_IF_ERROR(
        entry->counted.Begin(usages_->Of(name_space), Held::kFunction, function->bytes,
                             replaces ? &known.entries[replaced]->counted : nullptr));
  }
  if (replaces) Erase(known, replaced, dropped);
  if (function->id == 0) function->id = next_id_++;
  entry->inputs = FlatInputsOf(*function);
  entry->last_used = ++clock_;
  entry->function = std::move(function);
  FunctionPtr result = entry->function;
  // Known by both or, where there is no memory, by neither.
  by_id_.emplace(result->id, entry.get());
  absl::Cleanup undo = [&] {
    mutex_.AssertHeld();
    by_id_.erase(result->id);
  };
  known.entries.push_back(std::move(entry));
  std::move(undo).Cancel();
  stats_.bytes += result->bytes;
  ++stats_.entries;
  known.by_inputs.clear();
  known.by_type.clear();
  if (on_change_) on_change_(*result, /*there=*/true);
  Evict(evicted);
  return result;
}

void FunctionCache::Evict(Dropped& evicted) {
  while (stats_.entries > max_entries_ || stats_.bytes > max_bytes_) {
    Entry* oldest = nullptr;
    for (const auto& [id, entry] : by_id_) {
      // Who else holds the function is a call, or somebody about to make one.
      if (entry->function.use_count() > 1) continue;
      if (oldest == nullptr || entry->last_used < oldest->last_used) oldest = entry;
    }
    if (oldest == nullptr) return;
    // By value: erasing ends the function.
    const FunctionPtr victim = oldest->function;
    Name& name = *FindName(victim->name_space, victim->name);
    for (size_t i = 0; i < name.entries.size(); ++i) {
      if (name.entries[i].get() == oldest) {
        Erase(name, i, evicted);
        break;
      }
    }
    ++stats_.evictions;
    ForgetIfEmpty(victim->name_space, victim->name);
  }
}

void FunctionCache::Erase(Name& name, size_t index, Dropped& dropped) {
  const FunctionPtr function = name.entries[index]->function;
  dropped.push_back(function);  // First: it may need memory.
  if (on_change_) on_change_(*function, /*there=*/false);
  name.entries[index]->counted.End();
  by_id_.erase(function->id);
  stats_.bytes -= function->bytes;
  --stats_.entries;
  name.entries.erase(name.entries.begin() + static_cast<std::ptrdiff_t>(index));
  name.by_inputs.clear();
  name.by_type.clear();
}

void FunctionCache::EraseAll(Name& name, Dropped& dropped) {
  while (!name.entries.empty()) Erase(name, name.entries.size() - 1, dropped);
}

void FunctionCache::ForgetIfEmpty(absl::string_view name_space, absl::string_view name) {
  auto space = name_spaces_.find(name_space);
  if (space == name_spaces_.end()) return;
  auto it = space->second.find(name);
  if (it == space->second.end()) return;
  if (!it->second.entries.empty() || !it->second.flights.empty()) return;
  space->second.erase(it);
  if (space->second.empty()) name_spaces_.erase(space);
}

int64_t FunctionCache::Remove(absl::string_view name_space, uint64_t id) {
  Dropped dropped;
  absl::MutexLock lock(&mutex_);
  auto it = by_id_.find(id);
  if (it == by_id_.end() || it->second->function->name_space != name_space) return 0;
  const std::string name = it->second->function->name;
  Name& known = *FindName(name_space, name);
  for (size_t i = 0; i < known.entries.size(); ++i) {
    if (known.entries[i]->function->id == id) {
      Erase(known, i, dropped);
      break;
    }
  }
  ForgetIfEmpty(name_space, name);
  return 1;
}

int64_t FunctionCache::Remove(absl::string_view name_space, absl::string_view name) {
  Dropped dropped;
  absl::MutexLock lock(&mutex_);
  Name* known = FindName(name_space, name);
  if (known == nullptr) return 0;
  EraseAll(*known, dropped);
  ForgetIfEmpty(name_space, name);
  return static_cast<int64_t>(dropped.size());
}

int64_t FunctionCache::Clear(absl::string_view name_space) {
  Dropped dropped;
  absl::MutexLock lock(&mutex_);
  auto space = name_spaces_.find(name_space);
  if (space == name_spaces_.end()) return 0;
  std::vector<std::string> names;
  for (auto& [name, known] : space->second) {
    EraseAll(known, dropped);
    names.push_back(name);
  }
  for (const std::string& name : names) ForgetIfEmpty(name_space, name);
  return static_cast<int64_t>(dropped.size());
}

std::vector<FunctionPtr> FunctionCache::List(absl::string_view name_space) const {
  std::vector<FunctionPtr> functions;
  absl::MutexLock lock(&mutex_);
  auto space = name_spaces_.find(name_space);
  if (space == name_spaces_.end()) return functions;
  for (const auto& [name, known] : space->second) {
    for (const auto& entry : known.entries) functions.push_back(entry->function);
  }
  std::sort(functions.begin(), functions.end(), [](const FunctionPtr& a, const FunctionPtr& b) {
    return std::tie(a->name, a->id) < std::tie(b->name, b->id);
  });
  return functions;
}

std::vector<FunctionPtr> FunctionCache::List(absl::string_view name_space,
                                             absl::string_view name) const {
  std::vector<FunctionPtr> functions;
  absl::MutexLock lock(&mutex_);
  auto space = name_spaces_.find(name_space);
  if (space == name_spaces_.end()) return functions;
  auto known = space->second.find(name);
  if (known == space->second.end()) return functions;
  for (const auto& entry : known->second.entries) functions.push_back(entry->function);
  return functions;
}

std::vector<FunctionPtr> FunctionCache::ListAll() const {
  std::vector<FunctionPtr> functions;
  {
    absl::MutexLock lock(&mutex_);
    functions.reserve(by_id_.size());
    for (const auto& [id, entry] : by_id_) functions.push_back(entry->function);
  }
  std::sort(functions.begin(), functions.end(),
            [](const FunctionPtr& a, const FunctionPtr& b) { return a->id < b->id; });
  return functions;
}

uint64_t FunctionCache::next_id() const {
  absl::MutexLock lock(&mutex_);
  return next_id_;
}

FunctionCacheStats FunctionCache::stats() const {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

}  // namespace formwork
