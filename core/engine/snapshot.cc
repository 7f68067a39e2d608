#include "core/engine/snapshot.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "core/base/background_thread.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/engine/answers.h"
#include "core/engine/engine_impl.h"
#include "core/function/type_messages.h"
#include "core/kernels/resource/stored_form.h"

namespace formwork {

namespace {

bool Moves(const Resource& resource) {
  const StoredForm* form = FindStoredForm(resource.type.kind->name);
  return form != nullptr && form->moves;
}

absl::Status TheEngineEnds() { return absl::CancelledError("the engine ends"); }

}  // namespace

std::optional<state::Function> StateOf(const EngineFunction& function) {
  if (function.stored == nullptr) return std::nullopt;
  state::Function to;
  to.set_id(function.id);
  to.set_registration(function.stored->number);
  function.VisitState([&to](absl::string_view node, absl::Span<std::atomic<uint64_t>> numbers) {
    state::Function::State* state = to.add_state();
    state->set_node(std::string(node));
    for (const auto& number : numbers) state->add_numbers(number.load());
    return true;
  });
  return to;
}

void ToMessage(const Resource& resource, uint64_t version, state::Resource* to) {
  to->set_id(resource.id);
  to->set_namespace_(resource.name_space);
  to->set_name(resource.name);
  to->set_kind(std::string(resource.type.kind->name));
  for (const ResourceType::Part& part : resource.type.parts) {
    state::Resource::Part* to_part = to->add_parts();
    to_part->set_dtype(static_cast<tf::DataType>(part.dtype));
    ToMessage(part.shape, to_part->mutable_shape());
  }
  to->set_version(version);
}

void UnusedRegistrations::Add(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  numbers_.push_back(number);
}

std::vector<uint64_t> UnusedRegistrations::Take() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(numbers_, {});
}

Snapshots::Snapshots(EngineImpl& engine, std::unique_ptr<SnapshotStore> store, state::Life life)
    : engine_(engine), store_(std::move(store)), life_(std::move(life)) {}

Snapshots::~Snapshots() {
  Stop();
  if (thread_.joinable()) thread_.join();
  engine_.commits_ = nullptr;
  engine_.answers_.set_log(nullptr);
}

void Snapshots::Stop() {
  std::vector<Done> requests;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    requests.swap(requests_);
  }
  for (Done& done : requests) done(TheEngineEnds());
}

void Snapshots::Request(Done done) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stopped_) return requests_.push_back(std::move(done));
  }
  done(TheEngineEnds());
}

void Snapshots::CountChange(absl::string_view name_space) {
  const int64_t calls = engine_.options_.snapshot_calls;
  if (calls == 0 || engine_.DurabilityOf(name_space) == Durability::kMemory) return;
  if (changes_.fetch_add(1, std::memory_order_relaxed) + 1 != calls) return;
  absl::MutexLock lock(&mutex_);
  due_ = true;
}

