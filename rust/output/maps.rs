//! Builder of maps with names as keys.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::ArrowError;
use arrow_select::concat::concat;

use crate::columns::{Bytes, Offsets};
use crate::output::fields::map_array;

/// Maps that rows share. The rows of a table usually share one. Each map is stored once, with its rows, until the batch
/// is finished.
#[derive(Default)]
pub(crate) struct Maps {
    /// End of each map's entries.
    ends: Vec<usize>,
    /// Runs of consecutive rows with the same map, or null: the map's number, and the number of rows.
    runs: Vec<(Option<usize>, usize)>,
    /// Bytes of the rows.
    bytes: usize,
    /// Bytes of each added map.
    map_bytes: Vec<usize>,
}

/// Keys of finished maps. Another column of maps may have the same keys.
pub(crate) struct FinishedKeys {
    maps: Maps,
    once: ArrayRef,
    keys: ArrayRef,
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
}

/// Number of copies of a map to make at once. They fit into a core's first-level cache.
const COPIES: usize = 16;

impl Maps {
    /// Adds a map. Its entries end at `end`, and take `bytes` in each row. Returns its number.
    pub fn add(&mut self, end: usize, bytes: usize) -> usize {
        self.ends.push(end);
        self.map_bytes.push(bytes);
        self.ends.len() - 1
    }

    /// Appends rows that have a map, or null.
    #[allow(clippy::indexing_slicing, reason = "`add` returned the number")]
    pub fn push(&mut self, map: Option<usize>, rows: usize) {
        let bytes = map.map_or(0, |map| self.map_bytes[map]) + size_of::<i32>();
        self.bytes = self.bytes.saturating_add(bytes.saturating_mul(rows));
        match self.runs.last_mut() {
            Some((last, count)) if *last == map => *count += rows,
            _ => self.runs.push((map, rows)),
        }
    }

    /// Returns the bytes of the rows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the start and the number of a map's entries.
    #[allow(clippy::indexing_slicing, reason = "`add` returned the number")]
    fn place(&self, map: usize) -> (usize, usize) {
        let start = map.checked_sub(1).map_or(0, |before| self.ends[before]);
        (start, self.ends[map] - start)
    }

    /// Returns the entries of all rows. `once` has the entries of each map.
    fn expand(&self, once: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let mut parts = Vec::new();
        let mut runs = self
            .runs
            .iter()
            .filter_map(|(map, rows)| Some(((*map)?, *rows)))
            .peekable();
        while let Some((map, rows)) = runs.next() {
            let ((start, mut length), mut last) = (self.place(map), map);
            // Maps with one row each are copied together.
            while let Some((next, _)) = runs.next_if(|next| rows == 1 && *next == (last + 1, 1)) {
                (length, last) = (length + self.place(next).1, next);
            }
            let entries = once.slice(start, length);
            if rows >= COPIES {
                let copies = concat(&[entries.as_ref(); COPIES])?;
                parts.extend(std::iter::repeat_n(copies, rows / COPIES));
            }
            parts.extend(std::iter::repeat_n(entries, rows % COPIES));
        }
        match parts.as_slice() {
            [] => Ok(once.slice(0, 0)),
            [only] => Ok(only.clone()),
            parts => concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
        }
    }

    /// Returns the offsets of all rows.
    fn offsets(&self) -> Offsets {
        let mut offsets = Offsets::default();
        for (map, rows) in &self.runs {
            let Some(length) = map.map(|map| self.place(map).1) else {
                offsets.push_nulls(*rows);
                continue;
            };
            let start = offsets.end();
            (1..=*rows).for_each(|row| offsets.push(start + row * length));
        }
        offsets
    }

