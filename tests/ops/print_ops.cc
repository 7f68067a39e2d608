// Prints what the registry knows of each op, one fact a line, for tests/python/test_op_specs.py:
//
//   MatMul  input   0             a: T
//   MatMul  attr    transpose_a   bool = false
//   MatMul  attr    T             type in 1 2 3
//   MatMul  effect  none
//   Reshape host                  shape
//
// Columns are apart by tabs. Dtypes are TensorFlow's numbers.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ops/op_text.h"
#include "core/ops/register_ops.h"

namespace formwork {
namespace {

std::string NumberOf(DType dtype) { return absl::StrCat(static_cast<int>(dtype)); }

void PrintAll() {
  constexpr const char* kEffects[] = {"none",  "random",   "read",
                                      "write", "external", "self ordered"};
  OpRegistry registry;
  RegisterOps(registry);
  for (const OpDef* op : registry.All()) {
    auto print = [&](const char* what, const std::string& which, const std::string& text) {
      std::printf("%s\t%s\t%s\t%s\n", op->name.c_str(), what, which.c_str(), text.c_str());
    };
    for (size_t i = 0; i < op->inputs.size(); ++i) {
      print("input", absl::StrCat(i), ArgText(op->inputs[i], &NumberOf));
    }
    for (size_t i = 0; i < op->outputs.size(); ++i) {
      print("output", absl::StrCat(i), ArgText(op->outputs[i], &NumberOf));
    }
    for (const std::vector<ArgDef>* args : {&op->inputs, &op->outputs}) {
      for (const ArgDef& arg : *args) {
        if (arg.host) print("host", "", arg.name);
      }
    }
    for (const AttrDef& attr : op->attrs) print("attr", attr.name, AttrText(attr, &NumberOf));
    print("effect", "",
          op->handle_of != nullptr ? "names" : kEffects[static_cast<int>(op->effect)]);
  }
}

}  // namespace
}  // namespace formwork

int main() { formwork::PrintAll(); }
