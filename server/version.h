#pragma once

namespace formwork::server {

/// The project's version, as CMakeLists.txt has it.
inline constexpr char kVersion[] = FORMWORK_VERSION;

}  // namespace formwork::server
