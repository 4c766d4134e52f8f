//! Builder of text and binary columns.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::ArrowError;

use super::bytes::{Bytes, FromBytes};
use super::nulls::Nulls;
use super::{ColumnBuilder, Context, Forecast, Overlay};
use crate::error::Result;
use crate::value::Value;

/// Conversion of a value to text or bytes.
pub(super) trait ConvertBytes: Send + 'static {
    /// Array type of the column.
    type Array: FromBytes;
    /// True if text without escapes needs no conversion.
    const IS_TEXT: bool;

    /// Appends a value that is not null. Returns false if it converts to null, and on error appends nothing.
    fn push(&mut self, to: &mut To<Self>, value: &Value<'_>, context: &Context) -> Result<bool>;
}

/// Destination of a conversion.
pub(super) type To<C> =
    Bytes<<<C as ConvertBytes>::Array as arrow_array::types::ByteArrayType>::Offset>;

struct Variable<C: ConvertBytes> {
    bytes: To<C>,
    /// Nulls whose values were zero dates.
    zero_dates: Nulls,
    convert: C,
}

/// Creates a builder that uses `convert`.
pub(super) fn variable<C: ConvertBytes>(convert: C) -> Box<dyn ColumnBuilder> {
    Box::new(Variable {
        bytes: Bytes::default(),
        zero_dates: Nulls::default(),
        convert,
    })
}

impl<C: ConvertBytes> ColumnBuilder for Variable<C> {
    #[inline]
    fn read(&mut self, text: &[u8], at: usize) -> Option<usize> {
        match text.get(at)? {
            _ if !C::IS_TEXT => None,
            b'"' => self.bytes.read(text, at + 1).map(|quote| quote + 1),
            b'n' if text.get(at..)?.starts_with(b"null") => {
                self.bytes.push_nulls(1);
                Some(at + 4)
            }
            _ => None,
        }
    }

    fn try_push(&mut self, value: &Value<'_>) -> bool {
        let pushed = match value {
            _ if !C::IS_TEXT => return false,
            Value::Short(text) => Some(self.bytes.push_short(*text)),
            other => other.plain().map(|text| self.bytes.push(text)),
        };
        pushed.is_some_and(|pushed| pushed.is_ok())
    }

    #[inline]
    fn push(&mut self, value: &Value<'_>, context: &Context) -> Result<()> {
        if !self.convert.push(&mut self.bytes, value, context)? {
            self.zero_dates.push(self.bytes.len(), 1);
            self.bytes.push_nulls(1);
        }
        Ok(())
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
        self.bytes.finish::<C::Array>(parent)
    }

    fn finish_over(&mut self, overlay: &Overlay<'_>) -> Result<ArrayRef, ArrowError> {
        self.zero_dates = Nulls::default();
        self.bytes.finish_over::<C::Array>(overlay)
    }
}
