"""More programs for test_function.py: functions of tf.math and tf.nn, one or more for each op."""
import numpy as np
import tensorflow as tf

from programs import programs_of
from programs import with_gradient

_RANDOM = np.random.default_rng(7)


def _uniform(*shape, low=0., high=1.):
  return tf.constant(_RANDOM.uniform(low, high, shape), tf.float32)


def _of_both(f):
  """In float and in double, with gradients."""
  def run(*arguments):
    return (with_gradient(f)(*arguments),
            with_gradient(f)(*(tf.cast(x, tf.float64) for x in arguments)))
  return run


_X = _uniform(3, 5, low=.1, high=.9)
_Y = _uniform(3, 1, low=.2, high=.8)
_MATRIX = _uniform(4, 6, low=-1)
_INTS = tf.constant([[-7, 8, 3, -1], [2, -5, 9, 6]])
_SIGNS = tf.constant([[3, -3, 2, 5], [-2, 4, -4, 1]])
_COMPLEX = tf.complex(_uniform(3, 4, low=-1), _uniform(3, 4, low=-1))
_IDS = tf.constant([0, 2, 2, 5])
_SORTED = tf.constant([0, 0, 1, 3])
_NONE = tf.constant([[np.nan, 1., -np.inf], [0., -0., np.inf]])

_UNARY = """abs acos asin asinh atan atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e ceil cos cosh digamma
erf erfc erfinv exp expm1 floor lgamma log log1p log_sigmoid ndtri negative reciprocal rint round rsqrt
sigmoid sign sin sinh softplus softsign sqrt square tan tanh""".split()
programs_of("math", {name: (_of_both(getattr(tf.math, name)), _X) for name in _UNARY})
programs_of("math", {"acosh": (_of_both(tf.math.acosh), _X + 1)})

_BINARY = """add atan2 divide divide_no_nan floordiv floormod igamma igammac maximum minimum
multiply multiply_no_nan pow squared_difference subtract xdivy xlog1py xlogy""".split()
programs_of("math", {name: (_of_both(getattr(tf.math, name)), _X, _Y) for name in _BINARY})
_INTEGERS = """add floordiv floormod maximum minimum multiply subtract truediv equal greater
greater_equal less less_equal not_equal""".split()
programs_of("integers", {name: (getattr(tf.math, name), _INTS, _SIGNS) for name in _INTEGERS})
programs_of("integers", {
    "truncatediv": (tf.truncatediv, _INTS, _SIGNS),
    "truncatemod": (tf.truncatemod, _INTS, _SIGNS),
    "bitwise": (lambda x, y: (x & y, x | y, x ^ y, ~x), _INTS, _SIGNS),
    "shifts": (lambda x, y: (tf.bitwise.left_shift(x, y), tf.bitwise.right_shift(x, y)),
               _INTS, abs(_SIGNS)),
    "cast": (lambda x: [tf.cast(x, t) for t in (tf.float32, tf.int8, tf.uint8, tf.bool, tf.int64,
                                                tf.bfloat16, tf.complex64)], _INTS),
    "range": (lambda n: (tf.range(n), tf.range(1, n, 3), tf.range(n, 0, -2)), tf.constant(9)),
})

