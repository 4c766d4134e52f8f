//! dts-avro: records of Aliyun DTS's change tracking. Each is a bare Avro datum without its schema.
//!
//! A record as JSON, shortened:
//!
//! ```json
//! {"version":0,"id":1700061,"sourceTimestamp":1717990002,"sourcePosition":"4985@78","safeSourcePosition":"4650@78",
//!  "sourceTxid":"0","source":{"sourceType":"MySQL","version":"8.0.28"},"operation":"UPDATE","objectName":"shop.orders",
//!  "processTimestamps":null,"tags":{"pk_uk_info":"{\"PRIMARY\":[\"id\"]}","server_id":"26957161"},
//!  "fields":[{"name":"id","dataTypeNumber":8},{"name":"total","dataTypeNumber":246}],
//!  "beforeImages":[{"Integer":{"precision":8,"value":"1"}},{"Decimal":{"value":"9.00","precision":3,"scale":2}}],
//!  "afterImages":[{"Integer":{"precision":8,"value":"1"}},{"Decimal":{"value":"12.50","precision":4,"scale":2}}],
//!  "bornTimestamp":1717990002}
//! ```
//!
//! Two schemas are published. The older one lacks `bornTimestamp`. Class names refer to DTS's SDK
//! (aliyun-dts-subscribe-sdk-java) and its example (subscribe_example).

mod parts;
mod schema_plan;
mod value_records;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use bumpalo::Bump;

use parts::{Choice, RecordPlan, ScalarEncoding};
pub(crate) use schema_plan::SchemaPlan;
use schema_plan::{Action, ColumnsEncoding, ImageEncoding, ItemsEncoding, Scalar, Side, Step};
use value_records::{CellEncoding, count_mismatch, declared};

use super::{Caches, Dialect, DialectOptions, Marks, Read, ReadContext, Wire};
use crate::dialect::operations::no_row;
use crate::error::{Fault, Kind, Result};
use crate::event::{self, Cells, Events, Op, Quirks, Source, ValueFormat};
use crate::interner::{NameId, Quoting};
use crate::mysql::number::short_integer;
use crate::mysql::temporal::micros_of_epoch;
use crate::value::Value;
use crate::wire::avro::{Items, Reader};
use crate::wire::json::Cursor;

const NAME: &str = "dts-avro";

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "Aliyun DTS",
    wire: Wire::Avro,
    description: "the records of Aliyun DTS's change tracking, of both published schemas",
    marks: Marks::BytesOrRead(
        |bytes| {
            PUBLISHED
                .as_ref()
                .is_some_and(|plan| plan.matches_header(bytes))
        },
        try_read,
    ),
    quirks: |_| &QUIRKS,
    read: Read::Bytes(read),
    options: &["writer_schema"],
    template: None,
};

static QUIRKS: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Typed,
    quoting: Quoting::None,
};

/// The newer published schema. The older one is a prefix of it.
static PUBLISHED: LazyLock<Option<SchemaPlan>> =
    LazyLock::new(|| SchemaPlan::compile(include_str!("record.avsc")).ok());

/// Symbols of `operation`. Symbols without an operation of their own differ in `source.operation`.
const OPERATIONS: [(&str, Op); 17] = [
    ("INSERT", Op::Insert),
    ("UPDATE", Op::Update),
    ("DELETE", Op::Delete),
    ("DDL", Op::Ddl),
    ("BEGIN", Op::Begin),
    ("COMMIT", Op::Commit),
    ("ROLLBACK", Op::Rollback),
    ("ABORT", Op::Rollback),
    ("HEARTBEAT", Op::Heartbeat),
    ("CHECKPOINT", Op::Other),
    ("COMMAND", Op::Other),
    ("FILL", Op::Other),
    ("FINISH", Op::Other),
    ("CONTROL", Op::Other),
    ("RDB", Op::Other),
    ("NOOP", Op::Other),
    ("INIT", Op::Other),
];

/// Positional column descriptor: a record lists its columns once, and their values in the same order.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnDescriptor {
    pub key: NameId,
    /// True if its cells are requested.
    pub is_requested: bool,
    /// DTS's type number.
    pub type_number: i32,
}

