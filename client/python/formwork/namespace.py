"""The low level: functions, variables and kept tensors of one namespace of a server."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
import math
from typing import Any, Union

import numpy as np

from formwork import channel as channel_lib
from formwork import chrome_trace
from formwork import concrete
from formwork import data
from formwork import dtypes
from formwork import errors
from formwork import kept_tensors
from formwork import lookup
from formwork import named_calls
from formwork import progress as progress_lib
from formwork import resources
from formwork import types
from formwork import variables as variables_lib
from formwork import wire
from formwork.v1 import functions_pb2
from formwork.v1 import server_pb2
from formwork.v1 import variables_pb2

_NOT_GIVEN = object()
Progress = Union[Callable[[int, int], Any], bool, None]
_ROOM_FOR_REST = 1 << 16  # Bytes of a message besides the values.


def _name_of(variable):
  return variable if isinstance(variable, str) else variable.name


class Namespace:
  """Functions, variables and kept tensors of one namespace.

  A subclass says how operations (resources.py) are run: blocking, or for asyncio.
  """

  def __init__(self, channel, namespace):
    self._channel = channel
    self._sent_graphs = set()  # (fingerprint, epoch)
    self._message_limit = 0, 0  # (epoch, bytes of values in one message)
    self.namespace = namespace
    encoded = namespace.encode()
    self._head = b"\x0a" + wire.varint(len(encoded)) + encoded  # Of every CallRequest.
    self._named_calls = {}  # {a function's name: named_calls.Functions}
    self._small_functions = {}  # {name: ConcreteFunction} that lookup.py and data.py use again.

  def __repr__(self):
    return "<formwork.Server %s, namespace %r>" % (self._channel.target, self.namespace)

  # ------------------------------------------------------------------------------------ functions
  def register(self, name: str, graph_def: bytes, inputs: Sequence[types.TensorSpec],
               outputs: Sequence[str], captures: Mapping[str, Any] | None = None,
               targets: Iterable[str] = (), signature: types.FunctionType | None = None,
               replace: bool = False, pretty_signature: str = "", retrace: bool = False,
               timeout: float | None = None,
               max_batch_rows: int = 0) -> concrete.ConcreteFunction:
    """Makes a ConcreteFunction of a cut of a graph.

    Args:
      name: of the function; ConcreteFunctions of other signatures may share it.
      graph_def: a serialized GraphDef, its function library included.
      inputs: TensorSpecs: graph tensors, in the order of a call's values.
      outputs: names of graph tensors, in order.
      captures: {graph tensor: Variable, KeptTensor or value}.
      targets: names of nodes that are run for their effect.
      signature: a FunctionType; by default the flat inputs.
      replace: takes the place of what has this name and type.
      pretty_signature: the text that `formwork describe` shows.
      retrace: this trace was made because an earlier one did not fit; counted.
      max_batch_rows: more than 0: calls that come while one runs wait for it and are then computed
        as one, of so many rows. These are the first dimension of each input and output; a row of
        an output has to depend on that row of the inputs alone.
    Errors: INVALID_ARGUMENT with all culprits; UNIMPLEMENTED lists ops that are missing;
      ALREADY_EXISTS where the name and type are taken by another graph or other captures.
    """
    registration = self._registration(name, graph_def, inputs, outputs, captures, targets,
                                      signature, replace, pretty_signature, retrace,
                                      max_batch_rows)
    return self._do(self._registering(registration, timeout))

  def _registering(self, registration, timeout):
    answer = yield from registration.sending(self, timeout)
    return concrete.ConcreteFunction(self, answer.function, answer.epoch, registration,
                                     answer.existed)

  def _registration(self, name, graph_def, inputs, outputs, captures=None, targets=(),
                    signature=None, replace=False, pretty_signature="", retrace=False,
                    max_batch_rows=0):
    request = functions_pb2.RegisterRequest(
        namespace=self.namespace, name=name, inputs=[spec.to_message() for spec in inputs],
        outputs=list(outputs), targets=list(targets), replace=replace,
        pretty_signature=pretty_signature, retrace=retrace, max_batch_rows=max_batch_rows)
    owners = {}
    for tensor, value in (captures or {}).items():
      what = "capture '%s'" % tensor
      if isinstance(value, (resources.Resource, kept_tensors.KeptTensor)):
        resources.belongs(self, value, what)
        owners[tensor] = value
      else:
        request.captures.add(tensor=tensor).value.tensor.CopyFrom(
            wire.tensor_message(value, what=what))
    if signature is not None:
      request.signature.CopyFrom(signature.to_message())
    return concrete.Registration(request, bytes(graph_def), owners)

  def resolve(self, name: str, signature: types.FunctionType,
              timeout: float | None = None) -> concrete.ConcreteFunction:
    """The ConcreteFunction that a call of this type goes to.

    Errors: NoMatchingSignature; a plain NOT_FOUND for an unknown name.
    """
    return self._do(self._resolving(name, signature, timeout))

  def _resolving(self, name, signature, timeout):
    try:
      answer = yield "request", "Resolve", functions_pb2.ResolveRequest(
          namespace=self.namespace, name=name, signature=signature.to_message()), timeout
    except errors.NoMatchingSignature as e:
      e.given = str(signature)
      raise
    return concrete.ConcreteFunction(self, answer.function, answer.epoch)

  def call(self, name: str, inputs: Iterable[Any] | Mapping[str, Any],
           timeout: float | None = None, on_print: Callable[[str], Any] | None = None,
           keep: bool = False, keep_for: float | None = None, trace: str | None = None,
           atomic: bool = False, relaxed: bool = False) -> Any:
    """Calls a function by name; the types of the inputs choose the ConcreteFunction.

    inputs: values in order; or a Mapping {"x": value}: by the names of the parameters, which choose
      the ConcreteFunction too. For these the functions of the name are asked for once, and again
      where none that is known fits or the one that did is gone.
    atomic: all that it changes of variables and other resources changes, or, where it raises,
      nothing; then it has printed nothing either. See ConcreteFunction.
    relaxed: of workers that train side by side: forward and backward on a snapshot. See
      ConcreteFunction.
    trace: a file that gets what the call did when, also where it fails, in Chrome's trace format.
    The rest is as ConcreteFunction's. Returns a list of one value per output: numpy arrays, or with
    `keep` KeptTensors; of inputs by names, where the function returns a dict of tensors, a dict.
    """
    on_timeline = None
    if trace is not None:
      on_timeline = lambda timeline: chrome_trace.write(timeline, name, trace)
    options = timeout, on_print, keep, keep_for, None, on_timeline, atomic, relaxed
    if isinstance(inputs, Mapping):
      return self._do(named_calls.calling(self, name, inputs, options))
    parts, owners, inputs = [None], [], list(inputs)
    for i, value in enumerate(inputs):
      concrete.append_input(self, parts, owners, value, None, "%s: input %d" % (name, i))
    return self._do(self._calling(name, inputs, parts, owners, options))

  def _calling(self, name, inputs, parts, owners, options, names_of=None):
    """names_of: an operation that gives the names.Names of a ConcreteFunction by its ID."""
    try:
      answer = yield from resources.by_id(
          self, [owner for _, owner in owners], lambda epoch: concrete.calling(
              self, concrete.named_head(self, name, epoch), parts, owners, *options))
    except errors.NoMatchingSignature as e:
      e.given = "(%s)" % ", ".join(_text(value) for value in inputs)
      raise
    outputs = [self._output(v, answer.epoch) for v in answer.outputs]
    return outputs if names_of is None else (yield from names_of(answer.function)).result(outputs)

  def functions(self, filter: str = "",
                timeout: float | None = None) -> list[concrete.ConcreteFunction]:
    """The ConcreteFunctions of the namespace, by name; `filter` on names knows * and ?."""
    return self._do(self._listing_functions(filter, timeout))

  def _listing_functions(self, names, timeout):
    found = yield from resources.pages("ListFunctions", functions_pb2.ListFunctionsRequest(
        namespace=self.namespace, filter=names), timeout)
    return [concrete.ConcreteFunction(self, info, answer.epoch)
            for answer in found for info in answer.functions]

  def describe(self, name: str, timeout: float | None = None) -> str:
    """A text: the signatures of a function, as pretty_printed_concrete_signatures has them."""
    return self._do(self._describing(name, timeout))

  def _describing(self, name, timeout):
    return (yield "request", "DescribeFunction", functions_pb2.DescribeFunctionRequest(
        namespace=self.namespace, name=name), timeout).text

  # ------------------------------------------------------------------------------------ variables
  def variable(self, name: str, initial_value: Any = None, dtype: Any = None,
               shape: Any = _NOT_GIVEN, timeout: float | None = None) -> variables_lib.Variable:
    """Creates a variable, or attaches to the one of this name (its value stays as it is).

    Args:
      initial_value: None leaves it uninitialised; then dtype and shape are needed.
      shape: beside a value, the declared shape, where wider than the value's; None: unknown rank.
    Errors: INVALID_ARGUMENT where one with another dtype or shape is there.
    """
    if initial_value is None and dtype is None:
      raise errors.invalid("variable '%s': neither an initial value nor a dtype" % name)
    request = variables_pb2.CreateVariableRequest(namespace=self.namespace, name=name)
    initial = []
    if initial_value is not None:
      initial.append(wire.encoded(initial_value, None if dtype is None else dtypes.number(dtype),
                                  "variable '%s'" % name))
      request.dtype, dims, _ = initial[0]
      if shape is _NOT_GIVEN:
        shape = dims
    else:
      request.dtype = dtypes.number(dtype)
      if shape is _NOT_GIVEN:
        shape = None
    request.shape.CopyFrom(types.shape_message(shape))
    return self._do(self._creating(request, initial, timeout))

  def _creating(self, request, initial, timeout):
    sent, made = yield from kept_tensors.fitting(self, initial, timeout)
    for value in sent:
      kept_tensors.fill_value(request.initial_value, value)
    try:
      if made:
        request.expected_epoch = made[0]._key[0]
      answer = yield "request", "CreateVariable", request, timeout
    finally:
      yield from kept_tensors.dropping(self, made)
    return variables_lib.Variable(self, answer.variable, answer.epoch, answer.existed)

  def table(self, name: str, kind: str = "mutable", key_dtype: Any = "string",
            value_dtype: Any = "int64", keys: Any = (), values: Any = (),
            default_value: Any = None, empty_key: Any = None, deleted_key: Any = None,
            timeout: float | None = None) -> lookup.Table:
    """Makes a hash table, or attaches to the one of this name (what it holds stays as it is).

    Args:
      kind: "mutable"; "static": only read, once it holds `keys`, which then are at least one;
        "dense": as TensorFlow's, which keeps nothing under `empty_key` and `deleted_key`, and
        exports its whole array, with these where it is empty. Keys are of their shape: () or (n,).
      key_dtype: int32, int64 or string. value_dtype: of plain data, or string.
      values: one for each of `keys`, all of one shape: () or, unless it is static, (n,).
      default_value: what lookup gives for keys that are not there.
    Errors: INVALID_ARGUMENT where one of another type is there.
    """
    if kind not in ("mutable", "static", "dense"):
      raise errors.Error(
          "UNIMPLEMENTED", "table '%s': kind %r: there are mutable, static and dense" % (name, kind))
    if (kind == "dense") != (empty_key is not None and deleted_key is not None):
      raise errors.invalid("table '%s': a dense one takes an empty_key and a deleted_key" % name)
    if np.shape(empty_key) != np.shape(deleted_key) or np.ndim(empty_key) > 1:
      raise errors.invalid("table '%s': empty_key and deleted_key are two keys of one shape, () or "
                           "(n,)" % name)
    key, value = (dtypes.name(dtypes.number(d)) for d in (key_dtype, value_dtype))
    shape = np.shape(values)[1:] if len(keys) else np.shape(default_value)
    table_type = lookup.Type(key, value, tuple(shape),
                             tuple(np.shape(empty_key)) if kind == "dense" else ())
    dense_keys = table_type.keys([empty_key, deleted_key], name) if kind == "dense" else None
    return self._do(lookup.making(self, name, kind, table_type, table_type.keys(keys, name), values,
                                  default_value, dense_keys, timeout))

  def dataset(self, elements: Any = None, element_spec: Any = None, graph_def: bytes | None = None,
              output: str | None = None, timeout: float | None = None) -> data.Dataset:
    """Makes a dataset, an argument or a capture of functions (dtype "variant").

    Args:
      elements: lists of values, one for each component of element_spec, a list of TensorSpecs.
      graph_def, output: instead of elements, a serialized GraphDef and its tensor that is one.
    """
    spec = list(element_spec or ())
    if not spec or (elements is None) == (graph_def is None):
      raise errors.invalid("dataset: it takes an element_spec, and elements or a graph_def")
    if graph_def is not None:
      return self._do(data.keeping_graphs_dataset(self, graph_def, output, spec, timeout))
    return self._do(data.making_dataset(self, list(elements), spec, timeout))

  def iterator(self, name: str, dataset: data.Dataset | None = None,
               timeout: float | None = None,
               element_spec: Sequence[types.TensorSpec] | None = None) -> data.Iterator:
    """Makes an iterator, or begins the one of this name anew, at the beginning of a Dataset.

    Without a dataset: the one that is there, where it is; `element_spec` says what its elements are.
    Errors: INVALID_ARGUMENT where one of other elements is there; NOT_FOUND.
    """
    if dataset is None:
      return self._do(data.attaching_iterator(self, name, element_spec, timeout))
    return self._do(data.making_iterator(self, name, dataset, timeout))

  def variables(self, filter: str = "",
                timeout: float | None = None) -> list[variables_lib.Variable]:
    """The Variables of the namespace, by name; `filter` on names knows * and ?."""
    return self._do(self._listing_variables(filter, timeout))

  def _listing_variables(self, names, timeout):
    return (yield from self._listing(variables_pb2.ListVariablesRequest(
        namespace=self.namespace, filter=names), timeout))

  def _resources(self):
    """The Resources of the namespace, of all kinds, by name."""
    return self._do(self._listing(variables_pb2.ListVariablesRequest(
        namespace=self.namespace, all_kinds=True)))

  def _listing(self, request, timeout=None):
    found = yield from resources.pages("ListVariables", request, timeout)
    return [resources.from_info(self, info, answer.epoch)
            for answer in found for info in answer.variables]

  def read(self, variables: Iterable[variables_lib.Variable],
           timeout: float | None = None) -> list[np.ndarray]:
    """The values of Variables as numpy arrays, in order: one snapshot, no write between them."""
    return self._do(variables_lib.reading(self, list(variables), timeout))

  def assign(self, values: Mapping[variables_lib.Variable, Any],
             timeout: float | None = None) -> None:
    """Sets the values {Variable: value}: at once, and all of them or none."""
    return self._do(variables_lib.assigning(self, dict(values), timeout))

  # --------------------------------------------------------------------------------- kept tensors
  def keep(self, value: Any, dtype: Any = None, keep_for: float | None = None,
           timeout: float | None = None) -> kept_tensors.KeptTensor:
    """Sends a value to the server, where it stays as a KeptTensor: an input of many calls.

    keep_for: seconds after its last use; by default what the server is set to.
    """
    encoded = wire.encoded(value, None if dtype is None else dtypes.number(dtype), "keep")
    return self._do(kept_tensors.keeping(self, encoded, keep_for, timeout))

  def kept_tensors(self, mine: bool = False,
                   timeout: float | None = None) -> list[kept_tensors.KeptTensor]:
    """The KeptTensors of the namespace; with `mine` those alone that this connection left there."""
    owner = self._channel.origin.client_id if mine else ""
    return self._do(kept_tensors.listing(self, owner, timeout))

  # ---------------------------------------------------------------------------------------- whole
  def info(self, timeout: float | None = None) -> ServerInfo:
    """The ServerInfo: version, epoch, devices, ops, limits, features."""
    return self._do(self._informing(timeout))

  def _informing(self, timeout):
    return ServerInfo((yield "request", "GetServerInfo", resources.info_request(self), timeout).server)

  def snapshot(self, timeout: float | None = None, progress: Progress = None) -> None:
    """Has the server write what it has, in all namespaces, to its data directory.

    What is there now, functions, variables and tables under their IDs, is then there after a
    restart, however the server ends.

    Args:
      progress: how far it is, some times a second: a callable that is given (bytes done, bytes in
        all), here, and where it succeeds once more at the end; what that raises ends the wait.
        True: a bar of tqdm's.

    Raises:
      Error: FAILED_PRECONDITION: nothing outlives the server (--data-dir).
    """
    return self._do(self._snapshotting(timeout, progress))

  def _snapshotting(self, timeout, progress):
    request = server_pb2.TakeSnapshotRequest(namespace=self.namespace)
    yield from progress_lib.watched(self, progress, "SNAPSHOT", "",
                                    ("TakeSnapshot", request, timeout),
                                    lambda answer: answer.bytes_written)

  def save_checkpoint(self, path: str,
                      variables: Iterable[variables_lib.Variable | str] | None = None,
                      timeout: float | None = None, progress: Progress = None) -> int:
    """Has the server write Variables, as they are between two calls, to files of its own.

    tf.train.Checkpoint restores them (a variable "dense/kernel" as the attribute `kernel` of the
    attribute `dense`), tf.train.load_checkpoint reads them.

    Args:
      path: relative to the server's --files-dir; "….safetensors": in that format, else the prefix of
        a TensorFlow checkpoint.
      variables: they, or their names; None: all of the namespace that are initialised.
      progress: as in snapshot.

    Returns:
      How many were written.

    Raises:
      Error: FAILED_PRECONDITION: the server has no folder for files; PERMISSION_DENIED: `path` leads
        out of it.
    """
    return self._do(self._saving(path, variables, timeout, progress))

  def _saving(self, path, variables, timeout, progress):
    request = variables_pb2.SaveCheckpointRequest(
        namespace=self.namespace, path=path, names=[_name_of(v) for v in variables or ()])
    return (yield from progress_lib.watched(self, progress, "SAVE_CHECKPOINT", path,
                                            ("SaveCheckpoint", request, timeout),
                                            lambda answer: answer.bytes)).variables

  def restore_checkpoint(self, path: str,
                         variables: Iterable[variables_lib.Variable | str] | None = None,
                         timeout: float | None = None, progress: Progress = None) -> int:
    """Assigns Variables what files of the server's have: all at once, or none.

    Takes what save_checkpoint writes, what tf.train.Checkpoint writes (variables are found by the
    names that they had there, or by the paths of attributes that lead to them), and checkpoints by
    names. What is not there is created.

    Args:
      path: as in save_checkpoint.
      variables: they, or their names; None: all that the checkpoint has.
      progress: as in snapshot.

    Returns:
      How many were assigned.

    Raises:
      Error: NOT_FOUND: there is no such checkpoint, or it has no such variable; INVALID_ARGUMENT: one
        is of another dtype or shape, which the text names; DATA_LOSS: the files are damaged.
    """
    return self._do(self._restoring(path, variables, timeout, progress))

  def _restoring(self, path, variables, timeout, progress):
    request = variables_pb2.RestoreCheckpointRequest(
        namespace=self.namespace, path=path, names=[_name_of(v) for v in variables or ()])
    return (yield from progress_lib.watched(self, progress, "RESTORE_CHECKPOINT", path,
                                            ("RestoreCheckpoint", request, timeout),
                                            lambda answer: answer.bytes)).variables

  def load_saved_model(self, path: str, name: str, tags: Iterable[str] = (), replace: bool = False,
                       timeout: float | None = None,
                       max_batch_rows: int = 0) -> list[concrete.ConcreteFunction]:
    """Makes functions of the signatures of a SavedModel, without TensorFlow.

    Inputs are in the order of their names, which `pretty_signature` shows, and so are results; or
    they are called with a Mapping, by these names.

    Args:
      path: of its folder, relative to the server's --files-dir; one of versions (1, 2, …) stands for
        the highest.
      name: of the function of "serving_default"; that of any other signature is name/SIGNATURE.
      tags: of the graph; none: the only one, or that of "serve".
      replace: in the place of what was loaded under the name: calls go on meanwhile, with the one or
        the other.
      max_batch_rows: as register's, of the signatures that it can be of; there has to be one.

    Raises:
      Error: NOT_FOUND: there is none, or no such tags; ALREADY_EXISTS: there is a function of such a
        name; UNIMPLEMENTED: lists the ops that are missing. Then nothing is left of it.
    """
    return self._do(self._loading(path, name, tags, replace, timeout, max_batch_rows))

  def _loading(self, path, name, tags, replace, timeout, max_batch_rows):
    answer = yield "request", "LoadSavedModel", functions_pb2.LoadSavedModelRequest(
        namespace=self.namespace, path=path, name=name, tags=list(tags), replace=replace,
        max_batch_rows=max_batch_rows), timeout
    return [concrete.ConcreteFunction(self, info, answer.epoch) for info in answer.functions]

  def ops(self, filter: str = "", timeout: float | None = None) -> dict[str, str]:
    """Which ops functions may use: {name: signature}, by name.

    A signature has the dtypes of the op, for people; what of them a function may use is told when
    it is registered or called.

    filter: of names; knows * and ?.
    """
    return self._do(self._listing_ops(filter, timeout))

  def _listing_ops(self, names, timeout):
    found = yield from resources.pages(
        "ListOps", server_pb2.ListOpsRequest(namespace=self.namespace, filter=names), timeout)
    return {op.name: op.signature for answer in found for op in answer.ops}

  def namespaces(self, filter: str = "", timeout: float | None = None) -> list[NamespaceInfo]:
    """The NamespaceInfos of the server, by name.

    A namespace is there while something is in it, or while it has a durability of its own.

    filter: of names; knows * and ?.
    """
    return self._do(self._listing_namespaces(filter, timeout))

  def _listing_namespaces(self, names, timeout):
    found = yield from resources.pages(
        "ListNamespaces", server_pb2.ListNamespacesRequest(
            namespace=self.namespace, filter=names), timeout)
    return [NamespaceInfo(one) for answer in found for one in answer.namespaces]

  def set_durability(self, durability: str, timeout: float | None = None) -> None:
    """Says what of this namespace, in which nothing is, outlives the server's process.

    It stays so, over restarts too, until the namespace is deleted. Where it is so already nothing is
    done. By default it is what the server is set to (--durability).

    Args:
      durability: "memory": nothing; "snapshot": what the last one has; "sync": all that was answered,
        for which each answer waits.
    Raises:
      Error: FAILED_PRECONDITION: something is in it, or the server has no data directory.
    """
    if durability not in ("memory", "snapshot", "sync"):
      raise errors.invalid(
          "durability: expected \"memory\", \"snapshot\" or \"sync\", got %r" % (durability,))
    return self._do(self._setting_durability(durability, timeout))

  def _setting_durability(self, durability, timeout):
    yield "request", "SetDurability", server_pb2.SetDurabilityRequest(
        namespace=self.namespace,
        durability=server_pb2.Durability.Value("DURABILITY_" + durability.upper())), timeout

  def delete_namespace(self, name: str, timeout: float | None = None) -> None:
    """Removes a namespace, this one or another: all that is in it. Nothing there is no error."""
    if (name or "default") == (self.namespace or "default"):
      return self.clear(timeout)
    return self._do(self._clearing(name, timeout))

  def clear(self, timeout: float | None = None) -> None:
    """Removes all functions, variables, other resources and kept tensors of the namespace."""
    return self._do(self._clearing(self.namespace, timeout))

  def _clearing(self, name, timeout):
    yield "request", "Clear", server_pb2.ClearRequest(namespace=name), timeout

  # --------------------------------------------------------------------------- for this package
  def _do(self, operation):
    """Runs an operation; returns its result, or what gives it."""
    raise NotImplementedError

  def _fits(self, nbytes):
    """Whether values of so many bytes can travel in one message."""
    if nbytes <= kept_tensors.SURELY_FITS:
      return True
    epoch, limit = self._message_limit
    if not limit or epoch != self._channel.epoch:
      info = yield "request", "GetServerInfo", resources.info_request(self)
      limit = min(channel_lib.MAX_MESSAGE, info.server.limits.message_bytes or math.inf)
      limit -= _ROOM_FOR_REST
      self._message_limit = info.epoch, limit
    return nbytes <= limit

  def _output(self, value, epoch):
    """One entry of a CallResponse's outputs, as callers get it."""
    if not hasattr(value, "WhichOneof"):
      return value if value.flags.writeable else value.copy()
    kind = value.WhichOneof("kind")
    if kind == "tensor":
      return wire.from_message(value.tensor)
    if kind == "kept_tensor_id":
      return kept_tensors.KeptTensor(self, value.kept_tensor_id, epoch)
    return None


