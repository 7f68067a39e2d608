"""--device on a machine without a GPU: of a build with CUDA (FORMWORK_BIN=$PWD/build/cuda/bin), and of one without."""
import pathlib

import formwork
import pytest
import server_process

pytestmark = [
    pytest.mark.skipif(pathlib.Path("/proc/driver/nvidia/version").exists(),
                       reason="there is an NVIDIA driver"),
    pytest.mark.skipif(pathlib.Path(server_process.binary()).parent.name == "simulated",
                       reason="it has a device of its own"),
]
WITHOUT = "--device: this server was built without CUDA (preset cuda)"
NO_DRIVER = "CUDA: there is no NVIDIA driver"


def ended(device):
  server = server_process.Server("--device", device)
  return server.exit_code(), server.log_text().splitlines()


def test_a_gpu_that_is_named_has_to_be_there():
  code, lines = ended("cuda:0")
  assert len(lines) == 1, lines
  assert (code, WITHOUT in lines[0]) == (2, True) or (code, NO_DRIVER in lines[0]) == (1, True)


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_a_cpu_is_enough(device):
  _, lines = ended("cuda:0")
  with_cuda = WITHOUT not in lines[0]
  with server_process.running("--device", device, "--deterministic=true") as server:
    with formwork.connect(server.grpc, timeout=60) as client:
      assert client.functions() == []
    told = [line for line in server.log_text().splitlines() if "GPU" in line or "CUDA" in line]
    assert "device=CPU" in server.log_text()
  assert len(told) == (with_cuda and device == "auto"), told
  assert all("no GPU is used: " + NO_DRIVER in line for line in told)
