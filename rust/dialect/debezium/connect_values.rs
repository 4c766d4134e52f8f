//! Decoding of Kafka Connect's encodings to MySQL's values: epochs, base64 of decimals, bits and bytes, geometry structs.
//!
//! The schema part of a message declares the encoding of each column. Without it, the encoding follows from the connector's
//! settings and the requested type; an ambiguous value is an error, because a wrong guess would go unnoticed.

use arrow_buffer::i256;
use arrow_schema::DataType;
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeSliceError, Engine};
use bumpalo::Bump;

use crate::dialect::detect::decoded as unescaped;
use crate::error::{Fault, Kind, Result, excerpt};
use crate::mysql::number::{ParseError, decimal, fits, integer, short_integer};
use crate::mysql::temporal::DateTimeText;
use crate::mysql::types::{DeclaredType, Encoding, TypeFamily};
use crate::options::{Options, named};
use crate::value::Value;
use crate::wire::binary_text::{self, BinaryText};
use crate::wire::json::Cursor;

/// Debezium's `decimal.handling.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecimalMode {
    /// Base64 of the unscaled integer.
    Precise,
    /// Text.
    String,
    /// A JSON number.
    Double,
}

/// Debezium's `time.precision.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeMode {
    /// By the column's precision, but TIME always in microseconds.
    AdaptiveTimeMicroseconds,
    /// By the column's precision.
    Adaptive,
    /// Milliseconds.
    Connect,
    /// ISO text.
    IsoString,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// Debezium's `bigint.unsigned.handling.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsignedMode {
    /// A signed 64-bit integer: 2^63 and above wrap to negative.
    Long,
    /// Base64 of the integer.
    Precise,
}

/// The connector's settings, as far as the user configures them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modes {
    pub decimal: Option<DecimalMode>,
    pub time: Option<TimeMode>,
    pub binary: Option<BinaryText>,
    pub unsigned: Option<UnsignedMode>,
}

impl Modes {
    /// Parses the settings in the options.
    pub fn new(options: &Options) -> Result<Self, String> {
        fn mode<T: Copy>(argument: &str, name: Option<&String>, names: &[(&str, T)]) -> Result<Option<T>, String> {
            name.map(|name| named(argument, name, names)).transpose()
        }
        Ok(Modes {
            decimal: mode("decimal_handling_mode", options.decimal_handling_mode.as_ref(), &DecimalMode::NAMES)?,
            time: mode("time_precision_mode", options.time_precision_mode.as_ref(), &TimeMode::NAMES)?,
            binary: options.binary_text()?,
            unsigned: mode("bigint_unsigned_handling_mode", options.bigint_unsigned_handling_mode.as_ref(), &UnsignedMode::NAMES)?,
        })
    }
}

impl DecimalMode {
    pub(crate) const NAMES: [(&'static str, DecimalMode); 3] =
        [("precise", DecimalMode::Precise), ("string", DecimalMode::String), ("double", DecimalMode::Double)];
}

impl TimeMode {
    pub(crate) const NAMES: [(&'static str, TimeMode); 6] = [
        ("adaptive_time_microseconds", TimeMode::AdaptiveTimeMicroseconds),
        ("adaptive", TimeMode::Adaptive),
        ("connect", TimeMode::Connect),
        ("isostring", TimeMode::IsoString),
        ("microseconds", TimeMode::Microseconds),
        ("nanoseconds", TimeMode::Nanoseconds),
    ];
}

impl UnsignedMode {
    pub(crate) const NAMES: [(&'static str, UnsignedMode); 2] = [("long", UnsignedMode::Long), ("precise", UnsignedMode::Precise)];
}

/// Type information of a column in Connect's encoding.
pub(crate) struct ConnectColumn<'c> {
    /// From the message's schema part.
    pub declared: Option<&'c DeclaredType>,
    /// From the option `column_types`, for messages without a schema part.
    pub configured: Option<&'c DeclaredType>,
    pub requested: &'c DataType,
    pub modes: Modes,
}

/// Decodes a value to MySQL's representation.
#[inline]
pub(crate) fn decode<'a>(value: Value<'a>, column: &ConnectColumn<'_>, arena: &'a Bump) -> Result<Value<'a>> {
    if value.is_null() || column.is_plain() { Ok(value) } else { decode_any(value, column, arena) }
}

fn decode_any<'a>(value: Value<'a>, column: &ConnectColumn<'_>, arena: &'a Bump) -> Result<Value<'a>> {
    let value = match value {
        // JSON may escape a slash, which is a base64 digit.
        Value::Escaped(_) if !matches!(column.requested, DataType::Utf8 | DataType::LargeUtf8) => {
            Value::Text(arena.alloc_str(&value.text()?))
        }
        value => value,
    };
    let encoding = column.encoding(&value)?;
    decode_as(value, encoding, column, arena)
}

