//! Row images: their expected names and the conversion of each value.

use std::borrow::Cow;

use bumpalo::Bump;
use hashbrown::HashMap;
use wide::u8x16;

use super::scalar::{hash, integer, plain_string, plain_text};
use crate::columns::ColumnBuilder;
use crate::event::{Envelope, ValueFormat};
use crate::interner::NameId;
use crate::output::converter::Converter;
use crate::output::images::{Changes, Map, Table};
use crate::value::Value;
use crate::wire::digits::count_digits;
use crate::wire::json::Cursor;

/// Literal bytes to compare with a message.
pub(super) struct Exact {
    /// First 16 bytes and a mask of those in use: one comparison instead of a call.
    head: u8x16,
    mask: u8x16,
    bytes: Box<[u8]>,
}

impl Exact {
    pub fn new(bytes: &[u8]) -> Self {
        let (mut head, mut mask) = ([0; 16], [0; 16]);
        head.iter_mut()
            .zip(&mut mask)
            .zip(bytes)
            .for_each(|((to, mask), from)| (*to, *mask) = (*from, u8::MAX));
        Exact {
            head: u8x16::new(head),
            mask: u8x16::new(mask),
            bytes: bytes.into(),
        }
    }

    /// Returns the end of the literal, if the text has it at `at`.
    #[inline(always)]
    pub fn eat(&self, text: &[u8], at: usize) -> Option<usize> {
        self.eat_from::<0>(text, at)
    }

    /// Returns the end of the literal, ignoring its first `FIRST` bytes, at most one.
    #[inline(always)]
    fn eat_from<const FIRST: usize>(&self, text: &[u8], at: usize) -> Option<usize> {
        let (rest, length) = (text.get(at..)?, self.bytes.len());
        let is_here = match rest.first_chunk::<16>() {
            Some(block) if !self.has_head(*block, FIRST) => false,
            Some(_) if length <= 16 => true,
            // The two blocks overlap.
            Some(_) if length <= 32 => {
                rest.get(..length)?.last_chunk::<16>() == self.bytes.last_chunk::<16>()
            }
            _ => rest.get(FIRST..)?.starts_with(self.bytes.get(FIRST..)?),
        };
        is_here.then_some(at + length)
    }

    /// Returns whether a block begins like the literal, ignoring its `first` bytes.
    #[inline(always)]
    fn has_head(&self, block: [u8; 16], first: usize) -> bool {
        let same = (u8x16::new(block) & self.mask)
            .simd_eq(self.head)
            .to_bitmask();
        same | ((1 << first) - 1) == 0xFFFF
    }
}

/// JSON key with its separator and colon: `,"id":`, or `{"id":` for the first member.
pub(super) struct KeyLiteral {
    exact: Exact,
    /// Length of the name between the quotes.
    name_length: usize,
}

impl KeyLiteral {
    /// Returns a key literal. `before` is the number of preceding keys. `key` has quotes and colon.
    pub fn new(before: usize, key: &str, name_length: usize) -> Self {
        let separator = if before == 0 { b'{' } else { b',' };
        let bytes: Vec<u8> = std::iter::once(separator).chain(key.bytes()).collect();
        KeyLiteral {
            exact: Exact::new(&bytes),
            name_length,
        }
    }

    /// Returns the raw name, with its escapes.
    #[allow(
        clippy::indexing_slicing,
        reason = "the name is between separator, quotes and colon"
    )]
    fn raw(&self) -> &[u8] {
        &self.exact.bytes[2..2 + self.name_length]
    }
}

/// Returns the slot of the name at the start of a text.
#[inline(always)]
fn slot(text: &[u8], seed: u64) -> usize {
    (hash(text, seed) >> 56) as usize
}

/// Keys in their usual order, each with an associated item.
pub(super) struct ExpectedKeys<T> {
    entries: Vec<Entry<T>>,
    /// Index by the name's [`slot`] under the seed. Collisions use the full name.
    seed: u64,
    by_slot: Box<[u16; 256]>,
    by_name: HashMap<Box<[u8]>, usize>,
}

struct Entry<T> {
    key: KeyLiteral,
    item: T,
}

