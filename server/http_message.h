#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "server/http_body.h"
#include "server/http_peer.h"

namespace formwork::server {

struct HttpRequest {
  std::string method;                          ///< "GET" for HEAD, too.
  std::string path;                            ///< Percent-decoded, without its query.
  std::map<std::string, std::string> headers;  ///< By name, in small letters. The last of a name.
  HttpBody body;                               ///< Holds what it has reserved of the budget.
  std::shared_ptr<HttpPeer> peer;

  /// The value of a header, whatever its name's case; "" where there is none.
  absl::string_view Header(absl::string_view name) const {
    const auto found = headers.find(absl::AsciiStrToLower(name));
    return found == headers.end() ? absl::string_view() : absl::string_view(found->second);
  }
};

struct HttpAnswer {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< Others: name and value.
};

}  // namespace formwork::server
