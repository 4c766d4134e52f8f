//! canal-protobuf: what Alibaba canal sends with `flatMessage` off, and TiCDC's canal protocol.
//!
//! A Kafka value is a `Packet`, its body `Messages`, each of them an `Entry` of a header and a `RowChange`, which has a
//! `RowData` for each row with a `Column` for each value. In text:
//!
//! ```text
//! version: 1  type: MESSAGES  body { messages { header { logfileName: "mysql-bin.000001"  logfileOffset: 3696  serverId: 21
//!   executeTime: 1795229482000  schemaName: "shop"  tableName: "orders"  eventType: INSERT }  entryType: ROWDATA
//!   storeValue { eventType: INSERT  rowDatas { afterColumns { index: 0  sqlType: -5  name: "id"  isKey: true  updated: true
//!     isNull: false  value: "1"  mysqlType: "bigint" } } } } }
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
use crate::wire::protobuf::{Field, Reader, Tag};
use crate::wire::utf8::is_utf8;

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
    template: None,
};

const NAME: &str = "canal-protobuf";

/// Alibaba canal: declared types are the DDL's own text.
static CANAL: Quirks = Quirks { dialect: NAME, declares_lengths: true, writes: Writes::Text };
/// TiCDC leaves the parameters of types out.
static TIDB: Quirks = Quirks { dialect: NAME, declares_lengths: false, writes: Writes::Text };

fn variant(_: &str) -> Variant {
    Variant { quirks: &CANAL, quoting: Quoting::Backticks }
}

/// Fields of a message of `CanalProtocol.proto` or `EntryProtocol.proto`, by the names that canal gives them.
macro_rules! message {
    ($message:ident { $($number:literal $name:ident: $form:ident,)* }) => {
        #[expect(non_upper_case_globals, reason = "as canal spells them")]
        mod $message {
            use crate::wire::protobuf::{self, Known, Tag};
            $(pub const $name: Tag = protobuf::$form($number);)*
            pub const KNOWN: &[Known] = &[$(Known { tag: $name, name: stringify!($name) }),*];
        }
    };
}

message!(packet {
    1 magic_number: number,
    2 version: number,
    3 r#type: number,
    4 compression: number,
    5 body: bytes,
});

message!(batch {
    1 batch_id: number,
    // Entries.
    2 messages: bytes,
});

message!(ack {
    1 error_code: number,
    2 error_message: bytes,
});

message!(entry {
    1 header: bytes,
    2 entryType: number,
    // A RowChange, TransactionBegin, TransactionEnd or Pair.
    3 storeValue: bytes,
});

message!(header {
    1 version: number,
    2 logfileName: bytes,
    3 logfileOffset: number,
    4 serverId: number,
    5 serverenCode: bytes,
    // Milliseconds.
    6 executeTime: number,
    7 sourceType: number,
    // May be quoted with backticks in a DDL.
    8 schemaName: bytes,
    9 tableName: bytes,
    10 eventLength: number,
    11 eventType: number,
    12 props: bytes,
    // All that was executed so far, not only this transaction.
    13 gtid: bytes,
});

message!(pair {
    1 key: bytes,
    2 value: bytes,
});

// TransactionBegin and TransactionEnd.
message!(transaction {
    1 executeTime: number,
    2 transactionId: bytes,
    3 props: bytes,
    4 threadId: number,
});

message!(row_change {
    1 tableId: number,
    2 eventType: number,
    10 isDdl: number,
    11 sql: bytes,
    12 rowDatas: bytes,
    13 props: bytes,
    // Where a statement was executed, which need not be where its table is.
    14 ddlSchemaName: bytes,
});

message!(row_data {
    1 beforeColumns: bytes,
    2 afterColumns: bytes,
    3 props: bytes,
});

message!(column {
    1 index: number,
    // JDBC's number of a type; of an unsigned value that needs it, of the next wider type.
    2 sqlType: number,
    3 name: bytes,
    4 isKey: number,
    // Says nothing that the values do not.
    5 updated: number,
    6 isNull: number,
    7 props: bytes,
    // Absent for NULL, and where TiCDC has empty text.
    8 value: bytes,
    9 length: number,
    // The declared type.
    10 mysqlType: bytes,
});

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
const ROW_DATA: u64 = 2;
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
const MOST_ENTRIES: usize = 1 << 18;

