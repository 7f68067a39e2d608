#pragma once

// How far the server has got with what takes long, on a terminal.

#include <atomic>
#include <string>
#include <thread>

#include "formwork/client.h"

namespace formwork::command {

/// From now until it is destroyed, a line on stderr that says how far a transfer is; nothing where
/// that is no terminal, and nothing is left of it then. `path`: of a checkpoint; else empty. The
/// client outlives it.
class Progress {
 public:
  Progress(client::Client& client, v1::Transfer::Kind kind, std::string path = "");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void Show();

  client::Client& client_;
  const v1::Transfer::Kind kind_;
  const std::string path_;
  std::atomic<bool> over_{false};
  std::thread thread_;  // Where there is a terminal.
};

/// "[######              ]  30 %  1.2 GiB of 4.0 GiB", without an end of line.
std::string ProgressText(uint64_t bytes, uint64_t total);

}  // namespace formwork::command
