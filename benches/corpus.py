"""The messages that the Python benches decode, as their producers write them, the same on every machine.

    python benches/corpus.py --count 200000 wide narrow

writes `benches/.cache/<shape>-<count>.parquet` (one binary column, `value`) and `.bin` (a big-endian u32 length before
each message). `corpus/` is the same generator for the Rust bench, which has more shapes; both check FINGERPRINT, so the
bytes of the shapes that are in both are equal.
"""

import argparse
import json
import os
import struct
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

CACHE = Path(os.environ.get("TOWPATH_BENCH_CACHE", Path(__file__).resolve().parent / ".cache"))
SEED = 20261121
FINGERPRINT = 0xB942E107D0F7D9B9
MASK = (1 << 64) - 1


class Random:
    """splitmix64: small enough to be written twice, in Python and in Rust, with the same numbers in both."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return ((mixed ^ (mixed >> 31)) * bound) >> 64

    def percent(self, share):
        return self.below(100) < share

    def pick(self, choices):
        return choices[self.below(len(choices))]

    def shuffle(self, items):
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


# The words are JSON text already: nothing in them needs an escape but what ESCAPES has on purpose.
ENGLISH = (
    "please deliver before noon leave the parcel with reception call ahead gift wrap requested fragile glass inside "
    "customer asked for invoice second attempt warehouse north express returned damaged refund partial hold until friday"
).split()
CHINESE = [
    "请尽快发货",
    "周末不收件",
    "放在快递柜",
    "发票抬头公司",
    "易碎物品轻放",
    "加急处理",
    "已电话确认",
    "客户要求换货",
    "赠品一并寄出",
    "不要拆分包裹",
]
STREETS = ["Main Street", "Rue d'Or", "Hafenweg", "Calle Mayor", "Kingsway", "Elm Avenue"]
CITIES = ["Springfield", "Oslo", "Montréal", "Porto", "Leeds", "Gdańsk"]
CHINESE_CITIES = ["北京市朝阳区", "上海市浦东新区", "深圳市南山区", "广州市天河区", "杭州市西湖区"]
CHINESE_STREETS = ["建国路", "世纪大道", "科技园路", "中山大道", "文三路"]
COUNTRIES = ["CN", "US", "DE", "NO", "FR", "PT"]
ESCAPES = ['\\"VIP\\"', "line\\nbreak", "C:\\\\tmp\\\\a.txt", "tab\\there", "bell\\u0007"]


def quoted(text):
    return f'"{text}"'


def make_id(random):
    return quoted(1_000_000_000 + random.below(9_000_000_000))


def make_user(random):
    return quoted(1 + random.below(5_000_000))


def make_number(random):
    return f'"NO{random.below(10**14):014d}"'


def make_status(random):
    return quoted(random.below(6))


def make_quantity(random):
    return quoted(1 + random.below(500))


def make_total(random):
    units, cents = divmod(random.below(10_000_000), 100)
    return f'"{units}.{cents:02d}"' if cents else f'"{units}.0"'  # canal prints an all-zero fraction as .0


def make_exact_total(random):
    units, cents = divmod(random.below(10_000_000), 100)
    return f'"{units}.{cents:02d}"'


def spiced(random, text):
    return quoted(f"{text} {random.pick(ESCAPES)}") if random.percent(3) else quoted(text)


def make_address(random):
    if random.percent(20):
        text = f"{random.pick(CHINESE_CITIES)}{random.pick(CHINESE_STREETS)}{1 + random.below(999)}号"
    else:
        text = f"{1 + random.below(999)} {random.pick(STREETS)}, {random.pick(CITIES)}"
    return spiced(random, text)


def make_country(random):
    return quoted(random.pick(COUNTRIES))


def make_remark(random):
    if random.percent(10):
        return "null"
    if random.percent(20):
        text = "，".join([random.pick(CHINESE) for _ in range(2 + random.below(7))])
    else:
        text = " ".join([random.pick(ENGLISH) for _ in range(10 + random.below(26))])
    return spiced(random, text)


def date_text(random):
    return f"{2019 + random.below(7)}-{1 + random.below(12):02d}-{1 + random.below(28):02d}"


def time_text(random):
    return f"{random.below(24):02d}:{random.below(60):02d}:{random.below(60):02d}"


def make_date(random):
    return "null" if random.percent(25) else quoted(date_text(random))


def make_datetime(random):
    return f'"{date_text(random)} {time_text(random)}"'


def make_timestamp(random):
    return f'"{date_text(random)} {time_text(random)}.{random.below(1000):03d}"'


@dataclass(frozen=True)
class Column:
    name: str
    mysql_type: str
    jdbc_type: int
    make: callable
    updated: int  # per cent of updates that change it

    @property
    def base_type(self):
        """The declared type without its parameters."""
        return self.mysql_type.split("(")[0]


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple


WIDE = (
    Column("id", "bigint", -5, make_id, 0),
    Column("user_id", "bigint", -5, make_user, 0),
    Column("order_no", "varchar(32)", 12, make_number, 0),
    Column("status", "tinyint", -6, make_status, 100),
    Column("quantity", "int", 4, make_quantity, 0),
    Column("total", "decimal(10,2)", 3, make_total, 50),
    Column("address", "varchar(255)", 12, make_address, 0),
    Column("country", "char(2)", 1, make_country, 0),
    Column("remark", "text", 2005, make_remark, 20),
    Column("shipped_on", "date", 91, make_date, 10),
    Column("placed_at", "datetime", 93, make_datetime, 0),
    Column("updated_at", "timestamp(3)", 93, make_timestamp, 100),
)


def narrow():
    return Table("stock", tuple(column for column in WIDE if column.name in ("id", "status", "total", "updated_at")))


def tenth(index):
    """One of the ten tables: the wide columns rotated, and one of them replaced by a column no other table has."""
    columns = list(WIDE[index:] + WIDE[:index])
    columns[1 + index] = Column(f"extra_{index}", "varchar(40)", 12, make_number, 0)
    return Table(f"orders_{index}", tuple(columns))


def exact(column):
    """As all producers but canal write it: a decimal has its whole scale."""
    return replace(column, make=make_exact_total) if column.make is make_total else column


def ticdc_column(column):
    """TiCDC writes types without their parameters."""
    return replace(exact(column), mysql_type=column.base_type)


@dataclass(frozen=True)
class Image:
    """A row as JSON texts, one for each column. `shown` has the places of those that an image of changes has, in its order."""

    cells: list
    shown: list


@dataclass(frozen=True)
class Row:
    """A changed row: an insert has no image before, a delete none after."""

    before: Image | None
    after: Image | None

    @property
    def data(self):
        """The row that canal and those after it call `data`."""
        return self.after or self.before

    @property
    def old(self):
        """What they call `old`."""
        return self.before if self.after else None


@dataclass(frozen=True)
class Statement:
    """A statement over rows of one table."""

    index: int
    table: Table
    kind: str
    rows: list


def row_count(random):
    """1.2 rows a statement: most have one."""
    draw = random.below(100)
    return 1 if draw < 86 else 2 if draw < 96 else 3 if draw < 99 else 5


def operation(random, shape):
    draw = random.below(100)
    inserts, updates = shape.operations
    return "INSERT" if draw < inserts else "UPDATE" if draw < inserts + updates else "DELETE"


def new_image(random, shape, cells, wanted):
    shown = [index for index in range(len(cells)) if index in wanted]
    if shape.shuffled:
        random.shuffle(shown)
    return Image(cells, shown)


def new_row(random, shape, table, kind, changed):
    everything = range(len(table.columns))
    cells = [column.make(random) for column in table.columns]
    data = new_image(random, shape, cells, everything)
    if kind != "UPDATE":
        return Row(None, data) if kind == "INSERT" else Row(data, None)
    before = cells_before(random, table, cells, changed)
    return Row(new_image(random, shape, before, everything if shape.ticdc else changed), data)


def cells_before(random, table, cells, changed):
    """What the row was. `changed` grows over the rows of a statement, as canal shares that set between them."""
    before = list(cells)
    for index, column in enumerate(table.columns):
        if random.percent(column.updated):
            changed.add(index)
            before[index] = column.make(random)
    return before


@dataclass
class Binlog:
    """Where statements come from, one after another."""

    shape: "Shape"
    random: Random = field(default_factory=lambda: Random(SEED))
    statements: int = 0
    last: Statement | None = None

    def statement(self):
        table = self.random.pick(self.shape.tables)
        kind = operation(self.random, self.shape)
        changed = set()
        count = 1 if self.shape.ticdc else row_count(self.random)
        rows = [new_row(self.random, self.shape, table, kind, changed) for _ in range(count)]
        self.statements += 1
        self.last = Statement(self.statements - 1, table, kind, rows)
        return self.last

    def lag(self):
        """Milliseconds between a change and its message."""
        return 100 + self.random.below(900)


def second(statement):
    """When the server executed it, in seconds since 1970."""
    return 1_763_000_000 + statement.index // 50


# How each producer writes a statement: one function for each, which gives the messages that it makes of it.


def member(name, value):
    return f'"{name}":{value}'


def members(pairs):
    return "{" + ",".join([member(name, value) for name, value in pairs]) + "}"


def shown_object(table, image):
    return members([(table.columns[index].name, image.cells[index]) for index in image.shown])


def images(statement):
    """The texts of `data` and `old`."""
    data = [shown_object(statement.table, row.data) for row in statement.rows]
    old = [shown_object(statement.table, row.old) for row in statement.rows if row.old]
    return "[" + ",".join(data) + "]", "[" + ",".join(old) + "]" if old else "null"


def jdbc_types(table):
    return members([(column.name, column.jdbc_type) for column in table.columns])


def mysql_types(table):
    return [(column.name, quoted(column.mysql_type)) for column in table.columns]


def canal(binlog):
    """canal's FlatMessage."""
    statement = binlog.statement()
    data, old = images(statement)
    table, executed = statement.table, second(statement)
    message = (
        f'{{"data":{data},"database":"shop","es":{executed}000,"gtid":"","id":{1 + statement.index // 3},"isDdl":false,'
        f'"mysqlType":{members(mysql_types(table))},"old":{old},"pkNames":["id"],"sql":"","sqlType":{jdbc_types(table)},'
        f'"table":"{table.name}","ts":{executed}{binlog.lag()},"type":"{statement.kind}"}}'
    )
    return [message.encode()]


