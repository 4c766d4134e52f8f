//! cloudcanal-json: CloudCanal's own JSON. One message may hold several rows of a table.
//!
//! ```json
//! {"action":"UPDATE","before":[{"id":"1","total":"9.00"}],"bid":7,"data":[{"id":"1","total":"12.50"}],"db":"shop",
//!  "dbValType":{"id":"bigint(20)","total":"decimal(10,2)"},"isDdl":false,"entryType":"ROWDATA","execTs":1717990001000,
//!  "jdbcType":{"id":-5,"total":3},"pks":["id"],"schema":"shop","sendTs":1717990002305,"sql":"","table":"orders"}
//! ```
//!
//! Older messages have `ddl` instead of `isDdl`, and omit members that are null.

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
use crate::mysql::temporal::micros_of_epoch;
use crate::wire::json::Cursor;
use crate::wire::json_de::{CowStr, RawNested, member_names};
use crate::wire::records;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "CloudCanal",
    wire: Wire::Json,
    description: "CloudCanal's own JSON",
    marks: Marks::Members(&[
        Mark::Name("action"),
        Mark::Name("dbValType"),
        Mark::Name("jdbcType"),
        Mark::Name("entryType"),
        Mark::Name("execTs"),
        Mark::Name("sendTs"),
        Mark::Name("pks"),
        Mark::Name("bid"),
    ]),
    quirks: |_| &CLOUDCANAL,
    read: Read::Text(read),
    options: JSON_OPTIONS,
    template: Some(&TEMPLATE),
};

const NAME: &str = "cloudcanal-json";

static CLOUDCANAL: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: true,
    format: ValueFormat::TextAndLabels,
    quoting: Quoting::None,
};

static TEMPLATE: TemplateSpec = TemplateSpec {
    members: member_names::<Message<'static>>,
    placeholders: || {
        &[
            ("data", Placeholder::After),
            ("before", Placeholder::Before),
            ("action", Placeholder::Operation),
            (
                "bid",
                Placeholder::Integer(|source, number| source.message_id = Some(number)),
            ),
            (
                "execTs",
                Placeholder::Integer(|source, number| source.event_time = micros_of_epoch(number)),
            ),
            (
                "sendTs",
                Placeholder::Integer(|source, number| {
                    source.produced_time = micros_of_epoch(number)
                }),
            ),
            ("dbValType", Placeholder::DeclaredTypes),
        ]
    },
    wrapper: None,
    table: Place::Either(128),
    op: row_op,
    ends_with_op: false,
    before: Before::Row,
    has_deletes_in_data: true,
    has_arrays: true,
    empty_is_null: false,
    key_names: None,
    flat: None,
    lacks_values: None,
};

fn row_op(word: &str) -> Option<Op> {
    any_case(word, &OPERATIONS).filter(|op| op.is_row_change())
}

const OPERATIONS: [(&str, Op); 12] = [
    ("INSERT", Op::Insert),
    ("UPDATE", Op::Update),
    ("DELETE", Op::Delete),
    ("TRUNCATE", Op::Truncate),
    ("CREATE", Op::Ddl),
    ("ALTER", Op::Ddl),
    ("ERASE", Op::Ddl),
    ("DROP", Op::Ddl),
    ("RENAME", Op::Ddl),
    ("CINDEX", Op::Ddl),
    ("DINDEX", Op::Ddl),
    ("QUERY", Op::Query),
];

