"""Decodes typical messages of every dialect: what a profile-guided build learns from.

`maturin build --release --pgo` runs this with an instrumented towpath (`pgo-command` in pyproject.toml), so it needs pyarrow only. The
captures of tests/golden are of every dialect, but full of rare values; most rows are those of the benches' corpora, for which it calls cargo.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import all_golden
import corpus
import towpath

SHAPES = {
    "wide": "canal-json",
    "narrow": "canal-json",
    "update": "canal-json",
    "tables": "canal-json",
    "shuffled": "canal-json",
    "ticdc": "canal-json",
    "cloudcanal": "cloudcanal-json",
    "debezium": "debezium-json",
    "debezium-schema": "debezium-json",
    "dts": "dts-avro",
    "maxwell": "maxwell-json",
    "protobuf": "canal-protobuf",
    "river": "river-json",
}
"""The dialect of each corpus."""

FEW = 100
"""Messages of a capture: they are large."""

COUNT = 10_000
"""Messages of a corpus."""

BYTES = 50_000_000
"""How much of a corpus is decoded in each way."""

AVRO = ["debezium-avro/shop.avsc", "ticdc-avro/orders.avsc"]
CHANGE = {"fields": ["op", "before", "after", "event_time"]}
WAYS = [CHANGE, CHANGE, {}, {"layout": "upsert"}, {"layout": "changelog"}]
"""Options of a decoder with a schema. What is here twice counts twice."""

Sample = tuple[str, pa.RecordBatch, int]
"""Dialect, messages, and how often they are decoded."""


def captured(few: int = FEW) -> Iterator[Sample]:
    """The first messages of each golden capture."""
    for dialect in towpath.dialects():
        for capture in all_golden.captures(dialect["name"]):
            yield dialect["name"], capture.batch().slice(0, few), 1


def generated() -> Iterator[Sample]:
    """The corpora of the benches."""
    for shape, dialect in SHAPES.items():
        values = pa.array(corpus.messages(shape, COUNT), pa.binary())
        messages = pa.record_batch({"key": pa.nulls(len(values), pa.binary()), "value": values})
        yield dialect, messages, max(1, BYTES // values.nbytes)


class Trainer:
    """Decodes captures in the ways in which users do."""

    def __init__(self) -> None:
        """The schemas of Avro are those of tests/golden, of other messages the ones that they declare."""
        files = [(all_golden.GOLDEN / name).read_text() for name in AVRO]
        self._avro = {number: json.dumps(schema) for file in files for number, schema in json.loads(file).items()}
        self._tables: dict[str, pa.Schema] = {}

    def learn(self, dialect: str, messages: pa.RecordBatch) -> None:
        """Keeps the schema of each table whose messages declare types, for dialects whose messages do not."""
        for table in self._tables_of(dialect, messages):
            try:
                schema = towpath.infer_schema(messages, dialect, table=re.escape(table), **self._schemas_for(dialect))
            except ValueError:
                continue
            self._tables.setdefault(table, schema)

    def train(self, dialect: str, messages: pa.RecordBatch, times: int) -> None:
        """Decodes messages into maps, and into the columns of each table."""
        ways: list[dict] = [CHANGE, {}]
        for table in self._tables_of(dialect, messages):
            if table in self._tables:
                ways += [{"schema": self._tables[table], "table": re.escape(table), **way} for way in WAYS]
        for way in ways:
            for name in (dialect, "auto"):
                decoder = self.decoder(name, dialect, **way)
                for _ in range(times):
                    decoder.decode(messages)

    def decoder(self, name: str, dialect: str, **options) -> towpath.Decoder:
        """A decoder of this name, which may be `auto`, for messages of the dialect."""
        return towpath.Decoder(name, key="key", **options, **self._schemas_for(dialect))

    def _tables_of(self, dialect: str, messages: pa.RecordBatch) -> list[str]:
        rows = self.decoder(dialect, dialect, fields=["op", "table"]).decode(messages)
        return [name for name in pc.unique(rows.column("table")).to_pylist() if name]

    def _schemas_for(self, dialect: str) -> dict:
        return {"writer_schemas": self._avro} if dialect in ("debezium-avro", "ticdc-avro") else {}


def train(samples: Sequence[Sample]) -> Trainer:
    """Learns all schemas before anything is decoded with them."""
    trainer = Trainer()
    for dialect, messages, _ in samples:
        trainer.learn(dialect, messages)
    for dialect, messages, times in samples:
        trainer.train(dialect, messages, times)
    return trainer


if __name__ == "__main__":
    train([*captured(), *generated()])
