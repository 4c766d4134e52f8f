//! canal-protobuf: messages of Alibaba canal with `flatMessage` off, and TiCDC's canal protocol.
//!
//! A Kafka value is a `Packet`, whose body is a `Messages` with several `Entry` messages. An `Entry` has a header and a
//! `RowChange`. A `RowChange` has a `RowData` per row, and a `RowData` a `Column` per value. In text:
//!
//! ```text
//! version: 1  type: MESSAGES  body { messages { header { logfileName: "mysql-bin.000001"  logfileOffset: 3696  serverId: 21
//!   executeTime: 1795229482000  schemaName: "shop"  tableName: "orders"  eventType: INSERT }  entryType: ROWDATA
//!   storeValue { eventType: INSERT  rowDatas { afterColumns { index: 0  sqlType: -5  name: "id"  isKey: true  updated: true
//!     isNull: false  value: "1"  mysqlType: "bigint" } } } } }
//! ```
//!
//! canal's `CanalMessageSerializerUtil` writes one packet for all entries of a batch: many tables, many transactions.
//! Its raw branch omits the version and writes the batch's id. A bare `Messages` or `Entry` is read too. Optional
//! fields have the defaults in the comments of the .proto files: an absent `eventType` is UPDATE, an absent `entryType`
//! ROWDATA. Values have the form of canal-json. TiCDC's `BatchEncoder` writes entries of rows and DDL, without a binlog
//! position.

mod column_cache;
mod columns;
mod proto;

use std::borrow::Cow;

pub(super) use column_cache::ColumnCache;
use columns::Change;
use proto::{
    COMPRESSIONS, ENTRY_TYPES, GTID_LOG, HEARTBEAT, NONE, PACKET_ACK, PACKET_MESSAGES,
    PACKET_TYPES, ROW_DATA, SOURCE_TYPES, TRANSACTION_BEGIN, TRANSACTION_END, ack, batch, entry,
    enum_name, event_name, header, is_canal, packet, pair, transaction,
};

use super::{Caches, Dialect, Marks, Read, ReadContext, Wire};
use crate::error::{Fault, Kind, Result, excerpt};
use crate::event::{Envelope, Events, Op, Quirks, ValueFormat};
use crate::interner::Quoting;
use crate::wire::protobuf::Reader;

pub(super) const DIALECT: Dialect = Dialect {
    name: NAME,
    aliases: &[],
    producer: "Alibaba canal (flatMessage off), TiCDC (canal protocol)",
    wire: Wire::Protobuf,
    description: "Alibaba canal's Message in protobuf: packets of entries",
    marks: Marks::Bytes(is_canal),
    quirks: |_| &CANAL,
    read: Read::Bytes(read),
    options: &[],
    template: None,
};

const NAME: &str = "canal-protobuf";

/// Alibaba canal. Declared types are the DDL's own text.
static CANAL: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: true,
    format: ValueFormat::Text,
    quoting: Quoting::Backticks,
};
/// TiCDC omits the parameters of types.
static TIDB: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Text,
    quoting: Quoting::None,
};

/// Maximum number of entries in one message: far more than canal's own buffer holds.
const MAX_ENTRIES: usize = 1 << 18;

/// Input and output of reading a message.
struct EntryContext<'c, 'r, 'a> {
    reading: &'c ReadContext<'r, 'a>,
    events: &'c mut Events<'a>,
    /// The whole message.
    message: &'a [u8],
    columns: &'c mut ColumnCache,
}

fn read<'a>(
    bytes: &'a [u8],
    reading: &ReadContext<'_, 'a>,
    events: &mut Events<'a>,
    caches: &mut Caches<'a>,
) -> Result<()> {
    if bytes.is_empty() {
        return Err(Fault::new(Kind::Syntax, "the message is empty").at(0));
    }
    let message = Reader::new(bytes);
    let context = &mut EntryContext {
        reading,
        events,
        message: bytes,
        columns: &mut caches.kept.canal_protobuf,
    };
    match message_type(message)? {
        MessageType::Packet => packet(message, context),
        MessageType::Messages => messages(message, context),
        MessageType::Entry => entry(message, &mut LastTexts::default(), context),
    }
}

