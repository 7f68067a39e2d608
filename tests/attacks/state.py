"""What outlives a call: variables that are deleted, written late, or of an earlier server."""
import threading
import time

import formwork
import harness
import numpy as np
import tensorflow as tf

_NUMBER = tf.TensorSpec([], tf.float32)


def holder(client, name):
  """A function that turns for ever with variable `name` in its hands."""
  v = tf.Variable(0., name=name)

  @tf.function(input_signature=[_NUMBER])
  def run(x):
    v.assign(tf.while_loop(lambda i: i >= 0., lambda i: i + 1., [x])[0])
    return v.read_value()

  concrete = run.get_concrete_function()
  handle = concrete.inputs[-1].name
  return client.register(
      "hold", concrete.graph.as_graph_def().SerializeToString(),
      [formwork.TensorSpec(concrete.inputs[0].name, "float32", [])],
      [t.name for t in concrete.outputs],
      captures={handle: client.variable(name, dtype="float32", shape=[])})


@harness.attack("an assign that is late behind a long writer")
def late_assign(attack):
  client = attack.client(attack.server())
  v = client.variable("v", np.float32(1))
  held = holder(client, "v")
  writer = threading.Thread(target=lambda: _quietly(held, np.float32(0), timeout=3))
  writer.start()
  time.sleep(.5)
  for attempt in (lambda: v.assign(np.float32(42), timeout=.3), lambda: v.read(timeout=.3)):
    try:
      attempt()
    except Exception as error:
      attack.check("deadline" in str(error).lower(), "another error: %s" % error)
    else:
      attack.check(False, "it did not wait for the writer")
  writer.join()
  time.sleep(1)
  value = float(v.read())
  attack.check(value == 1, "%g was written after the deadline" % value)
  return "%g stayed" % value


def _quietly(function, *args, **kwargs):
  try:
    function(*args, **kwargs)
  except Exception:
    pass


@harness.attack("a captured variable that is deleted, and a new one of its name")
def deleted_variable(attack):
  client = attack.client(attack.server())
  v = client.variable("v", np.float32(1))
  other = tf.Variable(1., name="v")
  run = tf.function(lambda: other.read_value()).get_concrete_function()
  function = client.register(
      "read", run.graph.as_graph_def().SerializeToString(), [], [t.name for t in run.outputs],
      captures={run.inputs[0].name: v})
  attack.check(float(function()[0]) == 1, "a wrong value")
  v.delete()
  client.variable("v", np.float32(7))
  try:
    value = float(function()[0])
  except Exception as error:
    attack.check("v" in str(error) and "deleted" in str(error), "another error: %s" % error)
    return "the call says what is missing"
  attack.check(value == 7, "the old value %g lives on" % value)
  return "the call sees the new one"
