"""Transforms over listed axes, for which TensorFlow has no kernel on CPUs: against numpy."""
import numpy as np
import pytest
import tensorflow as tf

WHOLE = np.random.default_rng(1).normal(size=[2, 6, 5, 4, 2]).view(np.complex128)[..., 0]


def _cropped(x, lengths):
  """x with the last dimensions as long as they are used."""
  rest = x.ndim - len(lengths)
  return x[(slice(None),) * rest + tuple(slice(0, n) for n in lengths)]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("lengths", [[4], [5, 4], [6, 5, 4], [2, 6, 5, 4], [3, 2], [1, 1, 1]])
def test_transforms_over_axes(live, dtype, lengths):
  axes = list(range(-len(lengths), 0))
  whole, real = WHOLE.astype(dtype), WHOLE.real.astype(dtype().real.dtype)
  options = {"fft_length": lengths, "axes": axes}
  close = dict(rtol=1e-4, atol=1e-4) if dtype == np.complex64 else dict(rtol=1e-10, atol=1e-10)
  raw = tf.raw_ops
  for op, of, value in [(raw.FFTND, np.fft.fftn, whole), (raw.IFFTND, np.fft.ifftn, whole)]:
    got = live.function(lambda x: op(input=x, **options))(tf.constant(value))
    np.testing.assert_allclose(got, of(_cropped(value, lengths), axes=axes), **close)
  got = live.function(lambda x: raw.RFFTND(input=x, Tcomplex=tf.as_dtype(dtype), **options))(
      tf.constant(real))
  np.testing.assert_allclose(got, np.fft.rfftn(real, lengths, axes), **close)
  half = np.fft.rfftn(real, lengths, axes).astype(dtype)
  got = live.function(lambda x: raw.IRFFTND(input=x, Treal=tf.as_dtype(real.dtype), **options))(
      tf.constant(half))
  np.testing.assert_allclose(got, np.fft.irfftn(half, lengths, axes), **close)


@pytest.mark.parametrize("lengths, axes, words", [
    ([2, 4], [1, 3], "axes must be successive and ascending."),
    ([2, 3], [0, 1], "The last axis to perform transform on must be -1."),
    ([1] * 5, [0, 0, 1, 2, 3], "Input must have rank of at least 5 but got: [2,6,5,4]"),
    ([3], [2, 3], "fft_length must have shape [2]"), ([5, -1], [2, 3], "fft_length[1] must >= 0"),
    ([5, 5], [-2, -1], "Input dimension 3 must have length of at least 5 but got: 4"),
    ([], [], "axes must be a vector of at least one axis")])
@pytest.mark.parametrize("op", ["FFTND", "IFFTND", "RFFTND"])
def test_axes_and_lengths_that_do_not_fit(live, op, lengths, axes, words):
  value = WHOLE.real if op == "RFFTND" else WHOLE
  of_type = {"Tcomplex": tf.complex128} if op == "RFFTND" else {}

  @live.function
  def f(x, n, d):
    return getattr(tf.raw_ops, op)(input=x, fft_length=n, axes=d, **of_type)

  with pytest.raises(tf.errors.InvalidArgumentError) as refused:
    f(tf.constant(value), tf.constant(lengths, tf.int32, [len(lengths)]),
      tf.constant(axes, tf.int32, [len(axes)]))
  assert words in str(refused.value)
