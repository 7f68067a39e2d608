from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from formwork import namespace as namespace_lib
from formwork import types

async def connect(target: str, namespace: str = "default", timeout: float = 60) -> Server: ...

class Variable:
  id: int
  name: str
  dtype: str
  shape: list[int | None] | None
  existed: bool
  initialized: bool
  version: int
  nbytes: int
  async def read(self, timeout: float | None = None) -> np.ndarray: ...
  async def assign(self, value: Any, timeout: float | None = None) -> None: ...
  async def delete(self, timeout: float | None = None) -> None: ...

class KeptTensor:
  id: int
  dtype: str | None
  shape: list[int] | None
  nbytes: int | None
  owner: str | None
  age: float | None
  time_to_live: float | None
  async def read(self, timeout: float | None = None) -> np.ndarray: ...
  async def release(self, timeout: float | None = None) -> None: ...

class ConcreteFunction:
  id: int
  name: str
  signature: types.FunctionType
  inputs: list[types.TensorSpec]
  outputs: list[types.TensorSpec]
  existed: bool
  pretty_signature: str
  calls: int
  bytes: int
  captured_variables: list[str]
  async def __call__(
      self, *inputs: Any, timeout: float | None = None,
      on_print: Callable[[str], Any] | None = None, keep: bool = False,
      keep_for: float | None = None) -> list[Any]: ...
  async def delete(self, timeout: float | None = None) -> None: ...

class Server:
  namespace: str
  async def register(
      self, name: str, graph_def: bytes, inputs: Sequence[types.TensorSpec],
      outputs: Sequence[str], captures: Mapping[str, Any] | None = None,
      targets: Iterable[str] = (), signature: types.FunctionType | None = None,
      replace: bool = False, pretty_signature: str = "", retrace: bool = False,
      timeout: float | None = None) -> ConcreteFunction: ...
  async def resolve(self, name: str, signature: types.FunctionType,
                    timeout: float | None = None) -> ConcreteFunction: ...
  async def call(
      self, name: str, inputs: Iterable[Any], timeout: float | None = None,
      on_print: Callable[[str], Any] | None = None, keep: bool = False,
      keep_for: float | None = None, trace: str | None = None) -> list[Any]: ...
  async def functions(self, filter: str = "",
                      timeout: float | None = None) -> list[ConcreteFunction]: ...
  async def describe(self, name: str, timeout: float | None = None) -> str: ...
  async def variable(self, name: str, initial_value: Any = None, dtype: Any = None,
                     shape: Any = ..., timeout: float | None = None) -> Variable: ...
  async def variables(self, filter: str = "", timeout: float | None = None) -> list[Variable]: ...
  async def read(self, variables: Iterable[Variable],
                 timeout: float | None = None) -> list[np.ndarray]: ...
  async def assign(self, values: Mapping[Variable, Any], timeout: float | None = None) -> None: ...
  async def keep(self, value: Any, dtype: Any = None, keep_for: float | None = None,
                 timeout: float | None = None) -> KeptTensor: ...
  async def kept_tensors(self, mine: bool = False,
                         timeout: float | None = None) -> list[KeptTensor]: ...
  async def info(self, timeout: float | None = None) -> namespace_lib.ServerInfo: ...
  async def snapshot(self, timeout: float | None = None) -> None: ...
  async def clear(self, timeout: float | None = None) -> None: ...
  async def close(self) -> None: ...
  async def __aenter__(self) -> Server: ...
  async def __aexit__(self, *unused: Any) -> None: ...
