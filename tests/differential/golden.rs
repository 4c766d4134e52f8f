//! Real messages of every dialect, three times in a row and shuffled, in every layout, with their declared types and as
//! maps.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, Fields};
use towpath::{DIALECTS, Decoder, Layout, Mode, Options, TableSchema, infer_schema};

use crate::batches::Message;
use crate::captures::captures;
use crate::compare::{Compared, Difference, compare, compare_rest, report};
use crate::settings::{Feeding, records};

/// Returns the number of messages to read of each capture. More cases mean more messages.
fn count() -> usize {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    cases.map_or(6, |cases: usize| (cases / 20).clamp(6, 400))
}

fn captures_are_read_alike(dialect: &str) {
    let mut total = Compared::default();
    let found = captures(dialect, count());
    assert!(!found.is_empty());
    for (path, messages) in found {
        let messages = thrice(messages);
        for options in ways(dialect, &messages) {
            let check = |options: &Options, messages: &[Message], feeding| {
                compare(options, messages, feeding)
            };
            match check(&options, &messages, Feeding::Records) {
                Ok(compared) => total.add(compared),
                Err(_) => {
                    let text = report(
                        &options,
                        &messages,
                        Feeding::Records,
                        |options, messages, feeding| check(options, messages, feeding).map(drop),
                    );
                    panic!("{}: both readers differ\n{text}", path.display());
                }
            }
        }
        let rest: Result<(), Difference> = compare_rest(&plain(dialect), &messages);
        assert!(rest.is_ok(), "{}: {rest:?}", path.display());
    }
    println!("{dialect}: {total}");
}

/// Returns each message three times in a row, and then all of them once more, shuffled.
fn thrice(messages: Vec<Message>) -> Vec<Message> {
    let mut all: Vec<Message> = messages
        .iter()
        .flat_map(|message| std::iter::repeat_n(message.clone(), 3))
        .collect();
    let mut shuffled = messages;
    let mut state = 20_261_121u64;
    for last in (1..shuffled.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        shuffled.swap(last, (state >> 33) as usize % (last + 1));
    }
    all.extend(shuffled);
    all
}

/// Returns the dialect's options without a schema of the table.
pub fn plain(dialect: &str) -> Options {
    let writer_schemas = if matches!(dialect, "auto" | "debezium-avro" | "ticdc-avro") {
        writer_schemas()
    } else {
        Vec::new()
    };
    Options {
        dialect: dialect.into(),
        key: Some("key".into()),
        writer_schemas,
        ..Options::default()
    }
}

/// Returns the schemas of debezium-avro and ticdc-avro messages, by their ids.
fn writer_schemas() -> Vec<(u32, String, Vec<String>)> {
    let read = |file: &str| {
        let text = std::fs::read_to_string(format!("tests/golden/{file}.avsc")).unwrap();
        serde_json::from_str::<BTreeMap<u32, serde_json::Value>>(&text).unwrap()
    };
    let schemas = read("debezium-avro/shop")
        .into_iter()
        .chain(read("ticdc-avro/orders"));
    schemas
        .map(|(id, schema)| (id, schema.to_string(), Vec::new()))
        .collect()
}

/// Returns the options to check: maps by name and by detection, and each layout with the columns of the busiest table.
fn ways(dialect: &str, messages: &[Message]) -> Vec<Options> {
    let mut ways = vec![
        plain(dialect),
        Options {
            mode: Mode::FailFast,
            ..plain("auto")
        },
    ];
    let Some(of_table) = of_busiest(dialect, messages) else {
        return ways;
    };
    let Some(fields) = columns(dialect, messages) else {
        return ways;
    };
    for layout in [Layout::Change, Layout::Changelog, Layout::Upsert] {
        // The types of one table do not hold all values of other tables, so errors occur too.
        let filtered = layout != Layout::Changelog;
        let options = if filtered {
            of_table.clone()
        } else {
            plain(dialect)
        };
        ways.push(Options {
            layout,
            schema: Some(TableSchema::Arrow(fields.clone())),
            ..options
        });
    }
    ways
}

