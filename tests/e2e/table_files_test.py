"""Tables that are made of the lines of a file, beside TensorFlow."""
import formwork
import pytest
import tensorflow as tf
from tensorflow.python.ops import gen_lookup_ops

import server_process

WHOLE, NUMBER = -2, -1
S, I, L, F, D = tf.string, tf.int32, tf.int64, tf.float32, tf.float64


@pytest.fixture(scope="module")
def served(tmp_path_factory):
  folder = tmp_path_factory.mktemp("files")
  with server_process.running("--files-dir", str(folder)) as process, \
      formwork.connect(process.grpc) as server:
    yield server, folder


def reader(name, key, value, key_index, value_index, make=gen_lookup_ops.anonymous_hash_table,
           **attrs):
  """A function of no arguments that makes a table of the file and gives back its entries."""
  def read():
    table = make(key_dtype=key, value_dtype=value)
    gen_lookup_ops.initialize_table_from_text_file_v2(
        table, name, key_index=key_index, value_index=value_index, **attrs)
    return gen_lookup_ops.lookup_table_export_v2(table, Tkeys=key, Tvalues=value)
  return read


def answer(function):
  """The entries in order; or the error's code, and its message."""
  try:
    keys, values = function()
    return sorted(zip(keys.numpy().tolist(), map(repr, values.numpy().tolist())))
  except formwork.Error as failure:
    return failure.code, str(failure)
  except tf.errors.OpError as failure:
    codes = {getattr(tf.errors, x): x for x in dir(tf.errors) if x.isupper()}
    message = failure.message.split("\n\t [[")[0].split("\n\n")[-1]
    return codes[failure.error_code], message


READ = [
    (b"a\nb\nc\n", S, L, WHOLE, NUMBER, {}),
    (b"a\nb", S, L, WHOLE, NUMBER, {"offset": -5}),
    (b"a\r\nb\r\n", S, L, WHOLE, NUMBER, {}),
    (b"a\rx\nb\r\r\n", S, L, WHOLE, NUMBER, {}),
    (b"a\0b\n\xff\n", L, S, NUMBER, WHOLE, {"offset": 5}),
    (b"a\nb\n", L, L, NUMBER, NUMBER, {}),
    (b"7\n-8\n", L, L, WHOLE, NUMBER, {}),
    (b"7\n8\n", L, L, NUMBER, WHOLE, {}),
    (b"a\t1\nb\t2\n", S, L, 0, 1, {"offset": 3}),
    (b"1,a,x\n2,b\n", S, L, 1, 0, {"delimiter": ","}),
    (b"a 1.5\nb 2e3\nc nan\nd -inf\ne 1e400\n", S, F, 0, 1, {"delimiter": " "}),
    (b"a, 1e300 \n", S, D, 0, 1, {"delimiter": ","}),
    (b"a, 1\nb,-2 \n c ,+3\n", S, I, 0, 1, {"delimiter": ","}),
    (b"1 2\n3 4\n", I, I, 0, 1, {"delimiter": " "}),
    (b"a\t\n\tb\n", S, S, 0, 1, {}),
    (b"a 7\nb 8\n", S, L, WHOLE, 1, {"delimiter": " "}),
    (b"a\nb\n\n", S, L, WHOLE, NUMBER, {"vocab_size": 2}),
    (b"a\t1\na\t1\n", S, L, 0, 1, {}),
]

