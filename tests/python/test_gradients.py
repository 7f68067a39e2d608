"""What gradients that are taken outside of a function leave on the server, and send."""
import os
import time

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function as function_lib

import formwork


def _sums(server):
  w = tf.Variable(tf.ones([200, 200]) * 0.01)
  f = server.function(lambda x: tf.reduce_sum(tf.tanh(tf.tanh(x @ w) @ w)))
  return f, tf.ones([100, 200]), w


def _recorded(f, x):
  with tf.GradientTape() as tape:
    y = f(x)
  return tape, y


def _settled(server, count):
  """Whether the server comes to keep as many tensors; what was dropped is released meanwhile."""
  deadline = time.monotonic() + 10
  while len(server.kept_tensors()) != count and time.monotonic() < deadline:
    time.sleep(0.02)
  return len(server.kept_tensors()) == count


def test_intermediates_stay_on_the_server_as_long_as_the_tape_lives(either):
  f, x, w = _sums(either)
  tape, y = _recorded(f, x)
  kept = either.kept_tensors()
  assert 0 < len(kept) < 10 and all(3000 < k.time_to_live <= 3600 for k in kept)
  assert tape.gradient(y, w).shape == [200, 200]
  del tape
  assert _settled(either, 0)


def test_closing_releases_what_was_dropped(either):
  with formwork.connect(either._channel.target, namespace=either.namespace) as other:
    f, x, _ = _sums(other)
    tape, _ = _recorded(f, x)
    assert either.kept_tensors()
    del tape
  assert either.kept_tensors() == []


def test_small_intermediates_travel(either):
  v, open_shape = tf.Variable(2.), [tf.TensorSpec([None])]
  for options in ({}, {"input_signature": open_shape}):
    f = either.function(lambda x: tf.tanh(x * v), **options)
    tape, y = _recorded(f, tf.constant([1.]))
    assert either.kept_tensors() == [] and tape.gradient(y, v).shape == []


def test_a_gradient_whose_intermediates_are_gone_says_so(fake, server):
  f, x, w = _sums(server)
  for lose in (fake.kept.clear, fake.restart):
    tape, y = _recorded(f, x)
    lose()
    with pytest.raises(formwork.Error, match="run the forward pass again"):
      tape.gradient(y, w)


def test_a_gradient_of_a_gradient_that_cannot_be_taken_is_refused(live):
  n = tf.Variable(0.)

  @live.function
  def f(x):
    for _ in tf.range(2):
      n.assign_add(1.)
      x = x * tf.sin(x)
    return x

  x = tf.constant(1.)
  with tf.GradientTape() as outer:
    outer.watch(x)
    with tf.GradientTape() as inner:
      inner.watch(x)
      y = f(x)
    dy = inner.gradient(y, x)
  with pytest.raises(tf.errors.UnimplementedError, match="take the gradients inside"):
    outer.gradient(dy, x)
  assert n.numpy() == 2


def test_a_forked_child_releases_nothing_of_its_parents(live):
  f, x, w = _sums(live)
  tape, y = _recorded(f, x)
  child = os.fork()
  if not child:
    del tape
    live._do(iter(()))
    os._exit(len(live._dropped))
  assert os.waitpid(child, 0)[1] == 0
  assert tape.gradient(y, w).shape == [200, 200]


def _squared():
  """A function of version 1 that says which one its gradient is: five times what it would be."""
  @function_lib.Defun(tf.float32, tf.float32)
  def ten_times(x, dy):
    return dy * 10. * x

  @function_lib.Defun(tf.float32, grad_func=ten_times)
  def squared(x):
    return x * x

  return squared


def test_a_function_has_the_gradient_that_it_names(live):
  with tf.Graph().as_default() as g:
    x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
    gradient = tf.gradients(_squared()(x) + x, x)[0]
    with tf.compat.v1.Session() as session:
      want = session.run(gradient, {x: [3., 4.]})
  assert want.tolist() == [31, 41]
  assert any(n.op == "SymbolicGradient" for n in g.as_graph_def().node)
  f = live.register("f", g.as_graph_def().SerializeToString(), outputs=[gradient.name],
                    inputs=[formwork.TensorSpec("x:0", "float32", [None])])
  assert f(np.float32([3, 4]))[0].tolist() == want.tolist()


def test_a_traced_function_has_the_gradient_that_it_names(live):
  """Which tf.function itself forgets."""
  squared = _squared()
  f = live.function(lambda x: tf.gradients(squared(x), x)[0])
  assert f(tf.constant([3., 4.])).numpy().tolist() == [30, 40]

  @live.function
  def over_elements(x):
    return tf.data.Dataset.from_tensor_slices(x).map(
        lambda e: tf.gradients(squared(e), e)[0]).reduce(0., lambda a, b: a + b)

  assert over_elements(tf.constant([3., 4.])).numpy() == 70
