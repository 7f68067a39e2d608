"""A server with a data directory: what is there after it has ended, and how it ended."""
import os
import pathlib
import pty
import re
import signal
import subprocess
import threading
import time

import formwork
import numpy as np
import pytest

import server_process


def counter(server):
  """A function that counts up two variables, and these."""
  import tensorflow as tf
  a = server.variable("a", np.zeros([], np.float32))
  b = server.variable("b", np.zeros([1000], np.float32))
  graph = tf.Graph()
  with graph.as_default():
    x = tf.compat.v1.placeholder(tf.float32, [], name="x")
    for name, variable in (("a", a), ("b", b)):
      handle = tf.compat.v1.placeholder(tf.resource, [], name=name)
      tf.raw_ops.AssignAddVariableOp(resource=handle, value=x + tf.zeros(variable.shape),
                                     name="add_" + name)
  return server.register("count", graph_def=graph.as_graph_def().SerializeToString(),
                         inputs=[formwork.TensorSpec("x:0", "float32", [])], outputs=[],
                         captures={"a:0": a, "b:0": b}, targets=["add_a", "add_b"]), a, b


def test_a_client_does_not_notice_a_restart_after_sigterm(tmp_path):
  flags = ["--data-dir", str(tmp_path / "new" / "state"),
           "--port", str(server_process.free_port()), "--snapshot-interval", "0"]
  with server_process.running(*flags) as process:
    with formwork.connect(process.grpc) as server:
      assert server.info().durability == "snapshot"
      count, a, b = counter(server)
      count(np.float32(1))
      epoch = server.info().epoch
      for turn in range(3):
        process.terminate()
        assert process.exit_code() == 0, process.log_text()
        with server_process.running(*flags) as process:
          count(np.float32(1))  # By its ID.
          assert a.read() == turn + 2
          np.testing.assert_array_equal(b.read(), np.full([1000], turn + 2, np.float32))
          assert server.info().epoch == epoch
          assert [(v.name, v.id) for v in server.variables()] == [("a", a.id), ("b", b.id)]
          (function,) = server.functions()
          assert function.id == count.id
          assert "variables=2" in process.log_text()


def test_whatever_kills_it_the_state_is_one_between_two_calls(tmp_path):
  flags = ["--data-dir", str(tmp_path), "--snapshot-interval", "0.05"]
  with server_process.running(*flags, exit_code=-signal.SIGKILL) as process, \
      formwork.connect(process.grpc) as server:
    count, _, _ = counter(server)
    count(np.float32(1))
    server.snapshot()
    process.terminate(signal.SIGKILL)
    process.exit_code()
  least = 1
  for kill in range(5):
    with server_process.running(*flags, exit_code=-signal.SIGKILL) as process:
      with formwork.connect(process.grpc) as server:
        (count,) = server.functions()
        a, b = server.variables()
        values = server.read([a, b])
        assert values[0] >= least
        np.testing.assert_array_equal(values[1], np.full([1000], values[0]))
        stop = threading.Event()

        def call(channel):
          try:
            while not stop.is_set():
              channel.call("count", [np.float32(1)], timeout=10)
          except formwork.Error:
            pass  # It has been killed.

        channels = [formwork.connect(process.grpc) for _ in range(3)]
        callers = [threading.Thread(target=call, args=[c]) for c in channels]
        for caller in callers:
          caller.start()
        time.sleep(0.3 + 0.07 * kill)
        least = server.read([a])[0]
        server.snapshot()
        time.sleep(0.02 * kill)
        process.terminate(signal.SIGKILL)
        process.exit_code()
        stop.set()
        for caller in callers:
          caller.join()
        for channel in channels:
          channel.close()


def test_after_a_crash_a_client_goes_on_with_the_last_snapshot(tmp_path):
  flags = ["--data-dir", str(tmp_path), "--snapshot-interval", "0",
           "--port", str(server_process.free_port())]
  with server_process.running(*flags, exit_code=-signal.SIGKILL) as process:
    server = formwork.connect(process.grpc)
    _, a, _ = counter(server)
    server.snapshot()
    epoch = server.info().epoch
    a.assign(np.float32(5))
    process.terminate(signal.SIGKILL)
    process.exit_code()
  with server_process.running(*flags) as process, server:
    before = a.id
    assert a.read() == 0  # Found by its name: the server is of another epoch.
    assert a.id == before
    assert server.info().epoch != epoch


