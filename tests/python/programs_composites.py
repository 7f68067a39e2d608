"""More programs for test_function.py: ragged and sparse tensors, extension types, strings."""
import tensorflow as tf
from tensorflow.python.ops import composite_tensor_ops
from tensorflow.python.ops.linalg.sparse import sparse_csr_matrix_ops

from programs import caught
from programs import program


@program
def ragged_rows_mapped(function):
  @function
  def f(ragged):
    lengths = tf.map_fn(tf.size, ragged, fn_output_signature=tf.int32)
    doubled = tf.map_fn(lambda row: row * 2., ragged)
    ranges = tf.map_fn(tf.range, lengths, fn_output_signature=tf.RaggedTensorSpec([None], tf.int32))
    return lengths, doubled, ranges

  return f(tf.ragged.constant([[1., 2.], [], [3.]]))


@program
def ragged_rows_of_rows_mapped(function):
  @function
  def f(ragged):
    return tf.map_fn(lambda rows: rows + 1, ragged)

  return f(tf.ragged.constant([[[1, 2], []], [], [[3], [4, 5, 6]]]))


@program
def gradient_of_ragged_rows_mapped(function):
  @function
  def f(values, splits):
    with tf.GradientTape() as tape:
      tape.watch(values)
      ragged = tf.RaggedTensor.from_row_splits(values, splits)
      squares = tf.map_fn(lambda row: row * row, ragged)
      loss = tf.reduce_sum(squares.flat_values)
    return tape.gradient(loss, values)

  return f(tf.range(1., 7.), [0, 3, 3, 5, 6])


@program
def zeros_and_sums_of_ragged_variants(function):
  def encoded(ragged):
    return tf.raw_ops.RaggedTensorToVariant(
        rt_nested_splits=ragged.nested_row_splits, rt_dense_values=ragged.flat_values,
        batched_input=False)

  def decoded(variant, like):
    return tf.raw_ops.RaggedTensorFromVariant(
        encoded_ragged=variant, input_ragged_rank=like.ragged_rank,
        output_ragged_rank=like.ragged_rank, Tvalues=like.dtype, Tsplits=like.row_splits.dtype)

  @function
  def f(a):
    return (decoded(tf.zeros_like(encoded(a)), a),
            decoded(tf.raw_ops.AddN(inputs=[encoded(a), encoded(a + 1), encoded(a)]), a))

  @function
  def sum_of(a, b):
    return decoded(tf.raw_ops.AddN(inputs=[encoded(a), encoded(b)]), a)

  @function
  def zeros_of(a):
    return decoded(tf.zeros_like(encoded(a)), a)

  a = tf.ragged.constant([[1., 2., 3.], [], [4.]])
  text = tf.ragged.constant([["a"], ["b", "c"]])
  return (f(a), f(tf.ragged.constant([[[1, 2], []], [[3]]])),
          caught(lambda: sum_of(a, tf.ragged.constant([[1., 2.], [3., 4.]]))),
          caught(lambda: sum_of(a, tf.ragged.constant([[[1.], [2.]], [[3.]]]))),
          caught(lambda: sum_of(a, tf.cast(a, tf.float64))),
          caught(lambda: sum_of(text, text)), caught(lambda: zeros_of(text)))


@program
def ragged_products(function):
  a = tf.RaggedTensor.from_row_splits(tf.range(12.)[:, None] * tf.ones([1, 3]), [0, 4, 7, 12])
  b = tf.ones([3, 3, 2])

  @function
  def f(a, b):
    with tf.GradientTape() as tape:
      tape.watch(b)
      product = tf.matmul(a, b).to_tensor()
    return product, tape.gradient(product, b)

  return f(a, b)


@program
def ragged_and_dense(function):
  @function
  def f(ragged):
    dense = ragged.to_tensor(default_value=-1, shape=[None, 3])
    return (dense, tf.RaggedTensor.from_tensor(dense, padding=-1), ragged.to_sparse(),
            tf.gather(ragged, [2, 0]), tf.ragged.range([3, 0, 2]),
            tf.concat([ragged, ragged], axis=1), ragged[:, 1:])

  return f(tf.ragged.constant([[1, 2], [], [3, 4, 5, 6]]))


