"""More programs for test_function.py: arguments, results, signatures and concrete functions."""
import collections
import dataclasses
import functools
import inspect
import typing

import numpy as np
import tensorflow as tf

from programs import caught
from programs import program

_INT = tf.TensorSpec([], tf.int32)


@program
def structures_of_results(function):
  Point = collections.namedtuple("Point", "a b")

  @function
  def f(x):
    return {
        "list": [x, 1, None], "tuple": (x, 2.5, "s", True), "point": Point(x, [x, (x,)]),
        "empty": (), "none": {}, "ordered": collections.OrderedDict([("z", x), ("a", x + 1)]),
        "default": collections.defaultdict(list, k=[x])}

  return f(tf.constant(1)), f(tf.constant(1.5))


@program
def plain_results(function):
  none = function(lambda x: None)
  number = function(lambda x: 3)
  many = function(lambda x: (3, None, "a", 2.0, np.float64(3), np.array([1, 2]), True))
  return none(1), number(1), many(1), many(tf.constant(2))


@program
def dataclass_arguments(function):
  @dataclasses.dataclass
  class Pair:
    x: int
    y: float

    def __tf_flatten__(self):
      return (), (self.x, self.y)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
      return cls(*components)

  @function
  def f(d):
    return Pair(d.x + 1, d.y * 2)

  made = [f(Pair(tf.constant(k), tf.constant(2.))) for k in (1, 3)]
  return [(type(p).__name__, p.x, p.y) for p in made], f.experimental_get_tracing_count()


@program
def extension_types(function):
  class Masked(tf.experimental.ExtensionType):
    values: tf.Tensor
    mask: tf.Tensor
    scale: int = 2

    def total(self):
      return tf.reduce_sum(tf.where(self.mask, self.values, 0)) * self.scale

  @function
  def f(m):
    return m.total(), Masked(m.values + 1, m.mask, 3)

  a, b = f(Masked(tf.constant([1, 2, 3]), tf.constant([True, False, True])))
  c, d = f(Masked(tf.constant([1, 2]), tf.constant([True, False]), scale=5))
  return a, b.values, b.scale, c, d.mask, f.experimental_get_tracing_count()


@program
def ragged_signature(function):
  @function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
  def f(r):
    return r + 1, tf.reduce_sum(r, axis=1), r.row_lengths(), tf.concat([r, r], axis=0)

  return (f(tf.ragged.constant([[1, 2], [], [3]])), f(tf.ragged.constant([[5]])),
          f.experimental_get_tracing_count())


@program
def indexed_slices(function):
  @function
  def make(x):
    return tf.IndexedSlices(x * 2, tf.constant([0, 2]), tf.constant([4, 2]))

  s = make(tf.ones([2, 2]))
  dense = function(lambda s: (tf.convert_to_tensor(s), s.values))
  return type(s).__name__, s.values, s.indices, s.dense_shape, dense(s)


@program
def defaults_keywords_and_rest(function):
  @function
  def f(x, y=tf.constant(3), *args, z=2, **kwargs):
    return x + y * z + sum(args), sorted(kwargs), kwargs

  one = tf.constant(1)
  return (f(one), f(1, 2), f(x=1, y=2, z=3), f(one, z=tf.constant(5)), f(one, one, one, one),
          f(one, k=one, j=2), f.experimental_get_tracing_count())


@program
def signature_with_defaults(function):
  @function(input_signature=[tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.float32)])
  def f(x, y=2.0):
    return x * y

  return (f([1., 2.]), f([1., 2.], 5.), f(x=[1.], y=tf.constant(3.)), caught(f),
          caught(f, [1.], 2., 3.), caught(f, [[1.]]), f.experimental_get_tracing_count(),
          str(f.input_signature))


@program
def signature_converts(function):
  @function(input_signature=[tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec(None, tf.int32)])
  def f(x, i):
    return tf.shape(x), tf.rank(i), tf.reduce_sum(x)

  return (f(np.ones([3, 2], np.float32), 3), f([[1, 2]], [[1]]),
          caught(f, np.ones([3, 2]), 3), caught(f, tf.ones([2, 2], tf.float64), 1),
          caught(f, tf.ones([2, 3]), 1), caught(f, "a", 1))


