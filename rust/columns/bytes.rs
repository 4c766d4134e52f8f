//! Builder of variable-length values.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, GenericByteBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, GenericBinaryType, GenericStringType};
use arrow_array::{ArrayRef, BooleanArray, GenericByteArray, OffsetSizeTrait};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::ArrowError;
use arrow_select::nullif::nullif;

use super::Forecast;
use super::nulls::Nulls;
use super::overlay::{Origin, Overlay};
use crate::error::{Fault, Kind, Result};
use crate::mysql::number::Window;
use crate::mysql::short_text::ShortText;
use crate::wire::{escape, json};

/// Values, offsets and nulls of a string or binary array. Unlike Arrow's builders, it supports truncating and reading.
pub(crate) struct Bytes<O: OffsetSizeTrait> {
    bytes: Vec<u8>,
    /// Offset buffer: 0, then the end of each value.
    offsets: Vec<O>,
    nulls: Nulls,
}

impl<O: OffsetSizeTrait> Default for Bytes<O> {
    fn default() -> Self {
        Bytes {
            bytes: Vec::new(),
            offsets: vec![O::default()],
            nulls: Nulls::default(),
        }
    }
}

impl<O: OffsetSizeTrait> Bytes<O> {
    /// Maximum number of bytes that the offset type can address.
    const LIMIT: usize = if O::IS_LARGE {
        usize::MAX >> 1
    } else {
        i32::MAX as usize
    };

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether `more` bytes stay within the limit of the offset type.
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

    /// Appends consecutive values at once. `ends` are their ends in `values`.
    pub fn push_all(&mut self, values: &[u8], ends: &[usize]) -> Result<()> {
        self.check_capacity(values.len())?;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(values);
        self.offsets
            .extend(ends.iter().map(|end| O::usize_as(start + end)));
        Ok(())
    }

    /// Appends the unescaped text of a JSON string.
    pub fn push_unescaped(&mut self, raw: &str) -> Result<()> {
        self.check_capacity(raw.len())?;
        let start = self.bytes.len();
        let unescaped =
            escape::unescape(raw, |piece| self.bytes.extend_from_slice(piece.as_bytes()));
        unescaped.inspect_err(|_| self.bytes.truncate(start))?;
        self.end_value();
        Ok(())
    }

    /// Appends the JSON string whose first character is at `at`, if it has no escapes. Returns the position of its
    /// closing quote.
    ///
    /// Copies the first block before the string's length is known. Most strings are short, and a fixed-length copy is
    /// two instructions.
    #[inline]
    pub fn read(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let Some(block) = text.get(at..)?.first_chunk::<32>() else {
            return self.read_long(text, at, at);
        };
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

    /// Reads a string that does not end before `from`, or that is near the end of the text.
    #[inline(never)]
    fn read_long(&mut self, text: &[u8], at: usize, from: usize) -> Option<usize> {
        let end = json::special(text, from);
        let string = text
            .get(at..end)
            .filter(|string| text.get(end) == Some(&b'"') && self.has_capacity(string.len()))?;
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
        format!(
            "the batch's values would exceed {} bytes; decode fewer messages at once, or request large_string or large_binary",
            Self::LIMIT
        )
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
        if count == 1 {
            self.offsets.push(end)
        } else {
            self.offsets.resize(self.offsets.len() + count, end)
        }
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
    #[allow(
        clippy::indexing_slicing,
        reason = "there is an offset more than values"
    )]
    pub fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.bytes.truncate(self.offsets[self.len()].as_usize());
        self.nulls.truncate(rows);
    }

    /// Copies these values and the base's values in the overlay, each to its row.
    #[allow(
        clippy::indexing_slicing,
        reason = "rows of an overlay are rows of its arrays"
    )]
    fn merge<T: FromBytes<Offset = O>>(
        &self,
        base: &GenericByteArray<T>,
        overlay: &Overlay<'_>,
    ) -> Result<ArrayRef, ArrowError> {
        let own = T::whole(&self.bytes).ok_or_else(no_text)?;
        let mut merged = GenericByteBuilder::<T>::with_capacity(overlay.len(), self.bytes.len());
        for (row, origin) in overlay.origins() {
            merged.append_nulls(row - merged.len());
            let value = match origin {
                Origin::Base(at) => base.value(at),
                Origin::Own(at) => T::part(
                    own,
                    self.offsets[at].as_usize()..self.offsets[at + 1].as_usize(),
                )
                .ok_or_else(no_text)?,
            };
            let length = AsRef::<[u8]>::as_ref(value).len();
            if merged.values_slice().len().saturating_add(length) > Self::LIMIT {
                return Err(ArrowError::InvalidArgumentError(Self::too_large()));
            }
            merged.append_value(value);
        }
        merged.append_nulls(overlay.len() - merged.len());
        with_nulls(Arc::new(merged.finish()), overlay.nulls(&self.nulls))
    }

    /// Inserts empty values between these values, so that each value is in its row.
    fn spread(&mut self, overlay: &Overlay<'_>) {
        debug_assert_eq!(self.len(), overlay.own_rows.len());
        let mut offsets = Vec::with_capacity(overlay.len() + 1);
        for (row, start) in overlay.own_rows.iter().zip(&self.offsets) {
            offsets.resize(*row as usize + 1, *start);
        }
        offsets.resize(overlay.len() + 1, O::usize_as(self.bytes.len()));
        self.offsets = offsets;
    }

    /// Finishes the array, null where the parent struct is null.
    pub fn finish<T: FromBytes<Offset = O>>(
        &mut self,
        parent: Option<&NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        // An all-null array needs no UTF-8 validation. Many envelope columns belong to other producers.
        if self.nulls.all_null(self.len()) {
            let rows = std::mem::take(self).len();
            return Ok(Arc::new(GenericByteArray::<T>::new_null(rows)));
        }
        let nulls = self.nulls.finish_with_parent(self.len(), parent);
        self.array::<T>(nulls)
    }

    /// Finishes the array of an overlay.
    pub fn finish_over<T: FromBytes<Offset = O>>(
        &mut self,
        overlay: &Overlay<'_>,
    ) -> Result<ArrayRef, ArrowError> {
        // If all values are these, they need no copy, provided that Arrow checks them quickly.
        let keeps_values = overlay.is_complete() && T::has_quick_check(&self.bytes, self.len());
        match overlay.base.as_bytes_opt::<T>() {
            // Arrow's own kernel does not append value by value, but it also visits null rows.
            Some(_) if !keeps_values && overlay.is_dense() => {
                let nulls = self.nulls.finish(self.len());
                overlay.interleave(self.array::<T>(nulls)?)
            }
            Some(base) if !keeps_values => std::mem::take(self).merge::<T>(base, overlay),
            _ => {
                let nulls = overlay.nulls(&self.nulls);
                self.spread(overlay);
                self.array::<T>(nulls)
            }
        }
    }

    fn array<T: FromBytes<Offset = O>>(
        &mut self,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let Bytes { bytes, offsets, .. } = std::mem::take(self);
        T::array(bytes, offsets, nulls)
    }
}

