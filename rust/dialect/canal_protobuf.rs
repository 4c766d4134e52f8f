//! canal-protobuf: what Alibaba canal sends with `flatMessage` off, and TiCDC's canal protocol.
//!
//! `CanalProtocol.proto` and `EntryProtocol.proto` of canal, as far as their Kafka messages go; messages within `bytes` are
//! marked `>`:
//!
//! ```text
//! Packet     { 2 version, 3 type, 4 compression, 5 body > Messages }
//! Messages   { 1 batch_id, 2 messages > Entry* }
//! Entry      { 1 header: Header, 2 entryType, 3 storeValue > RowChange, TransactionBegin, TransactionEnd or Pair }
//! RowChange  { 1 tableId, 2 eventType, 10 isDdl, 11 sql, 12 rowDatas: RowData*, 13 props: Pair*, 14 ddlSchemaName }
//! RowData    { 1 beforeColumns: Column*, 2 afterColumns: Column* }
//! Column     { 1 index, 2 sqlType, 3 name, 4 isKey, 5 updated, 6 isNull, 8 value, 10 mysqlType }
//! ```
//!
//! canal's `CanalMessageSerializerUtil` writes one packet for all entries of a batch: many tables, many transactions. Its raw
//! branch leaves the version out and sends the batch's number. A bare `Messages` or `Entry` is read too. What canal's classes
//! call optional has the default that the comments in the files tell: an absent `eventType` is UPDATE, an `entryType` ROWDATA.
//! Values are those of canal-json. TiCDC's `BatchEncoder` writes entries of rows and DDL, and no place in a log.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::{Dialect, Marks, Read, Reading, Variant, Wire, canal_json};
use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::{Cells, Envelope, Events, Image, Op, Quirks, Source, Value, Writes};
use crate::keys::{KeyId, Quoting};
use crate::shapes::{Described, Shape, ShapeId};
use crate::wire::json::quoted;
use crate::wire::protobuf::{Form, Known, Reader, utf8};

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "Alibaba canal (flatMessage off), TiCDC (canal protocol)",
    wire: Wire::Protobuf,
    description: "Alibaba canal's Message in protobuf: packets of entries",
    fields: &[],
    marks: Marks::Bytes(is_canal),
    variant,
    read: Read::Bytes(read),
};

const NAME: &str = "canal-protobuf";

/// Alibaba canal: declared types are the DDL's own text.
static CANAL: Quirks = Quirks { dialect: NAME, declares_lengths: true, writes: Writes::Text };
/// TiCDC leaves the parameters of types out.
static TIDB: Quirks = Quirks { dialect: NAME, declares_lengths: false, writes: Writes::Text };

fn variant(_: &str) -> Variant {
    Variant { quirks: &CANAL, quoting: Quoting::Backticks }
}

const PACKET: &[Known] = &[
    Known::number(1, "magic_number"),
    Known::number(2, "version"),
    Known::number(3, "type"),
    Known::number(4, "compression"),
    Known::bytes(5, "body"),
];

const MESSAGES: &[Known] = &[Known::number(1, "batch_id"), Known::bytes(2, "messages")];

const ACK: &[Known] = &[Known::number(1, "error_code"), Known::bytes(2, "error_message")];

const ENTRY: &[Known] = &[Known::bytes(1, "header"), Known::number(2, "entryType"), Known::bytes(3, "storeValue")];

const HEADER: &[Known] = &[
    Known::number(1, "version"),
    Known::bytes(2, "logfileName"),
    Known::number(3, "logfileOffset"),
    Known::number(4, "serverId"),
    Known::bytes(5, "serverenCode"),
    // Milliseconds.
    Known::number(6, "executeTime"),
    Known::number(7, "sourceType"),
    // May be quoted with backticks in a DDL.
    Known::bytes(8, "schemaName"),
    Known::bytes(9, "tableName"),
    Known::number(10, "eventLength"),
    Known::number(11, "eventType"),
    Known::bytes(12, "props"),
    // All that was executed so far, not only this transaction.
    Known::bytes(13, "gtid"),
];

const PAIR: &[Known] = &[Known::bytes(1, "key"), Known::bytes(2, "value")];

