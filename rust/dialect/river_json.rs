//! river-json: KafkaRiverCanal, one message for each row, with every column's name, type and value side by side.
//!
//! ```json
//! {"binlog":"25521@mysql-bin.000070","time":1450236307000,"canalTime":1450236308279,"db":"shop","table":"orders","event":"u",
//!  "columns":[{"n":"id","t":"bigint(20)","v":"1","null":false,"updated":false},
//!   {"n":"total","t":"decimal(10,2)","v":"12.50","origin_val":"9.00","null":false,"updated":true}],"keys":["id"]}
//! ```
//!
//! Gson leaves out members that are null, unless it was told to write them; `null` tells whether `v` is one. Nothing tells
//! whether `origin_val` was NULL: where nulls are written as empty text, an empty one is delivered as it is.

use std::borrow::Cow;

use super::{Dialect, Mark, Marks, Read, ReadContext, Variant, Wire};
use crate::dialect::spec::{Before, Hole, Place, TemplateSpec};
use crate::error::{Fault, Kind, Result};
use crate::event::{Envelope, Events, Image, Op, Quirks, Source, ValueFormat};
use crate::interner::{NameId, Quoting};
use crate::mysql::temporal::micros_of_epoch;
use crate::mysql::types::{DeclaredType, TypeFamily};
use crate::value::Value;
use crate::wire::json::{Cursor, Text};
use crate::wire::records;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "KafkaRiverCanal",
    wire: Wire::Json,
    description: "KafkaRiverCanal's message of one row with its columns side by side",
    fields: FIELDS,
    marks: Marks::Members(&[Mark::Name("binlog"), Mark::Name("canalTime"), Mark::Begins("columns", b'['), Mark::Begins("event", b'"')]),
    variant,
    read: Read::Text(read),
    template: Some(&TEMPLATE),
};

const NAME: &str = "river-json";

static RIVER: Quirks = Quirks { dialect: NAME, declares_lengths: true, format: ValueFormat::Text };

fn variant(_: &str) -> Variant {
    Variant { quirks: &RIVER, quoting: Quoting::None }
}

static TEMPLATE: TemplateSpec = TemplateSpec {
    holes: &[
        ("columns", Hole::Columns(may_be_empty)),
        ("event", Hole::Operation),
        ("time", Hole::Integer(|source, number| source.event_time = micros_of_epoch(number))),
        ("canalTime", Hole::Integer(|source, number| source.produced_time = micros_of_epoch(number))),
        (
            "binlog",
            Hole::Text(|source, text| {
                place(source, text);
                true
            }),
        ),
    ],
    table: Place::Head(256),
    op: row_op,
    ends_with_op: false,
    before: Before::Row,
    has_deletes_in_data: false,
    has_arrays: false,
    empty_is_null: false,
    key_names: None,
    flat: None,
};

fn row_op(word: &str) -> Option<Op> {
    match word {
        "i" => Some(Op::Insert),
        "u" => Some(Op::Update),
        "d" => Some(Op::Delete),
        _ => None,
    }
}

/// `offset@file`; what is not of that form is no place.
fn place<'a>(source: &mut Source<'a>, text: &'a str) {
    if let Some((offset, file)) = text.split_once('@') {
        source.position = offset.parse().ok();
        source.file = Some(file.into());
    }
}

/// Fields of the message and of each column.
#[derive(Clone, Copy)]
enum Field {
    /// `offset@file`.
    Binlog,
    /// When the binlog's entry was made: milliseconds.
    Time,
    /// When it was read: milliseconds.
    CanalTime,
    Db,
    Table,
    /// `i`, `u` or `d`.
    Event,
    Columns,
    Interner,
    Name,
    Type,
    /// After an insert or update; of a DELETE, what is gone.
    Value,
    Null,
    Updated,
    /// Before an update, of a column that it changed.
    OriginVal,
}

const FIELDS: &[&str] =
    &["binlog", "time", "canalTime", "db", "table", "event", "columns", "keys", "n", "t", "v", "null", "updated", "origin_val"];

