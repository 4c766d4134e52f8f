//! debezium-json: what Debezium's MySQL connector writes through Kafka Connect's JSON converter, and CloudCanal's envelope of
//! the same shape.
//!
//! With its schema part (`schemas.enable`), which says in which form each column is written:
//!
//! ```json
//! {"schema":{"type":"struct","fields":[{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"},
//!  {"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"},"field":"total"}],"field":"after"}]},
//!  "payload":{"before":null,"after":{"id":1,"total":"BOI="},"source":{"db":"shop","table":"orders"},"op":"c","ts_ms":1}}
//! ```
//!
//! Without it a message is the payload alone. Flattened rows (the `ExtractNewRecordState` transformation) are read where they
//! carry one of the fields that it adds, `__op` or `__deleted` or another.

use std::borrow::Cow;

use super::{Dialect, Mark, Marks, Read, Reading, Variant, Wire};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, Source, Value, Writes};
use crate::keys::{KeyId, Quoting};
use crate::mysql::temporal::micros_of_epoch;
use crate::mysql::types::{Base, Declared, Form};
use crate::template::{Before, FlatMember, Hole, Place, Spec};
use crate::wire::framing;
use crate::wire::json::{Cursor, Text};

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &["cloudcanal-debezium-json"],
    producer: "Debezium, CloudCanal (Debezium envelope)",
    wire: Wire::Json,
    description: "Debezium's envelope in JSON, with its schema part and without, unwrapped or not",
    fields: FIELDS,
    marks: Marks::Members(&[
        Mark::Begins("schema", b'{'),
        Mark::Name("payload"),
        Mark::Begins("before", b'{'),
        Mark::Begins("after", b'{'),
        Mark::Begins("source", b'{'),
        Mark::Name("op"),
        Mark::Name("ts_ms"),
        Mark::Name("databaseName"),
        Mark::Name("__op"),
        Mark::Name("__deleted"),
        Mark::Name("__table"),
        Mark::Name("__source_table"),
        Mark::Name("__source_ts_ms"),
    ]),
    variant,
    read: Read::Text(read),
    template: Some(&TEMPLATE),
};

const NAME: &str = "debezium-json";

static DEBEZIUM: Quirks = Quirks { dialect: NAME, declares_lengths: false, writes: Writes::Connect };

fn variant(_: &str) -> Variant {
    Variant { quirks: &DEBEZIUM, quoting: Quoting::None }
}

static TEMPLATE: Spec = Spec {
    holes: &[
        ("before", Hole::Before),
        ("after", Hole::After),
        ("op", Hole::Operation),
        ("ts_ms", Hole::Integer(|source, number| finest(&mut source.produced_time, number, 1000))),
        ("ts_us", Hole::Integer(|source, number| finest(&mut source.produced_time, number, 1))),
        ("ts_ns", Hole::Any),
        ("transaction.id", Hole::Text(transaction)),
        ("transaction.total_order", Hole::Any),
        ("transaction.data_collection_order", Hole::Any),
        ("source.ts_ms", Hole::Integer(|source, number| finest(&mut source.event_time, number, 1000))),
        ("source.ts_us", Hole::Integer(|source, number| finest(&mut source.event_time, number, 1))),
        ("source.ts_ns", Hole::Any),
        ("source.snapshot", Hole::Any),
        ("source.sequence", Hole::Any),
        ("source.row", Hole::Any),
        ("source.thread", Hole::Any),
        ("source.query", Hole::Any),
        ("source.gtid", Hole::Text(gtid)),
        ("source.file", Hole::Text(file)),
        ("source.pos", Hole::Integer(|source, number| source.position = Some(number))),
        ("payload.before", Hole::Before),
        ("payload.after", Hole::After),
        ("payload.op", Hole::Operation),
        ("payload.ts_ms", Hole::Integer(|source, number| finest(&mut source.produced_time, number, 1000))),
        ("payload.ts_us", Hole::Integer(|source, number| finest(&mut source.produced_time, number, 1))),
        ("payload.ts_ns", Hole::Any),
        ("payload.transaction.id", Hole::Text(transaction)),
        ("payload.transaction.total_order", Hole::Any),
        ("payload.transaction.data_collection_order", Hole::Any),
        ("payload.source.ts_ms", Hole::Integer(|source, number| finest(&mut source.event_time, number, 1000))),
        ("payload.source.ts_us", Hole::Integer(|source, number| finest(&mut source.event_time, number, 1))),
        ("payload.source.ts_ns", Hole::Any),
        ("payload.source.snapshot", Hole::Any),
        ("payload.source.sequence", Hole::Any),
        ("payload.source.row", Hole::Any),
        ("payload.source.thread", Hole::Any),
        ("payload.source.query", Hole::Any),
        ("payload.source.gtid", Hole::Text(gtid)),
        ("payload.source.file", Hole::Text(file)),
        ("payload.source.pos", Hole::Integer(|source, number| source.position = Some(number))),
    ],
    table: Place::Tail(640),
    op: row_op,
    ends_with_op: false,
    before: Before::Row,
    has_deletes_in_data: false,
    has_arrays: false,
    empty_is_null: true,
    key_names: Some(|key, events| {
        let names = key_names(key, events)?;
        events.names.get(names).map(<[KeyId]>::to_vec)
    }),
    flat: Some(flat_member),
};

