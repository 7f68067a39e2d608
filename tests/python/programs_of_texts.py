"""More programs for test_function.py: functions of strings, tables, images, sparse and ragged
values, datasets and files, one or more for each op."""
import numpy as np
import tensorflow as tf

from programs import programs_of
from programs import with_gradient

_TEXTS = tf.constant(["Hello  world", " a,b;c ", "", "Gr\xfc\xdfe \u4e2d", "123 45"])
_RAGGED = tf.ragged.constant([[1., 2.], [], [3., 4., 5.]])
_SPARSE = tf.sparse.SparseTensor([[0, 1], [1, 0], [1, 2]], [1., 2., 3.], [2, 3])
_DENSE = tf.reshape(tf.range(12.), [3, 4])
_IMAGE = tf.constant(np.random.default_rng(5).uniform(size=(2, 6, 7, 3)), tf.float32)

programs_of("strings", {
    "joined": (lambda t: (tf.strings.join([t, "!", t], "-"), tf.strings.reduce_join(t, separator="+"),
                          tf.strings.reduce_join([t, t], 0)), _TEXTS),
    "formatted": (lambda t: tf.strings.format("{} and {}", [t, tf.range(9)], summarize=2), _TEXTS),
    "of_numbers": (lambda: (tf.strings.as_string([1.5, -2e9, np.inf]), tf.strings.as_string(
        [1.5, 2.25], precision=1, width=6, fill="0"), tf.strings.as_string([True, False]),
                            tf.strings.as_string(tf.constant([1 << 40], tf.int64))),),
    "to_numbers": (lambda: (tf.strings.to_number(["1.5", "-inf"]), tf.strings.to_number(
        ["7", "-9"], tf.int64)),),
    "matched": (lambda t: (tf.strings.regex_full_match(t, ".*[a-z]+.*"), tf.strings.regex_replace(
        t, "([a-z])", "<\\1>"), tf.strings.regex_replace(t, "o", "0", replace_global=False)), _TEXTS),
    "matched_by_a_value": (lambda t, p: (tf.raw_ops.RegexFullMatch(input=t, pattern=p),
                                         tf.raw_ops.RegexReplace(input=t, pattern=p, rewrite="x")),
                           _TEXTS, tf.constant("[0-9 ]*")),
    "split": (lambda t: (tf.strings.split(t), tf.strings.split(t, ","), tf.strings.split(
        t, maxsplit=1)), _TEXTS),
    "split_as_version_1": (lambda t: tf.compat.v1.string_split(t, " ,"), _TEXTS),
    "joined_by_segments": (lambda t: tf.strings.unsorted_segment_join(t, [2, 0, 2, 0, 1], 4, "/"),
                           _TEXTS),
    "hashed": (lambda t: (tf.strings.to_hash_bucket_fast(t, 97), tf.strings.to_hash_bucket_strong(
        t, 97, [3, 4]), tf.strings.to_hash_bucket(t, 97)), _TEXTS),
    "cases": (lambda t: (tf.strings.lower(t), tf.strings.upper(t), tf.strings.lower(t, "utf-8"),
                         tf.strings.upper(t, "utf-8")), _TEXTS),
    "code_points": (lambda t: (tf.strings.unicode_decode(t, "UTF-8"), tf.strings.unicode_encode(
        tf.strings.unicode_decode(t, "UTF-8"), "UTF-16-BE"), tf.strings.unicode_split(t, "UTF-8"),
                               tf.strings.unicode_script(tf.constant([65, 0x4e2d]))), _TEXTS),
    "code_points_at": (lambda t: tf.strings.unicode_decode_with_offsets(t, "UTF-8"), _TEXTS),
    "transcoded": (lambda t: tf.strings.unicode_transcode(t, "UTF-8", "UTF-32-BE"), _TEXTS),
    "ngrams": (lambda t: tf.strings.ngrams(
        tf.strings.split(t), [1, 2], "|", ("<", ">")), _TEXTS),
    "stripped": (lambda t: (tf.strings.strip(t), tf.strings.length(t), tf.strings.length(
        t, "UTF8_CHAR")), _TEXTS),
    "parts": (lambda t: (tf.strings.substr(t[:1], 1, 4), tf.strings.substr(
        t[3:], [-2, 0], [2, 1], "UTF8_CHAR")), _TEXTS),
    "base64": (lambda t: tf.io.decode_base64(tf.io.encode_base64(t, pad=True)), _TEXTS),
    "bytes": (lambda t: (tf.io.decode_raw(tf.strings.substr(t[:2], 0, 4), tf.int16), tf.io.decode_raw(
        t, tf.uint8, fixed_length=3)), _TEXTS),
    "fields": (lambda: tf.io.decode_csv(["1,2.5,x", ",,"], [[7], [.5], ["none"]]),),
    "serialized": (lambda: tf.io.parse_tensor(tf.io.serialize_tensor(_DENSE), tf.float32),),
})