@program
def words(function):
  @function
  def f(texts):
    tokens = tf.strings.split(tf.strings.regex_replace(tf.strings.lower(texts), "[^a-z ]", ""))
    return (tokens, tf.strings.ngrams(tokens, 2), tf.strings.reduce_join(tokens, axis=1),
            tf.strings.to_hash_bucket_fast(tokens, 1000).to_tensor(),
            tf.strings.regex_full_match(texts, "[A-Z].*"))

  return f(tf.constant(["The quick, brown fox.", "", "jumps over"]))


class Masked(tf.experimental.ExtensionType):
  __name__ = "formwork_tests.Masked"  # So that its spec can be encoded.
  values: tf.Tensor
  mask: tf.Tensor


@program
def code_points(function):
  @function
  def f(texts):
    points = tf.strings.unicode_decode(texts, "UTF-8")
    characters, starts = tf.strings.unicode_split_with_offsets(texts, "UTF-8")
    scripts = tf.strings.unicode_script(points)
    word_starts = tf.concat([tf.fill([points.nrows(), 1], True),
                             tf.not_equal(scripts[:, 1:], scripts[:, :-1]).to_tensor()], axis=1)
    return (points, characters, starts, scripts, word_starts,
            tf.strings.unicode_encode(points, "UTF-16-BE"),
            tf.strings.unicode_transcode(texts, "UTF-8", "UTF-32-BE"),
            tf.strings.unicode_encode(points[:, ::-1], "UTF-8"),
            tf.strings.lower(texts, encoding="utf-8"), tf.strings.upper(texts, encoding="utf-8"))

  return f(tf.constant(["Hello, there.", "\u4e16\u754c\u3053\u3093", "", "\U0001f60a\xc9"]))


@program
def extension_types(function):
  @function
  def f(masked):
    encoded = composite_tensor_ops.composite_tensor_to_variants(masked)
    decoded = composite_tensor_ops.composite_tensor_from_variant(
        encoded, tf.type_spec_from_value(masked))
    return Masked(decoded.values * 2, decoded.mask)

  doubled = f(Masked(tf.constant([[1., 2.], [3., 4.]]),
                     tf.constant([[True, False], [True, True]])))
  return doubled.values, doubled.mask


@program
def sparse_embeddings(function):
  ids = tf.sparse.from_dense([[1, 0, 2], [0, 0, 0], [3, 0, 0]])
  params = tf.Variable(tf.reshape(tf.range(12.), [4, 3]))

  @function
  def f(ids):
    with tf.GradientTape() as tape:
      looked_up = tf.nn.safe_embedding_lookup_sparse(params, ids, combiner="mean")
    gradient = tape.gradient(looked_up, params)
    return looked_up, tf.convert_to_tensor(gradient)

  return f(ids)


@program
def sparse_arithmetic(function):
  @function
  def f(a, b):
    with tf.GradientTape() as tape:
      tape.watch(b)
      product = tf.sparse.sparse_dense_matmul(a, b)
    return (product, tape.gradient(product, b), tf.sparse.to_dense(tf.sparse.add(a, a)),
            tf.sparse.to_dense(tf.sparse.reshape(a, [6, -1])), tf.sparse.add(a, tf.ones([2, 3])),
            tf.sparse.to_dense(tf.sparse.reorder(tf.sparse.SparseTensor(
                [[1, 0], [0, 1]], [1, 2], [2, 2]))))

  return f(tf.sparse.from_dense([[1., 0., 2.], [0., 3., 0.]]), tf.ones([3, 2]))


