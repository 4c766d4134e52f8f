//! Cache of column metadata.
//!
//! canal's protobuf repeats a column's name and type with each value. The rows of a table repeat these bytes in the
//! same order. So each cached column remembers its last successor. If a column has the successor's prefix and suffix
//! around its value, its name, type and other metadata need no parsing. The cache lives longer than a chunk of
//! messages, so it owns its bytes.

use std::ops::Range;

use hashbrown::{Equivalent, HashMap};
use wide::u8x16;

use super::proto::column;
use crate::event::Events;
use crate::interner::NameId;
use crate::mysql::number::{AROUND_START, Around};
use crate::mysql::short_text::ShortText;
use crate::wire::protobuf::Tag;

/// Index of a cached column, valid until the cache is reset.
pub(crate) type ColumnId = usize;

/// A column's metadata, without its value.
pub(crate) struct CachedColumn {
    pub key: NameId,
    /// True if its values are requested.
    pub is_requested: bool,
    /// Number of columns of an image up to this one, if they are the table's first ones in their order.
    in_order: Option<usize>,
    /// Prefix and suffix of the varying part, unless its fields are out of order.
    affixes: Option<(Affix, Affix)>,
    /// Bytes around a usual value.
    frame: Option<Frame>,
    /// The last successor.
    next: ColumnId,
    /// Metadata of a row that ends with this column. Only one sequence of columns leads to a cached column.
    row_metadata: Option<RowMetadata>,
}

impl CachedColumn {
    /// Creates the metadata of a column. `image` is the tag of its field in a row.
    pub fn new(
        key: NameId,
        is_requested: bool,
        image: Tag,
        affixes: Option<(&[u8], &[u8])>,
    ) -> Self {
        let frame = affixes.and_then(|(prefix, suffix)| Frame::new(image, prefix, suffix));
        let affixes =
            affixes.map(|(prefix, suffix)| (Affix::prefix(prefix), Affix::suffix(suffix)));
        CachedColumn {
            key,
            is_requested,
            in_order: None,
            affixes,
            frame,
            next: NONE,
            row_metadata: None,
        }
    }

    /// Returns a usual value of this column, if it is next in a row, and the fields after it. A usual value is short
    /// and not null, has its fields in canal's order, and is not near the row's end.
    #[inline(always)]
    pub fn usual_value<'a>(&self, fields: &'a [u8]) -> Option<(ShortText<'a>, &'a [u8])> {
        let frame = self.frame.as_ref()?;
        let first = fields.first_chunk::<16>()?;
        let around: &Around = fields.get(frame.last_at..)?.first_chunk()?;
        let (length, end) = (
            usize::from(around[AROUND_START - 1]),
            LENGTH_END + usize::from(first[LENGTH_END - 1]),
        );
        let (field, rest) = fields.split_at_checked(end)?;
        let same = frame.first.same(*first)
            & frame.last.same(*around.first_chunk()?)
            & frame.tail.same(*field.last_chunk()?);
        let is_same = same.to_bitmask() == 0xFFFF
            && frame.length + length == end
            && (frame.is_in_blocks || frame.has_rest(field));
        if !is_same {
            return None;
        }
        Some((ShortText::in_block(around, length)?, rest))
    }

    /// Returns the varying part of a column with this metadata, and the number of bytes after it.
    #[inline(always)]
    pub fn varying_part<'a>(&self, column: &'a [u8]) -> Option<(&'a [u8], usize)> {
        let (prefix, suffix) = self.affixes.as_ref()?;
        let (before, rest) = column.split_at_checked(prefix.bytes.len())?;
        let (varying, behind) =
            rest.split_at_checked(rest.len().checked_sub(suffix.bytes.len())?)?;
        let matches = match column.first_chunk().zip(column.last_chunk()) {
            Some((head, tail)) => prefix.begins(*head, before) && suffix.ends(*tail, behind),
            None => *before == *prefix.bytes && *behind == *suffix.bytes,
        };
        matches.then_some((varying, behind.len()))
    }
}

/// End of a field's one-byte length, which follows the one-byte tag.
const LENGTH_END: usize = 2;

