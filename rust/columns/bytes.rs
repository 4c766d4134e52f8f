//! Values of variable length, one behind the other.

use std::sync::Arc;

use arrow_array::{ArrayRef, GenericBinaryArray, GenericStringArray, OffsetSizeTrait};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::ArrowError;

use super::Forecast;
use super::nulls::Nulls;
use crate::error::{Fault, Kind, Result};
use crate::wire::{escape, json};

/// What a string or binary array is made of. Unlike Arrow's builders, it can be truncated and read.
pub(crate) struct Bytes<O: OffsetSizeTrait> {
    bytes: Vec<u8>,
    /// Where each value ends; before the first, 0.
    ends: Vec<O>,
    nulls: Nulls,
}

impl<O: OffsetSizeTrait> Default for Bytes<O> {
    fn default() -> Self {
        Bytes { bytes: Vec::new(), ends: vec![O::default()], nulls: Nulls::default() }
    }
}

impl<O: OffsetSizeTrait> Bytes<O> {
    /// The most bytes that the offsets can count.
    const LIMIT: usize = if O::IS_LARGE { usize::MAX >> 1 } else { i32::MAX as usize };

    /// How many values there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// Whether so many more bytes can be held.
    #[inline]
    pub fn has_room(&self, more: usize) -> bool {
        self.bytes.len().saturating_add(more) <= Self::LIMIT
    }

    /// Appends a value, if the offsets can count it.
    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Result<()> {
        self.check_room(value.len())?;
        self.bytes.extend_from_slice(value);
        self.end();
        Ok(())
    }

    /// Appends a value so many times, if the offsets can count all of them.
    pub fn push_repeated(&mut self, value: &[u8], count: usize) -> Result<()> {
        self.check_room(value.len().saturating_mul(count))?;
        let start = self.bytes.len();
        self.bytes.reserve(value.len() * count);
        (0..count).for_each(|_| self.bytes.extend_from_slice(value));
        self.ends.extend((1..=count).map(|copies| O::usize_as(start + copies * value.len())));
        Ok(())
    }

    /// Appends several values at once, which end at these places of `values`.
    pub fn push_all(&mut self, values: &[u8], ends: &[usize]) -> Result<()> {
        self.check_room(values.len())?;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(values);
        self.ends.extend(ends.iter().map(|end| O::usize_as(start + end)));
        Ok(())
    }

    /// Appends the text of a JSON string that has escapes.
    pub fn push_unescaped(&mut self, raw: &str) -> Result<()> {
        self.check_room(raw.len())?;
        let start = self.bytes.len();
        let unescaped = escape::unescape(raw, |piece| self.bytes.extend_from_slice(piece.as_bytes()));
        unescaped.inspect_err(|_| self.bytes.truncate(start))?;
        self.end();
        Ok(())
    }

    /// Appends the JSON string that begins at `at`, behind its quote, if it has no escapes. Returns where its closing quote is.
    ///
    /// The first block is copied before it is known how much of it belongs to the string: a copy of fixed length is two
    /// instructions, and most strings are short.
    #[inline]
    pub fn read(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let block = json::block_at(text, at)?;
        let special = json::special_in(&block);
        if special == 0 {
            return self.read_long(text, at);
        }
        let length = special.trailing_zeros() as usize;
        if block.get(length) != Some(&b'"') || !self.has_room(block.len()) {
            return None;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&block);
        self.bytes.truncate(start + length);
        self.end();
        Some(at + length)
    }

    /// A string that is longer than a block.
    #[inline(never)]
    fn read_long(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let end = json::special(text, at + 16);
        let string = text.get(at..end).filter(|string| text.get(end) == Some(&b'"') && self.has_room(string.len()))?;
        self.bytes.extend_from_slice(string);
        self.end();
        Some(end)
    }

    #[inline]
    fn end(&mut self) {
        self.ends.push(O::usize_as(self.bytes.len()));
    }

    fn check_room(&self, more: usize) -> Result<()> {
        if self.has_room(more) {
            return Ok(());
        }
        let what = format!("the batch's values would exceed {} bytes; decode fewer messages at once, or ask a large type", Self::LIMIT);
        Err(Fault::new(Kind::Size, what))
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
        if count == 1 { self.ends.push(end) } else { self.ends.resize(self.ends.len() + count, end) }
    }

    /// Appends a value of another column, or of this one.
    #[inline]
    pub fn copy(&mut self, other: &Self, row: usize) {
        match other.get(row) {
            Some(value) if self.has_room(value.len()) => {
                self.bytes.extend_from_slice(value);
                self.end();
            }
            _ => self.push_nulls(1),
        }
    }

    /// A value that is not null.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        if self.nulls.contains(row) {
            return None;
        }
        self.bytes.get(self.ends.get(row)?.as_usize()..self.ends.get(row + 1)?.as_usize())
    }

    /// Makes room for what is to come.
    pub fn reserve(&mut self, forecast: Forecast) {
        forecast.reserve(&mut self.bytes);
        forecast.reserve(&mut self.ends);
    }

    #[inline]
    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        self.bytes.truncate(self.ends.last().map_or(0, |end| end.as_usize()));
        self.nulls.truncate(rows);
    }

    fn take(&mut self, parent: Option<&NullBuffer>) -> (OffsetBuffer<O>, Buffer, Option<NullBuffer>) {
        let nulls = self.nulls.finish_within(self.len(), parent);
        let Bytes { bytes, ends, .. } = std::mem::take(self);
        (OffsetBuffer::new(ends.into()), Buffer::from_vec(bytes), nulls)
    }

    /// Takes the values as strings, null where the struct that they are in is null.
    pub fn finish_text(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        // Nothing to check: many columns of the envelope are those of other producers.
        if self.nulls.are_all(self.len()) {
            let rows = std::mem::take(self).len();
            return Ok(Arc::new(GenericStringArray::<O>::new_null(rows)));
        }
        let (ends, bytes, nulls) = self.take(parent);
        Ok(Arc::new(GenericStringArray::<O>::try_new(ends, bytes, nulls)?))
    }

    /// Takes the values as bytes, null where the struct that they are in is null.
    pub fn finish_binary(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let (ends, bytes, nulls) = self.take(parent);
        Ok(Arc::new(GenericBinaryArray::<O>::try_new(ends, bytes, nulls)?))
    }
}
