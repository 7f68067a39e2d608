"""What the server says to any gRPC client: health, reflection, streams, limits and errors."""
import queue
import time

import formwork
import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from formwork.rpc import status_pb2
from formwork.v1 import calls_pb2, errors_pb2, functions_pb2, server_pb2, tensors_pb2, variables_pb2

import server_graphs
import server_process



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
  request = calls_pb2.CallRequest(namespace="wire", function_id=function.id, **fields)
  tensor = request.inputs.add().tensor
  tensor.dtype = {"float32": 1, "int32": 3}[value.dtype.name]
  tensor.dims.extend(value.shape)
  tensor.content = value.tobytes()
  return request


def call(channel, request, timeout=20):
  answer = server_process.unary(channel, "Call")(
      request if isinstance(request, bytes) else request.SerializeToString(), timeout=timeout)
  return calls_pb2.CallResponse.FromString(answer)


def failure(channel, method, request, timeout=20):
  with pytest.raises(grpc.RpcError) as raised:
    server_process.unary(channel, method)(request, timeout=timeout)
  return raised.value


def details(status):
  """The details of a google.rpc.Status by the last part of their type's name."""
  types = {"ErrorInfo": status_pb2.ErrorInfo, "BadRequest": status_pb2.BadRequest,
           "RetryInfo": status_pb2.RetryInfo, "CallFailure": errors_pb2.CallFailure}
  names = [detail.type_url.rpartition(".")[2] for detail in status.details]
  return {name: types[name].FromString(detail.value)
          for name, detail in zip(names, status.details)}


def details_of(error):
  status = status_pb2.Status.FromString(
      dict(error.trailing_metadata())["grpc-status-details-bin"])
  assert status.code == error.code().value[0] and status.message == error.details()
  return details(status)


def ask(channel, method, request, response, timeout=20):
  return response.FromString(
      server_process.unary(channel, method)(request.SerializeToString(), timeout=timeout))


class Stream:
  """A CallStream: requests are sent when told, answers read one by one."""

  def __init__(self, channel):
    self.requests = queue.SimpleQueue()
    self.answers = channel.stream_stream(server_process.SERVICE + "CallStream")(
        iter(self.requests.get, None))

  def send(self, request):
    self.requests.put(request if isinstance(request, bytes) else request.SerializeToString())

  def read(self):
    return calls_pb2.CallResponse.FromString(next(self.answers))

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


