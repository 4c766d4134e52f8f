//! Row images: their names in the order in which they stood, and what is done with the value of each.

use bumpalo::Bump;
use hashbrown::HashMap;

use super::scalar::{integer, plain_string, plain_text};
use crate::columns::{Column, Context};
use crate::dialect::connect_values;
use crate::event::{Events, Quirks};
use crate::interner::{NameId, fingerprint};
use crate::mysql::number::count_digits;
use crate::mysql::types::{DeclaredTypes, Encoding};
use crate::output::images::{Images, Map, Table};
use crate::output::plan::Plan;
use crate::value::Value;
use crate::wire::json::{Cursor, Text};

/// Bytes that a message is compared with.
pub(super) struct Exact {
    bytes: Box<[u8]>,
    /// The first 16 bytes, and which of their bits count: one comparison in place of a call.
    head: u128,
    mask: u128,
}

impl Exact {
    pub fn new(bytes: &[u8]) -> Self {
        let mut head = [0; 16];
        let length = bytes.len().min(16);
        head.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        let mask = if length == 16 { u128::MAX } else { (1 << (8 * length)) - 1 };
        Exact { bytes: bytes.into(), head: u128::from_le_bytes(head), mask }
    }

    /// Where the bytes end, if they stand at `at`.
    #[inline(always)]
    pub fn eat(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = text.get(at..)?;
        let is_here = match rest.first_chunk::<16>() {
            Some(block) if u128::from_le_bytes(*block) & self.mask != self.head => false,
            Some(_) if self.bytes.len() <= 16 => true,
            _ => rest.starts_with(&self.bytes),
        };
        is_here.then_some(at + self.bytes.len())
    }

    /// The same without the first of them.
    #[inline(always)]
    fn eat_rest(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = text.get(at..)?;
        let is_here = match rest.first_chunk::<16>() {
            Some(block) if u128::from_le_bytes(*block) & self.mask >> 8 != self.head >> 8 => false,
            Some(_) if self.bytes.len() <= 16 => true,
            _ => rest.starts_with(self.bytes.get(1..)?),
        };
        is_here.then_some(at + self.bytes.len() - 1)
    }
}

/// A member's name in JSON, with the separator before it and the colon behind it: `,"id":`, or `{"id":` for the first member.
pub(super) struct Literal {
    written: Exact,
    /// How many bytes the name has between its quotes.
    name: usize,
}

impl Literal {
    /// Of a name with so many others `before` it; `written` are its bytes with quotes and what follows.
    pub fn new(before: usize, written: &str, name: usize) -> Self {
        let separator = if before == 0 { b'{' } else { b',' };
        let bytes: Vec<u8> = std::iter::once(separator).chain(written.bytes()).collect();
        Literal { written: Exact::new(&bytes), name }
    }

    /// The name, escapes and all.
    fn raw(&self) -> &[u8] {
        self.written.bytes.get(2..2 + self.name).unwrap_or_default()
    }
}

/// Names that usually stand in this order, with what is known of each.
pub(super) struct Names<T> {
    entries: Vec<Entry<T>>,
    /// By the name's [`fingerprint`], and by the name where another one has the same.
    near: Vec<u16>,
    by_name: HashMap<Box<[u8]>, usize>,
}

struct Entry<T> {
    literal: Literal,
    of: T,
}

