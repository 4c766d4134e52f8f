//! Values in Kafka Connect's forms, back to what MySQL holds: epochs, base64 of decimals, bits and bytes, geometry structs.
//!
//! A message with its schema part says in which form each column is written. Without it the connector's settings and the
//! asked type do; what they leave open is an error, because a guess would be a wrong value that nobody sees.

use arrow_buffer::i256;
use arrow_schema::DataType;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use base64::{DecodeSliceError, Engine};
use bumpalo::Bump;

use crate::error::{Fault, Kind, Result, excerpt};
use crate::mysql::number::{ParseError, decimal, fits, integer, short_integer};
use crate::mysql::temporal::DateTimeText;
use crate::mysql::types::{DeclaredType, Encoding, TypeFamily};
use crate::options::{Options, named};
use crate::value::Value;
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

/// Debezium's `binary.handling.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryMode {
    /// Bytes, which JSON writes in base64; also asked for by the name `base64`.
    Base64,
    /// Base64 with `-` and `_`.
    Base64UrlSafe,
    /// Two hexadecimal digits a byte.
    Hex,
}

/// Debezium's `bigint.unsigned.handling.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsignedMode {
    /// A 64-bit integer, negative from 2^63 on.
    Long,
    /// Base64 of the integer.
    Precise,
}

/// The connector's settings, where the user says them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modes {
    pub decimal: Option<DecimalMode>,
    pub time: Option<TimeMode>,
    pub binary: Option<BinaryMode>,
    pub unsigned: Option<UnsignedMode>,
}