/// What a member of a flattened row is. By those that an envelope or the wrapper around it may have too, it is not known for one.
fn flat_member(name: &str) -> FlatMember {
    let Some((field, of_source)) = added(name) else {
        return if matches!(name, "before" | "after" | "payload" | "schema") { FlatMember::Unclear } else { FlatMember::Column };
    };
    FlatMember::Hole(match field {
        "op" => Hole::Operation,
        "deleted" => Hole::Deleted,
        "file" => Hole::Text(file),
        "gtid" => Hole::Text(gtid),
        "pos" => Hole::Integer(|source, number| source.position = Some(number)),
        "ts_ms" if of_source => Hole::Integer(|source, number| source.event_time = micros_of_epoch(number)),
        "ts_ms" => Hole::Integer(|source, number| source.produced_time = micros_of_epoch(number)),
        "db" | "table" | "server_id" | "connector" | "version" => return FlatMember::Same,
        _ => Hole::Any,
    })
}

fn row_op(word: &str) -> Option<Op> {
    match word {
        "c" | "i" => Some(Op::Insert),
        "u" => Some(Op::Update),
        "d" => Some(Op::Delete),
        "r" => Some(Op::Snapshot),
        _ => None,
    }
}

fn transaction<'a>(source: &mut Source<'a>, id: &'a str) -> bool {
    source.transaction_id = Some(Cow::Borrowed(id));
    true
}

fn gtid<'a>(source: &mut Source<'a>, gtid: &'a str) -> bool {
    source.gtid = Some(Cow::Borrowed(gtid));
    true
}

fn file<'a>(source: &mut Source<'a>, file: &'a str) -> bool {
    source.file = Some(Cow::Borrowed(file));
    true
}

/// Fields of the payload, of its `source`, `transaction` and of the wrapper around it.
#[derive(Clone, Copy)]
enum Field {
    Before,
    After,
    Source,
    /// `c` or `i` (CloudCanal), `u`, `d`, `r`, `t`, `m`; `a` (CloudCanal) is a DDL.
    Op,
    /// When the message was made: milliseconds; in `source`, when the change was: milliseconds.
    TsMs,
    TsUs,
    TsNs,
    Transaction,
    Schema,
    Payload,
    DatabaseName,
    SchemaName,
    Ddl,
    TableChanges,
    /// `BEGIN` or `END` of a transaction.
    Status,
    /// Of a transaction.
    Id,
    Version,
    Connector,
    Db,
    Table,
    ServerId,
    Gtid,
    File,
    Pos,
}

const FIELDS: &[&str] = &[
    "before",
    "after",
    "source",
    "op",
    "ts_ms",
    "ts_us",
    "ts_ns",
    "transaction",
    "schema",
    "payload",
    "databaseName",
    "schemaName",
    "ddl",
    "tableChanges",
    "status",
    "id",
    "version",
    "connector",
    "db",
    "table",
    "server_id",
    "gtid",
    "file",
    "pos",
];

