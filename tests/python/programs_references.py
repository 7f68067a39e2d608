"""More programs for test_function.py: reference variables, as older graphs have them."""
import itertools

import numpy as np
import tensorflow as tf

from programs import caught
from programs import program

raw = tf.raw_ops
_NAMES = itertools.count()


def _variable(name, value):
  """A variable and the op that gives it `value`."""
  value = tf.convert_to_tensor(value)
  made = raw.VariableV2(shape=value.shape, dtype=value.dtype, shared_name=name)
  return made, raw.Assign(ref=made, value=value)


def _after(ops, reference):
  """A value of its own: TensorFlow's identity shares the variable's memory with later changes."""
  with tf.control_dependencies(ops):
    return tf.negative(reference)


@program
def references_are_assigned_and_read(function):

  @function
  def f(x):
    v, start = _variable("assigned_and_read", x)
    before = _after([], start)
    with tf.control_dependencies([before]):
      added = raw.AssignAdd(ref=start, value=[10., 20.])
    seen = _after([added], v)
    with tf.control_dependencies([seen]):
      less = raw.AssignSub(ref=v, value=before)
    with tf.control_dependencies([less]):
      initialized = raw.IsVariableInitialized(ref=v)
    return before, seen, _after([less], v), initialized

  @function
  def again():
    v = raw.VariableV2(shape=[2], dtype=tf.float32, shared_name="assigned_and_read")
    return _after([], v)

  return f(tf.constant([1., 2.])), again(), f(tf.constant([5., 5.])), again()


@program
def references_count_and_are_temporary(function):

  @function
  def count(limit_now):
    v, start = _variable("counted", limit_now)
    first = raw.CountUpTo(ref=start, limit=3)
    with tf.control_dependencies([first]):
      second = raw.CountUpTo(ref=v, limit=3)
    return first, second, _after([second], v)

  @function
  def temporary(x):
    v = raw.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="t")
    v = raw.Assign(ref=v, value=x)
    v = raw.AssignAdd(ref=v, value=x)
    return raw.DestroyTemporaryVariable(ref=v, var_name="t")

  return (count(tf.constant(0)), count(tf.constant(1)), caught(count, tf.constant(2)),
          temporary(tf.constant([1., 2.])), temporary(tf.constant([3., 4.])))


@program
def references_take_other_shapes_where_they_are_told_to(function):

  @function
  def f(x, value):
    v, start = _variable("reshaped", x)
    with tf.control_dependencies([_after([start], v)]):
      other = raw.Assign(ref=v, value=value, validate_shape=False)
    return _after([other], v)

  @function
  def strict(x, value):
    v, start = _variable("strict", x)
    return _after([], raw.Assign(ref=start, value=value))

  x = tf.constant([1., 2.])
  return (f(x, tf.constant([[3.]])), strict(x, tf.constant([7., 8.])),
          caught(strict, x, tf.constant([1., 2., 3.])))


@program
def references_take_rows(function):
  indices, rows = tf.constant([2, 0]), tf.constant([[1., 2.], [3., 4.]])

  def scattered(op, *arguments):

    @function
    def f(x):
      _, start = _variable("rows_%d" % next(_NAMES), x)
      return _after([], op(start, *arguments))

    return f(tf.reshape(tf.range(1., 7.), [3, 2]))

  made = []
  for name in ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max"):
    op = getattr(raw, "Scatter" + name)
    made.append(scattered(lambda v, i, u, op=op: op(ref=v, indices=i, updates=u), indices, rows))
    made.append(scattered(lambda v, i, u, op=op: op(ref=v, indices=i, updates=u), indices, 2.))
  for name in ("Update", "Add", "Sub", "Min", "Max"):
    op = getattr(raw, "ScatterNd" + name)
    made.append(scattered(lambda v, i, u, op=op: op(ref=v, indices=i, updates=u),
                          indices[:, tf.newaxis], rows))
  made.append(scattered(
      lambda v, s: raw.StridedSliceAssign(ref=v, begin=[0, 1], end=[3, 2], strides=[2, 1], value=s),
      [[10.], [20.]]))
  made.append(caught(lambda: scattered(
      lambda v, i, u: raw.ScatterAdd(ref=v, indices=i, updates=u), [3, 0], rows)))
  return made