fn read<'a>(bytes: &'a [u8], reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    if bytes.is_empty() {
        return Err(Fault::new(Kind::Syntax, "the message is empty").at(0));
    }
    let message = Reader::new(bytes);
    match whole(message)? {
        Whole::Packet => packet(message, reading, events),
        Whole::Messages => messages(message, reading, events),
        Whole::Entry => entry(message, &mut Texts::default(), reading, events),
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
        match field.tag {
            entry::header => return Ok(Whole::Entry),
            batch::messages => return Ok(Whole::Messages),
            batch::batch_id => has_batch = true,
            packet::version | packet::r#type | packet::compression | packet::body => return Ok(Whole::Packet),
            _ => {}
        }
    }
    if has_batch { Ok(Whole::Messages) } else { Err(Fault::new(Kind::Envelope, "neither a Packet nor Messages nor an Entry").at(0)) }
}

fn packet<'a>(message: Reader<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let (mut kind, mut compression, mut body) = (0, NONE, Reader::new(&[]));
    message.fields(packet::KNOWN, |tag, reader| {
        match tag {
            packet::r#type => kind = reader.varint()?,
            packet::compression => compression = reader.varint()?,
            packet::body => body = reader.bytes()?,
            _ => reader.skip(tag, packet::KNOWN)?,
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
    let read = body.fields(ack::KNOWN, |tag, reader| {
        match tag {
            ack::error_code => code = reader.varint()?,
            ack::error_message => text = reader.text()?,
            _ => reader.skip(tag, ack::KNOWN)?,
        }
        Ok(())
    });
    match read {
        Ok(()) => refused("type", format!("expected MESSAGES, found an ACK with error code {}: {}", code as i32, excerpt(text))),
        Err(fault) => fault.within("body"),
    }
}

fn messages<'a>(message: Reader<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let first = events.envelopes.len();
    let (mut batch, mut entries, mut last) = (None, 0, Texts::default());
    message.fields(batch::KNOWN, |tag, reader| {
        match tag {
            batch::batch_id => batch = Some(reader.varint()? as i64),
            batch::messages => {
                let read = entry(reader.bytes()?, &mut last, reading, events);
                read.map_err(|fault| fault.within(&entries.to_string()))?;
                entries += 1;
            }
            _ => reader.skip(tag, batch::KNOWN)?,
        }
        if entries > MOST_ENTRIES {
            return Err(Fault::new(Kind::Size, format!("more than {MOST_ENTRIES} entries in one message")).at(reader.at()));
        }
        Ok(())
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

fn entry<'a>(message: Reader<'a>, last: &mut Texts<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    let (mut header, mut kind, mut content) = (Reader::new(&[]), ROW_DATA, Reader::new(&[]));
    message.fields(entry::KNOWN, |tag, reader| {
        match tag {
            entry::header => header = reader.bytes()?,
            entry::entryType => kind = reader.varint()?,
            entry::storeValue => content = reader.bytes()?,
            _ => reader.skip(tag, entry::KNOWN)?,
        }
        Ok(())
    })?;
    let header = Header::read(header, last).map_err(|fault| fault.within("header"))?;
    let read = match kind {
        0 | ROW_DATA => Change::new(header, events).read(content, reading, events),
        TRANSACTION_BEGIN | TRANSACTION_END => transaction(content, kind, &header, reading, events),
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
    header: &Header<'a>,
    reading: &Reading<'_, 'a>,
    events: &mut Events<'a, '_, '_>,
) -> Result<()> {
    let (mut id, mut xa) = (None, Xa::default());
    content.fields(transaction::KNOWN, |tag, reader| {
        match tag {
            transaction::transactionId => id = Some(reader.text()?),
            transaction::props => xa.read(reader.bytes()?)?,
            _ => reader.skip(tag, transaction::KNOWN)?,
        }
        Ok(())
    })?;
    let op = match kind {
        TRANSACTION_BEGIN => Op::Begin,
        // What it did can still be rolled back.
        _ if xa.kind == Some("XA END") => Op::Other,
        _ => Op::Commit,
    };
    header.mark(op, kind, xa.id.or(id), reading, events);
    Ok(())
}

/// A GTIDLOG has a pair, in which canal's `LogEventConvert` may have written another key over that of the GTID.
fn gtid<'a>(content: Reader<'a>, mut header: Header<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
    if let ("gtid", gtid) = pair(content)? {
        header.gtid = gtid;
    }
    header.mark(Op::Gtid, GTID_LOG, None, reading, events);
    Ok(())
}

/// Key and value.
fn pair<'a>(message: Reader<'a>) -> Result<(&'a str, &'a str)> {
    let (mut key, mut value) = ("", "");
    message.fields(pair::KNOWN, |tag, reader| {
        match tag {
            pair::key => key = reader.text()?,
            pair::value => value = reader.text()?,
            _ => reader.skip(tag, pair::KNOWN)?,
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
    version: Option<u64>,
    file: &'a str,
    position: Option<i64>,
    server_id: Option<i64>,
    event_time: Option<i64>,
    source_type: u64,
    database: &'a str,
    table: &'a str,
    event_type: Option<u64>,
    /// What was executed so far, if canal reads from a GTID; else the GTID of this transaction, if the server has them.
    gtid: &'a str,
}

/// What the entries of a batch repeat.
#[derive(Default)]
struct Texts<'a> {
    file: &'a str,
    database: &'a str,
    table: &'a str,
}

/// Text that is usually the last one.
#[inline]
fn again<'a>(bytes: Reader<'a>, last: &mut &'a str) -> Result<&'a str> {
    if bytes.rest() != last.as_bytes() {
        *last = bytes.as_text()?;
    }
    Ok(last)
}

impl<'a> Header<'a> {
    fn read(message: Reader<'a>, last: &mut Texts<'a>) -> Result<Self> {
        let mut found = Header::default();
        let mut current_gtid = "";
        message.fields(header::KNOWN, |tag, reader| {
            match tag {
                header::version => found.version = Some(reader.varint()?),
                header::logfileName => found.file = again(reader.bytes()?, &mut last.file)?,
                header::logfileOffset => found.position = Some(reader.varint()? as i64),
                header::serverId => found.server_id = Some(reader.varint()? as i64),
                header::executeTime => found.event_time = micros(reader.varint()?),
                header::sourceType => found.source_type = reader.varint()?,
                header::schemaName => found.database = again(reader.bytes()?, &mut last.database)?,
                header::tableName => found.table = again(reader.bytes()?, &mut last.table)?,
                header::eventType => found.event_type = event_type(reader.varint()?),
                header::props => current_gtid = gtid_of_transaction(reader.bytes()?)?.unwrap_or(current_gtid),
                header::gtid => found.gtid = reader.text()?,
                _ => reader.skip(tag, header::KNOWN)?,
            }
            Ok(())
        })?;
        if found.gtid.is_empty() {
            found.gtid = current_gtid;
        }
        Ok(found)
    }

    /// An envelope of one of the tables, or of none.
    fn envelope(&self, operation: Cow<'a, str>, transaction: Option<&'a str>, reading: &Reading<'_, 'a>) -> Envelope<'a> {
        // TiCDC knows no log of a server.
        let (quirks, quoting) =
            if self.file.is_empty() { (&TIDB, Quoting::None) } else { (reading.variant.quirks, reading.variant.quoting) };
        let source = Source {
            event_time: self.event_time,
            operation: Some(operation),
            file: not_empty(self.file),
            position: self.position,
            gtid: not_empty(self.gtid),
            transaction_id: transaction.and_then(not_empty),
            ..Source::default()
        };
        Envelope {
            database: Some(quoting.undo(self.database)),
            table: Some(quoting.undo(self.table)),
            connector: Some(word(&SOURCE_TYPES, self.source_type)),
            server_id: self.server_id,
            version: self.version.map(version),
            source,
            ..Envelope::empty(quirks)
        }
    }

    /// Adds the row of an entry that is no change.
    fn mark(&self, op: Op, kind: u64, transaction: Option<&'a str>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) {
        let operation = self.event_type.map_or_else(|| word(&ENTRY_TYPES, kind), |event| word(&EVENT_TYPES, event));
        let mut envelope = self.envelope(operation, transaction, reading);
        for name in [&mut envelope.database, &mut envelope.table] {
            *name = name.take().filter(|name| !name.is_empty());
        }
        let envelope = events.envelope(envelope);
        events.row(op, envelope, None, None);
    }
}

/// The first one stands for nothing.
fn event_type(number: u64) -> Option<u64> {
    Some(number).filter(|number| *number != 0)
}

fn not_empty(text: &str) -> Option<Cow<'_, str>> {
    (!text.is_empty()).then_some(Cow::Borrowed(text))
}

/// Of the protocol: 1 in all that is known.
fn version(number: u64) -> Cow<'static, str> {
    if number == 1 { "1".into() } else { number.to_string().into() }
}

/// From milliseconds.
fn micros(millis: u64) -> Option<i64> {
    (millis as i64).checked_mul(1000).filter(|micros| *micros != 0)
}

/// The GTID of the one transaction.
fn gtid_of_transaction<'a>(props: Reader<'a>) -> Result<Option<&'a str>> {
    let (key, value) = pair(props)?;
    Ok((key == "curtGtid").then_some(value))
}

