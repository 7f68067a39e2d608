"""Datasets and iterators on the server, made and read without TensorFlow.

As of tables (lookup.py) the server has no requests for what is in them: functions of a few nodes,
registered here as they are needed, make a dataset of elements, begin an iterator and take of it.
"""
from __future__ import annotations

import math

import numpy as np

from formwork import dtypes
from formwork import errors
from formwork import kept_tensors
from formwork import python_functions
from formwork import resources
from formwork import small_functions
from formwork import types
from formwork.v1 import variables_pb2


class Dataset(kept_tensors.KeptTensor):
  """A dataset on the server: a value there, until it is released.

  Attributes:
    element_spec: a TensorSpec for each component of an element.
    calls_python: whether they may need Python functions of this process.
  """

  __slots__ = ("element_spec", "calls_python")
  element_spec: list[types.TensorSpec]
  calls_python: bool

  def __init__(self, server, tensor_id, epoch, element_spec):
    super().__init__(server, tensor_id, epoch)
    self.dtype, self.shape = "variant", []
    self.element_spec = element_spec
    self.calls_python = False

  def __repr__(self):
    return "<formwork.Dataset id=%d>" % self.id


class Iterator(resources.Resource, of=["iterator"]):
  """A position in a Dataset, which moves on from call to call, whoever asks.

  Attributes:
    element_spec: a TensorSpec for each component of an element; None where it is not known.
    calls_python: whether its elements may need Python functions of this process.
  """

  __slots__ = ("element_spec", "calls_python")
  kind = "iterator"
  element_spec: list[types.TensorSpec] | None
  calls_python: bool

  def __init__(self, server, info, epoch, existed=True):
    self.element_spec = None
    self.calls_python = False
    super().__init__(server, info, epoch, existed)

  def next(self, timeout: float | None = None) -> list[np.ndarray]:
    """The next element: a list of its components. Errors: OUT_OF_RANGE at the end."""
    return self._server._do(taking(self, timeout))


# ------------------------------------------------------------------------------------- operations
def making_dataset(server, elements, spec, timeout):
  """A Dataset that gives these elements, each a list of as many values as `spec` has."""
  arrays = [[_array(value, s, "element %d" % i)
             for value, s in zip(_checked(element, spec, i), spec)]
            for i, element in enumerate(elements)]
  graph, inputs, fed = small_functions.Graph(), [], []

  def feed(array, s):
    name = graph.node("Placeholder", dtype=dtypes.number(s.dtype))
    inputs.append(types.TensorSpec(name + ":0", s.dtype, list(array.shape)))
    fed.append(array)
    return name

  if all(a.shape == b.shape for row in arrays for a, b in zip(row, arrays[0])):
    # Rows of one tensor for each component.
    stacked = [np.stack([row[c] for row in arrays]) if arrays else
               np.zeros([0] + [d or 0 for d in s.shape or ()], _numpy(s))
               for c, s in enumerate(spec)]
    made = graph.node_of_elements(
        "TensorSliceDataset", *[feed(a, s) for a, s in zip(stacked, spec)], spec=spec,
        dtypes_as="Toutput_types")
  else:
    parts = [graph.node_of_elements(
        "TensorDataset", *[feed(a, s) for a, s in zip(row, spec)], spec=spec,
        dtypes_as="Toutput_types") for row in arrays]
    while len(parts) > 1:  # By halves: datasets of datasets must not be deep.
      pairs = [parts[i:i + 2] for i in range(0, len(parts), 2)]
      parts = [graph.node_of_elements("ConcatenateDataset", *pair, spec=spec)
               if len(pair) > 1 else pair[0] for pair in pairs]
    made = parts[0]
  return (yield from _keeping(server, graph.serialized(), made + ":0", inputs, fed, spec, timeout))


def keeping_graphs_dataset(server, graph_def, output, spec, timeout, keep_for=math.inf,
                           resources=None):
  """The Dataset that a graph makes, whose inputs are `resources`: {tensor: what is on the server}."""
  resources = resources or {}
  inputs = [types.TensorSpec(tensor, "resource", []) for tensor in resources]
  return (yield from _keeping(server, graph_def, output, inputs, list(resources.values()), spec,
                              timeout, keep_for))


