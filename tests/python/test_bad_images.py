"""Image files that are damaged, or claim to be huge: an error in time, and the server goes on."""
import struct
import time
import zlib

import numpy as np
import pytest
import tensorflow as tf

_STEPS = np.random.default_rng(3).integers(-9, 10, (24, 31, 3))
_PICTURE = np.clip(_STEPS.cumsum(0).cumsum(1) + 128, 0, 255).astype(np.uint8)
IN_TIME = 30  # Seconds, on a machine that is busy with other things.


def _jpeg(**attrs):
  return tf.io.encode_jpeg(_PICTURE, format="rgb", **attrs).numpy()


def _of_size(jpeg, rows, cols):
  at = max(jpeg.find(b"\xff\xc0"), jpeg.find(b"\xff\xc2")) + 5
  return jpeg[:at] + struct.pack(">HH", rows, cols) + jpeg[at + 4:]


def _png(cols, rows, data, kind=None, extra=b""):
  def chunk(name, content):
    return (struct.pack(">I", len(content)) + name + content +
            struct.pack(">I", zlib.crc32(name + content)))
  head = struct.pack(">IIBBBBB", cols, rows, 8, 2, 0, 0, 0)
  return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + (chunk(kind, extra) if kind else b"") +
          chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


# A frame of three codes: clear, a pixel, end.
_GIF = b"GIF89a\1\0\1\0\xf0\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;"


def _large_gif():
  return (_GIF[:6] + struct.pack("<HH", 65535, 65535) + _GIF[10:24] +
          struct.pack("<HH", 65535, 65535) + _GIF[28:])


def _webp(cols, rows, flags=0, content=b""):
  """Extended, and of these sizes, whatever its content says."""
  head = struct.pack("<I", flags) + struct.pack("<I", cols - 1)[:3] + struct.pack("<I", rows - 1)[:3]
  chunks = b"WEBPVP8X" + struct.pack("<I", 10) + head + content
  return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


def _plain_webp(cols, rows):
  """Lossless, of one colour: 34 bytes for any size."""
  sizes = struct.pack("<I", cols - 1 | rows - 1 << 14)
  data = b"\x2f" + sizes + b"\xe8\x41\x0f\x7a\xd0\x83\x1e\0\0"
  return b"VP8L" + struct.pack("<I", len(data)) + data


def _webp_frame(cols, rows):
  sizes = struct.pack("<I", cols - 1)[:3] + struct.pack("<I", rows - 1)[:3]
  data = b"\0" * 6 + sizes + b"\x28\0\0\2" + _plain_webp(cols, rows)
  return b"ANMF" + struct.pack("<I", len(data)) + data


_ANIM = b"ANIM" + struct.pack("<I", 6) + b"\0" * 6


@pytest.fixture
def decode(live):
  return live.function(tf.function(
      lambda file: tf.io.decode_image(file), input_signature=[tf.TensorSpec([], tf.string)]))


@pytest.mark.parametrize("file", [
    _of_size(_jpeg(), 65500, 8000), _of_size(_jpeg(progressive=True), 65500, 8000),
    _of_size(_jpeg(progressive=True), 65500, 65500), _png(1000000, 500, b"\0" * 100),
    _large_gif(), _webp(1 << 24, 255, 0x10, b"ALPH" + b"\0" * 4),
    _webp(1 << 24, 255, 0x12, _ANIM + _webp_frame(1, 1)),
    _webp(8000, 8000, 0x12, _ANIM + 4000 * _webp_frame(1, 1))],
    ids=["jpeg", "progressive", "larger", "png", "gif", "webp", "animation", "frames"])
def test_a_file_that_claims_to_be_huge(decode, file):
  start = time.monotonic()
  with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError)):
    decode(tf.constant(file))
  assert time.monotonic() - start < IN_TIME
  assert decode(tf.constant(_GIF)).shape == [1, 1, 1, 3]


@pytest.mark.parametrize("kind, head", [(b"zTXt", b"a\0\0"), (b"iCCP", b"a\0\0")])
def test_a_text_that_swells(decode, kind, head):
  file = _png(1, 1, b"\0abc", kind, head + zlib.compress(b"x" * 50_000_000))
  assert decode(tf.constant(file)).numpy().tobytes() == b"abc"


def test_an_animation_without_alpha(decode):
  """TensorFlow writes beyond its result."""
  images = decode(tf.constant(_webp(3, 2, 2, _ANIM + _webp_frame(3, 2)))).numpy()
  assert images.shape == (1, 2, 3, 4)
  assert (images == 7).all()


def test_files_with_wrong_bytes(decode):
  random = np.random.default_rng(7)
  files = [_jpeg(), _jpeg(progressive=True), tf.io.encode_png(_PICTURE).numpy(), _GIF,
           b"BM" + struct.pack("<IHHIIiiHHIIiiII", 66, 0, 0, 54, 40, 1, 3, 1, 24, 0, 12, 0, 0, 0, 0) +
           bytes(12), _webp(16, 9, 0, _plain_webp(16, 9)),
           _webp(16, 9, 0x12, _ANIM + _webp_frame(16, 9) + _webp_frame(2, 2))]
  ends = {"decoded": 0, "refused": 0}
  for i in range(400):
    file = bytearray(files[i % len(files)])
    for _ in range(random.integers(0, 6)):
      file[random.integers(len(file))] = random.integers(256)
    if i % 3 == 0:
      file = file[:random.integers(len(file) + 1)]
    try:
      decode(tf.constant(bytes(file)))
      ends["decoded"] += 1
    except (tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError,
            tf.errors.UnimplementedError):
      ends["refused"] += 1
  assert min(ends.values()) > 20


def test_places_outside_of_an_image(live):
  """TensorFlow ends its process."""
  @live.function
  def spread(places):
    return tf.raw_ops.MaxPoolGradWithArgmax(
        input=tf.zeros([1, 2, 2, 1]), grad=tf.ones([1, 1, 1, 1]), argmax=places,
        ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
  assert spread(tf.constant([[[[3]]]], tf.int64)).numpy().ravel().tolist() == [0, 0, 0, 1]
  for wrong in (-1, 4, 2**62, -2**63):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid output gradient index"):
      spread(tf.constant([[[[wrong]]]], tf.int64))


def test_a_histogram_refuses_nan_and_takes_what_is_endless(live):
  count = live.function(tf.function(
      lambda values, bounds: tf.histogram_fixed_width(values, bounds, 3),
      input_signature=[tf.TensorSpec([None]), tf.TensorSpec([2])]))
  nan, inf = float("nan"), float("inf")
  with pytest.raises(tf.errors.InvalidArgumentError, match="Histogram values must not contain NaN"):
    count(tf.constant([nan, 1., nan]), tf.constant([0., 2.]))
  # TensorFlow itself dies of these.
  assert list(count(tf.constant([1., inf]), tf.constant([0., inf]))) == [2, 0, 0]
  assert list(count(tf.constant([1., inf]), tf.constant([-inf, 3.]))) == [2, 0, 0]
