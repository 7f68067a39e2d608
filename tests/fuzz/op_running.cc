#include "tests/fuzz/op_running.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/kernels/data/dataset.h"
#include "core/kernels/data/position.h"
#include "core/kernels/kernel_function.h"
#include "tests/fuzz/op_draws.h"

namespace formwork {
namespace {

constexpr int kMostElements = 24;

struct File {
  const char* name;
  std::string_view bytes;
};
using namespace std::string_view_literals;
constexpr File kFiles[] = {
    {"lines", "one\ntwo,2\r\n\nthree"},
    {"table.csv", "a,b\n1,2.5\n\"3\",\"x\"\"y\"\n,\n"},
    // Two records, "abc" and nothing.
    {"records",
     "\003\000\000\000\000\000\000\000\260\231\111\016\141\142\143\156\127\361\041"
     "\000\000\000\000\000\000\000\000\051\003\230\007\330\352\202\242"sv},
    {"empty", ""},
};

// What a node's functions make: of an argument of that dtype that very value, else anything.
class DrawnRun final : public FunctionRun {
 public:
  explicit DrawnRun(const BoundFunction& bound) : function_(bound.function) {}

  absl::Status Run(CallScope& call, absl::Span<Tensor> args, absl::Span<Tensor> results) override {
    std::array<uint8_t, 64> drawn;
    std::generate(drawn.begin(), drawn.end(), [this] { return static_cast<uint8_t>(random_()); });
    FuzzBytes bytes(drawn.data(), drawn.size());
    for (size_t i = 0; i < results.size(); ++i) {
      FORMWORK_ASSIGN_OR_RETURN(results[i], Result(call, bytes, args, function_->result_dtypes[i]));
    }
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<Tensor> Result(CallScope& call, FuzzBytes& bytes, absl::Span<Tensor> args,
                                       DType dtype) {
    for (const Tensor& arg : args) {
      if (arg.dtype() == dtype && bytes.Byte() % 8 != 0) return arg;
    }
    if (dtype == DType::kVariant) return Numbers(bytes.Byte() % 4);
    const Shape shape = bytes.Byte() % 8 == 0 ? DrawShape(bytes) : Shape();
    if (dtype == DType::kResource) return Tensor::Scalar(ResourceHandle());
    FORMWORK_ASSIGN_OR_RETURN(Tensor made,
                              testing::MakeValue(DrawValue(bytes, dtype, shape), call.allocator()));
    if (IsPlainData(dtype)) EditElements(bytes, made);
    return made;
  }
  // A dataset of so many numbers.
  static Tensor Numbers(int64_t count) {
    return Tensor::VariantScalar(
        NewDataset({{DType::kInt64}, {PartialShape()}}, count, [count](IterationContext&) -> Begun {
          return NextFn([i = int64_t{0}, count](IterationContext&,
                                                Element& element) mutable -> absl::StatusOr<bool> {
            if (i == count) return false;
            element = {Tensor::Scalar(i++)};
            return true;
          });
        }));
  }

  const std::shared_ptr<const KernelFunction> function_;
  std::minstd_rand random_{1};
};

class FuzzScope final : public CallScope {
 public:
  FuzzScope(Surroundings& surroundings, StopFlag& stop)
      : surroundings_(surroundings), access_(surroundings.resources.access()), stop_(stop) {}
  Allocator& allocator() override { return surroundings_.world.allocator; }
  ResourceAccess& resources() override { return access_; }
  void Print(absl::string_view) override {}
  StopFlag& stop() override { return stop_; }
  absl::string_view files_dir() const override { return surroundings_.folder.path(); }
  std::atomic<uint64_t>& state(int index) override {
    while (static_cast<int>(state_.size()) <= index) state_.emplace_back(0);
    return state_[static_cast<size_t>(index)];
  }
  ResourceHandle named_resource(int) override { return {}; }
  absl::StatusOr<std::unique_ptr<FunctionRun>> NewRun(const BoundFunction& function) override {
    return std::make_unique<DrawnRun>(function);
  }

 private:
  Surroundings& surroundings_;
  ResourceAccess& access_;
  StopFlag& stop_;
  std::deque<std::atomic<uint64_t>> state_;
};

class FuzzInit final : public KernelInit {
 public:
  explicit FuzzInit(const Call& call) : call_(call) {}
  absl::string_view node_name() const override { return "fuzzed"; }
  const OpDef& op() const override { return call_.op(); }
  const AttrMap& attrs() const override { return call_.attrs; }
  absl::Span<const DType> input_dtypes() const override { return call_.inputs; }
  absl::Span<const DType> output_dtypes() const override { return call_.outputs; }
  int NewState(int count) override { return std::exchange(state_, state_ + count); }
  absl::StatusOr<std::shared_ptr<const KernelFunction>> Function(size_t index) override {
    auto function = std::make_shared<KernelFunction>();
    for (const AttrDef& attr : op().attrs) {
      if (attr.kind != AttrKind::kFunc || index-- != 0) continue;
      function->result_dtypes = call_.odd_functions
                                    ? std::vector<DType>{DType::kFloat, DType::kString}
                                    : ResultsOf(attr.name);
      return function;
    }
    return Unimplemented("there is no such function");
  }