@pytest.mark.parametrize("method", ["Call", "ReadVariables", "AssignVariables", "Register",
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
  request = calls_pb2.CallRequest(namespace="wire", function_id=123456789)
  error = failure(channel, "Call", request.SerializeToString())
  found = details_of(error)
  assert error.code() is grpc.StatusCode.NOT_FOUND
  assert found["ErrorInfo"].reason == "FUNCTION_NOT_FOUND"
  assert found["ErrorInfo"].domain == "formwork" and found["CallFailure"].epoch


@pytest.mark.parametrize("method,request_,field,reason,metadata", [
    ("Call", calls_pb2.CallRequest(function_id=7), "function_id", "FUNCTION_NOT_FOUND",
     {"functionId": "7"}),
    ("Call", calls_pb2.CallRequest(function_name="none"), "function_name", "FUNCTION_NOT_FOUND",
     {"functionName": "none"}),
    ("Call", calls_pb2.CallRequest(function_id=7, expected_epoch=8), "expected_epoch",
     "EPOCH_MISMATCH", {"epoch": "*", "expectedEpoch": "8"}),
    ("Call", calls_pb2.CallRequest(function_name="identity", inputs=[{"kept_tensor_id": 3}]),
     "inputs[0].kept_tensor_id", "TENSOR_NOT_FOUND", {"tensorId": "3"}),
    ("Call", calls_pb2.CallRequest(function_name="identity", inputs=[{"resource_id": 3}]),
     "inputs[0].resource_id", "VARIABLE_NOT_FOUND", {"variableId": "3"}),
    ("Call", calls_pb2.CallRequest(function_name="identity", inputs=[{}]), "inputs[0]", "", {}),
    ("Call", calls_pb2.CallRequest(
        function_name="identity", keep_outputs=True, client_id=129 * "x"), "client_id", "", {}),
    ("ReadVariables", variables_pb2.ReadVariablesRequest(variables=65537 * [{"name": "v"}]),
     "variables", "", {}),
    ("ReleaseTensors", tensors_pb2.ReleaseTensorsRequest(ids=[7] * ((1 << 20) + 1)), "ids", "", {}),
    ("Call", calls_pb2.CallRequest(function_name="identity"), "inputs", "NO_MATCHING_SIGNATURE",
     {"functionName": "identity"}),
    ("Unregister", functions_pb2.UnregisterRequest(function_id=7), "function_id",
     "FUNCTION_NOT_FOUND", {"functionId": "7"}),
    ("DescribeFunction", functions_pb2.DescribeFunctionRequest(name="none"), "name",
     "FUNCTION_NOT_FOUND", {"functionName": "none"}),
    ("Register", functions_pb2.RegisterRequest(name="\n"), "name", "", {}),
    ("Register", functions_pb2.RegisterRequest(name="f", fingerprint="00"), "fingerprint",
     "GRAPH_NOT_FOUND", {"fingerprint": "00"}),
    ("Register", functions_pb2.RegisterRequest(name="f", captures=[
        {"tensor": "x:0", "value": {"resource_id": 3}}]), "captures[0].value.resource_id",
     "VARIABLE_NOT_FOUND", {"variableId": "3"}),
    ("Register", functions_pb2.RegisterRequest(name="f", inputs=[{"name": "x:0"}]),
     "inputs[0].dtype", "", {}),
    ("CreateVariable", variables_pb2.CreateVariableRequest(name="v"), "dtype", "", {}),
    ("CreateVariable", variables_pb2.CreateVariableRequest(
        name="v", dtype=1, initial_value={"kept_tensor_id": 3}), "initial_value.kept_tensor_id",
     "TENSOR_NOT_FOUND", {"tensorId": "3"}),
    ("GetVariable", variables_pb2.GetVariableRequest(), "variable", "", {}),
    ("GetVariable", variables_pb2.GetVariableRequest(variable={"id": 3}), "variable.id",
     "VARIABLE_NOT_FOUND", {"variableId": "3"}),
    ("DeleteVariable", variables_pb2.DeleteVariableRequest(variable={"name": "none"}), "variable",
     "VARIABLE_NOT_FOUND", {"variableName": "none"}),
    ("ReadVariables", variables_pb2.ReadVariablesRequest(variables=[{"name": "none"}]),
     "variables[0].name", "VARIABLE_NOT_FOUND", {"variableName": "none"}),
    ("AssignVariables", variables_pb2.AssignVariablesRequest(assignments=[
        {"variable": {"name": "none"}, "value": {"tensor": {"dtype": 1, "content": b"1234"}}}]),
     "assignments[0].variable.name", "VARIABLE_NOT_FOUND", {"variableName": "none"}),
    ("AssignVariables", variables_pb2.AssignVariablesRequest(assignments=[
        {"variable": {"name": "none"}, "value": {"tensor": {"dtype": 1}}}]),
     "assignments[0].value", "", {}),
    ("ListVariables", variables_pb2.ListVariablesRequest(page_size=-1), "page_size", "", {}),
    ("ListFunctions", functions_pb2.ListFunctionsRequest(page_token="x"), "page_token", "", {}),
    ("ReadTensor", tensors_pb2.ReadTensorRequest(id=3), "id", "TENSOR_NOT_FOUND",
     {"tensorId": "3"})])
def test_an_error_names_the_field_and_what_to_act_on(channel, identity, method, request_, field,
                                                     reason, metadata):
  request_.namespace = "wire"
  found = details_of(failure(channel, method, request_.SerializeToString()))
  assert [v.field for v in found["BadRequest"].field_violations] == [field]
  info = found.get("ErrorInfo", status_pb2.ErrorInfo())
  assert info.reason == reason
  assert {key: "*" if metadata.get(key) == "*" else value
          for key, value in info.metadata.items()} == metadata
  assert found["CallFailure"].effects == errors_pb2.EFFECTS_NONE


def test_what_is_wrong_with_a_graph_is_in_its_field(channel):
  request = functions_pb2.RegisterRequest(namespace="wire", name="f", outputs=["y:0"])
  request.graph_def = b"\x0a\x0f\x0a\x01y\x12\x0aNoSuchOp!!"
  found = details_of(failure(channel, "Register", request.SerializeToString()))
  assert {v.field for v in found["BadRequest"].field_violations} == {"graph_def"}


def test_a_function_says_which_of_its_variables_are_gone(channel, client):
  import tensorflow as tf
  v = tf.Variable(1.0)
  concrete = tf.function(lambda: v.read_value()).get_concrete_function()
  held = client.variable("held", initial_value=np.float32(1))
  client.register("reads", graph_def=concrete.graph.as_graph_def().SerializeToString(),
                  inputs=[], outputs=[concrete.outputs[0].name],
                  captures={concrete.inputs[0].name: held})

  def deleted():
    listed = ask(channel, "ListFunctions", functions_pb2.ListFunctionsRequest(
        namespace="wire", filter="reads"), functions_pb2.ListFunctionsResponse)
    return list(listed.functions[0].deleted_variables)

  assert deleted() == []
  held.delete()
  assert deleted() == ["held"]


def test_a_message_beyond_the_limit_is_refused(channel, identity):
  request = call_request(identity, np.zeros(17 << 20, np.float32)).SerializeToString()
  error = failure(channel, "Call", request)
  assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
  call(channel, call_request(identity, np.float32([1])))


def test_a_long_error_arrives_with_what_fits(channel):
  request = functions_pb2.RegisterRequest(namespace="wire", name="f")
  node = b"".join(b"\x0a" + bytes([len(body)]) + body for body in (
      b"\x0a\x06node%02d" % i + b"\x12\x28" + b"NoSuchOpWithAVeryLongNameOfForty%08d" % i
      for i in range(90)))
  request.graph_def = node
  request.outputs.extend("node%02d:0" % i for i in range(90))
  error = failure(channel, "Register", request.SerializeToString())
  assert error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT)
  assert len(error.details()) <= 4096
  assert details_of(error)["CallFailure"].epoch


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
  deadline = time.monotonic() + 5
  while running_calls(server) > 0:
    assert time.monotonic() < deadline, "the call goes on"
    time.sleep(0.02)


# Also one that its client might send again, had it lost its connection instead.
@pytest.mark.parametrize("number", [{}, {"client_id": "cancels", "sequence": 1}])
def test_cancelling_a_call_stops_it(channel, server, spin, number):
  wait_until_idle(server)
  future = server_process.unary(channel, "Call").future(
      call_request(spin, np.int32(2**31 - 1), **number).SerializeToString(), timeout=60)
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
  stream.send(calls_pb2.CallRequest(namespace="wire", function_id=123456789, call_id=2))
  stream.send(b"\x48\x03\xff")  # call_id 3, then junk.
  stream.send(call_request(identity, np.float32([1]), call_id=4))
  responses = [stream.read() for _ in range(4)]
  assert [r.call_id for r in responses] == [1, 2, 3, 4]
  assert [r.error.code for r in responses] == [0, 5, 3, 0]
  assert details(responses[1].error)["ErrorInfo"].reason == "FUNCTION_NOT_FOUND"
  assert stream.end() == []


def test_a_call_of_a_stream_has_its_own_deadline(channel, identity, spin):
  stream = Stream(channel)
  stream.send(call_request(spin, np.int32(2**31 - 1), call_id=1, timeout=Duration(nanos=200000000)))
  stream.send(call_request(identity, np.float32([1]), call_id=2, timeout=Duration(seconds=20)))
  assert stream.read().error.code == 4
  assert stream.read().error.code == 0
  assert stream.end() == []


@pytest.mark.parametrize("client_id", ["", "cancels a stream"])
def test_cancelling_a_stream_stops_its_call(channel, server, spin, client_id):
  wait_until_idle(server)
  stream = Stream(channel)
  for i in range(3):
    stream.send(call_request(spin, np.int32(2**31 - 1), client_id=client_id, sequence=i + 1))
  deadline = time.monotonic() + 10
  while running_calls(server) == 0 and time.monotonic() < deadline:
    time.sleep(0.02)
  stream.answers.cancel()
  wait_until_idle(server)


def test_unordered_calls_overtake_what_runs(channel, server, identity, spin):
  wait_until_idle(server)
  stream = Stream(channel)
  stream.send(call_request(spin, np.int32(2**31 - 1), call_id=1, timeout=Duration(seconds=3)))
  stream.send(call_request(identity, np.float32([1]), call_id=2))  # Waits for its turn.
  stream.send(call_request(identity, np.float32([1]), call_id=3, unordered=True))
  responses = [stream.read() for _ in range(3)]
  assert [(r.call_id, r.error.code) for r in responses] == [(3, 0), (1, 4), (2, 0)]
  assert stream.end() == []


def joined(parts):
  """The outputs of an answer in parts; chunks are checked to come in order, without gaps."""
  chunks = {}
  for part in parts:
    assert part.more == (part is not parts[-1])
    if part.HasField("chunk"):
      content = chunks.setdefault(part.chunk.output, bytearray())
      assert part.chunk.offset == len(content) and len(part.chunk.content) <= 1 << 20
      content.extend(part.chunk.content)
  return [bytes(chunks.get(i, output.tensor.content))
          for i, output in enumerate(parts[-1].outputs)]


def test_large_outputs_come_in_chunks(channel, identity):
  value = np.random.default_rng(1).random(900000, np.float32)
  request = call_request(identity, value, call_id=5, in_parts=True)
  stream = Stream(channel)
  stream.send(request)
  stream.send(call_request(identity, np.float32([1]), call_id=6))
  parts = [stream.read()]
  while parts[-1].more:
    parts.append(stream.read())
  assert {part.call_id for part in parts} == {5} and len(parts) == 5
  assert joined(parts) == [value.tobytes()]
  assert list(parts[-1].outputs[0].tensor.dims) == [900000]
  assert stream.read().call_id == 6
  assert stream.end() == []
  in_parts = channel.unary_stream(server_process.SERVICE + "CallInParts")
  parts = [calls_pb2.CallResponse.FromString(part)
           for part in in_parts(request.SerializeToString(), timeout=20)]
  assert joined(parts) == [value.tobytes()]


def test_a_call_in_parts_fails_with_its_status(channel):
  in_parts = channel.unary_stream(server_process.SERVICE + "CallInParts")
  with pytest.raises(grpc.RpcError) as raised:
    list(in_parts(calls_pb2.CallRequest(namespace="wire", function_id=7).SerializeToString(),
                  timeout=20))
  assert details_of(raised.value)["ErrorInfo"].reason == "FUNCTION_NOT_FOUND"


def test_prints_come_as_they_are_printed(channel, client):
  printing = server_graphs.register(client, "print_and_spin")
  stream = Stream(channel)
  stream.send(call_request(printing, np.int32(2**31 - 1), call_id=1, in_parts=True,
                           timeout=Duration(seconds=20)))
  first = stream.read()  # While the call goes on.
  assert list(first.printed) == ["begun\n"] and first.more
  stream.answers.cancel()


def write_tensor(channel, chunks, **fields):
  requests = [tensors_pb2.WriteTensorRequest(content=chunk) for chunk in chunks]
  requests[0].MergeFrom(tensors_pb2.WriteTensorRequest(namespace="wire", **fields))
  answer = channel.stream_unary(server_process.SERVICE + "WriteTensor")(
      (request.SerializeToString() for request in requests), timeout=60)
  return tensors_pb2.WriteTensorResponse.FromString(answer).tensor


def test_a_value_travels_in_chunks_and_is_read_in_ranges(channel):
  value = np.random.default_rng(2).random((3, 1000000), np.float32)
  data = value.tobytes()
  tensor = write_tensor(channel, [data[i:i + 3000001] for i in range(0, len(data), 3000001)],
                        dtype=1, dims=[3, 1000000], client_id="writer")
  read = tensors_pb2.ReadTensorRequest(namespace="wire", id=tensor.id)
  read.range.begin, read.range.count = 999999, 10
  response = ask(channel, "ReadTensor", read, tensors_pb2.ReadTensorResponse)
  assert list(response.whole_dims) == [3, 1000000]
  assert response.value.content == data[999999 * 4:(999999 + 10) * 4]
  listed = ask(channel, "ListTensors", tensors_pb2.ListTensorsRequest(
      namespace="wire", owner="writer"), tensors_pb2.ListTensorsResponse)
  assert [one.id for one in listed.tensors] == [tensor.id]
  read.range.count = 10**9
  assert failure(channel, "ReadTensor", read.SerializeToString()).code() \
      is grpc.StatusCode.OUT_OF_RANGE
  released = ask(channel, "ReleaseTensors", tensors_pb2.ReleaseTensorsRequest(
      namespace="wire", ids=[tensor.id]), tensors_pb2.ReleaseTensorsResponse)
  assert released.released == 1


def test_strings_travel_in_chunks(channel):
  values = [b"", b"a" * 100000, b"bc"]
  data = b"".join(len(v).to_bytes(4, "little") + v for v in values)
  tensor = write_tensor(channel, [data[i:i + 777] for i in range(0, len(data), 777)],
                        dtype=7, dims=[3], total_bytes=len(data))
  response = ask(channel, "ReadTensor", tensors_pb2.ReadTensorRequest(
      namespace="wire", id=tensor.id), tensors_pb2.ReadTensorResponse)
  assert response.value.content == data


@pytest.mark.parametrize("chunks,fields", [
    ([b"1234"], dict(dtype=1, dims=[2])),                       # Too few bytes.
    ([b"12345678", b"9"], dict(dtype=1, dims=[2])),             # Too many.
    ([b"12345678"], dict(dtype=1, dims=[2], total_bytes=9)),    # Not what the dims say.
    ([b"1234"], dict(dtype=7, dims=[1000], total_bytes=4)),     # Too small for its strings.
    ([b"12345678"], dict(dtype=20, dims=[1]))])                 # A resource.
def test_values_in_chunks_that_do_not_add_up_are_refused(channel, chunks, fields):
  with pytest.raises(grpc.RpcError) as raised:
    write_tensor(channel, chunks, **fields)
  assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_lists_have_pages_and_filters(channel):
  for name in ["page/a", "page/b", "page/c", "other"]:
    request = variables_pb2.CreateVariableRequest(namespace="pages", name=name, dtype=1)
    ask(channel, "CreateVariable", request, variables_pb2.CreateVariableResponse)
  names, token = [], ""
  while True:
    page = ask(channel, "ListVariables", variables_pb2.ListVariablesRequest(
        namespace="pages", filter="page/?", page_size=2, page_token=token),
               variables_pb2.ListVariablesResponse)
    names += [variable.name for variable in page.variables]
    token = page.next_page_token
    if not token:
      break
  assert names == ["page/a", "page/b", "page/c"]
  bad = variables_pb2.ListVariablesRequest(namespace="pages", page_token="bad!")
  assert failure(channel, "ListVariables", bad.SerializeToString()).code() \
      is grpc.StatusCode.INVALID_ARGUMENT


def test_the_view_leaves_signatures_out(channel, identity):
  for view, there in [(functions_pb2.FUNCTION_VIEW_BASIC, False), (0, True)]:
    listed = ask(channel, "ListFunctions", functions_pb2.ListFunctionsRequest(
        namespace="wire", filter="identity", view=view), functions_pb2.ListFunctionsResponse)
    assert [function.HasField("signature") for function in listed.functions] == [there]


def test_ids_of_another_epoch_are_refused(channel, identity):
  info = ask(channel, "GetServerInfo", server_pb2.GetServerInfoRequest(),
             server_pb2.GetServerInfoResponse).server
  assert info.epoch and info.version and "MatMul" in info.ops
  assert info.durability == server_pb2.DURABILITY_MEMORY
  assert info.limits.message_bytes == 64 << 20 and info.limits.connections > 100
  assert info.devices[0].threads > 0 and "element_ranges" in info.features
  request = call_request(identity, np.float32([1]), expected_epoch=info.epoch)
  call(channel, request)
  request.expected_epoch += 1
  error = failure(channel, "Call", request.SerializeToString())
  assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
  assert details_of(error)["ErrorInfo"].reason == "EPOCH_MISMATCH"


def test_many_variables_are_written_and_read_at_once(channel):
  for name in ["a", "b"]:
    request = variables_pb2.CreateVariableRequest(namespace="many", name=name, dtype=3)
    ask(channel, "CreateVariable", request, variables_pb2.CreateVariableResponse)
  assign = variables_pb2.AssignVariablesRequest(namespace="many")
  for name, number in [("a", 1), ("b", 2)]:
    assignment = assign.assignments.add()
    assignment.variable.name = name
    assignment.value.tensor.dtype = 3
    assignment.value.tensor.content = number.to_bytes(4, "little")
  ask(channel, "AssignVariables", assign, variables_pb2.AssignVariablesResponse)
  assign.assignments[0].value.tensor.content = (7).to_bytes(4, "little")
  assign.assignments[1].value.tensor.content = b"12345678"  # Does not fit: nothing is written.
  assert failure(channel, "AssignVariables", assign.SerializeToString()).code() \
      is grpc.StatusCode.INVALID_ARGUMENT
  read = variables_pb2.ReadVariablesRequest(namespace="many")
  for name in ["b", "a"]:
    read.variables.add().name = name
  response = ask(channel, "ReadVariables", read, variables_pb2.ReadVariablesResponse)
  assert [value.tensor.content[0] for value in response.values] == [2, 1]
  read.keep = True
  kept = ask(channel, "ReadVariables", read, variables_pb2.ReadVariablesResponse)
  answer = ask(channel, "ReadTensor", tensors_pb2.ReadTensorRequest(
      namespace="many", id=kept.values[0].kept_tensor_id), tensors_pb2.ReadTensorResponse)
  assert answer.value.content[0] == 2


def test_a_response_beyond_the_limit_says_what_to_do(channel, client):
  doubled = server_graphs.register(client, "doubled")
  request = call_request(doubled, np.zeros(9 << 20, np.float32))  # 36 MB in, 72 MB out.
  error = failure(channel, "Call", request.SerializeToString())
  assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
  assert "limit=67108864" in error.details() and "in parts" in error.details()
  in_parts = channel.unary_stream(server_process.SERVICE + "CallInParts")
  parts = [calls_pb2.CallResponse.FromString(part)
           for part in in_parts(request.SerializeToString(), timeout=60)]
  assert len(joined(parts)[0]) == 72 << 20


def test_parts_are_smaller_than_a_message_may_be():
  with server_process.running("--max-message-bytes", "64K") as small:
    with formwork.connect(small.grpc, namespace="wire", timeout=60) as client:
      function = server_graphs.register(client, "doubled")
      with small.channel() as channel:
        parts = channel.unary_stream(server_process.SERVICE + "CallInParts")(
            call_request(function, np.ones(10000, np.float32)).SerializeToString(), timeout=20)
        (content,) = joined([calls_pb2.CallResponse.FromString(part) for part in parts])
  assert content == np.ones(20000, np.float32).tobytes()


@pytest.mark.parametrize("fields", [{"namespace": "a\nb"}, {"client_id": 129 * "x"},
                                    {"namespace": 70000 * "x"}])
def test_a_value_in_chunks_has_a_proper_owner_and_namespace(channel, fields):
  request = tensors_pb2.WriteTensorRequest(dtype=4, dims=[1], content=b"x", **fields)
  with pytest.raises(grpc.RpcError) as raised:
    channel.stream_unary(server_process.SERVICE + "WriteTensor")(
        iter([request.SerializeToString()]), timeout=20)
  assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_stream_that_nobody_uses_ends():
  with server_process.running("--stream-idle-timeout", "0.5") as quick:
    with quick.channel() as channel:
      stream = Stream(channel)
      with pytest.raises(grpc.RpcError) as raised:
        stream.read()
      assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
      stream.requests.put(None)


def test_large_variables_travel(channel, client):
  value = np.arange(3 << 20, dtype=np.float32)
  variable = client.variable("large", initial_value=value)
  variable.assign(value + 1)
  assert np.array_equal(variable.read(), value + 1)
  variable.delete()