impl Modes {
    /// The settings that the user names.
    pub fn new(options: &Options) -> Result<Self, String> {
        fn mode<T: Copy>(argument: &str, name: Option<&String>, names: &[(&str, T)]) -> Result<Option<T>, String> {
            name.map(|name| named(argument, name, names)).transpose()
        }
        Ok(Modes {
            decimal: mode("decimal_handling_mode", options.decimal_handling_mode.as_ref(), &DecimalMode::NAMES)?,
            time: mode("time_precision_mode", options.time_precision_mode.as_ref(), &TimeMode::NAMES)?,
            binary: mode("binary_handling_mode", options.binary_handling_mode.as_ref(), &BinaryMode::NAMES)?,
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

impl BinaryMode {
    pub(crate) const NAMES: [(&'static str, BinaryMode); 4] = [
        ("bytes", BinaryMode::Base64),
        ("base64", BinaryMode::Base64),
        ("base64-url-safe", BinaryMode::Base64UrlSafe),
        ("hex", BinaryMode::Hex),
    ];
}

impl UnsignedMode {
    pub(crate) const NAMES: [(&'static str, UnsignedMode); 2] = [("long", UnsignedMode::Long), ("precise", UnsignedMode::Precise)];
}

/// What is known of a column whose values are in Connect's forms.
pub(crate) struct ConnectColumn<'c> {
    /// By the message's schema part.
    pub declared: Option<&'c DeclaredType>,
    /// By the user, for messages without one.
    pub named: Option<&'c DeclaredType>,
    pub asked: &'c DataType,
    pub modes: Modes,
}

/// The value in MySQL's form.
#[inline]
pub(crate) fn decode<'a>(value: Value<'a>, column: &ConnectColumn<'_>, arena: &'a Bump) -> Result<Value<'a>> {
    if value.is_null() || column.is_plain() { Ok(value) } else { decode_any(value, column, arena) }
}

fn decode_any<'a>(value: Value<'a>, column: &ConnectColumn<'_>, arena: &'a Bump) -> Result<Value<'a>> {
    let value = match value {
        // JSON may escape a slash, which is a digit of base64.
        Value::Escaped(_) if !matches!(column.asked, DataType::Utf8 | DataType::LargeUtf8) => Value::Text(arena.alloc_str(&value.text()?)),
        value => value,
    };
    let form = column.encoding(&value)?;
    apply(value, form, column, arena)
}

impl ConnectColumn<'_> {
    /// Whether every value is written as MySQL prints it.
    #[inline]
    pub fn is_plain(&self) -> bool {
        match (self.declared, self.named) {
            (Some(declared), _) => declared.encoding == Encoding::Plain && (declared.family != TypeFamily::Unknown || !self.asks_bytes()),
            (None, Some(_)) => false,
            (None, None) => matches!(self.asked, DataType::Utf8 | DataType::LargeUtf8 | DataType::Boolean),
        }
    }

    /// The form of every number, if it is known beforehand.
    pub fn of_numbers(&self) -> Option<Encoding> {
        self.encoding(&Value::Number("1")).ok()
    }

    /// The scale of decimals that are written in base64, if all text is.
    pub fn of_decimals(&self) -> Option<i32> {
        match self.encoding(&Value::Text("1")) {
            Ok(Encoding::Decimal(scale)) => Some(scale),
            _ => None,
        }
    }

    /// Whether text is what a column of timestamps reads as it is: with its zone, if it has one.
    pub fn has_zoned_text(&self) -> bool {
        let is_zoned = matches!(self.encoding(&Value::Text("")), Ok(Encoding::Zoned));
        is_zoned && matches!(self.asked, DataType::Timestamp(..))
    }

    fn encoding(&self, value: &Value<'_>) -> Result<Encoding> {
        match (self.declared, self.named) {
            (Some(declared), _) if declared.family == TypeFamily::Unknown && self.asks_bytes() => self.binary_in_text(value),
            (Some(declared), _) => Ok(declared.encoding),
            (None, Some(named)) => self.encoding_of(named, value),
            (None, None) => self.encoding_as_asked(value),
        }
    }

    fn asks_bytes(&self) -> bool {
        matches!(self.asked, DataType::Binary | DataType::LargeBinary)
    }

    /// How the connector writes a column that the user says is of this type.
    fn encoding_of(&self, named: &DeclaredType, value: &Value<'_>) -> Result<Encoding> {
        let long_fraction = named.arguments.first().is_some_and(|digits| *digits > 3);
        match named.family {
            TypeFamily::Date => Ok(Encoding::Days),
            TypeFamily::Datetime if self.modes.time.is_some() || !matches!(value, Value::Number(_)) => {
                let adaptive = if long_fraction { MICROS } else { MILLIS };
                Ok(Encoding::DateTime(self.exact_unit().unwrap_or(adaptive)))
            }
            TypeFamily::Datetime => self.clock(value),
            TypeFamily::Timestamp => Ok(Encoding::Zoned),
            TypeFamily::Time if self.modes.time == Some(TimeMode::Adaptive) => {
                Ok(Encoding::Time(if long_fraction { MICROS } else { MILLIS }))
            }
            TypeFamily::Time => self.time(value),
            TypeFamily::Decimal => {
                digits_or_base64(value, named.arguments.get(1).map_or(0, |scale| *scale as i32), self.decimals_precise())
            }
            TypeFamily::Bigint if named.unsigned => match value {
                Value::Number(_) => Ok(Encoding::Unsigned),
                other => digits_or_base64(other, 0, self.unsigned_precise()),
            },
            TypeFamily::Bit => Ok(Encoding::Bits),
            TypeFamily::Binary | TypeFamily::Blob => self.binary(value),
            // The connector takes it for text.
            TypeFamily::Text if self.asks_bytes() && named.text.to_lowercase().contains("character set binary") => Ok(Encoding::Latin1),
            TypeFamily::Geometry => Ok(Encoding::Geometry),
            _ => Ok(Encoding::Plain),
        }
    }

    /// How the connector writes a column that is read as the asked type.
    fn encoding_as_asked(&self, value: &Value<'_>) -> Result<Encoding> {
        match self.asked {
            DataType::Date32 => Ok(Encoding::Days),
            // Text is an instant with its zone, unless the setting writes clocks as text too.
            DataType::Timestamp(_, zone) if !is_number(value) && (zone.is_some() || self.modes.time != Some(TimeMode::IsoString)) => {
                Ok(Encoding::Zoned)
            }
            DataType::Timestamp(_, _) => self.clock(value),
            DataType::Duration(_) | DataType::Time64(_) => self.time(value),
            // What a `bigint unsigned` is asked as, and hardly anything else.
            DataType::Decimal128(20, 0) | DataType::UInt64 if self.modes.unsigned == Some(UnsignedMode::Long) && is_number(value) => {
                Ok(Encoding::Unsigned)
            }
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) if *scale != 0 => {
                digits_or_base64(value, i32::from(*scale), self.decimals_precise())
            }
            DataType::Decimal128(..) | DataType::Decimal256(..) => digits_or_base64(value, 0, self.integers_precise()),
            asked if asked.is_integer() => digits_or_base64(value, 0, self.integers_precise()),
            DataType::Struct(_) if matches!(value, Value::Nested(_)) => {
                Ok(if is_geometry(value) { Encoding::Geometry } else { Encoding::Plain })
            }
            DataType::Binary | DataType::LargeBinary if is_geometry(value) => Ok(Encoding::Geometry),
            DataType::Binary | DataType::LargeBinary => match self.binary(value)? {
                Encoding::Base64 if may_be_bits(value) => {
                    Err(undecided(value, "bytes or the bits of a number", "the column in column_types, or the schema part"))
                }
                form => Ok(form),
            },
            _ => Ok(Encoding::Plain),
        }
    }

