"""Datasets of files: those of the server's folder, as TensorFlow reads them."""
import gzip
import re
import zlib

import formwork
import pytest
import tensorflow as tf

import server_process

TEXTS = (b"", b"\n", b"a\r\nb\rc\n\n\r\r\nlast\r", b"a\n\0\xff", b"x" * 300000 + b"\nlong\n" * 100000)
TextLine, TFRecord, Fixed = (
    tf.data.TextLineDataset, tf.data.TFRecordDataset, tf.data.FixedLengthRecordDataset)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  made = tmp_path_factory.mktemp("all")
  (made / "files").mkdir()
  (made / "secret").write_bytes(b"not for clients\n")
  return made / "files"


@pytest.fixture(scope="module")
def server(folder):
  with server_process.running("--files-dir", str(folder)) as process, \
      formwork.connect(process.grpc) as made:
    yield made


def _elements(make):
  """What a function gives that gathers the elements of make(*args)."""
  def gather(*args):
    return make(*args).reduce(tf.constant([], tf.string), lambda all_, x: tf.concat([all_, [x]], 0))
  return gather


_WORDS = re.compile(r"corrupted record at \d+( \(Is this even a TFRecord file\?\))?|truncated record at \d+' "
                    r"failed with [\w ]+|Excluding the header .*\(\d+ bytes\)\.|Can't skip a negative .*bytes")


def _agree(server, make, *args):
  """The elements there, as in TensorFlow; or the error's code and words, which are TensorFlow's."""
  outcomes = []
  for function in (server.function, tf.function):
    try:
      outcomes.append(function(_elements(make))(*map(tf.constant, args)).numpy().tolist())
    except tf.errors.OpError as e:
      found = _WORDS.search(e.message)
      assert found, e.message
      outcomes.append((e.error_code, found.group()))
  assert outcomes[0] == outcomes[1]
  return outcomes[0]


@pytest.mark.parametrize("text", TEXTS)
def test_lines(folder, server, text):
  for name, content, compression in (("plain", text, ""), ("gz", gzip.compress(text), "GZIP"),
                                     ("zlib", zlib.compress(text), "ZLIB"),
                                     ("gz2", gzip.compress(b"more\n") + gzip.compress(text), "GZIP")):
    path = folder / name
    path.write_bytes(content)
    make = lambda names: TextLine(names, compression_type=compression).take(1000)
    _agree(server, make, str(path))
    _agree(server, make, [str(path), str(path)])


def test_records(folder, server):
  path = str(folder / "records")
  with tf.io.TFRecordWriter(path) as writer:
    for record in (b"one", b"twotwo", b"", b"x" * 300000):
      writer.write(record)
  whole = (folder / "records").read_bytes()
  assert len(_agree(server, TFRecord, [path, path])) == 8
  for name, content, compression in (("gz", gzip.compress(whole), "GZIP"),
                                     ("zlib", zlib.compress(whole), "ZLIB")):
    (folder / name).write_bytes(content)
    _agree(server, lambda names: TFRecord(names, compression_type=compression), str(folder / name))
  cut = folder / "cut"
  for size in (0, 1, 8, 11, 12, 13, 15, 17, 19, 25, 35, len(whole) - 1):
    cut.write_bytes(whole[:size])
    _agree(server, TFRecord, str(cut))
  for place in (0, 3, 8, 12, 15, 19, 27, 31, len(whole) - 1):
    damaged = bytearray(whole)
    damaged[place] ^= 1
    cut.write_bytes(bytes(damaged))
    code, message = _agree(server, TFRecord, str(cut))
    assert code == tf.errors.DATA_LOSS and "corrupted record at" in message


@pytest.mark.parametrize("offset, outcome", (
    (0, [b"one", b"twotwo"]), (19, [b"twotwo"]), (1000000, []), (5, "corrupted record at 5"),
    (-1, "Can't skip a negative number of bytes")))
def test_records_from_an_offset(folder, server, offset, outcome):
  """What TensorFlow gives eagerly; what it optimizes it cannot make of this op."""
  path = str(folder / "offsets")
  with tf.io.TFRecordWriter(path) as writer:
    writer.write(b"one")
    writer.write(b"twotwo")

  def make(offsets):
    return tf.data.experimental.from_variant(tf.raw_ops.TFRecordDatasetV2(
        filenames=[path], compression_type="", buffer_size=0, byte_offsets=offsets),
                                             tf.TensorSpec([], tf.string))
  f = server.function(_elements(make))
  if isinstance(outcome, list):
    assert f(tf.constant([offset], tf.int64)).numpy().tolist() == outcome
  else:
    with pytest.raises((tf.errors.DataLossError, tf.errors.InvalidArgumentError), match=outcome):
      f(tf.constant([offset], tf.int64))


