//! canal-protobuf: messages that no capture has. The tests write them field by field.

use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryArray, RecordBatch};
use proptest::prelude::*;
use towpath::{DecodeError, Decoder, Error, Kind, Layout, Mode, Options, TableSchema, detect};

// ---- a writer

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// Returns a number field. A negative number takes ten bytes.
fn number(field: u64, number: i64) -> Vec<u8> {
    [varint(field << 3), varint(number as u64)].concat()
}

fn bytes(field: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [
        varint(field << 3 | 2),
        varint(bytes.len() as u64),
        bytes.to_vec(),
    ]
    .concat()
}

/// Returns a column in canal's form.
fn column(name: &str, value: Option<&str>) -> Vec<u8> {
    described(name, value, 12, name == "id", "varchar(20)")
}

fn described(name: &str, value: Option<&str>, jdbc: i64, key: bool, declared: &str) -> Vec<u8> {
    let (is_null, value) = (
        value.is_none().into(),
        value.map(|value| bytes(8, value)).unwrap_or_default(),
    );
    let flags = [number(4, key.into()), number(5, 1), number(6, is_null)].concat();
    [
        number(1, 0),
        number(2, jdbc),
        bytes(3, name),
        flags,
        value,
        bytes(10, declared),
    ]
    .concat()
}

type Columns<'c> = &'c [(&'c str, Option<&'c str>)];

fn columns(field: u64, columns: Columns<'_>) -> Vec<u8> {
    columns
        .iter()
        .flat_map(|(name, value)| bytes(field, column(name, *value)))
        .collect()
}

fn row(before: Columns<'_>, after: Columns<'_>) -> Vec<u8> {
    bytes(12, [columns(1, before), columns(2, after)].concat())
}

const INSERT: i64 = 1;
const UPDATE: i64 = 2;
const DELETE: i64 = 3;

fn change(event: i64, rows: &[Vec<u8>]) -> Vec<u8> {
    [
        number(1, 77),
        number(2, event),
        number(10, 0),
        rows.concat(),
    ]
    .concat()
}

fn header(more: &[Vec<u8>]) -> Vec<u8> {
    let log = [
        number(1, 1),
        bytes(2, "mysql-bin.000007"),
        number(3, 4711),
        number(4, 21),
    ]
    .concat();
    [
        log,
        number(6, 1_714_979_289_000),
        number(7, 2),
        more.concat(),
    ]
    .concat()
}

fn orders() -> Vec<u8> {
    header(&[bytes(8, "shop"), bytes(9, "orders")])
}

const BEGIN: i64 = 1;
const ROWS: i64 = 2;
const END: i64 = 3;
const HEARTBEAT: i64 = 4;
const GTID: i64 = 5;

fn entry(header: Vec<u8>, kind: i64, content: Vec<u8>) -> Vec<u8> {
    [bytes(1, header), number(2, kind), bytes(3, content)].concat()
}

fn messages(entries: &[Vec<u8>]) -> Vec<u8> {
    entries.iter().flat_map(|entry| bytes(2, entry)).collect()
}

fn packet(entries: &[Vec<u8>]) -> Vec<u8> {
    [number(2, 1), number(3, 7), bytes(5, messages(entries))].concat()
}

/// Returns a message of canal for a small transaction, with something of everything.
fn sample() -> Vec<u8> {
    let inserted = row(
        &[],
        &[("id", Some("1")), ("note", Some("é")), ("gone", None)],
    );
    let updated = row(
        &[("id", Some("1")), ("note", Some("é"))],
        &[("id", Some("1")), ("note", Some(""))],
    );
    let statement = [
        number(2, 5),
        number(10, 1),
        bytes(11, "ALTER TABLE orders ADD x INT"),
        bytes(14, "shop"),
    ]
    .concat();
    packet(&[
        entry(header(&[]), BEGIN, number(4, 99)),
        entry(orders(), ROWS, change(INSERT, &[inserted])),
        entry(orders(), ROWS, change(UPDATE, &[updated.clone(), updated])),
        entry(orders(), ROWS, statement),
        entry(header(&[]), END, bytes(2, "5418")),
    ])
}

// ---- output

fn options(mode: Mode) -> Options {
    Options {
        dialect: "canal-protobuf".into(),
        mode,
        ..Options::default()
    }
}

fn decode(options: Options, messages: &[Vec<u8>]) -> RecordBatch {
    let array: BinaryArray = messages
        .iter()
        .map(|message| Some(message.as_slice()))
        .collect();
    Decoder::new(options).unwrap().decode(&array).unwrap()
}

fn read(message: Vec<u8>) -> RecordBatch {
    decode(options(Mode::FailFast), &[message])
}

fn error(message: Vec<u8>) -> Error {
    let array = BinaryArray::from(vec![&message[..]]);
    match Decoder::new(options(Mode::FailFast))
        .unwrap()
        .decode(&array)
    {
        Err(DecodeError::Row(error)) => error,
        other => panic!("{message:02X?}: {other:?}"),
    }
}

fn texts(array: &dyn Array) -> Vec<Option<&str>> {
    array.as_string::<i32>().iter().collect()
}

