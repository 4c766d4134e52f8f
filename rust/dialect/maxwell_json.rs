//! maxwell-json: Maxwell's daemon, and TiCDC's maxwell protocol. One message for each row.
//!
//! ```json
//! {"database":"shop","table":"orders","type":"update","ts":1795228957,"xid":3960,"commit":true,
//!  "position":"mysql-bin.000001:46351","server_id":12,"data":{"id":1,"total":12.50},"old":{"total":9.00},
//!  "primary_key_columns":["id"]}
//! ```
//!
//! Values are JSON's own: numbers with all their digits, sets as arrays, JSON columns as JSON, binary as base64. Nothing
//! declares the columns' types but a DDL, so the asked types decide. TiCDC writes the row of a DELETE in `old`.

use std::borrow::Cow;

use super::{Dialect, Mark, Marks, Read, ReadContext, Variant, Wire};
use crate::dialect::spec::{Before, Hole, Place, TemplateSpec};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, Source, ValueFormat};
use crate::interner::{NameId, Quoting};
use crate::mysql::temporal::micros_of_epoch;
use crate::wire::json::Cursor;
use crate::wire::records;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "Maxwell, TiCDC (maxwell protocol)",
    wire: Wire::Json,
    description: "Maxwell's message of one row, and TiCDC's maxwell protocol",
    fields: FIELDS,
    marks: Marks::Members(&[
        Mark::Name("xid"),
        Mark::Name("commit"),
        Mark::Name("xoffset"),
        Mark::Name("position"),
        Mark::Name("primary_key_columns"),
        Mark::Texts("type", &TYPES),
    ]),
    variant,
    read: Read::Text(read),
    template: Some(&TEMPLATE),
};

const NAME: &str = "maxwell-json";

/// The words of `type`, as they stand in JSON.
const TYPES: [&str; 12] = [
    "\"insert\"",
    "\"update\"",
    "\"delete\"",
    "\"bootstrap-start\"",
    "\"bootstrap-insert\"",
    "\"bootstrap-complete\"",
    "\"table-create\"",
    "\"table-alter\"",
    "\"table-drop\"",
    "\"database-create\"",
    "\"database-alter\"",
    "\"database-drop\"",
];

static MAXWELL: Quirks = Quirks { dialect: NAME, declares_lengths: false, format: ValueFormat::Base64AndJson };
/// TiCDC writes JSON columns as text.
static TIDB: Quirks = Quirks { dialect: NAME, declares_lengths: false, format: ValueFormat::Base64 };

fn variant(_: &str) -> Variant {
    Variant { quirks: &MAXWELL, quoting: Quoting::None }
}

static TEMPLATE: TemplateSpec = TemplateSpec {
    holes: &[
        ("type", Hole::Operation),
        ("ts", Hole::Integer(|source, number| source.event_time = micros_of_epoch(number))),
        ("xid", Hole::Digits(|source, number| source.transaction_id = Some(Cow::Borrowed(number)))),
        ("commit", Hole::Any),
        ("gtid", Hole::Text(gtid)),
        ("position", Hole::Text(place)),
        ("data", Hole::After),
        ("old", Hole::Before),
    ],
    table: Place::Head(160),
    op: row_op,
    ends_with_op: false,
    before: Before::Changes,
    has_deletes_in_data: true,
    has_arrays: false,
    empty_is_null: false,
    key_names: None,
    flat: None,
};

fn gtid<'a>(source: &mut Source<'a>, gtid: &'a str) -> bool {
    source.gtid = Some(Cow::Borrowed(gtid));
    true
}

/// `file:offset`; what is not of that form (a GTID set) is no place.
fn place<'a>(source: &mut Source<'a>, text: &'a str) -> bool {
    let Some((file, Ok(offset))) = text.rsplit_once(':').map(|(file, offset)| (file, offset.parse())) else { return false };
    (source.file, source.position) = (Some(Cow::Borrowed(file)), Some(offset));
    true
}

fn row_op(word: &str) -> Option<Op> {
    match word {
        "insert" => Some(Op::Insert),
        "update" => Some(Op::Update),
        "delete" => Some(Op::Delete),
        _ => None,
    }
}

/// The message's fields.
#[derive(Clone, Copy)]
enum Field {
    Database,
    Table,
    /// What happened.
    Type,
    /// Of a row seconds, of a DDL milliseconds.
    Ts,
    /// The transaction.
    Xid,
    /// `commit`, in the last row of a transaction.
    Commit,
    Gtid,
    /// `file:offset`.
    Position,
    ServerId,
    PrimaryKeyColumns,
    /// The row after the change; of a DELETE, the row that is gone.
    Data,
    /// Columns that an update changed, as they were; of TiCDC's DELETE, the row that is gone; of a DDL, the table before it.
    Old,
    /// The statement of a DDL.
    Sql,
    /// The table after a DDL.
    Def,
}

