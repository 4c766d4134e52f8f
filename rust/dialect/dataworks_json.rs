//! dataworks-json: messages that Aliyun DataWorks' Data Integration writes to Kafka when it synchronizes a whole
//! database.
//!
//! ```json
//! {"schema":{"dataColumn":[{"name":"id","type":"LONG"},{"name":"total","type":"DOUBLE"},{"name":"paid_at","type":"DATE"}],
//!   "primaryKey":["id"],"source":{"dbType":"MySQL","dbName":"shop","tableName":"orders"}},
//!  "payload":{"before":{"dataColumn":{"id":7,"total":"9.99","paid_at":null}},
//!   "after":{"dataColumn":{"id":7,"total":"12.50","paid_at":1714979289000}},"sequenceId":"1731663842292000001",
//!   "timestamp":{"eventTime":1714979289000,"systemTime":1714979290123,"checkpointTime":1714979289000},
//!   "op":"UPDATE_AFTER","ddl":null},
//!  "version":"0.0.1"}
//! ```
//!
//! An update is one message with both images, or two messages with one image each (`UPDATE_BEFOR`, `UPDATE_AFTER`).

use bumpalo::Bump;
use serde::Deserialize;

use super::canal_json::OTHER_EVENTS;
use super::json_members::{FilledImage, Names, filled_text, read_record, text};
use super::operations::{any_case, no_row, unknown_operation};
use super::{Dialect, JSON_OPTIONS, Mark, Marks, Read, ReadContext, Wire};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, Source, ValueFormat};
use crate::interner::Quoting;
use crate::mysql::temporal::{in_calendar, micros_of_epoch};
use crate::mysql::types::{DeclaredType, TypeFamily};
use crate::value::{Unread, Value};
use crate::wire::json::Cursor;
use crate::wire::json_de::CowStr;
use crate::wire::records;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "Aliyun DataWorks (Data Integration to Kafka)",
    wire: Wire::Json,
    description: "Aliyun DataWorks' messages of the synchronization of a database to Kafka",
    marks: Marks::Members(&[
        Mark::First("schema", "dataColumn"),
        Mark::Holds("payload", &["sequenceId", "timestamp", "op"]),
    ]),
    quirks: |_| &DATAWORKS,
    read: Read::Text(read),
    options: JSON_OPTIONS,
    template: None,
};

const NAME: &str = "dataworks-json";

static DATAWORKS: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Base64,
    quoting: Quoting::None,
};

/// Operations besides canal's. The documentation writes `BEFOR`, without the last letter.
const OPERATIONS: [(&str, Op); 7] = [
    ("INSERT", Op::Insert),
    ("DELETE", Op::Delete),
    ("UPDATE_BEFOR", Op::Update),
    ("UPDATE_BEFORE", Op::Update),
    ("UPDATE_AFTER", Op::Update),
    ("TRANSACTION_BEGIN", Op::Begin),
    ("TRANSACTION_END", Op::Commit),
];

/// A message.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    schema: Option<Schema<'a>>,
    payload: Payload<'a>,
}

/// The message's description of its table.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Schema<'a> {
    #[serde(rename = "dataColumn")]
    columns: Option<Vec<Column<'a>>>,
    #[serde(default, rename = "primaryKey")]
    primary_key: Names,
    source: Option<Table<'a>>,
}

/// A column with one of DataX's types.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Column<'a> {
    name: CowStr<'a>,
    #[serde(rename = "type")]
    data_type: Option<CowStr<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Table<'a> {
    #[serde(rename = "dbType")]
    connector: Option<CowStr<'a>>,
    #[serde(rename = "dbVersion")]
    version: Option<CowStr<'a>>,
    #[serde(rename = "dbName")]
    database: Option<CowStr<'a>>,
    #[serde(rename = "schemaName")]
    schema: Option<CowStr<'a>>,
    #[serde(rename = "tableName")]
    table: Option<CowStr<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    before: Option<Row>,
    after: Option<Row>,
    /// Digits that order the changes of a table; -1 for rows that existed before the synchronization.
    #[serde(rename = "sequenceId")]
    sequence: Option<CowStr<'a>>,
    timestamp: Option<Times>,
    #[serde(rename = "op")]
    operation: Option<CowStr<'a>>,
    ddl: Option<Ddl<'a>>,
}

#[derive(Deserialize)]
struct Row {
    #[serde(default, rename = "dataColumn")]
    cells: FilledImage,
}

/// Times in milliseconds; -1 if unknown.
#[derive(Default, Deserialize)]
struct Times {
    /// Time when the source executed the change.
    #[serde(rename = "eventTime")]
    event: Option<i64>,
    /// Time when DataWorks handled the change.
    #[serde(rename = "systemTime")]
    system: Option<i64>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Ddl<'a> {
    text: Option<CowStr<'a>>,
}

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        read_record::<Message<'a>>(cursor, events)?.emit(reading, events)
    })
}

impl<'a> Message<'a> {
    fn emit(self, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
        let op = self.payload.op().map_err(|fault| fault.within("payload"))?;
        let cells = [self.payload.before(), self.payload.after()];
        let mut types = None;
        if let Some(schema) = &self.schema
            && let Some(columns) = &schema.columns
            && (events.needs.types || events.needs.images)
        {
            let declared = declare(columns, events);
            for cells in cells.iter().flatten() {
                read_dates(cells.clone(), declared, events);
            }
            types = Some(declared);
        }
        let (before, after) = images(op, cells)?;
        let envelope = Envelope {
            types,
            ..self.envelope(reading)
        };
        let envelope = events.envelope(envelope)?;
        events.row(op, envelope, before, after);
        Ok(())
    }

