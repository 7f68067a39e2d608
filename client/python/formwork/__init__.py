"""Formwork's Python client: register, call and trace functions that run on a Formwork server."""
from formwork.client import Server
from formwork.client import connect
from formwork.concrete import ConcreteFunction
from formwork.errors import Error
from formwork.errors import NoMatchingSignature
from formwork.resources import KeptTensor
from formwork.resources import Variable
from formwork.types import FunctionType
from formwork.types import TensorSpec

__all__ = ["ConcreteFunction", "Error", "FunctionType", "KeptTensor", "NoMatchingSignature",
           "Server", "TensorSpec", "Variable", "connect"]


def __getattr__(name):
  if name == "keras":  # Imports Keras and TensorFlow, where it is asked for.
    import importlib
    return importlib.import_module("formwork.keras")
  raise AttributeError("module 'formwork' has no attribute '%s'" % name)
