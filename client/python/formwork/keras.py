"""Keras models whose steps run on a server, while `fit` and all around it stays here."""
import itertools

import keras
import tensorflow as tf

from formwork import function


def remote(model, server, scope=""):
  """Makes `fit`, `evaluate` and `predict` of a Keras model run on a server. Returns the model.

  What Keras runs for a batch (`train_step`, `test_step`, `predict_step`: the forward pass, the
  gradients, optimizer and metrics) becomes a `server.function`, named after the model. Data,
  callbacks, the progress bar and the history stay here, as usual; so do weights, which are read
  from the server when something here asks for them. Can be called before `compile` or after, which
  can be called again.

  Args:
    model: a keras.Model, on Keras's TensorFlow backend.
    server: a formwork.Server.
    scope: put before the names of functions and variables on the server.
  Errors: ValueError for another backend, a model of a distribution strategy, or one that is
    compiled with run_eagerly.
  """
  if keras.backend.backend() != "tensorflow":
    raise ValueError("formwork.keras needs Keras's TensorFlow backend, not %s" %
                     keras.backend.backend())
  if getattr(model, "_distribute_strategy", None) is not None:
    raise ValueError("model '%s' belongs to a distribution strategy; formwork.keras takes models "
                     "that were made outside of one" % model.name)
  model.train_function = model.test_function = model.predict_function = None
  model.make_train_function = _maker(model, server, scope, "train", _last_of_steps)
  model.make_test_function = _maker(model, server, scope, "test", _last_of_steps)
  model.make_predict_function = _maker(model, server, scope, "predict", _all_steps)
  return model


def _maker(model, server, scope, kind, run):
  """What takes the place of the model's make_..._function, which Keras calls before it runs one."""
  attribute, step_name = kind + "_function", kind + "_step"

  def make(force=False):
    if getattr(model, attribute) is not None and not force:
      return
    if model.run_eagerly:
      raise ValueError("model '%s' is compiled with run_eagerly=True, which cannot run on a server"
                       % model.name)
    step = function.make(
        server, lambda data: getattr(model, step_name)(data), scope,
        name="%s/%s" % (model.name, step_name), autograph=False, reduce_retracing=True)
    setattr(model, attribute, lambda data: run(model, step, data))

  return make


def _without_optionals(data):
  return keras.tree.map_structure(
      lambda x: None if isinstance(x, tf.experimental.Optional) else x, data)


def _last_of_steps(model, step, iterator):
  """Runs up to steps_per_execution batches; what the last one came to."""
  batches = list(itertools.islice(iterator, model.steps_per_execution))
  if not batches:
    raise StopIteration  # As next(iterator) does; Keras's epoch ends.
  return [step(_without_optionals(batch)) for batch in batches][-1]


def _all_steps(model, step, batches):
  """Runs every batch; their outputs as those of one."""
  del model
  outputs = [step(_without_optionals(batch)) for batch in batches]
  if len(outputs) == 1:
    return outputs[0]
  return keras.tree.map_structure(lambda *parts: tf.concat(parts, 0), *outputs)
