"""Why there is no connection: what a socket can tell that gRPC's errors do not."""
import os
import socket
import ssl

from formwork import tls as tls_lib

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4  # The type of the frame that every HTTP/2 server begins with.
_TLS_RECORDS = (0x15, 0x16)  # Alert, handshake.
_UNKNOWN_HOST = tuple(getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA")
                      if hasattr(socket, name))


def why_not(target, timeout, tls=None):
  """(text, certain) of what keeps gRPC from `target`, or None where nothing is found.

  tls: a tls.Tls, or None. certain: waiting will not help. Takes at most about four times `timeout`
  seconds.
  """
  if target.startswith("unix:"):
    path = target[len("unix:"):]
    return None if os.path.exists(path) else ("there is no socket %s" % path, False)
  if target.startswith(("http://", "https://", "grpc://", "grpcs://", "tcp://")):
    return 'expected "host:port" or "unix:/path", without "%s"' % (
        target[:target.index("://") + 3]), True
  if "://" in target or target.startswith(("dns:", "ipv4:", "ipv6:", "unix-abstract:", "vsock:")):
    return None
  host, _, port = target.rpartition(":")
  if not host or not port.isdigit() or not 0 < int(port) < 65536:
    return 'expected "host:port" or "unix:/path"', True
  if any(os.environ.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy")):
    return None
  address = host.strip("[]"), int(port)
  try:
    socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
  except socket.gaierror as e:
    return "the host name '%s' is not known (%s)" % (address[0], e.strerror), (
        e.errno in _UNKNOWN_HOST)
  except UnicodeError:
    return "'%s' is no host name" % address[0], True
  try:
    answer = _first_bytes(address, timeout)
  except ConnectionRefusedError:
    return "connection refused: nothing listens there", False
  except OSError as e:
    return "no connection: %s" % (e.strerror or e), False
  if answer[:1] and answer[0] in _TLS_RECORDS or not answer and _speaks_tls(address, timeout):
    if tls is None:
      return "the server speaks TLS: connect with tls=formwork.Tls(ca=…)", True
    return _why_no_tls(address, timeout, tls)
  if answer.startswith((b"HTTP/1", b"<!DOCTYPE", b"<html")):
    return "it is an HTTP server, not gRPC: is this the server's HTTP port?", True
  if len(answer) >= 9 and answer[3] == _SETTINGS:
    return tls and ("the server does not speak TLS: connect without tls", True)
  if not answer:
    return None
  return "it does not speak gRPC: its first bytes are %r" % answer[:24], True


def _first_bytes(address, timeout):
  """What comes back when an HTTP/2 client begins; empty if nothing does."""
  with socket.create_connection(address, timeout) as connection:
    try:
      connection.sendall(_PREFACE)
      return connection.recv(64)
    except OSError:
      return b""


def _speaks_tls(address, timeout):
  try:
    with socket.create_connection(address, timeout) as connection:
      with tls_lib.Tls().context(verify=False).wrap_socket(connection):
        return True
  except OSError:
    return False


def _why_no_tls(address, timeout, tls):
  context, shaken = tls.context(), False
  try:
    with socket.create_connection(address, timeout) as connection:
      with context.wrap_socket(connection, server_hostname=address[0]) as encrypted:
        shaken = True
        if encrypted.recv(1):  # The server begins.
          return None
  except ssl.SSLCertVerificationError as e:
    return "the server's certificate is not accepted: %s" % e.verify_message, True
  except (socket.timeout, ConnectionRefusedError):
    return None
  except OSError:
    pass
  # Before the handshake's end a balancer, too, closes connections, while no server is behind it.
  return "the server ends the connection: %s" % (
      "does it want a client certificate, tls=formwork.Tls(cert=…, key=…)?" if tls.cert is None
      else "it seems not to accept the client certificate"), shaken