    /// The unit of every clock, if the setting is one that has a single one.
    fn exact_unit(&self) -> Option<i64> {
        match self.modes.time? {
            TimeMode::Connect => Some(MILLIS),
            TimeMode::Microseconds => Some(MICROS),
            TimeMode::Nanoseconds => Some(NANOS),
            _ => None,
        }
    }

    fn clock(&self, value: &Value<'_>) -> Result<Encoding> {
        /// The last millisecond of the year 9999: what is beyond must be in a finer unit.
        const LAST_MILLI: u64 = 253_402_300_799_999;
        let Value::Number(digits) = value else { return Ok(Encoding::Iso) };
        let is_fine = digits.parse::<i64>().is_ok_and(|number| number.unsigned_abs() > LAST_MILLI);
        match (self.exact_unit(), self.modes.time) {
            (Some(unit), _) => Ok(Encoding::DateTime(unit)),
            (None, Some(_)) if is_fine => Ok(Encoding::DateTime(MICROS)),
            _ => {
                Err(undecided(value, "milliseconds or microseconds", "time_precision_mode, the column in column_types, or the schema part"))
            }
        }
    }

    fn time(&self, value: &Value<'_>) -> Result<Encoding> {
        let Value::Number(_) = value else { return Ok(Encoding::Iso) };
        match (self.exact_unit(), self.modes.time) {
            (Some(unit), _) => Ok(Encoding::Time(unit)),
            (None, Some(TimeMode::AdaptiveTimeMicroseconds)) => Ok(Encoding::Time(MICROS)),
            _ => {
                Err(undecided(value, "milliseconds or microseconds", "time_precision_mode, the column in column_types, or the schema part"))
            }
        }
    }

    /// Whether decimals are written in base64, if the user says.
    fn decimals_precise(&self) -> Option<bool> {
        self.modes.decimal.map(|mode| mode == DecimalMode::Precise)
    }

    /// Whether a `bigint unsigned` is.
    fn unsigned_precise(&self) -> Option<bool> {
        self.modes.unsigned.map(|mode| mode == UnsignedMode::Precise)
    }

    /// Whether text without a fraction is, of which nobody says whether it is a decimal or a `bigint unsigned`. In mode `long`
    /// only the one is text.
    fn integers_precise(&self) -> Option<bool> {
        match (self.decimals_precise(), self.unsigned_precise()) {
            (Some(false), None | Some(true)) => None,
            (decimals, _) => decimals,
        }
    }

