"""`docs/error-texts.md` has every text of an error in the code, and no other."""

import ast
import re

from documents import ROOT

PAGE = (ROOT / "docs" / "error-texts.md").read_text()
GAP = "…"

# Texts of the native code that are no errors, or parts of one: what was expected, names, labels.
PARTS = {
    "Google Datastream",
    "NiFi's CaptureChangeMySQL",
    "Oracle GoldenGate",
    "Qlik Replicate",
    "Tencent DTS",
    "…; …",
    " byte",
    " or null",
    " unsigned",
    " zerofill",
    "$row image",
    "$row image or …",
    "') if self.cursor.eat(",
    "') … else { Err(self.wrong_type(",
    "')).ok_or_else(|| self.error(",
    "',' or ']'",
    "',' or '}'",
    "'de: 'a",
    "64 bits",
    "A message or value that cannot be decoded.",
    "AWS DMS (Kafka and Kinesis)",
    "AWS Database Migration Service's messages for Kafka and Kinesis",
    "Alibaba canal (flatMessage off), TiCDC (canal protocol)",
    "Alibaba canal's FlatMessage, and every producer of that envelope",
    "Alibaba canal's Message in protobuf: packets of entries",
    "Alibaba canal, TiCDC, CloudCanal, Tencent data access platform, Flink, Paimon, SeaTunnel, Aliyun DTS, Huawei DRS",
    "Aliyun DTS",
    "Aliyun DataWorks (Data Integration to Kafka)",
    "Aliyun DataWorks' messages of the synchronization of a database to Kafka",
    "CloudCanal's own JSON",
    "Debezium (Confluent's Avro converter)",
    "Debezium's envelope in Avro behind the id of its schema, unwrapped or not",
    "Debezium's envelope in JSON, with its schema part and without, unwrapped or not",
    "Debezium, CloudCanal (Debezium envelope)",
    "JSON array",
    "JSON object",
    "KafkaRiverCanal's message of one row with its columns side by side",
    "Maxwell's message of one row, and TiCDC's maxwell protocol",
    "Maxwell, TiCDC (maxwell protocol)",
    "TiCDC (avro protocol)",
    "TiCDC (open protocol)",
    "TiCDC (simple protocol, in JSON or Avro)",
    "TiCDC's open protocol: many changes in one record, with the tables in its key",
    "TiCDC's rows in Avro behind the id of their schema, with deletes in the key",
    "TiCDC's simple protocol, encoded in JSON or Avro",
    "[…] …",
    "a Snappy block",
    "a Zstandard frame",
    "a boolean",
    "a change",
    "a date",
    "a date and time",
    "a date and time in microseconds",
    "a decimal",
    "a decimal of 256 bits",
    "a decimal, as the schema part gives no scale",
    "a double",
    "a fixed",
    "a float",
    "a geometry",
    "a geometry, whose wkb is base64",
    "a group, which nothing here has",
    "a key in quotes",
    "a key or '}'",
    "a length",
    "a newline between two messages, as Amazon Firehose writes with a record delimiter",
    "a number",
    "a number of four or eight bytes",
    "a part of a message",
    "a sequence of names",
    "a string",
    "a struct has a member of a type that envelopes do not have",
    "a struct of scale and value",
    "a time",
    "a time in microseconds",
    "a value",
    "a value or ']'",
    "a whole number",
    "allowed are",
    "an LZ4 frame",
    "an array",
    "an array of names or null",
    "an array of objects, an object or null",
    "an enum or a string",
    "an integer",
    "an object",
    "an object of columns",
    "an object or an array of objects",
    "an object or null",
    "as canal spells them",
    "base64 or hexadecimal",
    "base64 text",
    "bigint unsigned",
    "binary_handling_mode or the schema part",
    "block: expected an array of uint8",
    "boolean (0 or 1)",
    "bytes or the bits of a number",
    "bytes, which are characters up to U+00FF",
    "character set binary",
    "decimal_handling_mode, bigint_unsigned_handling_mode with column_types, or the schema part",
    "digits or base64",
    "expected an object or null, found an array",
    "expected one of",
    "hexadecimal text",
    "interval day to second",
    "invalid type: ",
    "milliseconds or microseconds",
    "more than …",
    "no description",
    "text or null",
    "text, base64 or hexadecimal",
    "text, bytes or a message",
    "the bits of a number",
    "the column in column_types, or the schema part",
    "the column's bits",
    "the end",
    "the end of a value",
    "the end of the change",
    "the records of Aliyun DTS's change tracking, of both published schemas",
    "time_precision_mode, the column in column_types, or the schema part",
    "unknown field",
    "unknown field ",
    "… …",
    "… …:…:…",
    "… …:…:….…",
    "…... (… bytes)",
    "…: …: …",
}

# Of modules, not of users.
OF_PYTHON = {"module … has no attribute …"}


def normal(text):
    """A text without what varies, and without Markdown's marks."""
    return re.sub(rf"{GAP}+", GAP, text.replace("`", "").replace("\\", ""))


def documented():
    return {normal(text) for text in re.findall(r"^\| `(.*?)` \| ", PAGE, re.MULTILINE)}


def native_texts():
    """The string literals with several words in the native code, apart from its tests."""
    found = set()
    for file in sorted((ROOT / "rust").rglob("*.rs")):
        if file.name == "tests.rs" or "tests" in file.parts:
            continue
        code = re.split(r"\n#\[cfg\(test\)\]\nmod ", file.read_text())[0]
        lines = [line for line in code.splitlines() if not line.strip().startswith("//")]
        for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', "\n".join(lines)):
            text = literal.replace('\\"', '"').replace("\\\\", "\\")
            if " " in text and re.search("[a-z]{2}", text):
                found.add(normal(re.sub(r"\{[^}]*\}", GAP, text)))
    return found


def text_of(node):
    """The text of a literal, with a gap for each value in it."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(part.value if isinstance(part, ast.Constant) else GAP for part in parts)
        case ast.BinOp(left=left, right=right):
            return text_of(left) + text_of(right)
    return GAP


def python_texts():
    """The texts of the exceptions that the Python code raises or makes."""
    found = set()
    for file in sorted((ROOT / "python").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and node.args and re.search(r"Error$", ast.unparse(node.func)):
                found.add(normal(text_of(node.args[0])))
            if isinstance(node, ast.FunctionDef) and node.name == "_expected":
                found |= {normal(text_of(line.value)) for line in node.body if isinstance(line, ast.Return)}
    return {text for text in found if re.search("[A-Za-z]{2}", text)} - OF_PYTHON


def test_every_text_of_the_native_code_is_documented():
    """A new literal is either documented, or listed in PARTS if it is no error."""
    assert native_texts() - documented() == PARTS


def test_every_text_of_the_python_code_is_documented():
    assert python_texts() - documented() == set()


def test_every_documented_text_is_in_the_code():
    assert documented() - native_texts() - python_texts() == set()


def test_every_text_has_a_cause():
    rows = re.findall(r"^\| `.*?` \| (.*) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 250
    assert all(row.partition(" | ")[0].strip() for row in rows)
