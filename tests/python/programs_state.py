"""More programs for test_function.py: variables, modules, order, random numbers, errors."""
import gc
import sys
import threading
import weakref

import tensorflow as tf

from programs import caught
from programs import program


@program
def methods_are_inherited(function):
  class Base(tf.Module):

    def __init__(self):
      super().__init__()
      self.k = tf.Variable(1.)

    @function
    def __call__(self, x):
      return self.helper(x) * self.k

    def helper(self, x):
      return x + 1

    @function
    def reset(self):
      self.k.assign(0.)

  class Child(Base):

    def helper(self, x):
      return x + 100

    @function
    def __call__(self, x):
      return super().__call__(x) + 0.5

  a, b, one = Base(), Child(), tf.constant(1.)
  return ([a(one), b(one), a(one), b.reset(), b(one), a.k], Base.__call__(a, one),
          a.reset is a.reset, a.__call__.experimental_get_tracing_count(),
          len(b.trainable_variables))


@program
def objects_with_methods_are_let_go(function):
  class Scale:

    def __init__(self):
      self.v = tf.Variable(1)

    @function
    def f(self, x):
      return x + self.v

  s = Scale()
  r, ref = s.f(tf.constant(1)), weakref.ref(s)
  del s
  gc.collect()
  return r, ref() is None


@program
def rules_of_creation(function):
  made = []

  @function
  def always(x):
    return tf.Variable(1.) + x

  @function
  def once(x):
    if not made:
      made.append(tf.Variable(tf.random.stateless_normal([2], [1, 2])))
      made.append(tf.Variable(lambda: tf.zeros([2]), trainable=False))
    made[1].assign_add([1., 1.])
    return made[0] * x + made[1]

  @function
  def again(x):
    made.append(tf.Variable(2.))
    return made[-1] * x

  return caught(always, 1.), once(1.), once(tf.constant(3.)), caught(again, 1.), made[:2]


@program
def ways_to_change_a_variable(function):
  v, m = tf.Variable([1., 2., 3., 4.]), tf.Variable(tf.zeros([3, 2]))
  wide = tf.Variable([1.], shape=tf.TensorShape([None]))

  @function
  def f(x):
    a, b = v.assign_add(x), v.assign_sub(x * 0.5)
    rows = tf.constant([1])
    m.scatter_update(tf.IndexedSlices(tf.ones([1, 2]), rows))
    m.scatter_add(tf.IndexedSlices(tf.ones([1, 2]) * 3, rows))
    m.scatter_sub(tf.IndexedSlices(tf.ones([1, 2]), rows - 1))
    wide.assign(tf.concat([wide, wide], 0))
    return (a, b, v.sparse_read([0, 2]), tf.gather(v, [1]), v.value(), v[1:3], -v, tf.size(v), v,
            tf.shape(wide))

  out = [f(tf.ones([4])), f(tf.ones([4])), v, m, wide, str(wide.shape)]
  v[1].assign(50.)
  return out, f(tf.ones([4]))


@program
def changes_by_the_handle(function):
  v = tf.Variable([[1., 2.], [3., 4.]])
  f = function(lambda: v * 2.)
  out = [f()]
  tf.raw_ops.AssignAddVariableOp(resource=v.handle, value=tf.ones([2, 2]))
  out += [v.numpy(), f(), f()]
  tf.compat.v1.scatter_update(v, [1], [[7., 8.]])
  out += [f(), v.numpy(), tf.raw_ops.ReadVariableOp(resource=v.handle, dtype=tf.float32)]
  v[0].assign([5., 6.])
  return out + [f(), v.numpy()]


@program
def optimizers_of_version_1(function):
  out = []
  for optimizer in (tf.compat.v1.train.AdamOptimizer(.1),
                    tf.compat.v1.train.MomentumOptimizer(.1, .9)):
    v = tf.Variable([1., 2.])
    f = function(lambda: tf.reduce_sum(v ** 2))
    for _ in range(3):
      with tf.GradientTape() as tape:
        loss = f()
      optimizer.apply_gradients([(tape.gradient(loss, v), v)])
      out.append((loss, v.numpy()))
  return out


