"""WebP: files of libwebp's cwebp, and animations made of them."""
import base64
import struct

import numpy as np
import tensorflow as tf

from generate import case, error

PICTURE = np.zeros([2, 3, 3], np.uint8)
GIF = b"GIF89a\1\0\1\0\xf0\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;"
WEBPS = {name: base64.b64decode(text) for name, text in {
    "lossy": "UklGRi4AAABXRUJQVlA4ICIAAADQAQCdASoJAAcABABoJZQC7AD0uZ8CwAD7j6sXhoWQ4AAA",
    "lossless": (
        "UklGRl4AAABXRUJQVlA4TFIAAAAvCIABAImM6H8sIqL/ATNt21wO0PKHsXEgk7aNQfNM5xS0bSPnpN3n0Lwgm7SZ"
        "k7R/7F8QEpCwkaAChNgqCEhCaQsFKAixCXUA2oIEkiBsvU8C"),
    "lossy_alpha": (
        "UklGRooAAABXRUJQVlA4WAoAAAAQAAAABQAABAAAQUxQSA8AAAABEAgko2+eRkQE3jQMTz4AVlA4IFQAAAAwAgCd"
        "ASoGAAUABABoJbACdDVAPSABOolxQAD9jVeqn+mH6UkmTYZwDogDjn/H/LK2sRumXnw3D8nEl8fZK5jCvp7DHfJh"
        "edcLyK1HnmJtK1YAAAA="),
    "lossy_plain_alpha": (
        "UklGRpgAAABXRUJQVlA4WAoAAAAQAAAABQAABAAAQUxQSB8AAAAA////gID/gP//AID/////gP////+AgP//AP+A"
        "gAD/AFZQOCBSAAAAUAIAnQEqBgAFAAQAaCWwAnQ1QD0gAWOL6nsAAP2NV6qf6YfqnvU9bzogDjn/H/LK2sRumXnw"
        "3D8nEl8fZK5jCvp7DHfJhedcLyK1HnmJtK1YAA=="),
    "lossless_alpha": (
        "UklGRkgAAABXRUJQVlA4TDwAAAAvBQABEB8gJCAMk/yfYJiQgJDNN8g2gQAhzH+ADhECgqLnTA/Aep8FitpIgbPv"
        "vfCDFYIWiOh/fBrHqTU="),
    "small": "UklGRiYAAABXRUJQVlA4TBkAAAAvAkAAEAoCSZsmC7b+ofZzLeSj6Pc/SPsCAA==",
    "small_lossy": (
        "UklGRlQAAABXRUJQVlA4WAoAAAAQAAAAAgAAAQAAQUxQSAcAAAAA//8A//8AAFZQOCAmAAAAkAEAnQEqAwACAAVA"
        "fCWMAnR/AByAAP7gv0tD9EZxVebmkj5mgAA="),
}.items()}
WEBP, WEBP_ALPHA = WEBPS["lossy"], WEBPS["lossy_alpha"]
WEBP_FAILED = "Failed to decode WebP image."
ALPHA, ANIMATED = 0x10, 2


def webp_chunk(kind, data):
  return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def extended_webp(cols, rows, flags, *chunks):
  sizes = struct.pack("<I", cols - 1)[:3] + struct.pack("<I", rows - 1)[:3]
  content = b"WEBP" + webp_chunk(b"VP8X", struct.pack("<I", flags) + sizes) + b"".join(chunks)
  return webp_chunk(b"RIFF", content)


