#include "core/kernels/onednn_threads.h"

// libgomp's own; declared here because nothing of ours is compiled with OpenMP.
extern "C" void omp_set_num_threads(int);

namespace formwork {

void UseOneThreadForOnednn() {
  // The setting belongs to the calling thread.
  thread_local bool done = false;
  if (done) return;
  omp_set_num_threads(1);
  done = true;
}

}  // namespace formwork
