"""The `formwork` command: numbers that its user did not write, names that write to his terminal."""
import subprocess

import harness
import numpy as np
import server_process
import tensorflow as tf


def _register(client, dtype):
  graph, inputs, outputs = harness.graph(tf.identity, tf.TensorSpec([], dtype))
  return client.register("f", graph_def=graph, inputs=inputs, outputs=outputs)


def _run(server, *arguments):
  return subprocess.run([server_process.binary("formwork"), "--server", server.grpc, *arguments],
                        capture_output=True, timeout=60)


@harness.attack("numbers that are no value of the input's dtype")
def numbers_that_do_not_fit(attack):
  server = attack.server()
  client = attack.client(server)
  refused = 0
  for dtype, texts in {
      "int64": ["3.7", "99999999999999999999", "-9223372036854775809", "true", '"1"', "1e3"],
      "uint8": ["256", "-1"], "int32": ["3000000000"], "float32": ["1e39", '"1"', "true"],
      "bool": ["2", "1"]}.items():
    client.clear()
    _register(client, dtype)
    for text in texts:
      done = _run(server, "call", "f", "--input", text)
      attack.check(done.returncode == 1 and b"not a value of dtype" in done.stderr,
                   "%s for %s: %r" % (text, dtype, done.stdout + done.stderr))
      refused += 1
  return "%d of %d refused" % (refused, refused)


@harness.attack("names and strings with escape sequences, shown on a terminal")
def escape_sequences(attack):
  server = attack.server()
  client = attack.client(server)
  _register(client, "string")
  evil = "\x1b]0;owned\x07\x9b31m"
  shown = _run(server, "call", "f", "--input", '"%s"' % evil.encode("unicode_escape").decode()
               .replace("\\x", "\\u00")).stdout
  try:
    client.variable("v" + evil, initial_value=np.float32(1))
  except harness.formwork.Error:
    pass  # A server may refuse such names.
  shown += _run(server, "variables").stdout + _run(server, "read", "v" + evil).stderr
  shown += _run(server, "call", evil, "--input", "1").stderr
  raw = [c for c in shown if c < 32 and c != 10 or c == 127]
  attack.check(not raw, "control characters reached the terminal: %r" % shown)
  return "none of %d bytes is a control character" % len(shown)
