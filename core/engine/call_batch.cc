// Calls that run together: how they find each other, and what each gets of what one has computed.

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "core/engine/batch_queue.h"
#include "core/engine/call_task.h"

namespace formwork {
namespace {

size_t RowBytes(const Tensor& tensor) {
  return tensor.bytes() / static_cast<size_t>(tensor.dim(0));
}

Shape WithRows(const Shape& shape, int64_t rows) {
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims[0] = rows;
  return Shape::Trusted(dims);
}

// Copies `rows` rows, whose shape both have, to memory that is `to`'s own.
void CopyRows(const Tensor& from, int64_t from_row, Tensor& to, int64_t to_row, int64_t rows) {
  if (from.dtype() == DType::kString) {
    const int64_t in_row = from.num_elements() / from.dim(0);
    std::copy_n(from.data<std::string>() + from_row * in_row, rows * in_row,
                to.mutable_data<std::string>() + to_row * in_row);
    return;
  }
  const size_t in_row = RowBytes(from);
  if (in_row == 0) return;
  std::memcpy(static_cast<char*>(to.mutable_raw()) + static_cast<size_t>(to_row) * in_row,
              static_cast<const char*>(from.raw()) + static_cast<size_t>(from_row) * in_row,
              static_cast<size_t>(rows) * in_row);
}

}  // namespace

bool BatchQueue::Join(std::shared_ptr<CallTask> call) {
  absl::MutexLock lock(&mutex_);
  if (leader_ == nullptr) {
    leader_ = call.get();
    return false;
  }
  line_.push_back(std::move(call));
  return true;
}

std::vector<std::shared_ptr<CallTask>> BatchQueue::Take(absl::FunctionRef<bool(CallTask&)> takes) {
  std::vector<std::shared_ptr<CallTask>> taken;
  absl::MutexLock lock(&mutex_);
  taken.reserve(std::min(line_.size(), static_cast<size_t>(max_rows_)));
  for (auto it = line_.begin(); it != line_.end() && taken.size() < taken.capacity();) {
    if (!takes(**it)) {
      ++it;
      continue;
    }
    taken.push_back(std::move(*it));
    it = line_.erase(it);
  }
  return taken;
}

void BatchQueue::Leave(const CallTask* call) {
  std::shared_ptr<CallTask> gone, next;
  {
    absl::MutexLock lock(&mutex_);
    if (leader_ != call) {
      const auto found = std::find_if(line_.begin(), line_.end(),
                                      [call](const auto& other) { return other.get() == call; });
      if (found == line_.end()) return;
      gone = std::move(*found);  // Whose last reference is not to go under the lock.
      line_.erase(found);
      return;
    }
    if (!line_.empty()) {
      next = std::move(line_.front());
      line_.pop_front();
    }
    leader_ = next.get();
  }
  if (next != nullptr) next->Lead();
}

absl::Status CheckBatches(const EngineFunction& function) {
  const auto has_rows = [](const TensorSpec& spec) {
    return spec.shape.known_rank() && !spec.shape.dims().empty() && spec.shape.dims()[0] < 0 &&
           (IsPlainData(spec.dtype) || spec.dtype == DType::kString);
  };
  for (const auto& [specs, what] :
       {std::pair(&function.inputs, "input"), std::pair(&function.outputs, "output")}) {
    for (const TensorSpec& spec : *specs) {
      if (has_rows(spec)) continue;
      return InvalidArgument("calls cannot run together: ", what, " '", spec.name,
                             "' has no rows, of which there may be any number: ",
                             DTypeName(spec.dtype), " ", spec.shape.ToString());
    }
  }
  if (function.inputs.empty()) return InvalidArgument("calls cannot run together: no input");
  if (function.program().last_effect >= 0 || !function.state.empty()) {
    return InvalidArgument("calls cannot run together: they have effects, or draw numbers");
  }
  const auto refuse_writes = [](const auto& resources) -> absl::Status {
    for (const auto& resource : resources) {
      if (resource.access != Access::kWrite) continue;
      return InvalidArgument("calls cannot run together: they write '", resource.name, "'");
    }
    return absl::OkStatus();
  };
  FORMWORK_RETURN_IF_ERROR(refuse_writes(function.resources));
  return refuse_writes(function.program().named_resources);
}

bool CallTask::JoinsBatch() {
  const EngineFunction& function = bound();
  if (function.batches == nullptr || !function.batches->is_on() || spec_.atomic || spec_.relaxed ||
      spec_.keep_outputs || recorder_ != nullptr) {
    return false;
  }
  rows_ = values_[0].dim(0);
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    if (values_[i].dim(0) != rows_) return false;
  }
  return rows_ > 0 && rows_ <= function.batches->max_rows();
}