/// Message type of a Kafka value.
enum MessageType {
    Packet,
    Messages,
    Entry,
}

/// Determines the message type by the first field that only one type has.
fn message_type(mut message: Reader<'_>) -> Result<MessageType> {
    let mut has_batch = false;
    while let Some(field) = message.next()? {
        match field.tag {
            entry::header => return Ok(MessageType::Entry),
            batch::messages => return Ok(MessageType::Messages),
            batch::batch_id => has_batch = true,
            packet::version | packet::r#type | packet::compression | packet::body => {
                return Ok(MessageType::Packet);
            }
            _ => {}
        }
    }
    if has_batch {
        Ok(MessageType::Messages)
    } else {
        Err(Fault::new(Kind::Envelope, "expected a Packet, Messages or an Entry").at(0))
    }
}

fn packet<'a>(message: Reader<'a>, context: &mut EntryContext<'_, '_, 'a>) -> Result<()> {
    let (mut kind, mut compression, mut body) = (0, NONE, None);
    message.fields(packet::KNOWN, |tag, reader| {
        match tag {
            packet::r#type => kind = reader.varint()?,
            packet::compression => compression = reader.varint()?,
            packet::body => once(&mut body, reader)?,
            _ => reader.skip(tag, packet::KNOWN)?,
        }
        Ok(())
    })?;
    let body = body.unwrap_or(Reader::new(&[]));
    match kind {
        PACKET_MESSAGES if compression <= NONE => {
            messages(body, context).map_err(|fault| fault.within("body"))
        }
        PACKET_MESSAGES => Err(envelope_fault(
            "compression",
            format!("{} is not supported", enum_name(&COMPRESSIONS, compression)),
        )),
        PACKET_ACK => Err(ack(body)),
        other => Err(envelope_fault(
            "type",
            format!(
                "expected MESSAGES, found {}",
                enum_name(&PACKET_TYPES, other)
            ),
        )),
    }
}

/// Reads a field that a message has once. protobuf takes the last value, but then a second message would replace the
/// first one's rows.
fn once<'a>(field: &mut Option<Reader<'a>>, reader: &mut Reader<'a>) -> Result<()> {
    let at = reader.at();
    match field.replace(reader.bytes()?) {
        None => Ok(()),
        Some(_) => Err(Fault::new(Kind::Envelope, "duplicate field").at(at)),
    }
}

fn envelope_fault(field: &str, what: String) -> Fault {
    Fault::new(Kind::Envelope, what).within(field)
}

/// Returns the fault of an ACK, the response of canal's server, which does not belong in a topic.
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
        Ok(()) => envelope_fault(
            "type",
            format!(
                "expected MESSAGES, found an ACK with error code {}: {}",
                code as i32,
                excerpt(text)
            ),
        ),
        Err(fault) => fault.within("body"),
    }
}

fn messages<'a>(message: Reader<'a>, context: &mut EntryContext<'_, '_, 'a>) -> Result<()> {
    let first = context.events.envelopes.len();
    let (mut batch, mut entries, mut last) = (None, 0, LastTexts::default());
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
        if entries > MAX_ENTRIES {
            return Err(Fault::new(
                Kind::Size,
                format!("more than {MAX_ENTRIES} entries in one message"),
            )
            .at(reader.at()));
        }
        Ok(())
    })?;
    if entries == 0 {
        // An empty batch remains if canal filters transaction marks and the batch has nothing else.
        let mut envelope = Envelope::empty(context.reading.quirks);
        envelope.source.operation = Some("MESSAGES".into());
        let envelope = context.events.envelope(envelope)?;
        context.events.row(Op::Other, envelope, None, None);
    }
    for envelope in context
        .events
        .envelopes
        .get_mut(first..)
        .into_iter()
        .flatten()
    {
        envelope.source.message_id = batch;
    }
    Ok(())
}

