//! canal's protobuf against prost: the rows of a RowChange.

use arrow_array::cast::AsArray;
use arrow_array::{Array, MapArray};
use prost::Message as _;
use towpath::Layout;

use super::captures::Message;
use super::dialects::{decode, errors};
use super::options::{decoder, plain};

#[derive(prost::Message)]
struct Packet {
    #[prost(int32, tag = 2)]
    version: i32,
    #[prost(int32, tag = 3)]
    kind: i32,
    #[prost(bytes = "vec", tag = 5)]
    body: Vec<u8>,
}

#[derive(prost::Message)]
struct Messages {
    #[prost(bytes = "vec", repeated, tag = 2)]
    entries: Vec<Vec<u8>>,
}

#[derive(prost::Message)]
struct Entry {
    #[prost(message, optional, tag = 1)]
    header: Option<Header>,
    #[prost(int32, tag = 2)]
    kind: i32,
    #[prost(bytes = "vec", tag = 3)]
    store_value: Vec<u8>,
}

#[derive(prost::Message)]
struct Header {
    #[prost(string, tag = 8)]
    schema_name: String,
    #[prost(string, tag = 9)]
    table_name: String,
}

#[derive(prost::Message)]
struct RowChange {
    #[prost(int64, tag = 1)]
    table_id: i64,
    #[prost(int32, tag = 2)]
    event: i32,
    #[prost(bool, tag = 10)]
    is_ddl: bool,
    #[prost(string, tag = 11)]
    sql: String,
    #[prost(message, repeated, tag = 12)]
    rows: Vec<RowData>,
    #[prost(message, repeated, tag = 13)]
    props: Vec<Pair>,
    #[prost(string, tag = 14)]
    ddl_schema_name: String,
}

#[derive(prost::Message)]
struct RowData {
    #[prost(message, repeated, tag = 1)]
    before: Vec<Column>,
    #[prost(message, repeated, tag = 2)]
    after: Vec<Column>,
    #[prost(message, repeated, tag = 3)]
    props: Vec<Pair>,
}

#[derive(prost::Message)]
struct Column {
    #[prost(int32, tag = 1)]
    index: i32,
    #[prost(int32, tag = 2)]
    sql_type: i32,
    #[prost(string, tag = 3)]
    name: String,
    #[prost(bool, tag = 4)]
    is_key: bool,
    #[prost(bool, tag = 5)]
    updated: bool,
    #[prost(bool, tag = 6)]
    is_null: bool,
    #[prost(message, repeated, tag = 7)]
    props: Vec<Pair>,
    #[prost(string, tag = 8)]
    value: String,
    #[prost(int32, tag = 9)]
    length: i32,
    #[prost(string, tag = 10)]
    mysql_type: String,
}

#[derive(prost::Message)]
struct Pair {
    #[prost(string, tag = 1)]
    key: String,
    #[prost(string, tag = 2)]
    value: String,
}

const INSERT: i32 = 1;
const UPDATE: i32 = 2;
const DELETE: i32 = 3;

/// Checks the bytes of a RowChange. prost writes the packet around it.
pub fn check(data: &[u8]) {
    // prost may refuse a field that towpath skips.
    let Ok(change) = RowChange::decode(data) else {
        return;
    };
    if change.is_ddl || !matches!(change.event, INSERT | UPDATE | DELETE) || change.rows.is_empty()
    {
        return;
    }
    let rows = decode(
        &decoder(plain("canal-protobuf")),
        &[Message {
            key: None,
            value: Some(packet(data.to_vec())),
        }],
    );
    let error = errors(&rows, Layout::Change);
    if error.is_valid(0) {
        let kind = error["kind"].as_string::<i32>().value(0);
        // canal's messages have no groups. prost skips groups.
        let has_group = error["message"]
            .as_string::<i32>()
            .value(0)
            .contains("unexpected group");
        assert!(
            has_group || !matches!(kind, "syntax" | "encoding"),
            "prost reads what is an error: {error:?}"
        );
        return;
    }
    assert_eq!(rows.num_rows(), change.rows.len());
    for (at, row) in change.rows.iter().enumerate() {
        let names = |columns: &[Column]| {
            columns
                .iter()
                .map(|column| column.name.clone())
                .collect::<Vec<_>>()
        };
        match change.event {
            INSERT => check_image(&row.after, rows["after"].as_map(), at),
            DELETE if row.before.is_empty() => check_image(&row.after, rows["before"].as_map(), at),
            _ => check_image(&row.before, rows["before"].as_map(), at),
        }
        // An after image that lacks columns is merged onto the before image.
        if change.event == UPDATE && names(&row.before) == names(&row.after) {
            check_image(&row.after, rows["after"].as_map(), at);
        }
    }
}

/// Returns the contents of the entries of a packet, as bytes.
pub fn row_changes(packet: &[u8]) -> Vec<Vec<u8>> {
    let body = Packet::decode(packet)
        .map(|packet| packet.body)
        .unwrap_or_default();
    let entries = Messages::decode(&body[..])
        .map(|messages| messages.entries)
        .unwrap_or_default();
    entries
        .iter()
        .filter_map(|entry| Entry::decode(&entry[..]).ok())
        .map(|entry| entry.store_value)
        .collect()
}

fn packet(store_value: Vec<u8>) -> Vec<u8> {
    const ROWS: i32 = 2;
    const MESSAGES: i32 = 7;
    let header = Header {
        schema_name: "shop".into(),
        table_name: "orders".into(),
    };
    let entry = Entry {
        header: Some(header),
        kind: ROWS,
        store_value,
    };
    let body = Messages {
        entries: vec![entry.encode_to_vec()],
    }
    .encode_to_vec();
    Packet {
        version: 1,
        kind: MESSAGES,
        body,
    }
    .encode_to_vec()
}

fn check_image(columns: &[Column], images: &MapArray, row: usize) {
    let mut names: Vec<&String> = columns.iter().map(|column| &column.name).collect();
    names.sort();
    names.dedup();
    // The last of several columns with one name counts, but its place may be another's. canal's backticks are not part
    // of a name.
    if names.len() < columns.len()
        || names.iter().any(|name| name.contains('`'))
        || images.is_null(row)
    {
        return;
    }
    let entries = images.value(row);
    let (names, values) = (
        entries.column(0).as_string::<i32>(),
        entries.column(1).as_string::<i32>(),
    );
    assert_eq!(names.len(), columns.len());
    for (at, column) in columns.iter().enumerate() {
        let found = (
            names.value(at),
            values.is_valid(at).then(|| values.value(at)),
        );
        assert_eq!(
            found,
            (&*column.name, (!column.is_null).then_some(&*column.value)),
            "{column:?}"
        );
    }
}