/// Bytes around a usual value: the field's tag and length, the column's prefix, the value's tag and length, and the
/// column's suffix. They are nearly always three blocks of 16 bytes. One operation compares all blocks, for any lengths
/// and any value of `updated`.
struct Frame {
    first: Block,
    last: Block,
    /// Start of the last block before the value.
    last_at: usize,
    /// The last bytes of the suffix.
    tail: Block,
    /// Number of bytes around a value.
    length: usize,
    /// True if the blocks cover all bytes. If not, the fields below hold the bytes between the first two blocks, and
    /// the suffix.
    is_in_blocks: bool,
    middle: Box<[u8]>,
    suffix: Box<[u8]>,
}

impl Frame {
    fn new(image: Tag, prefix: &[u8], suffix: &[u8]) -> Option<Self> {
        let tags = [column::updated, column::isNull, column::value].map(u8::try_from);
        let [Ok(updated), Ok(is_null), Ok(value)] = tags else {
            return None;
        };
        let bytes = [
            &[u8::try_from(image).ok()?, 0],
            prefix,
            &[updated, 0, is_null, 0, value, 0],
        ]
        .concat();
        let mut mask = vec![u8::MAX; bytes.len()];
        // Lengths have one byte.
        *mask.get_mut(LENGTH_END - 1)? = 0x80;
        if let [.., is_updated, _, _, _, length] = &mut *mask {
            (*is_updated, *length) = (!1, 0x80);
        }
        let block = |at: usize| {
            Some(Block::new(
                *bytes.get(at..)?.first_chunk()?,
                *mask.get(at..)?.first_chunk()?,
            ))
        };
        let last_at = bytes.len().checked_sub(16)?;
        let middle: Box<[u8]> = bytes.get(16..last_at).unwrap_or_default().into();
        Some(Frame {
            first: block(0)?,
            last: block(last_at)?,
            last_at,
            tail: Affix::suffix(suffix).block,
            length: bytes.len() + suffix.len(),
            is_in_blocks: middle.is_empty() && suffix.len() <= 16,
            middle,
            suffix: suffix.into(),
        })
    }

    #[inline(never)]
    fn has_rest(&self, field: &[u8]) -> bool {
        field.ends_with(&self.suffix)
            && field
                .get(16..)
                .is_some_and(|field| field.starts_with(&self.middle))
    }
}

/// 16 bytes with a mask of the bits that count.
struct Block {
    bytes: u8x16,
    mask: u8x16,
}

impl Block {
    fn new(bytes: [u8; 16], mask: [u8; 16]) -> Self {
        Block {
            bytes: u8x16::new(bytes) & u8x16::new(mask),
            mask: u8x16::new(mask),
        }
    }

    /// Returns a mask with all bits of each equal byte set.
    #[inline(always)]
    fn same(&self, block: [u8; 16]) -> u8x16 {
        (u8x16::new(block) & self.mask).simd_eq(self.bytes)
    }
}

/// Prefix or suffix, with up to 16 of its bytes as a block. The block nearly always saves a call: one or two
/// comparisons suffice.
struct Affix {
    bytes: Box<[u8]>,
    block: Block,
}

impl Affix {
    /// Returns a prefix, whose block begins like the bytes.
    fn prefix(bytes: &[u8]) -> Self {
        let (mut block, mut mask) = ([0; 16], [0; 16]);
        for ((to, counts), from) in block.iter_mut().zip(&mut mask).zip(bytes) {
            (*to, *counts) = (*from, u8::MAX);
        }
        Affix {
            bytes: bytes.into(),
            block: Block::new(block, mask),
        }
    }

    /// Returns a suffix, whose block ends like the bytes.
    fn suffix(bytes: &[u8]) -> Self {
        let (mut block, mut mask) = ([0; 16], [0; 16]);
        for ((to, counts), from) in block
            .iter_mut()
            .zip(&mut mask)
            .rev()
            .zip(bytes.iter().rev())
        {
            (*to, *counts) = (*from, u8::MAX);
        }
        Affix {
            bytes: bytes.into(),
            block: Block::new(block, mask),
        }
    }

    #[inline(always)]
    fn is_in(&self, block: [u8; 16]) -> bool {
        self.block.same(block).to_bitmask() == 0xFFFF
    }

    /// Returns whether a column has the prefix. `head` is its first block, and `part` its bytes in the place of the
    /// prefix.
    #[inline(always)]
    fn begins(&self, head: [u8; 16], part: &[u8]) -> bool {
        self.is_in(head) && self.has_rest(part, <[u8]>::last_chunk)
    }

    /// Returns whether a column has the suffix. `tail` is its last block, and `part` its bytes in the place of the
    /// suffix.
    #[inline(always)]
    fn ends(&self, tail: [u8; 16], part: &[u8]) -> bool {
        self.is_in(tail) && self.has_rest(part, <[u8]>::first_chunk)
    }

