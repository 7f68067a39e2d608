#pragma once

// Texts of GPUs' kernels as the host's compiler builds them: a file that includes this is named in
// tests/CMakeLists.txt, which tells it the compiler.

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace formwork::testing {

/// What CUDA's compiler knows, for one thread at a time, behind the headers of the functions.
inline constexpr char kCudaOnHost[] = R"(
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __grid_constant__
using namespace formwork;
struct Place { unsigned x; };
static Place gridDim, blockDim, blockIdx, threadIdx;
)";

/// A library that stays loaded; null, and the test has failed, where it cannot be made.
inline void* LoadText(const std::string& text) {
  const TempFolder folder;
  const std::string source = folder.path() + "/text.cc", made = folder.path() + "/made.so";
  std::ofstream(source) << text;
  const std::string command = absl::StrCat(FORMWORK_CXX, " -std=c++20 -O1 -w -fPIC -shared -I",
                                           FORMWORK_SOURCES, " ", source, " -o ", made);
  if (std::system(command.c_str()) != 0) {
    ADD_FAILURE() << text;
    return nullptr;
  }
  void* const library = dlopen(made.c_str(), RTLD_NOW);
  if (library == nullptr) ADD_FAILURE() << dlerror();
  return library;
}

template <typename Function>
Function* FindInText(void* library, absl::string_view name) {
  void* const found = dlsym(library, std::string(name).c_str());
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function*>(found);
}

}  // namespace formwork::testing
