#include "tests/fuzz/op_calls.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/kernels/data/dataset.h"
#include "core/ops/accumulator.h"
#include "core/ops/barrier.h"
#include "core/ops/data.h"
#include "core/ops/default_attrs.h"
#include "core/ops/mutex.h"
#include "core/ops/queue.h"
#include "core/ops/stack.h"
#include "core/ops/staging.h"
#include "core/ops/table.h"

namespace formwork {
namespace {

using testing::OpCase;
using testing::ValueText;

constexpr int kMostDepth = 3;  // Of calls that make what calls are given.

// The args' names, as ArgDTypes lays them out.
std::vector<std::string> ArgNames(const std::vector<ArgDef>& args, const AttrMap& attrs) {
  std::vector<std::string> names;
  for (const ArgDef& arg : args) {
    size_t count = 1;
    if (!arg.number_attr.empty()) {
      count = static_cast<size_t>(attrs.GetOr<int64_t>(arg.number_attr, 0));
    } else if (const AttrValue* types = attrs.Find(arg.type_attr)) {
      if (const auto* list = std::get_if<std::vector<DType>>(types)) count = list->size();
    }
    names.insert(names.end(), count, arg.name);
  }
  return names;
}

bool HasInputOfVariant(const OpDef& op) {
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [](const ArgDef& arg) { return arg.type == DType::kVariant; });
}

bool IsFileName(absl::string_view arg) {
  return absl::StrContains(arg, "filename") || absl::StrContains(arg, "prefix") || arg == "path" ||
         arg == "pattern" || arg == "basename";
}

// Args of ops without cases that are to be vectors.
bool IsVector(absl::string_view arg) {
  for (absl::string_view vector :
       {"splits", "padded_shapes", "row_shape", "batch_sizes", "_cols", "byte_offsets",
        "optimizations", "tensor_names", "shape_and_slices", "checkpoint_prefixes", "axes",
        "fft_length"}) {
    if (absl::StrContains(arg, vector)) return true;
  }
  return false;
}

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", text, "\""); }

void SetTypes(AttrMap& attrs, const OpDef& op, const char* attr, std::vector<DType> types) {
  if (op.FindAttr(attr) != nullptr && !types.empty()) attrs.Set(attr, std::move(types));
}

std::vector<DType> TypesOf(const AttrMap& attrs, absl::string_view attr) {
  return attrs.GetOr<std::vector<DType>>(attr, {});
}

// What a table of such a call has for keys, or for values.
DType DTypeAttr(const AttrMap& attrs, std::initializer_list<const char*> names, DType otherwise) {
  for (const char* name : names) {
    const AttrValue* const value = attrs.Find(name);
    if (value != nullptr && std::holds_alternative<DType>(*value)) return std::get<DType>(*value);
  }
  return otherwise;
}

}  // namespace

bool CallDrawer::Draw(FuzzedOp& fuzzed, int depth, Call& call) {
  call.of = &fuzzed;
  ++fuzzed.drawn;
  const OpCase* op_case = nullptr;
  // Mostly near what is right, for little else gets past the checks of shapes.
  if (!fuzzed.cases.empty() && bytes_.Byte() % 8 != 0) {
    op_case = &fuzzed.cases[bytes_.Number() % fuzzed.cases.size()];
    const absl::StatusOr<AttrMap> attrs = testing::TypedAttrs(*op_case, call.op());
    if (!attrs.ok()) return false;
    call.attrs = *attrs;
  }
  DrawAttrs(bytes_, call.op(), op_case == nullptr, call.attrs);
  std::optional<Tensor> dataset;
  if (op_case == nullptr && surroundings_.world.FamilyOf(call.op()).name == "data") {
    if (HasInputOfVariant(call.op())) dataset = MakeVariant(call, depth);
    if (bytes_.Byte() % 16 != 0) FitToDataset(dataset.value_or(Tensor()), call);
  }
  if (call.op().control_flow != ControlFlow::kNone) call.odd_functions = bytes_.Byte() % 16 == 0;
  if (call.op().name == "RestoreV2") {
    if (bytes_.Byte() % 4 != 0) call.attrs.Set("dtypes", std::vector<DType>{DType::kFloat});
    AttrMap attrs;
    attrs.Set("dtypes", std::vector<DType>{DType::kFloat});
    Run("SaveV2",
        {Tensor::StringScalar("saved"), Tensor::StringScalar("a").Reshaped({1}),
         Tensor::StringScalar("").Reshaped({1}), Tensor::Scalar(1.5f)},
        std::move(attrs));
  }
  if (!DrawDTypes(op_case, call)) return false;
  ranks_ = bytes_.Byte();
  usual_ = DrawShape(bytes_);
  std::vector<std::string> names = ArgNames(call.op().inputs, call.attrs);
  if (names.size() != call.inputs.size()) names.insert(names.begin(), "");  // A handle.
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (dataset && call.inputs[i] == DType::kVariant && bytes_.Byte() % 16 != 0) {
      call.values.push_back(*dataset);
      call.shapes.push_back(Shape());
      continue;
    }
    const bool known = op_case != nullptr && i < op_case->inputs.size();
    if (!DrawInput(i, names[i], known ? &op_case->inputs[i] : nullptr, depth, call)) return false;
  }
  return true;
}

