#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace formwork::testing {

/// A new folder, for tests and fuzzers that run side by side; it goes with all that is in it. Ends
/// the process where there can be none.
class TempFolder {
 public:
  TempFolder() {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "formwork_XXXXXX").string();
};

}  // namespace formwork::testing