fn ops(batch: &RecordBatch) -> Vec<&str> {
    texts(&batch["op"]).into_iter().flatten().collect()
}

fn source<'b>(batch: &'b RecordBatch, field: &str) -> Vec<Option<&'b str>> {
    texts(batch["source"].as_struct().column_by_name(field).unwrap())
}

type Cells<'b> = Vec<(&'b str, Option<&'b str>)>;

/// Returns the maps of an image.
fn maps<'b>(batch: &'b RecordBatch, image: &str) -> Vec<Option<Cells<'b>>> {
    let maps = batch[image].as_map();
    let (keys, values) = (texts(maps.keys()), texts(maps.values()));
    let of_row =
        |row: usize| (maps.value_offsets()[row] as usize)..(maps.value_offsets()[row + 1] as usize);
    let entries = |row| {
        of_row(row)
            .map(|at| (keys[at].unwrap(), values[at]))
            .collect()
    };
    (0..maps.len())
        .map(|row| maps.is_valid(row).then(|| entries(row)))
        .collect()
}

#[test]
fn a_packet_has_many_rows() {
    let batch = read(sample());
    assert_eq!(
        ops(&batch),
        ["begin", "insert", "update", "update", "ddl", "commit"]
    );
    let operations = [
        "TRANSACTIONBEGIN",
        "INSERT",
        "UPDATE",
        "UPDATE",
        "ALTER",
        "TRANSACTIONEND",
    ]
    .map(Some);
    assert_eq!(source(&batch, "operation"), operations);
    assert_eq!(
        source(&batch, "transaction_id"),
        [None, None, None, None, None, Some("5418")]
    );
    let inserted = Some(vec![("id", Some("1")), ("note", Some("é")), ("gone", None)]);
    assert_eq!(
        (&maps(&batch, "before")[1], &maps(&batch, "after")[1]),
        (&None, &inserted)
    );
    assert_eq!(
        maps(&batch, "after")[3],
        Some(vec![("id", Some("1")), ("note", Some(""))])
    );
    assert_eq!(
        batch["row"]
            .as_primitive::<arrow_array::types::Int32Type>()
            .values(),
        &[0, 1, 2, 3, 4, 5]
    );
}

/// protobuf reads a second message after the first as more of its fields, and the last fields count.
#[test]
fn a_second_message_is_an_error() {
    let alone = || {
        entry(
            orders(),
            ROWS,
            change(INSERT, &[row(&[], &[("id", Some("1"))])]),
        )
    };
    let entry_with = |more: Vec<u8>| [alone(), more].concat();
    let cases = [
        ([sample(), sample()].concat(), "body: duplicate field"),
        ([sample(), bytes(5, "")].concat(), "body: duplicate field"),
        (
            packet(&[entry_with(alone())]),
            "body.messages.0.header: duplicate field",
        ),
        (
            packet(&[entry_with(bytes(3, ""))]),
            "body.messages.0.storeValue: duplicate field",
        ),
        (
            messages(&[alone(), entry_with(alone())]),
            "messages.1.header: duplicate field",
        ),
        (entry_with(alone()), "header: duplicate field"),
    ];
    for (message, expected) in cases {
        for dialect in ["canal-protobuf", "auto"] {
            let options = Options {
                dialect: dialect.into(),
                ..options(Mode::Permissive)
            };
            let batch = decode(options, &[sample(), message.clone(), sample()]);
            let failed: Vec<_> = ops(&batch).iter().map(|op| *op == "error").collect();
            assert_eq!(
                failed.iter().filter(|failed| **failed).count(),
                1,
                "{expected}: {:?}",
                ops(&batch)
            );
            let found = error(message.clone());
            assert_eq!(
                (found.kind, found.message.as_str()),
                (
                    Kind::Envelope,
                    format!("canal-protobuf: {expected}").as_str()
                )
            );
        }
    }
}

#[test]
fn entries_and_messages_are_read_without_a_packet() {
    let wanted = read(packet(&[deleted()]));
    for message in [deleted(), messages(&[deleted()])] {
        assert_eq!(read(message), wanted);
    }
    let numbered = read([number(1, 12), messages(&[deleted(), deleted()])].concat());
    assert_eq!(ops(&numbered), ["delete", "delete"]);
    let ids = numbered["source"]
        .as_struct()
        .column_by_name("message_id")
        .unwrap();
    assert_eq!(
        ids.as_primitive::<arrow_array::types::Int64Type>().values(),
        &[12, 12]
    );
}

fn deleted() -> Vec<u8> {
    entry(
        orders(),
        ROWS,
        change(DELETE, &[row(&[("id", Some("1"))], &[])]),
    )
}

fn pair(field: u64, key: &str, value: &str) -> Vec<u8> {
    bytes(field, [bytes(1, key), bytes(2, value)].concat())
}

