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

use super::{Dialect, Reading, Variant, Wire};
use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, Source};
use crate::keys::Quoting;
use crate::mysql::temporal::micros_of_epoch;
use crate::wire::framing;
use crate::wire::json::{Cursor, Text};

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[TICDC, "cloudcanal-canal-json", "tencent-canal-json"],
    producer: "Alibaba canal, TiCDC, CloudCanal, Tencent data access platform, Flink, Paimon, SeaTunnel",
    wire: Wire::Json,
    description: "Alibaba canal's FlatMessage, and every producer of that envelope",
    detect,
    variant,
    read,
};

const NAME: &str = "canal-json";
const TICDC: &str = "ticdc-canal-json";

/// Alibaba canal: declared types are the DDL's own text, where `bit` is `bit(1)`.
static CANAL: Quirks = Quirks { dialect: NAME, bare_bit_is_one: true };
/// TiCDC leaves the parameters of types out, so `bit` may be of any length.
static TIDB: Quirks = Quirks { dialect: NAME, bare_bit_is_one: false };

fn variant(name: &str) -> Variant {
    match name {
        TICDC => Variant { quirks: &TIDB, quoting: Quoting::None },
        _ => Variant { quirks: &CANAL, quoting: Quoting::Backticks },
    }
}

/// By keys that all these producers write and no other dialect does.
fn detect(message: &str) -> bool {
    let head = message.trim_start_matches([' ', '\t', '\r', '\n', '[']);
    head.starts_with('{')
        && head.contains("\"type\"")
        && ["\"isDdl\"", "\"sqlType\"", "\"mysqlType\"", "\"data\""].iter().any(|key| head.contains(key))
}

/// The fields of the envelope, in canal's order.
struct Message<'a> {
    /// Rows after the change; of a DELETE, the rows that are gone.
    data: Option<Images>,
    /// May be quoted with backticks in a DDL.
    database: Option<Cow<'a, str>>,
    /// When the source executed the change: milliseconds; the Tencent platform's DDL writes seconds.
    es: Option<i64>,
    gtid: Option<Cow<'a, str>>,
    /// canal's batch, shared by many messages.
    id: Option<i64>,
    is_ddl: bool,
    /// Declared type of each column: a number of a block in `events.types`.
    mysql_type: Option<usize>,
    /// Rows before the change: whole, or only the columns that changed.
    old: Option<Images>,
    /// With repeats, where a message has several rows.
    pk_names: Option<std::ops::Range<usize>>,
    sql: Option<Cow<'a, str>>,
    sql_type: Option<&'a str>,
    table: Option<Cow<'a, str>>,
    /// CloudCanal: the table after a DDL.
    table_changes: Option<&'a str>,
    /// When the message was made: milliseconds.
    ts: Option<i64>,
    /// What happened.
    kind: Option<Cow<'a, str>>,
    tidb: Option<Tidb<'a>>,
    /// TiCDC begins with `id`, the others with `data` or `database`.
    id_first: bool,
}

/// TiCDC's extension.
#[derive(Default)]
struct Tidb<'a> {
    commit_ts: Option<i64>,
    watermark_ts: Option<i64>,
    handle_key_only: Option<bool>,
    claim_check: Option<Cow<'a, str>>,
}

/// The row images of `data` or `old`: a range of `events.images`.
type Images = std::ops::Range<usize>;

fn read<'a>(text: &'a str, reading: &Reading, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let mut cursor = Cursor::new(text, reading.lenient);
    framing::records(&mut cursor, |cursor| {
        let message = Message::read(cursor, events)?;
        message.emit(reading, events)
    })
}

