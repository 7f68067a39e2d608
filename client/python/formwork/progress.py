"""How far a request has got that moves much between the server's memory and its files."""
from formwork import errors
from formwork import resources
from formwork.v1 import server_pb2

LOOK_EVERY = 0.05  # Seconds.
LOOK_TIMEOUT = 1  # Seconds for the answer to how far it is.


class Watch:
  """What the `progress` of a request is told while its answer is awaited; a context manager.

  The channel asks the server each LOOK_EVERY seconds, and hands the answer to take().

  Attributes:
    question: the request that asks how far it is.
  """

  def __init__(self, server, progress, kind, path=""):
    """
    progress: a callable that is given (bytes done, bytes in all); True: a bar of tqdm's.
    kind: of the Transfer. path: the checkpoint's.
    """
    self.question = resources.info_request(server)
    self._kind = server_pb2.Transfer.Kind.Value(kind)
    self._path = path
    self._done = self._total = 0
    self._bar = None
    if progress is True:
      self._bar = _tqdm()(total=0, unit="B", unit_scale=True, unit_divisor=1024,
                          desc=path or "snapshot")
      progress = self._show
    elif not callable(progress):
      raise errors.invalid("progress: expected a callable or True, got %r" % (progress,))
    self._tell = progress

  def __enter__(self):
    return self

  def __exit__(self, *unused):
    if self._bar is not None:
      self._bar.close()

  def take(self, answer):
    """A GetServerInfoResponse, while the request is under way."""
    for transfer in answer.transfers:
      if transfer.kind == self._kind and transfer.path == self._path and transfer.total_bytes:
        self._total = transfer.total_bytes
        self._done = max(self._done, min(transfer.bytes, self._total))
        self._tell(self._done, self._total)
        return

  def end(self, nbytes):
    """The request has succeeded, and moved so many bytes."""
    total = self._total or nbytes
    self._tell(total, total)

  def _show(self, done, total):
    self._bar.total = total
    self._bar.update(done - self._bar.n)
    self._bar.refresh()


def _tqdm():
  try:
    from tqdm import auto
  except ImportError:
    raise errors.invalid(
        "progress: True shows a bar of tqdm's, which is not installed (pip install tqdm); "
        "a callable is given (bytes done, bytes in all)") from None
  return auto.tqdm


def watched(server, progress, kind, path, request, nbytes):
  """The operation (resources.py) of a request that `progress` is told of; None: nothing is.

  request: (method, message, timeout). nbytes: of its answer, how many it has moved.
  """
  if progress is None or progress is False:
    return (yield ("request", *request))
  with Watch(server, progress, kind, path) as watch:
    answer = yield ("request", *request, watch)
    watch.end(nbytes(answer))
  return answer
