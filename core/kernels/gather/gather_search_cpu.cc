// Ops that look values up: Unique, ListDiff, Bucketize, LowerBound, UpperBound, UnravelIndex.

#include <algorithm>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "core/base/hash_map.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/gather/gather_cpu.h"
#include "core/kernels/gather/index_read.h"
#include "core/ops/dims.h"
#include "core/ops/gather.h"

namespace formwork {
namespace {

// What a value is hashed and compared as; the two zeros are one.
template <typename T>
auto KeyOf(const T& value) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    return static_cast<float>(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return absl::string_view(value);
  } else {
    return value;
  }
}
// NaN is no key: it differs from itself, which hash tables do not expect.
template <typename T>
bool IsNan(const T& value) {
  return KeyOf(value) != KeyOf(value);
}
template <typename T>
using Key = decltype(KeyOf(std::declval<const T&>()));

template <typename Index>
absl::Status OutputIndices(KernelContext& ctx, int i, const std::vector<int64_t>& values) {
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor * out,
      ctx.AllocateOutput(i, DTypeOf<Index>::value, Shape{static_cast<int64_t>(values.size())}));
  Index* to = out->mutable_data<Index>();
  ForBlocks(static_cast<int64_t>(values.size()), kCheapItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<Index>(values[i]);
  });
  return absl::OkStatus();
}

absl::Status OutputAs(KernelContext& ctx, int i, DType dtype, const std::vector<int64_t>& values) {
  return dtype == DType::kInt64 ? OutputIndices<int64_t>(ctx, i, values)
                                : OutputIndices<int32_t>(ctx, i, values);
}

// The elements of x at `places`, as output 0.
template <typename T>
absl::Status OutputElements(KernelContext& ctx, const Tensor& x,
                            const std::vector<int64_t>& places) {
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor * out, ctx.AllocateOutput(0, x.dtype(), Shape{static_cast<int64_t>(places.size())}));
  T* to = out->mutable_data<T>();
  ForBlocks(static_cast<int64_t>(places.size()), kCheapItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = x.data<T>()[places[i]];
  });
  return absl::OkStatus();
}

// Values seen, numbered. In several tables where there may be many: one that grows moves all that
// it holds, which cannot be stopped.
template <typename T>
class Numbering {
 public:
  explicit Numbering(size_t values) : tables_(values / kTableValues + 1) {}
  /// The number of a value: `next` where it is new.
  int64_t Of(const Key<T>& key, int64_t next) {
    const size_t table =
        tables_.size() == 1 ? 0 : absl::HashOf(key, tables_.size()) % tables_.size();
    return tables_[table].try_emplace(key, next).first->second;
  }

 private:
  static constexpr size_t kTableValues = size_t{1} << 20;
  using Table = absl::flat_hash_map<Key<T>, int64_t, absl::Hash<Key<T>>, std::equal_to<>,
                                    UnrefusedAllocator<std::pair<const Key<T>, int64_t>>>;
  std::vector<Table> tables_;
};

// Output 0 the distinct values in order of first use, 1 which of them each element is, and 2, where
// there is one, how often each occurs.
template <typename T>
absl::Status Unique(KernelContext& ctx, DType index_dtype) {
  const Tensor& x = ctx.input(0);
  const absl::Span<const T> values = x.span<T>();
  Numbering<T> seen(values.size());
  std::vector<int64_t> first, which, counts;
  which.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    const int64_t next = static_cast<int64_t>(first.size());
    which.push_back(IsNan(values[i]) ? next : seen.Of(KeyOf(values[i]), next));
    if (which[i] == next) {
      first.push_back(static_cast<int64_t>(i));
      counts.push_back(0);
    }
    ++counts[which[i]];
  }
  FORMWORK_RETURN_IF_ERROR(OutputElements<T>(ctx, x, first));
  FORMWORK_RETURN_IF_ERROR(OutputAs(ctx, 1, index_dtype, which));
  if (ctx.num_outputs() > 2) return OutputAs(ctx, 2, index_dtype, counts);
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeUnique(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const DType index_dtype = init.output_dtypes()[1];
  return KernelFn([dtype, index_dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckUnique(ctx.input(0).shape().dims()));
    switch (dtype) {
      FORMWORK_REAL_CASES(return Unique<T>(ctx, index_dtype))
      FORMWORK_CASE(bool, return Unique<T>(ctx, index_dtype))
      FORMWORK_CASE(std::string, return Unique<T>(ctx, index_dtype))
      default:
        return Unimplemented("Unique: dtype ", DTypeName(dtype), " is not supported");
    }
  });
}

// --- UniqueV2, UniqueWithCountsV2: of slices along an axis
// ----------------------------------------