fn entry<'a>(
    message: Reader<'a>,
    last: &mut LastTexts<'a>,
    context: &mut EntryContext<'_, '_, 'a>,
) -> Result<()> {
    let mut rest = message;
    // A fault gets its path below.
    let (mut header, mut kind, mut content) = usual_entry(&mut rest).unwrap_or_else(|_| {
        rest = message;
        (None, ROW_DATA, None)
    });
    rest.fields(entry::KNOWN, |tag, reader| {
        match tag {
            entry::header => once(&mut header, reader)?,
            entry::entryType => kind = reader.varint()?,
            entry::storeValue => once(&mut content, reader)?,
            _ => reader.skip(tag, entry::KNOWN)?,
        }
        Ok(())
    })?;
    // Read the header in place: copying it costs as much as its fields.
    let empty = Reader::new(&[]);
    let (message, content, mut header) = (
        header.unwrap_or(empty),
        content.unwrap_or(empty),
        Header::default(),
    );
    header
        .read(message, last)
        .map_err(|fault| fault.within("header"))?;
    let read = match kind {
        0 | ROW_DATA => Change::new(&mut header, context).read(content, context),
        TRANSACTION_BEGIN | TRANSACTION_END => transaction(content, kind, &header, context),
        GTID_LOG => gtid(content, header, context),
        _ => {
            let op = if kind == HEARTBEAT {
                Op::Heartbeat
            } else {
                Op::Other
            };
            header.emit(op, kind, None, context)
        }
    };
    read.map_err(|fault| fault.within("storeValue"))
}

/// Reads an entry's header, type and content in the usual order: see [`Header::read_usual`].
#[inline(always)]
fn usual_entry<'a>(
    fields: &mut Reader<'a>,
) -> Result<(Option<Reader<'a>>, u64, Option<Reader<'a>>)> {
    let header = fields
        .eat(entry::header)
        .then(|| fields.bytes())
        .transpose()?;
    let kind = if fields.eat(entry::entryType) {
        fields.varint()?
    } else {
        ROW_DATA
    };
    let content = fields
        .eat(entry::storeValue)
        .then(|| fields.bytes())
        .transpose()?;
    Ok((header, kind, content))
}

/// Reads the begin or end of a transaction.
fn transaction<'a>(
    content: Reader<'a>,
    kind: u64,
    header: &Header<'a>,
    context: &mut EntryContext<'_, '_, 'a>,
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
        // An XA transaction can still be rolled back after its end.
        _ if xa.kind == Some("XA END") => Op::Other,
        _ => Op::Commit,
    };
    header.emit(op, kind, xa.id.or(id), context)
}

/// Reads a GTIDLOG. It is a pair, whose key canal's `LogEventConvert` may have overwritten.
fn gtid<'a>(
    content: Reader<'a>,
    mut header: Header<'a>,
    context: &mut EntryContext<'_, '_, 'a>,
) -> Result<()> {
    if let (b"gtid", gtid) = pair(content)? {
        header.gtid = gtid.as_text()?;
    }
    header.emit(Op::Gtid, GTID_LOG, None, context)
}

/// Reads a key and a value, both of which are UTF-8.
fn pair<'a>(message: Reader<'a>) -> Result<(&'a [u8], Reader<'a>)> {
    let (mut key, mut value) = (&[][..], Reader::new(&[]));
    message.fields(pair::KNOWN, |tag, reader| {
        match tag {
            pair::key => key = reader.bytes()?.as_utf8()?,
            pair::value => {
                value = reader.bytes()?;
                value.as_utf8()?;
            }
            _ => reader.skip(tag, pair::KNOWN)?,
        }
        Ok(())
    })?;
    Ok((key, value))
}

