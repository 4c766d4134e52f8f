//! Row changes: the rows of one table that one statement changed.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::column_cache::{CachedColumn, ChunkMetadata, ColumnId, RowMetadata};
use super::proto::{UPDATE, column, event_name, row_change, row_data};
use super::{EntryContext, Header, Xa, event_type};
use crate::dialect::canal_json;
use crate::dialect::operations::{no_image, no_row, unknown_word};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Events, Image, Op};
use crate::interner::NameId;
use crate::mysql::short_text::ShortText;
use crate::value::Value;
use crate::wire::json::quoted;
use crate::wire::protobuf::{Reader, Tag};
use crate::wire::utf8::is_utf8;

/// State of reading a RowChange: the rows of one table that one statement changed, or a statement.
pub(super) struct Change<'h, 'a> {
    header: &'h mut Header<'a>,
    event_type: Option<u64>,
    is_ddl: bool,
    sql: &'a str,
    xa: Xa<'a>,
    /// Predecessor of the first column of each image.
    starts: [ColumnId; 2],
    /// Index of its first image in `context.events.images`, which has two images for each row.
    first_image: usize,
    /// True if all images have the table's columns in their order.
    are_in_order: bool,
    last_row: Option<LastRow<'a>>,
}

/// The last row. The metadata is read from it, because all rows have the same columns.
struct LastRow<'a> {
    row: Reader<'a>,
    before: ImageEnd,
    after: ImageEnd,
}

/// State at the end of an image.
#[derive(Clone, Copy)]
struct ImageEnd {
    column: ColumnId,
    /// True if all columns matched the cached ones. The cached metadata is then the image's.
    is_exact: bool,
    is_present: bool,
}

impl<'h, 'a> Change<'h, 'a> {
    pub fn new(header: &'h mut Header<'a>, context: &mut EntryContext<'_, '_, 'a>) -> Self {
        context.columns.trim();
        let starts = context.columns.starts(header.database, header.table);
        let first_image = context.events.images.len();
        let (are_in_order, last_row) = (true, None);
        Change {
            header,
            event_type: None,
            is_ddl: false,
            sql: "",
            xa: Xa::default(),
            starts,
            first_image,
            are_in_order,
            last_row,
        }
    }

    pub fn read(
        mut self,
        content: Reader<'a>,
        context: &mut EntryContext<'_, '_, 'a>,
    ) -> Result<()> {
        let mut rest = content;
        if self.read_usual(&mut rest).is_err() {
            // A fault gets its path below.
            (self.event_type, self.is_ddl, rest) = (None, false, content);
        }
        while let Some(row) = rest.repeated(row_change::rowDatas).map_err(in_rows)? {
            self.row(row, context).map_err(in_rows)?;
        }
        rest.fields(row_change::KNOWN, |tag, reader| {
            match tag {
                row_change::eventType => self.event_type = event_type(reader.varint()?),
                row_change::isDdl => self.is_ddl = reader.flag()?,
                row_change::sql => self.sql = reader.text()?,
                row_change::rowDatas => self.row(reader.bytes()?, context)?,
                row_change::props => self.xa.read(reader.bytes()?)?,
                row_change::ddlSchemaName if self.header.database.is_empty() => {
                    self.header.database = reader.text()?
                }
                _ => reader.skip(tag, row_change::KNOWN)?,
            }
            Ok(())
        })?;
        self.emit(context)
    }

    /// Reads the fields before the rows, in the usual order.
    #[inline(always)]
    fn read_usual(&mut self, fields: &mut Reader<'a>) -> Result<()> {
        if fields.eat(row_change::tableId) {
            fields.varint()?;
        }
        if fields.eat(row_change::eventType) {
            self.event_type = event_type(fields.varint()?);
        }
        if fields.eat(row_change::isDdl) {
            self.is_ddl = fields.flag()?;
        }
        Ok(())
    }

