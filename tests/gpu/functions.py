"""The functions of the GPU's benchmark, as TensorFlow programs; `functions.py FOLDER` dumps them for
engine_bench, a folder each (tests/bench/traced.py).
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))

import numpy as np

import traced

# Larger values are written as their beginning, which is repeated: the bundle has to stay small.
MOST_BYTES = 1 << 16


def tiny_state():
  """A variable that changes and is read."""
  import tensorflow as tf
  x = tf.Variable(np.ones([16], np.float32))

  @tf.function
  def f(d):
    x.assign_add(d)
    return tf.reduce_sum(x * 2.0)

  return f, [np.ones([16], np.float32)]


def _matmul(dtype):
  import tensorflow as tf
  n = 8192
  a, b, c = (tf.Variable(tf.cast(tf.random.normal([n, n]), dtype)) for _ in range(3))

  @tf.function
  def f():
    c.assign(tf.matmul(a, b))

  return f, []


def matmul_bf16():
  return _matmul("bfloat16")


def matmul_f32():
  return _matmul("float32")


def chain_1gib():
  """16 elementwise ops on a variable."""
  import tensorflow as tf
  x = tf.Variable(tf.random.uniform([1 << 28]))

  @tf.function
  def f():
    y = x.read_value()
    for k in range(4):
      y = y * np.float32(1.0 + 1e-3 * k)
      y = y + np.float32(0.5)
      y = tf.maximum(y, -3.0)
      y = tf.minimum(y, 3.0)
    x.assign(y)

  return f, []


def while_1000():
  """A loop of 1,000 iterations over a tensor."""
  import tensorflow as tf
  x = tf.Variable(np.ones([1024], np.float32))

  @tf.function
  def f(n):
    i = tf.constant(0)
    y = x.read_value()
    while i < n:
      y = y * 0.5 + tf.reduce_sum(y) * 1e-4
      i += 1
    return tf.reduce_sum(y)

  return f, [np.int32(1000)]


FUNCTIONS = [
    traced.tiny_function, tiny_state, traced.mlp_inference, traced.mlp_adam_step, while_1000,
    matmul_bf16, matmul_f32, chain_1gib,
]


def main():
  folder = sys.argv[1]
  import tensorflow as tf
  for maker in FUNCTIONS:
    function, values = maker()
    concrete = function.get_concrete_function(*[tf.constant(v) for v in values])
    traced.dump(concrete, values, os.path.join(folder, maker.__name__), most_bytes=MOST_BYTES)


if __name__ == "__main__":
  main()
