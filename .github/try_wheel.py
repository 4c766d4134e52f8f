"""Decodes a message with the installed wheel: what the release tries on each platform."""

import towpath

MESSAGE = (
    b'{"database":"shop","table":"orders","type":"INSERT","es":1714979289000,"pkNames":["id"],'
    b'"mysqlType":{"id":"bigint unsigned","total":"decimal(10,2)"},'
    b'"data":[{"id":"18446744073709551615","total":"12.50"}]}'
)

schema = towpath.infer_schema([MESSAGE])
rows = towpath.Decoder("auto", schema, layout="upsert").decode([MESSAGE]).to_pylist()
assert [(str(row["id"]), str(row["total"])) for row in rows] == [("18446744073709551615", "12.50")], rows
print(f"towpath {towpath.__version__}: {rows[0]}")
