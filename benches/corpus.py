"""The messages that the benches decode: canal FlatMessages as canal's producer writes them, the same on every machine.

    python benches/corpus.py --count 200000 wide narrow

writes `benches/.cache/<shape>-<count>.parquet` (one binary column, `value`) and `.bin` (a big-endian u32 length before
each message). `corpus.rs` is the same generator for the Rust bench; both check FINGERPRINT, so their bytes are equal.
"""

import argparse
import struct
from dataclasses import dataclass, replace
from pathlib import Path

CACHE = Path(__file__).resolve().parent / ".cache"
SEED = 20261121
FINGERPRINT = 0x9340D627F6F537CA
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


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple


@dataclass(frozen=True)
class Shape:
    """What one corpus is made of."""

    tables: tuple
    operations: tuple = (70, 20)  # per cent of inserts and of updates; the rest are deletes
    shuffled: bool = False
    ticdc: bool = False


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


def ticdc_column(column):
    """TiCDC writes types without their parameters and decimals with their whole scale."""
    make = make_exact_total if column.make is make_total else column.make
    return replace(column, mysql_type=column.mysql_type.split("(")[0], make=make)


ORDERS = Table("orders", WIDE)
SHAPES = {
    "wide": Shape((ORDERS,)),
    "narrow": Shape((narrow(),)),
    "update": Shape((ORDERS,), operations=(10, 80)),
    "tables": Shape(tuple(tenth(index) for index in range(10))),
    "shuffled": Shape((ORDERS,), shuffled=True),
    "ticdc": Shape((Table("orders", tuple(ticdc_column(column) for column in WIDE)),), ticdc=True),
}


def member(name, value):
    return f'"{name}":{value}'


def members(pairs):
    return "{" + ",".join([member(name, value) for name, value in pairs]) + "}"


def row_count(random):
    """1.2 rows a message: most have one, a statement over many rows has more."""
    draw = random.below(100)
    return 1 if draw < 86 else 2 if draw < 96 else 3 if draw < 99 else 5


def operation(random, shape):
    draw = random.below(100)
    inserts, updates = shape.operations
    return "INSERT" if draw < inserts else "UPDATE" if draw < inserts + updates else "DELETE"


def new_row(random, table):
    return [column.make(random) for column in table.columns]


def old_row(random, table, row, changed):
    """What the row was. `changed` grows over the rows of a message, as canal shares that set between them."""
    before = list(row)
    for index, column in enumerate(table.columns):
        if random.percent(column.updated):
            changed.add(index)
            before[index] = column.make(random)
    return before


def image(random, shape, table, row, wanted):
    pairs = [(column.name, row[index]) for index, column in enumerate(table.columns) if index in wanted]
    if shape.shuffled:
        random.shuffle(pairs)
    return members(pairs)


def images(random, shape, table, kind):
    """The texts of `data` and `old`."""
    everything = range(len(table.columns))
    changed = set()
    data, old = [], []
    for _ in range(1 if shape.ticdc else row_count(random)):
        row = new_row(random, table)
        data.append(image(random, shape, table, row, everything))
        if kind == "UPDATE":
            before = old_row(random, table, row, changed)
            old.append(image(random, shape, table, before, everything if shape.ticdc else changed))
    return "[" + ",".join(data) + "]", "[" + ",".join(old) + "]" if old else "null"


def declared(random, shape, table):
    """The texts of `mysqlType` and `sqlType`; TiCDC's `mysqlType` is a Go map, in an order of its own each time."""
    types = [(column.name, quoted(column.mysql_type)) for column in table.columns]
    if shape.ticdc:
        random.shuffle(types)
    return members(types), members([(column.name, column.jdbc_type) for column in table.columns])


def canal_message(random, shape, index):
    table = random.pick(shape.tables)
    kind = operation(random, shape)
    data, old = images(random, shape, table, kind)
    mysql_types, jdbc_types = declared(random, shape, table)
    second = 1_763_000_000 + index // 50
    return (
        f'{{"data":{data},"database":"shop","es":{second}000,"gtid":"","id":{1 + index // 3},"isDdl":false,'
        f'"mysqlType":{mysql_types},"old":{old},"pkNames":["id"],"sql":"","sqlType":{jdbc_types},'
        f'"table":"{table.name}","ts":{second}{100 + random.below(900)},"type":"{kind}"}}'
    )


def ticdc_message(random, shape, index):
    table = random.pick(shape.tables)
    kind = operation(random, shape)
    data, old = images(random, shape, table, kind)
    mysql_types, jdbc_types = declared(random, shape, table)
    millisecond = 1_763_000_000_000 + index * 7
    return (
        f'{{"id":0,"database":"shop","table":"{table.name}","pkNames":["id"],"isDdl":false,"type":"{kind}",'
        f'"es":{millisecond},"ts":{millisecond + 100 + random.below(900)},"sql":"","sqlType":{jdbc_types},'
        f'"mysqlType":{mysql_types},"old":{old},"data":{data},'
        f'"_tidb":{{"commitTs":{450_387_397_223_645_303 + index * 1_835_008}}}}}'
    )


def messages(name, count):
    """The first `count` messages of a shape, as bytes."""
    shape = SHAPES[name]
    random = Random(SEED)
    write = ticdc_message if shape.ticdc else canal_message
    for index in range(count):
        yield write(random, shape, index).encode()


def fingerprint():
    """FNV-1a over the first messages of every shape: what corpus.py and corpus.rs have to agree on."""
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
    assert fingerprint() == FINGERPRINT, f"corpus.py and corpus.rs differ: {fingerprint():#x}"
    for name in arguments.shapes:
        target = ensure(name, arguments.count)
        size = path(name, arguments.count, "bin").stat().st_size
        print(f"{name}: {arguments.count} messages, {size / arguments.count - 4:.0f} bytes each, {target}")


if __name__ == "__main__":
    main()
