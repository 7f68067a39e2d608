#pragma once

// The files of the server's certificate, which are read again when they change: certificates that
// are renewed every few weeks must not need a restart.

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace formwork::server {

/// What TLS is done with, as texts in PEM.
struct TlsIdentity {
  std::string certificates;  ///< The server's, then those that lead to its CA.
  std::string key;           ///< Of the first of them.
  std::string client_ca;     ///< CAs of clients' certificates; empty: clients need none.

  bool operator==(const TlsIdentity&) const = default;
};

/// What is in the files, as of the last time that it made sense. Thread-safe. Has a thread, which
/// looks at them.
class TlsFiles {
 public:
  static constexpr absl::Duration kLookEvery = absl::Seconds(1);

  struct Paths {
    std::string cert;
    std::string key;
    std::string client_ca;  ///< Empty: there is none.
  };

  /// Errors: kFailedPrecondition, naming the flag and the file, where one cannot be read, is not
  /// PEM, or where the key is not the certificate's.
  static absl::StatusOr<std::unique_ptr<TlsFiles>> Open(Paths paths);
  ~TlsFiles();
  TlsFiles(const TlsFiles&) = delete;
  TlsFiles& operator=(const TlsFiles&) = delete;

  /// Another one where the files have changed, and two looks have found the same. What is broken
  /// changes nothing: it is logged, once, if it still is at the next look, for files are replaced
  /// one after the other.
  std::shared_ptr<const TlsIdentity> Newest() const;
  bool wants_client_certificates() const { return !paths_.client_ca.empty(); }

 private:
  TlsFiles(Paths paths, TlsIdentity identity);
  void Look();

  const Paths paths_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const TlsIdentity> newest_ ABSL_GUARDED_BY(mutex_);
  // Of the thread: what the last look that made sense has found; what was wrong at the last look,
  // if anything was, and whether that is logged.
  std::shared_ptr<const TlsIdentity> seen_;
  std::string complaint_;
  bool is_logged_ = false;
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace formwork::server
