//! debezium-json: messages that Debezium's MySQL connector writes through Kafka Connect's JSON converter, and
//! CloudCanal's envelope of the same form.
//!
//! A message with its schema part (`schemas.enable`), which declares the encoding of each column:
//!
//! ```json
//! {"schema":{"type":"struct","fields":[{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"},
//!  {"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"},"field":"total"}],"field":"after"}]},
//!  "payload":{"before":null,"after":{"id":1,"total":"BOI="},"source":{"db":"shop","table":"orders"},"op":"c","ts_ms":1}}
//! ```
//!
//! Without a schema part, a message is the payload alone. The dialect also reads flattened rows (the
//! `ExtractNewRecordState` transformation) in three cases: the row has a field that the transformation adds, such as
//! `__op` or `__deleted`; the schema part describes a row; or the user says that messages are rows (`unwrapped`).
//! CloudEvents have the payload in `data`.

mod avro_plan;
mod avro_values;
mod connect_schema;
pub(crate) mod debezium_avro;
mod debezium_message;
mod members;
mod printed_avro;
mod row_marks;
pub(crate) mod ticdc_avro;
pub(crate) mod ticdc_rows;
mod unavailable;
pub(crate) mod writer_schemas;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use bumpalo::Bump;
use connect_schema::schema_part;
use debezium_message::{Message, OPERATIONS, Shape, no_envelope};
use members::{Member, Members, Transaction, added, in_arena};
use serde::Deserialize;
use unavailable::lacks_values;

use super::json_members::{has_member, member, nested, row_image};
use super::operations::any_case;
use super::{Dialect, Mark, Marks, Read, ReadContext, Wire, without_schema_id};
use crate::dialect::spec::{Before, FlatMember, Place, Placeholder, TemplateSpec};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Events, Op, Quirks, ValueFormat};
use crate::interner::{MemberNames, NameId, Quoting};
use crate::mysql::types::RowName;
use crate::value::Value;
use crate::wire::json::{Cursor, MAX_DEPTH};
use crate::wire::json_de::{
    self, Context, CowStr, Part, RawNested, deserialize_part, member_names,
};
use crate::wire::{records, utf8};

pub(crate) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &["cloudcanal-debezium-json"],
    producer: "Debezium, CloudCanal (Debezium envelope)",
    wire: Wire::Json,
    description: "Debezium's envelope in JSON, with its schema part and without, unwrapped or not",
    marks: Marks::Members(&[
        Mark::Begins("schema", b'{'),
        Mark::Name("payload"),
        Mark::Begins("before", b'{'),
        Mark::Begins("after", b'{'),
        Mark::Begins("source", b'{'),
        Mark::Name("op"),
        Mark::Name("ts_ms"),
        Mark::Name("databaseName"),
        Mark::Name("specversion"),
        Mark::Name("iodebeziumop"),
        Mark::Added(|name| added(name).is_some()),
    ]),
    quirks: |_| &DEBEZIUM,
    read: Read::Text(read),
    options: &[
        "bigint_unsigned_handling_mode",
        "binary_handling_mode",
        "decimal_handling_mode",
        "lenient",
        "op_column",
        "time_precision_mode",
        "unwrapped",
    ],
    template: Some(&TEMPLATE),
};

const NAME: &str = "debezium-json";

static DEBEZIUM: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Connect,
    quoting: Quoting::None,
};

static TEMPLATE: TemplateSpec = TemplateSpec {
    members: member_names::<Members<'static>>,
    placeholders: || &PLACEHOLDERS,
    wrapper: Some("payload"),
    table: Place::Tail(640),
    op: row_op,
    ends_with_op: false,
    before: Before::Row,
    has_deletes_in_data: false,
    has_arrays: false,
    empty_is_null: true,
    key_names: Some(|key, events| {
        let names = key_names(key, events)?;
        events.names.get(names).map(<[NameId]>::to_vec)
    }),
    flat: Some(flat_member),
    lacks_values: Some(lacks_values),
};

