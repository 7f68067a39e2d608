// CTCBeamSearchDecoder: of all texts those that are likely by the sum of their paths (Graves,
// "Supervised sequence labelling with recurrent neural networks", 7.5), as far as the beam reaches.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/hash_map.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/nn/nn_ctc.h"

namespace formwork {
namespace {

// How likely a text is by paths that end with a blank, by those that end with its last label, and
// by both.
template <typename T>
struct Likelihood {
  T total = kNever<T>, blank = kNever<T>, label = kNever<T>;
};

// A text: its parent's and one label more. The first one, the root, is empty.
template <typename T>
struct Node {
  int64_t parent = -1;
  int64_t label = -1;
  int64_t children = 0;
  int64_t uses = 0;  // As a leaf, or in the step at hand.
  Likelihood<T> before, now;
};

// Texts by their numbers. One that nobody uses and that no other one continues is given up, so that
// there are no more than those of the beam and what they begin with.
template <typename T>
class Texts {
 public:
  Texts() { nodes_.emplace_back(); }

  Node<T>& operator[](int64_t i) { return nodes_[static_cast<size_t>(i)]; }
  const Node<T>& operator[](int64_t i) const { return nodes_[static_cast<size_t>(i)]; }

  // -1 where there is none.
  int64_t Child(int64_t parent, int64_t label) const {
    if ((*this)[parent].children == 0) return -1;
    const auto found = children_.find({parent, label});
    return found == children_.end() ? -1 : found->second;
  }
  // One that is not there yet.
  int64_t AddChild(int64_t parent, int64_t label) {
    int64_t added = static_cast<int64_t>(nodes_.size());
    if (free_.empty()) {
      nodes_.emplace_back();
    } else {
      added = free_.back();
      free_.pop_back();
      (*this)[added] = Node<T>();
    }
    (*this)[added].parent = parent;
    (*this)[added].label = label;
    ++(*this)[parent].children;
    children_.emplace(std::make_pair(parent, label), added);
    return added;
  }

  void Use(int64_t i) { ++(*this)[i].uses; }
  void Release(int64_t i) {
    --(*this)[i].uses;
    while (i > 0 && (*this)[i].uses == 0 && (*this)[i].children == 0) {
      const int64_t parent = (*this)[i].parent;
      children_.erase({parent, (*this)[i].label});
      free_.push_back(i);
      --(*this)[parent].children;
      i = parent;
    }
  }

 private:
  std::vector<Node<T>> nodes_;
  std::vector<int64_t> free_;
  HashMap<std::pair<int64_t, int64_t>, int64_t> children_;
};

// The likeliest `limit` of the texts that are added, kept as TensorFlow keeps them, so that of few
// equals the same come first (many are sorted otherwise by its library): as they come, with the
// last one at the front once it has been asked for, and as a heap from where one is too many.
template <typename T>
class Leaves {
 public:
  Leaves(Texts<T>& texts, int64_t limit) : texts_(texts), limit_(limit) {}

  int64_t size() const { return static_cast<int64_t>(leaves_.size()); }
  bool full() const { return size() == limit_; }
  const std::vector<int64_t>& unsorted() const { return leaves_; }

  // The least likely one; there is one.
  int64_t Last() {
    if (state_ == kUnordered) {
      size_t last = 0;
      for (size_t i = 1; i < leaves_.size(); ++i) {
        if (Above(leaves_[last], leaves_[i])) last = i;
      }
      std::swap(leaves_[0], leaves_[last]);
      state_ = kLastInFront;
    }
    return leaves_.front();
  }

  // Takes a use of `text`. Where one is too many, it is given up.
  void Add(int64_t text) {
    const auto above = [this](int64_t a, int64_t b) { return Above(a, b); };
    texts_.Use(text);
    if (state_ == kHeap) {
      if (!Above(text, leaves_.front())) return texts_.Release(text);
      leaves_.push_back(text);
      std::push_heap(leaves_.begin(), leaves_.end(), above);
    } else {
      leaves_.push_back(text);
      if (state_ == kLastInFront && !Above(text, leaves_.front())) {
        std::swap(leaves_.front(), leaves_.back());
      }
      if (size() <= limit_) return;
      std::make_heap(leaves_.begin(), leaves_.end(), above);
      state_ = kHeap;
    }
    std::pop_heap(leaves_.begin(), leaves_.end(), above);
    texts_.Release(leaves_.back());
    leaves_.pop_back();
  }

