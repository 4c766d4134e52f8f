//! Rows without an envelope, whose columns have the names of any dialect's members. `auto` reads them like the
//! dialect's name.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use towpath::{Layout, Options, TableSchema};

use crate::batches::Message;
use crate::golden::plain;
use crate::invariants::{decode, decoder, each_message_is_as_alone, input};
use crate::properties::config;
use crate::settings::NUMBER;
use crate::tables::pick;

const CASES: u32 = 200;

/// Members of all dialects' envelopes, from their producers' documentation.
const NAMES: &[&str] = &[
    // canal, TiCDC
    "data",
    "database",
    "es",
    "gtid",
    "id",
    "isDdl",
    "mysqlType",
    "old",
    "pkNames",
    "sql",
    "sqlType",
    "table",
    "ts",
    "type",
    "_tidb",
    "version",
    "schema",
    "commitTs",
    "buildTs",
    "schemaVersion",
    "tableID",
    "tableSchema",
    "preTableSchema",
    "checksum",
    "handleKeyOnly",
    // Maxwell
    "xid",
    "xoffset",
    "commit",
    "position",
    "primary_key",
    "primary_key_columns",
    "server_id",
    "thread_id",
    "query",
    "def",
    "gtid_set",
    // CloudCanal
    "action",
    "bid",
    "before",
    "db",
    "dbValType",
    "ddl",
    "entryType",
    "execTs",
    "jdbcType",
    "pks",
    "sendTs",
    // KafkaRiverCanal
    "binlog",
    "canalTime",
    "columns",
    "event",
    "keys",
    "time",
    // Debezium, CloudEvents
    "after",
    "op",
    "payload",
    "source",
    "ts_ms",
    "ts_us",
    "ts_ns",
    "transaction",
    "databaseName",
    "schemaName",
    "tableChanges",
    "status",
    "historyRecord",
    "specversion",
    "iodebeziumop",
    "event_count",
    "data_collections",
    // DMS, DataWorks
    "metadata",
    "control",
    "before-image",
    "record-type",
    "operation",
    "sequenceId",
    "timestamp",
    "dataColumn",
    "scn",
    // Others
    "name",
    "t\\u0079pe",
    "act\\u0069on",
];

const VALUES: &[&str] = &[
    "null",
    "1",
    "0",
    "-7.5",
    "true",
    "\"\"",
    "\"login\"",
    "\"INSERT\"",
    "\"CREATE\"",
    "\"ALTER\"",
    "\"QUERY\"",
    "\"TRUNCATE\"",
    "\"DDL\"",
    "\"c\"",
    "\"t\"",
    "\"a\"",
    "\"mysql-bin.000001:4\"",
    "[]",
    "[{}]",
    "[{\"id\":\"1\"}]",
    "{}",
    "{\"id\":1}",
    "{\"wkb\":\"AQ==\",\"srid\":4326}",
    "{\"type\":\"struct\"}",
];

/// Fields that the flattening adds. Every row has one.
const ADDED: &[(&str, &str)] = &[
    ("__op", "\"c\""),
    ("__op", "\"u\""),
    ("__deleted", "\"false\""),
    ("__deleted", "\"true\""),
    ("__table", "\"audit\""),
    ("__source_table", "\"audit\""),
    ("__db", "\"shop\""),
    ("__source_ts_ms", "1763000000000"),
    ("__pos", "4"),
    ("\\u005f_op", "\"r\""),
];

fn row(columns: &[(u8, u8)], added: u8, order: &[u32]) -> Message {
    let (name, value) = pick(ADDED, added);
    let mut members = vec![format!("\"{name}\":{value}")];
    let mut seen = Vec::new();
    for (name, value) in columns {
        let name = pick(NAMES, *name);
        if !seen.contains(&name) {
            seen.push(name);
            members.push(format!("\"{name}\":{}", pick(VALUES, *value)));
        }
    }
    let mut ordered: Vec<_> = order.iter().zip(members).collect();
    ordered.sort();
    let members: Vec<_> = ordered.into_iter().map(|(_, member)| member).collect();
    Message {
        key: None,
        value: Some(format!("{{{}}}", members.join(",")).into_bytes()),
    }
}

