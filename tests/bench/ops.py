"""Single ops beside TensorFlow, one thread each, CPU time per call: families by dtypes by sizes.

  ops.py --engine BIN --out results.json [NAME...]

A NAME is a part of what is printed: "exp", "float64", "tanh float32"; "families" stands for all of
op_families.py, whose geometric means are printed by family. Measured as by
engine_bench.py, but that TensorFlow runs single elementwise ops eagerly: there a function's call can cost
more than a hundred thousand elements. FORMWORK_ISA lowers the engine's level of vector
instructions.
"""
import argparse
import itertools
import json
import math

import engine_bench
import op_families

import numpy as np

SIZES = (1000, 100000)
DTYPES = ("float32", "float64", "float16")
CALLS = {1000: 500, 100000: 20}


def elementwise():
  """By name: a function of as many arguments as it has, and where they lie."""
  import tensorflow as tf
  any_number, positive, fraction = (-4, 4), (0.1, 8), (-0.9, 0.9)
  ops = {
      "add": (tf.add, any_number, any_number),
      "mul": (tf.multiply, any_number, any_number),
      "div": (tf.divide, any_number, positive),
      "maximum": (tf.maximum, any_number, any_number),
      "pow": (tf.pow, positive, any_number),
      "atan2": (tf.atan2, any_number, any_number),
      "log": (tf.math.log, positive),
      "log1p": (tf.math.log1p, positive),
      "sqrt": (tf.sqrt, positive),
      "rsqrt": (tf.math.rsqrt, positive),
      "lgamma": (tf.math.lgamma, positive),
      "digamma": (tf.math.digamma, positive),
      "asin": (tf.asin, fraction),
      "atanh": (tf.atanh, fraction),
  }
  for f in (tf.exp, tf.math.expm1, tf.tanh, tf.sigmoid, tf.nn.softplus, tf.math.erf, tf.math.erfc,
            tf.sin, tf.cos, tf.tan, tf.atan, tf.sinh, tf.cosh, tf.asinh, tf.nn.relu, tf.nn.elu,
            tf.nn.selu, tf.floor, tf.round, tf.abs, tf.sign, tf.square):
    ops[f.__name__] = (f, any_number)
  return ops


def of_elementwise():
  """(name, tf.function, its arguments, calls in a round) of each."""
  import tensorflow as tf
  rng = np.random.default_rng(0)
  for op, (f, *ranges) in elementwise().items():
    for dtype in DTYPES:
      for size in SIZES:
        values = [rng.uniform(low, high, size).astype(dtype) for low, high in ranges]
        yield ("%s %s %d" % (op, dtype, size), tf.function(lambda *x, f=f: f(*x)), values,
               CALLS[size])


def of_reductions():
  """As of_elementwise(): elementwise steps whose result is reduced along trailing dimensions."""
  import tensorflow as tf
  rng = np.random.default_rng(0)

  def normal(*shape, dtype=np.float32):
    return rng.normal(size=shape).astype(dtype)

  def halves(*shape):
    return normal(*shape, dtype=np.float16)

  def bfloats(*shape):
    return normal(*shape, dtype=tf.bfloat16.as_numpy_dtype)

  def error(x, y):
    return tf.reduce_mean(tf.math.squared_difference(x, y))

  def products(x, y):
    return tf.reduce_sum(x * y, -1)

  def softmax(x):
    e = tf.exp(x - tf.reduce_max(x, -1, keepdims=True))
    return e / tf.reduce_sum(e, -1, keepdims=True)

  for name, f, values, calls in (
      ("mean squared error 4000000", error, [normal(4000000), normal(4000000)], 20),
      ("mean squared error 262144", error, [normal(512, 512), normal(512, 512)], 200),
      ("products 16384x256", products, [normal(16384, 256), normal(16384, 256)], 20),
      ("products 4096x1000", products, [normal(4096, 1000), normal(4096, 1000)], 20),
      ("products 64x10", products, [normal(64, 10), normal(64, 10)], 2000),
      ("softmax 4096x256", softmax, [normal(4096, 256)], 20),
      ("moments 8192x256", lambda x: tf.nn.moments(x, [-1]), [normal(8192, 256)], 20),
      ("distances 500x500x8", lambda x, y: tf.reduce_sum((x[:, None] - y) ** 2, -1),
       [normal(500, 8), normal(500, 8)], 20),
      ("max 6000x50", lambda x: tf.reduce_max(x, -1), [normal(6000, 50)], 50),
      ("max 100000x3", lambda x: tf.reduce_max(x, -1), [normal(100000, 3)], 50),
      ("log-sum-exp 10000x50", lambda x: tf.reduce_logsumexp(x, -1), [normal(10000, 50)], 20),
      ("mean squared error float16", error, [halves(512, 512), halves(512, 512)], 200),
      ("mean squared error bfloat16", error, [bfloats(512, 512), bfloats(512, 512)], 200),
      ("sum float16", tf.reduce_sum, [halves(512, 512)], 200),
      ("sum of rows float16", lambda x: tf.reduce_sum(x, -1), [halves(512, 512)], 200),
      ("sum of columns float16", lambda x: tf.reduce_sum(x, 0), [halves(512, 512)], 200),
      ("mean float16", tf.reduce_mean, [halves(512, 512)], 200),
      ("max float16", tf.reduce_max, [halves(512, 512)], 200),
      ("max of columns float16", lambda x: tf.reduce_max(x, 0), [halves(512, 512)], 200),
      ("sum bfloat16", tf.reduce_sum, [bfloats(512, 512)], 200),
      ("max bfloat16", tf.reduce_max, [bfloats(512, 512)], 200)):
    yield "reduced " + name, tf.function(f), values, calls