/// Entries that are not changes: op, operation, transaction and GTID.
#[test]
fn marks() {
    let gtid = pair(12, "curtGtid", "9e64:7");
    let xa = |word: &str| [pair(3, "XA_TYPE", word), pair(3, "XA_XID", " X'31',X'',1")].concat();
    let with_event = |event| header(&[number(11, event)]);
    let xa_rows = |event| {
        [
            number(2, event),
            bytes(11, "XA ..."),
            pair(13, "XA_XID", " X'31'"),
        ]
        .concat()
    };
    let cases = [
        (
            entry(header(&[]), BEGIN, vec![]),
            "begin",
            "TRANSACTIONBEGIN",
            None,
            None,
        ),
        (
            entry(header(std::slice::from_ref(&gtid)), BEGIN, bytes(2, "")),
            "begin",
            "TRANSACTIONBEGIN",
            None,
            Some("9e64:7"),
        ),
        (
            entry(header(&[gtid, bytes(13, "9e64:1-7")]), END, bytes(2, "8")),
            "commit",
            "TRANSACTIONEND",
            Some("8"),
            Some("9e64:1-7"),
        ),
        (
            entry(header(&[]), BEGIN, xa("XA START")),
            "begin",
            "TRANSACTIONBEGIN",
            Some("X'31',X'',1"),
            None,
        ),
        // An XA END is not a commit: an XA ROLLBACK may follow.
        (
            entry(header(&[]), END, [bytes(2, "0"), xa("XA END")].concat()),
            "other",
            "TRANSACTIONEND",
            Some("X'31',X'',1"),
            None,
        ),
        (
            entry(with_event(13), ROWS, xa_rows(13)),
            "commit",
            "XACOMMIT",
            Some("X'31'"),
            None,
        ),
        (
            entry(with_event(14), ROWS, xa_rows(14)),
            "rollback",
            "XAROLLBACK",
            Some("X'31'"),
            None,
        ),
        (
            entry(with_event(15), HEARTBEAT, vec![]),
            "heartbeat",
            "MHEARTBEAT",
            None,
            None,
        ),
        (
            [bytes(1, number(6, 1)), number(2, HEARTBEAT)].concat(),
            "heartbeat",
            "HEARTBEAT",
            None,
            None,
        ),
        (
            entry(
                with_event(12),
                GTID,
                [bytes(1, "gtid"), bytes(2, "9e64:8")].concat(),
            ),
            "gtid",
            "GTID",
            None,
            Some("9e64:8"),
        ),
        // canal overwrites the preceding pair with it.
        (
            entry(
                with_event(12),
                GTID,
                [bytes(1, "sequenceNumber"), bytes(2, "8")].concat(),
            ),
            "gtid",
            "GTID",
            None,
            None,
        ),
        (entry(header(&[]), 9, vec![]), "other", "9", None, None),
    ];
    for (entry, op, operation, transaction, gtid) in cases {
        let batch = read(packet(&[entry]));
        assert_eq!(
            (ops(&batch), source(&batch, "operation")),
            (vec![op], vec![Some(operation)])
        );
        assert_eq!(
            (source(&batch, "transaction_id"), source(&batch, "gtid")),
            (vec![transaction], vec![gtid]),
            "{operation}"
        );
        assert_eq!(
            (texts(&batch["database"]), texts(&batch["table"])).0,
            texts(&batch["table"]),
            "{operation}"
        );
    }
}

