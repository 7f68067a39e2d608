"""Requests that are sent again: who sends them, when, and what they say then.

A client numbers its requests that change something. The server does each of them once: one that is
sent again, because its answer was lost, gets the answer that it had.
"""
import itertools
import random
import threading
import time
import uuid

from formwork import errors
from formwork import wire

# Fields of every request that is numbered.
_SEQUENCE, _ACKNOWLEDGED = b"\x18", b"\x88\x01"
_EXPECTED_EPOCH, _FIRST_SENT_MS_AGO = b"\x20", b"\x90\x01"
_CALL_TIMEOUT = b"\x52"

# What grpc says where there was no connection to send a request on.
_NEVER_SENT = ("failed to connect to all addresses", "connections to all backends failing")


class Origin:
  """Who sends requests, and how many that change something. Safe to use from many threads.

  Attributes:
    client_id: as no other client's.
  """

  def __init__(self):
    self.client_id = uuid.uuid4().hex
    self._numbers = itertools.count(1)
    self._head = b"\x12" + wire.varint(len(self.client_id)) + self.client_id.encode() + _SEQUENCE
    self._lock = threading.Lock()
    self._open = {}  # The numbers that may be sent again, ascending.

  def begin(self):
    """(the next number, the last one that is done with, as all before it are)."""
    with self._lock:
      number = next(self._numbers)
      self._open[number] = None
      return number, next(iter(self._open)) - 1

  def end(self, number):
    """The request of this number will not be sent again."""
    with self._lock:
      self._open.pop(number, None)

  def sign(self, message):
    """Returns the message's number, which is to end."""
    message.client_id = self.client_id
    message.sequence, acknowledged = self.begin()
    if is_done_once(message):
      message.acknowledged = acknowledged
    return message.sequence

  def encoded(self):
    """(the next number, which is to end; the fields of a CallRequest that have it)."""
    number, acknowledged = self.begin()
    return number, b"".join((self._head, wire.varint(number), _ACKNOWLEDGED,
                             wire.varint(acknowledged)))


def is_done_once(message):
  """Whether the server remembers what it answers such a request."""
  return "first_sent_ms_ago" in message.DESCRIPTOR.fields_by_name


class Attempts:
  """The attempts at one request, until its deadline or for as long as the connection allows."""

  _FIRST, _LONGEST = 0.02, 1.0  # Seconds between two of them.

  def __init__(self, channel, timeout, remembered=True):
    """
    channel: with epoch and retry_for.
    timeout: of all attempts together, in seconds.
    remembered: whether it must not be done twice; else it does no harm.
    """
    self._started = self._sent = time.monotonic()
    self._timeout = timeout
    self._end = self._started + min(channel.retry_for, timeout)
    self._epoch = channel.epoch
    self._remembered = remembered
    self._pause = self._FIRST
    # Of the first attempt that the server may have got: when it was sent, and how it failed.
    self._lost_at, self._lost = 0.0, None

  def left(self):
    """Seconds that the next attempt has; begins it."""
    self._sent = time.monotonic()
    return self._timeout - (self._sent - self._started)

  def is_about(self, error):
    """Whether an error that a call was answered with, or None, is one of sending it."""
    return error is not None and (error.code == "UNAVAILABLE" or self._is_other_life(error))

  def _is_other_life(self, error):
    return self._lost and self._remembered and error.reason == "EPOCH_MISMATCH"

  def failed(self, error):
    """Seconds to wait before the next attempt. Errors: `error`, where there is to be none."""
    if self._is_other_life(error):
      raise self._restarted(error) from None
    if error.code != "UNAVAILABLE" or error.effects in ("some", "all"):
      raise error from None
    if self._lost is None and error.effects != "none" and not error.message.startswith(
        _NEVER_SENT):
      self._lost_at, self._lost = self._sent, error
    if self._remembered and self._lost and not self._epoch:
      raise error from None  # Whether the server is the same could not be told.
    pause = max(self._pause * random.uniform(0.5, 1), min(error.retry_after or 0, self._LONGEST))
    self._pause = min(2 * self._pause, self._LONGEST)
    if time.monotonic() + pause >= self._end:
      raise error from None
    return pause

  def _restarted(self, error):
    made = errors.Error(
        self._lost.code, "%s; the server was restarted before it was asked again, so that whether "
        "the request took effect is not known" % self._lost.message)
    made.epoch = error.epoch
    return made

  def _first_sent_ms_ago(self):
    return int((time.monotonic() - self._lost_at) * 1000) + 1

  def mark(self, message):
    """Has a message say that it is sent again, where the server may have got it before."""
    if self._lost and self._remembered:
      message.expected_epoch = self._epoch
      message.first_sent_ms_ago = self._first_sent_ms_ago()

  def marked(self, data, left):
    """The same for a serialized CallRequest, whose timeout becomes `left`."""
    if self._lost:
      data = b"".join((data, _EXPECTED_EPOCH, wire.varint(self._epoch), _FIRST_SENT_MS_AGO,
                       wire.varint(self._first_sent_ms_ago())))
    return data + wire.duration_field(_CALL_TIMEOUT, left)
