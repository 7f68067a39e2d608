"""Patches of images and volumes."""
import numpy as np

from generate import case, error, tensor, uniform, zeros

TYPES = ["bfloat16", "half", "float", "double", "int8", "int16", "int32", "int64", "uint8",
         "uint16", "uint32", "uint64"]
I, V = "ExtractImagePatches", "ExtractVolumePatches"


def values(dtype, shape):
  return tensor(dtype, np.arange(1, np.prod(shape) + 1).reshape(shape) % 100)


def image(x, ksizes, strides=(1, 1), rates=(1, 1), padding="VALID"):
  case(I, x, ksizes=[1, *ksizes, 1], strides=[1, *strides, 1], rates=[1, *rates, 1],
       padding=padding)


def volume(x, ksizes, strides=(1, 1, 1), padding="VALID"):
  case(V, x, ksizes=[1, *ksizes, 1], strides=[1, *strides, 1], padding=padding)


for dtype in TYPES + ["complex64", "complex128"]:
  image(values(dtype, [2, 4, 5, 2]), [2, 3], [2, 1], [1, 2], "SAME")
for dtype in TYPES:
  volume(values(dtype, [2, 3, 4, 3, 2]), [2, 3, 2], [1, 2, 2], "SAME")
for padding in ["SAME", "VALID"]:
  for ksizes in [[1, 1], [3, 2], [5, 5]]:
    for strides in [[1, 1], [2, 3], [6, 4], [7, 9]]:
      for rates in [[1, 1], [2, 1]]:
        if padding == "SAME" or (ksizes[0] - 1) * rates[0] < 7:
          image(values("float", [1, 7, 6, 2]), ksizes, strides, rates, padding)
  for ksizes in [[1, 1, 1], [2, 1, 3], [3, 3, 3]]:
    for strides in [[1, 1, 1], [2, 3, 1], [5, 4, 6]]:
      volume(values("float", [1, 4, 3, 7, 2]), ksizes, strides, padding)
image(values("float", [1, 3, 3, 1]), [4, 4])
image(values("float", [1, 2, 2, 1]), [7, 9], padding="SAME")
volume(values("float", [1, 3, 3, 3, 1]), [4, 1, 1])
image(uniform([3, 64, 50, 3]), [8, 8], [4, 4], padding="SAME")
volume(uniform([2, 20, 16, 12, 4]), [3, 3, 3], [2, 2, 2], "SAME")
for shape in [[0, 3, 3, 1], [1, 3, 3, 0], [1, 0, 3, 1]]:
  image(zeros(shape), [2, 1], padding="SAME")

ONES, K = [1, 1, 1, 1], [1, 2, 2, 1]
M = zeros([1, 3, 3, 1])
for x, ksizes, strides, rates, text in [
    (zeros([3, 3, 1]), K, ONES, ONES, "input must be 4-dimensional[3,3,1]"),
    (M, [2, 2, 2, 1], ONES, ONES, "Only support ksizes across space."),
    (M, [1, 2, 2, 2], ONES, ONES, "Only support ksizes across space."),
    (M, [1, 0, 2, 1], ONES, ONES, "ksizes is out of range."),
    (M, [1, 2, -1, 1], ONES, ONES, "ksizes is out of range."),
    (M, K, [2, 1, 1, 1], ONES, "Only support strides across space."),
    (M, K, [1, 0, 1, 1], ONES, "strides is out of range."),
    (M, K, ONES, [1, 1, 1, 2], "Only support rates across space."),
    (M, K, ONES, [1, 1, 0, 1], "rates is out of range."),
    (M, [1, 5, 5, 1], ONES, ONES, "Computed output size would be negative: -1 [input_size: 3")]:
  error(I, x, ksizes=ksizes, strides=strides, rates=rates, padding="VALID", text=text)
FIVE, K3 = [1] * 5, [1, 2, 2, 2, 1]
N = zeros([1, 3, 3, 3, 1])
for x, ksizes, strides, text in [
    (zeros([3, 3, 3, 1]), K3, FIVE, "input must be 5-dimensional[3,3,3,1]"),
    (N, [2, 2, 2, 2, 1], FIVE, "Only support ksizes across space."),
    (N, [1, 2, 0, 2, 1], FIVE, "ksizes is out of range."),
    (N, K3, [1, 1, 1, 1, 2], "Only support strides across space."),
    (N, K3, [1, 1, 1, -1, 1], "strides is out of range."),
    (N, [1, 1, 1, 5, 1], FIVE, "Computed output size would be negative: -1 [input_size: 3")]:
  error(V, x, ksizes=ksizes, strides=strides, padding="VALID", text=text)