    fn binary(&self, value: &Value<'_>) -> Result<Encoding> {
        let Value::Text(text) = value else { return Ok(Encoding::Bits) };
        match (self.modes.binary, is_base64(text), unhex(text).is_some()) {
            (Some(BinaryMode::Hex), ..) | (None, false, true) => Ok(Encoding::Hex),
            (None, true, true) if !text.is_empty() => {
                Err(undecided(value, "base64 or hexadecimal", "binary_handling_mode or the schema part"))
            }
            _ => Ok(Encoding::Base64),
        }
    }

    /// What the schema part calls a string may be binary in the setting's form, or a `varchar` of the charset `binary`, which the
    /// connector takes for text whose characters are the bytes. What cannot be the one is the other.
    fn binary_in_text(&self, value: &Value<'_>) -> Result<Encoding> {
        let Value::Text(text) = value else { return Ok(Encoding::Bits) };
        match (self.modes.binary, is_base64(text), unhex(text).is_some()) {
            (Some(BinaryMode::Hex), _, true) => Ok(Encoding::Hex),
            (Some(BinaryMode::Base64 | BinaryMode::Base64UrlSafe), true, _) => Ok(Encoding::Base64),
            (None, is_base64, is_hex) if (is_base64 || is_hex) && !text.is_empty() => {
                Err(undecided(value, "text, base64 or hexadecimal", "binary_handling_mode"))
            }
            _ => Ok(Encoding::Plain),
        }
    }
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Number(_))
}

/// Text of a decimal or of an integer: digits, or base64.
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
        (true, true) => Err(undecided(
            value,
            "digits or base64",
            "decimal_handling_mode, bigint_unsigned_handling_mode with column_types, or the schema part",
        )),
        _ => Ok(Encoding::Plain),
    }
}

fn is_base64(text: &str) -> bool {
    STANDARD.decode(text).is_ok() || URL_SAFE.decode(text).is_ok()
}

/// Days since 1970 of the years 1 to 9999.
const DAYS: std::ops::RangeInclusive<i32> = -719_162..=2_932_896;

const MILLIS: i64 = 1000;
const MICROS: i64 = 1_000_000;
const NANOS: i64 = 1_000_000_000;

#[cold]
fn undecided(value: &Value<'_>, between: &str, tells: &str) -> Fault {
    Fault::new(Kind::Type, format!("{} may be {between}: only {tells} can tell", excerpt(value.raw())))
}

#[cold]
fn not(value: &Value<'_>, what: &str) -> Fault {
    Fault::new(Kind::Type, format!("{} is not {what}", excerpt(value.raw())))
}

#[cold]
fn beyond(value: &Value<'_>, what: &str) -> Fault {
    Fault::new(Kind::Range, format!("{} does not fit into {what}", excerpt(value.raw())))
}

