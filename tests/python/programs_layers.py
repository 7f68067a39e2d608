"""More programs for test_function.py: training steps through the kinds of Keras layers."""
import tempfile

import keras
import numpy as np
import tensorflow as tf

from programs import PROGRAMS
from programs import program

_RANDOM = np.random.default_rng(0)
_IMAGES = _RANDOM.normal(size=(4, 8, 8, 3)).astype(np.float32)
_STEPS = _RANDOM.normal(size=(4, 5, 6)).astype(np.float32)
_VOLUMES = _RANDOM.normal(size=(4, 5, 6, 4, 2)).astype(np.float32)
_ROWS = _STEPS[:, 0]
_IDS = _RANDOM.integers(0, 10, (4, 5)).astype(np.int32)
_LABELS = np.array([0, 1, 2, 0])

layers = keras.layers

# Inputs, and the layers between them and three logits.
_STACKS = {
    "convolutions": (_IMAGES, lambda: [
        layers.Conv2D(4, 3, padding="same", strides=2, activation="relu"),
        layers.BatchNormalization(), layers.MaxPooling2D(), layers.Dropout(0.2, seed=1),
        layers.Flatten()]),
    "other_convolutions": (_IMAGES, lambda: [
        layers.SeparableConv2D(4, 3), layers.DepthwiseConv2D(3),
        layers.Conv2DTranspose(4, 3, strides=2), layers.AveragePooling2D(2),
        layers.ZeroPadding2D(), layers.Cropping2D(1), layers.Reshape((16, 4)),
        layers.Conv1D(4, 3, padding="causal"), layers.GlobalMaxPooling1D()]),
    "volumes": (_VOLUMES, lambda: [
        layers.Conv3D(4, 3, padding="same", strides=(1, 2, 1), activation="relu"),
        layers.MaxPooling3D((2, 1, 2)), layers.Conv3DTranspose(3, 2, strides=2),
        layers.Conv3D(4, 1, strides=3), layers.Conv3D(2, (1, 2, 1), padding="valid"),
        layers.AveragePooling3D(1), layers.GlobalAveragePooling3D()]),
    "recurrent": (_STEPS, lambda: [
        layers.Bidirectional(layers.GRU(2, return_sequences=True)), layers.SimpleRNN(3)]),
    "masked_steps": (_IDS, lambda: [layers.Embedding(10, 4, mask_zero=True), layers.LSTM(3)]),
    "norms_and_shapes": (_STEPS, lambda: [
        layers.LayerNormalization(), layers.GroupNormalization(2), layers.UnitNormalization(),
        layers.TimeDistributed(layers.Dense(2)), layers.Permute((2, 1)),
        layers.EinsumDense("abc,cd->abd", (2, 4), bias_axes="d"), layers.Flatten(),
        layers.Rescaling(0.5, 1.)]),
    "kinds_of_dense": (_ROWS, lambda: [
        layers.Dense(8, "gelu", kernel_regularizer="l2", activity_regularizer="l1"),
        layers.GaussianNoise(0.1, seed=1), layers.Dense(8, "selu", kernel_constraint="max_norm"),
        layers.AlphaDropout(0.1, seed=3), layers.Dense(8, "softplus"), layers.Dropout(0.5),
        layers.PReLU(), layers.ELU(), layers.Dense(8, "tanh"), layers.Softmax()]),
}


def _train(x, make_layers):
  def train(function):
    model = keras.Sequential([
        layers.Input(x.shape[1:], dtype=x.dtype.name), *make_layers(), layers.Dense(3)])
    optimizer = keras.optimizers.Adam(0.01)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @function
    def step(x, y):
      with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
        if model.losses:
          loss += tf.add_n(model.losses)
      variables = model.trainable_variables
      optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
      return loss

    return [step(x, _LABELS) for _ in range(2)], model.get_weights(), model(x[:2])
  return train


for _name, _stack in _STACKS.items():
  PROGRAMS["layers_" + _name] = _train(*_stack)


@program
def losses(function):
  p = tf.constant([[.1, .7, .2], [.3, .3, .4]])
  y = tf.constant([[0., 1., 0.], [1., 0., 0.]])
  out = []
  for name in ("BinaryCrossentropy", "CategoricalCrossentropy", "Huber", "KLDivergence",
               "CategoricalHinge", "CosineSimilarity", "LogCosh"):
    loss_of = getattr(keras.losses, name)()

    @function
    def f(y, p):
      with tf.GradientTape() as tape:
        tape.watch(p)
        loss = loss_of(y, p)
      return loss, tape.gradient(loss, p)

    out.append(f(y, p))
  return out


@program
def metrics_of_many_kinds(function):
  p = np.array([[.1, .7, .2], [.3, .3, .4]], np.float32)
  y = np.array([[0, 1, 0], [1, 0, 0]], np.float32)
  out = []
  for name in ("CategoricalAccuracy", "Precision", "F1Score", "MeanSquaredError"):
    metric = getattr(keras.metrics, name)()

    @function
    def f(y, p):
      metric.update_state(y, p)
      return metric.result()

    out.append((name, f(y, p), f(y[:1], p[:1]), metric.result()))
  return out


