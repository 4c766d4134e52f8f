//! Builder of string columns.

use std::borrow::Cow;
use std::marker::PhantomData;

use arrow_array::OffsetSizeTrait;
use arrow_array::types::GenericStringType;

use super::binary::stored_bytes;
use super::bytes::Bytes;
use super::nested::elements;
use super::variable::{ConvertBytes, variable};
use super::{ColumnBuilder, Context, ValueOptions, ZeroDate};
use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::ValueFormat;
use crate::mysql::number::{integer, without_exponent};
use crate::mysql::temporal::DateTimeText;
use crate::mysql::types::{DeclaredType, TypeFamily};
use crate::value::Value;
use crate::wire::json::Cursor;

/// Creates a builder of texts.
pub(super) fn texts<O: OffsetSizeTrait>(options: &ValueOptions) -> Box<dyn ColumnBuilder> {
    variable(Texts::<O> {
        zero_date: options.zero_date,
        offset: PhantomData,
    })
}

struct Texts<O> {
    zero_date: ZeroDate,
    offset: PhantomData<O>,
}

/// Appends a text.
#[inline]
fn push_text<O: OffsetSizeTrait>(to: &mut Bytes<O>, text: &str) -> Result<bool> {
    to.push(text.as_bytes()).map(|()| true)
}

impl<O: OffsetSizeTrait> Texts<O> {
    /// Appends a value whose declared type requires conversion.
    fn append_declared(
        &self,
        to: &mut Bytes<O>,
        value: &Value<'_>,
        declared: &DeclaredType,
        context: &Context,
    ) -> Result<bool> {
        let text = value.text()?;
        match declared.family {
            TypeFamily::Enum | TypeFamily::Set if context.is_label(value) => push_text(to, &text),
            TypeFamily::Set if matches!(value, Value::Nested(_)) => {
                push_text(to, &join_members(&text)?)
            }
            TypeFamily::Enum => push_text(to, &enum_label(&text, context.labels())?),
            TypeFamily::Set => push_text(to, &set_labels(&text, context.labels())?),
            TypeFamily::Binary | TypeFamily::Blob => {
                let mut bytes = Vec::new();
                stored_bytes(value, context, &mut bytes)?;
                let text = String::from_utf8(bytes).map_err(|_| not_utf8(&text))?;
                push_text(to, &text)
            }
            // A JSON string without its quotes.
            TypeFamily::Json => push_text(to, &format!("\"{}\"", value.raw())),
            _ => self.append_date(to, &text),
        }
    }

    /// Appends a value of an enum or a set, if the message does not declare which. A number is ambiguous only if it
    /// stands for different members in both.
    fn append_undeclared(to: &mut Bytes<O>, value: &Value<'_>, context: &Context) -> Result<bool> {
        let text = value.text()?;
        if context.is_label(value) {
            return push_text(to, &text);
        }
        if let Value::Nested(_) = value {
            return push_text(to, &join_members(&text)?);
        }
        match (
            enum_label(&text, context.labels()),
            set_labels(&text, context.labels()),
        ) {
            (Ok(label), Ok(labels)) if label != labels => {
                let what = format!(
                    "{text:?} is ambiguous ({label:?} of an enum or {labels:?} of a set): the message does not declare the column's type"
                );
                Err(Fault::new(Kind::Type, what))
            }
            (Ok(label), _) => push_text(to, &label),
            (Err(_), labels) => push_text(to, &labels?),
        }
    }

    fn append_date(&self, to: &mut Bytes<O>, text: &str) -> Result<bool> {
        let is_zero = DateTimeText::parse(text).is_ok_and(|date| date.is_zero());
        match self.zero_date {
            ZeroDate::Null if is_zero => Ok(false),
            ZeroDate::Error if is_zero => {
                Err(Fault::new(Kind::Range, format!("{text:?} is a zero date")))
            }
            _ => push_text(to, text),
        }
    }
}