bool CallDrawer::DrawDTypes(const OpCase* op_case, Call& call) {
  // What the kernel begins has its handle as the first input, and no output.
  const bool begins = call.op().handle_of != nullptr;
  const auto inputs = testing::ArgDTypes(call.op().inputs, call.attrs);
  const auto outputs = testing::ArgDTypes(call.op().outputs, call.attrs);
  if (!inputs.ok() || !outputs.ok()) return false;
  call.inputs = *inputs;
  if (begins) call.inputs.insert(call.inputs.begin(), DType::kResource);
  if (!begins) call.outputs = *outputs;
  return op_case == nullptr || !begins;
}

bool CallDrawer::DrawInput(size_t i, const std::string& name, const ValueText* text, int depth,
                           Call& call) {
  const DType dtype = call.inputs[i];
  const uint8_t what = bytes_.Byte();
  if (text != nullptr && text->dtype == dtype && what % 4 != 0) {
    if (!Add(*text, call)) return false;
    if (what % 4 == 1 && IsPlainData(dtype)) EditElements(bytes_, call.values.back());
    return true;
  }
  if (dtype == DType::kVariant && what % 16 != 0) {
    if (std::optional<Tensor> made = MakeVariant(call, depth)) {
      call.shapes.push_back(made->shape());
      call.values.push_back(*std::move(made));
      return true;
    }
  }
  const bool begins = i == 0 && call.op().handle_of != nullptr;
  if (dtype == DType::kResource && (begins || what % 4 != 1)) {
    Tensor handle;
    PartialShape shape;
    if (AddResource(call, shape, handle)) {
      call.shapes.push_back(shape);
      call.values.push_back(handle);
      return true;
    }
    if (begins) return false;
  }
  if (!Add(DrawText(dtype, name, text), call)) return false;
  if (!IsPlainData(dtype)) return true;
  Tensor& value = call.values.back();
  EditElements(bytes_, value);
  // Offsets mostly ascend from 0.
  if (absl::StrContains(name, "splits") && what % 8 != 2 && value.num_elements() > 0) {
    if (dtype == DType::kInt64) {
      std::sort(value.mutable_data<int64_t>(),
                value.mutable_data<int64_t>() + value.num_elements());
      *value.mutable_data<int64_t>() = 0;
    } else if (dtype == DType::kInt32) {
      std::sort(value.mutable_data<int32_t>(),
                value.mutable_data<int32_t>() + value.num_elements());
      *value.mutable_data<int32_t>() = 0;
    }
  }
  return true;
}

ValueText CallDrawer::DrawText(DType dtype, const std::string& name, const ValueText* text) {
  const uint8_t what = bytes_.Byte();
  Shape shape = usual_;
  if (text != nullptr) {
    shape = what % 8 != 0 ? EditedShape(bytes_, text->shape) : DrawShape(bytes_);
  } else if (IsVector(name) && what % 8 != 7) {
    shape = Shape({what % 3});
  } else if (ranks_ % 4 == 0) {
    shape = DrawShape(bytes_);
  } else if (ranks_ % 4 != 3) {
    shape = what % 8 != 0 ? Shape() : DrawShape(bytes_);
  }
  if (dtype != DType::kString || what % 16 == 0) return DrawValue(bytes_, dtype, shape);
  static const std::vector<std::string>* const files =
      new std::vector<std::string>(FuzzFileNames());
  ValueText value;
  value.dtype = dtype;
  value.shape = shape;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    if (IsFileName(name)) {
      value.tokens.push_back(Quoted((*files)[bytes_.Byte() % files->size()]));
    } else if (name == "tensor_names") {
      value.tokens.push_back(Quoted(bytes_.Byte() % 8 == 0 ? "b" : "a"));
    } else if (name == "compression_type" || name == "shape_and_slices") {
      value.tokens.push_back(Quoted(bytes_.Byte() % 8 == 0 ? "GZIP" : ""));
    } else {
      return DrawValue(bytes_, dtype, shape);
    }
  }
  return value;
}