impl<'a> Message<'a> {
    const EMPTY: Message<'a> = Message {
        data: None,
        database: None,
        es: None,
        gtid: None,
        id: None,
        is_ddl: false,
        mysql_type: None,
        old: None,
        pk_names: None,
        sql: None,
        sql_type: None,
        table: None,
        table_changes: None,
        ts: None,
        kind: None,
        tidb: None,
        id_first: false,
    };

    fn read(cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<Self> {
        let mut message = Message::EMPTY;
        let start = events.cells.len();
        let mut members = cursor.object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut members)? {
            message.id_first |= first && key.raw == "id";
            first = false;
            message.field(key, cursor, events, start).map_err(|fault| fault.within(key.raw))?;
        }
        Ok(message)
    }

    fn field(&mut self, key: Text<'a>, cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>, start: usize) -> Result<()> {
        match key.raw {
            "data" => self.data = images(cursor, events)?,
            "old" => self.old = images(cursor, events)?,
            "database" => self.database = cursor.optional_text()?,
            "table" => self.table = cursor.optional_text()?,
            "type" => self.kind = cursor.optional_text()?,
            "es" => self.es = cursor.optional_integer()?,
            "ts" => self.ts = cursor.optional_integer()?,
            "id" => self.id = cursor.optional_integer()?,
            "gtid" => self.gtid = cursor.optional_text()?,
            "sql" => self.sql = cursor.optional_text()?,
            "isDdl" => self.is_ddl = cursor.optional_bool()?.unwrap_or(false),
            "pkNames" => self.pk_names = names(cursor, events)?,
            "mysqlType" => self.mysql_type = types(cursor, events, last_key(events, start))?,
            "sqlType" => self.sql_type = events.repeated(cursor, last_key(events, start))?,
            "tableChanges" => self.table_changes = cursor.optional_nested()?,
            "_tidb" => self.tidb = Tidb::read(cursor)?,
            _ => cursor.skip()?,
        }
        Ok(())
    }

    fn emit(self, reading: &Reading, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let op = self.op()?;
        let rows = if matches!(op, Op::Insert | Op::Update | Op::Delete) { Some(self.rows(op, events)?) } else { None };
        let has_rows = rows.as_ref().is_some_and(|rows| !rows.is_empty());
        // A statement that canal logged as text has a row's type, but no rows.
        let is_statement = rows.is_some() && !has_rows && self.sql.as_deref().is_some_and(|sql| !sql.is_empty());
        if rows.is_some() && !has_rows && !is_statement {
            return Err(Fault::new(Kind::Envelope, format!("{} without a row", op.name())).within("data"));
        }
        let envelope = events.envelope(self.envelope(reading, has_rows));
        match rows {
            Some(rows) if has_rows => rows.into_iter().for_each(|(before, after)| events.row(op, envelope, before, after)),
            _ => events.row(if is_statement { Op::Query } else { op }, envelope, None, None),
        }
        Ok(())
    }

    fn op(&self) -> Result<Op> {
        let Some(kind) = self.kind.as_deref() else {
            return if self.is_ddl { Ok(Op::Ddl) } else { Err(Fault::new(Kind::Envelope, "is missing").within("type")) };
        };
        Ok(match kind {
            "TRUNCATE" => Op::Truncate,
            _ if self.is_ddl => Op::Ddl,
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
        })
    }

    /// The images of each change. A row has its own `old`: that of another row says nothing about it.
    fn rows(&self, op: Op, events: &Events<'a, '_, '_>) -> Result<Vec<(Option<Image>, Option<Image>)>> {
        let data = events.images.get(self.data.clone().unwrap_or(0..0)).unwrap_or_default();
        let old = events.images.get(self.old.clone().unwrap_or(0..0)).unwrap_or_default();
        if !data.is_empty() && !old.is_empty() && data.len() != old.len() {
            let what = format!("has {} rows, data has {}", old.len(), data.len());
            return Err(Fault::new(Kind::Envelope, what).within("old"));
        }
        let cells = |images: &[Option<Cells>], row: usize| images.get(row).cloned().flatten();
        (0..data.len().max(old.len())).map(|row| row_images(op, cells(data, row), cells(old, row))).collect()
    }

    fn envelope(self, reading: &Reading, is_row_change: bool) -> Envelope<'a> {
        let is_tidb = self.tidb.is_some();
        let quoting = if is_tidb { Quoting::None } else { reading.variant.quoting };
        let quirks = if is_tidb || self.id_first { &TIDB } else { reading.variant.quirks };
        let name = |name: Cow<'a, str>| if name.contains('`') { Cow::Owned(quoting.undo(&name).into_owned()) } else { name };
        let tidb = self.tidb.unwrap_or_default();
        Envelope {
            database: self.database.map(name),
            table: self.table.map(name),
            primary_key: self.pk_names,
            event_time: self.es.and_then(micros_of_epoch),
            produced_time: self.ts.and_then(micros_of_epoch),
            // Empty on row changes, where there is no statement.
            sql: self.sql.filter(|sql| !(is_row_change && sql.is_empty())),
            table_changes: self.table_changes,
            types: self.mysql_type,
            jdbc_types: self.sql_type,
            source: Source {
                operation: self.kind,
                message_id: self.id,
                gtid: self.gtid.filter(|gtid| !gtid.is_empty()),
                commit_ts: tidb.commit_ts,
                watermark_ts: tidb.watermark_ts,
                handle_key_only: tidb.handle_key_only,
                claim_check: tidb.claim_check,
                ..Source::default()
            },
            ..Envelope::empty(quirks)
        }
    }
}

/// Before and after of one row. A DELETE's row is wherever its producer put it: in `data`, in `old`, or in both.
fn row_images(op: Op, data: Option<Cells>, old: Option<Cells>) -> Result<(Option<Image>, Option<Image>)> {
    let after = data.clone().map(Image::whole);
    let before = match (data, old) {
        (Some(data), Some(old)) => Some(Image::overlaid(data, old)),
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

/// `data` or `old`: an array of objects, or one object; null stands for no object.
fn images<'a>(cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<Option<Images>> {
    let start = events.images.len();
    match cursor.peek() {
        Some(b'n') => return cursor.null().map(|()| None),
        Some(b'{') => image(cursor, events)?,
        Some(b'[') => {
            let mut elements = cursor.array()?;
            while cursor.next_element(&mut elements)? {
                image(cursor, events)?;
            }
        }
        _ => return Err(cursor.wrong_type("an array of objects, an object or null")),
    }
    Ok(Some(start..events.images.len()))
}

fn image<'a>(cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    match cursor.peek() {
        Some(b'n') => {
            cursor.null()?;
            events.images.push(None);
        }
        Some(b'{') => {
            let cells = events.read_cells(cursor)?;
            events.images.push(Some(cells));
        }
        _ => return Err(cursor.wrong_type("an object or null")),
    }
    Ok(())
}

/// `pkNames`: each name once. No names are as good as null.
fn names<'a>(cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>) -> Result<Option<std::ops::Range<usize>>> {
    if cursor.peek() == Some(b'n') {
        return cursor.null().map(|()| None);
    }
    if cursor.peek() != Some(b'[') {
        return Err(cursor.wrong_type("an array of names or null"));
    }
    let start = events.names.len();
    let mut elements = cursor.array()?;
    while cursor.next_element(&mut elements)? {
        let name = cursor.text()?;
        let key = events.keys.intern(name)?;
        let seen = events.names.get(start..).unwrap_or_default().contains(&key);
        if !seen {
            events.names.push(key);
        }
    }
    let names = start..events.names.len();
    Ok((!names.is_empty()).then_some(names))
}

/// `mysqlType`: an object; CloudCanal writes an empty array for null.
fn types<'a>(cursor: &mut Cursor<'a>, events: &mut Events<'a, '_, '_>, hint: usize) -> Result<Option<usize>> {
    if !events.wants.types || cursor.peek() != Some(b'{') {
        return cursor.optional_object().map(|_| None);
    }
    events.types.read(cursor, events.keys, hint).map(Some)
}

/// The last name of the message's rows: the messages of a table end their rows with the same one.
fn last_key(events: &Events<'_, '_, '_>, start: usize) -> usize {
    events.cells.get(start..).and_then(<[_]>::last).map_or(0, |(key, _)| key.index())
}

impl<'a> Tidb<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Option<Self>> {
        match cursor.peek() {
            Some(b'n') => return cursor.null().map(|()| None),
            Some(b'{') => {}
            _ => return Err(cursor.wrong_type("an object or null")),
        }
        let mut tidb = Tidb::default();
        let mut members = cursor.object()?;
        while let Some(key) = cursor.next_key(&mut members)? {
            tidb.field(key, cursor).map_err(|fault| fault.within(key.raw))?;
        }
        Ok(Some(tidb))
    }

    fn field(&mut self, key: Text<'a>, cursor: &mut Cursor<'a>) -> Result<()> {
        match key.raw {
            "commitTs" => self.commit_ts = cursor.optional_integer()?,
            "watermarkTs" => self.watermark_ts = cursor.optional_integer()?,
            "onlyHandleKey" => self.handle_key_only = cursor.optional_bool()?,
            "claimCheckLocation" => self.claim_check = cursor.optional_text()?,
            _ => cursor.skip()?,
        }
        Ok(())
    }
}