impl<T> Names<T> {
    pub fn new(entries: Vec<(Literal, T)>) -> Self {
        let entries: Vec<Entry<T>> = entries.into_iter().map(|(literal, of)| Entry { literal, of }).collect();
        let mut near = vec![u16::MAX; 256];
        let mut by_name = HashMap::new();
        for (index, Entry { literal, .. }) in entries.iter().enumerate() {
            if let (Some(slot), Ok(index)) = (near.get_mut(fingerprint(literal.raw())), u16::try_from(index)) {
                *slot = index;
            }
            by_name.insert(literal.raw().into(), index);
        }
        Names { entries, near, by_name }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.of)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|entry| &mut entry.of)
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        self.entries.get(index).map(|entry| &entry.of)
    }

    /// The name at `at`, usually the `expected` one, and where its value begins.
    #[inline]
    fn find(&self, text: &[u8], at: usize, expected: usize) -> Option<(usize, &T, usize)> {
        if let Some(entry) = self.entries.get(expected)
            && let Some(value) = entry.literal.written.eat_rest(text, at)
        {
            return Some((expected, &entry.of, value));
        }
        let (name, _) = plain_string(text, at)?;
        let near = usize::from(*self.near.get(fingerprint(name))?);
        if let Some(entry) = self.entries.get(near)
            && let Some(value) = entry.literal.written.eat_rest(text, at)
        {
            return Some((near, &entry.of, value));
        }
        let index = *self.by_name.get(name)?;
        let entry = self.entries.get(index)?;
        Some((index, &entry.of, entry.literal.written.eat_rest(text, at)?))
    }

    /// Walks through an object of these names, of which each may stand at most once.
    #[inline(always)]
    pub fn walk(&self, text: &[u8], mut at: usize, seen: &mut Seen, members: &mut impl Members<T>) -> Option<Walked> {
        for (index, entry) in self.entries.iter().enumerate() {
            let Some(value) = entry.literal.written.eat(text, at) else { return self.walk_any(text, at, index, seen, members) };
            at = members.read(index, &entry.of, value)?;
        }
        let is_end = text.get(at) == Some(&b'}');
        is_end.then_some(Walked { end: at + 1, is_ordered: true, is_complete: true })
    }

    /// The rest of an object, from the separator behind the names that were those that were expected.
    #[inline(never)]
    fn walk_any(&self, text: &[u8], mut at: usize, from: usize, seen: &mut Seen, members: &mut impl Members<T>) -> Option<Walked> {
        seen.begin(self.entries.len(), from);
        let (mut expected, mut count, mut is_ordered) = (from, from, true);
        loop {
            let is_end = match text.get(at)? {
                b'{' if count == 0 => text.get(at + 1) == Some(&b'}'),
                b',' if count > 0 => false,
                b'}' if count > 0 => true,
                _ => return None,
            };
            if is_end {
                let end = at + if count == 0 { 2 } else { 1 };
                return Some(Walked { end, is_ordered, is_complete: count == self.entries.len() });
            }
            let (index, of, value) = self.find(text, at + 1, expected)?;
            if !seen.mark(index) {
                return None;
            }
            is_ordered &= index == count;
            at = members.read(index, of, value)?;
            (expected, count) = (index + 1, count + 1);
        }
    }
}

/// What is done with the members of an object.
pub(super) trait Members<T> {
    /// Reads the value at `at` of the name with this index, and returns where it ends.
    fn read(&mut self, index: usize, of: &T, at: usize) -> Option<usize>;
}

/// Names without values, as these are part of what was compared; their order is noted.
pub(super) struct Order<'o>(pub &'o mut Vec<usize>);

impl Members<()> for Order<'_> {
    #[inline(always)]
    fn read(&mut self, index: usize, (): &(), at: usize) -> Option<usize> {
        self.0.push(index);
        Some(at)
    }
}

/// Steps over the values of a row.
struct Skip<'v, 'e, 'a> {
    env: &'v Env<'e, 'a>,
    spans: Option<&'v mut Vec<Span>>,
}

impl Members<Cell> for Skip<'_, '_, '_> {
    #[inline(always)]
    fn read(&mut self, index: usize, _: &Cell, at: usize) -> Option<usize> {
        let end = self.env.skip(at)?;
        note(&mut self.spans, index, at, end);
        Some(end)
    }
}

/// Appends the values of a row to their columns.
struct ToTable<'v, 'e, 'a> {
    plan: &'v RowPlan,
    columns: &'v mut [Box<dyn Column>],
    env: &'v Env<'e, 'a>,
    spans: Option<&'v mut Vec<Span>>,
}

impl Members<Cell> for ToTable<'_, '_, '_> {
    #[inline(always)]
    fn read(&mut self, index: usize, cell: &Cell, at: usize) -> Option<usize> {
        let end = self.plan.cell(cell, at, self.columns, self.env)?;
        note(&mut self.spans, index, at, end);
        Some(end)
    }
}

/// Appends the names and values of a row to a map.
struct ToMap<'v, 'e, 'a> {
    plan: &'v RowPlan,
    map: &'v mut Map,
    env: &'v Env<'e, 'a>,
    spans: Option<&'v mut Vec<Span>>,
    /// How many values were read, and whether in the usual order: then the names are appended behind the last one.
    count: usize,
    is_ordered: bool,
}

impl Members<Cell> for ToMap<'_, '_, '_> {
    #[inline(always)]
    fn read(&mut self, index: usize, cell: &Cell, at: usize) -> Option<usize> {
        if self.is_ordered && index != self.count {
            self.plan.push_names(self.count, self.map)?;
            self.is_ordered = false;
        }
        let end = push_value(at, self.map, self.env)?;
        if !self.is_ordered {
            self.map.keys.push(cell.name.as_bytes()).ok()?;
        }
        self.count += 1;
        note(&mut self.spans, index, at, end);
        Some(end)
    }
}

