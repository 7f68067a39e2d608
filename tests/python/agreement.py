"""Whether two runs of a program agree: results with their types, errors, and what was printed."""
import re

import numpy as np
import tensorflow as tf

# Addresses and long identifiers, in the texts of signatures and objects.
_ADDRESS = re.compile(r"0x[0-9a-f]+|\d{9,}")
_LOGGED = re.compile(r"[IWE]\d{4} |WARNING|Cause:")


def assert_agree(got, want, path="result"):
  """Numbers within the rounding of float sums; all else equal, types of structures included."""
  assert _kind(got) == _kind(want), path
  if isinstance(want, dict):
    assert list(got) == list(want), path
    for key in want:
      assert_agree(got[key], want[key], "%s[%r]" % (path, key))
  elif isinstance(want, (list, tuple)):
    assert len(got) == len(want), path
    for i, (g, w) in enumerate(zip(got, want)):
      assert_agree(g, w, "%s[%d]" % (path, i))
  elif isinstance(want, str):
    assert _ADDRESS.sub("N", got) == _ADDRESS.sub("N", want), path
  elif isinstance(want, (BaseException, bytes)) or want is None:
    assert isinstance(want, BaseException) or got == want, path
  else:
    _assert_values_agree(_arrays(got), _arrays(want), path)


def _kind(x):
  """What must be the same before values are looked at."""
  if isinstance(x, BaseException):  # Ours are classes of TensorFlow's besides.
    return [c.__name__ for c in type(x).__mro__ if c.__module__.split(".")[0] in (
        "tensorflow", "builtins")]
  if tf.is_tensor(x) and hasattr(x, "dtype"):
    return type(x).__name__, x.dtype, str(x.shape)
  return type(x).__name__


def _arrays(x):
  """The arrays that a tensor, a composite of tensors, a variable or a plain value comes to."""
  parts = tf.nest.flatten(x, expand_composites=True)
  if len(parts) == 1 and parts[0] is x:
    return [np.asarray(x.numpy() if hasattr(x, "numpy") else x)]
  return [a for part in parts for a in _arrays(part)]


def _assert_values_agree(got, want, path):
  assert len(got) == len(want), path
  for g, w in zip(got, want):
    assert g.dtype == w.dtype and g.shape == w.shape, path
    if w.dtype.kind in "OSUbiu" or not w.size:
      assert np.array_equal(g, w), path
    else:
      to = np.complex128 if w.dtype.kind == "c" else np.float64
      np.testing.assert_allclose(g.astype(to), w.astype(to), rtol=2e-4, atol=1e-5, err_msg=path)


def printed(capfd):
  """(stdout, stderr) since the last time, without what logs about lines of this process."""
  out, err = capfd.readouterr()
  return out, [line for line in err.splitlines() if not _LOGGED.match(line)]