def ticdc(binlog):
    statement = binlog.statement()
    data, old = images(statement)
    table, millisecond = statement.table, 1_763_000_000_000 + statement.index * 7
    types = mysql_types(table)
    binlog.random.shuffle(types)  # a Go map, in an order of its own each time
    message = (
        f'{{"id":0,"database":"shop","table":"{table.name}","pkNames":["id"],"isDdl":false,"type":"{statement.kind}",'
        f'"es":{millisecond},"ts":{millisecond + binlog.lag()},"sql":"","sqlType":{jdbc_types(table)},'
        f'"mysqlType":{members(types)},"old":{old},"data":{data},'
        f'"_tidb":{{"commitTs":{450_387_397_223_645_303 + statement.index * 1_835_008}}}}}'
    )
    return [message.encode()]


def dts(binlog):
    """Aliyun DTS: a raw Avro datum a row, of the schema in `peers/dts_record.avsc`."""
    statement = binlog.statement()
    return [dts_record(binlog, statement, row) for row in statement.rows]


def dts_record(binlog, statement, row):
    executed, position = second(statement), 4_000_000 + statement.index * 700
    columns = statement.table.columns
    parts = [
        avro_long(0),  # version
        avro_long(1_700_000 + statement.index),  # id
        avro_long(executed),
        avro_text(f"{position}@78") + avro_text(f"{position - 300}@78"),
        avro_text("0"),  # sourceTxid
        avro_long(0) + avro_text("8.0.28"),  # MySQL
        avro_long(("INSERT", "UPDATE", "DELETE").index(statement.kind)),
        avro_long(1) + avro_text(f"shop.{statement.table.name}"),
        avro_long(0),  # no processTimestamps
        dts_tags(executed * 1000 + binlog.lag()),
        dts_array([avro_text(column.name) + avro_long(DTS_TYPES[column.base_type]) for column in columns]),
        dts_image(columns, row.before),
        dts_image(columns, row.after),
        avro_long(executed * 1000),  # bornTimestamp
    ]
    return b"".join(parts)


