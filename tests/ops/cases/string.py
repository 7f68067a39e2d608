from generate import case, error, tensor

INF = float("inf")
NAN = float("nan")
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float", "double", "half", "bfloat16"]

case("StringJoin", [["a", "b"], "x", ["c", "d"]], separator="-")
case("StringJoin", ["", ""], separator=",")
case("StringJoin", [["a", "b\n"]])
case("StringJoin", [tensor("string", [], [0]), "x"])
error("StringJoin", [["a", "b"], ["c"]], text="Input shapes do not match: [2] vs. [1]")
error("StringJoin", [[["a", "b"]], ["c", "d"]], text="Input shapes do not match: [1,2] vs. [2]")

for dtype in INTEGERS + ["bool"]:
  case("StringFormat", [tensor(dtype, [1, 0, 65, 2, 3, 4, 5, 1])], summarize=3)
for dtype in FLOATS:
  case("StringFormat", [tensor(dtype, [
      0.1, 1 / 3, 12345.678, 65504.0, 1e-4, 1.234e-5, -2.5, 0.0, -0.0, NAN, INF,
      -INF])], summarize=-1)
for value in [1e10, 1e-5, 123456789.0, 16777217.0, 3.4e38, 1e16, 1e21, 1.17549435e-38]:
  case("StringFormat", [tensor("float", value)])
  case("StringFormat", [tensor("double", value)])
  case("StringFormat", [tensor("bfloat16", value)])
case("StringFormat", [tensor("complex64", [1 + 2j, 0.5])])
case("StringFormat", [tensor("qint8", [1, 2, 65])])
case("StringFormat", [tensor("quint8", [1, 2, 65])])
case("StringFormat", [tensor("qint32", [1, 2])])
case("StringFormat", [["a", "b\n\"q\"\\ \xe9 \u4e2d", "x\ty'"]], summarize=-1)
case("StringFormat", [[b"\xff\x00\x7f", b"\r"]])
case("StringFormat", ["x\ty'"])
for shape in [[0], [2, 0], [0, 3], [10], [2, 3], [4, 8], [2, 2, 2], [7, 7, 7], [3, 1, 1], []]:
  size = 1
  for dim in shape:
    size *= dim
  for summarize in [3, -1, 1, 0, 2]:
    case("StringFormat", [tensor("int32", list(range(size)), shape)], summarize=summarize)
case("StringFormat", [1, 2.5], template="a {} b {} c", placeholder="{}")
case("StringFormat", [], template="a")
case("StringFormat", [["x"], True], template="%s%s")

VALUES = [1.5, -0.1, 3.0, 0.0]
FORMS = [{}, dict(precision=3), dict(scientific=True), dict(shortest=True), dict(width=9),
         dict(width=9, fill="0"), dict(width=9, fill=" "), dict(width=9, fill="-"),
         dict(width=9, fill="+"), dict(width=9, fill="#", precision=0),
         dict(precision=2, scientific=True, width=12), dict(precision=2, shortest=True),
         dict(precision=-5), dict(width=-3), dict(precision=0)]
for dtype in FLOATS + ["complex64", "complex128"]:
  for form in FORMS:
    case("AsString", tensor(dtype, VALUES), **form)
  case("AsString", tensor(dtype, [NAN, INF, -INF, 65504]), width=6)
case("AsString", tensor("double", [1e300, 1.7976931348623157e308]))
case("AsString", tensor("double", [0.1]), precision=40)
for dtype in INTEGERS:
  signed = [1, 0, 100] + ([] if dtype.startswith("u") else [-100])
  for form in [{}, dict(width=6), dict(width=6, fill="0"), dict(width=6, fill="-"),
               dict(width=6, fill="+"), dict(width=6, fill=" ")]:
    case("AsString", tensor(dtype, signed), **form)
  error("AsString", tensor(dtype, 1), precision=3,
        text="precision not supported for datatype " + dtype)
  error("AsString", tensor(dtype, 1), shortest=True,
        text="scientific and shortest format not supported for datatype " + dtype)
case("AsString", tensor("int64", [-2**63, 2**63 - 1]))
case("AsString", tensor("uint64", [2**64 - 1, 0]))
case("AsString", [True, False], width=7)
for form in [{}, dict(width=4), dict(width=4, fill="-"),
             dict(width=4, fill="0"), dict(precision=1)]:
  case("AsString", ["ab", "c", "abcdef", ""], **form)
case("AsString", tensor("float", [], [0, 2]))
error("AsString", 1.5, fill="ab", text="Fill string must be one or fewer characters")
error("AsString", 1.5, scientific=True, shortest=True,
      text="Cannot select both scientific and shortest notation")
error("AsString", 1.5, fill="x", width=5, text="Fill argument not supported: \"x\"")

TEXTS = ["aB\xc4\u4e2d", "", "Q 1\n"]
case("StringLength", TEXTS)
case("StringLength", TEXTS, unit="UTF8_CHAR")
case("StringLower", TEXTS)
case("StringUpper", TEXTS)
case("StringLower", ["AbC", "x"], encoding="utf-8")
case("StringUpper", ["AbC", "x"], encoding="utf-8")
error("StringLower", ["a"], encoding="x", text="only utf-8 or '' (no encoding) is supported")
case("StringStrip", [" a b\t\n", "\r\x0b\x0cx", ""])

case("Substr", "abc", 1, 10)
case("Substr", "abc", -2, 1)
case("Substr", "abc", 3, 1)
case("Substr", ["abc", "defg"], [1, 2], [2, -1])
case("Substr", "abc", [1, 2], [2, 1])
case("Substr", [["abc"], ["defg"]], [1, 2], [2, 1])
case("Substr", ["abc", "defg"], tensor("int64", 1), tensor("int64", 2))
case("Substr", "\u4e2dbc", -3, 1, unit="UTF8_CHAR")
case("Substr", "\u4e2dbc", 1, 5, unit="UTF8_CHAR")
case("Substr", ["\u4e2db\xe9c", "abcd"], 1, 2, unit="UTF8_CHAR")
error("Substr", "abc", 4, 1, text="pos 4 out of range for string b'abc' at index 0")
error("Substr", "abc", -4, 1, text="pos -4 out of range for string b'abc' at index 0")
error("Substr", ["abc", "x"], [1, 0, 1], [2, 1, 1], text="Incompatible shapes: [2] vs. [3]")