impl Field {
    /// In the order of [`FIELDS`].
    const ALL: [Field; 14] = [
        Field::Binlog,
        Field::Time,
        Field::CanalTime,
        Field::Db,
        Field::Table,
        Field::Event,
        Field::Columns,
        Field::Interner,
        Field::Name,
        Field::Type,
        Field::Value,
        Field::Null,
        Field::Updated,
        Field::OriginVal,
    ];

    fn read(cursor: &mut Cursor<'_>, key: &mut NameId, events: &mut Events<'_, '_, '_>) -> Result<Option<Field>> {
        *key = events.fields().read(cursor, *key)?;
        Ok(events.fields().column(*key).and_then(|field| Field::ALL.get(field)).copied())
    }
}

/// A message as far as it is read.
struct Message<'a> {
    envelope: Envelope<'a>,
    columns: Vec<Column<'a>>,
}

/// One element of `columns`.
struct Column<'a> {
    name: Text<'a>,
    declared: Option<Cow<'a, str>>,
    value: Value<'a>,
    is_null: bool,
    updated: bool,
    origin: Value<'a>,
}

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        let mut message = Message { envelope: Envelope::empty(reading.variant.quirks), columns: Vec::new() };
        message.read(cursor, events)?;
        message.emit(events)
    })
}

impl<'a> Message<'a> {
    fn read(&mut self, cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let mut members = cursor.object()?;
        let mut key = NameId::START;
        while cursor.next_member(&mut members)? {
            let field = Field::read(cursor, &mut key, events)?;
            self.field(field, cursor, events).map_err(|fault| fault.within(events.fields().name(key)))?;
        }
        Ok(())
    }

    #[inline]
    fn field(&mut self, field: Option<Field>, cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let envelope = &mut self.envelope;
        match field {
            Some(Field::Binlog) => {
                if let Some(Cow::Borrowed(text)) = cursor.optional_text()? {
                    place(&mut envelope.source, text);
                }
            }
            Some(Field::Time) => envelope.source.event_time = cursor.optional_integer()?.and_then(micros_of_epoch),
            Some(Field::CanalTime) => envelope.source.produced_time = cursor.optional_integer()?.and_then(micros_of_epoch),
            Some(Field::Db) => envelope.database = cursor.optional_text()?,
            Some(Field::Table) => envelope.table = cursor.optional_text()?,
            Some(Field::Event) => envelope.source.operation = cursor.optional_text()?,
            Some(Field::Interner) => envelope.primary_key = events.read_names(cursor)?,
            Some(Field::Columns) if cursor.peek() != Some(b'[') => return Err(cursor.wrong_type("an array of columns")),
            Some(Field::Columns) => {
                let mut elements = cursor.array()?;
                while cursor.next_element(&mut elements)? {
                    self.columns.push(Column::read(cursor, events)?);
                }
            }
            _ => cursor.skip()?,
        }
        Ok(())
    }

    fn emit(mut self, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let op = match self.envelope.source.operation.as_deref() {
            Some(word) => row_op(word).unwrap_or(Op::Other),
            None => return Err(Fault::new(Kind::Envelope, "is missing").within("event")),
        };
        if op != Op::Other && self.columns.is_empty() {
            return Err(Fault::new(Kind::Envelope, format!("{} without a column", op.name())).within("columns"));
        }
        let (values, origins) = self.cells(op, events)?;
        let image = |cells: std::ops::Range<usize>| Some(Image::whole(cells));
        let (before, after) = match op {
            Op::Insert => (None, image(values)),
            Op::Update => (image(origins), image(values)),
            Op::Delete => (image(values), None),
            _ => (None, None),
        };
        let envelope = events.envelope(self.envelope);
        events.row(op, envelope, before, after);
        Ok(())
    }