impl<T> ExpectedKeys<T> {
    #[allow(clippy::indexing_slicing, reason = "slots are below 256")]
    pub fn new(entries: Vec<(KeyLiteral, T)>) -> Self {
        let entries: Vec<Entry<T>> = entries
            .into_iter()
            .map(|(key, item)| Entry { key, item })
            .collect();
        let names: Vec<_> = entries
            .iter()
            .map(|entry| [entry.key.raw(), b"\"", &[0; 16]].concat())
            .collect();
        // Take the first seed under which no names share a slot.
        let free = (0..16).find(|seed| {
            let mut taken = [false; 256];
            let mut names = names.iter();
            names.all(|name| !std::mem::replace(&mut taken[slot(name, *seed)], true))
        });
        let seed = free.unwrap_or(0);
        let mut by_slot = Box::new([u16::MAX; 256]);
        for (index, name) in names.iter().enumerate() {
            by_slot[slot(name, seed)] = u16::try_from(index).unwrap_or(u16::MAX);
        }
        let by_name = entries
            .iter()
            .enumerate()
            .map(|(index, entry)| (entry.key.raw().into(), index))
            .collect();
        ExpectedKeys {
            entries,
            seed,
            by_slot,
            by_name,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.item)
    }

    /// Returns the item of a key.
    #[allow(
        clippy::indexing_slicing,
        reason = "indices are those that a visitor of these keys got"
    )]
    pub fn item(&self, index: usize) -> &T {
        debug_assert!(index < self.entries.len());
        &self.entries[index].item
    }

    /// Finds the key after the separator at `at`. Returns its index, its item and the start of its value.
    ///
    /// It does not try the usual next key first. In rows of changes that key is often absent, which branch predictors
    /// cannot foresee.
    #[inline(always)]
    #[allow(clippy::indexing_slicing, reason = "slots are below 256")]
    fn find(&self, text: &[u8], at: usize) -> Option<(usize, &T, usize)> {
        let candidate = usize::from(self.by_slot[slot(text.get(at + 2..)?, self.seed)]);
        if let Some(entry) = self.entries.get(candidate)
            && let Some(value) = entry.key.exact.eat_from::<1>(text, at)
        {
            return Some((candidate, &entry.item, value));
        }
        self.find_by_name(text, at)
    }

    /// Finds a key that shares its slot with another key, or that is near the end of the message.
    #[inline(never)]
    #[allow(clippy::indexing_slicing, reason = "`by_name` has indices of entries")]
    fn find_by_name(&self, text: &[u8], at: usize) -> Option<(usize, &T, usize)> {
        let index = *self.by_name.get(plain_string(text, at + 1)?.0)?;
        let entry = &self.entries[index];
        Some((index, &entry.item, entry.key.exact.eat_from::<1>(text, at)?))
    }

    /// Walks through an object that has each of these keys at most once.
    #[inline(always)]
    pub fn walk(
        &self,
        text: &[u8],
        mut at: usize,
        seen: &mut SeenKeys,
        visitor: &mut impl Visitor<T>,
    ) -> Option<WalkResult> {
        for (index, entry) in self.entries.iter().enumerate() {
            let Some(value) = entry.key.exact.eat(text, at) else {
                return self.walk_unordered(text, at, index, seen, visitor);
            };
            at = visitor.visit(index, &entry.item, value)?;
        }
        let is_end = text.get(at) == Some(&b'}');
        is_end.then_some(WalkResult {
            end: at + 1,
            is_complete: true,
        })
    }

    /// Walks the rest of an object, from the separator after the `from` keys that were in order.
    #[inline(never)]
    fn walk_unordered(
        &self,
        text: &[u8],
        mut at: usize,
        from: usize,
        seen: &mut SeenKeys,
        visitor: &mut impl Visitor<T>,
    ) -> Option<WalkResult> {
        seen.begin(self.entries.len(), from);
        let mut count = from;
        loop {
            let is_end = match text.get(at)? {
                b'{' if count == 0 => text.get(at + 1) == Some(&b'}'),
                b',' if count > 0 => false,
                b'}' if count > 0 => true,
                _ => return None,
            };
            if is_end {
                let end = at + if count == 0 { 2 } else { 1 };
                return Some(WalkResult {
                    end,
                    is_complete: count == self.entries.len(),
                });
            }
            let (index, item, value) = self.find(text, at)?;
            if !seen.mark(index) {
                return None;
            }
            at = visitor.visit(index, item, value)?;
            count += 1;
        }
    }
}

