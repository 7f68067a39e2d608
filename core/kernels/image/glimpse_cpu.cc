// ExtractGlimpse and ExtractGlimpseV2.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/image/image_cpu.h"
#include "core/kernels/random/philox.h"
#include "core/kernels/random/unit_numbers.h"
#include "core/ops/glimpse.h"

namespace formwork {
namespace {

constexpr int64_t kGrain = 1 << 16;  // Elements.

// What the noise of a channel follows from.
struct Channel {
  float least = 0, largest = 0;
  float mean = 0, deviation = 0;
};

std::vector<Channel> ChannelsOf(const GlimpseGeometry& s, const float* image) {
  std::vector<Channel> channels(static_cast<size_t>(s.channels));
  std::vector<double> sums(channels.size()), squares(channels.size());
  const int64_t pixels = s.rows * s.cols;
  if (pixels == 0) return channels;
  for (size_t c = 0; c < channels.size(); ++c) channels[c].least = channels[c].largest = image[c];
  const int64_t grain = std::max<int64_t>(kGrain / std::max<int64_t>(s.channels, 1), 1);
  const auto for_elements = [&](auto each) {
    ForBlocks(pixels, grain, [&](int64_t begin, int64_t end) {
      for (const float* at = image + begin * s.channels; begin < end; ++begin) {
        for (size_t c = 0; c < channels.size(); ++c) each(c, *at++);
      }
    });
  };
  for_elements([&](size_t c, float x) {
    channels[c].least = std::min(channels[c].least, x);
    channels[c].largest = std::max(channels[c].largest, x);
    sums[c] += static_cast<double>(x);
  });
  const auto n = static_cast<double>(pixels);
  for_elements([&](size_t c, float x) {
    const double off = static_cast<double>(x) - sums[c] / n;
    squares[c] += off * off;
  });
  for (size_t c = 0; c < channels.size(); ++c) {
    channels[c].mean = static_cast<float>(sums[c] / n);
    channels[c].deviation = static_cast<float>(std::sqrt(squares[c] / n));
  }
  return channels;
}

class Noise {
 public:
  Noise(GlimpseNoise kind, std::vector<Channel> channels)
      : kind_(kind), channels_(std::move(channels)) {
    if (kind != GlimpseNoise::kUniform) return;
    // One range for all channels.
    Channel all = channels_[0];
    for (const Channel& channel : channels_) {
      all.least = std::min(all.least, channel.least);
      all.largest = std::max(all.largest, channel.largest);
    }
    std::fill(channels_.begin(), channels_.end(), all);
  }

  // `n` pixels; each two elements are of one group of numbers.
  void Fill(Philox philox, int64_t n, float* to) const {
    float normal[2] = {};
    Philox::Group group{};
    size_t c = 0;
    for (int64_t i = 0; i < n * static_cast<int64_t>(channels_.size()); ++i) {
      if (WorkIsCutAt(i)) return;
      if (i % 2 == 0) group = philox.Next();
      const Channel& channel = channels_[c];
      if (kind_ == GlimpseNoise::kUniform) {
        to[i] = channel.least + UnitFloat(group[i % 2]) * (channel.largest - channel.least);
      } else {
        if (i % 2 == 0) NormalPair(group[0], group[1], normal);
        const float drawn = channel.mean + normal[i % 2] * channel.deviation;
        to[i] = std::max(std::min(drawn, channel.largest), channel.least);
      }
      if (++c == channels_.size()) c = 0;
    }
  }

