"""Values of every type, compared with Python's integers, decimals, dates, zones and JSON reader."""

import json
import random
import struct
import zoneinfo
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

import towpath
import truth
from canal_messages import change

ROUNDS = 300


def decode(kind, sent, declared=None, **options):
    """The values of one column, one message for each, and the kinds of their errors."""
    types = {"v": declared} if declared else None
    array = pa.array([change(data=[{"v": value}], mysqlType=types) for value in sent])
    batch = towpath.Decoder("canal-json", pa.schema([("v", kind)]), fields=["after", "error"], **options).decode(array)
    batch.validate(full=True)
    rows = batch.to_pylist(maps_as_pydicts="strict")
    return [row["after"]["v"] if row["error"] is None else Refused(row["error"]["kind"]) for row in rows]


class Refused(str):
    """The kind of error, instead of a value."""


RANGE, TYPE = Refused("range"), Refused("type")
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def bounds(kind):
    signed = pa.types.is_signed_integer(kind)
    return (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1) if signed else (0, 2**kind.bit_width - 1)


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integers(kind):
    rng, (low, high) = random.Random(1), bounds(kind)
    numbers = [low, high, low - 1, high + 1, 0] + [rng.randint(2 * low - 3, 2 * high + 3) for _ in range(ROUNDS)]
    wanted = [number if low <= number <= high else RANGE for number in numbers]
    assert decode(kind, [str(number) for number in numbers]) == wanted
    assert decode(kind, numbers) == wanted
    assert decode(kind, [zerofilled(number) for number in numbers], "int(40) zerofill") == wanted


def zerofilled(number):
    return f"{'-' if number < 0 else ''}{abs(number):040d}"


WIDTHS = [(1, 0), (5, 5), (10, 2), (18, 0), (19, 1), (38, 0), (38, 38), (39, 0), (65, 30), (76, 0), (76, 76)]


