"""The models of the benchmark against other inference engines, as TensorFlow programs.

Each maker returns (tf.function, inputs) as those of traced.py.
"""
import numpy as np

import traced


def _floats(*shape):
  return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _inference(model, *inputs):
  import tensorflow as tf
  return tf.function(lambda *x: model(*x, training=False)), list(inputs)


def _mlp(batch):
  return _inference(traced.mlp(), _floats(batch, 784))


def _lstm():
  import keras
  keras.utils.set_random_seed(1)
  model = keras.Sequential([keras.layers.Input((100, 128)), keras.layers.LSTM(128)])
  return _inference(model, _floats(32, 100, 128))


def _bidirectional():
  import keras
  keras.utils.set_random_seed(1)
  model = keras.Sequential([keras.layers.Input((100, 128)),
                            keras.layers.Bidirectional(keras.layers.LSTM(128))])
  return _inference(model, _floats(32, 100, 128))


def _resnet50():
  import keras
  keras.utils.set_random_seed(1)
  return _inference(keras.applications.ResNet50(weights=None), _floats(1, 224, 224, 3))


def _mobilenet():
  import keras
  keras.utils.set_random_seed(1)
  return _inference(keras.applications.MobileNetV2(weights=None), _floats(1, 224, 224, 3))


def _encoder(layers, width, heads, sequence):
  """Transformer encoder layers as BERT has them: normalised after each sum, GELU inside."""
  import keras
  import tensorflow as tf
  keras.utils.set_random_seed(1)

  def gelu(x):  # As BERT has it. Keras's own is made of Erfc, which tf2onnx does not know.
    return 0.5 * x * (1.0 + tf.math.erf(x * np.float32(np.sqrt(0.5))))

  x = start = keras.layers.Input((sequence, width))
  for _ in range(layers):
    attended = keras.layers.MultiHeadAttention(heads, width // heads)(x, x)
    x = keras.layers.LayerNormalization(epsilon=1e-6)(x + attended)
    inner = keras.layers.Dense(4 * width, activation=gelu)(x)
    x = keras.layers.LayerNormalization(epsilon=1e-6)(x + keras.layers.Dense(width)(inner))
  return _inference(keras.Model(start, x), _floats(1, sequence, width))


# Name, maker, calls for one measurement.
MODELS = [
    ("mlp_b1", lambda: _mlp(1), 500),
    ("mlp_b32", lambda: _mlp(32), 200),
    ("mlp_b256", lambda: _mlp(256), 40),
    ("elementwise_chain", traced.elementwise_chain, 20),
    ("lstm", _lstm, 10),
    ("bidirectional_lstm", _bidirectional, 10),
    ("encoder_4x256", lambda: _encoder(4, 256, 4, 128), 10),
    ("mobilenet_v2", _mobilenet, 10),
    ("resnet50", _resnet50, 3),
    ("bert_base_like", lambda: _encoder(12, 768, 12, 128), 1),
]
