#pragma once

// Counters by names that clients choose, within bounds.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/hash_map.h"

namespace formwork::server {

/// A Value for each of the names that are seen most, and one for all others. However many names
/// there are, and however long, it keeps a few: a new name takes the place of the least seen one,
/// and goes on from its count (the Space-Saving algorithm of Metwally, Agrawal and El Abbadi), so
/// that a name which is seen often gets its place whatever came before. Not thread-safe.
template <typename Value>
class MostSeen {
 public:
  /// Names are told apart by this many bytes.
  static constexpr size_t kNameBytes = 128;

  /// `values`: how many names have a value of their own.
  explicit MostSeen(size_t values)
      : values_(values), max_names_(values == 0 ? 0 : 4 * values + 16) {}

  /// The value of `name`, seen once more: its own, or the one for all others.
  Value& See(absl::string_view name) {
    if (name.empty() || max_names_ == 0) return others_;
    name = name.substr(0, kNameBytes);
    auto found = names_.find(name);
    if (found == names_.end()) {
      Name made;
      if (names_.size() == max_names_) {
        const auto least = LeastSeen();
        made.seen = least->second.seen;
        names_.erase(least);
      }
      if (names_.size() < values_) made.value = std::make_unique<Value>();
      found = names_.try_emplace(std::string(name), std::move(made)).first;
    }
    ++found->second.seen;
    return found->second.value ? *found->second.value : others_;
  }

  /// Gives the names that are seen most by now their own values. A new one begins empty, and the
  /// others' keeps what it had, so that no value ever falls.
  void Choose() {
    if (names_.size() <= values_) return;
    std::vector<Name*> names;
    names.reserve(names_.size());
    for (auto& [text, name] : names_) names.push_back(&name);
    std::nth_element(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(values_),
                     names.end(), [](const Name* a, const Name* b) {
                       return std::pair(a->seen, a->value != nullptr) >
                              std::pair(b->seen, b->value != nullptr);
                     });
    for (size_t i = 0; i < names.size(); ++i) {
      if (i >= values_) {
        names[i]->value = nullptr;
      } else if (!names[i]->value) {
        names[i]->value = std::make_unique<Value>();
      }
    }
  }

  /// visit(name, value) for each name with a value of its own.
  template <typename Visitor>
  void ForEach(Visitor visit) const {
    for (const auto& [text, name] : names_) {
      if (name.value) visit(text, *name.value);
    }
  }
  const Value& others() const { return others_; }

 private:
  struct Name {
    uint64_t seen = 0;
    std::unique_ptr<Value> value;  // Null where it is counted with the others.
  };

  // Among those without a value: a value stays until Choose.
  auto LeastSeen() {
    auto least = names_.end();
    for (auto it = names_.begin(); it != names_.end(); ++it) {
      if (it->second.value) continue;
      if (least == names_.end() || it->second.seen < least->second.seen) least = it;
    }
    return least;
  }

  const size_t values_;
  const size_t max_names_;
  HashMap<std::string, Name> names_;
  Value others_{};
};

}  // namespace formwork::server
