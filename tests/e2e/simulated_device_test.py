"""A server whose functions run on the simulated device: it ends with an error where that finds a race.

More of it: run other tests with FORMWORK_BIN=build/dev/bin/simulated (tests/README.md).
"""
import concurrent.futures
import signal
import time

import formwork
import numpy as np
import pytest
import server_process
import tensorflow as tf
from formwork.v1 import functions_pb2


PROGRAM = "simulated/formwork-server"
DEVICES = [["--simulated-device=1"], ["--simulated-device=2"],
           ["--simulated-device=3", "--enqueues"]]


@pytest.fixture(params=DEVICES, ids=" ".join)
def client(request):
  with server_process.running(*request.param, program=PROGRAM) as server:
    with formwork.connect(server.grpc, timeout=60) as made:
      yield made
      with server.channel() as channel:
        asked = functions_pb2.DescribeFunctionRequest(name=made.functions()[0].name, plan=True)
        plan = server_process.unary(channel, "DescribeFunction")(asked.SerializeToString())
      assert b"@device" in plan


def test_variables_branches_loops_and_values_that_decide_on_shapes(client):
  def make():
    v = tf.Variable(np.eye(4, dtype=np.float32))

    def f(x, n):
      for _ in tf.range(n):
        v.assign_add(tf.tanh(x @ v))
      if tf.reduce_sum(v) > 30.:
        v.assign(v / tf.reduce_max(v))
      return v + 0., tf.where(x > 0.), tf.size(tf.boolean_mask(x, x > 0.))
    return f

  ours, theirs = client.function(make()), tf.function(make())
  x = np.linspace(-1, 2, 16, dtype=np.float32).reshape(4, 4)
  for n in (0, 3, 5, 2, 7):
    for got, want in zip(ours(x, tf.constant(n)), theirs(x, tf.constant(n))):
      np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5)


def test_calls_of_several_threads_take_their_turns(client):
  v = tf.Variable([0., 0.])

  @client.function
  def step(x):
    before = v + 0.
    if tf.reduce_sum(x) > 0.:  # Known to the device alone.
      v.assign_add(x)
    return before[0], tf.identity(v)[0]

  one = tf.constant([1., 2.])
  step(one)
  with concurrent.futures.ThreadPoolExecutor(8) as threads:
    answers = [(float(before), float(after))
               for before, after in threads.map(lambda _: step(one), range(64))]
  assert sorted(answers) == [(float(k), float(k + 1)) for k in range(1, 65)]


def test_calls_hand_values_on_by_a_queue(client):
  """While it waits a call has no place at the variable that it has changed, and others change it."""
  v = tf.Variable([1., 1.])

  def queue():
    return tf.raw_ops.FIFOQueueV2(component_types=[tf.float32], shapes=[[2]], capacity=1,
                                  shared_name="handed on")

  @client.function
  def put(x):
    v.assign_add(x)
    tf.raw_ops.QueueEnqueueV2(handle=queue(), components=[v * 1.])
    return v + 0.

  @client.function
  def take():
    v.assign_add([1., 0.])
    taken, = tf.raw_ops.QueueDequeueV2(handle=queue(), component_types=[tf.float32])
    v.assign_add(0. * taken + [0., 1.])
    return taken + 0.

  put(tf.zeros([2]))
  take()
  with concurrent.futures.ThreadPoolExecutor(24) as pool:
    taken = [pool.submit(take) for _ in range(12)]
    for call in [pool.submit(put, tf.constant([10., 10.])) for _ in range(12)]:
      call.result()
  assert all(t.result().numpy()[0] >= 11. for t in taken)
  np.testing.assert_array_equal((put(tf.zeros([2]))).numpy(), [134., 134.])


def test_an_error_of_the_device_names_its_node_and_leaves_what_came_before(client):
  v = tf.Variable([0.])

  @client.function
  def f(x):
    v.assign_add([1.])
    y = tf.gather(x, tf.cast(x[0], tf.int32) + 5, name="far")
    v.assign_add([10.])
    return y

  @client.function
  def read():
    return v + 0.

  with pytest.raises(formwork.Error, match="far"):
    f(tf.constant([1., 2.]))
  assert read().numpy().tolist() == [1.]


