"""server.function in the place of tf.function."""
import copy
import math
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import conftest
import inferred_shapes
import programs
import programs_arguments  # This one and the others add to the programs.
import programs_composites
import programs_data
import programs_gradients
import programs_guide
import programs_higher_order
import programs_images
import programs_keras
import programs_layers
import programs_linalg
import programs_of_arrays
import programs_of_math
import programs_of_texts
import programs_queues
import programs_references
import programs_state
import programs_training
import programs_tutorials
from agreement import assert_agree
from agreement import printed


def _outcome(run, function):
  keras.backend.clear_session(free_memory=False)  # A collection after each takes a third of the time.
  keras.utils.set_random_seed(11)
  return run(function)


@pytest.fixture(scope="module")
def shapes():
  """What compares shapes; None where its program is not built."""
  server = conftest.find_server()
  if server is None or not (server.parent / "formwork_infer_shapes").exists():
    yield None
    return
  made = inferred_shapes.ShapeInference(server.parent)
  yield made
  made.close()


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_program_agrees(live, shapes, name, capfd):
  run = programs.PROGRAMS[name]
  with inferred_shapes.traced() as graphs:
    want = _outcome(run, tf.function)
  want_printed = printed(capfd)
  try:
    got = _outcome(run, live.function)
  except tf.errors.UnimplementedError as e:
    if "which a function of a dataset cannot on a device" not in str(e):
      raise
    pytest.skip("a function of a dataset uses a variable, which is not there on a device")
  assert_agree(got, want)
  assert printed(capfd) == want_printed
  if shapes is not None:
    for graph in graphs:
      shapes.check(graph)


def test_exceptions_of_inferred_shapes_are_met(shapes):
  if shapes is None or shapes.graphs < 3000:
    pytest.skip("not all programs have been compared")
  assert shapes.tensors > 80000
  assert set(shapes.excepted) == {*inferred_shapes.CONTRADICTS, *inferred_shapes.KNOWS_LESS}


# Ops that neither a program has nor a case of tests/ops, by the reason. formwork_draw_ops
# (tests/fuzz) runs those of them that have kernels.
ELSEWHERE = {
    "make or remove what functions capture: test_tables.py, test_iterators.py, test_lookup.py": """
        AnonymousHashTable AnonymousIterator AnonymousIteratorV2 AnonymousMutableDenseHashTable
        AnonymousMutableHashTable AnonymousMutableHashTableOfTensors DeleteIterator
        DestroyResourceOp DisableCopyOnRead HashTableV2 InitializeTableFromTextFileV2
        InitializeTableV2 Iterator MutableDenseHashTableV2 MutableHashTableOfTensorsV2
        MutableHashTableV2 VarHandleOp""",
    "files of the server's folder, which TensorFlow does not see: tests/e2e": """
        CSVDataset CSVDatasetV2 FixedLengthRecordDataset FixedLengthRecordDatasetV2 MatchingFiles
        MergeV2Checkpoints ReadFile RestoreV2 SaveV2 SnapshotDatasetV2 TFRecordDataset
        TFRecordDatasetV2 TextLineDataset""",
    "TensorFlow has no kernel on the CPU: test_fourier.py": "FFTND IFFTND IRFFTND RFFTND",
    "the call's client runs it: test_python_functions.py": "EagerPyFunc PyFunc PyFuncStateless",
    "other names of what programs have, or of what is passed on as it is": """
        BatchDataset CacheDataset FinalizeDataset GroupByReducerDataset IteratorGetNextSync
        MaxIntraOpParallelismDataset ModelDataset OptimizeDatasetV2 ParallelBatchDataset
        ParallelFilterDataset ParallelInterleaveDatasetV2 ParallelInterleaveDatasetV3
        ParallelMapDataset PrivateThreadPoolDataset ShuffleAndRepeatDatasetV2 ShuffleDataset
        UnwrapDatasetVariant WrapDatasetVariant""",
    "test_python_functions.py has from_generator": "GeneratorDataset",
    "test_gradients.py": "SymbolicGradient",
    "their handles are references, which functions cannot have: test_older_graphs.py": """
        Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize
        BarrierTakeMany FIFOQueue PaddingFIFOQueue PriorityQueue QueueClose QueueDequeue
        QueueDequeueMany QueueDequeueUpTo QueueEnqueue QueueEnqueueMany QueueIsClosed QueueSize
        RandomShuffleQueue""",
    "tests/unit/mutex_test.cc": "ConsumeMutexLock MutexLock MutexV2",
    "no function of TensorFlow's makes it on the CPU, or its result is no case's": """
        AssertCardinalityDataset RngSkip StatelessRandomGetAlg TensorListPushBackBatch""",
}


def test_every_op_is_in_a_program_or_a_case(shapes):
  if shapes is None or shapes.graphs < 3000:
    pytest.skip("not all programs have been compared")
  root = pathlib.Path(__file__).resolve().parents[2]
  ops = set(re.findall(r"^\| (\w+) \|", (root / "core/ops/TABLE.md").read_text(), re.M)) - {"op"}
  tested = {op for path in (root / "tests/ops").glob("*.optest")
            for op in re.findall(r"^op (\w+)", path.read_text(), re.M)}
  assert ops - tested - shapes.ops == set(" ".join(ELSEWHERE.values()).split())


def test_what_was_printed_comes_to_this_process(live, capfd):
  @live.function
  def f(x):
    for i in tf.range(2):
      tf.print("step", i, x)
    return x

  f(tf.constant([1, 2]))
  assert capfd.readouterr().err == "step 0 [1 2]\nstep 1 [1 2]\n"


