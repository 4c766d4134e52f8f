//! Row changes: the rows of one table that one statement changed.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::column_cache::{CachedColumn, ColumnId, RowMetadata};
use super::proto::{EVENT_TYPES, UPDATE, column, enum_name, row_change, row_data};
use super::{EntryContext, Header, Xa, event_type};
use crate::dialect::canal_json;
use crate::dialect::operations::unknown_word;
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Events, Image, Op};
use crate::interner::NameId;
use crate::value::Value;
use crate::wire::json::quoted;
use crate::wire::protobuf::{Reader, Tag};
use crate::wire::utf8::is_utf8;

/// State of reading a RowChange: the rows of one table that one statement changed, or a statement.
pub(super) struct Change<'a> {
    header: Header<'a>,
    event_type: Option<u64>,
    is_ddl: bool,
    sql: &'a str,
    xa: Xa<'a>,
    /// Predecessor of the first column of each image.
    starts: [ColumnId; 2],
    /// Index of its first image in `context.events.images`, which has two for each row.
    first_image: usize,
    last_row: Option<LastRow<'a>>,
}

/// The last row, from which the metadata is read: all rows have the same columns.
struct LastRow<'a> {
    row: Reader<'a>,
    before: ImageEnd,
    after: ImageEnd,
}

/// State at the end of an image.
#[derive(Clone, Copy)]
struct ImageEnd {
    column: ColumnId,
    /// Whether all columns matched the cached ones, whose metadata is then the image's.
    is_exact: bool,
    is_present: bool,
}

impl<'a> Change<'a> {
    pub fn new(header: Header<'a>, context: &mut EntryContext<'_, '_, 'a, '_, '_>) -> Self {
        context.columns.trim();
        let starts = context.columns.starts(header.database, header.table);
        let first_image = context.events.images.len();
        Change { header, event_type: None, is_ddl: false, sql: "", xa: Xa::default(), starts, first_image, last_row: None }
    }

    pub fn read(mut self, content: Reader<'a>, context: &mut EntryContext<'_, '_, 'a, '_, '_>) -> Result<()> {
        content.fields(row_change::KNOWN, |tag, reader| {
            match tag {
                row_change::eventType => self.event_type = event_type(reader.varint()?),
                row_change::isDdl => self.is_ddl = reader.flag()?,
                row_change::sql => self.sql = reader.text()?,
                row_change::rowDatas => self.row(reader.bytes()?, context)?,
                row_change::props => self.xa.read(reader.bytes()?)?,
                row_change::ddlSchemaName if self.header.database.is_empty() => self.header.database = reader.text()?,
                _ => reader.skip(tag, row_change::KNOWN)?,
            }
            Ok(())
        })?;
        self.emit(context)
    }

    fn row(&mut self, row: Reader<'a>, context: &mut EntryContext<'_, '_, 'a, '_, '_>) -> Result<()> {
        let mut rest = row;
        let [before, after] = self.starts;
        let before = image(&mut rest, row_data::beforeColumns, before, context).map_err(|fault| fault.within("beforeColumns"))?;
        let after = image(&mut rest, row_data::afterColumns, after, context).map_err(|fault| fault.within("afterColumns"))?;
        rest.fields(row_data::KNOWN, |tag, reader| match tag {
            row_data::beforeColumns | row_data::afterColumns => {
                Err(Fault::new(Kind::Envelope, "stands apart from the other columns of its image").at(reader.at()))
            }
            _ => reader.skip(tag, row_data::KNOWN),
        })?;
        self.last_row = Some(LastRow { row, before, after });
        Ok(())
    }

