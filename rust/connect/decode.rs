//! Conversion of values in Kafka Connect's encodings to MySQL's values.

use arrow_buffer::i256;
use arrow_schema::DataType;
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeSliceError, Engine};
use bumpalo::Bump;

use super::column::{Column, MICROS, members};
use crate::error::{Fault, Kind, Result, excerpt};
use crate::mysql::number::{ParseError, fits, integer, short_integer};
use crate::mysql::temporal::{DateTimeText, in_calendar};
use crate::mysql::types::{DeclaredType, Encoding, TypeFamily};
use crate::value::Value;
use crate::wire::binary_text::{self, BinaryText};

/// Decodes a value to MySQL's representation.
pub(crate) fn decode<'a>(
    value: Value<'a>,
    column: &Column<'_>,
    arena: &'a Bump,
) -> Result<Value<'a>> {
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

/// Returns the bytes of text in this form.
fn bytes_of(value: &Value<'_>, form: BinaryText) -> Result<Vec<u8>> {
    let Value::Text(text) = value else {
        return Err(type_error(value, form.describe()));
    };
    form.read(text)
}

/// Epoch days of the years 1 to 9999.
const DAYS: std::ops::RangeInclusive<i32> = -719_162..=2_932_896;

#[cold]
fn type_error(value: &Value<'_>, what: &str) -> Fault {
    Fault::new(
        Kind::Type,
        format!("{} is not {what}", excerpt(value.raw())),
    )
}

#[cold]
fn range_error(value: &Value<'_>, what: &str) -> Fault {
    Fault::new(
        Kind::Range,
        format!("{} does not fit into {what}", excerpt(value.raw())),
    )
}

fn decode_as<'a>(
    value: Value<'a>,
    encoding: Encoding,
    column: &Column<'_>,
    arena: &'a Bump,
) -> Result<Value<'a>> {
    if let (
        Encoding::Days | Encoding::DateTime(_) | Encoding::Time(_) | Encoding::Instant(_),
        Value::Number(digits),
    ) = (encoding, value)
    {
        let number = parse_integer(&value, digits)?;
        return of_integer(encoding, number).ok_or_else(|| match encoding {
            Encoding::Days => range_error(&value, "a date"),
            Encoding::Time(unit) if micros_of(number, unit).is_some() => {
                range_error(&value, "a time")
            }
            _ => range_error(&value, "a date and time"),
        });
    }
    match encoding {
        Encoding::Plain | Encoding::Wkb => Ok(value),
        Encoding::Zoned | Encoding::Instant(_) => zoned(value),
        Encoding::ZonedTime if column.requests_text() => Ok(value),
        Encoding::Iso
        | Encoding::ZonedTime
        | Encoding::Days
        | Encoding::DateTime(_)
        | Encoding::Time(_) => Ok(iso(value, arena)),
        Encoding::Unsigned => unsigned(value, arena),
        Encoding::Decimal(scale) => match value {
            Value::Text(text) => unscaled(&value, text, scale, column.requested, arena),
            _ => Ok(value),
        },
        Encoding::DecimalWithoutScale => match value {
            Value::Text(_) => Err(type_error(
                &value,
                "a decimal: the schema part has no scale",
            )),
            _ => Ok(value),
        },
        Encoding::VariableDecimal => variable_decimal(value, column.requested, arena),
        Encoding::Bits => bits(value, column, arena),
        Encoding::Latin1 => {
            latin1(&value).map(|bytes| Value::Bytes(arena.alloc_slice_copy(&bytes)))
        }
        Encoding::Base64 => bytes_of(&value, BinaryText::Base64)
            .map(|bytes| Value::Bytes(arena.alloc_slice_copy(&bytes))),
        Encoding::Hex => bytes_of(&value, BinaryText::Hex)
            .map(|bytes| Value::Bytes(arena.alloc_slice_copy(&bytes))),
        Encoding::Geometry => geometry(value, column.requests_bytes(), arena),
    }
}

/// Parses an integer.
fn parse_integer(value: &Value<'_>, digits: &str) -> Result<i64> {
    short_integer(digits.as_bytes())
        .or_else(|| digits.parse().ok())
        .ok_or_else(|| match integer(digits) {
            Err(ParseError::Type) => type_error(value, "an integer"),
            _ => range_error(value, "64 bits"),
        })
}

