"""Functions of a few nodes, which the client makes itself: what the server has no request for."""
from formwork import concrete
from formwork import dtypes
from formwork.tf import graph_pb2
from formwork.v1 import functions_pb2


class Graph:
  """A GraphDef of a few nodes."""

  def __init__(self):
    self.message = graph_pb2.GraphDef()

  def node(self, op, *inputs, name=None, **attrs):
    """The name of a new one. attrs: dtypes by their numbers; texts; tuples are shapes."""
    name = name or "n%d" % len(self.message.node)
    node = self.message.node.add(name=name, op=op, input=inputs)
    for key, value in attrs.items():
      if isinstance(value, tuple):
        for dim in value:
          node.attr[key].shape.dim.add(size=dim)
        node.attr[key].shape.SetInParent()
      elif isinstance(value, str):
        node.attr[key].s = value.encode()
      else:
        node.attr[key].type = value
    return name

  def node_of_elements(self, op, *inputs, spec, dtypes_as="output_types", **attrs):
    """As node, of an op of datasets. spec: TensorSpecs of an element's components."""
    name = self.node(op, *inputs, **attrs)
    node = self.message.node[-1]
    node.attr[dtypes_as].list.type.extend(dtypes.number(s.dtype) for s in spec)
    shapes = node.attr["output_shapes"].list.shape
    for s in spec:
      shape = shapes.add(unknown_rank=s.shape is None)
      for dim in s.shape or ():
        shape.dim.add(size=-1 if dim is None else dim)
    return name

  def serialized(self):
    return self.message.SerializeToString(deterministic=True)


def registering(server, name, graph, specs, outputs, targets, timeout):
  """The ConcreteFunction of a Graph, or of a serialized GraphDef."""
  graph_def = graph.serialized() if isinstance(graph, Graph) else graph
  return (yield from server._registering(
      server._registration("formwork." + name, graph_def, specs, outputs, targets=targets),
      timeout))


def calling(server, function, values, what, timeout, keep=False, keep_for=None):
  """Calls one with [(value, number of its dtype)]; its outputs. what: names them in errors."""
  parts, owners = [None], []
  for value, number in values:
    concrete.append_input(server, parts, owners, value, number, what)
  return (yield from function._calling(parts, owners, timeout, None, keep, keep_for))


def forgetting(server, function, timeout):
  """Unregisters one that was made for one use. One that is not there any more is no error."""
  yield "request", "Unregister", functions_pb2.UnregisterRequest(
      namespace=server.namespace, function_id=function.id, expected_epoch=function._key[0],
      allow_missing=True), timeout
