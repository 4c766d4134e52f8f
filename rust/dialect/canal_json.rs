//! canal-json: the FlatMessage of Alibaba canal, and everyone who writes that envelope.
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

use super::{Dialect, Mark, Marks, Read, ReadContext, Variant, Wire};
use crate::dialect::spec::{Before, Hole, Place, TemplateSpec};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, Source, ValueFormat};
use crate::interner::{NameId, Quoting};
use crate::mysql::temporal::micros_of_epoch;
use crate::wire::json::{Cursor, Text};
use crate::wire::records;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[TICDC, "cloudcanal-canal-json", "tencent-canal-json"],
    producer: "Alibaba canal, TiCDC, CloudCanal, Tencent data access platform, Flink, Paimon, SeaTunnel",
    wire: Wire::Json,
    description: "Alibaba canal's FlatMessage, and every producer of that envelope",
    fields: FIELDS,
    marks: Marks::Members(&[
        Mark::Name("mysqlType"),
        Mark::Name("sqlType"),
        Mark::Name("pkNames"),
        Mark::Name("es"),
        Mark::Name("_tidb"),
        Mark::Texts("type", &TYPES),
    ]),
    variant,
    read: Read::Text(read),
    template: Some(&TEMPLATE),
};

/// The words of `type`, as they stand in JSON.
const TYPES: [&str; 17] = [
    "\"INSERT\"",
    "\"UPDATE\"",
    "\"DELETE\"",
    "\"ROW\"",
    "\"CREATE\"",
    "\"ALTER\"",
    "\"ERASE\"",
    "\"QUERY\"",
    "\"TRUNCATE\"",
    "\"RENAME\"",
    "\"CINDEX\"",
    "\"DINDEX\"",
    "\"GTID\"",
    "\"XACOMMIT\"",
    "\"XAROLLBACK\"",
    "\"MHEARTBEAT\"",
    "\"TIDB_WATERMARK\"",
];

const NAME: &str = "canal-json";
const TICDC: &str = "ticdc-canal-json";

/// Alibaba canal: declared types are the DDL's own text.
static CANAL: Quirks = Quirks { dialect: NAME, declares_lengths: true, format: ValueFormat::Text };
/// TiCDC leaves the parameters of types out.
static TIDB: Quirks = Quirks { dialect: NAME, declares_lengths: false, format: ValueFormat::Text };

fn variant(name: &str) -> Variant {
    match name {
        TICDC => Variant { quirks: &TIDB, quoting: Quoting::None },
        _ => Variant { quirks: &CANAL, quoting: Quoting::Backticks },
    }
}

static TEMPLATE: TemplateSpec = TemplateSpec {
    holes: &[
        ("data", Hole::After),
        ("old", Hole::Before),
        ("type", Hole::Operation),
        ("es", Hole::Integer(|source, number| source.event_time = micros_of_epoch(number))),
        ("ts", Hole::Integer(|source, number| source.produced_time = micros_of_epoch(number))),
        ("id", Hole::Integer(|source, number| source.message_id = Some(number))),
        ("gtid", Hole::Text(gtid)),
        ("mysqlType", Hole::DeclaredTypes),
        ("_tidb.commitTs", Hole::Integer(|source, number| source.commit_ts = Some(number))),
    ],
    table: Place::Either(128),
    op: row_op,
    ends_with_op: true,
    before: Before::Changes,
    has_deletes_in_data: true,
    has_arrays: true,
    empty_is_null: false,
    key_names: None,
    flat: None,
};

fn gtid<'a>(source: &mut Source<'a>, gtid: &'a str) -> bool {
    source.gtid = Some(Cow::Borrowed(gtid)).filter(|gtid| !gtid.is_empty());
    true
}

fn row_op(word: &str) -> Option<Op> {
    Some(op_of(word, false)).filter(|op| op.is_row_change())
}

/// The envelope's fields, in canal's order.
#[derive(Clone, Copy)]
enum Field {
    /// Rows after the change; of a DELETE, the rows that are gone.
    Data,
    /// May be quoted with backticks in a DDL.
    Database,
    /// When the source executed the change: milliseconds; the Tencent platform's DDL writes seconds.
    Es,
    Gtid,
    /// canal's batch, shared by many messages.
    Id,
    IsDdl,
    /// Declared type of each column.
    MysqlType,
    /// Rows before the change: whole, or only the columns that changed.
    Old,
    /// Key columns, with repeats where a message has several rows.
    PkNames,
    Sql,
    /// JDBC type number of each column.
    SqlType,
    Table,
    /// CloudCanal: the table after a DDL, and sometimes none.
    TableChanges,
    /// When the message was made: milliseconds.
    Ts,
    /// What happened.
    Type,
    /// TiCDC's extension.
    Tidb,
}