fn apply<'a>(value: Value<'a>, form: Encoding, column: &ConnectColumn<'_>, arena: &'a Bump) -> Result<Value<'a>> {
    match form {
        Encoding::Plain | Encoding::Wkb => Ok(value),
        Encoding::Days => match value {
            Value::Number(digits) => {
                let days = i32::try_from(whole(&value, digits)?).ok().filter(|days| DAYS.contains(days));
                days.map(Value::Date).ok_or_else(|| beyond(&value, "a date"))
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
        Encoding::Zoned => Ok(zoned(value)),
        Encoding::Iso => Ok(iso(value, arena)),
        Encoding::Unsigned => unsigned(value, arena),
        Encoding::Decimal(scale) => match value {
            Value::Text(text) => unscaled(&value, text, scale, column.asked, arena),
            _ => Ok(value),
        },
        Encoding::DecimalWithoutScale => match value {
            Value::Text(_) => Err(not(&value, "a decimal, as the schema part gives no scale")),
            _ => Ok(value),
        },
        Encoding::VariableDecimal => variable_decimal(value, column.asked, arena),
        Encoding::Bits => bits(value, column, arena),
        Encoding::Latin1 => latin1(&value).map(|bytes| Value::Bytes(arena.alloc_slice_copy(&bytes))),
        Encoding::Base64 => match value {
            Value::Text(text) => base64(&value, text).map(|bytes| Value::Bytes(arena.alloc_slice_copy(&bytes))),
            _ => Err(not(&value, "base64")),
        },
        Encoding::Hex => match value {
            Value::Text(text) => Ok(Value::Bytes(arena.alloc_slice_copy(&unhex(text).ok_or_else(|| not(&value, "hexadecimal"))?))),
            _ => Err(not(&value, "hexadecimal")),
        },
        Encoding::Geometry => geometry(value, column.asks_bytes(), arena),
    }
}

/// A number without a fraction.
fn whole(value: &Value<'_>, digits: &str) -> Result<i64> {
    short_integer(digits).or_else(|| digits.parse().ok()).ok_or_else(|| match integer(digits) {
        Err(ParseError::Type) => not(value, "a whole number"),
        _ => beyond(value, "64 bits"),
    })
}

/// The date or time that an integer stands for, if there is such a one.
pub(crate) fn of_integer(form: Encoding, number: i64) -> Option<Value<'static>> {
    match form {
        Encoding::Days => i32::try_from(number).ok().filter(|days| DAYS.contains(days)).map(Value::Date),
        Encoding::DateTime(unit) => micros_of(number, unit).map(Value::DateTime),
        Encoding::Time(unit) => micros_of(number, unit).filter(|micros| is_time(*micros)).map(Value::Time),
        _ => None,
    }
}

/// Microseconds of a number of `unit`s a second.
fn micros(value: &Value<'_>, digits: &str, unit: i64) -> Result<i64> {
    micros_of(whole(value, digits)?, unit).ok_or_else(|| beyond(value, "a date and time"))
}

fn micros_of(number: i64, unit: i64) -> Option<i64> {
    let micros = if unit <= MICROS { number.checked_mul(MICROS / unit) } else { (number % 1000 == 0).then_some(number / 1000) };
    let in_calendar = |micros: &i64| i32::try_from(micros.div_euclid(86_400 * MICROS)).is_ok_and(|days| DAYS.contains(&days));
    micros.filter(in_calendar)
}

/// A TIME, which MySQL ends before 839 hours.
fn time<'a>(value: &Value<'_>, micros: i64) -> Result<Value<'a>> {
    if is_time(micros) { Ok(Value::Time(micros)) } else { Err(beyond(value, "a time")) }
}

fn is_time(micros: i64) -> bool {
    micros.unsigned_abs() < 839 * 3600 * MICROS as u64
}

/// An instant in ISO's form; anything else is left for its column to refuse.
fn zoned(value: Value<'_>) -> Value<'_> {
    let Value::Text(text) = value else { return value };
    let Ok(written) = DateTimeText::parse(text) else { return value };
    match (written.offset, written.seconds(), written.nanos % 1000) {
        (Some(offset), Ok(seconds), 0) => Value::Timestamp((seconds - i64::from(offset)) * MICROS + i64::from(written.nanos / 1000)),
        _ => value,
    }
}

/// A clock, a date or a time of day in ISO's form, whose `Z` says nothing.
fn iso<'a>(value: Value<'a>, arena: &'a Bump) -> Value<'a> {
    let Value::Text(text) = value else { return value };
    let Some(clock) = text.strip_suffix('Z') else { return value };
    match clock.split_once('T') {
        Some((date, time)) => Value::Text(arena.alloc_str(&format!("{date} {time}"))),
        None => Value::Text(clock),
    }
}

/// An integer that is negative where it should be beyond 2^63.
fn unsigned<'a>(value: Value<'a>, arena: &'a Bump) -> Result<Value<'a>> {
    match value {
        Value::Number(digits) if digits.starts_with('-') => {
            let number: i64 = digits.parse().map_err(|_| beyond(&value, "64 bits"))?;
            Ok(Value::Number(arena.alloc_str(&format!("{}", number as u64))))
        }
        _ => Ok(value),
    }
}

fn base64(value: &Value<'_>, text: &str) -> Result<Vec<u8>> {
    let decoded = STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text));
    decoded.map_err(|_| not(value, "base64"))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? * 16 + digit(*low)?) as u8);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// A decimal from the base64 of its unscaled integer, the most significant byte first.
