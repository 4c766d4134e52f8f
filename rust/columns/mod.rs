//! Conversion of values to Arrow arrays: one small file per family of Arrow types.
//!
//! A [`ColumnBuilder`] has two inputs: the fast path parses JSON text in place, [`ColumnBuilder::append`] takes a
//! parsed value. Both share their conversions. A builder can truncate its values, because a row may be appended before
//! its message is known to be valid.

mod binary;
mod boolean;
mod bytes;
mod date_time;
mod decimal;
mod nested;
mod nulls;
mod numeric;
mod offsets;
mod overlay;
mod primitive;
mod text;
mod variable;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, IntervalUnit, TimeUnit};

use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::{Envelope, ValueFormat};
use crate::mysql::number::ParseError;
use crate::mysql::types::{DeclaredType, DeclaredTypes, TypeFamily};
use crate::mysql::zone::Zone;
use crate::value::Value;
use crate::wire::binary_text::BinaryText;
pub(crate) use bytes::Bytes;
pub(crate) use nulls::Nulls;
pub(crate) use offsets::Offsets;
pub(crate) use overlay::{Overlay, interleave_arrays};

/// Policy for zero dates in column types that cannot hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZeroDate {
    Null,
    Error,
    Text,
}

/// User options for the values of a column.
#[derive(Clone, Debug)]
pub(crate) struct ValueOptions {
    pub zone: Zone,
    pub zero_date: ZeroDate,
    /// Members of this column's enum or set, for messages that do not declare them.
    pub labels: Arc<[String]>,
    /// The user's type of this column. It takes precedence over the types that messages declare.
    pub declared: Option<Arc<DeclaredType>>,
    /// Encoding of bytes as text, if the user gives it.
    pub binary: Option<BinaryText>,
}

/// Information that the conversion of a column's values depends on, in rows with one declaration.
#[derive(Clone)]
pub(crate) struct Context {
    /// The message's type of the column.
    pub by_message: Option<Arc<DeclaredType>>,
    /// The user's type of the column.
    pub by_user: Option<Arc<DeclaredType>>,
    /// The user's labels of an enum or set.
    labels: Arc<[String]>,
    /// Encoding of bytes as text, if the user gives it.
    binary: Option<BinaryText>,
    format: ValueFormat,
    /// True if a declared type without a length really has no length, like in DDL. Some producers omit all lengths, and
    /// a single message cannot prove it.
    declares_lengths: bool,
}

impl Context {
    pub fn new(
        column: usize,
        envelope: &Envelope<'_>,
        types: &DeclaredTypes,
        options: &ValueOptions,
    ) -> Self {
        let (quirks, block) = (envelope.quirks, envelope.types);
        Context {
            by_message: block
                .and_then(|block| types.of_column(block, column))
                .cloned(),
            by_user: options.declared.clone(),
            labels: options.labels.clone(),
            binary: options.binary,
            format: quirks.format,
            declares_lengths: quirks.declares_lengths
                && block.is_some_and(|block| types.has_lengths(block)),
        }
    }

    /// Returns the type of the column: the user's, otherwise the message's.
    #[inline]
    fn declared(&self) -> Option<&DeclaredType> {
        self.by_user.as_deref().or(self.by_message.as_deref())
    }

    fn is_enum_or_set(&self) -> bool {
        self.declared()
            .is_some_and(|declared| matches!(declared.family, TypeFamily::Enum | TypeFamily::Set))
    }

    /// Returns the user's labels, otherwise the labels that the message declares.
    fn labels(&self) -> &[String] {
        if self.labels.is_empty() {
            self.declared().map_or(&[], |declared| &declared.labels)
        } else {
            &self.labels
        }
    }

