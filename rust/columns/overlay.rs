//! Rows of another array, in which some rows have values of their own.

use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave;

use super::{Bytes, Nulls};

/// A column whose values replace some values of a base column with the same rows.
pub(crate) struct Overlay<'o> {
    pub base: &'o ArrayRef,
    /// Rows with a value of their own, in order.
    pub own_rows: &'o [u32],
    /// Rows that are not null as a whole, in order: rows with their own value, and rows with the base's value.
    pub valid_rows: &'o [u32],
    /// Nulls of the whole rows.
    pub parent: Option<&'o NullBuffer>,
}

/// Takes each row from one of several arrays. A source is the index of an array, and the index of a row in it.
pub(crate) fn interleave_arrays(
    arrays: &[&dyn Array],
    sources: &[(usize, usize)],
) -> Result<ArrayRef, ArrowError> {
    interleave(arrays, sources).map_err(|error| match error {
        ArrowError::OffsetOverflowError(_) => {
            ArrowError::InvalidArgumentError(Bytes::<i32>::too_large())
        }
        error => error,
    })
}

/// Origin of a row's value.
pub(super) enum Origin {
    Base(usize),
    Own(usize),
}

/// Indices of the arrays from which rows are taken.
const BASE: usize = 0;
const OWN: usize = 1;
const NULL: usize = 2;

impl Overlay<'_> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.base.len()
    }

    /// Returns whether no row has the base's value.
    pub fn is_complete(&self) -> bool {
        self.own_rows.len() == self.valid_rows.len()
    }

    /// Returns whether most rows have a value.
    pub fn is_dense(&self) -> bool {
        self.valid_rows.len() * 2 > self.len()
    }

    /// Iterates over the rows that are not null as a whole.
    pub(super) fn origins(&self) -> impl Iterator<Item = (usize, Origin)> {
        let mut own_rows = self.own_rows.iter().enumerate().peekable();
        self.valid_rows.iter().map(move |row| {
            let own = own_rows.next_if(|(_, own_row)| *own_row == row);
            (
                *row as usize,
                own.map_or(Origin::Base(*row as usize), |(at, _)| Origin::Own(at)),
            )
        })
    }

    /// Takes each row from the base or from the rows' own values.
    #[allow(
        clippy::indexing_slicing,
        reason = "own and valid rows are rows of the base"
    )]
    pub fn interleave(&self, own: ArrayRef) -> Result<ArrayRef, ArrowError> {
        let mut sources = vec![(NULL, 0); self.len()];
        for (row, origin) in self.origins() {
            let source = match origin {
                Origin::Base(at) => (BASE, at),
                Origin::Own(at) => (OWN, at),
            };
            sources[row] = source;
        }
        let null = new_null_array(own.data_type(), 1);
        interleave_arrays(&[self.base.as_ref(), own.as_ref(), null.as_ref()], &sources)
    }

    /// Replaces the base's values by the rows' own values.
    #[allow(clippy::indexing_slicing, reason = "own rows are rows of the base")]
    pub fn scatter<T: Copy>(&self, base: &[T], own: &[T]) -> Vec<T> {
        debug_assert_eq!(own.len(), self.own_rows.len());
        let mut values = base.to_vec();
        for (row, value) in self.own_rows.iter().zip(own) {
            values[*row as usize] = *value;
        }
        values
    }

    /// Returns the nulls of all rows. `own` has the nulls of the rows' own values.
    #[allow(clippy::indexing_slicing, reason = "each value has its row")]
    pub fn nulls(&self, own: &Nulls) -> Option<NullBuffer> {
        let base = if self.is_complete() {
            None
        } else {
            self.base.nulls()
        };
        if base.is_none() && own.count() == 0 {
            return self.parent.cloned();
        }
        let mut valid = BooleanBufferBuilder::new(self.len());
        match base {
            Some(nulls) => {
                valid.append_buffer(nulls.inner());
                self.own_rows
                    .iter()
                    .for_each(|row| valid.set_bit(*row as usize, true));
            }
            None => valid.append_n(self.len(), true),
        }
        for at in own.rows() {
            valid.set_bit(self.own_rows[at] as usize, false);
        }
        NullBuffer::union(Some(&NullBuffer::new(valid.finish())), self.parent)
    }
}