  // All of them, the likeliest first, with their uses; none is left.
  std::vector<int64_t> Take() {
    const auto above = [this](int64_t a, int64_t b) { return Above(a, b); };
    std::vector<int64_t> taken = std::exchange(leaves_, {});
    if (state_ == kHeap) {
      std::sort_heap(taken.begin(), taken.end(), above);
    } else {
      std::sort(taken.begin(), taken.end(), above);
    }
    state_ = kUnordered;
    return taken;
  }

 private:
  enum State : uint8_t { kUnordered, kLastInFront, kHeap };

  // NaN comes after all others: an order it has to be.
  bool Above(int64_t a, int64_t b) const {
    const T x = texts_[a].now.total, y = texts_[b].now.total;
    return x > y || (std::isnan(y) && !std::isnan(x));
  }

  Texts<T>& texts_;
  const int64_t limit_;
  std::vector<int64_t> leaves_;
  State state_ = kUnordered;
};

// Of one of the batch.
template <typename T>
class BeamSearch {
 public:
  BeamSearch(int64_t classes, int64_t beam_width)
      : classes_(classes), blank_(classes - 1), leaves_(texts_, beam_width) {
    texts_[0].now.total = texts_[0].now.blank = 0;
    leaves_.Add(0);
  }

  // One step's row of logits. Where the work is cut nothing follows.
  void Step(const T* logits) {
    const T norm = LogOfSumOf(logits);
    const std::vector<int64_t> branches = leaves_.Take();
    for (const int64_t i : branches) texts_[i].before = texts_[i].now;
    for (size_t i = 0; i < branches.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i))) return;
      Stay(branches[i], logits, norm);
      leaves_.Add(branches[i]);
    }
    for (const int64_t i : branches) {
      if (IsCandidate(texts_[i].before.total)) Grow(i, logits, norm);
      if (WorkIsCut()) return;
    }
    for (const int64_t i : branches) texts_.Release(i);
  }

  // The likeliest `n`, with `log_probabilities` for each. Errors: kInvalidArgument if there are
  // not so many.
  absl::StatusOr<CtcSequences> Best(int64_t n, bool merge, T* log_probabilities) {
    if (n > leaves_.size())
      return InvalidArgument("Less leaves in the beam search than requested.");
    Leaves<T> top(texts_, n);
    for (const int64_t i : leaves_.unsorted()) top.Add(i);
    CtcSequences best;
    for (const int64_t i : top.Take()) {
      best.push_back(LabelsOf(i, merge));
      *log_probabilities++ = texts_[i].now.total;
    }
    return best;
  }

 private:
  // What the logits are to be less so that they are logarithms of probabilities.
  T LogOfSumOf(const T* logits) const {
    const T largest = *std::max_element(logits, logits + classes_);
    T sum = 0;
    for (int64_t c = 0; c < classes_; ++c) sum += std::exp(logits[c] - largest);
    return largest + std::log(sum);
  }

  // The paths of a text that a step leaves as it is: a blank, or its last label, which may be the
  // one that makes it of its parent.
  void Stay(int64_t i, const T* logits, T norm) {
    Node<T>& text = texts_[i];
    if (i > 0) {
      const Node<T>& parent = texts_[text.parent];
      if (parent.now.total != kNever<T>) {
        const T previous = text.label == parent.label ? parent.before.blank : parent.before.total;
        text.now.label = LogOfSum(text.now.label, previous);
      }
      text.now.label += logits[text.label] - norm;
    }
    text.now.blank = text.before.total + logits[blank_] - norm;
    text.now.total = LogOfSum(text.now.blank, text.now.label);
  }

  bool IsCandidate(T total) {
    if (!(total > kNever<T>)) return false;
    return !leaves_.full() || total > texts_[leaves_.Last()].now.total;
  }

  // The texts that a step makes of one by another label.
  void Grow(int64_t i, const T* logits, T norm) {
    for (int64_t label = 0; label < blank_; ++label) {
      if (WorkIsCutAt(label)) return;
      int64_t child = texts_.Child(i, label);
      if (child >= 0 && texts_[child].now.total != kNever<T>) continue;
      const Likelihood<T>& before = texts_[i].before;
      const T total =
          logits[label] - norm + (label == texts_[i].label ? before.blank : before.total);
      if (!IsCandidate(total)) {
        // One that this step has pushed out does not grow either, as in TensorFlow.
        if (child >= 0) texts_[child].before = texts_[child].now = {};
        continue;
      }
      if (child < 0) child = texts_.AddChild(i, label);
      texts_[child].now = {.total = total, .blank = kNever<T>, .label = total};
      // What others make of it in this step, as its parent or its child, is to see that it is gone.
      if (leaves_.full()) texts_[leaves_.Last()].now = {};
      leaves_.Add(child);
    }
  }

  std::vector<int64_t> LabelsOf(int64_t i, bool merge) const {
    std::vector<int64_t> labels;
    for (int64_t after = -1; i > 0; i = texts_[i].parent) {
      const int64_t label = texts_[i].label;
      if (!merge || label != after) labels.push_back(label);
      after = label;
    }
    std::reverse(labels.begin(), labels.end());
    return labels;
  }

  const int64_t classes_, blank_;
  Texts<T> texts_;
  Leaves<T> leaves_;
};