    fn emit(&self, context: &mut EntryContext<'_, '_, 'a, '_, '_>) -> Result<()> {
        let operation = enum_name(&EVENT_TYPES, self.event_type.or(self.header.event_type).unwrap_or(UPDATE));
        let op = canal_json::op_of(&operation, self.is_ddl);
        let images = self.first_image..context.events.images.len();
        if op == Op::Other && !images.is_empty() {
            return Err(unknown_word(&operation).within("eventType"));
        }
        // A statement logged as text has the type of a row change, but no rows.
        let is_statement = op.is_row_change() && images.is_empty() && !self.sql.is_empty();
        if op.is_row_change() && images.is_empty() && !is_statement {
            return Err(Fault::new(Kind::Envelope, format!("{} without a row", op.name())).within("rowDatas"));
        }
        let mut envelope = self.header.envelope(operation, self.xa.id, context.reading);
        // Empty if there is no statement.
        envelope.sql = (self.is_ddl || !self.sql.is_empty()).then_some(Cow::Borrowed(self.sql));
        if let (true, Some(row)) = (op.is_row_change(), &self.last_row) {
            let metadata = row.metadata(&images, context)?;
            (envelope.types, envelope.primary_key) = (metadata.types, metadata.primary_key);
            envelope.jdbc_types = Some(metadata.jdbc_types.into());
        }
        let envelope = context.events.envelope(envelope)?;
        if !op.is_row_change() || is_statement {
            context.events.row(if is_statement { Op::Query } else { op }, envelope, None, None);
            return Ok(());
        }
        for row in (0..images.len()).step_by(2) {
            let (before, after) = (context.events.image(&images, row), context.events.image(&images, row + 1));
            let (before, after) = row_images(op, before, after, context.events).map_err(|fault| fault.within("rowDatas"))?;
            context.events.row(op, envelope, before, after);
        }
        Ok(())
    }
}

/// Returns the before and after images of one row.
fn row_images(op: Op, before: Option<Cells>, after: Option<Cells>, events: &Events<'_, '_, '_>) -> Result<(Option<Image>, Option<Image>)> {
    let missing = || Fault::new(Kind::Envelope, format!("a row of this {} has no image", op.name()));
    match op {
        Op::Delete => Ok((Some(Image::whole(before.or(after).ok_or_else(missing)?)), None)),
        Op::Update => {
            let after = after.ok_or_else(missing)?;
            let is_complete = before.as_ref().is_none_or(|before| have_same_keys(before, &after, events));
            // With a `binlog_row_image` other than FULL, the after image omits unchanged columns.
            let base = if is_complete { 0..0 } else { before.clone().unwrap_or_default() };
            Ok((before.map(Image::whole), Some(Image { base, own: after })))
        }
        _ => Ok((None, Some(Image::whole(after.ok_or_else(missing)?)))),
    }
}

fn have_same_keys(one: &Cells, other: &Cells, events: &Events<'_, '_, '_>) -> bool {
    let keys = |cells: &Cells| events.cells_of(cells).iter().map(|(key, _)| *key);
    keys(one).eq(keys(other))
}

/// Reads the consecutive columns of an image into cells; `start` is the predecessor of the first.
fn image<'a>(row: &mut Reader<'a>, image: Tag, start: ColumnId, context: &mut EntryContext<'_, '_, 'a, '_, '_>) -> Result<ImageEnd> {
    let first = context.events.cells.len();
    let mut end = ImageEnd { column: start, is_exact: true, is_present: false };
    while let Some(column) = row.repeated(image)? {
        end.is_present = true;
        match read_cached(column.rest(), end.column, context) {
            Some(id) => end.column = id,
            None => read_uncached(column, &mut end, context)?,
        }
    }
    let cells = first..context.events.cells.len();
    context.events.images.push(end.is_present.then_some(cells));
    Ok(end)
}

/// Reads a column that equals the cached successor of `previous`, except for its value.
#[inline(always)]
fn read_cached<'a>(column: &'a [u8], previous: ColumnId, context: &mut EntryContext<'_, '_, 'a, '_, '_>) -> Option<ColumnId> {
    let (id, cached) = context.columns.following(previous)?;
    let value = parse_varying(cached.varying_part(column)?)?;
    if cached.is_requested {
        let value = match value {
            Some(value) if is_utf8(value) => Value::Plain(value),
            Some(_) => return None,
            None => Value::Null,
        };
        context.events.cells.push((cached.key, value));
    }
    Some(id)
}

