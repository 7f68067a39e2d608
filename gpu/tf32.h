#pragma once

// Whether floats are multiplied as TF32 (gpu.h's AllowTf32). Private to gpu/.

namespace formwork {

bool Tf32IsAllowed();

}  // namespace formwork