    /// The cells of `v`, and of an update those before it.
    fn cells(&mut self, op: Op, events: &mut Events<'a, '_, '_>) -> Result<(std::ops::Range<usize>, std::ops::Range<usize>)> {
        let mut key = NameId::START;
        let mut keys = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            key = events.keys.following(column.name, key)?;
            keys.push(key);
        }
        if events.wants.types {
            self.declare(&keys, events);
        }
        let start = events.cells.len();
        self.push(&keys, events, Column::after);
        let middle = events.cells.len();
        if op == Op::Update {
            self.push(&keys, events, Column::before);
        }
        Ok((start..middle, middle..events.cells.len()))
    }

    fn push(&self, keys: &[NameId], events: &mut Events<'a, '_, '_>, value: fn(&Column<'a>) -> Value<'a>) {
        for (key, column) in keys.iter().zip(&self.columns) {
            if events.wants_cell(*key) {
                events.cells.push((*key, value(column)));
            }
        }
    }

    fn declare(&mut self, keys: &[NameId], events: &mut Events<'a, '_, '_>) {
        events.types.start();
        for (key, column) in keys.iter().zip(&self.columns) {
            if let Some(declared) = &column.declared {
                events.types.declare(*key, events.keys.column(*key), declared);
            }
        }
        let hint = keys.last().map_or(0, |key| key.index());
        self.envelope.types = Some(events.types.finish(&[], hint));
    }
}

impl<'a> Column<'a> {
    fn read(cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<Self> {
        let mut column =
            Column { name: Text::default(), declared: None, value: Value::Null, is_null: false, updated: false, origin: Value::Null };
        if cursor.peek() != Some(b'{') {
            return Err(cursor.wrong_type("an object"));
        }
        let mut has_name = false;
        let mut members = cursor.object()?;
        let mut key = NameId::START;
        while cursor.next_member(&mut members)? {
            let field = Field::read(cursor, &mut key, events)?;
            has_name |= matches!(field, Some(Field::Name));
            column.field(field, cursor).map_err(|fault| fault.within(events.fields().name(key)))?;
        }
        if has_name { Ok(column) } else { Err(Fault::new(Kind::Envelope, "is missing").within("n").at(cursor.at())) }
    }

    #[inline]
    fn field(&mut self, field: Option<Field>, cursor: &mut Cursor<'a>) -> Result<()> {
        match field {
            Some(Field::Name) => self.name = cursor.text()?,
            Some(Field::Type) => self.declared = cursor.optional_text()?,
            Some(Field::Value) => self.value = cursor.value()?,
            Some(Field::Null) => self.is_null = cursor.optional_bool()?.unwrap_or(false),
            Some(Field::Updated) => self.updated = cursor.optional_bool()?.unwrap_or(false),
            Some(Field::OriginVal) => self.origin = cursor.value()?,
            _ => cursor.skip()?,
        }
        Ok(())
    }

    fn after(&self) -> Value<'a> {
        if self.is_null { Value::Null } else { self.value }
    }

    /// What was there before an update.
    fn before(&self) -> Value<'a> {
        let is_empty = (!self.origin.is_null()).then(|| self.origin == Value::Text(""));
        match Was::of(is_empty, self.updated, || may_be_empty(self.declared.as_deref())) {
            Was::AsNow => self.after(),
            Was::Origin => self.origin,
            Was::Null => Value::Null,
        }
    }
}

/// What a column's value was before an update.
#[derive(Clone, Copy)]
pub(crate) enum Was {
    /// The value that is there now: the update did not change it, and says so.
    AsNow,
    Null,
    /// What `origin_val` says.
    Origin,
}

impl Was {
    /// `is_empty` tells whether `origin_val` is empty text, if there is one.
    #[inline]
    pub fn of(is_empty: Option<bool>, updated: bool, may_be_empty: impl FnOnce() -> bool) -> Self {
        match is_empty {
            Some(false) => Was::Origin,
            _ if !updated => Was::AsNow,
            Some(true) if may_be_empty() => Was::Origin,
            _ => Was::Null,
        }
    }
}

/// Whether empty text is a value of a declared type, or only another way to write NULL.
fn may_be_empty(declared: Option<&str>) -> bool {
    let base = declared.map(|declared| DeclaredType::parse(declared).family);
    base.is_none_or(|base| {
        matches!(base, TypeFamily::Text | TypeFamily::Binary | TypeFamily::Blob | TypeFamily::Enum | TypeFamily::Set | TypeFamily::Unknown)
    })
}