def of_broadcasts():
  """As of_elementwise(): one operand is repeated over the other."""
  import tensorflow as tf
  rng = np.random.default_rng(0)
  for name, shape, repeated, calls in (
      ("colours", (8, 224, 224, 3), (3,), 20),
      ("channels", (64, 26, 26, 32), (32,), 20),
      ("features", (512, 64), (64,), 500),
      ("images' channels", (8, 64, 64, 8), (8, 1, 1, 8), 100),
      ("columns of 3", (200000, 3), (200000, 1), 20),
      ("columns of 64", (20000, 64), (20000, 1), 20),
      ("steps", (64, 100, 32), (64, 1, 32), 100)):
    values = [rng.normal(size=s).astype(np.float32) for s in (shape, repeated)]
    yield "broadcast " + name, tf.function(tf.add), values, calls


def of_tables():
  """As of_elementwise(): tables of `size` keys, which are all looked up, set anew or put into an
  empty one; "insert 10" sets 10 of them.
  """
  import tensorflow as tf
  raw = tf.raw_ops
  rng = np.random.default_rng(0)
  for key in (tf.int64, tf.string):
    for size in SIZES:
      numbers = rng.permutation(np.arange(size, dtype=np.int64) * 7919)
      keys = tf.constant(numbers)
      if key == tf.string:
        keys = tf.strings.join(["a key of some length ", tf.as_string(keys)])
      keys = keys.numpy()
      values = np.arange(size, dtype=np.int64)
      shuffled = rng.permutation(keys)

      def find(values, keys=keys, shuffled=shuffled, name="find_%s_%d" % (key.name, size)):
        return raw.LookupTableFindV2(table_handle=_filled(name, keys, values), keys=shuffled,
                                     default_value=tf.constant(0, tf.int64))

      def insert(values, keys=keys, name="insert_%s_%d" % (key.name, size)):
        raw.LookupTableInsertV2(table_handle=_table(name, keys), keys=keys, values=values)
        return values[0]

      def insert_10(values, keys=keys, shuffled=shuffled, name="few_%s_%d" % (key.name, size)):
        raw.LookupTableInsertV2(table_handle=_filled(name, keys, values), keys=shuffled[:10],
                                values=values[:10])
        return values[0]

      def fill(values, keys=keys, name="import_%s_%d" % (key.name, size)):
        raw.LookupTableImportV2(table_handle=_table(name, keys), keys=keys, values=values)
        return values[0]

      for name, f in (("find", find), ("insert", insert), ("insert 10", insert_10),
                      ("fill", fill)):
        yield ("table %s %s %d" % (name, key.name, size), tf.function(lambda *x, f=f: f(*x)),
               [values], CALLS[size])


def _table(name, keys):
  import tensorflow as tf
  return tf.raw_ops.MutableHashTableV2(
      shared_name=name, key_dtype=tf.as_dtype(keys.dtype), value_dtype=tf.int64)


def _filled(name, keys, values):
  """A table that the first call fills."""
  import tensorflow as tf
  table = _table(name, keys)

  def fill():
    tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=keys, values=values)
    return 0
  tf.cond(tf.equal(tf.raw_ops.LookupTableSizeV2(table_handle=table), 0), fill, lambda: 0)
  return table


def of_families(args, results):
  """Measures those of op_families.py that are asked for, and prints means by family."""
  import tensorflow as tf
  ratios = {}
  for family, name, function, values, calls in op_families.functions():
    if not args.names or "families" in args.names or any(part in name for part in args.names):
      result = engine_bench.compare(name, tf.function(function), values, calls, args.engine)
      results.append(result)
      ratios.setdefault(family, []).append(result["ratio"])
  if not ratios:
    return
  print("\n%-20s %6s %6s" % ("family", "mean", "worst"))
  for family, values in ratios.items():
    print("%-20s %6.2f %6.2f" % (family, _mean(values), max(values)))
  print("%-20s %6.2f" % ("all families", _mean([_mean(values) for values in ratios.values()])))


def _mean(ratios):
  """The geometric one."""
  return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))


def main():
  p = argparse.ArgumentParser(description=__doc__)
  p.add_argument("--engine", required=True)
  p.add_argument("--out", required=True)
  p.add_argument("names", nargs="*")
  args = p.parse_args()
  engine_bench.one_thread()
  results = []
  for name, function, values, calls in itertools.chain(of_elementwise(), of_reductions(), of_broadcasts(),
                                                     of_tables()):
    if not args.names or any(part in name for part in args.names):
      results.append(engine_bench.compare(name, function, values, calls, args.engine,
                                          eager=not name.startswith(("reduced", "table"))))
  of_families(args, results)
  with open(args.out, "w") as out:
    json.dump(results, out, indent=1)


if __name__ == "__main__":
  main()