 private:
  std::vector<DType> Types(absl::string_view attr) const {
    return attrs().GetOr<std::vector<DType>>(attr, {});
  }
  // Such as the op wants them.
  std::vector<DType> ResultsOf(absl::string_view function) const {
    const absl::string_view name = op().name;
    if (function == "predicate") return {DType::kBool};
    const bool window = name == "GroupByWindowDataset";
    if (function == "key_func" || function == "window_size_func" || function == "shard_func" ||
        function == "init_func" || (function == "reduce_func" && !window)) {
      return {DType::kInt64};
    }
    if (function == "reader_func" || function == "dataset_factory" || function == "reduce_func" ||
        absl::StrContains(name, "Interleave") || absl::StrContains(name, "FlatMap")) {
      return {DType::kVariant};
    }
    if (name == "ReduceDataset") return Types("Tstate");
    std::vector<DType> results;
    if (name == "ScanDataset") results = Types("Tstate");
    const std::vector<DType> elements = Types("output_types");
    results.insert(results.end(), elements.begin(), elements.end());
    return results;
  }

  const Call& call_;
  int state_ = 0;
};

}  // namespace

std::string Call::ToString() const {
  std::string text = absl::StrCat(op().name, "\n");
  for (const auto& [name, value] : attrs.entries()) {
    absl::StrAppend(&text, "  ", name, " = ", AttrText(value), "\n");
  }
  for (const Tensor& value : values) absl::StrAppend(&text, "  ", value.DebugString(64), "\n");
  return text;
}

const std::string& FuzzFolder::path() {
  if (folder_) return folder_->path();
  folder_.emplace();
  for (const File& file : kFiles) {
    std::ofstream(absl::StrCat(folder_->path(), "/", file.name), std::ios::binary) << file.bytes;
  }
  return folder_->path();
}

std::vector<std::string> FuzzFileNames() {
  std::vector<std::string> names = {"saved", "none", "a/b", "..", "", "*", "lines*"};
  for (const File& file : kFiles) names.push_back(file.name);
  return names;
}

absl::Status RunKernel(const Call& call, Surroundings& surroundings, bool owned,
                       std::vector<Tensor>& outputs) {
  OpWorld& world = surroundings.world;
  return HoldToBudget(world.budget, [&]() -> absl::Status {
    FuzzInit init(call);
    FORMWORK_ASSIGN_OR_RETURN(const KernelFn kernel, world.kernels.Find(call.op().name)(init));
    std::vector<InputRef> refs;
    for (const Tensor& value : call.values) refs.push_back({&value, owned});
    StopFlag stop(absl::Now() + absl::Seconds(1));
    FuzzScope scope(surroundings, stop);
    KernelContext context(scope, refs, absl::MakeSpan(outputs));
    const StopScope stopped(&stop);
    FORMWORK_RETURN_IF_ERROR(kernel(context));
    return stop.cut() ? absl::DeadlineExceededError("late") : absl::OkStatus();
  });
}

absl::Status TakeElements(const Tensor& value, uint64_t seed, Surroundings& surroundings) {
  const auto dataset = DatasetFromTensor(value);
  if (!dataset.ok()) return absl::OkStatus();
  return HoldToBudget(surroundings.world.budget, [&]() -> absl::Status {
    StopFlag stop(absl::Now() + absl::Seconds(1));
    FuzzScope scope(surroundings, stop);
    const StopScope stopped(&stop);
    IterationContext ctx(scope);
    FORMWORK_ASSIGN_OR_RETURN(Iterator it, (*dataset)->Begin(ctx));
    Element element;
    for (int i = 0; i < kMostElements; ++i) {
      FORMWORK_RETURN_IF_ERROR(ctx.Look());
      element.clear();
      // After an error it may be asked on.
      const absl::StatusOr<bool> more = it.Next(ctx, element);
      if (!more.ok()) continue;
      if (!*more) break;
      const std::vector<PartialShape> any(element.size());
      const absl::Status fits = CheckElement({(*dataset)->spec.dtypes, any}, element);
      if (!fits.ok()) return absl::InternalError(fits.message());
    }
    Position written;
    FORMWORK_RETURN_IF_ERROR(written.Keep(it));
    std::vector<int64_t> numbers = written.numbers();
    if (seed % 4 != 0 && !numbers.empty()) {
      numbers[seed / 4 % numbers.size()] = static_cast<int64_t>(seed >> 8);
    }
    Position read(std::move(numbers), written.tensors(), ctx);
    FORMWORK_ASSIGN_OR_RETURN(Iterator other, (*dataset)->Begin(ctx));
    FORMWORK_RETURN_IF_ERROR(read.Keep(other));
    for (int i = 0; i < 4; ++i) other.Next(ctx, element).IgnoreError();
    return absl::OkStatus();
  });
}

}  // namespace formwork
