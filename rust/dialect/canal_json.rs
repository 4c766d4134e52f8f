//! canal-json: the FlatMessage of Alibaba canal, and the messages of other producers with the same envelope.
//!
//! Alibaba canal sorts the keys, so `data` comes before `type` and `table`:
//!
//! ```json
//! {"data":[{"id":"1","total":"12.50"}],"database":"shop","es":1795228001000,"gtid":"","id":7,"isDdl":false,
//!  "mysqlType":{"id":"bigint","total":"decimal(10,2)"},"old":[{"total":"9.00"}],"pkNames":["id"],"sql":"",
//!  "sqlType":{"id":-5,"total":3},"table":"orders","ts":1795228001931,"type":"UPDATE"}
//! ```
//!
//! TiCDC begins with `id`, writes `old` before `data` and ends with `_tidb`; CloudCanal adds `tableChanges` and writes
//! empty arrays for null; the Tencent platform writes numbers as numbers, a full `old`, and `data` null for a DELETE.

use std::borrow::Cow;

use serde::Deserialize;

use super::image_lists::ImageLists;
use super::json_members::{ImageList, Names, Repeated, Types, nested, read_record, text};
use super::operations::{any_case, check_other, no_image, unknown_operation};
use super::{Dialect, JSON_OPTIONS, Mark, Marks, Read, ReadContext, Wire};
use crate::dialect::spec::{Before, Place, Placeholder, TemplateSpec};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, Source, ValueFormat};
use crate::interner::Quoting;
use crate::mysql::statement::first_word;
use crate::mysql::temporal::micros_of_epoch;
use crate::wire::json::Cursor;
use crate::wire::json_de::{CowStr, RawNested, member_names};
use crate::wire::records;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[TICDC, CLOUDCANAL_NAME, "tencent-canal-json"],
    producer: "Alibaba canal, TiCDC, CloudCanal, Tencent data access platform, Flink, Paimon, SeaTunnel, Aliyun DTS, Huawei DRS",
    wire: Wire::Json,
    description: "Alibaba canal's FlatMessage, and every producer of that envelope",
    marks: Marks::Members(&[
        Mark::Name("mysqlType"),
        Mark::Name("sqlType"),
        Mark::Name("pkNames"),
        Mark::Name("es"),
        Mark::Name("_tidb"),
        Mark::Words("type", &OPERATIONS),
    ]),
    quirks,
    read: Read::Text(read),
    options: JSON_OPTIONS,
    template: Some(&TEMPLATE),
};

pub(super) const NAME: &str = "canal-json";
const TICDC: &str = "ticdc-canal-json";
const CLOUDCANAL_NAME: &str = "cloudcanal-canal-json";

/// Alibaba canal. Declared types are the DDL's own text.
static CANAL: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: true,
    format: ValueFormat::Text,
    quoting: Quoting::Backticks,
};
/// TiCDC leaves the parameters of types out.
static TIDB: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Text,
    quoting: Quoting::None,
};

/// CloudCanal writes labels instead of their numbers.
static CLOUDCANAL: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: true,
    format: ValueFormat::TextAndLabels,
    quoting: Quoting::Backticks,
};

fn quirks(name: &str) -> &'static Quirks {
    match name {
        TICDC => &TIDB,
        CLOUDCANAL_NAME => &CLOUDCANAL,
        _ => &CANAL,
    }
}

static TEMPLATE: TemplateSpec = TemplateSpec {
    members: member_names::<Message<'static>>,
    placeholders: || {
        &[
            ("data", Placeholder::After),
            ("old", Placeholder::Before),
            ("type", Placeholder::Operation),
            (
                "es",
                Placeholder::Integer(|source, number| source.event_time = micros_of_epoch(number)),
            ),
            (
                "ts",
                Placeholder::Integer(|source, number| {
                    source.produced_time = micros_of_epoch(number)
                }),
            ),
            (
                "id",
                Placeholder::Integer(|source, number| source.message_id = Some(number)),
            ),
            ("gtid", Placeholder::Text(gtid)),
            ("mysqlType", Placeholder::DeclaredTypes),
            (
                "_tidb.commitTs",
                Placeholder::Integer(|source, number| source.commit_ts = Some(number)),
            ),
        ]
    },
    wrapper: None,
    table: Place::Either(128),
    op: row_op,
    ends_with_op: true,
    before: Before::Changes,
    has_deletes_in_data: true,
    has_arrays: true,
    empty_is_null: false,
    key_names: None,
    flat: None,
    lacks_values: None,
};

fn gtid<'a>(source: &mut Source<'a>, gtid: &'a str) -> bool {
    source.gtid = Some(Cow::Borrowed(gtid)).filter(|gtid| !gtid.is_empty());
    true
}

