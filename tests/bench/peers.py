"""The engine against TensorFlow, XLA, ONNX Runtime and OpenVINO on whole models, in one run.

  peers.py --engine BIN --threads N --out results.json [NAME...]

All compute in float32. With one thread CPU time per call is compared, with more wall time. Each
round measures every engine once, so that a change of the machine's load meets all; medians of the
rounds are compared. ONNX Runtime and OpenVINO run what tf2onnx makes of the traced function.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import models
import traced

ROUNDS = 7


class Ours:
  """The engine in a process of its own."""

  def __init__(self, binary, concrete, values, calls, threads):
    self._folder = tempfile.TemporaryDirectory()
    traced.dump(concrete, values, self._folder.name)
    self._process = subprocess.Popen([binary, self._folder.name, str(calls), str(threads)],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

  def measure(self):
    """CPU and wall microseconds per call."""
    self._process.stdin.write("round\n")
    self._process.stdin.flush()
    line = self._process.stdout.readline()
    if not line:
      sys.exit("the engine has failed")
    return tuple(float(x) for x in line.split())

  def close(self):
    self._process.stdin.close()
    self._process.wait()
    self._folder.cleanup()


class Peer:
  """A callable of this process."""

  def __init__(self, call, calls):
    self._call, self._calls = call, calls
    for _ in range(3):
      call()

  def measure(self):
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(self._calls):
      self._call()
    return ((time.process_time() - cpu) / self._calls * 1e6,
            (time.perf_counter() - wall) / self._calls * 1e6)


def peers_of(function, concrete, values, calls, threads):
  """Name -> Peer."""
  import onnxruntime
  import openvino
  import tensorflow as tf
  import tf2onnx
  tensors = [tf.constant(v) for v in values]
  jitted = tf.function(function.python_function, jit_compile=True).get_concrete_function(*tensors)
  model, _ = tf2onnx.convert.from_function(
      function, [tf.TensorSpec(v.shape, v.dtype) for v in values], opset=18)
  content = model.SerializeToString()

  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = threads
  options.inter_op_num_threads = 1
  session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
  feeds = {i.name: v for i, v in zip(session.get_inputs(), values)}

  compiled = openvino.Core().compile_model(openvino.Core().read_model(content), "CPU", {
      "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
      "INFERENCE_PRECISION_HINT": "f32"})
  request = compiled.create_infer_request()

  expected = concrete(*tensors)
  expected = (expected[0] if isinstance(expected, (list, tuple)) else expected).numpy()
  for name, got in (("onnxruntime", session.run(None, feeds)[0]),
                    ("openvino", request.infer(values)[0])):
    if abs(got - expected).max() > 1e-2 * abs(expected).max() + 1e-5:
      sys.exit("%s computes something else" % name)
  return {
      "tensorflow": Peer(lambda: concrete(*tensors), calls),
      "xla": Peer(lambda: jitted(*tensors), calls),
      "onnxruntime": Peer(lambda: session.run(None, feeds), calls),
      "openvino": Peer(lambda: request.infer(values, share_inputs=True, share_outputs=True), calls),
  }


def main():
  p = argparse.ArgumentParser(description=__doc__)
  p.add_argument("--engine", required=True)
  p.add_argument("--threads", type=int, default=1)
  p.add_argument("--out", required=True)
  p.add_argument("names", nargs="*")
  args = p.parse_args()
  import tensorflow as tf
  tf.config.threading.set_intra_op_parallelism_threads(args.threads)
  tf.config.threading.set_inter_op_parallelism_threads(1)
  which = 0 if args.threads == 1 else 1  # Of what measure() gives.
  results = []
  for name, maker, calls in models.MODELS:
    if args.names and name not in args.names:
      continue
    function, values = maker()
    concrete = function.get_concrete_function(*[tf.constant(v) for v in values])
    engines = peers_of(function, concrete, values, calls, args.threads)
    engines["ours"] = Ours(args.engine, concrete, values, calls, args.threads)
    times = {e: [] for e in engines}
    for _ in range(ROUNDS):
      for e, engine in engines.items():
        times[e].append(engine.measure()[which])
    engines["ours"].close()
    result = {e: statistics.median(t) for e, t in times.items()}
    best = min((t, e) for e, t in result.items() if e != "ours")
    results.append({"name": name, "unit": "us_cpu" if which == 0 else "us_wall",
                    "threads": args.threads, "ratio": result["ours"] / best[0], **result})
    print("%-18s" % name, "".join("%s %9.0f  " % (e, result[e]) for e in
                                  ("ours", "tensorflow", "xla", "onnxruntime", "openvino")),
          "ours / %s %.2f" % (best[1], results[-1]["ratio"]), flush=True)
  mean = math.exp(statistics.mean(math.log(r["ratio"]) for r in results))
  print("%d thread%s, %s: geometric mean %.2f" % (
      args.threads, "s" * which, "wall us" if which else "CPU us", mean), flush=True)
  with open(args.out, "w") as f:
    json.dump(results, f, indent=1)


if __name__ == "__main__":
  main()
