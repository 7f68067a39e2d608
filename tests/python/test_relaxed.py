"""Workers that train one model side by side by relaxed calls."""
import re
import threading

import numpy as np
import pytest
import tensorflow as tf

from formwork.v1 import functions_pb2


def plan_of(server, name):
  def asking():
    return (yield "request", "DescribeFunction", functions_pb2.DescribeFunctionRequest(
        namespace=server.namespace, name=name, plan=True), None)
  return server._do(asking()).text


def parts(plan):
  """The parts of relaxed calls, in their order, without the snapshots between them."""
  relaxed = plan[plan.index("\nrelaxed\n"):]
  named = re.findall(r": region \d+ '(.*)'", relaxed)
  return [re.sub(" of .*", "", name) for name in named if name != "snapshot"]


def test_a_keras_step_is_divided(live):
  tf.keras.utils.set_random_seed(1)
  model = tf.keras.Sequential([
      tf.keras.layers.Dense(16), tf.keras.layers.BatchNormalization(),
      tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(1)])
  model.build([None, 4])
  optimizer = tf.keras.optimizers.Adam(0.01)
  optimizer.build(model.trainable_variables)

  def step(x, y):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss

  step = live.function(step, relaxed=True)
  x = np.random.RandomState(0).randn(32, 4).astype(np.float32)
  y = x.sum(1, keepdims=True)
  first = float(step(x, y))
  # The moving mean and variance, the dropout's seed; the optimizer's writes are one.
  assert parts(plan_of(live, "step")) == ["small write", "small write", "apply region"]
  failures = []

  def work():
    try:
      for _ in range(25):
        step(x, y)
    except Exception as error:
      failures.append(error)

  workers = [threading.Thread(target=work) for _ in range(3)]
  for worker in workers:
    worker.start()
  for worker in workers:
    worker.join()
  assert failures == []
  live.pull([optimizer.iterations, *model.variables])
  assert int(optimizer.iterations.numpy()) == 76
  assert float(step(x, y)) < first


def test_atomic_and_relaxed_exclude_each_other(live):
  v = tf.Variable(1.)
  f = live.function(lambda: v.assign_add(1.), atomic=True, relaxed=True)
  with pytest.raises(tf.errors.InvalidArgumentError, match="both atomic and relaxed"):
    f()
  assert v.numpy() == 1
