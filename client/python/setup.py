"""Compiles proto/ into formwork/v1, formwork/tf and formwork/rpc of what is built.

Nothing generated is kept in a checkout. A source distribution has a copy of proto/ of its own.
"""
import atexit
import pathlib
import shutil
import subprocess
import sys
import tempfile

import setuptools
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
PROTO = next((p for p in (HERE / "proto", HERE.parent.parent / "proto") if p.exists()), None)
if PROTO is None:
  raise SystemExit("formwork: no proto/: install from a checkout (pip install ./client/python) or "
                   "a source distribution")
PACKAGES = ("rpc", "tf", "v1")
FILES = sorted(
    str(p.relative_to(PROTO)) for d in PACKAGES
    for p in (PROTO / "formwork" / d).glob("*.proto"))


def generate(into):
  """Writes the stubs of FILES under the folder `into`."""
  protoc = shutil.which("protoc")
  command = [protoc] if protoc else [sys.executable, "-m", "grpc_tools.protoc"]
  into.mkdir(parents=True, exist_ok=True)
  subprocess.run(command + ["-I%s" % PROTO, "--python_out=%s" % into] + FILES, check=True)
  for folder in PACKAGES:
    (into / "formwork" / folder / "__init__.py").touch()


class BuildWithStubs(build_py):
  """build_py that makes the stubs first: beside the sources where the install is editable."""

  def run(self):
    editable = getattr(self, "editable_mode", False)
    generate(HERE if editable else pathlib.Path(self.build_lib))
    super().run()

  def check_package(self, package, package_dir):
    if package in ["formwork." + p for p in PACKAGES]:
      return None  # Made by run().
    return super().check_package(package, package_dir)


class SdistWithProto(sdist):
  """sdist that takes proto/ along."""

  def make_release_tree(self, base_dir, files):
    super().make_release_tree(base_dir, files)
    for path in PROTO.rglob("*.proto"):
      into = pathlib.Path(base_dir) / "proto" / path.relative_to(PROTO)
      into.parent.mkdir(parents=True, exist_ok=True)
      shutil.copy(path, into)


# Built elsewhere, so that installing leaves the checkout as it was.
scratch = tempfile.mkdtemp(prefix="formwork-build-")
atexit.register(shutil.rmtree, scratch, ignore_errors=True)
setuptools.setup(
    cmdclass={"build_py": BuildWithStubs, "sdist": SdistWithProto},
    options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}})
