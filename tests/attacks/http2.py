"""HTTP/2 by hand: what no client library would send."""
import contextlib
import socket

import server_process

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 6, 7, 8, 9)
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags=0, payload=b"", stream=0):
  return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


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
  path = method if method.startswith("/") else server_process.SERVICE + method
  return b"".join(header(*one) for one in (
      (b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()),
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
