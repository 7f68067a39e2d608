#include "core/graph/lower_tensor_arrays.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/stop_flag.h"
#include "core/graph/input_name.h"

namespace formwork {
namespace {

// An op on tensor arrays, and the one on lists that does the same.
struct ListForm {
  absl::string_view op;
  absl::string_view list_op;
  int flow;                 // The place of the flow among its inputs.
  bool gives_flow;          // As output 0.
  std::vector<int> inputs;  // Those that the list's op takes, in its order.
  int shape;                // The place of a shape among the list's op's; -1: none.
  bool rows;                // Elements are any number of rows.
  const char* type;         // The attr that says what the elements are; null: none.
};

const std::vector<ListForm>& Forms() {
  static const std::vector<ListForm> forms = {
      {"TensorArrayConcatV3", "TensorListConcatV2", 1, false, {1}, 1, true, "dtype"},
      {"TensorArrayGatherV3", "TensorListGather", 2, false, {2, 1}, 2, false, "dtype"},
      {"TensorArrayReadV3", "TensorListGetItem", 2, false, {2, 1}, 2, false, "dtype"},
      {"TensorArrayScatterV3",
       "TensorListScatterIntoExistingList",
       3,
       true,
       {3, 2, 1},
       -1,
       false,
       "T"},
      {"TensorArraySizeV3", "TensorListLength", 1, false, {1}, -1, false, nullptr},
      {"TensorArraySplitV3", "TensorListSplit", 3, true, {1, 2}, 1, true, "T"},
      {"TensorArrayWriteV3", "TensorListSetItem", 3, true, {3, 1, 2}, -1, false, "T"},
  };
  return forms;
}

const ListForm* FindForm(absl::string_view op) {
  if (!absl::StartsWith(op, "TensorArray")) return nullptr;
  const auto found = std::find_if(Forms().begin(), Forms().end(),
                                  [&](const ListForm& form) { return form.op == op; });
  return found == Forms().end() ? nullptr : &*found;
}

// Its outputs are what its first input is.
bool GivesOn(absl::string_view op) {
  const FlowKind kind = FlowKindOf(op);
  return op == "Identity" || (kind != FlowKind::kOther && kind != FlowKind::kLoopCond);
}

int OutputOf(const InputName& name) {
  if (name.out == "flow" || name.out == "lengths" || name.out == "output_true") return 1;
  return name.index;
}

// A constant vector; of no shape: the scalar that says so.
void SetShape(const tf::TensorShapeProto* shape, bool rows, tf::NodeDef& def) {
  SetType(DType::kInt32, "dtype", def);
  tf::TensorProto& value = *(*def.mutable_attr())["value"].mutable_tensor();
  value.set_dtype(tf::DT_INT32);
  value.mutable_tensor_shape();
  if (shape == nullptr || shape->unknown_rank()) {
    value.add_int_val(-1);
    return;
  }
  for (const auto& dim : shape->dim()) {
    value.add_int_val(
        static_cast<int>(std::clamp<int64_t>(dim.size(), -1, std::numeric_limits<int>::max())));
  }
  if (rows && shape->dim_size() > 0) value.set_int_val(0, -1);
  value.mutable_tensor_shape()->add_dim()->set_size(shape->dim_size());
}

const tf::TensorShapeProto* ElementShape(const tf::NodeDef& array) {
  const auto attr = array.attr().find("element_shape");
  return attr == array.attr().end() ? nullptr : &attr->second.shape();
}

}  // namespace

LoweredTensorArrays::LoweredTensorArrays(NodeList nodes)
    : given_(std::move(nodes)), nodes_(given_) {
  if (std::none_of(given_.begin(), given_.end(),
                   [](const tf::NodeDef* def) { return def->op() == "TensorArrayV3"; })) {
    return;
  }
  const int count = static_cast<int>(given_.size());
  for (int i = 0; i < count; ++i) index_.try_emplace(given_[i]->name(), i);
  const Flows flows = FindFlows();
  for (int i = 0; i < count; ++i) {
    if (ArrayOf(i, flows) == nullptr) continue;
    lowered_.try_emplace(given_[i]->name(), given_[i]->op() == "TensorArrayConcatV3");
  }
  for (int i = 0; i < count && !WorkIsCutAt(i, kDearItems); ++i) Lower(i, flows);
}

LoweredTensorArrays::Flows LoweredTensorArrays::FindFlows() const {
  Flows flows;
  std::vector<std::pair<int, int>> pending;
  const auto flows_from = [&](int node, int output, int array) {
    if (flows.try_emplace({node, output}, array).second) pending.push_back({node, output});
  };
  HashMap<int, std::vector<std::pair<int, int>>> users;  // By node: who, and by which input.
  for (size_t i = 0; i < given_.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i), kDearItems)) return {};
    const tf::NodeDef& def = *given_[i];
    const int node = static_cast<int>(i);
    if (def.op() == "TensorArrayV3") {
      flows_from(node, 0, node);  // What gives the handle on gives the list on.
      flows_from(node, 1, node);
    }
    const ListForm* const form = FindForm(def.op());
    if (form == nullptr && !GivesOn(def.op())) continue;
    for (int k = 0; k < def.input_size(); ++k) {
      if (form != nullptr && k != form->flow) continue;
      const auto source = index_.find(ParseInput(def.input(k)).node);
      if (source != index_.end()) users[source->second].push_back({node, k});
    }
  }
  for (int64_t i = 0; !pending.empty() && !WorkIsCutAt(i, kDearItems); ++i) {
    const auto [node, output] = pending.back();
    pending.pop_back();
    const int array = flows.at({node, output});
    for (const auto& [user, k] : users[node]) {
      const tf::NodeDef& def = *given_[user];
      const InputName name = ParseInput(def.input(k));
      if (name.control || !name.valid || OutputOf(name) != output) continue;
      const bool branches = FlowKindOf(def.op()) == FlowKind::kSwitch;
      if (branches && k != 0) continue;
      const ListForm* const form = FindForm(def.op());
      flows_from(user, form == nullptr || form->gives_flow ? 0 : kTaken, array);
      for (int k = 1; branches && k < FlowOutputs(def); ++k) flows_from(user, k, array);
    }
  }
  return flows;
}

