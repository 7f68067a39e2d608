// Datasets of batches of other sizes: the rows of the input's elements, cut anew.

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/position.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

class Rebatcher {
 public:
  Rebatcher(Iterator it, ElementSpec spec, std::vector<int64_t> sizes, bool drop_remainder)
      : it_(std::move(it)),
        spec_(std::move(spec)),
        sizes_(std::move(sizes)),
        drop_remainder_(drop_remainder) {}

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    int64_t missing = sizes_[turn_];
    turn_ = (turn_ + 1) % sizes_.size();
    if (missing == 0) return Nothing(ctx, element);
    std::vector<std::vector<Tensor>> columns;  // Of each component the parts.
    while (missing > 0) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, Fill(ctx));
      if (!more) break;
      const int64_t taken = std::min(missing, rows_ - at_);
      columns.resize(batch_.size());
      for (size_t c = 0; c < batch_.size(); ++c) {
        FORMWORK_ASSIGN_OR_RETURN(Tensor part,
                                  SliceAlong(ctx.allocator(), batch_[c], 0, at_, taken));
        columns[c].push_back(std::move(part));
      }
      at_ += taken;
      missing -= taken;
    }
    if (columns.empty() || (missing > 0 && drop_remainder_)) return false;
    for (std::vector<Tensor>& parts : columns) {
      if (parts.size() == 1) {
        element.push_back(std::move(parts[0]));
        continue;
      }
      FORMWORK_ASSIGN_OR_RETURN(Tensor joined, ConcatTensors(ctx.allocator(), parts, 0));
      element.push_back(std::move(joined));
    }
    return true;
  }

  absl::Status Keep(Position& position) {
    FORMWORK_RETURN_IF_ERROR(position.KeepUpTo(sizes_.size() - 1, turn_));
    FORMWORK_RETURN_IF_ERROR(position.Keep(it_, batch_, rows_));
    if (position.reads() && rows_ != 0) {
      FORMWORK_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(batch_));
      if (rows_ != rows) return position.Unfit();
    }
    return position.KeepUpTo(static_cast<uint64_t>(rows_), at_);
  }

 private:
  // Takes the next batch that has rows, where none are left; false at the end.
  absl::StatusOr<bool> Fill(IterationContext& ctx) {
    while (at_ == rows_) {
      at_ = rows_ = 0;
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, batch_));
      if (!more) return false;
      FORMWORK_ASSIGN_OR_RETURN(rows_, RowsOf(batch_));
    }
    return true;
  }

  // A batch without rows. As in TensorFlow there is one until the input has said that it has ended.
  absl::StatusOr<bool> Nothing(IterationContext& ctx, Element& element) {
    if (it_.at_end()) return false;
    if (batch_.empty()) FORMWORK_RETURN_IF_ERROR(Fill(ctx).status());
    for (size_t c = 0; c < spec_.dtypes.size(); ++c) {
      Dims dims = {0};
      for (int d = 1; !batch_.empty() && d < batch_[c].rank(); ++d)
        dims.push_back(batch_[c].dim(d));
      // Of what never comes the spec says what it would be.
      for (int d = 1; batch_.empty() && d < spec_.shapes[c].rank(); ++d) {
        dims.push_back(std::max<int64_t>(spec_.shapes[c].dim(d), 0));
      }
      FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
      FORMWORK_ASSIGN_OR_RETURN(Tensor none,
                                Tensor::Allocate(ctx.allocator(), spec_.dtypes[c], shape));
      element.push_back(std::move(none));
    }
    return true;
  }

  Iterator it_;
  const ElementSpec spec_;
  const std::vector<int64_t> sizes_;
  const bool drop_remainder_;
  size_t turn_ = 0;  // Whose size is the next batch's.
  Element batch_;
  int64_t rows_ = 0, at_ = 0;  // Of the batch.
};

// Input 1: a size, or several, which take turns.
absl::StatusOr<std::vector<int64_t>> BatchSizes(KernelContext& ctx) {
  const Tensor& sizes = ctx.input(1);
  if (sizes.rank() > 1) return InvalidArgument("`batch_sizes` must be a scalar or a vector");
  if (sizes.num_elements() == 0) return InvalidArgument("`batch_sizes` must not be empty");
  const absl::Span<const int64_t> all = sizes.span<int64_t>();
  if (std::all_of(all.begin(), all.end(), [](int64_t size) { return size == 0; }) ||
      std::any_of(all.begin(), all.end(), [](int64_t size) { return size < 0; })) {
    return InvalidArgument("`batch_sizes` must be >= 0, and one of them > 0");
  }
  return std::vector<int64_t>(all.begin(), all.end());
}

absl::StatusOr<KernelFn> MakeRebatch(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  return DatasetKernel(init, [spec](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, BatchSizes(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const bool drop, ScalarInput<bool>(ctx, 2, "drop_remainder"));
    FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(spec.dtypes, input->spec.dtypes));
    return NewDataset(spec, Dataset::kUnknown, [=](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn::Of<Rebatcher>(std::move(it), spec, sizes, drop);
    });
  });
}

// The first version: each batch in as many parts as there are replicas, the last ones of which may
// be smaller or without rows.
class Divider {
 public:
  Divider(Iterator it, int64_t parts) : it_(std::move(it)), parts_(parts), part_(parts) {}

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    if (part_ == parts_) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, batch_));
      if (!more) return false;
      FORMWORK_ASSIGN_OR_RETURN(rows_, RowsOf(batch_));
      part_ = 0;
    }
    const int64_t size = rows_ / parts_ + (rows_ % parts_ != 0);
    // In rows, so that what follows cannot overflow.
    const int64_t begin = size == 0 || part_ > rows_ / size ? rows_ : part_ * size;
    for (const Tensor& component : batch_) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor part, SliceAlong(ctx.allocator(), component, 0, begin,
                                                        std::min(size, rows_ - begin)));
      element.push_back(std::move(part));
    }
    ++part_;
    return true;
  }

  absl::Status Keep(Position& position) {
    FORMWORK_RETURN_IF_ERROR(position.Keep(it_, batch_, rows_));
    if (position.reads() && !batch_.empty()) {
      FORMWORK_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(batch_));
      if (rows_ != rows) return position.Unfit();
    }
    FORMWORK_RETURN_IF_ERROR(position.KeepUpTo(static_cast<uint64_t>(parts_), part_));
    // Of no batch there is nothing to divide.
    return position.reads() && batch_.empty() && part_ != parts_ ? position.Unfit()
                                                                 : absl::OkStatus();
  }

 private:
  Iterator it_;
  const int64_t parts_;
  Element batch_;
  int64_t rows_ = 0;
  int64_t part_;  // Which is next.
};

absl::StatusOr<KernelFn> MakeDivide(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  return DatasetKernel(init, [spec](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t parts, ScalarInput<int64_t>(ctx, 1, "num_replicas"));
    if (parts <= 0) return InvalidArgument("num_replicas must be greater than zero.");
    FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(spec.dtypes, input->spec.dtypes));
    return NewDataset(spec, Dataset::kUnknown, [=](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn::Of<Divider>(std::move(it), parts);
    });
  });
}

}  // namespace

void RegisterRebatchDatasets(KernelRegistry& registry) {
  registry.Add("RebatchDataset", MakeDivide);
  registry.Add("RebatchDatasetV2", MakeRebatch);
}

}  // namespace formwork