impl ConnectColumn<'_> {
    /// Whether every value is written in MySQL's text format.
    #[inline]
    pub fn is_plain(&self) -> bool {
        match (self.declared, self.configured) {
            (_, Some(_)) => false,
            (Some(declared), None) => {
                let is_text = declared.family != TypeFamily::Unknown || !self.requests_bytes();
                declared.encoding == Encoding::Plain && is_text && !self.is_wrapped_integer(declared)
            }
            (None, None) => matches!(self.requested, DataType::Utf8 | DataType::LargeUtf8 | DataType::Boolean),
        }
    }

    /// Returns the encoding of every number, if it does not depend on the value.
    pub fn number_encoding(&self) -> Option<Encoding> {
        self.encoding(&Value::Number("1")).ok()
    }

    /// Returns the scale of base64 decimals, if all text is one.
    pub fn base64_decimal_scale(&self) -> Option<i32> {
        match self.encoding(&Value::Text("1")) {
            Ok(Encoding::Decimal(scale)) => Some(scale),
            _ => None,
        }
    }

    /// Whether a timestamp column reads the raw text, with its zone if present.
    pub fn has_zoned_text(&self) -> bool {
        let is_zoned = matches!(self.encoding(&Value::Text("")), Ok(Encoding::Zoned));
        is_zoned && matches!(self.requested, DataType::Timestamp(..))
    }

    /// Returns the encoding of a value. What the user says outranks the schema part, except the unit or scale of the user's own type,
    /// which only the schema part knows.
    fn encoding(&self, value: &Value<'_>) -> Result<Encoding> {
        match (self.declared, self.configured) {
            (Some(declared), Some(configured)) if declared.encoding != Encoding::Plain && is_same_kind(declared, configured) => {
                Ok(self.in_modes(declared.encoding))
            }
            // A string may be bytes in the connector's mode, or characters of the charset `binary`.
            (Some(declared), Some(configured))
                if declared.family == TypeFamily::Unknown && configured.is_bytes() && self.requests_bytes() =>
            {
                self.binary_in_text(value)
            }
            (_, Some(configured)) => self.encoding_of_configured(configured, value),
            (Some(declared), None) => self.encoding_of_declared(declared, value),
            (None, None) => self.encoding_of_requested(value),
        }
    }

    fn encoding_of_declared(&self, declared: &DeclaredType, value: &Value<'_>) -> Result<Encoding> {
        match declared.family {
            TypeFamily::Unknown if self.requests_bytes() => self.binary_in_text(value),
            _ if self.is_wrapped_integer(declared) && is_number(value) => Ok(Encoding::Unsigned),
            _ => Ok(self.in_modes(declared.encoding)),
        }
    }

    /// Returns a declared encoding as the connector's settings change it, if the user gives them.
    fn in_modes(&self, encoding: Encoding) -> Encoding {
        // With text for decimals, only a `bigint unsigned` may be base64.
        let may_be_base64 = |scale| scale == 0 && self.modes.unsigned == Some(UnsignedMode::Precise);
        match encoding {
            Encoding::DateTime(unit) => Encoding::DateTime(self.fixed_unit().unwrap_or(unit)),
            Encoding::Time(unit) => Encoding::Time(self.fixed_unit().unwrap_or(unit)),
            Encoding::Decimal(scale) if self.decimals_precise() == Some(false) && !may_be_base64(scale) => Encoding::Plain,
            Encoding::Base64 if self.modes.binary == Some(BinaryText::Hex) => Encoding::Hex,
            other => other,
        }
    }

    /// Whether an `int64` of the schema part is a `bigint unsigned` by the user's setting: TiCDC's schema part does not say so.
    fn is_wrapped_integer(&self, declared: &DeclaredType) -> bool {
        let is_requested = matches!(self.requested, DataType::Decimal128(20, 0) | DataType::UInt64);
        let is_integer = declared.family == TypeFamily::Bigint && declared.encoding == Encoding::Plain;
        is_integer && is_requested && self.modes.unsigned == Some(UnsignedMode::Long)
    }

    fn requests_bytes(&self) -> bool {
        matches!(self.requested, DataType::Binary | DataType::LargeBinary)
    }

    fn requests_text(&self) -> bool {
        matches!(self.requested, DataType::Utf8 | DataType::LargeUtf8)
    }

    /// Returns the encoding of a column of the configured type.
    fn encoding_of_configured(&self, configured: &DeclaredType, value: &Value<'_>) -> Result<Encoding> {
        let has_micros = configured.arguments.first().is_some_and(|digits| *digits > 3);
        match configured.family {
            TypeFamily::Date => Ok(Encoding::Days),
            TypeFamily::Datetime if self.modes.time.is_some() || !matches!(value, Value::Number(_)) => {
                let adaptive = if has_micros { MICROS } else { MILLIS };
                Ok(Encoding::DateTime(self.fixed_unit().unwrap_or(adaptive)))
            }
            TypeFamily::Datetime => self.date_time(value),
            TypeFamily::Timestamp => Ok(Encoding::Zoned),
            TypeFamily::Time if self.modes.time == Some(TimeMode::Adaptive) => Ok(Encoding::Time(if has_micros { MICROS } else { MILLIS })),
            TypeFamily::Time => self.time(value),
            TypeFamily::Decimal => {
                digits_or_base64(value, configured.arguments.get(1).map_or(0, |scale| *scale as i32), self.decimals_precise())
            }
            TypeFamily::Bigint if configured.unsigned => match value {
                Value::Number(_) => Ok(Encoding::Unsigned),
                other => digits_or_base64(other, 0, self.unsigned_precise()),
            },
            TypeFamily::Bit => Ok(Encoding::Bits),
            TypeFamily::Binary | TypeFamily::Blob => self.binary(value),
            // The connector treats it as text.
            TypeFamily::Text if self.requests_bytes() && configured.text.to_lowercase().contains("character set binary") => {
                Ok(Encoding::Latin1)
            }
            TypeFamily::Geometry => Ok(Encoding::Geometry),
            _ => Ok(Encoding::Plain),
        }
    }

    /// Returns the encoding of a column that is only known by its requested type.
    fn encoding_of_requested(&self, value: &Value<'_>) -> Result<Encoding> {
        match self.requested {
            DataType::Date32 => Ok(Encoding::Days),
            // Text is an instant with a zone, unless the setting writes local date-times as text too.
            DataType::Timestamp(_, zone) if !is_number(value) && (zone.is_some() || self.modes.time != Some(TimeMode::IsoString)) => {
                Ok(Encoding::Zoned)
            }
            DataType::Timestamp(_, _) => self.date_time(value),
            DataType::Duration(_) | DataType::Time64(_) => self.time(value),
            // The types requested for a `bigint unsigned`, and hardly for anything else.
            DataType::Decimal128(20, 0) | DataType::UInt64 if self.modes.unsigned == Some(UnsignedMode::Long) && is_number(value) => {
                Ok(Encoding::Unsigned)
            }
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) if *scale != 0 => {
                digits_or_base64(value, i32::from(*scale), self.decimals_precise())
            }
            DataType::Decimal128(..) | DataType::Decimal256(..) => digits_or_base64(value, 0, self.integers_precise()),
            requested if requested.is_integer() => digits_or_base64(value, 0, self.integers_precise()),
            DataType::Struct(_) if matches!(value, Value::Nested(_)) => {
                Ok(if is_geometry(value) { Encoding::Geometry } else { Encoding::Plain })
            }
            DataType::Binary | DataType::LargeBinary if is_geometry(value) => Ok(Encoding::Geometry),
            DataType::Binary | DataType::LargeBinary => match self.binary(value)? {
                Encoding::Base64 if may_be_bits(value) => {
                    Err(ambiguous(value, "bytes or the bits of a number", "the column in column_types, or the schema part"))
                }
                encoding => Ok(encoding),
            },
            _ => Ok(Encoding::Plain),
        }
    }

    /// Returns the unit of all times, if the setting implies a single one.
    fn fixed_unit(&self) -> Option<i64> {
        match self.modes.time? {
            TimeMode::Connect => Some(MILLIS),
            TimeMode::Microseconds => Some(MICROS),
            TimeMode::Nanoseconds => Some(NANOS),
            _ => None,
        }
    }

    fn date_time(&self, value: &Value<'_>) -> Result<Encoding> {
        /// The last millisecond of the year 9999: greater numbers must have a finer unit.
        const LAST_MILLI: u64 = 253_402_300_799_999;
        let Value::Number(digits) = value else { return Ok(Encoding::Iso) };
        let is_fine = digits.parse::<i64>().is_ok_and(|number| number.unsigned_abs() > LAST_MILLI);
        match (self.fixed_unit(), self.modes.time) {
            (Some(unit), _) => Ok(Encoding::DateTime(unit)),
            (None, Some(_)) if is_fine => Ok(Encoding::DateTime(MICROS)),
            _ => {
                Err(ambiguous(value, "milliseconds or microseconds", "time_precision_mode, the column in column_types, or the schema part"))
            }
        }
    }

    fn time(&self, value: &Value<'_>) -> Result<Encoding> {
        let Value::Number(_) = value else { return Ok(Encoding::Iso) };
        match (self.fixed_unit(), self.modes.time) {
            (Some(unit), _) => Ok(Encoding::Time(unit)),
            (None, Some(TimeMode::AdaptiveTimeMicroseconds)) => Ok(Encoding::Time(MICROS)),
            _ => {
                Err(ambiguous(value, "milliseconds or microseconds", "time_precision_mode, the column in column_types, or the schema part"))
            }
        }
    }

    /// Returns whether decimals are base64, if configured.
    fn decimals_precise(&self) -> Option<bool> {
        self.modes.decimal.map(|mode| mode == DecimalMode::Precise)
    }

    /// Returns whether a `bigint unsigned` is base64, if configured.
    fn unsigned_precise(&self) -> Option<bool> {
        self.modes.unsigned.map(|mode| mode == UnsignedMode::Precise)
    }

    /// Returns whether text without a fraction is base64, if that is the same for a decimal and a `bigint unsigned`. In mode `long`
    /// only decimals are text.
    fn integers_precise(&self) -> Option<bool> {
        match (self.decimals_precise(), self.unsigned_precise()) {
            (Some(false), None | Some(true)) => None,
            (decimals, _) => decimals,
        }
    }

    fn binary(&self, value: &Value<'_>) -> Result<Encoding> {
        let Value::Text(text) = value else { return Ok(Encoding::Bits) };
        match (self.modes.binary, is_base64(text), is_hexadecimal(text)) {
            (Some(BinaryText::Hex), ..) | (None, false, true) => Ok(Encoding::Hex),
            (None, true, true) if !text.is_empty() => {
                Err(ambiguous(value, "base64 or hexadecimal", "binary_handling_mode or the schema part"))
            }
            _ => Ok(Encoding::Base64),
        }
    }

    /// Returns the encoding of a string by the schema part that is requested as bytes: binary in the configured mode, or a `varchar`
    /// with charset `binary`, which the connector writes as Latin-1 text. Text that is not valid in the mode is the latter.
    fn binary_in_text(&self, value: &Value<'_>) -> Result<Encoding> {
        let Value::Text(text) = value else { return Ok(Encoding::Bits) };
        match (self.modes.binary, is_base64(text), is_hexadecimal(text)) {
            (Some(BinaryText::Hex), _, true) => Ok(Encoding::Hex),
            (Some(BinaryText::Base64 | BinaryText::Base64UrlSafe), true, _) => Ok(Encoding::Base64),
            (None, is_base64, is_hex) if (is_base64 || is_hex) && !text.is_empty() => {
                Err(ambiguous(value, "text, base64 or hexadecimal", "binary_handling_mode"))
            }
            _ => Ok(Encoding::Plain),
        }
    }
}