std::optional<Tensor> CallDrawer::MakeVariant(const Call& call, int depth) {
  const FuzzedFamily& family = surroundings_.world.FamilyOf(call.op());
  const auto& makers =
      depth + 1 < kMostDepth && bytes_.Byte() % 2 == 0 ? family.makers : family.sources;
  if (makers.empty() || depth >= kMostDepth) return std::nullopt;
  Call maker;
  FuzzedOp& of = *makers[bytes_.Byte() % makers.size()];
  const auto before = std::make_pair(ranks_, usual_);
  const bool drawn = Draw(of, depth + 1, maker);
  std::tie(ranks_, usual_) = before;
  if (!drawn) return std::nullopt;
  std::vector<Tensor> outputs(maker.outputs.size());
  if (!RunKernel(maker, surroundings_, /*owned=*/false, outputs).ok()) return std::nullopt;
  ++of.done;
  for (Tensor& output : outputs) {
    if (output.has_value() && output.dtype() == DType::kVariant) return std::move(output);
  }
  return std::nullopt;
}

bool CallDrawer::AddResource(const Call& call, PartialShape& shape, Tensor& handle) {
  const FuzzedFamily& family = surroundings_.world.FamilyOf(call.op());
  std::optional<ResourceType> type;
  if (call.op().handle_of != nullptr) {
    const absl::StatusOr<ResourceType> begun = call.op().handle_of(call.attrs);
    if (!begun.ok()) return false;
    type = *begun;
  } else if (family.name == "data") {
    const std::vector<DType> types = TypesOf(call.attrs, "output_types");
    type = ResourceType{&kIteratorKind, {}};
    for (DType dtype : types) type->parts.push_back({dtype, PartialShape()});
    if (types.empty()) type->parts.push_back({DType::kInt64, PartialShape()});
  } else if (family.name == "mutex") {
    type = ResourceType{&kMutexKind, {{DType::kBool, Shape()}}};
  } else if (family.name == "accumulator") {
    const DType dtype = DTypeAttr(call.attrs, {"dtype"}, DType::kFloat);
    const bool mean = bytes_.Byte() % 2 == 0;
    type = ResourceType{mean ? &kMeanAccumulatorKind : &kSumAccumulatorKind,
                        {{dtype, PartialShape()}}};
  } else if (family.name == "barrier") {
    type = ResourceType{&kBarrierKind, {}};
    for (DType dtype : TypesOf(call.attrs, "component_types")) {
      type->parts.push_back({dtype, Shape()});
    }
    if (type->parts.empty()) {
      type->parts.push_back({DTypeAttr(call.attrs, {"T"}, DType::kFloat), Shape()});
    }
  } else if (family.name == "stack") {
    type = ResourceType{
        &kStackKind, {{DTypeAttr(call.attrs, {"T", "elem_type"}, DType::kFloat), PartialShape()}}};
  } else if (family.name == "staging") {
    const ResourceKind& kind = absl::StrContains(call.op().name, "Tensors") ? kTensorsMapKind
                               : absl::StartsWith(call.op().name, "_Map")   ? kStagingMapKind
                                                                            : kStagingAreaKind;
    type = ResourceType{&kind, {{DType::kVariant, PartialShape()}}};
  } else if (family.name == "queue") {
    const ResourceKind* const kinds[] = {&kFifoQueueKind, &kPaddingFifoQueueKind,
                                         &kPriorityQueueKind, &kRandomShuffleQueueKind};
    type = ResourceType{kinds[bytes_.Byte() % 4], {}};
    for (absl::string_view attr : {"Tcomponents", "component_types"}) {
      for (DType dtype : TypesOf(call.attrs, attr)) type->parts.push_back({dtype, Shape()});
    }
    if (type->parts.empty()) type->parts.push_back({DType::kInt64, Shape()});
  } else if (family.name == "table") {
    const DType key = DTypeAttr(call.attrs, {"Tin", "Tkeys", "Tkey", "key_dtype"}, DType::kString);
    const DType value =
        DTypeAttr(call.attrs, {"Tout", "Tvalues", "Tval", "value_dtype"}, DType::kInt64);
    const char* const kTables[] = {"MutableHashTableV2", "HashTableV2", "MutableDenseHashTableV2"};
    // As an op declares it, which refuses some dtypes.
    const OpDef& table = *surroundings_.world.ops.Find(kTables[bytes_.Byte() % 3]);
    AttrMap attrs = DefaultAttrs(table);
    attrs.Set("key_dtype", key);
    attrs.Set("value_dtype", value);
    const absl::StatusOr<ResourceType> declared = table.handle_of(attrs);
    if (declared.ok()) type = *declared;
  }
  if (!type) return false;
  absl::StatusOr<Tensor> added = surroundings_.resources.Add(*type);
  if (!added.ok()) return false;
  handle = *std::move(added);
  shape = PartialShape();
  if (call.op().handle_of == nullptr && bytes_.Byte() % 8 != 0) Begin(*type, handle, call);
  return true;
}

