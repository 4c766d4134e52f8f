//! Builder of variable-length values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, GenericBinaryType, GenericStringType};
use arrow_array::{ArrayRef, GenericByteArray, GenericStringArray, OffsetSizeTrait};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::ArrowError;

use super::Forecast;
use super::nulls::Nulls;
use super::overlay::{Origin, Overlay};
use crate::error::{Fault, Kind, Result};
use crate::mysql::number::Window;
use crate::mysql::short_text::ShortText;
use crate::wire::{escape, json};

/// Values, offsets and nulls of a string or binary array. Unlike Arrow's builders, it can be truncated and read.
pub(crate) struct Bytes<O: OffsetSizeTrait> {
    bytes: Vec<u8>,
    /// Offset buffer: 0, then the end of each value.
    offsets: Vec<O>,
    nulls: Nulls,
    /// Whether a value was lost that did not fit: the array cannot be finished.
    has_overflowed: bool,
}

impl<O: OffsetSizeTrait> Default for Bytes<O> {
    fn default() -> Self {
        Bytes { bytes: Vec::new(), offsets: vec![O::default()], nulls: Nulls::default(), has_overflowed: false }
    }
}

impl<O: OffsetSizeTrait> Bytes<O> {
    /// Maximum bytes that the offset type can address.
    const LIMIT: usize = if O::IS_LARGE { usize::MAX >> 1 } else { i32::MAX as usize };

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether `more` bytes stay within the limit of the offset type.
    #[inline]
    pub fn has_capacity(&self, more: usize) -> bool {
        self.bytes.len().saturating_add(more) <= Self::LIMIT
    }

    /// Appends a value, unless the offsets overflow.
    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Result<()> {
        self.check_capacity(value.len())?;
        self.bytes.extend_from_slice(value);
        self.end_value();
        Ok(())
    }

    /// Records that a value does not fit.
    #[cold]
    fn overflow(&mut self) {
        self.has_overflowed = true;
    }

    /// Appends consecutive values at once; `ends` are their ends in `values`.
    pub fn push_all(&mut self, values: &[u8], ends: &[usize]) -> Result<()> {
        self.check_capacity(values.len())?;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(values);
        self.offsets.extend(ends.iter().map(|end| O::usize_as(start + end)));
        Ok(())
    }

    /// Appends the unescaped text of a JSON string.
    pub fn push_unescaped(&mut self, raw: &str) -> Result<()> {
        self.check_capacity(raw.len())?;
        let start = self.bytes.len();
        let unescaped = escape::unescape(raw, |piece| self.bytes.extend_from_slice(piece.as_bytes()));
        unescaped.inspect_err(|_| self.bytes.truncate(start))?;
        self.end_value();
        Ok(())
    }

    /// Appends the JSON string whose first character is at `at`, if it has no escapes. Returns the position of its closing quote.
    ///
    /// Copies the first block before the string's length is known: a fixed-length copy is two instructions, and most strings are
    /// short.
    #[inline]
    pub fn read(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let Some(block) = text.get(at..)?.first_chunk::<32>() else { return self.read_long(text, at, at) };
        let special = json::special_in_32(block);
        if special == 0 {
            return self.read_long(text, at, at + block.len());
        }
        let length = special.trailing_zeros() as usize;
        if block.get(length) != Some(&b'"') || !self.has_capacity(block.len()) {
            return None;
        }
        self.push_first_of(block, length);
        Some(at + length)
    }

    /// Appends the first `length` bytes of a block that fits.
    #[inline(always)]
    fn push_first_of(&mut self, block: &Window, length: usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(block);
        self.bytes.truncate(start + length);
        self.end_value();
    }

    /// Appends a short text, unless the offsets overflow.
    #[inline]
    pub fn push_short(&mut self, text: ShortText<'_>) -> Result<()> {
        if !self.has_capacity(size_of::<Window>()) {
            return self.push(text.bytes());
        }
        self.push_first_of(text.window(), text.length());
        Ok(())
    }

    /// Reads a string that does not end before `from`, or is near the end of the text.
    #[inline(never)]
    fn read_long(&mut self, text: &[u8], at: usize, from: usize) -> Option<usize> {
        let end = json::special(text, from);
        let string = text.get(at..end).filter(|string| text.get(end) == Some(&b'"') && self.has_capacity(string.len()))?;
        self.bytes.extend_from_slice(string);
        self.end_value();
        Some(end)
    }

    #[inline]
    fn end_value(&mut self) {
        self.offsets.push(O::usize_as(self.bytes.len()));
    }

    fn check_capacity(&self, more: usize) -> Result<()> {
        if self.has_capacity(more) {
            return Ok(());
        }
        Err(Fault::new(Kind::Size, Self::too_large()))
    }

    pub fn too_large() -> String {
        format!("the batch's values would exceed {} bytes; decode fewer messages at once, or ask a large type", Self::LIMIT)
    }

    fn check_overflow(&self) -> Result<(), ArrowError> {
        if self.has_overflowed { Err(ArrowError::InvalidArgumentError(Self::too_large())) } else { Ok(()) }
    }