impl Field {
    /// In the order of [`FIELDS`].
    const ALL: [Field; 24] = [
        Field::Before,
        Field::After,
        Field::Source,
        Field::Op,
        Field::TsMs,
        Field::TsUs,
        Field::TsNs,
        Field::Transaction,
        Field::Schema,
        Field::Payload,
        Field::DatabaseName,
        Field::SchemaName,
        Field::Ddl,
        Field::TableChanges,
        Field::Status,
        Field::Id,
        Field::Version,
        Field::Connector,
        Field::Db,
        Field::Table,
        Field::ServerId,
        Field::Gtid,
        Field::File,
        Field::Pos,
    ];
}

/// A message as far as it is read.
struct Message<'a> {
    envelope: Envelope<'a>,
    before: Option<Cells>,
    after: Option<Cells>,
    /// Of a transaction.
    status: Option<Cow<'a, str>>,
    shape: Shape,
    /// Whether there are members that are not the envelope's.
    others: bool,
    /// A flattened row says that it is gone.
    deleted: bool,
}

/// What a message's members show it to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Nothing that Debezium writes.
    Unknown,
    /// At least a time, as heartbeats have.
    Envelope,
    /// The wrapper has a payload, and it is null.
    Tombstone,
    /// A row without an envelope.
    Flat,
}

fn read<'a>(text: &'a str, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    framing::records(&mut cursor, |cursor| {
        let mut message = Message::new(reading);
        message.read(cursor, reading, events)?;
        message.emit(reading, events)
    })
}

/// What the fields are called that the flattening adds (`add.fields`), behind their two underscores and `source_`.
const ADDED: &[&str] = &[
    "op",
    "deleted",
    "db",
    "table",
    "file",
    "pos",
    "gtid",
    "server_id",
    "connector",
    "version",
    "ts_ms",
    "ts_us",
    "ts_ns",
    "name",
    "snapshot",
    "row",
    "thread",
    "query",
    "sequence",
];

/// The added field that a member is, and whether it comes from `source`.
fn added(name: &str) -> Option<(&'static str, bool)> {
    let name = name.strip_prefix("__")?;
    let (name, of_source) = name.strip_prefix("source_").map_or((name, false), |name| (name, true));
    ADDED.iter().find(|added| **added == name).map(|added| (*added, of_source))
}

/// Whether the object that starts here is a row without an envelope: it has one of the fields that the flattening adds, and no
/// row image.
fn is_flat(cursor: &Cursor<'_>) -> bool {
    let mut cursor = cursor.clone();
    let Ok(mut members) = cursor.object() else { return false };
    let mut found = false;
    while let Ok(Some(name)) = cursor.next_key(&mut members) {
        if matches!(name.raw, "before" | "after") && cursor.peek() == Some(b'{') {
            return false;
        }
        found |= added(name.raw).is_some();
        if cursor.skip().is_err() {
            return false;
        }
    }
    found
}

impl<'a> Message<'a> {
    fn new(reading: &Reading<'_, 'a>) -> Self {
        let envelope = Envelope::empty(reading.variant.quirks);
        Message { envelope, before: None, after: None, status: None, shape: Shape::Unknown, others: false, deleted: false }
    }

    /// The payload, or the wrapper around it. Columns of a flattened row may be called like the envelope's members, so only what
    /// cannot be an envelope is looked at twice.
    fn read(&mut self, cursor: &mut Cursor<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let start = cursor.clone();
        let types = self.envelope.types;
        let outcome = self.read_members(cursor, events, |message, field, cursor, events| match field {
            Field::Payload => message.payload(cursor, reading, events),
            field => message.member(field, cursor, events),
        });
        if (outcome.is_err() || self.others) && is_flat(&start) {
            *self = Message::new(reading);
            self.envelope.types = types;
            *cursor = start;
            return self.read_flat(cursor, events);
        }
        outcome
    }

    /// Reads an object whose members are fields; the others are stepped over.
    fn read_members(
        &mut self,
        cursor: &mut Cursor<'a>,
        events: &mut Events<'a, '_, '_>,
        mut member: impl FnMut(&mut Self, Field, &mut Cursor<'a>, &mut Events<'a, '_, '_>) -> Result<()>,
    ) -> Result<()> {
        let mut members = cursor.object()?;
        let mut key = KeyId::START;
        while cursor.next_member(&mut members)? {
            key = events.fields().read(cursor, key)?;
            let field = events.fields().column(key).and_then(|field| Field::ALL.get(field));
            let read = match field {
                Some(field) => member(self, *field, cursor, events),
                None => {
                    self.others = true;
                    cursor.skip()
                }
            };
            read.map_err(|fault| fault.within(events.fields().name(key)))?;
        }
        Ok(())
    }