    /// Finishes the array of all rows, given the entries of each map. Reuses the keys in `known`.
    pub fn finish(
        &mut self,
        keys: ArrayRef,
        values: ArrayRef,
        known: &mut Option<FinishedKeys>,
    ) -> Result<ArrayRef, ArrowError> {
        let maps = std::mem::take(self);
        let values = maps.expand(&values).map_err(too_large)?;
        let finished = match known
            .take()
            .filter(|known| known.maps.have_places_of(&maps) && *known.once == *keys)
        {
            Some(known) => known,
            None => FinishedKeys::new(maps, keys)?,
        };
        let FinishedKeys {
            keys,
            offsets,
            nulls,
            ..
        } = known.insert(finished);
        map_array(keys.clone(), values, offsets.clone(), nulls.clone())
    }

    fn have_places_of(&self, other: &Maps) -> bool {
        self.ends == other.ends && self.runs == other.runs
    }
}

impl FinishedKeys {
    fn new(maps: Maps, once: ArrayRef) -> Result<Self, ArrowError> {
        let keys = maps.expand(&once).map_err(too_large)?;
        let (offsets, nulls) = maps.offsets().take(None)?;
        Ok(FinishedKeys {
            maps,
            once,
            keys,
            offsets,
            nulls,
        })
    }
}

fn too_large(error: ArrowError) -> ArrowError {
    match error {
        ArrowError::OffsetOverflowError(_) => {
            ArrowError::InvalidArgumentError(Bytes::<i32>::too_large())
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Int32Array, StringArray, StructArray};

    use super::*;

    const MAPS: [&[&str]; 4] = [&["id", "total"], &[], &["名"], &["a", "b", "c"]];

    fn finished(runs: &[(Option<usize>, usize)], known: &mut Option<FinishedKeys>) -> ArrayRef {
        let mut maps = Maps::default();
        let mut end = 0;
        for map in MAPS {
            end += map.len();
            maps.add(end, 0);
        }
        runs.iter().for_each(|(map, rows)| maps.push(*map, *rows));
        let keys = Arc::new(StringArray::from_iter_values(MAPS.concat()));
        let values = Arc::new(Int32Array::from_iter(
            (0..end as i32).map(|value| Some(value).filter(|value| *value != 1)),
        ));
        maps.finish(keys, values, known).unwrap()
    }

    type Entries = Vec<(String, Option<i32>)>;

    /// Returns the entries of each row, one by one.
    fn entries(map: &dyn Array) -> Vec<Option<Entries>> {
        let of_row = |entries: StructArray| {
            let (keys, values) = (
                entries.column(0).as_string::<i32>().clone(),
                entries.column(1).as_primitive::<Int32Type>().clone(),
            );
            keys.iter()
                .flatten()
                .map(str::to_owned)
                .zip(values.iter().collect::<Vec<Option<i32>>>())
                .collect()
        };
        map.as_map().iter().map(|row| row.map(of_row)).collect()
    }

    #[test]
    fn each_row_has_its_map() {
        let runs = [
            (Some(0), 40),
            (None, 3),
            (Some(2), 1),
            (Some(3), 1),
            (Some(1), 2),
            (Some(0), 17),
            (Some(3), 16),
            (None, 1),
        ];
        let mut numbers = (0..6).map(|value| Some(value).filter(|value| *value != 1));
        let maps = MAPS.map(|map| {
            map.iter()
                .map(|key| (key.to_string(), numbers.next().unwrap()))
                .collect::<Vec<_>>()
        });
        let expected = |runs: &[(Option<usize>, usize)]| -> Vec<_> {
            runs.iter()
                .flat_map(|(map, rows)| {
                    std::iter::repeat_n(map.map(|map| maps[map].clone()), *rows)
                })
                .collect()
        };
        for start in 0..=runs.len() {
            for end in start..=runs.len() {
                let mut known = None;
                assert_eq!(
                    entries(&finished(&runs[start..end], &mut known)),
                    expected(&runs[start..end])
                );
                // Another column with the same maps, and one with other maps.
                assert_eq!(
                    entries(&finished(&runs[start..end], &mut known)),
                    expected(&runs[start..end])
                );
                assert_eq!(entries(&finished(&runs, &mut known)), expected(&runs));
            }
        }
    }
}
