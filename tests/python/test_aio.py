"""formwork.aio: the low level with await."""
import asyncio
import inspect
import time

import numpy as np
import pytest

import formwork
from formwork import aio
from formwork import client
from formwork import namespace
import test_client


def run(server, program):
  """Runs program(aio Server) on the server of a formwork.Server."""
  async def main():
    async with await aio.connect(server._channel.target, namespace=server.namespace,
                                 timeout=20) as made:
      return await asyncio.wait_for(program(made), 60)
  return asyncio.run(main())


async def _function(server):
  variable = await server.variable("w", initial_value=np.zeros([3], np.float32))
  f = await server.register(
      "f", graph_def=test_client._graph(), outputs=["y:0"], captures={"w:0": variable},
      inputs=[formwork.TensorSpec("x:0", "float32", [None, 3])], targets=["add"])
  return variable, f


def test_the_low_level_is_the_same_with_await(either):
  async def program(server):
    variable, f = await _function(server)
    assert (await f(np.ones([2, 3], np.float32)))[0].tolist() == [[2, 2, 2]] * 2
    assert (await server.call("f", [[[1., 2, 3]]]))[0].tolist() == [[3, 5, 7]]
    assert (await variable.read()).tolist() == [2, 2, 2]
    await variable.assign([0, 0, 1])
    assert [v.tolist() for v in await server.read([variable])] == [[0, 0, 1]]
    (kept,) = await f([[1, 1, 1]], keep=True)
    assert (await kept.read()).tolist() == [[2, 2, 3]]
    assert len(await server.kept_tensors(mine=True)) == 1
    await kept.release()
    assert [v.name for v in await server.variables()] == ["w"]
    assert [g.name for g in await server.functions()] == ["f"]
    assert (await server.info()).version
    await f.delete()
    await variable.delete()
    await server.clear()

  run(either, program)


def test_many_calls_at_once(either):
  async def program(server):
    variable, f = await _function(server)
    await asyncio.gather(*(f([[1, 1, 1]]) for _ in range(40)))
    assert (await variable.read()).tolist() == [40] * 3

  run(either, program)


def test_errors_and_lost_functions(fake, server):
  async def program(made):
    _, f = await _function(made)
    with pytest.raises(formwork.Error) as e:
      await made.call("nothing", [])
    assert (e.value.code, e.value.reason) == ("NOT_FOUND", "FUNCTION_NOT_FOUND")
    with pytest.raises(formwork.Error) as e:
      await f("text")
    assert e.value.code == "INVALID_ARGUMENT"
    fake.evict()
    value = np.arange(30, dtype=np.float32).reshape(10, 3)
    assert ((await f(value))[0] == value * 2).all()

  run(server, program)


def test_deadlines_and_cancelling(fake, server):
  async def program(made):
    _, f = await _function(made)
    fake.hang.set()
    start = time.monotonic()
    with pytest.raises(formwork.Error) as e:
      await f([[1, 1, 1]], timeout=0.2)
    assert e.value.code == "DEADLINE_EXCEEDED" and time.monotonic() - start < 5
    task = asyncio.create_task(f([[1, 1, 1]]))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
      await task
    fake.hang.clear()
    assert await f([[1, 1, 1]])

  try:
    run(server, program)
  finally:
    fake.hang.clear()


def test_connect_says_why():
  with pytest.raises(formwork.Error) as e:
    asyncio.run(aio.connect("nowhere"))
  assert e.value.code == "UNAVAILABLE" and '"host:port"' in e.value.message


def test_both_servers_have_the_low_level_from_one_class():
  low = {n for n, f in inspect.getmembers(namespace.Namespace, inspect.isfunction) if n[0] != "_"}
  assert {"register", "resolve", "call", "variable", "variables", "read", "assign"} <= low
  for n in low - {"clear"}:
    assert getattr(aio.Server, n) is getattr(client.Server, n) is getattr(namespace.Namespace, n)