/// The columns of a table, with their raw bytes.
#[derive(Clone, Copy, Default)]
struct ColumnList<'a> {
    /// The table's name, raw.
    name: &'a [u8],
    /// Database, schema and table.
    names: [Option<&'a str>; 3],
    raw: &'a [u8],
    columns: &'a [ColumnDescriptor],
    /// Its block of declared types.
    types: Option<usize>,
    /// Number of an image's cells, if they are the table's first columns in their order.
    in_order: Option<usize>,
}

/// Cache of earlier records in a chunk of messages.
pub(crate) struct RecordCache<'a> {
    /// Column lists in a direct-mapped cache, by a hash of the table's name.
    lists: [ColumnList<'a>; LISTS],
    /// The last text of keys, with the names of the primary key.
    keys: (&'a [u8], Option<Range<usize>>),
    /// Memo of an update's before image: bytes and decoded value of each cell. The after image repeats most of them.
    before: Vec<(&'a [u8], Value<'a>)>,
}

/// Size of the cache of column lists.
const LISTS: usize = 64;

impl Default for RecordCache<'_> {
    fn default() -> Self {
        RecordCache {
            lists: [ColumnList::default(); LISTS],
            keys: (&[], None),
            before: Vec::new(),
        }
    }
}

impl<'a> RecordCache<'a> {
    /// Returns the slot of a table: its last column list, or the list of another table with the same hash.
    #[inline]
    fn list(&mut self, table: &[u8]) -> &mut ColumnList<'a> {
        let slot = table.iter().fold(0, |hash: usize, byte| {
            hash.wrapping_mul(31).wrapping_add((*byte).into())
        }) % LISTS;
        // Slot 0 is `first`. This form has no bounds check that can panic.
        let [first, rest @ ..] = &mut self.lists;
        rest.get_mut(slot.wrapping_sub(1)).unwrap_or(first)
    }
}

/// State of reading a record. Its envelope is the last one of the events.
struct Record<'a, 'p, 'c> {
    plan: &'p SchemaPlan,
    cache: &'c mut RecordCache<'a>,
    reader: Reader<'a>,
    /// The value of `operation`.
    op: Op,
    /// Names of the table, and the cached columns of its last record.
    list: ColumnList<'a>,
    columns: ColumnListing<'a>,
    before: RecordImage<'a, 'p>,
    after: RecordImage<'a, 'p>,
}

/// Value of the field `fields`.
enum ColumnListing<'a> {
    Null,
    Columns(ColumnList<'a>),
    Other,
}

/// Value of a row image's field.
#[derive(Clone)]
enum RecordImage<'a, 'p> {
    None,
    Text(&'a str),
    Cells(Cells),
    /// Offset of values that precede the columns or the operation. Their decoding depends on both.
    Deferred(usize, &'p Choice<CellEncoding>),
    Other,
}

fn read<'a>(
    bytes: &'a [u8],
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
    caches: &mut Caches<'a>,
) -> Result<()> {
    let plan = reading.options.dts.as_ref().or(PUBLISHED.as_ref());
    let plan = plan.ok_or_else(|| Fault::new(Kind::Envelope, "there is no schema"))?;
    let mut record = Record::new(bytes, plan, &mut caches.dts_avro, events);
    record.read_header(events)?;
    record.read(plan.body(), events)?;
    record.end()?;
    record.emit(events)
}

/// Reads bytes that may be a record of the published schema. `None` if the fields before the columns do not fit the
/// schema. Reading these fields costs no more than checking them.
fn try_read<'a>(
    bytes: &'a [u8],
    options: &DialectOptions,
    events: &mut Events<'a>,
    caches: &mut Caches<'a>,
) -> Option<Result<()>> {
    if options.dts.is_some() {
        return None;
    }
    let plan = PUBLISHED.as_ref()?;
    let mut record = Record::new(bytes, plan, &mut caches.dts_avro, events);
    // The header has the names of the key, so they are read before it is known that the record is from DTS.
    events.set_quoting(QUIRKS.quoting);
    let has_place = record.read_header(events).is_ok()
        && events.envelopes.last().is_some_and(|envelope| {
            envelope.source.position.is_some() || envelope.source.file.is_some()
        });
    if !has_place {
        events.envelopes.pop();
        return None;
    }
    events.set_dialect(&QUIRKS);
    Some(
        record
            .read(plan.body(), events)
            .and_then(|()| record.end())
            .and_then(|()| record.emit(events)),
    )
}