def _table_of_texts():
  table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
      ["a", "b"], tf.constant([1, 2], tf.int64)), -1)
  return lambda t: (table.lookup(t), table.size(), table.export()[1])


def _mutable_table():
  table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, [0., 0.])

  def run(keys):
    table.insert(keys, tf.cast(tf.stack([keys, -keys], 1), tf.float32))
    table.remove(keys[:1])
    exported = table.export()
    order = tf.argsort(exported[0])
    return table.lookup(keys), table.size(), [tf.gather(x, order) for x in exported]
  return run


def _dense_table():
  table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, -1, -2)

  def run(keys):
    table.insert(keys, 2 * keys)
    table.erase(keys[2:])
    return table.lookup(keys), table.size()
  return run


def _table_of(keys, values):
  """A table that is filled, imported into, looked up and removed from."""
  keys, values = tf.constant(keys), tf.constant(values)
  table = tf.lookup.experimental.MutableHashTable(keys.dtype, values.dtype, values[0])

  def run(k):
    table.insert(keys, values)
    before = table.lookup(k), table.size()
    table.remove(k[1:])
    after = table.lookup(k), table.size()
    tf.raw_ops.LookupTableImportV2(table_handle=table.resource_handle, keys=keys[1:], values=values[1:])
    return before, after, table.size(), table.lookup(k)
  return run, keys[::-1]


_KEYS = tf.constant([5, 3, 8], tf.int64)
programs_of("tables", {
    "of_numbers": _table_of(np.int64([1, 2, 3]), np.float32([.5, .25, 4])),
    "of_numbers_by_texts": _table_of([b"a", b"", b"\xff"], np.int64([4, 5, 6])),
    "of_texts_by_numbers": _table_of(np.int64([-1, 0, 1 << 40]), [b"x", b"y", b""]),
    "of_bools_by_texts": _table_of([b"k", b"l", b"m"], [True, False, True]),
    "of_short_numbers": _table_of(np.int32([7, 8, 9]), np.int32([1, 2, 3])),
    "of_texts": (_table_of_texts(), tf.constant(["b", "z", "a"])),
    "that_change": (_mutable_table(), _KEYS),
    "dense": (_dense_table(), _KEYS),
})


def _resized(method, antialias=False):
  return with_gradient(lambda x: tf.image.resize(x, [9, 4], method, antialias=antialias))


programs_of("images", {name: (_resized(name), _IMAGE) for name in ("bilinear", "bicubic", "nearest")})
programs_of("images", {
    "area": (lambda x: tf.image.resize(x, [4, 3], "area"), _IMAGE),
    "lanczos3": (_resized("lanczos3", True), _IMAGE),
    "bilinear_smoothed": (_resized("bilinear", True), _IMAGE),
    "transformed": (lambda x: tf.raw_ops.ImageProjectiveTransformV3(
        images=x, transforms=[[1., .2, -1., .1, .9, .5, 0., .01]], output_shape=[5, 8], fill_value=.5,
        interpolation="BILINEAR", fill_mode="REFLECT"), _IMAGE),
    "translated": (lambda x: tf.raw_ops.ScaleAndTranslate(
        images=x, size=[5, 6], scale=[.7, 1.2], translation=[1., -.5], kernel_type="triangle"), _IMAGE),
    "contrast": (lambda x: tf.image.adjust_contrast(x, .4), _IMAGE),
    "hue": (lambda x: tf.image.adjust_hue(x, .3), _IMAGE),
    "saturation": (lambda x: tf.image.adjust_saturation(x, 2.), _IMAGE),
    "hsv": (lambda x: (tf.image.rgb_to_hsv(x), tf.image.hsv_to_rgb(x)), _IMAGE),
    "flipped": (lambda x: (tf.image.flip_left_right(x), tf.image.rot90(x), tf.image.transpose(x)),
                _IMAGE),
    "patches": (lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 1, 2, 1], [1, 1, 1, 1],
                                                   "VALID"), _IMAGE),
    "gradients": (lambda x: (tf.image.image_gradients(x), tf.image.sobel_edges(x),
                             tf.image.total_variation(x)), _IMAGE),
    "boxes_drawn": (lambda x: tf.image.draw_bounding_boxes(x, [[[.1, .2, .7, .8]]] * 2, [[1., 0, 0]]),
                    _IMAGE),
    "jpeg": (lambda x: tf.io.decode_jpeg(tf.io.encode_jpeg(tf.cast(x[0] * 255, tf.uint8))), _IMAGE),
    "jpeg_of_any_quality": (lambda x: tf.image.adjust_jpeg_quality(x[0], 35), _IMAGE),
})

