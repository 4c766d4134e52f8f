//! Rows that are those of another array, but for some values of their own.

use arrow_array::{ArrayRef, new_null_array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave;

use super::{Bytes, Nulls};

/// A column whose values lie over those of a base column with the same rows.
pub(crate) struct Overlay<'o> {
    pub base: &'o ArrayRef,
    /// The rows that have a value of their own, in order.
    pub own_rows: &'o [u32],
    /// Of each row, where its value is, unless it is its own: in the base, or null as the whole row is.
    pub sources: &'o [(usize, usize)],
    /// Nulls of the whole rows.
    pub parent: Option<&'o NullBuffer>,
}

/// Indices of the arrays that rows are taken from.
const BASE: usize = 0;
const OWN: usize = 1;
const NULL: usize = 2;

/// Returns of each row where its value is, unless it is its own.
pub(crate) fn sources(rows: usize, parent: Option<&NullBuffer>) -> Vec<(usize, usize)> {
    let source = |row| if parent.is_some_and(|parent| parent.is_null(row)) { (NULL, 0) } else { (BASE, row) };
    (0..rows).map(source).collect()
}

impl Overlay<'_> {
    /// Whether every row that is not null has a value of its own.
    pub fn is_complete(&self) -> bool {
        self.own_rows.len() + self.parent.map_or(0, NullBuffer::null_count) == self.sources.len()
    }

    /// Takes each row from the base or from the values of its own. Arrow does not check UTF-8 again.
    pub fn interleave(&self, own: ArrayRef) -> Result<ArrayRef, ArrowError> {
        let mut sources = self.sources.to_vec();
        for (at, row) in self.own_rows.iter().enumerate() {
            sources.get_mut(*row as usize).into_iter().for_each(|source| *source = (OWN, at));
        }
        let null = new_null_array(own.data_type(), 1);
        interleave(&[self.base.as_ref(), own.as_ref(), null.as_ref()], &sources).map_err(|error| match error {
            ArrowError::OffsetOverflowError(_) => ArrowError::InvalidArgumentError(Bytes::<i32>::too_large()),
            error => error,
        })
    }

    /// Replaces the base's values by those of the rows' own.
    pub fn scatter<T: Copy>(&self, base: &[T], own: &[T]) -> Vec<T> {
        let mut values = base.to_vec();
        for (row, value) in self.own_rows.iter().zip(own) {
            values.get_mut(*row as usize).into_iter().for_each(|slot| *slot = *value);
        }
        values
    }

    /// The nulls of [`Overlay::scatter`].
    pub fn nulls(&self, own: &Nulls) -> Option<NullBuffer> {
        if self.base.nulls().is_none() && own.count() == 0 {
            return self.parent.cloned();
        }
        let mut valid = BooleanBufferBuilder::new(self.sources.len());
        match self.base.nulls() {
            Some(nulls) => valid.append_buffer(nulls.inner()),
            None => valid.append_n(self.sources.len(), true),
        }
        self.own_rows.iter().for_each(|row| valid.set_bit(*row as usize, true));
        for row in own.rows().filter_map(|at| self.own_rows.get(at)) {
            valid.set_bit(*row as usize, false);
        }
        NullBuffer::union(Some(&NullBuffer::new(valid.finish())), self.parent)
    }
}
