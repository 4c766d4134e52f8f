//! debezium-avro: messages that Debezium's connectors write through Confluent's Avro converter.
//!
//! A message is a zero byte, the id of the writer schema in the registry as four bytes (big-endian), and the datum. The
//! datum has the same fields as the payload of debezium-json: an envelope, or a row without one (the
//! `ExtractNewRecordState` transformation). The record of such a row is called `server.database.table.Value`. The
//! schema's attributes (`connect.name`, `connect.parameters`, `logicalType`, ...) declare the same as a schema part in
//! JSON.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

use super::avro_plan::{
    Action, EnvelopePlan, FlatPlan, MessagePlan, RecordPlan, RowField, Side, Step, WriterSchema,
};
use super::avro_values::{ValueContext, declared_type};
use super::debezium_message::{Message, Shape};
use super::writer_schemas::SchemaSnapshot;
use super::{key_names, row_marks, set_added, ticdc_rows};
use crate::dialect::{
    Caches, Dialect, DialectOptions, Marks, Read, ReadContext, Wire, is_known_json,
};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Events, Quirks, ValueFormat};
use crate::interner::{NameId, Quoting};
use crate::value::Value;
use crate::wire::avro::Reader;
use crate::wire::avro_json::to_json;
use crate::wire::avro_schema::Choice;
use crate::wire::utf8::is_utf16;

pub(crate) const NAME: &str = "debezium-avro";

pub(crate) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "Debezium (Confluent's Avro converter)",
    wire: Wire::Avro,
    description: "Debezium's envelope in Avro behind the id of its schema, unwrapped or not",
    marks: Marks::Bytes(is_framed),
    quirks: |_| &QUIRKS,
    read: Read::Bytes(read),
    options: &[
        "bigint_unsigned_handling_mode",
        "binary_handling_mode",
        "op_column",
        "schema_registry",
        "time_precision_mode",
        "unwrapped",
        "writer_schemas",
    ],
    template: None,
};

static QUIRKS: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Connect,
    quoting: Quoting::None,
};

/// Bytes in front of the datum: the zero byte and the id.
const HEADER: usize = 5;

/// Returns the id of the schema.
pub(crate) fn schema_id(message: &[u8]) -> Option<u32> {
    match message.first_chunk::<HEADER>()? {
        [0, id @ ..] => Some(u32::from_be_bytes(*id)),
        _ => None,
    }
}

/// Returns whether bytes begin with an id in a registry's range, and no JSON follows. Other converters write the same
/// five bytes before JSON.
fn is_framed(bytes: &[u8]) -> bool {
    let has_id = schema_id(bytes).is_some_and(|id| (1..=i32::MAX as u32).contains(&id));
    let datum = bytes.get(HEADER..).unwrap_or_default();
    has_id && !datum.is_empty() && !is_known_json(datum) && !is_utf16(bytes)
}

/// A schema with the names and types of its columns in the current chunk of messages.
struct BoundSchema {
    schema: Arc<WriterSchema>,
    before: Vec<BoundColumn>,
    /// Columns of the after image, of a row without an envelope, or of a key.
    after: Vec<BoundColumn>,
    /// Its block of declared types.
    types: Option<usize>,
}

#[derive(Clone, Copy)]
struct BoundColumn {
    key: NameId,
    /// True if its cells are requested, or name the operation.
    is_requested: bool,
    /// True if it may mark deleted rows.
    may_be_mark: bool,
}

/// The schemas of a chunk of messages.
pub(crate) struct BoundSchemas<'a> {
    snapshot: &'a SchemaSnapshot,
    by_id: HashMap<u32, usize>,
    bound: Vec<BoundSchema>,
    /// The last id and its place. Messages of one table usually follow each other.
    last: (u32, usize),
}

impl<'a> BoundSchemas<'a> {
    pub fn new(snapshot: &'a SchemaSnapshot) -> Self {
        BoundSchemas {
            snapshot,
            by_id: HashMap::new(),
            bound: Vec::new(),
            last: (0, usize::MAX),
        }
    }

    fn bind(&mut self, id: u32, events: &mut Events<'_>) -> Result<&BoundSchema> {
        if self.last.0 != id || self.last.1 >= self.bound.len() {
            let place = match self.by_id.get(&id) {
                Some(place) => *place,
                None => self.add(id, events)?,
            };
            self.last = (id, place);
        }
        self.bound
            .get(self.last.1)
            .ok_or_else(|| Fault::new(Kind::Envelope, "has no schema"))
    }