fn ops(batch: &RecordBatch) -> Vec<&str> {
    batch
        .column_by_name("op")
        .map(|ops| ops.as_string::<i32>().iter().flatten().collect())
        .unwrap_or_default()
}

#[test]
fn auto_is_the_name_whatever_columns_are_called() {
    let rows = prop::collection::vec(
        (
            prop::collection::vec((any::<u8>(), any::<u8>()), 0..6),
            any::<u8>(),
            prop::collection::vec(any::<u32>(), 7),
        ),
        1..6,
    );
    let config = config(CASES);
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&rows, |rows| {
        let messages: Vec<Message> = rows
            .iter()
            .map(|(columns, added, order)| row(columns, *added, order))
            .collect();
        let read = |dialect: &str| {
            let options = Options {
                layout: Layout::Change,
                ..plain(dialect)
            };
            decode(&decoder(&options), &input(&messages))
                .map_err(|error| TestCaseError::fail(error.to_string()))
        };
        let (auto, named) = (read("auto")?, read("debezium-json")?);
        prop_assert_eq!(&auto, &named);
        let wanted: Vec<_> = rows
            .iter()
            .map(|(_, added, _)| wanted_op(pick(ADDED, *added)))
            .collect();
        prop_assert_eq!(
            ops(&named),
            wanted,
            "{:?}",
            messages.iter().map(text).collect::<Vec<_>>()
        );
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("seed {seed:?}: {error}");
    }
}

fn text(message: &Message) -> String {
    String::from_utf8_lossy(message.value.as_deref().unwrap_or_default()).into_owned()
}

fn wanted_op((name, value): (&str, &str)) -> &'static str {
    match (name, value) {
        (_, "\"c\"") => "insert",
        (_, "\"r\"") => "snapshot",
        ("__deleted", "\"true\"") => "delete",
        _ => "update",
    }
}

