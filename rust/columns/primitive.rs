//! Columns of fixed-width values: numbers, decimals, dates and times.

use std::any::Any;
use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType};

use super::nulls::Nulls;
use super::{Column, Context, Forecast};
use crate::error::Result;
use crate::mysql::number::{Window, window_at, window_of};
use crate::value::Value;

/// How a value that is not null becomes a number of Arrow's.
pub(super) trait Convert<T: ArrowPrimitiveType>: Send + 'static {
    /// Whether JSON may write the values without quotes.
    const IS_NUMBER: bool;

    /// The value that a text begins with, and its length, if it is written in the usual way. What follows it is not looked at.
    fn prefix(&self, window: &Window) -> Option<(T::Native, usize)>;

    /// Any value; `None` where it stands for null after all.
    fn convert(&self, value: &Value<'_>, context: &Context<'_>) -> Result<Option<T::Native>>;

    /// Whether [`Convert::prefix`] and [`Convert::convert`] agree here.
    fn reads(&self, _: &Context<'_>) -> bool {
        true
    }
}

struct Primitives<T: ArrowPrimitiveType, C> {
    data_type: DataType,
    values: Vec<T::Native>,
    nulls: Nulls,
    convert: C,
}

/// A column of `data_type`, whose values `convert` makes.
pub(super) fn primitives<T, C>(data_type: DataType, convert: C) -> Box<dyn Column>
where
    T: ArrowPrimitiveType,
    C: Convert<T>,
{
    Box::new(Primitives::<T, C> { data_type, values: Vec::new(), nulls: Nulls::default(), convert })
}

impl<T: ArrowPrimitiveType, C: Convert<T>> Primitives<T, C> {
    #[inline]
    fn push(&mut self, value: Option<T::Native>) {
        if value.is_none() {
            self.nulls.push(self.values.len(), 1);
        }
        self.values.push(value.unwrap_or_default());
    }

    /// Reads what is not between quotes: null, or a number.
    #[inline(never)]
    fn read_bare(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let rest = text.get(at..)?;
        if rest.starts_with(b"null") {
            self.push(None);
            return Some(at + 4);
        }
        if !C::IS_NUMBER {
            return None;
        }
        let mut at_end = [0; 32];
        let window = window_at(rest, &mut at_end);
        let (value, length) = self.convert.prefix(window)?;
        // JSON's numbers have no zeros before other digits; a fraction or an exponent may follow.
        let digit = usize::from(window[0] == b'-');
        let leading_zero = window[digit] == b'0' && window[digit + 1].is_ascii_digit();
        let is_whole = matches!(rest.get(length), Some(b',' | b'}' | b']'));
        if leading_zero || !is_whole {
            return None;
        }
        self.values.push(value);
        Some(at + length)
    }
}

impl<T: ArrowPrimitiveType, C: Convert<T>> Column for Primitives<T, C> {
    #[inline]
    fn read(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let Some((b'"', rest)) = text.get(at..)?.split_first() else { return self.read_bare(text, at) };
        let mut at_end = [0; 32];
        let window = window_at(rest, &mut at_end);
        let (value, length) = self.convert.prefix(window)?;
        if rest.get(length) != Some(&b'"') {
            return None;
        }
        self.values.push(value);
        Some(at + length + 2)
    }

    fn reads(&self, context: &Context<'_>) -> bool {
        self.convert.reads(context)
    }

    fn push_plain(&mut self, text: &[u8]) -> bool {
        match window_of(text).and_then(|window| self.convert.prefix(&window)) {
            Some((value, length)) if length == text.len() => {
                self.values.push(value);
                true
            }
            _ => false,
        }
    }

    fn append(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<()> {
        let converted = if value.is_null() { Ok(None) } else { self.convert.convert(value, context) };
        self.push(converted.as_ref().copied().unwrap_or_default());
        converted.map(drop)
    }

    fn push_nulls(&mut self, count: usize) {
        self.nulls.push(self.values.len(), count);
        self.values.resize(self.values.len() + count, T::Native::default());
    }

    #[inline]
    fn copy(&mut self, other: &dyn Column, row: usize) {
        let other = (other as &dyn Any).downcast_ref::<Self>().filter(|other| !other.nulls.contains(row));
        self.push(other.and_then(|other| other.values.get(row)).copied());
    }

    fn reserve(&mut self, forecast: Forecast) {
        forecast.reserve(&mut self.values);
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    fn pad(&mut self, count: usize) {
        self.values.resize(self.values.len() + count, T::Native::default());
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let values = std::mem::take(&mut self.values);
        let nulls = self.nulls.finish_within(values.len(), parent);
        Ok(Arc::new(PrimitiveArray::<T>::try_new(values.into(), nulls)?.with_data_type(self.data_type.clone())))
    }
}