/// TransactionBegin and TransactionEnd.
const TRANSACTION: &[Known] =
    &[Known::number(1, "executeTime"), Known::bytes(2, "transactionId"), Known::bytes(3, "props"), Known::number(4, "threadId")];

const ROW_CHANGE: &[Known] = &[
    Known::number(1, "tableId"),
    Known::number(2, "eventType"),
    Known::number(10, "isDdl"),
    Known::bytes(11, "sql"),
    Known::bytes(12, "rowDatas"),
    Known::bytes(13, "props"),
    // Where a statement was executed, which need not be where its table is.
    Known::bytes(14, "ddlSchemaName"),
];

const ROW_DATA: &[Known] =
    &[Known::bytes(BEFORE as u32, "beforeColumns"), Known::bytes(AFTER as u32, "afterColumns"), Known::bytes(3, "props")];
const BEFORE: u8 = 1;
const AFTER: u8 = 2;

const COLUMN: &[Known] = &[
    Known::number(1, "index"),
    // JDBC's number of a type; of an unsigned value that needs it, of the next wider type.
    Known::number(2, "sqlType"),
    Known::bytes(3, "name"),
    Known::number(4, "isKey"),
    // Says nothing that the values do not.
    Known::number(UPDATED, "updated"),
    Known::number(6, "isNull"),
    Known::bytes(7, "props"),
    // Absent for NULL, and where TiCDC writes empty text.
    Known::bytes(VALUE, "value"),
    Known::number(9, "length"),
    // The declared type.
    Known::bytes(10, "mysqlType"),
];
const UPDATED: u32 = 5;
const VALUE: u32 = 8;

/// The kinds of packets.
const PACKET_TYPES: [&str; 13] = [
    "PACKAGETYPECOMPATIBLEPROTO2",
    "HANDSHAKE",
    "CLIENTAUTHENTICATION",
    "ACK",
    "SUBSCRIPTION",
    "UNSUBSCRIPTION",
    "GET",
    "MESSAGES",
    "CLIENTACK",
    "SHUTDOWN",
    "DUMP",
    "HEARTBEAT",
    "CLIENTROLLBACK",
];
const PACKET_ACK: u64 = 3;
const PACKET_MESSAGES: u64 = 7;

/// What `compression` can be; canal's own reader knows the first two.
const COMPRESSIONS: [&str; 5] = ["COMPRESSIONCOMPATIBLEPROTO2", "NONE", "ZLIB", "GZIP", "LZF"];
const NONE: u64 = 1;

/// The kinds of entries; the first stands for none.
const ENTRY_TYPES: [&str; 6] = ["ENTRYTYPECOMPATIBLEPROTO2", "TRANSACTIONBEGIN", "ROWDATA", "TRANSACTIONEND", "HEARTBEAT", "GTIDLOG"];
const TRANSACTION_BEGIN: u64 = 1;
const ROW_DATA_ENTRY: u64 = 2;
const TRANSACTION_END: u64 = 3;
const HEARTBEAT: u64 = 4;
const GTID_LOG: u64 = 5;

/// What happened; the first stands for nothing.
const EVENT_TYPES: [&str; 16] = [
    "EVENTTYPECOMPATIBLEPROTO2",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "ALTER",
    "ERASE",
    "QUERY",
    "TRUNCATE",
    "RENAME",
    "CINDEX",
    "DINDEX",
    "GTID",
    "XACOMMIT",
    "XAROLLBACK",
    "MHEARTBEAT",
];
const UPDATE: u64 = 2;

/// As the connectors of other producers are called.
const SOURCE_TYPES: [&str; 4] = ["mysql", "oracle", "mysql", "postgresql"];