def test_a_directory_is_of_one_server(tmp_path):
  flags = ["--data-dir", str(tmp_path)]
  with server_process.running(*flags):
    second = server_process.Server(*flags)
    assert second.exit_code() == 1
    assert "in use by another process" in second.log_text()


def test_the_command_takes_one_and_metrics_tell(tmp_path):
  command = server_process.binary("formwork")
  with server_process.running("--data-dir", str(tmp_path), "--snapshot-interval", "0") as process:
    with formwork.connect(process.grpc) as server:
      counter(server)
    done = subprocess.run([command, "--server", process.grpc, "snapshot"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    assert "variables: 2\nfunctions: 1\nbytes written: 4004\n" in done.stdout
    text = process.get("/metrics")[1]
    assert "\nformwork_snapshots_total 1\n" in text
    assert "\nformwork_snapshot_written_bytes_total 4004\n" in text
    (stamp,) = [float(line.split()[1]) for line in text.splitlines()
                if line.startswith("formwork_snapshot_timestamp_seconds ")]
    assert abs(time.time() - stamp) < 60
  with server_process.running() as process:
    done = subprocess.run([command, "--server", process.grpc, "snapshot"], capture_output=True,
                          text=True)
    assert done.returncode != 0 and "no data directory" in done.stderr


def test_a_full_disk_fails_snapshots_and_nothing_else(tmp_path):
  if os.geteuid() != 0 or subprocess.run(
      ["mount", "-t", "tmpfs", "-o", "size=48m", "none", str(tmp_path)],
      capture_output=True).returncode != 0:
    pytest.skip("no small file system can be mounted here")
  try:
    with server_process.running("--data-dir", str(tmp_path / "d"), "--snapshot-interval",
                                "0", exit_code=-signal.SIGKILL) as process, \
        formwork.connect(process.grpc) as server:
      v = server.variable("v", np.float32(1))
      server.snapshot()
      filler = pathlib.Path(tmp_path / "filler")
      with open(filler, "wb") as file:
        file.write(bytes(40 << 20))
      large = server.variable("large", np.zeros([4 << 20], np.float32))
      with pytest.raises(formwork.Error) as refused:
        server.snapshot()
      assert refused.value.code == "RESOURCE_EXHAUSTED", refused.value
      with pytest.raises(formwork.Error) as refused:
        counter(server)
      assert refused.value.code == "RESOURCE_EXHAUSTED", refused.value
      v.assign(np.float32(2))
      assert v.read() == 2
      large.delete()
      filler.unlink()
      until = time.monotonic() + 30
      while True:  # The database looks for room every few seconds.
        try:
          server.snapshot()
          break
        except formwork.Error:
          assert time.monotonic() < until
          time.sleep(0.2)
      process.terminate(signal.SIGKILL)
      process.exit_code()
      with server_process.running("--data-dir", str(tmp_path / "d")) as again:
        with formwork.connect(again.grpc) as server:
          assert {v.name: v for v in server.variables()}["v"].read() == 2
  finally:
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def on_a_terminal(*arguments):
  """What a command writes to a terminal that is its stderr, and to its stdout."""
  ours, theirs = pty.openpty()
  with subprocess.Popen([server_process.binary("formwork"), *arguments], stdout=subprocess.PIPE,
                        stderr=theirs, text=True) as process:
    os.close(theirs)
    shown = b""
    try:
      while part := os.read(ours, 4096):
        shown += part
    except OSError:  # It has ended.
      pass
    os.close(ours)
    output = process.stdout.read()
  assert process.returncode == 0, shown
  return shown.decode(), output


def test_how_far_it_is_stands_on_a_terminal(tmp_path):
  flags = ["--data-dir", str(tmp_path / "data"), "--files-dir", str(tmp_path),
           "--snapshot-interval", "0"]
  with server_process.running(*flags) as process, formwork.connect(process.grpc) as server:
    value = np.zeros([1 << 22], np.float32)
    for i in range(24):  # What takes long enough to be seen: 384 MiB.
      server.variable("v%d" % i, value)
    asked = ["--server", process.grpc]
    for what in (["snapshot"], ["export", "c"], ["restore", "c"]):
      shown, output = on_a_terminal(*asked, *what)
      assert re.search(r"\[#* *\] +\d+ %  .* of 384.0 MiB", shown), (what, shown)
      assert shown.endswith("\r\x1b[K")  # Nothing is left of it.
      assert output.startswith("variables: 24\n")
    done = subprocess.run([server_process.binary("formwork"), *asked, "export", "c"],
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")  # No terminal.
    server.clear()  # For its end, which would write it once more.