    /// Returns whether the fast path of a column of this type converts values like [`ColumnBuilder::append`].
    pub fn has_fast_path(&self, data_type: &DataType) -> bool {
        match (data_type, self.declared()) {
            (DataType::Utf8 | DataType::LargeUtf8, Some(declared)) => {
                // Maxwell writes JSON texts without their quotes, and decimals with exponents.
                let is_maxwells = self.format == ValueFormat::Base64AndJson
                    && matches!(declared.family, TypeFamily::Json | TypeFamily::Decimal);
                !text::needs_conversion(declared) && !is_maxwells
            }
            (DataType::Utf8 | DataType::LargeUtf8, None) => self.labels.is_empty(),
            (DataType::Decimal128(_, 0) | DataType::Decimal256(_, 0), _) => !self.is_enum_or_set(),
            (other, _) => !other.is_integer() || !self.is_enum_or_set(),
        }
    }

    /// Returns the encoding of bytes as text: the user's, otherwise the dialect's. `None` if each character is a byte.
    pub fn binary_text(&self) -> Option<BinaryText> {
        match self.format {
            ValueFormat::Text | ValueFormat::TextAndLabels => self.binary,
            ValueFormat::Base64 | ValueFormat::Base64AndJson | ValueFormat::Base64AndNumbers => {
                self.binary.or(Some(BinaryText::Base64))
            }
            ValueFormat::Hex => self.binary.or(Some(BinaryText::Hex)),
            // The remaining text was not bytes.
            ValueFormat::Connect | ValueFormat::Typed | ValueFormat::BytesAndNumbers => None,
        }
    }

    /// Returns whether text that is read as base64 may also be the number of a `bit`, and neither the type nor the user
    /// tells.
    pub fn may_be_bits(&self, text: &str) -> bool {
        let is_told = self.declared().is_some() || self.binary.is_some();
        self.format == ValueFormat::Base64AndNumbers && !is_told && text.parse::<u64>().is_ok()
    }

    /// Returns whether an enum or set value is a label even if it looks like a number. Only some producers write
    /// numbers as text.
    pub fn is_label(&self, value: &Value<'_>) -> bool {
        match self.format {
            ValueFormat::TextAndLabels => is_text(value) && self.names_labels(value),
            format => !format.has_numbers_as_text() && is_text(value),
        }
    }

    /// Returns whether the text is a label of the column, or several labels of a set.
    fn names_labels(&self, value: &Value<'_>) -> bool {
        let is_label = |text: &str| self.labels().iter().any(|label| label == text);
        value
            .text()
            .is_ok_and(|text| is_label(&text) || text.split(',').all(is_label))
    }

    /// Returns the context of a nested value. Its type is unknown, and it may not be a label.
    fn inner(&self) -> Context {
        let format = if self.format == ValueFormat::TextAndLabels {
            ValueFormat::Text
        } else {
            self.format
        };
        Context {
            by_message: None,
            by_user: None,
            binary: None,
            format,
            ..self.clone()
        }
    }
}

/// Returns the minimum number of bytes of a value of a type. Nested and variable-length values count only their
/// offsets.
pub(crate) fn fixed_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::Null => 0,
        DataType::Boolean => 1,
        DataType::FixedSizeBinary(length) => usize::try_from(*length).unwrap_or(0),
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => size_of::<i64>(),
        DataType::Struct(fields) => fields
            .iter()
            .map(|field| fixed_bytes(field.data_type()))
            .sum(),
        other => other.primitive_width().unwrap_or(size_of::<i32>()),
    }
}

/// Expected growth, extrapolated from the messages so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    /// Expected additional values as a multiple of the current ones.
    pub growth: f64,
    /// Maximum number of bytes that a column reserves, because the messages so far may not be representative.
    pub max_bytes: usize,
}

impl Forecast {
    /// Reserves capacity in a vector.
    pub fn reserve<T>(self, values: &mut Vec<T>) {
        values.reserve(self.additional(values.len(), size_of::<T>()));
    }

    /// Returns the expected number of additional values of `size` bytes after `count` values.
    pub fn additional(self, count: usize, size: usize) -> usize {
        ((count as f64 * self.growth) as usize).min(self.max_bytes / size.max(1))
    }
}

