"""What this package changes in the classes of TensorFlow and Keras: all of it.

Each change says what it is for, what it relies on, and where that was found:
TensorFlow 2.21 and Keras 3.15. tests/python/test_patches.py fails where a version no longer has it.
"""
import functools
import sys

import tensorflow as tf
from tensorflow.python.data.ops import iterator_ops
from tensorflow.python.data.ops import structured_function
from tensorflow.python.eager import backprop
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.framework import auto_control_deps_utils
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.framework import ops
from tensorflow.python.ops import gen_summary_ops
from tensorflow.python.ops import lookup_ops

from formwork import datasets
from formwork import mirror
from formwork import summaries
from formwork import tables

_KERAS = "keras.src.backend.tensorflow.core"
_OPTIMIZERS = "keras.src.optimizers.base_optimizer"
_installed = set()


def install():
  """Makes the changes that were not made yet; Keras's once it is imported."""
  if not _installed:
    _installed.add("tensorflow")
    _follow_local_calls()
    _follow_datasets()
    _follow_generators()
    _follow_iterators()
    _take_gradients_unread()
    _know_table_reads()
    _know_tables_of_functions()
    _write_summaries_here()
  if "keras" not in _installed and _KERAS in sys.modules:
    _installed.add("keras")
    _follow_keras_paths(sys.modules[_KERAS].Variable)
  if "optimizers" not in _installed and _OPTIMIZERS in sys.modules:
    _installed.add("optimizers")
    _apply_together(sys.modules[_OPTIMIZERS].BaseOptimizer)


def _wraps(cls, name):
  """Replaces a method: the decorated function gets the old one first."""
  old = getattr(cls, name)

  def replace(new):
    @functools.wraps(old)
    def method(self, *args, **kwargs):
      return new(old, self, *args, **kwargs)
    setattr(cls, name, method)
  return replace


def _follow_local_calls():
  """A tf.function that runs in this process sees the server's values, and its changes are noted.

  All of TensorFlow's ways to call a traced function go through ConcreteFunction._call_flat with the
  flat arguments and the captures.
  """
  @_wraps(concrete_function.ConcreteFunction, "_call_flat")
  def _call_flat(old, self, tensor_inputs, captured_inputs):
    if not context.executing_eagerly():
      return old(self, tensor_inputs, captured_inputs)
    return mirror.call_here(self, tensor_inputs, captured_inputs,
                            lambda: old(self, tensor_inputs, captured_inputs))


def _follow_datasets():
  """Tells which variables tf.data's functions use; these run in TensorFlow's C++.

  Each function given to tf.data is traced in StructuredFunctionWrapper.__init__ and is its
  `_function` then.
  """
  @_wraps(structured_function.StructuredFunctionWrapper, "__init__")
  def __init__(old, self, *args, **kwargs):
    old(self, *args, **kwargs)
    for t in getattr(self._function, "captured_inputs", ()):
      if t.dtype == tf_dtypes.resource and context.executing_eagerly():
        mirror.used_in_dataset(t)


def _follow_generators():
  """A tf.random.Generator changes its state by the handle alone, in _skip_single_var."""
  @_wraps(tf.random.Generator, "_skip_single_var")
  def _skip_single_var(old, self, var, delta):
    result = old(self, var, delta)
    if isinstance(var, mirror.Mirror):
      var._formwork_written()
    return result


def _follow_iterators():
  """What is taken of an iterator eagerly is the server's, where a function there uses it.

  Eagerly these two methods take elements; tf.functions do by the handle (mirror.call_here).
  """
  def follow(name, taken):
    @_wraps(iterator_ops.OwnedIterator, name)
    def take(old, self):
      return taken(self, lambda: old(self)) if context.executing_eagerly() else old(self)
  follow("_next_internal", datasets.taken)
  follow("get_next_as_optional", datasets.taken_as_optional)


def _take_gradients_unread():
  """GradientTape.gradient asks for the handles of variables alone: nothing is fetched for it.

  It does so in backprop._handle_or_self.
  """
  old = backprop._handle_or_self

  @functools.wraps(old)
  def _handle_or_self(x):
    with mirror.unread():
      return old(x)
  backprop._handle_or_self = _handle_or_self


def _know_table_reads():
  """Tells TensorFlow which ops leave a table as it is, so that what a function changes is known.

  It asks auto_control_deps_utils.RESOURCE_READ_OPS, which has no ops of tables.
  """
  for op in ("LookupTableExportV2", "LookupTableFindV2", "LookupTableSizeV2"):
    auto_control_deps_utils.register_read_only_resource_op(op)


def _know_tables_of_functions():
  """Notes what a static table is that a function makes while it is traced: the handle outlives it.

  StaticHashTable makes and fills it in an init_scope, eagerly; the function captures its handle.
  """
  @_wraps(lookup_ops.StaticHashTable, "__init__")
  def __init__(old, self, *args, **kwargs):
    old(self, *args, **kwargs)
    if tf.inside_function() and isinstance(self.resource_handle, ops.EagerTensor):
      with ops.init_scope():
        tables.local(self.resource_handle, self)


def _write_summaries_here():
  """What a function writes to an event file while it runs on a server is written by this process.

  tf.summary makes its ops by the functions of gen_summary_ops.
  """
  for name in summaries.OPS:
    setattr(gen_summary_ops, name, summaries.written_here(getattr(gen_summary_ops, name)))


def _apply_together(cls):
  """What an optimizer writes outside of functions is passed on in one request, not one a variable.

  `apply` of every optimizer of Keras comes to BaseOptimizer.apply.
  """
  @_wraps(cls, "apply")
  def apply(old, self, *args, **kwargs):
    with mirror.together():
      return old(self, *args, **kwargs)


def _follow_keras_paths(cls):
  """Notes the path of a Keras variable at the tf.Variable that it holds, as `_formwork_path`.

  A Keras variable knows its tf.Variable, `_value`, but not the other way round. Whatever uses one
  while a function is traced reads `_value`.
  """
  def get(self):
    try:
      value = self.__dict__["_value"]
    except KeyError:
      raise AttributeError("_value") from None
    if isinstance(value, tf.Variable) and "_formwork_path" not in value.__dict__:
      value.__dict__["_formwork_path"] = self.path
    return value

  def set_value(self, value):
    self.__dict__["_value"] = value

  cls._value = property(get, set_value)