SnapshotStats Snapshots::stats() const {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

std::shared_ptr<const Snapshots::Versions> Snapshots::versions() const {
  absl::MutexLock lock(&mutex_);
  return versions_;
}

void Snapshots::Loop() {
  constexpr int kNice = 10;  // Calls go first.
  StayInBackground(kNice);
  const absl::Duration interval = engine_.options_.snapshot_interval;
  const bool timed = interval > absl::ZeroDuration();
  while (true) {
    std::vector<Done> requests;
    {
      absl::MutexLock lock(&mutex_);
      const auto due = [this] {
        mutex_.AssertHeld();
        return stopped_ || due_ || !requests_.empty();
      };
      mutex_.AwaitWithTimeout(absl::Condition(&due), timed ? interval : absl::InfiniteDuration());
      if (stopped_) return;
      requests.swap(requests_);
      due_ = false;
    }
    const absl::StatusOr<SnapshotInfo> taken = Take(absl::InfiniteFuture(), /*last=*/false);
    for (Done& done : requests) done(taken);
  }
}

absl::Status Snapshots::TakeLast(absl::Time deadline) {
  Stop();
  return Take(deadline, /*last=*/true).status();
}

absl::StatusOr<SnapshotInfo> Snapshots::Take(absl::Time deadline, bool last) {
  absl::StatusOr<SnapshotInfo> taken;
  {
    absl::MutexLock lock(&taking_);
    taken = CatchOutOfMemory([&] {
      taking_.AssertHeld();
      return Write(deadline, last);
    });
  }
  {
    absl::MutexLock lock(&mutex_);
    if (taken.ok()) {
      ++stats_.taken;
      stats_.last = *taken;
      stats_.bytes_written += taken->bytes_written;
    } else {
      ++stats_.failed;
    }
  }
  if (engine_.options_.on_snapshot) engine_.options_.on_snapshot(taken);
  return taken;
}

absl::StatusOr<SnapshotInfo> Snapshots::Write(absl::Time deadline, bool last) {
  FORMWORK_RETURN_IF_ERROR(engine_.DeviceStatus());
  const absl::Time begun = absl::Now();
  changes_.store(0, std::memory_order_relaxed);
  SnapshotInfo info;
  const absl::Cleanup hurry = [this] { store_->SetPace(0); };
  state::Snapshot snapshot;
  // First: what goes from now on may be in what the log had at last.
  const std::vector<uint64_t> unused = unused_->Take();
  absl::Cleanup keep_unused = [&] {
    for (const uint64_t number : unused) unused_->Add(number);
  };
  // Whoever has logged a change gives its place back afterwards, so that all that is logged by now
  // is in what is collected; and of what is logged later the log has the last state in any case.
  snapshot.set_log_position(commits_->last());
  FORMWORK_ASSIGN_OR_RETURN(std::vector<Value> values, Collect(deadline, last, &snapshot));
  info.taken = absl::Now();
  info.resources = static_cast<int64_t>(values.size());
  info.functions = snapshot.functions_size();
  FORMWORK_RETURN_IF_ERROR(Put(std::move(values), &snapshot, &info));
  std::string text = snapshot.SerializeAsString();
  state::Life life = life_;
  life.set_next_resource_id(engine_.resources_.next_id());
  life.set_next_function_id(engine_.functions_.next_id());
  life.set_next_kept_tensor_id(engine_.kept_.next_id());
  const auto has_kept = [this] {
    const std::vector<NamespaceHoldings> namespaces = engine_.usages_.List();
    return std::any_of(namespaces.begin(), namespaces.end(), [](const NamespaceHoldings& one) {
      return one.durability != Durability::kMemory && one.of(Held::kKeptTensor).count > 0;
    });
  };
  life.set_complete(last && info.left_out == 0 && !has_kept());
  if (life.complete()) FORMWORK_RETURN_IF_ERROR(StoreAnswers());
  // An engine in which nothing happens does not write.
  if (last || text != committed_) {
    snapshot.set_unix_micros(absl::ToUnixMicros(info.taken));
    // It may have more than the log on disk: then it could not be told what became of it later.
    FORMWORK_RETURN_IF_ERROR(commits_->AwaitDurable(commits_->last()));
    FORMWORK_RETURN_IF_ERROR(store_->Commit(&life, &snapshot));
    committed_ = std::move(text);
    std::move(keep_unused).Cancel();
    Clean(snapshot, unused);
  }
  info.duration = absl::Now() - begun;
  return info;
}

absl::Status Snapshots::StoreAnswers() {
  const auto is_missing = [this](const AnsweredClient& client) {
    return engine_.DurabilityOf(client.name_space) == Durability::kSnapshot;
  };
  uint64_t position = commits_->last();
  FORMWORK_RETURN_IF_ERROR(commits_->AwaitDurable(position));
  std::vector<LoggedValue> values;
  const absl::Time begins = engine_.answers_.Visit(
      [&](const AnsweredClient& client) {
        if (is_missing(client)) values.push_back(ToLogged(client));
      },
      [&](const AnswerWindow::Remembered& remembered) {
        const AnsweredClient& client = remembered.client;
        if (!is_missing(client)) return;
        LoggedAnswer answer = StoredAnswerOf(
            client.name_space, {client.id, remembered.sequence, 0, absl::ZeroDuration()},
            remembered.content);
        if (!ToStored(remembered.answer, &answer)) answer.message.set_lost(true);
        values.push_back(ToLogged(std::move(answer), ++position));
      });
  values.push_back(ToLogged(UnknownClient(begins)));
  return commits_->Store(values);
}

absl::Status Snapshots::Await(AccessTicket& ticket, absl::Time deadline, bool last) {
  const auto over = [this, last] {
    mutex_.AssertHeld();
    return granted_ || (stopped_ && !last);
  };
  {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithDeadline(absl::Condition(&over), deadline);
    if (granted_) return absl::OkStatus();
  }
  if (ticket.Abandon()) {
    return absl::DeadlineExceededError("calls that do not end keep variables from the snapshot");
  }
  absl::MutexLock lock(&mutex_);  // It is being granted just now.
  mutex_.Await(absl::Condition(&granted_));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Snapshots::Value>> Snapshots::Collect(absl::Time deadline, bool last,
                                                                 state::Snapshot* snapshot) {
  // Before the resources that they are bound to.
  for (const FunctionPtr& function : engine_.functions_.ListAll()) {
    if (function->broken()) continue;
    std::optional<state::Function> state = StateOf(static_cast<const EngineFunction&>(*function));
    if (state) *snapshot->add_functions() = *std::move(state);
  }
  std::vector<std::shared_ptr<Resource>> resources = engine_.resources_.ListAll();
  std::erase_if(resources, [this](const auto& resource) {
    return engine_.DurabilityOf(resource->name_space) == Durability::kMemory;
  });
  std::vector<AccessRequest> requests;
  requests.reserve(resources.size());
  // What changes in place stands still meanwhile.
  for (const auto& resource : resources) {
    requests.push_back({resource, Moves(*resource) ? Access::kWrite : Access::kRead});
  }
  {
    absl::MutexLock lock(&mutex_);
    granted_ = false;
  }
  std::unique_ptr<Stream> stream;  // It and its group outlive the ticket's places.
  std::optional<StreamGroup> streams;
  AccessTicket ticket(engine_.resources_, engine_.allocator_);
  const bool granted = ticket.Take(std::move(requests), [this] {
    absl::MutexLock lock(&mutex_);
    granted_ = true;
  });
  if (!granted) FORMWORK_RETURN_IF_ERROR(Await(ticket, deadline, last));
  if (engine_.streams_) {
    FORMWORK_ASSIGN_OR_RETURN(stream, engine_.streams_->Take());
    Stream* const alone = stream.get();
    ticket.set_streams(*engine_.device_memory_, streams.emplace(absl::MakeSpan(&alone, 1)));
  }
  const std::shared_ptr<const Versions> stored_versions = versions();
  std::vector<Value> values;
  values.reserve(resources.size());
  for (const auto& resource : resources) {
    Value& value = values.emplace_back();
    value.resource = resource;
    // Where it takes a writer's place nobody else writes.
    value.version = Moves(*resource) ? resource->version() : ticket.ReadVersion({resource->id});
    const auto stored = stored_versions->find(resource->id);
    value.stored = stored != stored_versions->end() && stored->second == value.version;
    if (value.stored) continue;
    FORMWORK_ASSIGN_OR_RETURN(value.value, ticket.ReadState({resource->id}));
    if (value.value.on_device()) {
      FORMWORK_RETURN_IF_ERROR(ticket.ReadEnqueued({resource->id}).status());
    }
    if (Moves(*resource) && value.value.has_value()) {
      value.parts = PartsOf(*resource, value.value);
    }
  }
  if (stream != nullptr) {
    ticket.ReleaseAll();
    // The work that makes them has run then.
    FORMWORK_RETURN_IF_ERROR(stream->Record()->Await(deadline));
    engine_.streams_->Return(std::move(stream));
  }
  return values;
}

absl::Status Snapshots::Put(std::vector<Value> values, state::Snapshot* snapshot,
                            SnapshotInfo* info) {
  const std::shared_ptr<Transfer> transfer =
      engine_.transfers_.Begin(TransferInfo::Kind::kSnapshot, "", "");
  uint64_t total = 0;
  for (const Value& value : values) {
    if (value.value.has_value()) total += value.resource->bytes();
  }
  transfer->total = total;
  FORMWORK_RETURN_IF_ERROR(CopyAhead(values));
  OthersCalls calls{engine_.calls_begun_.load(std::memory_order_relaxed)};
  for (Value& value : values) {
    const Resource& resource = *value.resource;
    state::Resource* to = snapshot->add_resources();
    ToMessage(resource, value.version, to);
    to->set_initialized(value.stored);
    if (!value.value.has_value()) continue;
    const uint64_t of_value = resource.bytes();
    const absl::StatusOr<std::vector<Tensor>> parts =
        value.parts ? *std::move(value.parts) : PartsOf(resource, value.value);
    if (absl::IsUnimplemented(parts.status())) {
      ++info->left_out;
      continue;
    }
    FORMWORK_RETURN_IF_ERROR(Annotate(parts.status(), Described(resource)));
    // Rather than find it full half-way: what is left is for the log and for what is under way.
    FORMWORK_RETURN_IF_ERROR(store_->CheckRoom(value.value.bytes()));
    store_->SetPace(Pace(&calls));
    FORMWORK_ASSIGN_OR_RETURN(
        const uint64_t bytes,
        store_->Put({StoredKey::Of::kResource, resource.id, value.version}, *parts));
    info->bytes_written += bytes;
    transfer->done += std::min(of_value, total - transfer->done);  // It may change meanwhile.
    to->set_initialized(true);
    value = {};  // From now on calls may change it in place.
  }
  return absl::OkStatus();
}

absl::Status Snapshots::CopyAhead(std::vector<Value>& values) {
  constexpr size_t kPart = 4;  // Of what the host's memory has left.
  const MemoryBudget& memory = engine_.memory_;
  const size_t used = memory.used();
  size_t room = memory.limit() == 0 ? SIZE_MAX : (memory.limit() - std::min(used, memory.limit()));
  room /= kPart;
  for (Value& value : values) {
    if (!value.value.on_device()) continue;
    if (value.value.bytes() > room) return absl::OkStatus();
    room -= value.value.bytes();
    FORMWORK_ASSIGN_OR_RETURN(value.value, engine_.HostValue(std::move(value.value)));
  }
  return absl::OkStatus();
}

uint64_t Snapshots::Pace(OthersCalls* calls) const {
  // About a twelfth of what a core does: what is written beside calls they shall not notice.
  constexpr uint64_t kBytesPerCore = uint64_t{64} << 20;
  constexpr absl::Duration kCallsGoOn = absl::Seconds(1);
  const absl::Time now = absl::Now();
  // By what has begun: short calls are never under way when this thread, which goes after them, has
  // a core.
  const uint64_t begun = engine_.calls_begun_.load(std::memory_order_relaxed);
  if (begun != calls->begun || engine_.calls_.load(std::memory_order_relaxed) > 0) {
    *calls = {begun, now + kCallsGoOn};
  }
  if (now > calls->until) return 0;
  return kBytesPerCore * std::max(1u, std::thread::hardware_concurrency());
}

absl::StatusOr<std::vector<Tensor>> Snapshots::PartsOf(const Resource& resource,
                                                       const Tensor& value) {
  const StoredForm* form = FindStoredForm(resource.type.kind->name);
  if (form == nullptr) return Unimplemented("it cannot be stored");
  FORMWORK_ASSIGN_OR_RETURN(const Tensor host, engine_.HostValue(value));
  return form->parts(resource.type, host, engine_.allocator_);
}

absl::StatusOr<std::vector<Tensor>> Snapshots::ChangesOf(const Resource& resource,
                                                         const Tensor& before,
                                                         const Tensor& after) {
  const StoredForm* form = FindStoredForm(resource.type.kind->name);
  if (form == nullptr || form->changes == nullptr) return std::vector<Tensor>();
  return form->changes(resource.type, before, after, engine_.allocator_);
}

void Snapshots::Clean(const state::Snapshot& snapshot, const std::vector<uint64_t>& unused) {
  const std::shared_ptr<const Versions> before = versions();
  auto now = std::make_shared<Versions>();
  for (const state::Resource& resource : snapshot.resources()) {
    if (resource.initialized()) now->emplace(resource.id(), resource.version());
  }
  std::set<uint64_t> registrations;
  for (const state::Function& function : snapshot.functions()) {
    registrations.insert(function.registration());
  }
  // What cannot be removed now is removed when the next life begins.
  for (const auto& [id, version] : *before) {
    const auto kept = now->find(id);
    if (kept != now->end() && kept->second == version) continue;
    (void)store_->Remove({StoredKey::Of::kResource, id, version});
  }
  {
    absl::MutexLock lock(&mutex_);
    versions_ = std::move(now);
  }
  for (const uint64_t number : unused) {
    if (registrations.contains(number)) {
      unused_->Add(number);
    } else {
      (void)store_->Remove({StoredKey::Of::kRegistration, number, 0});
    }
  }
  (void)commits_->Truncate(snapshot.log_position());
  (void)store_->Compact();
}

absl::Status Snapshots::StoreDurabilities() {
  state::Namespaces namespaces;
  for (const auto& [name, durability] : engine_.usages_.durabilities()) {
    state::Namespaces::Namespace* one = namespaces.add_namespaces();
    one->set_name(name);
    one->set_durability(ToStored(durability));
  }
  return store_->Write(namespaces);
}

absl::StatusOr<std::shared_ptr<const StoredRegistration>> Snapshots::Store(
    const Registration& registration, absl::string_view graph_def,
    const std::vector<TensorSpec>& captures, const std::vector<Binding>& bindings) {
  const Durability durability = engine_.DurabilityOf(registration.name_space);
  if (durability == Durability::kMemory) return nullptr;
  const bool logged = durability == Durability::kSync;
  state::Registration message;
  message.set_namespace_(registration.name_space);
  message.set_name(registration.name);
  for (const TensorSpec& input : registration.inputs) {
    state::Registration::Spec* spec = message.add_inputs();
    spec->set_name(input.name);
    spec->set_dtype(static_cast<tf::DataType>(input.dtype));
    ToMessage(input.shape, spec->mutable_shape());
  }
  for (const std::string& output : registration.outputs) message.add_outputs(output);
  for (const std::string& target : registration.targets) message.add_targets(target);
  if (registration.signature) {
    ToMessage(*registration.signature, message.mutable_signature());
  }
  message.set_pretty_signature(registration.pretty_signature);
  message.set_model_version(registration.model_version);
  message.set_max_batch_rows(registration.max_batch_rows);
  std::vector<Tensor> values(2);  // The message and the graph.
  for (size_t i = 0; i < captures.size(); ++i) {
    state::Registration::Capture* capture = message.add_captures();
    capture->set_tensor(captures[i].name);
    capture->set_resource_id(bindings[i].resource_id);
    if (bindings[i].resource_id == 0) values.push_back(bindings[i].value);
  }
  values[0] = Tensor::StringScalar(message.SerializeAsString());
  values[1] = Tensor::StringScalar(std::string(graph_def));
  const uint64_t number = next_registration_.fetch_add(1, std::memory_order_relaxed);
  FORMWORK_RETURN_IF_ERROR(logged ? commits_->Admit(graph_def.size())
                                  : store_->CheckRoom(graph_def.size()));
  FORMWORK_RETURN_IF_ERROR(
      store_->Put({StoredKey::Of::kRegistration, number, 0}, values, logged).status());
  return std::make_shared<const StoredRegistration>(number, unused_);
}

}  // namespace formwork