    /// Returns whether a part of the same length is equal, given equal first blocks. `other_end` takes the block at the
    /// other end.
    #[inline(always)]
    fn has_rest(&self, part: &[u8], other_end: impl Fn(&[u8]) -> Option<&[u8; 16]>) -> bool {
        match part.len() {
            0..=16 => true,
            // The two blocks overlap.
            17..=32 => other_end(part) == other_end(&self.bytes),
            _ => *part == *self.bytes,
        }
    }
}

/// Metadata of all columns of a row.
#[derive(Debug)]
pub(crate) struct RowMetadata {
    pub types: Option<usize>,
    pub primary_key: Vec<NameId>,
    /// An object; empty if the types are not requested.
    pub jdbc_types: String,
}

/// Metadata in the form of an envelope: the declared types, the primary key as a range of the chunk's names, and the
/// JDBC types.
pub(crate) type ChunkMetadata<'a> = (Option<usize>, Option<Range<usize>>, &'a str);

impl RowMetadata {
    pub fn in_chunk<'a>(&self, events: &mut Events<'a>) -> ChunkMetadata<'a> {
        let first = events.names.len();
        events.names.extend_from_slice(&self.primary_key);
        let primary_key = Some(first..events.names.len()).filter(|names| !names.is_empty());
        let jdbc_types = if self.jdbc_types == NO_JDBC_TYPES {
            NO_JDBC_TYPES
        } else {
            events.arena.alloc_str(&self.jdbc_types)
        };
        (self.types, primary_key, jdbc_types)
    }
}

const NO_JDBC_TYPES: &str = "{}";

/// Cache of the columns of earlier messages. It is reset if it has more than [`ColumnCache::MAX_COLUMNS`] columns, or
/// if [`ColumnCache::MAX_INEXACT`] columns matched a cached one with other metadata, for example after an ALTER TABLE.
#[derive(Default)]
pub(crate) struct ColumnCache {
    columns: Vec<CachedColumn>,
    /// Predecessor of the before image's first column, by database and table. The next id is the after image's
    /// predecessor.
    starts: HashMap<(Box<str>, Box<str>), ColumnId>,
    /// The entry of `starts` for the last table.
    last_starts: (String, String, ColumnId),
    /// Number of columns that matched a cached one with other metadata.
    inexact: usize,
}

/// Database and table, with the hash of a key of [`ColumnCache::starts`].
#[derive(Hash)]
struct TableName<'n>(&'n str, &'n str);

impl Equivalent<(Box<str>, Box<str>)> for TableName<'_> {
    fn equivalent(&self, (database, table): &(Box<str>, Box<str>)) -> bool {
        *self.0 == **database && *self.1 == **table
    }
}

/// No column: index 0 holds a placeholder.
const NONE: ColumnId = 0;

impl ColumnCache {
    const MAX_COLUMNS: usize = 1 << 14;
    const MAX_INEXACT: usize = 1 << 8;

    /// Resets the cache if it has too many columns, or too many inexact matches. Earlier ids are then invalid.
    pub fn trim(&mut self) {
        if self.columns.len() > Self::MAX_COLUMNS || self.inexact > Self::MAX_INEXACT {
            *self = ColumnCache::default();
        }
    }

    /// Returns the predecessors of the first columns of a table's before and after images.
    pub fn starts(&mut self, database: &str, table: &str) -> [ColumnId; 2] {
        if self.columns.is_empty() {
            self.push(CachedColumn::new(NameId::START, false, 0, None));
        }
        let (last_database, last_table, last) = &mut self.last_starts;
        if *last != NONE && last_database == database && last_table == table {
            return [*last, *last + 1];
        }
        for (last, name) in [(last_database, database), (last_table, table)] {
            last.clear();
            last.push_str(name);
        }
        let before = match self.starts.get(&TableName(database, table)) {
            Some(before) => *before,
            None => {
                let [before, _] = [(); 2].map(|()| {
                    self.push(CachedColumn {
                        in_order: Some(0),
                        ..CachedColumn::new(NameId::START, false, 0, None)
                    })
                });
                self.starts.insert((database.into(), table.into()), before);
                before
            }
        };
        self.last_starts.2 = before;
        [before, before + 1]
    }

    fn push(&mut self, column: CachedColumn) -> ColumnId {
        self.columns.push(column);
        self.columns.len() - 1
    }

