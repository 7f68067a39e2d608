// Starts an engine on a data directory whose records are edited, below the database's checksums:
// it starts, or says what is damaged, and what it has then can be read.

#include <google/protobuf/stubs/logging.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>

#include "absl/synchronization/notification.h"
#include "core/base/status.h"
#include "core/engine.h"
#include "formwork/state/snapshot.pb.h"
#include "rocksdb/db.h"
#include "tests/fuzz/edits.h"
#include "tests/support/graph_text.h"
#include "tests/support/temp_folder.h"

namespace formwork {
namespace {

namespace fs = std::filesystem;
using Records = std::map<std::string, std::string>;

EngineOptions Options(const std::string& folder, Durability durability = Durability::kSync) {
  EngineOptions options;
  options.data_dir = folder;
  options.durability = durability;
  options.call_threads = 1;
  options.memory_limit_bytes = size_t{1} << 30;
  return options;
}

template <typename Result, typename Begin>
Result Await(Begin begin) {
  absl::Notification done;
  Result result;
  const std::shared_ptr<CallHandle> handle = begin([&](Result made) {
    result = std::move(made);
    done.Notify();
  });
  handle->Start();
  done.WaitForNotification();
  return result;
}

void Check(const absl::Status& status) {
  if (!status.ok()) {
    fprintf(stderr, "%s\n", status.ToString().c_str());
    std::abort();
  }
}

// What of everything that is stored there is one.
Records MadeWell(const std::string& folder) {
  {
    auto engine = Engine::Create(Options(folder));
    Check(engine.status());
    Tensor zeros = *Tensor::Allocate((*engine)->allocator(), DType::kFloat, Shape({2}));
    std::memset(zeros.mutable_raw(), 0, zeros.bytes());
    Check((*engine)->CreateVariable("ns", "v", DType::kFloat, Shape({2}), zeros).status());
    const auto graph = testing::ParseGraph(R"(
      v = Placeholder dtype=resource
      x = Placeholder dtype=float
      shape = Const int32[1] 2
      r = RandomUniform(shape) T=int32 dtype=float
      d = AddV2(r, x) T=float
      a = AssignAddVariableOp(v, d) dtype=float
      t = MutableHashTableV2 shared_name="t" key_dtype=string value_dtype=float
      k = Const string[] "key"
      b = LookupTableInsertV2(t, k, x, ^a) Tin=string Tout=float
      y = ReadVariableOp(v, ^a) dtype=float
    )");
    Check(graph.status());
    Registration registration;
    registration.name_space = "ns";
    registration.name = "f";
    registration.graph_def = graph->SerializeAsString();
    registration.inputs = {{"x:0", DType::kFloat, PartialShape()}};
    registration.outputs = {"y:0"};
    registration.targets = {"a", "b"};
    Argument v;
    v.kind = Argument::Kind::kResource;
    v.id = (*engine)->ListResources("ns")[0].id;
    registration.captures.emplace_back("v:0", v);
    const auto registered = Await<RegisterResult>(
        [&](auto done) { return (*engine)->Register(std::move(registration), std::move(done)); });
    Check(registered.status);
    const auto call = [&](uint64_t sequence) {
      CallSpec spec;
      spec.name_space = "ns";
      spec.function.id = registered.registered.function.id;
      spec.inputs.resize(1);
      spec.inputs[0].tensor = Tensor::Scalar(1.0f);
      spec.request = {"client", sequence, 0, absl::ZeroDuration()};
      Check(Await<CallResult>([&](auto done) {
              return (*engine)->Call(std::move(spec), std::move(done));
            }).status);
    };
    call(1);
    absl::Notification taken;
    (*engine)->TakeSnapshot([&](const absl::StatusOr<SnapshotInfo>& made) {
      Check(made.status());
      taken.Notify();
    });
    taken.WaitForNotification();
    call(2);
  }
  rocksdb::DB* opened = nullptr;
  if (!rocksdb::DB::OpenForReadOnly({}, folder, &opened).ok()) std::abort();
  const std::unique_ptr<rocksdb::DB> db(opened);
  Records records;
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    records[at->key().ToString()] = at->value().ToString();
  }
  return records;
}

struct World {
  World() {
    google::protobuf::SetLogHandler(nullptr);
    records = MadeWell(folder + "/base");
  }
  const testing::TempFolder made;
  const std::string folder = made.path();
  Records records;
};

// A message where one is stored: what is merely flipped is seldom one.
void EditMessages(FuzzBytes& bytes, Records& records) {
  if (records.empty()) return;
  const auto chosen = std::next(records.begin(), bytes.Byte() % int64_t(records.size()));
  const std::string& key = chosen->first;
  std::string& value = chosen->second;
  if (key == "life") {
    EditMessage<state::Life>(bytes, value);
  } else if (key == "snapshot") {
    EditMessage<state::Snapshot>(bytes, value);
  } else if (key[0] == 'h') {
    EditMessage<state::StoredValue>(bytes, value);
  } else if (key.substr(0, 2) == "pf" || key.substr(0, 2) == "pA") {
    // The value is strings, of which the first is a message.
    uint64_t size = 0;
    if (value.size() < sizeof(size)) return;
    std::memcpy(&size, value.data(), sizeof(size));
    if (size > value.size() - sizeof(size)) return;
    std::string message = value.substr(sizeof(size), size);
    if (key[1] == 'f') {
      EditMessage<state::Registration>(bytes, message);
    } else {
      EditMessage<state::Answer>(bytes, message);
    }
    const uint64_t now = message.size();
    value.replace(0, sizeof(size) + size,
                  std::string(reinterpret_cast<const char*>(&now), sizeof(now)) + message);
  }
}

void Run(const uint8_t* data, size_t size) {
  static World* const world = new World;
  FuzzBytes bytes(data, size);
  Records records = world->records;
  const bool logs = bytes.Byte() % 2 == 0;
  while (!bytes.empty())
    bytes.Byte() % 4 == 0 ? Edit(bytes, records) : EditMessages(bytes, records);
  const std::string folder = world->folder + "/edited";
  fs::remove_all(folder);
  {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* opened = nullptr;
    if (!rocksdb::DB::Open(options, folder, &opened).ok()) std::abort();
    const std::unique_ptr<rocksdb::DB> db(opened);
    for (const auto& [key, value] : records) {
      if (!db->Put({}, key, value).ok()) std::abort();
    }
  }
  const auto engine =
      Engine::Create(Options(folder, logs ? Durability::kSync : Durability::kSnapshot));
  if (!engine.ok()) return;
  for (const char* name_space : {"ns", "default"}) {
    std::vector<Target> variables;
    for (const ResourceInfo& resource : (*engine)->ListResources(name_space)) {
      if (resource.type.is_variable()) variables.push_back({resource.id, ""});
    }
    for (const Target& variable : variables) {
      Await<ReadResult>([&](auto done) {
        return (*engine)->ReadVariables({name_space, {variable}, absl::InfiniteFuture()},
                                        std::move(done));
      });
    }
    for (const FunctionInfo& function : (*engine)->ListFunctions(name_space, true)) {
      CallSpec spec;
      spec.name_space = name_space;
      spec.function.id = function.id;
      spec.inputs.resize(1);
      spec.inputs[0].tensor = Tensor::Scalar(1.0f);
      spec.request = {"client", 2, 0, absl::ZeroDuration()};
      Await<CallResult>(
          [&](auto done) { return (*engine)->Call(std::move(spec), std::move(done)); });
    }
  }
}

}  // namespace
}  // namespace formwork

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  formwork::Run(data, size);
  return 0;
}