    fn row(&mut self, row: Reader<'a>, context: &mut EntryContext<'_, '_, 'a>) -> Result<()> {
        let mut rest = row;
        let [before, after] = self.starts;
        let before = image(&mut rest, row_data::beforeColumns, before, context)
            .map_err(|fault| fault.within("beforeColumns"))?;
        let after = image(&mut rest, row_data::afterColumns, after, context)
            .map_err(|fault| fault.within("afterColumns"))?;
        rest.fields(row_data::KNOWN, |tag, reader| match tag {
            row_data::beforeColumns | row_data::afterColumns => Err(Fault::new(
                Kind::Envelope,
                "the columns of an image are not contiguous",
            )
            .at(reader.at())),
            _ => reader.skip(tag, row_data::KNOWN),
        })?;
        self.are_in_order &=
            context.columns.is_in_order(before.column) && context.columns.is_in_order(after.column);
        self.last_row = Some(LastRow { row, before, after });
        Ok(())
    }

    fn emit(&self, context: &mut EntryContext<'_, '_, 'a>) -> Result<()> {
        let operation = event_name(self.event_type.or(self.header.event_type).unwrap_or(UPDATE));
        let op = canal_json::op_of(&operation, self.is_ddl);
        let images = self.first_image..context.events.images.len();
        if op == Op::Other && !images.is_empty() {
            return Err(unknown_word(&operation).within("eventType"));
        }
        // A statement that canal logged as text has the type of a row change, but no rows.
        let is_statement = op.is_row_change() && images.is_empty() && !self.sql.is_empty();
        if op.is_row_change() && images.is_empty() && !is_statement {
            return Err(no_row(op).within("rowDatas"));
        }
        let metadata = match &self.last_row {
            Some(row) if op.is_row_change() => {
                Some(row.metadata(&images, self.are_in_order, context)?)
            }
            _ => None,
        };
        let envelope = self
            .header
            .envelope(operation, self.xa.id, context, |envelope| {
                // The statement may be empty.
                envelope.sql =
                    (self.is_ddl || !self.sql.is_empty()).then_some(Cow::Borrowed(self.sql));
                if let Some((types, primary_key, jdbc_types)) = metadata {
                    (envelope.types, envelope.primary_key) = (types, primary_key);
                    envelope.jdbc_types = Some(jdbc_types.into());
                }
            })?;
        if !op.is_row_change() || is_statement {
            context.events.row(
                if is_statement { Op::Query } else { op },
                envelope,
                None,
                None,
            );
            return Ok(());
        }
        for row in (0..images.len()).step_by(2) {
            let (before, after) = (
                context.events.image(&images, row),
                context.events.image(&images, row + 1),
            );
            let images = row_images(op, before, after, self.are_in_order, context.events);
            let (before, after) = images.map_err(in_rows)?;
            context.events.row(op, envelope, before, after);
        }
        Ok(())
    }
}

fn in_rows(fault: Fault) -> Fault {
    fault.within("rowDatas")
}

/// Returns the before and after images of one row.
fn row_images(
    op: Op,
    before: Option<Cells>,
    after: Option<Cells>,
    are_in_order: bool,
    events: &Events<'_>,
) -> Result<(Option<Image>, Option<Image>)> {
    let whole = |cells| Image::ordered(cells, are_in_order);
    match (op, before, after) {
        (Op::Delete, Some(cells), _) | (Op::Delete, None, Some(cells)) => {
            Ok((Some(whole(cells)), None))
        }
        (_, _, None) => Err(no_image(op)),
        // With a `binlog_row_image` other than FULL, the after image omits unchanged columns.
        (Op::Update, Some(before), Some(after))
            if !have_same_keys(&before, &after, are_in_order, events) =>
        {
            Ok((
                Some(whole(before.clone())),
                Some(Image::merged(before, after)),
            ))
        }
        (Op::Update, before, Some(after)) => Ok((before.map(whole), Some(whole(after)))),
        (_, _, Some(after)) => Ok((None, Some(whole(after)))),
    }
}

fn have_same_keys(one: &Cells, other: &Cells, are_in_order: bool, events: &Events<'_>) -> bool {
    if are_in_order {
        return one.len() == other.len();
    }
    let (one, other) = (events.cells_of(one), events.cells_of(other));
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.0 == other.0)
}