/// The word for a number of an enum, or the number itself.
fn word(words: &[&'static str], number: u64) -> Cow<'static, str> {
    words.get(usize::try_from(number).unwrap_or(usize::MAX)).map_or_else(|| number.to_string().into(), |word| (*word).into())
}

/// How many entries one message may have: far more than canal's own buffer holds.
const MOST_ENTRIES: usize = 1 << 20;

fn read<'a>(bytes: &'a [u8], reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    if bytes.is_empty() {
        return Err(Fault::new(Kind::Syntax, "the message is empty").at(0));
    }
    let message = Reader::new(bytes);
    match whole(message)? {
        Whole::Packet => packet(message, reading, events),
        Whole::Messages => messages(message, reading, events),
        Whole::Entry => entry(message, reading, events),
    }
}

/// What a Kafka value is.
enum Whole {
    Packet,
    Messages,
    Entry,
}

/// By the first field that only one of them has.
fn whole(mut message: Reader<'_>) -> Result<Whole> {
    let mut has_batch = false;
    while let Some(field) = message.next()? {
        match (field.number, field.form) {
            (1, Form::Bytes) => return Ok(Whole::Entry),
            (2, Form::Bytes) => return Ok(Whole::Messages),
            (1, _) => has_batch = true,
            (2..=5, _) => return Ok(Whole::Packet),
            _ => {}
        }
    }
    if has_batch { Ok(Whole::Messages) } else { Err(Fault::new(Kind::Envelope, "neither a Packet nor Messages nor an Entry").at(0)) }
}

fn packet<'a>(packet: Reader<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let (mut kind, mut compression, mut body) = (0, NONE, Reader::new(&[]));
    packet.fields(PACKET, |field| {
        match field.number {
            3 => kind = field.varint(),
            4 => compression = field.varint(),
            5 => body = field.bytes(),
            _ => {}
        }
        Ok(())
    })?;
    match kind {
        PACKET_MESSAGES if compression <= NONE => messages(body, reading, events).map_err(|fault| fault.within("body")),
        PACKET_MESSAGES => Err(refused("compression", format!("{} is not supported", word(&COMPRESSIONS, compression)))),
        PACKET_ACK => Err(ack(body)),
        other => Err(refused("type", format!("expected MESSAGES, found {}", word(&PACKET_TYPES, other)))),
    }
}

fn refused(field: &str, what: String) -> Fault {
    Fault::new(Kind::Envelope, what).within(field)
}

/// What canal's server answers: nothing that a topic should have.
fn ack(body: Reader<'_>) -> Fault {
    let (mut code, mut text) = (0, "");
    let read = body.fields(ACK, |field| {
        match field.number {
            1 => code = field.varint(),
            _ => text = field.text()?,
        }
        Ok(())
    });
    match read {
        Ok(()) => refused("type", format!("expected MESSAGES, found an ACK with error code {}: {}", code as i32, excerpt(text))),
        Err(fault) => fault.within("body"),
    }
}

fn messages<'a>(messages: Reader<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let first = events.envelopes.len();
    let (mut batch, mut entries) = (None, 0);
    messages.fields(MESSAGES, |field| {
        if field.number == 1 {
            batch = Some(field.varint() as i64);
            return Ok(());
        }
        entries += 1;
        if entries > MOST_ENTRIES {
            return Err(Fault::new(Kind::Size, format!("more than {MOST_ENTRIES} entries in one message")).at(field.at));
        }
        entry(field.bytes(), reading, events).map_err(|fault| fault.within(&(entries - 1).to_string()))
    })?;
    if entries == 0 {
        // What is left of a batch of nothing but marks of transactions, if canal leaves these out.
        let mut envelope = Envelope::empty(reading.variant.quirks);
        envelope.source.operation = Some("MESSAGES".into());
        let envelope = events.envelope(envelope);
        events.row(Op::Other, envelope, None, None);
    }
    for envelope in events.envelopes.get_mut(first..).into_iter().flatten() {
        envelope.source.message_id = batch;
    }
    Ok(())
}

fn entry<'a>(entry: Reader<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let (mut header, mut kind, mut content) = (Reader::new(&[]), ROW_DATA_ENTRY, Reader::new(&[]));
    entry.fields(ENTRY, |field| {
        match field.number {
            1 => header = field.bytes(),
            2 => kind = field.varint(),
            _ => content = field.bytes(),
        }
        Ok(())
    })?;
    let header = Header::read(header).map_err(|fault| fault.within("header"))?;
    let read = match kind {
        0 | ROW_DATA_ENTRY => Change::read(content, header, reading, events),
        TRANSACTION_BEGIN | TRANSACTION_END => transaction(content, kind, header, reading, events),
        GTID_LOG => gtid(content, header, reading, events),
        _ => {
            let op = if kind == HEARTBEAT { Op::Heartbeat } else { Op::Other };
            header.mark(op, kind, None, reading, events);
            Ok(())
        }
    };
    read.map_err(|fault| fault.within("storeValue"))
}

