"""Formwork's Python client: register, call and trace functions that run on a Formwork server.

    import formwork
    server = formwork.connect("127.0.0.1:8500")

    @server.function            # As tf.function; traced here, run there.
    def double(x): return 2 * x

    (y,) = server.call("double", [np.float32([1, 2])])   # From any process, without TensorFlow.

formwork.aio is the low level for asyncio.
"""
from formwork.client import Server
from formwork.client import connect
from formwork.concrete import ConcreteFunction
from formwork.data import Dataset
from formwork.data import Iterator
from formwork.errors import Error
from formwork.errors import NoMatchingSignature
from formwork.kept_tensors import KeptTensor
from formwork.lookup import Table
from formwork.namespace import NamespaceInfo
from formwork.namespace import ServerInfo
from formwork.tls import Tls
from formwork.types import FunctionType
from formwork.types import TensorSpec
from formwork.variables import Variable

__version__ = "0.1.0"
__all__ = ["ConcreteFunction", "Dataset", "Error", "FunctionType", "Iterator", "KeptTensor",
           "NamespaceInfo", "NoMatchingSignature", "Server", "ServerInfo", "Table", "TensorSpec",
           "Tls", "Variable", "connect"]


def __getattr__(name):
  if name == "keras":  # Imports Keras and TensorFlow, where it is asked for.
    import importlib
    return importlib.import_module("formwork.keras")
  raise AttributeError("module 'formwork' has no attribute '%s'" % name)
