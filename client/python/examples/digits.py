#!/usr/bin/env python3
"""Two processes train one Keras network on a Formwork server; a third serves it with numpy alone.

  digits.py [--server 127.0.0.1:8500] [--workers 2] [--epochs 12]

The data are scikit-learn's 1,797 handwritten digits of 8 x 8 pixels. Each worker traces the same
training step; the variables live on the server, so both train the same network. Ends with exit
code 0 if the served predictions are right for at least 95 % of the test images, and leaves a
picture of the training in build/digits-curve.svg.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import formwork
import numpy as np

WANTED_ACCURACY = 0.95
BATCH = 48


def load_digits():
  """(training images, training labels, test images, test labels)."""
  from sklearn import datasets
  from sklearn import model_selection
  digits = datasets.load_digits()
  images = (digits.images / 16.0).astype(np.float32)[..., np.newaxis]
  train_x, test_x, train_y, test_y = model_selection.train_test_split(
      images, digits.target.astype(np.int64), test_size=0.25, random_state=7)
  return train_x, train_y, test_x, test_y


# ---------------------------------------------------------------------------------------- a worker
def work(args):
  """Trains on every `workers`-th part of the training images; writes its curve to a file."""
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
  os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # It only traces here.
  import keras
  import tensorflow as tf
  import tqdm

  keras.utils.set_random_seed(args.rank)
  model = keras.Sequential([
      keras.layers.Input((8, 8, 1)),
      keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
      keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
      keras.layers.MaxPooling2D(),
      keras.layers.Flatten(),
      keras.layers.Dropout(0.3),
      keras.layers.Dense(64, activation="relu"),
      keras.layers.Dense(10),
  ], name="digits")
  optimizer = keras.optimizers.Adam(2e-3)
  loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  server = formwork.connect(args.server)

  @server.function(input_signature=[tf.TensorSpec([None, 8, 8, 1], tf.float32),
                                    tf.TensorSpec([None], tf.int64)])
  def train_step(images, labels):
    with tf.GradientTape() as tape:
      loss = loss_of(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

  @server.function(input_signature=[tf.TensorSpec([None, 8, 8, 1], tf.float32)])
  def predict(images):
    return tf.nn.softmax(model(images, training=False))

  train_x, train_y, test_x, test_y = load_digits()
  mine = np.arange(args.rank, len(train_x), args.workers)
  order = np.random.default_rng(args.rank)
  curve = {"loss": [], "accuracy": []}
  steps = len(mine) // BATCH
  bar = tqdm.tqdm(total=args.epochs * steps, desc="worker %d" % args.rank, position=args.rank,
                  unit="step", mininterval=0.5, file=sys.stdout)
  for epoch in range(args.epochs):
    shuffled = order.permutation(mine)
    for step in range(steps):
      rows = shuffled[step * BATCH:(step + 1) * BATCH]
      loss = float(train_step(train_x[rows], train_y[rows]))
      curve["loss"].append([epoch + (step + 1) / steps, loss])
      bar.update()
    right = np.mean(np.argmax(predict(test_x).numpy(), axis=1) == test_y)
    curve["accuracy"].append([epoch + 1, float(right)])
    bar.set_postfix(loss="%.3f" % loss, test="%.3f" % right)
  bar.close()
  pathlib.Path(args.report).write_text(json.dumps(curve))
  server.close()


# --------------------------------------------------------------------------------------- the third
def serve(args):
  """Predicts with what the server holds. Exit code 0 if enough of it is right."""
  _, _, test_x, test_y = load_digits()
  with formwork.connect(args.server) as server:
    start = time.perf_counter()
    (probabilities,) = server.call("predict", [test_x])
    seconds = time.perf_counter() - start
  if "tensorflow" in sys.modules:
    print("TensorFlow was imported; serving should not need it")
    return 1
  accuracy = float(np.mean(np.argmax(probabilities, axis=1) == test_y))
  print("%d test images predicted in %.1f ms, without TensorFlow" % (len(test_x), seconds * 1e3))
  print("test accuracy: %.4f (wanted: %.2f)" % (accuracy, WANTED_ACCURACY))
  return 0 if accuracy >= WANTED_ACCURACY else 1


# ------------------------------------------------------------------------------------- the picture
def draw(curves, path):
  """Writes the workers' losses and the test accuracy as an SVG."""
  width, height, left, top = 720, 320, 56, 40
  right, bottom = width - 56, height - 48
  epochs = max(p[0] for c in curves for p in c["loss"])
  most = max(p[1] for c in curves for p in c["loss"])

  def line(points, scale, color, dash=""):
    at = " ".join("%.1f,%.1f" % (left + (right - left) * x / epochs,
                                 bottom - (bottom - top) * min(1.0, max(0.0, y / scale)))
                  for x, y in points)
    return '<polyline points="%s" fill="none" stroke="%s" stroke-width="1.8"%s/>' % (
        at, color, dash)

  def text(x, y, words, anchor="middle", color="#333"):
    return '<text x="%d" y="%d" text-anchor="%s" fill="%s">%s</text>' % (x, y, anchor, color, words)

  colors = ["#1f77b4", "#ff7f0e", "#9467bd", "#8c564b"]
  parts = [
      '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
      'font-family="sans-serif" font-size="12">' % (width, height, width, height),
      '<rect width="100%" height="100%" fill="white"/>',
      '<path d="M%d %dV%dH%dV%d" fill="none" stroke="#999"/>' % (left, top, bottom, right, top)]
  for i in range(5):
    y = bottom - (bottom - top) * i / 4
    parts.append('<path d="M%d %.1fH%d" stroke="#eee"/>' % (left, y, right))
    parts.append(text(left - 8, y + 4, "%.2f" % (most * i / 4), "end"))
    parts.append(text(right + 8, y + 4, "%d %%" % (25 * i), "start", "#2ca02c"))
  for epoch in range(0, int(epochs) + 1, max(1, int(epochs) // 6)):
    parts.append(text(left + (right - left) * epoch / epochs, bottom + 18, epoch))
  parts.append(text((left + right) / 2, height - 10, "epochs"))
  for rank, curve in enumerate(curves):
    color = colors[rank % len(colors)]
    parts.append(line(curve["loss"], most, color))
    parts.append(text(left + 60 + 140 * rank, 22, "loss of worker %d" % rank, color=color))
  parts.append(line(curves[0]["accuracy"], 1.0, "#2ca02c", ' stroke-dasharray="6 3"'))
  parts.append(text(right - 60, 22, "test accuracy", color="#2ca02c"))
  parts.append("</svg>")
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text("\n".join(parts) + "\n")


def main():
  root = pathlib.Path(__file__).resolve().parents[3]
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--server", default="127.0.0.1:8500")
  parser.add_argument("--workers", type=int, default=2)
  parser.add_argument("--epochs", type=int, default=12)
  parser.add_argument("--curve", type=pathlib.Path, default=root / "build" / "digits-curve.svg")
  parser.add_argument("--role", choices=["all", "worker", "serve"], default="all",
                      help=argparse.SUPPRESS)
  parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
  parser.add_argument("--report", help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.role == "worker":
    return work(args)
  if args.role == "serve":
    return serve(args)

  command = [sys.executable, __file__, "--server", args.server, "--workers", str(args.workers),
             "--epochs", str(args.epochs)]
  with tempfile.TemporaryDirectory() as folder:
    reports = [pathlib.Path(folder) / ("%d.json" % rank) for rank in range(args.workers)]
    workers = [subprocess.Popen(command + ["--role", "worker", "--rank", str(rank), "--report",
                                           str(report)]) for rank, report in enumerate(reports)]
    codes = [worker.wait() for worker in workers]
    if any(codes):
      print("a worker failed: exit codes %s" % codes)
      return 1
    draw([json.loads(report.read_text()) for report in reports], args.curve)
    print("the curve is in %s" % args.curve)
  return subprocess.call(command + ["--role", "serve"])


if __name__ == "__main__":
  sys.exit(main())
