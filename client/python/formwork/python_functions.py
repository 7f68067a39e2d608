"""Python functions that a graph calls: tf.py_function and tf.numpy_function.

A graph has a token of each, which stands for the function in the process that traced it. Calls of
the graph ask their client to run it, and go on with what it returns. No code goes to the server.
"""
import contextlib
import traceback
import uuid

import grpc
import numpy as np

from formwork import errors
from formwork import wire
from formwork.v1 import calls_pb2

OPS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
_PROCESS = "@" + uuid.uuid4().hex


class _NoValue(Exception):
  """What a function returned is no tensor's value."""


# What TensorFlow makes of exceptions; of others UNKNOWN.
_CODES = ((StopIteration, "OUT_OF_RANGE"), (MemoryError, "RESOURCE_EXHAUSTED"),
          (NotImplementedError, "UNIMPLEMENTED"), (_NoValue, "INTERNAL"),
          ((ValueError, TypeError), "INVALID_ARGUMENT"))


def are_in(graph_def):
  """Whether a serialized GraphDef may call Python functions."""
  return b"PyFunc" in graph_def


def name_process(node):
  """Has a node's token say in which process it means something: every process has a pyfunc_0."""
  token = node.attr["token"]
  if not token.s.endswith(_PROCESS.encode()):
    token.s += _PROCESS.encode()


def answer(question):
  """Runs the function that a formwork.v1.ClientFunctionRequest asks for.

  Returns the serialized CallRequest that answers it: with the results or, where the function raised
  an exception, with that.
  """
  reply = calls_pb2.CallRequest()
  response = reply.client_function
  response.id = question.id
  try:
    for value in _run(question):
      wire.fill_tensor(response.outputs.add().tensor, _encoded(value))
  except Exception as e:  # pylint: disable=broad-except
    del response.outputs[:]
    code = next((code for kinds, code in _CODES if isinstance(e, kinds)), "UNKNOWN")
    response.error.code = grpc.StatusCode[code].value[0]
    response.error.message = "%s: %s\n%s" % (
        type(e).__name__, e, "".join(traceback.format_exception(type(e), e, e.__traceback__)))
  return reply.SerializeToString()


def _encoded(value):
  try:
    return wire.encoded(value)
  except errors.Error as e:
    if isinstance(value, np.ndarray) and value.dtype == object and value.size:
      raise _NoValue("Unsupported object type %s: %s" % (
          type(value.flat[0]).__name__, e)) from None
    raise _NoValue("Unsupported numpy data type: %s" % e) from None


@contextlib.contextmanager
def _recording():
  """Tapes record, also where the call that asks is not recorded itself: its gradient needs them."""
  from tensorflow.python import pywrap_tfe
  stopped = pywrap_tfe.TFE_Py_TapeSetIsStopped()
  if stopped:
    pywrap_tfe.TFE_Py_TapeSetRestartOnThread()
  try:
    yield
  finally:
    if stopped:
      pywrap_tfe.TFE_Py_TapeSetStopOnThread()


def _run(question):
  """The function's results: tensors or arrays."""
  # Who has a token of this process has TensorFlow loaded.
  from tensorflow.python.framework import dtypes as tf_dtypes
  from tensorflow.python.ops import script_ops
  token, _, process = question.token.partition("@")
  function = script_ops._py_funcs.get(token) if "@" + process == _PROCESS else None
  if function is None:
    raise NotImplementedError(
        "the Python function '%s' is not in this process: it is there in the one that traced the "
        "graph, as long as that has the function" % token)
  if isinstance(function, script_ops.EagerFunc):
    from formwork import eager
    args = [eager.from_value(value, tf_dtypes.as_dtype(value.tensor.dtype))
            for value in question.inputs]
  else:
    args = [wire.from_message(value.tensor) for value in question.inputs]
  with _recording():
    results = script_ops._py_funcs(token, None, args)
  if results is None or _is_none(results):
    return ()
  return results if isinstance(results, (list, tuple)) else (results,)


def _is_none(results):
  """Whether they are the array that TensorFlow makes of None."""
  return isinstance(results, np.ndarray) and results.dtype == object and results.shape == () and (
      results.item() is None)