/// Whether both types have values of the same kind.
fn is_same_kind(a: &DeclaredType, b: &DeclaredType) -> bool {
    let kind = |declared: &DeclaredType| match declared.family {
        TypeFamily::Timestamp => TypeFamily::Datetime,
        TypeFamily::Binary => TypeFamily::Blob,
        // The connector can write a `bigint unsigned` as a decimal.
        TypeFamily::Bigint => TypeFamily::Decimal,
        family => family,
    };
    kind(a) == kind(b)
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Number(_) | Value::Scaled(..))
}

/// Returns the encoding of a decimal's or integer's text: digits, or base64.
fn digits_or_base64(value: &Value<'_>, scale: i32, precise: Option<bool>) -> Result<Encoding> {
    let Value::Text(text) = value else { return Ok(Encoding::Plain) };
    let is_digits = || decimal::<i256>(text, 76, 38).is_ok();
    match precise {
        Some(true) => return Ok(Encoding::Decimal(scale)),
        Some(false) => return Ok(Encoding::Plain),
        None => {}
    }
    match (is_base64(text), is_digits()) {
        (true, false) => Ok(Encoding::Decimal(scale)),
        (true, true) => Err(ambiguous(
            value,
            "digits or base64",
            "decimal_handling_mode, bigint_unsigned_handling_mode with column_types, or the schema part",
        )),
        _ => Ok(Encoding::Plain),
    }
}