programs_of("math", {
    "logic": (lambda a, b: (a & b, a | b, a ^ b, ~a), _INTS > 0, _SIGNS > 0),
    # TensorFlow's optimizer of graphs makes other ops of these, with other results.
    "powers_by_constants": (with_gradient(lambda x: [
        tf.pow(x, y) for y in (2., 3., .5, -.5, -1., 4.)]), tf.concat([_X, [[0., -1., 1., 4., 9.]]], 0)),
    "powers_of_what_is_no_number": (lambda x: [tf.pow(x, y) for y in (2., 3., .5, -.5)], _NONE),
    "powers_of_integers": (lambda x: (x ** 2, x ** 3), _INTS),
    "logarithm_of_softmax": (lambda x: tf.math.log(tf.nn.softmax(x)) * 2.,
                             tf.constant([[0., 200., -300.], [1., 2., 3.]])),
    "logarithm_of_softmax_and_itself": (lambda x: [tf.math.log(y) * y for y in [tf.nn.softmax(x)]],
                                        tf.constant([[0., 200., -300.], [1., 2., 3.]])),
    "logarithms_and_exponentials_of_small_numbers": (_of_both(lambda x: (
        1e6 * tf.math.log(1. + x * 1e-6), 1e6 * tf.math.log(x * 1e-6 + 1.),
        1e6 * (tf.exp(x * 1e-6) - 1.))), _X),
    "is_what": (lambda x: (tf.math.is_nan(x), tf.math.is_inf(x), tf.math.is_finite(x)), _NONE),
    "comparisons_of_no_numbers": (lambda x: (x == x, x < 1, x >= 0, tf.maximum(x, 0.),
                                             tf.minimum(x, 0.), tf.sign(x)), _NONE),
    "matmul": (with_gradient(lambda a, b: tf.matmul(a, b, transpose_b=True)), _MATRIX, _MATRIX),
    "batch_matmul": (with_gradient(tf.matmul), _uniform(2, 3, 4), _uniform(4, 5)),
    "einsum": (with_gradient(lambda a, b: tf.einsum("bij,bkj->bik", a, b)), _uniform(2, 3, 4),
               _uniform(2, 5, 4)),
    "reductions": (with_gradient(lambda x: (
        tf.reduce_sum(x, 1), tf.reduce_mean(x), tf.reduce_prod(x, 0, keepdims=True),
        tf.reduce_max(x, [0, 1]), tf.reduce_min(x, -1), tf.reduce_logsumexp(x, 1))), _MATRIX),
    "reductions_of_bools": (lambda x: (tf.reduce_all(x, 1), tf.reduce_any(x, 0)), _INTS > 2),
    "variance": (with_gradient(lambda x: (tf.math.reduce_std(x, 1),
                                          tf.math.reduce_euclidean_norm(x, 0))), _MATRIX),
    "argmax": (lambda x: (tf.argmax(x), tf.argmax(x, 1, tf.int32)), _MATRIX),
    "argmin": (lambda x: (tf.argmin(x, 1), tf.argmin(x, 0, tf.int32)), _MATRIX),
    "add_n": (with_gradient(lambda *x: tf.add_n(x)), _MATRIX, 2 * _MATRIX, 3 * _MATRIX),
    "select": (with_gradient(lambda x: (tf.where(x > 0, x, 0.), tf.compat.v1.where(
        x > 0, x, 2 * x))), _MATRIX),
    "clip_by_value": (with_gradient(lambda x: tf.clip_by_value(x, -.3, .4)), _MATRIX),
    "raw_clip_by_value": (lambda x: tf.raw_ops.ClipByValue(t=x, clip_value_min=-.3,
                                                           clip_value_max=.4), _MATRIX),
    "cumsum": (with_gradient(lambda x: tf.cumsum(x, 1, exclusive=True, reverse=True)), _MATRIX),
    "cumprod": (with_gradient(lambda x: tf.math.cumprod(x, 0)), _MATRIX),
    "cumulative_logsumexp": (with_gradient(lambda x: tf.math.cumulative_logsumexp(x, 1)), _MATRIX),
    "bincount": (lambda x, w: (tf.math.bincount(x), tf.math.bincount(x, weights=w, minlength=8)),
                 _IDS, _uniform(4)),
    "bucketize": (lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-.5, 0., .5]), _MATRIX),
    "polygamma": (_of_both(tf.math.polygamma), tf.constant([[1.], [2.], [3.]]), _X),
    "zeta": (_of_both(tf.math.zeta), _X + 1.5, _Y + 1),
    "betainc": (lambda a, b, x: tf.math.betainc(a, b, x), _X, _X + .3, _X),
    "nextafter": (lambda x, y: tf.math.nextafter(x, y), _X, _X + 1),
    "segments": (with_gradient(lambda x, i: (tf.math.segment_sum(x, i), tf.math.segment_mean(x, i),
                                             tf.math.segment_max(x, i), tf.math.segment_min(x, i))),
                 _MATRIX, _SORTED),
    "segment_prod": (lambda x, i: tf.math.segment_prod(x, i), _MATRIX, _SORTED),
})
programs_of("math", {name: (with_gradient(lambda x, i, f=getattr(tf.math, name): f(x, i, 7)), _MATRIX, _IDS)
                     for name in ["unsorted_segment_" + kind for kind in (
                         "sum", "min", "max", "prod", "mean", "sqrt_n")]})