/// Appends the value at `at` to a map, and returns where it ends.
#[inline]
pub(super) fn push_value(at: usize, map: &mut Map, env: &Env<'_, '_>) -> Option<usize> {
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

/// What an object was found to be.
#[derive(Clone, Copy)]
pub(super) struct Walked {
    pub end: usize,
    pub is_ordered: bool,
    pub is_complete: bool,
}

/// Which names an object has; only of one that is not complete and in order.
#[derive(Default)]
pub(super) struct Seen(Vec<bool>);

impl Seen {
    fn begin(&mut self, length: usize, seen: usize) {
        self.0.clear();
        self.0.resize(seen, true);
        self.0.resize(length, false);
    }

    /// False if the name was marked before.
    fn mark(&mut self, index: usize) -> bool {
        self.0.get_mut(index).is_some_and(|seen| !std::mem::replace(seen, true))
    }

    fn has(&self, index: usize) -> bool {
        self.0.get(index) == Some(&true)
    }
}

/// The rows of a table: which column of the output each of their names is, and how it gets its values.
pub(super) struct RowPlan {
    pub cells: Names<Cell>,
    /// All names one behind the other, and where each ends.
    names: (Vec<u8>, Vec<usize>),
    /// The asked columns that the rows do not have.
    pub absent: Vec<usize>,
    quirks: &'static Quirks,
    types: Option<usize>,
}

/// A name of a row.
pub(super) struct Cell {
    pub id: NameId,
    /// Without escapes and quoting.
    pub name: Box<str>,
    /// Which of the asked columns it is.
    pub column: Option<usize>,
    pub how: How,
}

/// How a column gets the values of a name.
#[derive(Clone, Copy, Default)]
pub(super) struct How {
    reads: Reads,
    /// In which form Kafka Connect writes all of its numbers.
    numbers: Option<Encoding>,
    /// The scale of its decimals, if Kafka Connect writes all of them in base64.
    scale: Option<i32>,
}

impl Cell {
    /// The cell of this name; how its values are read is found out later.
    pub fn new(name: Text<'_>, events: &mut Events<'_, '_, '_>) -> Option<Self> {
        let id = events.keys.intern(name).ok()?;
        Some(Cell { id, name: events.keys.name(id).into(), column: events.keys.column(id), how: How::default() })
    }
}

/// Which values a column reads where they are written.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Reads {
    #[default]
    None,
    /// Those in quotes.
    Text,
    /// Those without.
    Bare,
    All,
}

/// What values are converted with.
pub(super) struct Env<'e, 'a> {
    pub text: &'a str,
    pub lenient: bool,
    pub plan: &'e Plan,
    pub types: &'e DeclaredTypes,
    pub arena: &'a Bump,
}

impl<'a> Env<'_, 'a> {
    /// Steps over a value whose syntax is right.
    #[inline]
    pub fn skip(&self, at: usize) -> Option<usize> {
        let text = self.text.as_bytes();
        let end = match text.get(at)? {
            b'"' => plain_string(text, at).map(|(_, end)| end),
            b'1'..=b'9' => {
                let end = at + count_digits(text.get(at..)?);
                (!matches!(text.get(end), Some(b'.' | b'e' | b'E'))).then_some(end)
            }
            _ => None,
        };
        end.or_else(|| self.skip_any(at))
    }

    #[inline(never)]
    fn skip_any(&self, at: usize) -> Option<usize> {
        let mut cursor = Cursor::starting(self.text, at, self.lenient);
        cursor.skip().ok()?;
        Some(cursor.at())
    }
}

/// Where the value of a name is written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Span {
    pub cell: usize,
    pub start: usize,
    pub end: usize,
}

/// Where the values of a row are, by the number of their names.
pub(super) fn by_cell(spans: &[Span]) -> Vec<Option<Span>> {
    let length = spans.iter().map(|span| span.cell + 1).max().unwrap_or(0);
    let mut found = vec![None; length];
    spans.iter().for_each(|span| found.get_mut(span.cell).into_iter().for_each(|place| *place = Some(*span)));
    found
}

impl RowPlan {
    pub fn new(cells: Vec<(Literal, Cell)>, absent: Vec<usize>, quirks: &'static Quirks, types: Option<usize>) -> Self {
        let mut names = (Vec::new(), Vec::new());
        for (_, cell) in &cells {
            names.0.extend_from_slice(cell.name.as_bytes());
            names.1.push(names.0.len());
        }
        RowPlan { cells: Names::new(cells), names, absent, quirks, types }
    }

