//! Messages of canal's `CanalProtocol.proto` and `EntryProtocol.proto`: fields, enums, and detection.

use std::borrow::Cow;

use crate::dialect::canal_json::EVENTS;
use crate::wire::protobuf::{Field, Reader};

/// Declares the fields of a message of `CanalProtocol.proto` or `EntryProtocol.proto`, by canal's names.
macro_rules! message {
    ($message:ident { $($number:literal $name:ident: $wire_type:ident,)* }) => {
        #[expect(non_upper_case_globals, reason = "as canal spells them")]
        pub mod $message {
            use crate::wire::protobuf::{self, KnownField, Tag};
            $(pub const $name: Tag = protobuf::$wire_type($number);)*
            pub const KNOWN: &[KnownField] = &[$(KnownField { tag: $name, name: stringify!($name) }),*];
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
    // A DDL may quote it with backticks.
    8 schemaName: bytes,
    9 tableName: bytes,
    10 eventLength: number,
    11 eventType: number,
    12 props: bytes,
    // The executed GTID set, not only this transaction's GTID.
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
    // The default database of a statement. The table's database may differ.
    14 ddlSchemaName: bytes,
});

message!(row_data {
    1 beforeColumns: bytes,
    2 afterColumns: bytes,
    3 props: bytes,
});

message!(column {
    1 index: number,
    // JDBC type number. A large unsigned value has the number of the next wider type.
    2 sqlType: number,
    3 name: bytes,
    4 isKey: number,
    // Redundant with the values.
    5 updated: number,
    6 isNull: number,
    7 props: bytes,
    // Absent for NULL, and for TiCDC's empty text.
    8 value: bytes,
    9 length: number,
    // The declared type.
    10 mysqlType: bytes,
});

/// Names of packet types.
pub const PACKET_TYPES: [&str; 13] = [
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
pub const PACKET_ACK: u64 = 3;
pub const PACKET_MESSAGES: u64 = 7;

/// Names of compressions. canal's own reader supports the first two.
pub const COMPRESSIONS: [&str; 5] = ["COMPRESSIONCOMPATIBLEPROTO2", "NONE", "ZLIB", "GZIP", "LZF"];
pub const NONE: u64 = 1;

/// Names of entry types. The first one means unset.
pub const ENTRY_TYPES: [&str; 6] = [
    "ENTRYTYPECOMPATIBLEPROTO2",
    "TRANSACTIONBEGIN",
    "ROWDATA",
    "TRANSACTIONEND",
    "HEARTBEAT",
    "GTIDLOG",
];
pub const TRANSACTION_BEGIN: u64 = 1;
pub const ROW_DATA: u64 = 2;
pub const TRANSACTION_END: u64 = 3;
pub const HEARTBEAT: u64 = 4;
pub const GTID_LOG: u64 = 5;

/// The default event type.
pub const UPDATE: u64 = 2;

/// Source types, by other producers' connector names.
pub const SOURCE_TYPES: [&str; 4] = ["mysql", "oracle", "mysql", "postgresql"];

/// Returns the name of an enum's number, or the number as text.
pub fn enum_name(names: &[&'static str], number: u64) -> Cow<'static, str> {
    match names.get(usize::try_from(number).unwrap_or(usize::MAX)) {
        Some(name) => (*name).into(),
        None => number.to_string().into(),
    }
}

/// Returns the name of an event type other than 0, which means unset.
pub fn event_name(number: u64) -> Cow<'static, str> {
    let at = usize::try_from(number)
        .ok()
        .and_then(|at| at.checked_sub(1));
    match at.and_then(|at| EVENTS.get(at)) {
        Some((name, _)) => (*name).into(),
        None => number.to_string().into(),
    }
}

/// Returns whether the bytes are a message of canal. Checks for known fields with the expected wire types, down to the
/// first entry and its header.
pub fn is_canal(message: &[u8]) -> bool {
    let message = Reader::new(message);
    message.begins_with(packet::KNOWN) && is_packet(message)
        || message.begins_with(batch::KNOWN) && is_messages(message)
        || message.begins_with(entry::KNOWN) && is_entry(message)
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
            // canal's empty packets have a version.
            (PACKET_MESSAGES, 0..=NONE) => is_messages(body) || body.is_empty() && version == 1,
            (PACKET_MESSAGES, other) => other < COMPRESSIONS.len() as u64 && !body.is_empty(),
            (PACKET_ACK, _) => !body.is_empty() && body.is_message(ack::KNOWN, |_| true),
            _ => false,
        }
}

/// Returns whether the bytes are a `Messages`. Checks only the first entry.
fn is_messages(mut message: Reader<'_>) -> bool {
    while let Ok(Some(Field { tag, bytes, .. })) = message.next() {
        match tag {
            batch::batch_id => {}
            _ => return tag == batch::messages && is_entry(bytes),
        }
    }
    false
}

/// Returns whether this is an entry with a header and a type. canal and TiCDC always write both.
fn is_entry(message: Reader<'_>) -> bool {
    let (mut has_header, mut has_kind) = (false, false);
    let is_message = message.is_message(entry::KNOWN, |Field { tag, varint, bytes }| {
        has_header |= *tag == entry::header;
        has_kind |= *tag == entry::entryType;
        match *tag {
            entry::header => !bytes.is_empty() && bytes.is_message(header::KNOWN, |_| true),
            entry::entryType => *varint < ENTRY_TYPES.len() as u64,
            _ => true,
        }
    });
    is_message && has_header && has_kind
}
