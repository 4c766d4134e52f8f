//! Values of row images: the output of every dialect and the input of every column.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::error::{Fault, Kind, Result};
use crate::mysql::short_text::ShortText;
use crate::mysql::{number, temporal};
use crate::wire::escape;
use crate::wire::utf8::utf8;

/// One value of a row image, as its message encodes it.
///
/// The tag is as wide as a pointer, so that a copy moves whole words. A narrow tag with padding stalled every copy on
/// the bytes just written, which took a third of the time of reading rows.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u64)]
pub(crate) enum Value<'a> {
    /// The image does not carry the column.
    Missing,
    /// SQL NULL.
    Null,
    /// `true` or `false`.
    Bool(&'a str),
    /// A JSON number's characters.
    Number(&'a str),
    /// A string without escapes.
    Text(&'a str),
    /// A string without escapes, as bytes that are valid UTF-8. Most of them become numbers, which need no `&str`.
    Plain(&'a [u8]),
    /// A string without escapes, with the bytes around it.
    Short(ShortText<'a>),
    /// A number's characters, as bytes.
    Digits(&'a [u8]),
    /// The raw characters of a JSON string with escapes.
    Escaped(&'a str),
    /// A JSON object or array.
    Nested(&'a str),
    /// Decoded bytes (Avro, or base64 in JSON).
    Bytes(&'a [u8]),
    /// A DATE: days since 1970.
    Date(i32),
    /// A DATETIME, which has no zone: microseconds since 1970-01-01 00:00:00.
    DateTime(i64),
    /// A TIMESTAMP: microseconds since 1970 in UTC.
    Timestamp(i64),
    /// Text of a TIMESTAMP in the time zone that the message names.
    Zoned(&'a ZonedText<'a>),
    /// A TIME: microseconds.
    Time(i64),
    /// The unscaled integer of a DECIMAL, at the column's scale and within its precision.
    Unscaled(i64),
    /// An exact number: its unscaled integer, and its number of fraction digits, which is 0 for an integer.
    Scaled(i64, u32),
    /// A FLOAT.
    Single(f32),
    /// A DOUBLE.
    Double(f64),
    /// A value that its dialect could not decode; the rest of the row is fine.
    Unread(&'a Unread<'a>),
}

/// Text of a local date-time with the name of its time zone.
#[derive(Debug, PartialEq)]
pub(crate) struct ZonedText<'a> {
    pub text: &'a str,
    pub zone: &'a str,
}

/// Reason why a value could not be decoded: an error of its column only.
#[derive(Debug, PartialEq)]
pub(crate) struct Unread<'a> {
    pub kind: Kind,
    pub why: &'a str,
    /// The raw bytes of the value.
    pub bytes: &'a [u8],
}

impl Unread<'_> {
    #[cold]
    pub fn fault(&self) -> Fault {
        Fault::new(self.kind, self.why)
    }
}

/// Returns bytes as text. Their UTF-8 was checked when the value was read.
fn checked(bytes: &[u8]) -> &str {
    let text = utf8(bytes);
    debug_assert!(text.is_some());
    text.unwrap_or_default()
}

impl<'a> Value<'a> {
    /// Returns the raw characters in the message; empty for a value that is not written as text.
    pub fn raw(&self) -> &'a str {
        match *self {
            Value::Null => "null",
            Value::Bool(raw)
            | Value::Number(raw)
            | Value::Text(raw)
            | Value::Escaped(raw)
            | Value::Nested(raw) => raw,
            Value::Plain(bytes) | Value::Digits(bytes) => checked(bytes),
            Value::Short(text) => checked(text.bytes()),
            Value::Zoned(zoned) => zoned.text,
            _ => "",
        }
    }

    /// Returns the raw bytes; empty if the value has none. They are part of the message, unless the value was decoded
    /// from it.
    pub fn bytes(&self) -> &'a [u8] {
        match *self {
            Value::Bytes(bytes) | Value::Plain(bytes) | Value::Digits(bytes) => bytes,
            Value::Short(text) => text.bytes(),
            Value::Unread(unread) => unread.bytes,
            other => other.raw().as_bytes(),
        }
    }

    /// Returns the value as text: escapes decoded, numbers with all digits, JSON raw, bytes in base64, dates and times
    /// in MySQL's format.
    pub fn text(&self) -> Result<Cow<'a, str>> {
        Ok(match *self {
            Value::Escaped(raw) => return escape::unescaped(raw).map(Cow::Owned),
            Value::Bytes(bytes) => BASE64.encode(bytes).into(),
            Value::Date(days) => temporal::print_date(days).into(),
            Value::DateTime(micros) | Value::Timestamp(micros) => {
                temporal::print_datetime(micros).into()
            }
            Value::Time(micros) => temporal::print_time(micros).into(),
            Value::Unscaled(number) => number.to_string().into(),
            Value::Scaled(number, scale) => number::print_scaled(number, scale).into(),
            Value::Single(single) => number::print_float(single).into(),
            Value::Double(double) => number::print_float(double).into(),
            Value::Unread(unread) => return Err(unread.fault()),
            other => Cow::Borrowed(other.raw()),
        })
    }

    /// Returns the characters of a number, or of text without escapes.
    #[inline]
    pub fn plain(&self) -> Option<&'a [u8]> {
        match *self {
            Value::Text(text) | Value::Number(text) => Some(text.as_bytes()),
            Value::Plain(text) | Value::Digits(text) => Some(text),
            Value::Short(text) => Some(text.bytes()),
            _ => None,
        }
    }

    /// Returns the value with its characters as a `&str`.
    pub fn as_text(&self) -> Value<'a> {
        match *self {
            Value::Plain(_) | Value::Short(_) => Value::Text(self.raw()),
            Value::Digits(_) => Value::Number(self.raw()),
            other => other,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Missing | Value::Null)
    }

    /// Returns whether the message writes the value as text.
    fn is_written(&self) -> bool {
        matches!(
            self,
            Value::Missing | Value::Null | Value::Bool(_) | Value::Escaped(_) | Value::Nested(_)
        ) || self.plain().is_some()
    }

    /// Returns whether both values are the same text. Null equals only null.
    pub fn same(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (a, b) if a.is_null() || b.is_null() => a.is_null() && b.is_null(),
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Plain(a), Value::Plain(b)) | (Value::Digits(a), Value::Digits(b)) => a == b,
            (Value::Short(a), Value::Short(b)) => a == b,
            (a, b) if a == b => true,
            (a, b) if !a.is_written() || !b.is_written() => false,
            (a, b) if a.raw() == b.raw() => true,
            (Value::Escaped(_), _) | (_, Value::Escaped(_)) => {
                matches!((self.text(), other.text()), (Ok(a), Ok(b)) if a == b)
            }
            _ => false,
        }
    }
}