@program
def maps(function):
  @function
  def f(keys):
    m = tf.raw_ops.EmptyTensorMap()
    for i in range(3):
      m = tf.raw_ops.TensorMapInsert(input_handle=m, key=keys[i], value=tf.fill([i], i))
    less = tf.raw_ops.TensorMapErase(input_handle=m, key=keys[1], value_dtype=tf.int32)
    return (tf.raw_ops.TensorMapSize(input_handle=m), tf.raw_ops.TensorMapSize(input_handle=less),
            tf.raw_ops.TensorMapLookup(input_handle=m, key=keys[2], value_dtype=tf.int32),
            tf.raw_ops.TensorMapHasKey(input_handle=less, key=keys[1]),
            tf.sort(tf.raw_ops.TensorMapStackKeys(input_handle=less, key_dtype=tf.float32)))

  return f(tf.constant([1.5, -2., 7.]))


@program
def a_key_that_is_not_there(function):
  @function
  def f():
    m = tf.raw_ops.TensorMapInsert(input_handle=tf.raw_ops.EmptyTensorMap(), key="a", value=1)
    return tf.raw_ops.TensorMapLookup(input_handle=m, key="b", value_dtype=tf.int32)

  return caught(f)


@program
def feature_crosses(function):
  @function
  def f(ragged, dense):
    return (tf.ragged.cross([ragged, dense]), tf.ragged.cross_hashed([ragged, dense], 100),
            tf.sparse.cross([ragged.to_sparse(), dense]))

  return f(tf.ragged.constant([["a", "b"], [], ["c"]]), tf.constant([["x"], ["y"], ["z"]]))


@program
def sparse_with_dense(function):
  @function
  def f(a, b, indices, values):
    with tf.GradientTape() as tape:
      tape.watch([b, values])
      entries = tf.sparse.SparseTensor(indices, values, [2, 3])
      product, ratio = entries * b, entries / b
      loss = (tf.reduce_sum(product.values * ratio.values)
              + tf.reduce_sum(tf.sparse.reduce_sum(entries, axis=0) ** 2))
    return (tf.sparse.to_dense(product), tf.sparse.to_dense(ratio), tape.gradient(loss, [b, values]),
            tf.sparse.to_dense(a * tf.constant([[2.], [3.]])))

  a = tf.sparse.from_dense([[1., 0., 2.], [0., 3., 0.]])
  return f(a, tf.constant([1., 2., 4.]), a.indices, a.values)


@program
def sparse_reductions(function):
  @function
  def f(a):
    return ([tf.sparse.reduce_sum(a, axis=axis, keepdims=keepdims)
             for axis in [None, 0, 1, [0, -1]] for keepdims in [False, True]],
            tf.sparse.reduce_max(a, axis=1), tf.sparse.reduce_max(a),
            tf.sparse.to_dense(tf.sparse.reduce_sum(a, axis=1, output_is_sparse=True)),
            tf.sparse.to_dense(tf.sparse.reduce_max(a, axis=0, output_is_sparse=True)))

  return f(tf.sparse.from_dense([[1., 0., -2.], [0., 3., 0.], [0., 0., 0.]]))


@program
def sparse_parts(function):
  @function
  def f(indices, values):
    with tf.GradientTape() as tape:
      tape.watch(values)
      a = tf.sparse.SparseTensor(indices, values, [2, 3])
      soft = tf.sparse.softmax(a)
      cut = tf.sparse.slice(soft, [0, 1], [2, 5])
      loss = tf.reduce_sum(cut.values ** 2)
    halves = tf.sparse.split(a, 2, axis=1)
    return (tf.sparse.to_dense(soft), tf.sparse.to_dense(cut), tape.gradient(loss, values),
            [tf.sparse.to_dense(half) for half in halves],
            tf.sparse.to_dense(tf.sparse.concat(1, [a, cut])),
            tf.sparse.to_dense(tf.sparse.concat(0, [a, a])))

  return f(tf.constant([[0, 0], [0, 2], [1, 1]], tf.int64), tf.constant([1., 2., 3.]))