static PLACEHOLDERS: LazyLock<Vec<(&str, Placeholder)>> = LazyLock::new(|| {
    let images = [
        ("before", Placeholder::Before),
        ("after", Placeholder::After),
    ];
    images.into_iter().chain(members::placeholders()).collect()
});

/// Classifies a member of a flattened row. A member is unclear if an envelope or its wrapper may also have it.
fn flat_member(name: &str) -> FlatMember {
    match added(name) {
        Some(member) => member.flat(),
        None if matches!(name, "before" | "after" | "payload" | "schema") => FlatMember::Unclear,
        None if row_marks::may_be(name) => FlatMember::Mark,
        None => FlatMember::Column,
    }
}

fn row_op(word: &str) -> Option<Op> {
    any_case(word, &OPERATIONS).filter(|op| op.is_row_change())
}

/// A schema change in the form of Debezium's history.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct History<'a> {
    database_name: Option<CowStr<'a>>,
    schema_name: Option<CowStr<'a>>,
    ddl: Option<CowStr<'a>>,
    table_changes: Option<RawNested<'a>>,
}

/// True if the message has a transaction. The [`Reader`] keeps it.
#[derive(Default)]
struct TransactionPart(bool);

/// `before` or `after`: an object, or null. CloudCanal writes an empty object for a missing image.
#[derive(Default)]
struct ImageMember(Option<Cells>);

/// The block of types that `schema` declares.
#[derive(Default)]
struct SchemaPart(Option<usize>);

/// The payload within a wrapper. The [`Reader`] keeps it.
#[derive(Default)]
struct Payload;

const ROW_IMAGE: &str = "$row image or {}";
const SCHEMA: &str = "$schema";
const PAYLOAD: &str = "$payload";
const TRANSACTION: &str = "$transaction";

deserialize_part!(ImageMember, ROW_IMAGE, |part| ImageMember(part.range()));
deserialize_part!(SchemaPart, SCHEMA, |part| SchemaPart(part.index()));
deserialize_part!(Payload, PAYLOAD, |_| Payload);
deserialize_part!(TransactionPart, TRANSACTION, |part| TransactionPart(
    part.index().is_some()
));

/// Returns the fault of an object that would be a row of nulls.
#[cold]
fn no_columns(object: &Cursor<'_>) -> Fault {
    let what = "the object has none of the schema's columns, so it is not a row of the table, even with unwrapped=True";
    Fault::new(Kind::Envelope, what).at(object.at())
}

/// Advice for messages that are rows.
pub(super) const UNWRAPPED: &str = "; if the message is a row without an envelope, such as {\"id\": 7, \"name\": \"x\"}, set unwrapped=True, and op_column to the member with the operation, if the row has one";

/// Advice for the events of an outbox.
const OUTBOX: &str = "is a string, as Debezium's EventRouter writes it, not a row; read the topic of the outbox table without EventRouter, or set table.expand.json.payload=true in EventRouter and unwrapped=True here";

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        let message = Reader::new(reading, events).read_checked(cursor, text)?;
        match reading.key {
            Some(key) if message.shape == Shape::Tombstone && reading.options.unwrapped => {
                read_deleted(key, reading, events)
            }
            key => message.emit(
                |events| Ok(key.and_then(|key| key_names(key, events))),
                events,
            ),
        }
    })
}

/// Reads a record without a value, whose key names the deleted row. The flattening turns a delete into such a record.
pub(crate) fn read_deleted<'a>(
    key: &'a [u8],
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
) -> Result<()> {
    events.set_dialect(reading.quirks);
    let text = utf8::text(without_schema_id(key), "the key is not UTF-8").map_err(in_key)?;
    let mut cursor = Cursor::new(text, reading.lenient);
    if cursor.peek() != Some(b'{') {
        return Err(no_row());
    }
    let mut message = Reader::new(reading, events)
        .read_checked(&mut cursor, text)
        .map_err(in_key)?;
    if cursor.peek().is_some() {
        return Err(in_key(cursor.unexpected("the end of the key")));
    }
    let names = match key_names(key, events) {
        Some(names) if message.shape == Shape::Flat => names,
        _ => return Err(no_row()),
    };
    message.deleted = Some(true);
    message.emit(|_| Ok(Some(names)), events)
}

