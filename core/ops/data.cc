#include "core/ops/data.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::StatusOr<ResourceType> TypeOfIterator(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec spec, ElementSpec::FromAttrs(attrs));
  ResourceType type{&kIteratorKind, {}};
  for (size_t i = 0; i < spec.dtypes.size(); ++i) {
    type.parts.push_back({spec.dtypes[i], spec.shapes[i]});
  }
  return type;
}

absl::Status MapDefunShapes(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec spec, ElementSpec::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const auto arguments, c.attrs().Get<std::vector<DType>>("Targuments"));
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!c.input(static_cast<int>(i)).known_rank()) return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(const int64_t rows,
                            PrepareMapDefun(static_cast<int>(arguments.size()),
                                            [&c](int i) { return c.input(i).dims(); }));
  for (int i = 0; i < c.num_outputs(); ++i) {
    const PartialShape& row = spec.shapes[static_cast<size_t>(i)];
    if (!row.known_rank()) continue;
    Dims dims = {rows};
    dims.insert(dims.end(), row.dims().begin(), row.dims().end());
    FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, i, dims));
  }
  return absl::OkStatus();
}

absl::Status ElementShapes(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec spec, ElementSpec::FromAttrs(c.attrs()));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, spec.shapes[static_cast<size_t>(i)]);
  return absl::OkStatus();
}

// What makes a dataset of files, which may be others the next time.
void RegisterFiles(OpRegistry& registry) {
  const OpTraits traits{.shape_fn = shapes::Scalar, .effect = Effect::kRandom};
  registry.Add(
      "TextLineDataset(filenames: string, compression_type: string, buffer_size: int64) -> "
      "(handle: variant); metadata: string = \"\"",
      traits);
  registry.Add(
      "TFRecordDataset(filenames: string, compression_type: string, buffer_size: int64) -> "
      "(handle: variant); metadata: string = \"\"",
      traits);
  registry.Add(
      "TFRecordDatasetV2(filenames: string, compression_type: string, buffer_size: int64, "
      "byte_offsets: int64) -> (handle: variant); metadata: string = \"\"",
      traits);
  registry.Add(
      "FixedLengthRecordDataset(filenames: string, header_bytes: int64, record_bytes: int64, "
      "footer_bytes: int64, buffer_size: int64) -> (handle: variant); metadata: string = \"\"",
      traits);
  registry.Add(
      "FixedLengthRecordDatasetV2(filenames: string, header_bytes: int64, record_bytes: int64, "
      "footer_bytes: int64, buffer_size: int64, compression_type: string) -> (handle: variant); "
      "metadata: string = \"\"",
      traits);
  registry.Add(
      "CSVDataset(filenames: string, compression_type: string, buffer_size: int64, header: bool, "
      "field_delim: string, use_quote_delim: bool, na_value: string, select_cols: int64, "
      "record_defaults: output_types) -> (handle: variant); output_types: list({float, double, "
      "int32, int64, string}) >= 1; output_shapes: list(shape) >= 1",
      traits);
  registry.Add(
      "CSVDatasetV2(filenames: string, compression_type: string, buffer_size: int64, header: bool, "
      "field_delim: string, use_quote_delim: bool, na_value: string, select_cols: int64, "
      "record_defaults: output_types, exclude_cols: int64) -> (handle: variant); output_types: "
      "list({float, double, int32, int64, string}) >= 1; output_shapes: list(shape) >= 1",
      traits);
}