    /// A member of the payload, or of the wrapper around it.
    #[inline]
    fn member(&mut self, field: Field, cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let envelope = &mut self.envelope;
        match field {
            Field::Schema => {
                envelope.types = schema_part(cursor, events)?;
                return Ok(());
            }
            Field::Before => self.before = image(cursor, events)?,
            Field::After => self.after = image(cursor, events)?,
            Field::Source => return self.nested(cursor, events, Self::source_member),
            Field::Transaction => return self.nested(cursor, events, Self::transaction_member),
            Field::Op => envelope.source.operation = cursor.optional_text()?,
            Field::TsMs => produced(&mut envelope.source.produced_time, cursor, 1000)?,
            Field::TsUs => produced(&mut envelope.source.produced_time, cursor, 1)?,
            Field::DatabaseName => or(&mut envelope.database, cursor.optional_text()?),
            Field::SchemaName => or(&mut envelope.schema, cursor.optional_text()?),
            Field::Ddl => envelope.sql = cursor.optional_text()?,
            Field::TableChanges => envelope.table_changes = cursor.optional_nested()?.map(Cow::Borrowed),
            Field::Status => self.status = cursor.optional_text()?,
            Field::Id => envelope.source.transaction_id = cursor.optional_text()?,
            _ => cursor.skip()?,
        }
        self.shape = Shape::Envelope;
        Ok(())
    }

    fn payload(&mut self, cursor: &mut Cursor<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        match cursor.peek() {
            Some(b'{') => return self.read(cursor, reading, events),
            Some(b'n') => {}
            _ => return Err(cursor.wrong_type("an object or null")),
        }
        self.shape = Shape::Tombstone;
        cursor.null()
    }

    /// An object of fields, or null.
    fn nested(
        &mut self,
        cursor: &mut Cursor<'a>,
        events: &mut Events<'a, '_, '_>,
        member: impl FnMut(&mut Self, Field, &mut Cursor<'a>, &mut Events<'a, '_, '_>) -> Result<()>,
    ) -> Result<()> {
        self.shape = Shape::Envelope;
        match cursor.peek() {
            Some(b'{') => {}
            Some(b'n') => return cursor.null(),
            _ => return Err(cursor.wrong_type("an object or null")),
        }
        let others = self.others;
        self.read_members(cursor, events, member)?;
        self.others = others;
        Ok(())
    }

    #[inline]
    fn source_member(&mut self, field: Field, cursor: &mut Cursor<'a>, _: &mut Events<'a, '_, '_>) -> Result<()> {
        let envelope = &mut self.envelope;
        match field {
            Field::Version => envelope.version = cursor.optional_text()?,
            Field::Connector => envelope.connector = cursor.optional_text()?,
            Field::TsMs => produced(&mut envelope.source.event_time, cursor, 1000)?,
            Field::TsUs => produced(&mut envelope.source.event_time, cursor, 1)?,
            Field::Db => envelope.database = cursor.optional_text()?,
            Field::Schema => envelope.schema = cursor.optional_text()?,
            Field::Table => envelope.table = cursor.optional_text()?,
            Field::ServerId => envelope.server_id = cursor.optional_integer()?,
            Field::Gtid => envelope.source.gtid = cursor.optional_text()?,
            Field::File => envelope.source.file = cursor.optional_text()?,
            Field::Pos => envelope.source.position = cursor.optional_integer()?,
            _ => cursor.skip()?,
        }
        Ok(())
    }

    fn transaction_member(&mut self, field: Field, cursor: &mut Cursor<'a>, _: &mut Events<'a, '_, '_>) -> Result<()> {
        match field {
            Field::Id => self.envelope.source.transaction_id = cursor.optional_text()?,
            _ => cursor.skip()?,
        }
        Ok(())
    }

    /// A row whose envelope was taken off, but for the fields that the flattening added with two underscores.
    fn read_flat(&mut self, cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        self.shape = Shape::Flat;
        let start = events.cells.len();
        let mut members = cursor.object()?;
        let mut key = KeyId::START;
        while cursor.next_member(&mut members)? {
            key = events.keys.read(cursor, key)?;
            let value = cursor.value()?;
            if let Some((name, of_source)) = added(events.keys.name(key)) {
                self.added(name, of_source, value)?;
            } else if events.wants_cell(key) {
                events.cells.push((key, value));
            }
        }
        self.after = Some(start..events.cells.len());
        Ok(())
    }

