"""Pipelines of tf.data beside TensorFlow's own: elements per second, in one run.

  data.py --engine BIN --out results.json [NAME...]

Each pipeline is one function that makes the dataset and reduces it, the same graph for both. Both
have the machine's cores, TensorFlow as it is installed: with its optimizations of datasets and its
autotuning. Rounds of both alternate, so that a change of the machine's load meets both; medians of
their wall times are compared.
"""
import argparse
import json
import os
import pathlib
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import rounds
import traced

import numpy as np


def map_and_batch(folder):
  import tensorflow as tf
  elements = 50000

  def f(n):
    d = tf.data.Dataset.range(n).map(lambda i: tf.cast(i, tf.float32) * 2.0 + 1.0).batch(64)
    return d.reduce(0.0, lambda total, batch: total + tf.reduce_sum(batch))

  return f, elements, elements


def shuffle_repeat_batch(folder):
  import tensorflow as tf
  rows, times = 20000, 5
  values = np.random.default_rng(0).normal(size=(rows, 16)).astype(np.float32)
  labels = np.arange(rows, dtype=np.int64)

  def f(n):
    d = tf.data.Dataset.from_tensor_slices((values, labels)).shuffle(2000).repeat(n).batch(64)
    return d.reduce(0.0, lambda total, xy: (
        total + tf.reduce_sum(xy[0]) + tf.cast(xy[1][0], tf.float32)))

  return f, times, rows * times


def interleaved_files(folder):
  import tensorflow as tf
  files, lines = 8, 10000
  rng = np.random.default_rng(0)
  names = []
  for k in range(files):
    path = folder / ("%d.txt" % k)
    path.write_text("".join("%d,%s\n" % (i, "x" * rng.integers(10, 80)) for i in range(lines)))
    names.append(str(path))

  def f(n):
    d = tf.data.Dataset.from_tensor_slices(names).interleave(
        tf.data.TextLineDataset, cycle_length=4, block_length=16).batch(n)
    return d.reduce(0, lambda total, batch: total + tf.reduce_sum(tf.strings.length(batch)))

  return f, 64, files * lines


def parallel_map(folder):
  import tensorflow as tf
  elements = 400
  weights = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32) / 16

  def costly(i):
    x = tf.fill([64, 256], tf.cast(i, tf.float32) / 400)
    for _ in range(4):
      x = tf.tanh(tf.matmul(x, weights))
    return tf.reduce_mean(x)

  def f(n):
    d = tf.data.Dataset.range(n).map(costly, num_parallel_calls=tf.data.AUTOTUNE)
    return d.reduce(0.0, lambda total, x: total + x)

  return f, elements, elements


def padded_strings(folder):
  import tensorflow as tf
  elements = 20000
  rng = np.random.default_rng(0)
  texts = [" ".join("word%d" % w for w in rng.integers(0, 1000, rng.integers(1, 20)))
           for _ in range(elements)]

  def f(n):
    d = tf.data.Dataset.from_tensor_slices(texts).map(
        lambda text: tf.strings.split([text]).values).padded_batch(n)
    return d.reduce(0, lambda total, batch: total + tf.size(batch))

  return f, 32, elements


def prefetch(folder):
  import tensorflow as tf
  elements = 1000
  weights = np.random.default_rng(0).normal(size=(128, 128)).astype(np.float32) / 11

  def layers(x):
    for _ in range(8):
      x = tf.tanh(tf.matmul(x, weights))
    return x

  def f(n):
    d = tf.data.Dataset.range(n).map(
        lambda i: layers(tf.fill([32, 128], tf.cast(i, tf.float32) / elements))).prefetch(4)
    return d.reduce(0.0, lambda total, x: total + tf.reduce_mean(layers(x)))

  return f, elements, elements


PIPELINES = {
    "map+batch": map_and_batch,
    "shuffle+repeat+batch": shuffle_repeat_batch,
    "interleave of files": interleaved_files,
    "parallel map": parallel_map,
    "padded batch of strings": padded_strings,
    "prefetch": prefetch,
}


def compare(name, maker, engine):
  """Measures one pipeline in both, prints a line and returns its entry for the results."""
  import tensorflow as tf
  with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder).resolve()
    (folder / "files").mkdir()
    f, argument, elements = maker(folder / "files")
    given = np.asarray(argument, np.int64)
    concrete = tf.function(f).get_concrete_function(tf.constant(given))
    traced.dump(concrete, [given], str(folder / "traced"))
    command = [engine, str(folder / "traced"), "1", str(os.cpu_count()), str(folder / "files")]
    tensor = tf.constant(given)
    mine, other = (elements / seconds for seconds in rounds.alternate(
        command, lambda: concrete(tensor), 1, time.perf_counter))
  print("%-24s %12.0f/s %12.0f/s  %.3f" % (name, mine, other, mine / other), flush=True)
  return {"name": name, "unit": "elements_per_second", "ours": mine, "peer": other,
          "peer_name": "tensorflow", "ratio": mine / other}


def main():
  p = argparse.ArgumentParser(description=__doc__)
  p.add_argument("--engine", required=True)
  p.add_argument("--out", required=True)
  p.add_argument("names", nargs="*")
  args = p.parse_args()
  results = [compare(name, maker, args.engine) for name, maker in PIPELINES.items()
             if not args.names or any(part in name for part in args.names)]
  with open(args.out, "w") as out:
    json.dump(results, out, indent=1)


if __name__ == "__main__":
  main()
