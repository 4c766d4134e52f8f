//! Cache of column metadata.
//!
//! canal's protobuf repeats a column's name and type with each value. The rows of a table repeat these byte for byte and in the
//! same order, so each cached column remembers its last successor: a column with that prefix and suffix around its value needs no
//! parsing of its name, its type and the rest.

use std::ops::Range;

use hashbrown::HashMap;
use wide::u8x16;

use crate::interner::NameId;

/// Index of a cached column, valid within one chunk of messages.
pub(crate) type ColumnId = usize;

/// A column's metadata, without its value.
pub(crate) struct CachedColumn<'a> {
    pub key: NameId,
    /// Whether its values are requested.
    pub is_requested: bool,
    /// Prefix and suffix of the varying part, unless its fields are out of order.
    affixes: Option<(Affix<'a>, Affix<'a>)>,
    /// The last successor.
    next: ColumnId,
    /// Metadata of a row that ends with this column, which only one sequence of columns reaches.
    row_metadata: Option<RowMetadata<'a>>,
}

impl<'a> CachedColumn<'a> {
    pub fn new(key: NameId, is_requested: bool, affixes: Option<(&'a [u8], &'a [u8])>) -> Self {
        let affixes = affixes.map(|(prefix, suffix)| (Affix::prefix(prefix), Affix::suffix(suffix)));
        CachedColumn { key, is_requested, affixes, next: NONE, row_metadata: None }
    }

    /// Returns the varying part of a column with this metadata.
    #[inline(always)]
    pub fn varying_part(&self, column: &'a [u8]) -> Option<&'a [u8]> {
        let (prefix, suffix) = self.affixes.as_ref()?;
        let end = column.len().checked_sub(suffix.bytes.len())?;
        let varying = column.get(prefix.bytes.len()..end)?;
        let matches = match column.first_chunk().zip(column.last_chunk()) {
            Some((head, tail)) => prefix.begins(*head, column) && suffix.ends(*tail, column),
            None => column.starts_with(prefix.bytes) && column.ends_with(suffix.bytes),
        };
        matches.then_some(varying)
    }
}

/// Prefix or suffix, with up to 16 of its bytes as a block: nearly always one comparison instead of a call.
struct Affix<'a> {
    bytes: &'a [u8],
    block: u8x16,
    /// Mask of the block's significant bytes.
    mask: u8x16,
}

impl<'a> Affix<'a> {
    /// The block begins like the bytes.
    fn prefix(bytes: &'a [u8]) -> Self {
        let (mut block, mut mask) = ([0; 16], [0; 16]);
        for ((to, counts), from) in block.iter_mut().zip(&mut mask).zip(bytes) {
            (*to, *counts) = (*from, u8::MAX);
        }
        Affix { bytes, block: u8x16::new(block), mask: u8x16::new(mask) }
    }

    /// The block ends like the bytes.
    fn suffix(bytes: &'a [u8]) -> Self {
        let (mut block, mut mask) = ([0; 16], [0; 16]);
        for ((to, counts), from) in block.iter_mut().zip(&mut mask).rev().zip(bytes.iter().rev()) {
            (*to, *counts) = (*from, u8::MAX);
        }
        Affix { bytes, block: u8x16::new(block), mask: u8x16::new(mask) }
    }

    #[inline(always)]
    fn is_in(&self, block: [u8; 16]) -> bool {
        (u8x16::new(block) & self.mask).simd_eq(self.block).to_bitmask() == 0xFFFF
    }

    #[inline(always)]
    fn begins(&self, head: [u8; 16], column: &[u8]) -> bool {
        self.is_in(head) && (self.bytes.len() <= 16 || column.starts_with(self.bytes))
    }

    #[inline(always)]
    fn ends(&self, tail: [u8; 16], column: &[u8]) -> bool {
        self.is_in(tail) && (self.bytes.len() <= 16 || column.ends_with(self.bytes))
    }
}

/// Metadata of all columns of a row.
#[derive(Clone, Debug)]
pub(crate) struct RowMetadata<'a> {
    pub types: Option<usize>,
    pub primary_key: Option<Range<usize>>,
    pub jdbc_types: &'a str,
}

