"""More programs for test_function.py: a function for each of TensorFlow's fused optimizers."""
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from programs import PROGRAMS
from programs import program

_ROWS = [[1., 2., .5], [.25, 1.5, 3.], [.75, .1, 2.], [1.25, .6, .3]]
_SCALARS = {"alpha": .1, "beta1": .9, "beta1_power": .9, "beta2": .99, "beta2_power": .99,
            "epsilon": 1e-3, "l1": .01, "l2": .02, "l2_shrinkage": .03, "lr": .1, "lr_power": -.5,
            "momentum": .8, "rho": .7}
_DENSE = ["Adam", "AdaMax", "Adadelta", "Adagrad", "AdagradDA", "AdagradV2", "CenteredRMSProp", "Ftrl",
          "GradientDescent", "KerasMomentum", "Momentum", "ProximalAdagrad",
          "ProximalGradientDescent", "RMSProp"]
_SPARSE = ["Adadelta", "Adagrad", "AdagradV2", "CenteredRMSProp", "Ftrl", "KerasMomentum", "Momentum",
           "ProximalAdagrad", "ProximalGradientDescent", "RMSProp"]


def _steps(op, dtype, **attrs):
  """A program: two steps of `op`, each of whose variables is read after each."""
  def run(function):
    args = op_def_registry.get(op).input_arg
    variables = {arg.name: tf.Variable(tf.constant(_ROWS, dtype) + i)
                 for i, arg in enumerate(args) if arg.type == tf.resource.as_datatype_enum}

    @function
    def step(gradient, rows):
      given = {name: v.handle for name, v in variables.items()}
      for arg in args:
        if arg.name in ("grad", "delta"):
          given[arg.name] = gradient
        elif arg.name == "indices":
          given[arg.name] = rows
        elif arg.name == "global_step":
          given[arg.name] = tf.constant(3, tf.int64)
        elif arg.name not in given:
          given[arg.name] = tf.constant(_SCALARS[arg.name], dtype)
      getattr(tf.raw_ops, op)(**given, **attrs)
      return [v.read_value() for v in variables.values()]

    gradient = tf.constant(_ROWS, dtype) - 1
    rows = tf.constant([2, 0])
    if "Sparse" in op:
      gradient = tf.gather(gradient, [1, 3])
    return step(gradient, rows), step(-gradient, rows), variables

  return run


for _op in ["ResourceApply" + _rule for _rule in _DENSE] + ["ResourceSparseApply" + _rule for _rule in _SPARSE]:
  for _dtype in (tf.float32, tf.float64):
    PROGRAMS["%s_of_%s" % (_op, _dtype.name)] = _steps(_op, _dtype)
  if _op.endswith("Momentum"):
    PROGRAMS[_op + "_nesterov"] = _steps(_op, tf.float64, use_nesterov=True)


@program
def a_step_of_loss_scaling(function):
  w, moment = tf.Variable([[1., -2.], [.5, 3.]]), tf.Variable(tf.zeros([2, 2]))
  scale, good = tf.Variable(1024.), tf.Variable(0)

  @function
  def step(x):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(tf.cast(w * x, tf.float16)) * tf.cast(scale, tf.float16)
    gradient = tf.cast(tape.gradient(loss, w), tf.float32) / scale
    finite = tf.reduce_all(tf.math.is_finite(gradient))
    if finite:
      moment.assign(.9 * moment + gradient)
      w.assign_sub(.1 * moment)
      if good >= 2:
        scale.assign(scale * 2)
        good.assign(0)
      else:
        good.assign_add(1)
    else:
      scale.assign(scale / 2)
      good.assign(0)
    return finite

  x = tf.constant([[1., 2.], [-3., .5]])
  out = [step(x * factor) for factor in (1., 2., 1e6, 1., 1., 1., float("inf"), -1.)]
  return out, w, moment, scale, good


@program
def an_assignment_in_one_branch(function):
  best, at, n = tf.Variable(-1.), tf.Variable([0., 0.]), tf.Variable(0, dtype=tf.int64)

  @function
  def keep(x):
    value = tf.reduce_sum(x)

    def better():
      best.assign(value)
      at.assign(x)
      return value - 1

    n.assign_add(1)
    return tf.cond(value > best, better, lambda: best * 2), best.read_value(), at.read_value()

  out = [keep(tf.constant([v, 1.])) for v in (1., -4., 3., float("nan"), 2.5, 7.)]
  return out, best, at, n