def _text(value):
  """The type of an input of a call."""
  if isinstance(value, (lookup.Table, data.Iterator)):
    return "%s %s" % (type(value).__name__, value.type)
  if isinstance(value, (variables_lib.Variable, kept_tensors.KeptTensor)):
    kind = "Variable " if isinstance(value, variables_lib.Variable) else "KeptTensor "
    return kind + types.tensor_text(value.dtype or "?", value.shape)
  array, number = wire.to_array(value)
  return types.tensor_text(dtypes.name(number), array.shape)


class NamespaceInfo:
  """What a namespace holds.

  Attributes:
    name: of the namespace.
    variables, other_resources, functions, kept_tensors: how many; other resources are tables,
      iterators and the like.
    nbytes: of all of it.
    durability: what of it outlives the server's process, as ServerInfo's.
  """

  def __init__(self, message):
    self.name = message.name
    self.variables = message.variables
    self.other_resources = message.other_resources
    self.functions = message.functions
    self.kept_tensors = message.kept_tensors
    self.nbytes = (message.variable_bytes + message.other_resource_bytes +
                   message.function_bytes + message.kept_tensor_bytes)
    self.durability = _durability(message)

  def __repr__(self):
    return "<formwork.NamespaceInfo %r, %d bytes>" % (self.name, self.nbytes)