    /// What conversions depend on, of one column.
    fn context<'c>(&'c self, column: usize, env: &'c Env<'_, '_>) -> Context<'c> {
        let named = env.plan.value_options.get(column).and_then(|options| options.declared.as_deref());
        Context::of_column(env.types, self.quirks, self.types, column, named)
    }

    /// Finds out which columns read their values where they are written.
    pub fn note_readers(&mut self, plan: &Plan, images: &[Images], events: &Events<'_, '_, '_>) {
        let tables = images.iter().find_map(|images| if let Images::Table(table) = images { Some(table) } else { None });
        let Some(table) = tables else { return };
        let env = Env { text: "", lenient: false, plan, types: events.types, arena: events.arena };
        let how = |cell: &Cell| {
            let (index, column) = cell.column.and_then(|index| Some((index, table.columns.get(index)?)))?;
            let reads = column.reads(&self.context(index, &env));
            let form = self.connect(index, &env);
            let (numbers, scale) = form.as_ref().map_or((None, None), |form| (form.number_encoding(), form.base64_decimal_scale()));
            let (text, bare) = match form {
                Some(form) => (form.is_plain() || form.has_zoned_text(), form.is_plain() || numbers == Some(Encoding::Plain)),
                None => (true, true),
            };
            let reads = match (reads && text, reads && bare) {
                (true, true) => Reads::All,
                (true, false) => Reads::Text,
                (false, true) => Reads::Bare,
                (false, false) => Reads::None,
            };
            Some(How { reads, numbers, scale })
        };
        let found: Vec<How> = self.cells.iter().map(|cell| how(cell).unwrap_or_default()).collect();
        self.cells.iter_mut().zip(found).for_each(|(cell, how)| cell.how = how);
    }

    /// How Kafka Connect writes a column, if the dialect writes as it does.
    fn connect<'c>(&'c self, column: usize, env: &'c Env<'_, '_>) -> Option<connect_values::ConnectColumn<'c>> {
        if self.quirks.format != crate::event::ValueFormat::Connect {
            return None;
        }
        let options = env.plan.value_options.get(column)?;
        let declared = self.types.and_then(|block| env.types.of_column(block, column));
        let asked = env.plan.table.as_ref()?.get(column)?.data_type();
        Some(connect_values::ConnectColumn { declared, configured: options.declared.as_deref(), requested: asked, modes: env.plan.modes })
    }

    /// Appends the value at `at` to its column, if it is one that is asked for, and returns where it ends.
    #[inline(always)]
    pub fn cell(&self, cell: &Cell, at: usize, columns: &mut [Box<dyn Column>], env: &Env<'_, '_>) -> Option<usize> {
        let Some(column) = cell.column.and_then(|column| columns.get_mut(column)) else { return env.skip(at) };
        let text = env.text.as_bytes();
        let is_read = match cell.how.reads {
            Reads::All => true,
            Reads::Text => text.get(at) == Some(&b'"'),
            Reads::Bare => text.get(at) != Some(&b'"'),
            Reads::None => false,
        };
        let read = if is_read { column.read(text, at) } else { None };
        read.or_else(|| self.convert(cell, column.as_mut(), at, env))
    }

    /// A value that is not written in the usual way.
    #[inline(never)]
    fn convert(&self, cell: &Cell, column: &mut dyn Column, at: usize, env: &Env<'_, '_>) -> Option<usize> {
        let index = cell.column?;
        if let Some((value, end)) = formed(cell, index, at, env) {
            column.append(&value, &self.context(index, env)).ok()?;
            return Some(end);
        }
        let mut cursor = Cursor::starting(env.text, at, env.lenient);
        let value = cursor.value().ok()?;
        let value = match self.connect(index, env) {
            Some(form) => connect_values::decode(value, &form, env.arena).ok()?,
            None => value,
        };
        column.append(&value, &self.context(index, env)).ok()?;
        Some(cursor.at())
    }

    /// Steps over a row and notes where its values are.
    pub fn skip(&self, at: usize, seen: &mut Seen, env: &Env<'_, '_>, spans: Option<&mut Vec<Span>>) -> Option<Walked> {
        self.cells.walk(env.text.as_bytes(), at, seen, &mut Skip { env, spans })
    }

    /// Appends a row to the table. What it lacks is null.
    pub fn read(&self, at: usize, table: &mut Table, seen: &mut Seen, env: &Env<'_, '_>, spans: Option<&mut Vec<Span>>) -> Option<Walked> {
        table.begin_row();
        let mut values = ToTable { plan: self, columns: &mut table.columns, env, spans };
        let walked = self.cells.walk(env.text.as_bytes(), at, seen, &mut values)?;
        for column in self.lacking(walked, seen) {
            table.columns.get_mut(column)?.push_nulls(1);
        }
        table.end_row();
        Some(walked)
    }