def test_a_call_takes_arrays_and_tensors_alike(fake, server):
  @server.function
  def f(x, k):
    return x * k

  for _ in range(3):
    assert f(np.ones([2], np.float32), 3).numpy().tolist() == [3, 3]
    assert f(tf.ones([2]), 3).numpy().tolist() == [3, 3]
  assert f.experimental_get_tracing_count() == 1
  assert f(tf.ones([2]), 4).numpy().tolist() == [4, 4]
  assert f(tf.ones([2]), 3).numpy().tolist() == [3, 3]
  assert f.experimental_get_tracing_count() == 2
  assert [r.retrace for r in fake.log if type(r).__name__ == "RegisterRequest"] == [False, True]


def test_an_existing_tf_function_is_taken_over(server):
  @tf.function(input_signature=[tf.TensorSpec([None])])
  def f(x):
    return x * 2

  g = server.function(f)
  assert g([1., 2.]).numpy().tolist() == [2, 4] and g(tf.ones([3])).shape == [3]
  assert g.experimental_get_tracing_count() == 1 and g.python_function is f.python_function


def test_functions_of_one_name_are_kept_apart(server):
  def make(k):
    @server.function
    def f(x):
      return x + k
    return f

  one, two = make(1), make(2)
  x = tf.constant(1)
  assert [one(x).numpy(), two(x).numpy(), one(x).numpy()] == [2, 3, 2]
  assert [f.name for f in server.functions()] == ["f", "f_1"]


def test_a_function_has_the_name_that_it_is_given(server):
  @server.function(name="predict", scope="model")
  def f(x):
    return x + 1

  for function in f, copy.deepcopy(f), server.function(f.python_function, name="other"):
    assert function(tf.constant(1)).numpy() == 2
  assert [g.name for g in server.functions()] == ["model/predict", "model/predict_1", "other"]


def test_an_early_trace_can_be_called_by_others(server):
  @server.function(scope="model")
  def predict(x):
    return x + 1

  predict.get_concrete_function(tf.TensorSpec([None], tf.int32))
  assert server.call("model/predict", [np.array([1, 2], np.int32)])[0].tolist() == [2, 3]


def test_lost_functions_come_back(fake, server):
  v = tf.Variable([1., 2.], name="v")
  f, pure = server.function(v.assign_add), server.function(lambda x: x * 2)
  assert f(tf.ones([2])).numpy().tolist() == [2, 3]
  fake.evict()
  assert f(tf.ones([2])).numpy().tolist() == [3, 4]
  assert fake.methods()[-4:] == ["Call", "ListVariables", "Register", "Call"]
  assert pure(1.).numpy() == 2
  fake.restart()
  assert pure(2.).numpy() == 4


def test_calls_are_atomic_where_their_function_is(fake, server):
  plain = server.function(lambda x: x + 1)
  atomic = server.function(lambda x: x + 2, atomic=True)
  for _ in range(2):  # The second time without TensorFlow's dispatch.
    plain(tf.constant(1.))
    atomic(tf.constant(1.))
    atomic.with_timeout(5)(tf.constant(1.))
    copy.deepcopy(atomic)(tf.constant(1.))
  assert [r.atomic for r in fake.log if type(r).__name__ == "CallRequest"] == (
      [False, True, True, True] * 2)


def test_calls_are_relaxed_where_their_function_is(fake, server):
  relaxed = server.function(lambda x: x + 2, relaxed=True)
  relaxed(tf.constant(1.))
  relaxed.with_timeout(5)(tf.constant(1.))
  copy.deepcopy(relaxed)(tf.constant(1.))
  server.function(lambda x: x + 3)(tf.constant(1.))
  assert [r.relaxed for r in fake.log if type(r).__name__ == "CallRequest"] == (
      [True, True, True, False])


def test_an_atomic_function_that_raises_changes_nothing(live):
  v, w = tf.Variable(1.), tf.Variable(1.)

  def add(x):
    v.assign_add(x)
    tf.debugging.assert_positive(x)
    w.assign_add(x)

  atomic, plain = live.function(add, atomic=True), live.function(add)
  atomic(tf.constant(1.))
  with pytest.raises(tf.errors.InvalidArgumentError) as error:
    atomic(tf.constant(-5.))
  assert error.value.effects == "none" and (v.numpy(), w.numpy()) == (2, 2)
  with pytest.raises(tf.errors.InvalidArgumentError):
    plain(tf.constant(-5.))
  assert (v.numpy(), w.numpy()) == (-3, 2)


def test_calls_have_the_timeout_that_they_are_given(fake, server):
  def timeouts():
    return [r.timeout.seconds + r.timeout.nanos / 1e9 for r in fake.log
            if type(r).__name__ == "CallRequest"]

  plain = server.function(lambda x: x + 1)
  limited = server.function(lambda x: x + 2, timeout=7)
  for _ in range(2):  # The second time without TensorFlow's dispatch.
    plain(tf.constant(1.))
    limited(tf.constant(1.))
    assert limited.with_timeout(2.5)(tf.constant(1.)).numpy() == 3
    plain.with_timeout(5)(tf.constant(1.))
  assert timeouts() == [0, 7, 2.5, 5] * 2
  limited.with_timeout(math.inf)(tf.constant(1.))
  limited.with_timeout(0)(tf.constant(1.))  # The stand-in keeps no deadlines.
  assert timeouts()[8:] == [0, 1e-9]
  assert limited.experimental_get_tracing_count() == 1
