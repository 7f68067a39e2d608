#include "core/base/persistent_map.h"

#include <map>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace formwork {
namespace {

template <typename K, typename V>
std::map<K, V> ContentOf(const PersistentMap<K, V>& map) {
  std::map<K, V> content;
  map.ForEach([&](const K& key, const V& value) {
    EXPECT_TRUE(content.emplace(key, value).second);
    return true;
  });
  EXPECT_EQ(content.size(), map.size());
  return content;
}

TEST(PersistentMapTest, DoesAsAStandardMapDoesWhateverIsDoneToIt) {
  using Map = PersistentMap<int64_t, std::string>;
  std::mt19937 random(7);
  Map map;
  std::map<int64_t, std::string> model;
  std::vector<std::pair<Map, std::map<int64_t, std::string>>> earlier;
  for (int batch = 0; batch < 300; ++batch) {
    if (batch % 40 == 0) earlier.emplace_back(map, model);
    Map::Editor editor(map);
    const bool shrinks = batch % 100 >= 70;
    for (int i = 0; i < 200; ++i) {
      const int64_t key = static_cast<int64_t>(random() % 3000);
      if (random() % 10 < (shrinks ? 9 : 3)) {
        editor.Erase(key);
        model.erase(key);
      } else {
        const std::string value = std::to_string(random());
        editor.Set(key, value);
        model[key] = value;
      }
    }
    map = std::move(editor).Done();
    const int64_t key = static_cast<int64_t>(random() % 3000);
    const std::string* found = map.Find(key);
    ASSERT_EQ(found != nullptr, model.contains(key));
    if (found != nullptr) {
      EXPECT_EQ(*found, model[key]);
    }
  }
  EXPECT_EQ(ContentOf(map), model);
  for (const auto& [then, content] : earlier) EXPECT_EQ(ContentOf(then), content);
}

TEST(PersistentMapTest, ChangesAreWhatTwoDoNotShare) {
  using Map = PersistentMap<int64_t, int64_t>;
  std::mt19937 random(3);
  std::vector<std::pair<Map, std::map<int64_t, int64_t>>> states = {{}};
  for (int batch = 0; batch < 60; ++batch) {
    auto [map, model] = states.back();
    Map::Editor editor(map);
    // Sizes from none to thousands, and batches from one key to many.
    const int changes = 1 << (random() % 11);
    const bool shrinks = batch % 20 >= 14;
    for (int i = 0; i < changes; ++i) {
      const int64_t key = static_cast<int64_t>(random() % 4000);
      if (random() % 10 < (shrinks ? 9 : 2)) {
        editor.Erase(key);
        model.erase(key);
      } else {
        editor.Set(key, model[key] = static_cast<int64_t>(random() % 3));
      }
    }
    states.emplace_back(std::move(editor).Done(), std::move(model));
  }
  for (size_t from : {size_t{0}, size_t{13}, size_t{19}, size_t{40}}) {
    for (const auto& [map, model] : states) {
      const auto& before = states[from].first;
      const auto& model_before = states[from].second;
      std::map<int64_t, int64_t> made = model_before;
      std::map<int64_t, int> told;
      EXPECT_TRUE(map.VisitChanges(
          before,
          [&](int64_t key, int64_t value) {
            EXPECT_EQ(++told[key], 1);
            EXPECT_TRUE(!model_before.contains(key) || model_before.at(key) != value);
            made[key] = value;
            return true;
          },
          [&](int64_t key) {
            EXPECT_EQ(++told[key], 1);
            EXPECT_EQ(made.erase(key), 1u);
            return true;
          }));
      EXPECT_EQ(made, model);
      int64_t left = 3;
      const bool all = map.VisitChanges(
          before, [&](int64_t, int64_t) { return --left > 0; },
          [&](int64_t) { return --left > 0; });
      EXPECT_EQ(all, told.size() < 3);
    }
  }
}

struct Counted {
  int64_t value = 0;
  bool operator==(const Counted& other) const {
    ++compared;
    return value == other.value;
  }
  inline static int64_t compared = 0;
};

// However large it is, one key costs a path.
TEST(PersistentMapTest, WhatIsSharedIsNotLookedAt) {
  PersistentMap<int64_t, Counted>::Editor large({});
  for (int64_t i = 0; i < 100'000; ++i) large.Set(i, {i});
  const auto before = std::move(large).Done();
  PersistentMap<int64_t, Counted>::Editor editor(before);
  editor.Set(77, {0});
  editor.Erase(78);
  const auto after = std::move(editor).Done();
  int64_t set = 0, gone = 0;
  after.VisitChanges(
      before, [&](int64_t, const Counted&) { return ++set > 0; },
      [&](int64_t) { return ++gone > 0; });
  EXPECT_EQ(set, 1);
  EXPECT_EQ(gone, 1);
  EXPECT_LE(Counted::compared, 32);
}

TEST(PersistentMapTest, ManyAreFoundAtOnceAsOneByOne) {
  for (int64_t size : {0, 1, 16, 17, 1000, 100'000}) {
    PersistentMap<int64_t, int64_t>::Editor editor({});
    for (int64_t i = 0; i < size; ++i) editor.Set(2 * i, i);
    const PersistentMap<int64_t, int64_t> map = std::move(editor).Done();
    int64_t next = 3, wrong = 0;
    const auto key = [](int64_t i) { return i; };
    map.FindAll(3, 2 * size + 20, key, [&](int64_t i, const int64_t* found) {
      wrong += i != next++ || found != map.Find(i);
      wrong += (found != nullptr) != (i % 2 == 0 && i < 2 * size);
      wrong += found != nullptr && *found != i / 2;
    });
    EXPECT_EQ(next, 2 * size + 20);
    EXPECT_EQ(wrong, 0) << size;
  }
}

// An edit of a large map copies what it changes, whose size does not depend on the map's.
TEST(PersistentMapTest, AnEditLeavesWhatItDoesNotTouchShared) {
  using Map = PersistentMap<std::string, std::shared_ptr<int>>;
  Map::Editor filling({});
  for (int i = 0; i < 100'000; ++i) {
    filling.Set(std::to_string(i), std::make_shared<int>(i));
  }
  const Map map = std::move(filling).Done();
  Map::Editor editor(map);
  editor.Set("5", nullptr);
  editor.Erase("77");
  editor.Set("new", nullptr);
  const Map edited = std::move(editor).Done();
  int copied = 0;
  map.ForEach([&](const std::string&, const std::shared_ptr<int>& value) {
    copied += value.use_count() > 1;
    return true;
  });
  EXPECT_GT(copied, 0);
  EXPECT_LE(copied, 3 * 16);
  EXPECT_EQ(edited.size(), map.size());
  EXPECT_EQ(**map.Find("5"), 5);
  EXPECT_EQ(**map.Find("77"), 77);
}

TEST(PersistentMapTest, AnEditShowsWhatItHasDoneAndLeavesItsOriginAlone) {
  PersistentMap<std::string, int> empty;
  PersistentMap<std::string, int>::Editor first(empty);
  first.Set("a", 1);
  bool added = true;
  EXPECT_EQ(first.At("a", &added), 1);
  EXPECT_FALSE(added);
  const PersistentMap<std::string, int> one = std::move(first).Done();
  PersistentMap<std::string, int>::Editor second(one);
  second.Set("a", 2);
  second.Erase("b");
  second.Set("c", 3);
  const PersistentMap<std::string, int> two = std::move(second).Done();
  EXPECT_EQ(empty.size(), 0u);
  EXPECT_EQ(empty.Find("a"), nullptr);
  EXPECT_EQ(ContentOf(one), (std::map<std::string, int>{{"a", 1}}));
  EXPECT_EQ(ContentOf(two), (std::map<std::string, int>{{"a", 2}, {"c", 3}}));
}

TEST(PersistentMapTest, AVisitEndsWhereItIsToldTo) {
  PersistentMap<int64_t, int>::Editor editor({});
  for (int64_t key = 0; key < 1000; ++key) editor.Set(key, 0);
  const PersistentMap<int64_t, int> map = std::move(editor).Done();
  int visited = 0;
  map.ForEach([&](int64_t, int) { return ++visited < 100; });
  EXPECT_EQ(visited, 100);
}

// A key whose hash is that of all others.
struct Alike {
  int value = 0;
  bool operator==(const Alike& other) const { return value == other.value; }
  template <typename H>
  friend H AbslHashValue(H state, const Alike&) {
    return H::combine(std::move(state), 0);
  }
};

TEST(PersistentMapTest, KeysOfOneHashAreToldApart) {
  PersistentMap<Alike, int>::Editor editor({});
  for (int i = 0; i < 200; ++i) editor.Set({i}, i);
  for (int i = 0; i < 200; i += 2) editor.Erase({i});
  const PersistentMap<Alike, int> map = std::move(editor).Done();
  EXPECT_EQ(map.size(), 100u);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(map.Find({i}) != nullptr, i % 2 == 1) << i;
    if (i % 2 == 1) {
      EXPECT_EQ(*map.Find({i}), i);
    }
  }
}

}  // namespace
}  // namespace formwork
