"""More programs for test_function.py: functions that move elements, by lists, of random numbers, of
linear algebra, one or more for each op."""
import keras
import tensorflow as tf

from programs import programs_of
from programs import with_gradient

_X = tf.reshape(tf.range(24.), [2, 3, 4]) / 7
_INTS = tf.constant([[4, 1, 3], [1, 4, 0]])
_TEXTS = tf.constant([["a", "bc", ""], ["\xe4", "d", "a"]])
_COMPLEX = tf.complex(_X, 1 - _X)
_SQUARE = tf.reshape(tf.range(18.), [2, 3, 3]) % 7 + 4 * tf.eye(3)


def _unknown(f):
  """f of values whose shapes are not known while it is traced."""
  def run(*arguments):
    return f(*(tf.compat.v1.placeholder_with_default(x, None) for x in arguments))
  return run


programs_of("arrays", {
    "shapes": (_unknown(lambda x, t: (tf.shape(x), tf.size(t), tf.rank(x), tf.shape_n([x, x[0]]),
                                      tf.shape(t, tf.int64))), _X, _TEXTS),
    "strided_slice": (with_gradient(lambda x: (x[1, ::2], x[..., -1], x[:, tf.newaxis, 1:],
                                               x[::-1, 2:0:-1])), _X),
    "slice": (with_gradient(lambda x: tf.slice(x, [0, 1, 1], [2, -1, 2])), _X),
    "reshape": (with_gradient(lambda x: tf.reshape(x, [4, -1])), _X),
    "pack": (with_gradient(lambda x: tf.stack([x, 2 * x], 1)), _X),
    "unpack": (with_gradient(lambda x: tf.unstack(x, axis=1)), _X),
    "fill": (lambda n: (tf.fill([n, 2], 3.), tf.fill([2], "s"), tf.zeros([n]), tf.ones([n, 1])),
             tf.constant(3)),
    "expand_and_squeeze": (with_gradient(lambda x: tf.squeeze(tf.expand_dims(x, 1), [1])), _X),
    "concat": (with_gradient(lambda x: tf.concat([x, x[:, :1], 3 * x], 1)), _X),
    "concat_of_unknown_shapes": (with_gradient(_unknown(lambda x: tf.concat([x, 3 * x], -1))), _X),
    "split": (with_gradient(lambda x: (tf.split(x, 2, 2), tf.split(x, [1, 0, 2], 1))), _X),
    "tile": (with_gradient(lambda x: tf.tile(x, [1, 2, 3])), _X),
    "transpose": (with_gradient(lambda x: tf.transpose(x, [2, 0, 1])), _X),
    "adjoint": (with_gradient(tf.linalg.adjoint), _COMPLEX),
    "gather": (with_gradient(lambda x, i: (tf.gather(x, i, axis=2), tf.gather(
        x, i[:, :2] % 3, axis=1, batch_dims=1))), _X, _INTS[:, 1:] % 3),
    "gather_nd": (with_gradient(lambda x, i: tf.gather_nd(x, i)), _X, tf.constant([[1, 2], [0, 0]])),
    "broadcast": (with_gradient(lambda x: tf.broadcast_to(x[:, :, :1], [3, 2, 3, 5]) + x[0, 0, 0]), _X),
    "broadcast_of_unknown_shapes": (with_gradient(_unknown(lambda x, y: x * y)), _X, _X[:1, :, :1]),
    "broadcast_shapes": (_unknown(lambda x, y: tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y))),
                         _X, _X[:1, :, :1]),
    "like": (_unknown(lambda x, t: (tf.zeros_like(x), tf.ones_like(x), tf.zeros_like(t))), _X, _TEXTS),
    "pad": (with_gradient(lambda x: (tf.pad(x, [[1, 0], [0, 2], [1, 1]]), tf.pad(
        x, [[0, 0], [1, 0], [0, 3]], constant_values=5))), _X),
    "mirror_pad": (with_gradient(lambda x: (tf.pad(x, [[0, 1], [2, 1], [0, 3]], "REFLECT"), tf.pad(
        x, [[2, 0], [0, 3], [1, 0]], "SYMMETRIC"))), _X),
    "bitcast": (lambda x: (tf.bitcast(x, tf.int32), tf.bitcast(x, tf.uint8)), _X),
    "dynamic_stitch": (with_gradient(lambda a, b: tf.dynamic_stitch([[0, 3], [2, 1]], [a, b])),
                       _X[0, :2], _X[1, :2]),
    "dynamic_partition": (with_gradient(lambda x, i: tf.dynamic_partition(x, i % 2, 2)),
                          _X[:, :, 0], _INTS),
    "reverse": (with_gradient(lambda x: tf.reverse(x, [0, -1])), _X),
    "reverse_sequence": (with_gradient(lambda x, n: tf.reverse_sequence(x, n, 1, batch_axis=0)), _X,
                         tf.constant([2, 3])),
    "roll": (with_gradient(lambda x: tf.roll(x, [1, -2], [0, 2])), _X),
    "where": (lambda x: (tf.where(x > 1), tf.where(x > 99)), _X),
    "one_hot": (lambda i: (tf.one_hot(i, 5), tf.one_hot(i, 3, "on", "off", axis=0)), _INTS),
    "scatter_nd": (with_gradient(lambda i, x: tf.scatter_nd(i, x, [4, 4])),
                   tf.constant([[2], [0], [2]]), _X[0]),
    "tensor_scatter": (with_gradient(lambda x, i, y: [f(x, i, y) for f in (
        tf.tensor_scatter_nd_update, tf.tensor_scatter_nd_add, tf.tensor_scatter_nd_sub,
        tf.tensor_scatter_nd_max, tf.tensor_scatter_nd_min)]), _X[0], tf.constant([[2], [0]]),
                       _X[1, :2]),
    "band_part": (with_gradient(lambda x: tf.linalg.band_part(x, 1, 0)), _X),
    "diagonals": (with_gradient(lambda x: (tf.linalg.diag_part(x), tf.linalg.diag(x, k=1), tf.linalg.diag_part(
        x, k=(-1, 1), padding_value=9))), _X),
    "set_diagonals": (with_gradient(tf.linalg.set_diag), _X, _X[..., 0]),
    "set_of_diagonals": (with_gradient(lambda x, d: tf.linalg.set_diag(x, d, k=(-1, 0))), _SQUARE,
                         _SQUARE[:, :2]),
    "space_and_batch": (with_gradient(lambda x: tf.batch_to_space(tf.space_to_batch(
        x, [2], [[1, 0]]), [2], [[1, 0]])), _X),
    "space_and_depth": (with_gradient(lambda x: tf.nn.depth_to_space(tf.nn.space_to_depth(x, 2), 2)),
                        tf.reshape(_X, [1, 4, 2, 3])),
    "permutations": (lambda x: (tf.math.invert_permutation(x), tf.argsort(x), tf.sort(x)),
                     tf.constant([2, 0, 1])),
    "unique": (lambda x: (tf.unique(x), tf.unique_with_counts(x)), tf.reshape(_INTS, [-1])),
    "unique_texts": (lambda x: tf.unique(x), tf.reshape(_TEXTS, [-1])),
    "set_differences": (lambda x: tf.raw_ops.ListDiff(x=x, y=[1, 9]), tf.reshape(_INTS, [-1])),
    "fingerprint": (lambda x, t: (tf.fingerprint(x), tf.fingerprint(t)), _X, _TEXTS),
    "searched": (lambda x: (tf.searchsorted([0., 1., 2.], x), tf.searchsorted(
        [0., 1., 2.], x, "right")), tf.reshape(_X, [-1])),
    "repeat": (lambda x: tf.repeat(x, [1, 0, 2], 1), _X),
    "meshgrid": (lambda x: tf.meshgrid(x, x[:2]), _X[0, 0]),
    "ensured_shape": (_unknown(lambda x: tf.ensure_shape(x, [None, 3, 4])), _X),
    "empty": (lambda: tf.raw_ops.Empty(shape=[2, 0], dtype=tf.float32),),
    "empty_and_zero": (lambda: tf.raw_ops.Empty(shape=[2, 3], dtype=tf.float32, init=True),),
    "slice_update": (lambda x, at: keras.ops.slice_update(x, [0, at, 1], -x[:1, :2, :2]), _X,
                     tf.constant(2)),
    "edit_distance": (lambda: tf.edit_distance(tf.sparse.from_dense([[1, 2]]),
                                               tf.sparse.from_dense([[1, 3]])),),
    "unravelled": (lambda i: tf.unravel_index(i, [3, 4]), tf.constant([5, 11])),
    "case_of_branches": (lambda i, x: [tf.switch_case(i + k, [
        lambda: x, lambda: 2 * x, lambda: x * x]) for k in range(3)], tf.constant(0), _X),
    "gradient_of_case": (with_gradient(lambda x: tf.switch_case(tf.cast(x[0, 0, 1] * 7, tf.int32), [
        lambda: x, lambda: 2 * x])), _X),
    "identities": (with_gradient(lambda x: tf.identity_n([tf.identity(x), tf.stop_gradient(x)])), _X),
    "printed": (lambda x: tf.compat.v1.Print(x, [x, "and", _INTS], "values: ", summarize=4), _X),
    "numbers_checked": (lambda x: tf.debugging.check_numerics(x, "x"), _X),
    "quantized": (lambda x: tf.quantization.quantize_and_dequantize_v2(x, -1., 1.), _X),
})

