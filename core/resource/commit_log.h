#pragma once

// CommitLog: where what calls change goes, in the order in which others see it, when it is to
// outlive the process.
//
// A call hands over what it has changed, all of it at once, before it gives back the places that it
// wrote by. So whoever sees a change comes behind it in the log, and waits, before it answers, for
// no more than the last position that it has seen.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor/tensor.h"

namespace formwork {

class Resource;

/// A resource as a call has left it.
struct ResourceCommit {
  std::shared_ptr<Resource> resource;
  uint64_t version = 0;
  Tensor value = {};  ///< Shared; without value where it is uninitialised.
  Tensor rows = {};   ///< Where it has a value, int64: `value` is of these rows alone, ascending,
                      ///< of a copy, and the others are as they were.
  bool removed = false;  ///< It is no more.
};

/// What is to be durable with the changes of a record, such as what the request was answered: known
/// to the log and to who made it.
class CommitAttachment {
 public:
  virtual ~CommitAttachment() = default;
};

/// What becomes durable at once: of a call, a write of variables, the making or removal of some.
struct CommitRecord {
  std::vector<ResourceCommit> resources;
  std::unique_ptr<CommitAttachment> attachment = nullptr;
};

/// Thread-safe.
class CommitLog {
 public:
  virtual ~CommitLog() = default;
  /// Its position: one more than that of the one before, from 1 on. Waits for nothing. What is of
  /// a resource that has been removed is left out.
  virtual uint64_t Append(CommitRecord record) = 0;
};

}  // namespace formwork
