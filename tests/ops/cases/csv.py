from generate import case, error, tensor

OP = "DecodeCSV"


def decode(make, records, *defaults, **more):
  """`defaults`: of a list [value], or of a dtype where there is none."""
  shape = [] if isinstance(records, str) else [len(records)]
  make(OP, tensor("string", records, shape),
       [tensor(d, [], [0]) if isinstance(d, str) else d for d in defaults], **more)


TEXT, INT, FLOAT = ["d"], [7], [1.5]
for record in ("a,b", ",", '"a,b",c', '"a""b",c', '"a\nb",c', '"a",', '"",""', "\r\na,\nb", "a b, c "):
  decode(case, record, TEXT, TEXT)
decode(case, ["1,2", "\n3,", ",-4"], INT, INT)
decode(case, [" 1,\t2 ", "+5,5e39", "-6,nan", "7,-inf"], INT, FLOAT)
decode(case, ["9223372036854775807,1e400", "-9223372036854775808,4.9e-324"], tensor("int64", [1]),
       tensor("double", [2.5]))
decode(case, [], INT, FLOAT)
case(OP, tensor("string", [["1,x"], ["2,y"]]), [INT, TEXT])
case(OP, "3,", [tensor("int32", 4), tensor("string", "z")])
decode(case, ["NA,NA", "1,x"], INT, TEXT, na_value="NA")
decode(case, 'a"b|"c', TEXT, TEXT, field_delim="|", use_quote_delim=False)
decode(case, "1\n2", INT, INT, field_delim="\n")
decode(case, ["1,2,3,4", ",,,"], INT, INT, select_cols=[1, 3])
decode(case, ['1,2,x"y', "3,"], INT, select_cols=[1])
decode(case, "1,x", "int32", "string")

decode(error, "", TEXT, text="Expect 1 fields but have 0 in record 0")
decode(error, ["a,b", "a"], TEXT, TEXT, text="Expect 2 fields but have 1 in record 1")
decode(error, "a,b,c", TEXT, TEXT, text="Expect 2 fields but have 3 in record 0")
decode(error, "a,\n", TEXT, TEXT, text="Expect 2 fields but have 1 in record 0")
decode(error, "1", INT, INT, select_cols=[0, 3], text="Expect 2 fields but have 1 in record 0")
for record in ('a"b,c', "a\nb,c", "a,b\r", ' "a",b'):
  decode(error, record, TEXT, TEXT, text="Unquoted fields cannot have quotes/CRLFs inside")
decode(error, '"a"b,c', TEXT, TEXT, text="Quote inside a string has to be escaped by another quote")
for record in ('"', '"a,c', '"a""'):
  decode(error, record, TEXT, text="Quoted field has to end with quote followed by delim or end")
decode(error, ["1,2", "3,x"], INT, INT, text="Field 1 in record 1 is not a valid int32: x")
decode(error, "99999999999", INT, text="Field 0 in record 0 is not a valid int32: 99999999999")
decode(error, "9223372036854775808", tensor("int64", [1]), text="is not a valid int64")
for record in ("1.5", "1 2", " ", "0x10"):
  decode(error, record, INT, text="Field 0 in record 0 is not a valid int32")
decode(error, "x", FLOAT, text="Field 0 in record 0 is not a valid float: x")
decode(error, "1,", INT, "string", text="Field 1 is required but missing in record 0!")
decode(error, "NA", "int32", na_value="NA", text="Field 0 is required but missing in record 0!")
for delimiter in ("", "||"):
  decode(error, "1", INT, field_delim=delimiter, text="field_delim should be only 1 char")
decode(error, "1,2", INT, INT, select_cols=[1], text="select_cols should match output size")
decode(error, "1,2", INT, INT, select_cols=[1, 1],
       text="select_cols should be strictly increasing indices")
decode(error, "1,2", INT, INT, select_cols=[-1, 1],
       text="select_cols should be non-negative indices")
decode(error, "3", [1, 2], text="There should only be 1 default per field but field 0 has 2")
decode(error, "3", [[1]], text="Each record default should be at most rank 1")
