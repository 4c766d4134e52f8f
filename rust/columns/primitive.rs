//! Builder of fixed-width columns: numbers, decimals, dates and times.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType};

use super::nulls::Nulls;
use super::{ColumnBuilder, Context, Forecast, Overlay};
use crate::error::Result;
use crate::mysql::number::{AROUND_START, Around, Window, around, text_of, window_at, window_of};
use crate::value::Value;

/// Conversion of a value to the native type of an Arrow primitive.
pub(super) trait Convert<T: ArrowPrimitiveType>: Send + 'static {
    /// True if JSON may write the values without quotes.
    const IS_NUMBER: bool;

    /// Fast path: parses the value at the start of the window. Returns it with its length. Does not check the following
    /// bytes.
    fn prefix(&self, window: &Window) -> Option<(T::Native, usize)>;

    /// Fast path for usual values only. It makes no call, so that [`ColumnBuilder::read`] needs no stack.
    fn usual_prefix(&self, _: &Around) -> Option<(T::Native, usize)> {
        None
    }

    /// Returns the value of a whole text in the usual form, without a call.
    fn usual(&self, _: &[u8]) -> Option<T::Native> {
        None
    }

    /// Returns the value of a date or time that depends on no zone.
    fn native(&self, _: &Value<'_>) -> Option<T::Native> {
        None
    }

    /// Converts any value; `None` if it converts to null.
    fn convert(&self, value: &Value<'_>, context: &Context) -> Result<Option<T::Native>>;
}

struct Primitives<T: ArrowPrimitiveType, C> {
    data_type: DataType,
    values: Vec<T::Native>,
    nulls: Nulls,
    /// Nulls whose values were zero dates.
    zero_dates: Nulls,
    convert: C,
}

/// Creates a builder of `data_type` that uses `convert`.
pub(super) fn primitives<T, C>(data_type: DataType, convert: C) -> Box<dyn ColumnBuilder>
where
    T: ArrowPrimitiveType,
    C: Convert<T>,
{
    Box::new(Primitives::<T, C> {
        data_type,
        values: Vec::new(),
        nulls: Nulls::default(),
        zero_dates: Nulls::default(),
        convert,
    })
}

/// Returns whether a text begins with a complete JSON number of this length. JSON forbids leading zeros. A fraction or
/// an exponent would make the number longer.
#[inline(always)]
fn is_json_number(text: &[u8], length: usize) -> bool {
    let leading_zero = matches!(
        text,
        [b'0', b'0'..=b'9', ..] | [b'-', b'0', b'0'..=b'9', ..]
    );
    !leading_zero && matches!(text.get(length), Some(b',' | b'}' | b']'))
}

impl<T: ArrowPrimitiveType, C: Convert<T>> Primitives<T, C> {
    /// Reads a value without quotes. A usual number needs no stack either.
    #[inline(never)]
    fn read_number(&mut self, text: &[u8], at: usize) -> Option<usize> {
        if let Some(around) = around(text, at)
            && let Some((value, length)) = self.convert.usual_prefix(around)
            && is_json_number(text_of(around), length)
            && self.values.len() < self.values.capacity()
        {
            self.values.push(value);
            return Some(at + length);
        }
        self.read_rare(text, at)
    }

    /// Reads any value that has a fast path.
    #[inline(never)]
    fn read_rare(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let Some((b'"', rest)) = text.get(at..)?.split_first() else {
            return self.read_unquoted(text, at);
        };
        let mut at_end = [0; 32];
        let window = window_at(rest, &mut at_end);
        let (value, length) = self.convert.prefix(window)?;
        if rest.get(length) != Some(&b'"') {
            return None;
        }
        self.values.push(value);
        Some(at + length + 2)
    }

    /// Appends any text that has a fast path.
    #[inline(never)]
    fn push_rare(&mut self, text: &[u8]) -> bool {
        match window_of(text).and_then(|window| self.convert.prefix(&window)) {
            Some((value, length)) if length == text.len() => {
                self.values.push(value);
                true
            }
            _ => false,
        }
    }

    /// Reads an unquoted value: null, or a number.
    fn read_unquoted(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let rest = text.get(at..)?;
        if rest.starts_with(b"null") {
            self.push_nulls(1);
            return Some(at + 4);
        }
        if !C::IS_NUMBER {
            return None;
        }
        let mut at_end = [0; 32];
        let window = window_at(rest, &mut at_end);
        let (value, length) = self
            .convert
            .prefix(window)
            .filter(|(_, length)| is_json_number(rest, *length))?;
        self.values.push(value);
        Some(at + length)
    }

    fn array(
        &mut self,
        values: Vec<T::Native>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        (self.nulls, self.zero_dates) = Default::default();
        Ok(Arc::new(
            PrimitiveArray::<T>::try_new(values.into(), nulls)?
                .with_data_type(self.data_type.clone()),
        ))
    }
}

