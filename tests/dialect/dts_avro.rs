//! dts-avro: records that no capture has. The tests write them byte by byte, by the published schema.

use std::sync::LazyLock;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value as AvroValue;
use apache_avro::writer::datum::GenericDatumWriter;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, BinaryArray, RecordBatch, StructArray};
use proptest::prelude::*;
use towpath::{
    DecodeError, Decoder, Error, Kind, Mode, Options, TableSchema, detect, infer_schema,
};

// ---- a writer

/// Encodes zigzag, seven bits per byte.
fn long(number: i64) -> Vec<u8> {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    let mut out = Vec::new();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out
}

/// Encodes text or bytes, which look the same.
fn text(text: impl AsRef<[u8]>) -> Vec<u8> {
    [long(text.as_ref().len() as i64), text.as_ref().to_vec()].concat()
}

/// Encodes an array or a map in one block.
fn items(items: &[Vec<u8>]) -> Vec<u8> {
    if items.is_empty() {
        long(0)
    } else {
        [long(items.len() as i64), items.concat(), long(0)].concat()
    }
}

/// Encodes a union's branch.
fn branch(branch: i64, value: impl AsRef<[u8]>) -> Vec<u8> {
    [long(branch), value.as_ref().to_vec()].concat()
}

fn null() -> Vec<u8> {
    long(0)
}

fn integer(digits: &str) -> Vec<u8> {
    branch(1, [long(8), text(digits)].concat())
}

fn character(charset: &str, value: impl AsRef<[u8]>) -> Vec<u8> {
    branch(2, [text(charset), text(value)].concat())
}

fn decimal(digits: &str) -> Vec<u8> {
    branch(3, [text(digits), long(10), long(2)].concat())
}

fn float(double: f64) -> Vec<u8> {
    branch(
        4,
        [double.to_le_bytes().to_vec(), long(22), long(0)].concat(),
    )
}

fn timestamp(seconds: i64, micros: i64) -> Vec<u8> {
    branch(5, [long(seconds), long(micros)].concat())
}

/// Encodes year, month, day, hour, minute, second and microseconds. -9999 stands for null.
fn parts(parts: [i64; 7]) -> Vec<u8> {
    parts
        .iter()
        .flat_map(|part| {
            if *part == NO {
                null()
            } else {
                branch(1, long(*part))
            }
        })
        .collect()
}

const NO: i64 = -9999;

fn date_time(clock: [i64; 7]) -> Vec<u8> {
    branch(6, parts(clock))
}

fn zoned(clock: [i64; 7], zone: &str) -> Vec<u8> {
    branch(7, [parts(clock), text(zone)].concat())
}

/// Encodes a geometry or an object: its type, and text or bytes.
fn object(kind: i64, sort: &str, value: impl AsRef<[u8]>) -> Vec<u8> {
    branch(kind, [text(sort), text(value)].concat())
}

const BINARY_GEOMETRY: i64 = 8;
const TEXT_GEOMETRY: i64 = 9;
const BINARY_OBJECT: i64 = 10;
const TEXT_OBJECT: i64 = 11;

fn empty(symbol: i64) -> Vec<u8> {
    branch(12, long(symbol))
}

fn images(values: &[Vec<u8>]) -> Vec<u8> {
    branch(2, items(values))
}

fn columns(columns: &[(&str, i64)]) -> Vec<u8> {
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, number)| [text(name), long(*number)].concat())
        .collect();
    branch(2, items(&columns))
}

/// Parts of a record in their order.
struct Record {
    operation: i64,
    object_name: Vec<u8>,
    position: &'static str,
    times: Vec<u8>,
    tags: Vec<(&'static str, &'static str)>,
    fields: Vec<u8>,
    before: Vec<u8>,
    after: Vec<u8>,
}

const INSERT: i64 = 0;
const UPDATE: i64 = 1;
const DELETE: i64 = 2;
const DDL: i64 = 3;