    fn added(&mut self, name: &str, of_source: bool, value: Value<'a>) -> Result<()> {
        let (envelope, text) = (&mut self.envelope, if value.is_null() { None } else { Some(value.text()?) });
        let number = text.as_deref().and_then(|text| text.parse().ok());
        match name {
            "op" => envelope.source.operation = text,
            "deleted" => self.deleted = text.as_deref() == Some("true"),
            "db" => envelope.database = text,
            "table" => envelope.table = text,
            "file" => envelope.source.file = text,
            "pos" => envelope.source.position = number,
            "gtid" => envelope.source.gtid = text,
            "server_id" => envelope.server_id = number,
            "connector" => envelope.connector = text,
            "version" => envelope.version = text,
            "ts_ms" if of_source => envelope.source.event_time = number.and_then(micros_of_epoch),
            "ts_ms" => envelope.source.produced_time = number.and_then(micros_of_epoch),
            _ => {}
        }
        Ok(())
    }

    fn emit(mut self, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let op = self.op()?;
        if op == Op::Tombstone {
            events.plain(op, None);
            return Ok(());
        }
        if self.envelope.source.operation.is_none() {
            self.envelope.source.operation = self.status.take();
        }
        let (mut before, mut after) = (None, None);
        if op.is_row_change() {
            (before, after) = self.images(op)?;
            self.envelope.primary_key = reading.key.and_then(|key| key_names(key, events));
        }
        let envelope = events.envelope(self.envelope);
        events.row(op, envelope, before, after);
        Ok(())
    }

    fn op(&self) -> Result<Op> {
        Ok(match (self.shape, self.envelope.source.operation.as_deref()) {
            (Shape::Tombstone, _) => Op::Tombstone,
            (Shape::Flat, _) if self.deleted => Op::Delete,
            // Whether a row that says no more was inserted or updated is not known; it is there.
            (Shape::Flat, None) => Op::Update,
            (_, Some("c" | "i")) => Op::Insert,
            (_, Some("u")) => Op::Update,
            (_, Some("d")) => Op::Delete,
            (_, Some("r")) => Op::Snapshot,
            (_, Some("t")) => Op::Truncate,
            (_, Some("a")) => Op::Ddl,
            (_, Some(_)) => Op::Other,
            (Shape::Unknown, None) => {
                return Err(Fault::new(Kind::Envelope, "is missing, and so is all else that Debezium writes").within("op"));
            }
            (_, None) => self.without_op()?,
        })
    }

    /// DDL, transactions and heartbeats have no `op`.
    fn without_op(&self) -> Result<Op> {
        if let Some(sql) = &self.envelope.sql {
            return Ok(Op::of_statement(sql));
        }
        match self.status.as_deref() {
            Some("BEGIN") => return Ok(Op::Begin),
            Some("END") => return Ok(Op::Commit),
            _ => {}
        }
        if self.envelope.table_changes.is_some() {
            return Ok(Op::Ddl);
        }
        // A heartbeat has a time and nothing else.
        let says_more = self.others || self.status.is_some() || self.before.is_some() || self.after.is_some();
        let names_more = self.envelope.database.is_some() || self.envelope.table.is_some() || self.envelope.source.event_time.is_some();
        if says_more || names_more || self.envelope.source.produced_time.is_none() {
            return Err(Fault::new(Kind::Envelope, "is missing").within("op"));
        }
        Ok(Op::Heartbeat)
    }

    /// The before image is whole: nothing is overlaid. CloudCanal writes an empty object where there is no image.
    fn images(&self, op: Op) -> Result<(Option<Image>, Option<Image>)> {
        let image = |cells: &Option<Cells>| cells.clone().map(Image::whole);
        let missing = |field: &str| Fault::new(Kind::Envelope, format!("a row of this {} has no image", op.name())).within(field);
        match (op, self.shape) {
            (Op::Delete, Shape::Flat) => Ok((image(&self.after), None)),
            (Op::Delete, _) => image(&self.before).map(|before| (Some(before), None)).ok_or_else(|| missing("before")),
            (Op::Update, _) => image(&self.after).map(|after| (image(&self.before), Some(after))).ok_or_else(|| missing("after")),
            _ => image(&self.after).map(|after| (None, Some(after))).ok_or_else(|| missing("after")),
        }
    }
}

