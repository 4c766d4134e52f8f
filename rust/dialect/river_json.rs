//! river-json: KafkaRiverCanal. Each message has one row and lists every column with its name, type and value.
//!
//! ```json
//! {"binlog":"25521@mysql-bin.000070","time":1450236307000,"canalTime":1450236308279,"db":"shop","table":"orders","event":"u",
//!  "columns":[{"n":"id","t":"bigint(20)","v":"1","null":false,"updated":false},
//!   {"n":"total","t":"decimal(10,2)","v":"12.50","origin_val":"9.00","null":false,"updated":true}],"keys":["id"]}
//! ```
//!
//! Gson omits members that are null, unless it is configured to write them. `null` says whether `v` is null. Nothing
//! says whether `origin_val` was NULL: if the producer writes nulls as empty text, an empty `origin_val` is delivered
//! as empty text.

use std::borrow::Cow;

use serde::Deserialize;

use super::json_members::{Names, read_record, set_place, text};
use super::operations::{any_case, check_other, unknown_operation};
use super::{Dialect, JSON_OPTIONS, Mark, Marks, Read, ReadContext, Wire};
use crate::dialect::spec::{Before, Place, Placeholder, TemplateSpec};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, Source, ValueFormat};
use crate::interner::{NameId, Quoting};
use crate::mysql::temporal::micros_of_epoch;
use crate::mysql::types::{DeclaredType, TypeFamily};
use crate::value::Value;
use crate::wire::json::Cursor;
use crate::wire::json_de::{CowStr, RawValue, member_names};
use crate::wire::records;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "KafkaRiverCanal",
    wire: Wire::Json,
    description: "KafkaRiverCanal's message of one row with its columns side by side",
    marks: Marks::Members(&[
        Mark::Name("binlog"),
        Mark::Name("canalTime"),
        Mark::Begins("columns", b'['),
        Mark::Begins("event", b'"'),
    ]),
    quirks: |_| &RIVER,
    read: Read::Text(read),
    options: JSON_OPTIONS,
    template: Some(&TEMPLATE),
};

const NAME: &str = "river-json";

static RIVER: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: true,
    format: ValueFormat::TextAndLabels,
    quoting: Quoting::None,
};

static TEMPLATE: TemplateSpec = TemplateSpec {
    members: member_names::<Message<'static>>,
    placeholders: || {
        &[
            ("columns", Placeholder::Columns(may_be_empty)),
            ("event", Placeholder::Operation),
            (
                "time",
                Placeholder::Integer(|source, number| source.event_time = micros_of_epoch(number)),
            ),
            (
                "canalTime",
                Placeholder::Integer(|source, number| {
                    source.produced_time = micros_of_epoch(number)
                }),
            ),
            (
                "binlog",
                Placeholder::Text(|source, text| {
                    set_place(source, Some(CowStr(Cow::Borrowed(text))), file_and_offset);
                    true
                }),
            ),
        ]
    },
    wrapper: None,
    table: Place::Head(256),
    op: row_op,
    ends_with_op: false,
    before: Before::Row,
    has_deletes_in_data: false,
    has_arrays: false,
    empty_is_null: false,
    key_names: None,
    flat: None,
    lacks_values: None,
};

fn row_op(word: &str) -> Option<Op> {
    any_case(
        word,
        &[("i", Op::Insert), ("u", Op::Update), ("d", Op::Delete)],
    )
}

/// Splits `offset@file`. Text in another form is not a place.
fn file_and_offset(text: &str) -> Option<(&str, Option<i64>)> {
    text.split_once('@')
        .map(|(offset, file)| (file, offset.parse().ok()))
}

/// A message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    /// `offset@file`.
    binlog: Option<CowStr<'a>>,
    /// Time of the binlog entry: milliseconds.
    time: Option<i64>,
    /// Time when the entry was read: milliseconds.
    canal_time: Option<i64>,
    db: Option<CowStr<'a>>,
    table: Option<CowStr<'a>>,
    /// `i`, `u` or `d`.
    event: Option<CowStr<'a>>,
    #[serde(default)]
    columns: Vec<Column<'a>>,
    #[serde(default)]
    keys: Names,
}

/// An element of `columns`.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Column<'a> {
    #[serde(rename = "n")]
    name: CowStr<'a>,
    #[serde(rename = "t")]
    declared: Option<CowStr<'a>>,
    /// Value after an insert or update; a DELETE has the deleted value.
    #[serde(default, rename = "v")]
    value: RawValue<'a>,
    #[serde(rename = "null")]
    is_null: Option<bool>,
    updated: Option<bool>,
    /// Value before an update, if the update changed the column.
    #[serde(default, rename = "origin_val")]
    origin: RawValue<'a>,
}

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        let record = cursor.clone();
        read_record::<Message<'a>>(cursor, events)?.emit(reading, events)?;
        check_other(&record, member_names::<Message<'static>>, events)
            .map_err(|fault| fault.within("event"))
    })
}

