//! Which rows of a column are null.

use std::ops::Range;

use arrow_buffer::{BooleanBufferBuilder, NullBuffer};

/// Runs of null rows: most columns have few, and a valid row costs nothing.
#[derive(Default)]
pub(crate) struct Nulls {
    runs: Vec<Range<usize>>,
}

impl Nulls {
    /// Marks `count` rows from `row` on, which are the column's next.
    #[inline]
    pub fn push(&mut self, row: usize, count: usize) {
        match self.runs.last_mut() {
            Some(last) if last.end == row => last.end += count,
            _ => self.runs.push(row..row + count),
        }
    }

    /// Forgets the rows from `rows` on.
    #[inline]
    pub fn truncate(&mut self, rows: usize) {
        while let Some(last) = self.runs.last_mut().filter(|last| last.end > rows) {
            if last.start < rows {
                last.end = rows;
                return;
            }
            self.runs.pop();
        }
    }

    /// Whether a row is null.
    #[inline]
    pub fn contains(&self, row: usize) -> bool {
        match self.runs.last() {
            Some(last) if last.start <= row => row < last.end,
            Some(_) => {
                let later = self.runs.partition_point(|run| run.start <= row);
                later.checked_sub(1).and_then(|at| self.runs.get(at)).is_some_and(|run| row < run.end)
            }
            None => false,
        }
    }

    /// Whether all of so many rows are null.
    pub fn are_all(&self, rows: usize) -> bool {
        matches!(self.runs.as_slice(), [run] if *run == (0..rows))
    }

    /// Takes the nulls of a column with so many rows, those of the struct that it is in among them.
    pub fn finish_within(&mut self, rows: usize, parent: Option<&NullBuffer>) -> Option<NullBuffer> {
        match self.finish(rows) {
            None => parent.cloned(),
            own => NullBuffer::union(own.as_ref(), parent),
        }
    }

    /// Takes the nulls of a column with so many rows.
    pub fn finish(&mut self, rows: usize) -> Option<NullBuffer> {
        let runs = std::mem::take(&mut self.runs);
        if runs.is_empty() {
            return None;
        }
        let mut valid = BooleanBufferBuilder::new(rows);
        for run in runs {
            valid.append_n(run.start - valid.len(), true);
            valid.append_n(run.len(), false);
        }
        valid.append_n(rows - valid.len(), true);
        Some(NullBuffer::new(valid.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_pushed_cut_and_finished() {
        let mut nulls = Nulls::default();
        nulls.push(1, 2);
        nulls.push(3, 1);
        nulls.push(6, 3);
        assert!([1, 2, 3, 6, 7, 8].iter().all(|row| nulls.contains(*row)) && ![0, 4, 5, 9].iter().any(|row| nulls.contains(*row)));
        nulls.truncate(7);
        let found: Vec<bool> = nulls.finish(8).unwrap().iter().collect();
        assert_eq!(found, [true, false, false, false, true, true, false, true]);
        nulls.push(0, 2);
        nulls.truncate(0);
        assert!(nulls.finish(3).is_none());
    }
}