/// The finest of several times: `units` are microseconds each.
fn produced(time: &mut Option<i64>, cursor: &mut Cursor<'_>, unit: i64) -> Result<()> {
    if let Some(number) = cursor.optional_integer()? {
        finest(time, number, unit);
    }
    Ok(())
}

fn finest(time: &mut Option<i64>, number: i64, unit: i64) {
    let found = Some(number).filter(|number| *number != 0).and_then(|number| number.checked_mul(unit));
    if unit == 1 || time.is_none() {
        *time = found.or(*time);
    }
}

fn or<'a>(known: &mut Option<Cow<'a, str>>, found: Option<Cow<'a, str>>) {
    if known.is_none() {
        *known = found;
    }
}

/// `before` or `after`: an object or null.
#[inline]
fn image<'a>(cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<Option<Cells>> {
    match cursor.peek() {
        Some(b'n') => cursor.null().map(|()| None),
        Some(b'{') => {
            let is_empty = cursor.clone().eat("{}");
            events.read_cells(cursor).map(|cells| if is_empty { None } else { Some(cells) })
        }
        _ => Err(cursor.wrong_type("an object or null")),
    }
}

/// The names in the message's key, with or without its own schema part. A key that is no such object names nothing.
fn key_names(key: &[u8], events: &mut Events<'_, '_, '_>) -> Option<std::ops::Range<usize>> {
    let mut cursor = Cursor::new(std::str::from_utf8(key).ok()?, true);
    let first = events.names.len();
    let mut members = cursor.object().ok()?;
    while let Some(name) = cursor.next_key(&mut members).ok()? {
        match name.raw {
            "payload" if cursor.peek() == Some(b'{') => {
                events.names.truncate(first);
                members = cursor.object().ok()?;
            }
            "schema" if cursor.peek() == Some(b'{') => cursor.skip().ok()?,
            _ => {
                let id = events.keys.intern(name).ok()?;
                events.names.push(id);
                cursor.skip().ok()?;
            }
        }
    }
    Some(first..events.names.len()).filter(|names| !names.is_empty())
}

/// The schema part, which is an object or null: the block of types that it declares, if it is asked for.
fn schema_part(cursor: &mut Cursor<'_>, events: &mut Events<'_, '_, '_>) -> Result<Option<usize>> {
    if cursor.peek() == Some(b'n') {
        return cursor.null().map(|()| None);
    }
    if let Some(block) = events.types.schemas.eat(cursor) {
        return Ok(block);
    }
    let start = cursor.at();
    cursor.optional_object()?;
    let text = cursor.since(start);
    if let Some(block) = events.types.schemas.find(text) {
        return Ok(block);
    }
    let wanted = events.wants.types || events.wants.forms;
    let broken = |_| Fault::new(Kind::Envelope, "is no schema of Kafka Connect").at(start);
    let block = if wanted { declare(text, start, events).map_err(broken)? } else { None };
    events.types.schemas.add(text, block);
    Ok(block)
}

/// Declares the columns of a row's schema: those of `after` or `before`, or of a row without an envelope its own.
fn declare(text: &str, start: usize, events: &mut Events<'_, '_, '_>) -> Result<Option<usize>> {
    let Some(fields) = Schema::read(text)?.fields else { return Ok(None) };
    let parts = schemas(fields)?;
    let row = ["after", "before"].iter().find_map(|name| parts.iter().find(|part| part.field.raw == *name && part.fields.is_some()));
    let columns = match row.and_then(|row| row.fields) {
        Some(fields) => schemas(fields)?,
        None => parts,
    };
    events.types.start();
    for column in &columns {
        let key = events.keys.intern(column.field).map_err(|fault| fault.at(start))?;
        let spelling = column.spelling();
        events.types.declare_as(key, events.keys.column(key), &column.distinct(&spelling), || column.declared(&spelling));
    }
    Ok(Some(events.types.finish(&[], SCHEMA_HINT)))
}

/// Parts tell blocks apart, so that no better hint is needed.
const SCHEMA_HINT: usize = usize::MAX;