@program
def several_inputs_and_outputs(function):
  a, b = layers.Input((4,), name="a"), layers.Input((3,), name="b")
  h = layers.Concatenate()([layers.Dense(4)(a), layers.Dense(4)(b)])
  h = layers.Multiply()([layers.Add()([layers.Dense(8)(h), h]), layers.Dense(8, "sigmoid")(h)])
  model = keras.Model({"a": a, "b": b}, {"one": layers.Dense(1)(h), "two": layers.Dense(2)(h)})
  f = function(lambda d, training=False: model(d, training=training))
  d = {"a": np.ones((2, 4), np.float32), "b": np.ones((2, 3), np.float32)}
  return f(d), f(d, training=True), f.experimental_get_tracing_count()


@program
def frozen_layers(function):
  model = keras.Sequential([
      layers.Input((6,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(1)])
  f = function(lambda x, training: model(x, training=training))
  before = f(_ROWS, True)
  model.layers[1].trainable = False
  return before, f(_ROWS, True), f(_ROWS, False), model.get_weights()


@program
def recurrent_cells_at_inference(function):
  # Of sizes at which a step's products become one.
  x = np.random.default_rng(1).normal(size=(6, 7, 40)).astype(np.float32)
  outs = []
  for layer in (layers.LSTM(32), layers.GRU(48, return_sequences=True), layers.SimpleRNN(24),
                layers.GRU(32, reset_after=False), layers.LSTM(16, use_bias=False),
                layers.Bidirectional(layers.LSTM(32, return_sequences=True))):
    model = keras.Sequential([layers.Input((None, 40)), layer])
    for weight in model.weights:  # Biases that are not 0.
      weight.assign(0.3 * np.random.default_rng(2).normal(size=weight.shape))
    f = function(lambda x, model=model: model(x, training=False))
    g = function(lambda x, model=model: model(x, training=False),
                 input_signature=[tf.TensorSpec([None, None, 40])])
    outs += [f(x), f(x[:, :3]), g(x), g(x[:4, :2]), g(x[:1]), f(x)]
    model.weights[0].assign(model.weights[0] * 0.5)
    outs.append(f(x))
  return outs


@program
def stateful_steps(function):
  model = keras.Sequential([layers.Input(batch_shape=(2, 5, 6)), layers.LSTM(3, stateful=True)])
  f = function(lambda x: model(x))
  out = [f(_STEPS[:2]), f(_STEPS[:2])]
  model.layers[0].reset_state()
  return out, f(_STEPS[:2])


@program
def random_numbers_of_keras(function):
  seed = keras.random.SeedGenerator(5)

  @function
  def f():
    return (keras.random.normal((2,), seed=seed), keras.random.uniform((2,), seed=seed),
            keras.random.randint((2,), 0, 10, seed=seed), keras.random.dropout(
                tf.ones([4]), .5, seed=seed), keras.random.truncated_normal((2,), seed=1))

  return f(), f(), seed.state.numpy()


@program
def weights_saved_and_loaded(function):
  model = keras.Sequential([layers.Input((6,)), layers.Dense(3)])
  f = function(lambda x: model(x))
  optimizer = keras.optimizers.SGD(0.1)

  @function
  def step(x):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(model(x) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

  with tempfile.TemporaryDirectory() as folder:
    before = f(_ROWS)
    model.save_weights(folder + "/w.weights.h5")
    step(_ROWS)
    after = f(_ROWS)
    model.save(folder + "/m.keras")
    model.load_weights(folder + "/w.weights.h5")
    return before, after, f(_ROWS), keras.models.load_model(folder + "/m.keras")(_ROWS)


def _images_block(inputs):
  """What follows convolutions at inference: batch normalisation, residual, activation."""
  start = layers.Conv2D(8, 3, padding="same")(inputs)
  x = layers.ReLU(6.)(layers.BatchNormalization()(start))
  x = layers.ZeroPadding2D(((0, 2), (1, 1)))(x)
  x = layers.DepthwiseConv2D(3, use_bias=False)(x)
  x = layers.ReLU(6.)(layers.BatchNormalization()(x))
  x = layers.BatchNormalization()(layers.Conv2D(8, 1)(x))
  x = layers.ReLU()(layers.Add()([x, start]))
  side = layers.BatchNormalization()(layers.Conv2D(16, 1, use_bias=False)(x))
  x = layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same")(x))
  return layers.Dense(32, "relu")(layers.ReLU()(layers.Add()([side, x])))


def _encoder_block(x):
  attended = layers.MultiHeadAttention(2, 3)(x, x)
  x = layers.LayerNormalization()(layers.Add()([x, attended]))
  inner = layers.Dense(24, "gelu")(x)
  other = layers.Dense(24, lambda v: 0.5 * v * (1. + tf.math.erf(v / np.float32(2 ** 0.5))))(x)
  return layers.LayerNormalization()(x + layers.Dense(6)(inner + other))


def _infer(x, block):
  def infer(function):
    start = layers.Input(x.shape[1:])
    model = keras.Model(start, block(start))
    rng = np.random.default_rng(1)
    model.set_weights([rng.uniform(0.2, 1., w.shape) - 0.1 for w in model.get_weights()])
    f = function(lambda x: model(x, training=False))

    @function
    def change():
      for v in model.variables:
        v.assign(v * 0.9)

    out = []
    for _ in range(2):  # Whatever is kept of weights has to follow them.
      out += [f(x) for _ in range(5)]
      change()
    large = tf.concat([x] * 40, 0)
    return out, f(x), [f(large) for _ in range(2)], f(np.full_like(x, np.inf))[0, 0]
  return infer


PROGRAMS["inference_of_images"] = _infer(_IMAGES, _images_block)
PROGRAMS["inference_of_an_encoder"] = _infer(_STEPS, _encoder_block)