/// Decodes an integer as a date or time, if it is in range.
pub(crate) fn of_integer(encoding: Encoding, number: i64) -> Option<Value<'static>> {
    match encoding {
        Encoding::Days => i32::try_from(number)
            .ok()
            .filter(|days| DAYS.contains(days))
            .map(Value::Date),
        Encoding::DateTime(unit) => micros_of(number, unit).map(Value::DateTime),
        Encoding::Instant(unit) => micros_of(number, unit).map(Value::Timestamp),
        Encoding::Time(unit) => micros_of(number, unit)
            .filter(|micros| is_time(*micros))
            .map(Value::Time),
        _ => None,
    }
}

/// Converts an epoch to microseconds. `unit` is its ticks per second.
fn micros_of(number: i64, unit: i64) -> Option<i64> {
    let micros = if unit <= MICROS {
        number.checked_mul(MICROS / unit)?
    } else if number % 1000 == 0 {
        number / 1000
    } else {
        return None;
    };
    match i32::try_from(micros.div_euclid(86_400 * MICROS)) {
        Ok(days) if DAYS.contains(&days) => Some(micros),
        _ => None,
    }
}

/// Returns whether a TIME is less than 839 hours, MySQL's limit.
fn is_time(micros: i64) -> bool {
    micros.unsigned_abs() < 839 * 3600 * MICROS as u64
}

/// Parses an instant in ISO format. Leaves other text for the column to reject.
pub(crate) fn zoned(value: Value<'_>) -> Result<Value<'_>> {
    let Value::Text(text) = value else {
        return Ok(value);
    };
    let Ok(written) = DateTimeText::parse(text) else {
        return Ok(value);
    };
    match (written.offset, written.seconds(), written.nanos % 1000) {
        (Some(offset), Ok(seconds), 0) => {
            let seconds = in_calendar(seconds - i64::from(offset))
                .map_err(|_| range_error(&value, "the years 1 to 9999 (UTC)"))?;
            Ok(Value::Timestamp(
                seconds * MICROS + i64::from(written.nanos / 1000),
            ))
        }
        _ => Ok(value),
    }
}

/// Converts a local date-time, date or time in ISO format to MySQL's format. A `Z` in it has no meaning.
pub(crate) fn iso<'a>(value: Value<'a>, arena: &'a Bump) -> Value<'a> {
    let Value::Text(text) = value else {
        return value;
    };
    let Some(local) = text.strip_suffix('Z') else {
        return value;
    };
    match local.split_once('T') {
        Some((date, time)) => Value::Text(arena.alloc_str(&format!("{date} {time}"))),
        None => Value::Text(local),
    }
}

/// Converts an integer that wrapped at 2^63 back to unsigned.
pub(crate) fn unsigned<'a>(value: Value<'a>, arena: &'a Bump) -> Result<Value<'a>> {
    match value {
        Value::Number(digits) if digits.starts_with('-') => {
            let number: i64 = digits.parse().map_err(|_| range_error(&value, "64 bits"))?;
            Ok(Value::Number(
                arena.alloc_str(&format!("{}", number as u64)),
            ))
        }
        Value::Scaled(number, 0) if number < 0 => Ok(Value::Number(
            arena.alloc_str(&format!("{}", number as u64)),
        )),
        _ => Ok(value),
    }
}

/// Decodes a decimal from the base64 of its unscaled big-endian integer.
#[allow(
    clippy::indexing_slicing,
    reason = "the length is of bytes in the buffer"
)]
fn unscaled<'a>(
    value: &Value<'_>,
    text: &str,
    scale: i32,
    requested: &DataType,
    arena: &'a Bump,
) -> Result<Value<'a>> {
    if let Some(number) = short_decimal(text, scale, requested) {
        return Ok(Value::Unscaled(number));
    }
    // 256 bits take at most 44 characters.
    let mut buffer = [0; 48];
    let decoded = STANDARD.decode_slice(text, &mut buffer);
    let bytes = match decoded {
        Ok(length) => &buffer[..length],
        Err(DecodeSliceError::OutputSliceTooSmall) => {
            return Err(range_error(value, "a decimal of 256 bits"));
        }
        Err(DecodeSliceError::DecodeError(_)) => return Err(type_error(value, "base64")),
    };
    match decimal_text(bytes, scale) {
        Ok(decimal) => Ok(Value::Number(arena.alloc_str(&decimal))),
        Err(ParseError::Type) => Err(type_error(value, "a decimal")),
        Err(ParseError::Range) => Err(range_error(value, "a decimal of 256 bits")),
    }
}

