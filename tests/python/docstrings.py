"""Runs the examples in TensorFlow's docstrings; what they call of its API, a server computes too.

  docstrings.py [MODULE...]      docstrings.py tf.math tf.nn

Each call is made three times in a function: as it is, of its gradient, and with inputs of which no
shape is known. Prints where a server's answer is not TensorFlow's, and ends with 1 where EXPECTED
does not say why. What TensorFlow itself does not do in a function is left out.
"""
import collections
import contextlib
import doctest
import inspect
import io
import pathlib
import sys
import tempfile
import types

import numpy as np
import tensorflow as tf

import formwork
from conftest import find_server
from conftest import start_server

MODULES = """tf tf.math tf.nn tf.linalg tf.image tf.signal tf.strings tf.sparse tf.ragged tf.random
tf.sets tf.bitwise tf.audio tf.io tf.dtypes tf.quantization tf.data tf.lookup tf.raw_ops
tf.experimental.numpy tf.keras.ops tf.keras.activations tf.keras.losses tf.keras.metrics
tf.keras.layers""".split()

# (variant, function): why it differs.
EXPECTED = {
    ("unknown shapes", "image.rot90"): "TensorFlow turns by 180 degrees as if it mirrored",
    ("call", "io.read_file"): "the example's file is not in the server's files",
    ("unknown shapes", "io.read_file"): "the example's file is not in the server's files",
    ("call", "io.decode_proto"): "DecodeProtoV2 is not supported",
    ("unknown shapes", "io.decode_proto"): "DecodeProtoV2 is not supported",
}

# Of TensorFlow's own, before they are replaced.
_EAGER, _FUNCTION, _TAPE, _TENSOR = (
    tf.executing_eagerly, tf.function, tf.GradientTape, tf.convert_to_tensor)
_FLATTEN, _PACK = tf.nest.flatten, tf.nest.pack_sequence_as
_CAST, _RANGE, _RESHAPE, _SIZE, _SUM, _ABS = (
    tf.cast, tf.range, tf.reshape, tf.size, tf.reduce_sum, tf.abs)
# These tell of Python's side.
_LEFT_ALONE = {"executing_eagerly", "function", "init_scope", "inside_function", "is_symbolic_tensor",
               "is_tensor", "numpy_function", "print", "py_function"}


def _module(name):
  found = tf
  for part in name.split(".")[1:]:
    found = getattr(found, part)
  return found


def _members(name):
  module = _module(name)
  for member in sorted(dir(module)):
    if not member.startswith("_"):
      with contextlib.suppress(Exception):
        yield member, getattr(module, member)


def _is_number(tensor):
  return tensor.dtype.is_floating or tensor.dtype.is_complex


def _weighed(tensor):
  """A loss to which each element counts differently."""
  if tensor.dtype.is_complex:
    tensor = _ABS(tensor)
  return _SUM(_RESHAPE(tensor, [-1]) * _CAST(_RANGE(_SIZE(tensor)) % 7 + 1, tensor.dtype))


def _agree(got, want, draws):
  got, want = np.asarray(got), np.asarray(want)
  if got.dtype != want.dtype or got.shape != want.shape:
    return False
  if draws or not want.size:
    return True
  if want.dtype.kind in "OSUbiu":
    return np.array_equal(got, want)
  to = np.complex128 if want.dtype.kind == "c" else np.float64
  got, want = got.astype(to), want.astype(to)
  error = 2e-4 if got.dtype.itemsize > 2 else 2e-2
  finite = np.abs(want[np.isfinite(want)])
  scale = max(1, finite.max()) if finite.size else 1
  return np.allclose(got, want, rtol=error, atol=error / 10 * scale, equal_nan=True)


