"""Images as files. The files are made here, but for those with four inks, which TensorFlow does not
write."""
import base64
import struct
import zlib

import numpy as np
import tensorflow as tf

from generate import case, error, tensor, uniform

RANDOM = np.random.RandomState(5)
BAD = "jpeg::Uncompress failed. Invalid JPEG data or crop window."


def picture(rows, cols, channels=3):
  """Smooth, as what JPEG is made for."""
  steps = RANDOM.randint(-9, 10, (rows, cols, channels))
  return np.clip(np.cumsum(np.cumsum(steps, 0), 1) + 128, 0, 255).astype(np.uint8)


# --- JPEG
IMAGE = picture(21, 35)
JPEG = tf.io.encode_jpeg(IMAGE, quality=80).numpy()
GRAY = tf.io.encode_jpeg(picture(9, 10, 1), quality=60).numpy()
FULL_CHROMA = tf.io.encode_jpeg(IMAGE, quality=70, chroma_downsampling=False).numpy()
PROGRESSIVE = tf.io.encode_jpeg(IMAGE, format="rgb", quality=50, progressive=True).numpy()
CMYK = base64.b64decode(
    "/9j/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYE"
    "pRUk//wAAUCAAFAAYEQxEATREAWREASxEA/8QAFgABAQEAAAAAAAAAAAAAAAAAAwIF/8QAIhAAAQIDCQAAAAAAAAAA"
    "AAAAAAUGAQRRFBYxNDVBcoKi/9oADgRDAE0AWQBLAAA/AJYGnx4jXIS6eTUeGc7At9Jl7PhtQ//Z")
YCCK = base64.b64decode(
    "/9j/7gAOQWRvYmUAZAAAAAAC/9sAQwANCQoLCggNCwoLDg4NDxMgFRMSEhMnHB4XIC4pMTAuKS0sMzpKPjM2RjcsLU"
    "BXQUZMTlJTUjI+WmFaUGBKUVJP/9sAQwEODg4TERMmFRUmTzUtNU9PT09PT09PT09PT09PT09PT09PT09PT09PT09P"
    "T09PT09PT09PT09PT09PT09PT09P/8AAFAgABQAGBAEiAAIRAQMRAQQiAP/EABUAAQEAAAAAAAAAAAAAAAAAAAAD/8"
    "QAHRABAAEDBQAAAAAAAAAAAAAAAAQFBjESFEFRof/EABUBAQEAAAAAAAAAAAAAAAAAAAAE/8QAGhEAAQUBAAAAAAAA"
    "AAAAAAAABAACAxQiAf/aAA4EAQACEQMRBAAAPwCM64JmvPoCkAeKu3KHiw2HZ4o2/SY+3xx0A//Z")

for data in [JPEG, GRAY, FULL_CHROMA, PROGRESSIVE, CMYK, YCCK]:
  for op in ["DecodeJpeg", "DecodePng", "DecodeGif", "DecodeImage"]:
    case(op, data)
  case("ExtractJpegShape", data)
for channels in [1, 3]:
  for data in [JPEG, GRAY, PROGRESSIVE]:
    case("DecodeJpeg", data, channels=channels)
    case("DecodeImage", data, channels=channels, dtype=tf.uint16)
    case("DecodeImage", data, channels=channels, dtype=tf.float32, expand_animations=False)
for ratio in [2, 4, 8]:
  for data in [JPEG, GRAY, PROGRESSIVE]:
    case("DecodeJpeg", data, ratio=ratio)
for dct in ["INTEGER_FAST", "INTEGER_ACCURATE"]:
  for fancy in [False, True]:
    for data in [JPEG, FULL_CHROMA, PROGRESSIVE]:
      case("DecodeJpeg", data, dct_method=dct, fancy_upscaling=fancy)
case("ExtractJpegShape", JPEG, output_type=tf.int64)
for crop in [[0, 0, 21, 35], [3, 5, 10, 12], [16, 17, 5, 18], [0, 20, 1, 1], [20, 34, 1, 1]]:
  for data in [JPEG, FULL_CHROMA, PROGRESSIVE]:
    case("DecodeAndCropJpeg", data, crop)
