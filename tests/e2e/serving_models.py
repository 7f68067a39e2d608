"""What tests of other servers' clients share: values, and a model."""
import numpy as np
import tensorflow as tf


def values_of(dtype):
  """Some of NumPy's dtype, with the least and the greatest."""
  dtype = np.dtype(dtype)
  if dtype == np.object_:
    return np.array([[b"a", b""], ["ä€".encode(), b"\xff\0"]], object)
  if dtype == np.bool_:
    return np.array([[True, False], [False, True]])
  if np.issubdtype(dtype, np.integer):
    return np.array([[np.iinfo(dtype).min, 0], [7, np.iinfo(dtype).max]], dtype)
  return np.array([[-0.0, 1.5], [np.inf, -3e-5]], dtype)


class Linear(tf.Module):
  """y = x @ kernel * scale."""

  def __init__(self, scale=1.0):
    self.kernel = tf.Variable(np.eye(2, dtype=np.float32) * scale)

  @tf.function(input_signature=[tf.TensorSpec([None, 2], name="x")])
  def serve(self, x):
    y = x @ self.kernel
    return {"y": y, "sum": tf.reduce_sum(y, 1), "count": tf.shape(x)[0]}

  @tf.function(input_signature=[tf.TensorSpec([None, 2], name="x")])
  def rows(self, x):
    return {"y": x @ self.kernel}
