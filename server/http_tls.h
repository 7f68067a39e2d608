#pragma once

// TLS of HTTP's connections, by GnuTLS, which libmicrohttpd is built with.

#include <gnutls/gnutls.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/tls_files.h"

namespace formwork::server {

/// What one connection is encrypted with: a TlsIdentity, as GnuTLS has it. Outlives the sessions
/// that use it. Thread-safe.
class HttpCredentials {
 public:
  /// Errors: kFailedPrecondition, where GnuTLS can do nothing with it.
  static absl::StatusOr<std::shared_ptr<const HttpCredentials>> Make(
      std::shared_ptr<const TlsIdentity> identity);
  ~HttpCredentials();
  HttpCredentials(const HttpCredentials&) = delete;
  HttpCredentials& operator=(const HttpCredentials&) = delete;

  const std::shared_ptr<const TlsIdentity>& identity() const { return identity_; }
  /// Before the session's handshake. Its client is asked for a certificate where there is a CA of
  /// them, and need not show one.
  void Use(gnutls_session_t session) const;
  /// After it: why the client is not let in, if it is not. Always OK where there is no CA of
  /// clients. Errors: kPermissionDenied.
  absl::Status CheckClient(gnutls_session_t session) const;

 private:
  explicit HttpCredentials(std::shared_ptr<const TlsIdentity> identity);

  const std::shared_ptr<const TlsIdentity> identity_;
  gnutls_certificate_credentials_t handle_ = nullptr;
};

/// The credentials for new connections. Not thread-safe.
class HttpTls {
 public:
  /// `files` outlives this. Errors: kFailedPrecondition, as HttpCredentials's.
  static absl::StatusOr<std::unique_ptr<HttpTls>> Open(const TlsFiles& files);

  /// Those of what is in the files now; of what was there before, where GnuTLS can do nothing with
  /// it, which is logged.
  std::shared_ptr<const HttpCredentials> Newest();

 private:
  HttpTls(const TlsFiles& files, std::shared_ptr<const HttpCredentials> credentials)
      : files_(files), credentials_(std::move(credentials)) {}

  const TlsFiles& files_;
  std::shared_ptr<const HttpCredentials> credentials_;
  std::shared_ptr<const TlsIdentity> refused_;  // The last that GnuTLS could do nothing with.
};

}  // namespace formwork::server
