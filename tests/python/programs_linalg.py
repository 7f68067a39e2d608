"""More programs for test_function.py: tf.linalg, tf.signal, and their gradients."""
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


@program
def decomposed_matrices(function):
  """What signs and phases cancel out of."""
  @function
  def joined(a):
    s, u, v = tf.linalg.svd(a, full_matrices=True)
    thin_s, thin_u, thin_v = tf.linalg.svd(a)
    product = tf.matmul(thin_u * tf.cast(thin_s, a.dtype)[..., None, :], thin_v, adjoint_b=True)
    q, r = tf.linalg.qr(a)
    whole, _ = tf.linalg.qr(a, full_matrices=True)
    unit = [tf.matmul(x, x, adjoint_b=True) for x in (u, v, whole)]
    return s, thin_s, product, tf.matmul(q, r), unit, tf.linalg.svd(a, compute_uv=False)

  @function
  def eigen(a):
    half = a + tf.linalg.adjoint(a)
    e, v = tf.linalg.eigh(half)
    general, _ = tf.linalg.eig(half)
    joined = tf.matmul(v * tf.cast(e, v.dtype)[..., None, :], v, adjoint_b=True)
    return (e, joined, tf.linalg.eigvalsh(half), tf.sort(tf.math.real(general)),
            tf.sort(tf.math.real(tf.linalg.eigvals(half))), tf.matmul(v, v, adjoint_a=True))

  results = []
  for dtype in (tf.float64, tf.complex128):
    for shape in ([2, 3, 3], [5, 3], [3, 5], [20, 20], [100, 30], [30, 100], [150, 150]):
      results.append(joined(_random(shape, dtype)))
    for shape in ([2, 3, 3], [20, 20], [120, 120]):
      results.append(eigen(_random(shape, dtype)))
  # Of a low rank, of huge and of tiny elements.
  low = tf.matmul(_random([60, 4]), _random([4, 40], seed=5))
  for scale in (1., 1e200, 1e-200):
    results += [x / scale for x in joined(low * scale)[1:4]]
  results.append(joined(tf.zeros([20, 20]))[1:4])
  return results


@program
def decompositions_with_gradients(function):
  results = []
  for dtype in (tf.float64, tf.complex128):
    a, p = _dominant([2, 4, 4], dtype), _positive([2, 4, 4], dtype)
    results += [
        _with_gradient(function, lambda a: tf.linalg.svd(a, compute_uv=False), a),
        _with_gradient(function, tf.linalg.eigvalsh, p),
        _with_gradient(function, lambda a: tf.matmul(*tf.linalg.qr(a)), a),
        _with_gradient(function, tf.linalg.pinv, a) if not dtype.is_complex else None]
  return [x for x in results if x is not None]


@program
def large_decompositions(function):
  @function
  def f(a):
    s, u, v = tf.linalg.svd(a)
    e, w = tf.linalg.eigh(tf.matmul(a, a, adjoint_a=True))
    return (s, tf.matmul(u * s[None, :], v, adjoint_b=True), e,
            tf.matmul(w * e[None, :], w, adjoint_b=True), tf.matmul(*tf.linalg.qr(a)))

  return f(_random([400, 300]))


@program
def banded_matrices(function):
  results = []
  for dtype in (tf.float64, tf.complex128):
    diagonals, rhs = _random([2, 3, 6], dtype), _random([2, 6, 2], dtype, 4)
    results += [
        _with_gradient(function, lambda d, b: tf.linalg.tridiagonal_solve(
            d, b, diagonals_format="compact"), diagonals + 3., rhs),
        _with_gradient(function, lambda d, b: tf.linalg.tridiagonal_matmul(
            d, b, diagonals_format="compact"), diagonals, rhs),
        _with_gradient(function, tf.linalg.banded_triangular_solve, diagonals + 3., rhs)]
  results.append(_with_gradient(function, tf.linalg.cross, _random([4, 3]), _random([4, 3], seed=2)))
  return results


@program
def fourier_transforms(function):
  x, z = _random([2, 4, 6]), _random([2, 4, 6], tf.complex128)
  results = [_with_gradient(function, f, z) for f in (
      tf.signal.fft, tf.signal.ifft, tf.signal.fft2d, tf.signal.ifft2d, tf.signal.fft3d,
      tf.signal.ifft3d, tf.signal.irfft, tf.signal.irfft2d)]
  results += [_with_gradient(function, f, x) for f in (
      tf.signal.rfft, tf.signal.rfft2d, lambda x: tf.signal.rfft(x, [7]),
      lambda x: tf.signal.irfft(tf.signal.rfft(x)))]
  signal = tf.cast(_random([2, 400]), tf.float32)
  results += [
      _with_gradient(function, lambda x: tf.abs(tf.signal.stft(x, 64, 16)), signal),
      function(lambda x: tf.signal.inverse_stft(tf.signal.stft(x, 64, 16), 64, 16))(signal),
      function(lambda x: tf.signal.dct(x, type=2, norm="ortho"))(signal)]
  return results


@program
def functions_of_matrices(function):
  a = _positive([2, 5, 5])
  z = tf.cast(a, tf.complex128)
  return (_with_gradient(function, tf.linalg.sqrtm, a), function(tf.linalg.sqrtm)(z),
          function(tf.linalg.logm)(z), function(lambda z: tf.linalg.expm(tf.linalg.logm(z)))(z),
          function(tf.linalg.expm)(a),
          _with_gradient(function, lambda a, b: tf.linalg.lstsq(a, b), _random([6, 4]),
                         _random([6, 2], seed=3)))
