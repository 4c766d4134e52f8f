//! Columns of fixed-width values: numbers, decimals, dates and times.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::PrimitiveBuilder;
use arrow_array::types::ArrowPrimitiveType;
use arrow_schema::DataType;

use super::{CellFault, Column, Context, Slots, cells};
use crate::error::Result;
use crate::event::Value;

/// How a value that is not null becomes a number of Arrow's; `None` where it stands for null after all.
pub(super) trait Convert<T: ArrowPrimitiveType>: Send {
    fn convert(&self, value: &Value<'_>, context: &Context<'_>) -> Result<Option<T::Native>>;
}

impl<T, F> Convert<T> for F
where
    T: ArrowPrimitiveType,
    F: Fn(&Value<'_>, &Context<'_>) -> Result<Option<T::Native>> + Send,
{
    #[inline(always)]
    fn convert(&self, value: &Value<'_>, context: &Context<'_>) -> Result<Option<T::Native>> {
        self(value, context)
    }
}

struct Primitives<T: ArrowPrimitiveType, C> {
    builder: PrimitiveBuilder<T>,
    convert: C,
    /// A chunk's values, handed to the builder in one go.
    values: Vec<T::Native>,
    valid: Vec<bool>,
}

/// A column of `data_type`, whose values `convert` makes.
pub(super) fn primitives<T, C>(data_type: DataType, convert: C) -> Box<dyn Column>
where
    T: ArrowPrimitiveType,
    C: Convert<T> + 'static,
{
    let builder = PrimitiveBuilder::new().with_data_type(data_type);
    Box::new(Primitives { builder, convert, values: Vec::new(), valid: Vec::new() })
}

impl<T: ArrowPrimitiveType, C: Convert<T>> Column for Primitives<T, C> {
    fn append(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<()> {
        let converted = if value.is_null() { Ok(None) } else { self.convert.convert(value, context) };
        self.builder.append_option(converted.as_ref().copied().unwrap_or_default());
        converted.map(drop)
    }

    fn extend(&mut self, slots: &Slots<'_, '_>, column: usize, faults: &mut Vec<CellFault>) {
        self.values.clear();
        self.valid.clear();
        for (row, (value, context)) in cells(slots, column).enumerate() {
            let converted = if value.is_null() {
                None
            } else {
                self.convert.convert(value, &context).unwrap_or_else(|fault| {
                    faults.push(CellFault { row, column: Some(column), fault });
                    None
                })
            };
            self.values.push(converted.unwrap_or_default());
            self.valid.push(converted.is_some());
        }
        self.builder.append_values(&self.values, &self.valid);
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}
