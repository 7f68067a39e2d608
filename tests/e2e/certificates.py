"""Certificates of a test's own, made as server/README.md makes them."""
import subprocess
from typing import NamedTuple

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Issued(NamedTuple):
  """Paths: a certificate and its key."""
  cert: str
  key: str


class Authority:
  """A CA. Attributes: path: of its certificate."""

  def __init__(self, folder, name="ca", parent=None):
    """parent: the Authority that signs its certificate; None: itself."""
    self._folder = folder
    if parent:
      self.path, self._key = parent._sign(folder, name, "basicConstraints=critical,CA:TRUE")
      return
    self.path, self._key = str(folder / (name + ".pem")), str(folder / (name + ".key"))
    _openssl("req", "-x509", *NEW_KEY, "-days", "2", "-subj", "/CN=" + name, "-keyout", self._key,
             "-out", self.path)

  def issue(self, name, hosts="DNS:localhost,IP:127.0.0.1", purpose=None):
    """A certificate for `hosts`. purpose: "serverAuth" or "clientAuth"; None: any."""
    return self._sign(self._folder, name, "subjectAltName=" + hosts,
                      *(["extendedKeyUsage=" + purpose] if purpose else []))

  def _sign(self, folder, name, *extensions):
    issued = Issued(*(str(folder / (name + end)) for end in (".pem", ".key")))
    request = str(folder / (name + ".csr"))
    _openssl("req", *NEW_KEY, "-subj", "/CN=" + name, "-keyout", issued.key, "-out", request,
             *(word for extension in extensions for word in ("-addext", extension)))
    _openssl("x509", "-req", "-in", request, "-CA", self.path, "-CAkey", self._key,
             "-CAcreateserial", "-copy_extensions", "copy", "-days", "2", "-out", issued.cert)
    return issued


def _openssl(*arguments):
  subprocess.run(("openssl", *arguments), check=True, capture_output=True)
