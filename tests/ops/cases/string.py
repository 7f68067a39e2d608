from generate import case, error, tensor, uniform

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
case("AsString", ["", "ab", "abcd", "\u00e9\u4e2d"], precision=3)
for fill in ["", "-"]:
  case("AsString", ["", "ab", "abcd", "\u00e9\u4e2d"], precision=3, width=5, fill=fill)
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
for unit in ["BYTE", "UTF8_CHAR"]:
  case("Substr", ["abc", "a\u00e9c"], 1, -1, unit=unit)
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

# --- Hashes
TEXTS = [b"", b"a", b"ab", b"abcdefg", b"abcdefgh", b"Formwork runs graphs", b"\xff\x00\x01",
         b"x" * 100, b"y" * 1000]
for op in ["StringToHashBucket", "StringToHashBucketFast"]:
  case(op, TEXTS, num_buckets=2**62)
  case(op, [TEXTS[:2]], num_buckets=7)
  case(op, "one", num_buckets=1)
case("StringToHashBucketStrong", TEXTS, num_buckets=2**62, key=[98765, 132])
case("StringToHashBucketStrong", TEXTS, num_buckets=10, key=[-1, 0])
error("StringToHashBucketStrong", TEXTS, num_buckets=10, key=[1], text="Key must have 2 elements")
case("Fingerprint", TEXTS, "farmhash64")
case("Fingerprint", [["a", "b"], ["", "cd"]], "farmhash64")
case("Fingerprint", uniform([3, 4], seed=1), "farmhash64")
case("Fingerprint", uniform([2, 1, 2], 0, 9, 1, "int64"), "farmhash64")
case("Fingerprint", tensor("float", [], [0, 2]), "farmhash64")
error("Fingerprint", ["a"], "md5", text="Unsupported fingerprint method: md5")
error("Fingerprint", "a", "farmhash64", text="`data` should have at least one dimension: []")

# --- Splitting
case("StringSplit", ["a b  c", "", " d", "e"], " ")
case("StringSplit", ["a b  c", "", " d", "e"], " ", skip_empty=False)
case("StringSplit", ["a,b;c"], ",;")
case("StringSplit", ["abc", ""], "")
error("StringSplit", [["a"]], " ", text="input must be a vector, got shape: [1,1]")
error("StringSplit", ["a"], [" "], text="delimiter must be a scalar, got shape: [1]")
case("StringSplitV2", ["a b  c", "", " d ", "\te\nf"], "")
case("StringSplitV2", ["a b  c", "", " d ", "\te\nf  "], "", maxsplit=1)
case("StringSplitV2", ["a b  c", "", " d "], " ")
case("StringSplitV2", ["1<>2<>3", "<>", "<><>4<>5<>"], "<>")
case("StringSplitV2", ["1<>2<>3", "<>", "<><>4<>5<>"], "<>", maxsplit=2)
case("StringSplitV2", ["a b"], " ", maxsplit=0)
case("StringSplitV2", tensor("string", []), " ")
error("StringSplitV2", "a", " ", text="input must be a vector, got shape: []")
error("StringSplitV2", ["a"], [" "], text="sep must be a scalar, got shape: [1]")

# --- Regular expressions
case("StaticRegexReplace", ["a.b.c", "", "xyz"], pattern=r"[.a]", rewrite="-")
case("StaticRegexReplace", ["a.b.c", "", "xyz"], pattern=r"[.a]", rewrite="-", replace_global=False)
case("StaticRegexReplace", [["Hello World", "aB"]], pattern=r"(\w)(\w*)", rewrite=r"\2\1")
case("RegexReplace", ["a.b.c", "xyz"], r"x|\.", "_")
case("RegexReplace", ["abc"], "", "-")
error("RegexReplace", ["abc"], "(", "-", text="Invalid pattern: (, error: missing ): (")
error("StaticRegexReplace", ["abc"], pattern="(", rewrite="-", text="Invalid pattern: (, error:")
error("RegexReplace", ["abc"], ["a"], "-", text="Pattern must be scalar, but received [1]")
case("StaticRegexFullMatch", [["abc", "aXc"], ["ab", ""]], pattern="a.c")
case("RegexFullMatch", ["abc", "", "abcd"], "a.c")
error("RegexFullMatch", ["abc"], "[", text="Invalid pattern: [, error: missing ]: [")