/// Returns options that select the table with the most messages.
fn of_busiest(dialect: &str, messages: &[Message]) -> Option<Options> {
    busiest(dialect, messages).map(|table| Options {
        table: Some(regex::escape(&table)),
        ..plain(dialect)
    })
}

/// Returns the columns of the table with the most messages, from their declarations or values.
pub fn columns(dialect: &str, messages: &[Message]) -> Option<Fields> {
    let of_table = of_busiest(dialect, messages)?;
    let declared = infer_schema(&records(messages, None), of_table.clone())
        .map(|schema| schema.fields().clone());
    Some(declared.unwrap_or_else(|_| guessed(&of_table, messages)))
        .filter(|fields| !fields.is_empty())
}

/// Returns the table with the most messages.
fn busiest(dialect: &str, messages: &[Message]) -> Option<String> {
    let fields = Some(vec!["table".to_owned()]);
    let batch = Decoder::new(Options {
        fields,
        ..plain(dialect)
    })
    .unwrap()
    .decode(&records(messages, None))
    .unwrap();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    batch["table"]
        .as_string::<i32>()
        .iter()
        .flatten()
        .for_each(|table| *counts.entry(table).or_default() += 1);
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(table, _)| table.to_owned())
}

/// Returns columns for messages without declarations: integers if the first value is one, otherwise text.
fn guessed(options: &Options, messages: &[Message]) -> Fields {
    let fields = Some(vec!["after".to_owned()]);
    let options = Options {
        schema: None,
        fields,
        ..options.clone()
    };
    let batch = Decoder::new(options)
        .unwrap()
        .decode(&records(messages, None))
        .unwrap();
    let after = batch["after"].as_map();
    let (names, values) = (
        after.keys().as_string::<i32>(),
        after.values().as_string::<i32>(),
    );
    let mut seen = BTreeSet::new();
    let first = (0..names.len()).filter(|at| values.is_valid(*at) && seen.insert(names.value(*at)));
    let guess = |value: &str| {
        if value.parse::<i64>().is_ok() {
            DataType::Int64
        } else {
            DataType::Utf8
        }
    };
    first
        .map(|at| Field::new(names.value(at), guess(values.value(at)), true))
        .collect()
}

#[test]
fn canal_json_captures_are_read_alike() {
    captures_are_read_alike("canal-json");
}

#[test]
fn canal_protobuf_captures_are_read_alike() {
    captures_are_read_alike("canal-protobuf");
}

#[test]
fn cloudcanal_json_captures_are_read_alike() {
    captures_are_read_alike("cloudcanal-json");
}

#[test]
fn debezium_avro_captures_are_read_alike() {
    captures_are_read_alike("debezium-avro");
}

#[test]
fn debezium_json_captures_are_read_alike() {
    captures_are_read_alike("debezium-json");
}

#[test]
fn dts_avro_captures_are_read_alike() {
    captures_are_read_alike("dts-avro");
}

#[test]
fn maxwell_json_captures_are_read_alike() {
    captures_are_read_alike("maxwell-json");
}

#[test]
fn river_json_captures_are_read_alike() {
    captures_are_read_alike("river-json");
}

#[test]
fn ticdc_open_captures_are_read_alike() {
    captures_are_read_alike("ticdc-open");
}

#[test]
fn ticdc_simple_captures_are_read_alike() {
    captures_are_read_alike("ticdc-simple");
}

#[test]
fn dms_and_dataworks_messages_are_read_alike() {
    captures_are_read_alike("dms-json");
    captures_are_read_alike("dataworks-json");
}

#[test]
fn ticdc_avro_captures_are_read_alike() {
    captures_are_read_alike("ticdc-avro");
}

#[test]
fn every_dialect_has_its_test() {
    let tested = [
        "canal-json",
        "canal-protobuf",
        "cloudcanal-json",
        "dataworks-json",
        "debezium-avro",
        "debezium-json",
        "dms-json",
        "dts-avro",
        "maxwell-json",
        "river-json",
        "ticdc-avro",
        "ticdc-open",
        "ticdc-simple",
    ];
    DIALECTS
        .iter()
        .for_each(|dialect| assert!(tested.contains(&dialect.name), "{}", dialect.name));
}
