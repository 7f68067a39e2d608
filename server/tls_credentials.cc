#include "server/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>

#include "core/base/memory_budget.h"
#include "core/base/status.h"

namespace formwork::server {
namespace {

// gRPC's C++ interface has certificates that are there for good, and those of a
// FileWatcherCertificateProvider, which leaves a server without any where a file is broken. Its C
// interface asks at each connection, and stays with what it has where it is given nothing usable.
class TlsCredentials final : public grpc::ServerCredentials {
 public:
  explicit TlsCredentials(const TlsFiles& files)
      : files_(files),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                files.wants_client_certificates()
                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                &TlsCredentials::Fetch, this))) {}
  ~TlsCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  // One at a time: gRPC has a lock for each port.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    const absl::Status fetched = CatchOutOfMemory([&] {
      *config = static_cast<TlsCredentials*>(self)->ConfigWhereNew();
      return absl::OkStatus();
    });
    if (!fetched.ok()) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    return *config == nullptr ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED
                              : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  grpc_ssl_server_certificate_config* ConfigWhereNew() {
    std::shared_ptr<const TlsIdentity> newest = files_.Newest();
    if (newest == given_) return nullptr;
    given_ = std::move(newest);
    const grpc_ssl_pem_key_cert_pair pair = {given_->key.c_str(), given_->certificates.c_str()};
    // gRPC asserts that there are roots also where it asks no client for a certificate.
    const std::string& roots = given_->client_ca.empty() ? given_->certificates : given_->client_ca;
    return grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
  }

  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  const TlsFiles& files_;
  std::shared_ptr<const TlsIdentity> given_;
  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const TlsFiles& files) {
  return std::make_shared<TlsCredentials>(files);
}

}  // namespace formwork::server