@pytest.mark.parametrize("layout", ((3, 2, 1), (4, 2, 1), (12, 0, 0), (9, 2, 1), (1, 12, 0)))
def test_records_of_one_length(folder, server, layout):
  path = folder / "fixed"
  for content, compression in ((b"HHabcdefghiF", ""), (gzip.compress(b"HHabcdefghiF"), "GZIP")):
    path.write_bytes(content)
    _agree(server, lambda name: Fixed(name, *layout, compression_type=compression), str(path))


_CSV = ("Expect \\d fields but have (\\d|more) in record|Unquoted fields cannot have quotes inside|"
        "Reached end of file without closing quoted field in record|Quote inside a string has to be "
        "escaped by another quote|Field \\d in record is not a valid int32: \\w+|"
        "Field \\d is required but missing in record!|Can't read header of file")


def _lines_of(server, path, defaults, **more):
  """What there is of each line, in TensorFlow and on the server: its fields, or what is wrong."""
  def take(it):
    return next(it)

  outcomes = []
  for function in (tf.function, server.function):
    taken = function(take)
    it, outcome = iter(tf.data.experimental.CsvDataset(path, defaults, **more)), []
    while len(outcome) < 10:
      try:
        outcome.append([x.numpy() for x in taken(it)])
      except tf.errors.OutOfRangeError:
        break
      except tf.errors.InvalidArgumentError as e:
        outcome.append(re.search(_CSV, e.message).group())
    outcomes.append(outcome)
  assert outcomes[0] == outcomes[1]
  return outcomes[0]


@pytest.mark.parametrize("text", (
    b"", b"\n", b"a,b\nc,d", b"a,b\r\nc,d\r\n", b"a,b\rc,\r", b"\n\na,b\n\n", b"a\nb,c\n", b"a,b,c\nd,e\n",
    b'"a,b",c\n"d""e",f\n', b'"a\r\nb",c\n', b'a"b,c\nd,e\n', b'"a"b,c\nd,e\n', b'"a,b\n', b'a,"b"', b'a,"',
    b'"a""\n"b",c\nd,e"', b'1,2\n3,4,"5\n6"\n7,8\n', b",\n", b"x" * 300000 + b"," + b"y" * 300000 + b"\na,b"))
def test_lines_of_fields(folder, server, text):
  (folder / "csv").write_bytes(text)
  path = str(folder / "csv")
  _lines_of(server, path, ["d", "e"])
  _lines_of(server, [path, path], ["d", "e"], header=True)
  _lines_of(server, path, ["d", "e"], use_quote_delim=False)
  _lines_of(server, path, ["d"], select_cols=[1])
  _lines_of(server, path, ["d"], exclude_cols=[0])
  (folder / "csv.gz").write_bytes(gzip.compress(text))
  assert _lines_of(server, path, ["d", "e"]) == _lines_of(server, str(folder / "csv.gz"), ["d", "e"],
                                                          compression_type="GZIP")


def test_fields_are_numbers_or_missing(folder, server):
  (folder / "csv").write_bytes(b"1; 2.5;x\n;;\nNA;3;z\nq;1;y\n-4;inf;NA\n")
  lines = _lines_of(server, str(folder / "csv"), [tf.constant([7]), tf.constant(0.5), tf.string],
                    field_delim=";", na_value="NA")
  assert lines == [[1, 2.5, b"x"], "Field 2 is required but missing in record!", [7, 3.0, b"z"],
                   "Field 0 in record is not a valid int32: q",
                   "Field 2 is required but missing in record!"]


def test_what_is_wrong_with_a_files_compression_is_said(folder, server):
  text = b"a\nb\n" * 100
  whole = gzip.compress(text)
  for content, words in ((whole[:-12], "ends within"), (whole[:-5] + b"xxxxx", "wrong checksum"),
                         (b"hello\nworld", "is not compressed as"), (whole[:15], "ends within"),
                         (whole[:12] + b"\xff" * 20, "damaged|ends")):
    (folder / "bad").write_bytes(content)
    with pytest.raises(tf.errors.DataLossError, match=words):
      server.function(_elements(lambda: TextLine("bad", compression_type="GZIP")))()


def test_an_empty_member_of_a_gzip_file_is_not_its_end(folder, server):
  (folder / "members").write_bytes(gzip.compress(b"") + gzip.compress(b"a\nb"))
  f = server.function(_elements(lambda: TextLine("members", compression_type="GZIP")))
  assert f().numpy().tolist() == [b"a", b"b"]


def test_only_files_of_the_folder(folder, server):
  read = server.function(_elements(TextLine))
  (folder / "mine").write_bytes(b"a\nb")
  (folder / "link").symlink_to(folder.parent / "secret")
  assert read(tf.constant("mine")).numpy().tolist() == [b"a", b"b"]
  for name in ("../secret", str(folder.parent / "secret"), "link", "/etc/passwd"):
    with pytest.raises(tf.errors.PermissionDeniedError):
      read(tf.constant(name))
  for name, error in (("nothing", tf.errors.NotFoundError), ("", tf.errors.InvalidArgumentError)):
    with pytest.raises(error):
      read(tf.constant(name))
  with server_process.running() as process, formwork.connect(process.grpc) as other:
    with pytest.raises(tf.errors.FailedPreconditionError, match="--files-dir"):
      other.function(_elements(TextLine))(tf.constant("mine"))


