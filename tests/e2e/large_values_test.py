"""Values beyond a message, by the Python client: variables, kept tensors, inputs and outputs."""
import formwork
import numpy as np

import server_graphs
import server_process


def test_values_beyond_a_message_travel_in_chunks():
  value = np.random.default_rng(0).random(5 << 20, np.float32)
  text = np.array([b"a"] * 9 + [b"b" * 1000000] * 9, object)
  with server_process.running("--max-message-bytes", "4M") as process:
    with formwork.connect(process.grpc, namespace="large", timeout=60) as server:
      variable = server.variable("v", initial_value=value)
      assert (variable.read() == value).all()
      variable.assign(value + 1)
      assert (variable.read() == value + 1).all()
      assert server.variable("t", initial_value=text).read().tolist() == text.tolist()
      (out,) = server_graphs.register(server, "identity")(value)
      assert (out == value).all() and server.kept_tensors() == []
      (out,) = server.call("identity", [value])
      assert (out == value).all() and server.kept_tensors() == []
      assert (server.keep(value).read() == value).all()
