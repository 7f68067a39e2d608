"""The tiny call from Python: our client and server against TensorFlow's own remote runtime (a
tf.distribute.Server in another process, a tf.function on its device), numpy in and out of both.

  python_bench.py --server HOST:PORT --out python.json
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

ROUNDS, CALLS = 7, 200

REMOTE = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
server = tf.distribute.Server({"worker": ["127.0.0.1:" + sys.argv[1]]}, job_name="worker",
                              task_index=0)
print("ready", flush=True)
server.join()
"""


def free_port():
  with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    return s.getsockname()[1]


def median_call(call):
  times = []
  for _ in range(CALLS):
    start = time.perf_counter()
    call()
    times.append(time.perf_counter() - start)
  return statistics.median(times)


def main():
  p = argparse.ArgumentParser(description=__doc__)
  p.add_argument("--server", required=True)
  p.add_argument("--out", required=True)
  args = p.parse_args()
  port = free_port()
  remote = subprocess.Popen([sys.executable, "-c", REMOTE, str(port)], stdout=subprocess.PIPE,
                            text=True)
  try:
    while "ready" not in remote.stdout.readline():
      if remote.poll() is not None:
        sys.exit("TensorFlow's server has not started")
    import tensorflow as tf
    import formwork
    tf.config.experimental_connect_to_host("127.0.0.1:%d" % port)
    x = np.ones((4, 4), np.float32)

    @tf.function
    def f(x):
      return x * 2.0 + 1.0

    def theirs():
      with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
        return f(tf.constant(x)).numpy()

    concrete = f.get_concrete_function(tf.TensorSpec([4, 4], tf.float32))
    server = formwork.connect(args.server, namespace="bench-python")
    ours = server.register("f", graph_def=concrete.graph.as_graph_def().SerializeToString(),
                           inputs=[formwork.TensorSpec(concrete.inputs[0].name, "float32", [4, 4])],
                           outputs=[concrete.outputs[0].name])
    np.testing.assert_allclose(ours(x)[0], theirs())
    rounds = [(median_call(lambda: ours(x)), median_call(theirs)) for _ in range(ROUNDS)]
    server.clear()
  finally:
    remote.kill()
  mine = statistics.median(a for a, _ in rounds) * 1e6
  peer = statistics.median(b for _, b in rounds) * 1e6
  with open(args.out, "w") as out:
    json.dump([{"name": "tiny_call_python_vs_tensorflow_remote", "unit": "us_p50", "ours": mine,
                "peer": peer, "peer_name": "tf.distribute.Server", "ratio": mine / peer}], out)


if __name__ == "__main__":
  main()
