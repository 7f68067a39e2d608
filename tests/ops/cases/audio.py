"""Sound as WAV files."""
import struct

from generate import case, error, tensor, uniform


def wav(samples, channels=1, rate=16000, size=16, code=1, bits=16, frame=None, second=None,
        before=b"", behind=b""):
  frame = 2 * channels if frame is None else frame
  second = rate * frame if second is None else second
  form = struct.pack("<HHIIHH", code, channels, rate, second, frame, bits) + bytes(size - 16)
  data = struct.pack("<%dh" % len(samples), *samples)
  body = (b"WAVE" + before + b"fmt " + struct.pack("<I", size) + form + b"data" +
          struct.pack("<I", len(data)) + data + behind)
  return b"RIFF" + struct.pack("<I", len(body)) + body


def chunk(name, content):
  return name + struct.pack("<I", len(content)) + content


EDGES = [0, 1, -1, 32767, -32768, 12345]
case("DecodeWav", wav(EDGES))
case("DecodeWav", wav(EDGES, channels=2, rate=44100))
case("DecodeWav", wav(EDGES, channels=2), desired_channels=1)
case("DecodeWav", wav(EDGES, channels=2), desired_channels=4, desired_samples=5)
case("DecodeWav", wav(EDGES), desired_samples=2)
case("DecodeWav", wav(EDGES), desired_samples=0)
case("DecodeWav", wav(EDGES), desired_channels=0)
case("DecodeWav", wav([]))
case("DecodeWav", wav(EDGES, size=18))
case("DecodeWav", wav(EDGES, before=chunk(b"JUNK", b"abc")))
case("DecodeWav", wav(EDGES, behind=chunk(b"LIST", b"abcd")))
case("DecodeWav", wav(EDGES, behind=b"LIST" + struct.pack("<I", 100)))
case("EncodeWav", [[0.0, 0.5], [-0.5, 1.0], [-1.0, 2.0], [-3.0, -1e-4]], 8000)
case("EncodeWav", [[1.6 / 32768, 2.5 / 32768, -2.5 / 32768]], 44100)
case("EncodeWav", uniform([50, 3], -1.5, 1.5), 1)

error("DecodeWav", b"", text="Data too short")
error("DecodeWav", b"RIFX" + wav(EDGES)[4:], text="Header mismatch: Expected RIFF but found RIFX")
error("DecodeWav", wav(EDGES)[:-1], text="Data too short")
error("DecodeWav", wav(EDGES)[:30], text="Data too short")
error("DecodeWav", wav(EDGES)[:36], text="No data chunk found")
error("DecodeWav", wav(EDGES, before=chunk(b"what", b"")), text="Unexpected field what")
error("DecodeWav", wav(EDGES, size=20), text="Bad format chunk size for WAV")
error("DecodeWav", wav(EDGES, code=3), text="Bad audio format for WAV")
error("DecodeWav", wav(EDGES, channels=0), text="Bad number of channels")
error("DecodeWav", wav(EDGES, bits=8), text="Can only read 16-bit WAV files, but received 8")
error("DecodeWav", wav(EDGES, frame=3), text="Bad bytes per sample in WAV header: Expected 2")
error("DecodeWav", wav(EDGES, second=7), text="Bad bytes per second in WAV header")
error("DecodeWav", wav(EDGES, rate=4000000000, second=3705032704), text="Expected 8000000000")
error("DecodeWav", wav(EDGES, behind=chunk(b"data", b"")), text="More than one data chunk")
error("DecodeWav", wav(EDGES, behind=b"data" + struct.pack("<I", 1 << 31)), text="is too large")
error("DecodeWav", [wav(EDGES)], text="contents must be scalar")
error("EncodeWav", [0.5], 8000, text="audio must be 2-dimensional")
error("EncodeWav", [[0.5]], [8000], text="sample_rate")
error("EncodeWav", [[0.5]], 0, text="sample_rate must be in (0, 2^32), got: 0")
error("EncodeWav", tensor("float", [], shape=[4, 0]), 8000, text="num_channels must be in (0, 2^16)")

A = "AudioSummaryV2"
NAN = float("nan")
case(A, "t", [[0.0, 0.5, -1.0, 1.0, 2.0, NAN]], 8000.0)
case(A, "t", [[[0.0, 0.5], [-1.0, 1.0]]], 44100.5, max_outputs=1)
case(A, "t", [[0.0, 0.5], [0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], [8000.0])
case(A, "", uniform([1, 2, 300]), 1.0)
case(A, "t", tensor("float", [], shape=[1, 0]), 8000.0)
case(A, "t", tensor("float", [], shape=[0, 3]), 8000.0)
error(A, ["t"], [[0.0]], 8000.0, text="Tag must be a scalar")
error(A, "t", [0.0], 8000.0, text="Tensor must be 3-D or 2-D, got: [1]")
error(A, "t", [[0.0]], 0.0, text="sample_rate must be > 0")
error(A, "t", [[0.0]], NAN, text="sample_rate must be > 0", code="INVALID_ARGUMENT")
error(A, "t", tensor("float", [], shape=[1, 4, 0]), 8000.0, text="num_channels must be in (0, 2^16)", code="INVALID_ARGUMENT")
