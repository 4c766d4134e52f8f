//! Avro against apache-avro: a datum that it cannot read is an error, and the texts of DTS's values are equal.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use towpath::Layout;

use super::captures::Message;
use super::dialects::{decode, errors};
use super::options::{decoder, plain};

static DTS: LazyLock<Schema> = LazyLock::new(|| {
    Schema::parse_str(include_str!("../../golden/dts-avro/Record.v1_sdk.avsc"))
        .expect("the published schema is valid")
});

static DEBEZIUM: LazyLock<BTreeMap<u32, Schema>> = LazyLock::new(|| {
    let schemas: BTreeMap<u32, serde_json::Value> =
        serde_json::from_str(include_str!("../../golden/debezium-avro/shop.avsc"))
            .expect("the golden schemas are JSON");
    schemas
        .into_iter()
        .map(|(id, schema)| {
            (
                id,
                Schema::parse(&schema).expect("the golden schemas are valid"),
            )
        })
        .collect()
});

/// Checks a datum: Debezium's, after a zero byte and its schema id, or DTS's record.
pub fn check(data: &[u8]) {
    // A length in a datum must not become an allocation of half a gigabyte.
    apache_avro::util::max_allocation_bytes(16 << 20);
    match data.split_first_chunk::<5>() {
        Some(([0, id @ ..], datum)) if DEBEZIUM.contains_key(&u32::from_be_bytes(*id)) => {
            check_debezium(data, &DEBEZIUM[&u32::from_be_bytes(*id)], datum);
        }
        _ => check_dts(data),
    }
}

fn check_debezium(message: &[u8], schema: &Schema, datum: &[u8]) {
    let rows = read("debezium-avro", message);
    if let Err(why) = peer(schema, datum) {
        assert!(
            errors(&rows, Layout::Change).is_valid(0),
            "apache-avro refuses what is read: {why}"
        );
    }
}

fn check_dts(record: &[u8]) {
    if record.is_empty() {
        return;
    }
    let rows = read("dts-avro", record);
    let error = errors(&rows, Layout::Change);
    match peer(&DTS, record) {
        Err(why) => assert!(error.is_valid(0), "apache-avro refuses what is read: {why}"),
        Ok((Value::Record(fields), true)) => {
            if error.is_null(0) {
                check_images(&fields, &rows);
                return;
            }
            let text = |member: &str| error[member].as_string::<i32>().value(0);
            // Some tags are JSON. apache-avro ignores a block's declared size.
            let has_reason = text("message").starts_with("dts-avro: tags.")
                || text("message").contains("a block that declares its end at");
            assert!(
                has_reason || text("kind") != "syntax",
                "apache-avro reads what is an error: {error:?}"
            );
        }
        Ok(_) => {}
    }
}

fn read(dialect: &str, message: &[u8]) -> RecordBatch {
    decode(
        &decoder(plain(dialect)),
        &[Message {
            key: None,
            value: Some(message.to_vec()),
        }],
    )
}

/// Reads a datum. Returns it, and whether it is all of the bytes. Text that is not UTF-8 and an int of more than 32
/// bits are a datum too: towpath checks only the ones that it uses.
fn peer(schema: &Schema, bytes: &[u8]) -> Result<(Value, bool), String> {
    // apache-avro reads a union at the end of the bytes as null, so it gets more bytes than the datum may have.
    const MORE: [u8; 16] = [0; 16];
    let padded = [bytes, &MORE[..]].concat();
    let mut rest = &padded[..];
    let reader = GenericDatumReader::builder(schema)
        .build()
        .expect("the schema is resolved");
    match reader.read_value(&mut rest) {
        Ok(value) => Ok((value, rest.len() == MORE.len())),
        Err(error) => {
            let why = error.to_string();
            let is_value = ["UTF-8", "utf-8", "out of range for i32"]
                .iter()
                .any(|part| why.contains(part));
            if is_value {
                Ok((Value::Null, false))
            } else {
                Err(why)
            }
        }
    }
}

type Fields = [(String, Value)];

fn field<'v>(fields: &'v Fields, name: &str) -> &'v Value {
    let value = fields
        .iter()
        .find(|(known, _)| known == name)
        .map_or(&Value::Null, |(_, value)| value);
    if let Value::Union(_, inner) = value {
        inner
    } else {
        value
    }
}

/// Checks integers and texts of the images whose text equals the message's.
fn check_images(fields: &Fields, rows: &RecordBatch) {
    let Value::Array(columns) = field(fields, "fields") else {
        return;
    };
    let name = |column: &Value| match column {
        Value::Record(column) => {
            if let Value::String(name) = field(column, "name") {
                Some(name.clone())
            } else {
                None
            }
        }
        _ => None,
    };
    let names: Vec<String> = columns.iter().filter_map(name).collect();
    for (image, column) in [("beforeImages", "before"), ("afterImages", "after")] {
        let (Value::Array(values), images) = (field(fields, image), rows[column].as_map()) else {
            continue;
        };
        if images.is_null(0) || has_duplicates(&names) {
            continue;
        }
        let entries = images.value(0);
        let (found, texts) = (
            entries.column(0).as_string::<i32>(),
            entries.column(1).as_string::<i32>(),
        );
        for (name, value) in names.iter().zip(values) {
            let Some(wanted) = text(value) else { continue };
            let at = (0..found.len())
                .find(|at| found.value(*at) == name)
                .unwrap_or_else(|| panic!("{name:?} is not in the image"));
            assert_eq!(texts.value(at), wanted, "{name:?}");
        }
    }
}

fn has_duplicates(names: &[String]) -> bool {
    names
        .iter()
        .enumerate()
        .any(|(at, name)| names[..at].contains(name))
}

/// Returns the text of a value that is also text in the message.
fn text(value: &Value) -> Option<String> {
    let Value::Union(_, value) = value else {
        return None;
    };
    let Value::Record(members) = &**value else {
        return None;
    };
    match (
        field(members, "precision"),
        field(members, "charset"),
        field(members, "value"),
    ) {
        (Value::Int(_), Value::Null, Value::String(digits)) if members.len() == 2 => {
            Some(digits.clone())
        }
        (Value::Null, Value::String(charset), Value::Bytes(bytes)) if charset == "utf8mb4" => {
            String::from_utf8(bytes.clone()).ok()
        }
        _ => None,
    }
}