@program
def strings_bools_and_integers(function):
  s, b, i = tf.Variable("a"), tf.Variable([True, False]), tf.Variable(7, dtype=tf.int64)

  @function
  def f():
    s.assign(tf.strings.join([s, "b"]))
    b.assign(tf.logical_not(b))
    return s + "c", b, i.assign_add(1)

  return f(), f(), s, b, i


@program
def assignments_that_do_not_fit(function):
  v = tf.Variable([1., 2.])
  f = function(lambda x: v.assign(x))
  g = function(lambda x: v.assign(x), input_signature=[tf.TensorSpec(None, tf.float32)])
  return (caught(f, tf.ones([3])), caught(f, tf.constant([1, 2])), caught(g, tf.ones([3])),
          f(tf.ones([2])), v)


@program
def variables_in_structures(function):
  @function
  def f(d, l):
    d["a"].assign_add(1.)
    l[0].assign(l[1] + d["a"])
    return d["a"] + l[0]

  a, b, c = tf.Variable(1.), tf.Variable(2.), tf.Variable(3.)
  return (f({"a": a}, [b, c]), f({"a": a}, [a, c]), f({"a": b}, [c, a]), a, b, c,
          f.experimental_get_tracing_count())


@program
def order_of_effects(function):
  a, b = tf.Variable(1.), tf.Variable(2.)

  @function
  def f(p):
    r = [a.assign(b * 10) + 0, b.assign(a + 1) + 0, a.assign_add(b) + 0]
    tf.print("a", a, "b", b)
    if p:
      a.assign_sub(1.)
    else:
      b.assign(a - b)
    for i in tf.range(3):
      if i % 2 == 0:
        a.assign_add(tf.cast(i, tf.float32))
      else:
        b.assign(b - a)
    return r, a.read_value(), b.read_value()

  return f(tf.constant(True)), f(tf.constant(False)), a, b


@program
def effects_before_a_failure(function):
  v = tf.Variable(0)

  @function
  def f(x):
    tf.print("before")
    v.assign_add(1)
    tf.debugging.assert_positive(x)
    tf.print("after")
    return v.read_value()

  return f(tf.constant(1)), caught(f, tf.constant(-1)), v.numpy(), f(tf.constant(1)), v


@program
def printing(function):
  @function
  def inner(x):
    tf.print("inner", x)
    return x + 1

  @function
  def f(n):
    print("tracing")
    tf.print("begin")
    for i in tf.range(n):
      tf.print("i:", i, [i, {"a": i}], sep=" | ", end=";\n")
    tf.print(tf.constant([1.5, 2.25]), tf.range(10), summarize=2)
    tf.print(tf.constant("s"), tf.constant(["a", "b"]), True, None, 3.0, {"k": tf.ones([2, 2])})
    tf.print(tf.ones([4, 8]), 1e-9, tf.constant(1 / 3, tf.float64), tf.constant(float("nan")))
    tf.print(tf.constant([0.1], tf.half), tf.sparse.from_dense([[0, 1]]), "%s", "{}", "a\nb")
    return inner(inner(n))

  @function
  def to_stdout(x):
    tf.print("to stdout", x, output_stream=sys.stdout)

  to_stdout(tf.constant(1))
  return f(tf.constant(3)), f(tf.constant(1)), f(2)


@program
def seeds(function):
  out = []
  for _ in range(2):
    tf.random.set_seed(7)
    f = function(lambda: (tf.random.uniform([2]), tf.random.normal([2], seed=1)))
    out += [f(), f(), tf.random.uniform([2]), f()]
  return out


