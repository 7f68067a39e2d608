"""Calls with values by the names of parameters, and results by the names of outputs."""
import asyncio
import json
import threading
import time
import types

import numpy as np
import pytest
import tensorflow as tf

import formwork
from formwork import aio
from formwork import named_calls


def _graph(dtype=tf.float32, shape=(None,)):
  """a - b and a * b, and v += a where it is a variable's handle."""
  with tf.Graph().as_default() as g:
    a, b = (tf.compat.v1.placeholder(dtype, shape, name=n) for n in "ab")
    v = tf.compat.v1.placeholder(tf.resource, [], name="v")
    tf.subtract(a, b, name="less")
    tf.multiply(a, b, name="product")
    tf.raw_ops.AssignAddVariableOp(resource=v, value=tf.reduce_sum(a), name="add")
    tf.raw_ops.ReadVariableOp(resource=v, dtype=dtype, name="read")
  return g.as_graph_def().SerializeToString(deterministic=True)


def _parameter(name, kind="keyword_only", dtype="float32", shape=(None,), **more):
  return {"name": name, "kind": kind,
          "type": {"kind": "tensor", "dtype": dtype, "shape": list(shape), **more}}


def _tensors(*names):
  return {"kind": "dict", "keys": list(names),
          "items": [{"kind": "tensor", "dtype": "float32", "shape": [None]} for _ in names]}


def _register(server, parameters, name="f", order="ab", dtype="float32", shape=(None,),
              outputs=("less", "product"), result=_tensors("less", "product"), **options):
  """A function of two inputs, whose signature is that; `order`: of its inputs."""
  return server.register(
      name, _graph(tf.as_dtype(dtype), shape),
      [formwork.TensorSpec(n + ":0", dtype, shape) for n in order], [o + ":0" for o in outputs],
      signature=formwork.FunctionType.from_json({"parameters": parameters, "result": result}),
      **options)


def _lists(result):
  return {name: value.tolist() for name, value in result.items()}


KEYWORDS = [_parameter("b"), _parameter("a")]  # Not in the order of their inputs.
GIVEN = {"b": [2.], "a": np.float32([5])}
GOT = {"less": [3], "product": [10]}


def test_values_and_results_have_names(either):
  f = _register(either, KEYWORDS)
  assert [v.tolist() for v in f([5.], [2.])] == [[3], [10]]
  assert _lists(f(GIVEN)) == _lists(either.call("f", GIVEN)) == GOT
  assert _lists(f(types.MappingProxyType(GIVEN))) == GOT
  kept = either.call("f", GIVEN, keep=True)
  assert {n: k.read().tolist() for n, k in kept.items()} == GOT
  assert _lists(either.call("f", {"b": kept["less"], "a": kept["product"]})) == {
      "less": [7], "product": [30]}


@pytest.mark.parametrize("parameters, order, result, names", [
    ([_parameter("p", "positional_or_keyword"), _parameter("q", "positional_only")], "ab", None, "pq"),
    ([_parameter("b"), _parameter("z", "positional_or_keyword")], "ab", None, "zb"),
    ([_parameter("p", flat=1), _parameter("q", flat=0)], "ab", None, "qp"),
    (KEYWORDS, "ab", {**_tensors("x", "y"), "kind": "dict", "keys": [1, 2]}, "ab"),
    (KEYWORDS, "ab", _tensors("one"), "ab"),
], ids=["positional", "both", "places", "numbers", "other outputs"])
def test_the_order_of_inputs_is_the_signatures(either, parameters, order, result, names):
  f = _register(either, parameters, order=order, result=result)
  given = dict(zip(names, ([5.], [2.])))
  for got in f(given), either.call("f", given):
    if result is not None and result["keys"] == [1, 2]:
      assert list(got) == [1, 2]
      got = list(got.values())
    assert [v.tolist() for v in got] == [[3], [10]]