    fn add(&mut self, id: u32, events: &mut Events<'_>) -> Result<usize> {
        let schema = self.snapshot.find(id)?.clone();
        let bound = BoundSchema::new(schema, id, events)?;
        self.bound.push(bound);
        self.by_id.insert(id, self.bound.len() - 1);
        Ok(self.bound.len() - 1)
    }
}

impl BoundSchema {
    fn new(schema: Arc<WriterSchema>, id: u32, events: &mut Events<'_>) -> Result<Self> {
        let (before, after) = match (&schema.key, &schema.message) {
            (Some(plan), _) | (None, Ok(MessagePlan::Flat(plan))) => (None, Some(&plan.row)),
            (None, Ok(MessagePlan::Envelope(plan))) => (
                row_of(&plan.steps, Side::Before),
                row_of(&plan.steps, Side::After),
            ),
            (None, Err(what)) => return Err(no_message(id, what)),
        };
        let before_columns = bound_columns(before, events);
        let after_columns = bound_columns(after, events);
        let types = match (before, after) {
            _ if !events.needs.types && !events.needs.encodings => None,
            (_, Some(row)) => Some(declare(row, &after_columns, events)),
            (Some(row), None) => Some(declare(row, &before_columns, events)),
            (None, None) => None,
        };
        Ok(BoundSchema {
            before: before_columns,
            after: after_columns,
            types,
            schema,
        })
    }
}

fn no_message(id: u32, what: &str) -> Fault {
    Fault::new(
        Kind::Envelope,
        format!("schema id {id} is not a Debezium message: {what}"),
    )
    .at(1)
}

fn row_of(steps: &[Step], side: Side) -> Option<&RecordPlan> {
    steps.iter().find_map(|step| match &step.action {
        Action::Image(of, image) if *of == side => image.branches().iter().flatten().next(),
        _ => None,
    })
}

fn bound_columns(row: Option<&RecordPlan>, events: &mut Events<'_>) -> Vec<BoundColumn> {
    let fields = row.into_iter().flat_map(|row| &row.fields);
    let columns = fields.map(|field| {
        let key = events.keys.intern_plain(&field.name);
        let may_be_mark = field.added.is_none()
            && events.keys.column(key).is_none()
            && row_marks::may_be(&field.name);
        BoundColumn {
            key,
            is_requested: field.added.is_some() || may_be_mark || events.wants_cell(key),
            may_be_mark,
        }
    });
    columns.collect()
}

/// Declares the types of a row's columns. Returns their block.
fn declare(row: &RecordPlan, columns: &[BoundColumn], events: &mut Events<'_>) -> usize {
    /// Blocks are stored with their schemas, so the lookup needs no hint.
    const HINT: usize = usize::MAX - 1;
    events.types.start();
    for (field, column) in row
        .fields
        .iter()
        .zip(columns)
        .filter(|(field, _)| field.added.is_none())
    {
        let spelling = field.declared.cache_key(&field.spelling, false);
        let requested = events.keys.column(column.key);
        events
            .types
            .declare_as((column.key, requested), NAME, &spelling, || {
                declared_type(&field.declared, &field.spelling)
            });
    }
    events.types.finish(&[], HINT)
}

pub(super) fn read<'a>(
    bytes: &'a [u8],
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
    caches: &mut Caches<'a>,
) -> Result<()> {
    let snapshot = caches.debezium_avro.snapshot;
    let message = read_datum(bytes, false, reading, events, caches)?;
    message.emit(|events| primary_key(reading.key, snapshot, events), events)
}

/// Reads a record without a value, whose key names the deleted row. The flattening turns a delete into such a record.
pub(crate) fn read_deleted_row<'a>(
    key: &'a [u8],
    options: &DialectOptions,
    events: &mut Events<'a>,
    caches: &mut Caches<'a>,
) -> Result<()> {
    events.set_dialect(&QUIRKS);
    let reading = options.context(&QUIRKS, Some(key));
    read_key_as_deleted(key, true, &reading, events, caches)
        .map_err(|fault| fault.without_byte().within("key"))
}

/// Returns whether a message or key refers to a known schema of TiCDC.
pub(crate) fn is_tidb(bytes: &[u8], caches: &Caches<'_>) -> bool {
    let schema = schema_id(bytes).and_then(|id| caches.debezium_avro.snapshot.find(id).ok());
    schema.is_some_and(|schema| schema.is_tidb())
}

