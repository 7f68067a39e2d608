#ifndef FORMWORK_SERVER_SPARE_THREADS_H_
#define FORMWORK_SERVER_SPARE_THREADS_H_

namespace formwork::server {

/// Starts up to `wanted` threads that stand by for whoever calls pthread_create when the system
/// gives no more; one that was taken is replaced once the system gives threads again. gRPC needs
/// them: it starts threads as requests come in, and leaves work for ever to one that could not be
/// started; oneTBB ends the process then.
///
/// Takes effect in executables that link spare_threads.cc, which defines pthread_create over the
/// system's. A thread that stood by has the signal mask of this call, not its creator's, and the
/// default stack size. Called once, by main, after it has set the mask.
void KeepSpareThreads(int wanted);

}  // namespace formwork::server

#endif  // FORMWORK_SERVER_SPARE_THREADS_H_