impl Record {
    fn new(operation: i64) -> Self {
        Record {
            operation,
            object_name: branch(1, text("shop.orders")),
            position: "4985@78",
            times: null(),
            tags: vec![
                ("pk_uk_info", r#"{"uk":["code"],"PRIMARY":["id"]}"#),
                ("server_id", "7"),
            ],
            fields: null(),
            before: null(),
            after: null(),
        }
    }

    /// Returns the record in the older schema: without its last field.
    fn older(&self) -> Vec<u8> {
        let head = [
            long(0),
            long(42),
            long(1_717_990_002),
            text(self.position),
            text(""),
            text("11"),
        ]
        .concat();
        let source = [long(0), text("8.0.28"), long(self.operation)].concat();
        let tags: Vec<_> = self
            .tags
            .iter()
            .map(|(name, value)| [text(name), text(value)].concat())
            .collect();
        [
            &head,
            &source,
            &self.object_name,
            &self.times,
            &items(&tags),
            &self.fields,
            &self.before,
            &self.after,
        ]
        .map(|part| &part[..])
        .concat()
    }

    fn bytes(&self) -> Vec<u8> {
        [self.older(), long(1_717_990_002)].concat()
    }
}

fn insert(column: (&str, i64), value: Vec<u8>) -> Record {
    Record {
        fields: columns(&[("id", 8), column]),
        after: images(&[integer("1"), value]),
        ..Record::new(INSERT)
    }
}

fn update() -> Record {
    let before = images(&[
        integer("1"),
        character("utf8mb4", "é"),
        timestamp(1_717_990_002, 5),
    ]);
    let after = images(&[integer("1"), character("utf8mb4", "中"), null()]);
    Record {
        fields: columns(&[("id", 8), ("note", 253), ("at", 7)]),
        before,
        after,
        ..Record::new(UPDATE)
    }
}

// ---- output

fn options(mode: Mode) -> Options {
    Options {
        dialect: "dts-avro".into(),
        mode,
        ..Options::default()
    }
}

fn typed(ddl: &str, mode: Mode) -> Options {
    Options {
        schema: Some(TableSchema::Ddl(ddl.into())),
        ..options(mode)
    }
}

fn array(messages: &[Vec<u8>]) -> BinaryArray {
    messages
        .iter()
        .map(|message| Some(message.as_slice()))
        .collect()
}

fn decode(options: Options, messages: &[Vec<u8>]) -> RecordBatch {
    Decoder::new(options)
        .unwrap()
        .decode(&array(messages))
        .unwrap()
}

fn error_of(options: Options, message: Vec<u8>) -> Error {
    match Decoder::new(options).unwrap().decode(&array(&[message])) {
        Err(DecodeError::Row(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn error(message: Vec<u8>) -> Error {
    error_of(options(Mode::FailFast), message)
}

/// Returns a column of strings.
fn strings(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
    batch[name]
        .as_string::<i32>()
        .iter()
        .map(|text| text.map(str::to_owned))
        .collect()
}

/// Returns the value of a field of `source` in the first record.
fn source(batch: &RecordBatch, field: &str) -> Option<String> {
    let source = batch["source"].as_struct();
    let text = arrow_array::StructArray::column_by_name(source, field).unwrap();
    match text.as_string_opt::<i32>() {
        Some(text) => text.is_valid(0).then(|| text.value(0).to_owned()),
        None => text
            .as_primitive::<Int64Type>()
            .iter()
            .next()
            .flatten()
            .map(|number| number.to_string()),
    }
}

/// Returns the text of the second column of an insert in map form, or the error.
fn shown(column: i64, value: Vec<u8>) -> String {
    let batch = decode(
        options(Mode::Permissive),
        &[insert(("x", column), value).bytes()],
    );
    let entries = batch["after"].as_map().value(0);
    let (names, texts) = (
        entries.column(0).as_string::<i32>(),
        entries.column(1).as_string::<i32>(),
    );
    if batch["error"].is_valid(0) {
        let error = batch["error"].as_struct();
        return error["message"].as_string::<i32>().value(0).to_owned();
    }
    let Some(at) = names.iter().position(|name| name == Some("x")) else {
        return "absent".into();
    };
    if texts.is_valid(at) {
        texts.value(at).to_owned()
    } else {
        "null".into()
    }
}

#[test]
fn values_as_mysql_prints_them() {
    let cases: Vec<(i64, Vec<u8>, &str)> = vec![
        (8, integer("18446744073709551616"), "18446744073709551616"),
        (3, integer("0000000042"), "0000000042"),
        (246, decimal("0.00"), "0.00"),
        (246, decimal("1E+3"), "1000"),
        (246, decimal("-1.5E-7"), "-0.00000015"),
        (4, float(0.1f32.into()), "0.1"),
        (5, float(0.1f32.into()), "0.10000000149011612"),
        (5, float(-0.0), "-0"),
        (5, float(1e30), "1e30"),
        (7, timestamp(0, 0), "0000-00-00 00:00:00"),
        (7, timestamp(0, 5), "1970-01-01 00:00:00.000005"),
        (
            7,
            timestamp(1_717_990_002, 500_000),
            "2024-06-10 03:26:42.500",
        ),
        (10, date_time([2024, 2, 29, NO, NO, NO, NO]), "2024-02-29"),
        (10, date_time([2024, 2, 29, NO, NO, NO, 0]), "2024-02-29"),
        (10, date_time([0, 0, 0, NO, NO, NO, NO]), "0000-00-00"),
        (10, date_time([2021, 0, 10, NO, NO, NO, NO]), "2021-00-10"),
        (10, date_time([2021, 2, 30, NO, NO, NO, NO]), "2021-02-30"),
        (
            12,
            date_time([2024, 2, 29, 1, 2, 3, NO]),
            "2024-02-29 01:02:03",
        ),
        (12, date_time([0, 0, 0, 0, 0, 0, 0]), "0000-00-00 00:00:00"),
        (
            12,
            date_time([2021, 1, 0, 1, 2, 3, 45]),
            "2021-01-00 01:02:03.000045",
        ),
        (11, date_time([NO, NO, NO, -838, -59, -59, 0]), "-838:59:59"),
        (11, date_time([NO, NO, NO, 0, 0, 0, -5]), "-00:00:00.000005"),
        (13, date_time([2155, NO, NO, NO, NO, NO, NO]), "2155"),
        (13, date_time([0, NO, NO, NO, NO, NO, NO]), "0000"),
        (
            17,
            zoned([2024, 6, 1, 12, 0, 0, 123_000], "Asia/Shanghai"),
            "2024-06-01 04:00:00.123",
        ),
        (
            17,
            zoned([2024, 6, 1, 12, 0, 0, NO], "+08:00"),
            "2024-06-01 04:00:00",
        ),
        (
            17,
            zoned([2024, 6, 1, 12, 0, 0, NO], "GMT+8:00"),
            "2024-06-01 04:00:00",
        ),
        (
            17,
            zoned([2024, 6, 1, 12, 0, 0, NO], "UTC-8"),
            "2024-06-01 20:00:00",
        ),
        (
            17,
            zoned([2024, 6, 1, 12, 0, 0, NO], "UTC"),
            "2024-06-01 12:00:00",
        ),
        (
            17,
            zoned([0, 0, 0, 0, 0, 0, NO], "UTC"),
            "0000-00-00 00:00:00",
        ),
        (253, character("utf8", "é"), "é"),
        (253, character("latin1", b"caf\xe9"), "café"),
        (253, character("gb18030", b"\xd6\xd0"), "中"),
        (254, character("binary", b"\x00\xff"), "AP8="),
        (254, character("", b"\x00\xff"), "AP8="),
        (252, object(BINARY_OBJECT, "blob", b"\x00\xff"), "AP8="),
        (252, object(BINARY_OBJECT, "text", "中"), "中"),
        (252, object(BINARY_OBJECT, "TEXT", b"\xd6\xd0"), "1tA="),
        (
            245,
            object(TEXT_OBJECT, "JSON", r#"{"a":null}"#),
            r#"{"a":null}"#,
        ),
        (247, object(TEXT_OBJECT, "ENUM", "1"), "1"),
        (
            255,
            object(TEXT_GEOMETRY, "WKT", "POINT (0 2)"),
            "POINT (0 2)",
        ),
        (255, object(BINARY_GEOMETRY, "POINT", b"\x01\x01"), "AQE="),
        (253, null(), "null"),
        (253, empty(0), "null"),
        (253, empty(1), "absent"),
    ];
    for (number, value, text) in cases {
        assert_eq!(shown(number, value), text);
    }
}

/// A value that cannot be decoded: its row stays, and only this value is null.
#[test]
fn values_that_are_none() {
    let cases: Vec<(i64, Vec<u8>, &str)> = vec![
        (
            253,
            character("utf8mb4", b"\xff"),
            "the bytes are not valid UTF-8",
        ),
        (
            253,
            character("gbk", b"\xb6"),
            "the bytes are not valid gbk",
        ),
        (
            253,
            character("ascii", "é"),
            "the bytes are not valid ascii",
        ),
        (
            253,
            character("klingon", "plain"),
            r#"unsupported character set "klingon""#,
        ),
        // Text with two bytes per character, which would pass for UTF-8 with NULs.
        (
            253,
            character("utf32", "\0\0\0a"),
            r#"unsupported character set "utf32""#,
        ),
        (
            7,
            timestamp(1, 1_000_000),
            "1 seconds and 1000000 microseconds do not fit into a timestamp",
        ),
        (
            7,
            timestamp(i64::MAX, 0),
            "9223372036854775807 seconds and 0 microseconds do not fit into a timestamp",
        ),
        (
            12,
            date_time([NO; 7]),
            "a DateTime of  is not a date, time or year",
        ),
        (
            12,
            date_time([2024, 1, NO, NO, NO, NO, NO]),
            "a DateTime of year 2024, month 1 is not a date, time or year",
        ),
        (
            12,
            date_time([2024, 1, 1, 1, NO, 1, NO]),
            "a DateTime of year 2024, month 1, day 1, hour 1, second 1 is not a date, time or year",
        ),
        (
            12,
            date_time([2024, 1, -1, 1, 1, 1, 0]),
            "a DateTime of year 2024, month 1, day -1, hour 1, minute 1, second 1, millis 0 does not fit into a date",
        ),
        (
            12,
            date_time([10_000, 1, 1, 1, 1, 1, 0]),
            "a DateTime of year 10000, month 1, day 1, hour 1, minute 1, second 1, millis 0 does not fit into a date",
        ),
        (
            11,
            date_time([NO, NO, NO, 839, 0, 0, 0]),
            "hour 839, minute 0, second 0, 0 microseconds do not fit into a time",
        ),
        (
            11,
            date_time([NO, NO, NO, -1, 1, 0, 0]),
            "hour -1, minute 1, second 0, 0 microseconds do not fit into a time",
        ),
        (
            11,
            date_time([NO, NO, NO, i64::from(i32::MIN), 1, 0, 0]),
            "hour -2147483648, minute 1, second 0, 0 microseconds do not fit into a time",
        ),
        (
            13,
            date_time([-1, NO, NO, NO, NO, NO, NO]),
            "-1 does not fit into a year",
        ),
        (
            17,
            zoned([2024, 6, 1, 12, 0, 0, 0], "Mars/Olympus"),
            r#"unknown time zone "Mars/Olympus""#,
        ),
        (
            17,
            zoned([2024, 6, 1, NO, NO, NO, NO], "UTC"),
            "a TimestampWithTimeZone of year 2024, month 6, day 1 is not a timestamp",
        ),
        (
            17,
            zoned([2021, 3, 14, 2, 30, 0, NO], "America/New_York"),
            "the local time year 2021, month 3, day 14, hour 2, minute 30, second 0 does not exist or is ambiguous in the time zone \"America/New_York\"",
        ),
        (
            17,
            zoned([1, 1, 1, 7, 59, 59, NO], "+08:00"),
            "the local time year 1, month 1, day 1, hour 7, minute 59, second 59 is outside of the years 1 to 9999 in the time zone \"+08:00\"",
        ),
    ];
    for (number, value, why) in cases {
        assert_eq!(shown(number, value), format!("dts-avro: after.x: {why}"));
    }
}

/// A value that cannot be decoded is lost only as text: its column has the error, and no other column has.
#[test]
fn text_in_an_unknown_charset_is_still_its_bytes() {
    let record = insert(("x", 253), character("klingon", "plain")).bytes();
    let text = decode(
        typed("id bigint, x string", Mode::Permissive),
        std::slice::from_ref(&record),
    );
    assert_eq!(
        text["error"].as_struct()["kind"]
            .as_string::<i32>()
            .value(0),
        "encoding"
    );
    assert_eq!(
        text["error"].as_struct()["column"]
            .as_string::<i32>()
            .value(0),
        "x"
    );
    let after = text["after"].as_struct();
    assert_eq!(
        (
            after["id"].as_primitive::<Int64Type>().value(0),
            after["x"].is_null(0)
        ),
        (1, true)
    );
    let error = error_of(typed("x string", Mode::FailFast), record.clone());
    assert_eq!(&record[error.byte.unwrap()..][..5], b"plain");
    let bytes = decode(
        typed("id bigint, x binary", Mode::FailFast),
        std::slice::from_ref(&record),
    );
    assert_eq!(
        bytes["after"].as_struct()["x"].as_binary::<i32>().value(0),
        b"plain"
    );
    // A column that is not requested cannot fail.
    decode(typed("id bigint", Mode::FailFast), &[record]);
}

#[test]
fn floats_keep_every_bit() {
    let ask = |number, double, ddl: &str| {
        let batch = decode(
            typed(ddl, Mode::FailFast),
            &[insert(("x", number), float(double)).bytes()],
        );
        let column = batch["after"].as_struct()["x"].clone();
        match column.as_primitive_opt::<arrow_array::types::Float64Type>() {
            Some(doubles) => doubles.value(0),
            None => f64::from(
                column
                    .as_primitive::<arrow_array::types::Float32Type>()
                    .value(0),
            ),
        }
    };
    assert_eq!(ask(4, 0.1f32.into(), "x float"), f64::from(0.1f32));
    assert_eq!(ask(4, 0.1f32.into(), "x double"), f64::from(0.1f32));
    assert_eq!(ask(5, 5e-324, "x double"), 5e-324);
    let error = error_of(
        typed("x float", Mode::FailFast),
        insert(("x", 5), float(1e300)).bytes(),
    );
    assert_eq!(
        (error.kind, error.message.as_str()),
        (
            Kind::Range,
            "dts-avro: after.x: 1e300 does not fit into a float"
        )
    );
}

#[test]
fn geometries_come_without_their_srid() {
    let record = insert(
        ("x", 255),
        object(BINARY_GEOMETRY, "POINT", b"\x01\x01\0\0\0rest"),
    )
    .bytes();
    let batch = decode(
        typed("x binary", Mode::FailFast),
        std::slice::from_ref(&record),
    );
    assert_eq!(
        batch["after"].as_struct()["x"].as_binary::<i32>().value(0),
        b"\x01\x01\0\0\0rest"
    );
    let text = insert(("x", 255), object(TEXT_GEOMETRY, "WKT", "POINT(1 2)")).bytes();
    let error = error_of(typed("x binary", Mode::FailFast), text);
    assert_eq!(
        (
            error.kind,
            error.message.contains("request string if it is WKT")
        ),
        (Kind::Type, true),
        "{}",
        error.message
    );
    let error = error_of(
        typed("x struct<srid: int, wkb: binary>", Mode::FailFast),
        record,
    );
    assert_eq!(
        error.message,
        "dts-avro: after.x: the message does not contain the geometry's SRID; request binary"
    );
}

/// Type numbers do not tell signs or lengths, nor text from bytes.
#[test]
fn inferred_types_hold_every_value() {
    let columns = [
        ("id", 8),
        ("tiny", 1),
        ("total", 246),
        ("bits", 16),
        ("raw", 254),
        ("text", 254),
        ("unset", 253),
        ("at", 7),
        ("on", 10),
    ];
    let fields = self::columns(&columns);
    let empty = vec![null(); columns.len()];
    let full = vec![
        integer("18446744073709551615"),
        integer("255"),
        decimal("1.00"),
        integer("5"),
        character("binary", b"\xff"),
        character("utf8mb4", "é"),
        null(),
        timestamp(1, 0),
        date_time([2024, 1, 1, NO, NO, NO, NO]),
    ];
    let record = |values: &[Vec<u8>]| {
        Record {
            fields: fields.clone(),
            after: images(values),
            ..Record::new(INSERT)
        }
        .bytes()
    };
    let messages = [record(&empty), record(&full)];
    let schema = infer_schema(&array(&messages), options(Mode::FailFast)).unwrap();
    let types: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| format!("{} {}", field.name(), field.data_type()))
        .collect();
    let wanted = [
        "id Decimal128(20, 0)",
        "tiny Int16",
        "total Utf8",
        "bits Decimal128(20, 0)",
        "raw Binary",
        "text Utf8",
        "unset Utf8",
        "at Timestamp(µs, \"UTC\")",
        "on Date32",
    ];
    assert_eq!(types, wanted);
    decode(
        Options {
            schema: Some(TableSchema::Arrow(schema.fields().clone())),
            ..options(Mode::FailFast)
        },
        &messages,
    );
}

#[test]
fn what_a_record_says_beside_its_rows() {
    let mut record = update();
    record.tags.extend([
        ("GTID", "281c62dc:5"),
        ("readerThroughoutTime", "1717990002212"),
    ]);
    let batch = decode(options(Mode::FailFast), &[record.bytes()]);
    let said = |field| source(&batch, field);
    assert_eq!(said("operation").as_deref(), Some("UPDATE"));
    assert_eq!(
        (said("connector").as_deref(), said("version").as_deref()),
        (Some("MySQL"), Some("8.0.28"))
    );
    assert_eq!(
        (
            said("message_id").as_deref(),
            said("transaction_id").as_deref()
        ),
        (Some("42"), Some("11"))
    );
    assert_eq!(
        (said("position").as_deref(), said("file").as_deref()),
        (Some("4985"), Some("78"))
    );
    assert_eq!(
        (said("gtid").as_deref(), said("server_id").as_deref()),
        (Some("281c62dc:5"), Some("7"))
    );
    let time = |batch: &RecordBatch, name: &str| {
        batch[name]
            .as_primitive::<TimestampMicrosecondType>()
            .iter()
            .next()
            .flatten()
    };
    assert_eq!(time(&batch, "event_time"), Some(1_717_990_002_000_000));
    assert_eq!(time(&batch, "produced_time"), Some(1_717_990_002_212_000));
    record.times = branch(
        1,
        items(&[long(1_717_990_003_000), long(1_717_990_004_000)]),
    );
    assert_eq!(
        time(
            &decode(options(Mode::FailFast), &[record.bytes()]),
            "produced_time"
        ),
        Some(1_717_990_004_000_000)
    );
    let keys = batch["primary_key"].as_list::<i32>().value(0);
    assert_eq!(
        keys.as_string::<i32>().iter().collect::<Vec<_>>(),
        [Some("id")]
    );
}

#[test]
fn positions_of_other_databases_are_not_taken_apart() {
    for (position, place, file) in [
        ("0/16B3748", None, Some("0/16B3748")),
        ("12", Some("12"), None),
        ("", None, None),
        ("a@b", None, Some("a@b")),
    ] {
        let batch = decode(
            options(Mode::FailFast),
            &[Record {
                position,
                ..Record::new(DDL)
            }
            .bytes()],
        );
        assert_eq!(
            (
                source(&batch, "position").as_deref(),
                source(&batch, "file").as_deref()
            ),
            (place, file),
            "{position}"
        );
    }
}

#[test]
fn names_are_set_apart_by_dots_that_are_not_escaped() {
    let cases: [(&str, [Option<&str>; 3]); 5] = [
        ("shop", [Some("shop"), None, None]),
        ("shop.orders", [Some("shop"), None, Some("orders")]),
        (
            "shop.public.orders",
            [Some("shop"), Some("public"), Some("orders")],
        ),
        (
            r"a\u002Eb.c\u002Ed\u002E",
            [Some("a.b"), None, Some("c.d.")],
        ),
        ("", [None, None, None]),
    ];
    for (name, [database, schema, table]) in cases {
        let record = Record {
            object_name: branch(1, text(name)),
            ..update()
        };
        // Twice: the second time the column list is known.
        let batch = decode(options(Mode::FailFast), &[record.bytes(), record.bytes()]);
        for (field, want) in [("database", database), ("schema", schema), ("table", table)] {
            assert_eq!(
                strings(&batch, field),
                vec![want.map(str::to_owned); 2],
                "{name}: {field}"
            );
        }
    }
    let renamed = Record {
        fields: columns(&[("id", 8), (r"a\u002Eb", 3)]),
        ..insert(("x", 3), integer("2"))
    };
    let batch = decode(typed("`a.b` int", Mode::FailFast), &[renamed.bytes()]);
    assert_eq!(batch["after"].as_struct()["a.b"].null_count(), 0);
}

#[test]
fn statements() {
    let statement = |sql: &str| {
        let batch = decode(
            options(Mode::FailFast),
            &[Record {
                after: branch(1, text(sql)),
                ..Record::new(DDL)
            }
            .bytes()],
        );
        (
            strings(&batch, "op").remove(0).unwrap(),
            strings(&batch, "sql").remove(0),
        )
    };
    assert_eq!(
        statement("create table t (a int)"),
        ("ddl".into(), Some("create table t (a int)".into()))
    );
    for truncate in [
        " TRUNCATE TABLE t",
        "/* app */ TRUNCATE TABLE t",
        "-- x\nTRUNCATE t",
        "/*!50000 TRUNCATE TABLE t*/",
        "truncate`t`",
    ] {
        assert_eq!(statement(truncate).0, "truncate", "{truncate}");
    }
    assert_eq!(statement("/* TRUNCATE */ create table t (a int)").0, "ddl");
    assert_eq!(statement("alter table t truncate partition p").0, "ddl");
    let none = decode(options(Mode::FailFast), &[Record::new(DDL).bytes()]);
    assert_eq!(
        (strings(&none, "op"), strings(&none, "sql")),
        (vec![Some("ddl".into())], vec![None])
    );
}

#[test]
fn an_update_repeats_most_values() {
    let batch = decode(
        typed("id bigint, note string, at timestamp", Mode::FailFast),
        &[update().bytes(), update().bytes()],
    );
    for row in 0..2 {
        let (before, after) = (batch["before"].as_struct(), batch["after"].as_struct());
        assert_eq!(
            (
                before["note"].as_string::<i32>().value(row),
                after["note"].as_string::<i32>().value(row)
            ),
            ("é", "中")
        );
        assert_eq!(
            (before["at"].is_valid(row), after["at"].is_valid(row)),
            (true, false)
        );
        assert_eq!(
            (
                before["id"].as_primitive::<Int64Type>().value(row),
                after["id"].as_primitive::<Int64Type>().value(row)
            ),
            (1, 1)
        );
    }
}

/// Either image of an update may lack some of its columns.
#[test]
fn columns_that_an_image_does_not_carry() {
    let record = Record {
        before: images(&[integer("1"), empty(1), empty(1)]),
        ..update()
    };
    let batch = decode(
        typed(
            "id bigint, note string, at timestamp, more int",
            Mode::FailFast,
        ),
        &[record.bytes()],
    );
    let missing = batch["missing_columns"].as_list::<i32>().value(0);
    assert_eq!(
        missing
            .as_string::<i32>()
            .iter()
            .flatten()
            .collect::<Vec<_>>(),
        ["note", "at", "more"]
    );
    assert_eq!(
        batch["after"].as_struct()["note"]
            .as_string::<i32>()
            .value(0),
        "中"
    );
}

// ---- bad input

/// A record that is not a change: its kind of error, and the text.
#[test]
fn records_that_are_no_change() {
    let cases: Vec<(Record, &str)> = vec![
        (
            Record {
                fields: null(),
                ..update()
            },
            "fields: expected the columns of the row, found null",
        ),
        (
            Record {
                fields: branch(1, text("id,note")),
                ..update()
            },
            "fields: expected the columns of the row, found text",
        ),
        (
            Record {
                after: null(),
                ..update()
            },
            "afterImages: update without a row",
        ),
        (
            Record {
                after: images(&[]),
                ..update()
            },
            "afterImages: update without a row",
        ),
        (
            Record {
                after: null(),
                ..insert(("x", 3), null())
            },
            "afterImages: insert without a row",
        ),
        (
            Record {
                operation: DELETE,
                before: null(),
                ..update()
            },
            "beforeImages: delete without a row",
        ),
        (
            Record {
                after: branch(1, text("a row")),
                ..update()
            },
            "afterImages: expected the columns' values, found text",
        ),
        (
            Record {
                after: images(&[integer("1")]),
                ..update()
            },
            "afterImages: has 1 values for 3 columns",
        ),
        (
            Record {
                after: images(&vec![null(); 4]),
                ..update()
            },
            "afterImages: has more than 3 values for 3 columns",
        ),
        (
            Record {
                object_name: branch(1, text("a.b.c.d")),
                ..update()
            },
            r#"objectName: "a.b.c.d" has more than three parts"#,
        ),
        (
            Record {
                tags: vec![("pk_uk_info", r#"{"PRIMARY":"id"}"#)],
                ..update()
            },
            "tags.pk_uk_info: expected an array of names or null, found text",
        ),
    ];
    for (record, what) in cases {
        let error = error(record.bytes());
        assert_eq!(
            (error.kind, error.message),
            (Kind::Envelope, format!("dts-avro: {what}"))
        );
    }
}

#[test]
fn an_update_without_its_first_image_gets_none() {
    for before in [null(), images(&[])] {
        let batch = decode(
            options(Mode::FailFast),
            &[Record { before, ..update() }.bytes()],
        );
        assert_eq!(
            (batch["before"].is_null(0), batch["after"].is_valid(0)),
            (true, true)
        );
    }
}

/// Bytes in place of a record's part, their error, and its place.
#[test]
fn bytes_that_are_no_record() {
    let huge = long(i64::MAX);
    let cases: Vec<(Record, Vec<u8>, &str)> = vec![
        (
            Record {
                operation: 17,
                ..update()
            },
            vec![],
            "operation: found symbol 17, but there are 17",
        ),
        (
            Record {
                operation: -1,
                ..update()
            },
            vec![],
            "operation: found symbol -1, but there are 17",
        ),
        (
            Record {
                object_name: branch(2, text("x")),
                ..update()
            },
            vec![],
            "objectName: found branch 2, but there are 2",
        ),
        (
            Record {
                object_name: branch(1, long(-5)),
                ..update()
            },
            vec![],
            "objectName: declares -5 bytes, but",
        ),
        (
            Record {
                object_name: branch(1, text(b"a\xff")),
                ..update()
            },
            vec![],
            "objectName: the text is not UTF-8",
        ),
        (
            Record {
                times: branch(1, &huge),
                ..update()
            },
            vec![],
            "processTimestamps: declares 9223372036854775807 items, but",
        ),
        (
            Record {
                fields: branch(3, null()),
                ..update()
            },
            vec![],
            "fields: found branch 3, but there are 3",
        ),
        (
            Record {
                fields: branch(2, &huge),
                ..update()
            },
            vec![],
            "fields: declares 9223372036854775807 items, but",
        ),
        (
            Record {
                fields: branch(2, [long(1), text("x"), long(1 << 40), long(0)].concat()),
                ..update()
            },
            vec![],
            "",
        ),
        (
            Record {
                before: branch(2, long(i64::MIN)),
                ..update()
            },
            vec![],
            "beforeImages: ",
        ),
        (
            Record {
                before: branch(2, [long(-3), long(1)].concat()),
                ..update()
            },
            vec![],
            "beforeImages",
        ),
        (
            Record {
                after: images(&[integer("1"), branch(13, null()), null()]),
                ..update()
            },
            vec![],
            "afterImages.note: found branch 13, but there are 13",
        ),
        (
            Record {
                after: images(&[integer("1"), empty(2), null()]),
                ..update()
            },
            vec![],
            "afterImages.note: found symbol 2, but there are 2",
        ),
        (
            Record {
                after: images(&[branch(1, [long(8), huge.clone()].concat())]),
                ..update()
            },
            vec![],
            "afterImages.id: declares 9223372036854775807 bytes, but",
        ),
        (
            Record {
                after: vec![0x80; 11],
                ..update()
            },
            vec![],
            "afterImages: found a number of more than 64 bits",
        ),
    ];
    for (record, end, what) in cases {
        let error = error([record.bytes(), end].concat());
        assert!(
            error.message.starts_with(&format!("dts-avro: {what}")),
            "{}",
            error.message
        );
        assert!(
            error.byte.is_some() || error.kind == Kind::Envelope,
            "{}",
            error.message
        );
    }
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    Schema::parse_str(include_str!("../golden/dts-avro/Record.v1_sdk.avsc")).unwrap()
});

/// Reads a record of the older schema with Apache's avro.
fn peer_reads(mut record: &[u8]) -> Result<(), String> {
    let reader = GenericDatumReader::builder(&SCHEMA).build().unwrap();
    reader
        .read_value(&mut record)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn is_error(batch: &RecordBatch) -> Vec<bool> {
    strings(batch, "op")
        .iter()
        .map(|op| op.as_deref() == Some("error"))
        .collect()
}

#[test]
fn a_record_that_is_cut_is_an_error_and_disturbs_no_other() {
    let (whole, older) = (update().bytes(), update().older());
    let good = decode(options(Mode::FailFast), std::slice::from_ref(&whole));
    // A message without bytes is a tombstone.
    for end in 1..older.len() {
        let batch = decode(
            options(Mode::Permissive),
            &[whole.clone(), whole[..end].to_vec(), whole.clone()],
        );
        assert_eq!(is_error(&batch), [false, true, false], "{end}");
        assert_eq!(batch["after"].slice(2, 1).as_ref(), good["after"].as_ref());
    }
    // The older schema ends at the cut.
    assert_eq!(
        decode(options(Mode::FailFast), std::slice::from_ref(&older))["after"].as_ref(),
        good["after"].as_ref()
    );
    assert!(
        error(whole[..older.len() + 2].to_vec())
            .message
            .starts_with("dts-avro: bornTimestamp: the message ends inside a number")
    );
}

#[test]
fn bytes_behind_a_record_are_an_error() {
    let (whole, older) = (update().bytes(), update().older());
    let more = [vec![0], text("more"), whole.clone(), older.clone()];
    let of_whole = more.iter().map(|more| [&whole[..], more].concat());
    // A single number after the older record makes it a newer one.
    let of_older = more.iter().skip(1).map(|more| [&older[..], more].concat());
    for message in of_whole.chain(of_older) {
        for dialect in ["dts-avro", "auto"] {
            let error = error_of(
                Options {
                    dialect: dialect.into(),
                    mode: Mode::FailFast,
                    ..Options::default()
                },
                message.clone(),
            );
            assert_eq!(error.kind, Kind::Syntax);
            assert!(
                error.message.contains("bytes remain after the record"),
                "{}",
                error.message
            );
        }
    }
}

/// Any bytes: towpath never reads what Apache's avro cannot read. towpath checks UTF-8 only in texts that it uses.
#[test]
fn flipped_bytes_are_read_as_they_stand_or_not_at_all() {
    let record = update().older();
    for at in 0..record.len() {
        for flip in [0x01, 0x02, 0x08, 0x40, 0x80, 0xFF] {
            let mut flipped = record.clone();
            flipped[at] ^= flip;
            let batch = decode(options(Mode::Permissive), std::slice::from_ref(&flipped));
            assert_eq!(batch.num_rows(), 1);
            match peer_reads(&flipped) {
                Err(why) if !why.contains("UTF-8") && !why.contains("utf-8") => {
                    assert!(is_error(&batch)[0], "byte {at} ^ {flip:02X}: {why}")
                }
                _ => {}
            }
        }
    }
}

#[test]
fn other_bytes_are_not_taken_for_a_record() {
    assert_eq!(
        detect(&update().bytes()).map(|dialect| dialect.name),
        Some("dts-avro")
    );
    assert_eq!(
        detect(&update().older()).map(|dialect| dialect.name),
        Some("dts-avro")
    );
    let others: [&[u8]; 6] = [
        b"",
        b"\0",
        b"\0\0\0\0\0\0\0\0\0\0\0\0",
        b"plain text, as long as it may be",
        &[0xFF; 64],
        &[0x02; 64],
    ];
    for other in others {
        assert_ne!(
            detect(other).map(|dialect| dialect.name),
            Some("dts-avro"),
            "{other:02X?}"
        );
    }
}

// ---- another writer's schema

const PUBLISHED: &str = include_str!("../golden/dts-avro/Record.v2_born.avsc");

/// Returns the published schema with a replaced text.
fn schema(from: &str, to: &str) -> String {
    let compact: String = serde_json::from_str::<serde_json::Value>(PUBLISHED)
        .unwrap()
        .to_string();
    assert!(compact.contains(from), "{from}");
    compact.replace(from, to)
}

fn refusal(schema: String) -> String {
    Decoder::new(Options {
        writer_schema: Some(schema),
        ..options(Mode::FailFast)
    })
    .err()
    .unwrap()
}

#[test]
fn the_published_schemas_may_be_named() {
    for (schema, record) in [
        (PUBLISHED, update().bytes()),
        (
            include_str!("../golden/dts-avro/Record.v1_sdk.avsc"),
            update().older(),
        ),
    ] {
        let named = Options {
            writer_schema: Some(schema.into()),
            ..options(Mode::FailFast)
        };
        assert_eq!(
            decode(named, std::slice::from_ref(&record)),
            decode(options(Mode::FailFast), &[record])
        );
    }
    // The published form: a list of types, whose last one is the record.
    let listed = Options {
        writer_schema: Some(format!(r#"["string",{PUBLISHED}]"#)),
        ..options(Mode::FailFast)
    };
    decode(listed, &[update().bytes()]);
}

#[test]
fn a_schema_that_lacks_what_is_needed_is_refused() {
    let cases = [
        (
            r#""name":"operation""#,
            r#""name":"operations""#,
            "the record has no field operation",
        ),
        (
            r#""name":"objectName""#,
            r#""name":"object""#,
            "the record has no field objectName",
        ),
        (
            r#""name":"afterImages""#,
            r#""name":"after""#,
            "the record has no field afterImages",
        ),
        (
            r#""name":"dataTypeNumber""#,
            r#""name":"dataType""#,
            "fields Field has no field dataTypeNumber",
        ),
        (
            r#""name":"charset""#,
            r#""name":"encoding""#,
            "beforeImages Character has no field charset",
        ),
        (
            r#""name":"sourceTimestamp","type":"long""#,
            r#""name":"sourceTimestamp","type":"bytes""#,
            "sourceTimestamp is not a number",
        ),
        (
            r#""name":"id","type":"long""#,
            r#""name":"id","type":["null","double"]"#,
            "id is not a number",
        ),
    ];
    for (from, to, what) in cases {
        // The members may be in another order than the replacement expects.
        let compact: String = serde_json::from_str::<serde_json::Value>(PUBLISHED)
            .unwrap()
            .to_string();
        let replaced = if compact.contains(from) {
            schema(from, to)
        } else {
            PUBLISHED
                .replace("\n", "")
                .replace(" ", "")
                .replace(from, to)
        };
        assert_eq!(refusal(replaced), format!("writer_schema: {what}"));
    }
    for (schema, what) in [
        ("", "EOF while parsing"),
        ("\"string\"", "expected a record"),
        ("{}", "missing field `type`"),
        ("[]", "expected a record"),
    ] {
        assert!(
            refusal(schema.into()).starts_with(&format!("writer_schema: {what}")),
            "{}",
            refusal(schema.into())
        );
    }
}

/// A record with another order of fields, with more fields and with more branches.
#[test]
fn fields_are_found_by_their_names() {
    let name = "com.alibaba.dts.formats.avro";
    let after = r#"{"name":"afterImages","type":{"type":"array","items":["null",{"type":"record","name":"Shape","fields":[
        {"name":"sides","type":"int"}]},{"type":"record","name":"Integer","fields":[{"name":"value","type":["null","string"]},
        {"name":"unsigned","type":"boolean"}]},"string"]}}"#;
    let text = format!(
        r#"{{"type":"record","name":"Change","namespace":"{name}","fields":[{after},
        {{"name":"beforeImages","type":["null",{{"type":"array","items":["null","Integer"]}}]}},
        {{"name":"fields","type":{{"type":"array","items":{{"type":"record","name":"Column","fields":[
            {{"name":"dataTypeNumber","type":"long"}},{{"name":"comment","type":["null","string"]}},{{"name":"name","type":"string"}}]}}}}}},
        {{"name":"nested","type":{{"type":"map","values":{{"type":"fixed","name":"Two","size":2}}}}}},
        {{"name":"operation","type":"string"}},{{"name":"objectName","type":"string"}}]}}"#
    );
    let value = |digits: &str| branch(2, [branch(1, self::text(digits)), vec![1]].concat());
    let column = |name: &str, number| [long(number), null(), self::text(name)].concat();
    let record = |shape: Vec<u8>| {
        [
            items(&[value("7"), shape, branch(3, self::text("plain"))]),
            branch(
                1,
                items(&[
                    branch(1, [branch(1, self::text("6")), vec![0]].concat()),
                    null(),
                    null(),
                ]),
            ),
            items(&[column("id", 8), column("shape", 3), column("note", 253)]),
            items(&[[self::text("k"), b"xy".to_vec()].concat()]),
            self::text("UPDATE"),
            self::text("shop.orders"),
        ]
        .concat()
    };
    let options = |ddl, mode| Options {
        writer_schema: Some(text.clone()),
        ..typed(ddl, mode)
    };
    let batch = decode(
        options("id bigint, note string", Mode::FailFast),
        &[record(null()), record(branch(1, long(5)))],
    );
    assert_eq!(strings(&batch, "op"), vec![Some("update".into()); 2]);
    for row in 0..2 {
        let (before, after) = (batch["before"].as_struct(), batch["after"].as_struct());
        assert_eq!(
            (
                before["id"].as_primitive::<Int64Type>().value(row),
                after["id"].as_primitive::<Int64Type>().value(row)
            ),
            (6, 7)
        );
        assert_eq!(after["note"].as_string::<i32>().value(row), "plain");
    }
    let error = error_of(
        options("id bigint, shape int", Mode::FailFast),
        record(branch(1, long(5))),
    );
    assert_eq!(
        error.message,
        r#"dts-avro: after.shape: Avro type "Shape" is not a DTS value type"#
    );
}

#[test]
fn what_a_schema_nests_without_end_is_bounded() {
    let extra = r#"{"name":"tree","type":{"type":"record","name":"Tree","fields":[{"name":"twigs","type":{"type":"array","items":"Tree"}}]}},"#;
    let text = PUBLISHED.replacen(
        r#""fields" : [ {"#,
        &format!(r#""fields" : [ {extra} {{"#),
        1,
    );
    let options = Options {
        writer_schema: Some(text),
        ..options(Mode::FailFast)
    };
    let error = error_of(options.clone(), [vec![2; 1000], update().bytes()].concat());
    assert_eq!(
        (error.kind, error.message.contains("128")),
        (Kind::Depth, true),
        "{}",
        error.message
    );
    decode(
        options,
        &[[items(&[items(&[])]), update().bytes()].concat()],
    );
}

// ---- random rows, encoded by the Avro project's own crate

/// A row of the table `orders`.
#[derive(Clone, Debug, PartialEq)]
struct Order {
    id: i64,
    note: Option<String>,
    /// Digits without the point. Four of them are the fraction.
    total: Option<i64>,
    /// Bits of the number.
    ratio: Option<u64>,
    /// Microseconds since 1970.
    at: Option<i64>,
    placed: Option<i64>,
    hash: Option<Vec<u8>>,
}

const ORDERS: &str = "id bigint, note string, total decimal(20,4), ratio double, at timestamp, placed timestamp_ntz, hash binary";
const COLUMNS: [(&str, i32); 7] = [
    ("id", 8),
    ("note", 253),
    ("total", 246),
    ("ratio", 5),
    ("at", 7),
    ("placed", 12),
    ("hash", 252),
];

fn order() -> impl Strategy<Value = Order> {
    use prop::option::of;
    // TIMESTAMP begins one second after 1970-01-01, and DATETIME with the year 1000.
    let (instants, clocks) = (
        1_000_000i64..2_147_483_647_999_999,
        -30_610_224_000_000_000i64..253_402_300_799_999_999,
    );
    let numbers = (
        any::<i64>(),
        of(any::<i64>()),
        of(any::<f64>().prop_filter("a MySQL double", |double| double.is_finite())),
    );
    let bytes = of(prop::collection::vec(any::<u8>(), 0..40));
    (
        numbers,
        of(any::<String>()),
        of(instants),
        of(clocks),
        bytes,
    )
        .prop_map(|((id, total, ratio), note, at, placed, hash)| Order {
            id,
            note,
            total,
            ratio: ratio.map(f64::to_bits),
            at,
            placed,
            hash,
        })
}

fn record(members: Vec<(&str, AvroValue)>) -> AvroValue {
    AvroValue::Record(
        members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

fn string(text: impl Into<String>) -> AvroValue {
    AvroValue::String(text.into())
}

fn union(branch: u32, value: AvroValue) -> AvroValue {
    AvroValue::Union(branch, Box::new(value))
}

/// Returns a value of an image: the branch of its type, or null.
fn of_image(branch: u32, members: Option<Vec<(&str, AvroValue)>>) -> AvroValue {
    members.map_or_else(
        || union(0, AvroValue::Null),
        |members| union(branch, record(members)),
    )
}

fn clock_parts(micros: i64) -> Vec<(&'static str, AvroValue)> {
    let clock = jiff::Timestamp::from_microsecond(micros)
        .unwrap()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .datetime();
    let (date, time) = (clock.date(), clock.time());
    let parts = [
        ("year", i32::from(date.year())),
        ("month", date.month().into()),
        ("day", date.day().into()),
        ("hour", time.hour().into()),
        ("minute", time.minute().into()),
        ("second", time.second().into()),
        ("millis", time.subsec_nanosecond() / 1000),
    ];
    parts
        .map(|(name, part)| (name, union(1, AvroValue::Int(part))))
        .to_vec()
}

fn decimal_text(unscaled: i64) -> String {
    let digits = format!("{:05}", unscaled.unsigned_abs());
    let (whole, fraction) = digits.split_at(digits.len() - 4);
    format!("{}{whole}.{fraction}", if unscaled < 0 { "-" } else { "" })
}

impl Order {
    fn image(&self) -> AvroValue {
        use AvroValue::{Bytes, Double, Int, Long};
        let character = self.note.as_ref().map(|note| {
            vec![
                ("charset", string("utf8mb4")),
                ("value", Bytes(note.clone().into_bytes())),
            ]
        });
        let decimal = |total| {
            vec![
                ("value", string(decimal_text(total))),
                ("precision", Int(20)),
                ("scale", Int(4)),
            ]
        };
        let float = |bits| {
            vec![
                ("value", Double(f64::from_bits(bits))),
                ("precision", Int(22)),
                ("scale", Int(0)),
            ]
        };
        let instant = |at: i64| {
            vec![
                ("timestamp", Long(at / 1_000_000)),
                ("millis", Int((at % 1_000_000) as i32)),
            ]
        };
        let blob = self
            .hash
            .as_ref()
            .map(|hash| vec![("type", string("BLOB")), ("value", Bytes(hash.clone()))]);
        let values = vec![
            of_image(
                1,
                Some(vec![
                    ("precision", Int(8)),
                    ("value", string(self.id.to_string())),
                ]),
            ),
            of_image(2, character),
            of_image(3, self.total.map(decimal)),
            of_image(4, self.ratio.map(float)),
            of_image(5, self.at.map(instant)),
            of_image(6, self.placed.map(clock_parts)),
            of_image(10, blob),
        ];
        union(2, AvroValue::Array(values))
    }

    /// Returns the row of an image; `None` if it is null.
    fn found(image: &StructArray, row: usize) -> Option<Order> {
        let then = |name: &str| image[name].is_valid(row).then_some(row);
        let micros = |name: &str| {
            then(name).map(|row| {
                image[name]
                    .as_primitive::<TimestampMicrosecondType>()
                    .value(row)
            })
        };
        image.is_valid(row).then(|| Order {
            id: image["id"].as_primitive::<Int64Type>().value(row),
            note: then("note").map(|row| image["note"].as_string::<i32>().value(row).to_owned()),
            total: then("total").map(|row| {
                i64::try_from(image["total"].as_primitive::<Decimal128Type>().value(row)).unwrap()
            }),
            ratio: then("ratio").map(|row| {
                image["ratio"]
                    .as_primitive::<Float64Type>()
                    .value(row)
                    .to_bits()
            }),
            at: micros("at"),
            placed: micros("placed"),
            hash: then("hash").map(|row| image["hash"].as_binary::<i32>().value(row).to_vec()),
        })
    }
}

fn encoded(before: Option<&Order>, after: Option<&Order>) -> Vec<u8> {
    let image =
        |order: Option<&Order>| order.map_or_else(|| union(0, AvroValue::Null), Order::image);
    let operation = match (before, after) {
        (None, _) => AvroValue::Enum(0, "INSERT".into()),
        (_, Some(_)) => AvroValue::Enum(1, "UPDATE".into()),
        (_, None) => AvroValue::Enum(2, "DELETE".into()),
    };
    let field = |(name, number): (&str, i32)| {
        record(vec![
            ("name", string(name)),
            ("dataTypeNumber", AvroValue::Int(number)),
        ])
    };
    let message = record(vec![
        ("version", AvroValue::Int(0)),
        ("id", AvroValue::Long(42)),
        ("sourceTimestamp", AvroValue::Long(1_717_990_002)),
        ("sourcePosition", string("4985@78")),
        ("safeSourcePosition", string("")),
        ("sourceTxid", string("11")),
        (
            "source",
            record(vec![
                ("sourceType", AvroValue::Enum(0, "MySQL".into())),
                ("version", string("8.0.28")),
            ]),
        ),
        ("operation", operation),
        ("objectName", union(1, string("shop.orders"))),
        ("processTimestamps", union(0, AvroValue::Null)),
        ("tags", AvroValue::Map(Default::default())),
        (
            "fields",
            union(2, AvroValue::Array(COLUMNS.map(field).to_vec())),
        ),
        ("beforeImages", image(before)),
        ("afterImages", image(after)),
    ]);
    GenericDatumWriter::builder(&SCHEMA)
        .build()
        .unwrap()
        .write_value_to_vec(message)
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_what_was_written(changes in prop::collection::vec((prop::option::of(order()), prop::option::of(order())), 1..12)) {
        // A record without an image is not a change.
        let changes: Vec<_> = changes.into_iter().filter(|(before, after)| before.is_some() || after.is_some()).collect();
        prop_assume!(!changes.is_empty());
        let messages: Vec<Vec<u8>> = changes.iter().map(|(before, after)| encoded(before.as_ref(), after.as_ref())).collect();
        let batch = decode(typed(ORDERS, Mode::Permissive), &messages);
        let images = |row| (Order::found(batch["before"].as_struct(), row), Order::found(batch["after"].as_struct(), row));
        prop_assert_eq!(batch["error"].null_count(), batch.num_rows());
        prop_assert_eq!((0..batch.num_rows()).map(images).collect::<Vec<_>>(), changes);
    }
}
