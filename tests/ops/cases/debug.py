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