/// canal's operation words mean the same in JSON.
#[test]
fn events_are_what_they_are_in_canal_json() {
    let words = "INSERT UPDATE DELETE CREATE ALTER ERASE QUERY TRUNCATE RENAME CINDEX DINDEX GTID XACOMMIT XAROLLBACK MHEARTBEAT";
    for (event, word) in (1..).zip(words.split(' ')) {
        for is_ddl in [false, true] {
            let rows = if (INSERT..=DELETE).contains(&event) {
                row(&[("id", None)], &[("id", None)])
            } else {
                vec![]
            };
            let change = [number(2, event), number(10, is_ddl.into()), rows].concat();
            let ours = read(packet(&[entry(orders(), ROWS, change)]));
            let json = format!(r#"{{"type":"{word}","isDdl":{is_ddl},"data":[{{"id":null}}]}}"#);
            let theirs = decode(
                Options {
                    dialect: "canal-json".into(),
                    mode: Mode::FailFast,
                    ..Options::default()
                },
                &[json.into_bytes()],
            );
            assert_eq!(
                (ops(&ours), source(&ours, "operation")),
                (ops(&theirs), source(&theirs, "operation")),
                "{word} {is_ddl}"
            );
        }
    }
}

/// Absent fields have the defaults of canal's classes.
#[test]
fn defaults() {
    let row = bytes(
        12,
        [columns(1, &[("id", None)]), columns(2, &[("id", None)])].concat(),
    );
    let batch = read(packet(&[
        [bytes(1, orders()), bytes(3, row.clone())].concat()
    ]));
    assert_eq!(
        (ops(&batch), source(&batch, "operation")),
        (vec!["update"], vec![Some("UPDATE")])
    );
    let inserted = header(&[bytes(9, "orders"), number(11, INSERT)]);
    let batch = read(packet(&[entry(inserted, ROWS, row)]));
    assert_eq!(
        (
            ops(&batch),
            texts(&batch["database"]),
            source(&batch, "connector")
        ),
        (vec!["insert"], vec![Some("")], vec![Some("mysql")])
    );
    let statement = [number(2, 7), number(10, 1), bytes(14, "elsewhere")].concat();
    let batch = read(packet(&[entry(header(&[]), ROWS, statement)]));
    assert_eq!(
        (texts(&batch["database"]), texts(&batch["sql"])),
        (vec![Some("elsewhere")], vec![Some("")])
    );
}

/// An image of one column, in several encodings.
#[test]
fn columns_are_read_however_they_are_written() {
    let name = || bytes(3, "note");
    let long = "ü".repeat(10_000);
    let cases: [(Vec<u8>, Option<&str>); 12] = [
        (name(), Some("")),
        ([name(), bytes(8, "x")].concat(), Some("x")),
        ([name(), number(6, 0), bytes(8, "x")].concat(), Some("x")),
        ([name(), number(6, 0)].concat(), Some("")),
        ([name(), number(6, 1)].concat(), None),
        ([name(), number(6, 1), bytes(8, "x")].concat(), None),
        (
            [name(), number(6, 1), number(6, 0), bytes(8, "x")].concat(),
            Some("x"),
        ),
        (
            [
                name(),
                number(5, 1),
                number(6, 0),
                bytes(8, &long),
                number(9, 20_000),
                bytes(10, "text"),
            ]
            .concat(),
            Some(&long),
        ),
        ([bytes(8, "x"), name()].concat(), Some("x")),
        ([name(), bytes(8, "y"), bytes(8, "x")].concat(), Some("x")),
        (
            [name(), number(6, 0), pair(7, "key", "value"), bytes(8, "x")].concat(),
            Some("x"),
        ),
        (
            [
                name(),
                vec![0x9D, 0x06, 1, 2, 3, 4],
                bytes(8, "x"),
                bytes(300, "later"),
            ]
            .concat(),
            Some("x"),
        ),
    ];
    // Each case twice and in both orders, so that each is read both as a known column and as a new one.
    let all: Vec<_> = cases
        .iter()
        .chain(cases.iter().rev())
        .flat_map(|case| [case, case])
        .collect();
    let rows: Vec<_> = all
        .iter()
        .map(|(column, _)| bytes(12, bytes(2, column)))
        .collect();
    let batch = read(packet(&[entry(orders(), ROWS, change(INSERT, &rows))]));
    let wanted: Vec<_> = all
        .iter()
        .map(|(_, value)| Some(vec![("note", *value)]))
        .collect();
    assert_eq!(maps(&batch, "after"), wanted);
}

/// `binlog_row_image` other than FULL: an update's after image has only the set columns.
#[test]
fn an_update_keeps_what_it_did_not_touch() {
    let minimal = || {
        entry(
            orders(),
            ROWS,
            change(
                UPDATE,
                &[row(
                    &[("id", Some("7"))],
                    &[("note", Some("b")), ("total", None)],
                )],
            ),
        )
    };
    let batch = read(packet(&[minimal(), minimal()]));
    assert_eq!(
        maps(&batch, "before"),
        vec![Some(vec![("id", Some("7"))]); 2]
    );
    assert_eq!(
        maps(&batch, "after"),
        vec![
            Some(vec![
                ("id", Some("7")),
                ("note", Some("b")),
                ("total", None)
            ]);
            2
        ]
    );
    assert_eq!(
        texts(batch["primary_key"].as_list::<i32>().values()),
        [Some("id"); 2]
    );
    let types = batch["column_types"].as_map();
    assert_eq!(texts(types.keys())[..3], ["id", "note", "total"].map(Some));
}

/// The types of an unsigned column depend on its value. A table may be altered between two entries of one packet.
#[test]
fn tables_change_under_way() {
    let insert = |columns: &[Vec<u8>]| {
        let columns: Vec<u8> = columns.iter().flat_map(|column| bytes(2, column)).collect();
        entry(orders(), ROWS, change(INSERT, &[bytes(12, columns)]))
    };
    let id = |value: &str, jdbc| described("id", Some(value), jdbc, true, "int unsigned");
    let batch = read(packet(&[
        insert(&[id("1", 4), column("note", None)]),
        insert(&[id("4000000000", -5), column("note", None)]),
        insert(&[id("2", 4), column("note", None)]),
        insert(&[id("3", 4), column("added", Some("x")), column("note", None)]),
        insert(&[described("id", Some("4"), 12, false, "varchar(9)")]),
    ]));
    let jdbc = batch["jdbc_types"].as_map();
    let numbers = |row| {
        jdbc.value(row)
            .column(1)
            .as_primitive::<arrow_array::types::Int32Type>()
            .values()
            .to_vec()
    };
    assert_eq!(
        (0..5).map(numbers).collect::<Vec<_>>(),
        [
            vec![4, 12],
            vec![-5, 12],
            vec![4, 12],
            vec![4, 12, 12],
            vec![12]
        ]
    );
    let types = batch["column_types"].as_map();
    assert_eq!(texts(types.value(4).column(1)), [Some("varchar(9)")]);
    assert_eq!(
        texts(types.value(3).column(0)),
        ["id", "added", "note"].map(Some)
    );
    assert_eq!(
        (0..5)
            .map(|row| batch["primary_key"].is_null(row))
            .collect::<Vec<_>>(),
        [false, false, false, false, true]
    );
}

/// canal leaves backticks in names. TiCDC, whose messages have no log, writes plain names.
#[test]
fn names_without_their_quoting() {
    let names = || [bytes(8, "`shop`"), bytes(9, "a``b")].concat();
    let change = || change(INSERT, &[row(&[], &[("id", None)])]);
    let canal = read(packet(&[entry(header(&[names()]), ROWS, change())]));
    assert_eq!(
        (texts(&canal["database"]), texts(&canal["table"])),
        (vec![Some("shop")], vec![Some("a`b")])
    );
    let ticdc = read(packet(&[entry(names(), ROWS, change())]));
    assert_eq!(
        (texts(&ticdc["database"]), texts(&ticdc["table"])),
        (vec![Some("`shop`")], vec![Some("a``b")])
    );
}

/// Only canal declares types in the DDL's form, where a bare `bit` has one bit.
#[test]
fn ticdc_leaves_lengths_out() {
    let bit = bytes(2, described("flag", Some("1"), -7, false, "bit"));
    let change = change(
        INSERT,
        &[bytes(12, [bit, bytes(2, column("note", None))].concat())],
    );
    let of = |header| {
        decode(
            with_schema("flag binary"),
            &[packet(&[entry(header, ROWS, change.clone())])],
        )
    };
    let canal = of(orders());
    assert_eq!(
        canal["after"]
            .as_struct()
            .column(0)
            .as_binary::<i32>()
            .value(0),
        b"\x01"
    );
    let ticdc = of(bytes(9, "orders"));
    assert!(ticdc["after"].as_struct().column(0).is_null(0) && ticdc["error"].is_valid(0));
}

fn with_schema(schema: &str) -> Options {
    Options {
        schema: Some(TableSchema::Ddl(schema.into())),
        ..options(Mode::Permissive)
    }
}

// ---- bad input

fn typed(kind: i64, more: &[Vec<u8>]) -> Vec<u8> {
    [number(2, 1), number(3, kind), more.concat()].concat()
}

#[test]
fn packets_that_hold_no_entries() {
    let ack = |body: Vec<u8>| typed(3, &[bytes(5, body)]);
    let cases = [
        (
            ack([number(1, 400), bytes(2, "something goes wrong")].concat()),
            "type: expected MESSAGES, found an ACK with error code 400: \"something goes wrong\"",
        ),
        (
            ack(number(1, -1)),
            "type: expected MESSAGES, found an ACK with error code -1: \"\"",
        ),
        (typed(1, &[]), "type: expected MESSAGES, found HANDSHAKE"),
        (typed(11, &[]), "type: expected MESSAGES, found HEARTBEAT"),
        (typed(99, &[]), "type: expected MESSAGES, found 99"),
        (
            number(2, 1),
            "type: expected MESSAGES, found PACKAGETYPECOMPATIBLEPROTO2",
        ),
        (
            typed(7, &[number(4, 3), bytes(5, b"\x1F\x8B\x08")]),
            "compression: GZIP is not supported",
        ),
        (
            typed(7, &[number(4, 77)]),
            "compression: 77 is not supported",
        ),
        (bytes(200, ""), "expected a Packet, Messages or an Entry"),
    ];
    for (message, what) in cases {
        let error = error(message);
        assert_eq!(
            (error.kind, error.message),
            (Kind::Envelope, format!("canal-protobuf: {what}"))
        );
    }
    for compression in [0, 1] {
        let packet = typed(
            7,
            &[number(4, compression), bytes(5, messages(&[deleted()]))],
        );
        assert_eq!(ops(&read(packet)), ["delete"]);
    }
}

/// Without transaction marks (`canal.mq.filterTransactionEntry`), a batch may be empty.
#[test]
fn an_empty_packet_is_no_error() {
    for message in [packet(&[]), typed(7, &[]), number(1, 5)] {
        let batch = read(message);
        assert_eq!(
            (ops(&batch), source(&batch, "operation")),
            (vec!["other"], vec![Some("MESSAGES")])
        );
    }
}

/// An unreadable message: its kind of error, the place, and the text.
#[test]
fn messages_that_cannot_be_read() {
    let rows = "body.messages.0.storeValue.rowDatas";
    let of_row = |row: Vec<u8>| packet(&[entry(orders(), ROWS, change(INSERT, &[bytes(12, row)]))]);
    let of_column = |column: Vec<u8>| of_row(bytes(2, column));
    let cases: Vec<(Vec<u8>, Kind, &str, String)> = vec![
        (
            b"\x7B".to_vec(),
            Kind::Syntax,
            "",
            "unexpected group".into(),
        ),
        (
            b"{\"type\":\"INSERT\"}".to_vec(),
            Kind::Syntax,
            "",
            "unexpected group".into(),
        ),
        (
            typed(7, &[b"\x2A\x05ab".to_vec()]),
            Kind::Syntax,
            "ab",
            "body: expected 5 more bytes, but only 2 remain".into(),
        ),
        (
            typed(7, &[b"\x2D\0\0\0\0".to_vec()]),
            Kind::Envelope,
            "\0\0\0\0",
            "body: expected text, bytes or a message, found a number of four or eight bytes".into(),
        ),
        (
            packet(&[bytes(2, "x")]),
            Kind::Envelope,
            "\x01x",
            "body.messages.0.entryType: expected a number, found text, bytes or a message".into(),
        ),
        (
            packet(&[deleted(), entry(bytes(8, b"a\xFFb"), ROWS, vec![])]),
            Kind::Encoding,
            "\u{FF}b",
            "body.messages.1.header.schemaName: the text is not UTF-8".into(),
        ),
        (
            packet(&[entry(number(8, 1), ROWS, vec![])]),
            Kind::Envelope,
            "\x01\x10",
            "body.messages.0.header.schemaName: expected text, bytes or a message, found a number"
                .into(),
        ),
        (
            packet(&[entry(orders(), ROWS, vec![])]),
            Kind::Envelope,
            "",
            "body.messages.0.storeValue.rowDatas: update without a row".into(),
        ),
        (
            of_row(vec![]),
            Kind::Envelope,
            "",
            format!("{rows}: a row of this insert has no image"),
        ),
        (
            of_row(columns(1, &[("id", None)])),
            Kind::Envelope,
            "",
            format!("{rows}: a row of this insert has no image"),
        ),
        (
            of_row([columns(2, &[("id", None)]), columns(1, &[("id", None)])].concat()),
            Kind::Envelope,
            "\u{1B}\x08\0",
            format!("{rows}.beforeColumns: the columns of an image are not contiguous"),
        ),
        (
            of_column(bytes(8, "nameless")),
            Kind::Envelope,
            "B\x08nameless",
            format!("{rows}.afterColumns: a column without a name"),
        ),
        (
            of_column([bytes(3, "note"), bytes(8, b"ab\xC3")].concat()),
            Kind::Encoding,
            "\u{C3}",
            format!("{rows}.afterColumns.note.value: the text is not UTF-8"),
        ),
        (
            of_column([bytes(3, b"\xE4\xB8"), bytes(8, "x")].concat()),
            Kind::Encoding,
            "\u{E4}",
            format!("{rows}.afterColumns.name: the text is not UTF-8"),
        ),
        (
            of_column(
                [
                    bytes(3, "note"),
                    b"\x42\x90\x4E".to_vec(),
                    b"short".to_vec(),
                ]
                .concat(),
            ),
            Kind::Syntax,
            "short",
            format!("{rows}.afterColumns.value: expected 10000 more bytes, but only 5 remain"),
        ),
    ];
    for (message, kind, place, what) in cases {
        let error = error(message.clone());
        assert_eq!(
            (error.kind, error.message),
            (kind, format!("canal-protobuf: {what}"))
        );
        // The error shows the text there in Latin-1.
        let place: Vec<u8> = place.chars().map(|c| c as u8).collect();
        let found = error
            .byte
            .map_or(place.is_empty(), |byte| message[byte..].starts_with(&place));
        assert!(found, "{what}: byte {:?} of {message:02X?}", error.byte);
    }
}

#[test]
fn counts_are_bounded_and_the_bound_named() {
    let heartbeat = bytes(2, [bytes(1, number(11, 15)), number(2, HEARTBEAT)].concat());
    let error = error(typed(7, &[bytes(5, heartbeat.repeat((1 << 18) + 1))]));
    assert_eq!(
        (error.kind, error.message.contains("262144")),
        (Kind::Size, true),
        "{}",
        error.message
    );
}

/// Each row repeats the name of the log file.
#[test]
fn a_place_in_a_log_counts_in_the_bound_of_a_message() {
    let rows = vec![row(&[], &[("id", Some("1"))]); 4_000];
    let log = |file: &str| header(&[bytes(2, file), bytes(8, "shop"), bytes(9, "orders")]);
    let message = |file: &str| packet(&[entry(log(file), ROWS, change(INSERT, &rows))]);
    assert_eq!(read(message("mysql-bin.000008")).num_rows(), 4_000);
    let error = error(message(&"x".repeat(40_000)));
    assert_eq!(
        (error.kind, error.message.contains("raise max_expansion")),
        (Kind::Size, true),
        "{}",
        error.message
    );
}

/// No nesting is followed deeper than in canal's messages.
#[test]
fn nesting_is_stepped_over() {
    let deep = (0..20_000).fold(Vec::new(), |inner, _| {
        bytes(7, inner.get(..64_000).unwrap_or(&inner))
    });
    let change = change(INSERT, &[row(&[], &[("id", Some("1"))]), bytes(77, &deep)]);
    assert_eq!(
        ops(&read(packet(&[entry(orders(), ROWS, change)]))),
        ["insert"]
    );
}

#[test]
fn detection_reads_to_the_end() {
    let name = |message: &[u8]| detect(message).map(|dialect| dialect.name);
    let whole = sample();
    assert_eq!(name(&whole), Some("canal-protobuf"));
    for end in (0..whole.len()).filter(|end| *end != 4) {
        assert_eq!(name(&whole[..end]), None, "{end}");
    }
    for message in [
        deleted(),
        messages(&[deleted()]),
        packet(&[]),
        typed(7, &[number(4, 3), bytes(5, b"\x1F\x8B\x08")]),
    ] {
        assert_eq!(name(&message), Some("canal-protobuf"));
    }
    for message in [
        &b"\n\x04shop"[..],
        b"\x12\x04shop",
        b"\x08\x02",
        b"\x10\x01",
        b"\x18\x07\x2A\x01x",
        b"\x18\x07",
        b"\x18\x03",
        b"\x04\x22\x4D\x18",
    ] {
        assert_ne!(name(message), Some("canal-protobuf"), "{message:02X?}");
    }
}

// ---- properties of every message

#[derive(Clone, Debug)]
struct Cell {
    name: String,
    value: Option<String>,
    jdbc: i64,
    is_key: bool,
    declared: &'static str,
    /// Its encoding.
    style: u8,
}

impl Cell {
    fn write(&self) -> Vec<u8> {
        let value = self
            .value
            .as_ref()
            .map(|value| bytes(8, value))
            .unwrap_or_default();
        let (is_null, name) = (number(6, self.value.is_none().into()), bytes(3, &self.name));
        let (jdbc, declared) = (number(2, self.jdbc), bytes(10, self.declared));
        match self.style {
            0 => described(
                &self.name,
                self.value.as_deref(),
                self.jdbc,
                self.is_key,
                self.declared,
            ),
            1 => [
                jdbc,
                name,
                number(4, self.is_key.into()),
                is_null,
                value,
                declared,
            ]
            .concat(),
            2 => [
                value,
                declared,
                is_null,
                number(4, self.is_key.into()),
                name,
                jdbc,
            ]
            .concat(),
            _ => [
                jdbc,
                name,
                number(4, self.is_key.into()),
                is_null,
                pair(7, "a", "b"),
                value,
                number(9, 3),
                declared,
            ]
            .concat(),
        }
    }
}

fn cell() -> impl Strategy<Value = Cell> {
    let name = prop::sample::select(vec!["id", "a", "b", "c", "a_long_name_of_a_column", "名"])
        .prop_map(String::from);
    let value = prop::option::of(prop_oneof![4 => ".{0,12}", 1 => ".{100,200}"]);
    let declared = prop::sample::select(vec!["int", "varchar(20)", ""]);
    let style = prop_oneof![6 => Just(0), 1 => Just(1), 1 => Just(2), 1 => Just(3)];
    let rest = (
        prop::sample::select(vec![4, -5, 12]),
        prop::bool::weighted(0.3),
        declared,
        style,
    );
    (name, value, rest).prop_map(|(name, value, (jdbc, is_key, declared, style))| Cell {
        name,
        value,
        jdbc,
        is_key,
        declared,
        style,
    })
}

/// Tables and their rows. Each row equals the previous row, except one cell.
fn statements() -> impl Strategy<Value = Vec<(&'static str, Vec<Vec<Cell>>)>> {
    let rows = (
        prop::collection::vec(cell(), 1..6),
        prop::collection::vec((any::<prop::sample::Index>(), cell()), 0..6),
    );
    let rows = rows.prop_map(|(first, changes)| {
        let mut rows = vec![first];
        for (at, cell) in changes {
            let mut row = rows[rows.len() - 1].clone();
            let at = at.index(row.len());
            row[at] = cell;
            rows.push(row);
        }
        rows
    });
    prop::collection::vec((prop::sample::select(vec!["orders", "stock"]), rows), 1..5)
}

/// Each name once: the last value at the place of the first.
fn wanted(row: &[Cell]) -> Cells<'_> {
    let mut found: Cells<'_> = Vec::new();
    for cell in row {
        match found.iter_mut().find(|(name, _)| *name == cell.name) {
            Some(earlier) => earlier.1 = cell.value.as_deref(),
            None => found.push((&cell.name, cell.value.as_deref())),
        }
    }
    found
}