/// A message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    /// `INSERT`, `UPDATE`, `DELETE`, or the kind of a DDL.
    action: Option<CowStr<'a>>,
    /// Whole rows before an update.
    #[serde(default)]
    before: ImageList,
    /// CloudCanal's batch.
    bid: Option<i64>,
    /// Rows after the change. A DELETE has its deleted rows here.
    #[serde(default)]
    data: ImageList,
    db: Option<CowStr<'a>>,
    /// Declared type of each column.
    #[serde(default)]
    db_val_type: Types,
    is_ddl: Option<bool>,
    /// Name of `isDdl` in older messages.
    ddl: Option<bool>,
    /// `ROWDATA` or `TRANSACTIONEND`.
    entry_type: Option<CowStr<'a>>,
    /// Time when the source executed the change: milliseconds.
    exec_ts: Option<i64>,
    /// JDBC type number of each column; 10000 if unknown.
    #[serde(default)]
    jdbc_type: Repeated<'a>,
    #[serde(default)]
    pks: Names,
    schema: Option<CowStr<'a>>,
    /// Time when CloudCanal sent the message: milliseconds.
    send_ts: Option<i64>,
    /// Empty if the message has no statement.
    sql: Option<CowStr<'a>>,
    table: Option<CowStr<'a>>,
    /// The table after a DDL.
    table_changes: Option<RawNested<'a>>,
}

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        let record = cursor.clone();
        read_record::<Message<'a>>(cursor, events)?.emit(reading, events)?;
        check_other(&record, member_names::<Message<'static>>, events)
            .map_err(|fault| fault.within("action"))
    })
}

impl<'a> Message<'a> {
    fn emit(self, reading: &ReadContext<'_, 'a>, events: &mut Events<'a>) -> Result<()> {
        let op = self.op()?;
        let (data, before) = (self.data.0.clone(), self.before.0.clone());
        if op == Op::Other && !(data.is_empty() && before.is_empty()) {
            return Err(unknown_operation(self.action.as_ref()).within("action"));
        }
        let lists = ImageLists {
            data,
            before,
            before_name: "before",
        };
        lists.emit(op, self.envelope(reading), events, |data, before, _| {
            row_images(op, data, before)
        })
    }

    fn is_ddl(&self) -> bool {
        self.is_ddl.unwrap_or(false) || self.ddl.unwrap_or(false)
    }

    fn envelope(self, reading: &ReadContext<'_, 'a>) -> Envelope<'a> {
        let is_ddl = self.is_ddl();
        Envelope {
            database: text(self.db),
            schema: text(self.schema),
            table: text(self.table),
            primary_key: self.pks.0,
            sql: text(self.sql).filter(|sql| is_ddl || !sql.is_empty()),
            table_changes: nested(self.table_changes),
            types: self.db_val_type.0,
            jdbc_types: self.jdbc_type.0.map(Cow::Borrowed),
            source: Source {
                operation: text(self.action),
                event_time: self.exec_ts.and_then(micros_of_epoch),
                produced_time: self.send_ts.and_then(micros_of_epoch),
                message_id: self.bid,
                ..Source::default()
            },
            ..Envelope::empty(reading.quirks)
        }
    }

    fn op(&self) -> Result<Op> {
        match self.entry_type.as_ref().map(|kind| &*kind.0) {
            Some("TRANSACTIONBEGIN") => return Ok(Op::Begin),
            Some("TRANSACTIONEND") => return Ok(Op::Commit),
            Some("HEARTBEAT") => return Ok(Op::Heartbeat),
            _ => {}
        }
        let Some(CowStr(action)) = &self.action else {
            return if self.is_ddl() {
                Ok(Op::Ddl)
            } else {
                Err(Fault::new(Kind::Envelope, "is missing").within("action"))
            };
        };
        Ok(match any_case(action, &OPERATIONS) {
            Some(Op::Truncate) => Op::Truncate,
            _ if self.is_ddl() => Op::Ddl,
            // CloudCanal names the database in each message, wal2json in no message.
            None if self.db.is_none() => {
                return Err(unknown_operation(self.action.as_ref()).within("action"));
            }
            op => op.unwrap_or(Op::Other),
        })
    }
}

/// Returns the before and after images of one row, which are whole. A DELETE's row is in `data` or in `before`.
fn row_images(
    op: Op,
    data: Option<Cells>,
    before: Option<Cells>,
) -> Result<(Option<Image>, Option<Image>)> {
    let (data, before) = (data.map(Image::whole), before.map(Image::whole));
    match op {
        Op::Delete if before.is_some() => Ok((before, None)),
        _ if data.is_none() => Err(no_image(op).within("data")),
        Op::Delete => Ok((data, None)),
        Op::Update => Ok((before, data)),
        _ => Ok((None, data)),
    }
}
