"""Prints how many events and waits the plans of models have that use several streams of a device.

Of tests/bench's models, by what `formwork describe --plan` says of them on the simulated device. Waits for
variables are not among them: they follow from what other calls do.
"""
import collections
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "bench"), str(TESTS / "e2e")]

import formwork  # pylint: disable=wrong-import-position
import server_process  # pylint: disable=wrong-import-position
import traced  # pylint: disable=wrong-import-position
from formwork.v1 import functions_pb2  # pylint: disable=wrong-import-position

MODELS = ["resnet50_b1", "mlp_adam_step", "cnn_step"]


def plan_of(server, client, name):
  function, inputs = getattr(traced, name)()
  client.function(function.python_function, name=name).get_concrete_function(*inputs)
  with server.channel() as channel:
    asked = functions_pb2.DescribeFunctionRequest(name=name, plan=True)
    described = server_process.unary(channel, "DescribeFunction")(asked.SerializeToString())
  return functions_pb2.DescribeFunctionResponse.FromString(described).text


def main():
  with server_process.running("--least-stream-work=50000",
                              program="simulated/formwork-server") as server:
    with formwork.connect(server.grpc, timeout=600) as client:
      for name in MODELS:
        text = plan_of(server, client, name)
        steps = collections.Counter()
        waits, events = 0, set()
        for line in text.splitlines():
          if not re.match(r"\d+: .*(\(|point)", line):
            continue
          on = re.search(r"'? stream (\d)", line)
          steps[int(on[1]) if on else 0] += 1
          waited = re.search(r" wait ([\d ]+\d|\d)( drop|$)", line)
          if waited:
            waits += len(waited[1].split())
            events.update(waited[1].split())
        print("%s: steps by stream %s, %d events, %d waits" %
              (name, dict(sorted(steps.items())), len(events), waits))
        if "--text" in sys.argv:
          print(text)


if __name__ == "__main__":
  main()
