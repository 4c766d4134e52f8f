"""Encodes canal-protobuf messages: packets of entries with binlog positions, by the field numbers of canal's schema."""

TYPES = {"INSERT": 1, "UPDATE": 2, "DELETE": 3, "ALTER": 5}
PACKET_MESSAGES = 7


def packet(*entries: bytes, batch: int = 1) -> bytes:
    """A Kafka value with entries."""
    body = _number(1, batch) + b"".join(_bytes(2, one) for one in entries)
    return _number(1, 17) + _number(3, PACKET_MESSAGES) + _bytes(5, body)


def statement_entry(text: str, *, database: str, place: int, second: int) -> bytes:
    """A DDL statement."""
    change = _number(2, TYPES["ALTER"]) + _number(10, 1) + _bytes(11, text.encode()) + _bytes(14, database.encode())
    return _entry(_header("ALTER", database, "", place, second), change)


def row_entry(
    kind: str,
    table: str,
    row: dict[str, str | None],
    types: dict[str, str],
    *,
    before: dict[str, str | None] | None = None,
    database: str,
    place: int,
    second: int,
) -> bytes:
    """A change of a row with the key `id`."""
    images = {1: row} if kind == "DELETE" else {1: before or {}, 2: row}
    columns = (
        _bytes(field, _column(at, name, value, types[name]))
        for field, cells in images.items()
        for at, (name, value) in enumerate(cells.items())
    )
    image = b"".join(columns)
    change = _number(2, TYPES[kind]) + _bytes(12, image)
    return _entry(_header(kind, database, table, place, second), change)


def _entry(header: bytes, change: bytes) -> bytes:
    return _bytes(1, header) + _number(2, 2) + _bytes(3, change)


def _header(kind: str, database: str, table: str, place: int, second: int) -> bytes:
    texts = {2: "mysql-bin.000001", 5: "UTF-8", 8: database, 9: table}
    numbers = {1: 1, 3: place, 4: 1, 6: 1_700_000_000_000 + 1000 * second, 7: 2, 11: TYPES[kind]}
    found = {at: _bytes(at, text.encode()) for at, text in texts.items()}
    found |= {at: _number(at, number) for at, number in numbers.items()}
    return b"".join(found[at] for at in sorted(found))


def _column(at: int, name: str, value: str | None, kind: str) -> bytes:
    numbers = _number(1, at) + _number(2, -5 % (1 << 64) if kind == "bigint" else 4)
    flags = _number(4, int(name == "id")) + _number(5, 1) + _number(6, int(value is None))
    text = b"" if value is None else _bytes(8, value.encode())
    return numbers + _bytes(3, name.encode()) + flags + text + _bytes(10, kind.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
