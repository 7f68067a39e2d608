#include "core/ops/attention.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/ops/dims.h"

namespace formwork {
namespace {

bool Has(absl::string_view term, char label) { return term.find(label) != term.npos; }

int64_t PlaceOf(absl::string_view term, char label) {
  const size_t at = term.find(label);
  return at == term.npos ? -1 : static_cast<int64_t>(at);
}

// The label of `term` that the others tell from the batch's; 0 where there is not just one.
char Only(absl::string_view term, absl::string_view with, absl::string_view without) {
  char found = 0;
  for (char label : term) {
    if (!Has(with, label) || Has(without, label)) continue;
    if (found != 0) return 0;
    found = label;
  }
  return found;
}

// `into`, where `dim` is another operand's. A mask has fewer where it says the same of all.
bool Meets(int64_t dim, bool may_be_one, bool may_be_longer, int64_t& into) {
  if (dim < 0 && into == 1 && may_be_longer) into = -1;
  if (dim < 0 || dim == into || (dim == 1 && may_be_one)) return true;
  if (into >= 0 && !(into == 1 && may_be_longer)) return false;
  into = dim;
  return true;
}

}  // namespace

absl::StatusOr<AttentionAttrs> AttentionAttrs::Parse(absl::string_view equation) {
  const auto refused = [&] {
    return InvalidArgument("_Attention: the equation is none of attention: ", equation);
  };
  const std::vector<absl::string_view> terms =
      absl::StrSplit(equation, absl::ByAnyChar(",->"), absl::SkipEmpty());
  if (terms.size() != 5) return refused();
  const absl::string_view q = terms[0], k = terms[1], v = terms[2], scores = terms[3],
                          output = terms[4];
  for (absl::string_view term : terms) {
    for (size_t i = 0; i < term.size(); ++i) {
      if (term.find(term[i], i + 1) != term.npos) return refused();
    }
  }
  const char queries = Only(q, output, k), keys = Only(k, v, q), depth = Only(q, k, output),
             width = Only(v, output, q);
  if (queries == 0 || keys == 0 || depth == 0 || width == 0) return refused();
  std::string batch;
  for (char label : scores) {
    if (label != queries && label != keys) batch.push_back(label);
  }
  AttentionAttrs attrs;
  AttentionDims* const dims[] = {&attrs.q, &attrs.k, &attrs.v, &attrs.scores, &attrs.output};
  for (size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].size() != batch.size() + 2) return refused();
    for (char label : batch) {
      if (!Has(terms[i], label)) return refused();
      dims[i]->batch.push_back(PlaceOf(terms[i], label));
    }
    dims[i]->queries = PlaceOf(terms[i], queries);
    dims[i]->keys = PlaceOf(terms[i], keys);
    dims[i]->depth = PlaceOf(terms[i], depth);
    dims[i]->width = PlaceOf(terms[i], width);
  }
  if (q.back() != depth || (k.back() != depth && k.back() != keys) || v.back() != width ||
      scores.back() != keys || attrs.scores.queries < 0 || output.back() != width) {
    return refused();
  }
  return attrs;
}

absl::StatusOr<AttentionAttrs> AttentionAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string equation, attrs.Get<std::string>("equation"));
  FORMWORK_ASSIGN_OR_RETURN(AttentionAttrs parsed, Parse(equation));
  FORMWORK_ASSIGN_OR_RETURN(parsed.scale, attrs.Get<float>("scale"));
  FORMWORK_ASSIGN_OR_RETURN(parsed.hidden, attrs.Get<float>("hidden"));
  FORMWORK_ASSIGN_OR_RETURN(parsed.broadcast, attrs.Get<bool>("broadcast"));
  return parsed;
}

absl::StatusOr<AttentionGeometry> PrepareAttention(
    const AttentionAttrs& attrs, absl::Span<const absl::Span<const int64_t>> inputs) {
  const absl::Span<const int64_t> q = inputs[0], k = inputs[1], v = inputs[2];
  const size_t rank = attrs.q.batch.size() + 2;
  AttentionGeometry g;
  bool fit = inputs.size() <= 4 && q.size() == rank && k.size() == rank && v.size() == rank;
  absl::Span<const int64_t> mask = inputs.size() > 3 ? inputs[3] : absl::Span<const int64_t>();
  fit = fit && mask.size() <= rank;
  if (fit) {
    // Its dimensions are the last of the scores'.
    const auto missing = static_cast<int64_t>(rank - mask.size());
    const auto of_mask = [&](int64_t place) { return place < missing ? 1 : mask[place - missing]; };
    g.queries = q[attrs.q.queries];
    g.keys = k[attrs.k.keys];
    g.depth = q[attrs.q.depth];
    g.width = v[attrs.v.width];
    fit = Meets(k[attrs.k.depth], false, false, g.depth) &&
          Meets(v[attrs.v.keys], false, false, g.keys) &&
          Meets(of_mask(attrs.scores.queries), true, false, g.queries) &&
          Meets(of_mask(attrs.scores.keys), true, false, g.keys);
    for (size_t b = 0; b < attrs.q.batch.size() && fit; ++b) {
      int64_t dim = q[attrs.q.batch[b]];
      fit = Meets(k[attrs.k.batch[b]], attrs.broadcast, attrs.broadcast, dim) &&
            Meets(v[attrs.v.batch[b]], attrs.broadcast, attrs.broadcast, dim) &&
            Meets(of_mask(attrs.scores.batch[b]), true, attrs.broadcast, dim);
      g.batch.push_back(dim);
    }
  }
  if (!fit) {
    return InvalidArgument("_Attention: the operands do not fit: q=", DimsText(q),
                           " k=", DimsText(k), " v=", DimsText(v), " mask=", DimsText(mask));
  }
  g.output.resize(rank);
  for (size_t b = 0; b < g.batch.size(); ++b) g.output[attrs.output.batch[b]] = g.batch[b];
  g.output[attrs.output.queries] = g.queries;
  g.output[attrs.output.width] = g.width;
  return g;
}

AttentionStrides StridesOf(absl::Span<const int64_t> dims, const AttentionDims& places, int64_t row,
                           int64_t column) {
  const auto missing =
      static_cast<int64_t>(places.batch.size() + 2) - static_cast<int64_t>(dims.size());
  Dims apart(dims.size(), 0);
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] != 1) apart[d] = stride;
    stride *= dims[d];
  }
  const auto at = [&](int64_t place) { return place < missing ? 0 : apart[place - missing]; };
  AttentionStrides strides;
  for (int64_t place : places.batch) strides.batch.push_back(at(place));
  strides.row = at(row);
  strides.column = at(column);
  return strides;
}

}  // namespace formwork
