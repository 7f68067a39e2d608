"""Ordinary programs over tf.function. Each takes the decorator and returns what it computed.

Run with tf.function and with server.function in its place they must agree.
"""
import collections

import keras
import numpy as np
import tensorflow as tf

PROGRAMS = {}


def program(f):
  PROGRAMS[f.__name__] = f
  return f


def caught(f, *args, **kwargs):
  """The result, or what it raises."""
  try:
    return f(*args, **kwargs)
  except Exception as e:  # What is compared is which.
    return e


def programs_of(family, functions):
  """A program for each {name: (f, arguments...)}: that one function, called once."""
  for name, (f, *arguments) in functions.items():
    PROGRAMS["%s_%s" % (family, name)] = lambda function, f=f, arguments=arguments: (
        function(f, autograph=False)(*arguments))


def with_gradient(f):
  """What f gives, and the gradients of the sum of all of it: those of the arguments that are of
  floating point."""
  def both(*arguments):
    with tf.GradientTape() as tape:
      sources = [x for x in arguments if x.dtype.is_floating or x.dtype.is_complex]
      tape.watch(sources)
      results = f(*arguments)
      parts = [y for y in tf.nest.flatten(results) if y.dtype.is_floating or y.dtype.is_complex]
      loss = tf.add_n([tf.reduce_sum(tf.cast(tf.abs(y) ** 2, tf.float32)) for y in parts])
    return results, tape.gradient(loss, sources)
  return both


# -------------------------------------------------------------------------------------- gradients
@program
def tape_outside(function):
  w, optimizer, out = tf.Variable(2.0), keras.optimizers.SGD(0.1), []

  @function
  def f(x):
    return w * x * x

  for _ in range(3):
    with tf.GradientTape() as tape:
      y = f(tf.constant(3.))
    gradient = tape.gradient(y, w)
    optimizer.apply_gradients([(gradient, w)])
    out.append((float(y), float(gradient), float(w)))
  return out


@program
def tape_outside_a_loop(function):
  w = tf.Variable(1.1)

  @function
  def f(x, n):
    for _ in tf.range(n):
      x = x * w
    return x

  with tf.GradientTape() as tape:
    y = f(tf.constant(2.), tf.constant(3))
  return y.numpy(), tape.gradient(y, w).numpy()


@program
def tape_outside_a_gather(function):
  table = tf.Variable(tf.reshape(tf.range(12.), [4, 3]))

  @function
  def f(i):
    return tf.reduce_sum(tf.gather(table, i) ** 2)

  with tf.GradientTape() as tape:
    y = f(tf.constant([0, 2, 2]))
  gradient = tf.convert_to_tensor(tape.gradient(y, table))
  table.assign_sub(0.1 * gradient)
  return y.numpy(), gradient.numpy(), f(tf.constant([2])).numpy()


@program
def second_order(function):
  f = function(lambda x: x ** 3)
  x = tf.constant(2.)
  with tf.GradientTape() as outer:
    outer.watch(x)
    with tf.GradientTape() as inner:
      inner.watch(x)
      y = f(x)
    gradient = inner.gradient(y, x)
  return gradient.numpy(), outer.gradient(gradient, x).numpy()


