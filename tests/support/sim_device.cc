#include "tests/support/sim_device.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"

namespace formwork::testing {
namespace {

constexpr uint8_t kPoison = 0xA5;
constexpr size_t kAlignment = 64;             // As kernels expect it.
constexpr size_t kHost = 0;                   // The host's place in every clock.
constexpr size_t kLargest = size_t{1} << 30;  // That is given at once.
// Memory that is no longer used is forgotten beyond so much.
constexpr size_t kKept = 4096;
constexpr size_t kMostFreedBytes = size_t{64} << 20;
// At each step, beside what it names.
constexpr size_t kCheckedBytes = size_t{1} << 16;
constexpr size_t kCheckedBuffers = 512;

// How far each stream, and the host, is known to have got.
class Clock {
 public:
  uint64_t of(size_t who) const { return who < times_.size() ? times_[who] : 0; }
  uint64_t Tick(size_t who) {
    if (who >= times_.size()) times_.resize(who + 1);
    return ++times_[who];
  }
  void Join(const Clock& other) {
    if (other.times_.size() > times_.size()) times_.resize(other.times_.size());
    for (size_t i = 0; i < other.times_.size(); ++i) {
      times_[i] = std::max(times_[i], other.times_[i]);
    }
  }

 private:
  std::vector<uint64_t> times_;
};

std::string Who(size_t who) {
  return who == kHost ? std::string("the host") : absl::StrCat("stream ", who);
}

// Memory of the device: of the system, not of the heap, whose growth is the program's.
class Bytes {
 public:
  Bytes() = default;
  /// All poison. Without data where the system has no more.
  explicit Bytes(size_t size)
      : data_(static_cast<uint8_t*>(std::malloc(std::max<size_t>(size, 1)))), size_(size) {
    if (data_ != nullptr) Fill();
  }
  void Fill() { std::memset(data_.get(), kPoison, size_); }
  /// Whether all of it is poison still. Each byte is compared with the one before it, by memcmp,
  /// which is some twenty times as quick as a loop.
  bool holds() const {
    return size_ == 0 ||
           (data_.get()[0] == kPoison && std::memcmp(data_.get(), data_.get() + 1, size_ - 1) == 0);
  }
  uint8_t* data() { return data_.get(); }
  uint8_t* begin() { return data_.get(); }
  uint8_t* end() { return data_.get() + size_; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  size_t size_ = 0;
};

// What is known of a buffer, of the device or of the host.
struct Memory {
  int id = 0;
  void* data = nullptr;  // Where work sees it.
  Bytes poison;          // What `data` points into, for a buffer of the device.
  Bytes bytes;           // Its contents while no work that named it runs.
  Buffer host;           // Kept, where it is of the host.
  bool of_device = false;
  bool freed = false;
  bool written = false;
  size_t writer = kHost;
  uint64_t written_at = 0;
  std::map<size_t, uint64_t> reads;  // Since the last write: who, and when last.
};
using MemoryRef = std::shared_ptr<Memory>;

}  // namespace

class SimEvent;

struct SimItem {
  enum Kind { kWork, kCopy, kWait, kRecord, kThen, kFree } kind = kWork;
  Clock host;  // What the host knew when it enqueued this.
  std::vector<MemoryRef> reads;
  std::vector<MemoryRef> writes;
  std::vector<Buffer> held;  // Those of the host.
  absl::AnyInvocable<absl::Status()> work;
  std::shared_ptr<SimEvent> event;
  const void* site = nullptr;  // Of a wait.
  absl::AnyInvocable<void(absl::Status)> then;
};

struct SimQueue {
  size_t index = 0;
  std::deque<SimItem> items;
  Clock clock;
  absl::Status status;
};

class SimState final : public Allocator {
 public:
  SimState(const Device& device, uint64_t seed, bool enqueues)
      : device_(device), enqueues_(enqueues), random_(seed) {}

  bool enqueues() const { return enqueues_; }

  SimQueue* NewQueue() {
    absl::MutexLock lock(&mutex_);
    queues_.push_back(std::make_unique<SimQueue>());
    queues_.back()->index = queues_.size();
    return queues_.back().get();
  }

