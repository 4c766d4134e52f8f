//! cloudcanal-json: CloudCanal's own JSON, of which one message may hold several rows of a table.
//!
//! ```json
//! {"action":"UPDATE","before":[{"id":"1","total":"9.00"}],"bid":7,"data":[{"id":"1","total":"12.50"}],"db":"shop",
//!  "dbValType":{"id":"bigint(20)","total":"decimal(10,2)"},"isDdl":false,"entryType":"ROWDATA","execTs":1717990001000,
//!  "jdbcType":{"id":-5,"total":3},"pks":["id"],"schema":"shop","sendTs":1717990002305,"sql":"","table":"orders"}
//! ```
//!
//! Older messages call `isDdl` `ddl`, and leave out members that are null.

use std::borrow::Cow;

use super::{Dialect, Mark, Marks, Read, ReadContext, Variant, Wire};
use crate::dialect::spec::{Before, Hole, Place, TemplateSpec};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, ValueFormat};
use crate::interner::{NameId, Quoting};
use crate::mysql::temporal::micros_of_epoch;
use crate::wire::json::Cursor;
use crate::wire::records;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "CloudCanal",
    wire: Wire::Json,
    description: "CloudCanal's own JSON",
    fields: FIELDS,
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
    variant,
    read: Read::Text(read),
    template: Some(&TEMPLATE),
};

const NAME: &str = "cloudcanal-json";

static CLOUDCANAL: Quirks = Quirks { dialect: NAME, declares_lengths: true, format: ValueFormat::Text };

fn variant(_: &str) -> Variant {
    Variant { quirks: &CLOUDCANAL, quoting: Quoting::None }
}

static TEMPLATE: TemplateSpec = TemplateSpec {
    holes: &[
        ("data", Hole::After),
        ("before", Hole::Before),
        ("action", Hole::Operation),
        ("bid", Hole::Integer(|source, number| source.message_id = Some(number))),
        ("execTs", Hole::Integer(|source, number| source.event_time = micros_of_epoch(number))),
        ("sendTs", Hole::Integer(|source, number| source.produced_time = micros_of_epoch(number))),
        ("dbValType", Hole::DeclaredTypes),
    ],
    table: Place::Either(128),
    op: row_op,
    ends_with_op: false,
    before: Before::Row,
    has_deletes_in_data: true,
    has_arrays: true,
    empty_is_null: false,
    key_names: None,
    flat: None,
};

fn row_op(word: &str) -> Option<Op> {
    match word {
        "INSERT" => Some(Op::Insert),
        "UPDATE" => Some(Op::Update),
        "DELETE" => Some(Op::Delete),
        _ => None,
    }
}

/// The envelope's fields.
#[derive(Clone, Copy)]
enum Field {
    /// `INSERT`, `UPDATE`, `DELETE`, or the kind of a DDL.
    Action,
    /// Rows before an update, whole.
    Before,
    /// CloudCanal's batch.
    Bid,
    /// Rows after the change; of a DELETE, the rows that are gone.
    Data,
    Db,
    /// Declared type of each column.
    DbValType,
    IsDdl,
    /// `isDdl` in older messages.
    Ddl,
    /// `ROWDATA` or `TRANSACTIONEND`.
    EntryType,
    /// When the source executed the change: milliseconds.
    ExecTs,
    /// JDBC type number of each column; 10000 where it is not known.
    JdbcType,
    Pks,
    Schema,
    /// When the message was sent: milliseconds.
    SendTs,
    Sql,
    Table,
    /// The table after a DDL.
    TableChanges,
}

const FIELDS: &[&str] = &[
    "action",
    "before",
    "bid",
    "data",
    "db",
    "dbValType",
    "isDdl",
    "ddl",
    "entryType",
    "execTs",
    "jdbcType",
    "pks",
    "schema",
    "sendTs",
    "sql",
    "table",
    "tableChanges",
];

impl Field {
    /// In the order of [`FIELDS`].
    const ALL: [Field; 17] = [
        Field::Action,
        Field::Before,
        Field::Bid,
        Field::Data,
        Field::Db,
        Field::DbValType,
        Field::IsDdl,
        Field::Ddl,
        Field::EntryType,
        Field::ExecTs,
        Field::JdbcType,
        Field::Pks,
        Field::Schema,
        Field::SendTs,
        Field::Sql,
        Field::Table,
        Field::TableChanges,
    ];
}

/// A message as far as it is read.
struct Message<'a> {
    envelope: Envelope<'a>,
    entry_type: Option<Cow<'a, str>>,
    is_ddl: bool,
    data: std::ops::Range<usize>,
    before: std::ops::Range<usize>,
    /// Where its cells begin in `events.cells`.
    first_cell: usize,
}

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        let envelope = Envelope::empty(reading.variant.quirks);
        let first_cell = events.cells.len();
        let mut message = Message { envelope, entry_type: None, is_ddl: false, data: 0..0, before: 0..0, first_cell };
        message.read(cursor, events)?;
        message.emit(events)
    })
}

