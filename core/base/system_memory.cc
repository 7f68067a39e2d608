#include "core/base/system_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace formwork {
namespace {

constexpr size_t kNone = std::numeric_limits<size_t>::max();

// Empty where it cannot be read.
std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Of a line "MemTotal:       24000000 kB".
size_t Field(absl::string_view text, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, name)) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint64_t kib;
    if (!words.empty() && absl::SimpleAtoi(words[0], &kib)) return kib << 10;
  }
  return kNone;
}

size_t LimitIn(const std::string& path) {
  const std::string text = Contents(path);
  uint64_t bytes;  // "max" is no limit.
  return absl::SimpleAtoi(text, &bytes) && bytes > 0 ? bytes : kNone;
}

// Of the cgroup `path` below `mount` and those above it. Inside a container, `path` may be the
// host's and not be there: then that of the mount is the container's.
size_t LeastLimit(const std::string& mount, absl::string_view path, absl::string_view file) {
  size_t least = kNone;
  while (true) {
    path = absl::StripSuffix(path, "/");
    least =
        std::min(least, LimitIn(absl::StrCat(mount, std::string(path), "/", std::string(file))));
    if (path.empty()) return least;
    path = path.substr(0, path.rfind('/'));
  }
}

size_t CgroupLimit(const std::string& root) {
  size_t least = kNone;
  const std::string cgroups = Contents(absl::StrCat(root, "/proc/self/cgroup"));
  for (absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    // "hierarchy:controllers:path"; the hierarchy of v2 is 0 and names no controllers.
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        least = std::min(least, LeastLimit(absl::StrCat(root, mount), parts[2], "memory.max"));
      }
    }
    for (absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      if (controller != "memory") continue;
      least = std::min(least, LeastLimit(absl::StrCat(root, "/sys/fs/cgroup/memory"), parts[2],
                                         "memory.limit_in_bytes"));
    }
  }
  return least;
}

// What is left of a limit of the process of which `taken` is in use.
size_t LeftOf(int resource, size_t taken) {
  rlimit limit;
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return kNone;
  if (limit.rlim_cur == RLIM_INFINITY) return kNone;
  return limit.rlim_cur > taken ? limit.rlim_cur - taken : 1;
}

}  // namespace

size_t SystemMemoryBytes(absl::string_view root) {
  const std::string base(root);
  const std::string status = Contents(base + "/proc/self/status");
  auto taken = [&](absl::string_view name) {
    const size_t bytes = Field(status, name);
    return bytes == kNone ? 0 : bytes;
  };
  const size_t least =
      std::min({Field(Contents(base + "/proc/meminfo"), "MemTotal:"), CgroupLimit(base),
                LeftOf(RLIMIT_AS, taken("VmSize:")), LeftOf(RLIMIT_DATA, taken("VmData:"))});
  return least == kNone ? 0 : least;
}

void BoundHeapArenas() {
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
  // Setting the one stops the other from growing with what is freed; this is where it would end.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

void TrimHeap() { malloc_trim(0); }

}  // namespace formwork
