"""How an attack is declared, and what it is given: servers, clients, graphs."""
import contextlib
import dataclasses
import os
import pathlib
import sys
import time
import typing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import formwork
import server_process

ATTACKS = []


@dataclasses.dataclass
class Declared:
  """An attack: its function, the file it is in, and what it does in words."""
  run: typing.Callable
  theme: str
  text: str

  @property
  def name(self):
    return "%s.%s" % (self.theme, self.run.__name__)


def attack(text):
  """Declares a function of one argument, an Attack, that returns its figure as a text."""
  def declare(function):
    ATTACKS.append(Declared(function, function.__module__, text))
    return function
  return declare


class Failed(Exception):
  """The server did not hold."""


class Attack(contextlib.ExitStack):
  """What one attack uses; everything ends with it."""

  def check(self, held, text):
    if not held:
      raise Failed(text)

  def server(self, *flags, limits=None, env=None, expect_end=False):
    """A server_process.Server. `limits`: {resource.RLIMIT_…: (soft, hard)} of the process."""
    server = server_process.Server(*flags, env=env, limits=limits)
    self.callback(self._end, server, expect_end)
    if server.grpc is None:
      raise Failed("the server did not start: " + server.log_text()[-500:])
    return server

  def client(self, server, namespace="default", timeout=30, retry_for=0, **settings):
    """A formwork.Server, which by default sends nothing again."""
    return self.enter_context(formwork.connect(
        server.grpc, namespace=namespace, timeout=timeout, retry_for=retry_for, **settings))

  def _end(self, server, expect_end):
    try:
      if expect_end:
        return
      self.check(server.process.poll() is None, "the server ended: exit code %s: %s" % (
          server.process.poll(), server.log_text()[-500:]))
      with server.channel() as channel:
        started = time.monotonic()
        try:
          said = server_process.health(channel)
        except Exception as error:
          raise Failed("no answer to a health check afterwards: %s" % error) from None
        seconds = time.monotonic() - started
      self.check(said == "SERVING", "health says %s afterwards" % said)
      self.check(seconds < 5, "a health check took %.1f s afterwards" % seconds)
    finally:
      server.process.kill()
      server.process.wait()


def graph(function, *specs):
  """(GraphDef bytes, inputs, outputs) of a Python function, for formwork's register()."""
  import tensorflow as tf
  concrete = tf.function(function).get_concrete_function(*specs)
  inputs = [formwork.TensorSpec(t.name, t.dtype.name,
                                None if t.shape.rank is None else t.shape.as_list())
            for t in concrete.inputs]
  outputs = [t.name for t in concrete.outputs]
  return concrete.graph.as_graph_def().SerializeToString(), inputs, outputs
