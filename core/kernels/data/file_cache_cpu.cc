// Datasets that keep the elements of their inputs in files: caches with a name, and snapshots.
//
// The elements are a tensor bundle, with the keys and in the order of TensorFlow's own caches, so
// that one reads what the other has written. It is there once an iterator has come to the end of
// the input; who begins earlier goes through the input, too, and the last to end has written it.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset_function.h"
#include "core/kernels/data/position.h"
#include "core/kernels/data/stages.h"
#include "core/kernels/variant/variant_nesting.h"
#include "core/storage/files_dir.h"
#include "core/storage/tensor_bundle.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// As many as TensorFlow's keys have digits for.
constexpr int64_t kMostElements = 10'000'000;

std::string KeyOf(int64_t element, size_t component, size_t components) {
  const int digits = static_cast<int>(std::to_string(components - 1).size());
  return absl::StrFormat("%7d_%*d", element, digits, component);
}

struct FileReadStage {
  std::unique_ptr<BundleReader> reader;
  std::vector<DType> dtypes;
  int64_t at = 0;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    for (size_t c = 0; c < dtypes.size(); ++c) {
      const std::string key = KeyOf(at, c, dtypes.size());
      if (c == 0 && !reader->entries().contains(key)) return false;
      FORMWORK_ASSIGN_OR_RETURN(Tensor component, reader->Read(key, ctx.allocator()));
      element.push_back(std::move(component));
    }
    ++at;
    std::vector<DType> read;
    for (const Tensor& component : element) read.push_back(component.dtype());
    FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(dtypes, read));
    return true;
  }
  absl::Status Keep(Position& position) {
    return position.KeepUpTo(static_cast<uint64_t>(kMostElements), at);
  }
};

// What has been written is there at the end alone, so that it cannot go on after a restart.
struct FileWriteStage {
  Iterator it;
  std::unique_ptr<BundleWriter> writer;
  int64_t at = 0;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
    if (!more) {
      FORMWORK_RETURN_IF_ERROR(writer->Finish());
      return false;
    }
    if (at == kMostElements) {
      return InvalidArgument("Upstream iterator is producing more than ", kMostElements,
                             " items, which is more than the cache limit.");
    }
    for (size_t c = 0; c < element.size(); ++c) {
      FORMWORK_RETURN_IF_ERROR(writer->Add(KeyOf(at, c, element.size()), element[c]));
    }
    ++at;
    return true;
  }
};

// What is in the bundle of that name; null: there is none yet.
absl::StatusOr<std::unique_ptr<BundleReader>> OpenElements(IterationContext& ctx,
                                                           const std::string& name) {
  FORMWORK_ASSIGN_OR_RETURN(const FilePath path, PathInFolder(ctx.call.files_dir(), name));
  absl::StatusOr<std::unique_ptr<BundleReader>> reader = BundleReader::Open(path);
  if (absl::IsNotFound(reader.status())) return nullptr;
  return reader;
}

Begun WriteElements(IterationContext& ctx, const Dataset& input, const std::string& name) {
  FORMWORK_ASSIGN_OR_RETURN(const FilePath path, NewPathInFolder(ctx.call.files_dir(), name));
  FORMWORK_ASSIGN_OR_RETURN(Iterator it, input.Begin(ctx));
  FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<BundleWriter> writer, BundleWriter::Create(path));
  return NextFn::Of<FileWriteStage>(std::move(it), std::move(writer));
}

// The elements of the first pass are the input's as they come, later ones what the reader function
// makes of a dataset that has one dataset: that of the elements. A path is one dataset's: nothing
// tells whether it is the same, but for its dtypes; the shard function and the compression, which
// say how they lie on the disk, are not asked.
absl::StatusOr<KernelFn> MakeSnapshot(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_ASSIGN_OR_RETURN(const auto captured,
                            init.attrs().Get<std::vector<DType>>("Treader_func_args"));
  return DatasetKernel(
      init,
      [=, count = static_cast<int>(captured.size())](KernelContext& ctx, DatasetPtr input) -> Made {
        FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(spec.dtypes, input->spec.dtypes));
        FORMWORK_ASSIGN_OR_RETURN(const std::string path, ScalarInput<std::string>(ctx, 1, "path"));
        const std::string name = absl::StrCat(path, "/elements");
        auto read = std::make_shared<const DatasetFunction>(ctx, function, 2, count);
        return NewDataset(spec, input->cardinality, [=](IterationContext& ctx) -> Begun {
          FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<BundleReader> there, OpenElements(ctx, name));
          if (there == nullptr) return WriteElements(ctx, *input, name);
          auto shard = NewDataset(spec, Dataset::kUnknown, [=](IterationContext& ctx) -> Begun {
            FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<BundleReader> reader,
                                      OpenElements(ctx, name));
            if (reader == nullptr) return NotFound("a snapshot has gone: ", name);
            return NextFn::Of<FileReadStage>(std::move(reader), spec.dtypes);
          });
          std::vector<Element> shards = {{Tensor::VariantScalar(std::move(shard))}};
          FORMWORK_ASSIGN_OR_RETURN(Tensor all,
                                    HeldDataset({{DType::kVariant}, {Shape()}}, std::move(shards)));
          FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, read->NewRun(ctx));
          FORMWORK_ASSIGN_OR_RETURN(const DatasetPtr dataset,
                                    run.RunForDataset(ctx, {std::move(all)}, spec.dtypes));
          FORMWORK_ASSIGN_OR_RETURN(Iterator it, dataset->Begin(ctx));
          return NextFn::Of<PassStage>(std::move(it));
        });
      });
}

}  // namespace

std::shared_ptr<Dataset> FileCachedDataset(DatasetPtr input, std::string name) {
  ElementSpec spec = input->spec;
  const int64_t cardinality = input->cardinality;
  return NewDataset(
      std::move(spec), cardinality,
      [input = std::move(input), name = std::move(name)](IterationContext& ctx) -> Begun {
        FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<BundleReader> reader, OpenElements(ctx, name));
        if (reader == nullptr) return WriteElements(ctx, *input, name);
        return NextFn::Of<FileReadStage>(std::move(reader), input->spec.dtypes);
      });
}

void RegisterFileCacheDatasets(KernelRegistry& registry) {
  registry.Add("SnapshotDatasetV2", MakeSnapshot);
}

}  // namespace formwork