fn image(field: u64, row: &[Cell]) -> Vec<u8> {
    row.iter()
        .flat_map(|cell| bytes(field, cell.write()))
        .collect()
}

/// One column of each family of types.
const FAMILIES: &str = "a bigint, b int, c tinyint, d decimal(10,2), e decimal(38,0), f double, g string, h date, i timestamp, \
    j timestamp_ntz, k interval day to second, l boolean, m binary";

/// Values that convert, or almost convert, to some of these types.
fn value_of_a_family() -> impl Strategy<Value = Option<String>> {
    let number = "-?[0-9]{0,20}";
    let decimal = "-?[0-9]{0,10}[.][0-9]{0,6}";
    let date = "[0-9]{4}-[01][0-9]-[0-3][0-9]";
    let date_time =
        "20[0-9]{2}-[01][0-9]-[0-2][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]([.][0-9]{0,7})?Z?";
    prop::option::weighted(
        0.95,
        prop_oneof![
            number,
            decimal,
            date,
            date_time,
            "-?[0-9]{2,3}:[0-5][0-9]:[0-5][0-9]",
            ".{0,12}",
            "[a-zé]{26,36}"
        ],
    )
}

/// Returns the configuration. `PROPTEST_CASES` sets another number of cases.
fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    if is_asked {
        default
    } else {
        ProptestConfig { cases, ..default }
    }
}

