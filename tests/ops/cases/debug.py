from generate import case, error, tensor, uniform, zeros

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

I = "ImageSummary"


def color(dtype, values):
  import tensorflow as tf
  return tf.make_tensor_proto(tensor(dtype, values).array)


for channels in [1, 3, 4]:
  case(I, "a", uniform([2, 3, 5, channels], 0, 256, seed=4, dtype="uint8"))
  for dtype in ["float", "double", "half"]:
    case(I, "a", tensor(dtype, uniform([1, 4, 3, channels], 0, 3, seed=5).array))
    case(I, "a/b", tensor(dtype, uniform([4, 3, 3, channels], -2, 1, seed=6).array))
    case(I, "a", tensor(dtype, uniform([4, 2, 2, channels], -1, 2, seed=7).array), max_images=1)
for dtype in ["float", "double", "half"]:
  case(I, "", tensor(dtype, [1, NAN, 3, INF, -INF, 2, 0, .5], [1, 2, 4, 1]), max_images=9)
  case(I, "a", tensor(dtype, [1, NAN, 3, 2, 3, 4], [1, 1, 2, 3]), bad_color=color("uint8", [9, 8, 7]))
  case(I, "a", tensor(dtype, [NAN] * 4, [1, 2, 2, 1]))
  case(I, "a", tensor(dtype, [0] * 4, [1, 2, 2, 1]))
case(I, "a", zeros([0, 2, 2, 3]))
case(I, "a", zeros([1, 1, 1, 3], "uint8"), bad_color=color("uint8", [1]))
error(I, ["a"], zeros([1, 2, 2, 3]), text="Tags must be a scalar")
error(I, ["a", "b"], zeros([1, 2, 2, 3]), text="Tags must be a scalar")
error(I, "a", zeros([2, 2, 3]), text="Tensor must be 4-D with last dim 1, 3, or 4, not [2,2,3]")
error(I, "a", zeros([1, 2, 2, 2]), text="Tensor must be 4-D with last dim 1, 3, or 4, not [1,2,2,2]")
error(I, "a", zeros([1, 2**15, 2**14, 0]), text="Tensor must be 4-D with last dim 1, 3, or 4")
error(I, "a", zeros([0, 2**15, 2**14, 1]), text="Tensor too large for summary [0,32768,16384,1]")
for shape in [[1, 0, 2, 3], [1, 2, 0, 1]]:
  error(I, "a", zeros(shape), text="input tensor must have non-zero dims. Found: [1, ")
error(I, "a", zeros([1, 2, 2, 3]), max_images=2**31, text="max_images must be < 2^31")
error(I, "a", zeros([1, 2, 2, 3]), bad_color=color("uint8", [1, 2]),
      text="expected depth <= bad_color.size, got depth = 3, bad_color.size = 2")
error(I, "a", zeros([1, 2, 2, 3]), bad_color=color("int32", [1, 2, 3]),
      text="bad_color must be uint8, got int32")
error(I, "a", zeros([1, 2, 2, 3]), bad_color=color("uint8", 3),
      text="bad_color must be a vector, got shape []")

T = "TensorSummaryV2"
for value in [[1.0, 2.0], "a", ["a", "b"], [True], zeros([2, 2]), zeros([0]), tensor("half", [1])]:
  case(T, "t", value, b"")
  case("TensorSummary", value, description="d", labels=["x"], display_name="n")
case(T, "", [1], b"\x0a\x05\x0a\x03abc\x12\x02zz\x1a\x01q")
case(T, "t", [1], b"\xff\xff", comment="What describes it is no message.")
error(T, ["t"], [1], b"", text="tag must be scalar")
error(T, "t", [1], [b""], text="serialized_summary_metadata must be scalar")
