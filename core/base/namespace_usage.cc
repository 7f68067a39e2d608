#include "core/base/namespace_usage.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork {
namespace {

// `unit`: what the facts' names end in.
absl::Status Refusal(absl::string_view name_space, absl::string_view what, absl::string_view unit,
                     uint64_t wanted, uint64_t used, uint64_t limit) {
  const std::string wanted_key = absl::StrCat("wanted", unit),
                    used_key = absl::StrCat("used", unit), limit_key = absl::StrCat("limit", unit);
  return WithReason(
      ResourceExhausted("namespace '", name_space, "' may not hold more ", what,
                        ": wanted=", wanted, " used=", used, " limit=", limit),
      Reason::kQuota,
      {{"namespace", name_space}, {wanted_key, wanted}, {used_key, used}, {limit_key, limit}});
}

// Namespaces that have a durability of their own stay when nothing is in them.
constexpr size_t kMostDurabilities = size_t{1} << 14;

absl::string_view NameOf(Durability durability) {
  switch (durability) {
    case Durability::kMemory:
      return "memory";
    case Durability::kSnapshot:
      return "snapshot";
    case Durability::kSync:
      break;
  }
  return "sync";
}

// How often the durability of a namespace has changed, of any NamespaceUsages.
std::atomic<uint64_t> durability_changes{1};

// What a thread has found last, under names that are short, as far as it is not older than the
// last change: each call asks a few times, and need not wait for other threads' calls.
class FoundDurabilities {
 public:
  std::optional<Durability> Find(const void* of, absl::string_view name, uint64_t changes) const {
    const Found& found = found_[PlaceOf(name)];
    if (found.changes != changes || found.of != of || found.size != name.size() ||
        name.compare({found.name.data(), found.size}) != 0) {
      return std::nullopt;
    }
    return found.durability;
  }
  void Note(const void* of, absl::string_view name, uint64_t changes, Durability durability) {
    Found& found = found_[PlaceOf(name)];
    if (name.size() > found.name.size()) return;
    found.of = of;
    found.changes = changes;
    found.durability = durability;
    found.size = name.size();
    std::copy(name.begin(), name.end(), found.name.begin());
  }

 private:
  struct Found {
    const void* of = nullptr;
    uint64_t changes = 0;
    Durability durability = Durability::kMemory;
    size_t size = 0;
    std::array<char, 64> name;
  };
  static constexpr size_t kPlaces = 8;
  static size_t PlaceOf(absl::string_view name) { return absl::HashOf(name) % kPlaces; }

  std::array<Found, kPlaces> found_;
};

bool IsResource(Held what) { return what == Held::kVariable || what == Held::kOtherResource; }

}  // namespace

uint64_t NamespaceHoldings::bytes() const {
  uint64_t total = 0;
  for (const Amount& amount : amounts) total += amount.bytes;
  return total;
}

NamespaceHoldings NamespaceUsage::holdings() const {
  NamespaceHoldings holdings{name, {}};
  absl::MutexLock lock(&mutex_);
  holdings.amounts = amounts_;
  holdings.durability = durability();
  return holdings;
}

bool NamespaceUsage::SetDurability(Durability durability) {
  absl::MutexLock lock(&mutex_);
  if (std::any_of(amounts_.begin(), amounts_.end(),
                  [](const Amount& amount) { return amount.count > 0; })) {
    return false;
  }
  durability_.store(durability, std::memory_order_relaxed);
  return true;
}

absl::Status NamespaceUsage::Check(Held what, Amount more, Held gone, Amount less) const {
  const auto count_of = [&](Held kind) {
    mutex_.AssertHeld();
    return amounts_[static_cast<size_t>(kind)].count - (kind == gone ? less.count : 0);
  };
  int64_t limit = 0, count = 0;
  absl::string_view name;
  if (IsResource(what)) {
    limit = limits_.resources;
    count = count_of(Held::kVariable) + count_of(Held::kOtherResource);
    name = "variables and other resources";
  } else if (what == Held::kFunction) {
    limit = limits_.functions;
    count = count_of(what);
    name = "functions";
  } else {
    limit = limits_.kept_tensors;
    count = count_of(what);
    name = "kept tensors";
  }
  if (limit != 0 && more.count > limit - std::min(limit, count)) {
    return Refusal(this->name, name, "", static_cast<uint64_t>(more.count),
                   static_cast<uint64_t>(count), static_cast<uint64_t>(limit));
  }
  const uint64_t used = bytes_ - less.bytes;
  if (limits_.bytes != 0 && more.bytes > limits_.bytes - std::min(limits_.bytes, used)) {
    return Refusal(this->name, "bytes", "Bytes", more.bytes, used, limits_.bytes);
  }
  return absl::OkStatus();
}

