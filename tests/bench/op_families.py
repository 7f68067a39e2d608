"""Families of ops, each with a few of its ops on small, medium and large values, for ops.py."""
import numpy as np


def functions():
  """(family, name, function, its arguments, calls in a round) of each."""
  import tensorflow as tf
  raw = tf.raw_ops
  rng = np.random.default_rng(0)

  def normal(*shape, dtype=np.float32):
    return rng.normal(size=shape).astype(dtype)

  def ints(high, *shape, dtype=np.int32):
    return rng.integers(0, high, size=shape).astype(dtype)

  for size, rows, calls in (("small", 8, 1000), ("medium", 256, 100), ("large", 8192, 5)):
    x = normal(rows, 128)
    wide = normal(rows, 64, 16)
    image = normal(max(rows // 256, 1), 8 if size == "small" else 56, 8 if size == "small" else 56,
                   16)
    square = normal(max(rows // 64, 1), 8 if size == "small" else 32, 8 if size == "small" else 32)
    square = square @ square.transpose(0, 2, 1) + 8 * np.eye(square.shape[1], dtype=np.float32)
    index, segments = ints(rows, rows), np.sort(ints(rows // 2, rows))
    filters, depthwise = normal(3, 3, 16, 16), normal(3, 3, 16, 1)
    table = normal(1000, 64)
    ids = ints(1000, rows)

    def of(family, name, function, *values, size=size, calls=calls):
      return (family, "%s %s %s" % (family, name, size), function, list(values), calls)

    yield of("elementwise", "chain", lambda x: tf.tanh(x * 2. + 1.) * tf.sigmoid(x), x)
    yield of("elementwise", "broadcast", lambda x, y: x * y + y, x, normal(128))
    yield of("elementwise", "select", lambda x: tf.where(x > 0, x, -x), x)
    yield of("elementwise", "cast", lambda x: tf.cast(x, tf.int32), x)
    yield of("reduction", "sum of rows", lambda x: tf.reduce_sum(x, -1), x)
    yield of("reduction", "sum of columns", lambda x: tf.reduce_sum(x, 0), x)
    yield of("reduction", "max", tf.reduce_max, x)
    yield of("reduction", "argmax", lambda x: tf.argmax(x, -1), x)
    yield of("reduction", "cumsum", lambda x: tf.cumsum(x, -1), x)
    yield of("reduction", "bincount", lambda i: raw.DenseBincount(
        input=i, size=1000, weights=tf.constant([], tf.float32), binary_output=False), ids)
    yield of("matmul", "product", lambda x, w: x @ w, x, normal(128, 128))
    yield of("matmul", "batched", lambda a: tf.matmul(a, a, transpose_b=True), wide)
    yield of("matmul", "einsum", lambda a, w: tf.einsum("abc,cd->abd", a, w), wide, normal(16, 32))
    yield of("conv", "3x3", lambda x, f: tf.nn.conv2d(x, f, 1, "SAME"), image, filters)
    yield of("conv", "depthwise", lambda x, f: tf.nn.depthwise_conv2d(x, f, [1, 1, 1, 1], "SAME"),
             image, depthwise)
    yield of("conv", "gradient of filters", lambda x, d: raw.Conv2DBackpropFilter(
        input=x, filter_sizes=[3, 3, 16, 16], out_backprop=d, strides=[1] * 4, padding="SAME"),
             image, image)
    yield of("pool", "max", lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), image)
    yield of("pool", "average", lambda x: tf.nn.avg_pool2d(x, 3, 1, "SAME"), image)
    yield of("nn", "softmax", tf.nn.softmax, x)
    yield of("nn", "cross entropy", lambda x, i: tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=i, logits=x), x, ints(128, rows))
    yield of("nn", "bias", tf.nn.bias_add, x, normal(128))
    yield of("nn", "top 8", lambda x: tf.math.top_k(x, 8), x)
    yield of("nn", "sort", lambda x: tf.sort(x, -1), x)
    yield of("nn", "batch norm", lambda x, s: tf.compat.v1.nn.fused_batch_norm(x, s, s)[0], image,
             np.ones(16, np.float32))
    yield of("array", "transpose", tf.transpose, x)
    yield of("array", "transpose inner", lambda x: tf.transpose(x, [0, 2, 1]), wide)
    yield of("array", "concat", lambda a, b: tf.concat([a, b], -1), x, x)
    yield of("array", "split", lambda x: tf.split(x, 4, -1), x)
    yield of("array", "slice", lambda x: x[1:-1, 3:100], x)
    yield of("array", "pad", lambda x: tf.pad(x, [[1, 1], [2, 2]]), x)
    yield of("array", "tile", lambda x: tf.tile(x, [2, 2]), x)
    yield of("array", "reverse", lambda x: tf.reverse(x, [-1]), x)
    yield of("array", "one hot", lambda i: tf.one_hot(i, 100), ints(100, rows))
    yield of("gather", "rows", tf.gather, table, ids)
    yield of("gather", "nd", lambda x, i: tf.gather_nd(x, i[:, None]), x, index)
    yield of("gather", "unique", lambda i: tf.unique(i).y, ids)
    yield of("gather", "where", lambda x: tf.where(x > 1.), x)
    yield of("gather", "mask", lambda x: tf.boolean_mask(x, x[:, 0] > 0), x)
    yield of("scatter", "nd", lambda i, u: tf.scatter_nd(i[:, None], u, [1000, 128]), ids, x)
    yield of("scatter", "add", lambda t, i, u: tf.tensor_scatter_nd_add(t, i[:, None], u),
             normal(1000, 128), ids, x)
    yield of("segment", "sum", lambda x, s: tf.math.segment_sum(x, s), x, segments)
    yield of("segment", "embedding gradient", lambda x, i: tf.math.unsorted_segment_sum(x, i, 1000),
             x, ids)
    yield of("random", "uniform", lambda s: tf.random.stateless_uniform([rows, 128], s),
             np.int32([1, 2]))
    yield of("random", "normal", lambda s: tf.random.stateless_normal([rows, 128], s),
             np.int32([1, 2]))
    yield of("linalg", "cholesky", tf.linalg.cholesky, square)
    yield of("linalg", "inverse", tf.linalg.inv, square)
    yield of("linalg", "eigenvalues", tf.linalg.eigvalsh, square)
    yield of("linalg", "qr", lambda a: tf.linalg.qr(a), square)
    yield of("fft", "complex", lambda x: tf.signal.fft(tf.cast(x, tf.complex64)), x)
    yield of("fft", "real", tf.signal.rfft, x)
    yield of("image", "bilinear", lambda x: tf.image.resize(x, [40, 40]), image)
    yield of("image", "nearest", lambda x: tf.image.resize(x, [40, 40], "nearest"), image)
    # Text is made of integers in the function itself: values that are given are plain data.
    def text(i):
      return tf.strings.join(["word ", tf.as_string(i), " of some length"])

    yield of("string", "join", text, ids)
    yield of("string", "hash", lambda i: tf.strings.to_hash_bucket_fast(text(i), 1000), ids)
    yield of("string", "split", lambda i: tf.strings.split(text(i)).row_splits, ids)
    yield of("string", "replace", lambda i: tf.strings.length(
        tf.strings.regex_replace(text(i), "[0-9]+", "n")), ids)
    yield of("string", "parse", lambda i: tf.strings.to_number(tf.as_string(i)), ids)
    at = np.stack([np.arange(rows, dtype=np.int64), ints(128, rows, dtype=np.int64)], 1)
    yield of("sparse", "to dense", lambda i, v: tf.sparse.to_dense(
        tf.SparseTensor(i, v, [rows, 128])), at, normal(rows))
    yield of("sparse", "product", lambda i, v, b: tf.sparse.sparse_dense_matmul(
        tf.SparseTensor(i, v, [rows, 128]), b), at, normal(rows), normal(128, 64))
    splits = np.concatenate([[0], np.sort(ints(rows, rows - 1, dtype=np.int64)), [rows]])
    yield of("ragged", "to tensor", lambda v, s: tf.RaggedTensor.from_row_splits(
        v, s, validate=False).to_tensor(), normal(rows), splits)
    yield of("ragged", "ranges", lambda n: tf.ragged.range(n).values, ints(8, rows))