proptest! {
    #![proptest_config(config(300))]

    /// A value of a known table is loaded with the bytes around it.
    #[test]
    fn values_do_not_depend_on_what_is_around_them(
        values in prop::collection::vec(value_of_a_family(), 13),
        others in prop::collection::vec("[0-9a-zA-Z.:-]{0,9}", 13),
    ) {
        let row = |values: &[Option<&str>]| {
            let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];
            bytes(12, columns(2, &names.into_iter().zip(values.iter().copied()).collect::<Vec<_>>()))
        };
        let values: Vec<_> = values.iter().map(Option::as_deref).collect();
        let with_others: Vec<Vec<_>> = (0..13)
            .map(|kept| (0..13).map(|at| if at == kept { values[at] } else { Some(others[at].as_str()) }).collect())
            .collect();
        let rows: Vec<_> = [&values, &values].into_iter().chain(&with_others).map(|values| row(values)).collect();
        let batch = decode(with_schema(FAMILIES), &[packet(&[entry(orders(), ROWS, change(INSERT, &rows))])]);
        let after = batch["after"].as_struct();
        prop_assert_eq!(after.slice(0, 1), after.slice(1, 1));
        for (at, column) in after.columns().iter().enumerate() {
            prop_assert_eq!(&column.slice(0, 1), &column.slice(2 + at, 1));
        }
        let errors = batch["error"].as_struct();
        for field in ["message", "column"] {
            prop_assert_eq!(&errors[field].slice(0, 1), &errors[field].slice(1, 1));
        }
    }

    /// Earlier messages never change how a message is read.
    #[test]
    fn rows_are_what_was_written(statements in statements()) {
        let of_table = |table: &str, rows: &[Vec<Cell>]| {
            let rows: Vec<_> = rows.iter().map(|row| bytes(12, [image(1, row), image(2, row)].concat())).collect();
            entry(header(&[bytes(8, "shop"), bytes(9, table)]), ROWS, change(UPDATE, &rows))
        };
        let entries: Vec<_> = statements.iter().map(|(table, rows)| of_table(table, rows)).collect();
        let batch = read(packet(&entries));
        let rows: Vec<_> = statements.iter().flat_map(|(_, rows)| rows).map(|row| Some(wanted(row))).collect();
        prop_assert_eq!(maps(&batch, "after"), rows.clone());
        prop_assert_eq!(maps(&batch, "before"), rows);
        // The last row declares the columns, independently of earlier rows.
        let mut first = 0;
        for (table, rows) in &statements {
            let alone = read(packet(&[of_table(table, &rows[rows.len() - 1..])]));
            for field in ["primary_key", "column_types", "jdbc_types"] {
                prop_assert_eq!(&batch.slice(first, 1)[field], &alone[field]);
            }
            first += rows.len();
        }
    }

    #[test]
    fn any_bytes_are_rows_or_an_error(message in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(options(Mode::Permissive), std::slice::from_ref(&message)).num_rows() > 0);
        prop_assert!(detect(&message).is_none_or(|dialect| dialect.name != "canal-protobuf"));
    }

    /// Every layout takes every message, with any requested columns.
    #[test]
    fn broken_packets_are_rows_or_an_error(at in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 0..6)) {
        let mut message = sample();
        let at = at.index(message.len());
        message.splice(at..(at + bytes.len()).min(message.len()), bytes);
        for layout in [Layout::Change, Layout::Changelog, Layout::Upsert] {
            let options = Options { layout, ..with_schema("id bigint, note string") };
            decode(options, std::slice::from_ref(&message));
        }
    }
}

