"""Element types: TensorFlow's numbers and names, and numpy's dtypes for them."""
import ml_dtypes
import numpy as np

from formwork import errors
from formwork.tf import types_pb2

_DATA_TYPE = types_pb2.DataType
STRING = types_pb2.DT_STRING
RESOURCE = types_pb2.DT_RESOURCE
VARIANT = types_pb2.DT_VARIANT
# TensorFlow's numbers for the reference types of TensorFlow 1 are the plain ones' plus this.
_REF = 100

_NAME_OF = {}  # number -> TensorFlow's name
for _enum_name, _number in _DATA_TYPE.items():
  _base = _enum_name[len("DT_"):].lower()
  if _base.endswith("_ref"):
    continue
  _NAME_OF[_number] = {"float": "float32", "double": "float64", "half": "float16"}.get(_base, _base)
_NUMBER_OF = {name: number for number, name in _NAME_OF.items()}
_NUMBER_OF.update({
    "half": types_pb2.DT_HALF, "float": types_pb2.DT_FLOAT, "double": types_pb2.DT_DOUBLE,
    "bool_": types_pb2.DT_BOOL, "object": STRING, "str": STRING, "bytes": STRING, "bytes_": STRING,
    "str_": STRING})

_QUANTIZED = {"qint8": np.int8, "quint8": np.uint8, "qint16": np.int16, "quint16": np.uint16,
              "qint32": np.int32}


def _numpy_of(name):
  if name == "string":
    return np.dtype(object)
  if name in _QUANTIZED:
    return np.dtype(_QUANTIZED[name])
  if name == "bool":
    return np.dtype(np.bool_)
  if hasattr(ml_dtypes, name):
    return np.dtype(getattr(ml_dtypes, name))
  return np.dtype(name)


NUMPY = {}  # number -> numpy dtype
for _number, _name in _NAME_OF.items():
  if _name not in ("invalid", "resource", "variant"):
    try:
      NUMPY[_number] = _numpy_of(_name)
    except TypeError:  # An older ml_dtypes does not have it.
      pass
# numpy dtype -> number; quantized types are numpy's plain integers, so those stay plain.
FROM_NUMPY = {dtype: number for number, dtype in NUMPY.items()
              if _NAME_OF[number] not in _QUANTIZED}


def number(dtype):
  """TensorFlow's number of a dtype given by TensorFlow's or numpy's name, or as a dtype object."""
  if isinstance(dtype, int) and dtype in _NAME_OF:
    return dtype
  name = dtype if isinstance(dtype, str) else None
  if name is None:
    try:
      name = np.dtype(dtype).name
    except TypeError:
      name = getattr(dtype, "name", None)  # A tf.DType.
  if name is not None:
    if name.startswith("bytes") or (name.startswith("str") and name[3:].isdigit()):
      name = "string"
    if name.endswith("_ref"):
      name = name[:-len("_ref")]
    if name in _NUMBER_OF:
      return _NUMBER_OF[name]
  raise errors.invalid("unknown dtype: %r" % (dtype,))


def name(dtype_number):
  """TensorFlow's name of a dtype given by number."""
  found = _NAME_OF.get(dtype_number % _REF if dtype_number > _REF else dtype_number)
  return found if found is not None else "dtype %d" % dtype_number


def to_numpy(dtype_number):
  """The numpy dtype that holds tensors of this type."""
  try:
    return NUMPY[dtype_number]
  except KeyError:
    raise errors.invalid("no numpy dtype for %s" % name(dtype_number)) from None
