// DecodeJSONExample: a tf.train.Example as protobuf's JSON to its wire format, in one pass. What
// protobuf forgives is taken: names without quotes, single quotes, commas at the end, null.

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/io/io_cpu.h"
#include "core/kernels/kernel.h"
#include "core/kernels/wire_format.h"

namespace formwork {
namespace {

// The code point's bytes.
void AppendUtf8(uint32_t code, std::string& to) {
  if (code < 0x80) {
    to += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  to += static_cast<char>(kFirst[more] | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) to += static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
}

// Whether it is a number by JSON's grammar.
bool IsNumber(absl::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t first = at;
    while (at < text.size() && absl::ascii_isdigit(text[at])) ++at;
    return at - first;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const bool zero = at < text.size() && text[at] == '0';
  const size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

enum class ListKind : uint32_t { kBytes = 1, kFloats = 2, kIntegers = 3 };

class JsonExample {
 public:
  explicit JsonExample(absl::string_view json) : json_(json) {}

  absl::StatusOr<std::string> Read() {
    std::string example;
    bool read = false;
    FORMWORK_RETURN_IF_ERROR(ForMembers([&](const std::string& name) -> absl::Status {
      if (name != "features") return NoSuchField(name);
      if (std::exchange(read, true)) return Failed("'features' is there twice");
      if (TakeNull()) return absl::OkStatus();
      std::string features;
      FORMWORK_RETURN_IF_ERROR(ReadFeatures(features));
      AppendBytes(1, features, example);
      return absl::OkStatus();
    }));
    SkipSpace();
    if (at_ < json_.size()) return Failed("extraneous characters after end of JSON object");
    return example;
  }

 private:
  template <typename... Args>
  absl::Status Failed(const Args&... args) const {
    return InvalidArgument("Error while parsing JSON: ", args..., ", near offset ", at_);
  }
  absl::Status NoSuchField(absl::string_view name) const {
    return Failed("no such field: '", name, "'");
  }

  void SkipSpace() {
    for (; at_ < json_.size() && absl::StrContains(" \t\r\n", json_[at_]); ++at_) {
      if (WorkIsCutAt(static_cast<int64_t>(at_))) return;
    }
  }
  bool Take(char wanted) {
    SkipSpace();
    if (at_ >= json_.size() || json_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  // A word of letters, digits and underscores, as names without quotes are.
  absl::string_view Word() {
    SkipSpace();
    const size_t first = at_;
    while (at_ < json_.size() && (absl::ascii_isalnum(json_[at_]) || json_[at_] == '_')) ++at_;
    return json_.substr(first, at_ - first);
  }
  bool TakeNull() {
    const size_t before = at_;
    if (Word() == "null") return true;
    at_ = before;
    return false;
  }
  bool AtQuote() {
    SkipSpace();
    return at_ < json_.size() && (json_[at_] == '"' || json_[at_] == '\'');
  }

  // Four hexadecimal digits.
  std::optional<uint32_t> Hex4() {
    uint32_t code = 0;
    if (json_.size() - at_ < 4 || !absl::SimpleHexAtoi(json_.substr(at_, 4), &code)) {
      return std::nullopt;
    }
    for (const char c : json_.substr(at_, 4)) {
      if (!absl::ascii_isxdigit(c)) return std::nullopt;
    }
    at_ += 4;
    return code;
  }

  absl::Status ReadEscape(std::string& to) {
    constexpr absl::string_view kEscapes = "\"'\\/bfnrt";
    constexpr absl::string_view kMeant = "\"'\\/\b\f\n\r\t";
    if (at_ >= json_.size()) return Failed("unexpected EOF");
    const char c = json_[at_++];
    if (c != 'u') {
      const size_t escape = kEscapes.find(c);
      if (escape == absl::string_view::npos)
        return Failed("invalid escape char: '", json_.substr(at_ - 1, 1), "'");
      to += kMeant[escape];
      return absl::OkStatus();
    }
    std::optional<uint32_t> code = Hex4();
    if (!code) return Failed("invalid Unicode escape");
    if (*code >= 0xd800 && *code < 0xe000) {  // The first half of one beyond 16 bits.
      const bool follows = *code < 0xdc00 && absl::StartsWith(json_.substr(at_), "\\u");
      if (follows) at_ += 2;
      const std::optional<uint32_t> second = follows ? Hex4() : std::nullopt;
      if (!second || *second < 0xdc00 || *second >= 0xe000) {
        return Failed("unpaired low surrogate");
      }
      code = 0x10000 + ((*code - 0xd800) << 10) + (*second - 0xdc00);
    }
    AppendUtf8(*code, to);
    return absl::OkStatus();
  }

  absl::Status ReadString(std::string& to) {
    const char quote = json_[at_++];
    for (int64_t i = 0; at_ < json_.size(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const char c = json_[at_++];
      if (c == quote) return absl::OkStatus();
      if (c == '\\') {
        FORMWORK_RETURN_IF_ERROR(ReadEscape(to));
      } else if (static_cast<unsigned char>(c) < 0x20) {
        return Failed("invalid control character in string");
      } else {
        to += c;
      }
    }
    return Failed("unexpected EOF");
  }

  // Calls member(name) for each member of an object, at its value.
  template <typename Member>
  absl::Status ForMembers(const Member& member) {
    if (!Take('{')) return Unexpected("'{'");
    for (int64_t i = 0; !Take('}'); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      if (i > 0 && !Take(',')) return Unexpected("',' or '}'");
      if (i > 0 && Take('}')) break;
      std::string name;
      if (AtQuote()) {
        FORMWORK_RETURN_IF_ERROR(ReadString(name));
      } else {
        name = std::string(Word());
        if (name.empty()) return Unexpected("a name");
      }
      if (!Take(':')) return Unexpected("':'");
      FORMWORK_RETURN_IF_ERROR(member(name));
    }
    return WorkStatus();
  }
  absl::Status Unexpected(absl::string_view wanted) {
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    SkipSpace();
    if (at_ >= json_.size()) return Failed("unexpected EOF");
    return Failed("unexpected character: '", json_.substr(at_, 1), "'; expected ", wanted);
  }

  absl::Status ReadFeatures(std::string& to) {
    bool read = false;
    return ForMembers([&](const std::string& name) -> absl::Status {
      if (name != "feature") return NoSuchField(name);
      if (std::exchange(read, true)) return Failed("'feature' is there twice");
      if (TakeNull()) return absl::OkStatus();
      HashMap<std::string, bool> names;
      return ForMembers([&](const std::string& key) -> absl::Status {
        if (!names.emplace(key, true).second) {
          return Failed("got unexpectedly-repeated repeated map key: '", key, "'");
        }
        std::string entry, feature;
        AppendBytes(1, key, entry);
        if (!TakeNull()) {
          FORMWORK_RETURN_IF_ERROR(ReadFeature(feature));
          AppendBytes(2, feature, entry);
        }
        AppendBytes(1, entry, to);
        return absl::OkStatus();
      });
    });
  }

  absl::Status ReadFeature(std::string& to) {
    bool read = false;
    return ForMembers([&](const std::string& name) -> absl::Status {
      std::optional<ListKind> kind;
      if (name == "bytesList" || name == "bytes_list") kind = ListKind::kBytes;
      if (name == "floatList" || name == "float_list") kind = ListKind::kFloats;
      if (name == "int64List" || name == "int64_list") kind = ListKind::kIntegers;
      if (!kind) return NoSuchField(name);
      if (TakeNull()) return absl::OkStatus();
      if (std::exchange(read, true)) {
        return Failed("'", name, "' has already been set (either directly or as part of a oneof)");
      }
      std::string list;
      FORMWORK_RETURN_IF_ERROR(ReadList(*kind, list));
      AppendBytes(static_cast<uint32_t>(*kind), list, to);
      return absl::OkStatus();
    });
  }

  absl::Status ReadList(ListKind kind, std::string& to) {
    bool read = false;
    return ForMembers([&](const std::string& name) -> absl::Status {
      if (name != "value") return NoSuchField(name);
      if (std::exchange(read, true)) return Failed("'value' is there twice");
      if (TakeNull()) return absl::OkStatus();
      if (!Take('[')) return ReadValue(kind, to);
      for (int64_t i = 0; !Take(']'); ++i) {
        if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
        if (i > 0 && !Take(',')) return Unexpected("',' or ']'");
        if (i > 0 && Take(']')) break;
        FORMWORK_RETURN_IF_ERROR(ReadValue(kind, to));
      }
      return WorkStatus();
    });
  }

  // Appends one value; null is 0, or empty.
  absl::Status ReadValue(ListKind kind, std::string& to) {
    const bool quoted = AtQuote();
    std::string text;
    if (quoted) {
      FORMWORK_RETURN_IF_ERROR(ReadString(text));
    } else if (TakeNull()) {
      if (kind != ListKind::kBytes) text.push_back('0');
    } else if (kind == ListKind::kBytes) {
      return Unexpected("a string");
    } else {
      const size_t first = at_;
      while (at_ < json_.size() &&
             (absl::ascii_isdigit(json_[at_]) || absl::StrContains("+-.eE", json_[at_]))) {
        ++at_;
      }
      text = std::string(json_.substr(first, at_ - first));
      if (text.empty()) return Unexpected("a number");
    }
    switch (kind) {
      case ListKind::kBytes:
        return AppendBase64(text, to);
      case ListKind::kFloats:
        return AppendFloat(text, quoted, to);
      default:
        return AppendInteger(text, to);
    }
  }

  absl::Status AppendBase64(absl::string_view text, std::string& to) const {
    std::string bytes;
    if (!absl::Base64Unescape(text, &bytes) && !absl::WebSafeBase64Unescape(text, &bytes)) {
      return Failed("corrupt base64");
    }
    AppendBytes(1, bytes, to);
    return absl::OkStatus();
  }

  absl::Status AppendFloat(absl::string_view text, bool quoted, std::string& to) const {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    double value = 0;
    if (quoted && text == "NaN") {
      value = std::numeric_limits<float>::quiet_NaN();
    } else if (quoted && (text == "Infinity" || text == "-Infinity")) {
      value = text[0] == '-' ? -kInfinity : kInfinity;
    } else if (!IsNumber(text) || !absl::SimpleAtod(text, &value) ||
               std::abs(value) > std::numeric_limits<float>::max()) {
      return Failed("invalid number: '", text, "'");
    }
    AppendFixed(1, static_cast<float>(value), to);
    return absl::OkStatus();
  }

  absl::Status AppendInteger(absl::string_view text, std::string& to) const {
    if (!IsNumber(text)) return Failed("invalid number: '", text, "'");
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value)) {
      // As 1.0 and 1e3 are.
      double number = 0;
      constexpr double kEnd = 9223372036854775808.0;
      const bool whole = text.find_first_of(".eE") == absl::string_view::npos;
      if (whole || !absl::SimpleAtod(text, &number) || number < -kEnd || number >= kEnd) {
        return Failed("JSON number out of range for int");
      }
      if (number != std::trunc(number)) {
        return Failed("expected integer, but JSON number had fractional part");
      }
      value = static_cast<int64_t>(number);
    }
    AppendVarint(1 << 3 | kVarint, to);
    AppendVarint(static_cast<uint64_t>(value), to);
    return absl::OkStatus();
  }

  const absl::string_view json_;
  size_t at_ = 0;
};

absl::Status DecodeJson(KernelContext& ctx) {
  const Tensor json = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor examples,
                            Tensor::Allocate(ctx.allocator(), DType::kString, json.shape()));
  for (int64_t i = 0; i < json.num_elements(); ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    FORMWORK_ASSIGN_OR_RETURN(examples.mutable_data<std::string>()[i],
                              JsonExample(json.data<std::string>()[i]).Read());
  }
  ctx.SetOutput(0, std::move(examples));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeDecodeJson(KernelInit&) { return KernelFn(DecodeJson); }

}  // namespace

void AddDecodeJsonCpuKernel(KernelRegistry& registry) {
  registry.Add("DecodeJSONExample", MakeDecodeJson);
}

}  // namespace formwork