const FIELDS: &[&str] = &[
    "data",
    "database",
    "es",
    "gtid",
    "id",
    "isDdl",
    "mysqlType",
    "old",
    "pkNames",
    "sql",
    "sqlType",
    "table",
    "tableChanges",
    "ts",
    "type",
    "_tidb",
];

impl Field {
    /// In the order of [`FIELDS`].
    const ALL: [Field; 16] = [
        Field::Data,
        Field::Database,
        Field::Es,
        Field::Gtid,
        Field::Id,
        Field::IsDdl,
        Field::MysqlType,
        Field::Old,
        Field::PkNames,
        Field::Sql,
        Field::SqlType,
        Field::Table,
        Field::TableChanges,
        Field::Ts,
        Field::Type,
        Field::Tidb,
    ];
}

/// A message as far as it is read.
struct Message<'a> {
    envelope: Envelope<'a>,
    is_ddl: bool,
    is_tidb: bool,
    data: Images,
    old: Images,
    /// Where its cells begin in `events.cells`.
    first_cell: usize,
}

/// The row images of `data` or `old`: a range of `events.images`, empty for null.
type Images = std::ops::Range<usize>;

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        let envelope = Envelope::empty(reading.variant.quirks);
        let first_cell = events.cells.len();
        let mut message = Message { envelope, is_ddl: false, is_tidb: false, data: 0..0, old: 0..0, first_cell };
        message.read(cursor, events)?;
        message.settle(reading);
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
            Field::Old => self.old = events.read_images(cursor)?,
            Field::Database => envelope.database = cursor.optional_text()?,
            Field::Table => envelope.table = cursor.optional_text()?,
            Field::Type => envelope.source.operation = cursor.optional_text()?,
            Field::Es => envelope.source.event_time = cursor.optional_integer()?.and_then(micros_of_epoch),
            Field::Ts => envelope.source.produced_time = cursor.optional_integer()?.and_then(micros_of_epoch),
            Field::Id => envelope.source.message_id = cursor.optional_integer()?,
            Field::Gtid => envelope.source.gtid = cursor.optional_text()?.filter(|gtid| !gtid.is_empty()),
            Field::Sql => envelope.sql = cursor.optional_text()?,
            Field::IsDdl => self.is_ddl = cursor.optional_bool()?.unwrap_or(false),
            Field::PkNames => envelope.primary_key = events.read_names(cursor)?,
            Field::MysqlType => envelope.types = events.read_types(cursor, self.first_cell)?,
            Field::SqlType => envelope.jdbc_types = events.read_repeated(cursor, self.first_cell)?,
            Field::TableChanges => envelope.table_changes = cursor.optional_nested()?.map(Cow::Borrowed),
            Field::Tidb => self.is_tidb = tidb(cursor, envelope)?,
        }
        Ok(())
    }

    /// What could not be known before the last key was read.
    fn settle(&mut self, reading: &ReadContext<'_, '_>) {
        if self.is_tidb {
            self.envelope.quirks = &TIDB;
        }
        // Empty where there is no statement.
        if !self.is_ddl && self.envelope.sql.as_deref() == Some("") {
            self.envelope.sql = None;
        }
        let quoting = if self.is_tidb { Quoting::None } else { reading.variant.quoting };
        for name in [&mut self.envelope.database, &mut self.envelope.table].into_iter().flatten() {
            if name.contains('`') {
                *name = Cow::Owned(quoting.undo(name).into_owned());
            }
        }
    }

    fn emit(self, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let op = self.op()?;
        if !op.is_row_change() {
            let envelope = events.envelope(self.envelope);
            events.row(op, envelope, None, None);
            return Ok(());
        }
        let (data, old) = (self.data.clone(), self.old.clone());
        if !data.is_empty() && !old.is_empty() && data.len() != old.len() {
            let what = format!("has {} rows, data has {}", old.len(), data.len());
            return Err(Fault::new(Kind::Envelope, what).within("old"));
        }
        let rows = data.len().max(old.len());
        // A statement that canal logged as text has a row's type, but no rows.
        let is_statement = rows == 0 && self.envelope.sql.is_some();
        if rows == 0 && !is_statement {
            return Err(Fault::new(Kind::Envelope, format!("{} without a row", op.name())).within("data"));
        }
        let envelope = events.envelope(self.envelope);
        if is_statement {
            events.row(Op::Query, envelope, None, None);
        }
        for row in 0..rows {
            // A row has its own `old`: that of another row says nothing about it.
            let (before, after) = row_images(op, events.image(&data, row), events.image(&old, row))?;
            events.row(op, envelope, before, after);
        }
        Ok(())
    }

    fn op(&self) -> Result<Op> {
        let Some(operation) = self.envelope.source.operation.as_deref() else {
            return if self.is_ddl { Ok(Op::Ddl) } else { Err(Fault::new(Kind::Envelope, "is missing").within("type")) };
        };
        Ok(op_of(operation, self.is_ddl))
    }
}

