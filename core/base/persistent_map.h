#pragma once

// PersistentMap: a hash map that is a value. Copies share what has not changed since they were
// made, so that one with a few keys set costs those keys, however large it is.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/hash/hash.h"

namespace formwork {

/// A hash trie of 16 ways over leaves of up to 16 entries. Never changed: an Editor makes another
/// one. Many threads may read one.
///
/// A branch takes 4 bits of the hash. A leaf may stand in several of its places: it takes the first
/// `bits` of those 4, and one that is full is cut in two by the next, so that leaves are mostly
/// more than half full. Before its entries a leaf has a byte of each one's hash, so that a search
/// compares one key.
template <typename K, typename V>
class PersistentMap {
 public:
  using Entry = std::pair<K, V>;
  class Editor;

  size_t size() const { return size_; }

  /// Null where there is none. Lives as long as the map.
  const V* Find(const K& key) const {
    const size_t hash = absl::HashOf(key);
    const Node* node = root_.get();
    for (size_t left = hash; node != nullptr && !node->leaf; left >>= kBits) {
      node = static_cast<const Branch*>(node)->children[left % kWays].get();
    }
    if (node == nullptr) return nullptr;
    const Entry* entry = static_cast<const Leaf*>(node)->Find(key, TagOf(hash));
    return entry == nullptr ? nullptr : &entry->second;
  }

  /// Runs `found(i, value)` for the keys `key(i)`, i from `begin` to `end`: the value is null where
  /// there is none. Faster than one by one: memory is asked for several at once.
  template <typename KeyAt, typename Found>
  void FindAll(int64_t begin, int64_t end, KeyAt key, Found found) const {
    constexpr int64_t kAtOnce = 16;
    std::array<size_t, kAtOnce> hashes;
    std::array<const Node*, kAtOnce> nodes;
    for (; begin < end; begin += kAtOnce) {
      const int64_t n = std::min(kAtOnce, end - begin);
      for (int64_t k = 0; k < n; ++k) {
        hashes[k] = absl::HashOf(key(begin + k));
        nodes[k] = root_.get();
      }
      bool branches = root_ != nullptr && !root_->leaf;
      for (int shift = 0; branches; shift += kBits) {
        branches = false;
        for (int64_t k = 0; k < n; ++k) {
          if (nodes[k] == nullptr || nodes[k]->leaf) continue;
          nodes[k] =
              static_cast<const Branch*>(nodes[k])->children[(hashes[k] >> shift) % kWays].get();
          __builtin_prefetch(nodes[k]);
          branches = true;
        }
      }
      for (int64_t k = 0; k < n; ++k) {
        if (nodes[k] != nullptr) static_cast<const Leaf*>(nodes[k])->Prefetch(TagOf(hashes[k]));
      }
      for (int64_t k = 0; k < n; ++k) {
        const Entry* entry = nullptr;
        if (nodes[k] != nullptr) {
          entry = static_cast<const Leaf*>(nodes[k])->Find(key(begin + k), TagOf(hashes[k]));
        }
        found(begin + k, entry == nullptr ? nullptr : &entry->second);
      }
    }
  }

  /// Runs `visit(key, value)` on all, in no certain order, until it returns false.
  template <typename Visit>
  void ForEach(Visit visit) const {
    if (root_ != nullptr) VisitAll(*root_.get(), visit);
  }

  /// Runs `set(key, value)` on what this has and `before` has not, or with another value, and
  /// `gone(key)` on what it has no more, each once, in no certain order, until one returns false:
  /// false then. Looks at what the two do not share alone. Values have an operator==.
  template <typename Set, typename Gone>
  bool VisitChanges(const PersistentMap& before, Set set, Gone gone) const {
    return Compare(before.root_.get(), root_.get(), Place(), set, gone);
  }

 private:
  static constexpr int kBits = 4;
  static constexpr size_t kWays = 1 << kBits;
  static constexpr int kHashBits = 64;
  static constexpr uint32_t kLeafEntries = 16;

  // The last bits to be used by branches.
  static uint8_t TagOf(size_t hash) { return static_cast<uint8_t>(hash >> (kHashBits - 8)); }

  struct Node {
    Node(uint64_t editor, bool leaf) : leaf(leaf), editor(editor) {}
    std::atomic<uint32_t> owners{0};
    const bool leaf;
    uint8_t bits = 0;       // Of a leaf in a branch: it stands in all places that end in its own.
    const uint64_t editor;  // Who made it, and may change it.
  };

