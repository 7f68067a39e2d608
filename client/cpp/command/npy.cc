#include "command/npy.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace formwork::command {
namespace {

namespace tf = formwork::tf;
using client::DataType;
using client::Tensor;

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;

struct Descr {
  const char* text;  // Without the byte order.
  DataType dtype;
};
constexpr Descr kDescrs[] = {
    {"f4", tf::DT_FLOAT},     {"f8", tf::DT_DOUBLE},      {"f2", tf::DT_HALF},
    {"i1", tf::DT_INT8},      {"i2", tf::DT_INT16},       {"i4", tf::DT_INT32},
    {"i8", tf::DT_INT64},     {"u1", tf::DT_UINT8},       {"u2", tf::DT_UINT16},
    {"u4", tf::DT_UINT32},    {"u8", tf::DT_UINT64},      {"b1", tf::DT_BOOL},
    {"c8", tf::DT_COMPLEX64}, {"c16", tf::DT_COMPLEX128},
};

std::string DescrOf(DataType dtype) {
  for (const Descr& descr : kDescrs) {
    if (descr.dtype == dtype) return descr.text;
  }
  return absl::StrCat("u", client::DataTypeSize(dtype));
}

DataType DTypeOf(const std::string& descr) {
  for (const Descr& known : kDescrs) {
    if (descr == known.text) return known.dtype;
  }
  return tf::DT_INVALID;
}

absl::Status BadFile(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() < 12 || bytes->compare(0, kMagicBytes, kMagic) != 0) {
    return BadFile(path, "not a .npy file");
  }
  const bool short_length = (*bytes)[6] == 1;
  uint32_t length = 0;
  std::memcpy(&length, bytes->data() + 8, short_length ? 2 : 4);
  const size_t start = short_length ? 10 : 12;
  if (length > bytes->size() - start) return BadFile(path, "truncated header");
  const std::string header = bytes->substr(start, length);
  std::smatch match;
  if (!std::regex_search(header, match, std::regex("'descr': *'([<|=])?([a-z][0-9]+)'"))) {
    return BadFile(path, "elements of a kind that cannot be sent");
  }
  const DataType dtype = DTypeOf(match[2]);
  if (dtype == tf::DT_INVALID) return BadFile(path, "elements of a kind that cannot be sent");
  if (!std::regex_search(header, std::regex("'fortran_order': *False"))) {
    return BadFile(path, "in Fortran's order; save numpy.ascontiguousarray of it");
  }
  if (!std::regex_search(header, match, std::regex("'shape': *\\(([0-9, ]*)\\)"))) {
    return BadFile(path, "header without shape");
  }
  std::vector<int64_t> dims;
  for (absl::string_view part : absl::StrSplit(match[1].str(), ',', absl::SkipWhitespace())) {
    int64_t dim;
    if (!absl::SimpleAtoi(part, &dim)) return BadFile(path, "bad shape");
    dims.push_back(dim);
  }
  return Tensor(dtype, std::move(dims), bytes->substr(start + length));
}

absl::Status WriteNpy(const Tensor& tensor, const std::string& path) {
  const size_t size = client::DataTypeSize(tensor.dtype());
  if (size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", client::DataTypeName(tensor.dtype()), " is not written"));
  }
  std::string header =
      absl::StrCat("{'descr': '", size == 1 ? "|" : "<", DescrOf(tensor.dtype()),
                   "', 'fortran_order': False, 'shape': (", absl::StrJoin(tensor.dims(), ", "),
                   tensor.dims().size() == 1 ? ",), }" : "), }");
  const size_t total = (10 + header.size() + 1 + 63) / 64 * 64;
  header.resize(total - 10 - 1, ' ');
  header += '\n';
  const uint16_t length = static_cast<uint16_t>(header.size());
  std::ofstream file(path, std::ios::binary);
  file.write(kMagic, kMagicBytes).write("\x01\x00", 2);
  file.write(reinterpret_cast<const char*>(&length), 2);
  file << header << tensor.Content();
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

}  // namespace formwork::command