programs_of("lists", {
    "of_tensors": (with_gradient(lambda x: tf.TensorArray(tf.float32, 2).unstack(x).write(
        1, x[0] * 2).stack()), _X),
    "concatenated": (with_gradient(lambda x: tf.TensorArray(tf.float32, 2).unstack(x).concat()), _X),
    "gathered": (with_gradient(lambda x: tf.TensorArray(tf.float32, 2).unstack(x).gather([1, 0, 1])),
                 _X),
    "scattered": (lambda x: tf.TensorArray(tf.float32, 4, infer_shape=False).scatter(
        [3, 1], x).read(3), _X),
    "split": (lambda x: tf.TensorArray(tf.float32, 3, infer_shape=False).split(
        x[0], [1, 0, 2]).read(2), _X),
    "grown": (lambda x: tf.TensorArray(tf.float32, 0, dynamic_size=True).write(4, x).size(), _X),
    "pushed_and_popped": (lambda x: tf.raw_ops.TensorListPopBack(
        input_handle=tf.raw_ops.TensorListPushBack(input_handle=tf.raw_ops.EmptyTensorList(
            element_shape=[2, 3, 4], max_num_elements=3, element_dtype=tf.float32), tensor=x),
        element_shape=[2, 3, 4], element_dtype=tf.float32)[1], _X),
    "length_and_shape": (lambda x: (lambda made: (
        tf.raw_ops.TensorListLength(input_handle=made),
        tf.raw_ops.TensorListElementShape(input_handle=made, shape_type=tf.int32),
        tf.raw_ops.TensorListGetItem(input_handle=made, index=1, element_shape=[3, 4],
                                     element_dtype=tf.float32)))(
                                         tf.raw_ops.TensorListFromTensor(
                                             tensor=x, element_shape=[3, 4])), _X),
})