def test_a_file_that_fails_is_passed_by_where_errors_are(folder, server):
  (folder / "good").write_bytes(b"a\nb\n")
  f = server.function(_elements(lambda names: TextLine(names).ignore_errors()))
  assert f(tf.constant(["nothing", "good", "nothing", "good"])).numpy().tolist() == [
      b"a", b"b", b"a", b"b"]


def test_interleaved_files(folder, server):
  names = []
  for k in range(5):
    (folder / ("part%d" % k)).write_bytes(b"".join(b"%d %d\n" % (k, i) for i in range(7 * k)))
    names.append(str(folder / ("part%d" % k)))
  for options in ({}, {"num_parallel_calls": 2}, {"num_parallel_calls": tf.data.AUTOTUNE}):
    _agree(server, lambda n: tf.data.Dataset.from_tensor_slices(n).interleave(
        TextLine, cycle_length=3, block_length=2, **options), names)


def test_matching_files(folder, server):
  (folder / "m" / "sub").mkdir(parents=True)
  for name in ("b.txt", "a.txt", "sub/c.txt", ".h.txt"):
    (folder / "m" / name).write_bytes(b"")
  there = server.function(tf.io.matching_files)
  for pattern in ("m/*", "m/*.txt", "m/*/*.txt", "m/{a,b}.txt", "m/[ab].txt", "m/?.txt", "m/a.txt",
                  "none/*", "m/.h*", "*/sub/*"):
    pattern = str(folder / pattern)
    assert there(tf.constant(pattern)).numpy().tolist() == (
        tf.io.matching_files(pattern).numpy().tolist()), pattern
  both = [str(folder / "m/a*"), str(folder / "m/*.txt")]
  assert there(tf.constant(both)).numpy().tolist() == tf.io.matching_files(both).numpy().tolist()
  assert there(tf.constant("m/?.txt")).numpy().tolist() == [b"m/a.txt", b"m/b.txt"]
  for pattern in ("../*", "/*", "/etc/*", str(folder.parent / "s*")):
    with pytest.raises(tf.errors.PermissionDeniedError):
      there(tf.constant(pattern))
  with pytest.raises(tf.errors.InvalidArgumentError, match="wildcards"):
    there(tf.constant("*/../*"))
  (folder / "out").symlink_to(folder.parent)
  with pytest.raises(tf.errors.PermissionDeniedError):
    there(tf.constant("out/s*"))
  assert there(tf.constant("o*/s*")).numpy().tolist() == []


def test_listed_files(folder, server):
  (folder / "l").mkdir()
  for name in "abc":
    (folder / "l" / name).write_bytes(name.encode())

  def make(pattern):
    return tf.data.Dataset.list_files(pattern, shuffle=False).map(tf.io.read_file)
  assert _agree(server, make, str(folder / "l" / "*")) == [b"a", b"b", b"c"]


def _counted(function, path, transformation):
  """What a dataset over that many elements gives, twice, and how often its function has run."""
  runs = tf.Variable(0)

  @function
  def f():
    def note(i):
      runs.assign_add(1)
      return i * i, tf.strings.as_string(i)
    d = transformation(tf.data.Dataset.range(12).map(note), path)
    total = tf.constant("")
    for i, text in d:
      total = tf.strings.join([total, tf.strings.as_string(i), text], ",")
    return total

  return [f().numpy() for _ in range(2)] + [int(runs.read_value())]


@pytest.mark.parametrize("transformation", [
    lambda d, path: d.cache(path), lambda d, path: d.snapshot(path)])
def test_elements_are_kept_in_files(tmp_path, transformation):
  files = tmp_path / "files"
  files.mkdir()
  with server_process.running("--files-dir", str(files)) as process, \
      formwork.connect(process.grpc) as server:
    there = _counted(server.function, str(files / "there"), transformation)
    assert there == _counted(tf.function, str(tmp_path / "here"), transformation)
    assert there[2] == 12
    with pytest.raises(formwork.Error, match="outside|folder") as refused:
      _counted(server.function, str(tmp_path / "outside"), transformation)
    assert refused.value.code in ("PERMISSION_DENIED", "FAILED_PRECONDITION")


def test_a_cache_is_as_tensorflows(tmp_path):
  cached = lambda d, path: d.cache(path)
  with server_process.running("--files-dir", str(tmp_path)) as process, \
      formwork.connect(process.grpc) as server:
    ours = _counted(server.function, str(tmp_path / "ours"), cached)
    theirs = _counted(tf.function, str(tmp_path / "theirs"), cached)
    # What the one has written the other reads: nothing is run.
    assert _counted(tf.function, str(tmp_path / "ours"), cached)[2] == 0
    assert _counted(server.function, str(tmp_path / "theirs"), cached)[2] == 0
    assert ours[:2] == theirs[:2]
