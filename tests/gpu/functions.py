"""The functions of the GPU's benchmark, as TensorFlow programs; `functions.py FOLDER` dumps them for
engine_bench, a folder each (tests/bench/traced.py).
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))

import numpy as np

import traced

# Larger values are written as their beginning, which is repeated: the bundle has to stay small. Of all
# values of a function together, and of one of them at most.
MOST_BYTES, MOST_OF_ONE = 1 << 20, 1 << 16


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


def _resnet50():
  import keras
  keras.utils.set_random_seed(1)
  policy = keras.mixed_precision.dtype_policy()
  keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
  try:
    return keras.applications.ResNet50(weights=None, classifier_activation=None)
  finally:
    keras.mixed_precision.set_dtype_policy(policy)


def resnet50_b32():
  """Inference in bfloat16; the images are on the GPU, and are scaled by what is given."""
  import tensorflow as tf
  model = _resnet50()
  x = tf.Variable(np.random.default_rng(0).normal(size=(32, 224, 224, 3)).astype(np.float32))
  return tf.function(lambda scale: model(x * scale, training=False)), [np.float32(1)]


def resnet50_step():
  """A step of training by SGD with momentum, batch 64, mixed bfloat16; the images are on the GPU."""
  import keras
  import tensorflow as tf
  model = _resnet50()
  optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
  optimizer.build(model.trainable_variables)
  rng = np.random.default_rng(0)
  x = tf.Variable(rng.normal(size=(64, 224, 224, 3)).astype(np.float32))
  y = tf.Variable(rng.integers(0, 1000, size=(64,)))
  loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

  @tf.function
  def step():
    with tf.GradientTape() as tape:
      loss = loss_of(y, tf.cast(model(x, training=True), tf.float32))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

  return step, []


def transformer_block():
  """Forward, bfloat16: 8 sequences of 512, 1024 wide, 16 heads, on the GPU, scaled by what is given."""
  import tensorflow as tf
  batch, length, width, heads = 8, 512, 1024, 16
  rng = np.random.default_rng(0)

  def weights(*shape):
    return tf.Variable(tf.cast(rng.normal(0, 0.02, size=shape), tf.bfloat16))

  sequences = weights(batch, length, width)
  qkv, out = weights(width, 3 * width), weights(width, width)
  up, down = weights(width, 4 * width), weights(4 * width, width)
  up_bias, down_bias = weights(4 * width), weights(width)
  scales = [weights(width) for _ in range(4)]

  def norm(y, gamma, beta):
    mean, variance = tf.nn.moments(tf.cast(y, tf.float32), [-1], keepdims=True)
    normal = (tf.cast(y, tf.float32) - mean) * tf.math.rsqrt(variance + 1e-5)
    return tf.cast(normal, tf.bfloat16) * gamma + beta

  @tf.function
  def f(scale):
    x = sequences * tf.cast(scale, tf.bfloat16)
    y = norm(x, scales[0], scales[1])
    parts = tf.reshape(tf.matmul(tf.reshape(y, [-1, width]), qkv), [batch, length, 3, heads, -1])
    q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * (width // heads) ** -0.5)
    mixed = tf.reshape(tf.transpose(tf.matmul(scores, v), [0, 2, 1, 3]), [-1, width])
    y = x + tf.reshape(tf.matmul(mixed, out), x.shape)
    z = tf.reshape(norm(y, scales[2], scales[3]), [-1, width])
    z = tf.nn.gelu(tf.matmul(z, up) + up_bias, approximate=True)
    y += tf.reshape(tf.matmul(z, down) + down_bias, x.shape)
    return tf.reduce_sum(tf.cast(y, tf.float32), [1, 2])

  return f, [np.float32(1)]


FUNCTIONS = [
    traced.tiny_function, tiny_state, traced.mlp_inference, traced.mlp_adam_step, while_1000,
    matmul_bf16, matmul_f32, chain_1gib, resnet50_b32, resnet50_step, transformer_block,
]


def main():
  folder = sys.argv[1]
  import tensorflow as tf
  for maker in FUNCTIONS:
    function, values = maker()
    concrete = function.get_concrete_function(*[tf.constant(v) for v in values])
    # A whole number of elements of any dtype.
    share = MOST_BYTES // (len(values) + len(concrete.captured_inputs) + 1) // 1024 * 1024
    traced.dump(concrete, values, os.path.join(folder, maker.__name__),
                most_bytes=min(MOST_OF_ONE, share))


if __name__ == "__main__":
  main()