@pytest.mark.parametrize("parameters, given, words", [
    (KEYWORDS, {"a": [1.]}, r"f: missing: 'b'; it takes \(b: float32\[\?\], a: float32\[\?\]\)"),
    (KEYWORDS, {"a": [1.], "b": [1.], "c": 1, 2: 1}, "f: unknown: 'c', '2'; it takes"),
    (KEYWORDS, {}, "missing: 'a', 'b'"),
    (KEYWORDS, {"a": [1.], "b": np.ones(1)}, "dtype differs: expected float32, got float64"),
    ([{"name": "t", "type": {"kind": "tuple", "items": [p["type"] for p in KEYWORDS]}}],
     {"t": 1}, "by names where all inputs are parameters, and each of these is one tensor"),
    ([{**_parameter("t"), "kind": "var_positional"}, _parameter("b")], GIVEN, "one tensor or var"),
    ([_parameter("a")], {"a": [1.]}, "all inputs are parameters"),
    ([_parameter("a", flat=1), _parameter("b", flat=1)], GIVEN, "all inputs are parameters"),
], ids=["missing", "unknown", "none", "dtype", "structure", "several", "fewer", "one place"])
def test_what_cannot_be_passed_by_names_is_invalid(either, parameters, given, words):
  f = _register(either, parameters)
  for call in (lambda: f(given), lambda: either.call("f", given)):
    with pytest.raises(formwork.Error, match=words) as error:
      call()
    assert error.value.code == "INVALID_ARGUMENT"


def test_variables_have_names(live):
  v = live.variable("v", np.float32(1))
  handle = {"kind": "variable", "dtype": "float32", "shape": [], "alias_id": 7}
  f = live.register(
      "add", _graph(), [formwork.TensorSpec("a:0", "float32", [None]),
                        formwork.TensorSpec("v:0", "resource")], ["read:0"], targets=["add"],
      signature=formwork.FunctionType.from_json({"parameters": [
          _parameter("a", "positional_only"), {"name": "v", "type": handle},
          {"name": "w", "type": handle}]}))
  with pytest.raises(formwork.Error, match="'w' is the same variable as another"):
    f({"a": [2.], "v": v, "w": live.variable("other", np.float32(1))})
  with pytest.raises(formwork.Error, match="input 'w': expected a Variable"):
    live.call("add", {"a": [2.], "v": 1., "w": 1.})
  f({"a": [2.], "v": v, "w": live.variables("v")[0]})
  live.call("add", {"a": [2.], "v": v, "w": v})
  assert v.read() == 5


# ------------------------------------------------------------------------------ what is there now
def _methods(fake):
  methods = fake.methods()
  fake.log.clear()
  return methods


def test_a_call_is_one_request(fake, server):
  f = _register(server, KEYWORDS)
  fake.log.clear()
  for _ in range(3):
    assert _lists(server.call("f", GIVEN)) == GOT
  assert _methods(fake) == ["ListFunctions", "Call", "Call", "Call"]
  with pytest.raises(formwork.Error, match="unknown: 'c'"):
    server.call("f", {**GIVEN, "c": 1})
  with pytest.raises(formwork.Error, match="there is no function 'g'") as error:
    server.call("g", GIVEN)
  assert (error.value.code, error.value.reason) == ("NOT_FOUND", "FUNCTION_NOT_FOUND")
  assert _methods(fake) == ["ListFunctions", "ListFunctions"]
  f.delete()
  _register(server, [_parameter("x"), _parameter("y")])
  fake.log.clear()
  with pytest.raises(formwork.Error, match="missing: 'x', 'y'; unknown: 'b', 'a'"):
    server.call("f", GIVEN)
  assert _methods(fake) == ["Call", "Resolve", "ListFunctions"]


def test_the_functions_of_some_names_are_kept(server, monkeypatch):
  monkeypatch.setattr(named_calls, "_MOST_NAMES", 2)
  for name in "fgh":
    _register(server, KEYWORDS, name=name)
    assert _lists(server.call(name, GIVEN)) == GOT
  assert list(server._named_calls) == ["h"]