def webp_frame(left, top, cols, rows, name, blend=True, dispose=False):
  data = WEBPS[name]
  data = data[30 if data[12:16] == b"VP8X" else 12:]
  head = b"".join(struct.pack("<I", x)[:3] for x in (left // 2, top // 2, cols - 1, rows - 1, 40))
  return webp_chunk(b"ANMF", head + bytes([(0 if blend else 2) + dispose]) + data)


def animation(*frames, flags=ALPHA | ANIMATED):
  return extended_webp(6, 5, flags, webp_chunk(b"ANIM", b"\3\2\1\xff\0\0"), *frames)


for data in WEBPS.values():
  case("DecodeWebP", data)
  case("DecodeImage", data)
  case("DecodeImage", data, expand_animations=False)
case("DecodeWebP", WEBP, channels=3)
case("DecodeWebP", WEBP_ALPHA, channels=4)
case("DecodeImage", WEBP_ALPHA, channels=4, expand_animations=False)
case("DecodeGif", WEBP)
case("DecodeWebP", extended_webp(9, 7, ALPHA, WEBP[12:]))  # Without what it says of alpha.
case("DecodeWebP", extended_webp(9, 7, 0, webp_chunk(b"ICCP", b"abc"), WEBP[12:],
                                 webp_chunk(b"EXIF", b"defg")))
case("DecodeWebP", WEBP + b"more")
FRAMES = [webp_frame(0, 0, 6, 5, "lossless_alpha"), webp_frame(2, 2, 3, 2, "small"),
          webp_frame(0, 0, 6, 5, "lossy_alpha", dispose=True),
          webp_frame(2, 0, 3, 2, "small_lossy", blend=False),
          webp_frame(0, 2, 3, 2, "small", dispose=True), webp_frame(2, 2, 3, 2, "small_lossy"),
          webp_frame(0, 0, 6, 5, "lossy_plain_alpha", blend=False)]
for frames in [FRAMES, FRAMES[1:], FRAMES[3:4]]:
  data = animation(*frames)
  case("DecodeWebP", data)
  case("DecodeWebP", data, channels=4)
  case("DecodeImage", data)
  case("DecodeImage", data, expand_animations=False)
error("DecodeWebP", WEBP, channels=1, text="WebP only supports 3 or 4 channels")
error("DecodeWebP", WEBP, channels=2, text="`channels` must be 0, 1, 3 or 4 but got 2")
for dtype in [tf.uint16, tf.float32]:
  error("DecodeImage", WEBP, dtype=dtype, text="WebP only supports uint8 for dtype")
error("DecodeWebP", [WEBP], text="`contents` must be scalar but got shape[1]")
error("DecodeWebP", b"", text="Input is empty.")
for data in [b"RIFF", WEBP[:12], WEBP[:8] + b"WEBQ" + WEBP[12:]]:
  error("DecodeWebP", data, text="Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP,")
for data, channels in [(WEBP, 4), (WEBP_ALPHA, 3), (animation(*FRAMES), 3)]:
  error("DecodeWebP", data, channels=channels,
        text="Number of channels requested does not match input")
error("DecodeGif", WEBP_ALPHA, text="Number of channels requested does not match input")
error("DecodeWebP", animation(*FRAMES, flags=ANIMATED), channels=3,
      text="WebP Animation must be 4 channel RGBA")
for size in [13, 25, 29]:
  error("DecodeWebP", WEBP[:size], text="Failed to decode WebP header.")
error("DecodeWebP", extended_webp(2**16, 2**16, 0, WEBP[12:]), text="Failed to decode WebP header.")
for data in [WEBP, WEBP_ALPHA, WEBPS["lossless"]]:
  for size in [40, len(data) - 12, len(data) - 1]:
    error("DecodeWebP", data[:size], text=WEBP_FAILED)
for name, at in [("lossless", 25), ("lossless_alpha", 27), ("lossy", 20), ("lossy_alpha", 38)]:
  data = WEBPS[name]
  error("DecodeWebP", data[:at] + b"\xff" + data[at + 1:], text="Failed to decode WebP ")
# What the header says is there, and no image.
error("DecodeWebP", extended_webp(2**24, 255, ALPHA, webp_chunk(b"ALPH", b"\0")), text=WEBP_FAILED)
ANIMATION_FAILED = "Failed to decode WebP Animation: failed to decode "
for data in [animation(*FRAMES)[:-2], animation(), animation(*FRAMES)[:60],
             animation(webp_frame(2, 0, 6, 5, "lossless_alpha"))]:
  error("DecodeWebP", data, text=ANIMATION_FAILED + "WebP Animation")
data = animation(*FRAMES)
at = data.rfind(b"VP8 ") + 12
error("DecodeWebP", data[:at] + b"\xff" * 20 + data[at + 20:], text=ANIMATION_FAILED)
at = data.find(b"VP8L") + 13
error("DecodeWebP", data[:at] + b"\xff" * 20 + data[at + 20:], text=ANIMATION_FAILED + "frame: 0")
for op in ["DecodeJpeg", "DecodePng", "DecodeBmp"]:
  error(op, WEBP, text="Trying to decode WebP format using a wrong op. Use `decode_webp` or "
        "`decode_image` instead. Op used: " + op, code="INVALID_ARGUMENT",
        comment="TensorFlow gives four dimensions where the op says three.")
error("DecodeAndCropJpeg", WEBP, [0, 0, 1, 1], code="INVALID_ARGUMENT",
      text="DecodeAndCropJpeg operation can run on JPEG only, but detected",
      comment="TensorFlow decodes all of it.")
for name, data in [("JPEG", tf.io.encode_jpeg(PICTURE).numpy()),
                   ("PNG", tf.io.encode_png(PICTURE).numpy())]:
  error("DecodeWebP", data, text="Trying to decode %s format using a wrong op." % name,
        code="INVALID_ARGUMENT",
        comment="TensorFlow gives three dimensions where the op says four.")
error("DecodeWebP", b"BM", text="Trying to decode BMP format using a wrong op. Use `decode_bmp` or "
      "`decode_image` instead. Op used: DecodeWebP")
error("DecodeWebP", GIF, text="Bad op type DecodeWebP")
