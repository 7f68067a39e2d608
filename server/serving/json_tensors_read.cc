#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "server/serving/json_input.h"
#include "server/serving/json_reader.h"
#include "server/serving/json_tensors.h"

namespace formwork::server {
namespace {

// Of names that the signature does not have, how many a message shows.
constexpr size_t kShownNames = 5;
// Checks all of a body, and notes what is in its object besides the values.
class JsonHeadHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, JsonHeadHandler> {
 public:
  JsonHeadHandler(absl::string_view body, const rapidjson::MemoryStream& stream)
      : body_(body), stream_(stream) {}

  bool Default() { return Scalar(); }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    if (!CheckText({text, size})) return false;
    if (depth_ == 1 && at_ == At::kSignatureName) {
      request_.signature_name.assign(text, size);
      at_ = At::kOther;
    }
    return Scalar();
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    const absl::string_view key(text, size);
    if (!CheckText(key)) return false;
    if (depth_ > 1) return true;
    at_ = At::kOther;
    if (key == "instances" || key == "inputs") {
      if (values_) return Fail("\"instances\" or \"inputs\" is there twice, or both are");
      values_ = true;
      at_ = At::kValues;
      request_.row_format = key == "instances";
      begin_ = body_.find(':', stream_.Tell());
    } else if (key == "signature_name") {
      if (std::exchange(named_, true)) return Fail("\"signature_name\" is there twice");
      at_ = At::kSignatureName;
    }
    return true;
  }
  bool StartObject() { return Open(false); }
  bool StartArray() { return Open(true); }
  bool EndObject(rapidjson::SizeType) { return Close(); }
  bool EndArray(rapidjson::SizeType) { return Close(); }

  absl::Status status() const { return status_; }
  absl::StatusOr<JsonPredict> Finish() && {
    if (!values_) return InvalidArgument("JSON: \"instances\" or \"inputs\" is missing");
    return std::move(request_);
  }

 private:
  enum class At { kRoot, kValues, kSignatureName, kOther };

  bool Fail(absl::string_view what) {
    status_ = InvalidArgument("JSON: ", what);
    return false;
  }
  bool CheckText(absl::string_view text) {
    // The reader has made such bytes of a \u that is half of a pair, too.
    if (IsValidUtf8(text)) return true;
    return Fail(absl::StrCat("before byte ", stream_.Tell(), ": a string is not UTF-8"));
  }
  bool Scalar() { return CheckBegin(false, false) && EndValue(stream_.Tell()); }
  bool Open(bool list) {
    if (!CheckBegin(list, !list)) return false;
    if (++depth_ <= kMostJsonNested) return true;
    return Fail(absl::StrCat("at byte ", stream_.Tell(), ": values are nested too deep"));
  }
  bool Close() {
    --depth_;
    return EndValue(stream_.Tell() + 1);
  }
  bool CheckBegin(bool list, bool object) {
    if (depth_ == 0 && !object) {
      return Fail("an object with \"instances\" or \"inputs\" is expected");
    }
    if (depth_ != 1) return true;
    if (at_ == At::kSignatureName) return Fail("\"signature_name\": a string is expected");
    if (at_ == At::kValues && request_.row_format && !list) {
      return Fail("\"instances\": a list is expected");
    }
    return true;
  }
  bool EndValue(size_t end) {
    if (depth_ == 1 && at_ == At::kValues) {
      const size_t begin = body_.find_first_not_of(" \n\r\t", begin_ + 1);
      request_.values = body_.substr(begin, end - begin);
    }
    return true;
  }

