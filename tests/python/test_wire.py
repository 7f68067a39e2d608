"""Tensors to the wire and back."""
import ml_dtypes
import numpy as np
import pytest

import formwork
from formwork import dtypes
from formwork import wire
from formwork.v1 import calls_pb2 as pb
from formwork.v1 import types_pb2

_NUMBERS = [n for n in dtypes.NUMPY if n != dtypes.STRING]


@pytest.mark.parametrize("number", _NUMBERS, ids=dtypes.name)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=str)
def test_every_dtype_comes_back_as_it_went(number, shape):
  array = np.ones(shape, np.int8).astype(dtypes.NUMPY[number])
  back = wire.from_message(wire.tensor_message(array, number))
  assert back.dtype == array.dtype and back.shape == shape
  assert (back == array).all()


def test_strings_of_any_bytes_come_back_as_objects():
  array = np.array([[b"", b"a\0b"], ["ü".encode(), b"\xff"]], object)
  back = wire.from_message(wire.tensor_message(array))
  assert back.dtype == object and back.tolist() == array.tolist()


@pytest.mark.parametrize("value", ["text", b"text", np.bytes_(b"text"), np.str_("text")])
def test_a_single_string_is_a_scalar(value):
  back = wire.from_message(wire.tensor_message(value, dtypes.STRING))
  assert back.shape == () and back[()] == b"text"


@pytest.mark.parametrize("given, name", [
    (1, "int32"), (2**40, "int64"), (1.5, "float32"), (True, "bool"), ("s", "string"),
    (["a", b"b"], "string"), ([1, 2], "int32"), (np.float64(1), "float64"),
    (np.ones(2, ml_dtypes.bfloat16), "bfloat16")], ids=repr)
def test_a_value_without_a_spec_is_typed_as_tensorflow_types_it(given, name):
  assert dtypes.name(wire.to_array(given)[1]) == name


@pytest.mark.parametrize("given, name", [
    (np.ones(2), "float32"), (1.5, "int32"), ("s", "float32"), (300, "uint8"), (-1, "uint8"),
    (True, "int32"), (1j, "float32"), ([[1], [2, 3]], "int32"), ([1], "string"),
    (np.array(["a"]), "int64")], ids=repr)
def test_a_value_that_does_not_fit_is_refused(given, name):
  with pytest.raises(formwork.Error) as e:
    wire.tensor_message(given, dtypes.number(name))
  assert e.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("given, name, want", [
    ([1, 2], "float32", [1, 2]), (1, "bfloat16", 1), ([[1.5]], "float64", [[1.5]]),
    ([], "int32", []), (7, "qint8", 7), (2, "complex64", 2), ([True], "bool", [True])], ids=repr)
def test_a_python_value_takes_the_dtype_that_is_wanted(given, name, want):
  array, number = wire.to_array(given, dtypes.number(name))
  assert dtypes.name(number) == name and array.dtype == dtypes.to_numpy(number)
  assert array.tolist() == want


def test_arrays_of_any_layout_are_sent_in_row_major_little_endian_order():
  base = np.arange(12, dtype=np.float32).reshape(3, 4)
  for array in (base.T, base[::2, ::-1], base.astype(">f4"), np.asfortranarray(base)):
    assert (wire.from_message(wire.tensor_message(array)) == array).all()
  base.setflags(write=False)
  assert (wire.from_message(wire.tensor_message(base)) == base).all()


@pytest.mark.parametrize("name", ["float", "half", "DT", "x", "", "float33", "variant_ref"])
def test_dtype_names(name):
  if name in ("float", "half", "variant_ref"):
    assert dtypes.name(dtypes.number(name)) in ("float32", "float16", "variant")
  else:
    with pytest.raises(formwork.Error):
      dtypes.number(name)