/// Reads the consecutive columns of an image into cells; `start` is the predecessor of the first.
fn image<'a>(
    row: &mut Reader<'a>,
    image: Tag,
    start: ColumnId,
    context: &mut EntryContext<'_, '_, 'a>,
) -> Result<ImageEnd> {
    let first = context.events.cells.len();
    let mut end = ImageEnd {
        column: start,
        is_exact: true,
        is_present: false,
    };
    loop {
        if let Some(id) = read_usual(row, end.column, context) {
            (end.column, end.is_present) = (id, true);
            continue;
        }
        let Some(column) = row.repeated(image)? else {
            break;
        };
        end.is_present = true;
        match read_cached(column, end.column, context) {
            Some(id) => end.column = id,
            None => read_uncached(column, image, &mut end, context)?,
        }
    }
    let cells = first..context.events.cells.len();
    context.events.images.push(end.is_present.then_some(cells));
    Ok(end)
}

/// Reads a row's next field, if it is the cached successor of `previous` with a usual value.
#[inline(always)]
fn read_usual<'a>(
    row: &mut Reader<'a>,
    previous: ColumnId,
    context: &mut EntryContext<'_, '_, 'a>,
) -> Option<ColumnId> {
    let (id, cached) = context.columns.following(previous)?;
    let (text, rest) = cached.usual_value(row.rest())?;
    if cached.is_requested {
        context.events.cells.push((cached.key, short_value(text)?));
    }
    row.advance_to(rest);
    Some(id)
}

/// Reads a column that equals the cached successor of `previous`, except for its value.
#[inline(never)]
fn read_cached<'a>(
    column: Reader<'a>,
    previous: ColumnId,
    context: &mut EntryContext<'_, '_, 'a>,
) -> Option<ColumnId> {
    let (id, cached) = context.columns.following(previous)?;
    let (varying, suffix_length) = cached.varying_part(column.rest())?;
    let value = parse_varying(varying)?;
    if cached.is_requested {
        let value = match value {
            Some(value) => {
                let at = column.end() - suffix_length - value.len();
                text_at(context.message, at, value.len())?
            }
            None => Value::Null,
        };
        context.events.cells.push((cached.key, value));
    }
    Some(id)
}

/// Returns the text at an offset of the message, if it is UTF-8.
#[inline(always)]
fn text_at(message: &[u8], at: usize, length: usize) -> Option<Value<'_>> {
    match ShortText::of(message, at, length) {
        Some(text) => short_value(text),
        None => Some(message.get(at..)?.get(..length)?)
            .filter(|text| is_utf8(text))
            .map(Value::Plain),
    }
}