impl<'a, 'p, 'c> Record<'a, 'p, 'c> {
    fn new(
        bytes: &'a [u8],
        plan: &'p SchemaPlan,
        cache: &'c mut RecordCache<'a>,
        events: &mut Events<'a>,
    ) -> Self {
        cache.before.clear();
        events.new_envelope(&QUIRKS);
        Record {
            plan,
            cache,
            reader: Reader::new(bytes),
            op: Op::Error,
            list: ColumnList::default(),
            columns: ColumnListing::Null,
            before: RecordImage::None,
            after: RecordImage::None,
        }
    }

    /// Reads the fields of the plan's header.
    fn read_header(&mut self, events: &mut Events<'a>) -> Result<()> {
        if self.read_published_header(events).is_some() {
            return Ok(());
        }
        // A fault gets its path below.
        (self.reader, self.op, self.list) =
            (self.reader.reader_at(0), Op::Error, ColumnList::default());
        events.envelopes.pop();
        events.new_envelope(&QUIRKS);
        self.read(self.plan.header(), events)
    }

    /// Reads the header of the published schemas, without two jumps for each field.
    fn read_published_header(&mut self, events: &mut Events<'a>) -> Option<()> {
        use Action::{Scalar as Read, Tags, Times};
        static NUMBER: Choice<ScalarEncoding> = Choice::Fixed(ScalarEncoding::Number);
        static TEXT: Choice<ScalarEncoding> = Choice::Fixed(ScalarEncoding::Bytes);
        let actions = self
            .plan
            .header()
            .last_chunk()?
            .each_ref()
            .map(|step| &step.action);
        let [
            Read(_, connector),
            _,
            Read(_, operation),
            Read(_, object_name),
            Times(times),
            Tags(tags),
        ] = actions
        else {
            return None;
        };
        self.reader.long().ok()?;
        self.scalar(Scalar::Id, &NUMBER, events).ok()?;
        self.scalar(Scalar::Timestamp, &NUMBER, events).ok()?;
        self.scalar(Scalar::Position, &TEXT, events).ok()?;
        self.reader.bytes().ok()?;
        self.scalar(Scalar::Transaction, &TEXT, events).ok()?;
        self.scalar(Scalar::Connector, connector, events).ok()?;
        self.scalar(Scalar::Version, &TEXT, events).ok()?;
        self.scalar(Scalar::Operation, operation, events).ok()?;
        self.scalar(Scalar::ObjectName, object_name, events).ok()?;
        self.times(times, events).ok()?;
        self.tags(tags, events).ok()
    }

    fn read(&mut self, steps: &'p [Step], events: &mut Events<'a>) -> Result<()> {
        for step in steps {
            if step.is_optional && self.reader.is_at_end() {
                break;
            }
            self.step(&step.action, events)
                .map_err(|fault| fault.within(&step.name))?;
        }
        Ok(())
    }

    /// Refuses bytes after the last field. They may be a second record, whose rows must not be lost.
    fn end(&self) -> Result<()> {
        if self.reader.is_at_end() {
            return Ok(());
        }
        let what = format!(
            "{} bytes remain after the record; set writer_schema to the schema that wrote it",
            self.reader.rest().len()
        );
        Err(Fault::new(Kind::Syntax, what).at(self.reader.at()))
    }