/// A mark of a transaction.
fn transaction<'a>(
    content: Reader<'a>,
    kind: u64,
    header: Header<'a>,
    reading: &Reading<'_, 'a>,
    events: &mut Events<'a, '_, '_>,
) -> Result<()> {
    let (mut id, mut xa) = (None, Xa::default());
    content.fields(TRANSACTION, |field| {
        match field.number {
            2 => id = Some(field.text()?),
            3 => xa.read(field.bytes())?,
            _ => {}
        }
        Ok(())
    })?;
    let op = match kind {
        TRANSACTION_BEGIN => Op::Begin,
        // What it did can still be rolled back.
        _ if xa.kind == Some("XA END") => Op::Other,
        _ => Op::Commit,
    };
    header.mark(op, kind, xa.id.or(id).filter(|id| !id.is_empty()), reading, events);
    Ok(())
}

/// A GTIDLOG has a pair, in which canal's `LogEventConvert` may have written another key over that of the GTID.
fn gtid<'a>(content: Reader<'a>, mut header: Header<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    if let ("gtid", gtid) = pair(content)? {
        header.source.gtid = Some(gtid.into());
    }
    header.mark(Op::Gtid, GTID_LOG, None, reading, events);
    Ok(())
}

/// Key and value.
fn pair<'a>(pair: Reader<'a>) -> Result<(&'a str, &'a str)> {
    let (mut key, mut value) = ("", "");
    pair.fields(PAIR, |field| {
        match field.number {
            1 => key = field.text()?,
            _ => value = field.text()?,
        }
        Ok(())
    })?;
    Ok((key, value))
}

/// What `props` say of an XA transaction.
#[derive(Default)]
struct Xa<'a> {
    kind: Option<&'a str>,
    id: Option<&'a str>,
}

impl<'a> Xa<'a> {
    fn read(&mut self, props: Reader<'a>) -> Result<()> {
        match pair(props)? {
            ("XA_TYPE", kind) => self.kind = Some(kind),
            // As it stands behind the statement's words.
            ("XA_XID", id) => self.id = Some(id.trim()),
            _ => {}
        }
        Ok(())
    }
}

/// What an entry says of itself.
#[derive(Default)]
struct Header<'a> {
    database: &'a str,
    table: &'a str,
    event_time: Option<i64>,
    event_type: Option<u64>,
    source: Source<'a>,
}

impl<'a> Header<'a> {
    fn read(header: Reader<'a>) -> Result<Self> {
        let mut found = Header::default();
        let (mut source_type, mut current_gtid) = (0, None);
        header.fields(HEADER, |field| {
            let source = &mut found.source;
            match field.number {
                1 => source.version = Some(version(field.varint())),
                2 => source.file = not_empty(field.text()?),
                3 => source.position = Some(field.varint() as i64),
                4 => source.server_id = Some(field.varint() as i64),
                6 => found.event_time = micros(field.varint()),
                7 => source_type = field.varint(),
                8 => found.database = field.text()?,
                9 => found.table = field.text()?,
                11 => found.event_type = Some(field.varint()).filter(|number| *number != 0),
                12 => current_gtid = gtid_of_transaction(field.bytes())?.or(current_gtid),
                13 => source.gtid = not_empty(field.text()?),
                _ => {}
            }
            Ok(())
        })?;
        found.source.connector = Some(word(&SOURCE_TYPES, source_type));
        found.source.gtid = found.source.gtid.take().or(current_gtid.and_then(not_empty));
        Ok(found)
    }

    /// TiCDC knows no log of a server.
    fn is_tidb(&self) -> bool {
        self.source.file.is_none()
    }

