"""Prints TensorFlow's op registry in the one-line form that core/ops declares ops in.

  op_specs.py [OP...]    the spec of each op (default: all)

Used to write new families.
"""
import pathlib
import re
import sys


def _dtype(number):
  from tensorflow.core.framework import types_pb2
  return types_pb2.DataType.Name(number)[3:].lower()


def _dtype_sets():
  """{name: members} as core/ops/op_spec.cc has them, those that contain others first."""
  source = pathlib.Path(__file__).parents[2] / "core/ops/op_spec.cc"
  sets = {}
  for name, members in re.findall(r'{"(\w+type)", "([^"]+)"}', source.read_text()):
    sets[name] = [x for m in members.split(", ") for x in sets.get(m, [m])]
  return dict(sorted(sets.items(), key=lambda item: -len(item[1])))


def _allowed(dtypes):
  """What a spec says for an attr that allows `dtypes`."""
  left, names = list(dtypes), []
  for name, members in _dtype_sets().items():
    # Two dtypes among others are not there because indices and sizes have them.
    if set(members) <= set(left) and (name != "indextype" or len(left) == len(dtypes) == 2):
      names.append(name)
      for dtype in members:
        left.remove(dtype)
  names += left
  if len(names) == 1 and not left:
    return names[0]
  return "{%s}" % ", ".join(names)


def _string(value):
  text = value.decode("latin-1").replace("\\", "\\\\").replace('"', '\\"')
  return '"%s"' % text.replace("\n", "\\n")


def _shape(shape):
  if shape.unknown_rank:
    return "?"
  return "[%s]" % ",".join(str(d.size) for d in shape.dim)


def _tensor(tensor):
  import tensorflow as tf
  value = tf.make_ndarray(tensor)
  if value.ndim == 1:
    return "%s[%s]" % (_dtype(tensor.dtype), ", ".join(map(str, value)))
  return "%s(%s)" % (_dtype(tensor.dtype), value.item())


def _value(attr_kind, value):
  if attr_kind.startswith("list("):
    inner = attr_kind[5:-1]
    lst = value.list
    items = {"int": lst.i, "float": lst.f, "bool": lst.b, "string": lst.s, "type": lst.type,
             "shape": lst.shape, "tensor": lst.tensor, "func": lst.func}[inner]
    return "[%s]" % ", ".join(_scalar(inner, x) for x in items)
  field = {"int": value.i, "float": value.f, "bool": value.b, "string": value.s,
           "type": value.type, "shape": value.shape, "tensor": value.tensor,
           "func": value.func}[attr_kind]
  return _scalar(attr_kind, field)


def _scalar(kind, x):
  if kind == "string":
    return _string(x)
  if kind == "bool":
    return "true" if x else "false"
  if kind == "type":
    return _dtype(x)
  if kind == "shape":
    return _shape(x)
  if kind == "tensor":
    return _tensor(x)
  if kind == "func":
    return '"%s"' % x.name
  return repr(x)


def _arg(arg):
  kind = arg.type_list_attr or arg.type_attr or _dtype(arg.type)
  if arg.number_attr:
    kind = "%s*%s" % (arg.number_attr, kind)
  if arg.is_ref:
    kind = "Ref(%s)" % kind
  return "%s: %s" % (arg.name, kind)


def _attr(attr):
  kind = attr.type
  if attr.HasField("allowed_values"):
    allowed = attr.allowed_values.list
    if allowed.type:
      text = _allowed([_dtype(t) for t in allowed.type])
    else:
      text = "{%s}" % ", ".join(map(_string, allowed.s))
    kind_text = "list(%s)" % text if kind.startswith("list(") else text
  else:
    kind_text = kind
  text = "%s: %s" % (attr.name, kind_text)
  if attr.has_minimum:
    text += " >= %d" % attr.minimum
  if attr.HasField("default_value"):
    text += " = " + _value(kind, attr.default_value)
  return text


def spec(op):
  """The one-line spec of an OpDef."""
  parts = ["%s(%s) -> (%s)" % (op.name, ", ".join(map(_arg, op.input_arg)),
                               ", ".join(map(_arg, op.output_arg)))]
  parts += [_attr(a) for a in op.attr]
  return "; ".join(parts)


def registry():
  """All of TensorFlow's ops, by name."""
  import tensorflow as tf  # noqa: F401  (fills the registry)
  from tensorflow.core.framework import op_def_pb2
  from tensorflow.python.client import pywrap_tf_session
  ops = op_def_pb2.OpList()
  buffer = pywrap_tf_session.TF_GetAllOpList()
  ops.ParseFromString(pywrap_tf_session.TF_GetBuffer(buffer))
  return {op.name: op for op in ops.op}


if __name__ == "__main__":
  all_ops = registry()
  for name in sys.argv[1:] or sorted(all_ops):
    print(spec(all_ops[name]))