# MySQL's own numbers of its types.
DTS_TYPES = {
    "tinyint": 1,
    "int": 3,
    "timestamp": 7,
    "bigint": 8,
    "date": 10,
    "datetime": 12,
    "decimal": 246,
    "text": 252,
    "varchar": 253,
    "char": 254,
}


def dts_tags(read_at):
    tags = {
        "thread_id": "164373",
        "readerThroughoutTime": str(read_at),
        "server_id": "26957161",
        "pk_uk_info": '{"PRIMARY":["id"]}',
        "metaVersion": "827452312",
    }
    return avro_block([avro_text(key) + avro_text(value) for key, value in tags.items()])


def dts_array(items):
    return avro_long(2) + avro_block(items)


def dts_image(columns, image):
    if image is None:
        return avro_long(0)
    return dts_array([dts_value(column, cell) for column, cell in zip(columns, image.cells, strict=True)])


def dts_value(column, cell):
    text = json.loads(cell)
    return avro_long(0) if text is None else DTS_VALUES.get(column.base_type, dts_character)(text)


def dts_integer(width):
    return lambda text: avro_long(1) + avro_long(width) + avro_text(text)


def dts_character(text):
    return avro_long(2) + avro_text("utf8mb4") + avro_text(text)  # Avro's text and bytes look the same