fn row_op(word: &str) -> Option<Op> {
    Some(op_of(word, false)).filter(|op| op.is_row_change())
}

/// A message, in canal's order.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    /// Rows after the change. A DELETE has its deleted rows here.
    #[serde(default)]
    data: ImageList,
    /// A DDL may quote it with backticks.
    database: Option<CowStr<'a>>,
    /// Time when the source executed the change: milliseconds. The Tencent platform's DDL writes seconds.
    es: Option<i64>,
    gtid: Option<CowStr<'a>>,
    /// Id of canal's batch. Many messages share it.
    id: Option<i64>,
    is_ddl: Option<bool>,
    /// Declared type of each column.
    #[serde(default)]
    mysql_type: Types,
    /// Rows before the change: whole, or only the columns that changed.
    #[serde(default)]
    old: ImageList,
    /// Key columns. They repeat if a message has several rows.
    #[serde(default)]
    pk_names: Names,
    /// Empty if the message has no statement.
    sql: Option<CowStr<'a>>,
    /// JDBC type number of each column.
    #[serde(default)]
    sql_type: Repeated<'a>,
    table: Option<CowStr<'a>>,
    /// CloudCanal: the table after a DDL. Some DDL messages lack it.
    table_changes: Option<RawNested<'a>>,
    /// Time when the message was made: milliseconds.
    ts: Option<i64>,
    /// Name of the operation.
    #[serde(rename = "type")]
    operation: Option<CowStr<'a>>,
    #[serde(rename = "_tidb")]
    tidb: Option<Tidb<'a>>,
}

/// TiCDC's extension.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Tidb<'a> {
    commit_ts: Option<i64>,
    watermark_ts: Option<i64>,
    only_handle_key: Option<bool>,
    claim_check_location: Option<CowStr<'a>>,
}

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        let record = cursor.clone();
        read_message(cursor, reading, events)?.emit(reading, events)?;
        check_other(&record, member_names::<Message<'static>>, events)
            .map_err(|fault| fault.within("type"))
    })
}

fn read_message<'a>(
    cursor: &mut Cursor<'a>,
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
) -> Result<Message<'a>> {
    let start = cursor.clone();
    events.set_quoting(reading.quirks.quoting);
    let message: Message<'a> = read_record(cursor, events)?;
    if message.tidb.is_none() || !events.keys.has_unquoted() {
        return Ok(message);
    }
    // TiCDC does not quote names, so a backtick is part of the name. Its member `_tidb` comes last: read the message
    // again.
    *cursor = start;
    events.set_quoting(TIDB.quoting);
    events.types.forget_latest();
    read_record(cursor, events)
}

impl<'a> Message<'a> {
    fn emit(self, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
        let op = self.op()?;
        let (data, old) = (self.data.0.clone(), self.old.0.clone());
        if op == Op::Other && !(data.is_empty() && old.is_empty()) {
            return Err(unknown_operation(self.operation.as_ref()).within("type"));
        }
        let envelope = self.envelope(reading);
        // A statement that canal logged as text has a row operation but no rows.
        let is_statement = data.is_empty() && old.is_empty() && envelope.sql.is_some();
        let op = if op.is_row_change() && is_statement {
            Op::Query
        } else {
            op
        };
        let lists = ImageLists {
            data,
            before: old,
            before_name: "old",
        };
        let has_schema = !reading.options.has_objects.is_empty();
        lists.emit(op, envelope, events, |data, old, events| {
            if op == Op::Update {
                check_columns(data.as_ref(), old.as_ref(), has_schema, events)?;
            }
            row_images(op, data, old)
        })
    }

    fn op(&self) -> Result<Op> {
        let is_ddl = self.is_ddl.unwrap_or(false);
        match &self.operation {
            Some(operation) => Ok(match op_of(&operation.0, is_ddl) {
                Op::Query
                    if self
                        .sql
                        .as_ref()
                        .is_some_and(|CowStr(sql)| is_definition(sql)) =>
                {
                    Op::Ddl
                }
                op => op,
            }),
            None if is_ddl => Ok(Op::Ddl),
            None => Err(Fault::new(Kind::Envelope, "is missing").within("type")),
        }
    }

