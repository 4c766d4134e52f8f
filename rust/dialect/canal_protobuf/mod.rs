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

mod column_cache;
mod columns;
mod proto;

use std::borrow::Cow;

pub(super) use column_cache::ColumnCache;
use columns::Change;
use proto::{
    COMPRESSIONS, ENTRY_TYPES, EVENT_TYPES, GTID_LOG, HEARTBEAT, NONE, PACKET_ACK, PACKET_MESSAGES, PACKET_TYPES, ROW_DATA, SOURCE_TYPES,
    TRANSACTION_BEGIN, TRANSACTION_END, ack, batch, entry, header, is_canal, packet, pair, transaction, word,
};

use super::{Caches, Dialect, Marks, Read, ReadContext, Variant, Wire};
use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::{Envelope, Events, Op, Quirks, Source, ValueFormat};
use crate::interner::Quoting;
use crate::wire::protobuf::Reader;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "Alibaba canal (flatMessage off), TiCDC (canal protocol)",
    wire: Wire::Protobuf,
    description: "Alibaba canal's Message in protobuf: packets of entries",
    marks: Marks::Bytes(is_canal),
    variant,
    read: Read::Bytes(read),
    template: None,
};

const NAME: &str = "canal-protobuf";

/// Alibaba canal: declared types are the DDL's own text.
static CANAL: Quirks = Quirks { dialect: NAME, declares_lengths: true, format: ValueFormat::Text };
/// TiCDC leaves the parameters of types out.
static TIDB: Quirks = Quirks { dialect: NAME, declares_lengths: false, format: ValueFormat::Text };

fn variant(_: &str) -> Variant {
    Variant { quirks: &CANAL, quoting: Quoting::Backticks }
}

/// How many entries one message may have: far more than canal's own buffer holds.
const MOST_ENTRIES: usize = 1 << 18;

/// What a message is read with, and where its changes go.
struct Context<'c, 'r, 'a, 's, 'k> {
    reading: &'c ReadContext<'r, 'a>,
    events: &'c mut Events<'a, 's, 'k>,
    columns: &'c mut ColumnCache<'a>,
}

fn read<'a>(bytes: &'a [u8], reading: &ReadContext<'_, 'a>, events: &mut Events<'a, '_, '_>, caches: &mut Caches<'a>) -> Result<()> {
    if bytes.is_empty() {
        return Err(Fault::new(Kind::Syntax, "the message is empty").at(0));
    }
    let message = Reader::new(bytes);
    let context = &mut Context { reading, events, columns: &mut caches.canal_protobuf };
    match whole(message)? {
        Whole::Packet => packet(message, context),
        Whole::Messages => messages(message, context),
        Whole::Entry => entry(message, &mut Texts::default(), context),
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

fn packet<'a>(message: Reader<'a>, context: &mut Context<'_, '_, 'a, '_, '_>) -> Result<()> {
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
        PACKET_MESSAGES if compression <= NONE => messages(body, context).map_err(|fault| fault.within("body")),
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

fn messages<'a>(message: Reader<'a>, context: &mut Context<'_, '_, 'a, '_, '_>) -> Result<()> {
    let first = context.events.envelopes.len();
    let (mut batch, mut entries, mut last) = (None, 0, Texts::default());
    message.fields(batch::KNOWN, |tag, reader| {
        match tag {
            batch::batch_id => batch = Some(reader.varint()? as i64),
            batch::messages => {
                let read = entry(reader.bytes()?, &mut last, context);
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
        let mut envelope = Envelope::empty(context.reading.variant.quirks);
        envelope.source.operation = Some("MESSAGES".into());
        let envelope = context.events.envelope(envelope);
        context.events.row(Op::Other, envelope, None, None);
    }
    for envelope in context.events.envelopes.get_mut(first..).into_iter().flatten() {
        envelope.source.message_id = batch;
    }
    Ok(())
}

fn entry<'a>(message: Reader<'a>, last: &mut Texts<'a>, context: &mut Context<'_, '_, 'a, '_, '_>) -> Result<()> {
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
        0 | ROW_DATA => Change::new(header, context).read(content, context),
        TRANSACTION_BEGIN | TRANSACTION_END => transaction(content, kind, &header, context),
        GTID_LOG => gtid(content, header, context),
        _ => {
            let op = if kind == HEARTBEAT { Op::Heartbeat } else { Op::Other };
            header.mark(op, kind, None, context);
            Ok(())
        }
    };
    read.map_err(|fault| fault.within("storeValue"))
}

/// A mark of a transaction.
fn transaction<'a>(content: Reader<'a>, kind: u64, header: &Header<'a>, context: &mut Context<'_, '_, 'a, '_, '_>) -> Result<()> {
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
    header.mark(op, kind, xa.id.or(id), context);
    Ok(())
}

/// A GTIDLOG has a pair, in which canal's `LogEventConvert` may have written another key over that of the GTID.
fn gtid<'a>(content: Reader<'a>, mut header: Header<'a>, context: &mut Context<'_, '_, 'a, '_, '_>) -> Result<()> {
    if let ("gtid", gtid) = pair(content)? {
        header.gtid = gtid;
    }
    header.mark(Op::Gtid, GTID_LOG, None, context);
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
    fn envelope(&self, operation: Cow<'a, str>, transaction: Option<&'a str>, reading: &ReadContext<'_, 'a>) -> Envelope<'a> {
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
    fn mark(&self, op: Op, kind: u64, transaction: Option<&'a str>, context: &mut Context<'_, '_, 'a, '_, '_>) {
        let operation = self.event_type.map_or_else(|| word(&ENTRY_TYPES, kind), |event| word(&EVENT_TYPES, event));
        let mut envelope = self.envelope(operation, transaction, context.reading);
        for name in [&mut envelope.database, &mut envelope.table] {
            *name = name.take().filter(|name| !name.is_empty());
        }
        let envelope = context.events.envelope(envelope);
        context.events.row(op, envelope, None, None);
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