/// Types of arrays with bytes and offsets.
pub(crate) trait FromBytes: ByteArrayType + Sized {
    /// Returns all values as one; `None` if they must be text but are not.
    fn whole(bytes: &[u8]) -> Option<&Self::Native>;

    /// Returns whether Arrow's own check of an array of `count` values costs less than appending each value. It does
    /// for ASCII text and for short text.
    fn has_quick_check(bytes: &[u8], count: usize) -> bool;

    /// Returns a value within the whole.
    fn part(whole: &Self::Native, range: Range<usize>) -> Option<&Self::Native>;

    /// Returns the array. Checks values without a quick check here, and then passes them to Arrow's builder as text.
    fn array(
        bytes: Vec<u8>,
        offsets: Vec<Self::Offset>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        if Self::has_quick_check(&bytes, offsets.len()) {
            return Ok(Arc::new(GenericByteArray::<Self>::try_new(
                OffsetBuffer::new(offsets.into()),
                Buffer::from_vec(bytes),
                nulls,
            )?));
        }
        let whole = Self::whole(&bytes).ok_or_else(no_text)?;
        let mut values = GenericByteBuilder::<Self>::with_capacity(offsets.len(), bytes.len());
        for (start, end) in offsets.iter().zip(offsets.iter().skip(1)) {
            values.append_value(
                Self::part(whole, start.as_usize()..end.as_usize()).ok_or_else(no_text)?,
            );
        }
        with_nulls(Arc::new(values.finish()), nulls)
    }
}

impl<O: OffsetSizeTrait> FromBytes for GenericBinaryType<O> {
    fn whole(bytes: &[u8]) -> Option<&[u8]> {
        Some(bytes)
    }

    fn has_quick_check(_: &[u8], _: usize) -> bool {
        true
    }

    fn part(whole: &[u8], range: Range<usize>) -> Option<&[u8]> {
        whole.get(range)
    }
}

impl<O: OffsetSizeTrait> FromBytes for GenericStringType<O> {
    fn whole(bytes: &[u8]) -> Option<&str> {
        simdutf8::basic::from_utf8(bytes).ok()
    }

    fn has_quick_check(bytes: &[u8], count: usize) -> bool {
        bytes.len() < SHORT * count || bytes.is_ascii()
    }

    fn part(whole: &str, range: Range<usize>) -> Option<&str> {
        whole.get(range)
    }
}

/// Mean length of texts below which Arrow's check costs less than appending each text: some 100 instructions.
const SHORT: usize = 48;

/// Returns the array with more nulls.
fn with_nulls(array: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    match nulls {
        Some(nulls) => nullif(&array, &BooleanArray::new(!nulls.inner(), None)),
        None => Ok(array),
    }
}

#[cold]
fn no_text() -> ArrowError {
    ArrowError::InvalidArgumentError("the values of a text column are not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use arrow_array::GenericStringArray;
    use arrow_array::types::Utf8Type;

    use super::*;

    #[test]
    fn arrays_of_texts_have_their_values_and_nulls() {
        let long = "中文".repeat(100);
        for texts in [
            ["a", "", "zwölf", &long],
            ["a", "", "zwölf", "中文"],
            ["a", "", "twelve", "text"],
        ] {
            let (mut bytes, mut expected) = (Bytes::<i32>::default(), Vec::new());
            for at in 0..40 {
                let text = if at % 7 > 0 {
                    Some(texts[at % 4])
                } else {
                    None
                };
                match text {
                    Some(text) => bytes.push(text.as_bytes()).unwrap(),
                    None => bytes.push_nulls(1),
                }
                expected.push(if at % 3 > 0 { text } else { None });
            }
            let parent = NullBuffer::from_iter((0..40).map(|at| at % 3 > 0));
            let found = bytes.finish::<Utf8Type>(Some(&parent)).unwrap();
            assert_eq!(
                found.as_string::<i32>(),
                &GenericStringArray::<i32>::from(expected)
            );
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error() {
        // A character split between two values, and a broken character.
        for values in [[&b"\xC3"[..], &b"\xA4"[..]], [b"a\xFF", b"b"]] {
            let mut bytes = Bytes::<i32>::default();
            values.iter().for_each(|value| bytes.push(value).unwrap());
            assert!(bytes.finish::<Utf8Type>(None).is_err());
        }
    }
}
