//! Schemas: DDL text is read in its spelling, and a decoder accepts the schema inferred from messages.

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use towpath::{DIALECTS, Decoder, Options, TableSchema, infer_schema};

use super::captures::Message;
use super::dialects::decode;
use super::input::{Input, records};
use super::options::{decoder, plain};

/// Checks the text of a schema.
pub fn check_ddl(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match columns(text) {
        Ok(fields) => check_schema(&fields),
        Err(what) => assert!(
            what.len() <= 10 * text.len() + 1000,
            "an error of {} bytes",
            what.len()
        ),
    }
}

/// Checks the schema that messages declare.
pub fn check_infer(data: &[u8]) {
    let Input { choices, messages } = Input::parse(data);
    let names: Vec<&str> = DIALECTS
        .iter()
        .map(|dialect| dialect.name)
        .chain(["auto"])
        .collect();
    let options = plain(choices.pick(0, 1, &names));
    let inferred = || infer_schema(&records(&messages), options.clone());
    match inferred() {
        Ok(schema) => {
            check_schema(schema.fields());
            let typed = Options {
                schema: Some(TableSchema::Arrow(schema.fields().clone())),
                ..options.clone()
            };
            assert!(
                decode(&decoder(typed), &messages).num_rows() >= messages.len(),
                "a message is lost"
            );
        }
        Err(error) => assert!(
            error.to_string().chars().count() <= 1500,
            "an error of {} bytes",
            error.to_string().len()
        ),
    }
}

/// Returns a decoder's columns for a schema.
fn columns(ddl: &str) -> Result<Fields, String> {
    let options = Options {
        schema: Some(TableSchema::Ddl(ddl.into())),
        ..plain("canal-json")
    };
    let schema = Decoder::new(options)?.schema(&[])?;
    match schema.field_with_name("after").map(Field::data_type) {
        Ok(DataType::Struct(fields)) => Ok(fields.clone()),
        other => panic!("after is {other:?}"),
    }
}

/// Checks that a schema survives spelling, and that messages decode with it.
fn check_schema(fields: &Fields) {
    let ddl = fields.iter().map(column).collect::<Vec<_>>().join(", ");
    assert_eq!(columns(&ddl).as_ref(), Ok(fields), "{ddl}");
    let options = Options {
        schema: Some(TableSchema::Arrow(fields.clone())),
        ..plain("canal-json")
    };
    let message =
        br#"{"database":"shop","table":"orders","type":"INSERT","data":[{"id":"1","a":"[]"}]}"#;
    let rows = decode(
        &decoder(options),
        &[Message {
            key: None,
            value: Some(message.to_vec()),
        }],
    );
    assert_eq!(rows.num_rows(), 1);
}

fn column(field: &FieldRef) -> String {
    format!(
        "`{}` {}",
        field.name().replace('`', "``"),
        spelled(field.data_type())
    )
}

/// Returns a type in Spark's syntax.
fn spelled(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "tinyint".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "int".into(),
        DataType::Int64 => "bigint".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            format!("decimal({precision},{scale})")
        }
        DataType::Utf8 => "string".into(),
        DataType::Binary => "binary".into(),
        DataType::Date32 => "date".into(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => "timestamp".into(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp_ntz".into(),
        DataType::Time64(TimeUnit::Nanosecond) => "time".into(),
        DataType::Duration(TimeUnit::Microsecond) => "interval day to second".into(),
        DataType::List(item) => format!("array<{}>", spelled(item.data_type())),
        DataType::Struct(fields) => format!(
            "struct<{}>",
            fields.iter().map(column).collect::<Vec<_>>().join(", ")
        ),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(entry) => format!(
                "map<{}, {}>",
                spelled(entry[0].data_type()),
                spelled(entry[1].data_type())
            ),
            other => panic!("the entries of a map are {other}"),
        },
        other => panic!("no DDL text is read as {other}"),
    }
}
