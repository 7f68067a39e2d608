"""Boxes within an image that are drawn, whose kernels are those of the family random."""
from generate import case, error, tensor, zeros

ONE, TWO, STATELESS = ("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2",
                       "StatelessSampleDistortedBoundingBox")
BOXES = [[[0.1, 0.2, 0.7, 0.9], [0.5, 0.5, 0.5, 0.9]], [[0.0, 0.0, 0.25, 0.25], [0.3, 0.1, 1.0, 0.4]]]
SIZE = [480, 640, 3]
SEEDS = {"seed": 3, "seed2": 9}


def seed(a, b):
  return tensor("int64", [a, b])


for k, options in enumerate([
    {}, {"aspect_ratio_range": [0.5, 2.0]}, {"area_range": [0.5, 1.0]}, {"max_attempts": 1},
    {"area_range": [0.9, 1.0], "aspect_ratio_range": [0.2, 0.4]}, {"area_range": [0.6, 0.3]},
    {"area_range": [0.08, 1.0], "use_image_if_no_bounding_boxes": True}]):
  case(ONE, SIZE, BOXES, **SEEDS, **options)
  for least in [0.0, 0.1, 0.7, 1.5]:
    case(TWO, SIZE, BOXES, least, **SEEDS, **options)
    for n in range(4):
      case(STATELESS, SIZE, BOXES, least, seed(n, k), **options)
for dtype, size in [("uint8", [200, 100, 3]), ("int8", [100, 120, 3]), ("int16", [1, 1, 1]),
                    ("int32", [7, 3, 0]), ("int64", [2000, 3000, 3])]:
  for n in range(3):
    case(STATELESS, tensor(dtype, size), BOXES, 0.1, seed(n, 5))
    case(STATELESS, tensor(dtype, size), zeros([1, 0, 4]), 0.1, [n, 5],
         use_image_if_no_bounding_boxes=True)
case(STATELESS, [0, 5, 3], zeros([0, 2, 4]), 0.1, seed(1, 2), use_image_if_no_bounding_boxes=True)

for inputs, text in [
    (([[480, 640, 3]], BOXES, 0.1), "image_size must be 1-dimensional"),
    (([480, 640], BOXES, 0.1), "image_size must contain 3 elements"),
    (([-1, 640, 3], BOXES, 0.1), "image height cannot be >= int32 max"),
    ((tensor("int64", [5, 2**31, 3]), BOXES, 0.1), "image width cannot be >= int32 max"),
    ((SIZE, BOXES[0], 0.1), "input boxes must be 3-dimensional [batch, num_boxes, coords]:"),
    ((SIZE, zeros([1, 2, 3]), 0.1), "bounding boxes must have shape [4] or [*, 4], got [1,2,3]"),
    ((SIZE, BOXES, [0.1]), "min_object_covered must be 0-D, got shape [1]"),
    ((SIZE, BOXES, -0.5), "Min object covered must be non-negative: -0.5"),
    ((SIZE, [[[0.0, 0.5, 1.5, 1.0]]], 0.1), "All bounding box coordinates must be in [0.0, 1.0]: 1.5"),
    ((SIZE, zeros([1, 0, 4]), 0.1), "No bounding boxes provided as input.")]:
  error(STATELESS, *inputs, seed(1, 2), text=text)
  error(TWO, *inputs, **SEEDS, text=text)
error(STATELESS, SIZE, BOXES, 0.1, tensor("int64", [1, 2, 3]), text="seed must have shape [2], not [3]")
for options, text in [
    ({"aspect_ratio_range": [1.0]}, "Aspect ratio range field must specify 2 dimensions"),
    ({"aspect_ratio_range": [0.0, 1.0]}, "Aspect ratio range must be non-negative: [0, 1]"),
    ({"area_range": [0.5]}, "Area range field must specify 2 dimensions"),
    ({"area_range": [0.5, -1.0]}, "Area range must be non-negative: [0.5, -1]"),
    ({"area_range": [0.5, 1.5]}, "Area range must be less then or equal to 1.0: [0.5, 1.5]"),
    ({"max_attempts": 0}, "Max attempts must be non-negative: 0")]:
  error(TWO, SIZE, BOXES, 0.1, text=text, **options)
