//! From values to Arrow arrays: one small file for each family of Arrow types.
//!
//! A [`Column`] is filled in two ways: it reads a JSON value where it is written, or it appends a value that was read before.
//! Both end in the same conversions. What was appended can be copied and taken back, as a row may be filled before its message
//! is known to be right.

mod binary;
mod boolean;
mod bytes;
mod decimal;
mod nested;
mod nulls;
mod number;
mod primitive;
mod temporal;
mod text;

use std::any::Any;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, IntervalUnit, TimeUnit};

use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::{Quirks, ValueFormat};
use crate::mysql::number::Refusal;
use crate::mysql::types::{DeclaredType, DeclaredTypes};
use crate::mysql::zone::Zone;
use crate::value::Value;
pub(crate) use bytes::Bytes;
pub(crate) use nulls::Nulls;

/// What to make of a zero date where the column cannot hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZeroDate {
    Null,
    Error,
    Text,
}

/// What the user said about values.
#[derive(Clone, Debug)]
pub(crate) struct ValueOptions {
    pub zone: Zone,
    pub zero_date: ZeroDate,
    /// Members of this column's enum or set, for messages that do not declare them.
    pub labels: Arc<[String]>,
    /// This column's type, for messages that do not declare it.
    pub declared: Option<Arc<DeclaredType>>,
}

/// What a message says of the values of a row.
#[derive(Clone, Copy)]
pub(crate) struct RowDeclaration {
    pub quirks: &'static Quirks,
    pub types: Option<usize>,
}

impl PartialEq for RowDeclaration {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.quirks, other.quirks) && self.types == other.types
    }
}

/// What is known about one value beside itself.
pub(crate) struct Context<'c> {
    types: &'c DeclaredTypes,
    row: RowDeclaration,
    column: Option<usize>,
    /// The type that the user names for messages that declare none.
    named: Option<&'c DeclaredType>,
}

impl<'c> Context<'c> {
    /// What is known about the values of a column whose rows are alike; `named` is the type that the user names for messages that
    /// declare none.
    pub fn of_column(
        types: &'c DeclaredTypes,
        quirks: &'static Quirks,
        block: Option<usize>,
        column: usize,
        named: Option<&'c DeclaredType>,
    ) -> Self {
        Context { types, row: RowDeclaration { quirks, types: block }, column: Some(column), named }
    }

    /// The declared type of the value's column.
    #[inline]
    pub fn declared(&self) -> Option<&'c DeclaredType> {
        let by_message = self.row.types.and_then(|block| self.types.of_column(block, self.column?));
        by_message.or(self.named)
    }

    /// Whether a type that is declared without a length has none, as in DDL: some producers leave all lengths out, and
    /// not each of their messages tells.
    pub fn declares_lengths(&self) -> bool {
        self.row.quirks.declares_lengths && self.row.types.is_some_and(|block| self.types.has_lengths(block))
    }

    /// In which form the row's values are written.
    pub fn format(&self) -> ValueFormat {
        self.row.quirks.format
    }

    /// Whether a value of an enum or set is a label, even if it looks like a number: only some producers write numbers as text.
    pub fn is_label(&self, value: &Value<'_>) -> bool {
        self.format() != ValueFormat::Text && matches!(value, Value::Text(_) | Value::Escaped(_))
    }

    /// For a value inside another one, which has no declared type.
    pub fn inner(&self) -> Context<'c> {
        Context { types: self.types, row: self.row, column: None, named: None }
    }
}

/// What is to come, as far as the messages so far tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    /// How many times as much as there is now.
    pub times: f64,
    /// The most that a column makes room for, in bytes: the messages so far may have been of another kind.
    pub most: usize,
}

impl Forecast {
    /// Makes room in a vector.
    pub fn reserve<T>(self, values: &mut Vec<T>) {
        values.reserve(self.more(values.len(), size_of::<T>()));
    }

    /// How many more values of a size to expect where there are so many.
    pub fn more(self, count: usize, size: usize) -> usize {
        ((count as f64 * self.times) as usize).min(self.most / size.max(1))
    }
}

/// A column that is being built.
pub(crate) trait Column: Any + Send {
    /// Reads the JSON value at `at` and appends it, if it is written in the usual way. Returns where it ends; on `None` the column
    /// is as it was.
    fn read(&mut self, text: &[u8], at: usize) -> Option<usize>;

    /// Whether [`Column::read`] reads what [`Column::append`] would append in such surroundings.
    fn reads(&self, _: &Context<'_>) -> bool {
        true
    }

    /// Appends text without escapes, which is known to be UTF-8, if it is written in the usual way; else the column is as it was.
    /// For surroundings in which [`Column::reads`].
    fn push_plain(&mut self, _: &[u8]) -> bool {
        false
    }

