"""More programs for test_function.py: gradients, taken inside of the function and outside."""
import tensorflow as tf

from programs import caught
from programs import program


@program
def jacobians_and_hessians(function):
  @function
  def hessian(x):
    with tf.GradientTape() as outer:
      outer.watch(x)
      with tf.GradientTape() as inner:
        inner.watch(x)
        y = tf.reduce_sum(tf.sin(x) * x[0])
      g = inner.gradient(y, x)
    return outer.jacobian(g, x), tf.hessians(tf.reduce_sum(x ** 3), x)[0]

  @function
  def batch(x):
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(x)
      y = x ** 2 * tf.reduce_sum(x, axis=1, keepdims=True)
    return tape.batch_jacobian(y, x), tape.jacobian(y, x, experimental_use_pfor=False)

  return hessian(tf.constant([1., 2.])), batch(tf.constant([[1., 2.], [3., 4.]]))


@program
def jacobian_outside(function):
  f = function(lambda x: tf.tanh(x) * tf.reduce_sum(x))
  x = tf.constant([1., 2.])
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = f(x)
  return (tape.jacobian(y, x), tape.jacobian(y, x, experimental_use_pfor=False),
          tape.gradient(y, x))


@program
def through_conditions(function):
  v = tf.Variable(3.)

  @function
  def inside(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      if x > 0:
        y = x * v * x
      elif x > -1:
        y = tf.sin(x) * v
      else:
        y = -v
    return tape.gradient(y, [x, v], unconnected_gradients=tf.UnconnectedGradients.ZERO)

  @function
  def in_a_loop(x, n):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = x
      for i in tf.range(n):
        y = tf.cond(i % 2 == 0, lambda: y * v, lambda: tf.exp(-y) + x)
    return y, tape.gradient(y, [x, v])

  @function
  def switched(x, i):
    return tf.switch_case(i, [lambda: x * x, lambda: tf.sin(x) * x, lambda: x])

  results = [inside(tf.constant(x)) for x in (2., -0.5, -4.)]
  results += [in_a_loop(tf.constant(0.5), tf.constant(n)) for n in (0, 1, 4)]
  for i in range(3):
    x = tf.constant(2.)
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = switched(x, tf.constant(i))
    results.append((y, tape.gradient(y, x)))
  return results


@program
def custom_gradients(function):
  v = tf.Variable(2.)

  @tf.custom_gradient
  def with_variable(x):
    def grad(dy, variables=None):
      return dy * 5., [dy * 7.]
    return x * v, grad

  @function
  def inside(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = with_variable(x)
    return tape.gradient(y, [x, v])

  @function
  @tf.custom_gradient
  def outside(x):
    return tf.math.log(1 + tf.exp(x)), lambda dy: dy * 100.

  x = tf.constant(1.)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = outside(x)
  return inside(x), y, tape.gradient(y, x)


@program
def stopped_reset_and_unconnected(function):
  @function
  def f(x, z):
    with tf.GradientTape(persistent=True) as tape:
      tape.watch([x, z])
      a = tf.stop_gradient(x) * x
      with tape.stop_recording():
        b = x * 3
    first = tape.gradient(a, x), tape.gradient(a + b, x)
    with tape:
      tape.reset()
      tape.watch([x, z])
      y = x * 2
    return (first, tape.gradient(y, z), tape.gradient(y, z, unconnected_gradients="zero"),
            tape.gradient(y, x, output_gradients=tf.constant(4.)), tf.gradients(x ** 3, x))

  return caught(f, tf.constant(3.), tf.constant([2., 3.]))


@program
def unconnected_outside(function):
  f = function(lambda x, z: (x * 2, tf.constant(1), z))
  x, z = tf.constant(1.), tf.constant([2., 3.])
  with tf.GradientTape(persistent=True) as tape:
    tape.watch([x, z])
    y, _, w = f(x, z)
  zero = tf.UnconnectedGradients.ZERO
  return (tape.gradient(y, z), tape.gradient(y, z, unconnected_gradients=zero),
          tape.gradient(w, z), tape.gradient(y, x))


@program
def forward_mode(function):
  f = function(lambda x: tf.reduce_sum(x ** 2 * tf.sin(x)))
  x, direction = tf.constant([2., 3.]), tf.constant([1., 0.])

  @function
  def inside(x):
    with tf.autodiff.ForwardAccumulator(x, direction) as acc:
      y = tf.reduce_sum(x ** 3)
    return acc.jvp(y)

  with tf.autodiff.ForwardAccumulator(x, direction) as acc:
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = f(x)
    g = tape.gradient(y, x)
  return inside(x), acc.jvp(y), acc.jvp(g)


@program
def outside_of_one_that_writes(function):
  v, n = tf.Variable(2.), tf.Variable(0)

  @function
  def f(x):
    n.assign_add(1)
    y = x * v
    v.assign_add(1.)
    return y * v

  x = tf.constant(3.)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = f(x)
  return y, tape.gradient(y, [x, v]), v, n


@program
def outside_of_loops_that_print(function):
  v = tf.Variable(2.)

  @function
  def f(n):
    y = v
    for i in tf.range(n):
      tf.print("step", i)
      y = y * tf.random.stateless_uniform([], [i, 1])
    return y

  out = []
  for k in (3, 2):
    with tf.GradientTape() as tape:
      y = f(tf.constant(k))
    out += [y, tape.gradient(y, v)]
  return out


@program
def outside_with_random_numbers(function):
  v = tf.Variable(tf.ones([100]))
  f = function(lambda: tf.nn.dropout(v, 0.5))
  f()
  with tf.GradientTape() as tape:
    y = f()
  return bool(tf.reduce_all((y > 0) == (tape.gradient(y, v) > 0)))


@program
def outside_with_structures(function):
  c, v = tf.constant(2.), tf.Variable(3.)

  @function
  def f(d):
    return {"a": d["x"] * d["y"] * c, "b": [d["x"] ** 2 * v, 3, None]}

  d = {"x": tf.constant(2.), "y": tf.constant([3., 4.])}
  with tf.GradientTape(persistent=True) as tape:
    tape.watch([d, c])
    r = f(d)
  return r, tape.gradient(r["a"], d), tape.gradient(r["a"], c), tape.gradient(r["b"][0], [d, v])


@program
def outside_of_a_concrete_function(function):
  v = tf.Variable(2.)
  c = function(lambda x: v * x ** 2).get_concrete_function(tf.TensorSpec([], tf.float32))
  x = tf.constant(3.)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = c(x)
  g = tape.gradient(y, [x, v])
  return g, caught(tape.gradient, y, x)


@program
def inside_and_then_outside(function):
  v = tf.Variable(2.)

  @function
  def inner(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = v * x ** 3
    return tape.gradient(y, x)

  x = tf.constant(3.)
  with tf.GradientTape() as tape:
    tape.watch(x)
    g = inner(x)
  with tf.GradientTape() as second:
    with tf.GradientTape() as first:
      y = function(lambda: v ** 3)()
    dy = first.gradient(y, v)
  return g, tape.gradient(g, [x, v]), second.gradient(dy, v)


@program
def what_a_tape_watches(function):
  a, b, still = tf.Variable(2.), tf.Variable(3.), tf.Variable(4., trainable=False)
  f = function(lambda: a * b * still)
  with tf.GradientTape(watch_accessed_variables=False) as one:
    one.watch(a)
    y = f()
  with tf.GradientTape() as all_of_them:
    z = f()
  return (one.gradient(y, [a, b]), len(all_of_them.watched_variables()),
          all_of_them.gradient(z, [a, b, still]))


@program
def slices_of_a_table(function):
  table = tf.Variable(tf.reshape(tf.range(8.), [4, 2]))

  @function
  def inside(i):
    with tf.GradientTape() as tape:
      y = tf.reduce_sum(tf.gather(table, i) ** 2)
    return tape.gradient(y, table)

  def parts(s):
    return type(s).__name__, tf.convert_to_tensor(s)

  f = function(lambda i: tf.reduce_sum(tf.gather(table, i) ** 2))
  i = tf.constant([0, 2, 2])
  with tf.GradientTape() as tape:
    y = f(i)
  return parts(inside(i)), parts(tape.gradient(y, table))


@program
def clipping(function):
  v = tf.Variable([3., 4.])

  @function
  def f():
    with tf.GradientTape() as tape:
      y = tf.reduce_sum(v ** 2)
    g = tape.gradient(y, [v])
    return (tf.clip_by_global_norm(g, 1.0), tf.clip_by_norm(g[0], 2.),
            tf.clip_by_value(g[0], -1., 1.))

  return f()


@program
def through_many_ops(function):
  @function
  def f(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = tf.concat([
          tf.nn.softmax(x), tf.nn.log_softmax(x), tf.math.softplus(x), tf.nn.relu6(x),
          tf.reduce_max(x, 1, keepdims=True), tf.math.cumsum(x, 1), tf.sqrt(tf.abs(x) + 1),
          tf.math.reciprocal(x + 5), tf.math.divide_no_nan(x, x + 1), tf.minimum(x, 1.),
          tf.gather(x, [0, 1], axis=1), tf.reverse(x, [1]), tf.pad(x, [[0, 0], [1, 1]]),
          tf.tile(x, [1, 2]), tf.where(x > 0, x, -x)], axis=1)
      z = tf.reduce_sum(y * tf.range(tf.cast(tf.shape(y)[1], tf.float32)))
    return z, tape.gradient(z, x)

  return f(tf.constant([[1., -2., 3.], [0.5, 0.25, -1.]]))


@program
def of_doubles_and_complex_numbers(function):
  @function
  def f(x, z):
    with tf.GradientTape(persistent=True) as tape:
      tape.watch([x, z])
      y = tf.sin(x) ** 2
      c = tf.reduce_sum(tf.math.real(z * tf.math.conj(z)))
    return tape.gradient(y, x), tape.gradient(c, z)

  return f(tf.constant(0.5, tf.float64), tf.constant([1 + 2j, 3.]))


def _loop_that_writes(function, v, n):
  @function
  def f(x):
    y = x
    for _ in tf.range(3):
      y = y * v + tf.sin(y)
      n.assign_add(1.)
    return y, n.read_value()
  return f


@program
def outside_of_loops_that_write(function):
  v, n = tf.Variable(2.), tf.Variable(0.)
  f, results = _loop_that_writes(function, v, n), []
  for value in (1., 2.):
    x = tf.constant(value)
    with tf.GradientTape() as tape:
      tape.watch(x)
      y, _ = f(x)
    results.append((y, tape.gradient(y, [x, v]), n.numpy()))
  return results


@program
def several_tapes_outside_of_a_loop_that_writes(function):
  v, n = tf.Variable(2.), tf.Variable(0.)
  f, x = _loop_that_writes(function, v, n), tf.constant(1.5)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y, m = f(x)
    z = y * y
  results = [tape.gradient(y, x), tape.gradient(z, [x, v]), tape.gradient(m, x)]
  with tf.GradientTape() as one, tf.GradientTape() as other:
    y, _ = f(v)
    z = y * y
  return results, one.gradient(y, v), other.gradient(z, v), n


@program
def outside_of_a_loop_with_random_numbers(function):
  v = tf.Variable(tf.ones([100]))

  @function
  def f():
    y = v
    for _ in tf.range(3):
      y = tf.nn.dropout(y, 0.5)
    return y

  with tf.GradientTape() as tape:
    y = f()
  return bool(tf.reduce_all((y > 0) == (tape.gradient(y, v) > 0)))


@program
def outside_with_large_intermediates(function):
  w = tf.Variable(tf.random.stateless_normal([200, 200], [1, 2]) * 0.05)
  f = function(lambda x: tf.reduce_sum(tf.tanh(tf.tanh(x @ w) @ w)))
  taken = []
  for i in range(3):
    x = tf.random.stateless_normal([100, 200], [i, 2])
    with tf.GradientTape() as tape:
      y = f(x)
    w.assign_add(w * 0.01)  # The tape has the values from before.
    taken.append((tape, y))
  results = [(y, tape.gradient(y, w)) for tape, y in taken]
  with tf.GradientTape() as tape:
    y = f(x)
  return results, tf.function(lambda: tape.gradient(y, w))()
