from generate import case, error, tensor, uniform, zeros

TOLERANCE = {"float": "rel 1e-4 abs 1e-4", "double": "rel 1e-10 abs 1e-10"}
COMPLEX = {"float": "complex64", "double": "complex128"}
NAMES = {1: "FFT", 2: "FFT2D", 3: "FFT3D"}

for real, whole in COMPLEX.items():
  tolerance = TOLERANCE[real]
  # One, small factors, primes, long ones of rows and columns, convolutions.
  for n in [1, 2, 3, 4, 5, 7, 8, 12, 61, 67, 134, 1000, 1009, 4100, 8192, 10007, 30030]:
    for inverse in ["", "I"]:
      case(inverse + "FFT", uniform([2, n], dtype=whole), tolerance=tolerance)
    case("RFFT", uniform([2, n], dtype=real), [n], tolerance=tolerance, Tcomplex=whole)
    case("IRFFT", uniform([2, n // 2 + 1], dtype=whole), [n], tolerance=tolerance, Treal=real)
  for inverse in ["", "I"]:
    case(inverse + "FFT2D", uniform([2, 6, 5], dtype=whole), tolerance=tolerance)
    case(inverse + "FFT2D", uniform([20, 11], dtype=whole), tolerance=tolerance)
    case(inverse + "FFT3D", uniform([2, 3, 4, 5], dtype=whole), tolerance=tolerance)
  for lengths in [[6, 5], [4, 4], [1, 1], [3, 2]]:
    case("RFFT2D", uniform([2, 6, 5], dtype=real), lengths, tolerance=tolerance, Tcomplex=whole)
    case("IRFFT2D", uniform([2, 6, 5], dtype=whole), lengths, tolerance=tolerance, Treal=real)
  for lengths in [[3, 4, 5], [2, 3, 4]]:
    case("RFFT3D", uniform([2, 3, 4, 5], dtype=real), lengths, tolerance=tolerance, Tcomplex=whole)
    case("IRFFT3D", uniform([2, 3, 4, 5], dtype=whole), lengths, tolerance=tolerance, Treal=real)
  # Shorter than what is given.
  for n in [1, 2, 5, 8]:
    case("RFFT", uniform([2, 9], dtype=real), [n], tolerance=tolerance, Tcomplex=whole)
    case("IRFFT", uniform([2, 9], dtype=whole), [n], tolerance=tolerance, Treal=real)

for shape in [[2, 0], [0, 2]]:
  case("FFT", zeros(shape, "complex64"))
case("RFFT", zeros([0, 4]), [4])
case("RFFT", zeros([2, 0]), [0])
case("IRFFT", tensor("complex64", [[1 + 5j, 2 + 1j, 3 + 7j]]), [4], tolerance=TOLERANCE["float"])
case("FFT", tensor("complex64", [float("inf"), 0]))

for rank, name in NAMES.items():
  for inverse in ["", "I"]:
    error(inverse + name, zeros([2] * (rank - 1), "complex64"),
          text="Input must have rank of at least %d but got: [%s]" % (
              rank, ",".join(["2"] * (rank - 1))))
error("RFFT", zeros([2, 3]), [4],
      text="Input dimension 1 must have length of at least 4 but got: 3")
error("IRFFT", zeros([2, 3], "complex64"), [9],
      text="Input dimension 1 must have length of at least 5 but got: 3")
error("RFFT2D", zeros([2, 3]), [3, 2],
      text="Input dimension 0 must have length of at least 3 but got: 2")
error("RFFT", zeros([2, 3]), [-1], text="fft_length[0] must >= 0, but got: -1")
error("RFFT", zeros([2, 3]), [2, 2], text="fft_length must have shape [1]")
error("RFFT", zeros([2, 3]), 2, text="fft_length must have shape [1]")
error("RFFT", zeros([2, 3]), [3], Tcomplex="complex128",
      text="Wrong types for forward real FFT: in=1 out=18")
