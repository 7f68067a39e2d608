"""A training function of TensorFlow's, whose server ends and comes back."""
import harness
import tensorflow as tf


@harness.attack("a training function whose server restarted goes on from values that are old")
def values_of_before(attack):
  first = attack.server(expect_end=True)
  port = first.grpc.rpartition(":")[2]
  client = attack.client(first)
  v = tf.Variable(0., name="v")
  step = client.function(lambda x: v.assign_add(x))
  for _ in range(5):
    step(1.)
  first.process.kill()
  first.process.wait()
  attack.server("--port", port)
  raised = 0
  for _ in range(3):
    try:
      step(1.)
    except tf.errors.FailedPreconditionError as e:
      attack.check("'v'" in str(e) or "(v)" in str(e), "the error names no variable: %s" % e)
      raised += 1
  attack.check(raised == 3, "%d of 3 calls went on from values that are old" % (3 - raised))
  attack.check(not client.variables(), "the old value is on the server")
  client.push()
  value = float(step(1.))
  attack.check(value == 1, "after push() the value is %g" % value)
  return "3 of 3 calls raise, push() goes on"