def _steps(op, variables, **inputs):
  """What an optimizer's op makes of `variables` in two steps."""
  scope = "%s_%d" % (op, next(_NAMES))

  def build(function):

    @function
    def f(grad):
      made = {n: _variable("%s_%s" % (scope, n), x) for n, x in variables.items()}
      references = {n: start for n, (_, start) in made.items()}
      takes = {"delta" if op.endswith("GradientDescent") and op.startswith("Apply") else "grad": grad}
      first = getattr(raw, op)(**references, **takes, **inputs)
      with tf.control_dependencies([_after([], first)]):
        second = getattr(raw, op)(**{n: v for n, (v, _) in made.items()}, **takes, **inputs)
      return [_after([second], v) for v, _ in made.values()]

    return f

  return build


@program
def references_are_trained(function):
  x, m = np.array([1., 2., 3.], np.float32), np.array([.5, .25, .125], np.float32)
  grad = tf.constant([.1, -.2, .3])
  two, three = dict(var=x, accum=m), dict(var=x, accum=m, linear=m)
  rule = dict(lr=.1, l1=.01, l2=.02)
  adam = dict(beta1_power=.9, lr=.1, beta1=.9, beta2=.99, epsilon=1e-3)
  rms = dict(lr=.1, rho=.9, momentum=.8, epsilon=1e-3)
  steps = [
      _steps("ApplyGradientDescent", dict(var=x), alpha=.1),
      _steps("ApplyMomentum", two, lr=.1, momentum=.9),
      _steps("ApplyMomentum", two, lr=.1, momentum=.9, use_nesterov=True),
      _steps("ApplyAdagrad", two, lr=.1),
      _steps("ApplyAdagradV2", two, lr=.1, epsilon=.01),
      _steps("ApplyAdadelta", dict(var=x, accum=m, accum_update=m), lr=.1, rho=.9, epsilon=1e-3),
      _steps("ApplyAdam", dict(var=x, m=m, v=m), beta2_power=.99, **adam),
      _steps("ApplyAdaMax", dict(var=x, m=m, v=m), **adam),
      _steps("ApplyFtrl", three, lr_power=-.5, **rule),
      _steps("ApplyRMSProp", dict(var=x, ms=m, mom=m), **rms),
      _steps("ApplyCenteredRMSProp", dict(var=x, mg=m / 8, ms=m, mom=m), **rms),
      _steps("ApplyProximalGradientDescent", dict(var=x), alpha=.1, l1=.01, l2=.02),
      _steps("ApplyProximalAdagrad", two, **rule),
      _steps("ApplyAdagradDA", dict(var=x, gradient_accumulator=m, gradient_squared_accumulator=m),
             global_step=tf.constant(3, tf.int64), **rule),
  ]
  rows = tf.constant([2, 0])
  sparse = [
      _steps("SparseApplyMomentum", two, lr=.1, momentum=.9, indices=rows),
      _steps("SparseApplyAdagrad", two, lr=.1, indices=rows),
      _steps("SparseApplyAdagradV2", two, lr=.1, epsilon=.01, indices=rows),
      _steps("SparseApplyAdadelta", dict(var=x, accum=m, accum_update=m), lr=.1, rho=.9,
             epsilon=1e-3, indices=rows),
      _steps("SparseApplyFtrl", three, lr_power=-.5, indices=rows, **rule),
      _steps("SparseApplyRMSProp", dict(var=x, ms=m, mom=m), indices=rows, **rms),
      _steps("SparseApplyCenteredRMSProp", dict(var=x, mg=m / 8, ms=m, mom=m), indices=rows, **rms),
      _steps("SparseApplyProximalGradientDescent", dict(var=x), alpha=.1, l1=.01, l2=.02,
             indices=rows),
      _steps("SparseApplyProximalAdagrad", two, indices=rows, **rule),
  ]
  return ([step(function)(grad) for step in steps],
          [step(function)(grad[:2]) for step in sparse],
          caught(_steps("ApplyMomentum", two, lr=.1, momentum=[.9])(function), grad))


@program
def a_reference_without_a_value_is_told_of(function):

  @function
  def f():
    v = raw.VariableV2(shape=[2], dtype=tf.float32, shared_name="never_assigned")
    return _after([], v)

  @function
  def initialized():
    v = raw.VariableV2(shape=[2], dtype=tf.float32, shared_name="never_assigned")
    return raw.IsVariableInitialized(ref=v)

  return initialized(), caught(f)