@program
def serialized_tensors(function):
  @function
  def f(x, words):
    sparse = tf.sparse.from_dense(x)
    many = tf.io.deserialize_many_sparse(tf.io.serialize_many_sparse(sparse), tf.float32)
    bytes_of_words = tf.io.serialize_tensor(words)
    return (tf.io.serialize_tensor(x), tf.io.parse_tensor(bytes_of_words, tf.string), tf.sparse.to_dense(many),
            tf.io.serialize_sparse(sparse))

  return f(tf.constant([[1., 0.], [0., 2.]]), tf.constant(["a", "", "bc"]))


@program
def quantized(function):
  @function
  def f(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = tf.quantization.quantize_and_dequantize_v2(x, -1., 1., range_given=True)
    whole, low, high = tf.quantization.quantize(x, -1., 1., tf.quint8)
    return y, tape.gradient(y, x), tf.quantization.dequantize(whole, low, high), tf.cast(whole, tf.int32)

  return f(tf.constant([-2., -0.3, 0.1, 0.9, 3.]))


@program
def special_functions(function):
  @function
  def f(x, n):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = tf.math.special.dawsn(x) + tf.math.special.expint(x) + tf.math.special.spence(x)
      y += tf.math.special.fresnel_cos(x) * tf.math.special.fresnel_sin(x)
    return y, tape.gradient(y, x), tf.raw_ops.PopulationCount(x=n)

  return f(tf.constant([0.25, 0.75, 1.5, 3.]), tf.constant([7, -1, 256]))


@program
def second_gradient_of_max_pooling(function):
  @function
  def f(x):
    with tf.GradientTape() as outer:
      outer.watch(x)
      with tf.GradientTape() as inner:
        inner.watch(x)
        y = tf.nn.max_pool2d(x * x, 2, 2, "SAME")
      gradient = inner.gradient(y, x)
    return gradient, outer.gradient(gradient, x)

  return f(tf.reshape(tf.range(18.), [1, 3, 3, 2]))


@program
def sparse_matrices(function):
  @function
  def f(dense, other):
    a = tf.raw_ops.DenseToCSRSparseMatrix(dense_input=dense, indices=tf.where(tf.math.real(dense) != 0))
    b = tf.raw_ops.DenseToCSRSparseMatrix(dense_input=other, indices=tf.where(tf.math.real(other) != 0))
    product = sparse_csr_matrix_ops.sparse_matrix_sparse_mat_mul(
        a, b, tf.complex64, adjoint_b=True)
    again = sparse_csr_matrix_ops.sparse_matrix_mat_mul(product, other)
    turned = sparse_csr_matrix_ops.sparse_matrix_transpose(a, tf.complex64, conjugate=True)
    return (again, sparse_csr_matrix_ops.csr_sparse_matrix_to_dense(turned, tf.complex64),
            sparse_csr_matrix_ops.sparse_matrix_nnz(product),
            sparse_csr_matrix_ops.csr_sparse_matrix_components(product, 0, tf.complex64),
            sparse_csr_matrix_ops.csr_sparse_matrix_to_sparse_tensor(
                tf.math.conj(product), tf.complex64))

  a = tf.complex([[[1., 0., 2.], [0., 0., 3.]], [[0., 0., 0.], [4., 5., 0.]]], 0.5)
  b = tf.complex([[[0., 1., 0.], [2., 0., 3.]], [[1., 0., 0.], [0., 0., 6.]]], 0.)
  return f(a, b), f(a[1], b[0])


@program
def gradients_of_sparse_matrices(function):
  @function
  def f(values, b):
    with tf.GradientTape() as tape:
      tape.watch([values, b])
      a = tf.raw_ops.SparseTensorToCSRSparseMatrix(
          indices=[[0, 1], [1, 0], [1, 2]], values=values, dense_shape=[2, 3])
      y = sparse_csr_matrix_ops.sparse_matrix_mat_mul(a, b)
    return y, tape.gradient(y, [values, b])

  return f(tf.constant([1., 2., 3.]), tf.ones([3, 2]))
