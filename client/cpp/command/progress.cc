#include "command/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "command/table.h"

namespace formwork::command {
namespace {

constexpr int kWidth = 30;
constexpr absl::Duration kPause = absl::Milliseconds(50);

}  // namespace

std::string ProgressText(uint64_t bytes, uint64_t total) {
  const double part =
      total == 0 ? 0 : std::min(1.0, static_cast<double>(bytes) / static_cast<double>(total));
  const auto done = static_cast<size_t>(part * kWidth);
  return absl::StrCat("[", std::string(done, '#'), std::string(kWidth - done, ' '), "] ",
                      absl::Dec(static_cast<int>(part * 100), absl::kSpacePad3), " %  ",
                      BytesText(bytes), " of ", BytesText(total));
}

Progress::Progress(client::Client& client, v1::Transfer::Kind kind, std::string path)
    : client_(client), kind_(kind), path_(std::move(path)) {
  if (isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { Show(); });
}

Progress::~Progress() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

void Progress::Show() {
  bool shown = false;
  while (!over_) {
    const auto answer = client_.GetServerInfo();
    if (!answer.ok()) break;  // Who waits for the transfer says what is wrong.
    for (const v1::Transfer& transfer : answer->transfers()) {
      if (transfer.kind() != kind_ || transfer.path() != path_ || transfer.total_bytes() == 0) {
        continue;
      }
      std::fprintf(stderr, "\r%s\x1b[K",
                   ProgressText(transfer.bytes(), transfer.total_bytes()).c_str());
      std::fflush(stderr);
      shown = true;
      break;
    }
    absl::SleepFor(kPause);
  }
  if (shown) std::fprintf(stderr, "\r\x1b[K");
}

}  // namespace formwork::command
