"""Engine against TensorFlow, one thread each, CPU time per call, in one run.

  engine_bench.py --engine BIN --out results.json [NAME...]

TensorFlow's ConcreteFunction is called with tensors that are there already, as installed (oneDNN
on). Rounds of both alternate, so that a change of the machine's load meets both; medians of the
rounds are compared.
"""
import argparse
import json
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["OMP_NUM_THREADS"] = "1"

import rounds
import traced


def one_thread():
  import tensorflow as tf
  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(1)


def compare(name, function, values, calls, engine, eager=False):
  """Measures one function in both, prints a line and returns its entry for the results. `eager`:
  TensorFlow runs its Python, one op, without the cost of calling a function.
  """
  import tensorflow as tf
  tensors = [tf.constant(v) for v in values]
  concrete = function.get_concrete_function(*tensors)
  peer = function.python_function if eager else concrete
  with tempfile.TemporaryDirectory() as folder:
    traced.dump(concrete, values, folder)
    mine, other = (seconds * 1e6 for seconds in rounds.alternate(
        [engine, folder, str(calls)], lambda: peer(*tensors), calls, time.process_time))
  print("%-28s %12.1f us %12.1f us  %.3f" % (name, mine, other, mine / other), flush=True)
  return {"name": name, "unit": "us_cpu", "ours": mine, "peer": other, "peer_name": "tensorflow",
          "ratio": mine / other}


def main():
  p = argparse.ArgumentParser(description=__doc__)
  p.add_argument("--engine", required=True)
  p.add_argument("--out", required=True)
  p.add_argument("names", nargs="*")
  args = p.parse_args()
  one_thread()
  results = []
  for name, maker, calls in traced.FUNCTIONS:
    if args.names and name not in args.names:
      continue
    function, values = maker()
    results.append(compare(name, function, values, calls, args.engine))
  with open(args.out, "w") as f:
    json.dump(results, f, indent=1)


if __name__ == "__main__":
  main()
