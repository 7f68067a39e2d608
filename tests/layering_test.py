"""Folders include only what is below them (core/README.md), and so do the Python client's modules."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BELOW = {
    "core/base": [],
    "core/heap": ["core/base"],
    "core/device": ["core/base"],
    "core/tensor": ["core/device"],
    "core/ops": ["core/tensor"],
    "core/resource": ["core/tensor"],
    "core/kernels": ["core/ops", "core/resource"],
    # A family's headers are its own, but for the families that stand on it.
    "core/kernels/array": ["core/kernels", "core/kernels/variant"],
    "core/kernels/audio": ["core/kernels"],
    "core/kernels/conv": ["core/kernels/elementwise", "core/kernels/gemm", "core/kernels/random"],
    "core/kernels/data": ["core/kernels/array", "core/kernels/ragged", "core/kernels/random",
                          "core/kernels/resource", "core/kernels/variant", "core/storage"],
    "core/kernels/debug": ["core/kernels"],
    "core/kernels/elementwise": ["core/kernels", "core/kernels/variant"],
    "core/kernels/fft": ["core/kernels"],
    "core/kernels/function": ["core/kernels"],
    "core/kernels/gather": ["core/kernels/array"],
    "core/kernels/gemm": ["core/kernels/elementwise"],
    "core/kernels/image": ["core/kernels", "core/kernels/random"],
    # Checkpoints.
    "core/kernels/io": ["core/kernels", "core/storage"],
    "core/kernels/linalg": ["core/kernels/matmul"],
    "core/kernels/list": ["core/kernels/array", "core/kernels/variant"],
    "core/kernels/matmul": ["core/kernels/array", "core/kernels/conv", "core/kernels/reduction"],
    "core/kernels/nn": ["core/kernels/gemm", "core/kernels/reduction"],
    "core/kernels/ragged": ["core/kernels/gather", "core/kernels/variant"],
    "core/kernels/random": ["core/kernels/gather"],
    "core/kernels/reduction": ["core/kernels/elementwise"],
    # Tables are read from files; of a queue that shuffles elements are drawn.
    "core/kernels/resource": ["core/kernels/gather", "core/kernels/io", "core/kernels/random"],
    "core/kernels/sparse": ["core/kernels/string", "core/kernels/variant"],
    "core/kernels/string": ["core/kernels"],
    "core/kernels/training": ["core/kernels"],
    "core/kernels/variant": ["core/kernels"],
    # What can be fused, and the programs that it becomes; which products are fast; what constants
    # of dtype variant are.
    "core/graph": ["core/kernels", "core/kernels/elementwise", "core/kernels/gemm",
                   "core/kernels/variant", "proto/tf"],
    "core/plan": ["core/graph", "core/kernels/conv", "core/kernels/reduction"],
    "core/runtime": ["core/plan"],
    # A snapshot on disk, and how resources and functions are written there; checkpoints.
    "core/storage": ["core/tensor", "proto/state", "proto/tf"],
    "core/function": ["core/plan", "proto/v1"],
    "core": ["core/function"],
    # Which oneDNN there is; what tables hold.
    "core/engine": ["core", "core/runtime", "core/kernels/conv", "core/kernels/resource",
                    "core/storage"],
    # And values and types as messages have them.
    "server": ["core/engine.h", "core/function/type_messages.h", "core/graph/decode.h", "core/base",
               "core/tensor", "proto/serving", "proto/v1"],
    "client": ["proto/v1"],
    # The optimizers' and colours' rules are compiled for GPUs too; where random numbers begin the
    # host says; code is kept in files.
    "gpu": ["core/kernels", "core/kernels/image", "core/kernels/random", "core/kernels/training",
            "core/storage"],
    "proto/tf": [],
    "proto/serving": ["proto/tf"],
    "proto/v1": ["proto/tf"],
    "proto/state": ["proto/v1"],
}


def closure(folder):
  seen, todo = set(), [folder]
  while todo:
    f = todo.pop()
    if f in seen:
      continue
    seen.add(f)
    todo += BELOW.get(f, [])
  return seen


def folder_of(path):
  if path.startswith("formwork/tf/"):
    return "proto/tf"
  for name in ("serving", "state"):
    if path.startswith("formwork/%s/" % name):
      return "proto/" + name
  if path.startswith(("formwork/v1/", "formwork/rpc/")):
    return "proto/v1"
  for prefix in ("server", "client", "gpu"):
    if path.startswith(prefix + "/"):
      return prefix
  if path.startswith("core/"):
    parts = path.split("/")
    return "/".join(parts[:3 if parts[1] == "kernels" else 2][:len(parts) - 1])
  return None


def wrong_includes():
  wrong = []
  for top in ("core", "server", "client", "gpu"):
    for file in sorted((ROOT / top).rglob("*")):
      if file.suffix not in (".h", ".cc", ".cu", ".cuh"):
        continue
      name = str(file.relative_to(ROOT))
      here = folder_of(name)
      # The server reaches core/ through the engine's header, not through what that includes.
      allowed = closure(here) if here != "server" else {
          "server", "core/engine.h", "core/function/type_messages.h", "core/graph/decode.h",
          "core/base", "core/tensor", "core/device", "gpu/gpu.h", "proto/serving", "proto/tf",
          "proto/v1"}
      for include in re.findall(r'#include "([^"]+)"', file.read_text()):
        there = folder_of(include)
        if there is None or there in allowed or include in allowed:
          continue
        wrong.append("%s includes %s" % (name, include))
  return wrong


def circles_of_imports():
  """Modules of the Python client that import each other when they are loaded."""
  modules = {f.stem: f.read_text() for f in (ROOT / "client/python/formwork").glob("*.py")}
  left = {name: set(re.findall(r"^from formwork import (\w+)", text, re.M)) & set(modules) |
                set(re.findall(r"^from formwork\.(\w+) import", text, re.M)) & set(modules)
          for name, text in modules.items()}
  while True:
    imported = set().union(*left.values())
    apart = [name for name, imports in left.items()
             if not imports & set(left) or name not in imported]
    if not apart:
      return sorted(left)
    left = {name: imports for name, imports in left.items() if name not in apart}


def long_files():
  return ["%s has %d lines" % (f.relative_to(ROOT), n)
          for top in ("core", "server", "client", "gpu", "tests", "deploy")
          for f in sorted((ROOT / top).rglob("*"))
          if f.suffix in (".h", ".cc", ".cu", ".py", ".sh", ".proto")
          for n in [len(f.read_text().splitlines())] if n > 800]


def test_includes_go_down():
  assert wrong_includes() == []


def test_the_python_client_has_no_circles_of_imports():
  assert circles_of_imports() == []


def test_no_file_is_longer_than_800_lines():
  assert long_files() == []


if __name__ == "__main__":
  problems = wrong_includes() + circles_of_imports() + long_files()
  print("\n".join(problems))
  sys.exit(1 if problems else 0)
