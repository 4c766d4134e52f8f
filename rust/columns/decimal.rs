//! Decimals: digits go straight into the unscaled integer.

use arrow_array::types::DecimalType;

use super::primitive::{Convert, primitives};
use super::{Column, Context, refused, scalar};
use crate::error::Result;
use crate::mysql::number::{From64, Unscaled, Window, decimal, decimal_prefix};
use crate::value::Value;

/// A column of decimals.
pub(super) fn decimals<T>(precision: u8, scale: i8) -> Result<Box<dyn Column>, String>
where
    T: DecimalType,
    T::Native: Unscaled + From64,
{
    if precision == 0 || precision > T::MAX_PRECISION || scale > precision as i8 || scale < 0 {
        let most = T::MAX_PRECISION;
        return Err(format!("decimal({precision},{scale}): the precision must be from 1 to {most}, the scale from 0 to the precision"));
    }
    Ok(primitives::<T, _>(T::TYPE_CONSTRUCTOR(precision, scale), Decimals { precision, scale }))
}

struct Decimals {
    precision: u8,
    scale: i8,
}

impl<T> Convert<T> for Decimals
where
    T: DecimalType,
    T::Native: Unscaled + From64,
{
    const IS_NUMBER: bool = true;

    #[inline(always)]
    fn prefix(&self, window: &Window) -> Option<(T::Native, usize)> {
        let (unscaled, length) = decimal_prefix(window, self.precision, self.scale)?;
        Some((T::Native::from_i64(unscaled), length))
    }

    fn convert(&self, value: &Value<'_>, _: &Context<'_>) -> Result<Option<T::Native>> {
        let Decimals { precision, scale } = *self;
        if let Value::Unscaled(number) = value {
            return Ok(Some(T::Native::from_i64(*number)));
        }
        let parsed = scalar(value, |text| decimal::<T::Native>(text, precision, scale))?;
        parsed.map(Some).map_err(|refusal| refused(value, refusal, &format!("decimal({precision},{scale})")))
    }
}
