"""When requests are sent again, and what they say then."""
import threading
import types

import pytest

import formwork
from formwork import attempts
from formwork.v1 import calls_pb2
from formwork.v1 import variables_pb2


def channel(retry_for=5, epoch=7):
  return types.SimpleNamespace(retry_for=retry_for, epoch=epoch)


def error(code="UNAVAILABLE", effects="unknown", message="Socket closed", reason=""):
  made = formwork.Error(code, message)
  made.effects, made.reason = effects, reason
  return made


def test_what_is_answered_is_acknowledged():
  origin = attempts.Origin()
  numbers = [origin.begin() for _ in range(3)]
  assert numbers == [(1, 0), (2, 0), (3, 0)]
  origin.end(2)
  assert origin.begin() == (4, 0)
  origin.end(1)
  assert origin.begin() == (5, 2)
  for number in (3, 4, 5):
    origin.end(number)
  assert origin.begin() == (6, 5)


def test_numbers_of_many_threads_are_each_given_once():
  origin, given = attempts.Origin(), []

  def work():
    for _ in range(500):
      number, acknowledged = origin.begin()
      given.append((number, acknowledged))
      origin.end(number)

  threads = [threading.Thread(target=work) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert sorted(number for number, _ in given) == list(range(1, 2001))
  assert all(acknowledged < number for number, acknowledged in given)
  assert origin.begin() == (2001, 2000)


def test_the_fields_of_a_call_are_those_of_its_message():
  origin = attempts.Origin()
  number, fields = origin.encoded()
  call = calls_pb2.CallRequest.FromString(fields)
  assert (call.client_id, call.sequence, call.acknowledged) == (origin.client_id, number, 0)
  origin.end(number)
  message = variables_pb2.DeleteVariableRequest()
  origin.sign(message)
  assert (message.client_id, message.sequence, message.acknowledged) == (origin.client_id, 2, 1)


def test_a_request_whose_answer_was_lost_says_that_it_is_sent_again():
  sent = attempts.Attempts(channel(), 60)
  sent.left()
  assert 0 < sent.failed(error()) < 1
  call = calls_pb2.CallRequest.FromString(sent.marked(b"", 12.5))
  assert call.expected_epoch == 7 and 1 <= call.first_sent_ms_ago < 5000
  assert call.timeout.ToMilliseconds() == 12500
  message = variables_pb2.DeleteVariableRequest()
  sent.mark(message)
  assert message.expected_epoch == 7 and message.first_sent_ms_ago >= 1


@pytest.mark.parametrize("failure", [
    error(effects="none"), error(message="failed to connect to all addresses; last error: ...")])
def test_one_that_the_server_has_not_got_or_not_done_is_sent_as_if_for_the_first_time(failure):
  sent = attempts.Attempts(channel(epoch=0), 60)
  sent.left()
  sent.failed(failure)
  assert calls_pb2.CallRequest.FromString(sent.marked(b"", 1)).first_sent_ms_ago == 0


@pytest.mark.parametrize("failure, settings", [
    (error("INVALID_ARGUMENT"), {}), (error("DEADLINE_EXCEEDED"), {}), (error("CANCELLED"), {}),
    (error(effects="some"), {}), (error(), {"retry_for": 0}),
    (error(), {"epoch": 0})])  # Whether the server is the same could not be told.
def test_others_are_not_sent_again(failure, settings):
  sent = attempts.Attempts(channel(**settings), 60)
  sent.left()
  with pytest.raises(formwork.Error) as e:
    sent.failed(failure)
  assert e.value is failure


def test_reads_are_sent_again_whatever_the_epoch():
  sent = attempts.Attempts(channel(epoch=0), 60, remembered=False)
  sent.left()
  sent.failed(error())
  message = variables_pb2.ReadVariablesRequest()
  sent.mark(message)
  assert not message.expected_epoch


def test_another_life_of_the_server_is_told():
  sent = attempts.Attempts(channel(), 60)
  sent.left()
  mismatch = error("FAILED_PRECONDITION", "none", "other", "EPOCH_MISMATCH")
  assert not sent.is_about(mismatch)
  sent.failed(error())
  assert sent.is_about(mismatch)
  with pytest.raises(formwork.Error, match="not known") as e:
    sent.failed(mismatch)
  assert (e.value.code, e.value.reason) == ("UNAVAILABLE", "")


def test_attempts_end_with_the_deadline():
  sent = attempts.Attempts(channel(), 0.1)
  sent.left()
  with pytest.raises(formwork.Error):
    for _ in range(10):
      assert sent.failed(error()) < 0.1