# --- Joining
for axes in [0, 1, [0, 1], [1, 0], [-1], tensor("int32", [])]:
  for keep in [False, True]:
    case("ReduceJoin", [["a", "b"], ["c", "d"]], axes, keep_dims=keep, separator="-")
case("ReduceJoin", [[["a", "b"]], [["c", "d"]]], [2, 0])
case("ReduceJoin", tensor("string", [], [0, 2]), 0)
case("ReduceJoin", "a", tensor("int32", []))
error("ReduceJoin", ["a"], 1, text="Invalid reduction dimension 1 for input with 1 dimension(s)")
error("ReduceJoin", [["a"]], [1, -1], text="Duplicate reduction dimension -1")
case("UnsortedSegmentJoin", ["a", "b", "c", "d"], [2, 0, 2, 0], 3, separator=":")
case("UnsortedSegmentJoin", [["a", "b"], ["c", "d"]], tensor("int64", [1, 1]), 2, separator=":")
case("UnsortedSegmentJoin", [["a", "b"], ["c", "d"]], [[0, 1], [1, 0]], 2)
case("UnsortedSegmentJoin", ["", "b", ""], [0, 0, 0], 1, separator=",")
error("UnsortedSegmentJoin", ["a"], [3], 3,
      text="segment_ids are not allowed to exceed num_segments or to have negative values.")
error("UnsortedSegmentJoin", ["a"], [[0]], 1,
      text="Invalid segment_id rank 2 for input with 1 dimension(s)")
error("UnsortedSegmentJoin", "a", 0, 1, text="Segment_id cannot have rank 0")
error("UnsortedSegmentJoin", ["a", "b"], [0], 1,
      text="Segment dimension is 1 while input dimension is 1 in rank 0")

# --- N-grams
ROWS = tensor("int64", [0, 4, 5, 5])
for widths in [[1], [2], [3], [2, 3], []]:
  for pads in [0, 1, -1]:
    case("StringNGrams", ["aa", "bb", "cc", "dd", "ee"], ROWS, separator="|", ngram_widths=widths,
         left_pad="LP", right_pad="RP", pad_width=pads, preserve_short_sequences=False)
case("StringNGrams", ["aa", "bb", "cc", "dd", "ee"], tensor("int32", [0, 4, 5, 5]), separator="|",
     ngram_widths=[3], left_pad="L", right_pad="R", pad_width=0, preserve_short_sequences=True)
case("StringNGrams", tensor("string", []), tensor("int32", [0, 0]), separator="|",
     ngram_widths=[3], left_pad="L", right_pad="R", pad_width=0, preserve_short_sequences=True)
error("StringNGrams", ["aa"], tensor("int32", [0, 2]), separator="|", ngram_widths=[3],
      left_pad="L", right_pad="R", pad_width=0, preserve_short_sequences=True,
      text="Invalid split value 2, must be in [0, 1]")
error("StringNGrams", ["aa"], tensor("int32", [1, 1]), separator="|", ngram_widths=[3],
      left_pad="L", right_pad="R", pad_width=0, preserve_short_sequences=True,
      text="First split value must be 0, got 1")

# --- Numbers, base 64
for dtype in ["float", "double", "int32", "int64", "uint32", "uint64"]:
  case("StringToNumber", ["0", "12", " 7 "], out_type=dtype)
case("StringToNumber", ["-3.25e2", "inf", "-Inf", "nan", "1e-50", "1e50", ".5"])
case("StringToNumber", ["-3", "+4"], out_type="int64")
error("StringToNumber", ["1", "x"], text="StringToNumberOp could not correctly convert string: x")
error("StringToNumber", ["3000000000"], out_type="int32", text="could not correctly convert string")
case("EncodeBase64", ["", "a", "ab", "abc"])
case("EncodeBase64", b"\xff\xfe\xfd")
case("EncodeBase64", ["", "a", "ab", "abc"], pad=True)
case("DecodeBase64", ["", "YQ", "YQ==", "YWI", "YWI=", "YWJj", "__79"])
error("DecodeBase64", ["a b"], text="Invalid character found in base64.")
error("DecodeBase64", ["a"], text="")