    fn envelope(self, reading: &ReadContext<'_, 'a>) -> Envelope<'a> {
        let (primary_key, table) = self
            .schema
            .map(|schema| (schema.primary_key.0, schema.source))
            .unwrap_or_default();
        let table = table.unwrap_or_default();
        let times = self.payload.timestamp.unwrap_or_default();
        Envelope {
            database: filled_text(table.database),
            schema: filled_text(table.schema),
            table: filled_text(table.table),
            primary_key,
            sql: self.payload.ddl.and_then(|ddl| text(ddl.text)),
            connector: text(table.connector),
            version: text(table.version),
            source: Source {
                operation: text(self.payload.operation),
                event_time: times
                    .event
                    .filter(|time| *time > 0)
                    .and_then(micros_of_epoch),
                produced_time: times
                    .system
                    .filter(|time| *time > 0)
                    .and_then(micros_of_epoch),
                message_id: self
                    .payload
                    .sequence
                    .and_then(|CowStr(digits)| digits.parse().ok())
                    .filter(|id| *id >= 0),
                ..Source::default()
            },
            ..Envelope::empty(reading.quirks)
        }
    }
}

impl Payload<'_> {
    fn op(&self) -> Result<Op> {
        let Some(CowStr(word)) = &self.operation else {
            return Err(Fault::new(Kind::Envelope, "is missing").within("op"));
        };
        let op = any_case(word, &OPERATIONS).or_else(|| any_case(word, OTHER_EVENTS));
        match op {
            Some(op) => Ok(op),
            None if self.before().is_some() || self.after().is_some() => {
                Err(unknown_operation(self.operation.as_ref()).within("op"))
            }
            None => Ok(Op::Other),
        }
    }

    fn before(&self) -> Option<Cells> {
        self.before.as_ref().and_then(|row| row.cells.0.clone())
    }

    fn after(&self) -> Option<Cells> {
        self.after.as_ref().and_then(|row| row.cells.0.clone())
    }
}

/// Returns the images of a change. An update may have only one, if the other one is a separate message.
fn images(op: Op, [before, after]: [Option<Cells>; 2]) -> Result<(Option<Image>, Option<Image>)> {
    let (before, after) = (before.map(Image::whole), after.map(Image::whole));
    match (op, before, after) {
        (Op::Insert, _, None) | (Op::Update, None, None) => {
            Err(no_row(op).within("after").within("payload"))
        }
        (Op::Insert, _, after) => Ok((None, after)),
        (Op::Delete, None, _) => Err(no_row(op).within("before").within("payload")),
        (Op::Delete, before, _) => Ok((before, None)),
        (Op::Update, before, after) => Ok((before, after)),
        _ => Ok((None, None)),
    }
}

/// Declares the types of the columns. Returns the index of their block.
fn declare(columns: &[Column<'_>], events: &mut Events<'_>) -> usize {
    events.types.start();
    let mut last = 0;
    for Column {
        name: CowStr(name),
        data_type,
    } in columns
    {
        let key = events.keys.intern_plain(name);
        last = key.index();
        let spelling = data_type.as_ref().map_or("", |CowStr(name)| name);
        events
            .types
            .declare_as((key, events.keys.column(key)), NAME, spelling, || {
                declared(spelling)
            });
    }
    events.types.finish(&[], last)
}

/// Returns MySQL's type for a DataX type. DOUBLE also holds decimals with all their digits, so it becomes a decimal of
/// unknown length.
fn declared(spelling: &str) -> DeclaredType {
    let mysql = match spelling {
        "BOOLEAN" => "bit(1)",
        "LONG" => "bigint",
        "DOUBLE" => "decimal",
        "DATE" => "timestamp",
        "BYTES" => "blob",
        "STRING" => "text",
        other => other,
    };
    DeclaredType {
        text: spelling.into(),
        ..DeclaredType::parse(mysql)
    }
}

/// Returns the instant for milliseconds. Java's dates include years that a column cannot store.
fn instant<'a>(millis: i64, digits: &'a str, arena: &'a Bump) -> Value<'a> {
    if in_calendar(millis.div_euclid(1000)).is_ok() {
        return Value::Timestamp(millis * 1000);
    }
    let why = arena.alloc_str(&format!(
        "{digits} milliseconds do not fit into the years 1 to 9999"
    ));
    Value::Unread(arena.alloc(Unread {
        kind: Kind::Range,
        why,
        bytes: digits.as_bytes(),
    }))
}

/// Replaces the milliseconds of requested DATE columns by instants.
#[allow(clippy::indexing_slicing, reason = "the range is of these cells")]
fn read_dates(cells: Cells, types: usize, events: &mut Events<'_>) {
    for (key, value) in &mut events.cells[cells] {
        let Value::Number(digits) = *value else {
            continue;
        };
        let declared = events
            .keys
            .column(*key)
            .and_then(|column| events.types.of_column(types, column));
        if declared.is_some_and(|declared| declared.family == TypeFamily::Timestamp)
            && let Ok(millis) = digits.parse::<i64>()
        {
            *value = instant(millis, digits, events.arena);
        }
    }
}
