// What op_fuzzer does, without a sanitizer or a guide: calls of each op, drawn from a seed, until
// one has run well, and some in any case; and cases of each op with edited inputs. A call may crash
// nothing, take no longer than some seconds, and no more memory than the budget; and every op is
// reached but for those below.
//
//   formwork_draw_ops [SEED [LEAST [MOST]]]     so many calls of each op
//   formwork_draw_ops --families                lists what FORMWORK_FUZZ_FAMILY may be
//   FORMWORK_FUZZ_FAMILY, FORMWORK_FUZZ_OP, FORMWORK_FUZZ_PRINT as op_fuzzer's

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/fuzz/op_fuzzer.h"

namespace formwork {
namespace {

constexpr size_t kBytes = 256;
constexpr size_t kMostCases = 4;
constexpr absl::Duration kMostTime = absl::Seconds(8);  // A call is late after one.

// Ops no drawn call of which runs well, and why.
const std::map<std::string, std::string>& NeverDone() {
  static const auto* const ops = new std::map<std::string, std::string>{
      {"EagerPyFunc", "it asks the call's client"},
      {"Placeholder", "it is fed"},
      {"PyFunc", "it asks the call's client"},
      {"PyFuncStateless", "it asks the call's client"},
      {"TensorMapLookup", "a key that is there is hardly drawn"},
      {"_Attention", "passes make it, of shapes that fit"},
      {"_GateMatMul", "passes make it, of shapes that fit"},
  };
  return *ops;
}

struct Settings {
  uint32_t seed = 1;
  int least = 30, most = 10000;
};

// Draws calls of the op that these two indices choose.
bool DrawCalls(size_t family, size_t index, const Settings& settings) {
  const FuzzedOp& op = *FuzzedWorld().fuzzed()[family]->ops[index];
  std::mt19937 random(settings.seed);
  const int64_t before = op.done;
  for (int i = 0; i < settings.most && (i < settings.least || op.done == before); ++i) {
    std::vector<uint8_t> bytes(kBytes);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<uint8_t>(random()); });
    bytes[0] = static_cast<uint8_t>(family);
    bytes[1] = static_cast<uint8_t>(index);
    const absl::Time start = absl::Now();
    FuzzOp(bytes.data(), bytes.size());
    const absl::Duration took = absl::Now() - start;
    if (took > kMostTime) {
      std::printf("%s took %s in call %d\n", op.op->name.c_str(),
                  absl::FormatDuration(took).c_str(), i);
      return false;
    }
  }
  const bool excepted = NeverDone().count(op.op->name) != 0;
  if (excepted == (op.done == before)) return true;
  std::printf("%s: %s\n", op.op->name.c_str(),
              excepted ? "is no exception any more" : "no call has run well");
  return false;
}

// Of some of the op's cases.
bool EditInputs(FuzzedOp& op) {
  std::vector<const testing::OpCase*> cases;
  for (const testing::OpCase& known : op.cases) {
    if (known.error == absl::StatusCode::kOk) cases.push_back(&known);
  }
  const size_t step = std::max<size_t>(cases.size() / kMostCases, 1);
  for (size_t i = 0; i < cases.size() && i < step * kMostCases; i += step) {
    const absl::Time start = absl::Now();
    CheckEditedInputs(op, *cases[i]);
    const absl::Duration took = absl::Now() - start;
    if (took <= kMostTime) continue;
    std::printf("%s:%d took %s with other inputs\n", cases[i]->file.c_str(), cases[i]->line,
                absl::FormatDuration(took).c_str());
    return false;
  }
  return true;
}

int Main(const Settings& settings) {
  bool fine = true;
  const auto& families = FuzzedWorld().fuzzed();
  for (size_t family = 0; family < families.size(); ++family) {
    const absl::Time start = absl::Now();
    for (size_t i = 0; i < families[family]->ops.size(); ++i) {
      fine &= DrawCalls(family, i, settings);
      fine &= EditInputs(*families[family]->ops[i]);
    }
    std::printf(
        "%-16s %3zu ops %s\n", std::string(families[family]->name).c_str(),
        families[family]->ops.size(),
        absl::FormatDuration(absl::Trunc(absl::Now() - start, absl::Milliseconds(1))).c_str());
    std::fflush(stdout);
  }
  return fine ? 0 : 1;
}

}  // namespace
}  // namespace formwork

int main(int argc, char** argv) {
  formwork::Settings settings;
  if (argc > 1 && std::string(argv[1]) == "--families") {
    for (const auto* family : formwork::FuzzedWorld().fuzzed()) {
      std::printf("%s\n", std::string(family->name).c_str());
    }
    return 0;
  }
  if (argc > 1) settings.seed = static_cast<uint32_t>(std::atoi(argv[1]));
  if (argc > 2) settings.least = std::atoi(argv[2]);
  if (argc > 3) settings.most = std::atoi(argv[3]);
  return formwork::Main(settings);
}
