"""formwork.keras.remote: fit, evaluate and predict on the server, as they are here."""
import keras
import numpy as np
import pytest
import tensorflow as tf

import formwork

_RANDOM = np.random.default_rng(0)
_X = _RANDOM.normal(size=(30, 6)).astype(np.float32)
_Y = (_X.sum(1) > 0).astype(np.int32)


def _model(**options):
  keras.backend.clear_session()
  keras.utils.set_random_seed(5)
  return _compiled(**options)


def _compiled(**options):
  model = keras.Sequential([
      keras.layers.Input((6,)), keras.layers.Dense(8, activation="relu"),
      keras.layers.BatchNormalization(), keras.layers.Dropout(0.2), keras.layers.Dense(2)],
      name="classifier")
  model.compile(keras.optimizers.Adam(0.01),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"], **{"jit_compile": False, **options})
  return model


def _same(got, want):
  keras.tree.map_structure(
      lambda g, w: np.testing.assert_allclose(g, w, rtol=2e-4, atol=1e-5), got, want)


@pytest.mark.parametrize("where, steps", [("live", 1), ("server", 2)])
def test_fit_evaluate_and_predict_agree_with_keras(request, where, steps, capsys):
  there = request.getfixturevalue(where)

  def run(model):
    rates = keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (epoch + 1))
    history = model.fit(_X, _Y, batch_size=8, epochs=2, verbose=2, callbacks=[rates],
                        validation_split=0.2, shuffle=False,
                        sample_weight=np.linspace(0, 1, 30, dtype=np.float32)).history
    return (history, model.evaluate(_X, _Y, verbose=0, batch_size=16),
            model.predict(_X, verbose=0, batch_size=16), model(_X[:3]), model.get_weights(),
            model.train_on_batch(_X[:4], _Y[:4]), model.predict_on_batch(_X[:2]))

  want = run(_model(steps_per_execution=steps))
  shown = capsys.readouterr().out
  model = _model(steps_per_execution=steps)
  assert formwork.keras.remote(model, there) is model
  _same(run(model), want)
  assert [w for w in capsys.readouterr().out.split() if not w.endswith(("s", "step"))] == [
      w for w in shown.split() if not w.endswith(("s", "step"))]
  assert {f.name for f in there.functions()} == {
      "classifier/train_step", "classifier/test_step", "classifier/predict_step"}
  assert {v.path for v in model.variables} <= {v.name for v in there.variables()}


def test_the_local_steps_do_not_run(fake, server):
  model = formwork.keras.remote(_model(), server)
  model.fit(_X, _Y, batch_size=10, verbose=0)
  assert fake.methods().count("Call") == 3
  fake.log.clear()
  model.predict(tf.data.Dataset.from_tensor_slices(_X).batch(15), verbose=0)
  assert fake.methods() == ["Register", "Call", "Call"]


def test_a_model_that_is_compiled_again_takes_its_new_optimizer(server):
  model = formwork.keras.remote(_model(), server)
  model.fit(_X, _Y, verbose=0)
  before = model.get_weights()
  model.compile(keras.optimizers.SGD(0.), model.loss)
  model.fit(_X, _Y, verbose=0)
  _same(model.layers[0].get_weights(), before[:2])


def test_what_cannot_run_there_is_refused(server):
  with pytest.raises(ValueError, match="run_eagerly"):
    formwork.keras.remote(_model(run_eagerly=True), server).fit(_X, _Y, verbose=0)
  with tf.distribute.MirroredStrategy(["CPU:0"]).scope():  # A clear_session() within would end it.
    model = _compiled()
  with pytest.raises(ValueError, match="strategy"):
    formwork.keras.remote(model, server)
