import tensorflow as tf

from generate import bits, case, error, tensor, uniform

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float", "double", "half", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
QUANTIZED = ["qint8", "quint8", "qint16", "quint16", "qint32"]
FLOAT8 = ["float8_e5m2", "float8_e4m3fn"]
NAN = float("nan")
INF = float("inf")


def cast(value, to, **attrs):
  case("Cast", value, DstT=tf.as_dtype(to), **attrs)


for source in INTS + FLOATS + COMPLEX + ["bool"]:
  for target in INTS + FLOATS + COMPLEX + ["bool"]:
    start = 0 if source.startswith("u") or source == "bool" else -7
    if source in FLOATS + COMPLEX and target.startswith("u"):
      start = 0  # Negative numbers have no unsigned counterpart.
    values = (tensor("bool", [True, False, True]) if source == "bool" else
              uniform([2, 3], start, 90, 1, source))
    cast(values, target)
cast(tensor("int32", 7), "float")
cast(tensor("float", [], [0, 3]), "int32")
cast(uniform([3000], -100, 100), "int32")
cast([3.9, -3.9, 0.5, -0.5, -0.0, 1e10, -1e10, NAN, INF, -INF], "int32")
cast([3.9, -3.9, 1e30, -1e30, NAN, INF], "int64")
cast(tensor("double", [3.9, -3.9, 1e10, -1e10, NAN, INF, 2147483647.5]), "int32")
cast(tensor("int32", [300, -1, 128, 255, 65536]), "int8")
cast(tensor("int32", [300, -1, 128, 255, 65536]), "uint8")
cast(tensor("int64", [2**40 + 5, -1]), "int32")
cast([1e10, -1e10, NAN, 65520.0, 65519.0, INF, 1e-8], "half")
cast([1e10, -1e10, NAN, 1.00390625, 1.01171875, INF], "bfloat16")
cast([0.0, -0.0, NAN, 0.1, INF], "bool")
cast(tensor("complex64", [1 + 2j, 3j, 0]), "bool")
cast(tensor("double", [1e300, -1e300, 1e-300, NAN]), "float")

for kind in QUANTIZED:
  cast(uniform([6], 0, 100, 1, kind), "int32")
  cast(uniform([6], 0, 100, 1, kind), "float")
  cast(uniform([6], 0, 100, 1, "float"), kind)
  cast(uniform([6], 0, 100, 1, "int32"), kind)
for kind in FLOAT8:
  everything = bits(kind, list(range(256)))
  cast(everything, "float")
  cast(everything, "half")
  cast(bits(kind, list(range(0, 256, 5))), "double")
  cast(bits(kind, [0x00, 0x80, 0x38, 0x44, 0xc8]), "int32")
  cast(bits(kind, [0x00, 0x80, 0x38, 0x44, 0xc8]), "bool")
  cast([3.9, -3.9, 300.0, 7.6, 8.0, 9.0, -9.0, 15.0, 17.0, 1e-3, 0.0019, -0.001, 448.0, 464.0,
        57344.0, 1e6, -1e6, INF, -INF, NAN, -0.0, 240.0, 248.0, 30.9, 1e-7], kind)
  cast(tensor("double", [3.9, -300.0, 1e300, 1e-3]), kind)
  cast(tensor("half", [3.9, -300.0, 60000.0, 1e-3]), kind)
  cast(tensor("bfloat16", [3.9, -300.0, 60000.0, 1e-3]), kind)
cast(bits("float8_e5m2", list(range(0, 256, 3))), "float8_e4m3fn")
cast(bits("float8_e4m3fn", list(range(0, 256, 3))), "float8_e5m2")
for kind in ["int4", "uint4"]:
  for source in INTS:
    cast(uniform([8], 0, 40, 1, source), kind)
    cast(tensor(kind, [1, 3, 7]), source)
cast(tensor("int32", [-9, -8, 7, 8, 15, 16, 17, 100]), "int4")
cast(tensor("int32", [-9, -8, 7, 8, 15, 16, 17, 100]), "uint4")
cast(tensor("int4", [-8, -1, 7]), "int32")

for target in ["half", "bfloat16"] + FLOAT8:
  cast([1.2345678, 3.3, -65000.0, NAN, INF], target, Truncate=True)
  cast(tensor("double", [1.2345678, 3.3, -65000.0, NAN, INF]), target, Truncate=True)
cast(tensor("double", [1.23456789012, 3.3, -65000.3, 1e300]), "float", Truncate=True)
cast([1.5, -2.7], "int32", Truncate=True)
cast([1.5, -2.7], "double", Truncate=True)
for target in ["string", "variant"]:
  error("Cast", [1.0], DstT=tf.as_dtype(target), text="is not supported")