const FIELDS: &[&str] = &[
    "database",
    "table",
    "type",
    "ts",
    "xid",
    "commit",
    "gtid",
    "position",
    "server_id",
    "primary_key_columns",
    "data",
    "old",
    "sql",
    "def",
];

impl Field {
    /// In the order of [`FIELDS`].
    const ALL: [Field; 14] = [
        Field::Database,
        Field::Table,
        Field::Type,
        Field::Ts,
        Field::Xid,
        Field::Commit,
        Field::Gtid,
        Field::Position,
        Field::ServerId,
        Field::PrimaryKeyColumns,
        Field::Data,
        Field::Old,
        Field::Sql,
        Field::Def,
    ];
}

/// A message as far as it is read.
struct Message<'a> {
    envelope: Envelope<'a>,
    data: Option<Cells>,
    old: Option<Cells>,
    has_commit: bool,
}

fn read<'a>(text: &'a str, reading: &ReadContext<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    records::records(&mut cursor, |cursor| {
        let mut message = Message { envelope: Envelope::empty(reading.variant.quirks), data: None, old: None, has_commit: false };
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
            Field::Database => envelope.database = cursor.optional_text()?,
            Field::Table => envelope.table = cursor.optional_text()?,
            Field::Type => envelope.source.operation = cursor.optional_text()?,
            Field::Ts => envelope.source.event_time = cursor.optional_integer()?.and_then(micros_of_epoch),
            Field::Xid => envelope.source.transaction_id = cursor.optional_integer()?.map(|xid| Cow::Owned(xid.to_string())),
            Field::Gtid => envelope.source.gtid = cursor.optional_text()?,
            Field::Position => self.position(cursor)?,
            Field::ServerId => envelope.server_id = cursor.optional_integer()?,
            Field::Commit => {
                self.has_commit = true;
                cursor.skip()?;
            }
            Field::PrimaryKeyColumns => envelope.primary_key = events.read_names(cursor)?,
            Field::Data => self.data = row(cursor, events)?,
            Field::Old => self.old = row(cursor, events)?,
            Field::Sql => envelope.sql = cursor.optional_text()?,
            Field::Def => envelope.table_changes = cursor.optional_nested()?.map(Cow::Borrowed),
        }
        Ok(())
    }

    fn position(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        let Some(Cow::Borrowed(text)) = cursor.optional_text()? else { return Ok(()) };
        place(&mut self.envelope.source, text);
        Ok(())
    }

    fn emit(mut self, events: &mut Events<'a, '_, '_>) -> Result<()> {
        if self.is_tidb() {
            self.envelope.quirks = &TIDB;
        }
        let op = self.op()?;
        let (before, after) = if op.is_row_change() { self.images(op)? } else { (None, None) };
        let envelope = events.envelope(self.envelope);
        events.row(op, envelope, before, after);
        Ok(())
    }

    /// TiCDC knows nothing of MySQL's log and transactions, of which the daemon says something in each row.
    fn is_tidb(&self) -> bool {
        let source = &self.envelope.source;
        let is_bootstrap = source.operation.as_deref().is_some_and(|kind| kind.starts_with("bootstrap"));
        !is_bootstrap
            && !self.has_commit
            && source.transaction_id.is_none()
            && source.file.is_none()
            && source.gtid.is_none()
            && self.envelope.server_id.is_none()
    }

    fn op(&self) -> Result<Op> {
        let Some(kind) = self.envelope.source.operation.as_deref() else {
            return Err(Fault::new(Kind::Envelope, "is missing").within("type"));
        };
        Ok(match kind {
            "insert" => Op::Insert,
            "update" => Op::Update,
            "delete" => Op::Delete,
            "bootstrap-insert" => Op::Snapshot,
            "heartbeat" => Op::Heartbeat,
            _ if self.envelope.sql.is_some() => Op::of_statement(self.envelope.sql.as_deref().unwrap_or_default()),
            kind if kind.starts_with("table-") || kind.starts_with("database-") => Op::Ddl,
            _ => Op::Other,
        })
    }

    fn images(&self, op: Op) -> Result<(Option<Image>, Option<Image>)> {
        let missing = || Fault::new(Kind::Envelope, format!("{} without a row", op.name())).within("data");
        let after = self.data.clone().map(Image::whole);
        match (op, &self.data, &self.old) {
            (Op::Delete, Some(_), _) => Ok((after, None)),
            (Op::Delete, None, Some(old)) => Ok((Some(Image::whole(old.clone())), None)),
            (Op::Update, Some(data), Some(old)) => Ok((Some(Image::merged(data.clone(), old.clone())), after)),
            (_, Some(_), _) => Ok((None, after)),
            _ => Err(missing()),
        }
    }
}

/// `data` or `old`: an object or null.
fn row<'a>(cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<Option<Cells>> {
    match cursor.peek() {
        Some(b'n') => cursor.null().map(|()| None),
        Some(b'{') => events.read_cells(cursor).map(Some),
        _ => Err(cursor.wrong_type("an object or null")),
    }
}
