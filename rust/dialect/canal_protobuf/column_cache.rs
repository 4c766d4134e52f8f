//! ColumnCache of columns: what a message says of a column beside its value, met once and then compared.
//!
//! canal's protobuf names and describes a column beside each of its values. The rows of a table repeat that, byte for byte and
//! in the same order, so each shape remembers which one followed it last time: a column that has the bytes of that shape around
//! its value needs no look at its name, its type or the rest.

use std::ops::Range;

use hashbrown::HashMap;

use crate::interner::NameId;

/// A shape's number within one chunk of messages.
pub(crate) type ShapeId = usize;

/// A column without its value.
pub(crate) struct Shape<'a> {
    pub key: NameId,
    /// Whether anybody asks for its values.
    pub wanted: bool,
    /// The bytes before and behind what differs from row to row, where these can be told.
    around: Option<(Edge<'a>, Edge<'a>)>,
    /// Which shape followed last time.
    next: ShapeId,
    /// What a row says that ends with this shape: it is reached in one way only.
    described: Option<Described<'a>>,
}

impl<'a> Shape<'a> {
    pub fn new(key: NameId, wanted: bool, around: Option<(&'a [u8], &'a [u8])>) -> Self {
        let around = around.map(|(before, behind)| (Edge::before(before), Edge::behind(behind)));
        Shape { key, wanted, around, next: NONE, described: None }
    }

    /// What stands between its bytes in a column of this shape.
    #[inline(always)]
    pub fn between(&self, column: &'a [u8]) -> Option<&'a [u8]> {
        let (before, behind) = self.around.as_ref()?;
        let end = column.len().checked_sub(behind.bytes.len())?;
        let between = column.get(before.bytes.len()..end)?;
        let is_alike = match column.first_chunk().zip(column.last_chunk()) {
            Some((head, tail)) => before.begins(*head, column) && behind.ends(*tail, column),
            None => column.starts_with(before.bytes) && column.ends_with(behind.bytes),
        };
        is_alike.then_some(between)
    }
}

/// The bytes on one side of what differs, and up to 16 of them as a number: nearly always one comparison in place of a call.
struct Edge<'a> {
    bytes: &'a [u8],
    block: u128,
    /// Which bits of the block count.
    mask: u128,
}

impl<'a> Edge<'a> {
    /// The block begins as the bytes do.
    fn before(bytes: &'a [u8]) -> Self {
        let (mut block, mut mask) = ([0; 16], [0; 16]);
        for ((to, counts), from) in block.iter_mut().zip(&mut mask).zip(bytes) {
            (*to, *counts) = (*from, u8::MAX);
        }
        Edge { bytes, block: u128::from_le_bytes(block), mask: u128::from_le_bytes(mask) }
    }

    /// The block ends as the bytes do.
    fn behind(bytes: &'a [u8]) -> Self {
        let (mut block, mut mask) = ([0; 16], [0; 16]);
        for ((to, counts), from) in block.iter_mut().zip(&mut mask).rev().zip(bytes.iter().rev()) {
            (*to, *counts) = (*from, u8::MAX);
        }
        Edge { bytes, block: u128::from_le_bytes(block), mask: u128::from_le_bytes(mask) }
    }

    #[inline(always)]
    fn begins(&self, head: [u8; 16], column: &[u8]) -> bool {
        u128::from_le_bytes(head) & self.mask == self.block && (self.bytes.len() <= 16 || column.starts_with(self.bytes))
    }

    #[inline(always)]
    fn ends(&self, tail: [u8; 16], column: &[u8]) -> bool {
        u128::from_le_bytes(tail) & self.mask == self.block && (self.bytes.len() <= 16 || column.ends_with(self.bytes))
    }
}

/// What a row says of its columns, taken together.
#[derive(Clone, Debug)]
pub(crate) struct Described<'a> {
    pub types: Option<usize>,
    pub primary_key: Option<Range<usize>>,
    pub jdbc_types: &'a str,
}

/// The shapes that were met in a chunk of messages. More than [`ColumnCache::MOST`] are forgotten.
#[derive(Default)]
pub(crate) struct ColumnCache<'a> {
    shapes: Vec<Shape<'a>>,
    /// By database and table: what comes before the first column before the change; the next one is for that after it.
    starts: HashMap<(&'a str, &'a str), ShapeId>,
    /// Those of the table that was met last.
    last_starts: (&'a str, &'a str, ShapeId),
}

/// No shape: the place that it has in the list is empty.
const NONE: ShapeId = 0;

impl<'a> ColumnCache<'a> {
    const MOST: usize = 1 << 14;

    /// Forgets all shapes if they have become too many: numbers given out before mean nothing afterwards.
    pub fn trim(&mut self) {
        if self.shapes.len() > Self::MOST {
            *self = ColumnCache::default();
        }
    }

    /// What comes before the first columns of the two images of a table's rows.
    pub fn starts(&mut self, database: &'a str, table: &'a str) -> [ShapeId; 2] {
        if self.shapes.is_empty() {
            self.push(Shape::new(NameId::START, false, None));
        }
        let (last_database, last_table, last) = self.last_starts;
        if last != NONE && last_database == database && last_table == table {
            return [last, last + 1];
        }
        let before = match self.starts.get(&(database, table)) {
            Some(before) => *before,
            None => {
                let [before, _] = [(); 2].map(|()| self.push(Shape::new(NameId::START, false, None)));
                self.starts.insert((database, table), before);
                before
            }
        };
        self.last_starts = (database, table, before);
        [before, before + 1]
    }

    fn push(&mut self, shape: Shape<'a>) -> ShapeId {
        self.shapes.push(shape);
        self.shapes.len() - 1
    }

    /// The name that belongs to a shape.
    pub fn key(&self, shape: ShapeId) -> NameId {
        self.shapes.get(shape).map_or(NameId::START, |shape| shape.key)
    }

    /// The shape that followed last time.
    #[inline(always)]
    pub fn following(&self, previous: ShapeId) -> Option<(ShapeId, &Shape<'a>)> {
        let next = self.shapes.get(previous)?.next;
        let shape = self.shapes.get(next)?;
        (next != NONE).then_some((next, shape))
    }

    /// Adds a shape that follows another one.
    pub fn add(&mut self, shape: Shape<'a>, previous: ShapeId) -> ShapeId {
        let id = self.push(shape);
        if let Some(previous) = self.shapes.get_mut(previous) {
            previous.next = id;
        }
        id
    }

    pub fn described(&self, last: ShapeId) -> Option<&Described<'a>> {
        self.shapes.get(last)?.described.as_ref()
    }

    /// Keeps what a row says that ends with this shape.
    pub fn describe(&mut self, last: ShapeId, described: Described<'a>) {
        if let Some(last) = self.shapes.get_mut(last) {
            last.described = Some(described);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_found_between_edges_of_every_length() {
        let text: Vec<u8> = (1..=120).collect();
        for (before, between, behind) in (0..40).flat_map(|before| (0..40).map(move |behind| (before, (before + behind) % 20, behind))) {
            let column = &text[..before + between + behind];
            let around = (&column[..before], &column[before + between..]);
            let shape = Shape::new(NameId::START, true, Some(around));
            assert_eq!(shape.between(column), Some(&column[before..before + between]), "{before} {between} {behind}");
            for at in (0..before).chain(before + between..column.len()) {
                let mut other = column.to_vec();
                other[at] ^= 0x80;
                assert_eq!(shape.between(&other), None, "{at} of {before} {between} {behind}");
            }
            assert!(between > 0 || column.is_empty() || shape.between(&column[1..]).is_none());
        }
    }
}
