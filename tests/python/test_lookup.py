"""Hash tables through server.table, which needs no TensorFlow."""
import asyncio

import numpy as np
import pytest

import formwork
from formwork import aio


def test_a_static_table_is_made_once_and_read(live):
  table = live.table("t", kind="static", key_dtype="string", value_dtype="int64",
                     keys=[b"a", b"bc"], values=[1, 2], default_value=-1)
  assert not table.existed and table.type == "static table string[] -> int64[]"
  np.testing.assert_array_equal(table.lookup([[b"bc"], ["x"]]), [[2], [-1]])
  np.testing.assert_array_equal(table.lookup([b"x", b"a"], default_value=[7, 8]), [7, 1])
  assert table.lookup(b"a") == 1
  keys, values = table.export()
  assert dict(zip(keys, values)) == {b"a": 1, b"bc": 2} and table.size() == 2
  again = live.table("t", kind="static", keys=[b"z"], values=[9])
  assert again.existed and again.id == table.id and again.size() == 2
  for change in (lambda: table.insert([b"z"], [1]), lambda: table.remove([b"a"])):
    with pytest.raises(formwork.Error, match="not supported") as refused:
      change()
    assert refused.value.code == "UNIMPLEMENTED"


def test_a_mutable_table_of_rows(live):
  table = live.table("m", key_dtype="int64", value_dtype="float32", keys=[1, 2],
                     values=[[1., 2.], [3., 4.]])
  np.testing.assert_array_equal(table.lookup([2, 5]), [[3., 4.], [0., 0.]])
  table.insert([[5]], [[[6., 7.]]])
  table.remove([1, 100])
  keys, values = table.export()
  assert {k: tuple(v) for k, v in zip(keys, values)} == {2: (3., 4.), 5: (6., 7.)}
  with pytest.raises(formwork.Error, match=r"expected values of shape \[2, 2\], got \[2\]"):
    table.insert([8, 9], [1., 1.])
  table.delete()
  with pytest.raises(formwork.Error) as gone:
    table.size()
  assert gone.value.code == "NOT_FOUND" and "'m'" in str(gone.value)


def test_a_dense_table(live):
  table = live.table("d", kind="dense", key_dtype="string", value_dtype="float32",
                     keys=[b"a", b"b"], values=[[1., 2.], [3., 4.]], empty_key=b"", deleted_key="-")
  np.testing.assert_array_equal(table.lookup([b"b", b"x"]), [[3., 4.], [0., 0.]])
  table.remove([b"a"])
  keys, values = table.export()
  assert sorted(keys)[-2:] == [b"-", b"b"] and table.size() == 1 and values.shape == (131072, 2)
  again = live.table("d", kind="dense", value_dtype="float32", default_value=[0., 0.],
                     empty_key=b"", deleted_key=b"-")
  assert again.existed and again.id == table.id and again.size() == 1
  for key in (b"", b"-"):
    with pytest.raises(formwork.Error, match="as a table key is not allowed") as refused:
      table.insert([key], [[1., 1.]])
    assert refused.value.code == "INVALID_ARGUMENT"


def test_a_dense_table_whose_keys_are_vectors(live):
  table = live.table("d", kind="dense", key_dtype="int64", keys=[[1, 2], [3, 4]], values=[5, 6],
                     empty_key=[0, 0], deleted_key=[-1, -1], default_value=-7)
  np.testing.assert_array_equal(table.lookup([[3, 4], [3, 5]]), [6, -7])
  np.testing.assert_array_equal(table.lookup([[[3, 4]], [[1, 2]]], [[0], [0]]), [[6], [5]])
  assert table.lookup([1, 2]) == 5
  table.insert([[[8, 8]]], [[9]])
  table.remove([[1, 2]])
  keys, values = table.export()
  held = {tuple(k): v for k, v in zip(keys, values) if k[0] > 0}
  assert held == {(3, 4): 6, (8, 8): 9} and table.size() == 2
  again = live.table("d", kind="dense", key_dtype="int64", empty_key=[0, 0], deleted_key=[-1, -1])
  assert again.existed and again.lookup([[8, 8]]) == 9
  with pytest.raises(formwork.Error, match="expected keys of 2 elements") as refused:
    table.lookup([1, 2, 3])
  assert refused.value.code == "INVALID_ARGUMENT"
  with pytest.raises(formwork.Error, match="as a table key is not allowed") as refused:
    table.insert([[0, 0]], [1])
  assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("empty, deleted", [([0, 0], [1]), (0, [1]), ([[0]], [[1]]), ([], [])])