    /// The asked columns that a row lacks.
    pub fn lacking<'s>(&'s self, walked: Walked, seen: &'s Seen) -> impl Iterator<Item = usize> + 's {
        let cells = self.cells.iter().enumerate().filter(move |_| !walked.is_complete);
        let unseen = cells.filter(|(index, _)| !seen.has(*index)).filter_map(|(_, cell)| cell.column);
        self.absent.iter().copied().chain(unseen)
    }

    /// Appends a row of which only some values are written here: the others are those of a row of another table.
    pub fn merge(&self, at: usize, table: &mut Table, base: (&Table, usize), buffers: &mut Merge, env: &Env<'_, '_>) -> Option<Walked> {
        table.begin_row();
        let Merge { seen, written, spans } = buffers;
        let mut values = ToTable { plan: self, columns: &mut table.columns, env, spans: Some(spans) };
        let walked = self.cells.walk(env.text.as_bytes(), at, seen, &mut values)?;
        written.clear();
        written.resize(table.columns.len(), false);
        for column in spans.iter().filter_map(|span| self.cells.get(span.cell)?.column) {
            written.get_mut(column).into_iter().for_each(|written| *written = true);
        }
        let (other, row) = base;
        let unwritten = table.columns.iter_mut().zip(&other.columns).zip(written).filter(|(_, written)| !**written);
        unwritten.for_each(|((column, other), _)| column.copy(other.as_ref(), row));
        table.end_row();
        Some(walked)
    }

    /// Appends a row to a map: the values of the row after the change, but for those that are written here.
    pub fn merge_map(&self, at: usize, map: &mut Map, after: &[Span], buffers: &mut Merge, env: &Env<'_, '_>) -> Option<Walked> {
        let walked = self.skip(at, &mut buffers.seen, env, Some(&mut buffers.spans))?;
        let changed = by_cell(&buffers.spans);
        for span in after {
            let changed = changed.get(span.cell).copied().flatten();
            push_value(changed.unwrap_or(*span).start, map, env)?;
        }
        if after.iter().enumerate().all(|(at, span)| span.cell == at) {
            self.push_names(after.len(), map)?;
        } else {
            after.iter().try_for_each(|span| map.keys.push(self.cells.get(span.cell)?.name.as_bytes()).ok())?;
        }
        map.end_row(true);
        Some(walked)
    }

    /// Appends a row to a map.
    pub fn read_map(&self, at: usize, map: &mut Map, seen: &mut Seen, env: &Env<'_, '_>, spans: Option<&mut Vec<Span>>) -> Option<Walked> {
        let mut values = ToMap { plan: self, map, env, spans, count: 0, is_ordered: true };
        let walked = self.cells.walk(env.text.as_bytes(), at, seen, &mut values)?;
        let ToMap { map, count, is_ordered, .. } = values;
        if is_ordered {
            self.push_names(count, map)?;
        }
        map.end_row(true);
        Some(walked)
    }

    /// Appends the first names to a map.
    pub fn push_names(&self, count: usize, map: &mut Map) -> Option<()> {
        let (names, ends) = &self.names;
        let ends = ends.get(..count)?;
        map.keys.push_all(names.get(..ends.last().copied().unwrap_or(0))?, ends).ok()
    }
}

/// A value in one of Kafka Connect's usual forms, and where it ends.
fn formed<'a>(cell: &Cell, column: usize, at: usize, env: &Env<'_, 'a>) -> Option<(Value<'a>, usize)> {
    let text = env.text.as_bytes();
    if text.get(at) == Some(&b'"') {
        let scale = cell.how.scale?;
        let (written, end) = plain_text(env.text, at)?;
        let asked = env.plan.table.as_ref()?.get(column)?.data_type();
        return Some((Value::Unscaled(connect_values::short_decimal(written, scale, asked)?), end));
    }
    let form = cell.how.numbers?;
    let (number, end) = integer(text, at)?;
    let is_whole = matches!(text.get(end), Some(b',' | b'}' | b']'));
    Some((connect_values::of_integer(form, number).filter(|_| is_whole)?, end))
}

#[inline(always)]
pub(super) fn note(spans: &mut Option<&mut Vec<Span>>, cell: usize, start: usize, end: usize) {
    if let Some(spans) = spans {
        spans.push(Span { cell, start, end });
    }
}

/// Room for merging rows.
#[derive(Default)]
pub(super) struct Merge {
    pub seen: Seen,
    /// Which columns of the row have been given a value.
    written: Vec<bool>,
    /// Where the row's own values are written.
    pub spans: Vec<Span>,
}
