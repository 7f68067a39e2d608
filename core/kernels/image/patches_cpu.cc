// Patches of images and volumes: rows of them are moved, side by side.

#include <algorithm>
#include <array>
#include <type_traits>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/image/image_cpu.h"
#include "core/ops/patches.h"

namespace formwork {
namespace {

/// Which row of which patch: batch, place of the patch (plane, row, column), plane and row within
/// it.
class RowIndex {
 public:
  RowIndex(const PatchGeometry& s, int64_t row)
      : sizes_{s.batch,          s.axes[0].output,      s.axes[1].output,
               s.axes[2].output, s.axes[0].window.size, s.axes[1].window.size} {
    for (int i = kParts - 1; i >= 0; --i) {
      at_[i] = row % sizes_[i];
      row /= sizes_[i];
    }
  }
  int64_t batch() const { return at_[0]; }
  /// Where in the input an axis of the patch begins, or its row or plane lies.
  int64_t Begin(const PatchGeometry& s, int axis) const {
    return at_[1 + axis] * s.axes[axis].window.stride - s.axes[axis].pad_before;
  }
  int64_t At(const PatchGeometry& s, int axis) const {
    return Begin(s, axis) + at_[4 + axis] * s.axes[axis].window.dilation;
  }
  void Next() {
    for (int i = kParts - 1; i >= 0 && ++at_[i] == sizes_[i]; --i) at_[i] = 0;
  }

 private:
  static constexpr int kParts = 6;
  std::array<int64_t, kParts> sizes_;
  std::array<int64_t, kParts> at_;
};

/// A patch's row of columns, of which the first is `begin`, from an input's row.
template <typename E>
void MoveRow(const PatchGeometry& s, const E* from, int64_t begin, E* to) {
  const PatchAxis& cols = s.axes[2];
  for (int64_t k = 0; k < cols.window.size; ++k, to += s.channels) {
    if (WorkIsCutAt(k)) return;
    const int64_t col = begin + k * cols.window.dilation;
    if (from != nullptr && col >= 0 && col < cols.input) {
      CopyElements(from + col * s.channels, s.channels, to);
    } else {
      std::fill_n(to, s.channels, E{});
    }
  }
}

template <typename E>
void Extract(const PatchGeometry& s, const E* input, E* out) {
  const auto inside = [&s](int64_t at, int axis) { return at >= 0 && at < s.axes[axis].input; };
  const int64_t row_size = s.axes[2].window.size * s.channels;
  int64_t rows = s.batch * s.axes[0].window.size * s.axes[1].window.size;
  for (const PatchAxis& axis : s.axes) rows *= axis.output;
  const int64_t grain = std::max<int64_t>(1, MoveGrain<E>() / (4 * row_size));
  ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    RowIndex at(s, begin);
    for (int64_t r = begin; r < end; ++r, at.Next()) {
      const int64_t plane = at.At(s, 0);
      const int64_t row = at.At(s, 1);
      const E* from = nullptr;
      if (inside(plane, 0) && inside(row, 1)) {
        const int64_t before = (at.batch() * s.axes[0].input + plane) * s.axes[1].input + row;
        from = input + before * s.axes[2].input * s.channels;
      }
      MoveRow(s, from, at.Begin(s, 2), out + r * row_size);
    }
  });
}

template <int kSpatial>
absl::StatusOr<KernelFn> MakePatches(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const PatchAttrs attrs, PatchAttrs::FromAttrs(init.attrs(), kSpatial));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const PatchGeometry s, PreparePatches(attrs, input.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.patches()));
    if (!IsPlainData(input.dtype())) {
      return Unimplemented("Patches: dtype ", DTypeName(input.dtype()), " is not supported");
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    ByElement(input.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      if constexpr (std::is_trivially_copyable_v<E>) {
        Extract(s, static_cast<const E*>(input.raw()), static_cast<E*>(out->mutable_raw()));
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void AddPatchCpuKernels(KernelRegistry& registry) {
  registry.Add("ExtractImagePatches", MakePatches<2>);
  registry.Add("ExtractVolumePatches", MakePatches<3>);
}

}  // namespace formwork