def test_a_bad_index_fails_its_call_and_leaves_what_comes_after_it(client):
  rows = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))  # The client's, so in host memory.
  count = tf.Variable(0.)

  @client.function
  def step(i):
    count.assign_add(1.)
    row = tf.gather(rows, i)
    rows.scatter_nd_update([[0]], [[9., 9.]])
    count.assign_add(100.)
    return row

  ok = tf.constant([2, 1], tf.int64)
  np.testing.assert_array_equal(step(ok), [[4, 5], [2, 3]])
  with pytest.raises(formwork.Error, match=r"indices\[1\] = 7 is not in \[0, 3\)"):
    step(tf.constant([0, 7], tf.int64))
  client.pull([rows, count])
  assert count.numpy() == 102  # Of the call that failed, what came before.
  np.testing.assert_array_equal(rows.numpy(), [[9, 9], [2, 3], [4, 5]])

  @client.function
  def divide(x, y):
    count.assign(7.)
    quotient = x // y
    count.assign(tf.cast(quotient[0], tf.float32))
    return quotient

  sevens = tf.constant([7, -7], tf.int64)
  np.testing.assert_array_equal(divide(sevens, tf.constant([2, 2], tf.int64)), [3, -4])
  with pytest.raises(formwork.Error, match="division by zero"):
    divide(sevens, tf.constant([2, 0], tf.int64))
  client.pull([count])
  assert count.numpy() == 7


def test_an_atomic_call_leaves_nothing_where_it_fails(client):
  a, b = tf.Variable([1., 2.]), tf.Variable(3)

  def step(x, i):
    a.assign_add(x)
    b.assign_add(1)
    row = tf.gather(a, i)  # Which the device may find wrong, or the host.
    a.assign(a * 2.)
    return row

  atomic, plain = client.function(step, atomic=True), client.function(step)
  x = tf.constant([1., 1.])
  assert atomic(x, tf.constant(1)) == 3
  client.pull([a, b])
  assert (a.numpy().tolist(), b.numpy()) == ([4, 6], 4)
  with pytest.raises(formwork.Error) as failed:
    atomic(x, tf.constant(5))
  assert failed.value.effects == "none"
  assert atomic(x, tf.constant(0)) == 5
  with pytest.raises(formwork.Error) as failed:
    plain(x, tf.constant(5))
  assert failed.value.effects == "some"
  client.pull([a, b])
  assert (a.numpy().tolist(), b.numpy()) == ([11, 15], 6)


@pytest.mark.parametrize("device", DEVICES, ids=" ".join)
@pytest.mark.parametrize("durability", ["snapshot", "sync"])
def test_what_is_on_the_device_outlives_the_server(tmp_path, device, durability):
  flags = ["--data-dir", str(tmp_path), "--durability", durability, *device]
  with server_process.running(*flags, program=PROGRAM) as server:
    with formwork.connect(server.grpc, timeout=60) as client:
      v = tf.Variable(np.zeros(1000, np.float32), name="v")

      @client.function
      def step(x):
        return tf.reduce_sum(v.assign_add(x + tf.zeros(1000)))

      for _ in range(3):
        step(tf.constant(1.))
      name = client.functions()[0].name
      client.snapshot()
      step(tf.constant(1.))
  with server_process.running(*flags, program=PROGRAM, exit_code=-signal.SIGKILL) as server:
    with formwork.connect(server.grpc, timeout=60) as client:
      assert client.call(name, [np.float32(2)])[0] == 6000
      if durability == "snapshot":
        client.snapshot()
      server.terminate(signal.SIGKILL)
      server.exit_code()
  with server_process.running(*flags, program=PROGRAM) as server:
    with formwork.connect(server.grpc, timeout=60) as client:
      (v,) = client.variables()
      np.testing.assert_array_equal(v.read(), np.full([1000], 6, np.float32))
      assert client.call(name, [np.float32(-6)])[0] == 0


