//! Null rows of a column.

use std::ops::Range;

use arrow_buffer::{BooleanBufferBuilder, NullBuffer};

/// Runs of null rows. Most columns have few runs, and a valid row costs nothing.
#[derive(Default)]
pub(crate) struct Nulls {
    runs: Vec<Range<usize>>,
}

impl Nulls {
    /// Appends `count` nulls. `row` is the column's length.
    #[inline]
    pub fn push(&mut self, row: usize, count: usize) {
        match self.runs.last_mut() {
            Some(last) if last.end == row => last.end += count,
            _ => self.runs.push(row..row + count),
        }
    }

    /// Truncates to the first `rows` rows.
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

    /// Returns whether a row is null.
    pub fn contains(&self, row: usize) -> bool {
        let later = self.runs.partition_point(|run| run.start <= row);
        self.runs
            .split_at(later)
            .0
            .last()
            .is_some_and(|run| row < run.end)
    }

    /// Returns the number of null rows.
    pub fn count(&self) -> usize {
        self.runs.iter().map(Range::len).sum()
    }

    /// Returns the number of null rows among these rows.
    pub fn count_in(&self, rows: Range<usize>) -> usize {
        self.runs
            .iter()
            .map(|run| {
                run.end
                    .min(rows.end)
                    .saturating_sub(run.start.max(rows.start))
            })
            .sum()
    }

    /// Returns the null rows.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        self.runs.iter().cloned().flatten()
    }

    /// Returns whether the column has `rows` rows, all of them null.
    pub fn all_null(&self, rows: usize) -> bool {
        matches!(self.runs.as_slice(), [run] if *run == (0..rows))
    }

    /// Finishes the null buffer of a column with `rows` rows, merged with the parent struct's buffer.
    pub fn finish_with_parent(
        &mut self,
        rows: usize,
        parent: Option<&NullBuffer>,
    ) -> Option<NullBuffer> {
        match self.finish(rows) {
            None => parent.cloned(),
            own => NullBuffer::union(own.as_ref(), parent),
        }
    }

    /// Finishes the null buffer of a column with `rows` rows.
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
    fn runs_are_pushed_truncated_and_finished() {
        let mut nulls = Nulls::default();
        nulls.push(1, 2);
        nulls.push(3, 1);
        nulls.push(6, 3);
        assert!(
            [1, 2, 3, 6, 7, 8].iter().all(|row| nulls.contains(*row))
                && ![0, 4, 5, 9].iter().any(|row| nulls.contains(*row))
        );
        nulls.truncate(7);
        let found: Vec<bool> = nulls.finish(8).unwrap().iter().collect();
        assert_eq!(found, [true, false, false, false, true, true, false, true]);
        nulls.push(0, 2);
        nulls.truncate(0);
        assert!(nulls.finish(3).is_none());
    }
}