    #[inline(always)]
    fn step(&mut self, action: &'p Action, events: &mut Events<'a>) -> Result<()> {
        let plan = self.plan;
        match action {
            Action::Scalar(scalar, encoding) => self.scalar(*scalar, encoding, events),
            Action::SkipNumber => self.reader.long().map(drop),
            Action::SkipBytes => self.reader.bytes().map(drop),
            Action::Skip(schema) => plan.schemas.skip(schema, &mut self.reader),
            Action::Times(times) => self.times(times, events),
            Action::Tags(tags) => self.tags(tags, events),
            Action::Columns(columns) => self.columns(columns, events),
            Action::Image(side, image) => {
                let image = self.image(image, events)?;
                *self.side(*side) = image;
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn scalar(
        &mut self,
        scalar: Scalar,
        encoding: &'p Choice<ScalarEncoding>,
        events: &mut Events<'a>,
    ) -> Result<()> {
        let (reader, Some(envelope)) = (&mut self.reader, events.envelopes.last_mut()) else {
            return Ok(());
        };
        match scalar {
            Scalar::ObjectName => {
                let name = encoding.bytes(reader)?.unwrap_or_default();
                self.list = *self.cache.list(name);
                if self.list.name != name {
                    let names = parse_object_name(reader.utf8(name)?, events.arena)?;
                    self.list = ColumnList {
                        name,
                        names,
                        ..ColumnList::default()
                    };
                }
                [envelope.database, envelope.schema, envelope.table] =
                    self.list.names.map(|name| name.map(Cow::Borrowed));
            }
            Scalar::Id => envelope.source.message_id = encoding.number(reader)?,
            Scalar::Timestamp => {
                envelope.source.event_time = encoding.number(reader)?.and_then(micros)
            }
            // A record without a position is not from DTS.
            Scalar::Position if !events.needs.source => {
                envelope.source.file = text(encoding, reader)?
                    .filter(|position| !position.is_empty())
                    .map(Cow::Borrowed);
            }
            Scalar::Position => parse_position(
                text(encoding, reader)?.unwrap_or_default(),
                &mut envelope.source,
            ),
            // If the source is not requested, the fields only need to be text.
            Scalar::Transaction | Scalar::Version | Scalar::Connector if !events.needs.source => {
                encoding.is_text(reader)?;
            }
            Scalar::Transaction => {
                envelope.source.transaction_id = text(encoding, reader)?
                    .filter(|id| !id.is_empty())
                    .map(Cow::Borrowed)
            }
            Scalar::Connector => {
                envelope.connector = Some(lookup(encoding.symbol(reader)?, &[("MySQL", ())]).1)
            }
            Scalar::Version => envelope.version = text(encoding, reader)?.map(Cow::Borrowed),
            Scalar::Operation => {
                let (op, operation) = lookup(encoding.symbol(reader)?, &OPERATIONS);
                (self.op, envelope.source.operation) = (op.unwrap_or(Op::Other), Some(operation));
            }
        }
        Ok(())
    }

    fn side(&mut self, side: Side) -> &mut RecordImage<'a, 'p> {
        match side {
            Side::Before => &mut self.before,
            Side::After => &mut self.after,
        }
    }

    /// Reads the times at which the record passed the stages of DTS. The last stage wrote it.
    fn times(&mut self, times: &'p Choice<ItemsEncoding>, events: &mut Events<'a>) -> Result<()> {
        let mut last = None;
        self.plan
            .for_each_item(times, &mut self.reader, |reader, encoding| {
                last = encoding.number(reader)?;
                Ok(())
            })?;
        if let (Some(time), Some(envelope)) = (last.and_then(micros), events.envelopes.last_mut()) {
            envelope.source.produced_time = Some(time);
        }
        Ok(())
    }

    fn tags(&mut self, tags: &'p Choice<ItemsEncoding>, events: &mut Events<'a>) -> Result<()> {
        let (reader, Some(envelope)) = (&mut self.reader, events.envelopes.last_mut()) else {
            return Ok(());
        };
        let mut keys = None;
        self.plan.for_each_item(tags, reader, |reader, encoding| {
            let name = reader.bytes()?;
            let value = encoding.bytes(reader)?.unwrap_or_default();
            match name {
                b"pk_uk_info" => keys = Some(value),
                b"GTID" => envelope.source.gtid = Some(reader.utf8(value)?.into()),
                b"server_id" => envelope.server_id = number(reader, value)?,
                // The time when DTS read the change. The last stage's time, if present, is closer to the message.
                b"readerThroughoutTime" => {
                    envelope.source.produced_time = envelope
                        .source
                        .produced_time
                        .or(number(reader, value)?.and_then(micros));
                }
                _ => {}
            }
            Ok(())
        })?;
        if let Some(keys) = keys {
            if keys != self.cache.keys.0 || keys.is_empty() {
                let (text, start) = (self.reader.utf8(keys)?, self.reader.offset_of(keys));
                let names = primary_key(text, events)
                    .map_err(|fault| shifted(fault, start).within("pk_uk_info"))?;
                self.cache.keys = (keys, names);
            }
            if let Some(envelope) = events.envelopes.last_mut() {
                envelope.primary_key = self.cache.keys.1.clone();
            }
        }
        Ok(())
    }

    fn columns(
        &mut self,
        columns: &'p Choice<ColumnsEncoding>,
        events: &mut Events<'a>,
    ) -> Result<()> {
        self.columns = match columns.pick(&mut self.reader)? {
            ColumnsEncoding::Null => ColumnListing::Null,
            ColumnsEncoding::Listed(record) => ColumnListing::Columns(self.list(record, events)?),
            ColumnsEncoding::Other(schema) => {
                self.plan.schemas.skip(schema, &mut self.reader)?;
                ColumnListing::Other
            }
        };
        Ok(())
    }

    /// Reads the list of columns. Skips it if it equals the table's cached list.
    fn list(&mut self, record: &'p RecordPlan, events: &mut Events<'a>) -> Result<ColumnList<'a>> {
        if !self.list.raw.is_empty() && self.reader.eat(self.list.raw) {
            return Ok(self.list);
        }
        let start = self.reader.at();
        let columns = self.read_columns(record, events)?;
        let raw = self.reader.since(start);
        let types = events.needs.types.then(|| types(raw, &columns, events));
        let in_order = count_in_order(&columns, events);
        self.list = ColumnList {
            raw,
            columns: events.arena.alloc_slice_copy(&columns),
            types,
            in_order,
            ..self.list
        };
        *self.cache.list(self.list.name) = self.list;
        Ok(self.list)
    }

    fn read_columns(
        &mut self,
        record: &'p RecordPlan,
        events: &mut Events<'a>,
    ) -> Result<Vec<ColumnDescriptor>> {
        let (mut columns, mut key) = (Vec::new(), NameId::START);
        let schemas = &self.plan.schemas;
        self.reader.items(|reader| {
            let ([name], [type_number]) = record.read(reader, schemas)?;
            key = events
                .keys
                .plain(&unescaped(reader.utf8(name.unwrap_or_default())?), key);
            let type_number = type_number
                .and_then(|number| i32::try_from(number).ok())
                .unwrap_or(-1);
            columns.push(ColumnDescriptor {
                key,
                is_requested: events.wants_cell(key),
                type_number,
            });
            Ok(())
        })?;
        Ok(columns)
    }

    fn image(
        &mut self,
        image: &'p Choice<ImageEncoding>,
        events: &mut Events<'a>,
    ) -> Result<RecordImage<'a, 'p>> {
        match image.pick(&mut self.reader)? {
            ImageEncoding::Null => Ok(RecordImage::None),
            ImageEncoding::Text => Ok(RecordImage::Text(self.reader.text()?)),
            ImageEncoding::Cells(cell, whole) => self.values(cell, whole, events),
            ImageEncoding::Other(schema) => self
                .plan
                .schemas
                .skip(schema, &mut self.reader)
                .map(|()| RecordImage::Other),
        }
    }

    /// Reads the values of an image. Defers them until the columns and the operation are known, because a writer schema
    /// may order its fields differently.
    fn values(
        &mut self,
        cell: &'p Choice<CellEncoding>,
        whole: &'p crate::wire::avro_schema::Schema,
        events: &mut Events<'a>,
    ) -> Result<RecordImage<'a, 'p>> {
        if let (ColumnListing::Columns(list), true) = (&self.columns, self.op.is_row_change()) {
            let memo = (self.op == Op::Update).then_some(&mut self.cache.before);
            return cells(&mut self.reader, self.plan, cell, list, memo, events);
        }
        let start = self.reader.at();
        self.plan.schemas.skip(whole, &mut self.reader)?;
        Ok(RecordImage::Deferred(start, cell))
    }

    fn emit(&mut self, events: &mut Events<'a>) -> Result<()> {
        if self.op.is_row_change() {
            return self.emit_change(events);
        }
        let sql = if let RecordImage::Text(sql) = self.after {
            Some(sql)
        } else {
            None
        };
        if let Some(envelope) = events.envelopes.last_mut() {
            envelope.sql = sql.map(Cow::Borrowed);
        }
        let op = if self.op == Op::Ddl {
            Op::of_statement(sql.unwrap_or_default())
        } else {
            self.op
        };
        let envelope = events.last_envelope()?;
        events.row(op, envelope, None, None);
        Ok(())
    }

    /// Emits a row change. Both images are complete, so nothing is merged.
    fn emit_change(&mut self, events: &mut Events<'a>) -> Result<()> {
        let op = self.op;
        let list = match &self.columns {
            ColumnListing::Columns(list) => *list,
            other => return Err(no_columns(other)),
        };
        if let Some(envelope) = events.envelopes.last_mut() {
            envelope.types = list.types;
        }
        let before = self
            .cells_of(Side::Before, &list, events)
            .map_err(|fault| fault.within(Side::Before.name()))?;
        let after = self
            .cells_of(Side::After, &list, events)
            .map_err(|fault| fault.within(Side::After.name()))?;
        let needed = if op == Op::Delete {
            Side::Before
        } else {
            Side::After
        };
        let (before, after) = match op {
            Op::Insert => (None, after),
            Op::Delete => (before, None),
            _ => (before, after),
        };
        if before.is_none() && needed == Side::Before || after.is_none() && needed == Side::After {
            return Err(no_row(op).within(needed.name()));
        }
        let envelope = events.last_envelope()?;
        let image = |cells: Cells| event::Image {
            is_in_order: list.in_order == Some(cells.len()),
            ..event::Image::whole(cells)
        };
        events.row(op, envelope, before.map(image), after.map(image));
        Ok(())
    }

    fn cells_of(
        &mut self,
        side: Side,
        list: &ColumnList<'a>,
        events: &mut Events<'a>,
    ) -> Result<Option<Cells>> {
        let image = match self.side(side).clone() {
            RecordImage::Deferred(start, cell) => {
                let memo = (self.op == Op::Update).then_some(&mut self.cache.before);
                cells(
                    &mut self.reader.reader_at(start),
                    self.plan,
                    cell,
                    list,
                    memo,
                    events,
                )?
            }
            other => other,
        };
        match image {
            RecordImage::None => Ok(None),
            RecordImage::Cells(cells) => Ok(Some(cells)),
            _ => Err(Fault::new(
                Kind::Envelope,
                "expected the columns' values, found text",
            )),
        }
    }
}

/// Reads the values of an image, one for each column. An empty list means no image, like in the SDK's
/// `AvroRecordParser`.
///
/// Most values of an update's after image equal the before image's byte for byte, and come from the memo.
fn cells<'a, 'p>(
    reader: &mut Reader<'a>,
    plan: &SchemaPlan,
    cell: &'p Choice<CellEncoding>,
    list: &ColumnList<'a>,
    mut memo: Option<&mut Vec<(&'a [u8], Value<'a>)>>,
    events: &mut Events<'a>,
) -> Result<RecordImage<'a, 'p>> {
    let first_cell = events.cells.len();
    let (mut items, mut at) = (Items::default(), 0);
    let is_first = memo.as_ref().is_some_and(|memo| memo.is_empty());
    while reader.next_item(&mut items)? {
        let start = reader.at();
        let column = list
            .columns
            .get(at)
            .ok_or_else(|| count_mismatch(at + 1, at))?;
        let value = if let Some(memo) = &memo
            && !is_first
            && let Some(memoized) = memo.get(at)
            && reader.eat(memoized.0)
        {
            memoized.1
        } else {
            let value = cell
                .pick(reader)
                .and_then(|cell| cell.read(reader, &plan.schemas, column, events.arena));
            value.map_err(|fault| fault.within(events.keys.name(column.key)))?
        };
        if let (true, Some(memo)) = (is_first, &mut memo) {
            memo.push((reader.since(start), value));
        }
        if column.is_requested && !matches!(value, Value::Missing) {
            events.cells.push((column.key, value));
        }
        at += 1;
    }
    match at {
        0 if !list.columns.is_empty() => Ok(RecordImage::None),
        read if read < list.columns.len() => Err(count_mismatch(read, list.columns.len())),
        _ => Ok(RecordImage::Cells(first_cell..events.cells.len())),
    }
}

/// Returns the number of requested columns, if they are the table's first ones in their order.
fn count_in_order(columns: &[ColumnDescriptor], events: &Events<'_>) -> Option<usize> {
    let mut count = 0;
    for column in columns.iter().filter(|column| column.is_requested) {
        if events.keys.column(column.key) != Some(count) {
            return None;
        }
        count += 1;
    }
    Some(count)
}

/// Returns the block of declared types of a list of columns. `raw` is its cache key.
fn types(raw: &[u8], columns: &[ColumnDescriptor], events: &mut Events<'_>) -> usize {
    let hint = columns.last().map_or(0, |column| column.key.index());
    if let Some(block) = events.types.latest(hint, |cached| cached == raw) {
        return block;
    }
    events.types.start();
    for ColumnDescriptor {
        key, type_number, ..
    } in columns
    {
        events.types.declare_as(
            (*key, events.keys.column(*key)),
            NAME,
            &type_number.to_string(),
            || declared(*type_number),
        );
    }
    events.types.finish(raw, hint)
}

#[cold]
fn no_columns(listing: &ColumnListing<'_>) -> Fault {
    let found = if matches!(listing, ColumnListing::Null) {
        "null"
    } else {
        "text"
    };
    Fault::new(
        Kind::Envelope,
        format!("expected the columns of the row, found {found}"),
    )
    .within("fields")
}

/// Reads the primary key of `{"PRIMARY":["id"],"uk_code":["code"]}`.
fn primary_key<'a>(json: &'a str, events: &mut Events<'a>) -> Result<Option<Range<usize>>> {
    let mut cursor = Cursor::new(json, true);
    let (mut members, mut found) = (cursor.object()?, None);
    while let Some(name) = cursor.next_key(&mut members)? {
        match name.raw {
            "PRIMARY" => found = events.read_names(&mut cursor)?,
            _ => cursor.skip()?,
        }
    }
    Ok(found)
}

/// Shifts the offset of a fault in a text that begins at `start`. Drops the fault's path.
#[cold]
fn shifted(fault: Fault, start: usize) -> Fault {
    let parts = fault.into_parts();
    Fault::new(parts.kind, parts.what).at(start + parts.byte.unwrap_or(0))
}

/// Parses `4985@78`: the position and the number of the binlog file. Other text is not a MySQL position.
fn parse_position<'a>(position: &'a str, source: &mut Source<'a>) {
    let at = memchr::memchr(b'@', position.as_bytes()).unwrap_or(position.len());
    source.position = position.get(..at).and_then(|digits| digits.parse().ok());
    let file = if source.position.is_some() {
        position.get(at + 1..).unwrap_or_default()
    } else {
        position
    };
    source.file = Some(file)
        .filter(|file| !file.is_empty())
        .map(Cow::Borrowed);
}

