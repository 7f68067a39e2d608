"""What clients are told while a snapshot or a checkpoint is under way."""
import asyncio
import sys
import threading
import time
import types

import formwork
import formwork.aio
import numpy as np
import pytest

import server_process

NBYTES = 8 * (64 << 20)
TIMEOUT = 300  # Of a disk that is busy with other tests.


@pytest.fixture(scope="module")
def process(tmp_path_factory):
  files = tmp_path_factory.mktemp("files")
  with server_process.running("--files-dir", str(files), "--snapshot-interval", "0", "--data-dir",
                              str(tmp_path_factory.mktemp("data"))) as process:
    with formwork.connect(process.grpc, timeout=TIMEOUT) as server:
      for i in range(8):
        server.variable("v%d" % i, np.full([NBYTES // 8 // 4], i, np.float32))
      yield process


@pytest.fixture
def server(process):
  with formwork.connect(process.grpc, timeout=TIMEOUT) as server:
    yield server


def transfers(server):
  """What moves the variables, under its name; each can be done again."""
  def snapshot(**options):
    for v in server.variables():
      server.assign({v: v.read()})
    return server.snapshot(**options)
  save = lambda **options: server.save_checkpoint("ckpt", **options)
  save()
  return {"snapshot": snapshot, "save": save,
          "restore": lambda **options: server.restore_checkpoint("ckpt", **options)}


def check(told, more_than_once=True):
  assert told and (len(told) > 1 or not more_than_once)
  done, total = zip(*told)
  assert list(done) == sorted(done)
  assert done[-1] == total[-1] >= NBYTES and min(total) >= NBYTES
  assert len(set(total)) == 1


@pytest.mark.parametrize("name", ["snapshot", "save", "restore"])
def test_a_callable_is_told(server, name):
  told, threads = [], set()

  def progress(done, total):
    told.append((done, total))
    threads.add(threading.get_ident())

  answer = transfers(server)[name](progress=progress)
  assert answer == (None if name == "snapshot" else 8)
  check(told, more_than_once=name != "restore")  # Where files are in memory that may be quick.
  assert threads == {threading.get_ident()}


def test_what_is_quick_is_told_of_once(process):
  with formwork.connect(process.grpc, namespace="small") as server:
    server.variable("v", np.zeros([4], np.float32))
    told = []
    server.save_checkpoint("small", progress=lambda *amounts: told.append(amounts))
    (done, total), = told[-1:]
    assert done == total >= 16
    count = len(told)
    with pytest.raises(formwork.Error) as error:
      server.restore_checkpoint("not/there", progress=lambda *amounts: told.append(amounts))
    assert error.value.code == "NOT_FOUND"
    assert len(told) == count  # Of what fails there is no end.


def test_what_it_raises_ends_the_wait_and_the_server_goes_on(server):
  class Enough(Exception):
    pass

  def progress(done, total):
    raise Enough

  with pytest.raises(Enough):
    server.save_checkpoint("given-up", progress=progress)
  check_until = time.monotonic() + 20
  told = []
  while not told and time.monotonic() < check_until:
    server.save_checkpoint("again", progress=lambda *amounts: told.append(amounts))
  check(told, more_than_once=False)


def test_true_is_a_bar_of_tqdms(server, monkeypatch):
  bars = []

  class Bar:
    def __init__(self, **options):
      self.n, self.shown, self.closed = 0, [], False
      vars(self).update(options)
      bars.append(self)

    def update(self, more):
      self.n += more

    def refresh(self):
      self.shown.append((self.n, self.total))

    def close(self):
      self.closed = True

  tqdm = types.ModuleType("tqdm")
  tqdm.auto = types.ModuleType("tqdm.auto")
  tqdm.auto.tqdm = Bar
  monkeypatch.setitem(sys.modules, "tqdm", tqdm)
  monkeypatch.setitem(sys.modules, "tqdm.auto", tqdm.auto)
  server.save_checkpoint("ckpt", progress=True)
  (bar,) = bars
  check(bar.shown)
  assert bar.closed and bar.desc == "ckpt" and bar.unit == "B"


def test_tqdm_itself_takes_it(server, capsys):
  pytest.importorskip("tqdm")
  server.save_checkpoint("ckpt", progress=True)
  assert "ckpt" in capsys.readouterr().err


def test_what_is_no_progress_is_refused_before_anything_is_done(server, monkeypatch):
  with pytest.raises(formwork.Error, match="expected a callable or True, got 3") as error:
    server.save_checkpoint("not-made", progress=3)
  assert error.value.code == "INVALID_ARGUMENT"
  monkeypatch.setitem(sys.modules, "tqdm", None)  # As where it is not installed.
  with pytest.raises(formwork.Error, match="not installed"):
    server.save_checkpoint("not-made", progress=True)
  with pytest.raises(formwork.Error) as error:
    server.restore_checkpoint("not-made")
  assert error.value.code == "NOT_FOUND"
  server.save_checkpoint("ckpt", progress=False)


def test_asyncio(process):
  async def run():
    async with await formwork.aio.connect(process.grpc, timeout=TIMEOUT) as server:
      saved = []
      assert await server.save_checkpoint("aio", progress=lambda *a: saved.append(a)) == 8
      check(saved)
      restored = []
      assert await server.restore_checkpoint("aio", progress=lambda *a: restored.append(a)) == 8
      check(restored, more_than_once=False)
      with pytest.raises(ZeroDivisionError):
        await server.save_checkpoint("given-up", progress=lambda done, total: 1 / 0)
      (first, *_) = await server.variables()
      assert (await first.read())[0] == 0

  asyncio.run(run())