const tf::NodeDef* LoweredTensorArrays::ArrayOf(int node, const Flows& flows) const {
  const tf::NodeDef& def = *given_[node];
  if (def.op() == "TensorArrayV3" || def.op() == "TensorArrayCloseV3") return &def;
  const ListForm* const form = FindForm(def.op());
  if (form == nullptr || def.input_size() <= form->flow) return nullptr;
  const auto found = flows.find({node, form->gives_flow ? 0 : kTaken});
  return found == flows.end() ? nullptr : given_[found->second];
}

std::string LoweredTensorArrays::ValueOf(const std::string& text) const {
  const InputName name = ParseInput(text);
  const bool value = !name.control && name.valid;
  const auto found = value ? lowered_.find(name.node) : lowered_.end();
  if (found == lowered_.end()) return text;
  // Both outputs of a tensor array are the list: its ops do without its handle.
  return found->second && OutputOf(name) == 1 ? absl::StrCat(name.node, ":1")
                                              : std::string(name.node);
}

void LoweredTensorArrays::AddShape(const tf::TensorShapeProto* shape, bool rows,
                                   tf::NodeDef& made) {
  tf::NodeDef& constant = made_.emplace_back();
  constant.set_name(absl::StrCat(made.name(), "#shape"));
  constant.set_op("Const");
  SetShape(shape, rows, constant);
  nodes_.push_back(&constant);
  made.add_input(constant.name());
}

void LoweredTensorArrays::LowerArray(const tf::NodeDef& def, tf::NodeDef& made) {
  made.set_op("TensorListReserve");
  AddShape(ElementShape(def), false, made);
  if (def.input_size() > 0) made.add_input(ValueOf(def.input(0)));
  const auto dtype = def.attr().find("dtype");
  if (dtype != def.attr().end()) (*made.mutable_attr())["element_dtype"] = dtype->second;
  SetType(DType::kInt32, "shape_type", made);
}

void LoweredTensorArrays::LowerOp(const tf::NodeDef& def, const tf::NodeDef& array,
                                  tf::NodeDef& made) {
  const ListForm& form = *FindForm(def.op());
  made.set_op(std::string(form.list_op));
  for (size_t i = 0; i <= form.inputs.size(); ++i) {
    if (made.input_size() == form.shape) AddShape(ElementShape(array), form.rows, made);
    if (i < form.inputs.size()) made.add_input(ValueOf(def.input(form.inputs[i])));
  }
  auto& attrs = *made.mutable_attr();
  if (form.type != nullptr) {
    const auto type = def.attr().find(form.type);
    if (type != def.attr().end()) attrs["element_dtype"] = type->second;
  }
  if (form.rows) SetType(DType::kInt32, "shape_type", made);
  if (def.op() == "TensorArrayWriteV3") {
    const auto grows = array.attr().find("dynamic_size");
    attrs["resize_if_index_out_of_bounds"].set_b(grows != array.attr().end() && grows->second.b());
  }
  if (def.op() == "TensorArrayConcatV3") {
    tf::NodeDef& lengths = made_.emplace_back();  // Of elements that are not there: none.
    lengths.set_name(absl::StrCat(def.name(), "#lengths"));
    lengths.set_op("Const");
    SetType(DType::kInt64, "dtype", lengths);
    tf::TensorProto& value = *(*lengths.mutable_attr())["value"].mutable_tensor();
    value.set_dtype(tf::DT_INT64);
    value.mutable_tensor_shape()->add_dim()->set_size(0);
    nodes_.push_back(&lengths);
    made.add_input(lengths.name());
  }
}

void LoweredTensorArrays::Lower(int node, const Flows& flows) {
  const tf::NodeDef& def = *given_[node];
  const tf::NodeDef* const array = ArrayOf(node, flows);
  const bool gives_on = GivesOn(def.op()) && flows.contains({node, 0});
  if (array == nullptr && !gives_on &&
      std::none_of(def.input().begin(), def.input().end(), [&](const std::string& text) {
        return lowered_.contains(ParseInput(text).node);
      })) {
    return;
  }
  tf::NodeDef& made = made_.emplace_back();
  nodes_[node] = &made;
  if (array == nullptr) {
    made = def;
    for (std::string& text : *made.mutable_input()) text = ValueOf(text);
    if (gives_on) SetType(DType::kVariant, "T", made);
    return;
  }
  made.set_name(def.name());
  made.set_device(def.device());
  if (def.op() == "TensorArrayCloseV3") {
    made.set_op("NoOp");
  } else if (def.op() == "TensorArrayV3") {
    LowerArray(def, made);
  } else {
    LowerOp(def, *array, made);
  }
  for (const std::string& text : def.input()) {
    if (absl::StartsWith(text, "^")) made.add_input(text);
  }
}

}  // namespace formwork