    /// An envelope of one of the tables, or of none.
    fn envelope(self, reading: &Reading<'_, 'a>) -> Envelope<'a> {
        let (quirks, quoting) = if self.is_tidb() { (&TIDB, Quoting::None) } else { (reading.variant.quirks, reading.variant.quoting) };
        Envelope {
            database: Some(quoting.undo(self.database)),
            table: Some(quoting.undo(self.table)),
            event_time: self.event_time,
            source: self.source,
            ..Envelope::empty(quirks)
        }
    }

    /// Adds the row of an entry that is no change.
    fn mark(mut self, op: Op, kind: u64, transaction: Option<&'a str>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) {
        let operation = self.event_type.map_or_else(|| word(&ENTRY_TYPES, kind), |event| word(&EVENT_TYPES, event));
        self.source.operation = Some(operation);
        self.source.transaction_id = transaction.map(Cow::Borrowed);
        let mut envelope = self.envelope(reading);
        for name in [&mut envelope.database, &mut envelope.table] {
            *name = name.take().filter(|name| !name.is_empty());
        }
        let envelope = events.envelope(envelope);
        events.row(op, envelope, None, None);
    }
}

fn not_empty(text: &str) -> Option<Cow<'_, str>> {
    Some(text.into()).filter(|text: &Cow<'_, str>| !text.is_empty())
}

/// Of the protocol: 1 in all that is known.
fn version(number: u64) -> Cow<'static, str> {
    if number == 1 { "1".into() } else { number.to_string().into() }
}

/// From milliseconds.
fn micros(millis: u64) -> Option<i64> {
    (millis as i64).checked_mul(1000).filter(|micros| *micros != 0)
}

/// The GTID of the one transaction, which canal sends wherever the server has GTIDs.
fn gtid_of_transaction<'a>(props: Reader<'a>) -> Result<Option<&'a str>> {
    let (key, value) = pair(props)?;
    Ok((key == "curtGtid").then_some(value))
}

/// A RowChange as far as it is read: the rows of one table that one statement changed, or a statement.
struct Change<'a> {
    header: Header<'a>,
    event_type: Option<u64>,
    is_ddl: bool,
    sql: Option<&'a str>,
    xa: Xa<'a>,
    /// What comes before the first column of each image.
    starts: [ShapeId; 2],
    /// Where its images begin in `events.images`: two for each row.
    first_image: usize,
    last_row: Option<LastRow<'a>>,
}

/// The row that was read last, which speaks for all: they have the same columns.
struct LastRow<'a> {
    row: Reader<'a>,
    before: ImageEnd,
    after: ImageEnd,
}

/// How an image ended.
#[derive(Clone, Copy)]
struct ImageEnd {
    shape: ShapeId,
    /// Whether its columns had the bytes of the shapes that led here, so that these say what it says.
    is_exact: bool,
    is_present: bool,
}

impl<'a> Change<'a> {
    fn read(content: Reader<'a>, header: Header<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        events.shapes.trim();
        let starts = [BEFORE, AFTER].map(|image| events.shapes.start(header.database, header.table, image));
        let first_image = events.images.len();
        let mut change =
            Change { header, event_type: None, is_ddl: false, sql: None, xa: Xa::default(), starts, first_image, last_row: None };
        content.fields(ROW_CHANGE, |field| {
            match field.number {
                2 => change.event_type = Some(field.varint()).filter(|number| *number != 0),
                10 => change.is_ddl = field.flag(),
                11 => change.sql = Some(field.text()?),
                12 => change.row(field.bytes(), events)?,
                13 => change.xa.read(field.bytes())?,
                14 if change.header.database.is_empty() => change.header.database = field.text()?,
                _ => {}
            }
            Ok(())
        })?;
        change.emit(reading, events)
    }

    fn row(&mut self, row: Reader<'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let mut rest = row;
        let [before, after] = self.starts;
        let before = image(&mut rest, BEFORE, before, events).map_err(|fault| fault.within("beforeColumns"))?;
        let after = image(&mut rest, AFTER, after, events).map_err(|fault| fault.within("afterColumns"))?;
        rest.fields(ROW_DATA, |field| match field.number {
            3 => Ok(()),
            _ => Err(Fault::new(Kind::Envelope, "stands apart from the other columns of its image").at(field.at)),
        })?;
        self.last_row = Some(LastRow { row, before, after });
        Ok(())
    }