_SEED = tf.constant([3, 5])
programs_of("random", {
    "uniform": (lambda s: tf.random.stateless_uniform([2, 3], s, -1., 2.), _SEED),
    "uniform_integers": (lambda s: tf.random.stateless_uniform([7], s, -3, 9, tf.int32), _SEED),
    "all_integers": (lambda s: tf.random.stateless_uniform([7], s, None, None, tf.int64), _SEED),
    "normal": (lambda s: tf.random.stateless_normal([5], s, 1., .5, tf.float64), _SEED),
    "truncated_normal": (lambda s: tf.random.stateless_truncated_normal([9], s), _SEED),
    "categories": (lambda s: tf.random.stateless_categorical([[.1, 2., 1.], [0., 0., 9.]], 8, s), _SEED),
    "gamma": (lambda s: tf.random.stateless_gamma([4, 2], s, [.5, 3.]), _SEED),
    "binomial": (lambda s: tf.random.stateless_binomial([6, 1], s, [9.], [.3]), _SEED),
    "poisson": (lambda s: tf.random.stateless_poisson([6, 2], s, [2.5, .3]), _SEED),
    "shuffled": (lambda s: tf.random.experimental.stateless_shuffle(tf.range(9), s), _SEED),
    "index_shuffled": (lambda s: tf.random.experimental.index_shuffle(
        tf.range(9), s, 8), _SEED),
    "folded": (lambda s: (tf.random.fold_in(s, 3), tf.random.split(s, 2)), _SEED),
    "with_seeds": (lambda: (tf.random.uniform([3], seed=5), tf.random.normal([3], seed=6),
                            tf.random.uniform([4], 0, 9, tf.int32, seed=7),
                            tf.random.truncated_normal([3], seed=8)),),
    "shuffled_with_seed": (lambda: tf.random.shuffle(tf.range(8), seed=3),),
    "candidates": (lambda y: (
        tf.random.log_uniform_candidate_sampler(y, 1, 3, True, 20, seed=4),
        tf.random.uniform_candidate_sampler(y, 1, 3, True, 20, seed=4),
        tf.nn.compute_accidental_hits(y, tf.constant([7, 1, 2], tf.int64), 1)),
                   tf.constant([[1], [7]], tf.int64)),
})