  /// As an item of what touches these would have it.
  void Resolve(const BufferAccess& access, SimItem& item) {
    absl::MutexLock lock(&mutex_);
    for (const Buffer* buffer : access.reads) item.reads.push_back(Find(*buffer, item));
    for (const Buffer* buffer : access.writes) item.writes.push_back(Find(*buffer, item));
  }

  void Enqueue(SimQueue* queue, SimItem item, const BufferAccess& access = {}) {
    absl::MutexLock lock(&mutex_);
    if (item.kind == SimItem::kWait && left_out_ != nullptr && left_out_({waits_++, item.site}))
      return;
    for (const Buffer* buffer : access.reads) item.reads.push_back(Find(*buffer, item));
    for (const Buffer* buffer : access.writes) item.writes.push_back(Find(*buffer, item));
    host_.Tick(kHost);
    item.host = host_;
    queue->items.push_back(std::move(item));
    ForgetOld();
  }

  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) override;
  void Free(BufferBlock* block) override;

  bool Step() ABSL_LOCKS_EXCLUDED(step_mutex_, mutex_);
  /// Steps whenever something can run, until Stop.
  void Drive() ABSL_LOCKS_EXCLUDED(step_mutex_, mutex_);
  void Stop() {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  bool CanStep() const {
    absl::MutexLock lock(&mutex_);
    return MayRunAny();
  }
  void IgnoreHost() {
    absl::MutexLock lock(&mutex_);
    watches_host_ = false;
  }
  bool Done(const SimEvent& event) const;
  absl::Status StatusOf(const SimEvent& event) const;
  /// The host has learnt of `event`.
  void Learn(const SimEvent& event);
  void HostAccess(const Buffer& buffer, bool write);
  void Lose() {
    absl::MutexLock lock(&mutex_);
    lost_ = true;
  }
  void Stall() {
    absl::MutexLock lock(&mutex_);
    stalled_ = true;
  }
  absl::Status Health() const {
    absl::MutexLock lock(&mutex_);
    return lost_ ? absl::UnavailableError("the simulated device is lost") : absl::OkStatus();
  }
  std::vector<std::string> Reports() {
    absl::MutexLock lock(&mutex_);
    CheckPoison(/*all=*/true);
    return reports_;
  }
  void LeaveOutWaits(std::function<bool(const SimWait&)> which) {
    absl::MutexLock lock(&mutex_);
    left_out_ = std::move(which);
  }

 private:
  template <typename... Args>
  void Report(const Args&... args) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    reports_.push_back(absl::StrCat(args...));
  }
  MemoryRef Find(const Buffer& buffer, SimItem& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MemoryRef HostMemory(const Buffer& buffer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Touch(Memory& memory, size_t who, const Clock& clock, bool write)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(Memory& memory, size_t who, const Clock& clock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckPoison(Memory& memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of so many bytes that a step stays short, the next ones each time. `all`: of everything, also
  // of what has been freed.
  void CheckPoison(bool all = false) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bounds what is kept of memory that is no longer used.
  void ForgetOld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Wakes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopped_ || MayRunAny(); }
  bool MayRunAny() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRun(const SimQueue& queue) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Run(SimItem& item, SimQueue& queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(step_mutex_)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const Device& device_;
  const bool enqueues_;
  absl::Mutex step_mutex_;  // One step at a time; taken before mutex_.
  mutable absl::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<SimQueue>> queues_ ABSL_GUARDED_BY(mutex_);
  // Of the device: for some time after they are freed, so that a late access is a report and no
  // crash.
  std::vector<MemoryRef> memories_ ABSL_GUARDED_BY(mutex_);
  size_t next_check_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t forget_at_ ABSL_GUARDED_BY(mutex_) = kKept;
  size_t freed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<const BufferBlock*, MemoryRef> live_ ABSL_GUARDED_BY(mutex_);
  std::map<const void*, MemoryRef> host_memories_ ABSL_GUARDED_BY(mutex_);  // By address.
  Clock host_ ABSL_GUARDED_BY(mutex_);
  std::function<bool(const SimWait&)> left_out_ ABSL_GUARDED_BY(mutex_);
  int64_t waits_ ABSL_GUARDED_BY(mutex_) = 0;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool watches_host_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> reports_ ABSL_GUARDED_BY(mutex_);
};

class SimEvent final : public Event {
 public:
  explicit SimEvent(std::shared_ptr<SimState> state) : state_(std::move(state)) {}
  bool Done() const override {
    if (!state_->Done(*this)) return false;
    state_->Learn(*this);
    return true;
  }
  absl::Status Await(absl::Time deadline) override {
    while (!state_->Done(*this)) {
      // Stuck, unless another thread enqueues what this waits for.
      if (!state_->Step()) {
        if (absl::Now() >= deadline) {
          return absl::DeadlineExceededError("Await: the event has not happened");
        }
        absl::SleepFor(absl::Microseconds(50));
      }
    }
    state_->Learn(*this);
    return state_->StatusOf(*this);
  }

 private:
  friend class SimState;
  const std::shared_ptr<SimState> state_;
  // Guarded by the state's mutex_.
  bool done_ = false;
  Clock clock_;
  absl::Status status_;
};

namespace {

// Goes back to the stream that it came from.
struct SimBlock final : BufferBlock {
  SimQueue* home = nullptr;
};

// Kernels, with what they touch.
struct SimCaptured final : CapturedWork {
  struct Kernel {
    std::vector<MemoryRef> reads, writes;
    std::shared_ptr<absl::AnyInvocable<absl::Status()>> work;
  };
  std::vector<Kernel> kernels;
};

class SimStream final : public Stream {
 public:
  explicit SimStream(std::shared_ptr<SimState> state)
      : state_(std::move(state)), queue_(state_->NewQueue()) {}

  SimQueue* queue() const { return queue_; }

  bool enqueues() const override { return state_->enqueues(); }
  void Launch(const BufferAccess& access, absl::AnyInvocable<absl::Status()> work) override {
    if (!enqueues()) return EnqueueWork(access, std::move(work));
    if (failed_) return;  // As a GPU's, which knows at once.
    launched_ = &access;
    absl::Status status = work();
    if (captured_ != nullptr) {
      captures_ = true;
      static_cast<void>(work());
      captures_ = false;
    }
    launched_ = nullptr;
    failed_ = !status.ok();
    if (failed_) EnqueueWork({}, [status = std::move(status)] { return status; });
  }
  bool BeginCapture() override {
    if (!enqueues()) return false;
    captured_ = std::make_unique<SimCaptured>();
    return true;
  }
  absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override {
    if (captured_ == nullptr) return InvalidArgument("EndCapture: nothing is captured");
    return std::unique_ptr<CapturedWork>(std::move(captured_));
  }
  void Replay(CapturedWork& work) override {
    for (const SimCaptured::Kernel& kernel : static_cast<SimCaptured&>(work).kernels) {
      SimItem item;
      item.reads = kernel.reads;
      item.writes = kernel.writes;
      item.work = [run = kernel.work] { return (*run)(); };
      state_->Enqueue(queue_, std::move(item));
    }
  }
  void EnqueueKernel(absl::AnyInvocable<absl::Status()> kernel) const {
    EnqueueWork(*launched_, std::move(kernel));
  }
  EventRef Record() override {
    auto event = std::make_shared<SimEvent>(state_);
    SimItem item;
    item.kind = SimItem::kRecord;
    item.event = event;
    state_->Enqueue(queue_, std::move(item));
    return event;
  }
  void Wait(const EventRef& event) override {
    if (event == nullptr) return;
    SimItem item;
    item.kind = SimItem::kWait;
    item.site = __builtin_return_address(0);
    item.event = std::dynamic_pointer_cast<SimEvent>(event);
    if (item.event == nullptr) {
      item.kind = SimItem::kWork;
      item.work = [] { return InvalidArgument("Wait: the event is of another device"); };
    }
    state_->Enqueue(queue_, std::move(item));
  }
  void Copy(const Buffer& src, Buffer& dst) override {
    if (launched_ != nullptr && src.on_device() && dst.on_device()) {
      // Of memory that what is launched was said to touch: the buffers may be its views alone.
      return EnqueueKernel([from = src.data(), to = dst.data(), bytes = dst.bytes()] {
        std::memcpy(to, from, bytes);
        return absl::OkStatus();
      });
    }
    if (src.bytes() != dst.bytes()) {
      Launch({}, [from = src.bytes(), to = dst.bytes()] {
        return InvalidArgument("Copy: sizes differ: src=", from, " dst=", to);
      });
      return;
    }
    if (captured_ != nullptr && src.on_device() && dst.on_device()) {
      Capture({.reads = {&src}, .writes = {&dst}},
              [from = src.data(), to = dst.data(), bytes = dst.bytes()] {
                std::memcpy(to, from, bytes);
                return absl::OkStatus();
              });
    }
    SimItem item;
    item.kind = SimItem::kCopy;
    for (const Buffer* buffer : {&src, static_cast<const Buffer*>(&dst)}) {
      if (!buffer->on_device()) item.held.push_back(*buffer);
    }
    state_->Enqueue(queue_, std::move(item), {.reads = {&src}, .writes = {&dst}});
  }
  BufferBlock* TakePinned(size_t bytes) override {
    return ProcessAllocator().Allocate(bytes, nullptr).value_or(nullptr);
  }
  void CopyUnlessFailed(FailureWord& word, const Buffer& src, Buffer& dst) override {
    EnqueueKernel([&word, from = src.data(), to = dst.data(), bytes = dst.bytes()] {
      if (word.failed_step() == 0) std::memcpy(to, from, bytes);
      return absl::OkStatus();
    });
  }
  void Then(absl::AnyInvocable<void(absl::Status)> on_host) override {
    SimItem item;
    item.kind = SimItem::kThen;
    item.then = std::move(on_host);
    state_->Enqueue(queue_, std::move(item));
  }

 private:
  void Capture(const BufferAccess& access, absl::AnyInvocable<absl::Status()> work) const {
    SimItem item;
    state_->Resolve(access, item);
    captured_->kernels.push_back(
        {std::move(item.reads), std::move(item.writes),
         std::make_shared<absl::AnyInvocable<absl::Status()>>(std::move(work))});
  }
  void EnqueueWork(const BufferAccess& access, absl::AnyInvocable<absl::Status()> work) const {
    if (captures_) return Capture(access, std::move(work));
    SimItem item;
    item.work = std::move(work);
    state_->Enqueue(queue_, std::move(item), access);
  }

  // What the thread's Launch was told, while that calls its work.
  static thread_local const BufferAccess* launched_;
  bool failed_ = false;                    // By what it was given to launch.
  std::unique_ptr<SimCaptured> captured_;  // While something is captured;
  bool captures_ = false;                  // while what is enqueued is.
  const std::shared_ptr<SimState> state_;
  SimQueue* const queue_;
};
thread_local const BufferAccess* SimStream::launched_ = nullptr;

}  // namespace

MemoryRef SimState::HostMemory(const Buffer& buffer) {
  MemoryRef fresh;
  MemoryRef& memory = watches_host_ ? host_memories_[buffer.data()] : fresh;
  if (memory == nullptr) {
    memory = std::make_shared<Memory>();
    memory->id = ++last_id_;
    memory->data = buffer.data();
    if (watches_host_) memory->host = buffer;
    memory->written = true;
  }
  return memory;
}

MemoryRef SimState::Find(const Buffer& buffer, SimItem& item) {
  if (auto it = live_.find(buffer.block()); it != live_.end()) return it->second;
  if (item.kind != SimItem::kCopy) {
    Report("work names a buffer that is not of the device");
  }
  return HostMemory(buffer);
}

void SimState::ForgetOld() {
  if (memories_.size() >= forget_at_ || freed_bytes_ >= kMostFreedBytes) {
    std::erase_if(memories_, [this](const MemoryRef& memory) {
      mutex_.AssertHeld();
      if (!memory->freed || memory.use_count() > 1) return false;
      CheckPoison(*memory);
      return true;
    });
    forget_at_ = 2 * memories_.size() + kKept;
    freed_bytes_ = 0;
  }
}

void SimState::Touch(Memory& memory, size_t who, const Clock& clock, bool write) {
  const char* verb = write ? "writes" : "reads";
  if (memory.freed) {
    Report("use after free: ", Who(who), " ", verb, " buffer ", memory.id);
    return;
  }
  if (clock.of(memory.writer) < memory.written_at) {
    Report("race: ", Who(who), " ", verb, " buffer ", memory.id, " not after the write of ",
           Who(memory.writer));
  }
  if (!write) {
    if (!memory.written) {
      Report("undefined contents: ", Who(who), " reads buffer ", memory.id, " never written");
    }
    memory.reads[who] = clock.of(who);
    return;
  }
  for (const auto& [reader, time] : memory.reads) {
    if (clock.of(reader) < time) {
      Report("race: ", Who(who), " writes buffer ", memory.id, " not after the read of ",
             Who(reader));
    }
  }
  memory.reads.clear();
  memory.written = true;
  memory.writer = who;
  memory.written_at = clock.of(who);
}

void SimState::Release(Memory& memory, size_t who, const Clock& clock) {
  if (clock.of(memory.writer) < memory.written_at) {
    Report("race: ", Who(who), " frees buffer ", memory.id, " not after the write of ",
           Who(memory.writer));
  }
  for (const auto& [reader, time] : memory.reads) {
    if (clock.of(reader) < time) {
      Report("race: ", Who(who), " frees buffer ", memory.id, " not after the read of ",
             Who(reader));
    }
  }
  memory.freed = true;
  freed_bytes_ += memory.poison.size();
}

void SimState::CheckPoison(Memory& memory) {
  if (memory.poison.holds()) return;
  Report("write that nothing announced: buffer ", memory.id);
  memory.poison.Fill();
}

void SimState::CheckPoison(bool all) {
  size_t bytes = 0;
  const size_t most = all ? memories_.size() : std::min(memories_.size(), kCheckedBuffers);
  for (size_t i = 0; i < most && (all || bytes < kCheckedBytes); ++i) {
    if (next_check_ >= memories_.size()) next_check_ = 0;
    Memory& memory = *memories_[next_check_++];
    if (memory.freed && !all) continue;
    CheckPoison(memory);
    bytes += memory.poison.size();
  }
}

absl::StatusOr<BufferBlock*> SimState::Allocate(size_t bytes, Stream* stream) {
  FORMWORK_RETURN_IF_ERROR(Health());
  const auto* const sim_stream =
      stream == nullptr ? nullptr : dynamic_cast<const SimStream*>(&stream->inner());
  if (sim_stream == nullptr) {
    return InvalidArgument("Allocate: a stream of the simulated device is wanted");
  }
  const auto memory = std::make_shared<Memory>();
  if (bytes <= kLargest) {
    memory->poison = Bytes(bytes + 2 * kAlignment);
    memory->bytes = Bytes(bytes);
  }
  if (memory->poison.data() == nullptr || memory->bytes.data() == nullptr) {
    return ResourceExhausted("out of memory of the simulated device: bytes asked for=", bytes);
  }
  const auto begin = reinterpret_cast<uintptr_t>(memory->poison.data());
  memory->data = memory->poison.data() + (kAlignment - begin % kAlignment) % kAlignment;
  memory->of_device = true;
  auto block = std::make_unique<SimBlock>();
  block->data = memory->data;
  block->bytes = bytes;
  block->capacity = bytes;
  block->allocator = this;
  block->device = &device_;
  block->home = sim_stream->queue();
  absl::MutexLock lock(&mutex_);
  memory->id = ++last_id_;
  memories_.push_back(memory);
  live_[block.get()] = memory;
  // Allocating is an access that later ones, of other streams too, must come after.
  SimItem item;
  item.kind = SimItem::kRecord;
  item.writes.push_back(memory);
  host_.Tick(kHost);
  item.host = host_;
  block->home->items.push_back(std::move(item));
  return block.release();
}

void SimState::Free(BufferBlock* block) {
  auto* sim_block = static_cast<SimBlock*>(block);
  {
    absl::MutexLock lock(&mutex_);
    SimItem item;
    item.kind = SimItem::kFree;
    item.writes.push_back(live_[block]);
    host_.Tick(kHost);
    item.host = host_;
    live_.erase(block);
    sim_block->home->items.push_back(std::move(item));
  }
  delete sim_block;
}

bool SimState::Done(const SimEvent& event) const {
  absl::MutexLock lock(&mutex_);
  return event.done_;
}

absl::Status SimState::StatusOf(const SimEvent& event) const {
  absl::MutexLock lock(&mutex_);
  return event.status_;
}

void SimState::Learn(const SimEvent& event) {
  absl::MutexLock lock(&mutex_);
  host_.Join(event.clock_);
}

void SimState::HostAccess(const Buffer& buffer, bool write) {
  absl::MutexLock lock(&mutex_);
  if (live_.contains(buffer.block())) {
    Report("the host accesses buffer ", live_[buffer.block()]->id, ", which is of the device");
    return;
  }
  host_.Tick(kHost);
  Touch(*HostMemory(buffer), kHost, host_, write);
}

bool SimState::MayRun(const SimQueue& queue) const {
  if (queue.items.empty()) return false;
  const SimItem& front = queue.items.front();
  return front.kind != SimItem::kWait || front.event->done_;
}

bool SimState::Step() {
  absl::MutexLock step_lock(&step_mutex_);
  SimItem item;
  SimQueue* queue = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<SimQueue*> ready;
    for (const auto& candidate : queues_) {
      if (MayRun(*candidate)) ready.push_back(candidate.get());
    }
    if (ready.empty()) return false;
    queue = ready[random_() % ready.size()];
    item = std::move(queue->items.front());
    queue->items.pop_front();
    queue->clock.Join(item.host);
    queue->clock.Tick(queue->index);
    if (lost_ && queue->status.ok()) {
      queue->status = absl::UnavailableError("the simulated device is lost");
    }
  }
  const absl::Status status = Run(item, *queue);
  absl::MutexLock lock(&mutex_);
  if (queue->status.ok()) queue->status = status;
  return true;
}

absl::Status SimState::Run(SimItem& item, SimQueue& queue) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    status = queue.status;
    CheckPoison();
    switch (item.kind) {
      case SimItem::kWait:
        queue.clock.Join(item.event->clock_);
        return item.event->status_;
      case SimItem::kRecord:
        for (const MemoryRef& memory :
             item.writes) {  // An allocation: its contents stay undefined.
          if (memory->written) {
            Report("race: ", Who(memory->writer), " writes buffer ", memory->id,
                   " not after its allocation by ", Who(queue.index));
          }
          memory->writer = queue.index;
          memory->written_at = queue.clock.of(queue.index);
        }
        if (item.event != nullptr) {
          item.event->clock_ = queue.clock;
          item.event->status_ = status;
          item.event->done_ = true;
        }
        return status;
      case SimItem::kFree:
        Release(*item.writes[0], queue.index, queue.clock);
        return status;
      case SimItem::kThen:
        host_.Join(queue.clock);
        break;
      case SimItem::kWork:
      case SimItem::kCopy:
        if (!status.ok()) return status;
        for (const MemoryRef& memory : item.reads) Touch(*memory, queue.index, queue.clock, false);
        for (const MemoryRef& memory : item.writes) Touch(*memory, queue.index, queue.clock, true);
    }
  }
  if (item.kind == SimItem::kThen) {
    item.then(status);
    return status;
  }
  if (item.kind == SimItem::kCopy) {
    Memory& src = *item.reads[0];
    Memory& dst = *item.writes[0];
    const size_t bytes = dst.of_device   ? dst.bytes.size()
                         : src.of_device ? src.bytes.size()
                                         : item.held[0].bytes();
    if (bytes == 0) return status;
    std::memmove(dst.of_device ? dst.bytes.data() : static_cast<uint8_t*>(dst.data),
                 src.of_device ? src.bytes.data() : static_cast<uint8_t*>(src.data), bytes);
    return status;
  }
  // The named buffers are where work sees them only while it runs.
  std::vector<MemoryRef> named = item.writes;
  for (const MemoryRef& memory : item.reads) {
    if (std::find(named.begin(), named.end(), memory) == named.end()) named.push_back(memory);
  }
  {
    absl::MutexLock lock(&mutex_);
    for (const MemoryRef& memory : named) CheckPoison(*memory);  // What is written now hides it.
  }
  for (const MemoryRef& memory : named) {
    if (memory->of_device)
      std::copy(memory->bytes.begin(), memory->bytes.end(), static_cast<uint8_t*>(memory->data));
  }
  status = item.work();
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < named.size(); ++i) {
    Memory& memory = *named[i];
    if (!memory.of_device) continue;
    auto* const contents = static_cast<uint8_t*>(memory.data);
    if (i < item.writes.size()) {
      std::copy_n(contents, memory.bytes.size(), memory.bytes.begin());
    } else if (!std::equal(memory.bytes.begin(), memory.bytes.end(), contents)) {
      Report("work of ", Who(queue.index), " writes buffer ", memory.id,
             ", which it named as read");
    }
    std::fill_n(contents, memory.bytes.size(), kPoison);
  }
  CheckPoison();
  return status;
}

bool SimState::MayRunAny() const {
  if (stalled_) return false;
  return std::any_of(queues_.begin(), queues_.end(), [this](const auto& queue) {
    mutex_.AssertHeld();
    return MayRun(*queue);
  });
}

void SimState::Drive() {
  while (true) {
    bool pause = false;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &SimState::Wakes));
      if (stopped_) return;
      pause = random_() % 32 == 0;
    }
    // Now and then, so that the host gets ahead.
    if (pause) absl::SleepFor(absl::Microseconds(100));
    Step();
  }
}

