"""Messages of products that no dialect reads: an error that names the product, whatever the order of the members."""

import json
import random

import pyarrow as pa
import pytest

import towpath

CHANGE = {"operation": "INSERT", "changeSequence": "20230911", "timestamp": "2023-09-11T03:23:25.000"}
QLIK = {"data": {"id": 1}, "beforeData": None, "headers": CHANGE}
# Each from the documentation of its product.
MESSAGES = {
    "Qlik Replicate": [
        {
            "magic": "atMSG", "type": "DT", "headers": None, "messageSchemaId": None, "messageSchema": None,
            "message": QLIK,
        },
        QLIK,
    ],
    "Oracle GoldenGate": [
        {"table": "S.T", "op_type": op, "op_ts": "2015-11-05", "current_ts": "2016-10-05", "pos": "0", **images}
        for op, images in [
            ("I", {"after": {"id": 1}}),
            ("U", {"before": {"id": 1}, "after": {"id": 2}}),
            ("D", {"before": {"id": 1}}),
        ]
    ],
    "Google Datastream": [
        {
            "stream_name": "projects/p", "read_method": "mysql-cdc-binlog", "object": "test_t", "uuid": "d7",
            "read_timestamp": "2021-11-07T07:37:16.808Z", "source_timestamp": "2021-11-07T02:15:39",
            "source_metadata": {"database": "test", "table": "t", "change_type": "INSERT"}, "payload": {"id": 1},
        }
    ],
    "NiFi's CaptureChangeMySQL": [
        {
            "type": kind, "timestamp": 1465940845000, **place, "database": "d", "table_name": "t", "table_id": 108,
            "columns": [{"id": 1, "name": "id", "column_type": 4, "value": 1}],
        }
        for kind in ("insert", "update", "delete")
        for place in ({"binlog_filename": "bin.1", "binlog_position": 4}, {"binlog_gtidset": "x:1-4"})
    ],
    "wal2json": [
        {"action": "I", "schema": "public", "table": "t", "columns": [{"name": "id", "type": "integer", "value": 1}]},
        {"action": "D", "schema": "public", "table": "t", "identity": [{"name": "id", "type": "integer", "value": 1}]},
        {"action": "T", "schema": "public", "table": "t"},
        {"action": "B", "xid": 1},
        {"xid": 1, "change": [{"kind": "insert", "schema": "public", "table": "t", "columnnames": ["id"]}]},
    ],
    "Flink's changelog-json": [{"data": {"id": 1, "amt": 10}, "op": kind} for kind in ("+I", "-U", "+U", "-D")],
    "Tencent DTS": [
        {"schemaName": "d", "tableName": "t", "dmlType": 0, "columns": [], "rowChanges": []},
        {
            "id": "38cecd93:16", "type": "dts:MYSQL:INSERT", "specversion": "1.0", "source": "dts.cloud.tencent",
            "subject": "cdb-x", "time": 1648109734, "region": "ap-guangzhou", "datacontenttype": "application/json",
            "tags": None, "data": {"topic": "t", "event": {"dmlEvent": {"columns": [], "rows": []}}, "header": {}},
        },
    ],
}  # fmt: skip
CASES = [(product, message) for product, messages in MESSAGES.items() for message in messages]


@pytest.mark.parametrize(("product", "message"), CASES)
@pytest.mark.parametrize("seed", range(5))
def test_the_error_names_the_product(seed, product, message):
    members = list(message.items())
    random.Random(seed).shuffle(members)
    text = json.dumps(dict(members), indent=random.Random(seed).choice([None, 1]))
    for dialect in ("auto", "debezium-json", "dms-json", "river-json"):
        [row] = towpath.Decoder(dialect).decode(pa.array([text])).to_pylist()
        assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
        assert row["error"]["message"].endswith(f"; the message was written by {product}, which no dialect supports")


def test_messages_side_by_side_name_firehose():
    message = {"data": [{"id": "1"}], "database": "s", "table": "t", "type": "INSERT", "isDdl": False}
    [row] = towpath.Decoder().decode(pa.array([json.dumps(message) * 2])).to_pylist()
    assert "Amazon Firehose" in row["error"]["message"]
