"""Tensors to and from the wire.

Requests are joined from pieces by hand: what comes before the elements of a tensor depends on its
dtype and shape alone, so it is made once for each, and the elements are copied once, from the
array into the request.
"""
import functools
import math
import struct

import numpy as np

from formwork import dtypes
from formwork import errors
from formwork.v1 import calls_pb2
from formwork.v1 import types_pb2

_LENGTH = struct.Struct("<I")
_CONTENT_TAG = b"\x7a"  # Field 15, length-delimited: Tensor.content, CallRequest.inputs.
_BIG_ENDIAN = ">"


def varint(n):
  if n < 0x80:
    return bytes((n,))
  out = bytearray()
  while n >= 0x80:
    out.append(n & 0x7f | 0x80)
    n >>= 7
  out.append(n)
  return bytes(out)


# --------------------------------------------------------------------------------------- to arrays
def _natural(value, what):
  """The array of a Python value, typed as TensorFlow types it: 32 bits unless they are too few."""
  array = _rectangular(value, what)
  if isinstance(value, (np.ndarray, np.generic)):
    return array
  if array.dtype == object and not all(isinstance(x, (str, bytes)) for x in array.flat):
    raise errors.invalid("%s: expected a tensor, got %s" % (what, _shown(value)))
  if array.dtype == np.float64:
    return array.astype(np.float32)
  if array.dtype == np.int64:
    small = array.astype(np.int32)
    return small if (small == array).all() else array
  return array


def _rectangular(value, what):
  try:
    return np.asarray(value)
  except ValueError as e:
    raise errors.invalid("%s: not a rectangular value: %s" % (what, e)) from None


def _shown(value):
  """A value in an error's text."""
  if isinstance(value, int):
    return "%r, which no tensor can hold" % value
  return "%s of objects" % type(value).__name__ if isinstance(value, (list, tuple)) else (
      type(value).__name__)


# What TensorFlow makes several tensors of, by the name of its class.
_COMPOSITES = {
    "RaggedTensor": "a ragged tensor is several: pass its flat_values and nested_row_splits",
    "SparseTensor": "a sparse tensor is three: pass its indices, values and dense_shape",
    "IndexedSlices": "IndexedSlices are several tensors: pass the values and indices, or "
                     "tf.convert_to_tensor of them"}

# What holds many things or none, with what to do instead.
_NO_TENSORS = (
    (type(None), "None is no tensor: leave it out where the function was traced with None"),
    (dict, "a dict is no tensor: pass its values one by one, in the order of the inputs"),
    ((set, frozenset), "a set is no tensor: pass a list"))
_STAYS_HERE = (  # By a part of the name of TensorFlow's class.
    ("Dataset", "a tf.data.Dataset cannot be sent: iterate over it here and send its elements"),
    ("Iterator", "an iterator cannot be sent: call next() here and send the elements"),
    ("Table", "a lookup table cannot be sent: look the keys up here and send what was found"),
    ("Queue", "a queue cannot be sent: dequeue here and send the elements"))


def _check_sendable(value, number, what):
  """Errors: INVALID_ARGUMENT for what is no tensor, UNIMPLEMENTED for what may be one day."""
  expected = "a tensor" if number is None else "a tensor of %s" % dtypes.name(number)
  for cls, text in _NO_TENSORS:
    if isinstance(value, cls):
      raise errors.invalid("%s: expected %s, got %s: %s" % (
          what, expected, type(value).__name__, text))
  if type(value).__module__.startswith("tensorflow."):
    for part, text in _STAYS_HERE:
      if any(part in cls.__name__ for cls in type(value).__mro__):
        raise errors.Error("UNIMPLEMENTED", "%s: %s" % (what, text))
  if callable(value) and not hasattr(value, "__array__"):
    raise errors.invalid("%s: expected %s, got %r, which is called here: pass its result" % (
        what, expected, value))


