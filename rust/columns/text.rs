//! Builder of string columns.

use std::borrow::Cow;
use std::ops::Range;

use arrow_array::types::GenericStringType;
use arrow_array::{ArrayRef, OffsetSizeTrait};
use arrow_buffer::NullBuffer;
use arrow_schema::ArrowError;

use super::binary::stored_bytes;
use super::bytes::Bytes;
use super::nested::elements;
use super::{ColumnBuilder, Context, Forecast, Nulls, Overlay, ValueOptions, ZeroDate};
use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::ValueFormat;
use crate::mysql::number::{integer, without_exponent};
use crate::mysql::short_text::ShortText;
use crate::mysql::temporal::DateTimeText;
use crate::mysql::types::{DeclaredType, TypeFamily};
use crate::value::Value;
use crate::wire::json::Cursor;

pub(super) struct Texts<O: OffsetSizeTrait> {
    bytes: Bytes<O>,
    zero_date: ZeroDate,
    /// Nulls whose values were zero dates.
    zero_dates: Nulls,
}

impl<O: OffsetSizeTrait> Texts<O> {
    pub fn new(options: &ValueOptions) -> Self {
        Texts {
            bytes: Bytes::default(),
            zero_date: options.zero_date,
            zero_dates: Nulls::default(),
        }
    }

    #[inline]
    fn push_text(&mut self, text: &str) -> Result<()> {
        self.bytes.push(text.as_bytes())
    }

    /// Appends a value whose declared type requires conversion.
    fn append_declared(
        &mut self,
        value: &Value<'_>,
        declared: &DeclaredType,
        context: &Context,
    ) -> Result<()> {
        let text = value.text()?;
        match declared.family {
            TypeFamily::Enum | TypeFamily::Set if context.is_label(value) => self.push_text(&text),
            TypeFamily::Set if matches!(value, Value::Nested(_)) => {
                self.push_text(&join_members(&text)?)
            }
            TypeFamily::Enum => self.push_text(&enum_label(&text, context.labels())?),
            TypeFamily::Set => self.push_text(&set_labels(&text, context.labels())?),
            TypeFamily::Binary | TypeFamily::Blob => {
                let mut bytes = Vec::new();
                stored_bytes(value, context, &mut bytes)?;
                let text = String::from_utf8(bytes).map_err(|_| not_utf8(&text))?;
                self.push_text(&text)
            }
            // A JSON string without its quotes.
            TypeFamily::Json => self.push_text(&format!("\"{}\"", value.raw())),
            _ => self.append_date(&text),
        }
    }

    /// Appends a value of an enum or a set, if the message does not declare which. A number is ambiguous only if it
    /// stands for different members in both.
    fn append_undeclared(&mut self, value: &Value<'_>, context: &Context) -> Result<()> {
        let text = value.text()?;
        if context.is_label(value) {
            return self.push_text(&text);
        }
        if let Value::Nested(_) = value {
            return self.push_text(&join_members(&text)?);
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
            (Ok(label), _) => self.push_text(&label),
            (Err(_), labels) => self.push_text(&labels?),
        }
    }

    fn append_date(&mut self, text: &str) -> Result<()> {
        let is_zero = DateTimeText::parse(text).is_ok_and(|date| date.is_zero());
        match self.zero_date {
            ZeroDate::Null if is_zero => {
                self.zero_dates.push(self.bytes.len(), 1);
                self.bytes.push_nulls(1);
                Ok(())
            }
            ZeroDate::Error if is_zero => {
                Err(Fault::new(Kind::Range, format!("{text:?} is a zero date")))
            }
            _ => self.push_text(text),
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

impl<O: OffsetSizeTrait> ColumnBuilder for Texts<O> {
    #[inline]
    fn push(&mut self, value: &Value<'_>, context: &Context) -> Result<()> {
        let declared = context.declared();
        if let Value::Bytes(bytes) = value {
            return match std::str::from_utf8(bytes) {
                Ok(text) => self.push_text(text),
                Err(_) => Err(not_utf8(&value.text()?)),
            };
        }
        let is_json_string =
            || context.format == ValueFormat::Base64AndJson && context.is_label(value);
        if let Some(declared) = declared.filter(|declared| {
            needs_conversion(declared) || declared.family == TypeFamily::Json && is_json_string()
        }) {
            return self.append_declared(value, declared, context);
        }
        match value {
            _ if declared.is_none() && !context.labels.is_empty() => {
                self.append_undeclared(value, context)
            }
            Value::Number(_) | Value::Digits(_)
                if declared.is_some_and(|declared| declared.family == TypeFamily::Decimal) =>
            {
                let text = value.text()?;
                self.push_text(without_exponent(&text).as_deref().unwrap_or(&text))
            }
            Value::Escaped(raw) => self.bytes.push_unescaped(raw),
            Value::Text(raw) | Value::Number(raw) | Value::Bool(raw) | Value::Nested(raw) => {
                self.push_text(raw)
            }
            other => self.push_text(&other.text()?),
        }
    }

    #[inline]
    fn read(&mut self, text: &[u8], at: usize) -> Option<usize> {
        match text.get(at)? {
            b'"' => self.bytes.read(text, at + 1).map(|quote| quote + 1),
            b'n' if text.get(at..)?.starts_with(b"null") => {
                self.bytes.push_nulls(1);
                Some(at + 4)
            }
            _ => None,
        }
    }

    fn push_plain(&mut self, text: &[u8]) -> bool {
        self.bytes.push(text).is_ok()
    }

    fn push_short(&mut self, text: ShortText<'_>) -> bool {
        self.bytes.push_short(text).is_ok()
    }

    fn push_nulls(&mut self, count: usize) {
        self.bytes.push_nulls(count);
    }

    fn reserve(&mut self, forecast: Forecast) {
        self.bytes.reserve(forecast);
    }

    fn truncate(&mut self, rows: usize) {
        self.bytes.truncate(rows);
        self.zero_dates.truncate(rows);
    }

    fn zero_dates(&self, rows: Range<usize>) -> usize {
        self.zero_dates.count_in(rows)
    }

    fn pad(&mut self, count: usize) {
        self.bytes.pad(count);
    }

    fn bytes(&self) -> usize {
        self.bytes.size()
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        self.zero_dates = Nulls::default();
        self.bytes.finish_text(parent)
    }

    fn finish_over(&mut self, overlay: &Overlay<'_>) -> Result<ArrayRef, ArrowError> {
        self.zero_dates = Nulls::default();
        self.bytes.finish_over::<GenericStringType<O>>(overlay)
    }
}