  const absl::string_view body_;
  const rapidjson::MemoryStream& stream_;
  JsonPredict request_;
  absl::Status status_;
  At at_ = At::kRoot;  // Which key's value is read, of the body's object.
  int depth_ = 0;
  bool values_ = false, named_ = false;
  size_t begin_ = 0;
};

// Hands the parts of the values, which are JSON, to the inputs that they belong to.
class JsonValuesHandler
    : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, JsonValuesHandler> {
 public:
  JsonValuesHandler(bool rows, absl::Span<const TensorSpec> inputs)
      : rows_(rows), at_(rows ? At::kRows : At::kValues) {
    for (const TensorSpec& spec : inputs) {
      by_name_.emplace(spec.name, inputs_.size());
      inputs_.push_back(JsonInput::Make(spec, rows));
    }
  }

  bool Null() { return Scalar(JsonKind::kNull, "null"); }
  bool Bool(bool value) { return Scalar(JsonKind::kBool, value ? "true" : "false"); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    return Scalar(JsonKind::kNumber, {text, size});
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    if (at_ == At::kValueOrBytes) {
      input_ = inputs_[0].get();
      named_ = false;
      at_ = At::kBytes;
    }
    if (at_ != At::kBytes) return Scalar(JsonKind::kText, {text, size});
    bytes_.assign(text, size);
    at_ = At::kBytesEnd;
    return true;
  }
  bool StartObject() {
    if (at_ == At::kValues) {
      at_ = At::kFirstName;
      named_ = true;
      return true;
    }
    if (!Enter()) return false;
    if (at_ == At::kUnknown) return ++ignored_, true;
    at_ = At::kBytesKey;
    return true;
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    const absl::string_view key(text, size);
    switch (at_) {
      case At::kUnknown:
        return true;
      case At::kFirstName:
        // Its value tells whether it is the bytes of a string or an input of that name.
        if (inputs_.size() == 1 && key == "b64") return at_ = At::kValueOrBytes, true;
        [[fallthrough]];
      case At::kNames:
        return Named(key);
      default:
        if (at_ != At::kBytesKey || key != "b64") return NoBytes();
        at_ = At::kBytes;
        return true;
    }
  }
  bool EndObject(rapidjson::SizeType) {
    switch (at_) {
      case At::kUnknown:
        --ignored_;
        return EndValue();
      case At::kBytesEnd:
        return Done(input_->Add(JsonKind::kBytes, bytes_));
      case At::kBytesKey:
        return NoBytes();
      default:
        return EndNames();
    }
  }
  bool StartArray() {
    if (at_ == At::kRows) return at_ = At::kValues, true;
    if (!Enter()) return false;
    if (at_ == At::kUnknown) return ++ignored_, true;
    return Done(input_->StartList());
  }
  bool EndArray(rapidjson::SizeType) {
    if (at_ == At::kUnknown) {
      --ignored_;
      return EndValue();
    }
    return at_ == At::kValues || Done(input_->EndList());  // The rows', or a list in a value.
  }

  absl::Status status() const { return status_; }
  absl::StatusOr<std::vector<Tensor>> Finish(Allocator& allocator) {
    std::vector<Tensor> tensors;
    tensors.reserve(inputs_.size());
    for (const std::unique_ptr<JsonInput>& input : inputs_) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, input->Finish(allocator));
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

 private:
  enum class At {
    kRows,          // The list of them begins.
    kValues,        // A value of each input: an object of them, or that of the only one as it is.
    kFirstName,     // In such an object, at its begin,
    kNames,         // or at a name or the end.
    kValueOrBytes,  // Behind {"b64": of the only input.
    kInput,         // A value of input_, or inside it.
    kBytesKey,      // In the object of a string's bytes: its key,
    kBytes,         // what stands there,
    kBytesEnd,      // and its end.
    kUnknown,       // A value of no input, or inside it.
  };

  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool NoBytes() {
    return Fail(input_->Wrong("{\"b64\": \"...\"} is expected, and no other object"));
  }

  bool Scalar(JsonKind kind, absl::string_view text) {
    if (!Enter()) return false;
    if (at_ == At::kUnknown) return EndValue();
    return Done(input_->Add(kind, text));
  }
  // Finds out whose value begins.
  bool Enter() {
    if (at_ == At::kInput || at_ == At::kUnknown) return true;
    if (at_ == At::kValueOrBytes) return Named("b64");
    if (at_ != At::kValues) return NoBytes();
    if (inputs_.size() != 1) {
      return Fail(InvalidArgument(Where(), "an object is expected", TakenNames()));
    }
    input_ = inputs_[0].get();
    named_ = false;
    at_ = At::kInput;
    return true;
  }
  bool Named(absl::string_view name) {
    const auto known = by_name_.find(name);
    at_ = known == by_name_.end() ? At::kUnknown : At::kInput;
    if (at_ == At::kUnknown) {
      if (unknown_.size() < kShownNames) unknown_.push_back(ShownJsonName(name));
      return true;
    }
    input_ = inputs_[known->second].get();
    if (input_->values() == done_) return true;
    return Fail(InvalidArgument(Where(), "input ", ShownJsonName(name), " is there twice"));
  }

  // Behind a part of a value, which may have been the last.
  bool Done(absl::Status status) {
    if (!status.ok()) return Fail(std::move(status));
    at_ = At::kInput;
    return input_->in_list() || EndValue();
  }
  bool EndValue() {
    if (ignored_ > 0) return true;
    at_ = At::kNames;
    return named_ || EndNames();
  }
  bool EndNames() {
    at_ = At::kValues;
    std::vector<std::string> missing;
    for (const std::unique_ptr<JsonInput>& input : inputs_) {
      if (input->values() == done_) missing.push_back(ShownJsonName(input->name()));
    }
    if (!unknown_.empty() || !missing.empty()) {
      return Fail(InvalidArgument(
          Where(),
          missing.empty() ? "" : absl::StrCat("missing inputs: ", absl::StrJoin(missing, ", ")),
          missing.empty() || unknown_.empty() ? "" : "; ",
          unknown_.empty() ? "" : absl::StrCat("unknown inputs: ", absl::StrJoin(unknown_, ", ")),
          TakenNames()));
    }
    ++done_;
    return true;
  }

  std::string Where() const {
    return rows_ ? absl::StrCat("instances[", done_, "]: ") : "inputs: ";
  }
  std::string TakenNames() const {
    if (inputs_.empty()) return "; the signature takes no inputs";
    return absl::StrCat("; the signature takes ",
                        absl::StrJoin(inputs_, ", ", [](std::string* out, const auto& input) {
                          out->append(ShownJsonName(input->name()));
                        }));
  }

  const bool rows_;
  std::vector<std::unique_ptr<JsonInput>> inputs_;
  absl::flat_hash_map<absl::string_view, size_t> by_name_;
  absl::Status status_;
  At at_;
  JsonInput* input_ = nullptr;
  bool named_ = false;  // The value is one of an object's.
  int ignored_ = 0;     // Lists and objects that are open in a value of no input.
  std::vector<std::string> unknown_;
  std::string bytes_;
  int64_t done_ = 0;  // Values of each input that were read.
};

}  // namespace

