// Hashes of strings: buckets and fingerprints, the same numbers as TensorFlow's.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/string/hashes.h"
#include "core/kernels/string/string_cpu.h"
#include "core/kernels/string/text.h"
#include "core/ops/string.h"

namespace formwork {
namespace {

// Austin Appleby's MurmurHash64A, with the seed that TensorFlow takes.
struct Murmur {
  uint64_t operator()(absl::string_view text) const {
    constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
    constexpr int kShift = 47;
    uint64_t hash = uint64_t{0xDECAFCAFFE} ^ (text.size() * kFactor);
    for (size_t i = 0; i + 8 <= text.size(); i += 8) {
      uint64_t word = hash_words::Load64(text.data() + i) * kFactor;
      word ^= word >> kShift;
      hash = (hash ^ (word * kFactor)) * kFactor;
    }
    if (text.size() % 8 != 0) hash = (hash ^ hash_words::LoadRest(text)) * kFactor;
    hash = (hash ^ (hash >> kShift)) * kFactor;
    return hash ^ (hash >> kShift);
  }
};

template <typename Hash>
KernelFn ToBuckets(int64_t buckets, Hash hash) {
  return KernelFn([buckets, hash](KernelContext& ctx) -> absl::Status {
    const Tensor texts = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kInt64, texts.shape()));
    TextLooks looks;
    for (int64_t i = 0; i < texts.num_elements(); ++i) {
      const std::string& text = texts.data<std::string>()[i];
      if (looks.CutBefore(text.size())) return WorkStatus();
      out->mutable_data<int64_t>()[i] =
          static_cast<int64_t>(hash(text) % static_cast<uint64_t>(buckets));
    }
    return absl::OkStatus();
  });
}

template <typename Hash>
absl::StatusOr<KernelFn> MakeToBucket(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t buckets, init.attrs().Get<int64_t>("num_buckets"));
  return ToBuckets(buckets, Hash());
}

absl::StatusOr<KernelFn> MakeToBucketStrong(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const StrongHashAttrs attrs, StrongHashAttrs::FromAttrs(init.attrs()));
  return ToBuckets(attrs.num_buckets,
                   Sip({static_cast<uint64_t>(attrs.key[0]), static_cast<uint64_t>(attrs.key[1])}));
}

// --- Fingerprint --------------------------------------------------------------------------------

constexpr int64_t kFingerprintBytes = 8;

void StoreFingerprint(absl::string_view bytes, uint8_t* to) {
  const uint64_t hash = Farm()(bytes);
  std::memcpy(to, &hash, sizeof(hash));
}

// Of a row of several strings: that of their fingerprints.
absl::Status FingerprintTexts(const Tensor& data, int64_t rows, int64_t width, uint8_t* to) {
  TextLooks looks;
  std::string parts(static_cast<size_t>(width * kFingerprintBytes), '\0');
  const std::string* text = data.data<std::string>();
  for (int64_t r = 0; r < rows; ++r, to += kFingerprintBytes) {
    for (int64_t i = 0; i < width; ++i, ++text) {
      if (looks.CutBefore(text->size())) return WorkStatus();
      StoreFingerprint(
          *text,
          width == 1 ? to : reinterpret_cast<uint8_t*>(parts.data()) + i * kFingerprintBytes);
    }
    if (width != 1) StoreFingerprint(parts, to);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeFingerprint(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  if (dtype != DType::kString && !IsPlainData(dtype)) {
    return Unimplemented("Fingerprint: dtype ", DTypeName(dtype), " is not supported");
  }
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor data = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                              PrepareFingerprint(data.shape().dims(), &ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kUint8, shape));
    const int64_t rows = data.dim(0);
    if (rows == 0) return absl::OkStatus();
    uint8_t* to = out->mutable_data<uint8_t>();
    const int64_t width = data.num_elements() / rows;
    if (data.dtype() == DType::kString) return FingerprintTexts(data, rows, width, to);
    const size_t bytes = static_cast<size_t>(width) * DTypeSize(data.dtype());
    const char* from = static_cast<const char*>(data.raw());
    TextLooks looks;
    for (int64_t r = 0; r < rows; ++r) {
      if (looks.CutBefore(bytes)) return WorkStatus();
      StoreFingerprint({from + static_cast<size_t>(r) * bytes, bytes}, to + r * kFingerprintBytes);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddStringHashCpuKernels(KernelRegistry& registry) {
  registry.Add("StringToHashBucket", MakeToBucket<Murmur>);
  registry.Add("StringToHashBucketFast", MakeToBucket<Farm>);
  registry.Add("StringToHashBucketStrong", MakeToBucketStrong);
  registry.Add("Fingerprint", MakeFingerprint);
}

}  // namespace formwork
