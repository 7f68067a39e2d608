#include "tests/support/op_case_objects.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/kernels/variant/csr_matrix.h"
#include "core/kernels/variant/optional.h"
#include "core/kernels/variant/variant_nesting.h"
#include "core/ops/table.h"
#include "tests/support/op_case_text.h"

namespace formwork::testing {
namespace {

// The words of "(kind ...)" after the kind.
absl::StatusOr<std::vector<std::string>> WordsOf(absl::string_view text, absl::string_view* kind) {
  absl::string_view inner = text;
  if (!absl::ConsumePrefix(&inner, "(") || !absl::ConsumeSuffix(&inner, ")")) {
    return InvalidArgument("not in parentheses: ", text);
  }
  std::vector<std::string> words = Tokens(inner);
  if (words.empty()) return InvalidArgument("nothing in parentheses");
  for (absl::string_view known : {"list", "optional", "csr", "variable", "table"}) {
    if (words[0] == known) *kind = known;
  }
  words.erase(words.begin());
  return words;
}

// Takes "name=..." from the words, where it is next.
std::optional<std::string> TakeWord(std::vector<std::string>& words, absl::string_view name) {
  if (words.empty()) return std::nullopt;
  absl::string_view word = words[0];
  if (!absl::ConsumePrefix(&word, name) || !absl::ConsumePrefix(&word, "=")) return std::nullopt;
  std::string value(word);
  words.erase(words.begin());
  return value;
}

// A list whose items are not made yet.
struct ListText {
  DType dtype;
  PartialShape shape;
  int64_t max = -1;
  std::vector<std::string> items;
};

absl::StatusOr<ListText> ParseList(std::vector<std::string> words) {
  if (words.empty()) return InvalidArgument("a list without a dtype");
  ListText list;
  FORMWORK_ASSIGN_OR_RETURN(list.dtype, ParseDType(words[0]));
  words.erase(words.begin());
  if (const std::optional<std::string> shape = TakeWord(words, "shape")) {
    FORMWORK_ASSIGN_OR_RETURN(list.shape, ParsePartialShape(*shape));
  }
  if (const std::optional<std::string> max = TakeWord(words, "max")) {
    FORMWORK_ASSIGN_OR_RETURN(list.max, ParseInt(*max));
  }
  list.items = std::move(words);
  return list;
}

absl::StatusOr<ValueText> ParseItem(absl::string_view item) {
  if (!absl::ConsumePrefix(&item, "(") || !absl::ConsumeSuffix(&item, ")")) {
    return InvalidArgument("not in parentheses: ", item);
  }
  return ParseValue(Tokens(item));
}

absl::Status CompareItem(absl::string_view expected, const TensorList& list, const Tensor& got) {
  ValueText zeros;
  zeros.dtype = list.element_dtype;
  zeros.tokens = {"zeros"};
  if (expected == "none") {
    if (!got.has_value()) return absl::OkStatus();
    zeros.shape = got.shape();
    return CompareValue(zeros, got, std::nullopt);
  }
  FORMWORK_ASSIGN_OR_RETURN(const ValueText want, ParseItem(expected));
  if (got.has_value()) return CompareValue(want, got, std::nullopt);
  zeros.shape = want.shape;
  FORMWORK_ASSIGN_OR_RETURN(const Tensor read, MakeValue(zeros, ProcessAllocator()));
  return CompareValue(want, read, std::nullopt);
}

// Of a table: key and value of each entry as text, sorted.
std::vector<std::string> EntriesOf(const Tensor& keys, const Tensor& values) {
  std::vector<std::string> entries;
  const int64_t n = keys.num_elements();
  const int64_t width = n == 0 ? 0 : values.num_elements() / n;
  for (int64_t i = 0; i < n; ++i) {
    std::string entry = absl::StrCat(ElementText(keys, i), " ->");
    for (int64_t j = 0; j < width; ++j) {
      absl::StrAppend(&entry, " ", ElementText(values, i * width + j));
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

absl::StatusOr<Variant> MakeList(std::vector<std::string> words, Allocator& allocator) {
  FORMWORK_ASSIGN_OR_RETURN(const ListText parsed, ParseList(std::move(words)));
  auto list = std::make_shared<TensorList>();
  list->element_dtype = parsed.dtype;
  list->element_shape = parsed.shape;
  list->max_num_elements = static_cast<int>(parsed.max);
  for (const std::string& item : parsed.items) {
    Tensor& made = list->items.emplace_back();
    if (item == "none") continue;
    FORMWORK_ASSIGN_OR_RETURN(const ValueText value, ParseItem(item));
    FORMWORK_ASSIGN_OR_RETURN(made, MakeValue(value, allocator));
    FORMWORK_RETURN_IF_ERROR(CountNesting(*list, made));
  }
  return Variant(std::move(list));
}

// Each word is a component; without any there is no value.
absl::StatusOr<Variant> MakeOptional(const std::vector<std::string>& words, Allocator& allocator) {
  auto optional = std::make_shared<Optional>();
  for (const std::string& word : words) {
    FORMWORK_ASSIGN_OR_RETURN(const ValueText value, ParseItem(word));
    FORMWORK_ASSIGN_OR_RETURN(Tensor made, MakeValue(value, allocator));
    FORMWORK_RETURN_IF_ERROR(CountNesting(*optional, made));
    optional->components.push_back(std::move(made));
  }
  return Variant(std::move(optional));
}

absl::Status CompareList(std::vector<std::string> expected, const Variant& got) {
  FORMWORK_ASSIGN_OR_RETURN(const ListText want, ParseList(std::move(expected)));
  const auto* list = dynamic_cast<const TensorList*>(got.get());
  if (list == nullptr) return FailedPrecondition("there is no list");
  if (list->element_dtype != want.dtype || list->element_shape != want.shape) {
    return FailedPrecondition("expected a list of ", DTypeName(want.dtype), want.shape.ToString(),
                              ", got one of ", DTypeName(list->element_dtype),
                              list->element_shape.ToString());
  }
  if (list->items.size() != want.items.size()) {
    return FailedPrecondition("expected a list of ", want.items.size(), " items, got ",
                              list->items.size());
  }
  for (size_t i = 0; i < want.items.size(); ++i) {
    const absl::Status status = CompareItem(want.items[i], *list, list->items[i]);
    if (!status.ok()) return FailedPrecondition("item ", i, ": ", status.message());
  }
  return absl::OkStatus();
}

absl::Status CompareOptional(const std::vector<std::string>& expected, const Variant& got) {
  const auto* optional = dynamic_cast<const Optional*>(got.get());
  if (optional == nullptr) return FailedPrecondition("there is no optional");
  if (optional->components.size() != expected.size()) {
    return FailedPrecondition("expected an optional of ", expected.size(), " components, got ",
                              optional->components.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    FORMWORK_ASSIGN_OR_RETURN(const ValueText want, ParseItem(expected[i]));
    const absl::Status status = CompareValue(want, optional->components[i], std::nullopt);
    if (!status.ok()) return FailedPrecondition("component ", i, ": ", status.message());
  }
  return absl::OkStatus();
}

struct CsrText {
  Shape shape;
  ValueText indices, values;
};

absl::StatusOr<CsrText> ParseCsr(const std::vector<std::string>& words) {
  if (words.size() != 3) return InvalidArgument("not a shape, indices and values");
  CsrText text;
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape shape, ParsePartialShape(words[0]));
  FORMWORK_ASSIGN_OR_RETURN(text.shape, Shape::Make(shape.dims()));
  FORMWORK_ASSIGN_OR_RETURN(text.indices, ParseItem(words[1]));
  FORMWORK_ASSIGN_OR_RETURN(text.values, ParseItem(words[2]));
  return text;
}

absl::StatusOr<Variant> MakeCsr(const std::vector<std::string>& words, Allocator& allocator) {
  FORMWORK_ASSIGN_OR_RETURN(const CsrText text, ParseCsr(words));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor indices, MakeValue(text.indices, allocator));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor values, MakeValue(text.values, allocator));
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> matrix,
                            CsrFromEntries(allocator, indices, values, text.shape));
  return Variant(std::move(matrix));
}

absl::Status CompareCsr(const std::vector<std::string>& expected, const Variant& got) {
  FORMWORK_ASSIGN_OR_RETURN(const CsrText want, ParseCsr(expected));
  const auto* matrix = dynamic_cast<const CsrMatrix*>(got.get());
  if (matrix == nullptr) return FailedPrecondition("there is no sparse matrix");
  if (matrix->shape != want.shape) {
    return FailedPrecondition("expected a matrix of ", want.shape.ToString(), ", got one of ",
                              matrix->shape.ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Tensor indices, IndicesOf(ProcessAllocator(), *matrix));
  FORMWORK_RETURN_IF_ERROR(
      Annotate(CompareValue(want.indices, indices, std::nullopt), "where entries are"));
  return Annotate(CompareValue(want.values, matrix->values, std::nullopt), "values");
}

}  // namespace

absl::StatusOr<Variant> MakeVariant(absl::string_view text, Allocator& allocator) {
  absl::string_view kind;
  FORMWORK_ASSIGN_OR_RETURN(std::vector<std::string> words, WordsOf(text, &kind));
  if (kind == "list") return MakeList(std::move(words), allocator);
  if (kind == "optional") return MakeOptional(words, allocator);
  if (kind == "csr") return MakeCsr(words, allocator);
  return InvalidArgument("not a list, an optional or a sparse matrix: ", text);
}

absl::Status CompareVariant(absl::string_view expected, const Variant& got) {
  absl::string_view kind;
  FORMWORK_ASSIGN_OR_RETURN(std::vector<std::string> words, WordsOf(expected, &kind));
  if (kind == "list") return CompareList(std::move(words), got);
  if (kind == "optional") return CompareOptional(words, got);
  if (kind == "csr") return CompareCsr(words, got);
  return InvalidArgument("not a list, an optional or a sparse matrix: ", expected);
}

absl::StatusOr<ResourceText> ParseResource(const ValueText& text) {
  if (text.dtype != DType::kResource || text.tokens.size() != 1) {
    return InvalidArgument("not one resource");
  }
  absl::string_view kind;
  FORMWORK_ASSIGN_OR_RETURN(std::vector<std::string> words, WordsOf(text.tokens[0], &kind));
  ResourceText resource;
  if (kind == "variable") {
    const std::optional<std::string> declared = TakeWord(words, "shape");
    FORMWORK_ASSIGN_OR_RETURN(ValueText value, ParseValue(std::move(words)));
    PartialShape shape = value.shape;
    if (declared) {
      FORMWORK_ASSIGN_OR_RETURN(shape, ParsePartialShape(*declared));
    }
    resource.type = ResourceType::Variable(value.dtype, std::move(shape));
    if (value.tokens != std::vector<std::string>{"none"}) resource.value = std::move(value);
    return resource;
  }
  const auto arrow = std::find(words.begin(), words.end(), "->");
  if (kind != "table" || arrow == words.end()) {
    return InvalidArgument("not a variable or a table: ", text.tokens[0]);
  }
  FORMWORK_ASSIGN_OR_RETURN(resource.keys, ParseValue({words.begin(), arrow}));
  FORMWORK_ASSIGN_OR_RETURN(resource.values, ParseValue({arrow + 1, words.end()}));
  const absl::Span<const int64_t> value = resource.values.shape.dims().subspan(1);
  resource.type = {
      &kTableKind,
      {{resource.keys.dtype, Shape()}, {resource.values.dtype, PartialShape::Trusted(value)}}};
  return resource;
}

CaseResources::CaseResources(const OpRegistry& ops, const KernelRegistry& kernels,
                             Allocator& allocator)
    : ops_(ops),
      kernels_(kernels),
      allocator_(allocator),
      ticket_(std::make_unique<AccessTicket>(store_, allocator)) {}

absl::StatusOr<std::vector<Tensor>> CaseResources::RunOp(absl::string_view op,
                                                         std::vector<Tensor> inputs,
                                                         std::vector<DType> outputs) {
  std::vector<DType> dtypes;
  std::vector<InputRef> refs;
  for (const Tensor& input : inputs) {
    dtypes.push_back(input.dtype());
    refs.push_back({&input, false});
  }
  const AttrMap attrs;
  std::vector<Tensor> made(outputs.size());
  CaseInit init(*ops_.Find(op), attrs, std::move(dtypes), std::move(outputs));
  FORMWORK_ASSIGN_OR_RETURN(const KernelFn kernel, kernels_.Find(op)(init));
  StopFlag stop;
  CaseScope scope(allocator_, access(), stop);
  KernelContext context(scope, refs, absl::MakeSpan(made));
  FORMWORK_RETURN_IF_ERROR(kernel(context));
  return made;
}

absl::StatusOr<Tensor> CaseResources::Add(ResourceType type, std::optional<Tensor> value) {
  bool existed = false;
  FORMWORK_ASSIGN_OR_RETURN(
      std::shared_ptr<Resource> resource,
      store_.Create("", absl::StrCat("r", requests_.size()), std::move(type), std::move(value),
                    /*exact_shape=*/true, &existed));
  Tensor handle = Tensor::Scalar(ResourceHandle{resource->id});
  requests_.push_back({std::move(resource), Access::kWrite});
  ticket_ = nullptr;  // Releases before the next one takes its places.
  ticket_ = std::make_unique<AccessTicket>(store_, allocator_);
  ticket_->Take(requests_, [] {});
  return handle;
}

absl::StatusOr<Tensor> CaseResources::Add(const ValueText& text) {
  FORMWORK_ASSIGN_OR_RETURN(ResourceText parsed, ParseResource(text));
  const bool is_table = !parsed.type.is_variable();
  std::optional<Tensor> value;
  if (parsed.value) {
    FORMWORK_ASSIGN_OR_RETURN(value, MakeValue(*parsed.value, allocator_));
  }
  FORMWORK_ASSIGN_OR_RETURN(const Tensor handle, Add(std::move(parsed.type), std::move(value)));
  if (is_table) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor keys, MakeValue(parsed.keys, allocator_));
    FORMWORK_ASSIGN_OR_RETURN(Tensor values, MakeValue(parsed.values, allocator_));
    FORMWORK_RETURN_IF_ERROR(
        RunOp("LookupTableInsertV2", {handle, std::move(keys), std::move(values)}, {}).status());
  }
  return handle;
}