// Gives it a value, where that is no call of its own kind.
void CallDrawer::Begin(const ResourceType& type, const Tensor& handle, const Call& call) {
  auto values = [&](DType dtype, const Shape& shape) {
    Tensor made = *testing::MakeValue(DrawValue(bytes_, dtype, shape), ProcessAllocator());
    if (IsPlainData(dtype)) EditElements(bytes_, made);
    return made;
  };
  if (type.kind == &kIteratorKind) {
    std::optional<Tensor> dataset = MakeVariant(call, /*depth=*/1);
    if (dataset) Run("MakeIterator", {*std::move(dataset), handle});
    return;
  }
  if (IsAccumulator(type)) {
    AttrMap attrs;
    attrs.Set("dtype", type.parts[0].dtype);
    Run("ResourceAccumulatorApplyGradient",
        {handle, Tensor::Scalar(int64_t{0}), values(type.parts[0].dtype, {2})}, attrs);
    return;
  }
  if (type.kind == &kTensorsMapKind) {
    absl::StatusOr<Tensor> rows =
        Tensor::Allocate(ProcessAllocator(), DType::kVariant, Shape({4, 3}));
    if (rows.ok()) Run("_AddToTensorsMap", {handle, *std::move(rows)});
    return;
  }
  if (type.kind == &kStagingAreaKind || type.kind == &kStagingMapKind) {
    const std::vector<DType> dtypes = TypesOf(call.attrs, "dtypes");
    Tensor indices = *Tensor::Allocate(ProcessAllocator(), DType::kInt32,
                                       Shape({static_cast<int64_t>(dtypes.size())}));
    std::iota(indices.mutable_data<int32_t>(),
              indices.mutable_data<int32_t>() + indices.num_elements(), 0);
    AttrMap attrs;
    attrs.Set("dtypes", dtypes);
    attrs.Set("fake_dtypes", dtypes);
    for (int64_t key = 0; key < 4; ++key) {
      std::vector<Tensor> tuple = {handle};
      if (type.kind == &kStagingMapKind) {
        tuple.push_back(Tensor::Scalar(key));
        tuple.push_back(indices);
      }
      for (DType dtype : dtypes) tuple.push_back(values(dtype, {2}));
      Run(type.kind == &kStagingMapKind ? "_MapStage" : "_Stage", std::move(tuple), attrs);
    }
    return;
  }
  if (type.kind == &kBarrierKind) {
    AttrMap attrs;
    Run("Barrier", {handle}, attrs);
    const Tensor keys = values(DType::kString, {1});
    for (size_t c = 0; c < type.parts.size(); ++c) {
      attrs.Set("component_index", static_cast<int64_t>(c));
      Run("BarrierInsertMany", {handle, keys, values(type.parts[c].dtype, {1})}, attrs);
    }
    return;
  }
  if (type.kind == &kStackKind) {
    const DType dtype = type.parts[0].dtype;
    AttrMap attrs;
    Run("StackV2", {handle, Tensor::Scalar<int32_t>(4)}, attrs);
    attrs.Set("T", dtype);
    for (int i = 0; i < 3; ++i) Run("StackPushV2", {handle, values(dtype, {2})}, attrs);
    return;
  }
  if (IsQueue(type)) {
    AttrMap attrs;
    std::vector<DType> dtypes;
    std::vector<Tensor> added = {handle};
    for (const ResourceType::Part& part : type.parts) {
      dtypes.push_back(part.dtype);
      added.push_back(values(part.dtype, {4}));
    }
    attrs.Set("component_types", dtypes);
    attrs.Set("shapes", std::vector<PartialShape>(dtypes.size(), PartialShape(Shape())));
    Run(absl::StrCat(type.kind->name, "V2"), {handle}, attrs);
    AttrMap of_elements;
    of_elements.Set("Tcomponents", dtypes);
    Run("QueueEnqueueManyV2", std::move(added), of_elements);
    return;
  }
  if (type.parts.size() != 2) return;
  const DType key = type.parts[0].dtype, value = type.parts[1].dtype;
  if (type.kind == &kDenseTableKind) {
    Run("MutableDenseHashTableV2", {handle, values(key, {}), values(key, {})});
  }
  Run(type.kind == &kStaticTableKind ? "InitializeTableV2" : "LookupTableInsertV2",
      {handle, values(key, {3}), values(value, {3})});
}