    /// Counts a column that matches a cached one with other metadata.
    pub fn count_inexact(&mut self) {
        self.inexact += 1;
    }

    /// Returns the name of a column.
    pub fn key(&self, column: ColumnId) -> NameId {
        self.columns
            .get(column)
            .map_or(NameId::START, |column| column.key)
    }

    /// Returns the last successor of a column.
    #[inline(always)]
    pub fn following(&self, previous: ColumnId) -> Option<(ColumnId, &CachedColumn)> {
        let next = self.columns.get(previous)?.next;
        let column = self.columns.get(next)?;
        (next != NONE).then_some((next, column))
    }

    /// Returns whether an image that ends with a column has the table's first columns in their order.
    pub fn is_in_order(&self, last: ColumnId) -> bool {
        self.columns
            .get(last)
            .is_some_and(|column| column.in_order.is_some())
    }

    /// Adds a column as the successor of another one; `place` is its index in the table.
    pub fn add(
        &mut self,
        column: CachedColumn,
        place: Option<usize>,
        previous: ColumnId,
    ) -> ColumnId {
        let before = self
            .columns
            .get(previous)
            .and_then(|previous| previous.in_order);
        let in_order = before
            .filter(|before| place == Some(*before))
            .map(|before| before + 1);
        let id = self.push(CachedColumn { in_order, ..column });
        if let Some(previous) = self.columns.get_mut(previous) {
            previous.next = id;
        }
        id
    }

    /// Returns the metadata of a row that ends with this column.
    pub fn row_metadata(&self, last: ColumnId) -> Option<&RowMetadata> {
        self.columns.get(last)?.row_metadata.as_ref()
    }

    /// Stores the metadata of a row that ends with this column.
    pub fn set_row_metadata(&mut self, last: ColumnId, row_metadata: RowMetadata) {
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
        for (prefix, varying, suffix) in (0..40)
            .flat_map(|prefix| (0..40).map(move |suffix| (prefix, (prefix + suffix) % 20, suffix)))
        {
            let column = &text[..prefix + varying + suffix];
            let affixes = (&column[..prefix], &column[prefix + varying..]);
            let cached = CachedColumn::new(NameId::START, true, 0, Some(affixes));
            assert_eq!(
                cached.varying_part(column),
                Some((&column[prefix..prefix + varying], suffix)),
                "{prefix} {varying} {suffix}"
            );
            for at in (0..prefix).chain(prefix + varying..column.len()) {
                let mut other = column.to_vec();
                other[at] ^= 0x80;
                assert_eq!(
                    cached.varying_part(&other),
                    None,
                    "{at} of {prefix} {varying} {suffix}"
                );
            }
            assert!(
                varying > 0 || column.is_empty() || cached.varying_part(&column[1..]).is_none()
            );
        }
    }
    #[test]
    fn a_usual_value_is_between_what_surrounds_it() {
        let (text, image) = ((1..=120).collect::<Vec<u8>>(), 0x12);
        for (prefix, value, suffix) in (0..60)
            .flat_map(|prefix| (0..40).map(move |suffix| (prefix, (prefix + suffix) % 30, suffix)))
        {
            let (before, behind) = text.split_at(60);
            let affixes = (&before[..prefix], &behind[..suffix]);
            let cached = CachedColumn::new(NameId::START, true, image, Some(affixes));
            let column = [
                affixes.0,
                &[0x28, 1, 0x30, 0, 0x42, value as u8],
                &text[..value],
                affixes.1,
            ]
            .concat();
            let fields = [
                &[image as u8, column.len() as u8],
                &*column,
                &[image as u8; 32],
            ]
            .concat();
            let (start, end) = (LENGTH_END + prefix + 6, LENGTH_END + column.len());
            let found = |fields: &[u8]| {
                cached
                    .usual_value(fields)
                    .map(|(text, rest)| (text.bytes().to_vec(), rest.len()))
            };
            let expected = (start >= 16 && column.len() < 0x80)
                .then_some((text[..value].to_vec(), fields.len() - end));
            assert_eq!(found(&fields), expected, "{prefix} {value} {suffix}");
            assert_eq!(found(&fields[..end - 1]), None, "{prefix} {value} {suffix}");
            for at in (0..start).chain(start + value..end) {
                let mut other = fields.clone();
                other[at] ^= 0x80;
                assert_eq!(found(&other), None, "{at} of {prefix} {value} {suffix}");
            }
        }
    }
}
