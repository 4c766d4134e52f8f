//! Integers and floats.

use std::str::FromStr;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int64Type};

use super::primitive::{Convert, primitives};
use super::{Column, Context, ValueOptions, refused, scalar, spell};
use crate::error::Result;
use crate::mysql::number::{Refusal, Window, float, integer, integer_prefix, short_integer};
use crate::mysql::temporal::time_of;
use crate::mysql::types::{DeclaredType, TypeFamily};
use crate::value::Value;

/// A column of integers of any width.
pub(super) fn integers<T>(options: &ValueOptions) -> Box<dyn Column>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128> + TryFrom<i64>,
{
    primitives::<T, _>(T::DATA_TYPE, Integers { labels: options.labels.clone() })
}

struct Integers {
    labels: Arc<[String]>,
}

fn is_list(context: &Context<'_>) -> bool {
    context.declared().is_some_and(|declared| matches!(declared.family, TypeFamily::Enum | TypeFamily::Set))
}

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

    fn convert(&self, value: &Value<'_>, context: &Context<'_>) -> Result<Option<T::Native>> {
        let is_label = context.is_label(value) && is_list(context);
        let written = if is_label { Err(Refusal::Type) } else { scalar(value, narrowed::<T::Native>)? };
        let parsed = match written {
            Err(Refusal::Type) => match stands_for(value, context.declared(), &self.labels, T::DATA_TYPE == Int64Type::DATA_TYPE) {
                Some(integer) => T::Native::try_from(integer).map_err(|_| Refusal::Range),
                None => Err(Refusal::Type),
            },
            other => other,
        };
        parsed.map(Some).map_err(|refusal| refused(value, refusal, &spell(&T::DATA_TYPE)))
    }

    fn reads(&self, context: &Context<'_>) -> bool {
        !is_list(context)
    }
}

#[inline(always)]
fn narrowed<N: TryFrom<i128> + TryFrom<i64>>(text: &str) -> Result<N, Refusal> {
    let narrowed = match short_integer(text) {
        Some(short) => N::try_from(short).ok(),
        None => N::try_from(integer(text)?).ok(),
    };
    narrowed.ok_or(Refusal::Range)
}

/// What is not written as an integer but stands for one: a boolean, a label, a TIME in microseconds.
#[cold]
fn stands_for(value: &Value<'_>, declared: Option<&DeclaredType>, named: &[String], holds_micros: bool) -> Option<i128> {
    if let Value::Bool(raw) = value {
        return Some(i128::from(*raw == "true"));
    }
    let text = value.text().ok()?;
    match declared.map(|declared| declared.family) {
        Some(TypeFamily::Enum) => ordinal(&text, labels(declared, named)).map(|n| n as i128),
        Some(TypeFamily::Set) => mask(&text, labels(declared, named)),
        Some(TypeFamily::Time) | None if holds_micros => time_of(&text).ok().map(i128::from),
        _ => None,
    }
}

/// The members that the message declares, else those that the user named.
pub(super) fn labels<'l>(declared: Option<&'l DeclaredType>, named: &'l [String]) -> &'l [String] {
    declared.map(|declared| &*declared.labels).filter(|labels| !labels.is_empty()).unwrap_or(named)
}

fn ordinal(label: &str, labels: &[String]) -> Option<usize> {
    if label.is_empty() {
        return Some(0);
    }
    labels.iter().position(|member| member == label).map(|at| at + 1)
}

fn mask(text: &str, labels: &[String]) -> Option<i128> {
    let members = text.split(',').filter(|member| !member.is_empty());
    members.map(|member| ordinal(member, labels)).try_fold(0, |mask, at| Some(mask | 1i128.checked_shl(u32::try_from(at? - 1).ok()?)?))
}

/// A column of floats or doubles: the nearest to the text.
pub(super) fn floats<T>() -> Box<dyn Column>
where
    T: ArrowPrimitiveType,
    T::Native: FromStr + Into<f64> + Nearest,
{
    primitives::<T, _>(T::DATA_TYPE, Floats)
}

struct Floats;

impl<T> Convert<T> for Floats
where
    T: ArrowPrimitiveType,
    T::Native: FromStr + Into<f64> + Nearest,
{
    const IS_NUMBER: bool = true;

    fn prefix(&self, window: &Window) -> Option<(T::Native, usize)> {
        let length = window.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'))?;
        let written = std::str::from_utf8(window.get(..length)?).ok()?;
        // A point without digits behind it is none of JSON's numbers, which `float` does not mind.
        if written.contains(".e") || written.contains(".E") {
            return None;
        }
        float(written).ok().map(|value| (value, length))
    }

    fn convert(&self, value: &Value<'_>, _: &Context<'_>) -> Result<Option<T::Native>> {
        let parsed = match value {
            Value::Single(single) => nearest(f64::from(*single)),
            Value::Double(double) => nearest(*double),
            written => scalar(written, float::<T::Native>)?,
        };
        parsed.map(Some).map_err(|refusal| refused(value, refusal, &spell(&T::DATA_TYPE)))
    }
}

/// A number that is the nearest of its kind to any double.
pub(super) trait Nearest {
    fn nearest(double: f64) -> Self;
}

impl Nearest for f32 {
    fn nearest(double: f64) -> Self {
        double as f32
    }
}

impl Nearest for f64 {
    fn nearest(double: f64) -> Self {
        double
    }
}

fn nearest<N: Nearest + Into<f64> + Copy>(double: f64) -> Result<N, Refusal> {
    let value = N::nearest(double);
    if value.into().is_finite() { Ok(value) } else { Err(Refusal::Range) }
}
