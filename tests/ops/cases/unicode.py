from generate import case, error, tensor

MALFORMED = [b"\xff", b"a\xc3", b"\xe4\xb8b", b"\xf0\x9f\x98", b"\xed\xa0\x80x", b"\xc0\x80",
             b"\xf4\x90\x80\x80", b"\xef\xbf\xbd", b""]
CONTROLS = [b"a\0b\x01\x1f \x7f\xc2\x85\r\n", b"\xe2\x80\xa8\xc2\xad"]
BOM = [b"\xef\xbb\xbfab", b"x\xef\xbb\xbf"]

for op in ["UnicodeDecode", "UnicodeDecodeWithOffsets"]:
  for errors in ["replace", "ignore"]:
    case(op, MALFORMED + CONTROLS + BOM, input_encoding="UTF-8", errors=errors)
    case(op, MALFORMED + CONTROLS, input_encoding="UTF-8", errors=errors, replacement_char=63,
         replace_control_characters=True)
  case(op, CONTROLS + BOM, input_encoding="UTF-8", errors="strict",
       replace_control_characters=True)
  for text in MALFORMED[:7]:
    error(op, [b"fine", text], input_encoding="UTF-8", errors="strict",
          text="Invalid formatting on input string")
  case(op, "a\u4e2d\U0001f600", input_encoding="utf8")
  case(op, [["a", "bc"], ["\xe9", ""]], input_encoding="UTF-8")
  case(op, tensor("string", [], [0, 2]), input_encoding="UTF-8")
  case(op, [b"\xff"], input_encoding="UTF-8", replacement_char=0)
  case(op, [b"\xff"], input_encoding="UTF-8", replacement_char=0xd800)
  for encoding in ["UTF-16", "UTF-16BE", "UTF-16-BE", "UTF-16LE", "UTF-32", "UTF-32-BE", "latin1",
                   "US-ASCII", "windows-1252", "SHIFT_JIS", "Shift-JIS", "GB18030", "EUC-JP",
                   "UTF-7", "ISO-2022-JP", "BOCU-1", "SCSU"]:
    for errors in ["replace", "ignore"]:
      case(op, [b"\xfe\xff\x00a\xd8\x3d\xde\x00", b"a\x80\x81", b"\x00a\xd8", b"\x82\xa0\xff",
                b"+AGE-x", b"\x1b$B$\"\x1b(B\xff", b"", b"\x00\x00\x00a"], input_encoding=encoding,
           errors=errors)
  error(op, ["a"], input_encoding="", text="Could not create converter for input encoding: ")
  for name in ["nonsense", "../etc/passwd", "/etc/passwd"]:
    error(op, ["a"], input_encoding=name, text="Could not create converter for input encoding: ")
  for replacement in [-1, 0x110000]:
    error(op, ["a"], input_encoding="UTF-8", replacement_char=replacement,
          text="replacement_char out of unicode codepoint range")

POINTS = [97, 0x1f600, 0xd800, 0x110000, -1, 0xffff, 0, 0x10ffff, 0xdfff, 2**31 - 1, -2**31]
for encoding in ["UTF-8", "UTF-16-BE", "UTF-32-BE"]:
  for errors in ["replace", "ignore"]:
    case("UnicodeEncode", POINTS, tensor("int64", [0, 2, 7, 7, 11]), output_encoding=encoding,
         errors=errors)
  case("UnicodeEncode", POINTS, [0, 2, 11], output_encoding=encoding, replacement_char=63)
  case("UnicodeEncode", [0xd800, 0xdc00], [0, 2], output_encoding=encoding,
       replacement_char=0xd800)
  case("UnicodeEncode", [97, 0xfdd0, 0xfffe, 0x1ffff], [0, 0, 4], output_encoding=encoding,
       errors="strict")
  for point in [0xd800, 0x110000, -1]:
    error("UnicodeEncode", [97, point], [0, 2], output_encoding=encoding, errors="strict",
          text="Code point is out of range for Unicode, or is a surrogate.")
UTF8 = dict(output_encoding="UTF-8")
case("UnicodeEncode", tensor("int32", [], [0]), [0], **UTF8)
for splits in [[0, 1], [0, 3], [0]]:
  error("UnicodeEncode", [1, 2], splits, **UTF8,
        text="Last value in input_splits must be equal to length of input_tensor.")
for splits in [[1, 2], [-1, 2]]:
  error("UnicodeEncode", [1, 2], splits, **UTF8,
        text="First value in input_splits must be zero.")
error("UnicodeEncode", [1, 2], [0, 2, 1, 2], **UTF8,
      text="Values in input_splits must be equal or in ascending order.")
error("UnicodeEncode", [1, 2], [0, 2**30, 2], **UTF8,
      text="Values in input_splits must be equal or in ascending order.")
error("UnicodeEncode", [1, 2], tensor("int32", [], [0]), **UTF8,
      text="Input_splits should contain elements, but given input_values has 0 elements")
error("UnicodeEncode", [[1, 2]], [0, 2], **UTF8,
      text="Both the input_tensor and input_splits should be of rank 1.")
error("UnicodeEncode", [1], [[0, 1]], **UTF8,
      text="Both the input_tensor and input_splits should be of rank 1.")
error("UnicodeEncode", [1], [0, 1], **UTF8, replacement_char=0x110000,
      text="replacement_char out of unicode codepoint range")

for encoding in ["UTF-8", "UTF-16-BE", "UTF-32-BE"]:
  for errors in ["replace", "ignore"]:
    case("UnicodeTranscode", MALFORMED + CONTROLS + BOM, input_encoding="UTF-8",
         output_encoding=encoding, errors=errors)
    case("UnicodeTranscode", MALFORMED + CONTROLS, input_encoding="UTF-8",
         output_encoding=encoding, errors=errors, replacement_char=0x4e2d,
         replace_control_characters=True)
  error("UnicodeTranscode", [[b"a", b"\xff"]], input_encoding="UTF-8", output_encoding=encoding,
        errors="strict", text="Invalid formatting on input string")
  case("UnicodeTranscode", [b"\xff"], input_encoding="UTF-8", output_encoding=encoding,
       replacement_char=0xd800)
  case("UnicodeTranscode", [[b"\xff\xfea\x00", b"ab"], [b"", b"\xd8\x3d\xde\x00"]],
       input_encoding="UTF-16", output_encoding=encoding)
case("UnicodeTranscode", b"\xe9\xff", input_encoding="latin1", output_encoding="UTF-8")
error("UnicodeTranscode", "a", input_encoding="x", output_encoding="UTF-8",
      text="Could not create converter for input encoding: x")
error("UnicodeTranscode", "a", input_encoding="UTF-8", output_encoding="UTF-8",
      replacement_char=-1, text="replacement_char out of unicode codepoint range")

case("UnicodeScript", [97, 0x4e2d, 0x400, -1, 0x110000, 0x10ffff, 2**31 - 1, -2**31, 0x3042,
                       0x1f600, 0xd800, 0x5d0, 0xac00])
case("UnicodeScript", 97)
case("UnicodeScript", tensor("int32", [], [2, 0]))

# --- Upper and lower case
LETTERS = "\xc4\xd6\xdf\u0130i\u0307\u0131\u03a3\u0391\u03a3 \u01c5 \ufb01\u1e9e\U00010400".encode()
for op in ["StringLower", "StringUpper"]:
  case(op, [LETTERS, LETTERS + b"\xff", LETTERS + b"\xf0\x9fX", b"", b"aB"],
       encoding="utf-8")
  case(op, "\u0390" * 100, encoding="utf-8")
  case(op, [LETTERS], encoding="")
