from generate import case, error, tensor

INF = float("inf")
NAN = float("nan")

for dtype in ["float", "double", "half", "bfloat16"]:
  case("CheckNumerics", tensor(dtype, [[1, -2.5], [0, 3]]), message="m")
  error("CheckNumerics", tensor(dtype, [1, NAN]), message="m", text="m : Tensor had NaN values")
  error("CheckNumerics", tensor(dtype, [-INF, 1]), message="m", text="m : Tensor had Inf values")
  error("CheckNumerics", tensor(dtype, [NAN, INF]), message="m",
        text="m : Tensor had Inf and NaN values")
  error("CheckNumericsV2", tensor(dtype, [-INF, 1]), message="m",
        text="m : Tensor had -Inf values")
case("CheckNumerics", tensor("float", [], [0]), message="m")
error("CheckNumericsV2", [NAN, INF, -INF], message="m",
      text="m : Tensor had -Inf, +Inf, and NaN values")
error("CheckNumericsV2", [NAN, INF], message="m", text="m : Tensor had +Inf and NaN values")

error("Assert", False, ["msg", 1.5], text="assertion failed: [msg] [1.5]")
error("Assert", False, [["a\n", "b", "c", "d"]], text="assertion failed: [a\\n b c...]")
error("Assert", False, [[[0, 1, 2], [3, 4, 5]]], text="assertion failed: [[0 1 2]...]")
error("Assert", False, [[[0, 1, 2], [3, 4, 5]]], summarize=5,
      text="assertion failed: [[0 1 2][3 4...]...]")
error("Assert", False, [[[0, 1, 2], [3, 4, 5]]], summarize=-1,
      text="assertion failed: [[0 1 2][3 4 5]]")
error("Assert", False, [[[0, 1, 2], [3, 4, 5]]], summarize=0, text="assertion failed: [...]")
error("Assert", False, [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]], summarize=3,
      text="assertion failed: [[[0 1][2...]]...]")
error("Assert", False, [tensor("float", [], [0, 2]), [True, False]],
      text="assertion failed: [] [1 0]")
error("Assert", False, [7], summarize=0, text="assertion failed: [...]")
error("Assert", [True], ["m"], text="In[0] should be a scalar: [1]")
error("PrintV2", ["a"], text="Input is expected to be scalar, but got [1]")
error("PrintV2", "a", output_stream="foo", text="Unknown output stream: foo")

case("Timestamp", values=False)

for dtype in ["float", "double", "half", "bfloat16", "int8", "uint16", "int32", "int64", "uint64"]:
  case("ScalarSummary", ["a", "b"], tensor(dtype, [1, 0]))
  case("HistogramSummary", "h", tensor(dtype, [[1, 2, 0], [3, 3, 100]]))
case("ScalarSummary", "a", 1.5)
case("ScalarSummary", ["a"], [NAN])
error("ScalarSummary", "a", [1.0, 2.0], text="tags and values are not the same shape: [] != [2]")
case("HistogramSummary", "h", [1.0, 2.0, -3.0, 0.0, 1e6, -1e-13, 1e30, -3.4e38])
case("HistogramSummary", "h", tensor("float", []))
case("HistogramSummary", "", 0.0)
error("HistogramSummary", ["h"], [1.0], text="tags must be scalar")
error("HistogramSummary", "h", [1.0, NAN], text="Nan in summary histogram for: case")
error("HistogramSummary", "h", [1.0, -INF], text="Infinity in Histogram for: case")
A, B = b"\x0a\x08\x0a\x01a\x15\x00\x00\x80?", b"\x0a\x08\x0a\x01b\x15\x00\x00\x80?"
case("MergeSummary", [A, [[B, b""]]])
case("MergeSummary", [b""])
error("MergeSummary", [A, [B, A]], text="Duplicate tag a found in summary inputs ")
error("MergeSummary", [A[:-1]], text="Could not parse one of the summary inputs")
