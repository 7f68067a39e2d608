from generate import case, error, tensor, uniform, zeros

NAN, INF = float("nan"), float("inf")
COLORS = [[0., 0., 0.], [1., 1., 1.], [1., 0., 0.], [0., 1., 0.], [0., 0., 1.], [1., 1., 0.],
          [0., .5, .5], [.3, .3, .2], [.2, .3, .3], [.3, .2, .3], [-1., 2., .5], [-3., -2., -1.]]
TOLERANCE = {"float": "rel 1e-5 abs 1e-6", "double": "rel 1e-12 abs 1e-12",
             # Where TensorFlow rounds each step we round once.
             "half": "rel 1e-2 abs 5e-3", "bfloat16": "rel 3e-2 abs 4e-2"}

for op in ["RGBToHSV", "HSVToRGB"]:
  for dtype in TOLERANCE:
    case(op, uniform([2, 5, 4, 3], 0, 1, 1, dtype), tolerance=TOLERANCE[dtype])
  case(op, COLORS, tolerance=TOLERANCE["float"])
  case(op, uniform([3], 0, 1), tolerance=TOLERANCE["float"])
  case(op, zeros([0, 3]))
  error(op, 1.0, text="input must be at least 1D[]")
  error(op, zeros([2, 4]), text="input must have 3 channels but input only has 4 channels.")

for op, what in [("AdjustHue", "delta"), ("AdjustSaturation", "scale")]:
  for by in [0.0, 0.1, 0.5, 0.9, -0.3, -1.0, 1.0, 2.5]:
    case(op, uniform([2, 5, 4, 3], 0, 1, 2), by, tolerance=TOLERANCE["float"])
    case(op, [[COLORS]], by, tolerance=TOLERANCE["float"])
  case(op, zeros([2, 0, 4, 3]), 0.5)
  error(op, zeros([2, 3]), 0.5, text="input must be at least 3-D, got shape[2,3]")
  error(op, zeros([2, 2, 4]), 0.5, text="input must have 3 channels but instead has 4 channels.")
  error(op, zeros([2, 2, 3]), [0.5], text=what + " must be scalar: [1]")
for factor in [0.0, 0.5, 1.0, 3.0, -1.0]:
  case("AdjustContrastv2", uniform([2, 3, 5, 4, 2], -3, 9, 3), factor, tolerance="rel 1e-5 abs 1e-5")
case("AdjustContrastv2", uniform([150, 130, 3], 0, 255, 3), 1.5, tolerance="rel 1e-4 abs 1e-3")
case("AdjustContrastv2", [[[1.0, 2.0], [INF, 4.0]]], 2.0)
case("AdjustContrastv2", zeros([2, 0, 4, 3]), 2.0)
error("AdjustContrastv2", zeros([2, 3]), 0.5, text="input must be at least 3-D, got shape[2,3]")
error("AdjustContrastv2", zeros([2, 2, 3]), [0.5], text="contrast_factor must be scalar: [1]")