@program
def signature_of_a_structure(function):
  spec = {"a": tf.TensorSpec([None], tf.int32),
          "b": (tf.TensorSpec([], tf.float32), [tf.TensorSpec([], tf.bool)])}

  @function(input_signature=[spec])
  def f(d):
    return {"sum": tf.reduce_sum(d["a"]), "b": d["b"]}

  return (f({"a": [1, 2], "b": (1.5, [True])}), caught(f, {"a": [1, 2]}),
          caught(f, {"a": [1, 2], "b": (1.5, [True, False])}), f.experimental_get_tracing_count())


@program
def concrete_functions_of_structures(function):
  @function
  def f(d, t):
    return d["x"] + d["y"] * t[0]

  c = f.get_concrete_function({"x": _INT, "y": _INT}, (_INT, 4))
  d = {"x": tf.constant(1), "y": tf.constant(2)}
  return (c(d, (tf.constant(3), 4)), caught(c, d, (tf.constant(3), 5)), [i.name for i in c.inputs],
          str(c.structured_input_signature), caught(c, tf.constant(1)), caught(c),
          str(c.structured_outputs), [t.shape.as_list() for t in c.outputs])


@program
def concrete_functions_with_captures(function):
  v, c0, big = tf.Variable(2.), tf.constant([1., 2.]), tf.ones([100])
  c = function(lambda x: x * v + c0 + tf.reduce_sum(big)).get_concrete_function(
      tf.TensorSpec([None]))
  v.assign(3.)
  return (c(tf.ones([2])), [t.dtype.name for t in c.captured_inputs], len(c.graph.inputs),
          len(c.variables), len(c.trainable_variables), str(c.output_shapes), c.output_dtypes.name)


@program
def concrete_functions_refuse(function):
  @function
  def f(x, flag=False):
    return x + 1 if flag else x

  c = f.get_concrete_function(_INT, flag=True)
  one = tf.constant(1)
  return (c(one), caught(c, one, True), caught(c, tf.constant(3.)), caught(c, one, flag=False),
          f.pretty_printed_concrete_signatures(), c.pretty_printed_signature(verbose=False))


@program
def what_retraces(function):
  traced = []

  @function
  def f(x, training=False):
    traced.append(1)
    return None

  ones = tf.ones
  for x in (ones([1]), ones([2]), ones([1, 1]), ones([1], tf.int32), [1., 2.], [1., 2.], (1.,),
            np.ones([2]), np.ones([2], np.float32), tf.Variable(1.), tf.Variable(2.), range(3),
            range(3), "a", b"a", np.int64(3), np.int64(4)):
    f(x)
  f(ones([1]), True)
  f(ones([1]), training=True)
  f(x=ones([1]), training=True)
  f(ones([1]), 1)
  f(ones([1]), 1.0)
  return len(traced), f.experimental_get_tracing_count()


@program
def contexts_retrace(function):
  @function
  def f(x):
    in_scope = tf.distribute.has_strategy() and tf.distribute.in_cross_replica_context()
    return x + (100 if in_scope else 0)

  strategy, x = tf.distribute.OneDeviceStrategy("/cpu:0"), tf.constant(1)
  out = [f(x), f(x)]
  with strategy.scope():
    out += [f(x), f(x)]
  return out + [f(x), strategy.run(f, (x,)), f.experimental_get_tracing_count()]


@program
def shapes_are_relaxed(function):
  shapes = []

  @function(reduce_retracing=True)
  def f(x, k=1):
    shapes.append(str(x.shape))
    return tf.reduce_sum(x) * k

  out = [f(tf.ones(s)) for s in ([1], [2], [3], [1, 2], [1, 3], [2, 3], [5])]
  return out, [f(tf.ones([1]), k) for k in (tf.constant(1.), 2., 3.)], shapes


