"""Build backend: setuptools, and grpcio-tools where no protoc is installed.

The stubs are made at build time. Debian's protoc 3.21 makes stubs that every protobuf from 3.20 on
can load. Where there is none, the compiler inside grpcio-tools is used, at the version whose stubs
run beside the lowest protobuf that TensorFlow 2.21 takes (6.31).
"""
import shutil

from setuptools import build_meta
from setuptools.build_meta import *  # The hooks of PEP 517 and PEP 660.

GRPCIO_TOOLS = "grpcio-tools==1.75.1"


def _compiler():
  return [] if shutil.which("protoc") else [GRPCIO_TOOLS]


def get_requires_for_build_wheel(config_settings=None):
  return build_meta.get_requires_for_build_wheel(config_settings) + _compiler()


def get_requires_for_build_editable(config_settings=None):
  return build_meta.get_requires_for_build_editable(config_settings) + _compiler()
