"""Reads MySQL's, MariaDB's and TiDB's DDL statements into the actions that a table's replica has to follow.

A statement is read in full or it is `NotFollowed`: no action is guessed. Statements that change neither rows nor
columns, such as those about indexes, views and users, have no action.
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