fn is_base64(text: &str) -> bool {
    binary_text::base64(text).is_some()
}

fn is_hexadecimal(text: &str) -> bool {
    binary_text::hexadecimal(text).is_some()
}

/// The bytes of text in this form.
fn bytes_of(value: &Value<'_>, form: BinaryText) -> Result<Vec<u8>> {
    let Value::Text(text) = value else { return Err(type_error(value, form.describe())) };
    form.read(text)
}

/// Epoch days of the years 1 to 9999.
const DAYS: std::ops::RangeInclusive<i32> = -719_162..=2_932_896;

const MILLIS: i64 = 1000;
const MICROS: i64 = 1_000_000;
const NANOS: i64 = 1_000_000_000;

#[cold]
fn ambiguous(value: &Value<'_>, candidates: &str, setting: &str) -> Fault {
    Fault::new(Kind::Type, format!("{} may be {candidates}: only {setting} can tell", excerpt(value.raw())))
}

#[cold]
fn type_error(value: &Value<'_>, what: &str) -> Fault {
    Fault::new(Kind::Type, format!("{} is not {what}", excerpt(value.raw())))
}

#[cold]
fn range_error(value: &Value<'_>, what: &str) -> Fault {
    Fault::new(Kind::Range, format!("{} does not fit into {what}", excerpt(value.raw())))
}