impl<'a> Message<'a> {
    fn read(&mut self, cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let mut members = cursor.object()?;
        let mut key = NameId::START;
        while cursor.next_member(&mut members)? {
            key = events.fields().read(cursor, key)?;
            let field = events.fields().column(key).and_then(|field| Field::ALL.get(field));
            let read = match field {
                Some(field) => self.field(*field, cursor, events),
                None => cursor.skip(),
            };
            read.map_err(|fault| fault.within(events.fields().name(key)))?;
        }
        Ok(())
    }

    #[inline]
    fn field(&mut self, field: Field, cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let envelope = &mut self.envelope;
        match field {
            Field::Data => self.data = events.read_images(cursor)?,
            Field::Before => self.before = events.read_images(cursor)?,
            Field::Action => envelope.source.operation = cursor.optional_text()?,
            Field::Bid => envelope.source.message_id = cursor.optional_integer()?,
            Field::Db => envelope.database = cursor.optional_text()?,
            Field::Schema => envelope.schema = cursor.optional_text()?,
            Field::Table => envelope.table = cursor.optional_text()?,
            Field::DbValType => envelope.types = events.read_types(cursor, self.first_cell)?,
            Field::JdbcType => envelope.jdbc_types = events.read_repeated(cursor, self.first_cell)?,
            Field::IsDdl | Field::Ddl => self.is_ddl |= cursor.optional_bool()?.unwrap_or(false),
            Field::EntryType => self.entry_type = cursor.optional_text()?,
            Field::ExecTs => envelope.source.event_time = cursor.optional_integer()?.and_then(micros_of_epoch),
            Field::SendTs => envelope.source.produced_time = cursor.optional_integer()?.and_then(micros_of_epoch),
            Field::Pks => envelope.primary_key = events.read_names(cursor)?,
            Field::Sql => envelope.sql = cursor.optional_text()?,
            Field::TableChanges => envelope.table_changes = cursor.optional_nested()?.map(Cow::Borrowed),
        }
        Ok(())
    }

    fn emit(mut self, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let op = self.op()?;
        if !self.is_ddl && self.envelope.sql.as_deref() == Some("") {
            self.envelope.sql = None;
        }
        if !op.is_row_change() {
            let envelope = events.envelope(self.envelope);
            events.row(op, envelope, None, None);
            return Ok(());
        }
        let (data, before) = (self.data, self.before);
        let rows = data.len().max(before.len());
        if rows == 0 {
            return Err(Fault::new(Kind::Envelope, format!("{} without a row", op.name())).within("data"));
        }
        if !before.is_empty() && !data.is_empty() && before.len() != data.len() {
            let what = format!("has {} rows, data has {}", before.len(), data.len());
            return Err(Fault::new(Kind::Envelope, what).within("before"));
        }
        let envelope = events.envelope(self.envelope);
        for row in 0..rows {
            let (before, after) = row_images(op, events.image(&data, row), events.image(&before, row))?;
            events.row(op, envelope, before, after);
        }
        Ok(())
    }

    fn op(&self) -> Result<Op> {
        match self.entry_type.as_deref() {
            Some("TRANSACTIONBEGIN") => return Ok(Op::Begin),
            Some("TRANSACTIONEND") => return Ok(Op::Commit),
            Some("HEARTBEAT") => return Ok(Op::Heartbeat),
            _ => {}
        }
        let Some(action) = self.envelope.source.operation.as_deref() else {
            return if self.is_ddl { Ok(Op::Ddl) } else { Err(Fault::new(Kind::Envelope, "is missing").within("action")) };
        };
        Ok(match action {
            "TRUNCATE" => Op::Truncate,
            _ if self.is_ddl => Op::Ddl,
            "INSERT" => Op::Insert,
            "UPDATE" => Op::Update,
            "DELETE" => Op::Delete,
            "CREATE" | "ALTER" | "ERASE" | "DROP" | "RENAME" | "CINDEX" | "DINDEX" => Op::Ddl,
            "QUERY" => Op::Query,
            _ => Op::Other,
        })
    }
}

/// Before and after of one row: whole images. A DELETE's row is in `data`, or in `before`.
fn row_images(op: Op, data: Option<Cells>, before: Option<Cells>) -> Result<(Option<Image>, Option<Image>)> {
    let missing = || Fault::new(Kind::Envelope, format!("a row of this {} has no image", op.name())).within("data");
    let (data, before) = (data.map(Image::whole), before.map(Image::whole));
    match op {
        Op::Delete => before.or(data).map(|before| (Some(before), None)).ok_or_else(missing),
        Op::Update => data.map(|after| (before, Some(after))).ok_or_else(missing),
        _ => data.map(|after| (None, Some(after))).ok_or_else(missing),
    }
}
