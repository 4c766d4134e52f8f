//! Offsets of lists and maps.

use std::ops::Range;

use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::ArrowError;

use super::Forecast;
use super::nulls::Nulls;

/// Offset buffer and nulls of lists or maps.
pub(crate) struct Offsets {
    /// The offset 0, then the end of each row's elements.
    offsets: Vec<i32>,
    nulls: Nulls,
    /// True if elements were lost because they did not fit. The array then cannot be finished.
    has_overflowed: bool,
}

impl Default for Offsets {
    fn default() -> Self {
        Offsets {
            offsets: vec![0],
            nulls: Nulls::default(),
            has_overflowed: false,
        }
    }
}

impl Offsets {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of elements.
    pub fn end(&self) -> usize {
        self.elements(0..self.len()).end
    }

    /// Returns the bytes of the offsets.
    pub fn bytes(&self) -> usize {
        size_of_val(self.offsets.as_slice())
    }

    /// Reserves capacity for the forecast rows.
    pub fn reserve(&mut self, forecast: Forecast) {
        forecast.reserve(&mut self.offsets);
    }

    /// Appends a row. `end` counts all elements, including the row's own.
    #[inline]
    pub fn push(&mut self, end: usize) {
        let offset = i32::try_from(end);
        self.has_overflowed |= offset.is_err();
        self.offsets.push(offset.unwrap_or(i32::MAX));
    }

    /// Appends null rows.
    pub fn push_nulls(&mut self, count: usize) {
        self.nulls.push(self.len(), count);
        let end = self.end() as i32;
        self.offsets.resize(self.offsets.len() + count, end);
    }

    /// Returns the elements of some rows. Null rows at the end of a table are not appended yet, so they have no
    /// elements.
    #[allow(clippy::indexing_slicing, reason = "there is an offset more than rows")]
    pub fn elements(&self, rows: Range<usize>) -> Range<usize> {
        let offset = |row: usize| self.offsets[row.min(self.len())] as usize;
        offset(rows.start)..offset(rows.end)
    }

    /// Truncates to the first `rows` rows. Returns the number of their elements.
    pub fn truncate(&mut self, rows: usize) -> usize {
        self.offsets.truncate(rows + 1);
        self.nulls.truncate(rows);
        self.end()
    }

    pub fn too_large() -> String {
        format!(
            "the batch's lists or maps would exceed {} elements; decode fewer messages at once",
            i32::MAX
        )
    }

    /// Finishes the buffers, null where the parent struct is null.
    pub fn take(
        &mut self,
        parent: Option<&NullBuffer>,
    ) -> Result<(OffsetBuffer<i32>, Option<NullBuffer>), ArrowError> {
        let Offsets {
            offsets,
            mut nulls,
            has_overflowed,
        } = std::mem::take(self);
        if has_overflowed {
            return Err(ArrowError::InvalidArgumentError(Self::too_large()));
        }
        let nulls = nulls.finish_with_parent(offsets.len() - 1, parent);
        Ok((OffsetBuffer::new(offsets.into()), nulls))
    }
}
