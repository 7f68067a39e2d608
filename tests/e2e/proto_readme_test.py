"""The grpcurl lines of proto/README.md do what they say: sent as grpcurl would, by reflection."""
import json
import pathlib
import re
import shlex

import pytest
from formwork.tf import saved_model_pb2, types_pb2
from formwork.v1 import functions_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

import server_process

README = (server_process.ROOT / "proto/README.md").read_text()
SERVICE = "formwork.v1.GraphService"


def lines():
  """(method, JSON) of each, in the order of the README."""
  found = re.findall(r"`(G \w+ '[^`]*')`", README)
  return [shlex.split(line)[1:] for line in found]


def fields(data):
  """(number, bytes) of a message's fields of bytes; the others are passed over."""
  def varint(at):
    value = shift = 0
    while True:
      value |= (data[at] & 127) << shift
      at, shift = at + 1, shift + 7
      if data[at - 1] < 128:
        return value, at

  at = 0
  while at < len(data):
    tag, at = varint(at)
    if tag & 7 == 0:
      _, at = varint(at)
    else:
      assert tag & 7 == 2
      size, at = varint(at)
      yield tag >> 3, data[at:at + size]
      at += size


def reflected(channel):
  """The descriptors of the service and of all that it needs, as the server reflects them."""
  ask = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
  symbol = SERVICE.encode()
  [answer] = ask(iter([b"\x22" + bytes([len(symbol)]) + symbol]), timeout=10)
  pool, files = descriptor_pool.DescriptorPool(), {}
  for answer_field, files_of_it in fields(answer):
    if answer_field == 4:  # FileDescriptorResponse
      for _, file in fields(files_of_it):
        made = descriptor_pb2.FileDescriptorProto.FromString(file)
        files[made.name] = made

  def add(name):
    file = files.pop(name, None)
    if file is not None:
      for dependency in file.dependency:
        add(dependency)
      pool.Add(file)

  for name in list(files):
    add(name)
  return pool


class Grpcurl:
  """grpcurl -plaintext -d JSON TARGET SERVICE/METHOD"""

  def __init__(self, channel):
    self._channel, self._pool = channel, reflected(channel)

  def __call__(self, method, text):
    """The answers, as JSON."""
    described = self._pool.FindServiceByName(SERVICE).methods_by_name[method]
    requests = [json_format.Parse(one, self._class(described.input_type)()).SerializeToString()
                for one in self._split(text)]
    path = "/%s/%s" % (SERVICE, method)
    answers = self._channel.stream_stream(path)(iter(requests), timeout=20)
    return [json.loads(json_format.MessageToJson(
        self._class(described.output_type).FromString(answer))) for answer in answers]

  def _class(self, described):
    return message_factory.GetMessageClass(described)

  def _split(self, text):
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
      _, end = decoder.raw_decode(text, at)
      yield text[at:end]
      at = end + len(text[end:]) - len(text[end:].lstrip())


def save_model(folder):
  """A SavedModel that doubles a float."""
  register = dict(lines())["Register"]
  given = json_format.Parse(register, functions_pb2.RegisterRequest())
  model = saved_model_pb2.SavedModel()
  graph = model.meta_graphs.add()
  graph.graph_def.ParseFromString(given.graph_def)
  signature = graph.signature_def["serving_default"]
  for tensors, infos in (given.inputs, signature.inputs), (given.outputs, signature.outputs):
    for tensor in tensors:
      name = getattr(tensor, "name", tensor)
      infos[name.split(":")[0]].name = name
      infos[name.split(":")[0]].dtype = types_pb2.DT_FLOAT
  folder.mkdir()
  (folder / "saved_model.pb").write_bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
  """method -> what the server answers to its line, run in order."""
  found = {}
  state, files = (str(tmp_path_factory.mktemp(name)) for name in ("state", "files"))
  save_model(pathlib.Path(files) / "mnist")
  with server_process.running("--data-dir", state, "--files-dir", files) as server, \
      server.channel() as channel:
    grpcurl = Grpcurl(channel)
    for method, text in lines():
      if "$ID" in text:
        text = text.replace("$ID", found["WriteTensor"][0]["tensor"]["id"])
      found[method] = grpcurl(method, text)
    methods = grpcurl._pool.FindServiceByName(SERVICE).methods_by_name
  assert set(found) == set(methods), "each method has a line"
  return found


def test_each_line_is_answered(answers):
  for method, said in answers.items():
    assert said and all(one["epoch"] for one in said), method


def test_the_lines_do_what_they_show(answers):
  double = "AAAAQA=="  # 2.0
  assert answers["Register"][0]["function"]["name"] == "f"
  assert answers["Resolve"][0]["function"]["id"] == answers["Register"][0]["function"]["id"]
  assert [f["name"] for f in answers["ListFunctions"][0]["functions"]] == ["f"]
  assert [f["name"] for f in answers["LoadSavedModel"][0]["functions"]] == ["mnist"]
  assert answers["Call"][0]["outputs"][0]["tensor"]["content"] == double
  assert answers["CallInParts"][-1]["outputs"][0]["tensor"]["content"] == double
  first, second = answers["CallStream"]
  assert first["outputs"][0]["tensor"]["content"] == double and first["callId"] == "1"
  assert second["outputs"] == first["outputs"] and second["callId"] == "2"
  assert answers["ReadVariables"][0]["values"][0]["tensor"]["content"] == "AAAAAAAAAAA="
  assert answers["AssignVariables"][0]["variables"][0]["version"] == "2"
  assert answers["DeleteVariable"][0]["deleted"]
  assert answers["ReadTensor"][0]["value"]["content"] == "AACAPw=="
  assert answers["ReleaseTensors"][0]["released"] == "1"
  assert answers["GetServerInfo"][0]["server"]["features"]