fn decode_as<'a>(value: Value<'a>, encoding: Encoding, column: &ConnectColumn<'_>, arena: &'a Bump) -> Result<Value<'a>> {
    match encoding {
        Encoding::Plain | Encoding::Wkb => Ok(value),
        Encoding::Days => match value {
            Value::Number(digits) => {
                let days = i32::try_from(parse_integer(&value, digits)?).ok().filter(|days| DAYS.contains(days));
                days.map(Value::Date).ok_or_else(|| range_error(&value, "a date"))
            }
            _ => Ok(iso(value, arena)),
        },
        Encoding::DateTime(unit) => match value {
            Value::Number(digits) => micros(&value, digits, unit).map(Value::DateTime),
            _ => Ok(iso(value, arena)),
        },
        Encoding::Time(unit) => match value {
            Value::Number(digits) => micros(&value, digits, unit).and_then(|micros| time(&value, micros)),
            _ => Ok(iso(value, arena)),
        },
        Encoding::Instant(unit) => match value {
            Value::Number(digits) => micros(&value, digits, unit).map(Value::Timestamp),
            _ => Ok(zoned(value)),
        },
        Encoding::Zoned => Ok(zoned(value)),
        Encoding::ZonedTime if column.requests_text() => Ok(value),
        Encoding::Iso | Encoding::ZonedTime => Ok(iso(value, arena)),
        Encoding::Unsigned => unsigned(value, arena),
        Encoding::Decimal(scale) => match value {
            Value::Text(text) => unscaled(&value, text, scale, column.requested, arena),
            _ => Ok(value),
        },
        Encoding::DecimalWithoutScale => match value {
            Value::Text(_) => Err(type_error(&value, "a decimal, as the schema part gives no scale")),
            _ => Ok(value),
        },
        Encoding::VariableDecimal => variable_decimal(value, column.requested, arena),
        Encoding::Bits => bits(value, column, arena),
        Encoding::Latin1 => latin1(&value).map(|bytes| Value::Bytes(arena.alloc_slice_copy(&bytes))),
        Encoding::Base64 => bytes_of(&value, BinaryText::Base64).map(|bytes| Value::Bytes(arena.alloc_slice_copy(&bytes))),
        Encoding::Hex => bytes_of(&value, BinaryText::Hex).map(|bytes| Value::Bytes(arena.alloc_slice_copy(&bytes))),
        Encoding::Geometry => geometry(value, column.requests_bytes(), arena),
    }
}

/// Parses an integer.
fn parse_integer(value: &Value<'_>, digits: &str) -> Result<i64> {
    short_integer(digits).or_else(|| digits.parse().ok()).ok_or_else(|| match integer(digits) {
        Err(ParseError::Type) => type_error(value, "a whole number"),
        _ => range_error(value, "64 bits"),
    })
}

/// Decodes an integer as a date or time, if it is in range.
pub(crate) fn of_integer(encoding: Encoding, number: i64) -> Option<Value<'static>> {
    match encoding {
        Encoding::Days => i32::try_from(number).ok().filter(|days| DAYS.contains(days)).map(Value::Date),
        Encoding::DateTime(unit) => micros_of(number, unit).map(Value::DateTime),
        Encoding::Instant(unit) => micros_of(number, unit).map(Value::Timestamp),
        Encoding::Time(unit) => micros_of(number, unit).filter(|micros| is_time(*micros)).map(Value::Time),
        _ => None,
    }
}

/// Converts an epoch to microseconds; `unit` is its ticks per second.
fn micros(value: &Value<'_>, digits: &str, unit: i64) -> Result<i64> {
    micros_of(parse_integer(value, digits)?, unit).ok_or_else(|| range_error(value, "a date and time"))
}

fn micros_of(number: i64, unit: i64) -> Option<i64> {
    let micros = if unit <= MICROS { number.checked_mul(MICROS / unit) } else { (number % 1000 == 0).then_some(number / 1000) };
    let in_calendar = |micros: &i64| i32::try_from(micros.div_euclid(86_400 * MICROS)).is_ok_and(|days| DAYS.contains(&days));
    micros.filter(in_calendar)
}

/// Converts a TIME, which MySQL limits to less than 839 hours.
fn time<'a>(value: &Value<'_>, micros: i64) -> Result<Value<'a>> {
    if is_time(micros) { Ok(Value::Time(micros)) } else { Err(range_error(value, "a time")) }
}

fn is_time(micros: i64) -> bool {
    micros.unsigned_abs() < 839 * 3600 * MICROS as u64
}