    #[inline]
    pub fn push_nulls(&mut self, count: usize) {
        self.nulls.push(self.len(), count);
        self.pad(count);
    }

    /// Appends empty values.
    #[inline]
    pub fn pad(&mut self, count: usize) {
        let end = O::usize_as(self.bytes.len());
        if count == 1 { self.offsets.push(end) } else { self.offsets.resize(self.offsets.len() + count, end) }
    }

    /// Returns the bytes of the values and their offsets.
    pub fn size(&self) -> usize {
        self.bytes.len() + size_of_val(self.offsets.as_slice())
    }

    /// Reserves capacity for the forecast values.
    pub fn reserve(&mut self, forecast: Forecast) {
        forecast.reserve(&mut self.bytes);
        forecast.reserve(&mut self.offsets);
    }

    #[inline]
    pub fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.bytes.truncate(self.offsets.last().map_or(0, |end| end.as_usize()));
        self.nulls.truncate(rows);
    }

    /// Copies the overlay's values of the base between these values.
    fn fill_in<T: ByteArrayType<Offset = O>>(&mut self, base: &GenericByteArray<T>, overlay: &Overlay<'_>) {
        let own = std::mem::take(self);
        self.has_overflowed = own.has_overflowed;
        self.bytes.reserve(own.bytes.len());
        self.offsets.reserve(overlay.len());
        for (row, origin) in overlay.origins() {
            self.pad(row - self.len());
            match origin {
                Origin::Base(at) => self.push_part(base.value_data(), base.value_offsets(), at),
                Origin::Own(at) => self.push_part(&own.bytes, &own.offsets, at),
            }
        }
        self.pad(overlay.len() - self.len());
    }

    /// Puts empty values between these values, so that each is in its row.
    fn spread(&mut self, overlay: &Overlay<'_>) {
        let mut offsets = Vec::with_capacity(overlay.len() + 1);
        for (row, start) in overlay.own_rows.iter().zip(&self.offsets) {
            offsets.resize(*row as usize + 1, *start);
        }
        offsets.resize(overlay.len() + 1, O::usize_as(self.bytes.len()));
        self.offsets = offsets;
    }

    /// Appends a value of an array, by its offsets.
    #[inline(always)]
    #[allow(clippy::indexing_slicing, reason = "rows of an overlay are rows of its arrays")]
    fn push_part(&mut self, bytes: &[u8], offsets: &[O], at: usize) {
        debug_assert!(at + 1 < offsets.len());
        let (start, end) = (offsets[at].as_usize(), offsets[at + 1].as_usize());
        match bytes.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
            // As in `read`.
            Some(block) if end - start <= block.len() && self.has_capacity(block.len()) => {
                let length = self.bytes.len() + end - start;
                self.bytes.extend_from_slice(block);
                self.bytes.truncate(length);
            }
            _ => {
                let part = &bytes[start..end];
                if !self.has_capacity(part.len()) {
                    self.overflow();
                    return self.pad(1);
                }
                self.bytes.extend_from_slice(part);
            }
        }
        self.end_value();
    }

    /// Finishes a string array, null where the parent struct is null.
    pub fn finish_text(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        self.check_overflow()?;
        // An all-null array needs no UTF-8 validation: many envelope columns belong to other producers.
        if self.nulls.all_null(self.len()) {
            let rows = std::mem::take(self).len();
            return Ok(Arc::new(GenericStringArray::<O>::new_null(rows)));
        }
        let nulls = self.nulls.finish_with_parent(self.len(), parent);
        self.array::<GenericStringType<O>>(nulls)
    }

    /// Finishes the array of an overlay.
    pub fn finish_over<T: ByteArrayType<Offset = O>>(&mut self, overlay: &Overlay<'_>) -> Result<ArrayRef, ArrowError> {
        let nulls = overlay.nulls(&self.nulls);
        match overlay.base.as_bytes_opt::<T>() {
            // Arrow checks the UTF-8 of its own kernel's output no more, which outweighs what it costs for each row, null or not.
            Some(_) if overlay.is_dense() && !overlay.is_complete() => {
                let nulls = self.nulls.finish(self.len());
                return overlay.interleave(self.array::<T>(nulls)?);
            }
            Some(base) if !overlay.is_complete() => self.fill_in(base, overlay),
            _ => self.spread(overlay),
        }
        self.array::<T>(nulls)
    }

    fn array<T: ByteArrayType<Offset = O>>(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        self.check_overflow()?;
        let Bytes { bytes, offsets, .. } = std::mem::take(self);
        let offsets = OffsetBuffer::new(offsets.into());
        Ok(Arc::new(GenericByteArray::<T>::try_new(offsets, Buffer::from_vec(bytes), nulls)?))
    }

    /// Finishes a binary array, null where the parent struct is null.
    pub fn finish_binary(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish_with_parent(self.len(), parent);
        self.array::<GenericBinaryType<O>>(nulls)
    }
}