@pytest.mark.parametrize("size", [3, 1 << 16])
def test_request_pieces_are_the_message_and_responses_of_any_size_are_read(size):
  array = np.arange(size, dtype=np.float32)
  text = np.array([b"x", b"yz"], object)
  parts = [b"\x28\x07"]
  wire.append_tensor(parts, array, dtypes.number("float32"))
  wire.append_tensor(parts, text, dtypes.STRING)
  parts.append(wire.value_piece(types_pb2.Value(resource_id=9)))
  request = pb.CallRequest.FromString(b"".join(parts))
  assert request.function_id == 7 and request.inputs[2].resource_id == 9
  assert (wire.from_message(request.inputs[0].tensor) == array).all()

  response = pb.CallResponse(epoch=3, printed=["a"], outputs=request.inputs)
  response.outputs.add().opaque.dtype = dtypes.VARIANT
  printed = []
  read = wire.Answer(printed.append)
  assert read.take(response.SerializeToString())
  assert read.epoch == 3 and printed == ["a"] and len(read.outputs) == 4
  first = read.outputs[0]
  first = first if isinstance(first, np.ndarray) else wire.from_message(first.tensor)
  assert (first == array).all()
  assert wire.from_message(read.outputs[1].tensor).tolist() == [b"x", b"yz"]
  assert read.outputs[3].WhichOneof("kind") == "opaque"


@pytest.mark.parametrize("step", [7, 1 << 17])
def test_an_answer_in_parts_is_put_together(step):
  array, text = np.arange(1 << 16, dtype=np.float64), np.array([b"x" * 70000, b"yz"], object)
  printed = []
  read = wire.Answer(printed.append)
  for i, value in ((0, array[:100] if step == 7 else array), (2, text)):
    whole = wire.tensor_message(value)
    size = len(whole.content)
    for offset in range(0, size, step):
      assert not read.take(pb.CallResponse(epoch=1, more=True, printed=["p"] * (not offset), chunk=(
          pb.OutputChunk(output=i, offset=offset, total_bytes=size, dtype=whole.dtype,
                         dims=whole.dims, content=whole.content[offset:offset + step]))
      ).SerializeToString())
  last = pb.CallResponse(epoch=4)
  for value in (array, np.int32(5), text):
    last.outputs.add().tensor.CopyFrom(wire.tensor_message(value))
  for i in (0, 2):
    last.outputs[i].tensor.ClearField("content")
  assert read.take(last.SerializeToString())
  assert read.epoch == 4 and printed == ["p", "p"]
  assert (read.outputs[0] == (array[:100] if step == 7 else array)).all()
  assert wire.from_message(read.outputs[1].tensor) == 5
  assert read.outputs[2].tolist() == text.tolist()


@pytest.mark.parametrize("number", [None, dtypes.number("float32"), dtypes.STRING], ids=str)
@pytest.mark.parametrize("given, words", [
    (None, "None is no tensor"), ({"a": 1}, "its values one by one"), ({1}, "a set is no tensor"),
    (len, "pass its result")], ids=["None", "dict", "set", "function"])
def test_what_is_no_tensor_is_named(given, words, number):
  with pytest.raises(formwork.Error) as e:
    wire.to_array(given, number, "f: input 0 (x:0)")
  assert e.value.code == "INVALID_ARGUMENT" and words in e.value.message
  assert e.value.message.startswith("f: input 0 (x:0): ")


@pytest.mark.parametrize("given, words", [
    ([[1], [1, 2]], "not a rectangular value"), (object(), "got object"),
    (1 << 70, "which no tensor can hold"), ([1 << 70], "got list of objects")], ids=str)
def test_python_values_that_are_no_tensor_are_named(given, words):
  with pytest.raises(formwork.Error) as e:
    wire.to_array(given, what="f: input 0")
  assert e.value.code == "INVALID_ARGUMENT" and words in e.value.message
  assert e.value.message.startswith("f: input 0: ")


def test_composites_say_what_they_are_made_of():
  import tensorflow as tf
  for given, words in ((tf.ragged.constant([[1], [2, 3]]), "flat_values"),
                       (tf.SparseTensor([[0]], [1], [1]), "dense_shape"),
                       (tf.IndexedSlices(tf.constant([1.]), tf.constant([0])),
                        "convert_to_tensor")):
    for number in (None, dtypes.number("float32")):
      with pytest.raises(formwork.Error, match=words):
        wire.to_array(given, number, "f: input 0")


def test_what_stays_here_says_what_to_do_instead():
  import tensorflow as tf
  table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), 0)
  dataset = tf.data.Dataset.range(3)
  for given, words in ((dataset, "iterate over it"), (iter(dataset), "next()"),
                       (table, "look the keys up"), (tf.queue.FIFOQueue(3, tf.int32), "dequeue")):
    with pytest.raises(formwork.Error) as e:
      wire.to_array(given, None)
    assert e.value.code == "UNIMPLEMENTED" and words in e.value.message