/// Parses an instant in ISO format; other text is left for the column to reject.
pub(super) fn zoned(value: Value<'_>) -> Value<'_> {
    let Value::Text(text) = value else { return value };
    let Ok(written) = DateTimeText::parse(text) else { return value };
    match (written.offset, written.seconds(), written.nanos % 1000) {
        (Some(offset), Ok(seconds), 0) => Value::Timestamp((seconds - i64::from(offset)) * MICROS + i64::from(written.nanos / 1000)),
        _ => value,
    }
}

/// Converts a local date-time, date or time in ISO format, whose `Z` has no meaning, to MySQL's format.
pub(super) fn iso<'a>(value: Value<'a>, arena: &'a Bump) -> Value<'a> {
    let Value::Text(text) = value else { return value };
    let Some(local) = text.strip_suffix('Z') else { return value };
    match local.split_once('T') {
        Some((date, time)) => Value::Text(arena.alloc_str(&format!("{date} {time}"))),
        None => Value::Text(local),
    }
}

/// Converts an integer that wrapped at 2^63 back to unsigned.
pub(super) fn unsigned<'a>(value: Value<'a>, arena: &'a Bump) -> Result<Value<'a>> {
    match value {
        Value::Number(digits) if digits.starts_with('-') => {
            let number: i64 = digits.parse().map_err(|_| range_error(&value, "64 bits"))?;
            Ok(Value::Number(arena.alloc_str(&format!("{}", number as u64))))
        }
        Value::Scaled(number, 0) if number < 0 => Ok(Value::Number(arena.alloc_str(&format!("{}", number as u64)))),
        _ => Ok(value),
    }
}

/// Decodes a decimal from the base64 of its unscaled big-endian integer.
fn unscaled<'a>(value: &Value<'_>, text: &str, scale: i32, requested: &DataType, arena: &'a Bump) -> Result<Value<'a>> {
    if let Some(number) = short_decimal(text, scale, requested) {
        return Ok(Value::Unscaled(number));
    }
    // 256 bits take at most 44 characters.
    let mut buffer = [0; 48];
    let decoded = STANDARD.decode_slice(text, &mut buffer);
    let bytes = match decoded {
        Ok(length) => buffer.get(..length).unwrap_or_default(),
        Err(DecodeSliceError::OutputSliceTooSmall) => return Err(range_error(value, "a decimal of 256 bits")),
        Err(DecodeSliceError::DecodeError(_)) => return Err(type_error(value, "base64")),
    };
    match decimal_text(bytes, scale) {
        Ok(decimal) => Ok(Value::Number(arena.alloc_str(&decimal))),
        Err(ParseError::Type) => Err(type_error(value, "a decimal")),
        Err(ParseError::Range) => Err(range_error(value, "a decimal of 256 bits")),
    }
}

/// Prints a decimal by its unscaled big-endian integer.
pub(super) fn decimal_text(bytes: &[u8], scale: i32) -> Result<String, ParseError> {
    let digits = match bytes.len() {
        0 => return Err(ParseError::Type),
        1..=8 => i64::from_be_bytes(sign_extended(bytes)).to_string(),
        9..=16 => i128::from_be_bytes(sign_extended(bytes)).to_string(),
        17..=32 => i256::from_be_bytes(sign_extended(bytes)).to_string(),
        _ => return Err(ParseError::Range),
    };
    insert_point(digits, scale).ok_or(ParseError::Range)
}

/// Fast path: decodes a decimal of at most 64 bits for a column of the same scale and sufficient precision.
pub(crate) fn short_decimal(text: &str, scale: i32, requested: &DataType) -> Option<i64> {
    let DataType::Decimal128(precision, requested_scale) = requested else { return None };
    let mut buffer = [0; 9];
    let length = STANDARD.decode_slice(text, &mut buffer).ok().filter(|length| (1..=8).contains(length))?;
    let number = i64::from_be_bytes(sign_extended(buffer.get(..length)?));
    (scale == i32::from(*requested_scale) && fits(number, *precision)).then_some(number)
}

/// Sign-extends a big-endian two's complement.
pub(super) fn sign_extended<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let fill = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) { 0xFF } else { 0 };
    let mut wide = [fill; N];
    wide.iter_mut().rev().zip(bytes.iter().rev()).for_each(|(to, from)| *to = *from);
    wide
}

/// Inserts the decimal point; `None` if that takes more digits than any decimal has.
fn insert_point(mut digits: String, scale: i32) -> Option<String> {
    /// Far beyond MySQL's 65 digits, but cheap in memory.
    const MAX_SCALE: i32 = 400;
    match scale {
        0 => {}
        1..=MAX_SCALE => {
            let scale = scale as usize;
            let sign = usize::from(digits.starts_with('-'));
            let padding = (scale + 1 + sign).saturating_sub(digits.len());
            digits.insert_str(sign, ZEROS.get(..padding)?);
            digits.insert(digits.len() - scale, '.');
        }
        _ if (-MAX_SCALE..0).contains(&scale) => digits.push_str(&format!("e{}", -scale)),
        _ => return None,
    }
    Some(digits)
}

const ZEROS: &str = match std::str::from_utf8(&[b'0'; 401]) {
    Ok(zeros) => zeros,
    Err(_) => "",
};

/// Decodes `{"scale":2,"value":"..."}`.
fn variable_decimal<'a>(value: Value<'a>, requested: &DataType, arena: &'a Bump) -> Result<Value<'a>> {
    let Value::Nested(object) = value else { return Ok(value) };
    let (mut scale, mut text) = (None, None);
    members(object, |name, member| match (name, member) {
        ("scale", Value::Number(digits)) => scale = digits.parse().ok(),
        ("value", Value::Text(_) | Value::Escaped(_)) => text = member.text().ok(),
        _ => {}
    });
    match (scale, text) {
        (Some(scale), Some(text)) => unscaled(&value, &text, scale, requested, arena),
        _ => Err(type_error(&value, "a struct of scale and value")),
    }
}