def _durability(message):
  return server_pb2.Durability.Name(message.durability).partition("_")[2].lower()


class ServerInfo:
  """What a server says of itself.

  Attributes:
    version: of the server's program.
    epoch: of the namespace: another one at each start after which something of it may be gone.
    uptime: seconds.
    devices: [(name, kind, threads)].
    ops: the names of the ops that it has, sorted.
    limits: {name: number}, as "memory_bytes"; what is not there is not limited.
    features: names of what it can do beyond the first release of its API.
    durability: what outlives its process of namespaces that have none of their own: "memory":
      nothing; "snapshot": what the last one has; "sync": all that was answered.
    instruction_set: that its kernels use, as "avx2".
  """

  def __init__(self, message):
    self.version = message.version
    self.epoch = message.epoch
    self.uptime = message.uptime.seconds + message.uptime.nanos / 1e9
    self.devices = [(d.name, d.kind, d.threads) for d in message.devices]
    self.ops = list(message.ops)
    self.limits = {field.name: value for field, value in message.limits.ListFields()}
    self.features = list(message.features)
    self.durability = _durability(message)
    self.instruction_set = message.instruction_set

  def __repr__(self):
    return "<formwork.ServerInfo version=%s epoch=%d uptime=%.0fs>" % (
        self.version, self.epoch, self.uptime)