template <typename T>
absl::Status Decode(KernelContext& ctx, const CtcBeamAttrs& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const CtcGeometry geometry, CheckCtcDecoder(ctx));
  const int64_t batch = geometry.batch, classes = geometry.classes, paths = attrs.top_paths;
  if (paths > attrs.beam_width) {
    return InvalidArgument("requested more paths than the beam width.");
  }
  const int n = static_cast<int>(paths);
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const log_probability,
                            ctx.AllocateOutput(3 * n, DTypeOf<T>::value, Shape{batch, paths}));
  const T* const inputs = ctx.input(0).data<T>();
  const int32_t* const lengths = ctx.input(1).data<int32_t>();
  T* const to = log_probability->mutable_data<T>();
  std::vector<absl::StatusOr<CtcSequences>> best(static_cast<size_t>(batch), CtcSequences());
  ParallelFor(batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      BeamSearch<T> search(classes, attrs.beam_width);
      for (int64_t t = 0; t < lengths[b]; ++t) {
        search.Step(inputs + (t * batch + b) * classes);
        if (WorkIsCut()) return;
      }
      best[b] = search.Best(paths, attrs.merge_repeated, to + b * paths);
    }
  });
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  for (const absl::StatusOr<CtcSequences>& of_one : best) {
    FORMWORK_RETURN_IF_ERROR(of_one.status());
  }
  for (int p = 0; p < n; ++p) {
    CtcSequences decoded;
    for (absl::StatusOr<CtcSequences>& of_one : best) decoded.push_back(std::move((*of_one)[p]));
    FORMWORK_RETURN_IF_ERROR(WriteCtcSequences(ctx, decoded, p, n + p, 2 * n + p));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeDecode(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CtcBeamAttrs attrs, CtcBeamAttrs::FromAttrs(init.attrs()));
  if (init.input_dtypes()[0] == DType::kDouble) {
    return KernelFn([attrs](KernelContext& ctx) { return Decode<double>(ctx, attrs); });
  }
  return KernelFn([attrs](KernelContext& ctx) { return Decode<float>(ctx, attrs); });
}

}  // namespace

void AddCtcBeamSearchKernel(KernelRegistry& registry) {
  registry.Add("CTCBeamSearchDecoder", MakeDecode);
}

}  // namespace formwork