/// What canal's word for an event stands for.
pub(super) fn op_of(operation: &str, is_ddl: bool) -> Op {
    match operation {
        "TRUNCATE" => Op::Truncate,
        _ if is_ddl => Op::Ddl,
        // ROW is what Paimon reads as an insert.
        "INSERT" | "ROW" => Op::Insert,
        "UPDATE" => Op::Update,
        "DELETE" => Op::Delete,
        "CREATE" | "ALTER" | "ERASE" | "RENAME" | "CINDEX" | "DINDEX" => Op::Ddl,
        "QUERY" => Op::Query,
        "GTID" => Op::Gtid,
        "XACOMMIT" => Op::Commit,
        "XAROLLBACK" => Op::Rollback,
        "MHEARTBEAT" => Op::Heartbeat,
        "TIDB_WATERMARK" => Op::Watermark,
        _ => Op::Other,
    }
}

/// Before and after of one row. A DELETE's row is wherever its producer put it: in `data`, in `old`, or in both.
fn row_images(op: Op, data: Option<Cells>, old: Option<Cells>) -> Result<(Option<Image>, Option<Image>)> {
    let after = data.clone().map(Image::whole);
    let before = match (data, old) {
        (Some(data), Some(old)) => Some(Image::merged(data, old)),
        (None, Some(old)) => Some(Image::whole(old)),
        (Some(data), None) if op == Op::Delete => Some(Image::whole(data)),
        (_, None) => None,
    };
    let missing = || Fault::new(Kind::Envelope, format!("a row of this {} has no image", op.name())).within("data");
    match op {
        Op::Delete => before.map(|before| (Some(before), None)).ok_or_else(missing),
        Op::Update => after.map(|after| (before, Some(after))).ok_or_else(missing),
        _ => after.map(|after| (None, Some(after))).ok_or_else(missing),
    }
}

/// `_tidb`; false for null.
fn tidb<'a>(cursor: &mut Cursor<'a>, envelope: &mut Envelope<'a>) -> Result<bool> {
    match cursor.peek() {
        Some(b'n') => return cursor.null().map(|()| false),
        Some(b'{') => {}
        _ => return Err(cursor.wrong_type("an object or null")),
    }
    (envelope.source.commit_ts, envelope.source.watermark_ts) = (None, None);
    (envelope.handle_key_only, envelope.claim_check) = (None, None);
    let mut members = cursor.object()?;
    while let Some(key) = cursor.next_key(&mut members)? {
        tidb_field(key, cursor, envelope).map_err(|fault| fault.within(key.raw))?;
    }
    Ok(true)
}

fn tidb_field<'a>(key: Text<'a>, cursor: &mut Cursor<'a>, envelope: &mut Envelope<'a>) -> Result<()> {
    match &*key.decode()? {
        "commitTs" => envelope.source.commit_ts = cursor.optional_integer()?,
        "watermarkTs" => envelope.source.watermark_ts = cursor.optional_integer()?,
        "onlyHandleKey" => envelope.handle_key_only = cursor.optional_bool()?,
        "claimCheckLocation" => envelope.claim_check = cursor.optional_text()?,
        _ => cursor.skip()?,
    }
    Ok(())
}
