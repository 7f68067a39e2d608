"""Non-maximum suppression. Half boxes lie on a grid of eighths, where each step is exact."""
import numpy as np

from generate import case, error, tensor, uniform, zeros

NAN = float("nan")
RANDOM = np.random.RandomState(3)


def boxes_of(n, dtype="float"):
  corners = RANDOM.randint(0, 9, (n, 2)) / 8
  sizes = RANDOM.randint(0, 7, (n, 2)) / 8
  boxes = np.concatenate([corners, corners + sizes], 1)
  flipped = RANDOM.randint(0, 2, n).astype(bool)
  boxes[flipped] = boxes[flipped][:, [2, 1, 0, 3]]
  return tensor(dtype, boxes)


def scores_of(n, dtype="float"):
  return tensor(dtype, RANDOM.randint(-3, 17, n) / 16)


for dtype in ["float", "half"]:
  number = lambda x, dtype=dtype: tensor(dtype, x)  # pylint: disable=cell-var-from-loop
  for n in [1, 25]:
    for most in [0, 3, 100]:
      for overlap in [0.0, 0.5]:
        boxes, scores = boxes_of(n, dtype), scores_of(n, dtype)
        case("NonMaxSuppressionV2", boxes, scores, most, number(overlap))
        case("NonMaxSuppressionV3", boxes, scores, most, number(overlap), number(0.25))
        for padded in [False, True]:
          case("NonMaxSuppressionV4", boxes, scores, most, number(overlap), number(0.25),
               pad_to_max_output_size=padded)
          case("NonMaxSuppressionV5", boxes, scores, most, number(overlap), number(0.25),
               number(0.0), pad_to_max_output_size=padded)
for sigma in [0.1, 0.5, 3.0]:
  case("NonMaxSuppressionV5", boxes_of(30), scores_of(30), 20, 0.5, 0.1, sigma,
       tolerance="rel 1e-5 abs 1e-6")
case("NonMaxSuppression", boxes_of(20), scores_of(20), 7)
case("NonMaxSuppression", boxes_of(20), scores_of(20), 7, iou_threshold=0.1)
case("NonMaxSuppressionV3", boxes_of(4), [0.5, NAN, float("inf"), 0.25], 4, 0.5, 0.0)
case("NonMaxSuppressionV3", boxes_of(300), uniform([300], 0, 1, 4), 50, 0.3, 0.2)
case("NonMaxSuppressionV3", zeros([0, 4]), zeros([0]), 4, 0.5, 0.0)
for overlap in [0.2, 0.6, 3.0]:
  case("NonMaxSuppressionWithOverlaps", uniform([25, 25], 0, 1, 5), scores_of(25), 10, overlap, 0.1)

V2, V3, V5 = "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV5"
B, S = zeros([3, 4]), zeros([3])
error(V3, zeros([3]), S, 2, 0.5, 0.0, text="boxes must be 2-D[3]")
error(V3, zeros([3, 5]), S, 2, 0.5, 0.0, text="boxes must have 4 columns")
error(V3, B, zeros([3, 1]), 2, 0.5, 0.0, text="scores must be 1-D[3,1]")
error(V3, B, zeros([2]), 2, 0.5, 0.0, text="scores has incompatible shape")
error(V3, B, S, -1, 0.5, 0.0, text="output size must be non-negative")
error(V3, B, S, [2], 0.5, 0.0, text="max_output_size must be 0-D, got shape [1]")
error(V3, B, S, 2, [0.5], 0.0, text="iou_threshold must be 0-D, got shape [1]")
error(V3, B, S, 2, 0.5, [0.0], text="score_threshold must be 0-D, got shape [1]")
for overlap in [-0.1, 1.5, NAN]:
  error(V2, B, S, 2, overlap, text="iou_threshold must be in [0, 1]")
error(V5, B, S, 2, 0.5, 0.0, [0.1], text="soft_nms_sigma must be 0-D, got shape [1]")
error(V5, B, S, 2, 0.5, 0.0, -1.0, text="soft_nms_sigma_val must be >= 0")
W = "NonMaxSuppressionWithOverlaps"
error(W, zeros([3]), S, 2, 0.5, 0.0, text="overlaps must be 2-D[3]")
error(W, zeros([3, 4]), S, 2, 0.5, 0.0, text="overlaps must be square[3,4]")
error(W, zeros([3, 3]), zeros([2]), 2, 0.5, 0.0, text="scores has incompatible shape")
error(W, zeros([3, 3]), S, 2, [0.5], 0.0, text="overlap_threshold must be 0-D, got shape [1]")

COMBINED = "CombinedNonMaxSuppression"
DETECTED = uniform([2, 9, 1, 4], -0.2, 1.2, 7)
CHANCES = uniform([2, 9, 3], 0, 1, 8)
for most, total in [(2, 4), (9, 50), (1, 2)]:
  for attrs in [{}, {"pad_per_class": True}, {"clip_boxes": False}]:
    case(COMBINED, DETECTED, CHANCES, most, total, 0.3, 0.2, **attrs)
case(COMBINED, uniform([2, 9, 3, 4], -0.2, 1.2, 9), CHANCES, 3, 6, 0.5, 0.5)
case(COMBINED, zeros([0, 9, 1, 4]), zeros([0, 9, 3]), 3, 6, 0.5, 0.5)
case(COMBINED, zeros([2, 0, 1, 4]), zeros([2, 0, 3]), 3, 6, 0.5, 0.5)
case(COMBINED, zeros([2, 9, 1, 4]), zeros([2, 9, 0]), 3, 6, 0.5, 0.5)
case(COMBINED, DETECTED, CHANCES, 2**31 - 1, 5, 0.5, 0.5, pad_per_class=True)
B4, S3 = zeros([2, 3, 1, 4]), zeros([2, 3, 2])
for given, text in [((B, S3, 1, 1, 0.5, 0.5), "boxes must be 4-D"),
                    ((B4, S, 1, 1, 0.5, 0.5), "scores must be 3-D"),
                    ((B4, zeros([1, 3, 2]), 1, 1, 0.5, 0.5), "must have same batch size"),
                    ((B4, zeros([2, 4, 2]), 1, 1, 0.5, 0.5), "scores has incompatible shape"),
                    ((zeros([2, 3, 3, 4]), S3, 1, 1, 0.5, 0.5),
                     "third dimension of boxes must be either 1 or num classes"),
                    ((zeros([2, 3, 1, 5]), S3, 1, 1, 0.5, 0.5), "boxes must have 4 columns"),
                    ((B4, S3, 0, 1, 0.5, 0.5), "max_size_per_class must be positive"),
                    ((B4, S3, [1], 1, 0.5, 0.5), "max_size_per_class must be 0-D, got shape [1]"),
                    ((B4, S3, 1, -1, 0.5, 0.5), "max_total_size must be > 0"),
                    ((B4, S3, 1, 1, NAN, 0.5), "iou_threshold must be in [0, 1]"),
                    ((B4, S3, 1, 1, [0.5], 0.5), "iou_threshold must be 0-D, got shape [1]")]:
  error(COMBINED, *given, text=text)
