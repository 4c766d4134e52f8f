//! Templates must take part. Otherwise the comparisons prove nothing.

use towpath::{Decoder, Options, TableSchema};

use crate::batches::alike;
use crate::producers::Producer;
use crate::settings::Feeding;

const COUNT: usize = 40;

/// Checks that templates read more than half of the messages of a batch. The messages differ only in their values, and
/// have a schema.
fn most_are_templated(producer: Producer) {
    let dialect = producer.names()[0];
    let mode = |name: &str| dialect.starts_with("debezium").then(|| name.to_owned());
    let options = Options {
        dialect: dialect.into(),
        schema: Some(TableSchema::Ddl(DDL.into())),
        time_precision_mode: mode("adaptive_time_microseconds"),
        decimal_handling_mode: mode("precise"),
        ..Options::default()
    };
    let decoder = Decoder::new(Options {
        column_types: types(),
        ..options
    })
    .unwrap();
    for input in Feeding::Binary.inputs(&alike(producer, COUNT)) {
        decoder.decode(&input).unwrap();
    }
    let metrics = decoder.metrics();
    assert!(metrics.errors.is_empty(), "{producer:?}: {metrics:?}");
    assert!(
        metrics.templated > COUNT as u64 / 2,
        "{producer:?}: {metrics:?}"
    );
}

/// Columns of [`alike`]'s table.
const DDL: &str =
    "id bigint, total decimal(10,2), name string, updated_at timestamp, placed_at timestamp_ntz";

/// Types for messages that do not declare them.
fn types() -> Vec<(String, String)> {
    let types = [
        ("id", "bigint"),
        ("total", "decimal(10,2)"),
        ("name", "varchar(64)"),
        ("updated_at", "timestamp(3)"),
        ("placed_at", "datetime"),
    ];
    types
        .map(|(name, declared)| (name.to_owned(), declared.to_owned()))
        .to_vec()
}

#[test]
fn canal_json_is_templated() {
    most_are_templated(Producer::Canal);
    most_are_templated(Producer::TencentCanal);
    most_are_templated(Producer::CloudcanalCanal);
}

/// Types in another order each time.
#[test]
fn canal_json_of_ticdc_is_templated() {
    most_are_templated(Producer::TicdcCanal);
}

#[test]
fn cloudcanal_json_is_templated() {
    most_are_templated(Producer::Cloudcanal);
}

#[test]
fn maxwell_json_is_templated() {
    most_are_templated(Producer::Maxwell);
    most_are_templated(Producer::TicdcMaxwell);
}

#[test]
fn debezium_json_is_templated() {
    most_are_templated(Producer::Debezium);
    most_are_templated(Producer::DebeziumSchema);
    most_are_templated(Producer::CloudcanalDebezium);
}

#[test]
fn debezium_json_without_envelope_is_templated() {
    most_are_templated(Producer::DebeziumFlat);
}

#[test]
fn river_json_is_templated() {
    most_are_templated(Producer::River);
}