/// Visitor of an object's members.
pub(super) trait Visitor<T> {
    /// Reads the value at `at` of the key with this index. Returns the value's end.
    fn visit(&mut self, index: usize, item: &T, at: usize) -> Option<usize>;
}

/// Keys whose values are part of their literals.
impl<T, F: FnMut(usize)> Visitor<T> for F {
    #[inline(always)]
    fn visit(&mut self, index: usize, _: &T, at: usize) -> Option<usize> {
        self(index);
        Some(at)
    }
}

/// Visitor of a row. It records the spans of the row's values.
struct RowVisitor<'v, 'a, T> {
    plan: &'v RowPlan,
    env: &'v Env<'a>,
    spans: Spans<'v>,
    target: T,
}

impl<T: Target> Visitor<Cell> for RowVisitor<'_, '_, T> {
    #[inline(always)]
    fn visit(&mut self, index: usize, cell: &Cell, at: usize) -> Option<usize> {
        let end = self.target.push(self.plan, (index, cell), at, self.env)?;
        record_span(&mut self.spans, index, at, end);
        Some(end)
    }
}

/// Destination of the values of a row. Its functions are always inlined, which closures would not be.
trait Target {
    /// Appends the value at `at`. Returns its end.
    fn push(
        &mut self,
        plan: &RowPlan,
        cell: (usize, &Cell),
        at: usize,
        env: &Env<'_>,
    ) -> Option<usize>;
}

/// Skipped values.
impl Target for () {
    #[inline(always)]
    fn push(
        &mut self,
        plan: &RowPlan,
        _: (usize, &Cell),
        at: usize,
        env: &Env<'_>,
    ) -> Option<usize> {
        if plan.has_unread_object(at, env) {
            None
        } else {
            env.skip(at)
        }
    }
}

/// Columns of a row.
impl Target for &mut [Box<dyn ColumnBuilder>] {
    #[inline(always)]
    fn push(
        &mut self,
        plan: &RowPlan,
        (_, cell): (usize, &Cell),
        at: usize,
        env: &Env<'_>,
    ) -> Option<usize> {
        plan.cell(cell, at, self, env)
    }
}

/// Columns of a partial row.
impl Target for Changes<'_> {
    #[inline(always)]
    #[allow(
        clippy::indexing_slicing,
        reason = "cells know the columns of the table"
    )]
    fn push(
        &mut self,
        plan: &RowPlan,
        (_, cell): (usize, &Cell),
        at: usize,
        env: &Env<'_>,
    ) -> Option<usize> {
        let (columns, changed, row) = self;
        let end = plan.cell(cell, at, columns, env)?;
        if let Some(column) = cell.column() {
            changed[column].push(*row);
        }
        Some(end)
    }
}

/// A map, the number of its values, and whether they are in the usual order. In that order, all names are appended once
/// at the end.
impl Target for (&mut Map, usize, bool) {
    #[inline(always)]
    fn push(
        &mut self,
        plan: &RowPlan,
        (index, cell): (usize, &Cell),
        at: usize,
        env: &Env<'_>,
    ) -> Option<usize> {
        let (map, count, is_ordered) = self;
        if *is_ordered && index != *count {
            plan.push_names(*count, map)?;
            *is_ordered = false;
        }
        if plan.has_unread_object(at, env) {
            return None;
        }
        let end = push_value(at, map, env)?;
        if !*is_ordered {
            map.keys.push(cell.name.as_bytes()).ok()?;
        }
        *count += 1;
        Some(end)
    }
}

