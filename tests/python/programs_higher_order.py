"""More programs for test_function.py: higher derivatives, forward mode, captures that change."""
import keras
import tensorflow as tf

from programs import program


def _nested(f, sources, values):
  """Three derivatives, one of the other, at each value."""
  results = []
  for value in values:
    x = tf.constant(value)
    with tf.GradientTape() as third:
      third.watch(x)
      with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
          first.watch(x)
          y = f(x)
        d1 = first.gradient(y, [x] + sources)
      d2 = second.gradient(d1, [x] + sources)
    results.append((y, d1, d2, third.gradient(d2, [x] + sources)))
    for v in sources:
      v.assign_add(1.)
  return results


@program
def nested_tapes(function):
  w = tf.Variable(2.)
  cube = function(lambda x: x * x * x)
  return _nested(cube, [], (1., 2., 3.)), _nested(
      function(lambda x: w * tf.sin(x) * x ** 3), [w], (1., 2., 3.))


@program
def nested_tapes_over_loops(function):
  w = tf.Variable(2.)

  @function
  def f(x):
    y = x
    for _ in tf.range(3):
      y *= tf.sin(x) * w
    return y

  return _nested(f, [w], (1., 2.))


@program
def gradient_penalty(function):
  critic = keras.Sequential([
      keras.layers.Input((4,)), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])
  call = function(lambda x: critic(x))
  results = []
  for i in range(3):
    x = tf.random.stateless_normal([3, 4], [i, 1])
    with tf.GradientTape() as outer:
      with tf.GradientTape() as inner:
        inner.watch(x)
        scores = call(x)
      slopes = tf.norm(inner.gradient(scores, x), axis=1)
      penalty = tf.reduce_mean((slopes - 1) ** 2)
    gradients = outer.gradient(penalty, critic.trainable_variables, unconnected_gradients="zero")
    results.append((penalty, gradients))
    for v, g in zip(critic.trainable_variables, gradients):
      v.assign_sub(g)
  return results


@program
def hessians_outside(function):
  @function
  def straight(x):
    return tf.reduce_sum(x ** 3 * tf.reverse(x, [0]))

  @function
  def looped(x):
    y = x
    for _ in tf.range(2):
      y *= tf.sin(x) * tf.reduce_sum(x)
    return tf.reduce_sum(y)

  results = []
  for f in (straight, looped):
    for x in (tf.constant([1., 2.]), tf.constant([3., 0.5])):
      with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
          inner.watch(x)
          y = f(x)
        g = inner.gradient(y, x)
      results.append((g, outer.gradient(g, x), outer.jacobian(g, x)))
      if f is straight:
        results.append(outer.jacobian(g, x, experimental_use_pfor=False))
  return results


@program
def persistent_tapes(function):
  w = tf.Variable([1., 2.])
  f = function(lambda x: (tf.reduce_sum(w * x ** 2), tf.tanh(x)))
  results = []
  for k in (2., 3.):
    x = tf.constant([1., k])
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(x)
      y, z = f(x)
      g = tape.gradient(y, x)
    results.append((g, tape.gradient(g, [x, w]), tape.gradient(z, x), tape.gradient(y, w)))
  return results


@program
def forward_mode_outside(function):
  w = tf.Variable(2.)
  f = function(lambda x: w * x ** 3)
  one = tf.constant(1.)
  results = []
  for x in (tf.constant(1.), tf.constant(2.)):
    with tf.autodiff.ForwardAccumulator(w, one) as of_variable:
      y = f(x)
    with tf.autodiff.ForwardAccumulator(x, one) as over:
      with tf.GradientTape() as under:
        under.watch(x)
        g = under.gradient(f(x), [x, w])
    with tf.GradientTape() as outer:
      outer.watch(x)
      with tf.autodiff.ForwardAccumulator(x, one) as inner:
        z = f(x)
      slope = inner.jvp(z)
    with tf.autodiff.ForwardAccumulator(x, one) as second:
      with tf.autodiff.ForwardAccumulator(x, one) as first:
        u = f(x)
      du = first.jvp(u)
    results.append((of_variable.jvp(y), over.jvp(g), outer.gradient(slope, [x, w]),
                    second.jvp(du)))
    w.assign_add(1.)
  return results


@program
def forward_mode_over_loops(function):
  w = tf.Variable(2.)

  @function
  def f(x):
    y = x
    for _ in tf.range(3):
      y *= tf.sin(x) * w
    return y

  results = []
  for x in (tf.constant(1.), tf.constant(2.)):
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.)) as accumulator:
      y = f(x)
    results.append(accumulator.jvp(y))
    w.assign_add(1.)
  return results