    fn emit(mut self, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let operation = word(&EVENT_TYPES, self.event_type.or(self.header.event_type).unwrap_or(UPDATE));
        let op = canal_json::op_of(&operation, self.is_ddl);
        let images = self.first_image..events.images.len();
        // A statement that canal logged as text has a row's type, but no rows.
        let is_statement = op.is_row_change() && images.is_empty() && self.sql.is_some_and(|sql| !sql.is_empty());
        if op.is_row_change() && images.is_empty() && !is_statement {
            return Err(Fault::new(Kind::Envelope, format!("{} without a row", op.name())).within("rowDatas"));
        }
        let described = match &self.last_row {
            Some(row) if op.is_row_change() => Some(row.describe(&images, events)?),
            _ => None,
        };
        self.header.source.operation = Some(operation);
        self.header.source.transaction_id = self.xa.id.and_then(not_empty);
        let mut envelope = self.header.envelope(reading);
        // Empty where there is no statement.
        envelope.sql = self.sql.or(self.is_ddl.then_some("")).filter(|sql| self.is_ddl || !sql.is_empty()).map(Cow::Borrowed);
        if let Some(described) = described {
            (envelope.types, envelope.primary_key) = (described.types, described.primary_key);
            envelope.jdbc_types = Some(described.jdbc_types);
        }
        let envelope = events.envelope(envelope);
        if !op.is_row_change() || is_statement {
            events.row(if is_statement { Op::Query } else { op }, envelope, None, None);
            return Ok(());
        }
        for row in (0..images.len()).step_by(2) {
            let (before, after) = (events.image(&images, row), events.image(&images, row + 1));
            let (before, after) = row_images(op, before, after, events).map_err(|fault| fault.within("rowDatas"))?;
            events.row(op, envelope, before, after);
        }
        Ok(())
    }
}

/// Before and after of one row.
fn row_images(op: Op, before: Option<Cells>, after: Option<Cells>, events: &Events<'_, '_, '_>) -> Result<(Option<Image>, Option<Image>)> {
    let missing = || Fault::new(Kind::Envelope, format!("a row of this {} has no image", op.name()));
    match op {
        Op::Delete => Ok((Some(Image::whole(before.or(after).ok_or_else(missing)?)), None)),
        Op::Update => {
            let after = after.ok_or_else(missing)?;
            let whole = before.as_ref().is_none_or(|before| have_same_keys(before, &after, events));
            // `binlog_row_image` other than FULL: what an update did not touch is not written again.
            let base = if whole { 0..0 } else { before.clone().unwrap_or_default() };
            Ok((before.map(Image::whole), Some(Image { base, own: after })))
        }
        _ => Ok((None, Some(Image::whole(after.ok_or_else(missing)?)))),
    }
}

fn have_same_keys(one: &Cells, other: &Cells, events: &Events<'_, '_, '_>) -> bool {
    let keys = |cells: &Cells| events.cells.get(cells.clone()).unwrap_or_default().iter().map(|(key, _)| *key);
    keys(one).eq(keys(other))
}

/// Reads the columns of an image, which stand together, into cells; `start` is what comes before the first.
fn image<'a>(row: &mut Reader<'a>, image: u8, start: ShapeId, events: &mut Events<'a, '_, '_>) -> Result<ImageEnd> {
    let first = events.cells.len();
    let mut end = ImageEnd { shape: start, is_exact: true, is_present: false };
    while let Some(column) = row.repeated(image)? {
        end.is_present = true;
        match as_before(column.rest(), end.shape, events) {
            Some(shape) => end.shape = shape,
            None => in_full(column, &mut end, events)?,
        }
    }
    let cells = first..events.cells.len();
    events.images.push(end.is_present.then_some(cells));
    Ok(end)
}

/// Reads a column that is as the one in its place was last time, but for its value.
#[inline(always)]
fn as_before<'a>(column: &'a [u8], previous: ShapeId, events: &mut Events<'a, '_, '_>) -> Option<ShapeId> {
    let (id, shape) = events.shapes.following(previous)?;
    let value = value_in(shape.between(column)?)?;
    if shape.wanted {
        let value = match value {
            Some(value) => Value::Text(utf8(value)?),
            None => Value::Null,
        };
        events.cells.push((shape.key, value));
    }
    Some(id)
}

