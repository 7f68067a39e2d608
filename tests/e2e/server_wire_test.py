"""What the server says to any gRPC client: health, reflection, streams, limits and errors."""
import queue
import time

import formwork
import grpc
import numpy as np
import pytest
from formwork.v1 import graph_service_pb2 as pb

import server_graphs
import server_process

KEY = "formwork-error-bin"


@pytest.fixture(scope="module")
def server():
  with server_process.running("--max-message-bytes", "64M") as made:
    yield made


@pytest.fixture(scope="module")
def client(server):
  with formwork.connect(server.grpc, namespace="wire", timeout=60) as made:
    yield made


@pytest.fixture(scope="module")
def identity(client):
  return server_graphs.register(client, "identity")


@pytest.fixture(scope="module")
def spin(client):
  return server_graphs.register(client, "spin")


@pytest.fixture
def channel(server):
  with server.channel() as made:
    yield made


def call_request(function, value, **fields):
  value = np.asarray(value, order="C")
  request = pb.CallRequest(namespace="wire", function_id=function.id, **fields)
  tensor = request.inputs.add().tensor
  tensor.dtype = {"float32": 1, "int32": 3}[value.dtype.name]
  tensor.dims.extend(value.shape)
  tensor.content = value.tobytes()
  return request


def call(channel, request, timeout=20):
  answer = server_process.unary(channel, "Call")(
      request if isinstance(request, bytes) else request.SerializeToString(), timeout=timeout)
  return pb.CallResponse.FromString(answer)


def failure(channel, method, request, timeout=20):
  with pytest.raises(grpc.RpcError) as raised:
    server_process.unary(channel, method)(request, timeout=timeout)
  return raised.value


class Stream:
  """A CallStream: requests are sent when told, answers read one by one."""

  def __init__(self, channel):
    self.requests = queue.SimpleQueue()
    self.answers = channel.stream_stream(server_process.SERVICE + "CallStream")(
        iter(self.requests.get, None))

  def send(self, request):
    self.requests.put(request if isinstance(request, bytes) else request.SerializeToString())

  def read(self):
    return pb.CallResponse.FromString(next(self.answers))

  def end(self):
    self.requests.put(None)
    return list(self.answers)


@pytest.mark.parametrize("service", ["", "formwork.v1.GraphService"])
def test_health_says_that_it_serves(channel, service):
  assert server_process.health(channel, service) == "SERVING"


def test_health_does_not_know_other_services(channel):
  error = failure(channel, "/grpc.health.v1.Health/Check", b"\x0a\x01x")
  assert error.code() is grpc.StatusCode.NOT_FOUND


def test_reflection_lists_the_service(channel):
  ask = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
  assert b"formwork.v1.GraphService" in next(ask(iter([b"\x3a\x01*"]), timeout=10))


def test_a_unary_call(channel, identity):
  response = call(channel, call_request(identity, np.float32([1, 2])))
  assert np.frombuffer(response.outputs[0].tensor.content, np.float32).tolist() == [1, 2]
  assert response.epoch and response.function_id == identity.id


@pytest.mark.parametrize("size", [0, 1, 9, 1000, 1 << 16, (1 << 22) + 3])
def test_values_of_any_size_come_back(channel, identity, size):
  value = np.random.default_rng(size).random(size, np.float32)
  response = call(channel, call_request(identity, value))
  assert response.outputs[0].tensor.content == value.tobytes()


@pytest.mark.parametrize("method", ["Call", "ReadVariable", "AssignVariable", "Register",
                                    "ListFunctions", "CreateVariable"])
@pytest.mark.parametrize("junk", [b"\xff", b"\x0a\x05abc", b"\x0a\x01\xff", b"\x00\x01"])
def test_malformed_bytes_are_refused(channel, method, junk):
  assert failure(channel, method, junk).code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_bad_value_names_its_input(channel, identity):
  request = call_request(identity, np.float32([1, 2]))
  request.inputs[0].tensor.dims[0] = 2**62
  error = failure(channel, "Call", request.SerializeToString())
  assert error.code() is grpc.StatusCode.INVALID_ARGUMENT and "input 0" in error.details()


def test_an_unknown_function_says_so_in_the_details(channel, server):
  request = pb.CallRequest(namespace="wire", function_id=123456789)
  error = failure(channel, "Call", request.SerializeToString())
  details = pb.ErrorDetails.FromString(dict(error.trailing_metadata())[KEY])
  assert error.code() is grpc.StatusCode.NOT_FOUND
  assert details.unknown_function and details.epoch