 private:
  GlimpseNoise kind_;
  std::vector<Channel> channels_;
};

// Rows `begin` to `end` of the glimpse of one image, whose first row and column are at `row` and
// `col`. `noise`: null for zeros.
void FillRows(const GlimpseGeometry& s, const float* image, int64_t row, int64_t col,
              const Noise* noise, const Philox& philox, int64_t begin, int64_t end,
              float* glimpse) {
  const int64_t width = s.glimpse_cols * s.channels;
  const int64_t first = std::max<int64_t>(-col, 0);
  const int64_t last = std::min(s.glimpse_cols, std::max<int64_t>(s.cols - col, 0));
  for (; begin < end; ++begin) {
    if (WorkIsCutAt(begin, std::max<int64_t>(kGrain / width, 1))) return;
    float* const to = glimpse + begin * width;
    const int64_t from = row + begin;
    const bool on_image = from >= 0 && from < s.rows && first < last;
    if (!on_image || first > 0 || last < s.glimpse_cols) {
      if (noise == nullptr) {
        ForBlocks(width, kGrain,
                  [&](int64_t at, int64_t to_end) { std::fill(to + at, to + to_end, 0.0f); });
      } else {
        Philox of_row = philox;
        of_row.Skip(static_cast<uint64_t>(begin) * static_cast<uint64_t>((width + 1) / 2));
        noise->Fill(of_row, s.glimpse_cols, to);
      }
    }
    if (!on_image) continue;
    const float* const seen = image + (from * s.cols + col) * s.channels;
    ForBlocks((last - first) * s.channels, kGrain, [&](int64_t at, int64_t seen_end) {
      const int64_t before = first * s.channels;
      std::copy(seen + before + at, seen + before + seen_end, to + before + at);
    });
  }
}

absl::Status Extract(KernelContext& ctx, const GlimpseAttrs& attrs) {
  const Tensor images = ctx.input(0), size = ctx.input(1), offsets = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(const GlimpseGeometry s,
                            PrepareGlimpse(images.shape().dims(), &size, offsets.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.glimpses()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, DType::kFloat, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const float* const offset = offsets.data<float>();
  const int64_t of_image = s.rows * s.cols * s.channels;
  const int64_t of_glimpse = s.glimpse_rows * s.glimpse_cols * s.channels;
  float* const to = output->mutable_data<float>();
  uint64_t seed[2] = {};
  if (attrs.noise != GlimpseNoise::kZero) {
    std::random_device device;
    for (uint64_t& part : seed) part = device() | (static_cast<uint64_t>(device()) << 32);
  }
  const int64_t grain = std::max<int64_t>(kGrain / (s.glimpse_cols * s.channels), 1);
  for (int64_t i = 0; i < s.batch; ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    const float* const image = images.data<float>() + i * of_image;
    const int64_t row = attrs.BeginOf(offset[2 * i], s.glimpse_rows, s.rows);
    const int64_t col = attrs.BeginOf(offset[2 * i + 1], s.glimpse_cols, s.cols);
    const bool within =
        row >= 0 && col >= 0 && row <= s.rows - s.glimpse_rows && col <= s.cols - s.glimpse_cols;
    std::vector<Noise> noise;  // Or none.
    if (attrs.noise != GlimpseNoise::kZero && !within) {
      noise.emplace_back(attrs.noise, ChannelsOf(s, image));
    }
    const Philox philox(seed[0], seed[1] + static_cast<uint64_t>(i));
    ParallelFor(s.glimpse_rows, grain, [&](int64_t begin, int64_t end) {
      FillRows(s, image, row, col, noise.empty() ? nullptr : noise.data(), philox, begin, end,
               to + i * of_glimpse);
    });
  }
  return absl::OkStatus();
}

template <bool of_middle>
absl::StatusOr<KernelFn> MakeExtract(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(GlimpseAttrs attrs, GlimpseAttrs::FromAttrs(init.attrs()));
  attrs.offsets_of_middle = of_middle;
  return KernelFn([attrs](KernelContext& ctx) { return Extract(ctx, attrs); });
}

}  // namespace

void AddGlimpseCpuKernels(KernelRegistry& registry) {
  registry.Add("ExtractGlimpse", MakeExtract<true>);
  registry.Add("ExtractGlimpseV2", MakeExtract<false>);
}

}  // namespace formwork