/// A schema of Kafka Connect, as far as it says how values are written.
#[derive(Default)]
struct Schema<'t> {
    /// `int32`, `string`, `struct`, ...
    kind: &'t str,
    /// Of a logical type.
    name: &'t str,
    field: Text<'t>,
    /// The array of a struct's own schemas.
    fields: Option<&'t str>,
    parameters: Parameters<'t>,
}

#[derive(Default)]
struct Parameters<'t> {
    scale: Option<i32>,
    precision: Option<u32>,
    length: Option<u32>,
    /// Members of an enum or set.
    allowed: Option<Cow<'t, str>>,
    /// MySQL's own type (`column.propagate.source.type`).
    source_type: Option<Cow<'t, str>>,
    source_length: Option<Cow<'t, str>>,
    source_scale: Option<Cow<'t, str>>,
}

fn schemas(array: &str) -> Result<Vec<Schema<'_>>> {
    let mut cursor = Cursor::new(array, true);
    let mut found = Vec::new();
    let mut elements = cursor.array()?;
    while cursor.next_element(&mut elements)? {
        cursor.peek();
        let start = cursor.at();
        cursor.skip()?;
        found.push(Schema::read(cursor.since(start))?);
    }
    Ok(found)
}

impl<'t> Schema<'t> {
    fn read(text: &'t str) -> Result<Self> {
        let mut cursor = Cursor::new(text, true);
        let mut schema = Schema::default();
        let mut members = cursor.object()?;
        while let Some(name) = cursor.next_key(&mut members)? {
            match (name.raw, cursor.value()?) {
                ("type", Value::Text(kind)) => schema.kind = kind,
                ("name", Value::Text(name)) => schema.name = name,
                ("field", Value::Text(raw)) => schema.field = Text { raw, escaped: false },
                ("field", Value::Escaped(raw)) => schema.field = Text { raw, escaped: true },
                ("fields", Value::Nested(fields)) => schema.fields = Some(fields),
                ("parameters", Value::Nested(parameters)) => schema.parameters = Parameters::read(parameters)?,
                _ => {}
            }
        }
        Ok(schema)
    }

    /// The declared type as the message spells it: MySQL's own where the connector passes it on, else Connect's.
    fn spelling(&self) -> String {
        let parameters = &self.parameters;
        match (&parameters.source_type, &parameters.source_length, &parameters.source_scale) {
            (Some(word), Some(length), Some(scale)) => format!("{word}({length},{scale})"),
            (Some(word), Some(length), None) => format!("{word}({length})"),
            (Some(word), ..) => word.to_string(),
            _ if self.name.is_empty() => self.kind.to_owned(),
            _ => self.name.to_owned(),
        }
    }

    /// The spelling with all that makes a difference.
    fn distinct(&self, spelling: &str) -> String {
        let Parameters { scale, precision, length, allowed, .. } = &self.parameters;
        format!("{spelling}\0{}\0{}\0{scale:?}\0{precision:?}\0{length:?}\0{allowed:?}", self.kind, self.name)
    }

    fn declared(&self, spelling: &str) -> Declared {
        let (base, form) = self.base();
        let own = self.parameters.source_type.as_deref().map(|word| Declared::parse(&word.to_lowercase()));
        let mut declared = Declared::connect(spelling, base, form);
        match (base, form) {
            (Base::Decimal, Form::Decimal(scale)) => {
                let scale = u32::try_from(scale).ok();
                declared.arguments =
                    self.parameters.precision.zip(scale).map(|(precision, scale)| vec![precision, scale]).unwrap_or_default();
            }
            (Base::Bit, _) => declared.arguments = vec![self.parameters.length.unwrap_or(1)],
            (Base::Enum | Base::Set, _) => {
                let allowed = self.parameters.allowed.as_deref().unwrap_or_default();
                declared.labels = labels(allowed);
            }
            (Base::Bigint, _) if own.as_ref().is_some_and(|own| own.unsigned) => {
                declared.unsigned = true;
                declared.form = Form::Unsigned;
            }
            (Base::Unknown, _) => {
                declared.base = own.map_or(Base::Unknown, |own| if own.base == Base::Text { Base::Text } else { Base::Unknown })
            }
            _ => {}
        }
        declared
    }