programs_of("complex", {
    "parts": (lambda z: (tf.math.real(z), tf.math.imag(z), tf.math.conj(z), tf.abs(z),
                         tf.math.angle(z)), _COMPLEX),
    "of_parts": (with_gradient(lambda x, y: tf.complex(x, y)), _X, 2 * _X),
    "real": (with_gradient(tf.math.real), _COMPLEX),
    "imag": (with_gradient(tf.math.imag), _COMPLEX),
    "conj": (with_gradient(lambda z: tf.math.conj(z) * z), _COMPLEX),
    "abs": (with_gradient(tf.abs), _COMPLEX),
    "functions": (lambda z: (tf.exp(z), tf.sin(z), tf.sqrt(z), tf.tanh(z), 1 / z, z ** 2), _COMPLEX),
})

# ------------------------------------------------------------------------------------------ tf.nn
_IMAGE = _uniform(2, 7, 8, 3, low=-1)
_VOLUME = _uniform(1, 5, 6, 7, 2, low=-1)
_LOGITS = _uniform(4, 6, low=-3, high=3)
_LABELS = tf.constant([1, 0, 5, 3])
programs_of("nn", {name: (_of_both(getattr(tf.nn, name)), _MATRIX) for name in (
    "elu", "gelu", "leaky_relu", "log_softmax", "l2_loss", "relu", "relu6", "selu", "silu", "softmax",
    "softplus", "softsign")})