  class NodePtr {
   public:
    NodePtr() = default;
    explicit NodePtr(Node* node) : node_(node) { Hold(); }
    NodePtr(const NodePtr& other) : node_(other.node_) { Hold(); }
    NodePtr(NodePtr&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
    NodePtr& operator=(NodePtr other) noexcept {
      std::swap(node_, other.node_);
      return *this;
    }
    ~NodePtr() {
      if (node_ == nullptr || node_->owners.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
      if (node_->leaf) {
        Leaf::Delete(static_cast<Leaf*>(node_));
      } else {
        delete static_cast<Branch*>(node_);
      }
    }
    Node* get() const { return node_; }
    Node* operator->() const { return node_; }
    bool operator==(std::nullptr_t) const { return node_ == nullptr; }

   private:
    void Hold() {
      if (node_ != nullptr) node_->owners.fetch_add(1, std::memory_order_relaxed);
    }
    Node* node_ = nullptr;
  };

  struct Branch : Node {
    explicit Branch(uint64_t editor) : Node(editor, false) {}
    std::array<NodePtr, kWays> children;
  };

  // Followed in memory by `capacity` tags, whole words of them, and then as many entries.
  struct Leaf : Node {
    static NodePtr New(uint64_t editor, uint32_t capacity) {
      capacity = (capacity + 7) / 8 * 8;
      void* memory = ::operator new(sizeof(Leaf) + capacity * (1 + sizeof(Entry)));
      return NodePtr(new (memory) Leaf(editor, capacity));
    }
    static void Delete(Leaf* leaf) {
      std::destroy_n(leaf->entries(), leaf->size);
      leaf->~Leaf();
      ::operator delete(leaf);
    }

    uint8_t* tags() { return reinterpret_cast<uint8_t*>(this + 1); }
    const uint8_t* tags() const { return reinterpret_cast<const uint8_t*>(this + 1); }
    Entry* entries() { return reinterpret_cast<Entry*>(tags() + capacity); }
    const Entry* entries() const { return reinterpret_cast<const Entry*>(tags() + capacity); }

    // Bit 7 of each of the word's bytes that equals `tag`, and perhaps of some behind one.
    static uint64_t Matches(uint64_t word, uint8_t tag) {
      constexpr uint64_t kOnes = ~uint64_t{0} / 0xff;
      const uint64_t differ = word ^ (kOnes * tag);
      return (differ - kOnes) & ~differ & (kOnes << 7);
    }
    uint64_t Word(uint32_t first) const {
      uint64_t word;
      std::memcpy(&word, tags() + first, sizeof(word));
      return word;
    }
    const Entry* Find(const K& key, uint8_t tag) const {
      for (uint32_t first = 0; first < size; first += 8) {
        for (uint64_t match = Matches(Word(first), tag); match != 0; match &= match - 1) {
          const uint32_t i = first + static_cast<uint32_t>(__builtin_ctzll(match)) / 8;
          if (i >= size) return nullptr;
          if (entries()[i].first == key) return &entries()[i];
        }
      }
      return nullptr;
    }
    void Prefetch(uint8_t tag) const {
      for (uint32_t first = 0; first < size; first += 8) {
        const uint64_t match = Matches(Word(first), tag);
        if (match == 0) continue;
        __builtin_prefetch(&entries()[first + static_cast<uint32_t>(__builtin_ctzll(match)) / 8]);
        return;
      }
    }
    // There is room for one more.
    template <typename... Parts>
    void Add(uint8_t tag, Parts&&... parts) {
      new (entries() + size) Entry(std::forward<Parts>(parts)...);
      tags()[size++] = tag;
    }

    uint32_t size = 0;
    const uint32_t capacity;

   private:
    Leaf(uint64_t editor, uint32_t capacity) : Node(editor, true), capacity(capacity) {
      std::memset(tags(), 0, capacity);
    }
  };
  static_assert(alignof(Entry) <= 8 && sizeof(Leaf) % 8 == 0);

  template <typename Visit>
  static bool VisitAll(const Node& node, Visit& visit) {
    if (node.leaf) {
      const auto& leaf = static_cast<const Leaf&>(node);
      for (uint32_t i = 0; i < leaf.size; ++i) {
        if (!visit(leaf.entries()[i].first, leaf.entries()[i].second)) return false;
      }
      return true;
    }
    const auto& children = static_cast<const Branch&>(node).children;
    for (size_t way = 0; way < kWays; ++way) {
      const Node* child = children[way].get();
      if (child == nullptr) continue;
      if (child->leaf && way >> child->bits != 0) continue;  // It has been there already.
      if (!VisitAll(*child, visit)) return false;
    }
    return true;
  }

  // Where nodes stand: those of its keys have these as the last `bits` of their hashes.
  struct Place {
    size_t hash = 0;
    int bits = 0;
    bool Has(size_t of) const {
      return bits == 0 || ((of ^ hash) & (~size_t{0} >> (kHashBits - bits))) == 0;
    }
    Place Child(size_t way, int more) const { return {hash | way << bits, bits + more}; }
  };

  // Runs `visit(key, value)` on what is in the node and in the place; it may stand in others, too.
  template <typename Visit>
  static bool VisitPlace(const Node* node, const Place& place, Visit& visit) {
    if (node == nullptr) return true;
    if (!node->leaf) return VisitAll(*node, visit);  // It stands in one place.
    const auto& leaf = static_cast<const Leaf&>(*node);
    for (uint32_t i = 0; i < leaf.size; ++i) {
      const Entry& entry = leaf.entries()[i];
      if (place.Has(absl::HashOf(entry.first)) && !visit(entry.first, entry.second)) return false;
    }
    return true;
  }

  // The entry of a key in a node, which may be null, that stands behind so many bits of its hash.
  static const Entry* FindIn(const Node* node, int bits, const K& key, size_t hash) {
    for (; node != nullptr && !node->leaf; bits += kBits) {
      node = static_cast<const Branch*>(node)->children[(hash >> bits) % kWays].get();
    }
    return node == nullptr ? nullptr : static_cast<const Leaf*>(node)->Find(key, TagOf(hash));
  }

  template <typename Set, typename Gone>
  static bool Compare(const Node* before, const Node* after, const Place& place, Set& set,
                      Gone& gone) {
    if (before == after) return true;
    if (before != nullptr && after != nullptr && !before->leaf && !after->leaf) {
      const auto& olds = static_cast<const Branch*>(before)->children;
      const auto& news = static_cast<const Branch*>(after)->children;
      for (size_t way = 0; way < kWays; ++way) {
        const Node *old = olds[way].get(), *now = news[way].get();
        int bits = kBits;
        if (old != nullptr && now != nullptr && old->leaf && now->leaf) {
          bits = std::max(old->bits, now->bits);
          if (way >> bits != 0) continue;  // They have been compared already.
        }
        if (!Compare(old, now, place.Child(way, bits), set, gone)) return false;
      }
      return true;
    }
    // As many bits as branches have used: a leaf may stand behind fewer than its place has.
    const int used = place.bits / kBits * kBits;
    auto look_for_gone = [&](const K& key, const V&) {
      return FindIn(after, used, key, absl::HashOf(key)) != nullptr || gone(key);
    };
    auto look_for_set = [&](const K& key, const V& value) {
      const Entry* old = FindIn(before, used, key, absl::HashOf(key));
      return (old != nullptr && old->second == value) || set(key, value);
    };
    return VisitPlace(before, place, look_for_gone) && VisitPlace(after, place, look_for_set);
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

  /// The value of the key, to be changed; a new one where there was none, and then `*added` is
  /// set. Until the next change.
  V& At(const K& key, bool* added) {
    const size_t hash = absl::HashOf(key);
    const uint8_t tag = TagOf(hash);
    Branch* parent = nullptr;
    NodePtr* at = &map_.root_;
    *added = false;
    for (int shift = 0;; shift += kBits) {
      if (*at == nullptr) PutLeaf(parent, at, Leaf::New(id_, 1), parent == nullptr ? 0 : kBits);
      if (!(*at)->leaf) {
        parent = &OwnBranch(*at);
        at = &parent->children[(hash >> shift) % kWays];
        continue;
      }
      auto* leaf = static_cast<Leaf*>(at->get());
      if (const Entry* entry = leaf->Find(key, tag)) {
        const auto i = static_cast<uint32_t>(entry - leaf->entries());
        return OwnLeaf(parent, at, leaf->size).entries()[i].second;
      }
      if (leaf->size < kLeafEntries || shift >= kHashBits) {
        Leaf& own = OwnLeaf(parent, at, leaf->size + 1);
        own.Add(tag, key, V());
        ++map_.size_;
        *added = true;
        return own.entries()[own.size - 1].second;
      }
      if (parent != nullptr && leaf->bits < kBits) {
        Split(*parent, at, shift - kBits + leaf->bits);
      } else {  // All of a new branch.
        OwnLeaf(parent, at, leaf->size).bits = 0;
        NodePtr branch(new Branch(id_));
        static_cast<Branch*>(branch.get())->children.fill(*at);
        *at = std::move(branch);
      }
      shift -= kBits;  // The place again.
      at = parent == nullptr ? &map_.root_ : &parent->children[(hash >> shift) % kWays];
    }
  }

  void Set(const K& key, V value) {
    bool added;
    At(key, &added) = std::move(value);
  }

  /// Nothing where it is not there; else `gone(key, value)` sees it first.
  template <typename Gone>
  void Erase(const K& key, Gone gone) {
    const V* value = map_.Find(key);
    if (value == nullptr) return;
    gone(key, *value);
    const size_t hash = absl::HashOf(key);
    std::array<NodePtr*, kHashBits / kBits + 1> path;
    size_t depth = 0;
    Branch* parent = nullptr;
    NodePtr* at = &map_.root_;
    for (; !(*at)->leaf; ++depth) {
      path[depth] = at;
      parent = &OwnBranch(*at);
      at = &parent->children[(hash >> (kBits * depth)) % kWays];
    }
    Leaf& leaf = OwnLeaf(parent, at, static_cast<Leaf*>(at->get())->size);
    const auto i = static_cast<uint32_t>(leaf.Find(key, TagOf(hash)) - leaf.entries());
    Entry& last = leaf.entries()[leaf.size - 1];
    if (i + 1 < leaf.size) {
      leaf.entries()[i] = std::move(last);
      leaf.tags()[i] = leaf.tags()[leaf.size - 1];
    }
    std::destroy_at(&last);
    --map_.size_;
    if (--leaf.size > 0) return;
    PutLeaf(parent, at, NodePtr(), leaf.bits);
    while (depth > 0) {
      NodePtr& branch = *path[--depth];
      const auto& children = static_cast<Branch*>(branch.get())->children;
      if (std::any_of(children.begin(), children.end(),
                      [](const NodePtr& child) { return child.get() != nullptr; })) {
        return;
      }
      branch = NodePtr();
    }
  }
  void Erase(const K& key) {
    Erase(key, [](const K&, const V&) {});
  }

  PersistentMap Done() && { return std::move(map_); }

 private:
  // Puts a leaf, or null, into the place `at` and the others where one of `bits` stands.
  static void PutLeaf(Branch* parent, NodePtr* at, NodePtr leaf, int bits) {
    if (leaf.get() != nullptr) leaf->bits = static_cast<uint8_t>(bits);
    if (parent == nullptr) {
      *at = std::move(leaf);
      return;
    }
    const size_t own = static_cast<size_t>(at - parent->children.data());
    const size_t step = size_t{1} << bits;
    for (size_t way = own % step; way < kWays; way += step) parent->children[way] = leaf;
  }

  // The node, or a copy in its place where another map may have it.
  Branch& OwnBranch(NodePtr& at) {
    if (at->editor != id_) {
      NodePtr copy(new Branch(id_));
      static_cast<Branch*>(copy.get())->children = static_cast<Branch*>(at.get())->children;
      at = std::move(copy);
    }
    return *static_cast<Branch*>(at.get());
  }

  // The same of a leaf, with room for `size` entries.
  Leaf& OwnLeaf(Branch* parent, NodePtr* at, uint32_t size) {
    auto* leaf = static_cast<Leaf*>(at->get());
    if (leaf->editor == id_ && leaf->capacity >= size) return *leaf;
    NodePtr made = Leaf::New(id_, size);
    auto* own = static_cast<Leaf*>(made.get());
    for (uint32_t i = 0; i < leaf->size; ++i) MoveEntry(*leaf, i, *own);
    PutLeaf(parent, at, std::move(made), leaf->bits);
    return *own;
  }

  // Moves it where nobody else has the leaf.
  void MoveEntry(Leaf& from, uint32_t i, Leaf& to) {
    if (from.editor == id_) {
      to.Add(from.tags()[i], std::move(from.entries()[i]));
    } else {
      to.Add(from.tags()[i], std::as_const(from.entries()[i]));
    }
  }

  // Cuts a full leaf in two, by one more bit of the hash.
  void Split(Branch& parent, NodePtr* at, int bit) {
    const NodePtr held = *at;
    auto* leaf = static_cast<Leaf*>(held.get());
    std::array<NodePtr, 2> halves = {Leaf::New(id_, kLeafEntries), Leaf::New(id_, kLeafEntries)};
    for (uint32_t i = 0; i < leaf->size; ++i) {
      const size_t half = (absl::HashOf(leaf->entries()[i].first) >> bit) % 2;
      MoveEntry(*leaf, i, *static_cast<Leaf*>(halves[half].get()));
    }
    const size_t low = static_cast<size_t>(at - parent.children.data()) % (size_t{1} << leaf->bits);
    for (size_t half = 0; half < 2; ++half) {
      PutLeaf(&parent, &parent.children[low + (half << leaf->bits)], std::move(halves[half]),
              leaf->bits + 1);
    }
  }

  inline static std::atomic<uint64_t> next_id_{1};

  PersistentMap map_;
  const uint64_t id_;
};

}  // namespace formwork
