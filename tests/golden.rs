//! Golden messages of every producer decode in every layout, and CR LF between messages changes nothing. Python's tests
//! read all of them and compare the cells with the truth. This quick test checks the core without Python.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StructArray};
use arrow_schema::{DataType, Field};
use captures::Message;
use towpath::{DIALECTS, Decoder, Layout, Mode, Options, infer_schema};

#[path = "differential/captures.rs"]
#[allow(dead_code, reason = "the tests of both readers use more of it")]
mod captures;

type Capture = (PathBuf, Vec<Message>);

/// Returns a dialect's captures, each with some of its messages.
fn captures(dialect: &str) -> &'static [Capture] {
    static ALL: LazyLock<BTreeMap<&str, Vec<Capture>>> = LazyLock::new(|| {
        DIALECTS
            .iter()
            .map(|dialect| (dialect.name, captures::captures(dialect.name, 120)))
            .collect()
    });
    &ALL[dialect]
}

fn batch(messages: &[Message]) -> StructArray {
    let column = |bytes: fn(&Message) -> Option<&[u8]>| {
        Arc::new(messages.iter().map(bytes).collect::<BinaryArray>()) as ArrayRef
    };
    let columns = [
        ("key", column(|message| message.key.as_deref())),
        ("value", column(|message| message.value.as_deref())),
    ];
    StructArray::from(
        columns
            .map(|(name, array)| (Arc::new(Field::new(name, DataType::Binary, true)), array))
            .to_vec(),
    )
}

fn options(dialect: &str) -> Options {
    let writer_schemas = if matches!(dialect, "auto" | "debezium-avro" | "ticdc-avro") {
        writer_schemas()
    } else {
        Vec::new()
    };
    Options {
        dialect: dialect.into(),
        mode: Mode::FailFast,
        key: Some("key".into()),
        writer_schemas,
        ..Options::default()
    }
}

/// Returns the schemas of debezium-avro and ticdc-avro messages, by their ids.
fn writer_schemas() -> Vec<(u32, String, Vec<String>)> {
    let read = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(file);
        serde_json::from_slice::<BTreeMap<u32, serde_json::Value>>(&std::fs::read(path).unwrap())
            .unwrap()
    };
    let schemas = read("debezium-avro/shop.avsc")
        .into_iter()
        .chain(read("ticdc-avro/orders.avsc"));
    schemas
        .map(|(id, schema)| (id, schema.to_string(), Vec::new()))
        .collect()
}

fn decode(options: Options, messages: &[Message]) -> RecordBatch {
    Decoder::new(options)
        .unwrap()
        .decode(&batch(messages))
        .unwrap()
}

#[test]
fn every_dialect_has_golden_messages() {
    for dialect in DIALECTS {
        assert!(!captures(dialect.name).is_empty(), "{}", dialect.name);
    }
}

#[test]
fn every_golden_message_is_read_and_recognised() {
    for dialect in DIALECTS {
        for (path, messages) in captures(dialect.name) {
            // Three of DTS's records have text in place of their columns, so they yield no row.
            let mode = if dialect.name == "dts-avro" {
                Mode::Permissive
            } else {
                Mode::FailFast
            };
            let decoded = |name| {
                decode(
                    Options {
                        mode,
                        ..options(name)
                    },
                    messages,
                )
            };
            let batch = decoded(dialect.name);
            assert!(batch.num_rows() >= messages.len(), "{}", path.display());
            assert_eq!(decoded("auto"), batch, "{}", path.display());
        }
    }
}

#[test]
fn aliases_read_what_their_dialect_reads() {
    for dialect in DIALECTS {
        for (_, messages) in captures(dialect.name) {
            let some = &messages[..messages.len().min(20)];
            let ops = |name| {
                decode(
                    Options {
                        fields: Some(vec!["op".into()]),
                        ..options(name)
                    },
                    some,
                )
            };
            dialect
                .aliases
                .iter()
                .for_each(|alias| assert_eq!(ops(alias), ops(dialect.name)));
        }
    }
}

/// Returns whether a file has values without keys.
fn is_json_lines(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.contains(".json") && !name.contains(".kv")
}

/// The JSON captures again, joined with CR LF into one message. Only `row`, the place within a message, differs.
#[test]
fn messages_joined_by_crlf_are_the_same_changes() {
    for dialect in DIALECTS {
        for (path, messages) in captures(dialect.name)
            .iter()
            .filter(|(path, _)| is_json_lines(path))
        {
            let values: Vec<&[u8]> = messages.iter().map(Message::value).collect();
            let joined = vec![Message::of(values.join(&b"\r\n"[..]))];
            let fields = || {
                Some(
                    ["op", "table", "before", "after", "event_time", "source"]
                        .map(String::from)
                        .to_vec(),
                )
            };
            let apart = decode(
                Options {
                    fields: fields(),
                    ..options(dialect.name)
                },
                messages,
            );
            let together = decode(
                Options {
                    fields: fields(),
                    ..options(dialect.name)
                },
                &joined,
            );
            assert_eq!(apart, together, "{}", path.display());
        }
    }
}

/// Real messages that declare their types decode with the inferred types, in every layout.
#[test]
fn inferred_types_hold_every_value() {
    for dialect in DIALECTS {
        for (path, messages) in captures(dialect.name)
            .iter()
            .filter(|(path, _)| path.ends_with("mixed.flat.jsonl.zst"))
        {
            for table in ["all_types", "order_line"] {
                inferred_types_hold(dialect.name, path, messages, table);
            }
        }
    }
}

fn inferred_types_hold(dialect: &str, path: &Path, messages: &[Message], table: &str) {
    let of_table = || Options {
        table: Some(table.into()),
        ..options(dialect)
    };
    let schema = infer_schema(&batch(messages), of_table()).unwrap();
    for layout in [Layout::Change, Layout::Changelog, Layout::Upsert] {
        let schema = Some(towpath::TableSchema::Arrow(schema.fields().clone()));
        let batch = decode(
            Options {
                layout,
                schema,
                ..of_table()
            },
            messages,
        );
        assert!(batch.num_rows() > 0, "{} {table}", path.display());
    }
}
