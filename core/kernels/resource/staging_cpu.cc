// Ops on staging areas: tuples that calls hand to each other, in order or by key. Errors are
// TensorFlow's, in its words (core/kernels/stage_op.cc and map_stage_op.cc there).

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/state_wait.h"
#include "core/ops/staging.h"

namespace formwork {
namespace {

using Tuple = std::vector<Tensor>;  // Without value where there is none.

size_t BytesOf(const Tuple& tuple) {
  size_t bytes = 0;
  for (const Tensor& tensor : tuple) bytes += tensor.has_value() ? tensor.bytes() : 0;
  return bytes;
}

// Never changed once it is written.
struct Staging : VariantObject {
  absl::string_view type_name() const override { return "staging area"; }

  std::map<int64_t, Tuple> tuples;      // By key, or, of an area, by the order in which they came.
  std::map<int64_t, Tuple> incomplete;  // Of a map: those that have not all of their tensors.
  int64_t next = 0;                     // Of an area: the next one's number.
  size_t bytes = 0;                     // In the tensors.
};

// Of one that nobody has used it has no value.
const Staging* Find(const Tensor& state) {
  return state.has_value() ? static_cast<const Staging*>(state.scalar<Variant>().get()) : nullptr;
}

Staging CopyOf(const Tensor& state) {
  const Staging* const staging = Find(state);
  return staging == nullptr ? Staging() : *staging;
}

absl::StatusOr<OpenState> Open(KernelContext& ctx) {
  const auto is = [](const ResourceType& type) {
    return type.kind == &kStagingAreaKind || type.kind == &kStagingMapKind;
  };
  return OpenStateOf(ctx, is, "a staging area");
}

absl::Status Write(KernelContext& ctx, ResourceHandle handle, Staging staging) {
  constexpr size_t kBytesOfTuple = 128;
  const size_t tuples = staging.tuples.size() + staging.incomplete.size();
  const size_t bytes = sizeof(Staging) + tuples * kBytesOfTuple + staging.bytes;
  auto state = std::make_shared<Staging>(std::move(staging));
  return ctx.resources().WriteState(handle, Tensor::VariantScalar(std::move(state)), bytes);
}

struct Limits {
  int64_t capacity = 0, bytes = 0;  // 0: none.

