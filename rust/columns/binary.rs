//! Builders of binary columns and geometries.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::types::{BinaryType, GenericBinaryType};
use arrow_array::{ArrayRef, Int32Array, OffsetSizeTrait, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Fields};

use super::bytes::Bytes;
use super::nulls::Nulls;
use super::variable::{ConvertBytes, variable};
use super::{ColumnBuilder, Context, conversion_fault};
use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::ValueFormat;
use crate::mysql::number::{ParseError, integer};
use crate::mysql::types::{DeclaredType, Encoding, TypeFamily};
use crate::value::{Unread, Value};

/// Length of the SRID that MySQL stores before a geometry's WKB.
const SRID_LENGTH: usize = 4;

/// Creates a builder of bytes.
pub(super) fn binaries<O: OffsetSizeTrait>() -> Box<dyn ColumnBuilder> {
    variable(Binaries::<O>::default())
}

#[derive(Default)]
struct Binaries<O> {
    scratch: Vec<u8>,
    offset: PhantomData<O>,
}

impl<O: OffsetSizeTrait> ConvertBytes for Binaries<O> {
    type Array = GenericBinaryType<O>;
    const IS_TEXT: bool = false;

    fn push(&mut self, to: &mut Bytes<O>, value: &Value<'_>, context: &Context) -> Result<bool> {
        self.scratch.clear();
        stored_bytes(value, context, &mut self.scratch)?;
        // Native bytes are WKB without MySQL's SRID prefix.
        let is_geometry = is_written_as_text(value)
            && context
                .declared()
                .is_some_and(|declared| declared.family == TypeFamily::Geometry);
        let bytes = if is_geometry {
            stored_geometry(&self.scratch, value)?.1
        } else {
            &self.scratch
        };
        to.push(bytes).map(|()| true)
    }
}

fn is_written_as_text(value: &Value<'_>) -> bool {
    !matches!(value, Value::Bytes(_) | Value::Unread(_))
}

/// Splits MySQL's storage form of a geometry into its SRID and its WKB. Producers write this form or WKT. The WKB
/// begins with its byte order and its type, which do not occur in WKT at this place.
fn stored_geometry<'b>(
    stored: &'b [u8],
    value: &Value<'_>,
) -> Result<(&'b [u8; SRID_LENGTH], &'b [u8])> {
    match stored.split_first_chunk() {
        Some((srid, wkb @ [0 | 1, _, _, _, _, ..])) => Ok((srid, wkb)),
        _ => Err(
            conversion_fault(value, ParseError::Type, "geometry as MySQL stores it")
                .because("request string if it is WKT".into()),
        ),
    }
}

/// Appends the stored bytes that a value represents.
pub(super) fn stored_bytes(value: &Value<'_>, context: &Context, out: &mut Vec<u8>) -> Result<()> {
    let declared = context.declared();
    let text = match value {
        Value::Bytes(bytes) => {
            out.extend_from_slice(bytes);
            return Ok(());
        }
        Value::Unread(Unread {
            kind: Kind::Encoding,
            bytes,
            ..
        }) => {
            out.extend_from_slice(bytes);
            return Ok(());
        }
        Value::Text(_) | Value::Escaped(_) | Value::Number(_) => value.text()?,
        _ => return Err(conversion_fault(value, ParseError::Type, "binary")),
    };
    if let Some(form) = context.binary_text()
        && !matches!(value, Value::Number(_))
        && !has_characters(declared)
    {
        if context.may_be_bits(&text) {
            let what = format!(
                "{} is ambiguous (base64 or the number of a bit column): declare the column in column_types",
                excerpt(&text)
            );
            return Err(Fault::new(Kind::Type, what));
        }
        out.extend_from_slice(&form.read(&text)?);
        pad_binary(context, out);
        return Ok(());
    }
    match declared.map(|declared| declared.family) {
        Some(TypeFamily::Bit) => bit_bytes(
            value,
            &text,
            declared.and_then(DeclaredType::length),
            context.declares_lengths,
            out,
        ),
        Some(TypeFamily::Binary) => {
            latin1(&text, out)?;
            pad_binary(context, out);
            Ok(())
        }
        Some(
            TypeFamily::Text
            | TypeFamily::Characters
            | TypeFamily::Enum
            | TypeFamily::Set
            | TypeFamily::Json,
        ) => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        Some(TypeFamily::Blob | TypeFamily::Geometry | TypeFamily::Unknown) | None
            if !matches!(value, Value::Number(_))
                && context.format != ValueFormat::BytesAndNumbers =>
        {
            latin1(&text, out)
        }
        _ => Err(conversion_fault(value, ParseError::Type, "binary")),
    }
}