case("DecodeAndCropJpeg", JPEG, [2, 3, 4, 5], channels=1)
case("DecodeAndCropJpeg", JPEG, [2, 3, 4, 5], ratio=2)
case("DecodeAndCropJpeg", CMYK, [1, 2, 3, 4])
for crop in [[0, 0, 22, 35], [0, 1, 21, 35], [-1, 0, 3, 3], [0, -1, 3, 3], [0, 0, 0, 5],
             [0, 0, 5, 0], [21, 0, 1, 1], [3, 3, -2, 2]]:
  error("DecodeAndCropJpeg", JPEG, crop, text=BAD)
error("DecodeAndCropJpeg", JPEG, [1, 1, 2147483647, 2147483647], code="INVALID_ARGUMENT",
      comment="TensorFlow's sum overflows.", text=BAD)
error("DecodeAndCropJpeg", JPEG, [1, 1, 2], text="crop_size must have four elements [3]")
error("DecodeAndCropJpeg", JPEG, [[1, 1, 2, 2]], text="crop_window must be 1-D, got shape [1,4]")
# Too short: with and without what is missing made up.
for size in [3, 40, 200, 400, 700]:
  error("DecodeJpeg", JPEG[:size], text=BAD)
for size in [700, len(JPEG) - 60, len(JPEG) - 2]:
  case("DecodeJpeg", JPEG[:size], acceptable_fraction=0.0)
# What is made up where more is missing is not the same.
case("DecodeJpeg", JPEG[:-2], try_recover_truncated=True)
error("DecodeJpeg", JPEG[:700], acceptable_fraction=0.9, text=BAD)
error("DecodeJpeg", PROGRESSIVE[:-100], text=BAD)
error("DecodeJpeg", JPEG, channels=4, text="JPEG does not support 4 channels")
error("DecodeJpeg", JPEG, channels=2, text="`channels` must be 0, 1, 3 or 4 but got 2")
error("DecodeJpeg", CMYK, channels=1, text=BAD)
error("DecodeJpeg", JPEG, ratio=3, text="ratio must be 1, 2, 4, or 8, got 3")
error("DecodeJpeg", JPEG, dct_method="FLOAT", text="dct_method must be one of")
error("DecodeJpeg", [JPEG], text="`contents` must be scalar but got shape[1]")
error("DecodeJpeg", b"", text="Input is empty.")
error("DecodeJpeg", b"\xff\xd8\xff", text=BAD)
error("ExtractJpegShape", JPEG[:100], text="Invalid JPEG data, size 100")
error("ExtractJpegShape", b"", text="Invalid JPEG data, size 0")
error("ExtractJpegShape", [JPEG], text="contents must be scalar, got shape [1]")


def of_size(data, rows, cols):
  """`data` with other sizes in its header, baseline or progressive."""
  at = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2")) + 5
  return data[:at] + struct.pack(">HH", rows, cols) + data[at + 4:]


for rows, cols in [(0, 5), (5, 0), (65535, 65535), (65500, 65500)]:
  for data in [JPEG, PROGRESSIVE]:
    error("DecodeJpeg", of_size(data, rows, cols), text=BAD)
case("ExtractJpegShape", of_size(JPEG, 65500, 65500))

for quality in [0, 1, 35, 95, 100]:
  case("EncodeJpeg", uniform([11, 18, 3], 0, 256, 1, "uint8"), quality=quality)
  case("EncodeJpegVariableQuality", uniform([7, 9, 3], 0, 256, 1, "uint8"), quality)
for attrs in [{"format": "rgb"}, {"progressive": True}, {"optimize_size": True},
              {"chroma_downsampling": False}, {"density_unit": "cm", "x_density": 70},
              {"y_density": 70000}, {"xmp_metadata": "abc"}, {"xmp_metadata": "x" * 300},
              {"progressive": True, "optimize_size": True, "chroma_downsampling": False}]:
  case("EncodeJpeg", uniform([17, 10, 3], 0, 256, 2, "uint8"), **attrs)
case("EncodeJpeg", uniform([1, 1, 1], 0, 256, 2, "uint8"))
case("EncodeJpeg", uniform([9, 4, 1], 0, 256, 2, "uint8"), format="grayscale")
case("EncodeJpegVariableQuality", uniform([7, 9, 1], 0, 256, 1, "uint8"), 50)
bytes_of = lambda shape: tensor("uint8", np.zeros(shape))  # pylint: disable=g-long-lambda
error("EncodeJpeg", bytes_of([3, 4]), text="image must be 3-dimensional[3,4]")
error("EncodeJpeg", bytes_of([3, 4, 2]), text="image must have 1 or 3 channels, got [3,4,2]")
error("EncodeJpeg", bytes_of([3, 4, 3]), format="grayscale",
      text="format grayscale expects 1 channels, got [3,4,3]")