absl::Status NamespaceUsage::CheckRoom(Held what, int64_t count, uint64_t bytes) const {
  absl::MutexLock lock(&mutex_);
  return Check(what, {count, bytes}, what, {});
}

void NamespaceUsage::Add(Held what, Amount more) {
  Amount& amount = amounts_[static_cast<size_t>(what)];
  amount.count += more.count;
  amount.bytes += more.bytes;
  bytes_ += more.bytes;
}

void NamespaceUsage::Remove(Held what, Amount less) {
  Amount& amount = amounts_[static_cast<size_t>(what)];
  amount.count -= less.count;
  amount.bytes -= less.bytes;
  bytes_ -= less.bytes;
}

UsageItem& UsageItem::operator=(UsageItem&& other) noexcept {
  usage_ = std::move(other.usage_);
  what_ = other.what_;
  counted_ = other.counted_;
  bytes_.store(other.bytes_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  other.usage_ = nullptr;
  return *this;
}

absl::Status UsageItem::Begin(std::shared_ptr<NamespaceUsage> usage, Held what, uint64_t bytes,
                              UsageItem* instead_of) {
  if (usage == nullptr) return absl::OkStatus();
  {
    absl::MutexLock lock(&usage->mutex_);
    NamespaceUsage::Amount less;
    const bool replaces = instead_of != nullptr && instead_of->counted_;
    if (replaces) less = {1, instead_of->bytes_.load(std::memory_order_relaxed)};
    FORMWORK_RETURN_IF_ERROR(
        usage->Check(what, {1, bytes}, replaces ? instead_of->what_ : what, less));
    if (replaces) {
      instead_of->counted_ = false;
      usage->Remove(instead_of->what_, less);
    }
    usage->Add(what, {1, bytes});
  }
  usage_ = std::move(usage);
  what_ = what;
  counted_ = true;
  bytes_.store(bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

void UsageItem::BeginAnyway(std::shared_ptr<NamespaceUsage> usage, Held what, uint64_t bytes) {
  if (usage == nullptr) return;
  {
    absl::MutexLock lock(&usage->mutex_);
    usage->Add(what, {1, bytes});
  }
  usage_ = std::move(usage);
  what_ = what;
  counted_ = true;
  bytes_.store(bytes, std::memory_order_relaxed);
}

absl::Status UsageItem::Resize(uint64_t bytes) {
  const uint64_t before = bytes_.load(std::memory_order_relaxed);
  if (usage_ == nullptr || bytes == before) return absl::OkStatus();
  absl::MutexLock lock(&usage_->mutex_);
  if (!counted_) return absl::OkStatus();
  if (bytes > before) {
    FORMWORK_RETURN_IF_ERROR(usage_->Check(what_, {0, bytes}, what_, {0, before}));
  }
  usage_->Remove(what_, {0, before});
  usage_->Add(what_, {0, bytes});
  bytes_.store(bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

void UsageItem::ResizeAnyway(uint64_t bytes) {
  const uint64_t before = bytes_.load(std::memory_order_relaxed);
  if (usage_ == nullptr || bytes == before) return;
  absl::MutexLock lock(&usage_->mutex_);
  if (!counted_) return;
  usage_->Remove(what_, {0, before});
  usage_->Add(what_, {0, bytes});
  bytes_.store(bytes, std::memory_order_relaxed);
}

void UsageItem::End() {
  if (usage_ == nullptr) return;
  absl::MutexLock lock(&usage_->mutex_);
  if (!counted_) return;
  counted_ = false;
  usage_->Remove(what_, {1, bytes_.load(std::memory_order_relaxed)});
}

std::shared_ptr<NamespaceUsage> NamespaceUsages::Of(absl::string_view name) {
  if (std::shared_ptr<NamespaceUsage> known = Find(name)) return known;
  const auto forget = [known = known_](NamespaceUsage* usage) {
    {
      absl::MutexLock lock(&known->mutex);
      const auto found = known->by_name.find(usage->name);
      // Another may have taken its place.
      if (found != known->by_name.end() && found->second.expired()) known->by_name.erase(found);
    }
    delete usage;
  };
  // Outside of the lock, which `forget` takes where there is no memory for the rest.
  const std::shared_ptr<NamespaceUsage> made(new NamespaceUsage(name, limits_), forget);
  absl::MutexLock lock(&known_->mutex);
  std::weak_ptr<NamespaceUsage>& known = known_->by_name[made->name];
  if (std::shared_ptr<NamespaceUsage> there = known.lock()) return there;
  made->SetDurability(known_->Of(name, durability_));
  known = made;
  return made;
}

Durability NamespaceUsages::DurabilityOf(absl::string_view name) const {
  if (!known_->has_durabilities.load(std::memory_order_acquire)) return durability_;
  static thread_local FoundDurabilities found;
  // Before it is looked up: what changes meanwhile is looked up again.
  const uint64_t changes = durability_changes.load(std::memory_order_acquire);
  if (const std::optional<Durability> known = found.Find(known_.get(), name, changes))
    return *known;
  absl::MutexLock lock(&known_->mutex);
  const Durability durability = known_->Of(name, durability_);
  found.Note(known_.get(), name, changes, durability);
  return durability;
}

absl::Status NamespaceUsages::SetDurability(absl::string_view name,
                                            std::optional<Durability> durability) {
  std::shared_ptr<NamespaceUsage> usage;  // Dropped outside of the lock.
  absl::MutexLock lock(&known_->mutex);
  NamespaceUsages::Durabilities& own = known_->durabilities;
  const Durability before = known_->Of(name, durability_);
  const Durability now = durability.value_or(durability_);
  if (own.size() >= kMostDurabilities && durability && !own.contains(name)) {
    return ResourceExhausted("too many namespaces have a durability of their own: limit=",
                             kMostDurabilities);
  }
  const auto found = known_->by_name.find(name);
  if (found != known_->by_name.end()) usage = found->second.lock();
  if (now != before && usage != nullptr && !usage->SetDurability(now)) {
    return FailedPrecondition("namespace '", name, "' holds something: its durability is set ",
                              "before, or once it has been removed: there=", NameOf(before),
                              " asked=", NameOf(now));
  }
  if (durability) {
    own.insert_or_assign(std::string(name), *durability);
  } else if (const auto there = own.find(name); there != own.end()) {
    own.erase(there);
  }
  durability_changes.fetch_add(1, std::memory_order_release);
  known_->has_durabilities.store(!own.empty(), std::memory_order_release);
  return absl::OkStatus();
}

NamespaceUsages::Durabilities NamespaceUsages::durabilities() const {
  absl::MutexLock lock(&known_->mutex);
  return known_->durabilities;
}

std::shared_ptr<NamespaceUsage> NamespaceUsages::Find(absl::string_view name) const {
  absl::MutexLock lock(&known_->mutex);
  const auto found = known_->by_name.find(name);
  return found == known_->by_name.end() ? nullptr : found->second.lock();
}

std::vector<NamespaceHoldings> NamespaceUsages::List() const {
  std::vector<std::shared_ptr<NamespaceUsage>> usages;  // Dropped outside of the lock.
  Durabilities own;
  {
    absl::MutexLock lock(&known_->mutex);
    own = known_->durabilities;
    usages.reserve(known_->by_name.size());
    for (const auto& [name, known] : known_->by_name) {
      if (std::shared_ptr<NamespaceUsage> usage = known.lock()) usages.push_back(std::move(usage));
    }
  }
  std::map<std::string, NamespaceHoldings> by_name;
  for (const auto& [name, durability] : own) {
    by_name.emplace(name, NamespaceHoldings{name, {}, durability});
  }
  for (const auto& usage : usages) {
    NamespaceHoldings holdings = usage->holdings();
    if (std::any_of(holdings.amounts.begin(), holdings.amounts.end(),
                    [](const auto& amount) { return amount.count > 0; })) {
      by_name.insert_or_assign(usage->name, std::move(holdings));
    }
  }
  std::vector<NamespaceHoldings> list;
  list.reserve(by_name.size());
  for (auto& [name, holdings] : by_name) list.push_back(std::move(holdings));
  return list;
}

}  // namespace formwork