/// The `props` of an XA transaction.
#[derive(Default)]
struct Xa<'a> {
    kind: Option<&'a str>,
    id: Option<&'a str>,
}

impl<'a> Xa<'a> {
    fn read(&mut self, props: Reader<'a>) -> Result<()> {
        match pair(props)? {
            (b"XA_TYPE", kind) => self.kind = Some(kind.as_text()?),
            // The rest of the statement, with leading whitespace.
            (b"XA_XID", id) => self.id = Some(id.as_text()?.trim()),
            _ => {}
        }
        Ok(())
    }
}

/// Header of an entry.
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
    /// The executed GTID set, if canal reads from a GTID. Otherwise the GTID of this transaction, if the server has
    /// GTIDs.
    gtid: &'a str,
}

/// Texts of the last header, which the entries of a batch repeat.
#[derive(Default)]
struct LastTexts<'a> {
    file: &'a str,
    database: &'a str,
    table: &'a str,
    /// A property, and the GTID in it.
    property: (&'a [u8], Option<&'a str>),
}

impl<'a> LastTexts<'a> {
    /// Returns the GTID of a transaction, if the property has one.
    fn gtid(&mut self, property: Reader<'a>) -> Result<Option<&'a str>> {
        if property.rest() != self.property.0 {
            self.property = (property.rest(), gtid_of_transaction(property)?);
        }
        Ok(self.property.1)
    }
}

/// Returns the text. It usually equals the last text, which needs no validation.
#[inline]
fn cached_text<'a>(bytes: Reader<'a>, last: &mut &'a str) -> Result<&'a str> {
    if bytes.rest() != last.as_bytes() {
        *last = bytes.as_text()?;
    }
    Ok(last)
}

impl<'a> Header<'a> {
    /// Reads an empty header's fields.
    fn read(&mut self, message: Reader<'a>, last: &mut LastTexts<'a>) -> Result<()> {
        let (mut rest, mut current_gtid) = (message, "");
        if self.read_usual(&mut rest, last).is_err() {
            // A fault gets its path below.
            (*self, rest) = (Header::default(), message);
        }
        rest.fields(header::KNOWN, |tag, reader| {
            match tag {
                header::version => self.version = Some(reader.varint()?),
                header::logfileName => self.file = cached_text(reader.bytes()?, &mut last.file)?,
                header::logfileOffset => self.position = Some(reader.varint()? as i64),
                header::serverId => self.server_id = Some(reader.varint()? as i64),
                header::executeTime => self.event_time = micros(reader.varint()?),
                header::sourceType => self.source_type = reader.varint()?,
                header::schemaName => {
                    self.database = cached_text(reader.bytes()?, &mut last.database)?
                }
                header::tableName => self.table = cached_text(reader.bytes()?, &mut last.table)?,
                header::eventType => self.event_type = event_type(reader.varint()?),
                header::props => current_gtid = last.gtid(reader.bytes()?)?.unwrap_or(current_gtid),
                header::gtid => self.gtid = reader.text()?,
                _ => reader.skip(tag, header::KNOWN)?,
            }
            Ok(())
        })?;
        if self.gtid.is_empty() {
            self.gtid = current_gtid;
        }
        Ok(())
    }

