from typing import Any, TypedDict, final

import pyarrow as pa
from typing_extensions import Self, disjoint_base

__all__ = [
    "ERROR_KINDS",
    "FRAMINGS",
    "LAYOUTS",
    "MODES",
    "ORDER_FIELDS",
    "DecodeError",
    "Decoder",
    "KeySet",
    "__version__",
    "change_outcomes",
    "cut",
    "detect",
    "dialects",
    "infer_schema",
    "is_newer",
    "may_match",
    "newest_changes",
    "statement_bounds",
]

__version__: str

ERROR_KINDS: tuple[str, ...]
FRAMINGS: tuple[str, ...]
LAYOUTS: tuple[str, ...]
MODES: tuple[str, ...]
ORDER_FIELDS: tuple[str, ...]

class _Dialect(TypedDict):
    name: str
    producer: str
    wire: str
    description: str
    aliases: list[str]

class _Metrics(TypedDict):
    messages: int
    rows: int
    filtered: int
    dropped: int
    errors: dict[str, int]
    missing_columns: dict[str, int]
    zero_dates: dict[str, int]

@disjoint_base
class Decoder:
    def __new__(cls, dialect: str = "auto", schema: pa.Schema | str | None = None, **options: Any) -> Self: ...
    def _decode(
        self,
        values: Any,
        unfetched: dict[int, str] | None = None,
        stored: dict[int, bytes | str] | None = None,
        *,
        start: int = 0,
        max_bytes: int = ...,
    ) -> tuple[pa.RecordBatch, int | None]: ...
    def unknown_schemas(self, values: Any) -> list[int]: ...
    def add_schema(self, id: int, text: str, references: list[str]) -> None: ...
    def claim_checks(self, values: Any) -> list[tuple[int, str]]: ...
    @property
    def absent_columns(self) -> list[str]: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def metrics(self) -> _Metrics: ...

class DecodeError(ValueError):
    kind: str
    message: str
    column: str | None
    byte: int | None
    row: int
    dialect: str

def cut(block: pa.Array, framing: str, position: int, limit: int, last: bool) -> tuple[pa.RecordBatch, int]: ...
def dialects() -> list[_Dialect]: ...
def detect(value: bytes | str) -> str | None: ...
def infer_schema(
    values: Any,
    dialect: str = "auto",
    database: str | None = None,
    table: str | None = None,
    writer_schemas: list[tuple[int, str, list[str]]] | None = None,
    unwrapped: bool = False,
    op_column: str | None = None,
) -> pa.Schema: ...

@final
class KeySet:
    def __new__(cls, keys: pa.StructArray) -> Self: ...
    def contains(self, keys: pa.StructArray) -> pa.BooleanArray: ...

def is_newer(one: pa.StructArray, other: pa.StructArray) -> pa.BooleanArray: ...
def statement_bounds(changes: pa.StructArray, statements: pa.StructArray) -> pa.RecordBatch: ...
def newest_changes(keys: pa.StructArray, orders: pa.StructArray) -> pa.RecordBatch: ...
def change_outcomes(
    changes: tuple[pa.StructArray, pa.StructArray, pa.BooleanArray],
    rows: tuple[pa.StructArray, pa.StructArray],
    gone: tuple[pa.StructArray, pa.StructArray],
) -> pa.RecordBatch: ...
def may_match(pattern: str, text: str) -> bool: ...