/// Decodes a BIT: base64 of little-endian bytes, or the boolean of a `bit(1)`.
fn bits<'a>(value: Value<'a>, column: &ConnectColumn<'_>, arena: &'a Bump) -> Result<Value<'a>> {
    let as_bytes = column.requests_bytes();
    let width = column.declared.or(column.configured).filter(|declared| declared.family == TypeFamily::Bit).and_then(DeclaredType::length);
    let mut bytes = match value {
        Value::Bool(_) if width.is_some_and(|width| width != 1) => return Err(type_error(&value, "the bits of a number")),
        Value::Bool(raw) if matches!(column.requested, DataType::Decimal128(..) | DataType::Decimal256(..)) => {
            return Ok(Value::Number(if raw == "true" { "1" } else { "0" }));
        }
        Value::Bool(_) if !as_bytes => return Ok(value),
        Value::Bool(raw) => vec![u8::from(raw == "true")],
        Value::Text(_) => bytes_of(&value, BinaryText::Base64)?,
        Value::Bytes(bytes) => bytes.to_vec(),
        _ => return Ok(value),
    };
    bytes.reverse();
    if let Some(width) = width {
        fit_bits(&mut bytes, width).ok_or_else(|| range_error(&value, "the column's bits"))?;
    }
    if as_bytes {
        return Ok(Value::Bytes(arena.alloc_slice_copy(&bytes)));
    }
    let significant: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    if significant.len() > 8 {
        return Err(range_error(&value, "bit(64)"));
    }
    let number = significant.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    Ok(Value::Number(arena.alloc_str(&format!("{number}"))))
}

/// Extends big-endian bytes to those of a `bit(width)`; `None` if they have more bits.
fn fit_bits(bytes: &mut Vec<u8>, width: usize) -> Option<()> {
    let padding = width.div_ceil(8).checked_sub(bytes.len())?;
    bytes.splice(..0, std::iter::repeat_n(0, padding));
    let spare = bytes.len() * 8 - width;
    bytes.first().is_none_or(|first| first.leading_zeros() as usize >= spare).then_some(())
}

/// Whether base64 of bytes may also be that of a `bit(n)`, which has the reverse byte order.
fn may_be_bits(value: &Value<'_>) -> bool {
    let bytes = binary_text::base64(value.raw()).unwrap_or_default();
    (2..=8).contains(&bytes.len()) && !bytes.iter().eq(bytes.iter().rev())
}

fn latin1(value: &Value<'_>) -> Result<Vec<u8>> {
    let text = value.text()?;
    let bytes = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<Vec<u8>>>();
    bytes.ok_or_else(|| type_error(value, "bytes, which are characters up to U+00FF"))
}

fn is_geometry(value: &Value<'_>) -> bool {
    let Value::Nested(object) = value else { return false };
    let mut found = false;
    members(object, |name, _| found |= name == "wkb");
    found
}

/// Decodes `{"wkb":"...","srid":4326}` to MySQL's storage format, SRID and WKB, or to the WKB only.
fn geometry<'a>(value: Value<'a>, wkb_only: bool, arena: &'a Bump) -> Result<Value<'a>> {
    let object = match value {
        Value::Nested(object) => object,
        // Already in MySQL's storage format.
        Value::Bytes(stored) => return Ok(Value::Bytes(if wkb_only { stored.get(4..).unwrap_or_default() } else { stored })),
        _ => return Err(type_error(&value, "a geometry")),
    };
    let (mut srid, mut wkb) = (Some(0i32), None);
    members(object, |name, member| match (name, member) {
        ("srid", Value::Null) => {}
        ("srid", other) => srid = other.raw().parse().ok(),
        ("wkb", Value::Text(_) | Value::Escaped(_)) => wkb = member.text().ok(),
        _ => {}
    });
    let (Some(srid), Some(wkb)) = (srid, wkb) else { return Err(type_error(&value, "a geometry")) };
    let wkb = binary_text::base64(&wkb).ok_or_else(|| type_error(&value, "a geometry, whose wkb is base64"))?;
    let mut bytes = if wkb_only { Vec::new() } else { srid.to_le_bytes().to_vec() };
    bytes.extend_from_slice(&wkb);
    Ok(Value::Bytes(arena.alloc_slice_copy(&bytes)))
}

