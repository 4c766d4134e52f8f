//! Builder of boolean columns: 0 and 1, false and true.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::ArrowError;

use super::nulls::Nulls;
use super::{ColumnBuilder, Context, conversion_fault, scalar};
use crate::error::Result;
use crate::mysql::number::{ParseError, integer};
use crate::value::Value;

#[derive(Default)]
pub(super) struct Booleans {
    values: Vec<bool>,
    nulls: Nulls,
}

fn boolean(text: &str) -> Result<bool, ParseError> {
    match text {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        // A tinyint(1) may hold 2 or -128, which is neither true nor false.
        other => match integer(other) {
            Ok(0) => Ok(false),
            Ok(1) => Ok(true),
            Ok(_) => Err(ParseError::Range),
            Err(error) => Err(error),
        },
    }
}

impl ColumnBuilder for Booleans {
    fn read(&mut self, text: &[u8], at: usize) -> Option<usize> {
        const SPELLINGS: [(&[u8], Option<bool>); 5] = [
            (b"\"0\"", Some(false)),
            (b"\"1\"", Some(true)),
            (b"false", Some(false)),
            (b"true", Some(true)),
            (b"null", None),
        ];
        let rest = text.get(at..)?;
        let (spelling, value) = SPELLINGS
            .iter()
            .find(|(spelling, _)| rest.starts_with(spelling))?;
        match value {
            Some(value) => self.values.push(*value),
            None => self.push_nulls(1),
        }
        Some(at + spelling.len())
    }

    fn push(&mut self, value: &Value<'_>, _: &Context) -> Result<()> {
        self.values.push(match value {
            Value::Bool(raw) => *raw == "true",
            other => scalar(other, boolean)?
                .map_err(|error| conversion_fault(value, error, "boolean (0 or 1)"))?,
        });
        Ok(())
    }

    fn push_nulls(&mut self, count: usize) {
        self.nulls.push(self.values.len(), count);
        self.values.resize(self.values.len() + count, false);
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    fn bytes(&self) -> usize {
        self.values.len()
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let values = std::mem::take(&mut self.values);
        let nulls = self.nulls.finish_with_parent(values.len(), parent);
        Ok(Arc::new(BooleanArray::new(
            BooleanBuffer::from(values),
            nulls,
        )))
    }
}
