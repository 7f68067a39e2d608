"""Mutable hash tables."""
from generate import case, error, table, tensor


def names():
  return table(["a", "b"], [1, 2])


def rows():
  return table(tensor("int64", [7, 8]), [[1., 2.], [3., 4.]])


case("LookupTableSizeV2", names())
case("LookupTableSizeV2", table(tensor("string", [], shape=[0]), tensor("int32", [], shape=[0])))
case("LookupTableFindV2", names(), ["b", "x", "a"], -1)
case("LookupTableFindV2", names(), [["b"], ["x"]], [[5], [6]])
case("LookupTableFindV2", rows(), tensor("int64", [8, 9]), [0., 0.])
case("LookupTableInsertV2", names(), ["c", "a"], [3, 10])
case("LookupTableInsertV2", rows(), tensor("int64", [9]), [[5., 6.]])
case("LookupTableRemoveV2", names(), ["b", "x"])
case("LookupTableImportV2", names(), ["c"], [3])
case("LookupTableExportV2", table(["a"], [1]), Tkeys="string", Tvalues="int32")
error("LookupTableInsertV2", names(), ["c"], [3, 4], text="Expected shape [1] for value")
error("LookupTableFindV2", names(), [1], 0, text="Key must be type string")