bool CallTask::WaitsInLine() {
  if (!JoinsBatch()) return false;
  // What is quick on the host is done before another thread would have begun with it.
  if (!engine_.streams_ && runs_inline()) return false;
  batch_kind_ = BatchKind();
  in_line_ = true;
  return bound().batches->Join(std::static_pointer_cast<CallTask>(shared_from_this()));
}

void CallTask::LeaveLine() {
  if (std::exchange(in_line_, false)) bound().batches->Leave(this);
}

std::vector<uint64_t> CallTask::BatchKind() {
  std::vector<uint64_t> kind;
  for (size_t i = 0; i < bound().inputs.size(); ++i) {
    const auto row = values_[i].shape().dims().subspan(1);  // Of a rank that all of them have.
    kind.insert(kind.end(), row.begin(), row.end());
  }
  for (const BoundResource& resource : bound().resources) {
    if (resource.access != Access::kNone) kind.push_back(ticket_.ReadVersion({resource.id}));
  }
  return kind;
}

void CallTask::GatherBatch() {
  const absl::Status stacked = HoldToBudget(engine_.memory_, [this]() -> absl::Status {
    int64_t rows = rows_;
    members_ = bound().batches->Take([&](CallTask& call) {
      const bool takes = rows + call.rows_ <= bound().batches->max_rows() &&
                         call.batch_kind_ == batch_kind_ && call.ClaimWaiting();
      if (takes) rows += call.rows_;
      return takes;
    });
    return members_.empty() ? absl::OkStatus() : StackInputs(rows);
  });
  if (!stacked.ok()) RunMembersAlone();
}

absl::Status CallTask::StackInputs(int64_t rows) {
  std::vector<Tensor> stacked;
  for (size_t i = 0; i < bound().inputs.size(); ++i) {
    const Tensor& mine = values_[i];
    FORMWORK_ASSIGN_OR_RETURN(Tensor all, Tensor::Allocate(engine_.allocator_, mine.dtype(),
                                                           WithRows(mine.shape(), rows)));
    CopyRows(mine, 0, all, 0, rows_);
    int64_t row = rows_;
    for (const std::shared_ptr<CallTask>& member : members_) {
      CopyRows(member->values_[i], 0, all, row, member->rows_);
      row += member->rows_;
    }
    stacked.push_back(std::move(all));
  }
  own_inputs_.assign(values_.begin(), values_.begin() + static_cast<ptrdiff_t>(stacked.size()));
  std::move(stacked.begin(), stacked.end(), values_.begin());
  work_ = 0;  // Of all of them, which the next call has not.
  return absl::OkStatus();
}

absl::Status CallTask::DealOut(std::vector<Tensor> outputs) {
  int64_t rows = rows_;
  for (const std::shared_ptr<CallTask>& member : members_) rows += member->rows_;
  std::vector<std::pair<CallTask*, std::vector<Tensor>>> parts = {{this, {}}};
  for (const std::shared_ptr<CallTask>& member : members_) parts.push_back({member.get(), {}});
  for (const Tensor& all : outputs) {
    if (all.rank() == 0 || all.dim(0) != rows) {
      bound().batches->SwitchOff();
      return Internal("a batch of ", rows, " rows has an output of the shape ",
                      all.shape().ToString());
    }
    int64_t row = 0;
    for (auto& [call, part] : parts) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor own, Tensor::Allocate(engine_.allocator_, all.dtype(),
                                                             WithRows(all.shape(), call->rows_)));
      CopyRows(all, row, own, 0, call->rows_);
      row += call->rows_;
      part.push_back(std::move(own));
    }
  }
  for (auto& [call, part] : parts) call->values_ = std::move(part);
  return absl::OkStatus();
}

void CallTask::AnswerMembers() {
  if (members_.empty()) return;
  engine_.batches_.fetch_add(1, std::memory_order_relaxed);
  engine_.batched_calls_.fetch_add(members_.size() + 1, std::memory_order_relaxed);
  const uint64_t position = ticket_.log_position();
  for (const std::shared_ptr<CallTask>& member : std::exchange(members_, {})) {
    member->NoteLogged(position);  // What it tells of is what this one has read.
    member->result_.status = CatchOutOfMemory([&] { return member->TakeOutputs(); });
    if (!member->result_.status.ok()) {
      member->DropKept();
      member->result_.details.effects = Effects::kNone;
    }
    member->ticket_.ReleaseAll();
    member->Answer();
  }
}

void CallTask::RefuseOthers(const absl::Status& status) {
  LeaveLine();
  for (const std::shared_ptr<CallTask>& member : std::exchange(members_, {})) {
    if (!member->ticket_.Abandon()) member->ticket_.ReleaseAll();
    member->Refuse(status);
  }
}

void CallTask::RunMembersAlone() {
  for (const std::shared_ptr<CallTask>& member : std::exchange(members_, {})) {
    member->LeaveLine();
    member->Requeue();
  }
}

}  // namespace formwork
