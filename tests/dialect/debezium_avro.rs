//! debezium-avro: random rows that the Avro project's own crate encodes come back.

use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use apache_avro::{Decimal, Schema};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, BinaryArray, StructArray};
use proptest::prelude::*;
use towpath::{Decoder, Options, TableSchema};

/// Schema that Confluent's converter makes of Debezium's envelope.
const SCHEMA: &str = r#"{"type":"record","name":"Envelope","namespace":"srv.shop.orders","connect.name":"srv.shop.orders.Envelope","fields":[
  {"name":"before","type":["null",{"type":"record","name":"Value","connect.name":"srv.shop.orders.Value","fields":[
    {"name":"id","type":"long"},
    {"name":"n","type":["null",{"type":"int","connect.type":"int16"}],"default":null},
    {"name":"name","type":["null","string"],"default":null},
    {"name":"hash","type":["null","bytes"],"default":null},
    {"name":"total","type":["null",{"type":"bytes","logicalType":"decimal","precision":20,"scale":4,
      "connect.name":"org.apache.kafka.connect.data.Decimal","connect.parameters":{"scale":"4"}}],"default":null},
    {"name":"day","type":["null",{"type":"int","connect.name":"io.debezium.time.Date"}],"default":null},
    {"name":"at","type":["null",{"type":"long","connect.name":"io.debezium.time.MicroTimestamp"}],"default":null},
    {"name":"ratio","type":["null","double"],"default":null},
    {"name":"flag","type":["null","boolean"],"default":null}]}],"default":null},
  {"name":"after","type":["null","Value"],"default":null},
  {"name":"source","type":{"type":"record","name":"Source","fields":[{"name":"db","type":"string"},{"name":"table","type":"string"}]}},
  {"name":"op","type":"string"},
  {"name":"ts_ms","type":["null","long"],"default":null}]}"#;

const DDL: &str = "id bigint, n int, name string, hash binary, total decimal(20,4), day date, at timestamp_ntz, ratio double, flag boolean";

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    id: i64,
    n: Option<i16>,
    name: Option<String>,
    hash: Option<Vec<u8>>,
    /// Digits without the point.
    total: Option<i64>,
    day: Option<i32>,
    at: Option<i64>,
    /// Bits of the number.
    ratio: Option<u64>,
    flag: Option<bool>,
}

fn row() -> impl Strategy<Value = Row> {
    use prop::option::of;
    // Dates of the years 1 to 9999, in days and in microseconds.
    let days = -719_162..2_932_896;
    let micros = -62_135_596_800_000_000i64..253_402_300_799_999_999;
    let ratio = any::<f64>().prop_map(f64::to_bits);
    let texts = (
        of(any::<String>()),
        of(prop::collection::vec(any::<u8>(), 0..40)),
    );
    (
        any::<i64>(),
        of(any::<i16>()),
        texts,
        of(any::<i64>()),
        of(days),
        of(micros),
        of(ratio),
        of(any::<bool>()),
    )
        .prop_map(|(id, n, (name, hash), total, day, at, ratio, flag)| Row {
            id,
            n,
            name,
            hash,
            total,
            day,
            at,
            ratio,
            flag,
        })
}

/// A change of a row. It has at least one image.
fn change() -> impl Strategy<Value = (Option<Row>, Option<Row>)> {
    prop_oneof![
        row().prop_map(|after| (None, Some(after))),
        row().prop_map(|before| (Some(before), None)),
        (row(), row()).prop_map(|(before, after)| (Some(before), Some(after))),
    ]
}

/// Returns a value of a union of null and a type.
fn optional<T>(value: Option<T>, write: impl Fn(T) -> Value) -> Value {
    match value {
        None => Value::Union(0, Box::new(Value::Null)),
        Some(value) => Value::Union(1, Box::new(write(value))),
    }
}

fn record(members: Vec<(&str, Value)>) -> Value {
    Value::Record(
        members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

fn avro(row: Row) -> Value {
    record(vec![
        ("id", Value::Long(row.id)),
        ("n", optional(row.n, |n| Value::Int(n.into()))),
        ("name", optional(row.name, Value::String)),
        ("hash", optional(row.hash, Value::Bytes)),
        (
            "total",
            optional(row.total, |total| {
                Value::Decimal(Decimal::from(total.to_be_bytes()))
            }),
        ),
        ("day", optional(row.day, Value::Int)),
        ("at", optional(row.at, Value::Long)),
        (
            "ratio",
            optional(row.ratio, |bits| Value::Double(f64::from_bits(bits))),
        ),
        ("flag", optional(row.flag, Value::Boolean)),
    ])
}

fn message(schema: &Schema, (before, after): (Option<Row>, Option<Row>)) -> Vec<u8> {
    let op = if before.is_none() {
        "c"
    } else if after.is_none() {
        "d"
    } else {
        "u"
    };
    let source = record(vec![
        ("db", Value::String("shop".into())),
        ("table", Value::String("orders".into())),
    ]);
    let envelope = record(vec![
        ("before", optional(before, avro)),
        ("after", optional(after, avro)),
        ("source", source),
        ("op", Value::String(op.into())),
        ("ts_ms", optional(Some(1_763_000_000_000), Value::Long)),
    ]);
    [
        &[0, 0, 0, 0, 7][..],
        &GenericDatumWriter::builder(schema)
            .build()
            .unwrap()
            .write_value_to_vec(envelope)
            .unwrap(),
    ]
    .concat()
}

/// Returns the row of an image; `None` if it is null.
fn found(image: &StructArray, at: usize) -> Option<Row> {
    let valid = |name: &str| image[name].is_valid(at);
    let then = |name: &str| valid(name).then_some(at);
    image.is_valid(at).then(|| Row {
        id: image["id"].as_primitive::<Int64Type>().value(at),
        n: then("n").map(|at| image["n"].as_primitive::<Int32Type>().value(at) as i16),
        name: then("name").map(|at| image["name"].as_string::<i32>().value(at).to_owned()),
        hash: then("hash").map(|at| image["hash"].as_binary::<i32>().value(at).to_vec()),
        total: then("total").map(|at| {
            i64::try_from(image["total"].as_primitive::<Decimal128Type>().value(at)).unwrap()
        }),
        day: then("day").map(|at| image["day"].as_primitive::<Date32Type>().value(at)),
        at: then("at").map(|at| {
            image["at"]
                .as_primitive::<TimestampMicrosecondType>()
                .value(at)
        }),
        ratio: then("ratio").map(|at| {
            image["ratio"]
                .as_primitive::<Float64Type>()
                .value(at)
                .to_bits()
        }),
        flag: then("flag").map(|at| image["flag"].as_boolean().value(at)),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_what_was_written(changes in prop::collection::vec(change(), 1..12)) {
        let schema = Schema::parse_str(SCHEMA).unwrap();
        let messages: BinaryArray = changes.iter().map(|change| Some(message(&schema, change.clone()))).collect();
        let options = Options {
            dialect: "debezium-avro".into(),
            schema: Some(TableSchema::Ddl(DDL.into())),
            writer_schemas: vec![(7, SCHEMA.into(), Vec::new())],
            ..Options::default()
        };
        let batch = Decoder::new(options).unwrap().decode(&messages).unwrap();
        let images = |row: usize| (found(batch["before"].as_struct(), row), found(batch["after"].as_struct(), row));
        prop_assert_eq!((0..batch.num_rows()).map(images).collect::<Vec<_>>(), changes);
        prop_assert_eq!(batch["error"].null_count(), batch.num_rows());
    }
}