/// Appends the value at `at` to a map. Returns its end.
#[inline]
pub(super) fn push_value(at: usize, map: &mut Map, env: &Env<'_>) -> Option<usize> {
    let text = env.text.as_bytes();
    if text.get(at) == Some(&b'"')
        && let Some(quote) = map.values.read(text, at + 1)
    {
        return Some(quote + 1);
    }
    let mut cursor = Cursor::starting(env.text, at, env.lenient);
    let value = cursor.value().ok()?;
    map.push_value(&value).ok()?;
    Some(cursor.at())
}

/// Result of walking an object.
#[derive(Clone, Copy)]
pub(super) struct WalkResult {
    pub end: usize,
    pub is_complete: bool,
}

/// Keys found in an object. Only valid if the object was incomplete or out of order.
#[derive(Default)]
pub(super) struct SeenKeys(Vec<bool>);

#[allow(clippy::indexing_slicing, reason = "there is a flag for each key")]
impl SeenKeys {
    fn begin(&mut self, length: usize, seen: usize) {
        self.0.clear();
        self.0.resize(seen, true);
        self.0.resize(length, false);
    }

    /// Marks a key; `false` if it is a duplicate.
    fn mark(&mut self, index: usize) -> bool {
        !std::mem::replace(&mut self.0[index], true)
    }

    fn has(&self, index: usize) -> bool {
        self.0[index]
    }
}

/// Row layout of a table: the output column of each name, and the encoding of its values.
pub(super) struct RowPlan {
    pub cells: ExpectedKeys<Cell>,
    /// All names concatenated, and their ends.
    names: (Vec<u8>, Vec<usize>),
    /// Requested columns that the rows never have.
    pub absent: Vec<usize>,
    /// True if only the ordinary reader reads objects, because they may be values of unions in Avro's JSON.
    may_have_unions: bool,
}

/// Column of a row image.
pub(super) struct Cell {
    pub id: NameId,
    /// Name without escapes and quotes.
    pub name: Box<str>,
    /// Converter of its requested column.
    pub converter: Option<Converter>,
}

impl Cell {
    /// Returns the index of its requested column.
    pub fn column(&self) -> Option<usize> {
        self.converter.as_ref().map(|converter| converter.column)
    }
}

/// Environment of value conversions.
pub(super) struct Env<'a> {
    pub text: &'a str,
    pub lenient: bool,
    pub arena: &'a Bump,
}

impl Env<'_> {
    /// Skips a valid JSON value.
    #[inline]
    pub fn skip(&self, at: usize) -> Option<usize> {
        let text = self.text.as_bytes();
        let end = match text.get(at)? {
            b'"' => plain_string(text, at).map(|(_, end)| end),
            b'1'..=b'9' => {
                let end = at + count_digits(text.get(at..)?);
                (!matches!(text.get(end), Some(b'.' | b'e' | b'E'))).then_some(end)
            }
            b'0' => text
                .get(at + 1)
                .filter(|next| matches!(next, b',' | b'}'))
                .map(|_| at + 1),
            b't' if text.get(at..)?.starts_with(b"true") => Some(at + 4),
            b'n' if text.get(at..)?.starts_with(b"null") => Some(at + 4),
            _ => None,
        };
        end.or_else(|| self.skip_fallback(at))
    }

    #[inline(never)]
    fn skip_fallback(&self, at: usize) -> Option<usize> {
        let mut cursor = Cursor::starting(self.text, at, self.lenient);
        cursor.skip().ok()?;
        Some(cursor.at())
    }
}

/// Position of a cell's value in the message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Span {
    pub cell: usize,
    pub start: usize,
    pub end: usize,
}

/// The recorded spans, if any.
pub(super) type Spans<'s> = Option<&'s mut Vec<Span>>;

/// The spans of a row by cell. They are nearly always in the order of the cells already.
pub(super) struct SpansByCell<'s>(Cow<'s, [Span]>);

impl<'s> SpansByCell<'s> {
    pub fn new(spans: &'s [Span]) -> Self {
        let mut spans = Cow::Borrowed(spans);
        if !spans.is_sorted_by_key(|span| span.cell) {
            spans.to_mut().sort_unstable_by_key(|span| span.cell);
        }
        SpansByCell(spans)
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "the search returns the place of a span"
    )]
    pub fn get(&self, cell: usize) -> Option<Span> {
        let found = self.0.binary_search_by_key(&cell, |span| span.cell);
        found.ok().map(|at| self.0[at])
    }
}