/// Returns whether a key refers to a known schema.
pub(crate) fn is_known(key: &[u8], caches: &Caches<'_>) -> bool {
    schema_id(key).is_some_and(|id| caches.debezium_avro.snapshot.find(id).is_ok())
}

/// Reads a key that TiCDC wrote for a delete.
pub(super) fn read_deleted<'a>(
    key: &'a [u8],
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
    caches: &mut Caches<'a>,
) -> Result<()> {
    read_key_as_deleted(key, false, reading, events, caches)
}

fn read_key_as_deleted<'a>(
    key: &'a [u8],
    is_debezium: bool,
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
    caches: &mut Caches<'a>,
) -> Result<()> {
    let snapshot = caches.debezium_avro.snapshot;
    let mut message = read_datum(key, is_debezium, reading, events, caches)?;
    message.deleted = Some(true);
    message.emit(|events| primary_key(Some(key), snapshot, events), events)
}

/// Reads a message, or the key of a row that Debezium wrote.
fn read_datum<'a>(
    bytes: &'a [u8],
    is_key: bool,
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
    caches: &mut Caches<'a>,
) -> Result<Message<'a>> {
    let id = schema_id(bytes).ok_or_else(|| {
        let what = format!("does not begin with a zero byte and a schema id ({HEADER} bytes)");
        Fault::new(Kind::Envelope, what).at(0)
    })?;
    let bound = caches.debezium_avro.bind(id, events)?;
    let is_tidb = bound.schema.is_tidb();
    if reading.quirks.dialect == ticdc_rows::NAME && !is_tidb {
        let what = format!("schema id {id} is not a TiCDC schema: no field has a tidb_type");
        return Err(Fault::new(Kind::Envelope, what).at(1));
    }
    let mut reader = Reader::new(bytes).reader_at(HEADER);
    let mut datum = Datum {
        bound,
        reader: &mut reader,
        message: Message::empty(reading),
    };
    match (&bound.schema.key, &bound.schema.message) {
        (Some(plan), _) if is_key => datum.read_flat(plan, reading, events)?,
        (None, _) if is_key => {
            let what = format!(
                "schema id {id} does not have the name of a Debezium key, so the deleted row is unknown"
            );
            return Err(Fault::new(Kind::Envelope, what));
        }
        (_, Ok(MessagePlan::Envelope(plan))) => datum.read_envelope(plan, events)?,
        (_, Ok(MessagePlan::Flat(plan))) => datum.read_flat(plan, reading, events)?,
        (_, Err(what)) => return Err(no_message(id, what)),
    }
    let mut message = datum.message;
    message.envelope.types = bound.types;
    if is_tidb {
        message.envelope.quirks = &ticdc_rows::QUIRKS;
    }
    if !reader.is_at_end() {
        let what = format!(
            "{} bytes remain after the datum: it was written with a schema other than id {id}",
            reader.rest().len()
        );
        return Err(Fault::new(Kind::Syntax, what).at(reader.at()));
    }
    Ok(message)
}

/// A datum in the course of reading.
struct Datum<'d, 'a> {
    bound: &'d BoundSchema,
    reader: &'d mut Reader<'a>,
    message: Message<'a>,
}

impl<'d, 'a> Datum<'d, 'a> {
    fn context(&self, events: &Events<'a>) -> ValueContext<'d, 'a> {
        ValueContext {
            schemas: &self.bound.schema.schemas,
            arena: events.arena,
            is_typed: events.needs.encodings,
        }
    }

    fn read_envelope(&mut self, plan: &'d EnvelopePlan, events: &mut Events<'a>) -> Result<()> {
        self.message.shape = if plan
            .steps
            .iter()
            .any(|step| !matches!(step.action, Action::Skip))
        {
            Shape::Envelope
        } else {
            Shape::Unknown
        };
        self.message.others = plan.has_others;
        self.steps(&plan.steps, events)
    }

    fn steps(&mut self, steps: &'d [Step], events: &mut Events<'a>) -> Result<()> {
        steps.iter().try_for_each(|step| {
            self.step(step, events)
                .map_err(|fault| fault.within(&step.name))
        })
    }

