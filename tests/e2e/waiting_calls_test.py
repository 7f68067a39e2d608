"""Calls that wait, in line for a variable or for a thread: their deadlines and cancellation."""
import threading
import time

import formwork
import numpy as np
import pytest

import server_graphs
import server_process


@pytest.fixture(scope="module")
def client():
  with server_process.running("--threads", "1") as made:
    with formwork.connect(made.grpc, namespace="waiting", timeout=60) as server:
      yield server


@pytest.fixture(scope="module")
def functions(client):
  """(spin, adding): one only computes, one holds the variable meanwhile; both take turns."""
  import tensorflow as tf
  v = tf.Variable(0.0)

  @tf.function
  def adding(n):
    i, x = tf.constant(0), v.read_value()
    while i < n:
      x = tf.sin(x)
      i += 1
    v.assign_add(1.0 + 0.0 * x)
    return v.read_value()

  concrete = adding.get_concrete_function(tf.TensorSpec([], tf.int32))
  (captured, placeholder), = concrete.graph.captures
  assert captured is v.handle
  variable = client.variable("v", initial_value=np.float32(0))
  registered = client.register(
      "adding", graph_def=concrete.graph.as_graph_def().SerializeToString(),
      inputs=[formwork.TensorSpec(concrete.inputs[0].name, "int32", [])],
      outputs=[concrete.outputs[0].name], captures={placeholder.name: variable})
  return server_graphs.register(client, "spin"), registered, variable


def in_background(call):
  thread = threading.Thread(target=call)
  thread.start()
  time.sleep(0.2)
  return thread


def assert_late(call):
  """Fails at its deadline by the server's own clock, long before what it waits for ends."""
  started = time.monotonic()
  with pytest.raises(formwork.Error) as raised:
    call(timeout=0.3)
  assert raised.value.code == "DEADLINE_EXCEEDED"
  # The client's own backstop says something else.
  assert "the call's deadline has passed" in raised.value.message
  return time.monotonic() - started


def test_a_call_in_line_for_a_variable_ends_at_its_deadline(client, functions):
  spin, adding, variable = functions
  before = variable.read()
  turns = server_graphs.turns_of(spin, 3)
  holder = in_background(lambda: adding(turns))
  took = assert_late(lambda timeout: adding(np.int32(0), timeout=timeout))
  assert holder.is_alive(), "the call that it waited for had ended after %g s" % took
  holder.join()
  # It left the line and nothing behind: the next one goes on from the holder's value.
  assert adding(np.int32(0))[0] == before + 2


def test_a_call_in_line_for_a_thread_ends_at_its_deadline(client, functions):
  spin, _, _ = functions
  turns = server_graphs.turns_of(spin, 3)
  holders = [in_background(lambda: spin(turns)) for _ in range(2)]
  took = assert_late(lambda timeout: spin(turns, timeout=timeout))
  assert any(h.is_alive() for h in holders), "all threads were free again after %g s" % took
  for holder in holders:
    holder.join()
  assert spin(np.int32(1))[0] == np.sin(np.float32(1))


def queue_function(client, name, build):
  """A function of x over a queue of two elements."""
  import tensorflow as tf

  @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="x")])
  def f(x):
    return build(tf.raw_ops.FIFOQueueV2(component_types=[tf.float32], shapes=[[]], capacity=2,
                                        shared_name="handed over"), x)

  concrete = f.get_concrete_function()
  return client.register(
      name, graph_def=concrete.graph.as_graph_def().SerializeToString(),
      inputs=[formwork.TensorSpec(concrete.inputs[0].name, "float32", [])],
      outputs=[concrete.outputs[0].name],
      targets=[op.name for op in concrete.graph.control_outputs])


def test_clients_hand_elements_over_by_a_queue(client):
  """One thread runs the calls: who waits for an element, or for room, does not keep it."""
  import tensorflow as tf

  def put(queue, x):
    tf.raw_ops.QueueEnqueueV2(handle=queue, components=[x])
    return tf.identity(x)

  take = queue_function(client, "take", lambda queue, x: x + tf.raw_ops.QueueDequeueV2(
      handle=queue, component_types=[tf.float32])[0])
  put = queue_function(client, "put", put)
  assert_late(lambda timeout: take(np.float32(0), timeout=timeout))
  taken = []
  takers = [in_background(lambda: taken.extend(float(take(np.float32(0.5))[0]) for _ in range(20)))
            for _ in range(8)]
  putters = [in_background(lambda k=k: [put(np.float32(40 * k + i)) for i in range(40)])
             for k in range(4)]
  for thread in takers + putters:
    thread.join()
  assert sorted(taken) == [i + 0.5 for i in range(160)]
