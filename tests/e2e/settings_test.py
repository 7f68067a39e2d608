"""Traced programs give the same under other settings of the server as under TensorFlow."""
import sys

import server_process

sys.path.insert(0, str(server_process.ROOT / "tests/python"))

import formwork
import keras
import numpy as np
import pytest
import tensorflow as tf

from agreement import assert_agree
import programs
import programs_guide
import programs_keras

# Of each kind one or two: gradients, retracing, state made in calls, loops, layers, training.
PROGRAMS = ["tape_outside", "tape_outside_a_loop", "retraces", "structures", "composites",
            "methods", "closures", "created_in_the_first_call", "variables_as_arguments",
            "autograph", "refusals", "loops", "rnn_by_hand", "gradients_through_a_loop", "cnn",
            "recurrent"]

SETTINGS = {
    "one_thread": ["--threads", "1", "--call-threads", "1"],
    "many_threads": ["--threads", "8", "--call-threads", "64"],
    # Less than any program has: each trace drives the one before out.
    "one_function": ["--max-functions", "1"],
    "little_memory": ["--memory-limit-bytes", "32M"],
    "short_queue": ["--max-queued-calls", "1"],
    "unix_socket": [],
}


@pytest.fixture(scope="module", params=SETTINGS)
def target(request, tmp_path_factory):
  flags = list(SETTINGS[request.param])
  path = None
  if request.param == "unix_socket":
    path = str(tmp_path_factory.mktemp("socket") / "s")
    flags += ["--unix-socket", path]
  with server_process.running(*flags) as server:
    yield "unix:" + path if path else server.grpc


def outcome(run, function):
  keras.backend.clear_session()
  keras.utils.set_random_seed(11)
  return run(function)


@pytest.fixture(scope="module")
def wanted():
  """name -> what TensorFlow computes."""
  known = {}

  def get(name):
    if name not in known:
      known[name] = outcome(programs.PROGRAMS[name], tf.function)
    return known[name]

  return get


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_agrees(target, wanted, name):
  want = wanted(name)
  with formwork.connect(target, namespace=name, timeout=60) as server:
    assert_agree(outcome(programs.PROGRAMS[name], server.function), want)


def test_what_does_not_fit_into_the_memory_is_refused_by_name_and_the_rest_goes_on():
  with server_process.running("--memory-limit-bytes", "32M") as made, \
      formwork.connect(made.grpc, timeout=60) as server:
    kept = server.variable("kept", initial_value=np.float32([1, 2]))

    @server.function
    def grow(n):
      return tf.reduce_sum(tf.exp(tf.fill([n], 1.)))

    assert grow(tf.constant(1000)).numpy() == pytest.approx(2718.28, rel=1e-4)
    with pytest.raises(formwork.Error) as e:
      grow(tf.constant(1 << 28))
    assert e.value.code == "RESOURCE_EXHAUSTED"
    with pytest.raises(formwork.Error) as e:
      server.variable("large", initial_value=np.zeros([16 << 20], np.float32))
    assert e.value.code == "RESOURCE_EXHAUSTED"
    assert grow(tf.constant(1000)).numpy() == pytest.approx(2718.28, rel=1e-4)
    assert kept.read().tolist() == [1, 2]
    assert [v.name for v in server.variables()] == ["kept"]
