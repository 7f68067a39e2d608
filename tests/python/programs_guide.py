"""More programs for test_function.py: the themes of TensorFlow's guide to tf.function."""
import functools

import keras
import numpy as np
import tensorflow as tf

from programs import program


@program
def deleted_variable(function):
  v = tf.Variable(3)

  @function
  def f(x):
    return x * v

  c = f.get_concrete_function(4)
  first = c(4).numpy()
  del v

  def late():
    u = tf.Variable(5)
    return function(lambda x: x * u).get_concrete_function(tf.TensorSpec([], tf.int32))

  return first, c(4).numpy(), late()(tf.constant(2)).numpy()


@program
def module_that_is_gone(function):
  class Add(tf.Module):

    def __init__(self):
      super().__init__()
      self.v = tf.Variable(2)

    @function
    def __call__(self, x):
      return self.v.assign_add(x)

  add = Add()
  c = add.__call__.get_concrete_function(tf.TensorSpec([], tf.int32))
  del add
  return c(tf.constant(1)).numpy(), c(tf.constant(1)).numpy()


@program
def count_created_once(function):
  class Count(tf.Module):

    def __init__(self):
      self.count = None

    @function
    def __call__(self):
      if self.count is None:
        self.count = tf.Variable(0)
      return self.count.assign_add(1)

  c = Count()
  return c().numpy(), c().numpy(), c.count.numpy()


@program
def several_optimizers(function):
  w = tf.Variable(2.)
  x = tf.constant([-1.])
  y = tf.constant([2.])

  def train_step(w, x, y, optimizer):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(tf.square(w * x - y))
    gradients = tape.gradient(loss, [w])
    optimizer.apply_gradients(zip(gradients, [w]))

  steps = [function(train_step), function(train_step)]
  optimizers = [keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.001)]
  out = []
  for step, optimizer in zip(steps, optimizers):
    step(w, x, y, optimizer)
    step(w, x, y, optimizer)
    out.append(w.numpy())
  return out


@program
def python_side_effects(function):
  log, external = [], [tf.constant(1)]

  @function
  def f(x):
    log.append("traced")
    external.append(0)
    return x + len(external)

  return [f(tf.constant(1)).numpy() for _ in range(3)], log, f.python_function(1)


@program
def conditions(function):
  @function
  def f(x):
    if tf.reduce_sum(x) > 0:
      y = x * 2
    elif tf.reduce_sum(x) < -10:
      y = -x
    else:
      y = x + 1
    return tf.cond(tf.size(y) > 2, lambda: y, lambda: tf.zeros_like(y)) + tf.switch_case(
        tf.size(x) % 3, [lambda: 1., lambda: 2., lambda: 3.])

  return [f(tf.constant(x)).numpy() for x in ([1., 2.], [-1., -2., 0.], [-20.])]


@program
def loops(function):
  @function
  def collatz(n):
    steps = 0
    while n != 1:
      if n % 2 == 0:
        n = n // 2
      else:
        n = 3 * n + 1
      steps += 1
      if steps > 1000:
        break
      elif steps == 500:
        continue
    return steps

  @function
  def fibonacci(n):
    a, b = 0, 1
    for _ in tf.range(n):
      a, b = b, a + b
    return a

  @function
  def total(x):
    out = tf.while_loop(lambda i, s: i < tf.shape(x)[0], lambda i, s: (i + 1, s + x[i]),
                        (0, tf.zeros([2])))
    return out[1], tf.map_fn(lambda r: r * r, x), tf.scan(lambda a, b: a + b, x)

  return (collatz(tf.constant(27)).numpy(), fibonacci(tf.constant(20)).numpy(),
          [t.numpy() for t in total(tf.reshape(tf.range(6.), [3, 2]))])


@program
def rnn_by_hand(function):
  @function
  def rnn(cell, xs):
    state = tf.zeros([2, 3])
    out = tf.TensorArray(tf.float32, size=tf.shape(xs)[0])
    for t in tf.range(tf.shape(xs)[0]):
      state = tf.tanh(xs[t] @ cell + state)
      out = out.write(t, state)
    return tf.transpose(out.stack(), [1, 0, 2]), state

  out, state = rnn(tf.ones([4, 3]) * 0.1, tf.ones([5, 2, 4]))
  return out.numpy(), state.numpy()


@program
def assertions_and_early_return(function):
  @function
  def f(x):
    tf.debugging.assert_positive(x, "must be positive")
    if tf.size(x) > 2:
      return x[:2]
    else:
      return x

  out = [f(tf.constant([1, 2, 3])).numpy()]
  try:
    f(tf.constant([0]))
  except tf.errors.InvalidArgumentError as e:
    out.append("must be positive" in e.message)
  return out


@program
def gradients_inside(function):
  w = tf.Variable([[1., 2.], [3., 4.]])

  @function
  def f(x):
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(x)
      y = tf.nn.softmax(x @ w)
      z = tf.reduce_sum(y * tf.constant([1., 2.]))
    return tape.gradient(z, [x, w]), tape.jacobian(y, x), tape.gradient(y, x)

  (dx, dw), jacobian, dy = f(tf.constant([[1., -1.]]))
  return dx.numpy(), dw.numpy(), jacobian.numpy(), dy.numpy()