@program
def seeds_set_between_calls(function):
  tf.random.set_seed(7)

  @function
  def f():
    return tf.random.uniform([2]), tf.nn.dropout(tf.ones([4]), 0.5, seed=3)

  @function
  def g(x):
    return f()[0] + tf.random.shuffle(x, seed=5)

  x = tf.range(2.)
  out = [f(), g(x), f()]
  for seed in (7, 8):
    tf.random.set_seed(seed)
    out += [f(), f(), g(x)]
  return out, f.experimental_get_tracing_count()


@program
def traces_that_are_made_afresh_start_their_sequences(function):
  def make():
    tf.random.set_seed(7)

    @function
    def f():
      return tf.random.normal([2])
    return f

  return [[make()() for _ in range(2)], make()()]


@program
def local_functions_use_the_same_variables(function):
  v, w = tf.Variable(1.), tf.Variable([1., 2.])

  @tf.function
  def before(x):
    v.assign_add(x)
    return v * w

  out = [before(1.)]

  @function
  def there(x):
    v.assign(v * 2 + x)
    w.assign_add([1., 1.])
    return v + w

  @tf.function
  def after(x, u):
    u.assign_sub(x)
    return w + v

  out += [there(1.), before(1.), there(2.), there(0.), after(3., v), there(1.), after([1., 1.], w)]
  with tf.GradientTape() as tape:
    y = tf.reduce_sum(before(2.))
  out += [y, tape.gradient(y, [v, w]), there(1.), v, w]
  inside = there.get_concrete_function(tf.TensorSpec([], tf.float32))
  out += [inside(tf.constant(1.)), before.get_concrete_function(1.)(), v.numpy()]
  return out, caught(before, "a"), there(0.)


@program
def a_trace_inside_is_called_here_as_well(function):
  v = tf.Variable(1.)

  @tf.function
  def inner(x):
    return v.assign_add(x)

  @function
  def outer(x):
    return inner(x) * 10

  return outer(1.), inner(2.), outer(1.), inner(1.), v


@program
def datasets_use_variables(function):
  v, g = tf.Variable(1.), tf.random.Generator.from_seed(3)
  data = tf.data.Dataset.range(2).map(lambda x: tf.cast(x, tf.float32) * v)
  random = tf.data.Dataset.range(2).map(lambda x: g.uniform([]))

  @function
  def f(x):
    v.assign_add(x)
    return v + g.uniform([])

  out = []
  for _ in range(2):
    out += [list(data), f(1.), list(random), f(2.)]
  later = tf.data.Dataset.range(2).map(lambda x: v + g.normal([]))
  return out, list(later), f(1.), list(data), v


@program
def generators(function):
  g = tf.random.Generator.from_seed(1234)

  class Lazy(tf.Module):
    g = None

    @function
    def __call__(self):
      if self.g is None:
        self.g = tf.random.Generator.from_seed(3)
      return self.g.normal([2])

  @function
  def f():
    g.skip(3)
    return g.normal([2]), g.uniform([2], 0, 5, tf.int32), g.make_seeds(2)

  lazy = Lazy()
  return f(), f(), g.normal([2]), f(), g.state, lazy(), lazy()


