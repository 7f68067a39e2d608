"""More programs for test_function.py: tf.linalg, and its gradients."""
import tensorflow as tf

from programs import caught
from programs import program


def _random(shape, dtype=tf.float64, seed=1):
  x = tf.random.stateless_uniform(shape, [seed, 2], -1., 1., tf.float64)
  if dtype.is_complex:
    x = tf.complex(x, tf.random.stateless_uniform(shape, [seed, 3], -1., 1., tf.float64))
  return tf.cast(x, dtype)


def _dominant(shape, dtype=tf.float64, seed=1):
  n = shape[-1]
  return _random(shape, dtype, seed) + 2 * tf.eye(n, dtype=dtype) * tf.cast(n, dtype) ** 0.5


def _positive(shape, dtype=tf.float64, seed=1):
  a = _random(shape, dtype, seed)
  return tf.matmul(a, a, adjoint_b=True) + tf.eye(shape[-1], dtype=dtype)


def _with_gradient(function, f, *inputs):
  """What f gives, and the gradient of its elements' squares."""
  @function
  def both(*inputs):
    with tf.GradientTape() as tape:
      tape.watch(inputs)
      y = f(*inputs)
      loss = tf.reduce_sum(tf.math.real(y * tf.math.conj(y)))
    return y, tape.gradient(loss, inputs)
  return both(*inputs)


@program
def factored_matrices(function):
  results = []
  for dtype in (tf.float64, tf.complex128):
    for shape in ([2, 3, 3], [90, 90]):
      a, p, b = _dominant(shape, dtype), _positive(shape, dtype), _random(shape, dtype, 4)
      results += [
          _with_gradient(function, tf.linalg.cholesky, p),
          _with_gradient(function, tf.linalg.inv, a),
          _with_gradient(function, lambda a: tf.linalg.inv(a, adjoint=True), a),
          _with_gradient(function, tf.linalg.solve, a, b),
          _with_gradient(function, lambda a, b: tf.linalg.solve(a, b, adjoint=True), a, b),
          _with_gradient(function, tf.linalg.cholesky_solve, tf.linalg.cholesky(p), b),
          _with_gradient(function, lambda a: tf.linalg.slogdet(a)[1], a),
          function(tf.linalg.lu)(a),
          function(lambda a: tf.linalg.lu_reconstruct(*tf.linalg.lu(a)))(a)]
      for lower in (False, True):
        results.append(_with_gradient(
            function, lambda a, b: tf.linalg.triangular_solve(a, b, lower=lower), a, b))
  results.append(_with_gradient(function, tf.linalg.det, _dominant([2, 4, 4])))
  return results


@program
def large_matrices(function):
  results = []
  for dtype in (tf.float64, tf.complex128):
    p, b = _positive([300, 300], dtype), _random([300, 200], dtype, 4)
    l = function(tf.linalg.cholesky)(p)
    results += [l, function(tf.linalg.solve)(p, b), function(tf.linalg.inv)(p),
                function(tf.linalg.logdet)(p)]
    for adjoint in (False, True):
      results.append(function(lambda l, b: tf.linalg.triangular_solve(l, b, adjoint=adjoint))(l, b))
  return results


@program
def singular_matrices(function):
  zeros = tf.zeros([2, 2])
  return (caught(function(tf.linalg.inv), zeros), caught(function(tf.linalg.solve), zeros, zeros),
          caught(function(tf.linalg.lu), zeros), function(tf.linalg.det)(zeros),
          caught(function(tf.linalg.inv), tf.zeros([2, 3])))
