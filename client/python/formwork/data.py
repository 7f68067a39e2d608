"""Datasets and iterators on the server, made and read without TensorFlow.

As of tables (lookup.py) the server has no requests for what is in them: functions of a few nodes,
registered here as they are needed, make a dataset of elements, begin an iterator and take of it.
"""
from __future__ import annotations

import math

import numpy as np

from formwork import concrete
from formwork import dtypes
from formwork import errors
from formwork import python_functions
from formwork import resources
from formwork import types
from formwork.tf import graph_pb2
from formwork.v1 import functions_pb2
from formwork.v1 import variables_pb2

_FUNCTIONS = "formwork.data"  # What the names of the functions begin with.


class _Graph:
  """A GraphDef of a few nodes."""

  def __init__(self):
    self.message = graph_pb2.GraphDef()

  def node(self, op, *inputs, spec=None, dtypes_as="output_types", **attrs):
    """The name of a new one. spec: TensorSpecs of an element; attrs: numbers of dtypes, texts."""
    name = "n%d" % len(self.message.node)
    node = self.message.node.add(name=name, op=op, input=inputs)
    for key, value in attrs.items():
      if isinstance(value, str):
        node.attr[key].s = value.encode()
      else:
        node.attr[key].type = value
    if spec is not None:
      node.attr[dtypes_as].list.type.extend(dtypes.number(s.dtype) for s in spec)
      shapes = node.attr["output_shapes"].list.shape
      for s in spec:
        shape = shapes.add(unknown_rank=s.shape is None)
        for dim in s.shape or ():
          shape.dim.add(size=-1 if dim is None else dim)
    return name


def making_dataset(server, elements, spec, timeout):
  """A Dataset that gives these elements, each a list of as many values as `spec` has."""
  arrays = [[_array(value, s, "element %d" % i)
             for value, s in zip(_checked(element, spec, i), spec)]
            for i, element in enumerate(elements)]
  graph, inputs, fed = _Graph(), [], []

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
    made = graph.node("TensorSliceDataset", *[feed(a, s) for a, s in zip(stacked, spec)], spec=spec,
                      dtypes_as="Toutput_types")
  else:
    parts = [graph.node("TensorDataset", *[feed(a, s) for a, s in zip(row, spec)], spec=spec,
                        dtypes_as="Toutput_types") for row in arrays]
    while len(parts) > 1:  # By halves: datasets of datasets must not be deep.
      pairs = [parts[i:i + 2] for i in range(0, len(parts), 2)]
      parts = [graph.node("ConcatenateDataset", *pair, spec=spec) if len(pair) > 1 else pair[0]
               for pair in pairs]
    made = parts[0]
  return (yield from _keeping(server, graph.message.SerializeToString(deterministic=True),
                              made + ":0", inputs, fed, spec, timeout))


def keeping_graphs_dataset(server, graph_def, output, spec, timeout, keep_for=math.inf):
  """The Dataset that a graph without inputs makes."""
  return (yield from _keeping(server, graph_def, output, [], [], spec, timeout, keep_for))


def _keeping(server, graph_def, output, inputs, fed, spec, timeout, keep_for=math.inf):
  made = yield from _registered(server, "make", graph_def, inputs, [output], [], timeout)
  try:
    parts, owners = [None], []
    for value, s in zip(fed, inputs):
      concrete.append_input(server, parts, owners, value, dtypes.number(s.dtype), "dataset")
    kept, = yield from made._calling(parts, owners, timeout, None, True, keep_for)
  finally:
    yield from _forgetting(server, made, timeout)
  made = resources.Dataset(server, kept.id, kept._key[0], spec)
  made.calls_python = python_functions.are_in(graph_def)
  return made


def making_iterator(server, name, dataset, timeout, spec=None):
  """The Iterator `name`, at the beginning of a Dataset. spec: of elements; the Dataset's."""
  spec, graph = spec or dataset.element_spec, _Graph()
  variant = graph.node("Placeholder", dtype=dtypes.number("variant"))
  handle = graph.node("IteratorV2", spec=spec, shared_name=name, container="")
  begin = graph.node("MakeIterator", variant, handle)
  resources.belongs(server, dataset, "iterator '%s'" % name)
  made = yield from _registered(
      server, "begin/" + name, graph.message.SerializeToString(deterministic=True),
      [types.TensorSpec(variant + ":0", "variant", [])], [], [begin], timeout)
  try:
    yield from made._calling([None, None], [(1, dataset)], timeout, None, False, None)
  finally:
    yield from _forgetting(server, made, timeout)
  request = variables_pb2.GetVariableRequest(namespace=server.namespace)
  request.variable.name = name
  answer = yield "request", "GetVariable", request, timeout
  iterator = resources.from_info(server, answer.variable, answer.epoch)
  iterator.element_spec = spec
  iterator.calls_python = dataset.calls_python
  return iterator


def taking(iterator, timeout):
  """The next element: a list of arrays."""
  server, spec = iterator._server, iterator.element_spec
  if spec is None:
    raise errors.invalid("iterator '%s': what its elements are is not known here" % iterator.name)
  name = "next/" + ";".join("%s%s" % (s.dtype, s.shape) for s in spec)
  known = server._data_functions
  if name not in known:
    graph = _Graph()
    handle = graph.node("Placeholder", dtype=dtypes.RESOURCE)
    taken = graph.node("IteratorGetNext", handle, spec=spec)
    known[name] = yield from _registered(
        server, name, graph.message.SerializeToString(deterministic=True),
        [types.TensorSpec(handle + ":0", "resource", [])],
        ["%s:%d" % (taken, i) for i in range(len(spec))], [], timeout)
  if iterator.calls_python:
    known[name].answer_python()
  try:
    return (yield from known[name]._calling([None, None], [(1, iterator)], timeout, None, False,
                                            None))
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


def _registered(server, name, graph_def, specs, outputs, targets, timeout):
  registration = server._registration("%s.%s" % (_FUNCTIONS, name), graph_def, specs, outputs,
                                      targets=targets)
  return (yield from server._registering(registration, timeout))


def _forgetting(server, function, timeout):
  yield "request", "Unregister", functions_pb2.UnregisterRequest(
      namespace=server.namespace, function_id=function.id, expected_epoch=function._key[0],
      allow_missing=True), timeout
