//! Builder of decimal columns: digits are parsed directly into the unscaled integer.

use arrow_array::types::DecimalType;

use super::numeric::label_number;
use super::primitive::{Convert, primitives};
use super::{ColumnBuilder, Context, conversion_fault, is_text, scalar};
use crate::error::Result;
use crate::mysql::number::{
    Around, FromI64, ParseError, Unscaled, Window, decimal, decimal_prefix, fits, usual_decimal,
    usual_whole_decimal,
};
use crate::value::Value;

/// Creates a builder of decimals.
pub(super) fn decimals<T>(precision: u8, scale: i8) -> Result<Box<dyn ColumnBuilder>, String>
where
    T: DecimalType,
    T::Native: Unscaled + FromI64,
{
    if precision == 0 || precision > T::MAX_PRECISION || scale > precision as i8 || scale < 0 {
        let max = T::MAX_PRECISION;
        return Err(format!(
            "decimal({precision},{scale}): the precision must be from 1 to {max}, the scale from 0 to the precision"
        ));
    }
    Ok(primitives::<T, _>(
        T::TYPE_CONSTRUCTOR(precision, scale),
        Decimals { precision, scale },
    ))
}

struct Decimals {
    precision: u8,
    /// Never negative.
    scale: i8,
}

impl<T> Convert<T> for Decimals
where
    T: DecimalType,
    T::Native: Unscaled + FromI64,
{
    const IS_NUMBER: bool = true;

    #[inline(always)]
    fn prefix(&self, window: &Window) -> Option<(T::Native, usize)> {
        let (unscaled, length) = decimal_prefix(window, self.precision, self.scale)?;
        Some((T::Native::from_i64(unscaled), length))
    }

    #[inline(always)]
    fn usual_prefix(&self, around: &Around) -> Option<(T::Native, usize)> {
        let (unscaled, length) = usual_decimal(around, self.precision, self.scale as u8)?;
        Some((T::Native::from_i64(unscaled), length))
    }

    #[inline(always)]
    fn usual(&self, text: &[u8]) -> Option<T::Native> {
        usual_whole_decimal(text, self.precision, self.scale as u8).map(T::Native::from_i64)
    }

    fn convert(&self, value: &Value<'_>, context: &Context) -> Result<Option<T::Native>> {
        let Decimals { precision, scale } = *self;
        match value {
            Value::Unscaled(number) => return Ok(Some(T::Native::from_i64(*number))),
            Value::Scaled(number, of) if *of == scale as u32 && fits(*number, precision) => {
                return Ok(Some(T::Native::from_i64(*number)));
            }
            _ => {}
        }
        let parse = |text: &str| decimal::<T::Native>(text, precision, scale);
        let is_label =
            scale == 0 && is_text(value) && context.is_enum_or_set() && context.is_label(value);
        let parsed = match if is_label {
            Err(ParseError::Type)
        } else {
            scalar(value, parse)?
        } {
            Err(ParseError::Type) if scale == 0 => match label_number(value, context) {
                Some(number) => parse(&number.to_string()),
                None => Err(ParseError::Type),
            },
            other => other,
        };
        parsed.map(Some).map_err(|error| {
            conversion_fault(value, error, &format!("decimal({precision},{scale})"))
        })
    }
}
