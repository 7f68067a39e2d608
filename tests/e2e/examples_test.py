"""The clients in other languages, where their toolchains are at hand."""
import pathlib
import shutil
import subprocess

import formwork
import pytest

import server_graphs
import server_process

ROOT = server_process.ROOT
GO_LIBRARIES = pathlib.Path("/usr/share/gocode")  # Debian's golang-google-grpc-dev.


@pytest.fixture(scope="module")
def target():
  with server_process.running() as server, formwork.connect(server.grpc) as client:
    server_graphs.register(client, "identity")
    yield server.grpc


def run(*command, **settings):
  return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300,
                        **settings)


def check(client):
  """`client(arguments...)` runs the example: its answer, and what it says of an error."""
  done = client("identity", "1", "2.5")
  assert done.stdout.split() == ["1", "2.5"], done.stderr
  failed = client("nothing", "1")
  assert failed.returncode == 1 and "nothing" in failed.stderr


def test_go(target, tmp_path):
  tools = ["go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc"]
  grpc_library = GO_LIBRARIES / "src/google.golang.org/grpc"
  if not all(map(shutil.which, tools)) or not grpc_library.exists():
    pytest.skip("Go, its gRPC or its protobuf plugins are not installed")
  (tmp_path / "src").mkdir()
  protos = sorted((ROOT / "proto").glob("formwork/*/*.proto"))
  made = run("protoc", "-I%s" % (ROOT / "proto"), "--go_out=%s/src" % tmp_path,
             "--go-grpc_out=%s/src" % tmp_path, *protos)
  assert made.returncode == 0, made.stderr
  built = run("go", "build", "-o", tmp_path / "call", ROOT / "client/examples/go/main.go",
              env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GO111MODULE": "off",
                   "GOCACHE": str(ROOT / "build/go-cache"),
                   "GOPATH": "%s:%s" % (tmp_path, GO_LIBRARIES)})
  assert built.returncode == 0, built.stderr
  check(lambda *arguments: run(tmp_path / "call", target, *arguments))


def test_node(target):
  if not shutil.which("node") or run("node", "-e", "require('@grpc/grpc-js')").returncode != 0:
    pytest.skip("Node or its packages @grpc/grpc-js and @grpc/proto-loader are not installed")
  check(lambda *arguments: run("node", ROOT / "client/examples/node/call.js", target, *arguments))