def _converted(value, number, what):
  """A Python value (no array) as an array of the dtype, if nothing is lost but precision."""
  want = dtypes.to_numpy(number)
  array = _rectangular(value, what)
  if array.dtype == want:
    return array
  if array.dtype.kind == "O" or array.dtype.kind in "SU":
    if any(not isinstance(x, (bytes, str)) for x in array.ravel()) and hasattr(value, "__len__"):
      # A list of arrays of a type that numpy does not know gives objects.
      try:
        return np.asarray([np.asarray(x) for x in value]).astype(want)
      except (TypeError, ValueError):
        pass
    raise errors.invalid("%s: dtype differs: expected %s, got %s" % (
        what, dtypes.name(number), "string" if array.dtype.kind in "SUO" else array.dtype.name))
  from_kind = "f" if array.dtype.kind == "V" or array.dtype.name.startswith("bfloat") else (
      array.dtype.kind)
  to_kind = _kind(number)
  if array.size and "buifc".find({"u": "i"}.get(from_kind, from_kind)) > "buifc".find(
      {"u": "i"}.get(to_kind, to_kind)):
    raise errors.invalid("%s: dtype differs: expected %s, got %s" % (
        what, dtypes.name(number), array.dtype.name))
  if from_kind == "b" and to_kind != "b":
    raise errors.invalid("%s: dtype differs: expected %s, got bool" % (what, dtypes.name(number)))
  with np.errstate(all="ignore"):
    made = array.astype(want)
  if to_kind in "iu" and not (made.astype(np.int64) == array).all():
    raise errors.invalid("%s: value is out of the range of %s" % (what, dtypes.name(number)))
  return made


def _kind(number):
  name = dtypes.name(number)
  for prefix, kind in (("bool", "b"), ("uint", "u"), ("quint", "u"), ("int", "i"), ("qint", "i"),
                       ("complex", "c")):
    if name.startswith(prefix):
      return kind
  return "f"


def to_array(value, number=None, what="value"):
  """(array, dtype number) of a value; its own dtype where `number` is None.

  Errors: INVALID_ARGUMENT where an array has another dtype, or a Python value does not fit.
  """
  if type(value) is not np.ndarray:
    if type(value).__name__ in _COMPOSITES:
      raise errors.invalid("%s: %s" % (what, _COMPOSITES[type(value).__name__]))
    if hasattr(value, "numpy") and hasattr(value, "dtype"):  # A tf.Tensor.
      number = number or dtypes.number(value.dtype)
      value = value.numpy()
      if not isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value, object)
      if value.dtype.names:  # TensorFlow's quantized types are structs of one field.
        value = value.view(dtypes.to_numpy(number))
    if isinstance(value, (str, bytes)):
      array = np.empty((), object)
      array[()] = value
      value = array
    elif isinstance(value, np.generic):
      value = np.asarray(value)
  if not isinstance(value, np.ndarray):
    _check_sendable(value, number, what)
    if number is None:
      value = _natural(value, what)
    elif number != dtypes.STRING:
      return _converted(value, number, what), number
    else:
      value = _string_array(value)
  kind = value.dtype.kind
  if kind in "SUO" and (kind != "O" or number in (None, dtypes.STRING)):
    if number not in (None, dtypes.STRING):
      raise errors.invalid("%s: dtype differs: expected %s, got string" % (
          what, dtypes.name(number)))
    return value, dtypes.STRING
  if value.dtype.byteorder == _BIG_ENDIAN:
    value = value.astype(value.dtype.newbyteorder("<"))
  found = dtypes.FROM_NUMPY.get(value.dtype)
  if number is None:
    if found is None:
      raise errors.invalid("%s: no tensor type for numpy's %s" % (what, value.dtype))
    return value, found
  if found != number and value.dtype != dtypes.NUMPY.get(number):
    raise errors.invalid("%s: dtype differs: expected %s, got %s" % (
        what, dtypes.name(number), value.dtype.name if found is None else dtypes.name(found)))
  return value, number


def _string_array(value):
  """An object array of a nested list of strings; numpy would cut trailing zero bytes."""
  shape = np.shape(np.asarray(value, dtype=object))
  array = np.asarray(value, dtype=object)
  return array.reshape(shape)


def _pack_strings(array):
  pieces = []
  for element in array.ravel().tolist():
    if isinstance(element, str):
      element = element.encode()
    elif not isinstance(element, bytes):
      raise errors.invalid("string tensor: element is neither str nor bytes: %r" % (element,))
    pieces.append(_LENGTH.pack(len(element)))
    pieces.append(element)
  return b"".join(pieces)