impl RowPlan {
    pub fn new(
        cells: Vec<(KeyLiteral, Cell)>,
        absent: Vec<usize>,
        envelope: &Envelope<'_>,
    ) -> Self {
        let mut names = (Vec::new(), Vec::new());
        for (_, cell) in &cells {
            names.0.extend_from_slice(cell.name.as_bytes());
            names.1.push(names.0.len());
        }
        // Only the ordinary reader knows the whole message, and so whether an object is JSON.
        let may_have_unions =
            envelope.quirks.format == ValueFormat::Connect && envelope.types.is_none();
        RowPlan {
            cells: ExpectedKeys::new(cells),
            names,
            absent,
            may_have_unions,
        }
    }

    /// Returns whether the value at `at` is an object that only the ordinary reader reads.
    #[inline]
    pub fn has_unread_object(&self, at: usize, env: &Env<'_>) -> bool {
        self.may_have_unions && env.text.as_bytes().get(at) == Some(&b'{')
    }

    /// Appends the value at `at` to its column, or skips it if the column is not requested. Returns its end.
    #[inline(always)]
    pub fn cell(
        &self,
        cell: &Cell,
        at: usize,
        columns: &mut [Box<dyn ColumnBuilder>],
        env: &Env<'_>,
    ) -> Option<usize> {
        // An index out of range would cost an instruction for each value. A column that lacks a value fails when the
        // batch is finished.
        debug_assert!(cell.column().is_none_or(|column| column < columns.len()));
        let target = cell
            .converter
            .as_ref()
            .and_then(|converter| Some((converter, columns.get_mut(converter.column)?)));
        let Some((converter, column)) = target else {
            return env.skip(at);
        };
        let text = env.text.as_bytes();
        let is_fast = converter.takes_any() || converter.takes(text.get(at) == Some(&b'"'));
        let read = if is_fast { column.read(text, at) } else { None };
        read.or_else(|| self.append_fallback(converter, column.as_mut(), at, env))
    }

    /// Fallback for a value that the fast path rejects.
    #[inline(never)]
    fn append_fallback(
        &self,
        converter: &Converter,
        column: &mut dyn ColumnBuilder,
        at: usize,
        env: &Env<'_>,
    ) -> Option<usize> {
        if self.has_unread_object(at, env) {
            return None;
        }
        if let Some((value, end)) = decode_usual(converter, at, env) {
            converter.append(&value, column).ok()?;
            return Some(end);
        }
        let mut cursor = Cursor::starting(env.text, at, env.lenient);
        let value = converter.decode(cursor.value().ok()?, env.arena).ok()?;
        converter.append(&value, column).ok()?;
        Some(cursor.at())
    }

    /// Walks through a row.
    #[inline(always)]
    fn walk<T: Target>(
        &self,
        at: usize,
        seen: &mut SeenKeys,
        env: &Env<'_>,
        spans: Spans<'_>,
        target: T,
    ) -> Option<(WalkResult, T)> {
        let mut visitor = RowVisitor {
            plan: self,
            env,
            spans,
            target,
        };
        let walked = self
            .cells
            .walk(env.text.as_bytes(), at, seen, &mut visitor)?;
        Some((walked, visitor.target))
    }

    /// Skips a row.
    pub fn skip(
        &self,
        at: usize,
        seen: &mut SeenKeys,
        env: &Env<'_>,
        spans: Spans<'_>,
    ) -> Option<WalkResult> {
        self.walk(at, seen, env, spans, ())
            .map(|(walked, ())| walked)
    }

    /// Appends a row to the table. Missing columns are null.
    #[allow(clippy::indexing_slicing, reason = "missing columns are the table's")]
    pub fn read(
        &self,
        at: usize,
        table: &mut Table,
        seen: &mut SeenKeys,
        env: &Env<'_>,
        spans: Spans<'_>,
    ) -> Option<WalkResult> {
        table.begin_row();
        let (walked, columns) = self.walk(at, seen, env, spans, table.columns.as_mut_slice())?;
        for column in self.missing_columns(walked, seen) {
            columns[column].push_nulls(1);
        }
        table.end_row();
        Some(walked)
    }

