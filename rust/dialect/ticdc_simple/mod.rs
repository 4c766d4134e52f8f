//! ticdc-simple: TiCDC's simple protocol. It has one message per change, in JSON or Avro (`encoding-format`).
//!
//! ```json
//! {"version":1,"database":"shop","table":"orders","tableID":148,"type":"UPDATE","commitTs":447984099186180098,
//!  "buildTs":1708923719184,"schemaVersion":447984074911121426,
//!  "data":{"id":"7","total":"12.50","paid_at":{"location":"Asia/Shanghai","value":"2024-02-26 13:01:59"}},
//!  "old":{"id":"7","total":"9.99","paid_at":null}}
//! ```
//!
//! A row change has the version of its table's schema, but no types. DDL messages have the types, and so do BOOTSTRAP
//! messages, which TiCDC repeats. The option `table_schemas` gives them to a decoder.

mod simple_avro;
mod table_schema;

use std::borrow::Cow;

use serde::Deserialize;

use super::json_members::{RowImage, nested, read_record, text};
use super::operations::{any_case, check_other, no_row, unknown_operation};
use super::{Caches, Dialect, Mark, Marks, Read, ReadContext, Wire};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, Source, ValueFormat};
use crate::interner::Quoting;
use crate::mysql::temporal::{micros_of_commit_ts, micros_of_epoch};
use crate::value::{Value, ZonedText};
use crate::wire::json::Cursor;
use crate::wire::json_de::{CowStr, RawNested, member_names};
use crate::wire::{records, utf8};
pub(crate) use simple_avro::is_message as is_avro;
use table_schema::TableSchema;
pub(crate) use table_schema::TableSchemas;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "TiCDC (simple protocol, in JSON or Avro)",
    wire: Wire::Json,
    description: "TiCDC's simple protocol, encoded in JSON or Avro",
    marks: Marks::MembersOrBytes(
        &[
            Mark::WordsAfter("version", "type", &OTHER_OPERATIONS),
            Mark::Name("tableID"),
            Mark::Name("commitTs"),
            Mark::Name("buildTs"),
            Mark::Name("schemaVersion"),
            Mark::Name("tableSchema"),
        ],
        is_avro,
    ),
    quirks: |_| &JSON,
    read: Read::Bytes(read),
    options: &["binary_handling_mode", "lenient", "table_schemas"],
    template: None,
};

pub(super) const NAME: &str = "ticdc-simple";

const ROW_OPERATIONS: [(&str, Op); 3] = [
    ("INSERT", Op::Insert),
    ("UPDATE", Op::Update),
    ("DELETE", Op::Delete),
];

/// Operations of messages without a table, in which `type` follows `version`.
const OTHER_OPERATIONS: [(&str, Op); 10] = [
    ("WATERMARK", Op::Watermark),
    ("BOOTSTRAP", Op::Other),
    ("CREATE", Op::Ddl),
    ("RENAME", Op::Ddl),
    ("CINDEX", Op::Ddl),
    ("DINDEX", Op::Ddl),
    ("ERASE", Op::Ddl),
    ("TRUNCATE", Op::Truncate),
    ("ALTER", Op::Ddl),
    ("QUERY", Op::Ddl),
];

static JSON: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Base64AndNumbers,
    quoting: Quoting::None,
};
static AVRO: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::BytesAndNumbers,
    quoting: Quoting::None,
};

/// A message of either encoding.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    /// Version of the protocol.
    version: Option<i64>,
    /// Database of a row change. A DDL has its table in `tableSchema`.
    database: Option<CowStr<'a>>,
    table: Option<CowStr<'a>>,
    /// Name of the operation.
    #[serde(rename = "type")]
    operation: Option<CowStr<'a>>,
    sql: Option<CowStr<'a>>,
    /// TiDB's commit time; 0 in BOOTSTRAP.
    #[serde(rename = "commitTs")]
    commit_ts: Option<i64>,
    /// Time when TiCDC encoded the message, in milliseconds.
    #[serde(rename = "buildTs")]
    build_ts: Option<i64>,
    /// Version of the table's schema with which TiCDC encoded the row.
    #[serde(rename = "schemaVersion")]
    schema_version: Option<i64>,
    #[serde(rename = "claimCheckLocation")]
    claim_check: Option<CowStr<'a>>,
    #[serde(rename = "handleKeyOnly")]
    handle_key_only: Option<bool>,
    checksum: Option<Checksum>,
    /// The row after the change.
    #[serde(default)]
    data: RowImage,
    /// The row before the change.
    #[serde(default)]
    old: RowImage,
    /// The table of a BOOTSTRAP, or the table after a DDL.
    #[serde(rename = "tableSchema")]
    table_schema: Option<RawNested<'a>>,
}

/// TiCDC's check of a row against the checksum that TiDB stored with it.
#[derive(Deserialize)]
struct Checksum {
    /// True if TiCDC found that the row differs from the row that TiDB stored.
    corrupted: Option<bool>,
}