fn in_key(fault: Fault) -> Fault {
    fault.without_byte().within("key")
}

#[cold]
fn no_row() -> Fault {
    let what = "has no columns, and the record has no value, so the deleted row is unknown";
    Fault::new(Kind::Envelope, what).within("key")
}

/// Sets the value of a member of a flattened row, or of an attribute of a CloudEvent.
fn set_added<'a>(
    message: &mut Message<'a>,
    member: &Member,
    name: &str,
    value: Value<'a>,
    arena: &'a Bump,
) -> Result<()> {
    if let Value::Nested(_) = value {
        return Err(printed_avro::fault().within(name));
    }
    let set = member.set(value, message, arena);
    set.map_err(|fault| fault.within(name))
}

fn has_image(object: &Cursor<'_>) -> bool {
    has_member(object, |name, first| {
        matches!(name, "before" | "after") && first == Some(b'{')
    })
}

/// Returns whether an object is an envelope, by two of its objects. A single object may be a column with such a name.
fn is_envelope(object: &Cursor<'_>) -> bool {
    has_image(object)
        && has_member(object, |name, first| {
            name == "source" && first == Some(b'{')
        })
}

/// Returns whether an object is a row without an envelope: it has a field that the flattening adds.
fn is_flat(object: &Cursor<'_>) -> bool {
    has_member(object, |name, _| added(name).is_some()) && !is_envelope(object)
}

/// Returns whether an object is a row, given the option `unwrapped`. An envelope is not a row: it has a row image. A
/// wrapper is not a row: it has a schema part and a payload of any kind, or only a payload.
fn is_unwrapped(object: &Cursor<'_>) -> bool {
    let has_columns = has_member(object, |name, first| match name {
        "payload" => false,
        "schema" => !is_object(first),
        _ => true,
    });
    let is_wrapper = !has_columns
        && has_member(object, |name, first| {
            name == "payload" && (is_object(first) || has_schema(object))
        });
    !is_wrapper && !has_image(object)
}

fn has_schema(object: &Cursor<'_>) -> bool {
    has_member(object, |name, first| name == "schema" && is_object(first))
}

/// Returns whether a value is an object or null, by its first byte.
fn is_object(first: Option<u8>) -> bool {
    matches!(first, Some(b'{' | b'n'))
}

/// Returns whether an object is complete and has no member that only an envelope has.
fn may_be_row(object: &Cursor<'_>) -> bool {
    const OF_ENVELOPES: [&str; 9] = [
        "before",
        "after",
        "source",
        "op",
        "payload",
        "ddl",
        "databaseName",
        "tableChanges",
        "transaction",
    ];
    object.clone().skip().is_ok() && !has_member(object, |name, _| OF_ENVELOPES.contains(&name))
}

/// Reads one message.
struct Reader<'r, 'a> {
    events: &'r mut Events<'a>,
    reading: &'r ReadContext<'r, 'a>,
    /// The payload in a wrapper.
    payload: Option<Message<'a>>,
    transaction: Option<Transaction<'a>>,
    /// The row that the schema part describes, if it does not describe an envelope.
    row: Option<RowName>,
    /// The object whose members are read.
    wrapper: Option<Cursor<'a>>,
    /// True if the schema part has been read.
    has_schema: bool,
    /// True if it has members that an envelope does not have.
    others: bool,
    /// Number of wrappers around the current object.
    depth: u32,
}

impl<'a> Context<'a> for Reader<'_, 'a> {
    #[inline(always)]
    fn members(&mut self) -> &mut MemberNames {
        &mut self.events.members
    }

    #[inline(always)]
    fn read_part(&mut self, token: &'static str, cursor: &mut Cursor<'a>) -> Result<Part<'a>> {
        match token {
            ROW_IMAGE => {
                let is_empty = cursor.peek() == Some(b'{') && cursor.clone().eat("{}");
                Ok(match row_image(cursor, self.events)? {
                    Some(cells) if !is_empty => Part::Range(cells),
                    _ => Part::None,
                })
            }
            SCHEMA => self.read_schema(cursor),
            PAYLOAD => self.read_payload(cursor).map(|()| Part::None),
            TRANSACTION => self.read_transaction(cursor),
            token => self.events.read_part(token, cursor),
        }
    }

    #[inline(always)]
    fn unknown_member(&mut self, of: &'static str) {
        self.others |= of == "Members";
    }
}