fn unscaled<'a>(value: &Value<'_>, text: &str, scale: i32, asked: &DataType, arena: &'a Bump) -> Result<Value<'a>> {
    if let Some(number) = short_decimal(text, scale, asked) {
        return Ok(Value::Unscaled(number));
    }
    // More than 256 bits take more than 44 characters.
    let mut buffer = [0; 48];
    let decoded = STANDARD.decode_slice(text, &mut buffer);
    let bytes = match decoded {
        Ok(length) => buffer.get(..length).unwrap_or_default(),
        Err(DecodeSliceError::OutputSliceTooSmall) => return Err(beyond(value, "a decimal of 256 bits")),
        Err(DecodeSliceError::DecodeError(_)) => return Err(not(value, "base64")),
    };
    let digits = match bytes.len() {
        0 => return Err(not(value, "a decimal")),
        1..=8 => i64::from_be_bytes(widened(bytes)).to_string(),
        9..=16 => i128::from_be_bytes(widened(bytes)).to_string(),
        17..=32 => i256::from_be_bytes(widened(bytes)).to_string(),
        _ => return Err(beyond(value, "a decimal of 256 bits")),
    };
    let decimal = with_point(digits, scale).ok_or_else(|| beyond(value, "a decimal"))?;
    Ok(Value::Number(arena.alloc_str(&decimal)))
}

/// A decimal of at most 64 bits, for a column of its scale that can hold it.
pub(crate) fn short_decimal(text: &str, scale: i32, asked: &DataType) -> Option<i64> {
    let DataType::Decimal128(precision, asked) = asked else { return None };
    let mut buffer = [0; 9];
    let length = STANDARD.decode_slice(text, &mut buffer).ok().filter(|length| (1..=8).contains(length))?;
    let number = i64::from_be_bytes(widened(buffer.get(..length)?));
    (scale == i32::from(*asked) && fits(number, *precision)).then_some(number)
}

/// A two's complement in more bytes.
fn widened<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let fill = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) { 0xFF } else { 0 };
    let mut wide = [fill; N];
    wide.iter_mut().rev().zip(bytes.iter().rev()).for_each(|(to, from)| *to = *from);
    wide
}

/// Digits with the point put in; `None` if that takes more digits than any decimal has.
fn with_point(mut digits: String, scale: i32) -> Option<String> {
    /// Far beyond MySQL's 65 digits, and short of what would take much memory.
    const MOST: i32 = 400;
    match scale {
        0 => {}
        1..=MOST => {
            let scale = scale as usize;
            let sign = usize::from(digits.starts_with('-'));
            let missing = (scale + 1 + sign).saturating_sub(digits.len());
            digits.insert_str(sign, ZEROS.get(..missing)?);
            digits.insert(digits.len() - scale, '.');
        }
        _ if (-MOST..0).contains(&scale) => digits.push_str(&format!("e{}", -scale)),
        _ => return None,
    }
    Some(digits)
}

const ZEROS: &str = match std::str::from_utf8(&[b'0'; 401]) {
    Ok(zeros) => zeros,
    Err(_) => "",
};

/// `{"scale":2,"value":"..."}`.
fn variable_decimal<'a>(value: Value<'a>, asked: &DataType, arena: &'a Bump) -> Result<Value<'a>> {
    let Value::Nested(object) = value else { return Ok(value) };
    let (mut scale, mut text) = (None, None);
    members(object, |name, member| match (name, member) {
        ("scale", Value::Number(digits)) => scale = digits.parse().ok(),
        ("value", Value::Text(_) | Value::Escaped(_)) => text = member.text().ok(),
        _ => {}
    });
    match (scale, text) {
        (Some(scale), Some(text)) => unscaled(&value, &text, scale, asked, arena),
        _ => Err(not(&value, "a struct of scale and value")),
    }
}

