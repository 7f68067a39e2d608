"""Metrics that clients may try to spoil."""
import contextlib
import re
import time

import formwork
import numpy as np

import harness
import server_graphs


@harness.attack("names of 100 KB: functions, namespaces, with quotes and line ends")
def made_up_names(attack):
  server = attack.server()
  client = attack.client(server)
  identity = server_graphs.register(client, "identity")
  identity(np.float32([1]))
  for i in range(60):
    name = "%d\"\n\\ %s" % (i, "x" * (100 << 10))
    for namespace in ("default", name):
      with contextlib.suppress(formwork.Error, ValueError):  # Such a name may be refused.
        with formwork.connect(server.grpc, namespace=namespace, timeout=30) as other:
          server_graphs.register(other, "identity", name)(np.float32([1]))
  started = time.monotonic()
  code, text = server.get("/metrics", timeout=30)
  seconds = time.monotonic() - started
  attack.check(code == 200 and seconds < 0.5, "/metrics took %.2f s" % seconds)
  attack.check(len(text) < 500_000, "/metrics has %d bytes" % len(text))
  line = re.compile(r'^[a-zA-Z_]\w*(\{(\w+="([^"\\]|\\.)*",?)*\})? \S+$')
  for found in text.splitlines():
    attack.check(found.startswith("#") or line.match(found), "malformed: " + found[:100])
  return "%d KB in %.0f ms" % (len(text) >> 10, 1000 * seconds)
