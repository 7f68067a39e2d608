// Elements of datasets as one variant, and back.

#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/variant/variant_nesting.h"
#include "core/ops/data.h"
#include "core/ops/graph_dtype.h"

namespace formwork {
namespace {

// TensorFlow packs the bytes, for elements that leave the process. These do not: they are held as
// they are, which takes no memory beside the tensors' own, and no time.
class CompressedElement final : public VariantObject {
 public:
  absl::string_view type_name() const override { return "tensorflow::data::CompressedElement"; }
  std::vector<Tensor> components;
};

absl::StatusOr<KernelFn> MakeCompress(KernelInit& init) {
  return KernelFn(
      [n = static_cast<int>(init.input_dtypes().size())](KernelContext& ctx) -> absl::Status {
        auto element = std::make_shared<CompressedElement>();
        for (int i = 0; i < n; ++i) {
          FORMWORK_RETURN_IF_ERROR(CountNesting(*element, ctx.input(i)));
          element->components.push_back(ctx.input(i));
        }
        ctx.SetOutput(0, Tensor::VariantScalar(std::move(element)));
        return absl::OkStatus();
      });
}

absl::StatusOr<KernelFn> MakeUncompress(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  return KernelFn([spec = std::move(spec)](KernelContext& ctx) -> absl::Status {
    const Tensor given = ctx.input(0);  // A copy: outputs may take the input's place.
    const auto* const element =
        given.num_elements() == 0
            ? nullptr
            : dynamic_cast<const CompressedElement*>(given.data<Variant>()[0].get());
    if (element == nullptr) {
      return InvalidArgument("Input does not contain a compressed element. Instead got tensor ",
                             given.DebugString());
    }
    const std::vector<Tensor>& components = element->components;
    if (components.size() != spec.dtypes.size()) {
      return FailedPrecondition("Expected ", spec.dtypes.size(),
                                " outputs from uncompress, but got ", components.size());
    }
    for (size_t i = 0; i < components.size(); ++i) {
      if (components[i].dtype() != spec.dtypes[i]) {
        return FailedPrecondition("Expected a tensor of type ", GraphDTypeName(spec.dtypes[i]),
                                  " but got a tensor of type ",
                                  GraphDTypeName(components[i].dtype()));
      }
    }
    FORMWORK_RETURN_IF_ERROR(CheckElement(spec, components));
    for (size_t i = 0; i < components.size(); ++i) {
      ctx.SetOutput(static_cast<int>(i), components[i]);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterCompressedElements(KernelRegistry& registry) {
  registry.Add("CompressElement", MakeCompress);
  registry.Add("UncompressElement", MakeUncompress);
}

}  // namespace formwork
