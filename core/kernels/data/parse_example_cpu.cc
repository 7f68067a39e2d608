// Datasets of parsed examples: of each vector of serialized tf.train.Examples its features, by
// name.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/position.h"
#include "core/kernels/io/parse_example.h"
#include "core/kernels/variant/ragged_variant.h"
#include "core/kernels/variant/tensor_part.h"
#include "core/kernels/variant/variant_nesting.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// What ParseExampleV2 is given and makes, for each element. Immutable.
struct Parser {
  KernelFn parse;
  Element inputs;  // Behind the examples: names, of which there are none, keys, defaults.
  int sparse = 0, dense = 0, ragged = 0;
  // For each component of an element the number of its feature: sparse ones, dense ones, ragged
  // ones. TensorFlow sorts them by name.
  std::vector<int> order;

  absl::Status Run(IterationContext& ctx, const Tensor& examples, Element& element) const {
    std::vector<InputRef> refs = {{&examples, false}};
    for (const Tensor& input : inputs) refs.push_back({&input, false});
    Element outputs(static_cast<size_t>(3 * sparse + dense + 2 * ragged));
    KernelContext kernel(ctx.call, refs, absl::MakeSpan(outputs));
    FORMWORK_RETURN_IF_ERROR(parse(kernel));
    const auto take = [&](int i) { return std::move(outputs[static_cast<size_t>(i)]); };
    for (const int feature : order) {
      if (feature < sparse) {
        FORMWORK_ASSIGN_OR_RETURN(Tensor parts,
                                  Tensor::Allocate(ctx.allocator(), DType::kVariant, Shape{3}));
        for (int i = 0; i < 3; ++i) {
          FORMWORK_ASSIGN_OR_RETURN(parts.mutable_data<Variant>()[i],
                                    PartOf(take(feature + i * sparse)));
        }
        element.push_back(std::move(parts));
      } else if (feature < sparse + dense) {
        element.push_back(take(3 * sparse + feature - sparse));
      } else {
        const int values = 3 * sparse + feature - sparse;
        auto row = std::make_shared<RaggedVariant>();
        row->values = take(values);
        row->splits = {take(values + ragged)};
        element.push_back(Tensor::VariantScalar(std::move(row)));
      }
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<Tensor> Texts(Allocator& allocator, const std::vector<std::string>& texts) {
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor all,
      Tensor::Allocate(allocator, DType::kString, Shape{static_cast<int64_t>(texts.size())}));
  std::copy(texts.begin(), texts.end(), all.mutable_data<std::string>());
  return all;
}

struct ParseStage {
  Iterator it;
  std::shared_ptr<const Parser> parser;
  Element examples = {};

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, examples));
    if (!more) return false;
    if (examples[0].rank() != 1) {
      return InvalidArgument("ParseExampleDataset: an element must be a vector of strings: ",
                             examples[0].shape().ToString());
    }
    FORMWORK_RETURN_IF_ERROR(parser->Run(ctx, examples[0], element));
    return true;
  }
  absl::Status Keep(Position& position) { return position.Keep(it); }
};

absl::StatusOr<KernelFn> MakeParseExample(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const auto sparse,
                            init.attrs().Get<std::vector<std::string>>("sparse_keys"));
  FORMWORK_ASSIGN_OR_RETURN(const auto dense,
                            init.attrs().Get<std::vector<std::string>>("dense_keys"));
  FORMWORK_ASSIGN_OR_RETURN(const auto ragged,
                            init.attrs().Get<std::vector<std::string>>("ragged_keys"));
  std::vector<std::string> all = sparse;
  all.insert(all.end(), dense.begin(), dense.end());
  all.insert(all.end(), ragged.begin(), ragged.end());
  if (all.size() != spec.dtypes.size()) {
    return InvalidArgument("ParseExampleDatasetV2: there are ", all.size(), " features and ",
                           spec.dtypes.size(), " components");
  }
  std::vector<int> order(all.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return all[static_cast<size_t>(a)] < all[static_cast<size_t>(b)];
  });
  FORMWORK_ASSIGN_OR_RETURN(const auto attrs, ParseExampleAttrs::FromAttrs(init.attrs()));
  return DatasetKernel(init, [=](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(input->spec.dtypes, {DType::kString}));
    auto parser = std::make_shared<Parser>();
    parser->sparse = static_cast<int>(attrs.sparse.size());
    parser->dense = static_cast<int>(attrs.dense.size());
    parser->ragged = static_cast<int>(attrs.ragged.size());
    parser->parse = ParseExampleKernel(attrs);
    parser->order = order;
    const std::vector<std::string> none;
    for (const auto* keys : {&none, &sparse, &dense, &ragged}) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor texts, Texts(ctx.allocator(), *keys));
      parser->inputs.push_back(std::move(texts));
    }
    for (int i = 2; i < ctx.num_inputs(); ++i) parser->inputs.push_back(ctx.input(i));
    return NewDataset(spec, input->cardinality, [=](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn::Of<ParseStage>(std::move(it), parser);
    });
  });
}

}  // namespace

void RegisterParseExampleDatasets(KernelRegistry& registry) {
  registry.Add("ParseExampleDatasetV2", MakeParseExample);
}

}  // namespace formwork