/// Cache of the columns in a chunk of messages. It is reset once it has more than [`ColumnCache::MAX_COLUMNS`].
#[derive(Default)]
pub(crate) struct ColumnCache<'a> {
    columns: Vec<CachedColumn<'a>>,
    /// By database and table: the predecessor of the before image's first column; that of the after image has the next id.
    starts: HashMap<(&'a str, &'a str), ColumnId>,
    /// The entry of `starts` for the last table.
    last_starts: (&'a str, &'a str, ColumnId),
}

/// No column: index 0 holds a placeholder.
const NONE: ColumnId = 0;

impl<'a> ColumnCache<'a> {
    const MAX_COLUMNS: usize = 1 << 14;

    /// Resets the cache if it has too many columns: earlier ids are invalid then.
    pub fn trim(&mut self) {
        if self.columns.len() > Self::MAX_COLUMNS {
            *self = ColumnCache::default();
        }
    }

    /// Returns the predecessors of the first columns of a table's before and after images.
    pub fn starts(&mut self, database: &'a str, table: &'a str) -> [ColumnId; 2] {
        if self.columns.is_empty() {
            self.push(CachedColumn::new(NameId::START, false, None));
        }
        let (last_database, last_table, last) = self.last_starts;
        if last != NONE && last_database == database && last_table == table {
            return [last, last + 1];
        }
        let before = match self.starts.get(&(database, table)) {
            Some(before) => *before,
            None => {
                let [before, _] = [(); 2].map(|()| self.push(CachedColumn::new(NameId::START, false, None)));
                self.starts.insert((database, table), before);
                before
            }
        };
        self.last_starts = (database, table, before);
        [before, before + 1]
    }

    fn push(&mut self, column: CachedColumn<'a>) -> ColumnId {
        self.columns.push(column);
        self.columns.len() - 1
    }

    /// Returns the name of a column.
    pub fn key(&self, column: ColumnId) -> NameId {
        self.columns.get(column).map_or(NameId::START, |column| column.key)
    }

    /// Returns the last successor of a column.
    #[inline(always)]
    pub fn following(&self, previous: ColumnId) -> Option<(ColumnId, &CachedColumn<'a>)> {
        let next = self.columns.get(previous)?.next;
        let column = self.columns.get(next)?;
        (next != NONE).then_some((next, column))
    }

    /// Adds a column as the successor of another one.
    pub fn add(&mut self, column: CachedColumn<'a>, previous: ColumnId) -> ColumnId {
        let id = self.push(column);
        if let Some(previous) = self.columns.get_mut(previous) {
            previous.next = id;
        }
        id
    }

    /// Returns the metadata of a row that ends with this column.
    pub fn row_metadata(&self, last: ColumnId) -> Option<&RowMetadata<'a>> {
        self.columns.get(last)?.row_metadata.as_ref()
    }

    /// Stores the metadata of a row that ends with this column.
    pub fn set_row_metadata(&mut self, last: ColumnId, row_metadata: RowMetadata<'a>) {
        if let Some(last) = self.columns.get_mut(last) {
            last.row_metadata = Some(row_metadata);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affixes_of_every_length_match_exactly() {
        let text: Vec<u8> = (1..=120).collect();
        for (prefix, varying, suffix) in (0..40).flat_map(|prefix| (0..40).map(move |suffix| (prefix, (prefix + suffix) % 20, suffix))) {
            let column = &text[..prefix + varying + suffix];
            let affixes = (&column[..prefix], &column[prefix + varying..]);
            let cached = CachedColumn::new(NameId::START, true, Some(affixes));
            assert_eq!(cached.varying_part(column), Some(&column[prefix..prefix + varying]), "{prefix} {varying} {suffix}");
            for at in (0..prefix).chain(prefix + varying..column.len()) {
                let mut other = column.to_vec();
                other[at] ^= 0x80;
                assert_eq!(cached.varying_part(&other), None, "{at} of {prefix} {varying} {suffix}");
            }
            assert!(varying > 0 || column.is_empty() || cached.varying_part(&column[1..]).is_none());
        }
    }
}
