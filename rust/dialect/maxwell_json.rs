//! maxwell-json: Maxwell's daemon, and TiCDC's maxwell protocol. One message for each row.
//!
//! ```json
//! {"database":"shop","table":"orders","type":"update","ts":1795228957,"xid":3960,"commit":true,
//!  "position":"mysql-bin.000001:46351","server_id":12,"data":{"id":1,"total":12.50},"old":{"total":9.00},
//!  "primary_key_columns":["id"]}
//! ```
//!
//! Values are native JSON: numbers with all their digits, sets as arrays, JSON columns as JSON, binary as base64. Only
//! a DDL declares the columns' types, so the requested types decide. TiCDC writes the row of a DELETE in `old`.

use std::borrow::Cow;

use serde::Deserialize;

use super::json_members::{Names, RowImage, nested, read_record, set_place, text};
use super::operations::{any_case, check_other, no_row, unknown_operation};
use super::{Dialect, JSON_OPTIONS, Mark, Marks, Read, ReadContext, Wire};
use crate::dialect::spec::{Before, Place, Placeholder, TemplateSpec};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, Source, ValueFormat};
use crate::interner::Quoting;
use crate::mysql::temporal::{micros_of_commit_ts, micros_of_epoch};
use crate::value::Value;
use crate::wire::json::Cursor;
use crate::wire::json_de::{CowStr, RawNested, is_there, member_names};
use crate::wire::records;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "Maxwell, TiCDC (maxwell protocol)",
    wire: Wire::Json,
    description: "Maxwell's message of one row, and TiCDC's maxwell protocol",
    marks: Marks::Members(&[
        Mark::Name("xid"),
        Mark::Name("commit"),
        Mark::Name("xoffset"),
        Mark::Begins("position", b'"'),
        Mark::Name("primary_key_columns"),
        Mark::Words("type", &OPERATIONS),
    ]),
    quirks: |_| &MAXWELL,
    read: Read::Text(read),
    options: JSON_OPTIONS,
    template: Some(&TEMPLATE),
};

const NAME: &str = "maxwell-json";

static MAXWELL: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Base64AndJson,
    quoting: Quoting::None,
};
/// TiCDC writes JSON columns as text.
static TIDB: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Base64,
    quoting: Quoting::None,
};

static TEMPLATE: TemplateSpec = TemplateSpec {
    members: member_names::<Message<'static>>,
    placeholders: || {
        &[
            ("type", Placeholder::Operation),
            (
                "ts",
                Placeholder::Integer(|source, number| source.event_time = micros_of_time(number)),
            ),
            (
                "xid",
                Placeholder::Digits(|source, number| {
                    source.transaction_id = Some(Cow::Borrowed(number))
                }),
            ),
            ("commit", Placeholder::Any),
            ("gtid", Placeholder::Text(gtid)),
            ("position", Placeholder::Text(place)),
            ("data", Placeholder::After),
            ("old", Placeholder::Before),
        ]
    },
    wrapper: None,
    table: Place::Head(160),
    op: row_op,
    ends_with_op: false,
    before: Before::Changes,
    has_deletes_in_data: true,
    has_arrays: false,
    empty_is_null: false,
    key_names: None,
    flat: None,
    lacks_values: None,
};

fn gtid<'a>(source: &mut Source<'a>, gtid: &'a str) -> bool {
    source.gtid = Some(Cow::Borrowed(gtid));
    true
}

fn place<'a>(source: &mut Source<'a>, text: &'a str) -> bool {
    let Some((file, offset)) = file_and_offset(text) else {
        return false;
    };
    (source.file, source.position) = (Some(Cow::Borrowed(file)), offset);
    true
}

/// Splits `file:offset`. Text in another form (a GTID set) is not a place.
fn file_and_offset(text: &str) -> Option<(&str, Option<i64>)> {
    let (file, offset) = text.split_at_checked(memchr::memrchr(b':', text.as_bytes())?)?;
    let offset = offset.get(1..)?;
    // A number may have a sign, an offset may not.
    if !offset.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    Some((file, Some(offset.parse().ok()?)))
}

