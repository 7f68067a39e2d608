"""The functions of the engine benchmark, as TensorFlow programs.

Each maker returns (tf.function, inputs). `dump` writes what the engine needs to run one: the
GraphDef, the cut, and the values of inputs and captures.
"""
import json
import os

import numpy as np


def tiny_function():
  import tensorflow as tf
  w = tf.Variable(np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32))
  b = tf.Variable(np.zeros(4, np.float32))

  @tf.function
  def f(x):
    return tf.nn.relu(tf.matmul(x, w) + b)

  return f, [np.ones((4, 4), np.float32)]


def mlp():
  import keras
  keras.utils.set_random_seed(1)
  return keras.Sequential([
      keras.layers.Input((784,)),
      keras.layers.Dense(512, activation="relu"),
      keras.layers.Dense(512, activation="relu"),
      keras.layers.Dense(10),
  ])


def mlp_inference():
  import tensorflow as tf
  model = mlp()
  f = tf.function(lambda x: model(x, training=False))
  return f, [np.random.default_rng(0).normal(size=(32, 784)).astype(np.float32)]


def _train_step(model, optimizer, x, y):
  import keras
  import tensorflow as tf
  loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  optimizer.build(model.trainable_variables)

  @tf.function
  def step(x, y):
    with tf.GradientTape() as tape:
      loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

  return step, [x, y]


def mlp_adam_step():
  import keras
  rng = np.random.default_rng(0)
  return _train_step(mlp(), keras.optimizers.Adam(1e-3),
                     rng.normal(size=(64, 784)).astype(np.float32),
                     rng.integers(0, 10, size=(64,)).astype(np.int64))


def while_loop():
  import tensorflow as tf

  @tf.function
  def f(n):
    i = tf.constant(0)
    x = tf.constant(0.0)
    while i < n:
      x += 1.0
      i += 1
    return x

  return f, [np.int32(10000)]


def elementwise_chain():
  import tensorflow as tf

  @tf.function
  def f(x):
    for k in range(16):
      x = x * np.float32(1.0 + 1e-3 * k)
      x = x + np.float32(0.5)
      x = tf.maximum(x, -3.0)
      x = tf.minimum(x, 3.0)
    return x

  return f, [np.random.default_rng(0).normal(size=(1000, 1000)).astype(np.float32)]


def cnn_step():
  import keras
  keras.utils.set_random_seed(1)
  model = keras.Sequential([
      keras.layers.Input((28, 28, 1)),
      keras.layers.Conv2D(32, 3, activation="relu"),
      keras.layers.MaxPooling2D(),
      keras.layers.Conv2D(64, 3, activation="relu"),
      keras.layers.MaxPooling2D(),
      keras.layers.Flatten(),
      keras.layers.Dense(10),
  ])
  rng = np.random.default_rng(0)
  return _train_step(model, keras.optimizers.SGD(0.01),
                     rng.normal(size=(64, 28, 28, 1)).astype(np.float32),
                     rng.integers(0, 10, size=(64,)).astype(np.int64))


def resnet50_b1():
  import keras
  import tensorflow as tf
  keras.utils.set_random_seed(1)
  model = keras.applications.ResNet50(weights=None)
  f = tf.function(lambda x: model(x, training=False))
  return f, [np.random.default_rng(0).normal(size=(1, 224, 224, 3)).astype(np.float32)]


# Name, maker, calls for one measurement.
FUNCTIONS = [
    ("tiny_function", tiny_function, 2000),
    ("mlp_inference", mlp_inference, 200),
    ("mlp_adam_step", mlp_adam_step, 40),
    ("while_loop", while_loop, 10),
    ("elementwise_chain", elementwise_chain, 20),
    ("cnn_step", cnn_step, 5),
    ("resnet50_b1", resnet50_b1, 4),
]


def dump(concrete, inputs, folder, most_bytes=None):
  """Writes graph.pb, cut.json and raw little-endian values; of those that are larger than
  `most_bytes` the beginning, which is repeated.
  """
  import tensorflow as tf
  os.makedirs(folder, exist_ok=True)
  with open(os.path.join(folder, "graph.pb"), "wb") as f:
    f.write(concrete.graph.as_graph_def().SerializeToString())
  cut = {"inputs": [], "outputs": [], "targets": [], "captures": []}

  def entry(name, array):
    path = "v%d.bin" % (len(cut["inputs"]) + len(cut["captures"]))
    array = np.asarray(array)
    data = array.tobytes()
    repeats = most_bytes is not None and len(data) > most_bytes
    with open(os.path.join(folder, path), "wb") as f:
      f.write(data[:most_bytes] if repeats else data)
    return {"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "file": path,
            "repeats": repeats}

  specs = [t for t in concrete.inputs][:len(inputs)]
  for spec, value in zip(specs, inputs):
    cut["inputs"].append(entry(spec.name, value))
  for captured, placeholder in concrete.graph.captures:
    if captured.dtype == tf.resource:
      variable = next(v for v in concrete.graph.variables if v.handle is captured)
      cut["captures"].append(dict(entry(placeholder.name, variable.numpy()), variable=True))
    else:
      cut["captures"].append(dict(entry(placeholder.name, captured.numpy()), variable=False))
  cut["outputs"] = [t.name for t in concrete.outputs]
  cut["targets"] = [op.name for op in concrete.graph.control_outputs]
  with open(os.path.join(folder, "cut.json"), "w") as f:
    json.dump(cut, f)