    /// Reads fields in the usual order. A processor predicts these branches, but not a jump for each field.
    #[inline(always)]
    fn read_usual(&mut self, fields: &mut Reader<'a>, last: &mut LastTexts<'a>) -> Result<()> {
        self.version = fields
            .eat(header::version)
            .then(|| fields.varint())
            .transpose()?;
        if fields.eat(header::logfileName) {
            self.file = cached_text(fields.bytes()?, &mut last.file)?;
        }
        self.position = fields
            .eat(header::logfileOffset)
            .then(|| fields.varint())
            .transpose()?
            .map(|at| at as i64);
        self.server_id = fields
            .eat(header::serverId)
            .then(|| fields.varint())
            .transpose()?
            .map(|id| id as i64);
        if fields.eat(header::serverenCode) {
            fields.bytes()?;
        }
        self.event_time = fields
            .eat(header::executeTime)
            .then(|| fields.varint())
            .transpose()?
            .and_then(micros);
        if fields.eat(header::sourceType) {
            self.source_type = fields.varint()?;
        }
        if fields.eat(header::schemaName) {
            self.database = cached_text(fields.bytes()?, &mut last.database)?;
        }
        if fields.eat(header::tableName) {
            self.table = cached_text(fields.bytes()?, &mut last.table)?;
        }
        if fields.eat(header::eventLength) {
            fields.varint()?;
        }
        self.event_type = fields
            .eat(header::eventType)
            .then(|| fields.varint())
            .transpose()?
            .and_then(event_type);
        Ok(())
    }

    /// Adds the envelope of a row change, or of an event without a table. `set` sets the other fields. Returns the
    /// envelope's index.
    #[inline(always)]
    fn envelope(
        &self,
        operation: Cow<'a, str>,
        transaction: Option<&'a str>,
        context: &mut EntryContext<'_, '_, 'a>,
        set: impl FnOnce(&mut Envelope<'a>),
    ) -> Result<usize> {
        // TiCDC has no binlog file.
        let quirks = if self.file.is_empty() {
            &TIDB
        } else {
            context.reading.quirks
        };
        if let Some(envelope) = context.events.new_envelope(quirks) {
            envelope.source.event_time = self.event_time;
            envelope.source.operation = Some(operation);
            envelope.source.file = not_empty(self.file);
            envelope.source.position = self.position;
            envelope.source.gtid = not_empty(self.gtid);
            envelope.source.transaction_id = transaction.and_then(not_empty);
            envelope.database = Some(quirks.quoting.undo(self.database));
            envelope.table = Some(quirks.quoting.undo(self.table));
            envelope.connector = Some(enum_name(&SOURCE_TYPES, self.source_type));
            envelope.server_id = self.server_id;
            envelope.version = self.version.map(version);
            set(envelope);
        }
        context.events.last_envelope()
    }

    /// Emits the row of an entry that is not a row change.
    fn emit(
        &self,
        op: Op,
        kind: u64,
        transaction: Option<&'a str>,
        context: &mut EntryContext<'_, '_, 'a>,
    ) -> Result<()> {
        let operation = match self.event_type {
            Some(event_type) => event_name(event_type),
            None => enum_name(&ENTRY_TYPES, kind),
        };
        let envelope = self.envelope(operation, transaction, context, |envelope| {
            for name in [&mut envelope.database, &mut envelope.table] {
                *name = name.take().filter(|name| !name.is_empty());
            }
        })?;
        context.events.row(op, envelope, None, None);
        Ok(())
    }
}

/// Returns an event type; 0 means unset.
fn event_type(number: u64) -> Option<u64> {
    Some(number).filter(|number| *number != 0)
}

fn not_empty(text: &str) -> Option<Cow<'_, str>> {
    (!text.is_empty()).then_some(Cow::Borrowed(text))
}

/// Returns the protocol's version, which is 1 in all known messages.
fn version(number: u64) -> Cow<'static, str> {
    if number == 1 {
        "1".into()
    } else {
        number.to_string().into()
    }
}

/// Converts milliseconds; 0 means unset.
fn micros(millis: u64) -> Option<i64> {
    Some((millis as i64).saturating_mul(1000)).filter(|micros| *micros != 0)
}

/// Returns the GTID of a single transaction.
fn gtid_of_transaction<'a>(props: Reader<'a>) -> Result<Option<&'a str>> {
    let (key, value) = pair(props)?;
    (key == b"curtGtid").then(|| value.as_text()).transpose()
}