void CallDrawer::Run(absl::string_view op, std::vector<Tensor> inputs, AttrMap attrs) {
  for (FuzzedOp* known : surroundings_.world.All()) {
    if (known->op->name != op) continue;
    Call call;
    call.of = known;
    call.attrs = std::move(attrs);
    for (const AttrDef& attr : known->op->attrs) {
      if (attr.default_value) call.attrs.Set(attr.name, *attr.default_value);
    }
    for (Tensor& input : inputs) {
      call.inputs.push_back(input.dtype());
      call.values.push_back(std::move(input));
    }
    std::vector<Tensor> outputs(known->op->outputs.size());
    ++known->drawn;
    known->done += RunKernel(call, surroundings_, /*owned=*/false, outputs).ok();
  }
}

void CallDrawer::FitToDataset(const Tensor& value, Call& call) {
  const OpDef& op = call.op();
  AttrMap& attrs = call.attrs;
  // Most functions have captured nothing.
  for (const AttrDef& attr : op.attrs) {
    if (attr.kind == AttrKind::kType && attr.is_list && absl::StrContains(attr.name, "arg") &&
        bytes_.Byte() % 8 != 0) {
      attrs.Set(attr.name, std::vector<DType>());
    }
  }
  std::vector<DType> types = {DType::kInt64};  // Of sources that have numbers.
  const absl::StatusOr<DatasetPtr> dataset = DatasetFromTensor(value);
  if (dataset.ok() && HasInputOfVariant(op)) types = (*dataset)->spec.dtypes;
  if (absl::StrContains(op.name, "FlatMap") || absl::StrContains(op.name, "Interleave") ||
      absl::StartsWith(op.name, "Generator")) {
    types = {DType::kInt64};
  }
  if (op.name == "ReduceDataset") types = TypesOf(attrs, "Tstate");
  if (op.name == "ZipDataset") {
    const std::vector<DType> one = types;
    for (int64_t i = 1; i < attrs.GetOr<int64_t>("N", 1); ++i) {
      types.insert(types.end(), one.begin(), one.end());
    }
  }
  SetTypes(attrs, op, "output_types", types);
  if (HasInputOfVariant(op)) SetTypes(attrs, op, "Toutput_types", types);
  if (op.name == "PaddedBatchDatasetV2") attrs.Set("N", static_cast<int64_t>(types.size()));
  std::vector<DType> elements = TypesOf(attrs, "output_types");
  if (elements.empty()) elements = TypesOf(attrs, "Toutput_types");
  if (op.FindAttr("output_shapes") != nullptr) {
    attrs.Set("output_shapes", std::vector<PartialShape>(elements.size()));
  }
}

bool CallDrawer::Add(const ValueText& text, Call& call) {
  absl::StatusOr<Tensor> value = text.dtype == DType::kResource
                                     ? surroundings_.resources.Add(text)
                                     : testing::MakeValue(text, surroundings_.world.allocator);
  if (!value.ok()) return false;
  PartialShape shape = text.shape;
  if (text.dtype == DType::kResource) {
    const auto resource = testing::ParseResource(text);
    shape = resource.ok() && resource->type.is_variable() ? resource->type.parts[0].shape
                                                          : PartialShape();
  }
  call.values.push_back(*std::move(value));
  call.shapes.push_back(std::move(shape));
  return true;
}

}  // namespace formwork