impl<T: ArrowPrimitiveType, C: Convert<T>> ColumnBuilder for Primitives<T, C> {
    /// Reads a value. All unusual cases are tail calls, so this function needs no stack. The stack took a third of its
    /// instructions.
    #[inline]
    fn read(&mut self, text: &[u8], at: usize) -> Option<usize> {
        if let Some(around) = around(text, at + 1)
            && around[AROUND_START - 1] == b'"'
            && let Some((value, length)) = self.convert.usual_prefix(around)
            && around.get(AROUND_START + length) == Some(&b'"')
            && self.values.len() < self.values.capacity()
        {
            self.values.push(value);
            return Some(at + length + 2);
        }
        if C::IS_NUMBER && text.get(at) != Some(&b'"') {
            self.read_number(text, at)
        } else {
            self.read_rare(text, at)
        }
    }

    fn try_push(&mut self, value: &Value<'_>) -> bool {
        let (usual, text) = match value {
            Value::Short(text) => {
                let found = self.convert.usual_prefix(text.around());
                let whole = found.filter(|(_, length)| *length == text.length());
                (whole.map(|(value, _)| value), text.bytes())
            }
            other => match other.plain() {
                Some(text) => (self.convert.usual(text), text),
                None => {
                    let native = self.convert.native(value);
                    return native.map(|value| self.values.push(value)).is_some();
                }
            },
        };
        if let Some(value) = usual
            && self.values.len() < self.values.capacity()
        {
            self.values.push(value);
            return true;
        }
        self.push_rare(text)
    }

    fn push(&mut self, value: &Value<'_>, context: &Context) -> Result<()> {
        match self.convert.convert(value, context)? {
            Some(value) => self.values.push(value),
            None => {
                self.zero_dates.push(self.values.len(), 1);
                self.push_nulls(1);
            }
        }
        Ok(())
    }

    fn push_nulls(&mut self, count: usize) {
        self.nulls.push(self.values.len(), count);
        self.values
            .resize(self.values.len() + count, T::Native::default());
    }

    fn reserve(&mut self, forecast: Forecast) {
        forecast.reserve(&mut self.values);
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
        self.zero_dates.truncate(rows);
    }

    fn zero_dates(&self, rows: Range<usize>) -> usize {
        self.zero_dates.count_in(rows)
    }

    fn pad(&mut self, count: usize) {
        self.values
            .resize(self.values.len() + count, T::Native::default());
    }

    fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice())
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let values = std::mem::take(&mut self.values);
        let nulls = self.nulls.finish_with_parent(values.len(), parent);
        self.array(values, nulls)
    }

    /// Finishes the array. Rows that are null as a whole keep the base's values, which are masked.
    fn finish_over(&mut self, overlay: &Overlay<'_>) -> Result<ArrayRef, ArrowError> {
        let values = std::mem::take(&mut self.values);
        let base = overlay.base.as_primitive::<T>().values();
        self.array(overlay.scatter(base, &values), overlay.nulls(&self.nulls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{ValueOptions, ZeroDate, make_builder};
    use crate::mysql::zone::Zone;

    /// Reads a number after `before`. Returns the number's end and the column.
    fn read(
        data_type: &DataType,
        before: &str,
        number: &str,
        after: &str,
    ) -> (Option<usize>, ArrayRef) {
        let zone = Zone::parse("UTC").unwrap();
        let options = ValueOptions {
            zone,
            zero_date: ZeroDate::Null,
            labels: Arc::default(),
            declared: None,
            binary: None,
        };
        let mut builder = make_builder(data_type, &options).unwrap();
        // Make room for the number.
        builder.push_nulls(1);
        let end = builder.read(format!("{before}{number}{after}").as_bytes(), before.len());
        (
            end.map(|end| end - before.len()),
            builder.finish(None).unwrap(),
        )
    }

    #[test]
    fn numbers_without_quotes_are_read_alike_wherever_they_are() {
        let numbers = "0 -0 7 -7 012 -01 00 123456789012345 1234567890123456 9999999999999999999 1.5 -12.50 1. .5 - 1e2 1.5E3 1.234 00.5 null";
        for data_type in [
            DataType::Int64,
            DataType::Int8,
            DataType::UInt32,
            DataType::Decimal128(18, 2),
            DataType::Decimal128(4, 0),
        ] {
            for number in numbers.split(' ') {
                for end in [",", "}", "]", " ", "\""] {
                    let usual = read(
                        &data_type,
                        &"x".repeat(40),
                        number,
                        &format!("{end}{}", "x".repeat(60)),
                    );
                    assert_eq!(
                        usual,
                        read(&data_type, "", number, end),
                        "{data_type} {number}{end}"
                    );
                }
            }
        }
    }

    #[test]
    fn numbers_without_quotes_are_those_of_json() {
        let end = |number: &str| {
            read(
                &DataType::Decimal128(18, 2),
                &"x".repeat(40),
                number,
                &format!(",{}", "x".repeat(60)),
            )
            .0
        };
        let found: Vec<_> = [
            "12.50", "-0.5", "012.50", "-00.5", "1.5e2", "1.", ".5", "1.500",
        ]
        .map(end)
        .into();
        assert_eq!(
            found,
            [Some(5), Some(4), None, None, None, None, None, None]
        );
    }
}