/// Parses `database.table`, `database.schema.table`, or a database alone.
fn parse_object_name<'a>(name: &'a str, arena: &'a Bump) -> Result<[Option<&'a str>; 3]> {
    if name.is_empty() {
        return Ok([None; 3]);
    }
    let mut parts = name.split('.').map(|part| match unescaped(part) {
        Cow::Borrowed(part) => part,
        Cow::Owned(part) => arena.alloc_str(&part),
    });
    match [parts.next(), parts.next(), parts.next(), parts.next()] {
        [.., Some(_)] => Err(Fault::new(
            Kind::Envelope,
            format!("{} has more than three parts", crate::error::excerpt(name)),
        )),
        [database, schema, table @ Some(_), None] => Ok([database, schema, table]),
        [database, table, None, None] => Ok([database, None, table]),
    }
}

/// Unescapes a name. The SDK's `ObjectNameUtils` escapes dots in it.
fn unescaped(name: &str) -> Cow<'_, str> {
    const DOT: &str = "\\u002E";
    if name.contains(DOT) {
        name.replace(DOT, ".").into()
    } else {
        name.into()
    }
}

/// Converts an epoch to microseconds; 0 or less means unset.
fn micros(time: i64) -> Option<i64> {
    match time {
        1.. => micros_of_epoch(time),
        _ => None,
    }
}

fn text<'a>(encoding: &Choice<ScalarEncoding>, reader: &mut Reader<'a>) -> Result<Option<&'a str>> {
    encoding
        .bytes(reader)?
        .map(|bytes| reader.utf8(bytes))
        .transpose()
}

/// Returns the number in a text, if it is one. Digits need no UTF-8 check.
fn number<'a>(reader: &Reader<'a>, text: &'a [u8]) -> Result<Option<i64>> {
    match short_integer(text) {
        Some(number) => Ok(Some(number)),
        None => reader.utf8(text).map(|text| text.parse().ok()),
    }
}

/// Looks up a symbol in a table. Returns its value, if it has one, and the symbol, borrowed from the table if possible.
fn lookup<T: Copy>(symbol: &str, table: &[(&'static str, T)]) -> (Option<T>, Cow<'static, str>) {
    match table.iter().find(|(name, _)| *name == symbol) {
        Some((name, value)) => (Some(*value), Cow::Borrowed(name)),
        None => (None, Cow::Owned(symbol.to_owned())),
    }
}