REFUSED = [
    (b"a\n\r\nb", S, L, WHOLE, NUMBER, {}),
    (b"a\n\n", S, L, WHOLE, NUMBER, {}),
    (b"", S, L, WHOLE, NUMBER, {}),
    (b"", S, L, WHOLE, NUMBER, {"vocab_size": 1}),
    (b"a\n", S, L, WHOLE, NUMBER, {"vocab_size": 0}),
    (b"a\nb\nc\n", S, L, WHOLE, NUMBER, {"vocab_size": 4}),
    (b"a\t1\nb\n", S, L, 0, 1, {}),
    (b"a\n", S, L, 0, 7, {}),
    (b"a\t1\nb\tx\n", S, L, 0, 1, {}),
    (b"a\t\n", S, F, 0, 1, {}),
    (b"a\t3000000000\n", S, I, 0, 1, {}),
    (b"x\ty\n", L, S, 0, 1, {}),
    (b"a\t1\nb\t2\na\t3\n", S, L, 0, 1, {}),
    (b"a\t1\na\t3.5\n", S, F, 0, 1, {}),
    (b"4\tx\n4\ty\n", L, S, 0, 1, {}),
    (b"a\n", S, I, WHOLE, NUMBER, {}),
    (b"a\n", I, S, NUMBER, WHOLE, {}),
    (b"1\n", L, F, NUMBER, WHOLE, {}),
    (b"a\ttrue\n", S, tf.bool, 0, 1, {}),
]


def both(served, content, *columns):
  server, folder = served
  (folder / "entries.txt").write_bytes(content)
  *columns, attrs = columns
  read = reader(str(folder / "entries.txt"), *columns, **attrs)
  return answer(server.function(read)), answer(tf.function(read))


@pytest.mark.parametrize("case", READ, ids=lambda case: repr(case[0]))
def test_lines_are_entries(served, case):
  ours, theirs = both(served, *case)
  assert ours == theirs
  assert isinstance(theirs, list) and theirs


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: repr(case[0]))
def test_what_lines_do_not_give_is_refused(served, case):
  (code, message), (their_code, their_message) = both(served, *case)
  assert code == their_code
  assert their_message in message


def test_only_a_static_table_is_read_from_a_file(served):
  server, folder = served
  (folder / "entries.txt").write_bytes(b"a\n")
  read = reader("entries.txt", S, L, WHOLE, NUMBER, make=gen_lookup_ops.anonymous_mutable_hash_table)
  code, message = answer(server.function(read))
  assert code == "INVALID_ARGUMENT" and "is not initializable" in message


def test_a_file_is_the_folders(served):
  server, folder = served
  (folder.parent / "outside.txt").write_bytes(b"a\n")
  for name, code in [("../outside.txt", "PERMISSION_DENIED"), ("nothing.txt", "NOT_FOUND"),
                     ("", "INVALID_ARGUMENT")]:
    assert answer(server.function(reader(name, S, L, WHOLE, NUMBER)))[0] == code


def test_a_second_file_changes_nothing(served):
  server, folder = served
  (folder / "one.txt").write_bytes(b"a\nb\n")
  (folder / "two.txt").write_bytes(b"c\n\n")

  def read(first, second):
    table = gen_lookup_ops.anonymous_hash_table(key_dtype=S, value_dtype=L)
    for name in (first, second):
      gen_lookup_ops.initialize_table_from_text_file_v2(
          table, name, key_index=WHOLE, value_index=NUMBER)
    return gen_lookup_ops.lookup_table_export_v2(table, Tkeys=S, Tvalues=L)

  read = server.function(read)
  entries = [(b"a", "0"), (b"b", "1")]
  assert answer(lambda: read(tf.constant("one.txt"), tf.constant("two.txt"))) == entries
  assert answer(lambda: read(tf.constant("one.txt"), tf.constant("none.txt")))[0] == "NOT_FOUND"


def test_a_vocabulary_is_looked_up(served):
  server, folder = served
  (folder / "words.txt").write_bytes(b"the\ncat\nsat\n")
  initializer = tf.lookup.TextFileInitializer(
      str(folder / "words.txt"), S, tf.lookup.TextFileIndex.WHOLE_LINE, L,
      tf.lookup.TextFileIndex.LINE_NUMBER)
  table = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets=2)
  words = tf.constant([["the", "dog"], ["sat", "down"]])
  expected = table.lookup(words).numpy()
  assert (server.function(table.lookup)(words).numpy() == expected).all()