class Mirror:
  """Stands in for functions of TensorFlow's API: has a server do what they are asked for."""

  def __init__(self, server):
    self._server = server
    self._busy = False
    self.example = ""
    self.counts = collections.Counter()
    self.unexpected = 0

  def replace(self, modules):
    stand_ins = {}
    for name in modules:
      for member, function in list(_members(name)):
        if not callable(function) or inspect.isclass(function) or member in _LEFT_ALONE:
          continue
        if id(function) not in stand_ins:
          stand_ins[id(function)] = self._stand_in("%s.%s" % (name, member), function), function
        with contextlib.suppress(Exception):
          setattr(_module(name), member, stand_ins[id(function)][0])

  def _stand_in(self, name, function):
    name = name.removeprefix("tf.")

    def stand_in(*args, **kwargs):
      if self._busy or not _EAGER():
        return function(*args, **kwargs)
      self._busy = True
      try:
        result = function(*args, **kwargs)
        self._compare(name, function, args, kwargs, result)
        return result
      finally:
        self._busy = False

    stand_in.__doc__ = function.__doc__
    return stand_in

  def _compare(self, name, function, args, kwargs, result):
    try:
      given = _FLATTEN((args, kwargs), expand_composites=True)
      results = _FLATTEN(result, expand_composites=True)
    except (TypeError, ValueError):
      return
    if not results or not all(isinstance(r, tf.Tensor) for r in results):
      return
    at = [i for i, v in enumerate(given) if isinstance(v, (tf.Tensor, np.ndarray))]
    inputs = [_TENSOR(given[i]) for i in at]

    def call(*tensors):
      values = list(given)
      for i, tensor in zip(at, tensors):
        values[i] = tensor
      call_args, call_kwargs = _PACK((args, kwargs), values, expand_composites=True)
      return _FLATTEN(function(*call_args, **call_kwargs), expand_composites=True)

    def gradient(*tensors):
      numbers = [t for t in tensors if _is_number(t)]
      with _TAPE() as tape:
        tape.watch(numbers)
        losses = [_weighed(r) for r in call(*tensors) if _is_number(r)]
      found = [_TENSOR(g) for g in tape.gradient(losses, numbers) if g is not None]
      if not found:
        raise ValueError("there is no gradient")
      return found

    unknown = [tf.TensorSpec(None, t.dtype) for t in inputs]
    draws = any(part in name for part in ("random", "dropout", "sampler", "shuffle"))
    for variant, body, options in (("call", call, {}), ("gradient", gradient, {}),
                                   ("unknown shapes", call, {"input_signature": unknown})):
      try:
        want = _FUNCTION(body, **options)(*inputs)
      except Exception:
        self.counts["left out"] += 1
        continue
      self._count(variant, name, want, draws,
                  lambda: self._server.function(body, **options)(*inputs))

  def _count(self, variant, name, want, draws, ask):
    try:
      got = ask()
      agree = len(got) == len(want) and all(_agree(g, w, draws) for g, w in zip(got, want))
      said = "" if agree else "\n  ours   %s\n  theirs %s" % (got, want)
    except Exception as e:
      agree, said = False, "%s: %s" % (type(e).__name__, e)
    if agree:
      self.counts["same"] += 1
    elif reason := EXPECTED.get((variant, name)):
      self.counts["expected: " + reason] += 1
    else:
      self.unexpected += 1
      # Not where the example's own words go.
      print("%s of %s, in the example of %s: %s" % (variant, name, self.example, said),
            file=sys.__stdout__, flush=True)


def run_examples(name, documented, mirror):
  """Each line of the examples of a docstring, whatever the others raise."""
  text = inspect.getdoc(documented) or ""
  if ">>>" not in text:
    return
  mirror.example = name
  names = {"tf": tf, "np": np, "keras": tf.keras}
  with contextlib.suppress(ValueError):
    for example in doctest.DocTestParser().get_examples(text):
      with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.redirect_stdout(io.StringIO()):
          exec(compile(example.source, name, "single"), names)


def main():
  tf.get_logger().setLevel("ERROR")
  tf.autograph.set_verbosity(0)
  modules = sys.argv[1:] or MODULES
  with tempfile.TemporaryDirectory() as folder:
    process, target = start_server(find_server(), pathlib.Path(folder) / "log")
    mirror = Mirror(formwork.connect(target, timeout=60))
    documented = {}
    for name in modules:
      for member, found in _members(name):
        if not isinstance(found, types.ModuleType):
          documented.setdefault(id(found), ("%s.%s" % (name, member), found))
    mirror.replace(MODULES)
    for name, found in documented.values():
      run_examples(name, found, mirror)
      for member in vars(found).values() if inspect.isclass(found) else ():
        if callable(member):
          run_examples("%s.%s" % (name, getattr(member, "__name__", "?")), member, mirror)
    process.terminate()
    process.wait(30)
  for what, count in mirror.counts.most_common():
    print("%7d %s" % (count, what))
  print("%7d unexpected" % mirror.unexpected)
  sys.exit(mirror.unexpected > 0)


if __name__ == "__main__":
  main()