/// Parses the varying part of a column: `updated`, `isNull`, `value`. Returns `None` if it has other fields.
#[inline(always)]
fn parse_varying(bytes: &[u8]) -> Option<Option<&[u8]>> {
    const UPDATED: u8 = column::updated as u8;
    const IS_NULL: u8 = column::isNull as u8;
    const VALUE: u8 = column::value as u8;
    let bytes = match bytes {
        // The common case from canal.
        [UPDATED, 0..=1, IS_NULL, 0, VALUE, length @ 0..0x80, value @ ..] => {
            return (value.len() == usize::from(*length)).then_some(Some(value));
        }
        [UPDATED, 0..=1, rest @ ..] => rest,
        _ => bytes,
    };
    match bytes {
        [IS_NULL, 0, VALUE, rest @ ..] | [VALUE, rest @ ..] => length_prefixed(rest).map(Some),
        [IS_NULL, 1] => Some(None),
        [IS_NULL, 0] | [] => Some(Some(&[])),
        _ => None,
    }
}

/// Returns the rest after a length prefix, if it has that length.
#[inline(always)]
fn length_prefixed(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = match bytes {
        [length @ 0..0x80, rest @ ..] => (usize::from(*length), rest),
        [low, high @ 0..0x80, rest @ ..] => (usize::from(*high) << 7 | usize::from(*low & 0x7F), rest),
        _ => {
            let mut reader = Reader::new(bytes);
            (usize::try_from(reader.varint().ok()?).ok()?, reader.rest())
        }
    };
    (rest.len() == length).then_some(rest)
}

/// Reads a column field by field.
#[inline(never)]
fn read_uncached<'a>(column: Reader<'a>, end: &mut ImageEnd, context: &mut EntryContext<'_, '_, 'a, '_, '_>) -> Result<()> {
    let column = Column::read(column)?;
    let key = context.events.keys.plain(column.name, context.columns.key(end.column));
    let is_requested = context.events.wants_cell(key);
    if is_requested {
        context.events.cells.push((key, column.value()?));
    }
    let previous = end.column;
    end.column = match context.columns.following(previous) {
        // The same column with other metadata: an unsigned value that needs a wider JDBC type than the cached one.
        Some((id, cached)) if cached.key == key => {
            end.is_exact = false;
            id
        }
        _ => context.columns.add(CachedColumn::new(key, is_requested, column.affixes), previous),
    };
    Ok(())
}

/// A column of a row image.
struct Column<'a> {
    name: &'a str,
    jdbc_type: i32,
    is_key: bool,
    is_null: bool,
    value: Reader<'a>,
    mysql_type: &'a str,
    /// Prefix and suffix of the part that varies between rows, if the fields are in order.
    affixes: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> Column<'a> {
    fn read(message: Reader<'a>) -> Result<Self> {
        let nothing = Reader::new(&[]);
        let mut found = Column { name: "", jdbc_type: 0, is_key: false, is_null: false, value: nothing, mysql_type: "", affixes: None };
        let mut span = VaryingSpan::default();
        let mut at = message.at();
        message.fields(column::KNOWN, |tag, reader| {
            span.add_field(tag, at);
            match tag {
                column::sqlType => found.jdbc_type = reader.varint()? as i32,
                column::name => found.name = reader.text()?,
                column::isKey => found.is_key = reader.flag()?,
                column::isNull => found.is_null = reader.flag()?,
                column::value => found.value = reader.bytes()?,
                column::mysqlType => found.mysql_type = reader.text()?,
                _ => reader.skip(tag, column::KNOWN)?,
            }
            at = reader.at();
            Ok(())
        })?;
        if found.name.is_empty() {
            return Err(Fault::new(Kind::Envelope, "a column without a name").at(message.at()));
        }
        found.affixes = span.affixes(message);
        Ok(found)
    }

    fn value(&self) -> Result<Value<'a>> {
        if self.is_null {
            return Ok(Value::Null);
        }
        self.value.as_utf8().map(Value::Plain).map_err(|fault| fault.within("value").within(self.name))
    }
}