/// Prints a decimal, given its unscaled big-endian integer.
pub(crate) fn decimal_text(bytes: &[u8], scale: i32) -> Result<String, ParseError> {
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
#[allow(
    clippy::indexing_slicing,
    reason = "the length is of bytes in the buffer"
)]
pub(crate) fn short_decimal(text: &str, scale: i32, requested: &DataType) -> Option<i64> {
    let DataType::Decimal128(precision, requested_scale) = requested else {
        return None;
    };
    let mut buffer = [0; 9];
    let length = STANDARD
        .decode_slice(text, &mut buffer)
        .ok()
        .filter(|length| (1..=8).contains(length))?;
    let number = i64::from_be_bytes(sign_extended(&buffer[..length]));
    (scale == i32::from(*requested_scale) && fits(number, *precision)).then_some(number)
}

/// Sign-extends a big-endian two's complement.
pub(crate) fn sign_extended<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let fill = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
        0xFF
    } else {
        0
    };
    let mut wide = [fill; N];
    wide.iter_mut()
        .rev()
        .zip(bytes.iter().rev())
        .for_each(|(to, from)| *to = *from);
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
            digits.insert_str(sign, &"0".repeat(padding));
            digits.insert(digits.len() - scale, '.');
        }
        _ if (-MAX_SCALE..0).contains(&scale) => digits.push_str(&format!("e{}", -scale)),
        _ => return None,
    }
    Some(digits)
}

/// Decodes `{"scale":2,"value":"..."}`.
fn variable_decimal<'a>(
    value: Value<'a>,
    requested: &DataType,
    arena: &'a Bump,
) -> Result<Value<'a>> {
    let Value::Nested(object) = value else {
        return Ok(value);
    };
    let (mut scale, mut text) = (None, None);
    members(object, |name, member| match (name, member) {
        ("scale", Value::Number(digits)) => scale = digits.parse().ok(),
        ("value", Value::Text(_) | Value::Escaped(_)) => text = member.text().ok(),
        _ => {}
    });
    match (scale, text) {
        (Some(scale), Some(text)) => unscaled(&value, &text, scale, requested, arena),
        _ => Err(type_error(&value, "a struct with scale and value")),
    }
}