/// Array builder of one column.
pub(crate) trait ColumnBuilder: Send {
    /// Fast path: parses the JSON value at `at` and appends it. Returns its end. On `None`, the column is unchanged;
    /// types without raw values in JSON always return `None`. Requires [`Context::has_fast_path`].
    fn read(&mut self, _text: &[u8], _at: usize) -> Option<usize> {
        None
    }

    /// Fast path: appends a text without escapes, or a date or time that needs no conversion. Returns false if it does
    /// not apply, and leaves the column unchanged. Text requires [`Context::has_fast_path`].
    fn try_push(&mut self, _: &Value<'_>) -> bool {
        false
    }

    /// Appends a value that is not null. On error, appends nothing and returns the reason.
    fn push(&mut self, value: &Value<'_>, context: &Context) -> Result<()>;

    /// Appends one value. On error, appends null and returns the reason.
    #[inline]
    fn append(&mut self, value: &Value<'_>, context: &Context) -> Result<()> {
        if value.is_null() {
            self.push_nulls(1);
            return Ok(());
        }
        self.push(value, context)
            .inspect_err(|_| self.push_nulls(1))
    }

    /// Appends `count` nulls.
    fn push_nulls(&mut self, count: usize);

    /// Appends placeholders for `count` rows whose parent struct is null. [`ColumnBuilder::finish`] masks them.
    fn pad(&mut self, count: usize) {
        self.push_nulls(count);
    }

    /// Truncates to the first `rows` values.
    fn truncate(&mut self, rows: usize);

    /// Reserves capacity for the forecast values.
    fn reserve(&mut self, _: Forecast) {}

    /// Returns the bytes of the appended values.
    fn bytes(&self) -> usize;

    /// Returns the number of values in these rows that were zero dates and became null.
    fn zero_dates(&self, _: Range<usize>) -> usize {
        0
    }

    /// Finishes the array. Rows where the `parent` struct is null are null too.
    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError>;

    /// Finishes the array. Rows in which this column has no value are copied from another array.
    fn finish_over(&mut self, overlay: &Overlay<'_>) -> Result<ArrayRef, ArrowError> {
        overlay.interleave(self.finish(None)?)
    }
}

/// Creates the builder of a type. The error lists the supported types.
pub(crate) fn make_builder(
    data_type: &DataType,
    options: &ValueOptions,
) -> Result<Box<dyn ColumnBuilder>, String> {
    use arrow_array::types::*;
    Ok(match data_type {
        DataType::Boolean => Box::new(boolean::Booleans::default()),
        DataType::Int8 => numeric::integers::<Int8Type>(),
        DataType::Int16 => numeric::integers::<Int16Type>(),
        DataType::Int32 => numeric::integers::<Int32Type>(),
        DataType::Int64 => numeric::integers::<Int64Type>(),
        DataType::UInt8 => numeric::integers::<UInt8Type>(),
        DataType::UInt16 => numeric::integers::<UInt16Type>(),
        DataType::UInt32 => numeric::integers::<UInt32Type>(),
        DataType::UInt64 => numeric::integers::<UInt64Type>(),
        DataType::Float32 => numeric::floats::<Float32Type>(),
        DataType::Float64 => numeric::floats::<Float64Type>(),
        DataType::Decimal128(precision, scale) => {
            decimal::decimals::<Decimal128Type>(*precision, *scale)?
        }
        DataType::Decimal256(precision, scale) => {
            decimal::decimals::<Decimal256Type>(*precision, *scale)?
        }
        DataType::Utf8 => text::texts::<i32>(options),
        DataType::LargeUtf8 => text::texts::<i64>(options),
        DataType::Binary => binary::binaries::<i32>(),
        DataType::LargeBinary => binary::binaries::<i64>(),
        DataType::Date32 => date_time::dates(options),
        DataType::Timestamp(TimeUnit::Second, zone) => {
            date_time::timestamps::<TimestampSecondType>(zone.clone(), options)
        }
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            date_time::timestamps::<TimestampMillisecondType>(zone.clone(), options)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            date_time::timestamps::<TimestampMicrosecondType>(zone.clone(), options)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            date_time::timestamps::<TimestampNanosecondType>(zone.clone(), options)
        }
        DataType::Duration(TimeUnit::Second) => {
            date_time::times::<DurationSecondType>(1_000_000, 1)
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            date_time::times::<DurationMillisecondType>(1000, 1)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            date_time::times::<DurationMicrosecondType>(1, 1)
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            date_time::times::<DurationNanosecondType>(1, 1000)
        }
        DataType::Time64(TimeUnit::Microsecond) => date_time::times::<Time64MicrosecondType>(1, 1),
        DataType::Time64(TimeUnit::Nanosecond) => date_time::times::<Time64NanosecondType>(1, 1000),
        DataType::Struct(fields) if binary::is_geometry(fields) => {
            Box::new(binary::Geometries::new(fields.clone()))
        }
        DataType::Struct(fields) => Box::new(nested::Structs::new(fields.clone(), options)?),
        DataType::List(item) => Box::new(nested::Lists::new(item.clone(), options)?),
        DataType::Map(entries, false) => Box::new(nested::Maps::new(entries.clone(), options)?),
        other => return Err(format!("type {} is not supported; {ALLOWED}", spell(other))),
    })
}