    /// Returns the requested columns that a row lacks.
    pub fn missing_columns<'s>(
        &'s self,
        walked: WalkResult,
        seen: &'s SeenKeys,
    ) -> impl Iterator<Item = usize> + 's {
        let cells = self
            .cells
            .iter()
            .enumerate()
            .filter(move |_| !walked.is_complete);
        let unseen = cells
            .filter(|(index, _)| !seen.has(*index))
            .filter_map(|(_, cell)| cell.column());
        self.absent.iter().copied().chain(unseen)
    }

    /// Appends a partial row. Missing values come from the same row of the base.
    pub fn merge(
        &self,
        at: usize,
        table: &mut Table,
        seen: &mut SeenKeys,
        env: &Env<'_>,
        spans: Spans<'_>,
    ) -> Option<WalkResult> {
        table.begin_row();
        let (walked, _) = self.walk(at, seen, env, spans, table.changes()?)?;
        table.end_changes();
        Some(walked)
    }

    /// Appends a partial row to a map: the values of the after image, with the partial row's values in their place.
    #[allow(
        clippy::indexing_slicing,
        reason = "spans are only appended while a row is read"
    )]
    pub fn merge_map(
        &self,
        at: usize,
        map: &mut Map,
        after: &[Span],
        (seen, spans): (&mut SeenKeys, &mut Vec<Span>),
        env: &Env<'_>,
    ) -> Option<WalkResult> {
        let start = spans.len();
        let walked = self.skip(at, seen, env, Some(spans))?;
        let changed = SpansByCell::new(&spans[start..]);
        for span in after {
            push_value(changed.get(span.cell).unwrap_or(*span).start, map, env)?;
        }
        if after.iter().enumerate().all(|(at, span)| span.cell == at) {
            self.push_names(after.len(), map)?;
        } else {
            after.iter().try_for_each(|span| {
                map.keys
                    .push(self.cells.item(span.cell).name.as_bytes())
                    .ok()
            })?;
        }
        map.end_row();
        Some(walked)
    }

    /// Appends a row to a map.
    pub fn read_map(
        &self,
        at: usize,
        map: &mut Map,
        seen: &mut SeenKeys,
        env: &Env<'_>,
        spans: Spans<'_>,
    ) -> Option<WalkResult> {
        let (walked, (map, count, is_ordered)) = self.walk(at, seen, env, spans, (map, 0, true))?;
        if is_ordered {
            self.push_names(count, map)?;
        }
        map.end_row();
        Some(walked)
    }

    /// Appends the first `count` names to a map.
    #[allow(clippy::indexing_slicing, reason = "a row has at most each name")]
    pub fn push_names(&self, count: usize, map: &mut Map) -> Option<()> {
        let (names, ends) = (&self.names.0, &self.names.1[..count]);
        let length = ends.last().copied().unwrap_or(0);
        map.keys.push_all(&names[..length], ends).ok()
    }
}

/// Fast path for Kafka Connect's usual encodings. Returns the value with its end.
fn decode_usual(
    converter: &Converter,
    at: usize,
    env: &Env<'_>,
) -> Option<(Value<'static>, usize)> {
    let (text, connect) = (env.text.as_bytes(), converter.connect()?);
    if text.get(at) == Some(&b'"') {
        connect.scale?;
        let (base64, end) = plain_text(env.text, at)?;
        return Some((converter.decode_decimal(base64)?, end));
    }
    connect.numbers?;
    let (number, end) = integer(text, at)?;
    if !matches!(text.get(end), Some(b',' | b'}' | b']')) {
        return None;
    }
    Some((converter.decode_integer(number)?, end))
}

#[inline(always)]
pub(super) fn record_span(spans: &mut Spans<'_>, cell: usize, start: usize, end: usize) {
    if let Some(spans) = spans {
        spans.push(Span { cell, start, end });
    }
}