/// Returns whether a column has text or digits. Their encoding differs from the encoding of bytes.
fn has_characters(declared: Option<&DeclaredType>) -> bool {
    use TypeFamily::{Binary, Blob, Geometry, Unknown};
    declared.is_some_and(|declared| !matches!(declared.family, Binary | Blob | Geometry | Unknown))
}

/// Restores the trailing zero bytes of a `binary(n)`, which producers strip. A type without a length is `binary(1)`.
fn pad_binary(context: &Context, out: &mut Vec<u8>) {
    let default = usize::from(context.declares_lengths);
    let declared = context
        .declared()
        .filter(|declared| declared.family == TypeFamily::Binary);
    let length = declared.map_or(0, |declared| declared.length().unwrap_or(default));
    out.resize(out.len().max(length.min(u8::MAX.into())), 0);
}

/// Returns the bytes of a `bit(n)`, big-endian.
#[allow(clippy::indexing_slicing, reason = "the start is at most 8")]
fn bit_bytes(
    value: &Value<'_>,
    text: &str,
    width: Option<usize>,
    default_is_one: bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    let width = match width {
        Some(width) => width,
        None if default_is_one => 1,
        None => {
            let what = "the message does not declare the length of this bit column; request bigint or decimal(20,0)";
            return Err(Fault::new(Kind::Type, what));
        }
    };
    let target = || format!("bit({width})");
    let number = integer(text).map_err(|error| conversion_fault(value, error, &target()))?;
    let number = u64::try_from(number)
        .ok()
        .filter(|number| width >= 64 || number >> width == 0);
    let bytes = number
        .ok_or_else(|| conversion_fault(value, ParseError::Range, &target()))?
        .to_be_bytes();
    out.extend_from_slice(&bytes[8usize.saturating_sub(width.div_ceil(8))..]);
    Ok(())
}

/// Appends the bytes of text whose characters U+0000 to U+00FF are the bytes.
fn latin1(text: &str, out: &mut Vec<u8>) -> Result<()> {
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    out.reserve(text.len());
    for c in text.chars() {
        let byte = u8::try_from(u32::from(c)).map_err(|_| {
            Fault::new(
                Kind::Encoding,
                format!(
                    "{} contains {c:?}, which is not a byte (U+0000 to U+00FF)",
                    excerpt(text)
                ),
            )
        })?;
        out.push(byte);
    }
    Ok(())
}

/// Returns whether a struct is `struct<srid int, wkb binary>`.
pub(super) fn is_geometry(fields: &Fields) -> bool {
    matches!(&**fields, [srid, wkb]
        if srid.name() == "srid" && wkb.name() == "wkb" && srid.data_type() == &DataType::Int32 && wkb.data_type() == &DataType::Binary)
}

/// Builder of geometries with their SRID.
pub(super) struct Geometries {
    fields: Fields,
    srids: Vec<i32>,
    wkbs: Bytes<i32>,
    nulls: Nulls,
    scratch: Vec<u8>,
}

impl Geometries {
    pub fn new(fields: Fields) -> Self {
        Geometries {
            fields,
            srids: Vec::new(),
            wkbs: Bytes::default(),
            nulls: Nulls::default(),
            scratch: Vec::new(),
        }
    }
}

impl ColumnBuilder for Geometries {
    fn push(&mut self, value: &Value<'_>, context: &Context) -> Result<()> {
        self.scratch.clear();
        if context
            .by_message
            .as_ref()
            .is_some_and(|declared| declared.encoding == Encoding::Wkb)
        {
            return Err(Fault::new(
                Kind::Type,
                "the message does not contain the geometry's SRID; request binary",
            ));
        }
        stored_bytes(value, context, &mut self.scratch)?;
        let (srid, wkb) = match self.scratch.split_first_chunk() {
            Some(parts) if !is_written_as_text(value) => parts,
            _ => stored_geometry(&self.scratch, value)?,
        };
        self.wkbs.push(wkb)?;
        self.srids.push(i32::from_le_bytes(*srid));
        Ok(())
    }

    fn push_nulls(&mut self, count: usize) {
        self.nulls.push(self.srids.len(), count);
        self.srids.resize(self.srids.len() + count, 0);
        self.wkbs.push_nulls(count);
    }

    fn truncate(&mut self, rows: usize) {
        self.srids.truncate(rows);
        self.wkbs.truncate(rows);
        self.nulls.truncate(rows);
    }

    fn bytes(&self) -> usize {
        self.wkbs.size() + size_of_val(self.srids.as_slice())
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let srids = std::mem::take(&mut self.srids);
        let nulls = self.nulls.finish_with_parent(srids.len(), parent);
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::try_new(srids.into(), nulls.clone())?),
            self.wkbs.finish::<BinaryType>(nulls.as_ref())?,
        ];
        Ok(Arc::new(StructArray::try_new(
            self.fields.clone(),
            arrays,
            nulls,
        )?))
    }
}