programs_of("ragged", {
    "to_tensor": (lambda r: (r.to_tensor(-1.), r.to_tensor(shape=[2, 4])), _RAGGED),
    "from_tensor": (lambda x: tf.RaggedTensor.from_tensor(x, lengths=[1, 0, 3]), _DENSE),
    "gathered": (lambda r: (tf.gather(r, [2, 0, 2]), r[1:], r[:, :1]), _RAGGED),
    "ranges": (lambda n: tf.ragged.range([0, 5, 1], n, [1, -2, 3]), tf.constant([3, 0, 9])),
    "as_variants": (lambda r: tf.RaggedTensor._from_variant(r._to_variant(), tf.float32, 1), _RAGGED),
    "batches_as_variants": (lambda r: tf.RaggedTensor._from_variant(
        r._to_variant(batched_input=True), tf.float32, 1), _RAGGED),
    "counted": (lambda r: tf.math.bincount(tf.cast(r, tf.int32), axis=-1), _RAGGED),
    "reduced": (lambda r: (tf.reduce_sum(r, 1), tf.reduce_max(r, 1), tf.reduce_mean(r, 0)), _RAGGED),
    "joined": (lambda r: (tf.concat([r, r], 1), tf.stack([r, r]), tf.reverse(r, [1])), _RAGGED),
    "to_sparse": (lambda r: r.to_sparse(), _RAGGED),
})
programs_of("sparse", {
    "to_dense": (lambda s: (tf.sparse.to_dense(s), tf.sparse.to_dense(s, -1.)), _SPARSE),
    "times_dense": (lambda s, x: tf.sparse.sparse_dense_matmul(s, x), _SPARSE, _DENSE),
    "reordered": (lambda v: tf.sparse.reorder(tf.sparse.SparseTensor(
        [[1, 2], [0, 1], [1, 0]], v, [2, 3])), tf.constant([3., 1., 2.])),
    "crossed": (lambda s: (tf.sparse.cross_hashed([s, s], 100), tf.sparse.cross([s, s])),
                tf.sparse.from_dense([["a", ""], ["b", "c"]])),
    "transposed": (lambda s: (tf.sparse.transpose(s), tf.sparse.reshape(s, [3, -1]),
                              tf.sparse.reduce_sum(s, 1)), _SPARSE),
    "looked_up": (lambda t, s: tf.nn.safe_embedding_lookup_sparse(t, s), _DENSE,
                  tf.sparse.SparseTensor([[0, 0], [2, 1]], tf.constant([1, 2], tf.int64), [3, 2])),
    "sets": (lambda x: (tf.sets.intersection(x, x[:, :1]), tf.sets.union(x, x), tf.sets.size(
        tf.sets.difference(x, x[:, 1:]))), tf.constant([[1, 2], [3, 4]])),
})


def _sum_of(dataset):
  return dataset.reduce(np.int64(0), lambda total, x: total + x)


programs_of("datasets", {
    "of_a_range": (lambda n: _sum_of(tf.data.Dataset.range(n)), tf.constant(6, tf.int64)),
    "mapped": (lambda n: _sum_of(tf.data.Dataset.range(n).map(lambda x: x * x)),
               tf.constant(6, tf.int64)),
    "batched": (lambda n: _sum_of(tf.data.Dataset.range(n).batch(4).map(tf.reduce_max)),
                tf.constant(6, tf.int64)),
    "of_slices": (lambda x: tf.data.Dataset.from_tensor_slices(x).reduce(
        tf.zeros([4]), lambda total, row: total + row), _DENSE),
    "scanned": (lambda n: _sum_of(tf.data.Dataset.range(n).scan(
        np.int64(1), lambda state, x: (state + x, state * x))), tf.constant(6, tf.int64)),
    "next_of_iterators": (lambda x: next(iter(tf.data.Dataset.from_tensors(x))), _DENSE),
    "optionals": (lambda x: (tf.experimental.Optional.from_value(x).get_value(),
                             tf.experimental.Optional.empty(
                                 tf.TensorSpec([], tf.int32)).has_value()), _DENSE),
})
programs_of("files", {
    "sharded_names": (lambda i: tf.raw_ops.ShardedFilename(basename="b", shard=i, num_shards=9),
                      tf.constant(4)),
    "one_example": (lambda: tf.io.parse_single_example(
        tf.train.Example().SerializeToString(),
        {"x": tf.io.FixedLenFeature([2], tf.float32, [1., 2.]), "y": tf.io.VarLenFeature(tf.string)}),),
    "names_of_many_shards": (lambda: [tf.raw_ops.ShardedFilename(basename=b, shard=0, num_shards=2)
                                      for b in ("a", "b/c", "")],),
    "examples": (lambda: tf.io.parse_example(
        [tf.train.Example(features=tf.train.Features(feature={
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=[1, 2]))})).SerializeToString()],
        {"x": tf.io.FixedLenFeature([2], tf.float32), "y": tf.io.VarLenFeature(tf.int64),
         "z": tf.io.RaggedFeature(tf.string)}),),
})
