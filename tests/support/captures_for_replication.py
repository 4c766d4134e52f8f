"""Captures as cases for replication: the messages of a producer, and the final tables of the source."""

import json
from pathlib import Path

import pyarrow as pa

import debezium_truth
import kafka_records
import replay
import server_truth
import ticdc_truth
import towpath
import truth
from bulk_captures import SHARED
from exactly_once import Case, Record, Row, spread
from fidelity import lines, objects, records
from golden_files import GOLDEN
from lake_session import QUICK
from replay import TABLES

MYSQL = SHARED / "server" / "mysql"


def final_bulk(folder: Path) -> dict[str, list[Row]]:
    """The tables of a server's bulk capture, as they were dumped."""
    tables = {}
    for table in TABLES:
        columns = replay.declared_columns(folder, table)
        names = [column.name for column in columns]
        tables[f"bulk_a.{table}"] = [
            dict(zip(names, row, strict=True)) for row in replay.final_rows(folder, table, columns)
        ]
    return tables


BULK_KEYS = {f"bulk_a.{table}": key for table, key in TABLES.items()}


def canal_json() -> Case:
    """Alibaba canal: a partition for each table."""
    values = lines(MYSQL / "canal" / "bulk.flat.jsonl.zst")
    sent = [Record("canal", None, value, spread(json.loads(value)["table"].encode(), 2)) for value in values]
    return Case("canal-json", sent, final_bulk(MYSQL / "truth"), BULK_KEYS, limit=2500)


def canal_protobuf() -> Case:
    """Alibaba canal in protobuf: packets of many tables, with the binlog position of each change."""
    sent = [Record("canal", None, value) for value in records(MYSQL / "canal" / "bulk.pb.bin.zst")]
    return Case("canal-protobuf", sent, final_bulk(MYSQL / "truth"), BULK_KEYS, limit=150, old_ranges=True)


def debezium_json() -> Case:
    """Debezium without schema parts: a topic for each table, partitions by key, and the options that it needs."""
    folder = MYSQL / "truth"
    sent = [
        Record(record.topic, record.key, record.value, spread(record.key, 3))
        for record in kafka_records.load(MYSQL / "debezium_default" / "bulk.kv.jsonl.zst")
    ]
    columns = {f"bulk_a.{table}": replay.declared_columns(folder, table) for table in TABLES}
    return Case(
        "debezium-json",
        sent,
        final_bulk(folder),
        BULK_KEYS,
        limit=11_000,
        options={
            **debezium_truth.SETTINGS["default"],
            "table_options": {
                name: {"column_types": {column.name: column.declared for column in declared}}
                for name, declared in columns.items()
            },
        },
        schemas={name: spark_json(server_truth.schema(declared)) for name, declared in columns.items()},
        old_ranges=True,
    )


def ticdc() -> Case:
    """TiCDC's canal-json with commit times, partitions by key."""
    return ticdc_case(lines(SHARED / "encoder/ticdc/bulk_orders_ext.jsonl.zst"), limit=15_000)


def ticdc_case(values: list[bytes], limit: int) -> Case:
    """The first messages of the bulk capture; its truth has each change, from which the last rows follow."""
    encoder = ticdc_truth.Encoder(SHARED / "encoder/ticdc/bulk_orders_truth.jsonl.zst")
    (table,) = encoder.tables
    columns = encoder.columns(table)
    rows = {}
    for event in encoder.events[: len(values)]:
        key = (event["row"] or event["old"])[0]
        rows.pop(key, None)
        if event["op"] != "DELETE":
            rows[key] = {
                column["name"]: ticdc_truth.value(column, cell, ticdc_truth.LABELS)
                for column, cell in zip(columns, event["row"], strict=True)
            }
    name = ".".join(table)
    types = pa.schema([(column["name"], ticdc_truth.asked(column, ticdc_truth.LABELS)) for column in columns])
    labels = {column["name"]: column["elems"] for column in columns if column["elems"]}
    sent = [
        Record("ticdc", None, value, spread(json.loads(value)["data"][0]["order_id"].encode(), 3)) for value in values
    ]
    return Case(
        "ticdc-canal-json",
        sent,
        {name: list(rows.values())},
        {name: ["order_id"]},
        limit,
        options={"table_options": {name: {"labels": labels}}},
        schemas={name: spark_json(types)},
        old_ranges=True,
    )


def spark_json(schema: pa.Schema) -> dict[str, object]:
    """A schema as the driver reads it."""
    found: dict[str, object] = towpath.spark.struct_type(schema).jsonValue()
    return found


SMALL = {"shop_a.pkmove", "misc_a.客户表", "wide_a.big"}


def canal_json_small() -> Case:
    """The mixed capture in the repository: tables whose definition does not change, one of them with changing keys."""
    folder = GOLDEN.parent / "canal-json" / "canal-mysql"
    columns: dict[str, dict[str, server_truth.Column]] = {}
    for entry in objects(folder / "columns.jsonl"):
        column = server_truth.Column(entry["column"], entry["type"], entry["charset"] or "", entry["key"] == "PRI")
        columns.setdefault(f"{entry['db']}.{entry['table']}", {})[column.name] = column
    tables: dict[str, list[Row]] = {name: [] for name in SMALL}
    for entry in objects(folder / "final_mixed.jsonl.zst"):
        name = f"{entry['db']}.{entry['table']}"
        if name in SMALL:
            exact = entry["row"].pop("__float_exact", None) or entry.get("float_exact") or {}
            tables[name].append(
                {
                    column: truth.value(columns[name][column].declared, text, exact.get(column))
                    for column, text in entry["row"].items()
                }
            )
    keys = {name: [column.name for column in columns[name].values() if column.in_key] for name in SMALL}
    sent = [Record("canal", None, value) for value in lines(folder / "mixed.flat.jsonl.zst")]
    return Case("canal-json", sent, tables, keys, limit=30, settings=QUICK)
