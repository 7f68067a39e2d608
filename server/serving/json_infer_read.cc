#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "server/serving/json_infer.h"
#include "server/serving/json_input.h"
#include "server/serving/json_reader.h"

namespace formwork::server {
namespace {

// No call has more.
constexpr size_t kMostInferValues = 65536;

// Notes all that a request says, and where the elements of its inputs are.
class JsonInferHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, JsonInferHandler> {
 public:
  JsonInferHandler(absl::string_view text, const rapidjson::MemoryStream& stream)
      : text_(text), stream_(stream) {}

  bool Null() { return Scalar(JsonKind::kNull, "null"); }
  bool Bool(bool value) { return Scalar(JsonKind::kBool, value ? "true" : "false"); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    return Scalar(JsonKind::kNumber, {text, size});
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    return CheckText({text, size}) && Scalar(JsonKind::kText, {text, size});
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    const absl::string_view key(text, size);
    if (!CheckText(key)) return false;
    if (depth_ == 1) return Enter(key, kSections, &section_, &seen_sections_);
    if (is_value() && depth_ == 3) return Enter(key, kFields, &field_, &seen_fields_);
    if (has_parameters()) parameter_.assign(text, size);
    return true;
  }
  bool StartObject() { return Open(/*list=*/false); }
  bool StartArray() { return Open(/*list=*/true); }
  bool EndObject(rapidjson::SizeType) { return Close(); }
  bool EndArray(rapidjson::SizeType) { return Close(); }

  absl::Status status() const { return status_; }
  JsonInfer Finish() && { return std::move(infer_); }

 private:
  // Of the body's object.
  enum class Section { kOther, kId, kParameters, kInputs, kOutputs };
  static constexpr std::pair<absl::string_view, Section> kSections[] = {
      {"id", Section::kId},
      {"parameters", Section::kParameters},
      {"inputs", Section::kInputs},
      {"outputs", Section::kOutputs}};
  // Of an input's or output's.
  enum class Field { kOther, kName, kDatatype, kShape, kParameters, kData };
  static constexpr std::pair<absl::string_view, Field> kFields[] = {
      {"name", Field::kName},
      {"datatype", Field::kDatatype},
      {"shape", Field::kShape},
      {"parameters", Field::kParameters},
      {"data", Field::kData}};

  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Expected(absl::string_view where, absl::string_view what) {
    return Fail(InvalidArgument("JSON: ", Place(), where, what, " is expected"));
  }
  bool CheckText(absl::string_view text) {
    // The reader has made such bytes of a \u that is half of a pair, too.
    if (IsValidUtf8(text)) return true;
    return Fail(InvalidArgument("JSON: before byte ", stream_.Tell(), ": a string is not UTF-8"));
  }

  // Whether the reader is in, or at, an input or output.
  bool is_value() const { return section_ == Section::kInputs || section_ == Section::kOutputs; }
  bool is_input() const { return section_ == Section::kInputs; }
  bool has_parameters() const {
    return (depth_ == 2 && section_ == Section::kParameters) ||
           (depth_ == 4 && is_value() && field_ == Field::kParameters);
  }
  // Which input or output it is, for messages.
  std::string Place() const {
    if (!is_value() || depth_ < 2) return "";
    if (depth_ == 2) return is_input() ? "\"inputs\": " : "\"outputs\": ";
    return absl::StrCat(is_input() ? "input " : "output ", ShownJsonName(*name_), ": ");
  }

  template <typename Keys, typename Where>
  bool Enter(absl::string_view key, const Keys& keys, Where* where, uint32_t* seen) {
    *where = Where::kOther;
    for (const auto& [known, place] : keys) {
      if (known != key) continue;
      *where = place;
      const uint32_t bit = 1u << static_cast<uint32_t>(place);
      if ((*seen & bit) != 0) {
        return Fail(InvalidArgument("JSON: ", Place(), "\"", known, "\" is there twice"));
      }
      *seen |= bit;
    }
    return true;
  }

  bool Scalar(JsonKind kind, absl::string_view text) {
    if (has_parameters()) return TakeParameterOf(kind, text);
    if (depth_ == 0) return Expected("", "an object");
    if (depth_ == 1) {
      if (section_ == Section::kId) {
        std::string id;
        if (!TakeText(kind, text, "\"id\": ", &id)) return false;
        const absl::Status set = SetRequestId(std::move(id), &infer_.request);
        return set.ok() || Fail(set);
      }
      return section_ == Section::kOther || Open(/*list=*/section_ == Section::kParameters);
    }
    if (!is_value() || depth_ > 4) return true;
    if (depth_ == 2) return Expected("", "an object");
    if (!is_known_field()) return true;
    if (depth_ == 4) return field_ != Field::kShape || TakeDim(kind, text);
    if (field_ == Field::kName) return TakeText(kind, text, "\"name\": ", name_);
    if (field_ != Field::kDatatype) return WrongField();
    return TakeText(kind, text, "\"datatype\": ", &input().datatype);
  }

