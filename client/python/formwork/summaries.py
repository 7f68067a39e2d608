"""Summaries: what a function there writes is written here.

An event file is in the folder of the process that has made its writer. So where a function is
traced for a server, an op that writes one is a Python function (python_functions.py), which runs
that op.
"""
import functools

from tensorflow.python.eager import context
from tensorflow.python.eager import record
from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import script_ops

# Of gen_summary_ops: those that tf.summary makes in functions.
OPS = ("write_summary", "write_raw_proto_summary", "flush_summary_writer")


def written_here(op):
  """What to have in the place of one of these ops."""
  @functools.wraps(op)
  def write(writer, *args, name=None):
    from formwork import traces  # It imports this module, by patches.
    if context.executing_eagerly() or traces.call_of_thread() is None:
      return op(writer, *args, name=name)
    # Variables, too: they are read at this place in the graph.
    tensors = {i: ops.convert_to_tensor(x) for i, x in enumerate(args) if tensor_util.is_tf_type(x)}

    def write_now(*values):
      now = dict(zip(tensors, values))
      with record.stop_recording():
        op(writer, *(now.get(i, x) for i, x in enumerate(args)))

    return script_ops.eager_py_func(write_now, list(tensors.values()), [])
  return write