/// A RowChange as far as it is read: the rows of one table that one statement changed, or a statement.
struct Change<'a> {
    header: Header<'a>,
    event_type: Option<u64>,
    is_ddl: bool,
    sql: &'a str,
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
    fn new(header: Header<'a>, events: &mut Events<'a, '_, '_>) -> Self {
        events.shapes.trim();
        let starts = events.shapes.starts(header.database, header.table);
        let first_image = events.images.len();
        Change { header, event_type: None, is_ddl: false, sql: "", xa: Xa::default(), starts, first_image, last_row: None }
    }

    fn read(mut self, content: Reader<'a>, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        content.fields(row_change::KNOWN, |tag, reader| {
            match tag {
                row_change::eventType => self.event_type = event_type(reader.varint()?),
                row_change::isDdl => self.is_ddl = reader.flag()?,
                row_change::sql => self.sql = reader.text()?,
                row_change::rowDatas => self.row(reader.bytes()?, events)?,
                row_change::props => self.xa.read(reader.bytes()?)?,
                row_change::ddlSchemaName if self.header.database.is_empty() => self.header.database = reader.text()?,
                _ => reader.skip(tag, row_change::KNOWN)?,
            }
            Ok(())
        })?;
        self.emit(reading, events)
    }

    fn row(&mut self, row: Reader<'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let mut rest = row;
        let [before, after] = self.starts;
        let before = image(&mut rest, row_data::beforeColumns, before, events).map_err(|fault| fault.within("beforeColumns"))?;
        let after = image(&mut rest, row_data::afterColumns, after, events).map_err(|fault| fault.within("afterColumns"))?;
        rest.fields(row_data::KNOWN, |tag, reader| match tag {
            row_data::beforeColumns | row_data::afterColumns => {
                Err(Fault::new(Kind::Envelope, "stands apart from the other columns of its image").at(reader.at()))
            }
            _ => reader.skip(tag, row_data::KNOWN),
        })?;
        self.last_row = Some(LastRow { row, before, after });
        Ok(())
    }

    fn emit(&self, reading: &Reading<'_, 'a>, events: &mut Events<'a, '_, '_>) -> Result<()> {
        let operation = word(&EVENT_TYPES, self.event_type.or(self.header.event_type).unwrap_or(UPDATE));
        let op = canal_json::op_of(&operation, self.is_ddl);
        let images = self.first_image..events.images.len();
        // A statement that canal logged as text has a row's type, but no rows.
        let is_statement = op.is_row_change() && images.is_empty() && !self.sql.is_empty();
        if op.is_row_change() && images.is_empty() && !is_statement {
            return Err(Fault::new(Kind::Envelope, format!("{} without a row", op.name())).within("rowDatas"));
        }
        let mut envelope = self.header.envelope(operation, self.xa.id, reading);
        // Empty where there is no statement.
        envelope.sql = (self.is_ddl || !self.sql.is_empty()).then_some(Cow::Borrowed(self.sql));
        if let (true, Some(row)) = (op.is_row_change(), &self.last_row) {
            let described = row.describe(&images, events)?;
            (envelope.types, envelope.primary_key) = (described.types, described.primary_key);
            envelope.jdbc_types = Some(described.jdbc_types.into());
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
fn image<'a>(row: &mut Reader<'a>, image: Tag, start: ShapeId, events: &mut Events<'a, '_, '_>) -> Result<ImageEnd> {
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
            Some(value) if is_utf8(value) => Value::Plain(value),
            Some(_) => return None,
            None => Value::Null,
        };
        events.cells.push((shape.key, value));
    }
    Some(id)
}