error("EncodeJpeg", bytes_of([3, 4, 1]), format="rgb",
      text="format rgb expects 3 channels, got [3,4,1]")
for quality in [-1, 101]:
  error("EncodeJpeg", bytes_of([3, 4, 1]), quality=quality, text="quality must be in [0,100], got ")
  error("EncodeJpegVariableQuality", bytes_of([3, 4, 1]), quality,
        text="quality must be in [0,100], got ")
error("EncodeJpegVariableQuality", bytes_of([3, 4, 1]), [5], text="quality must be scalar: [1]")
OURS = {"code": "INVALID_ARGUMENT", "comment": "TensorFlow says INTERNAL."}
for shape in [[0, 4, 3], [4, 0, 3]]:
  error("EncodeJpeg", bytes_of(shape), text="JPEG encoding failed", **OURS)
error("EncodeJpeg", uniform([1, 65501, 1], 0, 9, 1, "uint8"), text="JPEG encoding failed", **OURS)
error("EncodeJpeg", bytes_of([3, 4, 3]), xmp_metadata="x" * 65600, text="JPEG encoding failed",
      code="INVALID_ARGUMENT", comment="TensorFlow leaves too long metadata out.")


# --- PNG
def png(cols, rows, depth, colors, lines, extra=b"", interlaced=0):
  def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
  head = struct.pack(">IIBBBBB", cols, rows, depth, colors, 0, 0, interlaced)
  return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(lines))
          + chunk(b"IEND", b""))


def some_bytes(n):
  return RANDOM.randint(0, 256, n).astype(np.uint8).tobytes()


def png_chunk(kind, data):
  return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def lines(rows, row_bytes):
  """Rows with no filter."""
  return b"".join(b"\0" + some_bytes(row_bytes) for _ in range(rows))