absl::Status CaseResources::Compare(size_t i, const ValueText& expected,
                                    const std::optional<Tolerance>& tolerance) {
  FORMWORK_ASSIGN_OR_RETURN(const ResourceText want, ParseResource(expected));
  const ResourceHandle handle = {requests_[i].resource->id};
  if (want.type.is_variable()) {
    if (access().IsInitialized(handle) != want.value.has_value()) {
      return FailedPrecondition("expected a variable with", want.value ? "" : "out", " a value");
    }
    if (!want.value) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const Tensor value, access().Read(handle));
    return CompareValue(*want.value, value, tolerance);
  }
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<Tensor> got,
                            RunOp("LookupTableExportV2", {Tensor::Scalar(handle)},
                                  {want.type.parts[0].dtype, want.type.parts[1].dtype}));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor keys, MakeValue(want.keys, ProcessAllocator()));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor values, MakeValue(want.values, ProcessAllocator()));
  const std::vector<std::string> entries = EntriesOf(keys, values);
  const std::vector<std::string> found = EntriesOf(got[0], got[1]);
  if (entries == found) return absl::OkStatus();
  return FailedPrecondition("expected a table of [", absl::StrJoin(entries, ", "), "], got [",
                            absl::StrJoin(found, ", "), "]");
}

}  // namespace formwork::testing
