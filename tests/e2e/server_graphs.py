"""Graphs that the server's tests register, traced by TensorFlow."""
import functools
import os
import time
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import formwork
import numpy as np


@functools.cache
def _traced(name):
  import tensorflow as tf

  def identity(x):
    return tf.identity(x)

  def spin(n):
    i, x = tf.constant(0), tf.constant(1.0)
    while i < n:
      x = tf.sin(x)
      i += 1
    return x

  def print_and_spin(n):
    tf.print("begun", output_stream=sys.stderr)
    return spin(n)

  def doubled(x):
    return tf.concat([x, x], 0)

  body, spec = {"identity": (identity, tf.TensorSpec([None], tf.float32)),
                "spin": (spin, tf.TensorSpec([], tf.int32)),
                "print_and_spin": (print_and_spin, tf.TensorSpec([], tf.int32)),
                "doubled": (doubled, tf.TensorSpec([None], tf.float32))}[name]
  concrete = tf.function(body, autograph="spin" in name).get_concrete_function(spec)
  return concrete.graph.as_graph_def().SerializeToString(), concrete.outputs[0].name, \
      concrete.inputs[0].name, spec


def register(server, graph_name, name=None):
  """The ConcreteFunction of a graph above, on a formwork.connect()ed server; `name`: another."""
  graph, output, entry, spec = _traced(graph_name)
  shape = spec.shape.as_list()
  return server.register(name or graph_name, graph_def=graph,
                         inputs=[formwork.TensorSpec(entry, spec.dtype.name, shape)],
                         outputs=[output])


def turns_of(spin, seconds):
  """How many turns of the spinning function take at least about that long."""
  def fastest(n):
    took = []
    for _ in range(3):  # What else runs on the machine must not make it look slow.
      start = time.monotonic()
      spin(np.int32(n))
      took.append(time.monotonic() - start)
    return min(took)

  n = 20000
  while (took := fastest(n)) < 0.1:
    n *= 4
  return np.int32(min(2**31 - 1, int(n * seconds / took)))
