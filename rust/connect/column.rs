//! Encoding of a column's values. The message declares it, or it follows from the user's settings and the requested
//! type.

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::modes::{DecimalMode, Modes, TimeMode, UnsignedMode};
use crate::error::{Fault, Kind, Result, excerpt};
use crate::mysql::number::decimal;
use crate::mysql::types::{DeclaredType, Encoding, TypeFamily};
use crate::value::Value;
use crate::wire::binary_text::{self, BinaryText};
use crate::wire::json::Cursor;

/// Units of times, in ticks per second.
pub(super) const MILLIS: i64 = 1000;
pub(super) const MICROS: i64 = 1_000_000;
pub(super) const NANOS: i64 = 1_000_000_000;

/// Type information of a column in Connect's encoding.
pub(crate) struct Column<'c> {
    /// Type in the message's schema part.
    pub declared: Option<&'c DeclaredType>,
    /// Type in the option `column_types`, for messages without a schema part.
    pub configured: Option<&'c DeclaredType>,
    pub requested: &'c DataType,
    pub modes: Modes,
}

impl Column<'_> {
    /// Returns whether every value is written in MySQL's text format.
    #[inline]
    pub fn is_plain(&self) -> bool {
        match (self.declared, self.configured) {
            (_, Some(_)) => false,
            (Some(declared), None) => {
                let is_text = declared.family != TypeFamily::Unknown || !self.requests_bytes();
                declared.encoding == Encoding::Plain
                    && is_text
                    && !self.is_wrapped_integer(declared)
            }
            (None, None) => matches!(
                self.requested,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Boolean
            ),
        }
    }

    /// Returns the encoding of a value. The user's settings take precedence over the schema part, except for the unit
    /// or scale of the user's own type, which only the schema part has.
    pub fn encoding(&self, value: &Value<'_>) -> Result<Encoding> {
        match (self.declared, self.configured) {
            (Some(declared), Some(configured))
                if declared.encoding != Encoding::Plain && is_same_kind(declared, configured) =>
            {
                Ok(self.in_modes(declared.encoding))
            }
            // A string may be bytes in the connector's mode, or characters of the charset `binary`.
            (Some(declared), Some(configured))
                if declared.family == TypeFamily::Unknown
                    && configured.is_bytes()
                    && self.requests_bytes() =>
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

    /// Returns a declared encoding, changed by the connector's settings if the user gives them.
    fn in_modes(&self, encoding: Encoding) -> Encoding {
        match encoding {
            Encoding::DateTime(unit) => Encoding::DateTime(self.fixed_unit().unwrap_or(unit)),
            Encoding::Time(unit) => Encoding::Time(self.fixed_unit().unwrap_or(unit)),
            // If decimals are text, only a `bigint unsigned` may be base64.
            Encoding::Decimal(scale)
                if self.decimals_precise() == Some(false)
                    && (scale != 0 || self.modes.unsigned != Some(UnsignedMode::Precise)) =>
            {
                Encoding::Plain
            }
            Encoding::Base64 if self.modes.binary == Some(BinaryText::Hex) => Encoding::Hex,
            other => other,
        }
    }

    /// Returns whether an `int64` of the schema part is a `bigint unsigned` by the user's setting. TiCDC's schema part
    /// does not tell.
    fn is_wrapped_integer(&self, declared: &DeclaredType) -> bool {
        let is_requested = matches!(
            self.requested,
            DataType::Decimal128(20, 0) | DataType::UInt64
        );
        let is_integer =
            declared.family == TypeFamily::Bigint && declared.encoding == Encoding::Plain;
        is_integer && is_requested && self.modes.unsigned == Some(UnsignedMode::Long)
    }

    pub(super) fn requests_bytes(&self) -> bool {
        matches!(self.requested, DataType::Binary | DataType::LargeBinary)
    }

    pub(super) fn requests_text(&self) -> bool {
        matches!(self.requested, DataType::Utf8 | DataType::LargeUtf8)
    }

    /// Returns the encoding of a column of the configured type.
    fn encoding_of_configured(
        &self,
        configured: &DeclaredType,
        value: &Value<'_>,
    ) -> Result<Encoding> {
        let has_micros = configured
            .arguments
            .first()
            .is_some_and(|digits| *digits > 3);
        match configured.family {
            TypeFamily::Date => Ok(Encoding::Days),
            TypeFamily::Datetime
                if self.modes.time.is_some() || !matches!(value, Value::Number(_)) =>
            {
                let adaptive = if has_micros { MICROS } else { MILLIS };
                Ok(Encoding::DateTime(self.fixed_unit().unwrap_or(adaptive)))
            }
            TypeFamily::Datetime => self.date_time(value),
            TypeFamily::Timestamp => Ok(Encoding::Zoned),
            TypeFamily::Time if self.modes.time == Some(TimeMode::Adaptive) => {
                Ok(Encoding::Time(if has_micros { MICROS } else { MILLIS }))
            }
            TypeFamily::Time => self.time(value),
            TypeFamily::Decimal => digits_or_base64(
                value,
                configured.arguments.get(1).map_or(0, |scale| *scale as i32),
                self.decimals_precise(),
            ),
            TypeFamily::Bigint if configured.unsigned => match value {
                Value::Number(_) => Ok(Encoding::Unsigned),
                other => digits_or_base64(other, 0, self.unsigned_precise()),
            },
            TypeFamily::Bit => Ok(Encoding::Bits),
            TypeFamily::Binary | TypeFamily::Blob => self.binary(value),
            // The connector treats it as text.
            TypeFamily::Text
                if self.requests_bytes()
                    && configured
                        .text
                        .to_lowercase()
                        .contains("character set binary") =>
            {
                Ok(Encoding::Latin1)
            }
            TypeFamily::Geometry => Ok(Encoding::Geometry),
            _ => Ok(Encoding::Plain),
        }
    }

    /// Returns the encoding of a column of which only the requested type is known.
    fn encoding_of_requested(&self, value: &Value<'_>) -> Result<Encoding> {
        match self.requested {
            DataType::Date32 => Ok(Encoding::Days),
            // Text is an instant with a zone, unless the setting writes local date-times as text too.
            DataType::Timestamp(_, zone)
                if !is_number(value)
                    && (zone.is_some() || self.modes.time != Some(TimeMode::IsoString)) =>
            {
                Ok(Encoding::Zoned)
            }
            DataType::Timestamp(_, _) => self.date_time(value),
            DataType::Duration(_) | DataType::Time64(_) => self.time(value),
            // Users request these types for a `bigint unsigned`, and rarely for other columns.
            DataType::Decimal128(20, 0) | DataType::UInt64
                if self.modes.unsigned == Some(UnsignedMode::Long) && is_number(value) =>
            {
                Ok(Encoding::Unsigned)
            }
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) if *scale != 0 => {
                digits_or_base64(value, i32::from(*scale), self.decimals_precise())
            }
            DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::UInt64 => {
                let precise = self.integers_precise();
                not_bits(
                    value,
                    digits_or_base64(value, 0, precise)?,
                    precise == Some(true),
                )
            }
            // No setting determines the encoding of bits.
            requested if requested.is_integer() => not_bits(
                value,
                digits_or_base64(value, 0, self.integers_precise())?,
                false,
            ),
            DataType::Struct(_) if matches!(value, Value::Nested(_)) => Ok(if is_geometry(value) {
                Encoding::Geometry
            } else {
                Encoding::Plain
            }),
            DataType::Binary | DataType::LargeBinary if is_geometry(value) => {
                Ok(Encoding::Geometry)
            }
            DataType::Binary | DataType::LargeBinary => match self.binary(value)? {
                Encoding::Base64 if may_be_bits(value) => Err(ambiguous(
                    value,
                    "bytes or the bits of a number",
                    "declare the column in column_types, or send the schema part",
                )),
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
        /// The last millisecond of the year 9999. Greater numbers must have a finer unit.
        const LAST_MILLI: u64 = 253_402_300_799_999;
        let is_fine = value
            .raw()
            .parse::<i64>()
            .is_ok_and(|number| number.unsigned_abs() > LAST_MILLI);
        self.epoch(
            value,
            Encoding::DateTime,
            is_fine && self.modes.time.is_some(),
        )
    }

    fn time(&self, value: &Value<'_>) -> Result<Encoding> {
        self.epoch(
            value,
            Encoding::Time,
            self.modes.time == Some(TimeMode::AdaptiveTimeMicroseconds),
        )
    }

    /// Returns the encoding of a number or of ISO text. A number is in the setting's unit, or in microseconds if no
    /// other unit is possible.
    fn epoch(
        &self,
        value: &Value<'_>,
        encoding: fn(i64) -> Encoding,
        is_micros: bool,
    ) -> Result<Encoding> {
        let Value::Number(_) = value else {
            return Ok(Encoding::Iso);
        };
        let setting =
            "set time_precision_mode, declare the column in column_types, or send the schema part";
        let unit = self.fixed_unit().or(is_micros.then_some(MICROS));
        unit.map(encoding)
            .ok_or_else(|| ambiguous(value, "milliseconds or microseconds", setting))
    }

    /// Returns whether decimals are base64, if configured.
    fn decimals_precise(&self) -> Option<bool> {
        self.modes.decimal.map(|mode| mode == DecimalMode::Precise)
    }

    /// Returns whether a `bigint unsigned` is base64, if configured.
    fn unsigned_precise(&self) -> Option<bool> {
        self.modes
            .unsigned
            .map(|mode| mode == UnsignedMode::Precise)
    }

    /// Returns whether text without a fraction is base64, if the answer is the same for a decimal and a `bigint
    /// unsigned`. In mode `long`, only decimals are text.
    fn integers_precise(&self) -> Option<bool> {
        match (self.decimals_precise(), self.unsigned_precise()) {
            (Some(false), None | Some(true)) => None,
            (decimals, _) => decimals,
        }
    }

    fn binary(&self, value: &Value<'_>) -> Result<Encoding> {
        let Value::Text(text) = value else {
            return Ok(Encoding::Bits);
        };
        match (self.modes.binary, is_base64(text), is_hexadecimal(text)) {
            (Some(BinaryText::Hex), ..) | (None, false, true) => Ok(Encoding::Hex),
            (None, true, true) if !text.is_empty() => Err(ambiguous(
                value,
                "base64 or hexadecimal",
                "set binary_handling_mode, or send the schema part",
            )),
            _ => Ok(Encoding::Base64),
        }
    }

    /// Returns the encoding of a value that the schema part declares as a string and the user requests as bytes. It is
    /// binary in the configured mode, or a `varchar` with charset `binary`, which the connector writes as Latin-1 text.
    /// Text that is invalid in the mode is Latin-1.
    fn binary_in_text(&self, value: &Value<'_>) -> Result<Encoding> {
        let Value::Text(text) = value else {
            return Ok(Encoding::Bits);
        };
        match (self.modes.binary, is_base64(text), is_hexadecimal(text)) {
            (Some(BinaryText::Hex), _, true) => Ok(Encoding::Hex),
            (Some(BinaryText::Base64 | BinaryText::Base64UrlSafe), true, _) => Ok(Encoding::Base64),
            (None, is_base64, is_hex) if (is_base64 || is_hex) && !text.is_empty() => Err(
                ambiguous(value, "text, base64 or hex", "set binary_handling_mode"),
            ),
            _ => Ok(Encoding::Plain),
        }
    }
}

/// Returns whether both types have values of the same kind.
fn is_same_kind(a: &DeclaredType, b: &DeclaredType) -> bool {
    let [a, b] = [a, b].map(|declared| match declared.family {
        TypeFamily::Timestamp => TypeFamily::Datetime,
        TypeFamily::Binary => TypeFamily::Blob,
        // The connector can write a `bigint unsigned` as a decimal.
        TypeFamily::Bigint => TypeFamily::Decimal,
        family => family,
    });
    a == b
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Number(_) | Value::Scaled(..))
}

/// Returns the encoding of a decimal's or integer's text: digits, or base64.
fn digits_or_base64(value: &Value<'_>, scale: i32, precise: Option<bool>) -> Result<Encoding> {
    let Value::Text(text) = value else {
        return Ok(Encoding::Plain);
    };
    match precise {
        Some(true) => return Ok(Encoding::Decimal(scale)),
        Some(false) => return Ok(Encoding::Plain),
        None => {}
    }
    match (is_base64(text), decimal::<i256>(text, 76, 38).is_ok()) {
        (true, false) => Ok(Encoding::Decimal(scale)),
        (true, true) => Err(ambiguous(
            value,
            "digits or base64",
            "set decimal_handling_mode, or bigint_unsigned_handling_mode and column_types, or send the schema part",
        )),
        _ => Ok(Encoding::Plain),
    }
}

/// Refuses base64 of a number that may be a `bit(n)` too. As bits, it is a different number: its bytes are unsigned and
/// in reverse order.
fn not_bits(value: &Value<'_>, encoding: Encoding, is_known: bool) -> Result<Encoding> {
    if encoding != Encoding::Decimal(0) || is_known {
        return Ok(encoding);
    }
    match bits(value) {
        Some(bytes) if matches!(*bytes, [0x80..=0xFF, ..]) || !is_palindrome(&bytes) => {}
        _ => return Ok(encoding),
    }
    let setting = "declare the column in column_types, send the schema part, or set decimal_handling_mode for a decimal(20,0)";
    Err(ambiguous(
        value,
        "a decimal or the bits of a number",
        setting,
    ))
}

fn is_base64(text: &str) -> bool {
    binary_text::base64(text).is_some()
}

fn is_hexadecimal(text: &str) -> bool {
    binary_text::hexadecimal(text).is_some()
}

/// Returns whether base64 of bytes may also encode a `bit(n)`, which has the reverse byte order.
fn may_be_bits(value: &Value<'_>) -> bool {
    bits(value).is_some_and(|bytes| !is_palindrome(&bytes))
}

/// Returns the bytes of a base64 text, if a `bit(n)` can have their number.
fn bits(value: &Value<'_>) -> Option<Vec<u8>> {
    binary_text::base64(value.raw()).filter(|bytes| bytes.len() <= 8)
}

fn is_palindrome(bytes: &[u8]) -> bool {
    bytes.iter().eq(bytes.iter().rev())
}

fn is_geometry(value: &Value<'_>) -> bool {
    let Value::Nested(object) = value else {
        return false;
    };
    let mut found = false;
    members(object, |name, _| found |= name == "wkb");
    found
}

#[cold]
fn ambiguous(value: &Value<'_>, candidates: &str, setting: &str) -> Fault {
    Fault::new(
        Kind::Type,
        format!(
            "{} is ambiguous ({candidates}): {setting}",
            excerpt(value.raw())
        ),
    )
}

/// Calls `found` with the members of an object. The object was validated when the message was read.
pub(super) fn members<'a>(object: &'a str, mut found: impl FnMut(&str, Value<'a>)) {
    let mut cursor = Cursor::new(object, true);
    let Ok(mut members) = cursor.object() else {
        return;
    };
    while let Ok(Some(name)) = cursor.next_key(&mut members) {
        let Ok(value) = cursor.value() else { return };
        found(&name.unescaped(), value);
    }
}
