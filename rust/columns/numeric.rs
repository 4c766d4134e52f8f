//! Builders of integer and float columns.

use std::str::FromStr;

use arrow_array::types::{ArrowPrimitiveType, Int64Type};

use super::primitive::{Convert, primitives};
use super::{ColumnBuilder, Context, conversion_fault, is_text, scalar, spell};
use crate::error::Result;
use crate::mysql::number::{
    Around, ParseError, Window, float, integer, integer_prefix, short_integer, usual_integer,
    usual_whole_integer,
};
use crate::mysql::temporal::parse_time;
use crate::mysql::types::TypeFamily;
use crate::value::Value;

/// Creates a builder of integers of any width.
pub(super) fn integers<T>() -> Box<dyn ColumnBuilder>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128> + TryFrom<i64>,
{
    primitives::<T, _>(T::DATA_TYPE, Integers)
}

struct Integers;

impl<T> Convert<T> for Integers
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128> + TryFrom<i64>,
{
    const IS_NUMBER: bool = true;

    #[inline(always)]
    fn prefix(&self, window: &Window) -> Option<(T::Native, usize)> {
        let (value, length) = integer_prefix(window)?;
        Some((T::Native::try_from(value).ok()?, length))
    }

    #[inline(always)]
    fn usual_prefix(&self, around: &Around) -> Option<(T::Native, usize)> {
        let (value, length) = usual_integer(around)?;
        Some((T::Native::try_from(value).ok()?, length))
    }

    #[inline(always)]
    fn usual(&self, text: &[u8]) -> Option<T::Native> {
        T::Native::try_from(usual_whole_integer(text)?).ok()
    }

    fn convert(&self, value: &Value<'_>, context: &Context) -> Result<Option<T::Native>> {
        let is_label = is_text(value) && context.is_enum_or_set() && context.is_label(value);
        let parsed = match value {
            _ if is_label => Err(ParseError::Type),
            Value::Scaled(number, 0) => T::Native::try_from(*number).map_err(|_| ParseError::Range),
            value => scalar(value, parse_integer::<T::Native>)?,
        };
        let parsed = match parsed {
            Err(ParseError::Type) => {
                match coerce(value, context, T::DATA_TYPE == Int64Type::DATA_TYPE) {
                    Some(integer) => T::Native::try_from(integer).map_err(|_| ParseError::Range),
                    None => Err(ParseError::Type),
                }
            }
            other => other,
        };
        parsed
            .map(Some)
            .map_err(|error| conversion_fault(value, error, &spell(&T::DATA_TYPE)))
    }
}

#[inline(always)]
fn parse_integer<N: TryFrom<i128> + TryFrom<i64>>(text: &str) -> Result<N, ParseError> {
    let narrowed = match short_integer(text.as_bytes()) {
        Some(short) => N::try_from(short).ok(),
        None => N::try_from(integer(text)?).ok(),
    };
    narrowed.ok_or(ParseError::Range)
}

/// Converts a value that represents an integer but is not written as one: a boolean, a label, a TIME in microseconds.
#[cold]
fn coerce(value: &Value<'_>, context: &Context, holds_micros: bool) -> Option<i128> {
    if let Value::Bool(raw) = value {
        return Some(i128::from(*raw == "true"));
    }
    match context.declared().map(|declared| declared.family) {
        Some(TypeFamily::Time) | None if holds_micros => {
            parse_time(&value.text().ok()?).ok().map(i128::from)
        }
        _ => label_number(value, context),
    }
}

/// Returns the index of an enum's label, or the bit mask of a set's labels.
#[cold]
pub(super) fn label_number(value: &Value<'_>, context: &Context) -> Option<i128> {
    let text = value.text().ok()?;
    match context.declared()?.family {
        TypeFamily::Enum => enum_index(&text, context.labels()).map(|n| n as i128),
        TypeFamily::Set => set_mask(&text, context.labels()),
        _ => None,
    }
}

fn enum_index(label: &str, labels: &[String]) -> Option<usize> {
    if label.is_empty() {
        return Some(0);
    }
    let at = labels.iter().position(|member| member == label);
    // Debezium before 3.7 escapes a comma in the value too.
    at.or_else(|| {
        labels
            .iter()
            .position(|member| *member == label.replace("\\,", ","))
    })
    .map(|at| at + 1)
}

fn set_mask(text: &str, labels: &[String]) -> Option<i128> {
    let members = text.split(',').filter(|member| !member.is_empty());
    members
        .map(|member| enum_index(member, labels))
        .try_fold(0, |mask, at| {
            Some(mask | 1i128.checked_shl(u32::try_from(at? - 1).ok()?)?)
        })
}

/// Creates a builder of floats or doubles, rounded to the nearest.
pub(super) fn floats<T>() -> Box<dyn ColumnBuilder>
where
    T: ArrowPrimitiveType,
    T::Native: FromStr + Into<f64> + FromDouble,
{
    primitives::<T, _>(T::DATA_TYPE, Floats)
}

struct Floats;

impl<T> Convert<T> for Floats
where
    T: ArrowPrimitiveType,
    T::Native: FromStr + Into<f64> + FromDouble,
{
    const IS_NUMBER: bool = true;

    fn prefix(&self, window: &Window) -> Option<(T::Native, usize)> {
        let length = window
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'))?;
        let text = std::str::from_utf8(window.get(..length)?).ok()?;
        // `float` accepts a decimal point without digits after it, JSON does not.
        if text.contains(".e") || text.contains(".E") {
            return None;
        }
        float(text).ok().map(|value| (value, length))
    }

    fn convert(&self, value: &Value<'_>, _: &Context) -> Result<Option<T::Native>> {
        let parsed = match value {
            Value::Single(single) => nearest(f64::from(*single)),
            Value::Double(double) => nearest(*double),
            text => scalar(text, float::<T::Native>)?,
        };
        parsed
            .map(Some)
            .map_err(|error| conversion_fault(value, error, &spell(&T::DATA_TYPE)))
    }
}

/// Conversion from a double, rounded to the nearest.
pub(super) trait FromDouble {
    fn from_double(double: f64) -> Self;
}

impl FromDouble for f32 {
    fn from_double(double: f64) -> Self {
        double as f32
    }
}

impl FromDouble for f64 {
    fn from_double(double: f64) -> Self {
        double
    }
}

fn nearest<N: FromDouble + Into<f64> + Copy>(double: f64) -> Result<N, ParseError> {
    let value = N::from_double(double);
    if value.into().is_finite() {
        Ok(value)
    } else {
        Err(ParseError::Range)
    }
}
