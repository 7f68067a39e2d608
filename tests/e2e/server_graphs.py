"""Graphs that the server's tests register, traced by TensorFlow."""
import functools
import os
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
  """The ConcreteFunction of a graph above, on a formwork.connect()ed server; `name`: another one."""
  graph, output, entry, spec = _traced(graph_name)
  shape = spec.shape.as_list()
  return server.register(name or graph_name, graph_def=graph,
                         inputs=[formwork.TensorSpec(entry, spec.dtype.name, shape)],
                         outputs=[output])


def turns_of(spin, seconds):
  """How many turns of the spinning function take about that long."""
  import time
  n = 20000
  while True:
    start = time.monotonic()
    spin(np.int32(n))
    took = time.monotonic() - start
    if took > 0.1:
      return np.int32(min(2**31 - 1, int(n * seconds / took)))
    n *= 4