SimDevice::SimDevice(uint64_t seed, bool enqueues)
    : state_(std::make_shared<SimState>(*this, seed, enqueues)) {}
SimDevice::~SimDevice() {
  state_->Stop();
  if (driver_.joinable()) driver_.join();
  RunAll();
}

void SimDevice::IgnoreHost() { state_->IgnoreHost(); }

void SimDevice::RunByItself() {
  IgnoreHost();
  driver_ = std::thread([state = state_] {
    sigset_t all;  // They are for the program that uses the device.
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    state->Drive();
  });
}

absl::StatusOr<std::unique_ptr<Stream>> SimDevice::NewStream() {
  FORMWORK_RETURN_IF_ERROR(Health());
  return std::make_unique<SimStream>(state_);
}

Allocator& SimDevice::allocator() { return *state_; }

absl::Status SimDevice::Health() const { return state_->Health(); }
bool SimDevice::Step() { return state_->Step(); }
bool SimDevice::CanStep() const { return state_->CanStep(); }
void SimDevice::RunAll() {
  while (state_->Step()) {
  }
}
void SimDevice::HostReads(const Buffer& buffer) { state_->HostAccess(buffer, false); }
void SimDevice::HostWrites(const Buffer& buffer) { state_->HostAccess(buffer, true); }
void SimDevice::LeaveOutWaits(std::function<bool(const SimWait&)> which) {
  state_->LeaveOutWaits(std::move(which));
}
void SimDevice::Lose() { state_->Lose(); }
void SimDevice::Stall() { state_->Stall(); }
std::vector<std::string> SimDevice::Reports() const { return state_->Reports(); }

void EnqueueKernel(const Stream& stream, absl::AnyInvocable<absl::Status()> kernel) {
  static_cast<const SimStream&>(stream.inner()).EnqueueKernel(std::move(kernel));
}

}  // namespace formwork::testing