SAMPLES = {0: 1, 2: 3, 4: 2, 6: 4}
PNGS = {}
for colors, samples in SAMPLES.items():
  for depth in [8, 16]:
    PNGS["%d_%d" % (colors, depth)] = png(5, 4, depth, colors, lines(4, 5 * samples * depth // 8))
PNGS["gray_16_transparent"] = png(4, 2, 16, 0, b"\0\0\5" + b"\0" * 6 + b"\0" + some_bytes(8),
                                  png_chunk(b"tRNS", b"\0\5"))
PNGS["rgb_transparent"] = png(2, 1, 8, 2, b"\0\1\2\3\4\5\6", png_chunk(b"tRNS", b"\0\1\0\2\0\3"))
for depth in [1, 2, 4]:
  PNGS["gray_%d" % depth] = png(8, 3, depth, 0, lines(3, depth))
palette = png_chunk(b"PLTE", some_bytes(3 * 16))
PNGS["palette"] = png(8, 3, 4, 3, lines(3, 4), palette)
PNGS["palette_transparent"] = png(8, 3, 4, 3, lines(3, 4),
                                  palette + png_chunk(b"tRNS", some_bytes(9)))
# Interlaced: the passes of Adam7 of 5x5 pixels of RGB.
PNGS["interlaced"] = png(5, 5, 8, 2, b"".join(
    lines(-(-(5 - y) // dy), -(-(5 - x) // dx) * 3)
    for x, y, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                         (1, 0, 2, 2), (0, 1, 1, 2)]), interlaced=1)
for data in PNGS.values():
  for channels in [0, 1, 3, 4]:
    for dtype in [tf.uint8, tf.uint16]:
      case("DecodePng", data, channels=channels, dtype=dtype)
  case("DecodeImage", data, dtype=tf.float32)
  case("DecodeJpeg", data)
case("DecodeGif", PNGS["0_8"])
case("DecodeImage", PNGS["2_16"])
case("DecodeImage", PNGS["2_8"], dtype=tf.uint16, channels=4)
RGB = PNGS["2_8"]
for size in [8, 20, 33, 40]:
  error("DecodePng", RGB[:size], text="Invalid PNG")
error("DecodePng", RGB[:-20], text="Invalid PNG data, size %d" % (len(RGB) - 20))
error("DecodePng", RGB[:50] + b"\7" + RGB[51:], text="Invalid PNG data, size %d" % len(RGB))
error("DecodePng", RGB, channels=2, text="`channels` must be 0, 1, 3 or 4 but got 2")
error("DecodePng", png(8, 3, 4, 3, lines(3, 4)), text="Invalid PNG")
for cols, rows in [(0, 5), (5, 0), (2**31 - 1, 2**31 - 1), (2**31, 1), (1000001, 1), (1, 1000001)]:
  error("DecodePng", png(cols, rows, 8, 2, b""), text="Invalid PNG. Failed to initialize decoder.")
error("DecodePng", png(30000, 30000, 8, 2, b""), text="PNG size too large for int: 30000 by 30000")
error("DecodePng", png(1000000, 4, 8, 2, b"\0" * 9), text="Invalid PNG data, size 68")
error("DecodeAndCropJpeg", RGB, [0, 0, 1, 1],
      text="DecodeAndCropJpeg operation can run on JPEG only, but detected")

for channels in [1, 2, 3, 4]:
  for dtype in ["uint8", "uint16"]:
    case("EncodePng", uniform([6, 5, channels], 0, 256, 3, dtype))
    case("EncodePng", uniform([2, 3, 4, 5, channels], 0, 256, 3, dtype))
for compression in [0, 1, 5, 9]:
  case("EncodePng", tensor("uint8", picture(40, 31)), compression=compression)
case("EncodePng", bytes_of([0, 2, 3, 3]))
error("EncodePng", bytes_of([3, 4]), text="images must be at least rank 3[3,4]")
error("EncodePng", bytes_of([3, 4, 5]), text="image must have 1, 2, 3, or 4 channels, got 5")
error("EncodePng", bytes_of([3, 4, 0]), text="image must have 1, 2, 3, or 4 channels, got 0")
for compression in [-2, 10]:
  error("EncodePng", bytes_of([3, 4, 3]), compression=compression,
        text="compression should be in [-1,9], got %d" % compression)
for shape in [[0, 4, 3], [2, 4, 0, 3]]:
  error("EncodePng", bytes_of(shape), text="PNG encoding failed", **OURS)


# --- GIF
def gif(cols, rows, frames, colors=b"", trailer=b";"):
  head = struct.pack("<HHBBB", cols, rows, 0xf1 if colors else 0x70, 0, 0)
  return b"GIF89a" + head + colors.ljust(12, b"\0")[:12 if colors else 0] + b"".join(frames) + trailer


def frame(left, top, cols, rows, pixels, transparent=None, colors=b"", interlaced=False):
  """Pixels of 2 bits, one code each; a code that clears comes often enough that codes stay short."""
  control = b"" if transparent is None else bytes([0x21, 0xf9, 4, 1, 0, 0, transparent, 0])
  flags = (0x81 if colors else 0) | (0x40 if interlaced else 0)
  codes = []
  for i, pixel in enumerate(pixels):
    if i % 2 == 0:
      codes.append(4)
    codes.append(int(pixel))
  codes.append(5)
  number = sum(code << 3 * i for i, code in enumerate(codes))
  data = number.to_bytes((3 * len(codes) + 7) // 8, "little")
  blocks = b"".join(bytes([len(data[i:i + 255])]) + data[i:i + 255] for i in range(0, len(data), 255))
  return (control + b"," + struct.pack("<HHHHB", left, top, cols, rows, flags) +
          colors.ljust(12, b"\0")[:12 if colors else 0] + b"\2" + blocks + b"\0")


def pixels_of(n, most=4):
  return RANDOM.randint(0, most, n)


COLORS = some_bytes(12)
OTHERS = some_bytes(12)
FIRST = frame(0, 0, 5, 4, pixels_of(20))
GIFS = [
    gif(5, 4, [FIRST], COLORS),
    gif(5, 4, [FIRST, frame(0, 0, 5, 4, pixels_of(20), transparent=2),
               frame(1, 2, 3, 2, pixels_of(6), colors=OTHERS)], COLORS),
    gif(9, 9, [frame(1, 1, 4, 3, pixels_of(12), transparent=1), FIRST], COLORS),  # A larger screen.
    gif(5, 9, [frame(0, 0, 5, 9, pixels_of(45), interlaced=True)], COLORS),
    gif(2, 2, [frame(3, 0, 4, 4, pixels_of(16)), FIRST], COLORS),  # Beyond the screen.
    gif(5, 4, [b"\x21\xfe\3abc\0", FIRST], COLORS),
    gif(5, 4, [FIRST], COLORS, trailer=b""),
    gif(5, 4, [FIRST, FIRST[:-8]], COLORS, trailer=b""),
]
for data in GIFS:
  case("DecodeGif", data)
  for dtype in [tf.uint8, tf.uint16, tf.float32]:
    case("DecodeImage", data, dtype=dtype)
  case("DecodeImage", data, expand_animations=False, channels=3)
case("DecodePng", GIFS[0])
case("DecodeJpeg", GIFS[3], channels=3)
error("DecodePng", GIFS[1], text="Got 3 frames, but animated gifs can only be decoded by")
error("DecodeImage", GIFS[0], channels=1, text="channels must be 0 or 3 for GIF, got 1")
error("DecodeImage", GIFS[0], channels=4, text="channels must be 0 or 3 for GIF, got 4")
error("DecodeGif", b"GIF8", text="Invalid GIF data (size 4), failed to open gif file: Failed to read")
error("DecodeGif", b"GIF89a", text="failed to open gif file: No screen descriptor detected")
error("DecodeGif", gif(5, 4, [], COLORS), text="failed to slurp gif file: ")
error("DecodeGif", gif(5, 4, [FIRST[:-8]], COLORS, trailer=b""), text="failed to slurp gif file: ")
error("DecodeGif", gif(5, 4, [FIRST]), text="missing color map for frame 0")
case("DecodeGif", gif(5, 4, [FIRST, frame(0, 0, 0, 4, [])], COLORS))
error("DecodeGif", gif(5, 4, [frame(0, 0, 0, 4, [])], COLORS), text="failed to slurp gif file: ")


# --- BMP
def bmp(cols, rows, bits, offset=54, data=None):
  if data is None:
    data = some_bytes((cols * (bits // 8) + 3) // 4 * 4 * abs(rows))
  return (b"BM" + struct.pack("<IHHI", 54 + len(data), 0, 0, offset & 0xffffffff) +
          struct.pack("<IiiHHIIiiII", 40, cols, rows, 1, bits, 0, len(data), 0, 0, 0, 0) + data)


for bits in [8, 24, 32]:
  for rows in [-3, 3]:  # Of the first, in other dtypes, TensorFlow dies.
    data = bmp(5, rows, bits)
    for channels in [0, 3, 4]:
      case("DecodeBmp", data, channels=channels)
    case("DecodeImage", data)
  case("DecodeImage", data, dtype=tf.float32, channels=4)
  case("DecodeImage", data, dtype=tf.uint16)
BMP = bmp(3, 2, 24)
case("DecodeBmp", bmp(3, 2, 24, 60, b"123456" + some_bytes(24)))
error("DecodeBmp", BMP, channels=1, text="`channels` must be 0, 3 or 4 for BMP, but got 1")
error("DecodeBmp", BMP[:31], text="Incomplete bmp content, requires at least 32 bytes to find")
error("DecodeBmp", bmp(3, 2, 16), text="Number of channels inherent in the image must be 1, 3 or 4")
error("DecodeBmp", bmp(0, 2, 24), text="Width must be positive")
error("DecodeBmp", bmp(3, 0, 24), text="Height must be nonzero")
error("DecodeBmp", bmp(3, 2, 24, -1), text="header size must be nonnegative")
for data in [BMP[:40], BMP[:-1], BMP + b"x", bmp(3, 2, 24, 53), bmp(3, 2, 24, 2**31 - 1)]:
  error("DecodeBmp", data, text="Input size should match (header_size + row_size * abs_height) but")
for cols, rows in [(2**31 - 1, 2), (60000, 60000), (100, -2**31), (2**31 - 1, -2**31)]:
  error("DecodeBmp", bmp(cols, rows, 32, data=b"1"), text="Total possible pixel bytes must be less")
for op in ["DecodeJpeg", "DecodePng", "DecodeGif"]:
  error(op, BMP, text="Trying to decode BMP format using a wrong op. Use `decode_bmp` or "
        "`decode_image` instead. Op used: " + op)
error("DecodeBmp", JPEG, text="Trying to decode JPEG format using DecodeBmp op. Use `decode_jpeg` or")
error("DecodeBmp", RGB, text="Trying to decode PNG format using DecodeBmp op. Use `decode_png` or")
error("DecodeBmp", GIFS[0], text="Trying to decode GIF format using DecodeBmp op. Use `decode_gif`")
error("DecodeImage", b"text", text="Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP,")
