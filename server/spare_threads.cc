#include "server/spare_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>

namespace formwork::server {
namespace {

using Run = void* (*)(void*);
using PthreadCreate = int (*)(pthread_t*, const pthread_attr_t*, Run, void*);

int CreateBySystem(pthread_t* thread, const pthread_attr_t* attr, Run run, void* argument) {
  static const auto create = reinterpret_cast<PthreadCreate>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attr, run, argument);
}

// The standard library's mutex, because Abseil's may want memory or a thread's own state while the
// thread is being made.
class SpareThreads {
 public:
  void Keep(int wanted) {
    {
      const std::lock_guard lock(mutex_);
      wanted_ = wanted;
    }
    Refill();
  }

  // Starts what is missing, as far as the system goes along.
  void Refill() {
    while (TakeMissing()) {
      pthread_t thread;
      if (CreateBySystem(&thread, nullptr, &SpareThreads::Wait, this) == 0) continue;
      const std::lock_guard lock(mutex_);
      --started_;
      return;
    }
  }

  // Whether one that stands by runs `run(argument)` now.
  bool Hand(pthread_t* thread, const pthread_attr_t* attr, Run run, void* argument) {
    int detached = PTHREAD_CREATE_JOINABLE;
    if (attr != nullptr) pthread_attr_getdetachstate(attr, &detached);
    const std::lock_guard lock(mutex_);
    if (waiting_ == nullptr) return false;
    Spare* const spare = waiting_;
    waiting_ = spare->next;
    --started_;
    *thread = spare->thread;
    if (detached == PTHREAD_CREATE_DETACHED) pthread_detach(spare->thread);
    spare->argument = argument;
    spare->run = run;
    spare->given.notify_one();
    return true;
  }

 private:
  // On the stack of the thread that waits.
  struct Spare {
    pthread_t thread = pthread_self();
    Run run = nullptr;
    void* argument = nullptr;
    std::condition_variable given;
    Spare* next = nullptr;
  };

  bool TakeMissing() {
    const std::lock_guard lock(mutex_);
    if (started_ >= wanted_) return false;
    ++started_;
    return true;
  }

  static void* Wait(void* self) {
    auto* const threads = static_cast<SpareThreads*>(self);
    Run run = nullptr;
    void* argument = nullptr;
    {
      Spare spare;
      std::unique_lock lock(threads->mutex_);
      spare.next = threads->waiting_;
      threads->waiting_ = &spare;
      spare.given.wait(lock, [&spare] { return spare.run != nullptr; });
      run = spare.run;
      argument = spare.argument;
    }
    return run(argument);
  }

  std::mutex mutex_;
  int wanted_ = 0;
  int started_ = 0;  // That wait, or will.
  Spare* waiting_ = nullptr;
};

// Leaked: its threads wait until the process ends.
SpareThreads& Spares() {
  static auto* const spares = new SpareThreads;
  return *spares;
}

}  // namespace

void KeepSpareThreads(int wanted) { Spares().Keep(wanted); }

}  // namespace formwork::server

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*run)(void*),
                              void* argument) noexcept {
  using formwork::server::CreateBySystem;
  using formwork::server::Spares;
  const int error = CreateBySystem(thread, attr, run, argument);
  if (error == 0) Spares().Refill();
  if (error != EAGAIN) return error;
  return Spares().Hand(thread, attr, run, argument) ? 0 : error;
}
