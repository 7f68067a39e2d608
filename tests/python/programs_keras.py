"""More programs for test_function.py: what Keras users do around a training step."""
import tempfile

import keras
import numpy as np
import tensorflow as tf

from programs import PROGRAMS
from programs import program

_OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "nesterov": lambda: keras.optimizers.SGD(0.1, 0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(),
    "amsgrad": lambda: keras.optimizers.Adam(amsgrad=True),
    "adamw": lambda: keras.optimizers.AdamW(),
    "rmsprop": lambda: keras.optimizers.RMSprop(centered=True, momentum=0.5),
    "adagrad": lambda: keras.optimizers.Adagrad(),
    "adadelta": lambda: keras.optimizers.Adadelta(),
    "adamax": lambda: keras.optimizers.Adamax(),
    "nadam": lambda: keras.optimizers.Nadam(),
    "ftrl": lambda: keras.optimizers.Ftrl(),
    "lion": lambda: keras.optimizers.Lion(),
    "schedule": lambda: keras.optimizers.Adam(
        keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "average_and_clip": lambda: keras.optimizers.SGD(
        0.1, use_ema=True, ema_momentum=0.9, global_clipnorm=1.0),
}


def _train(make_optimizer):
  def train(function):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8, activation="relu"),
                              keras.layers.Dense(3)])
    optimizer = make_optimizer()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    y = np.arange(16) % 3

    @function
    def step(x, y):
      with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
      gradients = tape.gradient(loss, model.trainable_variables)
      optimizer.apply_gradients(zip(gradients, model.trainable_variables))
      return loss

    losses = [float(step(x, y)) for _ in range(4)]
    return (losses, [w.numpy() for w in model.weights], [w.numpy() for w in optimizer.variables],
            step.experimental_get_tracing_count())
  return train


for _name, _make in _OPTIMIZERS.items():
  PROGRAMS["train_" + _name] = _train(_make)


@program
def cnn(function):
  layers = keras.layers
  model = keras.Sequential([
      layers.Input((8, 8, 1)), layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(),
      layers.MaxPooling2D(), layers.Flatten(), layers.Dense(3)])
  optimizer = keras.optimizers.Adam()
  x = np.random.default_rng(0).normal(size=(4, 8, 8, 1)).astype(np.float32)
  y = np.array([0, 1, 2, 0])

  @function
  def step(x, y):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(
          y, model(x, training=True), from_logits=True))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss

  @function(input_signature=[tf.TensorSpec([None, 8, 8, 1])])
  def predict(x):
    return model(x, training=False)

  losses = [float(step(x, y)) for _ in range(3)]
  return (losses, predict(x).numpy(), predict(x[:2]).numpy(), model(x).numpy(),
          predict.experimental_get_tracing_count())


@program
def dropout(function):
  model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8),
                            keras.layers.Dropout(0.5)])
  f = function(lambda x: model(x, training=True))
  return [f(np.ones((2, 4), np.float32)).numpy() for _ in range(2)]


@program
def recurrent(function):
  model = keras.Sequential([keras.layers.Input((5, 2)), keras.layers.LSTM(3),
                            keras.layers.Dense(1)])
  optimizer = keras.optimizers.SGD(0.1)

  @function
  def step(x):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(model(x) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss

  return [float(step(tf.ones([2, 5, 2]))) for _ in range(3)]


@program
def metrics(function):
  mean = keras.metrics.Mean()

  @function
  def f(x):
    mean.update_state(x)
    return mean.result()

  return f(tf.constant([1., 2.])).numpy(), f(tf.constant([5.])).numpy(), float(mean.result())


@program
def weights_set_between_calls(function):
  model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
  f = function(lambda x: model(x))
  before = f(tf.ones([1, 2])).numpy()
  model.set_weights([np.ones((2, 1)), np.zeros(1)])
  return before, f(tf.ones([1, 2])).numpy(), model.get_weights()


@program
def kerass_own_train_step(function):
  model = keras.Sequential([
      keras.layers.Input((3,)), keras.layers.Dense(4, activation="gelu"),
      keras.layers.BatchNormalization(), keras.layers.Dense(2)])
  model.compile("adam", "mse", metrics=["mae"])
  x, y = np.ones([4, 3], np.float32), np.zeros([4, 2], np.float32)

  @function
  def step(x, y):
    return model.train_step((x, y))

  return ([{k: v.numpy() for k, v in step(x, y).items()} for _ in range(3)],
          model.evaluate(x, y, verbose=0))


@program
def two_networks_and_two_optimizers(function):
  generator, critic = keras.layers.Dense(2), keras.layers.Dense(1)
  generator.build((None, 2))
  critic.build((None, 2))
  first, second = keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01)

  @function
  def step(z):
    with tf.GradientTape() as a, tf.GradientTape() as b:
      score = critic(generator(z))
      won, lost = -tf.reduce_mean(tf.math.log_sigmoid(score)), tf.reduce_mean(tf.nn.softplus(score))
    first.apply(a.gradient(won, generator.trainable_variables), generator.trainable_variables)
    second.apply(b.gradient(lost, critic.trainable_variables), critic.trainable_variables)
    return won, lost

  return [[float(t) for t in step(tf.ones([2, 2]))] for _ in range(3)]


