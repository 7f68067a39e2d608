"""HTTP/2 by hand: what no client library would send."""
import contextlib
import socket
import sys
import threading
import time

SERVICE = "/formwork.v1.GraphService/"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 6, 7, 8, 9)
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags=0, payload=b"", stream=0):
  head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
  return head + payload


GREETING = PREFACE + frame(SETTINGS)


def _integer(value, bits):
  most = (1 << bits) - 1
  if value < most:
    return bytes([value])
  made, value = [most], value - most
  while value > 127:
    made.append(value & 127 | 128)
    value >>= 7
  return bytes(made + [value])


def header(name, value):
  """HPACK: a literal that is not indexed, with a new name."""
  return b"\0" + _integer(len(name), 7) + name + _integer(len(value), 7) + value


def request_headers(method, *more):
  """The header block of a request of a method of the service."""
  return b"".join(header(*one) for one in (
      (b":method", b"POST"), (b":scheme", b"http"), (b":path", (SERVICE + method).encode()),
      (b":authority", b"x"), (b"content-type", b"application/grpc"), (b"te", b"trailers"), *more))


def message(data, length=None):
  """gRPC's framing; `length`: another one than it has."""
  return b"\0" + (len(data) if length is None else length).to_bytes(4, "big") + data


def connect(address, timeout=20):
  host, port = address.rsplit(":", 1)
  return socket.create_connection((host, int(port)), timeout=timeout)


@contextlib.contextmanager
def connections(address, count, first=b""):
  """`count` connections that have sent `first`; those that the server closes are among them."""
  with contextlib.ExitStack() as stack:
    peers = []
    for _ in range(count):
      peers.append(stack.enter_context(connect(address)))
      with contextlib.suppress(OSError):
        peers[-1].sendall(first)
    yield peers


def send(peer, data):
  """Whether it could be sent: a peer that misbehaves may be cut off."""
  try:
    peer.sendall(data)
    return True
  except OSError:
    return False


def _discard(peer):
  try:
    while peer.recv(1 << 16):
      pass
  except OSError:
    pass


def flood(address, kind, streams):
  """That many calls, each reset at once or without a message. Where the server closes a connection,
  the rest goes over another."""
  block = request_headers("Call")
  if kind == "resets":
    frames = lambda stream: frame(HEADERS, END_HEADERS, block, stream) + \
        frame(RST_STREAM, 0, (8).to_bytes(4, "big"), stream)
  else:
    frames = lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, block, stream)
  while streams > 0:
    with connect(address) as peer:
      send(peer, GREETING)
      time.sleep(0.1)
      send(peer, frame(SETTINGS, 1))  # The server's are taken.
      threading.Thread(target=_discard, args=[peer], daemon=True).start()
      for first in range(1, 2 * streams, 200):
        if not send(peer, b"".join(frames(stream) for stream in range(first, first + 200, 2))):
          break
        streams -= 100


if __name__ == "__main__":
  flood(sys.argv[1], sys.argv[2], int(sys.argv[3]))