def test_the_devices_memory_has_a_limit_of_its_own():
  refused = r"the device's limit is reached: bytes wanted=%d used=\d+ limit=1048576"
  with server_process.running("--gpu-memory-bytes=1M", program=PROGRAM) as server:
    with formwork.connect(server.grpc, timeout=60) as client:
      small = tf.Variable(np.ones(1000, np.float32), name="small")
      large = tf.Variable(np.ones(300_000, np.float32), name="large")

      @client.function
      def count():
        return small.assign_add(tf.ones(1000))

      @client.function
      def fill(n):
        return tf.reduce_sum(tf.fill([n], 1.5))

      @client.function
      def read():
        return large[0]

      assert count()[0] == 2
      with pytest.raises(formwork.Error, match=refused % 1_200_000):
        read()
      with pytest.raises(formwork.Error, match=refused % 2_000_000):
        fill(500_000)
      assert fill(1000) == 1500
      assert count()[0] == 3
      assert server.metric("formwork_device_memory_limit_bytes") == 1 << 20
      assert 4000 <= server.metric("formwork_device_memory_used_bytes") < 20_000
      assert server.metric("formwork_memory_refusals_total") >= 2


def wait_until(condition, seconds=5):
  end = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < end
    time.sleep(0.02)


@pytest.mark.parametrize("fault", ["lost", "stalled"])
@pytest.mark.parametrize("device", DEVICES[1:], ids=" ".join)
@pytest.mark.parametrize("durability", ["snapshot", "sync"])
def test_where_the_device_is_lost_calls_and_health_say_so(tmp_path, fault, device, durability):
  flags = ["--data-dir", str(tmp_path), "--durability", durability, "--device-stall-timeout=1",
           *device]
  with server_process.running(*flags, program=PROGRAM, exit_code=4) as server:
    with formwork.connect(server.grpc, timeout=60, retry_for=0) as client:
      v = tf.Variable(np.zeros(1000, np.float32), name="v")

      @client.function
      def step(x):
        return tf.reduce_sum(v.assign_add(x + tf.zeros(1000)))

      step(tf.constant(1.))
      client.snapshot()
      assert server.get("/readyz")[0] == 200
      assert server.metric("formwork_device_lost") == 0
      answered = []

      def call_until_it_fails():
        while True:
          try:
            step(tf.constant(1.))
          except formwork.Error as error:
            return error
          answered.append(1)

      # They are everywhere then: enqueued, in line, waiting for the disk.
      with concurrent.futures.ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(call_until_it_fails) for _ in range(4)]
        time.sleep(0.2)
        server.terminate(signal.SIGUSR1 if fault == "lost" else signal.SIGUSR2)
        for call in calls:
          error = call.result(timeout=10)
          assert error.code == "UNAVAILABLE", error
      wait_until(lambda: server.get("/readyz")[0] == 503)
      reason = "the simulated device is lost" if fault == "lost" else "nothing has gone on there"
      for path in ("/readyz", "/healthz"):
        code, text = server.get(path)
        assert (code, reason in text) == (503, True), text
      assert server.metric("formwork_device_lost") == 1
      with server.channel() as channel:
        # gRPC's health is told after the calls, by another thread than the one that answers here.
        wait_until(lambda: server_process.health(channel) == "NOT_SERVING")
      with pytest.raises(formwork.Error, match="device sim:0 is lost") as failed:
        client.read([client.variables()[0]])
      assert (failed.value.code, failed.value.reason) == ("UNAVAILABLE", "DEVICE_LOST")
      server.terminate()
      server.exit_code()
      assert "the last snapshot could not be taken" in server.log_text()
  with server_process.running(*flags, program=PROGRAM) as server:
    with formwork.connect(server.grpc, timeout=60) as client:
      (v,) = client.variables()
      values = set(v.read().tolist())
      assert len(values) == 1
      # Of calls that failed it is not known.
      most = len(answered) + len(calls) if durability == "sync" else 0
      least = len(answered) if durability == "sync" else 0
      assert 1 + least <= values.pop() <= 1 + most