/// The value in what differs between columns of one shape: `updated`, `isNull`, `value`. None if that is not all.
#[inline(always)]
fn value_in(bytes: &[u8]) -> Option<Option<&[u8]>> {
    const UPDATED: u8 = column::updated as u8;
    const IS_NULL: u8 = column::isNull as u8;
    const VALUE: u8 = column::value as u8;
    let bytes = match bytes {
        // What canal writes.
        [UPDATED, 0..=1, IS_NULL, 0, VALUE, length @ 0..0x80, value @ ..] => {
            return (value.len() == usize::from(*length)).then_some(Some(value));
        }
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
    fn read(message: Reader<'a>) -> Result<Self> {
        let nothing = Reader::new(&[]);
        let mut found = Column { name: "", jdbc_type: 0, is_key: false, is_null: false, value: nothing, mysql_type: "", around: None };
        let mut order = Order::default();
        let mut at = message.at();
        message.fields(column::KNOWN, |tag, reader| {
            order.note(tag, at);
            match tag {
                column::sqlType => found.jdbc_type = reader.varint()? as i32,
                column::name => found.name = reader.text()?,
                column::isKey => found.is_key = reader.flag()?,
                column::isNull => found.is_null = reader.flag()?,
                column::value => found.value = reader.bytes()?,
                column::mysqlType => found.mysql_type = reader.text()?,
                _ => reader.skip(tag, column::KNOWN)?,
            }
            at = reader.at();
            Ok(())
        })?;
        if found.name.is_empty() {
            return Err(Fault::new(Kind::Envelope, "a column without a name").at(message.at()));
        }
        found.around = order.around(message);
        Ok(found)
    }

    fn value(&self) -> Result<Value<'a>> {
        if self.is_null {
            return Ok(Value::Null);
        }
        self.value.as_plain().map(Value::Plain).map_err(|fault| fault.within("value").within(self.name))
    }
}

