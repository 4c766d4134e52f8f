"""Reads DDL statements of MySQL, MariaDB and TiDB into actions for a table's replica.

A statement is either read in full or `NotFollowed`: no action is guessed. Statements that change neither rows nor
columns, such as statements about indexes, views and users, have no actions.
"""

from towpath.lakehouse.statements.actions import (
    Action,
    AddColumn,
    ChangePrimaryKey,
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
    tables_of,
)
from towpath.lakehouse.statements.column_definitions import GENERATED, NUMBERED, Column
from towpath.lakehouse.statements.read import MAX_LENGTH, read_statements

__all__ = [
    "GENERATED",
    "MAX_LENGTH",
    "NUMBERED",
    "Action",
    "AddColumn",
    "ChangePrimaryKey",
    "Column",
    "CreateTable",
    "DropColumn",
    "DropDatabase",
    "DropTable",
    "ModifyColumn",
    "NotFollowed",
    "RenameColumn",
    "RenameTable",
    "TableName",
    "TruncateTable",
    "read_statements",
    "tables_of",
]
