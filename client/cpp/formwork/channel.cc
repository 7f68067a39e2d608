#include "formwork/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace formwork::client {
namespace {

constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";
constexpr char kServing[] = "\x08\x01";  // A HealthCheckResponse of status SERVING.

// What gRPC says of a connection that the other side has closed.
constexpr char kClosed[] = "Socket closed";
// For so long a server that closes connections may be one that is just ending.
constexpr absl::Duration kEnding = absl::Seconds(1);
// Most time of a look at what is on the other side.
constexpr absl::Duration kLook = absl::Seconds(2);

using Credentials = std::shared_ptr<grpc::ChannelCredentials>;

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  if (path.empty()) return "";
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char piece[4096];
  while (file.read(piece, sizeof(piece)) || file.gcount() > 0) {
    text.append(piece, static_cast<size_t>(file.gcount()));
  }
  if (file.is_open() && !file.bad() && !text.empty()) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("TLS: cannot read ", path, ": ", errno == 0 ? "empty" : std::strerror(errno)));
}

absl::StatusOr<Credentials> CredentialsOf(const std::string& target, const ClientOptions& options) {
  if (!options.tls) return grpc::InsecureChannelCredentials();
  const Tls& tls = *options.tls;
  if (absl::StartsWith(target, "unix:")) {
    return absl::InvalidArgumentError("TLS: the server's UNIX socket is not encrypted");
  }
  if (tls.cert.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError("TLS: a certificate and its key go together");
  }
  grpc::SslCredentialsOptions made;
  const std::pair<const std::string&, std::string&> files[] = {
      {tls.ca, made.pem_root_certs},
      {tls.cert, made.pem_cert_chain},
      {tls.key, made.pem_private_key},
  };
  for (const auto& [path, text] : files) {
    absl::StatusOr<std::string> read = ReadPem(path);
    if (!read.ok()) return read.status();
    text = *std::move(read);
  }
  return grpc::SslCredentials(made);
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target, const ClientOptions& options,
                                           const Credentials& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kErrorRoom);
  // A server that comes back is found again soon.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);  // What an attempt may take.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

// Whether it serves, where the status is OK.
grpc::Status AskHealth(grpc::Channel* channel, absl::Time deadline, bool* serves) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(deadline));
  const grpc::ByteBuffer request(nullptr, 0);
  grpc::ByteBuffer response;
  grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel, grpc::internal::RpcMethod(kHealthMethod, grpc::internal::RpcMethod::NORMAL_RPC),
      &context, request, &response);
  grpc::Slice answer;
  *serves = status.ok() && response.DumpToSingleSlice(&answer).ok() &&
            std::string(answer.begin(), answer.end()) == kServing;
  return status;
}

// Takes any certificate, and notes that one was shown: that a TLS handshake has come so far.
class HandshakeNote final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit HandshakeNote(std::shared_ptr<std::atomic<bool>> shown) : shown_(std::move(shown)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* /*request*/,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* sync_status) override {
    *shown_ = true;
    *sync_status = grpc::Status::OK;
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const std::shared_ptr<std::atomic<bool>> shown_;
};

// Whether a certificate is shown there. What accepts connections and closes them, as a balancer
// without a server behind it, shows none.
bool SpeaksTls(const std::string& target, const ClientOptions& options, absl::Time deadline) {
  const auto shown = std::make_shared<std::atomic<bool>>(false);
  grpc::experimental::TlsChannelCredentialsOptions any;
  any.set_verify_server_certs(false);
  any.set_check_call_host(false);
  any.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<HandshakeNote>(shown));
  bool serves;
  AskHealth(MakeChannel(target, options, grpc::experimental::TlsCredentials(any)).get(),
            std::min(deadline, absl::Now() + kLook), &serves);
  return *shown;
}

// What keeps a client from its server, and no waiting will mend.
class TlsTrouble {
 public:
  TlsTrouble(const std::string& target, const ClientOptions& options, absl::Time deadline)
      : target_(target), options_(options), deadline_(deadline) {}

  /// After an attempt that ended with `error`.
  std::optional<std::string> Find(const std::string& error) {
    const bool closed = absl::EndsWith(error, kClosed);
    if (!closed) closed_since_ = absl::InfiniteFuture();
    if (closed) closed_since_ = std::min(closed_since_, absl::Now());
    if (!options_.tls) {
      if (!closed || !FindsTls()) return std::nullopt;
      return "it speaks TLS, and this client was not told to (--tls-ca, ClientOptions::tls)";
    }
    if (absl::StrContains(error, "wrong version number")) {
      return "it does not speak TLS, as this client was told to";
    }
    if (absl::StrContains(error, "certificate verify failed")) {
      return absl::StrCat("its certificate is not accepted: no CA of ",
                          options_.tls->ca.empty() ? "the system's" : options_.tls->ca,
                          " has signed it, or it has expired");
    }
    if (absl::StrContains(error, "is not in peer certificate")) {
      return absl::StrCat("its certificate is for another name: ", error);
    }
    if (absl::StartsWith(error, "empty address list")) {
      return "TLS cannot be done with the client's files: no certificate in PEM, or a key that is "
             "not the certificate's";
    }
    if (closed && absl::Now() - closed_since_ >= kEnding && FindsTls()) {
      return options_.tls->cert.empty()
                 ? "it closes the connection: it may want a client certificate (--tls-cert, "
                   "--tls-key, ClientOptions::tls)"
                 : "it closes the connection: it may not accept the client certificate";
    }
    return std::nullopt;
  }

 private:
  // Looks once.
  bool FindsTls() {
    return !std::exchange(has_looked_, true) && SpeaksTls(target_, options_, deadline_);
  }

  const std::string& target_;
  const ClientOptions& options_;
  const absl::Time deadline_;
  bool has_looked_ = false;
  absl::Time closed_since_ = absl::InfiniteFuture();
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& target,
                                                           const ClientOptions& options) {
  if (target.empty()) return absl::InvalidArgumentError("the server's address is empty");
  absl::StatusOr<Credentials> credentials = CredentialsOf(target, options);
  if (!credentials.ok()) return credentials.status();
  const absl::Duration patience =
      options.connect_timeout > absl::ZeroDuration() ? options.connect_timeout : options.timeout;
  std::shared_ptr<grpc::Channel> channel = MakeChannel(target, options, *credentials);
  const absl::Time deadline = absl::Now() + patience;
  TlsTrouble trouble(target, options, deadline);
  std::string why = "it does not answer";
  while (true) {
    bool serves;
    const grpc::Status status = AskHealth(channel.get(), deadline, &serves);
    if (serves) return channel;
    if (status.ok()) {
      why = "it does not serve";
    } else if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
      why = status.error_message();  // Such as "Connection refused".
      if (const std::optional<std::string> found = trouble.Find(why)) {
        return absl::UnavailableError(absl::StrCat("no server is ready at ", target, ": ", *found));
      }
    }
    if (absl::Now() >= deadline) {
      return absl::UnavailableError(absl::StrCat("no server is ready at ", target, " within ",
                                                 absl::FormatDuration(patience), ": ", why));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

}  // namespace formwork::client