def test_a_message_beyond_the_limit_is_refused(channel, identity):
  request = call_request(identity, np.zeros(17 << 20, np.float32)).SerializeToString()
  error = failure(channel, "Call", request)
  assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
  call(channel, call_request(identity, np.float32([1])))


def test_a_long_error_arrives_with_what_fits(channel):
  request = pb.RegisterRequest(namespace="wire", name="f")
  node = b"".join(b"\x0a" + bytes([len(body)]) + body for body in (
      b"\x0a\x06node%02d" % i + b"\x12\x28" + b"NoSuchOpWithAVeryLongNameOfForty%08d" % i
      for i in range(90)))
  request.graph_def = node
  request.outputs.extend("node%02d:0" % i for i in range(90))
  error = failure(channel, "Register", request.SerializeToString())
  assert error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT)
  assert len(error.details()) <= 4096
  details = pb.ErrorDetails.FromString(dict(error.trailing_metadata())[KEY])
  assert details.epoch


def test_a_deadline_ends_a_call(channel, spin):
  started = time.monotonic()
  error = failure(channel, "Call", call_request(spin, np.int32(2**31 - 1)).SerializeToString(),
                  timeout=0.3)
  assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
  assert time.monotonic() - started < 5
  call(channel, call_request(spin, np.int32(1)))


def running_calls(server):
  text = server.get("/metrics")[1]
  return float([line for line in text.splitlines()
                if line.startswith("formwork_calls_running ")][0].split()[1])


def wait_until_idle(server):
  deadline = time.monotonic() + 10
  while running_calls(server) > 0:
    assert time.monotonic() < deadline, "the call goes on"
    time.sleep(0.02)


def test_cancelling_a_call_stops_it(channel, server, spin):
  wait_until_idle(server)
  future = server_process.unary(channel, "Call").future(
      call_request(spin, np.int32(2**31 - 1)).SerializeToString(), timeout=60)
  deadline = time.monotonic() + 10
  while running_calls(server) == 0 and time.monotonic() < deadline:
    time.sleep(0.02)
  future.cancel()
  wait_until_idle(server)


def test_a_stream_answers_in_the_order_sent(channel, identity):
  stream = Stream(channel)
  for i in range(200):
    size = 300000 if i % 50 == 7 else 3  # Some are decoded on other threads.
    stream.send(call_request(identity, np.full([size], i, np.float32), call_id=i))
  for i in range(200):
    response = stream.read()
    assert response.call_id == i and response.error.code == 0
    assert np.frombuffer(response.outputs[0].tensor.content, np.float32)[0] == i
  assert stream.end() == []


def test_a_stream_goes_on_after_an_error(channel, identity):
  stream = Stream(channel)
  stream.send(call_request(identity, np.float32([1]), call_id=1))
  stream.send(pb.CallRequest(namespace="wire", function_id=123456789, call_id=2))
  stream.send(b"\x28\x03\xff")  # call_id 3, then junk.
  stream.send(call_request(identity, np.float32([1]), call_id=4))
  responses = [stream.read() for _ in range(4)]
  assert [r.call_id for r in responses] == [1, 2, 3, 4]
  assert [r.error.code for r in responses] == [0, 5, 3, 0]
  assert responses[1].error.details.unknown_function
  assert stream.end() == []


def test_a_call_of_a_stream_has_its_own_deadline(channel, identity, spin):
  stream = Stream(channel)
  stream.send(call_request(spin, np.int32(2**31 - 1), call_id=1, timeout_us=200000))
  stream.send(call_request(identity, np.float32([1]), call_id=2, timeout_us=20000000))
  assert stream.read().error.code == 4
  assert stream.read().error.code == 0
  assert stream.end() == []


def test_cancelling_a_stream_stops_its_call(channel, server, spin):
  wait_until_idle(server)
  stream = Stream(channel)
  for _ in range(3):
    stream.send(call_request(spin, np.int32(2**31 - 1)))
  deadline = time.monotonic() + 10
  while running_calls(server) == 0 and time.monotonic() < deadline:
    time.sleep(0.02)
  stream.answers.cancel()
  wait_until_idle(server)


def test_large_variables_travel(channel, client):
  value = np.arange(3 << 20, dtype=np.float32)
  variable = client.variable("large", initial_value=value)
  variable.assign(value + 1)
  assert np.array_equal(variable.read(), value + 1)
  variable.delete()