// Bytes that are equal where slices are; nothing where one is NaN, which equals nothing.
template <typename T>
std::optional<std::string> SliceKey(const Tensor& x, int64_t outer, int64_t n, int64_t inner,
                                    int64_t at) {
  std::string key;
  for (int64_t o = 0; o < outer; ++o) {
    const T* slice = x.data<T>() + (o * n + at) * inner;
    for (int64_t i = 0; i < inner; ++i) {
      if (IsNan(slice[i])) return std::nullopt;
      if constexpr (std::is_same_v<T, std::string>) {
        absl::StrAppend(&key, slice[i].size(), ":", slice[i]);
      } else {
        // The two zeros are one.
        const auto value = KeyOf(slice[i]) == Key<T>(0) ? Key<T>(0) : KeyOf(slice[i]);
        key.append(reinterpret_cast<const char*>(&value), sizeof(value));
      }
    }
  }
  return key;
}

template <typename T>
absl::Status UniqueSlices(KernelContext& ctx, DType index_dtype, int axis) {
  const Tensor x = ctx.input(0);
  const absl::Span<const int64_t> dims = x.shape().dims();
  const int64_t n = x.dim(axis);
  const int64_t outer = CountElements(dims.first(static_cast<size_t>(axis)));
  const int64_t inner = CountElements(dims.subspan(static_cast<size_t>(axis) + 1));
  absl::flat_hash_map<std::string, int64_t, absl::Hash<std::string>, std::equal_to<>,
                      UnrefusedAllocator<std::pair<const std::string, int64_t>>>
      seen;
  std::vector<int64_t> first, which, counts;
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    const int64_t next = static_cast<int64_t>(first.size());
    std::optional<std::string> key = SliceKey<T>(x, outer, n, inner, i);
    which.push_back(key ? seen.try_emplace(*std::move(key), next).first->second : next);
    if (which.back() == next) {
      first.push_back(i);
      counts.push_back(0);
    }
    ++counts[static_cast<size_t>(which.back())];
  }
  Dims chosen(dims.begin(), dims.end());
  chosen[static_cast<size_t>(axis)] = static_cast<int64_t>(first.size());
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(chosen));
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), x.dtype(), shape));
  T* to = out.mutable_data<T>();
  for (int64_t o = 0; o < outer; ++o) {
    for (const int64_t at : first) {
      if (WorkIsCut()) return WorkStatus();
      CopyElements(x.data<T>() + (o * n + at) * inner, inner, to);
      to += inner;
    }
  }
  ctx.SetOutput(0, std::move(out));
  FORMWORK_RETURN_IF_ERROR(OutputAs(ctx, 1, index_dtype, which));
  if (ctx.num_outputs() > 2) return OutputAs(ctx, 2, index_dtype, counts);
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeUniqueV2(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const DType index_dtype = init.output_dtypes()[1];
  return KernelFn([dtype, index_dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const int axis,
                              PrepareUniqueAxis(ctx.input(0).shape().dims(), ctx.input(1)));
    const bool vector = ctx.input(0).rank() == 1;
    switch (dtype) {
      FORMWORK_REAL_CASES(return vector ? Unique<T>(ctx, index_dtype)
                                        : UniqueSlices<T>(ctx, index_dtype, axis))
      FORMWORK_CASE(bool, return vector ? Unique<T>(ctx, index_dtype)
                                        : UniqueSlices<T>(ctx, index_dtype, axis))
      FORMWORK_CASE(std::string, return vector ? Unique<T>(ctx, index_dtype)
                                               : UniqueSlices<T>(ctx, index_dtype, axis))
      default:
        return Unimplemented("UniqueV2: dtype ", DTypeName(dtype), " is not supported");
    }
  });
}

template <typename T>
absl::Status ListDiff(KernelContext& ctx, DType index_dtype) {
  const Tensor& x = ctx.input(0);
  absl::flat_hash_set<Key<T>, absl::Hash<Key<T>>, std::equal_to<>, UnrefusedAllocator<Key<T>>>
      excluded;
  const absl::Span<const T> left_out = ctx.input(1).span<T>();
  for (size_t i = 0; i < left_out.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    if (!IsNan(left_out[i])) excluded.insert(KeyOf(left_out[i]));
  }
  std::vector<int64_t> kept;
  const absl::Span<const T> values = x.span<T>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    if (IsNan(values[i]) || !excluded.contains(KeyOf(values[i])))
      kept.push_back(static_cast<int64_t>(i));
  }
  FORMWORK_RETURN_IF_ERROR(OutputElements<T>(ctx, x, kept));
  return OutputAs(ctx, 1, index_dtype, kept);
}

absl::StatusOr<KernelFn> MakeListDiff(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const DType index_dtype = init.output_dtypes()[1];
  return KernelFn([dtype, index_dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(
        CheckListDiff(ctx.input(0).shape().dims(), ctx.input(1).shape().dims()));
    switch (dtype) {
      FORMWORK_REAL_CASES(return ListDiff<T>(ctx, index_dtype))
      FORMWORK_CASE(std::string, return ListDiff<T>(ctx, index_dtype))
      default:
        return Unimplemented("ListDiff: dtype ", DTypeName(dtype), " is not supported");
    }
  });
}

