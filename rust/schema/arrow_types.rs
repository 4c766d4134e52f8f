//! Arrow types that hold every value of a declared type.

use arrow_schema::{DataType, TimeUnit};

use crate::mysql::types::{DeclaredType, Encoding, TypeFamily};
use crate::value::Value;

/// Returns the type that holds every value of a type in DDL.
pub(super) fn type_for(declared: &DeclaredType) -> DataType {
    infer(declared, &Value::Missing)
}

/// Returns the type that holds every value of a declared type; null if neither the declared type nor `value` determines
/// it.
pub(crate) fn infer(declared: &DeclaredType, value: &Value<'_>) -> DataType {
    let micros = TimeUnit::Microsecond;
    match (declared.family, declared.unsigned) {
        (TypeFamily::Tinyint, false) => DataType::Int8,
        (TypeFamily::Smallint, false) | (TypeFamily::Tinyint, true) => DataType::Int16,
        (TypeFamily::Mediumint, _)
        | (TypeFamily::Int, false)
        | (TypeFamily::Smallint, true)
        | (TypeFamily::Year, _) => DataType::Int32,
        (TypeFamily::Bigint, false) | (TypeFamily::Int, true) => DataType::Int64,
        (TypeFamily::Bigint, true) => DataType::Decimal128(20, 0),
        (TypeFamily::Decimal, _) => decimal(&declared.arguments),
        // float(p) with p > 24 is a double.
        (TypeFamily::Float, _) if matches!(*declared.arguments, [bits] if bits > 24) => {
            DataType::Float64
        }
        (TypeFamily::Float, _) => DataType::Float32,
        (TypeFamily::Double, _) => DataType::Float64,
        (TypeFamily::Bit, _) => match *declared.arguments {
            [1] => DataType::Boolean,
            // Without the length, the bytes are ambiguous, but the number is not.
            [] => DataType::Decimal128(20, 0),
            _ => DataType::Binary,
        },
        (TypeFamily::Date, _) => DataType::Date32,
        (TypeFamily::Datetime, _) => DataType::Timestamp(micros, None),
        (TypeFamily::Timestamp, _) => DataType::Timestamp(micros, Some("UTC".into())),
        (TypeFamily::Time, _) => DataType::Duration(micros),
        (TypeFamily::Characters, _) => text_or_bytes(value),
        (TypeFamily::Geometry, _) if declared.encoding == Encoding::Wkb => text_or_bytes(value),
        (TypeFamily::Binary | TypeFamily::Blob | TypeFamily::Geometry, _) => DataType::Binary,
        (
            TypeFamily::Text
            | TypeFamily::Enum
            | TypeFamily::Set
            | TypeFamily::Json
            | TypeFamily::Unknown,
            _,
        ) => DataType::Utf8,
    }
}

fn text_or_bytes(value: &Value<'_>) -> DataType {
    match value {
        Value::Missing | Value::Null => DataType::Null,
        Value::Bytes(_) => DataType::Binary,
        _ => DataType::Utf8,
    }
}

fn decimal(arguments: &[u32]) -> DataType {
    match *arguments {
        [precision @ 1..=38] => DataType::Decimal128(precision as u8, 0),
        [precision @ 1..=38, scale] if scale <= precision => {
            DataType::Decimal128(precision as u8, scale as i8)
        }
        _ => DataType::Utf8,
    }
}