/// The value in what differs between columns of one shape: `updated`, `isNull`, `value`. None if that is not all.
#[inline(always)]
fn value_in(bytes: &[u8]) -> Option<Option<&[u8]>> {
    const UPDATED: u8 = 5 << 3;
    const IS_NULL: u8 = 6 << 3;
    const VALUE: u8 = 8 << 3 | 2;
    let bytes = match bytes {
        [UPDATED, 0..=1, rest @ ..] => rest,
        _ => bytes,
    };
    match bytes {
        [IS_NULL, 0, VALUE, rest @ ..] | [VALUE, rest @ ..] => with_length(rest).map(Some),
        [IS_NULL, 1] => Some(None),
        [IS_NULL, 0] | [] => Some(Some(&[])),
        _ => None,
    }
}

/// All the bytes behind a length, if they are as many.
#[inline(always)]
fn with_length(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = match bytes {
        [length @ 0..0x80, rest @ ..] => (usize::from(*length), rest),
        [low, high @ 0..0x80, rest @ ..] => (usize::from(*high) << 7 | usize::from(*low & 0x7F), rest),
        _ => {
            let mut reader = Reader::new(bytes);
            (usize::try_from(reader.varint().ok()?).ok()?, reader.rest())
        }
    };
    (rest.len() == length).then_some(rest)
}

/// Reads a column field by field.
#[inline(never)]
fn in_full<'a>(column: Reader<'a>, end: &mut ImageEnd, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let column = Column::read(column)?;
    let key = events.keys.plain(column.name, events.shapes.key(end.shape));
    let wanted = events.wants_cell(key);
    if wanted {
        events.cells.push((key, column.value()?));
    }
    let previous = end.shape;
    end.is_exact &= column.around.is_some();
    end.shape = match events.shapes.following(previous) {
        // The same column, described in another way: an unsigned value that needs a wider type than the last one.
        Some((shape, found)) if found.key == key => {
            end.is_exact = false;
            shape
        }
        _ => events.shapes.add(Shape::new(key, wanted, column.around), previous),
    };
    Ok(())
}

/// A column of a row image.
struct Column<'a> {
    name: &'a str,
    jdbc_type: i32,
    is_key: bool,
    is_null: bool,
    value: Reader<'a>,
    mysql_type: &'a str,
    /// The bytes before and behind what differs from row to row, if its fields stand in their order.
    around: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> Column<'a> {
    fn read(column: Reader<'a>) -> Result<Self> {
        let nothing = Reader::new(&[]);
        let mut found = Column { name: "", jdbc_type: 0, is_key: false, is_null: false, value: nothing, mysql_type: "", around: None };
        let mut order = Order::default();
        column.fields(COLUMN, |field| {
            order.note(field.number, field.at);
            match field.number {
                2 => found.jdbc_type = field.varint() as i32,
                3 => found.name = field.text()?,
                4 => found.is_key = field.flag(),
                6 => found.is_null = field.flag(),
                VALUE => found.value = field.bytes(),
                10 => found.mysql_type = field.text()?,
                _ => {}
            }
            Ok(())
        })?;
        if found.name.is_empty() {
            return Err(Fault::new(Kind::Envelope, "a column without a name").at(column.at()));
        }
        found.around = order.around(column);
        Ok(found)
    }

    fn value(&self) -> Result<Value<'a>> {
        if self.is_null {
            return Ok(Value::Null);
        }
        self.value.text().map(Value::Text).map_err(|fault| fault.within("value").within(self.name))
    }
}

/// Where what differs from row to row begins and ends in a column.
#[derive(Default)]
struct Order {
    last: u32,
    is_broken: bool,
    begin: Option<usize>,
    end: Option<usize>,
}

impl Order {
    fn note(&mut self, number: u32, at: usize) {
        self.is_broken |= number <= self.last;
        self.last = number;
        if number >= UPDATED {
            self.begin.get_or_insert(at);
        }
        if number > VALUE {
            self.end.get_or_insert(at);
        }
    }

    fn around<'a>(&self, column: Reader<'a>) -> Option<(&'a [u8], &'a [u8])> {
        let all = column.at() + column.rest().len();
        let end = self.end.unwrap_or(all);
        let (before, _) = column.split(self.begin.unwrap_or(end));
        let (_, behind) = column.split(end);
        (!self.is_broken).then_some((before, behind))
    }
}