fn row_op(word: &str) -> Option<Op> {
    any_case(word, &OPERATIONS).filter(|op| matches!(op, Op::Insert | Op::Update | Op::Delete))
}

const OPERATIONS: [(&str, Op); 13] = [
    ("insert", Op::Insert),
    ("update", Op::Update),
    ("delete", Op::Delete),
    ("bootstrap-insert", Op::Snapshot),
    ("bootstrap-start", Op::Other),
    ("bootstrap-complete", Op::Other),
    ("heartbeat", Op::Heartbeat),
    ("table-create", Op::Ddl),
    ("table-alter", Op::Ddl),
    ("table-drop", Op::Ddl),
    ("database-create", Op::Ddl),
    ("database-alter", Op::Ddl),
    ("database-drop", Op::Ddl),
];

/// A message.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    database: Option<CowStr<'a>>,
    table: Option<CowStr<'a>>,
    /// Name of the operation.
    #[serde(rename = "type")]
    operation: Option<CowStr<'a>>,
    /// Time of a row in seconds, of a DDL in milliseconds. TiCDC's DDL has its commit timestamp.
    ts: Option<i64>,
    /// The transaction.
    xid: Option<i64>,
    /// Present in the last row of a transaction.
    #[serde(default, rename = "commit", deserialize_with = "is_there")]
    has_commit: bool,
    gtid: Option<CowStr<'a>>,
    /// `file:offset`.
    position: Option<CowStr<'a>>,
    server_id: Option<i64>,
    /// `serverId` and `primaryKeyColumns` are the names with `output_naming_strategy=underscore_to_camelcase`.
    #[serde(rename = "serverId")]
    camel_server_id: Option<i64>,
    #[serde(default)]
    primary_key_columns: Names,
    #[serde(default, rename = "primaryKeyColumns")]
    camel_primary_key_columns: Names,
    /// Present in a row of the dead letter topic, which has only its key columns.
    #[serde(default, rename = "reason", deserialize_with = "is_there")]
    has_reason: bool,
    /// The row after the change. A DELETE has its deleted row here.
    #[serde(default)]
    data: RowImage,
    /// Columns that an update changed, with their earlier values; TiCDC's DELETE has the deleted row, a DDL the table
    /// before it.
    #[serde(default)]
    old: RowImage,
    /// The statement of a DDL.
    sql: Option<CowStr<'a>>,
    /// The table after a DDL.
    def: Option<RawNested<'a>>,
}

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        let record = cursor.clone();
        read_record::<Message<'a>>(cursor, events)?.emit(reading, events)?;
        check_other(&record, member_names::<Message<'static>>, events)
            .map_err(|fault| fault.within("type"))
    })
}

impl<'a> Message<'a> {
    fn emit(mut self, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
        let op = self.op()?;
        // The strategy renames members, and so columns, but not the names in this array.
        self.camel_primary_key_columns.0 = self
            .camel_primary_key_columns
            .0
            .map(|names| events.renamed(names, camel_case));
        let (before, mut after) = if op.is_row_change() {
            self.images(op)?
        } else {
            (None, None)
        };
        if let (Some(before), Some(after)) = (&before, &mut after) {
            add_nulls(&mut after.base, &before.own, events);
        }
        let envelope = events.envelope(self.envelope(reading))?;
        events.row(op, envelope, before, after);
        Ok(())
    }