programs_of("nn", {
    "bias_add": (with_gradient(tf.nn.bias_add), _IMAGE, _uniform(3)),
    "conv2d": (with_gradient(lambda x, k: tf.nn.conv2d(x, k, [1, 2], "SAME")), _IMAGE,
               _uniform(3, 2, 3, 4)),
    "conv2d_dilated": (lambda x, k: tf.nn.conv2d(
        x, k, 1, [[0, 0], [1, 2], [0, 3], [0, 0]], dilations=2), _IMAGE, _uniform(2, 2, 3, 4)),
    "conv2d_transpose": (with_gradient(lambda x, k: tf.nn.conv2d_transpose(
        x, k, [2, 14, 16, 5], 2)), _IMAGE, _uniform(3, 3, 5, 3)),
    "conv1d": (with_gradient(lambda x, k: tf.nn.conv1d(x, k, 2, "VALID")), _uniform(2, 9, 3),
               _uniform(4, 3, 2)),
    "conv3d": (with_gradient(lambda x, k: tf.nn.conv3d(x, k, [1, 1, 2, 1, 1], "SAME")), _VOLUME,
               _uniform(2, 3, 2, 2, 3)),
    "conv3d_transpose": (with_gradient(lambda x, k: tf.nn.conv3d_transpose(
        x, k, [1, 5, 6, 7, 3], [1, 1, 1, 1, 1])), _VOLUME, _uniform(2, 3, 2, 3, 2)),
    "depthwise_conv2d": (with_gradient(lambda x, k: tf.nn.depthwise_conv2d(
        x, k, [1, 1, 1, 1], "SAME")), _IMAGE, _uniform(3, 3, 3, 2)),
    "separable_conv2d": (with_gradient(lambda x, d, p: tf.nn.separable_conv2d(
        x, d, p, [1, 1, 1, 1], "VALID")), _IMAGE, _uniform(2, 3, 3, 2), _uniform(1, 1, 6, 4)),
    "max_pool": (with_gradient(lambda x: tf.nn.max_pool(x, 3, 2, "SAME")), _IMAGE),
    "avg_pool": (with_gradient(lambda x: tf.nn.avg_pool(x, [2, 3], 2, "VALID")), _IMAGE),
    "max_pool3d": (with_gradient(lambda x: tf.nn.max_pool3d(x, 2, 2, "SAME")), _VOLUME),
    "avg_pool3d": (with_gradient(lambda x: tf.nn.avg_pool3d(x, [2, 3, 2], 2, "VALID")), _VOLUME),
    "dilation2d": (with_gradient(lambda x, k: tf.nn.dilation2d(
        x, k, [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1])), _IMAGE, _uniform(2, 2, 3)),
    "erosion2d": (lambda x, k: tf.nn.erosion2d(
        x, k, [1, 2, 1, 1], "VALID", "NHWC", [1, 1, 1, 1]), _IMAGE, _uniform(2, 2, 3)),
    "batch_norm": (with_gradient(lambda x, s, o: tf.compat.v1.nn.fused_batch_norm(
        x, s, o, epsilon=.01)), _IMAGE, _uniform(3), _uniform(3)),
    "batch_norm_at_inference": (with_gradient(lambda x, s, o: tf.compat.v1.nn.fused_batch_norm(
        x, s, o, o, s, .01, is_training=False)[0]), _IMAGE, _uniform(3), _uniform(3)),
    "moments": (with_gradient(lambda x: tf.nn.moments(x, [0, 1])), _IMAGE),
    "softmax_cross_entropy": (with_gradient(lambda x, y: tf.nn.softmax_cross_entropy_with_logits(
        tf.nn.softmax(y), x)), _LOGITS, 2 * _LOGITS),
    "sparse_softmax_cross_entropy": (with_gradient(
        lambda y, x: tf.nn.sparse_softmax_cross_entropy_with_logits(y, x)), _LABELS, _LOGITS),
    "sigmoid_cross_entropy": (with_gradient(
        lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(tf.sigmoid(y), x)), _LOGITS, 2 * _LOGITS),
    "top_k": (with_gradient(lambda x: tf.nn.top_k(x, 3)), _LOGITS),
    "in_top_k": (lambda y, x: tf.math.in_top_k(y, x, 2), _LABELS, _LOGITS),
    "accumulate_n": (lambda x, y: tf.raw_ops.AccumulateNV2(inputs=[x, y, x], shape=[3, 5]), _X, _X + 1),
    "l2_normalize": (with_gradient(lambda x: tf.nn.l2_normalize(x, 1)), _LOGITS),
    "isotonic_regression": (with_gradient(tf.nn.isotonic_regression), _LOGITS),
    "ctc_loss": (with_gradient(lambda y, x: tf.compat.v1.nn.ctc_loss(
        tf.sparse.from_dense([[1, 2], [3, 0]]), x, [4, 3])), tf.constant(0),
                 _uniform(4, 2, 6, low=-2, high=2)),
    "ctc_greedy_decoder": (lambda x: tf.nn.ctc_greedy_decoder(x, [4, 3]),
                           _uniform(4, 2, 6, low=-2, high=2)),
    "fractional_max_pool": (lambda x: tf.nn.fractional_max_pool(x, 1.5, seed=3)[0], _IMAGE),
    "fractional_avg_pool": (lambda x: tf.nn.fractional_avg_pool(x, [1., 1.5, 1.2, 1.], seed=3)[0], _IMAGE),
    "quantized_for_training": (with_gradient(lambda x, lo, hi: (
        tf.quantization.fake_quant_with_min_max_vars(x, lo, hi, 6),
        tf.quantization.fake_quant_with_min_max_args(x, -.5, .7))), _MATRIX, tf.constant(-.6),
                               tf.constant(.8)),
    "quantized_narrowly": (with_gradient(
        lambda x, lo, hi: tf.quantization.fake_quant_with_min_max_vars(x, lo, hi, 4, True)),
                           _MATRIX, tf.constant(-.2), tf.constant(.9)),
    "quantized_by_channels": (with_gradient(
        lambda x, lo, hi: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, lo, hi)),
                              _IMAGE, -_uniform(3), _uniform(3)),
})