  bool Open(bool list) {
    if (depth_ == 0 && list) return Expected("", "an object");
    if (depth_ == 1) {
      if (section_ == Section::kId) return Expected("\"id\": ", "a string");
      if (section_ == Section::kParameters && list)
        return Expected("\"parameters\": ", "an object");
      if (section_ == Section::kInputs && !list) return Expected("\"inputs\": ", "a list");
      if (section_ == Section::kOutputs && !list) return Expected("\"outputs\": ", "a list");
    }
    if (has_parameters()) return Expected("a parameter: ", "a string, a number or a bool");
    if (is_value() && depth_ == 2 && (list || !Begin())) {
      return list ? Expected("", "an object") : false;
    }
    if (is_value() && depth_ == 3 && is_known_field()) {
      if (list != (field_ != Field::kParameters) || field_ == Field::kName ||
          field_ == Field::kDatatype) {
        return WrongField();
      }
      if (field_ == Field::kData) begin_ = stream_.Tell();
    }
    if (is_input() && depth_ == 4 && field_ == Field::kShape) return WrongField();
    if (++depth_ <= kMostJsonNested) return true;
    return Fail(InvalidArgument("JSON: at byte ", stream_.Tell(), ": values are nested too deep"));
  }

  bool Close() {
    --depth_;
    if (!is_value()) return true;
    if (depth_ == 3 && field_ == Field::kData && is_input()) {
      input().data = text_.substr(begin_, stream_.Tell() + 1 - begin_);
    }
    return depth_ != 2 || !is_input() || CheckInput();
  }

  // Whether its value has a form; outputs have a name and parameters.
  bool is_known_field() const {
    return is_input() ? field_ != Field::kOther
                      : field_ == Field::kName || field_ == Field::kParameters;
  }
  bool WrongField() {
    switch (field_) {
      case Field::kName:
        return Expected("\"name\": ", "a string");
      case Field::kDatatype:
        return Expected("\"datatype\": ", "a string");
      case Field::kShape:
        return Expected("\"shape\": ", "a list of sizes");
      case Field::kParameters:
        return Expected("\"parameters\": ", "an object");
      default:
        return Expected("\"data\": ", "a list");
    }
  }

  // An input or output.
  bool Begin() {
    const size_t count = is_input() ? infer_.inputs.size() : infer_.request.outputs.size();
    if (count >= kMostInferValues) {
      return Fail(InvalidArgument("JSON: ", Place(), "too many: limit=", kMostInferValues));
    }
    seen_fields_ = 0;
    field_ = Field::kOther;
    if (is_input()) {
      infer_.inputs.emplace_back();
    } else {
      infer_.request.outputs.emplace_back();
      infer_.forms.outputs.emplace_back();
    }
    name_ = is_input() ? &infer_.inputs.back().name : &infer_.request.outputs.back();
    return true;
  }
  JsonInferInput& input() { return infer_.inputs.back(); }

  bool CheckInput() {
    const auto has = [this](Field field) {
      return (seen_fields_ & 1u << static_cast<uint32_t>(field)) != 0;
    };
    const std::string where = absl::StrCat("JSON: input ", ShownJsonName(*name_), ": ");
    if (!has(Field::kShape)) return Fail(InvalidArgument(where, "\"shape\" is missing"));
    if (has(Field::kData) == input().binary_bytes.has_value()) {
      return Fail(InvalidArgument(where, "\"data\" and the parameter \"binary_data_size\" are ",
                                  has(Field::kData) ? "both there" : "missing"));
    }
    return true;
  }

  bool TakeText(JsonKind kind, absl::string_view text, absl::string_view where, std::string* out) {
    if (kind != JsonKind::kText) return Expected(where, "a string");
    out->assign(text.data(), text.size());
    return true;
  }

  bool TakeDim(JsonKind kind, absl::string_view text) {
    int64_t dim;
    if (kind != JsonKind::kNumber || !absl::SimpleAtoi(text, &dim) || dim < 0) return WrongField();
    if (input().shape.size() == static_cast<size_t>(kMaxRank)) {
      return Fail(
          InvalidArgument("JSON: ", Place(), "\"shape\" has more than ", kMaxRank, " dimensions"));
    }
    input().shape.push_back(dim);
    return true;
  }

