//! Booleans: 0 and 1, false and true.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::BooleanBuilder;

use super::{Context, Family, refused, scalar};
use crate::error::Result;
use crate::event::Value;
use crate::mysql::number::{Refusal, integer};

#[derive(Default)]
pub(super) struct Booleans {
    builder: BooleanBuilder,
}

fn boolean(text: &str) -> Result<bool, Refusal> {
    match text {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        // A tinyint(1) may hold 2 or -128, which is neither.
        other => match integer(other) {
            Ok(0) => Ok(false),
            Ok(1) => Ok(true),
            Ok(_) => Err(Refusal::Range),
            Err(refusal) => Err(refusal),
        },
    }
}

impl Family for Booleans {
    fn push(&mut self, value: &Value<'_>, _: &Context<'_>) -> Result<()> {
        let parsed = match value {
            Value::Bool(raw) => Ok(*raw == "true"),
            other => scalar(other, boolean)?,
        };
        self.builder.append_value(parsed.map_err(|refusal| refused(value, refusal, "boolean (0 or 1)"))?);
        Ok(())
    }

    fn push_null(&mut self) {
        self.builder.append_null();
    }

    fn take(&mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}
