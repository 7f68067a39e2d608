// DecodeCompressed: strings that zlib or gzip have made shorter.

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/string/string_cpu.h"
#include "core/kernels/string/text.h"
#include "core/ops/raw_bytes.h"

namespace formwork {
namespace {

constexpr size_t kBlockBytes = size_t{64} << 10;

// One string after the other. What is cut off inflates to what is there, as TensorFlow has it.
class Inflater {
 public:
  explicit Inflater(uint32_t format)
      : format_(format), state_(std::make_unique<inflate_state>()), block_(kBlockBytes) {}

  absl::Status Append(const std::string& from, std::string& to) {
    Begin();
    state_->next_in = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(from.data()));
    size_t left = from.size();
    while (true) {
      if (WorkIsCut()) return WorkStatus();
      if (state_->avail_in == 0) {
        state_->avail_in = static_cast<uint32_t>(std::min(left, size_t{1} << 30));
        left -= state_->avail_in;
      }
      if (state_->block_state == ISAL_BLOCK_FINISH) {
        // There may be several of gzip's, one behind the other.
        if (format_ != ISAL_GZIP || state_->avail_in == 0) return absl::OkStatus();
        isal_inflate_reset(state_.get());
        state_->crc_flag = format_;
      }
      const uint32_t before = state_->avail_in;
      state_->next_out = block_.data();
      state_->avail_out = static_cast<uint32_t>(block_.size());
      const int result = isal_inflate(state_.get());
      if (result != ISAL_DECOMP_OK && result != ISAL_END_INPUT) return Damaged(result);
      const size_t made = block_.size() - state_->avail_out;
      made_ += static_cast<int64_t>(made);
      FORMWORK_RETURN_IF_ERROR(CheckTextSize(made_));
      to.append(reinterpret_cast<const char*>(block_.data()), made);
      const bool ended = state_->block_state == ISAL_BLOCK_FINISH;
      if (made == 0 && state_->avail_in == before && left == 0 && !ended) return absl::OkStatus();
    }
  }

 private:
  void Begin() {
    isal_inflate_init(state_.get());
    state_->crc_flag = format_;
  }
  static absl::Status Damaged(int result) {
    return absl::DataLossError(absl::StrCat(
        "inflate() failed: ", result == ISAL_INCORRECT_CHECKSUM ? "incorrect data check"
                              : result == ISAL_INVALID_WRAPPER || result == ISAL_UNSUPPORTED_METHOD
                                  ? "incorrect header check"
                                  : "invalid data"));
  }

  const uint32_t format_;
  const std::unique_ptr<inflate_state> state_;
  std::vector<uint8_t> block_;
  int64_t made_ = 0;  // Bytes of all strings.
};

absl::StatusOr<KernelFn> MakeDecodeCompressed(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string type,
                            init.attrs().Get<std::string>("compression_type"));
  FORMWORK_RETURN_IF_ERROR(CheckCompressionType(type));
  if (type.empty()) {
    return KernelFn([](KernelContext& ctx) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    });
  }
  const uint32_t format = type == "GZIP" ? ISAL_GZIP : ISAL_ZLIB;
  return KernelFn([format](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor* const output,
                              ctx.AllocateOutput(0, DType::kString, input.shape()));
    Inflater inflater(format);
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      FORMWORK_RETURN_IF_ERROR(
          inflater.Append(input.data<std::string>()[i], output->mutable_data<std::string>()[i]));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddDecompressCpuKernels(KernelRegistry& registry) {
  registry.Add("DecodeCompressed", MakeDecodeCompressed);
}

}  // namespace formwork