@program
def objects_trace_for_themselves(function):
  class Scale:

    def __init__(self, k):
      self.k = k

  class Kind(tf.types.experimental.TraceType):

    def __init__(self, k):
      self.k = k

    def is_subtype_of(self, other):
      return self == other

    def most_specific_common_supertype(self, others):
      return self if all(self == o for o in others) else None

    def placeholder_value(self, placeholder_context=None):
      return Fruit(self.k)

    def __eq__(self, other):
      return isinstance(other, Kind) and self.k == other.k

    def __hash__(self):
      return hash(self.k)

  class Fruit:

    def __init__(self, k):
      self.k = k

    def __tf_tracing_type__(self, context):
      return Kind(self.k)

  traced = []

  @function
  def f(o, x):
    traced.append(o.k)
    return x * o.k

  a, one = Scale(2), tf.constant(1)
  out = [f(a, one), f(Scale(3), one), f(Fruit(4), one), f(Fruit(4), one), f(Fruit(5), one)]
  a.k = 10
  return out + [f(a, one)], traced


@program
def functions_as_arguments(function):
  @function
  def apply(g, x):
    return g(x)

  square, inner = lambda x: x * x, function(lambda y: y + 100)
  return (apply(square, tf.constant(3)), apply(square, tf.constant(4)),
          apply(inner, tf.constant(1)), apply(tf.square, tf.constant(5)),
          apply.experimental_get_tracing_count())


@program
def what_a_function_says_of_itself(function):
  @function
  def documented(x: tf.Tensor, y: int = 2) -> tf.Tensor:
    """Adds."""
    return x + y

  kinds = tf.types.experimental
  return (documented.__name__, documented.__doc__, documented.__wrapped__.__name__,
          str(inspect.signature(documented)), documented.python_function(1), documented.name,
          isinstance(documented, (kinds.GenericFunction, kinds.PolymorphicFunction)))


@program
def options_and_forms(function):
  class Callable:

    def __call__(self, x):
      return x + 1

  add = lambda x: x + 1
  out = [f(tf.constant(1)) for f in (
      function(add), function(func=add), function()(add), function(input_signature=None)(add),
      function(Callable()), function(functools.partial(add)), function(function(add)),
      function(tf.abs), function(add, [_INT]))]
  for options in (
      {"jit_compile": False}, {"experimental_implements": "x"}, {"experimental_attributes": {}},
      {"experimental_autograph_options": tf.autograph.experimental.Feature.ALL},
      {"experimental_relax_shapes": True}, {"experimental_follow_type_hints": None},
      {"no_such": 1}):
    out.append(caught(lambda: function(add, **options)(tf.constant(1))))
  return out, caught(function, 3)


@program
def wrong_arguments(function):
  @function
  def f(x, y):
    return x + y

  @function
  def changes_its_argument(l):
    l.append(tf.constant(5))
    return l

  errors = [caught(f), caught(f, 1), caught(f, 1, 2, 3), caught(f, 1, z=2), caught(f, 1, 2, x=3),
            caught(changes_its_argument, [tf.constant(1)])]
  return errors, [str(e) for e in errors], f(1, 2)


@program
def numpy_and_results(function):
  f = function(lambda x: x * 2)
  x = np.array([1., 2.], np.float32)
  y = f(x)
  x[0] = 10
  a = y.numpy()
  return (y, f(x), np.sum(y), y + np.ones(2, np.float32), np.array(y), float(y[1]), f(f(1.)),
          len(y), [float(v) for v in y], repr(y), y.device, a.flags.writeable, f(np.zeros([0, 3])),
          f(1 << 40), f(2.5), f(1j))


@program
def typed_namedtuples_and_key_order(function):
  class Pair(typing.NamedTuple):
    x: tf.Tensor
    y: tuple

  f = function(lambda t: Pair(t.x + 1, (t.y[0], Pair(t.x, ()))))
  g = function(lambda d: {k: v + 1 for k, v in d.items()})
  one, two = tf.constant(1), tf.constant(2)
  return (f(Pair(one, (tf.constant(2.),))), g({"b": one, "a": two}), g({"a": two, "b": one}),
          g({1: one, 0: two}), g.experimental_get_tracing_count())