def content(array, number):
  """The elements as the wire has them: bytes, or a view of the array's memory."""
  if number == dtypes.STRING:
    return _pack_strings(array)
  if array.nbytes <= 4096 or not array.flags.c_contiguous:
    return array.tobytes()
  return memoryview(array.reshape(-1).view(np.uint8))


# ------------------------------------------------------------------------------------- to messages
def encoded(value, number=None, what="value"):
  """(dtype number, shape, bytes or a view of them) of a value."""
  array, number = to_array(value, number, what)
  return number, array.shape, content(array, number)


def fill_tensor(message, tensor):
  """Makes an empty formwork.v1.Tensor that of an encoded one, in its place: messages are copied
  where they are put into others."""
  message.dtype, dims, data = tensor
  message.dims.extend(dims)
  message.content = bytes(data)


def tensor_message(value, number=None, what="value"):
  """A formwork.v1.Tensor."""
  made = types_pb2.Tensor()
  fill_tensor(made, encoded(value, number, what))
  return made


@functools.lru_cache(maxsize=1024)
def _tensor_head(number, shape, length):
  """What precedes the elements of a tensor, as one entry of CallRequest.inputs."""
  dims = b"".join(varint(d) for d in shape)
  head = b"\x08" + varint(number)
  if shape:
    head += b"\x12" + varint(len(dims)) + dims
  if length:
    head += _CONTENT_TAG + varint(length)
  tensor = b"\x0a" + varint(len(head) + length) + head
  return _CONTENT_TAG + varint(len(tensor) + length) + tensor


def append_tensor(parts, array, number):
  """Appends a tensor to the pieces of a CallRequest."""
  data = content(array, number)
  parts.append(_tensor_head(number, array.shape, len(data)))
  parts.append(data)


def encoded_of(head, data):
  """The encoded tensor of two pieces that append_tensor made; None where they are not."""
  if head[:1] != _CONTENT_TAG or not data:
    return None
  start = _read_varint(head, 1)[1]
  if start >= len(head) or head[start:start + 1] != b"\x0a":
    return None
  start = _read_varint(head, start + 1)[1]
  tensor = types_pb2.Tensor.FromString(bytes(head[start:-1 - len(varint(len(data)))]))
  return tensor.dtype, tuple(tensor.dims), data


def value_piece(value):
  """Any other formwork.v1.Value, as a piece of a CallRequest."""
  data = value.SerializeToString()
  return _CONTENT_TAG + varint(len(data)) + data


