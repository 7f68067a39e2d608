#include "core/storage/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"

namespace formwork {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored as in memory");

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // The format's own bound.
constexpr size_t kAlignment = 8;

constexpr std::pair<const char*, DType> kNames[] = {
    {"F64", DType::kDouble},         {"F32", DType::kFloat},
    {"F16", DType::kHalf},           {"BF16", DType::kBfloat16},
    {"I64", DType::kInt64},          {"I32", DType::kInt32},
    {"I16", DType::kInt16},          {"I8", DType::kInt8},
    {"U64", DType::kUint64},         {"U32", DType::kUint32},
    {"U16", DType::kUint16},         {"U8", DType::kUint8},
    {"BOOL", DType::kBool},          {"C64", DType::kComplex64},
    {"F8_E5M2", DType::kFloat8E5m2}, {"F8_E4M3", DType::kFloat8E4m3fn},
};

const char* NameOf(DType dtype) {
  for (const auto& [name, known] : kNames) {
    if (known == dtype) return name;
  }
  return nullptr;
}

DType DTypeOfName(absl::string_view name) {
  for (const auto& [known, dtype] : kNames) {
    if (known == name) return dtype;
  }
  return DType::kInvalid;
}

}  // namespace

absl::StatusOr<uint64_t> WriteSafetensors(const FilePath& path,
                                          std::map<std::string, Tensor> values,
                                          std::atomic<uint64_t>* written) {
  // The wider elements first, so that each stands where its width wants it.
  std::vector<std::pair<const std::string*, Tensor*>> order;
  for (auto& [name, value] : values) {
    if (NameOf(value.dtype()) == nullptr) {
      return Unimplemented("safetensors has no ", DTypeName(value.dtype()), ": '", name, "'");
    }
    order.emplace_back(&name, &value);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return DTypeSize(a.second->dtype()) > DTypeSize(b.second->dtype());
  });
  nlohmann::json header = nlohmann::json::object();
  uint64_t offset = 0;
  for (const auto& [name, value] : order) {
    const absl::Span<const int64_t> dims = value->shape().dims();
    header[*name] = {{"dtype", NameOf(value->dtype())},
                     {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                     {"data_offsets", {offset, offset + value->bytes()}}};
    offset += value->bytes();
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file, NewFile::Create(path));
  const uint64_t header_bytes = text.size();
  FORMWORK_RETURN_IF_ERROR(
      file->Append({reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes)}));
  FORMWORK_RETURN_IF_ERROR(file->Append(text));
  for (const auto& [name, value] : order) {
    FORMWORK_RETURN_IF_ERROR(
        file->Append({static_cast<const char*>(value->raw()), value->bytes()}));
    if (written != nullptr) *written += value->bytes();
    *value = Tensor();
  }
  FORMWORK_RETURN_IF_ERROR(file->Sync());
  FORMWORK_RETURN_IF_ERROR(file->Keep());
  return file->size();
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(const FilePath& path) {
  FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<OldFile> opened, OldFile::Open(path));
  std::unique_ptr<SafetensorsReader> reader(new SafetensorsReader(std::move(opened)));
  const OldFile& file = *reader->file_;
  const auto damaged = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("safetensors file '", path.name, "' ", what));
  };
  uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes)) return damaged("is cut off");
  FORMWORK_RETURN_IF_ERROR(file.Read(0, sizeof(header_bytes), &header_bytes));
  if (header_bytes > std::min(kMostHeaderBytes, file.size() - sizeof(header_bytes))) {
    return damaged("is cut off, or is none");
  }
  std::string text(header_bytes, '\0');
  FORMWORK_RETURN_IF_ERROR(file.Read(sizeof(header_bytes), text.size(), text.data()));
  const nlohmann::json header = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return damaged("has a header that is no JSON object");
  const uint64_t begin = sizeof(header_bytes) + header_bytes;
  for (const auto& item : header.items()) {
    const std::string& name = item.key();
    const nlohmann::json& value = item.value();
    if (name == "__metadata__") continue;
    const auto wrong = [&] { return damaged(absl::StrCat("has a wrong entry '", name, "'")); };
    const auto is_natural = [](const nlohmann::json& number) {
      return number.is_number_unsigned();
    };
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
        !value.contains("shape") || !value["shape"].is_array() || !value.contains("data_offsets") ||
        !value["data_offsets"].is_array() || value["data_offsets"].size() != 2 ||
        !std::all_of(value["shape"].begin(), value["shape"].end(), is_natural) ||
        !std::all_of(value["data_offsets"].begin(), value["data_offsets"].end(), is_natural)) {
      return wrong();
    }
    Entry entry;
    const auto& dtype = value["dtype"].get_ref<const std::string&>();
    entry.dtype = DTypeOfName(dtype);
    if (entry.dtype == DType::kInvalid) {
      return Unimplemented("safetensors file '", path.name, "': '", name, "' is of dtype ", dtype);
    }
    Dims dims;
    for (const auto& dim : value["shape"]) dims.push_back(dim.get<int64_t>());
    absl::StatusOr<Shape> shape = Shape::Make(dims);
    if (!shape.ok()) return wrong();
    entry.shape = *std::move(shape);
    const auto first = value["data_offsets"][0].get<uint64_t>();
    const auto last = value["data_offsets"][1].get<uint64_t>();
    uint64_t bytes = 0;
    if (first > last || last > file.size() - begin ||
        __builtin_mul_overflow(static_cast<uint64_t>(entry.shape.num_elements()),
                               DTypeSize(entry.dtype), &bytes) ||
        bytes != last - first) {
      return wrong();
    }
    entry.offset = begin + first;
    reader->entries_.emplace(name, std::move(entry));
  }
  return reader;
}

absl::StatusOr<Tensor> SafetensorsReader::Read(const std::string& name,
                                               Allocator& allocator) const {
  const Entry& entry = entries_.at(name);
  FORMWORK_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(allocator, entry.dtype, entry.shape));
  FORMWORK_RETURN_IF_ERROR(file_->Read(entry.offset, value.bytes(), value.mutable_raw()));
  if (entry.dtype == DType::kBool) {
    auto* bytes = static_cast<uint8_t*>(value.mutable_raw());
    for (size_t i = 0; i < value.bytes(); ++i) bytes[i] = bytes[i] != 0;
  }
  return value;
}

}  // namespace formwork
