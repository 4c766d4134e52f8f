"""The Debezium captures in Avro: the same rows, written by Confluent's own serializer."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import kafka_records
from connect_avro import avro_schema, avro_value, flattened
from fidelity import ROOT
from kafka_records import Record
from registry_server import Registry

GOLDEN = ROOT / "tests" / "golden"


class Writer:
    """Writes messages of Connect's JSON converter, with their schema part, as Confluent's Avro converter does."""

    def __init__(self, registry: Registry) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # fastavro is not there for every Python

        self._client = SchemaRegistryClient({"url": registry.url})
        self._serializers: dict[str, Any] = {}
        self._schemas: dict[str, str] = {}

    def write(self, topic: str, field: str, text: bytes | None, *, flat: bool = False) -> bytes | None:
        """A key or value in Avro, `field` says which; null stays null."""
        from confluent_kafka.schema_registry.avro import AvroSerializer
        from confluent_kafka.serialization import SerializationContext

        if text is None:
            return None
        message: dict[str, Any] = json.loads(text)
        if message["payload"] is None:
            return None
        if flat and "op" in message["payload"] and (message["payload"]["after"] or message["payload"]["before"]):
            message = flattened(message)
        connect = json.dumps(message["schema"])
        if connect not in self._schemas:
            self._schemas[connect] = avro_schema(message["schema"])
        schema = self._schemas[connect]
        serializer = self._serializers.get(schema)
        if serializer is None:
            serializer = self._serializers[schema] = AvroSerializer(self._client, schema)
        written: bytes = serializer(
            avro_value(message["schema"], message["payload"]), SerializationContext(topic, field)
        )
        return written


def records(registry: Registry, folder: str, file: str, *, flat: bool = False) -> list[Record]:
    """A capture of `tests/golden/debezium-json` in Avro, its schemas registered."""
    writer = Writer(registry)
    return [
        Record(
            record.topic,
            writer.write(record.topic, "key", record.key),
            writer.write(record.topic, "value", record.value, flat=flat),
        )
        for record in json_records(folder, file)
    ]


@cache
def json_records(folder: str, file: str) -> list[Record]:
    """The capture itself, in JSON with schema parts."""
    path: Path = GOLDEN / "debezium-json" / folder / f"{file}.kv_schemas.jsonl.zst"
    return kafka_records.load(path)


def writer_schemas(registry: Registry) -> dict[int, str]:
    """All schemas of a registry, in the form of the argument `writer_schemas`."""
    return {number: known["schema"] for number, known in registry.schemas.items()}
