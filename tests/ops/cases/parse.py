import struct

from generate import case, error, tensor


# --- The wire format of tf.train.Example
def field(number, payload):
  assert len(payload) < 128
  return bytes([number << 3 | 2, len(payload)]) + payload


def varint(x):
  x &= 2**64 - 1
  out = b""
  while x >= 128:
    out += bytes([x & 127 | 128])
    x >>= 7
  return out + bytes([x])


def integers(*values):
  return field(3, field(1, b"".join(map(varint, values))))


def floats(*values):
  return field(2, field(1, struct.pack("<%df" % len(values), *values)))


def texts(*values):
  return field(1, b"".join(field(1, v) for v in values))


def example(**features):
  return field(1, b"".join(field(1, field(1, k.encode()) + field(2, v))
                           for k, v in features.items()))


OP = "ParseExampleV2"
A = example(a=integers(1, 2), b=floats(1.5), c=texts(b"x", b"yy"))
B = example(a=integers(-3), b=floats(2.5, 3.5), other=texts(b"unused"))
EMPTY = b""
DTYPES = {"a": "int64", "b": "float", "c": "string"}


def parse(make, serialized, names=(), sparse="", dense=(), ragged="", splits="int64", dtypes=DTYPES,
          **more):
  """`dense`: of (key, default, shape)."""
  def strings(values):
    values = list(values)
    return tensor("string", values, [len(values)])
  defaults = [tensor(dtypes[k], [] if d is None else d) for k, d, _ in dense]
  make(OP, serialized if not isinstance(serialized, list) else strings(serialized), strings(names),
       strings(sparse), strings(k for k, _, _ in dense), strings(ragged), defaults,
       num_sparse=len(sparse), sparse_types=[dtypes[k] for k in sparse],
       ragged_value_types=[dtypes[k] for k in ragged],
       ragged_split_types=[splits] * len(ragged), dense_shapes=[s for _, _, s in dense], **more)


parse(case, [A, B, EMPTY], sparse="ac", ragged="b")
parse(case, [A, B, EMPTY], ragged="abc", splits="int32")
parse(case, [A], dense=[("b", None, [1]), ("a", None, [2]), ("c", [b"p", b"q"], [2])])
parse(case, [A, EMPTY], dense=[("b", [7.], [1]), ("a", [8, 9], [2]), ("c", [b"p", b"q"], [2])])
parse(case, [EMPTY, EMPTY], dense=[("a", [[1, 2], [3, 4]], [2, 2]), ("b", 3., [])])
parse(case, [A, B, EMPTY], dense=[("a", [9], [None]), ("b", 0.5, [None]), ("c", [b"-"], [None])])
parse(case, [example(a=integers(1, 2, 3, 4)), example(a=integers(5, 6))],
      dense=[("a", [9], [None, 2])])
parse(case, [example(a=integers(4))], dense=[("a", None, [])])
parse(case, [A, B], names=["first", "second"], sparse="bz", dtypes=dict(DTYPES, z="string"))
parse(case, [], sparse="a", dense=[("b", None, [2])], ragged="c")
parse(case, [EMPTY], dense=[("a", [5], [None])])
for text in [A, EMPTY]:
  parse(case, text, sparse="ac", ragged="b", dense=[("z", [1, 2], [2])],
        dtypes=dict(DTYPES, z="int64"))
parse(case, A, dense=[("a", None, [2])])
parse(case, A, dense=[("a", [5], [None])])
# Extremes, lists that are not packed, what is unknown, features of no kind, a name twice.
parse(case, [example(a=integers(2**63 - 1, -2**63), b=floats(float("inf"), float("nan")))],
      sparse="ab")
parse(case, [example(a=field(3, b"\x08\x01\x08\x02"), b=field(2, b"\x0d\x00\x00\x80\x3f"))],
      sparse="ab")
parse(case, [b"\x12\x01z" + A], sparse="a")
parse(case, [example(a=b"", c=texts())], sparse="ac", dense=[("b", [1.], [1])])
parse(case, [A + B, example(a=integers(7)) + example(a=integers(8, 9))], sparse="a", ragged="b")

WRONG = dict(DTYPES, a="float")
parse(error, [A], sparse="a", dtypes=WRONG,
      text="Name: <unknown>, Key: a, Index: 0.  Data types don't match. Expected type: float, "
      "Actual type: int64")
parse(error, [B, A], names=["p", "q"], ragged="a", dtypes=WRONG,
      text="Name: p, Key: a, Index: 0.  Data types don't match. Expected type: float")
parse(error, [A], dense=[("a", None, [2])], dtypes=WRONG,
      text="Data types don't match. Data type: int64 but expected type: float")
parse(error, [A, EMPTY], names=["p", "q"], dense=[("b", None, [1])],
      text="Name: q, Feature: b (data type: float) is required but could not be found.")
parse(error, EMPTY, dense=[("b", None, [1])],
      text="Feature: b (data type: float) is required but could not be found.")