@program
def captured_at_the_time_of_the_call(function):
  scale = [1.]

  @function
  def f(x):
    graph = tf.compat.v1.get_default_graph()
    return x * graph.capture_call_time_value(lambda: tf.constant(scale[0]), tf.TensorSpec([]))

  x, results = tf.constant(3.), []
  concrete = f.get_concrete_function(tf.TensorSpec([]))
  for _ in range(3):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = f(x)
    results.append((f(x), concrete(x), tape.gradient(y, x)))
    scale[0] += 1
  return results


@program
def captures_that_are_replaced(function):
  a, v, other = tf.constant(2.), tf.Variable(3.), tf.Variable(30.)
  f = function(lambda x: x * a * v)
  concrete = f.get_concrete_function(tf.TensorSpec([]))
  captures, x, latest = list(concrete._captured_inputs), tf.constant(1.), [tf.constant(1.)]
  results = [concrete(x), f(x), f(x)]

  def replace(old, new):
    concrete.set_external_captures([new if t is old else t for t in captures])
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = concrete(x)
    results.append((concrete(x), f(x), f(x), tape.gradient(y, [x, v, other])))

  replace(a, tf.constant(5.))
  replace(v.handle, other.handle)
  replace(a, lambda: latest[0])
  latest[0] = tf.constant(100.)
  return results, concrete(x), f(x)


@program
def a_capture_becomes_deferred(function):
  flag, value = tf.constant(True), tf.constant([3.])

  @function
  def f():
    graph = tf.compat.v1.get_default_graph()
    late = graph.capture_call_time_value(lambda: value * 2, tf.TensorSpec([1]))
    if flag:
      return late
    return late + value

  concrete = f.get_concrete_function()
  results = [concrete(), f()]
  concrete.replace_capture_with_deferred_capture(
      flag, lambda: tf.constant(False), spec=tf.TensorSpec([], tf.bool))
  return results, concrete(), f()


@program
def second_derivatives_over_control_flow(function):
  w = tf.Variable([1., 2.])

  @function
  def filled(x):
    values = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    for i in tf.range(4):
      values = values.write(i, tf.reduce_sum(w * x) * tf.cast(i, tf.float32))
    return tf.reduce_sum(values.stack() ** 2)

  @function
  def switched(x):
    y = tf.switch_case(tf.cast(x[0], tf.int32), [lambda: x * x, lambda: tf.sin(x) * w])
    return tf.reduce_sum(tf.while_loop(lambda k, _: k < 3, lambda k, z: (k + 1, z * y), [0, y])[1])

  results = []
  for f in (filled, switched):
    for value in (0.5, 1.5):
      x = tf.constant([value, 2.])
      with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
          inner.watch(x)
          y = f(x)
        g = inner.gradient(y, x)
      results.append((y, g, outer.gradient(g, x)))
  return results


@program
def variables_given_as_arguments(function):
  v, w = tf.Variable(2.), tf.Variable(3.)
  f = function(lambda a, b, x: a * b * x)
  results = []
  for a, b in ((v, w), (v, v), (w, v)):
    with tf.GradientTape() as outer:
      with tf.GradientTape() as inner:
        y = f(a, b, tf.constant(2.))
      g = inner.gradient(y, a)
    results.append((y, g, outer.gradient(g, [v, w])))
  return results


@program
def implementations_for_devices(function):
  """Of functions that implement the same, the one for the CPU runs there."""
  def implementation(f, api, device):
    attributes = {"api_implements": api}
    if device:
      attributes["api_preferred_device"] = device
    return tf.function(f, autograph=False, experimental_attributes=attributes)

  def choice(api, x, default, *others):
    result = implementation(default, api, None)(x)
    for device, other in others:
      implementation(other, api, device).get_concrete_function(x).add_to_graph()
    return result

  @function
  def f(x):
    return (choice("a", x, lambda x: x + 1., ("CPU", lambda x: x * 10.)),
            choice("b", x, lambda x: x + 2., ("GPU", lambda x: x * 20.)),
            choice("c", x, lambda x: x + 3., ("GPU", lambda x: x * 30.), ("CPU", lambda x: -x)),
            choice("d", x, lambda x: tf.reduce_sum(x), ("CPU", lambda x: tf.reduce_max(x) * 5.)))

  @function
  def mapped(x):
    return tf.map_fn(lambda row: choice("m", row, lambda x: x + 1., ("CPU", lambda x: x * 10.)), x)

  return f(tf.constant([1., 2.])), mapped(tf.constant([[1., 2.], [3., 4.]]))