/// Returns the text, if it is UTF-8.
#[inline(always)]
fn short_value(text: ShortText<'_>) -> Option<Value<'_>> {
    (text.is_ascii() || is_utf8(text.bytes())).then_some(Value::Short(text))
}

/// Parses the varying part of a column: `updated`, `isNull`, `value`. Returns `None` if it has other fields.
#[inline(always)]
fn parse_varying(bytes: &[u8]) -> Option<Option<&[u8]>> {
    const UPDATED: u8 = column::updated as u8;
    const IS_NULL: u8 = column::isNull as u8;
    const VALUE: u8 = column::value as u8;
    let bytes = match bytes {
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

/// Returns the bytes after a length prefix, if their number equals the length.
#[inline(always)]
fn length_prefixed(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = match bytes {
        [length @ 0..0x80, rest @ ..] => (usize::from(*length), rest),
        [low, high @ 0..0x80, rest @ ..] => {
            (usize::from(*high) << 7 | usize::from(*low & 0x7F), rest)
        }
        _ => {
            let mut reader = Reader::new(bytes);
            (usize::try_from(reader.varint().ok()?).ok()?, reader.rest())
        }
    };
    (rest.len() == length).then_some(rest)
}

/// Reads a column field by field.
#[inline(never)]
fn read_uncached<'a>(
    column: Reader<'a>,
    image: Tag,
    end: &mut ImageEnd,
    context: &mut EntryContext<'_, '_, 'a>,
) -> Result<()> {
    let column = Column::read(column)?;
    let key = context
        .events
        .keys
        .plain(column.name, context.columns.key(end.column));
    let (is_requested, place) = (
        context.events.wants_cell(key),
        context.events.keys.column(key),
    );
    if is_requested {
        context.events.cells.push((key, column.value()?));
    }
    let previous = end.column;
    end.column = match context.columns.following(previous) {
        // The same column with other metadata: an unsigned value that needs a wider JDBC type than the cached one.
        Some((id, cached)) if cached.key == key => {
            end.is_exact = false;
            context.columns.count_inexact();
            id
        }
        _ => context.columns.add(
            CachedColumn::new(key, is_requested, image, column.affixes),
            place,
            previous,
        ),
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
        let mut found = Column {
            name: "",
            jdbc_type: 0,
            is_key: false,
            is_null: false,
            value: nothing,
            mysql_type: "",
            affixes: None,
        };
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
        self.value
            .as_utf8()
            .map(Value::Plain)
            .map_err(|fault| fault.within("value").within(self.name))
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
    fn metadata(
        &self,
        images: &std::ops::Range<usize>,
        are_in_order: bool,
        context: &mut EntryContext<'_, '_, 'a>,
    ) -> Result<ChunkMetadata<'a>> {
        let (before, after) = (
            context.events.image(images, images.len().wrapping_sub(2)),
            context.events.image(images, images.len().wrapping_sub(1)),
        );
        let needs_both = before.zip(after).is_some_and(|(before, after)| {
            !have_same_keys(&before, &after, are_in_order, context.events)
        });
        let (image, end) = if self.after.is_present {
            (row_data::afterColumns, self.after)
        } else {
            (row_data::beforeColumns, self.before)
        };
        if needs_both {
            let metadata = read_metadata(
                self.row,
                &[row_data::beforeColumns, row_data::afterColumns],
                context.events,
            )?;
            return Ok(metadata.in_chunk(context.events));
        }
        if let (true, Some(metadata)) = (end.is_exact, context.columns.row_metadata(end.column)) {
            return Ok(metadata.in_chunk(context.events));
        }
        let metadata = read_metadata(self.row, &[image], context.events)?;
        let in_chunk = metadata.in_chunk(context.events);
        if end.is_exact {
            context.columns.set_row_metadata(end.column, metadata);
        }
        Ok(in_chunk)
    }
}

/// Reads the primary key, declared types and JDBC types of a row's columns, without duplicate names.
fn read_metadata<'a>(
    row: Reader<'a>,
    images: &[Tag],
    events: &mut Events<'a>,
) -> Result<RowMetadata> {
    let (mut seen, mut key, mut primary_key) = (HashSet::new(), NameId::START, Vec::new());
    let (mut jdbc_types, wants_jdbc_types) = (String::from("{"), events.needs.jdbc_types);
    events.types.start();
    row.fields(row_data::KNOWN, |tag, reader| {
        if !images.contains(&tag) {
            return reader.skip(tag, row_data::KNOWN);
        }
        let column = Column::read(reader.bytes()?)?;
        key = events.keys.plain(column.name, key);
        if events.needs.types {
            events
                .types
                .declare(key, events.keys.column(key), column.mysql_type);
        }
        if seen.insert(key) {
            if wants_jdbc_types {
                jdbc_types += if seen.len() > 1 { "," } else { "" };
                jdbc_types += &quoted(column.name);
                jdbc_types.push(':');
                jdbc_types += &column.jdbc_type.to_string();
            }
            if column.is_key {
                primary_key.push(key);
            }
        }
        Ok(())
    })?;
    jdbc_types.push('}');
    let types = events
        .needs
        .types
        .then(|| events.types.finish(&[], key.index()));
    Ok(RowMetadata {
        types,
        primary_key,
        jdbc_types,
    })
}
