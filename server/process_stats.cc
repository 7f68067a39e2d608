#include "server/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace formwork::server {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The seconds since 1970 at which the system was started.
double BootTime() {
  std::istringstream lines(ReadFile("/proc/stat"));
  std::string name;
  double value = 0;
  while (lines >> name) {
    if (name == "btime" && lines >> value) return value;
    std::getline(lines, name);
  }
  return 0;
}

double OpenDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  double entries = 0;
  while (readdir(folder) != nullptr) ++entries;
  closedir(folder);
  return entries - 3;  // ".", ".." and the folder's own.
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  // The fields after the command's name, which may hold blanks: see proc(5), from the third on.
  const std::string text = ReadFile("/proc/self/stat");
  const size_t name_end = text.rfind(')');
  if (name_end != std::string::npos) {
    const std::vector<std::string> fields = absl::StrSplit(text.substr(name_end + 2), ' ');
    const auto field = [&fields](size_t number) {
      double value = 0;
      if (number - 3 < fields.size() && !absl::SimpleAtod(fields[number - 3], &value)) return 0.0;
      return value;
    };
    const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    stats.cpu_seconds = (field(14) + field(15)) / ticks;
    stats.threads = field(20);
    stats.start_time_seconds = BootTime() + field(22) / ticks;
    stats.virtual_bytes = field(23);
    stats.resident_bytes = field(24) * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  stats.open_fds = OpenDescriptors();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  stats.max_fds = static_cast<double>(limit.rlim_cur);
  return stats;
}

}  // namespace formwork::server