def test_the_server_chooses_among_functions_of_one_order(live):
  _register(live, KEYWORDS)
  assert _lists(live.call("f", GIVEN)) == GOT
  doubles = {n: np.full([2], v[0], np.float64) for n, v in GIVEN.items()}
  squares = {n: np.full([2, 1], v[0], np.float32) for n, v in GIVEN.items()}
  for more in {"dtype": "float64"}, {"shape": (2, None), "result": _tensors("p", "q")}:
    like = {k: v for k, v in more.items() if k != "result"}
    _register(live, [_parameter(n, **like) for n in "ba"], **more)
  for given, names in (doubles, ["less", "product"]), (squares, ["p", "q"]), (doubles, None):
    got = live.call("f", given)
    assert list(got) == (names or list(GOT)) and (got[list(got)[0]] == 3).all()
    assert all(v.dtype == given["a"].dtype and v.shape == given["a"].shape for v in got.values())
  with pytest.raises(formwork.NoMatchingSignature, match=r"given: \(float64\[2,1\], float64\[2,1\]"):
    live.call("f", {n: v.astype(np.float64) for n, v in squares.items()})
  # Whatever they are called, the server looks at types alone.
  other = _register(live, [_parameter("x", shape=[7]), _parameter("y", shape=[7])], shape=[7])
  with pytest.raises(formwork.Error, match=r"call one of server.functions\('f'\)"):
    with formwork.connect(live._channel.target, live.namespace) as client:
      client.call("f", doubles)
  # One that was registered since: it has been called, and what its results are is not known.
  with pytest.raises(formwork.Error, match="registered meanwhile") as error:
    live.call("f", {n: np.ones(7, np.float32) for n in "ab"})
  assert (error.value.code, error.value.effects) == ("ABORTED", "all")
  other.delete()
  assert (live.call("f", {n: np.ones(7, np.float32) for n in "ab"})["less"] == 0).all()


def test_values_keep_their_names_while_functions_are_replaced(live):
  """By others, which take the inputs in another order."""
  orders = [KEYWORDS, [_parameter("b", flat=0), _parameter("a", flat=1)]]
  _register(live, KEYWORDS)
  failures, stop = [], threading.Event()

  def call():
    while not stop.is_set():
      try:
        assert _lists(live.call("f", GIVEN)) == GOT
      except BaseException as e:
        failures.append(e)
        return

  threads = [threading.Thread(target=call) for _ in range(3)]
  for t in threads:
    t.start()
  (f,) = live.functions("f")
  for i in range(1, 40):
    _register(live, orders[i % 2], order=["ab", "ba"][i % 2], replace=True)
    time.sleep(0.01)
  stop.set()
  for t in threads:
    t.join()
  assert not failures
  with pytest.raises(formwork.Error, match="takes its inputs in another order") as error:
    f([5.], [2.])
  assert error.value.code == "NOT_FOUND"


def test_one_that_was_replaced_is_looked_up(live):
  f = _register(live, KEYWORDS)
  (found,) = live.functions("f")
  _register(live, KEYWORDS, outputs=["product", "less"], result=_tensors("x", "y"), replace=True)
  assert _lists(found(GIVEN)) == {"x": [10], "y": [3]} and found.id != f.id
  assert [v.tolist() for v in found([5.], [2.])] == [[10], [3]]
  (here,), (there,) = live.functions("f"), live.functions("f")
  here.delete()
  for gone in here, there, found:
    with pytest.raises(formwork.Error) as error:
      gone(GIVEN)
    assert error.value.code == "NOT_FOUND"


def test_one_whose_variable_is_deleted_says_so(live):
  f = live.register("f", _graph(), [formwork.TensorSpec("a:0", "float32", [None])], ["read:0"],
                    captures={"v:0": live.variable("v", np.float32(0))}, targets=["add"])
  live.variables("v")[0].delete()
  for call in (lambda: live.functions("f")[0]([1.]), lambda: live.call("f", {"a": [1.]})):
    with pytest.raises(formwork.Error, match="'f': the variable has been deleted"):
      call()


def test_the_options_of_a_call(live, tmp_path):
  live.register("f", _graph(), [formwork.TensorSpec("a:0", "float32", [None])], ["read:0"],
                captures={"v:0": live.variable("v", np.float32(0))}, targets=["add"])
  live.call("f", {"a": [1.]}, trace=str(tmp_path / "t.json"), atomic=True)
  assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
  live.call("f", {"a": [1.]}, relaxed=True)
  for options in {"atomic": True, "relaxed": True}, {"timeout": 1e-9}:
    with pytest.raises(formwork.Error):
      live.call("f", {"a": [1.]}, **options)
  assert live.variables("v")[0].read() == 2


def test_with_await(either):
  _register(either, KEYWORDS)

  async def main():
    async with await aio.connect(either._channel.target, namespace=either.namespace) as server:
      for result in await asyncio.gather(*(server.call("f", GIVEN) for _ in range(9))):
        assert _lists(result) == GOT
      (f,) = await server.functions("f")
      assert _lists(await f(GIVEN)) == GOT
      with pytest.raises(formwork.Error, match="missing: 'a'"):
        await server.call("f", {"b": 1.})

  asyncio.run(main())
