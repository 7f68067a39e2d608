"""More programs for test_function.py: images as files, their colours, and boxes."""
import base64

import numpy as np
import tensorflow as tf

from programs import caught
from programs import program

_STEPS = np.random.default_rng(3).integers(-9, 10, (24, 31, 3))
_PICTURE = np.clip(_STEPS.cumsum(0).cumsum(1) + 128, 0, 255).astype(np.uint8)


@program
def files_of_images(function):
  @function
  def through(image, quality):
    jpeg = tf.io.encode_jpeg(image, quality=80)
    adjusted = tf.image.adjust_jpeg_quality(tf.cast(image, tf.float32) / 255., quality)
    png = tf.io.encode_png(image)
    shape = tf.io.extract_jpeg_shape(jpeg)
    return (jpeg, png, shape, adjusted, tf.io.decode_image(jpeg, expand_animations=False),
            tf.io.decode_jpeg(jpeg, ratio=2), tf.io.decode_png(png, dtype=tf.uint16),
            tf.io.decode_and_crop_jpeg(jpeg, [3, 4, 10, 12], channels=1),
            tf.image.convert_image_dtype(tf.io.decode_image(png), tf.float32))
  return through(tf.constant(_PICTURE), tf.constant(40))


@program
def files_of_many_images(function):
  @function
  def decode(files):
    return tf.map_fn(lambda x: tf.image.resize(tf.io.decode_image(
        x, channels=3, expand_animations=False), [8, 8]), files, fn_output_signature=tf.float32)
  return decode(tf.stack([tf.io.encode_png(_PICTURE), tf.io.encode_jpeg(_PICTURE[:9, :7])]))


# Of 9x7 pixels, by libwebp's cwebp.
_WEBP = base64.b64decode("UklGRi4AAABXRUJQVlA4ICIAAADQAQCdASoJAAcABABoJZQC7AD0uZ8CwAD7j6sXhoWQ4AAA")


@program
def a_webp(function):
  @function
  def decode(file):
    frames = tf.io.decode_webp(file, channels=3)
    return (frames, tf.io.decode_image(file, expand_animations=False),
            tf.image.resize(frames, [4, 4]))
  return decode(tf.constant(_WEBP)), caught(decode, tf.constant(_WEBP[:40]))


@program
def a_damaged_file(function):
  @function
  def decode(file):
    return tf.io.decode_png(file)
  file = tf.io.encode_png(_PICTURE).numpy()
  return decode(tf.constant(file)), caught(decode, tf.constant(file[:100]))


@program
def colours(function):
  @function
  def change(image, by):
    x = tf.image.convert_image_dtype(image, tf.float32)
    return (tf.image.rgb_to_hsv(x), tf.image.hsv_to_rgb(tf.image.rgb_to_hsv(x)),
            tf.image.adjust_hue(x, by), tf.image.adjust_saturation(image, 1.5),
            tf.image.adjust_contrast(x, by), tf.image.stateless_random_hue(x, 0.2, [1, 2]),
            tf.image.rgb_to_grayscale(x), tf.image.per_image_standardization(x))
  return change(tf.constant(_PICTURE), tf.constant(0.3))


@program
def boxes_without_overlaps(function):
  corners = np.random.default_rng(4).uniform(size=(30, 2)).astype(np.float32)
  boxes = np.concatenate([corners, corners + .4], 1)
  scores = np.random.default_rng(5).uniform(size=30).astype(np.float32)
  @function
  def select(boxes, scores):
    kept = tf.image.non_max_suppression(boxes, scores, 8, 0.4, 0.1)
    soft = tf.image.non_max_suppression_with_scores(boxes, scores, 8, soft_nms_sigma=0.5)
    padded = tf.image.non_max_suppression_padded(boxes, scores, 12, pad_to_max_output_size=True)
    return tf.gather(boxes, kept), soft, padded
  return select(tf.constant(boxes), tf.constant(scores))


@program
def crops_with_gradients(function):
  images = tf.random.stateless_uniform([2, 9, 11, 3], [3, 4])
  boxes = tf.constant([[.1, .2, .8, .7], [.9, .8, .1, .3], [-.2, 0., 1.3, 1.]])
  @function
  def crop(images, boxes, which):
    with tf.GradientTape() as tape:
      tape.watch([images, boxes])
      crops = tf.image.crop_and_resize(images, boxes, which, [4, 5], extrapolation_value=0.5)
      loss = tf.reduce_sum(crops ** 2)
    nearest = tf.image.crop_and_resize(images, boxes, which, [3, 3], method="nearest")
    return crops, nearest, *tape.gradient(loss, [images, boxes])
  return (crop(images, boxes, tf.constant([1, 0, 1])),
          caught(crop, images, boxes, tf.constant([1, 0, 2])))


@program
def patches_of_images_and_volumes(function):
  image = tf.random.stateless_uniform([2, 9, 11, 3], [5, 6])
  volume = tf.random.stateless_uniform([1, 5, 6, 4, 2], [7, 8])
  @function
  def patches(image, volume):
    return (tf.image.extract_patches(image, [1, 3, 2, 1], [1, 2, 3, 1], [1, 2, 1, 1], "SAME"),
            tf.image.extract_patches(image, [1, 4, 4, 1], [1, 4, 4, 1], [1, 1, 1, 1], "VALID"),
            tf.extract_volume_patches(volume, [1, 2, 3, 2, 1], [1, 2, 2, 1, 1], "SAME"))
  return patches(image, volume)


@program
def a_histogram(function):
  @function
  def count(values):
    return (tf.histogram_fixed_width(values, [-1., 1.5], 7),
            tf.histogram_fixed_width(tf.cast(values * 5., tf.int64), [-4, 9], 5, tf.int64))
  return count(tf.random.stateless_normal([4, 50], [9, 1]))


@program
def normalised_and_pooled(function):
  x = tf.random.stateless_uniform([2, 6, 7, 8], [1, 2], -2., 2.)
  @function
  def both(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = tf.nn.local_response_normalization(x, 2, 1.5, 0.3, 0.7)
      pooled, at = tf.nn.max_pool_with_argmax(y, 2, 2, "SAME", include_batch_in_index=True)
      loss = tf.reduce_sum(pooled ** 2)
    return y, pooled, at, tape.gradient(loss, x)
  return both(x)