/// A row of Kafka Connect with its schema part, the members of each object in an order of their own.
fn with_schema(value: u8, swapped: [bool; 4], others: &[(u8, u8)]) -> Message {
    let object = |swapped: bool, first: String, second: String| {
        if swapped {
            format!("{{{second},{first}}}")
        } else {
            format!("{{{first},{second}}}")
        }
    };
    let mut fields = vec![
        r#"{"type":"int64","optional":false,"field":"id"}"#.to_owned(),
        r#"{"type":"string","field":"v"}"#.to_owned(),
    ];
    let mut columns = format!("\"v\":\"{value}\"");
    for (at, (name, value)) in others.iter().enumerate() {
        let name = pick(NAMES, *name);
        if !others
            .iter()
            .take(at)
            .any(|(other, _)| pick(NAMES, *other) == name)
            && name != "id"
        {
            fields.push(format!(r#"{{"type":"string","field":"{name}"}}"#));
            columns += &format!(",\"{name}\":\"{value}\"");
        }
    }
    let payload = object(swapped[1], format!("\"id\":{value}"), columns);
    let fields = format!("\"fields\":[{}]", fields.join(","));
    let named = object(
        swapped[3],
        r#""type":"struct""#.into(),
        r#""name":"srv.shop.orders.Value""#.into(),
    );
    let schema = object(
        swapped[2],
        fields,
        named.trim_matches(['{', '}']).to_owned(),
    );
    let text = object(
        swapped[0],
        format!("\"schema\":{schema}"),
        format!("\"payload\":{payload}"),
    );
    Message {
        key: None,
        value: Some(text.into_bytes()),
    }
}

#[test]
fn a_row_has_its_table_in_any_order_of_members() {
    let draw = (
        any::<u8>(),
        prop::collection::vec((any::<u8>(), any::<u8>()), 0..4),
        any::<[bool; 4]>(),
        any::<bool>(),
    );
    let config = config(CASES);
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&draw, |(value, others, swapped, is_auto)| {
        let read = |swapped| {
            let dialect = if is_auto { "auto" } else { "debezium-json" };
            let options = Options {
                layout: Layout::Change,
                table: Some("orders".into()),
                ..plain(dialect)
            };
            let messages = [with_schema(value, swapped, &others)];
            decode(&decoder(&options), &input(&messages))
                .map_err(|error| TestCaseError::fail(error.to_string()))
        };
        let (usual, other) = (read([false; 4])?, read(swapped)?);
        prop_assert_eq!(ops(&usual), ["update"]);
        for name in ["op", "database", "table", "primary_key"] {
            prop_assert_eq!(
                usual.column_by_name(name),
                other.column_by_name(name),
                "{} of {:?}",
                name,
                text(&with_schema(value, swapped, &others))
            );
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("seed {seed:?}: {error}");
    }
}

#[test]
fn a_key_that_is_no_record_names_no_column() {
    let keys: [(&str, &[&str]); 8] = [
        (r#"{"schema":{"type":"int32"},"payload":1}"#, &[]),
        (r#"{"payload":1,"schema":{"type":"int32"}}"#, &[]),
        (r#"{"schema":null,"payload":"a"}"#, &[]),
        (
            r#"{"payload":{"id":1},"schema":{"type":"struct"}}"#,
            &["id"],
        ),
        (
            r#"{"schema":{"type":"struct"},"payload":{"schema":1,"payload":2}}"#,
            &["schema", "payload"],
        ),
        (r#"{"payload":1}"#, &["payload"]),
        (r#"{"schema":"a","payload":1}"#, &["schema", "payload"]),
        ("5", &[]),
    ];
    for (key, wanted) in keys {
        let value =
            br#"{"op":"c","source":{"db":"shop","table":"orders"},"after":{"id":1}}"#.to_vec();
        let message = Message {
            key: Some(key.as_bytes().to_vec()),
            value: Some(value),
        };
        let batch = decode(&decoder(&plain("debezium-json")), &input(&[message])).unwrap();
        let found = batch
            .column_by_name("primary_key")
            .unwrap()
            .as_list::<i32>();
        let names: Vec<String> = if found.is_null(0) {
            Vec::new()
        } else {
            found
                .value(0)
                .as_string::<i32>()
                .iter()
                .flatten()
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(names, wanted, "{key}");
    }
}

/// Messages whose first member may be another dialect's.
const ORDERED: [(&str, &[&str]); 4] = [
    (
        "ticdc-simple",
        &[
            r#""version":1"#,
            r#""database":"d""#,
            r#""table":"t""#,
            r#""type":"INSERT""#,
            r#""commitTs":123"#,
            r#""data":{"id":1}"#,
        ],
    ),
    (
        "canal-json",
        &[
            r#""data":[{"id":"1"}]"#,
            r#""database":"d""#,
            r#""table":"t""#,
            r#""ty\u0070e":"\u0049NSERT""#,
            r#""es":5"#,
            r#""pkNames":["id"]"#,
        ],
    ),
    (
        "maxwell-json",
        &[
            r#""database":"d""#,
            r#""table":"t""#,
            r#""type":"insert""#,
            r#""ts":5"#,
            r#""xid":7"#,
            r#""position":"b.1:4""#,
            r#""data":{"id":1}"#,
        ],
    ),
    (
        "debezium-json",
        &[
            r#""source":{"server":"s"}"#,
            r#""position":{"file":"b.1","pos":4}"#,
            r#""databaseName":"d""#,
            r#""ddl":"CREATE TABLE t (id int)""#,
        ],
    ),
];

#[test]
fn auto_is_the_name_in_any_order_of_members() {
    let draw = (0..ORDERED.len(), prop::collection::vec(any::<u32>(), 8));
    let config = config(CASES);
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&draw, |(dialect, order)| {
        let (dialect, members) = ORDERED[dialect];
        let mut ordered: Vec<_> = order.iter().zip(members).collect();
        ordered.sort();
        let members: Vec<_> = ordered.into_iter().map(|(_, member)| *member).collect();
        let messages = [Message {
            key: None,
            value: Some(format!("{{{}}}", members.join(",")).into_bytes()),
        }];
        let read = |dialect: &str| {
            decode(&decoder(&plain(dialect)), &input(&messages))
                .map_err(|error| TestCaseError::fail(error.to_string()))
        };
        let (auto, named) = (read("auto")?, read(dialect)?);
        prop_assert_eq!(&auto, &named, "{}", text(&messages[0]));
        prop_assert!(
            ops(&named).iter().all(|op| *op != "error"),
            "{}",
            text(&messages[0])
        );
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("seed {seed:?}: {error}");
    }
}

/// Words whose spelling alone tells the dialect, and words that tell no dialect.
const WORDS: [&str; 10] = [
    "INSERT",
    "insert",
    "UPDATE",
    "update",
    "DELETE",
    "delete",
    "Insert",
    "ROW",
    "INIT",
    "bootstrap-insert",
];
const SHAPES: [(&str, &str); 5] = [
    (r#""data":[{"id":1,"b":"AP8="}],"old":null,"type":"#, ""),
    (r#""data":{"id":1,"b":"AP8="},"type":"#, ""),
    (r#""type":"#, r#","data":[{"id":1,"b":"AP8="}]"#),
    (
        r#""database":"shop","table":"orders","type":"#,
        r#","data":{"id":1,"b":"AP8="},"old":{"id":2}"#,
    ),
    (r#""version":1,"type":"#, r#","data":[{"id":1,"b":"AP8="}]"#),
];

#[test]
fn the_spelling_of_a_word_tells_the_dialect_behind_any_messages() {
    let runs = prop::collection::vec(
        (0..SHAPES.len(), 0..WORDS.len(), 0..WORDS.len(), 1..4_usize),
        1..8,
    );
    let options = Options {
        layout: Layout::Change,
        schema: Some(TableSchema::Ddl("id int, b binary".into())),
        keep: vec![NUMBER.to_owned()],
        ..plain("auto")
    };
    let config = config(CASES);
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&runs, |runs| {
        let run = |(shape, word, other, count): &(usize, usize, usize, usize)| {
            let (before, behind) = SHAPES[*shape];
            let text =
                |word: &usize| format!(r#"{{{before}"{}"{behind}}}"#, WORDS[*word]).into_bytes();
            let words = std::iter::repeat_n([word, other], *count).flatten();
            words
                .map(|word| Message {
                    key: None,
                    value: Some(text(word)),
                })
                .collect::<Vec<_>>()
        };
        let messages: Vec<Message> = runs.iter().flat_map(run).collect();
        let whole = decode(&decoder(&options), &input(&messages));
        each_message_is_as_alone(&options, &messages, &whole)
    });
    if let Err(error) = outcome {
        panic!("seed {seed:?}: {error}");
    }
}

#[test]
fn a_key_says_whose_an_empty_value_is() {
    let object = br#"{"ts":423216567160668163,"t":3}"#;
    let key = [
        1_u64.to_be_bytes().as_slice(),
        &(object.len() as u64).to_be_bytes(),
        object,
    ]
    .concat();
    for (key, wanted) in [
        (Some(key), "watermark"),
        (Some(br#"{"id":1}"#.to_vec()), "tombstone"),
        (None, "tombstone"),
    ] {
        let message = Message {
            key,
            value: Some(Vec::new()),
        };
        let batch = decode(&decoder(&plain("auto")), &input(&[message])).unwrap();
        assert_eq!(ops(&batch), [wanted]);
    }
}
