"""Writes core/ops/TABLE.md, the ops that the server knows and the dtypes that its CPU kernels take.

  build/venv/bin/python tests/ops/op_table.py

A dtype is there where the op's smallest case runs in it (formwork_try_dtypes), or, where TensorFlow
has no kernel to compare with, where the op declares it. tests/python/test_op_dtypes.py holds the
file against what this would write.
"""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATH = ROOT / "core/ops/TABLE.md"
HEAD = """# Ops that are there

Written by `tests/ops/op_table.py`; a test tells where it is out of date. Of each attr that is a dtype, those in which the CPU's kernel runs;
"any": numbers, truth values and strings, or more. Which ops have kernels of GPUs: [gpu/README.md](../../gpu/README.md).

| op | dtypes |
|---|---|
"""


def declared(print_ops):
  """{op: {attr: dtypes as numbers, empty: any}} of what formwork_print_ops prints."""
  ops = collections.defaultdict(dict)
  for line in print_ops.splitlines():
    op, kind, *rest = line.split("\t")
    ops[op]  # It may have no attr.
    if kind == "attr":
      found = re.match(r"type(?: in ([\d ]+))?(?: =|$)", rest[1])
      if found:
        ops[op][rest[0]] = [int(n) for n in (found[1] or "").split()]
  return dict(ops)


def text(ops, verdicts, names, any_dtype):
  """The file. `verdicts`: {op: {verdict: [combination]}}; `names`: of a list of numbers."""
  rows = []
  for op in sorted(ops):
    if op.startswith("_"):
      continue
    told = verdicts.get(op, {})
    fine = told.get("runs", []) + told.get("untried", [])
    parts = []
    for attr, numbers in ops[op].items():
      tried = {pair.split("=")[1] for combination in fine for pair in combination.split(" ")
               if pair.startswith(attr + "=")}
      dtypes = sorted(tried or set(names(numbers)))
      everything = not dtypes or set(any_dtype) <= set(dtypes)
      parts.append("%s: %s" % (attr, "any" if everything else ", ".join(dtypes)))
    rows.append("| %s | %s |\n" % (op, "; ".join(parts)))
  return HEAD + "".join(rows)


def main():
  sys.path.insert(0, str(ROOT / "tests/python"))
  import test_op_dtypes
  PATH.write_text(test_op_dtypes.table(test_op_dtypes.find_verdicts()))


if __name__ == "__main__":
  main()