def _keeping(server, graph_def, output, inputs, fed, spec, timeout, keep_for=math.inf):
  made = yield from small_functions.registering(
      server, "data.make", graph_def, inputs, [output], [], timeout)
  try:
    kept, = yield from small_functions.calling(
        server, made, [(value, dtypes.number(s.dtype)) for value, s in zip(fed, inputs)], "dataset",
        timeout, keep=True, keep_for=keep_for)
  finally:
    yield from small_functions.forgetting(server, made, timeout)
  made = Dataset(server, kept.id, kept._key[0], spec)
  made.calls_python = python_functions.are_in(graph_def)
  return made


def making_iterator(server, name, dataset, timeout, spec=None):
  """The Iterator `name`, at the beginning of a Dataset. spec: of elements; the Dataset's."""
  spec, graph = spec or dataset.element_spec, small_functions.Graph()
  variant = graph.node("Placeholder", dtype=dtypes.VARIANT)
  handle = graph.node_of_elements("IteratorV2", spec=spec, shared_name=name, container="")
  begin = graph.node("MakeIterator", variant, handle)
  made = yield from small_functions.registering(
      server, "data.begin/" + name, graph, [types.TensorSpec(variant + ":0", "variant", [])], [],
      [begin], timeout)
  try:
    yield from small_functions.calling(
        server, made, [(dataset, dtypes.VARIANT)], "iterator '%s'" % name, timeout)
  finally:
    yield from small_functions.forgetting(server, made, timeout)
  iterator = yield from attaching_iterator(server, name, spec, timeout)
  iterator.calls_python = dataset.calls_python
  return iterator


def attaching_iterator(server, name, spec, timeout):
  """The Iterator `name`, where it is."""
  request = variables_pb2.GetVariableRequest(namespace=server.namespace)
  request.variable.name = name
  answer = yield "request", "GetVariable", request, timeout
  iterator = resources.from_info(server, answer.variable, answer.epoch)
  if not isinstance(iterator, Iterator):
    raise errors.invalid("'%s' is no iterator" % name)
  iterator.element_spec = None if spec is None else list(spec)
  return iterator


def taking(iterator, timeout):
  """The next element: a list of arrays."""
  server, spec = iterator._server, iterator.element_spec
  if spec is None:
    raise errors.invalid("iterator '%s': what its elements are is not known here" % iterator.name)
  name = "data.next/" + ";".join("%s%s" % (s.dtype, s.shape) for s in spec)
  known = server._small_functions
  if name not in known:
    graph = small_functions.Graph()
    handle = graph.node("Placeholder", dtype=dtypes.RESOURCE)
    taken = graph.node_of_elements("IteratorGetNext", handle, spec=spec)
    known[name] = yield from small_functions.registering(
        server, name, graph, [types.TensorSpec(handle + ":0", "resource", [])],
        ["%s:%d" % (taken, i) for i in range(len(spec))], [], timeout)
  if iterator.calls_python:
    known[name].answer_python()
  try:
    return (yield from small_functions.calling(
        server, known[name], [(iterator, dtypes.RESOURCE)], "iterator '%s'" % iterator.name,
        timeout))
  except errors.Error as e:
    raise resources.named(e, [iterator])


def _checked(element, spec, i):
  if len(element) == len(spec):
    return element
  raise errors.invalid("dataset: element %d has %d components, element_spec %d" % (
      i, len(element), len(spec)))


def _numpy(spec):
  return object if spec.dtype == "string" else dtypes.to_numpy(dtypes.number(spec.dtype))


def _array(value, spec, what):
  array = np.asarray(value, _numpy(spec))
  fits = spec.shape is None or (len(spec.shape) == array.ndim and all(
      a in (None, b) for a, b in zip(spec.shape, array.shape)))
  if fits:
    return array
  raise errors.invalid("dataset: %s: expected shape %s, got %s" % (what, spec.shape,
                                                                   list(array.shape)))
