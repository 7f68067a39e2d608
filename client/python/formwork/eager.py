"""EagerTensors to and from the wire."""
import numpy as np
from tensorflow.python.eager import context
from tensorflow.python.framework import ops
from tensorflow.python.ops import array_ops

from formwork import dtypes
from formwork import errors
from formwork import wire


def append(parts, t):
  """Appends an EagerTensor to the pieces of a request."""
  number = t.dtype.as_datatype_enum
  if number == dtypes.VARIANT:
    raise errors.Error("UNIMPLEMENTED", "an argument is a variant (an Optional or a list of "
                       "tensors), which cannot be sent: pass its elements")
  value = t.numpy()
  if not isinstance(value, np.ndarray):
    if number == dtypes.STRING:
      array = np.empty((), object)
      array[()] = value
      value = array
    else:
      value = np.asarray(value)
  if value.dtype.names:  # Quantized types are structs of one field here.
    value = value.view(dtypes.to_numpy(number))
  wire.append_tensor(parts, value, number)


def from_value(value, dtype):
  """The EagerTensor of one output of a response: an array, or a formwork.v1.Value with a tensor."""
  array = value if isinstance(value, np.ndarray) else wire.from_message(value.tensor, copy=False)
  ctx = context.context()
  ctx.ensure_initialized()
  if dtype.is_quantized:
    return array_ops.bitcast(ops.EagerTensor(array, ctx.device_name, None), dtype)
  return ops.EagerTensor(array, ctx.device_name, dtype.as_datatype_enum)