/// Span of the part of a column that varies between rows.
#[derive(Default)]
struct VaryingSpan {
    last: Tag,
    is_unordered: bool,
    begin: Option<usize>,
    end: Option<usize>,
}

impl VaryingSpan {
    fn add_field(&mut self, tag: Tag, at: usize) {
        self.is_unordered |= tag <= self.last;
        self.last = tag;
        if tag >= column::updated {
            self.begin.get_or_insert(at);
        }
        if tag > column::value {
            self.end.get_or_insert(at);
        }
    }

    fn affixes<'a>(&self, column: Reader<'a>) -> Option<(&'a [u8], &'a [u8])> {
        let column_end = column.at() + column.rest().len();
        let end = self.end.unwrap_or(column_end);
        let (prefix, _) = column.split(self.begin.unwrap_or(end));
        let (_, suffix) = column.split(end);
        (!self.is_unordered).then_some((prefix, suffix))
    }
}

impl<'a> LastRow<'a> {
    /// Returns the metadata of the row's columns, which is usually cached.
    fn metadata(&self, images: &std::ops::Range<usize>, context: &mut EntryContext<'_, '_, 'a, '_, '_>) -> Result<RowMetadata<'a>> {
        let (before, after) =
            (context.events.image(images, images.len().wrapping_sub(2)), context.events.image(images, images.len().wrapping_sub(1)));
        let needs_both = before.zip(after).is_some_and(|(before, after)| !have_same_keys(&before, &after, context.events));
        let (image, end) =
            if self.after.is_present { (row_data::afterColumns, self.after) } else { (row_data::beforeColumns, self.before) };
        if needs_both {
            return read_metadata(self.row, &[row_data::beforeColumns, row_data::afterColumns], context.events);
        }
        if let (true, Some(metadata)) = (end.is_exact, context.columns.row_metadata(end.column)) {
            return Ok(metadata.clone());
        }
        let metadata = read_metadata(self.row, &[image], context.events)?;
        if end.is_exact {
            context.columns.set_row_metadata(end.column, metadata.clone());
        }
        Ok(metadata)
    }
}

/// Reads the primary key, declared types and JDBC types of a row's columns, without duplicate names.
fn read_metadata<'a>(row: Reader<'a>, images: &[Tag], events: &mut Events<'a, '_, '_>) -> Result<RowMetadata<'a>> {
    let (mut seen, mut key, first_name) = (HashSet::new(), NameId::START, events.names.len());
    let (mut jdbc_types, wants_jdbc_types) = (String::from("{"), events.needs.jdbc_types);
    events.types.start();
    row.fields(row_data::KNOWN, |tag, reader| {
        if !images.contains(&tag) {
            return reader.skip(tag, row_data::KNOWN);
        }
        let column = Column::read(reader.bytes()?)?;
        key = events.keys.plain(column.name, key);
        if events.needs.types {
            events.types.declare(key, events.keys.column(key), column.mysql_type);
        }
        if seen.insert(key) {
            if wants_jdbc_types {
                jdbc_types += if seen.len() > 1 { "," } else { "" };
                jdbc_types += &quoted(column.name);
                jdbc_types.push(':');
                jdbc_types += &column.jdbc_type.to_string();
            }
            if column.is_key {
                events.names.push(key);
            }
        }
        Ok(())
    })?;
    jdbc_types.push('}');
    let types = events.needs.types.then(|| events.types.finish(&[], key.index()));
    let primary_key = Some(first_name..events.names.len()).filter(|names| !names.is_empty());
    Ok(RowMetadata { types, primary_key, jdbc_types: events.arena.alloc_str(&jdbc_types) })
}