proptest! {
    // Messages of several chunks. Each case takes 100 times as long as other cases.
    #![proptest_config(config(30))]

    /// Earlier chunks of messages change nothing either. Two messages fill a chunk. Tables are altered between rows.
    #[test]
    fn messages_are_what_they_are_alone(messages in prop::collection::vec(statements(), 2..8), repeated in 1..40_usize) {
        let message = |statements: &Vec<(&'static str, Vec<Vec<Cell>>)>| {
            let entries = statements.iter().map(|(table, rows)| {
                let rows: Vec<_> = rows.iter().map(|row| bytes(12, [image(1, row), image(2, row)].concat())).collect();
                entry(header(&[bytes(8, "shop"), bytes(9, table)]), ROWS, change(UPDATE, &rows))
            });
            let unknown_field = bytes(9, vec![0; 70_000]);
            let entries: Vec<_> = std::iter::repeat_n(entries.collect::<Vec<_>>(), repeated).flatten().collect();
            [packet(&entries), unknown_field].concat()
        };
        let messages: Vec<_> = messages.iter().map(message).collect();
        let together = decode(options(Mode::FailFast), &messages);
        let mut first = 0;
        for message in messages {
            let alone = read(message);
            for field in ["op", "before", "after", "primary_key", "column_types", "jdbc_types"] {
                prop_assert_eq!(&together[field].slice(first, alone.num_rows()), &alone[field]);
            }
            first += alone.num_rows();
        }
    }
}
