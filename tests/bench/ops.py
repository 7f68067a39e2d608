"""Single ops beside TensorFlow, one thread each, CPU time per call: families by dtypes by sizes.

  ops.py --engine BIN --out results.json [NAME...]

A NAME is a part of what is printed: "exp", "float64", "tanh float32". Measured as by
engine_bench.py; FORMWORK_ISA lowers the engine's level of vector instructions.
"""
import argparse
import json

import engine_bench

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


def main():
  p = argparse.ArgumentParser(description=__doc__)
  p.add_argument("--engine", required=True)
  p.add_argument("--out", required=True)
  p.add_argument("names", nargs="*")
  args = p.parse_args()
  engine_bench.one_thread()
  import tensorflow as tf
  rng = np.random.default_rng(0)
  results = []
  for op, (f, *ranges) in elementwise().items():
    for dtype in DTYPES:
      for size in SIZES:
        name = "%s %s %d" % (op, dtype, size)
        if args.names and not any(part in name for part in args.names):
          continue
        values = [rng.uniform(low, high, size).astype(dtype) for low, high in ranges]
        results.append(engine_bench.compare(name, tf.function(lambda *x, f=f: f(*x)), values,
                                            CALLS[size], args.engine))
  with open(args.out, "w") as out:
    json.dump(results, out, indent=1)


if __name__ == "__main__":
  main()