  static Limits Of(const AttrMap& attrs) {
    return {attrs.GetOr<int64_t>("capacity", 0), attrs.GetOr<int64_t>("memory_limit", 0)};
  }
  bool HasRoom(const Tensor& state, size_t more) const {
    const Staging* const staging = Find(state);
    if (staging == nullptr) return true;
    return (capacity == 0 || static_cast<int64_t>(staging->tuples.size()) < capacity) &&
           (bytes == 0 || staging->bytes + more <= static_cast<size_t>(bytes));
  }
  absl::Status Check(size_t tuple) const {
    if (bytes == 0 || tuple <= static_cast<size_t>(bytes)) return absl::OkStatus();
    return ResourceExhausted("Attempted to insert tensors with combined size of '", tuple,
                             "' bytes into Staging Area with a memory limit of '", bytes, "'.");
  }
};

absl::Status AwaitRoom(KernelContext& ctx, const OpenState& opened, const Limits& limits,
                       size_t more) {
  return AwaitState(ctx, opened.handle, "room in a staging area",
                    [=](const Tensor& state) { return limits.HasRoom(state, more); });
}

// The tensors as outputs from `first` on, of the dtypes that these have.
absl::Status SetOutputs(KernelContext& ctx, int first, const std::vector<DType>& dtypes,
                        std::vector<Tensor> tensors) {
  if (tensors.size() != dtypes.size()) {
    return InvalidArgument("Mismatch stage/unstage: ", tensors.size(), " vs. ", dtypes.size());
  }
  for (size_t i = 0; i < dtypes.size(); ++i) {
    if (tensors[i].dtype() == dtypes[i]) continue;
    return InvalidArgument("the tensor at ", i, " is of dtype ", DTypeName(tensors[i].dtype()),
                           ", not ", DTypeName(dtypes[i]));
  }
  for (size_t i = 0; i < dtypes.size(); ++i) {
    ctx.SetOutput(first + static_cast<int>(i), std::move(tensors[i]));
  }
  return absl::OkStatus();
}

std::vector<DType> DTypesOf(const KernelInit& init) {
  return init.attrs().GetOr<std::vector<DType>>("dtypes", {});
}

// A handle is its call's own: what it names may be gone when another call takes it.
absl::Status RefuseHandles(const KernelInit& init) {
  const auto is_handle = [](DType dtype) { return dtype == DType::kResource; };
  const absl::Span<const DType> values = init.input_dtypes().subspan(1);  // After the area's own.
  if (std::none_of(values.begin(), values.end(), is_handle) &&
      std::none_of(init.output_dtypes().begin(), init.output_dtypes().end(), is_handle)) {
    return absl::OkStatus();
  }
  return Unimplemented("a staging area of values of dtype resource");
}

// --- In order -----------------------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeStage(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(RefuseHandles(init));
  return KernelFn([limits = Limits::Of(init.attrs())](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(ComeBack(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const OpenState opened, Open(ctx));
    Tuple tuple;
    for (int i = 1; i < ctx.num_inputs(); ++i) tuple.push_back(ctx.input(i));
    const size_t bytes = BytesOf(tuple);
    FORMWORK_RETURN_IF_ERROR(limits.Check(bytes));
    if (!limits.HasRoom(opened.state, bytes)) return AwaitRoom(ctx, opened, limits, bytes);
    Staging changed = CopyOf(opened.state);
    changed.bytes += bytes;
    changed.tuples.emplace(changed.next++, std::move(tuple));
    return Write(ctx, opened.handle, std::move(changed));
  });
}

// `peeks`: at the one that its index says, which stays.
template <bool peeks>
absl::StatusOr<KernelFn> MakeUnstage(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(RefuseHandles(init));
  return KernelFn([dtypes = DTypesOf(init)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(ComeBack(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const OpenState opened, Open(ctx));
    int64_t index = 0;
    if (peeks) {
      if (ctx.input(1).rank() != 0) return InvalidArgument("index must be scalar");
      index = ctx.input(1).scalar<int32_t>();
      if (index < 0) return InvalidArgument("index must be >= 0: ", index);
    }
    const auto has = [index](const Tensor& state) {
      const Staging* const staging = Find(state);
      return staging != nullptr && static_cast<int64_t>(staging->tuples.size()) > index;
    };
    if (!has(opened.state)) return AwaitState(ctx, opened.handle, "a staged tuple", has);
    const std::map<int64_t, Tuple>& tuples = Find(opened.state)->tuples;
    // An area's numbers follow each other.
    const Tuple tuple = tuples.at(tuples.begin()->first + index);
    if (!peeks) {
      Staging changed = CopyOf(opened.state);
      changed.bytes -= BytesOf(tuple);
      changed.tuples.erase(changed.tuples.begin());
      FORMWORK_RETURN_IF_ERROR(Write(ctx, opened.handle, std::move(changed)));
    }
    return SetOutputs(ctx, 0, dtypes, tuple);
  });
}

// --- By key -------------------------------------------------------------------------------------

struct KeyAndIndices {
  int64_t key = 0;
  absl::Span<const int32_t> indices;
};

// Of inputs `key`, -1 where there is none, and the next one.
absl::StatusOr<KeyAndIndices> ReadIndices(KernelContext& ctx, int key, int indices) {
  KeyAndIndices read;
  if (key >= 0) {
    if (ctx.input(key).num_elements() != 1) return InvalidArgument("key must be an int64 scalar");
    read.key = ctx.input(key).data<int64_t>()[0];
  }
  read.indices = ctx.input(indices).span<int32_t>();
  for (size_t i = 1; i < read.indices.size(); ++i) {
    if (read.indices[i - 1] < read.indices[i]) continue;
    return InvalidArgument("Indices are not strictly ordered");
  }
  return read;
}

absl::Status CheckIndex(int64_t index, int64_t key, size_t size) {
  if (index >= 0 && index < static_cast<int64_t>(size)) return absl::OkStatus();
  return InvalidArgument("Index '", index, "' for key '", key, "' was out of bounds '", size, "'.");
}

absl::StatusOr<KernelFn> MakeMapStage(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(RefuseHandles(init));
  return KernelFn([limits = Limits::Of(init.attrs()),
                   size = DTypesOf(init).size()](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(ComeBack(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const OpenState opened, Open(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const KeyAndIndices at, ReadIndices(ctx, 1, 2));
    constexpr int kFirst = 3;
    if (static_cast<int>(at.indices.size()) != ctx.num_inputs() - kFirst) {
      return InvalidArgument("there must be as many indices as values: ", at.indices.size(),
                             " vs. ", ctx.num_inputs() - kFirst);
    }
    size_t bytes = 0;
    for (int i = kFirst; i < ctx.num_inputs(); ++i) bytes += ctx.input(i).bytes();
    FORMWORK_RETURN_IF_ERROR(limits.Check(bytes));
    if (!limits.HasRoom(opened.state, bytes)) return AwaitRoom(ctx, opened, limits, bytes);
    Staging changed = CopyOf(opened.state);
    Tuple& tuple = changed.incomplete[at.key];
    tuple.resize(std::max(size, tuple.size()));
    for (size_t i = 0; i < at.indices.size(); ++i) {
      FORMWORK_RETURN_IF_ERROR(CheckIndex(at.indices[i], at.key, tuple.size()));
      Tensor& tensor = tuple[static_cast<size_t>(at.indices[i])];
      if (tensor.has_value()) {
        return InvalidArgument("The tensor for index '", at.indices[i], "' for key '", at.key,
                               "' was already initialized '", tuple.size(), "'.");
      }
      tensor = ctx.input(kFirst + static_cast<int>(i));
    }
    changed.bytes += bytes;
    const bool complete = std::all_of(tuple.begin(), tuple.end(),
                                      [](const Tensor& tensor) { return tensor.has_value(); });
    if (complete) {
      const auto [there, is_new] = changed.tuples.emplace(at.key, tuple);
      if (!is_new) changed.bytes -= BytesOf(tuple);  // The one that is there stays.
      changed.incomplete.erase(at.key);
    }
    return Write(ctx, opened.handle, std::move(changed));
  });
}

enum class Access : uint8_t { kPeek, kTake, kTakeFirst };

template <Access access>
absl::StatusOr<KernelFn> MakeMapUnstage(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(RefuseHandles(init));
  return KernelFn([dtypes = DTypesOf(init)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(ComeBack(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const OpenState opened, Open(ctx));
    constexpr bool kFirst = access == Access::kTakeFirst;
    FORMWORK_ASSIGN_OR_RETURN(const KeyAndIndices at,
                              ReadIndices(ctx, kFirst ? -1 : 1, kFirst ? 1 : 2));
    const auto has = [key = at.key](const Tensor& state) {
      const Staging* const staging = Find(state);
      return staging != nullptr &&
             (kFirst ? !staging->tuples.empty() : staging->tuples.count(key) > 0);
    };
    if (!has(opened.state)) return AwaitState(ctx, opened.handle, "a staged tuple", has);
    Staging changed = CopyOf(opened.state);
    const auto found = kFirst ? changed.tuples.begin() : changed.tuples.find(at.key);
    const int64_t key = found->first;
    Tuple& tuple = found->second;
    std::vector<Tensor> taken;
    for (int32_t index : at.indices) {
      FORMWORK_RETURN_IF_ERROR(CheckIndex(index, key, tuple.size()));
      Tensor& tensor = tuple[static_cast<size_t>(index)];
      if (!tensor.has_value()) {
        return InvalidArgument("Tensor at index '", index, "' for key '", key,
                               "' has already been removed.");
      }
      taken.push_back(access == Access::kPeek ? tensor : std::exchange(tensor, Tensor()));
    }
    const size_t bytes = BytesOf(taken);
    FORMWORK_RETURN_IF_ERROR(SetOutputs(ctx, kFirst ? 1 : 0, dtypes, std::move(taken)));
    if (kFirst) ctx.SetOutput(0, Tensor::Scalar(key));
    if (access == Access::kPeek) return absl::OkStatus();
    changed.bytes -= bytes;
    const bool empty = std::none_of(tuple.begin(), tuple.end(),
                                    [](const Tensor& tensor) { return tensor.has_value(); });
    if (empty) changed.tuples.erase(found);
    return Write(ctx, opened.handle, std::move(changed));
  });
}

// --- Of both ------------------------------------------------------------------------------------

template <bool incomplete>
absl::StatusOr<KernelFn> MakeSize(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const OpenState opened, Open(ctx));
    const Staging* const staging = Find(opened.state);
    size_t size = 0;
    if (staging != nullptr) size = (incomplete ? staging->incomplete : staging->tuples).size();
    ctx.SetOutput(0, Tensor::Scalar(static_cast<int32_t>(size)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeClear(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const OpenState opened, Open(ctx));
    return Write(ctx, opened.handle, Staging());
  });
}

}  // namespace

void RegisterStagingCpuKernels(KernelRegistry& registry) {
  registry.Add("_Stage", MakeStage);
  registry.Add("_Unstage", MakeUnstage<false>);
  registry.Add("_StagePeek", MakeUnstage<true>);
  registry.Add("_MapStage", MakeMapStage);
  registry.Add("_MapUnstage", MakeMapUnstage<Access::kTake>);
  registry.Add("_MapPeek", MakeMapUnstage<Access::kPeek>);
  registry.Add("_MapUnstageNoKey", MakeMapUnstage<Access::kTakeFirst>);
  registry.Add("_StageSize", MakeSize<false>);
  registry.Add("_MapSize", MakeSize<false>);
  registry.Add("_MapIncompleteSize", MakeSize<true>);
  registry.Add("_StageClear", MakeClear);
  registry.Add("_MapClear", MakeClear);
}

}  // namespace formwork