def dts_decimal(text):
    return avro_long(3) + avro_text(text) + avro_long(len(text) - 1) + avro_long(2)


def dts_timestamp(text):
    instant = datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
    return avro_long(5) + avro_long(int(instant.timestamp())) + avro_long(instant.microsecond)


def dts_clock(text):
    """A DateTime: each of its seven parts may be null, and a date has no clock."""
    parts = [int(part) for part in text.replace(" ", "-").replace(":", "-").split("-")]
    parts += [0] if len(parts) == 6 else [None] * 4
    return avro_long(6) + b"".join([avro_long(0) if part is None else avro_long(1) + avro_long(part) for part in parts])


DTS_VALUES = {
    "bigint": dts_integer(8),
    "int": dts_integer(4),
    "tinyint": dts_integer(1),
    "decimal": dts_decimal,
    "date": dts_clock,
    "datetime": dts_clock,
    "timestamp": dts_timestamp,
}


def avro_long(number):
    """Zigzag, seven bits a byte."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def avro_text(text):
    content = text.encode()
    return avro_long(len(content)) + content


def avro_block(items):
    return avro_long(len(items)) + b"".join(items) + avro_long(0)


@dataclass(frozen=True)
class Shape:
    """What one corpus is made of."""

    tables: tuple
    write: callable = canal
    operations: tuple = (70, 20)  # per cent of inserts and of updates; the rest are deletes
    shuffled: bool = False
    ticdc: bool = False


ORDERS = Table("orders", WIDE)
EXACT_ORDERS = Table("orders", tuple(exact(column) for column in WIDE))
TICDC_ORDERS = Table("orders", tuple(ticdc_column(column) for column in WIDE))
SHAPES = {
    "wide": Shape((ORDERS,)),
    "narrow": Shape((narrow(),)),
    "update": Shape((ORDERS,), operations=(10, 80)),
    "tables": Shape(tuple(tenth(index) for index in range(10))),
    "shuffled": Shape((ORDERS,), shuffled=True),
    "ticdc": Shape((TICDC_ORDERS,), ticdc, ticdc=True),
    "dts": Shape((EXACT_ORDERS,), dts),
}


def messages(name, count):
    """At least `count` messages of a shape, as bytes: the last statement may be of several."""
    binlog = Binlog(SHAPES[name])
    written = 0
    while written < count:
        for message in SHAPES[name].write(binlog):
            written += 1
            yield message


def fingerprint():
    """FNV-1a over the first messages of every shape: what corpus.py and corpus/mod.rs have to agree on."""
    total = 0xCBF29CE484222325
    for name in SHAPES:
        for message in messages(name, 20):
            for byte in message:
                total = ((total ^ byte) * 0x100000001B3) & MASK
    return total


def path(name, count, suffix):
    return CACHE / f"{name}-{count}.{suffix}"


def write_parquet(target, values):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"value": pa.array(values, pa.binary())})
    pq.write_table(table, target, row_group_size=20_000, use_dictionary=False)


def write_binary(target, values):
    with open(target, "wb") as out:
        for value in values:
            out.write(struct.pack(">I", len(value)) + value)


def ensure(name, count):
    """Writes both files of a corpus unless an earlier run has, and gives the Parquet file."""
    target = path(name, count, "parquet")
    if not target.exists():
        CACHE.mkdir(exist_ok=True)
        values = list(messages(name, count))
        write_binary(path(name, count, "bin"), values)
        partial = target.with_suffix(".partial")
        write_parquet(partial, values)
        partial.rename(target)  # a run that was stopped half-way leaves no corpus that looks whole
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), metavar="shape")
    parser.add_argument("--count", type=int, default=200_000)
    arguments = parser.parse_args()
    assert fingerprint() == FINGERPRINT, f"corpus.py and corpus/mod.rs differ: {fingerprint():#x}"
    for name in arguments.shapes:
        target = ensure(name, arguments.count)
        size = path(name, arguments.count, "bin").stat().st_size
        print(f"{name}: {arguments.count} messages, {size / arguments.count - 4:.0f} bytes each, {target}")


if __name__ == "__main__":
    main()
