//! prost: canal's messages as structs that own their text, with the fields that canal writes. Sharing the bytes of a
//! packet's body instead of copying them made no measurable difference.

use std::hint::black_box;

use arrow_array::BinaryArray;
use prost::{DecodeError, Message};

#[derive(Message)]
struct Packet {
    #[prost(int32, optional, tag = "2")]
    version: Option<i32>,
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(bytes = "vec", tag = "5")]
    body: Vec<u8>,
}

#[derive(Message)]
struct Messages {
    #[prost(int64, tag = "1")]
    batch: i64,
    #[prost(bytes = "vec", repeated, tag = "2")]
    entries: Vec<Vec<u8>>,
}

#[derive(Message)]
struct Entry {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(int32, tag = "2")]
    kind: i32,
    #[prost(bytes = "vec", tag = "3")]
    content: Vec<u8>,
}

#[derive(Message)]
struct Header {
    #[prost(int32, tag = "1")]
    version: i32,
    #[prost(string, tag = "2")]
    file: String,
    #[prost(int64, tag = "3")]
    offset: i64,
    #[prost(int64, tag = "4")]
    server: i64,
    #[prost(string, tag = "5")]
    encoding: String,
    #[prost(int64, tag = "6")]
    executed: i64,
    #[prost(int32, tag = "7")]
    source: i32,
    #[prost(string, tag = "8")]
    database: String,
    #[prost(string, tag = "9")]
    table: String,
    #[prost(int64, tag = "10")]
    length: i64,
    #[prost(int32, tag = "11")]
    event: i32,
    #[prost(message, repeated, tag = "12")]
    properties: Vec<Pair>,
}

#[derive(Message)]
struct Pair {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Message)]
struct RowChange {
    #[prost(int64, tag = "1")]
    table: i64,
    #[prost(int32, tag = "2")]
    event: i32,
    #[prost(bool, tag = "10")]
    ddl: bool,
    #[prost(string, tag = "11")]
    sql: String,
    #[prost(message, repeated, tag = "12")]
    rows: Vec<RowData>,
    #[prost(message, repeated, tag = "13")]
    properties: Vec<Pair>,
}

#[derive(Message)]
struct RowData {
    #[prost(message, repeated, tag = "1")]
    before: Vec<Column>,
    #[prost(message, repeated, tag = "2")]
    after: Vec<Column>,
}

#[derive(Message)]
struct Column {
    #[prost(int32, tag = "1")]
    index: i32,
    #[prost(int32, tag = "2")]
    jdbc_type: i32,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(bool, tag = "4")]
    key: bool,
    #[prost(bool, tag = "5")]
    updated: bool,
    #[prost(bool, tag = "6")]
    null: bool,
    #[prost(string, tag = "8")]
    value: String,
    #[prost(string, tag = "10")]
    mysql_type: String,
}

#[derive(Message)]
struct TransactionBegin {
    #[prost(int64, tag = "4")]
    thread: i64,
}

#[derive(Message)]
struct TransactionEnd {
    #[prost(string, tag = "2")]
    transaction: String,
}

/// A completely read entry.
#[expect(dead_code, reason = "only built")]
enum Content {
    Begin(Header, TransactionBegin),
    Rows(Header, RowChange),
    End(Header, TransactionEnd),
}

fn read(packet: &[u8]) -> Result<Vec<Content>, DecodeError> {
    let messages = Messages::decode(&Packet::decode(packet)?.body[..])?;
    messages
        .entries
        .iter()
        .map(|entry| content(Entry::decode(&entry[..])?))
        .collect()
}

fn content(entry: Entry) -> Result<Content, DecodeError> {
    let (header, bytes) = (entry.header.unwrap_or_default(), &entry.content[..]);
    Ok(match entry.kind {
        1 => Content::Begin(header, TransactionBegin::decode(bytes)?),
        3 => Content::End(header, TransactionEnd::decode(bytes)?),
        _ => Content::Rows(header, RowChange::decode(bytes)?),
    })
}

pub fn prost_structs(messages: &BinaryArray) {
    for message in messages.iter().flatten() {
        black_box(read(message).expect("the corpus is right"));
    }
}

/// Returns the number of rows and transaction marks, and the sums of the ids before and after. They prove that the
/// structs are filled.
pub fn found(messages: &BinaryArray) -> (u64, i64, i64) {
    let contents = messages
        .iter()
        .flatten()
        .flat_map(|message| read(message).expect("the corpus is right"));
    contents.fold((0, 0, 0), |(rows, before, after), content| match content {
        Content::Rows(_, change) => (
            rows + change.rows.len() as u64,
            before + change.rows.iter().map(|row| id(&row.before)).sum::<i64>(),
            after + change.rows.iter().map(|row| id(&row.after)).sum::<i64>(),
        ),
        _ => (rows + 1, before, after),
    })
}

fn id(columns: &[Column]) -> i64 {
    columns
        .iter()
        .filter(|column| column.key)
        .map(|column| column.value.parse::<i64>().expect("ids are numbers"))
        .sum()
}
