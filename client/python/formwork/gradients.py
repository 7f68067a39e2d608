"""Calls under a tf.GradientTape of this process: both directions run on the server."""
import tensorflow as tf
from tensorflow.python.eager import backprop_util
from tensorflow.python.eager import record
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.framework import ops
from tensorflow.python.util import nest

from formwork import errors
from formwork import mirror
from formwork import remote


def call(fn, args, tape, make_remote):
  """Runs a RemoteConcreteFunction so that the tape can ask for its gradient.

  TensorFlow makes a forward graph that also gives what the backward graph needs; both run on the
  server. Where that includes lists (loops), which cannot leave it, the gradient's graph computes
  the forward pass again.

  Args:
    args: the flat arguments and then the captures.
    tape: TensorFlow's kind of tapes that watch.
    make_remote: turns one of TensorFlow's ConcreteFunctions into one that runs on the server.
  """
  functions = fn._select_forward_and_backward_functions(args, tape, True)
  forward, forward_args = functions.forward()
  if any(t.dtype == tf_dtypes.variant for t in forward.graph.outputs[fn._results:]):
    return _call_recomputed(fn, args)
  make_remote(functions._functions._backward, fn._owner, backward=True)
  made = fn._gradients.get(forward)
  if made is None:
    fixed = fn._fixed if len(forward_args) == len(args) else 0
    made = fn._gradients[forward] = remote.Remote(
        fn._owner, forward.graph, len(forward_args) - fixed, fixed, suffix=".forward")
  outputs = made.run(forward_args, fn._variables)
  functions.record(outputs)
  return fn.function_type.pack_output(outputs[:fn._results])


def _call_recomputed(fn, args):
  """A call whose gradient, when asked for, runs the forward pass once more.

  Errors: UNIMPLEMENTED where that would not do the same.
  """
  fn._register_early()
  if not fn._remote.repeatable():
    raise errors.Error(
        "UNIMPLEMENTED", "%s: the gradient, outside of the function, of a loop or condition in a "
        "function that changes variables or draws random numbers: take the gradient inside it" %
        fn._owner.wanted)
  outputs = fn._run(args)
  trainable = [i for i, t in enumerate(outputs) if backprop_util.IsTrainable(t)]
  given = len(args) - len(fn._captured_inputs)
  if fn._recomputed is None:
    fn._recomputed = _recomputing(fn, trainable, given, args)

  def backward(*dys):
    dys = [tf.zeros_like(outputs[i]) if dy is None else ops.convert_to_tensor(dy)
           for i, dy in zip(trainable, dys)]
    return fn._recomputed(list(args[:given]), dys)

  record.record_operation(fn._owner.wanted, [outputs[i] for i in trainable], args, backward)
  return fn.function_type.pack_output(outputs)


def _recomputing(fn, trainable, given, args):
  """server.function of (flat arguments, gradients of the outputs): a gradient for each of args."""
  variables = {id(mirror.raw_handle(v)): v for v in fn._func_graph.variables}

  def gradient(inputs, dys):
    watched = list(inputs) + [variables.get(id(a), a) for a in args[given:]]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      for t in watched:
        if t.dtype.is_floating or t.dtype.is_complex:
          tape.watch(t)
      result = fn._call_flat(list(inputs), list(args[given:]))
    flat = [t for t in nest.flatten(result, expand_composites=True) if isinstance(t, tf.Tensor)]
    return tape.gradient([flat[i] for i in trainable], watched, output_gradients=dys)

  from formwork import function as function_lib  # The two modules need each other.
  owner = fn._owner
  made = function_lib.make(owner.bindings.server, gradient, owner.scope,
                           name=owner.wanted + ".gradient", autograph=False)
  made._owner.silent = True
  return made