/// Base64 of the bytes, the least significant first; or the boolean of a `bit(1)`.
fn bits<'a>(value: Value<'a>, column: &ConnectColumn<'_>, arena: &'a Bump) -> Result<Value<'a>> {
    let as_bytes = column.asks_bytes();
    let width = column.declared.or(column.named).filter(|declared| declared.family == TypeFamily::Bit).and_then(DeclaredType::length);
    let mut bytes = match value {
        Value::Bool(_) if width.is_some_and(|width| width != 1) => return Err(not(&value, "the bits of a number")),
        Value::Bool(raw) if matches!(column.asked, DataType::Decimal128(..) | DataType::Decimal256(..)) => {
            return Ok(Value::Number(if raw == "true" { "1" } else { "0" }));
        }
        Value::Bool(_) if !as_bytes => return Ok(value),
        Value::Bool(raw) => vec![u8::from(raw == "true")],
        Value::Text(text) => base64(&value, text)?,
        _ => return Ok(value),
    };
    if width.is_some_and(|width| bytes.len() > width.div_ceil(8)) {
        return Err(beyond(&value, "the column's bits"));
    }
    bytes.reverse();
    if as_bytes {
        return Ok(Value::Bytes(arena.alloc_slice_copy(&bytes)));
    }
    let significant: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    if significant.len() > 8 {
        return Err(beyond(&value, "bit(64)"));
    }
    let number = significant.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    Ok(Value::Number(arena.alloc_str(&format!("{number}"))))
}

/// Whether base64 of bytes may as well be that of a `bit(n)`, which has them the other way round.
fn may_be_bits(value: &Value<'_>) -> bool {
    let bytes = base64(value, value.raw()).unwrap_or_default();
    (2..=8).contains(&bytes.len()) && !bytes.iter().eq(bytes.iter().rev())
}

fn latin1(value: &Value<'_>) -> Result<Vec<u8>> {
    let text = value.text()?;
    let bytes = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<Vec<u8>>>();
    bytes.ok_or_else(|| not(value, "bytes, which are characters up to U+00FF"))
}

fn is_geometry(value: &Value<'_>) -> bool {
    let Value::Nested(object) = value else { return false };
    let mut found = false;
    members(object, |name, _| found |= name == "wkb");
    found
}

/// `{"wkb":"...","srid":4326}` as MySQL stores it: the SRID, then the WKB; or the WKB alone.
fn geometry<'a>(value: Value<'a>, alone: bool, arena: &'a Bump) -> Result<Value<'a>> {
    let Value::Nested(object) = value else { return Err(not(&value, "a geometry")) };
    let (mut srid, mut wkb) = (Some(0i32), None);
    members(object, |name, member| match (name, member) {
        ("srid", Value::Null) => {}
        ("srid", other) => srid = other.raw().parse().ok(),
        ("wkb", Value::Text(_) | Value::Escaped(_)) => wkb = member.text().ok(),
        _ => {}
    });
    let (Some(srid), Some(wkb)) = (srid, wkb) else { return Err(not(&value, "a geometry")) };
    let wkb = base64(&value, &wkb)?;
    let mut bytes = if alone { Vec::new() } else { srid.to_le_bytes().to_vec() };
    bytes.extend_from_slice(&wkb);
    Ok(Value::Bytes(arena.alloc_slice_copy(&bytes)))
}

