"""Strings as the bytes of elements."""
from generate import case, error, tensor

BYTES = bytes(range(1, 33))
PADDED = ["float", "double", "int32", "uint16", "uint8", "int16", "int8", "int64", "bfloat16"]

for dtype in PADDED + ["half", "complex64", "complex128", "bool"]:
  for little_endian in [True, False]:
    case("DecodeRaw", [BYTES, BYTES[::-1]], out_type=dtype.replace("half", "float16").replace(
        "double", "float64"), little_endian=little_endian)
case("DecodeRaw", b"abcd", out_type="int16")
case("DecodeRaw", [[b"", b""]], out_type="int32")
case("DecodeRaw", tensor("string", [], shape=[0, 2]), out_type="int32")
error("DecodeRaw", [b"abc", b"ab"], out_type="uint8",
      text="DecodeRaw requires input strings to all be the same size, but element 1 has size 3 != 2")
error("DecodeRaw", [b"abc"], out_type="int16",
      text="Input to DecodeRaw has length 3 that is not a multiple of 2, the size of int16")

for dtype in PADDED:
  for little_endian in [True, False]:
    case("DecodePaddedRaw", [BYTES, b"", b"abc", BYTES[:9]], 16, little_endian=little_endian,
         out_type=dtype.replace("half", "float16").replace("double", "float64"))
case("DecodePaddedRaw", b"abcd", 4, out_type="int32")
case("DecodePaddedRaw", tensor("string", [], shape=[2, 0]), 4, out_type="int32")
error("DecodePaddedRaw", [b"ab"], 3, out_type="int16", text="fixed_length (3) must be a multiple")
error("DecodePaddedRaw", [b"ab"], 0, out_type="int16", text="fixed_length (0) must be greater")
error("DecodePaddedRaw", [b"ab"], [2], out_type="int16", text="k must be scalar, got shape [1]")