@pytest.mark.parametrize(("precision", "scale"), WIDTHS)
def test_decimals_of_every_width(precision, scale):
    kind = (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    rng = random.Random(precision * 100 + scale)
    numbers = [random_decimal(rng, precision, scale) for _ in range(ROUNDS)]
    assert decode(kind, [f"{number:f}" for number in numbers]) == numbers
    assert decode(kind, [f"{number:e}" for number in numbers]) == numbers
    assert decode(kind, [f"{number:E}" for number in numbers]) == numbers
    assert decode(kind, [f"{number:f}{'.' if scale == 0 else ''}000" for number in numbers]) == numbers
    whole = precision - scale
    too_wide = ["1" + "0" * whole, "-" + "9" * (whole + 1), f"0.{'0' * scale}1", "1e99", "1e-99"]
    assert decode(kind, too_wide) == [RANGE] * len(too_wide)


def random_decimal(rng, precision, scale):
    """Any number of digits up to the precision."""
    unscaled = rng.randrange(10 ** rng.randint(1, precision))
    return Decimal((rng.randint(0, 1) if unscaled else 0, tuple(map(int, str(unscaled))), -scale))


def test_decimals_as_canal_prints_an_all_zero_fraction():
    wanted = [Decimal("50000.00"), Decimal("0.00"), Decimal("-1.00")]
    assert decode(pa.decimal128(10, 2), ["50000.0", "0.0", "-1.0"]) == wanted


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_floats_are_the_nearest(kind):
    rng, form = random.Random(2), "f" if kind == pa.float32() else "d"
    floats = [random_float(rng, form) for _ in range(ROUNDS)] + [0.0, -0.0]
    texts = [repr(number) for number in floats]
    javas = [text.replace("e+", "E").replace("e", "E") for text in texts]  # as canal prints them
    plain = [f"{Decimal(number):f}" for number in floats]  # TiCDC has no exponent
    for sent in (texts, javas, plain, floats):
        assert bits(decode(kind, sent), form) == bits(floats, form)


def random_float(rng, form):
    while True:
        [number] = struct.unpack(form, rng.randbytes(struct.calcsize(form)))
        if number - number == 0:  # neither infinite nor no number
            return number


def bits(floats, form):
    return [struct.pack(form, number) for number in floats]


def random_day(rng):
    return date.fromordinal(rng.randint(1, date.max.toordinal()))


def test_dates():
    rng = random.Random(3)
    days = [date.min, date.max, date(1970, 1, 1), date(2000, 2, 29)] + [random_day(rng) for _ in range(ROUNDS)]
    assert decode(pa.date32(), [day.isoformat() for day in days]) == days
    assert decode(pa.date32(), [f"{day.isoformat()} 00:00:00" for day in days]) == days
    assert decode(pa.string(), [day.isoformat() for day in days], "date") == [day.isoformat() for day in days]
    impossible = ["2021-02-29", "1900-02-29", "2021-04-31", "2021-12-32", "2021-13-01"]
    assert decode(pa.date32(), impossible) == [RANGE] * len(impossible)


def random_clock(rng, digits):
    """A moment with this many digits of a fraction, and how MySQL prints it."""
    micros = rng.randrange(10**digits) * 10 ** (6 - digits)
    day = random_day(rng)
    clock = datetime(day.year, day.month, day.day, rng.randrange(24), rng.randrange(60), rng.randrange(60), micros)
    text = f"{day.isoformat()} {clock:%H:%M:%S}" + (f".{micros:06d}"[: digits + 1] if digits else "")
    return clock, text


@pytest.mark.parametrize("digits", range(7))
def test_clocks_with_every_number_of_fraction_digits(digits):
    rng = random.Random(digits)
    clocks, texts = zip(*(random_clock(rng, digits) for _ in range(ROUNDS)), strict=True)
    assert decode(pa.timestamp("us"), texts) == list(clocks)
    assert decode(pa.timestamp("us"), [text.replace(" ", "T") for text in texts]) == list(clocks)
    assert decode(pa.timestamp("us", "UTC"), texts) == [clock.replace(tzinfo=timezone.utc) for clock in clocks]
    assert decode(pa.string(), texts, f"datetime({digits})") == list(texts)
    millis = [clock if clock.microsecond % 1000 == 0 else RANGE for clock in clocks]
    assert decode(pa.timestamp("ms"), texts) == millis
    seconds = [clock if clock.microsecond == 0 else RANGE for clock in clocks]
    assert decode(pa.timestamp("s"), texts) == seconds


def test_nanoseconds_within_their_range():
    texts = ["1970-01-01 00:00:00.000001", "2262-04-11 23:47:16.854775", "1677-09-21 00:12:43.145225"]
    kind = pa.schema([("v", pa.timestamp("ns"))])
    batch = towpath.Decoder("canal-json", kind).decode(pa.array([change(data=[{"v": text}]) for text in texts]))
    micros = [(datetime.fromisoformat(text) - datetime(1970, 1, 1)) // timedelta(microseconds=1) for text in texts]
    assert batch.column("after").field("v").cast(pa.int64()).to_pylist() == [1000 * number for number in micros]
    assert decode(pa.timestamp("ns"), ["2262-04-11 23:47:16.854776", "1677-09-21 00:12:43.145223"]) == [RANGE] * 2


ZERO_DATES = {
    "date": ["0000-00-00", "2021-00-10", "2021-10-00", "0000-01-01"],
    "datetime": ["0000-00-00 00:00:00", "2021-00-10 01:02:03", "2021-10-00 23:59:59", "0000-01-01 00:00:00"],
    "datetime(6)": ["0000-00-00 00:00:00.000000", "2021-00-00 00:00:00.123456"],
    "timestamp": ["0000-00-00 00:00:00"],
}
DATED = [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("s")]


@pytest.mark.parametrize("declared", ZERO_DATES)
def test_zero_dates_in_each_mode(declared):
    texts = ZERO_DATES[declared]
    for kind in DATED:
        assert decode(kind, texts, declared, zero_date="null") == [None] * len(texts)
        assert decode(kind, texts, declared, zero_date="text") == [None] * len(texts)
        assert decode(kind, texts, declared, zero_date="error") == [RANGE] * len(texts)
    assert decode(pa.string(), texts, declared, zero_date="null") == [None] * len(texts)
    assert decode(pa.string(), texts, declared, zero_date="text") == texts
    assert decode(pa.string(), texts, declared, zero_date="error") == [RANGE] * len(texts)


def test_text_that_only_looks_like_a_zero_date_stays():
    assert decode(pa.string(), ["0000-00-00"], "varchar(20)", zero_date="error") == ["0000-00-00"]


def test_times_over_their_whole_range():
    rng = random.Random(4)
    limit = timedelta(hours=838, minutes=59, seconds=59)
    micros = [rng.randint(-3_020_399, 3_020_398) * 10**6 + rng.choice([0, 1, 999_999]) for _ in range(ROUNDS)]
    spans = [limit, -limit, timedelta(0), *(timedelta(microseconds=number) for number in micros)]
    texts = [time_text(span) for span in spans]
    assert decode(pa.duration("us"), texts) == spans
    assert decode(pa.int64(), texts, "time(6)") == [span // timedelta(microseconds=1) for span in spans]
    assert decode(pa.string(), texts, "time(6)") == texts
    of_day = [moment(span) if timedelta(0) <= span < timedelta(days=1) else RANGE for span in spans]
    assert decode(pa.time64("us"), texts) == of_day
    whole = [span if span.microseconds == 0 else RANGE for span in spans]
    assert decode(pa.duration("s"), texts) == whole


def time_text(span):
    micros = span // timedelta(microseconds=1)
    seconds, fraction = divmod(abs(micros), 10**6)
    sign, hours = "-" if micros < 0 else "", seconds // 3600
    return f"{sign}{hours:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def moment(span):
    return (datetime.min + span).time()


def test_years():
    assert decode(pa.int32(), ["2021", "0000", "1901", "2155"], "year") == [2021, 0, 1901, 2155]
    assert decode(pa.string(), ["2021", "0000"], "year") == ["2021", "0000"]
    assert decode(pa.date32(), ["2021"], "year") == [TYPE]


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 10, 16, 31, 32, 33, 63, 64])
def test_bits_of_every_width(width):
    rng = random.Random(width)
    numbers = [0, 1, 2**width - 1, 2 ** (width - 1)] + [rng.randrange(2**width) for _ in range(50)]
    sent, declared = [str(number) for number in numbers], f"bit({width})"
    assert decode(pa.binary(), sent, declared) == [number.to_bytes((width + 7) // 8, "big") for number in numbers]
    assert decode(pa.uint64(), sent, declared) == numbers
    assert decode(pa.decimal128(20, 0), sent, declared) == [Decimal(number) for number in numbers]
    assert decode(pa.binary(), [str(2**width), "-1"], declared) == [RANGE, RANGE]
    assert decode(pa.bool_(), sent, declared) == [bool(number) if number < 2 else RANGE for number in numbers]


MEMBERS = ["a", "x,y", "it's", "", "中 文", "back\\slash", 'dou"ble', "(paren)", "UPPER", "1"]
DECLARED = "('a','x,y','it''s','','中 文','back\\\\slash','dou\"ble','(paren)','UPPER','1')"


def test_enums_whose_members_have_quotes_and_commas():
    numbers = [str(number) for number in range(len(MEMBERS) + 1)]
    assert decode(pa.string(), numbers, "enum" + DECLARED) == ["", *MEMBERS]
    # Without a declared type, only 0, 1 and 2 name the same members of an enum and of a set.
    ambiguous = ["type"] * (len(MEMBERS) - 2)
    assert decode(pa.string(), numbers, labels={"v": MEMBERS}) == ["", *MEMBERS[:2], *ambiguous]
    assert decode(pa.string(), numbers, "enum", labels={"v": MEMBERS}) == ["", *MEMBERS]
    assert decode(pa.string(), numbers, "enum") == numbers
    assert decode(pa.int16(), numbers, "enum" + DECLARED) == list(range(len(MEMBERS) + 1))
    assert decode(pa.string(), ["11", "-1"], "enum" + DECLARED) == [RANGE, RANGE]


def test_sets_with_every_number_of_members():
    rng = random.Random(6)
    for count in (1, 2, 8, 9, 33, 63, 64):
        members = [f"m{number}" for number in range(count)]
        declared = "set(" + ",".join(f"'{member}'" for member in members) + ")"
        masks = [0, 1, 2**count - 1, 2 ** (count - 1)] + [rng.randrange(2**count) for _ in range(20)]
        labels = [",".join(member for bit, member in enumerate(members) if mask >> bit & 1) for mask in masks]
        sent = [str(mask) for mask in masks]
        assert decode(pa.string(), sent, declared) == labels
        assert decode(pa.string(), sent, "set", labels={"v": members}) == labels
        assert decode(pa.decimal128(20, 0), sent, declared) == [Decimal(mask) for mask in masks]
        assert decode(pa.string(), [str(2**count)], declared) == [RANGE]


def test_set_members_keep_their_quotes():
    declared = "set('it''s','\"','é')"
    assert decode(pa.string(), ["0", "1", "2", "5", "7"], declared) == ["", "it's", '"', "it's,é", "it's,\",é"]


EVERY_BYTE = bytes(range(256))


def test_every_byte_of_binary_text():
    text = EVERY_BYTE.decode("latin-1")
    for declared in ("varbinary(300)", "blob", "longblob", None):
        assert decode(pa.binary(), [text, ""], declared) == [EVERY_BYTE, b""]
    in_utf8 = "中".encode().decode("latin-1")
    assert decode(pa.string(), [text, "abc", in_utf8], "blob") == [Refused("encoding"), "abc", "中"]
    assert decode(pa.binary(), ["中"], "blob") == [Refused("encoding")]


@pytest.mark.parametrize("length", [1, 4, 16, 255])
def test_binary_gets_its_trailing_zeros_back(length):
    rng = random.Random(length)
    stored = [rng.randbytes(rng.randint(0, length)).rstrip(b"\0").ljust(length, b"\0") for _ in range(50)]
    sent = [value.rstrip(b"\0").decode("latin-1") for value in stored]
    assert decode(pa.binary(), sent, f"binary({length})") == stored
    whole = [value.decode("latin-1") for value in stored]
    assert decode(pa.binary(), whole, f"binary({length})") == stored


GEOMETRIES = ["geometry", "point", "linestring", "polygon", "multipoint", "geomcollection"]


@pytest.mark.parametrize("declared", GEOMETRIES)
def test_geometries_with_and_without_their_srid(declared):
    wkb = struct.pack("<BIdd", 1, 1, 1.5, -2.25)
    both = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
    for srid in (0, 4326, 2**31 - 1):
        text = (srid.to_bytes(4, "little") + wkb).decode("latin-1")
        assert decode(pa.binary(), [text], declared) == [wkb]
        assert decode(both, [text], declared) == [{"srid": srid, "wkb": wkb}]
    texts = [
        "abc",
        "POINT(1 2)",
        "POINT EMPTY",
        "SRID=4326;POINT(1 2)",
        "",
        "\0\0\0\0",
        "\0\0\0\0\x01\0\0\0",
        "\0\0\0\0\x02\x01\0\0\0",
    ]
    for type in (pa.binary(), pa.large_binary(), both):
        assert decode(type, texts, declared) == [TYPE] * len(texts)
    assert decode(pa.string(), ["POINT(1 2)"], declared) == ["POINT(1 2)"]


def test_booleans():
    assert decode(pa.bool_(), ["0", "1", 0, 1, True, False, None]) == [False, True, False, True, True, False, None]
    assert decode(pa.int8(), [True, False]) == [1, 0]


TEXTS = ["", "null", "中文 😀", "a\u0000b", "\t\n\r\b\f", '"\\/', "\u2028\u2029\ufeff", "x" * 100_000]
TEXTS += ["'; --", "\x7f\x80\xff"]


def test_text_is_what_python_reads():
    for declared in ("varchar(10)", "text", "char(5)", None):
        assert decode(pa.string(), TEXTS, declared) == TEXTS
        assert decode(pa.large_string(), TEXTS, declared) == TEXTS


def test_numbers_and_json_in_a_text_column_keep_their_own_spelling():
    raw = ["1.50", "1e3", "-0", "true", "null", '{"b": 1,"a":[ ]}', "[1 , 2]", "12345678901234567890.10"]
    rows = ",".join(f'{{"v":{value}}}' for value in raw)
    message = f'{{"type":"INSERT","data":[{rows}]}}'
    for schema in ("v string", None):
        rows = towpath.Decoder("canal-json", schema).decode(pa.array([message])).to_pylist(maps_as_pydicts="strict")
        assert [row["after"]["v"] for row in rows] == [None if value == "null" else value for value in raw]


NESTED = pa.struct(
    {
        "i": pa.int64(),
        "d": pa.decimal128(10, 2),
        "s": pa.string(),
        "l": pa.list_(pa.int32()),
        "m": pa.map_(pa.string(), pa.float64()),
        "o": pa.struct({"x": pa.bool_(), "y": pa.list_(pa.string())}),
    }
)


def random_nested(rng):
    return {
        "i": maybe(rng, rng.randint(-(2**63), 2**63 - 1)),
        "d": maybe(rng, Decimal(rng.randint(-(10**9), 10**9)).scaleb(-2)),
        "s": maybe(rng, rng.choice(TEXTS[:7])),
        "l": maybe(rng, [maybe(rng, rng.randint(-(2**31), 2**31 - 1)) for _ in range(rng.randrange(4))]),
        "m": maybe(rng, {rng.choice(TEXTS[:7]) + str(number): rng.random() for number in range(rng.randrange(4))}),
        "o": maybe(rng, {"x": maybe(rng, rng.random() < 0.5), "y": maybe(rng, ["a", None, ""])}),
    }


def maybe(rng, value):
    return value if rng.random() < 0.8 else None


def json_text(value):
    """JSON with exact decimals, which Python's writer does not know."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}: {json_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return json.dumps(value)


def test_nested_json_as_structs_lists_and_maps():
    rng = random.Random(7)
    values = [random_nested(rng) for _ in range(ROUNDS)]
    texts = [json_text(value) for value in values]
    assert decode(NESTED, texts, "json") == values
    assert decode(pa.list_(NESTED), [f"[{text},null]" for text in texts], "json") == [[value, None] for value in values]
    by_key = [{"k": value} for value in values]
    assert decode(pa.map_(pa.string(), NESTED), [f'{{"k":{text}}}' for text in texts]) == by_key
    assert decode(pa.string(), texts, "json") == texts


def test_members_that_json_lacks_are_null_and_others_are_left_out():
    kind = pa.struct([("a", pa.int8()), ("b", pa.string())])
    assert decode(kind, ['{"z":[1],"b":"x"}', "{}", None]) == [{"a": None, "b": "x"}, {"a": None, "b": None}, None]


def test_the_json_literal_null_is_not_sql_null():
    assert decode(pa.string(), ["null", None], "json") == ["null", None]


ZONES = ["Asia/Shanghai", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"]
ZONES += ["Asia/Kathmandu", "Africa/Casablanca"]


def python_instant(clock, zone):
    """The only instant with this local date-time, or None if a change of offset skips or repeats it."""
    instants = {clock.replace(tzinfo=zone, fold=fold).astimezone(timezone.utc) for fold in (0, 1)}
    there_again = {at for at in instants if at.astimezone(zone).replace(tzinfo=None) == clock}
    return there_again.pop() if len(instants) == 1 and len(there_again) == 1 else None


@pytest.mark.parametrize("name", ZONES)
def test_clocks_of_a_zone_are_pythons_instants(name):
    zone, rng = zoneinfo.ZoneInfo(name), random.Random(8)
    # Not the future: there the versions of the zone database differ.
    clocks = [datetime(1970, 1, 2) + timedelta(seconds=rng.randrange(54 * 365 * 86400)) for _ in range(5 * ROUNDS)]
    # Around each change of offset of these ten years, by quarters of an hour.
    clocks += [at + timedelta(minutes=minutes) for at in offset_changes(zone) for minutes in range(-180, 200, 15)]
    wanted = [python_instant(clock, zone) or RANGE for clock in clocks]
    got = decode(pa.timestamp("us", "UTC"), [str(clock) for clock in clocks], "timestamp", time_zone=name)
    assert got == wanted
    if len(offset_changes(zone)) > 2:
        assert RANGE in wanted
    for clock in {clock for clock, want in zip(clocks, wanted, strict=True) if want == RANGE}:
        is_twice = clock.replace(tzinfo=zone).utcoffset() > clock.replace(tzinfo=zone, fold=1).utcoffset()
        array = pa.array([change(data=[{"v": str(clock)}], mysqlType={"v": "timestamp"})])
        [row] = (
            towpath.Decoder("canal-json", pa.schema([("v", pa.timestamp("us", "UTC"))]), time_zone=name)
            .decode(array)
            .to_pylist()
        )
        said = ("is ambiguous", "back") if is_twice else ("does not exist", "forward")
        assert f"; this local time {said[0]} in {name}: clocks went {said[1]} from " in row["error"]["message"]
        assert row["error"]["message"].endswith(
            "set time_zone to the producer's time zone, or request timestamp_ntz or string"
        )


def offset_changes(zone):
    hours = [datetime(2015, 1, 1, tzinfo=timezone.utc) + timedelta(hours=number) for number in range(9 * 365 * 24)]
    offsets = [hour.astimezone(zone).utcoffset() for hour in hours]
    changes = [number for number in range(1, len(hours)) if offsets[number] != offsets[number - 1]]
    return [hours[number].astimezone(zone).replace(tzinfo=None) for number in changes]


OFFSETS = [("+08:00", 480), ("-03:30", -210), ("+00:00", 0), ("+14:00", 840), ("-12:00", -720)]


@pytest.mark.parametrize(("name", "minutes"), OFFSETS)
def test_zones_given_as_an_offset(name, minutes):
    clock = datetime(2024, 5, 6, 7, 8, 9)
    want = (clock - timedelta(minutes=minutes)).replace(tzinfo=timezone.utc)
    assert decode(pa.timestamp("us", "UTC"), [str(clock)], "timestamp", time_zone=name) == [want]
    assert decode(pa.timestamp("us"), [str(clock)], "datetime", time_zone=name) == [clock]


def test_text_with_an_offset_is_an_instant_by_itself():
    texts = ["2024-05-06T07:08:09Z", "2024-05-06T15:08:09+08:00", "2024-05-06 07:08:09-00:00"]
    want = datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone.utc)
    assert decode(pa.timestamp("us", "UTC"), texts, time_zone="America/New_York") == [want] * 3


def test_the_truths_own_reading_of_times():
    """`truth.span` is the oracle of the fidelity tests."""
    assert truth.span("-838:59:59.000001") == -timedelta(hours=838, minutes=59, seconds=59, microseconds=1)
    assert truth.span("00:00:00.5") == timedelta(milliseconds=500)


def types_of(message_type, declared, value, **options):
    """The column `v` of one inserted row, and the kind of its error."""
    types = "null" if declared is None else json.dumps({"v": declared, **message_type})
    message = f'{{"type":"INSERT","data":[{{"v":{json.dumps(value)}}}],"mysqlType":{types}}}'
    [row] = towpath.Decoder("canal-json", **options).decode(pa.array([message])).to_pylist()
    return row["after"]["v"], row["error"] and row["error"]["kind"]


def test_a_bare_bit_is_one_bit_only_where_lengths_are_written():
    assert types_of({"name": "varchar(9)"}, "bit", "1", schema="v binary") == (b"\x01", None)
    assert types_of({"name": "varchar"}, "bit", "1", schema="v binary") == (None, "type")
    assert types_of({"name": "varchar"}, "bit", "1", schema="v bigint") == (1, None)


def test_a_number_without_a_declared_type_names_what_it_can():
    labels = {"schema": "v string", "labels": {"v": ["a", "b", "c"]}}
    assert types_of({}, "enum", "3", **labels) == ("c", None)
    assert types_of({}, "set", "3", **labels) == ("a,b", None)
    # Third member of an enum, or the first two of a set: a message without types does not tell.
    assert types_of({}, None, "3", **labels) == (None, "type")
    # The same in both, or possible in one only.
    assert types_of({}, None, "0", **labels) == ("", None)
    assert types_of({}, None, "2", **labels) == ("b", None)
    assert types_of({}, None, "5", **labels) == ("a,c", None)
    assert types_of({}, None, "9", **labels) == (None, "range")
    assert types_of({}, None, "b", **labels) == ("b", None)


@pytest.mark.parametrize("asked", ["decimal(20,0)", "decimal(40,0)", "bigint"])
def test_labels_as_numbers(asked):
    """A set of 64 members has masks beyond bigint."""
    members = [f"m{bit}" for bit in range(64)]
    declared = {"s": f"set({','.join(map(repr, members))})", "e": "enum('b','7','a')"}
    cells = [("m0,m2", "a", 5, 3), ("", "b", 0, 1), ("m62", "", 1 << 62, 0), (None, None, None, None)]
    cells += [] if asked == "bigint" else [(",".join(members), "a", (1 << 64) - 1, 3), ("m63", "a", 1 << 63, 3)]
    rows = [{"s": labels, "e": label} for labels, label, *_ in cells]
    schema = f"s {asked}, e {asked}"
    batch = towpath.Decoder("canal-json", schema, fields=["after"], mode="FAILFAST").decode(
        pa.array([change(data=rows, mysqlType=declared)])
    )
    assert [(row["after"]["s"], row["after"]["e"]) for row in batch.to_pylist()] == [tuple(cell[2:]) for cell in cells]
    [unknown] = (
        towpath.Decoder("canal-json", schema)
        .decode(pa.array([change(data=[{"s": "m0,other"}], mysqlType=declared)]))
        .to_pylist()
    )
    assert unknown["error"]["kind"] == "type"


def test_the_name_of_a_member_may_have_escapes():
    assert decode(pa.struct([("a", pa.int32())]), [r'{"\u0061":1}']) == [{"a": 1}]