@program
def optimizers_outside(function):
  model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(300, "relu"),
                            keras.layers.Dense(3)])
  loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  loss, out = function(lambda x, y: loss_of(y, model(x))), []
  for optimizer in (keras.optimizers.Adam(0.01),
                    keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1),
                                                        initial_scale=4.),
                    keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2),
                    keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)):
    for _ in range(3):
      with tf.GradientTape() as tape:
        value = optimizer.scale_loss(loss(tf.ones([200, 4]), tf.ones([200])))
      gradients = tape.gradient(value, model.trainable_variables)
      optimizer.apply_gradients(zip(gradients, model.trainable_variables))
      out.append((value, model.layers[-1].bias.numpy(), model(tf.ones([1, 4]))))
  return out


@program
def gradients_that_are_not_finite_are_skipped(function):
  model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
  optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), initial_scale=4.,
                                                  dynamic_growth_steps=2)
  optimizer.build(model.trainable_variables)

  @function
  def step(x):
    with tf.GradientTape() as tape:
      loss = optimizer.scale_loss(tf.reduce_mean(model(x)**2))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables),
                                  model.trainable_variables))
    return loss

  out = []
  for factor in (1., 1., 1e30, 1., float("nan"), 1., 1., 1.):
    step(tf.ones([2, 4]) * factor)
    out.append([v.numpy() for v in model.variables + optimizer.variables])
  return out


@program
def learning_rate_changed_between_calls(function):
  w, optimizer = tf.Variable(2.), keras.optimizers.SGD(0.1)

  @function
  def step():
    with tf.GradientTape() as tape:
      loss = w * w
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    return loss

  out = [float(step())]
  optimizer.learning_rate = 0.5
  out += [float(step()), float(step()), float(w), int(optimizer.iterations)]
  return out


@program
def embedding_trained(function):
  table = keras.layers.Embedding(5, 3)
  table.build(())
  optimizer = keras.optimizers.Adam(0.1)

  @function
  def step(i):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(table(i) ** 2)
    optimizer.apply(tape.gradient(loss, table.trainable_variables), table.trainable_variables)
    return loss

  return [float(step(tf.constant([0, 2, 2]))) for _ in range(3)], table.get_weights()


@program
def mixed_precision(function):
  keras.mixed_precision.set_global_policy("mixed_bfloat16")
  try:
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(4, activation="relu"),
                              keras.layers.Dense(1, dtype="float32")])
    f = function(lambda x: model(x))
    return f(tf.ones([2, 4])).numpy().round(1), model.layers[0].kernel.dtype
  finally:
    keras.mixed_precision.set_global_policy("float32")


@program
def metric_reset_between_epochs(function):
  accuracy = keras.metrics.SparseCategoricalAccuracy()

  @function
  def f(y, p):
    accuracy.update_state(y, p)
    return accuracy.result()

  y, p = tf.constant([0, 1]), tf.constant([[.9, .1], [.8, .2]])
  out = [f(y, p).numpy(), f(y[:1], p[:1]).numpy(), accuracy.result().numpy()]
  accuracy.reset_state()
  return out + [f(y[1:], p[:1]).numpy()]


@program
def checkpoint_saved_and_restored(function):
  v = tf.Variable(1.)
  f = function(lambda: v.assign_add(1.))
  f()
  checkpoint = tf.train.Checkpoint(v=v)
  with tempfile.TemporaryDirectory() as folder:
    path = checkpoint.save(folder + "/c")
    f()
    before = v.numpy()
    checkpoint.restore(path)
    return before, v.numpy(), f().numpy()
