"""How a connection is encrypted."""
from __future__ import annotations

import os
import ssl
from typing import NamedTuple, Optional

import grpc

_ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"  # Of gRPC's.


class Tls(NamedTuple):
  """For connect(…, tls=Tls(…)): files in PEM, which are read when a connection is made.

  Attributes:
    ca: certificates of CAs, of which one must have signed the server's certificate. None: those
      that gRPC brings along, or the file that GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names.
    cert: this client's own certificate, and those that lead to its CA, where the server wants one.
    key: its private key.
  """
  ca: Optional[str] = None
  cert: Optional[str] = None
  key: Optional[str] = None

  def context(self, verify=True) -> ssl.SSLContext:
    """The same for Python's sockets; without `verify` whatever the server's certificate is.

    Where gRPC has the CAs that it brings along, it has the system's.
    """
    context = ssl.create_default_context(cafile=self.ca or os.environ.get(_ROOTS) or None)
    context.set_alpn_protocols(["h2"])
    if not verify:
      context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if self.cert is not None:
      # Else Python would ask for a passphrase on the terminal; gRPC can do nothing with one.
      context.load_cert_chain(self.cert, self.key, password=lambda: "")
    return context


def check(tls, target):
  """Errors: TypeError, ValueError, where `tls` is not what connect takes; OSError, of the file."""
  if tls is None:
    return
  if not isinstance(tls, Tls):
    raise TypeError("tls: expected a formwork.Tls, got %r" % (tls,))
  if (tls.cert is None) != (tls.key is None):
    raise ValueError("tls: cert and key go together, got %r" % (tls,))
  if target.startswith("unix:"):
    raise ValueError("tls: the server's UNIX socket is not encrypted: connect without")
  try:
    tls.context()
  except ssl.SSLError as e:
    raise ValueError("tls: not certificates, or a key that is not the certificate's (%s): %r" % (
        e.reason or e, tls)) from None


def open_channel(api, target, tls, options):
  """A channel of `api`, grpc or grpc.aio. tls: a Tls, or None."""
  if tls is None:
    return api.insecure_channel(target, options)
  ca, cert, key = (_read(path) for path in tls)
  return api.secure_channel(target, grpc.ssl_channel_credentials(ca, key, cert), options)


def _read(path):
  if path is None:
    return None
  with open(path, "rb") as file:
    return file.read()
