"""GraphDefs written by hand, for what tracing never gives."""
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.framework import function_pb2
from tensorflow.core.framework import graph_pb2
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.framework import op_def_pb2
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.framework import types_pb2

FLOAT, INT32, STRING, RESOURCE = (types_pb2.DT_FLOAT, types_pb2.DT_INT32, types_pb2.DT_STRING,
                                  types_pb2.DT_RESOURCE)


def attr(value):
  """An AttrValue: bool, float, bytes, str (a function's name), a TensorProto or an AttrValue; a
  plain int is a dtype."""
  made = attr_value_pb2.AttrValue()
  if isinstance(value, attr_value_pb2.AttrValue):
    return value
  if isinstance(value, bool):
    made.b = value
  elif isinstance(value, float):
    made.f = value
  elif isinstance(value, bytes):
    made.s = value
  elif isinstance(value, str):
    made.func.name = value
  elif isinstance(value, tensor_pb2.TensorProto):
    made.tensor.CopyFrom(value)
  elif isinstance(value, list):
    made.list.type.extend(value)
  else:
    made.type = value
  return made


def number(value):
  return attr_value_pb2.AttrValue(i=value)


def node(name, op, inputs=(), **attrs):
  made = node_def_pb2.NodeDef(name=name, op=op, input=inputs)
  for key, value in attrs.items():
    made.attr[key].CopyFrom(attr(value))
  return made


def placeholder(name="x", dtype=FLOAT):
  return node(name, "Placeholder", dtype=dtype)


def constant(name, proto):
  return node(name, "Const", dtype=proto.dtype, value=proto)


def call(name, function, inputs=("x",), op="PartitionedCall", dtypes=(FLOAT,)):
  return node(name, op, inputs, f=function, Tin=[FLOAT] * len(inputs), Tout=list(dtypes))


def function(name, nodes, result, parameters=("x",), dtype=FLOAT):
  """A function of floats with one result, `result` being a tensor of its body ("y:out:0")."""
  made = function_pb2.FunctionDef(signature=op_def_pb2.OpDef(name=name), node_def=nodes)
  for parameter in parameters:
    made.signature.input_arg.add(name=parameter, type=FLOAT)
  made.signature.output_arg.add(name="result", type=dtype)
  made.ret["result"] = result
  return made


def graph(*nodes, functions=()):
  """A serialized GraphDef."""
  made = graph_pb2.GraphDef(node=nodes)
  made.library.function.extend(functions)
  return made.SerializeToString()
