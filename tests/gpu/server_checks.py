"""A formwork-server on a GPU beside one on the CPU, over gRPC.

  server_checks.py --server BIN --functions FOLDER [--device cuda:0] [--soak SECONDS]

FOLDER: what functions.py has dumped. Needs the client and what it depends on, no TensorFlow. Prints a
line for each check as GoogleTest does; exits 1 where one fails.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import formwork

CLIENTS, CALLS = 64, 200


def value(folder, entry):
  """An input or a variable's value of a dumped function."""
  with open(os.path.join(folder, entry["file"]), "rb") as f:
    data = f.read()
  dtype = np.dtype(entry["dtype"])
  size = dtype.itemsize * int(np.prod(entry["shape"]))
  return np.frombuffer((data * (size // len(data) + 1))[:size], dtype).reshape(entry["shape"])


def register(server, functions, name):
  """Registers a dumped function under its name. Returns the function, its inputs and variables."""
  folder = os.path.join(functions, name)
  with open(os.path.join(folder, "cut.json")) as f:
    cut = json.load(f)
  with open(os.path.join(folder, "graph.pb"), "rb") as f:
    graph = f.read()
  captures = {}
  for entry in cut["captures"]:
    initial = value(folder, entry)
    captures[entry["name"]] = server.variable(
        "%s/%s" % (name, entry["name"]), initial_value=initial) if entry["variable"] else initial
  function = server.register(
      name, graph_def=graph, outputs=cut["outputs"], captures=captures, targets=cut["targets"],
      inputs=[formwork.TensorSpec(e["name"], e["dtype"], e["shape"]) for e in cut["inputs"]])
  return function, [value(folder, e) for e in cut["inputs"]], list(captures.values())


class Server:
  """A process that ends when it is told to."""

  def __init__(self, binary, device, *flags):
    self.process = subprocess.Popen(
        [binary, "--device=" + device, "--port=0", "--http-port=-1", *flags],
        stdout=subprocess.PIPE, text=True)
    for line in self.process.stdout:
      ready = re.match(r"formwork-server ready grpc=(\S+)", line)
      if ready:
        break
    else:
      sys.exit("the server has ended")
    self.address = ready[1]

  def connect(self, **settings):
    return formwork.connect(self.address, **settings)

  def stop(self):
    self.process.send_signal(signal.SIGTERM)
    return self.process.wait(timeout=60)

  def mib(self):
    """Memory of the process and of the GPU."""
    with open("/proc/%d/status" % self.process.pid) as f:
      resident = int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) // 1024
    if shutil.which("nvidia-smi") is None:
      return resident, 0
    used = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True).stdout
    return resident, int(used.split()[0])


def many_clients(servers, args):
  """A variable that 64 clients add to at once is exact."""
  with servers[0].connect() as server:
    _, inputs, variables = register(server, args.functions, "tiny_state")

    def add():
      with servers[0].connect() as client:
        for _ in range(CALLS):
          client.call("tiny_state", inputs)

    threads = [threading.Thread(target=add) for _ in range(CLIENTS)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    got = np.asarray(variables[0].read())
    np.testing.assert_array_equal(got, np.full(16, 1 + CLIENTS * CALLS, np.float32))


def training(servers, args):
  """Losses follow the CPU's: what differs is the order of sums."""
  rng = np.random.default_rng(0)
  xs = rng.normal(size=(20, 64, 784)).astype(np.float32)
  ys = np.argmax(xs[:, :, :10], -1)
  losses = []
  for process in servers:
    with process.connect() as server:
      step, _, _ = register(server, args.functions, "mlp_adam_step")
      losses.append([np.asarray(step(xs[i % 20], ys[i % 20])).item() for i in range(100)])
  assert losses[1][-1] < 0.1 * losses[1][0], losses[1]
  np.testing.assert_allclose(losses[0], losses[1], rtol=0.02, atol=0.005)


def restarts(servers, args):
  """After kill -9 all is there that was answered, and a training goes on where it was."""
  rng = np.random.default_rng(1)
  xs = rng.normal(size=(6, 64, 784)).astype(np.float32)
  ys = np.argmax(xs[:, :, :10], -1)
  with servers[1].connect(namespace="restarts") as server:
    step, _, _ = register(server, args.functions, "mlp_adam_step")
    expected = [np.asarray(step(x, y)).item() for x, y in zip(xs, ys)]
  with tempfile.TemporaryDirectory() as data, contextlib.ExitStack() as ends:
    def start():
      process = Server(args.server, args.device, "--data-dir=" + data, "--durability=sync")
      ends.callback(process.process.kill)
      return process

    process, answered = start(), []
    with process.connect() as server:
      _, inputs, _ = register(server, args.functions, "tiny_state")
      register(server, args.functions, "mlp_adam_step")
      losses = [np.asarray(server.call("mlp_adam_step", [x, y])[0]).item()
                for x, y in zip(xs[:3], ys[:3])]

    def add():
      try:
        with process.connect(retry_for=0) as client:
          while True:
            client.call("tiny_state", inputs)
            answered.append(1)
      except formwork.Error:
        pass  # It has been killed.

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
      thread.start()
    time.sleep(2)
    process.process.kill()
    for thread in threads:
      thread.join()
    process = start()
    with process.connect() as server:
      (counted,) = [v for v in server.variables() if v.name.startswith("tiny_state/")]
      got = np.asarray(counted.read())
      least = 1 + len(answered)
      print("%d calls were answered before it was killed" % len(answered))
      assert answered and least <= got[0] <= least + len(threads), (got[0], least)
      np.testing.assert_array_equal(got, np.full(16, got[0]))
      losses += [np.asarray(server.call("mlp_adam_step", [x, y])[0]).item()
                 for x, y in zip(xs[3:], ys[3:])]
    np.testing.assert_allclose(losses, expected, rtol=0.02, atol=0.005)
    assert process.stop() == 0


def inference(servers, args):
  """The same logits as on the CPU."""
  logits = []
  for process in servers:
    with process.connect() as server:
      function, inputs, _ = register(server, args.functions, "mlp_inference")
      logits.append(np.asarray(function(*inputs)))
  np.testing.assert_allclose(logits[0], logits[1], rtol=1e-4, atol=1e-4)


def soak(servers, args):
  """Calls leave no memory taken, of the process or of the GPU."""
  with servers[0].connect() as server:
    function, inputs, _ = register(server, args.functions, "tiny_function")

    def call(seconds):
      end, calls = time.time() + seconds, 0
      while time.time() < end:
        function(*inputs)
        calls += 1
      return calls

    call(args.soak / 4)
    before = servers[0].mib()
    calls = call(args.soak)
    after = servers[0].mib()
  print("%d calls: MiB of the process and the GPU %s, then %s" % (calls, before, after))
  assert calls > 100 * args.soak, calls
  assert after[0] - before[0] < 16 and after[1] - before[1] < 16


def stops(servers, args):
  """SIGTERM ends it cleanly."""
  assert servers[0].stop() == 0


def main():
  p = argparse.ArgumentParser(description=__doc__)
  p.add_argument("--server", required=True)
  p.add_argument("--functions", required=True)
  p.add_argument("--device", default="cuda:0")
  p.add_argument("--soak", type=float, default=20)
  args = p.parse_args()
  failed = False
  servers = [Server(args.server, device) for device in (args.device, "cpu")]
  try:
    for check in (many_clients, training, restarts, inference, soak, stops):
      begin, how = time.time(), "[       OK ]"
      try:
        check(servers, args)
      except Exception as error:  # pylint: disable=broad-except
        print(error)
        failed, how = True, "[  FAILED  ]"
      name = check.__name__.title().replace("_", "")
      print("%s ServerOnGpu.%s (%d ms)" % (how, name, (time.time() - begin) * 1e3), flush=True)
  finally:
    for server in servers:
      with contextlib.suppress(ProcessLookupError):
        server.process.kill()
  sys.exit(failed)


if __name__ == "__main__":
  main()