    /// Appends one value, or null and the reason why it cannot be converted.
    fn append(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<()>;

    /// Appends so many nulls.
    fn push_nulls(&mut self, count: usize);

    /// Appends values for so many rows of a struct that is null as a whole, which [`Column::finish`] is told of.
    fn pad(&mut self, count: usize) {
        self.push_nulls(count);
    }

    /// Appends a value of another column of the same type.
    fn copy(&mut self, other: &dyn Column, row: usize);

    /// Takes back what stands behind the first `rows` values.
    fn truncate(&mut self, rows: usize);

    /// Makes room for what is to come.
    fn reserve(&mut self, _: Forecast) {}

    /// Takes what was built. Where the struct that it is in is null, `parent`, it is null too.
    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError>;
}

/// The column for a type, or which types there are.
pub(crate) fn column(data_type: &DataType, options: &ValueOptions) -> Result<Box<dyn Column>, String> {
    use arrow_array::types::*;
    Ok(match data_type {
        DataType::Boolean => Box::new(boolean::Booleans::default()),
        DataType::Int8 => number::integers::<Int8Type>(options),
        DataType::Int16 => number::integers::<Int16Type>(options),
        DataType::Int32 => number::integers::<Int32Type>(options),
        DataType::Int64 => number::integers::<Int64Type>(options),
        DataType::UInt8 => number::integers::<UInt8Type>(options),
        DataType::UInt16 => number::integers::<UInt16Type>(options),
        DataType::UInt32 => number::integers::<UInt32Type>(options),
        DataType::UInt64 => number::integers::<UInt64Type>(options),
        DataType::Float32 => number::floats::<Float32Type>(),
        DataType::Float64 => number::floats::<Float64Type>(),
        DataType::Decimal128(precision, scale) => decimal::decimals::<Decimal128Type>(*precision, *scale)?,
        DataType::Decimal256(precision, scale) => decimal::decimals::<Decimal256Type>(*precision, *scale)?,
        DataType::Utf8 => Box::new(text::Texts::<i32>::new(options)),
        DataType::LargeUtf8 => Box::new(text::Texts::<i64>::new(options)),
        DataType::Binary => Box::new(binary::Binaries::<i32>::default()),
        DataType::LargeBinary => Box::new(binary::Binaries::<i64>::default()),
        DataType::Date32 => temporal::dates(options),
        DataType::Timestamp(TimeUnit::Second, zone) => temporal::timestamps::<TimestampSecondType>(zone.clone(), options),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => temporal::timestamps::<TimestampMillisecondType>(zone.clone(), options),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => temporal::timestamps::<TimestampMicrosecondType>(zone.clone(), options),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => temporal::timestamps::<TimestampNanosecondType>(zone.clone(), options),
        DataType::Duration(TimeUnit::Second) => temporal::times::<DurationSecondType>(1_000_000, 1),
        DataType::Duration(TimeUnit::Millisecond) => temporal::times::<DurationMillisecondType>(1000, 1),
        DataType::Duration(TimeUnit::Microsecond) => temporal::times::<DurationMicrosecondType>(1, 1),
        DataType::Duration(TimeUnit::Nanosecond) => temporal::times::<DurationNanosecondType>(1, 1000),
        DataType::Time64(TimeUnit::Microsecond) => temporal::times::<Time64MicrosecondType>(1, 1),
        DataType::Time64(TimeUnit::Nanosecond) => temporal::times::<Time64NanosecondType>(1, 1000),
        DataType::Struct(fields) if binary::is_geometry(fields) => Box::new(binary::Geometries::new(fields.clone())),
        DataType::Struct(fields) => Box::new(nested::Structs::new(fields.clone(), options)?),
        DataType::List(item) => Box::new(nested::Lists::new(item.clone(), options)?),
        DataType::Map(entries, false) => Box::new(nested::Maps::new(entries.clone(), options)?),
        other => return Err(format!("type {} is not supported; {ALLOWED}", spell(other))),
    })
}

const ALLOWED: &str = "allowed are bool, int8-int64, uint8-uint64, float32, float64, decimal128, decimal256, string, large_string, \
    binary, large_binary, date32, timestamp, duration, time64, and list, map, struct of these";

/// A type's name as a Spark user writes it, or as Arrow does where Spark has none.
pub(crate) fn spell(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "tinyint".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "int".into(),
        DataType::Int64 => "bigint".into(),
        DataType::UInt8 => "uint8".into(),
        DataType::UInt16 => "uint16".into(),
        DataType::UInt32 => "uint32".into(),
        DataType::UInt64 => "uint64".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => format!("decimal({p},{s})"),
        DataType::Utf8 | DataType::LargeUtf8 => "string".into(),
        DataType::Binary | DataType::LargeBinary => "binary".into(),
        DataType::Date32 => "date".into(),
        DataType::Timestamp(_, None) => "timestamp_ntz".into(),
        DataType::Timestamp(_, Some(_)) => "timestamp".into(),
        DataType::Duration(_) | DataType::Interval(IntervalUnit::DayTime) => "interval day to second".into(),
        DataType::Time64(_) => "time".into(),
        DataType::List(item) => format!("array<{}>", spell(item.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(|f| format!("{}: {}", f.name(), spell(f.data_type()))).collect();
            format!("struct<{}>", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// `a` or `an`, as the name asks for.
fn article(name: &str) -> &'static str {
    if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// The fault of a value that is not what the column asks for.
#[cold]
pub(crate) fn refused(value: &Value<'_>, refusal: Refusal, asked: &str) -> Fault {
    let shown = match value {
        Value::Unread(unread) => return unread.fault(),
        Value::Text(raw) | Value::Escaped(raw) => excerpt(raw),
        other => excerpt(&other.text().unwrap_or_default()).trim_matches('"').to_owned(),
    };
    match refusal {
        Refusal::Type => Fault::new(Kind::Type, format!("{shown} is not {} {asked}", article(asked))),
        Refusal::Range => Fault::new(Kind::Range, format!("{shown} does not fit into {} {asked}", article(asked))),
    }
}

/// Runs `convert` over a value's text; objects, arrays and booleans have none.
#[inline(always)]
fn scalar<T>(value: &Value<'_>, convert: impl Fn(&str) -> Result<T, Refusal>) -> Result<Result<T, Refusal>> {
    match value {
        Value::Text(text) | Value::Number(text) => Ok(convert(text)),
        Value::Escaped(_) => Ok(convert(&value.text()?)),
        // Digits that are written as bytes.
        Value::Bytes(bytes) => Ok(std::str::from_utf8(bytes).map_err(|_| Refusal::Type).and_then(convert)),
        Value::Single(_) | Value::Double(_) => Ok(convert(&value.text()?)),
        _ => Ok(Err(Refusal::Type)),
    }
}
