"""The package as it is installed: version, types, documentation, and that it builds by itself."""
import ast
import inspect
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

import formwork
from formwork import aio
from formwork import client

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_INSTALLED = pathlib.Path(formwork.__file__).parent


def test_the_version_is_the_projects():
  project = re.search(r"project\(\s*formwork\s+VERSION ([0-9.]+)",
                      (_ROOT / "CMakeLists.txt").read_text(), re.IGNORECASE)
  assert formwork.__version__ == project.group(1)


def test_everything_public_says_what_it_is():
  for name in formwork.__all__:
    thing = getattr(formwork, name)
    assert thing.__doc__, name
    for method, function in inspect.getmembers(thing, inspect.isfunction):
      if not method.startswith("_"):
        assert function.__doc__ or method in ("from_message", "to_message"), (name, method)


def _methods(path):
  """{class: {method: parameters}} of a file of Python, of what is public."""
  found = {}
  for node in ast.parse(path.read_text()).body:
    if isinstance(node, ast.ClassDef):
      found[node.name] = {
          f.name: [a.arg for a in f.args.args + f.args.kwonlyargs] for f in node.body
          if isinstance(f, (ast.AsyncFunctionDef, ast.FunctionDef)) and (
              f.name[0] != "_" or f.name == "__call__")}
  return found


def test_the_types_of_aio_are_those_of_what_it_does():
  assert (_INSTALLED / "py.typed").exists()
  typed = _methods(_INSTALLED / "aio.pyi")
  assert {*typed, "connect"} == set(aio.__all__) and all(hasattr(aio, n) for n in aio.__all__)
  for name, cls in (("Server", aio.Server), ("Variable", formwork.Variable),
                    ("KeptTensor", formwork.KeptTensor),
                    ("ConcreteFunction", formwork.ConcreteFunction)):
    public = {n: f for n, f in inspect.getmembers(cls, inspect.isfunction)
              if n[0] != "_" or n == "__call__"}
    assert set(typed[name]) == set(public) if name == "Server" else set(typed[name]) <= set(public)
    for method, parameters in typed[name].items():
      assert parameters == [p.name for p in inspect.signature(public[method]).parameters.values()
                            if p.kind != p.VAR_POSITIONAL], method
  for method, function in inspect.getmembers(client.Server, inspect.isfunction):
    if method[0] != "_" and method not in ("function", "push", "pull"):
      assert "return" in function.__annotations__, method


def test_a_source_distribution_builds_outside_of_the_checkout(tmp_path):
  build = "import stub_backend, sys; print(getattr(stub_backend, 'build_%s')(%r))"

  def run(kind, folder):
    done = subprocess.run([sys.executable, "-c", build % (kind, str(tmp_path))], cwd=folder,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return tmp_path / done.stdout.splitlines()[-1]

  pytest.importorskip("setuptools")
  with tarfile.open(run("sdist", _ROOT / "client/python")) as sdist:
    assert any(name.endswith("proto/formwork/v1/calls.proto") for name in sdist.getnames())
    sdist.extractall(tmp_path / "unpacked")
  (unpacked,) = (tmp_path / "unpacked").iterdir()
  with zipfile.ZipFile(run("wheel", unpacked)) as wheel:
    names = set(wheel.namelist())
  assert {"formwork/aio.py", "formwork/aio.pyi", "formwork/py.typed", "formwork/v1/calls_pb2.py",
          "formwork/rpc/status_pb2.py"} <= names
