//! Integers and floats.

use std::str::FromStr;
use std::sync::Arc;

use arrow_array::builder::PrimitiveBuilder;
use arrow_array::types::{ArrowPrimitiveType, Int64Type};
use arrow_array::{ArrayRef, PrimitiveArray};

use super::{Column, Context, Family, ValueOptions, refused, scalar, spell};
use crate::error::Result;
use crate::event::Value;
use crate::mysql::number::{Refusal, float, integer};
use crate::mysql::temporal::time_of;
use crate::mysql::types::{Base, Declared};

struct Integers<T: ArrowPrimitiveType> {
    builder: PrimitiveBuilder<T>,
    labels: Arc<[String]>,
}

/// A column of integers of any width.
pub(super) fn integers<T>(options: &ValueOptions) -> Box<dyn Column>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    Box::new(Integers::<T> { builder: PrimitiveBuilder::new(), labels: options.labels.clone() })
}

impl<T> Integers<T>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    #[inline]
    fn convert(text: &str) -> Result<T::Native, Refusal> {
        T::Native::try_from(integer(text)?).map_err(|_| Refusal::Range)
    }

    /// What is not written as an integer but stands for one: a boolean, a label, a TIME in microseconds.
    #[cold]
    fn stands_for(&self, value: &Value<'_>, declared: Option<&Declared>) -> Option<i128> {
        if let Value::Bool(value) = value {
            return Some((*value).into());
        }
        let text = value.text().ok()?;
        match declared.map(|declared| declared.base) {
            Some(Base::Enum) => ordinal(&text, labels(declared, &self.labels)).map(|n| n as i128),
            Some(Base::Set) => mask(&text, labels(declared, &self.labels)),
            Some(Base::Time) | None if T::DATA_TYPE == Int64Type::DATA_TYPE => time_of(&text).ok().map(i128::from),
            _ => None,
        }
    }
}

/// The members that the message declares, else those that the user named.
pub(super) fn labels<'l>(declared: Option<&'l Declared>, named: &'l [String]) -> &'l [String] {
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
    members.map(|member| ordinal(member, labels)).try_fold(0, |mask, at| Some(mask | 1 << (at? - 1)))
}

impl<T> Family for Integers<T>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    #[inline]
    fn push(&mut self, value: &Value<'_>, context: &Context<'_>) -> Result<()> {
        let parsed = match scalar(value, Self::convert)? {
            Err(Refusal::Type) => match self.stands_for(value, context.declared()) {
                Some(integer) => T::Native::try_from(integer).map_err(|_| Refusal::Range),
                None => Err(Refusal::Type),
            },
            other => other,
        };
        self.builder.append_value(parsed.map_err(|refusal| refused(value, refusal, &spell(&T::DATA_TYPE)))?);
        Ok(())
    }

    fn push_null(&mut self) {
        self.builder.append_null();
    }

    fn take(&mut self) -> ArrayRef {
        let array: PrimitiveArray<T> = self.builder.finish();
        Arc::new(array)
    }
}

/// Floats and doubles: the nearest to the text.
pub(super) struct Floats<T: ArrowPrimitiveType> {
    builder: PrimitiveBuilder<T>,
}

impl<T: ArrowPrimitiveType> Default for Floats<T> {
    fn default() -> Self {
        Floats { builder: PrimitiveBuilder::new() }
    }
}

impl<T> Family for Floats<T>
where
    T: ArrowPrimitiveType,
    T::Native: FromStr + Into<f64>,
{
    fn push(&mut self, value: &Value<'_>, _: &Context<'_>) -> Result<()> {
        let parsed = scalar(value, float::<T::Native>)?;
        self.builder.append_value(parsed.map_err(|refusal| refused(value, refusal, &spell(&T::DATA_TYPE)))?);
        Ok(())
    }

    fn push_null(&mut self) {
        self.builder.append_null();
    }

    fn take(&mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}