impl<'a> LastRow<'a> {
    /// What the row says of its columns: usually what another one said already.
    fn describe(&self, images: &std::ops::Range<usize>, events: &mut Events<'a, '_, '_>) -> Result<Described<'a>> {
        let (before, after) = (events.image(images, images.len().wrapping_sub(2)), events.image(images, images.len().wrapping_sub(1)));
        let both = before.zip(after).is_some_and(|(before, after)| !have_same_keys(&before, &after, events));
        let (image, end) = if self.after.is_present { (AFTER, self.after) } else { (BEFORE, self.before) };
        if both {
            return describe(self.row, &[BEFORE, AFTER], events);
        }
        if let (true, Some(described)) = (end.is_exact, events.shapes.described(end.shape)) {
            return Ok(described.clone());
        }
        let described = describe(self.row, &[image], events)?;
        if end.is_exact {
            events.shapes.describe(end.shape, described.clone());
        }
        Ok(described)
    }
}

/// Key, declared types and JDBC's numbers of the columns of a row, each name once.
fn describe<'a>(row: Reader<'a>, images: &[u8], events: &mut Events<'a, '_, '_>) -> Result<Described<'a>> {
    let (mut seen, mut key, first_name) = (HashSet::new(), KeyId::START, events.names.len());
    let mut jdbc_types = String::from("{");
    events.types.start();
    row.fields(ROW_DATA, |field| {
        if !images.iter().any(|image| u32::from(*image) == field.number) {
            return Ok(());
        }
        let column = Column::read(field.bytes())?;
        key = events.keys.plain(column.name, key);
        if events.wants.types {
            events.types.declare(key, events.keys.column(key), column.mysql_type);
        }
        if seen.insert(key) {
            let comma = if seen.len() > 1 { "," } else { "" };
            jdbc_types += &format!("{comma}{}:{}", quoted(column.name), column.jdbc_type);
            if column.is_key {
                events.names.push(key);
            }
        }
        Ok(())
    })?;
    jdbc_types.push('}');
    let types = events.wants.types.then(|| events.types.finish(&[], key.index()));
    let primary_key = Some(first_name..events.names.len()).filter(|names| !names.is_empty());
    Ok(Described { types, primary_key, jdbc_types: events.arena.alloc_str(&jdbc_types) })
}

/// Whether bytes are one of canal's messages from the first to the last: known fields in their forms and nothing else, down to
/// the entries and their headers.
fn is_canal(message: &[u8]) -> bool {
    let message = Reader::new(message);
    !message.is_empty() && (is_packet(message) || is_messages(message) || is_entry(message))
}

fn is_packet(packet: Reader<'_>) -> bool {
    let (mut kind, mut compression, mut body) = (0, NONE, Reader::new(&[]));
    let is_message = packet.is_message(PACKET, |field| {
        match field.number {
            3 => kind = field.varint(),
            4 => compression = field.varint(),
            5 => body = field.bytes(),
            _ => return field.varint() <= u32::MAX.into(),
        }
        true
    });
    is_message
        && match (kind, compression) {
            (PACKET_MESSAGES, 0..=NONE) => body.is_empty() || is_messages(body),
            (PACKET_MESSAGES, other) => (other as usize) < COMPRESSIONS.len(),
            (PACKET_ACK, _) => body.is_message(ACK, |_| true),
            _ => false,
        }
}

fn is_messages(messages: Reader<'_>) -> bool {
    let mut entries = 0;
    let is_message = messages.is_message(MESSAGES, |field| {
        entries += usize::from(field.number == 2);
        field.number == 1 || is_entry(field.bytes())
    });
    is_message && entries > 0
}

fn is_entry(entry: Reader<'_>) -> bool {
    let mut has_header = false;
    let is_message = entry.is_message(ENTRY, |field| match field.number {
        1 => {
            has_header = !field.bytes().is_empty();
            field.bytes().is_message(HEADER, |_| true)
        }
        2 => field.varint() < ENTRY_TYPES.len() as u64,
        _ => true,
    });
    is_message && has_header
}