impl<'r, 'a> Reader<'r, 'a> {
    fn new(reading: &'r ReadContext<'r, 'a>, events: &'r mut Events<'a>) -> Self {
        Reader {
            events,
            reading,
            payload: None,
            transaction: None,
            row: None,
            wrapper: None,
            has_schema: false,
            others: false,
            depth: 0,
        }
    }

    fn read_checked(&mut self, cursor: &mut Cursor<'a>, text: &str) -> Result<Message<'a>> {
        let message = self.read(cursor)?;
        if !self.has_schema && self.events.needs.images {
            self.check_objects(&message, text)?;
        }
        Ok(message)
    }

    /// Reads the payload, or the wrapper around it. Columns of a flattened row may have the names of the envelope's
    /// members. So only an object that cannot be an envelope is read twice.
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<Message<'a>> {
        let start = cursor.clone();
        self.wrapper = Some(start.clone());
        if self.row.is_some() || self.reading.options.unwrapped && is_unwrapped(&start) {
            let is_named = self.row.is_some();
            let message = self.read_flat(cursor)?;
            return if is_named || self.has_columns(&message) {
                Ok(message)
            } else {
                Err(no_columns(&start))
            };
        }
        let members = json_de::read::<Members<'a>>(cursor, self);
        if members.is_err() || self.others {
            if is_flat(&start) {
                *cursor = start;
                // Columns may have the names of the envelope's parts.
                (self.row, self.payload, self.transaction) = (None, None, None);
                return self.read_flat(cursor);
            }
            if has_member(&start, |name, _| name == "specversion") {
                *cursor = start;
                return self.read_cloud_event(cursor);
            }
        }
        let is_suspect = match &members {
            Ok(members) => self.may_be_printed(members),
            Err(_) => true,
        };
        if is_suspect && let Some(fault) = printed_avro::find(&start) {
            return Err(fault);
        }
        let mut members = match members {
            Err(_) if may_be_row(&start) => return Err(no_envelope(self.reading.quirks)),
            members => members?,
        };
        self.read_history(&mut members)?;
        Ok(match self.payload.take() {
            Some(mut message) => {
                message.envelope.types = message.envelope.types.or(members.schema.0);
                message
            }
            None => members.message(
                self.transaction.take(),
                self.others,
                self.reading,
                self.events.arena,
            ),
        })
    }

