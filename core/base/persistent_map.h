#pragma once

// PersistentMap: a hash map that is a value. Copies share what has not changed since they were
// made, so that one with a few keys set costs those keys, however large it is.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"

namespace formwork {

/// A hash trie of 16 ways, with a few entries in each leaf. Never changed: an Editor makes another
/// one. Many threads may read one.
template <typename K, typename V>
class PersistentMap {
 public:
  using Entry = std::pair<K, V>;
  class Editor;

  size_t size() const { return size_; }

  /// Null where there is none. Lives as long as the map.
  const V* Find(const K& key) const {
    size_t hash = absl::HashOf(key);
    const Node* node = root_.get();
    for (; node != nullptr && node->children; hash >>= kBits) {
      node = (*node->children)[hash % kWays].get();
    }
    if (node == nullptr) return nullptr;
    for (const Entry& entry : node->entries) {
      if (entry.first == key) return &entry.second;
    }
    return nullptr;
  }

  /// Runs `visit(key, value)` on all, in no certain order, until it returns false.
  template <typename Visit>
  void ForEach(Visit visit) const {
    if (root_ != nullptr) VisitAll(*root_, visit);
  }

 private:
  static constexpr int kBits = 4;
  static constexpr size_t kWays = 1 << kBits;
  static constexpr int kDeepest = 64 / kBits;  // No bits of the hash are left.
  static constexpr size_t kLeafEntries = 32;

  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  using Children = std::array<NodePtr, kWays>;

  struct Node {
    explicit Node(uint64_t editor) : editor(editor) {}
    uint64_t editor;                     // Who made it, and may change it.
    std::vector<Entry> entries;          // Of a leaf.
    std::unique_ptr<Children> children;  // Of another one.
  };

  template <typename Visit>
  static bool VisitAll(const Node& node, Visit& visit) {
    for (const Entry& entry : node.entries) {
      if (!visit(entry.first, entry.second)) return false;
    }
    if (!node.children) return true;
    for (const NodePtr& child : *node.children) {
      if (child != nullptr && !VisitAll(*child, visit)) return false;
    }
    return true;
  }

  NodePtr root_;
  size_t size_ = 0;
};

/// Makes a map of another one, which stays as it is. One thread's. Where a change throws, for want
/// of memory, it is to be dropped.
template <typename K, typename V>
class PersistentMap<K, V>::Editor {
 public:
  explicit Editor(PersistentMap map)
      : map_(std::move(map)), id_(next_id_.fetch_add(1, std::memory_order_relaxed)) {}

  /// The value before, where there was one.
  const V* Find(const K& key) const { return map_.Find(key); }

  void Set(const K& key, V value) {
    size_t hash = absl::HashOf(key);
    NodePtr* at = &map_.root_;
    for (int depth = 0;; ++depth) {
      Node& node = Own(*at);
      if (!node.children) {
        for (Entry& entry : node.entries) {
          if (entry.first != key) continue;
          entry.second = std::move(value);
          return;
        }
        if (node.entries.size() < kLeafEntries || depth == kDeepest) {
          node.entries.emplace_back(key, std::move(value));
          ++map_.size_;
          return;
        }
        Split(node, depth);
      }
      at = &(*node.children)[hash % kWays];
      hash >>= kBits;
    }
  }

  /// Nothing where it is not there.
  void Erase(const K& key) {
    if (map_.Find(key) == nullptr) return;
    if (EraseBelow(map_.root_, key, absl::HashOf(key))) map_.root_ = nullptr;
    --map_.size_;
  }

  PersistentMap Done() && { return std::move(map_); }

 private:
  // The node, or a copy in its place where another map may have it.
  Node& Own(NodePtr& at) {
    if (at == nullptr) {
      at = std::make_shared<Node>(id_);
    } else if (at->editor != id_) {
      auto copy = std::make_shared<Node>(id_);
      copy->entries = at->entries;
      if (at->children) copy->children = std::make_unique<Children>(*at->children);
      at = std::move(copy);
    }
    return *at;
  }

  void Split(Node& leaf, int depth) {
    const auto way = [depth](const Entry& entry) {
      return (absl::HashOf(entry.first) >> (kBits * depth)) % kWays;
    };
    std::array<size_t, kWays> sizes{};
    for (const Entry& entry : leaf.entries) ++sizes[way(entry)];
    auto children = std::make_unique<Children>();
    for (size_t i = 0; i < kWays; ++i) {
      if (sizes[i] > 0) Own((*children)[i]).entries.reserve(sizes[i]);
    }
    for (Entry& entry : leaf.entries) {
      (*children)[way(entry)]->entries.push_back(std::move(entry));
    }
    leaf.entries = {};
    leaf.children = std::move(children);
  }

  // Whether nothing is left of the node.
  bool EraseBelow(NodePtr& at, const K& key, size_t hash) {
    Node& node = Own(at);
    if (!node.children) {
      for (Entry& entry : node.entries) {
        if (entry.first != key) continue;
        if (&entry != &node.entries.back()) entry = std::move(node.entries.back());
        node.entries.pop_back();
        break;
      }
      return node.entries.empty();
    }
    NodePtr& child = (*node.children)[hash % kWays];
    if (!EraseBelow(child, key, hash >> kBits)) return false;
    child = nullptr;
    for (const NodePtr& other : *node.children) {
      if (other != nullptr) return false;
    }
    return true;
  }

  inline static std::atomic<uint64_t> next_id_{1};

  PersistentMap map_;
  const uint64_t id_;
};

}  // namespace formwork
