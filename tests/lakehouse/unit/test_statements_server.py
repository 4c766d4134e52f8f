"""DDL statements that servers executed: the actions make the tables that information_schema had after each."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from documents import ROOT
from towpath.lakehouse.statements import (
    Action,
    AddColumn,
    ChangePrimaryKey,
    Column,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    ModifyColumn,
    NotFollowed,
    RenameColumn,
    RenameTable,
    TableName,
    TruncateTable,
    read_statements,
)

FOLDERS = ["canal-json/canal-mysql", "canal-json/canal-maria", "canal-json/canal-gtid", "maxwell-json/maxwell-maria"]


class Tables:
    """The columns and primary keys after some actions."""

    def __init__(self) -> None:
        self.columns: dict[TableName, dict[str, Column]] = {}
        self.keys: dict[TableName, tuple[str, ...]] = {}

    def apply(self, action: Action) -> None:
        match action:
            case CreateTable(table, columns, key, if_not_exists, like) if not (if_not_exists and table in self.columns):
                self.columns[table] = dict(self.columns[like]) if like else {column.name: column for column in columns}
                self.keys[table] = self.keys[like] if like else key
            case AddColumn(table, column) | ModifyColumn(table, column):
                self.columns[table][column.name] = column
            case RenameColumn(table, old, new):
                self.columns[table][new] = replace(self.columns[table].pop(old), name=new)
            case DropColumn(table, name):
                del self.columns[table][name]
            case ChangePrimaryKey(table, columns):
                self.keys[table] = columns
            case DropTable(table):
                self.columns.pop(table, None)
            case DropDatabase(database):
                self.columns = {table: value for table, value in self.columns.items() if table.database != database}
            case RenameTable(pairs):
                for old, new in pairs:
                    self.columns[new], self.keys[new] = self.columns.pop(old), self.keys.pop(old)
            case TruncateTable() | NotFollowed():
                pass


def objects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def comparable(declared: str) -> str:
    """Without the display width, which servers add or drop, and with MariaDB's name of JSON."""
    width = re.sub(r"^((?:tiny|small|medium|big)?int|year)\(\d+\)(?! unsigned zerofill)", r"\1", declared)
    return {"json": "longtext", "geometrycollection": "geomcollection"}.get(width, width)


@pytest.mark.parametrize("folder", FOLDERS)
def test_tables_of_a_server(folder: str) -> None:
    path = ROOT / "tests" / "golden" / folder
    expected: dict[int, list[dict[str, Any]]] = {}
    for column in objects(path / "columns.jsonl"):
        expected.setdefault(column["at_seq"], []).append(column)
    tables = Tables()
    not_followed = []
    checked = 0
    for statement in objects(path / "ddl.jsonl"):
        for action in read_statements(statement["sql"], statement["use"]):
            tables.apply(action)
            if isinstance(action, NotFollowed):
                not_followed.append(statement["sql"])
        checked += check(tables, expected.get(statement["seq"], []))
    assert checked > 350
    assert not_followed == ["ALTER TABLE part_t TRUNCATE PARTITION p0"]


def check(tables: Tables, columns: list[dict[str, Any]]) -> int:
    """Compare the tables that a statement changed. A table made from a query has columns that no statement has."""
    found = [(TableName(column["db"], column["table"]), column) for column in columns]
    found = [(table, column) for table, column in found if table.table != "ctas"]
    for table, column in found:
        ours = tables.columns[table][column["column"]]
        key = column["column"] in tables.keys[table]
        assert comparable(ours.type) == comparable(column["type"])
        assert (ours.nullable and not key) == (column["nullable"] == "YES")
        # A table without a primary key shows its first unique one as PRI.
        assert not key or column["key"] == "PRI"
    for table in {table for table, _ in found}:
        assert set(tables.columns[table]) == {column["column"] for name, column in found if name == table}
    return len(found)