bool HasJsonForm(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kDouble:
    case DType::kHalf:
    case DType::kBfloat16:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
    case DType::kBool:
    case DType::kString:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<JsonPredict> ReadJsonPredictHead(absl::string_view body) {
  FORMWORK_RETURN_IF_ERROR(CheckJsonSize(body));
  rapidjson::MemoryStream stream(body.data(), body.size());
  JsonHeadHandler handler(body, stream);
  FORMWORK_RETURN_IF_ERROR(ParseJson<rapidjson::kParseNoFlags>(stream, handler));
  return std::move(handler).Finish();
}

absl::StatusOr<std::vector<Tensor>> ReadJsonInputs(const JsonPredict& request,
                                                   absl::Span<const TensorSpec> inputs,
                                                   Allocator& allocator) {
  for (const TensorSpec& spec : inputs) {
    if (!HasJsonForm(spec.dtype))
      return Unimplemented("input ", ShownJsonName(spec.name), ": JSON has no form for dtype ",
                           DTypeName(spec.dtype));
  }
  rapidjson::MemoryStream stream(request.values.data(), request.values.size());
  JsonValuesHandler handler(request.row_format, inputs);
  // Numbers as they stand there, which each dtype reads exactly.
  FORMWORK_RETURN_IF_ERROR(ParseJson<rapidjson::kParseNumbersAsStringsFlag>(stream, handler));
  return handler.Finish(allocator);
}

}  // namespace formwork::server