const ALLOWED: &str = "expected one of bool, int8-int64, uint8-uint64, float32, float64, decimal128, decimal256, string, large_string, \
    binary, large_binary, date32, timestamp, duration, time64, or a list, map or struct of these";

/// Returns a type's name in Spark, or in Arrow if Spark has no name for it.
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
        DataType::Duration(_) | DataType::Interval(IntervalUnit::DayTime) => {
            "interval day to second".into()
        }
        DataType::Time64(_) => "time".into(),
        DataType::List(item) => format!("array<{}>", spell(item.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|f| format!("{}: {}", f.name(), spell(f.data_type())))
                .collect();
            format!("struct<{}>", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns `a` or `an`, by the first letter.
fn article(name: &str) -> &'static str {
    if name.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    }
}

/// Returns the fault of a value that does not convert to the `target` type.
#[cold]
pub(crate) fn conversion_fault(value: &Value<'_>, error: ParseError, target: &str) -> Fault {
    let shown = match value {
        Value::Text(raw) | Value::Escaped(raw) => excerpt(raw),
        other => match other.text() {
            Ok(text) => excerpt(&text).trim_matches('"').to_owned(),
            Err(fault) => return fault,
        },
    };
    match error {
        ParseError::Type => Fault::new(
            Kind::Type,
            format!("{shown} is not {} {target}", article(target)),
        ),
        ParseError::Range => Fault::new(
            Kind::Range,
            format!("{shown} does not fit into {} {target}", article(target)),
        ),
    }
}

/// Returns whether a value is text, which may be a label.
fn is_text(value: &Value<'_>) -> bool {
    matches!(value, Value::Text(_) | Value::Escaped(_))
}

/// Applies `convert` to a value's text. Objects, arrays and booleans have no text.
#[inline(always)]
fn scalar<T>(
    value: &Value<'_>,
    convert: impl Fn(&str) -> Result<T, ParseError>,
) -> Result<Result<T, ParseError>> {
    match value {
        Value::Text(text) | Value::Number(text) => Ok(convert(text)),
        Value::Escaped(_) => Ok(convert(&value.text()?)),
        // Digits in a bytes value.
        Value::Bytes(bytes) => Ok(std::str::from_utf8(bytes)
            .map_err(|_| ParseError::Type)
            .and_then(convert)),
        Value::Scaled(..) | Value::Single(_) | Value::Double(_) | Value::Zoned(_) => {
            Ok(convert(&value.text()?))
        }
        _ => Ok(Err(ParseError::Type)),
    }
}