@program
def custom_gradient(function):
  @tf.custom_gradient
  def scaled(x):
    return x, lambda dy: dy * 7

  @function
  def f(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = scaled(x) * x
    return tape.gradient(y, x)

  return f(tf.constant(2.)).numpy()


# ------------------------------------------------------------------------------ traces, structures
@program
def retraces(function):
  traces = []

  @function
  def f(x):
    traces.append(1)
    return x

  for x in (1, 1, 2, 1.0, tf.constant(1), tf.constant(2), tf.constant([1.]), np.float32(3), "a",
            None, [1, 2], (tf.constant(1), 2), {"a": tf.constant(1)}):
    f(x)

  @function(reduce_retracing=True)
  def g(x):
    return tf.shape(x)

  shapes = [g(tf.ones([k])).numpy() for k in (1, 2, 3, 4)]
  return (len(traces), shapes, f.experimental_get_tracing_count(),
          g.experimental_get_tracing_count())


@program
def structures(function):
  Point = collections.namedtuple("Point", "x y")

  @function
  def f(p, *args, k=3, **kw):
    return Point(p.x + 1, p.y * k), args, kw, {"z": [p.x, (p.y, None)]}

  result = f(Point(tf.constant(1), tf.constant(2)), tf.constant(4), 5, k=2, b=tf.constant(1.),
             a=tf.constant("s"))
  return tf.nest.map_structure(lambda t: t.numpy() if hasattr(t, "numpy") else t, result)


@program
def composites(function):
  @function
  def f(sparse, ragged):
    return sparse.with_values(sparse.values * 2), ragged * 2

  doubled, twice = f(tf.sparse.from_dense([[1, 0], [0, 2]]), tf.ragged.constant([[1], [2, 3]]))
  return doubled.indices.numpy(), doubled.values.numpy(), twice.to_list()


@program
def concrete_functions(function):
  @function
  def f(x, y=2):
    return x + y

  c = f.get_concrete_function(tf.TensorSpec([None], tf.int32))
  d = f.get_concrete_function(x=tf.TensorSpec([]), y=tf.TensorSpec([]))
  return (c(tf.constant([1, 2])).numpy(), c(x=tf.constant([1])).numpy(),
          d(tf.constant(1.), tf.constant(2.)).numpy(), str(c.structured_input_signature),
          f.pretty_printed_concrete_signatures())


@program
def dtypes_pass(function):
  f = function(lambda x: x)
  return [f(tf.cast([1, 0], d)).numpy().astype(np.complex64) for d in (
      tf.bfloat16, tf.half, tf.int8, tf.uint16, tf.bool, tf.complex64)] + [f("ü").numpy()]


@program
def methods(function):
  class Counter(tf.Module):

    def __init__(self):
      super().__init__()
      self.count = tf.Variable(0)

    @function
    def add(self, by):
      self.count.assign_add(by)
      return self.count

    @staticmethod
    @function
    def twice(x):
      return x * 2

  a, b = Counter(), Counter()
  return ([x.add(tf.constant(k)).numpy() for x, k in ((a, 2), (a, 2), (b, 1))],
          a.count.numpy(), b.count.numpy(), Counter.twice(tf.constant(1)).numpy(),
          a.add.experimental_get_tracing_count())


@program
def objects_as_arguments(function):
  layer = keras.layers.Dense(2)
  layer.build((None, 3))

  @function
  def f(layer, x, training=False):
    return layer(x)

  x = tf.ones([1, 3])
  return (f(layer, x).numpy(), f(layer, x, training=True).numpy(),
          f.experimental_get_tracing_count())


# --------------------------------------------------------------------------------------- variables
@program
def closures(function):
  c = tf.constant([1., 2.])
  big = tf.random.stateless_normal([300], [1, 2])
  v = tf.Variable(c)

  @function
  def f(x):
    v.assign_add(x)
    return tf.reduce_sum(big) + v + c

  out = [f(tf.ones([2])).numpy() for _ in range(2)]
  v.assign([0., 0.])
  out += [f(tf.ones([2])).numpy(), v.numpy(), (v + 1).numpy(), tf.add(v, 1.).numpy(),
          v.assign_sub([1., 1.]).numpy(), f(tf.ones([2])).numpy()]
  return out


@program
def created_in_the_first_call(function):
  class Dense(tf.Module):

    def __init__(self, n):
      super().__init__()
      self.n, self.w = n, None

    @function
    def __call__(self, x):
      if self.w is None:
        self.w = tf.Variable(tf.ones([x.shape[-1], self.n]) * 2, name="w")
        self.b = tf.Variable(tf.zeros([self.n]))
      self.b.assign_add(tf.ones([self.n]))
      return x @ self.w + self.b

  a, b = Dense(2), Dense(3)
  return (a(tf.ones([1, 4])).numpy(), a(tf.ones([2, 4])).numpy(), b(tf.ones([1, 2])).numpy(),
          a.b.numpy(), [v.name for v in a.variables])


@program
def nested(function):
  v = tf.Variable(1)

  @function
  def inner(x):
    v.assign_add(1)
    return x * v

  @function
  def outer(x):
    total = 0
    for _ in tf.range(3):
      total += inner(x)
    return total

  return outer(tf.constant(2)).numpy(), inner(tf.constant(2)).numpy(), v.numpy()


@program
def variables_as_arguments(function):
  a, b = tf.Variable(1.), tf.Variable(2.)

  @function
  def f(x, y):
    x.assign_add(y)
    return x * y

  return ([f(x, y).numpy() for x, y in ((a, b), (a, b), (a, a))], a.numpy(), b.numpy(),
          f.experimental_get_tracing_count())


@program
def no_result(function):
  v = tf.Variable(0)

  @function
  def f():
    v.assign_add(1)

  return f(), f(), v.numpy()


# ------------------------------------------------------------------------------ autograph, errors
@program
def autograph(function):
  @function
  def fizzbuzz(n):
    out = tf.TensorArray(tf.string, 0, dynamic_size=True)
    for i in tf.range(1, n + 1):
      if i % 15 == 0:
        s = tf.constant("FizzBuzz")
      elif i % 3 == 0:
        s = tf.constant("Fizz")
      else:
        s = tf.strings.as_string(i)
      out = out.write(i - 1, s)
      if i > 20:
        break
    return out.stack()

  return fizzbuzz(tf.constant(16)).numpy().tolist()


@program
def refusals(function):
  out = []

  def note(f, *args):
    try:
      out.append(f(*args).numpy())
    except Exception as e:  # What is compared is which.
      out.append([c.__name__ for c in (TypeError, ValueError, tf.errors.InvalidArgumentError)
                  if isinstance(e, c)])

  @function(input_signature=[tf.TensorSpec([None], tf.int32)])
  def f(x):
    return x + 1

  for args in (([1, 2],), (tf.constant([1.]),), (tf.constant([[1]]),), ("x",), (), ([1], [2])):
    note(f, *args)
  note(function(lambda x, y: tf.matmul(tf.reshape(x, [2, -1]), y)), tf.ones([5]), tf.ones([2, 2]))
  note(function(lambda: tf.Variable(1.)))

  @function
  def checked(x):
    tf.Assert(x > 0, ["bad", x])
    return x

  note(checked, tf.constant(1))
  note(checked, tf.constant(-1))
  try:
    checked(tf.constant(-7))
  except tf.errors.InvalidArgumentError as e:
    out.append(("bad" in e.message, "-7" in e.message))
  return out