  bool TakeParameterOf(JsonKind kind, absl::string_view text) {
    const bool flag = kind == JsonKind::kBool && text == "true";
    const bool is_bool = kind == JsonKind::kBool;
    if (section_ == Section::kParameters && parameter_ == "binary_data_output") {
      infer_.forms.others = flag;
      return is_bool || Expected("parameter \"binary_data_output\": ", "a bool");
    }
    if (section_ == Section::kOutputs && parameter_ == "binary_data") {
      infer_.forms.outputs.back() = flag;
      return is_bool || Expected("parameter \"binary_data\": ", "a bool");
    }
    if (is_input() && parameter_ == "binary_data_size") {
      uint64_t size;
      if (kind != JsonKind::kNumber || !absl::SimpleAtoi(text, &size)) {
        return Expected("parameter \"binary_data_size\": ", "a size");
      }
      input().binary_bytes = size;
      return true;
    }
    ParameterValue value;
    switch (kind) {
      case JsonKind::kNumber: {
        double number = 0;
        value.is_set = !absl::SimpleAtod(text, &number) || number != 0;
        if (!absl::SimpleAtoi(text, &value.number)) value.number = 0;
        break;
      }
      case JsonKind::kBool:
        value.is_set = flag;
        break;
      case JsonKind::kText:
        value.is_set = !text.empty();
        break;
      default:
        break;
    }
    const ParameterOf of = section_ == Section::kInputs    ? ParameterOf::kInput
                           : section_ == Section::kOutputs ? ParameterOf::kOutput
                                                           : ParameterOf::kRequest;
    const absl::Status taken = TakeParameter(of, of == ParameterOf::kRequest ? "" : *name_,
                                             parameter_, value, &infer_.request);
    return taken.ok() || Fail(taken);
  }

  const absl::string_view text_;
  const rapidjson::MemoryStream& stream_;
  JsonInfer infer_;
  absl::Status status_;
  int depth_ = 0;  // Objects and lists that are open.
  Section section_ = Section::kOther;
  Field field_ = Field::kOther;
  uint32_t seen_sections_ = 0, seen_fields_ = 0;
  std::string* name_ = nullptr;  // Of the input or output.
  std::string parameter_;        // Whose value comes next.
  size_t begin_ = 0;             // Of the elements.
};

// Hands elements, and the lists that they are in, to an input.
class JsonDataHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, JsonDataHandler> {
 public:
  explicit JsonDataHandler(JsonInput& input) : input_(input) {}

  bool Null() { return Add(JsonKind::kNull, "null"); }
  bool Bool(bool value) { return Add(JsonKind::kBool, value ? "true" : "false"); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    return Add(JsonKind::kNumber, {text, size});
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    return Add(JsonKind::kText, {text, size});
  }
  bool StartObject() { return Note(input_.Wrong("an element is expected, not an object")); }
  bool Key(const char*, rapidjson::SizeType, bool) { return true; }
  bool EndObject(rapidjson::SizeType) { return true; }
  bool StartArray() { return Note(input_.StartList()); }
  bool EndArray(rapidjson::SizeType) { return Note(input_.EndList()); }

  absl::Status status() const { return status_; }

 private:
  bool Add(JsonKind kind, absl::string_view text) { return Note(input_.Add(kind, text)); }
  bool Note(absl::Status status) {
    status_ = std::move(status);
    return status_.ok();
  }

  JsonInput& input_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<JsonInfer> ReadJsonInfer(absl::string_view text) {
  FORMWORK_RETURN_IF_ERROR(CheckJsonSize(text));
  rapidjson::MemoryStream stream(text.data(), text.size());
  JsonInferHandler handler(text, stream);
  FORMWORK_RETURN_IF_ERROR(ParseJson<rapidjson::kParseNumbersAsStringsFlag>(stream, handler));
  return std::move(handler).Finish();
}

absl::StatusOr<Tensor> ReadJsonInferInput(const JsonInferInput& input, Allocator& allocator) {
  const std::string where = absl::StrCat("input ", ShownJsonName(input.name));
  const absl::StatusOr<DType> dtype = DTypeFromDatatype(input.datatype);
  if (!dtype.ok()) return Annotate(dtype.status(), where);
  const absl::StatusOr<Shape> shape = Shape::Make(input.shape);
  if (!shape.ok()) return Annotate(shape.status(), where);
  const TensorSpec spec = {input.name, *dtype, PartialShape::Trusted(shape->dims())};
  const std::unique_ptr<JsonInput> elements = JsonInput::Make(spec, /*rows=*/false);
  rapidjson::MemoryStream stream(input.data.data(), input.data.size());
  JsonDataHandler handler(*elements);
  // Numbers as they stand there, which each dtype reads exactly.
  FORMWORK_RETURN_IF_ERROR(ParseJson<rapidjson::kParseNumbersAsStringsFlag>(stream, handler));
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, elements->Finish(allocator));
  const bool is_flat = tensor.rank() == 1 || tensor.num_elements() == 0;
  if (tensor.num_elements() == shape->num_elements() && (is_flat || tensor.shape() == *shape)) {
    return std::move(tensor).Reshaped(*shape);
  }
  return InvalidArgument(where, ": \"data\" has another shape than \"shape\" says: data=",
                         tensor.shape().ToString(), " shape=", shape->ToString());
}

}  // namespace formwork::server