_SYMMETRIC = tf.matmul(_SQUARE, _SQUARE, transpose_b=True) + tf.eye(3)
programs_of("linalg", {
    "cholesky": (with_gradient(tf.linalg.cholesky), _SYMMETRIC),
    "inverse": (with_gradient(tf.linalg.inv), _SQUARE),
    "solve": (with_gradient(tf.linalg.solve), _SQUARE, _SQUARE[..., :2]),
    "triangular_solve": (with_gradient(tf.linalg.triangular_solve), _SQUARE, _SQUARE[..., :2]),
    "log_determinant": (with_gradient(lambda a: tf.linalg.slogdet(a)[1]), _SQUARE),
    "eigenvalues": (with_gradient(lambda a: tf.linalg.eigvalsh(a)), _SYMMETRIC),
    "singular_values": (with_gradient(lambda a: tf.linalg.svd(a, compute_uv=False)), _SQUARE),
    "general_eigenvalues": (lambda a: tf.sort(tf.math.real(tf.linalg.eigvals(a))), _SYMMETRIC),
})
_SIGNAL = tf.cast(_COMPLEX, tf.complex64)
programs_of("signal", {name: (with_gradient(getattr(tf.signal, name)), _SIGNAL) for name in (
    "fft", "ifft", "fft2d", "ifft2d", "fft3d", "ifft3d", "irfft", "irfft2d")})
programs_of("signal", {name: (with_gradient(getattr(tf.signal, name)), _X) for name in (
    "rfft", "rfft2d", "dct")})
programs_of("signal", {
    "rfft3d": (tf.signal.rfft3d, _X),
    "irfft3d": (tf.signal.irfft3d, _SIGNAL),
    "stft": (with_gradient(lambda x: tf.abs(tf.signal.stft(x, 8, 3))), tf.reshape(_X, [2, 12])),
})
