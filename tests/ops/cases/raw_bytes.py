"""Strings as the bytes of elements, and compressed ones."""
import gzip
import zlib

from generate import case, error, tensor, zeros

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

for dtype in ["float", "double", "half", "bfloat16", "int8", "uint16", "int32", "int64", "uint64", "bool", "complex64",
              "complex128", "string"]:
  case("SerializeTensor", tensor(dtype, ["ab", "", "\x00"]) if dtype == "string" else tensor(dtype, [1, 0, 3]))
case("SerializeTensor", 3.0)
case("SerializeTensor", zeros([0, 200]))
case("SerializeTensor", tensor("string", []))
FLOATS = b"\x08\x01\x12\x04\x12\x02\x08\x03"
case("ParseTensor", FLOATS + b"\x22\x0c" + b"\x00\x00\x80?" * 3, out_type="float")
# Elements one by one, packed and not, of which the last stands for the rest; more than there are; none.
case("ParseTensor", FLOATS + b"\x2a\x08\x00\x00\x80?\x00\x00\x00@", out_type="float")
case("ParseTensor", FLOATS + b"\x2d\x00\x00\x80?\x2d\x00\x00\x00@", out_type="float")
case("ParseTensor", FLOATS + b"\x2a\x10" + b"\x00\x00\x80?" * 4, out_type="float")
case("ParseTensor", FLOATS, out_type="float")
case("ParseTensor", b"\x08\x01\x12\x00", out_type="float")
case("ParseTensor", b"\x08\x03\x12\x04\x12\x02\x08\x02:\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02", out_type="int32")
case("ParseTensor", b"\x08\x09\x12\x04\x12\x02\x08\x02P\x07", out_type="int64")
case("ParseTensor", b"\x08\x13\x12\x04\x12\x02\x08\x02\x6a\x03\x80x\x01", out_type="half")
case("ParseTensor", b"\x08\x0a\x12\x04\x12\x02\x08\x02\x5a\x02\x05\x00", out_type="bool")
case("ParseTensor", b"\x08\x08\x12\x00J\x08\x00\x00\x80?\x00\x00\x00@", out_type="complex64")
case("ParseTensor", b"\x08\x07\x12\x04\x12\x02\x08\x03B\x02ab\x42\x00", out_type="string")
case("ParseTensor", b"\x08\x07\x12\x04\x12\x02\x08\x02\x22\x05\x02\x01xyz", out_type="string")
error("ParseTensor", FLOATS, out_type="double", text="Type mismatch between parsed tensor (float) and dtype (double)")
error("ParseTensor", ["a"], out_type="float", text="Expected `serialized` to be a scalar, got shape: [1]")
error("ParseTensor", b"xx", out_type="float", text="Cannot parse tensor from proto")
error("ParseTensor", FLOATS + b"\x22\x04aaaa", out_type="float", text="Cannot parse tensor from proto")
error("ParseTensor", FLOATS + b"\x22\x7f", out_type="float", text="Cannot parse tensor from proto")
error("ParseTensor", b"\x08\x01\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", out_type="float",
      text="Cannot parse tensor from proto")

# --- DecodeCompressed
TEXT = b"some text, some text, \x00\xff and some text"
ZIPPED = gzip.compress(TEXT, mtime=0)
case("DecodeCompressed", [[TEXT, b""]])
for made, kind in [(zlib.compress(TEXT), "ZLIB"), (ZIPPED, "GZIP")]:
  case("DecodeCompressed", made, compression_type=kind)
  case("DecodeCompressed", [[made, b""], [made, made]], compression_type=kind)
  case("DecodeCompressed", made[:20], compression_type=kind)
  case("DecodeCompressed", tensor("string", [], [0, 2]), compression_type=kind)
  error("DecodeCompressed", TEXT, compression_type=kind, code="DATA_LOSS",
        text="incorrect header check")
  damaged = made[:-5] + bytes([made[-5] ^ 1]) + made[-4:]
  error("DecodeCompressed", damaged, compression_type=kind, code="DATA_LOSS", text="inflate() failed")
case("DecodeCompressed", zlib.compress(bytes(100000)), compression_type="ZLIB")
case("DecodeCompressed", ZIPPED + ZIPPED, compression_type="GZIP")
error("DecodeCompressed", TEXT, compression_type="LZ4",
      text="Only ZLIB, ZSTD, GZIP or NONE are supported compressions")
error("DecodeCompressed", TEXT, compression_type="ZSTD", code="UNIMPLEMENTED", text="ZSTD")
