"""Dimensions of one data format in another, whose kernels are of the family array."""
from generate import case, error, tensor

M, V = "DataFormatDimMap", "DataFormatVecPermute"

for dtype in ["int32", "int64"]:
  case(M, tensor(dtype, [[0, 1, 2, 3], [-1, -2, -3, -4]]))
  case(M, tensor(dtype, 2), src_format="NCHW", dst_format="NHWC")
  case(M, tensor(dtype, [0, 1, 2, 3, 4, -5]), src_format="NDHWC", dst_format="NCDHW")
  case(M, tensor(dtype, [4, -5, 100]))
  case(V, tensor(dtype, [7, 4, 9, 3]))
  case(V, tensor(dtype, [[7, 4], [9, 3], [4, 5], [5, 1]]), src_format="NCHW", dst_format="NHWC")
  case(V, tensor(dtype, [7, 4]), src_format="HWNC", dst_format="WHCN")
  case(V, tensor(dtype, [[7, 4], [9, 3]]))
  case(V, tensor(dtype, [7, 4, 9, 3, 1]), src_format="NDHWC", dst_format="NCDHW")
  case(V, tensor(dtype, [[7, 4], [9, 3], [4, 5]]), src_format="NDHWC", dst_format="WHDCN")
case(M, tensor("int32", []))
case(M, [1, 2], src_format="ABCD", dst_format="DCBA")
error(M, [1], src_format="NHW", text="Source format must be of length 4 or 5, received src_format = NHW")
error(M, [1], dst_format="NHW",
      text="Destination format must be of length 4 or 5, received dst_format = NHW")
for dst in ["NCHX", "NCDHW", "NCHH"]:
  error(M, [1], dst_format=dst,
        text="Destination and source format must determine a permutation, got NHWC and " + dst)
error(V, 3, text="input must be a vector or 2D tensor, but got shape []")
error(V, [[[1]]], text="input must be a vector or 2D tensor, but got shape [1,1,1]")
error(V, [1, 2, 3], text="1D input must be of size 2 or 4, but got shape [3]")
error(V, [[1, 2]] * 3, text="First dimension of 2D input must be of size 2 or 4, but got shape [3,2]")
error(V, [[1, 2, 3]] * 4, text="Second dimension of 2D input must be of size 2, but got shape [4,3]")
error(V, [1, 2], src_format="ABCD", dst_format="DCBA",
      text="Format specifier must contain H and W for 2D case")
error(V, [1, 2], src_format="NHW", text="Source format must be of length 4 or 5")
