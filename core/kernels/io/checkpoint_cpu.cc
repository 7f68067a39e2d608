// TensorFlow's checkpoints from graphs: what a SavedModel's own function for saving does. Names of
// files are those in the folder that the server has for them.

#include <unistd.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/kernels/io/io_cpu.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/storage/files_dir.h"
#include "core/storage/tensor_bundle.h"

namespace formwork {
namespace {

absl::StatusOr<std::string> ScalarText(const Tensor& input, absl::string_view what) {
  if (input.num_elements() == 1) return input.scalar<std::string>();
  return InvalidArgument("Input ", what, " should have a single element, got shape ",
                         input.shape().ToString());
}

// Inputs 0 to 2 of SaveV2 and RestoreV2. Texts in TensorFlow's words.
struct NamedSlices {
  std::string prefix;
  absl::Span<const std::string> names;
  absl::Span<const std::string> slices;  ///< Empty: the whole tensor.
};

absl::StatusOr<NamedSlices> NamedSlicesOf(KernelContext& ctx, int tensors) {
  NamedSlices given;
  FORMWORK_ASSIGN_OR_RETURN(given.prefix, ScalarText(ctx.input(0), "prefix"));
  const Tensor& names = ctx.input(1);
  const Tensor& slices = ctx.input(2);
  if (names.rank() != 1 || names.num_elements() != tensors) {
    return InvalidArgument("Input tensor_names should be an 1-D tensor with ", tensors,
                           " elements, got ", names.shape().ToString());
  }
  if (slices.rank() != 1 || slices.num_elements() != tensors) {
    return InvalidArgument("Input shape_and_slices should be an 1-D tensor with ", tensors,
                           " elements, got ", slices.shape().ToString());
  }
  given.names = names.span<std::string>();
  given.slices = slices.span<std::string>();
  return given;
}

absl::StatusOr<KernelFn> MakeSaveV2(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const NamedSlices given, NamedSlicesOf(ctx, ctx.num_inputs() - 3));
    FORMWORK_ASSIGN_OR_RETURN(const FilePath prefix,
                              NewPathInFolder(ctx.call().files_dir(), given.prefix));
    FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer,
                              BundleWriter::Create(prefix));
    for (size_t i = 0; i < given.names.size(); ++i) {
      const Tensor& value = ctx.input(static_cast<int>(i) + 3);
      if (given.slices[i].empty()) {
        FORMWORK_RETURN_IF_ERROR(Annotate(writer->Add(given.names[i], value), given.names[i]));
        continue;
      }
      FORMWORK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Parse(given.slices[i]));
      FORMWORK_RETURN_IF_ERROR(writer->AddSlice(given.names[i], slice, value));
    }
    return writer->Finish();
  });
}

absl::StatusOr<KernelFn> MakeRestoreV2(KernelInit& init) {
  const absl::Span<const DType> dtypes = init.output_dtypes();
  return KernelFn([dtypes = std::vector<DType>(dtypes.begin(), dtypes.end())](
                      KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const NamedSlices given, NamedSlicesOf(ctx, ctx.num_outputs()));
    FORMWORK_ASSIGN_OR_RETURN(const FilePath prefix,
                              PathInFolder(ctx.call().files_dir(), given.prefix));
    FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader,
                              BundleReader::Open(prefix));
    for (size_t i = 0; i < given.names.size(); ++i) {
      const std::string& name = given.names[i];
      const auto entry = reader->entries().find(name);
      if (entry != reader->entries().end() && entry->second.dtype != dtypes[i]) {
        return InvalidArgument("tensor_name = ", name, "; expected dtype ", DTypeName(dtypes[i]),
                               " does not equal original dtype ", DTypeName(entry->second.dtype));
      }
      absl::StatusOr<Tensor> value;
      if (given.slices[i].empty()) {
        value = reader->Read(name, ctx.allocator());
      } else {
        FORMWORK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Parse(given.slices[i]));
        value = reader->ReadSlice(name, slice, ctx.allocator());
      }
      if (!value.ok()) return value.status();
      ctx.SetOutput(static_cast<int>(i), *std::move(value));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeMergeV2Checkpoints(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool delete_dirs, init.attrs().Get<bool>("delete_old_dirs"));
  FORMWORK_ASSIGN_OR_RETURN(const bool allow_missing,
                            init.attrs().Get<bool>("allow_missing_files"));
  return KernelFn([delete_dirs, allow_missing](KernelContext& ctx) -> absl::Status {
    const Tensor& given = ctx.input(0);
    if (given.rank() != 1) {
      return InvalidArgument("Input checkpoint_prefixes should be an 1-D tensor, got ",
                             given.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(const std::string text,
                              ScalarText(ctx.input(1), "destination_prefix"));
    FORMWORK_ASSIGN_OR_RETURN(const FilePath destination,
                              NewPathInFolder(ctx.call().files_dir(), text));
    std::vector<FilePath> prefixes;
    for (const std::string& prefix : given.span<std::string>()) {
      FORMWORK_ASSIGN_OR_RETURN(FilePath path, PathInFolder(ctx.call().files_dir(), prefix));
      if (allow_missing && !std::filesystem::exists(path.path + ".index")) continue;
      prefixes.push_back(std::move(path));
    }
    FORMWORK_RETURN_IF_ERROR(MergeBundles(prefixes, destination));
    const std::filesystem::path kept = std::filesystem::path(destination.path).parent_path();
    for (const FilePath& prefix : prefixes) {
      const std::filesystem::path folder = std::filesystem::path(prefix.path).parent_path();
      if (delete_dirs && folder != kept) rmdir(folder.c_str());  // Where nothing else is in it.
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeShardedFilename(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    for (int i = 0; i < 3; ++i) {
      if (ctx.input(i).rank() == 0) continue;
      return InvalidArgument("input must be a scalar: ", ctx.input(i).shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, DType::kString, {}));
    *output->mutable_data<std::string>() =
        absl::StrFormat("%s-%05d-of-%05d", ctx.input(0).scalar<std::string>(),
                        ctx.input(1).scalar<int32_t>(), ctx.input(2).scalar<int32_t>());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterIoCpuKernels(KernelRegistry& registry) {
  registry.Add("SaveV2", MakeSaveV2);
  registry.Add("RestoreV2", MakeRestoreV2);
  registry.Add("MergeV2Checkpoints", MakeMergeV2Checkpoints);
  registry.Add("ShardedFilename", MakeShardedFilename);
  AddFileCpuKernels(registry);
  AddSerializedTensorCpuKernels(registry);
  AddMatchingFilesCpuKernels(registry);
  AddParseExampleCpuKernels(registry);
  AddParseSequenceCpuKernel(registry);
  AddDecodeJsonCpuKernel(registry);
  AddDecodeCsvCpuKernels(registry);
}

}  // namespace formwork
