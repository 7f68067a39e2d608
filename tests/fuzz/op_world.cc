#include "tests/fuzz/op_world.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"

namespace formwork {
namespace {

using testing::OpCase;

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr int64_t kLargestCase = 20000;  // Elements of its inputs.

int64_t SizeOf(const OpCase& op_case) {
  int64_t size = 0;
  for (const testing::ValueText& input : op_case.inputs) size += input.shape.num_elements();
  return size;
}

void ReadCases(std::map<std::string, std::vector<OpCase>>& cases) {
  for (const auto& entry : std::filesystem::directory_iterator(FORMWORK_OP_CASES)) {
    if (entry.path().extension() != ".optest") continue;
    std::ifstream stream(entry.path());
    std::stringstream text;
    text << stream.rdbuf();
    auto parsed = testing::ParseOpCases(entry.path().string(), text.str());
    if (!parsed.ok()) {
      std::fprintf(stderr, "%s\n", parsed.status().ToString().c_str());
      std::exit(1);
    }
    for (OpCase& op_case : *parsed) {
      if (SizeOf(op_case) <= kLargestCase) cases[op_case.op].push_back(std::move(op_case));
    }
  }
}

bool HasVariant(const std::vector<ArgDef>& args) {
  return std::any_of(args.begin(), args.end(),
                     [](const ArgDef& arg) { return arg.type == DType::kVariant; });
}

std::string SettingOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<BufferBlock*> ExactAllocator::Allocate(size_t bytes, Stream* /*stream*/) {
  void* data = nullptr;
  if (bytes > kMostBytes || used_.fetch_add(bytes) + bytes > kMostBytes) {
    if (bytes <= kMostBytes) used_.fetch_sub(bytes);
    return ResourceExhausted("out of memory: bytes wanted=", bytes);
  }
  if (posix_memalign(&data, 64, std::max<size_t>(bytes, 1)) != 0) std::abort();
  auto* block = new BufferBlock;
  block->data = data;
  block->bytes = block->capacity = bytes;
  block->allocator = this;
  return block;
}

void ExactAllocator::Free(BufferBlock* block) {
  used_.fetch_sub(block->bytes);
  std::free(block->data);
  delete block;
}

OpWorld::OpWorld() {
  RegisterOps(ops);
  RegisterCpuKernels(kernels);
  google::protobuf::SetLogHandler(nullptr);
  print = !SettingOf("FORMWORK_FUZZ_PRINT").empty();
  AddFamilies();
  Choose(SettingOf("FORMWORK_FUZZ_FAMILY"), SettingOf("FORMWORK_FUZZ_OP"));
}

void OpWorld::AddFamilies() {
  std::map<std::string, std::vector<OpCase>> cases;
  ReadCases(cases);
  for (const OpFamily& declared : OpFamilies()) {
    FuzzedFamily& family = families_[std::string(declared.name)];
    family.name = declared.name;
    OpRegistry of_family;
    declared.add(of_family);
    for (const OpDef* known : of_family.All()) {
      const OpDef* const op = ops.Find(known->name);
      if (op->handle_of != nullptr) family.handles.push_back(op);
      // What plans do themselves has no kernel; the importer makes a Const's value.
      if (kernels.Find(op->name) == nullptr || op->is_control_flow() || op->name == "Const") {
        continue;
      }
      FuzzedOp& fuzzed = ops_[op->name];
      fuzzed.op = op;
      fuzzed.cases = std::move(cases[op->name]);
      family_of_[op->name] = &family;
      family.ops.push_back(&fuzzed);
      if (!HasVariant(op->outputs)) continue;
      family.makers.push_back(&fuzzed);
      if (!HasVariant(op->inputs)) family.sources.push_back(&fuzzed);
    }
  }
}

void OpWorld::Choose(absl::string_view family, absl::string_view op) {
  for (auto& [name, known] : families_) {
    if (known.ops.empty() || (!family.empty() && name != family)) continue;
    if (op.empty()) fuzzed_.push_back(&known);
    for (FuzzedOp* fuzzed : known.ops) {
      if (fuzzed->op->name == op) only_.ops.push_back(fuzzed);
    }
  }
  if (!only_.ops.empty()) fuzzed_.push_back(&only_);
  if (!fuzzed_.empty()) return;
  std::fprintf(stderr, "there is no such op or family with kernels; the families:");
  for (const auto& [name, known] : families_) {
    if (!known.ops.empty()) std::fprintf(stderr, " %s", name.c_str());
  }
  std::fprintf(stderr, "\n");
  std::exit(1);
}

std::vector<FuzzedOp*> OpWorld::All() {
  std::vector<FuzzedOp*> all;
  for (auto& [name, fuzzed] : ops_) all.push_back(&fuzzed);
  return all;
}

}  // namespace formwork