@program
def failures_of_ops(function):
  any_shape = [tf.TensorSpec(None, tf.float32)]
  three = tf.ones([3])
  out = [caught(function(f, input_signature=any_shape), three) for f in (
      lambda x: tf.reshape(x, [2, 2]), lambda x: tf.matmul(x, x),
      lambda x: tf.concat([x, tf.ones([1, 1])], 0), lambda x: x + tf.ones([2]),
      lambda x: tf.ensure_shape(x, [2]), lambda x: tf.stack([x, tf.ones([2])]),
      lambda x: tf.squeeze(x, 0), lambda x: x[5], lambda x: tf.slice(x, [2], [5]),
      lambda x: tf.gather(x, 7))]
  divide = function(lambda x, y: x // y)
  return out, caught(divide, tf.constant(1), tf.constant(0)), divide(tf.constant(7), 2)


@program
def assertions(function):
  @function
  def f(x):
    tf.debugging.assert_non_negative(x)
    tf.debugging.assert_less(x, 10)
    tf.debugging.assert_rank(x, 1)
    tf.debugging.assert_shapes([(x, ("N",))])
    tf.debugging.assert_type(x, tf.int32)
    tf.debugging.assert_none_equal(x, 5, message="no fives")
    tf.debugging.Assert(tf.reduce_all(x < 8), [x, "too big"])
    return x

  errors = [caught(f, tf.constant(k)) for k in ([-1], [11], [5], [8], 3, [1.])]
  return f(tf.constant([1, 2])), errors, ["no fives" in str(e) for e in errors]


@program
def caught_as_tensorflows(function):
  @function
  def f(x):
    tf.debugging.assert_greater(x, 0, message="x must be > 0")
    return x

  out = []
  for kind in (tf.errors.InvalidArgumentError, tf.errors.OpError, Exception):
    try:
      f(tf.constant(-1))
    except kind as e:
      out += ["x must be > 0" in e.message, "x must be > 0" in str(e), e.error_code, e.op]
  return out


@program
def errors_of_the_trace(function):
  class Mine(Exception):
    pass

  @function
  def f(x):
    if x is None:
      raise Mine("no")
    raise ValueError("bad %s" % x.dtype)

  leaked = []
  function(lambda x: leaked.append(x * 2))(tf.constant(1))
  return (str(caught(f, None)), caught(f, tf.constant(1)),
          caught(function(lambda x: undefined_name + x), 1),
          caught(function(lambda x: x.no_such), tf.constant(1)),
          caught(function(lambda x: tf.matmul(x, x)), tf.ones([2, 3])),
          caught(function(lambda x: tf.constant(1) + tf.constant(1.)), 1),
          caught(function(lambda x: leaked[0] + x), tf.constant(1)))


@program
def functions_in_functions(function):
  traces, v = [], tf.Variable(1.)

  @tf.function
  def local(x):
    return x * v

  @function
  def inner(x):
    traces.append("inner")
    return local(x) * 2

  concrete = inner.get_concrete_function(tf.TensorSpec([], tf.float32))

  @function
  def outer(x):
    traces.append("outer")
    v.assign_add(x)
    made = function(lambda y: y * x)
    return inner(x) + concrete(x) + made(x)

  one = tf.constant(1.)
  return (outer(one), outer(tf.constant(2.)), inner(one), local(one), concrete(one), traces,
          inner.experimental_get_tracing_count())


@program
def many_threads(function):
  v = tf.Variable(0)
  f, g, out = function(lambda x: v.assign_add(x)), function(lambda x: x + 1), []
  f(tf.constant(0))

  def work(k):
    out.append(int(g(tf.constant(k))))
    for _ in range(10):
      f(tf.constant(1))

  threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
  for t in threads:
    t.start()
  for t in threads:
    t.join()
  return v, sorted(out), g.experimental_get_tracing_count()


@program
def what_the_trace_sees(function):
  seen, made = [], []

  @function
  def f(x):
    with tf.init_scope():
      made.append(tf.constant(5) + 1)
    seen.extend([tf.executing_eagerly(), tf.inside_function(), tf.is_tensor(x), str(x.shape),
                 caught(lambda: x.numpy()), caught(lambda: bool(x > 0)), tf.get_static_value(x)])
    with tf.name_scope("outer"), tf.device("/CPU:0"):
      return tf.identity(x + made[0], name="named")

  c = f.get_concrete_function(tf.TensorSpec([], tf.int32))
  return [o.name for o in c.graph.get_operations()], f(tf.constant(1)), seen


@program
def counting_up_to_a_limit(function):
  v, wide = tf.Variable(1), tf.Variable(tf.constant(-3, tf.int64))

  @function
  def count():
    return (tf.raw_ops.ResourceCountUpTo(resource=v.handle, limit=3, T=tf.int32),
            tf.raw_ops.ResourceCountUpTo(resource=wide.handle, limit=-1, T=tf.int64))

  return count(), count(), caught(count), v, wide


@program
def gradients_are_accumulated(function):
  raw, late = tf.raw_ops, tf.constant(2**40, tf.int64)

  def accumulated(dtype, shape, reduction):
    @function
    def f(gradient):
      a = raw.ResourceConditionalAccumulator(dtype=dtype, shape=shape, reduction_type=reduction,
                                             shared_name="%s of %s" % (reduction, dtype.name))
      raw.ResourceAccumulatorApplyGradient(handle=a, local_step=late, gradient=gradient)
      raw.ResourceAccumulatorApplyGradient(handle=a, local_step=late, gradient=gradient * gradient)
      before = raw.ResourceAccumulatorNumAccumulated(handle=a)
      taken = raw.ResourceAccumulatorTakeGradient(handle=a, num_required=2, dtype=dtype)
      raw.ResourceAccumulatorSetGlobalStep(handle=a, new_global_step=late - 3)
      raw.ResourceAccumulatorApplyGradient(handle=a, local_step=late - 4, gradient=gradient)
      raw.ResourceAccumulatorApplyGradient(handle=a, local_step=late - 3, gradient=gradient)
      left = raw.ResourceAccumulatorNumAccumulated(handle=a)
      return before, taken, left
    return f

  results = []
  for dtype in [tf.float16, tf.float32, tf.float64]:
    for reduction in ["MEAN", "SUM"]:
      f = accumulated(dtype, [None, 2], reduction)
      for value in [[[1.1, -2.3]], [[0.3, 4.]]]:
        results.append(f(tf.constant(value, dtype)))

  @function
  def wrong(gradient):
    a = raw.ResourceConditionalAccumulator(dtype=tf.float32, shape=[2], shared_name="wrong")
    raw.ResourceAccumulatorApplyGradient(handle=a, local_step=late, gradient=gradient)

  @function
  def none(required):
    a = raw.ResourceConditionalAccumulator(dtype=tf.float32, shape=[2], shared_name="none")
    return raw.ResourceAccumulatorTakeGradient(handle=a, num_required=required, dtype=tf.float32)

  return (results, caught(wrong, tf.constant([1.])), caught(none, tf.constant(0)),
          caught(none, tf.constant(-1)))


@program
def calls_at_a_device(function):
  """Each has its effects, in their order, whether or not its results are used."""
  v = tf.Variable(1.)

  @tf.function
  def add(x):
    return v.assign_add(x), x * v

  @tf.function
  def twice(x):
    return tf.stack([x, x])

  def call(f, *args, target="/job:localhost/replica:0/task:0/device:CPU:0"):
    f = f.get_concrete_function(*args)
    args = [*map(tf.convert_to_tensor, args), *f.captured_inputs]
    return tf.raw_ops.RemoteCall(target=target, args=args, f=f,
                                 Tout=[y.dtype for y in f.outputs])

  @function
  def g(x):
    call(add, x)
    y = call(add, x * 2.)
    v.assign(v * 10.)
    return y, call(twice, y[0]), v.read_value()

  return g(tf.constant(2.)), g(tf.constant(-1.)), v.read_value()


@program
def batched_functions(function):
  w = tf.Variable([[2.], [3.]])

  @tf.nondifferentiable_batch_function(1, 8, 1000, allowed_batch_sizes=[2, 8])
  def f(x, y):
    return tf.matmul(x, w), {"sum": x + y}

  @function
  def g(x):
    y, rest = f(x, x * 2.)
    return y + 1., rest

  return g(tf.constant([[1., 2.]])), g(tf.reshape(tf.range(10.), [5, 2]))
