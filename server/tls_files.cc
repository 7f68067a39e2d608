#include "server/tls_files.h"

#include <fcntl.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "server/unique_fd.h"
#include "spdlog/spdlog.h"

namespace formwork::server {
namespace {

// No file of certificates is larger; what is, may have no end.
constexpr size_t kMostFileBytes = 1 << 20;

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* made) const {
    free(made);
  }
};
using Bio = std::unique_ptr<BIO, Freed<&BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<&X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freed<&EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<&SSL_CTX_free>>;

struct PemFile {
  const char* flag;
  const std::string& path;

  template <typename... Text>
  absl::Status Refused(const Text&... text) const {
    return FailedPrecondition(flag, "=", path, ": ", text...);
  }
};

absl::StatusOr<std::string> ReadText(const PemFile& file) {
  // What is no file, as a pipe, could be read once, and be waited for.
  const UniqueFd opened(open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (opened.get() < 0 || fstat(opened.get(), &about) != 0) {
    return file.Refused("cannot be read: ", std::strerror(errno));
  }
  if (!S_ISREG(about.st_mode)) return file.Refused("is not a file");
  std::string text;
  char piece[4096];
  while (true) {
    const ssize_t size = read(opened.get(), piece, sizeof(piece));
    if (size < 0) return file.Refused("cannot be read: ", std::strerror(errno));
    if (size == 0) return text;
    text.append(piece, static_cast<size_t>(size));
    if (text.size() > kMostFileBytes) return file.Refused("is larger than a megabyte");
  }
}

Bio BioOf(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Else OpenSSL would ask for one on the terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*unused*/) { return -1; }

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const PemFile& file,
                                                           const std::string& text) {
  const Bio bio = BioOf(text);
  std::vector<Certificate> certificates;
  ERR_clear_error();
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, &NoPassphrase, nullptr)) {
    certificates.emplace_back(next);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) return file.Refused("certificate ", certificates.size() + 1, " in it is broken");
  if (certificates.empty()) return file.Refused("no certificate in PEM is in it");
  return certificates;
}

absl::StatusOr<PrivateKey> ParseKey(const PemFile& file, const std::string& text) {
  PrivateKey key(PEM_read_bio_PrivateKey(BioOf(text).get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return file.Refused("no private key in PEM, without a passphrase, is in it");
  }
  return key;
}

// Whether TLS takes the two: not, for one, where they are too short.
absl::Status CheckPair(const PemFile& cert, X509& certificate, const PemFile& key,
                       EVP_PKEY& private_key) {
  absl::Status checked;
  const Context context(SSL_CTX_new(TLS_server_method()));
  ERR_clear_error();
  const auto reason = [] {
    const char* const text = ERR_reason_error_string(ERR_peek_last_error());
    return text == nullptr ? "no reason given" : text;
  };
  if (X509_check_private_key(&certificate, &private_key) != 1) {
    checked = key.Refused("is not the key of the certificate in ", cert.flag, "=", cert.path);
  } else if (context == nullptr || SSL_CTX_use_certificate(context.get(), &certificate) != 1) {
    checked = cert.Refused("TLS cannot be done with the certificate: ", reason());
  } else if (SSL_CTX_use_PrivateKey(context.get(), &private_key) != 1) {
    checked = key.Refused("TLS cannot be done with the key: ", reason());
  }
  ERR_clear_error();
  return checked;
}

absl::Time EndOf(const X509& certificate) {
  std::tm end{};
  ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &end);
  return absl::FromTM(end, absl::UTCTimeZone());
}

// With the time at which the certificate expires.
absl::StatusOr<std::pair<TlsIdentity, absl::Time>> ReadIdentity(const TlsFiles::Paths& paths) {
  const PemFile cert{"--tls-cert", paths.cert}, key{"--tls-key", paths.key},
      client_ca{"--tls-client-ca", paths.client_ca};
  TlsIdentity identity;
  FORMWORK_ASSIGN_OR_RETURN(identity.certificates, ReadText(cert));
  FORMWORK_ASSIGN_OR_RETURN(identity.key, ReadText(key));
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<Certificate> certificates,
                            ParseCertificates(cert, identity.certificates));
  FORMWORK_ASSIGN_OR_RETURN(const PrivateKey private_key, ParseKey(key, identity.key));
  FORMWORK_RETURN_IF_ERROR(CheckPair(cert, *certificates[0], key, *private_key));
  if (!paths.client_ca.empty()) {
    FORMWORK_ASSIGN_OR_RETURN(identity.client_ca, ReadText(client_ca));
    FORMWORK_RETURN_IF_ERROR(ParseCertificates(client_ca, identity.client_ca).status());
  }
  return std::make_pair(std::move(identity), EndOf(*certificates[0]));
}

void LogIdentity(const TlsFiles::Paths& paths, absl::Time end) {
  const std::string until = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", end, absl::UTCTimeZone());
  if (end <= absl::Now()) {
    return spdlog::warn("--tls-cert={}: the certificate has expired: {}", paths.cert, until);
  }
  spdlog::info("--tls-cert={}: a certificate until {}", paths.cert, until);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsFiles>> TlsFiles::Open(Paths paths) {
  FORMWORK_ASSIGN_OR_RETURN(auto read, ReadIdentity(paths));
  LogIdentity(paths, read.second);
  return std::unique_ptr<TlsFiles>(new TlsFiles(std::move(paths), std::move(read.first)));
}

TlsFiles::TlsFiles(Paths paths, TlsIdentity identity)
    : paths_(std::move(paths)),
      newest_(std::make_shared<const TlsIdentity>(std::move(identity))),
      thread_([this] {
        while (!stop_.WaitForNotificationWithTimeout(kLookEvery)) {
          CatchOutOfMemory([this] {
            Look();
            return absl::OkStatus();
          }).IgnoreError();
        }
      }) {}

TlsFiles::~TlsFiles() {
  stop_.Notify();
  thread_.join();
}

std::shared_ptr<const TlsIdentity> TlsFiles::Newest() const {
  absl::MutexLock lock(&mutex_);
  return newest_;
}

// The texts are compared, and no times of files: what changes twice at once may have one.
void TlsFiles::Look() {
  absl::StatusOr<std::pair<TlsIdentity, absl::Time>> read = ReadIdentity(paths_);
  if (!read.ok()) {
    const absl::string_view complaint = read.status().message();
    if (complaint != complaint_) {
      complaint_ = std::string(complaint);
      is_logged_ = false;
    } else if (!std::exchange(is_logged_, true)) {
      spdlog::error("{}: what was read before goes on", complaint_);
    }
    return;
  }
  complaint_.clear();
  // A file that ends behind one of its certificates may not have been written to its end.
  if (seen_ == nullptr || read->first != *seen_) {
    seen_ = std::make_shared<const TlsIdentity>(std::move(read->first));
    return;
  }
  if (*seen_ == *Newest()) return;
  LogIdentity(paths_, read->second);
  absl::MutexLock lock(&mutex_);
  newest_ = seen_;
}

}  // namespace formwork::server