fn read<'a>(
    bytes: &'a [u8],
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
    _: &mut Caches<'a>,
) -> Result<()> {
    if is_avro(bytes) {
        return simple_avro::read(bytes, events)?.emit(&AVRO, reading, events);
    }
    let mut cursor = Cursor::new(
        utf8::text(bytes, "the message is not UTF-8")?,
        reading.lenient,
    );
    records::records(&mut cursor, |cursor| {
        let record = cursor.clone();
        let message = read_record::<Message<'a>>(cursor, events)?;
        for cells in [&message.data.0, &message.old.0].into_iter().flatten() {
            read_timestamps(cells.clone(), events);
        }
        message.emit(&JSON, reading, events)?;
        check_other(&record, member_names::<Message<'static>>, events)
            .map_err(|fault| fault.within("type"))
    })
}

/// Replaces the objects of requested TIMESTAMP columns. No other value is an object.
#[allow(clippy::indexing_slicing, reason = "the range is of these cells")]
fn read_timestamps(cells: Cells, events: &mut Events<'_>) {
    for (key, value) in &mut events.cells[cells] {
        if let (Value::Nested(object), Some(_)) = (*value, events.keys.column(*key))
            && let Ok(Timestamp {
                location,
                value: text,
            }) = serde_json::from_str(object)
        {
            *value = timestamp(
                events.arena.alloc_str(&text),
                events.arena.alloc_str(&location),
                events.arena,
            );
        }
    }
}

/// A TIMESTAMP, in the time zone of the changefeed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Timestamp<'a> {
    #[serde(borrow)]
    location: Cow<'a, str>,
    #[serde(borrow)]
    value: Cow<'a, str>,
}

fn timestamp<'a>(text: &'a str, zone: &'a str, arena: &'a bumpalo::Bump) -> Value<'a> {
    match zone {
        // Go's name of a server's own time zone, which the message does not give.
        "Local" | "" => Value::Text(text),
        zone => Value::Zoned(arena.alloc(ZonedText { text, zone })),
    }
}

impl<'a> Message<'a> {
    fn emit(
        self,
        quirks: &'static Quirks,
        reading: &ReadContext<'_, 'a>,
        events: &mut Events<'a>,
    ) -> Result<()> {
        self.check()?;
        let op = self.op()?;
        let (before, after) = self.images(op)?;
        let envelope = self.envelope(op, quirks, reading, events)?;
        let envelope = events.envelope(envelope)?;
        events.row(op, envelope, before, after);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if let Some(version) = self.version.filter(|version| *version != 1) {
            return Err(
                Fault::new(Kind::Envelope, format!("is {version}, not 1")).within("version")
            );
        }
        match &self.checksum {
            Some(Checksum {
                corrupted: Some(true),
            }) => Err(
                Fault::new(Kind::Envelope, "mismatch: TiCDC's row differs from TiDB's")
                    .within("checksum"),
            ),
            _ => Ok(()),
        }
    }

    fn op(&self) -> Result<Op> {
        let Some(CowStr(word)) = &self.operation else {
            return Err(Fault::new(Kind::Envelope, "is missing").within("type"));
        };
        match any_case(word, &ROW_OPERATIONS).or_else(|| any_case(word, &OTHER_OPERATIONS)) {
            Some(op) => Ok(op),
            None if self.data.0.is_some() || self.old.0.is_some() => {
                Err(unknown_operation(self.operation.as_ref()).within("type"))
            }
            None => Ok(match &self.sql {
                Some(sql) => Op::of_statement(&sql.0),
                None => Op::Other,
            }),
        }
    }

    /// Returns the images, which are whole. With `handleKeyOnly`, they have only the columns of the key.
    fn images(&self, op: Op) -> Result<(Option<Image>, Option<Image>)> {
        let data = self.data.0.clone().map(Image::whole);
        let old = self.old.0.clone().map(Image::whole);
        match op {
            Op::Insert | Op::Update if data.is_none() => Err(no_row(op).within("data")),
            Op::Insert => Ok((None, data)),
            Op::Update => Ok((old, data)),
            Op::Delete if old.is_none() => Err(no_row(op).within("old")),
            Op::Delete => Ok((old, None)),
            _ => Ok((None, None)),
        }
    }

    fn envelope(
        self,
        op: Op,
        quirks: &'static Quirks,
        reading: &ReadContext<'_, 'a>,
        events: &mut Events<'a>,
    ) -> Result<Envelope<'a>> {
        let mut envelope = Envelope {
            database: text(self.database),
            table: text(self.table),
            ..Envelope::empty(quirks)
        };
        if let Some(RawNested(described)) = &self.table_schema {
            let schema =
                TableSchema::parse(described).map_err(|fault| fault.within("tableSchema"))?;
            schema.declare(&mut envelope, events);
            let [database, table] = schema
                .names()
                .map(|name| name.map(|name| Cow::Owned(name.to_owned())));
            (envelope.database, envelope.table) =
                (envelope.database.or(database), envelope.table.or(table));
        } else if let (true, Some(version)) = (op.is_row_change(), self.schema_version) {
            let known = reading
                .options
                .table_schemas
                .find(&envelope, version)
                .map_err(|fault| fault.within("schemaVersion"))?;
            if let Some(schema) = known {
                schema.declare(&mut envelope, events);
                [self.data.0, self.old.0]
                    .into_iter()
                    .flatten()
                    .for_each(|cells| schema.restore_masks(cells, events));
            }
        }
        let commit_ts = self.commit_ts.filter(|ts| *ts != 0);
        let is_watermark = op == Op::Watermark;
        Ok(Envelope {
            sql: text(self.sql),
            table_changes: nested(self.table_schema),
            handle_key_only: self.handle_key_only,
            claim_check: text(self.claim_check),
            source: Source {
                operation: text(self.operation),
                event_time: commit_ts.and_then(micros_of_commit_ts),
                produced_time: self.build_ts.and_then(micros_of_epoch),
                commit_ts: if is_watermark { None } else { commit_ts },
                watermark_ts: if is_watermark { commit_ts } else { None },
                ..Source::default()
            },
            ..envelope
        })
    }
}
