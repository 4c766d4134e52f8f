//! Errors, one line per case. Users see the message's text, so it is written out.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, BinaryArray, RecordBatch};
use towpath::{DIALECTS, DecodeError, Decoder, Error, Kind, Layout, Mode, Options, TableSchema};

const SCHEMA: &str =
    "id bigint, total decimal(10,2), ok boolean, at timestamp_ntz, raw binary, tags array<int>";

fn decoder(mode: Mode) -> Decoder {
    let schema = Some(TableSchema::Ddl(SCHEMA.into()));
    Decoder::new(Options {
        dialect: "canal-json".into(),
        schema,
        mode,
        ..Options::default()
    })
    .unwrap()
}

/// Returns the error of a message, in mode `FAILFAST`.
fn error(message: &[u8]) -> Error {
    match decoder(Mode::FailFast).decode(&BinaryArray::from(vec![message])) {
        Err(DecodeError::Row(error)) => error,
        other => panic!("{}: {other:?}", String::from_utf8_lossy(message)),
    }
}

fn row(cells: &str) -> String {
    format!(r#"{{"type":"INSERT","data":[{{{cells}}}]}}"#)
}

/// An unreadable message: its kind of error, the place, and the text.
#[test]
fn messages_that_cannot_be_read() {
    let cases: [(&str, Kind, usize, &str); 19] = [
        ("  ", Kind::Syntax, 2, "the message is empty"),
        (
            "nonsense",
            Kind::Syntax,
            0,
            "expected an object or an array of objects, found 'n'",
        ),
        (
            "{",
            Kind::Syntax,
            1,
            "the message ends where a key or '}' was expected",
        ),
        (
            r#"{"type""#,
            Kind::Syntax,
            7,
            "the message ends where ':' was expected",
        ),
        (
            r#"{"type":"INSERT""#,
            Kind::Syntax,
            16,
            "the message ends where ',' or '}' was expected",
        ),
        (
            r#"{"type":"INS"#,
            Kind::Syntax,
            12,
            "type: the message ends inside a string",
        ),
        (
            r#"{"type":INSERT}"#,
            Kind::Syntax,
            8,
            "type: expected a value, found 'I'",
        ),
        (r#"{"es":01}"#, Kind::Syntax, 6, "es: malformed number"),
        (
            r#"{"type":"\x"}"#,
            Kind::Syntax,
            9,
            "type: unknown escape in a string",
        ),
        (
            r#"{"type":"\u12"}"#,
            Kind::Syntax,
            9,
            r"type: \u needs four hexadecimal digits",
        ),
        (
            "{\"sql\":\"a\nb\"}",
            Kind::Syntax,
            9,
            "sql: control character U+000A in a string (lenient=True accepts it)",
        ),
        (
            r#"{"type":5}"#,
            Kind::Envelope,
            8,
            "type: expected text or null, found a number",
        ),
        (
            r#"{"es":"5"}"#,
            Kind::Envelope,
            6,
            "es: expected an integer or null, found text",
        ),
        (
            r#"{"es":99999999999999999999}"#,
            Kind::Envelope,
            6,
            "es: 99999999999999999999 is not a 64-bit integer",
        ),
        (
            r#"{"data":5}"#,
            Kind::Envelope,
            8,
            "data: expected an array of objects, an object or null, found a number",
        ),
        (
            r#"{"data":[[]]}"#,
            Kind::Envelope,
            9,
            "data: expected an object or null, found an array",
        ),
        (
            r#"{"pkNames":{}}"#,
            Kind::Envelope,
            11,
            "pkNames: expected an array of names or null, found an object",
        ),
        (
            r#"{"_tidb":{"commitTs":"1"}}"#,
            Kind::Envelope,
            21,
            "_tidb.commitTs: expected an integer or null, found text",
        ),
        (
            r#"{"sql":"\ud800"}"#,
            Kind::Encoding,
            7,
            "sql: a lone surrogate escape is not a character",
        ),
    ];
    for (message, kind, byte, what) in cases {
        let error = error(message.as_bytes());
        assert_eq!(
            (error.kind, error.column.as_deref()),
            (kind, None),
            "{message}"
        );
        assert_eq!(error.message, format!("canal-json: {what}"), "{message}");
        assert_eq!(error.byte, Some(byte), "{message}");
    }
}

#[test]
fn messages_that_are_no_change() {
    let cases = [
        ("{}", "type: is missing"),
        (r#"{"type":"INSERT"}"#, "data: insert without a row"),
        (
            r#"{"type":"UPDATE","data":[]}"#,
            "data: update without a row",
        ),
        (
            r#"{"type":"DELETE","data":null,"old":null}"#,
            "data: delete without a row",
        ),
        (
            r#"{"type":"UPDATE","data":[{},{}],"old":[{}]}"#,
            "old: has 1 rows, data has 2",
        ),
        (
            r#"{"type":"UPDATE","data":[null]}"#,
            "data: a row of this update has no image",
        ),
    ];
    for (message, what) in cases {
        let error = error(message.as_bytes());
        assert_eq!(
            (error.kind, error.message),
            (Kind::Envelope, format!("canal-json: {what}")),
            "{message}"
        );
    }
}

/// A value that cannot be converted: its column and the text. The byte is the place of the value.
#[test]
fn values_that_cannot_be_converted() {
    let cases: [(&str, &str, Kind, &str); 13] = [
        ("id", r#""1.5""#, Kind::Type, r#""1.5" is not a bigint"#),
        (
            "id",
            r#""9223372036854775808""#,
            Kind::Range,
            r#""9223372036854775808" does not fit into a bigint"#,
        ),
        ("id", "1.5", Kind::Type, "1.5 is not a bigint"),
        (
            "total",
            r#""12,50""#,
            Kind::Type,
            r#""12,50" is not a decimal(10,2)"#,
        ),
        (
            "total",
            r#""1.005""#,
            Kind::Range,
            r#""1.005" does not fit into a decimal(10,2)"#,
        ),
        ("total", "true", Kind::Type, "true is not a decimal(10,2)"),
        (
            "ok",
            r#""2""#,
            Kind::Range,
            r#""2" does not fit into a boolean (0 or 1)"#,
        ),
        (
            "at",
            r#""yesterday""#,
            Kind::Type,
            r#""yesterday" is not a timestamp_ntz"#,
        ),
        (
            "at",
            r#""2021-02-30 00:00:00""#,
            Kind::Range,
            r#""2021-02-30 00:00:00" does not fit into a timestamp_ntz"#,
        ),
        ("at", "{}", Kind::Type, "{} is not a timestamp_ntz"),
        (
            "raw",
            r#""a中""#,
            Kind::Encoding,
            r#""a中" contains '中', which is not a byte (U+0000 to U+00FF)"#,
        ),
        ("tags", r#""{}""#, Kind::Type, r#""{}" is not a JSON array"#),
        ("tags", r#"[1,"x"]"#, Kind::Type, r#""x" is not an int"#),
    ];
    for (column, value, kind, what) in cases {
        let message = row(&format!(r#""first":1,"{column}":{value}"#));
        let error = error(message.as_bytes());
        assert_eq!(
            (error.kind, error.column.as_deref()),
            (kind, Some(column)),
            "{message}"
        );
        assert_eq!(
            error.message,
            format!("canal-json: after.{column}: {what}"),
            "{message}"
        );
        let there = &message[error.byte.unwrap_or_else(|| panic!("{message}: no byte"))..];
        assert!(
            there.starts_with(value) || there.starts_with(value.trim_matches('"')),
            "{message}: byte {:?}",
            error.byte
        );
    }
}

#[test]
fn long_values_are_shortened_at_a_characters_boundary() {
    for length in [81, 1000, 1 << 20] {
        let error = error(row(&format!(r#""id":"{}""#, "é".repeat(length))).as_bytes());
        assert!(
            error.message.len() < 400 && error.message.contains(&format!("({} bytes)", 2 * length)),
            "{}",
            error.message
        );
    }
}

#[test]
fn bytes_that_are_not_utf8() {
    for (at, bad) in [(8, &b"\xFF"[..]), (20, b"\xE4\xB8"), (33, b"\xC0\x80")] {
        let mut message = row(r#""id":"1","note":"0123456789""#).into_bytes();
        message.splice(at..at, bad.iter().copied());
        let error = error(&message);
        assert_eq!((error.kind, error.byte), (Kind::Encoding, Some(at)));
    }
}

#[test]
fn nesting_is_bounded_and_the_bound_named() {
    let deep = format!(
        r#"{{"type":"INSERT","x":{}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let error = error(deep.as_bytes());
    assert_eq!(error.kind, Kind::Depth);
    assert!(error.message.contains("128"), "{}", error.message);
}

/// Each mode's result for a good message, a bad value, a bad message and a good one.
#[test]
fn modes_differ_in_what_becomes_of_bad_rows() {
    let messages = [
        row(r#""id":"1""#),
        row(r#""id":"x""#),
        "{".to_owned(),
        row(r#""id":"4""#),
    ];
    let array: BinaryArray = messages
        .iter()
        .map(|message| Some(message.as_bytes()))
        .collect();

    let permissive = decoder(Mode::Permissive).decode(&array).unwrap();
    assert_eq!(ids(&permissive), [Some(1), None, None, Some(4)]);
    assert_eq!(ops(&permissive), ["insert", "insert", "error", "insert"]);
    let corrupt = permissive["_corrupt_record"].as_binary::<i32>();
    assert_eq!(
        (corrupt.null_count(), corrupt.value(1), corrupt.value(2)),
        (2, messages[1].as_bytes(), &b"{"[..])
    );

    let dropping = decoder(Mode::DropMalformed);
    assert_eq!(ids(&dropping.decode(&array).unwrap()), [Some(1), Some(4)]);
    let metrics = dropping.metrics();
    assert_eq!((metrics.messages, metrics.rows, metrics.dropped), (4, 2, 2));
    assert_eq!(
        metrics.errors.into_iter().collect::<Vec<_>>(),
        [("syntax", 1), ("type", 1)]
    );

    match decoder(Mode::FailFast).decode(&array) {
        Err(DecodeError::Row(error)) => assert_eq!(
            (error.row, error.kind, error.dialect),
            (1, Kind::Type, "canal-json")
        ),
        other => panic!("{other:?}"),
    }
}

fn ids(batch: &RecordBatch) -> Vec<Option<i64>> {
    let after = batch["after"].as_struct();
    let ids = after["id"].as_primitive::<Int64Type>();
    (0..batch.num_rows())
        .map(|row| (after.is_valid(row) && ids.is_valid(row)).then(|| ids.value(row)))
        .collect()
}

fn ops(batch: &RecordBatch) -> Vec<&str> {
    batch["op"].as_string::<i32>().iter().flatten().collect()
}

#[test]
fn every_kind_has_its_own_name() {
    let names: std::collections::BTreeSet<_> = Kind::NAMES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), Kind::NAMES.len());
}

/// `auto` names the detected dialect, or itself if it detects none.
#[test]
fn auto_names_the_dialect_that_it_found() {
    let schema = Some(TableSchema::Ddl(SCHEMA.into()));
    let decoder = Decoder::new(Options {
        schema,
        mode: Mode::FailFast,
        ..Options::default()
    })
    .unwrap();
    let dialect = |message: &str| match decoder.decode(&BinaryArray::from(vec![message.as_bytes()]))
    {
        Err(DecodeError::Row(error)) => (error.dialect, error.message),
        other => panic!("{message}: {other:?}"),
    };
    assert_eq!(
        dialect(&row(r#""id":"x""#)),
        (
            "canal-json",
            r#"canal-json: after.id: "x" is not a bigint"#.into()
        )
    );
    assert_eq!(dialect(r#"{"type":"INSERT","data":["#).0, "canal-json");
    let tried: Vec<_> = DIALECTS.iter().map(|dialect| dialect.name).collect();
    let (name, what) = dialect(r#"{"a":1}"#);
    assert!(
        name == "auto"
            && what.starts_with(&format!(
                "auto: dialect not recognised; tried {};",
                tried.join(", ")
            )),
        "{what}"
    );
    assert!(
        what.contains("set unwrapped=True") && what.ends_with("if the row has one"),
        "{what}"
    );
}

/// The other JSON dialects have the same errors for their own fields.
#[test]
fn messages_of_other_dialects_that_cannot_be_read() {
    let cases: [(&str, &str, Option<usize>, &str); 18] = [
        (
            "debezium-json",
            r#"{"op":5}"#,
            Some(6),
            "op: expected text or null, found a number",
        ),
        (
            "debezium-json",
            r#"{"after":[]}"#,
            Some(9),
            "after: expected an object or null, found an array",
        ),
        (
            "debezium-json",
            r#"{"source":{"pos":"4"}}"#,
            Some(17),
            "source.pos: expected an integer or null, found text",
        ),
        (
            "debezium-json",
            r#"{"payload":{"op":5}}"#,
            Some(17),
            "payload.op: expected text or null, found a number",
        ),
        (
            "debezium-json",
            r#"{"op":"c"}"#,
            None,
            "after: a row of this insert has no image",
        ),
        (
            "debezium-json",
            r#"{"op":"d","before":null}"#,
            None,
            "before: a row of this delete has no image",
        ),
        (
            "debezium-json",
            r#"{"ts_ms":1,"source":{"table":"t"}}"#,
            None,
            "op: is missing",
        ),
        (
            "debezium-json",
            r#"{"a":1}"#,
            None,
            "not a Debezium envelope: no member \"op\"; if the message is a row without an envelope, such as {\"id\": 7, \"name\": \"x\"}, set unwrapped=True, and op_column to the member with the operation, if the row has one",
        ),
        (
            "cloudcanal-json",
            r#"{"data":5}"#,
            Some(8),
            "data: expected an array of objects, an object or null, found a number",
        ),
        ("cloudcanal-json", "{}", None, "action: is missing"),
        (
            "cloudcanal-json",
            r#"{"action":"INSERT"}"#,
            None,
            "data: insert without a row",
        ),
        (
            "cloudcanal-json",
            r#"{"action":"UPDATE","data":[{},{}],"before":[{}]}"#,
            None,
            "before: has 1 rows, data has 2",
        ),
        (
            "river-json",
            r#"{"time":"5"}"#,
            Some(8),
            "time: expected an integer or null, found text",
        ),
        ("river-json", "{}", None, "event: is missing"),
        (
            "river-json",
            r#"{"event":"i"}"#,
            None,
            "columns: insert without a column",
        ),
        (
            "maxwell-json",
            r#"{"data":5}"#,
            Some(8),
            "data: expected an object or null, found a number",
        ),
        ("maxwell-json", "{}", None, "type: is missing"),
        (
            "maxwell-json",
            r#"{"type":"delete"}"#,
            None,
            "data: delete without a row",
        ),
    ];
    for (dialect, message, byte, what) in cases {
        let error = error_of(dialect, "id bigint", message);
        assert_eq!(
            (error.kind, error.dialect, error.column.as_deref()),
            (Kind::Envelope, dialect, None),
            "{message}"
        );
        assert_eq!(error.message, format!("{dialect}: {what}"), "{message}");
        assert_eq!(error.byte, byte, "{message}");
    }
}

/// A duplicate member of an envelope. In a row image, the later column of a duplicate name counts.
#[test]
fn duplicate_members() {
    let cases: [(&str, &str, &str); 10] = [
        (
            "canal-json",
            r#"{"type":"INSERT","data":[{"id":"1"}],"type":!"DELETE"}"#,
            "type",
        ),
        (
            "canal-json",
            r#"{"type":"INSERT","data":[{"id":"1"}],"data":![{"id":"2"}]}"#,
            "data",
        ),
        (
            "canal-json",
            r#"{"type":"INSERT","es":null,"data":[{"id":"1"}],"es" : !null}"#,
            "es",
        ),
        (
            "canal-json",
            r#"{"type":"INSERT","_tidb":{"commitTs":1,"commitTs":!2},"data":[{"id":"1"}]}"#,
            "_tidb.commitTs",
        ),
        (
            "cloudcanal-json",
            r#"{"action":"INSERT","data":[{"id":"1"}],"db":"a","db":!"b"}"#,
            "db",
        ),
        (
            "maxwell-json",
            r#"{"type":"insert","data":{"id":1},"data":!{"id":2}}"#,
            "data",
        ),
        (
            "river-json",
            r#"{"event":"i","columns":[{"n":"id","v":"1","v":!"2"}]}"#,
            "columns.v",
        ),
        (
            "debezium-json",
            r#"{"op":"c","after":{"id":1},"op":!"c"}"#,
            "op",
        ),
        (
            "debezium-json",
            r#"{"op":"c","after":{"id":1},"source":{"pos":1,"pos":!1}}"#,
            "source.pos",
        ),
        (
            "debezium-json",
            r#"{"payload":{"op":"c","after":{"id":1},"after":!null}}"#,
            "payload.after",
        ),
    ];
    for (dialect, message, member) in cases {
        let byte = message.find('!').unwrap();
        let error = error_of(dialect, "id bigint", &message.replacen('!', "", 1));
        assert_eq!(
            (error.kind, error.message),
            (
                Kind::Envelope,
                format!("{dialect}: {member}: duplicate member")
            ),
            "{message}"
        );
        assert_eq!(error.byte, Some(byte), "{message}");
    }
    let batch = decoder(Mode::FailFast)
        .decode(&BinaryArray::from(vec![
            row(r#""id":"1","id":"2""#).as_bytes(),
        ]))
        .unwrap();
    assert_eq!(ids(&batch), [Some(2)]);
}

/// ticdc-open's parts are JSON too: the record's key, and a change with its columns.
#[test]
fn duplicate_members_of_ticdc_open() {
    let cases = [
        (r#"{"t":1,"t":2}"#, r#"{"u":{}}"#, "key.t"),
        (r#"{"t":1}"#, r#"{"u":{},"u":{}}"#, "u"),
        (
            r#"{"t":1}"#,
            r#"{"u":{"id":{"t":8,"f":11,"v":1,"v":2}}}"#,
            "u.id.v",
        ),
    ];
    let with_length =
        |json: &str| [&(json.len() as u64).to_be_bytes()[..], json.as_bytes()].concat();
    for (head, change, member) in cases {
        let key = [&1u64.to_be_bytes()[..], &with_length(head)].concat();
        let columns = [("key", key), ("value", with_length(change))].map(|(name, bytes)| {
            (
                name,
                std::sync::Arc::new(BinaryArray::from(vec![&bytes[..]])) as arrow_array::ArrayRef,
            )
        });
        let input = arrow_array::StructArray::from(RecordBatch::try_from_iter(columns).unwrap());
        let schema = Some(TableSchema::Ddl("id bigint".into()));
        let options = Options {
            dialect: "ticdc-open".into(),
            key: Some("key".into()),
            schema,
            mode: Mode::FailFast,
            ..Options::default()
        };
        match Decoder::new(options).unwrap().decode(&input) {
            Err(DecodeError::Row(error)) => assert_eq!(
                error.message,
                format!("ticdc-open: {member}: duplicate member")
            ),
            other => panic!("{other:?}"),
        }
    }
}

/// Values that Kafka Connect's encodings do not hold, and values that only a setting of the connector explains.
#[test]
fn values_in_connects_forms_that_cannot_be_converted() {
    let decimal = r#""type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}"#;
    let cases: [(&str, &str, &str, Kind, &str); 9] = [
        (
            decimal,
            "decimal(10,2)",
            r#""12,50""#,
            Kind::Type,
            r#""12,50" is not base64"#,
        ),
        (
            decimal,
            "decimal(4,2)",
            r#""AP//////////""#,
            Kind::Range,
            r#"184467440737095516.15 does not fit into a decimal(4,2)"#,
        ),
        (
            r#""type":"bytes""#,
            "binary",
            r#""%""#,
            Kind::Type,
            r#""%" is not base64"#,
        ),
        (
            r#""type":"int32","name":"io.debezium.time.Date""#,
            "date",
            "1.5",
            Kind::Type,
            r#""1.5" is not an integer"#,
        ),
        (
            "",
            "decimal(10,2)",
            r#""1234""#,
            Kind::Type,
            r#""1234" is ambiguous (digits or base64): set decimal_handling_mode"#,
        ),
        (
            "",
            "timestamp_ntz",
            "5",
            Kind::Type,
            r#""5" is ambiguous (milliseconds or microseconds): set time_precision_mode"#,
        ),
        (
            "",
            "interval day to second",
            "5",
            Kind::Type,
            r#""5" is ambiguous (milliseconds or microseconds): set time_precision_mode"#,
        ),
        (
            "",
            "binary",
            r#""abcd""#,
            Kind::Type,
            r#""abcd" is ambiguous (base64 or hexadecimal): set binary_handling_mode"#,
        ),
        (
            "",
            "bigint",
            r#""1234""#,
            Kind::Type,
            r#""1234" is ambiguous (digits or base64): set decimal_handling_mode"#,
        ),
    ];
    for (column, asked, value, kind, what) in cases {
        let row =
            format!(r#"{{"field":"after","type":"struct","fields":[{{"field":"v",{column}}}]}}"#);
        let schema = if column.is_empty() {
            "null".to_owned()
        } else {
            format!(r#"{{"type":"struct","fields":[{row}]}}"#)
        };
        let message =
            format!(r#"{{"schema":{schema},"payload":{{"op":"c","after":{{"v":{value}}}}}}}"#);
        let error = error_of("debezium-json", &format!("v {asked}"), &message);
        assert_eq!(
            (error.kind, error.column.as_deref()),
            (kind, Some("v")),
            "{message}"
        );
        assert!(
            error
                .message
                .starts_with(&format!("debezium-json: after.v: {what}")),
            "{}",
            error.message
        );
    }
}

/// A value that cannot be decoded is the error of its row, even after a value that does not fit into its column.
#[test]
fn values_that_cannot_be_decoded_come_first() {
    let fields = r#"[{"field":"id","type":"int32"},{"field":"v","type":"bytes"}]"#;
    let schema = format!(
        r#"{{"type":"struct","fields":[{{"field":"after","type":"struct","fields":{fields}}}]}}"#
    );
    let message = |v: &str| {
        format!(r#"{{"schema":{schema},"payload":{{"op":"c","after":{{"id":300,"v":"{v}"}}}}}}"#)
    };
    let column = |v: &str| error_of("debezium-json", "id tinyint, v binary", &message(v)).column;
    assert_eq!(
        [column("/w=="), column("%")].map(Option::unwrap),
        ["id", "v"]
    );
}

/// Returns the error of a message of this dialect, in mode `FAILFAST`.
fn error_of(dialect: &str, schema: &str, message: &str) -> Error {
    let schema = Some(TableSchema::Ddl(schema.into()));
    let decoder = Decoder::new(Options {
        dialect: dialect.into(),
        schema,
        mode: Mode::FailFast,
        ..Options::default()
    })
    .unwrap();
    match decoder.decode(&BinaryArray::from(vec![message.as_bytes()])) {
        Err(DecodeError::Row(error)) => error,
        other => panic!("{message}: {other:?}"),
    }
}

/// The image of a value that cannot be converted, in each layout.
#[test]
fn images_of_values_that_cannot_be_converted() {
    let update_before = r#"{"schema":{"dataColumn":[{"name":"id","type":"STRING"}],"source":{"dbName":"d","tableName":"t"}},
        "payload":{"before":{"dataColumn":{"id":"x"}},"after":null,"op":"UPDATE_BEFORE","sequenceId":"1"},"version":"0.0.1"}"#;
    let cases = [
        (
            "canal-json",
            r#"{"type":"INSERT","data":[{"id":"x"}]}"#,
            "after",
        ),
        (
            "canal-json",
            r#"{"type":"UPDATE","data":[{"id":"x"}],"old":[{"id":"1"}]}"#,
            "after",
        ),
        (
            "canal-json",
            r#"{"type":"DELETE","data":[{"id":"x"}]}"#,
            "before",
        ),
        ("dataworks-json", update_before, "before"),
    ];
    for (layout, (dialect, message, side)) in [Layout::Change, Layout::Changelog, Layout::Upsert]
        .into_iter()
        .flat_map(|l| cases.map(|c| (l, c)))
    {
        let (dialect, schema) = (dialect.into(), Some(TableSchema::Ddl("id bigint".into())));
        let decoder = Decoder::new(Options {
            dialect,
            schema,
            layout,
            mode: Mode::FailFast,
            ..Options::default()
        })
        .unwrap();
        match decoder.decode(&BinaryArray::from(vec![message.as_bytes()])) {
            Err(DecodeError::Row(error)) => assert!(
                error.message.contains(&format!(": {side}.id: ")),
                "{layout:?}: {}",
                error.message
            ),
            other => panic!("{layout:?}, {message}: {other:?}"),
        }
    }
}

/// TiCDC's file of a large message has these members. A row may have them too.
#[test]
fn rows_with_the_members_of_a_stored_message_are_rows() {
    const STORED: &str = "eyJ0eXBlIjoiSU5TRVJUIiwiZGF0YSI6W3sia2V5IjoiayIsInZhbHVlIjoidiJ9XX0=";
    let message = format!(r#"{{"key":null,"value":"{STORED}"}}"#);
    let values = |dialect: &str, unwrapped: bool| {
        let schema = Some(TableSchema::Ddl("key string, value string".into()));
        let options = Options {
            dialect: dialect.into(),
            unwrapped,
            schema,
            ..Options::default()
        };
        let batch = Decoder::new(options)
            .unwrap()
            .decode(&BinaryArray::from(vec![message.as_bytes()]))
            .unwrap();
        let value = batch["after"].as_struct()["value"].clone();
        value
            .is_valid(0)
            .then(|| value.as_string::<i32>().value(0).to_owned())
    };
    for dialect in ["debezium-json", "auto"] {
        assert_eq!(values(dialect, true).as_deref(), Some(STORED), "{dialect}");
    }
    for dialect in ["canal-json", "auto"] {
        assert_eq!(values(dialect, false).as_deref(), Some("v"), "{dialect}");
    }
    assert_eq!(values("maxwell-json", false), None);
}

/// The date of an instant may be written with a year from 1 to 9999, while the instant is outside. Python and Spark do
/// not have its year.
#[test]
fn instants_outside_of_the_calendar_are_errors() {
    let canal = |text: &str| format!(r#"{{"type":"INSERT","data":[{{"at":"{text}"}}]}}"#);
    let dataworks = |millis: i64| {
        let columns = r#"{"dataColumn":[{"name":"at","type":"DATE"}]}"#;
        format!(
            r#"{{"schema":{columns},"payload":{{"op":"INSERT","after":{{"dataColumn":{{"at":{millis}}}}}}},"version":"0.0.1"}}"#
        )
    };
    let debezium = |text: &str| {
        format!(r#"{{"op":"c","before":null,"after":{{"at":"{text}"}},"source":{{"table":"t"}}}}"#)
    };
    let cases = [
        (
            "canal-json",
            canal("0001-01-01 00:00:00"),
            &["timestamp"][..],
        ),
        (
            "canal-json",
            canal("9999-12-31T23:59:59-05:00"),
            &["timestamp", "timestamp_ntz"],
        ),
        (
            "dataworks-json",
            dataworks(253_402_300_800_000),
            &["timestamp", "timestamp_ntz", "date", "string"],
        ),
        (
            "dataworks-json",
            dataworks(-62_135_596_800_001),
            &["timestamp", "timestamp_ntz", "date", "string"],
        ),
        (
            "dataworks-json",
            dataworks(i64::MIN),
            &["timestamp", "string"],
        ),
        (
            "debezium-json",
            debezium("9999-12-31T23:59:59-05:00"),
            &["timestamp", "string"],
        ),
        (
            "debezium-json",
            debezium("0001-01-01T00:00:00+08:00"),
            &["timestamp", "timestamp_ntz", "date", "string"],
        ),
    ];
    for (dialect, message, asked) in cases {
        for asked in asked {
            let options = Options {
                dialect: dialect.into(),
                schema: Some(TableSchema::Ddl(format!("at {asked}"))),
                mode: Mode::FailFast,
                time_zone: "Asia/Shanghai".into(),
                column_types: if dialect == "debezium-json" {
                    vec![("at".into(), "timestamp".into())]
                } else {
                    Vec::new()
                },
                ..Options::default()
            };
            match Decoder::new(options)
                .unwrap()
                .decode(&BinaryArray::from(vec![message.as_bytes()]))
            {
                Err(DecodeError::Row(error)) => assert_eq!(
                    error.kind,
                    Kind::Range,
                    "{asked}: {message}: {}",
                    error.message
                ),
                other => panic!("{asked}: {message}: {other:?}"),
            }
        }
    }
}