/// Calls `found` with the members of an object that was checked when the message was read.
fn members<'a>(object: &'a str, mut found: impl FnMut(&'a str, Value<'a>)) {
    let mut cursor = Cursor::new(object, true);
    let Ok(mut members) = cursor.object() else { return };
    while let Ok(Some(name)) = cursor.next_key(&mut members) {
        let Ok(value) = cursor.value() else { return };
        found(name.raw, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(value: Value<'static>, form: Encoding, asked: &DataType) -> String {
        let arena = Bump::new();
        let declared = DeclaredType::connect("", TypeFamily::Blob, form);
        let column = ConnectColumn { declared: Some(&declared), named: None, asked, modes: Modes::default() };
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
    fn bits_are_the_least_significant_byte_first() {
        assert_eq!(decoded(Value::Text("/wM="), Encoding::Bits, &DataType::Int32), "1023");
        assert_eq!(decoded(Value::Text("/wM="), Encoding::Bits, &DataType::Binary), "[03, ff]");
        assert_eq!(decoded(Value::Bool("true"), Encoding::Bits, &DataType::Binary), "[01]");
    }

    #[test]
    fn clocks_in_every_unit_and_in_iso() {
        let clock = |value, form| decoded(value, form, &DataType::Utf8);
        assert_eq!(clock(Value::Number("1609459200123"), Encoding::DateTime(MILLIS)), "2021-01-01 00:00:00.123");
        assert_eq!(clock(Value::Number("-1"), Encoding::DateTime(MICROS)), "1969-12-31 23:59:59.999999");
        assert_eq!(clock(Value::Number("1000"), Encoding::DateTime(NANOS)), "1970-01-01 00:00:00.000001");
        assert!(clock(Value::Number("1"), Encoding::DateTime(NANOS)).contains("does not fit"));
        assert_eq!(clock(Value::Number("-3020399000000"), Encoding::Time(MICROS)), "-838:59:59");
        assert_eq!(clock(Value::Number("-1"), Encoding::Days), "1969-12-31");
        assert_eq!(clock(Value::Text("2021-01-01T08:00:00.5+08:00"), Encoding::Zoned), "2021-01-01 00:00:00.500");
        assert_eq!(clock(Value::Text("2021-01-01T08:00:00Z"), Encoding::Iso), "2021-01-01 08:00:00");
        assert_eq!(clock(Value::Text("2021-01-01Z"), Encoding::Iso), "2021-01-01");
    }

    #[test]
    fn what_only_a_setting_can_tell_is_not_guessed() {
        let arena = Bump::new();
        let tell = |value: Value<'static>, asked: DataType, modes: Modes| {
            let column = ConnectColumn { declared: None, named: None, asked: &asked, modes };
            decode(value, &column, &arena).map_err(|fault| fault.into_parts().what)
        };
        let none = Modes::default();
        let decimal = DataType::Decimal128(10, 2);
        assert!(tell(Value::Text("1234"), decimal.clone(), none).is_err_and(|what| what.contains("decimal_handling_mode")));
        assert_eq!(tell(Value::Text("12.34"), decimal.clone(), none), Ok(Value::Text("12.34")));
        assert_eq!(tell(Value::Text("BNI="), decimal.clone(), none), Ok(Value::Unscaled(1234)));
        assert_eq!(tell(Value::Text("1234"), decimal, Modes { decimal: Some(DecimalMode::String), ..none }), Ok(Value::Text("1234")));
        let binary = DataType::Binary;
        assert!(tell(Value::Text("abcd"), binary.clone(), none).is_err_and(|what| what.contains("binary_handling_mode")));
        assert_eq!(tell(Value::Text("ab"), binary.clone(), none), Ok(Value::Bytes(&[0xab])));
        assert!(tell(Value::Text("q80="), binary.clone(), none).is_err_and(|what| what.contains("column_types")));
        assert_eq!(tell(Value::Text("q82r"), binary, none), Ok(Value::Bytes(&[0xab, 0xcd, 0xab])));
        let clock = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None);
        assert!(tell(Value::Number("1609459200123"), clock.clone(), none).is_err_and(|what| what.contains("time_precision_mode")));
        let connect = Modes { time: Some(TimeMode::Connect), ..none };
        assert_eq!(tell(Value::Number("1609459200123"), clock, connect), Ok(Value::DateTime(1_609_459_200_123_000)));
    }
}