def test_what_are_no_keys_of_a_dense_table(live, empty, deleted):
  with pytest.raises(formwork.Error) as refused:
    live.table("no", kind="dense", key_dtype="int64", empty_key=empty, deleted_key=deleted)
  assert refused.value.code == "INVALID_ARGUMENT"
  assert live._resources() == []


def test_a_dense_tables_keys_differ(live):
  with pytest.raises(formwork.Error, match="cannot be equal") as refused:
    live.table("same", kind="dense", empty_key=b"a", deleted_key=b"a")
  assert refused.value.code == "INVALID_ARGUMENT"
  assert live._resources() == []


def test_strings_and_an_empty_table(live):
  table = live.table("e", value_dtype="string")
  assert table.size() == 0
  np.testing.assert_array_equal(table.lookup([b"a"]), np.array([b""], object))
  table.insert([b"a", "b"], [b"x", b"\xff\x00"])
  np.testing.assert_array_equal(table.lookup([b"b", b"c"], default_value="no"),
                                np.array([b"\xff\x00", b"no"], object))


@pytest.mark.parametrize("arguments, code, words", [
    (dict(kind="static", keys=[b"a", b"a"], values=[1, 2]), "FAILED_PRECONDITION", "same key"),
    (dict(kind="sparse"), "UNIMPLEMENTED", "mutable, static and dense"),
    (dict(kind="dense"), "INVALID_ARGUMENT", "takes an empty_key"),
    (dict(empty_key=b"", deleted_key=b"a"), "INVALID_ARGUMENT", "takes an empty_key"),
    (dict(key_dtype="float32"), "UNIMPLEMENTED", "keys of dtype"),
    (dict(keys=[1, 2], values=[1, 2]), "INVALID_ARGUMENT", "expected strings"),
    (dict(keys=[b"a"], values=[1, 2]), "INVALID_ARGUMENT", r"shape \[1\], got \[2\]"),
])
def test_what_cannot_be_made_is_not_there_afterwards(live, arguments, code, words):
  with pytest.raises(formwork.Error, match=words) as refused:
    live.table("w", **arguments)
  assert refused.value.code == code
  assert live._resources() == []


def test_another_type_is_refused(live):
  live.table("t", keys=[b"a"], values=[1])
  with pytest.raises(formwork.Error, match="exists with another dtype") as refused:
    live.table("t", kind="static", keys=[b"a"], values=[1])
  assert refused.value.code == "INVALID_ARGUMENT"


def test_a_function_captures_one(live):
  import tensorflow as tf
  table = live.table("t", kind="static", key_dtype="int64", value_dtype="float32", keys=[7],
                     values=[0.5])
  graph = tf.Graph()
  with graph.as_default():
    handle = tf.compat.v1.placeholder(tf.resource, [], "t")
    keys = tf.compat.v1.placeholder(tf.int64, [None], "keys")
    tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=keys,
                                 default_value=tf.constant(-1.), name="found")
  find = live.register("find", graph.as_graph_def().SerializeToString(),
                       [formwork.TensorSpec("keys:0", "int64", [None])], ["found:0"],
                       captures={"t:0": table})
  np.testing.assert_array_equal(find(np.array([7, 8]))[0], [0.5, -1])


def test_over_asyncio(live):
  async def run():
    async with await aio.connect(live._channel.target, namespace=live.namespace) as server:
      table = await server.table("t", keys=[b"a"], values=[3])
      await table.insert([b"b"], [4])
      return await table.lookup([b"a", b"b"]), await table.size()
  found, size = asyncio.run(run())
  np.testing.assert_array_equal(found, [3, 4])
  assert size == 2