    fn step(&mut self, step: &'d Step, events: &mut Events<'a>) -> Result<()> {
        let schemas = &self.bound.schema.schemas;
        match &step.action {
            Action::Skip => schemas.skip(&step.schema, self.reader),
            Action::Member(member, scalar) => {
                let value = scalar
                    .pick(self.reader)?
                    .read(self.reader, self.context(events))?;
                member.set(value, &mut self.message, events.arena)
            }
            Action::Record(record) => match record.pick(self.reader)? {
                Some(steps) => self.steps(steps, events),
                None => Ok(()),
            },
            Action::Image(Side::Before, image) => {
                self.message.before = self.image(image, &self.bound.before, events)?;
                Ok(())
            }
            Action::Image(Side::After, image) => {
                self.message.after = self.image(image, &self.bound.after, events)?;
                Ok(())
            }
            Action::TableChanges => {
                let json = to_json(schemas, &step.schema, self.reader)?;
                self.message.envelope.table_changes =
                    Some(json).filter(|json| json != "null").map(Cow::Owned);
                Ok(())
            }
        }
    }

    fn image(
        &mut self,
        image: &'d Choice<Option<RecordPlan>>,
        columns: &'d [BoundColumn],
        events: &mut Events<'a>,
    ) -> Result<Option<Cells>> {
        let Some(row) = image.pick(self.reader)? else {
            return Ok(None);
        };
        let (start, context) = (events.cells.len(), self.context(events));
        for (field, column) in row.fields.iter().zip(columns) {
            if let Some(value) = self.value(field, *column, context)? {
                events.cells.push((column.key, value));
            }
        }
        Ok(Some(start..events.cells.len()))
    }

    /// Reads the value of a column, or skips it if it is not requested.
    #[inline(always)]
    fn value(
        &mut self,
        field: &RowField,
        column: BoundColumn,
        context: ValueContext<'_, 'a>,
    ) -> Result<Option<Value<'a>>> {
        let value = if column.is_requested {
            field
                .reader
                .pick(self.reader)
                .and_then(|reader| reader.read(self.reader, context))
                .map(Some)
        } else {
            context
                .schemas
                .skip(&field.schema, self.reader)
                .map(|()| None)
        };
        value.map_err(|fault| fault.within(&field.name))
    }

    /// Reads a row without an envelope. Fields that the flattening added are not columns.
    fn read_flat(
        &mut self,
        plan: &'d FlatPlan,
        reading: &ReadContext<'_, 'a>,
        events: &mut Events<'a>,
    ) -> Result<()> {
        self.message.shape = Shape::Flat;
        let (start, context) = (events.cells.len(), self.context(events));
        for (field, column) in plan.row.fields.iter().zip(&self.bound.after) {
            let is_op = !plan.is_tidb && reading.options.is_op_column(&field.name);
            let column = BoundColumn {
                is_requested: column.is_requested || is_op,
                ..*column
            };
            let Some(value) = self.value(field, column, context)? else {
                continue;
            };
            let may_say = is_op || column.may_be_mark && !plan.is_tidb;
            match field.added {
                Some(member) if !is_op => {
                    set_added(&mut self.message, member, &field.name, value, events.arena)?
                }
                _ if may_say && !self.message.is_column(column.key, value, reading, events)? => {}
                _ if events.wants_cell(column.key) => events.cells.push((column.key, value)),
                _ => {}
            }
        }
        self.message.end_row(start..events.cells.len(), reading);
        let envelope = &mut self.message.envelope;
        if envelope.database.is_none() {
            envelope.database = plan.database.clone().map(Cow::Owned);
        }
        if envelope.table.is_none() {
            envelope.table = plan.table.clone().map(Cow::Owned);
        }
        Ok(())
    }
}

/// Returns the names of the key's fields. A key from another converter is read as JSON.
fn primary_key(
    key: Option<&[u8]>,
    schemas: &SchemaSnapshot,
    events: &mut Events<'_>,
) -> Result<Option<Range<usize>>> {
    let Some(key) = key else { return Ok(None) };
    let Some(id) = schema_id(key) else {
        return Ok(key_names(key, events));
    };
    // The fault concerns the key, so it has no offset in the message.
    let schema = schemas
        .find(id)
        .map_err(|fault| fault.without_byte().within("key"))?;
    let first = events.names.len();
    let mut previous = NameId::START;
    for name in &schema.names {
        previous = events.keys.plain(name, previous);
        events.names.push(previous);
    }
    Ok(Some(first..events.names.len()).filter(|names| !names.is_empty()))
}
