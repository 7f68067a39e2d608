"""Compiles proto/ into formwork/v1 and formwork/tf of what is built; nothing generated is kept."""
import atexit
import pathlib
import shutil
import subprocess
import sys
import tempfile

import setuptools
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
FILES = ["formwork/tf/types.proto", "formwork/v1/types.proto", "formwork/v1/graph_service.proto"]


def generate(into):
  """Writes the stubs of FILES under the folder `into`."""
  if not (PROTO / FILES[0]).exists():
    raise SystemExit("formwork: no proto/ beside client/: install from a checkout: "
                     "pip install ./client/python")
  protoc = shutil.which("protoc")
  command = [protoc] if protoc else [sys.executable, "-m", "grpc_tools.protoc"]
  into.mkdir(parents=True, exist_ok=True)
  subprocess.run(command + ["-I%s" % PROTO, "--python_out=%s" % into] + FILES, check=True)
  for folder in ("v1", "tf"):
    (into / "formwork" / folder / "__init__.py").touch()


class BuildWithStubs(build_py):
  """build_py that makes the stubs first: beside the sources where the install is editable."""

  def run(self):
    editable = getattr(self, "editable_mode", False)
    generate(HERE if editable else pathlib.Path(self.build_lib))
    super().run()

  def check_package(self, package, package_dir):
    if package in ("formwork.v1", "formwork.tf"):
      return None  # Made by run().
    return super().check_package(package, package_dir)


# Built elsewhere, so that installing leaves the checkout as it was.
scratch = tempfile.mkdtemp(prefix="formwork-build-")
atexit.register(shutil.rmtree, scratch, ignore_errors=True)
setuptools.setup(
    cmdclass={"build_py": BuildWithStubs},
    options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}})
