from generate import case, error, uniform, zeros

TOLERANCE = {"float": "rel 1e-5 abs 1e-6",
             # Where TensorFlow rounds each step we round once.
             "half": "rel 1e-2 abs 5e-3"}
IMAGE = [2, 3, 4, 7]
ATTRS = [{}, {"depth_radius": 2, "bias": 2.0, "alpha": 0.5, "beta": 0.75}, {"depth_radius": 0},
         {"depth_radius": 1, "alpha": 1e-4, "beta": 1.5}, {"depth_radius": 10**6}]
for dtype in ["float", "half"]:
  for attrs in ATTRS if dtype == "float" else ATTRS[:4]:
    case("LRN", uniform(IMAGE, -2, 2, 1, dtype), tolerance=TOLERANCE[dtype], **attrs)
for attrs in ATTRS:
  case("LRNGrad", uniform(IMAGE, -1, 1, 1), uniform(IMAGE, -2, 2, 2), uniform(IMAGE, -2, 2, 3),
       tolerance="rel 1e-4 abs 1e-5", **attrs)
case("LRN", zeros([2, 3, 0, 5]))
case("LRN", zeros([2, 3, 4, 0]))
case("LRNGrad", zeros([2, 3, 4, 0]), zeros([2, 3, 4, 0]), zeros([2, 3, 4, 0]))
error("LRN", zeros([2, 3, 4]), text="in must be 4-dimensional")
for radius in [-1, 2**31 - 1, 2**40]:
  error("LRN", zeros([1, 1, 1, 2]), depth_radius=radius,
        text="depth_radius = %d larger than int max" % radius)
I = zeros([1, 1, 2, 2])
error("LRNGrad", zeros([2, 3, 4]), I, I, text="inputs must be 4-dimensional")
error("LRNGrad", I, zeros([2, 3, 4]), I, text="inputs must be 4-dimensional")
for wrong in range(3):
  inputs = [I, I, I]
  inputs[wrong] = zeros([1, 1, 2, 3])
  error("LRNGrad", *inputs, text="input_grads, input_image, and out_image should have the same shape")
