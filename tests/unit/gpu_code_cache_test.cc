#include "gpu/code_cache.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace formwork::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

std::vector<fs::path> FilesIn(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

TEST(CodeCacheTest, FindsWhatAnotherHasKept) {
  const TempFolder folder;
  const std::string inner = folder.path() + "/kernels";  // Which is made.
  const std::string code("\0code\n\xff", 7);
  EXPECT_THAT(CodeCache(inner).Find("sm_90", "text"), IsEmpty());
  CodeCache(inner).Keep("sm_90", "text", code);
  EXPECT_EQ(CodeCache(inner).Find("sm_90", "text"), code);
  EXPECT_THAT(CodeCache(inner).Find("sm_80", "text"), IsEmpty());
  EXPECT_THAT(CodeCache(inner).Find("sm_90", "tex"), IsEmpty());
  EXPECT_THAT(CodeCache(inner).Find("sm_90t", "ext"), IsEmpty());
}

TEST(CodeCacheTest, AFileOfAnotherTextOrADamagedOneIsNone) {
  const TempFolder folder;
  const CodeCache cache(folder.path());
  cache.Keep("sm_90", "one", "code of one");
  const fs::path file = FilesIn(folder.path()).at(0);
  std::string bytes;
  {
    std::ifstream in(file, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto write = [&](const std::string& changed) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << changed;
  };
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    write(bytes.substr(0, cut));
    EXPECT_THAT(cache.Find("sm_90", "one"), IsEmpty()) << cut;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write(changed);
    EXPECT_THAT(cache.Find("sm_90", "one"), IsEmpty()) << i;
  }
  cache.Keep("sm_90", "one", "code of one");  // In its place.
  EXPECT_EQ(cache.Find("sm_90", "one"), "code of one");
}

TEST(CodeCacheTest, WhatWasUsedLongestAgoGoes) {
  const TempFolder folder;
  const std::string code(1000, 'c');
  const CodeCache cache(folder.path(), 5 * 1100);
  const auto age = [&](const fs::path& file, int hours) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (int i = 0; i < 5; ++i) {
    cache.Keep("sm_90", absl::StrCat(i), code);
    for (const fs::path& file : FilesIn(folder.path())) {
      const auto old = fs::file_time_type::clock::now() - std::chrono::minutes(30);
      if (fs::last_write_time(file) > old) age(file, 10 - i);
    }
  }
  EXPECT_EQ(cache.Find("sm_90", "0"), code);  // Used now.
  cache.Keep("sm_90", "5", code);
  cache.Keep("sm_90", "6", code);
  for (const int i : {0, 3, 4, 5, 6}) EXPECT_EQ(cache.Find("sm_90", absl::StrCat(i)), code) << i;
  for (const int i : {1, 2}) EXPECT_THAT(cache.Find("sm_90", absl::StrCat(i)), IsEmpty()) << i;
  cache.Keep("sm_90", "too large", std::string(6000, 'c'));
  EXPECT_THAT(cache.Find("sm_90", "too large"), IsEmpty());
}

TEST(CodeCacheTest, AFolderThatCannotBeIsNoError) {
  const CodeCache cache("/dev/null/kernels");
  cache.Keep("sm_90", "text", "code");
  EXPECT_THAT(cache.Find("sm_90", "text"), IsEmpty());
}

}  // namespace
}  // namespace formwork::testing