@program
def gradients_through_a_loop(function):
  w = tf.Variable(0.9)

  @function
  def f(x, n):
    with tf.GradientTape() as tape:
      for _ in tf.range(n):
        x = tf.where(x > 1., x * w, tf.sin(x) + w)
    return x, tape.gradient(x, w)

  return [t.numpy() for t in f(tf.constant(3.), tf.constant(6))]


@program
def persistent_tape_outside(function):
  v = tf.Variable([1., 2.])

  @function
  def f(x):
    return x * v, tf.reduce_sum(v ** 2)

  x = tf.constant([3., 4.])
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    a, b = f(x)
    c = tf.reduce_sum(a) * b
  return [tape.gradient(t, s).numpy() for t, s in ((a, x), (b, v), (c, x), (c, v))]


@program
def partials_defaults_and_keywords(function):
  def f(x, k, *, scale=2):
    return x * k * scale

  g = function(functools.partial(f, k=3))
  h = function(f)
  x = tf.constant(2)
  return (g(x).numpy(), g(x, scale=4).numpy(), h(x, 5).numpy(), h(k=5, x=x).numpy(),
          h(x, k=tf.constant(5), scale=1).numpy(), h.experimental_get_tracing_count())


@program
def modules_in_modules(function):
  class Layer(tf.Module):

    def __init__(self, n, name=None):
      super().__init__(name)
      self.w = tf.Variable(tf.fill([n, n], 0.5), name="w")

    @tf.Module.with_name_scope
    def __call__(self, x):
      return tf.nn.relu(x @ self.w)

  class Net(tf.Module):

    def __init__(self):
      super().__init__()
      self.layers = [Layer(2, "one"), Layer(2, "two")]

    @function(input_signature=[tf.TensorSpec([None, 2])])
    def __call__(self, x):
      for layer in self.layers:
        x = layer(x)
      return x

  net = Net()
  return (net(tf.ones([1, 2])).numpy(), net([[1., 2.], [3., 4.]]).numpy(),
          len(net.trainable_variables), net.__call__.experimental_get_tracing_count())


@program
def keras_layer_with_state(function):
  class Scale(keras.layers.Layer):

    def build(self, shape):
      self.k = self.add_weight(shape=(shape[-1],), initializer="ones")
      self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x, training=False):
      if training:
        self.calls.assign_add(1.)
      return x * self.k + self.calls

  layer = Scale()
  f = function(lambda x, training: layer(x, training=training))
  x = np.ones([2, 3], np.float32)
  return [f(x, t).numpy() for t in (True, False, True)] + [layer.calls.numpy()]


@program
def attention(function):
  keras.utils.set_random_seed(2)
  model = keras.Sequential([
      keras.layers.Input((6,), dtype="int32"), keras.layers.Embedding(10, 8)])
  heads = keras.layers.MultiHeadAttention(2, 4)
  norm = keras.layers.LayerNormalization()
  optimizer = keras.optimizers.Adam(0.01)

  @function
  def step(x):
    with tf.GradientTape() as tape:
      h = model(x)
      h = norm(h + heads(h, h, use_causal_mask=True))
      loss = tf.reduce_mean(h ** 2 * tf.range(8.))
    weights = [*model.trainable_variables, *heads.trainable_variables, *norm.trainable_variables]
    optimizer.apply(tape.gradient(loss, weights), weights)
    return loss

  x = tf.constant([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]])
  return [step(x).numpy() for _ in range(3)]


@program
def eager_switch(function):
  f = function(lambda x: x + 1)
  tf.config.run_functions_eagerly(True)
  try:
    first = f(1)
  finally:
    tf.config.run_functions_eagerly(False)
  return int(first), f(tf.constant(1)).numpy()


@program
def inspection(function):
  v = tf.Variable(1.)

  @function
  def f(x):
    return {"y": x * v}

  c = f.get_concrete_function(tf.TensorSpec([None]))
  return ([i.shape.as_list() for i in c.inputs[:1]], c.structured_outputs["y"].shape.as_list(),
          [n.name for n in c.variables], c.graph.as_graph_def().node[0].op,
          c(tf.ones([2]))["y"].numpy())


@program
def local_functions_on_the_same_variables(function):
  v = tf.Variable(1.)
  local = tf.function(lambda: v * 10)
  before = local().numpy()
  late = tf.function(lambda x: v.assign_add(x))

  @function
  def step(x):
    return v.assign_add(x)

  out = [before]
  for k in range(3):
    out += [step(1.).numpy(), local().numpy(), late(5.).numpy(), step(1.).numpy(), v.numpy()]
  return out


@program
def keras_predicts_and_fits_in_between(function):
  model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1, name="d")])
  model.compile(optimizer="sgd", loss="mse")
  optimizer = keras.optimizers.SGD(0.1)
  x, y = np.ones([4, 3], np.float32), np.zeros([4, 1], np.float32)

  @function
  def step(x, y):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss

  out = [model.predict(x, verbose=0)]
  for _ in range(2):
    out += [step(x, y).numpy(), model.predict(x, verbose=0), model.evaluate(x, y, verbose=0)]
  model.fit(x, y, epochs=1, verbose=0)
  return out + [step(x, y).numpy(), model.get_weights()]