@functools.lru_cache(maxsize=1024)
def duration_field(tag, seconds):
  """A google.protobuf.Duration as a field of a message; nothing for an endless one."""
  if seconds == math.inf:
    return b""
  nanos = max(1, int(seconds * 1e9))
  data = b"\x08" + varint(nanos // 10**9) + b"\x10" + varint(nanos % 10**9)
  return tag + varint(len(data)) + data


# ----------------------------------------------------------------------------------- from messages
def from_message(tensor, copy=True):
  """The numpy array of a formwork.v1.Tensor; read-only where it is not copied."""
  number = tensor.dtype
  shape = tuple(tensor.dims)
  data = tensor.content
  if number == dtypes.STRING:
    return _unpack_strings(data, shape)
  array = np.frombuffer(data, dtypes.to_numpy(number)).reshape(shape)
  return array.copy() if copy else array


def _unpack_strings(data, shape):
  array = np.empty(int(np.prod(shape, dtype=np.int64)), object)
  position = 0
  for i in range(array.size):
    (length,) = _LENGTH.unpack_from(data, position)
    position += _LENGTH.size
    array[i] = data[position:position + length]
    position += length
  return array.reshape(shape)


# Above it the elements are taken from the response where they lie, without the message's copies.
_LARGE = 1 << 16
_OUTPUTS, _TENSOR, _CONTENT, _CHUNK = 15, 1, 15, 7


class Answer:
  """The answer to a call, which may come in parts.

  Attributes:
    epoch: the server's.
    function: the ID of the ConcreteFunction that gave it.
    outputs: formwork.v1.Values or arrays.
    error: a formwork.rpc.Status, or None.
    printed: how many texts on_print was told.
    timeline: a formwork.v1.Timeline, or None.
    question: of the last part, a formwork.v1.ClientFunctionRequest, which is to be answered before
      the next one comes; or None.
  """

  __slots__ = ("epoch", "function", "outputs", "error", "printed", "timeline", "question",
               "on_print", "_whole")

  def __init__(self, on_print):
    self.error = self.question = None
    self.printed = 0
    self.on_print = on_print
    self._whole = None  # {output: _Growing} of those that came in chunks.

  def begin_again(self):
    """The parts that came are void: the call is sent again."""
    self._whole = self.error = None

  def take(self, data):
    """Takes a serialized CallResponse. Returns whether it was the last part."""
    if len(data) < _LARGE:
      message = calls_pb2.CallResponse.FromString(data)
      outputs = message.outputs
    else:
      message, outputs = self._split(memoryview(data))
    self.epoch = message.epoch
    for text in message.printed:
      self.printed += 1
      self.on_print(text)
    if message.HasField("chunk"):
      self._grow(message.chunk, message.chunk.content)
    self.question = message.client_function if message.HasField("client_function") else None
    if message.more:
      return False
    self.function = message.function_id
    self.outputs = outputs if self._whole is None else [
        self._whole[i].array() if i in self._whole else v for i, v in enumerate(outputs)]
    if message.HasField("error"):
      self.error = message.error
    self.timeline = message.timeline if message.HasField("timeline") else None
    return True

  def _split(self, view):
    """(the CallResponse without its large values, its outputs)."""
    small, outputs = bytearray(), []
    for field, start, body, end in _fields(view):
      if field == _OUTPUTS:
        outputs.append(_large_value(view[body:end]))
      elif field == _CHUNK:
        head, content_view = _without_content(view[body:end])
        self._grow(calls_pb2.OutputChunk.FromString(head), content_view)
      else:
        small += view[start:end]
    return calls_pb2.CallResponse.FromString(bytes(small)), outputs

  def _grow(self, chunk, data):
    self._whole = {} if self._whole is None else self._whole
    if chunk.output not in self._whole:
      self._whole[chunk.output] = Growing(chunk.dtype, tuple(chunk.dims), chunk.total_bytes)
    self._whole[chunk.output].add(chunk.offset, data)


class Growing:
  """A tensor whose content comes in chunks."""

  def __init__(self, number, shape, nbytes):
    self._number, self._shape = number, shape
    self._content = np.empty(nbytes, np.uint8)

  def add(self, offset, data):
    self._content[offset:offset + len(data)] = np.frombuffer(data, np.uint8)

  def array(self):
    if self._number == dtypes.STRING:
      return _unpack_strings(self._content.tobytes(), self._shape)
    return self._content.view(dtypes.to_numpy(self._number)).reshape(self._shape)


def _without_content(view):
  """(the bytes of a message without its field 15, what that holds)."""
  head, content_view = bytearray(), b""
  for field, start, body, end in _fields(view):
    if field == _CONTENT:
      content_view = view[body:end]
    else:
      head += view[start:end]
  return bytes(head), content_view


def _large_value(view):
  """A Value, or the read-only array of it where it is a tensor of numbers."""
  for field, _, body, end in _fields(view):
    if field == _TENSOR:
      tensor = view[body:end]
      head, content_view = _without_content(tensor)
      message = types_pb2.Tensor.FromString(head)
      if message.dtype != dtypes.STRING and len(head) < len(tensor):
        array = np.frombuffer(content_view, dtypes.to_numpy(message.dtype))
        return array.reshape(tuple(message.dims))
  return types_pb2.Value.FromString(bytes(view))


def _fields(view):
  """(field number, start, start of the contents, end) of each field of a serialized message."""
  position, size = 0, len(view)
  while position < size:
    start = position
    key, position = _read_varint(view, position)
    if key & 7 == 2:
      length, position = _read_varint(view, position)
      end = position + length
    elif key & 7 == 0:
      end = _read_varint(view, position)[1]
    else:
      end = position + (8 if key & 7 == 1 else 4)
    yield key >> 3, start, position, end
    position = end


def _read_varint(view, position):
  value, shift = 0, 0
  while True:
    byte = view[position]
    position += 1
    value |= (byte & 0x7f) << shift
    if byte < 0x80:
      return value, position
    shift += 7