template <typename T>
absl::Status Bucketize(KernelContext& ctx, const std::vector<float>& boundaries) {
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kInt32, input.shape()));
  const T* from = input.data<T>();
  int32_t* to = out->mutable_data<int32_t>();
  ParallelFor(input.num_elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = static_cast<int32_t>(std::upper_bound(boundaries.begin(), boundaries.end(), from[i]) -
                                   boundaries.begin());
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeBucketize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(BucketizeAttrs attrs, BucketizeAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.input_dtypes()[0];
  return KernelFn(
      [dtype, boundaries = std::move(attrs.boundaries)](KernelContext& ctx) -> absl::Status {
        switch (dtype) {
          FORMWORK_CASE(int32_t, return Bucketize<T>(ctx, boundaries))
          FORMWORK_CASE(int64_t, return Bucketize<T>(ctx, boundaries))
          FORMWORK_CASE(float, return Bucketize<T>(ctx, boundaries))
          FORMWORK_CASE(double, return Bucketize<T>(ctx, boundaries))
          default:
            return Unimplemented("Bucketize: dtype ", DTypeName(dtype), " is not supported");
        }
      });
}

template <typename T, bool kUpper>
std::vector<int64_t> Bounds(const Tensor& sorted, const Tensor& values) {
  const int64_t width = sorted.dim(1);
  const int64_t per_row = values.dim(1);
  std::vector<int64_t> result(static_cast<size_t>(values.num_elements()));
  auto less = [](const T& a, const T& b) { return KeyOf(a) < KeyOf(b); };
  ParallelFor(values.num_elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* row = sorted.data<T>() + i / per_row * width;
      const T& value = values.data<T>()[i];
      const T* at = kUpper ? std::upper_bound(row, row + width, value, less)
                           : std::lower_bound(row, row + width, value, less);
      result[i] = at - row;
    }
  });
  return result;
}

template <bool kUpper>
absl::StatusOr<KernelFn> MakeBound(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const DType index_dtype = init.output_dtypes()[0];
  return KernelFn([dtype, index_dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& sorted = ctx.input(0);
    const Tensor& values = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckBound(sorted.shape().dims(), values.shape().dims()));
    std::vector<int64_t> result;
    auto search = [&]() -> absl::Status {
      switch (dtype) {
        FORMWORK_REAL_CASES(result = Bounds<T, kUpper>(sorted, values); return absl::OkStatus())
        FORMWORK_CASE(bool, result = Bounds<T, kUpper>(sorted, values); return absl::OkStatus())
        FORMWORK_CASE(std::string, result = Bounds<T, kUpper>(sorted, values);
                      return absl::OkStatus())
        default:
          return Unimplemented("LowerBound, UpperBound: dtype ", DTypeName(dtype),
                               " is not supported");
      }
    };
    const Shape shape = values.shape();
    FORMWORK_RETURN_IF_ERROR(search());
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, index_dtype, shape));
    for (size_t i = 0; i < result.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
      if (index_dtype == DType::kInt64) {
        out->mutable_data<int64_t>()[i] = result[i];
      } else {
        out->mutable_data<int32_t>()[i] = static_cast<int32_t>(result[i]);
      }
    }
    return absl::OkStatus();
  });
}

template <typename T>
absl::Status UnravelIndex(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims output, PrepareUnravelIndex(ctx.input(0).shape().dims(),
                                                                   ctx.input(1).shape().dims()));
  const Tensor& indices = ctx.input(0);
  const Tensor& dims = ctx.input(1);
  const absl::Span<const T> sizes = dims.span<T>();
  int64_t total = 1;
  for (T size : sizes) {
    if (size <= 0) {
      return InvalidArgument("Input dims must be positive, but contains ", size);
    }
    if (__builtin_mul_overflow(total, static_cast<int64_t>(size), &total)) {
      return InvalidArgument("Input dims overflow");
    }
  }
  const int64_t n = indices.num_elements();
  const int64_t rank = dims.num_elements();
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(output));
  const T* from = indices.data<T>();
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (from[i] < 0 || from[i] >= total) {
      return InvalidArgument("index is out of bound as with dims");
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, indices.dtype(), shape));
  T* to = out->mutable_data<T>();
  ParallelFor(n, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T rest = from[i];
      for (int64_t d = rank; d-- > 0;) {
        to[d * n + i] = static_cast<T>(rest % sizes[d]);
        rest = static_cast<T>(rest / sizes[d]);
      }
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeUnravelIndex(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    return dtype == DType::kInt64 ? UnravelIndex<int64_t>(ctx) : UnravelIndex<int32_t>(ctx);
  });
}

}  // namespace

void RegisterGatherSearchKernels(KernelRegistry& registry) {
  registry.Add("Unique", MakeUnique);
  registry.Add("UniqueWithCounts", MakeUnique);
  registry.Add("UniqueV2", MakeUniqueV2);
  registry.Add("UniqueWithCountsV2", MakeUniqueV2);
  registry.Add("ListDiff", MakeListDiff);
  registry.Add("Bucketize", MakeBucketize);
  registry.Add("LowerBound", MakeBound<false>);
  registry.Add("UpperBound", MakeBound<true>);
  registry.Add("UnravelIndex", MakeUnravelIndex);
}

}  // namespace formwork