/// Where what differs from row to row begins and ends in a column.
#[derive(Default)]
struct Order {
    last: Tag,
    is_broken: bool,
    begin: Option<usize>,
    end: Option<usize>,
}

impl Order {
    fn note(&mut self, tag: Tag, at: usize) {
        self.is_broken |= tag <= self.last;
        self.last = tag;
        if tag >= column::updated {
            self.begin.get_or_insert(at);
        }
        if tag > column::value {
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
        let (image, end) =
            if self.after.is_present { (row_data::afterColumns, self.after) } else { (row_data::beforeColumns, self.before) };
        if both {
            return describe(self.row, &[row_data::beforeColumns, row_data::afterColumns], events);
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
fn describe<'a>(row: Reader<'a>, images: &[Tag], events: &mut Events<'a, '_, '_>) -> Result<Described<'a>> {
    let (mut seen, mut key, first_name) = (HashSet::new(), KeyId::START, events.names.len());
    let (mut jdbc_types, wants_jdbc_types) = (String::from("{"), events.wants.jdbc_types);
    events.types.start();
    row.fields(row_data::KNOWN, |tag, reader| {
        if !images.contains(&tag) {
            return reader.skip(tag, row_data::KNOWN);
        }
        let column = Column::read(reader.bytes()?)?;
        key = events.keys.plain(column.name, key);
        if events.wants.types {
            events.types.declare(key, events.keys.column(key), column.mysql_type);
        }
        if seen.insert(key) {
            if wants_jdbc_types {
                jdbc_types += if seen.len() > 1 { "," } else { "" };
                jdbc_types += &quoted(column.name);
                jdbc_types.push(':');
                jdbc_types += &column.jdbc_type.to_string();
            }
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

fn is_packet(message: Reader<'_>) -> bool {
    let (mut version, mut kind, mut compression, mut body) = (0, 0, NONE, Reader::new(&[]));
    let is_message = message.is_message(packet::KNOWN, |field| {
        match field.tag {
            packet::version => version = field.varint,
            packet::r#type => kind = field.varint,
            packet::compression => compression = field.varint,
            packet::body => body = field.bytes,
            _ => {}
        }
        true
    });
    is_message
        && match (kind, compression) {
            // The empty packets that canal sends have a version.
            (PACKET_MESSAGES, 0..=NONE) => is_messages(body) || body.is_empty() && version == 1,
            (PACKET_MESSAGES, other) => other < COMPRESSIONS.len() as u64 && !body.is_empty(),
            (PACKET_ACK, _) => !body.is_empty() && body.is_message(ack::KNOWN, |_| true),
            _ => false,
        }
}

fn is_messages(message: Reader<'_>) -> bool {
    let mut entries = 0;
    let is_message = message.is_message(batch::KNOWN, |field| {
        entries += usize::from(field.tag == batch::messages);
        // Others are like the first one.
        field.tag == batch::batch_id || if entries == 1 { is_entry(field.bytes) } else { is_entry_with(field.bytes, |_| true) }
    });
    is_message && entries > 0
}

fn is_entry(message: Reader<'_>) -> bool {
    is_entry_with(message, |header| !header.is_empty() && header.is_message(header::KNOWN, |_| true))
}

/// Whether this is an entry of a kind, with a header that passes the `test`: canal and TiCDC always write both.
fn is_entry_with<'a>(message: Reader<'a>, test: impl Fn(Reader<'a>) -> bool) -> bool {
    let (mut has_header, mut has_kind) = (false, false);
    let is_message = message.is_message(entry::KNOWN, |Field { tag, varint, bytes }| {
        has_header |= *tag == entry::header;
        has_kind |= *tag == entry::entryType;
        match *tag {
            entry::header => test(*bytes),
            entry::entryType => *varint < ENTRY_TYPES.len() as u64,
            _ => true,
        }
    });
    is_message && has_header && has_kind
}