    fn envelope(self, reading: &ReadContext<'_, 'a>) -> Envelope<'a> {
        let mut envelope = Envelope {
            database: text(self.database),
            table: text(self.table),
            primary_key: self
                .primary_key_columns
                .0
                .or(self.camel_primary_key_columns.0),
            sql: text(self.sql),
            table_changes: nested(self.def),
            server_id: self.server_id.or(self.camel_server_id),
            handle_key_only: self.has_reason.then_some(true),
            source: Source {
                operation: text(self.operation),
                event_time: self.ts.and_then(micros_of_time),
                gtid: text(self.gtid),
                transaction_id: self.xid.map(|xid| Cow::Owned(xid.to_string())),
                ..Source::default()
            },
            ..Envelope::empty(reading.quirks)
        };
        set_place(&mut envelope.source, self.position, file_and_offset);
        if !self.has_commit && is_tidb(&envelope) {
            envelope.quirks = &TIDB;
        }
        envelope
    }

    fn op(&self) -> Result<Op> {
        let Some(CowStr(kind)) = &self.operation else {
            return Err(Fault::new(Kind::Envelope, "is missing").within("type"));
        };
        match (any_case(kind, &OPERATIONS), &self.sql) {
            (Some(Op::Ddl) | None, Some(sql)) => Ok(Op::of_statement(&sql.0)),
            (Some(op), _) => Ok(op),
            (None, None) if kind.starts_with("table-") || kind.starts_with("database-") => {
                Ok(Op::Ddl)
            }
            (None, None) if self.data.0.is_some() || self.old.0.is_some() => {
                Err(unknown_operation(self.operation.as_ref()).within("type"))
            }
            (None, None) => Ok(Op::Other),
        }
    }

    fn images(&self, op: Op) -> Result<(Option<Image>, Option<Image>)> {
        let after = self.data.0.clone().map(Image::whole);
        match (op, &self.data.0, &self.old.0) {
            (Op::Delete, Some(_), _) => Ok((after, None)),
            (Op::Delete, None, Some(old)) => Ok((Some(Image::whole(old.clone())), None)),
            (Op::Update, Some(data), Some(old)) => {
                Ok((Some(Image::merged(data.clone(), old.clone())), after))
            }
            (_, Some(_), _) => Ok((None, after)),
            _ => Err(no_row(op).within("data")),
        }
    }
}

/// Adds the columns that an update changed to null. With `output_nulls` off, the daemon omits them: only `old` has
/// them.
fn add_nulls(data: &mut Cells, old: &Cells, events: &mut Events<'_>) {
    let nulls = events.lacking(data, old);
    if nulls.is_empty() {
        return;
    }
    let start = events.cells.len();
    events.cells.extend_from_within(data.clone());
    events
        .cells
        .extend(nulls.into_iter().map(|key| (key, Value::Null)));
    *data = start..events.cells.len();
}

/// Converts a name like `output_naming_strategy=underscore_to_camelcase`.
fn camel_case(name: &str) -> String {
    let mut changed = String::with_capacity(name.len());
    let mut rest = name.chars();
    while let Some(c) = rest.next() {
        match c {
            '_' if changed.is_empty() => {}
            '_' => changed.extend(rest.next().into_iter().flat_map(char::to_uppercase)),
            _ => changed.push(c),
        }
    }
    if changed.is_empty() {
        name.to_owned()
    } else {
        changed
    }
}

/// Returns the time of a message. TiCDC writes it as a commit timestamp, which is greater than all of Maxwell's times.
fn micros_of_time(ts: i64) -> Option<i64> {
    const LEAST_COMMIT_TS: i64 = 100_000_000_000_000_000;
    if ts >= LEAST_COMMIT_TS {
        micros_of_commit_ts(ts)
    } else {
        micros_of_epoch(ts)
    }
}

/// Returns whether TiCDC wrote the message. It lacks MySQL's log position and transaction, of which the daemon writes
/// at least one in each row.
fn is_tidb(envelope: &Envelope<'_>) -> bool {
    let source = &envelope.source;
    let is_bootstrap = source
        .operation
        .as_deref()
        .is_some_and(|kind| kind.starts_with("bootstrap"));
    let has_place =
        source.transaction_id.is_some() || source.file.is_some() || source.gtid.is_some();
    !(is_bootstrap || has_place || envelope.server_id.is_some() || envelope.primary_key.is_some())
}
