//! Decimals: digits go straight into the unscaled integer.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::PrimitiveBuilder;
use arrow_array::types::DecimalType;

use super::{Context, Family, refused, scalar};
use crate::error::Result;
use crate::event::Value;
use crate::mysql::number::{From64, Unscaled, decimal};

pub(super) struct Decimals<T: DecimalType> {
    builder: PrimitiveBuilder<T>,
    precision: u8,
    scale: i8,
}

impl<T: DecimalType> Decimals<T> {
    pub fn new(precision: u8, scale: i8) -> Result<Self, String> {
        if precision == 0 || precision > T::MAX_PRECISION || scale > precision as i8 || scale < 0 {
            return Err(format!(
                "decimal({precision},{scale}): the scale must be from 0 to the precision, that from 1 to {}",
                T::MAX_PRECISION
            ));
        }
        let builder = PrimitiveBuilder::new().with_data_type(T::TYPE_CONSTRUCTOR(precision, scale));
        Ok(Decimals { builder, precision, scale })
    }
}

impl<T> Family for Decimals<T>
where
    T: DecimalType,
    T::Native: Unscaled + From64,
{
    #[inline]
    fn push(&mut self, value: &Value<'_>, _: &Context<'_>) -> Result<()> {
        let parsed = scalar(value, |text| decimal::<T::Native>(text, self.precision, self.scale))?;
        let unscaled = parsed.map_err(|refusal| refused(value, refusal, &format!("decimal({},{})", self.precision, self.scale)))?;
        self.builder.append_value(unscaled);
        Ok(())
    }

    fn push_null(&mut self) {
        self.builder.append_null();
    }

    fn take(&mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}