/// Decodes a BIT: base64 of little-endian bytes, or the boolean of a `bit(1)`.
fn bits<'a>(value: Value<'a>, column: &Column<'_>, arena: &'a Bump) -> Result<Value<'a>> {
    let as_bytes = column.requests_bytes();
    let width = column
        .declared
        .or(column.configured)
        .filter(|declared| declared.family == TypeFamily::Bit)
        .and_then(DeclaredType::length);
    let mut bytes = match value {
        Value::Bool(_) if width.is_some_and(|width| width != 1) => {
            return Err(type_error(&value, "the bits of a number"));
        }
        Value::Bool(raw)
            if matches!(
                column.requested,
                DataType::Decimal128(..) | DataType::Decimal256(..)
            ) =>
        {
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
    let number = significant
        .iter()
        .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    Ok(Value::Number(arena.alloc_str(&format!("{number}"))))
}

/// Extends big-endian bytes to the length of a `bit(width)`; `None` if they have more bits.
fn fit_bits(bytes: &mut Vec<u8>, width: usize) -> Option<()> {
    let padding = width.div_ceil(8).checked_sub(bytes.len())?;
    bytes.splice(..0, std::iter::repeat_n(0, padding));
    let spare = bytes.len() * 8 - width;
    match bytes.first() {
        Some(first) if (first.leading_zeros() as usize) < spare => None,
        _ => Some(()),
    }
}

fn latin1(value: &Value<'_>) -> Result<Vec<u8>> {
    let text = value.text()?;
    let bytes = text
        .chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect::<Option<Vec<u8>>>();
    bytes.ok_or_else(|| type_error(value, "binary text (characters up to U+00FF)"))
}

/// Decodes `{"wkb":"...","srid":4326}` to MySQL's storage format (SRID and WKB), or to the WKB only.
fn geometry<'a>(value: Value<'a>, wkb_only: bool, arena: &'a Bump) -> Result<Value<'a>> {
    let object = match value {
        Value::Nested(object) => object,
        // The value is already in MySQL's storage format.
        Value::Bytes(stored) => {
            return Ok(Value::Bytes(if wkb_only {
                stored.get(4..).unwrap_or_default()
            } else {
                stored
            }));
        }
        _ => return Err(type_error(&value, "a geometry")),
    };
    let (mut srid, mut wkb) = (Some(0i32), None);
    members(object, |name, member| match (name, member) {
        ("srid", Value::Null) => {}
        ("srid", other) => srid = other.raw().parse().ok(),
        ("wkb", Value::Text(_) | Value::Escaped(_)) => wkb = member.text().ok(),
        _ => {}
    });
    let (Some(srid), Some(wkb)) = (srid, wkb) else {
        return Err(type_error(&value, "a geometry"));
    };
    let wkb = binary_text::base64(&wkb)
        .ok_or_else(|| type_error(&value, "a geometry with base64 in wkb"))?;
    let mut bytes = if wkb_only {
        Vec::new()
    } else {
        srid.to_le_bytes().to_vec()
    };
    bytes.extend_from_slice(&wkb);
    Ok(Value::Bytes(arena.alloc_slice_copy(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::super::column::{MILLIS, NANOS};
    use super::super::modes::{DecimalMode, Modes, TimeMode};
    use super::*;

    fn decoded(value: Value<'static>, encoding: Encoding, requested: &DataType) -> String {
        let arena = Bump::new();
        let declared = DeclaredType::connect("", TypeFamily::Blob, encoding);
        let column = Column {
            declared: Some(&declared),
            configured: None,
            requested,
            modes: Modes::default(),
        };
        match decode(value, &column, &arena) {
            Ok(Value::Bytes(bytes)) => format!("{bytes:02x?}"),
            Ok(value) => value.text().unwrap().into_owned(),
            Err(fault) => fault.into_parts().what,
        }
    }

    #[test]
    fn decimals_of_any_sign_scale_and_length() {
        let decimal =
            |text, scale| decoded(Value::Text(text), Encoding::Decimal(scale), &DataType::Utf8);
        // Python: base64.b64encode((-12345).to_bytes(2, "big", signed=True)) and so on.
        assert_eq!(decimal("z8c=", 2), "-123.45");
        assert_eq!(decimal("AA==", 2), "0.00");
        assert_eq!(decimal("BQ==", 3), "0.005");
        assert_eq!(decimal("+w==", 3), "-0.005");
        assert_eq!(decimal("BQ==", -3), "5e3");
        assert_eq!(decimal("AP//////////", 0), "18446744073709551615");
        assert_eq!(decimal("/Xo=", 0), "-646");
        assert_eq!(
            decimal("//9gsNjZ6GXduv4onb3Ta5pvJu/////////5", 30),
            "-1000000000000000000000000000000.000000000000000000000000000007"
        );
        assert!(decimal("", 0).contains("is not a decimal"));
        assert!(decimal("z8c", 2).contains("is not base64"));
    }

    #[test]
    fn instants_are_in_the_calendar() {
        let zoned = |text| decoded(Value::Text(text), Encoding::Zoned, &DataType::Utf8);
        assert_eq!(zoned("9999-12-31T18:59:59-05:00"), "9999-12-31 23:59:59");
        assert_eq!(zoned("0001-01-01T08:00:00+08:00"), "0001-01-01 00:00:00");
        for text in [
            "9999-12-31T19:00:00-05:00",
            "9999-12-31T23:59:59-05:00",
            "0001-01-01T07:59:59+08:00",
            "0001-01-01T00:00:00+08:00",
        ] {
            assert!(
                zoned(text).contains("does not fit into the years 1 to 9999"),
                "{text}: {}",
                zoned(text)
            );
        }
    }

    #[test]
    fn members_of_geometries_may_be_escaped() {
        let geometry =
            |object| decoded(Value::Nested(object), Encoding::Geometry, &DataType::Binary);
        let usual = geometry(r#"{"wkb":"AQEAAAA=","srid":7}"#);
        assert_eq!(usual, "[01, 01, 00, 00, 00]");
        assert_eq!(
            geometry(r#"{"\u0077kb":"\u0041QEAAAA=","sr\u0069d":7}"#),
            usual
        );
    }

    #[test]
    fn bits_are_little_endian() {
        assert_eq!(
            decoded(Value::Text("/wM="), Encoding::Bits, &DataType::Int32),
            "1023"
        );
        assert_eq!(
            decoded(Value::Text("/wM="), Encoding::Bits, &DataType::Binary),
            "[03, ff]"
        );
        assert_eq!(
            decoded(Value::Bool("true"), Encoding::Bits, &DataType::Binary),
            "[01]"
        );
    }

    #[test]
    fn times_in_every_unit_and_in_iso() {
        let time = |value, encoding| decoded(value, encoding, &DataType::Utf8);
        assert_eq!(
            time(Value::Number("1609459200123"), Encoding::DateTime(MILLIS)),
            "2021-01-01 00:00:00.123"
        );
        assert_eq!(
            time(Value::Number("-1"), Encoding::DateTime(MICROS)),
            "1969-12-31 23:59:59.999999"
        );
        assert_eq!(
            time(Value::Number("1000"), Encoding::DateTime(NANOS)),
            "1970-01-01 00:00:00.000001"
        );
        assert!(time(Value::Number("1"), Encoding::DateTime(NANOS)).contains("does not fit"));
        assert_eq!(
            time(Value::Number("-3020399000000"), Encoding::Time(MICROS)),
            "-838:59:59"
        );
        assert_eq!(time(Value::Number("-1"), Encoding::Days), "1969-12-31");
        assert_eq!(
            time(Value::Text("2021-01-01T08:00:00.5+08:00"), Encoding::Zoned),
            "2021-01-01 00:00:00.500"
        );
        assert_eq!(
            time(Value::Text("2021-01-01T08:00:00Z"), Encoding::Iso),
            "2021-01-01 08:00:00"
        );
        assert_eq!(
            time(Value::Text("2021-01-01Z"), Encoding::Iso),
            "2021-01-01"
        );
    }

    #[test]
    fn ambiguous_values_need_a_setting() {
        let arena = Bump::new();
        let decode_as = |value: Value<'static>, requested: DataType, modes: Modes| {
            let column = Column {
                declared: None,
                configured: None,
                requested: &requested,
                modes,
            };
            decode(value, &column, &arena).map_err(|fault| fault.into_parts().what)
        };
        let none = Modes::default();
        let decimal = DataType::Decimal128(10, 2);
        assert!(
            decode_as(Value::Text("1234"), decimal.clone(), none)
                .is_err_and(|what| what.contains("decimal_handling_mode"))
        );
        assert_eq!(
            decode_as(Value::Text("12.34"), decimal.clone(), none),
            Ok(Value::Text("12.34"))
        );
        assert_eq!(
            decode_as(Value::Text("BNI="), decimal.clone(), none),
            Ok(Value::Unscaled(1234))
        );
        assert_eq!(
            decode_as(
                Value::Text("1234"),
                decimal,
                Modes {
                    decimal: Some(DecimalMode::String),
                    ..none
                }
            ),
            Ok(Value::Text("1234"))
        );
        let binary = DataType::Binary;
        assert!(
            decode_as(Value::Text("abcd"), binary.clone(), none)
                .is_err_and(|what| what.contains("binary_handling_mode"))
        );
        assert_eq!(
            decode_as(Value::Text("ab"), binary.clone(), none),
            Ok(Value::Bytes(&[0xab]))
        );
        assert!(
            decode_as(Value::Text("q80="), binary.clone(), none)
                .is_err_and(|what| what.contains("column_types"))
        );
        assert_eq!(
            decode_as(Value::Text("q82r"), binary, none),
            Ok(Value::Bytes(&[0xab, 0xcd, 0xab]))
        );
        let date_time = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None);
        assert!(
            decode_as(Value::Number("1609459200123"), date_time.clone(), none)
                .is_err_and(|what| what.contains("time_precision_mode"))
        );
        let connect = Modes {
            time: Some(TimeMode::Connect),
            ..none
        };
        assert_eq!(
            decode_as(Value::Number("1609459200123"), date_time, connect),
            Ok(Value::DateTime(1_609_459_200_123_000))
        );
    }
}
