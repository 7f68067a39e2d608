#include "core/graph/lower_named_state.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/stop_flag.h"
#include "core/tensor/dtype.h"

namespace formwork {
namespace {

// Those of a map that is ordered do what the others do: these are ordered, too.
absl::string_view Unordered(absl::string_view op) { return absl::StripPrefix(op, "Ordered"); }

bool IsOnStagingArea(absl::string_view op) {
  constexpr absl::string_view kOps[] = {
      "MapClear",   "MapIncompleteSize", "MapPeek",         "MapSize",
      "MapStage",   "MapUnstage",        "MapUnstageNoKey", "Stage",
      "StageClear", "StagePeek",         "StageSize",       "Unstage"};
  return std::binary_search(std::begin(kOps), std::end(kOps), Unordered(op));
}

bool IsOnSparseTensors(absl::string_view op) {
  return op == "AddSparseToTensorsMap" || op == "AddManySparseToTensorsMap" ||
         op == "TakeManySparseFromTensorsMap";
}

// Of lookup tables behind references to their names, as graphs of the first releases have them:
// each has a form of the same inputs and attrs on handles.
bool IsOnTableByReference(absl::string_view op) {
  constexpr absl::string_view kOps[] = {"HashTable",
                                        "InitializeTable",
                                        "InitializeTableFromTextFile",
                                        "LookupTableExport",
                                        "LookupTableFind",
                                        "LookupTableImport",
                                        "LookupTableInsert",
                                        "LookupTableSize",
                                        "MutableHashTable",
                                        "MutableHashTableOfTensors"};
  return std::binary_search(std::begin(kOps), std::end(kOps), op);
}

void CopyAttr(const tf::NodeDef& from, const char* name, tf::NodeDef& to, const char* as) {
  const auto attr = from.attr().find(name);
  if (attr != from.attr().end()) (*to.mutable_attr())[as] = attr->second;
}

}  // namespace

LoweredNamedState::LoweredNamedState(const NodeDefs& defs, const HashSet<std::string>& fed)
    : given_(defs) {
  const auto is_lowered = [&fed](const tf::NodeDef& def) {
    return (IsOnStagingArea(def.op()) || IsOnSparseTensors(def.op()) ||
            IsOnTableByReference(def.op())) &&
           !fed.contains(def.name());
  };
  if (std::none_of(defs.begin(), defs.end(), is_lowered)) return;
  for (int i = 0; i < defs.size() && !WorkIsCutAt(i, kDearItems); ++i) {
    if (is_lowered(defs.Get(i))) {
      Lower(defs.Get(i));
    } else {
      *lowered_.Add() = defs.Get(i);
    }
  }
}

tf::NodeDef& LoweredNamedState::Add(const tf::NodeDef& def, const char* part, const char* op) {
  tf::NodeDef& added = *lowered_.Add();
  added.set_name(absl::StrCat(def.name(), part));
  added.set_op(op);
  added.set_device(def.device());
  return added;
}

void LoweredNamedState::Lower(const tf::NodeDef& def) {
  if (IsOnTableByReference(def.op())) {
    tf::NodeDef& made = *lowered_.Add();
    made = def;
    made.set_op(absl::StrCat(def.op(), "V2"));
    return;
  }
  const bool sparse = IsOnSparseTensors(def.op());
  const absl::string_view op = Unordered(def.op());
  tf::NodeDef& state = Add(def, "#state",
                           sparse                        ? "_TensorsMap"
                           : absl::StartsWith(op, "Map") ? "_StagingMap"
                                                         : "_StagingArea");
  CopyAttr(def, "container", state, "container");
  CopyAttr(def, "shared_name", state, "shared_name");
  std::string& name = *(*state.mutable_attr())["shared_name"].mutable_s();
  if (name.empty()) name = def.name();
  const std::string handle = state.name();
  // What is done to the state, with the op's inputs behind the handle; it waits for what the op
  // waits for.
  const auto put_inputs = [&](tf::NodeDef& on_state) {
    on_state.add_input(handle);
    for (const std::string& input : def.input()) on_state.add_input(input);
  };
  if (!sparse) {
    tf::NodeDef& made = *lowered_.Add();
    made = def;
    made.set_op(absl::StrCat("_", op));
    made.clear_input();
    put_inputs(made);
    made.mutable_attr()->erase("container");
    made.mutable_attr()->erase("shared_name");
  } else if (op == "TakeManySparseFromTensorsMap") {
    tf::NodeDef& taken = Add(def, "#taken", "_TakeFromTensorsMap");
    put_inputs(taken);
    const std::string rows = taken.name();
    tf::NodeDef& made = Add(def, "", "DeserializeSparse");
    made.add_input(rows);
    CopyAttr(def, "dtype", made, "dtype");
    (*made.mutable_attr())["Tserialized"].set_type(tf::DT_VARIANT);
  } else {
    const bool many = op == "AddManySparseToTensorsMap";
    tf::NodeDef& serialized =
        Add(def, "#serialized", many ? "SerializeManySparse" : "SerializeSparse");
    const std::string rows = serialized.name();
    for (const std::string& input : def.input()) {
      if (!absl::StartsWith(input, "^")) serialized.add_input(input);
    }
    CopyAttr(def, "T", serialized, "T");
    (*serialized.mutable_attr())["out_type"].set_type(tf::DT_VARIANT);
    tf::NodeDef& made = Add(def, "", many ? "_AddManyToTensorsMap" : "_AddToTensorsMap");
    made.add_input(handle);
    made.add_input(rows);
    for (const std::string& input : def.input()) {
      if (absl::StartsWith(input, "^")) made.add_input(input);
    }
  }
}

}  // namespace formwork
