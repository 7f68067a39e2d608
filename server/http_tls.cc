#include "server/http_tls.h"

#include <gnutls/x509.h>

#include <string>
#include <utility>

#include "core/base/status.h"
#include "spdlog/spdlog.h"

namespace formwork::server {
namespace {

gnutls_datum_t DatumOf(const std::string& text) {
  return {reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())),
          static_cast<unsigned>(text.size())};
}

absl::Status ClientRefused(absl::string_view why) {
  return absl::PermissionDeniedError(
      absl::StrCat("show a client certificate that a CA of the server's has signed: ", why));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const HttpCredentials>> HttpCredentials::Make(
    std::shared_ptr<const TlsIdentity> identity) {
  std::shared_ptr<HttpCredentials> made(new HttpCredentials(std::move(identity)));
  const gnutls_datum_t certificates = DatumOf(made->identity_->certificates);
  const gnutls_datum_t key = DatumOf(made->identity_->key);
  int code = gnutls_certificate_allocate_credentials(&made->handle_);
  if (code >= 0) {
    code = gnutls_certificate_set_x509_key_mem2(made->handle_, &certificates, &key,
                                                GNUTLS_X509_FMT_PEM, nullptr, 0);
  }
  if (code < 0) {
    return FailedPrecondition("--tls-cert, --tls-key: HTTPS cannot be done with them: ",
                              gnutls_strerror(code));
  }
  if (!made->identity_->client_ca.empty()) {
    const gnutls_datum_t client_ca = DatumOf(made->identity_->client_ca);
    code = gnutls_certificate_set_x509_trust_mem(made->handle_, &client_ca, GNUTLS_X509_FMT_PEM);
    if (code <= 0) {
      return FailedPrecondition("--tls-client-ca: HTTPS cannot be done with it: ",
                                gnutls_strerror(code));
    }
  }
  return made;
}

HttpCredentials::HttpCredentials(std::shared_ptr<const TlsIdentity> identity)
    : identity_(std::move(identity)) {}

HttpCredentials::~HttpCredentials() {
  if (handle_ != nullptr) gnutls_certificate_free_credentials(handle_);
}

void HttpCredentials::Use(gnutls_session_t session) const {
  gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, handle_);
  if (!identity_->client_ca.empty()) {
    gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
  }
}

absl::Status HttpCredentials::CheckClient(gnutls_session_t session) const {
  if (identity_->client_ca.empty()) return absl::OkStatus();
  // As gRPC has it: a certificate may be for servers alone.
  gnutls_typed_vdata_st purpose = {
      GNUTLS_DT_KEY_PURPOSE_OID,
      reinterpret_cast<unsigned char*>(const_cast<char*>(GNUTLS_KP_TLS_WWW_CLIENT)), 0};
  unsigned status = 0;
  const int code = gnutls_certificate_verify_peers(session, &purpose, 1, &status);
  if (code == GNUTLS_E_NO_CERTIFICATE_FOUND) return ClientRefused("there is none");
  if (code < 0) return ClientRefused(gnutls_strerror(code));
  if (status == 0) return absl::OkStatus();
  gnutls_datum_t text{};
  if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) < 0) {
    return ClientRefused("it is not valid");
  }
  const absl::Status refused =
      ClientRefused(absl::string_view(reinterpret_cast<const char*>(text.data), text.size));
  gnutls_free(text.data);
  return refused;
}

absl::StatusOr<std::unique_ptr<HttpTls>> HttpTls::Open(const TlsFiles& files) {
  FORMWORK_ASSIGN_OR_RETURN(auto credentials, HttpCredentials::Make(files.Newest()));
  return std::unique_ptr<HttpTls>(new HttpTls(files, std::move(credentials)));
}

std::shared_ptr<const HttpCredentials> HttpTls::Newest() {
  std::shared_ptr<const TlsIdentity> newest = files_.Newest();
  if (newest == credentials_->identity() || newest == refused_) return credentials_;
  absl::StatusOr<std::shared_ptr<const HttpCredentials>> made = HttpCredentials::Make(newest);
  if (made.ok()) return credentials_ = *std::move(made);
  spdlog::error("{}: what was read before goes on", std::string(made.status().message()));
  refused_ = std::move(newest);
  return credentials_;
}

}  // namespace formwork::server