    /// The family of types, and the form of its values. The names are those of Debezium's and Connect's logical types.
    fn base(&self) -> (Base, Form) {
        const MILLIS: i64 = 1000;
        const MICROS: i64 = 1_000_000;
        const NANOS: i64 = 1_000_000_000;
        match (self.name, self.kind) {
            ("io.debezium.time.Date" | "org.apache.kafka.connect.data.Date", _) => (Base::Date, Form::Days),
            ("io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp", _) => (Base::Datetime, Form::Clock(MILLIS)),
            ("io.debezium.time.MicroTimestamp", _) => (Base::Datetime, Form::Clock(MICROS)),
            ("io.debezium.time.NanoTimestamp", _) => (Base::Datetime, Form::Clock(NANOS)),
            ("io.debezium.time.Time" | "org.apache.kafka.connect.data.Time", _) => (Base::Time, Form::Time(MILLIS)),
            ("io.debezium.time.MicroTime", _) => (Base::Time, Form::Time(MICROS)),
            ("io.debezium.time.NanoTime", _) => (Base::Time, Form::Time(NANOS)),
            ("io.debezium.time.ZonedTimestamp", _) => (Base::Timestamp, Form::Zoned),
            ("io.debezium.time.IsoDate", _) => (Base::Date, Form::Iso),
            ("io.debezium.time.IsoTimestamp", _) => (Base::Datetime, Form::Iso),
            ("io.debezium.time.IsoTime" | "io.debezium.time.ZonedTime", _) => (Base::Time, Form::Iso),
            ("io.debezium.time.Year", _) => (Base::Year, Form::Plain),
            ("org.apache.kafka.connect.data.Decimal", _) => match self.parameters.scale {
                Some(scale) => (Base::Decimal, Form::Decimal(scale)),
                None => (Base::Decimal, Form::DecimalWithoutScale),
            },
            ("io.debezium.data.VariableScaleDecimal", _) => (Base::Decimal, Form::VariableDecimal),
            ("io.debezium.data.Bits", _) => (Base::Bit, Form::Bits),
            ("io.debezium.data.Enum", _) => (Base::Enum, Form::Plain),
            ("io.debezium.data.EnumSet", _) => (Base::Set, Form::Plain),
            ("io.debezium.data.Json", _) => (Base::Json, Form::Plain),
            (name, "struct") if name.starts_with("io.debezium.data.geometry.") => (Base::Blob, Form::Geometry),
            (_, "int8") => (Base::Tinyint, Form::Plain),
            (_, "int16") => (Base::Smallint, Form::Plain),
            (_, "int32") => (Base::Int, Form::Plain),
            (_, "int64") => (Base::Bigint, Form::Plain),
            (_, "float" | "float32") => (Base::Float, Form::Plain),
            (_, "double" | "float64") => (Base::Double, Form::Plain),
            (_, "boolean") => (Base::Bit, Form::Bits),
            (_, "bytes") => (Base::Blob, Form::Base64),
            _ => (Base::Unknown, Form::Plain),
        }
    }
}

/// The labels of an enum or set: joined by commas, of which one within a label has a backslash before it, as in the values.
fn labels(allowed: &str) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for part in allowed.split(',').filter(|_| !allowed.is_empty()) {
        match labels.last_mut().filter(|label| label.ends_with('\\')) {
            Some(label) => *label = format!("{label},{part}"),
            None => labels.push(part.to_owned()),
        }
    }
    labels
}

impl<'t> Parameters<'t> {
    fn read(text: &'t str) -> Result<Self> {
        let mut cursor = Cursor::new(text, true);
        let mut parameters = Parameters::default();
        let mut members = cursor.object()?;
        while let Some(name) = cursor.next_key(&mut members)? {
            let value = cursor.value()?;
            let text = value.text()?;
            match name.raw {
                "scale" => parameters.scale = text.parse().ok(),
                "connect.decimal.precision" => parameters.precision = text.parse().ok(),
                "length" => parameters.length = text.parse().ok(),
                "allowed" => parameters.allowed = Some(text),
                "__debezium.source.column.type" => parameters.source_type = Some(text),
                "__debezium.source.column.length" => parameters.source_length = Some(text),
                "__debezium.source.column.scale" => parameters.source_scale = Some(text),
                _ => {}
            }
        }
        Ok(parameters)
    }
}
