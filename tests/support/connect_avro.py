"""Kafka Connect's schemas and values in Avro, by the rules of Confluent's converter.

The rules are those of `io.confluent.connect.avro.AvroData` with its defaults and `scrub.invalid.names=true`: attributes
`connect.name`, `connect.version`, `connect.parameters`, `connect.default` and `connect.type`, Avro's own logical types
for Connect's, unions of null and the type, null second where there is a default.
"""

import base64
import json
import re
from typing import Any
from urllib.parse import quote_plus

JsonSchema = dict[str, Any]

PRIMITIVES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
LOGICAL = {
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
    "org.apache.kafka.connect.data.Date": "date",
}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
PRECISION_DEFAULT = 64


def scrubbed(name: str) -> str:
    """A name with characters that Avro allows."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    encoded = quote_plus(name, safe="*")
    return re.sub(r"[^A-Za-z0-9_]", "_", f"x{encoded}" if encoded[0].isdigit() else encoded)


def avro_schema(schema: JsonSchema) -> str:
    """The Avro schema of the schema part of a message, as JSON text."""
    return json.dumps(Converter().convert(schema))


class Converter:
    """Converts one schema; a named type is declared where it occurs first."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def convert(self, schema: JsonSchema) -> Any:
        """The Avro schema of a type, a union if it is optional."""
        avro = self._plain(schema)
        if not schema.get("optional"):
            return avro
        has_default = schema.get("default") is not None and schema["type"] != "struct"
        return [avro, "null"] if has_default else ["null", avro]

    def _plain(self, schema: JsonSchema) -> Any:
        kind = schema["type"]
        if kind == "struct":
            return self._record(schema)
        if kind == "array":
            return {"type": "array", "items": self.convert(schema["items"])} | metadata(schema)
        if kind == "map":
            return {"type": "map", "values": self.convert(schema["values"])} | metadata(schema)
        attributes = metadata(schema) | logical(schema)
        if kind in ("int8", "int16"):
            attributes["connect.type"] = kind
        return {"type": PRIMITIVES[kind]} | attributes if attributes else PRIMITIVES[kind]

    def _record(self, schema: JsonSchema) -> Any:
        *parents, short = schema["name"].split(".")
        full = ".".join([*(scrubbed(parent) for parent in parents), scrubbed(short)])
        if full in self.names:
            return full
        self.names.add(full)
        namespace, _, name = full.rpartition(".")
        fields = [self._field(field) for field in schema["fields"]]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields} | metadata(schema)

    def _field(self, field: JsonSchema) -> JsonSchema:
        converted: JsonSchema = {"name": scrubbed(field["field"]), "type": self.convert(field)}
        if field.get("default") is not None and field["type"] != "struct":
            converted["default"] = default(field)
        elif field.get("optional"):
            converted["default"] = None
        return converted


def metadata(schema: JsonSchema) -> JsonSchema:
    found: JsonSchema = {}
    if schema.get("version") is not None:
        found["connect.version"] = schema["version"]
    if schema.get("parameters"):
        found["connect.parameters"] = schema["parameters"]
    if schema.get("default") is not None and schema["type"] != "struct":
        found["connect.default"] = default(schema)
    if schema.get("name"):
        found["connect.name"] = schema["name"]
    return found


def logical(schema: JsonSchema) -> JsonSchema:
    name = schema.get("name")
    if name != DECIMAL:
        return {"logicalType": LOGICAL[name]} if name in LOGICAL else {}
    parameters = schema["parameters"]
    precision = int(parameters.get("connect.decimal.precision", PRECISION_DEFAULT))
    return {"scale": int(parameters["scale"]), "precision": precision, "logicalType": "decimal"}


def default(schema: JsonSchema) -> Any:
    value = schema["default"]
    return base64.b64decode(value).decode("latin-1") if schema["type"] == "bytes" else value


def avro_value(schema: JsonSchema, value: Any) -> Any:
    """A value of JSON, with bytes decoded and fields named as in Avro."""
    kind = schema["type"]
    if value is None:
        return None
    if kind == "struct":
        return {scrubbed(field["field"]): avro_value(field, value[field["field"]]) for field in schema["fields"]}
    if kind == "array":
        return [avro_value(schema["items"], item) for item in value]
    if kind == "map":
        return {name: avro_value(schema["values"], item) for name, item in value.items()}
    return base64.b64decode(value) if kind == "bytes" else value


def flattened(message: JsonSchema) -> JsonSchema:
    """The row of an envelope, schema and payload, as `ExtractNewRecordState` leaves it.

    With `add.fields=op,source.ts_ms` and `delete.tombstone.handling.mode=rewrite`: a delete has the row and says so.
    """
    schema, payload = message["schema"], message["payload"]
    fields = {field["field"]: field for field in schema["fields"]}
    row = payload["after"] or payload["before"]
    added = [
        {"type": "string", "optional": True, "field": "__op"},
        {"type": "int64", "optional": True, "field": "__source_ts_ms"},
        {"type": "string", "optional": True, "field": "__deleted"},
    ]
    values = {
        "__op": payload["op"],
        "__source_ts_ms": payload["source"]["ts_ms"],
        "__deleted": str(payload["op"] == "d").lower(),
    }
    after = fields["after"]
    flat = {key: value for key, value in after.items() if key != "field"} | {"optional": False}
    return {"schema": flat | {"fields": after["fields"] + added}, "payload": row | values}