    fn envelope(self, reading: &ReadContext<'_, 'a>) -> Envelope<'a> {
        let is_ddl = self.is_ddl.unwrap_or(false);
        let quirks = if self.tidb.is_some() {
            &TIDB
        } else {
            reading.quirks
        };
        let mut envelope = Envelope {
            database: unquoted(self.database, quirks.quoting),
            table: unquoted(self.table, quirks.quoting),
            primary_key: self.pk_names.0,
            sql: text(self.sql).filter(|sql| is_ddl || !sql.is_empty()),
            table_changes: nested(self.table_changes),
            types: self.mysql_type.0,
            jdbc_types: self.sql_type.0.map(Cow::Borrowed),
            source: Source {
                operation: text(self.operation),
                event_time: self.es.and_then(micros_of_epoch),
                produced_time: self.ts.and_then(micros_of_epoch),
                message_id: self.id,
                gtid: text(self.gtid).filter(|gtid| !gtid.is_empty()),
                ..Source::default()
            },
            ..Envelope::empty(quirks)
        };
        if let Some(tidb) = self.tidb {
            (envelope.source.commit_ts, envelope.source.watermark_ts) =
                (tidb.commit_ts, tidb.watermark_ts);
            (envelope.handle_key_only, envelope.claim_check) =
                (tidb.only_handle_key, text(tidb.claim_check_location));
        }
        envelope
    }
}

/// Removes the producer's quoting from a name.
#[inline]
fn unquoted<'a>(name: Option<CowStr<'a>>, quoting: Quoting) -> Option<Cow<'a, str>> {
    text(name).map(|name| {
        if name.contains('`') {
            Cow::Owned(quoting.undo(&name).into_owned())
        } else {
            name
        }
    })
}

/// Returns the operation for canal's event type.
pub(super) fn op_of(operation: &str, is_ddl: bool) -> Op {
    match any_case(operation, &OPERATIONS) {
        Some(Op::Truncate) => Op::Truncate,
        _ if is_ddl => Op::Ddl,
        op => op.unwrap_or(Op::Other),
    }
}

/// Returns whether a statement that canal sends as QUERY defines something, such as a database.
fn is_definition(sql: &str) -> bool {
    let word = first_word(sql);
    ["create", "alter", "drop", "rename"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known))
}

/// Canal's event types, in the order of their numbers from 1 on, and the words of other producers.
const OPERATIONS: [(&str, Op); 19] = [
    ("INSERT", Op::Insert),
    ("UPDATE", Op::Update),
    ("DELETE", Op::Delete),
    ("CREATE", Op::Ddl),
    ("ALTER", Op::Ddl),
    ("ERASE", Op::Ddl),
    ("QUERY", Op::Query),
    ("TRUNCATE", Op::Truncate),
    ("RENAME", Op::Ddl),
    ("CINDEX", Op::Ddl),
    ("DINDEX", Op::Ddl),
    ("GTID", Op::Gtid),
    ("XACOMMIT", Op::Commit),
    ("XAROLLBACK", Op::Rollback),
    ("MHEARTBEAT", Op::Heartbeat),
    // Paimon reads it as an insert.
    ("ROW", Op::Insert),
    // Full synchronization by Aliyun DTS and Huawei DRS.
    ("INIT", Op::Snapshot),
    ("INIT_DDL", Op::Ddl),
    ("TIDB_WATERMARK", Op::Watermark),
];

/// Event types of canal's protocol, and the operations that they name.
pub(super) static EVENTS: &[(&str, Op)] = OPERATIONS.split_at(15).0;
/// Event types that are not row changes.
pub(super) static OTHER_EVENTS: &[(&str, Op)] = EVENTS.split_at(3).1;

/// No producer of this envelope omits a changed column. A producer that omits nulls may omit unchanged columns too.
const IN_OLD_ONLY: &str = "is missing, although old has it: its value after the update is unknown. Configure the producer to write null columns";

fn check_columns(
    data: Option<&Cells>,
    old: Option<&Cells>,
    has_schema: bool,
    events: &Events<'_>,
) -> Result<()> {
    let (Some(data), Some(old)) = (data, old) else {
        return Ok(());
    };
    for name in events.lacking(data, old) {
        if !has_schema || events.keys.column(name).is_some() {
            return Err(Fault::new(Kind::Envelope, IN_OLD_ONLY)
                .within(events.keys.name(name))
                .within("data"));
        }
    }
    Ok(())
}

/// Returns the before and after images of one row. A DELETE's row is in `data`, in `old`, or in both, depending on the
/// producer.
fn row_images(
    op: Op,
    data: Option<Cells>,
    old: Option<Cells>,
) -> Result<(Option<Image>, Option<Image>)> {
    let after = data.clone().map(Image::whole);
    let before = match (data, old) {
        (Some(data), Some(old)) => Some(Image::merged(data, old)),
        (None, Some(old)) => Some(Image::whole(old)),
        (Some(data), None) if op == Op::Delete => Some(Image::whole(data)),
        (_, None) => None,
    };
    match op {
        Op::Delete if before.is_some() => Ok((before, None)),
        Op::Delete => Err(no_image(op).within("data")),
        _ if after.is_none() => Err(no_image(op).within("data")),
        Op::Update => Ok((before, after)),
        _ => Ok((None, after)),
    }
}