fn not_utf8(text: &str) -> Fault {
    Fault::new(
        Kind::Encoding,
        format!("the bytes {} are not UTF-8; request binary", excerpt(text)),
    )
}

/// Returns whether values of a declared type need conversion.
pub(super) fn needs_conversion(declared: &DeclaredType) -> bool {
    matches!(
        declared.family,
        TypeFamily::Enum | TypeFamily::Set | TypeFamily::Binary | TypeFamily::Blob
    ) || declared.is_date()
}

/// Joins the members of a set that is written as an array.
fn join_members(array: &str) -> Result<String> {
    let members: Vec<_> = elements(&mut Cursor::new(array, true))?
        .iter()
        .map(Value::text)
        .collect::<Result<_>>()?;
    Ok(members.join(","))
}

/// Returns the label with this index; 0 is the empty label. Without labels, or if the producer sends labels, returns
/// the text itself.
fn enum_label<'t>(text: &'t str, labels: &'t [String]) -> Result<Cow<'t, str>> {
    let Ok(index) = integer(text) else {
        return Ok(text.into());
    };
    if labels.is_empty() {
        return Ok(text.into());
    }
    if index == 0 {
        return Ok("".into());
    }
    let label = usize::try_from(index - 1)
        .ok()
        .and_then(|at| labels.get(at));
    label
        .map(|label| label.as_str().into())
        .ok_or_else(|| unknown_member(text, labels))
}

/// Returns the labels whose bits are set.
fn set_labels<'t>(text: &'t str, labels: &[String]) -> Result<Cow<'t, str>> {
    let Ok(mask) = integer(text) else {
        return Ok(text.into());
    };
    if labels.is_empty() {
        return Ok(text.into());
    }
    if mask < 0 || labels.len() < 64 && mask >> labels.len() != 0 || mask > i128::from(u64::MAX) {
        return Err(unknown_member(text, labels));
    }
    let selected: Vec<&str> = labels
        .iter()
        .take(64)
        .enumerate()
        .filter(|(bit, _)| mask >> bit & 1 == 1)
        .map(|(_, label)| &**label)
        .collect();
    Ok(selected.join(",").into())
}

fn unknown_member(text: &str, labels: &[String]) -> Fault {
    Fault::new(
        Kind::Range,
        format!(
            "{text:?} matches none of the {} declared members",
            labels.len()
        ),
    )
}

impl<O: OffsetSizeTrait> ConvertBytes for Texts<O> {
    type Array = GenericStringType<O>;
    const IS_TEXT: bool = true;

    #[inline]
    fn push(&mut self, to: &mut Bytes<O>, value: &Value<'_>, context: &Context) -> Result<bool> {
        let declared = context.declared();
        if let Value::Bytes(bytes) = value {
            return match std::str::from_utf8(bytes) {
                Ok(text) => push_text(to, text),
                Err(_) => Err(not_utf8(&value.text()?)),
            };
        }
        let is_json_string =
            || context.format == ValueFormat::Base64AndJson && context.is_label(value);
        if let Some(declared) = declared.filter(|declared| {
            needs_conversion(declared) || declared.family == TypeFamily::Json && is_json_string()
        }) {
            return self.append_declared(to, value, declared, context);
        }
        match value {
            _ if declared.is_none() && !context.labels.is_empty() => {
                Self::append_undeclared(to, value, context)
            }
            Value::Number(_) | Value::Digits(_)
                if declared.is_some_and(|declared| declared.family == TypeFamily::Decimal) =>
            {
                let text = value.text()?;
                push_text(to, without_exponent(&text).as_deref().unwrap_or(&text))
            }
            Value::Escaped(raw) => to.push_unescaped(raw).map(|()| true),
            Value::Text(raw) | Value::Number(raw) | Value::Bool(raw) | Value::Nested(raw) => {
                push_text(to, raw)
            }
            other => push_text(to, &other.text()?),
        }
    }
}