parse(error, [A, B], dense=[("b", None, [1])],
      text="Name: <unknown>, Key: b, Index: 1.  Number of float values != expected.  Values size: "
      "2 but output shape: [1]")
parse(error, [A, B], dense=[("a", [9], [None, 2])],
      text="Number of int64 values is not a multiple of stride length. Saw 1 values but")
for text in [A[:-1], b"\x0b", b"\x07", b"\x08", b"\x0a\x02\x0a\x09", b"\x0a\x04\x0a\x02\x0a\x05",
             b"\x0a\x06\x0a\x04\x0a\x01a\x12", b"\x0a\x07\x0a\x05\x0a\x01a\x12\x05"]:
  parse(error, [A, text], sparse="c", text="Could not parse example input")
parse(error, [example(a=field(3, b"\x0a\x02\x80\x80"))], sparse="a", text="Key: a, Index: 0.")
parse(error, tensor("string", [[A]]), sparse="a",
      text="Expected serialized to be a scalar or vector, got shape: [1,1]")
parse(error, [A], names=["p", "q"], sparse="a",
      text="Expected names have the same shape as serialized: name.shape=[2], serialized.shape=[1]")
for default, shape in [([1, 2, 3], [2]), ([1], [2]), ([[1, 2]], [2])]:
  parse(error, [A], dense=[("a", default, shape)],
        text="is not compatible with dense_shapes_[0] == [2]")
for default in [[], [1, 2]]:
  parse(error, [A], dense=[("a", default, [None])],
        text="must contain a single element (the padding element).")
parse(error, [A, b"\x0a\x05"], sparse="c", text="Could not parse example input",
      code="INVALID_ARGUMENT", comment="TensorFlow takes it for one without features.")
parse(error, [example(b=field(2, b"\x0a\x03\x00\x00\x00"))], sparse="b", text="Key: b, Index: 0.",
      code="INVALID_ARGUMENT", comment="TensorFlow takes three bytes for no float.")


# --- ParseSequenceExampleV2
def sequence(lists=(), **context):
  """`lists`: {name: features}."""
  steps = {k: b"".join(field(1, v) for v in features) for k, features in dict(lists).items()}
  return example(**context) + (field(2, b"".join(
      field(1, field(1, k.encode()) + field(2, v)) for k, v in steps.items())) if steps else b"")


def parse_sequence(make, serialized, names=(), context=("", (), ""), lists=("", (), ""),
                   missing=None, splits="int64", dtypes=DTYPES, **more):
  """Of both: sparse keys, dense ones and their shapes (in the context with defaults), ragged ones."""
  def strings(values):
    values = list(values)
    return tensor("string", values, [len(values)])
  sparse, dense, ragged = context
  list_sparse, list_dense, list_ragged = lists
  missing = [False] * len(list_dense) if missing is None else missing
  make("ParseSequenceExampleV2",
       serialized if not isinstance(serialized, list) else strings(serialized), strings(names),
       strings(sparse), strings(k for k, _, _ in dense), strings(ragged), strings(list_sparse),
       strings(k for k, _ in list_dense), strings(list_ragged), tensor("bool", missing),
       [tensor(dtypes[k], [] if d is None else d) for k, d, _ in dense],
       Ncontext_sparse=len(sparse), context_sparse_types=[dtypes[k] for k in sparse],
       context_ragged_value_types=[dtypes[k] for k in ragged],
       context_ragged_split_types=[splits] * len(ragged),
       context_dense_shapes=[s for _, _, s in dense], Nfeature_list_sparse=len(list_sparse),
       Nfeature_list_dense=len(list_dense),
       feature_list_dense_types=[dtypes[k] for k, _ in list_dense],
       feature_list_sparse_types=[dtypes[k] for k in list_sparse],
       feature_list_ragged_value_types=[dtypes[k] for k in list_ragged],
       feature_list_ragged_split_types=[splits] * len(list_ragged),
       feature_list_dense_shapes=[s for _, s in list_dense], **more)


S1 = sequence({"a": [integers(1), integers(2, 3), integers()], "b": [floats(1., 2.), floats(3., 4.)],
               "c": [texts(b"x"), texts(b"")]}, a=integers(1, 2), b=floats(1., 2.), c=texts(b"p"))
S2 = sequence({"a": [integers(5)], "b": [floats(9., 8.)], "c": [texts(b"long")]}, a=integers(7))
for batch in [[S1, S2], [S2, S1, S2], [EMPTY, S1], [S1], []]:
  parse_sequence(case, batch, context=("ac", [("b", [5., 6.], [2])], ""))
  parse_sequence(case, batch, context=("c", [], "a"), splits="int32")
  parse_sequence(case, batch, lists=("ac", [("b", [2])], ""), missing=[True])
  parse_sequence(case, batch, lists=("", [("b", [2, 1]), ("c", [])], "a"), missing=[True, True],
                 splits="int32")