    fn read_schema(&mut self, cursor: &mut Cursor<'a>) -> Result<Part<'a>> {
        let is_null = cursor.peek() == Some(b'n');
        self.has_schema = true;
        let block = schema_part(cursor, self.events)?;
        self.row = if is_null {
            None
        } else {
            self.events.types.schemas.row().cloned()
        };
        Ok(block.map_or(Part::None, Part::Index))
    }

    /// Reads the schema part after the payload that it describes. Some writers use this order.
    fn read_schema_behind(&mut self) -> Result<()> {
        if let Some(wrapper) = self.wrapper.take()
            && !self.has_schema
            && let Some(mut schema) = member(&wrapper, |name, first| {
                name == "schema" && first == Some(b'{')
            })
        {
            self.read_schema(&mut schema)?;
        }
        Ok(())
    }

    /// Returns whether a row has one of the table's columns, if any is requested.
    fn has_columns(&self, row: &Message<'a>) -> bool {
        if !self.events.needs.images || self.reading.options.has_objects.is_empty() {
            return true;
        }
        let Some(cells) = row.after.as_ref().or(row.before.as_ref()) else {
            return false;
        };
        let mut cells = self.events.cells_of(cells).iter();
        cells.any(|(key, _)| self.events.keys.column(*key).is_some())
    }

    /// Refuses objects that may be values of unions in Avro's JSON. Without a schema part, nothing proves that they are
    /// JSON columns.
    fn check_objects(&self, message: &Message<'a>, text: &str) -> Result<()> {
        for (name, cells) in [("before", &message.before), ("after", &message.after)] {
            let Some(cells) = cells else { continue };
            for cell in self.events.cells_of(cells) {
                self.check_object(cell, text)
                    .map_err(|fault| fault.within(name))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn check_object(&self, (key, value): &(NameId, Value<'a>), text: &str) -> Result<()> {
        let Value::Nested(json) = value else {
            return Ok(());
        };
        let has_objects = &self.reading.options.has_objects;
        let is_known = match self.events.keys.column(*key) {
            Some(column) => has_objects.get(column) == Some(&true),
            // Without an index, the column is not requested, if there is a schema.
            None => !has_objects.is_empty(),
        };
        if !is_known && let Some(fault) = printed_avro::ambiguous(json) {
            let byte = (json.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
            return Err(fault.at(byte).within(self.events.keys.name(*key)));
        }
        Ok(())
    }

    /// Returns whether a row image may be the value of a union in Avro's JSON: it has no requested column, or a single
    /// one whose value is an object.
    fn may_be_printed(&self, members: &Members<'a>) -> bool {
        [&members.before.0, &members.after.0]
            .into_iter()
            .flatten()
            .any(|cells| matches!(self.events.cells_of(cells), [] | [(_, Value::Nested(_))]))
    }

    /// Reads the schema change within the text of `historyRecord`.
    fn read_history(&mut self, members: &mut Members<'a>) -> Result<()> {
        let Some(CowStr(text)) = members.historyRecord.take() else {
            return Ok(());
        };
        let text = in_arena(text, self.events.arena);
        let history: History<'a> =
            json_de::read(&mut Cursor::new(text, self.reading.lenient), self.events)
                .map_err(|fault| fault.without_byte().within("historyRecord"))?;
        members.databaseName = history.database_name;
        members.schemaName = history.schema_name;
        members.ddl = history.ddl;
        members.tableChanges = history.table_changes;
        Ok(())
    }

    fn read_payload(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        let message = match cursor.peek() {
            Some(b'{') if self.depth == MAX_DEPTH => {
                return Err(Fault::new(
                    Kind::Depth,
                    format!("nested deeper than {MAX_DEPTH} levels"),
                )
                .at(cursor.at()));
            }
            Some(b'{') => {
                self.depth += 1;
                self.read_schema_behind()?;
                self.read(cursor)?
            }
            Some(b'n') => {
                cursor.null()?;
                Message {
                    shape: Shape::Tombstone,
                    ..Message::empty(self.reading)
                }
            }
            Some(b'"') if self.wrapper.is_some() => {
                return Err(Fault::new(Kind::Envelope, OUTBOX).at(cursor.at()));
            }
            _ => return Err(cursor.wrong_type("an object or null")),
        };
        self.payload = Some(message);
        Ok(())
    }

    /// Reads an object or null. LakeSoul writes a number, which is an error only if the id is requested.
    fn read_transaction(&mut self, cursor: &mut Cursor<'a>) -> Result<Part<'a>> {
        match cursor.peek() {
            Some(b'{') => {
                self.transaction = Some(json_de::read(cursor, self.events)?);
                Ok(Part::Index(0))
            }
            Some(b'n') => cursor.null().map(|()| Part::None),
            _ if self.events.needs.source => Err(cursor.wrong_type("an object or null")),
            _ => cursor.skip().map(|()| Part::None),
        }
    }

    /// Reads a CloudEvent. Its attributes repeat members of the payload's `source`. The payload is in `data`.
    fn read_cloud_event(&mut self, cursor: &mut Cursor<'a>) -> Result<Message<'a>> {
        (self.others, self.wrapper) = (false, None);
        let mut attributes = Vec::new();
        let mut members = cursor.object()?;
        while let Some(name) = cursor.next_key(&mut members)? {
            let name = name.unescaped();
            match members::attribute(&name) {
                _ if name == "data" => self
                    .read_payload(cursor)
                    .map_err(|fault| fault.within("data"))?,
                Some(member) => attributes.push((member, name, cursor.value()?)),
                None => cursor.skip()?,
            }
        }
        let Some(mut message) = self.payload.take() else {
            return Err(Fault::new(Kind::Envelope, "is missing").within("data"));
        };
        for (member, name, value) in attributes {
            set_added(&mut message, member, &name, value, self.events.arena)?;
        }
        Ok(message)
    }

    /// Reads a row without an envelope. Fields that the flattening added, with two underscores, are not columns.
    fn read_flat(&mut self, cursor: &mut Cursor<'a>) -> Result<Message<'a>> {
        self.others = false;
        let mut message = Message {
            shape: Shape::Flat,
            ..Message::empty(self.reading)
        };
        if let Some(RowName { database, table }) = self.row.take() {
            message.envelope.database = database.map(|name| Cow::Owned(name.into()));
            message.envelope.table = table.map(|name| Cow::Owned(name.into()));
        }
        let events = &mut *self.events;
        let start = events.cells.len();
        let mut members = cursor.object()?;
        let mut key = NameId::START;
        while cursor.next_member(&mut members)? {
            key = events.keys.read(cursor, key)?;
            let value = cursor.value()?;
            let name = events.keys.name(key);
            if let Some(member) = added(name)
                && !self.reading.options.is_op_column(name)
            {
                set_added(&mut message, member, name, value, events.arena)?;
            } else if message.is_column(key, value, self.reading, events)? && events.wants_cell(key)
            {
                events.cells.push((key, value));
            }
        }
        message.end_row(start..events.cells.len(), self.reading);
        Ok(message)
    }
}

impl<'a> Members<'a> {
    /// Makes a message of the members and the transaction.
    fn message(
        mut self,
        transaction: Option<Transaction<'a>>,
        others: bool,
        reading: &ReadContext<'_, 'a>,
        arena: &'a Bump,
    ) -> Message<'a> {
        let mut message = Message {
            before: self.before.0.take(),
            after: self.after.0.take(),
            others,
            ..Message::empty(reading)
        };
        let envelope = &mut message.envelope;
        envelope.table_changes = nested(self.tableChanges.take());
        (envelope.types, envelope.primary_key) = (self.schema.0, self.pkNames.0.take());
        // A message with only a schema part is not an envelope.
        let has_parts = message.before.is_some()
            || message.after.is_some()
            || self.source.is_some()
            || self.transaction.0
            || envelope.table_changes.is_some();
        if let Some(source) = self.source.take() {
            source.fill(&mut message, arena);
        }
        if let Some(transaction) = transaction {
            transaction.fill(&mut message, arena);
        }
        if self.fill(&mut message, arena) || has_parts {
            message.shape = Shape::Envelope;
        }
        message
    }
}

/// `ByLogicalTableRouter` adds this member to the key. It holds the topic before the routing, and is not a column.
const ROUTED_FROM: &str = "__dbz__physicalTableIdentifier";

/// Returns the names in the message's key, with or without its own schema part. Any other key has no names.
fn key_names(key: &[u8], events: &mut Events<'_>) -> Option<Range<usize>> {
    let mut cursor = Cursor::new(std::str::from_utf8(without_schema_id(key)).ok()?, true);
    if is_wrapper(&cursor) {
        cursor = member(&cursor, |name, _| name == "payload")?;
    }
    let first = events.names.len();
    let mut members = cursor.object().ok()?;
    while let Some(name) = cursor.next_key(&mut members).ok()? {
        if name.raw != ROUTED_FROM {
            let id = events.keys.intern(name).ok()?;
            events.names.push(id);
        }
        cursor.skip().ok()?;
    }
    Some(first..events.names.len()).filter(|names| !names.is_empty())
}

/// Returns whether a key is a payload with its schema part. A column may be called like either.
fn is_wrapper(key: &Cursor<'_>) -> bool {
    has_member(key, |name, first| {
        name == "payload" && (first == Some(b'{') || has_schema(key))
    })
}
