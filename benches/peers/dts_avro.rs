//! Apache's avro: reads a datum into its `Value`.

use std::hint::black_box;
use std::sync::LazyLock;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use arrow_array::BinaryArray;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    Schema::parse_str(include_str!("dts_record.avsc")).expect("the schema is right")
});

fn reader() -> GenericDatumReader<'static> {
    GenericDatumReader::builder(&SCHEMA)
        .build()
        .expect("the schema is right")
}

/// Looks up the names of the schema once, not for each datum.
pub fn values() -> impl FnMut(&BinaryArray) {
    let reader = reader();
    move |messages| {
        for mut message in messages.iter().flatten() {
            black_box(
                reader
                    .read_value(&mut message)
                    .expect("the corpus is right"),
            );
        }
    }
}

/// Returns the number of rows, and the sums of the ids before and after. They prove that the values are right.
pub fn found(messages: &BinaryArray) -> (u64, i64, i64) {
    let reader = reader();
    let values = messages.iter().flatten().map(|mut message| {
        reader
            .read_value(&mut message)
            .expect("the corpus is right")
    });
    values.fold((0, 0, 0), |(rows, before, after), record| {
        (
            rows + 1,
            before + id(&record, "beforeImages"),
            after + id(&record, "afterImages"),
        )
    })
}

/// Returns the digits of an image's first column, or 0 without an image.
fn id(record: &Value, image: &str) -> i64 {
    let Value::Array(cells) = within(field(record, image)) else {
        return 0;
    };
    let Value::String(digits) = field(within(&cells[0]), "value") else {
        panic!("ids are Integers")
    };
    digits.parse().expect("ids are numbers")
}

fn field<'v>(record: &'v Value, name: &str) -> &'v Value {
    let Value::Record(fields) = record else {
        panic!("{record:?} has no {name}")
    };
    fields
        .iter()
        .find(|(field, _)| field == name)
        .map(|(_, value)| value)
        .expect("the schema has it")
}

fn within(value: &Value) -> &Value {
    match value {
        Value::Union(_, value) => value,
        other => other,
    }
}