parse_sequence(case, [S1, S2], lists=("", [("b", [2])], ""))
parse_sequence(case, S1, context=("a", [("b", None, [2]), ("c", None, [1])], ""),
               lists=("a", [("b", [2]), ("c", [])], ""))
parse_sequence(case, EMPTY, context=("ac", [("b", [5., 6.], [2])], ""), lists=("a", [], ""))
parse_sequence(case, [S1, S2], names=["p", "q"], context=("ac", [], ""), lists=("a", [], ""))
# A feature of no kind; a name twice; lists that are not packed.
parse_sequence(case, [sequence({"a": [integers(1), b""]})], lists=("", [], "a"))
parse_sequence(case, [sequence({"a": [field(3, b"\x08\x01\x08\x02")]})], lists=("a", [], ""))

parse_sequence(error, [S1], context=("a", [], ""), dtypes=WRONG,
               text="Name: <unknown>, Context feature: a.  Data types don't match. Expected type: "
               "float")
parse_sequence(error, [S1], names=["p"], lists=("a", [], ""), dtypes=WRONG,
               text="Feature list: a, Index: 0.  Data types don't match. Expected type: float")
parse_sequence(error, [S1], lists=("", [("a", [1])], ""),
               text="Name: <unknown>, Key: a, Index: 1.  Number of values != expected.  values "
               "size: 2 but output shape: [1]")
parse_sequence(error, [S1, EMPTY], lists=("", [("b", [2])], ""),
               text="Feature list 'b' is required but could not be found.  Did you mean to include")
parse_sequence(error, [S1], context=("", [("a", None, [3])], ""),
               text="Unexpected number of elements in example <unknown>")
parse_sequence(error, [S1, EMPTY], context=("", [("b", None, [2])], ""),
               text="Feature: b (data type: float) is required but could not be found.")
parse_sequence(error, [S1], context=("", [("b", [1.], [2])], ""),
               text="default_value[0].shape() == [1] != context_dense_shapes[0] == [2]")
parse_sequence(error, [S1], context=("", [("b", [1.], [None])], ""),
               text="Shape [?] is not fully defined")
parse_sequence(error, [S1], names=["p", "q"], context=("a", [], ""),
               text="example_names must be empty or have the correct number of elements")
parse_sequence(error, tensor("string", [[S1]]), context=("a", [], ""),
               text="Expected serialized to be a scalar or vector, got shape: [1,1]")
parse_sequence(error, [S1], lists=("", [("b", [2])], ""), missing=[True, False],
               text="Expected len(feature_list_dense_missing_assumed_empty")
parse_sequence(error, [b"\x07"], context=("a", [], ""),
               text="Invalid protocol message input, example id: <unknown>")


# --- DecodeJSONExample
def features(text):
  return '{"features": {"feature": {%s}}}' % text


for text in ["{}", ' { } ', '{"features":null}', '{"features":{}}', "{'features':{}}", "{features:{},}",
             features('"a":{}'), features('"a":{"int64List":{}}'), features('"a":{"bytes_list":null}'),
             features('"a":null')]:
  case("DecodeJSONExample", text)
for values in ['"int64List": {"value": ["1", -2, 3, 1.0, 1e3, null]}', '"int64_list": {"value": 7}',
               '"int64List": {"value": [9223372036854775807, -9223372036854775808,]}',
               '"floatList": {"value": [1.5, "NaN", "-Infinity", 2, "-0.25", 1e-3, null]}',
               '"bytesList": {"value": ["aGk=", "aGk", "-_8=", "+/8=", "", null]}']:
  case("DecodeJSONExample", features('"a": {%s}' % values))
case("DecodeJSONExample", [features(r'"z\u00e9\n\ud83d\ude00\"": {"int64List": {"value": [1]}}, "a": {}'),
                           "{}"])
for text in ["", "[]", "null", '{"x":1}', "{} x", "{", '{"features"', '{"features":{"x":{}}}',
             features('"a":1'), features('"a":{"int64List":{"value":[1.5]}}'),
             features('"a":{"int64List":{"value":[9223372036854775808]}}'),
             features('"a":{"int64List":{"value":["x"]}}'),
             features('"a":{"int64List":{"value":[1 2]}}'),
             features('"a":{"int64List":{"value":[01]}}'),
             features('"a":{"floatList":{"value":[1e400]}}'),
             features('"a":{"floatList":{"value":[1e39]}}'),
             features('"a":{"floatList":{"value":["one"]}}'),
             features('"a":{"bytesList":{"value":["!!"]}}'),
             features('"a":{"bytesList":{"value":[1]}}'),
             features('"a":{"int64List":{},"floatList":{}}'), features('"a":{},"a":{}'),
             features(r'"\ud83d":{}'), features(r'"\x":{}')]:
  error("DecodeJSONExample", text, text="Error while parsing JSON: ")