/// Calls `found` with the members of an object that was validated when the message was read.
fn members<'a>(object: &'a str, mut found: impl FnMut(&str, Value<'a>)) {
    let mut cursor = Cursor::new(object, true);
    let Ok(mut members) = cursor.object() else { return };
    while let Ok(Some(name)) = cursor.next_key(&mut members) {
        let Ok(value) = cursor.value() else { return };
        found(&unescaped(name), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(value: Value<'static>, encoding: Encoding, requested: &DataType) -> String {
        let arena = Bump::new();
        let declared = DeclaredType::connect("", TypeFamily::Blob, encoding);
        let column = ConnectColumn { declared: Some(&declared), configured: None, requested, modes: Modes::default() };
        match decode(value, &column, &arena) {
            Ok(Value::Bytes(bytes)) => format!("{bytes:02x?}"),
            Ok(value) => value.text().unwrap().into_owned(),
            Err(fault) => fault.into_parts().what,
        }
    }

    #[test]
    fn decimals_of_any_sign_scale_and_length() {
        let decimal = |text, scale| decoded(Value::Text(text), Encoding::Decimal(scale), &DataType::Utf8);
        // Python: base64.b64encode((-12345).to_bytes(2, "big", signed=True)) and so on.
        assert_eq!(decimal("z8c=", 2), "-123.45");
        assert_eq!(decimal("AA==", 2), "0.00");
        assert_eq!(decimal("BQ==", 3), "0.005");
        assert_eq!(decimal("+w==", 3), "-0.005");
        assert_eq!(decimal("BQ==", -3), "5e3");
        assert_eq!(decimal("AP//////////", 0), "18446744073709551615");
        assert_eq!(decimal("/Xo=", 0), "-646");
        assert_eq!(decimal("//9gsNjZ6GXduv4onb3Ta5pvJu/////////5", 30), "-1000000000000000000000000000000.000000000000000000000000000007");
        assert!(decimal("", 0).contains("is not a decimal"));
        assert!(decimal("z8c", 2).contains("is not base64"));
    }

    #[test]
    fn members_of_geometries_may_be_escaped() {
        let geometry = |object| decoded(Value::Nested(object), Encoding::Geometry, &DataType::Binary);
        let usual = geometry(r#"{"wkb":"AQEAAAA=","srid":7}"#);
        assert_eq!(usual, "[01, 01, 00, 00, 00]");
        assert_eq!(geometry(r#"{"\u0077kb":"\u0041QEAAAA=","sr\u0069d":7}"#), usual);
    }

    #[test]
    fn bits_are_little_endian() {
        assert_eq!(decoded(Value::Text("/wM="), Encoding::Bits, &DataType::Int32), "1023");
        assert_eq!(decoded(Value::Text("/wM="), Encoding::Bits, &DataType::Binary), "[03, ff]");
        assert_eq!(decoded(Value::Bool("true"), Encoding::Bits, &DataType::Binary), "[01]");
    }

    #[test]
    fn times_in_every_unit_and_in_iso() {
        let time = |value, encoding| decoded(value, encoding, &DataType::Utf8);
        assert_eq!(time(Value::Number("1609459200123"), Encoding::DateTime(MILLIS)), "2021-01-01 00:00:00.123");
        assert_eq!(time(Value::Number("-1"), Encoding::DateTime(MICROS)), "1969-12-31 23:59:59.999999");
        assert_eq!(time(Value::Number("1000"), Encoding::DateTime(NANOS)), "1970-01-01 00:00:00.000001");
        assert!(time(Value::Number("1"), Encoding::DateTime(NANOS)).contains("does not fit"));
        assert_eq!(time(Value::Number("-3020399000000"), Encoding::Time(MICROS)), "-838:59:59");
        assert_eq!(time(Value::Number("-1"), Encoding::Days), "1969-12-31");
        assert_eq!(time(Value::Text("2021-01-01T08:00:00.5+08:00"), Encoding::Zoned), "2021-01-01 00:00:00.500");
        assert_eq!(time(Value::Text("2021-01-01T08:00:00Z"), Encoding::Iso), "2021-01-01 08:00:00");
        assert_eq!(time(Value::Text("2021-01-01Z"), Encoding::Iso), "2021-01-01");
    }

    #[test]
    fn ambiguous_values_need_a_setting() {
        let arena = Bump::new();
        let decode_as = |value: Value<'static>, requested: DataType, modes: Modes| {
            let column = ConnectColumn { declared: None, configured: None, requested: &requested, modes };
            decode(value, &column, &arena).map_err(|fault| fault.into_parts().what)
        };
        let none = Modes::default();
        let decimal = DataType::Decimal128(10, 2);
        assert!(decode_as(Value::Text("1234"), decimal.clone(), none).is_err_and(|what| what.contains("decimal_handling_mode")));
        assert_eq!(decode_as(Value::Text("12.34"), decimal.clone(), none), Ok(Value::Text("12.34")));
        assert_eq!(decode_as(Value::Text("BNI="), decimal.clone(), none), Ok(Value::Unscaled(1234)));
        assert_eq!(decode_as(Value::Text("1234"), decimal, Modes { decimal: Some(DecimalMode::String), ..none }), Ok(Value::Text("1234")));
        let binary = DataType::Binary;
        assert!(decode_as(Value::Text("abcd"), binary.clone(), none).is_err_and(|what| what.contains("binary_handling_mode")));
        assert_eq!(decode_as(Value::Text("ab"), binary.clone(), none), Ok(Value::Bytes(&[0xab])));
        assert!(decode_as(Value::Text("q80="), binary.clone(), none).is_err_and(|what| what.contains("column_types")));
        assert_eq!(decode_as(Value::Text("q82r"), binary, none), Ok(Value::Bytes(&[0xab, 0xcd, 0xab])));
        let date_time = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None);
        assert!(decode_as(Value::Number("1609459200123"), date_time.clone(), none).is_err_and(|what| what.contains("time_precision_mode")));
        let connect = Modes { time: Some(TimeMode::Connect), ..none };
        assert_eq!(decode_as(Value::Number("1609459200123"), date_time, connect), Ok(Value::DateTime(1_609_459_200_123_000)));
    }
}