impl<'a> Message<'a> {
    fn emit(self, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
        let op = match &self.event {
            Some(CowStr(word)) => row_op(word).unwrap_or(Op::Other),
            None => return Err(Fault::new(Kind::Envelope, "is missing").within("event")),
        };
        match (op, self.columns.is_empty()) {
            (Op::Other, false) => {
                return Err(unknown_operation(self.event.as_ref()).within("event"));
            }
            (Op::Other, true) | (_, false) => {}
            (_, true) => {
                return Err(
                    Fault::new(Kind::Envelope, format!("{} without a column", op.name()))
                        .within("columns"),
                );
            }
        }
        let (types, values, origins) = self.cells(op, events);
        let (before, after) = match op {
            Op::Insert => (None, Some(Image::whole(values))),
            Op::Update => (Some(Image::whole(origins)), Some(Image::whole(values))),
            Op::Delete => (Some(Image::whole(values)), None),
            _ => (None, None),
        };
        let envelope = events.envelope(self.envelope(types, reading))?;
        events.row(op, envelope, before, after);
        Ok(())
    }

    fn envelope(self, types: Option<usize>, reading: &ReadContext<'_, 'a>) -> Envelope<'a> {
        let mut envelope = Envelope {
            database: text(self.db),
            table: text(self.table),
            primary_key: self.keys.0,
            types,
            source: Source {
                operation: text(self.event),
                event_time: self.time.and_then(micros_of_epoch),
                produced_time: self.canal_time.and_then(micros_of_epoch),
                ..Source::default()
            },
            ..Envelope::empty(reading.quirks)
        };
        set_place(&mut envelope.source, self.binlog, file_and_offset);
        envelope
    }

    /// Returns the declared types, if they are requested, the cells of `v`, and an update's cells before the change.
    fn cells(&self, op: Op, events: &mut Events<'a>) -> (Option<usize>, Cells, Cells) {
        let mut key = NameId::START;
        let mut keys = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            key = events.keys.plain(&column.name.0, key);
            keys.push(key);
        }
        let types = if events.needs.types {
            Some(self.declare(&keys, events))
        } else {
            None
        };
        let start = events.cells.len();
        self.push(&keys, events, Column::after);
        let middle = events.cells.len();
        if op == Op::Update {
            self.push(&keys, events, Column::before);
        }
        (types, start..middle, middle..events.cells.len())
    }

    fn push(&self, keys: &[NameId], events: &mut Events<'a>, value: fn(&Column<'a>) -> Value<'a>) {
        for (key, column) in keys.iter().zip(&self.columns) {
            if events.wants_cell(*key) {
                events.cells.push((*key, value(column)));
            }
        }
    }

    fn declare(&self, keys: &[NameId], events: &mut Events<'a>) -> usize {
        events.types.start();
        for (key, column) in keys.iter().zip(&self.columns) {
            if let Some(CowStr(declared)) = &column.declared {
                events
                    .types
                    .declare(*key, events.keys.column(*key), declared);
            }
        }
        let hint = keys.last().map_or(0, |key| key.index());
        events.types.finish(&[], hint)
    }
}

impl<'a> Column<'a> {
    fn after(&self) -> Value<'a> {
        if self.is_null.unwrap_or(false) {
            Value::Null
        } else {
            self.value.0
        }
    }

    /// Returns the value before an update.
    fn before(&self) -> Value<'a> {
        let RawValue(origin) = self.origin;
        let is_empty = (!origin.is_null()).then(|| origin == Value::Text(""));
        match OldValue::of(is_empty, self.updated.unwrap_or(false), || {
            may_be_empty(self.declared.as_ref().map(|declared| &*declared.0))
        }) {
            OldValue::Unchanged => self.after(),
            OldValue::Origin => origin,
            OldValue::Null => Value::Null,
        }
    }
}

/// Source of a column's value before an update.
#[derive(Clone, Copy)]
pub(crate) enum OldValue {
    /// The current value: the message says that the update did not change it.
    Unchanged,
    Null,
    /// The value of `origin_val`.
    Origin,
}

impl OldValue {
    /// Returns the source. `is_empty` tells whether `origin_val` is empty text, if it exists.
    #[inline]
    pub fn of(is_empty: Option<bool>, updated: bool, may_be_empty: impl FnOnce() -> bool) -> Self {
        match is_empty {
            Some(false) => OldValue::Origin,
            _ if !updated => OldValue::Unchanged,
            Some(true) if may_be_empty() => OldValue::Origin,
            _ => OldValue::Null,
        }
    }
}

/// Returns whether empty text is a value of a declared type. Otherwise it is another way to write NULL.
fn may_be_empty(declared: Option<&str>) -> bool {
    let base = declared.map(|declared| DeclaredType::parse(declared).family);
    base.is_none_or(|base| {
        matches!(
            base,
            TypeFamily::Text
                | TypeFamily::Binary
                | TypeFamily::Blob
                | TypeFamily::Enum
                | TypeFamily::Set
                | TypeFamily::Unknown
        )
    })
}