// What makes a dataset of values. As in TensorFlow it is not folded: elements may be many.
void RegisterSources(OpRegistry& registry) {
  registry.Add(
      "RangeDataset(start: int64, stop: int64, step: int64) -> (handle: variant); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"; "
      "replicate_on_split: bool = false",
      {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add(
      "TensorDataset(components: Toutput_types) -> (handle: variant); Toutput_types: list(type) >= "
      "1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add(
      "TensorSliceDataset(components: Toutput_types) -> (handle: variant); Toutput_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; is_files: bool = false; metadata: string "
      "= \"\"; replicate_on_split: bool = false",
      {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add(
      "ListDataset(tensors: Tinput_types) -> (handle: variant); Tinput_types: list(type) >= 1; "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add(
      "GlobalShuffleDataset(input_dataset: variant, seed: int64, seed2: int64, seed_generator: "
      "resource) -> (handle: variant); reshuffle_each_iteration: bool = true; output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add(
      "RandomDataset(seed: int64, seed2: int64) -> (handle: variant); output_types: list(type) >= "
      "1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add(
      "RandomDatasetV2(seed: int64, seed2: int64, seed_generator: resource) -> (handle: variant); "
      "rerandomize_each_iteration: bool = false; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add(
      "ShuffleDatasetV3(input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, "
      "seed_generator: resource) -> (handle: variant); reshuffle_each_iteration: bool = true; "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add(
      "ShuffleAndRepeatDatasetV2(input_dataset: variant, buffer_size: int64, seed: int64, seed2: "
      "int64, count: int64, seed_generator: resource) -> (handle: variant); "
      "reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add(
      "CacheDatasetV2(input_dataset: variant, filename: string, cache: resource) -> (handle: "
      "variant); output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string "
      "= \"\"",
      {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add("DummySeedGenerator() -> (handle: resource)",
               {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
  registry.Add("DummyMemoryCache() -> (handle: resource)",
               {.shape_fn = shapes::Scalar, .effect = Effect::kRandom});
}

void RegisterTransformations(OpRegistry& registry) {
  registry.Add(
      "MapDataset(input_dataset: variant, other_arguments: Targuments) -> (handle: variant); f: "
      "func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; use_inter_op_parallelism: bool = true; preserve_cardinality: bool = "
      "false; force_synchronous: bool = false; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "ParallelMapDataset(input_dataset: variant, other_arguments: Targuments, num_parallel_calls: "
      "int32) -> (handle: variant); f: func; Targuments: list(type) >= 0; output_types: list(type) "
      ">= 1; output_shapes: list(shape) >= 1; use_inter_op_parallelism: bool = true; sloppy: bool "
      "= false; preserve_cardinality: bool = false; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "ParallelMapDatasetV2(input_dataset: variant, other_arguments: Targuments, "
      "num_parallel_calls: int64) -> (handle: variant); f: func; Targuments: list(type) >= 0; "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; use_inter_op_parallelism: "
      "bool = true; deterministic: string = \"default\"; preserve_cardinality: bool = false; "
      "use_unbounded_threadpool: bool = false; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "MapAndBatchDataset(input_dataset: variant, other_arguments: Targuments, batch_size: int64, "
      "num_parallel_calls: int64, drop_remainder: bool) -> (handle: variant); f: func; Targuments: "
      "list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
      "preserve_cardinality: bool = false; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "ScanDataset(input_dataset: variant, initial_state: Tstate, other_arguments: Targuments) -> "
      "(handle: variant); f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; preserve_cardinality: bool "
      "= false; use_default_device: bool = true; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "FilterDataset(input_dataset: variant, other_arguments: Targuments) -> (handle: variant); "
      "predicate: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "ParallelFilterDataset(input_dataset: variant, other_arguments: Targuments, "
      "num_parallel_calls: int64) -> (handle: variant); predicate: func; deterministic: string = "
      "\"default\"; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "TakeWhileDataset(input_dataset: variant, other_arguments: Targuments) -> (handle: variant); "
      "predicate: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "GeneratorDataset(init_func_other_args: Tinit_func_args, next_func_other_args: "
      "Tnext_func_args, finalize_func_other_args: Tfinalize_func_args) -> (handle: variant); "
      "init_func: func; next_func: func; finalize_func: func; Tinit_func_args: list(type) >= 0; "
      "Tnext_func_args: list(type) >= 0; Tfinalize_func_args: list(type) >= 0; output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar,
       .effect = Effect::kRandom,
       .control_flow = ControlFlow::kKernel});
  registry.Add(
      "FlatMapDataset(input_dataset: variant, other_arguments: Targuments) -> (handle: variant); "
      "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "InterleaveDataset(input_dataset: variant, other_arguments: Targuments, cycle_length: int64, "
      "block_length: int64) -> (handle: variant); f: func; Targuments: list(type) >= 0; "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "ParallelInterleaveDatasetV2(input_dataset: variant, other_arguments: Targuments, "
      "cycle_length: int64, block_length: int64, num_parallel_calls: int64) -> (handle: variant); "
      "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; sloppy: bool = false; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "ParallelInterleaveDatasetV3(input_dataset: variant, other_arguments: Targuments, "
      "cycle_length: int64, block_length: int64, num_parallel_calls: int64) -> (handle: variant); "
      "f: func; deterministic: string = \"default\"; Targuments: list(type) >= 0; output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "ParallelInterleaveDatasetV4(input_dataset: variant, other_arguments: Targuments, "
      "cycle_length: int64, block_length: int64, buffer_output_elements: int64, "
      "prefetch_input_elements: int64, num_parallel_calls: int64) -> (handle: variant); f: func; "
      "deterministic: string = \"default\"; Targuments: list(type) >= 0; output_types: list(type) "
      ">= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "LegacyParallelInterleaveDatasetV2(input_dataset: variant, other_arguments: Targuments, "
      "cycle_length: int64, block_length: int64, buffer_output_elements: int64, "
      "prefetch_input_elements: int64) -> (handle: variant); f: func; deterministic: string = "
      "\"default\"; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "TakeDataset(input_dataset: variant, count: int64) -> (handle: variant); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "SkipDataset(input_dataset: variant, count: int64) -> (handle: variant); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "RepeatDataset(input_dataset: variant, count: int64) -> (handle: variant); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "ShardDataset(input_dataset: variant, num_shards: int64, index: int64) -> (handle: variant); "
      "require_non_empty: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) "
      ">= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "ZipDataset(input_datasets: N*variant) -> (handle: variant); output_types: list(type) >= 1; "
      "output_shapes: list(shape) >= 1; N: int >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "ConcatenateDataset(input_dataset: variant, another_dataset: variant) -> (handle: variant); "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "DirectedInterleaveDataset(selector_input_dataset: variant, data_input_datasets: N*variant) "
      "-> (handle: variant); output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: "
      "int >= 1; stop_on_empty_dataset: bool = false",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "IgnoreErrorsDataset(input_dataset: variant) -> (handle: variant); output_types: list(type) "
      ">= 1; output_shapes: list(shape) >= 1; log_warning: bool = false",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "AssertCardinalityDataset(input_dataset: variant, cardinality: int64) -> (handle: variant); "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "UniqueDataset(input_dataset: variant) -> (handle: variant); output_types: list(type) >= 1; "
      "output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "OptionsDataset(input_dataset: variant) -> (handle: variant); serialized_options: string; "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "RewriteDataset(input_dataset: variant, rewrite_name: string) -> (handle: variant); "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "PrefetchDataset(input_dataset: variant, buffer_size: host int64) -> (handle: variant); "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; slack_period: int = 0; "
      "legacy_autotune: bool = true; buffer_size_min: int = 0; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "ModelDataset(input_dataset: variant) -> (handle: variant); algorithm: int = 0; cpu_budget: "
      "int = 0; ram_budget: int = 0; output_types: list(type) >= 1; output_shapes: list(shape) >= "
      "1",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "OptimizeDatasetV2(input_dataset: variant, optimizations_enabled: string, "
      "optimizations_disabled: string, optimizations_default: string) -> (handle: variant); "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; optimization_configs: "
      "list(string) = []",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "MaxIntraOpParallelismDataset(input_dataset: variant, max_intra_op_parallelism: int64) -> "
      "(handle: variant); output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "PrivateThreadPoolDataset(input_dataset: variant, num_threads: int64) -> (handle: variant); "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "NonSerializableDataset(input_dataset: variant) -> (handle: variant); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = shapes::Scalar});
  for (const char* name : {"BytesProducedStatsDataset", "LatencyStatsDataset"}) {
    registry.Add(absl::StrCat(name,
                              "(input_dataset: variant, tag: string) -> (handle: variant); "
                              "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"),
                 {.shape_fn = shapes::Scalar});
  }
  registry.Add(
      "ChooseFastestDataset(input_datasets: N*variant) -> (handle: variant); N: int >= 2; "
      "num_experiments: int; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = shapes::Scalar});
  registry.Add("WrapDatasetVariant(input_handle: variant) -> (output_handle: variant)",
               {.shape_fn = shapes::Scalar});
  registry.Add("UnwrapDatasetVariant(input_handle: variant) -> (output_handle: variant)",
               {.shape_fn = shapes::Scalar});
  registry.Add(
      "BatchDataset(input_dataset: variant, batch_size: int64) -> (handle: variant); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "BatchDatasetV2(input_dataset: variant, batch_size: int64, drop_remainder: bool) -> (handle: "
      "variant); parallel_copy: bool = false; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "ParallelBatchDataset(input_dataset: variant, batch_size: int64, num_parallel_calls: int64, "
      "drop_remainder: bool) -> (handle: variant); parallel_copy: bool = false; output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; deterministic: string = \"default\"; "
      "metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "PaddedBatchDatasetV2(input_dataset: variant, batch_size: int64, padded_shapes: N*int64, "
      "padding_values: Toutput_types, drop_remainder: bool) -> (handle: variant); parallel_copy: "
      "bool = false; Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1; "
      "metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "DenseToSparseBatchDataset(input_dataset: variant, batch_size: int64, row_shape: int64) -> "
      "(handle: variant); output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "ParseExampleDatasetV2(input_dataset: variant, num_parallel_calls: int64, dense_defaults: "
      "Tdense) -> (handle: variant); sparse_keys: list(string) >= 0; dense_keys: list(string) >= "
      "0; sparse_types: list({float, int64, string}) >= 0; Tdense: list({float, int64, string}) >= "
      "0; dense_shapes: list(shape) >= 0; output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; deterministic: string = \"default\"; ragged_keys: list(string) >= 0 = "
      "[]; ragged_value_types: list({float, int64, string}) >= 0 = []; ragged_split_types: "
      "list(indextype) >= 0 = []",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "UnbatchDataset(input_dataset: variant) -> (handle: variant); output_types: list(type) >= 1; "
      "output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "RebatchDataset(input_dataset: variant, num_replicas: int64) -> (handle: variant); "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; use_fallback: bool = true",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "RebatchDatasetV2(input_dataset: variant, batch_sizes: int64, drop_remainder: bool) -> "
      "(handle: variant); output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "WindowDataset(input_dataset: variant, size: int64, shift: int64, stride: int64, "
      "drop_remainder: bool) -> (handle: variant); output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "GroupByWindowDataset(input_dataset: variant, key_func_other_arguments: "
      "Tkey_func_other_arguments, reduce_func_other_arguments: Treduce_func_other_arguments, "
      "window_size_func_other_arguments: Twindow_size_func_other_arguments) -> (handle: variant); "
      "key_func: func; reduce_func: func; window_size_func: func; Tkey_func_other_arguments: "
      "list(type) >= 0; Treduce_func_other_arguments: list(type) >= 0; "
      "Twindow_size_func_other_arguments: list(type) >= 0; output_types: list(type) >= 1; "
      "output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  for (const char* name : {"GroupByReducerDataset", "ExperimentalGroupByReducerDataset"}) {
    registry.Add(
        absl::StrCat(
            name,
            "(input_dataset: variant, key_func_other_arguments: "
            "Tkey_func_other_arguments, init_func_other_arguments: Tinit_func_other_arguments, "
            "reduce_func_other_arguments: Treduce_func_other_arguments, "
            "finalize_func_other_arguments: "
            "Tfinalize_func_other_arguments) -> (handle: variant); key_func: func; init_func: "
            "func; "
            "reduce_func: func; finalize_func: func; Tkey_func_other_arguments: list(type) >= 0; "
            "Tinit_func_other_arguments: list(type) >= 0; Treduce_func_other_arguments: list(type) "
            ">= 0; "
            "Tfinalize_func_other_arguments: list(type) >= 0; output_types: list(type) >= 1; "
            "output_shapes: list(shape) >= 1"),
        {.shape_fn = shapes::Scalar,
         .effect = Effect::kRandom,
         .control_flow = ControlFlow::kKernel});
  }
  registry.Add(
      "ShuffleDataset(input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64) -> "
      "(handle: variant); reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; "
      "output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "ShuffleAndRepeatDataset(input_dataset: variant, buffer_size: int64, seed: int64, seed2: "
      "int64, count: int64) -> (handle: variant); output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1; reshuffle_each_iteration: bool = true; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "CacheDataset(input_dataset: variant, filename: string) -> (handle: variant); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "SnapshotDatasetV2(input_dataset: variant, path: string, reader_func_other_args: "
      "Treader_func_args, shard_func_other_args: Tshard_func_args) -> (handle: variant); "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; compression: string = "
      "\"\"; reader_prefix: string = \"\"; writer_prefix: string = \"\"; hash_valid: bool = "
      "false; hash: int = 0; reader_func: func; shard_func: func; Treader_func_args: list(type) >= "
      "0; Tshard_func_args: list(type) >= 0; metadata: string = \"\"",
      {.shape_fn = shapes::Scalar, .control_flow = ControlFlow::kKernel});
  registry.Add(
      "DatasetCardinality(input_dataset: variant) -> (cardinality: int64); cardinality_options: "
      "string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "FinalizeDataset(input_dataset: variant) -> (handle: variant); has_captured_ref: bool = "
      "false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = shapes::Scalar});
}

void RegisterReaders(OpRegistry& registry) {
  registry.Add(
      "ReduceDataset(input_dataset: variant, initial_state: Tstate, other_arguments: Targuments) "
      "-> (components: output_types); f: func; Tstate: list(type) >= 1; Targuments: list(type) >= "
      "0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
      "use_inter_op_parallelism: bool = true; metadata: string = \"\"",
      {.shape_fn = ElementShapes,
       .effect = Effect::kExternal,
       .control_flow = ControlFlow::kKernel});
  registry.Add(
      "MapDefun(arguments: Targuments, captured_inputs: Tcaptured) -> (output: output_types); "
      "Targuments: list(type) >= 1; Tcaptured: list(type) >= 0 = []; output_types: list(type) >= "
      "1; output_shapes: list(shape) >= 1; f: func; max_intra_op_parallelism: int = 1",
      {.shape_fn = MapDefunShapes,
       .effect = Effect::kExternal,
       .control_flow = ControlFlow::kKernel});
  registry.Add(
      "DatasetToSingleElement(dataset: variant) -> (components: output_types); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = \"\"",
      {.shape_fn = ElementShapes, .effect = Effect::kWrite});
  registry.Add(
      "GetElementAtIndex(dataset: variant, index: int64) -> (components: output_types); "
      "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = ElementShapes, .effect = Effect::kWrite});
  registry.Add(
      "IteratorV2() -> (handle: resource); shared_name: string; container: string; output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1",
      {.handle_of = TypeOfIterator});
  registry.Add(
      "Iterator() -> (handle: resource); shared_name: string; container: string; output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1",
      {.handle_of = TypeOfIterator});
  registry.Add(
      "AnonymousIterator() -> (handle: resource); output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1",
      {.handle_of = TypeOfIterator});
  registry.Add(
      "AnonymousIteratorV2() -> (handle: resource, deleter: variant); output_types: list(type) >= "
      "1; output_shapes: list(shape) >= 1",
      {.handle_of = TypeOfIterator});
  registry.Add(
      "AnonymousIteratorV3() -> (handle: resource); output_types: list(type) >= 1; output_shapes: "
      "list(shape) >= 1",
      {.handle_of = TypeOfIterator});
  registry.Add(
      "OneShotIterator() -> (handle: resource); dataset_factory: func; output_types: list(type) >= "
      "1; output_shapes: list(shape) >= 1; container: string = \"\"; shared_name: string = \"\"",
      {.control_flow = ControlFlow::kKernel, .handle_of = TypeOfIterator});
  registry.Add("IteratorToStringHandle(resource_handle: resource) -> (string_handle: string)",
               {.shape_fn = shapes::Scalar, .effect = Effect::kRead});
  registry.Add("MakeIterator(dataset: variant, iterator: resource) -> ()",
               {.effect = Effect::kWrite});
  // Of ours: in what a start runs (kernels/data/stored_iterator.h).
  registry.Add("_ReviveIterator(dataset: variant, iterator: resource) -> ()",
               {.effect = Effect::kWrite});
  registry.Add("DeleteIterator(handle: resource, deleter: variant) -> ()",
               {.effect = Effect::kWrite});
  registry.Add(
      "IteratorGetNext(iterator: resource) -> (components: output_types); output_types: list(type) "
      ">= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = ElementShapes, .effect = Effect::kWrite});
  registry.Add(
      "IteratorGetNextSync(iterator: resource) -> (components: output_types); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = ElementShapes, .effect = Effect::kWrite});
  registry.Add(
      "IteratorGetNextAsOptional(iterator: resource) -> (optional: variant); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = shapes::Scalar, .effect = Effect::kWrite});
  registry.Add(
      "CompressElement(components: input_types) -> (compressed: variant); input_types: list(type) "
      ">= 1",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "UncompressElement(compressed: variant) -> (components: output_types); output_types: "
      "list(type) >= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = ElementShapes});
}

}  // namespace

absl::StatusOr<ElementSpec> ElementSpec::FromAttrs(const AttrMap& attrs, absl::string_view dtypes) {
  FORMWORK_ASSIGN_OR_RETURN(
      ElementSpec spec, ReadAttrs<ElementSpec>(attrs, dtypes, &ElementSpec::dtypes, "output_shapes",
                                               &ElementSpec::shapes));
  if (spec.dtypes.size() == spec.shapes.size()) return spec;
  return InvalidArgument("output_types and output_shapes must be as many: ", spec.dtypes.size(),
                         " and ", spec.shapes.size());
}

ElementSpec ElementSpec::OfIterator(const ResourceType& type) {
  ElementSpec spec;
  for (const ResourceType::Part& part : type.parts) {
    spec.dtypes.push_back(part.dtype);
    spec.shapes.push_back(part.shape);
  }
  return spec;
}

absl::StatusOr<int64_t> PrepareMapDefun(int n, DimsOfValue dims) {
  if (n == 0) return InvalidArgument("MapDefun: there are no arguments");
  int64_t rows = -1;
  for (int i = 0; i < n; ++i) {
    if (dims(i).empty()) {
      return InvalidArgument("Arguments must have rank at least 1. Input ", i, " has rank of 0.");
    }
    if (!MayBeEqual(rows, dims(i)[0])) {
      return InvalidArgument("Arguments must have the same dimension 0.");
    }
    if (rows < 0) rows = dims(i)[0];
  }
  return rows;
}

absl::Status CheckDTypesFit(const std::vector<DType>& expected, const std::vector<DType>& given) {
  if (expected.size() != given.size()) {
    return InvalidArgument("Number of components does not match: expected ", expected.size(),
                           " types but got ", given.size(), ".");
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == given[i]) continue;
    return InvalidArgument("Data type mismatch at component ", i, ": expected ",
                           GraphDTypeName(expected[i]), " but got ", GraphDTypeName(given[i]), ".");
  }
  return absl::OkStatus();
}

absl::Status CheckElementsFit(const ElementSpec& expected, const ElementSpec& given) {
  FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(expected.dtypes, given.dtypes));
  for (size_t i = 0; i < expected.shapes.size(); ++i) {
    if (expected.shapes[i].IsCompatibleWith(given.shapes[i])) continue;
    return InvalidArgument("Incompatible shapes at component ", i, ": expected ",
                           expected.shapes[i].ToString(), " but got ", given.shapes[i].ToString(),
                           ".");
  }
  return absl::OkStatus();
}

absl::Status CheckElement(const ElementSpec& expected, absl::Span<const Tensor> element) {
  if (expected.dtypes.size() != element.size()) {
    return InvalidArgument("Number of components does not match: expected ", expected.dtypes.size(),
                           " types but got ", element.size(), ".");
  }
  for (size_t i = 0; i < element.size(); ++i) {
    if (expected.dtypes[i] != element[i].dtype()) {
      return InvalidArgument("Data type mismatch at component ", i, ": expected ",
                             GraphDTypeName(expected.dtypes[i]), " but got ",
                             GraphDTypeName(element[i].dtype()), ".");
    }
    if (!expected.shapes[i].Accepts(element[i].shape())) {
      return InvalidArgument("Incompatible shapes at component ", i, ": expected ",
                             expected.shapes[i].ToString(), " but got ",
                             element[i].shape().ToString(), ".");
    }
  }
  return absl::OkStatus();
}

void RegisterDataOps(OpRegistry& registry) {
  RegisterSources(registry);
  RegisterFiles(registry);
  RegisterTransformations(registry);
  RegisterReaders(registry);
}

}  // namespace formwork
